// states_test.c: what a step makes of the model's own state, from the graph of the step as the reference evaluates it.
//
// Two texts, each under a layout of its own, with the same parameters, states and inputs: what both assign must be the
// same. A step that is not finite must assign what was there.
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include "compiler/compile.h"
#include "compiler/ir/graph_text.h"
#include "tests/reference.h"

#define HEAD                                      \
  "model m {\n"                                   \
  "  axis batch = 8, a = 3, two = 2, four = 4;\n" \
  "  input x: real[batch, a];\n"                  \
  "  param w: [a] = 1;\n"                         \
  "  y = x * w;\n"
#define TAIL                                \
  "  loss = mean(square(y));\n"             \
  "}\n"                                     \
  "layout one { microbatches = 1; }\n"      \
  "layout halves { microbatches = 2; }\n"   \
  "layout quarters { microbatches = 4; }\n" \
  "recipe r { model m(); optimizer sgd(lr = 0.1); }\n"

static const char each[] = HEAD
    "  state spread: [a] = 0, combine = mean;\n"
    "  state newest: [a] = 0, combine = last;\n"
    "  state all: [] = 0, combine = sum;\n"
    "  state root: [] = 0, combine = mean;\n"
    "  c = y - mean(y over batch);\n"
    "  spread = 0.9 * spread + 0.1 * mean(c * c over batch);\n"
    "  newest = newest + max(y over batch);\n"
    "  all = 0.5 * all + sqrt(mean(square(y)) + sum(y * y) + 0.5);\n"
    "  root = root + sqrt(2 * sum(y * y) + 1);\n" TAIL;

// What `each` means with two microbatches.
static const char spelled[] = HEAD
    "  state spread: [a] = 0;\n"
    "  state newest: [a] = 0;\n"
    "  state all: [] = 0;\n"
    "  state root: [] = 0;\n"
    "  g = y[batch -> (two, four)];\n"
    "  c = g - mean(g over four);\n"
    "  spread = 0.9 * spread + 0.1 * mean(mean(c * c over four) over two);\n"
    "  newest = newest + max(g over four)[two: 1];\n"
    "  all = sum(0.5 * all + sqrt(mean(square(g) over four, a) + sum(g * g over four, a) + 0.5) over two);\n"
    "  root = root + mean(sqrt(2 * sum(g * g over four, a) + 1) over two);\n" TAIL;

// Exact under any number of microbatches.
static const char whole[] = HEAD
    "  state mean_of: [a] = 0;\n"
    "  state spread: [a] = 0;\n"
    "  state balance: [a] = 0;\n"
    "  state teacher: [a] = 0;\n"
    "  state swapped: [a] = 0;\n"
    "  state largest: [] = 0;\n"
    "  mean_of = 0.9 * mean_of + 0.1 * mean(y over batch);\n"
    "  spread = mean(y * y over batch) - square(mean(y over batch)) + 0.01 * swapped;\n"
    "  balance = balance + 0.1 * sign(mean(mean(y over batch)) - mean(y over batch));\n"
    "  teacher = 0.9 * teacher + 0.1 * w;\n"
    "  swapped = where(teacher < 0.5, mean_of, max(spread, mean(y over batch)));\n"
    "  largest = max(0.9 * largest, mean(square(y)) + 1) / (1 + sum(teacher));\n" TAIL;

typedef struct {
  Arena *arena;
  Graph *graph;
  Reference *reference;
} Step;

static double drawn(const char *name, int64_t at) {
  uint64_t z = 0x9E3779B97F4A7C15u * (uint64_t)(at + 1);
  for (const char *c = name; *c; c++) {
    z = (z ^ (uint64_t)*c) * 0x94D049BB133111EBu;
  }
  return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0 * 2 - 0.8;
}

static void give_leaf(Step *step, const Node *node, const char *infinite) {
  const Shape shape = graph_shape(step->graph, node->first_result);
  const int64_t count = graph_elements(step->graph, shape) * (node->op == OP_INPUT ? step->graph->slots : 1);
  double *data = ARENA_ARRAY(step->arena, double, count + 1);
  for (int64_t i = 0; i < count; i++) {
    data[i] = strcmp(node->text, "step") == 0 ? 1 : drawn(node->text, i);
  }
  if (infinite && strcmp(node->text, infinite) == 0) {
    data[0] = INFINITY;
  }
  reference_give(step->reference, node->text, shape, data);
}

