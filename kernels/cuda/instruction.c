// instruction.c: which generator makes an instruction, and equal ones found again.
#include "kernels/cuda/instruction.h"

#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/generate.h"
#include "kernels/cuda/grouped.h"
#include "kernels/cuda/order.h"
#include "kernels/cuda/squares.h"
#include "kernels/cuda/take.h"
#include "kernels/cuda/window.h"

enum { ALIGN_MAX = 16 };

// All that a text follows from besides plan and target; the rest is zero. Compared as bytes: padding that differs costs
// a second copy of a kernel, no more.
typedef struct {
  InstructionKind kind;
  int kernel;
  uint8_t alignment[KERNEL_MAX_PORTS];
  union {
    Take take;
    Order order;
    Grouped grouped;
    Window window;
    Squares squares;
    Attention attention;
  } as;
} Key;

typedef struct {
  const Key *key;
  CudaKernel kernel;
} Known;

struct CudaKernels {
  const Plan *plan;
  CudaTarget target;
  Arena *arena;
  Map by_key;
  Map by_parts;  // the parts of SQUARES to the first that were so
  ARRAY(Known *) known;
  ARRAY(PlanRange *) parts;
};

int cuda_place_alignment(const Plan *plan, const Place *place) {
  const PlanTerm *term = &plan->terms[place->term];
  int64_t all = place->offset | place->slot_stride | place->lane_stride;
  int align = ALIGN_MAX;
  for (int i = 0; i < plan->mesh_count; i++) {
    if (i == plan->pipeline) {
      all |= term->stride[i] * plan->stage;
    } else if (plan->mesh[i].size > 1) {
      all |= term->stride[i];
    }
  }
  while (all & (align - 1)) {
    align /= 2;
  }
  return align;
}

bool cuda_instruction_generates(InstructionKind kind) {
  switch (kind) {
    case INSTRUCTION_KERNEL:
    case INSTRUCTION_ORDER:
    case INSTRUCTION_GROUPED:
    case INSTRUCTION_GROUPED_SUM:
    case INSTRUCTION_TAKE:
    case INSTRUCTION_PUT:
    case INSTRUCTION_WINDOW:
    case INSTRUCTION_FOLD:
    case INSTRUCTION_SQUARES:
    case INSTRUCTION_ATTENTION:
    case INSTRUCTION_ATTENTION_GRAD:
    case INSTRUCTION_ATTENTION_CAPTURED:
      return true;
    default:
      return false;
  }
}

CudaKernels *cuda_kernels_create(const Plan *plan, CudaTarget target, Arena *arena) {
  CudaKernels *made = ARENA_NEW(arena, CudaKernels);
  *made = (CudaKernels){.plan = plan, .target = target, .arena = arena, .by_key = map_create(arena)};
  made->by_parts = map_create(arena);
  return made;
}

static void key_kernel(const CudaKernels *kernels, const KernelCall *call, Key *key) {
  const Kernel *kernel = kernels->plan->kernels[call->kernel];
  key->kernel = call->kernel;
  for (int p = 0; p < kernel->port_count; p++) {
    const bool memory = kernel->port[p].kind == PORT_INPUT || kernel->port[p].kind == PORT_OUTPUT;
    key->alignment[p] = (uint8_t)(memory ? cuda_place_alignment(kernels->plan, &call->place[p]) : ALIGN_MAX);
  }
}

static void key_take(const CudaKernels *kernels, const Take *take, Key *key) {
  static const Place nowhere;
  const Place *places[] = {&take->x, &take->index, &take->out};
  for (int i = 0; i < 3; i++) {
    key->alignment[i] = (uint8_t)cuda_place_alignment(kernels->plan, places[i]);
  }
  key->as.take = *take;
  key->as.take.x = key->as.take.index = key->as.take.out = key->as.take.chosen = nowhere;
}

static void key_order(const Order *order, Key *key) {
  static const Place nowhere;
  key->as.order = *order;
  key->as.order.index = key->as.order.place = key->as.order.from = key->as.order.chosen = nowhere;
}

static void key_grouped(const CudaKernels *kernels, const Grouped *grouped, Key *key) {
  static const Place nowhere;
  const Place *places[] = {&grouped->a, &grouped->b, &grouped->c};
  Grouped *to = &key->as.grouped;
  key->alignment[0] = ALIGN_MAX;
  for (int i = 0; i < 3; i++) {
    const int align = cuda_place_alignment(kernels->plan, places[i]);
    key->alignment[0] = (uint8_t)(align < key->alignment[0] ? align : key->alignment[0]);
  }
  *to = *grouped;
  to->a = to->b = to->c = to->chosen = nowhere;
}

static void key_attention(const CudaKernels *kernels, const Attention *attention, InstructionKind kind, Key *key) {
  static const Place nowhere;
  const Place *places[] = {&attention->q,   &attention->k,  &attention->v,  &attention->o,
                           &attention->d_o, &attention->dq, &attention->dk, &attention->dv};
  Attention *to = &key->as.attention;
  key->alignment[0] = ALIGN_MAX;
  const int count = kind == INSTRUCTION_ATTENTION ? 4 : kind == INSTRUCTION_ATTENTION_GRAD ? 8 : 5;
  for (int i = 0; i < count; i++) {
    const int align = cuda_place_alignment(kernels->plan, places[i]);
    key->alignment[0] = (uint8_t)(align < key->alignment[0] ? align : key->alignment[0]);
  }
  *to = *attention;
  to->q = to->k = to->v = to->o = to->statistics = to->d_o = to->dq = to->dk = to->dv = to->slopes = to->lost =
      to->d_statistics = to->d_captured = nowhere;
  to->ring = cuda_attention_rings(attention);
  to->ring_step = 0;
  to->score_place = to->score_gradient_place = NULL;
  memset(to->origin, 0, sizeof to->origin);  // numbers that are given to each launch
  memset(to->origin_term, 0, sizeof to->origin_term);
  memset(to->key_origin, 0, sizeof to->key_origin);
  memset(to->key_origin_term, 0, sizeof to->key_origin_term);
}

