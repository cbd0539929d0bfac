// format.h: the plans of all stages as bytes.
#ifndef MDL_COMPILER_PLAN_FORMAT_H
#define MDL_COMPILER_PLAN_FORMAT_H

#include "compiler/plan/codec.h"
#include "compiler/plan/plan.h"

// The kernels that the plans share, then each plan; texts that are those of the first plan are not repeated; then
// the code for GPUs. Only
// reading changes *set. What is read has its counts and enums in range; all else is plan_verify's to check.
void code_plan_set(Codec *codec, PlanSet *set);

#endif
