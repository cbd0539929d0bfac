// selector.h: what a selector means: the words that say where in a model a setting holds.
//
// Optimizer groups, `freeze`, rules of layouts, `recompute`, `offload` and `dot in` of precisions all use these
// functions, so one text selects the same everywhere. A selector is an interned name in one of these forms:
//
//   @resid          values with this label
//   *               everything
//   attention       what is made inside a function or repeat of this name, and what has this part in its path; `norm`
//                   also means functions whose names end in _norm, and `bias` parameters that are called b or bias
//   layers.*.q      what has these parts in its path, one behind the other; `*` is any one part
//
// A part of a path means everything below it.
#ifndef MDL_COMPILER_SPEC_SELECTOR_H
#define MDL_COMPILER_SPEC_SELECTOR_H

#include "compiler/ir/graph.h"

typedef struct {  // as it is written
  Name name;      // NULL: none, which means everything
  Span span;
} Selector;

typedef struct {  // what may be selected: a tensor, or a value that an operation makes
  ScopeId scope;  // in which it is made; -1: in none
  Name tensor;    // path of a parameter or state, or NULL
  Name value;     // variable of a value, or NULL; its path is that of the scope and this
  Name label;     // of a value, without @; or NULL
} SelectorPlace;

SelectorPlace selector_place(const Graph *graph, const Node *node);  // of the first result of an operation
Name selector_path(const Graph *graph, SelectorPlace place);         // of a value that is a variable

bool selector_is_label(Name selector);
const char *selector_last_part(const char *path);  // behind the last dot

// Of two rules the one whose selector has the higher rank holds: 0 without selector, then words, paths by length,
// labels.
enum { SELECTOR_RANK_LABEL = 1000 };
int selector_rank(Name selector);  // of NULL: 0

bool selector_matches(const Graph *graph, Name selector, SelectorPlace place);

// The two halves of it: by where something is made, which many values share; and by what it is itself.
bool selector_matches_scope(const Graph *graph, Name selector, ScopeId scope);
bool selector_matches_itself(const Graph *graph, Name selector, SelectorPlace place);

// Which of the things that a selector tells apart a tensor belongs to: the shortest part of its path that is selected,
// such as layers.3 for `layers.*`; the selector, with `all` for `*`, if it selects it otherwise. NULL: it is not
// selected.
Name selector_group(const Graph *graph, Name selector, SelectorPlace tensor);

// The outermost scope around this one, or itself, that the selector means: the unit that is selected. -1: none is.
ScopeId selector_unit(const Graph *graph, Name selector, ScopeId scope);

// Is this unit a call that the selector means by its path, so that it means the result of the call as well?
bool selector_means_call(const Graph *graph, Name selector, ScopeId unit);

// ---- selector_check.c

// What a setting applies to: what one of its selectors must select at least one of.
typedef enum { SELECTS_PARAMETERS, SELECTS_COMPUTED, SELECTS_ANY } SelectorTarget;

// Reports (E015) a selector that selects nothing in the graph of a training step, as it was elaborated, with selectors
// that do. `what`: "to recompute", for the message.
bool selector_check(const Graph *graph, Selector selector, SelectorTarget target, const char *what);

#endif
