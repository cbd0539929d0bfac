// precision_test.c: what the precision policies compute: in which formats values are, that training in bf16 follows
// training in fp32, under layouts too, and that what is stored does not depend on the policy.
#include "tests/effort.h"
#include "tests/layouts_outcome.h"

static const char *const policies[] = {"bf16", "bf16_fp32_residual", "tf32"};
enum { POLICIES = sizeof policies / sizeof *policies, STEPS = 60, BATCHES = 2 };

static LayoutRun *compile(const char *file, const char *layout, const char *precision) {
  CompileOptions options = {.layout = layout, .precision = precision, .gradients = true};
  LayoutRun *run = layout_compile(file, &options, stdout);
  if (!run) {
    layout_fail("%s does not compile in %s", file, precision);
  }
  return run;
}

// --- curves ---

static double loss_of(LayoutRun *run, Arena *arena) {
  const PlanProgram *program = &run->set->plans[0]->programs[PROGRAM_TRAIN];
  for (int i = 0; i < program->output_count; i++) {
    if (strcmp(program->outputs[i].name, "loss") == 0) {
      int64_t count;
      return output_data(run, arena, 0, &program->outputs[i], &count)[0];
    }
  }
  return NAN;
}

typedef struct {
  const char *file, *recipe, *set[6];
} Model;

static const Model models[] = {
    {MDL_SOURCE_DIR "/models/gpt2.mdl", "tiny", {"embed=64", "layers=2", "heads=2", "batch=4", "seq=32", "places=32"}},
    {MDL_SOURCE_DIR "/models/llama.mdl", "small", {"embed=64", "layers=2", "kv_heads=2", "hd=16", "batch=4", "seq=32"}},
};

static void train(const Model *model, const char *precision, double *loss) {
  const char *file = model->file;
  CompileOptions options = {.recipe = model->recipe, .precision = precision};
  options.set = model->set;
  options.set_count = 6;
  LayoutRun *run = layout_compile(file, &options, stdout);
  if (!run) {
    layout_fail("%s does not compile in %s", file, precision);
  }
  Error error = {0};
  if (!layout_open(run, 30, &error)) {
    layout_fail("%s", error.text);
  }
  outcome_program(run, file, PROGRAM_INITIALISE, 0);
  for (int step = 1; step <= STEPS; step++) {
    layout_draw_inputs(run, PROGRAM_TRAIN, (uint64_t)(step % BATCHES));
    outcome_program(run, file, PROGRAM_TRAIN, step);
    loss[step - 1] = loss_of(run, run->arena);
  }
  layout_close(run);
}

static void test_curves(void **state) {
  (void)state;
  for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
    double wanted[STEPS], got[STEPS];
    train(&models[m], "fp32", wanted);
    assert_true(wanted[STEPS - 1] < 0.85 * wanted[0]);  // there is something to follow
    for (int p = 0; p < POLICIES; p++) {
      if (effort_samples_out(m + (size_t)p, 3)) {
        continue;
      }
      train(&models[m], policies[p], got);
      for (int i = 0; i < STEPS; i++) {
        if (!(fabs(got[i] - wanted[i]) <= 0.02 * wanted[i])) {
          fail_msg("%s: in %s the loss of step %d is %g, in fp32 %g", models[m].file, policies[p], i + 1, got[i],
                   wanted[i]);
        }
      }
    }
  }
}

// --- layouts ---

static void test_layouts(void **state) {
  (void)state;
  static const struct {
    const char *layout;
    double tolerance;  // work that is cut otherwise is rounded otherwise; these were 0.02 and 0.04
  } cases[] = {{"dp2", 0.03}, {"z1", 0.03},   {"z3", 0.03},    {"z3m", 0.03},    {"tp2sp", 0.08},
               {"pp2", 0.08}, {"z3pp", 0.08}, {"ring2", 0.03}, {"ring4z", 0.03}, {"ringpp", 0.08}};
  const char *file = MDL_SOURCE_DIR "/tests/layouts/llama.mdl";
  for (int p = 0; p < 2; p++) {
    Arena *arena = arena_create();
    Outcome expected = {0};
    outcome_run(compile(file, "single", policies[p]), "one rank", 30, arena, &expected);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      Outcome found = {0};
      char said[512];
      if (effort_samples_out(i + (size_t)p, 4)) {
        continue;
      }
      outcome_run(compile(file, cases[i].layout, policies[p]), cases[i].layout, 30, arena, &found);
      if (!outcome_same(&expected, &found, cases[i].tolerance, true, said, sizeof said)) {
        fail_msg("in %s, %s is not what one rank computes: %s", policies[p], cases[i].layout, said);
      }
    }
    arena_destroy(arena);
  }
}

