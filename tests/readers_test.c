// readers_test.c: what reads JSON tells lack of memory from wrong bytes: each allocation of the library fails once. And
// paths that are too long, and frames of messages.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "lsp/frame.h"
#include "runtime/convert/hf_files.h"
#include "runtime/data/chat.h"
#include "runtime/data/data.h"
#include "runtime/data/reader.h"
#include "tests/place.h"

enum { MOST = 5000 };

static int fail_in;  // so many allocations of the JSON library; 0: none fails

static void *failing_malloc(size_t size) {
  return fail_in > 0 && --fail_in == 0 ? NULL : malloc(size);
}

static void file_put(const World *world, char path[IO_PATH_MAX], const char *name, const char *text) {
  path_in(world, path, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

// Reads again and again, with each allocation failing, until none is left to fail: status 3 each time, then success.
static void expect_starved(bool (*read)(const World *world, Error *error), const World *world) {
  int n = 1;
  for (bool done = false; !done; n++) {
    Error error = {0};
    fail_in = n;
    done = read(world, &error);
    const bool reached = fail_in == 0;
    fail_in = 0;
    assert_true(n < MOST);
    assert_int_equal(done, !reached);
    if (!done) {
      assert_int_equal(error.status, 3);
      expect_words(error.text, "no memory");
    }
  }
  assert_true(n > 5);  // it did allocate
}

static bool tokenizer_json_read(const World *world, Error *error) {
  (void)world;
  static const char text[] =
      "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"
      "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
  Tokenizer *tokenizer = NULL;
  const bool done = tokenizer_read("input.json", text, sizeof text - 1, &tokenizer, error);
  if (done) {
    tokenizer_close(tokenizer);
  }
  return done;
}

static bool chat_line_read(const World *world, Error *error) {
  (void)world;
  static const char line[] =
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"model\",\"content\":\"b\"}]}";
  static SourceOptions options;
  Chat *chat = NULL;
  TokenList tokens = {0};
  Buffer flags = {0};
  assert_true(source_options(NULL, &options, error) && chat_create(NULL, &options, &chat, error));
  const bool done = chat_add(chat, "talks.jsonl", 1, line, sizeof line - 1, &tokens, &flags, error);
  chat_destroy(chat);
  tokens_free(&tokens);
  buffer_free(&flags);
  return done;
}

static bool take(void *context, const char *text, size_t length, bool more, size_t *used, Error *error) {
  (void)context;
  (void)text;
  (void)more;
  (void)error;
  *used = length;
  return true;
}

static bool lines_read(const World *world, Error *error) {
  char path[IO_PATH_MAX];
  path_in(world, path, "lines.jsonl");
  const char *const file = path;
  const ReaderOptions options = {.files = &file, .file_count = 1, .field = "text", .what = "read"};
  ReaderFacts facts;
  return reader_run(&options, take, NULL, &facts, error);
}

static bool directory_read(const World *world, Error *error) {
  HfFiles files;
  const bool done = hf_open(world->directory, &files, error);
  hf_close(&files);
  return done;
}

static void test_missing_memory_is_no_mistake_of_a_file(void **state) {
  const World *world = *state;
  char path[IO_PATH_MAX];
  Tokenizer *tokenizer = NULL;
  Error error = {0};
  file_put(world, path, "lines.jsonl", "{\"text\":\"a\"}\n{\"id\":[1,2],\"text\":\"b\"}\n");
  file_put(world, path, "config.json", "{\"model_type\":\"llama\",\"hidden_size\":4}");
  file_put(world, path, "model.safetensors.index.json", "{\"weight_map\":{\"a\":\"one.safetensors\"}}");
  path_in(world, path, "one.safetensors");
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}";
  fprintf(file, "%c%c%c%c%c%c%c%c%s", (int)sizeof header - 1, 0, 0, 0, 0, 0, 0, 0, header);
  fclose(file);
  if (tokenizer_cutter("gpt2", &tokenizer, &error)) {  // it was built with PCRE2
    tokenizer_close(tokenizer);
    expect_starved(tokenizer_json_read, world);
  }
  expect_starved(chat_line_read, world);
  expect_starved(lines_read, world);
  expect_starved(directory_read, world);
}

// A path that is cut short would be that of another file.
static void test_long_paths(void **state) {
  const World *world = *state;
  char base[PATH_MAX], path[IO_PATH_MAX];
  Error error = {0};
  Data *data = NULL;
  file_put(world, path, "here", "a text of some words, which is what was not asked for\n");
  snprintf(base, sizeof base, "%s/", world->directory);
  while (strlen(base) < PATH_MAX - sizeof "here") {  // "BASE/here" fits, and "BASE/here-is-none" does not
    strcat(base, "/");
  }
  const DataOptions options = {
      .kind = "text", .path = "here-is-none", .base = base, .tokenizer = TOKENIZER_BYTES, .sequence = 4};
  assert_false(data_open(&options, &data, &error));
  assert_int_equal(error.status, 1);
  expect_words(error.text, "the path is too long");
}

// --- what an editor sends ---

// The next message or what is wrong, without what comes after it.
static void expect_frame(FrameReader *reader, FrameResult wanted, const char *words) {
  const char *body = NULL, *why = NULL;
  size_t length = 0;
  assert_int_equal(frame_next(reader, &body, &length, &why), wanted);
  if (wanted == FRAME_MESSAGE) {
    assert_int_equal(length, strlen(words));
    assert_memory_equal(body, words, length);
  } else if (wanted == FRAME_BAD) {
    expect_words(why, words);
  }
}

static void test_frames(void **state) {
  (void)state;
  static char many[FRAME_HEADER_MOST + 100];
  FrameReader reader = {0};
  memset(many, 'x', sizeof many);
#define ADD(text) frame_add(&reader, text, sizeof(text) - 1)
  ADD("content-length:\t2\r\nX: y\r\n\r\n{}Content-Length: 3\n\n[1");
  expect_frame(&reader, FRAME_MESSAGE, "{}");
  expect_frame(&reader, FRAME_WAIT, NULL);
  ADD("]");
  expect_frame(&reader, FRAME_MESSAGE, "[1]");
  ADD("X: y\r\n\r\nContent-Length: -1\r\n\r\nContent-Length: 1x\r\n\r\nContent-Length: 99999999999999999999\r\n\r\n");
  expect_frame(&reader, FRAME_BAD, "has no Content-Length");
  for (int i = 0; i < 3; i++) {
    expect_frame(&reader, FRAME_BAD, "is no length");
  }
  frame_add(&reader, many, sizeof many);  // without an end
  expect_frame(&reader, FRAME_BAD, "more than 8 KiB");
  frame_add(&reader, many, sizeof many);  // with one
  ADD("\n\nContent-Length: 2\n\n{}");
  expect_frame(&reader, FRAME_BAD, "more than 8 KiB");
  expect_frame(&reader, FRAME_MESSAGE, "{}");
  ADD("Content-Length: 67108865\n\nabc");  // passed over, however it comes
  expect_frame(&reader, FRAME_BAD, "more than 64 MiB");
  static char million[1 << 20];
  for (int i = 0; i < 63; i++) {
    frame_add(&reader, million, sizeof million);
  }
  frame_add(&reader, million, sizeof million - 3);
  frame_add(&reader, "y", 1);
  ADD("Content-Length: 2\n\n{}");
  expect_frame(&reader, FRAME_MESSAGE, "{}");
  expect_frame(&reader, FRAME_WAIT, NULL);
  for (int i = 0; i < 3; i++) {  // so much that it is moved to the front
    frame_add(&reader, "Content-Length: 100000\n\n", 24);
    frame_add(&reader, million, 100000);
  }
  const char *body, *why;
  size_t length;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(frame_next(&reader, &body, &length, &why), FRAME_MESSAGE);
    assert_int_equal(length, 100000);
  }
  frame_free(&reader);
}

