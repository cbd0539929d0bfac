// placed.h: a resolved text that finds its data from anywhere.
#ifndef MDL_LANG_PLACED_H
#define MDL_LANG_PLACED_H

#include "base/arena.h"

// A text as settings_resolved writes it, in which names of data, patterns among them, are absolute paths of what is
// found now: in the working directory, or else in `base`. A name that nothing fits stays, and so does one in a
// directory whose name no text can hold, which a comment says. A text that cannot be read is returned as it is.
const char *resolved_placed(Arena *arena, const char *text, const char *base);

#endif
