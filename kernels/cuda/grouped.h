// grouped.h: products of rows with chosen matrices as CUDA C (instructions.def, GROUPED and GROUPED_SUM).
//
// 16-bit elements run by products of warpgroups on sm_90a where blocks are of whole tiles of 128 rows and everything
// lies at multiples of 16 bytes, else on tensor cores where that is so, and all others by multiply-add. A call gives
// the same bits each time.
#ifndef MDL_KERNELS_CUDA_GROUPED_H
#define MDL_KERNELS_CUDA_GROUPED_H

#include "base/arena.h"
#include "compiler/plan/plan.h"
#include "kernels/cuda/kernel.h"
#include "kernels/cuda/target.h"

// Ports: a, b, c, chosen. alignment: bytes, of a, b and c. False, with `why` in words, for formats of 8 bits and sizes
// past 2^31.
bool cuda_grouped(const Grouped *grouped, bool sums, int alignment, const CudaTarget *target, Arena *arena,
                  CudaKernel *made, const char **why);

#endif
