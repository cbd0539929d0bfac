// orders_cost.c: what the storage orders around one node cost, in bytes that a device moves.
//
// Products cost what lowering makes of them: the bytes of all of them, or their arithmetic in whole tiles where that
// takes longer, and copies of operands that are no matrices. A collective costs a copy on each side where its axis is
// not first, an exchange in any case one. A kernel reads and writes rows of whole memory lines in any order for the
// same price, shorter ones for more.
#include <string.h>

#include "base/integer.h"
#include "compiler/ir/attention.h"
#include "compiler/ir/dots.h"
#include "compiler/ir/product.h"
#include "compiler/shard/orders.h"

// LINE_BYTES: what a memory moves at once. TILE: of a matrix unit. FLOPS_PER_BYTE: what it multiplies meanwhile.
enum { LINE_BYTES = 128, SHORTEST_BYTES = 16, TILE = 64, FLOPS_PER_BYTE = 200 };

static int64_t extent(const Orders *o, AxisId axis) {
  return o->graph->axes.at[axis].size;
}

static double bytes_of(const Orders *o, ValueId value) {
  const Value *at = graph_value(o->graph, value);
  return (double)graph_elements(o->graph, at->shape) * (double)element_type_bytes(at->type);
}

// --- the order of a value ---

bool orders_bundled(const Graph *graph, const Node *node) {
  return op_dots_joined(node->op) && !op_dots_sum(node->op) && dots_of_parameters(graph, node);
}

static Shape replaced(Shape order, const Shape *from, const Shape *to) {
  Shape out = {0};
  for (int i = 0; i < order.count; i++) {
    if (!shape_has(from, order.axis[i])) {
      shape_push(&out, order.axis[i]);
      continue;
    }
    out = order.axis[i] == from->axis[0] ? shape_union(out, to) : out;
  }
  return out;
}

static Shape of_view(const Orders *o, const Node *node) {
  Shape order = orders_of(o, node->operands[0]), axis = shape_of(node->axis), axis2 = shape_of(node->axis2);
  const Shape none = {0};
  switch (node->op) {
    case OP_SPLIT:
      return replaced(order, &axis, &node->axes);
    case OP_MERGE:
      return replaced(order, &node->axes, &axis2);
    case OP_RENAME:
    case OP_SLICE:
    case OP_SHARD:
      return replaced(order, &axis, node->axis2 < 0 ? &none : &axis2);
    default:
      return order;
  }
}

Shape orders_of(const Orders *o, ValueId value) {
  const Node *node = graph_producer(o->graph, value);
  Shape own = graph_shape(o->graph, value), order = own;
  if (!node || o->stored[value] == value) {
    return own;
  }
  if (op_body(node->op)) {
    order = orders_of(o, o->graph->regions.at[node->region].results.at[graph_value(o->graph, value)->result]);
  } else if (op_view(node->op)) {
    order = of_view(o, node);
  } else {
    Shape rows = shape_minus(orders_of(o, node->operands[0]), &node->axes);
    order = shape_union(rows, &own);
  }
  return shape_same_set(&order, &own) ? order : own;
}

// --- kernels ---

static Shape long_axes(const Orders *o, Shape shape, const Shape *of) {
  Shape out = {0};
  for (int i = 0; i < shape.count; i++) {
    if (extent(o, shape.axis[i]) > 1 && shape_has(of, shape.axis[i])) {
      shape_push(&out, shape.axis[i]);
    }
  }
  return out;
}

// What it costs more to go through a value in the order of another.
static double astray(const Orders *o, ValueId value, const Shape *guide) {
  Shape order = orders_of(o, value), here = long_axes(o, order, guide), there = long_axes(o, *guide, &order);
  int i = here.count - 1;
  int64_t run = element_type_bytes(graph_value(o->graph, value)->type);
  for (; i >= 0 && here.axis[i] == there.axis[i]; i--) {
    run *= extent(o, here.axis[i]);
  }
  if (i < 0 || run >= LINE_BYTES) {
    return 0;
  }
  const int64_t touched = run < SHORTEST_BYTES ? SHORTEST_BYTES : run;
  return bytes_of(o, value) * ((double)LINE_BYTES / (double)touched - 1);
}

bool orders_is_kernel(const Node *node) {
  return node->op == OP_GROUP || op_fusable(node->op);
}

