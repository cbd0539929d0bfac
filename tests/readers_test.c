// readers_test.c: what reads JSON tells lack of memory from wrong bytes: each allocation of the library fails once.
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

int main(void) {
  json_set_alloc_funcs(failing_malloc, free);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_missing_memory_is_no_mistake_of_a_file, world_open, world_close),
      cmocka_unit_test_setup_teardown(test_long_paths, world_open, world_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
