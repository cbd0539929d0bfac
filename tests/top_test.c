// top_test.c: top(x over a to k) against a plain search for the largest, with equal elements, infinities and NaN; what
// its values give back to x.
#include <math.h>
#include <stdio.h>

#include "tests/plan_run.h"

enum { ROWS = 24, WIDEST = 600 };

typedef struct {
  int size, chosen;
  const char *precision;
} Case;

static uint32_t random_state = 7;

static int below(int count) {
  random_state = random_state * 1664525u + 1013904223u;
  return (int)((random_state >> 8) % (uint32_t)count);
}

// Few different numbers, all of them exact in every format that is tested; rows of one number alone, and with what is
// not finite.
static double drawn(int row) {
  static const double strange[] = {INFINITY, -INFINITY, NAN, -NAN, 0.0, -0.0, 0x1p-80, -1.5};
  return row == 0 ? 0.25 : row % 3 == 1 ? strange[below(8)] : (below(41) - 20) / 8.0;
}

static bool before(double a, int i, double b, int j) {
  a = isnan(a) ? INFINITY : a;
  b = isnan(b) ? INFINITY : b;
  return a > b || (a == b && i < j);
}

static bool same(double a, double b) {
  return (isnan(a) && isnan(b)) || a == b;
}

static void check_row(const Case *c, int row, const double *x, const double *value, const double *who) {
  bool taken[WIDEST] = {false};
  for (int k = 0; k < c->chosen; k++) {
    int best = -1;
    for (int i = 0; i < c->size; i++) {
      if (!taken[i] && (best < 0 || before(x[i], i, x[best], best))) {
        best = i;
      }
    }
    taken[best] = true;
    if (who[k] != best || !same(value[k], x[best])) {
      fail_msg("%d of %d in %s, row %d: number %d is %g at %g, not %g at %d", c->chosen, c->size, c->precision, row, k,
               value[k], who[k], x[best], best);
    }
  }
}

static const char *case_file(Arena *arena, const Case *c) {
  const char *path =
      arena_format(arena, "%s/top_test.%d.%d.mdl", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", c->size, c->chosen);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file,
          "model m {\n  axis batch, a = %d, k = %d;\n  input x: real[batch, a];\n  param w: [a] = 1;\n"
          "  (value, who) = top(x over a to k);\n  (scaled, same) = top(x * w over a to k);\n"
          "  loss = sum(scaled * ((pos(k) as real) + 1));\n  output value;\n  output who = who;\n}\n"
          "recipe r {\n  model m();\n  batch = %d;\n  optimizer sgd(lr = constant(0.5));\n}\n",
          c->size, c->chosen, ROWS);
  fclose(file);
  return path;
}

static const Case cases[] = {
    {1, 1, "fp32"},  {2, 1, "fp64"},  {8, 2, "fp32"},   {8, 8, "fp64"},    {13, 5, "fp32"},
    {64, 6, "fp32"}, {64, 8, "bf16"}, {600, 9, "fp32"}, {600, 33, "bf16"},
};

typedef struct {
  Arena *arena;
  const char *path;
  PlanRunner runner;
  double *x;
} Run;

static Run run_open(const Case *c, bool finite) {
  Run run = {.arena = arena_create()};
  run.path = case_file(run.arena, c);
  run.runner = runner_open(&(CompileOptions){.file = run.path, .precision = c->precision});
  run.x = ARENA_ARRAY(run.arena, double, ROWS * c->size);
  for (int i = 0; i < ROWS * c->size; i++) {
    run.x[i] = finite ? below(41) / 8.0 : drawn(i / c->size);
  }
  runner_run(&run.runner, PROGRAM_INITIALISE);
  return run;
}

static void run_close(Run *run) {
  runner_close(&run->runner);
  remove(run->path);
  arena_destroy(run->arena);
}

static void test_against_search(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const Case *c = &cases[i];
    Run run = run_open(c, false);
    runner_set_input(&run.runner, PROGRAM_EVALUATE, "x", run.x);
    runner_run(&run.runner, PROGRAM_EVALUATE);
    const Dense value = runner_output(&run.runner, PROGRAM_EVALUATE, "value");
    const Dense who = runner_output(&run.runner, PROGRAM_EVALUATE, "who");
    for (int row = 0; row < ROWS; row++) {
      check_row(c, row, run.x + row * c->size, value.data + row * c->chosen, who.data + row * c->chosen);
    }
    run_close(&run);
  }
}

// The gradient of a value goes to the element that it is, and to no other.
static void test_gradient(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const Case c = {cases[i].size, cases[i].chosen, "fp64"};
    Run run = run_open(&c, true);
    runner_set_input(&run.runner, PROGRAM_EVALUATE, "x", run.x);
    runner_run(&run.runner, PROGRAM_EVALUATE);
    const Dense who = runner_output(&run.runner, PROGRAM_EVALUATE, "who");
    double wanted[WIDEST];
    for (int j = 0; j < c.size; j++) {
      wanted[j] = 1;
    }
    for (int j = 0; j < ROWS * c.chosen; j++) {
      const int at = (int)who.data[j];
      wanted[at] -= 0.5 * (j % c.chosen + 1) * run.x[j / c.chosen * c.size + at];
    }
    runner_set_input(&run.runner, PROGRAM_TRAIN, "x", run.x);
    runner_set_input(&run.runner, PROGRAM_TRAIN, "step", (double[]){1});
    runner_run(&run.runner, PROGRAM_TRAIN);
    const Dense w = runner_state(&run.runner, "w");
    for (int j = 0; j < c.size; j++) {
      if (!(fabs(w.data[j] - wanted[j]) <= 1e-9 * (1 + fabs(wanted[j])))) {
        fail_msg("%d of %d: parameter %d is %g after a step, not %g", c.chosen, c.size, j, w.data[j], wanted[j]);
      }
    }
    run_close(&run);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_search), cmocka_unit_test(test_gradient)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
