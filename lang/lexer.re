// lexer.re: the scanner of .mdl text. lang/generate.sh makes lang/generated/lexer.c of it.
#include "base/spelled.h"
#include "lang/foreign.h"
#include "lang/lexer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lang/generated/grammar.h"

// clang-format off
/*!re2c
  re2c:api:style = free-form;
  re2c:define:YYCTYPE = "unsigned char";
  re2c:define:YYCURSOR = cursor;
  re2c:define:YYLIMIT = limit;
  re2c:define:YYMARKER = marker;
  re2c:yyfill:enable = 0;
  re2c:eof = 0;
  re2c:flags:utf-8 = 1;

  blank    = [ \t\r\n];
  digits   = [0-9]+;
  exponent = [eE] [+-]? digits;
  float    = digits "." digits exponent? | digits exponent;
  letter   = [A-Za-z_];
  name     = letter [A-Za-z0-9_]* [']*;
  control  = [\x00-\x08\x0b-\x1f\x7f];
  any      = [^];
*/
// clang-format on

static Span span_of(const Lexer *lexer, const unsigned char *begin, const unsigned char *end) {
  const unsigned char *text = (const unsigned char *)lexer->text;
  return (Span){lexer->file, (uint32_t)(begin - text), (uint32_t)(end - text)};
}

Lexer lexer_create(Arena *arena, Names *names, Diag *diag, int file, CommentList *comments) {
  Source source = diag->sources.at[file];
  Lexer lexer = {.arena = arena, .names = names, .diag = diag, .comments = comments, .file = file};
  lexer.text = lexer.cursor = source.text;
  lexer.limit = source.text + source.length;
  if (source.length >= 3 && memcmp(source.text, "\xef\xbb\xbf", 3) == 0) {  // a byte order mark
    lexer.cursor += 3;
  }
  return lexer;
}

// A number and a name behind it, with nothing between.
static void lexer_run_on(Lexer *lexer, Span span, const unsigned char *begin, const unsigned char *end) {
  char other[SPELLED_MAX];
  const char *number = spelled_number((const char *)begin, (size_t)(end - begin), false, other);
  const bool schedule = end - begin == 4 && memcmp(begin, "1f1b", 4) == 0;
  Diagnostic *error = number ? diag_error(lexer->diag, E002, span, "numbers are not spelled like this")
                             : diag_error(lexer->diag, E002, span, "a number runs into a name");
  diag_help(lexer->diag, error, "%s",
            number     ? number
            : schedule ? "this schedule is written `one_f_one_b`"
                       : "names begin with a letter or `_`; an exponent has digits: `1e-4`");
}

static void lexer_comment(Lexer *lexer, Span span) {
  const char *before = lexer->text + span.begin;
  while (before > lexer->text && (before[-1] == ' ' || before[-1] == '\t')) {
    before--;
  }
  while (span.end > span.begin && strchr(" \t\r", lexer->text[span.end - 1])) {
    span.end--;
  }
  for (uint32_t i = span.begin; i < span.end; i++) {
    unsigned char c = (unsigned char)lexer->text[i];
    if ((c < ' ' && c != '\t') || c == 0x7f) {
      diag_error(lexer->diag, E002, (Span){lexer->file, i, i + 1}, "the control character 0x%02x in a comment", c);
      return;
    }
  }
  if (lexer->comments) {
    bool own_line = before == lexer->text || before[-1] == '\n';
    array_push(lexer->arena, lexer->comments, ((Comment){span, own_line}));
  }
}

static int lexer_number(Lexer *lexer, Token *token, Span span, int kind) {
  token->text = name_of_bytes(lexer->names, lexer->text + span.begin, span.end - span.begin);
  token->value = strtod(token->text, NULL);
  if (isinf(token->value)) {
    diag_error(lexer->diag, E002, span, "the number is too large");
  } else if (kind == TOKEN_INTEGER && token->value > 9007199254740992.0) {
    diag_error(lexer->diag, E002, span, "the integer is larger than 2^53 and would lose digits");
  }
  return kind;
}

