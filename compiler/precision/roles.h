// roles.h: what values are for, where their own nodes do not say it, as a part of the precision pass.
#ifndef MDL_COMPILER_PRECISION_ROLES_H
#define MDL_COMPILER_PRECISION_ROLES_H

#include "compiler/pass/compilation.h"

typedef struct {
  const Graph *graph;
  int count;     // of the values that there were
  bool *summed;  // by value: becomes a part of a parameter's gradient by nothing but sums and moves
  bool *stream;  // by value: of a residual stream
  bool *
      compared;  // by value: all who compare it must see the same bits, and kernels do not round what they do not store
  Shape *choices;  // by value: of an index into matrices, the axes along which one position has several
} Roles;

Roles roles_find(Arena *arena, Graph *graph);

// Is it a sum of products with the matrices of all choices of each position?
bool roles_sum_choices(const Roles *roles, const Node *node);

bool roles_only_move(const Node *node);  // its operands have the format of its result

#endif
