// host.c: the ring of inputs and outputs.
#include "runtime/cuda/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GAP_BYTES = 4096 };  // between two ranges that travel as one

// Adds a range, together with one that it touches or almost touches. More than fit become one.
static void range_add(HostRange *ranges, int *count, int64_t offset, int64_t bytes) {
  for (int i = 0; i < *count; i++) {
    HostRange *range = &ranges[i];
    const int64_t end = offset + bytes, range_end = range->offset + range->bytes;
    if ((offset <= range_end + GAP_BYTES && range->offset <= end + GAP_BYTES) || *count == HOST_RANGES_MAX) {
      const int64_t begin = offset < range->offset ? offset : range->offset;
      range->bytes = (end > range_end ? end : range_end) - begin;
      range->offset = begin;
      return;
    }
  }
  ranges[(*count)++] = (HostRange){offset, bytes};
}

static void program_ranges(HostProgram *host, const PlanProgram *program) {
  for (int i = 0; i < program->input_count; i++) {
    const PlanInput *input = &program->inputs[i];
    const int64_t bytes = plan_input_bytes(input);
    const int slots = input->place.slot_stride ? program->slots : 1;
    for (int slot = 0; slot < slots; slot++) {
      range_add(host->input, &host->inputs, input->place.offset + slot * input->place.slot_stride, bytes);
    }
  }
  for (int i = 0; i < program->output_count; i++) {
    const PlanOutput *output = &program->outputs[i];
    if (output->place.arena == ARENA_HOST) {
      range_add(host->output, &host->outputs, output->place.offset, plan_output_bytes(output));
    }
  }
}

bool host_open(Host *host, const Cuda *cuda, const Plan *plan, CudaAddress arena, Error *error) {
  *host = (Host){.cuda = cuda, .arena = arena, .bytes = plan->arena_bytes[ARENA_HOST], .fresh = true};
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    program_ranges(&host->program[p], &plan->programs[p]);
  }
  const size_t bytes = host->bytes > 0 ? (size_t)host->bytes : 1;
  const int64_t inputs = plan_inputs_end(plan);
  bool good = cuda_check(cuda, cuda->stream_create(&host->stream, CUDA_STREAM_NON_BLOCKING), "making a stream", error);
  for (int i = 0; good && i < HOST_DEPTH; i++) {
    good = cuda_check(cuda, cuda->host_allocate((void **)&host->copy[i], bytes, CUDA_HOST_PORTABLE),
                      "allocating pinned memory for inputs and outputs", error) &&
           cuda_check(cuda, cuda->memory_allocate(&host->staged[i], inputs > 0 ? (size_t)inputs : 1),
                      "allocating memory for inputs", error) &&
           cuda_check(cuda, cuda->event_create(&host->arrived[i], CUDA_EVENT_NO_TIMING), "making an event", error) &&
           cuda_check(cuda, cuda->event_create(&host->taken[i], CUDA_EVENT_NO_TIMING), "making an event", error) &&
           cuda_check(cuda, cuda->event_create(&host->done[i], CUDA_EVENT_NO_TIMING), "making an event", error);
    if (good) {
      memset(host->copy[i], 0, bytes);
    }
  }
  for (int i = 0; good && i < HOST_MARKS; i++) {
    good = cuda_check(cuda, cuda->event_create(&host->begun[i], CUDA_EVENT_DEFAULT), "making an event", error) &&
           cuda_check(cuda, cuda->event_create(&host->ended[i], CUDA_EVENT_DEFAULT), "making an event", error);
  }
  return good;
}

void host_close(Host *host) {
  const Cuda *cuda = host->cuda;
  for (int i = 0; cuda && i < HOST_MARKS; i++) {
    if (host->begun[i]) {
      cuda->event_destroy(host->begun[i]);
    }
    if (host->ended[i]) {
      cuda->event_destroy(host->ended[i]);
    }
  }
  for (int i = 0; cuda && i < HOST_DEPTH; i++) {
    CudaEvent events[] = {host->arrived[i], host->taken[i], host->done[i]};
    for (size_t e = 0; e < sizeof events / sizeof *events; e++) {
      if (events[e]) {
        cuda->event_destroy(events[e]);
      }
    }
    if (host->staged[i]) {
      cuda->memory_free(host->staged[i]);
    }
    if (host->copy[i]) {
      cuda->host_free(host->copy[i]);
    }
  }
  if (host->stream) {
    cuda->stream_destroy(host->stream);
  }
  *host = (Host){0};
}

