// operands.c: see operands.h.
#include "compiler/plan/operands.h"

void extent_add(Extent *extent, int64_t size, int64_t stride) {
  int64_t reach;
  if (__builtin_mul_overflow(size - 1, stride, &reach)) {
    extent->overflow = true;
  } else {
    int64_t *end = reach < 0 ? &extent->first : &extent->last;
    extent->overflow |= __builtin_add_overflow(*end, reach, end);
  }
  if (size > 1 && stride != 0 && extent->dim_count == EXTENT_DIMS) {
    extent->whole = true;
  } else if (size > 1 && stride != 0) {
    extent->size[extent->dim_count] = size;
    extent->stride[extent->dim_count++] = stride;
  }
}

static void extent_dims(Extent *extent, int count, const int64_t *size, const int64_t *stride) {
  for (int i = 0; i < count; i++) {
    extent_add(extent, size[i], stride[i]);
  }
}

static void extent_dense(Extent *extent, int count, const int64_t *size) {
  int64_t elements = 1;
  for (int i = 0; i < count; i++) {
    extent->overflow |= __builtin_mul_overflow(elements, size[i], &elements);
  }
  extent_add(extent, elements, 1);
}

static void extent_range(Extent *extent, int64_t first, int64_t last) {
  extent->whole |= first < extent->first || last > extent->last;
  extent->first = first < extent->first ? first : extent->first;
  extent->last = last > extent->last ? last : extent->last;
}

// --- of single instructions ---

// Elements of a piece that an arena's elements fall into, on whatever rank holds them.
static int64_t piece_low(const Piece *piece) {
  const bool one = piece->first / piece->piece == (piece->first + piece->count - 1) / piece->piece;
  return one ? piece->first % piece->piece : 0;
}

static int64_t piece_high(const Piece *piece) {
  const int64_t last = piece->first + piece->count - 1;
  return piece->first / piece->piece == last / piece->piece ? last % piece->piece : piece->piece - 1;
}

static int64_t squares_last(const Squares *squares) {
  int64_t last = 0;
  for (int i = 0; i < squares->part_count; i++) {
    const int64_t end = squares->part[i].first + squares->part[i].count - 1;
    last = end > last ? end : last;
  }
  return last;
}

// Of `count` elements each, one for each rank of the group or one in all.
static int64_t collective_blocks(const Collective *collective, bool to) {
  const CollectiveKind kind = collective->kind;
  const bool many = kind == COLLECTIVE_ALL_TO_ALL || kind == (to ? COLLECTIVE_ALL_GATHER : COLLECTIVE_REDUCE_SCATTER);
  return many ? collective->ranks : 1;
}

static void add(Operands *out, Operand operand) {
  out->at[out->count++] = operand;
}

static void ports(OperandsOf of, const KernelCall *call, Operands *out) {
  const Kernel *kernel = of.kernels[call->kernel];
  for (int i = 0; i < kernel->port_count; i++) {
    const KernelPort *port = &kernel->port[i];
    Extent extent = {0};
    const int64_t one = 1;
    if (port->kind == PORT_CHOSEN) {
      extent_dims(&extent, 1, &kernel->parts, &one);
    }
    extent_dims(&extent, port->kind == PORT_STRIDES ? 0 : kernel->dim_count, kernel->size, port->stride);
    add(out, (Operand){&call->place[i], NULL, i, port->kind != PORT_STRIDES,
                       port->kind != PORT_OUTPUT ? READS
                       : port->accumulate        ? UPDATES
                                                 : WRITES,
                       element_type_bytes(port->type), extent});
  }
}

// What a kernel of scores reads, but for what it makes them of.
static void captured(OperandsOf of, int score, Place *place, Operands *out) {
  const Kernel *kernel = score > 0 ? of.kernels[score - 1] : NULL;
  for (int i = SCORE_CAPTURED; kernel && i < kernel->port_count; i++) {
    Extent extent = {0};
    extent_dims(&extent, kernel->dim_count, kernel->size, kernel->port[i].stride);
    add(out, (Operand){&place[i], "captured", -1, true, READS, element_type_bytes(kernel->port[i].type), extent});
  }
}

// --- by instructions.def ---

#define is(KIND) (kind == INSTRUCTION_##KIND)
#define DIM(size, stride) extent_add(&extent, size, stride);
#define DIMS(count, sizes, strides) extent_dims(&extent, count, sizes, strides);
#define DENSE(...) \
  extent_dense(&extent, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__});
#define RANGE(first, last) extent_range(&extent, first, last);

#define STRUCT(Struct, member)                                                                    \
  static void operands_##member(OperandsOf of, InstructionKind kind, Struct *at, Operands *out) { \
    (void)of;                                                                                     \
    (void)kind;
#define PLACE(x, size, does, present, ...)                                   \
  if (present) {                                                             \
    Extent extent = {0};                                                     \
    __VA_ARGS__                                                              \
    add(out, (Operand){&at->x, #x, -1, true, (Access)(does), size, extent}); \
  }
#define PORTS(x) ports(of, at, out);
#define SCORE(x) captured(of, at->x, at->x##_place, out);
#define END(Struct) }
#include "compiler/plan/instructions.def"

void instruction_operands(OperandsOf of, Instruction *instruction, Operands *out) {
  out->count = 0;
  switch (instruction->kind) {
#define INSTRUCTION(KIND, text, Struct, member)                             \
  case INSTRUCTION_##KIND:                                                  \
    operands_##member(of, instruction->kind, &instruction->as.member, out); \
    break;
#include "compiler/plan/instructions.def"
    case INSTRUCTION_KIND_COUNT:
      break;
  }
}

void instruction_touches(const Plan *plan, const Instruction *instruction, Operands *out) {
  instruction_operands(operands_of(plan), (Instruction *)instruction, out);
}