static void test_frames_are_written(void **state) {
  (void)state;
  int ends[2];
  char bytes[64] = "";
  assert_int_equal(pipe(ends), 0);
  assert_true(frame_write(ends[1], json_pack("{s:i}", "id", 1)));
  assert_int_equal(read(ends[0], bytes, sizeof bytes - 1), 29);
  assert_string_equal(bytes, "Content-Length: 8\r\n\r\n{\"id\":1}");
  close(ends[1]);
  close(ends[0]);
  assert_false(frame_write(-1, json_object()));  // nobody listens
}

// --- lines and pieces ---

static void test_wrong_lines(void **state) {
  const World *world = *state;
  static const struct {
    const char *text, *words;
  } all[] = {{"{\"text\":\"a\"}\n{\n", "lines:2: no JSON, at byte"},
             {"[1]\n", "the line is no object {...}; --field is 'text'"},
             {"{\"text\":7}\n", "the field is no text"},
             {"\n\n{\"words\":\"a\"}",
              "lines:3: the object has no such field; --field is 'text', and what is text in it is 'words'"}};
  char path[IO_PATH_MAX];
  const char *file = path;
  ReaderOptions options = {.files = &file, .file_count = 1, .field = "text", .what = "read"};
  ReaderFacts facts;
  Error error = {0};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    file_put(world, path, "lines", all[i].text);
    assert_false(reader_run(&options, take, NULL, &facts, &error));
    assert_int_equal(error.status, 1);
    expect_words(error.text, all[i].words);
  }
  options.field = NULL;
  static const char *const names[] = {"a.jsonl", "a.ndjson"};
  for (int i = 0; i < 2; i++) {
    file_put(world, path, names[i], "{}");
    assert_false(reader_run(&options, take, NULL, &facts, &error));
    expect_words(error.text, "say which field is the text: --field text");
  }
}

