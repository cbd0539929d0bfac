// taps.c: a window that is multiplied and summed at once, as a sum of slices of what it looks at.
//
// y[s] = sum over t of w[t] x[s + t - (T - 1)] is read from x with T - 1 zeros before it, once for each tap: a kernel
// reads the slices where they lie, and neither the window, T times as large as x, nor its gradient is anywhere.
#include "compiler/rewrite/taps.h"

enum { MOST_TAPS = 8 };

static const Node *made_by(const Graph *graph, ValueId value, Op op) {
  const Node *node = graph_producer(graph, value);
  return node && node->op == op ? node : NULL;
}

static int64_t taps_of(const Graph *graph, AxisId tap) {
  return graph->axes.at[tap].size;
}

// x with taps - 1 zeros before it, or behind it, of which `reach` is the axis.
static ValueId padded(Graph *graph, ValueId x, AxisId axis, int64_t taps, bool before, AxisId *reach) {
  const Name name = name_format(graph->names, "%s.reach", graph->axes.at[axis].name);
  *reach = graph_axis(graph, name, graph->axes.at[axis].size + taps - 1);
  const NodeInit init = {NODE_INIT, .axis = axis, .axis2 = *reach, .integer = before ? taps - 1 : 0};
  return graph_add1(graph, OP_PAD, init, x);
}

static ValueId sliced(Graph *graph, ValueId reaching, AxisId reach, AxisId axis, int64_t first) {
  return graph_add1(graph, OP_SLICE, (NodeInit){NODE_INIT, .axis = reach, .axis2 = axis, .integer = first}, reaching);
}

// Along the axis, w[t] times x at place t of what it reaches, or, backwards, at place T - 1 - t; summed over t.
static ValueId weighted(Graph *graph, ValueId x, ValueId w, AxisId axis, AxisId tap, bool forwards) {
  const int64_t taps = taps_of(graph, tap);
  AxisId reach;
  const ValueId reaching = padded(graph, x, axis, taps, forwards, &reach);
  ValueId sum = -1;
  for (int64_t t = 0; t < taps; t++) {
    const ValueId weight = graph_add1(graph, OP_SLICE, (NodeInit){NODE_INIT, .axis = tap, .integer = t}, w);
    const ValueId there = sliced(graph, reaching, reach, axis, forwards ? t : taps - 1 - t);
    const ValueId term = graph_op2(graph, OP_MUL, there, weight);
    sum = sum < 0 ? term : graph_op2(graph, OP_ADD, sum, term);
  }
  return sum;
}

// The gradient of w: for each tap, the sum of x there times y.
static ValueId correlated(Graph *graph, ValueId x, ValueId y, AxisId axis, AxisId tap, Shape over) {
  const int64_t taps = taps_of(graph, tap);
  AxisId reach;
  const ValueId reaching = padded(graph, x, axis, taps, true, &reach);
  ValueId all = -1;
  for (int64_t t = 0; t < taps; t++) {
    const ValueId product = graph_op2(graph, OP_MUL, sliced(graph, reaching, reach, axis, t), y);
    const ValueId sum = graph_sum(graph, product, over);
    const ValueId one = graph_add1(graph, OP_PAD, (NodeInit){NODE_INIT, .axis2 = tap, .integer = t}, sum);
    all = all < 0 ? one : graph_op2(graph, OP_ADD, all, one);
  }
  return all;
}

static bool has(const Graph *graph, ValueId value, AxisId axis) {
  const Shape shape = graph_shape(graph, value);
  return shape_has(&shape, axis);
}

// Whether a product of these is elementwise: one has all axes of the other, but for the taps.
static bool elementwise(const Graph *graph, ValueId x, ValueId other, AxisId tap) {
  const Shape shape = graph_shape(graph, x);
  Shape rest = graph_shape(graph, other);
  shape_remove(&rest, tap);
  return shape_contains(&shape, &rest);
}

static ValueId dot_apart(Graph *graph, const Node *dot) {
  for (int side = 0; side < 2; side++) {
    const Node *window = made_by(graph, dot->operands[side], OP_WINDOW);
    const ValueId other = dot->operands[1 - side];
    if (!window || taps_of(graph, window->axis2) > MOST_TAPS ||
        !elementwise(graph, window->operands[0], other, window->axis2)) {
      continue;
    }
    const AxisId axis = window->axis, tap = window->axis2;
    graph->span = window->span;  // what may be said of the axis is said of it
    const bool of_taps = dot->axes.count == 1 && dot->axes.axis[0] == tap;
    if (of_taps && has(graph, other, tap) && !has(graph, other, axis)) {
      return weighted(graph, window->operands[0], other, axis, tap, true);
    }
    if (shape_has(&dot->axes, axis) && !shape_has(&dot->axes, tap) && !has(graph, other, tap)) {
      return correlated(graph, window->operands[0], other, axis, tap, dot->axes);
    }
  }
  return -1;
}

static ValueId fold_apart(Graph *graph, const Node *fold) {
  const Node *outer = graph_producer(graph, fold->operands[0]);
  const AxisId axis = fold->axis, tap = fold->axis2;
  if (!outer || (outer->op != OP_DOT && outer->op != OP_MUL) || (outer->op == OP_DOT && outer->axes.count > 0) ||
      taps_of(graph, tap) > MOST_TAPS) {
    return -1;
  }
  for (int side = 0; side < 2; side++) {
    const ValueId x = outer->operands[side], w = outer->operands[1 - side];
    if (has(graph, x, axis) && !has(graph, x, tap) && has(graph, w, tap) && !has(graph, w, axis) &&
        elementwise(graph, x, w, tap)) {
      return weighted(graph, x, w, axis, tap, false);
    }
  }
  return -1;
}

ValueId taps_apart(Graph *graph, NodeId id) {
  const Node node = *graph_node(graph, id);
  return node.op == OP_DOT ? dot_apart(graph, &node) : node.op == OP_FOLD ? fold_apart(graph, &node) : -1;
}
