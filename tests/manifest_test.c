// manifest_test.c: manifests of checkpoints that somebody changed, renamed or put a pipe in the place of.
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/json_guard.h"
#include "runtime/checkpoint.h"
#include "runtime/checkpoint_files.h"
#include "tests/place.h"
#include "tests/toy.h"

static char *file_bytes(const char *path, size_t *size) {
  Error error;
  char *text = NULL;
  if (!io_read_file(path, 1 << 30, &text, size, &error)) {
    fail_msg("%s", error.text);
  }
  return text;
}

static void save_step(World *world, Session *session) {
  CheckpointFacts facts = {.step = 1};
  Error error = {0};
  if (!checkpoint_save(NULL, session, world->directory, &facts, NULL, &error)) {
    fail_msg("%s", error.text);
  }
}

static void expect_load_error(World *world, Session *session, const char *words) {
  char path[IO_PATH_MAX];
  CheckpointFacts facts;
  Error error = {0};
  path_in(world, path, "step-00000001");
  assert_false(checkpoint_load(session, path, true, &facts, &error));
  if (!strstr(error.text, words)) {
    fail_msg("expected '%s' in: %s", words, error.text);
  }
  assert_int_equal(error.status, 1);
}

// Whoever reads weights alone, or what is left out, gets the same status.
static void expect_open_error(World *world, const char *words) {
  char path[IO_PATH_MAX];
  Safetensors *file;
  struct Frozen *frozen;
  Error error = {0};
  path_in(world, path, "step-00000001");
  assert_false(checkpoint_open_weights(path, &file, NULL, &error));
  expect_words(error.text, words);
  assert_int_equal(error.status, 1);
  error = (Error){0};
  assert_false(checkpoint_frozen(world->arena, path, &frozen, &error));
  expect_words(error.text, words);
  assert_int_equal(error.status, 1);
}

// The text as it was, to be freed.
static char *manifest_change(const char *path, const char *was, const char *is) {
  size_t size;
  char *text = file_bytes(path, &size), *at = strstr(text, was);
  assert_non_null(at);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file, "%.*s%s%s", (int)(at - text), text, is, at + strlen(was));
  fclose(file);
  return text;
}

// What a manifest says is what was saved; and what a hash would fit is possible all the same.
static void test_changed_manifests(void **state) {
  World *world = *state;
  Session session;
  Error error = {0};
  char manifest[IO_PATH_MAX], step[IO_PATH_MAX], other[IO_PATH_MAX], hash[64];
  CheckpointFacts facts;
  path_in(world, manifest, "step-00000001/manifest.json");
  path_in(world, step, "step-00000001");
  assert_true(session_open(&session, toy_plan(world->arena, "text", 4, 8, 1, false), &toy_backend, 1, &error));
  static const char *const changes[][2] = {{"\"step\": 1", "\"step\": 3"},
                                           {"\"tokens\": 0", "\"tokens\": 7"},
                                           {"\"seed\": \"0\"", "\"seed\": \"9\""},
                                           {"optimizer.safetensors", "optimizes.safetensors"},
                                           {"\"manifest_xxh3_64\": \"", "\"manifest_xxh3_64\": \"0"},
                                           {"\"manifest_xxh3_64\"", "\"another\""},
                                           {"\"version\": 2", "\"version\": 1"}};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    save_step(world, &session);
    free(manifest_change(manifest, changes[i][0], changes[i][1]));
    expect_load_error(world, &session, "manifest.json was changed: its hash does not fit what it says");
    expect_open_error(world, "manifest.json was changed: its hash does not fit what it says");
  }
  // One of version 1 has no hash, but its numbers are looked at. Blanks are not part of what a manifest says.
  static const char *const numbers[][2] = {{"\"step\": 1,", "\"step\": 9223372036854775807,"},
                                           {"\"batch\": 0,", "\"batch\": 9223372036854775807,"},
                                           {"\"tokens\": 0,", "\"tokens\": 9223372036854775807,"},
                                           {"\"skipped\": 0,", "\"skipped\": 9223372036854775807,"},
                                           {"\"step\": 1,", "\"step\": 3,"},
                                           {"\"step\": 1,", "\"step\":   1,"}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    save_step(world, &session);
    char *text = manifest_change(manifest, "\"version\": 2", "\"version\": 1");
    const char *at = strstr(text, ",\n \"manifest_xxh3_64\"");
    assert_non_null(at);
    snprintf(hash, sizeof hash, "%.*s", (int)strcspn(at + 3, "\n") + 3, at);
    free(text);
    free(manifest_change(manifest, hash, ""));
    free(manifest_change(manifest, numbers[i][0], numbers[i][1]));
    if (i < 5) {
      expect_load_error(world, &session, i < 4 ? "that no run comes to" : "manifest.json is of step 3");
    } else {
      assert_true(checkpoint_load(&session, step, true, &facts, &error));
    }
  }
  // A name that says another step is a lie; one that says none is a name.
  save_step(world, &session);
  path_in(world, other, "step-999999999999999999");
  assert_int_equal(rename(step, other), 0);
  assert_false(checkpoint_load(&session, other, true, &facts, &error));
  assert_non_null(strstr(error.text, "manifest.json is of step 1"));
  path_in(world, step, "best");
  assert_int_equal(rename(other, step), 0);
  assert_true(checkpoint_load(&session, step, true, &facts, &error));
  session_close(&session);
}

