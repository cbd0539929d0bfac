// prepare.c: from instructions to what can be launched: generated kernels, problems of libraries, copies.
#include <inttypes.h>
#include <string.h>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/generate.h"
#include "kernels/cuda/take.h"
#include "kernels/cuda/window.h"
#include "runtime/cuda/internal.h"

enum { ALIGN_MAX = 16 };

// The largest power of two, up to 16, that divides every address of this place.
static int place_alignment(const Device *device, const Place *place) {
  const int64_t all = place->offset | place->slot_stride | place->lane_stride | device->term[place->term];
  int align = ALIGN_MAX;
  while (all & (align - 1)) {
    align /= 2;
  }
  return align;
}

static const char *instruction_name(const Instruction *instruction) {
  return instruction->name ? instruction->name : instruction_kind_name(instruction->kind);
}

static bool not_covered(const Instruction *instruction, const char *why, Error *error) {
  return error_set(error, 1, "%s: the CUDA backend has no kernel for this %s: %s", instruction_name(instruction),
                   instruction_kind_name(instruction->kind), why ? why : "no reason was given");
}

static void scratch_need(Device *device, int64_t bytes) {
  device->scratch_bytes = bytes > device->scratch_bytes ? bytes : device->scratch_bytes;
}

static void slots_take(Device *device, Prepared *prepared, const Slot *slots, int count) {
  prepared->slot_count = count;
  prepared->slots = arena_copy(device->arena, slots, (size_t)count * sizeof *slots);
}

static void kernel_take(Device *device, Prepared *prepared, const CudaKernel *kernel, const char *name) {
  prepared->kind = PREPARED_KERNEL;
  prepared->as.loaded = modules_add(device->modules, kernel, name);
  prepared->form = kernel->form;
  scratch_need(device, kernel->scratch_bytes);
}

static bool prepare_kernel(Device *device, const Instruction *instruction, Prepared *prepared, Error *error) {
  const KernelCall *call = &instruction->as.kernel;
  const Kernel *kernel = device->plan->kernels[call->kernel];
  int alignment[KERNEL_MAX_PORTS];
  Slot slots[KERNEL_MAX_PORTS];
  CudaKernel made;
  const char *why = NULL;
  for (int p = 0; p < kernel->port_count; p++) {
    const bool memory = kernel->port[p].kind != PORT_STRIDES;
    alignment[p] = memory ? place_alignment(device, &call->place[p]) : ALIGN_MAX;
    slots[p] = (Slot){memory ? SLOT_ADDRESS : SLOT_INDEX, &call->place[p], 0};
  }
  const CudaTarget target = {.multiprocessors = device->gpu.multiprocessors, .shared_bytes = device->gpu.shared_bytes};
  if (!cuda_generate(kernel, alignment, &target, device->arena, &made, &why)) {
    return not_covered(instruction, why, error);
  }
  slots_take(device, prepared, slots, kernel->port_count);
  kernel_take(device, prepared, &made, instruction_name(instruction));
  return true;
}

static bool prepare_take(Device *device, const Instruction *instruction, Prepared *prepared, Error *error) {
  const Take *take = &instruction->as.take;
  const Slot slots[] = {{.place = &take->x}, {.place = &take->index}, {.place = &take->out}};
  int alignment[3];
  CudaKernel made;
  const char *why = NULL;
  for (int i = 0; i < 3; i++) {
    alignment[i] = place_alignment(device, slots[i].place);
  }
  const bool good = (instruction->kind == INSTRUCTION_PUT ? cuda_put : cuda_take)(
      take, take->type, take->type_out, alignment, device->arena, &made, &why);
  if (!good) {
    return not_covered(instruction, why, error);
  }
  slots_take(device, prepared, slots, 3);
  kernel_take(device, prepared, &made, instruction_name(instruction));
  return true;
}

static bool prepare_window(Device *device, const Instruction *instruction, Prepared *prepared, Error *error) {
  const Window *window = &instruction->as.window;
  const Slot slots[] = {{.place = &window->x}, {.place = &window->out}};
  CudaKernel made;
  const char *why = NULL;
  const bool good =
      (instruction->kind == INSTRUCTION_FOLD ? cuda_fold : cuda_window)(window, device->arena, &made, &why);
  if (!good) {
    return not_covered(instruction, why, error);
  }
  slots_take(device, prepared, slots, 2);
  kernel_take(device, prepared, &made, instruction_name(instruction));
  return true;
}

