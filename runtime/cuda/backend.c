// backend.c: the CUDA backend: opening a device, its memory, and the table of functions that it is.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "compiler/fit.h"
#include "compiler/lower/largest.h"
#include "runtime/cuda/internal.h"

static const double GIB = 1024.0 * 1024 * 1024;

// What would make a plan fit whose arenas may take no more than `most` bytes.
static void advise(const Device *device, int64_t most, Buffer *out) {
  const Plan *plan = device->plan;
  char size[UNITS_MAX];
  int64_t then = 0;
  if (most <= plan->arena_bytes[ARENA_PERSISTENT]) {
    buffer_text(out, "the state alone is too much: it takes a smaller model, or a layout over several ranks");
    return;
  }
  buffer_text(out, "the largest values of a step: ");
  largest_print(plan, largest_program(plan), ", ", out);
  const FitRoom room = {.rank = device->rank, .staged = HOST_DEPTH, .most = most};
  const char *settings = fit_find(device->arena, plan, &room, &then);
  if (settings) {
    buffer_format(out, "; in the layout, %s would bring it to %s, which fits", settings,
                  units_bytes(size, (double)then));
  } else {
    buffer_text(out,
                "; no number of microbatches, `recompute layers;` and `offload layers;` make it fit: it takes a "
                "smaller batch or seq, "
                "or a layout over several ranks");
  }
}

// What does not fit, and what would help: before anything is allocated.
static bool memory_check(Device *device, Error *error) {
  const Plan *plan = device->plan;
  size_t available = 0, total = 0;
  // Inputs are there once more for each run that may be under way.
  const int64_t host = plan->arena_bytes[ARENA_HOST] + HOST_DEPTH * plan_inputs_end(plan);
  const int64_t transient = plan->arena_bytes[ARENA_TRANSIENT];
  const int64_t need = plan->arena_bytes[ARENA_PERSISTENT] + transient + host + device->scratch_bytes;
  if (!cuda_check(&device->cuda, device->cuda.memory_info(&available, &total), "asking for free memory", error)) {
    return false;
  }
  if (need <= (int64_t)available) {
    return true;
  }
  Buffer help = {0};
  advise(device, (int64_t)available - device->scratch_bytes, &help);
  error_set(error, 3,
            "the plan does not fit on %s: it needs %.2f GiB (state %.2f, values of a step %.2f, "
            "inputs and outputs %.2f, work space %.2f) and %.2f GiB of %.2f are free: %.2f too few; %s",
            device->gpu.name, (double)need / GIB, (double)plan->arena_bytes[ARENA_PERSISTENT] / GIB,
            (double)transient / GIB, (double)host / GIB, (double)device->scratch_bytes / GIB, (double)available / GIB,
            (double)total / GIB, (double)(need - (int64_t)available) / GIB, help.text && !help.failed ? help.text : "");
  buffer_free(&help);
  return false;
}

static bool memory_clear(Device *device, Error *error) {
  const Cuda *cuda = &device->cuda;
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    const size_t bytes = (size_t)device->plan->arena_bytes[i];
    if (bytes > 0 && device->memory[i] &&
        !cuda_check(cuda, cuda->fill_bytes(device->memory[i], 0, bytes, device->stream), "clearing memory", error)) {
      return false;
    }
  }
  return cuda_check(cuda, cuda->stream_synchronize(device->stream), "clearing memory", error);
}

// Operands of collectives lie in it.
static bool is_shared(int arena) {
  return arena == ARENA_PERSISTENT || arena == ARENA_TRANSIENT;
}

static bool memory_open(Device *device, Error *error) {
  const Cuda *cuda = &device->cuda;
  if (!memory_check(device, error)) {
    return false;
  }
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    if (i == ARENA_OFFLOAD) {
      continue;
    }
    const int64_t bytes = device->plan->arena_bytes[i] > 0 ? device->plan->arena_bytes[i] : 1;
    if (device->comms && is_shared(i)) {
      if (!comms_allocate(device->comms, bytes, &device->memory[i], error)) {
        return false;
      }
    } else if (!cuda_check(cuda, cuda->memory_allocate(&device->memory[i], (size_t)bytes),
                           "allocating the GPU's memory", error)) {
      return false;
    }
  }
  const int64_t scratch = device->scratch_bytes > 0 ? device->scratch_bytes : 1;
  return cuda_check(cuda, cuda->memory_allocate(&device->scratch, (size_t)scratch), "allocating work space", error) &&
         memory_clear(device, error);
}

