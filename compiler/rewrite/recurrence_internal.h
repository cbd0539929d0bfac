// recurrence_internal.h: a scan while it is dissolved; for recurrences.c and its parts.
#ifndef MDL_COMPILER_REWRITE_RECURRENCE_INTERNAL_H
#define MDL_COMPILER_REWRITE_RECURRENCE_INTERNAL_H

#include "compiler/rewrite/recurrence.h"

typedef struct {
  Compilation *c;
  Graph *graph;
  Node scan;
  Region body;
  Map replace;     // value of the body to what stands for it
  Map known;       // values that stand for themselves, and are there
  bool *done;      // by node of the body: it stands outside, or nothing needs it
  bool *solved;    // by what is carried
  const Map *all;  // replacements outside
} Unroll;

enum { MOST_FACTORS = 16 };

typedef struct {
  bool any;  // it is a part
  int count;
  ValueId factors[MOST_FACTORS];
  bool under[MOST_FACTORS];  // it divides
  ValueId added;             // -1: nothing
} Affine;

ValueId scan_replaced(const Map *map, ValueId value);
bool scan_known(const Unroll *u, ValueId value);  // outside the body

// recurrence_affine.c: in terms of a carried value; false if it is anything else, or made of what is not known. chain:
// receives the nodes on the way. Adds nodes.
bool scan_affine(Unroll *u, ValueId value, ValueId carried, Map *chain, Affine *a);
ValueId scan_factor(Graph *graph, const Affine *a);
Decay scan_decay(Graph *graph, const Affine *a);

// recurrence_steps.c: all that is left, position by position. False, and E070, if that is too much.
bool scan_steps(Unroll *u);

#endif