// The step of a text under a layout, evaluated. `infinite`: a leaf with an element that is, or NULL.
static Step step_of(const char *text, const char *layout, const char *infinite) {
  char path[] = "/tmp/states_XXXXXX";
  const int handle = mkstemp(path);
  assert_true(handle >= 0 && write(handle, text, strlen(text)) == (ssize_t)strlen(text));
  close(handle);
  Step step = {.arena = arena_create()};
  Buffer printed = {0};
  Diag *diag = diag_create(step.arena);
  CompileOptions options = {.file = path, .layout = layout, .precision = "fp64", .program = PROGRAM_TRAIN};
  options.after = "simplify_step";
  const bool good = compile_print(step.arena, diag, &options, &printed);
  unlink(path);
  if (!good) {
    diag_print(diag, stderr, false);
    fail_msg("the text does not compile under %s", layout);
  }
  step.graph = graph_parse(step.arena, names_create(step.arena), diag,
                           diag_add_source(diag, "step", printed.text, printed.length));
  assert_non_null(step.graph);
  step.reference = reference_create(step.arena, step.graph);
  for (int i = 0; i < step.graph->nodes.count; i++) {
    const Node *node = graph_node(step.graph, i);
    if (node->op == OP_INPUT || node->op == OP_PARAM || node->op == OP_STATE) {
      give_leaf(&step, node, infinite);
    }
  }
  if (!reference_run(step.reference)) {
    fail_msg("%s", step.reference->wrong);
  }
  buffer_free(&printed);
  return step;
}

// The largest difference, relative, between what both assign to the model's state; how many tensors there are.
static double difference(const Step *a, const Step *b, int *count) {
  double most = 0;
  *count = 0;
  for (int i = 0; i < a->graph->persistent.count; i++) {
    const Persistent *state = &a->graph->persistent.at[i];
    const Tensor *of_a = reference_assigned(a->reference, state->name),
                 *of_b = reference_assigned(b->reference, state->name);
    if (state->role != ROLE_STATE) {
      continue;
    }
    assert_non_null(of_a);
    assert_non_null(of_b);
    (*count)++;
    for (int64_t j = 0; j < tensor_elements(a->graph, of_a); j++) {
      const double gap = fabs(of_a->data[j] - of_b->data[j]) / (1 + fabs(of_b->data[j]));
      most = gap > most || isnan(gap) ? gap : most;
    }
  }
  return most;
}

static void expect_same(const char *text, const char *layout, const char *other, const char *other_layout,
                        int tensors) {
  const Step a = step_of(text, layout, NULL), b = step_of(other, other_layout, NULL);
  int count;
  const double most = difference(&a, &b, &count);
  assert_int_equal(count, tensors);
  if (!(most <= 1e-12)) {
    fail_msg("states differ by %g under %s and %s", most, layout, other_layout);
  }
  arena_destroy(a.arena);
  arena_destroy(b.arena);
}

static void test_sums_are_those_of_the_whole_batch(void **state) {
  (void)state;
  expect_same(whole, "halves", whole, "one", 6);
  expect_same(whole, "quarters", whole, "one", 6);
}

static void test_microbatches_combine(void **state) {
  (void)state;
  expect_same(each, "halves", spelled, "one", 4);
  const Step one = step_of(each, "one", NULL), two = step_of(each, "halves", NULL);
  int count;
  if (!(difference(&one, &two, &count) > 1e-3)) {
    fail_msg("statistics of a microbatch are those of the batch: the comparison sees nothing");
  }
  arena_destroy(one.arena);
  arena_destroy(two.arena);
}

// What a step that is skipped assigns is what was there.
static void check_skipped(const char *text, const char *layout, int tensors) {
  const Step step = step_of(text, layout, "w");
  int count = 0;
  for (int i = 0; i < step.graph->persistent.count; i++) {
    const Persistent *kept = &step.graph->persistent.at[i];
    const Tensor *now = reference_assigned(step.reference, kept->name);
    for (int64_t j = 0; kept->role == ROLE_STATE && now && j < tensor_elements(step.graph, now); j++) {
      assert_true(now->data[j] == drawn(kept->name, j));
    }
    count += kept->role == ROLE_STATE && now;
  }
  assert_int_equal(count, tensors);
  arena_destroy(step.arena);
}

static void test_skipped_steps_keep_state(void **state) {
  (void)state;
  check_skipped(whole, "one", 6);
  check_skipped(whole, "halves", 6);
  check_skipped(each, "halves", 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums_are_those_of_the_whole_batch),
                                     cmocka_unit_test(test_microbatches_combine),
                                     cmocka_unit_test(test_skipped_steps_keep_state)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
