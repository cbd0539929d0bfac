// shares.c: the first source gets the rounded product of a count and its share, the second its part of the rest, ...
#include "runtime/data/shares.h"

#include <math.h>
#include <stdlib.h>

bool shares_set(Shares *shares, const double *weights, int count) {
  double rest = 0;
  *shares = (Shares){count, malloc(sizeof(uint64_t) * (size_t)(count + 1))};
  if (!shares->part) {
    return false;
  }
  for (int i = count - 1; i >= 0; i--) {
    rest += weights[i];
    shares->part[i] = i + 1 == count ? UINT64_C(1) << 32 : rest > 0 ? (uint64_t)llround(weights[i] / rest * 0x1p32) : 0;
  }
  return true;
}

void shares_free(Shares *shares) {
  free(shares->part);
  *shares = (Shares){0};
}

// How many of the first `number` samples that reach it a source takes: rounded.
static int64_t taken(uint64_t part, int64_t number) {
  return (int64_t)(((unsigned __int128)part * (uint64_t)number + (UINT64_C(1) << 31)) >> 32);
}

int shares_find(const Shares *shares, int64_t number, int64_t *own) {
  for (int i = 0; i + 1 < shares->count; i++) {
    const int64_t before = taken(shares->part[i], number);
    if (taken(shares->part[i], number + 1) > before) {
      *own = before;
      return i;
    }
    number -= before;
  }
  *own = number;
  return shares->count - 1;
}
