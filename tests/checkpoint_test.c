// checkpoint_test.c: saving and loading, crashes at every file operation, and runs that are resumed.
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/checkpoint.h"
#include "runtime/metrics.h"
#include "runtime/train.h"
#include "tests/place.h"
#include "tests/toy.h"

static char *file_bytes(const char *path, size_t *size) {
  Error error;
  char *text = NULL;
  if (!io_read_file(path, 1 << 30, &text, size, &error)) {
    fail_msg("%s", error.text);
  }
  return text;
}

static void same_file(const char *a, const char *b) {
  size_t x, y;
  char *left = file_bytes(a, &x), *right = file_bytes(b, &y);
  assert_int_equal(x, y);
  assert_memory_equal(left, right, x);
  free(left);
  free(right);
}

static int entries(const char *directory, const char *prefix) {
  DIR *open = opendir(directory);
  int count = 0;
  for (struct dirent *entry; open && (entry = readdir(open));) {
    count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
  }
  if (open) {
    closedir(open);
  }
  return count;
}

// A plan with one small parameter, stored turned, and one scalar of optimizer state behind it.
static Plan *small_plan(Arena *arena) {
  Plan *plan = toy_plan(arena, "text", 4, 8, 1, false);
  plan->states[0] = (PlanState){.name = "w",
                                .role = STATE_PARAMETER,
                                .type = TYPE_F32,
                                .axis_count = 2,
                                .axis = {"in", "out"},
                                .size = {2, 3},
                                .stride = {1, 2},
                                .offset = 8};
  plan->states[1] = (PlanState){.name = "count", .role = STATE_OPTIMIZER, .type = TYPE_INT, .offset = 0};
  return plan;
}

static void test_bytes_of_a_file(void **state) {
  World *world = *state;
  Plan *plan = small_plan(world->arena);
  Session session;
  Error error;
  assert_true(session_open(&session, plan, &toy_backend, 1, &error));
  float stored[] = {1, 4, 2, 5, 3, 6};  // columns one after the other: w = [[1, 2, 3], [4, 5, 6]]
  int32_t count = 7;
  assert_true(toy_write(session.device, ARENA_PERSISTENT, 8, stored, sizeof stored, &error));
  assert_true(toy_write(session.device, ARENA_PERSISTENT, 0, &count, 4, &error));
  CheckpointFacts facts = {.step = 3, .tokens = 96, .seed = UINT64_MAX, .program_hash = 1, .state_hash = 2};
  facts.data_hash = 5;
  facts.tokenizer_hash = 6;
  facts.val_loss = 0.1;
  facts.bad_steps = 4;
  char path[IO_PATH_MAX];
  assert_true(checkpoint_save(NULL, &session, world->directory, &facts, NULL, &error));
  path_in(world, path, "step-00000003/model.safetensors");
  size_t size;
  char *bytes = file_bytes(path, &size);
  static const char header[] =
      "{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}";
  size_t padded = (sizeof header - 1 + 7) / 8 * 8;
  assert_int_equal(size, 8 + padded + 24);
  const uint8_t length[8] = {(uint8_t)padded};
  assert_memory_equal(bytes, length, 8);
  assert_memory_equal(bytes + 8, header, sizeof header - 1);
  for (size_t i = sizeof header - 1; i < padded; i++) {
    assert_int_equal(bytes[8 + i], ' ');
  }
  static const uint8_t floats[] = {0, 0, 0x80, 0x3f, 0, 0, 0,    0x40, 0, 0, 0x40, 0x40,
                                   0, 0, 0x80, 0x40, 0, 0, 0xa0, 0x40, 0, 0, 0xc0, 0x40};
  assert_memory_equal(bytes + 8 + padded, floats, 24);
  free(bytes);

  char zero[64] = {0};
  assert_true(toy_write(session.device, ARENA_PERSISTENT, 0, zero, 32, &error));
  CheckpointFacts loaded;
  path_in(world, path, "step-00000003");
  assert_true(checkpoint_load(&session, path, true, &loaded, &error));
  assert_true(loaded.step == 3 && loaded.tokens == 96 && loaded.seed == UINT64_MAX);
  assert_true(loaded.program_hash == 1 && loaded.state_hash == 2 && loaded.data_hash == 5 &&
              loaded.tokenizer_hash == 6);
  assert_true(loaded.val_loss == 0.1 && loaded.bad_steps == 4 && !loaded.not_finite[0]);
  float back[6];
  int32_t number;
  assert_true(toy_read(session.device, ARENA_PERSISTENT, 8, back, sizeof back, &error));
  assert_true(toy_read(session.device, ARENA_PERSISTENT, 0, &number, 4, &error));
  assert_memory_equal(back, stored, sizeof back);
  assert_int_equal(number, 7);
  session_close(&session);
}

