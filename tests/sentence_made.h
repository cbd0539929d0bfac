// sentence_made.h: models of SentencePiece that tests write themselves, and the tokens of texts by them.
#ifndef MDL_TESTS_SENTENCE_MADE_H
#define MDL_TESTS_SENTENCE_MADE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "runtime/data/protobuf.h"
#include "tests/encoded.h"

enum { UNIGRAM = 1, BPE, WORD, CHAR };
enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };
#define SPACE "\xe2\x96\x81"

typedef struct {
  const char *text;
  float score;
  int kind;
} Entry;

typedef struct {
  int type;
  const Entry *entries;
  int count;
  bool bytes;                // 256 pieces of bytes behind the others
  bool suffix, loose, bare;  // no spaces are taken away; nor put ahead
  const char *charsmap;
  size_t charsmap_length;
} Made;

// --- Files ---

static inline void number_put(Buffer *out, int field, uint64_t number) {
  const uint8_t key[2] = {(uint8_t)((field << 3 & 127) | (field > 15 ? 128 : 0)), (uint8_t)(field >> 4)};
  buffer_bytes(out, key, field > 15 ? 2 : 1);
  do {
    const uint8_t byte = (uint8_t)((number & 127) | (number > 127 ? 128 : 0));
    buffer_bytes(out, &byte, 1);
    number >>= 7;
  } while (number > 0);
}

static inline void bytes_put(Buffer *out, int field, const void *bytes, size_t length) {
  Buffer key = {0};
  number_put(&key, field, length);
  key.text[0] = (char)(key.text[0] | PROTOBUF_BYTES);
  buffer_bytes(out, key.text, key.length);
  buffer_bytes(out, bytes, length);
  buffer_free(&key);
}

static inline void piece_put(Buffer *out, const char *text, size_t length, float score, int kind) {
  const uint8_t key = 2 << 3 | PROTOBUF_FOUR;
  Buffer piece = {0};
  bytes_put(&piece, 1, text, length);
  buffer_bytes(&piece, &key, 1);
  buffer_bytes(&piece, &score, sizeof score);
  if (kind != NORMAL) {
    number_put(&piece, 3, (uint64_t)kind);
  }
  bytes_put(out, 1, piece.text, piece.length);
  buffer_free(&piece);
}

static inline void model_put(Buffer *out, const Made *made) {
  Buffer trainer = {0}, normalizer = {0};
  for (int i = 0; i < made->count; i++) {
    piece_put(out, made->entries[i].text, strlen(made->entries[i].text), made->entries[i].score, made->entries[i].kind);
  }
  for (int byte = 0; made->bytes && byte < 256; byte++) {
    char text[8];
    snprintf(text, sizeof text, "<0x%02X>", (unsigned)byte & 255);
    piece_put(out, text, 6, 0, BYTE);
  }
  number_put(&trainer, 3, (uint64_t)made->type);
  number_put(&trainer, 24, made->suffix);
  number_put(&trainer, 35, made->bytes);
  bytes_put(out, 2, trainer.text, trainer.length);
  bytes_put(&normalizer, 2, made->charsmap ? made->charsmap : "", made->charsmap_length);
  number_put(&normalizer, 3, !made->bare);
  number_put(&normalizer, 4, !made->loose);
  bytes_put(out, 3, normalizer.text, normalizer.length);
  buffer_free(&trainer);
  buffer_free(&normalizer);
}

static inline bool read_of(const Buffer *file, Tokenizer **tokenizer, Error *error) {
  char *copy = malloc(file->length + 1);  // of its own, so that reading behind it is noticed
  assert_non_null(copy);
  memcpy(copy, file->text, file->length);
  copy[file->length] = '\0';
  *error = (Error){0};
  const bool done = tokenizer_read("small.model", copy, file->length, tokenizer, error);
  free(copy);
  return done;
}

static inline Tokenizer *model_of(const Made *made) {
  Buffer file = {0};
  Error error;
  Tokenizer *tokenizer = NULL;
  model_put(&file, made);
  if (!read_of(&file, &tokenizer, &error)) {
    fail_msg("%s", error.text);
  }
  buffer_free(&file);
  return tokenizer;
}

static inline uint32_t random_next(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

// A table of rules: what stands for single bytes, and for "xy". Each text begins at its number.
static inline size_t charsmap_put(char *out) {
  static const struct {
    uint8_t from;
    const char *to;
  } rules[] = {{'x', "1"}, {'A', "a"}, {'\t', " "}, {'~', ""}, {'&', " a "}};
  enum { UNITS = 1024, DOWN = 768 };  // of a byte c stands at 256 + c, its value at 512 + c
  uint32_t units[UNITS] = {256 << 10};
  char texts[64] = "2";  // of "xy"
  size_t length = 2;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    units[256 + rules[i].from] = (uint32_t)DOWN << 10 | 1u << 8 | rules[i].from;
    units[512 + rules[i].from] = 1u << 31 | (uint32_t)length;
    memcpy(texts + length, rules[i].to, strlen(rules[i].to) + 1);
    length += strlen(rules[i].to) + 1;
  }
  const uint32_t end = (512 + 'x') ^ 'y';
  units[end] = (uint32_t)(end ^ 1000) << 10 | 1u << 8 | 'y';
  units[1000] = 1u << 31;
  const uint32_t size = sizeof units;
  memcpy(out, &size, sizeof size);
  memcpy(out + 4, units, sizeof units);
  memcpy(out + 4 + sizeof units, texts, length);
  return 4 + sizeof units + length;
}

static char charsmap[8000];

static const Entry small[] = {
    {"<unk>", 0, UNKNOWN}, {"<s>", 0, CONTROL},   {"</s>", 0, CONTROL},         {SPACE, -3, NORMAL}, {"a", -2, NORMAL},
    {"b", -2.5f, NORMAL},  {"ab", -4, NORMAL},    {SPACE "a", -4.5f, NORMAL},   {"abb", -7, NORMAL}, {"<u>", 0, USER},
    {"1", -5, NORMAL},     {"aa", -3.5f, NORMAL}, {"\xe3\x81\x82", -4, NORMAL}, {"bb", -4, UNUSED}};
enum { SMALL = sizeof small / sizeof *small };

static inline Made small_made(int type) {
  return (Made){
      .type = type, .entries = small, .count = SMALL, .charsmap = charsmap, .charsmap_length = charsmap_put(charsmap)};
}

#endif
