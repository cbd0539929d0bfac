// top.c: the largest along an axis and where they are, made of comparisons of each element with each.
//
// The rank of an element is how many come before it: the larger ones, and of equal ones those with a lower position.
// NaN stands for infinity here, so that it is not lost. All of it is counting, so that it is the same to the bit on
// every backend and under every layout; fused, it stores no more than the ranks.
#include <math.h>

#include "lang/elaborate.h"

// Ranks take time with the square of the size, and the reals that count them are exact up to far more.
enum { TOP_MOST = 1 << 16 };

static Object not_along(Elaborator *e, AxisId axis, Span span) {
  Diagnostic *error =
      diag_error(e->diag, E070, span, "this version cannot take the top of axis '%s', which has size %lld",
                 axis_name(e, axis), (long long)axis_size(e, axis));
  diag_help(e->diag, error, "it compares each element with each, for up to %d", TOP_MOST);
  return object_poison();
}

static bool top_fits(Elaborator *e, const Ast *ast, ValueId x, const Arguments *arguments) {
  const AxisId over = arguments->over.axis[0], to = arguments->to.axis[0];
  const Shape shape = graph_shape(e->graph, x);
  if (shape_has(&shape, to)) {
    diag_error(e->diag, E021, arguments->to_span, "axis '%s' would occur twice", axis_name(e, to));
    return false;
  }
  if (cut_in_microbatches(e, over) || cut_in_microbatches(e, to)) {
    needs_whole_batch(e, cut_in_microbatches(e, over) ? over : to, ast->span);
    return false;
  }
  if (axis_size(e, to) > axis_size(e, over)) {
    diag_error(e->diag, E024, ast->span, "cannot take the top %lld of axis '%s', which has size %lld",
               (long long)axis_size(e, to), axis_name(e, over), (long long)axis_size(e, over));
    return false;
  }
  if (axis_size(e, over) > TOP_MOST) {
    not_along(e, over, ast->span);
    return false;
  }
  return axes_fit(e, shape.count + 1, ast->span);
}

static ValueId position(Graph *graph, AxisId axis) {
  return graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = axis});
}

static ValueId number(Graph *graph, double number) {
  return graph_add0(graph, OP_CONST, (NodeInit){NODE_INIT, .number = number});
}

static ValueId summed_where(Graph *graph, ValueId condition, ValueId value, AxisId over) {
  const ValueId chosen = graph_op3(graph, OP_WHERE, condition, value, number(graph, 0));
  return graph_add1(graph, OP_SUM, (NodeInit){NODE_INIT, .axes = shape_of(over)}, chosen);
}

// One more axis of the same size, which x lacks.
static AxisId axis_beside(Elaborator *e, ValueId x, AxisId axis) {
  const Shape shape = graph_shape(e->graph, x);
  AxisId made = axis;
  while (shape_has(&shape, made)) {
    made = graph_axis(e->graph, name_format(e->names, "%s'", axis_name(e, made)), axis_size(e, axis));
  }
  return made;
}

ValueId top_ranks(Graph *graph, ValueId x, AxisId axis, AxisId other) {
  const ValueId value = graph_op1(graph, OP_STOP, x);
  const ValueId known = graph_op2(graph, OP_EQUAL, value, value);
  const ValueId mine = graph_op3(graph, OP_WHERE, known, value, number(graph, INFINITY));
  const ValueId theirs = graph_add1(graph, OP_RENAME, (NodeInit){NODE_INIT, .axis = axis, .axis2 = other}, mine);
  const ValueId earlier = graph_op2(graph, OP_LESS, position(graph, other), position(graph, axis));
  const ValueId tie = graph_op2(graph, OP_AND, graph_op2(graph, OP_EQUAL, theirs, mine), earlier);
  const ValueId before = graph_op2(graph, OP_OR, graph_op2(graph, OP_LESS, mine, theirs), tie);
  return graph_op1(graph, OP_TO_INT, summed_where(graph, before, number(graph, 1), other));
}

// (values, positions) = top(x over axis to k)
Object builtin_top(Elaborator *e, const Ast *ast, Arguments *arguments) {
  ValueId x;
  if (arguments->positional_count != 1 || arguments->over.count != 1 || arguments->to.count != 1) {
    Diagnostic *error =
        diag_error(e->diag, E030, ast->span, "'top' takes a value, one axis after `over` and one after `to`");
    diag_help(e->diag, error, "write `(gate, who) = top(p over experts to choice)`");
    return object_poison();
  }
  if (!object_tensor(e, arguments->positional[0], true, ast->span, &x) ||
      !check_axes(e, x, &arguments->over, arguments->over_span, "the sorted value") ||
      !top_fits(e, ast, x, arguments)) {
    return object_poison();
  }
  Graph *graph = e->graph;
  graph->span = ast->span;
  const AxisId over = arguments->over.axis[0], to = arguments->to.axis[0];
  const ValueId place = graph_op1(graph, OP_TO_REAL, position(graph, over));
  const ValueId rank = top_ranks(graph, x, over, axis_beside(e, x, over));
  const ValueId here = graph_op2(graph, OP_EQUAL, rank, position(graph, to));
  const NodeInit along = {NODE_INIT, .axis = over};
  // One place is here, and the minimum is that place: it says to who reads the graph that none is outside (range.h).
  const ValueId most = number(graph, (double)axis_size(e, over) - 1);
  const ValueId found = graph_op2(graph, OP_MIN, summed_where(graph, here, place, over), most);
  const ValueId who = graph_add1(graph, OP_AS_INDEX, along, graph_op1(graph, OP_TO_INT, found));
  Object *items = ARENA_ARRAY(e->arena, Object, 2);
  items[0] = object_value(graph_add2(graph, OP_TAKE, along, x, who), ast->span);
  items[1] = object_value(who, ast->span);
  return (Object){.kind = OBJECT_TUPLE, .count = 2, .items = items, .span = ast->span};
}
