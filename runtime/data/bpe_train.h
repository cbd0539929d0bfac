// bpe_train.h: a tokenizer made from text: byte pair encoding.
#ifndef MDL_RUNTIME_DATA_BPE_TRAIN_H
#define MDL_RUNTIME_DATA_BPE_TRAIN_H

#include "runtime/data/reader.h"

typedef struct {
  ReaderOptions read;
  const char *out;      // a tokenizer.json
  const char *pattern;  // that cuts text: "gpt2", "llama3", "qwen"; NULL: "llama3"
  int64_t vocabulary;   // tokens: 256 bytes, merges, and the one that ends documents
} BpeTrainOptions;

typedef struct {
  ReaderFacts read;
  int64_t pieces;  // different ones
  int64_t tokens;  // fewer than asked for where no pair occurs twice any longer
} BpeTrainFacts;

// The most frequent pair of neighbours becomes a token, of equals the one with the lower numbers, again and again: the
// same text, the same tokenizer. `out` is written whole or not at all.
bool bpe_train_run(const BpeTrainOptions *options, BpeTrainFacts *facts, Error *error);

#endif
