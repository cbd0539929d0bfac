// tokenizer_test.c: small tokenizers written here: what they make of text, that nothing is lost, and what is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/utf8.h"
#include "runtime/data/alphabet.h"
#include "runtime/data/normal.h"
#include "runtime/data/oniguruma.h"
#include "runtime/data/pattern.h"
#include "runtime/data/scan.h"
#include "runtime/data/tokenizer_internal.h"
#include "tests/encoded.h"

// Skips the test where mdl was built without the library.
static void needs_patterns(void) {
  Pattern *pattern = NULL;
  Error error;
  if (!pattern_create("a", 1, &pattern, &error)) {
    skip();
  }
  pattern_destroy(pattern);
}

static const char gpt2_cut[] = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}";
static const char end_added[] =
    "[{\"id\": 300, \"content\": \"<|endoftext|>\", \"special\": true},"
    " {\"id\": 301, \"content\": \"<|pad\", \"lstrip\": true, \"rstrip\": true},"
    " {\"id\": 302, \"content\": \"<|pad|>\"}, {\"id\": 303, \"content\": \"word\"}]";

// Tokens 0 to 255 are bytes, those behind them what the merges make, in their order.
static void json_put(Buffer *out, const char *cut, const char *const *merges, int count, const char *added,
                     const char *more) {
  char letter[2];
  buffer_format(out, "{\"added_tokens\": %s, \"pre_tokenizer\": %s, \"model\": {\"type\": \"BPE\", %s\"vocab\": {",
                added, cut, more);
  for (int byte = 0; byte < 256; byte++) {
    const int size = alphabet_put((uint8_t)byte, letter);
    const bool quoted = letter[0] == '"' || letter[0] == '\\';
    buffer_format(out, "%s\"%s%.*s\": %d", byte ? ", " : "", quoted ? "\\" : "", size, letter, byte);
  }
  for (int i = 0; i < count; i++) {
    const char *space = strchr(merges[i], ' ');
    buffer_format(out, ", \"%.*s%s\": %d", (int)(space - merges[i]), merges[i], space + 1, 256 + i);
  }
  buffer_text(out, "}, \"merges\": [");
  for (int i = 0; i < count; i++) {
    buffer_format(out, i % 2 ? ", \"%s\"" : "%s[\"%.*s\", \"%s\"]",
                  i % 2 ? merges[i]
                  : i   ? ", "
                        : "",
                  (int)strcspn(merges[i], " "), merges[i], strchr(merges[i], ' ') + 1);
  }
  buffer_text(out, "]}}");
}

static const char *const merges[] = {"t h", "th e", "\xc4\xa0 the", "i n", "a a", "aa aa", "\xc4\xa0 t", "e r"};
enum { MERGES = sizeof merges / sizeof *merges };

static Tokenizer *tokenizer_of(const char *cut, const char *added, const char *more) {
  Buffer text = {0};
  Error error = {0};
  Tokenizer *tokenizer = NULL;
  json_put(&text, cut, merges, MERGES, added, more);
  if (!tokenizer_read("small.json", text.text, text.length, &tokenizer, &error)) {
    fail_msg("%s", error.text);
  }
  buffer_free(&text);
  return tokenizer;
}

static void test_merges(void **state) {
  (void)state;
  needs_patterns();
  Tokenizer *tokenizer = tokenizer_of(gpt2_cut, end_added, "");
  assert_int_equal(tokenizer_kinds(tokenizer), 304);
  assert_int_equal(tokenizer_end(tokenizer), 300);
  EXPECT(tokenizer, "the", 257);
  EXPECT(tokenizer, "in the other", 259, 258, ' ', 'o', 257, 'r');
  EXPECT(tokenizer, "aaaaaaa", 261, 260, 'a');
  EXPECT(tokenizer, " t  the", 262, ' ', 258);
  EXPECT(tokenizer, "the<|endoftext|>the", 257, 300, 257);
  EXPECT(tokenizer, "a <|pad \n b", 'a', 301, 'b');
  EXPECT(tokenizer, "a<|pad|>", 'a', 302);
  EXPECT(tokenizer, "word words", 303, ' ', 303, 's');
  EXPECT(tokenizer, "a\xe3\x80\x80\xc2\x85<|pad\xe2\x80\x8a\xe2\x80\xa8x", 'a', 301, 'x');
  EXPECT(tokenizer, "\xff\xfe the \xe6\x97", 0xff, 0xfe, 258, ' ', 0xe6, 0x97);
  tokenizer_close(tokenizer);
  tokenizer = tokenizer_of(gpt2_cut, "[]", "\"ignore_merges\": true, ");
  assert_int_equal(tokenizer_end(tokenizer), -1);
  EXPECT(tokenizer, "the th", 257, ' ', 256);
  tokenizer_close(tokenizer);
}

