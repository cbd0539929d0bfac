// recurrences.c: scans become operations on all positions at once.
//
// What does not depend on what is carried is computed for all positions. A carried value of which the next is a factor
// times it plus something, both known, is solved by recurrence.c; what depends on it is known then, and may solve
// others. What is left goes position by position, with all operations of the body again for each: that is for short
// axes.
#include <math.h>
#include <string.h>

#include "compiler/rewrite/recurrence.h"

enum { MOST_STEPS = 20000 };  // operations that are written out

typedef struct {
  Compilation *c;
  Graph *graph;
  Node scan;
  Region body;
  Map replace;     // value of the body to what stands for it
  Map known;       // values that stand for themselves, and are there
  bool *done;      // by node of the body: it stands outside, or nothing needs it
  bool *solved;    // by what is carried
  const Map *all;  // replacements outside
} Unroll;

static ValueId replaced(const Map *map, ValueId value) {
  int64_t to = map_get_or(map, (uint64_t)value, -1);
  for (; to >= 0; to = map_get_or(map, (uint64_t)value, -1)) {
    value = (ValueId)to;
  }
  return value;
}

// --- what is known ---

static void collect_inside(Graph *graph, const Region *region, Map *inside) {
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(graph, region->nodes.at[i]);
    for (int r = 0; r < node->result_count; r++) {
      map_put(inside, (uint64_t)(node->first_result + r), 1);
    }
  }
  for (int i = 0; i < region->parameters.count; i++) {
    map_put(inside, (uint64_t)region->parameters.at[i], 1);
  }
}

// inside: values of the body, 1, or 2 where they are known outside.
static bool is_known(const Unroll *u, ValueId value) {
  value = replaced(&u->replace, value);
  return map_get_or(&u->known, (uint64_t)value, 2) == 2;
}

static void take_known(Unroll *u) {
  Graph *graph = u->graph;
  for (int i = 0; i < u->body.nodes.count; i++) {
    Node *node = graph_node(graph, u->body.nodes.at[i]);
    bool ready = !u->done[i];
    for (int j = 0; j < node->operand_count && ready; j++) {
      ready = is_known(u, node->operands[j]);
    }
    if (!ready) {
      continue;
    }
    for (int j = 0; j < node->operand_count; j++) {
      node->operands[j] = replaced(&u->replace, node->operands[j]);
    }
    for (int r = 0; r < node->result_count; r++) {
      map_put(&u->known, (uint64_t)(node->first_result + r), 2);
    }
    array_push(graph->arena, &graph->regions.at[graph->region].nodes, u->body.nodes.at[i]);
    u->done[i] = true;
  }
}

// --- a factor times it plus something ---

enum { MOST_FACTORS = 16 };

typedef struct {
  bool any;  // it is a part
  int count;
  ValueId factors[MOST_FACTORS];
  bool under[MOST_FACTORS];  // it divides
  ValueId added;             // -1: nothing
} Affine;

static ValueId product_of(Graph *graph, const Affine *a) {
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

static bool affine(Unroll *u, ValueId value, ValueId carried, Map *chain, Affine *a);

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
    *a = one_factor(graph_op2(graph, OP_ADD, product_of(graph, x), product_of(graph, y)), added);
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
  const ValueId one = x->any ? product_of(graph, x) : graph_real(graph, 0);
  const ValueId two = y->any ? product_of(graph, y) : graph_real(graph, 0);
  const bool added = x->added >= 0 || y->added >= 0;
  *a = one_factor(graph_op3(graph, OP_WHERE, condition, one, two),
                  added ? graph_op3(graph, OP_WHERE, condition, added_or(graph, x), added_or(graph, y)) : -1);
  return true;
}

static bool affine_both(Unroll *u, const Node *node, int first, ValueId carried, Map *chain, Affine *x, Affine *y) {
  return affine(u, node->operands[first], carried, chain, x) && affine(u, node->operands[first + 1], carried, chain, y);
}

