// blas.h: OpenBLAS, opened when a device opens. Our own pool cuts the work; the library runs on the calling thread.
#ifndef MDL_KERNELS_CPU_BLAS_H
#define MDL_KERNELS_CPU_BLAS_H

#include "runtime/device.h"

enum { BLAS_ROW_MAJOR = 101, BLAS_NO_TRANSPOSE = 111, BLAS_TRANSPOSE = 112 };

typedef struct {
  void *library;
  void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                const float *b, int ldb, float beta, float *c, int ldc);
  void (*dgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha, const double *a,
                int lda, const double *b, int ldb, double beta, double *c, int ldc);
  int threads;
} Blas;

// For so many threads that multiply at the same time. The library takes memory for each of them here: where there is
// none it would try for ever, in the middle of a product, and no signal would end the program. Status 3 where there is
// too little.
bool blas_open(Blas *blas, int threads, Error *error);
void blas_close(Blas *blas);

// c[m, n] = alpha * a * b + beta * c for one real type, row-major; `type` is TYPE_F32 or TYPE_F64.
typedef struct {
  ElementType type;
  bool transpose_a, transpose_b;
  int64_t m, n, k, lda, ldb, ldc;
  double alpha, beta;
} BlasGemm;

void blas_gemm(const Blas *blas, const BlasGemm *gemm, const void *a, const void *b, void *c);

#endif