static void test_cuts(void **state) {
  (void)state;
  needs_patterns();
  Tokenizer *tokenizer = tokenizer_of(
      "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"String\": \"h.\"}, "
      "\"behavior\": \"Removed\"}, {\"type\": \"Digits\", \"individual_digits\": true}, "
      "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}",
      "[]", "");
  EXPECT(tokenizer, "th.e1the", 't', 'e', '1', 257);
  tokenizer_close(tokenizer);
  tokenizer = tokenizer_of(
      "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a-z]+\"}, "
      "\"behavior\": \"Removed\", \"invert\": true}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
      "\"use_regex\": false}]}",
      "[]", "");
  EXPECT(tokenizer, "t, the", 't', 257);
  tokenizer_close(tokenizer);
}

// Where the dialect of tokenizer.json differs from PCRE2's: what is cut is what the package tokenizers cuts.
static void test_dialect(void **state) {
  (void)state;
  needs_patterns();
  static const struct {
    const char *pattern, *text;
    int cut[6];  // lengths of pieces, up to a 0
  } known[] = {{"[a-c[x-z]]+", "abyz]q", {4, 2}},
               {"[^(\\s|[.,!])]+", "a(b.c", {1, 1, 1, 1, 1}},
               {"[a-z&&[^b]&&[^d]]+", "acbcd", {2, 1, 1, 1}},
               {"[^a-z&&[^1]]+", "12ab", {2, 2}},
               {"[[:^alpha:][\\W]]+", "a1-b", {1, 2, 1}},
               {"\\p{N}{1,3}+", "1234567 ", {7, 1}},
               {"(a|b){2}?c", "abcc", {3, 1}},
               {"x{,2}", "xxx", {2, 1}},
               {"a{b", "aa{b", {1, 3}},
               {"\\s+$", "a \nb", {1, 1, 2}},
               {"^ +", " \n  a", {1, 1, 2, 1}},
               {"\\w+", "e\xcc\x81-", {3, 1}},
               {"\\b", "ab c", {2, 1, 1}},
               {"\\h+", "ag", {1, 1}},
               {"\\p{Han}+", "\xe6\xbc\xa2\xe3\x80\x82", {3, 3}},
               {"a(?i)b|c", "aCabc", {2, 2, 1}},
               {"(?m:a.)", "a\nb", {2, 1}},
               {"\\u0061+", "aab", {2, 1}}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    Buffer spelled = {0};
    const char *what = NULL;
    Error error = {0};
    Pattern *pattern = NULL;
    Matcher *matcher = NULL;
    assert_true(oniguruma_spell(known[i].pattern, strlen(known[i].pattern), &spelled, &what));
    assert_true(pattern_create(spelled.text, spelled.length, &pattern, &error) && matcher_create(&matcher, &error));
    const size_t length = strlen(known[i].text);
    bool cut[32] = {true};
    size_t begin, end;
    for (size_t at = 0; at < length && pattern_next(pattern, matcher, known[i].text, length, at, false, &begin, &end) ==
                                           MATCH_FOUND;) {
      cut[begin] = cut[end] = true;
      at = end > at ? end : at + 1;
    }
    size_t at = 0;
    for (int k = 0; at < length; k++) {
      const size_t size = (size_t)known[i].cut[k];
      for (size_t b = at + 1; b < length && b <= at + size; b++) {
        if (cut[b] != (b == at + size)) {
          fail_msg("%s cuts '%s' otherwise, at %zu, as %s", known[i].pattern, known[i].text, b, spelled.text);
        }
      }
      at += size;
    }
    matcher_destroy(matcher);
    pattern_destroy(pattern);
    buffer_free(&spelled);
  }
  static const char *const as_they_are[] = {
      "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      "(?i:'s|'t)|[^\\]a-]++|a{2,3}?|(?<!x)\\P{Lu}*"};
  for (size_t i = 0; i < sizeof as_they_are / sizeof *as_they_are; i++) {
    Buffer spelled = {0};
    const char *what = NULL;
    assert_true(oniguruma_spell(as_they_are[i], strlen(as_they_are[i]), &spelled, &what));
    assert_string_equal(spelled.text, as_they_are[i]);
    buffer_free(&spelled);
  }
  static const char *const refused[] = {"(?x)a b", "(?~a)", "[a", "[[:punct:]]", "\\y"};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    Buffer spelled = {0};
    const char *what = NULL;
    assert_false(oniguruma_spell(refused[i], strlen(refused[i]), &spelled, &what));
    assert_non_null(what);
    buffer_free(&spelled);
  }
}

