// verify_node.c: the rules of single shapes, values and nodes.
#include <math.h>
#include <string.h>

#include "compiler/ir/verify.h"

enum { FEW_RESULTS = 8 };

const char verify_too_large[] = "a value has more than 2^56 elements";

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

// Those that are set, as bits.
static int attributes_set(const Node *node) {
  return (node->text ? ATTRIBUTE_TEXT : 0) | (node->axes.count != 0 ? ATTRIBUTE_AXES : 0) |
         (node->axis >= 0 ? ATTRIBUTE_AXIS : 0) | (node->axis2 >= 0 ? ATTRIBUTE_AXIS2 : 0) |
         (node->integer != 0 ? ATTRIBUTE_INTEGER : 0) |
         (node->number != 0 || signbit(node->number) ? ATTRIBUTE_NUMBER : 0) |
         (node->region >= 0 ? ATTRIBUTE_REGION : 0);
}

static const char *attributes_wrong(const Graph *graph, const Node *node) {
  const int set = attributes_set(node), missing = op_needed(node->op) & ~ATTRIBUTE_FIGURES & ~set;
  if (!axis_valid(graph, node->axis) || !axis_valid(graph, node->axis2)) {
    return "an attribute is an axis that does not exist";
  }
  if (missing & ATTRIBUTE_TEXT) {
    return "the text is missing";
  }
  if (missing & (ATTRIBUTE_AXES | ATTRIBUTE_AXIS | ATTRIBUTE_AXIS2)) {
    return "an axis attribute is missing";
  }
  if (op_offset(node->op) && (node->integer < 0 || node->integer > GRAPH_MOST_ELEMENTS)) {
    return "the offset is impossible";
  }
  if (((missing | (set & ~op_used(node->op))) & ATTRIBUTE_REGION) || node->region >= graph->regions.count) {
    return "the node has no region, or one that it must not have";
  }
  if (set & ~op_used(node->op)) {
    return "an attribute is set that the op does not use";
  }
  if (op_each(node->op)) {  // one axis for each operand; infer_concat checks the sizes
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
    bool exact = op_same(node->op) || op_collective(node->op) || node->op == OP_PACK;
    if (exact ? recorded->type != inferred[i].type : !graph_type_matches(recorded->type, inferred[i].type)) {
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
    if (op_declared(node->op)) {
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
  Value *many = ARENA_BORROW(graph->arena, Value, node->result_count);
  wrong = rule_broken(graph, id, many);
  arena_return(many);
  return wrong;
}
