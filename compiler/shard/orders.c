// orders.c: the storage orders of values, group by group.
//
// Values that products and kernels tie together (a residual stream with its norms, what a layer makes of gathered rows)
// are one group and choose together: all in their natural order, or all with one of the axes first that collectives cut
// or join. A candidate is what it costs after every value next to a collective has had the choice to differ. The
// cheapest wins, the natural order among equals.
#include "compiler/shard/orders.h"
#include "compiler/ir/dots.h"

#include <string.h>

#include "compiler/ir/attention.h"

// --- groups ---

static int root(int *parent, int id) {
  while (parent[id] != id) {
    parent[id] = parent[parent[id]];
    id = parent[id];
  }
  return id;
}

static void tie(int *parent, int a, int b) {
  a = root(parent, a);
  b = root(parent, b);
  parent[a > b ? a : b] = a > b ? b : a;
}

// All other names of an axis, and their parts, count as one.
static AxisId axis_kind(const Orders *o, AxisId axis) {
  return root(o->same, axis_whole(o->graph, axis));
}

static void list_nodes(Orders *o, RegionId region) {
  const NodeList *nodes = &o->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(o->graph, nodes->at[i]);
    array_push(o->c->arena, &o->nodes, nodes->at[i]);
    o->listed[nodes->at[i]] = true;
    if (op_body(node->op)) {
      list_nodes(o, node->region);
    }
    if (node->op == OP_RENAME) {
      tie(o->same, axis_whole(o->graph, node->axis), axis_whole(o->graph, node->axis2));
    }
  }
}

// --- who decides for a value ---

static ValueId behind(const Orders *o, ValueId value) {
  const Node *node = graph_producer(o->graph, value);
  if (!node) {
    return value;
  }
  if (op_body(node->op)) {
    if (!o->listed[graph_value(o->graph, value)->node]) {
      return value;  // of one that another has taken the place of
    }
    return o->graph->regions.at[node->region].results.at[graph_value(o->graph, value)->result];
  }
  return op_view(node->op) || orders_bundled(o->graph, node) ? node->operands[0] : value;
}

static bool stays(const Node *node, int result) {
  bool statistics = is_attention(node) && !attention_is_gradient(node) && result > 0;
  return op_leaf(node->op) || node->op == OP_PART || node->op == OP_PACK || statistics;
}

static void find_stored(Orders *o) {
  for (ValueId v = 0; v < o->graph->values.count; v++) {
    const Node *node = graph_producer(o->graph, v);
    ValueId stored = v;
    while (behind(o, stored) != stored) {
      stored = behind(o, stored);
    }
    o->stored[v] = stored;
    o->parent[v] = v;
    o->natural[v] = graph_shape(o->graph, v);
    o->fixed[v] = !node || stays(node, graph_value(o->graph, v)->result);
  }
  for (int i = 0; i < o->nodes.count; i++) {
    const Node *node = graph_node(o->graph, o->nodes.at[i]);
    for (int j = 0; j < node->operand_count && (node->op == OP_PACK || node->op == OP_ASSIGN); j++) {
      o->fixed[o->stored[node->operands[j]]] = true;  // as the parameters do
    }
  }
}

// --- what touches what ---

typedef struct {
  Orders *o;
  NodeId node;
  const Shape *kinds;
  ValueId first;  // to which the others are tied; -1: none yet
} Touching;

static AxisId axis_of_kind(const Orders *o, const Shape *shape, AxisId kind) {
  for (int i = 0; i < shape->count; i++) {
    if (axis_kind(o, shape->axis[i]) == kind) {
      return shape->axis[i];
    }
  }
  return -1;
}

// Is there a candidate in which it lies otherwise?
static bool has_choice(const Orders *o, ValueId value, const Shape *kinds) {
  for (int i = 0; i < kinds->count && !o->fixed[value]; i++) {
    AxisId axis = axis_of_kind(o, &o->natural[value], kinds->axis[i]);
    if (axis >= 0 && shape_find(&o->natural[value], axis) > 0) {
      return true;
    }
  }
  return false;
}

