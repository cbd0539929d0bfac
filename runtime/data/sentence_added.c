// sentence_added.c: tokens that the files of transformers beside a .model of SentencePiece add to it.
//
// tokenizer_config.json lists them in added_tokens_decoder; where it does not, added_tokens.json has their numbers.
// Text is cut at them first, the longest of those that begin at a place, and each part between them is encoded as a
// text of its own: with the space ahead that the model says, or, with "legacy": false, with one ahead of the text
// alone, unless that begins with a special token. The special tokens of the class are among them, as <s> and </s> of
// the model. That is what the Python classes of transformers 4 do that are named here; others are refused, and so is
// what does not fit the model.
#include "runtime/data/sentence_added.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json_guard.h"
#include "runtime/io.h"

enum { MOST_BYTES = 64 << 20 };

// Special tokens that a class has where its files name no others, in the order of special_keys.
static const struct {
  const char *name, *special[4];
} classes[] = {
    {"LlamaTokenizer", {"<s>", "</s>", "<unk>", NULL}},
    {"LlamaTokenizerFast", {"<s>", "</s>", "<unk>", NULL}},
    {"GemmaTokenizer", {"<bos>", "<eos>", "<unk>", "<pad>"}},
    {"GemmaTokenizerFast", {"<bos>", "<eos>", "<unk>", "<pad>"}},
};
static const char *const special_keys[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                           "sep_token", "cls_token", "mask_token"};

typedef struct {
  Arena *arena;
  SentenceAdded *added;
  const char *directory, *path;  // path: of the file at hand
  Error *error;
} Reading;

static bool wrong(const Reading *r, const char *what) {
  return error_set(r->error, 1, "%s: %s", r->path, what);
}

// --- files ---

// *object NULL: there is no such file. To be dropped by json_decref.
static bool file_open(Reading *r, const char *name, json_t **object) {
  char *text;
  size_t size;
  json_error_t why;
  bool starved;
  *object = NULL;
  r->path = arena_format(r->arena, "%s%s", r->directory, name);
  if (!io_is_file(r->path)) {
    return true;
  }
  if (!io_read_file(r->path, MOST_BYTES, &text, &size, r->error)) {
    return false;
  }
  *object = json_read(text, size, JSON_REJECT_DUPLICATES, &why, &starved);
  free(text);
  if (starved) {
    return error_set(r->error, 3, "no memory for %s", r->path);
  }
  if (!*object) {
    return wrong(r, arena_format(r->arena, "line %d: %s", why.line, why.text));
  }
  if (!json_is_object(*object)) {
    json_decref(*object);
    *object = NULL;
    return wrong(r, "it is no JSON object");
  }
  return true;
}

static bool number_read(Reading *r, json_int_t number, const char *text, int32_t *token) {
  *token = (int32_t)number;
  return (number >= 0 && number < TOKENIZER_MOST_KINDS) ||
         wrong(r, arena_format(r->arena, "the added token '%.100s' has no number from 0 to %d", text,
                               TOKENIZER_MOST_KINDS - 1));
}

static bool token_add(Reading *r, const char *text, int32_t token, bool left, bool right) {
  for (int i = 0; i < r->added->list.count; i++) {
    const Added *other = &r->added->list.at[i];
    if (other->token == token || strcmp(other->text, text) == 0) {
      return wrong(r,
                   arena_format(r->arena, "the added tokens %d, '%.100s', and %d, '%.100s', share a number or a text",
                                other->token, other->text, token, text));
    }
  }
  const char *copy = arena_format(r->arena, "%s", text);
  array_push(r->arena, &r->added->list,
             ((Added){.text = copy, .length = (int32_t)strlen(copy), .token = token, .left = left, .right = right}));
  return *copy != '\0' || wrong(r, arena_format(r->arena, "the added token %d has no text", token));
}

static bool decoder_entry(Reading *r, const char *key, const json_t *value) {
  char *end;
  const long long number = strtoll(key, &end, 10);
  const char *text = json_string_value(json_object_get(value, "content"));
  int32_t token;
  if (!text || *key < '0' || *key > '9' || *end) {
    return wrong(r, arena_format(r->arena, "added_tokens_decoder: the entry '%.40s' is no number with a content", key));
  }
  if (json_is_true(json_object_get(value, "single_word"))) {
    return wrong(r, arena_format(r->arena, "this version has no added token with single_word, as '%.100s'", text));
  }
  return number_read(r, number, text, &token) &&
         token_add(r, text, token, json_is_true(json_object_get(value, "lstrip")),
                   json_is_true(json_object_get(value, "rstrip")));
}

