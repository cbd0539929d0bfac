// cuda_ranks_test.c: plans of several ranks on as many GPUs of this machine, against ranks that are threads on the CPU.
//
// MDL_ENDURANCE=N also replays plans of two ranks N times while their processes are stopped and go on at random, says
// how fast collectives are, and then stops one for good: how long is it until it is named? MDL_ONLY='*lost*' runs the
// tests of such names alone.
//
// Needs two GPUs. Elsewhere the tests that run no kernels are run on stand-ins of the driver and of NCCL (tests/fake),
// and all others are skipped with what was found.
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "runtime/cuda/count.h"
#include "runtime/element.h"
#include "runtime/peers.h"
#include "runtime/processes.h"
#include "tests/fake/stand_ins.h"
#include "tests/layouts_run.h"
#include "tests/ranks_support.h"

enum { STEPS = 20, DEADLINE = 30, ENDURANCE_DEADLINE = 10, REPEATS = 10 };
static const double TOLERANCE = 1e-4;

static int gpus(bool kernels) {
  Error error = {0};
  const int count = cuda_count_apart(&error);
  if (count < 2) {
    print_message("skipped: two GPUs are needed; %s\n", count == 1 ? "this machine has one" : error.text);
    skip();
  }
  if (kernels && stands_in()) {
    print_message("skipped: two GPUs are needed, and these are stand-ins\n");
    skip();
  }
  return count;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void open_on(Session *session, const World *world, const Backend *backend, double deadline) {
  Error error = {0};
  const SessionOptions options = {.threads = 1, .deadline_seconds = deadline};
  if (!session_open_ranks(session, &world->set, backend, &options, &error)) {
    fail_msg("%s: %s", backend->name, error.text);
  }
}

static void gpus_are_counted(void **state) {
  (void)state;
  const int count = gpus(false);
  Error error = {0};
  char said[ERROR_MAX];
  assert_ptr_equal(backend_choose("auto", count, &error), &backend_cuda);
  assert_ptr_equal(backend_choose("cuda", count, &error), &backend_cuda);
  assert_ptr_equal(backend_choose("auto", count + 1, &error), &backend_cpu);
  assert_ptr_equal(backend_choose("cpu", count, &error), &backend_cpu);
  int devices = 0;
  assert_ptr_equal(backend_choose_all("auto", &devices, &error), &backend_cuda);
  assert_int_equal(devices, count);
  assert_ptr_equal(backend_choose_all("cpu", &devices, &error), &backend_cpu);
  assert_int_equal(devices, 0);
  assert_null(backend_choose("cuda", count + 1, &error));
  snprintf(said, sizeof said,
           "the plan is for %d ranks, each on a GPU of its own, and this machine has %d; --device cpu runs all of them "
           "here, as threads",
           count + 1, count);
  assert_string_equal(error.text, said);
}

// --- every collective and messages, on numbers whose sums are exact ---

static const ElementType types[] = {TYPE_F64, TYPE_F32, TYPE_F16, TYPE_BF16, TYPE_INT};

static void world_fill(const World *world, Session *session) {
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    const Plan *plan = session_plan(session, rank);
    for (int i = 0; i < plan->segments[0].count; i++) {
      const Instruction *instruction = &plan->segments[0].instructions[i];
      const bool collects = instruction->kind == INSTRUCTION_COLLECTIVE;
      if (!collects && instruction->kind != INSTRUCTION_SEND) {
        continue;
      }
      const Collective *c = &instruction->as.collective;
      const Transfer *t = &instruction->as.transfer;
      const ElementType type = collects ? c->type : t->type;
      const int64_t bytes = element_type_bytes(type), count = collects ? c->count * c->ranks : t->count;
      char *memory = malloc((size_t)(count * bytes));
      for (int64_t e = 0; e < count; e++) {
        element_put(type, memory + e * bytes, (double)((rank * 5 + e * 3 + i) % 4));
      }
      world_write(world, session, rank, collects ? c->from : t->place, memory, count * bytes);
      free(memory);
    }
  }
}

static void assert_same_memory(const World *world, Session *a, Session *b) {
  for (int64_t rank = 0; rank < a->ranks; rank++) {
    const int64_t bytes = session_plan(a, rank)->arena_bytes[ARENA_TRANSIENT];
    char *x = malloc((size_t)bytes), *y = malloc((size_t)bytes);
    world_read(world, a, rank, (Place){.arena = ARENA_TRANSIENT}, x, bytes);
    world_read(world, b, rank, (Place){.arena = ARENA_TRANSIENT}, y, bytes);
    for (int64_t i = 0; i < bytes; i++) {
      if (x[i] != y[i]) {
        fail_msg("rank %lld: byte %lld is %d on the CPU and %d on the GPU", (long long)rank, (long long)i, x[i], y[i]);
      }
    }
    free(x);
    free(y);
  }
}

