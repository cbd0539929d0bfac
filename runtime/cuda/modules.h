// modules.h: the generated kernels of one device: texts compiled once each, side by side, and loaded.
//
// First all kernels are added, then modules_load takes the code of each text from the plan, if that was compiled for
// this GPU ahead of time; the others are compiled on several threads, or found in the cache, and all are loaded.
// Kernels with equal text share their code, so the layers of a model do.
#ifndef MDL_RUNTIME_CUDA_MODULES_H
#define MDL_RUNTIME_CUDA_MODULES_H

#include "base/arena.h"
#include "compiler/plan/plan.h"
#include "kernels/cuda/kernel.h"
#include "runtime/cuda/driver.h"

typedef struct Modules Modules;

typedef struct {  // a kernel of an instruction, ready when modules_load has returned
  CudaKernel kernel;
  CudaFunction function[CUDA_MAX_LAUNCHES];
} Loaded;

// cache: as in kernels/cuda/compile.h. Plan and arena must outlive it.
Modules *modules_create(const Cuda *cuda, const CudaDevice *device, const Plan *plan, Arena *arena, const char *cache);
void modules_destroy(Modules *modules);  // unloads; NULL: nothing

// `name` is for messages. The answer lives in the arena and is the same for the same pointer.
Loaded *modules_add(Modules *modules, const CudaKernel *kernel, const char *name);
bool modules_load(Modules *modules, Error *error);

int modules_texts(const Modules *modules);         // different ones
int64_t modules_compiled(const Modules *modules);  // of them, those that were neither in the plan nor in the cache

// All launches of a kernel: slots holds port_count addresses; scratch and first as kernels/cuda/kernel.h says.
bool modules_launch(const Cuda *cuda, const Loaded *loaded, const uint64_t *slots, CudaAddress scratch, bool first,
                    CudaStream stream, Error *error);

#endif