// Between run n - 1 and run n, which are done.
static void gap_take(Host *host, int64_t n) {
  float milliseconds = 0;
  if (n > 0 &&
      host->cuda->event_elapsed(&milliseconds, host->ended[(n - 1) % HOST_MARKS], host->begun[n % HOST_MARKS]) == 0) {
    host->gap[host->gaps++ % HOST_GAPS] = (double)milliseconds / 1000;
  }
}

static int gap_compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double host_gap(const Host *host) {
  double sorted[HOST_GAPS];
  const int64_t count = host->gaps < HOST_GAPS ? host->gaps : HOST_GAPS;
  memcpy(sorted, host->gap, sizeof sorted);
  qsort(sorted, (size_t)count, sizeof *sorted, gap_compare);
  return count > 0 ? sorted[count / 2] : NAN;
}

char *host_inputs(Host *host, Error *error) {
  const int64_t next = host->submitted % HOST_DEPTH;
  if (!host->fresh) {
    const HostProgram *ranges = &host->program[host->last];
    const char *before = host->copy[(host->submitted - 1) % HOST_DEPTH];
    if (!cuda_check(host->cuda, host->cuda->event_synchronize(host->done[next]), "running the plan", error)) {
      return NULL;
    }
    gap_take(host, host->submitted - HOST_DEPTH);
    for (int r = 0; r < ranges->inputs; r++) {
      const HostRange *range = &ranges->input[r];
      memcpy(host->copy[next] + range->offset, before + range->offset, (size_t)range->bytes);
    }
    host->fresh = true;
  }
  return host->copy[next];
}

const char *host_outputs(const Host *host, Error *error) {
  const int64_t at = host->shown > 0 ? (host->shown - 1) % HOST_DEPTH : 0;
  if (!cuda_check(host->cuda, host->cuda->event_synchronize(host->done[at]), "running the plan", error)) {
    return NULL;
  }
  return host->copy[at];
}

bool host_begin(Host *host, ProgramKind program, CudaStream stream, Error *error) {
  const Cuda *cuda = host->cuda;
  const HostProgram *ranges = &host->program[program];
  const int64_t i = host->submitted % HOST_DEPTH;
  if (!host_inputs(host, error) ||
      !cuda_check(cuda, cuda->stream_wait(host->stream, host->taken[i], 0), "ordering inputs", error)) {
    return false;
  }
  CudaStatus status = 0;
  for (int r = 0; status == 0 && r < ranges->inputs; r++) {
    const HostRange *range = &ranges->input[r];
    status = cuda->copy_in(host->staged[i] + (uint64_t)range->offset, host->copy[i] + range->offset,
                           (size_t)range->bytes, host->stream);
  }
  status = status ? status : cuda->event_record(host->arrived[i], host->stream);
  status = status ? status : cuda->stream_wait(stream, host->arrived[i], 0);
  for (int r = 0; status == 0 && r < ranges->inputs; r++) {
    const HostRange *range = &ranges->input[r];
    status = cuda->copy_within(host->arena + (uint64_t)range->offset, host->staged[i] + (uint64_t)range->offset,
                               (size_t)range->bytes, stream);
  }
  status = status ? status : cuda->event_record(host->taken[i], stream);
  status = status ? status : cuda->event_record(host->begun[host->submitted % HOST_MARKS], stream);
  return cuda_check(cuda, status, "sending the inputs of a run", error);
}

bool host_end(Host *host, ProgramKind program, CudaStream stream, Error *error) {
  const Cuda *cuda = host->cuda;
  const HostProgram *ranges = &host->program[program];
  const int64_t i = host->submitted % HOST_DEPTH;
  CudaStatus status = cuda->event_record(host->ended[host->submitted % HOST_MARKS], stream);
  for (int r = 0; status == 0 && r < ranges->outputs; r++) {
    const HostRange *range = &ranges->output[r];
    status = cuda->copy_out(host->copy[i] + range->offset, host->arena + (uint64_t)range->offset, (size_t)range->bytes,
                            stream);
  }
  status = status ? status : cuda->event_record(host->done[i], stream);
  host->last = program;
  host->submitted++;
  host->shown = host->submitted;
  host->fresh = false;
  return cuda_check(cuda, status, "fetching the outputs of a run", error);
}

bool host_wait(Host *host, int behind, Error *error) {
  const int64_t run = host->submitted - behind;
  if (run < 1) {
    return true;
  }
  host->shown = run;
  return cuda_check(host->cuda, host->cuda->event_synchronize(host->done[(run - 1) % HOST_DEPTH]), "running the plan",
                    error);
}
