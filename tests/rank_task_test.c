// rank_task_test.c: a rank lives from the bytes that it is handed: not from the text, nor from any memory of the
// process that hands them; and bytes that are damaged are refused in words.
//
// Oracle: the same plan in this process, run before all that it was made of is gone.
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <xxhash.h>

#include "compiler/plan/artefact.h"
#include "compiler/plan/sealed.h"
#include "runtime/processes_internal.h"
#include "runtime/stream.h"
#include "tests/layouts_run.h"

enum { RUNS = 5, PLACES = 40, OPEN = 60 };

static const ProgramKind kinds[RUNS] = {PROGRAM_INITIALISE, PROGRAM_TRAIN, PROGRAM_TRAIN, PROGRAM_TRAIN,
                                        PROGRAM_EVALUATE};

// --- a device that says what it knows of names and places in the text ---

static void places_of(const Plan *plan, Buffer *out) {
  int count = 0;
  for (int s = 0; s < plan->segment_count && count < PLACES; s++) {
    const PlanSegment *segment = &plan->segments[s];
    for (int i = 0; i < segment->count && count < PLACES; i += 7) {
      char place[64];
      plan_source(plan, segment->instructions[i].span, place, sizeof place);
      const char *name = segment->instructions[i].name;
      buffer_format(out, "%s at %s; ", name ? name : "?", strrchr(place, '/') ? strrchr(place, '/') + 1 : place);
      count += *place != '\0';
    }
  }
}

static bool telling_open(const Plan *plan, const DeviceOptions *options, Device **device, Error *error) {
  Buffer text = {0};
  (void)options;
  *device = NULL;
  places_of(plan, &text);
  error_set(error, 4, "%s", text.text);
  buffer_free(&text);
  return false;
}

static const Backend telling = {.name = "telling", .open = telling_open};

const Backend *__real_backend_find(const char *name);
const Backend *__wrap_backend_find(const char *name) {
  return strcmp(name, telling.name) == 0 ? &telling : __real_backend_find(name);
}

// --- a process of a rank, told what to do by hand ---

typedef struct {
  pid_t pid;
  int socket;
  Shared *shared;
} Told;

