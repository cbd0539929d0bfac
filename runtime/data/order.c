// order.c: a hash of numbers, and a Feistel network over it.
#include "runtime/data/order.h"

uint64_t order_mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

int64_t data_permute(uint64_t key, int64_t count, int64_t index) {
  int half = 1;  // bits of one half of the Feistel network's block, which covers at least `count`
  while (half < 31 && (int64_t)1 << (2 * half) < count) {
    half++;
  }
  uint64_t mask = ((uint64_t)1 << half) - 1;
  uint64_t x = (uint64_t)index;
  do {  // walks the cycle until it is back inside: the block is at most four times as large
    uint64_t left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < 4; round++) {
      uint64_t next = left ^ (order_mix(key ^ order_mix(right ^ round << 56)) & mask);
      left = right;
      right = next;
    }
    x = left << half | right;
  } while (x >= (uint64_t)count);
  return (int64_t)x;
}
