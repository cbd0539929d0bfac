// gemm_quarters.c: see gemm_quarters.h.
//
// The library's kernels want both operands with k contiguous, in whole vectors of 16 bytes; lowering sees to that. One
// scale for each 128 elements along k, or for each 128 by 128 of at most one operand, is what GPUs of compute
// capability 9.0 have; newer ones have other blocks. Scales lie as instructions.def says: those of 128 elements by
// blocks of k, all rows one after the other; those of squares by rows, in whole vectors. Plans are verified to have no
// other.
#include "runtime/cuda/gemm_quarters.h"

enum {
  VECTOR_BYTES = 16,
  QUARTERS_LEAST = 89,  // compute capability that multiplies 8 bits
  BLOCKS_OF = 90,       // and the one that has scales of blocks
};

static const char *blocks_refused(int capability, size_t version) {
  return capability != BLOCKS_OF     ? "a scale for each block takes compute capability 9.0"
         : version < CUBLASLT_BLOCKS ? "a scale for each block takes cuBLASLt 12.9"
                                     : NULL;
}

const char *gemm_quarters_refused(int capability, size_t version, const Gemm *gemm, const int *alignment) {
  const int64_t bytes_c = element_type_bytes(gemm->type_c);
  int64_t all = gemm->n | gemm->k | gemm->lda | gemm->ldb | gemm->ldc * bytes_c;
  for (int i = 0; i < gemm->batch_count; i++) {
    all |= gemm->stride_a[i] | gemm->stride_b[i] | gemm->stride_c[i] * bytes_c;
  }
  return capability < QUARTERS_LEAST ? "this GPU multiplies 16 bits at least; 8 take compute capability 8.9"
         : gemm->transpose_a || !gemm->transpose_b
             ? "an operand does not have the axes last in memory over which it is summed"
         : all % VECTOR_BYTES != 0 || alignment[0] < VECTOR_BYTES || alignment[1] < VECTOR_BYTES ||
                 alignment[2] < VECTOR_BYTES
             ? "sizes, distances and addresses must be multiples of 16 bytes"
         : gemm->block ? blocks_refused(capability, version)
                       : NULL;
}

CublasStatus gemm_quarters_describe(const CublasLt *lt, CublasLtProduct product, const Gemm *gemm) {
  const int8_t fast = gemm->fast;
  const int32_t bias = gemm->type_c == TYPE_BF16 ? CUBLAS_BF16 : CUBLAS_F16;
  const int32_t mode_a = gemm->square_b ? CUBLASLT_SCALE_BLK128X128 : CUBLASLT_SCALE_VEC128;  // its first is our second
  const int32_t mode_b = gemm->square_a ? CUBLASLT_SCALE_BLK128X128 : CUBLASLT_SCALE_VEC128;
  const CudaAddress scale = VECTOR_BYTES;
  const struct {
    bool has;
    int attribute;
    const void *value;
    size_t bytes;
  } sets[] = {{true, CUBLASLT_PRODUCT_FAST, &fast, sizeof fast},
              {true, CUBLASLT_PRODUCT_SCALE_A, &scale, sizeof scale},
              {true, CUBLASLT_PRODUCT_SCALE_B, &scale, sizeof scale},
              {gemm->block > 0, CUBLASLT_PRODUCT_SCALE_MODE_A, &mode_a, sizeof mode_a},
              {gemm->block > 0, CUBLASLT_PRODUCT_SCALE_MODE_B, &mode_b, sizeof mode_b},
              {gemm->epilogue == EPILOGUE_BIAS, CUBLASLT_PRODUCT_BIAS_TYPE, &bias, sizeof bias}};
  CublasStatus status = 0;
  for (size_t i = 0; i < sizeof sets / sizeof *sets && status == 0; i++) {
    status = sets[i].has ? lt->product_set(product, sets[i].attribute, sets[i].value, sets[i].bytes) : 0;
  }
  return status;
}

const char *gemm_quarters_blocks(const Gemm *gemm) {
  return gemm->block == 0 ? "" : gemm->square_a ? " square a" : gemm->square_b ? " square b" : " blocks";
}