static bool meet(Device *device, Error *error) {
  return !device->peers || peers_meet(device->peers, error);
}

static bool programs_launch(Device *device, Error *error) {
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    if (device->plan->programs[p].call_count == 0) {
      continue;
    }
    if (!device_launch_program(device, (ProgramKind)p, error) ||
        !cuda_check(&device->cuda, device->cuda.stream_synchronize(device->stream), "running the plan once", error)) {
      return false;
    }
  }
  return meet(device, error);
}

// Bytes of the GPU that are taken.
static bool memory_taken(const Device *device, int64_t *taken, Error *error) {
  size_t available = 0, total = 0;
  const bool known =
      cuda_check(&device->cuda, device->cuda.memory_info(&available, &total), "asking for free memory", error);
  *taken = (int64_t)(total - available);
  return known;
}

// With other ranks first without them and then only what they do all together, so that when one waits in its GPU for
// another nobody loads or allocates anything, which may wait for the GPU in turn.
static bool programs_try(Device *device, Error *error) {
  static const CommsPart parts[] = {COMMS_NONE, COMMS_COLLECTIVES, COMMS_ALL};
  int64_t before = 0, after = 0;
  for (size_t i = 0; device->comms && i < sizeof parts / sizeof *parts; i++) {
    comms_set_part(device->comms, parts[i]);
    if (!programs_launch(device, error) || !memory_taken(device, i == 0 ? &before : &after, error)) {
      return false;
    }
  }
  device->joined_bytes += after - before;
  return device->comms || programs_launch(device, error);
}

// One rank after the other, so that all have the choices of the first that has a problem. What one rank alone took over
// from another process is run once, to be loaded; several would have to do that together, and capturing loads it too.
static bool programs_tune(Device *device, Error *error) {
  bool adopted;
  if (!device->peers) {
    return device_tune(device, &adopted, error) && (!adopted || programs_launch(device, error));
  }
  for (int64_t r = 0; r < peers_count(device->peers); r++) {
    if (r == device->rank) {
      gemms_reread(device->gemms);
    }
    if ((r == device->rank && !device_tune(device, &adopted, error)) || !peers_meet(device->peers, error)) {
      return false;
    }
  }
  return true;
}

// Once without a graph, so that libraries load their kernels and memory holds numbers of the usual size; then into
// graphs. What is done once only, before the first step, stays without.
static bool programs_open(Device *device, Error *error) {
  if (!programs_try(device, error) || !programs_tune(device, error)) {
    return false;
  }
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    if (p != PROGRAM_INITIALISE && p != PROGRAM_REFRESH && !program_is_cold((ProgramKind)p) &&
        device->plan->programs[p].call_count > 0 && !device_capture(device, (ProgramKind)p, error)) {
      return false;
    }
  }
  return memory_clear(device, error) && meet(device, error);
}

// Of ranks with the same plan one compiles first, for all: the others find its kernels in the cache.
static bool prepare_in_turn(Device *device, Error *error) {
  if (!device->peers) {
    return device_prepare(device, error);
  }
  bool first = true;
  for (int64_t r = 0; r < device->rank; r++) {
    first &= !plan_is_of(device->plan, r);
  }
  return (!first || device_prepare(device, error)) && peers_meet(device->peers, error) &&
         (first || device_prepare(device, error)) && peers_meet(device->peers, error);
}

// Streams beyond the number of connections share them, and then one that waits for another rank holds up the others.
static bool connections_set(const Device *device, Error *error) {
  return !device->peers || setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0) == 0 || error_set(error, 3, "no memory");
}

// Meets the other ranks, and notes what that takes.
static bool comms_open(Device *device, Error *error) {
  int64_t before, after;
  if (!device->comms) {
    return true;
  }
  if (!memory_taken(device, &before, error) || !comms_join(device->comms, device->stream, error) ||
      !memory_taken(device, &after, error)) {
    return false;
  }
  device->joined_bytes = after - before;
  return true;
}

// Memory that several ranks map takes more than there is of it.
static bool memory_join(Device *device, Error *error) {
  int64_t before = 0, after = 0, own = device->scratch_bytes;
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    own += i == ARENA_OFFLOAD ? 0 : device->plan->arena_bytes[i];
  }
  if (!memory_taken(device, &before, error) || !memory_open(device, error) || !memory_taken(device, &after, error)) {
    return false;
  }
  device->joined_bytes += device->comms ? after - before - own : 0;
  return true;
}

