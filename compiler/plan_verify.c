// plan_verify.c: extents of all operands, in arithmetic that cannot overflow.
#include "compiler/plan_verify.h"

#include <math.h>

typedef struct {
  Arena *arena;
  const Plan *plan;
  int slots;         // of the programs that call the segment at hand
  const char *what;  // the thing at hand
  const char *why;
} Verify;

static bool fail(Verify *v, const char *why) {
  if (!v->why) {
    v->why = arena_format(v->arena, "'%s' %s", v->what ? v->what : "?", why);
  }
  return false;
}

typedef struct {
  int64_t first, last;  // element offsets that are touched
  bool overflow;
} Extent;

static void extent_add(Extent *extent, int64_t size, int64_t stride) {
  int64_t reach;
  if (__builtin_mul_overflow(size - 1, stride, &reach)) {
    extent->overflow = true;
  } else {
    int64_t *end = reach < 0 ? &extent->first : &extent->last;
    extent->overflow |= __builtin_add_overflow(*end, reach, end);
  }
}

// Elements [first, last] of `bytes` bytes each at a place, in every slot.
static bool place_holds(Verify *v, Place place, Extent extent, int64_t bytes) {
  int64_t size = v->plan->arena_bytes[place.arena], low, high, shift;
  bool overflow = extent.overflow;
  overflow |= __builtin_mul_overflow(extent.first, bytes, &low);
  overflow |= __builtin_mul_overflow(extent.last, bytes, &high);
  overflow |= __builtin_add_overflow(high, bytes, &high);
  overflow |= __builtin_mul_overflow(place.slot_stride, (int64_t)(v->slots - 1), &shift);
  overflow |= __builtin_add_overflow(low, place.offset, &low);
  overflow |= __builtin_add_overflow(high, place.offset, &high);
  overflow |= __builtin_add_overflow(shift < 0 ? low : high, shift, shift < 0 ? &low : &high);
  if (overflow || low < 0 || high > size) {
    return fail(v, "lies outside its arena");
  }
  if (bytes < 1 || place.offset % bytes || place.slot_stride % bytes) {
    return fail(v, "is not aligned to its element type");
  }
  return true;
}

static bool sizes_hold(Verify *v, const int64_t *size, int count) {
  for (int i = 0; i < count; i++) {
    if (size[i] < 1) {
      return fail(v, "has a size below 1");
    }
  }
  return true;
}

static bool strided_holds(Verify *v, Place place, ElementType type, int count, const int64_t *size,
                          const int64_t *stride) {
  Extent extent = {0};
  for (int i = 0; i < count; i++) {
    extent_add(&extent, size[i], stride[i]);
  }
  return place_holds(v, place, extent, element_type_bytes(type));
}

static bool kernel_holds(Verify *v, const KernelCall *call) {
  if (call->kernel < 0 || call->kernel >= v->plan->kernel_count) {
    return fail(v, "calls a kernel that is not there");
  }
  const Kernel *kernel = v->plan->kernels[call->kernel];
  for (int i = 0; i < kernel->port_count; i++) {
    const KernelPort *port = &kernel->port[i];
    if (port->kind != PORT_STRIDES &&
        !strided_holds(v, call->place[i], port->type, kernel->dim_count, kernel->size, port->stride)) {
      return false;
    }
  }
  return true;
}

static bool gemm_operand_holds(Verify *v, const Gemm *gemm, Place place, int64_t rows, int64_t columns, int64_t stride,
                               const int64_t *batch_stride) {
  Extent extent = {0};
  if (stride < columns) {
    return fail(v, "has a leading dimension shorter than its rows");
  }
  extent_add(&extent, rows, stride);
  extent_add(&extent, columns, 1);
  for (int i = 0; i < gemm->batch_count; i++) {
    extent_add(&extent, gemm->batch[i], batch_stride[i]);
  }
  return place_holds(v, place, extent, element_type_bytes(gemm->type));
}

static bool gemm_holds(Verify *v, const Gemm *gemm) {
  int64_t sizes[] = {gemm->m, gemm->n, gemm->k};
  if (!sizes_hold(v, sizes, 3) || !sizes_hold(v, gemm->batch, gemm->batch_count)) {
    return false;
  }
  bool ta = gemm->transpose_a, tb = gemm->transpose_b;
  return gemm_operand_holds(v, gemm, gemm->a, ta ? gemm->k : gemm->m, ta ? gemm->m : gemm->k, gemm->lda,
                            gemm->stride_a) &&
         gemm_operand_holds(v, gemm, gemm->b, tb ? gemm->n : gemm->k, tb ? gemm->k : gemm->n, gemm->ldb,
                            gemm->stride_b) &&
         gemm_operand_holds(v, gemm, gemm->c, gemm->m, gemm->n, gemm->ldc, gemm->stride_c);
}

