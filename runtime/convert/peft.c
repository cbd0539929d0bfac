// peft.c: reads directories of PEFT, and makes their mapping from that of a model.
#include "runtime/convert/peft.h"

#include <string.h>
#include <unistd.h>

#include "runtime/convert/adapters.h"
#include "runtime/convert/peft_modules.h"
#include "runtime/hub.h"

static bool peft_text(Arena *arena, Mapping *mapping, Error *error) {
  const ModelFile *file = model_file("lora.peft");
  return mapping_parse_lines(arena, "models/lora.peft", file->text, mapping, error);
}

bool peft_is(const char *path) {
  char config[IO_PATH_MAX];
  Error ignored;
  return io_path(config, &ignored, "%s/" PEFT_CONFIG, path) && io_is_file(config);
}

// Settings that are empty, and first values that leave the base weights as they are, say nothing.
static void config_reduce(json_t *config) {
  void *next;
  const char *key;
  json_t *value;
  json_object_foreach_safe(config, next, key, value) {
    const bool empty = (json_is_object(value) && json_object_size(value) == 0) ||
                       (json_is_array(value) && json_array_size(value) == 0);
    const char *text = json_string_value(value);
    const bool plain = json_is_boolean(value) || (text && (strcmp(text, "gaussian") == 0 || strcmp(text, "eva") == 0));
    if (empty || (strcmp(key, "init_lora_weights") == 0 && plain)) {
      json_object_del(config, key);
    }
  }
}

bool peft_open(const char *path, HfFiles *files, Error *error) {
  if (!hf_open_files(path, PEFT_CONFIG, PEFT_WEIGHTS, files, error)) {
    return false;
  }
  config_reduce(files->config);
  return true;
}

bool peft_base(Arena *arena, const HfFiles *files, const char **base, Error *error) {
  const char *said = json_string_value(json_object_get(files->config, "base_model_name_or_path"));
  *base = said ? arena_format(arena, "%s", said) : NULL;
  if (said && hf_is(said)) {
    return true;
  }
  char hint[HUB_HINT_MAX] = "";
  if (said && access(said, F_OK) != 0) {
    hub_hint(said, "give that, with these as --adapters: ", "", NULL, hint);
  }
  return error_set(error, 1,
                   "%s holds adapters alone, for %s%.200s%s, which is no directory here; name the weights that they "
                   "are for, and give these as --adapters %s%s",
                   files->path, said ? "'" : "a model that " PEFT_CONFIG " does not name", said ? said : "",
                   said ? "'" : "", files->path, hint);
}

static bool rank_holds(const HfFiles *files, Error *error) {
  const json_t *rank = json_object_get(files->config, "r");
  return !json_is_number(rank) || (json_is_integer(rank) && json_integer_value(rank) > 0) ||
         error_set(error, 1, "%s/" PEFT_CONFIG " says that r is %g: the rank of adapters is a whole number from 1 on",
                   files->path, json_number_value(rank));
}

bool peft_settings(Arena *arena, const HfFiles *files, ConfigSettings *settings, Error *error) {
  Mapping mapping;
  return rank_holds(files, error) && peft_text(arena, &mapping, error) &&
         config_settings(arena, &mapping, files, settings, error);
}

// --- the mapping of a model's adapters ---

typedef struct {
  Arena *arena;
  const Weights *weights;
  const MappingTensor *line;               // of the weights
  const Weight *factor[2];                 // one of each, of the first layer and the first weight
  const char *part[2][MAPPING_MAX_PARTS];  // their names, with {axis}, of each weight
  Error *error;
} Beside;

static const Weight *weight_like(const Weights *weights, const char *pattern) {
  for (int i = 0; i < weights->count; i++) {
    if (mapping_stands_for(pattern, weights->at[i].name)) {
      return &weights->at[i];
    }
  }
  return NULL;
}

static bool has_axis(const Weight *weight, const char *axis) {
  bool has = false;
  for (int i = 0; i < weight->axis_count; i++) {
    has |= strcmp(weight->axis[i], axis) == 0;
  }
  return has;
}

