// processes_test.c: ranks in processes of their own: what they are told and answer, and how their ends are noticed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/processes.h"
#include "runtime/snapshot.h"
#include "tests/acting_device.h"

// --- helpers ---

// An instruction of a rank alone.
static Instruction *step_add(World *world, int stage, const char *name) {
  Instruction *instruction = world_add(world, stage, INSTRUCTION_PIECE, name);
  instruction->as.piece = (Piece){.type = TYPE_F32, .count = 1, .piece = 1};
  instruction->as.piece.from = world_place(world, stage, 4);
  instruction->as.piece.to = world_place(world, stage, 4);
  return instruction;
}

static World ranks_of(int64_t count) {
  World world = world_make(&count, 1, -1);
  world.plan[0]->arena_bytes[ARENA_PERSISTENT] = 10 << 20;
  world.plan[0]->arena_bytes[ARENA_HOST] = 1 << 20;
  return world;
}

static Session opened(const World *world, double deadline) {
  Session session;
  Error error = {0};
  if (!session_open_ranks(&session, &world->set, &acting,
                          &(SessionOptions){.threads = 1, .deadline_seconds = deadline, .record = "given"}, &error)) {
    fail_msg("open: %s", error.text);
  }
  return session;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int open_files(void) {
  DIR *directory = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(directory)) {
    count++;
  }
  closedir(directory);
  return count;
}

static int shared_maps(void) {
  FILE *file = fopen("/proc/self/maps", "r");
  char line[512];
  int count = 0;
  while (fgets(line, sizeof line, file)) {
    count += strstr(line, " rw-s ") != NULL;
  }
  fclose(file);
  return count;
}

static void assert_no_children(void) {
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
  assert_int_equal(errno, ECHILD);
}

// --- what they are told ---

static void data_goes_there_and_back(void **state) {
  (void)state;
  enum { BYTES = 9 << 20 };
  const int files = open_files(), maps = shared_maps();
  World world = ranks_of(3);
  Session session = opened(&world, 10);
  char *there = malloc(BYTES), *back = malloc(BYTES);
  assert_int_equal(session_ahead(&session), 1);
  for (int64_t rank = 0; rank < 3; rank++) {
    for (int64_t i = 0; i < BYTES; i++) {
      there[i] = (char)(i * 31 + i / 4096 + rank);
    }
    world_write(&world, &session, rank, (Place){.arena = ARENA_PERSISTENT, .offset = 11}, there, BYTES);
  }
  for (int64_t rank = 0; rank < 3; rank++) {
    for (int64_t i = 0; i < BYTES; i++) {
      there[i] = (char)(i * 31 + i / 4096 + rank);
    }
    world_read(&world, &session, rank, (Place){.arena = ARENA_PERSISTENT, .offset = 11}, back, BYTES);
    assert_memory_equal(there, back, BYTES);
  }
  for (int i = 0; i < 5000; i++) {  // more than a socket holds, unanswered
    world_write(&world, &session, 1, (Place){.arena = ARENA_HOST, .offset = 64 + 8 * i}, &i, sizeof i);
  }
  for (int i = 0; i < 5000; i += 499) {
    int got = -1;
    world_read(&world, &session, 1, (Place){.arena = ARENA_HOST, .offset = 64 + 8 * i}, &got, sizeof got);
    assert_int_equal(got, i);
  }
  free(there);
  free(back);
  session_close(&session);
  assert_no_children();
  assert_int_equal(open_files(), files);
  assert_int_equal(shared_maps(), maps);
  world_destroy(&world);
}

