// offload.h: values that wait for the backward, in pinned memory of the host.
#ifndef MDL_RUNTIME_CUDA_OFFLOAD_H
#define MDL_RUNTIME_CUDA_OFFLOAD_H

#include "compiler/plan/plan.h"
#include "runtime/cuda/driver.h"

// The arena of the class ARENA_OFFLOAD, zeroed. *memory is NULL if the plan has none.
bool offload_open(const Cuda *cuda, const Plan *plan, char **memory, Error *error);

// OFFLOAD and FETCH, between the GPU's memory and the host's.
bool offload_launch(const Cuda *cuda, const Instruction *instruction, CudaAddress device, char *host, CudaStream stream,
                    Error *error);

#endif
