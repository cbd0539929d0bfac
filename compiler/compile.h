// compile.h: from files of text to a plan; the one entry to the compiler.
#ifndef MDL_COMPILER_COMPILE_H
#define MDL_COMPILER_COMPILE_H

#include "base/buffer.h"
#include "base/diag.h"
#include "compiler/plan/options.h"

// Compiles the plans of all stages into `arena`. On failure returns false and diag->errors > 0. Running out of memory
// is reported as a diagnostic, never a crash.
bool compile_plans(Arena *arena, Diag *diag, const CompileOptions *options, PlanSet **set);

// The plan of the first stage: all there is without a pipeline.
bool compile_plan(Arena *arena, Diag *diag, const CompileOptions *options, Plan **plan);

// Reports everything that is wrong with a file: syntax, names, and each model under each recipe that names it; with
// options->brief in little time, and not what only the passes behind elaboration find.
bool compile_check(Arena *arena, Diag *diag, const CompileOptions *options);

// The plan of a rank. NULL, with a diagnostic, if there is no such rank.
const Plan *compile_of_rank(Diag *diag, const PlanSet *set, int64_t rank);

// The graph as text after the named pass ("list": the names of the passes).
bool compile_print(Arena *arena, Diag *diag, const CompileOptions *options, Buffer *out);

#endif
