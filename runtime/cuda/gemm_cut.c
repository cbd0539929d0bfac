// gemm_cut.c: where a product is cut in two.
#include "runtime/cuda/gemm_cut.h"

#include <string.h>

enum { VECTOR_BYTES = 16, CUT_LEAST = 256 };  // CUT_LEAST: shorter sizes are not worth two launches

static bool cut_helps(int64_t size, int64_t vector) {
  return size >= CUT_LEAST && size % vector != 0;
}

static int64_t largest(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// Halves a product with an operand of 2^31 elements or more, within which some of the library's kernels lose their way.
static bool cut_half(Gemm *gemm, Gemm *rest, int64_t offset[GEMM_OPERANDS]) {
  const int64_t rows = largest(gemm->transpose_a ? 0 : gemm->lda, gemm->ldc);
  if (gemm->m > 1 && !gemm->transpose_a && gemm->m > INT32_MAX / rows) {
    gemm->m = (gemm->m + 1) / 2;
    rest->m -= gemm->m;
    offset[0] = gemm->m * gemm->lda;
    offset[2] = gemm->m * gemm->ldc;
    return true;
  }
  if (gemm->k > 1 && gemm->transpose_a && gemm->k > INT32_MAX / gemm->lda) {
    gemm->k = (gemm->k + 1) / 2;
    rest->k -= gemm->k;
    offset[0] = gemm->k * gemm->lda;
    offset[1] = gemm->transpose_b ? gemm->k : gemm->k * gemm->ldb;
    rest->write = WRITE_ADD;
    rest->epilogue = EPILOGUE_NONE;
    return true;
  }
  return false;
}

bool gemm_cut(Gemm *gemm, Gemm *rest, int64_t offset[GEMM_OPERANDS]) {
  const int64_t vector = VECTOR_BYTES / element_type_bytes(gemm->type);
  const bool k_lies = !gemm->transpose_a || gemm->transpose_b;  // in a row of an operand
  const bool whole = gemm_scaled(gemm);                         // what is no whole vector is not multiplied at all
  *rest = *gemm;
  memset(offset, 0, GEMM_OPERANDS * sizeof *offset);
  if (gemm->block > 0) {  // scales of fewer rows would lie otherwise
    return false;
  }
  if (cut_half(gemm, rest, offset)) {
    return true;
  }
  if (whole) {
    return false;
  }
  if (cut_helps(gemm->n, vector)) {
    gemm->n -= gemm->n % vector;
    rest->n -= gemm->n;
    offset[1] = gemm->transpose_b ? gemm->n * gemm->ldb : gemm->n;
    offset[2] = offset[3] = gemm->n;
    return true;
  }
  if (gemm->transpose_a && cut_helps(gemm->m, vector)) {
    gemm->m -= gemm->m % vector;
    rest->m -= gemm->m;
    offset[0] = gemm->m;
    offset[2] = gemm->m * gemm->ldc;
    return true;
  }
  if (k_lies && cut_helps(gemm->k, vector)) {
    gemm->k -= gemm->k % vector;
    rest->k -= gemm->k;
    offset[0] = gemm->transpose_a ? gemm->k * gemm->lda : gemm->k;
    offset[1] = gemm->transpose_b ? gemm->k : gemm->k * gemm->ldb;
    rest->write = WRITE_ADD;
    rest->epilogue = EPILOGUE_NONE;
    return true;
  }
  return false;
}
