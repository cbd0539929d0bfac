// scores.c: see scores.h.
#include "compiler/rewrite/scores.h"

#include <math.h>
#include <string.h>

enum { MOST_NODES = 64, MOST_CAPTURED = 16 };

static bool has_axis(const Graph *graph, ValueId value, AxisId axis) {
  Shape shape = graph_shape(graph, value);
  return shape_has(&shape, axis);
}

static const Node *elementwise(const Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  return node && op_elementwise(node->op) && node->op != OP_QUANTISE ? node : NULL;
}

// --- the dot product ---

static bool multiplies(const Graph *graph, const Node *node, AxisId key) {
  return node && node->op == OP_DOT && node->axes.count == 1 && node->axes.axis[0] != key &&
         has_axis(graph, node->operands[0], key) != has_axis(graph, node->operands[1], key);
}

// seen: values that have been looked at. False: there are two products.
static bool find(const Graph *graph, ValueId value, Scores *scores, Map *seen) {
  const Node *node = graph_producer(graph, value);
  if (!node || map_get_or(seen, (uint64_t)value, 0)) {
    return true;
  }
  map_put(seen, (uint64_t)value, 1);
  if (node->op == OP_POSITION && node->axis != scores->key) {
    scores->query = node->axis;
  }
  if (multiplies(graph, node, scores->key)) {
    const bool other = scores->dot >= 0;
    scores->dot = value;
    return !other;
  }
  bool one = true;
  node = elementwise(graph, value);
  for (int i = 0; node && one && i < node->operand_count; i++) {
    one = find(graph, node->operands[i], scores, seen);
  }
  return one;
}

// What is nearest comes last among operands: behind a residual stream the others go back to its beginning.
static int count_products(const Graph *graph, ValueId value, AxisId key, int most, Map *seen) {
  const Node *node = graph_producer(graph, value);
  if (!node || map_get_or(seen, (uint64_t)value, 0)) {
    return 0;
  }
  map_put(seen, (uint64_t)value, 1);
  if (multiplies(graph, node, key)) {
    return 1;
  }
  int count = 0;
  node = elementwise(graph, value);
  for (int i = node ? node->operand_count - 1 : -1; i >= 0 && count < most; i--) {
    count += count_products(graph, node->operands[i], key, most - count, seen);
  }
  return count;
}

bool scores_several(const Graph *graph, ValueId made, AxisId key) {
  Map seen = map_create(graph->arena);
  return count_products(graph, made, key, 2, &seen) > 1;
}

// Axes of queries that keys lack: that of their positions, and perhaps of a group.
static Shape own_axes(const Graph *graph, const Scores *scores) {
  const Node *dot = graph_producer(graph, scores->dot);
  const int side = has_axis(graph, dot->operands[0], scores->key);
  Shape q = graph_shape(graph, dot->operands[side]), k = graph_shape(graph, dot->operands[1 - side]);
  return shape_minus(q, &k);
}

// Those of these axes which something, such as a mask or a distance, has alone beside the key, and none of its
// operands.
static void meet(const Graph *graph, ValueId value, const Scores *scores, const Shape *own, Map *seen, Shape *found) {
  const Node *node = elementwise(graph, value);
  if (value == scores->dot || !node || map_get_or(seen, (uint64_t)value, 0)) {
    return;
  }
  map_put(seen, (uint64_t)value, 1);
  const Shape common = shape_common(graph_shape(graph, value), own);
  bool here = common.count == 1 && has_axis(graph, value, scores->key);
  for (int i = 0; i < node->operand_count; i++) {
    const ValueId operand = node->operands[i];
    here = here && !(has_axis(graph, operand, scores->key) && has_axis(graph, operand, common.axis[0]));
    meet(graph, operand, scores, own, seen, found);
  }
  *found = here ? shape_union(*found, &common) : *found;
}

AxisId scores_longest(const Graph *graph, const Shape *axes) {
  AxisId longest = axes->count ? axes->axis[0] : -1;
  for (int i = 1; i < axes->count; i++) {
    longest = graph->axes.at[axes->axis[i]].size > graph->axes.at[longest].size ? axes->axis[i] : longest;
  }
  return longest;
}

bool scores_find(Graph *graph, ValueId made, AxisId key, Scores *scores) {
  Map seen = map_create(graph->arena), again = map_create(graph->arena);
  *scores = (Scores){.made = made, .dot = -1, .query = -1, .key = key};
  if (!find(graph, made, scores, &seen) || scores->dot < 0) {
    return false;
  }
  const Shape own = own_axes(graph, scores);
  Shape found = {0};
  meet(graph, made, scores, &own, &again, &found);
  const AxisId query = scores_longest(graph, &found);
  scores->query = query >= 0 ? query : scores->query;
  return true;
}

