// train_command.h: the command `mdl train`, a thin layer over mdl.h.
#ifndef MDL_RUNTIME_TRAIN_COMMAND_H
#define MDL_RUNTIME_TRAIN_COMMAND_H

#include "compiler/command.h"
#include "runtime/mdl.h"

typedef struct {
  CommandFlags compile;
  const char *device, *out, *data, *from, *adapters, *mapping, *trunk;
  bool resume, restart, keep_best, sync_save, partial, save_trained, blame, quiet, json, trust;
  int64_t steps, save_every, eval_every, log_every, keep, keep_every, check, patience, threads, profile;
  double deadline;
} TrainValues;

enum { TRAIN_GROUP_COUNT = 2 };
extern const OptionGroup train_groups[TRAIN_GROUP_COUNT];
extern const TrainValues train_defaults;

int train_main(Arena *arena, const void *values, const OptionList *arguments);

// What flags of a command line say of compiling.
MdlCompileOptions mdl_options_of(const CommandFlags *flags);

#endif
