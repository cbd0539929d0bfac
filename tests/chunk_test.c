// chunk_test.c: logits in parts of their rows give what whole logits give, in less memory, with the same kernels.
//
// What every pass means, and that all layouts of a program agree, passes_test and layouts_test try; here the programs
// of tests/layouts run twice under the same layout, and sizes of plans are compared.
#include "tests/layouts_outcome.h"

static const double tolerance = 1e-12;
static const int64_t never = INT64_MAX;

static CompileOptions options_for(const char *layout, int64_t chunk_bytes) {
  return (CompileOptions){
      .layout = layout, .precision = "fp64", .gradients = true, .chunk_bytes = chunk_bytes, .part_rows = INT64_MAX};
}

static LayoutRun *compiled(const char *file, const CompileOptions *options) {
  LayoutRun *run = layout_compile(file, options, stdout);
  if (!run) {
    fail_msg("%s does not compile under %s", file, options->layout ? options->layout : "no layout");
  }
  return run;
}

static int64_t instructions_of(const LayoutRun *run, ProgramKind kind) {
  int64_t count = 0;
  for (int i = 0; i < run->set->count; i++) {
    count += plan_instructions(run->set->plans[i], kind);
  }
  return count;
}

// --- the same numbers ---

static void compare(const char *file, const char *layout) {
  Arena *arena = arena_create();
  CompileOptions whole = options_for(layout, never), cut = options_for(layout, 1);
  LayoutRun *one = compiled(file, &whole), *many = compiled(file, &cut);
  for (ProgramKind kind = PROGRAM_TRAIN; kind <= PROGRAM_EVALUATE; kind++) {
    if (instructions_of(many, kind) <= instructions_of(one, kind)) {
      fail_msg("%s under %s: the logits of '%s' are not in parts", file, layout, program_kind_name(kind));
    }
  }
  Outcome expected = {0}, found = {0};
  char said[512];
  outcome_run(one, layout, 30, arena, &expected);
  outcome_run(many, layout, 30, arena, &found);
  if (!outcome_same(&expected, &found, tolerance, false, said, sizeof said)) {
    fail_msg("%s under %s, in parts: %s", file, layout, said);
  }
  arena_destroy(arena);
}

static void test_gpt2(void **state) {
  (void)state;
  static const char *const layouts[] = {"single", "vocab2", "vocab4", "hd2", "uneven3", "ranks16", "state_all"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    compare(MDL_SOURCE_DIR "/tests/layouts/gpt2.mdl", layouts[i]);
  }
}

static void test_llama(void **state) {
  (void)state;
  static const char *const layouts[] = {"single", "tp2sp",   "cp2z", "z3m",   "one4",  "d3",
                                        "full",   "dp2full", "pp2",  "pp2zb", "pp2tp2"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    compare(MDL_SOURCE_DIR "/tests/layouts/llama.mdl", layouts[i]);
  }
}

// --- less memory, the same kernels ---

static const char *const wide[] = {"vocab=4096", "batch=8"};

static int64_t peak(int64_t chunk_bytes, int *kernels, int64_t *instructions) {
  CompileOptions options = options_for("single", chunk_bytes);
  options.set = wide;
  options.set_count = 2;
  LayoutRun *run = compiled(MDL_SOURCE_DIR "/tests/layouts/llama.mdl", &options);
  const Plan *plan = run->set->plans[0];
  int64_t bytes = plan->programs[PROGRAM_TRAIN].transient_bytes;
  *kernels = plan->kernel_count;
  *instructions = instructions_of(run, PROGRAM_TRAIN);
  arena_destroy(run->arena);
  return bytes;
}

static void test_memory_falls(void **state) {
  (void)state;
  const int64_t logits = 8 * 16 * 4096 * 8;
  int kernels[3];
  int64_t count[3];
  int64_t whole = peak(never, &kernels[0], &count[0]), half = peak(logits / 2, &kernels[1], &count[1]),
          eighth = peak(logits / 8, &kernels[2], &count[2]);
  assert_true(half <= whole - logits * 7 / 16);
  assert_true(eighth <= half - logits * 5 / 16);
  assert_int_equal(kernels[1], kernels[2]);                 // a kernel for all parts
  assert_int_equal(count[2] - count[1], 5 * 6);             // five instructions for each of six parts more
  assert_in_range(kernels[1], kernels[0], kernels[0] + 2);  // sums over the parts, of each program
}