// In terms of a carried value; false if it is anything else, or made of what is not known. chain: nodes on the way.
static bool affine(Unroll *u, ValueId value, ValueId carried, Map *chain, Affine *a) {
  Graph *graph = u->graph;
  *a = (Affine){.added = -1};
  if (value == carried) {
    a->any = true;
    return true;
  }
  if (is_known(u, value)) {
    a->added = replaced(&u->replace, value);
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
      return is_known(u, node.operands[0]) && affine_both(u, &node, 1, carried, chain, &x, &y) &&
             affine_choice(u, replaced(&u->replace, node.operands[0]), &x, &y, a);
    case OP_BROADCAST:
      return affine(u, node.operands[0], carried, chain, a);
    case OP_NEG:
      if (!affine(u, node.operands[0], carried, chain, a)) {
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

static Decay decay_of(Graph *graph, const Affine *a) {
  enum { DEPTH = 8 };
  ValueId sum = graph_real(graph, 0);
  for (int i = 0; i < a->count; i++) {
    const ValueId one = log_of(graph, a->factors[i], DEPTH);
    if (one < 0) {
      return (Decay){product_of(graph, a), false};
    }
    sum = i == 0 && !a->under[i] ? one : graph_op2(graph, a->under[i] ? OP_SUB : OP_ADD, sum, one);
  }
  return (Decay){sum, true};
}

// --- what is read of the states alone ---

// Factors of a product, those with any of these axes, and the others; false if there is none with any. -1: none.
static bool factors_of(Graph *graph, ValueId value, const Shape *over, Reading *r, int depth) {
  const Shape shape = graph_shape(graph, value), common = shape_common(shape, over);
  const Node *node = graph_producer(graph, value);
  if (common.count > 0 && node && node->op == OP_MUL && depth > 0) {
    const ValueId a = node->operands[0], b = node->operands[1];
    return factors_of(graph, a, over, r, depth - 1) && factors_of(graph, b, over, r, depth - 1);
  }
  ValueId *to = common.count > 0 ? &r->along : &r->what;
  *to = *to < 0 ? value : graph_op2(graph, OP_MUL, *to, value);
  return true;
}

static bool used_outside(const Unroll *u, ValueId value) {
  const Graph *graph = u->graph;
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    for (int j = 0; j < node->operand_count; j++) {
      if (node->operands[j] == value) {
        return true;
      }
    }
  }
  return false;
}

static bool reads(const Node *node, ValueId value) {
  bool any = false;
  for (int i = 0; i < node->operand_count; i++) {
    any = any || node->operands[i] == value;
  }
  return any;
}

// Whether what lies between a carried value and what comes out of it is seen otherwise too.
static bool seen_between(const Unroll *u, ValueId before, ValueId after, const Map *chain) {
  Map between = map_create(u->c->arena);
  map_put(&between, (uint64_t)before, 1);
  for (int i = 0; i < u->body.nodes.count; i++) {
    const NodeId id = u->body.nodes.at[i];
    const Node *node = graph_node(u->graph, id);
    if (map_get_or(chain, (uint64_t)id, 0)) {
      map_put(&between, (uint64_t)node->first_result, node->first_result != after);
      continue;
    }
    for (int j = 0; j < node->operand_count; j++) {
      if (map_get_or(&between, (uint64_t)node->operands[j], 0)) {
        return true;
      }
    }
  }
  for (int i = 0; i < u->body.results.count; i++) {
    if (map_get_or(&between, (uint64_t)u->body.results.at[i], 0)) {
      return true;
    }
  }
  return false;
}

// The state is seen by products with what is known alone: instead of it they are made. False: it is wanted itself.
static bool read_states(Unroll *u, const Recurrence *r, ValueId before, ValueId after, int number, const Map *chain) {
  enum { MOST = 16, DEPTH = 8 };
  Graph *graph = u->graph;
  Reading readings[MOST];
  NodeId nodes[MOST];
  int count = 0;
  if (used_outside(u, u->scan.first_result + number) || seen_between(u, before, after, chain)) {
    return false;
  }
  for (int i = 0; i < u->body.nodes.count; i++) {
    const NodeId id = u->body.nodes.at[i];
    const Node node = *graph_node(graph, id);
    if (!reads(&node, after)) {
      continue;
    }
    if (node.op != OP_DOT || count == MOST) {
      return false;
    }
    const ValueId by = node.operands[node.operands[0] == after];
    readings[count] = (Reading){.by = replaced(&u->replace, by), .what = -1, .along = -1, .over = node.axes};
    if (by == after || !is_known(u, by) || !factors_of(graph, r->added, &node.axes, &readings[count], DEPTH) ||
        readings[count].along < 0 || !recurrence_may_read(r, &readings[count])) {
      return false;
    }
    nodes[count++] = id;
  }
  for (int i = 0; i < count; i++) {
    const Node node = *graph_node(graph, nodes[i]);
    graph_follow(graph, &node);
    const Shape shape = graph_shape(graph, node.first_result);
    ValueId read = recurrence_read(r, &readings[i]);
    const Shape has = graph_shape(graph, read);
    if (!shape_same_set(&has, &shape)) {
      read = graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = shape}, read);
    }
    graph_value(graph, read)->name = graph_value(graph, node.first_result)->name;
    graph_value(graph, read)->label = graph_value(graph, node.first_result)->label;
    map_put(&u->replace, (uint64_t)node.first_result, read);
    for (int j = 0; j < u->body.nodes.count; j++) {
      u->done[j] = u->done[j] || u->body.nodes.at[j] == nodes[i];
    }
  }
  return true;
}

