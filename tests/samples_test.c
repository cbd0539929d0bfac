// samples_test.c: what samples.c claims of every op of ops.def is so: on random graphs, in double.
//
// A graph around the op is evaluated once whole, and once for each of two microbatches: some axes are then half as
// long, and a leaf is the same in both, one half in each, a sum of both, or (what is known too late, or to none)
// anything. For each value, what the microbatches have must then be what the claimed kind says. Claims that are wrong
// on purpose must be noticed.
#include <math.h>

#include "compiler/ir/samples.h"
#include "tests/gradient_draw.h"

enum { GRAPHS = 60, SLOTS = 2, MOST_AXES = 24 };

// --- generators of ops without a gradient ---

static ValueId make_compare(Draw *draw) {
  return graph_op2(draw->graph, draw->op, draw_real(draw, draw_shape(draw)), draw_real(draw, draw_shape(draw)));
}

static ValueId draw_truth(Draw *draw) {
  return draw_leaf(draw, draw_shape(draw), TYPE_BOOL, -1, -1, false);
}

static ValueId draw_whole(Draw *draw, Shape shape) {
  return draw_leaf(draw, shape, TYPE_INT, -1, 6, false);
}

static ValueId make_logic(Draw *draw) {
  const ValueId a = draw_truth(draw);
  return draw->op == OP_NOT ? graph_op1(draw->graph, OP_NOT, a) : graph_op2(draw->graph, draw->op, a, draw_truth(draw));
}

static ValueId make_whole(Draw *draw) {
  const ValueId a = draw_whole(draw, draw_shape(draw));
  return graph_op2(draw->graph, draw->op, a, draw_whole(draw, draw_shape(draw)));
}

static ValueId make_to_real(Draw *draw) {
  return graph_op1(draw->graph, OP_TO_REAL, draw_whole(draw, draw_shape(draw)));
}

static ValueId make_as_index(Draw *draw) {
  const ValueId whole = draw_whole(draw, draw_shape(draw));
  return graph_add1(draw->graph, OP_AS_INDEX, with((Shape){0}, draw_axis_of(draw, 9), -1, 0), whole);
}

static ValueId make_position(Draw *draw) {
  return graph_add0(draw->graph, OP_POSITION, with((Shape){0}, draw->axis[0], -1, 0));
}

static ValueId make_random(Draw *draw) {
  NodeInit init = with(draw_shape_with(draw, draw->axis[0]), -1, -1, 7);
  init.text = name_of(draw->graph->names, "stream");
  return graph_add1(draw->graph, draw->op, init, draw_whole(draw, (Shape){0}));
}

static ValueId make_stored(Draw *draw) {
  NodeInit init = {NODE_INIT, .text = name_of(draw->graph->names, "kept"), .shape = draw_shape(draw)};
  return graph_add0(draw->graph, draw->op, init);
}

static Generator *const generators[OP_COUNT] = {
    [OP_MOD] = make_whole,          [OP_IS_FINITE] = make_unary,   [OP_LESS] = make_compare,
    [OP_LESS_EQUAL] = make_compare, [OP_EQUAL] = make_whole,       [OP_AND] = make_logic,
    [OP_OR] = make_logic,           [OP_NOT] = make_logic,         [OP_TO_REAL] = make_to_real,
    [OP_TO_INT] = make_unary,       [OP_AS_INDEX] = make_as_index, [OP_STOP] = make_unary,
    [OP_POSITION] = make_position,  [OP_UNIFORM] = make_random,    [OP_NORMAL] = make_random,
    [OP_PARAM] = make_stored,       [OP_STATE] = make_stored,
};

// Leaves of the test itself, effects, and what gradients and formats bring.
static bool goes_without(Op op) {
  return op == OP_INPUT || op == OP_CONST || op == OP_INTEGER || op == OP_ASSIGN || op == OP_OUTPUT || op == OP_CAST ||
         op == OP_LIMIT || !samples_known(op);  // of each microbatch by itself
}

// --- one graph, whole and in two microbatches ---

