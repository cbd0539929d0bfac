// prepare.c: from instructions to what can be launched: generated kernels, problems of libraries, copies.
#include <inttypes.h>
#include <string.h>

#include "compiler/plan/operands.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/compile.h"
#include "runtime/cuda/internal.h"

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

// The slots of a generated kernel; those of attention are more than its places.
static bool prepare_generated(Device *device, const Instruction *instruction, const Slot *slots, int count,
                              Prepared *prepared, Error *error) {
  const char *why = NULL;
  const CudaKernel *kernel = cuda_instruction(device->kernels, instruction, &why);
  if (!kernel) {
    return not_covered(instruction, why, error);
  }
  slots_take(device, prepared, slots, count);
  prepared->kind = PREPARED_KERNEL;
  prepared->as.loaded = modules_add(device->modules, kernel, instruction_name(instruction));
  prepared->form = kernel->form;
  scratch_need(device, kernel->scratch_bytes);
  return true;
}

static bool prepare_kernel(Device *device, const Instruction *instruction, Prepared *prepared, Error *error) {
  const KernelCall *call = &instruction->as.kernel;
  const Kernel *kernel = device->plan->kernels[call->kernel];
  Slot slots[KERNEL_MAX_PORTS];
  for (int p = 0; p < kernel->port_count; p++) {
    slots[p] = (Slot){kernel->port[p].kind != PORT_STRIDES ? SLOT_ADDRESS : SLOT_INDEX, &call->place[p], 0};
  }
  return prepare_generated(device, instruction, slots, kernel->port_count, prepared, error);
}

static bool prepare_order(Device *device, const Instruction *instruction, Prepared *prepared, Error *error) {
  const Order *order = &instruction->as.order;
  const Slot slots[] = {
      {.place = &order->index}, {.place = &order->place}, {.place = &order->from}, {.place = &order->chosen}};
  return prepare_generated(device, instruction, slots, 4, prepared, error);
}

static bool prepare_grouped(Device *device, const Instruction *instruction, Prepared *prepared, Error *error) {
  const Grouped *grouped = &instruction->as.grouped;
  const Slot slots[] = {
      {.place = &grouped->a}, {.place = &grouped->b}, {.place = &grouped->c}, {.place = &grouped->chosen}};
  return prepare_generated(device, instruction, slots, 4, prepared, error);
}

static bool prepare_take(Device *device, const Instruction *instruction, Prepared *prepared, Error *error) {
  const Take *take = &instruction->as.take;
  const Slot slots[] = {{.place = &take->x}, {.place = &take->index}, {.place = &take->out}, {.place = &take->chosen}};
  return prepare_generated(device, instruction, slots, take->parts > 0 ? 4 : 3, prepared, error);
}

static bool prepare_window(Device *device, const Instruction *instruction, Prepared *prepared, Error *error) {
  const Window *window = &instruction->as.window;
  const Slot slots[] = {{.place = &window->x}, {.place = &window->out}};
  return prepare_generated(device, instruction, slots, 2, prepared, error);
}

static bool prepare_squares(Device *device, const Instruction *instruction, Prepared *prepared, Error *error) {
  const Squares *squares = &instruction->as.squares;
  const Slot slots[] = {{.place = &squares->from}, {.place = &squares->to}};
  return prepare_generated(device, instruction, slots, 2, prepared, error);
}

static bool prepare_gemm(Device *device, const Instruction *instruction, Prepared *prepared, Error *error) {
  const Gemm *gemm = &instruction->as.gemm;
  const bool scaled = gemm_scaled(gemm);
  // The last three are of no use to products without a bias and without scales.
  const Slot slots[GEMM_ADDRESSES] = {{.place = &gemm->a},
                                      {.place = &gemm->b},
                                      {.place = &gemm->c},
                                      {.place = gemm->epilogue == EPILOGUE_BIAS ? &gemm->bias : &gemm->c},
                                      {.place = scaled ? &gemm->scale_a : &gemm->c},
                                      {.place = scaled ? &gemm->scale_b : &gemm->c}};
  int alignment[GEMM_OPERANDS];
  for (int i = 0; i < GEMM_OPERANDS; i++) {
    alignment[i] = cuda_place_alignment(device->plan, slots[i].place);
  }
  if (!device->gemms &&
      !gemms_create(&device->cuda, &device->gpu, device->record, device->arena, &device->gemms, error)) {
    return false;
  }
  prepared->kind = PREPARED_GEMM;
  slots_take(device, prepared, slots, GEMM_ADDRESSES);
  scratch_need(device, gemms_workspace(device->gemms));
  if (!gemm_prepare(device->gemms, gemm, alignment, instruction_name(instruction), &prepared->as.gemm, error)) {
    return false;
  }
  prepared->form = gemm_form(prepared->as.gemm);
  return true;
}

