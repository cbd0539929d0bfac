// cudnn.h: NVIDIA's cuDNN, opened at run time: the functions we call, descriptors, and errors in words.
//
// Only the backend interface of cuDNN 9 is used. The declarations are our own, of the documented interface. A
// descriptor is made, given attributes and finalised; those made here live until the library is given back.
#ifndef MDL_RUNTIME_CUDA_CUDNN_H
#define MDL_RUNTIME_CUDA_CUDNN_H

#include "runtime/cuda/driver.h"

enum { CUDNN_LEAST = 91100 };  // of cudnnGetVersion: 9.11.0

typedef int CudnnStatus;        // cudnnStatus_t; 0: success
typedef void *CudnnDescriptor;  // cudnnBackendDescriptor_t
typedef struct cudnnContext *CudnnHandle;

typedef enum {  // cudnnBackendDescriptorType_t
  CUDNN_MAKE_POINTWISE = 0,
  CUDNN_MAKE_ENGINE = 2,
  CUDNN_MAKE_CONFIGURATION = 3,
  CUDNN_MAKE_HEURISTIC = 4,
  CUDNN_MAKE_PLAN = 5,
  CUDNN_MAKE_POINTWISE_OPERATION = 13,
  CUDNN_MAKE_GRAPH = 15,
  CUDNN_MAKE_PACK = 16,
  CUDNN_MAKE_TENSOR = 17,
  CUDNN_MAKE_MATMUL = 18,
  CUDNN_MAKE_MATMUL_OPERATION = 19,
  CUDNN_MAKE_REDUCTION = 21,
  CUDNN_MAKE_REDUCTION_OPERATION = 22,
  CUDNN_MAKE_RESHAPE_OPERATION = 31,
  CUDNN_MAKE_PROPERTIES = 38,
} CudnnMake;

typedef enum {  // cudnnBackendAttributeName_t
  CUDNN_POINTWISE_MODE = 0,
  CUDNN_POINTWISE_PRECISION = 1,
  CUDNN_POINTWISE_AXIS = 9,
  CUDNN_HEURISTIC_MODE = 200,
  CUDNN_HEURISTIC_GRAPH = 201,
  CUDNN_HEURISTIC_RESULTS = 202,
  CUDNN_HEURISTIC_PROPERTIES = 204,
  CUDNN_CONFIGURATION_ENGINE = 300,
  CUDNN_PLAN_HANDLE = 400,
  CUDNN_PLAN_CONFIGURATION = 401,
  CUDNN_PLAN_WORKSPACE = 402,
  CUDNN_PLAN_PROPERTIES = 407,
  CUDNN_POINTWISE_DESCRIPTOR = 750,
  CUDNN_POINTWISE_X = 751,
  CUDNN_POINTWISE_B = 752,
  CUDNN_POINTWISE_Y = 753,
  CUDNN_POINTWISE_T = 758,
  CUDNN_GRAPH_HANDLE = 800,
  CUDNN_GRAPH_OPERATIONS = 801,
  CUDNN_TENSOR_ALIGNMENT = 900,
  CUDNN_TENSOR_TYPE = 901,
  CUDNN_TENSOR_SIZES = 902,
  CUDNN_TENSOR_STRIDES = 903,
  CUDNN_TENSOR_NUMBER = 906,
  CUDNN_TENSOR_IS_VIRTUAL = 907,
  CUDNN_TENSOR_IS_VALUE = 908,
  CUDNN_PACK_NUMBERS = 1000,
  CUDNN_PACK_POINTERS = 1001,
  CUDNN_PACK_WORKSPACE = 1003,
  CUDNN_ENGINE_INDEX = 1301,
  CUDNN_ENGINE_NUMERICAL_NOTES = 1303,
  CUDNN_MATMUL_PRECISION = 1500,
  CUDNN_MATMUL_A = 1520,
  CUDNN_MATMUL_B = 1521,
  CUDNN_MATMUL_C = 1522,
  CUDNN_MATMUL_DESCRIPTOR = 1523,
  CUDNN_REDUCTION_OPERATOR = 1600,
  CUDNN_REDUCTION_PRECISION = 1601,
  CUDNN_REDUCTION_X = 1610,
  CUDNN_REDUCTION_Y = 1611,
  CUDNN_REDUCTION_DESCRIPTOR = 1612,
  CUDNN_RESHAPE_X = 2200,
  CUDNN_RESHAPE_Y = 2201,
  CUDNN_PROPERTIES_TEXT = 2702,
} CudnnAttribute;

