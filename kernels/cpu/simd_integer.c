// simd_integer.c: the elementwise operations on 32-bit integers; arithmetic wraps.
#include "kernels/cpu/simd.h"

#define ROW(call, which, r) ((const int32_t *)(call)->operand[which] + (r) * (call)->stride[which])

static inline int32_t wrap_add(int32_t x, int32_t y) {
  return (int32_t)((uint32_t)x + (uint32_t)y);
}

static inline int32_t wrap_sub(int32_t x, int32_t y) {
  return (int32_t)((uint32_t)x - (uint32_t)y);
}

static inline int32_t wrap_mul(int32_t x, int32_t y) {
  return (int32_t)((uint32_t)x * (uint32_t)y);
}

// Division towards minus infinity; by zero gives 0. In double, where it is exact, so that loops become vector code.
static inline int32_t floor_div(int32_t x, int32_t y) {
  const double quotient = (double)x / (double)(y == 0 ? 1 : y);
  const int64_t towards_zero = (int64_t)quotient;
  const int64_t down = towards_zero - ((double)towards_zero > quotient ? 1 : 0);
  return y == 0 ? 0 : (int32_t)(uint32_t)(uint64_t)down;
}

static inline int32_t floor_mod(int32_t x, int32_t y) {
  return y == 0 ? 0 : wrap_sub(x, wrap_mul(floor_div(x, y), y));
}

#define LOOP(value)                 \
  SIMD_LOOP                         \
  for (int64_t i = 0; i < n; i++) { \
    out[i] = (value);               \
  }

#define BINARY(name, value)                                       \
  static void name(const VectorCall *call) {                      \
    const int64_t n = call->columns;                              \
    for (int64_t r = 0; r < call->rows; r++) {                    \
      int32_t *out = (int32_t *)call->out + r * call->out_stride; \
      const int32_t *a = ROW(call, 0, r), *b = ROW(call, 1, r);   \
      if (call->single == 0) {                                    \
        SIMD_LOOP                                                 \
        for (int64_t i = 0; i < n; i++) {                         \
          const int32_t x = a[i], y = b[i];                       \
          out[i] = (value);                                       \
        }                                                         \
      } else if (call->single == 1) {                             \
        const int32_t x = a[0];                                   \
        SIMD_LOOP                                                 \
        for (int64_t i = 0; i < n; i++) {                         \
          const int32_t y = b[i];                                 \
          out[i] = (value);                                       \
        }                                                         \
      } else if (call->single == 2) {                             \
        const int32_t y = b[0];                                   \
        SIMD_LOOP                                                 \
        for (int64_t i = 0; i < n; i++) {                         \
          const int32_t x = a[i];                                 \
          out[i] = (value);                                       \
        }                                                         \
      } else {                                                    \
        const int32_t x = a[0], y = b[0];                         \
        const int32_t result = (value);                           \
        LOOP(result)                                              \
      }                                                           \
    }                                                             \
  }

BINARY(int_add, wrap_add(x, y))
BINARY(int_sub, wrap_sub(x, y))
BINARY(int_mul, wrap_mul(x, y))
BINARY(int_div, floor_div(x, y))
BINARY(int_mod, floor_mod(x, y))
BINARY(int_max, x > y ? x : y)
BINARY(int_min, x < y ? x : y)
BINARY(int_less, x < y)
BINARY(int_less_equal, x <= y)
BINARY(int_equal, x == y)
BINARY(int_and, (x != 0) & (y != 0))
BINARY(int_or, (x != 0) | (y != 0))

static void int_not(const VectorCall *call) {
  const int64_t n = call->columns;
  for (int64_t r = 0; r < call->rows; r++) {
    int32_t *out = (int32_t *)call->out + r * call->out_stride;
    const int32_t *a = ROW(call, 0, r);
    const int64_t step = call->single ? 0 : 1;
    SIMD_LOOP
    for (int64_t i = 0; i < n; i++) {
      out[i] = a[i * step] == 0;
    }
  }
}

static void int_copy(const VectorCall *call) {
  const int64_t n = call->columns;
  for (int64_t r = 0; r < call->rows; r++) {
    int32_t *out = (int32_t *)call->out + r * call->out_stride;
    const int32_t *a = ROW(call, 0, r);
    const int64_t step = call->single ? 0 : 1;
    SIMD_LOOP
    for (int64_t i = 0; i < n; i++) {
      out[i] = a[i * step];
    }
  }
}

static void int_where(const VectorCall *call) {
  const int64_t n = call->columns;
  const int64_t sa = call->single & 1 ? 0 : 1, sb = call->single & 2 ? 0 : 1, sc = call->single & 4 ? 0 : 1;
  for (int64_t r = 0; r < call->rows; r++) {
    int32_t *out = (int32_t *)call->out + r * call->out_stride;
    const int32_t *a = ROW(call, 0, r), *b = ROW(call, 1, r), *c = ROW(call, 2, r);
    for (int64_t i = 0; i < n; i++) {
      const int32_t x = b[i * sb], y = c[i * sc];
      out[i] = a[i * sa] ? x : y;
    }
  }
}

static void int_load(int32_t *x, const int32_t *memory, int64_t stride, int64_t n) {
  SIMD_LOOP
  for (int64_t i = 0; i < n; i++) {
    x[i] = memory[i * stride];
  }
}

static void int_store(int32_t *memory, int64_t stride, const int32_t *x, int64_t n) {
  SIMD_LOOP
  for (int64_t i = 0; i < n; i++) {
    memory[i * stride] = x[i];
  }
}

static void int_add_to(int32_t *memory, int64_t stride, const int32_t *x, int64_t n) {
  SIMD_LOOP
  for (int64_t i = 0; i < n; i++) {
    memory[i * stride] = wrap_add(memory[i * stride], x[i]);
  }
}

static void int_iota(int32_t *x, int64_t first, int64_t stride, int64_t n) {
  SIMD_LOOP
  for (int64_t i = 0; i < n; i++) {
    x[i] = (int32_t)(uint32_t)(uint64_t)(first + i * stride);
  }
}

extern const SimdInteger SIMD_NAME(simd_integer);
const SimdInteger SIMD_NAME(simd_integer) = {
    .op =
        {
            [KERNEL_INT_ADD] = int_add,
            [KERNEL_INT_SUB] = int_sub,
            [KERNEL_INT_MUL] = int_mul,
            [KERNEL_INT_DIV] = int_div,
            [KERNEL_INT_MOD] = int_mod,
            [KERNEL_INT_MAX] = int_max,
            [KERNEL_INT_MIN] = int_min,
            [KERNEL_INT_LESS] = int_less,
            [KERNEL_INT_LESS_EQUAL] = int_less_equal,
            [KERNEL_INT_EQUAL] = int_equal,
            [KERNEL_INT_WHERE] = int_where,
            [KERNEL_AND] = int_and,
            [KERNEL_OR] = int_or,
            [KERNEL_NOT] = int_not,
            [KERNEL_LOAD] = int_copy,
        },
    .load = int_load,
    .store = int_store,
    .add = int_add_to,
    .iota = int_iota,
};
