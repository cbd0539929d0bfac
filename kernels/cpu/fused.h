// fused.h: runs a fused kernel (compiler/ir/kernel.h) tile by tile in cache.
//
// fused_build, when a device opens, turns a Kernel and the places of its ports into a Fused: one or more programs,
// each over the dims that its outputs vary on. A program's space is cut into tasks, each a block of rows and
// columns. A task works through its rows in groups; for each group it runs the phases in order (a row reduction
// ends a phase), each phase over chunks of columns small enough that all live values stay in the first cache.
// Sizes alone decide the cutting, so results do not depend on the number of threads.
#ifndef MDL_KERNELS_CPU_FUSED_H
#define MDL_KERNELS_CPU_FUSED_H

#include "base/arena.h"
#include "compiler/plan/plan.h"
#include "kernels/cpu/simd.h"
#include "runtime/cpu/pool.h"

typedef struct Fused Fused;

// Never fails for a kernel that kernel_verify accepts, except by running out of memory (arena.h).
// The microbatch slots of calls are below `slots`.
Fused *fused_build(Arena *arena, const Simd *simd, const Kernel *kernel, const Place *places, int slots);

// Bytes that fused_run needs: scratch for each worker, and memory shared by all.
int64_t fused_scratch_bytes(const Fused *fused);
int64_t fused_shared_bytes(const Fused *fused);

// `places` holds the address of each port's element at coordinate 0; `first` says that accumulating outputs store.
// scratch[w] and shared are aligned to 64 bytes.
void fused_run(const Fused *fused, Pool *pool, void *const *places, bool first, char *const *scratch, char *shared);

#endif
