// verify.h: can plans be run without leaving their arenas, and without waiting for ever?
#ifndef MDL_COMPILER_PLAN_VERIFY_H
#define MDL_COMPILER_PLAN_VERIFY_H

#include "compiler/plan/plan.h"

// Checks every index and count, every kernel, cut and group, and that every byte which an instruction, a state, an
// input or an output touches lies inside its arena: on every rank of the stage, for every slot and lane that a call
// gives its segment. Returns NULL or one sentence, in the arena, that names the first thing wrong. Linear in the plan.
// Index values are the backend's to check.
const char *plan_verify(Arena *arena, const Plan *plan);

// Checks each plan, and that they fit together: one mesh, the same programs, states of one name alike with one owner,
// and messages: each SEND meets the RECEIVE of its channel with the same elements of the same microbatch, in the same
// run, and the calls of all stages, run side by side, come to their end, where what writes into memory that was sent
// waits until that is received (waits.h). What a program writes into a tensor of several stages is on each of them what
// its owner has written: followed back through copies and messages to one result of one instruction. Collectives are
// among ranks of one stage, which run the same list, so one rank stands for its stage.
const char *plan_set_verify(Arena *arena, const PlanSet *set);

#endif