static Slot number_slot(int64_t number) {
  return (Slot){.kind = SLOT_NUMBER, .number = number};
}

// Where queries and, if they come round a ring, keys stand; returns how many slots that takes.
static int origin_slots(const Device *device, const Attention *attention, Slot slots[4]) {
  int owner[PLAN_MAX_MESH];  // of the keys
  plan_before(device->plan, attention->ring, attention->ring_step, device->coordinate, owner);
  for (int p = 0; p < 2; p++) {
    slots[p] = number_slot(attention->origin[p] + device->term[attention->origin_term[p]]);
    slots[2 + p] =
        number_slot(attention->key_origin[p] + plan_term(device->plan, attention->key_origin_term[p], owner));
  }
  return cuda_attention_rings(attention) ? 4 : 2;
}

// What a kernel of scores captures.
static int captured_slots(const Kernel *kernel, const Place *place, Slot *slots) {
  const int count = kernel ? kernel->port_count - SCORE_CAPTURED : 0;
  for (int i = 0; i < count; i++) {
    slots[i] = (Slot){.place = &place[SCORE_CAPTURED + i]};
  }
  return count;
}

// A kernel of our own that is worth being compared: one for this chip.
static const CudaKernel *attention_rival(Device *device, const Instruction *instruction) {
  const char *why;
  const CudaKernel *kernel = cuda_instruction(device->kernels, instruction, &why);
  return kernel && kernel->map_count > 0 ? kernel : NULL;
}

// Equal problems share a choice.
static AttentionChoice *attention_choice(Device *device, const Instruction *instruction, CudnnAttention *library) {
  const CudaKernel *kernel = attention_rival(device, instruction);
  Loaded *own = kernel ? modules_add(device->modules, kernel, instruction_name(instruction)) : NULL;
  for (int i = 0; i < device->choices.count; i++) {
    if (device->choices.at[i]->own == own && device->choices.at[i]->library == library) {
      return device->choices.at[i];
    }
  }
  AttentionChoice *choice = ARENA_NEW(device->arena, AttentionChoice);
  *choice = (AttentionChoice){.library = library, .own = own};
  if (own) {
    choice->key = arena_format(device->arena, "attention %016" PRIx64 " or %s", cuda_text_hash(kernel->text),
                               cudnn_attention_form(library));
  }
  attention_find(choice, gemms_tuning(device->gemms));
  if (!choice->tuned || choice->takes_own) {
    scratch_need(device, own ? kernel->scratch_bytes : 0);
  }
  if (!choice->tuned || !choice->takes_own) {
    scratch_need(device, cudnn_attention_workspace(library));
  }
  array_push(device->arena, &device->choices, choice);
  return choice;
}

static bool prepare_attention(Device *device, const Instruction *instruction, Prepared *prepared, Error *error) {
  const Attention *attention = &instruction->as.attention;
  const bool gradient = instruction->kind == INSTRUCTION_ATTENTION_GRAD;
  const bool captured = instruction->kind == INSTRUCTION_ATTENTION_CAPTURED;
  const Place *places[] = {&attention->q,   &attention->k,  &attention->v,  &attention->o, &attention->statistics,
                           &attention->d_o, &attention->dq, &attention->dk, &attention->dv};
  int count = gradient ? 9 : captured ? 7 : 5;
  places[6] = captured ? &attention->d_captured : places[6];
  const char *why = NULL;
  CudnnAttention *library = NULL;
  Slot slots[CUDA_MAX_PORTS];
  for (int i = 0; i < count; i++) {
    slots[i] = (Slot){.place = places[i]};
  }
  if (attention->large && instruction->kind == INSTRUCTION_ATTENTION) {
    slots[count++] = (Slot){.place = &attention->lost};
  }
  if (attention->seeded && instruction->kind != INSTRUCTION_ATTENTION) {
    slots[count++] = (Slot){.place = &attention->d_statistics};
  }
  if (attention->biased) {
    slots[count++] = (Slot){.place = &attention->slopes};
  }
  const AttentionScores scores = cuda_attention_scores(device->plan, attention);
  count += captured_slots(scores.score, attention->score_place, slots + count);
  count += captured_slots(scores.gradient, attention->score_gradient_place, slots + count);
  count += origin_slots(device, attention, slots + count);
  if (captured) {
    return prepare_generated(device, instruction, slots, count, prepared, error);
  }
  if (!device->cudnn_missing && !device->cudnn &&
      !cudnn_create(&device->cuda, &device->gpu, device->plan->run.strict, &device->cudnn, error)) {
    device->cudnn_missing = arena_format(device->arena, "%s", error->text);
  }
  AttentionWay *way = &device->attention[gradient];
  if (device->cudnn && cudnn_attention_prepare(device->cudnn, attention, gradient, device->arena, &library, &why)) {
    prepared->kind = PREPARED_ATTENTION;
    prepared->as.attention = attention_choice(device, instruction, library);
    prepared->form = attention_form(prepared->as.attention);
    slots_take(device, prepared, slots, count);
    return true;
  }
  way->own = true;
  way->why = way->why ? way->why : device->cudnn_missing ? device->cudnn_missing : why;
  return prepare_generated(device, instruction, slots, count, prepared, error);
}

