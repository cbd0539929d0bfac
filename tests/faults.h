// faults.h: calls of the system and allocations that fail when a test asks for it, for all code that is linked into the
// test. The linker puts the functions here in the place of the system's (MDL_FAULTS of CMakeLists.txt).
//
// What libraries allocate for themselves does not fail, but for the JSON library, which is told to allocate here.
#ifndef MDL_TESTS_FAULTS_H
#define MDL_TESTS_FAULTS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "tests/place.h"

enum {
  FAULT_READ = 1,
  FAULT_WRITE = 2,
  FAULT_NAME = 4,  // what makes, names, flushes and closes files
  FAULT_TRANSFER = FAULT_READ | FAULT_WRITE | FAULT_NAME,
  FAULT_LOOK = 8,  // what opens files and directories, and asks for what is there
  FAULT_MEMORY = 16,
  FAULT_SLOW = 32,  // of these what a signal may interrupt: opens, flushes and closes
};

static struct {
  int kinds, at, with;  // of these kinds the at-th call fails, from 1, for this reason; 0: none does
  atomic_int calls;
} faults;

static bool fails(int kind) {
  if (!(kind & faults.kinds) || atomic_fetch_add(&faults.calls, 1) + 1 != faults.at) {
    return false;
  }
  errno = kind == FAULT_MEMORY ? ENOMEM : faults.with;
  return true;
}

static inline void faults_begin(int kinds, int at, int with) {
  faults.kinds = kinds;
  faults.at = at;
  faults.with = with;
  atomic_store(&faults.calls, 0);
}

// Has the call been made that was to fail? None fails from here on.
static inline bool faults_end(void) {
  faults.kinds = 0;
  return atomic_load(&faults.calls) >= faults.at;
}

// WRAP(kind of fault, type of the result, what it is where it fails, name, parameters, arguments)
#define WRAP(kind, Type, failed, name, parameters, arguments) \
  Type __real_##name parameters;                              \
  Type __wrap_##name parameters;                              \
  Type __wrap_##name parameters {                             \
    return fails(kind) ? failed : __real_##name arguments;    \
  }
WRAP(FAULT_READ, ssize_t, -1, read, (int fd, void *data, size_t size), (fd, data, size))
WRAP(FAULT_READ, ssize_t, -1, pread, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
WRAP(FAULT_WRITE, ssize_t, -1, write, (int fd, const void *data, size_t size), (fd, data, size))
WRAP(FAULT_WRITE, ssize_t, -1, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRAP(FAULT_NAME, int, -1, rename, (const char *from, const char *to), (from, to))
WRAP(FAULT_NAME, int, -1, renameat2, (int at, const char *from, int there, const char *to, unsigned flags),
     (at, from, there, to, flags))
WRAP(FAULT_NAME, int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(FAULT_NAME, int, -1, fchmod, (int fd, mode_t mode), (fd, mode))
WRAP(FAULT_LOOK, int, -1, stat, (const char *path, struct stat *info), (path, info))
WRAP(FAULT_LOOK, int, -1, fstat, (int fd, struct stat *info), (fd, info))
WRAP(FAULT_LOOK, DIR *, NULL, opendir, (const char *path), (path))
WRAP(FAULT_LOOK, struct dirent *, NULL, readdir, (DIR * open), (open))
WRAP(FAULT_MEMORY, void *, NULL, realloc, (void *memory, size_t size), (memory, size))
WRAP(FAULT_MEMORY, char *, NULL, strdup, (const char *text), (text))
WRAP(FAULT_MEMORY, XXH3_state_t *, NULL, XXH3_createState, (void), ())
WRAP(FAULT_MEMORY, void *, MAP_FAILED, mmap, (void *at, size_t size, int may, int flags, int fd, off_t offset),
     (at, size, may, flags, fd, offset))

// Nothing here is to outlive a loss of power.
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
  (void)fd;
  return fails(FAULT_NAME | FAULT_SLOW) ? -1 : 0;
}

// What cannot be closed is gone all the same.
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) {
  const bool failed = fails(FAULT_NAME | FAULT_SLOW);
  const int result = __real_close(fd);
  errno = failed ? faults.with : errno;
  return failed ? -1 : result;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  return fails(FAULT_LOOK | FAULT_SLOW) ? -1 : __real_open(path, flags, mode);
}

// A chunk of an arena, without which the program ends, is left out: how that is told is in the tests of arenas.
static inline bool faults_chunk(size_t size) {
  return size >= 1 << 20 && size < (1 << 20) + 64;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) {
  return !faults_chunk(size) && fails(FAULT_MEMORY) ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
  const bool chunk = count == 1 && size >= 1 << 20;  // of one large object, or the spare one
  return !chunk && fails(FAULT_MEMORY) ? NULL : __real_calloc(count, size);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *context) {
  return fails(FAULT_MEMORY) ? ENOMEM : __real_pthread_create(thread, how, run, context);
}

static inline void *faults_allocate(size_t size) {
  return malloc(size);
}

// To be called before the JSON library is used.
static inline void faults_of_json(void) {
  json_set_alloc_funcs(faults_allocate, free);
}

// --- sweeps ---

// In memory, where there is such a place; also after a test that failed half-way.
static inline int faults_open(void **state) {
  faults.kinds = 0;
  return world_open_in(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", state);
}

// Something that is done, or told why not. It looks at what it has done itself.
typedef bool FaultWork(const World *world, Error *error);

// Does the work with the n-th call of these kinds failing, for each n, or one in `step`, until none is left. Where it
// is not done, that is told: with the system's reason, or one of `instead`; and missing memory has status 3 and is
// never called damage. Returns how often it was not done.
static inline int faults_sweep(const char *name, FaultWork *work, const World *world, int kinds, int with, int step,
                               const char *const *instead) {
  enum { MOST = 20000 };
  const bool memory = kinds == FAULT_MEMORY || with == ENOMEM;
  const char *const reason = strerror(with);
  int failed = 0;
  for (int n = 1; n < MOST; n += step) {
    Error error = {0};
    faults_begin(kinds, n, with);
    const bool done = work(world, &error), reached = faults_end();
    if (!reached) {
      if (!done) {
        fail_msg("%s: without a fault: %s", name, error.text);
      }
      return failed;
    }
    failed += !done;
    bool other = false;
    for (const char *const *words = instead; words && *words; words++) {
      other |= strstr(error.text, *words) != NULL;
    }
    const bool told = strstr(error.text, reason) || (memory && strstr(error.text, "memory"));
    if (!done && !other && (!told || (memory && (error.status != 3 || strstr(error.text, "is damaged"))))) {
      fail_msg("%s: fault %d of kinds %d (%s) is told with status %d: %s", name, n, kinds, reason, error.status,
               error.text);
    }
  }
  fail_msg("%s: there is no end of calls", name);
  return failed;
}

#endif
