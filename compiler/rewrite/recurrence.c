// recurrence.c: see recurrence.h.
#include "compiler/rewrite/recurrence.h"

#include <math.h>

// Positions up to so many are one chunk, and states of so many chunks are carried on by one product; and what a state
// must have besides what its decay has, for products of matrices.
enum { ONE_CHUNK = 128, MOST_CHUNKS = 256, LEAST_COLUMNS = 8 };

static bool has(const Graph *graph, ValueId value, AxisId axis) {
  const Shape shape = graph_shape(graph, value);
  return shape_has(&shape, axis);
}

static int64_t size_of(const Graph *graph, AxisId axis) {
  return graph->axes.at[axis].size;
}

static AxisId axis_in(Graph *graph, AxisId axis, const char *what, int64_t size) {
  return graph_axis(graph, name_format(graph->names, "%s.%s", graph->axes.at[axis].name, what), size);
}

static ValueId position(Graph *graph, AxisId axis) {
  return graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = axis});
}

static ValueId renamed(Graph *graph, ValueId x, AxisId from, AxisId to) {
  return has(graph, x, from) ? graph_add1(graph, OP_RENAME, (NodeInit){NODE_INIT, .axis = from, .axis2 = to}, x) : x;
}

static ValueId with_axes(Graph *graph, ValueId x, const Shape *axes) {
  const Shape shape = graph_shape(graph, x), all = shape_union(shape, axes);
  return shape_contains(&shape, axes) ? x : graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = all}, x);
}

static ValueId along(Graph *graph, ValueId x, AxisId axis) {
  const Shape one = shape_of(axis);
  return with_axes(graph, x, &one);
}

static ValueId last_of(Graph *graph, ValueId x, AxisId axis) {
  const NodeInit init = {NODE_INIT, .axis = axis, .integer = size_of(graph, axis) - 1};
  return has(graph, x, axis) ? graph_add1(graph, OP_SLICE, init, x) : x;
}

// The same, its axes in the order of these, then the others.
static ValueId in_order(Graph *graph, ValueId x, Shape first) {
  const Shape shape = graph_shape(graph, x), order = shape_common(first, &shape);
  graph_value(graph, x)->shape = shape_union(order, &shape);
  return x;
}

// Zeros come first, and what leaves the end is gone.
static ValueId later(Graph *graph, ValueId x, AxisId axis, int64_t by) {
  const Shape shape = graph_shape(graph, x);
  if (by >= size_of(graph, axis)) {
    return with_axes(graph, graph_real(graph, 0), &shape);
  }
  const AxisId rest = axis_in(graph, axis, "rest", size_of(graph, axis) - by);
  const ValueId cut = graph_add1(graph, OP_SLICE, (NodeInit){NODE_INIT, .axis = axis, .axis2 = rest}, x);
  return graph_add1(graph, OP_PAD, (NodeInit){NODE_INIT, .axis = rest, .axis2 = axis, .integer = by}, cut);
}

ValueId recurrence_before(Graph *graph, ValueId x, AxisId axis, ValueId initial) {
  const ValueId before = later(graph, x, axis, 1);
  if (initial < 0) {
    return before;
  }
  const ValueId first = graph_op2(graph, OP_EQUAL, position(graph, axis), graph_integer(graph, 0));
  return graph_op3(graph, OP_WHERE, first, initial, before);
}

// --- decays ---

static ValueId factor_of(Graph *graph, Decay decay) {
  return decay.log ? graph_op1(graph, OP_EXP, decay.value) : decay.value;
}

// Products of factors up to each position, in log(n) rounds.
static ValueId products_along(Graph *graph, ValueId x, AxisId axis) {
  for (int64_t by = 1; by < size_of(graph, axis); by *= 2) {
    const ValueId from = graph_op2(graph, OP_LESS_EQUAL, graph_integer(graph, by), position(graph, axis));
    const ValueId before = graph_op3(graph, OP_WHERE, from, later(graph, x, axis, by), graph_real(graph, 1));
    x = graph_op2(graph, OP_MUL, x, before);
  }
  return x;
}

