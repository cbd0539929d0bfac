// source.c: finds, compares and reads weights.
#include "runtime/convert/source.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/compile.h"
#include "lang/unit.h"
#include "runtime/convert/adapters.h"
#include "runtime/convert/constants.h"
#include "runtime/convert/layer.h"
#include "runtime/convert/peft.h"
#include "runtime/run.h"

enum { LAYERS_MAX = 8 };

struct WeightSource {
  Arena *arena;
  const SourceOptions *options;
  ModelNumbers numbers;
  const Weights *weights;
  Layer layers[LAYERS_MAX];  // what is above goes before what is below
  int layer_count;
  int *at;          // of each weight, the layer that has it; -1: none
  Mapping mapping;  // of the model, if
  bool named;       // it is known
  Unfit missing, left, fresh, other;
  Unfit scales, constants;  // of a run that are others than those of the model
};

bool numbers_of_text(Arena *arena, const char *text, ModelNumbers *numbers, Error *error) {
  Diag *diag = diag_create(arena);
  const OpenText open = {"", text, strlen(text)};  // a name that no file has
  const CompileOptions options = {.file = open.path, .layout = "single", .open = &open, .open_count = 1};
  return compile_numbers(arena, diag, &options, numbers) ||
         error_set(error, diag->no_memory ? 3 : 1, "the text of the model does not compile: %s",
                   diag->all.count ? diag->all.at[0].message : "no memory");
}

bool weights_of_states(Arena *arena, const States *states, Weights *weights) {
  *weights = (Weights){0};
  for (int i = 0; i < states->count; i++) {
    const PlanState *state = states->at[i].state;
    if (state->role != STATE_PARAMETER) {
      continue;
    }
    Weight weight = {.name = state->name, .type = state->type, .axis_count = state->axis_count};
    memcpy(weight.axis, state->axis, sizeof weight.axis);
    memcpy(weight.size, state->size, sizeof weight.size);
    array_push(arena, weights, weight);
  }
  return true;
}

bool source_mapping(Arena *arena, const char *file, const char *type, const char *model, Mapping *mapping,
                    Error *error) {
  Mapping *all;
  int count;
  if (file) {
    if (!mapping_open(arena, file, mapping, error)) {
      return false;
    }
    if (strcmp(mapping->type, type) != 0) {
      return error_set(error, 1, "%s is for the model_type '%s', config.json says '%s'", file, mapping->type, type);
    }
    return !model || strcmp(mapping->model, model) == 0 ||
           error_set(error, 1, "%s is for the model '%s', the text's is '%s'", file, mapping->model, model);
  }
  if (!mapping_all(arena, &all, &count, error)) {
    return false;
  }
  const char *types = "", *other = NULL;
  for (int i = 0; i < count; i++) {
    if (strcmp(all[i].type, type) == 0 && (!model || strcmp(all[i].model, model) == 0)) {
      *mapping = all[i];
      return true;
    }
    other = strcmp(all[i].type, type) == 0 ? all[i].model : other;
    types = arena_format(arena, "%s%s%s", types, i ? ", " : "", all[i].type);
  }
  if (other) {
    return error_set(error, 1,
                     "weights of the model_type '%s' are for the model '%s', not for '%s'; give --mapping FILE if "
                     "there is a mapping for it",
                     type, other, model);
  }
  return error_set(error, 1,
                   "config.json says the model_type '%.80s'; known are %s: give --mapping FILE for another one", type,
                   types);
}

// --- directories, one over the other ---

bool source_find(const char *path, char found[IO_PATH_MAX], Error *error) {
  static const char *const marks[] = {HF_CONFIG, PEFT_CONFIG, "manifest.json"};
  Run run;
  bool marked = false;
  for (size_t i = 0; i < sizeof marks / sizeof *marks && !marked; i++) {
    if (!io_find_in(path, marks[i], &marked, error)) {
      return false;
    }
  }
  if (marked) {
    return io_path(found, error, "%s", path);
  }
  if (io_is_file(path)) {
    return error_set(error, 1, "%s is a file; weights are given as the directory that holds them, with its config.json",
                     path);
  }
  char config[IO_PATH_MAX];
  if (!io_path(config, error, "%s/" HF_CONFIG, path)) {
    return false;
  }
  if (io_no_file(config)) {
    return error_set(error, 1, "%s is no directory of weights: its config.json is %s", path, io_no_file(config));
  }
  return run_open(&run, path, error) &&
         (run.checkpoint[0] || error_set(error, 1,
                                         "%s is no directory of weights: it holds neither config.json (Hugging Face), "
                                         "adapter_config.json (PEFT), nor a checkpoint",
                                         path)) &&
         io_path(found, error, "%s", run.checkpoint);
}

