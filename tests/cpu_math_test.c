// cpu_math_test.c: the vector loops of every instruction set that this machine has, against libm.
#include "kernels/cpu/convert.h"
#include "kernels/cpu/random.h"
#include "kernels/cpu/simd.h"
#include "tests/cpu_support.h"
#include "tests/kernel_reference.h"

enum { LENGTH = 1000 };

// Distance of an f32 from the exact value in units of its last place.
static double ulps(float got, double exact) {
  if (isnan(exact) || isinf(exact) || isnan(got) || isinf(got)) {
    const float rounded = (float)exact;
    return (isnan(got) && isnan(rounded)) || got == rounded ? 0 : INFINITY;
  }
  const double place = ldexp(1.0, (fabs(exact) < 0x1p-126 ? -126 : ilogb(exact)) - 23);
  return fabs((double)got - exact) / place;
}

typedef struct {
  KernelOp op;
  double low, high, bound;  // bound in ulp for f32
} Range;

static const Range ranges[] = {
    {KERNEL_EXP, -104, 89, 2},   {KERNEL_EXP, -1, 1, 2},          {KERNEL_LOG, 0, 4, 1},
    {KERNEL_LOG, 0, 1e30, 1},    {KERNEL_LOG, 0, 1e-39, 1},       {KERNEL_TANH, -12, 12, 2},
    {KERNEL_TANH, -0.7, 0.7, 2}, {KERNEL_TANH, -1e-5, 1e-5, 1},   {KERNEL_SIGMOID, -100, 100, 3},
    {KERNEL_SIGMOID, -5, 5, 3},  {KERNEL_SIN, -10, 10, 1},        {KERNEL_SIN, -1e5, 1e5, 1},
    {KERNEL_COS, -10, 10, 1},    {KERNEL_COS, -1e5, 1e5, 1},      {KERNEL_COS, -1e6, 1e6, 1},
    {KERNEL_ERF, -5, 5, 2},      {KERNEL_ERF, -1e-3, 1e-3, 2},    {KERNEL_SQRT, 0, 100, 0.6},
    {KERNEL_RSQRT, 0, 100, 2},   {KERNEL_RECIPROCAL, -9, 9, 0.6}, {KERNEL_POW, 0, 20, 1},
};

static void check_range(const Simd *simd, const Range *range, Draw *random) {
  float x[LENGTH], y[LENGTH], out[LENGTH];
  for (int round = 0; round < 60; round++) {
    for (int i = 0; i < LENGTH; i++) {
      x[i] = (float)draw_real(random, range->low, range->high);
      y[i] = (float)draw_real(random, -3, 3);
    }
    const VectorCall call = {.out = out, .operand = {x, y}, .rows = 1, .columns = LENGTH};
    simd->f32->op[range->op](&call);
    for (int i = 0; i < LENGTH; i++) {
      const double exact = reference_real(range->op, (double)x[i], (double)y[i], 0);
      if (ulps(out[i], exact) > range->bound) {
        fail_msg("%s: f32 %s(%.9g) = %.9g, which is %.2f ulp from %.17g", simd->name, kernel_op_name(range->op),
                 (double)x[i], (double)out[i], ulps(out[i], exact), exact);
      }
    }
  }
}

static void functions_are_accurate(void **state) {
  (void)state;
  for (int s = 0; simd_at(s); s++) {
    Draw random = {17};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
      check_range(simd_at(s), &ranges[i], &random);
    }
  }
}

