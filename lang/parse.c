// parse.c: the driver of the grammar: tokens with open brackets, tree nodes, syntax errors in plain words.
//
//   text -> lexer.re -> parser_token -> grammar.y -> parser_node -> AST_FILE
#include "lang/parse.h"

#include <ctype.h>
#include <string.h>

#include "lang/foreign.h"
#include "lang/generated/grammar.h"

// ---- Tokens

static void parser_close(Parser *parser, int opening) {
  for (int i = parser->open - 1; i >= 0; i--) {
    if (parser->bracket[i].kind == opening) {
      parser->open = i;
      return;
    }
    if (parser->bracket[i].kind == TOKEN_LBRACE) {
      return;
    }
  }
  if (opening == TOKEN_LBRACE) {
    parser->open = 0;
  }
}

static void parser_leave_parentheses(Parser *parser) {
  while (parser->open && parser->bracket[parser->open - 1].kind != TOKEN_LBRACE) {
    parser->open--;
  }
}

// Keeps the list of open brackets; a `;` inside [ ] separates axes and ends no statement.
static void parser_track(Parser *parser) {
  Seen *last = &parser->last;
  const int open = parser->open;
  switch (last->kind) {
    case TOKEN_LPAREN:
    case TOKEN_LBRACKET:
    case TOKEN_LBRACE:
      if (parser->open == PARSE_MAX_NESTING) {
        parser_stop(parser, last->span, "brackets are nested more than 200 deep");
      } else {
        parser->bracket[parser->open++] = *last;
      }
      break;
    case TOKEN_RPAREN:
      parser_close(parser, TOKEN_LPAREN);
      break;
    case TOKEN_RBRACKET:
      parser_close(parser, TOKEN_LBRACKET);
      break;
    case TOKEN_RBRACE:
      parser_leave_parentheses(parser);
      parser_close(parser, TOKEN_LBRACE);
      break;
    case TOKEN_SEMICOLON:
      if (parser->open && parser->bracket[parser->open - 1].kind == TOKEN_LBRACKET) {
        last->kind = TOKEN_AXES_SEMICOLON;
      } else {
        parser_leave_parentheses(parser);
      }
      break;
    default:
      break;
  }
  const bool ends = last->kind == TOKEN_SEMICOLON || last->kind == TOKEN_RBRACE;
  parser->left = ends && open > 0 ? parser->bracket[open - 1] : (Seen){0};
}

int parser_token(Parser *parser, Token *token, Span *span) {
  parser->synthetic = parser->pending_semicolon || parser->pending_braces > 0;
  if (parser->synthetic) {
    *token = (Token){0};
    *span = (Span){parser->last.span.file, parser->before.span.end, parser->before.span.end};
    if (parser->pending_semicolon) {
      parser->pending_semicolon = false;
      return TOKEN_SEMICOLON;
    }
    parser->pending_braces--;
    parser_leave_parentheses(parser);
    parser_close(parser, TOKEN_LBRACE);
    return TOKEN_RBRACE;
  }
  if (parser->holding) {
    parser->holding = false;
  } else if (parser->last.kind == TOKEN_END_OF_TEXT) {
    *span = parser->last.span;
    return TOKEN_YYEOF;
  } else {
    parser->before = parser->last;
    parser->last.kind = lexer_next(&parser->lexer, &parser->last.token, &parser->last.span);
    if (parser->stopped) {
      parser->last.kind = TOKEN_END_OF_TEXT;
    }
    parser_track(parser);
    bool name = parser->last.kind == TOKEN_NAME || parser->last.kind == TOKEN_LABEL;
    if (name && parser->last.span.end - parser->last.span.begin > PARSE_MAX_NAME) {
      parser_stop(parser, parser->last.span, "a name is longer than 1,000 characters");
    }
    parser->stopped |= parser->diag->errors > PARSE_MAX_ERRORS;
  }
  *token = parser->last.token;
  *span = parser->last.span;
  return parser->last.kind;
}

// ---- Tree

void parser_stop(Parser *parser, Span span, const char *what) {
  if (!parser->stopped) {
    parser->stopped = true;
    Diagnostic *error = diag_error(parser->diag, E090, span, "%s", what);
    diag_help(parser->diag, error, "split it, or give parts of it names");
  }
}

