// checkpoint_load.c: verifying a checkpoint and putting it on a device.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/json_guard.h"
#include "base/units.h"
#include "runtime/checkpoint.h"
#include "runtime/checkpoint_files.h"
#include "runtime/convert/pairs.h"
#include "runtime/frozen.h"
#include "runtime/manifest_facts.h"
#include "runtime/safetensors.h"
#include "runtime/states.h"

enum { MANIFEST_MAX = 256 << 20, NAMED_MAX = 6, STATUS_DAMAGED = 100 };

typedef struct {  // everything that does not fit, for one message
  Buffer text;
  int count, of_optimizer;  // all, and those where state of an optimizer is missing or left over
} Problems;

static void problem_add(Problems *problems, const char *name, const char *what) {
  if (problems->count++ < NAMED_MAX) {
    buffer_format(&problems->text, "%s'%.80s' %s", problems->count > 1 ? "; " : "", name, what);
  }
}

static bool problems_report(Problems *problems, const char *path, Error *error) {
  if (problems->count > 0) {
    int more = problems->count - NAMED_MAX;
    char rest[64] = "";
    if (more > 0) {
      snprintf(rest, sizeof rest, "; and %d more", more);
    }
    const char *whose = problems->of_optimizer == problems->count
                            ? "it was trained with another optimizer, or with other parameters frozen, so that its "
                              "state of the optimizer is not what this plan keeps; `--from` begins a run with its "
                              "weights alone: "
                            : "";
    error_set(error, 1, "the checkpoint %s does not fit the plan: %s%s%s", path, whose,
              problems->text.failed ? "no memory to say why" : problems->text.text, rest);
  }
  buffer_free(&problems->text);
  return problems->count == 0;
}

