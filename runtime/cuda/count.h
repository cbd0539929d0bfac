// count.h: how many GPUs there are, without starting CUDA in this process, which would take memory of the first.
#ifndef MDL_RUNTIME_CUDA_COUNT_H
#define MDL_RUNTIME_CUDA_COUNT_H

#include "runtime/device.h"

// Asked by a process of its own; by this one where that cannot, as when CUDA is in use here. 0: none that can be used,
// `error` says why.
int cuda_count_apart(Error *error);

#endif