// --- one carried value ---

static ValueId initial_of(const Unroll *u, int number) {
  const ValueId value = replaced(u->all, u->scan.operands[number]);
  const Node *node = graph_producer(u->graph, value);
  return node && node->op == OP_CONST && node->number == 0 ? -1 : value;
}

static void finish_chain(Unroll *u, const Map *chain) {
  for (int i = 0; i < u->body.nodes.count; i++) {
    u->done[i] = u->done[i] || map_get_or(chain, (uint64_t)u->body.nodes.at[i], 0) != 0;
  }
}

static bool solve(Unroll *u, int number) {
  Graph *graph = u->graph;
  const ValueId before = u->body.parameters.at[number], after = u->body.results.at[number];
  const int mark = graph->regions.at[graph->region].nodes.count;
  Map chain = map_create(u->c->arena);
  Affine a;
  graph_follow(graph, graph_producer(graph, after));
  if (is_known(u, before) || !affine(u, after, before, &chain, &a)) {
    graph->regions.at[graph->region].nodes.count = mark;
    return false;
  }
  const Decay decay = a.any ? decay_of(graph, &a) : (Decay){graph_real(graph, 0), false};
  Recurrence r = {graph, u->scan.axis, decay, a.added, graph_shape(graph, after)};
  const ValueId initial = initial_of(u, number);
  if (initial < 0 && a.added >= 0 && a.any && read_states(u, &r, before, after, number, &chain)) {
    finish_chain(u, &chain);
    return true;
  }
  if (initial >= 0 && a.any) {  // it is a part of what the first position adds
    const ValueId place = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = u->scan.axis});
    const ValueId first = graph_op2(graph, OP_EQUAL, place, graph_integer(graph, 0));
    const ValueId left = graph_op2(graph, OP_MUL, product_of(graph, &a), initial);
    const ValueId also = graph_op3(graph, OP_WHERE, first, left, graph_real(graph, 0));
    r.added = r.added < 0 ? also : graph_op2(graph, OP_ADD, r.added, also);
  }
  r.added = r.added < 0 ? graph_real(graph, 0) : r.added;
  const Value was = *graph_value(graph, after);
  ValueId states = a.any ? recurrence_states(&r) : r.added;
  const Shape has = graph_shape(graph, states);
  if (!shape_same_set(&has, &r.all)) {
    states = graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = r.all}, states);
  }
  graph_value(graph, states)->name = was.name;
  graph_value(graph, states)->label = was.label;
  const ValueId handed = recurrence_before(graph, states, u->scan.axis, initial);
  map_put(&u->replace, (uint64_t)after, states);
  map_put(&u->replace, (uint64_t)before, handed);
  return true;
}

// --- position by position ---

