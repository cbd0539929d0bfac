// resolved.c: one runnable text of everything that was decided; which recipes there are.
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/utf8.h"
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

typedef struct {
  Arena *arena;
  const Unit *unit;
  Name kept;  // the first name that stays as it is, because no text can hold its path from the root on; NULL: none
} Placing;

enum { WILD_NAMES_MOST = 2 };  // of a path, in data (runtime/data/files.c)

// Is there a file that the pattern fits?
static bool fits_some(const char *pattern) {
  glob_t found;
  const bool some = glob(pattern, GLOB_NOSORT, NULL, &found) == 0 && found.gl_pathc > 0;
  globfree(&found);
  return some;
}

// The names of a path that have wildcards, and where the first of them begins.
static int wild_names(const char *pattern, size_t *first) {
  int count = 0;
  size_t begin = 0;
  bool here = false;
  for (size_t at = 0; pattern[at]; at++) {
    const bool wild = strchr("*?[", pattern[at]) != NULL;
    *first = wild && count == 0 ? begin : *first;
    count += wild && !here;
    here = pattern[at] != '/' && (here || wild);
    begin = pattern[at] == '/' ? at + 1 : begin;
  }
  return count;
}

// A path in which no character has a meaning in patterns.
static void quoted_put(const char *path, Buffer *out) {
  for (; *path; path++) {
    buffer_format(out, strchr("*?[\\", *path) ? "\\%c" : "%c", *path);
  }
}

// A pattern, in a directory from the root on; NULL: it is none, or nothing fits it.
static const char *absolute_pattern(Arena *arena, const Unit *unit, const char *pattern) {
  char root[PATH_MAX];
  size_t first = 0;
  const int wild = wild_names(pattern, &first);
  if (wild == 0 || wild > WILD_NAMES_MOST || *pattern == '/' || memchr(pattern, '\\', first)) {
    return NULL;
  }
  const char *from = arena_format(arena, "%.*s", (int)(first > 0 ? first : 1), first > 0 ? pattern : ".");
  Buffer made = {0};
  if (!fits_some(pattern)) {  // in the working directory; so beside the text
    from = path_join(arena, unit->base, from);
    quoted_put(unit->base && *unit->base ? unit->base : ".", &made);
    buffer_format(&made, "/%s", pattern);
    const bool fits = !made.failed && fits_some(made.text);
    buffer_free(&made);
    if (!fits) {
      return NULL;
    }
  }
  if (!realpath(from, root)) {
    return NULL;
  }
  quoted_put(strcmp(root, "/") == 0 ? "" : root, &made);
  buffer_format(&made, "/%s", pattern + first);
  const char *kept = made.failed ? NULL : arena_copy(arena, made.text, made.length + 1);
  buffer_free(&made);
  return kept;
}

// Can a string of the language hold it? Where it is a part of a table, neither tabs nor ends of lines are either.
static bool is_spelled(const char *path, bool table) {
  const size_t length = strlen(path);
  bool plain = utf8_valid((const uint8_t *)path, length) == length;
  for (; *path; path++) {
    const bool blank = *path == '\t' || *path == '\n';
    plain &= blank ? !table : (unsigned char)*path >= ' ' && *path != 0x7f;
  }
  return plain;
}

// Where data is, from the working directory or else from the text, as the run will look for it.
static const char *absolute(Placing *placing, const char *path, bool table) {
  char found[PATH_MAX];
  const Unit *unit = placing->unit;
  const bool file = realpath(path, found) || realpath(path_join(placing->arena, unit->base, path), found);
  const char *placed = file ? name_of(unit->names, found) : absolute_pattern(placing->arena, unit, path);
  if (placed && !is_spelled(placed, table)) {
    placing->kept = placing->kept ? placing->kept : path;
    return path;
  }
  return placed ? placed : path;
}

// `data`: this is a part of a source; `table`: of one of several, or of one to validate with.
static Ast *with_absolute_data(Placing *placing, const Ast *ast, bool data, bool table) {
  if (!ast) {
    return NULL;
  }
  Ast *copy = arena_copy(placing->arena, ast, sizeof *ast);
  copy->kids = ARENA_ARRAY(placing->arena, Ast *, ast->count + 1);
  static const char *const texts[] = {"separator", "template", "begin"};
  // Of `validation a = ..., b = ...;` the first phrase alone has the word.
  const Ast *phrases = ast->kind == AST_SETTING ? ast->kids[0] : NULL;
  const Ast *phrase = phrases && phrases->count > 0 && phrases->kids[0]->kind == AST_PHRASE ? phrases->kids[0] : NULL;
  const bool validation = phrase && name_is(phrase_word(phrase), "validation");
  data = data || validation || (phrase && name_is(phrase_word(phrase), "data"));
  data = data && !(ast->kind == AST_ARGUMENT && name_in(ast->name, WORDS(texts)));
  table = table || validation || (data && ast->kind == AST_CALL && name_is(ast->name, "mix"));
  if (data && ast->kind == AST_STRING) {
    copy->name = absolute(placing, ast->name, table);
  }
  for (int i = 0; i < ast->count; i++) {
    copy->kids[i] = with_absolute_data(placing, ast->kids[i], data, table);
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
  Placing placing = {.arena = arena, .unit = unit};
  Ast *recipe = with_absolute_data(&placing, spec->text->recipe, false, false);
  recipe->name = name_of(unit->names, spec->run.recipe);
  recipe->flags &= ~AST_ONE_LINE;
  say(arena, unit, recipe, "layout", spec->run.layout);
  say(arena, unit, recipe, "precision", spec->run.precision);
  const char *text = format_ast(arena, recipe);
  return !placing.kept ? text
                       : arena_format(arena,
                                      "// The directory of %s has a name that no text can hold: names in it are found "
                                      "there alone.\n%s",
                                      is_spelled(placing.kept, true) ? placing.kept : "the data", text);
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
