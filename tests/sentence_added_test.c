// sentence_added_test.c: tokens that files of transformers add to a .model of SentencePiece: text is cut at them, and
// each part is encoded as the plain model encodes it; what does not fit the model, or is not known, is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <unistd.h>

#include "runtime/data/fingerprint.h"
#include "runtime/io.h"
#include "tests/sentence_made.h"

static char directory[] = "/tmp/sentence_added_XXXXXX";

static const char *file_of(const char *name) {
  static char path[200];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

static void put(const char *name, const void *text, size_t length) {
  Error error = {0};
  if (!io_replace_file(NULL, file_of(name), text, length, &error)) {
    fail_msg("%s", error.text);
  }
}

static void say(const char *name, const char *text) {
  if (text) {
    put(name, text, strlen(text));
  } else {
    unlink(file_of(name));
  }
}

static void model_write(const Made *made) {
  Buffer file = {0};
  model_put(&file, made);
  put("small.model", file.text, file.length);
  buffer_free(&file);
}

static Tokenizer *opened(const char *config, const char *numbers, const char *map) {
  Tokenizer *tokenizer = NULL;
  Error error = {0};
  say("tokenizer_config.json", config);
  say("added_tokens.json", numbers);
  say("special_tokens_map.json", map);
  if (!tokenizer_open(file_of("small.model"), &tokenizer, &error)) {
    fail_msg("%s", error.text);
  }
  return tokenizer;
}

#define OWN "\"0\": {\"content\": \"<unk>\"}, \"1\": {\"content\": \"<s>\"}, \"2\": {\"content\": \"</s>\"}"
#define MORE                                                                                 \
  "\"14\": {\"content\": \"<|a|>\", \"special\": true}, \"15\": {\"content\": \"<|a|>b\"}, " \
  "\"17\": {\"content\": \"<l>\", \"lstrip\": true}, \"18\": {\"content\": \"<r>\", \"rstrip\": true}"
#define LLAMA(legacy)                                                                      \
  "{\"tokenizer_class\": \"LlamaTokenizer\", \"additional_special_tokens\": [\"<|a|>\"], " \
  "\"legacy\": " legacy ", \"added_tokens_decoder\": {" OWN ", " MORE "}}"

typedef struct {
  const char *text;
  int32_t token;
  bool left, right, named;
} Cut;

static const Cut cuts[] = {{"<unk>", 0, false, false, true},  {"<s>", 1, false, false, true},
                           {"</s>", 2, false, false, true},   {"<|a|>b", 15, false, false, false},
                           {"<|a|>", 14, false, false, true}, {"<l>", 17, true, false, false},
                           {"<r>", 18, false, true, false}};

static const Cut *cut_at(const char *text) {
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    if (strncmp(text, cuts[i].text, strlen(cuts[i].text)) == 0) {
      return &cuts[i];
    }
  }
  return NULL;
}

static void part_add(const Tokenizer *tokenizer, const char *text, size_t length, TokenList *out) {
  TokenList part = encoded(tokenizer, text, length, 1 << 20);
  for (int64_t i = 0; i < part.count; i++) {
    tokens_add(out, part.at[i]);
  }
  tokens_free(&part);
}

// Parts by the plain model; behind the first one, and behind an added token, by `later`.
static TokenList wanted_of(const Tokenizer *first, const Tokenizer *later, const char *text) {
  TokenList out = {0};
  const Tokenizer *now = first;
  for (const char *begin = text, *at = text;; at++) {
    const Cut *cut = cut_at(at);
    if (*at && !cut) {
      continue;
    }
    const char *end = at;
    while (cut && cut->left && end > begin && (end[-1] == ' ' || end[-1] == '\t')) {
      end--;
    }
    if (cut && end == begin && now != later && !cut->named) {
      part_add(later, " ", 1, &out);
    }
    if (end > begin) {
      part_add(now, begin, (size_t)(end - begin), &out);
    }
    if (!cut) {
      return out;
    }
    tokens_add(&out, cut->token);
    now = later;
    begin = at + strlen(cut->text);
    while (cut->right && (*begin == ' ' || *begin == '\t')) {
      begin++;
    }
    at = begin - 1;
  }
}

