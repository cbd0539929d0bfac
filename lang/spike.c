// spike.c: `spike = 5;` in a recipe: a step whose loss is more than 5 times the median of the last ones is skipped.
//
// The losses of the last steps that were not skipped are state of the training step, as that of an optimizer is: so the
// decision is made where the update is, on every rank alike, and a run that is resumed decides as one that was not
// stopped.
#include <math.h>

#include "lang/settings_rules.h"
#include "lang/updates.h"

enum { SPIKE_LOSSES = 32, SPIKE_LEAST = 8 };

static ValueId position(Graph *graph, AxisId axis) {
  return graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = axis});
}

static ValueId count_where(Graph *graph, ValueId condition, AxisId axis) {
  return graph_sum(graph, graph_op1(graph, OP_TO_REAL, condition), shape_of(axis));
}

// Of those of `losses` that are `known`, the lower one where there are two; 0: there are none.
static ValueId median_of(Elaborator *e, ValueId losses, ValueId known, ValueId count, AxisId axis) {
  Graph *graph = e->graph;
  const AxisId other = graph_axis(graph, name_of(e->names, "loss'"), SPIKE_LOSSES);
  const ValueId ordered = graph_op3(graph, OP_WHERE, known, losses, graph_real(graph, INFINITY));
  const ValueId down = top_ranks(graph, graph_op1(graph, OP_NEG, ordered), axis, other);  // the smallest is the first
  const ValueId rank = graph_op1(graph, OP_TO_REAL, down);
  const ValueId half =
      graph_op2(graph, OP_MUL, graph_op2(graph, OP_SUB, count, graph_real(graph, 1)), graph_real(graph, 0.5));
  const ValueId here = graph_op2(graph, OP_EQUAL, rank, graph_op1(graph, OP_FLOOR, half));
  const ValueId one = graph_op3(graph, OP_WHERE, graph_op2(graph, OP_AND, here, known), losses, graph_real(graph, 0));
  return graph_sum(graph, one, shape_of(axis));
}

ValueId spike_losses(Elaborator *e, ValueId *losses, ValueId loss) {
  const Ast *phrase = settings_phrase(e->spec->text->recipe, "spike");
  Graph *graph = e->graph;
  double factor;
  if (!phrase || !phrase->kids[1] || !setting_constant(phrase->kids[1], &factor)) {
    return -1;
  }
  graph->span = phrase->kids[0]->span;
  const AxisId axis = graph_axis(graph, name_of(e->names, "loss"), SPIKE_LOSSES);
  Persistent made = {.name = name_of(e->names, PLAN_SPIKE_LOSSES),
                     .role = ROLE_OPTIMIZER_STATE,
                     .shape = shape_of(axis),
                     .in_count = -1,
                     .type = TYPE_REAL,
                     .span = phrase->kids[0]->span,
                     .value = -1};
  const Object state = make_persistent(e, made, NULL, NULL);
  if (state.kind != OBJECT_VALUE) {
    return -1;
  }
  *losses = state.value;
  const ValueId known = graph_op2(graph, OP_LESS, graph_real(graph, 0), *losses);  // 0: of no step yet
  const ValueId count = count_where(graph, known, axis);
  const ValueId limit = graph_op2(graph, OP_MUL, median_of(e, *losses, known, count, axis), graph_real(graph, factor));
  const ValueId enough = graph_op2(graph, OP_LESS, graph_real(graph, SPIKE_LEAST - 0.5), count);
  return graph_op2(graph, OP_AND, enough, graph_op2(graph, OP_LESS, limit, loss));
}

ValueId spike_next(Elaborator *e, ValueId losses, ValueId loss) {
  Graph *graph = e->graph;
  const AxisId axis = graph_shape(graph, losses).axis[0];
  const ValueId place = graph_op2(graph, OP_MOD, step_value(e), graph_integer(graph, SPIKE_LOSSES));
  return graph_op3(graph, OP_WHERE, graph_op2(graph, OP_EQUAL, position(graph, axis), place), loss, losses);
}