typedef struct {
  Draw whole, part;
  ValueId value;
  uint32_t cut;  // axes, as bits
  SamplesTable *table;
  double **in_whole, **in_part[SLOTS];  // by value, in the order of its axes
} Case;

static Draw start(Op op, int number) {
  Arena *arena = arena_create();
  Names *names = names_create(arena);
  Draw draw = {.arena = arena, .op = op, .seed = (uint64_t)op * 7919 + (uint64_t)number};
  draw.graph = graph_create(arena, names, diag_create(arena), name_of(names, "drawn"));
  for (int i = 0; i < DRAW_AXES; i++) {
    draw.axis[i] = draw_axis(&draw);
  }
  return draw;
}

static ValueId make(Draw *draw) {
  return (recipes[draw->op].make ? recipes[draw->op].make : generators[draw->op])(draw);
}

// Do the rules for axes hold with the cut sizes?
static bool is_legal(const Graph *graph) {
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    Value *results = ARENA_ARRAY(graph->arena, Value, node->result_count + 1);
    if (!op_leaf(node->op) && op_infer((Graph *)graph, i, results)) {
      return false;
    }
  }
  return true;
}

static bool cut_axes(Case *c) {
  Graph *graph = c->part.graph;
  for (int i = 0; i < graph->axes.count; i++) {
    if (c->cut >> i & 1) {
      graph->axes.at[i].size /= SLOTS;
    }
  }
  return is_legal(graph);
}

static int elements(const Graph *graph, ValueId value) {
  return (int)graph_elements(graph, graph_shape(graph, value));
}

static double draw_value(Draw *draw, const Leaf *leaf) {
  const Recipe *recipe = &recipes[draw->op];
  if (draw->op == OP_IS_FINITE && draw_int(draw, 0, 1)) {
    return INFINITY;
  }
  return leaf->most ? draw_int(draw, 0, leaf->most < 0 ? 1 : (int)leaf->most - 1)
                    : recipe->low + (recipe->high - recipe->low + (recipe->make ? 0 : 3)) * draw_unit(draw);
}

static Samples kind_of_leaf(Case *c, const Leaf *leaf) {
  const Shape shape = graph_shape(c->part.graph, leaf->value);
  Samples of = {SAMPLES_SAME, -1, -1, NULL};
  for (int i = 0; i < shape.count; i++) {
    if (c->cut >> shape.axis[i] & 1) {
      of = (Samples){of.kind == SAMPLES_SAME ? SAMPLES_EACH : SAMPLES_MIXED, shape.axis[i], -1, "two axes"};
    }
  }
  if (of.kind == SAMPLES_SAME) {
    static const SamplesKind kinds[] = {SAMPLES_SAME, SAMPLES_SUM, SAMPLES_LATE};
    of.kind = kinds[draw_int(&c->whole, 0, 2)];
    of.kind = of.kind == SAMPLES_SUM && (leaf->most || c->whole.op == OP_IS_FINITE) ? SAMPLES_SAME : of.kind;
  }
  return of;
}

// Where element `at` of a microbatch, of a value with these axes, is in the whole.
static int whole_place(const Case *c, const Shape *shape, AxisId axis, int slot, int at) {
  int place = 0, stride = 1;
  for (int i = shape->count - 1; i >= 0; i--) {
    const int size = (int)c->part.graph->axes.at[shape->axis[i]].size;
    place += stride * (at % size + (shape->axis[i] == axis ? slot * size : 0));
    stride *= (int)c->whole.graph->axes.at[shape->axis[i]].size;
    at /= size;
  }
  return place;
}

static void fill_leaf(Case *c, int number, Samples of) {
  Leaf *leaf = &c->whole.leaf[number];
  const Shape shape = graph_shape(c->whole.graph, leaf->value);
  const int all = elements(c->whole.graph, leaf->value), some = elements(c->part.graph, leaf->value);
  leaf->data = ARENA_ARRAY(c->whole.arena, double, all + 1);
  double *parts = c->part.leaf[number].data = ARENA_ARRAY(c->part.arena, double, SLOTS *some + 1);
  for (int i = 0; i < all; i++) {
    leaf->data[i] = draw_value(&c->whole, leaf);
  }
  for (int i = 0; i < SLOTS * some; i++) {
    const int slot = i / some, at = i % some;
    parts[i] = of.kind == SAMPLES_SAME          ? leaf->data[at]
               : of.kind == SAMPLES_EACH        ? leaf->data[whole_place(c, &shape, of.axis, slot, at)]
               : of.kind == SAMPLES_SUM && slot ? leaf->data[at] - parts[at]
                                                : draw_value(&c->whole, leaf);
  }
}

