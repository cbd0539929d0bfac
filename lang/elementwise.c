// elementwise.c: which updates of the recipe may work on many parameters at once.
#include <string.h>

#include "lang/updates.h"

typedef struct {
  Elaborator *e;
  Map seen;  // names of functions that were looked at
} Walk;

static bool elementwise_call(Name name) {
  static const char *const cut[] = {"sum", "mean",  "dot", "window",      "concat",
                                    "pos", "outer", "top", "draw_normal", "draw_uniform"};
  for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
    if (strcmp(name, cut[i]) == 0) {
      return false;
    }
  }
  return true;
}

static bool elementwise(Walk *w, const Ast *ast, int depth);

// total(sum(f(p, g))): the sum over an arena, or a piece of one, is that of its members.
static bool totals_elements(Walk *w, const Ast *total, int depth) {
  const Ast *list = total->kids[0], *group = list && list->count == 1 ? list->kids[0] : NULL;
  const Ast *sum = group && group->count == 1 ? group->kids[0] : NULL;
  const Ast *summed = sum && sum->kind == AST_CALL && strcmp(sum->name, "sum") == 0 ? sum->kids[0] : NULL;
  return summed && summed->count == 1 && elementwise(w, summed, depth + 1);
}

// What a function makes of elements follows from its body and the defaults of its parameters. One look at it is enough,
// however often it is called: where it is not elementwise, nothing that calls it is.
static bool function_elements(Walk *w, Name name, int depth) {
  const Declaration *declaration = unit_find(w->e->unit, SPACE_CODE, name);
  if (!declaration || declaration->ast->kind != AST_FUNCTION || map_get_or(&w->seen, map_key(name), 0)) {
    return true;
  }
  map_put(&w->seen, map_key(name), 1);
  return elementwise(w, declaration->ast->kids[0], depth + 1) && elementwise(w, declaration->ast->kids[1], depth + 1);
}

// A function that is given by its name, `norm = rms`, is called under another.
static bool gives_function(const Ast *ast) {
  return (ast->kind == AST_FORMAL || ast->kind == AST_ARGUMENT) && ast->kids[0] && ast->kids[0]->kind == AST_NAME;
}

// Does each element of the update depend on the elements at the same place alone, and on totals over elements?
static bool elementwise(Walk *w, const Ast *ast, int depth) {
  if (!ast) {
    return true;
  }
  if (depth > 16 || ast->kind == AST_INDEX) {
    return false;
  }
  if (ast->kind == AST_CALL) {
    if (strcmp(ast->name, "total") == 0) {
      return totals_elements(w, ast, depth);
    }
    bool reduces = (strcmp(ast->name, "max") == 0 || strcmp(ast->name, "min") == 0) && ast->kids[0]->count < 2;
    if (reduces || !elementwise_call(ast->name)) {
      return false;
    }
    if (!function_elements(w, ast->name, depth)) {
      return false;
    }
  }
  if (gives_function(ast) && !function_elements(w, ast->kids[0]->name, depth)) {
    return false;
  }
  for (int i = 0; i < ast->count; i++) {
    if (!elementwise(w, ast->kids[i], depth)) {
      return false;
    }
  }
  return true;
}

bool update_takes_axes(const Ast *update) {
  for (int i = 0; i < update->kids[0]->count; i++) {
    if (update->kids[0]->kids[i]->group != GROUP_PLAIN) {
      return true;
    }
  }
  return false;
}

UpdateRules elaborate_update_rules(Elaborator *e) {
  UpdateRules rules = {0};
  for (int i = 0; i < e->spec->text->optimizers.count; i++) {
    const Ast *call = e->spec->text->optimizers.at[i].call;
    const Ast *update = call ? unit_find(e->unit, SPACE_CODE, call->name)->ast : NULL;
    Walk walk = {.e = e, .seen = map_create(e->arena)}, *w = &walk;
    // What the recipe gives may be functions too.
    const bool elements = update && !update_takes_axes(update) && elementwise(w, update->kids[0], 0) &&
                          elementwise(w, update->kids[1], 0) && elementwise(w, call->kids[0], 0);
    array_push(e->arena, &rules, ((UpdateRule){update != NULL, elements}));
  }
  return rules;
}
