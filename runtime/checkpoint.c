// checkpoint.c: saving, and finding what was saved. Loading is in checkpoint_load.c.
#include "runtime/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/units.h"
#include "runtime/checkpoint_files.h"
#include "runtime/safetensors.h"
#include "runtime/states.h"

const CheckpointFile checkpoint_files[CHECKPOINT_FILE_COUNT] = {
    {"model.safetensors", {true, false, true}, false},
    {"optimizer.safetensors", {false, true, false}, true},
};

typedef struct {  // what is saved: the state of a session, or weights that come from elsewhere
  Session *session;
  const PlanSet *set;
  const CheckpointSource *source;  // NULL: the session
} Saved;

typedef struct {  // one file being written
  Io *io;
  int fd;
  char path[IO_PATH_MAX];
  XXH3_state_t *hash;
  int64_t bytes;
} Writer;

static bool writer_put(Writer *writer, const void *data, size_t size, Error *error) {
  XXH3_64bits_update(writer->hash, data, size);
  writer->bytes += (int64_t)size;
  return io_write(writer->io, writer->fd, writer->path, data, size, error);
}

// Tensors go into the file one after the other: no more than one is in memory whole, in memory that has room for each.
static bool states_write(Writer *writer, const Saved *saved, const States *states, const CheckpointFile *file,
                         Error *error) {
  int64_t most = 0;
  for (int i = 0; i < states->count; i++) {
    const PlanState *state = states->at[i].state;
    most = file->holds[state->role] && state_bytes(state) > most ? state_bytes(state) : most;
  }
  char *dense = malloc((size_t)most + 1);
  char size[UNITS_MAX];
  bool done = dense || error_set(error, 3, "no memory to save %s, %s", writer->path, units_bytes(size, (double)most));
  for (int i = 0; done && i < states->count; i++) {
    const LogicalState *state = &states->at[i];
    if (file->holds[state->state->role]) {
      done = (saved->source ? saved->source->read(saved->source->context, state->state, dense, error)
                            : state_gather(saved->session, states, state, dense, error)) &&
             writer_put(writer, dense, (size_t)state_bytes(state->state), error);
    }
  }
  free(dense);
  return done;
}

static bool tensors_write(Writer *writer, const Saved *saved, const States *states, const CheckpointFile *file,
                          Error *error) {
  SafetensorsTensor *tensors = calloc((size_t)states->count + 1, sizeof *tensors);
  Buffer header = {0};
  int count = 0;
  for (int i = 0; tensors && i < states->count; i++) {
    const PlanState *state = states->at[i].state;
    if (file->holds[state->role]) {
      SafetensorsTensor *tensor = &tensors[count++];
      *tensor = (SafetensorsTensor){
          .name = state->name, .dtype = element_type_dtype(state->type), .axis_count = state->axis_count};
      memcpy(tensor->size, state->size, sizeof *state->size * (size_t)state->axis_count);
    }
  }
  bool done = tensors && safetensors_header(tensors, count, &header);
  if (!done) {
    error_set(error, 3, "no memory to save %s", writer->path);
  }
  done =
      done && writer_put(writer, header.text, header.length, error) && states_write(writer, saved, states, file, error);
  buffer_free(&header);
  free(tensors);
  return done;
}

// After true, writer_end is called, whatever happens.
static bool writer_begin(Writer *writer, Io *io, const char *directory, const char *name, Error *error) {
  *writer = (Writer){.io = io, .fd = -1};
  if (!io_path(writer->path, error, "%s/%s", directory, name)) {
    return false;
  }
  writer->hash = XXH3_createState();
  if (!writer->hash) {
    return error_set(error, 3, "no memory to save %s", writer->path);
  }
  XXH3_64bits_reset(writer->hash);
  if (io_create(io, writer->path, &writer->fd, error)) {
    return true;
  }
  XXH3_freeState(writer->hash);
  return false;
}

// `done`: all of it is written. Then it is listed in `files`.
static bool writer_end(Writer *writer, bool done, const char *name, json_t *files, Error *error) {
  Error ignored;
  char hex[32];
  done = done && io_sync(writer->io, writer->fd, writer->path, error);
  done &= io_close(writer->fd, writer->path, done ? error : &ignored);
  snprintf(hex, sizeof hex, "%016llx", (unsigned long long)XXH3_64bits_digest(writer->hash));
  XXH3_freeState(writer->hash);
  if (done) {
    json_array_append_new(
        files, json_pack("{s:s, s:I, s:s}", "name", name, "bytes", (json_int_t)writer->bytes, "xxh3_64", hex));
  }
  return done;
}

