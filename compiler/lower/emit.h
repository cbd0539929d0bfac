// emit.h: puts lowered programs into a plan.
#ifndef MDL_COMPILER_LOWER_EMIT_H
#define MDL_COMPILER_LOWER_EMIT_H

#include "compiler/lower/lower.h"

// The calls of the program of `l`, in their order, by the number of its segments; at least one.
int emit_calls(const Lower *l, Arena *arena, PlanCall **calls);

// Adds the program of `l`, which has passed all passes, to the plan as that of a kind, with its segments.
void emit_program(Plan *plan, Lower *l, ProgramKind kind);

// Adds to the map of persistent state what a training step has: the first everything, one under another precision
// histories of scales at most. Returns the name of what the two do not keep alike, or NULL.
const char *emit_states(Plan *plan, Lower *l);

#endif
