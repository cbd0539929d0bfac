// queues.c: see queues.h.
#include "runtime/cuda/queues.h"

#include <string.h>

#include "runtime/peers.h"

// Of collectives, which all ranks wait for: the driver takes the highest priority that it has. What waits for another
// stage must not take room before arithmetic does.
enum { BEFORE_OTHERS = -100 };

typedef struct {  // the runs of an instruction that others wait for
  int count;      // of events: one, or one for each slot
  CudaEvent *event;
  int64_t *when;  // by event: the number of the run that it stands for; 0: none since queues_begin
  int *lane;      // by event: of that run
  int last;       // the newest
} Awaited;

struct Queues {
  const Cuda *cuda;
  const PlanWaits *waits;
  int slots, count;
  CudaEvent forked;
  CudaStream *stream;          // by queue, and so are the following
  CudaEvent *behind;           // where arithmetic was when this queue waited for it
  CudaEvent *joined;           // the end of it
  bool *used;                  // since queues_begin
  int64_t *seen;               // [queue * count + other]: up to which run of the other it has waited
  int64_t now, arithmetic;     // runs so far; the last of them on the queue of arithmetic
  Awaited **awaited;           // [segment][instruction]
  int segment_count, *counts;  // of instructions, by segment
};

static int most_slots(const Plan *plan) {
  int most = 1;
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    most = plan->programs[p].slots > most ? plan->programs[p].slots : most;
  }
  return most;
}

// Whether some instruction waits for others than the newest run of each.
static void find_counts(Queues *queues, const Plan *plan) {
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const PlanWaitList *list = &queues->waits->of[s][i];
      for (int w = 0; w < list->count; w++) {
        const PlanWait *wait = &list->at[w];
        if (wait->which == WAIT_ARITHMETIC) {
          continue;
        }
        const bool newest = wait->which == WAIT_THIS_CALL || wait->which == WAIT_LAST_CALL;
        Awaited *awaited = &queues->awaited[wait->segment][wait->instruction];
        const int count = newest ? 1 : queues->slots;
        awaited->count = count > awaited->count ? count : awaited->count;
      }
    }
  }
}

static CudaStatus make_events(Queues *queues, Arena *arena, const Plan *plan) {
  CudaStatus status = queues->cuda->event_create(&queues->forked, CUDA_EVENT_NO_TIMING);
  for (int q = 1; q < queues->count && !status; q++) {
    status = queues->waits->first[q]->kind == INSTRUCTION_COLLECTIVE
                 ? queues->cuda->stream_create_before(&queues->stream[q], CUDA_STREAM_NON_BLOCKING, BEFORE_OTHERS)
                 : queues->cuda->stream_create(&queues->stream[q], CUDA_STREAM_NON_BLOCKING);
    status = status ? status : queues->cuda->event_create(&queues->behind[q], CUDA_EVENT_NO_TIMING);
    status = status ? status : queues->cuda->event_create(&queues->joined[q], CUDA_EVENT_NO_TIMING);
  }
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      Awaited *awaited = &queues->awaited[s][i];
      awaited->event = ARENA_ARRAY(arena, CudaEvent, awaited->count + 1);
      awaited->when = ARENA_ARRAY(arena, int64_t, awaited->count + 1);
      awaited->lane = ARENA_ARRAY(arena, int, awaited->count + 1);
      for (int e = 0; e < awaited->count && !status; e++) {
        status = queues->cuda->event_create(&awaited->event[e], CUDA_EVENT_NO_TIMING);
      }
    }
  }
  return status;
}

bool queues_open(const Cuda *cuda, const Plan *plan, Arena *arena, CudaStream main, Queues **out, Error *error) {
  const PlanWaits *waits = plan_waits(arena, plan);
  *out = NULL;
  if (waits->queue_count == 1) {
    return true;
  }
  if (waits->queue_count > PEERS_MAX_WAYS) {
    return error_set(error, 1,
                     "the plan has %d queues, of which there may be %d: fewer values may go from stage to stage",
                     waits->queue_count, PEERS_MAX_WAYS);
  }
  Queues *queues = ARENA_NEW(arena, Queues);
  *queues = (Queues){.cuda = cuda, .waits = waits, .slots = most_slots(plan), .count = waits->queue_count};
  queues->stream = ARENA_ARRAY(arena, CudaStream, queues->count);
  queues->behind = ARENA_ARRAY(arena, CudaEvent, queues->count);
  queues->joined = ARENA_ARRAY(arena, CudaEvent, queues->count);
  queues->used = ARENA_ARRAY(arena, bool, queues->count);
  queues->seen = ARENA_ARRAY(arena, int64_t, (size_t)queues->count * (size_t)queues->count);
  queues->stream[0] = main;
  queues->segment_count = plan->segment_count;
  queues->counts = ARENA_ARRAY(arena, int, plan->segment_count + 1);
  queues->awaited = ARENA_ARRAY(arena, Awaited *, plan->segment_count + 1);
  for (int s = 0; s < plan->segment_count; s++) {
    queues->counts[s] = plan->segments[s].count;
    queues->awaited[s] = ARENA_ARRAY(arena, Awaited, plan->segments[s].count + 1);
  }
  find_counts(queues, plan);
  *out = queues;
  return cuda_check(cuda, make_events(queues, arena, plan), "making the streams of queues", error);
}

