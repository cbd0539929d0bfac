// fit.h: settings of the layout with which a plan that a device has no room for would fit.
#ifndef MDL_COMPILER_FIT_H
#define MDL_COMPILER_FIT_H

#include "base/arena.h"
#include "compiler/plan/plan.h"

typedef struct {
  int64_t rank;    // whose plan
  int64_t staged;  // how often the device keeps inputs besides
  int64_t most;    // bytes that the arenas of the device may take together
} FitRoom;

// Compiles the plan's own text (Plan.resolved) again, with more microbatches, with everything in layers recomputed,
// with what is left of the layers in the memory of the host as well, and with both, and returns the first that fits,
// those that cost least time being tried first: "`recompute layers; microbatches = 4;`". *bytes: what its arenas take.
// NULL: none of them fits, or the text does not compile with them. Takes as long as some compilations.
const char *fit_find(Arena *arena, const Plan *plan, const FitRoom *room, int64_t *bytes);

#endif
