// recurrences.c: scans become operations on all positions at once.
//
// What does not depend on what is carried is computed for all positions. A carried value of which the next is a factor
// times it plus something, both known, is solved by recurrence.c; what depends on it is known then, and may solve
// others. What is left goes position by position, with all operations of the body again for each: that is for short
// axes.
#include "compiler/rewrite/recurrence_internal.h"

ValueId scan_replaced(const Map *map, ValueId value) {
  int64_t to = map_get_or(map, (uint64_t)value, -1);
  for (; to >= 0 && to != value; to = map_get_or(map, (uint64_t)value, -1)) {  // what is known may stand for itself
    value = (ValueId)to;
  }
  return value;
}

// --- what is known ---

static void collect_inside(Graph *graph, const Region *region, Map *inside) {
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(graph, region->nodes.at[i]);
    for (int r = 0; r < node->result_count; r++) {
      map_put(inside, (uint64_t)(node->first_result + r), 1);
    }
  }
  for (int i = 0; i < region->parameters.count; i++) {
    map_put(inside, (uint64_t)region->parameters.at[i], 1);
  }
}

// inside: values of the body, 1, or 2 where they are known outside.
bool scan_known(const Unroll *u, ValueId value) {
  value = scan_replaced(&u->replace, value);
  return map_get_or(&u->known, (uint64_t)value, 2) == 2;
}

static void take_known(Unroll *u) {
  Graph *graph = u->graph;
  for (int i = 0; i < u->body.nodes.count; i++) {
    Node *node = graph_node(graph, u->body.nodes.at[i]);
    bool ready = !u->done[i];
    for (int j = 0; j < node->operand_count && ready; j++) {
      ready = scan_known(u, node->operands[j]);
    }
    if (!ready) {
      continue;
    }
    for (int j = 0; j < node->operand_count; j++) {
      node->operands[j] = scan_replaced(&u->replace, node->operands[j]);
    }
    for (int r = 0; r < node->result_count; r++) {
      map_put(&u->known, (uint64_t)(node->first_result + r), 2);
    }
    array_push(graph->arena, &graph->regions.at[graph->region].nodes, u->body.nodes.at[i]);
    u->done[i] = true;
  }
}

// --- what is read of the states alone ---

// Factors of a product, those with any of these axes, and the others; false if there is none with any. -1: none.
static bool factors_of(Graph *graph, ValueId value, const Shape *over, Reading *r, int depth) {
  const Shape shape = graph_shape(graph, value), common = shape_common(shape, over);
  const Node *node = graph_producer(graph, value);
  if (common.count > 0 && node && node->op == OP_MUL && depth > 0) {
    const ValueId a = node->operands[0], b = node->operands[1];
    return factors_of(graph, a, over, r, depth - 1) && factors_of(graph, b, over, r, depth - 1);
  }
  ValueId *to = common.count > 0 ? &r->along : &r->what;
  *to = *to < 0 ? value : graph_op2(graph, OP_MUL, *to, value);
  return true;
}

static bool used_outside(const Unroll *u, ValueId value) {
  const Graph *graph = u->graph;
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    for (int j = 0; j < node->operand_count; j++) {
      if (node->operands[j] == value) {
        return true;
      }
    }
  }
  return false;
}

static bool reads(const Node *node, ValueId value) {
  bool any = false;
  for (int i = 0; i < node->operand_count; i++) {
    any = any || node->operands[i] == value;
  }
  return any;
}

// Whether what lies between a carried value and what comes out of it is seen otherwise too.
static bool seen_between(const Unroll *u, ValueId before, ValueId after, const Map *chain) {
  Map between = map_create(u->c->arena);
  map_put(&between, (uint64_t)before, 1);
  for (int i = 0; i < u->body.nodes.count; i++) {
    const NodeId id = u->body.nodes.at[i];
    const Node *node = graph_node(u->graph, id);
    if (map_get_or(chain, (uint64_t)id, 0)) {
      map_put(&between, (uint64_t)node->first_result, node->first_result != after);
      continue;
    }
    for (int j = 0; j < node->operand_count; j++) {
      if (map_get_or(&between, (uint64_t)node->operands[j], 0)) {
        return true;
      }
    }
  }
  for (int i = 0; i < u->body.results.count; i++) {
    if (map_get_or(&between, (uint64_t)u->body.results.at[i], 0)) {
      return true;
    }
  }
  return false;
}

