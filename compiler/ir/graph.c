// graph.c: building graphs: axes, scopes, nodes and shapes.
#include "compiler/ir/dots.h"

#include <assert.h>
#include <string.h>

Graph *graph_create(Arena *arena, Names *names, Diag *diag, Name name) {
  Graph *graph = ARENA_NEW(arena, Graph);
  graph->arena = arena;
  graph->axis_names = map_create(arena);
  graph->names = names;
  graph->diag = diag;
  graph->name = name;
  graph->span = SPAN_NONE;
  graph->slots = 1;
  graph->real = TYPE_REAL;
  graph->source = -1;
  graph->region = graph_region(graph);
  graph->scope = graph_scope(graph, -1, name, name_of(names, ""), -1);
  return graph;
}

AxisId graph_axis(Graph *graph, Name name, int64_t size) {
  Name tried = name;
  int64_t found = -1;
  for (int attempt = 2; map_get(&graph->axis_names, map_key(tried), &found); attempt++) {
    if (graph->axes.at[found].size == size) {
      return (AxisId)found;
    }
    tried = name_format(graph->names, "%s.%d", name, attempt);
  }
  map_put(&graph->axis_names, map_key(tried), graph->axes.count);
  array_push(graph->arena, &graph->axes,
             (Axis){.name = tried, .written = name, .size = size, .global = size, .whole = -1, .blocks_of = -1});
  return graph->axes.count - 1;
}

ScopeId graph_scope(Graph *graph, ScopeId parent, Name function, Name path, int64_t index) {
  array_push(graph->arena, &graph->scopes, (Scope){parent, function, path, index, SPAN_NONE, NULL});
  return graph->scopes.count - 1;
}

RegionId graph_region(Graph *graph) {
  array_push(graph->arena, &graph->regions, (Region){0});
  return graph->regions.count - 1;
}

int graph_result_count(const Graph *graph, const Node *node) {
  if (op_region(node->op)) {
    return graph->regions.at[node->region].results.count;
  }
  return op_effect(node->op)                           ? 0
         : op_dots(node->op) && !op_dots_sum(node->op) ? dots_count(node)
         : node->op == OP_ORDER                        ? 3
                                                       : 1;
}

static NodeId graph_new_node(Graph *graph, Node node, const ValueId *operands, int count) {
  node.operand_count = count;
  node.operands = arena_copy(graph->arena, operands, sizeof *operands * (size_t)count);
  NodeId id = graph->nodes.count;
  array_push(graph->arena, &graph->nodes, node);
  return id;
}

static void graph_new_results(Graph *graph, NodeId id, const Value *results) {
  Node *node = graph_node(graph, id);
  node->first_result = graph->values.count;
  for (int i = 0; i < node->result_count; i++) {
    Value value = results[i];
    value.node = id;
    value.result = i;
    array_push(graph->arena, &graph->values, value);
  }
}

ValueId graph_add(Graph *graph, Op op, NodeInit init, const ValueId *operands, int count) {
  Node node = {.op = op,
               .axes = init.axes,
               .axis = init.axis,
               .axis2 = init.axis2,
               .integer = init.integer,
               .number = init.number,
               .text = init.text,
               .region = init.region,
               .scope = graph->scope,
               .backward = graph->backward,
               .source = graph->source,
               .span = graph->span};
  NodeId id = graph_new_node(graph, node, operands, count);
  Node *added = graph_node(graph, id);
  added->result_count = graph_result_count(graph, added);
  Value *results = ARENA_ARRAY(graph->arena, Value, added->result_count + 1);
  for (int i = 0; i < added->result_count; i++) {
    results[i] = (Value){.bound = -1, .role = graph->role, .span = graph->span};
  }
  if (op_declared(op)) {
    results[0].type = init.type;
    results[0].bound = init.bound;
    results[0].shape = init.shape;
    results[0].name = init.text;
  }
  const char *wrong = op_infer(graph, id, results);
  if (wrong) {
    diag_error(graph->diag, E099, graph->span, "the compiler built a wrong '%s': %s", op_name(op), wrong);
    for (int i = 0; i < added->result_count; i++) {
      results[i].type = count ? graph->values.at[operands[0]].type : TYPE_REAL;
      results[i].shape = count ? graph->values.at[operands[0]].shape : (Shape){0};
    }
  }
  graph_new_results(graph, id, results);
  array_push(graph->arena, &graph->regions.at[graph->region].nodes, id);
  return graph_node(graph, id)->first_result;
}

ValueId graph_add0(Graph *graph, Op op, NodeInit init) {
  return graph_add(graph, op, init, NULL, 0);
}

ValueId graph_add1(Graph *graph, Op op, NodeInit init, ValueId a) {
  return graph_add(graph, op, init, &a, 1);
}

ValueId graph_add2(Graph *graph, Op op, NodeInit init, ValueId a, ValueId b) {
  return graph_add(graph, op, init, (ValueId[]){a, b}, 2);
}

