// loss_unit.c: may a loss be called nats per token, and is it nothing else?
#include <math.h>
#include <string.h>

#include "compiler/ir/op.h"
#include "lang/lint.h"

bool lint_number(const Graph *graph, ValueId value, double *number) {
  const Node *node = graph_producer(graph, value);
  node = node && node->op == OP_TO_REAL ? graph_producer(graph, node->operands[0]) : node;
  const bool whole = node && node->op == OP_INTEGER;
  *number = whole ? (double)node->integer : node && node->op == OP_CONST ? node->number : 0;
  return whole || (node && node->op == OP_CONST);
}

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

static bool is_token_input(const Node *node) {
  static const struct {
    const char *name;
    bool token;
  } fed[] = {
#define FED(name, meaning, token, counts, parts) {#name, token},
#include "compiler/plan/fed.def"
#undef FED
  };
  bool found = false;
  for (size_t i = 0; node->op == OP_INPUT && i < sizeof fed / sizeof *fed; i++) {
    found |= fed[i].token && strcmp(node->text, fed[i].name) == 0;
  }
  return found;
}

static bool value_is(const Graph *graph, ValueId value, Op op) {
  const Node *node = graph_producer(graph, value);
  return node && node->op == op;
}

static bool follows_tokens(Graph *graph, ValueId index) {
  const bool *nodes = graph_value(graph, index)->type == TYPE_INDEX ? lint_nodes_of(graph, index) : NULL;
  for (int i = 0; nodes && i < graph->nodes.count; i++) {
    if (nodes[i] && is_token_input(graph_node(graph, i))) {
      return true;
    }
  }
  return false;
}

// Is what is picked over `axis` something of a whole sample, and none of its tokens: a class that is computed from
// them?
static bool of_samples(Graph *graph, const Node *node, AxisId axis) {
  const NodeList *nodes = &graph->regions.at[0].nodes;
  const Value *token = NULL;
  for (int i = 0; i < nodes->count && !token; i++) {
    const Node *input = graph_node(graph, nodes->at[i]);
    token = is_token_input(input) ? graph_value(graph, input->first_result) : NULL;
  }
  if (!token || token->type != TYPE_INDEX || graph->axes.at[token->bound].global == graph->axes.at[axis].global) {
    return false;
  }
  const Shape shape = graph_shape(graph, node->first_result);
  int common = 0;
  for (int i = 0; i < shape.count; i++) {
    const bool has = shape_has(&token->shape, shape.axis[i]);
    if (!has && shape.axis[i] != axis) {  // which may stand for places of tokens
      return false;
    }
    common += has;
  }
  return common < token->shape.count;
}

// Is something computed taken at the places that tokens name, as scores are at the targets? A row of a parameter is an
// embedding. One-hot vectors do the same: positions that are compared with tokens.
static bool picks_tokens(Graph *graph, const Node *node) {
  const bool takes = node->op == OP_TAKE && !value_is(graph, node->operands[0], OP_PARAM);
  const bool one_hot = op_compares(node->op) && (value_is(graph, node->operands[0], OP_POSITION) ||
                                                 value_is(graph, node->operands[1], OP_POSITION));
  bool found = false;
  for (int i = 0; i < node->operand_count && (takes || one_hot); i++) {
    found |= follows_tokens(graph, node->operands[i]);
  }
  const int place = one_hot && !value_is(graph, node->operands[0], OP_POSITION);
  const AxisId axis = one_hot ? graph_producer(graph, node->operands[place])->axis : node->axis;
  return found && !of_samples(graph, node, axis);
}

static bool is_picked_from(const Node *node) {
  return node->op == OP_LOG || node->op == OP_TO_REAL || is_passed(node);
}

// exp(x), of log(sum(exp(x))).
static const Node *exp_of(const Graph *graph, const Node *log) {
  const Node *sum = log && log->op == OP_LOG ? graph_producer(graph, log->operands[0]) : NULL;
  const Node *exp = sum && sum->op == OP_SUM ? graph_producer(graph, sum->operands[0]) : NULL;
  return exp && exp->op == OP_EXP ? exp : NULL;
}