static void special_values(void **state) {
  (void)state;
  static const float special[] = {0.0f,  -0.0f,  INFINITY, -INFINITY, NAN,    1e-45f, -1e-45f, 1.0f,   -1.0f,
                                  88.8f, -87.4f, -104.0f,  1e38f,     -1e38f, 3.5f,   -3.5f,   1e-38f, 0x1p31f};
  static const KernelOp ops[] = {KERNEL_EXP,        KERNEL_LOG,  KERNEL_SQRT,  KERNEL_RSQRT,
                                 KERNEL_RECIPROCAL, KERNEL_TANH, KERNEL_ERF,   KERNEL_ABS,
                                 KERNEL_NEG,        KERNEL_SIGN, KERNEL_FLOOR, KERNEL_POWER_OF_TWO,
                                 KERNEL_MAX,        KERNEL_MIN,  KERNEL_DIV,   KERNEL_SIGMOID};
  enum { COUNT = sizeof special / sizeof special[0] };
  for (int s = 0; simd_at(s); s++) {
    for (size_t n = 0; n < sizeof ops / sizeof ops[0]; n++) {
      for (int shift = 0; shift < COUNT; shift++) {
        float y[COUNT], out[COUNT];
        for (int i = 0; i < COUNT; i++) {
          y[i] = special[(i + shift) % COUNT];
        }
        const VectorCall call = {.out = out, .operand = {special, y}, .rows = 1, .columns = COUNT};
        simd_at(s)->f32->op[ops[n]](&call);
        for (int i = 0; i < COUNT; i++) {
          const double exact = reference_real(ops[n], (double)special[i], (double)y[i], 0);
          if (ulps(out[i], exact) > 3) {
            fail_msg("%s: %s(%g, %g) = %g, not %g", simd_at(s)->name, kernel_op_name(ops[n]), (double)special[i],
                     (double)y[i], (double)out[i], exact);
          }
        }
      }
    }
  }
}

// Operands of a block: real or integer values as the operation takes them.
static void fill_operands(KernelOp op, bool f64, Draw *random, void *const *operand, double *exact, int count) {
  for (int k = 0; k < 3; k++) {
    const bool integer = (op >= KERNEL_INT_ADD && op <= KERNEL_TO_REAL) || (op == KERNEL_WHERE && k == 0);
    for (int i = 0; i < count; i++) {
      const double value = integer ? (double)(draw_below(random, 9) - 4) : draw_real(random, 0.05, 4.0);
      element_set_at(integer ? TYPE_INT : f64 ? TYPE_F64 : TYPE_F32, operand[k], i, value);
      exact[k * count + i] = element_at(integer ? TYPE_INT : f64 ? TYPE_F64 : TYPE_F32, operand[k], i);
    }
  }
}

static bool gives_integer(KernelOp op) {
  return (op >= KERNEL_IS_FINITE && op <= KERNEL_EQUAL) || (op >= KERNEL_INT_ADD && op <= KERNEL_NOT) ||
         op == KERNEL_TO_INT;
}

// One operation with one choice of operands that are single in a row; rows are further apart than they are long.
static void check_form(const Simd *simd, KernelOp op, bool f64, unsigned single, int rows, int columns, Draw *random) {
  enum { MAX = 9 * 210, GAP = 3 };
  static double memory[4][MAX], exact[3 * MAX];
  const SimdReal *real = f64 ? simd->f64 : simd->f32;
  const VectorFn fn = simd->integer->op[op] && op != KERNEL_LOAD ? simd->integer->op[op] : real->op[op];
  const ElementType type = gives_integer(op) ? TYPE_INT : f64 ? TYPE_F64 : TYPE_F32;
  fill_operands(op, f64, random, (void *[]){memory[0], memory[1], memory[2]}, exact, MAX);
  memset(memory[3], 0xff, sizeof memory[3]);
  VectorCall call = {.out = memory[3], .operand = {memory[0], memory[1], memory[2]}, .rows = rows, .columns = columns};
  call.single = single;
  call.out_stride = columns + GAP;
  for (int k = 0; k < 3; k++) {
    call.stride[k] = (single >> k & 1) != 0 ? 1 : columns + k;
  }
  fn(&call);
  for (int r = 0; r < rows; r++) {
    for (int i = 0; i < columns + GAP && r * (columns + GAP) + i < MAX; i++) {
      double x[3];
      for (int k = 0; k < 3; k++) {
        x[k] = exact[k * MAX + r * call.stride[k] + ((single >> k & 1) != 0 ? 0 : i)];
      }
      const double got = element_at(type, memory[3], r * (columns + GAP) + i);
      double wanted =
          gives_integer(op) ? reference_integer(op, x[0], x[1], x[2]) : reference_real(op, x[0], x[1], x[2]);
      wanted = i < columns ? wanted : type == TYPE_INT ? -1 : NAN;
      if (!real_near(got, wanted, f64 ? 1e-14 : 1e-6)) {
        fail_msg("%s %s: %s single %u at row %d column %d of %dx%d: %g, not %g", simd->name, f64 ? "f64" : "f32",
                 kernel_op_name(op), single, r, i, rows, columns, got, wanted);
      }
    }
  }
}