static bool device_start(Device *device, const DeviceOptions *options, Error *error) {
  const Plan *plan = device->plan;
  if (!connections_set(device, error) || !cuda_open(&device->cuda, error) ||
      !cuda_device_open(&device->cuda, options->gpu, &device->gpu, error)) {
    return false;
  }
  const Cuda *cuda = &device->cuda;
  device->term = ARENA_ARRAY(device->arena, int64_t, plan->term_count + 1);
  for (int i = 0; i < plan->term_count; i++) {
    device->term[i] = plan_term(plan, i, device->coordinate);
  }
  if (!memory_taken(device, &device->context_bytes, error) ||
      !cuda_check(cuda, cuda->stream_create(&device->stream, CUDA_STREAM_NON_BLOCKING), "making a stream", error) ||
      !memory_check(device, error) ||  // of the plan alone: preparing may take a while
      (device->peers && !comms_create(cuda, plan, device->peers, device->arena, &device->comms, error)) ||
      !prepare_in_turn(device, error) || !comms_open(device, error) || !memory_join(device, error) ||
      !host_open(&device->host, cuda, plan, device->memory[ARENA_HOST], error) ||
      !copies_open(cuda, &device->copies, error) || !offload_open(cuda, plan, &device->offloaded, error) ||
      !queues_open(cuda, plan, device->arena, device->stream, &device->queues, error) ||
      !programs_open(device, error) || !memory_taken(device, &device->taken_bytes, error)) {
    return false;
  }
  return true;
}

static void cuda_device_end(Device *device) {
  const Cuda *cuda = &device->cuda;
  if (device->gpu.context) {
    cuda->context_set(device->gpu.context);
    cuda->context_synchronize();
    host_close(&device->host);
    copies_close(&device->copies);
    for (int p = 0; p < PROGRAM_COUNT; p++) {
      for (int i = 0; i < device->graphs[p].parts.count; i++) {
        cuda->graph_exec_destroy(device->graphs[p].parts.at[i]);
      }
    }
    timing_destroy(device->timing);
    if (device->offloaded) {
      cuda->host_free(device->offloaded);
    }
    queues_close(device->queues);
    device_prepare_undo(device);
    if (device->comms) {
      comms_free(device->comms);
      for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
        device->memory[i] = is_shared(i) ? 0 : device->memory[i];
      }
    }
    comms_destroy(device->comms);
    for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
      if (device->memory[i]) {
        cuda->memory_free(device->memory[i]);
      }
    }
    if (device->scratch) {
      cuda->memory_free(device->scratch);
    }
    if (device->stream) {
      cuda->stream_destroy(device->stream);
    }
    cuda_device_close(cuda, &device->gpu);
  }
  cuda_close(&device->cuda);
  arena_destroy(device->arena);
}

static void backend_close(Device *device) {
  if (device) {
    cuda_device_end(device);
  }
}

static bool backend_open(const Plan *plan, const DeviceOptions *options, Device **out, Error *error) {
  Arena *arena = arena_create();
  *out = NULL;
  if (!arena) {
    return error_set(error, 3, "no memory");
  }
  Device *device = ARENA_NEW(arena, Device);
  *device =
      (Device){.plan = plan, .peers = options->peers, .rank = options->rank, .record = options->record, .arena = arena};
  plan_coordinates(plan, options->rank, device->coordinate);
  if (!device_start(device, options, error)) {
    if (!device->peers) {  // with others, the end of its process is the only one that waits for nobody
      cuda_device_end(device);
    }
    return false;
  }
  *out = device;
  return true;
}

// Chooses this thread's GPU: devices are used by one thread at a time, but not always the same one.
static bool device_here(Device *device, Error *error) {
  return cuda_check(&device->cuda, device->cuda.context_set(device->gpu.context), "choosing the GPU", error);
}

static bool range_check(const Device *device, ArenaClass arena, int64_t offset, int64_t bytes, Error *error) {
  const int64_t size = device->plan->arena_bytes[arena];
  return (offset >= 0 && bytes >= 0 && offset <= size && bytes <= size - offset) ||
         error_set(error, 1, "bytes %" PRId64 " to %" PRId64 " are outside an arena of %" PRId64 " bytes", offset,
                   offset + bytes, size);
}