void orders_visit(const Graph *graph, const Node *node, OrdersVisitor *visit, void *context) {
  for (int i = 0; i < node->result_count; i++) {
    visit(context, node->first_result + i);
  }
  for (int i = 0; i < node->operand_count; i++) {
    visit(context, node->operands[i]);
  }
  const NodeList *members = node->op == OP_GROUP ? &graph->regions.at[node->region].nodes : NULL;
  for (int i = 0; members && i < members->count; i++) {
    const Node *member = graph_node(graph, members->at[i]);
    for (int j = 0; j < member->operand_count; j++) {
      const Node *maker = graph_producer(graph, member->operands[j]);
      if (!maker || !(op_free(maker->op) || op_fusable(maker->op))) {
        visit(context, member->operands[j]);
      }
    }
  }
}

typedef struct {
  const Orders *o;
  Shape guide;
  bool found;
  double bytes;
} Reading;

// The first value with all axes, which kernels follow; results come first.
static void find_guide(void *context, ValueId value) {
  Reading *reading = context;
  Shape order = orders_of(reading->o, value);
  if (!reading->found || order.count > reading->guide.count) {
    reading->guide = order;
    reading->found = true;
  }
}

static void add_astray(void *context, ValueId value) {
  Reading *reading = context;
  reading->bytes += astray(reading->o, value, &reading->guide);
}

static double kernel_cost(const Orders *o, const Node *node) {
  Reading reading = {.o = o};
  orders_visit(o->graph, node, find_guide, &reading);
  orders_visit(o->graph, node, add_astray, &reading);
  return reading.bytes;
}

// --- products ---

static double tiles(int64_t size) {
  return (double)round_up(size, TILE);
}

static double product_cost(const Orders *o, ValueId left, ValueId right, ValueId result, const Shape *contracted) {
  const Graph *graph = o->graph;
  Strided a = strided_dense(graph, orders_of(o, left)), b = strided_dense(graph, orders_of(o, right));
  const Strided c = strided_dense(graph, orders_of(o, result));
  ProductAxes axes;
  product_axes(graph, &a, &b, &c, contracted, &axes);
  if (axes.swapped) {
    Strided swap = a;
    a = b;
    b = swap;
    ValueId other = left;
    left = right;
    right = other;
  }
  const bool writable = product_writable(graph, &c, &axes);
  double bytes = writable ? 0 : 2 * bytes_of(o, result);
  const ElementType type_a = graph_value(graph, left)->type, type_b = graph_value(graph, right)->type;
  bytes += strided_multipliable(graph, &a, &axes.rows, &axes.inner, type_a) ? 0 : 2 * bytes_of(o, left);
  bytes += strided_multipliable(graph, &b, &axes.columns, &axes.inner, type_b) ? 0 : 2 * bytes_of(o, right);
  const int64_t rows = graph_elements(graph, axes.rows), columns = graph_elements(graph, axes.columns);
  const double count = (double)graph_elements(graph, axes.batch), m = (double)rows, n = (double)columns,
               k = (double)graph_elements(graph, axes.inner);
  const double narrow = (double)element_type_bytes(graph_value(graph, left)->type),
               wide = (double)element_type_bytes(graph_value(graph, result)->type);
  const double moved = count * ((m * k + k * n) * narrow + m * n * wide);
  const double busy = 2 * count * tiles(rows) * tiles(columns) * k / FLOPS_PER_BYTE;
  return bytes + (moved > busy ? moved : busy);
}

static double products_cost(const Orders *o, const Node *node) {
  double bytes = 0;
  for (int i = 0; i < dots_count(node); i++) {
    const Shape inner = dots_inner(o->graph, node, i);
    const ValueId result = node->first_result + (op_dots_sum(node->op) ? 0 : i);
    bytes += product_cost(o, dots_first(node, i), dots_second(node, i), result, &inner);
  }
  return bytes;
}

// --- what moves ---

static bool comes_first(const Orders *o, const Shape *order, AxisId axis) {
  for (int i = 0; i < order->count && order->axis[i] != axis; i++) {
    if (extent(o, order->axis[i]) > 1) {
      return false;
    }
  }
  return true;
}

static double blocks_cost(const Orders *o, ValueId value, AxisId axis) {
  const Node *maker = graph_producer(o->graph, value);
  Shape order = orders_of(o, value);
  bool apart = maker && orders_bundled(o->graph, maker);  // one row is beside that of others
  return apart || !comes_first(o, &order, axis) ? 2 * bytes_of(o, value) : 0;
}

