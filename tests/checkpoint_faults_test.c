// checkpoint_faults_test.c: each call of the system and every second allocation that saving, loading and going on make
// fails once, of whole runs one in so many: that is told, with status 3 where memory is missing, no checkpoint that was
// there is lost or called damaged, and what is done without faults is right.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>

#include "runtime/checkpoint.h"
#include "runtime/checkpoint_files.h"
#include "runtime/frozen.h"
#include "runtime/restore.h"
#include "runtime/saver.h"
#include "runtime/train.h"
#include "runtime/verify_path.h"
#include "tests/faults.h"
#include "tests/toy.h"

enum { TABLE = 4, HELD = TABLE * TABLE };  // rows and columns; elements of a tensor

static Session session;

// Two small tensors, one of them stored turned.
static int session_begin(void **state) {
  Error error = {0};
  faults_open(state);
  World *world = *state;
  Plan *plan = toy_plan(world->arena, "text", 4, 8, 1, false);
  for (int i = 0; i < 2; i++) {
    PlanState *of = &plan->states[i];
    of->size[0] = of->size[1] = TABLE;
    of->stride[0] = of->stride[0] == 1 ? 1 : TABLE;
    of->stride[1] = of->stride[1] == 1 ? 1 : TABLE;
  }
  assert_true(session_open(&session, plan, &toy_backend, 1, &error));
  return 0;
}

static int session_end(void **state) {
  faults.kinds = 0;
  session_close(&session);
  return world_close(state);
}

static int runs_end(void **state) {
  faults.kinds = 0;
  return world_close(state);
}

static void values_set(float value) {
  Error error = {0};
  float values[HELD];
  for (int i = 0; i < HELD; i++) {
    values[i] = value + (float)i;
  }
  assert_true(toy_write(session.device, ARENA_PERSISTENT, 0, values, sizeof values, &error));
  assert_true(toy_write(session.device, ARENA_PERSISTENT, TOY_STATE_BYTES, values, sizeof values, &error));
}

static void expect_values(float value) {
  Error error = {0};
  float values[2][HELD];
  assert_true(toy_read(session.device, ARENA_PERSISTENT, 0, values[0], sizeof values[0], &error));
  assert_true(toy_read(session.device, ARENA_PERSISTENT, TOY_STATE_BYTES, values[1], sizeof values[1], &error));
  for (int i = 0; i < HELD; i++) {
    assert_true(values[0][i] == value + (float)i && values[1][i] == value + (float)i);
  }
}

static void saved(const World *world, int64_t step) {
  char path[IO_PATH_MAX];
  CheckpointFacts facts = {.step = step, .val_loss = NAN};
  Error error = {0};
  path_in(world, path, "run");
  values_set((float)step);
  if (!checkpoint_save(NULL, &session, path, &facts, NULL, &error)) {
    fail_msg("%s", error.text);
  }
}

static bool is_whole(const World *world, const char *name) {
  char path[IO_PATH_MAX];
  CheckpointFacts facts;
  Error error = {0};
  path_in(world, path, name);
  return checkpoint_verify(path, &facts, &error);
}

// Steps 1 and 2 are there, and no other.
static void begin(const World *world) {
  char path[IO_PATH_MAX];
  for (int step = 1; step <= 2; step++) {
    if (!there(world, step == 1 ? "run/step-00000001" : "run/step-00000002")) {
      saved(world, step);
    }
  }
  path_in(world, path, "run/step-00000003");
  io_remove_tree(path);
}

// --- saving ---

static bool save_works(const World *world, Error *error) {
  char path[IO_PATH_MAX];
  CheckpointFacts facts = {.step = 3, .val_loss = 2.5};
  const CheckpointKeep keep = {.newest = 1, .every = 2, .best = true};
  const int kinds = faults.kinds;
  faults.kinds = 0;
  begin(world);
  values_set(3);
  path_in(world, path, "run");
  faults.kinds = kinds;
  const bool done = checkpoint_save(NULL, &session, path, &facts, &keep, error);
  faults.kinds = 0;
  // The new one is whole or not there; what was there goes only when it is.
  assert_true(is_whole(world, "run/step-00000002"));
  assert_int_equal(is_whole(world, "run/step-00000003"), there(world, "run/step-00000003"));
  assert_true(there(world, "run/step-00000003") || is_whole(world, "run/step-00000001"));
  assert_true(!done || there(world, "run/step-00000003"));
  faults.kinds = kinds;
  return done;
}

static bool weights_read(void *context, const PlanState *state, void *dense, Error *error) {
  (void)context;
  (void)error;
  memset(dense, 0, (size_t)state_bytes(state));
  return true;
}

