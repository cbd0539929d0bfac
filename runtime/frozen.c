// frozen.c: notes, finds again and compares parameters that checkpoints leave out.
#include "runtime/frozen.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/utf8.h"
#include "runtime/checkpoint.h"
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

bool frozen_is(const FrozenTensor *was, ElementType hashed, ElementType type, const void *elements, int64_t count) {
  if (type == hashed) {
    return was->hash == hash_of(&(SourceValues){elements, type, count, NULL, NULL});
  }
  if (type != TYPE_F64) {
    return true;  // narrower than what was hashed: nobody can say
  }
  float *narrow = malloc(sizeof *narrow * (size_t)count + 1);
  for (int64_t i = 0; narrow && i < count; i++) {
    narrow[i] = (float)((const double *)elements)[i];
  }
  const bool same = narrow && was->hash == hash_of(&(SourceValues){narrow, TYPE_F32, count, NULL, NULL});
  free(narrow);
  return same;
}

bool frozen_lost(const char *checkpoint, const char *from, const Error *why, Error *error) {
  return error_set(error, why->status,
                   "%.200s holds what was trained alone, and the parameters that were not are those of %.200s: %.250s; "
                   "put back what was there, or say where it is now: --trunk DIR (--from DIR --adapters %.100s, where "
                   "training begins)",
                   checkpoint, from, why->text, checkpoint);
}

// --- when training begins ---

static bool note(void *context, const PlanState *state, const SourceValues *values, Error *error) {
  Frozen *frozen = context;
  (void)error;
  if (!state->frozen || !values) {
    return true;
  }
  FrozenTensor tensor = {
      .name = arena_format(frozen->arena, "%s", state->name), .axis_count = state->axis_count, .hash = hash_of(values)};
  for (int i = 0; i < state->axis_count; i++) {
    tensor.axis[i] = arena_format(frozen->arena, "%s", state->axis[i]);
    tensor.size[i] = state->size[i];
  }
  frozen->mixed |= frozen->from && strcmp(frozen->from, values->place) != 0;
  frozen->from = frozen->from ? frozen->from : arena_format(frozen->arena, "%s", values->place);
  if (values->mapping && !frozen->mapping) {
    frozen->mapping = arena_format(frozen->arena, "%s", values->mapping);
  }
  array_push(frozen->arena, &frozen->tensors, tensor);
  return true;
}

static const char *absolute(Arena *arena, const char *path) {
  char found[PATH_MAX];
  return arena_format(arena, "%s", realpath(path, found) ? found : path);
}

// The one directory that frozen parameters are in. Of a chain of them the first one leads to all.
static bool frozen_place(Frozen *frozen, const SourceOptions *options, Error *error) {
  char found[IO_PATH_MAX];
  if (frozen->tensors.count == 0) {
    return error_set(error, 2, "--save-trained leaves out frozen parameters, and the recipe freezes none%s",
                     options->adapters ? " that the weights have" : "");
  }
  if (frozen->mixed && options->adapters) {
    return error_set(error, 1,
                     "frozen parameters are in %s and in %s, and checkpoints that leave them out name one directory: "
                     "leave --save-trained out",
                     options->path, options->adapters);
  }
  if (!source_find(options->path, found, error)) {
    return false;
  }
  frozen->from = absolute(frozen->arena, frozen->mixed ? found : frozen->from);
  frozen->mapping = frozen->mapping ? absolute(frozen->arena, frozen->mapping) : NULL;
  return true;
}

bool frozen_named(const Frozen *frozen, Error *error) {
  const char *const names[] = {frozen ? frozen->from : NULL, frozen ? frozen->mapping : NULL};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (names[i] && utf8_valid((const uint8_t *)names[i], strlen(names[i])) != strlen(names[i])) {
      return error_set(error, 1,
                       "checkpoints that leave out frozen parameters say where these are, and cannot name %s, which is "
                       "no UTF-8: give it another name, or leave --save-trained out",
                       names[i]);
    }
  }
  return true;
}

