// saves_test.c: what is kept and what is gone on with: divergence, damage, disks that are full, memory that is missing.
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/checkpoint.h"
#include "runtime/data/fingerprint.h"
#include "runtime/metrics.h"
#include "runtime/run.h"
#include "runtime/train.h"
#include "runtime/verify_path.h"
#include "tests/place.h"
#include "tests/toy.h"

static void expect_log(World *world, const char *run, const char *words) {
  char path[IO_PATH_MAX], name[128], *text;
  size_t size;
  Error error = {0};
  snprintf(name, sizeof name, "%s/log.txt", run);
  path_in(world, path, name);
  assert_true(io_read_file(path, 1 << 20, &text, &size, &error));
  expect_words(text, words);
  free(text);
}

static void change_byte(const World *world, const char *name) {
  char path[IO_PATH_MAX], byte;
  path_in(world, path, name);
  const int fd = open(path, O_RDWR);
  assert_true(fd >= 0);
  const off_t at = lseek(fd, -3, SEEK_END);
  assert_int_equal(pread(fd, &byte, 1, at), 1);
  byte = (char)(byte ^ 1);
  assert_int_equal(pwrite(fd, &byte, 1, at), 1);
  close(fd);
}

typedef struct {
  int64_t steps, keep, keep_every;
  bool resume, restart, keep_best;
  Io *io;
} Wanted;

static bool train(World *world, Plan *plan, const char *name, Wanted wanted, Error *error) {
  char out[IO_PATH_MAX];
  TrainResult result;
  path_in(world, out, name);
  TrainOptions options = {.out = out,
                          .resume = wanted.resume,
                          .restart = wanted.restart,
                          .steps = wanted.steps ? wanted.steps : -1,
                          .save_every = -1,
                          .eval_every = -1,
                          .log_every = -1,
                          .keep = wanted.keep ? wanted.keep : 3,
                          .keep_every = wanted.keep_every,
                          .keep_best = wanted.keep_best,
                          .io = wanted.io};
  return train_run(&(PlanSet){1, &plan}, &toy_backend, &options, &result, error);
}

static Plan *plan_of(World *world) {
  return toy_plan(world->arena, world->text, 8, 32, 2, false);
}

// --- what is kept ---

static void save(World *world, Session *session, CheckpointFacts facts, CheckpointKeep keep) {
  Error error = {0};
  if (!checkpoint_save(NULL, session, world->directory, &facts, &keep, &error)) {
    fail_msg("%s", error.text);
  }
}

static void test_rotation_keeps_the_last_good_one(void **state) {
  World *world = *state;
  Session session;
  Error error = {0};
  const float odd = NAN, even = 1;
  char path[IO_PATH_MAX];
  bool found;
  CheckpointFacts facts;
  assert_true(session_open(&session, plan_of(world), &toy_backend, 1, &error));
  const CheckpointKeep one = {.newest = 1};
  save(world, &session, (CheckpointFacts){.step = 1, .val_loss = NAN}, one);
  save(world, &session, (CheckpointFacts){.step = 2, .val_loss = NAN}, one);
  assert_false(there(world, "step-00000001"));
  // Neither numbers that are not finite nor bad steps push out what is good, however many there are.
  assert_true(toy_write(session.device, ARENA_PERSISTENT, 40, &odd, 4, &error));
  save(world, &session, (CheckpointFacts){.step = 3, .val_loss = NAN}, one);
  save(world, &session, (CheckpointFacts){.step = 4, .val_loss = NAN}, one);
  assert_true(toy_write(session.device, ARENA_PERSISTENT, 40, &even, 4, &error));
  save(world, &session, (CheckpointFacts){.step = 5, .bad_steps = 2, .val_loss = NAN}, one);
  assert_true(there(world, "step-00000002") && !there(world, "step-00000003") && !there(world, "step-00000004"));
  path_in(world, path, "step-00000005");
  assert_true(checkpoint_facts(path, &facts, &error));
  assert_true(facts.bad_steps == 2 && !facts.not_finite[0] && !checkpoint_is_good(&facts));
  // State of the optimizer counts as well; the newest of all is not what is taken then.
  assert_true(toy_write(session.device, ARENA_PERSISTENT, TOY_STATE_BYTES, &odd, 4, &error));
  save(world, &session, (CheckpointFacts){.step = 6, .val_loss = NAN}, one);
  path_in(world, path, "step-00000006");
  assert_true(checkpoint_facts(path, &facts, &error));
  assert_string_equal(facts.not_finite, "momentum.table");
  assert_true(checkpoint_newest(world->directory, path, &found, &error) && found);
  expect_words(path, "step-00000002");
  // A good one is what is kept from then on.
  assert_true(toy_write(session.device, ARENA_PERSISTENT, TOY_STATE_BYTES, &even, 4, &error));
  save(world, &session, (CheckpointFacts){.step = 7, .val_loss = NAN}, one);
  assert_true(there(world, "step-00000007") && !there(world, "step-00000006") && !there(world, "step-00000002"));
  session_close(&session);
}