// The manifest with the hash of what it says now.
static void manifest_right(const char *path) {
  char hash[17];
  json_t *root = json_load_file(path, 0, NULL);
  assert_true(json_is_object(root) && checkpoint_manifest_hash(root, hash));
  json_object_set_new(root, CHECKPOINT_MANIFEST_HASH, json_string(hash));
  assert_int_equal(json_dump_file(root, path, JSON_INDENT(1)), 0);
  json_decref(root);
}

// What a manifest says of parameters that are left out.
#define TRAINED "says of what it was trained on what no run does"
#define FROZEN(from, tensors, more) "\"frozen\": {" more "\"from\": " from ", \"tensors\": " tensors "}, "
#define ONE(axes, shape) "{\"t\": {\"axes\": " axes ", \"shape\": " shape ", \"xxh3_64\": \"1\"}}"
#define SEVENTEEN "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"

static const struct {
  const char *was, *is, *words;  // NULL: it is whole
  bool loads;                    // what is wrong is only looked for by `mdl verify`
} fitting[] = {
    {"\"tokens\": 0", "\"tokens\": -1", "lacks a number", false},
    {"\"skipped\": 0", "\"skipped\": 0.5", "lacks a number", false},
    {"\"data_bytes\"", "\"other\"", "lacks a number", false},
    {"\"metrics_bytes\"", "\"other\"", "lacks a number", false},
    {"\"seed\": \"0\"", "\"seed\": \"0x\"", "lacks a number", false},
    {"\"program_hash\"", "\"other\"", "lacks a number", false},
    {"\"state_hash\": \"", "\"state_hash\": \"g", "lacks a number", false},
    {"\"bad_steps\": 0", "\"bad_steps\": \"no\"", "lacks a number", false},
    {"\"batch\": 0", "\"batch\": []", "lacks a number", false},
    {"\"files\": [", "\"other\": [", "does not list its files", false},
    {"\"name\": \"model.safetensors\"", "\"name\": \"model\"", "does not list its files", false},
    {"\"name\": \"model.safetensors\",\n   \"bytes\": ", "\"name\": \"model.safetensors\",\n   \"bytes\": -",
     "does not list its files", false},
    {"\"name\": \"model.safetensors\"", "\"name\": \"../model.safetensors\"", "is none of a checkpoint", false},
    {"\"name\": \"optimizer.safetensors\"", "\"name\": \"none.safetensors\"", "none.safetensors", false},
    {"\"name\": \"model.safetensors\",\n   \"bytes\": ", "\"name\": \"model.safetensors\",\n   \"bytes\": 1",
     "the manifest says", false},
    {"\"momentum.table\": {", "\"momentum.other\": {", "is not what the manifest lists", false},
    {"\"shape\": [\n    256", "\"shape\": [\n    255", "is not what the manifest lists", false},
    {"\"shape\": [\n    256,", "\"shape\": [", "is not what the manifest lists", false},
    {"\"tensors\": {", "\"tensors\": {\"more\": {},", "the manifest lists 3 tensors, the files hold 2", true},
    {"\"tensors\": {", "\"frozen\": {\"from\": 7}, \"tensors\": {", "what is frozen", false},
    {"\"tensors\": {", "\"frozen\": {\"from\": \"x\", \"tensors\": 7}, \"tensors\": {", "what is frozen", false},
    {"\"tensors\": {", "\"frozen\": {\"from\": \"x\", \"mapping\": 7, \"tensors\": {}}, \"tensors\": {",
     "what is frozen", false},
    {"\"tensors\": {", "\"frozen\": {\"from\": \"x\", \"tensors\": {\"t\": {}}}, \"tensors\": {", "what is frozen",
     false},
    {"\"tensors\": {",
     "\"frozen\": {\"from\": \"x\", \"tensors\": {\"t\": {\"axes\": [\"a\"], \"shape\": [0], \"xxh3_64\": \"1\"}}}, "
     "\"tensors\": {",
     "what is frozen", false},
    {"\"tensors\": {",
     "\"frozen\": {\"from\": \"/nowhere\", \"tensors\": {\"t\": {\"axes\": [\"a\"], \"shape\": [1], \"xxh3_64\": "
     "\"1\"}}}, \"tensors\": {",
     "put back what was there", false},
    {"\"tensors\": {", FROZEN("\"\"", "{}", "") "\"tensors\": {", "what is frozen", false},
    {"\"tensors\": {", FROZEN("\"x\"", ONE("[]", "[]"), "") "\"tensors\": {", "put back what was there", false},
    {"\"tensors\": {", FROZEN("\"x\"", ONE("[\"a\"]", "[1,2]"), "") "\"tensors\": {", "what is frozen", false},
    {"\"tensors\": {", FROZEN("\"x\"", ONE("[7]", "[1]"), "") "\"tensors\": {", "what is frozen", false},
    {"\"tensors\": {", FROZEN("\"x\"", ONE(SEVENTEEN, SEVENTEEN), "") "\"tensors\": {", "what is frozen", false},
    {"\"tensors\": {", FROZEN("\"x\"", "{\"t\": {\"xxh3_64\": \"\"}}", "") "\"tensors\": {", "what is frozen", false},
    {"\"tensors\": {", FROZEN("\"x\"", "{\"t\": {\"xxh3_64\": \"1g\"}}", "") "\"tensors\": {", "what is frozen", false},
    {"\"tensors\": {", FROZEN("\"x\"", ONE("[]", "[]"), "\"mapping\": \"x.hf\",") "\"tensors\": {",
     "put back what was there", false},
    {"\"seed\": \"0\"", "\"seed\": \"\"", "lacks a number", false},
    {"\"seed\": \"0\"", "\"seed\": 0", "lacks a number", false},
    {"\"state_hash\": \"", "\"state_hash\": \"\", \"other\": \"", "lacks a number", false},
    {"\"data_hash\": \"", "\"data_hash\": \"x", "lacks a number", false},
    {"\"tokenizer_hash\": \"", "\"tokenizer_hash\": \"x", "lacks a number", false},
    {"\"tensors\": {", "\"validation_hash\": \"x\", \"tensors\": {", "lacks a number", false},
    {"\"tensors\": {", "\"trained_on\": 1, \"tensors\": {", TRAINED, false},
    {"\"tensors\": {", "\"trained_on\": [1], \"tensors\": {", TRAINED, false},
    {"\"tensors\": {", "\"trained_on\": [{\"data_hash\": \"1\"}], \"tensors\": {", TRAINED, false},
    {"\"tensors\": {", "\"trained_on\": [{\"data_hash\": \"1\", \"share\": 2}], \"tensors\": {", TRAINED, false},
    {"\"tensors\": {", "\"trained_on\": [{\"data_hash\": \"1\", \"share\": -1}], \"tensors\": {", TRAINED, false},
    {"\"tensors\": {", "\"trained_on\": [{\"data_hash\": \"x\", \"share\": 1}], \"tensors\": {", TRAINED, false},
    {"\"tensors\": {", "\"trained_on\": [{\"data_hash\": \"1\", \"share\": 1, \"tokens_hash\": 3}], \"tensors\": {",
     TRAINED, false},
    {"\"tensors\": {", "\"trained_on\": [{\"data_hash\": \"1\", \"share\": 1}], \"tensors\": {", NULL, true},
    {"\"tensors\": {", "\"trained_on\": [{\"data_hash\": \"1\", \"share\": 1, \"tokens_hash\": \"3\"}], \"tensors\": {",
     NULL, true},
    {"\"data_hash\"", "\"other\"", NULL, true},
    {"\"tokenizer_hash\"", "\"other\"", NULL, true},
    {"\"finite\": true", "\"finite\": false", NULL, true},
    {"\"finite\": true", "\"finite\": false, \"not_finite\": \"\"", NULL, true},
    {"\"finite\": true", "\"val_loss\": \"low\"", NULL, true},
    {"\"finite\": true", "\"val_loss\": 2", NULL, true},
    {"\"xxh3_64\": \"", "\"xxh3_64\": \"x", "does not list its files", false},
    {"\"xxh3_64\": \"", "\"xxh3_64\": \"1", "has hash", false},
    {"\"files\": [", "\"files\": [], \"other\": [", "does not list its files", false},
    {"\"files\": [", "\"files\": [{},", "is none of a checkpoint", false},
    {"\"files\": [", "\"files\": [{\"name\": \"\"},", "is none of a checkpoint", false},
    {"\"files\": [", "\"files\": [{\"name\": \"a/b\"},", "is none of a checkpoint", false},
    {"\"shape\": [\n    256,\n    256\n   ]", "\"shape\": 256", "is not what the manifest lists", false},
    {"\"format\": \"mdl checkpoint\"", "\"format\": 7", "is a checkpoint of format 'unknown'", false},
    {"\"format\": \"mdl checkpoint\"", "\"format\": \"other\"", "is a checkpoint of format 'other'", false},
    {"\"version\": 2", "\"version\": 4", "version 4; this program reads", false},
    {"\"version\": 2", "\"version\": 0", "version 0; this program reads", false},
};

