// gemm.h: matrix products, cut into tiles whose size depends on the shapes only.
#ifndef MDL_KERNELS_CPU_GEMM_H
#define MDL_KERNELS_CPU_GEMM_H

#include "kernels/cpu/blas.h"
#include "runtime/cpu/pool.h"

bool gemm_check(const Gemm *gemm, const char *name, Error *error);
void gemm_run(const Gemm *gemm, const Blas *blas, Pool *pool, const void *a, const void *b, void *c, bool first);

#endif
