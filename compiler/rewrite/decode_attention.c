// decode_attention.c: see decode.h: attention of the queries of a block, and the caches of what they read.
#include "compiler/rewrite/decode.h"

#include "compiler/ir/attention.h"
#include "compiler/rewrite/visible.h"

typedef struct {
  NodeId node;  // the attention
  AxisId key;
  const char *why;  // it cannot be read; NULL: what `operand` says
  ValueId operand;
} Reader;

// --- caches ---

static ValueId add_cache(Decode *d, ValueId of, Shape shape) {
  Graph *graph = d->graph;
  Persistent made = {.name = name_of(graph->names, arena_format(d->c->arena, "decode.cache.%d", d->old.count)),
                     .role = ROLE_CACHE,
                     .shape = shape,
                     .in_count = -1,
                     .type = graph_value(graph, of)->type,
                     .group = -1,
                     .scope = graph->scope,
                     .span = graph->span};
  const Role role = graph->role;
  graph->role = ROLE_CACHE;
  made.value = graph_add0(graph, OP_STATE,
                          (NodeInit){NODE_INIT, .text = made.name, .type = made.type,
                                     .bound = graph_value(graph, of)->bound, .shape = shape});
  graph->role = role;
  array_push(graph->arena, &graph->persistent, made);
  return made.value;
}

// Nothing, of the type that this value has.
static ValueId zero_like(Graph *graph, ValueId value) {
  const Value of = *graph_value(graph, value);
  if (element_type_floating(of.type)) {
    return graph_real(graph, 0);
  }
  const ValueId zero = graph_integer(graph, 0);
  return of.type == TYPE_BOOL    ? graph_op2(graph, OP_LESS, zero, zero)
         : of.type == TYPE_INDEX ? graph_add1(graph, OP_AS_INDEX, (NodeInit){NODE_INIT, .axis = of.bound}, zero)
                                 : zero;
}

// What the block has, at its positions of the past; zeros elsewhere, or any numbers before it.
static ValueId spread(Decode *d, ValueId block, ValueId places, ValueId zero) {
  Graph *graph = d->graph;
  if (graph->axes.at[d->now].size == 1) {
    const ValueId one = graph_add1(graph, OP_SLICE, (NodeInit){NODE_INIT, .axis = d->now}, block);
    return graph_op3(graph, OP_WHERE, graph_op2(graph, OP_EQUAL, places, d->first), one, zero);
  }
  const ValueId within = graph_op2(graph, OP_SUB, places, d->first);
  const ValueId index = graph_add1(graph, OP_AS_INDEX, (NodeInit){NODE_INIT, .axis = d->now}, within);
  return graph_add2(graph, OP_TAKE, (NodeInit){NODE_INIT, .axis = d->now}, block, index);
}

ValueId decode_remember(Decode *d, ValueId block, AxisId last) {
  Graph *graph = d->graph;
  const int64_t known = map_get_or(&d->caches, (uint64_t)block, -1);
  if (known >= 0) {
    return (ValueId)known;
  }
  Shape shape = graph_shape(graph, block);
  const bool has_last = last >= 0 && shape_has(&shape, last);
  shape_remove(&shape, d->now);
  if (has_last) {
    shape_remove(&shape, last);
  }
  shape_push(&shape, d->past);
  if (has_last) {
    shape_push(&shape, last);
  }
  const ValueId old = add_cache(d, block, shape);
  const ValueId zero = zero_like(graph, block);
  const ValueId places = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = d->past});
  const ValueId before = graph_op2(graph, OP_LESS, places, d->first);
  const ValueId kept = graph_op3(graph, OP_WHERE, before, old, spread(d, block, places, zero));
  array_push(d->c->arena, &d->old, old);
  array_push(d->c->arena, &d->kept, kept);
  map_put(&d->caches, (uint64_t)block, kept);
  return kept;
}

// --- what an attention reads ---

static ValueId crossed(Reader *r) {
  r->why = decode_crossed;
  return DECODE_NONE;
}

static ValueId for_queries(Decode *d, Reader *r, ValueId value) {
  r->operand = value;
  return d->block[value];
}

static bool other_places(const Decode *d, Shape shape, AxisId key) {
  shape_remove(&shape, key);
  return decode_has_place(d, &shape);
}

// The value for all keys, and for the queries of the block.
static ValueId for_keys(Decode *d, Reader *r, ValueId value, AxisId last, int depth) {
  enum { DEPTH = 64 };
  Graph *graph = d->graph;
  Shape shape = graph_shape(graph, value);
  if (!shape_has(&shape, r->key) || !decode_is_place(d, r->key)) {
    return for_queries(d, r, value);
  }
  if (d->told[value]) {
    const ValueId block = other_places(d, shape, r->key) ? crossed(r) : for_queries(d, r, value);
    graph_follow(graph, graph_node(graph, r->node));
    return block < 0 ? block : decode_remember(d, block, last);
  }
  if (!other_places(d, shape, r->key)) {
    graph_follow(graph, graph_node(graph, r->node));
    return graph_add1(graph, OP_RENAME, (NodeInit){NODE_INIT, .axis = r->key, .axis2 = d->past}, value);
  }
  const NodeId id = graph_value(graph, value)->node;
  const int count = graph_node(graph, id)->operand_count;
  if (depth == DEPTH || count == 0 || decode_moves(d, graph_node(graph, id)) ||
      graph_node(graph, id)->op == OP_RENAME) {
    return crossed(r);
  }
  ValueId *operands = ARENA_ARRAY(d->c->arena, ValueId, count + 1);
  for (int i = 0; i < count; i++) {
    operands[i] = for_keys(d, r, graph_node(graph, id)->operands[i], -1, depth + 1);
    if (operands[i] < 0) {
      return DECODE_NONE;
    }
  }
  return decode_clone(d, id, operands, r->key);
}

