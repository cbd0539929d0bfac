// limit_choices.c: what is made of a choice that a capacity leaves out adds nothing.
//
// Its products are 0, since its index is outside (limit.c). What a text makes of these need not be: biases are added,
// functions are not 0 at 0. A lookup by the same index, such as the bias of an expert, becomes one by the limited
// index: it is 0 where the products are, and stands in rows and on the ranks where they do. Whatever else makes a value
// that is not surely 0: who reads it as something else than one choice (choices.h) reads where(it is not left out,
// value, 0) instead. What may have a pole at 0, such as a quotient, a root or a logarithm, is given 1 where its operand
// is 0 since a choice, or all choices that it is made of, are left out, and is 0 for who reads it. So the graph itself
// says what every layout computes, and gradients follow from it.
#include "compiler/rewrite/limit.h"

#include <string.h>

#include "compiler/ir/choices.h"

typedef struct {
  Compilation *c;
  Graph *graph;
  const LimitedIndices *indices;
  Choices choices;
  Map kept;                // choice to the condition that it is not left out
  Map masked;              // value to what is 0 where its choice is left out
  Map by_index;            // value and choice to whether it is of the index alone
  Map remade;              // value and choice to the same by the limited index
  Map poles;               // value and choice to whether it has poles
  Map ones;                // value to what is 1 where its choice, or all that it is made of, is left out
  Map empty;               // value of no choice to whether it is 0 where all choices that it is made of are left out
  Map alive;               // value of no choice to the condition without which it is 0; -1: there is none
  Map any_of;              // condition of any of many positions to that of each
  Map without;             // result that had a pole there to what is 0 instead
  ARRAY(ValueList) given;  // by choice: what its products so far are given, and is to be noted
  Map feeds;               // value and choice: those of which that is made
} Ends;

static const LimitedIndex *index_of(const Ends *e, int choice) {
  return &e->indices->at[choice - 1];
}

// --- zeros ---

static ValueId kept(Ends *e, int choice) {
  int64_t known;
  if (!map_get(&e->kept, (uint64_t)choice, &known)) {
    known = graph_op2(e->graph, OP_LESS_EQUAL, graph_integer(e->graph, 0), index_of(e, choice)->limited);
    choices_note(&e->choices, graph_producer(e->graph, (ValueId)known));
    map_put(&e->kept, (uint64_t)choice, known);
  }
  return (ValueId)known;
}

static ValueId where_kept(Ends *e, int choice, ValueId value, int64_t otherwise) {
  Graph *graph = e->graph;
  const Value from = *graph_value(graph, value);
  const ValueId condition = kept(e, choice);
  if (from.type == TYPE_BOOL) {
    return graph_op2(graph, OP_AND, condition, value);
  }
  const bool whole = from.type == TYPE_INT || from.type == TYPE_INDEX;
  const ValueId number = whole ? graph_integer(graph, otherwise) : graph_real(graph, (double)otherwise);
  return graph_op3(graph, OP_WHERE, condition, value, number);
}

static ValueId masked(Ends *e, ValueId value) {
  const MadeOf made = choices_of(&e->choices, value);
  int64_t known;
  if (made.choice == 0 || made.content == PADDING_ZERO || map_get(&e->masked, (uint64_t)value, &known)) {
    return made.choice == 0 || made.content == PADDING_ZERO ? value : (ValueId)known;
  }
  Graph *graph = e->graph;
  const Value from = *graph_value(graph, value);
  graph_follow(graph, graph_producer(graph, value));
  ValueId zero = where_kept(e, made.choice, value, 0);
  if (from.type == TYPE_INDEX) {
    choices_note(&e->choices, graph_producer(graph, zero));
    zero = graph_add1(graph, OP_AS_INDEX, (NodeInit){NODE_INIT, .axis = from.bound}, zero);
  }
  graph_value(graph, zero)->name = from.name;
  graph_value(graph, zero)->path = from.path;  // comparisons see what others read
  choices_note(&e->choices, graph_producer(graph, zero));
  map_put(&e->masked, (uint64_t)value, zero);
  return zero;
}

