// merge.h: byte pair encoding of one piece of text.
#ifndef MDL_RUNTIME_DATA_MERGE_H
#define MDL_RUNTIME_DATA_MERGE_H

#include "runtime/data/tokenizer_internal.h"

typedef struct MergeHeap MergeHeap;

typedef struct {  // zero-initialise
  int32_t *ids;   // of what was merged last
  int32_t *next;  // of long pieces: what follows, and what was before
  int32_t *before;
  size_t capacity;
  MergeHeap *heap;
} Merger;

void merger_free(Merger *merger);
// The tokens of a piece are the first of merger->ids; returns how many, -1 where memory is missing. Each byte has a
// token.
int64_t merge_piece(Merger *merger, const Tokenizer *tokenizer, const uint8_t *bytes, size_t length);
// The same of symbols that stand there already: room for so many is merger_reserve's (NULL: no memory).
int32_t *merger_reserve(Merger *merger, size_t count);
int64_t merge_symbols(Merger *merger, const Tokenizer *tokenizer, int64_t count);

#endif
