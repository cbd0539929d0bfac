// layout.c: checking layouts against the model: mesh, rules, sizes and settings; refusing what cannot run.
#include <math.h>
#include <string.h>

#include "lang/layout_rules.h"
#include "lang/settings_rules.h"

static const char *const storage_words[] = {"param", "grad", "state", "save"};
enum { STORAGE_COUNT = sizeof storage_words / sizeof *storage_words };
static const char *const setting_words[] = {"mesh",    "schedule", "microbatches", "recompute",
                                            "offload", "overlap",  "reproducible"};
static const char *const schedule_words[] = {"gpipe", "one_f_one_b", "interleaved", "zero_bubble"};
static const char *const reproducible_words[] = {"strict", "fast"};

static void suggest(Layout *l, Diagnostic *error, const char *closest, const char *otherwise) {
  if (closest) {
    diag_help(l->unit->diag, error, "did you mean `%s`?", closest);
  } else if (otherwise) {
    diag_help(l->unit->diag, error, "%s", otherwise);
  }
}

// ---- Mesh

static void read_mesh_axis(Layout *l, const Ast *phrase, const Ast *term) {
  Diag *diag = l->unit->diag;
  double size = 0;
  if (term->kind != AST_PATH || !phrase->kids[1] || !setting_constant(phrase->kids[1], &size)) {
    Diagnostic *error = diag_error(diag, E042, phrase->span, "a mesh axis is a name and a size");
    diag_help(diag, error, "write `mesh tp = 4;`");
    size = 1;
  }
  if (term->kind != AST_PATH) {
    return;
  }
  if (size != floor(size) || size < 1 || size > LAYOUT_MAX_RANKS) {
    diag_error(diag, E042, phrase->kids[1]->span, "the size of a mesh axis is a whole number of at least 1");
    size = 1;
  }
  MeshAxis *old = layout_mesh(l, term->name);
  if (old) {
    Diagnostic *error = diag_error(diag, E040, term->span, "the mesh axis '%s' is declared twice", term->name);
    diag_related(diag, error, old->span, "the first declaration");
    return;
  }
  if (l->mesh_count == LAYOUT_MAX_MESH) {
    diag_error(diag, E090, term->span, "a mesh has at most %d axes", LAYOUT_MAX_MESH);
    return;
  }
  l->mesh[l->mesh_count++] = (MeshAxis){term->name, (int64_t)size, term->span};
}

// `mesh pp = 2, tp = 2;`: the word stands in the first phrase only.
static void read_mesh(Layout *l, const Ast *setting) {
  const Ast *list = setting->kids[0];
  for (int i = 0; i < list->count; i++) {
    const Ast *terms = list->kids[i]->kids[0];
    int first = i == 0 ? 1 : 0;
    if (terms->count != first + 1) {
      Diagnostic *error = diag_error(l->unit->diag, E042, list->kids[i]->span, "a mesh axis is a name and a size");
      diag_help(l->unit->diag, error, "write `mesh tp = 4;`");
      continue;
    }
    read_mesh_axis(l, list->kids[i], terms->kids[first]);
  }
}

// ---- Rules

static void unknown_left(Layout *l, const Ast *phrase, Name name) {
  enum { MOST = 512 };
  const char *candidates[MOST];
  int count = 0;
  for (int i = 0; i < l->reach->axes.count && count < MOST - STORAGE_COUNT; i++) {
    candidates[count++] = l->reach->axes.at[i]->name;
  }
  memcpy(candidates + count, storage_words, sizeof storage_words);
  count += STORAGE_COUNT;
  if (!name) {
    Diagnostic *error = diag_error(l->unit->diag, E041, phrase->span, "the left side of a rule is a list of axes");
    diag_help(l->unit->diag, error, "write `kv_heads, ffn -> tp;` or `@label: seq -> tp;`");
    return;
  }
  bool scope = reach_selector(l->reach, name);
  Diagnostic *error = diag_error(l->unit->diag, E041, phrase->span, "the model has no axis '%s'", name);
  const char *closest = text_closest(name, candidates, count);
  const char *scoped = arena_format(l->unit->arena, "to say it of '%s' alone: `%s: AXIS -> MESH;`", name, name);
  suggest(l, error, closest, scope ? scoped : "a rule maps axes, or one of param, grad, state and save");
}

