// taps.h: short convolutions of each channel by itself, without the window that they are written with.
#ifndef MDL_COMPILER_REWRITE_TAPS_H
#define MDL_COMPILER_REWRITE_TAPS_H

#include "compiler/ir/graph.h"

// The value that a dot with a window is worth, or a fold of an outer product, where no product of matrices is lost; -1:
// it is better as it is. Adds nodes. For what is not differentiated any more.
ValueId taps_apart(Graph *graph, NodeId node);

#endif
