// checkpoint.c: saving. Loading is in checkpoint_load.c, and which are kept in checkpoint_keep.c.
#include "runtime/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/units.h"
#include "runtime/checkpoint_files.h"
#include "runtime/element.h"
#include "runtime/frozen.h"
#include "runtime/json_guard.h"
#include "runtime/safetensors.h"
#include "runtime/states.h"

const CheckpointFile checkpoint_files[CHECKPOINT_FILE_COUNT] = {
    {"model.safetensors", {true, false, true}, false},
    {"optimizer.safetensors", {false, true, false}, true},
};

typedef struct {
  const char *name;
  int64_t bytes;
  char hash[17];
} Written;

typedef struct {  // files that are written, for the manifest
  Written at[CHECKPOINT_FILE_COUNT + 1];
  int count;
} WrittenList;

typedef struct {  // what is saved: the state of all ranks, or weights that come from elsewhere
  const PlanSet *set;
  const CheckpointSource *source;  // NULL: the ranks
  const StateReader *reader;       // of the ranks
  const Buffer *tuning;            // what devices chose by measuring, if they did
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

// Of formats whose exponent is all ones in what is not finite: bits but for the sign, from those of an infinity on.
// Pieces of fixed size are what compilers make vector code of.
#define FINITE(name, Bits, infinity)                                 \
  static bool name(const char *data, int64_t count) {                \
    enum { PIECE = 64 };                                             \
    Bits most = 0;                                                   \
    int64_t i = 0;                                                   \
    for (; i + PIECE <= count; i += PIECE) {                         \
      Bits piece[PIECE];                                             \
      memcpy(piece, data + i * (int64_t)sizeof(Bits), sizeof piece); \
      for (int k = 0; k < PIECE; k++) {                              \
        const Bits bits = (Bits)(piece[k] << 1);                     \
        most = bits > most ? bits : most;                            \
      }                                                              \
    }                                                                \
    for (; i < count; i++) {                                         \
      Bits bits;                                                     \
      memcpy(&bits, data + i * (int64_t)sizeof bits, sizeof bits);   \
      bits = (Bits)(bits << 1);                                      \
      most = bits > most ? bits : most;                              \
    }                                                                \
    return most < (Bits)((infinity) << 1);                           \
  }

FINITE(finite_f32, uint32_t, 0x7f800000u)
FINITE(finite_bf16, uint16_t, 0x7f80u)

static bool elements_finite(ElementType type, const char *data, int64_t bytes) {
  const int64_t size = element_type_bytes(type), count = bytes / size;
  if (!element_type_floating(type)) {
    return true;
  }
  if (type == TYPE_F32 || type == TYPE_BF16) {
    return type == TYPE_F32 ? finite_f32(data, count) : finite_bf16(data, count);
  }
  bool finite = true;
  for (int64_t i = 0; i < count && finite; i++) {
    finite = isfinite(element_get(type, data + i * size));
  }
  return finite;
}

// State of the model may hold an infinity that the text put there; so may histories of largest numbers.
static void state_judge(const PlanState *state, const char *dense, CheckpointFacts *facts) {
  const bool judged =
      (state->role == STATE_PARAMETER || state->role == STATE_OPTIMIZER) && !checkpoint_is_history(state->name);
  if (judged && !facts->not_finite[0] && !elements_finite(state->type, dense, state_bytes(state))) {
    snprintf(facts->not_finite, sizeof facts->not_finite, "%s", state->name);
  }
}

static bool is_written(const PlanState *state, const CheckpointFile *file, const CheckpointFacts *facts) {
  return file->holds[state->role] && !frozen_find(facts->frozen, state->name);
}

// Tensors go into the file one after the other: no more than one is in memory whole, in memory that has room for each.
static bool states_write(Writer *writer, const Saved *saved, const States *states, const CheckpointFile *file,
                         CheckpointFacts *facts, Error *error) {
  int64_t most = 0;
  for (int i = 0; i < states->count; i++) {
    const PlanState *state = states->at[i].state;
    most = is_written(state, file, facts) && state_bytes(state) > most ? state_bytes(state) : most;
  }
  char *dense = malloc((size_t)most + 1);
  char size[UNITS_MAX];
  bool done = dense || error_set(error, 3, "no memory to save %s, %s", writer->path, units_bytes(size, (double)most));
  for (int i = 0; done && i < states->count; i++) {
    const LogicalState *state = &states->at[i];
    if (is_written(state->state, file, facts)) {
      done = (saved->source ? saved->source->read(saved->source->context, state->state, dense, error)
                            : state_gather_with(saved->reader, states, state, dense, error)) &&
             writer_put(writer, dense, (size_t)state_bytes(state->state), error);
      if (done) {
        state_judge(state->state, dense, facts);
      }
    }
  }
  free(dense);
  return done;
}

static bool tensors_write(Writer *writer, const Saved *saved, const States *states, const CheckpointFile *file,
                          CheckpointFacts *facts, Error *error) {
  SafetensorsTensor *tensors = calloc((size_t)states->count + 1, sizeof *tensors);
  Buffer header = {0};
  int count = 0;
  for (int i = 0; tensors && i < states->count; i++) {
    const PlanState *state = states->at[i].state;
    if (is_written(state, file, facts)) {
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
  done = done && writer_put(writer, header.text, header.length, error) &&
         states_write(writer, saved, states, file, facts, error);
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
static bool writer_end(Writer *writer, bool done, const char *name, WrittenList *files, Error *error) {
  Error ignored;
  char hex[32];
  done = done && io_sync(writer->io, writer->fd, writer->path, error);
  done &= io_close(writer->fd, writer->path, done ? error : &ignored);
  snprintf(hex, sizeof hex, "%016llx", (unsigned long long)XXH3_64bits_digest(writer->hash));
  XXH3_freeState(writer->hash);
  if (done) {
    Written *written = &files->at[files->count++];
    *written = (Written){.name = name, .bytes = writer->bytes};
    snprintf(written->hash, sizeof written->hash, "%.16s", hex);
  }
  return done;
}

static bool file_write(Io *io, const Saved *saved, const States *states, const char *directory,
                       const CheckpointFile *file, WrittenList *files, CheckpointFacts *facts, Error *error) {
  Writer writer;
  return writer_begin(&writer, io, directory, file->name, error) &&
         writer_end(&writer, tensors_write(&writer, saved, states, file, facts, error), file->name, files, error);
}

static bool tuning_write(Io *io, const Buffer *text, const char *directory, WrittenList *files, Error *error) {
  Writer writer;
  if (text->failed) {
    return error_set(error, 3, "no memory to save %s", CHECKPOINT_TUNING);
  }
  return text->length == 0 ||
         (writer_begin(&writer, io, directory, CHECKPOINT_TUNING, error) &&
          writer_end(&writer, writer_put(&writer, text->text, text->length, error), CHECKPOINT_TUNING, files, error));
}

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

typedef struct {
  json_t *root;
  char *text;
} Hashing;

static void hash_work(void *context) {
  Hashing *hashing = context;
  json_t *bare = json_deep_copy(hashing->root);  // shared values would stay counted if the copy were left half made
  json_object_del(bare, CHECKPOINT_MANIFEST_HASH);
  hashing->text = bare ? json_dumps(bare, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
  json_decref(bare);
}

static bool manifest_hash(Hashing *hashing, char hex[17]) {
  const char *text = hashing->text;
  snprintf(hex, 17, "%016llx", text ? (unsigned long long)XXH3_64bits(text, strlen(text)) : 0);
  json_guard_free(hashing->text);
  return text != NULL;
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

static json_t *word(uint64_t number) {
  char text[32];
  snprintf(text, sizeof text, "%016llx", (unsigned long long)number);
  return json_string(text);
}

static bool facts_describe(json_t *root, const CheckpointFacts *facts) {
  char seed[32];
  const struct {
    const char *key;
    json_t *value;
  } entries[] = {{"batch", json_integer((json_int_t)facts->batch)},
                 {"tokens", json_integer((json_int_t)facts->tokens)},
                 {"skipped", json_integer((json_int_t)facts->skipped)},
                 {"bad_steps", json_integer((json_int_t)facts->bad_steps)},
                 {"finite", json_boolean(!facts->not_finite[0])},
                 {"not_finite", facts->not_finite[0] ? json_string(facts->not_finite) : NULL},
                 {"val_loss", isfinite(facts->val_loss) ? json_real(facts->val_loss) : NULL},
                 {"seed", (snprintf(seed, sizeof seed, "%llu", (unsigned long long)facts->seed), json_string(seed))},
                 {"program_hash", word(facts->program_hash)},
                 {"state_hash", word(facts->state_hash)},
                 {"data_bytes", json_integer((json_int_t)facts->data_bytes)},
                 {"data_hash", word(facts->data_hash)},
                 {"tokenizer_hash", word(facts->tokenizer_hash)},
                 {"validation_hash", facts->validation_hash ? word(facts->validation_hash) : NULL},
                 {"metrics_bytes", json_integer((json_int_t)facts->metrics_bytes)}};
  bool made = true;
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    made = (!entries[i].value || json_object_set_new(root, entries[i].key, entries[i].value) == 0) && made;
  }
  return made;
}

static void manifest_work(void *context) {
  Manifest *manifest = context;
  char hash[17];
  json_t *root = json_pack("{s:s, s:i, s:I}", "format", "mdl checkpoint", "version", CHECKPOINT_VERSION, "step",
                           (json_int_t)manifest->facts->step);
  Hashing hashing = {.root = root};
  bool made = root && facts_describe(root, manifest->facts) &&
              json_object_set_new(root, "files", files_describe(manifest->files)) == 0 &&
              json_object_set_new(root, "tensors",
                                  tensors_describe(manifest->states, manifest->alone, manifest->facts->frozen)) == 0 &&
              (!manifest->facts->frozen ||
               json_object_set_new(root, FROZEN_KEY, frozen_describe(manifest->facts->frozen)) == 0) &&
              (!manifest->alone || json_object_set_new(root, CHECKPOINT_WEIGHTS_ALONE, json_true()) == 0);
  if (made) {
    hash_work(&hashing);
    made = manifest_hash(&hashing, hash) && json_object_set_new(root, CHECKPOINT_MANIFEST_HASH, json_string(hash)) == 0;
  }
  manifest->text = made ? json_dumps(root, JSON_INDENT(1)) : NULL;
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
  facts->not_finite[0] = '\0';
  bool done = io_make_path(directory, error) && io_space(io, directory, bytes_needed(&states, facts->frozen), error) &&
              io_make_directory(io, temporary, error);
  for (int i = 0; done && i < CHECKPOINT_FILE_COUNT; i++) {
    done = (saved->source && checkpoint_files[i].optimizer) ||
           file_write(io, saved, &states, temporary, &checkpoint_files[i], &files, facts, error);
  }
  done = done && (saved->source || tuning_write(io, saved->tuning, temporary, &files, error)) &&
         manifest_write(io, saved, &states, temporary, facts, &files, error) &&
         io_sync_directory(io, temporary, error) && io_exchange(io, temporary, final, &exchanged, error) &&
         io_sync_directory(io, directory, error);
  states_close(&states);
  if (!done || exchanged) {
    io_remove_tree(temporary);
  }
  if (done) {
    checkpoint_rotate(directory, keep, facts->step);
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
