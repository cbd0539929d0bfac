// fp8_cold_test.c: training steps whose scales come from histories: which of the two programs a step runs, that both
// compute the same where histories know their numbers, and that plans in which they differ outside are refused.
#include "compiler/plan/verify.h"
#include "tests/effort.h"
#include "tests/layouts_outcome.h"

// In f32 it makes no difference where a value is rounded to 8 bits.
static const char policy[] =
    "base f32; dot in layers: forward e4m3, backward e5m2, scaling delayed(history = 4, margin = 1);";
static const char weight[] = "layers.1.ffn.down.w";

// What is computed again, by path, all of it, and where ranks share what a history looks at.
static const char again[] =
    "layout paths { recompute layers.*.ffn; }\n"
    "layout everything { recompute *; } layout parts { recompute *; microbatches = 2; } layout two { microbatches = 2; "
    "}\n"
    "layout cut { mesh tp = 2; kv_heads, ffn -> tp; }\n"
    "layout cut_paths { mesh tp = 2; kv_heads, ffn -> tp; recompute layers.*.ffn; }\n"
    "layout cut_layers { mesh tp = 2; kv_heads, ffn -> tp; recompute layers; }\n"
    "layout cut_everything { mesh tp = 2; kv_heads, ffn -> tp; recompute *; }\n";

static LayoutRun *compile_with(const char *layout, const char *rules) {
  FileError error;
  size_t length;
  char *text = file_read(MDL_SOURCE_DIR "/examples/layouts.mdl", &length, &error);
  assert_non_null(text);
  Arena *arena = arena_create();
  LayoutRun *run = layout_compile_text(
      arena_format(arena, "%s\nprecision mine { %s }\nlayout eight { microbatches = 8; }\n%s", text, rules, again),
      &(CompileOptions){.precision = "mine", .layout = layout});
  assert_non_null(run);
  arena_destroy(arena);
  free(text);
  return run;
}

static LayoutRun *compile(const char *layout) {
  return compile_with(layout, policy);
}

static LayoutRun *open_with(const char *layout, const char *rules) {
  LayoutRun *run = compile_with(layout, rules);
  Error error = {0};
  if (!layout_open(run, 30, &error)) {
    layout_fail("%s", error.text);
  }
  outcome_program(run, "cold", PROGRAM_INITIALISE, 0);
  return run;
}

static LayoutRun *open_run(const char *layout) {
  return open_with(layout, policy);
}

static double step_of(LayoutRun *run, ProgramKind program, int step) {
  int64_t rank, count;
  layout_draw_inputs(run, PROGRAM_TRAIN, (uint64_t)step);
  outcome_program(run, "cold", program, step);
  const PlanOutput *loss = session_find_output(&run->session, PROGRAM_TRAIN, "loss", &rank);
  return output_data(run, run->arena, rank, loss, &count)[0];
}

static void set_first(LayoutRun *run, const char *name, double value) {
  int64_t count;
  Error error = {0};
  double *data = layout_state(run, run->arena, name, &count);
  data[0] = value;
  layout_set_state(run, name, data);
  assert_true(session_refresh(&run->session, &error));
}

// The first step is a cold one, and so is each behind one that was skipped.
static void test_which(void **state) {
  (void)state;
  static const char *const layouts[] = {NULL, "z1", "z3", "tp2_sp", "two_axes", "pp4", "zero_bubble", "d3"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    if (effort_samples_out(i, 4)) {
      continue;
    }
    LayoutRun *run = open_run(layouts[i]);
    assert_true(session_has(&run->session, PROGRAM_TRAIN_COLD));
    set_first(run, weight, (double)NAN);
    step_of(run, PROGRAM_TRAIN, 1);
    assert_false(run->session.warm);
    set_first(run, weight, 0);
    step_of(run, PROGRAM_TRAIN, 2);
    assert_false(run->session.warm);
    step_of(run, PROGRAM_TRAIN, 3);
    assert_true(run->session.warm);
    set_first(run, weight, 0.5);  // as from a checkpoint
    assert_false(run->session.warm);
    step_of(run, PROGRAM_TRAIN, 4);
    assert_true(run->session.warm);
    outcome_program(run, "cold", PROGRAM_INITIALISE, 0);
    step_of(run, PROGRAM_TRAIN, 1);
    assert_false(run->session.warm);
    layout_close(run);
  }
}