// What is wrong with the bytes of a checkpoint itself: another one may be whole. Never said where memory is missing.
static bool __attribute__((format(printf, 3, 4))) damaged(const char *path, Error *error, const char *format, ...) {
  char why[ERROR_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  return error_set(error, STATUS_DAMAGED, "the checkpoint %s is damaged: %s; mdl verify says which are whole", path,
                   why);
}

static bool manifest_damaged(const char *path, const char *why, Error *error) {
  return damaged(path, error, "manifest.json %s", why);
}

// STATUS_DAMAGED is known in this file alone: every function that others call ends with this. `facts` NULL: it tells
// nobody that the checkpoint is damaged, but in words.
static bool outcome(bool done, CheckpointFacts *facts, Error *error) {
  const bool is = !done && error->status == STATUS_DAMAGED;
  if (facts) {
    facts->damaged = is;
  }
  error->status = is ? 1 : error->status;
  return done;
}

// Its hash, format and version. What has a hash is held to it, whatever it says: a version that was changed is damage,
// and none of a program to come.
static bool manifest_holds(const char *path, json_t **root, Error *error) {
  char hash[17];
  if (!checkpoint_manifest_hash(*root, hash)) {
    json_decref(*root);
    return error_set(error, 3, "no memory to read %s/manifest.json", path);
  }
  const char *format = json_string_value(json_object_get(*root, "format"));
  const json_int_t version = json_integer_value(json_object_get(*root, "version"));
  const json_t *has = json_object_get(*root, CHECKPOINT_MANIFEST_HASH);
  const char *said = json_string_value(has);
  const bool known =
      format && strcmp(format, "mdl checkpoint") == 0 && version >= CHECKPOINT_OLDEST && version <= CHECKPOINT_VERSION;
  bool done = !(has || (known && version > 1)) || (said && strcmp(said, hash) == 0);
  if (!done) {
    manifest_damaged(path, "was changed: its hash does not fit what it says", error);
  } else if (!known) {
    done =
        error_set(error, 1, "%s is a checkpoint of format '%.80s' version %lld; this program reads versions %d to %d",
                  path, format ? format : "unknown", (long long)version, CHECKPOINT_OLDEST, CHECKPOINT_VERSION);
  }
  if (!done) {
    json_decref(*root);
  }
  return done;
}

static bool manifest_open(const char *path, json_t **root, Error *error) {
  char file[IO_PATH_MAX], *text;
  size_t size;
  json_error_t why = {0};
  if (!io_path(file, error, "%s/manifest.json", path)) {
    return false;
  }
  if (io_is_directory(path) && io_absent(file)) {
    return manifest_damaged(path, "is not there", error);
  }
  if (!io_read_file(file, MANIFEST_MAX, &text, &size, error)) {
    if (io_is_file(path)) {
      return damaged(path, error, "it is no directory");
    }
    return io_longer(file, MANIFEST_MAX) ? manifest_damaged(path, "is larger than any that was saved", error) : false;
  }
  bool starved;
  *root = json_read(text, size, JSON_REJECT_DUPLICATES, &why, &starved);
  free(text);
  if (starved) {
    return error_set(error, 3, "no memory to read %s", file);
  }
  if (!json_is_object(*root)) {
    json_decref(*root);
    return manifest_damaged(path, "is not JSON", error);
  }
  return manifest_holds(path, root, error);
}

bool checkpoint_manifest(const char *path, json_t **root, Error *error) {
  return outcome(manifest_open(path, root, error), NULL, error);
}

// The step that a directory is called by, or -1: it may have been given another name.
static int64_t step_of_path(const char *path) {
  char name[32];
  size_t end = strlen(path);
  while (end > 0 && path[end - 1] == '/') {
    end--;
  }
  size_t begin = end;
  while (begin > 0 && path[begin - 1] != '/') {
    begin--;
  }
  if (end - begin >= sizeof name) {
    return -1;
  }
  memcpy(name, path + begin, end - begin);
  name[end - begin] = '\0';
  return checkpoint_step_of_name(name);
}

// Its directory says the same step.
static bool manifest_facts(const json_t *root, const char *path, CheckpointFacts *facts, Error *error) {
  const char *wrong = manifest_facts_read(root, facts);
  const int64_t named = step_of_path(path);
  if (!wrong && named >= 0 && named != facts->step) {
    return damaged(path, error, "manifest.json is of step %lld, which the directory is not called by",
                   (long long)facts->step);
  }
  return !wrong || manifest_damaged(path, wrong, error);
}

bool checkpoint_facts(const char *path, CheckpointFacts *facts, Error *error) {
  json_t *root;
  *facts = (CheckpointFacts){.val_loss = NAN};
  if (!manifest_open(path, &root, error)) {
    return outcome(false, facts, error);
  }
  const bool done = manifest_facts(root, path, facts, error);
  json_decref(root);
  return outcome(done, facts, error);
}

static bool file_hash(const char *path, int64_t bytes, uint64_t *hash, Error *error) {
  enum { PIECE = 1 << 20 };
  int fd;
  if (!io_open(path, O_RDONLY, &fd, error)) {
    return false;
  }
  char *piece = malloc(bytes > 0 && bytes < PIECE ? (size_t)bytes : PIECE);
  XXH3_state_t *state = XXH3_createState();
  bool done = (piece && state) || error_set(error, 3, "no memory to read %s", path);
  if (done) {
    XXH3_64bits_reset(state);
  }
  for (int64_t at = 0; done && at < bytes; at += PIECE) {
    size_t now = bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
    done = io_read(fd, path, at, piece, now, error);
    if (done) {
      XXH3_64bits_update(state, piece, now);
    }
  }
  if (done) {
    *hash = XXH3_64bits_digest(state);
  }
  close(fd);
  free(piece);
  XXH3_freeState(state);
  return done;
}

static const json_t *file_listed(const json_t *root, const char *name) {
  size_t i;
  json_t *entry, *found = NULL;
  json_array_foreach(json_object_get(root, "files"), i, entry) {
    const char *listed = json_string_value(json_object_get(entry, "name"));
    if (listed && strcmp(listed, name) == 0) {
      found = entry;
    }
  }
  return found;
}

// In how many parts the manifest has a file; 1 too if it does not list it.
static int file_parts(const json_t *root, const CheckpointFile *file) {
  size_t i;
  json_t *entry;
  int parts = 1;
  json_array_foreach(json_object_get(root, "files"), i, entry) {
    const char *listed = json_string_value(json_object_get(entry, "name"));
    char name[CHECKPOINT_NAME_MAX];
    const char *of = listed ? strstr(listed, "-of-") : NULL;
    const long count = of ? strtol(of + strlen("-of-"), NULL, 10) : 0;
    if (count > 1 && count <= CHECKPOINT_PARTS_MAX) {
      checkpoint_part_name(file, 1, (int)count, name);
      parts = strcmp(name, listed) == 0 ? (int)count : parts;
    }
  }
  return file_listed(root, file->name) ? 1 : parts;
}

// Size and hash of one file against the manifest.
static bool file_verify(const json_t *root, const char *path, const char *name, Error *error) {
  char file[IO_PATH_MAX];
  const json_t *found = file_listed(root, name);
  int64_t bytes;
  uint64_t expected, actual = 0;
  if (!found || !manifest_number(found, "bytes", &bytes) || !manifest_word(found, "xxh3_64", 16, &expected)) {
    return manifest_damaged(path, "does not list its files", error);
  }
  struct stat info;
  if (!io_path(file, error, "%s/%s", path, name)) {
    return false;
  }
  if (stat(file, &info) != 0) {
    return errno == ENOENT ? damaged(path, error, "%s is not there", name) : io_failed("read", file, error);
  }
  if (info.st_size != bytes) {
    return damaged(path, error, "%s has %lld bytes, the manifest says %lld", name, (long long)info.st_size,
                   (long long)bytes);
  }
  if (!file_hash(file, bytes, &actual, error)) {
    return false;
  }
  return actual == expected || damaged(path, error, "%s has hash %016llx, the manifest says %016llx", name,
                                       (unsigned long long)actual, (unsigned long long)expected);
}

// A part, behind those that are open. What it holds may be damaged where its hash fits too.
static bool part_open(const char *path, Safetensors **opened, Error *error) {
  Safetensors *one = NULL;
  bool is_damaged;
  bool done = safetensors_open_judging(path, &one, &is_damaged, error);
  if (done && *opened) {
    done = safetensors_join(*opened, one, error);
    is_damaged = !done;
  }
  *opened = *opened ? *opened : one;
  error->status = is_damaged ? STATUS_DAMAGED : error->status;
  return done;
}

// Is a tensor that the manifest says this of in the right file?
static bool is_held(const json_t *said, const CheckpointFile *file) {
  const char *role = json_string_value(json_object_get(said, "role"));
  bool held = false;
  for (int i = 0; role && i < (int)(sizeof file->holds / sizeof *file->holds); i++) {
    held |= file->holds[i] && strcmp(role, checkpoint_role_name((StateRole)i)) == 0;
  }
  return held;
}

// Tensors of one file against what the manifest says of them. Those of version 1 say it too.
static bool tensors_match(const json_t *root, const char *path, const CheckpointFile *file, const Safetensors *open,
                          Error *error) {
  const json_t *tensors = json_object_get(root, "tensors");
  for (int i = 0; i < safetensors_count(open); i++) {
    const SafetensorsTensor *tensor = safetensors_at(open, i);
    const json_t *said = json_object_get(tensors, tensor->name), *shape = json_object_get(said, "shape");
    bool same = is_held(said, file) && json_is_array(shape) && json_array_size(shape) == (size_t)tensor->axis_count;
    for (int a = 0; same && a < tensor->axis_count; a++) {
      same = json_integer_value(json_array_get(shape, (size_t)a)) == tensor->size[a];
    }
    if (!same) {
      return damaged(path, error, "'%.80s' in %s is not what the manifest lists", tensor->name, file->name);
    }
  }
  return true;
}

static bool files_named(const json_t *root, const char *path, Error *error) {
  size_t i;
  json_t *entry;
  json_array_foreach(json_object_get(root, "files"), i, entry) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    if (!name || !*name || *name == '.' || strchr(name, '/')) {
      return manifest_damaged(path, "lists a file that is none of a checkpoint", error);
    }
  }
  return true;
}

