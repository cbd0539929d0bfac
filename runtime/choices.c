// choices.c: reading and checking of NAME=VALUE,... words.
#include "runtime/choices.h"

#include <string.h>

#include "lang/settings.h"
#include "runtime/trial.h"

bool choice_is_setting(const Choice *choice) {
  return strcmp(choice->name, "layout") != 0 && strcmp(choice->name, "precision") != 0 &&
         strcmp(choice->name, "recipe") != 0;
}

static bool changes_layout(const Choice *choice) {
  return strncmp(choice->name, "mesh.", 5) == 0 || strcmp(choice->name, "microbatches") == 0;
}

bool choice_is_layout(const Choice *choice) {
  return strcmp(choice->name, "layout") == 0 || changes_layout(choice);
}

bool choices_sweep(const Choices *choices) {
  for (int i = 0; i < choices->count; i++) {
    if (changes_layout(&choices->at[i])) {
      return true;
    }
  }
  return false;
}

static Choice *choice_find(Choices *choices, const char *name) {
  for (int i = 0; i < choices->count; i++) {
    if (strcmp(choices->at[i].name, name) == 0) {
      return &choices->at[i];
    }
  }
  return NULL;
}

static bool value_add(Arena *arena, Choice *choice, const char *text, size_t length, bool again, Error *error) {
  const char *value = arena_format(arena, "%.*s", (int)length, text);
  if (length == 0) {
    return error_set(error, 2, "a value of %s is empty; it goes %s=a,b,c", choice->name, choice->name);
  }
  for (int i = 0; !again && i < choice->count; i++) {
    if (strcmp(choice->value[i], value) == 0) {
      return error_set(error, 2, "%s=%s is given twice", choice->name, value);
    }
  }
  const char **longer = ARENA_ARRAY(arena, const char *, choice->count + 1);
  if (choice->count > 0) {
    memcpy(longer, choice->value, sizeof *longer * (size_t)choice->count);
  }
  longer[choice->count++] = value;
  choice->value = longer;
  return true;
}

static bool values_add(Arena *arena, Choice *choice, const char *text, bool again, Error *error) {
  int depth = 0;
  const char *begin = text;
  for (const char *at = text;; at++) {
    depth += *at == '(' || *at == '[' ? 1 : *at == ')' || *at == ']' ? -1 : 0;
    if ((*at == ',' && depth <= 0) || *at == '\0') {
      if (!value_add(arena, choice, begin, (size_t)(at - begin), again, error)) {
        return false;
      }
      begin = at + 1;
    }
    if (*at == '\0') {
      return true;
    }
  }
}

bool choices_read(Arena *arena, const char *const *words, int count, bool again, Choices *choices, Error *error) {
  *choices = (Choices){0};
  for (int i = 0; i < count; i++) {
    const char *equals = strchr(words[i], '=');
    if (!equals || equals == words[i]) {
      return error_set(error, 2, "'%s' is not NAME=VALUE,...; for example layout=single,tp2", words[i]);
    }
    const char *name = arena_format(arena, "%.*s", (int)(equals - words[i]), words[i]);
    Choice *choice = choice_find(choices, name);
    if (choice && !again) {
      return error_set(error, 2, "%s is given twice; put its values together: %s=a,b,c", name, name);
    }
    if (!choice && choices->count == CHOICES_MAX) {
      return error_set(error, 2, "at most %d names can be given", CHOICES_MAX);
    }
    if (!choice) {
      choice = &choices->at[choices->count++];
      *choice = (Choice){.name = name};
    }
    if (!values_add(arena, choice, equals + 1, again, error)) {
      return false;
    }
  }
  return true;
}

static bool choose(const char **option, const Choice *choice, const char *value, Error *error) {
  if (*option) {
    return error_set(error, 2, "--%s %s and %s=%s do not go together; leave one away", choice->name, *option,
                     choice->name, value);
  }
  *option = value;
  return true;
}

bool choices_options(Arena *arena, const Choices *choices, const int *pick, const CompileOptions *base,
                     CompileOptions *options, Error *error) {
  const char **set = ARENA_ARRAY(arena, const char *, base->set_count + choices->count + 1);
  *options = *base;
  for (int i = 0; i < base->set_count; i++) {
    set[i] = base->set[i];
  }
  options->set = set;
  for (int i = 0; i < choices->count; i++) {
    const Choice *choice = &choices->at[i];
    const char *value = choice->value[pick[i]];
    bool good = true;
    if (strcmp(choice->name, "layout") == 0) {
      good = choose(&options->layout, choice, value, error);
    } else if (strcmp(choice->name, "precision") == 0) {
      good = choose(&options->precision, choice, value, error);
    } else if (strcmp(choice->name, "recipe") == 0) {
      good = choose(&options->recipe, choice, value, error);
    } else {
      size_t length = strlen(choice->name);
      for (int j = 0; j < base->set_count; j++) {
        if (strncmp(base->set[j], choice->name, length) == 0 && base->set[j][length] == '=') {
          return error_set(error, 2, "--set %s and %s=%s do not go together; leave one away", base->set[j],
                           choice->name, value);
        }
      }
      set[options->set_count++] = arena_format(arena, "%s=%s", choice->name, value);
    }
    if (!good) {
      return false;
    }
  }
  return true;
}

