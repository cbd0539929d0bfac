// verify_instruction.c: whether an instruction is possible by itself, and the extents of its operands.
//
// Each field is within its own bounds already (check_fields.c): here is what fields say together.
#include <string.h>

#include "compiler/plan/check.h"

static bool is_format(ElementType type) {
  return element_type_floating(type) && type != TYPE_REAL;
}

// What cuBLASLt takes of products with one scale for each block: no partial blocks, scales in whole vectors of 16
// bytes.
static bool blocks_hold(PlanCheck *v, const Gemm *gemm) {
  enum { VECTOR = 4 };
  if (gemm->block == 0) {
    return !(gemm->square_a || gemm->square_b) || check_fail(v, "has square blocks of no size");
  }
  if (gemm->block != SCALE_BLOCK || !gemm_scaled(gemm) || gemm->k % SCALE_BLOCK || (gemm->square_a && gemm->square_b) ||
      (gemm->square_a && gemm->m % SCALE_BLOCK) || (gemm->square_b && gemm->n % SCALE_BLOCK)) {
    return check_fail(v, "has scales for blocks that its operands are not made of");
  }
  enum { VECTOR_BYTES = 16 };
  if (gemm->scale_a.offset % VECTOR_BYTES || gemm->scale_b.offset % VECTOR_BYTES || gemm->m % VECTOR ||
      gemm->n % VECTOR || gemm->ld_scale_a % VECTOR || gemm->ld_scale_b % VECTOR ||
      gemm->ld_scale_a < gemm_scale_columns(gemm, true) || gemm->ld_scale_b < gemm_scale_columns(gemm, false)) {
    return check_fail(v, "has rows of scales that are no whole vectors");
  }
  return (gemm->batch_count == 0 && gemm->epilogue == EPILOGUE_NONE && !gemm->fast) ||
         check_fail(v, "has scales for blocks, and a batch, a bias or a fast sum");
}

static bool scaled_types_hold(PlanCheck *v, const Gemm *gemm) {
  const bool quarters = element_type_bytes(gemm->type) == 1 && element_type_bytes(gemm->type_b) == 1;
  if (!quarters || (gemm->type == TYPE_E5M2 && gemm->type_b == TYPE_E5M2)) {
    return check_fail(v, "multiplies formats of 8 bits that do not go together");
  }
  const bool half = gemm->type_c == TYPE_BF16 || gemm->type_c == TYPE_F16;
  if (gemm->tf32 || !(half || gemm->type_c == TYPE_F32)) {
    return check_fail(v, "makes of numbers of 8 bits what is no product of them in a wider format");
  }
  return gemm->epilogue == EPILOGUE_NONE || half || check_fail(v, "adds a bias in f32 to a product of 8 bits");
}

// Of products of two matrices of one type.
static bool product_types_hold(PlanCheck *v, ElementType type, ElementType type_c, bool tf32) {
  const bool narrow = element_type_bytes(type) < element_type_bytes(TYPE_F32);
  if (!is_format(type) || (type_c != type && !(narrow && type_c == TYPE_F32))) {
    return check_fail(v, "multiplies into a type that its operands cannot give");
  }
  return !tf32 || type == TYPE_F32 || check_fail(v, "rounds to TensorFloat-32 what is not f32");
}

static bool gemm_types_hold(PlanCheck *v, const Gemm *gemm) {
  if (gemm_scaled(gemm)) {
    return scaled_types_hold(v, gemm);
  }
  if (gemm->fast) {
    return check_fail(v, "sums with fewer bits what has more than 8");
  }
  if (gemm->type_b != gemm->type) {
    return check_fail(v, "multiplies matrices of two types");
  }
  return product_types_hold(v, gemm->type, gemm->type_c, gemm->tf32);
}

static bool gemm_holds(PlanCheck *v, const Gemm *gemm) {
  const int64_t a[] = {gemm->m, gemm->k}, b[] = {gemm->k, gemm->n}, c[] = {gemm->m, gemm->n};
  if (!check_batch(v, a, 2, gemm->batch, gemm->batch_count) || !check_batch(v, b, 2, gemm->batch, gemm->batch_count) ||
      !check_batch(v, c, 2, gemm->batch, gemm->batch_count) || !gemm_types_hold(v, gemm) || !blocks_hold(v, gemm)) {
    return false;
  }
  if (gemm->lda < (gemm->transpose_a ? gemm->m : gemm->k) || gemm->ldb < (gemm->transpose_b ? gemm->k : gemm->n) ||
      gemm->ldc < gemm->n) {
    return check_fail(v, "has a leading dimension shorter than its rows");
  }
  return gemm->epilogue == EPILOGUE_NONE || (gemm->write == WRITE_STORE && gemm->batch_count == 0) ||
         check_fail(v, "adds a bias to what it does not store, or to a batch");
}