static bool decoder_read(Reading *r, const json_t *decoder) {
  const char *key;
  json_t *value;
  if (!json_is_object(decoder)) {
    return wrong(r, "added_tokens_decoder is no object");
  }
  json_object_foreach((json_t *)(uintptr_t)decoder, key, value) {
    if (!decoder_entry(r, key, value)) {
      return false;
    }
  }
  return true;
}

// `known`: another file has said them, and this one must say the same of those that it has.
static bool numbers_read(Reading *r, const json_t *numbers, bool known) {
  const char *text;
  json_t *value;
  int32_t token;
  json_object_foreach((json_t *)(uintptr_t)numbers, text, value) {
    bool same = false;
    if (!number_read(r, json_is_integer(value) ? json_integer_value(value) : -1, text, &token)) {
      return false;
    }
    for (int i = 0; known && i < r->added->list.count; i++) {
      same |= r->added->list.at[i].token == token && strcmp(r->added->list.at[i].text, text) == 0;
    }
    if (known && !same) {
      return wrong(r, arena_format(r->arena,
                                   "the token '%.100s' is %d here, which added_tokens_decoder of "
                                   "tokenizer_config.json does not say",
                                   text, token));
    }
    if (!known && !token_add(r, text, token, false, false)) {
      return false;
    }
  }
  return true;
}

// --- special tokens ---

