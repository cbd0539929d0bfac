// host_memory.h: large blocks of memory of the machine that are there when they are given, and how much there is.
#ifndef MDL_RUNTIME_HOST_MEMORY_H
#define MDL_RUNTIME_HOST_MEMORY_H

#include "runtime/device.h"

// Bytes that this process may still take without the system reclaiming any other: of the machine, and of the control
// group that it is in. INT64_MAX: nobody says.
int64_t host_memory_available(void);

// Has every page of mapped memory there. False, with status 3: there is not so much.
bool host_memory_populate(void *memory, int64_t bytes, Error *error);

#endif