// Of all positions before each, by logarithms.
static ValueId logarithms_along(Graph *graph, Decay decay, AxisId axis, Op before) {
  const AxisId from = axis_in(graph, axis, "from", size_of(graph, axis));
  const ValueId ahead = graph_op2(graph, before, position(graph, from), position(graph, axis));
  const ValueId terms =
      graph_op3(graph, OP_WHERE, ahead, renamed(graph, decay.value, axis, from), graph_real(graph, 0));
  return graph_add1(graph, OP_SUM, (NodeInit){NODE_INIT, .axes = shape_of(from)}, terms);
}

// Of all positions up to each, itself included.
static Decay up_to(Graph *graph, Decay decay, AxisId axis) {
  if (!decay.log) {
    return (Decay){products_along(graph, along(graph, decay.value, axis), axis), false};
  }
  return (Decay){logarithms_along(graph, decay, axis, OP_LESS_EQUAL), true};
}

// How much of what `from` adds is left at each position along the axis; 0 of what comes later.
static ValueId between(Graph *graph, Decay decay, Decay sums, AxisId axis, AxisId from) {
  const ValueId ahead = graph_op2(graph, OP_LESS_EQUAL, position(graph, from), position(graph, axis));
  if (decay.log) {
    const ValueId left = graph_op2(graph, OP_SUB, sums.value, renamed(graph, sums.value, axis, from));
    return graph_op1(graph, OP_EXP, graph_op3(graph, OP_WHERE, ahead, left, graph_real(graph, -INFINITY)));
  }
  const ValueId behind = graph_op2(graph, OP_LESS, position(graph, from), position(graph, axis));
  const ValueId factors = graph_op3(graph, OP_WHERE, behind, decay.value, graph_real(graph, 1));
  return graph_op3(graph, OP_WHERE, ahead, products_along(graph, factors, axis), graph_real(graph, 0));
}

// --- chunks ---

typedef struct {
  AxisId axis, chunk, at, padded;  // padded: in place of the axis where its size has no fitting divisor, else itself
} Chunks;

// The divisor nearest below the length that is wanted, or a little above it; that length if there is none.
static int64_t length_of(int64_t size) {
  const int64_t wanted = size <= 1024 ? 64 : size <= 65536 ? 128 : 256;
  for (int64_t length = wanted; length >= wanted / 2; length--) {
    if (size % length == 0) {
      return length;
    }
  }
  for (int64_t length = wanted + 1; length <= 2 * wanted; length++) {
    if (size % length == 0) {
      return length;
    }
  }
  return wanted;
}

static Chunks chunks_of(Graph *graph, AxisId axis) {
  const int64_t size = size_of(graph, axis), length = length_of(size), count = (size + length - 1) / length;
  Chunks chunks = {axis, axis_in(graph, axis, "chunk", count), axis_in(graph, axis, "at", length), axis};
  chunks.padded = count * length == size ? axis : axis_in(graph, axis, "padded", count * length);
  return chunks;
}

static ValueId split(Graph *graph, ValueId x, const Chunks *chunks) {
  if (!has(graph, x, chunks->axis)) {
    return x;
  }
  if (chunks->padded != chunks->axis) {
    x = graph_add1(graph, OP_PAD, (NodeInit){NODE_INIT, .axis = chunks->axis, .axis2 = chunks->padded}, x);
  }
  const Shape axes = {2, {chunks->chunk, chunks->at}};
  return graph_add1(graph, OP_SPLIT, (NodeInit){NODE_INIT, .axis = chunks->padded, .axes = axes}, x);
}

static ValueId merged(Graph *graph, ValueId x, const Chunks *chunks) {
  const Shape axes = {2, {chunks->chunk, chunks->at}};
  x = with_axes(graph, x, &axes);
  x = graph_add1(graph, OP_MERGE, (NodeInit){NODE_INIT, .axes = axes, .axis2 = chunks->padded}, x);
  return chunks->padded == chunks->axis
             ? x
             : graph_add1(graph, OP_SLICE, (NodeInit){NODE_INIT, .axis = chunks->padded, .axis2 = chunks->axis}, x);
}

// --- states ---

static bool by_matrix(const Recurrence *r) {
  const Shape decay = graph_shape(r->graph, r->decay.value);
  Shape columns = shape_minus(r->all, &decay);
  shape_remove(&columns, r->axis);
  return graph_elements(r->graph, columns) >= LEAST_COLUMNS;
}

