// simplify.h: what operations make of constants.
#ifndef MDL_COMPILER_REWRITE_SIMPLIFY_H
#define MDL_COMPILER_REWRITE_SIMPLIFY_H

#include "compiler/ir/graph.h"

// The number that an elementwise operation makes of `count` numbers. False: it is none of those that are folded, or
// has no number there.
bool simplify_number(Op op, const double *operands, int count, double *out);

#endif
