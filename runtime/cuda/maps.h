// maps.h: how the copy engine of sm_90 sees the tensors of a kernel (CudaMap), for a launch.
#ifndef MDL_RUNTIME_CUDA_MAPS_H
#define MDL_RUNTIME_CUDA_MAPS_H

#include "kernels/cuda/kernel.h"
#include "runtime/cuda/driver.h"

// slots: the addresses of the kernel's ports. False with the driver's words, where an address or a stride is not a
// multiple of 16 bytes.
bool cuda_maps_encode(const Cuda *cuda, const CudaKernel *kernel, const uint64_t *slots,
                      CudaTensorMap maps[CUDA_MAX_MAPS], Error *error);

#endif
