// inputs_test.c: the random tokens of benchmarks: the same batch under every layout, and all of it; where inputs lie.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compiler/compile.h"
#include "tests/bench_inputs.h"

// The loss of the first step under a layout.
static double first_loss(const char *layout) {
  Error error = {0};
  Session session = {0};
  PlanSet *set = NULL;
  double loss = NAN;
  Arena *arena = arena_create();
  const CompileOptions options = {.file = MDL_SOURCE_DIR "/examples/layouts.mdl", .layout = layout};
  assert_true(compile_plans(arena, diag_create(arena), &options, &set));
  if (!session_open_ranks(&session, set, &backend_cpu, &(SessionOptions){.threads = 2}, &error) ||
      !session_run(&session, PROGRAM_INITIALISE, 0, &error) || !inputs_write(&session, 1, &error) ||
      !session_run(&session, PROGRAM_TRAIN, 1, &error) ||
      !session_scalar(&session, PROGRAM_TRAIN, "loss", &loss, &error)) {
    fail_msg("%s: %s", layout, error.text);
  }
  session_close(&session);
  arena_destroy(arena);
  return loss;
}

static void layouts_read_the_same_batch(void **state) {
  (void)state;
  static const char *const layouts[] = {"dp4", "z3", "tp2_sp", "cp2_zigzag", "ring", "ulysses4", "zero_bubble", "d3"};
  const double one = first_loss("single");
  assert_true(fabs(one - log(256)) < 0.2);  // of a model that knows nothing
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    const double loss = first_loss(layouts[i]);
    if (!(fabs(loss / one - 1) < 1e-5)) {
      fail_msg("%s: the loss is %.7g, not %.7g", layouts[i], loss, one);
    }
  }
}

// Devices keep the host arena up to the last input several times: that is not where the scores of all positions lie.
static void inputs_lie_first(void **state) {
  (void)state;
  static const char *const layouts[] = {"single", "dp4", "tp2_sp", "zero_bubble", "d3"};
  int scores = 0;
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    PlanSet *set = NULL;
    Arena *arena = arena_create();
    const CompileOptions options = {.file = MDL_SOURCE_DIR "/examples/layouts.mdl", .layout = layouts[i]};
    assert_true(compile_plans(arena, diag_create(arena), &options, &set));
    for (int s = 0; s < set->count; s++) {
      const Plan *plan = set->plans[s];
      const PlanProgram *train = &plan->programs[PROGRAM_TRAIN], *generate = &plan->programs[PROGRAM_GENERATE];
      int64_t bytes = (train->input_count + train->output_count) * (int64_t)PLAN_ALIGN;
      for (int j = 0; j < train->input_count; j++) {
        const int64_t slots = train->inputs[j].place.slot_stride ? train->slots : 1;
        bytes += slots * plan_input_bytes(&train->inputs[j]);
      }
      assert_in_range(plan_inputs_end(plan), 4, bytes);
      scores += generate->output_count > 0 && plan->arena_bytes[ARENA_HOST] > 2 * plan_inputs_end(plan);
    }
    arena_destroy(arena);
  }
  assert_true(scores >= (int)(sizeof layouts / sizeof *layouts));  // of which there is much more
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(layouts_read_the_same_batch), cmocka_unit_test(inputs_lie_first)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
