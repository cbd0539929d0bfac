// experts_test.c: what mixtures of experts become, and what a capacity leaves out.
//
// That products of chosen matrices are what their text says, and that all layouts of a program agree, passes_test,
// top_test and layouts_test try. Here layouts with a capacity are compared with one rank that has as many microbatches
// as they have ranks with positions of their own; loads and what is dropped with counts of the choices; and the shape
// of plans with what it is to be: one order for an index, nothing made of a matrix for each position, no sums over
// ranks but those of tokens.
#include "compiler/plan/waits.h"
#include "tests/layouts_outcome.h"

static const double tolerance = 1e-9;

// `extra`: a line of the model, or of its declarations.
static const char program[] =
    "import std.nn;\n"
    "model m {\n"
    "  axis batch, seq, vocab = 7, embed = 8, wide = 12, experts = 4, choice = 2, layers = 2;\n"
    "  input tokens, targets: index(vocab)[batch, seq];\n"
    "  param table: [vocab, embed] ~ normal(0.5);\n"
    "  x = table[tokens];\n"
    "  excess = 0;\n"
    "  busy = 0;\n"
    "  parts = 0;\n"
    "  repeat layers as l {\n"
    "    scores = linear(x over embed to experts, std = 0.5, name = router);\n"
    "    (best, who) = top(scores over experts to choice);\n"
    "    param up: [experts | embed ; wide] ~ normal(0.5);\n"
    "    param gate: [experts | embed ; wide] ~ normal(0.5);\n"
    "    param down: [experts | wide ; embed] ~ normal(0.5);\n"
    "    h = silu(dot(x, gate[who] over embed)) * dot(x, up[who] over embed);\n"
    "    x = x + sum(dot(h, down[who] over wide) * softmax(best over choice) over choice);\n"
    "    count = sum(where(who == pos(experts), 1, 0) over batch, seq, choice);\n"
    "    more = sum(relu(count - bound) over experts);\n"
    "    excess = excess + more;\n"
    "    parts = parts + more * (1 + 99 * l);\n"
    "    busy = busy + max(count over experts) * (1 + 99 * l);\n"
    "  }\n"
    "  loss = mean(cross_entropy(dot(x, table over embed), targets over vocab));\n"
    "  output excess;\n"
    "  output parts;\n"
    "  output busy;\n"
    "}\n"
    "recipe r {\n  model m();\n  batch = 8;\n  seq = 4;\n  optimizer adamw(lr = constant(0.01), clip = 1.0);\n}\n";

// compared: with gradients among the outputs. poison: NaN wherever anything may be.
static LayoutRun *compiled_with(Arena *arena, int most, const char *layout, const char *precision, bool compared,
                                bool poison) {
  const char *at = strstr(program, "bound"), *text;
  text = arena_format(arena, "%.*s%d%s\nlayout l { %s }\n", (int)(at - program), program, most, at + 5, layout);
  const CompileOptions options = {
      .layout = "l", .precision = precision, .gradients = compared, .poison = poison, .part_rows = INT64_MAX};
  LayoutRun *run = layout_compile_text(text, &options);
  if (!run) {
    fail_msg("%s does not compile", layout);
  }
  return run;
}

// As it is trained: in fp32, without gradients among the outputs.
static LayoutRun *compiled(Arena *arena, int most, const char *layout, bool compared) {
  return compiled_with(arena, most, layout, compared ? "fp64" : "fp32", compared, false);
}

// --- capacity ---

static void outcome_of(Arena *arena, const char *layout, Outcome *outcome) {
  LayoutRun *run = compiled(arena, 0, layout, true);
  outcome_run(run, layout, 30, arena, outcome);
}

