// reach.h: what the text of a model can reach: declarations that it uses, axes, functions, labels, parts of paths.
//
// Collected from the syntax alone, so before sizes are known and without running anything: a branch that is never
// taken counts as well. Everything lives in the unit's arena.
#ifndef MDL_LANG_REACH_H
#define MDL_LANG_REACH_H

#include "lang/unit.h"

typedef struct {
  Name *at;  // in the order in which they were found
  int count, capacity;
  Map known;
} NameArray;

typedef struct {
  const Ast *ast;  // AST_AXIS
  Name function;   // that declares it; NULL: the model, or nobody
} ReachAxis;

typedef struct {
  const Unit *unit;
  Name function;                    // that is being walked, or NULL
  ARRAY(const Ast *) declarations;  // of code, in the order in which they were reached
  Map visited;                      // all of them
  ARRAY(ReachAxis) axes;
  NameArray functions;  // called ones, the library's and composites included
  NameArray repeats;    // words of repeats, and scan
  NameArray parts;      // what a path of a parameter can be made of: variables, `name = ...`, parameters
  NameArray labels;     // without @
} Reach;

// Adds everything that can be reached from this syntax tree; a declaration is walked once.
void reach_from(Reach *reach, const Ast *ast);

bool reach_has(const NameArray *names, Name name);
// The word of a repeat in paths and selectors: the name of its count, or `repeat` where that has none.
Name reach_repeat(Names *names, const Ast *repeat);
// The first axis of this name, or NULL: `ffn` of the model, or outside of models and functions; `mlp.hidden` of a
// function.
const Ast *reach_axis(const Reach *reach, Name name);
Name reach_axis_name(const Reach *reach, const ReachAxis *axis);  // and back

#endif
