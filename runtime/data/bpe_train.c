// bpe_train.c: counts the pieces of text, merges, and writes what Hugging Face reads too.
#include "runtime/data/bpe_train.h"

#include <errno.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/utf8.h"
#include "runtime/data/alphabet.h"
#include "runtime/data/bpe_pairs.h"
#include "runtime/data/scan.h"
#include "runtime/data/tokenizer.h"

enum { BYTES = 256, LEAST_VOCABULARY = 258, MOST_VOCABULARY = 1 << 20 };

static const char end_text[] = "<|endoftext|>";

typedef struct {
  Arena *arena;
  Encoder *encoder;
  Map numbers;  // bytes of a piece -> its place
  BpePairs pairs;
  int32_t token_of[BYTES];
  uint8_t byte_of[BYTES];  // tokens below 256, in the order of their letters
  ARRAY(int32_t) merges;   // pairs, in order
  bool full;               // there were more different pieces than can be counted
} Trainer;

static void bytes_order(Trainer *t) {
  int count = 0;
  for (unsigned letter = 0; letter < 2 * BYTES; letter++) {
    for (int byte = 0; byte < BYTES; byte++) {
      if (alphabet_letter((uint8_t)byte) == letter) {
        t->token_of[byte] = count;
        t->byte_of[count++] = (uint8_t)byte;
      }
    }
  }
}

// Of what is no text no tokens are made.
static bool piece_count(void *context, const uint8_t *bytes, size_t length) {
  Trainer *t = context;
  if (length < 2 || t->full) {
    return true;
  }
  const int64_t at = map_get_bytes_or(&t->numbers, bytes, length, -1);
  if (at >= 0) {
    t->pairs.pieces.at[at].count++;
    return true;
  }
  if (utf8_valid(bytes, length) < length) {
    return true;
  }
  map_put_bytes(&t->numbers, bytes, length, t->pairs.pieces.count);
  t->full = !bpe_pairs_piece(&t->pairs, bytes, length);
  return !t->pairs.bytes.failed;
}

static bool text_count(void *context, const char *text, size_t length, bool more, size_t *used, Error *error) {
  Trainer *t = context;
  TokenList none = {0};
  return encoder_add(t->encoder, text, length, more, used, &none, error);
}

static void merge_all(Trainer *t, int64_t count, FILE *screen) {
  int32_t pair;
  bpe_pairs_count(&t->pairs, t->token_of, BYTES + count);
  while (t->merges.count < count && bpe_pairs_best(&t->pairs, &pair)) {
    bpe_pairs_merge(&t->pairs, pair, BYTES + t->merges.count);
    array_push(t->arena, &t->merges, pair);
    if (screen && t->merges.count % 5000 == 0) {
      fprintf(screen, "made %d tokens of %lld\n", t->merges.count, (long long)count);
      fflush(screen);
    }
  }
}

// A token in letters, as JSON without its quotes.
static void token_put(const Trainer *t, int32_t token, Buffer *out) {
  const uint8_t *bytes = token < BYTES ? &t->byte_of[token] : NULL;
  if (!bytes) {  // as they are where the pair was found first
    bytes = (const uint8_t *)t->pairs.bytes.text + t->pairs.pairs.at[t->merges.at[token - BYTES]].where[0];
  }
  for (int32_t i = 0; i < t->pairs.bytes_of[token]; i++) {
    char letter[2];
    const int size = alphabet_put(bytes[i], letter);
    if (letter[0] == '"' || letter[0] == '\\') {
      buffer_text(out, "\\");
    }
    buffer_bytes(out, letter, (size_t)size);
  }
}

static void cut_put(const char *pattern, Buffer *out) {
  if (strcmp(pattern, "gpt2") == 0) {
    buffer_text(out,
                "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}");
    return;
  }
  buffer_text(out,
              "{\"type\": \"Sequence\", \"pretokenizers\": [\n    {\"type\": \"Split\", \"pattern\": {\"Regex\": \"");
  for (const char *c = scan_pattern(pattern); *c; c++) {
    buffer_format(out, *c == '\\' ? "\\\\" : "%c", *c);
  }
  buffer_text(out,
              "\"}, \"behavior\": \"Isolated\", \"invert\": false},\n    {\"type\": \"ByteLevel\", "
              "\"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": false}]}");
}

