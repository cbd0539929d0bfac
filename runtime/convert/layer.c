// layer.c: opens a directory of weights, compares what it holds with a model, and reads it.
#include "runtime/convert/layer.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/units.h"
#include "runtime/checkpoint_files.h"
#include "runtime/convert/peft.h"
#include "runtime/convert/source.h"

static bool saved_layer(Arena *arena, Layer *layer, const char *path, Error *error) {
  char found[IO_PATH_MAX], was[IO_PATH_MAX] = "";
  json_t *manifest = NULL;
  bool done;
  do {  // a process that trains there may remove the one that was found
    if (!source_find(path, found, error) || strcmp(found, was) == 0) {
      return false;
    }
    memcpy(was, found, sizeof was);
    done = checkpoint_open_weights(found, &layer->saved, &manifest, error);
  } while (!done && io_absent(found));
  if (!done) {
    return false;
  }
  layer->path = arena_format(arena, "%s", found);
  const bool good = frozen_read(arena, manifest, &layer->frozen);
  json_decref(manifest);
  return good || error_set(error, 1, "the manifest of %s does not say what is frozen", found);
}

bool layer_open(Arena *arena, const char *path, Layer *layer, Error *error) {
  *layer = (Layer){.path = arena_format(arena, "%s", path)};
  bool hf;
  if (!io_find_in(path, HF_CONFIG, &hf, error) || (!hf && !io_find_in(path, PEFT_CONFIG, &layer->peft, error))) {
    return false;
  }
  if (hf) {
    return hf_open(path, &layer->files, error);
  }
  if (layer->peft) {
    return peft_open(path, &layer->files, error);
  }
  return saved_layer(arena, layer, path, error);
}

void layer_close(Layer *layer) {
  hf_close(&layer->files);
  safetensors_close(layer->saved);
  layer->saved = NULL;
}

bool layer_below(Arena *arena, const Layer *layer, const char **below, Error *error) {
  *below = layer->frozen ? layer->frozen->from : NULL;
  return !layer->peft || peft_base(arena, &layer->files, below, error);
}

// --- files of others ---

HfTensor layer_tensor(const Layer *layer, const char *name) {
  const HfTensor found = hf_find(&layer->files, name);
  const char *prefix = layer->mapping.prefix ? layer->mapping.prefix : "";
  const size_t length = strlen(prefix);
  return found.tensor || length == 0 || strncmp(name, prefix, length) != 0 ? found
                                                                           : hf_find(&layer->files, name + length);
}

static const char *tensor_shape(Arena *arena, const SafetensorsTensor *tensor) {
  return shape_text(arena, tensor->axis_count, tensor->size);
}

static void pair_compare(Arena *arena, const SafetensorsTensor *tensor, const Pair *pair, Unfit *unfit) {
  const char *wanted = shape_text(arena, pair->axis_count, pair->size);
  char element[8] = {0}, made[8];
  double beyond;
  if (strcmp(tensor_shape(arena, tensor), wanted) != 0) {
    unfit_add(unfit, "'%.100s' is %s there, %s is wanted", tensor->name, tensor_shape(arena, tensor), wanted);
  } else if (!elements_convert(tensor->dtype, element, "F32", made, 1, &beyond)) {
    unfit_add(unfit, "'%.100s' has elements of type %.20s; F64, F32, F16 and BF16 are read", tensor->name,
              tensor->dtype);
  }
}

// *skip: the line that leaves a tensor out; NULL: none does.
static bool skip_find(Arena *arena, const Mapping *mapping, const ModelNumbers *numbers, const char *name,
                      const MappingSkip **skip, Error *error) {
  const char *prefix = mapping->prefix ? mapping->prefix : "";
  *skip = NULL;
  for (int i = 0; i < mapping->skips.count && !*skip; i++) {
    const MappingSkip *line = &mapping->skips.at[i];
    const bool bare =
        strncmp(line->name, prefix, strlen(prefix)) == 0 && mapping_stands_for(line->name + strlen(prefix), name);
    bool holds = false;
    if ((mapping_stands_for(line->name, name) || bare) &&
        !config_holds(arena, line->condition, numbers, &holds, error)) {
      return false;
    }
    *skip = holds ? line : NULL;
  }
  return true;
}

