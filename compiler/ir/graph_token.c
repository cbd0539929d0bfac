// graph_token.c: cutting the textual form of graphs into tokens.
#include "compiler/ir/graph_token.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX_LENGTH = 40 };

static char peek(const Tokens *tokens, uint32_t ahead) {
  return tokens->length - tokens->at > ahead ? tokens->text[tokens->at + ahead] : '\0';
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static void skip_blanks(Tokens *tokens) {
  while (tokens->at < tokens->length) {
    char c = peek(tokens, 0);
    if (c == '/' && peek(tokens, 1) == '/') {
      while (tokens->at < tokens->length && peek(tokens, 0) != '\n') {
        tokens->at++;
      }
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      tokens->at++;
    } else {
      return;
    }
  }
}

// Bad text from the token's first byte to here.
static bool token_bad(Tokens *tokens, const char *wrong) {
  return token_fail(tokens, (Span){tokens->file, tokens->token.begin, tokens->at}, "%s", wrong);
}

// Digits as a number of at most `most`.
static bool read_digits(Tokens *tokens, uint64_t most, uint64_t *number) {
  if (!is_digit(peek(tokens, 0))) {
    return token_bad(tokens, "a digit is missing here");
  }
  *number = 0;
  for (; is_digit(peek(tokens, 0)); tokens->at++) {
    *number = *number * 10 + (uint64_t)(peek(tokens, 0) - '0');
    if (*number > most) {
      return token_bad(tokens, "this number is too large");
    }
  }
  return true;
}

static int hex_digit(char c) {
  return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The character after a backslash at tokens->at - 1, or 0.
static char read_escape(Tokens *tokens) {
  char c = peek(tokens, 0);
  tokens->at++;
  if (c == '"' || c == '\\') {
    return c;
  }
  int high = hex_digit(peek(tokens, 0)), low = hex_digit(peek(tokens, 1));
  if (c != 'x' || high < 0 || low < 0) {
    return '\0';
  }
  tokens->at += 2;
  return (char)(high * 16 + low);
}

static bool read_string(Tokens *tokens) {
  uint32_t length = 0;
  for (uint32_t i = tokens->at + 1; i < tokens->length && tokens->text[i] != '"'; i++) {
    i += tokens->text[i] == '\\';
    length++;
  }
  char *bytes = arena_alloc(tokens->arena, (size_t)length + 1);
  tokens->at++;
  for (length = 0; peek(tokens, 0) != '"'; length++) {
    if (tokens->at >= tokens->length || (unsigned char)peek(tokens, 0) < 0x20) {
      return token_bad(tokens, "this string does not end on its line, or holds a control character");
    }
    char c = peek(tokens, 0);
    tokens->at++;
    if (c == '\\') {
      c = tokens->at < tokens->length ? read_escape(tokens) : '\0';
    }
    if (c == '\0') {
      return token_bad(tokens, "this string has an unknown escape");
    }
    bytes[length] = c;
  }
  tokens->at++;
  tokens->token.kind = TOKEN_STRING;
  tokens->token.text = name_of_bytes(tokens->names, bytes, length);
  return true;
}

static bool read_span(Tokens *tokens) {
  uint64_t file = 0, begin = 0, end = 0;
  tokens->at++;
  if (!read_digits(tokens, INT32_MAX, &file)) {
    return false;
  }
  if (peek(tokens, 0) != ':') {
    return token_bad(tokens, "a span is written #file:begin-end");
  }
  tokens->at++;
  if (!read_digits(tokens, UINT32_MAX, &begin)) {
    return false;
  }
  if (peek(tokens, 0) != '-') {
    return token_bad(tokens, "a span is written #file:begin-end");
  }
  tokens->at++;
  if (!read_digits(tokens, UINT32_MAX, &end)) {
    return false;
  }
  tokens->token.kind = TOKEN_SPAN;
  tokens->token.span = (Span){(int32_t)file, (uint32_t)begin, (uint32_t)end};
  return true;
}

static bool read_number(Tokens *tokens) {
  uint32_t begin = tokens->at;
  tokens->at += peek(tokens, 0) == '-';
  if (peek(tokens, 0) == 'i' && peek(tokens, 1) == 'n' && peek(tokens, 2) == 'f') {
    tokens->at += 3;
  } else if (!is_digit(peek(tokens, 0))) {
    return token_bad(tokens, "a digit is missing here");
  }
  for (char c = peek(tokens, 0), last = ' ';
       is_digit(c) || c == '.' || c == 'e' || c == 'E' || ((c == '-' || c == '+') && (last == 'e' || last == 'E'));
       last = c, c = peek(tokens, 0)) {
    tokens->at++;
  }
  if (tokens->at - begin > NUMBER_MAX_LENGTH) {
    return token_bad(tokens, "this number is too long");
  }
  tokens->token.kind = TOKEN_NUMBER;
  return true;
}

static bool read_token(Tokens *tokens) {
  char c = peek(tokens, 0);
  if (is_letter(c)) {
    uint32_t begin = tokens->at;
    while (is_letter(peek(tokens, 0)) || is_digit(peek(tokens, 0)) || peek(tokens, 0) == '.') {
      tokens->at++;
    }
    tokens->token.kind = TOKEN_WORD;
    tokens->token.text = name_of_bytes(tokens->names, tokens->text + begin, tokens->at - begin);
    return true;
  }
  if (is_digit(c) || c == '-') {
    return read_number(tokens);
  }
  if (c == '"') {
    return read_string(tokens);
  }
  if (c == '#') {
    return read_span(tokens);
  }
  if (c == '%') {
    uint64_t number = 0;
    tokens->at++;
    bool good = read_digits(tokens, INT32_MAX, &number);
    tokens->token.kind = TOKEN_VALUE;
    tokens->token.value = (int32_t)number;
    return good;
  }
  tokens->at++;
  tokens->token.kind = TOKEN_MARK;
  tokens->token.mark = c;
  return (c && strchr("{}()[]:;,=|@", c)) || token_bad(tokens, "this character is not allowed here");
}

bool token_next(Tokens *tokens) {
  skip_blanks(tokens);
  tokens->token = (Token){.begin = tokens->at, .end = tokens->at};
  if (tokens->failed || (tokens->at < tokens->length && !read_token(tokens))) {
    return false;
  }
  tokens->token.end = tokens->at;
  return true;
}

Tokens tokens_of(Arena *arena, Names *names, Diag *diag, int source_file) {
  const Source *source = &diag->sources.at[source_file];
  return (Tokens){.arena = arena,
                  .names = names,
                  .diag = diag,
                  .file = source_file,
                  .text = source->text,
                  .length = source->length};
}

bool token_fail(Tokens *tokens, Span span, const char *format, ...) {
  if (!tokens->failed) {
    char message[256];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    diag_error(tokens->diag, E001, span, "%s", message);
    tokens->failed = true;
  }
  tokens->token = (Token){.begin = tokens->at, .end = tokens->at};
  return false;
}

Span token_span(const Tokens *tokens) {
  return (Span){tokens->file, tokens->token.begin, tokens->token.end};
}

// ---- Expectations

bool token_is(const Tokens *tokens, TokenKind kind) {
  return tokens->token.kind == kind;
}

bool token_is_mark(const Tokens *tokens, char mark) {
  return tokens->token.mark == mark;
}

bool token_is_word(const Tokens *tokens, const char *word) {
  return tokens->token.kind == TOKEN_WORD && strcmp(tokens->token.text, word) == 0;
}

bool token_accept_mark(Tokens *tokens, char mark) {
  return token_is_mark(tokens, mark) && token_next(tokens);
}

bool token_accept_word(Tokens *tokens, const char *word) {
  return token_is_word(tokens, word) && token_next(tokens);
}

bool token_expect_mark(Tokens *tokens, char mark) {
  return token_is_mark(tokens, mark) ? token_next(tokens)
                                     : token_fail(tokens, token_span(tokens), "expected '%c' here", mark);
}

bool token_expect_word(Tokens *tokens, const char *word) {
  return token_is_word(tokens, word) ? token_next(tokens)
                                     : token_fail(tokens, token_span(tokens), "expected '%s' here", word);
}

// The digits of a NUMBER as a string.
static bool number_text(const Tokens *tokens, char copy[NUMBER_MAX_LENGTH + 1]) {
  const Token *token = &tokens->token;
  if (token->kind != TOKEN_NUMBER) {
    return false;
  }
  memcpy(copy, tokens->text + token->begin, token->end - token->begin);
  copy[token->end - token->begin] = '\0';
  return true;
}

bool token_integer(Tokens *tokens, int64_t least, int64_t most, int64_t *integer) {
  char copy[NUMBER_MAX_LENGTH + 1], *end = copy;
  errno = 0;
  long long number = number_text(tokens, copy) ? strtoll(copy, &end, 10) : 0;
  if (end == copy || *end != '\0' || errno != 0) {
    return token_fail(tokens, token_span(tokens), "expected an integer here");
  }
  if (number < least || number > most) {
    return token_fail(tokens, token_span(tokens), "this integer is out of its range");
  }
  *integer = number;
  return token_next(tokens);
}

bool token_int(Tokens *tokens, int least, int most, int *integer) {
  int64_t number = 0;
  bool good = token_integer(tokens, least, most, &number);
  *integer = (int)number;
  return good;
}

bool token_real(Tokens *tokens, double *real) {
  char copy[NUMBER_MAX_LENGTH + 1], *end = copy;
  if (token_is_word(tokens, "inf") || token_is_word(tokens, "nan")) {
    *real = token_is_word(tokens, "inf") ? (double)INFINITY : (double)NAN;
    return token_next(tokens);
  }
  double number = number_text(tokens, copy) ? strtod(copy, &end) : 0;
  if (end == copy || *end != '\0' || (isinf(number) && strcmp(copy, "-inf") != 0)) {
    return token_fail(tokens, token_span(tokens), "expected a number here");
  }
  *real = number;
  return token_next(tokens);
}

bool token_name(Tokens *tokens, Name *name) {
  if (!token_is(tokens, TOKEN_WORD) && !token_is(tokens, TOKEN_STRING)) {
    return token_fail(tokens, token_span(tokens), "expected a name here");
  }
  *name = tokens->token.text;
  return token_next(tokens);
}

bool token_string(Tokens *tokens, Name *string) {
  if (!token_is(tokens, TOKEN_STRING) && !token_is_word(tokens, "none")) {
    return token_fail(tokens, token_span(tokens), "expected a string here");
  }
  *string = token_is(tokens, TOKEN_STRING) ? tokens->token.text : NULL;
  return token_next(tokens);
}

bool token_place(Tokens *tokens, Span *span) {
  Span written = tokens->token.span;
  if (!token_is(tokens, TOKEN_SPAN)) {
    return token_fail(tokens, token_span(tokens), "expected a span here");
  }
  bool known = written.file != tokens->file && written.file < tokens->diag->sources.count &&
               written.begin <= written.end && written.end <= tokens->diag->sources.at[written.file].length;
  *span = known ? written : SPAN_NONE;
  return token_next(tokens);
}