// Pieces of what ranks have, more than one message names, into memory that they share with this process.
static void pieces_are_copied(void **state) {
  (void)state;
  enum { COUNT = 200000, EACH = 40 };
  const int files = open_files(), maps = shared_maps();
  World world = ranks_of(3);
  Session session = opened(&world, 10);
  Error error = {0};
  char *there = malloc(COUNT * EACH), *memory[3];
  CopyPiece *pieces = calloc(COUNT, sizeof *pieces);
  const int64_t bytes[3] = {COUNT * EACH / 2, 0, COUNT * EACH / 2};
  for (int64_t i = 0; i < COUNT * EACH; i++) {
    there[i] = (char)(i * 31 + i / 4096);
  }
  for (int i = 0; i < COUNT; i++) {  // every other half of them, in reverse
    pieces[i] =
        (CopyPiece){.offset = 20 + (int64_t)EACH * i, .bytes = EACH / 2, .to = (int64_t)EACH / 2 * (COUNT - 1 - i)};
  }
  assert_true(processes_hold(session.processes, bytes, memory, &error));
  assert_null(memory[1]);
  for (int64_t rank = 0; rank < 3; rank += 2) {
    there[0] = (char)rank;
    world_write(&world, &session, rank, (Place){.arena = ARENA_PERSISTENT, .offset = 20}, there, COUNT * EACH);
  }
  for (int64_t rank = 0; rank < 3; rank += 2) {
    assert_true(processes_copy(session.processes, rank, pieces, COUNT, &error));
  }
  assert_true(processes_copying(session.processes, &error));
  assert_true(processes_copied(session.processes, &error));
  for (int64_t rank = 0; rank < 3; rank += 2) {
    there[0] = (char)rank;
    for (int i = 0; i < COUNT; i++) {
      assert_memory_equal(memory[rank] + pieces[i].to, there + (int64_t)EACH * i, EACH / 2);
    }
  }
  // An error of the device comes through, and a piece that has no place is one.
  assert_true(processes_copy(session.processes, 0, &(CopyPiece){.offset = 13, .bytes = 8}, 1, &error));
  assert_false(processes_copying(session.processes, &error));
  assert_non_null(strstr(error.text, "nothing is read at 13"));
  assert_true(processes_copy(session.processes, 0, &(CopyPiece){.bytes = 8, .to = bytes[0] - 7}, 1, &error));
  assert_false(processes_copying(session.processes, &error));
  assert_non_null(strstr(error.text, "no memory for it"));
  free(there);
  free(pieces);
  session_close(&session);
  assert_no_children();
  assert_int_equal(open_files(), files);
  assert_int_equal(shared_maps(), maps);
  world_destroy(&world);
}

static void runs_on_all(void **state) {
  (void)state;
  World world = ranks_of(4);
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 1, 16);
  Session session = opened(&world, 10);
  Error error = {0};
  for (int i = 0; i < 200; i++) {
    if (!session_submit(&session, PROGRAM_TRAIN, i, &error) || !session_wait(&session, i % 2, &error)) {
      fail_msg("%s", error.text);
    }
  }
  for (int64_t rank = 0; rank < 4; rank++) {
    int64_t runs = 0;
    world_read(&world, &session, rank, (Place){.arena = ARENA_HOST}, &runs, sizeof runs);
    assert_int_equal(runs, 200);
  }
  session_close(&session);
  assert_no_children();
  world_destroy(&world);
}