static size_t pieces, largest, taken;

// Only a text as a whole is one piece; it is refused where it is this long.
static bool take_whole(void *context, const char *text, size_t length, bool more, size_t *used, Error *error) {
  (void)text;
  pieces++;
  largest = length;
  *used = more ? 0 : length;
  taken += *used;
  return length < *(size_t *)context || error_set(error, 1, "that is enough");
}

static void test_long_texts(void **state) {
  const World *world = *state;
  enum { PIECE = 1 << 20, LONG = 3 * PIECE };
  char path[IO_PATH_MAX];
  const char *file = path;
  ReaderOptions options = {.files = &file, .file_count = 1, .what = "read"};
  ReaderFacts facts;
  Error error = {0};
  size_t most = 2 * LONG;
  char *text = malloc(LONG + 1);
  memset(text, 'a', LONG);
  text[LONG] = '\0';
  file_put(world, path, "long", text);
  assert_true(reader_run(&options, take_whole, &most, &facts, &error));
  assert_true(pieces == 3 && largest == LONG && taken == LONG && facts.text_bytes == LONG);
  most = PIECE + 1;
  assert_false(reader_run(&options, take_whole, &most, &facts, &error));
  assert_string_equal(error.text, "that is enough");
  memcpy(text, "{\"text\":\"", 9);  // a line that is longer than what is read at once
  memcpy(text + LONG - 2, "\"}", 2);
  file_put(world, path, "long", text);
  options.field = "text";
  most = 2 * LONG;
  taken = 0;
  assert_true(reader_run(&options, take_whole, &most, &facts, &error));
  assert_true(taken == LONG - 11 && facts.documents == 1);
  free(text);
}

// What is read is not written over, under whatever name.
static void test_files_stay_apart(void **state) {
  const World *world = *state;
  char path[IO_PATH_MAX], link_path[IO_PATH_MAX], part[IO_PATH_MAX];
  const char *file = path;
  const ReaderOptions options = {.files = &file, .file_count = 1, .what = "read"};
  Error error = {0};
  file_put(world, part, "out.part", "");
  file_put(world, path, "in", "a");
  path_in(world, link_path, "out");
  assert_true(reader_apart(&options, NULL, link_path, ".part", &error));  // it is not there yet
  assert_true(reader_apart(&options, "none", link_path, ".part", &error));
  assert_false(reader_apart(&options, part, link_path, ".part", &error));
  expect_words(error.text, "is read, and -o");
  assert_int_equal(symlink(path, link_path), 0);
  assert_false(reader_apart(&options, NULL, link_path, ".part", &error));
  assert_int_equal(error.status, 2);
  file = "/dev/null";
  assert_true(reader_apart(&options, NULL, "/dev/null", ".part", &error));  // which keeps nothing
  memset(link_path, 'a', sizeof link_path - 1);
  link_path[sizeof link_path - 3] = '\0';
  assert_false(reader_apart(&options, NULL, link_path, ".part", &error));
  expect_words(error.text, "too long");
}

// --- lines of JSON ---

static void expect_json(json_t *value, const char *wanted) {
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
  assert_string_equal(text, wanted);
  free(text);
  json_decref(value);
}

