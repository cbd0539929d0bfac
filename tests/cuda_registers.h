// cuda_registers.h: what ptxas says of a kernel's functions: registers, bytes spilled, shared memory.
//
// A text becomes PTX by NVRTC, as where it runs, and the toolkit's ptxas makes code of that and reports.
#ifndef MDL_TESTS_CUDA_REGISTERS_H
#define MDL_TESTS_CUDA_REGISTERS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/compile.h"
#include "kernels/cuda/kernel.h"

enum { REGISTERS_TEXT = 1024 };

typedef struct {
  char function[64];
  int registers, stack, stores, loads, shared;  // bytes, except of the first
  bool serialized;                              // products of warpgroups wait for each other
} Registers;

// The number before a word of a report, 0 if it is not there.
static inline int registers_number(const char *line, const char *word) {
  const char *at = strstr(line, word);
  while (at && at > line && (at[-1] == ' ' || (at[-1] >= '0' && at[-1] <= '9'))) {
    at--;
  }
  return at ? atoi(at) : 0;
}

// Reads a report to its end. Returns how many functions it is of.
static inline int registers_read(FILE *report, Registers *functions, int most) {
  char line[REGISTERS_TEXT], serialized[CUDA_MAX_LAUNCHES][64];
  int count = 0, warned = 0;
  while (fgets(line, sizeof line, report)) {
    char *const warning = strstr(line, "serialized") ? strstr(line, "function '") : NULL;
    if (warning && warned < CUDA_MAX_LAUNCHES) {
      warned += sscanf(warning, "function '%63[^']", serialized[warned]) == 1;
    }
    char *const entry = strstr(line, "entry function '");
    if (entry && strstr(line, "Compiling") && count < most) {
      functions[count] = (Registers){.function = ""};
      count += sscanf(entry, "entry function '%63[^']", functions[count].function) == 1;
    }
    Registers *const last = count ? &functions[count - 1] : NULL;
    if (last && strstr(line, "bytes spill stores")) {
      last->stack = registers_number(line, "bytes stack frame");
      last->stores = registers_number(line, "bytes spill stores");
      last->loads = registers_number(line, "bytes spill loads");
    } else if (last && strstr(line, "Used ")) {
      last->registers = registers_number(line, "registers");
      last->shared = registers_number(line, "bytes smem");
    }
  }
  for (int f = 0; f < count; f++) {
    for (int w = 0; w < warned; w++) {
      functions[f].serialized |= strcmp(functions[f].function, serialized[w]) == 0;
    }
  }
  return count;
}

// For sm_…; `functions` has room for CUDA_MAX_LAUNCHES. Returns how many there are, 0 with the reason in `message`.
static inline int registers_find(const char *target, const CudaKernel *kernel, Registers *functions, char *message,
                                 size_t size) {
  char virtual[32], path[] = "/tmp/mdl_registers_XXXXXX", command[REGISTERS_TEXT];
  CudaCompiler *compiler = NULL;
  CudaBinary ptx = {0};
  int count = 0;
  snprintf(virtual, sizeof virtual, "compute_%s", target + strlen("sm_"));
  if (!cuda_compiler_open(virtual, NULL, &compiler, message, size)) {
    return 0;
  }
  const bool compiled = cuda_compile(compiler, kernel->form, kernel->text, &ptx, message, size);
  cuda_compiler_close(compiler);
  if (!compiled) {
    return 0;
  }
  const int descriptor = mkstemp(path);
  FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
  if (!file || fwrite(ptx.code, 1, strlen(ptx.code), file) != strlen(ptx.code) || fclose(file) != 0) {
    snprintf(message, size, "%s cannot be written", path);
  } else {
    snprintf(command, sizeof command, "ptxas -v -arch=%s -o /dev/null %s 2>&1", target, path);
    FILE *const report = popen(command, "r");
    count = report ? registers_read(report, functions, CUDA_MAX_LAUNCHES) : 0;
    if (!report || pclose(report) != 0) {
      snprintf(message, size, "ptxas failed or is not there: put the toolkit's bin into PATH");
      count = 0;
    }
  }
  unlink(path);
  cuda_binary_free(&ptx);
  return count;
}

#define REGISTERS_HEAD                                                                                           \
  "| row | kernel | function | threads | registers | stack, bytes | spill stores, bytes | spill loads, bytes | " \
  "shared, bytes | |\n"                                                                                          \
  "|---|---|---|---|---|---|---|---|---|---|"

// Lines of a table under this head, one for each function of a kernel.
static inline void registers_print(const char *target, const char *row, const CudaKernel *kernel) {
  Registers functions[CUDA_MAX_LAUNCHES];
  char message[ERROR_MAX] = "";
  const int count = registers_find(target, kernel, functions, message, sizeof message);
  if (count == 0) {
    fprintf(stderr, "%s: %s\n", row, message);
    exit(1);
  }
  for (int f = 0; f < count; f++) {
    const Registers *r = &functions[f];
    const CudaLaunch *launch = NULL;
    for (int l = 0; l < kernel->launch_count; l++) {
      launch = strcmp(kernel->launch[l].function, r->function) == 0 ? &kernel->launch[l] : launch;
    }
    if (launch) {
      printf("| %s | %s | %s | %u | %d | %d | %d | %d | %u | %s |\n", row, kernel->form, r->function,
             launch->block[0] * launch->block[1] * launch->block[2], r->registers, r->stack, r->stores, r->loads,
             (unsigned)r->shared + launch->shared_bytes, r->serialized ? "products wait" : "");
    }
  }
  fflush(stdout);
}

#endif
