// simd_attention.c: the row loops of attention.
#include <math.h>

#include "kernels/cpu/math_f32.h"
#include "kernels/cpu/simd_real.h"

void SIMD_REAL_NAME(simd_scale_row)(void *values, int64_t n, double factor) {
  Real *x = values;
  const Real f = (Real)factor;
  for (int64_t i = 0; i < n; i++) {
    x[i] *= f;
  }
}

double SIMD_REAL_NAME(simd_exp_row)(void *values, int64_t n, double scale, double shift) {
  Real *x = values;
  const Real factor = (Real)scale, offset = (Real)shift;
  for (int64_t i = 0; i < n; i++) {
    x[i] = REAL_MATH(exp)(x[i] * factor - offset);
  }
  return SIMD_REAL_NAME(simd_sum)(x, n);
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
  double sum = 0.0;
  for (int k = 0; k < LANES; k++) {
    sum += (double)lane[k];
  }
  return sum;
}

void SIMD_REAL_NAME(simd_attention_row)(void *scores, void *gradient, int64_t n, double scale, double shift,
                                        double delta) {
  Real *p = scores, *ds = gradient;
  const Real factor = (Real)scale, offset = (Real)shift, d = (Real)delta;
  SIMD_LOOP
  for (int64_t i = 0; i < n; i++) {
    const Real probability = REAL_MATH(exp)(p[i] * factor - offset);
    p[i] = probability;
    ds[i] = probability * (ds[i] - d) * factor;
  }
}