const char *choices_name(Arena *arena, const Choices *choices, const int *pick, bool varying) {
  const char *name = "";
  for (int i = 0; i < choices->count; i++) {
    if (!varying || choices->at[i].count > 1) {
      name =
          arena_format(arena, "%s%s%s=%s", name, *name ? " " : "", choices->at[i].name, choices->at[i].value[pick[i]]);
    }
  }
  return *name ? name : choices->count > 0 && varying ? choices_name(arena, choices, pick, false) : "as the text says";
}

// Is it said of what stands behind the `=` of a setting that is chosen? NULL: no; else the setting.
static const Choice *wrong_value(const Diag *diag, const Diagnostic *found, const Choices *choices) {
  const bool known = found->span.file >= 0 && found->span.file < diag->sources.count;
  const char *text = known ? diag->sources.at[found->span.file].text : "";
  for (int i = 0; i < choices->count; i++) {
    const size_t length = strlen(choices->at[i].name);
    if (strncmp(text, choices->at[i].name, length) == 0 && text[length] == '=' && found->span.begin > length) {
      return &choices->at[i];
    }
  }
  return NULL;
}

bool choices_misread(const Choices *choices, const Diag *diag) {
  for (int i = 0; i < diag->all.count; i++) {
    const Choice *of = wrong_value(diag, &diag->all.at[i], choices);
    if (diag->all.at[i].severity == SEVERITY_ERROR && of && !changes_layout(of)) {
      return true;
    }
  }
  return false;
}

// The first error in the words themselves, such as a name that is not there. Sizes that a layout cannot have are none,
// and without `values` what else is wrong with the value of a setting: where it is compiled, they are said of the one
// combination.
static const Diagnostic *wrong_word(const Diag *diag, const Choices *choices, bool values) {
  for (int i = 0; i < diag->all.count; i++) {
    const Diagnostic *found = &diag->all.at[i];
    bool known = found->span.file >= 0 && found->span.file < diag->sources.count;
    const char *path = known ? diag->sources.at[found->span.file].path : "";
    const bool size = found->code == E042 || found->code == E043 || found->code == E090;
    const bool word = strncmp(path, "--", 2) == 0 || (!known && found->code == E010);
    if (found->severity == SEVERITY_ERROR && word && !size && (values || !wrong_value(diag, found, choices))) {
      return found;
    }
  }
  return NULL;
}

static bool report_name(const Diagnostic *found, const Choice *choice, Error *error) {
  static const char *const words[] = {"layout", "precision", "recipe"};
  const char *meant = choice ? text_closest(choice->name, words, 3) : NULL;
  if (meant && choice_is_setting(choice)) {
    return error_set(error, 1, "there is nothing called '%s' to set; did you mean `%s`?", choice->name, meant);
  }
  return error_set(error, 1, "%s%s%s", found->message, found->help ? "; " : "", found->help ? found->help : "");
}

// What is wrong is said of the name, or with the value that it is of.
static bool report_word(const Diag *diag, const Diagnostic *found, const Choices *choices, const int *pick,
                        const Choice *choice, Error *error) {
  const Choice *of = wrong_value(diag, found, choices);
  Error what;
  if (!of) {
    return report_name(found, choice, error);
  }
  report_name(found, NULL, &what);
  return error_set(error, 1, "%s=%s: %s", of->name, of->value[pick[of - choices->at]], what.text);
}

static bool check_one(const Choices *choices, const int *pick, const Choice *choice, const CompileOptions *base,
                      bool values, Error *error) {
  Arena *arena = arena_create();
  if (!arena) {
    return error_set(error, 3, "no memory");
  }
  CompileOptions options;
  Spec spec = {0};
  Diag *diag = diag_create(arena);
  Unit unit = {.arena = arena, .names = names_create(arena), .diag = diag};
  bool good = choices_options(arena, choices, pick, base, &options, error);
  if (good && !unit_load(&unit, options.file)) {
    char text[ERROR_MAX];
    trial_problem(diag, text);
    good = error_set(error, 1, "%s", text);
  }
  // What else is wrong is said where it is compiled. Sizes and constants are known by the model alone.
  if (good && settings_read(arena, &unit, &options, &spec) && choice && choice_is_setting(choice) &&
      !changes_layout(choice)) {
    diag = diag_create(arena);
    compile_check(arena, diag, &options);
  }
  const Diagnostic *found = good ? wrong_word(diag, choices, values) : NULL;
  good = good && (!found || report_word(diag, found, choices, pick, choice, error));
  arena_destroy(arena);
  return good;
}

bool choices_check(const Choices *choices, const CompileOptions *base, bool values, Error *error) {
  int pick[CHOICES_MAX] = {0};
  if (choices->count == 0) {
    return check_one(choices, pick, NULL, base, values, error);
  }
  for (int i = 0; i < choices->count; i++) {
    for (int j = 0; j < choices->at[i].count; j++) {
      pick[i] = j;
      if (!check_one(choices, pick, &choices->at[i], base, values, error)) {
        return false;
      }
    }
    pick[i] = 0;
  }
  return true;
}
