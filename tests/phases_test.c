// phases_test.c: precisions that change at a step: which program a step runs, and plans whose phases are wrong.
#include "compiler/plan/verify.h"
#include "tests/effort.h"
#include "tests/layouts_outcome.h"

// Nothing reads the number of the step but histories: the first of these precisions has none.
static const char optimizer[] =
    "update plain(p, g, lr) { return p - lr * g; }\n"
    "precision delayed { base bf16; dot in layers: forward e4m3, backward e5m2, scaling delayed(history = 4); }\n"
    "precision some { base bf16; dot in layers.1: forward e4m3, backward e5m2; }\n"
    "recipe plain { model small(); batch = 8; seq = 64; optimizer plain(lr = 0.1); }\n";

static LayoutRun *compile(const char *layout, const char *precision) {
  FileError error;
  size_t length;
  char *text = file_read(MDL_SOURCE_DIR "/examples/layouts.mdl", &length, &error);
  assert_non_null(text);
  Arena *arena = arena_create();
  LayoutRun *run = layout_compile_text(arena_format(arena, "%s\n%s", text, optimizer),
                                       &(CompileOptions){.recipe = "plain", .precision = precision, .layout = layout});
  assert_non_null(run);
  arena_destroy(arena);
  free(text);
  return run;
}

static double step_of(LayoutRun *run, int step) {
  int64_t rank, count;
  layout_draw_inputs(run, PROGRAM_TRAIN, (uint64_t)step);
  outcome_program(run, "phases", PROGRAM_TRAIN, step);
  const PlanOutput *loss = session_find_output(&run->session, PROGRAM_TRAIN, "loss", &rank);
  return output_data(run, run->arena, rank, loss, &count)[0];
}

enum { STEPS = 7 };

static void losses_of(const char *layout, const char *precision, double *loss) {
  LayoutRun *run = compile(layout, precision);
  Error error = {0};
  if (!layout_open(run, 30, &error)) {
    layout_fail("%s", error.text);
  }
  outcome_program(run, "phases", PROGRAM_INITIALISE, 0);
  for (int step = 1; step <= STEPS; step++) {
    loss[step - 1] = step_of(run, step);
  }
  layout_close(run);
}

// Up to which step are they the same bits?
static int common(const double *a, const double *b) {
  int steps = 0;
  while (steps < STEPS && a[steps] == b[steps]) {
    steps++;
  }
  return steps;
}

// The same but for the rounding of sums that are added up in other parts.
static int alike(const double *a, const double *b) {
  int steps = 0;
  while (steps < STEPS && fabs(a[steps] / b[steps] - 1) < 1e-6) {
    steps++;
  }
  return steps;
}

// A step changes what the next one reads.
static void test_steps(void **state) {
  (void)state;
  static const char *const layouts[] = {NULL, "z1", "z3", "tp2_sp", "two_axes"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    if (effort_samples_out(i, 4)) {
      continue;
    }
    double plain[STEPS], some[STEPS], delayed[STEPS], back[STEPS], begun[STEPS];
    losses_of(layouts[i], "bf16", plain);
    losses_of(layouts[i], "bf16 until 2, then some", some);
    losses_of(layouts[i], "bf16 until 2, then some until 4, then delayed", delayed);
    losses_of(layouts[i], "bf16 until 2, then some until 4, then bf16 until 5, then delayed", back);
    losses_of(layouts[i], "delayed until 3, then bf16", begun);
    assert_int_equal(common(plain, some), 2);
    assert_int_equal(common(some, delayed), 4);
    assert_int_equal(common(delayed, back), 4);
    assert_int_equal(common(plain, begun), 0);
  }
}

// The first parameter of a pack has an odd size, and so lies behind others.
static const char odd[] =
    "import std.nn;\n"
    "model odd {\n"
    "  axis batch, seq = 16, vocab = 16, embed = 16, wide = 8, layers = 2;\n"
    "  input tokens, targets: index(vocab)[batch, seq];\n"
    "  param table: [vocab, embed] ~ normal(0.5);\n"
    "  x = table[tokens];\n"
    "  repeat layers { x = x + linear(linear(x over embed to wide, bias = true) over wide to embed, name = back); }\n"
    "  param shift: [vocab] = 0;\n"
    "  loss = mean(cross_entropy(dot(x, table over embed) + shift, targets over vocab));\n"
    "}\n"
    "recipe odd {\n"
    "  model odd(); batch = 4; optimizer sgd(lr = 0.1); optimizer b, back: adamw(lr = 0.01);\n"
    "}\n"
    "precision eight { base bf16; dot in layers: forward e4m3, backward e5m2, scaling delayed(history = 4); }\n"
    "layout two { mesh pp = 2; layers -> pp; microbatches = 2; }\n";

