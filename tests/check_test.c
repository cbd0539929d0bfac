// check_test.c: a step that is run twice: a bit that a device turns is found and named, and without one nothing
// changes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/check.h"
#include "runtime/train.h"
#include "tests/place.h"
#include "tests/toy.h"

typedef struct {  // a bit that is turned behind a run of the training program
  int run;        // from 1; 0: none is
  ArenaClass arena;
  int64_t byte;
} Turn;

static Turn turn;
static int runs;

static bool turning_run(Device *device, ProgramKind kind, Error *error) {
  const bool done = toy_run(device, kind, error);
  if (kind == PROGRAM_TRAIN && ++runs == turn.run) {
    device->arena[turn.arena][turn.byte] ^= 16;
  }
  return done;
}

static Backend turning(void) {
  Backend backend = toy_backend;
  backend.run = turning_run;
  return backend;
}

static Plan *plan_of(World *world) {
  return toy_plan(world->arena, world->text, 8, 32, 2, false);
}

static bool train(World *world, const char *name, int64_t check, Turn asked, Error *error) {
  char out[IO_PATH_MAX];
  TrainResult result;
  Plan *plan = plan_of(world);
  const Backend backend = turning();
  path_in(world, out, name);
  turn = asked;
  runs = 0;
  TrainOptions options = {
      .out = out, .steps = 12, .save_every = 1, .eval_every = -1, .log_every = -1, .keep = 0, .check = check};
  return train_run(&(PlanSet){1, &plan}, &backend, &options, &result, error);
}

static char *weights(const World *world, const char *name, size_t *size) {
  char path[IO_PATH_MAX], *bytes;
  Error error = {0};
  path_in(world, path, name);
  assert_true(io_read_file(path, 1 << 24, &bytes, size, &error));
  return bytes;
}

static void test_nothing_changes(void **state) {
  World *world = *state;
  Error error = {0};
  size_t size[2];
  assert_true(train(world, "plain", 0, (Turn){0}, &error));
  assert_int_equal(runs, 12);
  if (!train(world, "checked", 5, (Turn){0}, &error)) {
    fail_msg("%s", error.text);
  }
  assert_int_equal(runs, 14);
  char *a = weights(world, "plain/checkpoints/step-00000012/optimizer.safetensors", &size[0]);
  char *b = weights(world, "checked/checkpoints/step-00000012/optimizer.safetensors", &size[1]);
  assert_int_equal(size[0], size[1]);
  assert_memory_equal(a, b, size[0]);
  free(a);
  free(b);
}

// In the step as it is trained or in its repetition, in each thing that is compared, at both ends of it.
static void test_turned_bits_are_found(void **state) {
  World *world = *state;
  static const struct {
    ArenaClass arena;
    int64_t byte;
    const char *what;
  } places[] = {
      {ARENA_PERSISTENT, 0, "its 'table'"},
      {ARENA_PERSISTENT, TOY_STATE_BYTES - 1, "its 'table'"},
      {ARENA_PERSISTENT, TOY_STATE_BYTES, "its 'momentum.table'"},
      {ARENA_PERSISTENT, 2 * TOY_STATE_BYTES - 1, "its 'momentum.table'"},
      {ARENA_HOST, 4 * TOY_LOSS, "its output 'loss'"},
      {ARENA_HOST, 4 * TOY_NORM + 3, "its output 'grad_norm'"},
  };
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    for (int run = 8; run <= 9; run++) {  // steps 1 to 3, 4 twice, 5 to 7, 8 twice
      char name[64], checkpoint[128];
      Error error = {0};
      snprintf(name, sizeof name, "run-%zu-%d", i, run);
      const Turn asked = {run + 1, places[i].arena, places[i].byte};
      assert_false(train(world, name, 4, asked, &error));
      assert_int_equal(error.status, 6);
      expect_words(error.text, "step 8 was run twice");
      expect_words(error.text, "on rank 0 of 1");
      expect_words(error.text, places[i].what);
      snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/step-00000008", name);
      assert_false(there(world, checkpoint));
      snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/step-00000007", name);
      assert_true(there(world, checkpoint));
    }
  }
}

// Only what is looked at is found: the control of the test above.
static void test_others_are_not(void **state) {
  World *world = *state;
  Error error = {0};
  assert_true(train(world, "between", 4, (Turn){7, ARENA_PERSISTENT, 0}, &error));
  assert_true(train(world, "nobody", 0, (Turn){8, ARENA_PERSISTENT, 0}, &error));
}

static void test_bits_must_be_promised(void **state) {
  World *world = *state;
  Error error = {0};
  Check *check;
  Plan *plan = plan_of(world);
  const PlanSet set = {1, &plan};
  Backend backend = toy_backend;
  assert_true(check_open(&set, &backend, &check, &error));
  check_close(check);
  backend.apart = true;
  assert_false(check_open(&set, &backend, &check, &error));
  assert_int_equal(error.status, 2);
  expect_words(error.text, "reproducible = strict;");
  assert_null(check);
  plan->run.strict = true;
  assert_true(check_open(&set, &backend, &check, &error));
  check_close(check);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_nothing_changes, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_turned_bits_are_found, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_others_are_not, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_bits_must_be_promised, world_open, world_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
