// cublaslt.c: a stand-in for NVIDIA's cuBLASLt, beside that for the driver: products of f32, f64 and 8 bits in plain
// loops.
//
// It has one algorithm for what it knows: no batches, no epilogue but the bias. With FAKE_NO_BIAS it does not know that
// either. A bias must lie at an address that the one it was asked with divides. Operands of 8 bits go into f32 and bf16
// and have scales; both must have k contiguous, in whole vectors of 16 bytes, and are not both e5m2. Scales are one
// number each, or those of blocks of 128, of which those of one operand at most are square; then there is no bias and
// no fast sum.
#include "runtime/cuda/cublaslt.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "tests/fake/fake.h"

#define CUBLASLT_FUNCTION(name, symbol, parameters) CublasStatus symbol parameters;
CUBLASLT_FUNCTIONS(CUBLASLT_FUNCTION)
#undef CUBLASLT_FUNCTION
size_t cublasLtGetVersion(void);
const char *cublasLtGetStatusString(CublasStatus status);

enum { INVALID = 7, FAILED = 13, UNSUPPORTED = 15 };

struct CublasLtContext {
  int nothing;
};
struct CublasLtPreference {
  int nothing;
};
struct CublasLtLayout {
  int type;
  int64_t rows, columns, leading;
  bool batched;
};
struct CublasLtProduct {
  int32_t transpose_a, transpose_b, epilogue;
  int32_t bias_type, mode_a, mode_b;
  int8_t fast;
  CudaAddress bias, scale_a, scale_b;
};

typedef struct {
  struct CublasLtProduct product;
  struct CublasLtLayout a, b, d;
  double alpha, beta;
  CudaAddress at_a, at_b, at_d;
} Call;

CublasStatus cublasLtCreate(CublasLtHandle *handle) {
  *handle = calloc(1, sizeof **handle);
  return 0;
}

CublasStatus cublasLtDestroy(CublasLtHandle handle) {
  free(handle);
  return 0;
}

CublasStatus cublasLtMatrixLayoutCreate(CublasLtLayout *layout, int type, uint64_t rows, uint64_t columns,
                                        int64_t leading) {
  if (leading < (int64_t)rows) {
    return INVALID;
  }
  *layout = calloc(1, sizeof **layout);
  **layout =
      (struct CublasLtLayout){.type = type, .rows = (int64_t)rows, .columns = (int64_t)columns, .leading = leading};
  return 0;
}

CublasStatus cublasLtMatrixLayoutDestroy(CublasLtLayout layout) {
  free(layout);
  return 0;
}

CublasStatus cublasLtMatrixLayoutSetAttribute(CublasLtLayout layout, int attribute, const void *value, size_t bytes) {
  (void)attribute, (void)value, (void)bytes;
  layout->batched = true;
  return 0;
}

CublasStatus cublasLtMatmulDescCreate(CublasLtProduct *product, int compute_type, int scale_type) {
  (void)compute_type, (void)scale_type;
  *product = calloc(1, sizeof **product);
  (*product)->epilogue = 1;
  (*product)->bias_type = -1;
  return 0;
}

CublasStatus cublasLtMatmulDescDestroy(CublasLtProduct product) {
  free(product);
  return 0;
}

CublasStatus cublasLtMatmulDescSetAttribute(CublasLtProduct product, int attribute, const void *value, size_t bytes) {
  const struct {
    int attribute;
    void *to;
    size_t bytes;
  } known[] = {{CUBLASLT_PRODUCT_TRANSPOSE_A, &product->transpose_a, sizeof product->transpose_a},
               {CUBLASLT_PRODUCT_TRANSPOSE_B, &product->transpose_b, sizeof product->transpose_b},
               {CUBLASLT_PRODUCT_EPILOGUE, &product->epilogue, sizeof product->epilogue},
               {CUBLASLT_PRODUCT_BIAS, &product->bias, sizeof product->bias},
               {CUBLASLT_PRODUCT_BIAS_TYPE, &product->bias_type, sizeof product->bias_type},
               {CUBLASLT_PRODUCT_SCALE_A, &product->scale_a, sizeof product->scale_a},
               {CUBLASLT_PRODUCT_SCALE_B, &product->scale_b, sizeof product->scale_b},
               {CUBLASLT_PRODUCT_SCALE_MODE_A, &product->mode_a, sizeof product->mode_a},
               {CUBLASLT_PRODUCT_SCALE_MODE_B, &product->mode_b, sizeof product->mode_b},
               {CUBLASLT_PRODUCT_FAST, &product->fast, sizeof product->fast}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (known[i].attribute == attribute && known[i].bytes == bytes) {
      memcpy(known[i].to, value, bytes);
      return 0;
    }
  }
  return INVALID;
}

