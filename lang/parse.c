// parse.c: the driver of the grammar: tokens with open brackets, tree nodes.
//
//   text -> lexer.re -> parser_token -> grammar.y -> parser_node -> AST_FILE
#include "lang/parse.h"

#include <string.h>

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

void parser_leave_parentheses(Parser *parser) {
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
  parser_semicolons(parser, settings);
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
