// selector_names.h: selectors as they stand in the text.
#ifndef MDL_LANG_SELECTOR_NAMES_H
#define MDL_LANG_SELECTOR_NAMES_H

#include "compiler/spec/selector.h"
#include "lang/reach.h"

static inline Selector selector_of(const Ast *path) {
  return (Selector){path->name, path->span};
}

// Reports (E015) a selector with a name that the text of the model does not have, whatever the sizes of the model are,
// and for layouts that are not chosen. `what`: "to recompute", for the message.
bool selector_check_names(const Reach *reach, Selector selector, const char *what);

bool selector_names_known(const Reach *reach, Name selector);

#endif
