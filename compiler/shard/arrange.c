// arrange.c: the storage order of every value; from here on the order of axes in a shape is the order in memory.
//
// Needs groups. Parameters that say what goes in and out are stored out-major (stack, out, in): weights of one
// operand can then lie one below the other and be one matrix, and it is the order that fp8 matrix units take.
// Gradients and new values take the order of what they belong to. Everything else has its natural order, or one that is
// cheaper for products and collectives (orders.c), or that products have for scales.
#include <string.h>

#include "compiler/ir/attention.h"
#include "compiler/pass/compilation.h"
#include "compiler/shard/orders.h"

static Shape storage_order(const Persistent *persistent) {
  const Shape shape = persistent_shape(persistent);
  if (persistent->in_count <= 0 || persistent->stack_count + persistent->in_count >= shape.count) {
    return shape;
  }
  Shape order = {0};
  int in = persistent->stack_count, out = in + persistent->in_count;
  for (int i = 0; i < persistent->stack_count; i++) {
    shape_push(&order, shape.axis[i]);
  }
  for (int i = out; i < shape.count; i++) {
    shape_push(&order, shape.axis[i]);
  }
  for (int i = in; i < out; i++) {
    shape_push(&order, shape.axis[i]);
  }
  return order;
}

// Whatever makes the value can store it in any order; leaves and renames cannot.
static void order_value(Graph *graph, ValueId value, const Shape *order) {
  Value *made = graph_value(graph, value);
  const Node *node = graph_producer(graph, value);
  if (!node || !shape_same_set(&made->shape, order) || op_leaf(node->op) || op_alias(node->op) || node->op == OP_PUT) {
    return;
  }
  made->shape = *order;
  if (op_body(node->op)) {
    order_value(graph, graph->regions.at[node->region].results.at[made->result], order);
  }
}

static void last(Shape *shape, AxisId axis) {
  if (shape_has(shape, axis)) {
    shape_remove(shape, axis);
    shape_push(shape, axis);
  }
}

// A value, and what hands it on: results of the bodies that it is a result of.
static void order_outwards(Graph *graph, ValueId value, const Shape *order) {
  graph_value(graph, value)->shape = *order;
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    const ValueList *results = op_body(node->op) ? &graph->regions.at[node->region].results : NULL;
    for (int j = 0; results && j < results->count; j++) {
      if (results->at[j] == value) {
        order_outwards(graph, node->first_result + j, order);
      }
    }
  }
}

// What scores capture for each pair of a query and a key is read in tiles of those, as its gradient is written.
static void order_captured(Graph *graph, const Node *node) {
  for (int i = 3; i < attention_forward_operands(node); i++) {
    const bool learned = attention_is_gradient(node) && i < node->result_count;
    Shape order = graph_shape(graph, node->operands[i]);
    if (shape_has(&order, node->axis) && shape_has(&order, node->axis2)) {
      last(&order, node->axis);
      last(&order, node->axis2);
      order_value(graph, node->operands[i], &order);
      if (learned) {
        order_outwards(graph, node->first_result + i, &order);
      }
    }
  }
}

// The kernels of attention and its gradient write rows of the depth: it comes last in what they make.
static void order_attention(Graph *graph) {
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    if (!is_attention(node)) {
      continue;  // without axes: the call in the text, long dissolved
    }
    int depths = node->integer & ATTENTION_HAS_VALUE_DEPTH ? 2 : 1;
    if (strcmp(node->text, "attention") == 0 && node->result_count > 1) {  // statistics: [batch, head, group, query]
      for (int j = 1; j < node->result_count; j++) {
        Shape *statistics = &graph_value(graph, node->first_result + j)->shape, order = *statistics;
        shape_remove(&order, node->axis);
        Shape rows = shape_common(node->axes, &order);
        shape_push(&rows, node->axis);
        *statistics = shape_same_set(&rows, statistics) ? rows : *statistics;
      }
    }
    for (int j = 0; j < node->result_count; j++) {
      Shape *shape = &graph_value(graph, node->first_result + j)->shape;
      for (int k = node->axes.count - depths; k < node->axes.count; k++) {
        last(shape, node->axes.axis[k]);
      }
    }
    order_captured(graph, node);
  }
}

