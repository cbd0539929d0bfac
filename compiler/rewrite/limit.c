// limit.c: of the positions that choose one place, the first ones: as many as the layout's `capacity` allows.
//
// Needs chosen products (choose.c); comes before samples and differentiate, so that gradients leave out what the
// forward does. The capacity is a number of even shares: where it is 1.25, a place gets at most 1.25 / places of the
// positions that one rank has in one microbatch. What is left out is counted for the output `dropped`.
#include <string.h>

#include "compiler/pass/compilation.h"

typedef struct {
  ValueId index, limited;
  AxisId axis;
} Limited;

typedef struct {
  Compilation *c;
  Graph *graph;
  ARRAY(Limited) all;
} Limiter;

static ValueId limited(Limiter *l, const Node *node) {
  Graph *graph = l->graph;
  const ValueId index = node->operands[2];
  const AxisId axis = node->axis;
  for (int i = 0; i < l->all.count; i++) {
    if (l->all.at[i].index == index && l->all.at[i].axis == axis) {
      return l->all.at[i].limited;
    }
  }
  const NodeInit init = {NODE_INIT, .axis = axis, .axes = graph_shape(graph, index), .number = l->c->spec->capacity};
  graph_follow(graph, node);
  const ValueId made = graph_add1(graph, OP_LIMIT, init, index);
  array_push(l->c->arena, &l->all, ((Limited){index, made, axis}));
  return made;
}

// How many positions choose nothing now.
static ValueId count_dropped(Graph *graph, ValueId index) {
  const ValueId out = graph_op2(graph, OP_LESS, index, graph_integer(graph, 0));
  const ValueId one = graph_op3(graph, OP_WHERE, out, graph_real(graph, 1), graph_real(graph, 0));
  return graph_sum(graph, one, graph_shape(graph, index));
}

static void show_dropped(const Limiter *l) {
  Graph *graph = l->graph;
  ValueId sum = -1;
  for (int i = 0; i < l->all.count; i++) {
    graph_follow(graph, graph_producer(graph, l->all.at[i].limited));
    graph->role = ROLE_ACTIVATION;
    const ValueId dropped = count_dropped(graph, l->all.at[i].limited);
    sum = sum < 0 ? dropped : graph_op2(graph, OP_ADD, sum, dropped);
  }
  graph->span = l->c->spec->capacity_span;
  graph_add1(graph, OP_OUTPUT, (NodeInit){NODE_INIT, .text = name_of(graph->names, "dropped")}, sum);
}

bool pass_limit(Compilation *c) {
  Graph *graph = c->graph;
  Limiter l = {.c = c, .graph = graph};
  if (c->spec->capacity == 0) {
    return pass_changed_nothing(c);
  }
  const GraphPlace place = graph_place(graph);
  const NodeList old = graph_rewrite(graph, 0);
  for (int i = 0; i < old.count; i++) {
    if (op_chosen(graph_node(graph, old.at[i])->op)) {
      const ValueId index = limited(&l, graph_node(graph, old.at[i]));
      graph_node(graph, old.at[i])->operands[2] = index;
    }
    array_push(graph->arena, &graph->regions.at[0].nodes, old.at[i]);
  }
  if (l.all.count > 0) {
    show_dropped(&l);
  }
  graph_return(graph, place);
  if (l.all.count == 0 && !c->spec->idle_rules) {
    Diagnostic *error = diag_error(c->diag, E045, c->spec->capacity_span,
                                   "the capacity limits nothing: no product has matrices that positions choose");
    diag_help(c->diag, error, "remove it");
    return false;
  }
  return true;
}