CublasStatus cublasLtMatmulPreferenceCreate(CublasLtPreference *preference) {
  *preference = calloc(1, sizeof **preference);
  return 0;
}

CublasStatus cublasLtMatmulPreferenceDestroy(CublasLtPreference preference) {
  free(preference);
  return 0;
}

CublasStatus cublasLtMatmulPreferenceSetAttribute(CublasLtPreference preference, int attribute, const void *value,
                                                  size_t bytes) {
  (void)preference, (void)attribute, (void)value, (void)bytes;
  return 0;
}

static bool is_quarter(int type) {
  return type == CUBLAS_E4M3 || type == CUBLAS_E5M2;
}

static bool scales_known(const struct CublasLtProduct *product, const struct CublasLtLayout *d) {
  const bool none = product->mode_a == 0 && product->mode_b == 0;
  const bool a = product->mode_a == CUBLASLT_SCALE_VEC128 || product->mode_a == CUBLASLT_SCALE_BLK128X128;
  const bool b = product->mode_b == CUBLASLT_SCALE_VEC128 || product->mode_b == CUBLASLT_SCALE_BLK128X128;
  const bool squares = product->mode_a == CUBLASLT_SCALE_BLK128X128 && product->mode_b == CUBLASLT_SCALE_BLK128X128;
  return none || (a && b && !squares && product->epilogue == 1 && !product->fast && d->rows % 4 == 0 &&
                  d->columns % 4 == 0 && product->scale_a % 16 == 0 && product->scale_b % 16 == 0);
}

// Of operands of 8 bits.
static bool quarters_known(const struct CublasLtProduct *product, const struct CublasLtLayout *a,
                           const struct CublasLtLayout *b, const struct CublasLtLayout *d) {
  const bool pair = is_quarter(a->type) && is_quarter(b->type) && (a->type == CUBLAS_E4M3 || b->type == CUBLAS_E4M3);
  const bool vectors = (a->rows | a->columns | b->rows | a->leading | b->leading) % 16 == 0;
  const bool bias = product->epilogue == 1 || (d->type == CUBLAS_BF16 && product->bias_type == CUBLAS_BF16);
  return pair && vectors && bias && scales_known(product, d) && product->transpose_a && !product->transpose_b &&
         product->scale_a && product->scale_b && (d->type == CUBLAS_F32 || d->type == CUBLAS_BF16) &&
         (!product->fast || a->type == b->type);
}

static bool known(const struct CublasLtProduct *product, const struct CublasLtLayout *a, const struct CublasLtLayout *b,
                  const struct CublasLtLayout *d) {
  const bool bias = product->epilogue == CUBLASLT_EPILOGUE_BIAS && product->bias != 0 && !getenv("FAKE_NO_BIAS");
  const bool plain = (d->type == CUBLAS_F32 || d->type == CUBLAS_F64) && a->type == d->type && b->type == d->type;
  return (product->epilogue == 1 || bias) && !d->batched && (plain || quarters_known(product, a, b, d));
}

// The algorithm remembers what divides the address of the bias that it was asked for.
CublasStatus cublasLtMatmulAlgoGetHeuristic(CublasLtHandle handle, CublasLtProduct product, CublasLtLayout a,
                                            CublasLtLayout b, CublasLtLayout c, CublasLtLayout d,
                                            CublasLtPreference preference, int wanted, CublasLtChoice *choice,
                                            int *count) {
  (void)handle, (void)c, (void)preference;
  *count = 0;
  if (wanted < 1 || !known(product, a, b, d)) {
    return UNSUPPORTED;
  }
  choice[0] = (CublasLtChoice){.algorithm = {{product->bias & (~product->bias + 1)}}};
  *count = 1;
  return 0;
}

static double get(int type, CudaAddress at, int64_t index) {
  const void *memory = (const void *)(uintptr_t)at;
  switch (type) {
    case CUBLAS_F64:
      return ((const double *)memory)[index];
    case CUBLAS_BF16:
      return (double)f32_of_bf16(((const uint16_t *)memory)[index]);
    case CUBLAS_E4M3:
      return (double)f32_of_e4m3(((const uint8_t *)memory)[index]);
    case CUBLAS_E5M2:
      return (double)f32_of_e5m2(((const uint8_t *)memory)[index]);
    default:
      return (double)((const float *)memory)[index];
  }
}

static void set(int type, CudaAddress at, int64_t index, double value) {
  void *memory = (void *)(uintptr_t)at;
  if (type == CUBLAS_F64) {
    ((double *)memory)[index] = value;
  } else if (type == CUBLAS_BF16) {
    ((uint16_t *)memory)[index] = bf16_of_f32((float)value);
  } else {
    ((float *)memory)[index] = (float)value;
  }
}

