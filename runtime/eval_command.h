// eval_command.h: the command `mdl eval`, a thin layer over mdl.h.
#ifndef MDL_RUNTIME_EVAL_COMMAND_H
#define MDL_RUNTIME_EVAL_COMMAND_H

#include "base/options.h"

// Of all commands that run a plan.
#define TRUST_OPTION(Values)                                        \
  {                                                                 \
    "trust", 0, OPTION_FLAG, NULL, offsetof(Values, trust), 0,      \
        "run the machine code for GPUs that the plan has; without " \
        "it, its kernels are compiled again (docs/trust.md)"        \
  }

// Of all commands that read checkpoints.
#define TRUNK_OPTION(Values)                                                \
  {                                                                         \
    "trunk", 0, OPTION_TEXT, "DIR", offsetof(Values, trunk), 0,             \
        "where frozen parameters are that checkpoints leave out: weights, " \
        "or a run, with the same values (default: where they were)"         \
  }

typedef struct {
  const char *device, *data, *trunk;
  int64_t batches, threads;
  bool json, trust;
} EvalValues;

enum { EVAL_OPTION_COUNT = 7 };
extern const Option eval_options[EVAL_OPTION_COUNT];

int eval_main(Arena *arena, const void *values, const OptionList *arguments);

#endif
