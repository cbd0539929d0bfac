// checkpoint_words_test.c: what is said of checkpoints and runs that do not fit a plan, or are none; and what of an
// older or another one is taken all the same.
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/plan/artefact.h"
#include "runtime/checkpoint.h"
#include "runtime/checkpoint_files.h"
#include "runtime/frozen.h"
#include "runtime/restore.h"
#include "runtime/snapshot.h"
#include "runtime/train.h"
#include "runtime/verify_path.h"
#include "tests/place.h"
#include "tests/toy.h"

static void expect_error(bool done, const Error *error, const char *words) {
  if (done || error->status != 1 || !strstr(error->text, words)) {
    fail_msg("expected '%s' in: %s", words, done ? "nothing" : error->text);
  }
}

// --- tensors that do not fit ---

enum { MOST_STATES = 8, NUMBERS = 4 };

typedef struct {
  const char *name;
  StateRole role;
  ElementType type;
  int64_t size;
} Held;

// A plan with these tensors, of one axis each.
static Plan *plan_with(Arena *arena, const Held *held, int count) {
  Plan *plan = toy_plan(arena, "text", 4, 8, 1, false);
  plan->states = ARENA_ARRAY(arena, PlanState, count);
  plan->state_count = count;
  for (int i = 0; i < count; i++) {
    plan->states[i] = (PlanState){.name = held[i].name,
                                  .role = held[i].role,
                                  .type = held[i].type,
                                  .axis_count = 1,
                                  .axis = {"a"},
                                  .size = {held[i].size},
                                  .stride = {1},
                                  .offset = 64 * i};
  }
  return plan;
}

typedef struct {
  Held held[MOST_STATES];
  int count;
} Tensors;

// Each of the first has the numbers 1, 2, ...; what is loaded into the second, or what is said.
static bool moved(World *world, const Tensors *from, const Tensors *to, void *first, Error *error) {
  Session session;
  CheckpointFacts facts = {.step = 1, .val_loss = NAN};
  char path[IO_PATH_MAX];
  assert_true(session_open(&session, plan_with(world->arena, from->held, from->count), &toy_backend, 1, error));
  for (int i = 0; i < from->count; i++) {
    const float wide[NUMBERS] = {1, 2, 3, 4};
    const uint16_t narrow[NUMBERS] = {0x3f80, 0x4000, 0x4040, 0x4080};
    const bool half = from->held[i].type == TYPE_BF16;
    assert_true(
        toy_write(session.device, ARENA_PERSISTENT, 64 * i, half ? (const void *)narrow : wide, half ? 8 : 16, error));
  }
  if (!checkpoint_save(NULL, &session, world->directory, &facts, NULL, error)) {
    fail_msg("%s", error->text);
  }
  session_close(&session);
  assert_true(session_open(&session, plan_with(world->arena, to->held, to->count), &toy_backend, 1, error));
  path_in(world, path, "step-00000001");
  const bool done = checkpoint_load(&session, path, true, &facts, error);
  assert_true(toy_read(session.device, ARENA_PERSISTENT, 0, first, 16, error));
  session_close(&session);
  return done;
}

static const Held weight = {"w", STATE_PARAMETER, TYPE_F32, NUMBERS},
                  moment = {"m", STATE_OPTIMIZER, TYPE_F32, NUMBERS};