// The value at each position of the axis: by halves, so that gradients are not sums of as many whole values.
static void take_apart(Graph *graph, ValueId x, AxisId axis, int64_t first, ValueId *out) {
  const int64_t size = graph->axes.at[axis].size, half = size / 2;
  if (size == 1) {
    out[first] = graph_add1(graph, OP_SLICE, (NodeInit){NODE_INIT, .axis = axis}, x);
    return;
  }
  for (int side = 0; side < 2; side++) {
    const int64_t length = side ? size - half : half;
    const AxisId part =
        graph_axis(graph, name_format(graph->names, "%s.%lld", graph->axes.at[axis].name, (long long)length), length);
    const NodeInit init = {NODE_INIT, .axis = axis, .axis2 = part, .integer = side ? half : 0};
    take_apart(graph, graph_add1(graph, OP_SLICE, init, x), part, first + (side ? half : 0), out);
  }
}

static ValueId put_together(Graph *graph, const ValueId *parts, int64_t count, AxisId axis, Name word) {
  if (count == 1) {
    return graph_add1(graph, OP_PAD, (NodeInit){NODE_INIT, .axis2 = axis}, parts[0]);
  }
  const int64_t half = count / 2;
  const AxisId a = graph_axis(graph, name_format(graph->names, "%s.%lld", word, (long long)half), half);
  const AxisId b =
      graph_axis(graph, name_format(graph->names, "%s.%lld", word, (long long)(count - half)), count - half);
  const ValueId sides[2] = {put_together(graph, parts, half, a, word),
                            put_together(graph, parts + half, count - half, b, word)};
  const Shape axes = {2, {a, b}};
  return graph_add(graph, OP_CONCAT, (NodeInit){NODE_INIT, .axes = axes, .axis2 = axis}, sides, 2);
}

static ValueId *apart(Unroll *u, Map *parts, ValueId value) {
  const AxisId axis = u->scan.axis;
  const int64_t size = u->graph->axes.at[axis].size, known = map_get_or(parts, (uint64_t)value, 0);
  if (known) {
    return (ValueId *)(intptr_t)known;
  }
  ValueId *all = ARENA_ARRAY(u->c->arena, ValueId, size);
  const Shape shape = graph_shape(u->graph, value);
  for (int64_t t = 0; t < size; t++) {
    all[t] = value;
  }
  if (shape_has(&shape, axis)) {
    take_apart(u->graph, value, axis, 0, all);
  }
  map_put(parts, (uint64_t)value, (int64_t)(intptr_t)all);
  return all;
}

static void infer_again(Graph *graph, NodeId id, AxisId axis) {
  Node *node = graph_node(graph, id);
  if (node->op == OP_BROADCAST) {
    shape_remove(&node->axes, axis);
  }
  Value inferred[1] = {*graph_value(graph, node->first_result)};
  const char *wrong = op_infer(graph, id, inferred);
  if (wrong) {
    diag_error(graph->diag, E099, node->span, "the compiler built a wrong '%s': %s", op_name(node->op), wrong);
  }
  graph_value(graph, node->first_result)->shape = inferred[0].shape;
}

static bool too_long(Unroll *u, int left) {
  const AxisId axis = u->scan.axis;
  const int64_t size = u->graph->axes.at[axis].size;
  if (left * size <= MOST_STEPS) {
    return false;
  }
  Span span = u->scan.span;
  for (int i = 0; i < u->body.parameters.count; i++) {
    if (!u->solved[i]) {
      span = graph_value(u->graph, u->body.results.at[i])->span;
      break;
    }
  }
  Diagnostic *error =
      diag_error(u->c->diag, E070, span, "this version cannot run this scan over %lld positions", (long long)size);
  diag_label(u->c->diag, error, "not a factor times what is carried plus something");
  diag_help(u->c->diag, error,
            "what goes position by position is written out: %d operations here, and %d for all positions of '%s' are "
            "the most",
            left, MOST_STEPS, u->graph->axes.at[axis].name);
  return true;
}

static ValueId with_shape(Graph *graph, ValueId value, const Shape *shape) {
  const Shape has = graph_shape(graph, value);
  return shape_same_set(&has, shape) ? value
                                     : graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = *shape}, value);
}