// Reads on to the closing quote; `cursor` is behind the opening one.
static int lexer_string(Lexer *lexer, Token *token, const unsigned char *begin) {
  const unsigned char *cursor = begin + 1, *limit = (const unsigned char *)lexer->limit, *marker, *at;
  const unsigned char *end = cursor;  // room for the string, not for the rest of a long line
  while (end < limit && *end != '\n' && *end != '"') {
    end += *end == '\\' && end + 1 < limit ? 2 : 1;
  }
  char *text = arena_alloc(lexer->arena, (size_t)(end - begin) + 1);
  size_t length = 0;
  for (;;) {
    at = cursor;
    // clang-format off
    /*!re2c
      "\""           { break; }
      "\\n"          { text[length++] = '\n'; continue; }
      "\\t"          { text[length++] = '\t'; continue; }
      "\\" ["\\]     { text[length++] = (char)at[1]; continue; }
      "\\" [^\n\x00] {
        Diagnostic *error = diag_error(lexer->diag, E002, span_of(lexer, at, cursor), "an unknown escape in a string");
        diag_help(lexer->diag, error, "the escapes are \\n, \\t, \\\" and \\\\");
        continue;
      }
      "\n"           { cursor = at; goto unterminated; }
      $              { cursor = at; goto unterminated; }
      control        {
        diag_error(lexer->diag, E002, span_of(lexer, at, cursor), "the control character 0x%02x in a string", *at);
        continue;
      }
      any            { memcpy(text + length, at, (size_t)(cursor - at)); length += (size_t)(cursor - at); continue; }
      *              {
        diag_error(lexer->diag, E002, span_of(lexer, at, cursor), "the byte 0x%02x is not valid UTF-8", *at);
        continue;
      }
    */
    // clang-format on
  }
  if (false) {
  unterminated:;
    Diagnostic *error = diag_error(lexer->diag, E002, span_of(lexer, begin, at), "the string does not end on its line");
    diag_help(lexer->diag, error, "close it with `\"`");
    while (cursor > begin + 1 && strchr(" \t\r;)}", cursor[-1])) {  // most likely not meant as part of it
      cursor--;
    }
  }
  lexer->cursor = (const char *)cursor;
  token->text = name_of_bytes(lexer->names, text, length);
  return TOKEN_STRING;
}

static void lexer_unknown(Lexer *lexer, Span span, const char *help) {
  const char *text = lexer->text + span.begin;
  int length = (int)(span.end - span.begin);
  Diagnostic *error;
  if (length == 1 && (*text < ' ' || *text == 0x7f)) {
    error = diag_error(lexer->diag, E002, span, "the character 0x%02x is not part of the language", *text & 0xff);
  } else {
    error = diag_error(lexer->diag, E002, span, "`%.*s` is not part of the language", length, text);
  }
  help = help ? help : foreign_mark(text, length);
  if (help) {
    diag_help(lexer->diag, error, "%s", help);
  }
}

static void lexer_block_comment(Lexer *lexer, Span span) {
  const char *end = strstr(lexer->text + span.end, "*/");
  lexer->cursor = end ? end + 2 : lexer->limit;
  Diagnostic *error = diag_error(lexer->diag, E002, span, "`/*` is not part of the language");
  diag_help(lexer->diag, error, "comments are written `// to the end of the line`");
}

// How many bytes a quote of print has, as editors put it there; 0: it is none.
static size_t printed_quote(const unsigned char *at) {
  static const char *const quotes[] = {"\u201c", "\u201d", "\u201e", "\u201f", "\u2018",
                                       "\u2019", "\u201a", "\u201b", "\u00ab", "\u00bb"};
  for (size_t i = 0; i < sizeof quotes / sizeof *quotes; i++) {
    if (strncmp((const char *)at, quotes[i], strlen(quotes[i])) == 0) {
      return strlen(quotes[i]);
    }
  }
  return 0;
}

// Where the string ends that such a quote at `begin` opens, on its line; NULL: it opens none.
static const unsigned char *lexer_printed(Lexer *lexer, Token *token, const unsigned char *at,
                                          const unsigned char *begin) {
  const unsigned char *first = at;
  while (printed_quote(begin) > 0 && *at && !strchr("\n;", *at)) {
    const size_t length = *at == '"' ? 1 : printed_quote(at);
    if (length > 0) {
      token->text = name_of_bytes(lexer->names, (const char *)first, (size_t)(at - first));
      return at + length;
    }
    at++;
  }
  return NULL;
}

