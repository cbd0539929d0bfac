// cost.c: what a node costs: floating-point operations and bytes moved, by the rule named in ops.def.
//
// One operation for each element of an elementwise result or random number and for each element that a reduction
// reads, two for each point of a dot's iteration space. Bytes are those of all operands and results, once each; a real
// whose format is not chosen yet counts 4 bytes. Aliases and what only carries regions cost nothing themselves.
#include "compiler/ir/dots.h"

enum { UNCHOSEN_BYTES = 4 };

static double value_elements(const Graph *graph, ValueId value) {
  const Shape *shape = &graph_value(graph, value)->shape;
  double count = 1;
  for (int i = 0; i < shape->count; i++) {
    count *= (double)graph->axes.at[shape->axis[i]].size;
  }
  return count;
}

static double value_bytes(const Graph *graph, ValueId value) {
  int64_t bytes = element_type_bytes(graph_value(graph, value)->type);
  return value_elements(graph, value) * (double)(bytes > 0 ? bytes : UNCHOSEN_BYTES);
}

static double node_bytes(const Graph *graph, const Node *node) {
  double bytes = 0;
  for (int i = 0; i < node->operand_count; i++) {
    bytes += value_bytes(graph, node->operands[i]);
  }
  for (int i = 0; i < node->result_count; i++) {
    bytes += value_bytes(graph, node->first_result + i);
  }
  return bytes;
}

static Cost cost_free(const Graph *graph, const Node *node) {
  (void)graph, (void)node;
  return (Cost){0};
}

static Cost cost_move(const Graph *graph, const Node *node) {
  return (Cost){0, node_bytes(graph, node)};
}

static Cost cost_elementwise(const Graph *graph, const Node *node) {
  return (Cost){value_elements(graph, node->first_result), node_bytes(graph, node)};
}

static Cost cost_random(const Graph *graph, const Node *node) {
  return cost_elementwise(graph, node);
}

static Cost cost_reduction(const Graph *graph, const Node *node) {
  return (Cost){value_elements(graph, node->operands[0]), node_bytes(graph, node)};
}

// The iteration space of a dot: the axes of both operands.
static double pair_points(const Graph *graph, ValueId a, ValueId b) {
  const Shape *left = &graph_value(graph, a)->shape, *right = &graph_value(graph, b)->shape;
  double points = value_elements(graph, a);
  for (int i = 0; i < right->count; i++) {
    if (!shape_has(left, right->axis[i])) {
      points *= (double)graph->axes.at[right->axis[i]].size;
    }
  }
  return points;
}

static Cost cost_dots(const Graph *graph, const Node *node) {
  double points = 0;
  for (int i = 0; i < dots_count(node); i++) {
    points += pair_points(graph, dots_first(node, i), dots_second(node, i));
  }
  return (Cost){2 * points, node_bytes(graph, node)};
}

// Of products in pairs, each position meets one matrix.
static Cost cost_chosen(const Graph *graph, const Node *node) {
  const Shape result = graph_shape(graph, node->first_result);
  const Shape index = graph_shape(graph, node->operands[node->operand_count - 1]);
  double points = 0;
  for (int i = 0; i + 1 < node->operand_count; i += 2) {
    const Shape a = graph_shape(graph, node->operands[i]), b = graph_shape(graph, node->operands[i + 1]);
    Shape all = shape_union(shape_union(result, &index), &a);
    all = shape_union(all, &b);
    shape_remove(&all, node->axis);
    points += (double)graph_elements(graph, all);
  }
  return (Cost){2 * points, node_bytes(graph, node)};
}

// The arithmetic of its body; bytes of one kernel, which keeps everything between on the chip.
static Cost cost_composite(const Graph *graph, const Node *node) {
  const Region *region = &graph->regions.at[node->region];
  Cost cost = {0, node_bytes(graph, node)};
  for (int i = 0; i < region->nodes.count; i++) {
    cost.flops += op_cost(graph, region->nodes.at[i]).flops;
  }
  return cost;
}

typedef Cost CostRule(const Graph *graph, const Node *node);

static CostRule *const rules[] = {
#define OP(NAME, text, least, most, infer, gradient, cost, split, padding, samples, attributes, properties) cost,
#include "compiler/ir/ops.def"
#undef OP
};

Cost op_cost(const Graph *graph, NodeId id) {
  const Node *node = graph_node(graph, id);
  return rules[node->op](graph, node);
}