static void operations_in_all_forms(void **state) {
  (void)state;
  static const int sizes[] = {1, 2, 7, 16, 33, 200};
  for (int s = 0; simd_at(s); s++) {
    Draw random = {99};
    for (KernelOp op = KERNEL_ADD; op <= KERNEL_TO_INT; op++) {
      for (unsigned single = 0; single < 1u << kernel_op_operands(op); single++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
          check_form(simd_at(s), op, true, single, 1 + (int)i, sizes[i], &random);
          check_form(simd_at(s), op, false, single, 1 + (int)i, sizes[i], &random);
        }
      }
    }
  }
}

static void sums_keep_precision(void **state) {
  (void)state;
  enum { COUNT = 1000003 };
  float *x = malloc(sizeof *x * COUNT);
  Draw random = {5};
  double exact = 0;
  for (int i = 0; i < COUNT; i++) {
    x[i] = (float)draw_real(&random, 0, 1);
    exact += (double)x[i];
  }
  for (int s = 0; simd_at(s); s++) {
    const SimdReal *real = simd_at(s)->f32;
    assert_true(fabs(real->sum(x, COUNT) / exact - 1) < 1e-7);
    // As one column of a million rows, in blocks of 16 rows.
    float total = 0, lost = 0;
    for (int i = 0; i + 16 <= COUNT; i += 16) {
      real->column_sum(&total, &lost, x + i, 16, 1, 1);
    }
    assert_true(fabs((double)total / exact - 1) < 1e-5);
  }
  free(x);
}

static void extremes_see_nan(void **state) {
  (void)state;
  for (int s = 0; simd_at(s); s++) {
    for (int n = 1; n < 200; n += 7) {
      float x[200];
      for (int i = 0; i < n; i++) {
        x[i] = (float)(i * 37 % 101) - 50;
      }
      double most = -INFINITY, least = INFINITY;
      for (int i = 0; i < n; i++) {
        most = fmax(most, (double)x[i]);
        least = fmin(least, (double)x[i]);
      }
      assert_true(simd_at(s)->f32->max(x, n) == most);
      assert_true(simd_at(s)->f32->min(x, n) == least);
      x[n / 2] = NAN;
      assert_true(isnan(simd_at(s)->f32->max(x, n)));
      assert_true(isnan(simd_at(s)->f32->min(x, n)));
    }
  }
}

// All codes of the small formats there and back, and that halves go to the nearest, ties to even.
static void small_formats(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 65536; i++) {
    const float half = f32_of_f16((uint16_t)i), brain = f32_of_bf16((uint16_t)i);
    assert_true(isnan(half) || f16_of_f32(half) == i);
    assert_true(isnan(brain) || bf16_of_f32(brain) == i);
  }
  for (uint32_t i = 0; i < 256; i++) {
    const float a = f32_of_e4m3((uint8_t)i), b = f32_of_e5m2((uint8_t)i);
    assert_true(isnan(a) || e4m3_of_f32(a) == i);
    assert_true(isnan(b) || isinf(b) || e5m2_of_f32(b) == i);
  }
  assert_true(f32_of_e4m3(0x7e) == 448.0f && isnan(f32_of_e4m3(0x7f)));
  assert_true(f32_of_e5m2(0x7b) == 57344.0f && isinf(f32_of_e5m2(0x7c)));
  assert_true(f32_of_f16(0x7bff) == 65504.0f && f32_of_f16(1) == 0x1p-24f);
  assert_int_equal(f16_of_f32(65519.0f), 0x7bff);
  assert_int_equal(f16_of_f32(65520.0f), 0x7c00);
  assert_int_equal(f16_of_f32(1.0f + 0x1p-11f), 0x3c00);
  assert_int_equal(f16_of_f32(1.0f + 3 * 0x1p-11f), 0x3c02);
  assert_int_equal(f16_of_f32(0x1p-25f), 0);
  assert_int_equal(bf16_of_f32(1.0f + 0x1p-8f), 0x3f80);
  assert_int_equal(bf16_of_f32(1.0f + 3 * 0x1p-8f), 0x3f82);
  assert_true(isnan(f32_of_bf16(bf16_of_f32(NAN))) && isnan(f32_of_f16(f16_of_f32(NAN))));
}

// --- 8 bits, against what the formats mean: a sign, an exponent and a mantissa ---

