// compared.c: see compared.h.
#include "compiler/ir/compared.h"

static bool is_known(const Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  return node && op_free(node->op);
}

static void mark(const Graph *graph, ValueId value, bool *compared) {
  if (compared[value] || !element_type_floating(graph_value(graph, value)->type)) {
    return;
  }
  compared[value] = true;
  const Node *node = graph_producer(graph, value);
  for (int i = 0; node && op_copies(node->op) && i < node->operand_count; i++) {
    mark(graph, node->operands[i], compared);
  }
}

bool *graph_compared(const Graph *graph) {
  bool *compared = ARENA_ARRAY(graph->arena, bool, graph->values.count + 1);
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    bool known = false;
    for (int j = 0; j < node->operand_count; j++) {
      known = known || is_known(graph, node->operands[j]);
    }
    for (int j = 0; j < node->operand_count && op_compares(node->op) && !known; j++) {
      mark(graph, node->operands[j], compared);
    }
  }
  return compared;
}
