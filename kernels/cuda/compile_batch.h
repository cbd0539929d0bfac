// compile_batch.h: many texts for one target, compiled side by side on all cores.
#ifndef MDL_KERNELS_CUDA_COMPILE_BATCH_H
#define MDL_KERNELS_CUDA_COMPILE_BATCH_H

#include "kernels/cuda/compile.h"

enum { CUDA_MESSAGE_MAX = 1024 };

typedef struct {
  const char *text, *name;  // the name is for messages
  CudaBinary binary;        // a job that has code already is left alone; else to be freed by the caller
  bool failed;
  char message[CUDA_MESSAGE_MAX];  // why
} CudaJob;

typedef struct {
  const char *target, *cache;  // as for cuda_compiler_open
  // NULL: nobody watches. Else called from the caller's thread now and then.
  void (*progress)(void *context, int done, int count);
  void *context;
} CudaBatch;

// Returns how many were not in the cache. `version` (may be NULL) gets the compiler's; "" if there is none, which makes
// every job fail.
int64_t cuda_compile_batch(const CudaBatch *batch, CudaJob *const *jobs, int count, char version[32]);

#endif
