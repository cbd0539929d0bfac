// unit.h: all declarations of a compilation: the main file, what it imports, and the prelude of the library.
//
// Functions, updates, models, axes and constants share one namespace; layouts, precisions and recipes have one
// each. A declaration of the user's files hides one of the library's.
#ifndef MDL_LANG_UNIT_H
#define MDL_LANG_UNIT_H

#include "base/map.h"
#include "lang/ast.h"

typedef enum { SPACE_CODE, SPACE_LAYOUT, SPACE_PRECISION, SPACE_RECIPE, SPACE_COUNT } NameSpace;

typedef struct {
  const Ast *ast;
  NameSpace space;
  bool library;  // from the standard library
  bool main;     // from the main file itself
} Declaration;

typedef struct {
  Arena *arena;
  Names *names;
  Diag *diag;
  ARRAY(Declaration) all;
  Map found;           // of names and name spaces to the declarations that they stand for
  ARRAY(Name) loaded;  // paths and library names, so that each is read once
  const char *base;    // directory of the main file
} Unit;

// Reads the file at `path` and everything it imports. False when something was reported.
bool unit_load(Unit *unit, const char *path);

const Declaration *unit_find(const Unit *unit, NameSpace space, Name name);

// The name in this space most like a misspelled one, or NULL.
const char *unit_closest(const Unit *unit, NameSpace space, Name name);

#endif