// Of element k in a row of `rows`, of `inner` elements each.
static double scale(int32_t mode, CudaAddress scales, int64_t row, int64_t rows, int64_t k, int64_t inner) {
  enum { BLOCK = 128 };
  const int64_t blocks = (inner + BLOCK - 1) / BLOCK;
  const int64_t at = mode == CUBLASLT_SCALE_VEC128       ? k / BLOCK * rows + row
                     : mode == CUBLASLT_SCALE_BLK128X128 ? row / BLOCK * ((blocks + 3) / 4 * 4) + k / BLOCK
                                                         : 0;
  return get(CUBLAS_F32, scales, at);
}

// An operand as rows of `inner` numbers, and the scale of each; the caller frees the first.
typedef struct {
  double *at, *scale;  // scale NULL: 1
} Rows;

static Rows rows_of(const struct CublasLtLayout *layout, CudaAddress from, bool along, int32_t mode, CudaAddress scales,
                    int64_t count, int64_t inner) {
  const int64_t size = count * inner;
  Rows rows = {.at = malloc(sizeof(double) * (size_t)(2 * size + 1))};
  if (!rows.at) {
    abort();
  }
  rows.scale = is_quarter(layout->type) ? rows.at + size : NULL;
  for (int64_t row = 0; row < count; row++) {
    for (int64_t k = 0; k < inner; k++) {
      rows.at[row * inner + k] = get(layout->type, from, along ? row * layout->leading + k : k * layout->leading + row);
      if (rows.scale) {
        rows.scale[row * inner + k] = scale(mode, scales, row, count, k, inner);
      }
    }
  }
  return rows;
}

static double sum_of(const Rows *a, int64_t row, const Rows *b, int64_t column, int64_t inner) {
  const double *x = a->at + row * inner, *y = b->at + column * inner;
  double sum = 0;
  for (int64_t k = 0; k < inner; k++) {
    double product = x[k] * y[k];
    product *= a->scale ? a->scale[row * inner + k] : 1;
    product *= b->scale ? b->scale[column * inner + k] : 1;
    sum += product;
  }
  return sum;
}

static void run(void *data) {
  const Call *call = data;
  const struct CublasLtProduct *product = &call->product;
  const int64_t inner = product->transpose_a ? call->a.rows : call->a.columns;
  const Rows a =
      rows_of(&call->a, call->at_a, product->transpose_a, product->mode_a, product->scale_a, call->d.rows, inner);
  const Rows b =
      rows_of(&call->b, call->at_b, !product->transpose_b, product->mode_b, product->scale_b, call->d.columns, inner);
  for (int64_t column = 0; column < call->d.columns; column++) {
    for (int64_t row = 0; row < call->d.rows; row++) {
      const int64_t at = column * call->d.leading + row;
      double sum = call->alpha * sum_of(&a, row, &b, column, inner);
      sum += call->beta != 0 ? call->beta * get(call->d.type, call->at_d, at) : 0;
      sum += product->epilogue == CUBLASLT_EPILOGUE_BIAS ? get(call->d.type, product->bias, row) : 0;
      set(call->d.type, call->at_d, at, sum);
    }
  }
  free(a.at);
  free(b.at);
}

CublasStatus cublasLtMatmul(CublasLtHandle handle, CublasLtProduct product, const void *alpha, CudaAddress a,
                            CublasLtLayout layout_a, CudaAddress b, CublasLtLayout layout_b, const void *beta,
                            CudaAddress c, CublasLtLayout layout_c, CudaAddress d, CublasLtLayout layout_d,
                            const CublasLtAlgorithm *algorithm, CudaAddress workspace, size_t workspace_bytes,
                            CudaStream stream) {
  (void)handle, (void)layout_c, (void)workspace, (void)workspace_bytes;
  const bool wide = layout_d->type == CUBLAS_F64;
  const bool aligned = algorithm->data[0] == 0 || product->bias % algorithm->data[0] == 0;
  if (!known(product, layout_a, layout_b, layout_d) || c != d || !aligned) {
    return UNSUPPORTED;
  }
  Call call = {.product = *product, .a = *layout_a, .b = *layout_b, .d = *layout_d, .at_a = a, .at_b = b, .at_d = d};
  call.alpha = wide ? *(const double *)alpha : (double)*(const float *)alpha;
  call.beta = wide ? *(const double *)beta : (double)*(const float *)beta;
  return fake_call(stream, run, &call, sizeof call) == 0 ? 0 : FAILED;
}

size_t cublasLtGetVersion(void) {
  return CUBLASLT_BLOCKS;
}

const char *cublasLtGetStatusString(CublasStatus status) {
  return status == UNSUPPORTED ? "not supported" : "failed";
}
