// take.h: reading and adding along an axis by index, and windows.
#ifndef MDL_KERNELS_CPU_TAKE_H
#define MDL_KERNELS_CPU_TAKE_H

#include "compiler/plan/plan.h"
#include "kernels/cpu/simd.h"
#include "runtime/cpu/pool.h"

// chosen: Take.parts numbers; NULL where it has none.
void take_run(const Take *take, const Simd *simd, Pool *pool, const void *x, const int32_t *index,
              const int32_t *chosen, void *out);
void put_run(const Take *take, const Simd *simd, Pool *pool, void *x, const int32_t *index, const void *source,
             bool first);
void window_run(const Window *window, Pool *pool, const void *x, void *out);
void fold_run(const Window *window, Pool *pool, void *x, const void *out);

#endif
