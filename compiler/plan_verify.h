// plan_verify.h: can a plan be run without leaving its arenas?
#ifndef MDL_COMPILER_PLAN_VERIFY_H
#define MDL_COMPILER_PLAN_VERIFY_H

#include "compiler/plan.h"

// Checks every index and count, every kernel, and that every byte which an instruction, a state, an input or an output
// touches lies inside its arena, for every slot of every call. Returns NULL or one sentence, in the arena, that names
// the first thing wrong. Linear in the plan. Index values are the backend's to check.
const char *plan_verify(Arena *arena, const Plan *plan);

#endif