static double apart(double a, double b) {
  return fabs(a - b) / fabs(b);
}

// The loss of the second step and of the third, which reads what the second has changed. first: of the first step;
// second: of the second.
static void losses_of(const char *layout, ProgramKind first, ProgramKind second, double *loss) {
  LayoutRun *run = open_run(layout);
  const ProgramKind steps[] = {first, second, PROGRAM_TRAIN_COLD};
  for (int step = 1; step <= 3; step++) {
    run->session.warm = true;  // PROGRAM_TRAIN is what it says
    loss[step - 1] = step_of(run, steps[step - 1], step);
  }
  layout_close(run);
}

static void test_same(void **state) {
  (void)state;
  static const char *const layouts[] = {NULL, "z3", "tp2_sp", "pp4"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    if (effort_samples_out(i, 4)) {
      continue;
    }
    double cold[3], warm[3], unknown[3];
    losses_of(layouts[i], PROGRAM_TRAIN_COLD, PROGRAM_TRAIN_COLD, cold);
    losses_of(layouts[i], PROGRAM_TRAIN_COLD, PROGRAM_TRAIN, warm);
    losses_of(layouts[i], PROGRAM_TRAIN, PROGRAM_TRAIN, unknown);
    assert_true(apart(warm[0], cold[0]) <= 0 && apart(warm[1], cold[1]) < 1e-6 && apart(warm[2], cold[2]) < 1e-6);
    assert_true(apart(unknown[0], cold[0]) > 1e-5);  // scales of 1
  }
}

// What products in f32 may round does not concern those of 8 bits: on the CPU both bases give the same bits.
static void test_tf32(void **state) {
  (void)state;
  static const char *const scalings[] = {"current", "delayed(history = 4)"};
  static const char *const bases[] = {"f32", "tf32"};
  for (int i = 0; i < 2; i++) {
    double loss[2];
    for (int j = 0; j < 2; j++) {
      char rules[128];
      snprintf(rules, sizeof rules, "base %s; dot in layers: forward e4m3, backward e5m2, scaling %s;", bases[j],
               scalings[i]);
      LayoutRun *run = open_with("tp2_sp", rules);
      step_of(run, PROGRAM_TRAIN, 1);
      loss[j] = step_of(run, PROGRAM_TRAIN, 2);
      layout_close(run);
    }
    assert_true(loss[0] == loss[1]);
  }
}

// --- what ranks send ---

// All largest numbers of a step travel at once, unless scales wait for them.
// What the backward computes again makes no difference; histories get what the forward has found.
static void test_again(void **state) {
  (void)state;
  static const char *const layouts[][2] = {{NULL, "paths"},      {NULL, "everything"},  {"two", "parts"},
                                           {"cut", "cut_paths"}, {"cut", "cut_layers"}, {"cut", "cut_everything"}};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    double kept[3], made[3];
    losses_of(layouts[i][0], PROGRAM_TRAIN_COLD, PROGRAM_TRAIN, kept);
    losses_of(layouts[i][1], PROGRAM_TRAIN_COLD, PROGRAM_TRAIN, made);
    for (int step = 0; step < 3; step++) {
      assert_true(apart(made[step], kept[step]) < 1e-6);
    }
  }
}

static void test_maxima(void **state) {
  (void)state;
  static const char *const layouts[] = {"dp4", "z1", "z3", "tp2_sp", "cp2"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    if (effort_samples_out(i, 4)) {
      continue;
    }
    for (int cold = 0; cold < 2; cold++) {
      LayoutRun *run = compile(layouts[i]);
      const Plan *plan = run->set->plans[0];
      int64_t packed = 0, packs = 0, single = 0;
      for (int s = 0; s < plan->segment_count; s++) {
        for (int j = 0; j < plan->segments[s].count; j++) {
          const Instruction *at = &plan->segments[s].instructions[j];
          const bool largest = at->kind == INSTRUCTION_COLLECTIVE && at->as.collective.reduce == REDUCE_MAX &&
                               at->as.collective.type == TYPE_F32 &&
                               plan_calls(plan, cold ? PROGRAM_TRAIN_COLD : PROGRAM_TRAIN, s) > 0;
          const bool together = largest && at->name && strstr(at->name, "amax") != NULL;
          packs += together;
          packed += together ? at->as.collective.count : 0;
          single += largest && at->as.collective.count == 1;
        }
      }
      assert_true(cold || (packs == 1 && packed >= 48 && single == 0));
      assert_true(!cold || packs + single > 48);
      arena_destroy(run->arena);
    }
  }
}

