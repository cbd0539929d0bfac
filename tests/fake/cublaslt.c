// cublaslt.c: a stand-in for NVIDIA's cuBLASLt, beside that for the driver: products of f32 and f64 in plain loops.
//
// It has one algorithm for what it knows: no batches, no epilogue but the bias. With FAKE_NO_BIAS it does not know that
// either. A bias must lie at an address that the one it was asked with divides.
#include "runtime/cuda/cublaslt.h"

#include <stdlib.h>
#include <string.h>

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
  CudaAddress bias;
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
  return 0;
}

CublasStatus cublasLtMatmulDescDestroy(CublasLtProduct product) {
  free(product);
  return 0;
}

CublasStatus cublasLtMatmulDescSetAttribute(CublasLtProduct product, int attribute, const void *value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_PRODUCT_TRANSPOSE_A:
      memcpy(&product->transpose_a, value, bytes);
      return 0;
    case CUBLASLT_PRODUCT_TRANSPOSE_B:
      memcpy(&product->transpose_b, value, bytes);
      return 0;
    case CUBLASLT_PRODUCT_EPILOGUE:
      memcpy(&product->epilogue, value, bytes);
      return 0;
    case CUBLASLT_PRODUCT_BIAS:
      memcpy(&product->bias, value, bytes);
      return 0;
    default:
      return INVALID;
  }
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

static bool known(const struct CublasLtProduct *product, const struct CublasLtLayout *d) {
  const bool bias = product->epilogue == CUBLASLT_EPILOGUE_BIAS && product->bias != 0 && !getenv("FAKE_NO_BIAS");
  return (product->epilogue == 1 || bias) && !d->batched && (d->type == CUBLAS_F32 || d->type == CUBLAS_F64);
}

// The algorithm remembers what divides the address of the bias that it was asked for.
CublasStatus cublasLtMatmulAlgoGetHeuristic(CublasLtHandle handle, CublasLtProduct product, CublasLtLayout a,
                                            CublasLtLayout b, CublasLtLayout c, CublasLtLayout d,
                                            CublasLtPreference preference, int wanted, CublasLtChoice *choice,
                                            int *count) {
  (void)handle, (void)a, (void)b, (void)c, (void)preference;
  *count = 0;
  if (wanted < 1 || !known(product, d)) {
    return UNSUPPORTED;
  }
  choice[0] = (CublasLtChoice){.algorithm = {{product->bias & (~product->bias + 1)}}};
  *count = 1;
  return 0;
}

static double get(int type, CudaAddress at, int64_t index) {
  const void *memory = (const void *)(uintptr_t)at;
  return type == CUBLAS_F64 ? ((const double *)memory)[index] : (double)((const float *)memory)[index];
}

static void set(int type, CudaAddress at, int64_t index, double value) {
  void *memory = (void *)(uintptr_t)at;
  if (type == CUBLAS_F64) {
    ((double *)memory)[index] = value;
  } else {
    ((float *)memory)[index] = (float)value;
  }
}

static void run(void *data) {
  const Call *call = data;
  const struct CublasLtProduct *product = &call->product;
  const int64_t inner = product->transpose_a ? call->a.rows : call->a.columns;
  for (int64_t column = 0; column < call->d.columns; column++) {
    for (int64_t row = 0; row < call->d.rows; row++) {
      const int64_t at = column * call->d.leading + row;
      double sum = 0;
      for (int64_t k = 0; k < inner; k++) {
        sum += get(call->a.type, call->at_a,
                   product->transpose_a ? row * call->a.leading + k : k * call->a.leading + row) *
               get(call->b.type, call->at_b,
                   product->transpose_b ? k * call->b.leading + column : column * call->b.leading + k);
      }
      sum = call->alpha * sum + (call->beta != 0 ? call->beta * get(call->d.type, call->at_d, at) : 0);
      sum += product->epilogue == CUBLASLT_EPILOGUE_BIAS ? get(call->d.type, product->bias, row) : 0;
      set(call->d.type, call->at_d, at, sum);
    }
  }
}

CublasStatus cublasLtMatmul(CublasLtHandle handle, CublasLtProduct product, const void *alpha, CudaAddress a,
                            CublasLtLayout layout_a, CudaAddress b, CublasLtLayout layout_b, const void *beta,
                            CudaAddress c, CublasLtLayout layout_c, CudaAddress d, CublasLtLayout layout_d,
                            const CublasLtAlgorithm *algorithm, CudaAddress workspace, size_t workspace_bytes,
                            CudaStream stream) {
  (void)handle, (void)layout_c, (void)workspace, (void)workspace_bytes;
  const bool wide = layout_d->type == CUBLAS_F64;
  const bool aligned = algorithm->data[0] == 0 || product->bias % algorithm->data[0] == 0;
  if (!known(product, layout_d) || c != d || !aligned) {
    return UNSUPPORTED;
  }
  Call call = {.product = *product, .a = *layout_a, .b = *layout_b, .d = *layout_d, .at_a = a, .at_b = b, .at_d = d};
  call.alpha = wide ? *(const double *)alpha : (double)*(const float *)alpha;
  call.beta = wide ? *(const double *)beta : (double)*(const float *)beta;
  return fake_call(stream, run, &call, sizeof call) == 0 ? 0 : FAILED;
}

size_t cublasLtGetVersion(void) {
  return CUBLASLT_LEAST;
}

const char *cublasLtGetStatusString(CublasStatus status) {
  return status == UNSUPPORTED ? "not supported" : "failed";
}
