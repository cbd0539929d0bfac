// memory.c: blocks that the workers zero together.
#include "runtime/cpu/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/integer.h"

enum { SMALL_ALIGN = 64, HUGE_PAGE = 2 << 20, PART = 4 << 20 };

typedef struct {
  char *memory;
  int64_t bytes;
} Zeroing;

static void zero_part(void *context, int worker, int64_t task) {
  const Zeroing *zeroing = context;
  const int64_t begin = task * PART, left = zeroing->bytes - begin;
  (void)worker;
  memset(zeroing->memory + begin, 0, (size_t)(left < PART ? left : PART));
}

int64_t memory_physical(void) {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? (int64_t)pages * page : 0;
}

char *memory_create(int64_t bytes, Pool *pool) {
  const int64_t physical = memory_physical();
  if (bytes < 0 || (physical > 0 && bytes > physical)) {
    return NULL;  // the system might promise it and end the process when it is used
  }
  const size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : SMALL_ALIGN;
  const size_t size = ((size_t)bytes + align) / align * align;
  char *memory = aligned_alloc(align, size);
  if (!memory) {
    return NULL;
  }
#ifdef MADV_HUGEPAGE
  if (align == HUGE_PAGE) {
    madvise(memory, size, MADV_HUGEPAGE);
  }
#endif
  Zeroing zeroing = {memory, (int64_t)size};
  pool_run(pool, blocks_of((int64_t)size, PART), zero_part, &zeroing);
  return memory;
}
