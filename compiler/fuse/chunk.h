// chunk.h: what the parts of the pass chunk share.
#ifndef MDL_COMPILER_FUSE_CHUNK_H
#define MDL_COMPILER_FUSE_CHUNK_H

#include "compiler/pass/compilation.h"

// Is each result of the node rows along this axis, which depend on the same rows of its operands alone, or the sum over
// the axis of what does? Operands that have the axis may be cut along it, and those that lack it are the same for all.
bool chunk_by_rows(const Graph *graph, AxisId axis, const Node *node);

// Sums of inputs over everything that a kernel of this region makes beside other things become kernels of their own,
// ahead of it. False: there is none, and nothing has changed.
bool chunk_counts(Compilation *c, RegionId region, NodeId group);

#endif