// Ranks that share the batch leave out what microbatches of the same parts leave out, whoever has the experts.
static void test_capacity_is_of_a_rank(void **state) {
  (void)state;
  static const struct {
    const char *one, *many;
  } pairs[] = {
      {"microbatches = 2;", "mesh dp = 2; batch -> dp;"},
      {"microbatches = 2;", "mesh ep = 2; batch -> ep; experts -> ep; router: experts -> none;"},
      {"microbatches = 4;", "mesh ep = 4; batch -> ep; experts -> ep;"},
      {"microbatches = 4;", "mesh dp = 2, ep = 2; batch -> dp, ep; experts -> ep; grad, state -> dp;"},
      {"microbatches = 1;", "mesh ep = 2, tp = 2; experts -> ep; wide -> tp;"},
      {"microbatches = 2;", "mesh pp = 2; layers -> pp; microbatches = 2;"},
  };
  static const char *const capacities[] = {"0.5", "1", "1.25", "4"};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    for (size_t c = 0; c < sizeof capacities / sizeof *capacities; c++) {
      Arena *arena = arena_create();
      Outcome expected = {0}, found = {0};
      char said[512];
      outcome_of(arena, arena_format(arena, "%s capacity = %s;", pairs[i].one, capacities[c]), &expected);
      outcome_of(arena, arena_format(arena, "%s capacity = %s;", pairs[i].many, capacities[c]), &found);
      if (!outcome_same(&expected, &found, tolerance, true, said, sizeof said)) {
        fail_msg("%s with a capacity of %s: %s", pairs[i].many, capacities[c], said);
      }
      arena_destroy(arena);
    }
  }
}

// A control: one rank that has all positions leaves out others.
static void test_capacity_of_all_differs(void **state) {
  (void)state;
  Arena *arena = arena_create();
  Outcome expected = {0}, found = {0};
  char said[512];
  outcome_of(arena, "microbatches = 2; capacity = 1;", &expected);
  outcome_of(arena, "microbatches = 1; capacity = 1;", &found);
  assert_false(outcome_same(&expected, &found, tolerance, true, said, sizeof said));
  arena_destroy(arena);
}

// Products make 0 of a choice that is left out. Behind them stand biases of its expert and of all, scales, functions
// that are not 0 at 0, or are infinite there, or whose slopes are; with an axis of choices, and without one, where what
// stands beside stays, as does what only some of the axes of positions have, in the text and as a gradient of means.
static const char behind[] =
    "import std.nn;\n"
    "model m {\n"
    "  axis batch, seq, vocab = 7, embed = 8, wide = 12, experts = 4, choice = 2, layers = 2;\n"
    "  axis b like batch, s like seq, c like choice;\n"
    "  input tokens, targets: index(vocab)[batch, seq];\n"
    "  param table: [vocab, embed] ~ normal(0.5);\n"
    "  x = table[tokens];\n"
    "  far = 0;\n"
    "  near = 0;\n"
    "  repeat layers {\n"
    "    (best, who) = top(linear(x over embed to experts, std = 0.5, name = router) over experts to choice);\n"
    "    param up: [experts | embed ; wide] ~ normal(0.5);\n"
    "    param up_bias: [experts, wide] ~ normal(0.5);\n"
    "    param up_scale: [experts, wide] ~ normal(0.5);\n"
    "    param down: [experts | wide ; embed] ~ normal(0.5);\n"
    "    param down_bias: [experts, embed] ~ normal(0.5);\n"
    "    param every: [embed] ~ normal(0.5);\n"
    "    param lean: [experts, embed] ~ normal(0.5);\n"
    "    h = gelu(dot(x, up[who] over embed) + up_bias[who]) * up_scale[who];\n"
    "    d = dot(h, down[who] over wide);\n"
    "    y = sigmoid(d + tanh(down_bias[stop(who)]) + every) + 0.1 * log(sum(square(d) over embed)) + 0.01 * tanh(x / "
    "d);\n"
    "    u = sigmoid(d) - softmax(best - 20 over choice);\n"
    "    q = square(up_scale[who]);\n"
    "    v = sigmoid(where(softmax(best over choice) > 0.5, 1, d)) + mean(x over embed) * log(mean(q over wide)) + "
    "softmax(best over choice) * tanh(best) / mean(q over wide);\n"
    "    z = d * every;\n"
    "    v = v + z / (sqrt(sum(square(z) over embed)) + 0.01) + 0.1 * sqrt(abs(best) * softmax(best over choice)) + "
    "sqrt(square(d) / (1 + square(x)));\n"
    "    v = v + 0.1 * (mean(dot(x + lean[who], up[who] over embed) over wide) * best + best);\n"
    "    a = sigmoid(sum(d * every over embed));\n"
    "    t = sum(a over choice);\n"
    "%s"
    "    x = x + 0.1 * sum(d * (a / t) over choice);\n"
    "    far = far + mean(where(y > 0.5, tanh(y), -y)) + mean(square(u));\n"
    "    near = near + mean(square(mean(x over seq))) + mean(x) + mean(u * x + v * x);\n"
    "    x = x + 0.1 * sum((y + tanh(x)) * best over choice) + 0.1 * sum((y + mean(x over seq)) * best over choice);\n"
    "    x = x + sum(y * softmax(best over choice) over choice) + 0.1 * sum(x * tanh(y) * best over choice) + "
    "0.1 * x * sum(best over choice);\n"
    "    param turn: [experts | embed ; wide] ~ normal(0.5);\n"
    "    param back: [experts | wide ; embed] ~ normal(0.5);\n"
    "    place = ((tokens %% 5) - 1) as index(experts);\n"
    "    one = cos(dot(tanh(dot(x, turn[place] over embed)), back[place] over wide) + down_bias[place]);\n"
    "%s"
    "    near = near + mean(one * tanh(mean(x over seq)));\n"
    "    x = x + one * sigmoid(x) + 0.2 * one;\n"
    "  }\n"
    "  output far;\n"
    "  loss = mean(cross_entropy(dot(x, table over embed), targets over vocab)) + 0.1 * near;\n"
    "}\n"
    "recipe r {\n  model m();\n  batch = 8;\n  seq = 4;\n  allow E049;\n  optimizer adamw(lr = constant(0.01), clip = "
    "1.0);\n}\n"
    "layout l { %s }\n";

