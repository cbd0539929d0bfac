// sentence_normal.c: the normal form of a text, character by character, and where it may be cut.
//
// Rules are a double array of the library Darts-clone, as the file has it: 32-bit units, of which each says what byte
// leads to it, how far its successors are, and whether a rule ends with it; the value of the rule lies in a unit too.
#include <string.h>

#include "base/utf8.h"
#include "runtime/data/sentence.h"

static uint32_t unit_label(uint32_t unit) {
  return unit & 0x800000ffu;  // of a value: none that a byte has
}

static bool unit_ends(uint32_t unit) {
  return unit >> 8 & 1;
}

static uint32_t unit_offset(uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200u) >> 6);
}

bool charsmap_read(Tokenizer *tokenizer, const uint8_t *bytes, size_t length, Charsmap *charsmap, Error *error) {
  uint32_t size = 0;
  for (size_t i = 0; i < 4 && length >= 4; i++) {
    size |= (uint32_t)bytes[i] << (8 * i);
  }
  const size_t texts = length < 4 || size > length - 4 ? 0 : length - 4 - size;
  if (texts == 0 || size % 4 != 0 || size == 0 || utf8_valid(bytes + 4 + size, texts) < texts) {
    return error_set(error, 1,
                     "%s is damaged: the rules of its normalizer, of %lld bytes, are no table and texts; fetch or copy "
                     "the file again",
                     tokenizer->path, (long long)length);
  }
  uint32_t *units = ARENA_ARRAY(tokenizer->arena, uint32_t, size / 4);
  uint8_t *text = ARENA_ARRAY(tokenizer->arena, uint8_t, texts + 1);
  memcpy(text, bytes + 4 + size, texts);
  for (size_t i = 0; i < size; i++) {
    units[i / 4] |= (uint32_t)bytes[4 + i] << (8 * (i % 4));
  }
  *charsmap = (Charsmap){units, size / 4, text};
  for (size_t i = 0; i < charsmap->count; i++) {
    const size_t leaf = i ^ unit_offset(units[i]);
    if (units[i] >> 31 == 0 && unit_ends(units[i]) &&
        (leaf >= charsmap->count || (units[leaf] & 0x7fffffffu) >= texts ||
         (text[units[leaf] & 0x7fffffffu] & 0xc0) == 0x80)) {
      return error_set(
          error, 1,
          "%s is damaged: a rule of its normalizer, in unit %lld, leads to no text; fetch or copy the file "
          "again",
          tokenizer->path, (long long)i);
    }
  }
  return true;
}

// Bytes of the longest rule that matches, 0 for none. *open: what follows might make it longer.
static size_t charsmap_longest(const Charsmap *charsmap, const uint8_t *text, size_t length, const uint8_t **put,
                               bool *open) {
  size_t longest = 0, at = 0;
  *open = false;
  if (charsmap->count == 0) {
    return 0;
  }
  size_t node = unit_offset(charsmap->units[0]);
  while (at < length) {
    node ^= text[at];
    if (node >= charsmap->count || unit_label(charsmap->units[node]) != text[at]) {
      return longest;
    }
    const uint32_t unit = charsmap->units[node];
    node ^= unit_offset(unit);
    at++;
    if (unit_ends(unit)) {
      *put = charsmap->text + (charsmap->units[node] & 0x7fffffffu);
      longest = at;
    }
  }
  *open = true;
  return longest;
}

// Whether a rule or a symbol begins with these bytes.
static bool begins(const Sentence *s, const uint8_t *text, size_t length) {
  const uint8_t *put;
  int32_t token;
  bool rule, symbol;
  return charsmap_longest(&s->charsmap, text, length, &put, &rule) > 0 || rule ||
         trie_longest(&s->symbols, text, length, &token, &symbol) > 0 || symbol;
}

void sentence_plain(Sentence *sentence) {
  for (int first = 0; first < 128; first++) {
    uint8_t text[2] = {(uint8_t)first, 0};
    const uint8_t *put;
    int32_t token;
    bool open, plain = charsmap_longest(&sentence->charsmap, text, 1, &put, &open) == 0 &&
                       trie_longest(&sentence->symbols, text, 1, &token, &open) == 0;
    for (int second = 0; plain && begins(sentence, text, 1) && second < 128; second++) {
      text[1] = (uint8_t)second;
      plain = !begins(sentence, text, 2);
    }
    sentence->plain[first] = plain;
  }
}

