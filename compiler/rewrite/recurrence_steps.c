// recurrence_steps.c: scans position by position, each written out.
#include <string.h>

#include "compiler/rewrite/recurrence_internal.h"

enum { MOST_STEPS = 20000 };  // operations that are written out

// The value at each position of the axis: by halves, so that gradients are not sums of as many whole values.
static void take_apart(Graph *graph, ValueId x, AxisId axis, int64_t first, ValueId *out) {
  const int64_t size = graph->axes.at[axis].size, half = size / 2;
  if (size == 1) {
    out[first] = graph_add1(graph, OP_SLICE, (NodeInit){NODE_INIT, .axis = axis}, x);
    return;
  }
  for (int side = 0; side < 2; side++) {
    const int64_t length = side ? size - half : half;
    const AxisId part =
        graph_axis(graph, name_format(graph->names, "%s.%lld", graph->axes.at[axis].name, (long long)length), length);
    const NodeInit init = {NODE_INIT, .axis = axis, .axis2 = part, .integer = side ? half : 0};
    take_apart(graph, graph_add1(graph, OP_SLICE, init, x), part, first + (side ? half : 0), out);
  }
}

static ValueId put_together(Graph *graph, const ValueId *parts, int64_t count, AxisId axis, Name word) {
  if (count == 1) {
    return graph_add1(graph, OP_PAD, (NodeInit){NODE_INIT, .axis2 = axis}, parts[0]);
  }
  const int64_t half = count / 2;
  const AxisId a = graph_axis(graph, name_format(graph->names, "%s.%lld", word, (long long)half), half);
  const AxisId b =
      graph_axis(graph, name_format(graph->names, "%s.%lld", word, (long long)(count - half)), count - half);
  const ValueId sides[2] = {put_together(graph, parts, half, a, word),
                            put_together(graph, parts + half, count - half, b, word)};
  const Shape axes = {2, {a, b}};
  return graph_add(graph, OP_CONCAT, (NodeInit){NODE_INIT, .axes = axes, .axis2 = axis}, sides, 2);
}

static ValueId *apart(Unroll *u, Map *parts, ValueId value) {
  const AxisId axis = u->scan.axis;
  const int64_t size = u->graph->axes.at[axis].size, known = map_get_or(parts, (uint64_t)value, 0);
  if (known) {
    return (ValueId *)(intptr_t)known;
  }
  ValueId *all = ARENA_ARRAY(u->c->arena, ValueId, size);
  const Shape shape = graph_shape(u->graph, value);
  for (int64_t t = 0; t < size; t++) {
    all[t] = value;
  }
  if (shape_has(&shape, axis)) {
    take_apart(u->graph, value, axis, 0, all);
  }
  map_put(parts, (uint64_t)value, (int64_t)(intptr_t)all);
  return all;
}

static void infer_again(Graph *graph, NodeId id, AxisId axis) {
  Node *node = graph_node(graph, id);
  if (node->op == OP_BROADCAST) {
    shape_remove(&node->axes, axis);
  }
  Value inferred[1] = {*graph_value(graph, node->first_result)};
  const char *wrong = op_infer(graph, id, inferred);
  if (wrong) {
    diag_error(graph->diag, E099, node->span, "the compiler built a wrong '%s': %s", op_name(node->op), wrong);
  }
  graph_value(graph, node->first_result)->shape = inferred[0].shape;
}

static bool too_long(Unroll *u, int left) {
  const AxisId axis = u->scan.axis;
  const int64_t size = u->graph->axes.at[axis].size;
  if (left * size <= MOST_STEPS) {
    return false;
  }
  Span span = u->scan.span;
  for (int i = 0; i < u->body.parameters.count; i++) {
    if (!u->solved[i]) {
      span = graph_value(u->graph, u->body.results.at[i])->span;
      break;
    }
  }
  Diagnostic *error =
      diag_error(u->c->diag, E070, span, "this version cannot run this scan over %lld positions", (long long)size);
  diag_label(u->c->diag, error, "not a factor times what is carried plus something");
  diag_help(u->c->diag, error,
            "what goes position by position is written out: %d operations here, and %d for all positions of '%s' are "
            "the most",
            left, MOST_STEPS, u->graph->axes.at[axis].name);
  return true;
}

static ValueId with_shape(Graph *graph, ValueId value, const Shape *shape) {
  const Shape has = graph_shape(graph, value);
  return shape_same_set(&has, shape) ? value
                                     : graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = *shape}, value);
}