// Waits until no copy is under way to or from the memory of offloaded values, if there is any.
static bool offload_here(Device *device, Error *error) {
  return (device->offloaded || error_set(error, 1, "the plan offloads nothing")) &&
         cuda_check(&device->cuda, device->cuda.stream_synchronize(device->stream), "running the plan", error);
}

static bool backend_write(Device *device, ArenaClass arena, int64_t offset, const void *data, int64_t bytes,
                          Error *error) {
  const Cuda *cuda = &device->cuda;
  if (!range_check(device, arena, offset, bytes, error) || !device_here(device, error) || bytes == 0) {
    return bytes == 0;
  }
  if (arena == ARENA_HOST) {
    char *inputs = host_inputs(&device->host, error);
    if (inputs) {
      memcpy(inputs + offset, data, (size_t)bytes);
    }
    return inputs != NULL;
  }
  if (arena == ARENA_OFFLOAD) {
    return offload_here(device, error) && memcpy(device->offloaded + offset, data, (size_t)bytes);
  }
  return (arena != ARENA_PERSISTENT || copies_wait(&device->copies, error)) &&
         cuda_check(cuda, cuda->copy_in(device->memory[arena] + (uint64_t)offset, data, (size_t)bytes, device->stream),
                    "writing to the GPU", error) &&
         cuda_check(cuda, cuda->stream_synchronize(device->stream), "writing to the GPU", error);
}

static bool backend_read(Device *device, ArenaClass arena, int64_t offset, void *data, int64_t bytes, Error *error) {
  const Cuda *cuda = &device->cuda;
  if (!range_check(device, arena, offset, bytes, error) || !device_here(device, error) || bytes == 0) {
    return bytes == 0;
  }
  if (arena == ARENA_HOST) {
    const char *outputs = host_outputs(&device->host, error);
    if (outputs) {
      memcpy(data, outputs + offset, (size_t)bytes);
    }
    return outputs != NULL;
  }
  if (arena == ARENA_OFFLOAD) {
    return offload_here(device, error) && memcpy(data, device->offloaded + offset, (size_t)bytes);
  }
  return cuda_check(cuda, cuda->copy_out(data, device->memory[arena] + (uint64_t)offset, (size_t)bytes, device->stream),
                    "reading from the GPU", error) &&
         cuda_check(cuda, cuda->stream_synchronize(device->stream), "reading from the GPU", error);
}

static bool backend_copy(Device *device, const CopyPiece *pieces, int count, char *memory, Error *error) {
  for (int i = 0; i < count; i++) {
    if (!range_check(device, ARENA_PERSISTENT, pieces[i].offset, pieces[i].bytes, error)) {
      return false;
    }
  }
  return device_here(device, error) &&
         copies_begin(&device->copies, device->stream, device->memory[ARENA_PERSISTENT], pieces, count, memory, error);
}

static bool backend_copied(Device *device, Error *error) {
  return device_here(device, error) && copies_wait(&device->copies, error);
}

static bool backend_run(Device *device, ProgramKind program, Error *error) {
  const Cuda *cuda = &device->cuda;
  const ProgramGraphs *graphs = &device->graphs[program];
  if (device->plan->programs[program].call_count == 0) {
    return error_set(error, 1, "the plan has no program '%s'", program_kind_name(program));
  }
  if (!device_here(device, error) || !host_begin(&device->host, program, device->stream, error)) {
    return false;
  }
  if (graphs->parts.count == 0 || device->tracing) {
    const bool good = device_launch_program(device, program, error);
    if (device->tracing) {
      timing_release(device->timing);
    }
    return good && host_end(&device->host, program, device->stream, error);
  }
  for (int i = 0; i < graphs->parts.count; i++) {
    if (!cuda_check(cuda, cuda->graph_launch(graphs->parts.at[i], device->stream), "launching a graph", error)) {
      return false;
    }
  }
  return host_end(&device->host, program, device->stream, error);
}

static bool backend_wait(Device *device, int behind, Error *error) {
  return device_here(device, error) && host_wait(&device->host, behind, error);
}

