// gradient_draw.h: small random graphs around one op, for the gradient check. Include once.
//
// A Draw makes leaves with random axes and distinct real values, so that no two are close to a tie. Each generator
// returns the real value whose weighted sum is the loss. The table at the end has one entry for each op.
#ifndef MDL_TESTS_GRADIENT_DRAW_H
#define MDL_TESTS_GRADIENT_DRAW_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "compiler/grad/backward.h"
#include "tests/reference.h"

enum { DRAW_AXES = 4, DRAW_MOST_LEAVES = 8, DRAW_LARGEST = 4 };

typedef struct {
  Name name;
  ValueId value;
  bool wanted;   // differentiated
  int64_t most;  // of an integer leaf: values -1 .. most; 0: real
  double *data;
} Leaf;

typedef struct {
  Arena *arena;
  Graph *graph;
  uint64_t seed;
  Op op;
  AxisId axis[DRAW_AXES];
  Leaf leaf[DRAW_MOST_LEAVES];
  int leaf_count, axis_count;
} Draw;

typedef ValueId Generator(Draw *draw);

static uint64_t draw_bits(Draw *draw) {  // splitmix64
  uint64_t z = (draw->seed += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static int draw_int(Draw *draw, int least, int most) {
  return least + (int)(draw_bits(draw) % (uint64_t)(most - least + 1));
}

static double draw_unit(Draw *draw) {
  return (double)(draw_bits(draw) >> 11) / 9007199254740992.0;
}

static AxisId draw_axis_of(Draw *draw, int64_t size) {
  char name[32];
  snprintf(name, sizeof name, "axis%d", draw->axis_count++);
  return graph_axis(draw->graph, name_of(draw->graph->names, name), size);
}

static AxisId draw_axis(Draw *draw) {
  return draw_axis_of(draw, draw_int(draw, 1, DRAW_LARGEST));
}

// A random subset of the pool, in random order.
static Shape draw_shape(Draw *draw) {
  Shape shape = {0};
  int count = draw_int(draw, 0, 3);
  for (int i = 0; i < count; i++) {
    shape_push(&shape, draw->axis[draw_int(draw, 0, DRAW_AXES - 1)]);
  }
  return shape;
}

static Shape draw_shape_with(Draw *draw, AxisId axis) {
  Shape shape = draw_shape(draw), all = {0};
  int at = draw_int(draw, 0, shape.count);
  for (int i = 0; i < shape.count; i++) {
    if (i == at) {
      shape_push(&all, axis);
    }
    shape_push(&all, shape.axis[i]);
  }
  shape_push(&all, axis);
  return all;
}

static ValueId draw_leaf(Draw *draw, Shape shape, ElementType type, AxisId bound, int64_t most, bool wanted) {
  Leaf *leaf = &draw->leaf[draw->leaf_count++];
  char name[32];
  snprintf(name, sizeof name, "x%d", draw->leaf_count);
  leaf->name = name_of(draw->graph->names, name);
  NodeInit init = {NODE_INIT, .text = leaf->name, .type = type, .shape = shape};
  init.bound = bound;
  leaf->value = graph_add0(draw->graph, OP_INPUT, init);
  leaf->most = most;
  leaf->wanted = wanted;
  return leaf->value;
}

static ValueId draw_real(Draw *draw, Shape shape) {
  return draw_leaf(draw, shape, TYPE_REAL, -1, 0, true);
}

static ValueId draw_index(Draw *draw, Shape shape, AxisId axis) {
  return draw_leaf(draw, shape, TYPE_INDEX, axis, draw->graph->axes.at[axis].size, false);
}

static NodeInit with(Shape axes, AxisId axis, AxisId axis2, int64_t integer) {
  return (NodeInit){.axes = axes, .axis = axis, .axis2 = axis2, .integer = integer, .region = -1, .bound = -1};
}

// --- generators ---

static ValueId make_unary(Draw *draw) {
  return graph_op1(draw->graph, draw->op, draw_real(draw, draw_shape(draw)));
}

static ValueId make_binary(Draw *draw) {
  ValueId a = draw_real(draw, draw_shape(draw));
  ValueId b = draw_int(draw, 0, 4) ? draw_real(draw, draw_shape(draw)) : a;
  return graph_op2(draw->graph, draw->op, a, b);
}

static ValueId make_choice(Draw *draw) {  // a tie has no derivative: two different leaves
  ValueId a = draw_real(draw, draw_shape(draw));
  return graph_op2(draw->graph, draw->op, a, draw_real(draw, draw_shape(draw)));
}

static ValueId make_where(Draw *draw) {
  ValueId condition = draw_leaf(draw, draw_shape(draw), TYPE_BOOL, -1, -1, false);
  ValueId a = draw_real(draw, draw_shape(draw)), b = draw_int(draw, 0, 4) ? draw_real(draw, draw_shape(draw)) : a;
  return graph_op3(draw->graph, OP_WHERE, condition, a, b);
}

static ValueId make_broadcast(Draw *draw) {
  Shape shape = draw_shape(draw), more = draw_shape(draw);
  Shape all = shape_union(more, &shape);
  return graph_add1(draw->graph, OP_BROADCAST, with(all, -1, -1, 0), draw_real(draw, shape));
}

static ValueId make_reduction(Draw *draw) {
  Shape shape = draw_shape_with(draw, draw->axis[0]), some = draw_shape_with(draw, draw->axis[0]);
  return graph_add1(draw->graph, draw->op, with(shape_common(some, &shape), -1, -1, 0), draw_real(draw, shape));
}

static ValueId make_dot(Draw *draw) {
  Shape a = draw_shape_with(draw, draw->axis[0]), b = draw_shape_with(draw, draw->axis[0]), over = {0};
  Shape common = shape_common(a, &b);
  for (int i = 0; i < common.count; i++) {
    if (common.axis[i] == draw->axis[0] || draw_int(draw, 0, 1)) {
      shape_push(&over, common.axis[i]);
    }
  }
  ValueId left = draw_real(draw, a);
  ValueId right = shape_same_set(&a, &b) && draw_int(draw, 0, 1) ? left : draw_real(draw, b);
  return graph_add2(draw->graph, OP_DOT, with(over, -1, -1, 0), left, right);
}

static ValueId make_take(Draw *draw) {
  AxisId axis = draw_axis_of(draw, draw_int(draw, 2, 5));
  ValueId x = draw_real(draw, draw_shape_with(draw, axis)), index = draw_index(draw, draw_shape(draw), axis);
  return graph_add2(draw->graph, OP_TAKE, with((Shape){0}, axis, -1, 0), x, index);
}

static ValueId make_put(Draw *draw) {
  AxisId axis = draw_axis_of(draw, draw_int(draw, 2, 5));
  Shape rest = draw_shape(draw), by = draw_shape(draw), all = rest;
  shape_push(&all, axis);
  ValueId g = draw_real(draw, shape_union(by, &rest)), index = draw_index(draw, by, axis);
  return graph_add2(draw->graph, OP_PUT, with(all, axis, -1, 0), g, index);
}

// Axes of positions come from the pool, those of matrices are new; each operand has some of both.
static ValueId make_chosen_dot(Draw *draw) {
  const AxisId axis = draw_axis_of(draw, draw_int(draw, 2, 5));
  Shape over = {0}, matrices = shape_of(axis), a = draw_shape(draw);
  for (int i = draw_int(draw, 0, 2); i > 0; i--) {
    shape_push(&over, draw_axis(draw));
  }
  a = draw_int(draw, 0, 1) ? shape_union(a, &over) : shape_union(over, &a);
  matrices = shape_union(matrices, &over);
  for (int i = draw_int(draw, 0, 2); i > 0; i--) {
    shape_push(&matrices, draw_axis(draw));
  }
  const ValueId operands[] = {draw_real(draw, a), draw_real(draw, matrices), draw_index(draw, draw_shape(draw), axis)};
  return graph_add(draw->graph, OP_CHOSEN_DOT, with(over, axis, -1, 0), operands, 3);
}

static ValueId make_chosen_sum(Draw *draw) {
  const AxisId axis = draw_axis_of(draw, draw_int(draw, 2, 5));
  Shape result = shape_of(axis), factor[2];
  for (int i = 0; i < 2; i++) {
    const AxisId own = draw_axis(draw);
    factor[i] = draw_shape_with(draw, own);
    shape_push(&result, own);
  }
  const ValueId operands[] = {draw_real(draw, factor[0]), draw_real(draw, factor[1]),
                              draw_index(draw, draw_shape(draw), axis)};
  return graph_add(draw->graph, OP_CHOSEN_SUM, with(result, axis, -1, 0), operands, 3);
}

static ValueId make_rename(Draw *draw) {
  AxisId from = draw_axis(draw), to = draw_axis_of(draw, draw->graph->axes.at[from].size);
  return graph_add1(draw->graph, OP_RENAME, with((Shape){0}, from, to, 0),
                    draw_real(draw, draw_shape_with(draw, from)));
}

static Shape draw_parts(Draw *draw) {
  Shape parts = {0};
  for (int i = draw_int(draw, 2, 3); i > 0; i--) {
    shape_push(&parts, draw_axis_of(draw, draw_int(draw, 1, 3)));
  }
  return parts;
}

static ValueId make_split(Draw *draw) {
  Shape parts = draw_parts(draw);
  AxisId axis = draw_axis_of(draw, graph_elements(draw->graph, parts));
  return graph_add1(draw->graph, OP_SPLIT, with(parts, axis, -1, 0), draw_real(draw, draw_shape_with(draw, axis)));
}

static ValueId make_merge(Draw *draw) {
  Shape parts = draw_parts(draw), shape = draw_shape(draw);
  AxisId axis = draw_axis_of(draw, graph_elements(draw->graph, parts));
  Shape all = {0};
  for (int i = parts.count - 1; i >= 0; i--) {  // stored in another order than merged
    shape_push(&all, parts.axis[i]);
  }
  return graph_add1(draw->graph, OP_MERGE, with(parts, -1, axis, 0), draw_real(draw, shape_union(all, &shape)));
}

static ValueId make_slice(Draw *draw) {
  int size = draw_int(draw, 2, 5), part = draw_int(draw, 1, size), at = draw_int(draw, 0, size - part);
  AxisId axis = draw_axis_of(draw, size);
  bool one = part == 1 && draw_int(draw, 0, 1);
  AxisId to = one ? -1 : part == size && draw_int(draw, 0, 1) ? axis : draw_axis_of(draw, part);
  return graph_add1(draw->graph, OP_SLICE, with((Shape){0}, axis, to, at),
                    draw_real(draw, draw_shape_with(draw, axis)));
}

static ValueId make_pad(Draw *draw) {
  int size = draw_int(draw, 2, 5), part = draw_int(draw, 1, size), at = draw_int(draw, 0, size - part);
  AxisId to = draw_axis_of(draw, size), from = part == 1 && draw_int(draw, 0, 1) ? -1 : draw_axis_of(draw, part);
  Shape shape = from < 0 ? draw_shape(draw) : draw_shape_with(draw, from);
  return graph_add1(draw->graph, OP_PAD, with((Shape){0}, from, to, at), draw_real(draw, shape));
}

// Slices of one value that tile it, each used by itself: their pads in the gradient are joined to a concatenation.
static ValueId make_tiles(Draw *draw, Shape shape, AxisId axis, const int *sizes, int count) {
  ValueId x = draw_real(draw, shape), parts[4];
  Shape axes = {0};
  for (int i = count - 1, at = (int)draw->graph->axes.at[axis].size; i >= 0; i--) {
    AxisId part = draw_axis_of(draw, sizes[i]);
    at -= sizes[i];
    ValueId cut = graph_add1(draw->graph, OP_SLICE, with((Shape){0}, axis, part, at), x);
    parts[i] = graph_op2(draw->graph, OP_MUL, cut, cut);
    axes.axis[i] = part;
  }
  axes.count = count;
  return graph_add(draw->graph, OP_CONCAT, with(axes, -1, draw_axis_of(draw, draw->graph->axes.at[axis].size), 0),
                   parts, count);
}

static ValueId make_concat(Draw *draw) {
  int count = draw_int(draw, 1, 4), size = 0, sizes[4];
  for (int i = 0; i < count; i++) {
    sizes[i] = draw_int(draw, 1, 3);
    size += sizes[i];
  }
  if (draw_int(draw, 0, 3) == 0) {
    AxisId axis = draw_axis_of(draw, size);
    return make_tiles(draw, draw_shape_with(draw, axis), axis, sizes, count);
  }
  ValueId parts[4];
  Shape axes = {0}, rest = draw_shape(draw);
  for (int i = 0; i < count; i++) {
    Shape shape = rest;
    axes.axis[axes.count++] = draw_axis_of(draw, sizes[i]);
    shape_push(&shape, axes.axis[i]);
    parts[i] = draw_real(draw, shape);
  }
  return graph_add(draw->graph, OP_CONCAT, with(axes, -1, draw_axis_of(draw, size), 0), parts, count);
}

static ValueId make_window(Draw *draw) {
  AxisId axis = draw_axis_of(draw, draw_int(draw, 1, 6)), tap = draw_axis_of(draw, draw_int(draw, 1, 4));
  return graph_add1(draw->graph, OP_WINDOW, with((Shape){0}, axis, tap, 0),
                    draw_real(draw, draw_shape_with(draw, axis)));
}

static ValueId make_fold(Draw *draw) {
  AxisId axis = draw_axis_of(draw, draw_int(draw, 1, 6)), tap = draw_axis_of(draw, draw_int(draw, 1, 4));
  Shape shape = draw_shape_with(draw, axis);
  shape_push(&shape, tap);
  return graph_add1(draw->graph, OP_FOLD, with((Shape){0}, axis, tap, 0), draw_real(draw, shape));
}

static ValueId region_parameter(Draw *draw, RegionId region, ValueId like) {
  Value value = *graph_value(draw->graph, like);
  value.node = -1;
  value.name = NULL;
  ValueId made = graph_new_value(draw->graph, value);
  array_push(draw->arena, &draw->graph->regions.at[region].parameters, made);
  return made;
}

// Two results, one saved statistic that only the gradient reads, an operand that is an index and one unused.
static ValueId make_composite(Draw *draw) {
  Graph *graph = draw->graph;
  AxisId axis = draw_axis_of(draw, draw_int(draw, 2, 4));
  Shape shape = draw_shape_with(draw, axis), over = shape_of(axis);
  ValueId a = draw_real(draw, shape), b = draw_real(draw, shape), unused = draw_real(draw, over);
  ValueId index = draw_index(draw, draw_shape(draw), axis);
  RegionId outer = graph->region, region = graph_region(graph);
  ValueId x = region_parameter(draw, region, a), y = region_parameter(draw, region, b);
  region_parameter(draw, region, unused);
  ValueId who = region_parameter(draw, region, index);
  graph->region = region;
  ValueId sum = graph_sum(graph, graph_op1(graph, OP_EXP, x), over);
  ValueId product = graph_op2(graph, OP_MUL, graph_op2(graph, OP_MUL, x, y), sum);
  ValueId taken = graph_add2(graph, OP_TAKE, with((Shape){0}, axis, -1, 0), product, who);
  ValueList *results = &graph->regions.at[region].results;
  array_push(draw->arena, results, product);
  array_push(draw->arena, results, taken);
  array_push(draw->arena, results, graph_op1(graph, OP_LOG, sum));
  graph->region = outer;
  NodeInit init = {NODE_INIT, .text = name_of(graph->names, "body"), .integer = 1};
  init.region = region;
  ValueId first = graph_add(graph, OP_COMPOSITE, init, (ValueId[]){a, b, unused, index}, 4);
  ValueId total = graph_sum(graph, first, graph_shape(graph, first));
  return draw_int(draw, 0, 2) ? graph_op2(graph, OP_MUL, total, first + 1) : total;
}

// --- the table: each op has a generator and a range of values, or says why it has no gradient ---

typedef struct {
  Generator *make;
  double low, high;     // of real leaves
  bool flat;            // the derivative is 0 wherever there is one
  const char *without;  // why the gradient rule is gradient_none
} Recipe;

static const Recipe recipes[OP_COUNT] = {
    [OP_ADD] = {.make = make_binary, .low = -2, .high = 2},
    [OP_SUB] = {.make = make_binary, .low = -2, .high = 2},
    [OP_MUL] = {.make = make_binary, .low = -2, .high = 2},
    [OP_DIV] = {.make = make_binary, .low = 0.5, .high = 2},
    [OP_MAX] = {.make = make_choice, .low = -2, .high = 2},
    [OP_MIN] = {.make = make_choice, .low = -2, .high = 2},
    [OP_POW] = {.make = make_binary, .low = 0.3, .high = 2},
    [OP_NEG] = {.make = make_unary, .low = -2, .high = 2},
    [OP_ABS] = {.make = make_unary, .low = -2, .high = 2},
    [OP_SIGN] = {.make = make_unary, .low = -2, .high = 2, .flat = true},
    [OP_FLOOR] = {.make = make_unary, .low = 0.02, .high = 0.98, .flat = true},
    [OP_POWER_OF_TWO] = {.make = make_unary, .low = 0.52, .high = 0.98, .flat = true},
    [OP_EXP] = {.make = make_unary, .low = -2, .high = 2},
    [OP_LOG] = {.make = make_unary, .low = 0.3, .high = 3},
    [OP_SQRT] = {.make = make_unary, .low = 0.3, .high = 3},
    [OP_RSQRT] = {.make = make_unary, .low = 0.3, .high = 3},
    [OP_RECIPROCAL] = {.make = make_unary, .low = 0.3, .high = 3},
    [OP_SIN] = {.make = make_unary, .low = -3, .high = 3},
    [OP_COS] = {.make = make_unary, .low = -3, .high = 3},
    [OP_TANH] = {.make = make_unary, .low = -2, .high = 2},
    [OP_SIGMOID] = {.make = make_unary, .low = -2, .high = 2},
    [OP_ERF] = {.make = make_unary, .low = -2, .high = 2},
    [OP_WHERE] = {.make = make_where, .low = -2, .high = 2},
    [OP_BROADCAST] = {.make = make_broadcast, .low = -2, .high = 2},
    [OP_SUM] = {.make = make_reduction, .low = -2, .high = 2},
    [OP_REDUCE_MAX] = {.make = make_reduction, .low = -2, .high = 2},
    [OP_REDUCE_MIN] = {.make = make_reduction, .low = -2, .high = 2},
    [OP_DOT] = {.make = make_dot, .low = -2, .high = 2},
    [OP_TAKE] = {.make = make_take, .low = -2, .high = 2},
    [OP_PUT] = {.make = make_put, .low = -2, .high = 2},
    [OP_CHOSEN_DOT] = {.make = make_chosen_dot, .low = -2, .high = 2},
    [OP_CHOSEN_SUM] = {.make = make_chosen_sum, .low = -2, .high = 2},
    [OP_RENAME] = {.make = make_rename, .low = -2, .high = 2},
    [OP_SPLIT] = {.make = make_split, .low = -2, .high = 2},
    [OP_MERGE] = {.make = make_merge, .low = -2, .high = 2},
    [OP_SLICE] = {.make = make_slice, .low = -2, .high = 2},
    [OP_PAD] = {.make = make_pad, .low = -2, .high = 2},
    [OP_CONCAT] = {.make = make_concat, .low = -2, .high = 2},
    [OP_WINDOW] = {.make = make_window, .low = -2, .high = 2},
    [OP_FOLD] = {.make = make_fold, .low = -2, .high = 2},
    [OP_COMPOSITE] = {.make = make_composite, .low = 0.2, .high = 1.5},
    [OP_INPUT] = {.without = "a leaf"},
    [OP_PARAM] = {.without = "a leaf"},
    [OP_STATE] = {.without = "a leaf"},
    [OP_CONST] = {.without = "a leaf"},
    [OP_INTEGER] = {.without = "a leaf"},
    [OP_POSITION] = {.without = "a leaf"},
    [OP_UNIFORM] = {.without = "depends on no real value"},
    [OP_NORMAL] = {.without = "depends on no real value"},
    [OP_MOD] = {.without = "integers"},
    [OP_IS_FINITE] = {.without = "the result is no real"},
    [OP_LESS] = {.without = "the result is no real"},
    [OP_LESS_EQUAL] = {.without = "the result is no real"},
    [OP_EQUAL] = {.without = "the result is no real"},
    [OP_AND] = {.without = "integers"},
    [OP_OR] = {.without = "integers"},
    [OP_NOT] = {.without = "integers"},
    [OP_TO_REAL] = {.without = "the operand is no real"},
    [OP_TO_INT] = {.without = "the result is no real"},
    [OP_AS_INDEX] = {.without = "integers"},
    [OP_STOP] = {.without = "its meaning; tested by itself"},
    [OP_CAST] = {.without = "made after differentiation"},
    [OP_QUANTISE] = {.without = "made after differentiation"},
    [OP_ORDER] = {.without = "made after differentiation"},
    [OP_TAKE_SUM] = {.without = "made after differentiation"},
    [OP_CHOSEN_DOTS] = {.without = "made after differentiation"},
    [OP_LIMIT] = {.without = "made of an index"},
    [OP_INSIDE] = {.without = "made after differentiation"},
    [OP_SCALED_DOT] = {.without = "made after differentiation"},
    [OP_PACK] = {.without = "made after differentiation"},
    [OP_PART] = {.without = "made after differentiation"},
    [OP_COORDINATE] = {.without = "made after differentiation"},
    [OP_ALL_REDUCE] = {.without = "made after differentiation"},
    [OP_ALL_GATHER] = {.without = "made after differentiation"},
    [OP_REDUCE_SCATTER] = {.without = "made after differentiation"},
    [OP_ALL_TO_ALL] = {.without = "made after differentiation"},
    [OP_SHARD] = {.without = "made after differentiation"},
    [OP_RECEIVE] = {.without = "made after differentiation"},
    [OP_SEND] = {.without = "made after differentiation"},
    [OP_ASSIGN] = {.without = "an effect"},
    [OP_OUTPUT] = {.without = "an effect"},
    [OP_MICROBATCH] = {.without = "made after differentiation"},
    [OP_SCAN] = {.without = "gone before differentiation: see tests/cli/scan.sh"},
    [OP_SEGMENT] = {.without = "made after differentiation"},
    [OP_CHUNKS] = {.without = "made after differentiation"},
    [OP_GROUP] = {.without = "made after differentiation"},
    [OP_SCALED_DOTS] = {.without = "made after differentiation"},
    [OP_SCALED_BIASED_DOTS] = {.without = "made after differentiation"},
    [OP_SCALED_DOT_SUM] = {.without = "made after differentiation"},
    [OP_DOTS] = {.without = "made after differentiation"},
    [OP_BIASED_DOTS] = {.without = "made after differentiation"},
    [OP_DOT_SUM] = {.without = "made after differentiation"},
    [OP_COPY] = {.without = "made after differentiation"},
};

#endif
