// lower_kernel.c: a group of operations as one Kernel.
#include "compiler/lower/kernel_builder.h"

static int load(Builder *b, ValueId value) {
  for (int i = 0; i < b->kernel.port_count; i++) {
    if (b->kernel.port[i].kind == PORT_INPUT && b->port_value[i] == value) {
      return b->port_register[i];
    }
  }
  const Storage *storage = storage_of(b->l, value);
  Shape shape = graph_shape(b->l->graph, value);
  ElementType type = graph_value(b->l->graph, value)->type;
  int port = builder_port(b, PORT_INPUT, type);
  b->places[port] = place_of(b->l, storage);
  b->port_value[port] = value;
  builder_strides(b, port, &shape, storage->stride);
  KernelInstruction instruction =
      builder_blank(KERNEL_LOAD, !element_type_floating(type), builder_level(b, b->kernel.port[port].stride));
  instruction.port = (int16_t)port;
  b->port_register[port] = builder_code(b, instruction);
  return b->port_register[port];
}

static int operand_register(Builder *b, ValueId value) {
  int64_t known = map_get_or(&b->registers, (uint64_t)value, -1);
  return known >= 0 ? (int)known : load(b, value);
}

static KernelOp kernel_op_of(Op op, bool integer) {
  switch (op) {
#define BOTH(NAME) \
  case OP_##NAME:  \
    return integer ? KERNEL_INT_##NAME : KERNEL_##NAME;
    BOTH(ADD)
    BOTH(SUB)
    BOTH(MUL)
    BOTH(DIV)
    BOTH(MAX)
    BOTH(MIN)
    BOTH(LESS)
    BOTH(LESS_EQUAL)
    BOTH(EQUAL)
    BOTH(WHERE)
#undef BOTH
#define REAL(NAME) \
  case OP_##NAME:  \
    return KERNEL_##NAME;
    REAL(POW)
    REAL(NEG)
    REAL(ABS)
    REAL(SIGN)
    REAL(FLOOR)
    REAL(POWER_OF_TWO)
    REAL(EXP)
    REAL(LOG)
    REAL(SQRT)
    REAL(RSQRT)
    REAL(RECIPROCAL)
    REAL(SIN)
    REAL(COS)
    REAL(TANH)
    REAL(SIGMOID)
    REAL(ERF)
    REAL(IS_FINITE)
    REAL(AND)
    REAL(OR)
    REAL(NOT)
    REAL(TO_REAL)
    REAL(TO_INT)
    REAL(UNIFORM)
    REAL(NORMAL)
#undef REAL
    case OP_MOD:
      return KERNEL_INT_MOD;
    default:
      return KERNEL_OP_COUNT;
  }
}

static bool register_integer(const Builder *b, int reg) {
  return b->kernel.code[reg].integer;
}

// Positions along an axis of the batch are those of the whole batch, not of one microbatch.
static int emit_free(Builder *b, const Node *node) {
  if (node->op == OP_CONST) {
    KernelInstruction instruction = builder_blank(KERNEL_CONST, false, LEVEL_SCALAR);
    instruction.number = node->number;
    return builder_code(b, instruction);
  }
  if (node->op == OP_INTEGER) {
    KernelInstruction instruction = builder_blank(KERNEL_INTEGER, true, LEVEL_SCALAR);
    instruction.constant = node->integer;
    return builder_code(b, instruction);
  }
  int port = builder_port(b, PORT_STRIDES, TYPE_INT);
  if (node->op == OP_COORDINATE) {
    int64_t rank[PLAN_MAX_MESH] = {0};
    rank[node->integer] = 1;
    b->places[port].term = term_of(b->l, rank);
  } else {
    int64_t one = 1;
    Shape axis = shape_of(node->axis);
    const Axis *whole = &b->l->graph->axes.at[axis_whole(b->l->graph, node->axis)];
    b->places[port].slot_stride = whole->global > whole->size && node->integer == 0 ? whole->size : 0;
    builder_strides(b, port, &axis, &one);
  }
  KernelInstruction instruction = builder_blank(KERNEL_IOTA, true, builder_level(b, b->kernel.port[port].stride));
  instruction.port = (int16_t)port;
  return builder_code(b, instruction);
}

