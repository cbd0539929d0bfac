// fail.c: memory that cannot be had: preloaded, it makes the n-th allocation of a program fail, or that and all later.
//
//   FAIL_ALLOCATION=N     (from 1; FAIL_ALWAYS=1: and all after it)      FAIL_COUNT=FILE: how many there were, at the
//   end
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

// glibc's own, so that none has to be looked up while the first allocation is made.
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static atomic_long allocations, fail_at = -1, always;

static int fails(void) {
  long at = atomic_load(&fail_at);
  if (at < 0) {
    const char *wanted = getenv("FAIL_ALLOCATION");
    at = wanted ? atol(wanted) : 0;
    atomic_store(&always, getenv("FAIL_ALWAYS") != NULL);
    atomic_store(&fail_at, at);
  }
  const long count = atomic_fetch_add(&allocations, 1) + 1;
  if (at > 0 && (count == at || (count > at && atomic_load(&always)))) {
    errno = ENOMEM;
    return 1;
  }
  return 0;
}

__attribute__((visibility("default"))) void *malloc(size_t size) {
  return fails() ? NULL : __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size) {
  return fails() ? NULL : __libc_calloc(count, size);
}

__attribute__((visibility("default"))) void *realloc(void *memory, size_t size) {
  return fails() ? NULL : __libc_realloc(memory, size);
}

__attribute__((visibility("default"))) void *memalign(size_t alignment, size_t size) {
  return fails() ? NULL : __libc_memalign(alignment, size);
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t size) {
  return fails() ? NULL : __libc_memalign(alignment, size);
}

__attribute__((visibility("default"))) int posix_memalign(void **memory, size_t alignment, size_t size) {
  void *made = fails() ? NULL : __libc_memalign(alignment, size);
  if (!made) {
    return ENOMEM;
  }
  *memory = made;
  return 0;
}

__attribute__((destructor)) static void say(void) {
  const char *path = getenv("FAIL_COUNT");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (file) {
    fprintf(file, "%ld\n", atomic_load(&allocations));
    fclose(file);
  }
}
