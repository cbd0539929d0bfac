// squares.h: sums of the squares of many ranges of one buffer, as CUDA C.
#ifndef MDL_KERNELS_CUDA_SQUARES_H
#define MDL_KERNELS_CUDA_SQUARES_H

#include "base/arena.h"
#include "compiler/plan/plan.h"
#include "kernels/cuda/kernel.h"

// Ports: from, to. False, with `why` in words, for more elements than one launch has blocks for.
bool cuda_squares(const Squares *squares, Arena *arena, CudaKernel *made, const char **why);

#endif