static void read_left(Layout *l, const Ast *setting, const Ast *phrase, bool stored) {
  Name name = layout_word(phrase);
  bool scoped = setting->kids[1] != NULL;
  if (!scoped && name_in(name, WORDS(storage_words))) {
    return;
  }
  Name axis = name ? layout_axis(l, name) : NULL;
  if (!axis || !reach_axis(l->reach, axis)) {
    unknown_left(l, phrase, name);
    return;
  }
  bool repeated = reach_has(&l->reach->repeats, axis) && !scoped;
  l->pipeline = l->pipeline || repeated;
  if (!stored) {
    Split split = {.left = phrase, .size = layout_size(l, axis), .unit = repeated ? 0 : 1, .right = setting->kids[2]};
    array_push(l->unit->arena, &l->splits, split);
  }
}

// What stands before the `:` of a rule; true if it only says how something is stored.
static bool read_scope(Layout *l, const Ast *scope) {
  bool stored = scope->count > 0;
  for (int i = 0; i < scope->count; i++) {
    const Ast *phrase = scope->kids[i];
    Name name = layout_word(phrase);
    bool word = name_in(name, WORDS(storage_words));
    stored = stored && word;
    if (word || (name && reach_selector(l->reach, name))) {
      continue;
    }
    Diagnostic *error = name ? diag_error(l->unit->diag, E041, phrase->span, "the model has nothing called '%s'", name)
                             : diag_error(l->unit->diag, E041, phrase->span, "a rule is limited by names");
    suggest(l, error, name ? reach_closest(l->reach, name) : NULL,
            "before `:` stand labels (@resid), functions, paths, or param, grad, state, save");
  }
  return stored;
}

static void read_right(Layout *l, const Ast *right) {
  const char *candidates[LAYOUT_MAX_MESH + 1];
  int count = 0;
  for (; count < l->mesh_count; count++) {
    candidates[count] = l->mesh[count].name;
  }
  candidates[count++] = "none";
  for (int i = 0; i < right->count; i++) {
    const Ast *name = right->kids[i];
    bool none = name_is(name->name, "none");
    if (none && right->count > 1) {
      diag_error(l->unit->diag, E042, name->span, "`none` stands alone");
    } else if (!none && !layout_mesh(l, name->name)) {
      Diagnostic *error = diag_error(l->unit->diag, E040, name->span, "the layout '%s' has no mesh axis '%s'",
                                     l->layout->name, name->name);
      const char *declare = arena_format(l->unit->arena, "declare it: `mesh %s = 2;`", name->name);
      suggest(l, error, text_closest(name->name, candidates, count), declare);
    }
    for (int j = 0; j < i; j++) {
      if (right->kids[j]->name == name->name) {
        diag_error(l->unit->diag, E040, name->span, "the mesh axis '%s' is named twice", name->name);
      }
    }
  }
}

static void read_rule(Layout *l, const Ast *setting) {
  const Ast *scope = setting->kids[1] ? setting->kids[0] : NULL;
  const Ast *left = setting->kids[1] ? setting->kids[1] : setting->kids[0];
  bool stored = scope && read_scope(l, scope);
  read_right(l, setting->kids[2]);
  for (int i = 0; i < left->count; i++) {
    read_left(l, setting, left->kids[i], stored);
  }
}

// ---- Settings

static void read_schedule(Layout *l, const Ast *phrase) {
  const Ast *terms = phrase->kids[0], *kind = terms->count == 2 ? terms->kids[1] : NULL;
  if (!kind || phrase->kids[1] || !name_in(kind->name, WORDS(schedule_words)) ||
      (kind->kind != AST_PATH && kind->kind != AST_CALL)) {
    Diagnostic *error = diag_error(l->unit->diag, E042, kind ? kind->span : phrase->span, "there is no such schedule");
    suggest(l, error, kind && kind->name ? text_closest(kind->name, WORDS(schedule_words)) : NULL,
            "schedules are gpipe, one_f_one_b, interleaved(chunks = n) and zero_bubble");
    return;
  }
  const Ast *arguments = kind->kind == AST_CALL ? kind->kids[0] : NULL;
  bool interleaved = name_is(kind->name, "interleaved");
  double chunks = 0;
  bool good = interleaved ? arguments && arguments->count == 1 && name_is(arguments->kids[0]->name, "chunks") &&
                                setting_constant(arguments->kids[0]->kids[0], &chunks) && chunks == floor(chunks) &&
                                chunks >= 1 && chunks <= LAYOUT_MAX_RANKS
                          : !arguments || arguments->count == 0;
  if (!good) {
    Diagnostic *error = diag_error(
        l->unit->diag, E042, kind->span,
        interleaved ? "`interleaved` needs the number of chunks on each stage" : "the schedule `%s` takes no arguments",
        kind->name);
    suggest(l, error, NULL, interleaved ? "write `schedule interleaved(chunks = 2)`" : NULL);
    return;
  }
  l->chunks = interleaved ? (int64_t)chunks : 1;
  l->schedule = phrase;
}