bool lint_logsumexp(const Graph *graph, const Node *node) {
  bool found = exp_of(graph, node) != NULL;
  for (int i = 0; node && node->op == OP_ADD && i < 2 && !found; i++) {
    const Node *exp = exp_of(graph, graph_producer(graph, node->operands[i]));
    const Node *sub = exp ? graph_producer(graph, exp->operands[0]) : NULL;
    found = sub && sub->op == OP_SUB && sub->operands[1] == node->operands[1 - i];
  }
  return found;
}

bool lint_in_nats(Graph *graph, ValueId loss) {
  return lint_finds(graph, loss, is_logarithm, is_passed) && lint_finds(graph, loss, picks_tokens, is_picked_from);
}

bool lint_reweighs(Graph *graph, const Node *node) {
  const bool most = node->op == OP_REDUCE_MAX || node->op == OP_REDUCE_MIN;
  bool found = false;
  for (int i = 0; i < node->operand_count && !found; i++) {
    const bool weighs = node->op == OP_MUL || node->op == OP_WHERE || node->op == OP_MIN || node->op == OP_MAX || most;
    found = weighs && lint_in_nats(graph, node->operands[i]);
  }
  return found;
}

bool lint_bare_entropy(Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  double number;
  while (node && (node->op == OP_NEG || op_alias(node->op))) {
    value = node->operands[0];
    node = graph_producer(graph, value);
  }
  const bool scaled =
      node && (node->op == OP_MUL || node->op == OP_DIV) &&
      (lint_number(graph, node->operands[1], &number) || lint_number(graph, node->operands[0], &number));
  return node && !scaled && node->op != OP_DIV && !lint_reweighs(graph, node) && lint_in_nats(graph, value);
}

// A sum, times what is no part of its terms.
typedef struct {
  double factor;
  ValueId of;  // -1: there is none
  Shape over;
} Sum;

static Sum sum_find(const Graph *graph, ValueId value) {
  Sum sum = {1, -1, {0}};
  for (const Node *node = graph_producer(graph, value); node; node = graph_producer(graph, value)) {
    double number;
    const bool product = node->op == OP_MUL || node->op == OP_DIV;
    if (node->op == OP_MUL && lint_number(graph, node->operands[0], &number)) {
      sum.factor *= number;
      value = node->operands[1];
      continue;
    }
    if (product && lint_number(graph, node->operands[1], &number) && number != 0) {
      sum.factor *= node->op == OP_MUL ? number : 1 / number;
    } else if (node->op == OP_SUM) {
      sum.of = node->operands[0];
      sum.over = shape_union(sum.over, &node->axes);
    } else if (node->op != OP_NEG && node->op != OP_TO_REAL && !op_alias(node->op)) {
      break;
    }
    value = node->operands[0];
  }
  return sum;
}

enum { MOST_ALIKE = 16 };

static bool alike(const Graph *graph, ValueId a, ValueId b, int depth) {
  const Node *x = graph_producer(graph, a), *y = graph_producer(graph, b);
  if (a == b || !x || !y || depth == 0) {
    return a == b;
  }
  bool same = x->op == y->op && x->text == y->text && x->integer == y->integer && x->number == y->number &&
              x->axis == y->axis && x->axis2 == y->axis2 && x->operand_count == y->operand_count && !op_random(x->op) &&
              x->region < 0;
  for (int i = 0; same && i < x->operand_count; i++) {
    same = alike(graph, x->operands[i], y->operands[i], depth - 1);
  }
  return same;
}

static ValueId without_casts(const Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  while (node && (node->op == OP_TO_REAL || op_alias(node->op))) {
    value = node->operands[0];
    node = graph_producer(graph, value);
  }
  return value;
}

// Are the weights of terms, c * entropy or where(c, entropy, 0), those that are counted?
static bool counts(Graph *graph, ValueId term, ValueId counted, ValueId *entropy) {
  const Node *node = graph_producer(graph, term), *other = graph_producer(graph, counted);
  double zero, one;
  if (node && node->op == OP_NEG) {
    return counts(graph, node->operands[0], counted, entropy);
  }
  for (int i = 0; node && node->op == OP_MUL && i < 2; i++) {
    *entropy = node->operands[1 - i];
    if (alike(graph, without_casts(graph, node->operands[i]), without_casts(graph, counted), MOST_ALIKE)) {
      return true;
    }
  }
  for (int i = 1; node && node->op == OP_WHERE && i <= 2; i++) {
    *entropy = node->operands[i];
    const bool rest = lint_number(graph, node->operands[3 - i], &zero) && zero == 0;
    const bool where = other && other->op == OP_WHERE && lint_number(graph, other->operands[i], &one) && one == 1 &&
                       lint_number(graph, other->operands[3 - i], &zero) && zero == 0 &&
                       alike(graph, other->operands[0], node->operands[0], MOST_ALIKE);
    if (rest && (where || (i == 1 && alike(graph, node->operands[0], without_casts(graph, counted), MOST_ALIKE)))) {
      return true;
    }
  }
  return false;
}