static void test_packs(void **state) {
  (void)state;
  static const char *const layouts[] = {"single", "two"}, *const precisions[] = {"eight", "bf16 until 2, then eight"};
  for (int i = 0; i < 4; i++) {
    const CompileOptions options = {.layout = layouts[i / 2], .precision = precisions[i % 2]};
    LayoutRun *run = layout_compile_text(odd, &options);
    Error error = {0};
    if (!layout_open(run, 30, &error)) {
      layout_fail("%s", error.text);
    }
    outcome_program(run, "packs", PROGRAM_INITIALISE, 0);
    const double first = step_of(run, 1);
    for (int step = 2; step <= STEPS; step++) {
      step_of(run, 1);
    }
    assert_true(step_of(run, 1) < first);  // the same numbers again and again
    layout_close(run);
  }
}

// What one precision multiplies in bf16 another one does not, on a stage that has a parameter for it alone, and what
// one computes again from data, another one keeps.
static const char unlike[] =
    "import std.nn;\n"
    "model unlike {\n"
    "  axis batch, seq = 32, vocab = 16, embed = 32, hd = 16, memory = 16, layers = 2;\n"
    "  input tokens, targets: index(vocab)[batch, seq];\n"
    "  x = embedding(tokens over vocab to embed, std = 0.5, name = table) @resid;\n"
    "  first = x;\n"
    "  param kept: [memory, embed] ~ normal(0.5);\n"
    "  repeat layers {\n"
    "    k = linear(kept over embed to hd, std = 0.3);\n"
    "    q = linear(x over embed to hd, std = 0.3);\n"
    "    o = dot(softmax(dot(q, k over hd) over memory), k over memory);\n"
    "    x = x + linear(o over hd to embed, std = 0.3, name = out) + linear(first over embed to embed', std = 0.3, "
    "name = "
    "low)[embed' -> embed] @resid;\n"
    "  }\n"
    "  loss = mean(cross_entropy(linear(x over embed to vocab, name = head), targets over vocab));\n"
    "}\n"
    "recipe unlike { model unlike(); batch = 8; optimizer sgd(lr = 0.5); optimizer q: sgd(lr = 0.1); }\n"
    "precision wide { base bf16; dot: forward f32, backward f32; }\n"
    "precision eight { base bf16; dot in layers: forward e4m3, backward e5m2; }\n"
    "precision delayed { base bf16; dot in layers: forward e4m3, backward e5m2, scaling delayed(history = 4); }\n"
    "layout two { mesh pp = 2; layers -> pp; microbatches = 2; }\n"
    "layout cut { mesh pp = 2, tp = 2; layers -> pp; embed -> tp; microbatches = 2; }\n"
    "layout again { mesh pp = 2; layers -> pp; microbatches = 2; recompute @resid; }\n"
    "layout pieces { mesh dp = 2; batch -> dp; param, grad, state -> dp; }\n";

static void unlike_losses(const char *layout, const char *precision, double *loss) {
  LayoutRun *run = layout_compile_text(unlike, &(CompileOptions){.layout = layout, .precision = precision});
  Error error = {0};
  if (!layout_open(run, 30, &error)) {
    layout_fail("%s", error.text);
  }
  outcome_program(run, "unlike", PROGRAM_INITIALISE, 0);
  for (int step = 1; step <= STEPS; step++) {
    layout_draw_inputs(run, PROGRAM_TRAIN, 1);  // the same numbers again and again
    outcome_program(run, "unlike", PROGRAM_TRAIN, step);
    int64_t rank, count;
    const PlanOutput *made = session_find_output(&run->session, PROGRAM_TRAIN, "loss", &rank);
    loss[step - 1] = output_data(run, run->arena, rank, made, &count)[0];
  }
  layout_close(run);
}

