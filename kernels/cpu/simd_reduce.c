// simd_reduce.c: sums and extremes of rows and columns, in an order that depends on sizes only.
#include <math.h>

#include "kernels/cpu/simd_real.h"

enum { LANES = 64, SUM_BLOCK = 1024, COLUMN_BLOCK = 256 };

// Folds LANES values to one, halving: lane[0] is the result.
#define FOLD_LANES(lane, pick)                         \
  for (int width = LANES / 2; width > 0; width /= 2) { \
    SIMD_LOOP                                          \
    for (int k = 0; k < width; k++) {                  \
      lane[k] = pick(lane[k], lane[k + width]);        \
    }                                                  \
  }

static inline Real real_plus(Real a, Real b) {
  return a + b;
}

double SIMD_REAL_NAME(simd_sum)(const void *values, int64_t n) {
  const Real *x = values;
  double total = 0.0;
  for (int64_t begin = 0; begin < n; begin += SUM_BLOCK) {
    const int64_t end = begin + SUM_BLOCK < n ? begin + SUM_BLOCK : n;
    Real lane[LANES] = {0};
    int64_t i = begin;
    for (; i + LANES <= end; i += LANES) {
      for (int k = 0; k < LANES; k++) {
        lane[k] += x[i + k];
      }
    }
    SIMD_LOOP
    for (int64_t k = 0; k < end - i; k++) {
      lane[k] += x[i + k];
    }
    FOLD_LANES(lane, real_plus)
    total += (double)lane[0];
  }
  return total;
}

// The order of an extreme does not matter.
#define EXTREME(name, pick, worst)                             \
  double SIMD_REAL_NAME(name)(const void *values, int64_t n) { \
    const Real *x = values;                                    \
    Real lane[LANES];                                          \
    for (int k = 0; k < LANES; k++) {                          \
      lane[k] = (Real)worst;                                   \
    }                                                          \
    int64_t i = 0;                                             \
    for (; i + LANES <= n; i += LANES) {                       \
      for (int k = 0; k < LANES; k++) {                        \
        lane[k] = pick(lane[k], x[i + k]);                     \
      }                                                        \
    }                                                          \
    SIMD_LOOP                                                  \
    for (int64_t k = 0; k < n - i; k++) {                      \
      lane[k] = pick(lane[k], x[i + k]);                       \
    }                                                          \
    FOLD_LANES(lane, pick)                                     \
    return (double)lane[0];                                    \
  }

EXTREME(simd_max, real_larger, -INFINITY)
EXTREME(simd_min, real_smaller, INFINITY)

// Adds with compensation (Kahan): lost holds what rounding took from total. Infinities lose nothing.
static void add_compensated(Real *total, Real *lost, const Real *x, int64_t n) {
  SIMD_LOOP
  for (int64_t i = 0; i < n; i++) {
    const Real y = x[i] - lost[i], sum = total[i] + y;
    const Real less = (sum - total[i]) - y;
    lost[i] = less - less == 0 ? less : 0;  // 0 behind what is not finite
    total[i] = sum;
  }
}

void SIMD_REAL_NAME(simd_column_sum)(void *total, void *lost, const void *x, int64_t rows, int64_t stride, int64_t n) {
  for (int64_t begin = 0; begin < n; begin += COLUMN_BLOCK) {
    const int64_t width = begin + COLUMN_BLOCK < n ? COLUMN_BLOCK : n - begin;
    const Real *block = (const Real *)x + begin;
    Real *to = (Real *)total + begin, *to_lost = (Real *)lost + begin;
    if (rows == 1) {
      add_compensated(to, to_lost, block, width);
      continue;
    }
    Real sum[COLUMN_BLOCK];
    for (int64_t i = 0; i < width; i++) {
      sum[i] = block[i];
    }
    for (int64_t r = 1; r < rows; r++) {
      SIMD_LOOP
      for (int64_t i = 0; i < width; i++) {
        sum[i] += block[r * stride + i];
      }
    }
    add_compensated(to, to_lost, sum, width);
  }
}

#define COLUMN_EXTREME(name, pick)                                                                 \
  void SIMD_REAL_NAME(name)(void *total, const void *x, int64_t rows, int64_t stride, int64_t n) { \
    Real *to = total;                                                                              \
    for (int64_t r = 0; r < rows; r++) {                                                           \
      const Real *row = (const Real *)x + r * stride;                                              \
      SIMD_LOOP                                                                                    \
      for (int64_t i = 0; i < n; i++) {                                                            \
        to[i] = pick(to[i], row[i]);                                                               \
      }                                                                                            \
    }                                                                                              \
  }

COLUMN_EXTREME(simd_column_max, real_larger)
COLUMN_EXTREME(simd_column_min, real_smaller)