int lexer_next(Lexer *lexer, Token *token, Span *span) {
  const unsigned char *cursor = (const unsigned char *)lexer->cursor, *limit = (const unsigned char *)lexer->limit;
  const unsigned char *marker, *begin;
  *token = (Token){0};
  // clang-format off
#define FOUND(kind) do { lexer->cursor = (const char *)cursor; *span = span_of(lexer, begin, cursor); return (kind); } while (0)
#define WORD(kind) do { token->text = name_of_bytes(lexer->names, (const char *)begin, (size_t)(cursor - begin)); FOUND(kind); } while (0)
#define HERE span_of(lexer, begin, cursor)
  for (;;) {
    begin = cursor;
    /*!re2c
      blank+           { continue; }
      $                { cursor = begin; FOUND(TOKEN_END_OF_TEXT); }
      "//" [^\n\x00]*  {
        const unsigned char *end = memchr(begin, '\n', (size_t)(limit - begin));
        cursor = end ? end : limit;
        lexer_comment(lexer, HERE);
        continue;
      }
      "/*"             { lexer_block_comment(lexer, HERE); cursor = (const unsigned char *)lexer->cursor; continue; }

      "import"         { WORD(TOKEN_IMPORT); }
      "axis"           { WORD(TOKEN_AXIS); }
      "const"          { WORD(TOKEN_CONST); }
      "input"          { WORD(TOKEN_INPUT); }
      "param"          { WORD(TOKEN_PARAM); }
      "state"          { WORD(TOKEN_STATE); }
      "fn"             { WORD(TOKEN_FN); }
      "composite"      { WORD(TOKEN_COMPOSITE); }
      "update"         { WORD(TOKEN_UPDATE); }
      "model"          { WORD(TOKEN_MODEL); }
      "layout"         { WORD(TOKEN_LAYOUT); }
      "precision"      { WORD(TOKEN_PRECISION); }
      "recipe"         { WORD(TOKEN_RECIPE); }
      "repeat"         { WORD(TOKEN_REPEAT); }
      "as"             { WORD(TOKEN_AS); }
      "if"             { WORD(TOKEN_IF); }
      "else"           { WORD(TOKEN_ELSE); }
      "return"         { WORD(TOKEN_RETURN); }
      "output"         { WORD(TOKEN_OUTPUT); }
      "over"           { WORD(TOKEN_OVER); }
      "to"             { WORD(TOKEN_TO); }
      "like"           { WORD(TOKEN_LIKE); }
      "and"            { WORD(TOKEN_AND); }
      "or"             { WORD(TOKEN_OR); }
      "not"            { WORD(TOKEN_NOT); }
      "true"           { WORD(TOKEN_TRUE); }
      "false"          { WORD(TOKEN_FALSE); }
      "scan"           { WORD(TOKEN_SCAN); }
      "carry"          { WORD(TOKEN_CARRY); }
      name             { WORD(TOKEN_NAME); }

      digits           { *span = HERE; FOUND(lexer_number(lexer, token, *span, TOKEN_INTEGER)); }
      float            { *span = HERE; FOUND(lexer_number(lexer, token, *span, TOKEN_FLOAT)); }
      (digits | float) name {
        lexer_run_on(lexer, HERE, begin, cursor);
        token->text = name_of_bytes(lexer->names, "0", 1);
        FOUND(TOKEN_INTEGER);
      }
      "@" name         { token->text = name_of_bytes(lexer->names, (const char *)begin + 1, (size_t)(cursor - begin) - 1); FOUND(TOKEN_LABEL); }
      "\""             {
        int kind = lexer_string(lexer, token, begin);
        cursor = (const unsigned char *)lexer->cursor;
        FOUND(kind);
      }

      "..."            { FOUND(TOKEN_ELLIPSIS); }
      ".."             { FOUND(TOKEN_DOTDOT); }
      "."              { FOUND(TOKEN_DOT); }
      ","              { FOUND(TOKEN_COMMA); }
      ";"              { FOUND(TOKEN_SEMICOLON); }
      ":"              { FOUND(TOKEN_COLON); }
      "->"             { FOUND(TOKEN_ARROW); }
      "=="             { FOUND(TOKEN_EQUAL); }
      "="              { FOUND(TOKEN_ASSIGN); }
      "!="             { FOUND(TOKEN_NOT_EQUAL); }
      "<="             { FOUND(TOKEN_LESS_EQUAL); }
      "<"              { FOUND(TOKEN_LESS); }
      ">="             { FOUND(TOKEN_GREATER_EQUAL); }
      ">"              { FOUND(TOKEN_GREATER); }
      "+"              { FOUND(TOKEN_PLUS); }
      "-"              { FOUND(TOKEN_MINUS); }
      "*"              { FOUND(TOKEN_STAR); }
      "/"              { FOUND(TOKEN_SLASH); }
      "%"              { FOUND(TOKEN_PERCENT); }
      "^"              { FOUND(TOKEN_CARET); }
      "~"              { FOUND(TOKEN_TILDE); }
      "|"              { FOUND(TOKEN_BAR); }
      "("              { FOUND(TOKEN_LPAREN); }
      ")"              { FOUND(TOKEN_RPAREN); }
      "["              { FOUND(TOKEN_LBRACKET); }
      "]"              { FOUND(TOKEN_RBRACKET); }
      "{"              { FOUND(TOKEN_LBRACE); }
      "}"              { FOUND(TOKEN_RBRACE); }

      "&&"             { lexer_unknown(lexer, HERE, "write `and`"); FOUND(TOKEN_AND); }
      "||"             { lexer_unknown(lexer, HERE, "write `or`"); FOUND(TOKEN_OR); }
      "!"              { lexer_unknown(lexer, HERE, "write `not`"); FOUND(TOKEN_NOT); }
      "#"              {
        lexer_unknown(lexer, HERE, "comments are written `// to the end of the line`");
        const unsigned char *end = memchr(begin, '\n', (size_t)(limit - begin));
        cursor = end ? end : limit;
        continue;
      }
      "'"              { lexer_unknown(lexer, HERE, "strings stand in double quotes, names in none"); continue; }
      any              {
        lexer_unknown(lexer, HERE, NULL);
        const unsigned char *end = lexer_printed(lexer, token, cursor, begin);
        cursor = end ? end : cursor;
        if (end) FOUND(TOKEN_STRING);
        continue;
      }
      *                {
        diag_error(lexer->diag, E002, HERE, "the byte 0x%02x is not valid UTF-8", *begin);
        continue;
      }
    */
  }
#undef FOUND
#undef WORD
#undef HERE
  // clang-format on
}