static void test_tensors_that_do_not_fit(void **state) {
  static const struct {
    Tensors to;
    const char *words[3];
  } all[] = {
      {{{{"w", STATE_PARAMETER, TYPE_F32, 3}, {"m", STATE_OPTIMIZER, TYPE_F32, NUMBERS}}, 2},
       {"does not fit the plan: 'w' is F32 [4] there, F32 [3] in the plan"}},
      {{{{"w", STATE_PARAMETER, TYPE_INT, NUMBERS}, {"m", STATE_OPTIMIZER, TYPE_F32, NUMBERS}}, 2},
       {"'w' is F32 [4] there, I32 [4] in the plan"}},
      {{{{"w", STATE_PARAMETER, TYPE_F32, NUMBERS}, {"n", STATE_OPTIMIZER, TYPE_F32, NUMBERS}}, 2},
       {"it was trained with another optimizer", "'n' is missing", "'m' is there, but not in the plan"}},
      {{{{"m", STATE_PARAMETER, TYPE_F32, NUMBERS}, {"w", STATE_OPTIMIZER, TYPE_F32, NUMBERS}}, 2},
       {"'m' is missing", "'w' is there, but not in the plan"}},
      {{{{"a", STATE_PARAMETER, TYPE_F32, 1},
         {"b", STATE_PARAMETER, TYPE_F32, 1},
         {"c", STATE_PARAMETER, TYPE_F32, 1},
         {"d", STATE_PARAMETER, TYPE_F32, 1},
         {"e", STATE_PARAMETER, TYPE_F32, 1},
         {"f", STATE_PARAMETER, TYPE_F32, 1},
         {"g", STATE_PARAMETER, TYPE_F32, 1}},
        7},
       {"'a' is missing", "'f' is missing; and 3 more"}},
  };
  World *world = *state;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const Tensors from = {{weight, moment}, 2};
    Error error = {0};
    float first[NUMBERS];
    const bool done = moved(world, &from, &all[i].to, first, &error);
    for (int w = 0; w < 3 && all[i].words[w]; w++) {
      expect_error(done, &error, all[i].words[w]);
    }
  }
}

// A frozen parameter may be in another format now; what scales of fp8 were begins anew.
static void test_tensors_that_are_taken(void **state) {
  World *world = *state;
  Error error = {0};
  float wide[NUMBERS];
  uint16_t narrow[2 * NUMBERS];
  const Tensors f32 = {{weight}, 1}, bf16 = {{{"w", STATE_PARAMETER, TYPE_BF16, NUMBERS}}, 1};
  assert_true(moved(world, &bf16, &f32, wide, &error));
  assert_true(wide[0] == 1 && wide[3] == 4);
  assert_true(moved(world, &f32, &bf16, narrow, &error));
  assert_true(narrow[0] == 0x3f80 && narrow[3] == 0x4080);
  const Tensors history = {{{"fp8.w.amax", STATE_MODEL, TYPE_F32, NUMBERS}, weight}, 2};
  const Tensors longer = {{{"fp8.w.amax", STATE_MODEL, TYPE_F32, 3}, weight}, 2};
  const Tensors named = {{{"fp8.amax", STATE_MODEL, TYPE_F32, NUMBERS}, weight}, 2};
  assert_true(moved(world, &history, &history, wide, &error));
  assert_true(wide[0] == 1 && wide[3] == 4);
  assert_true(moved(world, &history, &longer, wide, &error));
  assert_true(wide[0] == 0 && wide[2] == 0);
  assert_true(moved(world, &f32, &history, wide, &error));
  assert_true(wide[0] == 0 && wide[3] == 0);
  assert_true(moved(world, &history, &f32, wide, &error));
  assert_true(wide[0] == 1 && wide[3] == 4);
  expect_error(moved(world, &f32, &named, wide, &error), &error, "'fp8.amax' is missing");
}

// Numbers in names are in the order of their values, but for those that begin with 0; and every name is found.
static void test_order_of_names(void **state) {
  static const char *const wanted[] = {"a", "a.b", "a02", "a010", "a1", "a1b", "a2", "a10", "b"};
  static const Held held[] = {{"b", STATE_PARAMETER, TYPE_F32, 1},   {"a10", STATE_PARAMETER, TYPE_F32, 1},
                              {"a1b", STATE_PARAMETER, TYPE_F32, 1}, {"a.b", STATE_PARAMETER, TYPE_F32, 1},
                              {"a2", STATE_PARAMETER, TYPE_F32, 1},  {"a1", STATE_PARAMETER, TYPE_F32, 1},
                              {"a02", STATE_PARAMETER, TYPE_F32, 1}, {"a", STATE_PARAMETER, TYPE_F32, 1},
                              {"a010", STATE_PARAMETER, TYPE_F32, 1}};
  enum { COUNT = sizeof held / sizeof *held };
  World *world = *state;
  Plan *plan = plan_with(world->arena, held, COUNT);
  const PlanSet set = {1, &plan};
  States states;
  Error error = {0};
  assert_true(states_open(&set, &states, &error));
  assert_int_equal(states.count, COUNT);
  for (int i = 0; i < COUNT; i++) {
    assert_string_equal(states.at[i].state->name, wanted[i]);
    assert_ptr_equal(states_find(&states, wanted[i]), &states.at[i]);
  }
  assert_null(states_find(&states, "a3"));
  assert_null(states_find(&states, ""));
  states_close(&states);
}