// Who changes a manifest can make its hash fit: then each thing that it says is looked at.
static void test_manifests_whose_hash_fits(void **state) {
  World *world = *state;
  Session session;
  char manifest[IO_PATH_MAX], step[IO_PATH_MAX];
  path_in(world, manifest, "step-00000001/manifest.json");
  path_in(world, step, "step-00000001");
  Error error = {0};
  CheckpointFacts facts;
  assert_true(session_open(&session, toy_plan(world->arena, "text", 4, 8, 1, false), &toy_backend, 1, &error));
  for (size_t i = 0; i < sizeof fitting / sizeof *fitting; i++) {
    save_step(world, &session);
    free(manifest_change(manifest, fitting[i].was, fitting[i].is));
    manifest_right(manifest);
    Error loaded = {0}, verified = {0};
    const bool loads = checkpoint_load(&session, step, true, &facts, &loaded);
    const bool whole = checkpoint_verify(step, &facts, &verified);
    assert_int_equal(loads, fitting[i].loads);
    if (!fitting[i].words) {
      assert_true(loads && whole);
    } else if (!strstr(loaded.text, fitting[i].words) && !strstr(verified.text, fitting[i].words)) {
      fail_msg("change %zu: expected '%s' in: %s; or in: %s", i, fitting[i].words, loaded.text, verified.text);
    }
    assert_true(loads || loaded.status == 1);
    assert_true(whole || verified.status == 1);
  }
  session_close(&session);
}

