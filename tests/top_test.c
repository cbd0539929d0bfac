// top_test.c: top(x over a to k) against a plain search for the largest, with equal elements, infinities and NaN; what
// its values give back to x; a mixture of experts against loops over tokens.
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

static const char *case_path(Arena *arena, const char *name) {
  return arena_format(arena, "%s/top_test.%s.mdl", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", name);
}

static const char *case_file(Arena *arena, const Case *c) {
  const char *path = case_path(arena, arena_format(arena, "%d.%d", c->size, c->chosen));
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

enum { TOKENS = 40, WIDTH = 6, INNER = 9, EXPERTS = 4, CHOICE = 2 };

static const char mixture[] =
    "model m {\n  axis batch, d = 6, f = 9, experts = 4, choice = 2;\n  input x: real[batch, d];\n"
    "  param router: [experts, d] ~ normal(1);\n  param w_in: [experts, d, f] ~ normal(1);\n"
    "  param w_out: [experts, f, d] ~ normal(1);\n"
    "  (score, who) = top(dot(x, router over d) over experts to choice);\n"
    "  y = sum(dot(dot(x, w_in[who] over d), w_out[who] over f) * score over choice);\n"
    "  loss = sum(square(y));\n  output y;\n}\n"
    "recipe r {\n  model m();\n  batch = 40;\n  optimizer sgd(lr = constant(0.5));\n}\n";

static double product(const double *a, int64_t step_a, const double *b, int64_t step_b, int count) {
  double sum = 0;
  for (int i = 0; i < count; i++) {
    sum += a[i * step_a] * b[i * step_b];
  }
  return sum;
}

// What a token adds up, expert by expert.
static void mixed(const double *x, const double *router, const double *w_in, const double *w_out, double *y) {
  double score[EXPERTS], inner[INNER];
  for (int e = 0; e < EXPERTS; e++) {
    score[e] = product(x, 1, router + e * WIDTH, 1, WIDTH);
  }
  for (int e = 0; e < EXPERTS; e++) {
    int ahead = 0;
    for (int i = 0; i < EXPERTS; i++) {
      ahead += score[i] > score[e];
    }
    for (int f = 0; f < INNER && ahead < CHOICE; f++) {
      inner[f] = product(x, 1, w_in + e * WIDTH * INNER + f, INNER, WIDTH);
    }
    for (int d = 0; d < WIDTH && ahead < CHOICE; d++) {
      y[d] += score[e] * product(inner, 1, w_out + e * WIDTH * INNER + d, WIDTH, INNER);
    }
  }
}

static void test_mixture(void **state) {
  (void)state;
  Arena *arena = arena_create();
  const char *path = case_path(arena, "mixture");
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(mixture, file);
  fclose(file);
  PlanRunner runner = runner_open(&(CompileOptions){.file = path, .precision = "fp64"});
  double x[TOKENS * WIDTH];
  for (int i = 0; i < TOKENS * WIDTH; i++) {
    x[i] = (below(2001) - 1000) / 500.0;
  }
  runner_run(&runner, PROGRAM_INITIALISE);
  runner_set_input(&runner, PROGRAM_EVALUATE, "x", x);
  runner_run(&runner, PROGRAM_EVALUATE);
  const Dense got = runner_output(&runner, PROGRAM_EVALUATE, "y"), router = runner_state(&runner, "router");
  const Dense y = dense_ordered(arena, &got, (const char *const[]){"batch", "d"});
  const Dense w_in = runner_state(&runner, "w_in"), w_out = runner_state(&runner, "w_out");
  for (int t = 0; t < TOKENS; t++) {
    double wanted[WIDTH] = {0};
    mixed(x + t * WIDTH, router.data, w_in.data, w_out.data, wanted);
    for (int d = 0; d < WIDTH; d++) {
      if (!(fabs(y.data[t * WIDTH + d] - wanted[d]) <= 1e-10 * (1 + fabs(wanted[d])))) {
        fail_msg("token %d, %d: %g, not %g", t, d, y.data[t * WIDTH + d], wanted[d]);
      }
    }
  }
  runner_close(&runner);
  remove(path);
  arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_search), cmocka_unit_test(test_gradient),
                                     cmocka_unit_test(test_mixture)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
