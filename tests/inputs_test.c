// inputs_test.c: the random tokens of benchmarks: the same batch under every layout, and all of it.
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(layouts_read_the_same_batch)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
