// elementwise.c: which updates of the recipe may work on many parameters at once.
#include <string.h>

#include "lang/updates.h"

typedef struct {
  Elaborator *e;
  Map seen;  // names of functions that were looked at
} Walk;

static Walk walk_of(Elaborator *e) {
  return (Walk){.e = e, .seen = map_create(e->arena)};
}

static const Ast *declared_function(const Walk *w, Name name) {
  const Declaration *declaration = unit_find(w->e->unit, SPACE_CODE, name);
  return declaration && declaration->ast->kind == AST_FUNCTION ? declaration->ast : NULL;
}

// Is it a call of what the language has under this name, not of a function that the text has under it?
static bool calls_builtin(const Walk *w, const Ast *ast, const char *name) {
  return ast->kind == AST_CALL && strcmp(ast->name, name) == 0 && !declared_function(w, ast->name);
}

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
  const Ast *summed = sum && calls_builtin(w, sum, "sum") ? sum->kids[0] : NULL;
  return summed && summed->count == 1 && elementwise(w, summed, depth + 1);
}

// What a function makes of elements follows from its body and the defaults of its parameters. One look at it is enough,
// however often it is called: where it is not elementwise, nothing that calls it is.
static bool function_elements(Walk *w, Name name, int depth) {
  const Ast *function = declared_function(w, name);
  if (!function || map_get_or(&w->seen, map_key(name), 0)) {
    return true;
  }
  map_put(&w->seen, map_key(name), 1);
  return elementwise(w, function->kids[0], depth + 1) && elementwise(w, function->kids[1], depth + 1);
}

// A function that is given by its name, `norm = rms`, is called under another.
static bool gives_function(const Ast *ast) {
  return (ast->kind == AST_FORMAL || ast->kind == AST_ARGUMENT) && ast->kids[0] && ast->kids[0]->kind == AST_NAME;
}

// What is then called under this name is no total: what it is given is of one parameter.
static bool hides_total(const Ast *ast) {
  return (ast->kind == AST_FORMAL || ast->kind == AST_ARGUMENT) && ast->name && strcmp(ast->name, "total") == 0;
}

// Does each element of the update depend on the elements at the same place alone, and on totals over elements?
static bool elementwise(Walk *w, const Ast *ast, int depth) {
  if (!ast) {
    return true;
  }
  if (depth > 16 || ast->kind == AST_INDEX || hides_total(ast)) {
    return false;
  }
  if (calls_builtin(w, ast, "total")) {
    return totals_elements(w, ast, depth);
  }
  if (ast->kind == AST_CALL) {
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

// Is there a total of anything else than a sum over elements, in what is called, too? By itself: what surrounds a
// total, or was looked at ahead of it, says nothing about it.
static bool totals_each(Walk *w, const Ast *ast) {
  if (!ast) {
    return false;
  }
  if (calls_builtin(w, ast, "total")) {
    Walk own = walk_of(w->e);
    if (!totals_elements(&own, ast, 0)) {
      return true;
    }
  }
  const Name name = ast->kind == AST_CALL ? ast->name : gives_function(ast) ? ast->kids[0]->name : NULL;
  const Ast *function = name ? declared_function(w, name) : NULL;
  if (function && !map_get_or(&w->seen, map_key(name), 0)) {
    map_put(&w->seen, map_key(name), 1);
    if (totals_each(w, function->kids[0]) || totals_each(w, function->kids[1])) {
      return true;
    }
  }
  for (int i = 0; i < ast->count; i++) {
    if (totals_each(w, ast->kids[i])) {
      return true;
    }
  }
  return false;
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
    Walk walk = walk_of(e), *w = &walk, totals = walk_of(e), *t = &totals;
    // What the recipe gives may be functions too.
    const bool elements = update && !update_takes_axes(update) && elementwise(w, update->kids[0], 0) &&
                          elementwise(w, update->kids[1], 0) && elementwise(w, call->kids[0], 0);
    const bool each =
        update && (totals_each(t, update->kids[0]) || totals_each(t, update->kids[1]) || totals_each(t, call->kids[0]));
    array_push(e->arena, &rules, ((UpdateRule){update != NULL, elements, each}));
  }
  return rules;
}
