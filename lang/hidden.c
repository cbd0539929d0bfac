// hidden.c: functions of the user's files that the library calls in place of its own, since they have the same name.
#include "compiler/ir/graph.h"
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

static void look(Elaborator *e, const Ast *ast, Name caller, Map *said) {
  const Declaration *taken = ast->kind == AST_CALL ? unit_find(e->unit, SPACE_CODE, ast->name) : NULL;
  if (taken && !taken->library && taken->ast->kind == AST_FUNCTION && of_library(e->unit, ast->name) &&
      !map_get_or(said, map_key(taken->ast), 0)) {
    map_put(said, map_key(taken->ast), 1);
    Diagnostic *note = diag_note(e->diag, E011, taken->ast->name_span,
                                 "the library has a function '%s' too, and this one stands in its place, also where "
                                 "'%s' of the library calls it",
                                 ast->name, caller);
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