// --- devices that fail ---

static int device_calls, device_fails;  // counted; which fails, from 1

static bool failing_read(Device *device, ArenaClass arena, int64_t offset, void *data, int64_t bytes, Error *error) {
  return ++device_calls == device_fails ? error_set(error, 5, "the device is lost")
                                        : toy_read(device, arena, offset, data, bytes, error);
}

static bool failing_write(Device *device, ArenaClass arena, int64_t offset, const void *data, int64_t bytes,
                          Error *error) {
  return ++device_calls == device_fails ? error_set(error, 5, "the device is lost")
                                        : toy_write(device, arena, offset, data, bytes, error);
}

static bool failing_run(Device *device, ProgramKind kind, Error *error) {
  return ++device_calls == device_fails ? error_set(error, 5, "the device is lost") : toy_run(device, kind, error);
}

// What a device does not do ends saving and loading with its words, whichever call it is.
static void test_devices_that_fail(void **state) {
  World *world = *state;
  Backend failing = toy_backend;
  failing.read = failing_read;
  failing.write = failing_write;
  failing.run = failing_run;
  Held held[] = {weight, moment};
  Plan *plan = plan_with(world->arena, held, 2);
  Session session;
  char path[IO_PATH_MAX];
  Error error = {0};
  plan->states[1].offset = 1 << 16;  // far enough to be copied by itself
  plan->states[0].stride[0] = 2;     // what lies between its elements is read too
  assert_true(session_open(&session, plan, &failing, 1, &error));
  for (int what = 0; what < 3; what++) {
    int failed = 0;
    for (bool done = false; !done;) {
      CheckpointFacts facts = {.step = 1, .val_loss = NAN};
      device_calls = 0;
      device_fails = failed + 1;
      error = (Error){0};
      path_in(world, path, "step-00000001");
      if (what == 0) {
        done = checkpoint_save(NULL, &session, world->directory, &facts, NULL, &error);
      } else if (what == 1) {
        done = checkpoint_load(&session, path, true, &facts, &error);
      } else {
        Snapshot *snapshot;
        assert_true(snapshot_create(&session, &snapshot, &error));
        done = snapshot_take(snapshot, &error);
        snapshot_destroy(snapshot);
      }
      if (!done) {
        failed++;
        assert_int_equal(error.status, 5);
        assert_string_equal(error.text, "the device is lost");
        assert_false(facts.damaged);
      }
    }
    assert_true(failed >= 2);
  }
  session_close(&session);
}

// --- directories of checkpoints ---

static void saved(World *world, Session *session, CheckpointFacts facts) {
  char path[IO_PATH_MAX];
  Error error = {0};
  path_in(world, path, "run/checkpoints");
  if (!checkpoint_save(NULL, session, path, &facts, NULL, &error)) {
    fail_msg("%s", error.text);
  }
}

static void session_of(World *world, Session *session) {
  Error error = {0};
  const Held held[] = {weight, moment};
  assert_true(session_open(session, plan_with(world->arena, held, 2), &toy_backend, 1, &error));
}

static void poison(Session *session, float value) {
  Error error = {0};
  assert_true(toy_write(session->device, ARENA_PERSISTENT, 0, &value, 4, &error));
}

