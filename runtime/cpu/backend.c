// backend.c: the CPU backend: arenas in memory, programs run instruction by instruction on a pool of threads.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/fused.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/take.h"
#include "runtime/cpu/memory.h"
#include "runtime/device.h"

struct Device {
  const Plan *plan;
  Arena *arena;  // of what open prepared
  const Simd *simd;
  Blas blas;
  Pool *pool;
  char *memory[ARENA_CLASS_COUNT];
  Fused ***fused;  // [segment][instruction]; NULL for instructions that are not kernels
  char **scratch;  // [worker]
  char *shared;
  int64_t scratch_bytes, shared_bytes;
  double seconds[INSTRUCTION_KIND_COUNT];
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool out_of_memory(Error *error, int64_t bytes, const char *what) {
  return error_set(error, 3,
                   "out of memory: the CPU backend asked for %" PRId64 " bytes for %s (the machine has %" PRId64
                   "); make the batch, the sequence or the model smaller",
                   bytes, what, memory_physical());
}

static bool memories_open(Device *device, Error *error) {
  static const char *const names[] = {"persistent state", "the values of a step", "buffers of collectives",
                                      "inputs and outputs"};
  int64_t total = 0;
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    const int64_t bytes = device->plan->arena_bytes[i];
    total = bytes > INT64_MAX - total ? INT64_MAX : total + bytes;
  }
  if (memory_physical() > 0 && total > memory_physical()) {
    return out_of_memory(error, total, "the values of the plan");
  }
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    device->memory[i] = memory_create(device->plan->arena_bytes[i], device->pool);
    if (!device->memory[i]) {
      return out_of_memory(error, device->plan->arena_bytes[i], names[i]);
    }
  }
  return true;
}

static bool instruction_check(const Instruction *instruction, Error *error) {
  const char *name = instruction->name ? instruction->name : instruction_kind_name(instruction->kind);
  const ElementType put = instruction->as.take.type, fold = instruction->as.window.type;
  switch (instruction->kind) {
    case INSTRUCTION_GEMM:
      return gemm_check(&instruction->as.gemm, name, error);
    case INSTRUCTION_ATTENTION:
    case INSTRUCTION_ATTENTION_GRAD:
      return attention_check(&instruction->as.attention, name, error);
    case INSTRUCTION_PUT:
      return (put != TYPE_F16 && put != TYPE_BF16 && put != TYPE_E4M3 && put != TYPE_E5M2) ||
             error_set(error, 1, "%s: the CPU backend cannot add by index in %s", name, element_type_name(put));
    case INSTRUCTION_FOLD:
      return fold == TYPE_F32 || fold == TYPE_F64 ||
             error_set(error, 1, "%s: the CPU backend cannot fold windows of %s", name, element_type_name(fold));
    default:
      return true;
  }
}

static int slots_of(const Plan *plan) {
  int slots = 1;
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    for (int c = 0; c < plan->programs[p].call_count; c++) {
      slots = plan->programs[p].calls[c].slot >= slots ? plan->programs[p].calls[c].slot + 1 : slots;
    }
  }
  return slots;
}

static void scratch_need(Device *device, int64_t scratch, int64_t shared) {
  device->scratch_bytes = scratch > device->scratch_bytes ? scratch : device->scratch_bytes;
  device->shared_bytes = shared > device->shared_bytes ? shared : device->shared_bytes;
}

// Prepares all kernels and finds how much scratch they and attention need.
static bool segments_open(Device *device, Error *error) {
  const Plan *plan = device->plan;
  device->scratch = ARENA_ARRAY(device->arena, char *, pool_threads(device->pool));
  const int slots = slots_of(plan);
  device->fused = ARENA_ARRAY(device->arena, Fused **, plan->segment_count + 1);
  for (int s = 0; s < plan->segment_count; s++) {
    const PlanSegment *segment = &plan->segments[s];
    device->fused[s] = ARENA_ARRAY(device->arena, Fused *, segment->count + 1);
    for (int i = 0; i < segment->count; i++) {
      const Instruction *instruction = &segment->instructions[i];
      if (!instruction_check(instruction, error)) {
        return false;
      }
      if (instruction->kind == INSTRUCTION_KERNEL) {
        const KernelCall *call = &instruction->as.kernel;
        Fused *fused = fused_build(device->arena, device->simd, plan->kernels[call->kernel], call->place, slots);
        device->fused[s][i] = fused;
        scratch_need(device, fused_scratch_bytes(fused), fused_shared_bytes(fused));
      } else if (instruction->kind == INSTRUCTION_ATTENTION || instruction->kind == INSTRUCTION_ATTENTION_GRAD) {
        scratch_need(device, attention_scratch_bytes(&instruction->as.attention), 0);
      }
    }
  }
  return true;
}

