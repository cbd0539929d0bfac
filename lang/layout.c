// layout.c: reading layouts: which one, its settings, what is checked; refusing what cannot run.
#include <math.h>
#include <string.h>

#include "lang/foreign.h"
#include "lang/layout_rules.h"
#include "lang/settings_rules.h"
#include "lang/twice.h"

static const char *const setting_words[] = {"mesh",     "schedule", "microbatches", "recompute",   "offload",
                                            "compress", "capacity", "overlap",      "reproducible"};
static const char *const reproducible_words[] = {"strict", "fast"};

void layout_suggest(Layout *l, Diagnostic *error, const char *closest, const char *otherwise) {
  if (closest) {
    diag_help(l->unit->diag, error, "did you mean `%s`?", closest);
  } else if (otherwise) {
    diag_help(l->unit->diag, error, "%s", otherwise);
  }
}

// ---- Settings

static void read_selectors(Layout *l, const Ast *phrase, int from, bool recompute) {
  const Ast *terms = phrase->kids[0];
  if (terms->count <= from) {
    Diagnostic *error = diag_error(l->unit->diag, E042, phrase->span, "`%s` does not say what", phrase_word(phrase));
    diag_help(l->unit->diag, error, recompute ? "write `recompute attention;`" : "write `offload layers;`");
  }
  for (int i = from; i < terms->count; i++) {
    const Ast *term = terms->kids[i];
    const Selector selector = selector_of(term);
    if (term->kind != AST_PATH) {
      diag_error(l->unit->diag, E042, term->span, "expected a function, a repeated axis, a label or a path");
    } else if (!recompute && name_in(term->name, layout_stored, LAYOUT_STORED)) {
      l->stored = term;
    } else if (selector_check_names(l->reach, selector, recompute ? "to recompute" : "to offload")) {
      if (recompute) {
        array_push(l->unit->arena, &l->recompute, selector);
      } else {
        array_push(l->unit->arena, &l->offload, selector);
      }
    }
  }
}

// `compress tp in layers`; behind a comma the word is left out.
static void read_compress(Layout *l, const Ast *phrase, int from) {
  const Ast *terms = phrase->kids[0];
  const Ast *axis = terms->count > from ? terms->kids[from] : NULL;
  const bool scoped = terms->count == from + 3 && terms->kids[from + 1]->kind == AST_PATH &&
                      name_is(terms->kids[from + 1]->name, "in") && terms->kids[from + 2]->kind == AST_PATH;
  if (!axis || axis->kind != AST_PATH || (terms->count != from + 1 && !scoped)) {
    Diagnostic *error = diag_error(l->unit->diag, E042, phrase->span, "`compress` does not say what");
    diag_help(l->unit->diag, error, "name a mesh axis, and where it holds: `compress tp;` or `compress tp in layers;`");
    return;
  }
  const int mesh = layout_mesh(l, axis->name);
  const Selector place = scoped ? selector_of(terms->kids[from + 2]) : (Selector){0};
  if (mesh < 0) {
    layout_unknown_mesh(l, axis, axis->span);
  } else if (!scoped || selector_check_names(l->reach, place, "to compress")) {
    array_push(l->unit->arena, &l->compress, ((CompressRule){mesh, place, phrase->span}));
  }
}

bool layout_helps_names(Diag *diag, Diagnostic *error, const Ast *value) {
  double number;
  const bool names = value && value->kind != AST_STRING && !setting_constant(value, &number);
  if (names) {
    diag_help(diag, error,
              "a layout has numbers and no constants; `--set mesh.tp=4`, `--set microbatches=8` give others");
  }
  return names;
}