static Told told_begin(void) {
  Told told;
  Error error = {0};
  const int memory = processes_memory(sizeof *told.shared);
  assert_true(memory >= 0);
  told.shared = mmap(NULL, sizeof *told.shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  assert_true(told.shared != MAP_FAILED);
  if (!process_start(0, memory, &told.pid, &told.socket, &error)) {
    fail_msg("%s", error.text);
  }
  close(memory);
  return told;
}

static void told_end(const Told *told, int status) {
  int got = 0;
  close(told->socket);
  munmap(told->shared, sizeof *told->shared);
  assert_int_equal(waitpid(told->pid, &got, 0), told->pid);
  assert_true(WIFEXITED(got));
  assert_int_equal(WEXITSTATUS(got), status);
}

static void answered(const Told *told, Answer *answer) {
  if (!stream_receive(told->socket, answer, sizeof *answer)) {
    fail_msg("the process of the rank has ended");
  }
}

static void ask(const Told *told, const Ask *ask, bool answers) {
  Answer answer = {.good = true};
  assert_true(stream_send(told->socket, ask, sizeof *ask, OPEN));
  if (answers) {
    answered(told, &answer);
  }
  if (!answer.good) {
    fail_msg("%s", answer.error.text);
  }
}

static void told_write(const Told *told, ArenaClass arena, const char *bytes, int64_t count) {
  assert_true(count <= WINDOW_BYTES);
  memcpy(told->shared->window, bytes, (size_t)count);
  ask(told, &(Ask){.kind = ASK_WRITE, .arena = arena, .bytes = count}, false);
  ask(told, &(Ask){.kind = ASK_SETTLE}, true);
}

static void told_compare(const Told *told, ArenaClass arena, const char *bytes, int64_t count) {
  assert_true(count <= WINDOW_BYTES);
  memset(told->shared->window, 0x5a, (size_t)count);
  ask(told, &(Ask){.kind = ASK_READ, .arena = arena, .bytes = count}, true);
  assert_memory_equal(told->shared->window, bytes, (size_t)count);
}

// --- a plan, what it does here, and its bytes ---

typedef struct {
  Buffer task, places;
  int64_t persistent, host;
  char *state[RUNS], *numbers[RUNS];  // after each run
} Known;

static char *arena_bytes(LayoutRun *run, ArenaClass arena, int64_t bytes) {
  Error error = {0};
  char *to = malloc((size_t)bytes + 1);
  if (!run->session.backend->read(run->session.device, arena, 0, to, bytes, &error)) {
    fail_msg("%s", error.text);
  }
  return to;
}

static void run_here(LayoutRun *run, Known *known) {
  Error error = {0};
  if (!session_open_ranks(&run->session, run->set, &backend_cpu, &(SessionOptions){.threads = 1}, &error)) {
    fail_msg("%s", error.text);
  }
  for (int i = 0; i < RUNS; i++) {
    if (kinds[i] != PROGRAM_INITIALISE) {
      layout_draw_inputs(run, kinds[i], (uint64_t)i);
    }
    if (!session_run(&run->session, kinds[i], i, &error)) {
      fail_msg("%s", error.text);
    }
    known->state[i] = arena_bytes(run, ARENA_PERSISTENT, known->persistent);
    known->numbers[i] = arena_bytes(run, ARENA_HOST, known->host);
  }
}

static void write_task(const Plan *plan, const char *backend, Arena *arena, Buffer *out) {
  Buffer bytes = {0};
  RankTask task = {.ranks = 1, .threads = 1, .backend = backend};
  rank_task_take_environment(arena, &task);
  assert_true(artefact_write_stage(arena, plan, &bytes));
  assert_true(rank_task_write(&task, &bytes, out));
  buffer_free(&bytes);
}

// When this returns there is nothing left of the text, nor of what it was compiled to, but the bytes.
static Known known_make(const char *backend, bool runs) {
  char path[] = "/tmp/rank_task_XXXXXX", line[512];
  Known known = {0};
  FILE *from = fopen(MDL_SOURCE_DIR "/tests/layouts/llama.mdl", "r"), *to = fdopen(mkstemp(path), "w");
  assert_true(from && to);
  while (fgets(line, sizeof line, from)) {
    fputs(line, to);
  }
  fclose(from);
  fclose(to);
  LayoutRun *run = layout_compile(path, &(CompileOptions){.layout = "single", .precision = "fp32"}, stdout);
  assert_non_null(run);
  const Plan *plan = run->set->plans[0];
  known.persistent = plan->arena_bytes[ARENA_PERSISTENT];
  known.host = plan->arena_bytes[ARENA_HOST];
  if (runs) {
    run_here(run, &known);
    session_close(&run->session);
  }
  places_of(plan, &known.places);
  write_task(plan, backend, run->arena, &known.task);
  arena_destroy(run->arena);
  assert_int_equal(unlink(path), 0);
  return known;
}

static void known_free(Known *known) {
  for (int i = 0; i < RUNS; i++) {
    free(known->state[i]);
    free(known->numbers[i]);
  }
  buffer_free(&known->task);
  buffer_free(&known->places);
}

// --- the tests ---

static void a_rank_lives_from_bytes(void **state) {
  (void)state;
  Known known = known_make("cpu", true);
  Answer answer;
  const Told told = told_begin();
  assert_true(stream_send(told.socket, known.task.text, known.task.length, OPEN));
  answered(&told, &answer);
  if (!answer.good) {
    fail_msg("%s", answer.error.text);
  }
  for (int i = 0; i < RUNS; i++) {
    told_write(&told, ARENA_HOST, known.numbers[i], known.host);
    ask(&told, &(Ask){.kind = ASK_RUN, .number = (int)kinds[i]}, true);
    ask(&told, &(Ask){.kind = ASK_WAIT}, true);
    told_compare(&told, ARENA_HOST, known.numbers[i], known.host);
    told_compare(&told, ARENA_PERSISTENT, known.state[i], known.persistent);
  }
  assert_memory_not_equal(known.state[0], known.state[1], (size_t)known.persistent);
  ask(&told, &(Ask){.kind = ASK_CLOSE}, false);
  told_end(&told, 0);
  known_free(&known);
}

static void names_and_lines_travel(void **state) {
  (void)state;
  Known known = known_make("telling", false);
  Answer answer;
  const Told told = told_begin();
  assert_non_null(strstr(known.places.text, " at rank_task_"));
  assert_true(stream_send(told.socket, known.task.text, known.task.length, OPEN));
  answered(&told, &answer);
  assert_false(answer.good);
  assert_int_equal(answer.error.status, 4);
  known.places.text[ERROR_MAX - 1] = '\0';
  assert_string_equal(answer.error.text, known.places.text);
  told_end(&told, 1);
  known_free(&known);
}

static void put_hash(char *bytes, size_t size) {
  const uint64_t length = size - SEAL_BYTES, hash = XXH3_64bits(bytes + SEAL_BYTES, size - SEAL_BYTES);
  for (int i = 0; i < 8; i++) {
    bytes[16 + i] = (char)(length >> (8 * i));
    bytes[24 + i] = (char)(hash >> (8 * i));
  }
}

// What a process says to these bytes.
static void refused(const char *bytes, size_t length, const char *why) {
  Answer answer;
  const Told told = told_begin();
  assert_true(stream_send(told.socket, bytes, length, OPEN));
  shutdown(told.socket, SHUT_WR);
  answered(&told, &answer);
  assert_false(answer.good);
  if (!strstr(answer.error.text, why)) {
    fail_msg("\"%s\" does not say \"%s\"", answer.error.text, why);
  }
  told_end(&told, 1);
}

static void damaged_bytes_are_refused(void **state) {
  (void)state;
  Known known = known_make("cpu", false);
  const size_t size = known.task.length;
  char *copy = malloc(size);
  refused(known.task.text, 7, "the task of rank 0 has not come");
  refused(known.task.text, size / 2, "the task of rank 0 is cut short");
  static const struct {
    size_t at;
    bool hashed;
    const char *why;
  } spoils[] = {{0, false, "the task of rank 0 is no task: what a rank is handed begins otherwise"},
                {8, false, "the task of rank 0 is a task of format"},
                {12, false, "the task of rank 0 is damaged: its head is"},
                {22, false, "no memory for the task of rank 0, which has"},
                {30, false, "the task of rank 0 is damaged: its hash does not fit its bytes"},
                {SEAL_BYTES, true, "the task of rank 0 is damaged: its bytes do not form one"}};
  for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
    memcpy(copy, known.task.text, size);
    copy[spoils[i].at] ^= 0x55;
    if (spoils[i].hashed) {
      put_hash(copy, size);
    }
    refused(copy, size, spoils[i].why);
  }
  memcpy(copy, known.task.text, size);
  copy[size / 2] ^= 1;
  refused(copy, size, "its hash does not fit its bytes");
  put_hash(copy, size);
  refused(copy, size, "the plan in the task of rank 0 is damaged: its hash does not fit its bytes");
  free(copy);
  known_free(&known);
}