// The same, where running out of memory is an error and not the end of the process.
static bool segments_open_safely(Device *device, Error *error) {
  jmp_buf escape;
  if (setjmp(escape)) {
    arena_set_escape(device->arena, NULL);
    return out_of_memory(error, (int64_t)arena_used(device->arena), "the prepared plan, and more");
  }
  arena_set_escape(device->arena, &escape);
  const bool opened = segments_open(device, error);
  arena_set_escape(device->arena, NULL);
  return opened;
}

static bool workspaces_open(Device *device, Error *error) {
  for (int i = 0; i < pool_threads(device->pool); i++) {
    device->scratch[i] = memory_create(device->scratch_bytes, device->pool);
    if (!device->scratch[i]) {
      return out_of_memory(error, device->scratch_bytes, "the scratch of a thread");
    }
  }
  device->shared = memory_create(device->shared_bytes, device->pool);
  return device->shared || out_of_memory(error, device->shared_bytes, "partial sums");
}

static void cpu_close(Device *device) {
  if (!device) {
    return;
  }
  for (int i = 0; device->scratch && i < pool_threads(device->pool); i++) {
    free(device->scratch[i]);
  }
  free(device->shared);
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    free(device->memory[i]);
  }
  pool_destroy(device->pool);
  blas_close(&device->blas);
  arena_destroy(device->arena);
  free(device);
}

static bool device_open(Device *device, const DeviceOptions *options, Error *error) {
  device->simd = simd_select();
  device->arena = arena_create();
  if (!device->arena) {
    return out_of_memory(error, (int64_t)sizeof(Device), "itself");
  }
  device->pool = pool_create(options ? options->threads : 0);
  if (!device->pool) {
    return error_set(error, 3, "the CPU backend could not start %d threads; ask for fewer with --threads",
                     options ? options->threads : 0);
  }
  return blas_open(&device->blas, error) && memories_open(device, error) && segments_open_safely(device, error) &&
         workspaces_open(device, error);
}

static bool cpu_open(const Plan *plan, const DeviceOptions *options, Device **out, Error *error) {
  Device *device = calloc(1, sizeof *device);
  *out = NULL;
  if (!device) {
    return out_of_memory(error, (int64_t)sizeof *device, "itself");
  }
  device->plan = plan;
  if (!device_open(device, options, error)) {
    cpu_close(device);
    return false;
  }
  *out = device;
  return true;
}

static bool range_check(const Device *device, ArenaClass arena, int64_t offset, int64_t bytes, Error *error) {
  const int64_t size = device->plan->arena_bytes[arena];
  if (offset < 0 || bytes < 0 || offset > size || bytes > size - offset) {
    return error_set(error, 1, "bytes %" PRId64 " to %" PRId64 " are outside an arena of %" PRId64 " bytes", offset,
                     offset + bytes, size);
  }
  return true;
}

static bool cpu_write(Device *device, ArenaClass arena, int64_t offset, const void *data, int64_t bytes, Error *error) {
  if (!range_check(device, arena, offset, bytes, error)) {
    return false;
  }
  if (bytes > 0) {
    memcpy(device->memory[arena] + offset, data, (size_t)bytes);
  }
  return true;
}

static bool cpu_read(Device *device, ArenaClass arena, int64_t offset, void *data, int64_t bytes, Error *error) {
  if (!range_check(device, arena, offset, bytes, error)) {
    return false;
  }
  if (bytes > 0) {
    memcpy(data, device->memory[arena] + offset, (size_t)bytes);
  }
  return true;
}

static void *address(const Device *device, const Place *place, int slot) {
  return device->memory[place->arena] + place->offset + slot * place->slot_stride;
}