// In blocks, and few enough for an index to count them.
static bool rows_hold(PlanCheck *v, int64_t rows, int64_t block) {
  return (rows <= INT32_MAX && rows % block == 0) ||
         check_fail(v, "has rows that are no whole blocks, or more than there can be");
}

static bool order_holds(PlanCheck *v, const Order *order) {
  const int64_t sizes[] = {order->count, order->extent};
  if (!check_sizes(v, sizes, 2) || !rows_hold(v, order->capacity, order->block)) {
    return false;
  }
  return (order->count <= INT32_MAX && order->extent <= INT32_MAX) ||
         check_fail(v, "orders more than an index can count");
}

// Do `inner` elements, `count` times in steps of `stride`, lie apart? *reach: from the first to behind the last.
static bool steps_apart(int64_t inner, int64_t count, int64_t stride, int64_t *reach) {
  return (count == 1 || stride >= inner) && !__builtin_mul_overflow(count - 1, stride, reach) &&
         !__builtin_add_overflow(*reach, inner, reach);
}

// Rows within matrices, or matrices within rows.
static bool matrices_apart(const Grouped *g, int64_t lines, int64_t line, int64_t ld) {
  int64_t reach;
  return (steps_apart(line, lines, ld, &reach) && steps_apart(reach, g->extent, g->stride, &reach)) ||
         (steps_apart(line, g->extent, g->stride, &reach) && steps_apart(reach, lines, ld, &reach));
}

static bool grouped_holds(PlanCheck *v, const Grouped *g, bool sums) {
  const int64_t width = sums ? g->m : g->k, matrices[] = {g->extent, width, g->n};
  const int64_t a[] = {g->rows, width}, other[] = {g->rows, g->n};  // of b or c
  if (!rows_hold(v, g->rows, g->block) || !check_sizes(v, matrices, 3) || !check_sizes(v, a, 2) ||
      !check_sizes(v, other, 2)) {
    return false;
  }
  if (element_type_bytes(g->type) == 1) {
    return check_fail(v, "multiplies numbers of 8 bits with a matrix of several");
  }
  if (!product_types_hold(v, g->type, g->type_c, g->tf32)) {
    return false;
  }
  if ((sums ? g->k : g->m) != 1 || (sums && g->transpose_b) || g->extent > INT32_MAX) {
    return check_fail(v, "has sizes that it does not use, or more matrices than an index can count");
  }
  if (g->leaves && (sums || g->write != WRITE_STORE)) {
    return check_fail(v, "leaves rows as they are, and does not store them");
  }
  const int64_t ld = sums ? g->ldc : g->ldb, line = g->transpose_b ? g->k : g->n;  // of the matrices
  if (g->lda < width || ld < line || (sums ? g->ldb : g->ldc) < g->n) {
    return check_fail(v, "has a leading dimension shorter than its rows");
  }
  return matrices_apart(g, g->transpose_b ? g->n : width, line, ld) ||
         check_fail(v, "has matrices that lie in each other");
}

static bool take_holds(PlanCheck *v, const Take *take, bool put) {
  if (!check_sizes(v, take->size, take->dim_count)) {
    return false;
  }
  if (take->summed > 0 && (put || !is_format(take->type) || !is_format(take->type_out))) {
    return check_fail(v, "sums over dimensions where that cannot be");
  }
  if (take->parts > 0 && (put || take->summed > 0 || take->dim_count == 0 || take->size[0] % take->parts != 0)) {
    return check_fail(v, "has parts that its first dimension is not made of");
  }
  for (int d = take->dim_count - take->summed; d < take->dim_count; d++) {
    if (take->stride_out[d] != 0) {
      return check_fail(v, "sums over a dimension that its result has");
    }
  }
  return take->type == take->type_out || (is_format(take->type) && is_format(take->type_out)) ||
         check_fail(v, "moves elements of one type to another that they do not fit");
}

static bool window_holds(PlanCheck *v, const Window *window) {
  if (!check_batch(v, window->size, window->dim_count, &window->taps, 1)) {
    return false;
  }
  // From tap to tap, also where all but one lie outside.
  int64_t reach;
  return (!__builtin_mul_overflow(window->taps, window->stride_x[window->windowed], &reach) &&
          !__builtin_mul_overflow(window->taps, window->stride_out[window->windowed], &reach) &&
          !__builtin_mul_overflow(window->taps, window->stride_tap, &reach)) ||
         check_fail(v, "has taps beyond what can be counted");
}