// A directory says of which step it is, if its name is that of one, wherever it is asked for.
static void test_names_of_directories(void **state) {
  static const struct {
    const char *name, *asked;
    bool lies;
  } all[] = {{"step-00000001", "step-00000001//", false},
             {"step-00000002", "step-00000002/", true},
             {"step-2", "step-2", false},
             {"step-0000000000000000002", "step-0000000000000000002", false},  // no number has so many digits
             {"step-00000002x", "step-00000002x", false},
             {"step-000000000000000000000000000000001", "step-000000000000000000000000000000001", false}};
  World *world = *state;
  Session session;
  char home[IO_PATH_MAX], path[IO_PATH_MAX];
  CheckpointFacts facts;
  Error error = {0};
  assert_non_null(getcwd(home, sizeof home));
  session_of(world, &session);
  saved(world, &session, (CheckpointFacts){.step = 1, .val_loss = NAN});
  session_close(&session);
  path_in(world, path, "run/checkpoints");
  assert_int_equal(chdir(path), 0);
  const char *was = "step-00000001";
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    assert_int_equal(rename(was, all[i].name), 0);
    was = all[i].name;
    const bool read = checkpoint_facts(all[i].asked, &facts, &error);
    assert_int_equal(read, !all[i].lies);
    if (!read) {
      expect_error(read, &error, "manifest.json is of step 1, which the directory is not called by");
    }
    assert_int_equal(facts.damaged, all[i].lies);
  }
  assert_int_equal(chdir(home), 0);
}

// More of them than a list has at first; and what is wrong with all.
static void test_many_checkpoints(void **state) {
  World *world = *state;
  Session session;
  char path[IO_PATH_MAX], newest[IO_PATH_MAX], name[64];
  int64_t *steps;
  int count;
  bool found;
  CheckpointFacts facts;
  Buffer notes = {0};
  Error error = {0};
  session_of(world, &session);
  poison(&session, NAN);
  for (int i = 1; i <= 20; i++) {
    saved(world, &session, (CheckpointFacts){.step = i, .val_loss = NAN});
  }
  path_in(world, path, "run/checkpoints");
  assert_true(checkpoint_steps(path, &steps, &count, &error));
  assert_int_equal(count, 20);
  for (int i = 0; i < count; i++) {
    assert_int_equal(steps[i], 20 - i);
  }
  free(steps);
  // None is finite: the newest is as good as any to look at, and none to go on with.
  assert_true(checkpoint_newest(path, newest, &found, &error) && found);
  expect_words(newest, "step-00000020");
  expect_error(checkpoint_resume(&session, path, newest, &found, &facts, &notes, &error), &error,
               "can be gone on with: the checkpoint");
  expect_words(notes.text, "step-00000020 holds numbers in 'w' that are not finite");
  buffer_free(&notes);
  // A manifest that cannot be read this time is none to remove the checkpoint for.
  poison(&session, 1);
  facts = (CheckpointFacts){.step = 21, .val_loss = NAN};
  snprintf(name, sizeof name, "run/checkpoints/step-00000007/manifest.json");
  path_in(world, newest, name);
  assert_int_equal(unlink(newest), 0);
  assert_int_equal(mkfifo(newest, 0600), 0);
  const CheckpointKeep keep = {.newest = 1, .best = true};
  assert_true(checkpoint_save(NULL, &session, path, &facts, &keep, &error));
  assert_true(checkpoint_steps(path, &steps, &count, &error));
  assert_true(count == 2 && steps[0] == 21 && steps[1] == 7);
  free(steps);
  // What is no directory of checkpoints.
  path_in(world, path, "text");
  expect_error(checkpoint_steps(path, &steps, &count, &error), &error, "cannot read");
  expect_error(checkpoint_newest(path, newest, &found, &error), &error, "cannot read");
  double least;
  expect_error(checkpoint_best(path, 0, 0, &least, &error), &error, "cannot read");
  expect_error(checkpoint_resume(&session, path, newest, &found, &facts, &notes, &error), &error, "cannot read");
  checkpoint_clean(path);
  assert_true(there(world, "text"));
  session_close(&session);
}