// Equal parts become one table, so that keys can hold its address.
static void key_squares(CudaKernels *kernels, const Squares *squares, Key *key) {
  const size_t bytes = sizeof *squares->part * (size_t)squares->part_count;
  int64_t at = map_get_bytes_or(&kernels->by_parts, squares->part, bytes, -1);
  if (at < 0) {
    at = kernels->parts.count;
    array_push(kernels->arena, &kernels->parts, arena_copy(kernels->arena, squares->part, bytes));
    map_put_bytes(&kernels->by_parts, squares->part, bytes, at);
  }
  key->as.squares.type = squares->type;
  key->as.squares.part_count = squares->part_count;
  key->as.squares.part = kernels->parts.at[at];
}

static void key_make(CudaKernels *kernels, const Instruction *instruction, Key *key) {
  static const Place nowhere;
  memset(key, 0, sizeof *key);
  key->kind = instruction->kind;
  switch (instruction->kind) {
    case INSTRUCTION_KERNEL:
      key_kernel(kernels, &instruction->as.kernel, key);
      break;
    case INSTRUCTION_ORDER:
      key_order(&instruction->as.order, key);
      break;
    case INSTRUCTION_GROUPED:
    case INSTRUCTION_GROUPED_SUM:
      key_grouped(kernels, &instruction->as.grouped, key);
      break;
    case INSTRUCTION_TAKE:
    case INSTRUCTION_PUT:
      key_take(kernels, &instruction->as.take, key);
      break;
    case INSTRUCTION_WINDOW:
    case INSTRUCTION_FOLD:
      key->as.window = instruction->as.window;
      key->as.window.x = key->as.window.out = nowhere;
      break;
    case INSTRUCTION_SQUARES:
      key_squares(kernels, &instruction->as.squares, key);
      break;
    default:
      key_attention(kernels, &instruction->as.attention, instruction->kind, key);
  }
}

AttentionScores cuda_attention_scores(const Plan *plan, const Attention *attention) {
  return (AttentionScores){attention->score ? plan->kernels[attention->score - 1] : NULL,
                           attention->score_gradient ? plan->kernels[attention->score_gradient - 1] : NULL};
}

static bool attention_make(const CudaKernels *kernels, const Attention *attention, InstructionKind kind, int alignment,
                           CudaKernel *made, const char **why) {
  const AttentionScores scores = cuda_attention_scores(kernels->plan, attention);
  return cuda_attention(attention, kind, alignment, &scores, &kernels->target, kernels->arena, made, why);
}

static bool kernel_make(const CudaKernels *kernels, const Key *key, CudaKernel *made, const char **why) {
  Arena *arena = kernels->arena;
  int alignment[KERNEL_MAX_PORTS];
  for (int p = 0; p < KERNEL_MAX_PORTS; p++) {
    alignment[p] = key->alignment[p];
  }
  switch (key->kind) {
    case INSTRUCTION_KERNEL:
      return cuda_generate(kernels->plan->kernels[key->kernel], alignment, &kernels->target, arena, made, why);
    case INSTRUCTION_ORDER:
      return cuda_order(&key->as.order, arena, made, why);
    case INSTRUCTION_GROUPED:
    case INSTRUCTION_GROUPED_SUM:
      return cuda_grouped(&key->as.grouped, key->kind == INSTRUCTION_GROUPED_SUM, alignment[0], &kernels->target, arena,
                          made, why);
    case INSTRUCTION_TAKE:
      return cuda_take(&key->as.take, key->as.take.type, key->as.take.type_out, alignment, arena, made, why);
    case INSTRUCTION_PUT:
      return cuda_put(&key->as.take, key->as.take.type, key->as.take.type_out, alignment, arena, made, why);
    case INSTRUCTION_WINDOW:
      return cuda_window(&key->as.window, arena, made, why);
    case INSTRUCTION_FOLD:
      return cuda_fold(&key->as.window, arena, made, why);
    case INSTRUCTION_SQUARES:
      return cuda_squares(&key->as.squares, arena, made, why);
    default:
      return attention_make(kernels, &key->as.attention, key->kind, alignment[0], made, why);
  }
}

const CudaKernel *cuda_instruction(CudaKernels *kernels, const Instruction *instruction, const char **why) {
  Key key;
  *why = NULL;
  if (!cuda_instruction_generates(instruction->kind)) {
    *why = "it is not generated";
    return NULL;
  }
  key_make(kernels, instruction, &key);
  const int64_t at = map_get_bytes_or(&kernels->by_key, &key, sizeof key, -1);
  if (at >= 0) {
    return &kernels->known.at[at]->kernel;
  }
  Known *made = ARENA_NEW(kernels->arena, Known);
  made->key = arena_copy(kernels->arena, &key, sizeof key);
  if (!kernel_make(kernels, made->key, &made->kernel, why)) {
    *why = *why ? *why : "no reason was given";
    return NULL;
  }
  map_put_bytes(&kernels->by_key, &key, sizeof key, kernels->known.count);
  array_push(kernels->arena, &kernels->known, made);
  return &made->kernel;
}