// --- files in parts ---

// `count` parameters of ten numbers, and a momentum of each.
static Plan *many_plan(World *world, int count) {
  enum { APART = 256 };
  Plan *plan = toy_plan(world->arena, "text", 4, 8, 1, false);
  plan->state_count = 2 * count;
  plan->states = ARENA_ARRAY(world->arena, PlanState, 2 * count);
  for (int i = 0; i < 2 * count; i++) {
    const bool momentum = i >= count;
    plan->states[i] = (PlanState){.name = arena_format(world->arena, momentum ? "zm.%d" : "%d", i % count),
                                  .role = momentum ? STATE_OPTIMIZER : STATE_PARAMETER,
                                  .type = TYPE_F32,
                                  .axis_count = 1,
                                  .axis = {"a"},
                                  .size = {10},
                                  .stride = {1},
                                  .offset = (int64_t)i * APART};
  }
  plan->arena_bytes[ARENA_PERSISTENT] = (int64_t)2 * count * APART;
  return plan;
}

static void file_put(const char *path, const char *bytes, size_t size) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  fclose(file);
}

// Of all files that are there the manifest says what they are now.
static void files_right(const char *step, const char *manifest) {
  json_t *root = json_load_file(manifest, 0, NULL), *file;
  size_t i;
  json_array_foreach(json_object_get(root, "files"), i, file) {
    char path[IO_PATH_MAX], hash[17];
    size_t size;
    Error error;
    assert_true(io_path(path, &error, "%s/%s", step, json_string_value(json_object_get(file, "name"))));
    if (io_is_file(path)) {
      char *bytes = file_bytes(path, &size);
      snprintf(hash, sizeof hash, "%016llx", (unsigned long long)XXH3_64bits(bytes, size));
      json_object_set_new(file, "bytes", json_integer((json_int_t)size));
      json_object_set_new(file, "xxh3_64", json_string(hash));
      free(bytes);
    }
  }
  assert_int_equal(json_dump_file(root, manifest, JSON_INDENT(1)), 0);
  json_decref(root);
  manifest_right(manifest);
}