static void read_value(Layout *l, const Ast *phrase, Name word) {
  Diag *diag = l->unit->diag;
  const Ast *value = phrase->kids[1];
  if (name_is(word, "microbatches")) {
    double number = 0;
    if (!setting_constant(value, &number) || number != floor(number) || number < 1 || number > LAYOUT_MAX_RANKS) {
      Diagnostic *error = diag_error(diag, E042, value->span,
                                     "the number of microbatches is a whole number from 1 to %d", LAYOUT_MAX_RANKS);
      layout_helps_names(diag, error, value);
      return;
    }
    l->microbatches = l->slots ? l->microbatches : (int64_t)number;
    l->slots = l->slots ? l->slots : phrase;
    return;
  }
  if (name_is(word, "capacity")) {
    if (!setting_constant(value, &l->capacity) || !(l->capacity > 0) || !isfinite(l->capacity)) {
      diag_error(diag, E042, value->span, "the capacity is a number greater than 0: so many times an even share");
    }
    l->capacity_span = phrase->span;
    return;
  }
  if (name_is(word, "overlap")) {
    if (value->kind != AST_TRUE && value->kind != AST_FALSE) {
      diag_error(diag, E042, value->span, "`overlap` is true or false");
    }
    l->overlap = value->kind == AST_TRUE;
    return;
  }
  if (value->kind != AST_NAME || !name_in(value->name, WORDS(reproducible_words))) {
    Diagnostic *error = diag_error(diag, E042, value->span, "`reproducible` is strict or fast");
    layout_suggest(l, error, value->kind == AST_NAME ? text_closest(value->name, WORDS(reproducible_words)) : NULL,
                   NULL);
    return;
  }
  l->strict = name_is(value->name, "strict");
}

static void unknown_setting(Layout *l, const Ast *phrase, Name word) {
  Diagnostic *error = word ? diag_error(l->unit->diag, E042, phrase->span, "a layout has no setting '%s'", word)
                           : diag_error(l->unit->diag, E042, phrase->span, "expected a setting of a layout");
  if (!word && settings_comma_help(l->unit, error, phrase)) {
    return;
  }
  bool axis = word && reach_axis(l->reach, word);
  const char *rule = axis ? arena_format(l->unit->arena, "to map an axis, write `%s -> MESH;`", word)
                          : "settings are mesh, schedule, microbatches, recompute, offload, compress, capacity, "
                            "overlap and reproducible";
  const char *foreign = word && !axis ? foreign_layout(word) : NULL;
  layout_suggest(l, error, word && !axis && !foreign ? text_closest(word, WORDS(setting_words)) : NULL,
                 foreign ? foreign : rule);
}

// What stands behind the word of a list, which the phrase begins with or one before did.
static void read_listed(Layout *l, const Ast *phrase, int from, Name list) {
  if (name_is(list, "compress")) {
    read_compress(l, phrase, from);
  } else {
    read_selectors(l, phrase, from, name_is(list, "recompute"));
  }
}

static const char *written(Name word) {
  return name_is(word, "microbatches")   ? "microbatches = 8;"
         : name_is(word, "capacity")     ? "capacity = 1.25;"
         : name_is(word, "overlap")      ? "overlap = false;"
         : name_is(word, "reproducible") ? "reproducible = strict;"
         : name_is(word, "schedule")     ? "schedule gpipe;"
         : name_is(word, "offload")      ? "offload layers;"
         : name_is(word, "compress")     ? "compress tp;"
         : name_is(word, "mesh")         ? "mesh dp = 2;"
                                         : "recompute attention;";
}

// One phrase of a setting without `->`; `list`: recompute, offload or compress, when the phrase before belonged to it.
static Name read_setting_phrase(Layout *l, const Ast *phrase, Name list) {
  Name word = phrase_word(phrase);
  bool valued = phrase->kids[1] != NULL, known = name_in(word, WORDS(setting_words));
  if (list && !known && !valued) {
    read_listed(l, phrase, 0, list);
    return list;
  }
  bool wants_value = name_is(word, "microbatches") || name_is(word, "capacity") || name_is(word, "overlap") ||
                     name_is(word, "reproducible");
  if (!known || name_is(word, "mesh")) {
    unknown_setting(l, phrase, word);
  } else if (wants_value != valued || (valued && phrase->kids[0]->count != 1)) {
    Diagnostic *error =
        diag_error(l->unit->diag, E042, phrase->span, wants_value ? "`%s` needs a value" : "`%s` takes no `=`", word);
    diag_help(l->unit->diag, error, "write `%s`", written(word));
  } else if (valued) {
    read_value(l, phrase, word);
  } else if (name_is(word, "schedule") && l->schedule) {
    return NULL;  // which was reported
  } else if (name_is(word, "schedule")) {
    layout_read_schedule(l, phrase);
  } else {
    read_listed(l, phrase, 1, word);
    return word;
  }
  return NULL;
}