// The rows of positions lie as the positions are numbered, and rows in blocks.
static void order_rows(Graph *graph) {
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    if (node->op == OP_ORDER) {
      Shape positions = node->axes;
      positions.count -= 2;
      order_outwards(graph, node->first_result, &positions);
    }
  }
}

// Messages lie as they travel.
static void order_messages(Graph *graph) {
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    Shape *shape = node->op == OP_RECEIVE ? &graph_value(graph, node->first_result)->shape : NULL;
    if (shape && shape_same_set(shape, &node->axes)) {
      *shape = node->axes;
    }
  }
}

// Kernels store scales of blocks as products want them: of each place one after the other, those of the next block in
// the next row; of square blocks, those along the sum one after the other, as the first product that reads them sums.
static void order_scales(Compilation *c) {
  Graph *graph = c->graph;
  bool *ordered = ARENA_ARRAY(c->arena, bool, graph->values.count + 1);
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    for (int j = 0; j < 2 && node->op == OP_SCALED_DOT; j++) {
      const ValueId scale = node->operands[2 + j];
      const Shape of = graph_shape(graph, node->operands[j]), shape = graph_shape(graph, scale);
      const Shape along = shape_common(node->axes, &shape), rest = shape_minus(shape, &along);
      const bool square = of.count - node->axes.count > rest.count;
      const Shape order = square ? shape_union(rest, &along) : shape_union(along, &rest);
      const Node *maker = graph_producer(graph, scale);
      if (maker && maker->op == OP_GROUP && !ordered[scale]) {
        order_value(graph, scale, &order);
        ordered[scale] = true;
      }
    }
  }
}

// What is packed lies as the parameters do, what is assigned as its target.
static void order_like_parameters(Graph *graph, RegionId region, Map *packed) {
  const NodeList *nodes = &graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    int64_t model;
    if (node->op == OP_PACK && map_get(packed, (uint64_t)axis_whole(graph, node->axis), &model)) {
      for (int j = 0; j < node->operand_count; j++) {
        Shape order = graph_shape(graph, graph_node(graph, (NodeId)model)->operands[j]);
        order_value(graph, node->operands[j], &order);
      }
    } else if (node->op == OP_ASSIGN) {
      Shape order = graph_shape(graph, node->operands[0]);
      order_value(graph, node->operands[1], &order);
    } else if (op_body(node->op)) {
      order_like_parameters(graph, node->region, packed);
    }
  }
}

// What the host reads lies in the order of the text, whatever order is best for those that compute with it: every
// training step of a plan has the same.
static void keep_outputs(Graph *graph) {
  for (int i = 0; i < graph->nodes.count; i++) {
    Node *node = graph_node(graph, i);
    const Shape shape = node->op == OP_OUTPUT ? graph_shape(graph, node->operands[0]) : (Shape){0};
    if (shape.count > 1) {
      node->axes = shape;
    }
  }
}

bool pass_arrange(Compilation *c) {
  Graph *graph = c->graph;
  keep_outputs(graph);
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *persistent = &graph->persistent.at[i];
    if (persistent->value >= 0) {
      graph_value(graph, persistent->value)->shape = storage_order(persistent);
    }
  }
  order_messages(graph);
  orders_choose(c);
  order_attention(graph);
  order_rows(graph);
  order_scales(c);
  Map packed = map_create(c->arena);  // whole axis of a pack to the node that packs parameters
  const NodeList *nodes = &graph->regions.at[0].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    const Node *first = node->op == OP_PACK ? graph_producer(graph, node->operands[0]) : NULL;
    if (first && first->op == OP_PARAM) {
      map_put(&packed, (uint64_t)axis_whole(graph, node->axis), nodes->at[i]);
    }
  }
  order_like_parameters(graph, 0, &packed);
  return true;
}
