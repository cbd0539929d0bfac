// samples.h: which values belong to one sample of the batch, and which mix samples.
//
// A step may take its batch in microbatches. What a microbatch computes for a value then says how the value of the
// whole batch comes out of those of all microbatches. The kind is inferred for every value of a forward graph; the rule
// of each op is the last column of ops.def.
#ifndef MDL_COMPILER_IR_SAMPLES_H
#define MDL_COMPILER_IR_SAMPLES_H

#include "compiler/ir/graph.h"

typedef enum {
  SAMPLES_SAME,   // does not depend on samples: the same in all microbatches
  SAMPLES_EACH,   // its positions along one axis are of samples in the order of the batch: one microbatch after the
                  // other
  SAMPLES_SUM,    // a sum over samples: add up what the microbatches have
  SAMPLES_LATE,   // computed from such sums: known when all microbatches are done
  SAMPLES_MIXED,  // no microbatch can compute its part of it
} SamplesKind;

typedef struct {
  SamplesKind kind;
  AxisId axis;      // EACH: along which
  NodeId node;      // LATE, MIXED: the operation with which it begins
  const char *why;  // MIXED: what meets there, for a message
} Samples;

typedef struct SamplesTable {
  Arena *arena;
  const Graph *graph;
  int slots;        // microbatches; 1: axes made from the batch are found on the way
  bool numbered;    // microbatches know which positions of the whole batch they have
  bool inside;      // of a composite
  bool *cut;        // by axis: a microbatch has a part of it
  AxisId rows;      // the batch: of the axes that are so called, or the first of `tokens`; -1: a step has one sample
  Samples *values;  // by value
  int count;        // of them
} SamplesTable;

// Which axis has the samples, or -1: as data feeds `tokens` (runtime/feed.c), rows come first where no axis is called
// batch.
AxisId samples_rows(const Graph *graph);

// Infers the kind of every value of the top region. Of a graph with more than one microbatch axes are as long as in one
// of them, and Axis.global says how long they are in all. `given` (NULL: none): kinds of inputs, by value.
SamplesTable *samples_infer(Arena *arena, const Graph *graph, int slots, bool numbered, const Samples *given);

// The kind of a value; of one that was made later: SAME.
Samples samples_of(const SamplesTable *table, ValueId value);

// Is operand `at` of this node added to the others, so that, being the same in all microbatches, it has to be divided
// among them where the result is a sum?
bool samples_adds(const Node *node, int at);

// Does it move or sum the elements of its operand, all alike?
bool samples_alike(const Node *node);

// False for the ops that later passes make, of which nothing is known here.
bool samples_known(Op op);

#endif
