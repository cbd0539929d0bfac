// unread_names.h: what the two halves of unread.h share.
#ifndef MDL_LANG_UNREAD_NAMES_H
#define MDL_LANG_UNREAD_NAMES_H

#include "lang/unit.h"

// Warns of names in a function, an update or a model. `argument`: the function is an argument somewhere.
void unread_body(Unit *unit, const Ast *ast, bool argument);

// `name = out` of a call: a word, which stands for no value.
bool names_a_part(const Ast *argument);

// `seq` for `seq'`, or NULL.
Name name_without_mark(Names *names, Name name);

#endif
