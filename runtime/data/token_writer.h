// token_writer.h: text files, JSON lines or chats to a file of tokens.
#ifndef MDL_RUNTIME_DATA_TOKEN_WRITER_H
#define MDL_RUNTIME_DATA_TOKEN_WRITER_H

#include "runtime/data/reader.h"

#define TOKENS_PART ".mdl-part"  // of the file's name until it is whole

typedef struct {
  ReaderOptions read;
  const char *tokenizer;  // a file; NULL or "bytes": tokens are bytes
  const char *out;
  const char *type;      // "u16", "u32"; NULL: the narrower one that holds all tokens
  bool raw;              // without a header
  bool chat;             // files are conversations (chat.h), and `out`.mask is written too: a byte for each token
  const char *template;  // of these; NULL: that of the tokenizer
} TokenWriterOptions;

typedef struct {
  ReaderFacts read;
  int64_t tokens;
  const char *type;
  bool ends;  // a token ends each document
} TokenWriterFacts;

// Writes `out` as llm.c does, whole or not at all. Behind each document stands the tokenizer's token for it; with
// bytes, NUL.
bool token_writer_run(const TokenWriterOptions *options, TokenWriterFacts *facts, Error *error);

#endif
