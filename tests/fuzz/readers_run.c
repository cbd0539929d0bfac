// readers_run.c: readers of what a run leaves behind: tensors, manifests, metrics and tuning records.
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/checkpoint.h"
#include "runtime/checkpoint_files.h"
#include "runtime/cuda/tuning.h"
#include "runtime/frozen.h"
#include "runtime/metrics.h"
#include "runtime/safetensors.h"
#include "runtime/session.h"
#include "tests/fuzz/readers.h"
#include "tests/fuzz/scratch.h"
#include "tests/toy.h"

// --- tensors ---

bool read_safetensors(const uint8_t *bytes, size_t length) {
  const char *path = scratch_file("tensors.safetensors", bytes, length);
  Safetensors *file = NULL;
  Error error = {0};
  const bool good = safetensors_open(path, &file, &error);
  scratch_answered(good, &error);
  for (int i = 0; good && i < safetensors_count(file); i++) {
    const SafetensorsTensor *tensor = safetensors_at(file, i);
    const size_t size = (size_t)(tensor->end - tensor->begin);
    void *data = malloc(size + 1);
    if (!data || size > length || safetensors_find(file, tensor->name) != tensor ||
        !safetensors_name_holds(tensor->name) || !safetensors_read(file, tensor, data, &error)) {
      abort();
    }
    free(data);
  }
  if (good) {
    safetensors_metadata(file, "format");
    safetensors_close(file);
  }
  return good;
}

// --- manifests ---

enum { TABLE = 4 };  // rows and columns

// A plan with two small tensors, saved once: manifests are read beside its files, and loaded into it.
static Session *session_of(const char **directory) {
  static Session session;
  static char step[IO_PATH_MAX];
  static Arena *arena;  // of the plan, for as long as the process
  if (!session.set) {
    Error error = {0};
    CheckpointFacts facts = {.step = 1};
    arena = arena_create();
    Plan *plan = toy_plan(arena, "text", 4, 8, 1, false);
    for (int i = 0; i < plan->state_count; i++) {
      PlanState *state = &plan->states[i];
      state->size[0] = state->size[1] = TABLE;
      state->stride[0] = state->stride[0] == 1 ? 1 : TABLE;
      state->stride[1] = state->stride[1] == 1 ? 1 : TABLE;
    }
    const char *run = scratch_begin();
    if (!session_open(&session, plan, &toy_backend, 1, &error) ||
        !checkpoint_save(NULL, &session, run, &facts, NULL, &error) ||
        !io_path(step, &error, "%s/step-00000001", run)) {
      fprintf(stderr, "%s\n", error.text);
      abort();
    }
    scratch_adopt(step, "run/step-00000001");
  }
  *directory = scratch_path("run/step-00000001");
  return &session;
}

// Of files that are there, the length and hash that they have: so that not all that is changed is refused for these.
static void files_right(json_t *root) {
  size_t i;
  json_t *entry;
  json_array_foreach(json_object_get(root, "files"), i, entry) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    const json_t *bytes = json_object_get(entry, "bytes");
    char path[IO_PATH_MAX], hex[17];
    const char *directory;
    Error error = {0};
    char *text;
    size_t size;
    session_of(&directory);
    if (name && !strchr(name, '/') && json_integer_value(bytes) == 1 &&
        io_path(path, &error, "%s/%s", directory, name) && io_read_file(path, 1 << 20, &text, &size, &error)) {
      snprintf(hex, sizeof hex, "%016" PRIx64, (uint64_t)XXH3_64bits(text, size));
      json_object_set_new(entry, "bytes", json_integer((json_int_t)size));
      json_object_set_new(entry, "xxh3_64", json_string(hex));
      free(text);
    }
  }
}

// The same with the hashes that fit, or the bytes themselves where they are no object.
static void manifest_put(const char *path, const uint8_t *bytes, size_t length) {
  char hash[17];
  json_t *root = json_loadb((const char *)bytes, length, 0, NULL);
  files_right(root);
  if (json_is_object(root) && checkpoint_manifest_hash(root, hash)) {
    json_object_set_new(root, CHECKPOINT_MANIFEST_HASH, json_string(hash));
  }
  char *text = json_is_object(root) ? json_dumps(root, JSON_COMPACT) : NULL;
  scratch_file(path, text ? text : (const char *)bytes, text ? strlen(text) : length);
  free(text);
  json_decref(root);
}

