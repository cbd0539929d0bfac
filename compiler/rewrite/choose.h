// choose.h: products with chosen matrices.
#ifndef MDL_COMPILER_REWRITE_CHOOSE_H
#define MDL_COMPILER_REWRITE_CHOOSE_H

#include "compiler/ir/graph.h"

// The value that a dot is worth where one of its operands is a take, or -1 where the dot is better as it is. Adds
// nodes.
ValueId choose(Graph *graph, NodeId dot);

// Weights of what such a product gives become weights of what it multiplies, in the region at hand.
void choose_weights(Graph *graph);

#endif
