// update_unit.h: what one elaboration of an optimizer's text works on.
#ifndef MDL_COMPILER_SPEC_UPDATE_UNIT_H
#define MDL_COMPILER_SPEC_UPDATE_UNIT_H

#include "compiler/ir/graph.h"
#include "compiler/spec/spec.h"

// What the text of an optimizer of the recipe may work on.
typedef struct {
  bool trains;       // parameters are updated, not frozen
  bool elementwise;  // each element by itself, and by totals over all: many parameters may be one pack
  bool totals_each;  // a total in it is of what each parameter is as a whole, those of other rules too: max(abs(g))
} UpdateRule;

typedef ARRAY(UpdateRule) UpdateRules;  // in the order of the recipe

typedef struct {
  ValueId p, g;  // a parameter or a pack, and its gradient
  int rule;      // of the recipe
  int count;
  const int *members;  // indices of persistents
  AxisId axis;         // of the pack; -1 for a single parameter
  bool flat;           // ranks have pieces of the pack, not parameters
} UpdateUnit;

typedef ARRAY(UpdateUnit) UpdateUnits;

#endif