bool orders_scatters(const Node *node) {
  return node->op == OP_ALL_TO_ALL && node->number > 0;
}

AxisId orders_first_before(const Node *node) {
  return node->op == OP_ALL_TO_ALL ? node->axis2 : node->axis;
}

AxisId orders_first_after(const Node *node) {
  return node->op == OP_ALL_TO_ALL ? node->axes.axis[orders_scatters(node) ? 1 : 0] : node->axis2;
}

static double scatter_cost(const Orders *o, const Node *node) {
  const Shape order = orders_of(o, node->first_result), source = shape_of(node->axes.axis[0]);
  const Shape block = shape_minus(order, &source);
  const bool blocks = comes_first(o, &order, source.axis[0]) && comes_first(o, &block, orders_first_after(node));
  return blocks_cost(o, node->operands[0], orders_first_before(node)) +
         (blocks ? 0 : 2 * bytes_of(o, node->first_result));
}

// One copy is enough where the axis that is cut comes first before, or the one that is put together behind it.
static double exchange_cost(const Orders *o, const Node *node) {
  const bool before = blocks_cost(o, node->operands[0], orders_first_before(node)) > 0,
             after = blocks_cost(o, node->first_result, orders_first_after(node)) > 0;
  return 2 * bytes_of(o, node->first_result) * (before && after ? 2 : 1);
}

// Kernels of attention take any strides, but rows of the depth, which are last.
static double attention_cost(const Orders *o, const Node *node) {
  const int depths = node->integer & ATTENTION_HAS_VALUE_DEPTH ? 2 : 1;
  double bytes = 0;
  for (int i = 0; i < node->operand_count; i++) {
    Shape order = orders_of(o, node->operands[i]);
    for (int j = node->axes.count - depths; j < node->axes.count; j++) {
      bool leads = j >= 0 && order.count > 1 && order.axis[0] == node->axes.axis[j];
      bytes += leads ? 2 * bytes_of(o, node->operands[i]) : 0;
    }
  }
  return bytes;
}

static double merge_cost(const Orders *o, const Node *node) {
  Shape order = orders_of(o, node->operands[0]);
  int at = shape_find(&order, node->axes.axis[0]);
  for (int i = 1; i < node->axes.count; i++) {
    if (at + i >= order.count || order.axis[at + i] != node->axes.axis[i]) {
      return 2 * bytes_of(o, node->operands[0]);
    }
  }
  return 0;
}

static double between(const Orders *o, ValueId one, ValueId other) {
  Shape order = orders_of(o, one);
  return astray(o, other, &order);
}

static double joined_cost(const Orders *o, const Node *node) {
  double bytes = 0;
  for (int i = 0; i < node->operand_count; i++) {
    bytes += between(o, node->first_result, node->operands[i]);
  }
  return bytes;
}

// All of it moves anew where its two sides differ.
static double same_cost(const Orders *o, const Node *node) {
  Shape a = orders_of(o, node->operands[0]), b = orders_of(o, node->first_result);
  a = long_axes(o, a, &b);
  b = long_axes(o, b, &a);
  bool same = a.count == b.count && memcmp(a.axis, b.axis, sizeof *a.axis * (size_t)a.count) == 0;
  return same ? 0 : 2 * bytes_of(o, node->operands[0]);
}

double orders_cost(const Orders *o, const Node *node) {
  if (orders_is_kernel(node)) {
    return kernel_cost(o, node);
  }
  if (op_dots(node->op)) {
    return products_cost(o, node);
  }
  switch (node->op) {
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
      return blocks_cost(o, node->operands[0], node->axis) + blocks_cost(o, node->first_result, node->axis2);
    case OP_ALL_TO_ALL:
      return orders_scatters(node) ? scatter_cost(o, node) : exchange_cost(o, node);
    case OP_ALL_REDUCE:
      return same_cost(o, node);
    case OP_TAKE:
    case OP_PUT:
      return between(o, node->op == OP_TAKE ? node->first_result : node->operands[0], node->operands[1]) +
             between(o, node->first_result, node->operands[0]);
    case OP_SEND:
      return astray(o, node->operands[0], &node->axes);
    case OP_MERGE:
      return merge_cost(o, node);
    case OP_COMPOSITE:
      return is_attention(node) ? attention_cost(o, node) : 0;
    default:
      return op_ties(node->op) ? joined_cost(o, node) : 0;
  }
}