ValueId graph_op1(Graph *graph, Op op, ValueId a) {
  return graph_add(graph, op, (NodeInit){NODE_INIT}, &a, 1);
}

ValueId graph_op2(Graph *graph, Op op, ValueId a, ValueId b) {
  return graph_add(graph, op, (NodeInit){NODE_INIT}, (ValueId[]){a, b}, 2);
}

ValueId graph_op3(Graph *graph, Op op, ValueId a, ValueId b, ValueId c) {
  return graph_add(graph, op, (NodeInit){NODE_INIT}, (ValueId[]){a, b, c}, 3);
}

ValueId graph_real(Graph *graph, double number) {
  return graph_add0(graph, OP_CONST, (NodeInit){NODE_INIT, .number = number});
}

ValueId graph_integer(Graph *graph, int64_t number) {
  return graph_add0(graph, OP_INTEGER, (NodeInit){NODE_INIT, .integer = number});
}

ValueId graph_sum(Graph *graph, ValueId a, Shape over) {
  return over.count == 0 ? a : graph_add1(graph, OP_SUM, (NodeInit){NODE_INIT, .axes = over}, a);
}

NodeList graph_rewrite(Graph *graph, RegionId region) {
  const NodeList nodes = graph->regions.at[region].nodes;
  graph->regions.at[region].nodes = (NodeList){0};
  graph->region = region;
  return nodes;
}

void graph_rewind(Graph *graph) {
  graph->regions.at[graph->region].nodes.count--;
}

void graph_follow(Graph *graph, const Node *node) {
  graph->span = node->span;
  graph->scope = node->scope;
  graph->backward = node->backward;
  graph->source = node->source;
  graph->role = node->result_count > 0 ? graph_value(graph, node->first_result)->role : ROLE_ACTIVATION;
}

GraphPlace graph_place(const Graph *graph) {
  return (GraphPlace){graph->region, graph->scope, graph->role, graph->backward, graph->source, graph->span};
}

void graph_return(Graph *graph, GraphPlace place) {
  graph->region = place.region;
  graph->scope = place.scope;
  graph->role = place.role;
  graph->backward = place.backward;
  graph->source = place.source;
  graph->span = place.span;
}

ValueId graph_new_value(Graph *graph, Value value) {
  array_push(graph->arena, &graph->values, value);
  return graph->values.count - 1;
}

NodeId graph_clone(Graph *graph, NodeId id, const ValueId *operands) {
  Node node = *graph_node(graph, id);
  NodeId copy = graph_new_node(graph, node, operands, node.operand_count);
  Value *results = ARENA_ARRAY(graph->arena, Value, node.result_count + 1);
  for (int i = 0; i < node.result_count; i++) {
    results[i] = *graph_value(graph, node.first_result + i);
  }
  graph_new_results(graph, copy, results);
  array_push(graph->arena, &graph->regions.at[graph->region].nodes, copy);
  return copy;
}

RegionId graph_clone_region(Graph *graph, RegionId from, Map *map) {
  RegionId outer = graph->region, id = graph_region(graph);
  const Region source = graph->regions.at[from];
  graph->region = id;
  for (int i = 0; i < source.parameters.count; i++) {
    Value value = *graph_value(graph, source.parameters.at[i]);
    ValueId fresh = graph_new_value(graph, value);
    array_push(graph->arena, &graph->regions.at[id].parameters, fresh);
    map_put(map, (uint64_t)source.parameters.at[i], fresh);
  }
  for (int i = 0; i < source.nodes.count; i++) {
    const Node *node = graph_node(graph, source.nodes.at[i]);
    ValueId *operands = ARENA_ARRAY(graph->arena, ValueId, node->operand_count + 1);
    for (int j = 0; j < node->operand_count; j++) {
      operands[j] = (ValueId)map_get_or(map, (uint64_t)node->operands[j], node->operands[j]);
    }
    NodeId copy = graph_clone(graph, source.nodes.at[i], operands);
    if (graph_node(graph, copy)->region >= 0) {
      RegionId inner = graph_clone_region(graph, graph_node(graph, copy)->region, map);
      graph_node(graph, copy)->region = inner;
    }
    node = graph_node(graph, source.nodes.at[i]);
    for (int j = 0; j < node->result_count; j++) {
      map_put(map, (uint64_t)(node->first_result + j), graph_node(graph, copy)->first_result + j);
    }
  }
  for (int i = 0; i < source.results.count; i++) {
    ValueId result = (ValueId)map_get_or(map, (uint64_t)source.results.at[i], source.results.at[i]);
    array_push(graph->arena, &graph->regions.at[id].results, result);
  }
  graph->region = outer;
  return id;
}

AxisId axis_whole(const Graph *graph, AxisId axis) {
  AxisId whole = graph->axes.at[axis].whole;
  return whole >= 0 ? whole : axis;
}