// Dense peaks of the matrix units at the highest clock, from NVIDIA's data sheets; NAN: not known.
static double peak_flops(const CudaDevice *gpu, const Plan *plan) {
  const bool h100 = gpu->major == 9 && gpu->minor == 0, a100 = gpu->major == 8 && gpu->minor == 0;
  const double half = h100 ? 989.5e12 : a100 ? 312e12 : NAN;
  ElementType type = TYPE_F64;
  bool tf32 = false;
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Instruction *instruction = &plan->segments[s].instructions[i];
      const bool gemm = instruction->kind == INSTRUCTION_GEMM;
      if (!instruction_multiplies(instruction)) {
        continue;
      }
      const ElementType own = gemm ? instruction->as.gemm.type : instruction->as.grouped.type;
      type = element_type_bytes(own) < element_type_bytes(type) ? own : type;
      tf32 |= gemm ? instruction->as.gemm.tf32 : instruction->as.grouped.tf32;
    }
  }
  return element_type_bytes(type) == 1           ? 2 * half
         : type == TYPE_BF16 || type == TYPE_F16 ? half
         : type == TYPE_F32 && tf32              ? half / 2
                                                 : (h100   ? 66.9e12
                                                    : a100 ? 19.5e12
                                                           : NAN);
}

// "forward cuDNN 9.14.0, engine 2; backward kernels of our own (cuDNN: not reproducible)"
static void attention_words(const Device *device, char *out, size_t size) {
  size_t at = 0;
  out[0] = 0;
  for (int g = 0; g < 2; g++) {
    const AttentionWay *way = &device->attention[g];
    const char *const library = way->library ? way->library : "", *const both = way->library && way->own ? " and " : "";
    if ((way->library || way->own) && at < size) {
      at += (size_t)snprintf(out + at, size - at, "%s%s %s%s%s", at ? "; " : "", g ? "backward" : "forward", library,
                             both, way->own ? "kernels of our own" : "");
    }
    const bool known = g == 1 && way->why == device->attention[0].why;
    const char *const why = way->why ? way->why : "not faster";
    if (way->own && !known && at < size) {
      at += (size_t)snprintf(out + at, size - at, " (cuDNN: %s)", why);
    }
  }
}

static void backend_facts(const Device *device, DeviceFacts *facts) {
  const int64_t joined = device->comms ? comms_predicted(device->comms) : 0;
  *facts = (DeviceFacts){.peak_flops = peak_flops(&device->gpu, device->plan),
                         .peak_bytes = device->gpu.memory_rate,
                         .memory_bytes = device->taken_bytes,
                         .gap_seconds = host_gap(&device->host),
                         .joined_bytes = device->joined_bytes,
                         .joined_predicted = joined,
                         .beside_bytes = device->context_bytes + device->scratch_bytes + joined +
                                         HOST_DEPTH * plan_inputs_end(device->plan)};
  snprintf(facts->name, sizeof facts->name, "%s", device->gpu.name);
  attention_words(device, facts->attention, sizeof facts->attention);
}

static void backend_trace(Device *device, bool on) {
  Error ignored;  // without memory for it there is no trace
  device->tracing = on && device_here(device, &ignored) &&
                    (device->timing || timing_create(&device->cuda, &device->timing, &ignored));
}

static const TraceSpan *backend_traced(Device *device, int64_t *count) {
  Error ignored;
  *count = 0;
  return device->timing && device_here(device, &ignored) ? timing_spans(device->timing, count) : NULL;
}

static void backend_record(Device *device, Buffer *out) {
  gemms_record(device->gemms, out);
}

static bool backend_pin(Device *device, void *memory, int64_t bytes, Error *error) {
  return device_here(device, error) &&
         cuda_check(&device->cuda,
                    device->cuda.host_register(memory, (size_t)bytes, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED),
                    "pinning memory of the host", error);
}

static void backend_unpin(Device *device, void *memory) {
  Error ignored;
  if (device_here(device, &ignored)) {
    device->cuda.host_unregister(memory);
  }
}

const Backend backend_cuda = {
    .name = "cuda",
    .apart = true,
    .open = backend_open,
    .close = backend_close,
    .write = backend_write,
    .read = backend_read,
    .ahead = HOST_DEPTH - 1,
    .run = backend_run,
    .wait = backend_wait,
    .facts = backend_facts,
    .trace = backend_trace,
    .traced = backend_traced,
    .record = backend_record,
    .pin = backend_pin,
    .unpin = backend_unpin,
    .copy = backend_copy,
    .copied = backend_copied,
};
