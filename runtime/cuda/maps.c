// maps.c: see maps.h.
#include "runtime/cuda/maps.h"

enum { TYPE_OF_F16 = 6, TYPE_OF_BF16 = 9, SWIZZLE_128 = 3, PROMOTION_256 = 3 };  // CUtensorMapDataType, ...

bool cuda_maps_encode(const Cuda *cuda, const CudaKernel *kernel, const uint64_t *slots,
                      CudaTensorMap maps[CUDA_MAX_MAPS], Error *error) {
  static const uint32_t step[CUDA_MAP_DIMS] = {1, 1, 1, 1, 1};
  for (int i = 0; i < kernel->map_count; i++) {
    const CudaMap *map = &kernel->map[i];
    uint64_t size[CUDA_MAP_DIMS], stride[CUDA_MAP_DIMS];
    uint32_t box[CUDA_MAP_DIMS];
    for (int d = 0; d < CUDA_MAP_DIMS; d++) {
      size[d] = (uint64_t)map->size[d];
      stride[d] = (uint64_t)map->stride[d] * 2;
      box[d] = (uint32_t)map->box[d];
    }
    if (!cuda_check(cuda,
                    cuda->tensor_map(&maps[i], map->f16 ? TYPE_OF_F16 : TYPE_OF_BF16, CUDA_MAP_DIMS, slots[map->port],
                                     size, stride + 1, box, step, 0, SWIZZLE_128, PROMOTION_256, 0),
                    "describing a tensor to the copy engine", error)) {
      return false;
    }
  }
  return true;
}