// --- what is of the index ---

static void note_feeds(Ends *e, int choice) {
  ValueList *open = &e->given.at[choice - 1];
  while (open->count > 0) {
    const ValueId at = open->at[--open->count];
    const uint64_t key[] = {(uint64_t)at, (uint64_t)choice};
    const Node *node = graph_producer(e->graph, at);
    int64_t known;
    if (map_get_bytes(&e->feeds, key, sizeof key, &known)) {
      continue;
    }
    map_put_bytes(&e->feeds, key, sizeof key, true);
    for (int i = 0; node && i < node->operand_count; i++) {
      array_push(e->c->arena, open, node->operands[i]);
    }
  }
}

// Is the products' other factor made of it? Then it stands beside what they make, whatever looks it up.
static bool is_given(Ends *e, ValueId value, int choice) {
  const uint64_t key[] = {(uint64_t)value, (uint64_t)choice};
  note_feeds(e, choice);
  return map_get_bytes_or(&e->feeds, key, sizeof key, false) != 0;
}

// The index as it is, or before it was brought inside.
static bool is_index(const Ends *e, ValueId value, int choice) {
  const ValueId index = index_of(e, choice)->index;
  const Node *node = graph_producer(e->graph, index);
  return limit_is_same(e->graph, index, value) ||
         (node && node->op == OP_WHERE && limit_is_same(e->graph, node->operands[1], value));
}

static bool looks_up(const Ends *e, const Node *node, int choice) {
  return op_indexes(node->op) && !op_chosen(node->op) && is_index(e, node->operands[node->operand_count - 1], choice);
}

// Has it nothing of a position but what the position has chosen? alone: nor anything of some of the positions.
static bool is_of_index(Ends *e, ValueId value, int choice, bool alone) {
  const uint64_t key[] = {(uint64_t)value, (uint64_t)choice, alone};
  const Shape positions = graph_shape(e->graph, index_of(e, choice)->index);
  const bool some = shape_common(graph_shape(e->graph, value), &positions).count > 0;
  int64_t known;
  if (!choices_full(&e->choices, value, choice) || is_index(e, value, choice)) {
    return is_index(e, value, choice) || !alone || !some;
  }
  if (!map_get_bytes(&e->by_index, key, sizeof key, &known)) {
    const Node *node = graph_producer(e->graph, value);
    known = node && node->operand_count > 0 && !op_chosen(node->op) && choices_apart(&e->choices, node, choice) &&
            !choices_of(&e->choices, value).choice && !is_given(e, value, choice);
    const bool lookup = known && !alone && looks_up(e, node, choice);
    for (int i = 0; known && !lookup && i < node->operand_count; i++) {
      known = is_of_index(e, node->operands[i], choice, alone);
    }
    map_put_bytes(&e->by_index, key, sizeof key, known);
  }
  return known != 0;
}

static ValueId remade(Ends *e, ValueId value, int choice);

static ValueId remade_index(Ends *e, ValueId value, int choice) {
  const bool same = limit_is_same(e->graph, index_of(e, choice)->index, value);
  const ValueId made = same ? index_of(e, choice)->limited : where_kept(e, choice, value, -1);
  if (!same) {
    choices_note(&e->choices, graph_producer(e->graph, made));
  }
  return made;
}

static ValueId remade_node(Ends *e, ValueId value, int choice) {
  Graph *graph = e->graph;
  const NodeId id = graph_value(graph, value)->node;
  const int count = graph_node(graph, id)->operand_count;
  const bool lookup = looks_up(e, graph_node(graph, id), choice);
  ValueId *operands = ARENA_ARRAY(e->c->arena, ValueId, count + 1);
  for (int i = 0; i < count; i++) {
    const ValueId operand = graph_node(graph, id)->operands[i];
    operands[i] = lookup && i < count - 1 ? operand : remade(e, operand, choice);
  }
  const NodeId made = graph_clone(graph, id, operands);
  Value *result = graph_value(graph, graph_node(graph, made)->first_result), inferred = *result;
  op_infer(graph, made, &inferred);  // a limited index is any integer
  result->type = inferred.type;
  result->bound = inferred.bound;
  choices_note(&e->choices, graph_node(graph, made));
  return graph_node(graph, made)->first_result;
}

