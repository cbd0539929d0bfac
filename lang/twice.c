// twice.c: what a recipe or a layout gives twice is an error that shows both places.
#include "lang/twice.h"

#include <string.h>

#include "lang/settings_rules.h"

bool given_once(Once *once, Name name, Span span) {
  if (once->all.count == 0) {
    once->by_name = map_create(once->unit->arena);
  }
  const int64_t before = map_get_or(&once->by_name, map_key(name), -1);
  if (before >= 0) {
    Diagnostic *error = diag_error(once->unit->diag, once->code, span, "'%s' is given twice", name);
    diag_related(once->unit->diag, error, once->all.at[before].span, "the first");
    diag_help(once->unit->diag, error, "%s",
              name_is(name, "optimizer") ? "say of which parameters one of the two is: `optimizer norm: ...;`"
                                         : "remove one of the two");
    return false;
  }
  map_put(&once->by_name, map_key(name), once->all.count);
  array_push(once->unit->arena, &once->all, ((Given){name, span}));
  return true;
}

// Arguments with a name of all calls among the terms of a phrase.
static void check_arguments(Once *once, const Ast *phrase) {
  const Ast *call = settings_call(phrase);
  for (int i = 0; call && i < call->kids[0]->count; i++) {
    const Ast *argument = call->kids[0]->kids[i];
    if (argument->name) {
      given_once(once, argument->name, argument->span);
    }
  }
}

void recipe_check_once(Unit *unit, const Ast *recipe) {
  static const char *const words[] = {"model", "data", "validation", "precision", "layout", "optimizer"};
  Once settings = {.unit = unit, .code = E051}, sizes = settings;
  for (int i = 0; i < recipe->count; i++) {
    const Ast *setting = recipe->kids[i], *list = setting->kids[0];
    const Ast *first = list->kids[0];
    if (setting->kids[1] || setting->kids[2]) {
      continue;
    }
    if (!first->kids[1] && name_in(phrase_word(first), WORDS(words))) {
      given_once(&settings, phrase_word(first), setting->span);
    }
    if (name_is(phrase_word(first), "model")) {
      check_arguments(&sizes, first);
    } else if (name_is(phrase_word(first), "data") || name_is(phrase_word(first), "validation")) {
      Once arguments = {.unit = unit, .code = E051};
      check_arguments(&arguments, first);
    }
    for (int j = 0; j < list->count; j++) {
      if (list->kids[j]->kids[1] && phrase_word(list->kids[j])) {
        given_once(&sizes, phrase_word(list->kids[j]), list->kids[j]->span);
      }
    }
  }
}

// The name that `NAME=VALUE` sets, and how long it is.
static const char *set_name(const char *assignment, size_t *length) {
  const char *name = assignment + strspn(assignment, " ");
  *length = strcspn(name, " =");
  return name;
}

void sets_check_once(Unit *unit, const char *const *set, int count) {
  for (int i = 1; i < count; i++) {
    size_t length, other;
    const char *name = set_name(set[i], &length);
    for (int j = 0; j < i; j++) {
      if (strncmp(set_name(set[j], &other), name, length) == 0 && other == length &&
          strncmp(name, "skip", length) != 0) {
        Diagnostic *error = diag_error(unit->diag, E051, SPAN_NONE, "--set gives '%.*s' twice: '%s' and '%s'",
                                       (int)length, name, set[j], set[i]);
        diag_help(unit->diag, error, "keep one of the two");
      }
    }
  }
}

void layout_check_once(Unit *unit, const Ast *layout) {
  static const char *const words[] = {"microbatches", "schedule", "capacity", "overlap", "reproducible"};
  Once settings = {.unit = unit, .code = E042};
  for (int i = 0; i < layout->count; i++) {
    const Ast *setting = layout->kids[i], *list = setting->kids[0];
    for (int j = 0; !setting->kids[1] && !setting->kids[2] && j < list->count; j++) {
      if (name_in(phrase_word(list->kids[j]), WORDS(words))) {
        given_once(&settings, phrase_word(list->kids[j]), list->kids[j]->span);
      }
    }
  }
}