// In log(n) rounds, each of which joins what is known of 1, 2, 4, ... positions.
static ValueId by_doubling(const Recurrence *r) {
  Graph *graph = r->graph;
  ValueId factor = along(graph, factor_of(graph, r->decay), r->axis), sum = along(graph, r->added, r->axis);
  const int64_t size = size_of(graph, r->axis);
  for (int64_t by = 1; by < size; by *= 2) {
    sum = graph_op2(graph, OP_ADD, sum, graph_op2(graph, OP_MUL, factor, later(graph, sum, r->axis, by)));
    factor = 2 * by < size ? graph_op2(graph, OP_MUL, factor, later(graph, factor, r->axis, by)) : factor;
  }
  return sum;
}

static ValueId states_of_chunk(const Recurrence *r) {
  Graph *graph = r->graph;
  if (!by_matrix(r)) {
    return by_doubling(r);
  }
  const AxisId from = axis_in(graph, r->axis, "from", size_of(graph, r->axis));
  const Decay sums = r->decay.log ? up_to(graph, r->decay, r->axis) : r->decay;
  const ValueId left = between(graph, r->decay, sums, r->axis, from);
  const ValueId here = along(graph, r->added, r->axis), added = renamed(graph, here, r->axis, from);
  const NodeInit over = {NODE_INIT, .axes = shape_of(from)};
  return in_order(graph, graph_add2(graph, OP_DOT, over, left, added), graph_shape(graph, here));
}

// The states before each position, by logarithms: only decays are moved by a position, not states.
static ValueId before_by_matrix(const Recurrence *r) {
  Graph *graph = r->graph;
  const AxisId from = axis_in(graph, r->axis, "from", size_of(graph, r->axis));
  const ValueId past = logarithms_along(graph, r->decay, r->axis, OP_LESS);
  const ValueId sums = logarithms_along(graph, r->decay, r->axis, OP_LESS_EQUAL);
  const ValueId behind = graph_op2(graph, OP_LESS, position(graph, from), position(graph, r->axis));
  const ValueId left = graph_op2(graph, OP_SUB, past, renamed(graph, sums, r->axis, from));
  const ValueId decays =
      graph_op1(graph, OP_EXP, graph_op3(graph, OP_WHERE, behind, left, graph_real(graph, -INFINITY)));
  const ValueId there = along(graph, r->added, r->axis), added = renamed(graph, there, r->axis, from);
  const NodeInit over = {NODE_INIT, .axes = shape_of(from)};
  return in_order(graph, graph_add2(graph, OP_DOT, over, decays, added), graph_shape(graph, there));
}

// States at the ends of chunks, of what each chunk leaves by itself; then those before each chunk.
static ValueId states_before(const Recurrence *r, const Chunks *chunks, Decay sums, ValueId left) {
  Recurrence of = {.graph = r->graph,
                   .axis = chunks->chunk,
                   .decay = {last_of(r->graph, sums.value, chunks->at), sums.log},
                   .added = left,
                   .all = r->all};
  shape_replace(&of.all, r->axis, chunks->chunk);
  if (of.decay.log && size_of(r->graph, chunks->chunk) <= MOST_CHUNKS && by_matrix(&of)) {
    return before_by_matrix(&of);
  }
  return later(r->graph, recurrence_states(&of), chunks->chunk, 1);
}

ValueId recurrence_states(const Recurrence *r) {
  Graph *graph = r->graph;
  if (size_of(graph, r->axis) <= ONE_CHUNK) {
    return with_axes(graph, states_of_chunk(r), &r->all);
  }
  const Chunks chunks = chunks_of(graph, r->axis);
  const ValueId added = along(graph, r->added, r->axis);
  Recurrence inner = {.graph = graph,
                      .axis = chunks.at,
                      .decay = {split(graph, r->decay.value, &chunks), r->decay.log},
                      .added = split(graph, added, &chunks),
                      .all = r->all};
  shape_replace(&inner.all, r->axis, chunks.at);
  const ValueId states = states_of_chunk(&inner);
  const Decay sums = up_to(graph, inner.decay, chunks.at);
  const ValueId before = states_before(r, &chunks, sums, last_of(graph, states, chunks.at));
  const ValueId handed = graph_op2(graph, OP_MUL, factor_of(graph, sums), before);
  return with_axes(graph, merged(graph, graph_op2(graph, OP_ADD, states, handed), &chunks), &r->all);
}

