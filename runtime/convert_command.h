// convert_command.h: the command `mdl convert`, a thin layer over mdl.h.
#ifndef MDL_RUNTIME_CONVERT_COMMAND_H
#define MDL_RUNTIME_CONVERT_COMMAND_H

#include "compiler/command.h"

typedef struct {
  CommandFlags compile;
  const char *to, *out, *model, *mapping, *data, *dtype, *adapters, *trunk;
  int64_t shard;
  bool merge;
} ConvertValues;

enum { CONVERT_GROUP_COUNT = 2 };
extern const OptionGroup convert_groups[CONVERT_GROUP_COUNT];

int convert_main(Arena *arena, const void *values, const OptionList *arguments);

// The mapping beside a text: FILE.hf of FILE.mdl, where it is there; else NULL.
const char *convert_beside(Arena *arena, const char *text);

#endif
