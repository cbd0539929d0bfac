// data_internal.h: what data is made of, for one source (data.c) and several (mix.c).
#ifndef MDL_RUNTIME_DATA_DATA_INTERNAL_H
#define MDL_RUNTIME_DATA_DATA_INTERNAL_H

#include "base/buffer.h"
#include "runtime/data/chat.h"
#include "runtime/data/data.h"
#include "runtime/data/documents.h"
#include "runtime/data/shares.h"
#include "runtime/data/token_file.h"

typedef struct {
  char *name;
  Data *data;
} DataSet;

struct Data {
  int set_count;  // of what the recipe validates with; 0: a part of the data
  DataSet sets[DATA_SETS_MOST];
  char *described;  // the sources of a table, by absolute paths
  int part_count;   // of a mix, or of the files of a pattern; 0: what follows is one source
  Data **parts;
  int files;                 // that patterns found
  bool follows;              // a file of the same pattern is the part before
  Shares train, validation;  // whose each sample and window is
  TokenFile file;            // of text: its bytes are the tokens
  Tokenizer *tokenizer;      // NULL: bytes, or not known
  TokenList encoded;         // of text with a tokenizer: its tokens
  Documents documents;
  Buffer flags;                  // of chats: of each token TOKEN_ANSWER, TOKEN_BEGINS
  ChatOdd odd;                   // of chats
  bool chat, text, byte_tokens;  // the last, of a file of tokens or of chats: each is a byte
  char *path;
  int fd, mask_fd;  // -1: none
  bool own_mask;    // the mask is what lies beside the file, where there is one, and none that the recipe names
  char *mask_path;
  int32_t kinds;  // tokens are below this; 0: who feeds them must look
  int64_t bytes, tokens;
  int64_t train_tokens, train_windows, validation_windows;
  int64_t sequence;
  int64_t shift_range;  // epoch offsets are in [0, shift_range)
  uint64_t seed;
};

// One source; `options` names no mix and no file in its place.
bool data_source_open(const DataOptions *options, Data **data, Error *error);

// Of one source, tokens from number `begin` on.
bool data_tokens(const Data *data, int64_t begin, int64_t count, int32_t *tokens, Error *error);

#endif
