// chunk_rows.c: which operations do for a part of the rows what they do for all of them.
#include "compiler/fuse/chunk.h"
#include "compiler/ir/dots.h"

static bool is_cut(const Graph *graph, AxisId axis, ValueId value) {
  Shape shape = graph_shape(graph, value);
  return shape_has(&shape, axis);
}

static bool has_axis(AxisId axis, const Node *node) {
  return node->axis == axis || node->axis2 == axis || shape_has(&node->axes, axis);
}

static bool used_within(const Graph *graph, const Region *region, ValueId value) {
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(graph, region->nodes.at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      if (node->operands[j] == value) {
        return true;
      }
    }
  }
  return false;
}

// A format in which sums of parts may be kept until they are added up.
static bool keeps_sums(const Graph *graph, ValueId value) {
  return element_type_bytes(graph_value(graph, value)->type) >= 4;
}

static bool sums_rows(AxisId axis, const Node *node) {
  return node && node->op == OP_SUM && shape_has(&node->axes, axis);
}

// Rows are outer, nothing asks which row it is, and over them there are sums alone, which nothing inside reads.
static bool kernel_by_rows(const Graph *graph, AxisId axis, const Node *group) {
  const Region *region = &graph->regions.at[group->region];
  int at = shape_find(&group->axes, axis);
  if (at < 0 || group->integer >> at & 1) {
    return false;
  }
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(graph, region->nodes.at[i]);
    bool over = op_reduction(node->op) && shape_has(&node->axes, axis);
    if ((op_placed(node->op) && has_axis(axis, node)) || graph_value(graph, node->first_result)->bound == axis ||
        (over && (!sums_rows(axis, node) || used_within(graph, region, node->first_result)))) {
      return false;
    }
  }
  for (int i = 0; i < region->results.count; i++) {
    ValueId value = region->results.at[i];
    bool summed = sums_rows(axis, graph_producer(graph, value)) && keeps_sums(graph, value);
    if (!is_cut(graph, axis, value) && !summed) {
      return false;
    }
  }
  return true;
}

// Results are cut, or sums over the cut axis.
static bool product_by_rows(const Graph *graph, AxisId axis, const Node *node) {
  bool contracted = !op_dots_sum(node->op) && shape_has(&node->axes, axis);
  for (int i = 0; i < node->result_count; i++) {
    ValueId value = node->first_result + i;
    bool summed = contracted && keeps_sums(graph, value);
    if (!is_cut(graph, axis, value) && !summed) {
      return false;
    }
  }
  return true;
}

bool chunk_by_rows(const Graph *graph, AxisId axis, const Node *node) {
  if (op_dots(node->op) && !op_dots_biased(node->op)) {
    return product_by_rows(graph, axis, node);
  }
  if (node->op == OP_GROUP) {
    return kernel_by_rows(graph, axis, node);
  }
  return op_by_rows(node->op) && !has_axis(axis, node) && is_cut(graph, axis, node->first_result);
}