// Positions in the whole tensor, not in the part of one microbatch on one rank: where that begins is added.
static int emit_random(Builder *b, const Node *node) {
  int port = builder_port(b, PORT_STRIDES, TYPE_INT);
  int64_t stride[SHAPE_MAX_AXES], rank[PLAN_MAX_MESH] = {0}, at = 1;
  const Graph *graph = b->l->graph;
  for (int i = node->axes.count - 1; i >= 0; i--) {
    const Axis *axis = &graph->axes.at[node->axes.axis[i]];
    const Axis *whole = axis->whole >= 0 ? &graph->axes.at[axis->whole] : axis;
    int64_t minor = axis->size;
    stride[i] = at;
    b->places[port].slot_stride += whole->global > whole->size ? at * whole->size : 0;
    for (int m = PLAN_MAX_MESH - 1; m >= 0; m--) {
      if (axis->mesh >> m & 1) {
        rank[m] += at * minor;
        minor *= b->l->c->spec->mesh[m].size;
      }
    }
    at *= whole->global;
  }
  b->places[port].term = term_of(b->l, rank);
  builder_strides(b, port, &node->axes, stride);
  int step = operand_register(b, node->operands[0]);
  KernelInstruction instruction =
      builder_blank(kernel_op_of(node->op, false), false, builder_level(b, b->kernel.port[port].stride));
  instruction.a = (int16_t)step;
  instruction.port = (int16_t)port;
  instruction.constant = node->integer;
  return builder_code(b, instruction);
}

// x * (1 / scale): one division for all elements. Who stores it rounds.
static int emit_quantise(Builder *b, int x, int scale, KernelLevel level) {
  KernelInstruction inverse = builder_blank(KERNEL_RECIPROCAL, false, builder_register_level(b, scale));
  inverse.a = (int16_t)scale;
  KernelInstruction multiply = builder_blank(KERNEL_MUL, false, level);
  multiply.a = (int16_t)x;
  multiply.b = (int16_t)builder_code(b, inverse);
  return builder_code(b, multiply);
}

static int emit_elementwise(Builder *b, const Node *node) {
  int reg[3] = {-1, -1, -1}, level = LEVEL_SCALAR;
  for (int i = 0; i < node->operand_count; i++) {
    reg[i] = operand_register(b, node->operands[i]);
    level |= (int)builder_register_level(b, reg[i]);
  }
  if (node->op == OP_QUANTISE) {
    return emit_quantise(b, reg[0], reg[1], (KernelLevel)level);
  }
  if (op_same(node->op) || node->op == OP_BROADCAST) {
    return reg[0];
  }
  bool integer = register_integer(b, node->op == OP_WHERE ? reg[1] : reg[0]);
  bool result = !element_type_floating(graph_value(b->l->graph, node->first_result)->type);
  KernelInstruction instruction = builder_blank(kernel_op_of(node->op, integer), result, (KernelLevel)level);
  instruction.a = (int16_t)reg[0];
  instruction.b = (int16_t)reg[1];
  instruction.c = (int16_t)reg[2];
  return builder_code(b, instruction);
}

int builder_operation(Builder *b, const Node *node) {
  return op_free(node->op) ? emit_free(b, node) : emit_elementwise(b, node);
}

// A reduction along whole rows gives a register; others are outputs only.
static bool along_rows(const Builder *b, const Node *node) {
  return b->decided && shape_same_set(&node->axes, &b->inner) && (b->outer.count > 0 || b->kernel.row_reductions);
}

static bool kept_level(KernelLevel level, KernelLevel wanted) {
  return ((int)level & (int)wanted) == (int)wanted;
}