// Does it round a parameter to 8 bits?
static bool rounds_parameter(const Plan *plan, const Instruction *at) {
  const Kernel *kernel = at->kind == INSTRUCTION_KERNEL ? plan->kernels[at->as.kernel.kernel] : NULL;
  bool eight = false;
  for (int i = 0; kernel && i < kernel->port_count; i++) {
    eight |= kernel->port[i].kind == PORT_OUTPUT && kernel->port[i].type == TYPE_E4M3;
  }
  const size_t length = at->name ? strlen(at->name) : 0;
  return eight && length > 2 && strcmp(at->name + length - 2, ".w") == 0;
}

// What is the same in all microbatches is done once: parameters are rounded in front of them, and what ranks say of
// largest numbers for histories is said behind them. Not so (control) where every microbatch has scales of its own.
static void test_once(void **state) {
  (void)state;
  static const char *const layouts[] = {"d3", "eight", "pp4", "interleaved", "zero_bubble", "pp4_recompute"};
  static const char current[] = "base f32; dot in layers: forward e4m3, backward e5m2;";
  for (size_t i = 0; i < 2 * sizeof layouts / sizeof *layouts; i++) {
    const char *layout = layouts[i / 2];
    const bool histories = i % 2 == 0;
    if (effort_samples_out(i / 2, 3)) {
      continue;
    }
    LayoutRun *run = histories ? compile(layout) : compile_with(layout, current);
    for (int stage = 0; stage < run->set->count; stage++) {
      const Plan *plan = run->set->plans[stage];
      int64_t rounded = 0, found = 0;
      for (int s = 0; s < plan->segment_count; s++) {
        const int calls = plan_calls(plan, PROGRAM_TRAIN, s);
        for (int j = 0; j < plan->segments[s].count && calls > 0; j++) {
          const Instruction *at = &plan->segments[s].instructions[j];
          const bool rounds = rounds_parameter(plan, at);
          const bool largest = at->kind == INSTRUCTION_COLLECTIVE && at->as.collective.reduce == REDUCE_MAX &&
                               at->as.collective.type == TYPE_F32 &&
                               (at->as.collective.count == 1 || (at->name && strstr(at->name, "amax")));
          assert_true(!rounds || calls == 1);
          assert_true(!largest || calls == 1 || !histories);
          rounded += rounds;
          found += largest && calls > 1;
        }
      }
      assert_true(rounded > 0);
      assert_true(histories || found > 0 || run->set->plans[0]->mesh_count < 2);
    }
    arena_destroy(run->arena);
  }
}

// --- stages ---

enum { STEPS = 6 };

static void losses_on(const char *layout, double *loss) {
  LayoutRun *run = open_run(layout);
  for (int step = 1; step <= STEPS; step++) {
    loss[step - 1] = step_of(run, PROGRAM_TRAIN, step);
  }
  layout_close(run);
}

// Sends of a stage's microbatches, and those behind them.
static void count_sends(const Plan *plan, ProgramKind program, int64_t *inside, int64_t *behind) {
  *inside = *behind = 0;
  for (int s = 0; s < plan->segment_count; s++) {
    for (int j = 0; j < plan->segments[s].count; j++) {
      const bool sends = plan->segments[s].instructions[j].kind == INSTRUCTION_SEND;
      *(plan->segments[s].kind == SEGMENT_APPLY ? behind : inside) += sends ? plan_calls(plan, program, s) : 0;
    }
  }
}

