// unread.h: names that a text gives and nothing reads.
#ifndef MDL_LANG_UNREAD_H
#define MDL_LANG_UNREAD_H

#include "lang/unit.h"

// Warns (E016) of values, parameters, inputs, axes and constants in the user's files that nothing reads, and of
// functions, axes, constants and imports of the main file. Names that begin with `_` are left out. Works on syntax
// alone: a branch that is never taken reads as well. The statements of such values are then in unit->unread.
void unread_check(Unit *unit);

// no_state.c: warns of names of an update that look like its state and are none (E017).
void no_state_check(Unit *unit, const Ast *update);

// Does a block, such as that of a repeat, read this name before it gives it?
bool block_reads_first(Unit *unit, const Ast *block, Name name);

#endif