static void test_best_and_every(void **state) {
  World *world = *state;
  Session session;
  Error error = {0};
  double least;
  assert_true(session_open(&session, plan_of(world), &toy_backend, 1, &error));
  const CheckpointKeep keep = {.newest = 1, .every = 4, .best = true};
  static const double losses[] = {5, 3, 4, NAN, 3.5, 3.6, 3.7, 2.5, 2.6};
  for (int i = 0; i < 9; i++) {
    save(world, &session, (CheckpointFacts){.step = i + 1, .val_loss = losses[i]}, keep);
    assert_true(there(world, "step-00000002") == (i >= 1 && i < 7));  // the best until step 8
  }
  assert_true(there(world, "step-00000004") && there(world, "step-00000008") && there(world, "step-00000009"));
  assert_false(there(world, "step-00000007"));
  assert_true(checkpoint_best(world->directory, 0, 0, &least, &error));
  assert_true(least == 2.5);
  session_close(&session);
}

// --- training that goes wrong ---

static void test_poisoned_parameters_stop(void **state) {
  World *world = *state;
  Error error = {0};
  CheckpointFacts facts;
  char path[IO_PATH_MAX];
  Plan *plan = plan_of(world);
  plan->run.optimizer = "poison";
  assert_false(train(world, plan, "run", (Wanted){.keep = 1}, &error));
  assert_int_equal(error.status, 4);
  expect_words(error.text, "'table' holds numbers that are not finite after step 30");
  expect_words(error.text, "the newest good checkpoint, of step 20, is kept");
  path_in(world, path, "run/checkpoints/step-00000030");
  assert_true(checkpoint_facts(path, &facts, &error));
  assert_string_equal(facts.not_finite, "table");
  // It is gone on with from step 20, and said so; what comes then takes the place of what was bad.
  plan->run.optimizer = "momentum";
  assert_true(train(world, plan, "run", (Wanted){.keep = 1, .resume = true}, &error));
  expect_log(world, "run", "step-00000030 holds numbers in 'table' that are not finite");
  expect_log(world, "run", "training goes on from step 20");
  assert_true(there(world, "run/checkpoints/step-00000040") && !there(world, "run/checkpoints/step-00000030"));
  // Where none is good, nobody is sent back to one.
  plan->run.optimizer = "poison";
  plan->run.save_every = 30;
  assert_false(train(world, plan, "first", (Wanted){.keep = 1}, &error));
  expect_words(error.text, "there is no good one to go on from: --restart");
}

static void test_infinite_rate_stops(void **state) {
  World *world = *state;
  Error error = {0};
  Plan *plan = plan_of(world);
  plan->run.optimizer = "rate";
  assert_false(train(world, plan, "run", (Wanted){0}, &error));
  assert_int_equal(error.status, 4);
  expect_words(error.text, "the learning rate of step 25 is inf");
  expect_words(error.text, "the newest good checkpoint is of step 20");
  assert_false(there(world, "run/checkpoints/step-00000030"));
}

