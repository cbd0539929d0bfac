// changed.h: what a resolved text says otherwise than an earlier one of the same run.
#ifndef MDL_RUNTIME_CONVERT_CHANGED_H
#define MDL_RUNTIME_CONVERT_CHANGED_H

#include <stdbool.h>

#include "runtime/convert/pairs.h"

// Adds the entries of recipes that differ, but for sizes (constants_changed), and the names of the other declarations
// that do. Both texts are as `resolved.mdl` is written.
void text_changed(Arena *arena, const char *before, const char *now, Unfit *changed);

// Which part of the data is held out; 0 where sources are validated with, or it is not said.
double text_held_out(Arena *arena, const char *text);

// Do evaluations read other windows? Of data neither directories nor weights count. `of_data`: they are a part of it.
bool text_validates_otherwise(Arena *arena, const char *before, const char *now, bool of_data);

// Is the data another, or does it stand there with other options? Directories and weights do not count.
bool text_names_data_otherwise(Arena *arena, const char *before, const char *now);

#endif
