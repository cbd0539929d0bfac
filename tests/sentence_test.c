// sentence_test.c: models of SentencePiece: what small ones make of text, scores against a plain reference, text in
// pieces against the whole, and the tokens that the package makes of the text in tests/sentence.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tests/sentence_made.h"

static void same(const TokenList *a, const TokenList *b) {
  assert_int_equal(a->count, b->count);
  assert_memory_equal(a->at, b->at, sizeof *a->at * (size_t)a->count);
}

static const char *const words[] = {"a",
                                    "b",
                                    "ab",
                                    "c",
                                    " ",
                                    "  ",
                                    "\n",
                                    "\t",
                                    "x",
                                    "xy",
                                    "y",
                                    "~",
                                    "A",
                                    "<u>",
                                    "<u",
                                    "\xe3\x81\x82",
                                    "\xe6\x97\xa5",
                                    "\xf0\x9f\x98\x80",
                                    SPACE,
                                    "\xff",
                                    "\xe6\x97",
                                    "\xef\xbf\xbd",
                                    "aaaaaaa",
                                    "</s>",
                                    "&"};

static size_t text_draw(uint32_t *seed, char *out, size_t most) {
  size_t length = 0;
  while (length + 16 < most) {
    const char *word = words[random_next(seed) % (sizeof words / sizeof *words)];
    memcpy(out + length, word, strlen(word));
    length += strlen(word);
  }
  return length;
}

// A text in pieces makes the tokens of the whole.
static void pieces_same(const Tokenizer *tokenizer) {
  char text[4000];
  uint32_t seed = 11;
  for (int trial = 0; trial < 60; trial++) {
    const size_t length = text_draw(&seed, text, trial < 50 ? 80 : sizeof text);
    TokenList whole = encoded(tokenizer, text, length, sizeof text);
    TokenList pieces = encoded(tokenizer, text, length, 1 + random_next(&seed) % 40);
    same(&whole, &pieces);
    tokens_free(&whole);
    tokens_free(&pieces);
  }
}

// Expectations here and of BPE are what sentencepiece 0.2.3 makes by these models.
static void test_unigram(void **state) {
  (void)state;
  Made made = small_made(UNIGRAM);
  Tokenizer *t = model_of(&made);
  assert_int_equal(tokenizer_kinds(t), SMALL);
  assert_int_equal(tokenizer_end(t), 2);
  assert_int_equal(tokenizer_added(t, "<u>"), 9);
  assert_int_equal(tokenizer_added(t, "</s>"), -1);
  assert_int_equal(tokenizer_symbol(t, "</s>"), 2);
  EXPECT(t, "a", 7);
  EXPECT(t, "  ab  ab ", 3, 6, 3, 6);
  EXPECT(t, "abb", 3, 6, 5);
  EXPECT(t, "b<u>b", 3, 5, 9, 5);
  EXPECT(t, "</s>", 3, 0);
  EXPECT(t, "\xe3\x81\x82\xe6\x97\xa5\xff b", 3, 12, 0, 3, 5);
  expect_tokens(t, "~", NULL, 0);
  EXPECT(t, "xxy\x09yA", 3, 10, 0, 3, 0, 4);
  EXPECT(t, "a&&", 7, 7, 7);
  tokenizer_close(t);
  made.bytes = true;
  t = model_of(&made);
  EXPECT(t, "b<u>b", 3, 5, 9, 5);
  EXPECT(t, "</s>", 3, 74, 61, 129, 76);
  EXPECT(t, "\xe3\x81\x82\xe6\x97\xa5\xff b", 3, 12, 244, 165, 179, 253, 205, 203, 3, 5);
  expect_tokens(t, "~", NULL, 0);
  EXPECT(t, "xxy\x09yA", 3, 10, 64, 3, 135, 4);
  tokenizer_close(t);
  made.bytes = false;
  made.suffix = true;
  t = model_of(&made);
  EXPECT(t, "a", 4, 3);
  EXPECT(t, "  ab  ab ", 6, 3, 6, 3);
  EXPECT(t, "\xe3\x81\x82\xe6\x97\xa5\xff b", 12, 0, 3, 5, 3);
  EXPECT(t, "~", 3);
  EXPECT(t, "xxy\x09yA", 10, 0, 3, 0, 4, 3);
  EXPECT(t, "a&&", 4, 7, 7, 3);
  tokenizer_close(t);
  made.suffix = false;
  made.loose = true;
  t = model_of(&made);
  EXPECT(t, "  ab  ab ", 3, 3, 3, 6, 3, 3, 6, 3);
  EXPECT(t, "\xe3\x81\x82\xe6\x97\xa5\xff b", 3, 12, 0, 3, 5);
  EXPECT(t, "~", 3);
  EXPECT(t, "xxy\x09yA", 3, 10, 0, 3, 0, 4);
  EXPECT(t, "a&&", 7, 7, 3, 7, 3);
  tokenizer_close(t);
  made.bare = true;
  t = model_of(&made);
  EXPECT(t, "a", 4);
  EXPECT(t, "  ab  ab ", 3, 3, 6, 3, 3, 6, 3);
  EXPECT(t, "\xe3\x81\x82\xe6\x97\xa5\xff b", 12, 0, 3, 5);
  expect_tokens(t, "~", NULL, 0);
  EXPECT(t, "xxy\x09yA", 10, 0, 3, 0, 4);
  EXPECT(t, "a&&", 4, 7, 3, 7, 3);
  tokenizer_close(t);
  made = small_made(CHAR);
  t = model_of(&made);
  EXPECT(t, "a", 3, 4);
  EXPECT(t, "  ab  ab ", 3, 4, 5, 3, 4, 5);
  EXPECT(t, "abb", 3, 4, 5, 5);
  EXPECT(t, "b<u>b", 3, 5, 9, 5);
  EXPECT(t, "xxy\x09yA", 3, 10, 0, 3, 0, 4);
  tokenizer_close(t);
}

