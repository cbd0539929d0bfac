// graph_token.h: the tokens of the textual form of graphs, and what a reader may expect of them.
//
// Blanks and comments (`//` to the end of the line) separate tokens and mean nothing. Every function that returns false
// for bad text has added one E001; after the first there are no more, and the current token is an END.
#ifndef MDL_COMPILER_IR_GRAPH_TOKEN_H
#define MDL_COMPILER_IR_GRAPH_TOKEN_H

#include "base/diag.h"

typedef enum {
  TOKEN_END,
  TOKEN_WORD,    // a letter or _, then letters, digits, _ and .
  TOKEN_STRING,  // "..." with \" \\ and \xNN; no other control characters
  TOKEN_NUMBER,  // digits, or a decimal fraction; -inf
  TOKEN_VALUE,   // %12
  TOKEN_SPAN,    // #file:begin-end
  TOKEN_MARK,    // one of {}()[]:;,=|@
} TokenKind;

typedef struct {
  TokenKind kind;
  uint32_t begin, end;  // bytes of the text
  Name text;            // WORD, and STRING without quotes and escapes
  int32_t value;        // VALUE
  Span span;            // SPAN
  char mark;            // MARK, else 0
} Token;

typedef struct {
  Arena *arena;
  Names *names;
  Diag *diag;
  int file;
  const char *text;
  uint32_t length, at;
  Token token;  // the current one
  bool failed;
} Tokens;

Tokens tokens_of(Arena *arena, Names *names, Diag *diag, int source_file);  // before the first token

bool token_fail(Tokens *tokens, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));  // false
Span token_span(const Tokens *tokens);
bool token_next(Tokens *tokens);

bool token_is(const Tokens *tokens, TokenKind kind);
bool token_is_mark(const Tokens *tokens, char mark);
bool token_is_word(const Tokens *tokens, const char *word);

// Go past the token. `accept` is false when another token stands here, or (failed) a bad one after it.
bool token_accept_mark(Tokens *tokens, char mark);
bool token_accept_word(Tokens *tokens, const char *word);
bool token_expect_mark(Tokens *tokens, char mark);
bool token_expect_word(Tokens *tokens, const char *word);

bool token_integer(Tokens *tokens, int64_t least, int64_t most, int64_t *integer);
bool token_int(Tokens *tokens, int least, int most, int *integer);
bool token_real(Tokens *tokens, double *real);    // also inf, -inf and nan
bool token_name(Tokens *tokens, Name *name);      // a word or a string
bool token_string(Tokens *tokens, Name *string);  // a string; the word none is NULL
// A span is kept only where it surely means the source that it was made from, else it becomes SPAN_NONE.
bool token_place(Tokens *tokens, Span *span);

#endif
