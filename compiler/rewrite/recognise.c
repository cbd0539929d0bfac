// recognise.c: dissolves composites into their bodies, then finds attention, however it was spelled.
//
// Needs an undifferentiated graph. What is found becomes a composite node "attention" with a canonical region, whose
// kernel exists in every backend; everything else stays spelled out. Matching the body, not the name, means that a
// function that is called attention but computes something else is never replaced.
//
// The composite's attributes tell its kernel which axis is which:
//   axes    batch?, head?, group?, depth, value depth?   (present where the flags say so)
//   axis    query      axis2  key      number  scale
//   integer low byte: 1 saved statistic (log of the sum of exponentials), or 2 with what it has lost in rounding where
//           scores may be large; flags from bit 8; from bit 16 the mesh axes
//           around which blocks of keys go (shard_ring.c). Then the body is that of the block that a rank has.
// Linear biases (ALiBi) are a fourth operand, the slopes [head?, group?], through which no gradient flows. "head" is
// then the one common axis that slopes may have.
// Any other scores (scores.h) stand in the region as they were written; what they capture follows v: first what wants a
// gradient, as the gradient's result of it: what differs from pair to pair as it is, all else with an element for every
// line of queries, or of keys, so that what is learned gets a plain sum of that.
#include "compiler/ir/attention.h"
#include "compiler/rewrite/attention_warnings.h"
#include "compiler/rewrite/scores.h"
#include "compiler/rewrite/visible.h"

#include <math.h>
#include <string.h>

typedef struct {
  Graph *graph;
  ValueId q, k, v, slopes;  // slopes: -1 without biases
  ValueId sink;             // the score of a key without a value, which all queries see; -1: there is none
  AxisId query, key, depth, value_depth;
  Shape batch, group;  // axes of q, k and v; axes of q alone, without the query axis
  bool causal, scored, large;
  double scale;
  Scores scores;    // if scored
  ValueId matrix;   // the product of queries and keys of what is an attention, though it does not match; or -1
  const char *why;  // it does not
} Match;

static const Node *by(const Graph *graph, ValueId value, Op op) {
  const Node *node = graph_producer(graph, value);
  return node && node->op == op ? node : NULL;
}

// The same behind stops: for what no gradient flows through, or, as through the maximum of a softmax, to no effect.
static const Node *by_stopped(const Graph *graph, ValueId value, Op op) {
  const Node *node = graph_producer(graph, value);
  while (node && node->op == OP_STOP) {
    node = graph_producer(graph, node->operands[0]);
  }
  return node && node->op == op ? node : NULL;
}

// sum + exp(sink - shift): the sum, and the sink; a sum alone has none.
static const Node *match_sink(const Graph *graph, ValueId value, const Node *shift, ValueId *sink) {
  const Node *both = by(graph, value, OP_ADD);
  *sink = -1;
  for (int side = 0; both && side < 2; side++) {
    const Node *e = by(graph, both->operands[side], OP_EXP), *below = e ? by(graph, e->operands[0], OP_SUB) : NULL;
    if (below && below->operands[1] == shift->operands[1] && by(graph, both->operands[1 - side], OP_SUM)) {
      *sink = below->operands[0];
      return by(graph, both->operands[1 - side], OP_SUM);
    }
  }
  return by(graph, value, OP_SUM);
}

// exp(s - max s) / sum: the scores s under a softmax over `key`, or -1. With a sink any shift does.
static ValueId match_softmax(const Graph *graph, ValueId p, AxisId key, ValueId *sink) {
  const Node *quotient = by(graph, p, OP_DIV);
  const Node *e = quotient ? by(graph, quotient->operands[0], OP_EXP) : NULL;
  const Node *shift = e ? by(graph, e->operands[0], OP_SUB) : NULL;
  const Node *sum = shift ? match_sink(graph, quotient->operands[1], shift, sink) : NULL;
  if (!e || !sum || sum->operands[0] != e->first_result || sum->axes.count != 1 || sum->axes.axis[0] != key) {
    return -1;
  }
  if (*sink >= 0) {
    Shape of = graph_shape(graph, *sink), shifts = graph_shape(graph, shift->operands[1]);
    return shape_has(&of, key) || shape_has(&shifts, key) ? -1 : shift->operands[0];
  }
  const Node *max = by_stopped(graph, shift->operands[1], OP_REDUCE_MAX);
  if (!max || max->operands[0] != shift->operands[0] || max->axes.count != 1 || max->axes.axis[0] != key) {
    return -1;
  }
  return shift->operands[0];
}

