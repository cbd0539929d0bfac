// model_text.h: what of a resolved text decides what a loss is: the model, its constants, and the functions it calls.
#ifndef MDL_RUNTIME_CONVERT_MODEL_TEXT_H
#define MDL_RUNTIME_CONVERT_MODEL_TEXT_H

#include <stdint.h>

#include "base/arena.h"

// A hash of these; 0: there is no text. Schedules, updates and layouts are not among them.
uint64_t model_text_hash(Arena *arena, const char *resolved);

#endif
