// device.h: the table of functions that a backend is.
//
// A Device holds the arenas of one rank and runs programs of one plan. Calls are made from one thread at a time.
// Functions that can fail return false and fill `error` with what was asked, what was found and what to do.
#ifndef MDL_RUNTIME_DEVICE_H
#define MDL_RUNTIME_DEVICE_H

#include <stdatomic.h>

#include "compiler/plan.h"

enum { ERROR_MAX = 1024 };
typedef struct {
  int status;  // exit status of cli.md: 1 input, 2 usage, 3 out of memory, 4 diverged, 5 rank lost
  char text[ERROR_MAX];
} Error;

bool error_set(Error *error, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));  // false

typedef struct {
  int threads;  // 0: all cores
} DeviceOptions;

typedef struct Device Device;

typedef struct {
  const char *name;
  // Allocates the arenas (zeroed) and all workspaces: nothing is allocated after this. The plan must outlive it.
  bool (*open)(const Plan *plan, const DeviceOptions *options, Device **device, Error *error);
  void (*close)(Device *device);
  // Copies between host memory and an arena of the device.
  bool (*write)(Device *device, ArenaClass arena, int64_t offset, const void *data, int64_t bytes, Error *error);
  bool (*read)(Device *device, ArenaClass arena, int64_t offset, void *data, int64_t bytes, Error *error);
  // Runs all calls of a program; returns when its outputs can be read.
  bool (*run)(Device *device, ProgramKind program, Error *error);
  // Seconds spent in each instruction kind since open, for `--profile`; INSTRUCTION_KIND_COUNT entries.
  void (*profile)(const Device *device, double *seconds);
} Backend;

extern const Backend backend_cpu;

const Backend *backend_find(const char *name);  // "cpu", "auto"; NULL: no such backend in this build

#endif