// The axis that both factors have and the tensor of the weight lacks.
static const char *rank_axis(const Beside *b) {
  for (int i = 0; i < b->factor[0]->axis_count; i++) {
    const char *axis = b->factor[0]->axis[i];
    bool known = strstr(b->line->name, arena_format(b->arena, "{%s}", axis)) != NULL;
    for (int f = 0; f < b->line->factor_count; f++) {
      known |= strcmp(b->line->factor[f].axis, axis) == 0;
    }
    if (!known && has_axis(b->factor[1], axis)) {
      return axis;
    }
  }
  return NULL;
}

// The dimension of the weight's tensor whose axes a factor has, and beside it the rank, which is the first or the last.
// Of a tensor with several weights the second factor has them all, in their order.
static bool factor_tensor(const Beside *b, int which, const char *name, const char *rank, MappingTensor *made) {
  *made = (MappingTensor){
      .name = name, .dimension_count = 2, .part_count = which ? b->line->part_count : 1, .line = b->line->line};
  memcpy(made->part, b->part[which], sizeof made->part);
  const MappingFactor low = {.axis = rank, .dimension = which};
  int dimension = -1;
  if (which == 0) {
    made->factor[made->factor_count++] = low;
  }
  for (int f = 0; f < b->line->factor_count; f++) {
    MappingFactor factor = b->line->factor[f];
    if (strcmp(factor.axis, "parts") == 0 ? which == 0 : !has_axis(b->factor[which], factor.axis)) {
      continue;
    }
    if ((dimension >= 0 && dimension != factor.dimension) || made->factor_count + 1 >= MAPPING_MAX_FACTORS) {
      return error_set(b->error, 1, "'%s' has axes of several dimensions of '%s': it is no adapter that peft has",
                       b->part[which][0], b->line->name);
    }
    dimension = factor.dimension;
    factor.dimension = 1 - which;
    made->factor[made->factor_count++] = factor;
  }
  if (which == 1) {
    made->factor[made->factor_count++] = low;
  }
  return dimension >= 0 || error_set(b->error, 1, "'%s' has no axis of '%s'", b->part[which][0], b->line->name);
}

// The adapter of a weight of the line, if the model has it.
static bool part_find(Beside *b, const Mapping *model, int part) {
  for (int a = 0; a < model->adapters.count; a++) {
    const MappingAdapter *adapter = &model->adapters.at[a];
    const char *stem;
    size_t length;
    if (!pattern_fits(adapter->into, b->line->part[part], &stem, &length)) {
      continue;
    }
    const Weight *factor[2];
    for (int f = 0; f < 2; f++) {
      b->part[f][part] = pattern_name(b->arena, adapter->factor[f], stem, length);
      factor[f] = weight_like(b->weights, b->part[f][part]);
    }
    if (factor[0] && factor[1]) {
      memcpy(b->factor, part == 0 ? factor : b->factor, sizeof factor);
      return true;
    }
  }
  return false;
}

// One matrix has one first factor. *has: all weights of the line have adapters; none has: that is no error.
static bool parts_find(Beside *b, const Mapping *model, bool *has) {
  int count = 0;
  *has = false;
  for (int p = 0; p < b->line->part_count; p++) {
    count += part_find(b, model, p);
  }
  for (int p = 1; count == b->line->part_count && p < count; p++) {
    if (strcmp(b->part[0][p], b->part[0][0]) != 0) {
      return error_set(
          b->error, 1,
          "'%s' and '%s' are first factors of adapters of one tensor, '%s', which has one in a directory of "
          "PEFT: let them be one parameter, as models/gpt2.mdl has it",
          b->part[0][0], b->part[0][p], b->line->name);
    }
  }
  *has = count > 0 && count == b->line->part_count;
  return count == 0 || *has ||
         error_set(b->error, 1,
                   "some weights of the tensor '%s' have adapters, and some have none: peft has one for all of it",
                   b->line->name);
}