// Whether it is computed from an input.
static bool is_fed(const Graph *graph, ValueId value, Map *seen) {
  const Node *node = graph_producer(graph, value);
  if (!node || map_get_or(seen, (uint64_t)value, 0)) {
    return false;
  }
  map_put(seen, (uint64_t)value, 1);
  bool any = node->op == OP_INPUT;
  for (int i = 0; i < node->operand_count && !any; i++) {
    any = is_fed(graph, node->operands[i], seen);
  }
  return any;
}

bool scores_weigh(const Graph *graph, const Scores *s, ValueId values) {
  const Node *dot = graph_producer(graph, s->dot);
  const ValueId keys = dot->operands[!has_axis(graph, dot->operands[0], s->key)];
  Map seen = map_create(graph->arena), again = map_create(graph->arena);
  return s->made != s->dot && !strchr(graph->axes.at[s->key].name, '.') && is_fed(graph, keys, &seen) &&
         is_fed(graph, values, &again);
}

// --- all that is made of it ---

static bool learned(const Graph *graph, ValueId value, Map *seen) {
  const Node *node = graph_producer(graph, value);
  if (!node || node->op == OP_STOP || !element_type_floating(graph_value(graph, value)->type) ||
      map_get_or(seen, (uint64_t)value, 0)) {
    return false;
  }
  map_put(seen, (uint64_t)value, 1);
  bool any = node->op == OP_PARAM || node->region >= 0;
  for (int i = 0; i < node->operand_count && !any; i++) {
    any = learned(graph, node->operands[i], seen);
  }
  return any;
}

bool scores_learned(const Graph *graph, ValueId value) {
  Map seen = map_create(graph->arena);
  return learned(graph, value, &seen);
}

static bool is_number(const Node *node) {
  return node->op == OP_CONST || node->op == OP_INTEGER;
}

static bool of_a_line(const Graph *graph, const Scores *s, ValueId value) {
  return has_axis(graph, value, s->query) || has_axis(graph, value, s->key);
}

// Made of positions along the query and the key, and of numbers, in a few operations; `besides`: and of what differs
// along neither.
static bool positional(const Graph *graph, const Scores *s, ValueId value, bool besides, int depth) {
  const Node *node = graph_producer(graph, value);
  if (besides && !of_a_line(graph, s, value)) {
    return true;
  }
  if (!node || depth == 0) {
    return false;
  }
  if (is_number(node) || node->op == OP_POSITION) {
    return node->op != OP_POSITION || node->axis == s->query || node->axis == s->key;
  }
  bool all = elementwise(graph, value) != NULL;
  for (int i = 0; all && i < node->operand_count; i++) {
    all = positional(graph, s, node->operands[i], besides, depth - 1);
  }
  return all;
}

// Whether a kernel of scores computes it, for each pair or from positions, and does not capture it.
static bool is_inside(const Graph *graph, const Scores *s, ValueId value) {
  enum { DEPTH = 8 };
  const bool both = has_axis(graph, value, s->query) && has_axis(graph, value, s->key);
  return (both && elementwise(graph, value)) || positional(graph, s, value, false, DEPTH) ||
         (of_a_line(graph, s, value) && positional(graph, s, value, true, DEPTH));
}

// Whether a value is made of the product, which then lies in memory.
static bool reads_product(const Graph *graph, const Scores *s, ValueId value, Map *seen) {
  const Node *node = graph_producer(graph, value);
  if (value == s->dot || !node || map_get_or(seen, (uint64_t)value, 0)) {
    return value == s->dot;
  }
  map_put(seen, (uint64_t)value, 1);
  bool any = false;
  for (int i = 0; i < node->operand_count && !any; i++) {
    any = reads_product(graph, s, node->operands[i], seen);
  }
  return any;
}

static bool capture(Graph *graph, Scores *s, ValueId value) {
  Map seen = map_create(graph->arena);
  Shape shape = graph_shape(graph, value), all = graph_shape(graph, s->dot);
  array_push(graph->arena, &s->captured, value);
  s->why = !shape_contains(&all, &shape)           ? "its scores read what has other axes than they have"
           : s->captured.count > MOST_CAPTURED     ? "its scores read too many tensors"
           : reads_product(graph, s, value, &seen) ? "its scores read what is made of all of them"
           : shape_contains(&shape, &all) && scores_learned(graph, value)
               ? "its scores read what training changes for each of them, and that wants a gradient as large"
               : NULL;
  return !s->why;
}

static bool collect(Graph *graph, Scores *s, ValueId value, Map *known) {
  if (value == s->dot || map_get_or(known, (uint64_t)value, 0)) {
    return true;
  }
  map_put(known, (uint64_t)value, 1);
  const Node *node = graph_producer(graph, value);
  if (!node || !is_inside(graph, s, value)) {
    return capture(graph, s, value);
  }
  const int count = node->operand_count;
  for (int i = 0; i < count; i++) {
    if (!collect(graph, s, graph_producer(graph, value)->operands[i], known)) {
      return false;
    }
  }
  array_push(graph->arena, &s->nodes, graph_value(graph, value)->node);
  s->why = s->nodes.count > MOST_NODES ? "its scores take too many operations" : NULL;
  return !s->why;
}