// All that is left of the body, at position t.
static void step(Unroll *u, Map *parts, Map *now, int64_t t) {
  Graph *graph = u->graph;
  for (int i = 0; i < u->body.nodes.count; i++) {
    const NodeId id = u->body.nodes.at[i];
    const Node node = *graph_node(graph, id);
    if (u->done[i]) {
      continue;
    }
    ValueId *operands = ARENA_ARRAY(graph->arena, ValueId, node.operand_count + 1);
    for (int j = 0; j < node.operand_count; j++) {
      const ValueId value = replaced(&u->replace, node.operands[j]);
      operands[j] = is_known(u, value) ? apart(u, parts, value)[t] : (ValueId)map_get_or(now, (uint64_t)value, -1);
    }
    graph_follow(graph, &node);
    const NodeId made = graph_clone(graph, id, operands);
    infer_again(graph, made, u->scan.axis);
    map_put(now, (uint64_t)node.first_result, graph_node(graph, made)->first_result);
  }
}

static void hand_on(Unroll *u, Map *now) {
  const int count = u->body.parameters.count;
  ValueId *next = ARENA_ARRAY(u->c->arena, ValueId, count);
  for (int i = 0; i < count; i++) {
    const ValueId after = u->body.results.at[i];
    next[i] = is_known(u, after) ? -1 : (ValueId)map_get_or(now, (uint64_t)after, -1);
  }
  for (int i = 0; i < count; i++) {
    if (!u->solved[i]) {
      map_put(now, (uint64_t)u->body.parameters.at[i], next[i]);
    }
  }
}

// Whether a result of the body is made position by position.
static bool is_stepped(const Unroll *u, int result) {
  return !is_known(u, u->body.results.at[result]) && (result >= u->body.parameters.count || !u->solved[result]);
}

static void finish_result(Unroll *u, int result, const ValueId *parts, int64_t size) {
  Graph *graph = u->graph;
  const AxisId axis = u->scan.axis;
  const ValueId value = u->body.results.at[result];
  const Value was = *graph_value(graph, value);
  const ValueId made = put_together(graph, parts, size, axis, graph->axes.at[axis].name);
  graph_value(graph, made)->name = was.name;
  graph_value(graph, made)->label = was.label;
  map_put(&u->replace, (uint64_t)value, made);
}

static bool step_by_step(Unroll *u) {
  Graph *graph = u->graph;
  const int64_t size = graph->axes.at[u->scan.axis].size;
  Map parts = map_create(u->c->arena);
  int left = 0;
  for (int i = 0; i < u->body.nodes.count; i++) {
    left += !u->done[i];
  }
  bool any = left > 0;
  for (int i = 0; i < u->body.results.count; i++) {
    any = any || is_stepped(u, i);
  }
  if (!any) {
    return true;
  }
  if (too_long(u, left)) {
    return false;
  }
  for (int i = 0; i < u->body.nodes.count; i++) {  // what is known, one position at a time
    const Node *node = graph_node(graph, u->body.nodes.at[i]);
    const int count = u->done[i] ? 0 : node->operand_count;
    graph_follow(graph, node);
    for (int j = 0; j < count; j++) {
      const ValueId operand = graph_node(graph, u->body.nodes.at[i])->operands[j];
      if (is_known(u, operand)) {
        apart(u, &parts, replaced(&u->replace, operand));
      }
    }
  }
  Map now = map_create(u->c->arena);
  for (int i = 0; i < u->body.parameters.count; i++) {
    if (!u->solved[i]) {
      Shape shape = graph_shape(graph, u->body.parameters.at[i]);
      shape_remove(&shape, u->scan.axis);
      const ValueId first = with_shape(graph, replaced(u->all, u->scan.operands[i]), &shape);
      map_put(&now, (uint64_t)u->body.parameters.at[i], first);
    }
  }
  ValueId **made = ARENA_ARRAY(u->c->arena, ValueId *, u->body.results.count);
  for (int i = 0; i < u->body.results.count; i++) {
    made[i] = is_stepped(u, i) ? ARENA_ARRAY(u->c->arena, ValueId, size) : NULL;
  }
  for (int64_t t = 0; t < size; t++) {
    step(u, &parts, &now, t);
    for (int i = 0; i < u->body.results.count; i++) {
      if (made[i]) {
        made[i][t] = (ValueId)map_get_or(&now, (uint64_t)u->body.results.at[i], -1);
      }
    }
    hand_on(u, &now);
  }
  for (int i = 0; i < u->body.results.count; i++) {
    if (made[i]) {
      finish_result(u, i, made[i], size);
    }
  }
  memset(u->done, true, sizeof *u->done * (size_t)u->body.nodes.count);
  return true;
}