static bool beside_add(Beside *b, const Mapping *model, Mapping *mapping) {
  const MappingAdapter *names = &mapping->adapters.at[0];
  const char *stem;
  size_t length;
  bool has;
  if (!pattern_fits(names->into, b->line->name, &stem, &length)) {
    return true;
  }
  if (!parts_find(b, model, &has)) {
    return false;
  }
  if (!has) {
    return true;
  }
  const char *rank = rank_axis(b);
  if (!rank) {
    return error_set(b->error, 1, "'%s' and '%s' share no axis that '%s' lacks", b->part[0][0], b->part[1][0],
                     b->line->name);
  }
  for (int f = 0; f < 2; f++) {
    MappingTensor made;
    if (!factor_tensor(b, f, pattern_name(b->arena, names->factor[f], stem, length), rank, &made)) {
      return false;
    }
    array_push(b->arena, &mapping->tensors, made);
  }
  return true;
}

bool peft_mapping(Arena *arena, const Mapping *model, const Weights *weights, Mapping *mapping, Error *error) {
  if (!peft_text(arena, mapping, error)) {
    return false;
  }
  Beside b = {.arena = arena, .weights = weights, .error = error};
  for (int i = 0; i < model->tensors.count; i++) {
    b.line = &model->tensors.at[i];
    if (!beside_add(&b, model, mapping)) {
      return false;
    }
  }
  return true;
}

bool peft_pairs(Arena *arena, const Mapping *mapping, const Mapping *model, const ModelNumbers *numbers,
                const Weights *weights, Pairs *pairs, Unfit *unsaid, Error *error) {
  Weights adapters = {0};
  int *number = ARENA_ARRAY(arena, int, weights->count + 1);
  for (int i = 0; i < weights->count; i++) {
    if (adapter_names(model, weights->at[i].name)) {
      number[adapters.count] = i;
      array_push(arena, &adapters, weights->at[i]);
    }
  }
  if (!pairs_make(arena, mapping, numbers, &adapters, pairs, unsaid, error)) {
    return false;
  }
  for (int i = 0; i < pairs->count; i++) {
    for (int p = 0; p < pairs->at[i].part_count; p++) {
      pairs->at[i].part[p] = number[pairs->at[i].part[p]];
    }
  }
  return true;
}

bool peft_prepare(Arena *arena, Layer *layer, const Mapping *model, const ModelNumbers *numbers, const Weights *weights,
                  Error *error) {
  ConfigSettings ignored;
  Unfit unsaid = {.arena = arena};
  return peft_mapping(arena, model, weights, &layer->mapping, error) &&
         (layer->mapping.tensors.count > 0 ||
          error_set(error, 1,
                    "the model '%s' has no adapters that %s names, for those in %s: a model has them where its text "
                    "says so, as those of models/ do with rank = 8",
                    numbers->model ? numbers->model : "", model->path, layer->path)) &&
         config_settings(arena, &layer->mapping, &layer->files, &ignored, error) &&
         config_fits(arena, &layer->mapping, numbers, &layer->files, error) &&
         peft_pairs(arena, &layer->mapping, model, numbers, weights, &layer->pairs, &unsaid, error) &&
         peft_modules_fit(arena, layer, error);
}

const char *peft_module(Arena *arena, const Mapping *mapping, const char *tensor, bool *second) {
  const MappingAdapter *names = &mapping->adapters.at[0];
  const char *stem;
  size_t length;
  for (int f = 0; f < 2; f++) {
    *second = f == 1;
    if (pattern_fits(names->factor[f], tensor, &stem, &length)) {
      return arena_format(arena, "%.*s", (int)length, stem);
    }
  }
  return NULL;
}

void peft_halves(const Layer *layer, Unfit *unfit) {
  const MappingAdapter *names = &layer->mapping.adapters.at[0];
  for (int i = 0; i < layer->pairs.count; i++) {
    const char *name = layer->pairs.at[i].name, *stem;
    size_t length;
    for (int f = 0; f < 2; f++) {
      if (layer_tensor(layer, name).tensor && pattern_fits(names->factor[f], name, &stem, &length)) {
        const char *other = pattern_name(unfit->arena, names->factor[1 - f], stem, length);
        if (!layer_tensor(layer, other).tensor) {
          unfit_add(unfit, "'%.150s' is there without '%.150s'", name, other);
        }
      }
    }
  }
}
