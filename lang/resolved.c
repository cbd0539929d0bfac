// resolved.c: one runnable text of everything that was decided; which recipes there are.
#include <string.h>

#include "base/buffer.h"
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

// ---- The whole program as one text

// Of the library, and of the user's files functions and updates that stand beside the main one, is there what anything
// calls: of the rest it would be said that nothing calls it.
static bool by_call(const Declaration *declaration) {
  const AstKind kind = declaration->ast->kind;
  return declaration->library || (!declaration->main && (kind == AST_FUNCTION || kind == AST_UPDATE));
}

static bool chosen(const Unit *unit, const Declaration *declaration, const Spec *spec, const Reach *reach) {
  if (declaration->space == SPACE_PRECISION) {
    return settings_policy(spec, declaration->ast) >= 0;
  }
  if (declaration->space == SPACE_LAYOUT) {
    return declaration->ast == spec->text->layout;
  }
  if (declaration->space == SPACE_RECIPE ||
      unit_find(unit, declaration->space, declaration->ast->name) != declaration) {  // or hidden by another
    return false;
  }
  if (!by_call(declaration)) {
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
  reach_from(reach, spec->text->recipe);
  for (int i = 0; i < unit->all.count; i++) {
    const Declaration *declaration = &unit->all.at[i];
    if (!by_call(declaration) && declaration->space == SPACE_CODE) {
      reach_from(reach, declaration->ast);
    }
  }
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
  Ast *recipe = arena_copy(arena, spec->text->recipe, sizeof *recipe);
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
