// loss_unit.c: may a loss be called nats?
#include "compiler/ir/op.h"
#include "lang/lint.h"

// Is there a logarithm in a composite's own body?
static bool region_has_logarithm(const Graph *graph, const Node *node) {
  const NodeList *inside = node->region >= 0 ? &graph->regions.at[node->region].nodes : NULL;
  for (int i = 0; inside && i < inside->count; i++) {
    if (graph_node(graph, inside->at[i])->op == OP_LOG) {
      return true;
    }
  }
  return false;
}

// Does a value scale with what it reads? Of others, as a square or a root, no logarithm of a probability comes out.
static bool is_passed(const Node *node) {
  const Op op = node->op;
  const bool product = op_bilinear(op) && node->operands[0] != node->operands[1];
  return op_elementwise(op) ? product || op_linear(op) || op_picks(op) || op_same(op) || op_combines(op)
                            : op != OP_SCAN;
}

// Is the loss made of logarithms, as those of probabilities are, so that it may be called nats?
bool lint_has_logarithm(Graph *graph, ValueId loss) {
  bool *seen = ARENA_ARRAY(graph->arena, bool, graph->nodes.count + 1);
  ARRAY(const Node *) left = {0};
  const Node *node = graph_producer(graph, loss);
  while (node) {
    if (node->op == OP_LOG || region_has_logarithm(graph, node)) {
      return true;
    }
    for (int i = 0; is_passed(node) && i < node->operand_count; i++) {
      const Node *maker = graph_producer(graph, node->operands[i]);
      if (maker && !seen[maker - graph->nodes.at]) {
        seen[maker - graph->nodes.at] = true;
        array_push(graph->arena, &left, maker);
      }
    }
    node = left.count > 0 ? left.at[--left.count] : NULL;
  }
  return false;
}