// All parts of a file, as one, which hold what the manifest lists. verify: sizes and hashes too.
static bool file_open(const json_t *root, const char *path, const CheckpointFile *file, bool verify,
                      Safetensors **opened, Error *error) {
  const int parts = file_parts(root, file);
  bool done = files_named(root, path, error);
  *opened = NULL;
  for (int part = 1; done && part <= parts; part++) {
    char name[CHECKPOINT_NAME_MAX], whole[IO_PATH_MAX];
    checkpoint_part_name(file, part, parts, name);
    done = io_path(whole, error, "%s/%s", path, name) &&
           (verify ? file_verify(root, path, name, error)
                   : file_listed(root, name) || manifest_damaged(path, "does not list its files", error)) &&
           part_open(whole, opened, error);
  }
  done = done && tensors_match(root, path, file, *opened, error);
  if (!done) {
    safetensors_close(*opened);
    *opened = NULL;
  }
  return done;
}

static void shape_write(char *text, size_t capacity, int count, const int64_t *size) {
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; i < count && used + 24 < capacity; i++) {
    used += (size_t)snprintf(text + used, capacity - used, "%s%lld", i ? ", " : "", (long long)size[i]);
  }
}

// Which parameters are frozen, and in which format those are, may be another in the run that reads them.
static bool is_converted(const PlanState *state, const SafetensorsTensor *tensor) {
  const bool from = strcmp(tensor->dtype, "F32") == 0 || strcmp(tensor->dtype, "BF16") == 0;
  return state->role == STATE_PARAMETER && from && (state->type == TYPE_F32 || state->type == TYPE_BF16);
}

