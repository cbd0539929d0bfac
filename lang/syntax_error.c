// syntax_error.c: what does not parse, in plain words, and where the grammar finds its place again.
#include <ctype.h>
#include <string.h>

#include "lang/foreign.h"
#include "lang/generated/grammar.h"
#include "lang/parse.h"

typedef struct {
  const char *const *at;
  int count;
} Expected;

static bool expects(Expected expected, const char *word) {
  for (int i = 0; i < expected.count; i++) {
    if (strcmp(expected.at[i], word) == 0) {
      return true;
    }
  }
  return false;
}

static bool expects_setting(Expected expected) {
  return expects(expected, "import") && expects(expected, "else");
}

static bool expects_declaration(Expected expected) {
  return expects(expected, "import") && !expects(expected, "else");
}

static bool expects_operator(Expected expected) {
  return expects(expected, "*") && expects(expected, "/");
}

static bool is_keyword(int kind) {
  return kind >= TOKEN_IMPORT && kind <= TOKEN_CARRY;
}

static bool starts_declaration(int kind) {
  return kind == TOKEN_IMPORT || (kind >= TOKEN_FN && kind <= TOKEN_RECIPE);
}

static bool starts_statement(int kind) {
  return (kind >= TOKEN_AXIS && kind <= TOKEN_STATE) || kind == TOKEN_REPEAT || kind == TOKEN_IF ||
         kind == TOKEN_RETURN || kind == TOKEN_OUTPUT || kind == TOKEN_SCAN || kind == TOKEN_CARRY;
}

// What was expected, in at most four plain words.
static const char *expected_words(Parser *parser, Expected expected) {
  static const char *const marks[] = {";",  ")",  "]", "}",  "{",    "=",  ":",    ",", "over",
                                      "to", "->", "~", "..", "like", "as", "else", "fn"};
  const char *words[4];
  int count = 0, most = 4 - expects_operator(expected);
  bool expression = expects(expected, "an integer") && expects(expected, "(");
  if (expects_setting(expected)) {
    words[count++] = expects(expected, "}") ? "a setting" : "a word";
  } else if (expects_declaration(expected)) {
    words[count++] = "a declaration";
  } else if (expects(expected, "repeat")) {
    words[count++] = "a statement";
  } else if (expression) {
    words[count++] = "an expression";
  } else if (expects(expected, "a name")) {
    words[count++] = "a name";
  } else if (!expects_operator(expected) && expects(expected, "(")) {
    words[count++] = "`(`";
  } else if (!expects_operator(expected) && expects(expected, "[")) {
    words[count++] = "`[`";
  }
  bool listed = count > 0 && (expects_setting(expected) || expects_declaration(expected));
  for (size_t i = 0; i < sizeof marks / sizeof *marks && count < most; i++) {
    bool word = marks[i][0] >= 'a' && marks[i][0] <= 'z';
    bool argument_name = strcmp(marks[i], "=") == 0 && expects_operator(expected);
    if (expects(expected, marks[i]) && !(listed && word) && !argument_name) {
      words[count++] = arena_format(parser->arena, "`%s`", marks[i]);
    }
  }
  if (expects_operator(expected)) {
    words[count++] = "an operator";
  }
  if (count == 0) {
    const bool described = expected.count > 0 && strchr(expected.at[0], ' ');
    return described            ? expected.at[0]
           : expected.count > 0 ? arena_format(parser->arena, "`%s`", expected.at[0])
                                : "something else";
  }
  const char *text = words[0];
  for (int i = 1; i < count; i++) {
    text = arena_format(parser->arena, "%s%s%s", text, i + 1 < count ? ", " : " or ", words[i]);
  }
  return text;
}

static const char *found_words(Parser *parser, int found, Span span) {
  if (found == TOKEN_END_OF_TEXT) {
    return "the end of the file";
  }
  int length = (int)(span.end - span.begin);
  const char *text = parser->lexer.text + span.begin, *more = "";
  if (length > 40) {
    more = "...";
    for (length = 37; ((unsigned char)text[length] & 0xc0) == 0x80; length--) {
    }
  }
  return arena_format(parser->arena, "%s`%.*s%s`", is_keyword(found) ? "the keyword " : "", length, text, more);
}