static void world_compare(const World *world) {
  Session cpu, gpu;
  open_on(&gpu, world, &backend_cuda, DEADLINE);
  open_on(&cpu, world, &backend_cpu, DEADLINE);
  for (int run = 0; run < 3; run++) {
    world_fill(world, &cpu);
    world_fill(world, &gpu);
    world_run(&cpu, NULL);
    world_run(&gpu, NULL);
    assert_same_memory(world, &cpu, &gpu);
  }
  session_close(&gpu);
  session_close(&cpu);
}

static void collectives_mean_the_same(void **state) {
  (void)state;
  const int64_t ranks = gpus(false);
  World world = world_make(&ranks, 1, -1);
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    for (int kind = 0; kind < COLLECTIVE_KIND_COUNT; kind++) {
      const bool reduces = kind == COLLECTIVE_ALL_REDUCE || kind == COLLECTIVE_REDUCE_SCATTER;
      for (int reduce = 0; reduce < (reduces ? REDUCE_COUNT : 1); reduce++) {
        world_collective(&world, 0, (CollectiveKind)kind, (ReduceKind)reduce, types[t], 1, 1000);
      }
    }
  }
  world_compare(&world);
  world_destroy(&world);
}

// Two channels each way, received in another order than they are sent in, with messages on their way both ways at once.
static void messages_mean_the_same(void **state) {
  (void)state;
  gpus(false);
  enum { COUNT = 100000 };
  const int64_t stages = 2;
  World world = world_make(&stages, 1, 0);
  Place place[2][4];
  for (int s = 0; s < 2; s++) {
    for (int c = 0; c < 4; c++) {
      place[s][c] = world_place(&world, s, COUNT * 4);
    }
  }
  for (int s = 0; s < 2; s++) {
    const int mine = 2 * s, other = 2 - mine;
    for (int round = 0; round < 3; round++) {
      world_transfer(&world, s, INSTRUCTION_SEND, mine, 1 - s, COUNT, place[s][mine]);
      world_transfer(&world, s, INSTRUCTION_SEND, mine + 1, 1 - s, COUNT, place[s][mine + 1]);
      world_transfer(&world, s, INSTRUCTION_RECEIVE, other + 1, 1 - s, COUNT, place[s][other + 1]);
      world_transfer(&world, s, INSTRUCTION_RECEIVE, other, 1 - s, COUNT, place[s][other]);
    }
  }
  world_compare(&world);
  world_destroy(&world);
}

// Stages of two ranks each, which add among themselves. The last stage sends what it got back to the first. And groups
// of a mesh of two axes: along each, and along both.
static void stages_and_groups_mean_the_same(void **state) {
  (void)state;
  if (gpus(false) < 4) {
    print_message("skipped: four GPUs are needed\n");
    skip();
  }
  enum { COUNT = 500 };
  const int64_t mesh[] = {2, 2};
  World world = world_make(mesh, 2, 0);
  for (int s = 0; s < 2; s++) {
    const Place there = world_place(&world, s, COUNT * 4), back = world_place(&world, s, COUNT * 4);
    world_collective(&world, s, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 2, COUNT);
    world_transfer(&world, s, s ? INSTRUCTION_RECEIVE : INSTRUCTION_SEND, 4, 1 - s, COUNT, there);
    world_collective(&world, s, COLLECTIVE_ALL_GATHER, REDUCE_SUM, TYPE_F32, 2, COUNT);
    world_transfer(&world, s, s ? INSTRUCTION_SEND : INSTRUCTION_RECEIVE, 9, 1 - s, COUNT, s ? there : back);
    world_collective(&world, s, COLLECTIVE_REDUCE_SCATTER, REDUCE_MAX, TYPE_F32, 2, COUNT);
  }
  world_compare(&world);
  world_destroy(&world);
  world = world_make(mesh, 2, -1);
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 2, COUNT);
  world_collective(&world, 0, COLLECTIVE_ALL_GATHER, REDUCE_SUM, TYPE_F32, 1, COUNT);
  world_collective(&world, 0, COLLECTIVE_ALL_TO_ALL, REDUCE_SUM, TYPE_F32, 3, COUNT);
  world_compare(&world);
  world_destroy(&world);
}

