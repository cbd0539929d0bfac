// infer_rules.h: what the files of axis and type rules share; the rules of moves (infer_moves.c).
#ifndef MDL_COMPILER_IR_INFER_RULES_H
#define MDL_COMPILER_IR_INFER_RULES_H

#include "compiler/ir/graph.h"

static inline const Value *operand(const Graph *graph, const Node *node, int i) {
  return graph_value(graph, node->operands[i]);
}

static inline int64_t axis_size(const Graph *graph, AxisId axis) {
  return graph->axes.at[axis].size;
}

// Each says what is wrong, or NULL and what the results are.
const char *infer_rename(Graph *graph, const Node *node, Value *results);
const char *infer_split(Graph *graph, const Node *node, Value *results);
const char *infer_merge(Graph *graph, const Node *node, Value *results);
const char *infer_slice(Graph *graph, const Node *node, Value *results);
const char *infer_pad(Graph *graph, const Node *node, Value *results);
const char *infer_concat(Graph *graph, const Node *node, Value *results);
const char *infer_window(Graph *graph, const Node *node, Value *results);
const char *infer_fold(Graph *graph, const Node *node, Value *results);
const char *infer_pack(Graph *graph, const Node *node, Value *results);
const char *infer_part(Graph *graph, const Node *node, Value *results);
const char *infer_regroup(Graph *graph, const Node *node, Value *results);
const char *infer_exchange(Graph *graph, const Node *node, Value *results);

#endif