// --- Scores ---

static const Entry close_entries[] = {{"<unk>", 0, UNKNOWN}, {SPACE, -1.1f, NORMAL}, {"a", -1.1f, NORMAL},
                                      {"aa", -2.2f, NORMAL}, {"aaa", -3.3f, NORMAL}, {SPACE "a", -2.2f, NORMAL},
                                      {"b", -7.7f, NORMAL},  {"ba", -8.8f, NORMAL},  {"<u>", 0, USER}};
enum { CLOSE = sizeof close_entries / sizeof *close_entries, LONG_TEXT = 60000 };

typedef struct {
  float score;
  int token, begin;
} Node;

// The whole text at once, by the words of the package: float sums from its beginning on, begun anew above 100000.
// `heavy`: begun anew above that instead.
static TokenList reference(const char *text, size_t length, float heavy) {
  static const float unknown = -8.8f - 10;
  Node *nodes = calloc(length + 1, sizeof *nodes);
  TokenList reversed = {0}, tokens = {0};
  size_t last = 0;
  for (size_t i = 0; i <= length; i++) {
    nodes[i].begin = -1;
  }
  for (size_t at = 0; at < length;) {
    const size_t size = (uint8_t)text[at] >= 0xe0 ? 3 : 1;
    const float common = nodes[at].score;
    for (size_t i = at; fabsf(common) > heavy && i <= last; i++) {
      nodes[i].score -= i == at || nodes[i].begin >= 0 ? common : 0;
    }
    bool single = false;
    for (int e = 1; e <= CLOSE; e++) {
      const char *piece = e == CLOSE ? "" : close_entries[e].text;
      const size_t long_as = e == CLOSE ? size : strlen(piece);
      if (e == CLOSE ? single : long_as > length - at || memcmp(text + at, piece, long_as) != 0) {
        continue;
      }
      const float of = e == CLOSE                      ? unknown
                       : close_entries[e].kind == USER ? (float)(0.1 * (double)(long_as - 1))
                                                       : close_entries[e].score;
      Node *node = &nodes[at + long_as];
      single |= long_as == size;
      last = at + long_as > last ? at + long_as : last;
      if (node->begin < 0 || of + nodes[at].score > node->score) {
        *node = (Node){of + nodes[at].score, e % CLOSE, (int)at};
      }
    }
    at += size;
  }
  for (size_t at = length; at > 0; at = (size_t)nodes[at].begin) {
    tokens_add(&reversed, nodes[at].token);
  }
  for (int64_t i = reversed.count; i-- > 0;) {
    if (reversed.at[i] != 0 || tokens.count == 0 || tokens.at[tokens.count - 1] != 0) {
      tokens_add(&tokens, reversed.at[i]);
    }
  }
  tokens_free(&reversed);
  free(nodes);
  return tokens;
}

