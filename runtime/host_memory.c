// host_memory.c: /proc/meminfo, the memory controller of control groups (version 2), and madvise.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "runtime/host_memory.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/units.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // of Linux 5.14
#endif

// The number behind `key` in a file of lines; an empty key: at its beginning. -1: it is not there.
static int64_t number_in(const char *path, const char *key) {
  FILE *file = fopen(path, "re");
  const size_t length = strlen(key);
  char line[256];
  long long number = -1;
  while (file && number < 0 && fgets(line, sizeof line, file)) {
    if (strncmp(line, key, length) == 0 && sscanf(line + length, "%lld", &number) != 1) {
      number = -1;
    }
  }
  if (file) {
    fclose(file);
  }
  return number;
}

static int64_t number_of_group(const char *group, const char *file, const char *key) {
  char path[PATH_MAX];
  const int length = snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", group, file);
  return length < (int)sizeof path ? number_in(path, key) : -1;
}

// Files that the system keeps in memory count as used there, although it gives them up when asked for more.
static int64_t group_available(const char *group) {
  const int64_t most = number_of_group(group, "memory.max", ""), used = number_of_group(group, "memory.current", "");
  const int64_t old = number_of_group(group, "memory.stat", "inactive_file ");
  const int64_t recent = number_of_group(group, "memory.stat", "active_file ");
  return most < 0 || used < 0 ? INT64_MAX : most - used + (old > 0 ? old : 0) + (recent > 0 ? recent : 0);
}

// The least of the group that this process is in and all those around it.
static int64_t groups_available(void) {
  char line[PATH_MAX] = "";
  FILE *file = fopen("/proc/self/cgroup", "re");
  while (file && strncmp(line, "0::/", 4) != 0 && fgets(line, sizeof line, file)) {
  }
  if (file) {
    fclose(file);
  }
  line[strcspn(line, "\n")] = '\0';
  char *group = strncmp(line, "0::/", 4) == 0 ? line + 3 : line + strlen(line);
  int64_t least = INT64_MAX;
  for (bool more = true; more;) {
    const int64_t here = group_available(strcmp(group, "/") == 0 ? "" : group);
    least = here < least ? here : least;
    char *last = strrchr(group, '/');
    more = last != NULL;
    if (last) {
      *last = '\0';
    }
  }
  return least;
}

int64_t host_memory_available(void) {
  const int64_t kilobytes = number_in("/proc/meminfo", "MemAvailable:"), group = groups_available();
  const int64_t machine = kilobytes < 0 ? INT64_MAX : kilobytes * 1024;
  return machine < group ? machine : group;
}

bool host_memory_populate(void *memory, int64_t bytes, Error *error) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  if (bytes == 0 || madvise(memory, (size_t)bytes, MADV_POPULATE_WRITE) == 0) {
    return true;
  }
  if (errno == EINVAL) {  // an older kernel
    for (int64_t at = 0; at < bytes; at += page) {
      ((volatile char *)memory)[at] = 0;
    }
    return true;
  }
  char size[UNITS_MAX];
  return error_set(error, 3, "no memory: %s of the machine's cannot be had: %s", units_bytes(size, (double)bytes),
                   strerror(errno));
}
