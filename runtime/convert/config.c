// config.c: reads, compares and writes config.json.
#include "runtime/convert/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_guard.h"
#include "runtime/convert/peft.h"

typedef struct {
  Arena *arena;
  const json_t *config;
  const ModelNumbers *numbers;
  const Mapping *mapping;
} Scope;

static bool find_key(void *context, const char *name, Value *value, Error *error) {
  const Scope *names = context;
  (void)error;
  *value = hf_value(names->arena, names->config, name);
  return true;
}

static bool find_number(void *context, const char *name, Value *value, Error *error) {
  const Scope *names = context;
  const ModelNumber *number = model_number(names->numbers, name);
  if (!number) {
    return error_set(error, 1, "%s: the model %s has no axis and no constant '%.80s'", names->mapping->path,
                     names->numbers->model, name);
  }
  *value = (Value){.kind = number->truth ? VALUE_TRUTH : VALUE_NUMBER, .number = number->value};
  return true;
}

static bool evaluate_number(Scope *names, const char *formula, Value *value, Error *error) {
  return formula_evaluate(formula, &(FormulaNames){names, find_number, names->arena}, value, error);
}

bool config_number(Arena *arena, const Mapping *mapping, const char *formula, const ModelNumbers *numbers, Value *value,
                   Error *error) {
  Scope names = {.arena = arena, .numbers = numbers, .mapping = mapping};
  return evaluate_number(&names, formula, value, error);
}

const char *config_type(const json_t *config) {
  const char *type = json_string_value(json_object_get(config, "model_type"));
  return type ? type : "";
}

// --- what is known ---

typedef struct {
  Arena *arena;
  ARRAY(const char *) keys;
} Known;

static void known_add(void *context, const char *name) {
  Known *known = context;
  array_push(known->arena, &known->keys, name);
}

// What every config.json says, those written here among them, and what is no matter of the model.
static const char *const always[] = {"model_type",   "architectures",        "dtype",
                                     "torch_dtype",  "transformers_version", "_name_or_path",
                                     "bos_token_id", "eos_token_id",         "pad_token_id"};

static Known known_of(Arena *arena, const Mapping *mapping) {
  Known known = {.arena = arena};
  for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
    known_add(&known, always[i]);
  }
  for (int i = 0; i < mapping->lines.count; i++) {
    const MappingLine *line = &mapping->lines.at[i];
    if (line->kind == MAPPING_READ) {
      formula_names(arena, line->formula, known_add, &known);
    } else if (line->name) {
      known_add(&known, line->name);
    }
  }
  for (int i = 0; i < mapping->ignored.count; i++) {
    known_add(&known, mapping->ignored.at[i]);
  }
  return known;
}

// 2: the key itself; 1: what is inside it.
static int knows(const Known *known, const char *key) {
  const size_t length = strlen(key);
  int found = 0;
  for (int i = 0; i < known->keys.count; i++) {
    const char *name = known->keys.at[i];
    if (strncmp(name, key, length) == 0 && (name[length] == '\0' || name[length] == '.')) {
      found = name[length] == '\0' ? 2 : found ? found : 1;
    }
  }
  return found;
}

static void unknown_list(const Known *known, const char *prefix, const json_t *object, Unfit *unfit) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    const char *name = arena_format(known->arena, "%s%s", prefix, key);
    const int found = knows(known, name);
    const bool dotted = strchr(key, '.') != NULL;  // only looks like a key inside of an object
    if (json_is_null(value) || (found == 2 && !dotted)) {
      continue;
    }
    if (found == 1 && !dotted && json_is_object(value)) {
      unknown_list(known, arena_format(known->arena, "%s.", name), value, unfit);
      continue;
    }
    const Value said = hf_value(known->arena, object, key);
    if (dotted) {
      unfit_add(unfit, "'%s', a key with a dot in it", name);
    } else {
      unfit_add(unfit, "%s = %.100s", name, value_text(known->arena, &said));
    }
  }
}

// --- reading ---

typedef struct {  // the first key of a formula that is a text
  Arena *arena;
  const json_t *config;
  const char *key, *text;
} Quoted;

static void quoted_find(void *context, const char *name) {
  Quoted *quoted = context;
  const Value value = hf_value(quoted->arena, quoted->config, name);
  if (value.kind == VALUE_TEXT && !quoted->key) {
    quoted->key = name;
    quoted->text = value.text;
  }
}

