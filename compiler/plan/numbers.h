// numbers.h: inputs that the runtime numbers by itself, where data feeds the others (fed.def).
#ifndef MDL_COMPILER_PLAN_NUMBERS_H
#define MDL_COMPILER_PLAN_NUMBERS_H

#include <stdbool.h>
#include <string.h>

// The step of training, from 1; in programs that do not train the last one that did, and 1 where there was none.
#define INPUT_STEP "step"
// Which random numbers a program draws that does not train. A training step draws those of its number.
#define INPUT_DRAW "step.draw"

static inline bool input_is_number(const char *name) {
  return strcmp(name, INPUT_STEP) == 0 || strcmp(name, INPUT_DRAW) == 0;
}

#endif