typedef struct {
  ElementType type;
  int mantissa, bias;
  uint8_t largest;  // the code of the largest number, which is even in neither
} Quarter;

static const Quarter quarters[] = {{TYPE_E4M3, 3, 7, 0x7e}, {TYPE_E5M2, 2, 15, 0x7b}};

static double quarter_value(const Quarter *q, int code) {  // of a finite code without its sign
  const int exponent = code >> q->mantissa, mantissa = code & ((1 << q->mantissa) - 1), one = 1 << q->mantissa;
  return exponent == 0 ? mantissa * pow(2, 1 - q->bias - q->mantissa)
                       : (mantissa + one) * pow(2, exponent - q->bias - q->mantissa);
}

// The nearest of all numbers that the format has; of two equally near ones that with the even code.
static int quarter_nearest(const Quarter *q, float x) {
  if (isnan(x)) {
    return 0x7f;
  }
  const double size = fabs((double)x);
  int low = 0, high = q->largest;  // the number lies from `low` up
  if (size >= quarter_value(q, high)) {
    return high;
  }
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    *(quarter_value(q, middle) <= size ? &low : &high) = middle;
  }
  const double below = size - quarter_value(q, low), above = quarter_value(q, high) - size;
  return below < above ? low : above < below ? high : low % 2 ? high : low;
}

static void check_quarters(const Quarter *q, const float *x, int count) {
  uint8_t code[256];
  for (int s = 0; simd_at(s); s++) {
    simd_at(s)->f32->store[q->type](code, 1, x, count);
    for (int i = 0; i < count; i++) {
      const int wanted = quarter_nearest(q, x[i]) | (signbit(x[i]) ? 0x80 : 0);
      if (code[i] != wanted) {
        fail_msg("%s of %a is %02x, not %02x", element_type_name(q->type), (double)x[i], code[i], (unsigned)wanted);
      }
    }
  }
}

// All codes are read as what they mean.
static void quarters_read(void **state) {
  (void)state;
  for (size_t k = 0; k < 2; k++) {
    const Quarter *q = &quarters[k];
    uint8_t code[256];
    float read[256];
    for (int i = 0; i < 256; i++) {
      code[i] = (uint8_t)i;
    }
    for (int s = 0; simd_at(s); s++) {
      simd_at(s)->f32->load[q->type](read, code, 1, 256);
      for (int i = 0; i < 256; i++) {
        const int size = i & 0x7f;
        const double sign = i & 0x80 ? -1 : 1;
        assert_true((signbit(read[i]) != 0) == (i >= 0x80));
        if (size <= q->largest) {
          assert_true((double)read[i] == sign * quarter_value(q, size));
        } else if (q->type == TYPE_E5M2 && size == 0x7c) {
          assert_true(isinf(read[i]));
        } else {
          assert_true(isnan(read[i]));
        }
      }
    }
  }
}

// Every number of either format, the middles between neighbours, and what lies one f32 beside any of them; what
// is too large, too small, infinite or no number; and many others.
static void quarters_round(void **state) {
  (void)state;
  uint32_t random = 12345;
  for (size_t k = 0; k < 2; k++) {
    const Quarter *q = &quarters[k];
    for (int code = 0; code < q->largest; code++) {
      const double value = quarter_value(q, code), next = quarter_value(q, code + 1);
      const float at = (float)value, middle = (float)((value + next) / 2);
      const float x[] = {at,      nextafterf(at, INFINITY),      nextafterf(at, 0),
                         middle,  nextafterf(middle, INFINITY),  nextafterf(middle, 0),
                         -at,     -nextafterf(at, INFINITY),     -nextafterf(at, 0),
                         -middle, -nextafterf(middle, INFINITY), -nextafterf(middle, 0)};
      check_quarters(q, x, sizeof x / sizeof *x);
    }
    const float largest = (float)quarter_value(q, q->largest);
    const float odd[] = {0.0f,        -0.0f,  largest, -largest, largest * 1.01f, largest * 1.1f,
                         largest * 2, 3e38f,  -3e38f,  INFINITY, -INFINITY,       NAN,
                         -NAN,        1e-45f, -1e-45f, 1e-38f};
    check_quarters(q, odd, sizeof odd / sizeof *odd);
    for (int i = 0; i < 4096; i++) {
      float x[64];
      for (int j = 0; j < 64; j++) {
        random = random * 1664525u + 1013904223u;
        x[j] = f32_of_bits((random & 0x8fffffffu) | (i % 4 ? 0x38000000u : 0u) | (random >> 7 & 0x70000000u));
      }
      check_quarters(q, x, 64);
    }
  }
}