// The same by counting, of one rank and a capacity of 1: 16 of 64 choices, and 8 of 32.
static const char by_counting[] =
    "    if training {\n"
    "      n = (((who as int) * 0 + pos(batch)) * 4 + pos(seq)) * 2 + pos(choice);\n"
    "      other = who[batch -> b, seq -> s, choice -> c];\n"
    "      before = sum(where(other == who and n[batch -> b, seq -> s, choice -> c] < n, 1, 0) over b, s, c);\n"
    "      y = where(before < 16, y, 0);\n"
    "      u = where(before < 16, u, 0);\n"
    "      v = where(before < 16, v, 0);\n"
    "      a = where(before < 16, a, 0);\n"
    "      t = sum(a over choice);\n"
    "      t = where(t > 0, t, 1);\n"
    "    }\n";
static const char by_counting_once[] =
    "    if training {\n"
    "      at = max(place as int, 0);\n"
    "      number = (at * 0 + pos(batch)) * 4 + pos(seq);\n"
    "      earlier = at[batch -> b, seq -> s] == at and number[batch -> b, seq -> s] < number;\n"
    "      one = where(sum(where(earlier, 1, 0) over b, s) < 8, one, 0);\n"
    "    }\n";

static void outcome_behind(Arena *arena, const char *layout, bool count, Outcome *outcome) {
  const char *text = arena_format(arena, behind, count ? by_counting : "", count ? by_counting_once : "", layout);
  const CompileOptions options = {.layout = "l", .precision = "fp64", .gradients = true, .part_rows = INT64_MAX};
  LayoutRun *run = layout_compile_text(text, &options);
  if (!run) {
    fail_msg("%s does not compile", layout);
  }
  outcome_run(run, layout, 30, arena, outcome);
}

// Of the choices that are left out the log has numbers, a text that counts by itself has none.
static void leave_out_dropped(Outcome *outcome) {
  int count = 0;
  for (int i = 0; i < outcome->at.count; i++) {
    outcome->at.at[count] = outcome->at.at[i];
    count += strstr(outcome->at.at[i].name, " dropped") == NULL;
  }
  outcome->at.count = count;
}

