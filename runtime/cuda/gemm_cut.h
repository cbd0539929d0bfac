// gemm_cut.h: products that cuBLASLt is slow at or loses its way in, as two that it is good at.
//
// Its fast kernels want the sizes of what is contiguous in memory to be whole vectors of 16 bytes. A long size that is
// not, like a vocabulary of 50257, is cut: the whole vectors are one product and the rest is another.
#ifndef MDL_RUNTIME_CUDA_GEMM_CUT_H
#define MDL_RUNTIME_CUDA_GEMM_CUT_H

#include "runtime/cuda/gemm.h"

// Takes the last, odd positions of one dim off a product: they become `rest`, which begins at `offset` (elements of
// each operand). False: there is nothing to take off.
bool gemm_cut(Gemm *gemm, Gemm *rest, int64_t offset[GEMM_OPERANDS]);

#endif