static void read_selectors(Layout *l, const Ast *phrase, int from, bool recompute) {
  const Ast *terms = phrase->kids[0];
  if (terms->count <= from) {
    Diagnostic *error = diag_error(l->unit->diag, E042, phrase->span, "`%s` does not say what", phrase_word(phrase));
    diag_help(l->unit->diag, error, recompute ? "write `recompute attention;`" : "write `offload state;`");
  }
  for (int i = from; i < terms->count; i++) {
    const Ast *term = terms->kids[i];
    if (term->kind != AST_PATH) {
      diag_error(l->unit->diag, E042, term->span, "expected a function, a repeated axis, a label or a path");
    } else if (!recompute && name_in(term->name, WORDS(storage_words))) {
      l->offload = phrase;
    } else if (reach_check(l->reach, term, recompute ? "to recompute" : "to offload")) {
      if (recompute) {
        array_push(l->unit->arena, &l->recompute, term);
      } else {
        l->offload = phrase;
      }
    }
  }
}

static void read_value(Layout *l, const Ast *phrase, Name word) {
  Diag *diag = l->unit->diag;
  const Ast *value = phrase->kids[1];
  if (name_is(word, "microbatches")) {
    double number = 0;
    if (!setting_constant(value, &number) || number != floor(number) || number < 1 || number > LAYOUT_MAX_RANKS) {
      diag_error(diag, E042, value->span, "the number of microbatches is a whole number of at least 1");
      return;
    }
    l->microbatches = (int64_t)number;
    return;
  }
  if (name_is(word, "overlap")) {
    if (value->kind != AST_TRUE && value->kind != AST_FALSE) {
      diag_error(diag, E042, value->span, "`overlap` is true or false");
    }
    l->overlap = value->kind == AST_TRUE ? phrase : NULL;
    return;
  }
  if (value->kind != AST_NAME || !name_in(value->name, WORDS(reproducible_words))) {
    Diagnostic *error = diag_error(diag, E042, value->span, "`reproducible` is strict or fast");
    suggest(l, error, value->kind == AST_NAME ? text_closest(value->name, WORDS(reproducible_words)) : NULL, NULL);
    return;
  }
  l->strict = name_is(value->name, "strict");
}

static void unknown_setting(Layout *l, const Ast *phrase, Name word) {
  Diagnostic *error = word ? diag_error(l->unit->diag, E042, phrase->span, "a layout has no setting '%s'", word)
                           : diag_error(l->unit->diag, E042, phrase->span, "expected a setting of a layout");
  bool axis = word && reach_axis(l->reach, word);
  const char *rule = axis ? arena_format(l->unit->arena, "to map an axis, write `%s -> MESH;`", word)
                          : "settings are mesh, schedule, microbatches, recompute, offload, overlap and reproducible";
  suggest(l, error, word && !axis ? text_closest(word, WORDS(setting_words)) : NULL, rule);
}

// One phrase of a setting without `->`; `list`: recompute or offload, when the phrase before belonged to it.
static Name read_setting_phrase(Layout *l, const Ast *phrase, Name list) {
  Name word = phrase_word(phrase);
  bool valued = phrase->kids[1] != NULL, known = name_in(word, WORDS(setting_words));
  if (list && !known && !valued) {
    read_selectors(l, phrase, 0, name_is(list, "recompute"));
    return list;
  }
  bool wants_value = name_is(word, "microbatches") || name_is(word, "overlap") || name_is(word, "reproducible");
  if (!known || name_is(word, "mesh")) {
    unknown_setting(l, phrase, word);
  } else if (wants_value != valued || (valued && phrase->kids[0]->count != 1)) {
    Diagnostic *error =
        diag_error(l->unit->diag, E042, phrase->span, wants_value ? "`%s` needs a value" : "`%s` takes no `=`", word);
    diag_help(l->unit->diag, error, "write `%s`",
              name_is(word, "microbatches")   ? "microbatches = 8;"
              : name_is(word, "overlap")      ? "overlap = true;"
              : name_is(word, "reproducible") ? "reproducible = strict;"
              : name_is(word, "schedule")     ? "schedule gpipe;"
                                              : "recompute attention;");
  } else if (valued) {
    read_value(l, phrase, word);
  } else if (name_is(word, "schedule")) {
    read_schedule(l, phrase);
  } else {
    read_selectors(l, phrase, 1, name_is(word, "recompute"));
    return word;
  }
  return NULL;
}

