// reference.h: what a graph means, computed in double straight from the comments of ops.def: the oracle of other tests.
//
// Nothing here is clever: every op is a loop over the named coordinates of its result, sums are long double, and the
// order of axes in a shape never matters. All element types are held as doubles. Memory comes from the arena.
#ifndef MDL_TESTS_REFERENCE_H
#define MDL_TESTS_REFERENCE_H

#include "compiler/ir/graph.h"

typedef struct {
  Shape shape;   // data is row-major in this order
  double *data;  // NULL: not known yet
} Tensor;

typedef struct {
  Name name;
  Tensor tensor;
} NamedTensor;

typedef struct {  // the coordinate along every axis of the graph; only those of the current loop have a meaning
  int64_t *at;
} Point;

typedef struct {
  Arena *arena;
  const Graph *graph;
  Point point, scratch;
  Tensor *values;               // by ValueId
  ARRAY(NamedTensor) given;     // leaves; an input inside a microbatch region has one block for each slot
  ARRAY(NamedTensor) outputs;   // by the name of the output
  ARRAY(NamedTensor) assigned;  // what a persistent leaf is after the run
  int64_t slot;                 // microbatch that runs now
  const char *wrong;            // the first thing that could not be done, or NULL
} Reference;

Reference *reference_create(Arena *arena, const Graph *graph);

// What the leaf of this name holds: row-major in the order of `shape` (not copied).
void reference_give(Reference *reference, const char *name, Shape shape, const double *data);

// Runs the whole graph. False, and `wrong` says why, when a leaf has no data or an op is not known here.
bool reference_run(Reference *reference);

const Tensor *reference_output(const Reference *reference, const char *name);    // NULL: no such output
const Tensor *reference_assigned(const Reference *reference, const char *name);  // NULL: not assigned

// The elements row-major in the order of `shape`, which has the same axes; zeros where the tensor has no data.
void reference_copy(const Reference *reference, const Tensor *tensor, Shape shape, double *out);

int64_t tensor_elements(const Graph *graph, const Tensor *tensor);

#endif
