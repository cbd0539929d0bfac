// gemm.h: matrix products, cut into tiles whose size depends on the shapes only.
//
// The library multiplies f32 and f64. Operands in 16 or 8 bits are widened to f32 piece by piece in a worker's scratch,
// and results in 16 bits are rounded once, after all of k is summed in f32. Where there is a bias, sums begin with it.
// Operands of 8 bits are multiplied as what their codes say; the scales multiply the sums, or, where they are those of
// blocks, what is widened.
#ifndef MDL_KERNELS_CPU_GEMM_H
#define MDL_KERNELS_CPU_GEMM_H

#include "kernels/cpu/blas.h"
#include "kernels/cpu/simd.h"
#include "runtime/cpu/pool.h"

typedef struct {
  const void *a, *b, *bias;        // bias: NULL without one
  const float *scale_a, *scale_b;  // of operands of 8 bits, else NULL
  void *c;
} GemmPorts;

bool gemm_check(const Gemm *gemm, const char *name, Error *error);
int64_t gemm_scratch_bytes(const Gemm *gemm);  // for each worker; of smaller products no more
void gemm_run(const Gemm *gemm, const Blas *blas, const Simd *simd, Pool *pool, const GemmPorts *ports, bool first,
              char *const *scratch);

#endif