static void test_left_out_adds_nothing(void **state) {
  (void)state;
  static const char *const layouts[] = {
      "",
      "mesh ep = 2; experts -> ep;",
      "mesh tp = 2; wide -> tp;",
      "mesh ep = 2, tp = 2; experts -> ep; embed -> tp;",
      "recompute *;",
      "mesh pp = 2, ep = 2; layers -> pp; experts -> ep;",
  };
  Arena *arena = arena_create();
  Outcome expected = {0}, all = {0};
  char said[512];
  outcome_behind(arena, "", true, &expected);
  outcome_behind(arena, "", false, &all);
  assert_false(outcome_same(&expected, &all, tolerance, true, said, sizeof said));  // a control: nothing is left out
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    Outcome found = {0};
    outcome_behind(arena, arena_format(arena, "%s capacity = 1;", layouts[i]), false, &found);
    leave_out_dropped(&found);
    if (!outcome_same(&expected, &found, tolerance, true, said, sizeof said)) {
      fail_msg("%s: %s", layouts[i], said);
    }
  }
  arena_destroy(arena);
}

// Ranks that share the batch, as in test_capacity_is_of_a_rank.
static void test_left_out_is_of_a_rank(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"microbatches = 2;", "mesh dp = 2; batch -> dp;"},
      {"microbatches = 4;", "mesh ep = 4; batch -> ep; experts -> ep; router: experts -> none;"},
      {"microbatches = 4;", "mesh dp = 2, ep = 2; batch -> dp, ep; experts -> ep; param -> dp;"},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    Arena *arena = arena_create();
    Outcome expected = {0}, found = {0};
    char said[512];
    outcome_behind(arena, arena_format(arena, "%s capacity = 0.5;", pairs[i][0]), false, &expected);
    outcome_behind(arena, arena_format(arena, "%s capacity = 0.5;", pairs[i][1]), false, &found);
    if (!outcome_same(&expected, &found, tolerance, true, said, sizeof said)) {
      fail_msg("%s: %s", pairs[i][1], said);
    }
    arena_destroy(arena);
  }
}

static double output_of(const Outcome *outcome, const char *name) {
  const Tensor *found = outcome_find(outcome, name);
  if (!found) {
    fail_msg("there is no '%s'", name);
  }
  return found ? found->data[0] : 0;
}

// 64 choices of 4 experts: half an even share is 8 positions.
static void test_dropped_is_counted(void **state) {
  (void)state;
  static const struct {
    const char *layout;
    int most;
  } cases[] = {{"capacity = 0.5;", 8}, {"capacity = 1;", 16}, {"capacity = 1.3;", 21}, {"capacity = 4;", 64}};
  int dropped = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Arena *arena = arena_create();
    Outcome outcome = {0};
    LayoutRun *run = compiled(arena, cases[i].most, cases[i].layout, true);
    outcome_run(run, cases[i].layout, 30, arena, &outcome);
    const double found = output_of(&outcome, "step 2 dropped"), counted = output_of(&outcome, "step 2 excess");
    if (found != counted) {
      fail_msg("%s: %g positions are dropped, not %g", cases[i].layout, found, counted);
    }
    dropped += (int)found;
    arena_destroy(arena);
  }
  assert_true(dropped > 0);
}

// What a text counts by itself, a hundred times for the second layer: 16 positions are an even share.
static void test_loads_are_of_layers(void **state) {
  (void)state;
  static const char *const layouts[] = {
      "capacity = 1;",
      "microbatches = 4; capacity = 100;",
      "mesh ep = 4; batch -> ep; experts -> ep; router: experts -> none; capacity = 100;",
      "mesh ep = 3; experts -> ep(pad); capacity = 1;",
      "mesh pp = 2, ep = 2; layers -> pp; microbatches = 2; experts, batch -> ep; capacity = 100;",
      "mesh dp = 2, tp = 2; batch -> dp; wide -> tp; state -> dp; capacity = 100;",
  };
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    Arena *arena = arena_create();
    Outcome outcome = {0};
    outcome_run(compiled(arena, 16, layouts[i], true), layouts[i], 30, arena, &outcome);
    const bool bounded = strstr(layouts[i], "capacity = 1;") != NULL;
    const double loads = 16 * output_of(&outcome, "step 2 load.layers.0") +
                         1600 * output_of(&outcome, "step 2 load.layers.1"),
                 parts = 64 * output_of(&outcome, "step 2 dropped.layers.0") +
                         6400 * output_of(&outcome, "step 2 dropped.layers.1"),
                 busy = output_of(&outcome, "step 2 busy"), counted = bounded ? output_of(&outcome, "step 2 parts") : 0;
    if (fabs(loads - busy) > tolerance * busy || fabs(parts - counted) > tolerance * 6400 || busy <= 1616) {
      fail_msg("%s: loads of %g, not %g; %g dropped, not %g", layouts[i], loads, busy, parts, counted);
    }
    arena_destroy(arena);
  }
}