// One that was killed while a checkpoint made room for another of its step, where names cannot be exchanged in one
// step.
static void test_put_aside(void **state) {
  World *world = *state;
  char step[IO_PATH_MAX], aside[IO_PATH_MAX], checkpoints[IO_PATH_MAX];
  CheckpointFacts facts;
  Session session;
  Error error = {0};
  session_of(world, &session);
  saved(world, &session, (CheckpointFacts){.step = 3, .val_loss = NAN});
  path_in(world, checkpoints, "run/checkpoints");
  path_in(world, step, "run/checkpoints/step-00000003");
  path_in(world, aside, "run/checkpoints/step-00000003" IO_ASIDE_ENDING);
  assert_int_equal(rename(step, aside), 0);
  checkpoint_clean(checkpoints);
  assert_true(io_absent(aside) && checkpoint_verify(step, &facts, &error));
  assert_int_equal(rename(step, aside), 0);
  saved(world, &session, (CheckpointFacts){.step = 3, .val_loss = 1});
  checkpoint_clean(checkpoints);
  assert_true(io_absent(aside) && checkpoint_verify(step, &facts, &error) && facts.val_loss == 1);
  path_in(world, aside, "run/checkpoints/notes" IO_ASIDE_ENDING);  // nobody's but the user's
  assert_int_equal(mkdir(aside, 0777), 0);
  checkpoint_clean(checkpoints);
  assert_true(io_is_directory(aside));
  session_close(&session);
}

// --- long paths ---

// A name of this directory that has so many bytes.
static void long_name(const World *world, const char *name, size_t length, char *out) {
  const size_t begin = (size_t)snprintf(out, IO_PATH_MAX, "%s/%s", world->directory, name);
  memset(out + begin, '/', length - begin);
  out[length] = '\0';
}

static void expect_long(bool done, const Error *error, int *failed) {
  *failed += !done;
  if (!done && (error->status != 1 || !strstr(error->text, "too long"))) {
    fail_msg("the path is too long, and what is said is: %s", error->text);
  }
}