// Adapters that are put over other weights are no whole model.
static bool adapters_alone(const WeightSource *s, Error *error) {
  const Layer *top = &s->layers[0];
  return top->peft || top->frozen ||
         error_set(error, 1,
                   "%s holds a whole model, not adapters alone: begin with it as with other weights, --from %s",
                   s->options->adapters, s->options->adapters);
}

// Opens what was named and what is below it: frozen parameters that a checkpoint leaves out, the model of adapters.
static bool layers_open(WeightSource *s, Error *error) {
  const SourceOptions *options = s->options;
  if (options->adapters &&
      (!layer_open(s->arena, options->adapters, &s->layers[s->layer_count++], error) || !adapters_alone(s, error))) {
    return false;
  }
  const Layer *above = NULL;
  for (const char *next = options->path; next;) {
    Error why = {0};
    if (s->layer_count == LAYERS_MAX) {
      return error_set(error, 1, "%s: frozen parameters are in %s, whose frozen parameters are elsewhere, and so on",
                       options->path, next);
    }
    Layer *layer = &s->layers[s->layer_count++];
    if (!layer_open(s->arena, next, layer, &why)) {
      return above && above->frozen ? frozen_lost(above->path, next, &why, error)
                                    : error_set(error, why.status, "%s", why.text);
    }
    if (!layer_below(s->arena, layer, &next, error)) {
      return false;
    }
    above = layer;
  }
  return true;
}

// Weights of a run need no mapping, but for adapters: the one that was named, else one of the binary for the model.
static bool adapters_mapping(WeightSource *s, Error *error) {
  Mapping *all;
  int count;
  const char *model = s->numbers.model ? s->numbers.model : "";
  if (s->options->mapping) {
    s->named = true;
    return mapping_open(s->arena, s->options->mapping, &s->mapping, error);
  }
  if (!mapping_all(s->arena, &all, &count, error)) {
    return false;
  }
  for (int i = 0; i < count && !s->named; i++) {
    s->named = strcmp(all[i].model, model) == 0 && all[i].adapters.count > 0;
    s->mapping = all[i];
  }
  return true;
}

static const char *mapping_file(const WeightSource *s) {
  for (int l = 0; l < s->layer_count && !s->options->mapping; l++) {
    if (s->layers[l].frozen && s->layers[l].frozen->mapping) {
      return s->layers[l].frozen->mapping;
    }
  }
  return s->options->mapping;
}

// What files of others hold is said by the mapping, from the numbers of the model.
static bool layers_mapping(WeightSource *s, Error *error) {
  Layer *last = &s->layers[s->layer_count - 1];
  const bool hf = !last->saved && !last->peft, files = hf || s->layers[0].peft;
  if (files && s->numbers.count == 0 && s->options->text &&
      !numbers_of_text(s->arena, s->options->text, &s->numbers, error)) {
    return false;
  }
  if (s->options->known) {
    s->named = true;
    s->mapping = *s->options->known;
  } else if (hf) {
    s->named = true;
    if (!source_mapping(s->arena, mapping_file(s), config_type(last->files.config), s->numbers.model, &s->mapping,
                        error)) {
      return false;
    }
  } else if ((s->options->fresh || s->layers[0].peft) && !adapters_mapping(s, error)) {
    return false;
  }
  if (!s->named && s->layers[0].peft) {
    return error_set(error, 1,
                     "there is no mapping that names adapters of the model '%s', which those in %s are of; "
                     "give one with --mapping FILE",
                     s->numbers.model ? s->numbers.model : "", s->layers[0].path);
  }
  last->mapping = hf ? s->mapping : last->mapping;
  return true;
}

// Adapters keep their first values where no directory has them.
static bool is_fresh(const WeightSource *s, const char *name) {
  return s->options->fresh && s->named && adapter_names(&s->mapping, name);
}