static void check_texts(const Tokenizer *tokenizer, const Tokenizer *first, const Tokenizer *later) {
  static const char *const words[] = {"<|a|>", "<|a|>b", "<l>", "<r>", "<s>", "</s>", "<unk>", "<u>", "<|a", "<",  "|>",
                                      " ",     "  ",     "\t",  "a",   "ab",  "abb",  "b",     "1",   "x",   "あ", "é"};
  uint32_t seed = 7;
  for (int i = 0; i < 80; i++) {
    char text[200] = "";
    for (uint32_t n = random_next(&seed) % 9; n > 0; n--) {
      strcat(text, words[random_next(&seed) % (sizeof words / sizeof *words)]);
    }
    TokenList wanted = wanted_of(first, later, text);
    for (size_t chunk = 1; chunk < 200; chunk = 3 * chunk + 1) {
      TokenList tokens = encoded(tokenizer, text, strlen(text), chunk);
      if (tokens.count != wanted.count ||
          (wanted.count > 0 && memcmp(tokens.at, wanted.at, sizeof *wanted.at * (size_t)wanted.count) != 0)) {
        fail_msg("'%s', %zu bytes at once: %d tokens, not %d, or others", text, chunk, (int)tokens.count,
                 (int)wanted.count);
      }
      tokens_free(&tokens);
    }
    tokens_free(&wanted);
  }
}

static void test_text_is_cut(void **state) {
  (void)state;
  for (int kind = UNIGRAM; kind <= BPE; kind++) {
    for (int loose = 0; loose < 2; loose++) {
      Made made = small_made(kind);
      made.loose = loose;
      Tokenizer *plain = model_of(&made), *bare, *tokenizer;
      model_write(&made);
      tokenizer = opened(LLAMA("true"), NULL, NULL);
      check_texts(tokenizer, plain, plain);
      tokenizer_close(tokenizer);
      made.bare = true;
      bare = model_of(&made);
      tokenizer = loose ? opened(LLAMA("false"), NULL, NULL) : NULL;
      if (tokenizer) {
        check_texts(tokenizer, plain, bare);
      }
      tokenizer_close(tokenizer);
      tokenizer_close(bare);
      tokenizer_close(plain);
    }
  }
}

// A space ahead of the first part alone, if it is the first of all.
static void test_spaces(void **state) {
  (void)state;
  Made made = small_made(BPE);
  made.loose = true;
  model_write(&made);
  Tokenizer *each = opened(LLAMA("true"), NULL, NULL), *once = opened(LLAMA("false"), NULL, NULL);
  EXPECT(each, "a<|a|>a", 7, 14, 7);
  EXPECT(once, "a<|a|>a", 7, 14, 4);
  EXPECT(once, "<|a|>a", 14, 4);
  EXPECT(once, "<|a|>ba", 3, 15, 4);
  EXPECT(once, "<r>" SPACE " a" SPACE "<l>", 3, 18, 4, 17);
  EXPECT(once, "a <l><r> a", 7, 17, 18, 4);
  EXPECT(each, "<|a|>bb</s>", 15, 3, 5, 2);
  assert_int_equal(tokenizer_kinds(each), 19);
  assert_int_equal(tokenizer_added(each, "<l>"), 17);
  assert_int_equal(tokenizer_added(each, "</s>"), 2);
  assert_int_equal(tokenizer_added(each, "a"), -1);
  int32_t length;
  assert_memory_equal(tokenizer_bytes(each, 15, &length), "<|a|>b", 6);
  assert_int_equal(length, 6);
  assert_null(tokenizer_bytes(each, 16, &length));  // no token has this number
  tokenizer_close(each);
  tokenizer_close(once);
}

// Before added_tokens_decoder there were two files; where nothing is added, the model is as it is.
static void test_older_files(void **state) {
  (void)state;
  Made made = small_made(BPE);
  model_write(&made);
  Tokenizer *t =
      opened("{\"tokenizer_class\": \"LlamaTokenizer\", \"pad_token\": null}", "{\"<pad>\": 14, \"<e>\": 15}",
             "{\"pad_token\": {\"content\": \"<pad>\"}, \"additional_special_tokens\": [\"<e>\"]}");
  EXPECT(t, "a<pad><e></s>", 7, 14, 15, 2);
  tokenizer_close(t);
  t = opened(LLAMA("true"), "{\"<l>\": 17}", NULL);
  EXPECT(t, "<l>", 17);
  tokenizer_close(t);
  t = opened("{\"tokenizer_class\": \"T5Tokenizer\", \"eos_token\": \"</s>\"}", NULL, NULL);
  assert_int_equal(tokenizer_kinds(t), SMALL);
  assert_int_equal(tokenizer_added(t, "</s>"), -1);
  tokenizer_close(t);
}

