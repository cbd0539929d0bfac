// squares.h: sums of the squares of many ranges of one buffer (instructions.def, SQUARES).
#ifndef MDL_KERNELS_CPU_SQUARES_H
#define MDL_KERNELS_CPU_SQUARES_H

#include "compiler/plan/plan.h"
#include "runtime/cpu/pool.h"

int64_t squares_shared_bytes(const Squares *squares);  // that squares_run needs, aligned to 8 bytes

void squares_run(const Squares *squares, Pool *pool, const void *from, void *to, char *shared);

#endif
