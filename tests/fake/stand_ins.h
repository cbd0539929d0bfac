// stand_ins.h: for test programs that run on the stand-ins of this folder where there is no GPU.
#ifndef MDL_TESTS_STAND_INS_H
#define MDL_TESTS_STAND_INS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline bool stands_in(void) {
  return getenv("FAKE_GPUS") != NULL;
}

// The same program again, with the stand-ins before the libraries of the system, as so many GPUs. Returns only if it
// cannot be started.
static inline void run_on_stand_ins(char **words, const char *gpus) {
  char path[1024], folder[1100];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  path[length > 0 ? length : 0] = '\0';
  char *slash = strrchr(path, '/');
  if (slash) {
    *slash = '\0';
    snprintf(folder, sizeof folder, "%s/fake", path);
    setenv("LD_LIBRARY_PATH", folder, 1);
    setenv("FAKE_GPUS", gpus, 1);
    execv("/proc/self/exe", words);
  }
}

#endif
