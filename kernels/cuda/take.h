// take.h: reading and adding along an axis by index, as CUDA C.
//
// PUT gives the same bits each time: where several coordinates may add to one element they are sorted first, and no
// number is added with atomics.
#ifndef MDL_KERNELS_CUDA_TAKE_H
#define MDL_KERNELS_CUDA_TAKE_H

#include "base/arena.h"
#include "compiler/plan/plan.h"
#include "kernels/cuda/kernel.h"

// Ports: x, index, out. type_x, type_out: how x and out are stored; sums are made in f32 (f64 if x is, 32 bits for
// integers). alignment[3]: a power of two up to 16 that divides each address. False, with `why` in words, for formats
// that do not go together and sizes past 2^31.
bool cuda_take(const Take *take, ElementType type_x, ElementType type_out, const int *alignment, Arena *arena,
               CudaKernel *made, const char **why);
bool cuda_put(const Take *take, ElementType type_x, ElementType type_out, const int *alignment, Arena *arena,
              CudaKernel *made, const char **why);

#endif
