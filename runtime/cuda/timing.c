// timing.c: events around instructions, and spans made of them.
#include "runtime/cuda/timing.h"

#include <stdlib.h>

enum { HELD_MAX = 600 };  // launches and events put on the stream before it is let go: its queue must not fill up

typedef struct {
  CudaEvent begin, end;
  const Instruction *instruction;
  const char *form;
  int lane;
} Timed;

struct Timing {
  const Cuda *cuda;
  Timed *timed;
  int64_t count, capacity, taken;  // taken: already spans
  CudaEvent start;                 // before the first instruction of all
  uint32_t *gate;                  // in pinned memory: the stream waits until it reaches a number
  CudaAddress gate_address;
  uint32_t holds;
  int held;  // launches and events behind the gate; 0: it is open
  TraceLog spans;
};

bool timing_create(const Cuda *cuda, Timing **out, Error *error) {
  Timing *timing = calloc(1, sizeof *timing);
  if (!timing) {
    return error_set(error, 3, "no memory");
  }
  timing->cuda = cuda;
  if (!cuda_check(cuda, cuda->event_create(&timing->start, CUDA_EVENT_DEFAULT), "making an event", error) ||
      !cuda_check(
          cuda,
          cuda->host_allocate((void **)&timing->gate, sizeof *timing->gate, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED),
          "allocating pinned memory", error) ||
      !cuda_check(cuda, cuda->host_address(&timing->gate_address, timing->gate, 0), "mapping pinned memory", error)) {
    timing_destroy(timing);
    return false;
  }
  *timing->gate = 0;
  *out = timing;
  return true;
}

void timing_destroy(Timing *timing) {
  if (!timing) {
    return;
  }
  const Cuda *cuda = timing->cuda;
  for (int64_t i = 0; i < timing->count; i++) {
    cuda->event_destroy(timing->timed[i].begin);
    cuda->event_destroy(timing->timed[i].end);
  }
  if (timing->start) {
    cuda->event_destroy(timing->start);
  }
  if (timing->gate) {
    cuda->host_free(timing->gate);
  }
  trace_free(&timing->spans);
  free(timing->timed);
  free(timing);
}

static bool timed_next(Timing *timing, Error *error) {
  const Cuda *cuda = timing->cuda;
  if (timing->count == timing->capacity) {
    const int64_t capacity = timing->capacity ? timing->capacity * 2 : 1024;
    Timed *longer = realloc(timing->timed, sizeof *longer * (size_t)capacity);
    if (!longer) {
      return error_set(error, 3, "no memory for a trace");
    }
    timing->timed = longer;
    timing->capacity = capacity;
  }
  Timed *timed = &timing->timed[timing->count];
  *timed = (Timed){0};
  if (!cuda_check(cuda, cuda->event_create(&timed->begin, CUDA_EVENT_DEFAULT), "making an event", error)) {
    return false;
  }
  if (!cuda_check(cuda, cuda->event_create(&timed->end, CUDA_EVENT_DEFAULT), "making an event", error)) {
    cuda->event_destroy(timed->begin);
    return false;
  }
  timing->count++;
  return true;
}

void timing_release(Timing *timing) {
  timing->held = 0;
  __atomic_store_n(timing->gate, timing->holds, __ATOMIC_RELEASE);
}

bool timing_begin(Timing *timing, int launches, CudaStream held, CudaStream stream, Error *error) {
  const Cuda *cuda = timing->cuda;
  const int more = launches + 2;  // and its events
  if (timing->count == 0 && !cuda_check(cuda, cuda->event_record(timing->start, held), "recording an event", error)) {
    return false;
  }
  if (timing->held + more > HELD_MAX) {
    timing_release(timing);
  }
  const bool holds = more <= HELD_MAX;  // one that alone would fill the queue runs as it is launched
  if (holds && timing->held == 0 &&
      !cuda_check(cuda, cuda->stream_wait_word(held, timing->gate_address, ++timing->holds, 0),
                  "holding the stream back", error)) {
    return false;
  }
  timing->held += holds ? more : 0;
  return timed_next(timing, error) &&
         cuda_check(cuda, cuda->event_record(timing->timed[timing->count - 1].begin, stream), "recording an event",
                    error);
}

bool timing_end(Timing *timing, const Instruction *instruction, const char *form, int lane, CudaStream stream,
                Error *error) {
  Timed *timed = &timing->timed[timing->count - 1];
  timed->instruction = instruction;
  timed->form = form;
  timed->lane = lane;
  return cuda_check(timing->cuda, timing->cuda->event_record(timed->end, stream), "recording an event", error);
}

const TraceSpan *timing_spans(Timing *timing, int64_t *count) {
  const Cuda *cuda = timing->cuda;
  for (; timing->taken < timing->count; timing->taken++) {
    const Timed *timed = &timing->timed[timing->taken];
    float since = 0, lasts = 0;
    if (cuda->event_synchronize(timed->end) != 0 || cuda->event_elapsed(&since, timing->start, timed->begin) != 0 ||
        cuda->event_elapsed(&lasts, timed->begin, timed->end) != 0) {
      break;
    }
    const double begin = (double)since / 1e3;
    trace_add(&timing->spans, (TraceSpan){.instruction = timed->instruction,
                                          .form = timed->form,
                                          .lane = timed->lane,
                                          .begin = begin,
                                          .end = begin + (double)lasts / 1e3});
  }
  *count = timing->spans.count;
  return timing->spans.at;
}