static void facts_and_traces(void **state) {
  (void)state;
  World world = ranks_of(2);
  for (int i = 0; i < WORLD_INSTRUCTIONS; i++) {
    step_add(&world, 0, "nothing");
  }
  Session session = opened(&world, 10);
  Error error = {0};
  session_trace(&session, true);
  assert_true(session_run(&session, PROGRAM_TRAIN, 1, &error));
  for (int64_t rank = 0; rank < 2; rank++) {
    Device *device = session_device(&session, rank);
    DeviceFacts facts;
    char name[32];
    int64_t count = 0;
    session.backend->facts(device, &facts);
    snprintf(name, sizeof name, "device %lld", (long long)rank);
    assert_string_equal(facts.name, name);
    assert_int_equal(facts.memory_bytes, processes_pid(session.processes, rank));
    assert_true(isnan(facts.peak_bytes));
    const TraceSpan *spans = session.backend->traced(device, &count);
    assert_int_equal(count, WORLD_INSTRUCTIONS);
    snprintf(name, sizeof name, "rank %lld", (long long)rank);
    for (int i = 0; i < count; i++) {
      assert_ptr_equal(spans[i].instruction, &world.plan[0]->segments[0].instructions[i]);
      assert_int_equal(spans[i].lane, i);
      assert_true(spans[i].end == i + 0.5);
      assert_true(i % 2 ? !spans[i].form : strcmp(spans[i].form, name) == 0);
    }
  }
  Buffer record = {0};
  session_record(&session, &record);
  assert_int_equal(record.length, strlen("given\nrank 0\n") + (5 << 20) + strlen("\nthe end\nrank 1\n"));
  assert_int_equal(strncmp(record.text, "given\nrank 0\nx", 14), 0);
  assert_non_null(strstr(record.text, "x\nthe end\nrank 1\n"));
  buffer_free(&record);
  session_close(&session);
  world_destroy(&world);
}

static void errors_come_through(void **state) {
  (void)state;
  const int files = open_files(), maps = shared_maps();
  World world = ranks_of(3);
  Session session;
  Error error = {0};
  int number = 0;
  world.plan[0]->run.model = "unopenable";
  assert_false(session_open_ranks(&session, &world.set, &acting, &(SessionOptions){.deadline_seconds = 5}, &error));
  assert_string_equal(error.text, "no memory on device 1");
  assert_int_equal(error.status, 3);
  session_close(&session);
  assert_no_children();
  assert_int_equal(open_files(), files);
  assert_int_equal(shared_maps(), maps);
  world.plan[0]->run.model = "m";
  session = opened(&world, 5);
  const Backend *backend = session.backend;
  assert_false(backend->read(session_device(&session, 2), ARENA_HOST, 13, &number, sizeof number, &error));
  assert_string_equal(error.text, "nothing is read at 13");
  assert_false(backend->write(session_device(&session, 2), ARENA_PERSISTENT, 13, &number, sizeof number, &error));
  assert_string_equal(error.text, "nothing is written at 13");
  assert_int_equal(error.status, 1);
  assert_false(backend->write(session_device(&session, 0), ARENA_HOST, 1 << 20, &number, sizeof number, &error));
  assert_string_equal(error.text, "bytes 1048576 to 1048580 are outside an arena of 1048576 bytes");
  world_run(&session, NULL);
  session_close(&session);
  world_destroy(&world);
}

// --- how they end ---

// A run that must fail with this text, within so many seconds.
static void run_fails(const World *world, double deadline, double within, const char *text) {
  const int files = open_files(), maps = shared_maps();
  Session session = opened(world, deadline);
  Error error = {0};
  const double begun = now();
  world_run(&session, text);
  assert_true(now() - begun < within);
  assert_false(session_run(&session, PROGRAM_TRAIN, 2, &error));
  assert_string_equal(error.text, text);
  assert_no_children();
  session_close(&session);
  assert_int_equal(open_files(), files);
  assert_int_equal(shared_maps(), maps);
}

static void a_rank_that_ends_is_named(void **state) {
  (void)state;
  World world = ranks_of(2);
  world_collective(&world, 0, COLLECTIVE_ALL_GATHER, REDUCE_SUM, TYPE_F32, 1, 16);
  Instruction *instruction = step_add(&world, 0, "die");
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 1, 16);
  run_fails(&world, 30, 5,
            "rank 1 is lost: its process was ended by signal 9 (Killed); rank 1 was last at the all_gather of 'x' "
            "(toy.mdl:1)");
  instruction->name = "leave";
  run_fails(&world, 30, 5,
            "rank 1 is lost: its process has ended with status 3; rank 1 was last at the all_gather of 'x' "
            "(toy.mdl:1)");
  instruction->name = "fail";
  run_fails(&world, 30, 5,
            "rank 1 is lost: the kernel does not run; rank 1 was last at the all_gather of 'x' (toy.mdl:1)");
  world_destroy(&world);
}

