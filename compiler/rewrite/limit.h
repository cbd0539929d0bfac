// limit.h: indices that a capacity limits, and what becomes of the values that are made by them.
#ifndef MDL_COMPILER_REWRITE_LIMIT_H
#define MDL_COMPILER_REWRITE_LIMIT_H

#include "compiler/pass/compilation.h"

typedef struct {
  ValueId index, limited;  // limited: the same without a capacity
  AxisId axis;
  NodeId product;  // the first that chooses by it
  Name name;       // of the outputs
} LimitedIndex;

typedef ARRAY(LimitedIndex) LimitedIndices;

// Are two indices one? What brings them inside is made for each product (choose.c).
bool limit_is_same(const Graph *graph, ValueId a, ValueId b);

// What is made of a choice that is left out is 0 for all that reads it as something else (limit_choices.c).
void limit_choices(Compilation *c, const LimitedIndices *indices);

#endif