// --- training ---

typedef struct {
  double loss[STEPS], norm[STEPS];
} Losses;

static double scalar_of(LayoutRun *run, const char *name) {
  Error error = {0};
  double value = NAN;
  if (!session_scalar(&run->session, PROGRAM_TRAIN, name, &value, &error)) {
    layout_fail("%s: %s", name, error.text);
  }
  return value;
}

// Also asks, on the GPUs, that ranks which hold the same hold the same bits at the end.
static void train(LayoutRun *run, const Backend *backend, const char *what, Losses *losses) {
  Error error = {0};
  if (!layout_open_on(run, backend, DEADLINE, &error) || !session_run(&run->session, PROGRAM_INITIALISE, 0, &error)) {
    layout_fail("%s on %s: %s", what, backend->name, error.text);
  }
  for (int step = 0; step < STEPS; step++) {
    layout_draw_inputs(run, PROGRAM_TRAIN, (uint64_t)step % 3);
    if (!session_run(&run->session, PROGRAM_TRAIN, step + 1, &error)) {
      layout_fail("%s on %s, step %d: %s", what, backend->name, step + 1, error.text);
    }
    losses->loss[step] = scalar_of(run, "loss");
    losses->norm[step] = scalar_of(run, "grad_norm");
  }
  layout_when = what;
  for (int p = 0; p < run->set->count && backend != &backend_cpu; p++) {
    for (int i = 0; i < run->set->plans[p]->state_count; i++) {
      int64_t count;
      layout_state(run, run->arena, run->set->plans[p]->states[i].name, &count);
    }
  }
  session_close(&run->session);
}

static void same_losses(const char *path, const char *layout, int count) {
  const CompileOptions options = {.layout = layout, .precision = "fp32"};
  LayoutRun *run = layout_compile(path, &options, stdout);
  Losses cpu, gpu;
  double worst = 0;
  assert_non_null(run);
  if (plan_ranks(run->set->plans[0]) > count) {
    print_message("  %s %s: left out, it is for %lld GPUs\n", path, layout, (long long)plan_ranks(run->set->plans[0]));
    arena_destroy(run->arena);
    return;
  }
  train(run, &backend_cpu, layout, &cpu);
  train(run, &backend_cuda, layout, &gpu);
  for (int step = 0; step < STEPS; step++) {
    const double loss = fabs(gpu.loss[step] / cpu.loss[step] - 1), norm = fabs(gpu.norm[step] / cpu.norm[step] - 1);
    worst = loss > worst ? loss : worst;
    if (!(loss <= TOLERANCE) || (isfinite(cpu.norm[step]) && !(norm <= 10 * TOLERANCE))) {
      layout_fail("%s %s: step %d: loss %.9g and norm %.9g on GPUs, %.9g and %.9g on the CPU", path, layout, step + 1,
                  gpu.loss[step], gpu.norm[step], cpu.loss[step], cpu.norm[step]);
    }
  }
  print_message("  %s %s: losses of %d steps differ by at most %.1e\n", path, layout, STEPS, worst);
  arena_destroy(run->arena);
}

static void llama_trains_the_same(void **state) {
  (void)state;
  static const char *const layouts[] = {"dp2",   "tp2",    "tp2sp",     "cp2z",     "ulysses2", "z1",
                                        "z3",    "pp2",    "pp2g",      "pp2zb",    "pp2full",  "z1pp",
                                        "ring2", "ring2z", "ringmixed", "ring2tp2", "pp2tp2"};
  const int count = gpus(true);
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    same_losses(MDL_SOURCE_DIR "/tests/layouts/llama.mdl", layouts[i], count);
  }
}

// Keys that are not masked, keys of another text that do not fill the last block, and linear biases, whose slopes are
// cut with the heads.
static void rings_train_the_same(void **state) {
  (void)state;
  const int count = gpus(true);
  same_losses(MDL_SOURCE_DIR "/tests/layouts/attention.mdl", "ring2", count);
  same_losses(MDL_SOURCE_DIR "/tests/layouts/attention.mdl", "ringz", count);
  same_losses(MDL_SOURCE_DIR "/tests/layouts/cross.mdl", "ring2", count);
  same_losses(MDL_SOURCE_DIR "/tests/layouts/cross.mdl", "all2", count);
  same_losses(MDL_SOURCE_DIR "/tests/layouts/cross.mdl", "two", count);
  same_losses(MDL_SOURCE_DIR "/tests/layouts/alibi.mdl", "ringz", count);
  same_losses(MDL_SOURCE_DIR "/tests/layouts/alibi.mdl", "tp2", count);
}

