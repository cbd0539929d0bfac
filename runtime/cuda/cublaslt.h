// cublaslt.h: NVIDIA's cuBLASLt, opened at run time: the functions and values we use, in our own declaration.
//
// Matrices are column-major there; gemm.c turns our row-major products round.
#ifndef MDL_RUNTIME_CUDA_CUBLASLT_H
#define MDL_RUNTIME_CUDA_CUBLASLT_H

#include "runtime/cuda/driver.h"

enum { CUBLASLT_LEAST = 120000, CUBLASLT_BLOCKS = 120900 };  // of cublasLtGetVersion: 12.0; has scales of blocks: 12.9

typedef int CublasStatus;  // cublasStatus_t; 0: success
typedef struct CublasLtContext *CublasLtHandle;
typedef struct CublasLtLayout *CublasLtLayout;
typedef struct CublasLtProduct *CublasLtProduct;  // cublasLtMatmulDesc_t
typedef struct CublasLtPreference *CublasLtPreference;

typedef struct {  // cublasLtMatmulAlgo_t: plain data, valid for one version of the library
  uint64_t data[8];
} CublasLtAlgorithm;

typedef struct {  // cublasLtMatmulHeuristicResult_t
  CublasLtAlgorithm algorithm;
  size_t workspace;
  CublasStatus status;
  float waves;
  int reserved[4];
} CublasLtChoice;

enum { CUBLAS_F32 = 0, CUBLAS_F64 = 1, CUBLAS_F16 = 2, CUBLAS_BF16 = 14 };            // cudaDataType
enum { CUBLAS_E4M3 = 28, CUBLAS_E5M2 = 29 };                                          // the same
enum { CUBLAS_COMPUTE_F32 = 68, CUBLAS_COMPUTE_F64 = 70, CUBLAS_COMPUTE_TF32 = 77 };  // cublasComputeType_t
enum { CUBLASLT_LAYOUT_BATCH_COUNT = 5, CUBLASLT_LAYOUT_BATCH_STRIDE = 6 };           // of a matrix
enum {                                                                                // of a product
  CUBLASLT_PRODUCT_TRANSPOSE_A = 3,
  CUBLASLT_PRODUCT_TRANSPOSE_B = 4,
  CUBLASLT_PRODUCT_EPILOGUE = 7,
  CUBLASLT_PRODUCT_BIAS = 8,      // where the bias lies
  CUBLASLT_PRODUCT_SCALE_A = 17,  // where the number lies that A is multiplied by
  CUBLASLT_PRODUCT_SCALE_B = 18,
  CUBLASLT_PRODUCT_FAST = 25,  // int8_t: sums of products of 8 bits stay in the matrix units
  CUBLASLT_PRODUCT_BIAS_TYPE = 26,
  CUBLASLT_PRODUCT_SCALE_MODE_A = 31,  // int32_t: what has one scale
  CUBLASLT_PRODUCT_SCALE_MODE_B = 32,
};
enum { CUBLASLT_SCALE_VEC128 = 4, CUBLASLT_SCALE_BLK128X128 = 5 };
enum { CUBLASLT_EPILOGUE_BIAS = 4 };
enum {
  CUBLASLT_PREFER_WORKSPACE = 1,
  CUBLASLT_PREFER_ALIGNMENT_A = 5,
  CUBLASLT_PREFER_ALIGNMENT_B = 6,
  CUBLASLT_PREFER_ALIGNMENT_C = 7,
  CUBLASLT_PREFER_ALIGNMENT_D = 8,
};

// X(name in the table, name in the library, parameters)
#define CUBLASLT_FUNCTIONS(X)                                                                                         \
  X(create, cublasLtCreate, (CublasLtHandle * handle))                                                                \
  X(destroy, cublasLtDestroy, (CublasLtHandle handle))                                                                \
  X(layout_create, cublasLtMatrixLayoutCreate,                                                                        \
    (CublasLtLayout * layout, int type, uint64_t rows, uint64_t columns, int64_t leading))                            \
  X(layout_destroy, cublasLtMatrixLayoutDestroy, (CublasLtLayout layout))                                             \
  X(layout_set, cublasLtMatrixLayoutSetAttribute,                                                                     \
    (CublasLtLayout layout, int attribute, const void *value, size_t bytes))                                          \
  X(product_create, cublasLtMatmulDescCreate, (CublasLtProduct * product, int compute_type, int scale_type))          \
  X(product_destroy, cublasLtMatmulDescDestroy, (CublasLtProduct product))                                            \
  X(product_set, cublasLtMatmulDescSetAttribute,                                                                      \
    (CublasLtProduct product, int attribute, const void *value, size_t bytes))                                        \
  X(preference_create, cublasLtMatmulPreferenceCreate, (CublasLtPreference * preference))                             \
  X(preference_destroy, cublasLtMatmulPreferenceDestroy, (CublasLtPreference preference))                             \
  X(preference_set, cublasLtMatmulPreferenceSetAttribute,                                                             \
    (CublasLtPreference preference, int attribute, const void *value, size_t bytes))                                  \
  X(choices, cublasLtMatmulAlgoGetHeuristic,                                                                          \
    (CublasLtHandle handle, CublasLtProduct product, CublasLtLayout a, CublasLtLayout b, CublasLtLayout c,            \
     CublasLtLayout d, CublasLtPreference preference, int wanted, CublasLtChoice *choice, int *count))                \
  X(multiply, cublasLtMatmul,                                                                                         \
    (CublasLtHandle handle, CublasLtProduct product, const void *alpha, CudaAddress a, CublasLtLayout layout_a,       \
     CudaAddress b, CublasLtLayout layout_b, const void *beta, CudaAddress c, CublasLtLayout layout_c, CudaAddress d, \
     CublasLtLayout layout_d, const CublasLtAlgorithm *algorithm, CudaAddress workspace, size_t workspace_bytes,      \
     CudaStream stream))

typedef struct {
#define CUBLASLT_FUNCTION(name, symbol, parameters) CublasStatus(*name) parameters;
  CUBLASLT_FUNCTIONS(CUBLASLT_FUNCTION)
#undef CUBLASLT_FUNCTION
  size_t (*version)(void);
  const char *(*status_text)(CublasStatus status);
  void *handle;
} CublasLt;

// False: `error` says that the library is missing, or which version was found and which is needed.
bool cublaslt_open(CublasLt *lt, Error *error);
void cublaslt_close(CublasLt *lt);
bool cublaslt_check(const CublasLt *lt, CublasStatus status, const char *what, Error *error);

#endif