// --- plans ---

typedef bool Wanted(const Instruction *instruction);

static int count_in_step(const LayoutRun *run, Wanted *wanted) {
  const Plan *plan = run->set->plans[0];
  int count = 0;
  for (int i = 0; i < plan->segment_count; i++) {
    const PlanSegment *segment = &plan->segments[i];
    for (int j = 0; j < segment->count && plan_calls(plan, PROGRAM_TRAIN, i) > 0; j++) {
      count += wanted(&segment->instructions[j]);
    }
  }
  return count;
}

static bool is_order(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_ORDER;
}

static bool is_grouped(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_GROUPED;
}

static bool is_grouped_sum(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_GROUPED_SUM;
}

static bool adds_up(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_TAKE && instruction->as.take.summed > 0;
}

static bool is_put(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_PUT;
}

static bool gathers(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_COLLECTIVE && instruction->as.collective.kind == COLLECTIVE_ALL_GATHER;
}

static bool scatters(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_COLLECTIVE && instruction->as.collective.kind == COLLECTIVE_REDUCE_SCATTER;
}

// Per layer: three products forward, and backward one of what comes back and two into what goes out; three of weights;
// what comes of the choices is added up once forward and once backward. The table's gradient alone is put together.
static void test_one_order_for_an_index(void **state) {
  (void)state;
  static const char *const layouts[] = {"microbatches = 1;", "microbatches = 2;", "mesh tp = 2; wide -> tp;",
                                        "mesh ep = 2; batch -> ep; experts -> ep; router: experts -> none;"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    Arena *arena = arena_create();
    LayoutRun *run = compiled(arena, 0, layouts[i], false);
    assert_int_equal(count_in_step(run, is_order), 2);
    assert_int_equal(count_in_step(run, is_grouped), 2 * 6);
    assert_int_equal(count_in_step(run, is_grouped_sum), 2 * 3);
    assert_int_equal(count_in_step(run, adds_up), 2 * 2);
    assert_int_equal(count_in_step(run, is_put), 1);
    arena_destroy(run->arena);
    arena_destroy(arena);
  }
}

// Tokens, choices and weights are gathered, and what experts make of tokens is scattered; backward what comes back is
// gathered, and gradients of tokens and of weights are scattered.
static void test_what_ranks_give(void **state) {
  (void)state;
  Arena *arena = arena_create();
  LayoutRun *run = compiled(arena, 0, "mesh ep = 2; batch -> ep; experts -> ep; router: experts -> none;", false);
  assert_int_equal(count_in_step(run, gathers), 2 * 4);
  assert_int_equal(count_in_step(run, scatters), 2 * 3 + 2);  // and `count`, of each expert
  arena_destroy(run->arena);
  arena_destroy(arena);
}

// The first of the list behind an instruction that waits for it; at most `count`.
static int waited_for(const PlanWaits *waits, int segment, int instruction, int count) {
  for (int i = instruction + 1; i < count; i++) {
    const PlanWaitList *list = &waits->of[segment][i];
    for (int j = 0; j < list->count; j++) {
      const PlanWait *wait = &list->at[j];
      if (wait->which == WAIT_THIS_CALL && wait->segment == segment && wait->instruction == instruction) {
        return i;
      }
    }
  }
  return count;
}