static uint32_t random_next(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

static const char *const words[] = {"a",  "the",  "Is", "'s", "'LL", "'re", " ",    "  ",   "\n", "\r\n",     "\t",
                                    "12", "4567", "-",  "(",  "''",  ".\n", "\n\n", "\x7f", "\v", "aaaaaaaa", "_x"};
static const char *const far_words[] = {"\xc3\xa9",
                                        "\xe6\x97\xa5\xe6\x9c\xac",
                                        "\xef\xbc\x92",
                                        "\xc2\x85",
                                        "\xe1\xa0\x8e",
                                        "\xe3\x80\x80",
                                        "'\xc5\xbf",
                                        "\xf0\x9f\x98\x80",
                                        "\xff",
                                        "\xe6\x97",
                                        "\xc0\x80",
                                        "\xed\xa0\x80",
                                        "<|endoftext|>",
                                        "<|pad",
                                        "e\xcc\x81",
                                        "\xcc\xa3\xcc\x87",
                                        "\xcc\x87\xcc\xa3",
                                        "\xcd\x84",
                                        "\xe3\x82\x99",
                                        "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8",
                                        "\xea\xb0\x80\xe1\x86\xa8",
                                        "\xf4\x90\x80\x80"};

static size_t text_draw(uint32_t *seed, bool ascii, char *out, size_t most) {
  size_t length = 0;
  while (length + 32 < most) {
    const uint32_t count = sizeof words / sizeof *words,
                   all = ascii ? count : count + sizeof far_words / sizeof *far_words;
    const uint32_t choice = random_next(seed) % all;
    const char *word = choice < count ? words[choice] : far_words[choice - count];
    memcpy(out + length, word, strlen(word));
    length += strlen(word);
  }
  return length;
}

static void same(const TokenList *a, const TokenList *b) {
  assert_int_equal(a->count, b->count);
  assert_memory_equal(a->at, b->at, sizeof *a->at * (size_t)a->count);
}

// The loops for ASCII are the patterns, and pieces of a text make the tokens of the whole.
static void test_scans(void **state) {
  (void)state;
  needs_patterns();
  const char *const patterns[] = {scan_gpt2_pattern, scan_llama3_pattern, scan_cl100k_pattern, scan_qwen_pattern};
  char *text = malloc(20000);
  uint32_t seed = 7;
  for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
    // As ranks of tiktoken have it: in a tokenizer.json cl100k's is another pattern, of Oniguruma.
    Error error = {0};
    Tokenizer *tokenizer =
        tokenizer_of("{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}", end_added, "");
    assert_true(tokenizer_cut(tokenizer, patterns[p], strlen(patterns[p]), true, true, &error));
    assert_non_null(scan_of(patterns[p], strlen(patterns[p])));
    for (int trial = 0; trial < 40; trial++) {
      const size_t length = text_draw(&seed, trial % 2, text, trial < 20 ? 100 : 20000);
      TokenList scanned = encoded(tokenizer, text, length, 1 << 20);
      TokenList plain = encoded_as(tokenizer, text, length, 1 << 20, true);
      TokenList pieces = encoded(tokenizer, text, length, 64 + random_next(&seed) % 500);
      same(&plain, &scanned);
      same(&plain, &pieces);
      tokens_free(&scanned);
      tokens_free(&plain);
      tokens_free(&pieces);
    }
    tokenizer_close(tokenizer);
  }
  free(text);
}

// A pattern that looks behind sees what stands ahead of a piece of the text.
static void test_behind(void **state) {
  (void)state;
  needs_patterns();
  static const char *const patterns[] = {"^..|.", "\\\\b\\\\w{2}|.|\\\\n", "(?<=a)[a-z]+|.|\\\\n"};
  char text[2000];
  for (size_t i = 0; i < sizeof text; i++) {
    text[i] = "the\nre is"[i % 9];
  }
  for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
    Buffer cut = {0};
    buffer_format(
        &cut,
        "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"%s\"}, "
        "\"behavior\": \"Isolated\"}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
        "\"use_regex\": false}]}",
        patterns[p]);
    Tokenizer *tokenizer = tokenizer_of(cut.text, "[]", "");
    for (size_t size = 7; size < 400; size += 31) {
      TokenList whole = encoded(tokenizer, text, sizeof text, 1 << 20);
      TokenList pieces = encoded(tokenizer, text, sizeof text, size);
      same(&whole, &pieces);
      tokens_free(&whole);
      tokens_free(&pieces);
    }
    tokenizer_close(tokenizer);
    buffer_free(&cut);
  }
}