static bool is_same(const PlanState *state, const SafetensorsTensor *tensor) {
  bool same = tensor && tensor->axis_count == state->axis_count &&
              (strcmp(tensor->dtype, element_type_dtype(state->type)) == 0 || is_converted(state, tensor));
  for (int i = 0; same && i < state->axis_count; i++) {
    same = tensor->size[i] == state->size[i];
  }
  return same;
}

static void state_compare(const PlanState *state, const SafetensorsTensor *tensor, Problems *problems) {
  if (!tensor && !checkpoint_begins_anew(state->name)) {
    problem_add(problems, state->name, "is missing");
    problems->of_optimizer += state->role == STATE_OPTIMIZER;
    return;
  }
  if (!is_same(state, tensor) && !checkpoint_begins_anew(state->name)) {
    char is[128], wanted[128], what[400];
    shape_write(is, sizeof is, tensor->axis_count, tensor->size);
    shape_write(wanted, sizeof wanted, state->axis_count, state->size);
    snprintf(what, sizeof what, "is %s [%s] there, %s [%s] in the plan", tensor->dtype, is,
             element_type_dtype(state->type), wanted);
    problem_add(problems, state->name, what);
  }
}

static bool is_left_out(const Frozen *frozen, const Safetensors *tensors, const char *name) {
  return frozen_find(frozen, name) && !safetensors_find(tensors, name);
}

static void file_compare(const States *states, const CheckpointFile *file, const Safetensors *tensors,
                         const Frozen *frozen, Problems *problems) {
  for (int i = 0; i < states->count; i++) {
    const PlanState *state = states->at[i].state;
    if (file->holds[state->role] && !is_left_out(frozen, tensors, state->name)) {
      state_compare(state, safetensors_find(tensors, state->name), problems);
    }
  }
  for (int i = 0; i < safetensors_count(tensors); i++) {
    const char *name = safetensors_at(tensors, i)->name;
    const LogicalState *state = states_find(states, name);
    if ((!state || !file->holds[state->state->role]) && !checkpoint_begins_anew(name)) {
      problem_add(problems, name, "is there, but not in the plan");
      problems->of_optimizer += file->holds[STATE_OPTIMIZER] && !file->holds[STATE_PARAMETER];
    }
  }
}