// Products of the shared experts of a layer that run while its tokens travel to all ranks of experts, `to`, or back,
// `from`.
static void count_beside(const Plan *plan, int layer, int *to, int *from) {
  Arena *arena = arena_create();
  const PlanWaits *waits = plan_waits(arena, plan);
  for (int s = 0; s < plan->segment_count; s++) {
    const PlanSegment *segment = &plan->segments[s];
    for (int i = 0; i < segment->count && plan_calls(plan, PROGRAM_TRAIN, s) > 0; i++) {
      const Instruction *at = &segment->instructions[i];
      char gathered[64], added[64], shared[64];
      snprintf(gathered, sizeof gathered, "layers.%d.mixed.h", layer);
      snprintf(added, sizeof added, "layers.%d.routed", layer);
      snprintf(shared, sizeof shared, "layers.%d.all.", layer);
      const bool travels = at->kind == INSTRUCTION_COLLECTIVE && at->aside && at->name;
      const bool goes = travels && strcmp(at->name, gathered) == 0, comes = travels && strcmp(at->name, added) == 0;
      const int until = goes || comes ? waited_for(waits, s, i, segment->count) : i;
      for (int j = i + 1; j < until; j++) {
        const Instruction *other = &segment->instructions[j];
        if (other->kind == INSTRUCTION_GEMM && other->name && strncmp(other->name, shared, strlen(shared)) == 0) {
          ++*(goes ? to : from);
        }
      }
    }
  }
  arena_destroy(arena);
}

// DeepSeek-V2-Lite: what all experts do is exchanged beside what the shared ones do. Not so (control) with overlap =
// false.
static void test_shared_experts_stand_beside(void **state) {
  (void)state;
  enum { LAYERS = 3 };
  FileError error;
  size_t length;
  char *text = file_read(MDL_SOURCE_DIR "/models/deepseek.mdl", &length, &error);
  assert_non_null(text);
  for (int alone = 0; alone < 2; alone++) {
    Arena *arena = arena_create();
    const char *set[] = {"layers=3", "batch=4"};
    const CompileOptions options = {
        .recipe = "deepseek_v2_lite", .layout = "l", .precision = "bf16_router", .set = set, .set_count = 2};
    LayoutRun *run = layout_compile_text(
        arena_format(arena, "%s\nlayout l { mesh ep = 2; batch, experts -> ep; router: experts -> none; %s }\n", text,
                     alone ? "overlap = false;" : ""),
        &options);
    assert_non_null(run);
    for (int layer = 1; layer < LAYERS; layer++) {
      int to = 0, from = 0;
      count_beside(run->set->plans[0], layer, &to, &from);
      assert_true(alone ? to == 0 && from == 0 : to > 0 && from > 0);
    }
    arena_destroy(run->arena);
    arena_destroy(arena);
  }
  free(text);
}

// --- rows that no position is in ---

static const char *const emptied[] = {
    "microbatches = 2;",
    "mesh ep = 2; batch -> ep; experts -> ep; router: experts -> none;",
    "mesh ep = 4; batch -> ep; experts -> ep; router: experts -> none; recompute layers.*;",
    "mesh dp = 2, ep = 2; batch -> dp, ep; experts -> ep; grad, state -> dp;",
    "mesh ep = 2, tp = 2; experts -> ep; wide -> tp;",
    "mesh pp = 2, ep = 2; layers -> pp; microbatches = 2; experts, batch -> ep;",
};

// What is undefined in empty blocks is NaN there, and nobody reads it.
static void test_nobody_reads_empty_rows(void **state) {
  (void)state;
  Arena *arena = arena_create();
  Outcome expected = {0};
  outcome_of(arena, "microbatches = 1;", &expected);
  for (size_t i = 0; i < sizeof emptied / sizeof *emptied; i++) {
    Outcome found = {0};
    char said[512];
    outcome_run(compiled_with(arena, 0, emptied[i], "fp64", true, true), emptied[i], 30, arena, &found);
    if (!outcome_same(&expected, &found, tolerance, true, said, sizeof said)) {
      fail_msg("%s: %s", emptied[i], said);
    }
  }
  arena_destroy(arena);
}

static bool leaves_rows(const Instruction *instruction) {
  return is_grouped(instruction) && instruction->as.grouped.leaves;
}

