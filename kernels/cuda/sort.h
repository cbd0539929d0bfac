// sort.h: a stable sort by digits as text/sort.cu makes it, for PUT and ORDER.
#ifndef MDL_KERNELS_CUDA_SORT_H
#define MDL_KERNELS_CUDA_SORT_H

#include "base/buffer.h"
#include "kernels/cuda/kernel.h"

typedef struct {
  int64_t keys, tile, blocks, digits;
  int threads;
} Sorting;

// Of so many keys by a digit with so many values.
Sorting sorting_of(int64_t keys, int64_t digits);

// The constants of a text that sorts: a pass sees `bits` bits of a key, and digits begin at multiples of `align`.
void sorting_write(Buffer *text, const Sorting *sorting, int bits, int64_t align);

int64_t sorting_scratch(const Sorting *sorting);  // bytes of what is counted
void sorting_launch(CudaKernel *made, const Sorting *sorting, const char *count, const char *place, int64_t more);
int64_t sorting_shared(const Sorting *sorting);  // bytes, of a thread block

#endif