// An operand that does not vary over all it is reduced over is repeated, not added once: widen it.
static int widened(Builder *b, int reg, KernelLevel level) {
  if (kept_level(builder_register_level(b, reg), level)) {
    return reg;
  }
  int port = builder_port(b, PORT_STRIDES, TYPE_INT);
  for (int i = 0; i < b->kernel.dim_count; i++) {
    bool outer = i < b->kernel.dim_count - b->kernel.inner_count;
    b->kernel.port[port].stride[i] = b->kernel.size[i] > 1 && ((int)level & (outer ? LEVEL_ROW : LEVEL_COLUMN)) ? 1 : 0;
  }
  KernelInstruction iota = builder_blank(KERNEL_IOTA, true, builder_level(b, b->kernel.port[port].stride));
  iota.port = (int16_t)port;
  int at = builder_code(b, iota);
  KernelInstruction minus = builder_blank(KERNEL_INTEGER, true, LEVEL_SCALAR);
  minus.constant = -1;
  int bound = builder_code(b, minus);
  KernelInstruction test = builder_blank(KERNEL_INT_LESS, true, iota.level);
  test.a = (int16_t)bound;
  test.b = (int16_t)at;
  int always = builder_code(b, test);
  KernelInstruction where =
      builder_blank(KERNEL_WHERE, false, (KernelLevel)((int)iota.level | (int)builder_register_level(b, reg)));
  where.a = (int16_t)always;
  where.b = where.c = (int16_t)reg;
  return builder_code(b, where);
}

static KernelLevel full_level(const Builder *b, bool outer, bool inner) {
  int level = 0;
  for (int i = 0; i < b->kernel.dim_count; i++) {
    bool is_outer = i < b->kernel.dim_count - b->kernel.inner_count;
    level |= b->kernel.size[i] > 1 ? (is_outer ? (outer ? LEVEL_ROW : 0) : (inner ? LEVEL_COLUMN : 0)) : 0;
  }
  return (KernelLevel)level;
}

static int emit_row_reduction(Builder *b, const Node *node) {
  int reg = widened(b, operand_register(b, node->operands[0]), full_level(b, false, true));
  static const KernelOp ops[] = {KERNEL_ROW_SUM, KERNEL_ROW_MAX, KERNEL_ROW_MIN};
  KernelInstruction instruction = builder_blank(ops[(int)op_combine(node->op)], false, LEVEL_ROW);
  instruction.a = (int16_t)reg;
  b->kernel.row_reductions = true;
  return builder_code(b, instruction);
}

static void store(Builder *b, int reg, ValueId result, KernelOp op, bool accumulate) {
  const Storage *storage = storage_of(b->l, result);
  Shape shape = graph_shape(b->l->graph, result);
  int port = builder_port(b, PORT_OUTPUT, graph_value(b->l->graph, result)->type);
  b->places[port] = place_of(b->l, storage);
  b->kernel.port[port].accumulate = accumulate;
  builder_strides(b, port, &shape, storage->stride);
  KernelLevel level = op == KERNEL_STORE
                          ? builder_level(b, b->kernel.port[port].stride) | builder_register_level(b, reg)
                      : op <= KERNEL_COLUMN_MIN ? LEVEL_COLUMN
                                                : LEVEL_SCALAR;
  KernelInstruction instruction = builder_blank(op, register_integer(b, reg), level);
  instruction.a = (int16_t)reg;
  instruction.port = (int16_t)port;
  builder_code(b, instruction);
}

static void store_reduction(Builder *b, const Node *node, ValueId result, bool accumulate) {
  static const KernelOp column[] = {KERNEL_COLUMN_SUM, KERNEL_COLUMN_MAX, KERNEL_COLUMN_MIN};
  static const KernelOp total[] = {KERNEL_TOTAL_SUM, KERNEL_TOTAL_MAX, KERNEL_TOTAL_MIN};
  Shape from = graph_shape(b->l->graph, node->operands[0]), shape = graph_shape(b->l->graph, result);
  bool all = shape.count == 0;
  bool rows_only = !shape_same_set(&from, &b->space);
  int reg = widened(b, operand_register(b, node->operands[0]), full_level(b, true, !rows_only));
  store(b, reg, result, all ? total[(int)op_combine(node->op)] : column[(int)op_combine(node->op)], accumulate);
}

// --- dims ---

