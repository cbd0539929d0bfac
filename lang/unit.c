// unit.c: loading files and imports.
#include "lang/unit.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "lang/stdlib.h"

static NameSpace space_of(const Ast *ast) {
  switch (ast->kind) {
    case AST_LAYOUT:
      return SPACE_LAYOUT;
    case AST_PRECISION:
      return SPACE_PRECISION;
    case AST_RECIPE:
      return SPACE_RECIPE;
    default:
      return SPACE_CODE;
  }
}

static uint64_t declaration_key(NameSpace space, Name name) {
  return map_key(name) * SPACE_COUNT + (uint64_t)space;
}

const Declaration *unit_find(const Unit *unit, NameSpace space, Name name) {
  int64_t at = map_get_or(&unit->found, declaration_key(space, name), -1);
  return at < 0 ? NULL : &unit->all.at[at];
}

const char *unit_closest(const Unit *unit, NameSpace space, Name name) {
  const char **candidates = ARENA_ARRAY(unit->arena, const char *, unit->all.count + 1);
  int count = 0;
  for (int i = 0; i < unit->all.count; i++) {
    if (unit->all.at[i].space == space && unit->all.at[i].ast->name) {
      candidates[count++] = unit->all.at[i].ast->name;
    }
  }
  return text_closest(name, candidates, count);
}

static int load_source(Unit *unit, Name key, int file, bool library, bool is_main);

// The source file that was read under this path or name before, or -1.
static int loaded_before(const Unit *unit, Name key) {
  for (int i = 0; i < unit->loaded.count; i++) {
    if (unit->loaded.at[i].key == key) {
      return unit->loaded.at[i].file;
    }
  }
  return -1;
}

// These return the index of the source file, or -1 with an error.
static int load_library(Unit *unit, const char *name, Span span) {
  const Name key = name_format(unit->names, "<std.%s>", name);
  const int before = loaded_before(unit, key);
  if (before >= 0) {
    return before;
  }
  for (const StdlibFile *file = stdlib_files; file->name; file++) {
    if (strcmp(file->name, name) == 0) {
      const char *path = arena_format(unit->arena, "std/%s.mdl", name);
      return load_source(unit, key, diag_add_source(unit->diag, path, file->text, file->length), true, false);
    }
  }
  Diagnostic *error = diag_error(unit->diag, E003, span, "the standard library has no part 'std.%s'", name);
  const char *candidates[64];
  int count = 0;
  for (const StdlibFile *file = stdlib_files; file->name && count < 64; file++) {
    candidates[count++] = file->name;
  }
  const char *closest = text_closest(name, candidates, count);
  if (closest) {
    diag_help(unit->diag, error, "did you mean `std.%s`?", closest);
  }
  return -1;
}

// The bytes of an open text or of the file, in the arena and with a NUL behind them; or NULL with an error.
static char *read_path(Unit *unit, Name key, const char *path, Span span, bool is_main, size_t *length) {
  for (int i = 0; i < unit->open_count; i++) {
    const OpenText *open = &unit->open[i];
    if (strcmp(open->path, key) == 0) {
      if (open->length > FILE_TEXT_MOST) {
        diag_error(unit->diag, E003, span, "the text of '%s' has more than %d bytes", path, (int)FILE_TEXT_MOST);
        return NULL;
      }
      char *text = arena_alloc(unit->arena, open->length + 1);
      memcpy(text, open->text, open->length);
      *length = open->length;
      return text;
    }
  }
  FileError why;
  char *bytes = file_read_text(path, !is_main, length, &why);
  if (!bytes) {
    if (why.code == ENOMEM) {
      arena_exhausted(unit->arena);
    }
    diag_error(unit->diag, E003, span, "%s", why.text);
    return NULL;
  }
  char *text = arena_copy(unit->arena, bytes, *length + 1);
  free(bytes);
  return text;
}

static int load_path(Unit *unit, const char *path, Span span, bool is_main) {
  char resolved[PATH_MAX];  // so that a file is read once, however it is spelled
  const Name key = name_of(unit->names, realpath(path, resolved) ? resolved : path);
  const int before = loaded_before(unit, key);
  if (before >= 0) {
    return before;
  }
  size_t length = 0;
  char *text = read_path(unit, key, path, span, is_main, &length);
  if (!text) {
    return -1;
  }
  if (memchr(text, '\0', length)) {
    Diagnostic *error = diag_error(unit->diag, E003, span, "'%s' is no text: it holds zero bytes", path);
    diag_help(unit->diag, error, "a compiled plan goes to `mdl train` or `mdl inspect`");
    return -1;
  }
  return load_source(unit, key, diag_add_source(unit->diag, path, text, length), false, is_main);
}

static int load_import(Unit *unit, const Ast *import, const char *from) {
  const Ast *first = import->kids[0];
  const char *directory = path_directory(unit->arena, from);
  if (first->kind == AST_STRING) {
    return load_path(unit, path_join(unit->arena, directory, first->name), import->span, false);
  }
  if (strcmp(first->name, "std") == 0 && import->count == 2) {
    return load_library(unit, import->kids[1]->name, import->span);
  }
  const char *path = directory;
  for (int i = 0; i < import->count; i++) {
    const char *part = import->kids[i]->name;
    path = path_join(unit->arena, path, i + 1 < import->count ? part : arena_format(unit->arena, "%s.mdl", part));
  }
  return load_path(unit, path, import->span, false);
}

