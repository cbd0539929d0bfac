// bpe_pairs.h: how often each pair of neighbours occurs in pieces of text, and where, as pairs become tokens.
//
// A pair of which the later token is T comes into being when T does, and only becomes rarer from then on: its places
// are found once. So all merges together take time and memory in proportion to the pieces, however long each is.
#ifndef MDL_RUNTIME_DATA_BPE_PAIRS_H
#define MDL_RUNTIME_DATA_BPE_PAIRS_H

#include "base/arena.h"
#include "base/array.h"
#include "base/buffer.h"
#include "base/map.h"

typedef struct {
  int32_t begin;  // its first byte among those of all pieces
  int64_t count;  // how often the text has it
} BpePiece;

typedef struct {
  int32_t first, second;
  int64_t count;
  int32_t *where;  // `places` of them, ascending: where the pair begins, or began
  int32_t places;
} BpePair;

typedef struct {  // what the heap knew of a pair; it has as many by now, or fewer
  int64_t count;
  int32_t pair;
} BpeCandidate;

typedef struct {  // of a token beside the one that is made
  int64_t count;
  int32_t places, pair;  // pair -1: it is too rare to become a token
} BpeNeighbour;

typedef struct {  // zero-initialise; `bytes` is the caller's to free, all else lies in the arena
  Arena *arena;
  Buffer bytes;       // of different pieces, one behind the other
  int32_t *token;     // of each byte: the token that begins there; else below 0, and at its last byte minus its length
  int32_t *bytes_of;  // of each token
  ARRAY(BpePiece) pieces;
  ARRAY(BpePair) pairs;  // that occurred twice
  Map numbers;           // first << 32 | second -> its place among pairs
  ARRAY(BpeCandidate) heap;
  BpeNeighbour *beside[2];    // of each token: left, right
  ARRAY(int32_t) touched[2];  // tokens that were seen there
} BpePairs;

// Adds a piece that occurs once; false: it has no room among INT32_MAX bytes.
bool bpe_pairs_piece(BpePairs *pairs, const uint8_t *bytes, size_t length);
// Of all pieces, which are there; there will be `most` tokens, of which the first 256 are those of bytes.
void bpe_pairs_count(BpePairs *pairs, const int32_t token_of[256], int64_t most);
// The most frequent pair that occurs at least twice, of equals the one with the lower numbers; false: there is none.
bool bpe_pairs_best(BpePairs *pairs, int32_t *pair);
void bpe_pairs_merge(BpePairs *pairs, int32_t pair, int32_t token);

#endif