static void a_rank_that_hangs_is_named(void **state) {
  (void)state;
  World world = ranks_of(3);
  world_collective(&world, 0, COLLECTIVE_ALL_GATHER, REDUCE_SUM, TYPE_F32, 1, 16);
  step_add(&world, 0, "hang");
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 1, 16);
  run_fails(&world, 0.4, 3,
            "rank 1 has not arrived after 0.4 s at the all_reduce of 'x' (toy.mdl:3), 64 bytes of f32 among ranks 0-2; "
            "ranks 0, 2 wait; rank 1 was last at the all_gather of 'x' (toy.mdl:1)");
  world_destroy(&world);
  world = ranks_of(2);
  step_add(&world, 0, "hang");
  run_fails(&world, 0.4, 3,
            "rank 1 has not finished its run, and no rank has moved for 0.4 s; rank 1 has not come to any yet");
  world_destroy(&world);
}

// Rank 1 stands still in arithmetic, while the sum beside it goes on: rank 0 waits for it in the sum that arithmetic
// needs, rank 3 in one beside arithmetic that rank 1 has not come to.
static void a_rank_that_hangs_beside_is_named(void **state) {
  (void)state;
  const int64_t mesh[] = {2, 2};
  World world = world_make(mesh, 2, -1);
  world.plan[0]->arena_bytes[ARENA_HOST] = 64;
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 2, 8)->name = "first";
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 1, 16)->name = "beside";
  Instruction *step = step_add(&world, 0, "nothing");
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 2, 8)->name = "needed";
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 1, 16)->name = "last";
  for (int i = 0; i < world.plan[0]->segments[0].count; i++) {
    Instruction *at = &world.plan[0]->segments[0].instructions[i];
    at->aside = at->kind == INSTRUCTION_COLLECTIVE && at->as.collective.mesh == 1;
  }
  Session session = opened(&world, 10);
  for (int i = 0; i < 20; i++) {
    world_run(&session, NULL);
  }
  session_close(&session);
  step->name = "hang";
  run_fails(&world, 0.4, 3,
            "rank 1 has not arrived after 0.4 s at the all_reduce of 'needed' (toy.mdl:4), 32 bytes of f32 among ranks "
            "0, 1; rank 0 waits; rank 1 was last at the all_reduce of 'beside' (toy.mdl:2)");
  world_destroy(&world);
  world = ranks_of(2);
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 1, 16)->aside = true;
  step_add(&world, 0, "hang");
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 1, 16)->aside = true;
  run_fails(&world, 0.4, 3,
            "rank 1 has not arrived after 0.4 s at the all_reduce of 'x' (toy.mdl:3), 64 bytes of f32 among ranks 0, "
            "1; rank 0 waits; rank 1 was last at the all_reduce of 'x' (toy.mdl:1)");
  world_destroy(&world);
}

static void a_message_that_is_not_sent_is_named(void **state) {
  (void)state;
  const int64_t stages = 2;
  World world = world_make(&stages, 1, 0);
  const Place first = world_place(&world, 0, 64), second = world_place(&world, 1, 64);
  world_transfer(&world, 0, INSTRUCTION_SEND, 2, 1, 4, first);
  world_transfer(&world, 0, INSTRUCTION_RECEIVE, 3, 1, 4, first);
  world_transfer(&world, 1, INSTRUCTION_RECEIVE, 2, 0, 4, second);
  Instruction *instruction = step_add(&world, 1, "nothing");
  world_transfer(&world, 1, INSTRUCTION_SEND, 3, 0, 4, second);
  Session session = opened(&world, 10);
  world_run(&session, NULL);
  world_run(&session, NULL);
  session_close(&session);
  instruction->name = "hang";
  run_fails(&world, 0.4, 3,
            "rank 1 has not arrived after 0.4 s at the receive of 'm' (toy.mdl:2), 16 bytes of int; rank 0 waits; rank "
            "1 was last at the receive of 'm' (toy.mdl:1)");
  world_destroy(&world);
}