static bool is_param(Graph *graph, const Node *node) {
  (void)graph;
  return node->op == OP_PARAM;
}

static bool is_any(const Node *node) {
  (void)node;
  return true;
}

bool lint_mean_of_some(Graph *graph, const Node *quotient, const Shape *counted) {
  const Node *divisor = graph_producer(graph, quotient->operands[1]);
  ValueId by = quotient->operands[1], entropy = -1;
  double least = 0;
  for (int i = 0; divisor && (divisor->op == OP_MAX || divisor->op == OP_ADD) && i < 2; i++) {
    double number;
    if (lint_number(graph, divisor->operands[i], &number)) {  // so that nothing is divided by 0
      least = divisor->op == OP_MAX ? number : 1e4 * number;
      by = divisor->operands[1 - i];
    }
  }
  const Sum all = sum_find(graph, quotient->operands[0]);
  Sum some = sum_find(graph, by);
  for (int i = 0; i < all.over.count; i++) {  // along which weights are the same
    const bool same = !shape_has(&some.over, all.over.axis[i]);
    some.factor /= same ? (double)graph->axes.at[all.over.axis[i]].global : 1;
  }
  if (!shape_contains(&all.over, &some.over) || all.of < 0 || some.of < 0 ||
      fabs(all.factor / some.factor - 1) > 1e-6 || least > 1.001 * fabs(all.factor) ||
      !counts(graph, all.of, some.of, &entropy) || !lint_bare_entropy(graph, entropy) ||
      lint_finds(graph, some.of, is_param, is_any)) {  // weights that the model makes change with it
    return false;
  }
  const Shape of = graph_shape(graph, entropy);
  return shape_contains(counted, &of) || graph_elements(graph, of) == graph_elements(graph, *counted);
}

enum { MOST_DEPTH = 32, MOST_NODES = 4096 };  // a term that is read twice is looked at twice

// Is the value made of a cross entropy by sums, signs and weights?
static bool has_entropy(const Elaborator *e, ValueId value, int depth, int *left) {
  const Node *node = graph_producer(e->graph, value);
  if (!node || depth > MOST_DEPTH || (*left)-- <= 0) {
    return false;
  }
  if (lint_entropy_sign(e, value) != 0) {
    return true;
  }
  bool found = false;
  for (int i = 0; i < node->operand_count && !found && (node->op == OP_SUM || op_elementwise(node->op)); i++) {
    found = has_entropy(e, node->operands[i], depth + 1, left);
  }
  return found;
}

// Is it 0, as a term is whose weight is 0?
static bool is_zero(const Graph *graph, ValueId value, int *left) {
  const Node *node = graph_producer(graph, value);
  double number;
  if (lint_number(graph, value, &number)) {
    return number == 0;
  }
  return node && node->op == OP_MUL && (*left)-- > 0 &&
         (is_zero(graph, node->operands[0], left) || is_zero(graph, node->operands[1], left));
}

static bool adds_terms(const Elaborator *e, ValueId value, int depth, int *left) {
  const Node *node = graph_producer(e->graph, value);
  if (!node || depth > MOST_DEPTH || lint_entropy_sign(e, value) != 0 ||
      (node->op != OP_SUM && !op_elementwise(node->op))) {
    return false;
  }
  for (int i = 0; i < node->operand_count; i++) {
    if (has_entropy(e, node->operands[i], 0, left)) {
      const bool sum = node->op == OP_ADD || node->op == OP_SUB;
      return (sum && !is_zero(e->graph, node->operands[1 - i], left)) ||
             adds_terms(e, node->operands[i], depth + 1, left);
    }
  }
  return false;
}

bool lint_adds_terms(const Elaborator *e, ValueId loss) {
  int left = MOST_NODES;
  return adds_terms(e, loss, 0, &left);
}