bool config_settings(Arena *arena, const Mapping *mapping, const HfFiles *files, ConfigSettings *settings,
                     Error *error) {
  Scope names = {.arena = arena, .config = files->config, .mapping = mapping};
  *settings = (ConfigSettings){0};
  for (int i = 0; i < mapping->lines.count; i++) {
    const MappingLine *line = &mapping->lines.at[i];
    Value value;
    if (line->kind == MAPPING_NEED && !json_object_get(files->config, line->name)) {
      return error_set(error, 1, "%s/%s does not say %s, and %s does not know what that means", files->path,
                       files->name, line->name, mapping->path);
    }
    if (line->kind != MAPPING_READ) {
      continue;
    }
    if (!formula_evaluate(line->formula, &(FormulaNames){&names, find_key, arena}, &value, error)) {
      return false;
    }
    if (value.kind != VALUE_NUMBER && value.kind != VALUE_TRUTH) {
      Quoted quoted = {.arena = arena, .config = files->config};
      formula_names(arena, line->formula, quoted_find, &quoted);
      if (quoted.key) {
        return error_set(error, 1, "%s/%s says `%s` as the text \"%.40s\"; %s needs a number for %s of the model",
                         files->path, files->name, quoted.key, quoted.text, mapping->path, line->name);
      }
    }
    if ((value.kind != VALUE_NUMBER && value.kind != VALUE_TRUTH) || isnan(value.number)) {
      return error_set(error, 1, "%s/%s does not say `%s`, which %s reads as %s of the model", files->path, files->name,
                       line->formula, mapping->path, line->name);
    }
    const char *text = !isinf(value.number) ? value_text(arena, &value) : value.number > 0 ? "inf" : "-inf";
    array_push(arena, settings, ((ConfigSetting){line->name, text, value.number}));
  }
  const Known known = known_of(arena, mapping);
  Unfit unfit = {.arena = arena};
  const char *help = strcmp(files->name, PEFT_CONFIG) == 0
                         ? "remove the key there, if it changes nothing"
                         : "add `ignore KEY` to a copy of it, and give that as --mapping, if it changes nothing";
  unknown_list(&known, "", files->config, &unfit);
  return unfit_report(&unfit,
                      arena_format(arena, "%s/%s says what %s does not know, so the model may be another (%s)",
                                   files->path, files->name, mapping->path, help),
                      error);
}

// Is it another value that says the same, as a line `also` has it?
static bool also_fits(Scope *names, const char *key, const Value *said, bool *fits, Error *error) {
  for (int i = 0; i < names->mapping->lines.count && !*fits; i++) {
    const MappingLine *line = &names->mapping->lines.at[i];
    Value other;
    if (line->kind != MAPPING_ALSO || strcmp(line->name, key) != 0) {
      continue;
    }
    if (!evaluate_number(names, line->formula, &other, error)) {
      return false;
    }
    *fits = value_equal(said, &other);
  }
  return true;
}

static bool line_fits(Scope *names, const MappingLine *line, Unfit *unfit, Error *error) {
  Value wanted;
  const Value said = hf_value(names->arena, names->config, line->name);
  if (!evaluate_number(names, line->formula, &wanted, error)) {
    return false;
  }
  bool fits = said.kind == VALUE_NONE || value_equal(&said, &wanted);
  if (!fits && !also_fits(names, line->name, &said, &fits, error)) {
    return false;
  }
  if (!fits) {
    unfit_add(unfit, "%s is %.160s there, %.60s in the model", line->name, value_text(names->arena, &said),
              value_text(names->arena, &wanted));
  }
  return true;
}

bool config_fits(Arena *arena, const Mapping *mapping, const ModelNumbers *numbers, const HfFiles *files,
                 Error *error) {
  Scope names = {.arena = arena, .config = files->config, .mapping = mapping, .numbers = numbers};
  Unfit unfit = {.arena = arena};
  const Value class = hf_value(arena, files->config, "architectures");
  if (class.kind != VALUE_NONE && (class.kind != VALUE_TEXT || strcmp(class.text, mapping->architecture) != 0)) {
    unfit_add(&unfit, "architectures is %.100s there, %s is what %s is for", value_text(arena, &class),
              mapping->architecture, mapping->path);
  }
  for (int i = 0; i < mapping->lines.count; i++) {
    const MappingLine *line = &mapping->lines.at[i];
    const bool compared = line->kind == MAPPING_WRITE || line->kind == MAPPING_MUST;
    if (compared && !line_fits(&names, line, &unfit, error)) {
      return false;
    }
  }
  const char *why = NULL;
  if (!config_serves(arena, mapping, numbers, &why, error)) {
    return false;
  }
  if (why) {
    unfit_add(&unfit, "%s wants `%s` of the model", mapping->path, why);
  }
  const char *what =
      arena_format(arena, "the model %s does not compute what %s/%s says", numbers->model, files->path, files->name);
  return unfit_report(&unfit, what, error);
}