// Of all weights but adapters, which no directory of Hugging Face holds.
static bool plain_pairs(WeightSource *s, Layer *layer, Error *error) {
  Weights plain = {0};
  int *number = ARENA_ARRAY(s->arena, int, s->weights->count + 1);
  for (int i = 0; i < s->weights->count; i++) {
    if (!is_fresh(s, s->weights->at[i].name)) {
      number[plain.count] = i;
      array_push(s->arena, &plain, s->weights->at[i]);
    }
  }
  if (!pairs_make(s->arena, &layer->mapping, &s->numbers, &plain, &layer->pairs,
                  s->options->partial ? &s->missing : NULL, error)) {
    return false;
  }
  for (int i = 0; i < layer->pairs.count; i++) {
    for (int p = 0; p < layer->pairs.at[i].part_count; p++) {
      layer->pairs.at[i].part[p] = number[layer->pairs.at[i].part[p]];
    }
  }
  return true;
}

static bool layer_prepare(WeightSource *s, Layer *layer, Error *error) {
  ConfigSettings ignored;
  if (layer->saved) {
    return true;
  }
  if (layer->peft) {
    return peft_prepare(s->arena, layer, &s->mapping, &s->numbers, s->weights, error);
  }
  return config_settings(s->arena, &layer->mapping, &layer->files, &ignored, error) &&
         config_fits(s->arena, &layer->mapping, &s->numbers, &layer->files, error) && plain_pairs(s, layer, error);
}

// What no directory has: tensors of the lowest, if that is one of Hugging Face, else parameters.
static void missing_list(WeightSource *s) {
  const Layer *last = &s->layers[s->layer_count - 1];
  const bool hf = !last->saved && !last->peft;
  for (int i = 0; hf && i < last->pairs.count; i++) {
    const Pair *pair = &last->pairs.at[i];
    bool lacks = false;
    for (int p = 0; p < pair->part_count; p++) {
      lacks |= s->at[pair->part[p]] < 0;
    }
    if (lacks && !layer_tensor(last, pair->name).tensor) {
      unfit_add(&s->missing, "'%.100s' %s", pair->name, shape_text(s->arena, pair->axis_count, pair->size));
    }
  }
  for (int w = 0; w < s->weights->count; w++) {
    const Weight *weight = &s->weights->at[w];
    if (s->at[w] < 0 && is_fresh(s, weight->name)) {
      unfit_add(&s->fresh, "'%.100s'", weight->name);
    } else if (s->at[w] < 0 && !hf) {
      unfit_add(&s->missing, "'%.100s' %s", weight->name, shape_text(s->arena, weight->axis_count, weight->size));
    }
  }
}

static bool layers_compare(WeightSource *s, Unfit *unfit, Error *error) {
  const int count = s->weights->count;
  const LayerFindings findings = {unfit, &s->left};
  bool *has = ARENA_ARRAY(s->arena, bool, count + 1);
  s->at = ARENA_ARRAY(s->arena, int, count + 1);
  for (int w = 0; w < count; w++) {
    s->at[w] = -1;
  }
  for (int l = 0; l < s->layer_count; l++) {
    Layer *layer = &s->layers[l];
    if (!layer_prepare(s, layer, error) ||
        !layer_compare(s->arena, layer, &s->numbers, s->weights, has, &findings, error)) {
      return false;
    }
    for (int w = 0; w < count; w++) {
      s->at[w] = s->at[w] < 0 && has[w] ? l : s->at[w];
    }
  }
  missing_list(s);
  return true;
}

// What runs say beside their weights, where the text of the model is known.
static bool texts_compare(WeightSource *s, Error *error) {
  for (int l = 0; s->options->text && l < s->layer_count; l++) {
    const Layer *layer = &s->layers[l];
    ConstantsTaker taker = {&s->numbers, s->named ? &s->mapping : NULL, s->weights, false};
    for (int w = 0; w < s->weights->count; w++) {
      taker.adapters |= s->at[w] == l && s->named && adapter_names(&s->mapping, s->weights->at[w].name);
    }
    if (!layer->saved) {
      continue;
    }
    if ((s->numbers.count == 0 && !numbers_of_text(s->arena, s->options->text, &s->numbers, error)) ||
        !constants_compare(s->arena, layer, &taker, &s->scales, &s->constants, error)) {
      return false;
    }
  }
  return true;
}

