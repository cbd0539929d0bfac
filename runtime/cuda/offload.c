// offload.c: copies to pinned memory and back.
#include "runtime/cuda/offload.h"

#include <string.h>

#include "runtime/cpu/memory.h"

static const double GIB = 1024.0 * 1024 * 1024;

bool offload_open(const Cuda *cuda, const Plan *plan, char **memory, Error *error) {
  const int64_t bytes = plan->arena_bytes[ARENA_OFFLOAD];
  const int64_t physical = memory_physical();  // a system that is asked for more may end the process
  const bool fits = physical <= 0 || bytes <= physical;
  *memory = NULL;
  if (bytes == 0) {
    return true;
  }
  const CudaStatus status =
      fits ? cuda->host_allocate((void **)memory, (size_t)bytes, CUDA_HOST_PORTABLE) : CUDA_ERROR_OUT_OF_MEMORY;
  if (status) {
    const char *words = NULL;
    const bool said = fits && cuda->error_text(status, &words) == 0 && words;
    *memory = NULL;
    return error_set(error, 3,
                     "what the layout offloads takes %.2f GiB of the host's %.2f GiB of memory, pinned: %s; offload "
                     "less, or use smaller microbatches",
                     (double)bytes / GIB, (double)physical / GIB, said ? words : "there is not so much");
  }
  memset(*memory, 0, (size_t)bytes);
  return true;
}

bool offload_launch(const Cuda *cuda, const Instruction *instruction, CudaAddress device, char *host, CudaStream stream,
                    Error *error) {
  const size_t bytes = (size_t)instruction->as.offload.bytes;
  return instruction->kind == INSTRUCTION_OFFLOAD
             ? cuda_check(cuda, cuda->copy_out(host, device, bytes, stream), "copying to the host", error)
             : cuda_check(cuda, cuda->copy_in(device, host, bytes, stream), "copying from the host", error);
}
