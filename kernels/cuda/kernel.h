// kernel.h: CUDA C text and how it is launched: what every generator of this folder makes.
//
// The text is freestanding (no #include), compiled by NVRTC for one target (compile.h). All functions of one text are
// extern "C" __global__ and take one parameter by value, a block of 64-bit slots:
//
//   struct Slots { unsigned long long at[SLOTS]; };
//
// at[0 .. port_count): the address of each port, or the index at which a PORT_STRIDES begins (plan.h, KernelCall);
// at[port_count]: the address of scratch_bytes of device memory, 256-byte aligned, with nothing in it;
// at[port_count + 1]: CUDA_SLOT_FIRST if the call is the first of those that accumulate, else 0;
// at[port_count + 2 .. + number_count): the kernel's numbers: keys of random numbers, which differ from layer to layer.
// A kernel with maps has a second parameter, also by value: they, of 128 bytes each, aligned to 64.
//
// The launches are made one after the other on one stream. Nothing else is known at run time: sizes and strides are
// constants of the text, so instructions of equal content share it.
#ifndef MDL_KERNELS_CUDA_KERNEL_H
#define MDL_KERNELS_CUDA_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

enum { CUDA_MAX_LAUNCHES = 8, CUDA_MAX_PORTS = 160, CUDA_MAX_NUMBERS = 8, CUDA_SLOT_FIRST = 1 };
enum { CUDA_MAX_SLOTS = CUDA_MAX_PORTS + 2 + CUDA_MAX_NUMBERS };
enum { CUDA_MAX_MAPS = 4, CUDA_MAP_DIMS = 5 };

typedef struct {
  const char *function;
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;  // dynamic
  uint32_t cluster;       // blocks that run at once, as the text itself says; 0: no clusters
} CudaLaunch;

// A tensor of 16-bit elements as the copy engine of sm_90 sees it: boxes of it, with rows of 128 bytes, swizzled.
typedef struct {
  int port;
  bool f16;                       // else bf16
  int64_t size[CUDA_MAP_DIMS];    // from the innermost dim out
  int64_t stride[CUDA_MAP_DIMS];  // elements; of the innermost 1
  int box[CUDA_MAP_DIMS];
} CudaMap;

typedef struct {
  const char *text;  // in the arena it was made in
  const char *form;  // which template, in words: for traces and tables of speed
  int port_count;
  int number_count;
  uint64_t number[CUDA_MAX_NUMBERS];
  int launch_count;
  CudaLaunch launch[CUDA_MAX_LAUNCHES];
  int map_count;
  CudaMap map[CUDA_MAX_MAPS];
  int64_t scratch_bytes;
  double bytes;  // least traffic of one call: every input read once, every output written once
} CudaKernel;

// Fills what comes after the ports; slots has room for CUDA_MAX_SLOTS, or for as many as this kernel has.
static inline void cuda_slots_end(const CudaKernel *kernel, uint64_t *slots, uint64_t scratch, bool first) {
  uint64_t *end = slots + kernel->port_count;
  *end++ = scratch;
  *end++ = first ? CUDA_SLOT_FIRST : 0;
  for (int i = 0; i < kernel->number_count; i++) {
    *end++ = kernel->number[i];
  }
}

#endif