static void save_step(World *world, Session *session, int64_t step, Io *io, bool expected) {
  CheckpointFacts facts = {.step = step};
  Error error = {0};
  bool done = checkpoint_save(io, session, world->directory, &facts, NULL, &error);
  if (done != expected) {
    fail_msg("saving step %lld: %s", (long long)step, error.text);
  }
  assert_true(done || strlen(error.text) > 20);
}

static int64_t newest_step(World *world, Session *session) {
  char path[IO_PATH_MAX];
  bool found;
  Error error = {0};
  CheckpointFacts facts;
  assert_true(checkpoint_newest(world->directory, path, &found, &error));
  if (!found) {
    return -1;
  }
  if (!checkpoint_load(session, path, true, &facts, &error)) {
    fail_msg("%s", error.text);
  }
  return facts.step;
}

static void test_every_operation_fails(void **state) {
  World *world = *state;
  Session session;
  Error error;
  assert_true(session_open(&session, toy_plan(world->arena, "text", 4, 8, 1, false), &toy_backend, 1, &error));
  save_step(world, &session, 1, NULL, true);
  Io count = {0};
  save_step(world, &session, 2, &count, true);
  assert_true(count.count >= 12);
  for (int64_t n = 1; n <= count.count; n++) {
    Io io = {.fail_at = n};
    CheckpointFacts facts = {.step = 2 + n};
    Error why = {0};
    bool done = checkpoint_save(&io, &session, world->directory, &facts, NULL, &why);
    assert_false(done);
    assert_non_null(strstr(why.text, world->directory));
    assert_non_null(strstr(why.text, "No space left on device"));
    // The last operation flushes the name of a checkpoint that is already whole.
    assert_int_equal(newest_step(world, &session), n == count.count ? 2 + n : 2);
    assert_int_equal(entries(world->directory, "saving-"), 0);
  }
  session_close(&session);
}

static void test_killed_at_every_operation(void **state) {
  World *world = *state;
  Session session;
  Error error;
  assert_true(session_open(&session, toy_plan(world->arena, "text", 4, 8, 1, false), &toy_backend, 1, &error));
  save_step(world, &session, 1, NULL, true);
  Io count = {0};
  save_step(world, &session, 2, &count, true);
  for (int64_t n = 1; n <= count.count; n++) {
    // Saving step 2 again is the harder case: the new directory takes the place of one that is there.
    for (int64_t step = 2; step <= 3; step++) {
      pid_t child = fork();
      assert_true(child >= 0);
      if (child == 0) {
        Io io = {.die_at = n};
        CheckpointFacts facts = {.step = step};
        checkpoint_save(&io, &session, world->directory, &facts, NULL, &error);
        _exit(0);
      }
      int status;
      assert_int_equal(waitpid(child, &status, 0), child);
      assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 137);
      int64_t newest = newest_step(world, &session);
      assert_true(newest == 2 || newest == 3);
      assert_int_equal(newest == 3, step == 3 && n == count.count);
      checkpoint_clean(world->directory);
      assert_int_equal(entries(world->directory, "saving-"), 0);
      char path[IO_PATH_MAX];
      path_in(world, path, "step-00000003");
      io_remove_tree(path);
    }
  }
  session_close(&session);
}

static void expect_load_error(World *world, Session *session, const char *words) {
  char path[IO_PATH_MAX];
  CheckpointFacts facts;
  Error error = {0};
  path_in(world, path, "step-00000001");
  assert_false(checkpoint_load(session, path, true, &facts, &error));
  if (!strstr(error.text, words)) {
    fail_msg("expected '%s' in: %s", words, error.text);
  }
}

static void change_file(const char *path, long offset, const char *bytes, size_t size) {
  FILE *file = fopen(path, "r+");
  assert_non_null(file);
  fseek(file, offset, offset < 0 ? SEEK_END : SEEK_SET);
  fwrite(bytes, 1, size, file);
  fclose(file);
}

