// checkpoint.c: saving: the manifest, and the commit. Tensors are written in checkpoint_write.c; loading is in
// checkpoint_load.c, and which are kept in checkpoint_keep.c.
#include "runtime/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/json_guard.h"
#include "runtime/checkpoint_write.h"
#include "runtime/element.h"
#include "runtime/frozen.h"
#include "runtime/manifest_facts.h"
#include "runtime/states.h"

// Weights alone have no state of the optimizer.
static json_t *tensors_describe(const States *states, bool alone, const Frozen *frozen) {
  json_t *all = json_object();
  for (int i = 0; i < states->count; i++) {
    const PlanState *state = states->at[i].state;
    if ((alone && state->role == STATE_OPTIMIZER) || frozen_find(frozen, state->name)) {
      continue;
    }
    json_t *axes = json_array(), *shape = json_array();
    for (int a = 0; a < state->axis_count; a++) {
      json_array_append_new(axes, json_string(state->axis[a]));
      json_array_append_new(shape, json_integer(state->size[a]));
    }
    json_object_set_new(all, state->name,
                        json_pack("{s:s, s:s, s:o, s:o}", "role", checkpoint_role_name(state->role), "type",
                                  element_type_name(state->type), "axes", axes, "shape", shape));
  }
  return all;
}

const char *checkpoint_role_name(StateRole role) {
  static const char *const names[] = {"parameter", "optimizer", "model"};
  return names[role];
}

bool checkpoint_is_history(const char *name) {
  static const char first[] = "fp8.", last[] = ".amax";
  const size_t length = strlen(name), head = sizeof first - 1, tail = sizeof last - 1;
  return length > head + tail && strncmp(name, first, head) == 0 && strcmp(name + length - tail, last) == 0;
}

bool checkpoint_begins_anew(const char *name) {
  return checkpoint_is_history(name) || strcmp(name, PLAN_SPIKE_LOSSES) == 0;
}

typedef struct {
  json_t *root;
  char *text;
} Hashing;

static void hash_work(void *context) {
  Hashing *hashing = context;
  json_t *bare = json_deep_copy(hashing->root);  // shared values would stay counted if the copy were left half made
  json_object_del(bare, CHECKPOINT_MANIFEST_HASH);
  hashing->text = json_dumped(bare, JSON_COMPACT | JSON_SORT_KEYS);
  json_decref(bare);
}

static bool manifest_hash(Hashing *hashing, char hex[17]) {
  const char *text = hashing->text;
  snprintf(hex, 17, "%016llx", text ? (unsigned long long)XXH3_64bits(text, strlen(text)) : 0);
  json_guard_free(hashing->text);
  return text != NULL;
}

bool checkpoint_manifest_hash_within(json_t *root, char hex[17]) {
  Hashing hashing = {.root = root};
  hash_work(&hashing);
  return manifest_hash(&hashing, hex);
}

bool checkpoint_manifest_hash(json_t *root, char hex[17]) {
  Hashing hashing = {.root = root};
  return json_guarded(hash_work, &hashing) && manifest_hash(&hashing, hex);
}

typedef struct {  // a manifest to be written
  const States *states;
  const CheckpointFacts *facts;
  const WrittenList *files;
  bool alone;  // weights without state of the optimizer
  char *text;
} Manifest;

static json_t *files_describe(const WrittenList *files) {
  json_t *all = json_array();
  for (int i = 0; i < files->count; i++) {
    const Written *file = &files->at[i];
    json_array_append_new(
        all, json_pack("{s:s, s:I, s:s}", "name", file->name, "bytes", (json_int_t)file->bytes, "xxh3_64", file->hash));
  }
  return all;
}

static void manifest_work(void *context) {
  Manifest *manifest = context;
  char hash[17];
  json_t *root = json_pack("{s:s, s:i, s:I}", "format", "mdl checkpoint", "version",
                           manifest->files->parts > 0 ? CHECKPOINT_VERSION : CHECKPOINT_WHOLE, "step",
                           (json_int_t)manifest->facts->step);
  bool made = root && manifest_facts_write(root, manifest->facts) &&
              json_object_set_new(root, "files", files_describe(manifest->files)) == 0 &&
              json_object_set_new(root, "tensors",
                                  tensors_describe(manifest->states, manifest->alone, manifest->facts->frozen)) == 0 &&
              (!manifest->facts->frozen ||
               json_object_set_new(root, FROZEN_KEY, frozen_describe(manifest->facts->frozen)) == 0) &&
              (!manifest->alone || json_object_set_new(root, CHECKPOINT_WEIGHTS_ALONE, json_true()) == 0);
  if (made) {
    made = checkpoint_manifest_hash_within(root, hash) &&
           json_object_set_new(root, CHECKPOINT_MANIFEST_HASH, json_string(hash)) == 0;
  }
  manifest->text = made ? json_dumped(root, JSON_INDENT(1)) : NULL;
  json_decref(root);
}