static bool squares_hold(PlanCheck *v, const Squares *squares) {
  return squares->type == TYPE_F32 || squares->type == TYPE_F64 || check_fail(v, "squares what is neither f32 nor f64");
}

// Where the queries, or the keys, stand.
static bool positions_hold(PlanCheck *v, int parts, int64_t size, const int64_t *first, const int *term) {
  if (size % (parts ? parts : 1)) {
    return check_fail(v, "has its queries or keys in impossible parts");
  }
  for (int i = 0; i < parts; i++) {
    Place origin = {.offset = first[i], .term = term[i]};
    if (!check_base(v, &origin)) {
      return false;
    }
  }
  return true;
}

// Is there a group of these mesh axes, none of them the pipeline's, with more than `step` ranks?
static bool group_holds(PlanCheck *v, uint32_t mesh, int step) {
  const Plan *plan = v->plan;
  int64_t ranks = 1;
  if (plan->pipeline >= 0 && mesh >> plan->pipeline & 1) {
    return check_fail(v, "is a collective of several stages, which do not run the same list");
  }
  for (int i = 0; i < plan->mesh_count; i++) {
    ranks *= mesh >> i & 1 ? plan->mesh[i].size : 1;
  }
  return step < ranks || check_fail(v, "has the keys of a rank that is not in the ring");
}

// A kernel of scores, over the space of the attention: its first ports are those of ScorePort, all others are read.
// `gradient`: it is the one of the gradient, which that of the score comes into.
static bool score_holds(PlanCheck *v, const Attention *a, int score, bool gradient) {
  static const PortKind kinds[] = {PORT_INPUT, PORT_INPUT, PORT_STRIDES, PORT_STRIDES, PORT_OUTPUT};
  const int64_t size[SCORE_DIMS] = {a->batch, a->heads, a->groups, a->keys, a->queries};
  const Kernel *kernel = score ? v->plan->kernels[score - 1] : NULL;
  if (!kernel) {
    return true;
  }
  bool good = kernel->dim_count == SCORE_DIMS && memcmp(kernel->size, size, sizeof size) == 0 &&
              !kernel->row_reductions && kernel->parts == 0 && kernel->port_count >= SCORE_CAPTURED &&
              kernel->real == v->plan->real;
  for (int i = 0; good && i < kernel->port_count; i++) {
    const KernelPort *port = &kernel->port[i];
    good = port->kind == (i < SCORE_CAPTURED ? kinds[i] : PORT_INPUT) && !port->accumulate &&
           (port->kind == PORT_STRIDES || i >= SCORE_CAPTURED || port->type == kernel->real);
  }
  for (int i = 0; good && i < kernel->code_count; i++) {
    const KernelOp op = kernel->code[i].op;
    good = (gradient || op != KERNEL_LOAD || kernel->code[i].port != SCORE_GRADIENT) && op != KERNEL_UNIFORM &&
           op != KERNEL_NORMAL && (!op_is_output(op) || op == KERNEL_STORE);
  }
  return good || check_fail(v, "makes scores by a kernel that does something else");
}

// Whoever makes a sum owns it.
static bool captured_holds(const Attention *a) {
  const int64_t *stride = a->stride_captured, lines[] = {a->batch, a->heads, a->groups};
  bool apart = true;
  for (int i = 0; i < 3; i++) {
    apart = apart && (lines[i] == 1 || stride[i] != 0);
  }
  return a->score && a->score_gradient && (a->by == CAPTURED_BY_PAIR || apart) &&
         (a->by == CAPTURED_BY_QUERY || !a->more) && (a->by != CAPTURED_BY_QUERY || stride[SCORE_DIM_KEY] == 0) &&
         (a->by != CAPTURED_BY_KEY || stride[SCORE_DIM_QUERY] == 0);
}