// A pipeline computes the bits of as many microbatches on one rank, and sends nothing for histories but, once in a
// step, whether that counts.
static void test_stages(void **state) {
  (void)state;
  static const char *const layouts[] = {"gpipe", "pp4", "interleaved", "zero_bubble", "uneven", "pp4_recompute"};
  static const char current[] = "base f32; dot in layers: forward e4m3, backward e5m2;";
  double one[STEPS];
  losses_on("eight", one);
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    if (effort_samples_out(i, 4)) {
      continue;
    }
    double loss[STEPS];
    losses_on(layouts[i], loss);
    assert_memory_equal(loss, one, sizeof loss);
    LayoutRun *with = compile(layouts[i]), *without = compile_with(layouts[i], current);
    for (int s = 0; s < with->set->count; s++) {
      int64_t inside[3], behind[3];
      count_sends(with->set->plans[s], PROGRAM_TRAIN, &inside[0], &behind[0]);
      count_sends(with->set->plans[s], PROGRAM_TRAIN_COLD, &inside[1], &behind[1]);
      count_sends(without->set->plans[s], PROGRAM_TRAIN, &inside[2], &behind[2]);
      assert_true(inside[0] == inside[2] && inside[1] == inside[2]);
      assert_true(behind[0] <= behind[2] + with->set->count - 1 && behind[1] == behind[0]);
    }
    arena_destroy(with->arena);
    arena_destroy(without->arena);
  }
}

// A weight that layers of several stages share, whose largest numbers one stage sends to the one that has the history
// when all its ranks have said theirs.
static const char shared[] =
    "import std.nn;\n"
    "model shared {\n"
    "  axis batch, seq, vocab = 32, layers = 4, embed = 16, ffn = 32;\n"
    "  input tokens, targets: index(vocab)[batch, seq];\n"
    "  x = embedding(tokens over vocab to embed, name = table);\n"
    "  repeat layers {\n"
    "    h = tanh(linear(rms_norm(x over embed, name = norm) over embed to ffn, name = up, share = true));\n"
    "    x = x + linear(h over ffn to embed, name = down);\n"
    "  }\n"
    "  loss = mean(cross_entropy(linear(x over embed to vocab, name = head), targets over vocab));\n"
    "}\n"
    "recipe r { model shared(); batch = 8; seq = 16; steps = 9; }\n"
    "layout ranks { mesh dp = 2; batch -> dp; microbatches = 4; }\n"
    "layout stages { mesh pp = 2, dp = 2; layers -> pp; batch -> dp; microbatches = 4; }\n"
    "layout chunks { mesh pp = 2, dp = 2; layers -> pp; batch -> dp; schedule interleaved(chunks = 2);\n"
    "  microbatches = 4; }\n"
    "layout z3 { mesh pp = 2, dp = 2; layers -> pp; batch -> dp; param, grad, state -> dp; schedule zero_bubble;\n"
    "  microbatches = 4; }\n";

static void shared_losses(const char *layout, double *loss) {
  Error error = {0};
  Arena *arena = arena_create();
  LayoutRun *run = layout_compile_text(arena_format(arena, "%sprecision mine { %s }\n", shared, policy),
                                       &(CompileOptions){.precision = "mine", .layout = layout});
  if (!layout_open(run, 30, &error)) {
    layout_fail("%s", error.text);
  }
  outcome_program(run, layout, PROGRAM_INITIALISE, 0);
  for (int step = 1; step <= STEPS; step++) {
    loss[step - 1] = step_of(run, PROGRAM_TRAIN, step);
  }
  layout_close(run);
  arena_destroy(arena);
}

static void test_shared(void **state) {
  (void)state;
  static const char *const layouts[] = {"stages", "chunks", "z3"};
  double one[STEPS];
  shared_losses("ranks", one);
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    double loss[STEPS];
    shared_losses(layouts[i], loss);
    for (int step = 0; step < STEPS; step++) {
      assert_true(apart(loss[step], one[step]) < 1e-5);
    }
  }
}

// Only the last stage has histories.
static void test_last_stage(void **state) {
  (void)state;
  LayoutRun *run =
      open_with("pp4", "base f32; dot in layers.7: forward e4m3, backward e5m2, scaling delayed(history = 4);");
  step_of(run, PROGRAM_TRAIN, 1);
  assert_false(run->session.warm);
  step_of(run, PROGRAM_TRAIN, 2);
  assert_true(run->session.warm);
  layout_close(run);
}

// --- plans ---

