// properties_test.c: what ops.def says is true of operations is so: on random graphs, in double.
#include <math.h>

#include "tests/gradient_draw.h"

enum { GRAPHS = 24 };

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

static int leaf_elements(const Draw *draw, int leaf) {
  return (int)graph_elements(draw->graph, graph_shape(draw->graph, draw->leaf[leaf].value));
}

// Real values that no two elements have; truths; integers from -1 to one too many.
static Reference *give(Draw *draw, double low, double high) {
  Reference *reference = reference_create(draw->arena, draw->graph);
  for (int i = 0; i < draw->leaf_count; i++) {
    Leaf *leaf = &draw->leaf[i];
    const int count = leaf_elements(draw, i);
    leaf->data = ARENA_ARRAY(draw->arena, double, count + 1);
    for (int j = 0; j < count; j++) {
      leaf->data[j] = leaf->most < 0   ? draw_int(draw, 0, 1)
                      : leaf->most > 0 ? draw_int(draw, -1, (int)leaf->most)
                                       : low + (high - low) * draw_unit(draw);
    }
    reference_give(reference, leaf->name, graph_shape(draw->graph, leaf->value), leaf->data);
  }
  return reference;
}

static const Node *drawn_node(const Draw *draw) {
  for (int i = 0; i < draw->graph->nodes.count; i++) {
    if (graph_node(draw->graph, i)->op == draw->op) {
      return graph_node(draw->graph, i);
    }
  }
  fail_msg("no '%s' is drawn", op_name(draw->op));
  return NULL;
}

static const double *run(Reference *reference, ValueId value) {
  if (!reference_run(reference)) {
    fail_msg("%s", reference->wrong);
  }
  return reference->values[value].data;
}

// The leaf that is this operand and no other, or NULL.
static Leaf *leaf_of(Draw *draw, const Node *node, int operand) {
  int uses = 0;
  for (int i = 0; i < node->operand_count; i++) {
    uses += node->operands[i] == node->operands[operand];
  }
  for (int i = 0; i < draw->leaf_count && uses == 1; i++) {
    if (draw->leaf[i].value == node->operands[operand] && draw->leaf[i].wanted) {
      return &draw->leaf[i];
    }
  }
  return NULL;
}

// Does the result take a factor of -3 from one operand? -1: it is not that of a leaf.
static int takes_factor(Op op, int number, int operand) {
  Draw draw = draw_create(op, number);
  recipes[op].make(&draw);
  const Node *node = drawn_node(&draw);
  Leaf *leaf = operand < node->operand_count ? leaf_of(&draw, node, operand) : NULL;
  int takes = -1;
  if (leaf) {
    Reference *reference = give(&draw, recipes[op].low, recipes[op].high);
    const int64_t count = graph_elements(draw.graph, graph_shape(draw.graph, node->first_result));
    const double *result = arena_copy(draw.arena, run(reference, node->first_result), sizeof(double) * (size_t)count);
    for (int j = 0; j < leaf_elements(&draw, (int)(leaf - draw.leaf)); j++) {
      leaf->data[j] *= -3;
    }
    const double *scaled = run(reference, node->first_result);
    takes = 1;
    for (int64_t j = 0; j < count; j++) {
      takes = takes && fabs(scaled[j] + 3 * result[j]) <= 1e-9 * (1 + fabs(scaled[j]));
    }
  }
  arena_destroy(draw.arena);
  return takes;
}

static void test_linear(void **state) {
  (void)state;
  int claimed = 0;
  for (int op = 0; op < OP_COUNT; op++) {
    for (int operand = 0; operand < 2 && recipes[op].make && op != OP_COMPOSITE; operand++) {
      int known = 0, taken = 0;
      for (int i = 0; i < GRAPHS; i++) {
        const int takes = takes_factor((Op)op, i, operand);
        known += takes >= 0;
        taken += takes > 0;
      }
      const bool linear = op_linear_in((Op)op, operand);
      claimed += linear && known;
      if (known && linear != (taken == known)) {
        fail_msg("'%s' is %slinear in operand %d in %d of %d graphs: ops.def says otherwise", op_name((Op)op),
                 linear ? "" : "not ", operand, taken, known);
      }
    }
  }
  assert_true(claimed > 10);
}

// Does each number of the operands stand in the result once or not at all, and nothing else but zeros?
static bool moves(Op op, int number) {
  Draw draw = draw_create(op, number);
  recipes[op].make(&draw);
  const Node *node = drawn_node(&draw);
  Reference *reference = give(&draw, recipes[op].low, recipes[op].high);
  const double *result = run(reference, node->first_result);
  const int64_t count = graph_elements(draw.graph, graph_shape(draw.graph, node->first_result));
  bool good = true;
  for (int64_t i = 0; i < count && good; i++) {
    int found = 0;
    for (int j = 0; j < node->operand_count; j++) {
      const Tensor *from = &reference->values[node->operands[j]];
      for (int64_t k = 0; k < tensor_elements(draw.graph, from); k++) {
        found += from->data[k] - result[i] == 0;
      }
    }
    for (int64_t k = 0; k < i; k++) {
      found += result[k] - result[i] == 0;  // twice
    }
    good = found == 1 || fpclassify(result[i]) == FP_ZERO;
  }
  arena_destroy(draw.arena);
  return good;
}

static void test_moves(void **state) {
  (void)state;
  for (int op = 0; op < OP_COUNT; op++) {
    const bool chooses = op_reduction((Op)op) || recipes[op].flat;  // the largest is one of them too, and a floor is 0
    int moved = 0;
    for (int i = 0; recipes[op].make && i < GRAPHS; i++) {
      moved += moves((Op)op, i);
    }
    if (recipes[op].make && !chooses && op_moves((Op)op) != (moved == GRAPHS)) {
      fail_msg("'%s' only moves in %d of %d graphs: ops.def says otherwise", op_name((Op)op), moved, GRAPHS);
    }
  }
}

// What must hold between columns.
static void test_columns_agree(void **state) {
  (void)state;
  for (int i = 0; i < OP_COUNT; i++) {
    const Op op = (Op)i;
    const bool dots = op_dots_joined(op) || op_dots_sum(op) || op_dots_biased(op) || op_dots_scaled(op);
    const bool wrong = (op_stored(op) && !op_given(op)) || (op_alias(op) && !op_view(op)) ||
                       (op_view(op) && !op_same(op)) || (dots && !op_dots(op)) || (op_fusable(op) && op_strided(op)) ||
                       ((op_body(op) || op_kernel(op)) && !op_region(op)) || (op_body(op) && !op_list(op)) ||
                       (op_effect(op) && op_region(op)) || (op_linear(op) && op_bilinear(op)) ||
                       (op_largest(op) && op_smallest(op)) || (op_placed(op) && op_alias(op)) ||
                       op_free(op) + op_given(op) + op_elementwise(op) + op_reduction(op) + op_random(op) +
                               op_collective(op) + op_effect(op) + op_dots(op) + op_region(op) >
                           1;
    if (wrong) {
      fail_msg("the properties of '%s' contradict each other", op_name(op));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_linear),
      cmocka_unit_test(test_moves),
      cmocka_unit_test(test_columns_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
