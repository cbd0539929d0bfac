// settings.c: reading recipes: the model and its sizes, data, optimizers, run settings, --set.
#include "lang/settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lang/foreign.h"
#include "lang/selector_names.h"
#include "lang/settings_rules.h"
#include "lang/twice.h"

static const struct {
  const char *name;
  double least, most, otherwise;
  bool whole;
} entries[] = {
    {"seed", 0, 9007199254740992.0, 1, true}, {"steps", 1, 1e12, 1000, true},    {"eval_every", 0, 1e12, -1, true},
    {"eval_batches", 0, 1e12, -1, true},      {"save_every", 0, 1e12, -1, true}, {"log_every", 1, 1e12, -1, true},
    {"validation", 0, 0.99, 0.05, false},     {"spike", 1, 1e6, -1, false},
};
enum { ENTRY_COUNT = sizeof entries / sizeof *entries, DECIDED = 7 };  // of these without one in the recipe

static const char *const words[] = {"model",  "data", "optimizer", "freeze", "precision",
                                    "layout", "skip", "allow",     "watch"};
enum { WORD_COUNT = sizeof words / sizeof *words };

Name phrase_word(const Ast *phrase) {
  const Ast *term = phrase->kids[0]->count ? phrase->kids[0]->kids[0] : NULL;
  return term && (term->kind == AST_PATH || term->kind == AST_CALL) ? term->name : NULL;
}

bool name_is(Name name, const char *text) {
  return name && strcmp(name, text) == 0;
}

bool name_in(Name name, const char *const *list, int count) {
  for (int i = 0; i < count; i++) {
    if (name_is(name, list[i])) {
      return true;
    }
  }
  return false;
}

const Ast *recipe_choices(const Ast *recipe, const char *word) {
  const Ast *found = NULL;
  for (int i = 0; i < recipe->count; i++) {
    const Ast *setting = recipe->kids[i], *list = setting->kids[0];
    bool plain = !setting->kids[1] && !setting->kids[2] && !list->kids[0]->kids[1];
    found = plain && name_is(phrase_word(list->kids[0]), word) ? list : found;
  }
  return found;
}

Ast *ast_copy(Arena *arena, const Ast *ast) {
  if (!ast) {
    return NULL;
  }
  Ast *copy = arena_copy(arena, ast, sizeof *ast);
  copy->kids = ARENA_ARRAY(arena, Ast *, ast->count + 1);
  for (int i = 0; i < ast->count; i++) {
    copy->kids[i] = ast_copy(arena, ast->kids[i]);
  }
  return copy;
}

// Finds the phrase `name ...` that begins a setting without a scope.
Ast *settings_phrase(const Ast *declaration, const char *name) {
  for (int i = 0; i < declaration->count; i++) {
    Ast *list = declaration->kids[i]->kids[0];
    for (int j = 0; j < list->count; j++) {
      if (name_is(phrase_word(list->kids[j]), name) && (j == 0 || list->kids[j]->kids[1])) {
        return list->kids[j];
      }
    }
  }
  return NULL;
}

Ast *settings_call(const Ast *phrase) {
  const Ast *terms = phrase->kids[0];
  for (int i = 0; i < terms->count; i++) {
    if (terms->kids[i]->kind == AST_CALL) {
      return terms->kids[i];
    }
  }
  return NULL;
}

bool settings_entry(const char *name) {
  for (int i = 0; i < ENTRY_COUNT; i++) {
    if (strcmp(entries[i].name, name) == 0) {
      return true;
    }
  }
  return false;
}

Ast *settings_model(Unit *unit, Ast *recipe) {
  Ast *phrase = settings_phrase(recipe, "model");
  Ast *call = settings_call(phrase);
  Ast *terms = phrase->kids[0];
  if (!call && terms->count == 2 && terms->kids[1]->kind == AST_PATH) {  // `model llama` becomes `model llama()`
    call = terms->kids[1];
    call->kind = AST_CALL;
    Ast *list = ARENA_NEW(unit->arena, Ast);
    *list = (Ast){.kind = AST_LIST, .span = call->span};
    settings_append(unit->arena, call, list);
  }
  return call;
}

static void remove_word(Ast *recipe, const char *word) {
  int kept = 0;
  for (int i = 0; i < recipe->count; i++) {
    Name first = phrase_word(recipe->kids[i]->kids[0]->kids[0]);
    if (!name_is(first, word)) {
      recipe->kids[kept++] = recipe->kids[i];
    }
  }
  recipe->count = kept;
}

