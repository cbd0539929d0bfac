// packs.h: which parameters one kernel updates, and which of them ranks store, gather and sum up together.
#ifndef MDL_COMPILER_GRAD_PACKS_H
#define MDL_COMPILER_GRAD_PACKS_H

#include "compiler/spec/update_unit.h"

// Makes the packs of the graph, with their values, at its place. `gradient` by persistent tensor, -1: none. False when
// something was reported.
bool packs_decide(Arena *arena, Graph *graph, const Spec *spec, const UpdateRules *rules, const ValueId *gradient,
                  UpdateUnits *units);

#endif
