// lint.h: warnings about text that is right, and probably not what was meant.
#ifndef MDL_LANG_LINT_H
#define MDL_LANG_LINT_H

#include "lang/elaborate.h"

// Is a value made of numbers alone: of no input, parameter, state or random number?
bool lint_constant(Graph *graph, ValueId value);

// Behind an elaborated training step: warns of names that nothing reads (E016), and of parameters that the loss does
// not depend on (E038).
void lint_model(Elaborator *e, ValueId loss);

#endif
