// background_test.c: checkpoints that are written while training goes on: that it does, and that nothing is lost by it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/checkpoint.h"
#include "runtime/snapshot.h"
#include "runtime/train.h"
#include "tests/place.h"
#include "tests/toy.h"

enum { SAVE_EVERY = 10, WAIT_SECONDS = 20 };

// A disk that stands still at one file operation until training has come to a step.
typedef struct {
  const World *world;
  int64_t save, stands_at;  // the step whose save it is in; the operation, of all saves together; 0: it never does
  int64_t until, dies_at;   // steps: when it moves again; at which the process is killed, 0: at none
  pthread_t trains;
  pthread_mutex_t mutex;
  pthread_cond_t moved;
  int64_t step;      // that training has come to
  bool standing;     // the operation was come to
  bool by_training;  // it was the thread that trains which came to an operation before `until`
  bool gave_up;      // training did not go on
  bool early;        // the checkpoint was there while its writing stood still
  Io io;
} Disk;

static void disk_operation(void *context, int64_t count) {
  Disk *disk = context;
  pthread_mutex_lock(&disk->mutex);
  disk->by_training |= disk->step < disk->until && pthread_equal(pthread_self(), disk->trains);
  if (count == disk->stands_at) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_SECONDS;
    disk->standing = true;
    pthread_cond_broadcast(&disk->moved);
    while (disk->step < disk->until && !disk->gave_up) {
      disk->gave_up = pthread_cond_timedwait(&disk->moved, &disk->mutex, &until) == ETIMEDOUT;
    }
  }
  pthread_mutex_unlock(&disk->mutex);
}

// Behind each step. Before it is over, the writer has come to where it stands still.
static bool disk_step(void *context, Trainer *trainer) {
  Disk *disk = context;
  pthread_mutex_lock(&disk->mutex);
  while (disk->stands_at > 0 && train_view(trainer).line->step >= disk->save && !disk->standing) {
    pthread_cond_wait(&disk->moved, &disk->mutex);
  }
  disk->step = train_view(trainer).line->step;
  if (disk->dies_at > 0 && disk->step == disk->dies_at) {
    kill(getpid(), SIGKILL);
  }
  disk->early |=
      disk->step >= SAVE_EVERY && disk->step < disk->until && there(disk->world, "run/checkpoints/step-00000010");
  pthread_cond_broadcast(&disk->moved);
  pthread_mutex_unlock(&disk->mutex);
  return true;
}

static void disk_open(Disk *disk, const World *world, int64_t save, int64_t stands_at, int64_t until) {
  *disk = (Disk){.world = world, .save = save, .stands_at = stands_at, .until = until, .trains = pthread_self()};
  pthread_mutex_init(&disk->mutex, NULL);
  pthread_cond_init(&disk->moved, NULL);
  disk->io = (Io){.before = disk_operation, .context = disk};
}

// The toy on a device that copies as late as it may: when the next run is about to change something, or when it is
// asked.
static struct {
  bool used, fails, refuses;  // all calls are late; a copy fails when it is waited for, or when half of it has begun
  int count, by_runs;
  CopyPiece *piece;
  char *memory;
} late;

static void late_do(Device *device) {
  for (int i = 0; i < late.count; i++) {
    const CopyPiece *piece = &late.piece[i];
    memcpy(late.memory + piece->to, device->arena[ARENA_PERSISTENT] + piece->offset, (size_t)piece->bytes);
  }
  free(late.piece);
  late.piece = NULL;
  late.count = 0;
}

static bool late_copy(Device *device, const CopyPiece *pieces, int count, char *memory, Error *error) {
  (void)device;
  assert_int_equal(late.count, 0);
  assert_true(count > 0);
  late.piece = malloc((size_t)count * sizeof *pieces);
  memcpy(late.piece, pieces, (size_t)count * sizeof *pieces);
  late.count = count;
  late.memory = memory;
  if (late.refuses) {
    late.refuses = false;
    return error_set(error, 1, "the copy did not begin");
  }
  return true;
}

static bool late_copied(Device *device, Error *error) {
  late_do(device);
  if (late.fails) {
    late.fails = false;
    return error_set(error, 1, "the copy fell over");
  }
  return true;
}

static bool late_run(Device *device, ProgramKind kind, Error *error) {
  late.by_runs += late.count > 0;
  late_do(device);
  return toy_run(device, kind, error);
}

typedef struct {
  bool resume, sync_save;
  int64_t save_every;
  Disk *disk;
} Wanted;