static void touch(void *context, ValueId value) {
  Touching *at = context;
  Orders *o = at->o;
  ValueId stored = o->stored[value];
  TouchList *list = &o->touch[stored];
  if (has_choice(o, stored, at->kinds) && !(list->count && list->at[list->count - 1] == at->node)) {
    array_push(o->c->arena, list, at->node);
  }
}

static void touch_and_tie(void *context, ValueId value) {
  Touching *at = context;
  touch(context, value);
  ValueId stored = at->o->stored[value];
  if (has_choice(at->o, stored, at->kinds)) {
    at->first = at->first < 0 ? stored : at->first;
    tie(at->o->parent, at->first, stored);
  }
}

static bool ties(const Node *node) {
  return op_ties(node->op) || op_dots(node->op) || orders_is_kernel(node);
}

static void find_touching(Orders *o, const Shape *kinds) {
  for (int i = 0; i < o->nodes.count; i++) {
    const Node *node = graph_node(o->graph, o->nodes.at[i]);
    Touching at = {o, o->nodes.at[i], kinds, -1};
    if (!op_body(node->op)) {
      orders_visit(o->graph, node, ties(node) ? touch_and_tie : touch, &at);
    }
  }
}

// --- the axes that may come first ---

static bool joins_blocks(const Node *node) {
  return node->op == OP_ALL_GATHER || node->op == OP_REDUCE_SCATTER || node->op == OP_ALL_TO_ALL;
}

// An exchange copies in any case, but on one side alone: the axis that it cuts comes first where no product has to
// write it so.
static bool offers_first(const Orders *o, const Node *node) {
  if (node->op != OP_ALL_TO_ALL || orders_scatters(node)) {
    return joins_blocks(node);
  }
  const Node *maker = graph_producer(o->graph, node->operands[0]);
  return maker && is_attention(maker);
}

static Shape candidate_kinds(const Orders *o) {
  Shape kinds = {0};
  for (int i = 0; i < o->nodes.count; i++) {
    const Node *node = graph_node(o->graph, o->nodes.at[i]);
    if (offers_first(o, node) && graph_shape(o->graph, node->operands[0]).count > 1) {
      shape_push(&kinds, axis_kind(o, orders_first_before(node)));
    }
  }
  return kinds;
}

// kind -1: the natural order. Of 8 bits what products sum over stays last, in the order of the others.
static void lead(Orders *o, ValueId value, AxisId kind) {
  Shape natural = o->natural[value], order = natural;
  AxisId axis = kind < 0 ? -1 : axis_of_kind(o, &natural, kind);
  if (axis >= 0) {
    const Node *quantise = graph_quantise(o->graph, value);
    order = shape_of(axis);
    order = shape_union(order, &natural);
    order = quantise ? shape_last(order, &quantise->axes) : order;
  }
  const Node *maker = graph_producer(o->graph, value);
  if (maker && orders_scatters(maker)) {  // blocks come one after the other
    const Shape rest = order;
    order = shape_of(maker->axes.axis[0]);
    order = shape_union(order, &rest);
  }
  graph_value(o->graph, value)->shape = order;
}

static double sum_of(Orders *o, const ValueId *values, int count) {
  double bytes = 0;
  o->sums++;
  for (int i = 0; i < count; i++) {
    const TouchList *list = &o->touch[values[i]];
    for (int j = 0; j < list->count; j++) {
      if (o->counted[list->at[j]] != o->sums) {
        o->counted[list->at[j]] = o->sums;
        bytes += orders_cost(o, graph_node(o->graph, list->at[j]));
      }
    }
  }
  return bytes;
}

static bool is_less(double a, double b) {
  return a < b * (1 - 1e-9);
}

