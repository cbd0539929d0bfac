// resolved.c: one runnable text of everything that was decided; which recipes there are; what selectors select.
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "lang/reach.h"
#include "lang/settings.h"
#include "lang/settings_rules.h"

// ---- Recipes

int settings_recipes(const Unit *unit, Name *names, int most) {
  int count = 0;
  for (int i = 0; i < unit->all.count; i++) {
    const Declaration *declaration = &unit->all.at[i];
    if (declaration->space == SPACE_RECIPE && declaration->main && count < most) {
      names[count++] = declaration->ast->name;
    }
  }
  return count;
}

// ---- Selectors

// Whether the parts of the pattern are the first parts of path.
static bool path_begins(const char *pattern, const char *path) {
  for (;;) {
    size_t wanted = strcspn(pattern, "."), found = strcspn(path, ".");
    bool any = wanted == 1 && *pattern == '*';
    if (found == 0 || (!any && (wanted != found || strncmp(pattern, path, wanted) != 0))) {
      return false;
    }
    if (!pattern[wanted]) {
      return true;
    }
    if (!path[found]) {
      return false;
    }
    pattern += wanted + 1;
    path += found + 1;
  }
}

static bool path_contains(const char *pattern, const char *path) {
  for (const char *at = path; *at;) {
    if (path_begins(pattern, at)) {
      return true;
    }
    at += strcspn(at, ".");
    at += *at == '.';
  }
  return false;
}

static bool ends_in(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

static bool is_norm(const Graph *graph, ScopeId scope) {
  while (scope >= 0 && graph->scopes.at[scope].index >= 0) {  // out of repeats, to the function around them
    scope = graph->scopes.at[scope].parent;
  }
  Name function = scope >= 0 ? graph->scopes.at[scope].function : NULL;
  return function && (strcmp(function, "norm") == 0 || ends_in(function, "_norm"));
}

static bool is_bias(Name path) {
  const char *dot = strrchr(path, '.'), *last = dot ? dot + 1 : path;
  return strcmp(last, "b") == 0 || strcmp(last, "bias") == 0;
}

bool selector_matches(const Graph *graph, Name selector, ScopeId scope, Name path) {
  if (path && path_contains(selector, path)) {
    return true;
  }
  if ((strcmp(selector, "norm") == 0 && is_norm(graph, scope)) ||
      (strcmp(selector, "bias") == 0 && path && is_bias(path))) {
    return true;
  }
  for (; scope >= 0; scope = graph->scopes.at[scope].parent) {
    Name function = graph->scopes.at[scope].function;
    if (function && strcmp(function, selector) == 0) {
      return true;
    }
  }
  return false;
}

// ---- The whole program as one text

static bool chosen(const Unit *unit, const Declaration *declaration, const Spec *spec, const Reach *reach) {
  if (declaration->space == SPACE_LAYOUT || declaration->space == SPACE_PRECISION) {
    return declaration->ast == spec->layout || declaration->ast == spec->precision;
  }
  if (declaration->space == SPACE_RECIPE ||
      unit_find(unit, declaration->space, declaration->ast->name) != declaration) {  // or hidden by another
    return false;
  }
  if (!declaration->library) {
    return true;
  }
  for (int i = 0; i < reach->declarations.count; i++) {
    if (reach->declarations.at[i] == declaration->ast) {
      return true;
    }
  }
  return false;
}

static void reach_chosen(const Unit *unit, const Spec *spec, Reach *reach) {
  reach_from(reach, spec->recipe);
  for (int i = 0; i < unit->all.count; i++) {
    const Declaration *declaration = &unit->all.at[i];
    if (!declaration->library && declaration->space == SPACE_CODE) {
      reach_from(reach, declaration->ast);
    }
  }
}

// Where data is, from the working directory or else from the text, as the run will look for it.
static const char *absolute(Arena *arena, const Unit *unit, const char *path) {
  char found[PATH_MAX];
  if (realpath(path, found) || realpath(path_join(arena, unit->base, path), found)) {
    return name_of(unit->names, found);
  }
  return path;
}

static Ast *with_absolute_data(Arena *arena, const Unit *unit, const Ast *ast, bool data) {
  if (!ast) {
    return NULL;
  }
  Ast *copy = arena_copy(arena, ast, sizeof *ast);
  copy->kids = ARENA_ARRAY(arena, Ast *, ast->count + 1);
  data = data || (ast->kind == AST_PHRASE && name_is(phrase_word(ast), "data"));
  if (data && ast->kind == AST_STRING) {
    copy->name = absolute(arena, unit, ast->name);
  }
  for (int i = 0; i < ast->count; i++) {
    copy->kids[i] = with_absolute_data(arena, unit, ast->kids[i], data);
  }
  return copy;
}

static Ast *node(Arena *arena, AstKind kind, Name name, Ast *first, Ast *second, int count) {
  Ast *made = ARENA_NEW(arena, Ast);
  made->kind = kind;
  made->span = made->name_span = SPAN_NONE;
  made->name = name;
  made->count = count;
  made->kids = ARENA_ARRAY(arena, Ast *, 3);
  made->kids[0] = first;
  made->kids[1] = second;
  return made;
}

// Adds `word name;` where the recipe does not say it.
static void say(Arena *arena, const Unit *unit, Ast *recipe, const char *word, const char *name) {
  if (recipe_choices(recipe, word)) {
    return;
  }
  Ast *first = node(arena, AST_PATH, name_of(unit->names, word), NULL, NULL, 0);
  Ast *second = node(arena, AST_PATH, name_of(unit->names, name), NULL, NULL, 0);
  Ast *phrase = node(arena, AST_PHRASE, NULL, node(arena, AST_LIST, NULL, first, second, 2), NULL, 2);
  Ast *setting = node(arena, AST_SETTING, NULL, node(arena, AST_LIST, NULL, phrase, NULL, 1), NULL, 3);
  Ast **kids = ARENA_ARRAY(arena, Ast *, recipe->count + 1);
  memcpy(kids, recipe->kids, sizeof *kids * (size_t)recipe->count);
  kids[recipe->count++] = setting;
  recipe->kids = kids;
}

static const char *recipe_text(Arena *arena, const Unit *unit, const Spec *spec) {
  Ast *recipe = with_absolute_data(arena, unit, spec->recipe, false);
  recipe->name = name_of(unit->names, spec->run.recipe);
  recipe->flags &= ~AST_ONE_LINE;
  say(arena, unit, recipe, "layout", spec->run.layout);
  say(arena, unit, recipe, "precision", spec->run.precision);
  return format_ast(arena, recipe);
}

const char *settings_resolved(Arena *arena, const Unit *unit, const Spec *spec) {
  Reach reach = {.unit = unit};
  reach_chosen(unit, spec, &reach);
  Buffer text = {0};
  buffer_format(
      &text,
      "// resolved.mdl: the model '%s' and the recipe '%s', with all that was decided and all that they use.\n\n",
      spec->run.model, spec->run.recipe);
  buffer_text(&text, recipe_text(arena, unit, spec));
  for (int library = 0; library <= 1; library++) {
    for (int i = 0; i < unit->all.count; i++) {
      const Declaration *declaration = &unit->all.at[i];
      if (declaration->library == (library == 1) && chosen(unit, declaration, spec, &reach)) {
        buffer_format(&text, "\n%s", format_ast(arena, declaration->ast));
      }
    }
  }
  const char *kept = text.failed ? "" : arena_copy(arena, text.text, text.length + 1);
  buffer_free(&text);
  return kept;
}
