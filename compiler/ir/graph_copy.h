// graph_copy.h: a graph of its own of what some regions of a larger one need.
#ifndef MDL_COMPILER_IR_GRAPH_COPY_H
#define MDL_COMPILER_IR_GRAPH_COPY_H

#include "compiler/ir/graph.h"

// The graph once more, in `arena`, with the tables of `graph`, which must outlive it: what is added here is not there.
// Nodes, values and regions of `graph` may be changed if that is taken back before it is looked at again; persistent
// tensors are copies.
Graph *graph_view(const Graph *graph, Arena *arena);

typedef struct {  // by old id the new one, or -1: it is not there
  int values, nodes;
  const ValueId *value;
  const NodeId *node;
} GraphMoves;

// A graph in `arena` that shares nothing with this one but scopes, names and members of packs, of the nodes that stand
// in a region, and of the persistent tensors that are not elsewhere, with their leaves, or that are packed with one.
// Values and nodes are numbered in the order of their ids. A node has no source any more where that is not there.
Graph *graph_extract(const Graph *graph, Arena *arena, GraphMoves *moves);

#endif
