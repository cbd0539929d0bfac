// lower_kernel.c: a group of operations as one Kernel: its space, its ports, its code.
#include <string.h>

#include "compiler/lower.h"

typedef struct {
  Lower *l;
  const Node *node;    // the group
  Shape outer, inner;  // dims of the space, major first
  Shape space;         // outer then inner
  Kernel kernel;
  Place *places;
  ValueId *port_value;  // of inputs, so that each is loaded once
  int *port_register;
  Map registers;  // value to register
  bool decided;   // the group says which dims are inner
  bool failed;
} Builder;

static int64_t extent(const Lower *l, AxisId axis) {
  return l->graph->axes.at[axis].size;
}

// Kernels are built on a few workbenches: a copy that one kernel turns out to need is built while it is.
static void builder_start(Builder *b, Lower *l) {
  if (l->building == l->workbenches.count) {
    array_push(l->c->arena, &l->workbenches, ARENA_NEW(l->c->arena, Workbench));
  }
  Workbench *workbench = l->workbenches.at[l->building++];
  *b = (Builder){.l = l};
  b->kernel.real = l->graph->real;
  b->kernel.port = workbench->port;
  b->kernel.code = workbench->code;
  b->places = workbench->place;
  b->port_value = workbench->port_value;
  b->port_register = workbench->port_register;
  memset(b->places, 0, sizeof workbench->place);
  b->registers = map_create(l->c->arena);
}

static void set_space(Builder *b) {
  b->space = shape_union(b->outer, &b->inner);
  if (b->space.count > KERNEL_MAX_DIMS) {
    diag_error(b->l->c->diag, E090, b->l->node->span, "an operation has more than %d axes", KERNEL_MAX_DIMS);
    b->failed = true;
    return;
  }
  b->kernel.dim_count = b->space.count;
  b->kernel.inner_count = b->inner.count;
  for (int i = 0; i < b->space.count; i++) {
    b->kernel.size[i] = extent(b->l, b->space.axis[i]);
  }
}

static int new_port(Builder *b, PortKind kind, ElementType type) {
  if (b->kernel.port_count == KERNEL_MAX_PORTS) {
    diag_error(b->l->c->diag, E090, b->l->node->span, "one kernel would have more than %d operands", KERNEL_MAX_PORTS);
    b->failed = true;
    return 0;
  }
  int port = b->kernel.port_count++;
  b->kernel.port[port] = (KernelPort){.kind = kind, .type = type};
  b->port_value[port] = -1;
  return port;
}

static KernelLevel level_of_strides(const Builder *b, const int64_t *stride) {
  int level = LEVEL_SCALAR;
  for (int i = 0; i < b->kernel.dim_count; i++) {
    if (stride[i] != 0 && b->kernel.size[i] > 1) {
      level |= i < b->kernel.dim_count - b->kernel.inner_count ? LEVEL_ROW : LEVEL_COLUMN;
    }
  }
  return (KernelLevel)level;
}

static int code(Builder *b, KernelInstruction instruction) {
  if (b->kernel.code_count == KERNEL_MAX_CODE) {
    diag_error(b->l->c->diag, E090, b->l->node->span, "one kernel would have more than %d instructions",
               KERNEL_MAX_CODE);
    b->failed = true;
    return 0;
  }
  b->kernel.code[b->kernel.code_count] = instruction;
  return b->kernel.code_count++;
}

static KernelInstruction blank(KernelOp op, bool integer, KernelLevel level) {
  return (KernelInstruction){.op = op, .integer = integer, .level = level, .a = -1, .b = -1, .c = -1, .port = -1};
}

static void port_strides(Builder *b, int port, const Shape *shape, const int64_t *stride) {
  for (int i = 0; i < b->space.count; i++) {
    int at = shape_find(shape, b->space.axis[i]);
    b->kernel.port[port].stride[i] = at < 0 || b->kernel.size[i] == 1 ? 0 : stride[at];
  }
}

