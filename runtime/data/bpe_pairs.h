// bpe_pairs.h: how often each pair of neighbours occurs in pieces of text, and in which of them, as pairs become
// tokens.
//
// Everything lies in the arena.
#ifndef MDL_RUNTIME_DATA_BPE_PAIRS_H
#define MDL_RUNTIME_DATA_BPE_PAIRS_H

#include "base/arena.h"
#include "base/array.h"
#include "base/map.h"

typedef struct {
  int32_t *tokens;
  int32_t length;
  int32_t seen;   // by the merge of this number
  int64_t count;  // how often the text has it
} BpePiece;

typedef struct {
  int32_t first, second;
  int64_t count;
  bool waits;            // a candidate of this pair is in the heap
  ARRAY(int32_t) where;  // pieces that have it, or had it
} BpePair;

typedef struct {  // what the heap knew of a pair; it has as many by now, or fewer
  int64_t count;
  int32_t pair;
} BpeCandidate;

typedef struct {
  Arena *arena;
  ARRAY(BpePiece) pieces;
  ARRAY(BpePair) pairs;
  Map numbers;  // first << 32 | second -> its place among pairs
  ARRAY(BpeCandidate) heap;
  ARRAY(int32_t) grown;  // pairs that a merge made more frequent
} BpePairs;

void bpe_pairs_count(BpePairs *pairs);  // of all pieces, which are set
// The most frequent pair that occurs at least twice, of equals the one with the lower numbers; false: there is none.
bool bpe_pairs_best(BpePairs *pairs, int32_t *pair);
void bpe_pairs_merge(BpePairs *pairs, int32_t pair, int32_t token);

#endif