// Programs of one plan have messages of the same number that go other ways: an evaluation sends terms back.
static void messages_go_both_ways(void **state) {
  (void)state;
  const int count = gpus(true);
  same_losses(MDL_SOURCE_DIR "/tests/layouts/terms.mdl", "pp1", count);
  same_losses(MDL_SOURCE_DIR "/tests/layouts/stage_terms.mdl", "pp2_4", count);
}

static const char gpt2_layouts[] =
    "layout g_dp2 { mesh dp = 2; batch -> dp; }\n"
    "layout g_tp2 { mesh tp = 2; heads, ffn -> tp; }\n"
    "layout g_tp2sp { mesh tp = 2; heads, ffn, vocab -> tp; @resid: seq -> tp; }\n"
    "layout g_pp2 { mesh pp = 2; layers -> pp; microbatches = 4; }\n"
    "layout g_z1 { mesh dp = 2; batch -> dp; state -> dp; }\n"
    "layout g_z3 { mesh dp = 2; batch -> dp; param, grad, state -> dp; }\n";

static void gpt2_trains_the_same(void **state) {
  (void)state;
  static const char *const layouts[] = {"g_dp2", "g_tp2", "g_tp2sp", "g_pp2", "g_z1", "g_z3"};
  const int count = gpus(true);
  char path[] = "/tmp/cuda_ranks_XXXXXX", line[512];
  FILE *from = fopen(MDL_SOURCE_DIR "/tests/layouts/gpt2.mdl", "r"), *to = fdopen(mkstemp(path), "w");
  assert_true(from && to);
  while (fgets(line, sizeof line, from)) {
    fputs(line, to);
  }
  fputs(gpt2_layouts, to);
  fclose(from);
  fclose(to);
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    same_losses(path, layouts[i], count);
  }
  unlink(path);
}

// --- copies ---

// Into memory that is pinned and shared, on all GPUs at once.
static void memory_is_copied_out(void **state) {
  (void)state;
  enum { BYTES = 3 << 20 };
  const int64_t ranks = 2, bytes[2] = {BYTES, BYTES};
  gpus(false);
  World world = world_make(&ranks, 1, -1);
  world.plan[0]->arena_bytes[ARENA_PERSISTENT] = BYTES + 8;
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 1, 16);
  Session session;
  Error error = {0};
  char *there = malloc(BYTES), *memory[2];
  open_on(&session, &world, &backend_cuda, DEADLINE);
  assert_true(processes_hold(session.processes, bytes, memory, &error));
  for (int round = 0; round < 2; round++) {
    for (int64_t rank = 0; rank < ranks; rank++) {
      memset(there, (int)(1 + rank + 2 * round), BYTES);
      world_write(&world, &session, rank, (Place){.arena = ARENA_PERSISTENT, .offset = 8}, there, BYTES);
    }
    const CopyPiece halves[] = {{.offset = 8, .bytes = BYTES / 2},
                                {.offset = 8 + BYTES / 2, .bytes = BYTES / 2, .to = BYTES / 2}};
    for (int64_t rank = 0; rank < ranks; rank++) {
      assert_true(processes_copy(session.processes, rank, halves, 2, &error));
    }
    assert_true(processes_copying(session.processes, &error));
    assert_true(processes_copied(session.processes, &error));
    for (int64_t rank = 0; rank < ranks; rank++) {
      memset(there, (int)(1 + rank + 2 * round), BYTES);
      assert_memory_equal(memory[rank], there, BYTES);
    }
  }
  free(there);
  session_close(&session);
  world_destroy(&world);
}

// --- ends ---

static void a_lost_rank_is_named(void **state) {
  (void)state;
  const int64_t ranks = 2;
  gpus(false);
  World world = world_make(&ranks, 1, -1);
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 1, 16);
  Session session;
  open_on(&session, &world, &backend_cuda, 2);
  world_run(&session, NULL);
  kill(processes_pid(session.processes, 1), SIGKILL);
  world_run(&session,
            "rank 1 is lost: its process was ended by signal 9 (Killed); rank 1 was last at the all_reduce of 'x' "
            "(toy.mdl:1)");
  session_close(&session);
  setenv("MDL_FAULT", "hang:1:3", 1);
  open_on(&session, &world, &backend_cuda, 2);
  unsetenv("MDL_FAULT");
  world_run(&session, NULL);
  world_run(&session, NULL);
  world_run(&session,
            "rank 1 has not arrived after 2 s at the all_reduce of 'x' (toy.mdl:1), 64 bytes of f32 among ranks 0, 1; "
            "rank 0 waits; rank 1 was last at the all_reduce of 'x' (toy.mdl:1)");
  session_close(&session);
  world_destroy(&world);
}