bool read_manifest(const uint8_t *bytes, size_t length) {
  const char *directory;
  Session *session = session_of(&directory);
  CheckpointFacts facts;
  Error error = {0};
  Arena *arena = arena_create();
  Frozen *frozen = NULL;
  manifest_put("run/step-00000001/manifest.json", bytes, length);
  bool good = checkpoint_facts(directory, &facts, &error);
  scratch_answered(good, &error);
  error = (Error){0};
  good &= checkpoint_verify(directory, &facts, &error);
  scratch_answered(good || error.status, &error);
  error = (Error){0};
  const bool loads = checkpoint_load(session, directory, length % 2 == 0, &facts, &error);
  scratch_answered(loads, &error);
  if (checkpoint_frozen(arena, directory, &frozen, &error) && frozen) {
    good &= frozen_find(frozen, "table") != NULL;
  }
  arena_destroy(arena);
  return good || loads;
}

// --- metrics ---

bool read_metrics(const uint8_t *bytes, size_t length) {
  const char *path = scratch_file("metrics.jsonl", bytes, length);
  scratch_remove("metrics.jsonl" METRICS_DAMAGED);  // of the input before: each has a name of its own
  MetricsPoint *points = NULL;
  int64_t count = 0, bad = 0;
  Error error = {0};
  Metrics metrics;
  bool good = metrics_read_counting(path, &points, &count, &bad, &error);
  scratch_answered(good, &error);
  free(points);
  const int64_t lines = count;
  good &= metrics_open(&metrics, path, INT64_MAX, &error);
  scratch_answered(good, &error);
  if (good && (metrics.count != lines || metrics.bad_lines != bad)) {
    abort();
  }
  const MetricsLine line = {.step = 7, .loss = 1};
  good &= metrics_write(&metrics, &line, &error);
  metrics_close(&metrics);
  // What is left is all good, with the line that was added.
  if (!good || !metrics_read_counting(path, &points, &count, &bad, &error) || bad != 0 || count != lines + 1) {
    fprintf(stderr, "metrics.jsonl is not whole: %s\n", error.text);
    abort();
  }
  free(points);
  return lines > 0;
}

// --- tuning records ---

static const char machine[] = "mdl tuning 1, a test, driver 1, library 1";

// Each line with the check that fits the rest of it, behind the line that says what the record holds for.
static void record_right(const char *text, Buffer *out) {
  for (const char *at = text; *at;) {
    const int length = (int)strcspn(at, "\n"), body = (int)strcspn(at, "\t\n");
    const char *time = at + body,
               *algorithm = body < length ? memchr(time + 1, '\t', (size_t)(length - body - 1)) : NULL;
    const char *check = algorithm ? memchr(algorithm + 1, '\t', (size_t)(at + length - algorithm - 1)) : NULL;
    if (check) {
      const uint64_t seed = XXH64(at, (size_t)body, 0);
      buffer_bytes(out, at, (size_t)(check - at) + 1);
      buffer_format(out, "%016" PRIx64, (uint64_t)XXH64(algorithm + 1, (size_t)(check - algorithm) - 1, seed));
    } else {
      buffer_bytes(out, at, (size_t)length);
    }
    buffer_bytes(out, "\n", at[length] == '\n');
    at += length + (at[length] == '\n');
  }
}

// Every problem that the record names.
static int record_ask(Tuning *tuning, char *text) {
  unsigned char algorithm[8];
  int found = 0;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    line[strcspn(line, "\t")] = '\0';
    found += tuning_find(tuning, line, algorithm, sizeof algorithm);
  }
  return found;
}

bool read_tuning(const uint8_t *bytes, size_t length) {
  char *text = scratch_text(bytes, length), message[512];
  Buffer right = {0}, out = {0};
  Arena *arena = arena_create();
  bool adopted;
  record_right(text, &right);
  const char *path = scratch_file("tuning.txt", right.text, right.length);
  setenv("MDL_TUNING", path, 1);
  Tuning *tuning = tuning_open(arena, machine, right.text);
  int found = record_ask(tuning, text);
  tuning_add(tuning, "one", "12345678", 8, 1.5);
  if (tuning_keep(tuning, &adopted, message, sizeof message)) {
    tuning_text(tuning, &out);
    Tuning *again = tuning_open(arena, machine, out.text);
    unsigned char algorithm[8];
    found += tuning_find(again, "one", algorithm, sizeof algorithm);
  }
  buffer_free(&out);
  buffer_free(&right);
  arena_destroy(arena);
  free(text);
  return found > 0;
}
