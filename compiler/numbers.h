// numbers.h: what a text says of its model in numbers: sizes of axes and values of constants.
#ifndef MDL_COMPILER_NUMBERS_H
#define MDL_COMPILER_NUMBERS_H

#include "compiler/plan/options.h"

typedef struct {
  const char *name;
  double value;  // of a truth 0 or 1; infinite for `inf`
  bool axis, truth;
} ModelNumber;

typedef struct {
  const char *model;
  int count;
  ModelNumber *at;
} ModelNumbers;

// Of the axes and constants that the model declares, as the recipe and --set give them. False, with diagnostics: the
// text is wrong.
bool compile_numbers(Arena *arena, Diag *diag, const CompileOptions *options, ModelNumbers *numbers);

const ModelNumber *model_number(const ModelNumbers *numbers, const char *name);  // NULL: there is none

#endif