// Which axes of a call a list gets must be clear: a function has one after `over` and one after `to`. An update on
// matrices has two, the axes before and behind the `;`.
static void check_lists(Unit *unit, const Ast *ast) {
  static const char *const separators[] = {[GROUP_OVER] = "over", [GROUP_TO] = "to"};
  const Ast *list[GROUP_ARROW + 1] = {0};
  int lists = 0;
  for (int i = 0; i < ast->kids[0]->count; i++) {
    const Ast *formal = ast->kids[0]->kids[i], *first = list[formal->group];
    if (!(formal->flags & AST_VARIADIC)) {
      continue;
    }
    if (formal->group == GROUP_PLAIN) {
      diag_error(unit->diag, E030, formal->span, "'%s...' is a list of axes: it stands after `over` or `to`",
                 formal->name);
    } else if (ast->kind == AST_FUNCTION && first) {
      Diagnostic *error = diag_error(unit->diag, E030, formal->span, "'%s...' is a second list of axes after `%s`",
                                     formal->name, separators[formal->group]);
      diag_help(unit->diag, error, "a call would not say where the first one ends");
      diag_related(unit->diag, error, first->span, "the first list");
    } else if (ast->kind == AST_UPDATE && lists == 2) {
      diag_error(unit->diag, E030, formal->span,
                 "'%s...' is a third list: an update has those before and behind the `;`", formal->name);
    }
    list[formal->group] = first ? first : formal;
    lists++;
  }
}

// Every call has these two arguments for itself.
static void check_formal_names(Unit *unit, const Ast *ast) {
  for (int i = 0; i < ast->kids[0]->count; i++) {
    const Ast *formal = ast->kids[0]->kids[i];
    if (strcmp(formal->name, "name") == 0 || strcmp(formal->name, "share") == 0) {
      Diagnostic *error = diag_error(unit->diag, E030, formal->span,
                                     "'%s' is an argument of every call, and cannot be "
                                     "a parameter",
                                     formal->name);
      diag_help(unit->diag, error, "choose another name: `%s = ...` in a call would never come here", formal->name);
    }
  }
}

// An update is called with a parameter and its gradient.
static void check_update(Unit *unit, const Ast *ast) {
  int values = 0;
  for (int i = 0; i < ast->kids[0]->count && i < 2; i++) {
    const Ast *formal = ast->kids[0]->kids[i];
    values += formal->group == GROUP_PLAIN && !formal->kids[0];
  }
  if (values < 2) {
    Diagnostic *error = diag_error(unit->diag, E030, ast->name_span,
                                   "the first parameters of an update are a parameter of the model and its gradient");
    diag_help(unit->diag, error, "write `update %s(p, g, ...)`", ast->name);
  }
}

static void declare(Unit *unit, const Ast *ast, bool library, bool is_main) {
  NameSpace space = space_of(ast);
  const Declaration *other = unit_find(unit, space, ast->name);
  if (other && other->library == library) {
    Diagnostic *error = diag_error(unit->diag, E011, ast->name_span, "'%s' is declared twice", ast->name);
    diag_related(unit->diag, error, other->ast->name_span, "the first declaration");
  }
  if (!other || other->library) {
    if (!unit->found.arena) {
      unit->found = map_create(unit->arena);
    }
    map_put(&unit->found, declaration_key(space, ast->name), unit->all.count);
  }
  if (ast->kind == AST_FUNCTION || ast->kind == AST_UPDATE) {
    check_lists(unit, ast);
    check_formal_names(unit, ast);
  }
  if (ast->kind == AST_UPDATE) {
    check_update(unit, ast);
  }
  array_push(unit->arena, &unit->all, (Declaration){ast, space, library, is_main});
}

// Any other text makes an error of every line: one is enough.
static void blame_file(Unit *unit, DiagMark before, const char *path, bool is_main) {
  enum { MANY = 8 };
  Diag *diag = unit->diag;
  const size_t length = strlen(path);
  const bool named = (length > 4 && strcmp(path + length - 4, ".mdl") == 0) || path[0] == '<';
  if (named || diag->errors - before.errors < MANY) {
    return;
  }
  const Diagnostic first = diag->all.at[before.count];
  diag_rewind(diag, before);
  Diagnostic *error = diag_error(diag, first.code, first.span, "'%s' is another kind of text: %s", path, first.message);
  diag_help(diag, error, "%s",
            is_main ? "texts of models have names that end with .mdl; to train on this one: `mdl train FILE.mdl "
                      "--data ...`, or `data text(\"...\");` in its recipe"
                    : "texts of models have names that end with .mdl");
}

static int load_source(Unit *unit, Name key, int file, bool library, bool is_main) {
  const DiagMark before = diag_mark(unit->diag);
  array_push(unit->arena, &unit->loaded, ((Loaded){key, file}));
  unit->diag->sources.at[file].library = library;
  Ast *tree = parse_file(unit->arena, unit->names, unit->diag, file, NULL);
  const char *path = unit->diag->sources.at[file].path;
  blame_file(unit, before, path, is_main);
  for (int i = 0; tree && i < tree->count; i++) {
    const Ast *ast = tree->kids[i];
    if (ast->kind == AST_IMPORT) {
      const int to = ast->count > 0 ? load_import(unit, ast, path) : -1;
      array_push(unit->arena, &unit->imports, ((Import){ast, file, to}));
    } else if (ast->name) {
      declare(unit, ast, library, is_main);
    }
  }
  return file;
}

bool unit_load(Unit *unit, const char *path) {
  int before = unit->diag->reports;
  unit->base = path_directory(unit->arena, path);
  load_path(unit, path, SPAN_NONE, true);
  load_library(unit, "prelude", SPAN_NONE);
  return unit->diag->reports == before;
}
