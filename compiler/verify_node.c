// verify_node.c: the rules of single shapes, values and nodes.
#include <stdlib.h>

#include "compiler/verify.h"

enum { FEW_RESULTS = 8 };

// What an op must have, beyond what its rule in infer.c checks.
enum { HAS_TEXT = 1, HAS_AXES = 2, HAS_AXIS = 4, HAS_AXIS2 = 8, HAS_REGION = 16, HAS_OFFSET = 32 };

const char verify_too_large[] = "a value has more than 2^56 elements";

static const unsigned char requirements[OP_COUNT] = {
    [OP_INPUT] = HAS_TEXT,
    [OP_PARAM] = HAS_TEXT,
    [OP_STATE] = HAS_TEXT,
    [OP_OUTPUT] = HAS_TEXT,
    [OP_UNIFORM] = HAS_TEXT,
    [OP_NORMAL] = HAS_TEXT,
    [OP_CAST] = HAS_TEXT,
    [OP_QUANTISE] = HAS_TEXT,
    [OP_POSITION] = HAS_AXIS,
    [OP_AS_INDEX] = HAS_AXIS,
    [OP_TAKE] = HAS_AXIS,
    [OP_PUT] = HAS_AXIS,
    [OP_RENAME] = HAS_AXIS | HAS_AXIS2,
    [OP_SPLIT] = HAS_AXIS | HAS_AXES,
    [OP_MERGE] = HAS_AXES | HAS_AXIS2,
    [OP_SLICE] = HAS_AXIS | HAS_OFFSET,
    [OP_PAD] = HAS_AXIS2 | HAS_OFFSET,
    [OP_CONCAT] = HAS_AXES | HAS_AXIS2,
    [OP_WINDOW] = HAS_AXIS | HAS_AXIS2,
    [OP_FOLD] = HAS_AXIS | HAS_AXIS2,
    [OP_PACK] = HAS_AXIS,
    [OP_PART] = HAS_AXIS | HAS_OFFSET,
    [OP_COORDINATE] = HAS_TEXT,
    [OP_ALL_REDUCE] = HAS_TEXT,
    [OP_ALL_GATHER] = HAS_TEXT | HAS_AXIS | HAS_AXIS2,
    [OP_REDUCE_SCATTER] = HAS_TEXT | HAS_AXIS | HAS_AXIS2,
    [OP_ALL_TO_ALL] = HAS_TEXT | HAS_AXES | HAS_AXIS | HAS_AXIS2,
    [OP_SHARD] = HAS_TEXT | HAS_AXIS | HAS_AXIS2,
    [OP_RECEIVE] = HAS_TEXT,
    [OP_SEND] = HAS_TEXT,
    [OP_COMPOSITE] = HAS_TEXT | HAS_REGION,
    [OP_MICROBATCH] = HAS_REGION,
    [OP_GROUP] = HAS_REGION,
    [OP_SEGMENT] = HAS_REGION,
    [OP_CHUNKS] = HAS_REGION | HAS_AXES | HAS_AXIS | HAS_AXIS2,
};

const char *graph_verify_shape(const Graph *graph, const Shape *shape) {
  if (shape->count < 0 || shape->count > SHAPE_MAX_AXES) {
    return "a shape has an impossible number of axes";
  }
  int64_t elements = 1;
  for (int i = 0; i < shape->count; i++) {
    if (shape->axis[i] < 0 || shape->axis[i] >= graph->axes.count) {
      return "a shape has an axis that does not exist";
    }
    for (int j = 0; j < i; j++) {
      if (shape->axis[i] == shape->axis[j]) {
        return "an axis occurs twice in a shape";
      }
    }
    if (__builtin_mul_overflow(elements, graph->axes.at[shape->axis[i]].size, &elements) ||
        elements > GRAPH_MOST_ELEMENTS) {
      return verify_too_large;
    }
  }
  return NULL;
}

static bool axis_valid(const Graph *graph, AxisId axis) {
  return axis >= -1 && axis < graph->axes.count;
}

static const char *attributes_wrong(const Graph *graph, const Node *node) {
  unsigned needs = requirements[node->op];
  if (!axis_valid(graph, node->axis) || !axis_valid(graph, node->axis2)) {
    return "an attribute is an axis that does not exist";
  }
  if ((needs & HAS_TEXT) && !node->text) {
    return "the text is missing";
  }
  if (((needs & HAS_AXES) && node->axes.count == 0) || ((needs & HAS_AXIS) && node->axis < 0) ||
      ((needs & HAS_AXIS2) && node->axis2 < 0)) {
    return "an axis attribute is missing";
  }
  if ((needs & HAS_OFFSET) && (node->integer < 0 || node->integer > GRAPH_MOST_ELEMENTS)) {
    return "the offset is impossible";
  }
  if (((needs & HAS_REGION) != 0) != (node->region >= 0) || node->region >= graph->regions.count) {
    return "the node has no region, or one that it must not have";
  }
  if (node->op == OP_CONCAT) {  // one axis for each part, which may be the same; infer_concat checks the sizes
    for (int i = 0; i < node->axes.count; i++) {
      if (node->axes.axis[i] < 0 || !axis_valid(graph, node->axes.axis[i])) {
        return "an attribute is an axis that does not exist";
      }
    }
    return NULL;
  }
  return graph_verify_shape(graph, &node->axes);
}