typedef enum {  // cudnnBackendAttributeType_t: what an attribute's elements are
  CUDNN_OF_HANDLE = 0,
  CUDNN_OF_TYPE = 1,
  CUDNN_OF_BOOL = 2,
  CUDNN_OF_INT64 = 3,
  CUDNN_OF_POINTER = 6,
  CUDNN_OF_HEURISTIC_MODE = 8,
  CUDNN_OF_NUMERICAL_NOTE = 11,
  CUDNN_OF_POINTWISE_MODE = 14,
  CUDNN_OF_DESCRIPTOR = 15,
  CUDNN_OF_REDUCTION = 18,
  CUDNN_OF_CHAR = 24,
} CudnnOf;

enum { CUDNN_NOTE_NONDETERMINISTIC = 4, CUDNN_NOTE_MOST = 32 };  // cudnnBackendNumericalNote_t; room for later ones

// X(name in the table, name in the library, result, parameters)
#define CUDNN_FUNCTIONS(X)                                                                                             \
  X(version, cudnnGetVersion, size_t, (void))                                                                          \
  X(error_name, cudnnGetErrorString, const char *, (CudnnStatus status))                                               \
  X(error_text, cudnnGetLastErrorString, void, (char *text, size_t size))                                              \
  X(create, cudnnCreate, CudnnStatus, (CudnnHandle * handle))                                                          \
  X(destroy, cudnnDestroy, CudnnStatus, (CudnnHandle handle))                                                          \
  X(stream_set, cudnnSetStream, CudnnStatus, (CudnnHandle handle, CudaStream stream))                                  \
  X(descriptor_create, cudnnBackendCreateDescriptor, CudnnStatus, (CudnnMake make, CudnnDescriptor * descriptor))      \
  X(descriptor_destroy, cudnnBackendDestroyDescriptor, CudnnStatus, (CudnnDescriptor descriptor))                      \
  X(descriptor_finalise, cudnnBackendFinalize, CudnnStatus, (CudnnDescriptor descriptor))                              \
  X(attribute_set, cudnnBackendSetAttribute, CudnnStatus,                                                              \
    (CudnnDescriptor descriptor, CudnnAttribute attribute, CudnnOf of, int64_t count, const void *elements))           \
  X(attribute_get, cudnnBackendGetAttribute, CudnnStatus,                                                              \
    (CudnnDescriptor descriptor, CudnnAttribute attribute, CudnnOf of, int64_t room, int64_t * count, void *elements)) \
  X(execute, cudnnBackendExecute, CudnnStatus, (CudnnHandle handle, CudnnDescriptor plan, CudnnDescriptor pack))

typedef struct {
#define CUDNN_FUNCTION(name, symbol, result, parameters) result(*name) parameters;
  CUDNN_FUNCTIONS(CUDNN_FUNCTION)
#undef CUDNN_FUNCTION
} CudnnLibrary;

typedef struct CudnnAttention CudnnAttention;

typedef struct {
  CudnnLibrary library;
  int version;                 // of the library: 91900 is 9.19.0
  int capability;              // of the GPU: 90 is 9.0
  const Cuda *cuda;            // NULL with `properties`
  CudnnHandle handle;          // NULL with `properties`
  CudnnDescriptor properties;  // of a GPU that is only described; else NULL
  bool strict;                 // only plans whose results are the same bits every time
  CudnnDescriptor *descriptors;
  int count, room;
  CudnnAttention *attentions;  // plans that were made, in the arenas of their callers
} Cudnn;

// Opens the library and a handle for a GPU, whose context is made current. `cuda` must outlive it. strict: plans that
// may add in another order from run to run are refused. On failure `error` says what is missing, or which version was
// found and which is needed.
bool cudnn_create(const Cuda *cuda, const CudaDevice *device, bool strict, Cudnn **out, Error *error);

// The same for a GPU that is described by cuDNN's JSON of device properties, of compute capability `capability` (90:
// 9.0): plans can be made, so that it can be asked what is covered, but not run.
bool cudnn_create_described(const char *properties, int capability, bool strict, Cudnn **out, Error *error);
void cudnn_destroy(Cudnn *cudnn);  // and all descriptors; NULL: nothing

// A descriptor that lives as long as `cudnn`.
bool cudnn_make(Cudnn *cudnn, CudnnMake make, CudnnDescriptor *descriptor, Error *error);

// Status 1 and the library's words in `error`, unless status is success; `what` says what was tried.
bool cudnn_check(const Cudnn *cudnn, CudnnStatus status, const char *what, Error *error);

#endif