static ValueId remade(Ends *e, ValueId value, int choice) {
  const uint64_t key[] = {(uint64_t)value, (uint64_t)choice};
  int64_t known;
  if (!choices_full(&e->choices, value, choice)) {
    return value;
  }
  if (!map_get_bytes(&e->remade, key, sizeof key, &known)) {
    known = is_index(e, value, choice) ? remade_index(e, value, choice) : remade_node(e, value, choice);
    map_put_bytes(&e->remade, key, sizeof key, known);
  }
  return (ValueId)known;
}

// Is its value or its slope perhaps infinite where this operand is 0?
static bool is_pole(const Node *node, int operand) {
  const bool diverges = op_padding_diverges(node->op) || op_steep(node->op);
  return op_elementwise(node->op) && diverges && !op_linear_in(node->op, operand);
}

// Has what is made of the index poles? A lookup by the limited index may be 0.
static bool has_poles(Ends *e, ValueId value, int choice) {
  const uint64_t key[] = {(uint64_t)value, (uint64_t)choice};
  const Node *node = graph_producer(e->graph, value);
  int64_t known;
  if (!node || !choices_full(&e->choices, value, choice) || is_index(e, value, choice) || looks_up(e, node, choice)) {
    return false;
  }
  if (!map_get_bytes(&e->poles, key, sizeof key, &known)) {
    known = false;
    for (int i = 0; i < node->operand_count && !known; i++) {
      const ValueId operand = node->operands[i];
      known = (is_pole(node, i) && choices_full(&e->choices, operand, choice)) || has_poles(e, operand, choice);
    }
    map_put_bytes(&e->poles, key, sizeof key, known);
  }
  return known != 0;
}

// --- the walk ---

static void read_operands(const Ends *e, const Node *node, MadeOf *operands) {
  for (int i = 0; i < node->operand_count; i++) {
    operands[i] = choices_of(&e->choices, node->operands[i]);
  }
}

static int first_choice(const Node *node, const MadeOf *operands) {
  int choice = 0;
  for (int i = 0; i < node->operand_count && choice == 0; i++) {
    choice = operands[i].choice;
  }
  return choice;
}

// Where what stands beside values of a choice is of its index, it becomes one of them: what is added to them, since
// it is not 0; and a factor that is looked up by the index alone, which ranks have that share the places.
static bool take_in(Ends *e, NodeId id, const MadeOf *operands, int choice) {
  const Node *node = graph_node(e->graph, id);
  const bool factor = choices_infer(&e->choices, node, operands).choice == choice;
  bool any = false;
  MadeOf *with = ARENA_ARRAY(e->c->arena, MadeOf, node->operand_count + 1);
  bool *of_index = ARENA_ARRAY(e->c->arena, bool, node->operand_count + 1);
  for (int i = 0; i < node->operand_count; i++) {
    of_index[i] = !operands[i].choice && choices_full(&e->choices, node->operands[i], choice) &&
                  (!factor || op_bilinear(node->op)) && is_of_index(e, node->operands[i], choice, factor);
    with[i] = of_index[i] ? (MadeOf){choice, PADDING_ZERO} : operands[i];
    any = any || of_index[i];
  }
  if (!any || !choices_infer(&e->choices, node, with).choice) {
    return false;
  }
  graph_follow(e->graph, node);
  for (int i = 0; i < graph_node(e->graph, id)->operand_count; i++) {
    const ValueId operand = graph_node(e->graph, id)->operands[i];
    const bool poles = of_index[i] && has_poles(e, operand, choice);
    ValueId made = of_index[i] && !poles ? remade(e, operand, choice) : operand;
    // Else it is made of other choices of the token, too.
    if (of_index[i] && choices_of(&e->choices, made).choice != choice) {
      made = where_kept(e, choice, operand, 0);
      choices_note(&e->choices, graph_producer(e->graph, made));
    }
    graph_node(e->graph, id)->operands[i] = made;
  }
  return true;
}

