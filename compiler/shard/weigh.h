// weigh.h: how an evaluation weighs what its batches have of each output.
#ifndef MDL_COMPILER_SHARD_WEIGH_H
#define MDL_COMPILER_SHARD_WEIGH_H

#include "compiler/ir/samples.h"
#include "compiler/pass/compilation.h"

// Says so of each output (PlanWeighing). A sum of terms that are weighed in several ways, such as a mean over what a
// mask counts and one over all tokens, gets outputs for these (PLAN_TERMS).
void weigh_outputs(Compilation *c, const SamplesTable *table);

#endif
