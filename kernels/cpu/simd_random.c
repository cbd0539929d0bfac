// simd_random.c: arrays of random numbers; see random.h for what they are.
#include <math.h>

#include "kernels/cpu/random.h"
#include "kernels/cpu/simd_real.h"

enum { RANDOM_BLOCKS = 64 };

typedef struct {
  uint32_t word[4][RANDOM_BLOCKS];
} RandomWords;

// The words of blocks first, first + 1, ...: word w of block b is word[w][b - first].
static void random_words(RandomWords *words, RandomKey key, int64_t first, int64_t count) {
  SIMD_LOOP
  for (int64_t i = 0; i < count; i++) {
    const uint64_t block = (uint64_t)first + (uint64_t)i;
    uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), key.step, 0};
    philox(c, key.key);
    words->word[0][i] = c[0];
    words->word[1][i] = c[1];
    words->word[2][i] = c[2];
    words->word[3][i] = c[3];
  }
}

static Real uniform_of_words(const RandomWords *words, int64_t block, int64_t lane) {
  return (Real)(words->word[lane][block] >> 8) * (Real)0x1p-24;
}

static Real normal_of_words(const RandomWords *words, int64_t block, int64_t lane) {
  const uint32_t u = words->word[lane & 2][block], v = words->word[lane | 1][block];
  const double radius = sqrt(-2.0 * log(((double)u + 1.0) * 0x1p-32));
  const double angle = (double)v * (0x1p-31 * 3.14159265358979323846);
  return (Real)(radius * ((lane & 1) != 0 ? sin(angle) : cos(angle)));
}

static inline void random_fill(Real *x, RandomKey key, int64_t index, int64_t stride, int64_t n, int normal) {
  RandomWords words;
  for (int64_t i = 0; i < n;) {
    const int64_t at = (int64_t)((uint64_t)index + (uint64_t)i * (uint64_t)stride), first = at >> 2, begin = at & 3;
    const int64_t left = stride == 1 ? begin + n - i : begin + 1;
    const int64_t end = left < 4 * RANDOM_BLOCKS ? left : 4 * RANDOM_BLOCKS;
    random_words(&words, key, first, (end + 3) / 4);
    for (int64_t k = begin; k < end; k++) {
      x[i++] = normal ? normal_of_words(&words, k >> 2, k & 3) : uniform_of_words(&words, k >> 2, k & 3);
    }
  }
}

void SIMD_REAL_NAME(simd_uniform)(void *x, RandomKey key, int64_t index, int64_t stride, int64_t n) {
  random_fill(x, key, index, stride, n, 0);
}

void SIMD_REAL_NAME(simd_normal)(void *x, RandomKey key, int64_t index, int64_t stride, int64_t n) {
  random_fill(x, key, index, stride, n, 1);
}