// Text that is no UTF-8 is shown as far as it can be, and what is no number as none.
static json_t *line_make(void *context) {
  (void)context;
  return json_pack("{s:f}", "x", 0.1);
}

static json_t *line_unmade(void *context) {
  (void)context;
  return NULL;
}

static void test_lines_of_json(void **state) {
  const World *world = *state;
  char path[IO_PATH_MAX], line[64] = "";
  expect_json(json_text(NULL), "null");
  expect_json(json_text("a"), "\"a\"");
  expect_json(json_text("a\xff z"), "\"a\xef\xbf\xbd z\"");
  expect_json(json_text("\xc3\xa9\x80"), "\"\xc3\xa9\xef\xbf\xbd\"");
  expect_json(json_text("\xe4\xbd\xa0\xe4\xbd"), "\"\xe4\xbd\xa0\xef\xbf\xbd\xef\xbf\xbd\"");
  expect_json(json_bytes("a\0b", 3), "\"a\\u0000b\"");
  expect_json(json_finite(1.5), "1.5");
  expect_json(json_finite(NAN), "null");
  path_in(world, path, "out");
  FILE *out = fopen(path, "w+");
  assert_non_null(out);
  for (int n = 1;; n++) {
    fail_in = n;
    const bool done = json_line(out, "test", line_make, NULL), reached = fail_in == 0;
    fail_in = 0;
    assert_int_equal(done, !reached);  // no memory for it, which is said
    if (!reached) {
      break;
    }
  }
  assert_false(json_line(out, "test", line_unmade, NULL));
  rewind(out);
  assert_int_equal(fread(line, 1, sizeof line - 1, out), 10);
  assert_string_equal(line, "{\"x\":0.1}\n");
  fclose(out);
  // Real numbers have the digits that they need, and nothing else is taken for one.
  Buffer text = {0};
  assert_true(
      json_shorten("{\"1.50000000000000000\\\"2.50\":[0.10000000000000001,-2.0,17,5.1234567890123452]}", &text));
  assert_string_equal(text.text, "{\"1.50000000000000000\\\"2.50\":[0.1,-2.0,17,5.123456789012345]}");
  buffer_free(&text);
}

// --- directories of Hugging Face ---

static void tensors_put(const World *world, const char *name, const char *header) {
  char path[IO_PATH_MAX];
  path_in(world, path, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file, "%c%c%c%c%c%c%c%c%s", (int)strlen(header), 0, 0, 0, 0, 0, 0, 0, header);
  fclose(file);
}

#define EMPTY(name) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}"
#define INDEX(map) "{\"weight_map\":{" map "}}"

