// limit.c: how many positions choose one place: shown, and bounded where the layout has a `capacity`.
//
// Needs chosen products (choose.c); comes before samples and differentiate, so that gradients leave out what the
// forward does. The capacity is a number of even shares: where it is 1.25, a place gets at most 1.25 / places of the
// positions that one rank has in one microbatch, the first ones. What is made of others is 0 (limit_choices.c).
//
// Each index of its own gets outputs by its name: `load.NAME`, what the place that is chosen most gets, of an even
// share, before any capacity; `dropped.NAME`, which part of the positions a capacity leaves out. `dropped` counts those
// of all. Loads are spelled as the library's `load` spells them, so that a text that has them too adds nothing.
#include "compiler/rewrite/limit.h"

#include <string.h>

enum { MOST_STEPS = 8 };  // from an index back

typedef struct {
  Compilation *c;
  Graph *graph;
  LimitedIndices all;
} Limiter;

static bool is_same(const Graph *graph, ValueId a, ValueId b, int depth) {
  const Node *x = graph_producer(graph, a), *y = graph_producer(graph, b);
  bool same = a != b && depth > 0 && x && y && x->op == y->op && x->operand_count == y->operand_count &&
              ((op_elementwise(x->op) && !op_indexes(x->op)) || x->op == OP_INTEGER) && x->integer == y->integer;
  for (int i = 0; same && i < x->operand_count; i++) {
    same = is_same(graph, x->operands[i], y->operands[i], depth - 1);
  }
  return a == b || same;
}

bool limit_is_same(const Graph *graph, ValueId a, ValueId b) {
  return is_same(graph, a, b, MOST_STEPS);
}

// Where the product stands, such as layers.3.ffn; what stands nowhere goes by what the text calls the index.
static Name name_for(const Limiter *l, NodeId product, ValueId index) {
  const Graph *graph = l->graph;
  const ScopeId scope = graph_node(graph, product)->scope;
  const Name path = scope >= 0 ? graph->scopes.at[scope].path : NULL;
  Name name = path && *path ? path : NULL;
  const Value *value = graph_value(graph, index);
  for (int i = 0; i < MOST_STEPS && !name && !value->name; i++) {
    const Node *node = value->node >= 0 ? graph_node(graph, value->node) : NULL;
    if (!node || node->operand_count == 0) {
      break;
    }
    value = graph_value(graph, node->operands[node->op == OP_WHERE ? 1 : 0]);
  }
  name = name ? name : value->name ? value->name : name_of(l->c->names, "index");
  const Name plain = name;
  for (int i = 0, number = 2; i < l->all.count; i++) {
    if (l->all.at[i].name == name) {
      name = name_format(l->c->names, "%s.%d", plain, number++);
      i = -1;
    }
  }
  return name;
}

static ValueId limited(Limiter *l, NodeId id) {
  Graph *graph = l->graph;
  const Node *node = graph_node(graph, id);
  const ValueId index = node->operands[2];
  const AxisId axis = node->axis;
  for (int i = 0; i < l->all.count; i++) {
    if (l->all.at[i].axis == axis && limit_is_same(graph, l->all.at[i].index, index)) {
      return l->all.at[i].limited;
    }
  }
  ValueId made = index;
  if (l->c->spec->capacity > 0) {
    const NodeInit init = {NODE_INIT, .axis = axis, .axes = graph_shape(graph, index), .number = l->c->spec->capacity};
    graph_follow(graph, node);
    made = graph_add1(graph, OP_LIMIT, init, index);
  }
  array_push(l->c->arena, &l->all, ((LimitedIndex){index, made, axis, id, name_for(l, id, index)}));
  return made;
}

// --- outputs ---

static void show(const Limiter *l, const char *name, ValueId value) {
  graph_add1(l->graph, OP_OUTPUT, (NodeInit){NODE_INIT, .text = name_of(l->graph->names, name)}, value);
}