static void json_put(const Trainer *t, const char *pattern, Buffer *out) {
  const int32_t end = BYTES + t->merges.count;
  buffer_format(out,
                "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [\n    "
                "{\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                "\"normalized\": false, \"special\": true}],\n  \"normalizer\": null,\n  \"pre_tokenizer\": ",
                end, end_text);
  cut_put(pattern, out);
  buffer_text(out,
              ",\n  \"post_processor\": null,\n  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
              "\"trim_offsets\": true, \"use_regex\": true},\n  \"model\": {\"type\": \"BPE\", \"dropout\": null, "
              "\"unk_token\": null, \"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, "
              "\"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": false,\n  \"vocab\": {");
  for (int32_t token = 0; token < end; token++) {
    buffer_text(out, token % 8 ? "\"" : "\n    \"");
    token_put(t, token, out);
    buffer_format(out, "\": %d, ", token);
  }
  buffer_format(out, "\n    \"%s\": %d},\n  \"merges\": [", end_text, end);
  for (int i = 0; i < t->merges.count; i++) {
    const BpePair *pair = &t->pairs.pairs.at[t->merges.at[i]];
    buffer_format(out, "%s%s[\"", i ? ", " : "", i % 8 ? "" : "\n    ");
    token_put(t, pair->first, out);
    buffer_text(out, "\", \"");
    token_put(t, pair->second, out);
    buffer_text(out, "\"]");
  }
  buffer_text(out, "]}\n}\n");
}

static bool trainer_write(const Trainer *t, const BpeTrainOptions *options, const char *pattern, Error *error) {
  Buffer text = {0};
  json_put(t, pattern, &text);
  FileError why = {.code = 0};
  const bool done = text.failed ? error_set(error, 3, "no memory for the text of the tokenizer")
                                : file_write_atomic(options->out, text.text, text.length, &why) ||
                                      error_set(error, why.code == ENOMEM ? 3 : 1, "%s", why.text);
  buffer_free(&text);
  return done;
}

bool bpe_train_run(const BpeTrainOptions *options, BpeTrainFacts *facts, Error *error) {
  const char *pattern = options->pattern ? options->pattern : "llama3";
  if (options->vocabulary < LEAST_VOCABULARY || options->vocabulary > MOST_VOCABULARY) {
    return error_set(error, 2,
                     "a tokenizer has from %d tokens (256 bytes, one merge, the end of documents) to %d, not %lld",
                     LEAST_VOCABULARY, MOST_VOCABULARY, (long long)options->vocabulary);
  }
  if (!reader_apart(&options->read, NULL, options->out, "", error)) {
    return false;
  }
  Tokenizer *cutter = NULL;
  Trainer t = {.arena = arena_create()};
  if (!t.arena) {
    return error_set(error, 3, "no memory");
  }
  t.numbers = map_create(t.arena);
  t.pairs.arena = t.arena;
  bytes_order(&t);
  bool done = tokenizer_cutter(pattern, &cutter, error) && encoder_create(cutter, &t.encoder, error);
  if (done) {
    encoder_pieces(t.encoder, piece_count, &t);
    done = reader_run(&options->read, text_count, &t, &facts->read, error);
  }
  if (done && t.full) {
    done = error_set(error, 1, "the text has more than %d bytes of different words; give less of it", INT32_MAX);
  }
  if (done) {
    merge_all(&t, options->vocabulary - BYTES - 1, options->read.screen);
    facts->pieces = t.pairs.pieces.count;
    facts->tokens = BYTES + t.merges.count + 1;
    done = t.merges.count > 0 ? trainer_write(&t, options, pattern, error)
                              : error_set(error, 1, "no two bytes stand together twice: there is too little text");
  }
  encoder_destroy(t.encoder);
  buffer_free(&t.pairs.bytes);
  tokenizer_close(cutter);
  arena_destroy(t.arena);
  return done;
}