// where(pos(key) <= pos(query), s, -inf), in either spelling of the comparison.
static ValueId match_mask(const Graph *graph, ValueId s, Match *match) {
  const Node *where = by(graph, s, OP_WHERE);
  if (!where) {
    return s;
  }
  const Node *condition = by_stopped(graph, where->operands[0], OP_LESS_EQUAL),
             *other = by_stopped(graph, where->operands[2], OP_CONST);
  const Node *low = condition ? by_stopped(graph, condition->operands[0], OP_POSITION) : NULL;
  const Node *high = condition ? by_stopped(graph, condition->operands[1], OP_POSITION) : NULL;
  if (!low || !high || !other || !(isinf(other->number) && other->number < 0) || low->axis != match->key) {
    return -1;
  }
  match->causal = true;
  match->query = high->axis;
  return where->operands[1];
}

static ValueId match_scale(const Graph *graph, ValueId s, Match *match) {
  const Node *product = by(graph, s, OP_MUL), *quotient = by(graph, s, OP_DIV), *factor;
  match->scale = 1;
  if (quotient && (factor = by_stopped(graph, quotient->operands[1], OP_CONST))) {
    match->scale = 1 / factor->number;
    return quotient->operands[0];
  }
  for (int side = 0; product && side < 2; side++) {
    if ((factor = by_stopped(graph, product->operands[side], OP_CONST))) {
      match->scale = factor->number;
      return product->operands[1 - side];
    }
  }
  return s;
}

// The axis along which these are positions, or -1.
static AxisId match_position(const Graph *graph, ValueId value) {
  const Node *node = by_stopped(graph, value, OP_POSITION);
  return node ? node->axis : -1;
}

// Positions along the key minus positions along the query. `away`: the other way round.
static bool match_distance(const Graph *graph, ValueId value, bool away, Match *match) {
  const Node *real = by_stopped(graph, value, OP_TO_REAL);
  const Node *difference = real ? by_stopped(graph, real->operands[0], OP_SUB) : NULL;
  const AxisId key = difference ? match_position(graph, difference->operands[away ? 1 : 0]) : -1;
  const AxisId query = difference ? match_position(graph, difference->operands[away ? 0 : 1]) : -1;
  if (key != match->key || query < 0 || query == key || (match->query >= 0 && match->query != query)) {
    return false;
  }
  match->query = query;
  return true;
}

// slopes * (pos(key) - pos(query)) added, or slopes * (pos(query) - pos(key)) taken off: what they are added to or
// taken off from. s as it is if there is no such thing.
static ValueId match_bias(const Graph *graph, ValueId s, Match *match) {
  const Node *sum = by(graph, s, OP_ADD), *away = by(graph, s, OP_SUB), *both = sum ? sum : away;
  for (int side = 0; both && side < (sum ? 2 : 1); side++) {
    const Node *bias = by_stopped(graph, both->operands[1 - side], OP_MUL);
    for (int factor = 0; bias && factor < 2; factor++) {
      if (match_distance(graph, bias->operands[1 - factor], away != NULL, match)) {
        match->slopes = bias->operands[factor];
        return both->operands[side];
      }
    }
  }
  return s;
}

// Slopes are the same for all queries and keys of a head. The axis of q, k and v that they have becomes the last of
// `batch`: that of the heads.
static bool match_slopes(Match *match) {
  if (match->slopes < 0) {
    return true;
  }
  Shape slopes = graph_shape(match->graph, match->slopes), rest = shape_minus(slopes, &match->group);
  if (rest.count > 1 || scores_learned(match->graph, match->slopes) ||
      (rest.count == 1 && !shape_has(&match->batch, rest.axis[0]))) {
    return false;
  }
  if (rest.count == 1) {
    shape_remove(&match->batch, rest.axis[0]);
    shape_push(&match->batch, rest.axis[0]);
  }
  return true;
}