// What is said of some parameters alone: `freeze NAME;`, `optimizer NAME: ...;`.
static void remove_groups(Ast *recipe) {
  int kept = 0;
  remove_word(recipe, "freeze");
  for (int i = 0; i < recipe->count; i++) {
    const Ast *setting = recipe->kids[i];
    if (!setting->kids[1] || !name_is(phrase_word(setting->kids[0]->kids[0]), "optimizer")) {
      recipe->kids[kept++] = recipe->kids[i];
    }
  }
  recipe->count = kept;
}

// Declarations to choose from: those of the main file, or if it has none, of the files that it imports.
static int choices(const Unit *unit, NameSpace space, AstKind kind, const Declaration **found, int most) {
  int count = 0;
  for (int imported = 0; imported <= 1 && count == 0; imported++) {
    for (int i = 0; i < unit->all.count; i++) {
      const Declaration *declaration = &unit->all.at[i];
      bool candidate = !declaration->library && (imported || declaration->main);
      if (candidate && declaration->space == space && declaration->ast->kind == kind && count < most) {
        found[count++] = declaration;
      }
    }
  }
  return count;
}

enum { MOST_CHOICES = 256, BUCKET_BYTES = 64 << 20 };

static const Declaration *only(const Unit *unit, NameSpace space, AstKind kind, int *count) {
  const Declaration *found[MOST_CHOICES];
  *count = choices(unit, space, kind, found, MOST_CHOICES);
  return *count ? found[0] : NULL;
}

bool settings_choices(const Unit *unit, NameSpace space, AstKind kind, Diagnostic *error, const char *before) {
  const Declaration *found[MOST_CHOICES];
  int count = choices(unit, space, kind, found, MOST_CHOICES);
  const char *text = "";
  for (int i = 0; i < count; i++) {
    text = arena_format(unit->arena, "%s%s%s", text, i ? ", " : "", found[i]->ast->name);
  }
  if (count) {
    diag_help(unit->diag, error, "%s %s", before, text);
  }
  return count > 0;
}

static Ast *choose_recipe(Unit *unit, const CompileOptions *options) {
  int count;
  const Declaration *recipe = only(unit, SPACE_RECIPE, AST_RECIPE, &count);
  if (options->recipe) {
    Name name = name_of(unit->names, options->recipe);
    recipe = unit_find(unit, SPACE_RECIPE, name);
    if (!recipe) {
      Diagnostic *error = diag_error(unit->diag, E010, SPAN_NONE, "there is no recipe '%s' in %s", name, options->file);
      settings_choices(unit, SPACE_RECIPE, AST_RECIPE, error, "choose with --recipe:");
      return NULL;
    }
  } else if (count > 1) {
    Diagnostic *error = diag_error(unit->diag, E052, SPAN_NONE, "%s has %d recipes", options->file, count);
    settings_choices(unit, SPACE_RECIPE, AST_RECIPE, error, "choose with --recipe:");
    return NULL;
  }
  if (recipe) {
    return ast_copy(unit->arena, recipe->ast);
  }
  return settings_parse(unit, "<no recipe>", "");
}

// The name in `--set model=NAME`, or NULL.
static const char *set_model(const char *assignment) {
  static const char word[] = "model=";
  return strncmp(assignment, word, sizeof word - 1) == 0 ? assignment + sizeof word - 1 : NULL;
}

// Another model of the text in place of the recipe's, with the sizes that the recipe gives its own.
static void replace_model(Unit *unit, const char *name, Spec *spec) {
  if (!settings_phrase(spec->text->recipe, "model")) {
    settings_add(unit, spec->text->recipe, "--set", "model _();");
  }
  Ast *call = settings_model(unit, spec->text->recipe);
  if (call) {
    call->name = name_of(unit->names, name);
    call->name_span = SPAN_NONE;
  }
}

