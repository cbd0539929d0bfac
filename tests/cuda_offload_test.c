// cuda_offload_test.c: copies to pinned memory and back beside other work, on a stand-in of the driver (tests/fake),
// for which pieces of memory are all the work there is; against the CPU.
//
// Values are made, offloaded, overwritten, fetched and read, with more than one copy under way each way. A copy that is
// not waited for shows in what comes out.
#include "runtime/cuda/count.h"
#include "runtime/trace.h"
#include "tests/fake/stand_ins.h"
#include "tests/ranks_support.h"

enum { VALUES = 12, AHEAD = 3, COUNT = 20000, FILLER = 1600, RUNS = 3, LANES = 2 };

static void piece(World *world, Place from, Place to) {
  world_add(world, 0, INSTRUCTION_PIECE, "p")->as.piece =
      (Piece){.type = TYPE_INT, .count = COUNT, .piece = COUNT, .from = from, .to = to};
}

static void copy(World *world, InstructionKind kind, Place device, Place host) {
  world_add(world, 0, kind, "x")->as.offload = (Offload){.bytes = COUNT * 4, .device = device, .host = host};
}

typedef struct {
  World world;
  Place source[VALUES], value[VALUES], back[VALUES], host[VALUES], out[VALUES], junk;
} Trial;

static Trial trial_make(void) {
  const int64_t ranks = 1;
  Trial trial = {.world = world_make(&ranks, 1, -1)};
  Plan *plan = trial.world.plan[0];
  trial.junk = world_place(&trial.world, 0, COUNT * 4);
  for (int i = 0; i < VALUES; i++) {
    trial.source[i] = world_place(&trial.world, 0, COUNT * 4);
    trial.value[i] = world_place(&trial.world, 0, COUNT * 4);
    trial.back[i] = world_place(&trial.world, 0, COUNT * 4);
    trial.out[i] = world_place(&trial.world, 0, COUNT * 4);
    trial.host[i] = (Place){.arena = ARENA_OFFLOAD, .offset = (int64_t)i * LANES * COUNT * 4};
    trial.host[i].lane_stride = COUNT * 4;
  }
  plan->arena_bytes[ARENA_OFFLOAD] = (int64_t)VALUES * LANES * COUNT * 4;
  plan->programs[PROGRAM_TRAIN].call_count = LANES;
  plan->programs[PROGRAM_TRAIN].slots = LANES;
  for (int i = 0; i < LANES; i++) {
    plan->programs[PROGRAM_TRAIN].calls[i] = (PlanCall){.slot = i, .lane = i, .first = i == 0};
  }
  return trial;
}

// `filler`: pieces between, so many that graphs are cut within copies.
static void trial_fill(Trial *trial, int filler) {
  World *world = &trial->world;
  for (int i = 0; i < VALUES + AHEAD; i++) {
    if (i >= AHEAD) {
      piece(world, trial->junk, trial->value[i - AHEAD]);
    }
    if (i < VALUES) {
      piece(world, trial->source[i], trial->value[i]);
      copy(world, INSTRUCTION_OFFLOAD, trial->value[i], trial->host[i]);
    }
    for (int f = 0; f < filler / (VALUES + AHEAD); f++) {
      piece(world, trial->junk, trial->out[VALUES - 1]);
    }
  }
  for (int i = VALUES - 1 + AHEAD; i >= 0; i--) {
    if (i < VALUES) {
      piece(world, trial->back[i], trial->out[i]);
    }
    if (i >= AHEAD) {
      piece(world, trial->junk, trial->back[i - AHEAD]);
      copy(world, INSTRUCTION_FETCH, trial->back[i - AHEAD], trial->host[i - AHEAD]);
    }
  }
}

static void assert_out(const Trial *trial, Session *session, int run) {
  int32_t *found = malloc(COUNT * 4);
  for (int i = 0; i < VALUES; i++) {
    world_read(&trial->world, session, 0, trial->out[i], found, COUNT * 4);
    for (int e = 0; e < COUNT; e++) {
      if (found[e] != run * 1000 + i * 7 + e) {
        fail_msg("%s, run %d: element %d of value %d is %d", session->backend->name, run, e, i, found[e]);
      }
    }
  }
  free(found);
}

static void trial_run(const Trial *trial, const Backend *backend, bool traced) {
  Session session;
  Error error = {0};
  int32_t *data = malloc(COUNT * 4);
  if (!session_open_ranks(&session, &trial->world.set, backend, &(SessionOptions){.threads = 1}, &error)) {
    fail_msg("%s: %s", backend->name, error.text);
  }
  session_trace(&session, traced);
  for (int run = 0; run < RUNS; run++) {
    for (int i = 0; i < VALUES; i++) {
      for (int e = 0; e < COUNT; e++) {
        data[e] = run * 1000 + i * 7 + e;
      }
      world_write(&trial->world, &session, 0, trial->source[i], data, COUNT * 4);
    }
    world_run(&session, NULL);
    assert_out(trial, &session, run);
  }
  world_read(&trial->world, &session, 0, trial->host[0], data, 4);
  assert_int_equal(data[0], (RUNS - 1) * 1000);
  int64_t spans = 0, beside = 0;
  const TraceSpan *span = backend->traced(session.device, &spans);
  for (int64_t i = 0; i < spans; i++) {
    const InstructionKind kind = span[i].instruction->kind;
    const int lane = kind == INSTRUCTION_OFFLOAD ? 1 : kind == INSTRUCTION_FETCH ? 2 : 0;
    assert_int_equal(span[i].lane, backend == &backend_cuda ? lane : 0);
    beside += span[i].lane > 0;
  }
  assert_int_equal(beside, traced && backend == &backend_cuda ? RUNS * LANES * 2 * VALUES : 0);
  Buffer text = {0};
  trace_json(&session, &text);
  assert_int_equal(strstr(text.text, "copies to the host") && strstr(text.text, "copies from the host"), beside > 0);
  buffer_free(&text);
  free(data);
  session_close(&session);
}

static void copies_run_beside(void **state) {
  (void)state;
  Trial trial = trial_make();
  trial_fill(&trial, 0);
  trial_run(&trial, &backend_cpu, false);
  trial_run(&trial, &backend_cuda, false);
  world_destroy(&trial.world);
}

static void graphs_are_cut_within_copies(void **state) {
  (void)state;
  Trial trial = trial_make();
  trial_fill(&trial, FILLER);
  trial_run(&trial, &backend_cuda, false);
  world_destroy(&trial.world);
}

static void copies_are_traced_in_lanes_of_their_own(void **state) {
  (void)state;
  Trial trial = trial_make();
  trial_fill(&trial, 0);
  trial_run(&trial, &backend_cuda, true);
  world_destroy(&trial.world);
}

int main(int count, char **words) {
  Error ignored = {0};
  (void)count;
  if (!stands_in() && cuda_count_apart(&ignored) < 1) {
    run_on_stand_ins(words, "1");
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copies_run_beside),
      cmocka_unit_test(graphs_are_cut_within_copies),
      cmocka_unit_test(copies_are_traced_in_lanes_of_their_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