// Normal forms: text in pieces makes the tokens of the whole, and those of the form itself.
// Tokens that are looked for in the form: of a letter that has an accent, of a digit that is written wide.
static const char form_added[] =
    "[{\"id\": 300, \"content\": \"e\", \"normalized\": true}, {\"id\": 301, \"content\": \"2\", \"normalized\": true},"
    " {\"id\": 302, \"content\": \"the\", \"normalized\": true}, {\"id\": 303, \"content\": \"he12\"}]";

static void test_normal_forms(void **state) {
  (void)state;
  needs_patterns();
  static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
  Error error = {0};
  char *text = malloc(20000);
  uint32_t seed = 3;
  if (!normal_available(&error)) {
    skip();
  }
  for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
    Buffer cut = {0}, normal = {0};
    buffer_text(&cut, gpt2_cut);
    Tokenizer *without = tokenizer_of(cut.text, form_added, "");
    buffer_format(&cut, ", \"normalizer\": {\"type\": \"%s\"}", forms[f]);
    Tokenizer *tokenizer = tokenizer_of(cut.text, form_added, "");
    for (int trial = 0; trial < 60; trial++) {
      const size_t length = text_draw(&seed, false, text, trial < 40 ? 100 : 20000);
      const size_t valid = utf8_valid((const uint8_t *)text, length);
      TokenList whole = encoded(tokenizer, text, length, 1 << 20);
      TokenList pieces = encoded(tokenizer, text, length, 64 + random_next(&seed) % 200);
      same(&whole, &pieces);
      assert_true(normal_put(normal_form(forms[f]), (const uint8_t *)text, valid, &normal, &error));
      TokenList by_hand = encoded(without, normal.text, normal.length, 1 << 20);
      TokenList of_valid = encoded(tokenizer, text, valid, 1 << 20);
      same(&by_hand, &of_valid);
      tokens_free(&whole);
      tokens_free(&pieces);
      tokens_free(&by_hand);
      tokens_free(&of_valid);
    }
    tokenizer_close(tokenizer);
    tokenizer_close(without);
    buffer_free(&cut);
    buffer_free(&normal);
  }
  Tokenizer *composes = tokenizer_of(
      "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"normalizer\": {\"type\": \"NFC\"}", "[]", "");
  EXPECT(composes, "e\xcc\x81", 0xc3, 0xa9);
  EXPECT(composes, "\xe3\x81\x8b\xe3\x82\x99", 0xe3, 0x81, 0x8c);
  tokenizer_close(composes);
  composes =
      tokenizer_of("{\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"normalizer\": {\"type\": \"NFC\"}",
                   "[{\"id\": 300, \"content\": \"e\xcc\x81x\", \"normalized\": true},"
                   " {\"id\": 301, \"content\": \"a\", \"normalized\": true}, {\"id\": 302, \"content\": \"xb\"}]",
                   "");
  EXPECT(composes, "\xc3\xa9x.e\xcc\x81xy", 300, '.', 300, 'y');
  EXPECT(composes, "aa\xcc\x81", 301, 0xc3, 0xa1);
  EXPECT(composes, "e\xcc\x81xb", 0xc3, 0xa9, 302);  // what is looked for as it is goes first
  tokenizer_close(composes);
  free(text);
}

// Any bytes come back.
static void test_round_trip(void **state) {
  (void)state;
  needs_patterns();
  Tokenizer *tokenizer = tokenizer_of(gpt2_cut, "[]", "");
  char *text = malloc(5000);
  uint32_t seed = 11;
  for (int trial = 0; trial < 60; trial++) {
    size_t length = 1 + random_next(&seed) % 5000, at = 0;
    for (size_t i = 0; i < length; i++) {
      text[i] = (char)(trial % 3 ? random_next(&seed) : 'a');
    }
    TokenList tokens = encoded(tokenizer, text, length, trial % 2 ? 50 : 5000);
    for (int64_t i = 0; i < tokens.count; i++) {
      int32_t size;
      const uint8_t *bytes = tokenizer_bytes(tokenizer, tokens.at[i], &size);
      assert_non_null(bytes);
      assert_true(at + (size_t)size <= length);
      assert_memory_equal(text + at, bytes, (size_t)size);
      at += (size_t)size;
    }
    assert_int_equal(at, length);
    tokens_free(&tokens);
  }
  free(text);
  tokenizer_close(tokenizer);
}