static bool choose_model(Unit *unit, const CompileOptions *options, Spec *spec) {
  bool set = false;
  for (int i = 0; i < options->set_count; i++) {
    const char *name = set_model(options->set[i]);
    if (name) {
      replace_model(unit, name, spec);
      set = true;
    }
  }
  Ast *phrase = settings_phrase(spec->text->recipe, "model");
  int count;
  if (!phrase) {
    const Declaration *model = only(unit, SPACE_CODE, AST_MODEL, &count);
    if (count != 1) {
      Diagnostic *error =
          diag_error(unit->diag, count ? E052 : E036, SPAN_NONE,
                     count ? "%s has %d models and the recipe names none" : "%s has no model", options->file, count);
      if (count) {
        diag_help(unit->diag, error, "write `model NAME;` in a recipe, or choose with --set model=NAME");
      } else {
        diag_help(
            unit->diag, error,
            "declare one: `model name { ... loss = ...; }`; functions alone are checked with a text that imports them");
      }
      return false;
    }
    settings_add(unit, spec->text->recipe, "<no recipe>", arena_format(unit->arena, "model %s();", model->ast->name));
    spec->text->model = model;
    spec->model = model->ast->name_span;
    return true;
  }
  Ast *call = settings_model(unit, spec->text->recipe);
  if (!call) {
    diag_error(unit->diag, E051, phrase->span, "`model` needs a name: `model llama(layers = 4);`");
    return false;
  }
  spec->text->model = unit_find(unit, SPACE_CODE, call->name);
  if (!spec->text->model || spec->text->model->ast->kind != AST_MODEL) {
    Diagnostic *error = diag_error(unit->diag, E010, call->name_span, "there is no model '%s'", call->name);
    const char *closest = unit_closest(unit, SPACE_CODE, call->name);
    if (set) {
      settings_choices(unit, SPACE_CODE, AST_MODEL, error, "choose with --set model=NAME:");
    } else if (closest) {
      diag_help(unit->diag, error, "did you mean `%s`?", closest);
    }
    return false;
  }
  spec->model = spec->text->model->ast->name_span;
  return true;
}

static void read_sizes(Unit *unit, Spec *spec) {
  Ast *call = settings_model(unit, spec->text->recipe);
  for (int i = 0; i < call->kids[0]->count; i++) {
    const Ast *argument = call->kids[0]->kids[i];
    if (!argument->name) {
      Diagnostic *error = diag_error(unit->diag, E051, argument->span, "sizes of the model are given by name");
      diag_help(unit->diag, error, "write `name = size`");
      continue;
    }
    array_push(unit->arena, &spec->text->sizes, (SizeSetting){argument->name, argument->name_span, argument->kids[0]});
  }
}

static double *entry_slot(double *values, const char *name) {
  for (int i = 0; i < ENTRY_COUNT; i++) {
    if (strcmp(entries[i].name, name) == 0) {
      return &values[i];
    }
  }
  return NULL;
}

static void read_entry(Unit *unit, Spec *spec, const Ast *phrase, double *values) {
  Name name = phrase_word(phrase);
  double *slot = name ? entry_slot(values, name) : NULL;
  if (!slot) {  // a size: batch = 32
    if (name) {
      array_push(unit->arena, &spec->text->sizes, (SizeSetting){name, phrase->kids[0]->span, phrase->kids[1]});
    }
    return;
  }
  int which = (int)(slot - values);
  if (!setting_number(unit, phrase->kids[1], slot) || *slot < entries[which].least || *slot > entries[which].most ||
      (entries[which].whole && *slot != floor(*slot))) {
    Diagnostic *error =
        diag_error(unit->diag, E051, phrase->kids[1]->span, "%s must be a %s from %.16g to %.16g", name,
                   entries[which].whole ? "whole number" : "number", entries[which].least, entries[which].most);
    if (name_is(name, "validation") && (phrase->kids[1]->kind == AST_CALL || phrase->kids[1]->kind == AST_STRING)) {
      diag_help(unit->diag, error, "a source of its own takes no `=`: write `validation text(\"held_out.txt\");`");
    }
  }
}