static void fill(Case *c) {
  Samples *given = ARENA_ARRAY(c->part.arena, Samples, c->part.graph->values.count + 1);
  for (int i = 0; i < c->whole.leaf_count; i++) {
    const Samples of = kind_of_leaf(c, &c->part.leaf[i]);
    given[c->part.leaf[i].value] = of;
    fill_leaf(c, i, of);
  }
  c->table = samples_infer(c->part.arena, c->part.graph, SLOTS, true, given);
}

// As pass_samples does: what is the same in all microbatches is divided where it is added to a sum.
static void share(Case *c) {
  Graph *graph = c->part.graph;
  const NodeList old = graph_rewrite(graph, 0);
  for (int i = 0; i < old.count; i++) {
    const NodeId id = old.at[i];
    const bool sums = samples_of(c->table, graph_node(graph, id)->first_result).kind == SAMPLES_SUM;
    for (int j = 0; sums && j < graph_node(graph, id)->operand_count; j++) {
      const Node *node = graph_node(graph, id);
      if (samples_adds(node, j) && samples_of(c->table, node->operands[j]).kind == SAMPLES_SAME) {
        const ValueId half = graph_op2(graph, OP_MUL, node->operands[j], graph_real(graph, 1.0 / SLOTS));
        graph_node(graph, id)->operands[j] = half;
      }
    }
    array_push(graph->arena, &graph->regions.at[0].nodes, id);
  }
}

static void evaluate(Draw *draw, int slot, int count, double **out) {
  Reference *reference = reference_create(draw->arena, draw->graph);
  static const double kept[256] = {1, 2, 3, 5, 8};
  for (int i = 0; i < draw->leaf_count; i++) {
    reference_give(reference, draw->leaf[i].name, graph_shape(draw->graph, draw->leaf[i].value), draw->leaf[i].data);
  }
  if (draw->op == OP_PARAM || draw->op == OP_STATE) {
    reference_give(reference, "kept", graph_shape(draw->graph, 0), kept);
  }
  reference->slot = slot;
  if (!reference_run(reference)) {
    fail_msg("%s: %s", op_name(draw->op), reference->wrong);
  }
  for (int i = 0; i < count; i++) {
    out[i] = ARENA_ARRAY(draw->arena, double, elements(draw->graph, i) + 1);
    reference_copy(reference, &reference->values[i], graph_shape(draw->graph, i), out[i]);
  }
}

static bool near(double a, double b) {
  return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-9 * (1 + fabs(b));
}

// Is the value of the whole what the claim makes of those of the microbatches? `from`: the slot that comes first.
static bool holds(const Case *c, ValueId value, Samples of, int from) {
  const Shape shape = graph_shape(c->part.graph, value);
  const int some = elements(c->part.graph, value);
  bool good = true;
  for (int i = 0; i < some && good; i++) {
    const double *whole = c->in_whole[value];
    const double first = c->in_part[from][value][i], second = c->in_part[1 - from][value][i];
    good = of.kind == SAMPLES_SAME   ? near(first, whole[i]) && near(second, whole[i])
           : of.kind == SAMPLES_EACH ? near(first, whole[whole_place(c, &shape, of.axis, 0, i)]) &&
                                           near(second, whole[whole_place(c, &shape, of.axis, 1, i)])
           : of.kind == SAMPLES_SUM ? near(first + second, whole[i])
                                    : true;
  }
  return good;
}

typedef struct {
  int64_t claims[SAMPLES_MIXED + 1];  // by kind, of the results of the op
  int64_t controls, noticed;          // claims wrong on purpose
} Count;