// Segments whose divisions are kept, in a text whose scores lose digits, make the tokens of one sum over all of it.
static void test_scores(void **state) {
  (void)state;
  static const char *const parts[] = {"a",   "aa", "aaa", "\342\226\201",         "\342\226\201a", "b", "ba",
                                      "<u>", "<",  "?",   "\342\226\201aaaaaaaaa"};
  const Made made = {.type = UNIGRAM, .entries = close_entries, .count = CLOSE, .loose = true, .bare = true};
  Tokenizer *t = model_of(&made);
  char *text = malloc(LONG_TEXT);
  uint32_t seed = 5;
  size_t length = 0;
  while (length + 16 < LONG_TEXT) {
    const char *part = parts[random_next(&seed) % (sizeof parts / sizeof *parts)];
    memcpy(text + length, part, strlen(part));
    length += strlen(part);
  }
  TokenList ours = encoded(t, text, length, 1 << 20), theirs = reference(text, length, 100000);
  TokenList pieces = encoded(t, text, length, 300), never = reference(text, length, 1e30f);
  same(&theirs, &ours);
  same(&theirs, &pieces);
  // Control: a sum that does not begin anew rounds otherwise.
  assert_true(never.count != ours.count || memcmp(never.at, ours.at, sizeof *ours.at * (size_t)ours.count) != 0);
  tokens_free(&ours);
  tokens_free(&theirs);
  tokens_free(&pieces);
  tokens_free(&never);
  free(text);
  tokenizer_close(t);
}

// --- BPE ---

static const Entry merged[] = {{"<unk>", 0, UNKNOWN},
                               {"<s>", 0, CONTROL},
                               {"</s>", 0, CONTROL},
                               {"ab", -1, NORMAL},
                               {"bc", -1, NORMAL},
                               {SPACE "a", -2, NORMAL},
                               {"aa", -3, NORMAL},
                               {"abab", -4, UNUSED},
                               {"cd", -5, NORMAL},
                               {"<u>", -6, USER},
                               {SPACE, -7, NORMAL},
                               {"a", -8, NORMAL},
                               {"b", -9, NORMAL},
                               {"c", -10, UNUSED},
                               {"ababab", -4, NORMAL},
                               {"bu", -2, NORMAL},
                               {"\xe3\x81\x82\xe3\x81\x82", -4, NORMAL},
                               {"?", 0, CONTROL}};
enum { MERGED = sizeof merged / sizeof *merged };

static void test_bpe(void **state) {
  (void)state;
  Made made = {.type = BPE, .entries = merged, .count = MERGED, .loose = true};
  Tokenizer *t = model_of(&made);
  EXPECT(t, "abc", 10, 3, 0);
  EXPECT(t, "abab", 10, 3, 3);
  EXPECT(t, "ababab", 10, 14);
  EXPECT(t, "aab", 5, 3);
  EXPECT(t, "c", 10, 0);
  EXPECT(t, "b<u>b", 10, 12, 9, 12);
  EXPECT(t, "bu>", 10, 15, 0);
  EXPECT(t, "\xe3\x81\x82\xe3\x81\x82\xe3\x81\x82", 10, 16, 0);
  EXPECT(t, "?", 10, 0);
  EXPECT(t, " a  a", 10, 5, 10, 5);
  tokenizer_close(t);
  made.bytes = true;
  t = model_of(&made);
  EXPECT(t, "abc", 10, 3, 117);
  EXPECT(t, "bu>", 10, 15, 80);
  EXPECT(t, "\xe3\x81\x82\xe3\x81\x82\xe3\x81\x82", 10, 16, 245, 147, 148);
  EXPECT(t, "?", 10, 81);
  tokenizer_close(t);
  made.loose = false;
  made.suffix = true;
  t = model_of(&made);
  EXPECT(t, "aab", 11, 3, 10);
  EXPECT(t, "\xe3\x81\x82\xe3\x81\x82\xe3\x81\x82", 16, 245, 147, 148, 10);
  EXPECT(t, "?", 81, 10);
  EXPECT(t, " a  a", 11, 5, 10);
  tokenizer_close(t);
}

