// saved.c: finds a checkpoint and what its text says, and reads its weights.
#include "runtime/convert/saved.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/checkpoint_files.h"
#include "runtime/convert/convert.h"
#include "runtime/convert/peft.h"
#include "runtime/convert/source.h"
#include "runtime/run.h"

enum { TEXT_MAX = 64 << 20 };

static bool saved_find(Saved *s, const char *from, Error *error) {
  char text[IO_PATH_MAX];
  Run run;
  bool direct;
  if (!io_find_in(from, "manifest.json", &direct, error) ||
      !(direct ? io_path(s->run, error, "%s/../..", from) : io_path(s->run, error, "%s", from)) ||
      !run_open(&run, s->run, error)) {
    return false;
  }
  if (!direct && !run.checkpoint[0] && (hf_is(from) || peft_is(from))) {
    return error_set(error, 1, "%s is a directory of %s and no run: `mdl convert %s -o RUN` makes one of it", from,
                     hf_is(from) ? "Hugging Face" : "PEFT", from);
  }
  if (!direct && !run.checkpoint[0]) {
    return error_set(error, 1, "the run %s has no checkpoint yet", from);
  }
  char *resolved = NULL;
  size_t size;
  bool done = run_own(s->run, "resolved.mdl", text, error) && io_read_file(text, TEXT_MAX, &resolved, &size, error) &&
              numbers_of_text(s->arena, resolved, &s->numbers, error);
  free(resolved);
  if (!done) {
    return false;
  }
  do {
    done = io_path(s->checkpoint, error, "%s", direct ? from : run.checkpoint) &&
           checkpoint_open_weights(s->checkpoint, &s->file, &s->manifest, error);
  } while (!done && !direct && run_newer(&run));
  return done;
}

// The parameters, with their axes from the manifest.
static bool saved_weights(Saved *s, Error *error) {
  const json_t *all = json_object_get(s->manifest, "tensors");
  for (int i = 0; i < safetensors_count(s->file); i++) {
    const SafetensorsTensor *tensor = safetensors_at(s->file, i);
    const json_t *said = json_object_get(all, tensor->name), *axes = json_object_get(said, "axes");
    const char *role = json_string_value(json_object_get(said, "role"));
    Weight weight = {.name = tensor->name, .axis_count = tensor->axis_count};
    char element[8] = {0}, made[8];
    double beyond;
    if (!role || json_array_size(axes) != (size_t)tensor->axis_count ||
        !elements_convert(tensor->dtype, element, "F64", made, 1, &beyond)) {
      return error_set(error, 1, "the manifest of %s does not say the axes of '%.100s'", s->checkpoint, tensor->name);
    }
    if (strcmp(role, checkpoint_role_name(STATE_PARAMETER)) != 0) {
      if (strncmp(tensor->name, "fp8.", 4) == 0) {
        continue;
      }
      return error_set(error, 1, "the model keeps state of its own, '%.100s', which nothing is written for",
                       tensor->name);
    }
    weight.type = strcmp(tensor->dtype, "F64") == 0 ? TYPE_F64 : TYPE_F32;
    for (int a = 0; a < tensor->axis_count; a++) {
      const char *axis = json_string_value(json_array_get(axes, (size_t)a));
      weight.axis[a] = axis ? axis : "";
      weight.size[a] = tensor->size[a];
    }
    array_push(s->arena, &s->stored, weight);
  }
  return true;
}

// Parameters that the checkpoint leaves out.
static bool saved_frozen(Saved *s, const SavedOptions *options, Error *error) {
  if (!frozen_read(s->arena, s->manifest, &s->frozen)) {
    return error_set(error, 1, "the manifest of %s does not say what is frozen", s->checkpoint);
  }
  if (options->alone) {
    s->weights = s->stored;
    return true;
  }
  if (!frozen_moved(s->frozen, options->trunk, error)) {
    return false;
  }
  const ElementType type = s->stored.count > 0 ? s->stored.at[0].type : TYPE_F32;  // in which they were hashed
  for (int i = 0; s->frozen && i < s->frozen->tensors.count; i++) {
    const FrozenTensor *tensor = &s->frozen->tensors.at[i];
    Weight weight = {.name = tensor->name, .type = type, .axis_count = tensor->axis_count};
    memcpy(weight.axis, tensor->axis, sizeof weight.axis);
    memcpy(weight.size, tensor->size, sizeof weight.size);
    array_push(s->arena, &s->left_out, weight);
    array_push(s->arena, &s->stored, weight);
  }
  s->weights = s->stored;
  if (!s->frozen) {
    return true;
  }
  s->trunk_options = (SourceOptions){.path = s->frozen->from, .mapping = s->frozen->mapping, .partial = true};
  Error why = {0};
  return source_open(s->arena, &s->trunk_options, &s->numbers, &s->left_out, &s->trunk, &why) ||
         frozen_lost(s->checkpoint, s->frozen->from, &why, error);
}

bool saved_open(Arena *arena, const SavedOptions *options, Saved *saved, Error *error) {
  *saved = (Saved){.arena = arena};
  return saved_find(saved, options->from, error) && saved_weights(saved, error) && saved_frozen(saved, options, error);
}

void saved_close(Saved *saved) {
  source_close(saved->trunk);
  safetensors_close(saved->file);
  json_decref(saved->manifest);
  saved->file = NULL;
  saved->manifest = NULL;
}

