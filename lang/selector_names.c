// selector_names.c: selectors with names that the text of a model does not have, and those that were probably meant.
#include <ctype.h>
#include <string.h>

#include "lang/elaborate.h"
#include "lang/selector_names.h"

// Selectors that are classes of what is made and not names in the text.
static const char *const classes[] = {"norm", "bias"};
enum { CLASS_COUNT = sizeof classes / sizeof *classes, MOST_PARTS = 64, MOST_CANDIDATES = 1024 };

static bool is_class(const char *part) {
  for (int i = 0; i < CLASS_COUNT; i++) {
    if (strcmp(classes[i], part) == 0) {
      return true;
    }
  }
  return false;
}

// Operations such as `dot` are called in the text too, but nothing is made inside of them.
static bool is_function(const Reach *reach, Name name) {
  return reach_has(&reach->functions, name) && unit_find(reach->unit, SPACE_CODE, name);
}

static bool known_part(const Reach *reach, const char *part) {
  Name name = name_of(reach->unit->names, part);
  return strcmp(part, "*") == 0 || isdigit((unsigned char)part[0]) || is_class(part) ||
         reach_has(&reach->parts, name) || is_function(reach, name) || reach_has(&reach->repeats, name);
}

// The parts of a dotted path, at most `most`.
static int split(const Reach *reach, Name selector, const char **parts, int most) {
  int count = 0;
  const char *at = selector;
  while (count < most) {
    const char *dot = strchr(at, '.');
    parts[count++] = name_of_bytes(reach->unit->names, at, dot ? (size_t)(dot - at) : strlen(at));
    if (!dot) {
      break;
    }
    at = dot + 1;
  }
  return count;
}

bool selector_names_known(const Reach *reach, Name selector) {
  if (selector_is_label(selector)) {
    return reach_has(&reach->labels, name_of(reach->unit->names, selector + 1));
  }
  const char *parts[MOST_PARTS];
  int count = split(reach, selector, parts, MOST_PARTS);
  for (int i = 0; i < count; i++) {
    if (!known_part(reach, parts[i])) {
      return false;
    }
  }
  return true;
}

static const char *closest_part(const Reach *reach, const char *part) {
  const NameArray *lists[] = {&reach->repeats, &reach->functions, &reach->parts};
  const char *candidates[MOST_CANDIDATES];
  int count = 0;
  for (; count < CLASS_COUNT; count++) {
    candidates[count] = classes[count];
  }
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < lists[i]->count && count < MOST_CANDIDATES; j++) {
      if (known_part(reach, lists[i]->at[j])) {
        candidates[count++] = lists[i]->at[j];
      }
    }
  }
  return text_closest(part, candidates, count);
}

static const char *closest_selector(const Reach *reach, Name selector) {
  Arena *arena = reach->unit->arena;
  if (selector_is_label(selector)) {
    const char *label = text_closest(selector + 1, reach->labels.at, reach->labels.count);
    return label ? arena_format(arena, "@%s", label) : NULL;
  }
  const char *parts[MOST_PARTS], *text = "";
  int count = split(reach, selector, parts, MOST_PARTS);
  bool changed = false;
  for (int i = 0; i < count; i++) {
    const char *part = parts[i];
    if (!changed && !known_part(reach, part)) {
      part = closest_part(reach, part);
      changed = true;
    }
    if (!part) {
      return NULL;
    }
    text = arena_format(arena, "%s%s%s", text, i ? "." : "", part);
  }
  return changed ? text : NULL;
}

bool selector_check_names(const Reach *reach, Selector selector, const char *what) {
  if (selector_names_known(reach, selector.name)) {
    return true;
  }
  Diag *diag = reach->unit->diag;
  Diagnostic *error =
      diag_error(diag, E015, selector.span, "the model has nothing called '%s' %s", selector.name, what);
  const char *closest = closest_selector(reach, selector.name);
  if (builtin_find(selector.name)) {
    diag_help(diag, error, "'%s' is an operation: name what it is assigned to, or the function around it",
              selector.name);
  } else if (closest) {
    diag_help(diag, error, "did you mean `%s`?", closest);
  } else {
    diag_help(diag, error, "name a function, a repeated axis, a label, or a part of a path");
  }
  return false;
}
