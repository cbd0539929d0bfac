// cudnn.c: opens cuDNN, and keeps its descriptors.
#include "runtime/cuda/cudnn.h"

#include <stdlib.h>
#include <string.h>

#include "base/library.h"

static const LibrarySymbol cudnn_symbols[] = {
#define CUDNN_FUNCTION(name, symbol, result, parameters) {#symbol, offsetof(CudnnLibrary, name), false},
    CUDNN_FUNCTIONS(CUDNN_FUNCTION)
#undef CUDNN_FUNCTION
};

bool cudnn_check(const Cudnn *cudnn, CudnnStatus status, const char *what, Error *error) {
  if (status == 0) {
    return true;
  }
  char text[512] = "";
  cudnn->library.error_text(text, sizeof text);
  for (char *at = text; *at; at++) {
    if (*at == '\n' || *at == '\t') {
      *at = ' ';
    }
  }
  return error_set(error, 1, "cuDNN: %s failed: %s%s%s", what, cudnn->library.error_name(status), *text ? ": " : "",
                   text);
}

// The library stays open when it is given back: it holds the CUDA runtime, which must not go before the process does.
static bool library_start(Cudnn *cudnn, Error *error) {
  static const char *const names[] = {"libcudnn.so.9", NULL};
  char message[512];
  void *handle = NULL;
  if (!library_open(names, cudnn_symbols, (int)(sizeof cudnn_symbols / sizeof *cudnn_symbols), &cudnn->library, &handle,
                    message, sizeof message)) {
    return error_set(error, 1, "no usable cuDNN: %s (cuDNN %d.%d or newer of version 9 is needed)", message,
                     CUDNN_LEAST / 10000, CUDNN_LEAST / 100 % 100);
  }
  cudnn->version = (int)cudnn->library.version();
  if (cudnn->version < CUDNN_LEAST) {
    return error_set(error, 1, "cuDNN is version %d.%d.%d; %d.%d or newer is needed", cudnn->version / 10000,
                     cudnn->version / 100 % 100, cudnn->version % 100, CUDNN_LEAST / 10000, CUDNN_LEAST / 100 % 100);
  }
  return true;
}

bool cudnn_create(const Cuda *cuda, const CudaDevice *device, bool strict, Cudnn **out, Error *error) {
  Cudnn *cudnn = calloc(1, sizeof *cudnn);
  if (!cudnn) {
    return error_set(error, 3, "out of memory");
  }
  *cudnn = (Cudnn){.cuda = cuda, .capability = device->major * 10 + device->minor, .strict = strict};
  if (!library_start(cudnn, error) ||
      !cuda_check(cuda, cuda->context_set(device->context), "choosing the GPU for cuDNN", error) ||
      !cudnn_check(cudnn, cudnn->library.create(&cudnn->handle), "starting on the GPU", error)) {
    cudnn_destroy(cudnn);
    return false;
  }
  *out = cudnn;
  return true;
}

bool cudnn_create_described(const char *properties, int capability, bool strict, Cudnn **out, Error *error) {
  Cudnn *cudnn = calloc(1, sizeof *cudnn);
  if (!cudnn) {
    return error_set(error, 3, "out of memory");
  }
  *cudnn = (Cudnn){.capability = capability, .strict = strict};
  const CudnnLibrary *library = &cudnn->library;
  if (!library_start(cudnn, error) || !cudnn_make(cudnn, CUDNN_MAKE_PROPERTIES, &cudnn->properties, error) ||
      !cudnn_check(cudnn,
                   library->attribute_set(cudnn->properties, CUDNN_PROPERTIES_TEXT, CUDNN_OF_CHAR,
                                          (int64_t)strlen(properties), properties),
                   "describing a GPU", error) ||
      !cudnn_check(cudnn, library->descriptor_finalise(cudnn->properties), "describing a GPU", error)) {
    cudnn_destroy(cudnn);
    return false;
  }
  *out = cudnn;
  return true;
}

void cudnn_destroy(Cudnn *cudnn) {
  if (!cudnn) {
    return;
  }
  while (cudnn->count > 0) {
    cudnn->library.descriptor_destroy(cudnn->descriptors[--cudnn->count]);
  }
  if (cudnn->handle) {
    cudnn->library.stream_set(cudnn->handle, NULL);  // the last one may be gone
    cudnn->library.destroy(cudnn->handle);
  }
  free(cudnn->descriptors);
  free(cudnn);
}

bool cudnn_make(Cudnn *cudnn, CudnnMake make, CudnnDescriptor *descriptor, Error *error) {
  if (cudnn->count == cudnn->room) {
    const int room = cudnn->room ? 2 * cudnn->room : 64;
    CudnnDescriptor *grown = realloc(cudnn->descriptors, (size_t)room * sizeof *grown);
    if (!grown) {
      return error_set(error, 3, "out of memory");
    }
    cudnn->descriptors = grown;
    cudnn->room = room;
  }
  *descriptor = NULL;
  if (!cudnn_check(cudnn, cudnn->library.descriptor_create(make, descriptor), "making a descriptor", error)) {
    return false;
  }
  cudnn->descriptors[cudnn->count++] = *descriptor;
  return true;
}