void queues_close(Queues *queues) {
  if (!queues) {
    return;
  }
  for (int s = 0; s < queues->segment_count; s++) {
    for (int i = 0; i < queues->counts[s]; i++) {
      const Awaited *awaited = &queues->awaited[s][i];
      for (int e = 0; e < awaited->count && awaited->event[e]; e++) {
        queues->cuda->event_destroy(awaited->event[e]);
      }
    }
  }
  for (int q = 1; q < queues->count; q++) {
    if (queues->behind[q]) {
      queues->cuda->event_destroy(queues->behind[q]);
    }
    if (queues->joined[q]) {
      queues->cuda->event_destroy(queues->joined[q]);
    }
    if (queues->stream[q]) {
      queues->cuda->stream_destroy(queues->stream[q]);
    }
  }
  if (queues->forked) {
    queues->cuda->event_destroy(queues->forked);
  }
}

int queues_count(const Queues *queues) {
  return queues ? queues->count : 1;
}

bool queues_begin(Queues *queues, Error *error) {
  if (!queues) {
    return true;
  }
  memset(queues->used, 0, sizeof *queues->used * (size_t)queues->count);
  memset(queues->seen, 0, sizeof *queues->seen * (size_t)queues->count * (size_t)queues->count);
  queues->now = queues->arithmetic = 0;
  for (int s = 0; s < queues->segment_count; s++) {
    for (int i = 0; i < queues->counts[s]; i++) {
      const Awaited *awaited = &queues->awaited[s][i];
      memset(awaited->when, 0, sizeof *awaited->when * (size_t)awaited->count);
    }
  }
  return cuda_check(queues->cuda, queues->cuda->event_record(queues->forked, queues->stream[0]),
                    "beginning the queues of a plan", error);
}

bool queues_join(Queues *queues, Error *error) {
  CudaStatus status = 0;
  for (int q = 1; queues && q < queues->count && !status; q++) {
    if (queues->used[q]) {
      status = queues->cuda->event_record(queues->joined[q], queues->stream[q]);
      status = status ? status : queues->cuda->stream_wait(queues->stream[0], queues->joined[q], 0);
    }
  }
  return !status || cuda_check(queues->cuda, status, "waiting for the queues of a plan", error);
}

// The event of the run that is waited for, or -1: there was none since queues_begin.
static int event_of(const Awaited *awaited, const PlanWait *wait, const PlanCall *call) {
  int found = -1;
  if (wait->which == WAIT_SAME_SLOT) {
    found = call->slot;
  } else if (wait->which != WAIT_SAME_LANE) {
    found = awaited->last;
  }
  for (int e = 0; wait->which == WAIT_SAME_LANE && e < awaited->count; e++) {
    const bool same = awaited->when[e] > 0 && awaited->lane[e] == call->lane;
    found = same && (found < 0 || awaited->when[e] > awaited->when[found]) ? e : found;
  }
  return found >= 0 && awaited->when[found] > 0 ? found : -1;
}

// Until the run that a wait of queue `own` is for; nothing, if it has waited for a later one of that queue.
static CudaStatus wait_for(Queues *queues, int own, const PlanWait *wait, const PlanCall *call) {
  const CudaStream stream = queues->stream[own];
  if (wait->which == WAIT_ARITHMETIC) {
    int64_t *seen = &queues->seen[own * queues->count];
    if (queues->arithmetic <= *seen) {
      return 0;
    }
    *seen = queues->arithmetic;
    const CudaStatus status = queues->cuda->event_record(queues->behind[own], queues->stream[0]);
    return status ? status : queues->cuda->stream_wait(stream, queues->behind[own], 0);
  }
  const Awaited *awaited = &queues->awaited[wait->segment][wait->instruction];
  const int event = event_of(awaited, wait, call);
  int64_t *seen = &queues->seen[own * queues->count + queues->waits->queue[wait->segment][wait->instruction]];
  if (event < 0 || awaited->when[event] <= *seen) {
    return 0;
  }
  *seen = awaited->when[event];
  return queues->cuda->stream_wait(stream, awaited->event[event], 0);
}

bool queues_enter(Queues *queues, const PlanCall *call, int instruction, int *queue, CudaStream *stream, Error *error) {
  const int own = queues->waits->queue[call->segment][instruction];
  const PlanWaitList *list = &queues->waits->of[call->segment][instruction];
  CudaStatus status = 0;
  *queue = own;
  *stream = queues->stream[own];
  if (own > 0 && !queues->used[own]) {
    queues->used[own] = true;
    status = queues->cuda->stream_wait(*stream, queues->forked, 0);
  }
  for (int w = 0; w < list->count && !status; w++) {
    status = wait_for(queues, own, &list->at[w], call);
  }
  return !status || cuda_check(queues->cuda, status, "ordering the queues of a plan", error);
}

bool queues_leave(Queues *queues, const PlanCall *call, int instruction, Error *error) {
  const int own = queues->waits->queue[call->segment][instruction];
  Awaited *awaited = &queues->awaited[call->segment][instruction];
  queues->now++;
  queues->arithmetic = own == 0 ? queues->now : queues->arithmetic;
  if (awaited->count == 0) {
    return true;
  }
  awaited->last = awaited->count > 1 ? call->slot : 0;
  awaited->when[awaited->last] = queues->now;
  awaited->lane[awaited->last] = call->lane;
  return cuda_check(queues->cuda, queues->cuda->event_record(awaited->event[awaited->last], queues->stream[own]),
                    "ordering the queues of a plan", error);
}