static void read_optimizer(Unit *unit, Spec *spec, const Ast *setting) {
  const Ast *left = setting->kids[0], *right = setting->kids[1];
  bool freeze = name_is(phrase_word(left->kids[0]), "freeze");
  OptimizerRule rule = {0};
  Ast *selectors = ast_copy(unit->arena, left);
  if (right || freeze) {
    Ast *terms = selectors->kids[0]->kids[0];
    for (int i = 0; i + 1 < terms->count; i++) {
      terms->kids[i] = terms->kids[i + 1];
    }
    terms->count--;
    rule.selectors = selectors;
  }
  const Ast *phrase = right ? right->kids[0] : left->kids[0];
  rule.call = freeze ? NULL : settings_call(phrase);
  bool none = right && name_is(phrase_word(phrase), "none");
  if (freeze && left->kids[0]->kids[1]) {
    Diagnostic *error = diag_error(unit->diag, E051, setting->span, "`freeze` takes no `=`");
    diag_help(unit->diag, error, "write `freeze NAME;`");
    return;
  }
  if (!freeze && !none && !rule.call) {
    diag_error(unit->diag, E051, setting->span, "`optimizer` needs a call of an update: `optimizer adamw(lr = 3e-4);`");
    return;
  }
  if (rule.call) {
    const Declaration *update = unit_find(unit, SPACE_CODE, rule.call->name);
    if (!update || update->ast->kind != AST_UPDATE) {
      Diagnostic *error =
          diag_error(unit->diag, E010, rule.call->name_span, "there is no update '%s'", rule.call->name);
      const char *closest = unit_closest(unit, SPACE_CODE, rule.call->name), *foreign = foreign_update(rule.call->name);
      if (foreign) {
        diag_help(unit->diag, error, "%s", foreign);
      } else if (closest) {
        diag_help(unit->diag, error, "did you mean `%s`?", closest);
      }
      return;
    }
    if (!spec->run.optimizer || !rule.selectors) {
      spec->run.optimizer = rule.call->name;
    }
  }
  array_push(unit->arena, &spec->text->optimizers, rule);
}

const char *setting_closest(Name name) {
  const char *candidates[ENTRY_COUNT + WORD_COUNT];
  for (int i = 0; i < ENTRY_COUNT; i++) {
    candidates[i] = entries[i].name;
  }
  memcpy(candidates + ENTRY_COUNT, words, sizeof words);
  return text_closest(name, candidates, ENTRY_COUNT + WORD_COUNT);
}

// How a setting of a recipe is written.
static const char *setting_written(const Unit *unit, Name word) {
  const char *foreign = foreign_assigned(word), *write = foreign ? strstr(foreign, "write ") : NULL;
  return write                         ? write
         : name_is(word, "optimizer")  ? "write `optimizer adamw(lr = 3e-4);` or `optimizer norm: adamw(...);`"
         : name_is(word, "freeze")     ? "write `freeze NAME;`"
         : name_is(word, "validation") ? "write `validation = 0.05;` or `validation text(\"held_out.txt\");`"
                                       : arena_format(unit->arena, "write `%s = ...;`", word);
}

// Only an optimizer has a `:`, behind what it is of, and only a layout `->`.
static bool marks_hold(const Unit *unit, const Ast *setting, Name word) {
  const Ast *left = setting->kids[0];
  const bool selects = name_is(word, "optimizer") && (left->count > 1 || left->kids[0]->kids[0]->count > 1);
  if (!word || (!setting->kids[2] && (!setting->kids[1] || selects))) {
    return true;
  }
  Diagnostic *error =
      diag_error(unit->diag, E051, setting->span, "`%s` takes no `%s`", word, setting->kids[2] ? "->" : ":");
  diag_help(unit->diag, error, "%s", setting_written(unit, word));
  return false;
}

static bool is_entry(Name name) {
  for (int i = 0; i < ENTRY_COUNT; i++) {
    if (name_is(name, entries[i].name)) {
      return true;
    }
  }
  return name_is(name, "skip");
}

static void unknown_setting(Unit *unit, const Ast *phrase) {
  Name name = phrase_word(phrase);
  const Ast *terms = phrase->kids[0];
  if (name && (is_entry(name) || (terms->count == 2 && terms->kids[1]->kind == AST_NUMBER))) {
    Diagnostic *error = diag_error(unit->diag, E051, phrase->span, "`%s` needs a value", name);
    diag_help(unit->diag, error, "%s", setting_written(unit, name));
    return;
  }
  Diagnostic *error = name ? diag_error(unit->diag, E051, phrase->span, "a recipe has no setting '%s'", name)
                           : diag_error(unit->diag, E051, phrase->span, "expected a setting of a recipe");
  if (!name && settings_comma_help(unit, error, phrase)) {
    return;
  }
  const char *closest = name ? setting_closest(name) : NULL, *foreign = foreign_setting(name);
  if (foreign) {
    diag_help(unit->diag, error, "%s", foreign);
  } else if (closest) {
    diag_help(unit->diag, error, "did you mean `%s`?", closest);
  }
}