// Of a text in parts the first alone has a space ahead of it, and spaces at the end of a part are not at the end of
// all.
static void test_parts(void **state) {
  (void)state;
  static const char *const parts[] = {"a ", " b", "b"};
  static const int32_t wanted[] = {7, 3, 5, 5, 3, 5};
  const Made made = small_made(UNIGRAM);
  Tokenizer *t = model_of(&made);
  Encoder *encoder;
  Error error = {0};
  TokenList tokens = {0};
  size_t used;
  assert_true(encoder_create(t, &encoder, &error));
  for (int text = 0; text < 2; text++) {
    encoder_go_on(encoder, text == 0);
    for (int i = text == 0 ? 0 : 2; i < 3; i++) {
      assert_true(encoder_add(encoder, parts[i], strlen(parts[i]), false, &used, &tokens, &error));
      assert_int_equal(used, strlen(parts[i]));
    }
  }
  assert_int_equal(tokens.count, sizeof wanted / sizeof *wanted);
  assert_memory_equal(tokens.at, wanted, sizeof wanted);
  tokens_free(&tokens);
  encoder_destroy(encoder);
  tokenizer_close(t);
}

// --- What the package makes ---

static char *file_of(const char *name, size_t *length) {
  char path[1000];
  FileError error;
  snprintf(path, sizeof path, "%s/tests/sentence/%s", MDL_SOURCE_DIR, name);
  char *text = file_read(path, length, &error);
  assert_non_null(text);
  return text;
}

static void test_package(void **state) {
  (void)state;
  static const char *const names[] = {"bpe", "unigram"};
  size_t length, wanted_length, decoded_length;
  char *text = file_of("text", &length);
  for (int i = 0; i < 2; i++) {
    char name[400];
    Tokenizer *t = NULL;
    Error error = {0};
    TokenList wanted = {0};
    Buffer back = {0};
    snprintf(name, sizeof name, "%s/tests/sentence/%s.model", MDL_SOURCE_DIR, names[i]);
    if (!tokenizer_open(name, &t, &error)) {
      fail_msg("%s", error.text);
    }
    snprintf(name, sizeof name, "%s.tokens", names[i]);
    char *numbers = file_of(name, &wanted_length);
    for (char *at = numbers; *at;) {
      tokens_add(&wanted, (int32_t)strtol(at, &at, 10));
      at += strspn(at, " \n");
    }
    for (size_t chunk = 40; chunk < 20000; chunk *= 5) {
      TokenList tokens = encoded(t, text, length, chunk);
      same(&wanted, &tokens);
      tokens_free(&tokens);
    }
    for (int64_t at = 0; at < wanted.count; at++) {
      int32_t size;
      const uint8_t *bytes = tokenizer_bytes(t, wanted.at[at], &size);
      assert_non_null(bytes);
      buffer_bytes(&back, bytes, (size_t)size);
    }
    snprintf(name, sizeof name, "%s.decoded", names[i]);
    char *decoded = file_of(name, &decoded_length);
    assert_int_equal(back.length, decoded_length + 1);  // a space is put ahead of the text
    assert_memory_equal(back.text + 1, decoded, decoded_length);
    buffer_free(&back);
    tokens_free(&wanted);
    tokenizer_close(t);
    free(numbers);
    free(decoded);
  }
  free(text);
}

static void test_pieces(void **state) {
  (void)state;
  const int types[] = {UNIGRAM, BPE, CHAR};
  for (int i = 0; i < 48; i++) {
    Made made = small_made(types[i % 3]);
    made.bytes = i / 3 % 2;
    made.suffix = i / 6 % 2;
    made.loose = i / 12 % 2;
    made.bare = i / 24 % 2;
    Tokenizer *t = model_of(&made);
    pieces_same(t);
    tokenizer_close(t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_unigram), cmocka_unit_test(test_scores), cmocka_unit_test(test_bpe),
      cmocka_unit_test(test_package), cmocka_unit_test(test_pieces), cmocka_unit_test(test_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