static bool prepare_gemm(Device *device, const Instruction *instruction, Prepared *prepared, Error *error) {
  const Gemm *gemm = &instruction->as.gemm;
  const Slot slots[] = {{.place = &gemm->a}, {.place = &gemm->b}, {.place = &gemm->c}};
  int alignment[3];
  for (int i = 0; i < 3; i++) {
    alignment[i] = place_alignment(device, slots[i].place);
  }
  if (!device->gemms && !gemms_create(&device->cuda, &device->gpu, device->arena, &device->gemms, error)) {
    return false;
  }
  prepared->kind = PREPARED_GEMM;
  slots_take(device, prepared, slots, 3);
  scratch_need(device, gemms_workspace(device->gemms));
  if (!gemm_prepare(device->gemms, gemm, alignment, instruction_name(instruction), &prepared->as.gemm, error)) {
    return false;
  }
  prepared->form = gemm_form(prepared->as.gemm);
  return true;
}

static bool prepare_attention(Device *device, const Instruction *instruction, Prepared *prepared, Error *error) {
  const Attention *attention = &instruction->as.attention;
  const bool gradient = instruction->kind == INSTRUCTION_ATTENTION_GRAD;
  const Place *places[] = {&attention->q,   &attention->k,  &attention->v,  &attention->o, &attention->statistics,
                           &attention->d_o, &attention->dq, &attention->dk, &attention->dv};
  const int count = gradient ? 9 : 5;
  const CudaTarget target = {.multiprocessors = device->gpu.multiprocessors, .shared_bytes = device->gpu.shared_bytes};
  const char *why = NULL;
  CudaKernel made;
  Slot slots[11];
  for (int i = 0; i < count; i++) {
    slots[i] = (Slot){.place = places[i]};
  }
  if (!device->cudnn_missing && !device->cudnn &&
      !cudnn_create(&device->cuda, &device->gpu, device->plan->run.strict, &device->cudnn, error)) {
    device->cudnn_missing = true;
  }
  if (device->cudnn &&
      cudnn_attention_prepare(device->cudnn, attention, gradient, device->arena, &prepared->as.attention, &why)) {
    prepared->kind = PREPARED_ATTENTION;
    prepared->form = cudnn_attention_form(prepared->as.attention);
    scratch_need(device, cudnn_attention_workspace(prepared->as.attention));
    slots_take(device, prepared, slots, count);
    return true;
  }
  for (int p = 0; p < 2; p++) {
    slots[count + p] =
        (Slot){.kind = SLOT_NUMBER, .number = attention->origin[p] + device->term[attention->origin_term[p]]};
  }
  if (!cuda_attention(attention, gradient, &target, device->arena, &made, &why)) {
    return not_covered(instruction, why, error);
  }
  slots_take(device, prepared, slots, count + 2);
  kernel_take(device, prepared, &made, instruction_name(instruction));
  return true;
}

static bool prepare_instruction(Device *device, const Instruction *instruction, Prepared *prepared, Error *error) {
  switch (instruction->kind) {
    case INSTRUCTION_KERNEL:
      return prepare_kernel(device, instruction, prepared, error);
    case INSTRUCTION_GEMM:
      return prepare_gemm(device, instruction, prepared, error);
    case INSTRUCTION_TAKE:
    case INSTRUCTION_PUT:
      return prepare_take(device, instruction, prepared, error);
    case INSTRUCTION_WINDOW:
    case INSTRUCTION_FOLD:
      return prepare_window(device, instruction, prepared, error);
    case INSTRUCTION_ATTENTION:
    case INSTRUCTION_ATTENTION_GRAD:
      return prepare_attention(device, instruction, prepared, error);
    case INSTRUCTION_PIECE:
      prepared->kind = PREPARED_COPY;
      prepared->form = "copy";
      return true;
    default:
      prepared->kind = PREPARED_SHARED;
      prepared->form = "NCCL";
      return device->peers || error_set(error, 1, "%s: the plan needs several ranks", instruction_name(instruction));
  }
}

bool device_prepare(Device *device, Error *error) {
  const Plan *plan = device->plan;
  device->modules = modules_create(&device->cuda, &device->gpu, device->arena, "");
  device->prepared = ARENA_ARRAY(device->arena, Prepared *, plan->segment_count + 1);
  for (int s = 0; s < plan->segment_count; s++) {
    const PlanSegment *segment = &plan->segments[s];
    device->prepared[s] = ARENA_ARRAY(device->arena, Prepared, segment->count + 1);
    for (int i = 0; i < segment->count; i++) {
      if (!prepare_instruction(device, &segment->instructions[i], &device->prepared[s][i], error)) {
        return false;
      }
    }
  }
  return modules_load(device->modules, error);
}

void device_prepare_undo(Device *device) {
  modules_destroy(device->modules);
  gemms_destroy(device->gemms);
  cudnn_destroy(device->cudnn);
}
