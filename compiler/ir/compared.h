// compared.h: which values must have the same bits wherever they are.
#ifndef MDL_COMPILER_IR_COMPARED_H
#define MDL_COMPILER_IR_COMPARED_H

#include "compiler/ir/graph.h"

// By value, of those that there are now: whether a real number of it is compared with another that is computed, or what
// is compared is a copy of it. A kernel that computes it again may round otherwise than the one that stored it
// (products and sums become one operation on GPUs), and then the largest is not found among those that it is the
// largest of.
bool *graph_compared(const Graph *graph);

#endif
