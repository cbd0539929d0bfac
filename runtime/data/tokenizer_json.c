// tokenizer_json.c: tokenizer.json of Hugging Face: BPE over bytes or characters. What this version does not do is
// refused by name.
#include <string.h>

#include "base/buffer.h"
#include "base/json_guard.h"
#include "base/utf8.h"
#include "runtime/data/alphabet.h"
#include "runtime/data/oniguruma.h"
#include "runtime/data/tokenizer_internal.h"

static const char space_letter[] = "\xe2\x96\x81";

static const char *text_of(const json_t *object, const char *key, const char *otherwise) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : otherwise;
}

static bool flag_of(const json_t *object, const char *key, bool otherwise) {
  const json_t *flag = json_object_get(object, key);
  return json_is_boolean(flag) ? json_boolean_value(flag) : otherwise;
}

static bool refuse(const Tokenizer *tokenizer, const char *what, const char *name, Error *error) {
  return error_set(error, 1,
                   "%s: this version has no %s %s; it reads BPE as GPT-2, Llama 3 and OLMo have it, over bytes, and "
                   "as Llama 2, Mistral and Gemma have it, over characters",
                   tokenizer->path, what, name);
}

// --- Tokens ---

static bool id_read(const Tokenizer *tokenizer, const char *text, const json_t *value, int32_t *id, Error *error) {
  const json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
  *id = (int32_t)number;
  return (number >= 0 && number < TOKENIZER_MOST_KINDS) ||
         error_set(error, 1, "%s: the token '%.100s' has no number from 0 to %d", tokenizer->path, text,
                   TOKENIZER_MOST_KINDS - 1);
}

static bool kinds_count(Tokenizer *tokenizer, json_t *vocab, const json_t *added, Error *error) {
  const char *text;
  const json_t *value;
  size_t index;
  int32_t id, last = -1;
  json_object_foreach(vocab, text, value) {
    if (!id_read(tokenizer, text, value, &id, error)) {
      return false;
    }
    last = id > last ? id : last;
  }
  json_array_foreach(added, index, value) {
    text = text_of(value, "content", "");
    if (!id_read(tokenizer, text, json_object_get(value, "id"), &id, error)) {
      return false;
    }
    last = id > last ? id : last;
  }
  tokenizer->kinds = last + 1;
  return json_object_size(vocab) > 0 || error_set(error, 1, "%s has no tokens", tokenizer->path);
}

// A token of characters as text: spaces as they are, <0x0A> as its byte. Returns its length.
static int32_t character_text(Tokenizer *tokenizer, const char *text, int32_t id, uint8_t *out) {
  static const char digits[] = "0123456789ABCDEF";
  const size_t length = strlen(text);
  int32_t size = 0;
  if (length == 6 && strncmp(text, "<0x", 3) == 0 && text[5] == '>') {
    const char *high = memchr(digits, text[3], 16), *low = memchr(digits, text[4], 16);
    if (high && low) {
      out[0] = (uint8_t)((high - digits) << 4 | (low - digits));
      tokenizer->byte_token[out[0]] = id;
      return 1;
    }
  }
  if (length > 0 && utf8_character((const uint8_t *)text, length) == (int)length) {
    map_put_bytes(&tokenizer->words, text, length, id);
  }
  for (size_t at = 0; at < length;) {
    const bool space = strncmp(text + at, space_letter, 3) == 0;
    tokenizer->severable &= !(space && size > 0 && out[size - 1] != ' ');
    out[size++] = space ? ' ' : (uint8_t)text[at];
    at += space ? 3 : 1;
  }
  return size;
}