static void read_settings(Layout *l, const Ast *setting) {
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

static void check_layout(Layout *l) {
  for (int i = 0; i < l->layout->count; i++) {  // first, since rules may stand before it
    const Ast *setting = l->layout->kids[i];
    if (!setting->kids[2] && !setting->kids[1] && name_is(phrase_word(setting->kids[0]->kids[0]), "mesh")) {
      read_mesh(l, setting);
    }
  }
  for (int i = 0; i < l->layout->count; i++) {
    const Ast *setting = l->layout->kids[i];
    if (setting->kids[2]) {
      read_rule(l, setting);
    } else if (setting->kids[1] || !name_is(phrase_word(setting->kids[0]->kids[0]), "mesh")) {
      read_settings(l, setting);
    }
  }
  for (int i = 0; l->sized && i < l->splits.count; i++) {
    layout_check_split(l, &l->splits.at[i]);
  }
  if (l->schedule && !l->pipeline) {
    Diagnostic *error =
        diag_error(l->unit->diag, E042, l->schedule->span, "a schedule is for a pipeline, and there is none");
    diag_help(l->unit->diag, error, "map a repeated axis to the mesh: `layers -> pp;`");
  }
}

static void refuse(Layout *l) {
  int64_t ranks = 1;
  const char *mesh = "";
  Arena *arena = l->unit->arena;
  for (int i = 0; i < l->mesh_count; i++) {
    ranks = ranks > LAYOUT_MAX_RANKS ? ranks : ranks * l->mesh[i].size;
    mesh = arena_format(arena, "%s%s%s = %lld", mesh, *mesh ? ", " : "", l->mesh[i].name, (long long)l->mesh[i].size);
  }
  const char *parts[4], *what = "";
  int count = 0;
  if (ranks > 1) {
    parts[count++] = arena_format(arena, "%lld ranks (%s)", (long long)ranks, mesh);
  }
  if (l->schedule) {
    parts[count++] = "a pipeline's schedule";
  }
  if (l->offload) {
    parts[count++] = "offloading";
  }
  if (l->overlap) {
    parts[count++] = "overlap";
  }
  for (int i = 0; i < count; i++) {
    what = arena_format(arena, "%s%s%s", what, i == 0 ? "" : i + 1 < count ? ", " : " and ", parts[i]);
  }
  if (count) {
    Diagnostic *error = diag_error(l->unit->diag, E070, l->layout->name_span,
                                   "the layout '%s' asks for %s, which this version cannot run", l->layout->name, what);
    diag_help(l->unit->diag, error, "run on one rank: `--layout single`");
  }
}

static const Ast *choose(Unit *unit, Spec *spec) {
  const Ast *list = recipe_choices(spec->recipe, "layout");
  Name name = name_of(unit->names, "single");
  Span span = spec->recipe->name_span;
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
    return declaration->ast;
  }
  Diagnostic *error = diag_error(unit->diag, E010, span, "there is no layout '%s'", name);
  const char *closest = unit_closest(unit, SPACE_LAYOUT, name);
  if (closest) {
    diag_help(unit->diag, error, "did you mean `%s`?", closest);
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
    if (declaration->main && declaration->space == SPACE_LAYOUT && declaration->ast != spec->layout) {
      check_layout(&(Layout){
          .unit = unit, .spec = spec, .reach = &reach, .layout = declaration->ast, .microbatches = 1, .chunks = 1});
    }
  }
}

void read_layout(Unit *unit, Spec *spec) {
  spec->layout = choose(unit, spec);
  check_others(unit, spec);
  if (!spec->layout) {
    return;
  }
  Reach reach = {.unit = unit};
  reach_from(&reach, spec->model->ast);
  Layout l = {.unit = unit,
              .spec = spec,
              .reach = &reach,
              .layout = spec->layout,
              .sized = true,
              .microbatches = 1,
              .chunks = 1};
  int errors = unit->diag->reports;
  check_layout(&l);
  if (unit->diag->reports == errors) {
    refuse(&l);
  }
  spec->microbatches = (int)l.microbatches;
  spec->strict = l.strict;
  for (int i = 0; i < l.recompute.count; i++) {
    array_push(unit->arena, &spec->recompute, l.recompute.at[i]);
  }
  spec->run.layout = spec->layout->name;
}
