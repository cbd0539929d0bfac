// window.h: views that look back along an axis, and their transpose, as CUDA C.
#ifndef MDL_KERNELS_CUDA_WINDOW_H
#define MDL_KERNELS_CUDA_WINDOW_H

#include "base/arena.h"
#include "compiler/plan/plan.h"
#include "kernels/cuda/kernel.h"

// Ports: x, out. False, with `why` in words, for a format that cannot be added, or sizes past 2^40.
bool cuda_window(const Window *window, Arena *arena, CudaKernel *made, const char **why);
bool cuda_fold(const Window *window, Arena *arena, CudaKernel *made, const char **why);

#endif