// The most positions of one place, of the mean over all places.
static void show_load(const Limiter *l, const LimitedIndex *of) {
  Graph *graph = l->graph;
  const NodeInit along = {NODE_INIT, .axis = of->axis};
  const ValueId here = graph_op2(graph, OP_EQUAL, of->index, graph_add0(graph, OP_POSITION, along));
  const ValueId one = graph_op3(graph, OP_WHERE, here, graph_real(graph, 1), graph_real(graph, 0));
  const ValueId count = graph_sum(graph, one, graph_shape(graph, of->index));
  const NodeInit over = {NODE_INIT, .axes = shape_of(of->axis)};
  const ValueId most = graph_add1(graph, OP_REDUCE_MAX, over, count), all = graph_sum(graph, count, over.axes);
  const ValueId places = graph_real(graph, (double)graph->axes.at[of->axis].size);
  const ValueId share = graph_op2(graph, OP_DIV, graph_op2(graph, OP_MAX, all, graph_real(graph, 1)), places);
  show(l, arena_format(l->c->arena, "load.%s", of->name), graph_op2(graph, OP_DIV, most, share));
}

// How many positions choose nothing now.
static ValueId count_dropped(Graph *graph, ValueId index) {
  const ValueId out = graph_op2(graph, OP_LESS, index, graph_integer(graph, 0));
  const ValueId one = graph_op3(graph, OP_WHERE, out, graph_real(graph, 1), graph_real(graph, 0));
  return graph_sum(graph, one, graph_shape(graph, index));
}

static double positions_of(const Graph *graph, ValueId index) {
  const Shape shape = graph_shape(graph, index);
  double count = 1;
  for (int i = 0; i < shape.count; i++) {
    count *= (double)graph->axes.at[shape.axis[i]].global;
  }
  return count;
}

static void show_dropped(const Limiter *l) {
  Graph *graph = l->graph;
  ValueId sum = -1;
  for (int i = 0; i < l->all.count; i++) {
    const LimitedIndex *of = &l->all.at[i];
    graph_follow(graph, graph_node(graph, of->product));
    graph->role = ROLE_ACTIVATION;
    const ValueId dropped = count_dropped(graph, of->limited);
    const ValueId part = graph_op2(graph, OP_MUL, dropped, graph_real(graph, 1 / positions_of(graph, of->index)));
    show(l, arena_format(l->c->arena, "dropped.%s", of->name), part);
    sum = sum < 0 ? dropped : graph_op2(graph, OP_ADD, sum, dropped);
  }
  graph->span = l->c->spec->capacity_span;
  show(l, "dropped", sum);
}

static void show_all(const Limiter *l) {
  for (int i = 0; i < l->all.count; i++) {
    graph_follow(l->graph, graph_node(l->graph, l->all.at[i].product));
    l->graph->role = ROLE_ACTIVATION;
    show_load(l, &l->all.at[i]);
  }
  if (l->c->spec->capacity > 0 && l->all.count > 0) {
    show_dropped(l);
  }
}

bool pass_limit(Compilation *c) {
  Graph *graph = c->graph;
  Limiter l = {.c = c, .graph = graph};
  const GraphPlace place = graph_place(graph);
  const NodeList old = graph_rewrite(graph, 0);
  for (int i = 0; i < old.count; i++) {
    if (op_chosen(graph_node(graph, old.at[i])->op)) {
      const ValueId index = limited(&l, old.at[i]);
      graph_node(graph, old.at[i])->operands[2] = index;
    }
    array_push(graph->arena, &graph->regions.at[0].nodes, old.at[i]);
  }
  if (c->spec->capacity > 0 && l.all.count > 0) {
    limit_choices(c, &l.all);
  }
  show_all(&l);
  graph_return(graph, place);
  if (l.all.count == 0 && c->spec->capacity > 0 && !c->spec->idle_rules) {
    Diagnostic *error = diag_error(c->diag, E045, c->spec->capacity_span,
                                   "the capacity limits nothing: no product has matrices that positions choose");
    diag_help(c->diag, error, "remove it");
    return false;
  }
  return l.all.count > 0 || pass_changed_nothing(c);
}
