// target.h: kinds of GPUs that kernels are compiled for ahead of time, and which chips run the code of which.
#ifndef MDL_KERNELS_CUDA_TARGET_H
#define MDL_KERNELS_CUDA_TARGET_H

#include <stdbool.h>

typedef struct {  // of the GPU
  int multiprocessors;
  int shared_bytes;  // that one block can have
} CudaTarget;

#define CUDA_TARGET_NAMES "sm_80, sm_86, sm_89, sm_90a, sm_100a or compute_80"

// The figures of a target: those of its largest usual GPU, and of PTX such that every chip has as much. False: it is
// not one of CUDA_TARGET_NAMES.
bool cuda_target_find(const char *name, CudaTarget *target);

bool cuda_target_is_text(const char *name);  // PTX, which the driver compiles

// How well code for a target serves a chip of this compute capability: 0 not at all, else the more the better: PTX, a
// cubin of an older chip of its generation, its own cubin.
int cuda_target_serves(const char *name, int major, int minor);

#endif
