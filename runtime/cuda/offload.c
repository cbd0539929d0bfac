// offload.c: copies to pinned memory and back, on a stream of their own.
#include "runtime/cuda/offload.h"

#include <string.h>

#include "runtime/cpu/memory.h"

struct Offloads {
  const Cuda *cuda;
  char *memory;  // pinned
  CudaStream stream;
  CudaEvent ready;   // where the device's stream is when a copy begins
  CudaEvent joined;  // all copies so far
  int count;
  CudaEvent *done;  // by number of the copy
  bool *pending;    // by number: it has begun, and nothing waits for it yet
};

static const double GIB = 1024.0 * 1024 * 1024;
static const int COPY_LANE = 1;  // of traces; 0 is the device's stream

static int count_copies(const Plan *plan) {
  int count = 0;
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Instruction *at = &plan->segments[s].instructions[i];
      const bool begins = at->kind == INSTRUCTION_OFFLOAD || at->kind == INSTRUCTION_FETCH;
      count = begins && at->as.offload.number >= count ? at->as.offload.number + 1 : count;
    }
  }
  return count;
}

static bool memory_open(Offloads *offloads, int64_t bytes, Error *error) {
  const int64_t physical = memory_physical();  // a system that is asked for more may end the process
  const bool fits = physical <= 0 || bytes <= physical;
  const CudaStatus status =
      fits ? offloads->cuda->host_allocate((void **)&offloads->memory, (size_t)bytes, CUDA_HOST_PORTABLE)
           : CUDA_ERROR_OUT_OF_MEMORY;
  if (status) {
    const char *words = NULL;
    const bool said = fits && offloads->cuda->error_text(status, &words) == 0 && words;
    offloads->memory = NULL;
    return error_set(error, 3,
                     "what the layout offloads takes %.2f GiB of the host's %.2f GiB of memory, pinned: %s; offload "
                     "less, or use smaller microbatches",
                     (double)bytes / GIB, (double)physical / GIB, said ? words : "there is not so much");
  }
  memset(offloads->memory, 0, (size_t)bytes);
  return true;
}

bool offload_open(const Cuda *cuda, const Plan *plan, Arena *arena, Offloads **out, Error *error) {
  const int count = count_copies(plan);
  *out = NULL;
  if (count == 0) {
    return true;
  }
  Offloads *offloads = ARENA_NEW(arena, Offloads);
  *offloads = (Offloads){.cuda = cuda, .count = count};
  offloads->done = ARENA_ARRAY(arena, CudaEvent, count);
  offloads->pending = ARENA_ARRAY(arena, bool, count);
  *out = offloads;
  if (!memory_open(offloads, plan->arena_bytes[ARENA_OFFLOAD], error)) {
    return false;
  }
  CudaStatus status = cuda->stream_create(&offloads->stream, CUDA_STREAM_NON_BLOCKING);
  status = status ? status : cuda->event_create(&offloads->ready, CUDA_EVENT_NO_TIMING);
  status = status ? status : cuda->event_create(&offloads->joined, CUDA_EVENT_NO_TIMING);
  for (int i = 0; i < count && !status; i++) {
    status = cuda->event_create(&offloads->done[i], CUDA_EVENT_NO_TIMING);
  }
  return cuda_check(cuda, status, "making the stream of copies to the host", error);
}

void offload_close(Offloads *offloads) {
  if (!offloads) {
    return;
  }
  const Cuda *cuda = offloads->cuda;
  for (int i = 0; i < offloads->count; i++) {
    if (offloads->done[i]) {
      cuda->event_destroy(offloads->done[i]);
    }
  }
  if (offloads->joined) {
    cuda->event_destroy(offloads->joined);
  }
  if (offloads->ready) {
    cuda->event_destroy(offloads->ready);
  }
  if (offloads->stream) {
    cuda->stream_destroy(offloads->stream);
  }
  if (offloads->memory) {
    cuda->host_free(offloads->memory);
  }
}

static CudaStatus follow(const Offloads *offloads, CudaStream stream) {
  const CudaStatus status = offloads->cuda->event_record(offloads->ready, stream);
  return status ? status : offloads->cuda->stream_wait(offloads->stream, offloads->ready, 0);
}

static bool begin(Offloads *offloads, const Instruction *instruction, CudaAddress device, int64_t host,
                  CudaStream stream, Timing *timing, Error *error) {
  const Cuda *cuda = offloads->cuda;
  const Offload *copy = &instruction->as.offload;
  char *memory = offloads->memory + host;
  const bool out = instruction->kind == INSTRUCTION_OFFLOAD;
  if (!cuda_check(cuda, follow(offloads, stream), "ordering a copy to the host", error) ||
      (timing && !timing_begin(timing, 1, stream, offloads->stream, error)) ||
      !cuda_check(cuda,
                  out ? cuda->copy_out(memory, device, (size_t)copy->bytes, offloads->stream)
                      : cuda->copy_in(device, memory, (size_t)copy->bytes, offloads->stream),
                  out ? "copying to the host" : "copying from the host", error) ||
      (timing && !timing_end(timing, instruction, "beside", COPY_LANE, offloads->stream, error)) ||
      !cuda_check(cuda, cuda->event_record(offloads->done[copy->number], offloads->stream),
                  "ordering a copy to the host", error)) {
    return false;
  }
  offloads->pending[copy->number] = true;
  return true;
}

// Nothing is to be waited for where the streams were joined since the copy began.
static bool end(Offloads *offloads, const Instruction *instruction, CudaStream stream, Timing *timing, Error *error) {
  const Cuda *cuda = offloads->cuda;
  const int number = instruction->as.offload.number;
  if (!offloads->pending[number]) {
    return true;
  }
  offloads->pending[number] = false;
  return (!timing || timing_begin(timing, 1, stream, stream, error)) &&
         cuda_check(cuda, cuda->stream_wait(stream, offloads->done[number], 0), "waiting for a copy", error) &&
         (!timing || timing_end(timing, instruction, "wait", 0, stream, error));
}

bool offload_launch(Offloads *offloads, const Instruction *instruction, CudaAddress device, int64_t host,
                    CudaStream stream, Timing *timing, Error *error) {
  return instruction->kind == INSTRUCTION_OFFLOAD || instruction->kind == INSTRUCTION_FETCH
             ? begin(offloads, instruction, device, host, stream, timing, error)
             : end(offloads, instruction, stream, timing, error);
}

bool offload_join(Offloads *offloads, CudaStream stream, Error *error) {
  bool any = false;
  for (int i = 0; offloads && i < offloads->count; i++) {
    any |= offloads->pending[i];
    offloads->pending[i] = false;
  }
  if (!any) {
    return true;
  }
  const Cuda *cuda = offloads->cuda;
  CudaStatus status = cuda->event_record(offloads->joined, offloads->stream);
  status = status ? status : cuda->stream_wait(stream, offloads->joined, 0);
  return cuda_check(cuda, status, "joining copies to the host", error);
}

char *offload_memory(const Offloads *offloads) {
  return offloads ? offloads->memory : NULL;
}