static bool take_holds(Verify *v, const Take *take, bool put) {
  int count = take->dim_count;
  if (!sizes_hold(v, take->size, count) || !sizes_hold(v, &take->extent, 1)) {
    return false;
  }
  Extent x = {0};
  for (int i = 0; i < count; i++) {
    extent_add(&x, take->size[i], take->stride_x[i]);
  }
  extent_add(&x, take->extent, take->stride_axis);
  if (put) {
    Extent zeroed = {0};
    if (take->x_elements < 0) {
      return fail(v, "clears fewer than no elements");
    }
    extent_add(&zeroed, take->x_elements > 0 ? take->x_elements : 1, 1);
    if (!place_holds(v, take->x, zeroed, element_type_bytes(take->type))) {
      return false;
    }
  }
  return place_holds(v, take->x, x, element_type_bytes(take->type)) &&
         strided_holds(v, take->index, TYPE_INDEX, count, take->size, take->stride_index) &&
         strided_holds(v, take->out, take->type, count, take->size, take->stride_out);
}

static bool window_holds(Verify *v, const Window *window) {
  int count = window->dim_count;
  if (!sizes_hold(v, window->size, count) || !sizes_hold(v, &window->taps, 1)) {
    return false;
  }
  if (window->windowed < 0 || window->windowed >= count) {
    return fail(v, "is windowed along a dimension that it does not have");
  }
  Extent out = {0};
  for (int i = 0; i < count; i++) {
    extent_add(&out, window->size[i], window->stride_out[i]);
  }
  extent_add(&out, window->taps, window->stride_tap);
  return place_holds(v, window->out, out, element_type_bytes(window->type)) &&
         strided_holds(v, window->x, window->type, count, window->size, window->stride_x);
}

static bool attention_operand_holds(Verify *v, const Attention *a, Place place, bool key, int64_t depth,
                                    const int64_t *stride) {
  Extent extent = {0};
  extent_add(&extent, a->batch, stride[0]);
  extent_add(&extent, key ? a->keys : a->queries, stride[1]);
  extent_add(&extent, a->heads, stride[2]);
  if (!key) {
    extent_add(&extent, a->groups, stride[3]);
  }
  extent_add(&extent, depth, 1);
  return place_holds(v, place, extent, element_type_bytes(a->type));
}

static bool attention_holds(Verify *v, const Attention *a, bool grad) {
  int64_t sizes[] = {a->batch, a->queries, a->keys, a->heads, a->groups, a->depth, a->value_depth};
  if (!sizes_hold(v, sizes, 7)) {
    return false;
  }
  Extent statistics = {0};
  int64_t rows = 1;
  int64_t dims[] = {a->batch, a->heads, a->groups, a->queries};
  for (int i = 0; i < 4; i++) {
    statistics.overflow |= __builtin_mul_overflow(rows, dims[i], &rows);
  }
  if (!statistics.overflow) {
    extent_add(&statistics, rows, 1);
  }
  bool forward = attention_operand_holds(v, a, a->q, false, a->depth, a->stride_q) &&
                 attention_operand_holds(v, a, a->k, true, a->depth, a->stride_k) &&
                 attention_operand_holds(v, a, a->v, true, a->value_depth, a->stride_v) &&
                 attention_operand_holds(v, a, a->o, false, a->value_depth, a->stride_o) &&
                 place_holds(v, a->statistics, statistics, element_type_bytes(v->plan->real));
  return forward && (!grad || (attention_operand_holds(v, a, a->d_o, false, a->value_depth, a->stride_do) &&
                               attention_operand_holds(v, a, a->dq, false, a->depth, a->stride_dq) &&
                               attention_operand_holds(v, a, a->dk, true, a->depth, a->stride_dk) &&
                               attention_operand_holds(v, a, a->dv, true, a->value_depth, a->stride_dv)));
}

static bool instruction_holds(Verify *v, const Instruction *instruction) {
  Span span = instruction->span;
  v->what = instruction->name ? instruction->name : instruction_kind_name(instruction->kind);
  if (span.file < -1 || span.file >= v->plan->source_count ||
      (span.file >= 0 && (span.begin > span.end || span.end > v->plan->sources[span.file].length))) {
    return fail(v, "points at text that is not there");
  }
  switch (instruction->kind) {
    case INSTRUCTION_KERNEL:
      return kernel_holds(v, &instruction->as.kernel);
    case INSTRUCTION_GEMM:
      return gemm_holds(v, &instruction->as.gemm);
    case INSTRUCTION_TAKE:
    case INSTRUCTION_PUT:
      return take_holds(v, &instruction->as.take, instruction->kind == INSTRUCTION_PUT);
    case INSTRUCTION_WINDOW:
    case INSTRUCTION_FOLD:
      return window_holds(v, &instruction->as.window);
    case INSTRUCTION_ATTENTION:
    case INSTRUCTION_ATTENTION_GRAD:
      return attention_holds(v, &instruction->as.attention, instruction->kind == INSTRUCTION_ATTENTION_GRAD);
    case INSTRUCTION_KIND_COUNT:
      break;
  }
  return fail(v, "is an unknown instruction");
}