#define PART(file, number) file "-0000" number "-of-00003.safetensors"

// A file that another is copied to, or (`from` NULL) that loses all behind its first `size` bytes, or is changed there;
// or what the manifest calls a file.
static const struct {
  const char *from, *to;
  int size;
  bool changed;
  const char *was, *is, *words;
} parts[] = {
    {PART("model", "1"), PART("model", "3"), 0, false, NULL, NULL, "is in another file too"},
    {PART("optimizer", "2"), PART("model", "2"), 0, false, NULL, NULL, "is not what the manifest lists"},
    {NULL, PART("model", "2"), 0, false, NULL, NULL, "it has only 0 bytes"},
    {NULL, PART("model", "2"), 10, false, NULL, NULL, "is no safetensors file: its header would have"},
    {NULL, PART("optimizer", "1"), 9, true, NULL, NULL, "its header is not JSON"},
    {NULL, PART("model", "3"), 8, true, NULL, NULL, "its header does not begin with {"},
    {NULL, NULL, 0, false, PART("model", "1"), "model-1-of-3.safetensors", "does not list its files"},
    {NULL, NULL, 0, false, PART("model", "1"), "model-00001-of-00002.safetensors", "does not list its files"},
    {NULL, NULL, 0, false, PART("model", "1"), "model-00001-of-99999.safetensors", "does not list its files"},
    {NULL, NULL, 0, false, PART("model", "2"), PART("model", "1"), "does not list its files"},
    {NULL, NULL, 0, false, PART("model", "1"), PART("optimizer", "1"), "does not list its files"},
};

static void part_change(const char *step, const char *manifest, size_t which) {
  char path[IO_PATH_MAX], from[IO_PATH_MAX];
  Error error;
  size_t size;
  if (parts[which].was) {
    free(manifest_change(manifest, parts[which].was, parts[which].is));
    assert_true(io_path(from, &error, "%s/%s", step, parts[which].was));
    assert_true(io_path(path, &error, "%s/%s", step, parts[which].is));
    assert_true(io_is_file(path) || rename(from, path) == 0);
    return;
  }
  assert_true(io_path(path, &error, "%s/%s", step, parts[which].to));
  assert_true(io_path(from, &error, "%s/%s", step, parts[which].from ? parts[which].from : parts[which].to));
  char *bytes = file_bytes(from, &size);
  size = parts[which].from || parts[which].changed ? size : (size_t)parts[which].size;
  bytes[parts[which].size] ^= parts[which].changed;
  file_put(path, bytes, size);
  free(bytes);
}

