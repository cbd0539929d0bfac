// driver.c: opens the driver and its functions, and devices.
#include "runtime/cuda/driver.h"

#include <stdio.h>
#include <string.h>

#include "base/library.h"

typedef struct {
  const char *name;
  int version;
  size_t offset;
} DriverSymbol;

static const DriverSymbol driver_symbols[] = {
#define CUDA_DRIVER_FUNCTION(name, symbol, version, parameters) {#symbol, version, offsetof(Cuda, name)},
    CUDA_DRIVER_FUNCTIONS(CUDA_DRIVER_FUNCTION)
#undef CUDA_DRIVER_FUNCTION
};

typedef struct {
  CudaStatus (*lookup)(const char *symbol, void **function, int version, uint64_t flags, int *found);
} Lookup;

static bool functions_find(Cuda *cuda, const Lookup *lookup, Error *error) {
  for (size_t i = 0; i < sizeof driver_symbols / sizeof *driver_symbols; i++) {
    const DriverSymbol *symbol = &driver_symbols[i];
    void *function = NULL;
    int found = 0;
    if (lookup->lookup(symbol->name, &function, symbol->version, 0, &found) != 0 || !function) {
      return error_set(error, 1, "the NVIDIA driver has no %s of CUDA %d.%d; install a driver for CUDA %d.%d or newer",
                       symbol->name, symbol->version / 1000, symbol->version % 1000 / 10, CUDA_DRIVER_LEAST / 1000,
                       CUDA_DRIVER_LEAST % 1000 / 10);
    }
    memcpy((char *)cuda + symbol->offset, &function, sizeof function);
  }
  return true;
}

bool cuda_open(Cuda *cuda, Error *error) {
  static const char *const names[] = {"libcuda.so.1", NULL};
  static const LibrarySymbol symbols[] = {{"cuGetProcAddress_v2", offsetof(Lookup, lookup), false}};
  Lookup lookup;
  char message[512];
  *cuda = (Cuda){0};
  if (!library_open(names, symbols, 1, &lookup, &cuda->handle, message, sizeof message)) {
    return error_set(error, 1, "no usable NVIDIA driver: %s (a driver for CUDA %d.%d or newer is needed)", message,
                     CUDA_DRIVER_LEAST / 1000, CUDA_DRIVER_LEAST % 1000 / 10);
  }
  int count = 0;
  if (!functions_find(cuda, &lookup, error)) {
    cuda_close(cuda);
    return false;
  }
  const CudaStatus started = cuda->init(0);
  if ((started != CUDA_ERROR_NO_DEVICE && !cuda_check(cuda, started, "starting the driver", error)) ||
      !cuda_check(cuda, cuda->driver_version(&cuda->version), "asking for the driver's version", error) ||
      (started == 0 && !cuda_check(cuda, cuda->device_count(&count), "counting GPUs", error))) {
    cuda_close(cuda);
    return false;
  }
  if (cuda->version < CUDA_DRIVER_LEAST || count == 0) {
    const int version = cuda->version;
    cuda_close(cuda);
    return count == 0 ? error_set(error, 1, "the NVIDIA driver shows no GPU (CUDA_VISIBLE_DEVICES may hide them)")
                      : error_set(error, 1, "the NVIDIA driver is for CUDA %d.%d; CUDA %d.%d or newer is needed",
                                  version / 1000, version % 1000 / 10, CUDA_DRIVER_LEAST / 1000,
                                  CUDA_DRIVER_LEAST % 1000 / 10);
  }
  return true;
}

void cuda_close(Cuda *cuda) {
  library_close(cuda->handle);
  *cuda = (Cuda){0};
}

int cuda_count(const Cuda *cuda) {
  int count = 0;
  return cuda->device_count(&count) == 0 ? count : 0;
}

bool cuda_check(const Cuda *cuda, CudaStatus status, const char *what, Error *error) {
  if (status == 0) {
    return true;
  }
  const char *name = NULL, *text = NULL;
  cuda->error_name(status, &name);
  cuda->error_text(status, &text);
  return error_set(error, status == CUDA_ERROR_OUT_OF_MEMORY ? 3 : 1, "%s failed: %s (%s)", what,
                   text ? text : "unknown error", name ? name : "no name");
}

static bool attributes_read(const Cuda *cuda, CudaDevice *device, Error *error) {
  int khz = 0, bits = 0;
  const struct {
    int attribute;
    int *value;
  } wanted[] = {
      {CUDA_MAJOR, &device->major},
      {CUDA_MINOR, &device->minor},
      {CUDA_MULTIPROCESSORS, &device->multiprocessors},
      {CUDA_L2_BYTES, &device->l2_bytes},
      {CUDA_SHARED_OPTIN, &device->shared_bytes},
      {CUDA_MEMORY_KHZ, &khz},
      {CUDA_MEMORY_BITS, &bits},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    if (!cuda_check(cuda, cuda->device_attribute(wanted[i].value, wanted[i].attribute, device->handle),
                    "asking what the GPU is", error)) {
      return false;
    }
  }
  device->memory_rate = 2e3 * khz * bits / 8;  // two transfers a clock
  return true;
}

// What a GPU is; false also where it is too old.
static bool device_describe(const Cuda *cuda, int index, CudaDevice *device, Error *error) {
  size_t bytes = 0;
  *device = (CudaDevice){.index = index};
  if (index >= cuda_count(cuda)) {
    return error_set(error, 1, "there is no GPU %d: the driver shows %d", index, cuda_count(cuda));
  }
  if (!cuda_check(cuda, cuda->device_get(&device->handle, index), "opening the GPU", error) ||
      !cuda_check(cuda, cuda->device_name(device->name, sizeof device->name, device->handle), "naming the GPU",
                  error) ||
      !attributes_read(cuda, device, error) ||
      !cuda_check(cuda, cuda->device_memory(&bytes, device->handle), "asking for the GPU's memory", error)) {
    return false;
  }
  device->memory_bytes = (int64_t)bytes;
  if (device->major < 8) {
    return error_set(error, 1, "%s has compute capability %d.%d; 8.0 or newer is needed", device->name, device->major,
                     device->minor);
  }
  snprintf(device->target, sizeof device->target, "sm_%d%d%s", device->major, device->minor,
           device->major >= 9 ? "a" : "");
  return true;
}

bool cuda_present(Error *error) {
  Cuda cuda;
  CudaDevice device;
  if (!cuda_open(&cuda, error)) {
    return false;
  }
  const bool good = device_describe(&cuda, 0, &device, error);
  cuda_close(&cuda);
  return good;
}

bool cuda_device_open(const Cuda *cuda, int index, CudaDevice *device, Error *error) {
  if (!device_describe(cuda, index, device, error) ||
      !cuda_check(cuda, cuda->primary_retain(&device->context, device->handle), "making the GPU's context", error)) {
    return false;
  }
  if (!cuda_check(cuda, cuda->context_set(device->context), "choosing the GPU", error)) {
    cuda_device_close(cuda, device);
    return false;
  }
  return true;
}

void cuda_device_close(const Cuda *cuda, CudaDevice *device) {
  if (device->context) {
    cuda->context_set(NULL);
    cuda->primary_release(device->handle);
  }
  *device = (CudaDevice){0};
}