// A claim that is wrong on purpose.
static bool notices(const Case *c, ValueId value, Samples of) {
  if (of.kind == SAMPLES_EACH) {
    return !holds(c, value, of, 1);
  }
  const Samples wrong = {of.kind == SAMPLES_SAME ? SAMPLES_SUM : SAMPLES_SAME, -1, -1, NULL};
  return !holds(c, value, wrong, 0);
}

static void check_case(Case *c, int number, Count *count) {
  const int values = c->whole.graph->values.count;
  fill(c);
  share(c);
  c->in_whole = ARENA_ARRAY(c->whole.arena, double *, values + 1);
  evaluate(&c->whole, 0, values, c->in_whole);
  for (int slot = 0; slot < SLOTS; slot++) {
    c->in_part[slot] = ARENA_ARRAY(c->whole.arena, double *, values + 1);
    evaluate(&c->part, slot, values, c->in_part[slot]);
  }
  for (int i = 0; i < values; i++) {
    const Samples of = samples_of(c->table, i);
    const Node *node = graph_producer(c->whole.graph, i);
    if (!node || (node->op == OP_INPUT && of.kind >= SAMPLES_LATE)) {
      continue;
    }
    if (!holds(c, i, of, 0)) {
      fail_msg("graph %d around '%s', axes cut %x: '%s' is not of kind %d", number, op_name(c->whole.op), c->cut,
               op_name(node->op), (int)of.kind);
    }
    if (node->op == c->whole.op) {
      count->claims[of.kind]++;
      count->controls += of.kind <= SAMPLES_LATE;
      count->noticed += of.kind <= SAMPLES_LATE && notices(c, i, of);
    }
  }
}

static int even_axes(const Graph *graph, AxisId *even) {
  int count = 0;
  for (int i = 0; i < graph->axes.count && i < MOST_AXES; i++) {
    if (graph->axes.at[i].size % SLOTS == 0) {
      even[count++] = i;
    }
  }
  return count;
}

// All choices of one to three axes.
static void check_graph(Op op, int number, Count *count) {
  Draw first = start(op, number);
  AxisId even[MOST_AXES];
  make(&first);
  const int evens = even_axes(first.graph, even);
  for (uint32_t choice = 1; choice < 1u << (evens < 8 ? evens : 8); choice++) {
    if (__builtin_popcount(choice) > 3) {
      continue;
    }
    Case c = {.whole = start(op, number), .part = start(op, number)};
    c.value = make(&c.whole);
    make(&c.part);
    for (int i = 0; i < evens; i++) {
      c.cut |= (choice >> i & 1) << even[i];
    }
    if (cut_axes(&c)) {
      check_case(&c, number, count);
    }
    arena_destroy(c.whole.arena);
    arena_destroy(c.part.arena);
  }
  arena_destroy(first.arena);
}

static void test_every_op(void **state) {
  (void)state;
  for (int op = 0; op < OP_COUNT; op++) {
    Count count = {0};
    if (!goes_without((Op)op) && !recipes[op].make && !generators[op]) {
      fail_msg("the op '%s' has no generator: add one here or in tests/gradient_draw.h", op_name((Op)op));
    }
    if (goes_without((Op)op)) {
      continue;
    }
    for (int i = 0; i < GRAPHS; i++) {
      check_graph((Op)op, i, &count);
    }
    const bool stored = op == OP_PARAM || op == OP_STATE;
    if (!(stored ? count.claims[SAMPLES_MIXED] : count.claims[SAMPLES_EACH])) {
      fail_msg("no result of '%s' is claimed to be of %s", op_name((Op)op), stored ? "the whole batch" : "samples");
    }
    if (!stored && !count.noticed) {
      fail_msg("'%s': none of %lld wrong claims is noticed", op_name((Op)op), (long long)count.controls);
    }
    printf("  %-12s %5lld same %5lld each %5lld sum %5lld late %5lld mixed; %lld of %lld wrong claims noticed\n",
           op_name((Op)op), (long long)count.claims[0], (long long)count.claims[1], (long long)count.claims[2],
           (long long)count.claims[3], (long long)count.claims[4], (long long)count.noticed, (long long)count.controls);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_op)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