// --- the pass ---

// Composites are dissolved: what is carried may go through them.
static void flatten(Unroll *u, const Region *from, NodeList *nodes) {
  Graph *graph = u->graph;
  for (int i = 0; i < from->nodes.count; i++) {
    const NodeId id = from->nodes.at[i];
    const Node node = *graph_node(graph, id);
    for (int j = 0; j < node.operand_count; j++) {
      node.operands[j] = replaced(&u->replace, replaced(u->all, node.operands[j]));
    }
    if (node.op != OP_COMPOSITE) {
      array_push(graph->arena, nodes, id);
      continue;
    }
    const Region body = graph->regions.at[node.region];
    for (int p = 0; p < body.parameters.count; p++) {
      map_put(&u->replace, (uint64_t)body.parameters.at[p], node.operands[p]);
    }
    flatten(u, &body, nodes);
    for (int r = 0; r < node.result_count; r++) {
      map_put(&u->replace, (uint64_t)(node.first_result + r), replaced(&u->replace, body.results.at[r]));
    }
  }
}

static bool unroll(Compilation *c, NodeId id, Map *all) {
  Graph *graph = c->graph;
  Unroll u = {.c = c, .graph = graph, .scan = *graph_node(graph, id), .all = all};
  const Region region = graph->regions.at[u.scan.region];
  u.replace = map_create(c->arena);
  u.known = map_create(c->arena);
  u.body.parameters = region.parameters;
  flatten(&u, &region, &u.body.nodes);
  for (int i = 0; i < region.results.count; i++) {
    array_push(c->arena, &u.body.results, replaced(&u.replace, replaced(all, region.results.at[i])));
  }
  u.done = ARENA_ARRAY(c->arena, bool, u.body.nodes.count + 1);
  u.solved = ARENA_ARRAY(c->arena, bool, u.body.parameters.count + 1);
  collect_inside(graph, &u.body, &u.known);
  take_known(&u);
  for (int i = 0; i < u.body.parameters.count; i++) {
    if (!u.solved[i] && solve(&u, i)) {
      u.solved[i] = true;
      take_known(&u);
      i = -1;  // what it was read by may be solved now
    }
  }
  if (!step_by_step(&u)) {
    return false;
  }
  for (int i = 0; i < u.scan.result_count; i++) {
    map_put(all, (uint64_t)(u.scan.first_result + i), replaced(&u.replace, u.body.results.at[i]));
  }
  return true;
}

static bool any_scan(const Graph *graph, const NodeList *nodes) {
  bool any = false;
  for (int i = 0; i < nodes->count; i++) {
    any = any || graph_node(graph, nodes->at[i])->op == OP_SCAN;
  }
  return any;
}

bool pass_recurrences(Compilation *c) {
  Graph *graph = c->graph;
  if (!any_scan(graph, &graph->regions.at[0].nodes)) {
    return true;
  }
  const GraphPlace place = graph_place(graph);
  Map all = map_create(c->arena);
  bool right = true;
  const NodeList old = graph_rewrite(graph, 0);
  for (int i = 0; i < old.count && right; i++) {
    const Node node = *graph_node(graph, old.at[i]);
    for (int j = 0; j < node.operand_count; j++) {
      node.operands[j] = replaced(&all, node.operands[j]);
    }
    if (node.op == OP_SCAN) {
      right = unroll(c, old.at[i], &all);
    } else {
      array_push(c->arena, &graph->regions.at[0].nodes, old.at[i]);
    }
  }
  graph_return(graph, place);
  graph_remove_dead(graph);
  return right;
}