static void test_wrong_directories(void **state) {
  const World *world = *state;
  static const struct {
    const char *config, *index, *words;  // NULL: there is none
  } all[] = {
      {NULL, NULL, "config.json: No such file"},
      {"{", NULL, "config.json:1: is not JSON"},
      {"[]", NULL, "config.json"},
      {"{}", NULL, NULL},
      {"{}", "[]", "index.json"},
      {"{}", "{}", "has no weight_map"},
      {"{}", "{\"weight_map\":[]}", "has no weight_map"},
      {"{}", INDEX("\"a\":7"), "the file of 'a' is no name of a file"},
      {"{}", INDEX("\"a\":\"\""), "the file of 'a' is no name of a file"},
      {"{}", INDEX("\"a\":\"../one.safetensors\""), "the file of 'a' is no name of a file"},
      {"{}", INDEX("\"a\":\".one\""), "the file of 'a' is no name of a file"},
      {"{}", INDEX("\"a\":\"none.safetensors\""), "none.safetensors is not there, in which"},
      {"{}", INDEX("\"z\":\"one.safetensors\""), "says that 'z' is in one.safetensors, but it is not"},
      {"{}", INDEX("\"a\":\"one.safetensors\",\"b\":\"two.safetensors\""), "'a'"},
      {"{}", INDEX("\"a\":\"one.safetensors\",\"c\":\"three.safetensors\""), NULL},
      {"{}", INDEX("\"a\":\"lines.json\""), "lines.json"},
  };
  char path[IO_PATH_MAX];
  tensors_put(world, "one.safetensors", "{" EMPTY("a") "}");
  tensors_put(world, "two.safetensors", "{" EMPTY("a") "," EMPTY("b") "}");
  tensors_put(world, "three.safetensors", "{" EMPTY("c") "}");
  tensors_put(world, "model.safetensors", "{" EMPTY("a") "}");
  file_put(world, path, "lines.json", "no tensors at all, but more than ten bytes");
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    HfFiles files;
    Error error = {0};
    if (all[i].config) {
      file_put(world, path, "config.json", all[i].config);
    }
    path_in(world, path, "model.safetensors.index.json");
    remove(path);
    if (all[i].index) {
      file_put(world, path, "model.safetensors.index.json", all[i].index);
      path_in(world, path, "model.safetensors");
      remove(path);
    } else {
      tensors_put(world, "model.safetensors", "{" EMPTY("a") "}");
    }
    const bool done = hf_open(world->directory, &files, &error);
    if (done != !all[i].words || (!done && (error.status != 1 || !strstr(error.text, all[i].words)))) {
      fail_msg("case %zu: expected '%s' in: %s", i, all[i].words ? all[i].words : "", error.text);
    }
    if (done) {
      assert_non_null(hf_find(&files, "a").tensor);
      assert_null(hf_find(&files, "z").tensor);
    }
    hf_close(&files);
  }
  // One file goes before an index, which save_pretrained leaves there.
  HfFiles files;
  Error error = {0};
  tensors_put(world, "model.safetensors", "{" EMPTY("c") "}");
  assert_true(hf_open(world->directory, &files, &error));
  assert_non_null(hf_find(&files, "c").tensor);
  assert_null(hf_find(&files, "a").tensor);
  hf_close(&files);
  path_in(world, path, "model.safetensors.index.json");
  remove(path);
  path_in(world, path, "model.safetensors");
  assert_int_equal(unlink(path), 0);
  assert_false(directory_read(world, &error));
  expect_words(error.text, "holds neither model.safetensors nor model.safetensors.index.json");
  assert_null(strstr(error.text, "pytorch_model.bin is not read"));
  file_put(world, path, "pytorch_model.bin", "");
  assert_false(hf_open(world->directory, &files, &error));
  expect_words(error.text, "pytorch_model.bin is not read");
  hf_close(&files);
}

// Keys lead into objects; of a list of equal values it is that value.
static void test_values_of_a_config(void **state) {
  (void)state;
  Arena *arena = arena_create();
  json_t *root = json_loads(
      "{\"a\":{\"b\":2.5,\"c\":null},\"t\":true,\"f\":false,\"w\":\"x\",\"l\":[3,3],\"m\":[3,4],"
      "\"e\":[],\"o\":{}}",
      0, NULL);
  static const struct {
    const char *key;
    ValueKind kind;
    double number;
    const char *text;
  } all[] = {{"a.b", VALUE_NUMBER, 2.5, NULL}, {"a.c", VALUE_NONE, 0, NULL}, {"a.d", VALUE_NONE, 0, NULL},
             {"b", VALUE_NONE, 0, NULL},       {"t", VALUE_TRUTH, 1, NULL},  {"f", VALUE_TRUTH, 0, NULL},
             {"w", VALUE_TEXT, 0, "x"},        {"l", VALUE_NUMBER, 3, NULL}, {"m", VALUE_OTHER, 0, "[3, 4]"},
             {"e", VALUE_OTHER, 0, "[]"},      {"o", VALUE_OTHER, 0, "{}"},  {"w.x", VALUE_NONE, 0, NULL}};
  assert_non_null(root);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const Value value = hf_value(arena, root, all[i].key);
    assert_int_equal(value.kind, all[i].kind);
    if (all[i].kind == VALUE_NUMBER || all[i].kind == VALUE_TRUTH) {
      assert_true(value.number == all[i].number);
    }
    if (all[i].text) {
      assert_string_equal(value.text, all[i].text);
    }
  }
  json_decref(root);
  arena_destroy(arena);
}

int main(void) {
  json_set_alloc_funcs(failing_malloc, free);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_missing_memory_is_no_mistake_of_a_file, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_long_paths, world_open, world_close),
      cmocka_unit_test(test_frames),
      cmocka_unit_test(test_frames_are_written),
      cmocka_unit_test_setup_teardown(test_wrong_lines, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_long_texts, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_files_stay_apart, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_lines_of_json, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_wrong_directories, world_open, world_close),
      cmocka_unit_test(test_values_of_a_config),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
