// settings_text.c: settings from the command line and defaults: text that is in no file; --set.
#include <string.h>

#include "base/spelled.h"
#include "lang/foreign.h"
#include "lang/settings_rules.h"

void settings_append(Arena *arena, Ast *ast, Ast *kid) {
  Ast **kids = ARENA_ARRAY(arena, Ast *, ast->count + 2);
  if (ast->count) {
    memcpy(kids, ast->kids, sizeof *kids * (size_t)ast->count);
  }
  kids[ast->count++] = kid;
  ast->kids = kids;
}

static void shift(Span *span, int file, uint32_t by, uint32_t most) {
  if (span->file == file) {
    span->begin = span->begin < by ? 0 : span->begin - by < most ? span->begin - by : most;
    span->end = span->end < by ? 0 : span->end - by < most ? span->end - by : most;
  }
}

static void shift_tree(Ast *ast, int file, uint32_t by, uint32_t most) {
  if (ast) {
    shift(&ast->span, file, by, most);
    shift(&ast->name_span, file, by, most);
    for (int i = 0; i < ast->count; i++) {
      shift_tree(ast->kids[i], file, by, most);
    }
  }
}

// The settings of a text that is not in any file, such as `batch = 8;` from the command line. They are read inside of
// a recipe, and shown without it.
Ast *settings_parse(Unit *unit, const char *origin, const char *settings) {
  static const char before[] = "recipe _ { ";
  const uint32_t by = sizeof before - 1, most = (uint32_t)strlen(settings);
  const char *text = arena_format(unit->arena, "%s%s }", before, settings);
  Diag *diag = unit->diag;
  int errors = diag->reports, reported = diag->all.count;
  int file = diag_add_source(diag, origin, text, strlen(text));
  Ast *tree = parse_file(unit->arena, unit->names, diag, file, NULL);
  shift_tree(tree, file, by, most);
  for (int i = reported; i < diag->all.count; i++) {
    shift(&diag->all.at[i].span, file, by, most);
    shift(&diag->all.at[i].related, file, by, most);
  }
  diag->sources.at[file].text = arena_format(unit->arena, "%s", settings);
  diag->sources.at[file].length = most;
  return diag->reports == errors && tree && tree->count == 1 ? tree->kids[0] : NULL;
}

// What is no value here, as the path in `data=a.txt`, and is said in another way: that, in place of what is wrong with
// it.
static bool set_otherwise(Unit *unit, const char *assignment, DiagMark mark) {
  const size_t length = strcspn(assignment, "= ");
  const char *name = arena_format(unit->arena, "%.*s", (int)length, assignment), *help = foreign_set(name);
  if (!help) {
    return false;
  }
  diag_rewind(unit->diag, mark);
  Diagnostic *error = diag_error(unit->diag, E010, SPAN_NONE, "--set cannot set '%s'", assignment);
  diag_help(unit->diag, error, "%s", help);
  return true;
}

bool settings_comma_help(Unit *unit, Diagnostic *error, const Ast *phrase) {
  const Source *source = phrase->span.file >= 0 ? &unit->diag->sources.at[phrase->span.file] : NULL;
  uint32_t begin = phrase->span.begin, end = phrase->span.end;
  char other[SPELLED_MAX];
  while (source && begin > 0 && strchr("0123456789_,.", source->text[begin - 1])) {
    begin--;
  }
  while (source && end < source->length && source->text[end] && strchr("0123456789_,.", source->text[end])) {
    end++;
  }
  const char *number =
      source && begin < phrase->span.begin ? spelled_number(source->text + begin, end - begin, false, other) : NULL;
  if (number) {
    diag_help(unit->diag, error, "numbers have no commas: %s", number);
  }
  return number != NULL;
}

bool settings_set(Unit *unit, Spec *spec, const char *assignment) {
  Ast *recipe = spec->text->recipe;
  if (!strchr(assignment, '=')) {
    Diagnostic *error = diag_error(unit->diag, E051, SPAN_NONE, "--set needs name=value, found '%s'", assignment);
    diag_help(unit->diag, error, "e.g. --set batch=8");
    return false;
  }
  const DiagMark mark = diag_mark(unit->diag);
  Ast *parsed = settings_parse(unit, SETTINGS_SET, arena_format(unit->arena, "%s;", assignment));
  if (!parsed && set_otherwise(unit, assignment, mark)) {
    return false;
  }
  const Ast *setting = parsed && parsed->count == 1 ? parsed->kids[0] : NULL;
  if (setting && setting->kids[0]->kids[0]->kids[1] && name_is(phrase_word(setting->kids[0]->kids[0]), "skip")) {
    set_skip(unit, recipe, parsed->kids[0]);
    return true;
  }
  Ast *phrase = setting && setting->kids[0]->count == 1 ? setting->kids[0]->kids[0] : NULL;
  if (!phrase || !phrase->kids[1] || phrase->kids[0]->count != 1 || !phrase_word(phrase)) {
    if (parsed) {
      const char *value = strchr(assignment, '=') + 1, *number;
      char other[SPELLED_MAX];
      Diagnostic *error =
          diag_error(unit->diag, E051, SPAN_NONE, "--set needs one name and one value, found '%s'", assignment);
      number = spelled_number(value, strlen(value), false, other);
      if (number) {
        diag_help(unit->diag, error, "%s", number);
      }
    }
    return false;
  }
  Name path = phrase_word(phrase);
  Ast *value = phrase->kids[1];
  Span span = phrase->kids[0]->span;
  if (value->kind == AST_RANGE) {
    diag_error(unit->diag, E051, value->span, "only `skip` takes a range");
    return false;
  }
  if (layout_sets(path)) {
    array_push(unit->arena, &spec->text->layout_sets, setting);
    return true;
  }
  if (strchr(path, '.')) {
    return settings_set_dotted(unit, recipe, path, value, span);
  }
  Ast *old = settings_phrase(recipe, path);
  if (old && old->kids[1]) {
    old->kids[1] = value;
    return true;
  }
  if (settings_entry(path)) {
    settings_append(unit->arena, recipe, parsed->kids[0]);
    return true;
  }
  return settings_set_argument(unit, settings_model(unit, recipe), path, value, span);
}

void settings_add(Unit *unit, Ast *recipe, const char *origin, const char *text) {
  Ast *parsed = settings_parse(unit, origin, text);
  for (int i = 0; parsed && i < parsed->count; i++) {
    settings_append(unit->arena, recipe, parsed->kids[i]);
  }
}