// No query sees a key behind it.
static bool is_causal(const Decode *d, const Node *node) {
  const Region *region = &d->graph->regions.at[node->region];
  if (node->integer & ATTENTION_CAUSAL) {
    return true;
  }
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *inner = graph_node(d->graph, region->nodes.at[i]);
    if (inner->op == OP_REDUCE_MAX) {
      const Interval seen =
          scores_visible(&(PositionsOf){d->graph, node->axis, node->axis2, false, NULL}, inner->operands[0]);
      return seen.most <= 0;
    }
  }
  return false;
}

// --- the attention ---

// A parameter of the body that is written, like this value, along the axes of the block and the past.
static ValueId parameter_like(Decode *d, ValueId was, AxisId key) {
  Graph *graph = d->graph;
  Value value = *graph_value(graph, was);
  value.node = -1;
  value.shape = decode_shape(d, value.shape, key);
  const ValueId made = graph_new_value(graph, value);
  array_push(graph->arena, &graph->regions.at[graph->region].parameters, made);
  return made;
}

static ValueId inside(const Map *map, ValueId value) {
  return (ValueId)map_get_or(map, (uint64_t)value, -1);
}

// The same for the block: what it makes of the positions of queries, it makes of one more parameter, at the end.
// *asks: there is one.
static RegionId build_body(Decode *d, const Node *node, bool *asks) {
  Graph *graph = d->graph;
  const AxisId key = decode_is_place(d, node->axis2) ? node->axis2 : -1;
  const RegionId outer = graph->region, body = graph_region(graph);
  const Region from = graph->regions.at[node->region];
  Map map = map_create(d->c->arena);
  ValueId asked = -1;
  graph->region = body;
  for (int i = 0; i < from.parameters.count; i++) {
    map_put(&map, (uint64_t)from.parameters.at[i], parameter_like(d, from.parameters.at[i], key));
  }
  for (int i = 0; i < from.nodes.count; i++) {
    const Node *inner = graph_node(graph, from.nodes.at[i]);
    const ValueId was = inner->first_result;
    if (inner->op == OP_POSITION && inner->axis != key && decode_is_place(d, inner->axis)) {
      asked = asked < 0 ? parameter_like(d, was, key) : asked;
      map_put(&map, (uint64_t)was, asked);
      continue;
    }
    ValueId *operands = ARENA_ARRAY(d->c->arena, ValueId, inner->operand_count + 1);
    for (int j = 0; j < inner->operand_count; j++) {
      operands[j] = inside(&map, inner->operands[j]);
    }
    map_put(&map, (uint64_t)was, decode_clone(d, from.nodes.at[i], operands, key));
  }
  for (int i = 0; i < from.results.count; i++) {
    array_push(graph->arena, &graph->regions.at[body].results, inside(&map, from.results.at[i]));
  }
  graph->region = outer;
  *asks = asked >= 0;
  return body;
}

ValueId decode_attention(Decode *d, NodeId id, const char **why, ValueId *operand) {
  Graph *graph = d->graph;
  const Node node = *graph_node(graph, id);
  Reader r = {.node = id, .key = node.axis2};
  const bool past = decode_is_place(d, r.key);
  const AxisId value_depth = node.axes.axis[node.axes.count - 1];
  const AxisId depth = node.axes.axis[node.axes.count - 1 - !!(node.integer & ATTENTION_HAS_VALUE_DEPTH)];
  *why = !decode_is_place(d, node.axis) ? "has queries that are no positions of the text"
         : past && !is_causal(d, &node) ? "may see keys behind its queries"
                                        : NULL;
  if (*why) {
    return DECODE_NONE;
  }
  ValueList operands = {0};
  for (int i = 0; i < node.operand_count; i++) {
    const AxisId last = i == 1 ? depth : i == 2 ? value_depth : -1;
    const ValueId made = for_keys(d, &r, node.operands[i], last, 0);
    if (made < 0) {
      *why = r.why;
      *operand = r.why ? -1 : r.operand;
      return DECODE_NONE;
    }
    array_push(d->c->arena, &operands, made);
  }
  bool asks;
  const RegionId body = build_body(d, &node, &asks);
  graph_follow(graph, graph_node(graph, id));
  NodeInit init = {NODE_INIT,
                   .text = node.text,
                   .region = body,
                   .axes = node.axes,
                   .axis = d->now,
                   .axis2 = past ? d->past : r.key,
                   .number = node.number,
                   .integer = node.integer};
  if (asks) {
    const NodeInit index = {NODE_INIT, .axis = node.axis};
    array_push(d->c->arena, &operands, graph_add1(graph, OP_AS_INDEX, index, d->positions));
    init.integer = (init.integer & ~(int64_t)(ATTENTION_CAUSAL | ATTENTION_BIASED)) + ATTENTION_CAPTURED;
    init.integer |= ATTENTION_SCORED;
    init.number = 1;
  }
  const ValueId made = graph_add(graph, OP_COMPOSITE, init, operands.at, operands.count);
  for (int i = 0; i < node.result_count; i++) {
    Value *to = graph_value(graph, made + i);
    const Value *from = graph_value(graph, node.first_result + i);
    to->label = from->label;
    to->name = from->name;
    to->path = from->path;
  }
  return made;
}
