// order.h: rows ordered by index as CUDA C (instructions.def, ORDER).
#ifndef MDL_KERNELS_CUDA_ORDER_H
#define MDL_KERNELS_CUDA_ORDER_H

#include "base/arena.h"
#include "compiler/plan/plan.h"
#include "kernels/cuda/kernel.h"

// Ports: index, place, from, chosen. False, with `why` in words, for more than 4096 indices, and for rows past 2^30.
bool cuda_order(const Order *order, Arena *arena, CudaKernel *made, const char **why);

#endif