// Of weights alone, of which those that are frozen stay where they are.
static bool weights_work(const World *world, Error *error) {
  char path[IO_PATH_MAX];
  CheckpointFacts facts = {.step = 1, .val_loss = NAN};
  const CheckpointSource source = {.read = weights_read};
  Safetensors *file = NULL;
  json_t *manifest = NULL;
  Frozen frozen = {.arena = world->arena, .from = "/somewhere", .mapping = "a.hf"};
  const FrozenTensor other = {.name = "other", .axis_count = 1, .axis = {"a"}, .size = {3}, .hash = 7};
  array_push(world->arena, &frozen.tensors, other);
  facts.frozen = &frozen;
  path_in(world, path, "weights");
  if (!checkpoint_save_weights(session.set, &source, path, &facts, error)) {
    return false;
  }
  Frozen *found = NULL;
  path_in(world, path, "weights/step-00000001");
  if (!checkpoint_frozen(world->arena, path, &found, error) ||
      !checkpoint_open_weights(path, &file, &manifest, error)) {
    return false;
  }
  assert_non_null(frozen_find(found, "other"));
  assert_string_equal(found->mapping, "a.hf");
  assert_int_equal(safetensors_count(file), 1);
  safetensors_close(file);
  json_decref(manifest);
  return true;
}

// In a thread of its own.
static bool saver_works(const World *world, Error *error) {
  static Saver saver;
  char path[IO_PATH_MAX];
  Snapshot *snapshot = NULL;
  const CheckpointFacts facts = {.step = 4, .val_loss = NAN};
  const CheckpointKeep keep = {0};
  path_in(world, path, "run");
  if (!snapshot_create(&session, &snapshot, error)) {
    return false;
  }
  bool done = saver_start(&saver, NULL, &session, snapshot, path, &facts, &keep, error);
  if (done) {
    assert_true(saver_settled(&saver, true));
    done = saver.saved;
    *error = saver.error;
  }
  snapshot_destroy(snapshot);
  return done;
}

// --- reading ---

static bool load_works(const World *world, Error *error) {
  char path[IO_PATH_MAX];
  CheckpointFacts facts;
  path_in(world, path, "run/step-00000002");
  values_set(100);
  const bool done = checkpoint_load(&session, path, true, &facts, error);
  assert_false(facts.damaged);
  if (done) {
    expect_values(2);
  }
  const bool whole = done && checkpoint_verify(path, &facts, error);
  assert_false(facts.damaged);
  return whole;
}

static bool newest_works(const World *world, Error *error) {
  char path[IO_PATH_MAX], newest[IO_PATH_MAX];
  double least;
  bool found = false;
  path_in(world, path, "run");
  if (!checkpoint_newest(path, newest, &found, error) || !checkpoint_best(path, 0, 0, &least, error)) {
    return false;
  }
  assert_true(found);
  expect_words(newest, "step-00000002");
  return true;
}

// The newest is damaged, and there is one aside already: the one before it is loaded.
static bool resume_works(const World *world, Error *error) {
  char path[IO_PATH_MAX], aside[IO_PATH_MAX];
  CheckpointFacts facts;
  Buffer notes = {0};
  bool found = false;
  const int kinds = faults.kinds;
  faults.kinds = 0;
  if (!there(world, "run/step-00000002")) {  // it was put aside
    path_in(world, path, "run");
    io_remove_tree(path);
    begin(world);
  }
  path_in(world, aside, "run/damaged-00000002/inside");
  assert_true(io_make_path(aside, error));
  path_in(world, path, "run/step-00000002/model.safetensors");
  FILE *file = fopen(path, "a");
  fputc('x', file);
  fclose(file);
  path_in(world, path, "run");
  faults.kinds = kinds;
  const bool done = checkpoint_resume(&session, path, aside, &found, &facts, &notes, error);
  faults.kinds = 0;
  assert_true(!done || (found && facts.step == 1));
  if (done) {
    expect_values(1);
  }
  assert_true(is_whole(world, "run/step-00000001"));  // it is never put aside
  buffer_free(&notes);
  faults.kinds = kinds;
  return done;
}

// --- runs ---

enum { STEPS = 4 };

static bool trained(const World *world, const char *name, bool resume, Error *error) {
  char out[IO_PATH_MAX];
  TrainResult result;
  Plan *plan = toy_plan(world->arena, world->text, 8, 16, 2, false);
  path_in(world, out, name);
  const TrainOptions options = {.out = out,
                                .resume = resume,
                                .steps = STEPS,
                                .save_every = 2,
                                .eval_every = 2,
                                .log_every = 1,
                                .keep = 3,
                                .keep_best = true};
  return train_run(&(PlanSet){1, &plan}, &toy_backend, &options, &result, error);
}

static void expect_same(const World *world, const char *name) {
  char path[2][IO_PATH_MAX], *text[2];
  size_t size[2];
  Error error = {0};
  for (int i = 0; i < 2; i++) {
    path_in(world, path[i], i ? name : "whole/checkpoints/step-00000004/model.safetensors");
    if (!io_read_file(path[i], 1 << 20, &text[i], &size[i], &error)) {
      fail_msg("%s", error.text);
    }
  }
  assert_int_equal(size[0], size[1]);
  assert_memory_equal(text[0], text[1], size[0]);
  free(text[0]);
  free(text[1]);
}