static void test_best_is_saved_when_it_is_found(void **state) {
  World *world = *state;
  Error error = {0};
  Plan *plan = plan_of(world);
  plan->run.eval_every = 4;
  plan->run.save_every = 0;
  assert_true(train(world, plan, "run", (Wanted){.keep = 1, .keep_best = true, .steps = 13}, &error));
  char path[IO_PATH_MAX];
  double least;
  path_in(world, path, "run/checkpoints");
  assert_true(checkpoint_best(path, 0, 0, &least, &error));
  assert_true(isfinite(least));
  expect_log(world, "run", "saved");
}

// --- damage ---

static void test_damage_falls_back(void **state) {
  World *world = *state;
  Error error = {0};
  Plan *plan = plan_of(world);
  assert_true(train(world, plan, "whole", (Wanted){0}, &error));
  assert_true(train(world, plan, "run", (Wanted){.steps = 30}, &error));
  change_byte(world, "run/checkpoints/step-00000030/model.safetensors");
  assert_true(train(world, plan, "run", (Wanted){.resume = true}, &error));
  expect_log(world, "run", "step-00000030 is damaged: model.safetensors has hash");
  expect_log(world, "run", "training goes on from step 20");
  assert_true(there(world, "run/checkpoints/damaged-00000030/manifest.json"));
  assert_true(there(world, "run/checkpoints/step-00000030"));  // made again
  char left[IO_PATH_MAX], right[IO_PATH_MAX], *a = NULL, *b = NULL;
  size_t x = 0, y = 0;
  path_in(world, left, "whole/checkpoints/step-00000040/model.safetensors");
  path_in(world, right, "run/checkpoints/step-00000040/model.safetensors");
  assert_true(io_read_file(left, 1 << 24, &a, &x, &error) && io_read_file(right, 1 << 24, &b, &y, &error));
  assert_true(x == y && memcmp(a, b, x) == 0);
  free(a);
  free(b);
  // Where none is whole nothing is renamed, nothing begins anew, and nobody is told to remove anything.
  change_byte(world, "run/checkpoints/step-00000020/optimizer.safetensors");
  change_byte(world, "run/checkpoints/step-00000030/optimizer.safetensors");
  change_byte(world, "run/checkpoints/step-00000040/optimizer.safetensors");
  assert_false(train(world, plan, "run", (Wanted){.resume = true}, &error));
  expect_words(error.text, "can be gone on with");
  assert_null(strstr(error.text, "remove"));
  assert_true(there(world, "run/checkpoints/step-00000040"));
  assert_true(train(world, plan, "run", (Wanted){.restart = true}, &error));
  assert_true(there(world, "run/before-1/checkpoints/step-00000040"));
  assert_true(there(world, "run/before-1/metrics.jsonl"));
}

// --- disks that are full ---

static void test_failed_saves_are_tried_again(void **state) {
  World *world = *state;
  Error error = {0};
  assert_true(train(world, plan_of(world), "whole", (Wanted){0}, &error));
  Io once = {.fail_at = 4};
  assert_true(train(world, plan_of(world), "once", (Wanted){.io = &once}, &error));
  expect_log(world, "once", "step 10 was not saved");
  assert_true(!there(world, "once/checkpoints/step-00000010") && there(world, "once/checkpoints/step-00000040"));
  Io ever = {.fail_from = 1};
  assert_false(train(world, plan_of(world), "ever", (Wanted){.io = &ever}, &error));
  expect_words(error.text, "3 saves failed in a row, up to step 30");
  expect_log(world, "ever", "step 20 was not saved");
  Io narrow = {.space = 100000};
  assert_false(train(world, plan_of(world), "narrow", (Wanted){.io = &narrow, .steps = 10}, &error));
  expect_words(error.text, "are needed and");
  assert_int_equal(narrow.count, 0);  // nothing was begun
}

