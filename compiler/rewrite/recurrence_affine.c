// recurrence_affine.c: whether what comes out of a carried value is a factor times it plus something; the factor's
// logarithm.
#include <math.h>

#include "compiler/rewrite/recurrence_internal.h"

ValueId scan_factor(Graph *graph, const Affine *a) {
  ValueId all = -1;
  for (int i = 0; i < a->count; i++) {
    const ValueId factor = a->under[i] ? graph_op1(graph, OP_RECIPROCAL, a->factors[i]) : a->factors[i];
    all = all < 0 ? factor : graph_op2(graph, OP_MUL, all, factor);
  }
  return all < 0 ? graph_real(graph, 1) : all;
}

static bool push_factor(Affine *a, ValueId value, bool under) {
  if (a->any && a->count == MOST_FACTORS) {
    return false;
  }
  if (a->any) {
    a->factors[a->count] = value;
    a->under[a->count++] = under;
  }
  return true;
}

static Affine one_factor(ValueId factor, ValueId added) {
  Affine a = {.any = true, .count = 1, .added = added};
  a.factors[0] = factor;
  return a;
}

static ValueId added_or(Graph *graph, const Affine *a) {
  return a->added < 0 ? graph_real(graph, 0) : a->added;
}

static bool affine_sum(Unroll *u, const Node *node, Affine *x, Affine *y, Affine *a) {
  Graph *graph = u->graph;
  const bool minus = node->op == OP_SUB;
  ValueId second = y->added;
  if (minus && second >= 0) {
    second = graph_op1(graph, OP_NEG, second);
  }
  const ValueId added = x->added < 0 ? second : second < 0 ? x->added : graph_op2(graph, OP_ADD, x->added, second);
  if (minus && y->any && !push_factor(y, graph_real(graph, -1), false)) {
    return false;
  }
  if (x->any && y->any) {
    *a = one_factor(graph_op2(graph, OP_ADD, scan_factor(graph, x), scan_factor(graph, y)), added);
    return true;
  }
  *a = x->any ? *x : *y;
  a->added = added;
  return true;
}

static bool affine_product(Unroll *u, const Node *node, Affine *x, Affine *y, Affine *a) {
  const bool under = node->op == OP_DIV;
  if (y->any) {
    Affine *other = x;
    if (x->any || under) {
      return false;
    }
    x = y;
    y = other;
  }
  *a = *x;
  a->added = x->added < 0 ? -1 : graph_op2(u->graph, node->op, x->added, y->added);
  return push_factor(a, y->added, under);
}

static bool affine_choice(Unroll *u, ValueId condition, Affine *x, Affine *y, Affine *a) {
  Graph *graph = u->graph;
  const ValueId one = x->any ? scan_factor(graph, x) : graph_real(graph, 0);
  const ValueId two = y->any ? scan_factor(graph, y) : graph_real(graph, 0);
  const bool added = x->added >= 0 || y->added >= 0;
  *a = one_factor(graph_op3(graph, OP_WHERE, condition, one, two),
                  added ? graph_op3(graph, OP_WHERE, condition, added_or(graph, x), added_or(graph, y)) : -1);
  return true;
}

static bool affine_both(Unroll *u, const Node *node, int first, ValueId carried, Map *chain, Affine *x, Affine *y) {
  return scan_affine(u, node->operands[first], carried, chain, x) &&
         scan_affine(u, node->operands[first + 1], carried, chain, y);
}

bool scan_affine(Unroll *u, ValueId value, ValueId carried, Map *chain, Affine *a) {
  Graph *graph = u->graph;
  *a = (Affine){.added = -1};
  if (value == carried) {
    a->any = true;
    return true;
  }
  if (scan_known(u, value)) {
    a->added = scan_replaced(&u->replace, value);
    return true;
  }
  const NodeId id = graph_value(graph, value)->node;
  if (id < 0) {
    return false;
  }
  const Node node = *graph_node(graph, id);
  Affine x, y;
  map_put(chain, (uint64_t)id, 1);
  switch (node.op) {
    case OP_ADD:
    case OP_SUB:
      return affine_both(u, &node, 0, carried, chain, &x, &y) && affine_sum(u, &node, &x, &y, a);
    case OP_MUL:
    case OP_DIV:
      return affine_both(u, &node, 0, carried, chain, &x, &y) && affine_product(u, &node, &x, &y, a);
    case OP_WHERE:
      return scan_known(u, node.operands[0]) && affine_both(u, &node, 1, carried, chain, &x, &y) &&
             affine_choice(u, scan_replaced(&u->replace, node.operands[0]), &x, &y, a);
    case OP_BROADCAST:
      return scan_affine(u, node.operands[0], carried, chain, a);
    case OP_NEG:
      if (!scan_affine(u, node.operands[0], carried, chain, a)) {
        return false;
      }
      a->added = a->added < 0 ? -1 : graph_op1(graph, OP_NEG, a->added);
      return push_factor(a, graph_real(graph, -1), false);
    default:
      return false;
  }
}

// --- logarithms ---

// log(sigmoid(x)) = min(x, 0) - log(1 + exp(-|x|))
static ValueId log_sigmoid(Graph *graph, ValueId x) {
  const ValueId less = graph_op2(graph, OP_MIN, x, graph_real(graph, 0));
  const ValueId power = graph_op1(graph, OP_EXP, graph_op1(graph, OP_NEG, graph_op1(graph, OP_ABS, x)));
  return graph_op2(graph, OP_SUB, less,
                   graph_op1(graph, OP_LOG, graph_op2(graph, OP_ADD, graph_real(graph, 1), power)));
}

// The logarithm of what is surely positive by what it is made of; -1: of this nobody knows.
static ValueId log_of(Graph *graph, ValueId value, int depth) {
  const Node *made = graph_producer(graph, value);
  if (!made || depth == 0) {
    return -1;
  }
  const Node node = *made;
  ValueId a = -1, b = -1;
  switch (node.op) {
    case OP_EXP:
      return node.operands[0];
    case OP_SIGMOID:
      return log_sigmoid(graph, node.operands[0]);
    case OP_CONST:
      return node.number > 0 && isfinite(node.number) && node.axes.count == 0 ? graph_real(graph, log(node.number))
                                                                              : -1;
    case OP_MUL:
    case OP_DIV:
      a = log_of(graph, node.operands[0], depth - 1);
      b = a < 0 ? -1 : log_of(graph, node.operands[1], depth - 1);
      return b < 0 ? -1 : graph_op2(graph, node.op == OP_MUL ? OP_ADD : OP_SUB, a, b);
    case OP_RECIPROCAL:
      a = log_of(graph, node.operands[0], depth - 1);
      return a < 0 ? -1 : graph_op1(graph, OP_NEG, a);
    default:
      a = op_alias(node.op) || node.op == OP_BROADCAST ? log_of(graph, node.operands[0], depth - 1) : -1;
      return a < 0 ? -1 : graph_node(graph, graph_clone(graph, graph_value(graph, value)->node, &a))->first_result;
  }
}

Decay scan_decay(Graph *graph, const Affine *a) {
  enum { DEPTH = 8 };
  ValueId sum = graph_real(graph, 0);
  for (int i = 0; i < a->count; i++) {
    const ValueId one = log_of(graph, a->factors[i], DEPTH);
    if (one < 0) {
      return (Decay){scan_factor(graph, a), false};
    }
    sum = i == 0 && !a->under[i] ? one : graph_op2(graph, a->under[i] ? OP_SUB : OP_ADD, sum, one);
  }
  return (Decay){sum, true};
}
