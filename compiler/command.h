// command.h: the options of every command that compiles, and how its diagnostics are shown.
#ifndef MDL_COMPILER_COMMAND_H
#define MDL_COMPILER_COMMAND_H

#include "base/diag.h"
#include "base/options.h"
#include "compiler/compile.h"

typedef struct {
  const char *recipe, *layout, *precision, *diagnostics;
  OptionList set, watched;
} CommandFlags;

enum { COMMAND_OPTION_COUNT = 6 };
extern const Option command_options[COMMAND_OPTION_COUNT];

// The group of these options in a command whose struct of values has a CommandFlags `field`.
#define COMMAND_GROUP(Values, field) \
  { "What to compile", command_options, COMMAND_OPTION_COUNT, offsetof(Values, field) }

// The first of the flags that was given and only makes sense for a text, or NULL.
const char *command_text_only(const CommandFlags *flags);

CompileOptions command_compile_options(const CommandFlags *flags, const char *file);

// Of a text that was not compiled: it is wrong, or there was no memory.
int command_status(const Diag *diag);

// Where E099 is among them, in text also what to report.
void command_show(const CommandFlags *flags, const Diag *diag, FILE *out);

#endif
