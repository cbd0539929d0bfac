// simd_elementwise.c: the elementwise operations on reals and their loads and stores.
#include <math.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/simd_real.h"

#if SIMD_REAL_BITS == 64
static inline double sigmoid(double x) {
  const double e = exp(-fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
#endif
#define REAL_SQRT(x) (sizeof(Real) == 4 ? (Real)sqrtf((float)(x)) : (Real)sqrt((double)(x)))
#define REAL_FLOOR(x) (sizeof(Real) == 4 ? (Real)floorf((float)(x)) : (Real)floor((double)(x)))
#define REAL_ABS(x) (sizeof(Real) == 4 ? (Real)fabsf((float)(x)) : (Real)fabs((double)(x)))
#define REAL_POW(x, y) (sizeof(Real) == 4 ? (Real)powf((float)(x), (float)(y)) : (Real)pow((double)(x), (double)(y)))

static inline int32_t real_to_int(Real x) {
  const Real down = REAL_FLOOR(x);
  const Real low = down < (Real)-2147483648.0 ? (Real)-2147483648.0 : down;
  const Real safe = low < (Real)2147483648.0 ? low : (Real)0;  // also NaN
  return low >= (Real)2147483648.0 ? INT32_MAX : (int32_t)safe;
}

// The least power of two that is not smaller in size.
static inline Real power_of_two(Real x) {
  int exponent;
  const double part = fabs(frexp((double)x, &exponent));
  const bool stays = !(x - x == 0) || part <= 0.5;  // of 0, too
  return stays ? x : (Real)copysign(ldexp(1, exponent), (double)x);
}

#define ROW(call, T, which, r) ((const T *)(call)->operand[which] + (r) * (call)->stride[which])

#define UNARY(name, IN, OUT, value)                       \
  static void name(const VectorCall *call) {              \
    const int64_t n = call->columns;                      \
    for (int64_t r = 0; r < call->rows; r++) {            \
      OUT *out = (OUT *)call->out + r * call->out_stride; \
      const IN *a = ROW(call, IN, 0, r);                  \
      if (call->single == 0) {                            \
        SIMD_LOOP                                         \
        for (int64_t i = 0; i < n; i++) {                 \
          const IN x = a[i];                              \
          out[i] = (OUT)(value);                          \
        }                                                 \
      } else {                                            \
        const IN x = a[0];                                \
        const OUT result = (OUT)(value);                  \
        SIMD_LOOP                                         \
        for (int64_t i = 0; i < n; i++) {                 \
          out[i] = result;                                \
        }                                                 \
      }                                                   \
    }                                                     \
  }

#define BINARY(name, OUT, value)                          \
  static void name(const VectorCall *call) {              \
    const int64_t n = call->columns;                      \
    for (int64_t r = 0; r < call->rows; r++) {            \
      OUT *out = (OUT *)call->out + r * call->out_stride; \
      const Real *a = ROW(call, Real, 0, r);              \
      const Real *b = ROW(call, Real, 1, r);              \
      if (call->single == 0) {                            \
        SIMD_LOOP                                         \
        for (int64_t i = 0; i < n; i++) {                 \
          const Real x = a[i], y = b[i];                  \
          out[i] = (OUT)(value);                          \
        }                                                 \
      } else if (call->single == 1) {                     \
        const Real x = a[0];                              \
        SIMD_LOOP                                         \
        for (int64_t i = 0; i < n; i++) {                 \
          const Real y = b[i];                            \
          out[i] = (OUT)(value);                          \
        }                                                 \
      } else if (call->single == 2) {                     \
        const Real y = b[0];                              \
        SIMD_LOOP                                         \
        for (int64_t i = 0; i < n; i++) {                 \
          const Real x = a[i];                            \
          out[i] = (OUT)(value);                          \
        }                                                 \
      } else {                                            \
        const Real x = a[0], y = b[0];                    \
        const OUT result = (OUT)(value);                  \
        SIMD_LOOP                                         \
        for (int64_t i = 0; i < n; i++) {                 \
          out[i] = result;                                \
        }                                                 \
      }                                                   \
    }                                                     \
  }

BINARY(op_add, Real, x + y)
BINARY(op_sub, Real, x - y)
BINARY(op_mul, Real, x *y)
BINARY(op_div, Real, x / y)
BINARY(op_max, Real, real_larger(x, y))
BINARY(op_min, Real, real_smaller(x, y))
BINARY(op_pow, Real, REAL_POW(x, y))
BINARY(op_less, int32_t, x < y)
BINARY(op_less_equal, int32_t, x <= y)
BINARY(op_equal, int32_t, x == y)
UNARY(op_copy, Real, Real, x)
UNARY(op_neg, Real, Real, -x)
UNARY(op_abs, Real, Real, REAL_ABS(x))
UNARY(op_sign, Real, Real, x > 0 ? (Real)1 : x < 0 ? (Real)-1 : x)
UNARY(op_floor, Real, Real, REAL_FLOOR(x))
UNARY(op_power_of_two, Real, Real, power_of_two(x))
UNARY(op_exp, Real, Real, REAL_MATH(exp)(x))
UNARY(op_log, Real, Real, REAL_MATH(log)(x))
UNARY(op_sqrt, Real, Real, REAL_SQRT(x))
UNARY(op_rsqrt, Real, Real, 1 / REAL_SQRT(x))
UNARY(op_reciprocal, Real, Real, 1 / x)
UNARY(op_sin, Real, Real, REAL_MATH(sin)(x))
UNARY(op_cos, Real, Real, REAL_MATH(cos)(x))
UNARY(op_tanh, Real, Real, REAL_MATH(tanh)(x))
UNARY(op_sigmoid, Real, Real, REAL_MATH(sigmoid)(x))
UNARY(op_erf, Real, Real, REAL_MATH(erf)(x))
UNARY(op_is_finite, Real, int32_t, x - x == 0)
UNARY(op_to_real, int32_t, Real, x)
UNARY(op_to_int, Real, int32_t, real_to_int(x))

static inline void where_row(Real *out, const int32_t *a, const Real *b, const Real *c, int64_t n, unsigned single) {
  if (single == 0) {
    SIMD_LOOP
    for (int64_t i = 0; i < n; i++) {
      const Real x = b[i], y = c[i];
      out[i] = a[i] ? x : y;
    }
  } else if (single == 2) {
    const Real x = b[0];
    SIMD_LOOP
    for (int64_t i = 0; i < n; i++) {
      const Real y = c[i];
      out[i] = a[i] ? x : y;
    }
  } else if (single == 4) {
    const Real y = c[0];
    SIMD_LOOP
    for (int64_t i = 0; i < n; i++) {
      const Real x = b[i];
      out[i] = a[i] ? x : y;
    }
  } else {
    const Real x = b[0], y = c[0];
    SIMD_LOOP
    for (int64_t i = 0; i < n; i++) {
      out[i] = a[i] ? x : y;
    }
  }
}

static void op_where(const VectorCall *call) {
  for (int64_t r = 0; r < call->rows; r++) {
    Real *out = (Real *)call->out + r * call->out_stride;
    const int32_t *a = ROW(call, int32_t, 0, r);
    if ((call->single & 1) == 0) {
      where_row(out, a, ROW(call, Real, 1, r), ROW(call, Real, 2, r), call->columns, call->single);
      continue;
    }
    const int chosen = a[0] ? 1 : 2;
    VectorCall copy = {.out = out, .operand = {ROW(call, Real, chosen, r)}, .rows = 1, .columns = call->columns};
    copy.single = call->single >> chosen & 1;
    op_copy(&copy);
  }
}

// Loads, stores and accumulating stores of one element type.
#define MEMORY(type, T, decode, encode)                                                   \
  static void load_##type(void *values, const void *memory, int64_t stride, int64_t n) {  \
    Real *x = values;                                                                     \
    const T *from = memory;                                                               \
    if (stride == 1) {                                                                    \
      SIMD_LOOP                                                                           \
      for (int64_t i = 0; i < n; i++) {                                                   \
        x[i] = (Real)decode(from[i]);                                                     \
      }                                                                                   \
      return;                                                                             \
    }                                                                                     \
    for (int64_t i = 0; i < n; i++) {                                                     \
      x[i] = (Real)decode(from[i * stride]);                                              \
    }                                                                                     \
  }                                                                                       \
  static void store_##type(void *memory, int64_t stride, const void *values, int64_t n) { \
    const Real *x = values;                                                               \
    T *to = memory;                                                                       \
    if (stride == 1) {                                                                    \
      SIMD_LOOP                                                                           \
      for (int64_t i = 0; i < n; i++) {                                                   \
        to[i] = encode(x[i]);                                                             \
      }                                                                                   \
      return;                                                                             \
    }                                                                                     \
    for (int64_t i = 0; i < n; i++) {                                                     \
      to[i * stride] = encode(x[i]);                                                      \
    }                                                                                     \
  }                                                                                       \
  static void add_##type(void *memory, int64_t stride, const void *values, int64_t n) {   \
    const Real *x = values;                                                               \
    T *to = memory;                                                                       \
    if (stride == 1) {                                                                    \
      SIMD_LOOP                                                                           \
      for (int64_t i = 0; i < n; i++) {                                                   \
        to[i] = encode((Real)decode(to[i]) + x[i]);                                       \
      }                                                                                   \
      return;                                                                             \
    }                                                                                     \
    for (int64_t i = 0; i < n; i++) {                                                     \
      to[i * stride] = encode((Real)decode(to[i * stride]) + x[i]);                       \
    }                                                                                     \
  }