// A gradient of what stands beside a value that may be no number there is 0 times that: the value is 0 before.
static bool mask_any(Ends *e, NodeId id, const MadeOf *operands) {
  const Node *node = graph_node(e->graph, id);
  bool beside = false, any = false;
  for (int i = 0; i < node->operand_count; i++) {
    const Node *maker = graph_producer(e->graph, node->operands[i]);
    const bool constant = maker && op_leaf(maker->op) && !op_given(maker->op);
    beside = beside || (!operands[i].choice && !constant);
    any = any || (operands[i].choice && operands[i].content == PADDING_ANY);
  }
  for (int i = 0; beside && any && i < graph_node(e->graph, id)->operand_count; i++) {
    const ValueId operand = graph_node(e->graph, id)->operands[i];
    const ValueId zero = operands[i].content == PADDING_ANY ? masked(e, operand) : operand;
    graph_node(e->graph, id)->operands[i] = zero;
  }
  return beside && any;
}

// --- poles ---

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

// Is it 0 where all choices that it is made of are left out?
static bool is_empty(Ends *e, ValueId value) {
  const MadeOf made = choices_of(&e->choices, value);
  const Node *node = graph_producer(e->graph, value);
  int64_t known;
  if (made.choice || !is_walked(node)) {
    return made.choice && made.content == PADDING_ZERO;
  }
  if (!map_get(&e->empty, (uint64_t)value, &known)) {
    PaddingContent contents[3] = {PADDING_FINITE, PADDING_FINITE, PADDING_FINITE};
    bool any = false;
    for (int i = 0; i < node->operand_count; i++) {
      contents[i] = is_empty(e, node->operands[i]) ? PADDING_ZERO : PADDING_FINITE;
      any = any || contents[i] == PADDING_ZERO;
    }
    known = op_bilinear(node->op)                           ? any
            : op_linear(node->op) || op_reduction(node->op) ? contents[0] == PADDING_ZERO
            : op_elementwise(node->op) && !op_padding_diverges(node->op) && any
                ? op_padding(node->op)->content(e->graph, node, -1, contents) == PADDING_ZERO
                : false;
    map_put(&e->empty, (uint64_t)value, known);
  }
  return known != 0;
}

static int64_t alive(Ends *e, ValueId value);

// Of an empty value of a node: what of its operands is not 0. A product is 0 where one of them is; whatever else is so
// where all are, and if of one of these nobody knows where, nobody knows of the whole.
static int64_t alive_of_operands(Ends *e, const Node *node) {
  const bool product = op_bilinear(node->op), first = op_linear(node->op) || op_reduction(node->op);
  const ValueId value = node->first_result;
  int64_t found = -1;
  for (int i = 0; i < (first ? 1 : node->operand_count); i++) {
    const bool empty = is_empty(e, node->operands[i]);
    const int64_t one = empty ? alive(e, node->operands[i]) : -1;
    if (empty && one < 0 && !product) {
      return -1;
    }
    found = one < 0 ? found : found < 0 ? one : product ? both(e, found, one) : either(e, found, one);
  }
  const bool sums = !op_elementwise(node->op) && (product || op_reduction(node->op));
  found = found >= 0 && sums ? any_along(e, (ValueId)found, node->axes) : found;
  const Shape own = found >= 0 ? graph_shape(e->graph, (ValueId)found) : (Shape){0};
  const Shape result = graph_shape(e->graph, value);
  const bool moved =
      !op_elementwise(node->op) && !sums &&
      (shape_has(&own, node->axis) || shape_has(&own, node->axis2) || shape_common(own, &node->axes).count > 0);
  return !moved && shape_contains(&result, &own) ? found : -1;
}

