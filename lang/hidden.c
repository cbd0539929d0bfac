// hidden.c: declarations of the user's files that the library uses in place of its own or of the language's, since they
// have the same name.
#include "compiler/ir/graph.h"
#include "lang/elaborate.h"
#include "lang/lint.h"
#include "lang/reach.h"

static const Declaration *of_library(const Unit *unit, Name name) {
  for (int i = 0; i < unit->all.count; i++) {
    const Declaration *declaration = &unit->all.at[i];
    if (declaration->library && declaration->space == SPACE_CODE && declaration->ast->name == name) {
      return declaration;
    }
  }
  return NULL;
}

// What stands in the library under this name, so that a declaration of the user's hides it; NULL: nothing.
static const char *hides(const Elaborator *e, const Declaration *taken) {
  const AstKind kind = taken->ast->kind;
  if (kind == AST_FUNCTION && of_library(e->unit, taken->ast->name)) {
    return "the library has a function";
  }
  if (kind == AST_FUNCTION ? builtin_find(taken->ast->name) != NULL
                           : (kind == AST_CONST || kind == AST_AXIS) && builtin_value(taken->ast->name)) {
    return kind == AST_FUNCTION ? "the language has a function" : "the language has a value";
  }
  return NULL;
}

static void look(Elaborator *e, const Ast *ast, Name caller, Map *said) {
  const bool uses = ast->kind == AST_CALL || ast->kind == AST_NAME;
  const Declaration *taken = uses ? unit_find(e->unit, SPACE_CODE, ast->name) : NULL;
  const char *hidden = taken && !taken->library ? hides(e, taken) : NULL;
  if (hidden && !map_get_or(said, map_key(taken->ast), 0)) {
    map_put(said, map_key(taken->ast), 1);
    Diagnostic *note = diag_note(e->diag, E011, taken->ast->name_span,
                                 "%s '%s' too, and this one stands in its place, also where '%s' of the library %s it",
                                 hidden, ast->name, caller, ast->kind == AST_CALL ? "calls" : "uses");
    diag_help(e->diag, note, "give it another name, unless the library shall use it");
  }
  for (int i = 0; i < ast->count; i++) {
    if (ast->kids[i]) {
      look(e, ast->kids[i], caller, said);
    }
  }
}

void lint_hidden(Elaborator *e) {
  if (e->unit->hidden_checked) {
    return;
  }
  e->unit->hidden_checked = true;
  Reach reach = {.unit = e->unit};
  Map said = map_create(e->arena);
  reach_from(&reach, e->spec->text->model->ast);
  reach_from(&reach, e->spec->text->recipe);
  for (int i = 0; i < reach.declarations.count; i++) {
    const Ast *ast = reach.declarations.at[i];
    if (diag_in_library(e->diag, ast->span)) {
      look(e, ast, ast->name, &said);
    }
  }
}
