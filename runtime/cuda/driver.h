// driver.h: NVIDIA's driver, opened at run time: the functions we call, a device, and errors in words.
//
// The declarations are our own, of the documented interface, so that building needs no CUDA toolkit and the same
// program starts on machines without a GPU. Functions are asked for by cuGetProcAddress with the version whose
// signature is declared here.
#ifndef MDL_RUNTIME_CUDA_DRIVER_H
#define MDL_RUNTIME_CUDA_DRIVER_H

#include "runtime/device.h"

typedef int CudaStatus;        // CUresult; 0: success
typedef uint64_t CudaAddress;  // CUdeviceptr
typedef struct CUstream_st *CudaStream;
typedef struct CUevent_st *CudaEvent;
typedef struct CUmod_st *CudaModule;
typedef struct CUfunc_st *CudaFunction;
typedef struct CUgraph_st *CudaGraph;
typedef struct CUgraphExec_st *CudaGraphExec;
typedef struct CUgraphNode_st *CudaGraphNode;
typedef struct CUctx_st *CudaContext;

enum { CUDA_DRIVER_LEAST = 12000 };  // of cuDriverGetVersion
enum { CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NO_DEVICE = 100, CUDA_ERROR_NOT_READY = 600 };
enum {  // CUdevice_attribute
  CUDA_MULTIPROCESSORS = 16,
  CUDA_MEMORY_KHZ = 36,
  CUDA_MEMORY_BITS = 37,
  CUDA_L2_BYTES = 38,
  CUDA_MAJOR = 75,
  CUDA_MINOR = 76,
  CUDA_SHARED_OPTIN = 97,
};
enum { CUDA_FUNCTION_SHARED_MAX = 8 };  // CUfunction_attribute: dynamic shared bytes allowed
enum { CUDA_STREAM_NON_BLOCKING = 1, CUDA_EVENT_DEFAULT = 0, CUDA_EVENT_NO_TIMING = 2 };
enum { CUDA_EVENT_WAIT_EXTERNAL = 1 };  // of stream_wait while capturing: the event as it is when the graph is launched
enum { CUDA_HOST_PORTABLE = 1, CUDA_HOST_MAPPED = 2 };
enum { CUDA_CAPTURE_THREAD_LOCAL = 1 };
enum { CUDA_MEMORY_DEVICE = 2 };  // CUmemorytype

typedef struct {  // CUDA_MEMCPY2D: rows of `width` bytes, the first at x, y of each side; host and array are of no use
                  // here
  size_t from_x, from_y;
  int from_kind;
  const void *from_host;
  CudaAddress from;
  void *from_array;
  size_t from_pitch, to_x, to_y;
  int to_kind;
  void *to_host;
  CudaAddress to;
  void *to_array;
  size_t to_pitch, width, height;
} CudaRectangle;

typedef struct {  // CUtensorMap
  _Alignas(64) uint64_t at[16];
} CudaTensorMap;