// --- copies of parameters ---

// Reads a parameter and writes it in bf16 there, and does nothing else.
static bool casts_parameter(const Plan *plan, const Instruction *instruction, ArenaClass to) {
  const Kernel *kernel = plan->kernels[instruction->as.kernel.kernel];
  const Place *place = instruction->as.kernel.place;
  return kernel->port_count == 2 && place[0].arena == ARENA_PERSISTENT && kernel->port[0].type == TYPE_F32 &&
         place[1].arena == to && kernel->port[1].kind == PORT_OUTPUT && kernel->port[1].type == TYPE_BF16;
}

static int casts_of(const Plan *plan, ProgramKind kind, ArenaClass to) {
  int casts = 0;
  for (int i = 0; i < plan->programs[kind].call_count; i++) {
    const PlanSegment *segment = &plan->segments[plan->programs[kind].calls[i].segment];
    for (int j = 0; j < segment->count; j++) {
      const Instruction *instruction = &segment->instructions[j];
      casts += instruction->kind == INSTRUCTION_KERNEL && casts_parameter(plan, instruction, to);
    }
  }
  return casts;
}

static int products_in(const Plan *plan, ProgramKind kind) {
  int products = 0;
  for (int i = 0; i < plan->programs[kind].call_count; i++) {
    const PlanSegment *segment = &plan->segments[plan->programs[kind].calls[i].segment];
    for (int j = 0; j < segment->count; j++) {
      products += segment->instructions[j].kind == INSTRUCTION_GEMM;
    }
  }
  return products;
}

static void check_copies(const char *file, const char *recipe, const char *layout) {
  static const ProgramKind kinds[] = {PROGRAM_TRAIN, PROGRAM_EVALUATE, PROGRAM_GENERATE};
  CompileOptions options = {.recipe = recipe, .layout = layout, .precision = "bf16"};
  options.chunk_bytes = options.part_rows = INT64_MAX;  // what is large in fp32 alone is cut there: as many products
  print_message("%s\n", layout ? layout : recipe);
  LayoutRun *narrow = layout_compile(file, &options, stdout);
  options.precision = "fp32";
  LayoutRun *wide = layout_compile(file, &options, stdout);
  assert_true(narrow && wide);
  for (int s = 0; s < narrow->set->count; s++) {
    const Plan *plan = narrow->set->plans[s], *other = wide->set->plans[s];
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
      assert_int_equal(casts_of(plan, kinds[k], ARENA_TRANSIENT), 0);
      assert_int_equal(products_in(plan, kinds[k]), products_in(other, kinds[k]));
    }
    assert_int_equal(casts_of(plan, PROGRAM_TRAIN, ARENA_PERSISTENT), 0);
    assert_true(casts_of(plan, PROGRAM_REFRESH, ARENA_PERSISTENT) > 0);
    assert_int_equal(plan->programs[PROGRAM_REFRESH].call_count, 1);
    assert_int_equal(other->programs[PROGRAM_REFRESH].call_count, 0);
    assert_int_equal(plan->state_hash, other->state_hash);
  }
  arena_destroy(narrow->arena);
  arena_destroy(wide->arena);
}

// No program casts weights, and products that are one in fp32 are one here.
static void test_copies(void **state) {
  (void)state;
  check_copies(MDL_SOURCE_DIR "/models/llama.mdl", "llama_1b", NULL);
  static const char *const layouts[] = {"single", "one4", "tp2sp", "tp2full", "stateaxis", "z1",
                                        "z2",     "z3",   "z3m",   "pp2",     "z1pp",      "z3pp"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    check_copies(MDL_SOURCE_DIR "/tests/layouts/llama.mdl", NULL, layouts[i]);
  }
}

// --- formats ---

static bool any_port(const Plan *plan, ElementType type) {
  for (int k = 0; k < plan->kernel_count; k++) {
    for (int p = 0; p < plan->kernels[k]->port_count; p++) {
      if (plan->kernels[k]->port[p].kind != PORT_STRIDES && plan->kernels[k]->port[p].type == type) {
        return true;
      }
    }
  }
  return false;
}

typedef struct {
  int products, wide, rounded;  // all; with results wider than their operands; that may use TensorFloat-32
} Products;