static bool train(World *world, const char *name, Wanted wanted, Error *error) {
  char out[IO_PATH_MAX];
  TrainResult result;
  Plan *plan = toy_plan(world->arena, world->text, 8, 32, 2, false);
  path_in(world, out, name);
  TrainOptions options = {.out = out,
                          .resume = wanted.resume,
                          .sync_save = wanted.sync_save,
                          .steps = -1,
                          .save_every = wanted.save_every ? wanted.save_every : SAVE_EVERY,
                          .eval_every = -1,
                          .log_every = -1,
                          .io = wanted.disk ? &wanted.disk->io : NULL,
                          .step = wanted.disk ? disk_step : NULL,
                          .context = wanted.disk};
  Backend backend = toy_backend;
  if (late.used) {
    backend.copy = late_copy;
    backend.copied = late_copied;
    backend.run = late_run;
  }
  return train_run(&(PlanSet){1, &plan}, &backend, &options, &result, error);
}

static void trained(World *world, const char *name, Wanted wanted) {
  Error error = {0};
  if (!train(world, name, wanted, &error)) {
    fail_msg("%s: %s", name, error.text);
  }
}

static char *text_of(const World *world, const char *name, size_t *size) {
  char path[IO_PATH_MAX], *text;
  Error error = {0};
  path_in(world, path, name);
  if (!io_read_file(path, 1 << 24, &text, size, &error)) {
    fail_msg("%s", error.text);
  }
  return text;
}

static bool holds(const World *world, const char *name, const char *words) {
  size_t size;
  char *text = text_of(world, name, &size);
  const bool found = strstr(text, words) != NULL;
  free(text);
  return found;
}

static void same_checkpoint(const World *world, const char *a, const char *b) {
  static const char *const files[] = {"model.safetensors", "optimizer.safetensors"};
  for (int i = 0; i < 2; i++) {
    char left[256], right[256];
    size_t x, y;
    snprintf(left, sizeof left, "%s/%s", a, files[i]);
    snprintf(right, sizeof right, "%s/%s", b, files[i]);
    char *one = text_of(world, left, &x), *other = text_of(world, right, &y);
    assert_int_equal(x, y);
    assert_memory_equal(one, other, x);
    free(one);
    free(other);
  }
}

// The write of step 10 stands still until step 15 is done; what it writes is still what step 10 left.
static void test_training_goes_on(void **state) {
  World *world = *state;
  trained(world, "waits", (Wanted){.sync_save = true});
  Disk disk;
  disk_open(&disk, world, 10, 5, 15);
  trained(world, "run", (Wanted){.disk = &disk});
  assert_false(disk.gave_up);
  assert_false(disk.early);
  assert_false(disk.by_training);
  same_checkpoint(world, "waits/checkpoints/step-00000010", "run/checkpoints/step-00000010");
  same_checkpoint(world, "waits/checkpoints/step-00000040", "run/checkpoints/step-00000040");
  assert_true(holds(world, "run/log.txt", "; training waited "));
  assert_true(holds(world, "run/metrics.jsonl", "\"save_wait_ms\":"));
  assert_false(holds(world, "waits/log.txt", "; training waited "));
}

// The same where the device copies while the next step runs: that is what is written, and not before it is there.
static void test_copies_go_on(void **state) {
  World *world = *state;
  trained(world, "waits", (Wanted){.sync_save = true});
  Disk disk;
  disk_open(&disk, world, 11, 5, 15);
  late.used = true;
  late.by_runs = 0;
  trained(world, "run", (Wanted){.disk = &disk});
  assert_int_equal(late.by_runs, 3);  // saves of steps 10, 20 and 30; the last is waited for
  assert_false(disk.gave_up || disk.early || disk.by_training);
  for (int step = 10; step <= 40; step += 10) {
    char left[64], right[64];
    snprintf(left, sizeof left, "waits/checkpoints/step-%08d", step);
    snprintf(right, sizeof right, "run/checkpoints/step-%08d", step);
    if (there(world, left)) {  // three are kept
      same_checkpoint(world, left, right);
    }
  }
  late.fails = true;
  trained(world, "falls", (Wanted){0});
  late.refuses = true;  // training waits for that save, from a copy that begins anew
  trained(world, "refuses", (Wanted){0});
  late.used = false;
  assert_false(late.refuses || holds(world, "refuses/log.txt", "was not saved"));
  same_checkpoint(world, "waits/checkpoints/step-00000040", "refuses/checkpoints/step-00000040");
  assert_true(holds(world, "falls/log.txt", "step 10 was not saved: the copy fell over"));
  assert_true(there(world, "falls/checkpoints/step-00000020"));
  same_checkpoint(world, "waits/checkpoints/step-00000040", "falls/checkpoints/step-00000040");
}