Ast *parser_node(Parser *parser, AstKind kind, Span span, Ast *const *kids, int count) {
  Ast *node = ARENA_NEW(parser->arena, Ast);
  node->kind = kind;
  node->span = node->name_span = span;
  node->count = count;
  node->kids = count ? arena_copy(parser->arena, kids, sizeof *kids * (size_t)count) : NULL;
  for (int i = 0; i < count; i++) {
    if (kids[i] && kids[i]->height > node->height) {
      node->height = kids[i]->height;
    }
  }
  if (++node->height > AST_MAX_HEIGHT) {
    parser_stop(parser, span, "an expression or a chain of `else if` is nested too deeply");
  }
  if (++parser->nodes > PARSE_MAX_NODES) {
    parser_stop(parser, span, "the file has more than 2,000,000 syntax nodes");
  }
  return node;
}

Ast *parser_named(Parser *parser, AstKind kind, Span span, Token name, Span name_span, Ast *const *kids, int count) {
  Ast *node = parser_node(parser, kind, span, kids, count);
  node->name = name.text;
  node->number = name.value;
  node->name_span = name_span;
  return node;
}

NodeList *parser_list(Parser *parser, Ast *first) {
  NodeList *list = ARENA_NEW(parser->arena, NodeList);
  return parser_append(parser, list, first);
}

NodeList *parser_append(Parser *parser, NodeList *list, Ast *node) {
  if (node) {
    array_push(parser->arena, list, node);
  }
  return list;
}

NodeList *parser_extend(Parser *parser, NodeList *list, const NodeList *more) {
  for (int i = 0; i < more->count; i++) {
    array_push(parser->arena, list, more->at[i]);
  }
  return list;
}

NodeList *parser_group(NodeList *nodes, Span statement) {
  nodes->at[0]->span.begin = statement.begin;
  nodes->at[nodes->count - 1]->span.end = statement.end;
  for (int i = 1; i < nodes->count; i++) {
    nodes->at[i]->flags |= AST_CONTINUED;
  }
  return nodes;
}

NodeList *parser_formal(Parser *parser, NodeList *list, AstGroup group, Ast *formal) {
  bool optional = formal->kids[0] != NULL;
  if (group == GROUP_PLAIN && list->count > 0 && !optional) {
    group = list->at[list->count - 1]->group;  // the names after `over` are axes, up to `to` or a default
  } else if (group != GROUP_PLAIN && optional) {
    Diagnostic *error = diag_error(parser->diag, E001, formal->span, "an axis parameter cannot have a default");
    diag_help(parser->diag, error, "separate it from the axes before it with `,`");
  }
  formal->group = group;
  return parser_append(parser, list, formal);
}

NodeList *parser_argument(Parser *parser, NodeList *list, AstGroup group, Ast *argument) {
  argument->group = group;
  return parser_append(parser, list, argument);
}

Ast *parser_block(Parser *parser, Span span, const NodeList *kids) {
  Ast *block = parser_node(parser, AST_BLOCK, span, kids->at, kids->count);
  if (!memchr(parser->lexer.text + span.begin, '\n', span.end - span.begin)) {
    block->flags |= AST_ONE_LINE;
  }
  return block;
}

Ast *parser_setting_owner(Parser *parser, AstKind kind, Span span, Token name, Span name_span, Ast *settings) {
  Ast *node = parser_named(parser, kind, span, name, name_span, settings->kids, settings->count);
  node->flags |= settings->flags;
  return node;
}

Ast *parser_rename(Parser *parser, Span span, Ast *before, Ast *after) {
  Ast *const *names = before->kind == AST_TUPLE ? before->kids : &before;
  int count = before->kind == AST_TUPLE ? before->count : 1;
  for (int i = 0; i < count; i++) {
    if (names[i]->kind != AST_NAME) {
      Diagnostic *error =
          diag_error(parser->diag, E001, names[i]->span, "found an expression before `->`, expected an axis");
      diag_help(parser->diag, error, "write `x[a -> b]`, `x[a -> (b, c)]` or `x[(a, b) -> c]`");
      break;
    }
    names[i]->flags &= ~AST_PARENTHESES;
  }
  if (count > 1 && after->count > 1) {
    Diagnostic *error = diag_error(parser->diag, E001, span, "found several axes on both sides of `->`");
    diag_help(parser->diag, error, "merge first and split then: `x[(a, b) -> c][c -> (d, e)]`");
  }
  Ast *list = parser_node(parser, AST_LIST, before->span, names, count);
  return parser_node(parser, AST_RENAME, span, (Ast *const[]){list, after}, 2);
}

