// tokenizer.h: text to tokens and back, as a tokenizer.json of Hugging Face (BPE), a rank file of tiktoken or a .model
// of SentencePiece says.
//
// A Tokenizer is immutable once it was read; an Encoder has the working memory of one thread. Tokens are those that the
// packages tokenizers, tiktoken and sentencepiece make, without what they add at the beginning and the end. Bytes that
// are no UTF-8 are pieces by themselves, or with SentencePiece U+FFFD. Tokens of bytes decode to the very text; those
// of characters may have a space ahead of it, and those of SentencePiece decode to its normal form. Tokens that files
// of transformers add to a .model are known where these lie beside it.
#ifndef MDL_RUNTIME_DATA_TOKENIZER_H
#define MDL_RUNTIME_DATA_TOKENIZER_H

#include <stddef.h>

#include "runtime/device.h"

typedef struct Tokenizer Tokenizer;
typedef struct Encoder Encoder;

typedef struct {  // on the heap; zero-initialise
  int32_t *at;
  int64_t count, capacity;
} TokenList;

// A path that no recipe gives a file: tokens are bytes.
#define TOKENIZER_BYTES "bytes"

bool tokenizer_open(const char *path, Tokenizer **tokenizer, Error *error);
// The same of a text that was read, and of nothing beside it; `path` is for messages.
bool tokenizer_read(const char *path, const char *text, size_t length, Tokenizer **tokenizer, Error *error);
void tokenizer_close(Tokenizer *tokenizer);
// The same once more, for another one who closes it; NULL is another NULL. For one thread. True.
bool tokenizer_shared(Tokenizer *tokenizer, Tokenizer **again);

const char *tokenizer_path(const Tokenizer *tokenizer);
int32_t tokenizer_kinds(const Tokenizer *tokenizer);  // tokens are below this
int32_t tokenizer_end(const Tokenizer *tokenizer);    // the token that ends a document, such as <|endoftext|>; -1: none
// The bytes of a token, which end with the tokenizer; NULL where there is no token of this number.
const uint8_t *tokenizer_bytes(const Tokenizer *tokenizer, int32_t token, int32_t *length);
bool tokenizer_leads(const Tokenizer *tokenizer);       // what texts decode to has a space ahead of it
int32_t tokenizer_longest(const Tokenizer *tokenizer);  // bytes of a token
// The number of an added token, which text becomes, such as "<|endoftext|>", or -1.
int32_t tokenizer_added(const Tokenizer *tokenizer, const char *text);
// The same, or that of a control symbol of SentencePiece such as "</s>", which no text becomes.
int32_t tokenizer_symbol(const Tokenizer *tokenizer, const char *text);

bool encoder_create(const Tokenizer *tokenizer, Encoder **encoder, Error *error);
void encoder_destroy(Encoder *encoder);
// Appends the tokens of a text. With `more` the text goes on: what might be other tokens then is left, and *used says
// how many bytes were taken. Else all are.
bool encoder_add(Encoder *encoder, const char *text, size_t length, bool more, size_t *used, TokenList *tokens,
                 Error *error);
// While it is true, what is added without `more` ends no text: what comes next has no space put ahead of it, but shares
// no token with what was before.
void encoder_go_on(Encoder *encoder, bool goes_on);
// Cuts text as the named pattern says ("gpt2", "llama3", "qwen"), and has no tokens: for who only wants pieces.
bool tokenizer_cutter(const char *pattern, Tokenizer **tokenizer, Error *error);
// Pieces go to a function, which returns false where memory is missing, and no tokens are made of them.
typedef bool EncoderPiece(void *context, const uint8_t *bytes, size_t length);
void encoder_pieces(Encoder *encoder, EncoderPiece *piece, void *context);
// For tests: pieces are found by the pattern alone, not by the loops that do the same for plain English.
void encoder_plain(Encoder *encoder, bool plain);

bool tokens_add(TokenList *tokens, int32_t token);  // false: no memory
void tokens_free(TokenList *tokens);

#endif
