// lower_scores.h: what lower_scores.c and lower_visible.c know of the body of an attention.
#ifndef MDL_COMPILER_LOWER_SCORES_H
#define MDL_COMPILER_LOWER_SCORES_H

#include "compiler/graph.h"

typedef struct {  // least > most: empty
  int64_t least, most;
} Interval;

typedef struct {
  const Graph *graph;
  AxisId query, key;
} PositionsOf;

// The axis along which a node of the body gives positions, also where a rank has a part of them that begins elsewhere
// (localise); or -1.
AxisId scores_position(const Graph *graph, const Node *node);

// The distances, position of the key minus position of the query, at which a score may be something else than
// -infinity.
Interval scores_visible(const PositionsOf *at, ValueId made);

#endif
