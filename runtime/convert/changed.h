// changed.h: what a resolved text says otherwise than an earlier one of the same run.
#ifndef MDL_RUNTIME_CONVERT_CHANGED_H
#define MDL_RUNTIME_CONVERT_CHANGED_H

#include "runtime/convert/pairs.h"

// Adds the entries of recipes that differ, but for sizes (constants_changed), and the names of the other declarations
// that do. Both texts are as `resolved.mdl` is written.
void text_changed(Arena *arena, const char *before, const char *now, Unfit *changed);

#endif