// --- writing ---

bool config_holds(Arena *arena, const char *condition, const ModelNumbers *numbers, bool *holds, Error *error) {
  const Mapping none = {.path = "a condition"};
  Scope names = {.arena = arena, .numbers = numbers, .mapping = &none};
  Value value;
  *holds = true;
  if (condition && !evaluate_number(&names, condition, &value, error)) {
    return false;
  }
  *holds = !condition || value_true(&value);
  return true;
}

bool config_serves(Arena *arena, const Mapping *mapping, const ModelNumbers *numbers, const char **why, Error *error) {
  *why = NULL;
  for (int i = 0; i < mapping->lines.count && !*why; i++) {
    const MappingLine *line = &mapping->lines.at[i];
    bool holds = true;
    if (line->kind == MAPPING_ONLY && !config_holds(arena, line->formula, numbers, &holds, error)) {
      return false;
    }
    *why = holds ? NULL : line->formula;
  }
  return true;
}

static json_t *value_json(const Value *value) {
  switch (value->kind) {
    case VALUE_TRUTH:
      return json_boolean(value->number != 0);
    case VALUE_TEXT:
      return json_string(value->text);
    case VALUE_NUMBER:
      return floor(value->number) == value->number && fabs(value->number) < 1e15
                 ? json_integer((json_int_t)value->number)
                 : json_real(value->number);
    default:
      return json_null();
  }
}

// Puts a value at a path of names with dots, in objects that are made where they lack. False: no memory, also where
// that is why there is no value.
static bool put(Arena *arena, json_t *object, const char *key, json_t *value) {
  const char *dot = strchr(key, '.');
  if (!dot) {
    return json_object_set_new(object, key, value) == 0;
  }
  const char *first = arena_format(arena, "%.*s", (int)(dot - key), key);
  if (!json_is_object(json_object_get(object, first)) && json_object_set_new(object, first, json_object()) != 0) {
    json_decref(value);
    return false;
  }
  return put(arena, json_object_get(object, first), dot + 1, value);
}

typedef struct {
  const json_t *from;
  json_t *made;
} Copying;

static void copy_work(void *context) {
  Copying *copying = context;
  copying->made = copying->from ? json_deep_copy(copying->from) : json_object();
}

// Of the lines that are written, and of those that are where config.json has nothing.
static bool put_lines(Scope *names, json_t *made, Error *error) {
  const Mapping *mapping = names->mapping;
  for (int i = 0; i < mapping->lines.count; i++) {
    const MappingLine *line = &mapping->lines.at[i];
    Value value;
    const bool adds = line->kind == MAPPING_ADD && hf_value(names->arena, made, line->name).kind == VALUE_NONE;
    if (line->kind != MAPPING_WRITE && !adds) {
      continue;
    }
    if (!evaluate_number(names, line->formula, &value, error)) {
      return false;
    }
    const bool said = value.kind != VALUE_NONE || !strchr(line->name, '.');  // inside of objects null is left out
    if (said && !put(names->arena, made, line->name, value_json(&value))) {
      return error_set(error, 3, "no memory for config.json");
    }
  }
  return true;
}

bool config_make(Arena *arena, const Mapping *mapping, const ModelNumbers *numbers, const json_t *kept,
                 const char *dtype, json_t **config, Error *error) {
  Scope names = {.arena = arena, .numbers = numbers, .mapping = mapping};
  Copying copying = {.from = kept};
  if (!json_guarded(copy_work, &copying) || !copying.made) {
    return error_set(error, 3, "no memory for config.json");
  }
  json_t *made = copying.made;
  if (!put_lines(&names, made, error)) {
    json_decref(made);
    return false;
  }
  bool done = true;
  if (mapping->architecture) {
    done = put(arena, made, "model_type", json_string(mapping->type)) &&
           put(arena, made, "architectures", json_pack("[s]", mapping->architecture));
  }
  if (dtype) {
    json_object_del(made, "dtype");
    done = done && put(arena, made, "torch_dtype", json_string(dtype));
  }
  if (!done) {
    json_decref(made);
    return error_set(error, 3, "no memory for config.json");
  }
  *config = made;
  return true;
}