// A hash of what a tensor holds. One after the other is in memory.
static bool tensor_hash(HfTensor found, uint64_t *hash, Error *error) {
  const size_t bytes = (size_t)(found.tensor->end - found.tensor->begin);
  char *data = malloc(bytes + 1);
  const bool done = (data || error_set(error, 3, "no memory to read '%.100s'", found.tensor->name)) &&
                    safetensors_read(found.file, found.tensor, data, error);
  *hash = done ? XXH3_64bits(data, bytes) : 0;
  free(data);
  return done;
}

// A tensor that is left out since another holds the same must do so.
static bool like_compare(Arena *arena, const Layer *layer, const MappingSkip *skip, HfTensor left, Unfit *unfit,
                         Error *error) {
  const HfTensor like = skip->like ? layer_tensor(layer, skip->like) : (HfTensor){0};
  uint64_t a = 0, b = 1;
  if (!like.tensor) {
    return true;
  }
  const bool alike = strcmp(like.tensor->dtype, left.tensor->dtype) == 0 &&
                     strcmp(tensor_shape(arena, like.tensor), tensor_shape(arena, left.tensor)) == 0;
  if (alike && (!tensor_hash(like, &a, error) || !tensor_hash(left, &b, error))) {
    return false;
  }
  if (a != b) {
    unfit_add(unfit, "'%.100s' is one with '%.100s' in this model, and holds other numbers there%s", left.tensor->name,
              like.tensor->name, skip->condition ? " (config.json says `tie_word_embeddings`)" : "");
  }
  return true;
}

static int place_order(const void *a, const void *b) {
  const SafetensorsTensor *const *x = a, *const *y = b;
  return *x < *y ? -1 : *x > *y;
}

static bool left_compare(Arena *arena, const Layer *layer, const ModelNumbers *numbers, const LayerFindings *findings,
                         Error *error) {
  const size_t count = (size_t)layer->pairs.count, size = sizeof(SafetensorsTensor *);
  const SafetensorsTensor **paired = ARENA_ARRAY(arena, const SafetensorsTensor *, count + 1);
  for (size_t i = 0; i < count; i++) {
    paired[i] = layer_tensor(layer, layer->pairs.at[i].name).tensor;
  }
  qsort(paired, count, size, place_order);
  for (int f = 0; f < layer->files.shard_count; f++) {
    for (int i = 0; i < safetensors_count(layer->files.shards[f]); i++) {
      const SafetensorsTensor *tensor = safetensors_at(layer->files.shards[f], i);
      const MappingSkip *skip;
      const bool read = bsearch(&tensor, paired, count, size, place_order) != NULL;
      if (!skip_find(arena, &layer->mapping, numbers, tensor->name, &skip, error) ||
          (skip &&
           !like_compare(arena, layer, skip, (HfTensor){layer->files.shards[f], tensor}, findings->unfit, error))) {
        return false;
      }
      if (!skip && !read) {
        unfit_add(findings->left, "'%.100s' %s", tensor->name, tensor_shape(arena, tensor));
      }
    }
  }
  return true;
}

static bool files_compare(Arena *arena, const Layer *layer, const ModelNumbers *numbers, int count, bool *has,
                          const LayerFindings *findings, Error *error) {
  bool *lacks = ARENA_ARRAY(arena, bool, count + 1);
  for (int i = 0; i < layer->pairs.count; i++) {
    const Pair *pair = &layer->pairs.at[i];
    const SafetensorsTensor *tensor = layer_tensor(layer, pair->name).tensor;
    if (tensor) {
      pair_compare(arena, tensor, pair, findings->unfit);
    }
    for (int p = 0; p < pair->part_count; p++) {
      has[pair->part[p]] = true;
      lacks[pair->part[p]] |= !tensor;
    }
  }
  for (int w = 0; w < count; w++) {
    has[w] = has[w] && !lacks[w];
  }
  if (layer->peft) {
    peft_halves(layer, findings->unfit);
  }
  return left_compare(arena, layer, numbers, findings, error);
}