static bool source_report(WeightSource *s, Unfit *unfit, Error *error) {
  Arena *arena = s->arena;
  const char *path = s->options->path, *over = s->options->adapters;
  Unfit all = *unfit;
  if (!s->options->partial && s->scales.count > 0) {
    unfit_add(&all, "%s", s->scales.text);
  }
  if (!s->options->partial) {
    const struct {
      const Unfit *of;
      const char *what;
    } lists[] = {{&s->missing, "missing: "}, {&s->left, "left over, since the model has no such parameter: "}};
    for (int i = 0; i < 2; i++) {
      if (lists[i].of->count > 0) {
        all.text = arena_format(arena, "%s%s%s%.330s", all.text ? all.text : "", all.text ? "; " : "", lists[i].what,
                                lists[i].of->text);
        all.count += all.count == 0;
        if (lists[i].of->count > 8) {
          all.text = arena_format(arena, "%s; and %d more", all.text, lists[i].of->count - 8);
        }
      }
    }
  }
  return unfit_report(&all,
                      arena_format(arena, "the weights in %.200s%s%.200s do not fit the model", path,
                                   over ? " and " : "", over ? over : ""),
                      error);
}

bool source_open(Arena *arena, const SourceOptions *options, const ModelNumbers *numbers, const Weights *weights,
                 WeightSource **source, Error *error) {
  WeightSource *s = ARENA_NEW(arena, WeightSource);
  *s = (WeightSource){.arena = arena, .options = options, .numbers = *numbers, .weights = weights};
  s->missing.arena = s->left.arena = s->fresh.arena = s->other.arena = s->scales.arena = s->constants.arena = arena;
  Unfit unfit = {.arena = arena};
  const bool done = layers_open(s, error) && layers_mapping(s, error) && layers_compare(s, &unfit, error) &&
                    texts_compare(s, error) && source_report(s, &unfit, error);
  if (!done) {
    source_close(s);
    s = NULL;
  }
  *source = s;
  return done;
}

void source_close(WeightSource *source) {
  for (int l = 0; source && l < source->layer_count; l++) {
    layer_close(&source->layers[l]);
  }
}

const char *source_notes(const WeightSource *s) {
  const char *text = NULL;
  if (s->fresh.count > 0) {
    text = arena_format(s->arena, "%d parameters of adapters are fresh: %s%s", s->fresh.count, s->fresh.text,
                        s->fresh.count > UNFIT_NAMED ? "; ..." : "");
  }
  if (s->missing.count > 0) {
    text = arena_format(s->arena, "%s%s%d missing, which keep their first values: %s", text ? text : "",
                        text ? "; " : "", s->missing.count, s->missing.text);
  }
  if (s->other.count > 0) {
    text = arena_format(s->arena, "%s%s%d parameters are others than those beside which %s was trained: %s%s",
                        text ? text : "", text ? "; " : "", s->other.count, s->options->adapters, s->other.text,
                        s->other.count > UNFIT_NAMED ? "; ..." : "");
  }
  if (s->scales.count > 0) {
    text = arena_format(s->arena, "%s%s%s", text ? text : "", text ? "; " : "", s->scales.text);
  }
  if (s->constants.count > 0) {
    text = arena_format(s->arena, "%s%sconstants of the model that the weights are of: %s%s", text ? text : "",
                        text ? "; " : "", s->constants.text, s->constants.count > UNFIT_NAMED ? "; ..." : "");
  }
  if (s->left.count > 0) {
    text =
        arena_format(s->arena, "%s%s%d left over: %s", text ? text : "", text ? "; " : "", s->left.count, s->left.text);
  }
  return text;
}

// Hashes are of f32, or of f64 where parameters are stored so.
static ElementType type_hashed(const Layer *layer) {
  const SafetensorsTensor *first = safetensors_count(layer->saved) > 0 ? safetensors_at(layer->saved, 0) : NULL;
  return first && strcmp(first->dtype, "F64") == 0 ? TYPE_F64 : TYPE_F32;
}