static bool is_comparison(int kind) {
  return kind >= TOKEN_EQUAL && kind <= TOKEN_GREATER_EQUAL;
}

// `x.mean()`, `nn.linear(...)`, `x.shape`.
static void member_help(Parser *parser, Diagnostic *error, const char *word) {
  const char *text = parser->lexer.text, *end = text + parser->before.span.begin, *begin = end;
  while (begin > text && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_')) {
    begin--;
  }
  const char *of = name_of_bytes(parser->lexer.names, begin, (size_t)(end - begin));
  const char *behind = text + parser->last.span.end;
  const bool called = behind[strspn(behind, " ")] == '(';
  const char *help = foreign_member(word), *function = foreign_function(word);
  if (called && foreign_module(of)) {
    diag_help(parser->diag, error, function ? "%s" : "functions stand alone: write `%s(...)`",
              function ? function : word);
  } else if (help) {
    diag_help(parser->diag, error, "%s", help);
  } else if (called && function) {
    diag_help(parser->diag, error, "%s", function);
  } else if (called) {
    diag_help(parser->diag, error, "there are no methods: write `%s(%s ...)`", word, of[0] ? of : "x");
  } else {
    diag_help(parser->diag, error, "values have no members; those of a tuple have numbers, `betas.0`");
  }
  parser->quiet_line = true;
}

// The help for common slips.
static void syntax_help(Parser *parser, Diagnostic *error, int found, Expected expected) {
  Diag *diag = parser->diag;
  int before = parser->before.kind;
  const char *word = parser->last.token.text, *closest;
  bool wants_assign = expected.count == 1 && expects(expected, "=");
  if (wants_assign && found >= TOKEN_PLUS && found <= TOKEN_CARET) {
    diag_help(diag, error, "there is no assignment with an operator: write `x = x + y`");
  } else if (wants_assign && before == TOKEN_NAME && (closest = foreign_statement(parser->before.token.text))) {
    diag_help(diag, error, "%s", closest);
    parser->quiet_line = true;
  } else if (before == TOKEN_DOT && found == TOKEN_NAME) {
    member_help(parser, error, word);
  } else if (before == TOKEN_NAME && expects(expected, ";") && (closest = foreign_name(parser->before.token.text))) {
    diag_help(diag, error, "%s", closest);
    parser->quiet_line = true;
  } else if (found == TOKEN_IF && expects_operator(expected)) {
    diag_help(diag, error, "to choose, write `where(c, a, b)`; `if` begins a statement");
    parser->quiet_line = true;
  } else if (wants_assign && before == TOKEN_NAME && (closest = foreign_misspelled(parser->before.token.text))) {
    diag_help(diag, error, "did you mean `%s`?", closest);
  } else if (found == TOKEN_STAR && before == TOKEN_STAR) {
    diag_help(diag, error, "powers are written `x ^ 2`");
  } else if (found == TOKEN_ASSIGN && expects(expected, "==")) {
    diag_help(diag, error, "`=` assigns; to compare, write `==`");
  } else if (found == TOKEN_EQUAL && expects(expected, "=")) {
    diag_help(diag, error, "`==` compares; to assign, write `=`");
  } else if (is_comparison(found) && expects_operator(expected) && !expects(expected, "==")) {
    diag_help(diag, error, "comparisons do not chain: join two of them with `and`");
  } else if (expects(expected, "an integer") && (found == TOKEN_DOT || before == TOKEN_DOT)) {
    diag_help(diag, error, "a number has digits on both sides of its point: `0.5`, `5.0`");
  } else if (found == TOKEN_LBRACKET && expects(expected, "an integer")) {
    diag_help(diag, error, "lists of numbers stand in round brackets: `(0.9, 0.95)`");
  } else if (before == TOKEN_PERCENT && expects(expected, "an integer")) {
    diag_help(diag, error, "`%%` is the remainder; a share is a number: `0.1`, a tenth of the run `0.1 * steps`");
  } else if (found == TOKEN_SEMICOLON && before == TOKEN_RBRACE) {
    diag_help(diag, error, "a block needs no `;` after it");
  } else if (found == TOKEN_RBRACE && expects_declaration(expected)) {
    diag_help(diag, error, "there is no open `{` that it could close");
  } else if (found == TOKEN_LPAREN && wants_assign) {
    diag_help(diag, error, "a statement assigns or returns a value: `y = f(x);`");
  } else if (found == TOKEN_ASSIGN && is_keyword(before) && expects(expected, "a name")) {
    diag_help(diag, error, "`%s` is a keyword: choose another name", parser->before.token.text);
  } else if (found == TOKEN_AXIS && before == TOKEN_COMMA && expects(expected, "an integer")) {
    diag_help(diag, error, "axes stand behind `over`, by name: `sum(x over embed)`");
  } else if (is_keyword(found) && expects(expected, "a name") && !expects(expected, ";")) {
    if (!expects(expected, "repeat")) {
      diag_help(diag, error, "`%s` is a keyword: choose another name", word);
    }
  }
}

