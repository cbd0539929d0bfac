// fuse.h: what the files of the pass `fuse` share.
#ifndef MDL_COMPILER_FUSE_FUSE_H
#define MDL_COMPILER_FUSE_FUSE_H

#include "compiler/pass/compilation.h"

typedef struct {
  Compilation *c;
  Graph *graph;
  RegionId region;
  NodeList nodes;
  int *uses;         // by value
  int *collected;    // by value: uses by packs, outputs and the region's results
  int *position;     // by node, in `nodes`
  ValueId *replace;  // by value
  bool *gone;        // by node: absorbed by another
  int *rank;         // by value: the order of the parameter it belongs to
} Fuser;

// fuse_dots.c: copies of slices that several dots read and that are no matrices.
void fuse_slices(Fuser *f);

// Dots that share an operand, and sums of dots, become one node of `nodes` each.
void fuse_dots(Fuser *f);

// again.c: copies of operations for kernels that would read more than it takes to compute them again.
void fuse_again(Fuser *f);

// Tables by value and by node for a graph that grows.
void fuse_tables(Fuser *f);

#endif
