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

static bool set_argument(Unit *unit, Ast *call, const char *path, Ast *value, Span span) {
  const char *dot = strchr(path, '.');
  Name part = name_of_bytes(unit->names, path, dot ? (size_t)(dot - path) : strlen(path));
  Ast *list = call->kids[0];
  for (int i = 0; i < list->count; i++) {
    Ast *argument = list->kids[i];
    if (argument->name != part) {
      continue;
    }
    if (!dot) {
      argument->kids[0] = value;
      return true;
    }
    return argument->kids[0]->kind == AST_CALL && set_argument(unit, argument->kids[0], dot + 1, value, span);
  }
  if (dot) {
    return false;
  }
  Ast *argument = ARENA_NEW(unit->arena, Ast);
  *argument = (Ast){.kind = AST_ARGUMENT, .span = span, .name_span = span, .name = part};
  settings_append(unit->arena, argument, value);
  settings_append(unit->arena, list, argument);
  return true;
}

// What stands in the text, as it is written.
static const char *written(const Unit *unit, const Ast *ast) {
  const Source *source = ast && ast->span.file >= 0 ? &unit->diag->sources.at[ast->span.file] : NULL;
  return source
             ? arena_format(unit->arena, "%.*s", (int)(ast->span.end - ast->span.begin), source->text + ast->span.begin)
             : NULL;
}

static const Ast *argument_of(const Ast *call, const char *path) {
  const size_t length = strcspn(path, ".");
  const Ast *list = call && call->kind == AST_CALL ? call->kids[0] : NULL;
  for (int i = 0; list && i < list->count; i++) {
    const Ast *argument = list->kids[i];
    if (argument->name && strlen(argument->name) == length && strncmp(argument->name, path, length) == 0) {
      return path[length] ? argument_of(argument->kids[0], path + length + 1) : argument->kids[0];
    }
  }
  return NULL;
}

static bool said_alike(const Unit *unit, const Ast *a, const Ast *b) {
  return a == b || (a && b && strcmp(written(unit, a), written(unit, b)) == 0);
}

// norm.decay, of `optimizer norm, bias: adamw(decay = 0);`: decay; else NULL.
static const char *behind_selector(const Unit *unit, const Ast *setting, const char *path) {
  const Ast *phrases = setting->kids[0];
  for (int i = 0; setting->kids[1] && i < phrases->count; i++) {
    const char *selector = written(unit, phrases->kids[i]);
    selector += selector && i == 0 ? strcspn(selector, " ") : 0;
    selector += selector ? strspn(selector, " ") : 0;
    const size_t length = selector ? strlen(selector) : 0;
    if (length > 0 && strncmp(path, selector, length) == 0 && path[length] == '.') {
      return path + length + 1;
    }
  }
  return NULL;
}

// optimizer.lr.peak = 1e-3: the argument of the call in the setting that begins with the word; in those with selectors
// too where they have said the same, or where they alone say something. optimizer.norm.decay: of this selector alone.
static bool set_dotted(Unit *unit, Ast *recipe, const char *path, Ast *value, Span span) {
  const size_t length = (size_t)(strchr(path, '.') - path);
  const char *argument = path + length + 1;
  Ast **of = ARENA_ARRAY(unit->arena, Ast *, recipe->count + 1);
  const Ast *plain = NULL, *before = NULL;
  bool any = false, selected = false, alone = false;
  for (int i = 0; i < recipe->count; i++) {
    Ast *setting = recipe->kids[i];
    const Name word = phrase_word(setting->kids[0]->kids[0]);
    const bool found = word && strlen(word) == length && strncmp(word, path, length) == 0;
    of[i] = found ? settings_call(setting->kids[1] ? setting->kids[1]->kids[0] : setting->kids[0]->kids[0]) : NULL;
    plain = of[i] && !setting->kids[1] ? of[i] : plain;
    selected |= of[i] && behind_selector(unit, setting, argument);
  }
  before = argument_of(plain, argument);
  for (int i = 0; i < recipe->count; i++) {
    alone |= of[i] && of[i] != plain && !before && argument_of(of[i], argument);
  }
  for (int i = 0; i < recipe->count; i++) {
    const char *rest = of[i] && selected ? behind_selector(unit, recipe->kids[i], argument) : argument;
    if (!of[i] || !rest) {
      continue;
    }
    const Ast *now = argument_of(of[i], argument);
    const bool same = now || before ? said_alike(unit, now, before) : !plain || of[i]->name == plain->name;
    const bool meant = selected || !plain || (alone ? now != NULL : of[i] == plain || same);
    any = (meant && set_argument(unit, of[i], rest, value, span)) || any;
  }
  if (!any) {
    Diagnostic *error = diag_error(unit->diag, E010, span, "the recipe has nothing called '%s'", path);
    diag_help(unit->diag, error, "dotted names follow the recipe, e.g. `optimizer.lr.peak=1e-3`");
  }
  return any;
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
  Ast *parsed = settings_parse(unit, "--set", arena_format(unit->arena, "%s;", assignment));
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
    return set_dotted(unit, recipe, path, value, span);
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
  return set_argument(unit, settings_model(unit, recipe), path, value, span);
}

void settings_add(Unit *unit, Ast *recipe, const char *origin, const char *text) {
  Ast *parsed = settings_parse(unit, origin, text);
  for (int i = 0; parsed && i < parsed->count; i++) {
    settings_append(unit->arena, recipe, parsed->kids[i]);
  }
}
