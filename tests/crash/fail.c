// fail.c: memory that cannot be had, and a disk that is slow: preloaded, it makes the n-th allocation of a program
// fail, or that and all later, and lets each write into a checkpoint that is not finished take so long.
//
//   FAIL_ALLOCATION=N     (from 1; FAIL_ALWAYS=1: and all after it)      FAIL_COUNT=FILE: how many there were, at the
//   end
//   FAIL_SLOW=MICROSECONDS
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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

static void slow(int fd) {
  const char *wanted = getenv("FAIL_SLOW");
  char link[64], path[4096];
  if (!wanted) {
    return;
  }
  const int saved = errno;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  path[length > 0 ? length : 0] = '\0';
  if (strstr(path, "/saving-")) {
    usleep((useconds_t)atol(wanted));
  }
  errno = saved;
}

__attribute__((visibility("default"))) ssize_t write(int fd, const void *data, size_t size) {
  slow(fd);
  return syscall(SYS_write, fd, data, size);
}

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
  slow(fd);
  return syscall(SYS_pwrite64, fd, data, size, offset);
}

__attribute__((visibility("default"))) int fsync(int fd) {
  slow(fd);
  return (int)syscall(SYS_fsync, fd);
}

__attribute__((destructor)) static void say(void) {
  const char *path = getenv("FAIL_COUNT");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (file) {
    fprintf(file, "%ld\n", atomic_load(&allocations));
    fclose(file);
  }
}