static bool prepare_instruction(Device *device, const Instruction *instruction, Prepared *prepared, Error *error) {
  switch (instruction->kind) {
    case INSTRUCTION_KERNEL:
      return prepare_kernel(device, instruction, prepared, error);
    case INSTRUCTION_GEMM:
      return prepare_gemm(device, instruction, prepared, error);
    case INSTRUCTION_ORDER:
      return prepare_order(device, instruction, prepared, error);
    case INSTRUCTION_GROUPED:
    case INSTRUCTION_GROUPED_SUM:
      return prepare_grouped(device, instruction, prepared, error);
    case INSTRUCTION_TAKE:
    case INSTRUCTION_PUT:
      return prepare_take(device, instruction, prepared, error);
    case INSTRUCTION_WINDOW:
    case INSTRUCTION_FOLD:
      return prepare_window(device, instruction, prepared, error);
    case INSTRUCTION_SQUARES:
      return prepare_squares(device, instruction, prepared, error);
    case INSTRUCTION_ATTENTION:
    case INSTRUCTION_ATTENTION_GRAD:
    case INSTRUCTION_ATTENTION_CAPTURED:
      return prepare_attention(device, instruction, prepared, error);
    case INSTRUCTION_PIECE:
      prepared->kind = PREPARED_COPY;
      prepared->form = "copy";
      return true;
    case INSTRUCTION_OFFLOAD:
    case INSTRUCTION_FETCH:
      prepared->kind = PREPARED_OFFLOAD;
      prepared->form = "copy";
      return true;
    default:
      prepared->kind = PREPARED_SHARED;
      prepared->form = "NCCL";
      return device->peers || error_set(error, 1, "%s: the plan needs several ranks", instruction_name(instruction));
  }
}

// What texts are generated for: this GPU. Where the plan has code for such chips but was compiled for one with other
// figures, and nothing here could compile, it is that one, if this GPU has as much.
static CudaTarget figures_of(const Device *device) {
  const CudaDevice *gpu = &device->gpu;
  const CudaTarget own = {
      .multiprocessors = gpu->multiprocessors, .shared_bytes = gpu->shared_bytes, .warpgroups = gpu->major == 9};
  CudaTarget best = own;
  int most = 0;
  for (int t = 0; t < device->plan->target_count; t++) {
    const PlanTarget *target = &device->plan->targets[t];
    const int serves = cuda_target_serves(target->target, gpu->major, gpu->minor);
    if (serves > most && target->shared_bytes <= own.shared_bytes) {
      most = serves;
      cuda_target_find(target->target, &best);
      best.multiprocessors = target->multiprocessors;
      best.shared_bytes = target->shared_bytes;
    }
  }
  const bool same = best.multiprocessors == own.multiprocessors && best.shared_bytes == own.shared_bytes;
  return same || cuda_compiler_present(gpu->target) ? own : best;
}

static bool writes_lasting(const Plan *plan, const Instruction *instruction) {
  Operands operands;
  bool found = false;
  instruction_touches(plan, instruction, &operands);
  for (int i = 0; i < operands.count; i++) {
    const Operand *operand = &operands.at[i];
    found |= operand->memory && (operand->access & WRITES) && operand->place->arena == ARENA_PERSISTENT;
  }
  return found;
}

bool device_prepare(Device *device, Error *error) {
  const Plan *plan = device->plan;
  device->modules = modules_create(&device->cuda, &device->gpu, plan, device->arena, "");
  device->kernels = cuda_kernels_create(plan, figures_of(device), device->arena);
  device->prepared = ARENA_ARRAY(device->arena, Prepared *, plan->segment_count + 1);
  for (int s = 0; s < plan->segment_count; s++) {
    const PlanSegment *segment = &plan->segments[s];
    device->prepared[s] = ARENA_ARRAY(device->arena, Prepared, segment->count + 1);
    for (int i = 0; i < segment->count; i++) {
      if (!prepare_instruction(device, &segment->instructions[i], &device->prepared[s][i], error)) {
        return false;
      }
      device->prepared[s][i].lasting = writes_lasting(plan, &segment->instructions[i]);
    }
  }
  return modules_load(device->modules, error);
}

void device_prepare_undo(Device *device) {
  modules_destroy(device->modules);
  gemms_destroy(device->gemms);
  cudnn_destroy(device->cudnn);
}