static Products products_of(const Plan *plan, ElementType type) {
  Products count = {0};
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Gemm *gemm = &plan->segments[s].instructions[i].as.gemm;
      if (plan->segments[s].instructions[i].kind == INSTRUCTION_GEMM) {
        assert_int_equal(gemm->type, type);
        count.products++;
        count.wide += gemm->type_c != type;
        count.rounded += gemm->tf32;
      }
    }
  }
  return count;
}

// Streams that are moved, and that are stored, are what they are in fp32, rounded; under layouts too.
static void test_streams(void **state) {
  (void)state;
  static const char *const layouts[] = {"single", "dp2", "z3", "tp2sp", "pp2", "re"};
  static const char *const in[] = {"bf16", "bf16_fp32_residual", "narrow_stream"};
  const char *file = MDL_SOURCE_DIR "/tests/layouts/streams.mdl";
  Arena *arena = arena_create();
  Outcome wide = {0};
  outcome_run(compile(file, "single", "fp32"), "one rank", 30, arena, &wide);
  for (size_t p = 0; p < sizeof in / sizeof *in; p++) {
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
      Outcome found = {0};
      char said[512];
      outcome_run(compile(file, layouts[i], in[p]), layouts[i], 30, arena, &found);
      if (!outcome_same(&wide, &found, 0.15, true, said, sizeof said)) {  // these were 0.09; what is misread is far off
        fail_msg("%s in %s is not what fp32 computes: %s", layouts[i], in[p], said);
      }
    }
  }
  arena_destroy(arena);
}

static int wide_products(const char *bracket, const char *precision) {
  char text[1024];
  snprintf(text, sizeof text,
           "model net {\n"
           "  axis batch = 8, seq = 8, vocab = 16, embed = 4, half = 4, two = 2, rows = 64;\n"
           "  input tokens, targets: index(vocab)[batch, seq];\n"
           "  param table: [vocab, embed] ~ normal(0.3);\n"
           "  param w: [embed ; embed'] ~ normal(0.3);\n"
           "  x = table[tokens] @resid;\n"
           "  y = dot(x, w over embed)%s @resid;\n"
           "  loss = mean(square(y));\n"
           "}\n",
           bracket);
  LayoutRun *run = layout_compile_text(text, &(CompileOptions){.precision = precision});
  int wide = products_of(run->set->plans[0], TYPE_BF16).wide;
  arena_destroy(run->arena);
  return wide;
}

// A product that is only moved into a stream is not rounded on the way.
static void test_moved(void **state) {
  (void)state;
  static const char *const brackets[] = {"[embed' -> embed]",
                                         "[seq -> (half, two)]",
                                         "[(batch, seq) -> rows]",
                                         "[seq: 0 .. 4 -> half]",
                                         "[seq: 3]",
                                         "[seq -> (half, two)][embed' -> embed]"};
  for (size_t i = 0; i < sizeof brackets / sizeof *brackets; i++) {
    assert_int_equal(wide_products(brackets[i], "bf16_fp32_residual"), wide_products("", "bf16_fp32_residual"));
    assert_int_equal(wide_products(brackets[i], "bf16"), wide_products("", "bf16"));
  }
  assert_true(wide_products("", "bf16_fp32_residual") > wide_products("", "bf16"));
}

// The loss of a step of a program that ends with `body`.
static double joined_loss(Arena *arena, const char *body, const char *precision) {
  char text[2048];
  Outcome outcome = {0};
  snprintf(
      text, sizeof text,
      "import std.nn;\n"
      "model net {\n"
      "  axis batch = 8, seq = 8, vocab = 16, embed = 8, half = 4, two = 2, both = 16, place = 9, one = 1, tap = 3;\n"
      "  axis key like seq;\n"
      "  input tokens, targets: index(vocab)[batch, seq];\n"
      "  param table: [vocab, embed] ~ normal(0.5);\n"
      "  param fixed: [vocab, embed] ~ normal(0.5);\n"
      "  a = linear(table[tokens] over embed to embed', name = a)[embed' -> embed];\n"
      "  b = linear(table[targets] over embed to embed', name = b)[embed' -> embed];\n"
      "  o = attention(a, b[seq -> key], a[seq -> key] over embed, seq, key);\n"
      "  %s\n"
      "  loss = mean(square(x)) + mean(x * fixed[vocab: 1]) + mean(o);\n"
      "}\n"
      "recipe net { model net(); freeze fixed; batch = 8; seq = 8; allow E016, E038; }\n",
      body);
  LayoutRun *run = layout_compile_text(text, &(CompileOptions){.precision = precision});
  outcome_run(run, body, 30, arena, &outcome);
  return *outcome_find(&outcome, "step 1 loss")->data;
}