static void a_stopped_or_killed_process_is_named(void **state) {
  (void)state;
  World world = ranks_of(2);
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 1, 16);
  Session session = opened(&world, 0.4);
  world_run(&session, NULL);
  kill(processes_pid(session.processes, 0), SIGSTOP);
  world_run(
      &session,
      "rank 0 has not arrived after 0.4 s at the all_reduce of 'x' (toy.mdl:1), 64 bytes of f32 among ranks 0, 1; "
      "rank 1 waits; rank 0 was last at the all_reduce of 'x' (toy.mdl:1)");
  assert_no_children();
  session_close(&session);
  session = opened(&world, 0.4);
  kill(processes_pid(session.processes, 1), SIGKILL);
  Error error = {0};
  char byte;
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  assert_false(session.backend->read(session_device(&session, 0), ARENA_HOST, 0, &byte, 1, &error));
  assert_int_equal(error.status, 5);
  assert_string_equal(error.text,
                      "rank 1 is lost: its process was ended by signal 9 (Killed); rank 1 has not come to any yet");
  session_close(&session);
  assert_no_children();
  world_destroy(&world);
}

static void faults_of_the_environment(void **state) {
  (void)state;
  World world = ranks_of(2);
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 1, 16);
  setenv("MDL_FAULT", "die:0:2", 1);
  Session session = opened(&world, 5);
  world_run(&session, NULL);
  world_run(&session,
            "rank 0 is lost: its process was ended by signal 9 (Killed); rank 0 was last at the all_reduce of 'x' "
            "(toy.mdl:1)");
  session_close(&session);
  setenv("MDL_FAULT", "hang:1:1", 1);
  session = opened(&world, 0.4);
  world_run(
      &session,
      "rank 1 has not arrived after 0.4 s at the all_reduce of 'x' (toy.mdl:1), 64 bytes of f32 among ranks 0, 1; "
      "rank 0 waits; rank 1 has not come to any yet");
  session_close(&session);
  setenv("MDL_FAULT", "skip:1:1", 1);
  Error error = {0};
  assert_false(session_open_ranks(&session, &world.set, &acting, &(SessionOptions){.threads = 1}, &error));
  assert_int_equal(error.status, 2);
  session_close(&session);
  unsetenv("MDL_FAULT");
  world_destroy(&world);
}