// A precision reads what those before it have trained, though they multiply nothing of it in its format.
static void test_unlike(void **state) {
  (void)state;
  static const char *const layouts[] = {"two", "cut", "again", "pieces"};
  static const char *const precisions[][2] = {
      {"wide", "bf16"}, {"bf16", "eight"}, {"eight", "wide"}, {"bf16", "delayed"}, {"wide", "delayed"}};
  for (int i = 0; i < 20; i++) {
    if (effort_samples_out((size_t)i, 3)) {
      continue;
    }
    const char *layout = layouts[i % 4], *before = precisions[i / 4][0], *behind = precisions[i / 4][1];
    double one[STEPS], both[STEPS];
    unlike_losses(layout, before, one);
    char text[64];
    snprintf(text, sizeof text, "%s until 3, then %s", before, behind);
    unlike_losses(layout, text, both);
    // What is gathered is in other packs where a later precision has other copies of it: docs/precision.md.
    const bool packs = strcmp(layout, "pieces") == 0;
    assert_int_equal((packs ? alike : common)(one, both), 3);
    assert_true(one[6] < 0.9 * one[0]);
    for (int step = 3; step < STEPS; step++) {
      assert_true(fabs(both[step] / one[step] - 1) < 0.02);
    }
  }
}

static void test_programs(void **state) {
  (void)state;
  LayoutRun *run = compile(NULL, "bf16 until 2, then some until 4, then bf16 until 9, then delayed");
  const Plan *plan = run->set->plans[0];
  static const int policies[] = {0, 0, 1, 1, 0, 0, 0, 0, 0, 2, 2};
  for (int step = 1; step <= 11; step++) {
    assert_int_equal(plan_phase(plan, step)->policy, policies[step - 1]);
  }
  assert_true(plan->programs[PROGRAM_TRAIN_3].call_count > 0 && plan->programs[PROGRAM_TRAIN_3_COLD].call_count > 0);
  assert_int_equal(plan->programs[PROGRAM_TRAIN_COLD].call_count + plan->programs[PROGRAM_TRAIN_2_COLD].call_count +
                       plan->programs[PROGRAM_TRAIN_4].call_count,
                   0);
  for (int kind = 0; kind < PROGRAM_COUNT; kind++) {
    const int policy = program_policy((ProgramKind)kind);
    assert_true(policy < 0 || plan_train_program(policy, program_is_cold((ProgramKind)kind)) == (ProgramKind)kind);
  }
  int histories = 0, other = 0;
  for (int i = 0; i < plan->state_count; i++) {
    histories += plan_state_is_history(&plan->states[i]);
    other += plan_find_state(plan, plan->states[i].name) != i;
  }
  assert_true(histories > 0 && other == 0);
  arena_destroy(run->arena);
}

static void spoil(Plan *plan, int which) {
  switch (which) {
    case 0:
      plan->phases[0].first = 2;
      break;
    case 1:
      plan->phases[1].first = 1;
      break;
    case 2:
      plan->phases[1].policy = 3;
      break;
    case 3:
      plan->phases[1].policy = -1;
      break;
    case 4:
      plan->phase_count = PLAN_MAX_PHASES + 1;
      break;
    default:
      plan->programs[PROGRAM_TRAIN_2].inputs[0].place.offset += PLAN_ALIGN;
  }
}

static void test_wrong(void **state) {
  (void)state;
  for (int which = -1; which < 6; which++) {
    LayoutRun *run = compile(NULL, "bf16 until 2, then some");
    Plan *plan = run->set->plans[0];
    if (which >= 0) {
      spoil(plan, which);
    }
    assert_true((plan_verify(run->arena, plan) != NULL) == (which >= 0));
    arena_destroy(run->arena);
  }
}

// Against one batch after the other.
static void test_batches(void **state) {
  (void)state;
  PlanRange ranges[] = {{1, 1}, {3, 2}, {5, 1}, {9, 6}, {20, 1}};
  for (int count = 0; count <= 5; count++) {
    const PlanRun run = {.skip_count = count, .skip = ranges};
    for (int64_t from = 0; from < 25; from++) {
      int64_t batch = from;
      for (int64_t steps = 1; steps < 30; steps++) {
        bool skipped;
        do {
          batch++;
          skipped = false;
          for (int i = 0; i < count; i++) {
            skipped |= batch >= ranges[i].first && batch < ranges[i].first + ranges[i].count;
          }
        } while (skipped);
        assert_int_equal(plan_batch_after(&run, from, steps), batch);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_steps), cmocka_unit_test(test_packs),   cmocka_unit_test(test_programs),
      cmocka_unit_test(test_wrong), cmocka_unit_test(test_batches), cmocka_unit_test(test_unlike),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
