// listing.h: the CUDA C of a plan as text, for people: each kernel once, with the lines of .mdl that it came from.
#ifndef MDL_KERNELS_CUDA_LISTING_H
#define MDL_KERNELS_CUDA_LISTING_H

#include "base/buffer.h"
#include "compiler/plan/plan.h"

// The kernels of one program for a target of target.h, in the order of its instructions; what is not CUDA C is in
// comments. False, with `why` in the arena: the target is not known.
bool cuda_listing(Arena *arena, const Plan *plan, ProgramKind program, const char *target, Buffer *out,
                  const char **why);

#endif
