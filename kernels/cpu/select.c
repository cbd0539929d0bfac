// select.c: which instruction set this processor has.
#include "kernels/cpu/simd.h"

#define DECLARE(isa)                                              \
  extern const SimdReal simd_real_f32_##isa, simd_real_f64_##isa; \
  extern const SimdInteger simd_integer_##isa;
#define TABLE(isa) \
  { #isa, &simd_real_f32_##isa, &simd_real_f64_##isa, &simd_integer_##isa }

DECLARE(base)
#if defined(__x86_64__)
DECLARE(avx2)
DECLARE(avx512)
#endif

static const Simd tables[] = {
#if defined(__x86_64__)
    TABLE(avx512),
    TABLE(avx2),
#endif
    TABLE(base),
};

enum { TABLE_COUNT = sizeof tables / sizeof tables[0] };

static bool runs_here(int index) {
#if defined(__x86_64__)
  if (index == 0) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
  }
  if (index == 1) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  }
#endif
  return index == TABLE_COUNT - 1;
}

const Simd *simd_at(int index) {
  for (int i = 0; i < TABLE_COUNT; i++) {
    if (runs_here(i) && index-- == 0) {
      return &tables[i];
    }
  }
  return NULL;
}

const Simd *simd_select(void) {
  return simd_at(0);
}
