// settings.h: reads what recipe, layout and precision declarations say into a Spec.
#ifndef MDL_LANG_SETTINGS_H
#define MDL_LANG_SETTINGS_H

#include "compiler/plan/options.h"
#include "compiler/spec/spec.h"
#include "lang/unit.h"

typedef struct {
  const Ast *selectors;  // list of AST_PHRASE; NULL: all that no other rule selects
  const Ast *call;       // AST_CALL of an update, or NULL: frozen
} OptimizerRule;

typedef struct {
  Name name;
  Span span;  // of the name
  const Ast *value;
} SizeSetting;

typedef struct SpecText {  // what a Spec was read from
  const Declaration *model;
  Ast *recipe;        // a copy, with --set and command-line choices put in
  bool read;          // its entries were read, right or wrong
  const Ast *layout;  // NULL: one rank
  ARRAY(SizeSetting) sizes;
  ARRAY(const Ast *) layout_sets;  // AST_SETTING of --set that change the layout
  ARRAY(OptimizerRule) optimizers;
  ARRAY(const Ast *) policies;  // of the declarations, as Spec.policies
  const char *data_options;  // what else the recipe says of the source that was read (settings_data.c); NULL: nothing
  const char *validation_data;  // lines of sources that are validated with; NULL: none
  bool lacks;                   // what was elaborated of the model calls a function that is not there
} SpecText;

// Which of the run's precisions a declaration is; -1: none.
static inline int settings_policy(const Spec *spec, const Ast *declaration) {
  for (int i = 0; i < spec->text->policies.count; i++) {
    if (spec->text->policies.at[i] == declaration) {
      return i;
    }
  }
  return -1;
}

// Chooses recipe, layout and precision by `options` and reads them. False when something was reported.
bool settings_read(Arena *arena, Unit *unit, const CompileOptions *options, Spec *spec);

// All recipes and models of the main file, for mdlc check: calls back with options for each pair.
int settings_recipes(const Unit *unit, Name *names, int most);

// The entry of recipes most like a misspelled one, or NULL.
const char *setting_closest(Name name);

// The whole program as one runnable file: every declaration, and the recipe with everything that was decided.
const char *settings_resolved(Arena *arena, const Unit *unit, const Spec *spec);

#endif
