// split.c: the splitting rule of every op: along which axes of its iteration space ranks may share its work.
//
// The iteration space is the union of the axes of operands and result. Along an axis that may be split each rank holds
// its part of every operand and result that has the axis; a result that lacks it is then a partial sum (or extreme).
#include <string.h>

#include "compiler/ir/attention.h"
#include "compiler/ir/graph.h"

static bool split_any(const Graph *graph, const Node *node, AxisId axis) {
  (void)graph, (void)node, (void)axis;
  return true;
}

static bool split_none(const Graph *graph, const Node *node, AxisId axis) {
  (void)graph, (void)node, (void)axis;
  return false;
}

// Renames, splits and merges keep the data where it is: shard.c follows the axis.
static bool split_alias(const Graph *graph, const Node *node, AxisId axis) {
  (void)graph;
  return axis != node->axis && axis != node->axis2 && !shape_has(&node->axes, axis);
}

// Not along the axis that it cuts, joins or looks back over.
static bool split_around(const Graph *graph, const Node *node, AxisId axis) {
  return split_alias(graph, node, axis);
}

bool is_attention(const Node *node) {
  return node->op == OP_COMPOSITE && node->axes.count > 0 && strncmp(node->text, "attention", strlen("attention")) == 0;
}

// Along the batch, the heads, the group and the queries; every query needs all keys.
static bool split_attention(const Graph *graph, const Node *node, AxisId axis) {
  (void)graph;
  int depths = node->integer & ATTENTION_HAS_VALUE_DEPTH ? 2 : 1;
  for (int i = 0; i < node->axes.count - depths; i++) {
    if (node->axes.axis[i] == axis) {
      return true;
    }
  }
  return axis == node->axis;
}

typedef bool SplitRule(const Graph *graph, const Node *node, AxisId axis);

static SplitRule *const rules[] = {
#define OP(NAME, text, least, most, infer, gradient, cost, split, padding, samples, attributes, properties) split,
#include "compiler/ir/ops.def"
#undef OP
};

bool op_split(const Graph *graph, const Node *node, AxisId axis) {
  return rules[node->op](graph, node, axis);
}
