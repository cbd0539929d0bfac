// choose.c: dot(x, w[who]) as dot(x, w)[who]: products with all matrices first, of which the chosen ones are taken.
//
// A matrix for each index is large: [tokens, choice, embed, ffn] for a mixture of experts. Products with all of them
// are [tokens, experts, ffn], and one product of matrices. Both are the same sums; an index outside gives 0 in both.
#include "compiler/rewrite/choose.h"

// Where it is the smaller of the two, x has something for each index, and the index has nothing to do with what is
// summed over or with the matrices.
static bool smaller(const Graph *graph, const Node *dot, const Node *take, ValueId x) {
  const Shape of = graph_shape(graph, take->operands[0]), index = graph_shape(graph, take->operands[1]);
  const Shape with = graph_shape(graph, x), all = shape_union(with, &of);
  if (shape_has(&with, take->axis) || shape_common(index, &with).count == 0 || shape_common(index, &of).count > 0 ||
      shape_common(index, &dot->axes).count > 0 || with.count + of.count > SHAPE_MAX_AXES) {
    return false;
  }
  return graph_elements(graph, shape_minus(all, &dot->axes)) <
         graph_elements(graph, graph_shape(graph, take->first_result));
}

ValueId choose_later(Graph *graph, NodeId id) {
  for (int side = 0; side < 2; side++) {
    const Node *dot = graph_node(graph, id), *take = graph_producer(graph, dot->operands[side]);
    const ValueId x = dot->operands[1 - side];
    if (!take || take->op != OP_TAKE || !smaller(graph, dot, take, x)) {
      continue;
    }
    const ValueId of = take->operands[0], index = take->operands[1];
    const NodeInit over = {NODE_INIT, .axes = dot->axes}, along = {NODE_INIT, .axis = take->axis};
    return graph_add2(graph, OP_TAKE, along, graph_add2(graph, OP_DOT, over, x, of), index);
  }
  return -1;
}