bool graph_is_backward(const Graph *graph, const Node *node) {
  bool backward = node->backward;
  if (node->op == OP_GROUP) {
    const NodeList *nodes = &graph->regions.at[node->region].nodes;
    backward = true;
    for (int i = 0; i < nodes->count; i++) {
      const Node *inner = graph_node(graph, nodes->at[i]);
      backward &= inner->backward || op_leaf(inner->op);
    }
  }
  return backward;
}

ValueId graph_inside_segment(const Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  while (node && node->op == OP_SEGMENT) {
    value = graph->regions.at[node->region].results.at[graph_value(graph, value)->result];
    node = graph_producer(graph, value);
  }
  return value;
}

const Node *graph_quantise(const Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  if (node && node->op == OP_GROUP) {
    node = graph_producer(graph, graph->regions.at[node->region].results.at[graph_value(graph, value)->result]);
  }
  return node && node->op == OP_QUANTISE ? node : NULL;
}

const Node *graph_shares(const Graph *graph, const Node *node) {
  const Node *sum = node->op == OP_DIV ? graph_producer(graph, node->operands[1]) : NULL;
  return sum && sum->op == OP_SUM && sum->operands[0] == node->operands[0] ? sum : NULL;
}

void graph_count_uses(const Graph *graph, RegionId region, int *uses) {
  const Region *at = &graph->regions.at[region];
  for (int i = 0; i < at->nodes.count; i++) {
    const Node *node = graph_node(graph, at->nodes.at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      uses[node->operands[j]]++;
    }
    if (node->region >= 0) {
      graph_count_uses(graph, node->region, uses);
    }
  }
  for (int i = 0; i < at->results.count; i++) {
    uses[at->results.at[i]]++;
  }
}

int64_t graph_elements(const Graph *graph, Shape shape) {
  int64_t count = 1;
  for (int i = 0; i < shape.count; i++) {
    count *= graph->axes.at[shape.axis[i]].size;
  }
  return count;
}

Shape persistent_shape(const Persistent *persistent) {
  return persistent->localised ? persistent->local : persistent->shape;
}

// Names are listed when somebody asks for one. Nobody renames a tensor.
Persistent *graph_persistent(const Graph *graph, Name name) {
  Graph *listed = (Graph *)(uintptr_t)graph;
  if (!graph->persistent_names.arena) {
    listed->persistent_names = map_create(graph->arena);
  }
  while (graph->persistent_known < graph->persistent.count) {
    const int index = listed->persistent_known++;
    const uint64_t key = map_key(graph->persistent.at[index].name);
    map_put(&listed->persistent_names, key, map_get_or(&graph->persistent_names, key, index));  // the first of a name
  }
  const int64_t found = map_get_or(&graph->persistent_names, map_key(name), -1);
  return found >= 0 ? &graph->persistent.at[found] : NULL;
}

int shape_find(const Shape *shape, AxisId axis) {
  for (int i = 0; i < shape->count; i++) {
    if (shape->axis[i] == axis) {
      return i;
    }
  }
  return -1;
}

bool shape_has(const Shape *shape, AxisId axis) {
  return shape_find(shape, axis) >= 0;
}

bool shape_contains(const Shape *outer, const Shape *inner) {
  for (int i = 0; i < inner->count; i++) {
    if (!shape_has(outer, inner->axis[i])) {
      return false;
    }
  }
  return true;
}

bool shape_same_set(const Shape *a, const Shape *b) {
  return a->count == b->count && shape_contains(a, b);
}

Shape shape_of(AxisId axis) {
  return (Shape){1, {axis}};
}

bool shape_push(Shape *shape, AxisId axis) {
  if (shape->count == SHAPE_MAX_AXES || shape_has(shape, axis)) {
    return false;
  }
  shape->axis[shape->count++] = axis;
  return true;
}

void shape_remove(Shape *shape, AxisId axis) {
  int at = shape_find(shape, axis);
  if (at >= 0) {
    memmove(&shape->axis[at], &shape->axis[at + 1], sizeof(AxisId) * (size_t)(shape->count - at - 1));
    shape->count--;
  }
}

void shape_replace(Shape *shape, AxisId from, AxisId to) {
  int at = shape_find(shape, from);
  if (at >= 0) {
    shape->axis[at] = to;
  }
}

Shape shape_minus(Shape a, const Shape *b) {
  Shape result = {0};
  for (int i = 0; i < a.count; i++) {
    if (!shape_has(b, a.axis[i])) {
      shape_push(&result, a.axis[i]);
    }
  }
  return result;
}

Shape shape_union(Shape a, const Shape *b) {
  for (int i = 0; i < b->count; i++) {
    shape_push(&a, b->axis[i]);
  }
  return a;
}

Shape shape_common(Shape a, const Shape *b) {
  Shape result = {0};
  for (int i = 0; i < a.count; i++) {
    if (shape_has(b, a.axis[i])) {
      shape_push(&result, a.axis[i]);
    }
  }
  return result;
}

Shape shape_last(Shape a, const Shape *b) {
  const Shape last = shape_common(a, b);
  return shape_union(shape_minus(a, b), &last);
}