// The state is seen by products with what is known alone: instead of it they are made. False: it is wanted itself.
static bool read_states(Unroll *u, const Recurrence *r, ValueId before, ValueId after, int number, const Map *chain) {
  enum { MOST = 16, DEPTH = 8 };
  Graph *graph = u->graph;
  Reading readings[MOST];
  NodeId nodes[MOST];
  int count = 0;
  if (used_outside(u, u->scan.first_result + number) || seen_between(u, before, after, chain)) {
    return false;
  }
  for (int i = 0; i < u->body.nodes.count; i++) {
    const NodeId id = u->body.nodes.at[i];
    const Node node = *graph_node(graph, id);
    if (!reads(&node, after)) {
      continue;
    }
    if (node.op != OP_DOT || count == MOST) {
      return false;
    }
    const ValueId by = node.operands[node.operands[0] == after];
    readings[count] = (Reading){.by = scan_replaced(&u->replace, by), .what = -1, .along = -1, .over = node.axes};
    if (by == after || !scan_known(u, by) || !factors_of(graph, r->added, &node.axes, &readings[count], DEPTH) ||
        readings[count].along < 0 || !recurrence_may_read(r, &readings[count])) {
      return false;
    }
    nodes[count++] = id;
  }
  for (int i = 0; i < count; i++) {
    const Node node = *graph_node(graph, nodes[i]);
    graph_follow(graph, &node);
    const Shape shape = graph_shape(graph, node.first_result);
    ValueId read = recurrence_read(r, &readings[i]);
    const Shape has = graph_shape(graph, read);
    if (!shape_same_set(&has, &shape)) {
      read = graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = shape}, read);
    }
    graph_value(graph, read)->name = graph_value(graph, node.first_result)->name;
    graph_value(graph, read)->label = graph_value(graph, node.first_result)->label;
    map_put(&u->replace, (uint64_t)node.first_result, read);
    for (int j = 0; j < u->body.nodes.count; j++) {
      u->done[j] = u->done[j] || u->body.nodes.at[j] == nodes[i];
    }
  }
  return true;
}

// --- one carried value ---

static ValueId initial_of(const Unroll *u, int number) {
  const ValueId value = scan_replaced(u->all, u->scan.operands[number]);
  const Node *node = graph_producer(u->graph, value);
  return node && node->op == OP_CONST && node->number == 0 ? -1 : value;
}

static void finish_chain(Unroll *u, const Map *chain) {
  for (int i = 0; i < u->body.nodes.count; i++) {
    u->done[i] = u->done[i] || map_get_or(chain, (uint64_t)u->body.nodes.at[i], 0) != 0;
  }
}

static bool solve(Unroll *u, int number) {
  Graph *graph = u->graph;
  const ValueId before = u->body.parameters.at[number], after = u->body.results.at[number];
  const int mark = graph->regions.at[graph->region].nodes.count;
  Map chain = map_create(u->c->arena);
  Affine a;
  graph_follow(graph, graph_producer(graph, after));
  if (scan_known(u, before) || !scan_affine(u, after, before, &chain, &a)) {
    graph->regions.at[graph->region].nodes.count = mark;
    return false;
  }
  const Decay decay = a.any ? scan_decay(graph, &a) : (Decay){graph_real(graph, 0), false};
  Recurrence r = {graph, u->scan.axis, decay, a.added, graph_shape(graph, after)};
  const ValueId initial = initial_of(u, number);
  if (initial < 0 && a.added >= 0 && a.any && read_states(u, &r, before, after, number, &chain)) {
    finish_chain(u, &chain);
    return true;
  }
  if (initial >= 0 && a.any) {  // it is a part of what the first position adds
    const ValueId place = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = u->scan.axis});
    const ValueId first = graph_op2(graph, OP_EQUAL, place, graph_integer(graph, 0));
    const ValueId left = graph_op2(graph, OP_MUL, scan_factor(graph, &a), initial);
    const ValueId also = graph_op3(graph, OP_WHERE, first, left, graph_real(graph, 0));
    r.added = r.added < 0 ? also : graph_op2(graph, OP_ADD, r.added, also);
  }
  r.added = r.added < 0 ? graph_real(graph, 0) : r.added;
  const Value was = *graph_value(graph, after);
  ValueId states = a.any ? recurrence_states(&r) : r.added;
  const Shape has = graph_shape(graph, states);
  if (!shape_same_set(&has, &r.all)) {
    states = graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = r.all}, states);
  }
  graph_value(graph, states)->name = was.name;
  graph_value(graph, states)->label = was.label;
  const ValueId handed = recurrence_before(graph, states, u->scan.axis, initial);
  map_put(&u->replace, (uint64_t)after, states);
  map_put(&u->replace, (uint64_t)before, handed);
  return true;
}

