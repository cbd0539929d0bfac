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
  Name key;  // a path or the name of a part of the library
  int file;
} Loaded;

typedef struct {  // an import in one source file of another
  const Ast *ast;
  int from, to;  // to: -1 if it could not be read
} Import;

typedef struct OpenText {  // read instead of the file: what an editor has not saved, or what came from standard input
  const char *path;        // where links lead; or a name that is no file's
  const char *text;        // NUL-terminated
  size_t length;
} OpenText;

typedef struct Unit {
  Arena *arena;
  Names *names;
  Diag *diag;
  const OpenText *open;
  int open_count;
  const struct TextWatch *watch;  // see CompileOptions
  ARRAY(Declaration) all;
  Map found;             // of names and name spaces to the declarations that they stand for
  ARRAY(Loaded) loaded;  // so that each file is read once
  ARRAY(Import) imports;
  const char *base;  // directory of the main file
  bool unread_checked, hidden_checked;
  ARRAY(Span) unread;  // statements whose values nothing reads, which was said (unread.h)
} Unit;

// Reads the file at `path` and everything it imports. False when something was reported.
bool unit_load(Unit *unit, const char *path);

const Declaration *unit_find(const Unit *unit, NameSpace space, Name name);

// The name in this space most like a misspelled one, or NULL.
const char *unit_closest(const Unit *unit, NameSpace space, Name name);

#endif