// Shows the bracket that is still open, where that explains the error.
static void syntax_related(Parser *parser, Diagnostic *error, int found, Expected expected) {
  const bool left = parser->left.kind == TOKEN_LPAREN || parser->left.kind == TOKEN_LBRACKET;
  if (parser->open == 0 && !left) {
    return;
  }
  Seen opening = left ? parser->left : parser->bracket[parser->open - 1];
  if (found == TOKEN_LPAREN || found == TOKEN_LBRACKET || found == TOKEN_LBRACE) {
    if (parser->open < 2) {
      return;
    }
    opening = parser->bracket[parser->open - 2];
  }
  const char *text = parser->lexer.text;
  bool ends = found == TOKEN_SEMICOLON || found == TOKEN_AXES_SEMICOLON || found == TOKEN_RBRACE;
  bool same_line = !ends && opening.span.begin < error->span.begin &&
                   !memchr(text + opening.span.begin, '\n', error->span.begin - opening.span.begin);
  const char *mark = opening.kind == TOKEN_LBRACE ? "{" : opening.kind == TOKEN_LPAREN ? "(" : "[";
  const char *closing = opening.kind == TOKEN_LBRACE ? "}" : opening.kind == TOKEN_LPAREN ? ")" : "]";
  // On the line of a bracket it is rather a name that is a keyword.
  const bool named = same_line && opening.kind != TOKEN_LBRACE;
  bool outer = found == TOKEN_END_OF_TEXT || (starts_declaration(found) && !named);
  if (outer || (opening.kind != TOKEN_LBRACE && expects(expected, closing) && !same_line)) {
    diag_related(parser->diag, error, opening.span, "this `%s` is not closed", mark);
  }
}

static int open_braces(const Parser *parser) {
  int braces = 0;
  for (int i = 0; i < parser->open; i++) {
    braces += parser->bracket[i].kind == TOKEN_LBRACE;
  }
  return braces;
}

static size_t line_rest(const char *text) {
  enum { FAR = 1000 };
  size_t length = 0;
  while (length < FAR && text[length] && text[length] != '\n') {
    length++;
  }
  return length;
}

