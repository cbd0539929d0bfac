// bench_bursts.h: what benchmarks of single kernels share: numbers that draw as much power as real ones, and medians.
#ifndef MDL_TESTS_BENCH_BURSTS_H
#define MDL_TESTS_BENCH_BURSTS_H

#include "kernels/cpu/convert.h"
#include "tests/cuda_support.h"

// 16-bit numbers of a normal distribution: a table of them, in another order for each tensor.
static inline CudaAddress bursts_numbers(const Gpu *gpu, int64_t count, int tensor) {
  enum { TABLE = 1 << 16 };
  static uint16_t table[TABLE];
  CudaDraw draw = {5};
  for (int i = 0; i < TABLE && table[0] == 0; i++) {
    double sum = 0;
    for (int j = 0; j < 12; j++) {
      sum += cuda_draw_real(&draw) / 2;
    }
    table[TABLE - 1 - i] = bf16_of_f32((float)sum);
  }
  uint16_t *const numbers = malloc((size_t)count * sizeof *numbers);
  for (int64_t i = 0; i < count; i++) {
    numbers[i] = table[(i * 7919 + tensor * 131 + (i >> 13) * 17) % TABLE];
  }
  const CudaAddress made = gpu_memory(gpu, numbers, count * 2);
  free(numbers);
  return made;
}

static inline int bursts_by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static inline double bursts_median(double *seconds, int count) {  // sorts them
  qsort(seconds, (size_t)count, sizeof *seconds, bursts_by_size);
  return seconds[count / 2];
}

#endif
