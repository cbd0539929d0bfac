// recurrence.h: h[t] = decay[t] * h[t - 1] + added[t] for all t at once, by products of matrices over chunks of t.
//
// Within a chunk, what position `from` has added to the state at position `at` is decayed by a matrix [at, from]; whole
// chunks are then positions of a shorter recurrence. After Dao and Gu 2024 (Mamba-2), and Yang et al. 2024 (GLA).
#ifndef MDL_COMPILER_REWRITE_RECURRENCE_H
#define MDL_COMPILER_REWRITE_RECURRENCE_H

#include "compiler/pass/compilation.h"

typedef struct {  // by what a state is multiplied at each position; may lack the axis, where it is always the same
  ValueId value;
  bool log;  // the value is the logarithm of it
} Decay;

typedef struct {
  Graph *graph;
  AxisId axis;
  Decay decay;
  ValueId added;
  Shape all;  // axes of the states, with the axis
} Recurrence;

typedef struct {            // dot(h, by over over) where added = what * along, of which `along` alone has `over`
  ValueId by, what, along;  // what: -1: there is none, and 1 is meant
  Shape over;
} Reading;

// The states at all positions, before the first of which they are 0.
ValueId recurrence_states(const Recurrence *r);

// What is read of them, which are not made but for one of each chunk.
ValueId recurrence_read(const Recurrence *r, const Reading *reading);

// Whether that takes less than the states themselves.
bool recurrence_may_read(const Recurrence *r, const Reading *reading);

// What was one position before: `initial` before the first; -1: 0.
ValueId recurrence_before(Graph *graph, ValueId x, AxisId axis, ValueId initial);

#endif
