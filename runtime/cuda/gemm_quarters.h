// gemm_quarters.h: products of operands of 8 bits: which of them cuBLASLt takes, and how it is told of their scales.
#ifndef MDL_RUNTIME_CUDA_GEMM_QUARTERS_H
#define MDL_RUNTIME_CUDA_GEMM_QUARTERS_H

#include "compiler/plan/plan.h"
#include "runtime/cuda/cublaslt.h"

// Why the library has no kernels for a product of 8 bits, or NULL. capability: 90 for 9.0; alignment: as in gemm.h.
const char *gemm_quarters_refused(int capability, size_t version, const Gemm *gemm, const int *alignment);

// That there are scales, and of what; where, comes with each launch.
CublasStatus gemm_quarters_describe(const CublasLt *lt, CublasLtProduct product, const Gemm *gemm);

const char *gemm_quarters_blocks(const Gemm *gemm);  // of which operands blocks are square, in words; "" without blocks

#endif