static void check_selectors(Unit *unit, const Spec *spec) {
  Reach reach = {.unit = unit};
  reach_from(&reach, spec->text->model->ast);
  for (int i = 0; i < spec->watched.count; i++) {
    selector_check_names(&reach, spec->watched.at[i], "to watch");
  }
  for (int i = 0; i < spec->text->optimizers.count; i++) {
    const OptimizerRule *rule = &spec->text->optimizers.at[i];
    for (int j = 0; rule->selectors && j < rule->selectors->count; j++) {
      const Ast *terms = rule->selectors->kids[j]->kids[0];
      for (int k = 0; k < terms->count; k++) {
        if (terms->kids[k]->kind == AST_PATH) {
          selector_check_names(&reach, selector_of(terms->kids[k]), rule->call ? "to optimize" : "to freeze");
        } else {
          diag_error(unit->diag, E051, terms->kids[k]->span, "expected the name of parameters");
        }
      }
    }
  }
}

// Is there an optimizer for what no selector selects?
static bool optimizes_all(const Spec *spec) {
  for (int i = 0; i < spec->text->optimizers.count; i++) {
    const Ast *selectors = spec->text->optimizers.at[i].selectors;
    bool all = !selectors;
    for (int j = 0; selectors && j < selectors->count; j++) {
      all = all || name_is(phrase_word(selectors->kids[j]), "*");
    }
    if (all) {
      return true;
    }
  }
  return false;
}

static void read_recipe(Unit *unit, Spec *spec, double *values) {
  for (int i = 0; i < spec->text->recipe->count; i++) {
    const Ast *setting = spec->text->recipe->kids[i], *list = setting->kids[0];
    Name word = phrase_word(list->kids[0]);
    if (!marks_hold(unit, setting, word)) {
      continue;
    }
    if (name_is(word, "model") ||
        ((name_is(word, "precision") || name_is(word, "layout")) && !list->kids[0]->kids[1])) {
      continue;
    }
    if (name_is(word, "optimizer") || name_is(word, "freeze")) {
      read_optimizer(unit, spec, setting);
      continue;
    }
    if (name_is(word, "allow") && !list->kids[0]->kids[1]) {
      read_allow(unit, list);
      continue;
    }
    if (name_is(word, "watch") && !list->kids[0]->kids[1]) {
      read_watch(unit, spec, list);
      continue;
    }
    for (int j = 0; j < list->count; j++) {
      const Ast *phrase = list->kids[j];
      if (phrase->kids[1] && name_is(phrase_word(phrase), "skip")) {
        j = read_skip(unit, spec, list, j) - 1;
      } else if (phrase->kids[1] && phrase->kids[1]->kind == AST_RANGE) {
        diag_error(unit->diag, E051, phrase->kids[1]->span, "only `skip` takes a range");
      } else if (phrase->kids[1]) {
        read_entry(unit, spec, phrase, values);
      } else if (name_is(phrase_word(phrase), "data")) {
        read_data(unit, spec, phrase);
      } else if (name_is(phrase_word(phrase), "validation")) {
        read_validation(unit, spec, phrase);
      } else {
        unknown_setting(unit, phrase);
      }
    }
  }
}

// The largest `steps = n` in the optimizers' schedules, where the recipe does not say how long to train.
static double scheduled_steps(const Ast *ast) {
  double most = 0;
  if (ast->kind == AST_ARGUMENT && name_is(ast->name, "steps")) {
    double number;
    return setting_constant(ast->kids[0], &number) ? number : 0;
  }
  for (int i = 0; i < ast->count; i++) {
    double inside = ast->kids[i] ? scheduled_steps(ast->kids[i]) : 0;
    most = inside > most ? inside : most;
  }
  return most;
}

// The shortest spelling that reads back as the same number.
static const char *number_text(Arena *arena, double number) {
  const char *text = arena_format(arena, "%.0f", number);
  for (int digits = 1; strtod(text, NULL) != number && digits <= 17; digits++) {
    text = arena_format(arena, "%.*g", digits, number);
  }
  return text;
}

