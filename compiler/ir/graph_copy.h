// graph_copy.h: a graph once more, and a graph without what nothing needs any more.
#ifndef MDL_COMPILER_IR_GRAPH_COPY_H
#define MDL_COMPILER_IR_GRAPH_COPY_H

#include "compiler/ir/graph.h"

// A copy in `arena` with the same ids. Scopes, names and members of packs stay where they are and must outlive it.
Graph *graph_copy(const Graph *graph, Arena *arena);

typedef struct {  // by old id the new one, or -1: nothing needs it
  int values, nodes;
  const ValueId *value;
  const NodeId *node;
} GraphMoves;

// Keeps the nodes that stand in a region, and the leaves of persistent tensors, with their values, and numbers them
// anew in the order of their ids. A node has no source any more where that is gone. Where nothing goes, all ids stay.
GraphMoves graph_compact(Graph *graph);

#endif