static const char *text_of(const json_t *value) {
  return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

static void special_add(Reading *r, const char *text) {
  array_push(r->arena, &r->added->special, arena_format(r->arena, "%s", text));
}

static bool special_read(Reading *r, const json_t *object, bool *has) {
  static const char key[] = "additional_special_tokens";
  const json_t *more = json_object_get(object, key), *item;
  size_t i;
  for (size_t k = 0; k < sizeof special_keys / sizeof *special_keys; k++) {
    const json_t *value = json_object_get(object, special_keys[k]);
    const bool said = value && !json_is_null(value);
    if (said && !text_of(value)) {
      return wrong(r, arena_format(r->arena, "%s is no text", special_keys[k]));
    }
    if (said) {
      special_add(r, text_of(value));
    }
    has[k] |= value != NULL;
  }
  if (more && !json_is_null(more) && !json_is_array(more)) {
    return wrong(r, arena_format(r->arena, "%s is no list", key));
  }
  json_array_foreach(more, i, item) {
    if (!text_of(item)) {
      return wrong(r, arena_format(r->arena, "%s has an entry that is no text", key));
    }
    special_add(r, text_of(item));
  }
  return true;
}

static bool class_read(Reading *r, const json_t *config, const bool *has) {
  const char *name = json_string_value(json_object_get(config, "tokenizer_class"));
  const json_t *legacy = json_object_get(config, "legacy"), *prefix = json_object_get(config, "add_prefix_space");
  for (size_t i = 0; name && i < sizeof classes / sizeof *classes; i++) {
    if (strcmp(name, classes[i].name) != 0) {
      continue;
    }
    for (size_t k = 0; k < sizeof classes[i].special / sizeof *classes[i].special; k++) {
      if (!has[k] && classes[i].special[k]) {
        special_add(r, classes[i].special[k]);
      }
    }
    if (legacy && !json_is_null(legacy) && !json_is_boolean(legacy)) {
      return wrong(r, "legacy is neither true nor false");
    }
    if (prefix && !json_is_null(prefix) && !json_is_true(prefix)) {
      return wrong(r, "this version has no add_prefix_space but true, beside tokens that are added to a .model");
    }
    r->added->once = json_is_false(legacy);
    return true;
  }
  return wrong(
      r, name ? arena_format(r->arena,
                             "tokens are added to a .model of SentencePiece, and how the class '%.100s' finds them "
                             "in text is not known here; LlamaTokenizer and GemmaTokenizer are",
                             name)
              : "tokens are added to a .model of SentencePiece, and nothing says how they are found in text: "
                "tokenizer_config.json has no tokenizer_class");
}

static bool files_read(Reading *r, json_t **config, json_t **numbers, json_t **map) {
  bool has[sizeof special_keys / sizeof *special_keys] = {false};
  if (!file_open(r, "added_tokens.json", numbers) || !file_open(r, "special_tokens_map.json", map) ||
      !file_open(r, "tokenizer_config.json", config)) {
    return false;
  }
  const json_t *decoder = json_object_get(*config, "added_tokens_decoder");
  if (!decoder && !*numbers) {
    return true;
  }
  const char *path = r->path;
  r->added->there = true;
  if (decoder && !decoder_read(r, decoder)) {
    return false;
  }
  r->path = arena_format(r->arena, "%sadded_tokens.json", r->directory);
  if (*numbers && !numbers_read(r, *numbers, decoder != NULL)) {
    return false;
  }
  r->path = arena_format(r->arena, "%sspecial_tokens_map.json", r->directory);
  if (*map && !special_read(r, *map, has)) {
    return false;
  }
  r->path = path;
  return special_read(r, *config, has) && class_read(r, *config, has);
}

bool sentence_added_read(Arena *arena, const char *path, SentenceAdded *added, Error *error) {
  const char *slash = strrchr(path, '/');
  const char *directory = arena_format(arena, "%.*s", slash ? (int)(slash - path + 1) : 0, path);
  Reading r = {.arena = arena, .added = added, .directory = directory, .path = path, .error = error};
  json_t *config = NULL, *numbers = NULL, *map = NULL;
  *added = (SentenceAdded){0};
  const bool done = files_read(&r, &config, &numbers, &map);
  json_decref(config);
  json_decref(numbers);
  json_decref(map);
  return done;
}

void sentence_added_text(const SentenceAdded *added, Buffer *text) {
  buffer_format(text, "once %d\n", added->once);
  for (int i = 0; i < added->list.count; i++) {
    const Added *one = &added->list.at[i];
    buffer_format(text, "%d %d %d %d %s\n", one->token, one->length, one->left, one->right, one->text);
  }
  for (int i = 0; i < added->special.count; i++) {
    buffer_format(text, "special %s\n", added->special.at[i]);
  }
}

// --- beside the pieces of the model ---

static bool unfit(const Tokenizer *t, const char *what, Error *error) {
  return error_set(error, 1, "%s: %s beside it", t->path, what);
}

static bool added_fits(const Tokenizer *t, const Added *one, Error *error) {
  const Sentence *s = t->sentence;
  const SentencePiece *piece = one->token < s->count ? &s->pieces[one->token] : NULL;
  if (piece && (piece->length != one->length || memcmp(piece->text, one->text, (size_t)one->length) != 0)) {
    return unfit(
        t,
        arena_format(t->arena, "its piece %d is '%.*s', and the token %d is '%.100s' in the files of transformers",
                     one->token, piece->length < 100 ? piece->length : 100, (const char *)piece->text, one->token,
                     one->text),
        error);
  }
  const int32_t other = piece ? -1 : sentence_piece(t, one->text);
  return other < 0 || unfit(t,
                            arena_format(t->arena,
                                         "its piece %d is '%.100s', which is the token %d in the files of "
                                         "transformers",
                                         other, one->text, one->token),
                            error);
}

// Special tokens that no list has are pieces of the model; transformers would make up numbers for others.
static bool special_put(Tokenizer *t, const char *text, Error *error) {
  for (int i = 0; i < t->added_count; i++) {
    if (strcmp(t->added[i].text, text) == 0) {
      t->added[i].bare = true;
      return true;
    }
  }
  const int32_t piece = sentence_piece(t, text);
  if (piece < 0) {
    return unfit(t,
                 arena_format(t->arena,
                              "there is no piece '%.100s', which is a special token without a number in the "
                              "files of transformers",
                              text),
                 error);
  }
  t->added[t->added_count++] = (Added){.text = text, .length = (int32_t)strlen(text), .token = piece, .bare = true};
  return true;
}

static void texts_extend(Tokenizer *t) {
  int32_t kinds = t->kinds;
  for (int i = 0; i < t->added_count; i++) {
    kinds = t->added[i].token >= kinds ? t->added[i].token + 1 : kinds;
  }
  TokenText *texts = ARENA_ARRAY(t->arena, TokenText, kinds);
  memcpy(texts, t->texts, sizeof *texts * (size_t)t->kinds);
  for (int i = 0; i < t->added_count; i++) {
    const Added *one = &t->added[i];
    if (one->token >= t->kinds) {
      texts[one->token] = (TokenText){(const uint8_t *)one->text, one->length};
    }
  }
  t->texts = texts;
  t->kinds = kinds;
}

bool sentence_added(Tokenizer *t, const char *path, Error *error) {
  SentenceAdded added;
  if (!sentence_added_read(t->arena, path, &added, error)) {
    return false;
  }
  if (!added.there) {
    return true;
  }
  if (t->sentence->suffix || (added.once && t->sentence->collapse)) {
    return unfit(t,
                 t->sentence->suffix ? "it has spaces behind words, and there are added tokens"
                                     : "it leaves out spaces, and there are added tokens and \"legacy\": false",
                 error);
  }
  t->added = ARENA_ARRAY(t->arena, Added, added.list.count + added.special.count + 1);
  for (int i = 0; i < added.list.count; i++) {
    if (!added_fits(t, &added.list.at[i], error)) {
      return false;
    }
    t->added[t->added_count++] = added.list.at[i];
  }
  for (int i = 0; i < added.special.count; i++) {
    if (!special_put(t, added.special.at[i], error)) {
      return false;
    }
  }
  t->prefix = added.once ? PREFIX_FIRST : PREFIX_EACH;
  texts_extend(t);
  return true;
}
