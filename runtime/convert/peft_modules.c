// peft_modules.c: reads target_modules, exclude_modules, layers_to_transform and layers_pattern, and asks them of
// modules.
//
// A list of names selects a module that is called so, or whose name ends so behind a dot; a text is a regular
// expression for the whole name, but for "all-linear". The number of a layer is the first in the name behind a word, or
// behind a word that layers_pattern matches.
#include "runtime/convert/peft_modules.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/convert/peft.h"
#include "runtime/data/pattern.h"

typedef struct {
  Arena *arena;
  const Layer *layer;
  const char *module;
  Error *error;
} Asked;

static const json_t *setting(const Asked *a, const char *key) {
  const json_t *value = json_object_get(a->layer->files.config, key);
  return json_is_null(value) ? NULL : value;
}

static bool not_understood(const Asked *a, const char *key, const char *what) {
  return error_set(a->error, 1, "%s/" PEFT_CONFIG ": %s is not understood: %s is wanted", a->layer->path, key, what);
}

// Does the expression match at the beginning of the module's name? *end: of the match.
static bool matches(const Asked *a, const char *key, const char *expression, bool *found, size_t *end) {
  Pattern *pattern = NULL;
  Matcher *matcher = NULL;
  Error why = {0};
  size_t begin = 0;
  Match match = MATCH_FAILED;
  const bool read = pattern_create(expression, strlen(expression), &pattern, &why) && matcher_create(&matcher, &why);
  if (read) {
    match = pattern_next(pattern, matcher, a->module, strlen(a->module), 0, false, &begin, end);
    error_set(&why, 1, "it cannot be searched for in '%.150s'", a->module);
  }
  matcher_destroy(matcher);
  pattern_destroy(pattern);
  *found = match == MATCH_FOUND && begin == 0;
  return (read && match != MATCH_FAILED) ||
         error_set(a->error, why.status, "%s/" PEFT_CONFIG ": %s: %s", a->layer->path, key, why.text);
}

static bool ends_so(const char *module, const char *name) {
  const size_t all = strlen(module), length = strlen(name);
  return length <= all && strcmp(module + all - length, name) == 0 &&
         (length == all || module[all - length - 1] == '.');
}

static bool listed(const Asked *a, const char *key, const json_t *value, bool *found) {
  size_t i, end;
  const json_t *item;
  if (json_is_string(value)) {
    const char *text = json_string_value(value);
    return matches(a, key, arena_format(a->arena, "\\A(?:%s)\\z", text), found, &end);
  }
  *found = false;
  if (!json_is_array(value)) {
    return not_understood(a, key, "a list of names, or a regular expression");
  }
  json_array_foreach(value, i, item) {
    if (!json_is_string(item)) {
      return not_understood(a, key, "a list of names alone");
    }
    *found |= ends_so(a->module, json_string_value(item));
  }
  return true;
}

// The number of the module's layer; -1: it has none.
static bool layer_number(const Asked *a, json_int_t *number) {
  static const char key[] = "layers_pattern";
  const json_t *patterns = setting(a, key);
  const size_t count = json_is_array(patterns) ? json_array_size(patterns) : 1;
  bool found = false;
  size_t end = 0;
  *number = -1;
  for (size_t i = 0; i < count && !found; i++) {
    const json_t *item = json_is_array(patterns) ? json_array_get(patterns, i) : patterns;
    const char *text = json_string_value(item);
    if (item && !text) {
      return not_understood(a, key, "a regular expression, or a list of them");
    }
    const char *expression =
        text && *text ? arena_format(a->arena, "\\A(?:|.*?\\.)%s\\.\\d+\\.", text) : "\\A.*?\\.[^.]*\\.\\d+\\.";
    if (!matches(a, key, expression, &found, &end)) {
      return false;
    }
  }
  if (found) {
    size_t at = end - 1;
    while (at > 0 && a->module[at - 1] >= '0' && a->module[at - 1] <= '9') {
      at--;
    }
    *number = (json_int_t)strtoll(a->module + at, NULL, 10);
  }
  return true;
}

static bool in_layers(const Asked *a, bool *found) {
  static const char key[] = "layers_to_transform";
  const json_t *layers = setting(a, key), *item;
  json_int_t number;
  size_t i;
  *found = !layers;
  if (!layers) {
    return !setting(a, "layers_pattern") ||
           not_understood(a, "layers_pattern", "it goes with layers_to_transform, which");
  }
  if (!json_is_integer(layers) && !json_is_array(layers)) {
    return not_understood(a, key, "a number, or a list of numbers");
  }
  if (!layer_number(a, &number)) {
    return false;
  }
  *found = json_is_integer(layers) && number >= 0 && json_integer_value(layers) == number;
  json_array_foreach(layers, i, item) {
    if (!json_is_integer(item)) {
      return not_understood(a, key, "a list of numbers alone");
    }
    *found |= number >= 0 && json_integer_value(item) == number;
  }
  return true;
}

// *out: the setting that leaves the module out, with its verb; NULL: it is selected.
static bool left_out(const Asked *a, const char **out) {
  const json_t *targets = setting(a, "target_modules"), *excluded = setting(a, "exclude_modules");
  const bool linear = json_is_string(targets) && strcmp(json_string_value(targets), "all-linear") == 0;
  bool selected = linear, excludes = false, layer = true;
  *out = NULL;
  if (!targets) {
    return not_understood(a, "target_modules", "a list of the modules that have adapters, or a regular expression,");
  }
  if ((excluded && !listed(a, "exclude_modules", excluded, &excludes)) ||
      (!linear && !listed(a, "target_modules", targets, &selected)) || !in_layers(a, &layer)) {
    return false;
  }
  *out = excludes ? "exclude_modules names" : !selected ? "target_modules leaves out" : NULL;
  *out = !*out && !layer ? "layers_to_transform leaves out" : *out;
  return true;
}

bool peft_modules_fit(Arena *arena, const Layer *layer, Error *error) {
  Asked asked = {.arena = arena, .layer = layer, .error = error};
  for (int i = 0; i < layer->pairs.count; i++) {
    const char *name = layer->pairs.at[i].name, *out;
    bool second;
    asked.module = peft_module(arena, &layer->mapping, name, &second);
    if (!layer_tensor(layer, name).tensor || !asked.module) {
      continue;
    }
    if (!left_out(&asked, &out)) {
      return false;
    }
    if (out) {
      return error_set(error, 1,
                       "%s/" PEFT_CONFIG
                       ": %s the module '%.150s', for which there is '%.150s': peft does not "
                       "read it",
                       layer->path, out, asked.module, name);
    }
  }
  return true;
}