static bool manifest_write(Io *io, const Saved *saved, const States *states, const char *directory,
                           const CheckpointFacts *facts, WrittenList *files, Error *error) {
  char path[IO_PATH_MAX];
  Manifest manifest = {.states = states, .facts = facts, .files = files, .alone = saved->source != NULL};
  if (!json_guarded(manifest_work, &manifest) || !manifest.text) {
    return error_set(error, 3, "no memory to save %s/manifest.json", directory);
  }
  int fd;
  const char *text = manifest.text;
  bool done = io_path(path, error, "%s/manifest.json", directory) && io_create(io, path, &fd, error);
  if (done) {
    Error ignored;
    done = io_write(io, fd, path, text, strlen(text), error) && io_write(io, fd, path, "\n", 1, error) &&
           io_sync(io, fd, path, error);
    done &= io_close(fd, path, done ? error : &ignored);
  }
  json_guard_free(manifest.text);
  return done;
}

// Of all files: tensors, and room for headers and the manifest.
static int64_t bytes_needed(const States *states, const Frozen *frozen) {
  int64_t bytes = 1 << 20;
  for (int i = 0; i < states->count; i++) {
    bytes += frozen_find(frozen, states->at[i].state->name) ? 1024 : state_bytes(states->at[i].state) + 1024;
  }
  return bytes;
}

static bool save(Io *io, const Saved *saved, const char *directory, CheckpointFacts *facts, const CheckpointKeep *keep,
                 Error *error) {
  char temporary[IO_PATH_MAX], final[IO_PATH_MAX];
  bool exchanged = false;
  if (!io_path(temporary, error, "%s/saving-%08lld-%ld", directory, (long long)facts->step, (long)getpid()) ||
      !io_path(final, error, "%s/step-%08lld", directory, (long long)facts->step)) {
    return false;
  }
  States states;
  if (!states_open(saved->set, &states, error)) {
    return false;
  }
  WrittenList files = {.count = 0};
  io_remove_tree(temporary);
  bool done = io_make_path(directory, error) && io_space(io, directory, bytes_needed(&states, facts->frozen), error) &&
              io_make_directory(io, temporary, error);
  done = done && checkpoint_write(io, saved, &states, temporary, facts, &files, error) &&
         manifest_write(io, saved, &states, temporary, facts, &files, error) &&
         io_sync_directory(io, temporary, error) && io_exchange(io, temporary, final, &exchanged, error) &&
         io_sync_directory(io, directory, error);
  states_close(&states);
  checkpoint_written_free(&files);
  if (!done || exchanged) {
    io_remove_tree(temporary);
  }
  facts->stays[0] = '\0';
  Error stays;
  if (done && !checkpoint_rotate(directory, keep, facts->step, &stays)) {
    snprintf(facts->stays, sizeof facts->stays, "%.*s", (int)sizeof facts->stays - 1, stays.text);
  }
  return done;
}

bool checkpoint_save(Io *io, Session *session, const char *directory, CheckpointFacts *facts,
                     const CheckpointKeep *keep, Error *error) {
  Buffer tuning = {0};
  session_record(session, &tuning);
  const StateReader reader = state_reader(session);
  const bool done = checkpoint_save_from(io, &reader, &tuning, directory, facts, keep, error);
  buffer_free(&tuning);
  return done;
}

bool checkpoint_save_from(Io *io, const StateReader *reader, const Buffer *tuning, const char *directory,
                          CheckpointFacts *facts, const CheckpointKeep *keep, Error *error) {
  return save(io, &(Saved){.set = reader->set, .reader = reader, .tuning = tuning}, directory, facts, keep, error);
}

bool checkpoint_save_weights(const PlanSet *set, const CheckpointSource *source, const char *directory,
                             CheckpointFacts *facts, Error *error) {
  return save(NULL, &(Saved){.set = set, .source = source}, directory, facts, NULL, error);
}
