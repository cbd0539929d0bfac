// warpgroups.h: what kernels of sm_90a have in common: products of warpgroups, of which one copies and others multiply.
#ifndef MDL_KERNELS_CUDA_WARPGROUPS_H
#define MDL_KERNELS_CUDA_WARPGROUPS_H

#include "base/buffer.h"
#include "kernels/cuda/kernel.h"

typedef struct {
  int64_t consumers, stages;
  int copier_registers, consumer_registers;
} Warpgroups;

// Operations of the chip, and its products of 64 rows and each of these widths, from shared memory and from registers;
// 0: none. type: "bf16" or "f16". They come before the slots.
void warpgroup_products(Buffer *text, const int64_t *width, int count, const char *type);

// The constants of text/warpgroups.cu, once all maps are made.
void warpgroups_write(Buffer *text, const Warpgroups *groups, const CudaKernel *made);

#endif