static void test_fingerprints(void **state) {
  (void)state;
  Made made = small_made(BPE);
  Error error = {0};
  uint64_t print[4];
  model_write(&made);
  const char *const configs[] = {NULL, "{\"tokenizer_class\": \"T5Tokenizer\"}", LLAMA("true"), LLAMA("null")};
  for (int i = 0; i < 4; i++) {
    say("tokenizer_config.json", configs[i]);
    assert_true(fingerprint_tokenizer(file_of("small.model"), &print[i], &error));
  }
  assert_true(print[0] == print[1] && print[1] != print[2] && print[2] == print[3]);
}

static void refused(const char *config, const char *numbers, const char *words) {
  Tokenizer *tokenizer = NULL;
  Error error = {0};
  say("tokenizer_config.json", config);
  say("added_tokens.json", numbers);
  say("special_tokens_map.json", NULL);
  assert_false(tokenizer_open(file_of("small.model"), &tokenizer, &error));
  if (!strstr(error.text, words) || !strstr(error.text, directory)) {
    fail_msg("'%s' is not said: %s", words, error.text);
  }
}

#define DECODER(entries) "{\"tokenizer_class\": \"LlamaTokenizer\", \"added_tokens_decoder\": {" entries "}}"
#define CLASS(rest) "{\"added_tokens_decoder\": {" OWN "}, " rest "}"

static void test_refused(void **state) {
  (void)state;
  Made made = small_made(BPE);
  model_write(&made);
  refused(CLASS("\"tokenizer_class\": \"T5Tokenizer\""), NULL,
          "how the class 'T5Tokenizer' finds them in text is not known");
  refused(NULL, "{\"<pad>\": 14}", "tokenizer_config.json has no tokenizer_class");
  refused(CLASS("\"tokenizer_class\": \"LlamaTokenizer\", \"legacy\": 3"), NULL, "legacy is neither true nor false");
  refused(CLASS("\"tokenizer_class\": \"LlamaTokenizer\", \"add_prefix_space\": false"), NULL, "add_prefix_space");
  refused(CLASS("\"tokenizer_class\": \"LlamaTokenizer\", \"pad_token\": \"<pad>\""), NULL,
          "there is no piece '<pad>'");
  refused(CLASS("\"tokenizer_class\": \"LlamaTokenizer\", \"pad_token\": 3"), NULL, "pad_token is no text");
  refused(CLASS("\"tokenizer_class\": \"GemmaTokenizer\""), NULL, "there is no piece '<bos>'");
  refused(DECODER("\"4\": {\"content\": \"b\"}"), NULL, "its piece 4 is 'a', and the token 4 is 'b'");
  refused(DECODER("\"14\": {\"content\": \"ab\"}"), NULL, "its piece 6 is 'ab', which is the token 14");
  refused(DECODER("\"14\": {\"content\": \"<z>\"}, \"15\": {\"content\": \"<z>\"}"), NULL, "share a number or a text");
  refused(DECODER("\"14\": {\"content\": \"\"}"), NULL, "the added token 14 has no text");
  refused(DECODER("\"x\": {\"content\": \"<z>\"}"), NULL, "the entry 'x' is no number with a content");
  refused(DECODER("\"99999999\": {\"content\": \"<z>\"}"), NULL, "'<z>' has no number from 0 to");
  refused(DECODER("\"14\": {\"content\": \"<z>\", \"single_word\": true}"), NULL, "single_word, as '<z>'");
  refused(LLAMA("true"), "{\"<l>\": 16}", "the token '<l>' is 16 here");
  refused(LLAMA("true"), "[1]", "it is no JSON object");
  refused("{\"added", NULL, "line 1");
  refused(LLAMA("false"), NULL, "it leaves out spaces, and there are added tokens and \"legacy\": false");
  made.suffix = true;
  model_write(&made);
  refused(LLAMA("true"), NULL, "it has spaces behind words, and there are added tokens");
}

static int remove_all(void **state) {
  (void)state;
  return io_remove_tree(directory) ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_text_is_cut), cmocka_unit_test(test_spaces),
                                     cmocka_unit_test(test_older_files), cmocka_unit_test(test_fingerprints),
                                     cmocka_unit_test(test_refused)};
  return mkdtemp(directory) ? cmocka_run_group_tests(tests, NULL, remove_all) : 1;
}
