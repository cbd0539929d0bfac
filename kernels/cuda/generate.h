// generate.h: a fused kernel (compiler/ir/kernel.h) as CUDA C.
//
// Sizes, strides and constants are written into the text; ports are addresses (kernel.h says how they are passed). A
// kernel becomes one launch for each set of dims that its outputs vary on, after the template that fits:
//   flat    no reductions along rows or columns: every element by itself, in vectors of 16 bytes where memory allows
//   tile    the same where some ports lie along one dim and some along another: those pass through shared memory
//   row     row reductions: some threads of a warp, a warp or a block for each row, the row in registers if it fits,
//           else in shared memory or read again; column sums beside them in registers over many rows;
//           outputs that lie across the rows are written after some rows, from shared memory
//   column  column reductions alone: threads walk down the rows
// and, where columns are reduced, one more launch that adds up what the blocks found, in their order; totals alone are
// added up by the last block that is done. Results depend on sizes and the target alone.
#ifndef MDL_KERNELS_CUDA_GENERATE_H
#define MDL_KERNELS_CUDA_GENERATE_H

#include "base/arena.h"
#include "compiler/ir/kernel.h"
#include "kernels/cuda/kernel.h"
#include "kernels/cuda/target.h"

// alignment[p]: a power of two up to 16 that divides the address of port p in all calls. On false `why` is a static
// text that says what is not covered.
bool cuda_generate(const Kernel *kernel, const int *alignment, const CudaTarget *target, Arena *arena, CudaKernel *made,
                   const char **why);

#endif