static bool match_axes(Match *match, const Node *scores) {
  const Graph *graph = match->graph;
  Shape q = graph_shape(graph, match->q), k = graph_shape(graph, match->k), v = graph_shape(graph, match->v);
  if (scores->axes.count != 1) {
    return false;
  }
  match->depth = scores->axes.axis[0];
  shape_remove(&q, match->depth);
  shape_remove(&k, match->depth);
  match->batch = shape_common(k, &q);
  match->group = shape_minus(q, &k);
  k = shape_minus(k, &match->batch);
  if (k.count != 1 || k.axis[0] != match->key || shape_has(&match->batch, match->key) || match->batch.count > 2) {
    return false;
  }
  if (match->query < 0) {
    match->query = scores_longest(graph, &match->group);
  }
  if (!shape_has(&match->group, match->query)) {
    return false;
  }
  shape_remove(&match->group, match->query);
  Shape rest = shape_minus(v, &match->batch);
  if (!shape_contains(&v, &match->batch) || !shape_has(&rest, match->key)) {
    return false;
  }
  shape_remove(&rest, match->key);
  match->value_depth = rest.count == 1 ? rest.axis[0] : -1;
  return rest.count == 1 && match->group.count <= 1 && !shape_has(&match->group, match->value_depth) &&
         match->value_depth != match->query && match_slopes(match) &&
         (!match->causal || graph->axes.at[match->query].size == graph->axes.at[match->key].size);
}

// q and k are the operands of this product, in one order or the other.
static bool match_product(const Node *scores, Match *match) {
  const Graph *graph = match->graph;
  const AxisId query = match->query;
  for (int order = 0; order < 2; order++) {
    match->q = scores->operands[order];
    match->k = scores->operands[1 - order];
    match->query = query;
    Shape k = graph_shape(graph, match->k), q = graph_shape(graph, match->q);
    if (shape_has(&k, match->key) && !shape_has(&q, match->key) && match_axes(match, scores)) {
      return true;
    }
  }
  return false;
}

// Whether this product, under a softmax over the key, is of queries with keys whose values are v: all but one axis of v
// are those of the keys, and queries have an axis of their own.
static bool is_matrix(const Graph *graph, const Match *match, ValueId product) {
  const Node *node = graph_producer(graph, product);
  Shape a = graph_shape(graph, node->operands[0]), b = graph_shape(graph, node->operands[1]);
  Shape v = graph_shape(graph, match->v);
  const bool first = shape_has(&a, match->key);
  const Shape k = first ? a : b, q = shape_minus(first ? b : a, &k);
  return q.count > 0 && shape_has(&v, match->key) && shape_minus(v, &k).count <= 1 && !shape_common(v, &q).count;
}

// Scores that are something else than a scale, biases and a mask of a dot product.
static bool match_scores(Graph *graph, ValueId s, Match *match) {
  Match found = {
      .graph = graph, .slopes = -1, .key = match->key, .v = match->v, .scored = true, .scale = 1, .matrix = -1};
  const bool one = scores_find(graph, s, match->key, &found.scores);
  if (found.scores.dot >= 0 && is_matrix(graph, match, found.scores.dot)) {
    match->matrix = found.matrix = found.scores.dot;
    match->why = one ? "it has other axes than a batch, heads, a group, queries, keys and a depth"
                     : "its scores are made of several products";
  }
  if (!one) {
    return false;
  }
  const Node *dot = graph_producer(graph, found.scores.dot);
  Shape all = graph_shape(graph, found.scores.dot);
  found.query = shape_has(&all, found.scores.query) ? found.scores.query : -1;
  if (!match_product(dot, &found)) {
    found.query = -1;  // positions along the batch or the heads are of no query
    if (!match_product(dot, &found)) {
      return false;
    }
  }
  found.scores.query = found.query;
  const bool all_there = scores_collect(graph, &found.scores);
  found.why = found.scores.why;
  *match = found;
  return all_there;
}

