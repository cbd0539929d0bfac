// backward.h: what the gradient rules in gradients.c build with.
//
// A Backward collects, for each value of a list of forward nodes, the contributions to its gradient. A rule reads
// the gradient of its node's results and adds to those of its operands; contributions are summed when the walk
// reaches the value.
#ifndef MDL_COMPILER_GRAD_BACKWARD_H
#define MDL_COMPILER_GRAD_BACKWARD_H

#include "compiler/ir/graph.h"

typedef struct Backward Backward;

// `nodes` are differentiated as if they alone had run; new nodes go to graph->region. `wanted` values (parameters,
// region inputs) and everything computed from them have gradients.
Backward *backward_create(Graph *graph, const NodeId *nodes, int count, const ValueId *wanted, int wanted_count);

// Adds to the gradient of `value`: sums over axes that the value lacks, repeats along axes that the gradient lacks.
void backward_add(Backward *backward, ValueId value, ValueId gradient);

// The sum of all contributions so far, with the axes of the value; -1 if there are none.
ValueId backward_gradient(Backward *backward, ValueId value);

// The contributions so far, one by one; those that are pads which tile the value are joined to one.
ValueList backward_parts(Backward *backward, ValueId value);

bool backward_wants(const Backward *backward, ValueId value);

// Walks the nodes in reverse and applies their rules.
void backward_run(Backward *backward);

typedef void GradientRule(Backward *backward, Graph *graph, NodeId node);
extern GradientRule *const gradient_rules[];  // by Op

#endif
