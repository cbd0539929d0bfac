// order.h: an order of a program's instructions that its plan allows, drawn: what the lists say must come out of it
// too.
#ifndef MDL_RUNTIME_CPU_ORDER_H
#define MDL_RUNTIME_CPU_ORDER_H

#include "compiler/plan/waits.h"

// Of all runs of instructions in one run of a program, in the order drawn with this seed: that of each queue, and none
// before what it waits for (compiler/plan/waits.h). Ranks that run one list and draw with one seed meet in order.
PlanInstances order_draw(Arena *arena, const Plan *plan, ProgramKind program, uint64_t seed);

#endif
