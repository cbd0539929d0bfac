// loss_unit.c: may a loss be called nats?
#include "compiler/ir/op.h"
#include "lang/lint.h"

// A logarithm, or one in a composite's own body.
static bool is_logarithm(Graph *graph, const Node *node) {
  const NodeList *inside = node->region >= 0 ? &graph->regions.at[node->region].nodes : NULL;
  for (int i = 0; inside && i < inside->count; i++) {
    if (graph_node(graph, inside->at[i])->op == OP_LOG) {
      return true;
    }
  }
  return node->op == OP_LOG;
}

// Does a value scale with what it reads? Of others, as a square or a root, no logarithm of a probability comes out.
static bool is_passed(const Node *node) {
  const Op op = node->op;
  const bool product = op_bilinear(op) && node->operands[0] != node->operands[1];
  return op_elementwise(op) ? product || op_linear(op) || op_picks(op) || op_same(op) || op_combines(op)
                            : op != OP_SCAN;
}

bool lint_has_logarithm(Graph *graph, ValueId loss) {
  return lint_finds(graph, loss, is_logarithm, is_passed);
}
