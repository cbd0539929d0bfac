// slots.h: the tokens of short pieces of text that were met, by their hash: text repeats itself.
#ifndef MDL_RUNTIME_DATA_SLOTS_H
#define MDL_RUNTIME_DATA_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 15, SLOT_BYTES = 24, SLOT_LONGEST = 23, SLOT_TOKENS = 8 };

typedef struct {
  uint8_t length, count;  // length 0: free
  uint8_t bytes[SLOT_BYTES];
  float reach;  // whoever puts pieces in may say up to where they hold
  int32_t tokens[SLOT_TOKENS];
} Slot;

static inline Slot *slots_create(void) {  // NULL: no memory; ends with free
  Slot *slots = aligned_alloc(64, SLOTS * sizeof *slots);
  if (slots) {
    memset(slots, 0, SLOTS * sizeof *slots);
  }
  return slots;
}

// The place of a piece of at most SLOT_LONGEST bytes. *met: its tokens are there.
static inline Slot *slot_find(Slot *slots, const uint8_t *piece, size_t length, bool *met) {
  uint8_t padded[SLOT_BYTES] = {0};
  uint64_t words[3];
  memcpy(padded, piece, length);
  memcpy(words, padded, sizeof words);
  const uint64_t hash =
      (words[0] * 0x9e3779b97f4a7c15u ^ (words[1] + length) * 0xc2b2ae3d27d4eb4fu ^ words[2] * 0x165667b19e3779f9u) *
      0x94d049bb133111ebu;
  Slot *slot = &slots[hash >> 49];
  *met = slot->length == length && memcmp(slot->bytes, padded, sizeof padded) == 0;
  return slot;
}

static inline void slot_put(Slot *slot, const uint8_t *piece, size_t length, const int32_t *tokens, int64_t count) {
  if (length > 0 && count <= SLOT_TOKENS) {
    *slot = (Slot){.length = (uint8_t)length, .count = (uint8_t)count};
    memcpy(slot->bytes, piece, length);
    memcpy(slot->tokens, tokens, sizeof *tokens * (size_t)count);
  }
}

#endif