static bool attention_holds(PlanCheck *v, const Attention *a, InstructionKind kind) {
  const int64_t queries[] = {a->batch, a->queries, a->heads, a->groups, a->depth};
  const int64_t values[] = {a->batch, a->queries, a->heads, a->groups, a->value_depth};
  const int64_t keys[] = {a->batch, a->keys, a->heads, a->depth},
                taken[] = {a->batch, a->keys, a->heads, a->value_depth};
  if (!check_sizes(v, queries, 5) || !check_sizes(v, values, 5) || !check_sizes(v, keys, 4) ||
      !check_sizes(v, taken, 4)) {
    return false;
  }
  if (!is_format(a->type) || (a->type == TYPE_F64) != (v->plan->real == TYPE_F64)) {
    return check_fail(v, "attends in a type that does not go with the statistics");
  }
  if (!positions_hold(v, a->parts, a->queries, a->origin, a->origin_term) ||
      !positions_hold(v, a->key_parts, a->keys, a->key_origin, a->key_origin_term) ||
      !group_holds(v, a->ring, a->ring ? a->ring_step : 0) || !score_holds(v, a, a->score, false) ||
      !score_holds(v, a, a->score_gradient, true)) {
    return false;
  }
  if (a->score ? a->biased || a->scale != 1 : a->window != 0) {
    return check_fail(v, "has biases or a scale besides scores of a kernel, or a window without");
  }
  if (kind == INSTRUCTION_ATTENTION_CAPTURED && !captured_holds(a)) {
    return check_fail(v, "sums what scores capture in a way that there is not");
  }
  if (!a->ring && a->ring_step != 0) {
    return check_fail(v, "has keys that are nowhere");
  }
  bool narrow = element_type_bytes(a->type) < element_type_bytes(TYPE_F32);
  return !((a->more || a->more_keys) && narrow && !a->wide) || check_fail(v, "adds a block of keys to what is rounded");
}

static bool piece_holds(PlanCheck *v, const Piece *piece) {
  uint32_t used = 0;
  if (!check_mesh_axes(v, piece->mesh_count, piece->mesh, &used)) {
    return false;
  }
  return parts_reach(plan_parts(v->plan, piece->mesh, piece->mesh_count), piece->piece, piece->first + piece->count) ||
         check_fail(v, "lies outside the arena that is cut into pieces");
}

static bool collective_holds(PlanCheck *v, const Collective *collective) {
  const Plan *plan = v->plan;
  int64_t ranks = 1, all;
  for (int i = 0; i < plan->mesh_count; i++) {
    ranks *= collective->mesh >> i & 1 ? plan->mesh[i].size : 1;
  }
  if (collective->mesh == 0) {
    return check_fail(v, "is among mesh axes that are not there");
  }
  if (!group_holds(v, collective->mesh, 0)) {
    return false;
  }
  if (ranks != collective->ranks) {
    return check_fail(v, "is a collective of another number of ranks than its mesh axes have");
  }
  if (__builtin_mul_overflow(collective->count, ranks, &all) || all > PLAN_MOST_BYTES) {
    return check_fail(v, "has an impossible count");
  }
  return true;
}

// Does this rank's block of a sum come to lie where it was?
static bool leaves_its_block(const Plan *plan, const Collective *collective) {
  Place block = collective->from;
  int64_t stride = collective->count * element_type_bytes(collective->type);
  bool same = collective->from.term == 0;
  for (int m = plan->mesh_count - 1; m >= 0; m--) {
    const bool among = collective->mesh >> m & 1;
    same &= plan->terms[collective->to.term].stride[m] == (among ? stride : 0);
    stride *= among ? plan->mesh[m].size : 1;
  }
  block.term = collective->to.term;
  return same && place_same(&block, &collective->to);
}

static bool operands_meet(PlanCheck *v, const Operand *a, const Operand *b) {
  return places_meet(v, a->place, (a->extent.last + 1) * a->bytes, b->place, (b->extent.last + 1) * b->bytes);
}

// Nothing is read, or written, where something else is written: whole lines are copied.
static bool operands_apart(PlanCheck *v, const Operands *operands) {
  for (int i = 0; i < operands->count; i++) {
    for (int j = 0; j < operands->count; j++) {
      const Operand *to = &operands->at[i], *other = &operands->at[j];
      if (i != j && (to->access & WRITES) && to->memory && other->memory && operands_meet(v, to, other)) {
        return check_fail(v, "writes what it reads, or twice");
      }
    }
  }
  return true;
}

// Once its operands are inside their arenas.
static bool apart_holds(PlanCheck *v, const Operands *operands) {
  const Operand *from = &operands->at[0], *to = &operands->at[1];
  const Collective *collective = &v->instruction->as.collective;
  if (!operands_meet(v, from, to)) {
    return true;
  }
  // Each rank writes what it alone reads.
  const bool in_place = place_same(from->place, to->place);
  return (in_place && from->extent.last == to->extent.last && collective->kind == COLLECTIVE_ALL_REDUCE) ||
         (collective->kind == COLLECTIVE_REDUCE_SCATTER && leaves_its_block(v->plan, collective)) ||
         check_fail(v, "receives where it sends from");
}

