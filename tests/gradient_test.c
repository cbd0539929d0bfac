// gradient_test.c: the gradient of every op of ops.def against central differences, on random graphs, in double.
#include "tests/gradient_draw.h"

#include <math.h>

#include "compiler/ir/verify.h"

enum { GRAPHS = 24, MOST_ELEMENTS = 4096 };
static const double step = 1e-6, absolute = 1e-5, relative = 1e-3;

typedef struct {  // gradients of all elements of all wanted leaves of one graph
  int count;
  double found[MOST_ELEMENTS], expected[MOST_ELEMENTS];
  int leaf[MOST_ELEMENTS];
} Comparison;

static int leaf_elements(const Draw *draw, int leaf) {
  return (int)graph_elements(draw->graph, graph_shape(draw->graph, draw->leaf[leaf].value));
}

// Distinct real values between low and high, none within 1e-3 of 0; integers between -1 and one too many.
static void fill_leaves(Draw *draw, double low, double high) {
  int total = 0, at = 0, order[MOST_ELEMENTS];
  for (int i = 0; i < draw->leaf_count; i++) {
    total += draw->leaf[i].most ? 0 : leaf_elements(draw, i);
  }
  assert_true(total < MOST_ELEMENTS);
  for (int i = 0; i < total; i++) {
    int j = draw_int(draw, 0, i);
    order[i] = order[j];
    order[j] = i;
  }
  for (int i = 0; i < draw->leaf_count; i++) {
    Leaf *leaf = &draw->leaf[i];
    leaf->data = ARENA_ARRAY(draw->arena, double, leaf_elements(draw, i) + 1);
    for (int j = 0; j < leaf_elements(draw, i); j++) {
      if (leaf->most < 0) {
        leaf->data[j] = draw_int(draw, 0, 1);
      } else if (leaf->most > 0) {
        leaf->data[j] = draw_int(draw, draw_int(draw, -1, 0), (int)leaf->most - draw_int(draw, 0, 1));
      } else {
        double x = low + (high - low) * (order[at++] + 0.25 + 0.5 * draw_unit(draw)) / total;
        leaf->data[j] = fabs(x) < 1e-3 ? 1e-3 : x;
      }
    }
  }
}

static double evaluate(Reference *reference, ValueId value) {
  if (!reference_run(reference)) {
    fail_msg("%s", reference->wrong);
  }
  return reference->values[value].data[0];
}

// The loss: the sum of `value` with random weights, which is better than a plain sum, that hides permutations.
static ValueId weigh(Draw *draw, ValueId value) {
  Shape shape = graph_shape(draw->graph, value);
  ValueId weights = draw_leaf(draw, shape, TYPE_REAL, -1, 0, false);
  return graph_sum(draw->graph, graph_op2(draw->graph, OP_MUL, value, weights), shape);
}

static void differentiate(Draw *draw, ValueId loss, ValueId *gradient) {
  Graph *graph = draw->graph;
  NodeList nodes = graph->regions.at[0].nodes;
  ValueId wanted[DRAW_MOST_LEAVES];
  int count = 0;
  for (int i = 0; i < draw->leaf_count; i++) {
    if (draw->leaf[i].wanted) {
      wanted[count++] = draw->leaf[i].value;
    }
  }
  Backward *backward = backward_create(graph, nodes.at, nodes.count, wanted, count);
  backward_add(backward, loss, graph_real(graph, 1));
  backward_run(backward);
  for (int i = 0; i < draw->leaf_count; i++) {
    gradient[i] = draw->leaf[i].wanted ? backward_gradient(backward, draw->leaf[i].value) : -1;
  }
}

static void compare(Draw *draw, ValueId loss, const ValueId *gradient, Comparison *out) {
  Reference *reference = reference_create(draw->arena, draw->graph);
  for (int i = 0; i < draw->leaf_count; i++) {
    reference_give(reference, draw->leaf[i].name, graph_shape(draw->graph, draw->leaf[i].value), draw->leaf[i].data);
  }
  evaluate(reference, loss);
  out->count = 0;
  for (int i = 0; i < draw->leaf_count; i++) {
    if (!draw->leaf[i].wanted) {
      continue;
    }
    Shape shape = graph_shape(draw->graph, draw->leaf[i].value);
    if (gradient[i] >= 0) {
      Shape of_gradient = graph_shape(draw->graph, gradient[i]);
      assert_true(shape_same_set(&shape, &of_gradient));
    }
    Tensor of = gradient[i] < 0 ? (Tensor){0} : reference->values[gradient[i]];
    double *ordered = ARENA_ARRAY(draw->arena, double, leaf_elements(draw, i) + 1);
    reference_copy(reference, &of, shape, ordered);
    for (int j = 0; j < leaf_elements(draw, i); j++) {
      out->leaf[out->count] = i;
      out->found[out->count++] = ordered[j];
    }
  }
  for (int i = 0, at = 0; i < draw->leaf_count; i++) {
    for (int j = 0; draw->leaf[i].wanted && j < leaf_elements(draw, i); j++) {
      double *x = &draw->leaf[i].data[j], kept = *x;
      *x = kept + step;
      double above = evaluate(reference, loss);
      *x = kept - step;
      out->expected[at++] = (above - evaluate(reference, loss)) / (2 * step);
      *x = kept;
    }
  }
}

