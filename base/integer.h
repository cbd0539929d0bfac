// integer.h: the smaller and the larger of two sizes, and sizes in whole blocks.
#ifndef MDL_BASE_INTEGER_H
#define MDL_BASE_INTEGER_H

#include <stdint.h>

static inline int64_t min_i64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t max_i64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// The rest are for n >= 0.
static inline int64_t blocks_of(int64_t n, int64_t block) {  // that hold n
  return (n + block - 1) / block;
}

static inline int64_t round_up(int64_t n, int64_t to) {  // to a multiple
  return blocks_of(n, to) * to;
}

#endif