static bool texts_read(Tokenizer *tokenizer, json_t *vocab, Error *error) {
  Arena *arena = tokenizer->arena;
  const char *text;
  json_t *value;
  tokenizer->texts = ARENA_ARRAY(arena, TokenText, tokenizer->kinds);
  json_object_foreach(vocab, text, value) {
    const int32_t id = (int32_t)json_integer_value(value);
    const size_t length = strlen(text);
    uint8_t *bytes = ARENA_ARRAY(arena, uint8_t, length + 1);
    TokenText *to = &tokenizer->texts[id];
    if (to->bytes) {
      return error_set(error, 1, "%s gives two tokens the number %d", tokenizer->path, id);
    }
    if (tokenizer->characters) {
      to->length = character_text(tokenizer, text, id, bytes);
    } else if (!alphabet_bytes(text, length, bytes, &to->length)) {
      memcpy(bytes, text, length);
      to->length = (int32_t)length;
    } else if (to->length == 1) {
      tokenizer->byte_token[bytes[0]] = id;
    }
    to->bytes = bytes;
  }
  return true;
}

static bool starved(const Tokenizer *tokenizer, Error *error) {
  return error_set(error, 3, "no memory to read %s", tokenizer->path);
}

// The tokens of `first` and `second`, and what they make together.
// What an added token is in the form of a text, where it is looked for there, behind others: in its normal form, or
// with its spaces as letters, or as it is.
static bool form_set(Tokenizer *tokenizer, const json_t *value, Added *added, Error *error) {
  const bool letters = tokenizer->characters && !tokenizer->prefix_once;
  Buffer form = {0};
  bool done = true;
  if (!flag_of(value, "normalized", false)) {
    return true;
  }
  if (added->left || added->right) {
    return !(letters || tokenizer->normal) ||
           refuse(tokenizer, "added token with normalized and lstrip or rstrip:", added->text, error);
  }
  if (letters) {
    for (const char *c = added->text; *c; c++) {
      buffer_bytes(&form, *c == ' ' ? space_letter : c, *c == ' ' ? strlen(space_letter) : 1);
    }
  } else if (!tokenizer->normal) {
    buffer_text(&form, added->text);
  } else {
    done = normal_put(tokenizer->normal, (const uint8_t *)added->text, (size_t)added->length, &form, error);
  }
  added->form_length = (int32_t)form.length;
  added->form = done && !form.failed ? arena_format(tokenizer->arena, "%s", form.text) : NULL;
  done = done && (!form.failed || starved(tokenizer, error));
  buffer_free(&form);
  return done;
}

// What it decodes to: of one that is looked for behind a space ahead of each text, that space too.
static TokenText added_text(const Tokenizer *tokenizer, const Added *added) {
  const bool ahead =
      added->form && tokenizer->characters && tokenizer->prefix == PREFIX_EACH && !tokenizer->prefix_once;
  const char *text = ahead ? arena_format(tokenizer->arena, " %s", added->text) : added->text;
  return (TokenText){(const uint8_t *)text, added->length + ahead};
}

static bool added_read(Tokenizer *tokenizer, const json_t *all, Error *error) {
  size_t index;
  const json_t *value;
  Arena *arena = tokenizer->arena;
  tokenizer->added = ARENA_ARRAY(arena, Added, json_array_size(all) + 1);
  json_array_foreach(all, index, value) {
    const char *text = text_of(value, "content", "");
    const int32_t length = (int32_t)strlen(text), id = (int32_t)json_integer_value(json_object_get(value, "id"));
    if (length == 0) {
      return error_set(error, 1, "%s: the added token %d has no text", tokenizer->path, id);
    }
    if (flag_of(value, "single_word", false)) {
      return refuse(tokenizer, "added token with single_word:", text, error);
    }
    Added *added = &tokenizer->added[tokenizer->added_count++];
    *added = (Added){.text = arena_format(arena, "%s", text),
                     .length = length,
                     .token = id,
                     .left = flag_of(value, "lstrip", false),
                     .right = flag_of(value, "rstrip", false)};
    if (!form_set(tokenizer, value, added, error)) {
      return false;
    }
    tokenizer->texts[id] = added_text(tokenizer, added);
  }
  return true;
}

// --- Merges ---