// The vectors published with Random123, and the definition of our values in random.h.
static void philox_is_philox(void **state) {
  (void)state;
  uint32_t zero[4] = {0}, ones[4] = {~0u, ~0u, ~0u, ~0u}, pi[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
  philox(zero, 0);
  philox(ones, ~(uint64_t)0);
  philox(pi, 0x299f31d0a4093822u);
  const uint32_t zero_wanted[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const uint32_t ones_wanted[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  const uint32_t pi_wanted[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  assert_memory_equal(zero, zero_wanted, sizeof zero);
  assert_memory_equal(ones, ones_wanted, sizeof ones);
  assert_memory_equal(pi, pi_wanted, sizeof pi);
}

static double uniform_wanted(RandomKey key, int64_t index) {
  uint32_t c[4] = {(uint32_t)((uint64_t)index >> 2), (uint32_t)((uint64_t)index >> 34), key.step, 0};
  philox(c, key.key);
  return (double)(c[index & 3] >> 8) / 16777216.0;
}

static double normal_wanted(RandomKey key, int64_t index) {
  uint32_t c[4] = {(uint32_t)((uint64_t)index >> 2), (uint32_t)((uint64_t)index >> 34), key.step, 0};
  philox(c, key.key);
  const double u = ((double)c[index & 2] + 1) / 4294967296.0, v = (double)c[(index & 3) | 1] / 4294967296.0;
  const double angle = 6.283185307179586 * v;
  return sqrt(-2 * log(u)) * (index & 1 ? sin(angle) : cos(angle));
}

static void random_arrays(void **state) {
  (void)state;
  static const int64_t starts[] = {0, 1, 2, 3, 1021, ((int64_t)1 << 34) - 5, INT64_MAX - 3900};
  const RandomKey key = {0x123456789abcdef0u, 42};
  for (int s = 0; simd_at(s); s++) {
    for (int n = 0; n < 7 * 4; n++) {
      const int64_t start = starts[n / 4], stride = n % 4 == 3 ? 5 : n % 4 == 2 ? 0 : 1, count = n % 4 ? 3 : 777;
      float u32[777], n32[777];
      double u64[777], n64[777];
      simd_at(s)->f32->uniform(u32, key, start, stride, count);
      simd_at(s)->f64->uniform(u64, key, start, stride, count);
      simd_at(s)->f32->normal(n32, key, start, stride, count);
      simd_at(s)->f64->normal(n64, key, start, stride, count);
      for (int64_t i = 0; i < count; i++) {
        assert_true((double)u32[i] == uniform_wanted(key, start + i * stride) && u64[i] == (double)u32[i]);
        const double wanted = normal_wanted(key, start + i * stride);
        assert_true(fabs(n64[i] - wanted) < 1e-14 * fmax(1, fabs(wanted)) && n32[i] == (float)n64[i]);
      }
    }
  }
}

static void random_statistics(void **state) {
  (void)state;
  enum { COUNT = 200000 };
  double *x = malloc(sizeof *x * COUNT);
  double mean = 0, square = 0, fourth = 0, product = 0;
  simd_select()->f64->normal(x, (RandomKey){7, 3}, 0, 1, COUNT);
  for (int i = 0; i < COUNT; i++) {
    mean += x[i] / COUNT;
    square += x[i] * x[i] / COUNT;
    fourth += x[i] * x[i] * x[i] * x[i] / COUNT;
    product += x[i] * x[(i + 1) % COUNT] / COUNT;
  }
  assert_true(fabs(mean) < 0.01 && fabs(square - 1) < 0.02 && fabs(fourth - 3) < 0.1 && fabs(product) < 0.01);
  free(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_are_accurate),  cmocka_unit_test(special_values),
      cmocka_unit_test(operations_in_all_forms), cmocka_unit_test(sums_keep_precision),
      cmocka_unit_test(extremes_see_nan),        cmocka_unit_test(small_formats),
      cmocka_unit_test(quarters_read),           cmocka_unit_test(quarters_round),
      cmocka_unit_test(philox_is_philox),        cmocka_unit_test(random_arrays),
      cmocka_unit_test(random_statistics),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