// Whether a gradient goes through an operand of a node.
static bool passes(const Node *node, int operand) {
  return node->op != OP_SIGN && node->op != OP_FLOOR && (node->op != OP_WHERE || operand > 0);
}

// Gradients go from what is made to this value, and are stopped nowhere: stops are gone when kernels are made.
static bool flows(Graph *graph, const Scores *s, ValueId value, bool *stopped) {
  Map flowing = map_create(graph->arena);
  map_put(&flowing, (uint64_t)value, 1);
  for (int i = 0; i < s->nodes.count; i++) {
    const Node *node = graph_node(graph, s->nodes.at[i]);
    bool any = false;
    for (int j = 0; j < node->operand_count; j++) {
      any = any || (map_get_or(&flowing, (uint64_t)node->operands[j], 0) && passes(node, j));
    }
    if (any && node->op == OP_STOP) {
      *stopped = true;
      return false;
    }
    if (any && element_type_floating(graph_value(graph, node->first_result)->type)) {
      map_put(&flowing, (uint64_t)node->first_result, 1);
    }
  }
  return map_get_or(&flowing, (uint64_t)s->made, 0) != 0;
}

// What wants a gradient comes first.
static bool order_captured(Graph *graph, Scores *s) {
  const ValueList all = s->captured;
  bool stopped = false;
  s->captured = (ValueList){0};
  for (int learned = 1; learned >= 0; learned--) {
    for (int i = 0; i < all.count; i++) {
      const bool wants = scores_learned(graph, all.at[i]) && flows(graph, s, all.at[i], &stopped);
      if (wants == learned) {
        array_push(graph->arena, &s->captured, all.at[i]);
      }
    }
    s->learned = learned ? s->captured.count : s->learned;
  }
  return !stopped;
}

bool scores_collect(Graph *graph, Scores *s) {
  Map known = map_create(graph->arena);
  Shape made = graph_shape(graph, s->made), all = graph_shape(graph, s->dot);
  s->nodes = (NodeList){0};
  s->captured = (ValueList){0};
  if (!shape_same_set(&made, &all)) {
    s->why = "its scores have other axes than the product of queries and keys";
    return false;
  }
  if (!collect(graph, s, s->made, &known)) {
    return false;
  }
  bool stopped = false;
  const bool through = flows(graph, s, s->dot, &stopped) && order_captured(graph, s);
  s->why = through ? NULL : "a gradient is stopped on its way through its scores";
  return !s->why;
}

// What is captured may have got more axes.
static void infer_axes(Graph *graph, NodeId id) {
  Value inferred = *graph_value(graph, graph_node(graph, id)->first_result);
  if (!op_infer(graph, id, &inferred)) {
    graph_value(graph, graph_node(graph, id)->first_result)->shape = inferred.shape;
  }
}

ValueId scores_build(Graph *graph, const Scores *s, ValueId dot, const ValueId *captured) {
  Map map = map_create(graph->arena);
  map_put(&map, (uint64_t)s->dot, dot);
  for (int i = 0; i < s->captured.count; i++) {
    map_put(&map, (uint64_t)s->captured.at[i], captured[i]);
  }
  for (int i = 0; i < s->nodes.count; i++) {
    const Node *node = graph_node(graph, s->nodes.at[i]);
    const ValueId was = node->first_result;
    ValueId *operands = ARENA_ARRAY(graph->arena, ValueId, node->operand_count + 1);
    for (int j = 0; j < node->operand_count; j++) {
      operands[j] = (ValueId)map_get_or(&map, (uint64_t)node->operands[j], -1);
    }
    const NodeId made = graph_clone(graph, s->nodes.at[i], operands);
    infer_axes(graph, made);
    map_put(&map, (uint64_t)was, graph_node(graph, made)->first_result);
  }
  return (ValueId)map_get_or(&map, (uint64_t)s->made, -1);
}

// --- numbers that are meant as infinite ---

static bool large_in(const Graph *graph, const Scores *s, ValueId value, Map *known) {
  const Node *node = graph_producer(graph, value);
  if (value == s->dot || !element_type_floating(graph_value(graph, value)->type) ||
      map_get_or(known, (uint64_t)value, 0)) {
    return false;
  }
  map_put(known, (uint64_t)value, 1);
  for (int i = 0; i < s->captured.count; i++) {
    if (value == s->captured.at[i]) {
      return true;
    }
  }
  bool large = node->op == OP_CONST && isfinite(node->number) && fabs(node->number) > LARGE_SCORE;
  for (int i = 0; !large && i < node->operand_count; i++) {
    large = large_in(graph, s, node->operands[i], known);
  }
  return large;
}

bool scores_large(const Graph *graph, const Scores *scores) {
  Map known = map_create(graph->arena);
  return large_in(graph, scores, scores->made, &known);
}