static void read_settings(Layout *l, const Ast *setting) {
  Name word = phrase_word(setting->kids[0]->kids[0]);
  if (setting->kids[1] && name_in(word, WORDS(setting_words))) {
    Diagnostic *error = diag_error(l->unit->diag, E042, setting->span, "`%s` takes no `:`", word);
    diag_help(l->unit->diag, error, "write `%s`", written(word));
    return;
  }
  if (setting->kids[1]) {
    Diagnostic *error = diag_error(l->unit->diag, E042, setting->span, "a rule does not say where its axes go");
    diag_help(l->unit->diag, error, "end it with `-> MESH AXIS;`");
    return;
  }
  Name list = NULL;
  for (int i = 0; i < setting->kids[0]->count; i++) {
    list = read_setting_phrase(l, setting->kids[0]->kids[i], list);
  }
}

// ---- The whole layout

// Ranks along a mesh axis without a rule, or with rules for what is stored alone, all compute the same.
static void check_mesh_used(Layout *l) {
  uint32_t used = 0, cut = l->pipeline.axis ? 1u << l->pipeline.mesh : 0;
  for (int i = 0; i < l->rules.count; i++) {
    used |= l->rules.at[i].mesh;
    cut |= l->rules.at[i].kind == RULE_COMPUTE ? l->rules.at[i].mesh : 0;
  }
  for (int m = 0; m < l->mesh_count; m++) {
    if (!(cut >> m & 1) && l->mesh[m].size > 1) {
      const bool stored = used >> m & 1;
      Diagnostic *warning = diag_warning(
          l->unit->diag, E040, l->mesh[m].span,
          stored ? "the mesh axis '%s' cuts what is stored, and no computation" : "no rule uses the mesh axis '%s'",
          l->mesh[m].name);
      diag_label(l->unit->diag, warning,
                 stored ? "its %lld ranks all compute the same" : "its %lld ranks all do the same",
                 (long long)l->mesh[m].size);
      diag_help(l->unit->diag, warning,
                stored
                    ? "split something over it too: `batch -> %s;`; `allow E040;` in the recipe says that this is meant"
                    : "split something over it: `batch -> %s;`",
                l->mesh[m].name);
    }
  }
}

static void check_layout(Layout *l) {
  const int errors = l->unit->diag->reports;
  layout_check_once(l->unit, l->layout);
  for (int i = 0; i < l->layout->count; i++) {  // first, since rules may stand before it
    const Ast *setting = l->layout->kids[i];
    if (!setting->kids[2] && !setting->kids[1] && name_is(phrase_word(setting->kids[0]->kids[0]), "mesh")) {
      layout_read_mesh(l, setting);
    }
  }
  for (int i = 0; i < l->layout->count; i++) {
    const Ast *setting = l->layout->kids[i];
    if (setting->kids[2]) {
      layout_read_rule(l, setting);
    } else if (setting->kids[1] || !name_is(phrase_word(setting->kids[0]->kids[0]), "mesh")) {
      read_settings(l, setting);
    }
  }
  if (l->sized && l->spec->asked_microbatches > 0) {
    l->microbatches = l->spec->asked_microbatches;
  }
  layout_check_mesh(l);
  layout_check_rules(l);
  layout_check_schedule(l);
  if (l->sized) {
    layout_check_splits(l);
  }
  if (l->unit->diag->reports == errors) {
    check_mesh_used(l);
  }
}

// What this version does not do, once everything else is right.
static void refuse(Layout *l) {
  if (l->stored) {
    Diagnostic *error =
        diag_error(l->unit->diag, E070, l->stored->span,
                   "this version offloads what the backward needs of the forward, not '%s'", l->stored->name);
    diag_help(l->unit->diag, error,
              "write `offload layers;`; parameters, gradients and state are cut: `param, grad, state -> dp;`");
  }
  for (int i = 0; i < l->rules.count; i++) {
    const LayoutRule *rule = &l->rules.at[i];
    if (rule->kind == RULE_SAVE) {
      Diagnostic *error =
          diag_error(l->unit->diag, E070, rule->span,
                     "this version keeps saved values as the operations hold them: no rules for `save`");
      diag_help(l->unit->diag, error, "to keep less, write `recompute ...;`");
    }
  }
}

