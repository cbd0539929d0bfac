// token_file_test.c: files of tokens, raw, of llm.c and of Megatron: what is read, and what is refused with its byte.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/data/token_file.h"
#include "runtime/feed.h"
#include "runtime/io.h"
#include "tests/toy.h"

enum { COUNT = 1000, SEQUENCE = 8 };

static char directory[64];

static const char *written(const char *name, const void *bytes, size_t size) {
  static char path[2][128];
  static int next;
  char *to = path[next++ % 2];
  snprintf(to, sizeof path[0], "%s/%s", directory, name);
  FILE *file = fopen(to, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  fclose(file);
  return to;
}

static int32_t token_at(int64_t i) {
  return (int32_t)(i * 7919 % 50257);
}

// COUNT tokens of 2 or 4 bytes behind a header; returns all bytes.
static size_t tokens_put(uint8_t *out, const void *header, size_t header_bytes, int width) {
  size_t size = header_bytes;
  memcpy(out, header ? header : "", header_bytes);
  for (int64_t i = 0; i < COUNT; i++) {
    for (int b = 0; b < width; b++) {
      out[size++] = (uint8_t)((uint32_t)token_at(i) >> (8 * b));
    }
  }
  return size;
}

static size_t index_put(uint8_t *out, uint8_t type, int width, int32_t length) {
  size_t size = 34;
  const uint64_t version = 1, sequences = (uint64_t)(COUNT / length), documents = sequences + 1;
  memcpy(out, "MMIDIDX\0", 9);
  memcpy(out + 9, &version, 8);
  out[17] = type;
  memcpy(out + 18, &sequences, 8);
  memcpy(out + 26, &documents, 8);
  for (uint64_t i = 0; i < sequences; i++, size += 4) {
    memcpy(out + size, &length, 4);
  }
  for (uint64_t i = 0; i < sequences; i++, size += 8) {
    const uint64_t at = i * (uint64_t)length * (uint64_t)width;
    memcpy(out + size, &at, 8);
  }
  for (uint64_t i = 0; i < documents; i++, size += 8) {
    memcpy(out + size, &i, 8);
  }
  return size;
}

static DataOptions options_of(const char *path, const char *kind) {
  return (DataOptions){.path = path, .kind = kind, .validation_fraction = 0.1, .sequence = SEQUENCE, .seed = 5};
}

static void expect_tokens(const char *path, const char *kind) {
  Data *data = NULL;
  Error error = {0};
  int32_t window[SEQUENCE + 1];
  const DataOptions options = options_of(path, kind);
  if (!data_open(&options, &data, &error)) {
    fail_msg("%s", error.text);
  }
  const DataFacts facts = data_facts(data);
  assert_int_equal(facts.tokens, COUNT);
  assert_int_equal(facts.token_kinds, 0);
  assert_false(facts.documents);
  assert_int_equal(data_token_bytes(data, 5), -1);
  for (int64_t sample = 0; sample < 100; sample++) {
    assert_true(data_train_window(data, sample, window, &error));
    for (int i = 0; i <= SEQUENCE; i++) {
      assert_int_equal(window[i], token_at(data_train_begin(data, sample) + i));
    }
  }
  assert_true(data_validation_window(data, 0, window, &error));
  assert_int_equal(window[0], token_at(facts.train_tokens));
  assert_true(data_check_begin(data, 50257, &error));
  data_close(data);
}

static void expect_error(const char *path, const char *kind, const char *words) {
  Data *data = NULL;
  Error error = {0};
  const DataOptions options = options_of(path, kind);
  assert_false(data_open(&options, &data, &error));
  assert_int_equal(error.status, 1);
  if (!strstr(error.text, words)) {
    fail_msg("expected '%s' in: %s", words, error.text);
  }
}

static void test_raw(void **state) {
  (void)state;
  uint8_t bytes[COUNT * 4];
  for (int width = 2; width <= 4; width += 2) {
    const size_t size = tokens_put(bytes, NULL, 0, width);
    const char *kind = width == 2 ? "tokens_u16" : "tokens_u32";
    expect_tokens(written("raw.bin", bytes, size), kind);
    expect_error(written("raw.bin", bytes, size), "tokens", "is neither a token file of llm.c nor one of Megatron");
    expect_error(
        written("raw.bin", bytes, size - 1), kind,
        width == 2 ? "ends at byte 1999, in the middle of a token" : "ends at byte 3999, in the middle of a token");
  }
  char text[600];
  memset(text, 'a', sizeof text);
  expect_error(written("text.bin", text, sizeof text), "tokens_u16", "is text, not tokens of u16");
  expect_error(written("text.bin", text, sizeof text), "tokens", "is text, not tokens: its first");
  expect_error(written("empty.bin", "", 0), "tokens_u16", "is empty");
}

static void test_llmc(void **state) {
  (void)state;
  uint8_t bytes[LLMC_HEADER + COUNT * 4];
  int32_t header[256] = {LLMC_U16, LLMC_U16_VERSION, COUNT};
  size_t size = tokens_put(bytes, header, sizeof header, 2);
  expect_tokens(written("gpt2.bin", bytes, size), "tokens");
  expect_tokens(written("gpt2.bin", bytes, size), "tokens_u16");
  expect_error(written("gpt2.bin", bytes, size), "tokens_u32", "holds tokens of u32, but its header of llm.c says u16");
  expect_error(written("gpt2.bin", bytes, size - 2), "tokens",
               "says at byte 8 that it holds 1000 tokens of u16, which end at byte 3024, but the file ends at byte "
               "3022: it is truncated");
  bytes[4] = 9;
  expect_error(written("gpt2.bin", bytes, size), "tokens", "has version 9 at byte 4, not 1");
  header[0] = LLMC_U32;
  header[1] = LLMC_U32_VERSION;
  size = tokens_put(bytes, header, sizeof header, 4);
  expect_tokens(written("llama.bin", bytes, size), "tokens");
  header[2] = -1;
  size = tokens_put(bytes, header, sizeof header, 4);
  expect_error(written("llama.bin", bytes, size), "tokens", "another file");
}

static void test_megatron(void **state) {
  (void)state;
  uint8_t bytes[COUNT * 4], index[34 + COUNT * 21];
  char path[128];
  size_t size = tokens_put(bytes, NULL, 0, 2), length = index_put(index, 8, 2, 10);
  written("set.bin", bytes, size);
  snprintf(path, sizeof path, "%s", written("set.idx", index, length));
  expect_tokens(path, "tokens");
  expect_tokens(written("set.bin", bytes, size), "tokens");
  expect_error(written("set.bin", bytes, size - 2), "tokens", "it is truncated");
  written("set.bin", bytes, size);
  expect_error(path, "tokens_u32", "but its index says u16");
  expect_error(written("set.idx", index, length - 8), "tokens",
               "says at byte 18 that it has 100 sequences and 101 marks");
  index[34] = 11;
  expect_error(written("set.idx", index, length), "tokens",
               "sequence 1, at byte 442, has length 10 and begins at byte 20");
  length = index_put(index, 6, 2, 10);
  expect_error(written("set.idx", index, length), "tokens", "says at byte 17 that tokens have type 6");
  index[10] = 7;
  expect_error(written("set.idx", index, length), "tokens", "is an index of version");
  expect_error(written("set.idx", "MMIDIDY", 7), "tokens", "is no index of Megatron");
  length = index_put(index, 4, 4, 20);
  size = tokens_put(bytes, NULL, 0, 4);
  written("set.bin", bytes, size);
  expect_tokens(written("set.idx", index, length), "tokens");
  expect_error(written("other", index, length), "tokens_u16", "is an index of Megatron, not its tokens");
}

static void test_out_of_range(void **state) {
  (void)state;
  uint8_t bytes[COUNT * 2];
  Error error = {0};
  const size_t size = tokens_put(bytes, NULL, 0, 2);
  const char *path = written("range.bin", bytes, size);
  Arena *arena = arena_create();
  Plan *plan = toy_plan(arena, path, 4, SEQUENCE, 1, false);
  Data *data = NULL;
  Feed *feed = NULL;
  const DataOptions options = options_of(path, "tokens_u16");
  assert_true(data_open(&options, &data, &error));
  plan->programs[PROGRAM_TRAIN].inputs[0].bound = plan->programs[PROGRAM_TRAIN].inputs[1].bound = 1000;
  assert_false(feed_create(&(PlanSet){1, &plan}, PROGRAM_TRAIN, data, &feed, &error));
  if (!strstr(error.text, "range.bin: token 1, at byte 2, is 7919; the model has tokens below 1000")) {
    fail_msg("%s", error.text);
  }
  plan->programs[PROGRAM_TRAIN].inputs[0].bound = plan->programs[PROGRAM_TRAIN].inputs[1].bound = 50257;
  assert_true(feed_create(&(PlanSet){1, &plan}, PROGRAM_TRAIN, data, &feed, &error));
  feed_destroy(feed);
  int32_t window[SEQUENCE + 1];
  assert_true(data_train_window(data, 3, window, &error));
  assert_true(data_check_train(data, 3, window, 50257, &error));
  window[2] = 60000;
  assert_false(data_check_train(data, 3, window, 50257, &error));
  assert_non_null(strstr(error.text, "is 60000"));
  window[2] = -1;
  assert_false(data_check_validation(data, 0, window, 50257, &error));
  assert_non_null(strstr(error.text, "token 902, at byte 1804, is 4294967295"));
  data_close(data);
  arena_destroy(arena);
}

// Tokens that are said to be bytes: their length is known, and where documents end.
static void test_bytes(void **state) {
  (void)state;
  uint8_t bytes[COUNT * 2] = {0};
  Error error = {0};
  Data *data = NULL;
  for (int i = 0; i < COUNT; i++) {
    bytes[2 * i] = (uint8_t)(i % 10 == 9 ? 0 : 'a' + i % 3);
  }
  bytes[2] = bytes[4] = '\n';  // an empty line ends none
  DataOptions options = options_of(written("bytes.bin", bytes, sizeof bytes), "tokens_u16");
  assert_true(data_open(&options, &data, &error));
  assert_false(data_facts(data).documents);
  data_close(data);
  options.tokenizer = TOKENIZER_BYTES;
  assert_true(data_open(&options, &data, &error));
  const DataFacts facts = data_facts(data);
  assert_true(facts.documents);
  assert_int_equal(facts.token_kinds, 256);
  assert_int_equal(data_token_bytes(data, 65), 1);
  int32_t tokens[COUNT];
  token_widen(TOKEN_U16, bytes, COUNT, tokens);
  for (int i = 0; i < COUNT; i++) {
    assert_int_equal(data_document_begins(data, tokens, i), i > 0 && i % 10 == 0);
  }
  assert_true(data_check_begin(data, 1000, &error));
  data_close(data);
  bytes[2 * 77 + 1] = 1;
  options.path = written("bytes.bin", bytes, sizeof bytes);
  assert_true(data_open(&options, &data, &error));
  assert_false(data_check_begin(data, 1000, &error));
  assert_non_null(strstr(error.text, "token 77, at byte 154, is "));
  assert_non_null(strstr(error.text, "the tokenizer bytes has tokens below 256"));
  data_close(data);
}

int main(void) {
  snprintf(directory, sizeof directory, "/tmp/mdl-tokens-XXXXXX");
  if (!mkdtemp(directory)) {
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_raw),          cmocka_unit_test(test_llmc),  cmocka_unit_test(test_megatron),
      cmocka_unit_test(test_out_of_range), cmocka_unit_test(test_bytes),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  io_remove_tree(directory);
  return failed;
}