// The same where what they all do is on a queue beside that of the copies between.
static void a_rank_lost_beside_is_named(void **state) {
  (void)state;
  const int64_t ranks = 2;
  gpus(false);
  World world = world_make(&ranks, 1, -1);
  Session session;
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 1, 16)->aside = true;
  world_add(&world, 0, INSTRUCTION_PIECE, "p")->as.piece = (Piece){
      .type = TYPE_F32, .piece = 16, .count = 16, .from = world_place(&world, 0, 64), .to = world_place(&world, 0, 64)};
  world_collective(&world, 0, COLLECTIVE_ALL_GATHER, REDUCE_SUM, TYPE_F32, 1, 16)->aside = true;
  setenv("MDL_FAULT", "hang:1:5", 1);
  open_on(&session, &world, &backend_cuda, 2);
  unsetenv("MDL_FAULT");
  const SessionMemory memory = session_memory(&session);
  assert_true(memory.joined_predicted > 2 * (INT64_C(100) << 20) && memory.beside >= memory.joined_predicted);
  world_run(&session, NULL);
  world_run(&session, NULL);
  world_run(&session,
            "rank 1 has not arrived after 2 s at the all_reduce of 'x' (toy.mdl:1), 64 bytes of f32 among ranks 0, 1; "
            "rank 0 waits; rank 1 was last at the all_gather of 'x' (toy.mdl:3)");
  session_close(&session);
  world_destroy(&world);
}

// A driver whose graphs cannot write words is asked to fill memory instead.
static void words_without_words(void **state) {
  if (!stands_in()) {
    print_message("skipped: only a stand-in can be told not to have them\n");
    skip();
  }
  setenv("FAKE_NO_WORDS", "1", 1);
  a_lost_rank_is_named(state);
  unsetenv("FAKE_NO_WORDS");
}

// --- endurance ---

typedef struct {
  Session *session;
  _Atomic bool enough;
} Disturber;

static void rest(double seconds) {
  nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
}

static void *disturb(void *argument) {
  Disturber *disturber = argument;
  unsigned seed = 1;
  while (!disturber->enough) {
    rest(1e-6 * (rand_r(&seed) % 20000));
    const pid_t pid = processes_pid(disturber->session->processes, rand_r(&seed) % disturber->session->ranks);
    kill(pid, SIGSTOP);
    rest(1e-6 * (rand_r(&seed) % 5000));
    kill(pid, SIGCONT);
  }
  return NULL;
}

static void stop_one(Session *session) {
  Error error = {0};
  kill(processes_pid(session->processes, 1), SIGSTOP);
  const double begun = now();
  assert_false(session_run(session, PROGRAM_TRAIN, 1, &error));
  print_message("  stopped for good, after %.2f s with a deadline of %d s: %s\n", now() - begun, ENDURANCE_DEADLINE,
                error.text);
  assert_int_equal(error.status, 5);
  assert_non_null(strstr(error.text, "rank 1 has not arrived"));
}

static int64_t replays_asked(void) {
  const char *asked = getenv("MDL_ENDURANCE");
  const int64_t count = asked ? atoll(asked) : 0;
  if (count <= 0) {
    print_message("skipped: MDL_ENDURANCE is not set\n");
    skip();
  }
  return count;
}

static void replay(Session *session, int64_t count) {
  Error error = {0};
  pthread_t thread;
  Disturber disturber = {.session = session};
  assert_int_equal(pthread_create(&thread, NULL, disturb, &disturber), 0);
  const double begun = now();
  for (int64_t i = 1; i <= count; i++) {
    if (!session_submit(session, PROGRAM_TRAIN, i, &error) || !session_wait(session, session_ahead(session), &error)) {
      layout_fail("replay %lld: %s", (long long)i, error.text);
    }
  }
  disturber.enough = true;
  pthread_join(thread, NULL);
  print_message("  %lld replays in %.1f s\n", (long long)count, now() - begun);
  if (!session_wait(session, 0, &error)) {
    layout_fail("after %lld replays: %s", (long long)count, error.text);
  }
  stop_one(session);
  const double closing = now();
  session_close(session);
  print_message("  closed in %.2f s\n", now() - closing);
}

