// memory.h: large zeroed blocks of memory.
#ifndef MDL_RUNTIME_CPU_MEMORY_H
#define MDL_RUNTIME_CPU_MEMORY_H

#include <stdint.h>

#include "runtime/cpu/pool.h"

// Zeroed, aligned to 64 bytes, large blocks in huge pages where the system has them; all pages are touched, so that
// none is missing later. NULL: not that much memory. Freed with free().
char *memory_create(int64_t bytes, Pool *pool);

int64_t memory_physical(void);  // bytes of the machine; 0: unknown

#endif
