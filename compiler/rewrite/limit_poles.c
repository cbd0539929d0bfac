// limit_poles.c: what may have a pole where choices are left out, such as a quotient, a root or a logarithm of what is
// made of them, stays finite there, and is 0. See limit_choices.c.
#include <math.h>
#include <string.h>

#include "compiler/rewrite/limit_ends.h"
#include "compiler/rewrite/simplify.h"

bool limit_is_pole(const Node *node, int operand) {
  const bool diverges = op_padding_diverges(node->op) || op_steep(node->op);
  return op_elementwise(node->op) && diverges && !op_linear_in(node->op, operand);
}

static ValueId any_along(Ends *e, ValueId condition, Shape along) {
  Graph *graph = e->graph;
  const Shape shape = graph_shape(graph, condition), over = shape_common(shape, &along);
  if (over.count == 0) {
    return condition;
  }
  const ValueId one = graph_op3(graph, OP_WHERE, condition, graph_real(graph, 1), graph_real(graph, 0));
  const ValueId count = graph_add1(graph, OP_SUM, (NodeInit){NODE_INIT, .axes = over}, one);
  const ValueId any = graph_op2(graph, OP_LESS, graph_real(graph, 0), count);
  map_put(&e->any_of, (uint64_t)any, condition);
  return any;
}

// Is the first one that any position of the second holds, so that where the second holds it does?
static bool follows(const Ends *e, int64_t any, int64_t condition) {
  while (any >= 0 && any != condition) {
    any = map_get_or(&e->any_of, (uint64_t)any, -1);
  }
  return any == condition;
}

static int64_t both(Ends *e, int64_t a, int64_t b) {
  return follows(e, a, b) ? b : follows(e, b, a) ? a : graph_op2(e->graph, OP_AND, (ValueId)a, (ValueId)b);
}

static int64_t either(Ends *e, int64_t a, int64_t b) {
  return follows(e, a, b) ? a : follows(e, b, a) ? b : graph_op2(e->graph, OP_OR, (ValueId)a, (ValueId)b);
}

static bool is_walked(const Node *node) {
  return node && node->operand_count > 0 && node->operand_count <= 3 && node->result_count == 1 && !op_body(node->op) &&
         !op_chosen(node->op) && !op_indexes(node->op);
}

// A lookup by an index that is not limited: of each position what its operand has there.
static bool is_lookup(const Node *node) {
  return node && op_indexes(node->op) && !op_chosen(node->op) && node->result_count == 1;
}

static bool is_empty(Ends *e, ValueId value);

// The number that a value is where all choices that it is made of are left out, as exp(0) is 1; false: nobody knows.
static bool number_without(Ends *e, ValueId value, double *number) {
  const Node *node = graph_producer(e->graph, value);
  int64_t bits;
  if (node && node->op == OP_CONST) {
    *number = node->number;
    return true;
  }
  if (map_get(&e->numbers, (uint64_t)value, &bits)) {
    memcpy(number, &bits, sizeof bits);
    return !isnan(*number);
  }
  double operands[2] = {NAN, NAN}, found = NAN;
  bool known =
      !choices_of(&e->choices, value).choice && is_walked(node) && op_elementwise(node->op) && node->operand_count <= 2;
  for (int i = 0; known && i < node->operand_count; i++) {
    operands[i] = 0;
    known = is_empty(e, node->operands[i]) || number_without(e, node->operands[i], &operands[i]);
  }
  found = known && simplify_number(node->op, operands, node->operand_count, &found) ? found : NAN;
  memcpy(&bits, &found, sizeof bits);
  map_put(&e->numbers, (uint64_t)value, bits);
  *number = found;
  return !isnan(found);
}

static bool is_empty_of(Ends *e, const Node *node) {
  PaddingContent contents[3] = {PADDING_FINITE, PADDING_FINITE, PADDING_FINITE};
  bool any = false, all = true;
  double number;
  for (int i = 0; i < node->operand_count; i++) {
    contents[i] = is_empty(e, node->operands[i]) ? PADDING_ZERO : PADDING_FINITE;
    any = any || contents[i] == PADDING_ZERO;
    all = all && contents[i] == PADDING_ZERO;
  }
  if (op_bilinear(node->op)) {
    return any;
  }
  if (op_linear(node->op) || op_reduction(node->op) || op_moves(node->op)) {
    return op_elementwise(node->op) ? contents[0] == PADDING_ZERO : all;
  }
  return op_elementwise(node->op) &&
         ((any && !op_padding_diverges(node->op) &&
           op_padding(node->op)->content(e->graph, node, -1, contents) == PADDING_ZERO) ||
          (number_without(e, node->first_result, &number) && !(number < 0) && !(number > 0)));
}