// Control: a save that training waits for is written by its own thread.
static void test_waiting_is_seen(void **state) {
  World *world = *state;
  Disk disk;
  disk_open(&disk, world, 0, 0, 15);
  trained(world, "run", (Wanted){.sync_save = true, .disk = &disk});
  assert_true(disk.by_training);
}

// One is under way at a time: the save of step 10 stands still until step 19, and that of step 20 waits for it.
static void test_one_at_a_time(void **state) {
  World *world = *state;
  Disk disk;
  disk_open(&disk, world, 10, 3, 19);
  trained(world, "run", (Wanted){.disk = &disk});
  assert_false(disk.gave_up);
  assert_true(there(world, "run/checkpoints/step-00000010") && there(world, "run/checkpoints/step-00000020"));
}

static int64_t operations_of_a_save(World *world) {
  Disk disk;
  disk_open(&disk, world, 0, 0, 0);
  trained(world, "counted", (Wanted){.save_every = 39, .disk = &disk});
  assert_int_equal(disk.io.count % 2, 0);  // of step 39, and of the last
  assert_true(disk.io.count / 2 >= 12);
  return disk.io.count / 2;
}

// Killed while the writer stands at each operation of a save, and training is further: nothing is lost but the steps.
static void test_killed_while_it_writes(void **state) {
  World *world = *state;
  trained(world, "whole", (Wanted){0});
  const int64_t operations = operations_of_a_save(world);
  for (int64_t n = 1; n <= operations; n++) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      Disk disk;
      Error error;
      disk_open(&disk, world, 20, operations + n, 99);
      disk.dies_at = 25;
      train(world, "run", (Wanted){.disk = &disk}, &error);
      _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_true(there(world, "run/checkpoints/step-00000010"));
    assert_true(n == operations || !there(world, "run/checkpoints/step-00000020"));
    trained(world, "run", (Wanted){.resume = true});
    same_checkpoint(world, "whole/checkpoints/step-00000040", "run/checkpoints/step-00000040");
    assert_false(holds(world, "run/log.txt", "damaged"));
    char path[IO_PATH_MAX];
    path_in(world, path, "run");
    assert_true(io_remove_tree(path));
  }
}

static int64_t available = -1;  // what the machine says that it has; negative: what it has

int64_t __real_host_memory_available(void);
int64_t __wrap_host_memory_available(void);
int64_t __wrap_host_memory_available(void) {
  return available >= 0 ? available : __real_host_memory_available();
}

// Without memory for a copy training waits, says so, and saves the same.
static void test_without_memory_it_waits(void **state) {
  World *world = *state;
  Disk disk;
  trained(world, "goes", (Wanted){0});
  available = TOY_STATE_BYTES;
  disk_open(&disk, world, 0, 0, 15);
  trained(world, "run", (Wanted){.disk = &disk});
  available = -1;
  assert_true(disk.by_training);
  assert_true(holds(world, "run/log.txt", "training will wait while it saves"));
  assert_false(holds(world, "goes/log.txt", "training will wait"));
  same_checkpoint(world, "goes/checkpoints/step-00000010", "run/checkpoints/step-00000010");
}

// What a writer could not write is said by training, and the next save is tried.
static void test_failures_are_said(void **state) {
  World *world = *state;
  const int64_t operations = operations_of_a_save(world);
  for (int64_t n = 1; n < operations; n += 4) {
    char path[IO_PATH_MAX];
    Disk disk;
    disk_open(&disk, world, 0, 0, 0);
    disk.io.fail_at = n;
    trained(world, "run", (Wanted){.disk = &disk});
    assert_true(holds(world, "run/log.txt", "step 10 was not saved: cannot "));
    assert_false(there(world, "run/checkpoints/step-00000010"));
    assert_true(there(world, "run/checkpoints/step-00000020"));
    path_in(world, path, "run");
    assert_true(io_remove_tree(path));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_training_goes_on, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_copies_go_on, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_waiting_is_seen, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_one_at_a_time, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_killed_while_it_writes, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_without_memory_it_waits, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_failures_are_said, world_open, world_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