// As large models are trained: 65536 x 50257 logits of bf16, in four parts.
static void test_large_by_default(void **state) {
  (void)state;
  CompileOptions options = {.recipe = "gpt2_124m", .precision = "bf16"};
  LayoutRun *cut = compiled(MDL_SOURCE_DIR "/models/gpt2.mdl", &options);
  options.chunk_bytes = never;
  LayoutRun *whole = compiled(MDL_SOURCE_DIR "/models/gpt2.mdl", &options);
  assert_int_equal(instructions_of(cut, PROGRAM_TRAIN), instructions_of(whole, PROGRAM_TRAIN) + 5 * 3 + 1);
  int64_t saved = whole->set->plans[0]->programs[PROGRAM_TRAIN].transient_bytes -
                  cut->set->plans[0]->programs[PROGRAM_TRAIN].transient_bytes;
  assert_true(saved > (int64_t)4 << 30);
  arena_destroy(cut->arena);
  arena_destroy(whole->arena);
}

static void test_small_stays_whole(void **state) {
  (void)state;
  CompileOptions given = options_for("single", 0), never_cut = options_for("single", never);
  LayoutRun *one = compiled(MDL_SOURCE_DIR "/tests/layouts/gpt2.mdl", &given),
            *other = compiled(MDL_SOURCE_DIR "/tests/layouts/gpt2.mdl", &never_cut);
  assert_int_equal(instructions_of(one, PROGRAM_TRAIN), instructions_of(other, PROGRAM_TRAIN));
  arena_destroy(one->arena);
  arena_destroy(other->arena);
}

// --- gradients ---

static double loss_at(LayoutRun *run, Arena *arena, const char *name, double *data, int64_t at, double by) {
  double kept = data[at], loss = 0;
  Outcome outcome = {0};
  data[at] += by;
  layout_set_state(run, name, data);
  data[at] = kept;
  layout_draw_inputs(run, PROGRAM_EVALUATE, 3);
  outcome_program(run, name, PROGRAM_EVALUATE, 1);
  keep_outputs(run, arena, &outcome, PROGRAM_EVALUATE, "at");
  const Tensor *found = outcome_find(&outcome, "at loss");
  assert_non_null(found);
  loss = found->data[0];
  layout_set_state(run, name, data);
  return loss;
}

// The z-loss and cross-entropy, masked and with bounded logits: gradients are what differences of the loss say.
static void test_gradients_are_differences(void **state) {
  (void)state;
  static const char *const names[] = {"head.w", "head.b", "norm.scale", "ff.up.w"};  // axes in the order of their names
  Arena *arena = arena_create();
  CompileOptions options = options_for(NULL, 1);
  LayoutRun *run = compiled(MDL_SOURCE_DIR "/tests/programs/z_loss.mdl", &options);
  Error error = {0};
  assert_true(layout_open(run, 30, &error));
  double *start[4];
  int64_t count[4];
  draw_states(run, arena);
  for (int i = 0; i < 4; i++) {
    start[i] = layout_state(run, arena, names[i], &count[i]);
  }
  Outcome outcome = {0};
  layout_draw_inputs(run, PROGRAM_TRAIN, 3);
  outcome_program(run, "train", PROGRAM_TRAIN, 1);
  keep_outputs(run, arena, &outcome, PROGRAM_TRAIN, "at");
  draw_states(run, arena);
  int seen = 0;
  for (int i = 0; i < 4; i++) {
    const Tensor *gradient = outcome_find(&outcome, arena_format(arena, "at gradient.%s", names[i]));
    assert_non_null(gradient);
    for (int64_t at = 0; at < count[i]; at += 1 + count[i] / 7) {
      const double eps = 1e-6;
      double difference =
          (loss_at(run, arena, names[i], start[i], at, eps) - loss_at(run, arena, names[i], start[i], at, -eps)) /
          (2 * eps);
      if (fabs(difference - gradient->data[at]) > 1e-7 + 1e-5 * fabs(difference)) {
        fail_msg("gradient.%s[%lld] is %.12g, by differences %.12g", names[i], (long long)at, gradient->data[at],
                 difference);
      }
      seen += fabs(difference) > 1e-4;
    }
  }
  assert_true(seen > 10);
  layout_close(run);
  arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gpt2),
      cmocka_unit_test(test_llama),
      cmocka_unit_test(test_memory_falls),
      cmocka_unit_test(test_large_by_default),
      cmocka_unit_test(test_small_stays_whole),
      cmocka_unit_test(test_gradients_are_differences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