bool frozen_begin(Arena *arena, Session *session, const SourceOptions *options, Frozen **frozen, Buffer *notes,
                  Error *error) {
  *frozen = ARENA_NEW(arena, Frozen);
  **frozen = (Frozen){.arena = arena};
  const SourceWatch watch = {*frozen, note};
  return source_start(session, options, &watch, notes, error) && frozen_place(*frozen, options, error) &&
         frozen_named(*frozen, error);
}

// --- when it goes on ---

// What a run that stores parameters in the other width, f32 or f64, has noted of these numbers. That such a checkpoint
// does not fit the plan is said where it is compared.
static bool is_of_other_width(const FrozenTensor *was, const SourceValues *values) {
  if (values->type != TYPE_F32) {
    return frozen_is(was, TYPE_F32, values->type, values->elements, values->count);
  }
  double *wide = malloc(sizeof *wide * (size_t)values->count + 1);
  for (int64_t i = 0; wide && i < values->count; i++) {
    wide[i] = (double)((const float *)values->elements)[i];
  }
  const bool same = wide && frozen_is(was, TYPE_F64, TYPE_F64, wide, values->count);
  free(wide);
  return same;
}

static bool compare(void *context, const PlanState *state, const SourceValues *values, Error *error) {
  Frozen *frozen = context;
  for (int i = 0; values && i < frozen->tensors.count; i++) {
    FrozenTensor *tensor = &frozen->tensors.at[i];
    if (strcmp(tensor->name, state->name) == 0) {
      tensor->seen = true;
      if (tensor->hash != hash_of(values) && !is_of_other_width(tensor, values)) {
        return error_set(error, 1, "'%.100s' is another there", tensor->name);
      }
    }
  }
  return true;
}

// Does this checkpoint leave out all of them as well? Then they are where it says.
static bool is_on_the_way(const Frozen *frozen, const Frozen *below) {
  for (int i = 0; i < frozen->tensors.count; i++) {
    if (!frozen_find(below, frozen->tensors.at[i].name)) {
      return false;
    }
  }
  return below != NULL;
}

// The directory to name: no checkpoint that is only on the way, which --keep may remove.
static void frozen_settle(Frozen *frozen, const char *found) {
  enum { WAY_MAX = 8 };
  frozen->from = absolute(frozen->arena, found);
  for (int i = 0; i < WAY_MAX; i++) {
    char manifest[IO_PATH_MAX];
    Frozen *below = NULL;
    Error ignored = {0};
    if (!io_path(manifest, &ignored, "%s/manifest.json", frozen->from) || !io_is_file(manifest) ||
        !checkpoint_frozen(frozen->arena, frozen->from, &below, &ignored) || !is_on_the_way(frozen, below)) {
      return;  // what is wrong is said where the weights are read
    }
    frozen->from = below->from;
    frozen->mapping = below->mapping ? below->mapping : frozen->mapping;
  }
}

bool frozen_moved(Frozen *frozen, const char *trunk, Error *error) {
  char found[IO_PATH_MAX];
  if (!trunk) {
    return true;
  }
  if (!frozen) {
    return error_set(
        error, 1,
        "the checkpoint has all weights, so that --trunk %s says nothing: that is for runs that were saved "
        "with --save-trained; leave it out",
        trunk);
  }
  if (!*trunk) {
    return error_set(error, 1, "the directory of --trunk has no name");
  }
  if (!source_find(trunk, found, error)) {
    return false;
  }
  frozen_settle(frozen, found);
  return true;
}

bool frozen_load(Session *session, const char *checkpoint, Frozen *frozen, Error *error) {
  if (!frozen_moved(frozen, session->trunk, error)) {
    return false;
  }
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
  return done || frozen_lost(checkpoint, frozen->from, &why, error);
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
