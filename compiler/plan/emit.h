// emit.h: puts lowered programs into a plan.
#ifndef MDL_COMPILER_PLAN_EMIT_H
#define MDL_COMPILER_PLAN_EMIT_H

#include "compiler/lower.h"

// Adds the program of `l` to the plan, with its segments; memory is already assigned.
void emit_program(Plan *plan, Lower *l, int64_t transient_bytes);

// The map of persistent state, from the program that has all of it.
void emit_states(Plan *plan, Lower *l);

#endif