static bool file_write(Io *io, const Saved *saved, const States *states, const char *directory,
                       const CheckpointFile *file, json_t *files, Error *error) {
  Writer writer;
  return writer_begin(&writer, io, directory, file->name, error) &&
         writer_end(&writer, tensors_write(&writer, saved, states, file, error), file->name, files, error);
}

// What devices chose by measuring, if they did.
static bool tuning_write(Io *io, Session *session, const char *directory, json_t *files, Error *error) {
  Buffer text = {0};
  Writer writer;
  session_record(session, &text);
  bool done = !text.failed || error_set(error, 3, "no memory to save %s", CHECKPOINT_TUNING);
  if (done && text.length > 0) {
    done = writer_begin(&writer, io, directory, CHECKPOINT_TUNING, error) &&
           writer_end(&writer, writer_put(&writer, text.text, text.length, error), CHECKPOINT_TUNING, files, error);
  }
  buffer_free(&text);
  return done;
}

static json_t *tensors_describe(const States *states) {
  json_t *all = json_object();
  for (int i = 0; i < states->count; i++) {
    const PlanState *state = states->at[i].state;
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

bool checkpoint_manifest_hash(json_t *root, char hex[17]) {
  json_t *bare = json_copy(root);  // its values are shared
  json_object_del(bare, CHECKPOINT_MANIFEST_HASH);
  char *text = bare ? json_dumps(bare, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
  snprintf(hex, 17, "%016llx", text ? (unsigned long long)XXH3_64bits(text, strlen(text)) : 0);
  json_decref(bare);
  free(text);
  return text != NULL;
}

static bool manifest_write(Io *io, const Saved *saved, const States *states, const char *directory,
                           const CheckpointFacts *facts, json_t *files, Error *error) {
  char path[IO_PATH_MAX], seed[32], program[32], state[32], hash[17];
  snprintf(seed, sizeof seed, "%llu", (unsigned long long)facts->seed);
  snprintf(program, sizeof program, "%016llx", (unsigned long long)facts->program_hash);
  snprintf(state, sizeof state, "%016llx", (unsigned long long)facts->state_hash);
  json_t *root =
      json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:I, s:I, s:O, s:o}", "format", "mdl checkpoint",
                "version", CHECKPOINT_VERSION, "step", (json_int_t)facts->step, "batch", (json_int_t)facts->batch,
                "tokens", (json_int_t)facts->tokens, "skipped", (json_int_t)facts->skipped, "seed", seed,
                "program_hash", program, "state_hash", state, "data_bytes", (json_int_t)facts->data_bytes,
                "metrics_bytes", (json_int_t)facts->metrics_bytes, "files", files, "tensors", tensors_describe(states));
  if (root && saved->source) {
    json_object_set_new(root, CHECKPOINT_WEIGHTS_ALONE, json_true());
  }
  const bool hashed = root && checkpoint_manifest_hash(root, hash) &&
                      json_object_set_new(root, CHECKPOINT_MANIFEST_HASH, json_string(hash)) == 0;
  char *text = hashed ? json_dumps(root, JSON_INDENT(1)) : NULL;
  json_decref(root);
  if (!text) {
    return error_set(error, 3, "no memory to save %s/manifest.json", directory);
  }
  int fd;
  bool done = io_path(path, error, "%s/manifest.json", directory) && io_create(io, path, &fd, error);
  if (done) {
    Error ignored;
    done = io_write(io, fd, path, text, strlen(text), error) && io_write(io, fd, path, "\n", 1, error) &&
           io_sync(io, fd, path, error);
    done &= io_close(fd, path, done ? error : &ignored);
  }
  free(text);
  return done;
}

int64_t checkpoint_step_of_name(const char *name) {
  if (strncmp(name, "step-", 5) != 0 || strspn(name + 5, "0123456789") != strlen(name + 5)) {
    return -1;
  }
  size_t digits = strlen(name + 5);
  return digits < 8 || digits > 18 ? -1 : strtoll(name + 5, NULL, 10);
}

static int newest_first(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x > y ? -1 : x < y;
}

// The steps of all committed checkpoints, newest first, on the heap.
static bool steps_list(const char *directory, int64_t **steps, int *count, Error *error) {
  DIR *open = opendir(directory);
  *steps = NULL;
  *count = 0;
  if (!open) {
    return errno == ENOENT || error_set(error, 1, "cannot read %s: %s", directory, strerror(errno));
  }
  int capacity = 0;
  for (struct dirent *entry; (entry = readdir(open));) {
    int64_t step = checkpoint_step_of_name(entry->d_name);
    if (step < 0) {
      continue;
    }
    if (*count == capacity) {
      capacity = capacity ? capacity * 2 : 16;
      int64_t *longer = realloc(*steps, sizeof **steps * (size_t)capacity);
      if (!longer) {
        free(*steps);
        closedir(open);
        return error_set(error, 3, "no memory");
      }
      *steps = longer;
    }
    (*steps)[(*count)++] = step;
  }
  closedir(open);
  if (*count) {
    qsort(*steps, (size_t)*count, sizeof **steps, newest_first);
  }
  return true;
}

void checkpoint_clean(const char *directory) {
  DIR *open = opendir(directory);
  for (struct dirent *entry; open && (entry = readdir(open));) {
    char path[IO_PATH_MAX];
    Error ignored;
    if (strncmp(entry->d_name, "saving-", 7) == 0 && io_path(path, &ignored, "%s/%s", directory, entry->d_name)) {
      io_remove_tree(path);
    }
  }
  if (open) {
    closedir(open);
  }
}

// Removes all but the newest `keep`. A directory loses its committed name first, so that no half of it is ever found.
static void older_remove(const char *directory, int keep) {
  int64_t *steps;
  int count;
  Error ignored;
  if (keep < 1 || !steps_list(directory, &steps, &count, &ignored)) {
    return;
  }
  for (int i = keep; i < count; i++) {
    char from[IO_PATH_MAX], to[IO_PATH_MAX];
    if (io_path(from, &ignored, "%s/step-%08lld", directory, (long long)steps[i]) &&
        io_path(to, &ignored, "%s/saving-old-%08lld", directory, (long long)steps[i]) && rename(from, to) == 0) {
      io_remove_tree(to);
    }
  }
  free(steps);
}

static bool save(Io *io, const Saved *saved, const char *directory, const CheckpointFacts *facts, int keep,
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
  json_t *files = json_array();
  if (!files) {
    states_close(&states);
    return error_set(error, 3, "no memory");
  }
  io_remove_tree(temporary);
  bool done = io_make_path(directory, error) && io_make_directory(io, temporary, error);
  for (int i = 0; done && i < CHECKPOINT_FILE_COUNT; i++) {
    done = (saved->source && checkpoint_files[i].optimizer) ||
           file_write(io, saved, &states, temporary, &checkpoint_files[i], files, error);
  }
  done = done && (saved->source || tuning_write(io, saved->session, temporary, files, error)) &&
         manifest_write(io, saved, &states, temporary, facts, files, error) &&
         io_sync_directory(io, temporary, error) && io_exchange(io, temporary, final, &exchanged, error) &&
         io_sync_directory(io, directory, error);
  json_decref(files);
  states_close(&states);
  if (!done || exchanged) {
    io_remove_tree(temporary);
  }
  if (done) {
    older_remove(directory, keep);
  }
  return done;
}

bool checkpoint_save(Io *io, Session *session, const char *directory, const CheckpointFacts *facts, int keep,
                     Error *error) {
  return save(io, &(Saved){.session = session, .set = session->set}, directory, facts, keep, error);
}

bool checkpoint_save_weights(const PlanSet *set, const CheckpointSource *source, const char *directory,
                             const CheckpointFacts *facts, Error *error) {
  return save(NULL, &(Saved){.set = set, .source = source}, directory, facts, 0, error);
}

bool checkpoint_newest(const char *directory, char path[IO_PATH_MAX], bool *found, Error *error) {
  int64_t *steps;
  int count;
  if (!steps_list(directory, &steps, &count, error)) {
    return false;
  }
  *found = count > 0;
  bool done = !*found || io_path(path, error, "%s/step-%08lld", directory, (long long)steps[0]);
  free(steps);
  return done;
}