// The softmax over `key` that p is made of by something elementwise, such as dropout; or -1.
static ValueId match_changed(const Graph *graph, ValueId p, AxisId key, int depth) {
  const Node *node = graph_producer(graph, p);
  ValueId sink, s = match_softmax(graph, p, key, &sink);
  for (int i = 0; s < 0 && node && depth > 0 && op_elementwise(node->op) && i < node->operand_count; i++) {
    s = match_changed(graph, node->operands[i], key, depth - 1);
  }
  return s;
}

// Says of what multiplies values by something else than a softmax, whether that was one, or is made of scores.
static void explain_changed(Graph *graph, ValueId p, Match *match) {
  enum { DEPTH = 4 };
  Scores scores;
  const ValueId s = match_changed(graph, p, match->key, DEPTH);
  const ValueId made = s >= 0 ? s : p;
  if (!scores_several(graph, made, match->key) && scores_find(graph, made, match->key, &scores) &&
      is_matrix(graph, match, scores.dot) && (s >= 0 || scores_weigh(graph, &scores, match->v))) {
    match->matrix = scores.dot;
    match->why = s >= 0 ? "something is made of its probabilities before they are multiplied by the values"
                        : "its weights are no softmax of its scores";
  }
}

// A sink is one number of a query, or of several.
static bool sink_fits(const Graph *graph, Match *match, ValueId scores) {
  Shape all = shape_union(match->batch, &match->group);
  shape_push(&all, match->query);
  const Shape sink = match->sink < 0 ? (Shape){0} : graph_shape(graph, match->sink);
  if (shape_contains(&all, &sink)) {
    return true;
  }
  match->matrix = scores;
  match->why = "its sink has other axes than its queries";
  return false;
}

static bool match_attention(Graph *graph, const Node *outer, Match *match) {
  match->matrix = -1;
  if (outer->op != OP_DOT || outer->axes.count != 1) {
    return false;
  }
  Match unfused = {.matrix = -1};
  for (int side = 0; side < 2; side++) {
    *match = (Match){.graph = graph, .query = -1, .slopes = -1, .key = outer->axes.axis[0], .matrix = -1};
    ValueId sink = -1;
    const ValueId made = match_softmax(graph, outer->operands[side], match->key, &sink);
    match->v = outer->operands[1 - side];
    ValueId s = made < 0 ? -1 : match_mask(graph, made, match);
    s = s < 0 ? -1 : match_bias(graph, s, match);
    s = s < 0 ? -1 : match_scale(graph, s, match);
    const Node *scores = s < 0 ? NULL : by(graph, s, OP_DOT);
    if ((scores && match_product(scores, match)) || (made >= 0 && match_scores(graph, made, match))) {
      match->sink = sink;
      return sink_fits(graph, match, made);
    }
    if (made < 0) {
      explain_changed(graph, outer->operands[side], match);
    }
    unfused = match->matrix >= 0 ? *match : unfused;
  }
  *match = unfused;
  return false;
}

static ValueId parameter_like(Graph *graph, RegionId region, ValueId value) {
  Value copy = *graph_value(graph, value);
  copy.node = -1;
  copy.label = NULL;
  ValueId made = graph_new_value(graph, copy);
  array_push(graph->arena, &graph->regions.at[region].parameters, made);
  return made;
}

// s + slopes * (pos(key) - pos(query)).
static ValueId build_bias(Graph *graph, const Match *match, ValueId s, ValueId slopes) {
  ValueId key = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = match->key});
  ValueId query = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = match->query});
  ValueId distance = graph_op1(graph, OP_TO_REAL, graph_op2(graph, OP_SUB, key, query));
  return graph_op2(graph, OP_ADD, s, graph_op2(graph, OP_MUL, graph_op1(graph, OP_STOP, slopes), distance));
}

