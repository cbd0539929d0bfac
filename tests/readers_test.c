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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int main(void) {
  json_set_alloc_funcs(failing_malloc, free);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_missing_memory_is_no_mistake_of_a_file, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_long_paths, world_open, world_close),
      cmocka_unit_test(test_frames),
      cmocka_unit_test(test_frames_are_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