// Whatever fails, the run is gone on with afterwards, and comes to the bits of the one in which nothing did.
static bool train_works(const World *world, Error *error) {
  char path[IO_PATH_MAX];
  Error why = {0};
  const int kinds = faults.kinds;
  faults.kinds = 0;
  path_in(world, path, "again");
  io_remove_tree(path);
  faults.kinds = kinds;
  const bool done = trained(world, "again", false, error);
  faults.kinds = 0;
  const bool begun = there(world, "again/plan.mdlx");
  if (!begun) {
    io_remove_tree(path);
  }
  if (!there(world, "again/checkpoints/step-00000004") && !trained(world, "again", begun, &why)) {
    fail_msg("it is not gone on with: %s; after: %s", why.text, error->text);
  }
  expect_same(world, "again/checkpoints/step-00000004/model.safetensors");
  faults.kinds = kinds;
  return done;
}

static bool resume_run_works(const World *world, Error *error) {
  char path[IO_PATH_MAX];
  const int kinds = faults.kinds;
  faults.kinds = 0;
  path_in(world, path, "whole");
  DIR *open = opendir(path);
  assert_non_null(open);
  for (struct dirent *entry; (entry = readdir(open));) {  // each begins one
    if (strncmp(entry->d_name, "events.", 7) == 0) {
      assert_int_equal(unlinkat(dirfd(open), entry->d_name, 0), 0);
    }
  }
  closedir(open);
  faults.kinds = kinds;
  return trained(world, "whole", true, error);
}

static bool verify_works(const World *world, Error *error) {
  Buffer out = {0};
  int64_t damaged = 0;
  char path[IO_PATH_MAX];
  path_in(world, path, "whole");
  const bool done = verify_path(path, &out, &damaged, error);
  if (done && !out.failed) {
    expect_words(out.text, "2 checkpoints, 0 damaged; --resume goes on from step 4");
  }
  buffer_free(&out);
  return done;
}

static bool restore_works(const World *world, Error *error) {
  Restored restored = {0};
  const RestoreOptions options = {.threads = 1, .program = PROGRAM_EVALUATE};
  char path[IO_PATH_MAX];
  path_in(world, path, "whole");
  const bool done = restore_open(&restored, path, &toy_backend, &options, error);
  assert_true(!done || restored.facts.step == 4);
  restore_close(&restored);
  return done;
}

static const struct {
  const char *name;
  FaultWork *work;
} works[] = {
    {"saving", save_works},  {"weights alone", weights_work}, {"saving meanwhile", saver_works},
    {"loading", load_works}, {"the newest", newest_works},    {"going on", resume_works},
};
enum { WORKS = sizeof works / sizeof *works };

// One call in `step` fails.
static void swept(const World *world, int kinds, int with, int step) {
  for (int i = 0; i < WORKS; i++) {
    char path[IO_PATH_MAX];
    path_in(world, path, "run");
    io_remove_tree(path);
    begin(world);
    assert_true(faults_sweep(works[i].name, works[i].work, world, kinds, with, step, NULL) > 0);
  }
}

static void test_missing_memory(void **state) {
  swept(*state, FAULT_MEMORY, ENOMEM, 2);
}

static void test_failing_calls(void **state) {
  swept(*state, FAULT_LOOK | FAULT_TRANSFER, EIO, 1);
  swept(*state, FAULT_LOOK | FAULT_TRANSFER, ENOMEM, 3);
}

static void test_runs(void **state) {
  static const char *const of_run[] = {"File exists", "No such file", "it is not a file", NULL}, *const of_plan[] = {
                                                                                                     "is neither",
                                                                                                     NULL};
  static const struct {
    const char *name;
    FaultWork *work;
    int memory, calls;           // one in so many fails
    const char *const *instead;  // what is said where nobody could look
  } all[] = {{"a run", train_works, 97, 23, of_run},
             {"a run that goes on", resume_run_works, 53, 11, of_run},
             {"mdl verify", verify_works, 1, 1, NULL},
             {"what is evaluated", restore_works, 1, 1, of_plan}};
  World *world = *state;
  Error error = {0};
  if (!trained(world, "whole", false, &error)) {
    fail_msg("%s", error.text);
  }
  for (int i = 0; i < 4; i++) {
    assert_true(faults_sweep(all[i].name, all[i].work, world, FAULT_MEMORY, ENOMEM, all[i].memory, NULL) > 0);
    assert_true(faults_sweep(all[i].name, all[i].work, world, FAULT_LOOK | FAULT_TRANSFER, EIO, all[i].calls,
                             all[i].instead) > 0);
  }
}

int main(void) {
  faults_of_json();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_missing_memory, session_begin, session_end),
      cmocka_unit_test_setup_teardown(test_failing_calls, session_begin, session_end),
      cmocka_unit_test_setup_teardown(test_runs, faults_open, runs_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