static bool kernels_hold(Verify *v) {
  for (int i = 0; i < v->plan->kernel_count; i++) {
    v->what = arena_format(v->arena, "kernel %d", i);
    const char *why = kernel_verify(v->plan->kernels[i]);
    if (why) {
      return fail(v, why);
    }
  }
  return true;
}

static bool states_hold(Verify *v) {
  v->slots = 1;
  for (int i = 0; i < v->plan->state_count; i++) {
    const PlanState *state = &v->plan->states[i];
    v->what = state->name;
    for (int a = 0; a < state->axis_count; a++) {
      if (state->stride[a] < 0 || (state->stride[a] == 0 && state->size[a] > 1)) {
        return fail(v, "has two elements in one place");
      }
    }
    if (!sizes_hold(v, state->size, state->axis_count) ||
        !strided_holds(v, (Place){ARENA_PERSISTENT, state->offset, 0}, state->type, state->axis_count, state->size,
                       state->stride)) {
      return false;
    }
  }
  return true;
}

static bool program_holds(Verify *v, const PlanProgram *program) {
  v->slots = program->slots;
  if (program->call_count > 0 && (program->slots < 1 || program->slots > 1 << 24)) {
    return fail(v, "has no slots");
  }
  if (program->transient_bytes > v->plan->arena_bytes[ARENA_TRANSIENT]) {
    return fail(v, "needs more transient memory than there is");
  }
  for (int i = 0; i < program->input_count; i++) {
    const PlanInput *input = &program->inputs[i];
    Extent extent = {0};
    int64_t elements = 1;
    v->what = input->name;
    if (!sizes_hold(v, input->size, input->axis_count)) {
      return false;
    }
    for (int a = 0; a < input->axis_count; a++) {
      extent.overflow |= __builtin_mul_overflow(elements, input->size[a], &elements);
    }
    extent.last = elements - 1;
    if (!place_holds(v, input->place, extent, element_type_bytes(input->type))) {
      return false;
    }
  }
  for (int i = 0; i < program->output_count; i++) {
    const PlanOutput *output = &program->outputs[i];
    v->what = output->name;
    if (!sizes_hold(v, output->size, output->axis_count) ||
        !strided_holds(v, output->place, output->type, output->axis_count, output->size, output->stride)) {
      return false;
    }
  }
  return true;
}

// Each segment is checked once, with the highest slot that any call gives it.
static bool segments_hold(Verify *v) {
  const Plan *plan = v->plan;
  int *slots = ARENA_ARRAY(v->arena, int, plan->segment_count + 1);
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    const PlanProgram *program = &plan->programs[p];
    v->what = program_kind_name((ProgramKind)p);
    for (int i = 0; i < program->call_count; i++) {
      const PlanCall *call = &program->calls[i];
      if (call->segment < 0 || call->segment >= plan->segment_count || call->slot < 0 || call->slot >= program->slots) {
        return fail(v, "calls a segment or a slot that is not there");
      }
      slots[call->segment] = call->slot + 1 > slots[call->segment] ? call->slot + 1 : slots[call->segment];
    }
  }
  for (int s = 0; s < plan->segment_count; s++) {
    v->slots = slots[s] > 0 ? slots[s] : 1;
    for (int i = 0; i < plan->segments[s].count; i++) {
      if (!instruction_holds(v, &plan->segments[s].instructions[i])) {
        return false;
      }
    }
  }
  return true;
}

const char *plan_verify(Arena *arena, const Plan *plan) {
  Verify v = {.arena = arena, .plan = plan, .slots = 1, .what = "plan"};
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    if (plan->arena_bytes[i] < 0) {
      fail(&v, "has an arena of negative size");
      return v.why;
    }
  }
  bool good = kernels_hold(&v) && states_hold(&v);
  for (int i = 0; good && i < PROGRAM_COUNT; i++) {
    v.what = program_kind_name((ProgramKind)i);
    good = program_holds(&v, &plan->programs[i]);
  }
  good = good && segments_hold(&v);
  return good ? NULL : v.why;
}