// Is it 0 where all choices that it is made of are left out? So is what is 0 anyway.
static bool is_empty(Ends *e, ValueId value) {
  const MadeOf made = choices_of(&e->choices, value);
  const Node *node = graph_producer(e->graph, value);
  int64_t known;
  if (!made.choice && choices_zero(&e->choices, value)) {
    return true;
  }
  if (made.choice || !(is_walked(node) || is_lookup(node))) {
    return made.choice && made.content == PADDING_ZERO;
  }
  if (!map_get(&e->empty, (uint64_t)value, &known)) {
    known = is_lookup(node) ? is_empty(e, node->operands[0]) : is_empty_of(e, node);
    map_put(&e->empty, (uint64_t)value, known);
  }
  return known != 0;
}

// The condition of an operand as an operation moves that: of a move of the positions themselves, such as a merge, the
// same is done to it; -1: it lacks some of the axes that are moved.
static int64_t moved(Ends *e, const Node *node, int64_t condition) {
  Graph *graph = e->graph;
  const Shape own = graph_shape(graph, (ValueId)condition), from = graph_shape(graph, node->operands[0]);
  const Shape result = graph_shape(graph, node->first_result);
  const Shape moves = shape_common(from, &node->axes);
  const bool names = shape_has(&own, node->axis) || shape_has(&own, node->axis2) || shape_common(own, &moves).count > 0;
  if (!names) {
    return shape_contains(&result, &own) ? condition : -1;
  }
  const bool all = shape_contains(&own, &moves) && (!shape_has(&from, node->axis) || shape_has(&own, node->axis));
  if (!op_moves(node->op) || node->operand_count != 1 || !all) {
    return -1;
  }
  const NodeId id = graph_value(graph, node->first_result)->node;
  ValueId one = graph_op3(graph, OP_WHERE, (ValueId)condition, graph_real(graph, 1), graph_real(graph, 0));
  const NodeId made = graph_clone(graph, id, &one);
  Value *value = graph_value(graph, graph_node(graph, made)->first_result), inferred = *value;
  op_infer(graph, made, &inferred);
  value->shape = inferred.shape;
  return graph_op2(graph, OP_LESS, graph_real(graph, 0), graph_node(graph, made)->first_result);
}

static int64_t alive(Ends *e, ValueId value);
static int64_t alive_known(Ends *e, ValueId value);

static bool is_constant(const Ends *e, ValueId value) {
  const Node *node = graph_producer(e->graph, value);
  return choices_zero(&e->choices, value) || (node && op_leaf(node->op) && !op_given(node->op));
}

// Of a value of a node that is empty, or has a number without its choices: what of its operands is not 0, or not that
// number. A product is 0 where one of them is; whatever else is so where all are, and if of one of these nobody knows
// where, nobody knows of the whole.
static int64_t alive_of_operands(Ends *e, const Node *node) {
  const bool first = op_linear(node->op) || op_reduction(node->op);
  const bool product = op_bilinear(node->op) && is_empty(e, node->first_result);
  int64_t found = -1;
  for (int i = 0; i < (first && !op_moves(node->op) ? 1 : node->operand_count); i++) {
    const ValueId operand = node->operands[i];
    double number;
    const bool counts = is_empty(e, operand) || (!product && number_without(e, operand, &number));
    const int64_t one = counts ? alive_known(e, operand) : -1;
    if (counts && one < 0 && !product && !is_constant(e, operand)) {
      return -1;
    }
    found = one < 0 ? found : found < 0 ? one : product ? both(e, found, one) : either(e, found, one);
  }
  const bool sums = !op_elementwise(node->op) && (op_bilinear(node->op) || op_reduction(node->op));
  found = found >= 0 && sums ? any_along(e, (ValueId)found, node->axes) : found;
  const bool stays = op_elementwise(node->op) || sums || found < 0;
  return stays ? found : moved(e, node, found);
}

