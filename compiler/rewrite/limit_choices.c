// limit_choices.c: what is made of a choice that a capacity leaves out adds nothing.
//
// Its products are 0, since its index is outside (limit.c). What a text makes of these need not be: biases are added,
// functions are not 0 at 0. A lookup by the same index, such as the bias of an expert, becomes one by the limited
// index: it is 0 where the products are, and stands in rows and on the ranks where they do. Whatever else makes a value
// that is not surely 0: who reads it as something else than one choice (choices.h) reads where(it is not left out,
// value, 0) instead. What may have a pole at 0, such as a quotient, a root or a logarithm, is given 1 where its operand
// is 0 since a choice, or all choices that it is made of, are left out, and is 0 for who reads it. So the graph itself
// says what every layout computes, and gradients follow from it.
#include <string.h>

#include "compiler/rewrite/limit_ends.h"

static const LimitedIndex *index_of(const Ends *e, int choice) {
  return &e->indices->at[choice - 1];
}

// --- zeros ---

ValueId limit_kept(Ends *e, int choice) {
  int64_t known;
  if (!map_get(&e->kept, (uint64_t)choice, &known)) {
    known = graph_op2(e->graph, OP_LESS_EQUAL, graph_integer(e->graph, 0), index_of(e, choice)->limited);
    choices_note(&e->choices, graph_producer(e->graph, (ValueId)known));
    map_put(&e->kept, (uint64_t)choice, known);
  }
  return (ValueId)known;
}

ValueId limit_where_kept(Ends *e, int choice, ValueId value, int64_t otherwise) {
  Graph *graph = e->graph;
  const Value from = *graph_value(graph, value);
  const ValueId condition = limit_kept(e, choice);
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
  ValueId zero = limit_where_kept(e, made.choice, value, 0);
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
  const ValueId made = same ? index_of(e, choice)->limited : limit_where_kept(e, choice, value, -1);
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
      known = (limit_is_pole(node, i) && choices_full(&e->choices, operand, choice)) || has_poles(e, operand, choice);
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
      made = limit_where_kept(e, choice, operand, 0);
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

// A composite, such as attention with queries that are made of a choice, makes of it what its body does. What may be no
// number there is 0 before: a gradient of what stands beside it is 0 times that.
static void visit_composite(Ends *e, NodeId id) {
  const Node *node = graph_node(e->graph, id);
  choices_note(&e->choices, node);
  const int choice = choices_of(&e->choices, node->first_result).choice;
  graph_follow(e->graph, node);
  for (int i = 0; i < graph_node(e->graph, id)->operand_count; i++) {
    const ValueId operand = graph_node(e->graph, id)->operands[i];
    const MadeOf made = choices_of(&e->choices, operand);
    const ValueId read = made.choice == choice && made.content != PADDING_ANY ? operand : masked(e, operand);
    graph_node(e->graph, id)->operands[i] = read;
  }
  choices_note(&e->choices, graph_node(e->graph, id));
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
  if (node->op == OP_COMPOSITE) {
    visit_composite(e, id);
    return -1;
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
    without = limit_leave_poles(e, id, operands, made.choice);
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
  Map *const maps[] = {&e.kept, &e.masked, &e.by_index, &e.remade, &e.feeds,   &e.poles,
                       &e.ones, &e.empty,  &e.alive,    &e.any_of, &e.without, &e.numbers};
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
    *maps[i] = map_create(c->arena);
  }
  const GraphPlace place = graph_place(graph);
  const NodeList old = graph_rewrite(graph, 0);
  for (int i = 0; i < old.count; i++) {
    const int64_t without = visit(&e, old.at[i]);
    array_push(graph->arena, &graph->regions.at[0].nodes, old.at[i]);
    if (without >= 0) {
      limit_zero_without(&e, old.at[i], (ValueId)without);
    }
    show(&e, graph_node(graph, old.at[i]));
  }
  graph_return(graph, place);
}
