// stages.h: which stage of the pipeline does what.
//
// The pipeline cuts between iterations of a repeat. Virtual stage k holds its k-th run of iterations and lies on stage
// k % stages, as its chunk k / stages. What stands in an iteration belongs to that iteration's stage; what stands
// outside belongs to the latest stage among those that make its operands, or, if no iteration is before it, to the
// earliest that reads it, but where the whole sum is if it is a term of one; a gradient belongs where its forward is.
// Casts and collectives stand where what they carry is read, and place nothing: with them, everything else is where it
// was when the optimizer's packs were made.
//
// What depends on inputs and constants alone is computed wherever it is needed. What depends on persistent tensors
// alone is steady: the same in all microbatches. It is computed wherever it is needed if those tensors are there, else
// once in a step, and sent. Every persistent tensor has one owner, the stage that updates it; stages that read it in
// the training step hold a copy and are sent each new value.
#ifndef MDL_COMPILER_PIPELINE_STAGES_H
#define MDL_COMPILER_PIPELINE_STAGES_H

#include "compiler/ir/graph.h"
#include "compiler/pass/compilation.h"
#include "compiler/spec/spec.h"

enum { STAGE_ANY = -1 };

typedef struct {
  const Graph *graph;
  int stages, chunks;  // per stage
  int iterations;      // of the repeat
  const int *first;    // of each virtual stage: its first iteration; one more for the end
  int *node;           // by node: the virtual stage, or STAGE_ANY
  int node_count;
  int words;           // of a set of stages
  uint64_t **holders;  // by persistent: the stages that have it, as bits
  int *owner;          // by persistent: the stage that updates and saves it
  // By value, of what is steady and made wherever it is needed: the stages that need it, as bits; else NULL.
  uint64_t **needed;
  bool *once;  // by node of a microbatch's body: steady, but to be made once in a step, on its stage, and sent
} Stages;

static inline bool stage_in(const uint64_t *set, int stage) {
  return set[stage / 64] >> (stage % 64) & 1;
}
static inline void stage_add(uint64_t *set, int stage) {
  set[stage / 64] |= 1ull << (stage % 64);
}

// NULL: no pipeline, or something was reported. Iterations are cut by the arithmetic of their operations where the
// layout does not say how. The first call for a training step decides the owners; `known` has them, and who holds
// copies, for other programs (NULL: this is a training step).
Stages *stages_find(Arena *arena, Graph *graph, const Spec *spec, const Tenancy *known);

// Of a value of that graph: its virtual stage or STAGE_ANY.
int stages_of_value(const Stages *stages, ValueId value);

// Reports E043 if no iteration of the repeat computes anything: then there is nothing to cut. Of an undifferentiated
// graph of a layout with a pipeline.
bool stages_exist(const Graph *graph, const Spec *spec);

// passes/stage_loss.c: by node: does this one of a microbatch's body stand in the backward of the last virtual stage,
// though it belongs to the forward, or (backward nodes) is it no gradient of weights that may wait?
bool *stage_loss(const Compilation *c, const Stages *stages, const NodeList *nodes);

// passes/stage_once.c: takes what is steady and made once in a step out of the microbatches, and gives what they return
// of it an operation of its own. Returns whether there was any: then stages_find has to be asked again.
bool stage_once(Compilation *c, const Stages *stages);

// The iteration of the pipeline's repeat around this scope, or -1, and the virtual stage of one.
int stages_iteration(const Graph *graph, const Spec *spec, ScopeId scope);
int stages_of_iteration(const Stages *stages, int iteration);

// stages_place.c: decides where everything is done, once iterations are cut. False: something was reported.
bool stages_place(Arena *arena, Graph *graph, const Spec *spec, const Tenancy *known, Stages *stages);

#endif
