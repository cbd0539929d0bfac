// data_command.h: `mdl data`: tokenizers and files of tokens.
#ifndef MDL_RUNTIME_DATA_COMMAND_H
#define MDL_RUNTIME_DATA_COMMAND_H

#include "base/options.h"

enum { DATA_COMMAND_COUNT = 2 };
extern const Command data_commands[DATA_COMMAND_COUNT];

#endif