static bool merge_of(Tokenizer *tokenizer, const json_t *vocab, const char *first, const char *second, size_t rank,
                     Error *error) {
  Buffer text = {0};
  buffer_format(&text, "%s%s", first, second);
  if (text.failed) {
    return starved(tokenizer, error);
  }
  const json_t *a = json_object_get(vocab, first), *b = json_object_get(vocab, second);
  const json_t *both = json_object_get(vocab, text.text);
  const bool there = a && b && both;
  if (there) {
    tokenizer_merge(tokenizer, (int32_t)json_integer_value(a), (int32_t)json_integer_value(b), (int32_t)rank,
                    (int32_t)json_integer_value(both));
  } else {
    error_set(error, 1, "%s: merge %lld names '%.100s', which is no token", tokenizer->path, (long long)rank,
              !a   ? first
              : !b ? second
                   : text.text);
  }
  buffer_free(&text);
  return there;
}

// "a b", or ["a", "b"].
static bool merge_read(Tokenizer *tokenizer, const json_t *vocab, const json_t *entry, size_t rank, Error *error) {
  const char *text = json_string_value(entry), *space = text ? strchr(text, ' ') : NULL;
  const char *first = json_string_value(json_array_get(entry, 0));
  const char *second = space ? space + 1 : json_string_value(json_array_get(entry, 1));
  Buffer copy = {0};
  if (space) {
    buffer_bytes(&copy, text, (size_t)(space - text));
    if (copy.failed) {
      return starved(tokenizer, error);
    }
    first = copy.text;
  }
  const bool done = first && second && !strchr(second, ' ')
                        ? merge_of(tokenizer, vocab, first, second, rank, error)
                        : error_set(error, 1, "%s: merge %lld is no pair of tokens", tokenizer->path, (long long)rank);
  buffer_free(&copy);
  return done;
}

static bool merges_read(Tokenizer *tokenizer, const json_t *vocab, const json_t *merges, Error *error) {
  size_t rank;
  const json_t *entry;
  const size_t count = json_array_size(merges);
  if (count == 0) {
    return error_set(error, 1, "%s has no merges: every byte would be a token", tokenizer->path);
  }
  tokenizer_merges_reserve(tokenizer, count);
  json_array_foreach(merges, rank, entry) {
    if (!merge_read(tokenizer, vocab, entry, rank, error)) {
      return false;
    }
  }
  return true;
}

// --- How text is cut ---

