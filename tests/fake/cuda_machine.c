// cuda_machine.c: of the stand-in for NVIDIA's driver: starting it, its devices, their memory, and names of errors.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fake/fake.h"

static pid_t started;  // the process that did

// --- devices ---

CudaStatus cuInit(unsigned flags) {
  (void)flags;
  if (started && started != getpid()) {
    return DRIVER_NOT_INITIALISED;
  }
  started = getpid();
  return 0;
}

CudaStatus cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}

CudaStatus cuDeviceGetCount(int *count) {
  const char *gpus = getenv("FAKE_GPUS");
  *count = gpus ? atoi(gpus) : 1;
  return started == getpid() ? 0 : DRIVER_NOT_INITIALISED;
}

CudaStatus cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return 0;
}

CudaStatus cuDeviceGetName(char *name, int length, int device) {
  snprintf(name, (size_t)length, "stand-in %d", device);
  return 0;
}

CudaStatus cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  *value = attribute == CUDA_MAJOR ? 9 : attribute == CUDA_MINOR ? 0 : 1 << 17;
  return 0;
}

CudaStatus cuDeviceTotalMem(size_t *bytes, int device) {
  (void)device;
  *bytes = (size_t)1 << 34;
  return 0;
}

CudaStatus cuDevicePrimaryCtxRetain(CudaContext *context, int device) {
  (void)device;
  *context = (CudaContext)&started;
  return 0;
}

CudaStatus cuDevicePrimaryCtxRelease(int device) {
  (void)device;
  return 0;
}

CudaStatus cuCtxSetCurrent(CudaContext context) {
  return context && started == getpid() ? 0 : DRIVER_NOT_INITIALISED;
}

CudaStatus cuCtxSynchronize(void) {
  return 0;
}

CudaStatus cuTensorMapEncodeTiled(CudaTensorMap *map, int type, unsigned rank, CudaAddress address,
                                  const uint64_t *size, const uint64_t *stride, const uint32_t *box,
                                  const uint32_t *step, int interleave, int swizzle, int promotion, int outside) {
  const bool known = type > 0 && box && step && interleave == 0 && swizzle > 0 && promotion > 0 && outside == 0;
  for (unsigned i = 0; i < rank; i++) {
    if (!known || address % 16 != 0 || size[i] == 0 || (i > 0 && stride[i - 1] % 16 != 0)) {
      return 1;
    }
  }
  memset(map, 0, sizeof *map);
  return 0;
}

CudaStatus cuGetErrorName(CudaStatus status, const char **text) {
  *text = status == DRIVER_NOT_PERMITTED ? "not permitted" : "an error of the stand-in";
  return 0;
}

CudaStatus cuGetErrorString(CudaStatus status, const char **text) {
  static char said[32];
  snprintf(said, sizeof said, "error %d", status);
  *text = said;
  return 0;
}

// --- memory ---

CudaStatus cuMemAlloc(CudaAddress *address, size_t bytes) {
  void *memory = malloc(bytes);
  *address = (CudaAddress)(uintptr_t)memory;
  return memory ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

CudaStatus cuMemFree(CudaAddress address) {
  free((void *)(uintptr_t)address);
  return 0;
}

CudaStatus cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
  (void)flags;
  *memory = malloc(bytes);
  return *memory ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

CudaStatus cuMemFreeHost(void *memory) {
  free(memory);
  return 0;
}

CudaStatus cuMemHostRegister(void *memory, size_t bytes, unsigned flags) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  return (uintptr_t)memory % page == 0 && bytes > 0 && flags & CUDA_HOST_MAPPED ? 0 : DRIVER_INVALID;
}

CudaStatus cuMemHostUnregister(void *memory) {
  (void)memory;
  return 0;
}

CudaStatus cuMemHostGetDevicePointer(CudaAddress *address, void *memory, unsigned flags) {
  (void)flags;
  *address = (CudaAddress)(uintptr_t)memory;
  return 0;
}

CudaStatus cuMemGetInfo(size_t *available, size_t *total) {
  *available = *total = (size_t)1 << 34;
  return 0;
}
