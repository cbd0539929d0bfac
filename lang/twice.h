// twice.h: entries of a recipe or a layout that may be given once.
#ifndef MDL_LANG_TWICE_H
#define MDL_LANG_TWICE_H

#include "lang/unit.h"

typedef struct {
  Name name;
  Span span;
} Given;

typedef struct {
  Unit *unit;
  ErrorCode code;  // of the error
  ARRAY(Given) all;
  Map by_name;  // which of them; there is none before the first
} Once;

// Remembers that an entry is given here. False, with an error that shows both places, if it was given before.
bool given_once(Once *once, Name name, Span span);

// Reports what a recipe says twice, as it is written: entries, sizes and settings of the model, data, optimizers of all
// parameters.
void recipe_check_once(Unit *unit, const Ast *recipe);

// The same of --set NAME=VALUE, but for `skip`, which may be said of several batches.
void sets_check_once(Unit *unit, const char *const *set, int count);

// The same of a layout: microbatches, schedule, capacity, overlap, reproducible. Rules, recompute and offload may be
// repeated.
void layout_check_once(Unit *unit, const Ast *layout);

#endif
