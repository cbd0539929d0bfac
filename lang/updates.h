// updates.h: what elaborating updates works on; for lang/updates.c, lang/update_norms.c, lang/elementwise.c and
// lang/learning_rate.c only.
#ifndef MDL_LANG_UPDATES_H
#define MDL_LANG_UPDATES_H

#include "lang/elaborate.h"

struct UpdateContext {
  const UpdateUnits *units;
  const ValueId *gradient;
  Map totals;                 // AST of a total() to its value
  ValueList targets, values;  // of assignments
  const Ast *update;
  const UpdateUnit *unit;  // that it is run for
  ValueId *change;         // by unit: what is added to its parameters; -1: nothing
};

// spike.c: is the loss of this step one of those that `spike` skips? -1: the recipe has no `spike`. *losses: the state
// that it is judged by, and what that becomes where the step is not skipped.
ValueId spike_losses(Elaborator *e, ValueId *losses, ValueId loss);
ValueId spike_next(Elaborator *e, ValueId losses, ValueId loss);

// learning_rate.c: warns of a rate that does not go with the steps of the run (E053). `written`: the argument; `some`:
// it is one of some parameters, beside others.
void check_learning_rate(Elaborator *e, const Object *object, const Ast *written, bool some);

// clips.c: warns of rules that clip nothing beside those that do (E057). arguments: of each rule; updates: is there a
// parameter that it updates?
void check_clips(Elaborator *e, const Arguments *arguments, const bool *updates);

bool update_takes_axes(const Ast *update);  // does it work on matrices?

void update_norms(Elaborator *e);  // outputs of what the recipe watches

#endif