// --- the pass ---

// Composites are dissolved: what is carried may go through them.
static void flatten(Unroll *u, const Region *from, NodeList *nodes) {
  Graph *graph = u->graph;
  for (int i = 0; i < from->nodes.count; i++) {
    const NodeId id = from->nodes.at[i];
    const Node node = *graph_node(graph, id);
    for (int j = 0; j < node.operand_count; j++) {
      node.operands[j] = scan_replaced(&u->replace, scan_replaced(u->all, node.operands[j]));
    }
    if (node.op != OP_COMPOSITE) {
      array_push(graph->arena, nodes, id);
      continue;
    }
    const Region body = graph->regions.at[node.region];
    for (int p = 0; p < body.parameters.count; p++) {
      map_put(&u->replace, (uint64_t)body.parameters.at[p], node.operands[p]);
    }
    flatten(u, &body, nodes);
    for (int r = 0; r < node.result_count; r++) {
      map_put(&u->replace, (uint64_t)(node.first_result + r), scan_replaced(&u->replace, body.results.at[r]));
    }
  }
}

static bool unroll(Compilation *c, NodeId id, Map *all) {
  Graph *graph = c->graph;
  Unroll u = {.c = c, .graph = graph, .scan = *graph_node(graph, id), .all = all};
  const Region region = graph->regions.at[u.scan.region];
  u.replace = map_create(c->arena);
  u.known = map_create(c->arena);
  u.body.parameters = region.parameters;
  flatten(&u, &region, &u.body.nodes);
  for (int i = 0; i < region.results.count; i++) {
    array_push(c->arena, &u.body.results, scan_replaced(&u.replace, scan_replaced(all, region.results.at[i])));
  }
  u.done = ARENA_ARRAY(c->arena, bool, u.body.nodes.count + 1);
  u.solved = ARENA_ARRAY(c->arena, bool, u.body.parameters.count + 1);
  collect_inside(graph, &u.body, &u.known);
  take_known(&u);
  for (int i = 0; i < u.body.parameters.count; i++) {
    if (!u.solved[i] && solve(&u, i)) {
      u.solved[i] = true;
      take_known(&u);
      i = -1;  // what it was read by may be solved now
    }
  }
  if (!scan_steps(&u)) {
    return false;
  }
  for (int i = 0; i < u.scan.result_count; i++) {
    map_put(all, (uint64_t)(u.scan.first_result + i), scan_replaced(&u.replace, u.body.results.at[i]));
  }
  return true;
}

static bool any_scan(const Graph *graph, const NodeList *nodes) {
  bool any = false;
  for (int i = 0; i < nodes->count; i++) {
    any = any || graph_node(graph, nodes->at[i])->op == OP_SCAN;
  }
  return any;
}

// What reads a scan, and what reads that, takes the order of axes that it has now: scans had their own axis last.
static void order_again(Graph *graph, NodeId id) {
  const Node *node = graph_node(graph, id);
  if (node->result_count != 1 || node->region >= 0 || op_declared(node->op)) {
    return;
  }
  Value *value = graph_value(graph, node->first_result);
  Value inferred[1] = {*value};
  if (!op_infer(graph, id, inferred) && shape_same_set(&inferred[0].shape, &value->shape)) {
    value->shape = inferred[0].shape;
  }
}

bool pass_recurrences(Compilation *c) {
  Graph *graph = c->graph;
  if (!any_scan(graph, &graph->regions.at[0].nodes)) {
    return pass_changed_nothing(c);
  }
  const GraphPlace place = graph_place(graph);
  Map all = map_create(c->arena);
  bool right = true;
  const NodeList old = graph_rewrite(graph, 0);
  for (int i = 0; i < old.count && right; i++) {
    const Node node = *graph_node(graph, old.at[i]);
    for (int j = 0; j < node.operand_count; j++) {
      node.operands[j] = scan_replaced(&all, node.operands[j]);
    }
    if (node.op == OP_SCAN) {
      right = unroll(c, old.at[i], &all);
    } else {
      order_again(graph, old.at[i]);
      array_push(c->arena, &graph->regions.at[0].nodes, old.at[i]);
    }
  }
  graph_return(graph, place);
  graph_remove_dead(graph);
  return right;
}
