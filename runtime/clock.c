// clock.c: clock_gettime, /proc and getrusage.
#include "runtime/clock.h"

#include <stdio.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double clock_read(clockid_t id) {
  struct timespec now;
  clock_gettime(id, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double clock_seconds(void) {
  return clock_read(CLOCK_MONOTONIC);
}

double clock_wall(void) {
  return clock_read(CLOCK_REALTIME);
}

int64_t clock_memory(void) {
  FILE *file = fopen("/proc/self/statm", "re");
  long long total, resident = 0;
  if (file) {
    if (fscanf(file, "%lld %lld", &total, &resident) != 2) {
      resident = 0;
    }
    fclose(file);
  }
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t clock_memory_peak(void) {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

void clock_memory_settle(void) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  malloc_trim(0);
#endif
}
