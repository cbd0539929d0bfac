// random.h: Philox-4x32-10 (Salmon, Moraes, Dror, Shaw 2011) and how random values are made from it.
//
// A value depends on key, step and logical index only. Block b = index / 4 is Philox of the counter
// (low 32 bits of b, high 32 bits of b, step, 0) under the key (low, high); it gives four words w0..w3.
//   uniform, index i: (w[i % 4] >> 8) / 2^24, exact in f32 and f64, in [0, 1)
//   normal, index i: Box-Muller in f64 of the pair (u, v) = (w0, w1) for i % 4 < 2, else (w2, w3):
//     sqrt(-2 ln((u + 1) / 2^32)) times cos(2 pi v / 2^32) for even i, sin for odd i; then rounded
#ifndef MDL_KERNELS_CPU_RANDOM_H
#define MDL_KERNELS_CPU_RANDOM_H

#include <stdint.h>

static inline void philox_round(uint32_t c[4], uint32_t k0, uint32_t k1) {
  const uint64_t p0 = (uint64_t)c[0] * 0xD2511F53u, p1 = (uint64_t)c[2] * 0xCD9E8D57u;
  const uint32_t c1 = c[1], c3 = c[3];
  c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
  c[1] = (uint32_t)p1;
  c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
  c[3] = (uint32_t)p0;
}

static inline void philox(uint32_t c[4], uint64_t key) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int i = 0; i < 10; i++) {
    philox_round(c, k0, k1);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

#endif
