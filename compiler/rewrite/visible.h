// visible.h: which keys a query may see at all, by the text of its scores.
#ifndef MDL_COMPILER_REWRITE_VISIBLE_H
#define MDL_COMPILER_REWRITE_VISIBLE_H

#include "compiler/ir/graph.h"

typedef struct {  // least > most: empty
  int64_t least, most;
} Interval;

typedef struct Renamed {  // of a value that is looked at behind a rename
  const struct Renamed *outer;
  AxisId inside, outside;  // what stands along the one is along the other in the scores
} Renamed;

typedef struct {
  const Graph *graph;
  AxisId query, key;
  bool strict;             // positions along other axes are not taken for those of queries, and renames are followed
  const Renamed *renamed;  // strict: those on the way from the scores; NULL: none
} PositionsOf;

// The axis along which a node of the body gives positions, also where a rank has a part of them that begins elsewhere
// (localise); or -1.
AxisId scores_position(const Graph *graph, const Node *node);

// The distances, position of the key minus position of the query, at which a score may be something else than
// -infinity.
Interval scores_visible(const PositionsOf *at, ValueId made);

// Whether the score at this distance surely hides nothing: it is made of the dot product, or a number such as the 0 of
// `where(c, s, 0)`. False where it hides the key, and where that depends on more than the distance.
bool scores_shown(const PositionsOf *at, ValueId made, ValueId dot, int64_t distance);

// Whether nothing that may hide some keys takes part in the scores, or weights, but for the product `dot` (-1: none):
// nothing made of positions along the key, and no input but the tokens of the text.
bool scores_unmasked(const PositionsOf *at, ValueId made, ValueId dot);

#endif