// What is joined, looked back at or moved has one format with what it is made of: as a stream, as what is compared, and
// where it is made of parameters in 16 bits.
static void test_joined(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "x = concat(a[seq: 0 .. 1 -> one] over one, b over seq -> place) @resid;",
      "x = concat(a over embed, o over embed -> both)[both -> (two, embed')][embed' -> embed] @resid;",
      "x = concat(a[seq: 3 .. 4 -> one] over one, table[tokens] over seq -> place); x = x + square(x);",
      "x = window(a over seq to tap) @resid;",
      "x = outer(max(o[embed: 0 .. half -> half] over half), table[vocab: 2]);",
      "x = max(o[embed -> (two, half)], 0.1 * b[embed -> (two, half)])[(two, half) -> embed];",
      "x = max(a, fixed[vocab: 3]);",
      "c = fixed[vocab: 3][embed: 0 .. half -> half]; x = max(a, concat(c over half, c * c over half -> embed));"};
  static const char *const in[] = {"bf16", "bf16_fp32_residual", "bf16_frozen"};
  Arena *arena = arena_create();
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    const double wide = joined_loss(arena, bodies[i], "fp32");
    for (size_t p = 0; p < sizeof in / sizeof *in; p++) {
      const double found = joined_loss(arena, bodies[i], in[p]);
      if (!(fabs(found - wide) < 0.02 * fabs(wide))) {
        fail_msg("%s in %s: the loss is %g, not %g", bodies[i], in[p], found, wide);
      }
    }
  }
  arena_destroy(arena);
}

static void test_formats(void **state) {
  (void)state;
  const char *file = MDL_SOURCE_DIR "/tests/layouts/llama.mdl";
  LayoutRun *base = compile(file, "single", "fp32"), *bf16 = compile(file, "single", "bf16"),
            *tf32 = compile(file, "single", "tf32"), *fp64 = compile(file, "single", "fp64");
  const Plan *plan = base->set->plans[0];
  assert_false(any_port(plan, TYPE_BF16));
  assert_int_equal(products_of(plan, TYPE_F32).rounded, 0);
  assert_true(products_of(fp64->set->plans[0], TYPE_F64).products > 0);
  Products exact = products_of(tf32->set->plans[0], TYPE_F32);
  assert_true(exact.products > 0 && exact.rounded == exact.products);
  Products narrow = products_of(bf16->set->plans[0], TYPE_BF16);
  assert_true(narrow.wide > 0 && narrow.wide < narrow.products);
  // What a checkpoint holds is the same: f32 masters and optimizer state.
  assert_int_equal(bf16->set->plans[0]->state_hash, plan->state_hash);
  assert_int_not_equal(fp64->set->plans[0]->state_hash, plan->state_hash);
  for (int i = 0; i < bf16->set->plans[0]->state_count; i++) {
    const PlanState *kept = &bf16->set->plans[0]->states[i];
    assert_int_equal(kept->type, kept->role == STATE_COPY ? TYPE_BF16 : TYPE_F32);
  }
  assert_true(bf16->set->plans[0]->programs[PROGRAM_TRAIN].transient_bytes <
              plan->programs[PROGRAM_TRAIN].transient_bytes);
  arena_destroy(base->arena);
  arena_destroy(bf16->arena);
  arena_destroy(tf32->arena);
  arena_destroy(fp64->arena);
}

// Keys and values go round as the policy has them; what is added up on the way is wide, and so are its gradients.
static void test_rings(void **state) {
  (void)state;
  LayoutRun *run = compile(MDL_SOURCE_DIR "/tests/layouts/llama.mdl", "ring4z", "bf16");
  const Plan *plan = run->set->plans[0];
  int attentions = 0, keys = 0, gradients = 0;
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Instruction *at = &plan->segments[s].instructions[i];
      if (instruction_attends(at)) {
        assert_int_equal(at->as.attention.type, TYPE_BF16);
        assert_true(at->as.attention.ring && at->as.attention.wide);
        attentions++;
      } else if (at->kind == INSTRUCTION_COLLECTIVE && at->as.collective.kind == COLLECTIVE_ROTATE) {
        keys += at->as.collective.type == TYPE_BF16;
        gradients += at->as.collective.type == TYPE_F32;
      }
    }
  }
  assert_true(attentions > 0 && gradients > 0);
  assert_int_equal(attentions % 4, 0);
  assert_int_equal(keys, attentions / 4 * 3);  // of 4 blocks one is here
  arena_destroy(run->arena);
}