Ast *parser_member(Parser *parser, Span span, Ast *value, Token position, Span position_span) {
  const char *point = strchr(position.text, '.');  // `a.0.1` reads as a, `.`, 0.1
  if (position.text[strspn(position.text, ".0123456789")]) {
    diag_error(parser->diag, E001, position_span, "found `%s`, expected the position of a member", position.text);
  }
  double number = 0;
  for (const char *c = position.text; *c >= '0' && *c <= '9' && number < 1e6; c++) {
    number = number * 10 + (*c - '0');
  }
  Span until = {span.file, span.begin, position_span.end};
  if (point) {
    until.end = position_span.begin + (uint32_t)(point - position.text);
  }
  Ast *member = parser_node(parser, AST_MEMBER, until, &value, 1);
  member->number = number;
  if (!point) {
    return member;
  }
  Token rest = {name_of(parser->lexer.names, point + 1), 0};
  position_span.begin = until.end + 1;
  return parser_member(parser, span, member, rest, position_span);
}

Ast *parser_type(Parser *parser, Span span, Token name, Span name_span, Ast *axis, Ast *axes) {
  static const char *const types[] = {"index", "int", "bool", "real"};
  enum { TYPES = sizeof types / sizeof *types };
  int type = 0;
  while (type < TYPES && strcmp(name.text, types[type]) != 0) {
    type++;
  }
  if (type == TYPES) {
    Diagnostic *error = diag_error(parser->diag, E010, name_span, "`%s` is not a type", name.text);
    const char *closest = text_closest(name.text, types, TYPES);
    if (closest) {
      diag_help(parser->diag, error, "did you mean `%s`?", closest);
    } else {
      diag_help(parser->diag, error, "the types are index(axis), int, bool and real");
    }
  } else if (type == 0 && !axis) {
    Diagnostic *error = diag_error(parser->diag, E030, name_span, "the type `index` says which axis it indexes");
    diag_help(parser->diag, error, "write `index(vocab)`");
  } else if (type != 0 && axis) {
    diag_error(parser->diag, E030, axis->span, "the type `%s` does not index an axis", name.text);
  }
  return parser_named(parser, AST_TYPE, span, name, name_span, (Ast *const[]){axis, axes}, 2);
}

static bool is_declaration(const Ast *node) {
  switch (node->kind) {
    case AST_IMPORT:
    case AST_AXIS:
    case AST_CONST:
    case AST_FUNCTION:
    case AST_UPDATE:
    case AST_MODEL:
    case AST_LAYOUT:
    case AST_PRECISION:
    case AST_RECIPE:
      return true;
    default:
      return false;
  }
}

void parser_finish(Parser *parser, Span span, const NodeList *items) {
  NodeList declarations = {0};
  for (int i = 0; i < items->count; i++) {
    Ast *item = items->at[i];
    if (is_declaration(item)) {
      array_push(parser->arena, &declarations, item);
    } else if (!parser->any_error) {
      Diagnostic *error = diag_error(parser->diag, E035, item->span, "a statement stands outside of a block");
      diag_help(parser->diag, error, "put it into a model or a function");
    }
  }
  span.begin = 0;
  parser->root = parser_node(parser, AST_FILE, span, declarations.at, declarations.count);
}

// ---- Syntax errors

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
  bool outer = found == TOKEN_END_OF_TEXT || starts_declaration(found);
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

// ---- The entry point

Ast *parse_file(Arena *arena, Names *names, Diag *diag, int file, CommentList *comments) {
  Parser *parser = ARENA_NEW(arena, Parser);
  parser->arena = arena;
  parser->diag = diag;
  parser->lexer = lexer_create(arena, names, diag, file, comments);
  parser->last.kind = TOKEN_SEMICOLON;  // before the first token
  parser->last.span = (Span){file, 0, 0};
  if (grammar_parse(parser) != 0 || parser->stopped || !parser->root) {
    parser->root = ARENA_NEW(arena, Ast);
    parser->root->kind = AST_FILE;
    parser->root->span = parser->root->name_span = (Span){file, 0, diag->sources.at[file].length};
    parser->root->height = 1;
    if (diag->errors == 0) {
      diag_error(diag, E001, parser->root->span, "the text could not be read");
    }
  }
  return parser->root;
}