static const char *operands_wrong(const Graph *graph, const Node *node) {
  int64_t elements = 0;
  if (node->operand_count < 0) {
    return "the number of operands is wrong";
  }
  for (int i = 0; i < node->operand_count; i++) {
    if (node->operands[i] < 0 || node->operands[i] >= graph->values.count) {
      return "an operand does not exist";
    }
    elements += graph_elements(graph, graph_shape(graph, node->operands[i]));
    if (elements > GRAPH_MOST_ELEMENTS * 4) {
      return verify_too_large;
    }
  }
  return NULL;
}

bool graph_type_matches(ElementType a, ElementType b) {
  return a == b || (element_type_floating(a) && element_type_floating(b));
}

static const char *results_differ(const Graph *graph, const Node *node, const Value *inferred) {
  for (int i = 0; i < node->result_count; i++) {
    const Value *recorded = graph_value(graph, node->first_result + i);
    bool moves = op_alias(node->op) || op_collective(node->op) || node->op == OP_PACK || node->op == OP_CAST ||
                 node->op == OP_QUANTISE;
    if (moves ? recorded->type != inferred[i].type : !graph_type_matches(recorded->type, inferred[i].type)) {
      return "the type of a result is not that of the op's rule";
    }
    if (recorded->type == TYPE_INDEX && inferred[i].bound >= 0 && recorded->bound != inferred[i].bound) {
      return "an index result is bound to another axis than by the op's rule";
    }
    if (!shape_same_set(&recorded->shape, &inferred[i].shape)) {
      return "the axes of a result are not those of the op's rule";
    }
  }
  return NULL;
}

// Composite: the region's parameters are the operands, seen from inside. Chunks: parts of them.
static const char *parameters_wrong(const Graph *graph, const Node *node) {
  const Region *region = &graph->regions.at[node->region];
  for (int i = 0; i < node->operand_count; i++) {
    ValueId id = region->parameters.at[i];
    if (id < 0 || id >= graph->values.count) {
      return "a region parameter does not exist";
    }
    const Value *inside = graph_value(graph, id), *outside = graph_value(graph, node->operands[i]);
    Shape seen = outside->shape;
    if (node->op == OP_CHUNKS) {
      shape_replace(&seen, node->axis, node->axis2);
    }
    if (!graph_type_matches(inside->type, outside->type) || !shape_same_set(&inside->shape, &seen)) {
      return "a region parameter has another type or other axes than its operand";
    }
  }
  return NULL;
}

const char *graph_verify_value(const Graph *graph, const Value *value) {
  if ((unsigned)value->type >= ELEMENT_TYPE_COUNT || (unsigned)value->role >= ROLE_COUNT) {
    return "a value has an impossible type or role";
  }
  if (!axis_valid(graph, value->bound)) {
    return "a value is bound to an axis that does not exist";
  }
  return graph_verify_shape(graph, &value->shape);
}

// The number of results and their links; then each is a possible value.
static const char *links_wrong(const Graph *graph, NodeId id) {
  const Node *node = graph_node(graph, id);
  if (node->result_count != graph_result_count(graph, node)) {
    return "the number of results is wrong";
  }
  if (node->result_count > 0 &&
      (node->first_result < 0 || node->first_result > graph->values.count - node->result_count)) {
    return "a result does not exist";
  }
  for (int i = 0; i < node->result_count; i++) {
    const Value *value = graph_value(graph, node->first_result + i);
    if (value->node != id || value->result != i) {
      return "a result does not point back at its node";
    }
    const char *wrong = graph_verify_value(graph, value);
    if (wrong) {
      return wrong;
    }
  }
  return NULL;
}

static const char *region_values_wrong(const Graph *graph, const Node *node) {
  const Region *region = &graph->regions.at[node->region];
  for (int i = 0; i < region->results.count; i++) {
    if (region->results.at[i] < 0 || region->results.at[i] >= graph->values.count) {
      return "a region result does not exist";
    }
  }
  return NULL;
}

static const char *rule_broken(const Graph *graph, NodeId id, Value *inferred) {
  const Node *node = graph_node(graph, id);
  for (int i = 0; i < node->result_count; i++) {
    inferred[i] = (Value){.bound = -1};
    if (node->op == OP_INPUT || node->op == OP_PARAM || node->op == OP_STATE || node->op == OP_RECEIVE) {
      inferred[i] = *graph_value(graph, node->first_result + i);
    }
  }
  const char *wrong = op_infer((Graph *)graph, id, inferred);  // rules only read the graph
  if (!wrong && (node->op == OP_COMPOSITE || node->op == OP_CHUNKS)) {
    wrong = parameters_wrong(graph, node);
  }
  return wrong ? wrong : results_differ(graph, node, inferred);
}

const char *graph_verify_node(const Graph *graph, NodeId id) {
  const Node *node = graph_node(graph, id);
  if ((unsigned)node->op >= OP_COUNT) {
    return "there is no such op";
  }
  const char *wrong = attributes_wrong(graph, node);
  wrong = wrong ? wrong : operands_wrong(graph, node);
  wrong = wrong || node->region < 0 ? wrong : region_values_wrong(graph, node);
  wrong = wrong ? wrong : links_wrong(graph, id);
  if (wrong) {
    return wrong;
  }
  Value few[FEW_RESULTS];
  if (node->result_count < FEW_RESULTS) {
    few[0] = (Value){0};
    return rule_broken(graph, id, few);
  }
  Value *many = calloc((size_t)node->result_count, sizeof *many);
  wrong = many ? rule_broken(graph, id, many) : "there is no memory to verify it";
  free(many);
  return wrong;
}