// A product with what an index chooses is 0 where that is left out, and where all that is multiplied is.
static int64_t alive_of_chosen(Ends *e, const Node *node, int choice) {
  const Shape summed = node->axes;
  const ValueId own = kept(e, choice);
  const int64_t given = alive(e, node->operands[0]);
  return given < 0 ? own : both(e, own, any_along(e, (ValueId)given, summed));
}

// The condition without which a value is 0 since choices that it is made of are left out; -1: it is none of that.
static int64_t alive(Ends *e, ValueId value) {
  const MadeOf made = choices_of(&e->choices, value);
  int64_t known;
  if (map_get(&e->alive, (uint64_t)value, &known) || !is_empty(e, value)) {
    return map_get_or(&e->alive, (uint64_t)value, -1);
  }
  const Node *node = graph_producer(e->graph, value);
  known = made.choice && op_chosen(node->op) ? alive_of_chosen(e, node, made.choice)
          : is_walked(node)                  ? alive_of_operands(e, node)
                                             : -1;
  known = known < 0 && made.choice ? kept(e, made.choice) : known;
  map_put(&e->alive, (uint64_t)value, known);
  return known;
}

// What is 1 where it would be 0 since choices are left out.
static ValueId one_without(Ends *e, ValueId value, int choice, int64_t condition) {
  Graph *graph = e->graph;
  int64_t one;
  if (!map_get(&e->ones, (uint64_t)value, &one)) {
    one = choice && condition == kept(e, choice)
              ? where_kept(e, choice, value, 1)
              : graph_op3(graph, OP_WHERE, (ValueId)condition, value, graph_real(graph, 1));
    choices_note(&e->choices, graph_producer(graph, (ValueId)one));
    map_put(&e->ones, (uint64_t)value, one);
  }
  return (ValueId)one;
}

// What may have a pole at 0, as a quotient or a root does, is given ones: else a gradient of what stands beside the
// choice, here or before, would be 0 times what is no number. The result is 0 there: of a choice it is masked where it
// is read as more, and else here; the condition is returned then, or -1.
static int64_t leave_poles(Ends *e, NodeId id, const MadeOf *operands, int choice) {
  int64_t without = -1;
  for (int i = 0; i < graph_node(e->graph, id)->operand_count; i++) {
    const Node *node = graph_node(e->graph, id);
    const ValueId operand = node->operands[i];
    if (!is_pole(node, i) || !element_type_floating(graph_value(e->graph, operand)->type) ||
        (operands[i].choice == choice && choices_positive(&e->choices, operand))) {
      continue;
    }
    graph_follow(e->graph, node);
    const int64_t zero = alive(e, operand);
    const int64_t condition = zero < 0 && operands[i].choice ? kept(e, operands[i].choice) : zero;
    if (condition < 0) {
      continue;
    }
    const ValueId one = one_without(e, operand, operands[i].choice, condition);
    graph_node(e->graph, id)->operands[i] = one;
    if (!choice || condition != kept(e, choice)) {
      without = without < 0 ? condition : both(e, without, condition);
    }
  }
  return without;
}

// What a product is made of, but for factors of the whole product, which may stand in front of it or behind.
static ValueId without_weights(const Graph *graph, const Node *product) {
  ValueId value = product->operands[0];
  for (const Node *node = graph_producer(graph, value); node && node->op == OP_MUL;
       node = graph_producer(graph, value)) {
    const Shape first = graph_shape(graph, node->operands[0]), second = graph_shape(graph, node->operands[1]);
    const bool has_first = shape_common(first, &product->axes).count > 0,
               has_second = shape_common(second, &product->axes).count > 0;
    if (has_first == has_second) {
      break;
    }
    value = node->operands[has_first ? 0 : 1];
  }
  return value;
}

