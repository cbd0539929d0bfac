// eval_command.h: the command `mdl eval`, a thin layer over mdl.h.
#ifndef MDL_RUNTIME_EVAL_COMMAND_H
#define MDL_RUNTIME_EVAL_COMMAND_H

#include "base/options.h"

typedef struct {
  const char *device, *data;
  int64_t batches, threads;
  bool json;
} EvalValues;

enum { EVAL_OPTION_COUNT = 5 };
extern const Option eval_options[EVAL_OPTION_COUNT];

int eval_main(Arena *arena, const void *values, const OptionList *arguments);

#endif
