// count.h: how many GPUs there are, without starting CUDA in this process: a process that has started it cannot be
// forked into ones that use it.
#ifndef MDL_RUNTIME_CUDA_COUNT_H
#define MDL_RUNTIME_CUDA_COUNT_H

#include "runtime/device.h"

// Asked by a process of its own. 0: none that can be used, `error` says why.
int cuda_count_apart(Error *error);

#endif