SentenceUnit sentence_unit(const Sentence *sentence, const uint8_t *text, size_t length, bool more) {
  static const uint8_t replacement[] = "\xef\xbf\xbd";
  const uint8_t *put = NULL;
  int32_t token;
  bool open;
  size_t taken = trie_longest(&sentence->symbols, text, length, &token, &open);
  if (more && open) {
    return (SentenceUnit){0};
  }
  if (taken > 0) {
    return (SentenceUnit){text, taken, taken};
  }
  taken = charsmap_longest(&sentence->charsmap, text, length, &put, &open);
  if (more && open) {
    return (SentenceUnit){0};
  }
  if (taken > 0) {
    return (SentenceUnit){put, strlen((const char *)put), taken};
  }
  const int size = utf8_character(text, length);
  return size > 0           ? (SentenceUnit){text, (size_t)size, (size_t)size}
         : size < 0 && more ? (SentenceUnit){0}
                            : (SentenceUnit){replacement, 3, 1};
}

// --- Where text may be cut ---

uint32_t sentence_code(const Sentence *sentence, const uint8_t *character, size_t size) {
  uint32_t code = 0;
  for (size_t i = 0; i < size; i++) {
    code = code << 8 | character[i];
  }
  return code == (sentence->escape ? 0xe29681u : ' ') ? SPACE_CODE : code;
}

static size_t join_slot(const Sentence *sentence, uint32_t first, uint32_t second) {
  const uint64_t hash = ((uint64_t)first << 32 | second) * 0x9e3779b97f4a7c15u;
  return (size_t)(hash ^ hash >> 32) & sentence->join_mask;
}

bool sentence_joined(const Sentence *sentence, uint32_t first, uint32_t second) {
  if ((first | second) < 128) {
    return sentence->ascii_joins[first][second >> 6] >> (second & 63) & 1;
  }
  const size_t slot = join_slot(sentence, first, second);
  return sentence->joins[slot >> 6] >> (slot & 63) & 1;
}

// Whether text that contains this piece must not be cut inside of it.
static bool piece_joins(const Sentence *sentence, const SentencePiece *piece) {
  return piece->kind == PIECE_USER ||
         (sentence->kind != SENTENCE_CHAR && (piece->kind == PIECE_NORMAL || piece->kind == PIECE_UNUSED));
}

void sentence_joins(Tokenizer *tokenizer) {
  enum { BITS_A_PAIR = 16, LEAST_BITS = 1 << 12 };
  Sentence *s = tokenizer->sentence;
  size_t pairs = 0, bits = LEAST_BITS;
  for (int32_t i = 0; i < tokenizer->sentence->count; i++) {
    pairs +=
        piece_joins(s, &s->pieces[i]) ? (size_t)s->pieces[i].length / 4 : 0;  // those that are not of ASCII are few
  }
  while (bits < pairs * BITS_A_PAIR && bits < 1u << 24) {
    bits *= 2;
  }
  s->joins = ARENA_ARRAY(tokenizer->arena, uint64_t, bits / 64);
  s->join_mask = bits - 1;
  for (int32_t i = 0; i < tokenizer->sentence->count; i++) {
    const SentencePiece *piece = &s->pieces[i];
    uint32_t before = 0;
    for (int32_t at = 0; piece_joins(s, piece) && at < piece->length;) {
      const int size = utf8_character(piece->text + at, (size_t)(piece->length - at));
      const uint32_t code = sentence_code(s, piece->text + at, (size_t)size);
      const size_t slot = join_slot(s, before, code);
      if (at > 0 && (before | code) < 128) {
        s->ascii_joins[before][code >> 6] |= (uint64_t)1 << (code & 63);
      } else if (at > 0) {
        s->joins[slot >> 6] |= (uint64_t)1 << (slot & 63);
      }
      before = code;
      at += size;
    }
  }
}
