// source.c: finds, compares and reads weights.
#define _GNU_SOURCE 1  // memfd_create
#include "runtime/convert/source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/units.h"
#include "compiler/compile.h"
#include "runtime/checkpoint_files.h"
#include "runtime/convert/adapters.h"
#include "runtime/frozen.h"
#include "runtime/run.h"

struct WeightSource {
  Arena *arena;
  const SourceOptions *options;
  const Weights *weights;
  HfFiles files;  // of Hugging Face, with
  Mapping mapping;
  Pairs pairs;
  Safetensors *saved;  // else of a checkpoint
  bool named;          // `mapping` is known
  Unfit missing, left, fresh;
};

bool numbers_of_text(Arena *arena, const char *text, ModelNumbers *numbers, Error *error) {
  char path[64];
  const size_t length = strlen(text);
  const int fd = memfd_create("text", MFD_CLOEXEC);  // the compiler reads files
  bool done = (fd >= 0 && write(fd, text, length) == (ssize_t)length) ||
              error_set(error, 3, "no memory to read the text of the model");
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (done) {
    Diag *diag = diag_create(arena);
    const CompileOptions options = {.file = path, .layout = "single"};
    done = compile_numbers(arena, diag, &options, numbers) ||
           error_set(error, 1, "the text of the model does not compile: %s",
                     diag->all.count ? diag->all.at[0].message : "no memory");
  }
  if (fd >= 0) {
    close(fd);
  }
  return done;
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

// --- adapters ---

// Weights of a run need no mapping, but for this: the one that was named, else one of the binary for the model.
static bool adapters_mapping(WeightSource *s, const ModelNumbers *numbers, Error *error) {
  Mapping *all;
  int count;
  if (s->named || !s->options->adapters) {
    return true;
  }
  if (s->options->mapping) {
    s->named = true;
    return mapping_open(s->arena, s->options->mapping, &s->mapping, error);
  }
  if (!mapping_all(s->arena, &all, &count, error)) {
    return false;
  }
  for (int i = 0; i < count && !s->named; i++) {
    s->named = strcmp(all[i].model, numbers->model ? numbers->model : "") == 0 && all[i].adapters.count > 0;
    s->mapping = all[i];
  }
  return true;
}

// Adapters keep their first values where the weights are those of the model without them.
static bool is_fresh(WeightSource *s, const char *name) {
  const bool fresh = s->options->adapters && s->named && adapter_names(&s->mapping, name);
  if (fresh) {
    unfit_add(&s->fresh, "'%.100s'", name);
  }
  return fresh;
}

// --- a directory of Hugging Face ---

static HfTensor find_tensor(const WeightSource *s, const char *name) {
  const HfTensor found = hf_find(&s->files, name);
  const char *prefix = s->mapping.prefix ? s->mapping.prefix : "";
  const size_t length = strlen(prefix);
  return found.tensor || length == 0 || strncmp(name, prefix, length) != 0 ? found : hf_find(&s->files, name + length);
}

static const char *tensor_shape(Arena *arena, const SafetensorsTensor *tensor) {
  return shape_text(arena, tensor->axis_count, tensor->size);
}

static void pair_compare(WeightSource *s, const Pair *pair, Unfit *unfit) {
  const SafetensorsTensor *tensor = find_tensor(s, pair->name).tensor;
  const char *wanted = shape_text(s->arena, pair->axis_count, pair->size);
  if (!tensor) {
    unfit_add(&s->missing, "'%.100s' %s", pair->name, wanted);
    return;
  }
  char element[8] = {0}, made[8];
  double beyond;
  if (strcmp(tensor_shape(s->arena, tensor), wanted) != 0) {
    unfit_add(unfit, "'%.100s' is %s there, %s is wanted", tensor->name, tensor_shape(s->arena, tensor), wanted);
  } else if (!elements_convert(tensor->dtype, element, "F32", made, 1, &beyond)) {
    unfit_add(unfit, "'%.100s' has elements of type %.20s; F64, F32, F16 and BF16 are read", tensor->name,
              tensor->dtype);
  }
}

// Does a name with {axis} in it stand for this one?
static bool stands_for(const char *pattern, const char *name) {
  while (*pattern) {
    if (*pattern == '{') {
      const size_t digits = strspn(name, "0123456789");
      if (digits == 0) {
        return false;
      }
      name += digits;
      pattern += strcspn(pattern, "}");
      pattern += *pattern == '}';
    } else if (*pattern++ != *name++) {
      return false;
    }
  }
  return *name == '\0';
}

static bool is_skipped(const WeightSource *s, const ModelNumbers *numbers, const char *name, bool *skipped,
                       Error *error) {
  const char *prefix = s->mapping.prefix ? s->mapping.prefix : "";
  *skipped = false;
  for (int i = 0; i < s->mapping.skips.count && !*skipped; i++) {
    const MappingSkip *skip = &s->mapping.skips.at[i];
    const bool bare = strncmp(skip->name, prefix, strlen(prefix)) == 0 && stands_for(skip->name + strlen(prefix), name);
    if ((stands_for(skip->name, name) || bare) && !config_holds(s->arena, skip->condition, numbers, skipped, error)) {
      return false;
    }
  }
  return true;
}

static int place_order(const void *a, const void *b) {
  const SafetensorsTensor *const *x = a, *const *y = b;
  return *x < *y ? -1 : *x > *y;
}

static bool left_compare(WeightSource *s, const ModelNumbers *numbers, Error *error) {
  const size_t count = (size_t)s->pairs.count, size = sizeof(SafetensorsTensor *);
  const SafetensorsTensor **paired = ARENA_ARRAY(s->arena, const SafetensorsTensor *, count + 1);
  for (size_t i = 0; i < count; i++) {
    paired[i] = find_tensor(s, s->pairs.at[i].name).tensor;
  }
  qsort(paired, count, size, place_order);
  for (int f = 0; f < s->files.shard_count; f++) {
    for (int i = 0; i < safetensors_count(s->files.shards[f]); i++) {
      const SafetensorsTensor *tensor = safetensors_at(s->files.shards[f], i);
      bool skipped;
      if (!is_skipped(s, numbers, tensor->name, &skipped, error)) {
        return false;
      }
      if (!skipped && !bsearch(&tensor, paired, count, size, place_order)) {
        unfit_add(&s->left, "'%.100s' %s", tensor->name, tensor_shape(s->arena, tensor));
      }
    }
  }
  return true;
}

// Of all weights but fresh adapters, which no tensor of others holds.
static bool plain_pairs(WeightSource *s, const ModelNumbers *numbers, Error *error) {
  Weights plain = {0};
  int *number = ARENA_ARRAY(s->arena, int, s->weights->count + 1);
  s->named = true;
  for (int i = 0; i < s->weights->count; i++) {
    if (!is_fresh(s, s->weights->at[i].name)) {
      number[plain.count] = i;
      array_push(s->arena, &plain, s->weights->at[i]);
    }
  }
  if (!pairs_make(s->arena, &s->mapping, numbers, &plain, &s->pairs, s->options->partial ? &s->missing : NULL, error)) {
    return false;
  }
  for (int i = 0; i < s->pairs.count; i++) {
    for (int p = 0; p < s->pairs.at[i].part_count; p++) {
      s->pairs.at[i].part[p] = number[s->pairs.at[i].part[p]];
    }
  }
  return true;
}

static bool open_hf(WeightSource *s, const ModelNumbers *numbers, Unfit *unfit, Error *error) {
  ConfigSettings ignored;
  const Mapping *known = s->options->known;
  if (!hf_open(s->options->path, &s->files, error)) {
    return false;
  }
  if (known) {
    s->mapping = *known;
  }
  if ((!known && !source_mapping(s->arena, s->options->mapping, config_type(s->files.config), numbers->model,
                                 &s->mapping, error)) ||
      !config_settings(s->arena, &s->mapping, &s->files, &ignored, error) ||
      !config_fits(s->arena, &s->mapping, numbers, &s->files, error) || !plain_pairs(s, numbers, error)) {
    return false;
  }
  for (int i = 0; i < s->pairs.count; i++) {
    pair_compare(s, &s->pairs.at[i], unfit);
  }
  return left_compare(s, numbers, error);
}

// What became infinite on the way is no weight of this model.
static bool within(const char *name, ElementType type, double beyond, Error *error) {
  return beyond == 0 ||
         error_set(error, 1, "'%.100s' holds %g, more than %s can hold%s", name, beyond, element_type_name(type),
                   type == TYPE_F32 ? "; --precision fp64 keeps such numbers" : "");
}

static bool read_pair(WeightSource *s, const Pair *pair, int part, const Weight *weight, void *dense, Error *error) {
  const HfTensor found = find_tensor(s, pair->name);
  const int64_t count = pair_count(pair), bytes = element_type_bytes(weight->type);
  char *raw = malloc((size_t)(found.tensor->end - found.tensor->begin) + 1);
  char *made = malloc((size_t)(count * bytes) + 1);
  char size[UNITS_MAX];
  double beyond = 0;
  bool done = ((raw && made) || error_set(error, 3, "no memory to read '%.100s', %s", pair->name,
                                          units_bytes(size, (double)(count * bytes)))) &&
              safetensors_read(found.file, found.tensor, raw, error);
  if (done) {
    elements_convert(found.tensor->dtype, raw, element_type_dtype(weight->type), made, count, &beyond);
    pair_take(pair, part, bytes, made, dense);
    done = within(pair->name, weight->type, beyond, error);
  }
  free(raw);
  free(made);
  return done;
}

// --- a checkpoint ---

static void weight_compare(WeightSource *s, const Weight *weight, Unfit *unfit) {
  const SafetensorsTensor *tensor = safetensors_find(s->saved, weight->name);
  const char *wanted = shape_text(s->arena, weight->axis_count, weight->size);
  if (!tensor && !is_fresh(s, weight->name)) {
    unfit_add(&s->missing, "'%.100s' %s", weight->name, wanted);
  } else if (!tensor) {
    return;
  } else if (strcmp(tensor_shape(s->arena, tensor), wanted) != 0) {
    unfit_add(unfit, "'%.100s' is %s there, %s is wanted", tensor->name, tensor_shape(s->arena, tensor), wanted);
  }
}

bool source_find(const char *path, char found[IO_PATH_MAX], Error *error) {
  char manifest[IO_PATH_MAX];
  Run run;
  if (!io_path(manifest, error, "%s/manifest.json", path)) {
    return false;
  }
  if (hf_is(path) || io_is_file(manifest)) {
    return io_path(found, error, "%s", path);
  }
  return run_open(&run, path, error) &&
         (run.checkpoint[0] || error_set(error, 1,
                                         "%s is no directory of weights: it holds neither config.json (Hugging Face), "
                                         "nor a checkpoint",
                                         path)) &&
         io_path(found, error, "%s", run.checkpoint);
}

// Weights that were left out are not looked for further: they may be anywhere.
static bool open_whole(WeightSource *s, const char *path, Error *error) {
  json_t *manifest = NULL;
  if (!checkpoint_open_weights(path, &s->saved, &manifest, error)) {
    return false;
  }
  Frozen *frozen = NULL;
  const bool whole = frozen_read(s->arena, manifest, &frozen) && !frozen;
  json_decref(manifest);
  return whole || error_set(error, 1,
                            "%s holds what was trained alone, without the parameters of %.300s; mdl convert --merge "
                            "makes whole weights of it",
                            path, frozen->from ? frozen->from : "another directory");
}

static bool open_saved(WeightSource *s, const ModelNumbers *numbers, Unfit *unfit, Error *error) {
  char path[IO_PATH_MAX];
  if (!source_find(s->options->path, path, error) || !adapters_mapping(s, numbers, error) ||
      !open_whole(s, path, error)) {
    return false;
  }
  for (int i = 0; i < s->weights->count; i++) {
    weight_compare(s, &s->weights->at[i], unfit);
  }
  for (int i = 0; i < safetensors_count(s->saved); i++) {
    const SafetensorsTensor *tensor = safetensors_at(s->saved, i);
    bool found = false;
    for (int w = 0; w < s->weights->count && !found; w++) {
      found = strcmp(s->weights->at[w].name, tensor->name) == 0;
    }
    if (!found) {
      unfit_add(&s->left, "'%.100s' %s", tensor->name, tensor_shape(s->arena, tensor));
    }
  }
  return true;
}

// --- both ---

static bool source_report(WeightSource *s, Unfit *unfit, Error *error) {
  Arena *arena = s->arena;
  const char *path = s->options->path;
  Unfit all = *unfit;
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
  return unfit_report(&all, arena_format(arena, "the weights in %.200s do not fit the model", path), error);
}

bool source_open(Arena *arena, const SourceOptions *options, const ModelNumbers *numbers, const Weights *weights,
                 WeightSource **source, Error *error) {
  WeightSource *s = ARENA_NEW(arena, WeightSource);
  *s = (WeightSource){.arena = arena, .options = options, .weights = weights, .missing.arena = arena};
  s->left.arena = s->fresh.arena = arena;
  Unfit unfit = {.arena = arena};
  const bool done =
      (hf_is(options->path) ? open_hf(s, numbers, &unfit, error) : open_saved(s, numbers, &unfit, error)) &&
      source_report(s, &unfit, error);
  if (!done) {
    source_close(s);
    s = NULL;
  }
  *source = s;
  return done;
}

void source_close(WeightSource *source) {
  if (source) {
    hf_close(&source->files);
    safetensors_close(source->saved);
    source->saved = NULL;
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
  if (s->left.count > 0) {
    text =
        arena_format(s->arena, "%s%s%d left over: %s", text ? text : "", text ? "; " : "", s->left.count, s->left.text);
  }
  return text;
}

static bool read_hf(WeightSource *s, int w, void *dense, bool *found, Error *error) {
  bool lacks = false;
  *found = false;
  for (int i = 0; i < s->pairs.count; i++) {
    for (int p = 0; p < s->pairs.at[i].part_count; p++) {
      const bool is = s->pairs.at[i].part[p] == w;
      *found |= is;
      lacks |= is && !find_tensor(s, s->pairs.at[i].name).tensor;
    }
  }
  *found &= !lacks;
  for (int i = 0; *found && i < s->pairs.count; i++) {
    for (int p = 0; p < s->pairs.at[i].part_count; p++) {
      if (s->pairs.at[i].part[p] == w && !read_pair(s, &s->pairs.at[i], p, &s->weights->at[w], dense, error)) {
        return false;
      }
    }
  }
  return true;
}

bool source_read(WeightSource *s, int w, void *dense, bool *found, Error *error) {
  const Weight *weight = &s->weights->at[w];
  if (!s->saved) {
    return read_hf(s, w, dense, found, error);
  }
  const SafetensorsTensor *tensor = safetensors_find(s->saved, weight->name);
  *found = tensor != NULL;
  if (!tensor) {
    return true;
  }
  char *raw = malloc((size_t)(tensor->end - tensor->begin) + 1);
  bool done = raw || error_set(error, 3, "no memory to read '%.100s'", tensor->name);
  done = done && safetensors_read(s->saved, tensor, raw, error);
  double beyond = 0;
  done = done && (elements_convert(tensor->dtype, raw, element_type_dtype(weight->type), dense, weight_count(weight),
                                   &beyond) ||
                  error_set(error, 1, "'%.100s' has elements of type %.20s", tensor->name, tensor->dtype));
  done = done && within(tensor->name, weight->type, beyond, error);
  free(raw);
  return done;
}

// What is read: as the session has it, but that what is watched is not rounded to 16 bits first.
static ElementType type_read(const PlanState *state, const SourceWatch *watch) {
  return watch && state->type == TYPE_BF16 ? TYPE_F32 : state->type;
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
    const SourceValues values = {dense, weight->type, count};
    done = watch->read(watch->context, state->state, found ? &values : NULL, error);
  }
  if (done && found && weight->type != state->state->type) {
    char *narrow = malloc((size_t)state_bytes(state->state) + 1);
    done = (narrow || error_set(error, 3, "no memory to load '%s'", weight->name)) &&
           elements_fit(weight->name, weight->type, dense, state->state->type, narrow, count, error);
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
  begins.adapters = true;
  numbers.model = session->plan->run.model;
  bool done = (arena || error_set(error, 3, "no memory")) && states_open(session->set, &states, error) &&
              weights_of_states(arena, &states, &weights) &&
              (!hf_is(options->path) || numbers_of_text(arena, text, &numbers, error)) &&
              source_open(arena, &begins, &numbers, &weights, &source, error);
  for (int w = 0; done && w < weights.count; w++) {
    weights.at[w].type = type_read(states_find(&states, weights.at[w].name)->state, watch);
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
