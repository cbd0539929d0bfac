// stages.h: which stage of the pipeline does what.
//
// The pipeline cuts between iterations of a repeat. Virtual stage k holds its k-th run of iterations and lies on stage
// k % stages, as its chunk k / stages. What stands before the repeat belongs to the first virtual stage, what depends
// on it to the last; a gradient belongs where its forward is. What depends on inputs and constants alone is computed
// wherever it is needed.
#ifndef MDL_COMPILER_STAGES_H
#define MDL_COMPILER_STAGES_H

#include "compiler/compilation.h"
#include "compiler/graph.h"
#include "lang/settings.h"

enum { STAGE_ANY = -1 };

typedef struct {
  const Graph *graph;
  int stages, chunks;  // per stage
  int iterations;      // of the repeat
  const int *first;    // of each virtual stage: its first iteration; one more for the end
  int *node;           // by node: the virtual stage, or STAGE_ANY
  int node_count;
  uint64_t *holders;  // by persistent: the stages that use it, as bits
  int *owner;         // by persistent: the stage that updates and saves it
} Stages;

// NULL: no pipeline, or something was reported. `costs`: seconds (or anything proportional) of iterations are taken
// from the arithmetic of their operations where the layout does not say how to cut.
Stages *stages_find(Arena *arena, Graph *graph, const Spec *spec);

// Reports E043 if no iteration of the repeat computes anything: then there is nothing to cut. Of an undifferentiated
// graph of a layout with a pipeline.
bool stages_exist(const Graph *graph, const Spec *spec);

// passes/stage_loss.c: by node: does this one of a microbatch's body stand in the backward of the last virtual stage,
// though it belongs to the forward, or (backward nodes) is it no gradient of weights that may wait?
bool *stage_loss(const Compilation *c, const Stages *stages, const NodeList *nodes);

// The virtual stage of an iteration of the pipeline's repeat around this scope, or -1.
int stages_of_scope(const Stages *stages, const Spec *spec, ScopeId scope);

#endif
