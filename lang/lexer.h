// lexer.h: from bytes of .mdl text to tokens; the scanner is lexer.re.
#ifndef MDL_LANG_LEXER_H
#define MDL_LANG_LEXER_H

#include "lang/ast.h"

typedef struct {
  Name text;     // a name, a keyword or a number as written; a label without @; a string without its escapes
  double value;  // of a number
} Token;

typedef struct {
  Arena *arena;
  Names *names;
  Diag *diag;
  CommentList *comments;  // or NULL
  int file;
  const char *text, *cursor, *limit;  // *limit is NUL
} Lexer;

Lexer lexer_create(Arena *arena, Names *names, Diag *diag, int file, CommentList *comments);

// The next token (TOKEN_* of lang/generated/grammar.h). Bytes that belong to no token become E002 and are skipped.
int lexer_next(Lexer *lexer, Token *token, Span *span);

#endif
