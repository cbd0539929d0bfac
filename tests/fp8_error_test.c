// fp8_error_test.c: how far a product in 8 bits and its gradients are from exact ones: no farther than rounding makes
// them, nor than Transformer Engine's on the same numbers.
//
// tests/fp8_error/make.py says what figures.txt is and makes it, where there is a GPU with Transformer Engine; without
// that file only what rounding makes is compared.
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "tests/plan_run.h"

enum { ROWS = 256, INPUTS = 512, OUTPUTS = 384, RESULTS = 3 };

typedef struct {  // of the root of the mean square of the exact result
  double rms, largest;
} Distance;

static const char *const results[RESULTS] = {"y", "x", "w"};

// A number rounded to m bits behind the first is off by 2^-m / sqrt(12) of a power of two, which is 1 / 1.47 of the
// number in the mean square: 0.025 in e4m3, 0.049 in e5m2. Both operands are; a sixth more is allowed.
static const double by_rounding[RESULTS] = {0.04, 0.065, 0.065};

// Whole numbers of 8 bits times a power of two; one of 256 is larger.
static double *drawn(Arena *arena, uint32_t seed, int64_t count, int power, int outlier) {
  double *out = ARENA_ARRAY(arena, double, count);
  for (int64_t i = 0; i < count; i++) {
    uint32_t h = (uint32_t)i * 2654435761u + seed * 0x9E3779B9u;
    h ^= h >> 15;
    h *= 0x85EBCA6Bu;
    h ^= h >> 13;
    h *= 0xC2B2AE35u;
    h ^= h >> 16;
    const int sum = (int)(h & 63) + (int)(h >> 6 & 63) + (int)(h >> 12 & 63) + (int)(h >> 18 & 63) - 126;
    out[i] = ldexp((double)(sum * (h >> 24 == 0 ? outlier : 1)), power);
  }
  return out;
}

// sum over k of a[i, k] b[k, j], with the strides of i and k, and of k and j.
static double *product(Arena *arena, const double *a, const int64_t *by_a, const double *b, const int64_t *by_b,
                       int64_t rows, int64_t columns, int64_t inner) {
  double *out = ARENA_ARRAY(arena, double, rows *columns);
  memset(out, 0, sizeof *out * (size_t)(rows * columns));
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t k = 0; k < inner; k++) {
      for (int64_t j = 0; j < columns; j++) {
        out[i * columns + j] += a[i * by_a[0] + k * by_a[1]] * b[k * by_b[0] + j * by_b[1]];
      }
    }
  }
  return out;
}

static Distance distance(const Dense *got, const double *exact) {
  double squares = 0, errors = 0, largest = 0;
  for (int64_t i = 0; i < got->count; i++) {
    const double error = fabs(got->data[i] - exact[i]);
    squares += exact[i] * exact[i];
    errors += error * error;
    largest = error > largest ? error : largest;
  }
  return (Distance){sqrt(errors / squares), largest / sqrt(squares / (double)got->count)};
}

// Of the results, under a policy of product.mdl. steps: how many, the same each time.
static void measure(const char *precision, int steps, Distance *out) {
  static const int64_t x_wise[] = {INPUTS, 1}, w_wise[] = {OUTPUTS, 1}, x_across[] = {1, INPUTS},
                       w_across[] = {1, OUTPUTS};
  const CompileOptions options = {
      .file = MDL_SOURCE_DIR "/tests/fp8_error/product.mdl", .precision = precision, .gradients = true};
  PlanRunner runner = runner_open(&options);
  Arena *arena = runner.arena;
  double *x = drawn(arena, 1, ROWS * INPUTS, -6, 8), *w = drawn(arena, 2, INPUTS * OUTPUTS, -12, 2);
  double *g = drawn(arena, 3, ROWS * OUTPUTS, -16, 32);
  const double *const exact[RESULTS] = {product(arena, x, x_wise, w, w_wise, ROWS, OUTPUTS, INPUTS),
                                        product(arena, g, w_wise, w, w_across, ROWS, INPUTS, OUTPUTS),
                                        product(arena, x, x_across, g, w_wise, INPUTS, OUTPUTS, ROWS)};
  runner_set_state(&runner, "x", x);
  runner_set_state(&runner, "w", w);
  if (runner.plan->programs[PROGRAM_REFRESH].call_count > 0) {
    runner_run(&runner, PROGRAM_REFRESH);
  }
  runner_set_input(&runner, PROGRAM_TRAIN, "g", g);
  for (int step = 1; step <= steps; step++) {
    const double number = step;
    runner_set_input(&runner, PROGRAM_TRAIN, "step", &number);
    runner_run(&runner, PROGRAM_TRAIN);
  }
  for (int i = 0; i < RESULTS; i++) {
    const char *name = arena_format(arena, "gradient.%s", i == 0 ? "z" : results[i]);
    const char *const axes[RESULTS][2] = {{"rows", "outputs"}, {"rows", "inputs"}, {"inputs", "outputs"}};
    const Dense stored = runner_output(&runner, PROGRAM_TRAIN, name), got = dense_ordered(arena, &stored, axes[i]);
    out[i] = distance(&got, exact[i]);
  }
  runner_close(&runner);
}

static void errors_of_rounding(void **state) {
  Distance eight[RESULTS], half[RESULTS];
  (void)state;
  measure("eight", 1, eight);
  measure("bf16", 1, half);
  for (int i = 0; i < RESULTS; i++) {
    print_message("%s: root of the mean square %.4f, largest %.4f; in bf16 %.4f, %.4f\n", results[i], eight[i].rms,
                  eight[i].largest, half[i].rms, half[i].largest);
    assert_true(eight[i].rms <= by_rounding[i] && eight[i].rms > 4 * half[i].rms && half[i].rms < 0.005);
  }
}

// A control: with scales of 65536 times what they should be small numbers are lost.
static void errors_of_scales(void **state) {
  Distance lost[RESULTS];
  (void)state;
  measure("lost", 2, lost);
  for (int i = 0; i < RESULTS; i++) {
    print_message("%s: root of the mean square %.4f, largest %.4f\n", results[i], lost[i].rms, lost[i].largest);
    assert_true(lost[i].rms > 2 * by_rounding[i]);
  }
}

static void errors_of_transformer_engine(void **state) {
  Distance eight[RESULTS];
  FileError error;
  size_t length;
  char *text = file_read(MDL_SOURCE_DIR "/tests/fp8_error/figures.txt", &length, &error);
  (void)state;
  if (!text) {
    print_message("skipped: no tests/fp8_error/figures.txt, which tests/fp8_error/make.py makes on a GPU\n");
    skip();
  }
  measure("eight", 1, eight);
  const char *at = text;
  for (int i = 0; i < RESULTS; i++) {
    char name[8];
    Distance theirs;
    int read = 0;
    assert_int_equal(sscanf(at, "%7s %lf %lf%n", name, &theirs.rms, &theirs.largest, &read), 3);
    assert_string_equal(name, results[i]);
    assert_true(eight[i].rms <= 1.02 * theirs.rms && eight[i].largest <= 2 * theirs.largest);
    at += read;
  }
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(errors_of_rounding), cmocka_unit_test(errors_of_scales),
                                     cmocka_unit_test(errors_of_transformer_engine)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