static bool close_enough(double found, double expected) {
  return fabs(found - expected) <= absolute + relative * fabs(expected);
}

static int first_wrong(const Comparison *comparison) {
  int at = 0;
  while (at < comparison->count && close_enough(comparison->found[at], comparison->expected[at])) {
    at++;
  }
  return at;
}

// How many elements differ by more than is allowed, with the found gradients scaled, or those of one leaf left out.
static int wrong_elements(const Comparison *comparison, double factor, int dropped) {
  int wrong = 0;
  for (int i = 0; i < comparison->count; i++) {
    double found = comparison->leaf[i] == dropped ? 0 : comparison->found[i] * factor;
    wrong += !close_enough(found, comparison->expected[i]);
  }
  return wrong;
}

static double largest(const Comparison *comparison, int leaf) {
  double most = 0;
  for (int i = 0; i < comparison->count; i++) {
    if (leaf < 0 || comparison->leaf[i] == leaf) {
      most = fabs(comparison->expected[i]) > most ? fabs(comparison->expected[i]) : most;
    }
  }
  return most;
}

static Draw draw_create(Op op, int number) {
  Arena *arena = arena_create();
  Names *names = names_create(arena);
  Draw draw = {.arena = arena, .op = op, .seed = (uint64_t)op * 1000 + (uint64_t)number};
  draw.graph = graph_create(arena, names, diag_create(arena), name_of(names, "drawn"));
  for (int i = 0; i < DRAW_AXES; i++) {
    draw.axis[i] = draw_axis(&draw);
  }
  return draw;
}

// One graph around an op. Returns whether its gradients are large enough for the negative controls, which then must
// find a gradient that is 1% too large, and one that is missing.
static bool check_graph(Op op, int number) {
  const Recipe *recipe = &recipes[op];
  static Comparison comparison;
  Draw draw = draw_create(op, number);
  ValueId gradient[DRAW_MOST_LEAVES], loss = weigh(&draw, recipe->make(&draw));
  differentiate(&draw, loss, gradient);
  fill_leaves(&draw, recipe->low, recipe->high);
  if (!graph_verify(draw.graph, draw.graph->diag, "the gradient")) {
    fail_msg("'%s', graph %d: %s", op_name(op), number, draw.graph->diag->all.at[0].message);
  }
  compare(&draw, loss, gradient, &comparison);
  if (wrong_elements(&comparison, 1, -1)) {
    int at = first_wrong(&comparison);
    fail_msg("the gradient of '%s' is wrong in graph %d: %d of %d elements, e.g. found %g, expected %g", op_name(op),
             number, wrong_elements(&comparison, 1, -1), comparison.count, comparison.found[at],
             comparison.expected[at]);
  }
  bool large = largest(&comparison, -1) > 0.05;
  if (large && !wrong_elements(&comparison, 1.01, -1)) {
    fail_msg("the gradient check of '%s' does not see one that is 1%% too large", op_name(op));
  }
  for (int i = 0; i < draw.leaf_count; i++) {
    if (largest(&comparison, i) > 0.05 && !wrong_elements(&comparison, 1, i)) {
      fail_msg("the gradient check of '%s' does not see that one is missing", op_name(op));
    }
  }
  arena_destroy(draw.arena);
  return large;
}

static void test_every_op(void **state) {
  (void)state;
  for (int op = 0; op < OP_COUNT; op++) {
    const Recipe *recipe = &recipes[op];
    bool none = gradient_rules[op] == gradient_rules[OP_INPUT];
    if (!recipe->make && !recipe->without) {
      fail_msg("the op '%s' has no entry in tests/gradient_draw.h: add a generator", op_name((Op)op));
    }
    if (none != (recipe->without || recipe->flat)) {
      fail_msg("the op '%s' %s a gradient rule: its entry in tests/gradient_draw.h says otherwise", op_name((Op)op),
               none ? "does not have" : "has");
    }
    int controlled = 0;
    for (int i = 0; recipe->make && i < GRAPHS; i++) {
      controlled += check_graph((Op)op, i);
    }
    if (recipe->make && !recipe->flat && controlled < GRAPHS / 2) {
      fail_msg("'%s': only %d of %d graphs have gradients that could be wrong", op_name((Op)op), controlled, GRAPHS);
    }
  }
}