// The outcome of a program with an update that ends with `update`, whose model ends with `body`.
static Outcome updated(Arena *arena, const char *update, const char *body, const char *precision) {
  char text[2048];
  Outcome outcome = {0};
  snprintf(
      text, sizeof text,
      "import std.nn;\n"
      "update mine(p, g over i, o, lr) { axis a = size(i), b = size(o); %s }\n"
      "precision thrifty { base bf16; gradient bf16; }\n"
      "precision products { base bf16; dot: forward f32, backward f32; }\n"
      "model net {\n"
      "  axis batch = 8, seq = 8, embed = 8, wide = 4, tap = 3, b = 4;\n"
      "  input x: real[batch, seq, embed];\n"
      "  param w: [embed ; wide] ~ normal(0.5);\n"
      "  param v: [embed] ~ normal(0.5);\n"
      "  param u: [tap, embed] ~ normal(0.5);\n"
      "  y = dot(x, w over embed);\n"
      "  %s\n"
      "}\n"
      "recipe net { model net(); optimizer sgd(lr = 0.1, clip = 1); optimizer w: mine(lr = 0.1); allow E016, E057; }\n",
      update, body);
  outcome_run(layout_compile_text(text, &(CompileOptions){.precision = precision}), body, 30, arena, &outcome);
  return outcome;
}

// What an update computes is f32, also where the forward computes the same of a parameter, or takes its rows.
static void test_updates(void **state) {
  (void)state;
  static const char *const updates[][2] = {
      {"return p / dot(p, p over i...);", "loss = mean(square(y)) + mean(dot(w, w over embed));"},
      {"q = p[i -> a][o -> b]; k = (pos(a) + 1) % size(a); r = q[k[a -> c] as index(a)]; return p - r[c -> i][b -> o];",
       "loss = mean(square(y));"}};
  Arena *arena = arena_create();
  for (size_t i = 0; i < sizeof updates / sizeof *updates; i++) {
    const char *update = arena_format(arena, i == 1 ? "axis c = size(i); %s" : "%s", updates[i][0]);
    Outcome wide = updated(arena, update, updates[i][1], "fp32"), found = updated(arena, update, updates[i][1], "bf16");
    const Tensor *expected = outcome_find(&wide, "last w"), *w = outcome_find(&found, "last w");
    for (int64_t j = 0; j < w->count; j++) {
      if (!(fabs(w->data[j] - expected->data[j]) <= 1e-6 * fabs(expected->data[j]))) {
        fail_msg("%s: a new parameter is %.9g, not %.9g", update, w->data[j], expected->data[j]);
      }
    }
  }
  arena_destroy(arena);
}

// Gradients in 16 bits lie side by side, also one that is a value of the forward, or a sum over places of a window.
// Products in f32 give f32, whatever becomes of them in 16 bits: a stream, or a sum with others.
static void test_mixed_formats(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "loss = mean(square(y)) + sum(v * mean(x over batch, seq)) + mean(square(x * u[tap: 0]));",
      "loss = mean(square(y)) + mean(dot(window(x * v over seq to tap), u over tap));",
      "t = tanh(y); a = linear(t over wide to b); c = linear(t over wide to b); loss = mean(a * a + c * c) + mean(t);",
      "z = linear(x over embed to embed', std = 0.5) @resid; loss = mean(square(y)) + mean(square(z));",
      "z = linear(v over embed to wide, std = 0.5, bias = true); loss = mean(square(y)) + mean(square(z));"};
  static const char update[] = "return p - lr * g;", *const in[] = {"thrifty", "products"};
  Arena *arena = arena_create();
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    char said[512];
    Outcome wide = updated(arena, update, bodies[i], "fp32");
    for (size_t p = 0; p < sizeof in / sizeof *in; p++) {
      Outcome found = updated(arena, update, bodies[i], in[p]);
      if (!outcome_same(&wide, &found, 0.02, true, said, sizeof said)) {
        fail_msg("%s in %s is not what fp32 computes: %s", bodies[i], in[p], said);
      }
    }
  }
  arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_curves),        cmocka_unit_test(test_layouts), cmocka_unit_test(test_streams),
      cmocka_unit_test(test_moved),         cmocka_unit_test(test_copies),  cmocka_unit_test(test_formats),
      cmocka_unit_test(test_rings),         cmocka_unit_test(test_joined),  cmocka_unit_test(test_updates),
      cmocka_unit_test(test_mixed_formats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