static bool tensor_read(const Safetensors *file, const SafetensorsTensor *tensor, const States *states,
                        const LogicalState *logical, void *dense, Error *error) {
  const PlanState *state = logical->state;
  if (strcmp(tensor->dtype, element_type_dtype(state->type)) == 0) {
    return safetensors_read(file, tensor, dense, error);
  }
  char *raw = malloc((size_t)(tensor->end - tensor->begin) + 1);
  const bool done = (raw || error_set(error, 3, "no memory to load '%s'", state->name)) &&
                    safetensors_read(file, tensor, raw, error) &&
                    elements_take(state->name, tensor->dtype, raw, state->type, dense,
                                  state_bytes(state) / element_type_bytes(state->type), error);
  if (done && strcmp(tensor->dtype, element_type_dtype(TYPE_F32)) == 0) {
    state_round_once(states, logical, TYPE_F32, raw, dense);
  }
  free(raw);
  return done;
}

static bool state_load(Session *session, const States *states, const LogicalState *state, const Safetensors *file,
                       Error *error) {
  const char *name = state->state->name;
  int64_t bytes = state_bytes(state->state);
  char *dense = calloc(1, (size_t)bytes + 1);
  char size[UNITS_MAX];
  bool done = dense || error_set(error, 3, "no memory to load '%s', %s", name, units_bytes(size, (double)bytes));
  const SafetensorsTensor *tensor = safetensors_find(file, name);
  const bool begins =
      checkpoint_begins_anew(name) && !is_same(state->state, tensor);  // with zeros: nothing is known yet
  done = done && (begins || tensor_read(file, tensor, states, state, dense, error)) &&
         state_scatter(session, states, state, dense, error);
  free(dense);
  return done;
}

static bool weights_alone(const json_t *root) {
  return json_is_true(json_object_get(root, CHECKPOINT_WEIGHTS_ALONE));
}

static bool files_load(Session *session, const States *states, const char *path, bool optimizer, const json_t *root,
                       const Frozen *frozen, Error *error) {
  Safetensors *open[CHECKPOINT_FILE_COUNT] = {0};
  Problems problems = {0};
  bool done = true;
  for (int f = 0; done && f < CHECKPOINT_FILE_COUNT; f++) {
    const CheckpointFile *file = &checkpoint_files[f];
    if (file->optimizer && (!optimizer || weights_alone(root))) {
      continue;
    }
    done = file_open(root, path, file, true, &open[f], error);
    if (done) {
      file_compare(states, file, open[f], frozen, &problems);
    }
  }
  done = problems_report(&problems, path, done ? error : &(Error){0}) && done;
  for (int f = 0; f < CHECKPOINT_FILE_COUNT; f++) {
    for (int i = 0; done && open[f] && i < states->count; i++) {
      const PlanState *state = states->at[i].state;
      if (checkpoint_files[f].holds[state->role] && !is_left_out(frozen, open[f], state->name)) {
        done = state_load(session, states, &states->at[i], open[f], error);
      }
    }
    safetensors_close(open[f]);
  }
  return done;
}