// Rules that are wrong on purpose: the check must see each of them.
static ValueId twice_counted(Draw *draw, ValueId gradient) {
  return graph_op2(draw->graph, OP_ADD, gradient, gradient);
}

static ValueId opposite(Draw *draw, ValueId gradient) {
  return graph_op1(draw->graph, OP_NEG, gradient);
}

static void test_wrong_gradients_are_seen(void **state) {
  (void)state;
  ValueId (*const mistakes[])(Draw *, ValueId) = {twice_counted, opposite};
  static Comparison comparison;
  for (int op = 0; op < OP_COUNT; op++) {
    for (int mistake = 0; recipes[op].make && !recipes[op].flat && mistake < 2; mistake++) {
      int seen = 0;
      for (int i = 0; i < 4; i++) {
        Draw draw = draw_create((Op)op, i);
        ValueId gradient[DRAW_MOST_LEAVES], loss = weigh(&draw, recipes[op].make(&draw));
        differentiate(&draw, loss, gradient);
        fill_leaves(&draw, recipes[op].low, recipes[op].high);
        int first = draw.leaf[0].wanted ? 0 : 1;
        gradient[first] = gradient[first] < 0 ? -1 : mistakes[mistake](&draw, gradient[first]);
        compare(&draw, loss, gradient, &comparison);
        seen += wrong_elements(&comparison, 1, -1) > 0;
        arena_destroy(draw.arena);
      }
      if (!seen) {
        fail_msg("'%s': a wrong gradient is not seen", op_name((Op)op));
      }
    }
  }
}

static void test_nothing_flows_through_stop(void **state) {
  (void)state;
  Draw draw = draw_create(OP_STOP, 0);
  ValueId a = draw_real(&draw, draw_shape(&draw)), gradient[DRAW_MOST_LEAVES];
  ValueId loss = weigh(&draw, graph_op2(draw.graph, OP_MUL, a, graph_op1(draw.graph, OP_STOP, a)));
  differentiate(&draw, loss, gradient);
  fill_leaves(&draw, 1, 2);
  static Comparison comparison;
  compare(&draw, loss, gradient, &comparison);
  for (int i = 0; i < comparison.count; i++) {  // of a * stop(a): half of that of a * a
    assert_float_equal(comparison.found[i], comparison.expected[i] / 2, 1e-6);
  }
  ValueId dead = graph_op1(draw.graph, OP_STOP, a);
  differentiate(&draw, weigh(&draw, dead), gradient);
  assert_int_equal(gradient[0], -1);
  arena_destroy(draw.arena);
}

// Where all elements are alike, the largest and the smallest follow when all move together: gradients that add up to
// it.
static void check_ties(Op op, int number) {
  static Comparison comparison;
  Draw draw = draw_create(op, number);
  ValueId gradient[DRAW_MOST_LEAVES], loss = weigh(&draw, recipes[op].make(&draw));
  differentiate(&draw, loss, gradient);
  fill_leaves(&draw, -2, 2);
  for (int i = 0; i < draw.leaf_count; i++) {
    for (int j = 0; draw.leaf[i].wanted && j < leaf_elements(&draw, i); j++) {
      draw.leaf[i].data[j] = 0.5;
    }
  }
  compare(&draw, loss, gradient, &comparison);
  double sum = 0, weights = 0;
  for (int i = 0; i < comparison.count; i++) {
    sum += comparison.found[i];
  }
  for (int i = 0; i < draw.leaf_count; i++) {
    for (int j = 0; !draw.leaf[i].wanted && j < leaf_elements(&draw, i); j++) {
      weights += draw.leaf[i].data[j];
    }
  }
  assert_float_equal(sum, weights, 1e-9);
  arena_destroy(draw.arena);
}

static void test_ties_share(void **state) {
  (void)state;
  static const Op ops[] = {OP_MAX, OP_MIN, OP_REDUCE_MAX, OP_REDUCE_MIN};
  for (int i = 0; i < 4 * GRAPHS; i++) {
    check_ties(ops[i % 4], i / 4);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_op),
      cmocka_unit_test(test_wrong_gradients_are_seen),
      cmocka_unit_test(test_nothing_flows_through_stop),
      cmocka_unit_test(test_ties_share),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