static ValueId build_scores(Graph *graph, const Match *match, ValueId dot, const ValueId *captured, RegionId region) {
  const int count = match->scores.captured.count;
  ValueId *inside = ARENA_ARRAY(graph->arena, ValueId, count + 1);
  for (int i = 0; i < count; i++) {
    const ValueId parameter = parameter_like(graph, region, captured[i]);
    inside[i] = i < match->scores.learned ? parameter : graph_op1(graph, OP_STOP, parameter);
  }
  return scores_build(graph, &match->scores, dot, inside);
}

// operands: q, k, v, and what is captured.
static void build_region(Graph *graph, const Match *match, const ValueId *operands, RegionId region) {
  RegionId outer = graph->region;
  graph->region = region;
  ValueId q = parameter_like(graph, region, operands[0]), k = parameter_like(graph, region, operands[1]);
  ValueId v = parameter_like(graph, region, operands[2]);
  NodeInit over_depth = {NODE_INIT, .axes = shape_of(match->depth)},
           over_key = {NODE_INIT, .axes = shape_of(match->key)};
  ValueId s = graph_add2(graph, OP_DOT, over_depth, q, k);
  if (match->scored) {
    s = build_scores(graph, match, s, operands + 3, region);
  } else {
    s = graph_op2(graph, OP_MUL, s, graph_real(graph, match->scale));
  }
  if (match->slopes >= 0) {
    s = build_bias(graph, match, s, parameter_like(graph, region, operands[3]));
  }
  if (match->causal) {
    ValueId low = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = match->key});
    ValueId high = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = match->query});
    s = graph_op3(graph, OP_WHERE, graph_op2(graph, OP_LESS_EQUAL, low, high), s, graph_real(graph, -INFINITY));
  }
  ValueId max = graph_op1(graph, OP_STOP, graph_add1(graph, OP_REDUCE_MAX, over_key, s));
  ValueId e = graph_op1(graph, OP_EXP, graph_op2(graph, OP_SUB, s, max));
  ValueId sum = graph_add1(graph, OP_SUM, over_key, e);
  ValueId o = graph_add2(graph, OP_DOT, over_key, graph_op2(graph, OP_DIV, e, sum), v);
  ValueId statistics = graph_op2(graph, OP_ADD, graph_op1(graph, OP_LOG, sum), max);
  array_push(graph->arena, &graph->regions.at[region].results, o);
  array_push(graph->arena, &graph->regions.at[region].results, statistics);
  if (match->large) {  // nothing, in exact numbers
    NodeInit all = {NODE_INIT, .axes = graph_shape(graph, statistics)};
    array_push(graph->arena, &graph->regions.at[region].results,
               graph_add1(graph, OP_BROADCAST, all, graph_real(graph, 0)));
  }
  graph->region = outer;
}

static bool has_heads(const Graph *graph, const Match *match) {
  Shape slopes = graph_shape(graph, match->slopes);
  return match->batch.count > 0 && shape_has(&slopes, match->batch.axis[match->batch.count - 1]);
}

// With an element for every head of q.
static ValueId slopes_of_all_heads(Graph *graph, const Match *match, int64_t flags) {
  Shape all = match->group;
  if (flags & ATTENTION_HAS_HEADS) {
    shape_push(&all, match->batch.axis[match->batch.count - 1]);
  }
  const Shape slopes = graph_shape(graph, match->slopes);
  return shape_same_set(&slopes, &all)
             ? match->slopes
             : graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = all}, match->slopes);
}

// With all axes of the batch and the group beside the one of the query, or of the key, that it has.
static ValueId of_all_lines(Graph *graph, const Match *match, ValueId captured) {
  Shape is = graph_shape(graph, captured), all = match->batch;
  if (shape_has(&is, match->query) && shape_has(&is, match->key)) {
    return captured;
  }
  for (int i = 0; i < match->group.count; i++) {
    shape_push(&all, match->group.axis[i]);
  }
  shape_push(&all, shape_has(&is, match->key) ? match->key : match->query);
  return shape_same_set(&is, &all) ? captured
                                   : graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = all}, captured);
}

