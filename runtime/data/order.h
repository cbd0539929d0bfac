// order.h: the order in which windows are visited.
#ifndef MDL_RUNTIME_DATA_ORDER_H
#define MDL_RUNTIME_DATA_ORDER_H

#include <stdint.h>

// The finaliser of splitmix64: every bit of the result depends on every bit of x.
uint64_t order_mix(uint64_t x);

// A permutation of [0, count) chosen by the key.
int64_t data_permute(uint64_t key, int64_t count, int64_t index);

#endif