// --- a checkpoint ---

static void saved_compare(Arena *arena, const Layer *layer, const Weights *weights, bool *has,
                          const LayerFindings *findings) {
  for (int w = 0; w < weights->count; w++) {
    const Weight *weight = &weights->at[w];
    const SafetensorsTensor *tensor = safetensors_find(layer->saved, weight->name);
    const char *wanted = shape_text(arena, weight->axis_count, weight->size);
    has[w] = tensor != NULL;
    if (tensor && strcmp(tensor_shape(arena, tensor), wanted) != 0) {
      unfit_add(findings->unfit, "'%.100s' is %s there, %s is wanted", tensor->name, tensor_shape(arena, tensor),
                wanted);
    }
  }
  for (int i = 0; i < safetensors_count(layer->saved); i++) {
    const SafetensorsTensor *tensor = safetensors_at(layer->saved, i);
    bool found = false;
    for (int w = 0; w < weights->count && !found; w++) {
      found = strcmp(weights->at[w].name, tensor->name) == 0;
    }
    if (!found) {
      unfit_add(findings->left, "'%.100s' %s", tensor->name, tensor_shape(arena, tensor));
    }
  }
}

bool layer_compare(Arena *arena, const Layer *layer, const ModelNumbers *numbers, const Weights *weights, bool *has,
                   const LayerFindings *findings, Error *error) {
  memset(has, 0, sizeof *has * (size_t)weights->count);
  if (!layer->saved) {
    return files_compare(arena, layer, numbers, weights->count, has, findings, error);
  }
  saved_compare(arena, layer, weights, has, findings);
  return true;
}

// --- reading ---

// What became infinite on the way is no weight of this model.
static bool within(const char *name, ElementType type, double beyond, Error *error) {
  return beyond == 0 ||
         error_set(error, 1, "'%.100s' holds %g, more than %s can hold%s", name, beyond, element_type_name(type),
                   type == TYPE_F32 ? "; --precision fp64 keeps such numbers" : "");
}

static bool read_pair(const Layer *layer, const Pair *pair, int part, const Weight *weight, void *dense, Error *error) {
  const HfTensor found = layer_tensor(layer, pair->name);
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

static bool read_files(const Layer *layer, const Weight *weight, int w, void *dense, Error *error) {
  for (int i = 0; i < layer->pairs.count; i++) {
    for (int p = 0; p < layer->pairs.at[i].part_count; p++) {
      if (layer->pairs.at[i].part[p] == w && !read_pair(layer, &layer->pairs.at[i], p, weight, dense, error)) {
        return false;
      }
    }
  }
  return true;
}

bool layer_read(const Layer *layer, const Weight *weight, int w, void *dense, Error *error) {
  if (!layer->saved) {
    return read_files(layer, weight, w, dense, error);
  }
  const SafetensorsTensor *tensor = safetensors_find(layer->saved, weight->name);
  char *raw = malloc((size_t)(tensor->end - tensor->begin) + 1);
  bool done = raw || error_set(error, 3, "no memory to read '%.100s'", tensor->name);
  done = done && safetensors_read(layer->saved, tensor, raw, error);
  double beyond = 0;
  done = done && (elements_convert(tensor->dtype, raw, element_type_dtype(weight->type), dense, weight_count(weight),
                                   &beyond) ||
                  error_set(error, 1, "'%.100s' has elements of type %.20s", tensor->name, tensor->dtype));
  done = done && within(tensor->name, weight->type, beyond, error);
  free(raw);
  return done;
}
