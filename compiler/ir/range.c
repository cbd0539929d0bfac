// range.c: between which numbers all elements of a value are, as far as its text says.
#include "compiler/ir/range.h"

#include <math.h>

enum { DEPTH = 32 };

static const Range anything = {-INFINITY, INFINITY};

static Range either(Range a, Range b) {
  return (Range){fmin(a.least, b.least), fmax(a.most, b.most)};
}

static bool is_known(Range range) {
  return isfinite(range.least) && isfinite(range.most);
}

static Range find(const Graph *graph, ValueId value, int depth);

// Of whole numbers with the sign of a divisor that is known.
static Range remainder_of(Range by) {
  return by.least > 0 && is_known(by) ? (Range){0, by.most - 1} : anything;
}

// Everything where one of them is not known: what is infinite here may have been NaN.
static Range of_pair(Op op, Range a, Range b) {
  if (op == OP_MOD) {
    return remainder_of(b);
  }
  if (!is_known(a) || !is_known(b)) {
    return anything;
  }
  switch (op) {
    case OP_ADD:
      return (Range){a.least + b.least, a.most + b.most};
    case OP_SUB:
      return (Range){a.least - b.most, a.most - b.least};
    case OP_MAX:
      return (Range){fmax(a.least, b.least), fmax(a.most, b.most)};
    case OP_MIN:
      return (Range){fmin(a.least, b.least), fmin(a.most, b.most)};
    default:
      return anything;
  }
}

static Range of_operand(const Graph *graph, const Node *node, int operand, int depth) {
  return find(graph, node->operands[operand], depth - 1);
}

static Range find(const Graph *graph, ValueId value, int depth) {
  const Node *node = graph_producer(graph, value);
  if (!node || depth == 0) {
    return anything;
  }
  switch (node->op) {
    case OP_CONST:
      return (Range){node->number, node->number};
    case OP_INTEGER:
      return (Range){(double)node->integer, (double)node->integer};
    case OP_POSITION:
      return (Range){0, (double)graph->axes.at[node->axis].global - 1};
    case OP_TO_REAL:
    case OP_TO_INT:
    case OP_BROADCAST: {
      const Range of = of_operand(graph, node, 0, depth);
      return (Range){floor(of.least), ceil(of.most)};
    }
    case OP_WHERE:
      return either(of_operand(graph, node, 1, depth), of_operand(graph, node, 2, depth));
    case OP_TAKE:
      return either(of_operand(graph, node, 0, depth), (Range){0, 0});
    case OP_SUM: {
      const Range of = of_operand(graph, node, 0, depth);
      const double count = (double)graph_elements(graph, node->axes);
      return is_known(of) ? (Range){count * of.least, count * of.most} : anything;
    }
    default:
      return op_alias(node->op) ? of_operand(graph, node, 0, depth)
             : node->operand_count == 2
                 ? of_pair(node->op, of_operand(graph, node, 0, depth), of_operand(graph, node, 1, depth))
                 : anything;
  }
}

Range range_of(const Graph *graph, ValueId value) {
  return find(graph, value, DEPTH);
}

bool range_inside(const Graph *graph, ValueId index, AxisId axis) {
  const Range range = range_of(graph, index);
  return range.least >= 0 && range.most <= (double)graph->axes.at[axis].size - 1;
}
