// frozen.c: notes, finds again and compares parameters that checkpoints leave out.
#include "runtime/frozen.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/convert/source.h"
#include "runtime/io.h"

const FrozenTensor *frozen_find(const Frozen *frozen, const char *name) {
  for (int i = 0; frozen && i < frozen->tensors.count; i++) {
    if (strcmp(frozen->tensors.at[i].name, name) == 0) {
      return &frozen->tensors.at[i];
    }
  }
  return NULL;
}

static uint64_t hash_of(const SourceValues *values) {
  return XXH3_64bits(values->elements, (size_t)(values->count * element_type_bytes(values->type)));
}

// --- when training begins ---

static bool note(void *context, const PlanState *state, const SourceValues *values, Error *error) {
  Frozen *frozen = context;
  if (!state->frozen) {
    return true;
  }
  if (!values) {
    return error_set(error, 1, "'%.100s' is frozen and not among the weights in %s, where --save-trained leaves it",
                     state->name, frozen->from);
  }
  FrozenTensor tensor = {
      .name = arena_format(frozen->arena, "%s", state->name), .axis_count = state->axis_count, .hash = hash_of(values)};
  for (int i = 0; i < state->axis_count; i++) {
    tensor.axis[i] = arena_format(frozen->arena, "%s", state->axis[i]);
    tensor.size[i] = state->size[i];
  }
  array_push(frozen->arena, &frozen->tensors, tensor);
  return true;
}

static const char *absolute(Arena *arena, const char *path) {
  char found[PATH_MAX];
  return arena_format(arena, "%s", realpath(path, found) ? found : path);
}

bool frozen_begin(Arena *arena, Session *session, const SourceOptions *options, Frozen **frozen, Buffer *notes,
                  Error *error) {
  char found[IO_PATH_MAX];
  *frozen = ARENA_NEW(arena, Frozen);
  if (!source_find(options->path, found, error)) {
    return false;
  }
  **frozen = (Frozen){.arena = arena, .from = absolute(arena, found)};
  (*frozen)->mapping = options->mapping ? absolute(arena, options->mapping) : NULL;
  const SourceWatch watch = {*frozen, note};
  return source_start(session, options, &watch, notes, error) &&
         ((*frozen)->tensors.count > 0 ||
          error_set(error, 2, "--save-trained leaves out frozen parameters, and the recipe freezes none"));
}

// --- when it goes on ---

static bool compare(void *context, const PlanState *state, const SourceValues *values, Error *error) {
  Frozen *frozen = context;
  for (int i = 0; values && i < frozen->tensors.count; i++) {
    FrozenTensor *tensor = &frozen->tensors.at[i];
    if (strcmp(tensor->name, state->name) == 0) {
      tensor->seen = true;
      if (tensor->hash != hash_of(values)) {
        return error_set(error, 1, "'%.100s' is another there", tensor->name);
      }
    }
  }
  return true;
}

bool frozen_load(Session *session, Frozen *frozen, Error *error) {
  const SourceOptions options = {.path = frozen->from, .mapping = frozen->mapping, .partial = true};
  const SourceWatch watch = {frozen, compare};
  Buffer notes = {0};
  Error why = {0};
  bool done = source_start(session, &options, &watch, &notes, &why);
  buffer_free(&notes);
  for (int i = 0; done && i < frozen->tensors.count; i++) {
    done = frozen->tensors.at[i].seen ||
           error_set(&why, 1, "'%.100s' is not there, or not in the plan", frozen->tensors.at[i].name);
  }
  return done || error_set(error, why.status,
                           "the checkpoint holds what was trained alone, and the parameters that were not are those of "
                           "%.300s: %.600s; put back what was there",
                           frozen->from, why.text);
}

// --- in the manifest ---

json_t *frozen_describe(const Frozen *frozen) {
  json_t *all = json_object();
  for (int i = 0; i < frozen->tensors.count; i++) {
    const FrozenTensor *tensor = &frozen->tensors.at[i];
    json_t *axes = json_array(), *shape = json_array();
    char hash[32];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)tensor->hash);
    for (int a = 0; a < tensor->axis_count; a++) {
      json_array_append_new(axes, json_string(tensor->axis[a]));
      json_array_append_new(shape, json_integer((json_int_t)tensor->size[a]));
    }
    json_object_set_new(all, tensor->name, json_pack("{s:o, s:o, s:s}", "axes", axes, "shape", shape, "xxh3_64", hash));
  }
  json_t *root = json_pack("{s:s, s:o}", "from", frozen->from, "tensors", all);
  if (frozen->mapping) {
    json_object_set_new(root, "mapping", json_string(frozen->mapping));
  }
  return root;
}

static bool tensor_read(Arena *arena, const char *name, const json_t *said, Frozen *frozen) {
  const json_t *axes = json_object_get(said, "axes"), *shape = json_object_get(said, "shape");
  const char *hash = json_string_value(json_object_get(said, "xxh3_64"));
  char *end = NULL;
  FrozenTensor tensor = {.name = arena_format(arena, "%s", name), .axis_count = (int)json_array_size(axes)};
  if (json_array_size(axes) > PLAN_MAX_AXES || json_array_size(shape) != json_array_size(axes) || !hash || !*hash) {
    return false;
  }
  tensor.hash = strtoull(hash, &end, 16);
  bool good = *end == '\0';
  for (int a = 0; good && a < tensor.axis_count; a++) {
    const char *axis = json_string_value(json_array_get(axes, (size_t)a));
    tensor.axis[a] = arena_format(arena, "%s", axis ? axis : "");
    tensor.size[a] = (int64_t)json_integer_value(json_array_get(shape, (size_t)a));
    good = axis && tensor.size[a] > 0;
  }
  array_push(arena, &frozen->tensors, tensor);
  return good;
}

bool frozen_read(Arena *arena, const json_t *manifest, Frozen **frozen) {
  const json_t *said = json_object_get(manifest, FROZEN_KEY), *mapping = json_object_get(said, "mapping");
  const char *from = json_string_value(json_object_get(said, "from"));
  json_t *all = json_object_get(said, "tensors"), *tensor;
  const char *name;
  *frozen = NULL;
  if (!said) {
    return true;
  }
  Frozen *made = ARENA_NEW(arena, Frozen);
  *made = (Frozen){.arena = arena};
  bool good = from && *from && json_is_object(all) && (!mapping || json_is_string(mapping));
  if (good) {
    made->from = arena_format(arena, "%s", from);
    made->mapping = mapping ? arena_format(arena, "%s", json_string_value(mapping)) : NULL;
    json_object_foreach(all, name, tensor) {
      good = good && tensor_read(arena, name, tensor, made);
    }
  }
  *frozen = made;
  return good;
}