// The condition without which its result is to be 0; -1: it is what it is.
static int64_t visit(Ends *e, NodeId id) {
  const Node *node = graph_node(e->graph, id);
  MadeOf *operands = ARENA_ARRAY(e->c->arena, MadeOf, node->operand_count + 1);
  ValueId *guarded = ARENA_ARRAY(e->c->arena, ValueId, node->operand_count + 1);
  int64_t without = -1;
  for (int i = 0; i < node->operand_count; i++) {
    const int64_t zero = map_get_or(&e->without, (uint64_t)node->operands[i], -1);
    graph_node(e->graph, id)->operands[i] = zero >= 0 ? (ValueId)zero : node->operands[i];
  }
  read_operands(e, node, operands);
  const int choice = first_choice(node, operands);
  MadeOf made = choice ? choices_infer(&e->choices, node, operands) : (MadeOf){0};
  if (choice && !op_chosen(node->op) && take_in(e, id, operands, choice)) {
    read_operands(e, graph_node(e->graph, id), operands);
    made = choices_infer(&e->choices, graph_node(e->graph, id), operands);
  }
  if (made.choice && !op_chosen(graph_node(e->graph, id)->op) && mask_any(e, id, operands)) {
    read_operands(e, graph_node(e->graph, id), operands);
  }
  memcpy(guarded, graph_node(e->graph, id)->operands,
         sizeof *guarded * (size_t)graph_node(e->graph, id)->operand_count);
  if (op_elementwise(graph_node(e->graph, id)->op)) {
    without = leave_poles(e, id, operands, made.choice);
    read_operands(e, graph_node(e->graph, id), operands);
  }
  for (int i = 0; i < graph_node(e->graph, id)->operand_count; i++) {
    const ValueId operand = graph_node(e->graph, id)->operands[i];
    const bool kept_as_is = operands[i].choice == made.choice || operand != guarded[i];
    const ValueId read = kept_as_is ? operand : masked(e, operand);
    graph_node(e->graph, id)->operands[i] = read;
  }
  node = graph_node(e->graph, id);
  if (op_chosen(node->op) && made.choice && operands[0].choice != made.choice) {
    array_push(e->c->arena, &e->given.at[made.choice - 1], without_weights(e->graph, node));
  }
  choices_note(&e->choices, node);
  return without;
}

// A result that had a pole is 0 for who reads it, where what it is made of is left out.
static void zero_without(Ends *e, NodeId id, ValueId condition) {
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
  const int64_t also = own < 0 && choice ? kept(e, (int)choice) : own;  // a quotient is 0 where what it divides is
  map_put(&e->alive, (uint64_t)zero, also < 0 ? condition : both(e, also, condition));
  map_put(&e->empty, (uint64_t)zero, true);
}

// Who compares values sees the 0, as ranks have it that share the places, and not what is never read.
static void show(Ends *e, const Node *node) {
  const ValueId value = node->first_result;
  if (e->c->values && node->result_count == 1 && graph_value(e->graph, value)->path) {
    masked(e, value);
  }
}

void limit_choices(Compilation *c, const LimitedIndices *indices) {
  Graph *graph = c->graph;
  Ends e = {.c = c, .graph = graph, .indices = indices};
  e.choices = choices_create(c->arena, graph);
  for (int i = 0; i < indices->count; i++) {
    choices_add(&e.choices, indices->at[i].limited);
    array_push(c->arena, &e.given, (ValueList){0});
  }
  Map *const maps[] = {&e.kept, &e.masked, &e.by_index, &e.remade, &e.feeds,  &e.poles,
                       &e.ones, &e.empty,  &e.alive,    &e.any_of, &e.without};
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
    *maps[i] = map_create(c->arena);
  }
  const GraphPlace place = graph_place(graph);
  const NodeList old = graph_rewrite(graph, 0);
  for (int i = 0; i < old.count; i++) {
    const int64_t without = visit(&e, old.at[i]);
    array_push(graph->arena, &graph->regions.at[0].nodes, old.at[i]);
    if (without >= 0) {
      zero_without(&e, old.at[i], (ValueId)without);
    }
    show(&e, graph_node(graph, old.at[i]));
  }
  graph_return(graph, place);
}