static void test_damage_is_named(void **state) {
  World *world = *state;
  Session session;
  Error error;
  char model[IO_PATH_MAX], manifest[IO_PATH_MAX];
  path_in(world, model, "step-00000001/model.safetensors");
  path_in(world, manifest, "step-00000001/manifest.json");
  assert_true(session_open(&session, toy_plan(world->arena, "text", 4, 8, 1, false), &toy_backend, 1, &error));
  save_step(world, &session, 1, NULL, true);
  assert_int_equal(newest_step(world, &session), 1);
  change_file(model, -5, "X", 1);
  expect_load_error(world, &session, "model.safetensors has hash");
  assert_int_equal(truncate(model, 1000), 0);
  expect_load_error(world, &session, "model.safetensors has 1000 bytes, the manifest says 262");
  assert_int_equal(unlink(model), 0);
  expect_load_error(world, &session, "model.safetensors is not there");
  save_step(world, &session, 1, NULL, true);
  change_file(manifest, 0, "[", 1);
  expect_load_error(world, &session, "manifest.json is not JSON");
  assert_int_equal(unlink(manifest), 0);
  expect_load_error(world, &session, "manifest.json is not there");
  session_close(&session);
}

static void test_mismatches_are_named(void **state) {
  World *world = *state;
  Session session;
  Error error;
  Plan *plan = toy_plan(world->arena, "text", 4, 8, 1, false);
  assert_true(session_open(&session, plan, &toy_backend, 1, &error));
  save_step(world, &session, 1, NULL, true);
  plan->states[0].size[1] = 128;
  expect_load_error(world, &session, "'table' is F32 [256, 256] there, F32 [256, 128] in the plan");
  plan->states[0].size[1] = 256;
  plan->states[0].name = "other";
  expect_load_error(world, &session, "'other' is missing; 'table' is there, but not in the plan");
  plan->states[0].name = "table";
  plan->states[0].type = TYPE_INT;
  expect_load_error(world, &session, "F32 [256, 256] there, I32 [256, 256] in the plan");
  session_close(&session);
}

static void test_only_the_newest_are_kept(void **state) {
  World *world = *state;
  Session session;
  Error error;
  assert_true(session_open(&session, toy_plan(world->arena, "text", 4, 8, 1, false), &toy_backend, 1, &error));
  assert_int_equal(newest_step(world, &session), -1);
  for (int64_t step = 99999998; step < 100000004; step++) {  // the number of digits grows on the way
    CheckpointFacts facts = {.step = step};
    assert_true(checkpoint_save(NULL, &session, world->directory, &facts, &(CheckpointKeep){.newest = 3}, &error));
  }
  char path[IO_PATH_MAX];
  path_in(world, path, "saving-00000001-1");
  assert_int_equal(mkdir(path, 0777), 0);
  path_in(world, path, "step-abc");
  assert_int_equal(mkdir(path, 0777), 0);
  assert_int_equal(newest_step(world, &session), 100000003);
  assert_int_equal(entries(world->directory, "step-1"), 3);
  assert_int_equal(entries(world->directory, "step-9"), 0);
  session_close(&session);
}

// Trains in the world's directory under a name; 0 steps: what the plan says.
static bool train(World *world, Plan *plan, const char *name, int64_t steps, bool resume, Io *io, Error *error) {
  char out[IO_PATH_MAX];
  TrainResult result;
  path_in(world, out, name);
  TrainOptions options = {.out = out,
                          .resume = resume,
                          .steps = steps ? steps : -1,
                          .save_every = -1,
                          .eval_every = -1,
                          .log_every = -1,
                          .keep = 3,
                          .io = io};
  return train_run(&(PlanSet){1, &plan}, &toy_backend, &options, &result, error);
}

static void same_run(World *world, const char *a, const char *b, int64_t step) {
  static const char *const files[] = {"model.safetensors", "optimizer.safetensors"};
  char left[IO_PATH_MAX], right[IO_PATH_MAX], name[256];
  for (int i = 0; i < 2; i++) {
    snprintf(name, sizeof name, "%s/checkpoints/step-%08lld/%s", a, (long long)step, files[i]);
    path_in(world, left, name);
    snprintf(name, sizeof name, "%s/checkpoints/step-%08lld/%s", b, (long long)step, files[i]);
    path_in(world, right, name);
    same_file(left, right);
  }
  MetricsPoint *x, *y;
  int64_t n = 0, m = 0;
  Error error;
  snprintf(name, sizeof name, "%s/metrics.jsonl", a);
  path_in(world, left, name);
  snprintf(name, sizeof name, "%s/metrics.jsonl", b);
  path_in(world, right, name);
  assert_true(metrics_read(left, &x, &n, &error) && metrics_read(right, &y, &m, &error));
  assert_int_equal(n, m);
  for (int64_t i = 0; i < n; i++) {
    assert_true(x[i].step == y[i].step && x[i].loss == y[i].loss);
    assert_true(x[i].val_loss == y[i].val_loss || (isnan(x[i].val_loss) && isnan(y[i].val_loss)));
    assert_true(i == 0 || x[i].step > x[i - 1].step);
  }
  free(x);
  free(y);
}

