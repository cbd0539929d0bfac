// compile.h: from files of text to a plan; the one entry to the compiler.
#ifndef MDL_COMPILER_COMPILE_H
#define MDL_COMPILER_COMPILE_H

#include "base/buffer.h"
#include "base/diag.h"
#include "compiler/plan.h"

typedef struct {
  const char *file;        // path of the .mdl text
  const char *recipe;      // NULL: the only one of the file
  const char *layout;      // NULL: what the recipe says, else one rank
  const char *precision;   // NULL: what the recipe says, else fp32
  const char *const *set;  // "name=value" strings
  int set_count;
  const char *target;   // "cpu"
  bool gradients;       // the train program also has an output "gradient.NAME" for each trained parameter
  const char *after;    // compile_print: the pass after which to print
  ProgramKind program;  // compile_print: which program
} CompileOptions;

// Compiles into `arena`. On failure returns false and diag->errors > 0. Running out of memory is reported as a
// diagnostic, never a crash.
bool compile_plan(Arena *arena, Diag *diag, const CompileOptions *options, Plan **plan);

// Reports everything that is wrong with a file: syntax, names, and each model under each recipe that names it.
bool compile_check(Arena *arena, Diag *diag, const CompileOptions *options);

// The graph as text after the named pass ("list": the names of the passes).
bool compile_print(Arena *arena, Diag *diag, const CompileOptions *options, Buffer *out);

#endif