static void test_ranks(void **state) {
  (void)state;
  needs_patterns();
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Buffer text = {0};
  Error error = {0};
  Tokenizer *tokenizer = NULL;
  for (int byte = 0; byte < 256; byte++) {
    buffer_format(&text, "%c%c== %d\n", digits[byte >> 2], digits[(byte & 3) << 4], byte);
  }
  buffer_text(&text, "dGg= 256\ndGhl 257\nIHRoZQ== 258\r\nYWE= 259\nYWFh 260\n");
  assert_true(tokenizer_read("small.tiktoken", text.text, text.length, &tokenizer, &error));
  EXPECT(tokenizer, "in the th", 'i', 'n', 258, ' ', 256);
  EXPECT(tokenizer, "aaaa aaa", 259, 259, ' ', 260);
  tokenizer_close(tokenizer);
  buffer_text(&text, "dGg= x\n");
  assert_false(tokenizer_read("small.tiktoken", text.text, text.length, &tokenizer, &error));
  assert_non_null(strstr(error.text, "small.tiktoken: line 262, at byte 2"));
  assert_non_null(strstr(error.text, "is no token in base64 and its rank"));
  buffer_free(&text);
}

static void expect_error(const char *cut, const char *added, const char *more, const char *words_said) {
  Buffer text = {0};
  Error error = {0};
  Tokenizer *tokenizer = NULL;
  json_put(&text, cut, merges, MERGES, added, more);
  assert_false(tokenizer_read("bad.json", text.text, text.length, &tokenizer, &error));
  assert_int_equal(error.status, 1);
  if (!strstr(error.text, words_said)) {
    fail_msg("expected '%s' in: %s", words_said, error.text);
  }
  buffer_free(&text);
}

// Tokens of characters: spaces are U+2581, what is no token is bytes.
static void test_characters(void **state) {
  (void)state;
  needs_patterns();
  static const char *const forms[] = {
      "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": "
      "\"\xe2\x96\x81\"}, "
      "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\xe2\x96\x81\"}]}",
      "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", \"prepend_scheme\": \"first\", "
      "\"split\": false}"};
  for (size_t form = 0; form < sizeof forms / sizeof *forms; form++) {
    Buffer text = {0};
    Error error = {0};
    Tokenizer *tokenizer = NULL;
    buffer_format(&text,
                  "{%s, \"added_tokens\": [{\"id\": 400, \"content\": \"</s>\"}, {\"id\": 401, \"content\": \"the\", "
                  "\"normalized\": true}], \"model\": {\"byte_fallback\": true, \"vocab\": {",
                  forms[form]);
    for (int byte = 0; byte < 256; byte++) {
      buffer_format(&text, "\"<0x%02X>\": %d, ", byte, byte);
    }
    buffer_text(&text,
                "\"\xe2\x96\x81\": 256, \"a\": 257, \"b\": 258, \"\xe6\x97\xa5\": 259, \"ab\": 260, "
                "\"\xe2\x96\x81\xe2\x96\x81\": 261, \"\xe2\x96\x81"
                "ab\": 262}, \"merges\": [\"a b\", "
                "\"\xe2\x96\x81 \xe2\x96\x81\", \"\xe2\x96\x81 ab\"]}}");
    if (!tokenizer_read("characters.json", text.text, text.length, &tokenizer, &error)) {
      fail_msg("%s", error.text);
    }
    EXPECT(tokenizer, "ab ab", 262, 262);
    EXPECT(tokenizer, "b\xe6\x97\xa5\xc3\xa9\n\xff", 256, 258, 259, 0xc3, 0xa9, '\n', 0xff);
    if (form == 0) {
      EXPECT(tokenizer, " ab", 261, 260);
      EXPECT(tokenizer, "ab</s>ab", 262, 400, 262);
      // Of the form is the space ahead of the text: the token is looked for behind a space.
      EXPECT(tokenizer, "the thea", 401, 401, 257);
      EXPECT(tokenizer, " the", 256, 401);
      EXPECT(tokenizer, "bthe</s>the", 256, 258, 't', 'h', 'e', 400, 401);
      EXPECT(tokenizer, "b\xe2\x96\x81the", 256, 258, 401);
    } else {
      EXPECT(tokenizer, " ab", 262);
      EXPECT(tokenizer, "ab</s>ab", 262, 400, 260);
      EXPECT(tokenizer, "the a", 401, 256, 257);
      EXPECT(tokenizer, "bthe</s>the", 256, 258, 401, 400, 401);
    }
    assert_int_equal(tokenizer_end(tokenizer), 400);
    int32_t length;
    assert_memory_equal(tokenizer_bytes(tokenizer, 262, &length), " ab", 3);
    assert_string_equal((const char *)tokenizer_bytes(tokenizer, 401, &length), form == 0 ? " the" : "the");
    char drawn[3000];
    uint32_t seed = 5;
    const size_t size = text_draw(&seed, false, drawn, sizeof drawn);
    TokenList whole = encoded(tokenizer, drawn, size, 5000), pieces = encoded(tokenizer, drawn, size, 60);
    same(&whole, &pieces);
    tokens_free(&whole);
    tokens_free(&pieces);
    tokenizer_close(tokenizer);
    buffer_free(&text);
  }
}