static void test_resumed_is_the_same_run(void **state) {
  World *world = *state;
  Error error = {0};
  Plan *plan = toy_plan(world->arena, world->text, 8, 32, 2, false);
  assert_true(train(world, plan, "whole", 0, false, NULL, &error));
  assert_true(train(world, plan, "parts", 10, false, NULL, &error));
  assert_true(train(world, plan, "parts", 30, true, NULL, &error));
  assert_true(train(world, plan, "parts", 0, true, NULL, &error));
  same_run(world, "whole", "parts", 40);
  // Another time changes nothing; the other layout of the batch is the same training.
  assert_true(train(world, plan, "parts", 0, true, NULL, &error));
  same_run(world, "whole", "parts", 40);
  // Negative control: another seed is another run.
  plan->run.seed++;
  assert_true(train(world, plan, "other", 0, false, NULL, &error));
  char left[IO_PATH_MAX], right[IO_PATH_MAX];
  path_in(world, left, "whole/checkpoints/step-00000040/model.safetensors");
  path_in(world, right, "other/checkpoints/step-00000040/model.safetensors");
  size_t x, y;
  char *a = file_bytes(left, &x), *b = file_bytes(right, &y);
  assert_true(x == y && memcmp(a, b, x) != 0);
  free(a);
  free(b);
}

static void test_killed_runs_end_alike(void **state) {
  World *world = *state;
  Error error = {0};
  Plan *plan = toy_plan(world->arena, world->text, 8, 32, 2, false);
  plan->run.save_every = 3;
  assert_true(train(world, plan, "whole", 0, false, NULL, &error));
  int kills = 0;
  for (int round = 0; round < 60; round++) {
    const bool timed = round >= 8 && round % 2 == 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      // The first rounds and odd ones die inside a save, the others after a while, wherever that is.
      Io io = {.die_at = timed ? 0 : 1 + round * 7 % 23};
      Error ignored;
      bool done = train(world, plan, "killed", 0, round > 0, &io, &ignored);
      _exit(done ? 0 : 1);
    }
    if (timed) {
      usleep((useconds_t)(2000 + round * 1337 % 21000));
      kill(child, SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1 && round > 0) {
      // The first process may have died before it made the directory: the one error that is in order.
      char path[IO_PATH_MAX];
      path_in(world, path, "killed");
      assert_false(io_is_directory(path));
    }
    kills += WIFSIGNALED(status) || WEXITSTATUS(status) == 137;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      break;
    }
  }
  assert_true(kills > 3);
  char path[IO_PATH_MAX];
  path_in(world, path, "killed");
  if (!train(world, plan, "killed", 0, io_is_directory(path), NULL, &error)) {
    fail_msg("%s", error.text);
  }
  same_run(world, "whole", "killed", 40);
}

static bool interrupting_run(Device *device, ProgramKind program, Error *error) {
  int32_t step;
  memcpy(&step, device->arena[ARENA_HOST] + 4 * TOY_OUTPUTS, 4);
  if (program == PROGRAM_TRAIN && step == 7) {
    raise(SIGINT);
  }
  return toy_run(device, program, error);
}

static void test_interrupted_saves(void **state) {
  World *world = *state;
  Error error = {0};
  TrainResult result;
  char out[IO_PATH_MAX];
  Plan *plan = toy_plan(world->arena, world->text, 8, 32, 2, false);
  Backend backend = toy_backend;
  backend.run = interrupting_run;
  path_in(world, out, "stopped");
  TrainOptions options = {.out = out, .steps = -1, .save_every = 0, .eval_every = 0, .log_every = -1, .keep = 3};
  assert_true(train_run(&(PlanSet){1, &plan}, &backend, &options, &result, &error));
  assert_true(result.interrupted);
  assert_int_equal(result.step, 7);
  assert_true(train(world, plan, "whole", 0, false, NULL, &error));
  options.resume = true;
  options.save_every = options.eval_every = -1;
  assert_true(train_run(&(PlanSet){1, &plan}, &toy_backend, &options, &result, &error));
  assert_false(result.interrupted);
  same_run(world, "whole", "stopped", 40);
}

static const char *chosen;  // by the devices of test_choices_are_kept
static char given[64];      // to the one that was opened last