static void spoil(PlanProgram *cold, int which) {
  switch (which) {
    case 0:
      cold->inputs[0].place.offset += PLAN_ALIGN;
      break;
    case 1:
      cold->outputs[0].place.offset += 8;
      break;
    case 2:
      cold->output_count--;
      break;
    case 3:
      cold->inputs[0].name = "others";
      break;
    default:
      cold->slots++;
  }
}

static void test_plans(void **state) {
  (void)state;
  for (int which = -1; which < 5; which++) {
    LayoutRun *run = compile(NULL);
    Plan *plan = run->set->plans[0];
    if (which >= 0) {
      spoil(&plan->programs[PROGRAM_TRAIN_COLD], which);
    }
    const char *why = plan_verify(run->arena, plan);
    assert_true((why != NULL) == (which >= 0));
    assert_true(!why || strstr(why, "has other inputs, outputs or slots than train"));
    arena_destroy(run->arena);
  }
}

// Filters that come from the data, which under a layout that cuts them lie in the order that is best for each step.
static const char filters[] =
    "import std.nn;\n"
    "model filters {\n"
    "  axis batch, seq, vocab = 32, layers = 2, embed = 32, ffn = 48, tap = 4, some = 4;\n"
    "  input tokens, targets: index(vocab)[batch, seq];\n"
    "  param table: [vocab, embed] ~ normal(0.4);\n"
    "  x = table[tokens];\n"
    "  repeat layers {\n"
    "    h = layer_norm(x over embed, name = norm);\n"
    "    seen = mean(h[seq: 0 .. 4 -> some] over some);\n"
    "    made = linear(seen over embed to embed', tap, std = 0.1, name = made, share = true);\n"
    "    x = x + dot(window(h over seq to tap), made[embed' -> embed] over tap);\n"
    "    g = layer_norm(x over embed, name = norm2);\n"
    "    g = linear(g over embed to ffn, std = 0.2, name = up, share = true);\n"
    "    x = x + linear(g over ffn to embed, std = 0.2, name = down, share = true);\n"
    "  }\n"
    "  loss = mean(cross_entropy(dot(layer_norm(x over embed, name = final), table over embed), targets over vocab));\n"
    "}\n"
    "recipe r { model filters(); batch = 8; seq = 16; steps = 4; optimizer adamw(lr = 3e-3, clip = 1.0); }\n"
    "layout tp { mesh tp = 2; embed -> tp; }\n";

// Outputs lie in the order of the text, dense and each by itself, whatever the training steps of a plan make of them.
static void test_outputs(void **state) {
  (void)state;
  static const char *const precisions[] = {"fp8_hybrid", "bf16 until 2, then fp8_hybrid"};
  for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
    Arena *arena = arena_create();
    CompiledValues values = {.arena = arena, .every = true};
    const CompileOptions options = {.precision = precisions[p], .layout = "tp", .gradients = true, .values = &values};
    LayoutRun *run = layout_compile_text(filters, &options);
    bool found = false;
    const PlanProgram *train = &run->set->plans[0]->programs[PROGRAM_TRAIN];
    for (int i = 0; i < train->output_count; i++) {
      const PlanOutput *output = &train->outputs[i];
      int64_t dense = 1;
      for (int axis = output->axis_count - 1; axis >= 0; axis--) {
        assert_int_equal(output->stride[axis], dense);
        dense *= output->size[axis];
      }
      for (int j = 0; j < i; j++) {
        assert_true(train->outputs[j].place.offset != output->place.offset);
      }
      if (strcmp(output->name, "value.layers.0.made.y") == 0) {
        found = true;
        assert_string_equal(output->axis[0], "batch");
        assert_string_equal(output->axis[1], "embed'");
        assert_string_equal(output->axis[2], "tap");
      }
    }
    assert_true(found);
    arena_destroy(run->arena);
    arena_destroy(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_which),  cmocka_unit_test(test_same),    cmocka_unit_test(test_tf32),
      cmocka_unit_test(test_again),  cmocka_unit_test(test_maxima),  cmocka_unit_test(test_once),
      cmocka_unit_test(test_stages), cmocka_unit_test(test_shared),  cmocka_unit_test(test_last_stage),
      cmocka_unit_test(test_plans),  cmocka_unit_test(test_outputs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
