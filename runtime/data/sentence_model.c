// sentence_model.c: reads a .model of SentencePiece, a message of Protocol Buffers (sentencepiece_model.proto there).
// What this version does not do, and what cannot be, is refused by name.
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "runtime/data/protobuf.h"
#include "runtime/data/sentence.h"

enum { MODEL_PIECES = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3, MODEL_DENORMALIZER = 5 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { TRAINER_TYPE = 3, TRAINER_SUFFIX = 24, TRAINER_FALLBACK = 35, TRAINER_UNKNOWN_SURFACE = 44, TRAINER_END = 47 };
enum { NORMALIZER_CHARSMAP = 2, NORMALIZER_PREFIX = 3, NORMALIZER_COLLAPSE = 4, NORMALIZER_ESCAPE = 5 };

typedef struct {
  Tokenizer *tokenizer;
  Sentence *sentence;
  const uint8_t *begin;  // of the file
  Error *error;
  Map reserved;             // pieces that are no text, by what they are called
  const char *surface;      // of the unknown token
  const char *end;          // the piece that ends a text
  const uint8_t *charsmap;  // NULL: none
  size_t charsmap_length;
} Reading;

static bool damaged(const Reading *r, const Protobuf *at) {
  return error_set(
      r->error, 1,
      "%s is damaged: at byte %lld of what should be a model of SentencePiece stands no field, or one that "
      "is longer than the file; fetch or copy the file again",
      r->tokenizer->path, (long long)(at->at - r->begin));
}

static bool refuse(const Reading *r, const char *what) {
  return error_set(r->error, 1,
                   "%s: this version has no model of SentencePiece with %s; it reads those of the types bpe, unigram "
                   "and char",
                   r->tokenizer->path, what);
}

// A field that is known, but of another kind than it should be.
static bool wire_check(const Reading *r, const ProtobufField *field, ProtobufWire wire, const char *what) {
  return field->wire == wire ||
         error_set(r->error, 1, "%s is damaged: %s has the kind %d of a field, not %d; fetch or copy the file again",
                   r->tokenizer->path, what, (int)field->wire, (int)wire);
}

typedef bool FieldTaker(Reading *r, const ProtobufField *field, void *context);

static bool fields(Reading *r, const uint8_t *bytes, size_t length, FieldTaker *take, void *context) {
  Protobuf message = {bytes, bytes + length};
  ProtobufField field;
  ProtobufNext next;
  while ((next = protobuf_next(&message, &field)) == PROTOBUF_FIELD) {
    if (!take(r, &field, context)) {
      return false;
    }
  }
  return next == PROTOBUF_END || damaged(r, &message);
}

static const char *text_copy(const Reading *r, const ProtobufField *field) {
  return arena_format(r->tokenizer->arena, "%.*s", (int)(field->length < 256 ? field->length : 256),
                      (const char *)field->bytes);
}

// --- Pieces ---

static bool piece_field(Reading *r, const ProtobufField *field, void *context) {
  SentencePiece *piece = context;
  switch (field->field) {
    case PIECE_TEXT:
      piece->text = arena_copy(r->tokenizer->arena, field->bytes, field->length);
      piece->length = field->length < INT32_MAX ? (int32_t)field->length : INT32_MAX;
      return wire_check(r, field, PROTOBUF_BYTES, "the text of a piece");
    case PIECE_SCORE:
      piece->score = protobuf_float(field);
      return wire_check(r, field, PROTOBUF_FOUR, "the score of a piece");
    case PIECE_TYPE:
      piece->kind = (PieceKind)(field->number < 16 ? field->number : 0);
      return wire_check(r, field, PROTOBUF_NUMBER, "the type of a piece");
    default:
      return true;
  }
}

// The byte that a piece such as <0x0A> stands for, or -1.
static int piece_byte(const SentencePiece *piece) {
  static const char digits[] = "0123456789ABCDEF";
  const char *text = (const char *)piece->text;
  if (piece->length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') {
    return -1;
  }
  const char *high = memchr(digits, text[3], 16), *low = memchr(digits, text[4], 16);
  return high && low ? (int)((high - digits) << 4 | (low - digits)) : -1;
}

static bool piece_check(Reading *r, int32_t token, SentencePiece *piece) {
  Tokenizer *t = r->tokenizer;
  int64_t other;
  if (piece->length == 1 && *piece->text == 0 && piece->kind == PIECE_UNUSED) {  // a place that is kept free
    piece->kind = PIECE_CONTROL;
    return true;
  }
  Map *map = piece_is_text(piece) ? &t->words : &r->reserved;
  if (piece->length == 0) {
    return error_set(r->error, 1, "%s: piece %d has no text", t->path, token);
  }
  if (piece->length > SENTENCE_LONGEST_PIECE) {
    return error_set(r->error, 1, "%s: piece %d has %d bytes; at most %d are read", t->path, token, piece->length,
                     SENTENCE_LONGEST_PIECE);
  }
  if (memchr(piece->text, 0, (size_t)piece->length) ||
      utf8_valid(piece->text, (size_t)piece->length) < (size_t)piece->length) {
    return error_set(r->error, 1, "%s: piece %d is no text in UTF-8", t->path, token);
  }
  if (piece->kind < PIECE_NORMAL || piece->kind > PIECE_BYTE) {
    return error_set(r->error, 1, "%s: piece %d, '%.*s', is of no type that is known", t->path, token, piece->length,
                     (const char *)piece->text);
  }
  if (!isfinite(piece->score)) {
    return error_set(r->error, 1, "%s: the score of piece %d, '%.*s', is not a finite number", t->path, token,
                     piece->length, (const char *)piece->text);
  }
  if (map_get_bytes(map, piece->text, (size_t)piece->length, &other)) {
    return error_set(r->error, 1, "%s: pieces %lld and %d are both '%.*s'", t->path, (long long)other, token,
                     piece->length, (const char *)piece->text);
  }
  map_put_bytes(map, piece->text, (size_t)piece->length, token);
  return true;
}

static bool piece_read(Reading *r, const ProtobufField *field, int32_t token) {
  Sentence *s = r->sentence;
  SentencePiece *piece = &s->pieces[token];
  *piece = (SentencePiece){.text = (const uint8_t *)"", .kind = PIECE_NORMAL};
  if (!wire_check(r, field, PROTOBUF_BYTES, "a piece") || !fields(r, field->bytes, field->length, piece_field, piece) ||
      !piece_check(r, token, piece)) {
    return false;
  }
  if (piece->kind == PIECE_UNKNOWN && s->unknown >= 0) {
    return error_set(r->error, 1, "%s: pieces %d and %d are both the unknown one", r->tokenizer->path, s->unknown,
                     token);
  }
  s->unknown = piece->kind == PIECE_UNKNOWN ? token : s->unknown;
  const int byte = piece->kind == PIECE_BYTE ? piece_byte(piece) : 0;
  if (byte < 0) {
    return error_set(r->error, 1, "%s: piece %d, '%.*s', should be a byte such as <0x0A>", r->tokenizer->path, token,
                     piece->length, (const char *)piece->text);
  }
  if (piece->kind == PIECE_BYTE) {
    r->tokenizer->byte_token[byte] = token;
  }
  return true;
}

// --- What else the file says ---

static bool trainer_field(Reading *r, const ProtobufField *field, void *context) {
  (void)context;
  switch (field->field) {
    case TRAINER_TYPE:
      r->sentence->kind = (SentenceKind)(field->number < 16 ? field->number : 0);
      return wire_check(r, field, PROTOBUF_NUMBER, "the type of the model");
    case TRAINER_SUFFIX:
      r->sentence->suffix = field->number != 0;
      return wire_check(r, field, PROTOBUF_NUMBER, "treat_whitespace_as_suffix");
    case TRAINER_FALLBACK:
      r->sentence->byte_fallback = field->number != 0;
      return wire_check(r, field, PROTOBUF_NUMBER, "byte_fallback");
    case TRAINER_UNKNOWN_SURFACE:
      r->surface = field->wire == PROTOBUF_BYTES ? text_copy(r, field) : "";
      return wire_check(r, field, PROTOBUF_BYTES, "unk_surface");
    case TRAINER_END:
      r->end = field->wire == PROTOBUF_BYTES && field->length > 0 ? text_copy(r, field) : r->end;
      return wire_check(r, field, PROTOBUF_BYTES, "eos_piece");
    default:
      return true;
  }
}

static bool normalizer_field(Reading *r, const ProtobufField *field, void *context) {
  (void)context;
  const bool set = field->number != 0;
  switch (field->field) {
    case NORMALIZER_CHARSMAP:
      r->charsmap = field->bytes;
      r->charsmap_length = field->length;
      return wire_check(r, field, PROTOBUF_BYTES, "precompiled_charsmap");
    case NORMALIZER_PREFIX:
      r->sentence->prefix = set;
      return wire_check(r, field, PROTOBUF_NUMBER, "add_dummy_prefix");
    case NORMALIZER_COLLAPSE:
      r->sentence->collapse = set;
      return wire_check(r, field, PROTOBUF_NUMBER, "remove_extra_whitespaces");
    case NORMALIZER_ESCAPE:
      r->sentence->escape = set;
      return wire_check(r, field, PROTOBUF_NUMBER, "escape_whitespaces");
    default:
      return true;
  }
}

static bool denormalizer_field(Reading *r, const ProtobufField *field, void *context) {
  (void)context;
  return field->field != NORMALIZER_CHARSMAP || field->length == 0 ||
         refuse(r, "rules for decoded text (denormalizer_spec)");
}

static bool count_field(Reading *r, const ProtobufField *field, void *context) {
  (void)context;
  r->tokenizer->kinds += field->field == MODEL_PIECES;
  return r->tokenizer->kinds < TOKENIZER_MOST_KINDS ||
         error_set(r->error, 1, "%s has more than %d pieces", r->tokenizer->path, TOKENIZER_MOST_KINDS);
}

static bool model_field(Reading *r, const ProtobufField *field, void *context) {
  int32_t *token = context;
  switch (field->field) {
    case MODEL_PIECES:
      return piece_read(r, field, (*token)++);
    case MODEL_TRAINER:
      return wire_check(r, field, PROTOBUF_BYTES, "trainer_spec") &&
             fields(r, field->bytes, field->length, trainer_field, NULL);
    case MODEL_NORMALIZER:
      return wire_check(r, field, PROTOBUF_BYTES, "normalizer_spec") &&
             fields(r, field->bytes, field->length, normalizer_field, NULL);
    case MODEL_DENORMALIZER:
      return wire_check(r, field, PROTOBUF_BYTES, "denormalizer_spec") &&
             fields(r, field->bytes, field->length, denormalizer_field, NULL);
    default:
      return true;
  }
}

// --- What follows from it ---

static bool model_check(Reading *r) {
  const Sentence *s = r->sentence;
  const char *path = r->tokenizer->path;
  int bytes = 0;
  for (int byte = 0; byte < 256; byte++) {
    bytes += r->tokenizer->byte_token[byte] >= 0;
  }
  if (s->kind != SENTENCE_UNIGRAM && s->kind != SENTENCE_BPE && s->kind != SENTENCE_CHAR) {
    return refuse(r, s->kind == SENTENCE_WORD ? "the type word" : "a type that is not known");
  }
  if (s->unknown < 0 && !s->byte_fallback) {
    return error_set(r->error, 1, "%s: no piece is the unknown one; the file is damaged or no whole model", path);
  }
  if (s->byte_fallback && bytes < 256) {
    return error_set(r->error, 1, "%s: unknown text becomes bytes, but only %d of the 256 are pieces", path, bytes);
  }
  return s->byte_fallback || bytes == 0 ||
         error_set(r->error, 1, "%s: there are pieces of bytes, although byte_fallback is not set", path);
}

// What tokens decode to: spaces are spaces, symbols nothing.
static void texts_set(Reading *r) {
  Tokenizer *t = r->tokenizer;
  t->texts = ARENA_ARRAY(t->arena, TokenText, t->kinds);
  for (int32_t i = 0; i < t->kinds; i++) {
    const SentencePiece *piece = &r->sentence->pieces[i];
    uint8_t *bytes = ARENA_ARRAY(t->arena, uint8_t, piece->length + 1);
    int32_t size = 0;
    for (int32_t at = 0; piece_is_text(piece) && at < piece->length;) {
      const bool space = piece->length - at >= 3 && memcmp(piece->text + at, SENTENCE_SPACE, 3) == 0;
      bytes[size++] = space ? ' ' : piece->text[at];
      at += space ? 3 : 1;
    }
    if (piece->kind == PIECE_BYTE) {
      bytes[size++] = (uint8_t)piece_byte(piece);
    }
    t->texts[i] = piece->kind == PIECE_UNKNOWN ? (TokenText){(const uint8_t *)r->surface, (int32_t)strlen(r->surface)}
                                               : (TokenText){bytes, size};
  }
}

static bool tables_set(Reading *r) {
  Tokenizer *t = r->tokenizer;
  Sentence *s = r->sentence;
  TrieText *symbols = ARENA_ARRAY(t->arena, TrieText, t->kinds);
  size_t count = 0;
  for (int32_t i = 0; i < t->kinds; i++) {
    if (s->pieces[i].kind == PIECE_USER) {
      symbols[count++] = (TrieText){s->pieces[i].text, s->pieces[i].length, i, 0};
    }
  }
  if (!trie_build(t->arena, symbols, count, &s->symbols)) {
    return error_set(r->error, 3, "no memory for %s", t->path);
  }
  if (r->charsmap_length > 0 && !charsmap_read(t, r->charsmap, r->charsmap_length, &s->charsmap, r->error)) {
    return false;
  }
  sentence_plain(s);
  sentence_joins(t);
  return (s->kind == SENTENCE_UNIGRAM ? sentence_unigram_tables(t) : sentence_bpe_tables(t, &r->reserved)) ||
         error_set(r->error, 3, "no memory for %s", t->path);
}

// The first field of a file is a piece, and the first of that its text: no text of base64 begins so.
bool sentence_looks(const char *text, size_t length) {
  const uint8_t *bytes = (const uint8_t *)text;
  return length > 4 && bytes[0] == '\n' && bytes[2] == '\n' && bytes[1] > 3 && bytes[1] < 128 && bytes[3] > 0 &&
         bytes[3] + 2 <= bytes[1] && bytes[3] != '\n';
}

bool sentence_model(Tokenizer *tokenizer, const char *text, size_t length, Error *error) {
  Arena *arena = tokenizer->arena;
  Reading r = {.tokenizer = tokenizer,
               .sentence = ARENA_NEW(arena, Sentence),
               .begin = (const uint8_t *)text,
               .error = error,
               .reserved = map_create(arena),
               .surface = " \xe2\x81\x87 ",
               .end = "</s>"};
  int32_t token = 0;
  *r.sentence = (Sentence){.kind = SENTENCE_UNIGRAM, .unknown = -1, .prefix = true, .collapse = true, .escape = true};
  tokenizer->sentence = r.sentence;
  tokenizer->words = map_create(arena);
  if (!fields(&r, r.begin, length, count_field, NULL)) {
    return false;
  }
  r.sentence->pieces = ARENA_ARRAY(arena, SentencePiece, tokenizer->kinds);
  r.sentence->count = tokenizer->kinds;
  if (!fields(&r, r.begin, length, model_field, &token) || !model_check(&r)) {
    return false;
  }
  texts_set(&r);
  const int64_t end = map_get_bytes_or(&r.reserved, r.end, strlen(r.end), -1);
  tokenizer->end = end >= 0 && r.sentence->pieces[end].kind == PIECE_CONTROL ? (int32_t)end : -1;
  return tables_set(&r);
}

int32_t sentence_symbol(const Tokenizer *tokenizer, const char *text, bool control) {
  const size_t length = strlen(text);
  for (int32_t i = 0; i < tokenizer->sentence->count; i++) {
    const SentencePiece *piece = &tokenizer->sentence->pieces[i];
    if ((piece->kind == PIECE_USER || (control && piece->kind == PIECE_CONTROL)) && (size_t)piece->length == length &&
        memcmp(piece->text, text, length) == 0) {
      return i;
    }
  }
  return -1;
}

int32_t sentence_piece(const Tokenizer *tokenizer, const char *text) {
  const size_t length = strlen(text);
  for (int32_t i = 0; i < tokenizer->sentence->count; i++) {
    const SentencePiece *piece = &tokenizer->sentence->pieces[i];
    if ((size_t)piece->length == length && memcmp(piece->text, text, length) == 0) {
      return i;
    }
  }
  return -1;
}