static bool choosing_open(const Plan *plan, const DeviceOptions *options, Device **device, Error *error) {
  snprintf(given, sizeof given, "%s", options->record ? options->record : "nothing");
  return toy_open(plan, options, device, error);
}

static void choosing_record(Device *device, Buffer *out) {
  (void)device;
  buffer_text(out, chosen);
}

static char *text_in(World *world, const char *name) {
  char path[IO_PATH_MAX], *text;
  size_t size;
  Error error = {0};
  path_in(world, path, name);
  if (!io_read_file(path, 1 << 20, &text, &size, &error)) {
    fail_msg("%s", error.text);
  }
  return text;
}

static void expect_text(World *world, const char *name, const char *expected, bool whole) {
  char *text = text_in(world, name);
  if (whole ? strcmp(text, expected) != 0 : !strstr(text, expected)) {
    fail_msg("%s: %s", name, text);
  }
  free(text);
}

// What devices chose by measuring goes into the run and its checkpoints, and to the devices that go on with it.
static void test_choices_are_kept(void **state) {
  World *world = *state;
  Error error = {0};
  TrainResult result;
  char out[IO_PATH_MAX], path[IO_PATH_MAX];
  Plan *plan = toy_plan(world->arena, world->text, 8, 32, 2, false);
  Backend backend = toy_backend;
  backend.open = choosing_open;
  backend.record = choosing_record;
  chosen = "machine one\na\tb\n";
  path_in(world, out, "choosing");
  TrainOptions options = {.out = out, .steps = 5, .save_every = 5, .eval_every = 0, .log_every = -1, .keep = 3};
  assert_true(train_run(&(PlanSet){1, &plan}, &backend, &options, &result, &error));
  assert_string_equal(given, "nothing");
  expect_text(world, "choosing/tuning.txt", chosen, true);
  expect_text(world, "choosing/checkpoints/step-00000005/tuning.txt", chosen, true);
  expect_text(world, "choosing/checkpoints/step-00000005/manifest.json", "tuning.txt", false);
  path_in(world, path, "choosing/tuning.txt");
  assert_int_equal(unlink(path), 0);
  options.resume = true;
  options.steps = 7;
  chosen = "machine two\nc\td\n";
  assert_true(train_run(&(PlanSet){1, &plan}, &backend, &options, &result, &error));
  assert_string_equal(given, "machine one\na\tb\n");  // of the checkpoint
  expect_text(world, "choosing/log.txt", "the run began with machine one; it goes on with machine two", false);
  expect_text(world, "choosing/tuning.txt", chosen, true);
}

static void test_divergence_stops(void **state) {
  World *world = *state;
  static const char *const ways[] = {"nan", "skip"};
  static const char *const words[] = {"the loss was not a finite number in 10 steps in a row, up to step 15",
                                      "the update was skipped in 10 steps in a row, up to step 15"};
  for (int i = 0; i < 2; i++) {
    Error error = {0};
    Plan *plan = toy_plan(world->arena, world->text, 8, 32, 2, false);
    plan->run.optimizer = ways[i];
    assert_false(train(world, plan, ways[i], 0, false, NULL, &error));
    assert_int_equal(error.status, 4);
    if (!strstr(error.text, words[i])) {
      fail_msg("%s", error.text);
    }
    assert_non_null(strstr(error.text, "the newest checkpoint is of step 10"));
  }
}

static void test_directories(void **state) {
  World *world = *state;
  Error error = {0};
  Plan *plan = toy_plan(world->arena, world->text, 8, 32, 2, false);
  assert_false(train(world, plan, "absent", 0, true, NULL, &error));
  assert_non_null(strstr(error.text, "there is no run directory"));
  assert_true(train(world, plan, "run", 5, false, NULL, &error));
  assert_false(train(world, plan, "run", 5, false, NULL, &error));
  assert_non_null(strstr(error.text, "is not empty; give another --out, or continue the run in it: mdl train "));
  Io io = {.fail_at = 5};
  assert_false(train(world, plan, "run", 9, true, &io, &error));
  assert_non_null(strstr(error.text, "No space left on device"));
  assert_true(train(world, plan, "run", 9, true, NULL, &error));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_bytes_of_a_file, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_every_operation_fails, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_killed_at_every_operation, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_damage_is_named, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_mismatches_are_named, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_only_the_newest_are_kept, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_resumed_is_the_same_run, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_killed_runs_end_alike, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_interrupted_saves, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_choices_are_kept, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_divergence_stops, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_directories, world_open, world_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