static int load(Builder *b, ValueId value) {
  for (int i = 0; i < b->kernel.port_count; i++) {
    if (b->kernel.port[i].kind == PORT_INPUT && b->port_value[i] == value) {
      return b->port_register[i];
    }
  }
  const Storage *storage = storage_of(b->l, value);
  Shape shape = graph_shape(b->l->graph, value);
  ElementType type = graph_value(b->l->graph, value)->type;
  int port = new_port(b, PORT_INPUT, type);
  b->places[port] = place_of(b->l, storage);
  b->port_value[port] = value;
  port_strides(b, port, &shape, storage->stride);
  KernelInstruction instruction =
      blank(KERNEL_LOAD, !element_type_floating(type), level_of_strides(b, b->kernel.port[port].stride));
  instruction.port = (int16_t)port;
  b->port_register[port] = code(b, instruction);
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

static KernelLevel register_level(const Builder *b, int reg) {
  return b->kernel.code[reg].level;
}

static bool register_integer(const Builder *b, int reg) {
  return b->kernel.code[reg].integer;
}

// Positions along an axis of the batch are those of the whole batch, not of one microbatch.
static int emit_free(Builder *b, const Node *node) {
  if (node->op == OP_CONST) {
    KernelInstruction instruction = blank(KERNEL_CONST, false, LEVEL_SCALAR);
    instruction.number = node->number;
    return code(b, instruction);
  }
  if (node->op == OP_INTEGER) {
    KernelInstruction instruction = blank(KERNEL_INTEGER, true, LEVEL_SCALAR);
    instruction.constant = node->integer;
    return code(b, instruction);
  }
  int port = new_port(b, PORT_STRIDES, TYPE_INT);
  if (node->op == OP_COORDINATE) {
    int64_t rank[PLAN_MAX_MESH] = {0};
    rank[node->integer] = 1;
    b->places[port].term = term_of(b->l, rank);
  } else {
    int64_t one = 1;
    Shape axis = shape_of(node->axis);
    const Axis *whole = &b->l->graph->axes.at[axis_whole(b->l->graph, node->axis)];
    b->places[port].slot_stride = whole->global > whole->size && node->integer == 0 ? whole->size : 0;
    port_strides(b, port, &axis, &one);
  }
  KernelInstruction instruction = blank(KERNEL_IOTA, true, level_of_strides(b, b->kernel.port[port].stride));
  instruction.port = (int16_t)port;
  return code(b, instruction);
}

// Positions in the whole tensor, not in the part of one microbatch on one rank: where that begins is added.
static int emit_random(Builder *b, const Node *node) {
  int port = new_port(b, PORT_STRIDES, TYPE_INT);
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
  port_strides(b, port, &node->axes, stride);
  int step = operand_register(b, node->operands[0]);
  KernelInstruction instruction =
      blank(kernel_op_of(node->op, false), false, level_of_strides(b, b->kernel.port[port].stride));
  instruction.a = (int16_t)step;
  instruction.port = (int16_t)port;
  instruction.constant = node->integer;
  return code(b, instruction);
}

static int emit_elementwise(Builder *b, const Node *node) {
  int reg[3] = {-1, -1, -1}, level = LEVEL_SCALAR;
  for (int i = 0; i < node->operand_count; i++) {
    reg[i] = operand_register(b, node->operands[i]);
    level |= (int)register_level(b, reg[i]);
  }
  if (node->op == OP_BROADCAST || node->op == OP_STOP || node->op == OP_AS_INDEX || node->op == OP_CAST) {
    return reg[0];
  }
  bool integer = register_integer(b, node->op == OP_WHERE ? reg[1] : reg[0]);
  bool result = !element_type_floating(graph_value(b->l->graph, node->first_result)->type);
  KernelInstruction instruction = blank(kernel_op_of(node->op, integer), result, (KernelLevel)level);
  instruction.a = (int16_t)reg[0];
  instruction.b = (int16_t)reg[1];
  instruction.c = (int16_t)reg[2];
  return code(b, instruction);
}

static bool is_reduction(Op op) {
  return op == OP_SUM || op == OP_REDUCE_MAX || op == OP_REDUCE_MIN;
}

static int which_reduction(Op op) {
  return op == OP_SUM ? 0 : op == OP_REDUCE_MAX ? 1 : 2;
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
  if (kept_level(register_level(b, reg), level)) {
    return reg;
  }
  int port = new_port(b, PORT_STRIDES, TYPE_INT);
  for (int i = 0; i < b->kernel.dim_count; i++) {
    bool outer = i < b->kernel.dim_count - b->kernel.inner_count;
    b->kernel.port[port].stride[i] = b->kernel.size[i] > 1 && ((int)level & (outer ? LEVEL_ROW : LEVEL_COLUMN)) ? 1 : 0;
  }
  KernelInstruction iota = blank(KERNEL_IOTA, true, level_of_strides(b, b->kernel.port[port].stride));
  iota.port = (int16_t)port;
  int at = code(b, iota);
  KernelInstruction minus = blank(KERNEL_INTEGER, true, LEVEL_SCALAR);
  minus.constant = -1;
  int bound = code(b, minus);
  KernelInstruction test = blank(KERNEL_INT_LESS, true, iota.level);
  test.a = (int16_t)bound;
  test.b = (int16_t)at;
  int always = code(b, test);
  KernelInstruction where = blank(KERNEL_WHERE, false, (KernelLevel)((int)iota.level | (int)register_level(b, reg)));
  where.a = (int16_t)always;
  where.b = where.c = (int16_t)reg;
  return code(b, where);
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
  KernelInstruction instruction = blank(ops[which_reduction(node->op)], false, LEVEL_ROW);
  instruction.a = (int16_t)reg;
  b->kernel.row_reductions = true;
  return code(b, instruction);
}

static void store(Builder *b, int reg, ValueId result, KernelOp op, bool accumulate) {
  const Storage *storage = storage_of(b->l, result);
  Shape shape = graph_shape(b->l->graph, result);
  int port = new_port(b, PORT_OUTPUT, graph_value(b->l->graph, result)->type);
  b->places[port] = place_of(b->l, storage);
  b->kernel.port[port].accumulate = accumulate;
  port_strides(b, port, &shape, storage->stride);
  KernelLevel level = op == KERNEL_STORE ? level_of_strides(b, b->kernel.port[port].stride) | register_level(b, reg)
                      : op <= KERNEL_COLUMN_MIN ? LEVEL_COLUMN
                                                : LEVEL_SCALAR;
  KernelInstruction instruction = blank(op, register_integer(b, reg), level);
  instruction.a = (int16_t)reg;
  instruction.port = (int16_t)port;
  code(b, instruction);
}

static void store_reduction(Builder *b, const Node *node, ValueId result, bool accumulate) {
  static const KernelOp column[] = {KERNEL_COLUMN_SUM, KERNEL_COLUMN_MAX, KERNEL_COLUMN_MIN};
  static const KernelOp total[] = {KERNEL_TOTAL_SUM, KERNEL_TOTAL_MAX, KERNEL_TOTAL_MIN};
  Shape from = graph_shape(b->l->graph, node->operands[0]), shape = graph_shape(b->l->graph, result);
  bool all = shape.count == 0;
  bool rows_only = !shape_same_set(&from, &b->space);
  int reg = widened(b, operand_register(b, node->operands[0]), full_level(b, true, !rows_only));
  store(b, reg, result, all ? total[which_reduction(node->op)] : column[which_reduction(node->op)], accumulate);
}

// --- dims ---

// One storage that decides the order of dims: the first output that covers the space, else the first input.
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
    if (shape_same_set(&shape, &all)) {
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

static bool dims_merge(const Kernel *kernel, int d) {
  for (int i = 0; i < kernel->port_count; i++) {
    const int64_t *stride = kernel->port[i].stride;
    if (stride[d] != stride[d + 1] * kernel->size[d + 1]) {
      return false;
    }
  }
  return true;
}

static void drop_dim(Kernel *kernel, int d, bool inner) {
  for (int i = d; i + 1 < kernel->dim_count; i++) {
    kernel->size[i] = kernel->size[i + 1];
  }
  for (int p = 0; p < kernel->port_count; p++) {
    for (int i = d; i + 1 < kernel->dim_count; i++) {
      kernel->port[p].stride[i] = kernel->port[p].stride[i + 1];
    }
    kernel->port[p].stride[kernel->dim_count - 1] = 0;
  }
  kernel->inner_count -= inner;
  kernel->dim_count--;
}

// Fewer dims for the same work: those of size 1 go, neighbours that are contiguous in every port become one.
static void simplify_dims(Kernel *kernel) {
  for (int d = kernel->dim_count - 1; d >= 0; d--) {
    if (kernel->size[d] == 1 && kernel->dim_count > 1) {
      drop_dim(kernel, d, d >= kernel->dim_count - kernel->inner_count);
    }
  }
  for (int d = kernel->dim_count - 2; d >= 0; d--) {
    bool across = d + 1 == kernel->dim_count - kernel->inner_count;
    if (!across && dims_merge(kernel, d)) {
      kernel->size[d + 1] *= kernel->size[d];
      drop_dim(kernel, d, d >= kernel->dim_count - kernel->inner_count);
    }
  }
}

static int share_kernel(Lower *l, const Kernel *kernel) {
  KernelContent content = {0};
  kernel_content(kernel, l->c->arena, &content);
  const size_t bytes = sizeof *content.at * (size_t)content.count;
  int64_t known = map_get_bytes_or(&l->kernels->by_content, content.at, bytes, -1);
  if (known >= 0) {
    return (int)known;
  }
  Kernel *kept = arena_copy(l->keep, kernel, sizeof *kernel);
  kept->port = arena_copy(l->keep, kernel->port, sizeof *kernel->port * (size_t)kernel->port_count);
  kept->code = arena_copy(l->keep, kernel->code, sizeof *kernel->code * (size_t)kernel->code_count);
  array_push(l->keep, &l->kernels->all, kept);
  map_put_bytes(&l->kernels->by_content, content.at, bytes, l->kernels->all.count - 1);
  return l->kernels->all.count - 1;
}

static void finish_kernel(Builder *b) {
  Lower *l = b->l;
  l->building--;
  if (b->failed) {
    return;
  }
  simplify_dims(&b->kernel);
  const char *wrong = kernel_verify(&b->kernel);
  if (wrong) {
    Buffer text = {0};
    kernel_print(&b->kernel, &text);
    Diagnostic *error = diag_error(l->c->diag, E099, l->node->span, "the compiler made a wrong kernel: %s", wrong);
    diag_help(l->c->diag, error, "the kernel:\n%s", text.text ? text.text : "");
    buffer_free(&text);
    return;
  }
  Instruction *instruction = new_instruction(l, INSTRUCTION_KERNEL);
  Place *places = arena_copy(l->keep, b->places, sizeof *places * (size_t)b->kernel.port_count);
  instruction->as.kernel = (KernelCall){share_kernel(l, &b->kernel), places};
  double elements = 1;
  for (int i = 0; i < b->kernel.dim_count; i++) {
    elements *= (double)b->kernel.size[i];
  }
  for (int i = 0; i < b->kernel.port_count; i++) {
    const KernelPort *port = &b->kernel.port[i];
    double touched = 1;
    for (int d = 0; d < b->kernel.dim_count; d++) {
      touched *= port->stride[d] ? (double)b->kernel.size[d] : 1;
    }
    instruction->bytes += port->kind == PORT_STRIDES ? 0 : touched * (double)element_type_bytes(port->type);
  }
  for (int i = 0; i < b->kernel.code_count; i++) {
    bool arithmetic = b->kernel.code[i].op >= KERNEL_ADD && b->kernel.code[i].op < KERNEL_STORE;
    instruction->flops += arithmetic && b->kernel.code[i].level == LEVEL_FULL ? elements : 0;
  }
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
  set_space(&b);
  for (int i = 0; i < region->nodes.count && !b.failed; i++) {
    const Node *member = graph_node(l->graph, region->nodes.at[i]);
    int reg = -1;
    if (is_reduction(member->op)) {
      reg = along_rows(&b, member) ? emit_row_reduction(&b, member) : -1;
    } else if (op_free(member->op)) {
      reg = emit_free(&b, member);
    } else if (member->op == OP_UNIFORM || member->op == OP_NORMAL) {
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
  finish_kernel(&b);
}

// --- copies ---

static void one_store(Lower *l, Shape shape, ElementType type, const Storage *from, const Storage *to, double number,
                      WriteMode write) {
  Builder b;
  builder_start(&b, l);
  Shape order = shape;
  for (int i = 1; i < order.count; i++) {  // dims in the order of the target
    for (int j = i;
         j > 0 && to->stride[shape_find(&shape, order.axis[j])] > to->stride[shape_find(&shape, order.axis[j - 1])];
         j--) {
      AxisId swap = order.axis[j];
      order.axis[j] = order.axis[j - 1];
      order.axis[j - 1] = swap;
    }
  }
  for (int i = 0; i < order.count; i++) {
    shape_push(i + 1 < order.count ? &b.outer : &b.inner, order.axis[i]);
  }
  set_space(&b);
  bool integer = !element_type_floating(type);
  int reg;
  if (from) {
    int port = new_port(&b, PORT_INPUT, type);
    b.places[port] = place_of(l, from);
    port_strides(&b, port, &shape, from->stride);
    KernelInstruction in = blank(KERNEL_LOAD, integer, level_of_strides(&b, b.kernel.port[port].stride));
    in.port = (int16_t)port;
    reg = code(&b, in);
  } else {
    KernelInstruction constant = blank(integer ? KERNEL_INTEGER : KERNEL_CONST, integer, LEVEL_SCALAR);
    constant.number = number;
    constant.constant = (int64_t)number;
    reg = code(&b, constant);
  }
  if (write == WRITE_ADD) {  // in every call, whatever is there
    int port = new_port(&b, PORT_INPUT, type);
    b.places[port] = place_of(l, to);
    port_strides(&b, port, &shape, to->stride);
    KernelInstruction before = blank(KERNEL_LOAD, integer, level_of_strides(&b, b.kernel.port[port].stride));
    before.port = (int16_t)port;
    KernelInstruction sum = blank(KERNEL_ADD, integer, (KernelLevel)((int)before.level | (int)register_level(&b, reg)));
    sum.a = (int16_t)reg;
    sum.b = (int16_t)code(&b, before);
    reg = code(&b, sum);
  }
  int port = new_port(&b, PORT_OUTPUT, type);
  b.places[port] = place_of(l, to);
  b.kernel.port[port].accumulate = write == WRITE_ADD_AFTER_FIRST;
  port_strides(&b, port, &shape, to->stride);
  KernelInstruction out = blank(KERNEL_STORE, integer, level_of_strides(&b, b.kernel.port[port].stride));
  out.a = (int16_t)reg;
  out.port = (int16_t)port;
  code(&b, out);
  finish_kernel(&b);
}

void lower_copy(Lower *l, Shape shape, ElementType type, const Storage *from, const Storage *to, WriteMode write) {
  one_store(l, shape, type, from, to, 0, write);
}

void lower_fill(Lower *l, Shape shape, ElementType type, const Storage *to, double number) {
  one_store(l, shape, type, NULL, to, number, WRITE_STORE);
}