static void finish_run(Unit *unit, Spec *spec, const double *values) {
  PlanRun *run = &spec->run;
  const bool said = values[1] > 0;
  double steps = said ? values[1] : 0;
  for (int i = 0; i < spec->text->optimizers.count && !said; i++) {
    const Ast *call = spec->text->optimizers.at[i].call;
    steps = fmax(steps, call ? scheduled_steps(call) : 0);
  }
  steps = steps > 0 ? fmin(steps, entries[1].most) : entries[1].otherwise;
  run->seed = (uint64_t)(values[0] >= 0 ? values[0] : entries[0].otherwise);
  run->steps = (int64_t)steps;
  double tenth = steps >= 10 ? floor(steps / 10) : 1;
  run->eval_every = (int64_t)(values[2] >= 0 ? values[2] : tenth);
  run->eval_batches = (int64_t)(values[3] >= 0 ? values[3] : 16);
  run->save_every = (int64_t)(values[4] >= 0 ? values[4] : steps >= 5 ? floor(steps / 5) : 1);
  run->log_every = (int64_t)(values[5] >= 1 ? values[5] : steps >= 1000 ? 10 : 1);
  run->validation_fraction = values[6] >= 0 ? values[6] : spec->text->validation_data ? 0 : entries[6].otherwise;
  if (spec->text->validation_data && run->validation_fraction > 0) {
    diag_error(unit->diag, E051, spec->text->recipe->span,
               "`validation` is both a part of the data and a source of its own; keep one of the two");
  }
  run->model = spec->text->model->ast->name;
  run->recipe = name_is(spec->text->recipe->name, "_") ? "default" : spec->text->recipe->name;
  finish_data(unit, spec);
  run->data_base = unit->base;
  const double decided[DECIDED] = {(double)run->seed,         (double)run->steps,      (double)run->eval_every,
                                   (double)run->eval_batches, (double)run->save_every, (double)run->log_every,
                                   run->validation_fraction};
  for (int i = 0; i < DECIDED; i++) {
    if (!settings_phrase(spec->text->recipe, entries[i].name)) {
      settings_add(unit, spec->text->recipe, "<defaults>",
                   arena_format(unit->arena, "%s = %s;", entries[i].name, number_text(unit->arena, decided[i])));
    }
  }
}

bool settings_read(Arena *arena, Unit *unit, const CompileOptions *options, Spec *spec) {
  int errors = unit->diag->reports;
  *spec = (Spec){.text = ARENA_NEW(arena, SpecText),
                 .overlap = true,
                 .microbatches = 1,
                 .asked_microbatches = options->microbatches,
                 .bucket_bytes = options->bucket_bytes > 0 ? options->bucket_bytes : BUCKET_BYTES,
                 .idle_rules = options->idle_rules,
                 .real = TYPE_F32};
  memset(unit->diag->allowed, 0, sizeof unit->diag->allowed);
  spec->text->recipe = choose_recipe(unit, options);
  if (!spec->text->recipe || !choose_model(unit, options, spec)) {
    return false;
  }
  recipe_check_once(unit, spec->text->recipe);
  const int twice = unit->diag->reports - errors;
  if (options->layout) {
    remove_word(spec->text->recipe, "layout");
    settings_add(unit, spec->text->recipe, "--layout", arena_format(unit->arena, "layout %s;", options->layout));
  }
  if (options->precision) {
    remove_word(spec->text->recipe, "precision");
    settings_add(unit, spec->text->recipe, "--precision",
                 arena_format(unit->arena, "precision %s;", options->precision));
  }
  for (int i = 0; i < options->watch_count; i++) {
    settings_add(unit, spec->text->recipe, "--watch", arena_format(unit->arena, "watch %s;", options->watched[i]));
  }
  if (options->trains_all) {
    remove_groups(spec->text->recipe);
  }
  sets_check_once(unit, options->set, options->set_count);
  for (int i = 0; i < options->set_count; i++) {
    if (!set_model(options->set[i])) {
      settings_set(unit, spec, options->set[i]);
    }
  }
  double values[ENTRY_COUNT];
  for (int i = 0; i < ENTRY_COUNT; i++) {
    values[i] = -1;
  }
  spec->text->read = unit->diag->reports == errors + twice;
  if (spec->text->read) {
    read_sizes(unit, spec);
    read_recipe(unit, spec, values);
    if (!optimizes_all(spec)) {
      settings_add(unit, spec->text->recipe, "<defaults>", "optimizer adamw(lr = 3e-4, clip = 1.0);");
      read_optimizer(unit, spec, spec->text->recipe->kids[spec->text->recipe->count - 1]);
    }
    check_selectors(unit, spec);
    read_precision(unit, spec);
    read_layout(unit, spec);
    finish_run(unit, spec, values);
  }
  return unit->diag->reports == errors;
}