typedef struct {
  const char *bytes;
  size_t length;
  int socket;
} Sending;

static void *send_all(void *argument) {
  const Sending *sending = argument;
  stream_send(sending->socket, sending->bytes, sending->length, OPEN);
  shutdown(sending->socket, SHUT_WR);
  return NULL;
}

static bool received(const char *bytes, size_t length) {
  int pair[2];
  pthread_t thread;
  Error error = {0};
  RankTask task;
  Arena *arena = arena_create();
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  Sending sending = {bytes, length, pair[0]};
  assert_int_equal(pthread_create(&thread, NULL, send_all, &sending), 0);
  const bool good = rank_task_receive(pair[1], arena, "it", &task, &error);
  close(pair[1]);
  pthread_join(thread, NULL);
  close(pair[0]);
  assert_true(good || error.text[0]);
  arena_destroy(arena);
  return good;
}

// Bytes changed at random under hashes that fit: read or refused, never a crash.
static void random_bytes_are_read_or_refused(void **state) {
  (void)state;
  Known known = known_make("cpu", false);
  const size_t size = known.task.length;
  char *copy = malloc(size);
  size_t plan = SEAL_BYTES;
  while (memcmp(known.task.text + plan, "MDLX\r\n", 6) != 0) {
    plan++;
  }
  uint32_t random = 7;
  int refusals = 0;
  assert_true(received(known.task.text, size));
  for (int round = 0; round < 400; round++) {
    memcpy(copy, known.task.text, size);
    random = random * 1664525u + 1013904223u;
    const size_t from = round % 4 ? plan + SEAL_BYTES : SEAL_BYTES;
    copy[from + (random >> 8) % ((round % 4 ? size : plan) - from)] ^= (char)(1u << (round % 8));
    put_hash(copy + plan, size - plan);
    put_hash(copy, size);
    refusals += !received(copy, size);
  }
  assert_true(refusals > 100);
  free(copy);
  known_free(&known);
}

static void the_environment_travels(void **state) {
  (void)state;
  Arena *arena = arena_create();
  RankTask task = {0};
  setenv("MDL_OF_THE_RUN", "a=b", 1);
  setenv("OF_THE_HOST", "1", 1);
  rank_task_take_environment(arena, &task);
  unsetenv("MDL_OF_THE_RUN");
  setenv("MDL_OF_THE_HOST", "1", 1);
  setenv("OF_THE_HOST", "2", 1);
  assert_true(rank_task_set_environment(&task));
  assert_string_equal(getenv("MDL_OF_THE_RUN"), "a=b");
  assert_null(getenv("MDL_OF_THE_HOST"));
  assert_string_equal(getenv("OF_THE_HOST"), "2");
  unsetenv("MDL_OF_THE_RUN");
  arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rank_lives_from_bytes),   cmocka_unit_test(names_and_lines_travel),
      cmocka_unit_test(damaged_bytes_are_refused), cmocka_unit_test(random_bytes_are_read_or_refused),
      cmocka_unit_test(the_environment_travels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