static bool unreadable;        // directories, after their first entry
static const char *vanishing;  // a directory that is removed when so many have been read to their ends; NULL: none
static int vanishing_at;

struct dirent *__real_readdir(DIR *directory);
struct dirent *__wrap_readdir(DIR *directory);
struct dirent *__wrap_readdir(DIR *directory) {
  if (unreadable) {
    errno = EIO;
    return NULL;
  }
  struct dirent *entry = __real_readdir(directory);
  if (!entry && vanishing && --vanishing_at == 0) {
    const char *path = vanishing;
    vanishing = NULL;
    assert_true(io_remove_tree(path));
  }
  return entry;
}

// A directory that cannot be read is not an empty one.
static void test_unreadable_checkpoints(void **state) {
  World *world = *state;
  Error error = {0};
  assert_true(train(world, plan_of(world), "run", (Wanted){.steps = 20}, &error));
  unreadable = true;
  const bool done = train(world, plan_of(world), "run", (Wanted){.resume = true}, &error);
  unreadable = false;
  assert_false(done);
  assert_int_equal(error.status, 1);
  expect_words(error.text, "checkpoints: Input/output error");
  assert_true(train(world, plan_of(world), "run", (Wanted){.resume = true}, &error));
  expect_log(world, "run", "resumed   after step 20");
}

// Who reads a run beside its training comes to see checkpoints go: that is no damage, and there is a newer one.
static void test_checkpoints_that_go(void **state) {
  World *world = *state;
  char path[IO_PATH_MAX], gone[IO_PATH_MAX];
  Error error = {0};
  Run run;
  CheckpointFacts facts;
  Buffer out = {0};
  int64_t damaged;
  assert_true(train(world, plan_of(world), "run", (Wanted){.steps = 30, .keep = 9}, &error));
  path_in(world, path, "run");
  path_in(world, gone, "run/checkpoints/step-00000030");
  vanishing = gone;
  vanishing_at = 1;
  assert_true(run_open(&run, path, &error));
  expect_words(run.checkpoint, "step-00000030");
  assert_false(checkpoint_verify(run.checkpoint, &facts, &error));
  assert_true(run_newer(&run));
  expect_words(run.checkpoint, "step-00000020");
  assert_true(checkpoint_verify(run.checkpoint, &facts, &error));
  assert_false(run_newer(&run));
  bool exchanged;
  path_in(world, gone, "run/checkpoints/step-00000010");
  for (int i = 0; i < 2; i++) {  // another one takes its place: what was read of both fits neither
    assert_true(io_exchange(NULL, run.checkpoint, gone, &exchanged, &error) && exchanged);
    assert_true(run_newer(&run));
    expect_words(run.checkpoint, "step-00000020");
    assert_false(run_newer(&run));
  }
  path_in(world, gone, "run/checkpoints/step-00000010/model.safetensors");
  assert_true(io_remove_tree(gone));
  assert_true(verify_path(path, &out, &damaged, &error));
  assert_int_equal(damaged, 1);
  expect_words(out.text, "step-00000010 is damaged: model.safetensors is not there");
  buffer_free(&out);
  path_in(world, gone, "run/checkpoints/step-00000010");
  vanishing = gone;
  vanishing_at = 2;
  assert_true(verify_path(path, &out, &damaged, &error));
  assert_int_equal(damaged, 0);
  expect_words(out.text, "step-00000010 was removed while it was read");
  expect_words(out.text, "1 checkpoint, 0 damaged");
  buffer_free(&out);
}