static void try_alone(Orders *o, ValueId value, AxisId axis, int group) {
  ValueId stored = o->stored[value];
  if (o->fixed[stored] || root(o->parent, stored) != group || o->touch[stored].count == 0 ||
      !shape_has(&o->kinds, axis_kind(o, axis))) {
    return;
  }
  Shape before = graph_shape(o->graph, stored);
  double cost = sum_of(o, &stored, 1);
  lead(o, stored, axis_kind(o, axis));
  if (!is_less(sum_of(o, &stored, 1), cost)) {
    graph_value(o->graph, stored)->shape = before;
  }
}

// Values beside collectives, each by itself.
static void refine(Orders *o, const ValueId *values, int count, int group) {
  for (int i = 0; i < count; i++) {
    const TouchList *list = &o->touch[values[i]];
    for (int j = 0; j < list->count; j++) {
      const Node *node = graph_node(o->graph, list->at[j]);
      if (joins_blocks(node)) {
        try_alone(o, node->operands[0], orders_first_before(node), group);
        try_alone(o, node->first_result, orders_first_after(node), group);
      }
    }
  }
}

static void take_candidate(Orders *o, const ValueId *values, int count, AxisId kind) {
  for (int i = 0; i < count; i++) {
    lead(o, values[i], kind);
  }
  refine(o, values, count, root(o->parent, values[0]));
}

static void choose(Orders *o, const ValueId *values, int count) {
  const Shape *kinds = &o->kinds;
  AxisId best = -1;
  take_candidate(o, values, count, -1);
  double least = sum_of(o, values, count);
  for (int k = 0; k < kinds->count; k++) {
    take_candidate(o, values, count, kinds->axis[k]);
    double cost = sum_of(o, values, count);
    if (is_less(cost, least)) {
      least = cost;
      best = kinds->axis[k];
    }
  }
  take_candidate(o, values, count, best);
}

// What only looks at other values says so.
static void follow_stored(Orders *o) {
  for (ValueId v = 0; v < o->graph->values.count; v++) {
    ValueId stored = o->stored[v];
    Shape now = graph_shape(o->graph, stored);
    if (stored != v && memcmp(&now, &o->natural[stored], sizeof now) != 0) {
      graph_value(o->graph, v)->shape = orders_of(o, v);
    }
  }
}

static void start(Orders *o) {
  Arena *arena = o->c->arena;
  const Graph *graph = o->graph;
  o->listed = ARENA_ARRAY(arena, bool, graph->nodes.count + 1);
  o->natural = ARENA_ARRAY(arena, Shape, graph->values.count + 1);
  o->stored = ARENA_ARRAY(arena, ValueId, graph->values.count + 1);
  o->fixed = ARENA_ARRAY(arena, bool, graph->values.count + 1);
  o->parent = ARENA_ARRAY(arena, int, graph->values.count + 1);
  o->touch = ARENA_ARRAY(arena, TouchList, graph->values.count + 1);
  o->counted = ARENA_ARRAY(arena, int, graph->nodes.count + 1);
  o->same = ARENA_ARRAY(arena, AxisId, graph->axes.count + 1);
  for (int i = 0; i < graph->axes.count; i++) {
    o->same[i] = i;
  }
  list_nodes(o, 0);
}

void orders_choose(Compilation *c) {
  Orders o = {.c = c, .graph = c->graph};
  start(&o);
  o.kinds = candidate_kinds(&o);
  if (o.kinds.count == 0) {
    return;
  }
  find_stored(&o);
  find_touching(&o, &o.kinds);
  ValueList *groups = ARENA_ARRAY(c->arena, ValueList, c->graph->values.count + 1);
  for (ValueId v = 0; v < c->graph->values.count; v++) {
    if (o.touch[v].count) {
      array_push(c->arena, &groups[root(o.parent, v)], v);
    }
  }
  for (ValueId v = 0; v < c->graph->values.count; v++) {
    if (groups[v].count) {
      choose(&o, groups[v].at, groups[v].count);
    }
  }
  follow_stored(&o);
}