// What a checkpoint left out must be what it was, but where other weights were named for it.
static bool frozen_compare(WeightSource *s, int w, const void *dense, Error *error) {
  const Weight *weight = &s->weights->at[w];
  for (int l = 0; l < s->at[w]; l++) {
    const Layer *layer = &s->layers[l];
    const FrozenTensor *was = frozen_find(layer->frozen, weight->name);
    if (!was || frozen_is(was, type_hashed(layer), weight->type, dense, weight_count(weight))) {
      continue;
    }
    if (l > 0 || !s->options->adapters) {
      Error why = {0};
      error_set(&why, 1, "'%.100s' is another there", weight->name);
      return frozen_lost(layer->path, s->layers[s->at[w]].path, &why, error);
    }
    unfit_add(&s->other, "'%.100s'", weight->name);
  }
  return true;
}

const char *source_place(const WeightSource *s, int w) {
  return s->at[w] < 0 ? NULL : s->layers[s->at[w]].path;
}

bool source_read(WeightSource *s, int w, void *dense, bool *found, Error *error) {
  *found = s->at[w] >= 0;
  return !*found ||
         (layer_read(&s->layers[s->at[w]], &s->weights->at[w], w, dense, error) && frozen_compare(s, w, dense, error));
}

// What is read: as the session has it, but that what is watched, has a hash, or becomes 8 bits is not rounded to 16
// bits first.
static ElementType type_read(const States *states, const char *name, bool exact) {
  const LogicalState *logical = states_find(states, name);
  const ElementType type = logical->state->type;
  return (exact || !state_divides(states, logical)) && type == TYPE_BF16 ? TYPE_F32 : type;
}

static bool source_has_frozen(const WeightSource *s) {
  bool has = false;
  for (int l = 0; l < s->layer_count; l++) {
    has |= s->layers[l].frozen != NULL;
  }
  return has;
}

// One parameter after the other is in memory whole.
static bool start_weight(Session *session, const States *states, WeightSource *source, int w, const SourceWatch *watch,
                         Error *error) {
  const Weight *weight = &source->weights->at[w];
  const LogicalState *state = states_find(states, weight->name);
  const int64_t count = weight_count(weight);
  bool found = false;
  char *dense = malloc((size_t)(count * element_type_bytes(weight->type)) + 1);
  bool done = (dense || error_set(error, 3, "no memory to load '%s'", weight->name)) &&
              source_read(source, w, dense, &found, error);
  if (done && watch) {
    const SourceValues values = {dense, weight->type, count, source_place(source, w), mapping_file(source)};
    done = watch->read(watch->context, state->state, found ? &values : NULL, error);
  }
  if (done && found && weight->type != state->state->type) {
    char *narrow = malloc((size_t)state_bytes(state->state) + 1);
    done = (narrow || error_set(error, 3, "no memory to load '%s'", weight->name)) &&
           elements_fit(weight->name, weight->type, dense, state->state->type, narrow, count, error);
    if (done) {
      state_round_once(states, state, weight->type, dense, narrow);
    }
    free(dense);
    dense = narrow;
  }
  done = done && (!found || state_scatter(session, states, state, dense, error));
  free(dense);
  return done;
}

bool source_start(Session *session, const SourceOptions *options, const SourceWatch *watch, Buffer *notes,
                  Error *error) {
  Arena *arena = arena_create();
  States states = {0};
  Weights weights;
  ModelNumbers numbers = {0};
  WeightSource *source = NULL;
  const char *text = session->plan->resolved ? session->plan->resolved : "";
  SourceOptions begins = *options;
  begins.fresh = true;
  begins.text = text;
  numbers.model = session->plan->run.model;
  bool done = (arena || error_set(error, 3, "no memory")) && states_open(session->set, &states, error) &&
              weights_of_states(arena, &states, &weights) &&
              source_open(arena, &begins, &numbers, &weights, &source, error);
  const bool exact = watch || (done && source_has_frozen(source));
  for (int w = 0; done && w < weights.count; w++) {
    weights.at[w].type = type_read(&states, weights.at[w].name, exact);
    done = start_weight(session, &states, source, w, watch, error);
  }
  if (done && source_notes(source)) {
    buffer_text(notes, source_notes(source));
  }
  source_close(source);
  states_close(&states);
  arena_destroy(arena);
  return done && session_refresh(session, error);
}
