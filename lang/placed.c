// placed.c: the files that a recipe reads, by their places instead of the names that it gives them.
#include "lang/placed.h"

#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/utf8.h"
#include "lang/settings.h"
#include "lang/settings_rules.h"

typedef struct {
  Arena *arena;
  Names *names;
  const char *base;
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
static const char *absolute_pattern(Arena *arena, const char *base, const char *pattern) {
  char root[PATH_MAX];
  size_t first = 0;
  const int wild = wild_names(pattern, &first);
  if (wild == 0 || wild > WILD_NAMES_MOST || *pattern == '/' || memchr(pattern, '\\', first)) {
    return NULL;
  }
  const char *from = arena_format(arena, "%.*s", (int)(first > 0 ? first : 1), first > 0 ? pattern : ".");
  Buffer made = {0};
  if (!fits_some(pattern)) {  // in the working directory; so beside the text
    from = path_join(arena, base, from);
    quoted_put(base && *base ? base : ".", &made);
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
  const bool file = realpath(path, found) || realpath(path_join(placing->arena, placing->base, path), found);
  const char *placed = file ? name_of(placing->names, found) : absolute_pattern(placing->arena, placing->base, path);
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

// Has the recipe sources to validate with? All of its sources are lines of one table then.
static bool has_table(const Ast *recipe) {
  bool found = false;
  for (int i = 0; i < recipe->count; i++) {
    const Ast *phrases = recipe->kids[i] && recipe->kids[i]->kind == AST_SETTING ? recipe->kids[i]->kids[0] : NULL;
    for (int j = 0; phrases && j < phrases->count; j++) {
      const Ast *phrase = phrases->kids[j];
      found = found || (phrase->kind == AST_PHRASE && name_is(phrase_word(phrase), "validation"));
    }
  }
  return found;
}

const char *resolved_placed(Arena *arena, const char *text, const char *base) {
  Placing placing = {.arena = arena, .names = names_create(arena), .base = base};
  Diag *diag = diag_create(arena);
  const int file = diag_add_source(diag, "", text, strlen(text));
  const Ast *root = parse_file(arena, placing.names, diag, file, NULL), *recipe = NULL;
  for (int i = 0; i < root->count && !recipe; i++) {
    recipe = root->kids[i]->kind == AST_RECIPE ? root->kids[i] : NULL;
  }
  if (diag->errors > 0 || !recipe) {
    return text;
  }
  const char *placed = format_ast(arena, with_absolute_data(&placing, recipe, false, has_table(recipe)));
  const char *note = !placing.kept ? ""
                                   : arena_format(arena,
                                                  "// The directory of %s has a name that no text can hold: names in "
                                                  "it are found there alone.\n",
                                                  is_spelled(placing.kept, true) ? placing.kept : "the data");
  const bool noted = strstr(text, note) != NULL;  // where the text was placed before
  const char *rest = text + recipe->span.end;
  return arena_format(arena, "%.*s%s%s%s", (int)recipe->span.begin, text, noted ? "" : note, placed,
                      rest + (*rest == '\n'));
}
