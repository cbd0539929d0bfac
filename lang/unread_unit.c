// unread_unit.c: functions, imports, and axes and constants outside of functions that nothing reads.
#include <string.h>

#include "lang/unread.h"
#include "lang/unread_names.h"

bool names_a_part(const Ast *argument) {
  return argument->kind == AST_ARGUMENT && argument->name && strcmp(argument->name, "name") == 0;
}

Name name_without_mark(Names *names, Name name) {
  const size_t length = strlen(name);
  return length > 1 && name[length - 1] == '\'' ? name_of_bytes(names, name, length - 1) : NULL;
}

typedef struct {
  Unit *unit;
  Map from;       // declarations to the source file that reads them, or SEVERAL
  Map arguments;  // functions that are named without a call
  const Ast *reader;
} Readers;

enum { SEVERAL = -2, NOBODY = -1 };

static void read_name(Readers *readers, Name name, bool called) {
  const Declaration *found = unit_find(readers->unit, SPACE_CODE, name);
  if (!found || found->ast == readers->reader) {
    return;
  }
  const int64_t before = map_get_or(&readers->from, map_key(found->ast), NOBODY);
  const int64_t file = readers->reader->span.file;
  map_put(&readers->from, map_key(found->ast), before == NOBODY || before == file ? file : SEVERAL);
  if (!called) {
    map_put(&readers->arguments, map_key(found->ast), 1);
  }
}

static void read_names(Readers *readers, const Ast *ast) {
  if (!ast) {
    return;
  }
  if (ast->kind == AST_PHRASE && (readers->reader->kind == AST_LAYOUT || readers->reader->kind == AST_PRECISION)) {
    read_names(readers, ast->kids[1]);  // its words are no names of code
    return;
  }
  if (ast->kind == AST_NAME || ast->kind == AST_CALL || ast->kind == AST_PATH) {
    read_name(readers, ast->name, ast->kind == AST_CALL);
    for (Name base = ast->name; (base = name_without_mark(readers->unit->names, base));) {
      read_name(readers, base, false);
    }
  }
  for (int i = 0; i < ast->count && !names_a_part(ast); i++) {
    read_names(readers, ast->kids[i]);
  }
}

// --- imports ---

// All files that a file imports, itself too.
static void reach_files(const Unit *unit, int file, bool *reached) {
  if (file < 0 || reached[file]) {
    return;
  }
  reached[file] = true;
  for (int i = 0; i < unit->imports.count; i++) {
    if (unit->imports.at[i].from == file) {
      reach_files(unit, unit->imports.at[i].to, reached);
    }
  }
}

// Models, layouts and the like are chosen by name where a program is run.
static bool can_be_chosen(const Declaration *declaration) {
  return !declaration->library && (declaration->space != SPACE_CODE || declaration->ast->kind == AST_MODEL);
}

// Is anything read of a file that is imported, or of what that imports?
static bool file_is_read(const Readers *readers, int file) {
  const Unit *unit = readers->unit;
  bool *reached = ARENA_ARRAY(unit->arena, bool, unit->diag->sources.count + 1);
  reach_files(unit, file, reached);
  for (int i = 0; i < unit->all.count; i++) {
    const Declaration *declaration = &unit->all.at[i];
    const int64_t reader = map_get_or(&readers->from, map_key(declaration->ast), NOBODY);
    const bool read = reader == SEVERAL || (reader >= 0 && !reached[reader]);
    if (reached[declaration->ast->span.file] && (read || can_be_chosen(declaration))) {
      return true;
    }
  }
  return file < 0;
}

static void check_imports(const Readers *readers, int main_file) {
  enum { UNKNOWN, READ, UNREAD };
  const Unit *unit = readers->unit;
  uint8_t *known = ARENA_ARRAY(unit->arena, uint8_t, unit->diag->sources.count + 1);  // [file + 1]
  for (int i = 0; i < unit->imports.count; i++) {
    const Import *import = &unit->imports.at[i];
    uint8_t *of_file = &known[import->to < 0 ? 0 : import->to + 1];
    if (import->from == main_file && *of_file == UNKNOWN) {
      *of_file = file_is_read(readers, import->to) ? READ : UNREAD;
    }
    if (import->from == main_file && *of_file == UNREAD) {
      Diagnostic *said = diag_warning(unit->diag, E016, import->ast->span, "nothing reads what this import brings");
      diag_help(unit->diag, said, "remove it");
    }
  }
}

// --- declarations ---

static const char *declared_what(const Ast *ast) {
  switch (ast->kind) {
    case AST_FUNCTION:
      return "calls the function";
    case AST_UPDATE:
      return "calls the update";
    case AST_AXIS:
      return "reads the axis";
    case AST_CONST:
      return "reads the constant";
    default:
      return NULL;
  }
}

static void check_declaration(const Readers *readers, const Declaration *declaration) {
  const Unit *unit = readers->unit;
  const Ast *ast = declaration->ast;
  const char *what = declaration->main ? declared_what(ast) : NULL;
  if (!what || ast->name[0] == '_' || map_get_or(&readers->from, map_key(ast), NOBODY) != NOBODY) {
    return;
  }
  Diagnostic *said = diag_warning(unit->diag, E016, ast->name_span, "nothing %s '%s'", what, ast->name);
  if (ast->kind == AST_FUNCTION || ast->kind == AST_UPDATE) {
    diag_label(unit->diag, said, "what stands in it is checked only where it is called");
  }
  diag_help(unit->diag, said, "remove it, or call it `_%s` if that is meant", ast->name);
}

void unread_check(Unit *unit) {
  if (unit->unread_checked) {
    return;
  }
  unit->unread_checked = true;
  Readers readers = {.unit = unit, .from = map_create(unit->arena), .arguments = map_create(unit->arena)};
  const int declared = unit->all.count;
  for (int i = 0; i < declared; i++) {
    readers.reader = unit->all.at[i].ast;
    for (int j = 0; j < readers.reader->count; j++) {
      read_names(&readers, readers.reader->kids[j]);
    }
  }
  int main_file = -1;
  for (int i = 0; i < declared; i++) {
    const Declaration *declaration = &unit->all.at[i];
    const Ast *ast = declaration->ast;
    main_file = declaration->main ? ast->span.file : main_file;
    check_declaration(&readers, declaration);
    if (!declaration->library && (ast->kind == AST_FUNCTION || ast->kind == AST_UPDATE || ast->kind == AST_MODEL)) {
      unread_body(unit, ast, map_get_or(&readers.arguments, map_key(ast), 0) != 0);
    }
    if (!declaration->library && ast->kind == AST_UPDATE) {
      no_state_check(unit, ast);
    }
  }
  check_imports(&readers, main_file);
}