static void collectives_are_replayed_for_long(void **state) {
  (void)state;
  const int64_t count = replays_asked(), ranks = 2;
  gpus(false);
  World world = world_make(&ranks, 1, -1);
  for (int i = 0; i < 6; i++) {
    world_collective(&world, 0, (CollectiveKind)(i % COLLECTIVE_KIND_COUNT), REDUCE_SUM, TYPE_F32, 1, 4096);
  }
  Session session;
  open_on(&session, &world, &backend_cuda, ENDURANCE_DEADLINE);
  replay(&session, count);
  world_destroy(&world);
}

static void training_is_replayed_for_long(void **state) {
  (void)state;
  const int64_t count = replays_asked();
  gpus(true);
  const CompileOptions options = {.layout = "dp2", .precision = "fp32"};
  LayoutRun *run = layout_compile(MDL_SOURCE_DIR "/tests/layouts/llama.mdl", &options, stdout);
  Error error = {0};
  if (!layout_open_on(run, &backend_cuda, ENDURANCE_DEADLINE, &error) ||
      !session_run(&run->session, PROGRAM_INITIALISE, 0, &error)) {
    layout_fail("%s", error.text);
  }
  layout_draw_inputs(run, PROGRAM_TRAIN, 1);
  replay(&run->session, count);
  arena_destroy(run->arena);
}

static void speeds_of(Session *session, int64_t bytes) {
  int64_t count = 0;
  const TraceSpan *spans = session->backend->traced(session_device(session, 0), &count);
  double best[COLLECTIVE_KIND_COUNT] = {0};
  for (int64_t i = 0; i < count; i++) {
    const double seconds = spans[i].end - spans[i].begin;
    double *of = &best[spans[i].instruction->as.collective.kind];
    *of = *of == 0 || seconds < *of ? seconds : *of;
  }
  for (int kind = 0; kind < COLLECTIVE_KIND_COUNT; kind++) {
    print_message("  %-15s %7.2f MB of this rank in %8.1f us: %6.1f GB/s\n", collective_kind_name((CollectiveKind)kind),
                  (double)bytes / 1e6, best[kind] * 1e6, (double)bytes / best[kind] / 1e9);
  }
}

static void collectives_are_timed(void **state) {
  (void)state;
  if (!getenv("MDL_ENDURANCE")) {
    print_message("skipped: MDL_ENDURANCE is not set\n");
    skip();
  }
  const int64_t ranks = gpus(true);
  for (int64_t elements = 1 << 14; elements <= 1 << 26; elements <<= 4) {
    World world = world_make(&ranks, 1, -1);
    for (int kind = 0; kind < COLLECTIVE_KIND_COUNT; kind++) {
      const bool whole = kind == COLLECTIVE_ALL_REDUCE;
      world_collective(&world, 0, (CollectiveKind)kind, REDUCE_SUM, TYPE_F32, 1, whole ? elements : elements / ranks);
    }
    Session session;
    open_on(&session, &world, &backend_cuda, DEADLINE);
    world_run(&session, NULL);
    session_trace(&session, true);
    for (int i = 0; i < REPEATS; i++) {
      world_run(&session, NULL);
    }
    speeds_of(&session, elements * 4);
    session_close(&session);
    world_destroy(&world);
  }
}

int main(int count, char **words) {
  Error ignored = {0};
  (void)count;
  if (!stands_in() && cuda_count_apart(&ignored) < 2) {
    run_on_stand_ins(words, "4");
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gpus_are_counted),
      cmocka_unit_test(collectives_mean_the_same),
      cmocka_unit_test(messages_mean_the_same),
      cmocka_unit_test(stages_and_groups_mean_the_same),
      cmocka_unit_test(words_without_words),
      cmocka_unit_test(llama_trains_the_same),
      cmocka_unit_test(rings_train_the_same),
      cmocka_unit_test(messages_go_both_ways),
      cmocka_unit_test(gpt2_trains_the_same),
      cmocka_unit_test(memory_is_copied_out),
      cmocka_unit_test(a_lost_rank_is_named),
      cmocka_unit_test(a_rank_lost_beside_is_named),
      cmocka_unit_test(collectives_are_replayed_for_long),
      cmocka_unit_test(training_is_replayed_for_long),
      cmocka_unit_test(collectives_are_timed),
  };
  cmocka_set_test_filter(getenv("MDL_ONLY"));
  return cmocka_run_group_tests(tests, NULL, NULL);
}