// Processes of a parent that is killed end, whatever they are doing.
static void they_end_with_their_parent(void **state) {
  (void)state;
  enum { COUNT = 3 };
  World world = ranks_of(COUNT);
  step_add(&world, 0, "hang");
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 1, 16);
  int ends[2];
  pid_t pids[COUNT];
  assert_int_equal(pipe(ends), 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t parent = fork();
  if (parent == 0) {
    Session session = opened(&world, 0);
    Error error;
    for (int r = 0; r < COUNT; r++) {
      pids[r] = processes_pid(session.processes, r);
    }
    _exit(write(ends[1], pids, sizeof pids) != sizeof pids || session_run(&session, PROGRAM_TRAIN, 1, &error));
  }
  assert_int_equal(read(ends[0], pids, sizeof pids), sizeof pids);
  close(ends[0]);
  close(ends[1]);
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  kill(parent, SIGKILL);
  assert_int_equal(waitpid(parent, NULL, 0), parent);
  for (int r = 0; r < COUNT; r++) {
    int status = 0;
    assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  world_destroy(&world);
}

// What a checkpoint is saved from while training goes on; and what is said when a rank is lost before the next copy.
static void *open_in_thread(void *context) {
  Session *session = context;
  Error error = {0};
  const SessionOptions options = {.threads = 1, .deadline_seconds = 10};
  return session_open_ranks(session, session->set, &acting, &options, &error) ? context : NULL;
}

// Threads may share a trainer: that which opened it may end.
static void they_outlive_the_thread_that_opened_them(void **state) {
  (void)state;
  World world = ranks_of(2);
  Session session = {.set = &world.set};
  pthread_t thread;
  void *opened_it = NULL;
  Error error = {0};
  step_add(&world, 0, "step");
  assert_int_equal(pthread_create(&thread, NULL, open_in_thread, &session), 0);
  pthread_join(thread, &opened_it);
  assert_non_null(opened_it);
  for (int i = 0; i < 50; i++) {
    if (!session_run(&session, PROGRAM_TRAIN, i + 1, &error)) {
      fail_msg("run %d: %s", i, error.text);
    }
    usleep(1000);
  }
  session_close(&session);
  assert_no_children();
  world_destroy(&world);
}

static void states_are_copied(void **state) {
  (void)state;
  enum { EACH = 8, RANKS = 2 };
  World world = ranks_of(RANKS);
  PlanState weight = {.name = "w", .type = TYPE_F32, .axis_count = 1, .axis = {"a"}, .size = {EACH * RANKS}};
  weight.stride[0] = 1;
  weight.offset = 4096;
  weight.cut[0] = (PlanCut){.count = 1, .local = EACH};
  world.plan[0]->states = &weight;
  world.plan[0]->state_count = 1;
  Session session = opened(&world, 10);
  Snapshot *snapshot;
  Error error = {0};
  float values[EACH * RANKS], other[EACH * RANKS] = {0}, back[EACH * RANKS] = {0};
  for (int i = 0; i < EACH * RANKS; i++) {
    values[i] = (float)(i + 1);
  }
  for (int64_t rank = 0; rank < RANKS; rank++) {
    const Place place = {.arena = ARENA_PERSISTENT, .offset = 4096};
    world_write(&world, &session, rank, place, values + rank * EACH, EACH * 4);
  }
  if (!snapshot_create(&session, &snapshot, &error) || !snapshot_take(snapshot, &error)) {
    fail_msg("%s", error.text);
  }
  assert_int_equal(snapshot_bytes(snapshot), EACH * RANKS * 4);
  for (int64_t rank = 0; rank < RANKS; rank++) {  // training goes on
    const Place place = {.arena = ARENA_PERSISTENT, .offset = 4096};
    world_write(&world, &session, rank, place, other, EACH * 4);
  }
  States states;
  const StateReader reader = snapshot_reader(snapshot);
  assert_true(states_open(&world.set, &states, &error));
  assert_true(state_gather_with(&reader, &states, states_find(&states, "w"), back, &error));
  assert_memory_equal(back, values, sizeof back);
  states_close(&states);
  kill(processes_pid(session.processes, 1), SIGKILL);
  assert_false(snapshot_take(snapshot, &error));
  assert_int_equal(error.status, 5);
  snapshot_destroy(snapshot);
  session_close(&session);
  assert_no_children();
  world_destroy(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(data_goes_there_and_back),
      cmocka_unit_test(pieces_are_copied),
      cmocka_unit_test(they_outlive_the_thread_that_opened_them),
      cmocka_unit_test(states_are_copied),
      cmocka_unit_test(runs_on_all),
      cmocka_unit_test(facts_and_traces),
      cmocka_unit_test(errors_come_through),
      cmocka_unit_test(a_rank_that_ends_is_named),
      cmocka_unit_test(a_rank_that_hangs_is_named),
      cmocka_unit_test(a_rank_that_hangs_beside_is_named),
      cmocka_unit_test(a_message_that_is_not_sent_is_named),
      cmocka_unit_test(a_stopped_or_killed_process_is_named),
      cmocka_unit_test(faults_of_the_environment),
      cmocka_unit_test(they_end_with_their_parent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