static ValueId build_attention(Graph *graph, const Match *match, const Node *outer) {
  bool named = false;
  Name name = name_of(graph->names, "attention");
  for (ScopeId scope = outer->scope; scope >= 0 && !named; scope = graph->scopes.at[scope].parent) {
    named = graph->scopes.at[scope].function == name;
  }
  graph->span = outer->span;
  graph->scope = named ? outer->scope : graph_scope(graph, outer->scope, name, graph->scopes.at[outer->scope].path, -1);
  Shape axes = {0};
  int64_t flags = 1;
  for (int i = 0; i < match->batch.count; i++) {  // the innermost common axis is the heads
    shape_push(&axes, match->batch.axis[i]);
  }
  flags |= match->batch.count == 2 ? ATTENTION_HAS_BATCH | ATTENTION_HAS_HEADS : 0;
  flags |= match->batch.count != 1                         ? 0
           : match->slopes >= 0 && has_heads(graph, match) ? ATTENTION_HAS_HEADS
                                                           : ATTENTION_HAS_BATCH;
  if (match->group.count) {
    shape_push(&axes, match->group.axis[0]);
    flags |= ATTENTION_HAS_GROUP;
  }
  shape_push(&axes, match->depth);
  if (match->value_depth != match->depth) {
    shape_push(&axes, match->value_depth);
    flags |= ATTENTION_HAS_VALUE_DEPTH;
  }
  flags |= match->causal ? ATTENTION_CAUSAL : 0;
  ValueList operands = {0};
  array_push(graph->arena, &operands, match->q);
  array_push(graph->arena, &operands, match->k);
  array_push(graph->arena, &operands, match->v);
  flags |= match->scored ? ATTENTION_SCORED : 0;
  flags += match->large ? ATTENTION_LARGE + 1 : 0;
  for (int i = 0; match->scored && i < match->scores.captured.count; i++) {
    const ValueId captured = match->scores.captured.at[i];
    array_push(graph->arena, &operands, i < match->scores.learned ? of_all_lines(graph, match, captured) : captured);
  }
  if (match->slopes >= 0) {
    flags |= ATTENTION_BIASED;
    array_push(graph->arena, &operands, slopes_of_all_heads(graph, match, flags));
  }
  flags |= (operands.count - 3) * ATTENTION_CAPTURED;
  RegionId region = graph_region(graph);
  build_region(graph, match, operands.at, region);
  NodeInit init = {NODE_INIT,           .text = name,           .region = region, .axes = axes, .axis = match->query,
                   .axis2 = match->key, .number = match->scale, .integer = flags};
  return graph_add(graph, OP_COMPOSITE, init, operands.at, operands.count);
}

// With a sink the probabilities are those without, times the part of all exponentials that is not the sink's.
static ValueId build_sink(Graph *graph, const Match *match, ValueId o) {
  const ValueId ahead = graph_op2(graph, OP_SUB, o + 1, match->sink);
  return graph_op2(graph, OP_MUL, o, graph_op1(graph, OP_SIGMOID, ahead));
}

// Copies the body of a composite into the current region; returns what stands for its results.
static void dissolve(Graph *graph, NodeId id, ValueId *replace, int capacity) {
  const Node node = *graph_node(graph, id);
  const Region body = graph->regions.at[node.region];
  Map map = map_create(graph->arena);
  for (int i = 0; i < body.parameters.count; i++) {
    map_put(&map, (uint64_t)body.parameters.at[i], node.operands[i]);
  }
  for (int i = 0; i < body.nodes.count; i++) {
    NodeId inner_id = body.nodes.at[i];
    Node *inner = graph_node(graph, inner_id);
    for (int j = 0; j < inner->operand_count; j++) {
      inner->operands[j] = (ValueId)map_get_or(&map, (uint64_t)inner->operands[j], inner->operands[j]);
      while (inner->operands[j] < capacity && replace[inner->operands[j]] >= 0) {
        inner->operands[j] = replace[inner->operands[j]];
      }
    }
    if (inner->op == OP_COMPOSITE) {
      dissolve(graph, inner_id, replace, capacity);
    } else {
      array_push(graph->arena, &graph->regions.at[graph->region].nodes, inner_id);
    }
  }
  for (int i = 0; i < node.result_count; i++) {
    ValueId to = (ValueId)map_get_or(&map, (uint64_t)body.results.at[i], body.results.at[i]);
    Value *made = graph_value(graph, to), *was = graph_value(graph, node.first_result + i);
    made->label = was->label ? was->label : made->label;
    made->name = was->name ? was->name : made->name;
    made->path = was->path ? was->path : made->path;
    replace[node.first_result + i] = to;
  }
}