static void test_refused(void **state) {
  (void)state;
  needs_patterns();
  Error error = {0};
  Tokenizer *tokenizer = NULL;
  expect_error("null", "[]", "", "has no tokenizer without ByteLevel");
  expect_error("{\"type\": \"ByteLevel\"}", "[]", "", "has no ByteLevel with add_prefix_space");
  expect_error("{\"type\": \"Metaspace\"}", "[]", "", "has no pre-tokenizer Metaspace");
  expect_error(gpt2_cut, "[]", "\"byte_fallback\": true, ", "has no pre-tokenizer of characters ByteLevel");
  expect_error(gpt2_cut, "[]", "\"end_of_word_suffix\": \"</w>\", ", "has no model with end_of_word_suffix");
  expect_error(gpt2_cut, "[{\"id\": 1, \"content\": \"x\", \"single_word\": true}]", "",
               "has no added token with single_word: x");
  expect_error(gpt2_cut, "[{\"id\": -1, \"content\": \"x\"}]", "", "the token 'x' has no number from 0 to");
  expect_error("{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}}", "[]", "",
               "the pattern ( cannot be read: missing");
  expect_error("{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(?x)a\"}}", "[]", "", "has no pattern with spaces");
  expect_error("{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\"}, \"behavior\": \"MergedWithNext\"}", "[]", "",
               "has no Split of behaviour MergedWithNext");
  static const char none[] =
      "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
      "\"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [%s]}}";
  static const char *const entries[][2] = {{"", "has no merges"},
                                           {"\"a c\"", "merge 0 names 'c', which is no token"},
                                           {"\"a b\", \"ab\"", "merge 1 is no pair of tokens"},
                                           {"[\"b\", \"a\"]", "merge 0 names 'ba'"}};
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    Buffer text = {0};
    buffer_format(&text, none, entries[i][0]);
    assert_false(tokenizer_read("bad.json", text.text, text.length, &tokenizer, &error));
    assert_non_null(strstr(error.text, entries[i][1]));
    buffer_free(&text);
  }
  assert_false(tokenizer_read("bad.json", "{\"model\": [", 11, &tokenizer, &error));
  assert_non_null(strstr(error.text, "bad.json is no JSON: line 1"));
  static const char lacks[] =
      "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
      "\"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}}";
  Encoder *encoder;
  TokenList tokens = {0};
  size_t used;
  assert_true(tokenizer_read("lacks.json", lacks, sizeof lacks - 1, &tokenizer, &error));
  assert_true(encoder_create(tokenizer, &encoder, &error));
  assert_false(encoder_add(encoder, "abc", 3, false, &used, &tokens, &error));
  assert_non_null(strstr(error.text, "lacks.json has no token for the byte 0x63, which the text has: 'abc'"));
  tokens_free(&tokens);
  encoder_destroy(encoder);
  tokenizer_close(tokenizer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_merges),     cmocka_unit_test(test_cuts),   cmocka_unit_test(test_dialect),
      cmocka_unit_test(test_scans),      cmocka_unit_test(test_behind), cmocka_unit_test(test_normal_forms),
      cmocka_unit_test(test_round_trip), cmocka_unit_test(test_ranks),  cmocka_unit_test(test_characters),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
