// order.h: an order of a program's instructions that its plans allow, drawn: what the lists say must come out of it
// too.
#ifndef MDL_RUNTIME_CPU_ORDER_H
#define MDL_RUNTIME_CPU_ORDER_H

#include "compiler/plan/waits.h"

// All runs of instructions of one stage in one run of a program, as places in its plan_instances, in the order drawn
// with this seed: that of each queue, and none before what it waits for (compiler/plan/waits.h). One order of all
// stages is drawn, in which each message is received behind its SEND, and what waits for that stands behind its
// RECEIVE; so ranks that draw with one seed meet, and none waits for ever. NULL: the stages themselves would.
int *order_draw(Arena *arena, const PlanSet *set, int stage, ProgramKind program, uint64_t seed);

// The same of all programs: what the stages wait for is found once.
void orders_draw(Arena *arena, const PlanSet *set, int stage, uint64_t seed, int *order[PROGRAM_COUNT]);

#endif