// Looks at the weights of a product over keys that is no attention: a softmax, something made of one, or exponentials
// that are not yet divided by their sum.
static void look_ahead(const Compilation *c, const Node *node) {
  enum { DEPTH = 4 };
  Graph *graph = c->graph;
  for (int side = 0; node->axes.count == 1 && side < 2; side++) {
    const ValueId weights = node->operands[side];
    const AxisId key = node->axes.axis[0];
    const Node *e = by(graph, weights, OP_EXP);
    ValueId sink;
    const ValueId whole = match_softmax(graph, weights, key, &sink);
    const ValueId changed = whole < 0 ? match_changed(graph, weights, key, DEPTH) : -1;
    const ValueId made = whole >= 0 ? whole : changed >= 0 ? changed : e ? e->operands[0] : -1;
    Scores scores;
    if (made >= 0) {
      const bool one = scores_find(graph, made, key, &scores);
      const Weighed of = {-1, key, made, one ? scores.dot : -1, made, node->operands[1 - side]};
      warn_weighed(c, node, of, changed >= 0 ? weights : -1, whole < 0 && changed < 0);
    }
  }
}

bool pass_recognise(Compilation *c) {
  Graph *graph = c->graph;
  int capacity = graph->values.count;
  ValueId *replace = ARENA_ARRAY(c->arena, ValueId, capacity * 2 + 1024);
  memset(replace, -1, sizeof *replace * (size_t)(capacity * 2 + 1024));
  NodeList old = graph_rewrite(graph, 0);
  for (int i = 0; i < old.count; i++) {
    Node *node = graph_node(graph, old.at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      while (node->operands[j] < capacity && replace[node->operands[j]] >= 0) {
        node->operands[j] = replace[node->operands[j]];
      }
    }
    if (node->op == OP_COMPOSITE) {
      dissolve(graph, old.at[i], replace, capacity);
    } else {
      array_push(c->arena, &graph->regions.at[0].nodes, old.at[i]);
    }
  }
  warn_turned(c);
  old = graph_rewrite(graph, 0);
  for (int i = 0; i < old.count; i++) {
    Node *node = graph_node(graph, old.at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      if (node->operands[j] < capacity && replace[node->operands[j]] >= 0) {
        node->operands[j] = replace[node->operands[j]];
      }
    }
    Match match;
    if (match_attention(graph, node, &match)) {
      match.large = match.scored && scores_large(graph, &match.scores);
      warn_hidden(c, node, match.query, match.key, match.scored ? match.scores.made : -1);
      if (!match.causal) {
        const ValueId made = match.scored ? match.scores.made : -1, dot = match.scored ? match.scores.dot : -1;
        warn_ahead(c, node, &(Weighed){match.query, match.key, made, dot, match.k, match.v});
      }
      ValueId was = node->first_result, o = build_attention(graph, &match, node);
      o = match.sink >= 0 ? build_sink(graph, &match, o) : o;
      Value *made = graph_value(graph, o);
      made->label = graph_value(graph, was)->label;
      made->name = graph_value(graph, was)->name;
      made->path = graph_value(graph, was)->path;
      if (was < capacity) {
        replace[was] = o;
      }
    } else {
      if (match.matrix >= 0) {
        warn_unfused(c, node, match.matrix, match.why);
      }
      if (node->op == OP_DOT) {
        warn_queries(c, node);
        look_ahead(c, node);
      }
      array_push(c->arena, &graph->regions.at[0].nodes, old.at[i]);
    }
  }
  graph_remove_dead(graph);
  return true;
}