// Whatever is wrong with a part is damage, where hashes fit too: whoever loads and whoever verifies say the same, so
// that `--resume` looks for an older one, and `mdl verify` goes on.
static void test_parts_whose_hashes_fit(void **state) {
  World *world = *state;
  Session session;
  char manifest[IO_PATH_MAX], step[IO_PATH_MAX];
  path_in(world, manifest, "step-00000001/manifest.json");
  path_in(world, step, "step-00000001");
  Error error = {0};
  assert_true(session_open(&session, many_plan(world, 6), &toy_backend, 1, &error));
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    CheckpointFacts facts = {.step = 1};
    Io io = {.part_bytes = 80};
    Safetensors *file = NULL;
    assert_true(checkpoint_save(&io, &session, world->directory, &facts, NULL, &error));
    part_change(step, manifest, i);
    files_right(step, manifest);
    assert_false(checkpoint_verify(step, &facts, &error));
    expect_words(error.text, parts[i].words);
    assert_int_equal(error.status, 1);
    assert_true(facts.damaged);
    assert_false(checkpoint_load(&session, step, true, &facts, &error));
    expect_words(error.text, parts[i].words);
    assert_int_equal(error.status, 1);
    assert_true(facts.damaged);
    const int which = strstr(parts[i].to ? parts[i].to : parts[i].was, "optimizer") != NULL;
    assert_false(checkpoint_open(step, which, &file, &error));
    io_remove_tree(step);
  }
  session_close(&session);
}

// Of very many parts there are fewer that are larger, so that all can be open; of one tensor that is larger than a part
// there is one, whatever is in the other file.
static void test_few_files(void **state) {
  World *world = *state;
  Session session;
  char step[IO_PATH_MAX];
  Error error = {0};
  CheckpointFacts facts = {.step = 1};
  Io io = {.part_bytes = 1};
  struct rlimit was, few;
  path_in(world, step, "step-00000001");
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
  few = was;
  few.rlim_cur = 300;
  assert_true(session_open(&session, many_plan(world, 1000), &toy_backend, 1, &error));
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  const bool done = checkpoint_save(&io, &session, world->directory, &facts, NULL, &error) &&
                    checkpoint_verify(step, &facts, &error) && checkpoint_load(&session, step, true, &facts, &error);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
  if (!done) {
    fail_msg("%s", error.text);
  }
  assert_int_equal(facts.version, CHECKPOINT_VERSION);
  session_close(&session);
  assert_true(session_open(&session, many_plan(world, 1), &toy_backend, 1, &error));
  assert_true(checkpoint_save(&io, &session, world->directory, &facts, NULL, &error));
  assert_true(there(world, "step-00000001/model.safetensors") && there(world, "step-00000001/optimizer.safetensors"));
  session_close(&session);
}

// What a tree of many values takes is given back in time that grows as they do: here in a file that breaks off.
static void test_many_values(void **state) {
  (void)state;
  enum { VALUES = 400000 };
  Buffer text = {0};
  json_error_t why;
  bool starved = true;
  buffer_text(&text, "[");
  for (int i = 0; i < VALUES; i++) {
    buffer_text(&text, "[],");
  }
  alarm(60);
  assert_null(json_read(text.text, text.length, 0, &why, &starved));
  alarm(0);
  assert_false(starved);
  buffer_free(&text);
}

// A pipe in the place of a file is an error, and is not waited for.
static void test_pipes(void **state) {
  World *world = *state;
  Session session;
  Error error = {0};
  static const char *const names[] = {"step-00000001/manifest.json", "step-00000001/model.safetensors",
                                      "step-00000001/optimizer.safetensors"};
  assert_true(session_open(&session, toy_plan(world->arena, "text", 4, 8, 1, false), &toy_backend, 1, &error));
  for (int i = 0; i < 3; i++) {
    char path[IO_PATH_MAX];
    save_step(world, &session);
    path_in(world, path, names[i]);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20);
    expect_load_error(world, &session, i == 0 ? "it is not a file" : "has 0 bytes, the manifest says");
    alarm(0);
  }
  session_close(&session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_changed_manifests, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_manifests_whose_hash_fits, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_parts_whose_hashes_fit, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_few_files, world_open, world_close),
      cmocka_unit_test(test_many_values),
      cmocka_unit_test_setup_teardown(test_pipes, world_open, world_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