#define ENCODE_F64(x) ((double)(x))
#define ENCODE_F32(x) ((float)(x))
#define ENCODE_F16(x) f16_of_f32((float)(x))
#define ENCODE_BF16(x) bf16_of_f32((float)(x))
#define ENCODE_E4M3(x) e4m3_of_f32((float)(x))
#define ENCODE_E5M2(x) e5m2_of_f32((float)(x))
MEMORY(f64, double, (Real), ENCODE_F64)
MEMORY(f32, float, (Real), ENCODE_F32)
MEMORY(f16, uint16_t, f32_of_f16, ENCODE_F16)
MEMORY(bf16, uint16_t, f32_of_bf16, ENCODE_BF16)
MEMORY(e4m3, uint8_t, f32_of_e4m3, ENCODE_E4M3)
MEMORY(e5m2, uint8_t, f32_of_e5m2, ENCODE_E5M2)

#define MEMORY_TABLE(action)                                                                                      \
  {                                                                                                               \
    [TYPE_F64] = action##_f64, [TYPE_F32] = action##_f32, [TYPE_F16] = action##_f16, [TYPE_BF16] = action##_bf16, \
    [TYPE_E4M3] = action##_e4m3, [TYPE_E5M2] = action##_e5m2,                                                     \
  }

extern const SimdReal SIMD_REAL_NAME(simd_real);
const SimdReal SIMD_REAL_NAME(simd_real) = {
    .op =
        {
            [KERNEL_ADD] = op_add,
            [KERNEL_SUB] = op_sub,
            [KERNEL_MUL] = op_mul,
            [KERNEL_DIV] = op_div,
            [KERNEL_MAX] = op_max,
            [KERNEL_MIN] = op_min,
            [KERNEL_POW] = op_pow,
            [KERNEL_NEG] = op_neg,
            [KERNEL_ABS] = op_abs,
            [KERNEL_SIGN] = op_sign,
            [KERNEL_FLOOR] = op_floor,
            [KERNEL_POWER_OF_TWO] = op_power_of_two,
            [KERNEL_EXP] = op_exp,
            [KERNEL_LOG] = op_log,
            [KERNEL_SQRT] = op_sqrt,
            [KERNEL_RSQRT] = op_rsqrt,
            [KERNEL_RECIPROCAL] = op_reciprocal,
            [KERNEL_SIN] = op_sin,
            [KERNEL_COS] = op_cos,
            [KERNEL_TANH] = op_tanh,
            [KERNEL_SIGMOID] = op_sigmoid,
            [KERNEL_ERF] = op_erf,
            [KERNEL_IS_FINITE] = op_is_finite,
            [KERNEL_LESS] = op_less,
            [KERNEL_LESS_EQUAL] = op_less_equal,
            [KERNEL_EQUAL] = op_equal,
            [KERNEL_WHERE] = op_where,
            [KERNEL_TO_REAL] = op_to_real,
            [KERNEL_TO_INT] = op_to_int,
            [KERNEL_LOAD] = op_copy,
        },
    .sum = SIMD_REAL_NAME(simd_sum),
    .max = SIMD_REAL_NAME(simd_max),
    .min = SIMD_REAL_NAME(simd_min),
    .column_sum = SIMD_REAL_NAME(simd_column_sum),
    .column_max = SIMD_REAL_NAME(simd_column_max),
    .column_min = SIMD_REAL_NAME(simd_column_min),
    .scale_row = SIMD_REAL_NAME(simd_scale_row),
    .dot = SIMD_REAL_NAME(simd_dot),
    .product = SIMD_REAL_NAME(simd_product),
    .transpose = SIMD_REAL_NAME(simd_transpose),
    .attention_softmax = SIMD_REAL_NAME(simd_attention_softmax),
    .attention_gradient = SIMD_REAL_NAME(simd_attention_gradient),
    .load = MEMORY_TABLE(load),
    .store = MEMORY_TABLE(store),
    .add = MEMORY_TABLE(add),
    .uniform = SIMD_REAL_NAME(simd_uniform),
    .normal = SIMD_REAL_NAME(simd_normal),
};
