// fact_checks.c: facts about a graph that can be seen by looking at it.
#include "compiler/ir/attention.h"
#include "compiler/pass_manager.h"

typedef bool Holds(const Graph *graph, const Node *node);

// For the first node of which it is not so: that node. NULL: it is so of all, but for those of kernels and composites,
// which are what these compute and not how.
static const Node *find_other(const Graph *graph, RegionId region, Holds *holds) {
  const NodeList *nodes = &graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]), *inside = NULL;
    if (!holds(graph, node)) {
      return node;
    }
    if (op_list(node->op)) {
      inside = find_other(graph, node->region, holds);
    }
    if (inside) {
      return inside;
    }
  }
  return NULL;
}

static bool is_straight(const Graph *graph, const Node *node) {
  (void)graph;
  return node->op != OP_SCAN;
}

static bool is_recognised(const Graph *graph, const Node *node) {
  (void)graph;
  return node->op != OP_COMPOSITE || is_attention(node);
}

static bool is_typed(const Graph *graph, const Node *node) {
  for (int i = 0; i < node->result_count; i++) {
    if (graph_value(graph, node->first_result + i)->type == TYPE_REAL) {
      return false;
    }
  }
  return true;
}

static bool is_sorted(const Graph *graph, const Node *node) {
  const bool product = op_chosen(node->op) || node->op == OP_CHOSEN_DOTS;
  const Node *order =
      product ? graph_producer(graph, graph_inside_segment(graph, node->operands[node->operand_count - 1])) : NULL;
  return !product || (order && order->op == OP_ORDER);
}

static bool is_fused(const Graph *graph, const Node *node) {
  (void)graph;
  return !op_fusable(node->op);
}

static bool is_arranged(const Graph *graph, const Node *node) {
  for (int i = 0; i < node->result_count; i++) {
    const Node *quantise = graph_quantise(graph, node->first_result + i);
    const Shape order = graph_shape(graph, node->first_result + i);
    const int before = quantise ? order.count - quantise->axes.count : 0;
    for (int j = 0; quantise && j < before; j++) {
      if (shape_has(&quantise->axes, order.axis[j])) {
        return false;
      }
    }
  }
  return true;
}

const Node *fact_straight(const Graph *graph) {
  return find_other(graph, 0, is_straight);
}

const Node *fact_recognised(const Graph *graph) {
  return find_other(graph, 0, is_recognised);
}

const Node *fact_typed(const Graph *graph) {
  return find_other(graph, 0, is_typed);
}

const Node *fact_sorted(const Graph *graph) {
  return find_other(graph, 0, is_sorted);
}

const Node *fact_fused(const Graph *graph) {
  return find_other(graph, 0, is_fused);
}

const Node *fact_arranged(const Graph *graph) {
  return find_other(graph, 0, is_arranged);
}