static int in_memory(void **state) {  // where there is such a place
  return world_open_in(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", state);
}

// Whatever fits is done, and what does not is said: no path is cut short to be another's.
static void test_long_paths(void **state) {
  World *world = *state;
  Session session;
  static char run[IO_PATH_MAX + 2], checkpoints[IO_PATH_MAX + 2], step[IO_PATH_MAX + 2];
  int failed[10] = {0};
  session_of(world, &session);
  saved(world, &session, (CheckpointFacts){.step = 1, .val_loss = NAN});
  for (size_t length = IO_PATH_MAX - 90; length < IO_PATH_MAX; length += 3) {
    char path[IO_PATH_MAX];
    CheckpointFacts facts = {.step = 2, .val_loss = NAN};
    Error error = {0};
    Buffer out = {0};
    Frozen *frozen = NULL;
    Safetensors *weights = NULL;
    int64_t damaged;
    bool found = false, done;
    double least;
    long_name(world, "run", length, run);
    long_name(world, "run/checkpoints", length, checkpoints);
    long_name(world, "run/checkpoints/step-00000001", length, step);
    done = checkpoint_save(NULL, &session, checkpoints, &facts, &(CheckpointKeep){.newest = 1}, &error);
    expect_long(done, &error, &failed[0]);
    // Of two, what is not kept goes where its name fits.
    assert_true(there(world, "run/checkpoints/step-00000002") || !done);
    saved(world, &session, (CheckpointFacts){.step = 1, .val_loss = NAN});
    expect_long(checkpoint_facts(step, &facts, &error), &error, &failed[1]);
    expect_long(checkpoint_verify(step, &facts, &error), &error, &failed[2]);
    expect_long(checkpoint_load(&session, step, true, &facts, &error), &error, &failed[3]);
    expect_long(checkpoint_frozen(world->arena, step, &frozen, &error), &error, &failed[4]);
    expect_long(checkpoint_open_weights(step, &weights, NULL, &error), &error, &failed[5]);
    safetensors_close(weights);
    expect_long(checkpoint_newest(checkpoints, path, &found, &error), &error, &failed[6]);
    expect_long(checkpoint_resume(&session, checkpoints, path, &found, &facts, &out, &error), &error, &failed[7]);
    expect_long(verify_path(run, &out, &damaged, &error), &error, &failed[8]);
    checkpoint_best(checkpoints, 0, 0, &least, &error);
    checkpoint_clean(checkpoints);
    buffer_free(&out);
    assert_true(there(world, "run/checkpoints/step-00000001"));
  }
  for (int i = 0; i < 9; i++) {
    assert_true(failed[i] > 1 && failed[i] < 29);
  }
  session_close(&session);
}

// --- mdl verify ---

static void expect_verified(const World *world, const char *name, int64_t damaged, const char *words) {
  char path[IO_PATH_MAX];
  Buffer out = {0};
  int64_t found = -1;
  Error error = {0};
  path_in(world, path, name);
  if (!verify_path(path, &out, &found, &error)) {
    fail_msg("%s", error.text);
  }
  expect_words(out.text, words);
  assert_int_equal(found, damaged);
  buffer_free(&out);
}

static void put_text(const World *world, const char *name, const char *text) {
  char path[IO_PATH_MAX];
  path_in(world, path, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void test_verified(void **state) {
  World *world = *state;
  Session session;
  char path[IO_PATH_MAX];
  Buffer out = {0};
  int64_t damaged;
  Error error = {0};
  session_of(world, &session);
  path_in(world, path, "run/checkpoints");
  assert_true(io_make_path(path, &error));
  expect_verified(world, "run", 0, "holds no checkpoint\n");
  expect_verified(world, "run", 0, "metrics.jsonl is not there\n");
  poison(&session, INFINITY);
  saved(world, &session, (CheckpointFacts){.step = 1, .val_loss = NAN});
  expect_verified(world, "run", 0, "1 checkpoint, 0 damaged; none is good\n");
  expect_verified(world, "run/checkpoints/step-00000001", 0, "whole; 'w' holds numbers that are not finite\n");
  poison(&session, 1);
  saved(world, &session, (CheckpointFacts){.step = 2, .val_loss = 2.5, .bad_steps = 3});
  expect_verified(world, "run", 0, "2 checkpoints, 0 damaged; none is good\n");
  expect_verified(world, "run/checkpoints/step-00000002", 0, "BAD    ");
  expect_verified(world, "run/checkpoints/step-00000002", 0,
                  "saved after 3 bad steps in a row; validation loss 2.5000\n");
  saved(world, &session, (CheckpointFacts){.step = 3, .val_loss = NAN});
  put_text(world, "run/checkpoints/step-00000002/model.safetensors", "short");
  put_text(world, "run/checkpoints/damaged-00000001", "");
  put_text(world, "run/metrics.jsonl", "{\"step\":1,\"loss\":2}\nno line\n");
  expect_verified(world, "run", 1, "DAMAGED  the checkpoint");
  expect_verified(world, "run", 1, "3 checkpoints, 1 damaged; --resume goes on from step 3 or later\n");
  expect_verified(world, "run", 1, "damaged-00000001 was found damaged before, and is not used\n");
  expect_verified(world, "run", 1, "metrics.jsonl: 1 lines are none of metrics\n");
  // What cannot be judged.
  path_in(world, path, "nothing");
  expect_error(verify_path(path, &out, &damaged, &error), &error, "there is no run directory");
  path_in(world, path, "text");
  expect_error(verify_path(path, &out, &damaged, &error), &error, "is a file and no run directory");
  expect_error(verify_path(world->directory, &out, &damaged, &error), &error, "is neither a run nor a checkpoint");
  path_in(world, path, "run/metrics.jsonl");
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkdir(path, 0700), 0);
  path_in(world, path, "run");
  expect_error(verify_path(path, &out, &damaged, &error), &error, "metrics.jsonl: it is not a file");
  path_in(world, path, "run/checkpoints/step-00000003/manifest.json");
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkfifo(path, 0600), 0);
  path_in(world, path, "run");
  expect_error(verify_path(path, &out, &damaged, &error), &error, "manifest.json: it is not a file");
  buffer_free(&out);
  session_close(&session);
}

// --- runs that are opened to be used ---

static void expect_restore(const World *world, const char *name, ProgramKind program, const Backend *backend,
                           const char *words) {
  char path[IO_PATH_MAX];
  Restored restored = {0};
  Error error = {0};
  const RestoreOptions options = {.threads = 1, .program = program, .trust = true};
  path_in(world, path, name);
  expect_error(restore_open(&restored, path, backend, &options, &error), &error, words);
  restore_close(&restored);
}

static bool toy_refuses(const Plan *plan, const DeviceOptions *options, Device **device, Error *error) {
  (void)plan;
  (void)options;
  (void)device;
  return error_set(error, 1, "there is no such device");
}

static void test_restored(void **state) {
  World *world = *state;
  TrainResult result;
  char path[IO_PATH_MAX], longest[IO_PATH_MAX];
  const char *why = NULL;
  Error error = {0};
  Backend refuses = toy_backend;
  refuses.open = toy_refuses;
  Plan *plan = toy_plan(world->arena, world->text, 8, 16, 2, false);
  PlanSet set = {1, &plan};
  path_in(world, path, "run");
  const TrainOptions options = {.out = path, .steps = 1, .save_every = 1, .eval_every = -1, .log_every = -1, .keep = 3};
  if (!train_run(&set, &toy_backend, &options, &result, &error)) {
    fail_msg("%s", error.text);
  }
  Restored restored = {0};
  const RestoreOptions evaluate = {.threads = 1, .program = PROGRAM_EVALUATE};
  for (int i = 0; i < 2; i++) {
    path_in(world, path, i ? "run/checkpoints/step-00000001" : "run");
    if (!restore_open(&restored, path, &toy_backend, &evaluate, &error)) {
      fail_msg("%s", error.text);
    }
    assert_int_equal(restored.facts.step, 1);
    restore_close(&restored);
  }
  memset(longest, 'a', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  expect_error(restore_open(&restored, longest, &toy_backend, &evaluate, &error), &error, "the path is too long");
  expect_restore(world, "nothing", PROGRAM_EVALUATE, &toy_backend, "there is no run directory");
  expect_restore(world, "run", PROGRAM_EVALUATE, &refuses, "there is no such device");
  expect_restore(world, "run", PROGRAM_DECODE, &toy_backend, "has no decode program");
  // A plan of one rank generates without what is compiled for it, and says why; code of GPUs is never looked at here.
  const RestoreOptions generate = {.threads = 1, .program = PROGRAM_GENERATE};
  path_in(world, path, "run");
  assert_true(restore_open(&restored, path, &toy_backend, &generate, &error));
  expect_words(restored.whole, "does not compile for one rank");
  restore_close(&restored);
  path_in(world, path, "run/resolved.mdl");
  assert_int_equal(unlink(path), 0);
  path_in(world, path, "run");
  assert_true(restore_open(&restored, path, &toy_backend, &generate, &error));
  expect_words(restored.whole, "resolved.mdl: it is not there, or not a file");
  restore_close(&restored);
  plan->programs[PROGRAM_GENERATE].call_count = 0;
  path_in(world, path, "run/plan.mdlx");
  assert_true(artefact_write(world->arena, &set, path, &why));
  expect_restore(world, "run", PROGRAM_GENERATE, &toy_backend, "its model assigns no `logits`");
  plan->programs[PROGRAM_EVALUATE].call_count = 0;
  plan->programs[PROGRAM_EVALUATE].missing = "there is nothing to evaluate";
  assert_true(artefact_write(world->arena, &set, path, &why));
  expect_restore(world, "run", PROGRAM_EVALUATE, &toy_backend, "program: there is nothing to evaluate");
  put_text(world, "run/plan.mdlx", "none");
  expect_restore(world, "run", PROGRAM_EVALUATE, &toy_backend, "is no plan");
  assert_int_equal(unlink(path), 0);
  expect_restore(world, "run", PROGRAM_EVALUATE, &toy_backend, "is neither a run (plan.mdlx) nor a checkpoint");
  path_in(world, path, "run/checkpoints");
  assert_true(io_remove_tree(path) && io_make_path(path, &error));
  put_text(world, "run/plan.mdlx", "none");
  expect_restore(world, "run", PROGRAM_EVALUATE, &toy_backend, "has no checkpoint yet");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_tensors_that_do_not_fit, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_tensors_that_are_taken, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_order_of_names, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_devices_that_fail, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_names_of_directories, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_many_checkpoints, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_put_aside, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_long_paths, in_memory, world_close),
      cmocka_unit_test_setup_teardown(test_verified, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_restored, world_open, world_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
