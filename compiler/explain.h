// explain.h: a plan in words: what one rank holds and does.
#ifndef MDL_COMPILER_EXPLAIN_H
#define MDL_COMPILER_EXPLAIN_H

#include "base/buffer.h"
#include "compiler/plan.h"

// Memory by arena, arithmetic of each program, and every parameter with its axes, type and bytes.
void explain_plan(const Plan *plan, Buffer *out);

#endif
