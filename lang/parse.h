// parse.h: what the grammar and its driver share; for lang/grammar.y and lang/parse.c only.
#ifndef MDL_LANG_PARSE_H
#define MDL_LANG_PARSE_H

#include "lang/ast.h"
#include "lang/lexer.h"

enum { PARSE_MAX_NESTING = 200, PARSE_MAX_NODES = 2000000, PARSE_MAX_NAME = 1000, PARSE_MAX_ERRORS = 1000 };

typedef ARRAY(Ast *) NodeList;

typedef struct {  // a token as the grammar saw it
  int kind;
  Token token;
  Span span;
} Seen;

typedef struct {
  Lexer lexer;
  Arena *arena;
  Diag *diag;
  Ast *root;
  int nodes;
  bool stopped;  // a limit was exceeded: only the end of the text is read from now on

  Seen bracket[PARSE_MAX_NESTING];  // the open ( [ {
  int open;
  Seen left;          // the innermost one that was open where a `;` or `}` came
  Seen before, last;  // the last two tokens read

  // Tokens put in so that the grammar finds its place again after a syntax error.
  bool pending_semicolon, holding, synthetic;
  int pending_braces;
  Seen held;
  bool any_error;
  bool quiet_line;      // nothing more is said of the line of the last error
  uint32_t last_error;  // where the last syntax error was
} Parser;

// All `(` and `[` behind the last open `{` count as closed.
void parser_leave_parentheses(Parser *parser);

// Called by the grammar. `kids` is copied.
int parser_token(Parser *parser, Token *token, Span *span);
void parser_syntax_error(Parser *parser, int found, Span span, const char *const *expected, int count);
// Words of a setting go on in the next line where its `;` was forgotten: says so, once of each setting.
void parser_semicolons(Parser *parser, const Ast *settings);
void parser_stop(Parser *parser, Span span, const char *what);
Ast *parser_node(Parser *parser, AstKind kind, Span span, Ast *const *kids, int count);
Ast *parser_named(Parser *parser, AstKind kind, Span span, Token name, Span name_span, Ast *const *kids, int count);

NodeList *parser_list(Parser *parser, Ast *first);  // first: or NULL for an empty list
NodeList *parser_append(Parser *parser, NodeList *list, Ast *node);
NodeList *parser_extend(Parser *parser, NodeList *list, const NodeList *more);

// One statement that declares several names: the first node begins at its keyword, the last ends at its `;`.
NodeList *parser_group(NodeList *nodes, Span statement);

// Puts a formal or an argument into its list; `group` is what stood before it.
NodeList *parser_formal(Parser *parser, NodeList *list, AstGroup group, Ast *formal);
NodeList *parser_argument(Parser *parser, NodeList *list, AstGroup group, Ast *argument);

Ast *parser_block(Parser *parser, Span span, const NodeList *kids);
Ast *parser_setting_owner(Parser *parser, AstKind kind, Span span, Token name, Span name_span, Ast *settings);
Ast *parser_rename(Parser *parser, Span span, Ast *before, Ast *after);
Ast *parser_member(Parser *parser, Span span, Ast *value, Token position, Span position_span);
Ast *parser_type(Parser *parser, Span span, Token name, Span name_span, Ast *axis, Ast *axes);
void parser_finish(Parser *parser, Span span, const NodeList *items);

#endif
