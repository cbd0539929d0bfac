// documents.h: where the documents of a row of tokens end.
//
// A separator that the recipe names says it alone. Without one, documents of text end with a NUL byte, a blank line or
// the token of the tokenizer that says so, those of files of tokens with that token, or a NUL where tokens are bytes.
#ifndef MDL_RUNTIME_DATA_DOCUMENTS_H
#define MDL_RUNTIME_DATA_DOCUMENTS_H

#include "runtime/data/source.h"
#include "runtime/data/tokenizer.h"

enum { BYTE_KINDS = 256 };

typedef struct {  // zero-initialise
  const Tokenizer *tokenizer;
  uint8_t *marks;  // with a tokenizer, of each token: MARK_
  int32_t kinds;
  bool text, bytes;     // of tokens that are text; that are bytes
  bool told;            // by a separator, or as none
  TokenList separator;  // told, and empty: none
} Documents;

// `tokenizer`: NULL where tokens are bytes, or not known. `path` is for messages.
bool documents_set(Documents *documents, const Tokenizer *tokenizer, bool text, bool bytes,
                   const SourceOptions *options, const char *path, Error *error);
void documents_free(Documents *documents);

bool documents_known(const Documents *documents);
int32_t documents_separator(const Documents *documents);  // the number of the one token that is it; -1: it is none
// True if a document ends before tokens[at].
bool documents_begin(const Documents *documents, const int32_t *tokens, int64_t at);

// The tokens of a text by itself; `tokenizer` NULL: its bytes.
bool documents_encode(const Tokenizer *tokenizer, const char *text, TokenList *tokens, Error *error);

#endif