static void run_kernel(Device *device, const Fused *fused, const KernelCall *call, const PlanCall *plan_call) {
  const Kernel *kernel = device->plan->kernels[call->kernel];
  void *ports[KERNEL_MAX_PORTS];
  for (int p = 0; p < kernel->port_count; p++) {
    const Place *place = &call->place[p];
    if (kernel->port[p].kind == PORT_STRIDES) {  // no memory: the index at which its coordinates begin
      ports[p] = (void *)(intptr_t)(place->offset + plan_call->slot * place->slot_stride);
    } else {
      ports[p] = address(device, place, plan_call->slot);
    }
  }
  fused_run(fused, device->pool, ports, plan_call->first, device->scratch, device->shared);
}

static void run_attention(Device *device, const Attention *attention, bool gradient, int slot) {
  AttentionPorts ports = {
      .q = address(device, &attention->q, slot),
      .k = address(device, &attention->k, slot),
      .v = address(device, &attention->v, slot),
      .o = address(device, &attention->o, slot),
      .statistics = address(device, &attention->statistics, slot),
  };
  if (gradient) {
    ports.d_o = address(device, &attention->d_o, slot);
    ports.dq = address(device, &attention->dq, slot);
    ports.dk = address(device, &attention->dk, slot);
    ports.dv = address(device, &attention->dv, slot);
    attention_grad_run(attention, device->simd, device->pool, &ports, device->scratch);
  } else {
    attention_run(attention, device->simd, device->pool, &ports, device->scratch);
  }
}

static void run_instruction(Device *device, const Instruction *instruction, const Fused *fused, const PlanCall *call) {
  const int slot = call->slot;
  const Gemm *gemm = &instruction->as.gemm;
  const Take *take = &instruction->as.take;
  const Window *window = &instruction->as.window;
  switch (instruction->kind) {
    case INSTRUCTION_KERNEL:
      run_kernel(device, fused, &instruction->as.kernel, call);
      break;
    case INSTRUCTION_GEMM:
      gemm_run(gemm, &device->blas, device->pool, address(device, &gemm->a, slot), address(device, &gemm->b, slot),
               address(device, &gemm->c, slot), call->first);
      break;
    case INSTRUCTION_TAKE:
      take_run(take, device->pool, address(device, &take->x, slot), address(device, &take->index, slot),
               address(device, &take->out, slot));
      break;
    case INSTRUCTION_PUT:
      put_run(take, device->pool, address(device, &take->x, slot), address(device, &take->index, slot),
              address(device, &take->out, slot), call->first);
      break;
    case INSTRUCTION_WINDOW:
      window_run(window, device->pool, address(device, &window->x, slot), address(device, &window->out, slot));
      break;
    case INSTRUCTION_FOLD:
      fold_run(window, device->pool, address(device, &window->x, slot), address(device, &window->out, slot));
      break;
    case INSTRUCTION_ATTENTION:
    case INSTRUCTION_ATTENTION_GRAD:
      run_attention(device, &instruction->as.attention, instruction->kind == INSTRUCTION_ATTENTION_GRAD, slot);
      break;
    default:
      break;
  }
}

static bool cpu_run(Device *device, ProgramKind program, Error *error) {
  const PlanProgram *calls = &device->plan->programs[program];
  if (calls->call_count == 0) {
    return error_set(error, 1, "the plan has no program '%s'", program_kind_name(program));
  }
  double before = now();
  for (int c = 0; c < calls->call_count; c++) {
    const PlanCall *call = &calls->calls[c];
    const PlanSegment *segment = &device->plan->segments[call->segment];
    for (int i = 0; i < segment->count; i++) {
      run_instruction(device, &segment->instructions[i], device->fused[call->segment][i], call);
      const double after = now();
      device->seconds[segment->instructions[i].kind] += after - before;
      before = after;
    }
  }
  return true;
}

static void cpu_profile(const Device *device, double *seconds) {
  memcpy(seconds, device->seconds, sizeof device->seconds);
}

const Backend backend_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .write = cpu_write,
    .read = cpu_read,
    .run = cpu_run,
    .profile = cpu_profile,
};
