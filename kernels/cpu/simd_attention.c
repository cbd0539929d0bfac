// simd_attention.c: the elementwise part of attention on transposed scores, [key][ATTENTION_QUERIES].
//
// A line holds one key and a block of queries, so that maxima and sums over keys run down the lines, one query in
// each lane, and nothing is added across a vector.
#include <math.h>

#include "kernels/cpu/math_f32.h"
#include "kernels/cpu/simd_real.h"

enum { N = ATTENTION_QUERIES, SUM_KEYS = 32 };

// Scores of keys after their query become -infinity. Line k is key `ahead` + k - (the block's first query).
static void mask_lines(Real *s, int64_t keys, int64_t ahead) {
  for (int64_t k = ahead > 0 ? 0 : -ahead; k < keys; k++) {
    for (int64_t q = 0; q < N && q < k + ahead; q++) {
      s[k * N + q] = -INFINITY;
    }
  }
}

// Scores scaled, with their linear biases: the factor that is left to multiply them by.
static Real bias_lines(const AttentionBlock *block) {
  Real *s = block->scores;
  const Real scale = (Real)block->scale, slope = (Real)block->slope;
  if (block->slope == 0) {
    return scale;
  }
  for (int64_t k = 0; k < block->keys; k++) {
    for (int64_t q = 0; q < N; q++) {
      s[k * N + q] = s[k * N + q] * scale + slope * (Real)(block->ahead + k - q);
    }
  }
  return 1;
}

void SIMD_REAL_NAME(simd_attention_softmax)(const AttentionBlock *block, void *max_of, void *sum_of, void *shrink_of) {
  Real *s = block->scores, *max = max_of, *total = sum_of, *shrink = shrink_of, scaled[N];
  const Real scale = bias_lines(block);
  if (block->causal) {
    mask_lines(s, block->keys, block->ahead);
  }
  for (int q = 0; q < N; q++) {
    scaled[q] = max[q];
  }
  for (int64_t k = 0; k < block->keys; k++) {
    for (int q = 0; q < N; q++) {
      const Real x = s[k * N + q] == -INFINITY ? s[k * N + q] : s[k * N + q] * scale;
      s[k * N + q] = x;
      scaled[q] = real_larger(scaled[q], x);
    }
  }
  for (int q = 0; q < N; q++) {
    // A query that has seen no key yet keeps a maximum that subtracts to no NaN.
    const Real safe = scaled[q] == -INFINITY ? 0 : scaled[q];
    shrink[q] = max[q] == -INFINITY ? 0 : REAL_MATH(exp)(max[q] - safe);
    max[q] = scaled[q];
    scaled[q] = safe;
    total[q] *= shrink[q];
  }
  for (int64_t begin = 0; begin < block->keys; begin += SUM_KEYS) {
    const int64_t end = begin + SUM_KEYS < block->keys ? begin + SUM_KEYS : block->keys;
    Real sum[N] = {0};
    for (int64_t k = begin; k < end; k++) {
      for (int q = 0; q < N; q++) {
        const Real p = REAL_MATH(exp)(s[k * N + q] - scaled[q]);
        s[k * N + q] = p;
        sum[q] += p;
      }
    }
    for (int q = 0; q < N; q++) {
      total[q] += sum[q];
    }
  }
}

void SIMD_REAL_NAME(simd_attention_gradient)(const AttentionBlock *block, void *gradient, const void *shift_of,
                                             const void *delta_of) {
  Real *s = block->scores, *d = gradient;
  const Real *shift = shift_of, *delta = delta_of;
  const Real scale = (Real)block->scale, left = bias_lines(block);
  for (int64_t k = 0; k < block->keys; k++) {
    for (int q = 0; q < N; q++) {
      const Real p = REAL_MATH(exp)(s[k * N + q] * left - shift[q]);
      s[k * N + q] = p;
      d[k * N + q] = p * (d[k * N + q] - delta[q]) * scale;
    }
  }
  for (int64_t k = block->ahead > 0 ? 0 : -block->ahead; block->causal && k < block->keys; k++) {
    for (int64_t q = 0; q < N && q < k + block->ahead; q++) {
      s[k * N + q] = 0;
      d[k * N + q] = 0;
    }
  }
}

void SIMD_REAL_NAME(simd_scale_row)(void *values, int64_t n, double factor) {
  Real *x = values;
  const Real f = (Real)factor;
  for (int64_t i = 0; i < n; i++) {
    x[i] *= f;
  }
}

double SIMD_REAL_NAME(simd_dot)(const void *first, const void *second, int64_t n) {
  enum { LANES = 32 };
  const Real *a = first, *b = second;
  Real lane[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    for (int k = 0; k < LANES; k++) {
      lane[k] += a[i + k] * b[i + k];
    }
  }
  for (int k = 0; i < n; i++, k++) {
    lane[k] += a[i] * b[i];
  }
  for (int width = LANES / 2; width > 0; width /= 2) {
    for (int k = 0; k < width; k++) {
      lane[k] += lane[k + width];
    }
  }
  return (double)lane[0];
}