// Where the axis that is looked up along is none of the condition's.
static int64_t alive_of_lookup(Ends *e, const Node *node) {
  const int64_t of = alive(e, node->operands[0]);
  const Shape own = of >= 0 ? graph_shape(e->graph, (ValueId)of) : (Shape){0};
  return shape_has(&own, node->axis) ? -1 : of;
}

// A product with what an index chooses is 0 where that is left out, and where all that is multiplied is.
static int64_t alive_of_chosen(Ends *e, const Node *node, int choice) {
  const Shape summed = node->axes;
  const ValueId own = limit_kept(e, choice);
  const int64_t given = alive(e, node->operands[0]);
  return given < 0 ? own : both(e, own, any_along(e, (ValueId)given, summed));
}

static int64_t alive_known(Ends *e, ValueId value) {
  const MadeOf made = choices_of(&e->choices, value);
  const Node *node = graph_producer(e->graph, value);
  int64_t known;
  if (!map_get(&e->alive, (uint64_t)value, &known)) {
    known = made.choice && op_chosen(node->op) ? alive_of_chosen(e, node, made.choice)
            : is_walked(node)                  ? alive_of_operands(e, node)
            : is_lookup(node)                  ? alive_of_lookup(e, node)
                                               : -1;
    known = known < 0 && made.choice ? limit_kept(e, made.choice) : known;
    map_put(&e->alive, (uint64_t)value, known);
  }
  return known;
}

// The condition without which a value is 0 since choices that it is made of are left out; -1: it is none of that.
static int64_t alive(Ends *e, ValueId value) {
  const bool noted = map_get_or(&e->alive, (uint64_t)value, -1) >= 0 && map_get_or(&e->empty, (uint64_t)value, 0);
  return noted || is_empty(e, value) ? alive_known(e, value) : -1;
}

// What is 1 where it would be 0 since choices are left out.
static ValueId one_without(Ends *e, ValueId value, int choice, int64_t condition) {
  Graph *graph = e->graph;
  int64_t one;
  if (!map_get(&e->ones, (uint64_t)value, &one)) {
    one = choice && condition == limit_kept(e, choice)
              ? limit_where_kept(e, choice, value, 1)
              : graph_op3(graph, OP_WHERE, (ValueId)condition, value, graph_real(graph, 1));
    choices_note(&e->choices, graph_producer(graph, (ValueId)one));
    map_put(&e->ones, (uint64_t)value, one);
  }
  return (ValueId)one;
}

int64_t limit_leave_poles(Ends *e, NodeId id, const MadeOf *operands, int choice) {
  int64_t without = -1;
  for (int i = 0; i < graph_node(e->graph, id)->operand_count; i++) {
    const Node *node = graph_node(e->graph, id);
    const ValueId operand = node->operands[i];
    if (!limit_is_pole(node, i) || !element_type_floating(graph_value(e->graph, operand)->type) ||
        (operands[i].choice == choice && choices_positive(&e->choices, operand))) {
      continue;
    }
    graph_follow(e->graph, node);
    const int64_t zero = alive(e, operand);
    const int64_t condition = zero < 0 && operands[i].choice ? limit_kept(e, operands[i].choice) : zero;
    if (condition < 0) {
      continue;
    }
    const ValueId one = one_without(e, operand, operands[i].choice, condition);
    graph_node(e->graph, id)->operands[i] = one;
    if (!choice || condition != limit_kept(e, choice)) {
      without = without < 0 ? condition : both(e, without, condition);
    }
  }
  return without;
}

void limit_zero_without(Ends *e, NodeId id, ValueId condition) {
  Graph *graph = e->graph;
  const ValueId value = graph_node(graph, id)->first_result;
  const Value from = *graph_value(graph, value);
  graph_follow(graph, graph_node(graph, id));
  const ValueId zero = graph_op3(graph, OP_WHERE, condition, value, graph_real(graph, 0));
  graph_value(graph, zero)->name = from.name;
  graph_value(graph, zero)->path = from.path;
  choices_note(&e->choices, graph_producer(graph, zero));
  map_put(&e->without, (uint64_t)value, zero);
  const int64_t own = alive(e, value), choice = choices_of(&e->choices, value).choice;
  const int64_t also =
      own < 0 && choice ? limit_kept(e, (int)choice) : own;  // a quotient is 0 where what it divides is
  map_put(&e->alive, (uint64_t)zero, also < 0 ? condition : both(e, also, condition));
  map_put(&e->empty, (uint64_t)zero, true);
}