// --- what is read of states ---

bool recurrence_may_read(const Recurrence *r, const Reading *reading) {
  enum { CHUNK = 64, TIMES = 4 };
  const Graph *graph = r->graph;
  const Shape by = graph_shape(graph, reading->by), of = graph_shape(graph, reading->along);
  const Shape decay = graph_shape(graph, r->decay.value), both = shape_union(by, &of);
  const Shape scores = shape_minus(shape_union(both, &decay), &reading->over);
  const Shape decayed = shape_common(decay, &reading->over);
  // A decay of its own for each product is no product of matrices: chunks of exponentials are more than the states.
  return decayed.count == 0 && shape_contains(&of, &reading->over) && shape_contains(&by, &reading->over) &&
         graph_elements(graph, scores) * CHUNK <= TIMES * graph_elements(graph, r->all);
}

// Of what `from` adds, at the end of its chunk. Logarithms tell without the matrix, which then lies nowhere.
static ValueId left_at_end(Graph *graph, ValueId left, Decay sums, AxisId at, AxisId from) {
  if (!sums.log) {
    return last_of(graph, left, at);
  }
  const ValueId end = last_of(graph, sums.value, at), here = renamed(graph, sums.value, at, from);
  return graph_op1(graph, OP_EXP, graph_op2(graph, OP_SUB, end, here));
}

static ValueId summed(Graph *graph, ValueId a, ValueId b, AxisId over) {  // a: -1: there is none
  const NodeInit init = {NODE_INIT, .axes = shape_of(over)};
  return a < 0 ? graph_add1(graph, OP_SUM, init, b) : graph_add2(graph, OP_DOT, init, b, along(graph, a, over));
}

ValueId recurrence_read(const Recurrence *r, const Reading *reading) {
  Graph *graph = r->graph;
  const int64_t size = size_of(graph, r->axis);
  const bool one = size <= ONE_CHUNK;
  const Chunks chunks = one ? (Chunks){r->axis, -1, r->axis, r->axis} : chunks_of(graph, r->axis);
  const AxisId at = chunks.at, from = axis_in(graph, at, "from", size_of(graph, at));
  ValueId by = along(graph, reading->by, r->axis), of = along(graph, reading->along, r->axis), what = reading->what;
  Decay decay = r->decay;
  if (!one) {
    by = split(graph, by, &chunks);
    of = split(graph, of, &chunks);
    what = what < 0 ? -1 : split(graph, what, &chunks);
    decay.value = split(graph, decay.value, &chunks);
  }
  const NodeInit over = {NODE_INIT, .axes = reading->over};
  const Decay sums = up_to(graph, decay, at);
  const ValueId left = between(graph, decay, sums, at, from);
  const ValueId scores =
      graph_op2(graph, OP_MUL, graph_add2(graph, OP_DOT, over, by, renamed(graph, of, at, from)), left);
  const ValueId whole = what < 0 ? -1 : along(graph, what, at),
                sources = what < 0 ? -1 : renamed(graph, whole, at, from);
  const ValueId read = in_order(graph, summed(graph, sources, scores, from), graph_shape(graph, what < 0 ? by : whole));
  if (one) {
    return read;
  }
  // What each chunk leaves at its end.
  const ValueId last = left_at_end(graph, left, sums, at, from), there = renamed(graph, of, at, from);
  const ValueId decayed = what < 0 ? graph_op2(graph, OP_MUL, last, there) : graph_op2(graph, OP_MUL, sources, last);
  const ValueId left_over = what < 0 ? summed(graph, -1, decayed, from) : summed(graph, there, decayed, from);
  const ValueId before = states_before(r, &chunks, sums, left_over);
  // Merged before they are added, which so is a part of the kernel that reads the sum.
  const ValueId old = merged(graph, graph_add2(graph, OP_DOT, over, by, before), &chunks);
  const ValueId faded = graph_op2(graph, OP_MUL, old, merged(graph, factor_of(graph, sums), &chunks));
  return graph_op2(graph, OP_ADD, merged(graph, read, &chunks), faded);
}
