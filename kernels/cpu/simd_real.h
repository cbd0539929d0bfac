// simd_real.h: for the files that are compiled once for each instruction set and real type.
#ifndef MDL_KERNELS_CPU_SIMD_REAL_H
#define MDL_KERNELS_CPU_SIMD_REAL_H

#include "kernels/cpu/simd.h"

#if SIMD_REAL_BITS == 32
typedef float Real;
#define SIMD_REAL_NAME(x) SIMD_NAME(x##_f32)
#else
typedef double Real;
#define SIMD_REAL_NAME(x) SIMD_NAME(x##_f64)
#endif

#if SIMD_REAL_BITS == 32
#define REAL_MATH(name) f32_##name
#else
#define REAL_MATH(name) name
#endif

// The larger and the smaller of two; NaN if either is.
static inline Real real_larger(Real a, Real b) {
  return ((a > b) | (a != a)) ? a : b;
}

static inline Real real_smaller(Real a, Real b) {
  return ((a < b) | (a != a)) ? a : b;
}

void SIMD_REAL_NAME(simd_uniform)(void *x, RandomKey key, int64_t index, int64_t stride, int64_t n);
void SIMD_REAL_NAME(simd_normal)(void *x, RandomKey key, int64_t index, int64_t stride, int64_t n);
void SIMD_REAL_NAME(simd_column_sum)(void *total, void *lost, const void *x, int64_t rows, int64_t stride, int64_t n);
void SIMD_REAL_NAME(simd_column_max)(void *total, const void *x, int64_t rows, int64_t stride, int64_t n);
void SIMD_REAL_NAME(simd_column_min)(void *total, const void *x, int64_t rows, int64_t stride, int64_t n);
void SIMD_REAL_NAME(simd_product)(const SmallProduct *p);
void SIMD_REAL_NAME(simd_transpose)(void *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows,
                                    int64_t columns);
void SIMD_REAL_NAME(simd_attention_softmax)(const AttentionBlock *block, void *max, void *sum, void *shrink);
void SIMD_REAL_NAME(simd_attention_gradient)(const AttentionBlock *block, void *gradient, const void *shift,
                                             const void *delta);
void SIMD_REAL_NAME(simd_scale_row)(void *x, int64_t n, double factor);
double SIMD_REAL_NAME(simd_dot)(const void *a, const void *b, int64_t n);
double SIMD_REAL_NAME(simd_sum)(const void *x, int64_t n);
double SIMD_REAL_NAME(simd_max)(const void *x, int64_t n);
double SIMD_REAL_NAME(simd_min)(const void *x, int64_t n);

#endif