// A plan without a pipeline has one stage.
static bool transfer_holds(PlanCheck *v, const Transfer *transfer) {
  return transfer->peer != v->plan->stage || check_fail(v, "is a message to or from a stage that is not there");
}

static bool offloaded_somewhere(const Plan *plan, const Offload *fetch) {
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Instruction *at = &plan->segments[s].instructions[i];
      if (at->kind == INSTRUCTION_OFFLOAD && at->as.offload.bytes == fetch->bytes &&
          places_same(&at->as.offload.host, &fetch->host)) {
        return true;
      }
    }
  }
  return false;
}

static bool offload_holds(PlanCheck *v, const Offload *copy, bool fetches) {
  if (copy->device.arena != ARENA_TRANSIENT || copy->host.arena != ARENA_OFFLOAD) {
    return check_fail(v, "copies from or to where it may not");
  }
  return !fetches || offloaded_somewhere(v->plan, copy) || check_fail(v, "fetches what was never offloaded");
}

static bool span_holds(const Plan *plan, Span span) {
  return span.file == -1 || (span.file >= 0 && span.file < plan->source_count && span.begin <= span.end &&
                             span.end <= plan->sources[span.file].length);
}

// Whether it is possible by itself; where its operands lie is another question.
static bool is_possible(PlanCheck *v, const Instruction *instruction) {
  switch (instruction->kind) {
    case INSTRUCTION_GEMM:
      return gemm_holds(v, &instruction->as.gemm);
    case INSTRUCTION_ORDER:
      return order_holds(v, &instruction->as.order);
    case INSTRUCTION_GROUPED:
    case INSTRUCTION_GROUPED_SUM:
      return grouped_holds(v, &instruction->as.grouped, instruction->kind == INSTRUCTION_GROUPED_SUM);
    case INSTRUCTION_TAKE:
    case INSTRUCTION_PUT:
      return take_holds(v, &instruction->as.take, instruction->kind == INSTRUCTION_PUT);
    case INSTRUCTION_WINDOW:
    case INSTRUCTION_FOLD:
      return window_holds(v, &instruction->as.window);
    case INSTRUCTION_ATTENTION:
    case INSTRUCTION_ATTENTION_GRAD:
    case INSTRUCTION_ATTENTION_CAPTURED:
      return attention_holds(v, &instruction->as.attention, instruction->kind);
    case INSTRUCTION_PIECE:
      return piece_holds(v, &instruction->as.piece);
    case INSTRUCTION_SQUARES:
      return squares_hold(v, &instruction->as.squares);
    case INSTRUCTION_COLLECTIVE:
      return collective_holds(v, &instruction->as.collective);
    case INSTRUCTION_SEND:
    case INSTRUCTION_RECEIVE:
      return transfer_holds(v, &instruction->as.transfer);
    case INSTRUCTION_OFFLOAD:
    case INSTRUCTION_FETCH:
      return offload_holds(v, &instruction->as.offload, instruction->kind == INSTRUCTION_FETCH);
    case INSTRUCTION_KERNEL:
    case INSTRUCTION_KIND_COUNT:  // which has no fields (check_fields.c)
      break;
  }
  return true;
}

bool check_instruction(PlanCheck *v, const Instruction *instruction) {
  v->what = instruction->name ? instruction->name : instruction_kind_name(instruction->kind);
  if (!span_holds(v->plan, instruction->span) || !span_holds(v->plan, instruction->rule)) {
    return check_fail(v, "points at text that is not there");
  }
  if (!check_fields(v, instruction) || !is_possible(v, instruction)) {
    return false;
  }
  Operands operands;
  instruction_touches(v->plan, instruction, &operands);
  for (int i = 0; i < operands.count; i++) {
    if (!check_operand(v, &operands.at[i])) {
      return false;
    }
  }
  switch (instruction->kind) {
    case INSTRUCTION_COLLECTIVE:
      return apart_holds(v, &operands);
    case INSTRUCTION_ORDER:
    case INSTRUCTION_TAKE:
    case INSTRUCTION_PUT:
    case INSTRUCTION_WINDOW:
    case INSTRUCTION_FOLD:
    case INSTRUCTION_PIECE:
      return operands_apart(v, &operands);
    default:  // element by element; those of several operands may alternate
      return true;
  }
}