// Files may not grow from step 12 to 27: neither checkpoints nor metrics can be written.
static bool full_disk_run(Device *device, ProgramKind program, Error *error) {
  int32_t step;
  memcpy(&step, device->arena[ARENA_HOST] + 4 * TOY_OUTPUTS, 4);
  if (program == PROGRAM_TRAIN && (step == 12 || step == 28)) {
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = step == 12 ? 64 : limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  return toy_run(device, program, error);
}

static void test_full_disk_is_outlived(void **state) {
  World *world = *state;
  char out[IO_PATH_MAX], path[IO_PATH_MAX];
  path_in(world, out, "run");
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    Error error = {0};
    TrainResult result;
    Backend backend = toy_backend;
    backend.run = full_disk_run;
    signal(SIGXFSZ, SIG_IGN);
    Plan *plan = plan_of(world);
    TrainOptions options = {
        .out = out, .steps = -1, .save_every = -1, .eval_every = -1, .log_every = -1, .keep = 5, .sync_save = true};
    const bool done = train_run(&(PlanSet){1, &plan}, &backend, &options, &result, &error);
    _exit(done ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_true(there(world, "run/checkpoints/step-00000010") && !there(world, "run/checkpoints/step-00000020"));
  assert_true(there(world, "run/checkpoints/step-00000030") && there(world, "run/checkpoints/step-00000040"));
  MetricsPoint *points;
  int64_t count, bad;
  Error error = {0};
  path_in(world, path, "run/metrics.jsonl");
  assert_true(metrics_read_counting(path, &points, &count, &bad, &error));
  assert_int_equal(bad, 0);
  static const double steps[] = {1, 5, 10, 30, 35, 40};
  assert_int_equal(count, 6);
  for (int i = 0; i < 6; i++) {
    assert_true(points[i].step == steps[i]);
  }
  free(points);
}

// --- data that cannot be read any longer ---

static const char *data_of;  // a file that is cut short in step 12

static bool cut_run(Device *device, ProgramKind program, Error *error) {
  int32_t step;
  memcpy(&step, device->arena[ARENA_HOST] + 4 * TOY_OUTPUTS, 4);
  assert_true(program != PROGRAM_TRAIN || step != 12 || truncate(data_of, 10) == 0);
  return toy_run(device, program, error);
}

// What was trained before is saved.
static void test_data_that_ends(void **state) {
  World *world = *state;
  char out[IO_PATH_MAX];
  TrainResult result;
  Error error = {0};
  Backend backend = toy_backend;
  backend.run = cut_run;
  data_of = world->text;
  Plan *plan = plan_of(world);
  path_in(world, out, "run");
  TrainOptions options = {.out = out, .steps = -1, .save_every = -1, .eval_every = -1, .log_every = -1, .keep = 9};
  assert_false(train_run(&(PlanSet){1, &plan}, &backend, &options, &result, &error));
  assert_int_equal(error.status, 1);
  expect_words(error.text, "another program shortened it");
  assert_true(there(world, "run/checkpoints/step-00000012/manifest.json"));
}

// --- a directory that is moved ---

static char place[IO_PATH_MAX], elsewhere[IO_PATH_MAX];
static bool unnamed, removed;  // no name leads to the directory; it is removed

ssize_t __real_readlink(const char *path, char *target, size_t size);

ssize_t __wrap_readlink(const char *path, char *target, size_t size) {
  return unnamed ? -1 : __real_readlink(path, target, size);
}

static bool moved_run(Device *device, ProgramKind program, Error *error) {
  int32_t step;
  memcpy(&step, device->arena[ARENA_HOST] + 4 * TOY_OUTPUTS, 4);
  if (program == PROGRAM_TRAIN && step == 12) {
    assert_int_equal(rename(place, elsewhere), 0);
    assert_true(!removed || io_remove_tree(elsewhere));
    assert_int_equal(mkdir(place, 0777), 0);  // as that of another run
  }
  return toy_run(device, program, error);
}

// What a run saves goes where its directory is, not into what stands in its place.
static void test_moved_directory(void **state) {
  World *world = *state;
  Backend backend = toy_backend;
  backend.run = moved_run;
  for (int way = 0; way < 3; way++) {
    char run[32], moved[32], name[128];
    TrainResult result;
    Error error = {0};
    Plan *plan = plan_of(world);
    unnamed = way == 1;
    removed = way == 2;
    snprintf(run, sizeof run, "run%d", way);
    snprintf(moved, sizeof moved, "moved%d", way);
    path_in(world, place, run);
    path_in(world, elsewhere, moved);
    TrainOptions options = {
        .out = place, .steps = -1, .save_every = 5, .eval_every = -1, .log_every = -1, .keep = 9, .sync_save = true};
    const bool done = train_run(&(PlanSet){1, &plan}, &backend, &options, &result, &error);
    unnamed = false;
    assert_int_equal(done, !removed);
    assert_int_equal(rmdir(place), 0);  // nothing is in it
    if (removed) {
      expect_words(error.text, "is no longer the directory that this run began in");
      continue;
    }
    for (int step = 5; step <= 40; step += 5) {
      snprintf(name, sizeof name, "%s/checkpoints/step-%08d/manifest.json", moved, step);
      assert_true(there(world, name));
    }
    snprintf(name, sizeof name, "%s/loss.svg", moved);
    assert_true(there(world, name));
    expect_log(world, moved, "the directory of the run was moved: it goes on in");
  }
}

// --- names ---

// The name of a model that somebody wrote into a plan leads nowhere but into runs/.
static void test_names_of_models(void **state) {
  World *world = *state;
  static const char *const names[] = {"../../x", "..", "a/b", "/tmp/x", ""};
  char here[IO_PATH_MAX];
  assert_non_null(getcwd(here, sizeof here));
  assert_int_equal(chdir(world->directory), 0);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    Error error = {0};
    TrainResult result;
    Plan *plan = plan_of(world);
    plan->run.model = names[i];
    for (int resume = 0; resume < 2; resume++) {
      TrainOptions options = {.steps = 1, .save_every = -1, .eval_every = -1, .log_every = -1, .resume = resume};
      assert_false(train_run(&(PlanSet){1, &plan}, &toy_backend, &options, &result, &error));
      expect_words(error.text, "can name no run directory");
    }
  }
  assert_false(there(world, "runs"));
  assert_int_equal(chdir(here), 0);
}

// --- data ---

static uint64_t print_of(const char *path) {
  Data *data;
  DataPrint print;
  Error error = {0};
  const DataOptions options = {.kind = "text", .path = path, .tokenizer = "bytes", .sequence = 8};
  if (!data_open(&options, &data, &error) || !data_fingerprint(data, &print, &error)) {
    fail_msg("%s", error.text);
  }
  data_close(data);
  return print.data;
}

static void test_fingerprints(void **state) {
  World *world = *state;
  char path[IO_PATH_MAX], byte = 'x';
  path_in(world, path, "large");
  const int fd = open(path, O_RDWR | O_CREAT, 0666);
  assert_true(fd >= 0);
  // A byte of a small file, wherever it is, and of a large one at its ends; and the size.
  for (int large = 0; large < 2; large++) {
    const off_t size = large ? (off_t)FINGERPRINT_WHOLE * 2 : 100000;
    assert_int_equal(ftruncate(fd, size), 0);
    const uint64_t before = print_of(path);
    assert_true(before == print_of(path));
    const off_t places[] = {0, size - 1, large ? 1000 : size / 2};
    for (int i = 0; i < 3; i++) {
      assert_int_equal(pwrite(fd, &byte, 1, places[i]), 1);
      assert_true(print_of(path) != before);
      assert_int_equal(pwrite(fd, "", 1, places[i]), 1);
    }
    assert_true(print_of(path) == before);
    assert_int_equal(ftruncate(fd, size + 1), 0);
    assert_true(print_of(path) != before);
  }
  close(fd);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_rotation_keeps_the_last_good_one, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_best_and_every, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_poisoned_parameters_stop, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_infinite_rate_stops, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_best_is_saved_when_it_is_found, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_damage_falls_back, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_failed_saves_are_tried_again, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_unreadable_checkpoints, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_checkpoints_that_go, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_full_disk_is_outlived, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_data_that_ends, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_moved_directory, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_names_of_models, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_fingerprints, world_open, world_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