static bool takes_parts(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_TAKE && instruction->as.take.parts > 0;
}

static const Plan *plan_at_hand;

static bool computes_parts(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_KERNEL &&
         kernel_chosen(plan_at_hand->kernels[instruction->as.kernel.kernel]) >= 0;
}

// Per layer: all products but the one that is added to another; tokens, what comes back and weights into rows; which
// token a row has, what is between the products, and the gradient of that.
static void test_empty_rows_are_left_out(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    Arena *arena = arena_create();
    LayoutRun *run = compiled(arena, 0, emptied[i], false);
    plan_at_hand = run->set->plans[0];
    assert_int_equal(count_in_step(run, leaves_rows), 2 * 5);
    assert_int_equal(count_in_step(run, takes_parts), 2 * 3);
    assert_int_equal(count_in_step(run, computes_parts), 2 * 3);
    arena_destroy(run->arena);
    arena_destroy(arena);
  }
}

static bool adds_up_narrow(const Instruction *instruction) {
  return adds_up(instruction) && instruction->as.take.type_out == TYPE_BF16;
}

static bool scatters_narrow(const Instruction *instruction) {
  return scatters(instruction) && instruction->as.collective.type == TYPE_BF16;
}

// Sums over choices are products with the matrices of all choices: as any product under bf16, they are stored and sent
// in 16 bits. Gradients of weights and what is counted are sums.
static void test_sums_of_choices_are_products(void **state) {
  (void)state;
  Arena *arena = arena_create();
  LayoutRun *run = compiled_with(arena, 0, emptied[1], "bf16", false, false);
  assert_int_equal(count_in_step(run, adds_up_narrow), 2 * 2);
  assert_int_equal(count_in_step(run, scatters_narrow), 2 * 2);
  assert_int_equal(count_in_step(run, scatters), 2 * 3 + 2);
  arena_destroy(run->arena);
  arena_destroy(arena);
}

// A capacity of 1.25 over four ranks: a rank has rows for five quarters of what it has of the positions, not for all.
static void test_capacity_bounds_rows(void **state) {
  (void)state;
  static const char *const layouts[] = {"mesh ep = 4; batch -> ep; experts -> ep;",
                                        "mesh ep = 4; batch -> ep; experts -> ep; capacity = 1.25;"};
  int64_t rows[2] = {0, 0};
  for (int k = 0; k < 2; k++) {
    Arena *arena = arena_create();
    LayoutRun *run = compiled(arena, 0, layouts[k], false);
    const Plan *plan = run->set->plans[0];
    for (int i = 0; i < plan->segment_count; i++) {
      for (int j = 0; j < plan->segments[i].count; j++) {
        const Instruction *instruction = &plan->segments[i].instructions[j];
        const int64_t has = is_grouped(instruction) ? instruction->as.grouped.rows : 0;
        rows[k] = plan_calls(plan, PROGRAM_TRAIN, i) > 0 && has > rows[k] ? has : rows[k];
      }
    }
    arena_destroy(run->arena);
    arena_destroy(arena);
  }
  assert_int_equal(rows[0], 64 / 8 * 8 + 0);  // one expert of this rank may be chosen by all 64
  assert_int_equal(rows[1], 24);              // 4 ranks, of each 16 / 4 * 1.25 = 5: 20 in blocks of 8
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_capacity_is_of_a_rank),       cmocka_unit_test(test_capacity_of_all_differs),
      cmocka_unit_test(test_left_out_adds_nothing),       cmocka_unit_test(test_left_out_is_of_a_rank),
      cmocka_unit_test(test_dropped_is_counted),          cmocka_unit_test(test_loads_are_of_layers),
      cmocka_unit_test(test_one_order_for_an_index),      cmocka_unit_test(test_what_ranks_give),
      cmocka_unit_test(test_capacity_bounds_rows),        cmocka_unit_test(test_nobody_reads_empty_rows),
      cmocka_unit_test(test_empty_rows_are_left_out),     cmocka_unit_test(test_sums_of_choices_are_products),
      cmocka_unit_test(test_shared_experts_stand_beside),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