// One storage that decides the order of dims: the first output that covers the space, else the first input. What has 8
// bits is the least of what is read and written, and may lie turned.
static void sort_dims(Builder *b, ValueId guide) {
  Shape *parts[2] = {&b->outer, &b->inner};
  for (int p = 0; p < 2; p++) {
    for (int i = 1; i < parts[p]->count; i++) {
      for (int j = i;
           j > 0 && stride_of(b->l, guide, parts[p]->axis[j]) > stride_of(b->l, guide, parts[p]->axis[j - 1]); j--) {
        AxisId swap = parts[p]->axis[j];
        parts[p]->axis[j] = parts[p]->axis[j - 1];
        parts[p]->axis[j - 1] = swap;
      }
    }
  }
}

static ValueId find_guide(Builder *b, const Region *region) {
  Graph *graph = b->l->graph;
  Shape all = b->node->axes;
  ValueId guide = -1;
  for (int i = 0; i < region->results.count; i++) {
    Shape shape = graph_shape(graph, b->node->first_result + i);
    if (shape_same_set(&shape, &all) && !graph_quantise(graph, b->node->first_result + i)) {
      return b->node->first_result + i;
    }
  }
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *member = graph_node(graph, region->nodes.at[i]);
    for (int j = 0; j < member->operand_count; j++) {
      const Node *maker = graph_producer(graph, member->operands[j]);
      Shape shape = graph_shape(graph, member->operands[j]);
      bool inside = maker && (op_free(maker->op) || op_fusable(maker->op));
      if (!inside && (guide < 0 || shape.count > graph_shape(graph, guide).count)) {
        guide = member->operands[j];
      }
    }
  }
  return guide;
}

static void split_space(Builder *b) {
  Shape all = b->node->axes;
  bool any = false;
  for (int i = 0; i < all.count; i++) {
    bool inner = (b->node->integer >> i) & 1;
    shape_push(inner ? &b->inner : &b->outer, all.axis[i]);
    any |= inner;
  }
  b->kernel.row_reductions = (b->node->integer >> 32) & 1;
  b->decided = any;
  if (!any && all.count) {  // nothing ties a row together: the axes stored last are the row
    b->inner = all;
    b->outer = (Shape){0};
  }
}

void lower_group(Lower *l, const Node *node) {
  const Region *region = &l->graph->regions.at[node->region];
  Builder b;
  if (node->operand_count > 0) {
    poison_blocks(l, node);
  }
  builder_start(&b, l);
  b.node = node;
  split_space(&b);
  ValueId guide = find_guide(&b, region);
  if (guide >= 0) {
    sort_dims(&b, guide);
  }
  while (!b.decided && b.inner.count > 1) {  // one inner dim is enough; the others are outer
    shape_push(&b.outer, b.inner.axis[0]);
    shape_remove(&b.inner, b.inner.axis[0]);
  }
  builder_space(&b);
  const ValueId chosen = node->operand_count > 0 ? node->operands[0] : -1;
  if (chosen >= 0 && !b.failed && b.space.axis[0] == graph_shape(l->graph, chosen).axis[0] && b.kernel.size[0] > 1) {
    builder_chosen(&b, chosen);
  }
  for (int i = 0; i < region->nodes.count && !b.failed; i++) {
    const Node *member = graph_node(l->graph, region->nodes.at[i]);
    int reg = -1;
    if (op_reduction(member->op)) {
      reg = along_rows(&b, member) ? emit_row_reduction(&b, member) : -1;
    } else if (op_free(member->op)) {
      reg = emit_free(&b, member);
    } else if (op_random(member->op)) {
      reg = emit_random(&b, member);
    } else {
      reg = emit_elementwise(&b, member);
    }
    if (reg >= 0) {
      map_put(&b.registers, (uint64_t)member->first_result, reg);
    }
  }
  for (int i = 0; i < region->results.count && !b.failed; i++) {
    ValueId inside = region->results.at[i], result = node->first_result + i;
    const Node *member = graph_producer(l->graph, inside);
    int64_t reg = map_get_or(&b.registers, (uint64_t)inside, -1);
    if (reg >= 0) {
      store(&b, (int)reg, result, KERNEL_STORE, l->accumulate[result]);
    } else {
      store_reduction(&b, member, result, l->accumulate[result]);
    }
  }
  builder_finish(&b);
}