bool checkpoint_load(Session *session, const char *path, bool optimizer, CheckpointFacts *facts, Error *error) {
  json_t *root;
  *facts = (CheckpointFacts){.val_loss = NAN};
  if (!manifest_open(path, &root, error)) {
    return outcome(false, facts, error);
  }
  States states;
  Arena *arena = arena_create();
  Frozen *frozen = NULL;
  bool done = (arena || error_set(error, 3, "no memory")) && manifest_facts(root, path, facts, error) &&
              (frozen_read(arena, root, &frozen) || manifest_damaged(path, "does not say what is frozen", error)) &&
              states_open(session->set, &states, error);
  if (done) {
    done = (!optimizer || !weights_alone(root) || session_run(session, PROGRAM_INITIALISE, 0, error)) &&
           (frozen ? frozen_load(session, path, frozen, error) : frozen_moved(NULL, session->trunk, error)) &&
           files_load(session, &states, path, optimizer, root, frozen, error) && session_refresh(session, error);
    states_close(&states);
  }
  arena_destroy(arena);
  json_decref(root);
  session->step = facts->step;
  return outcome(done, facts, error);
}

bool checkpoint_frozen(Arena *arena, const char *path, Frozen **frozen, Error *error) {
  json_t *root;
  if (!manifest_open(path, &root, error)) {
    return outcome(false, NULL, error);
  }
  const bool done = frozen_read(arena, root, frozen) || manifest_damaged(path, "does not say what is frozen", error);
  json_decref(root);
  return outcome(done, NULL, error);
}

static bool files_verify(const json_t *root, const char *path, Error *error) {
  size_t i, seen = 0;
  json_t *entry;
  const json_t *files = json_object_get(root, "files"), *tensors = json_object_get(root, "tensors");
  bool done = (json_array_size(files) > 0 || manifest_damaged(path, "does not list its files", error)) &&
              files_named(root, path, error);
  json_array_foreach(files, i, entry) {
    done = done && file_verify(root, path, json_string_value(json_object_get(entry, "name")), error);
  }
  for (int f = 0; done && f < CHECKPOINT_FILE_COUNT; f++) {
    Safetensors *open = NULL;
    done = (checkpoint_files[f].optimizer && weights_alone(root)) ||
           file_open(root, path, &checkpoint_files[f], false, &open, error);
    seen += open ? (size_t)safetensors_count(open) : 0;
    safetensors_close(open);
  }
  return done &&
         (seen == json_object_size(tensors) ||
          damaged(path, error, "the manifest lists %zu tensors, the files hold %zu", json_object_size(tensors), seen));
}

bool checkpoint_verify(const char *path, CheckpointFacts *facts, Error *error) {
  json_t *root;
  *facts = (CheckpointFacts){.val_loss = NAN};
  if (!manifest_open(path, &root, error)) {
    return outcome(false, facts, error);
  }
  const bool done = manifest_facts(root, path, facts, error) && files_verify(root, path, error);
  json_decref(root);
  return outcome(done, facts, error);
}

bool checkpoint_open_weights(const char *path, Safetensors **file, json_t **manifest, Error *error) {
  json_t *root;
  *file = NULL;
  if (!manifest_open(path, &root, error)) {
    return outcome(false, NULL, error);
  }
  const bool done = file_open(root, path, &checkpoint_files[0], true, file, error);
  if (done && manifest) {
    *manifest = root;
  } else {
    json_decref(root);
  }
  return outcome(done, NULL, error);
}

bool checkpoint_parts(const char *path, int parts[CHECKPOINT_FILE_COUNT], Error *error) {
  json_t *root;
  if (!manifest_open(path, &root, error)) {
    return outcome(false, NULL, error);
  }
  for (int f = 0; f < CHECKPOINT_FILE_COUNT; f++) {
    parts[f] = checkpoint_files[f].optimizer && weights_alone(root) ? 0 : file_parts(root, &checkpoint_files[f]);
  }
  json_decref(root);
  return true;
}

bool checkpoint_open(const char *path, int file, Safetensors **opened, Error *error) {
  json_t *root;
  if (!manifest_open(path, &root, error)) {
    return outcome(false, NULL, error);
  }
  const bool done = file_open(root, path, &checkpoint_files[file], false, opened, error);
  json_decref(root);
  return outcome(done, NULL, error);
}
