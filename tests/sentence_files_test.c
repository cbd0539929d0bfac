// sentence_files_test.c: models of SentencePiece that are refused or damaged, and the fields of their messages.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <math.h>

#include "tests/sentence_made.h"

// --- What is refused ---

static void refused(const Made *made, const char *words) {
  Buffer file = {0};
  Error error;
  Tokenizer *tokenizer = NULL;
  model_put(&file, made);
  assert_false(read_of(&file, &tokenizer, &error));
  if (!strstr(error.text, words) || !strstr(error.text, "small.model")) {
    fail_msg("'%s' is not said: %s", words, error.text);
  }
  buffer_free(&file);
}

#define REFUSED(words, ...)                                                                            \
  do {                                                                                                 \
    const Entry all[] = {__VA_ARGS__};                                                                 \
    const Made one = {BPE, all, (int)(sizeof all / sizeof *all), false, false, false, false, NULL, 0}; \
    refused(&one, words);                                                                              \
  } while (0)

static void test_refused(void **state) {
  (void)state;
  Made made = small_made(WORD);
  refused(&made, "has no model of SentencePiece with the type word");
  made = small_made(9);
  refused(&made, "with a type that is not known");
  made = small_made(BPE);
  made.charsmap_length = 100;
  refused(&made, "the rules of its normalizer, of 100 bytes, are no table and texts");
  made = small_made(BPE);
  charsmap[4 + 4 * (512 + 'x')] = 99;  // a text behind all
  refused(&made, "a rule of its normalizer, in unit 376, leads to no text");
  REFUSED("no piece is the unknown one", {"a", 0, NORMAL});
  REFUSED("pieces 0 and 1 are both 'ab'", {"ab", 0, NORMAL}, {"ab", 0, USER});
  REFUSED("pieces 0 and 1 are both the unknown one", {"ab", 0, UNKNOWN}, {"a", 0, UNKNOWN});
  REFUSED("piece 1 has no text", {"ab", 0, UNKNOWN}, {"", 0, NORMAL});
  REFUSED("piece 0 is no text in UTF-8", {"ab\xff", 0, NORMAL});
  REFUSED("piece 0, 'ab', is of no type that is known", {"ab", 0, 7});
  REFUSED("the score of piece 0, 'ab', is not a finite number", {"ab", INFINITY, NORMAL});
  REFUSED("piece 1, 'ab', should be a byte such as <0x0A>", {"<u>", 0, UNKNOWN}, {"ab", 0, BYTE});
  REFUSED("there are pieces of bytes, although byte_fallback is not set", {"<u>", 0, UNKNOWN}, {"<0x00>", 0, BYTE});
  Buffer file = {0};
  Error error;
  Tokenizer *t = NULL;
  buffer_bytes(&file,
               "\n\x20\n\x01"
               "a\x15\0\0\0\0",
               9);  // a field that is longer than the file
  assert_false(read_of(&file, &t, &error));
  assert_non_null(strstr(error.text, "small.model is damaged: at byte 0 of what should be a model of SentencePiece"));
  buffer_free(&file);
}

// Whatever a file holds, it is a tokenizer that makes tokens, or words say what is wrong.
static void test_damaged(void **state) {
  (void)state;
  const int types[] = {UNIGRAM, BPE, CHAR};
  uint32_t seed = 3;
  int read = 0, not_read = 0;
  for (int trial = 0; trial < 3000; trial++) {
    Made made = small_made(types[trial % 3]);
    Buffer file = {0};
    Error error;
    Tokenizer *t = NULL;
    made.bytes = trial % 2;
    model_put(&file, &made);
    for (int i = 0; i < 1 + trial % 4; i++) {
      file.text[random_next(&seed) % file.length] = (char)random_next(&seed);
    }
    file.length = trial % 5 == 0 ? random_next(&seed) % file.length : file.length;
    if (read_of(&file, &t, &error)) {
      static const char odd[] = "a\txy ab<u>\xff\xe3\x81\x82&~A abb";
      TokenList tokens = encoded(t, odd, sizeof odd - 1, 100);
      tokens_free(&tokens);
      tokenizer_close(t);
      read++;
    } else {
      assert_true(error.status != 0 && error.text[0]);
      not_read++;
    }
    buffer_free(&file);
  }
  assert_true(read > 100 && not_read > 100);
}

static void test_protobuf(void **state) {
  (void)state;
  // A number of two bytes, one of eight, four bytes, text; then a number without an end.
  const uint8_t bytes[] = {0x08, 0xac, 0x02, 0x11, 1,    0,    0,    0, 0,   0,   0,    0x80,
                           0x1d, 0,    0,    0x80, 0x3f, 0xa2, 0x02, 2, 'h', 'i', 0x08, 0x80};
  Protobuf message = {bytes, bytes + sizeof bytes};
  ProtobufField field;
  assert_int_equal(protobuf_next(&message, &field), PROTOBUF_FIELD);
  assert_true(field.field == 1 && field.wire == PROTOBUF_NUMBER && field.number == 300);
  assert_int_equal(protobuf_next(&message, &field), PROTOBUF_FIELD);
  assert_true(field.field == 2 && field.wire == PROTOBUF_EIGHT && field.number == 0x8000000000000001u);
  assert_int_equal(protobuf_next(&message, &field), PROTOBUF_FIELD);
  assert_true(field.field == 3 && field.wire == PROTOBUF_FOUR && protobuf_float(&field) == 1.0f);
  assert_int_equal(protobuf_next(&message, &field), PROTOBUF_FIELD);
  assert_true(field.field == 36 && field.length == 2 && memcmp(field.bytes, "hi", 2) == 0);
  assert_int_equal(protobuf_next(&message, &field), PROTOBUF_DAMAGED);
  assert_ptr_equal(message.at, bytes + sizeof bytes - 2);
  static const uint8_t wrong[][3] = {{0x00, 1, 0}, {0x0b, 0, 0}, {0x0a, 3, 'a'}, {0x09, 1, 2}, {0x80, 0x80, 0x80}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    message = (Protobuf){wrong[i], wrong[i] + 3};
    assert_int_equal(protobuf_next(&message, &field), PROTOBUF_DAMAGED);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_protobuf),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