// Puts in tokens with which the grammar finds its place again; true where a `;` was simply forgotten.
static bool parser_recover(Parser *parser, int found, Expected expected) {
  Span before = parser->before.span, last = parser->last.span;
  if (found == TOKEN_AXES_SEMICOLON) {
    parser_leave_parentheses(parser);
    parser->pending_semicolon = true;
    return false;
  }
  const char *rest = parser->lexer.text + last.begin;
  if (!memchr(rest, ']', line_rest(rest))) {
    parser_leave_parentheses(parser);  // else the next `;` would seem to stand between axes
  }
  parser->held = parser->last;
  if (found == TOKEN_END_OF_TEXT) {
    parser->pending_semicolon = parser->holding = true;
    parser->pending_braces = open_braces(parser);
    return expects(expected, ";");
  }
  if (expects(expected, ";")) {
    bool new_line = memchr(parser->lexer.text + before.end, '\n', last.begin - before.end) != NULL;
    bool forgotten = new_line || found == TOKEN_RBRACE || starts_statement(found);
    parser->pending_semicolon = parser->holding = forgotten;
    return forgotten;
  }
  if (starts_declaration(found) && expects(expected, "}") && expects(expected, "repeat")) {
    parser->pending_braces = open_braces(parser);
    parser->holding = true;
  }
  return false;
}

// Whether the text beside the error was already complained of by the lexer.
static bool is_echo(const Parser *parser) {
  for (int i = parser->diag->all.count - 1; i >= 0; i--) {
    const Diagnostic *other = &parser->diag->all.at[i];
    if (other->code == E002 && other->span.file == parser->last.span.file &&
        other->span.begin >= parser->before.span.end && other->span.begin <= parser->last.span.begin) {
      return true;
    }
  }
  return false;
}

void parser_syntax_error(Parser *parser, int found, Span span, const char *const *at, int count) {
  Expected expected = {at, count};
  if (parser->stopped || parser->synthetic || (parser->any_error && parser->last_error == span.begin)) {
    return;
  }
  if (parser->quiet_line && !memchr(parser->lexer.text + parser->last_error, '\n', span.begin - parser->last_error)) {
    parser_recover(parser, found, expected);  // what follows from a statement of another language
    return;
  }
  parser->quiet_line = false;
  bool stray = found == TOKEN_RBRACE && parser->before.kind == TOKEN_RBRACE && parser->any_error &&
               parser->last_error == parser->before.span.begin;  // one more of them
  parser->any_error = true;
  parser->last_error = span.begin;
  if (stray || is_echo(parser)) {
    parser_recover(parser, found, expected);
    return;
  }
  Diagnostic *error = diag_error(parser->diag, E001, span, "found %s, expected %s", found_words(parser, found, span),
                                 expected_words(parser, expected));
  syntax_help(parser, error, found, expected);
  syntax_related(parser, error, found, expected);
  if (parser_recover(parser, found, expected) && !error->help) {
    Span end = {span.file, parser->before.span.end, parser->before.span.end};
    diag_help(parser->diag, error, "end the statement before it with `;`");
    diag_related(parser->diag, error, end, "`;` is missing");
  }
}

// The word that begins another setting: behind a whole one, which has two terms at least, and in a line of its own.
// `end`: of the term before it.
static const Ast *begins_another(const Parser *parser, const Ast *phrases, Span *end) {
  for (int i = 0; phrases && i < phrases->count; i++) {
    const Ast *terms = phrases->kids[i]->kids[0];
    for (int j = 2; j < terms->count; j++) {
      const Span before = terms->kids[j - 1]->span, span = terms->kids[j]->span;
      *end = (Span){before.file, before.end, before.end};
      if (terms->kids[j]->kind == AST_PATH && memchr(parser->lexer.text + before.end, '\n', span.begin - before.end)) {
        return terms->kids[j];
      }
    }
  }
  return NULL;
}

void parser_semicolons(Parser *parser, const Ast *settings) {
  for (int i = 0; i < settings->count; i++) {
    const Ast *setting = settings->kids[i];
    Span end = setting->span;
    const Ast *word = begins_another(parser, setting->kids[0], &end);
    word = word ? word : begins_another(parser, setting->kids[1], &end);
    if (word) {
      Diagnostic *error =
          diag_error(parser->diag, E001, word->span, "found `%s` in a new line, expected `;` before it", word->name);
      diag_help(parser->diag, error, "end the statement before it with `;`");
      diag_related(parser->diag, error, end, "`;` is missing");
    }
  }
}
