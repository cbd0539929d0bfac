// dots.c: see dots.h.
#include "compiler/ir/dots.h"

static DotsForm form_of(Op op) {
  return op_dots_sum(op) ? DOTS_SUM : op_dots_biased(op) ? DOTS_BIASED : op_dots_joined(op) ? DOTS_SEVERAL : DOTS_ONE;
}

Op op_dots_of(DotsForm form, bool scaled) {
  Op op = 0;
  while (!op_dots(op) || form_of(op) != form || op_dots_scaled(op) != scaled) {
    op++;
  }
  return op;
}

// Operands without scales.
static int factors(const Node *node) {
  return node->operand_count - (op_dots_scaled(node->op) ? 2 : 0);
}

int dots_count(const Node *node) {
  const int count = op_dots_sum(node->op)      ? factors(node) / 2
                    : op_dots_biased(node->op) ? (factors(node) - 1) / 2
                                               : factors(node) - 1;
  return count > 1 ? count : 1;
}

bool dots_even(const Node *node) {
  return factors(node) % 2 == (op_dots_sum(node->op) ? 0 : 1) || !(op_dots_sum(node->op) || op_dots_biased(node->op));
}

ValueId dots_first(const Node *node, int member) {
  return node->operands[op_dots_sum(node->op) ? 2 * member : 0];
}

ValueId dots_second(const Node *node, int member) {
  return node->operands[op_dots_sum(node->op) ? 2 * member + 1 : member + 1];
}

ValueId dots_bias(const Node *node, int member) {
  return op_dots_biased(node->op) ? node->operands[1 + dots_count(node) + member] : -1;
}

ValueId dots_first_scale(const Node *node) {
  return op_dots_scaled(node->op) ? node->operands[node->operand_count - 2] : -1;
}

ValueId dots_second_scale(const Node *node) {
  return op_dots_scaled(node->op) ? node->operands[node->operand_count - 1] : -1;
}

bool dots_of_parameters(const Graph *graph, const Node *node) {
  const Node *maker = graph_producer(graph, dots_second(node, 0));
  const bool rounded = op_dots_scaled(node->op) && graph_value(graph, dots_second(node, 0))->role == ROLE_PARAMETER;
  return rounded || (maker && (maker->op == OP_PARAM || maker->op == OP_PART));
}

Shape dots_inner(const Graph *graph, const Node *node, int member) {
  if (!op_dots_sum(node->op)) {
    return node->axes;
  }
  const Shape a = graph_shape(graph, dots_first(node, member)), b = graph_shape(graph, dots_second(node, member));
  return shape_minus(shape_common(b, &a), &node->axes);
}