// X(result name in the table, name in the driver, version of its signature, parameters)
#define CUDA_DRIVER_FUNCTIONS(X)                                                                                       \
  X(init, cuInit, 2000, (unsigned flags))                                                                              \
  X(driver_version, cuDriverGetVersion, 2020, (int *version))                                                          \
  X(device_count, cuDeviceGetCount, 2000, (int *count))                                                                \
  X(device_get, cuDeviceGet, 2000, (int *device, int ordinal))                                                         \
  X(device_name, cuDeviceGetName, 2000, (char *name, int length, int device))                                          \
  X(device_attribute, cuDeviceGetAttribute, 2000, (int *value, int attribute, int device))                             \
  X(device_memory, cuDeviceTotalMem, 3020, (size_t * bytes, int device))                                               \
  X(device_bus, cuDeviceGetPCIBusId, 4010, (char *text, int length, int device))                                       \
  X(primary_retain, cuDevicePrimaryCtxRetain, 7000, (CudaContext * context, int device))                               \
  X(primary_release, cuDevicePrimaryCtxRelease, 11000, (int device))                                                   \
  X(context_set, cuCtxSetCurrent, 4000, (CudaContext context))                                                         \
  X(context_synchronize, cuCtxSynchronize, 2000, (void))                                                               \
  X(memory_info, cuMemGetInfo, 3020, (size_t * available, size_t * total))                                             \
  X(memory_allocate, cuMemAlloc, 3020, (CudaAddress * address, size_t bytes))                                          \
  X(memory_free, cuMemFree, 3020, (CudaAddress address))                                                               \
  X(host_allocate, cuMemHostAlloc, 2020, (void **memory, size_t bytes, unsigned flags))                                \
  X(host_free, cuMemFreeHost, 2000, (void *memory))                                                                    \
  X(host_register, cuMemHostRegister, 6050, (void *memory, size_t bytes, unsigned flags))                              \
  X(host_unregister, cuMemHostUnregister, 4000, (void *memory))                                                        \
  X(host_address, cuMemHostGetDevicePointer, 3020, (CudaAddress * address, void *memory, unsigned flags))              \
  X(copy_in, cuMemcpyHtoDAsync, 3020, (CudaAddress to, const void *from, size_t bytes, CudaStream stream))             \
  X(copy_out, cuMemcpyDtoHAsync, 3020, (void *to, CudaAddress from, size_t bytes, CudaStream stream))                  \
  X(copy_within, cuMemcpyDtoDAsync, 3020, (CudaAddress to, CudaAddress from, size_t bytes, CudaStream stream))         \
  X(copy_rectangle, cuMemcpy2DAsync, 3020, (const CudaRectangle *rectangle, CudaStream stream))                        \
  X(fill_bytes, cuMemsetD8Async, 3020, (CudaAddress to, unsigned char value, size_t count, CudaStream stream))         \
  X(fill_words, cuMemsetD32Async, 3020, (CudaAddress to, unsigned value, size_t count, CudaStream stream))             \
  X(stream_create, cuStreamCreate, 2000, (CudaStream * stream, unsigned flags))                                        \
  X(stream_create_before, cuStreamCreateWithPriority, 5050, (CudaStream * stream, unsigned flags, int priority))       \
  X(stream_destroy, cuStreamDestroy, 4000, (CudaStream stream))                                                        \
  X(stream_synchronize, cuStreamSynchronize, 2000, (CudaStream stream))                                                \
  X(stream_query, cuStreamQuery, 2000, (CudaStream stream))                                                            \
  X(stream_wait, cuStreamWaitEvent, 3020, (CudaStream stream, CudaEvent event, unsigned flags))                        \
  X(stream_wait_word, cuStreamWaitValue32, 12000, (CudaStream stream, CudaAddress at, uint32_t least, unsigned flags)) \
  X(stream_write_word, cuStreamWriteValue32, 12000,                                                                    \
    (CudaStream stream, CudaAddress to, uint32_t value, unsigned flags))                                               \
  X(capture_begin, cuStreamBeginCapture, 10010, (CudaStream stream, int mode))                                         \
  X(capture_end, cuStreamEndCapture, 10000, (CudaStream stream, CudaGraph * graph))                                    \
  X(graph_nodes, cuGraphGetNodes, 10000, (CudaGraph graph, CudaGraphNode * nodes, size_t * count))                     \
  X(graph_instantiate, cuGraphInstantiateWithFlags, 11040,                                                             \
    (CudaGraphExec * exec, CudaGraph graph, unsigned long long flags))                                                 \
  X(graph_upload, cuGraphUpload, 11010, (CudaGraphExec exec, CudaStream stream))                                       \
  X(graph_launch, cuGraphLaunch, 10000, (CudaGraphExec exec, CudaStream stream))                                       \
  X(graph_exec_destroy, cuGraphExecDestroy, 10000, (CudaGraphExec exec))                                               \
  X(graph_destroy, cuGraphDestroy, 10000, (CudaGraph graph))                                                           \
  X(event_create, cuEventCreate, 2000, (CudaEvent * event, unsigned flags))                                            \
  X(event_destroy, cuEventDestroy, 4000, (CudaEvent event))                                                            \
  X(event_record, cuEventRecord, 2000, (CudaEvent event, CudaStream stream))                                           \
  X(event_query, cuEventQuery, 2000, (CudaEvent event))                                                                \
  X(event_synchronize, cuEventSynchronize, 2000, (CudaEvent event))                                                    \
  X(event_elapsed, cuEventElapsedTime, 2000, (float *milliseconds, CudaEvent from, CudaEvent to))                      \
  X(module_load, cuModuleLoadData, 2000, (CudaModule * module, const void *image))                                     \
  X(module_unload, cuModuleUnload, 2000, (CudaModule module))                                                          \
  X(module_function, cuModuleGetFunction, 2000, (CudaFunction * function, CudaModule module, const char *name))        \
  X(function_set, cuFuncSetAttribute, 9000, (CudaFunction function, int attribute, int value))                         \
  X(function_get, cuFuncGetAttribute, 2020, (int *value, int attribute, CudaFunction function))                        \
  X(launch, cuLaunchKernel, 4000,                                                                                      \
    (CudaFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
     unsigned block_z, unsigned shared_bytes, CudaStream stream, void **parameters, void **extra))                     \
  X(tensor_map, cuTensorMapEncodeTiled, 12000,                                                                         \
    (CudaTensorMap * map, int type, unsigned rank, CudaAddress address, const uint64_t *size, const uint64_t *stride,  \
     const uint32_t *box, const uint32_t *step, int interleave, int swizzle, int promotion, int outside))              \
  X(error_name, cuGetErrorName, 6000, (CudaStatus status, const char **text))                                          \
  X(error_text, cuGetErrorString, 6000, (CudaStatus status, const char **text))

typedef struct {
#define CUDA_DRIVER_FUNCTION(name, symbol, version, parameters) CudaStatus(*name) parameters;
  CUDA_DRIVER_FUNCTIONS(CUDA_DRIVER_FUNCTION)
#undef CUDA_DRIVER_FUNCTION
  void *handle;
  int version;  // of the driver: 13000 is CUDA 13.0
} Cuda;

typedef struct {
  int index, handle;
  char name[96];
  char target[16];                                            // what kernels are compiled for: sm_90a, sm_80, ...
  int major, minor, multiprocessors, l2_bytes, shared_bytes;  // shared: most dynamic bytes of a block
  int64_t memory_bytes;
  double memory_rate;  // bytes a second, read and written, by its clock and width
  CudaContext context;
} CudaDevice;

// Opens the driver. On failure `error` says whether there is no driver, or one that is too old (found and needed), or
// no GPU.
bool cuda_open(Cuda *cuda, Error *error);
void cuda_close(Cuda *cuda);
int cuda_count(const Cuda *cuda);
bool cuda_present(Error *error);  // whether this machine has a driver and a GPU that can be used; opens and closes them

// The primary context of GPU `index`, made current for this thread.
bool cuda_device_open(const Cuda *cuda, int index, CudaDevice *device, Error *error);
void cuda_device_close(const Cuda *cuda, CudaDevice *device);

// False, with `error` saying what was tried and the driver's words, unless status is success. Status 3 if memory is
// out.
bool cuda_check(const Cuda *cuda, CudaStatus status, const char *what, Error *error);

#endif