// A text as a pattern that matches it alone.
static void quote(const char *text, Buffer *out) {
  for (const char *c = text; *c; c++) {
    const bool word = (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c & 0x80;
    buffer_format(out, word ? "%c" : "\\%c", *c);
  }
}

static bool split_read(Tokenizer *tokenizer, const json_t *cut, Error *error) {
  const json_t *pattern = json_object_get(cut, "pattern");
  const char *regex = json_string_value(json_object_get(pattern, "Regex"));
  const char *plain = json_string_value(json_object_get(pattern, "String"));
  const char *behavior = text_of(cut, "behavior", "Isolated");
  const bool invert = flag_of(cut, "invert", false), removed = strcmp(behavior, "Removed") == 0;
  Buffer spelled = {0};
  const char *what = NULL;
  if (!regex && (!plain || !*plain)) {
    return error_set(error, 1, "%s: a Split has no pattern", tokenizer->path);
  }
  if (!removed && strcmp(behavior, "Isolated") != 0) {
    return refuse(tokenizer, "Split of behaviour", behavior, error);
  }
  if (!regex) {
    quote(plain, &spelled);
  } else if (!oniguruma_spell(regex, strlen(regex), &spelled, &what)) {
    buffer_free(&spelled);
    return refuse(tokenizer, "pattern with", what, error);
  }
  const bool done = spelled.failed ? starved(tokenizer, error)
                                   : tokenizer_cut(tokenizer, spelled.text ? spelled.text : "", spelled.length,
                                                   !removed || invert, !removed || !invert, error);
  buffer_free(&spelled);
  return done;
}

static bool cut_read(Tokenizer *tokenizer, const json_t *cut, bool *bytes, Error *error) {
  const char *type = text_of(cut, "type", "");
  if (*bytes) {
    return error_set(error, 1, "%s: '%s' follows on ByteLevel, which must be the last", tokenizer->path, type);
  }
  if (strcmp(type, "ByteLevel") == 0) {
    *bytes = true;
    if (flag_of(cut, "add_prefix_space", true)) {
      return refuse(tokenizer, "ByteLevel with", "add_prefix_space", error);
    }
    return !flag_of(cut, "use_regex", true) ||
           tokenizer_cut(tokenizer, scan_gpt2_pattern, strlen(scan_gpt2_pattern), true, true, error);
  }
  if (strcmp(type, "Digits") == 0) {
    const char *pattern = flag_of(cut, "individual_digits", false) ? "\\p{N}" : "\\p{N}+";
    return tokenizer_cut(tokenizer, pattern, strlen(pattern), true, true, error);
  }
  return strcmp(type, "Split") == 0 ? split_read(tokenizer, cut, error)
                                    : refuse(tokenizer, "pre-tokenizer", *type ? type : "without a type", error);
}

static bool cuts_read(Tokenizer *tokenizer, const json_t *root, Error *error) {
  const json_t *pre = json_object_get(root, "pre_tokenizer"), *normalizer = json_object_get(root, "normalizer");
  const json_t *list = json_object_get(pre, "pretokenizers"), *entry;
  const json_t *steps = json_object_get(normalizer, "normalizers");
  size_t index;
  bool bytes = false;
  const json_t *step = json_is_array(steps) && json_array_size(steps) == 1 ? json_array_get(steps, 0) : normalizer;
  if (normalizer && !json_is_null(normalizer) && !(json_is_array(steps) && json_array_size(steps) == 0)) {
    tokenizer->normal = normal_form(text_of(step, "type", ""));
    if (!tokenizer->normal) {
      return refuse(tokenizer, "normalizer", text_of(step, "type", "without a type"), error);
    }
    if (!normal_available(error)) {
      return false;
    }
  }
  if (!pre || json_is_null(pre)) {
    return refuse(tokenizer, "tokenizer without", "ByteLevel", error);
  }
  if (strcmp(text_of(pre, "type", ""), "Sequence") != 0) {
    return cut_read(tokenizer, pre, &bytes, error) &&
           (bytes || refuse(tokenizer, "tokenizer without", "ByteLevel", error));
  }
  json_array_foreach(list, index, entry) {
    if (!cut_read(tokenizer, entry, &bytes, error)) {
      return false;
    }
  }
  return bytes || refuse(tokenizer, "tokenizer without", "ByteLevel", error);
}

// A step that writes spaces as U+2581: Prepend, or Replace of a space.
static bool step_read(Tokenizer *tokenizer, const json_t *step, bool *replaces, Error *error) {
  const char *type = text_of(step, "type", "without a type");
  const char *from = text_of(json_object_get(step, "pattern"), "String", "");
  if (strcmp(type, "Prepend") == 0 && strcmp(text_of(step, "prepend", ""), space_letter) == 0 && !*replaces) {
    tokenizer->prefix = PREFIX_EACH;
    return true;
  }
  if (strcmp(type, "Replace") == 0 && strcmp(from, " ") == 0 &&
      strcmp(text_of(step, "content", ""), space_letter) == 0) {
    *replaces = true;
    return true;
  }
  return refuse(tokenizer, "normalizer", type, error);
}

static bool metaspace_read(Tokenizer *tokenizer, const json_t *pre, bool *replaces, Error *error) {
  const char *scheme = text_of(pre, "prepend_scheme", "always");
  if (strcmp(text_of(pre, "type", ""), "Metaspace") != 0 || *replaces || flag_of(pre, "split", true) ||
      strcmp(text_of(pre, "replacement", ""), space_letter) != 0) {
    return refuse(tokenizer, "pre-tokenizer of characters", text_of(pre, "type", "without a type"), error);
  }
  *replaces = tokenizer->prefix_once = true;
  tokenizer->prefix = strcmp(scheme, "always") == 0  ? PREFIX_EACH
                      : strcmp(scheme, "first") == 0 ? PREFIX_FIRST
                                                     : PREFIX_NONE;
  return true;
}

// Tokens of characters, as Llama 2, Mistral and Gemma have them.
static bool characters_read(Tokenizer *tokenizer, const json_t *root, Error *error) {
  const json_t *normalizer = json_object_get(root, "normalizer"), *pre = json_object_get(root, "pre_tokenizer"), *step;
  const json_t *steps = json_object_get(normalizer, "normalizers");
  const char *split = text_of(json_object_get(pre, "pattern"), "String", "");
  bool replaces = false;
  size_t index;
  tokenizer->characters = tokenizer->severable = true;
  tokenizer->words = map_create(tokenizer->arena);
  json_array_foreach(steps, index, step) {
    if (!step_read(tokenizer, step, &replaces, error)) {
      return false;
    }
  }
  if (normalizer && !json_is_null(normalizer) && !steps && !step_read(tokenizer, normalizer, &replaces, error)) {
    return false;
  }
  const bool idle = !pre || json_is_null(pre) || (replaces && strcmp(split, " ") == 0);  // there are no spaces left
  return (idle || metaspace_read(tokenizer, pre, &replaces, error)) &&
         (replaces || refuse(tokenizer, "tokenizer of characters without", "U+2581 for spaces", error));
}

static bool model_read(Tokenizer *tokenizer, const json_t *root, Error *error) {
  const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
  json_t *vocab = json_object_get(model, "vocab");
  const char *type = text_of(model, "type", "BPE");
  static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
  if (!json_is_object(model)) {
    return error_set(error, 1, "%s is no tokenizer.json: it has no \"model\"", tokenizer->path);
  }
  if (strcmp(type, "BPE") != 0) {
    return refuse(tokenizer, "model", type, error);
  }
  for (size_t i = 0; i < sizeof affixes / sizeof *affixes; i++) {
    if (*text_of(model, affixes[i], "")) {
      return refuse(tokenizer, "model with", affixes[i], error);
    }
  }
  if (json_number_value(json_object_get(model, "dropout")) > 0) {
    return refuse(tokenizer, "model with", "dropout", error);
  }
  tokenizer->whole = flag_of(model, "ignore_merges", false);
  if (tokenizer->whole && tokenizer->characters) {
    return refuse(tokenizer, "tokenizer of characters with", "ignore_merges", error);
  }
  return json_is_object(vocab) ? kinds_count(tokenizer, vocab, added, error) && texts_read(tokenizer, vocab, error) &&
                                     merges_read(tokenizer, vocab, json_object_get(model, "merges"), error) &&
                                     added_read(tokenizer, added, error)
                               : error_set(error, 1, "%s has no \"vocab\"", tokenizer->path);
}

bool tokenizer_json(Tokenizer *tokenizer, const char *text, size_t length, Error *error) {
  json_error_t problem;
  bool memory_missing;
  json_t *root = json_read(text, length, 0, &problem, &memory_missing);
  if (memory_missing) {
    return starved(tokenizer, error);
  }
  if (!root) {
    return error_set(error, 1, "%s is no JSON: line %d, at byte %d: %s", tokenizer->path, problem.line,
                     problem.position, problem.text);
  }
  const bool characters = flag_of(json_object_get(root, "model"), "byte_fallback", false);
  const bool done =
      (characters ? characters_read : cuts_read)(tokenizer, root, error) && model_read(tokenizer, root, error);
  json_decref(root);
  return done;
}