bool saved_kept(const Saved *saved, char path[IO_PATH_MAX]) {
  Error ignored;
  const char *from = saved->frozen ? saved->frozen->from : NULL;
  return (io_path(path, &ignored, "%s/" CONVERT_KEPT, saved->run) && io_is_directory(path)) ||
         (from && hf_is(from) && io_path(path, &ignored, "%s", from)) ||
         (from && io_path(path, &ignored, "%s/../../" CONVERT_KEPT, from) && io_is_directory(path));
}

const char *saved_adapter(const Saved *saved, const Mapping *mapping) {
  for (int i = 0; i < saved->weights.count; i++) {
    if (adapter_names(mapping, saved->weights.at[i].name)) {
      return saved->weights.at[i].name;
    }
  }
  return NULL;
}

bool saved_merge(Saved *s, const Mapping *mapping, Error *error) {
  ModelNumbers merged;
  if (mapping->adapters.count == 0) {
    return error_set(error, 1, "%s names no adapters (`adapter PARAMETER = FACTOR, FACTOR by FORMULA`)", mapping->path);
  }
  if (!adapters_find(s->arena, mapping, &s->numbers, &s->stored, &s->adapters, error)) {
    return false;
  }
  if (s->adapters.count == 0) {
    return error_set(error, 1, "%s has no adapters that %s names: there is nothing to merge", s->checkpoint,
                     mapping->path);
  }
  if (!adapters_merged(s->arena, mapping, &s->numbers, &merged, error)) {
    return false;
  }
  s->numbers = merged;
  s->weights = (Weights){0};
  for (int i = 0; i < s->stored.count; i++) {
    bool factor = false;
    for (int a = 0; a < s->adapters.count; a++) {
      factor |= s->adapters.at[a].factor[0] == i || s->adapters.at[a].factor[1] == i;
    }
    if (!factor) {
      array_push(s->arena, &s->weights, s->stored.at[i]);
    }
  }
  return true;
}

static bool no_memory(const Weight *weight, Error *error) {
  return error_set(error, 3, "no memory to read '%.100s'", weight->name);
}

// What the checkpoint leaves out: as it was when training began.
static bool trunk_read(Saved *s, const Weight *weight, ElementType type, void *dense, Error *error) {
  int w = 0;
  while (w + 1 < s->left_out.count && strcmp(s->left_out.at[w].name, weight->name) != 0) {
    w++;
  }
  bool found = false;
  const ElementType stored = s->left_out.at[w].type;
  const size_t bytes = (size_t)(weight_count(weight) * element_type_bytes(stored));
  char *read = malloc(bytes + 1);
  bool done = (read || no_memory(weight, error)) && source_read(s->trunk, w, read, &found, error);
  if (done) {
    done = (found && frozen_find(s->frozen, weight->name)->hash == XXH3_64bits(read, bytes)) ||
           error_set(error, 1, "'%.100s' is not what it was in %s", weight->name, s->frozen->from);
  }
  done = done && elements_fit(weight->name, stored, read, type, dense, weight_count(weight), error);
  free(read);
  return done;
}

// As elements of this type.
static bool stored_read(Saved *s, const Weight *weight, ElementType type, void *dense, Error *error) {
  const SafetensorsTensor *tensor = safetensors_find(s->file, weight->name);
  if (!tensor) {
    return trunk_read(s, weight, type, dense, error);
  }
  if (strcmp(tensor->dtype, element_type_dtype(type)) == 0) {
    return safetensors_read(s->file, tensor, dense, error);
  }
  char *raw = malloc((size_t)(tensor->end - tensor->begin) + 1);
  const bool done = (raw || no_memory(weight, error)) && safetensors_read(s->file, tensor, raw, error) &&
                    elements_take(weight->name, tensor->dtype, raw, type, dense, weight_count(weight), error);
  free(raw);
  return done;
}

static bool adapter_read(Saved *s, const Adapter *adapter, ElementType type, void *dense, Error *error) {
  const Weight *first = &s->stored.at[adapter->factor[0]], *second = &s->stored.at[adapter->factor[1]];
  double *a = malloc(sizeof *a * (size_t)weight_count(first)), *b = malloc(sizeof *b * (size_t)weight_count(second));
  double *row = malloc(sizeof *row * (size_t)adapter_row(adapter));
  const bool done =
      ((a && b && row) || no_memory(first, error)) && stored_read(s, first, TYPE_F64, a, error) &&
      stored_read(s, second, TYPE_F64, b, error) &&
      (adapter_add(adapter, a, b, type, dense, row) ||
       error_set(error, 1, "'%.100s' with its adapter, %g times the product of two, is more than %s can hold",
                 s->stored.at[adapter->into].name, adapter->scale, element_type_dtype(type)));
  free(a);
  free(b);
  free(row);
  return done;
}

bool saved_read(Saved *s, const Weight *weight, void *dense, Error *error) {
  bool done = stored_read(s, weight, weight->type, dense, error);
  for (int i = 0; done && i < s->adapters.count; i++) {
    if (strcmp(s->stored.at[s->adapters.at[i].into].name, weight->name) == 0) {
      done = adapter_read(s, &s->adapters.at[i], weight->type, dense, error);
    }
  }
  return done;
}