// All that is left of the body, at position t.
static void step(Unroll *u, Map *parts, Map *now, int64_t t) {
  Graph *graph = u->graph;
  for (int i = 0; i < u->body.nodes.count; i++) {
    const NodeId id = u->body.nodes.at[i];
    const Node node = *graph_node(graph, id);
    if (u->done[i]) {
      continue;
    }
    ValueId *operands = ARENA_ARRAY(graph->arena, ValueId, node.operand_count + 1);
    for (int j = 0; j < node.operand_count; j++) {
      const ValueId value = scan_replaced(&u->replace, node.operands[j]);
      operands[j] = scan_known(u, value) ? apart(u, parts, value)[t] : (ValueId)map_get_or(now, (uint64_t)value, -1);
    }
    graph_follow(graph, &node);
    const NodeId made = graph_clone(graph, id, operands);
    infer_again(graph, made, u->scan.axis);
    map_put(now, (uint64_t)node.first_result, graph_node(graph, made)->first_result);
  }
}

static void hand_on(Unroll *u, Map *now) {
  const int count = u->body.parameters.count;
  ValueId *next = ARENA_ARRAY(u->c->arena, ValueId, count);
  for (int i = 0; i < count; i++) {
    const ValueId after = u->body.results.at[i];
    next[i] = scan_known(u, after) ? -1 : (ValueId)map_get_or(now, (uint64_t)after, -1);
  }
  for (int i = 0; i < count; i++) {
    if (!u->solved[i]) {
      map_put(now, (uint64_t)u->body.parameters.at[i], next[i]);
    }
  }
}

// Whether a result of the body is made position by position.
static bool is_stepped(const Unroll *u, int result) {
  return !scan_known(u, u->body.results.at[result]) && (result >= u->body.parameters.count || !u->solved[result]);
}

static void finish_result(Unroll *u, int result, const ValueId *parts, int64_t size) {
  Graph *graph = u->graph;
  const AxisId axis = u->scan.axis;
  const ValueId value = u->body.results.at[result];
  const Value was = *graph_value(graph, value);
  const ValueId made = put_together(graph, parts, size, axis, graph->axes.at[axis].name);
  graph_value(graph, made)->name = was.name;
  graph_value(graph, made)->label = was.label;
  map_put(&u->replace, (uint64_t)value, made);
}

bool scan_steps(Unroll *u) {
  Graph *graph = u->graph;
  const int64_t size = graph->axes.at[u->scan.axis].size;
  Map parts = map_create(u->c->arena);
  int left = 0;
  for (int i = 0; i < u->body.nodes.count; i++) {
    left += !u->done[i];
  }
  bool any = left > 0;
  for (int i = 0; i < u->body.results.count; i++) {
    any = any || is_stepped(u, i);
  }
  if (!any) {
    return true;
  }
  if (too_long(u, left)) {
    return false;
  }
  for (int i = 0; i < u->body.nodes.count; i++) {  // what is known, one position at a time
    const Node *node = graph_node(graph, u->body.nodes.at[i]);
    const int count = u->done[i] ? 0 : node->operand_count;
    graph_follow(graph, node);
    for (int j = 0; j < count; j++) {
      const ValueId operand = graph_node(graph, u->body.nodes.at[i])->operands[j];
      if (scan_known(u, operand)) {
        apart(u, &parts, scan_replaced(&u->replace, operand));
      }
    }
  }
  Map now = map_create(u->c->arena);
  for (int i = 0; i < u->body.parameters.count; i++) {
    if (!u->solved[i]) {
      Shape shape = graph_shape(graph, u->body.parameters.at[i]);
      shape_remove(&shape, u->scan.axis);
      const ValueId first = with_shape(graph, scan_replaced(u->all, u->scan.operands[i]), &shape);
      map_put(&now, (uint64_t)u->body.parameters.at[i], first);
    }
  }
  ValueId **made = ARENA_ARRAY(u->c->arena, ValueId *, u->body.results.count);
  for (int i = 0; i < u->body.results.count; i++) {
    made[i] = is_stepped(u, i) ? ARENA_ARRAY(u->c->arena, ValueId, size) : NULL;
  }
  for (int64_t t = 0; t < size; t++) {
    step(u, &parts, &now, t);
    for (int i = 0; i < u->body.results.count; i++) {
      if (made[i]) {
        made[i][t] = (ValueId)map_get_or(&now, (uint64_t)u->body.results.at[i], -1);
      }
    }
    hand_on(u, &now);
  }
  for (int i = 0; i < u->body.results.count; i++) {
    if (made[i]) {
      finish_result(u, i, made[i], size);
    }
  }
  memset(u->done, true, sizeof *u->done * (size_t)u->body.nodes.count);
  return true;
}