static const Ast *choose(Unit *unit, Spec *spec) {
  const Ast *list = recipe_choices(spec->text->recipe, "layout");
  Name name = name_of(unit->names, "single");
  Span span = spec->text->recipe->name_span;
  if (list) {
    const Ast *terms = list->kids[0]->kids[0];
    if (list->count != 1 || terms->count != 2 || terms->kids[1]->kind != AST_PATH) {
      Diagnostic *error = diag_error(unit->diag, E051, list->span, "`layout` needs the name of one layout");
      diag_help(unit->diag, error, "write `layout single;`");
      return NULL;
    }
    name = terms->kids[1]->name;
    span = terms->kids[1]->span;
  }
  const Declaration *declaration = unit_find(unit, SPACE_LAYOUT, name);
  if (declaration) {
    return layout_with_sets(unit, spec, declaration->ast);
  }
  Diagnostic *error = diag_error(unit->diag, E010, span, "there is no layout '%s'", name);
  const char *closest = unit_closest(unit, SPACE_LAYOUT, name);
  if (closest) {
    diag_help(unit->diag, error, "did you mean `%s`?", closest);
  } else if (!settings_choices(unit, SPACE_LAYOUT, AST_LAYOUT, error, "the layouts of this text are")) {
    diag_help(unit->diag, error, "this text has none; write one, such as `layout dp2 { mesh dp = 2; batch -> dp; }`");
  }
  return NULL;
}

// Layouts that were not chosen are checked for names, against all models of the file.
static void check_others(Unit *unit, const Spec *spec) {
  Reach reach = {.unit = unit};
  for (int i = 0; i < unit->all.count; i++) {
    if (!unit->all.at[i].library && unit->all.at[i].space == SPACE_CODE) {
      reach_from(&reach, unit->all.at[i].ast);
    }
  }
  for (int i = 0; i < unit->all.count; i++) {
    const Declaration *declaration = &unit->all.at[i];
    if (declaration->main && declaration->space == SPACE_LAYOUT && declaration->ast != spec->text->layout) {
      check_layout(&(Layout){.unit = unit,
                             .spec = spec,
                             .reach = &reach,
                             .layout = declaration->ast,
                             .overlap = true,
                             .microbatches = 1,
                             .pipeline = {.chunks = 1}});
    }
  }
}

void read_layout(Unit *unit, Spec *spec) {
  spec->text->layout = choose(unit, spec);
  check_others(unit, spec);
  if (!spec->text->layout) {
    return;
  }
  Reach reach = {.unit = unit};
  reach_from(&reach, spec->text->model->ast);
  Layout l = {.unit = unit,
              .spec = spec,
              .reach = &reach,
              .layout = spec->text->layout,
              .sized = true,
              .overlap = true,
              .microbatches = 1,
              .pipeline = {.schedule = SCHEDULE_ONE_F_ONE_B, .chunks = 1}};
  int errors = unit->diag->reports;
  check_layout(&l);
  if (unit->diag->reports == errors) {
    refuse(&l);
  }
  spec->mesh_count = l.mesh_count;
  memcpy(spec->mesh, l.mesh, sizeof l.mesh);
  for (int i = 0; i < l.rules.count; i++) {
    array_push(unit->arena, &spec->rules, l.rules.at[i]);
  }
  spec->pipeline = l.pipeline;
  spec->overlap = l.overlap;
  spec->capacity = l.capacity;
  spec->capacity_span = l.capacity_span;
  spec->microbatches = (int)l.microbatches;
  spec->run.strict = l.strict;
  for (int i = 0; i < l.recompute.count; i++) {
    array_push(unit->arena, &spec->recompute, l.recompute.at[i]);
  }
  for (int i = 0; i < l.offload.count; i++) {
    array_push(unit->arena, &spec->offload, l.offload.at[i]);
  }
  for (int i = 0; i < l.compress.count; i++) {
    array_push(unit->arena, &spec->compress, l.compress.at[i]);
  }
  spec->run.layout = spec->text->layout->name;
}
