// choices.h: words like layout=tp2,pp2 that say under which names a text is compiled: for ablate and diff.
#ifndef MDL_RUNTIME_CHOICES_H
#define MDL_RUNTIME_CHOICES_H

#include "compiler/compile.h"
#include "runtime/device.h"

enum { CHOICES_MAX = 16 };

typedef struct {
  const char *name;  // layout, precision, recipe, or what --set takes
  int count;
  const char **value;
} Choice;

typedef struct {
  Choice at[CHOICES_MAX];
  int count;
} Choices;

// Reads NAME=VALUE,... words; commas inside brackets belong to the value. `again`: a name may come several times and
// its values add up; else that, like a value given twice, is an error of usage. All in the arena.
bool choices_read(Arena *arena, const char *const *words, int count, bool again, Choices *choices, Error *error);

// What is compiled with value pick[i] of choice i. An option of `base` that is also a choice: an error of usage.
bool choices_options(Arena *arena, const Choices *choices, const int *pick, const CompileOptions *base,
                     CompileOptions *options, Error *error);

// "layout=tp2 batch=8"; `varying`: only of choices with more than one value.
const char *choices_name(Arena *arena, const Choices *choices, const int *pick, bool varying);

// Reports names that the text does not have, with what was meant perhaps. `values`: also what cannot be the value of a
// setting, which else is an error of each combination that has it.
bool choices_check(const Choices *choices, const CompileOptions *base, bool values, Error *error);

// Is an error of these said of the value of a setting itself, and not of a size that a layout cannot have?
bool choices_misread(const Choices *choices, const Diag *diag);

bool choice_is_setting(const Choice *choice);  // not layout, precision or recipe
bool choice_is_layout(const Choice *choice);   // the layout, or mesh.AXIS and microbatches, which change it
bool choices_sweep(const Choices *choices);    // there are settings that change the layout

#endif
