// grammar.y: the grammar of .mdl text, LALR(1) without conflicts. lang/generate.sh makes lang/generated/grammar.c of
// it. Actions only build the tree of ast.def. After a syntax error reading goes on behind the next `;` or `}`.
%require "3.8"
%define api.pure full
%define api.prefix {grammar_}
%define api.token.prefix {TOKEN_}
%define api.location.type {Span}
%define parse.error custom
%define parse.lac full
%locations
%param { Parser *parser }
%initial-action { @$ = parser->last.span; }

%code requires {
#include <stdarg.h>

#include "lang/parse.h"
}

%code provides {
int grammar_lex(GRAMMAR_STYPE *value, Span *span, Parser *parser);
}

%code {
// Deep enough for every text within PARSE_MAX_NESTING; beyond it grammar_error says so. No heap is used.
#define YYINITDEPTH 4000
#define YYMAXDEPTH 4000

#define YYLLOC_DEFAULT(current, rhs, n)                                                                \
  ((current) = (n) ? (Span){YYRHSLOC(rhs, 1).file, YYRHSLOC(rhs, 1).begin, YYRHSLOC(rhs, n).end}         \
                   : (Span){YYRHSLOC(rhs, 0).file, YYRHSLOC(rhs, 0).end, YYRHSLOC(rhs, 0).end})

#define KIDS(...) (Ast *const[]){__VA_ARGS__}, (int)(sizeof((Ast *const[]){__VA_ARGS__}) / sizeof(Ast *))
#define NODE(kind, span, ...) parser_node(parser, AST_##kind, span, KIDS(__VA_ARGS__))
#define NAMED(kind, span, name, name_span, ...) parser_named(parser, AST_##kind, span, name, name_span, KIDS(__VA_ARGS__))
#define LEAF(kind, span, name) parser_named(parser, AST_##kind, span, name, span, NULL, 0)
#define LIST(kind, span, list) parser_node(parser, AST_##kind, span, (list)->at, (list)->count)

static void grammar_error(const Span *span, Parser *parser, const char *message);
static Ast *binary(Parser *parser, Span span, const char *operation, Span place, Ast *left, Ast *right);
static Ast *unary(Parser *parser, Span span, const char *operation, Span place, Ast *operand);
static Ast *with_flags(Ast *node, int flags);
static Token spelled(Parser *parser, const char *format, ...) __attribute__((format(printf, 2, 3)));
static Ast *declared(Parser *parser, AstKind kind, const Ast *name, Ast *const *kids, int count);
}

%union {
  Token token;
  Ast *node;
  NodeList *list;
  AstGroup group;
}

%token END_OF_TEXT "the end of the file"
%token <token> NAME "a name" INTEGER "an integer" FLOAT "a number" STRING "a string" LABEL "a label"
%token <token> IMPORT "import" AXIS "axis" CONST "const" INPUT "input" PARAM "param" STATE "state" FN "fn"
%token <token> COMPOSITE "composite" UPDATE "update" MODEL "model" LAYOUT "layout" PRECISION "precision"
%token <token> RECIPE "recipe" REPEAT "repeat" AS "as" IF "if" ELSE "else" RETURN "return" OUTPUT "output"
%token <token> OVER "over" TO "to" LIKE "like" AND "and" OR "or" NOT "not" TRUE "true" FALSE "false"
%token <token> SCAN "scan" CARRY "carry"
%token ELLIPSIS "..." DOTDOT ".." DOT "." COMMA "," SEMICOLON ";" COLON ":" ARROW "->" ASSIGN "=" TILDE "~" BAR "|"
%token EQUAL "==" NOT_EQUAL "!=" LESS "<" LESS_EQUAL "<=" GREATER ">" GREATER_EQUAL ">="
%token PLUS "+" MINUS "-" STAR "*" SLASH "/" PERCENT "%" CARET "^"
%token LPAREN "(" RPAREN ")" LBRACKET "[" RBRACKET "]" LBRACE "{" RBRACE "}"
%token AXES_SEMICOLON "`;` between axes"

%type <list> items statements statement axis_items const_items names import_path formals formal_list arguments
%type <list> argument_list axes_items expressions elements brackets settings phrases terms targets
%type <node> declaration simple axis_item const_item name formal argument block else_part if type axes axes_item
%type <node> count count_product
%type <node> initial combine label setting_block setting phrase range term target expression conjunction negation comparison sum product
%type <node> cast unary power postfix primary bracket rename_target cast_type
%type <token> word path path_part
%type <group> separator lead

%%

file: items END_OF_TEXT { parser_finish(parser, @$, $1); };

items:
  %empty                { $$ = parser_list(parser, NULL); }
| items declaration     { $$ = parser_append(parser, $1, $2); }
| items statement       { $$ = parser_extend(parser, $1, $2); }
| items error RBRACE    { $$ = $1; yyerrok; }
;

declaration:
  IMPORT import_path SEMICOLON                        { $$ = LIST(IMPORT, @$, $2); }
| IMPORT STRING SEMICOLON                             { $$ = NODE(IMPORT, @$, LEAF(STRING, @2, $2)); }
| FN NAME LPAREN formals RPAREN block                 { $$ = NAMED(FUNCTION, @$, $2, @2, LIST(LIST, @4, $4), $6); }
| COMPOSITE FN NAME LPAREN formals RPAREN block
    { $$ = with_flags(NAMED(FUNCTION, @$, $3, @3, LIST(LIST, @5, $5), $7), AST_COMPOSITE); }
| UPDATE NAME LPAREN formals RPAREN block             { $$ = NAMED(UPDATE, @$, $2, @2, LIST(LIST, @4, $4), $6); }
| MODEL NAME block                                    { $$ = NAMED(MODEL, @$, $2, @2, $3); }
| LAYOUT NAME setting_block       { $$ = parser_setting_owner(parser, AST_LAYOUT, @$, $2, @2, $3); }
| PRECISION NAME setting_block    { $$ = parser_setting_owner(parser, AST_PRECISION, @$, $2, @2, $3); }
| RECIPE NAME setting_block       { $$ = parser_setting_owner(parser, AST_RECIPE, @$, $2, @2, $3); }
| setting_keyword error setting_block                 { $$ = $3; yyerrok; }
| setting_keyword error SEMICOLON                     { $$ = NULL; yyerrok; }
;

setting_keyword: LAYOUT | PRECISION | RECIPE;

import_path:
  word                  { $$ = parser_list(parser, LEAF(NAME, @1, $1)); }
| import_path DOT word  { $$ = parser_append(parser, $1, LEAF(NAME, @3, $3)); }
;

formals:
  %empty                { $$ = parser_list(parser, NULL); }
| formal_list
;

formal_list:
  lead formal                   { $$ = parser_formal(parser, parser_list(parser, NULL), $1, $2); }
| formal_list separator formal  { $$ = parser_formal(parser, $1, $2, $3); }
;

lead:
  %empty                { $$ = GROUP_PLAIN; }
| OVER                  { $$ = GROUP_OVER; }
| TO                    { $$ = GROUP_TO; }
;

separator:
  COMMA                 { $$ = GROUP_PLAIN; }
| OVER                  { $$ = GROUP_OVER; }
| TO                    { $$ = GROUP_TO; }
;

formal:
  NAME                    { $$ = NAMED(FORMAL, @$, $1, @1, NULL); }
| NAME ELLIPSIS           { $$ = with_flags(NAMED(FORMAL, @$, $1, @1, NULL), AST_VARIADIC); }
| NAME ASSIGN expression  { $$ = NAMED(FORMAL, @$, $1, @1, $3); }
;

block:
  LBRACE statements RBRACE        { $$ = parser_block(parser, @$, $2); }
| LBRACE statements error RBRACE  { $$ = parser_block(parser, @$, $2); yyerrok; }
;

statements:
  %empty                { $$ = parser_list(parser, NULL); }
| statements statement  { $$ = parser_extend(parser, $1, $2); }
;

statement:
  simple                          { $$ = parser_list(parser, $1); }
| AXIS axis_items SEMICOLON       { $$ = parser_group($2, @$); }
| CONST const_items SEMICOLON     { $$ = parser_group($2, @$); }
| INPUT names COLON type SEMICOLON
    {
      for (int i = 0; i < $2->count; i++) {
        $2->at[i] = declared(parser, AST_INPUT, $2->at[i], KIDS($4));
      }
      $$ = parser_group($2, @$);
    }
| STATE names COLON axes initial combine SEMICOLON
    {
      Ast *drawn = $5 && $5->kind == AST_LIST ? $5->kids[0] : NULL, *constant = drawn ? NULL : $5;
      for (int i = 0; i < $2->count; i++) {
        $2->at[i] = declared(parser, AST_STATE, $2->at[i], KIDS($4, NULL, drawn, constant, $6));
      }
      $$ = parser_group($2, @$);
    }
| STATE names LIKE name initial combine SEMICOLON
    {
      Ast *drawn = $5 && $5->kind == AST_LIST ? $5->kids[0] : NULL, *constant = drawn ? NULL : $5;
      for (int i = 0; i < $2->count; i++) {
        $2->at[i] = declared(parser, AST_STATE, $2->at[i], KIDS(NULL, $4, drawn, constant, $6));
      }
      $$ = parser_group($2, @$);
    }
| error SEMICOLON                 { $$ = parser_list(parser, NULL); yyerrok; }
| error block else_part           { $$ = parser_list(parser, NULL); yyerrok; }
;

combine:
  %empty                          { $$ = NULL; }
| COMMA NAME ASSIGN name          { $$ = NAMED(ARGUMENT, @$, $2, @2, $4); }
;

simple:
  PARAM NAME COLON axes initial SEMICOLON
    {
      Ast *drawn = $5 && $5->kind == AST_LIST ? $5->kids[0] : NULL;
      $$ = NAMED(PARAM, @$, $2, @2, $4, drawn, drawn ? NULL : $5);
    }
| CARRY NAME COLON axes ASSIGN expression SEMICOLON  { $$ = NAMED(CARRY, @$, $2, @2, $4, $6); }
| OUTPUT NAME SEMICOLON                              { $$ = NAMED(OUTPUT, @$, $2, @2, NULL); }
| OUTPUT NAME ASSIGN expression SEMICOLON            { $$ = NAMED(OUTPUT, @$, $2, @2, $4); }
| RETURN expressions SEMICOLON                       { $$ = LIST(RETURN, @$, $2); }
| name ASSIGN expression label SEMICOLON             { $$ = NODE(ASSIGN, @$, NODE(LIST, @1, $1), $3, $4); }
| LPAREN names RPAREN ASSIGN expression label SEMICOLON
    { $$ = NODE(ASSIGN, @$, LIST(LIST, @2, $2), $5, $6); }
| REPEAT count block                                 { $$ = NODE(REPEAT, @$, $2, NULL, $3); }
| REPEAT count AS name block                         { $$ = NODE(REPEAT, @$, $2, $4, $5); }
| SCAN name block                                    { $$ = NODE(SCAN, @$, $2, $3); }
| if
;

if: IF expression block else_part                    { $$ = NODE(IF, @$, $2, $3, $4); };

else_part:
  %empty                { $$ = NULL; }
| ELSE block            { $$ = $2; }
| ELSE if               { $$ = $2; }
;

// A count has no bare `as`: `repeat layers as l { }` names the counter.
count:
  count_product
| count PLUS count_product           { $$ = binary(parser, @$, "+", @2, $1, $3); }
| count MINUS count_product          { $$ = binary(parser, @$, "-", @2, $1, $3); }
;

count_product:
  unary
| count_product STAR unary           { $$ = binary(parser, @$, "*", @2, $1, $3); }
| count_product SLASH unary          { $$ = binary(parser, @$, "/", @2, $1, $3); }
| count_product PERCENT unary        { $$ = binary(parser, @$, "%", @2, $1, $3); }
;

name: NAME                           { $$ = LEAF(NAME, @1, $1); };

names:
  name                               { $$ = parser_list(parser, $1); }
| names COMMA name                   { $$ = parser_append(parser, $1, $3); }
;

axis_items:
  axis_item                          { $$ = parser_list(parser, $1); }
| axis_items COMMA axis_item         { $$ = parser_append(parser, $1, $3); }
;

axis_item:
  NAME                               { $$ = NAMED(AXIS, @$, $1, @1, NULL, NULL); }
| NAME ASSIGN expression             { $$ = NAMED(AXIS, @$, $1, @1, $3, NULL); }
| NAME LIKE name                     { $$ = NAMED(AXIS, @$, $1, @1, NULL, $3); }
;

const_items:
  const_item                         { $$ = parser_list(parser, $1); }
| const_items COMMA const_item       { $$ = parser_append(parser, $1, $3); }
;

const_item: NAME ASSIGN expression   { $$ = NAMED(CONST, @$, $1, @1, $3); };

initial:
  %empty                             { $$ = NULL; }
| TILDE expression                   { $$ = NODE(LIST, @$, $2); }
| ASSIGN expression                  { $$ = $2; }
;

label:
  %empty                             { $$ = NULL; }
| LABEL                              { $$ = LEAF(LABEL, @1, $1); }
;

type:
  NAME axes                          { $$ = parser_type(parser, @$, $1, @1, NULL, $2); }
| NAME LPAREN name RPAREN axes       { $$ = parser_type(parser, @$, $1, @1, $3, $5); }
;

cast_type:
  NAME                               { $$ = parser_type(parser, @$, $1, @1, NULL, NULL); }
| NAME LPAREN name RPAREN            { $$ = parser_type(parser, @$, $1, @1, $3, NULL); }
;

axes:
  LBRACKET RBRACKET                  { $$ = parser_node(parser, AST_AXES, @$, NULL, 0); }
| LBRACKET axes_items RBRACKET       { $$ = LIST(AXES, @$, $2); }
;

axes_items:
  axes_item                          { $$ = parser_list(parser, $1); }
| axes_items COMMA axes_item         { $$ = parser_append(parser, $1, $3); }
| axes_items BAR axes_item
    { $$ = parser_append(parser, parser_append(parser, $1, parser_node(parser, AST_BAR, @2, NULL, 0)), $3); }
| axes_items AXES_SEMICOLON axes_item
    { $$ = parser_append(parser, parser_append(parser, $1, parser_node(parser, AST_SEMICOLON, @2, NULL, 0)), $3); }
;

axes_item:
  NAME                               { $$ = LEAF(NAME, @1, $1); }
| NAME ELLIPSIS
    { $$ = with_flags(parser_named(parser, AST_NAME, @$, $1, @1, NULL, 0), AST_VARIADIC); }
;

expressions:
  expression                         { $$ = parser_list(parser, $1); }
| expressions COMMA expression       { $$ = parser_append(parser, $1, $3); }
;

expression:
  conjunction
| expression OR conjunction          { $$ = binary(parser, @$, "or", @2, $1, $3); }
;

conjunction:
  negation
| conjunction AND negation           { $$ = binary(parser, @$, "and", @2, $1, $3); }
;

negation:
  comparison
| NOT negation                       { $$ = unary(parser, @$, "not", @1, $2); }
;

comparison:
  sum
| sum EQUAL sum                      { $$ = binary(parser, @$, "==", @2, $1, $3); }
| sum NOT_EQUAL sum                  { $$ = binary(parser, @$, "!=", @2, $1, $3); }
| sum LESS sum                       { $$ = binary(parser, @$, "<", @2, $1, $3); }
| sum LESS_EQUAL sum                 { $$ = binary(parser, @$, "<=", @2, $1, $3); }
| sum GREATER sum                    { $$ = binary(parser, @$, ">", @2, $1, $3); }
| sum GREATER_EQUAL sum              { $$ = binary(parser, @$, ">=", @2, $1, $3); }
;

sum:
  product
| sum PLUS product                   { $$ = binary(parser, @$, "+", @2, $1, $3); }
| sum MINUS product                  { $$ = binary(parser, @$, "-", @2, $1, $3); }
;

product:
  cast
| product STAR cast                  { $$ = binary(parser, @$, "*", @2, $1, $3); }
| product SLASH cast                 { $$ = binary(parser, @$, "/", @2, $1, $3); }
| product PERCENT cast               { $$ = binary(parser, @$, "%", @2, $1, $3); }
;

cast:
  unary
| cast AS cast_type                  { $$ = NODE(AS, @$, $1, $3); }
;

unary:
  power
| MINUS unary                        { $$ = unary(parser, @$, "-", @1, $2); }
;

power:
  postfix
| postfix CARET unary                { $$ = binary(parser, @$, "^", @2, $1, $3); }
;

postfix:
  primary
| postfix LBRACKET brackets RBRACKET { $$ = NODE(INDEX, @$, $1, LIST(LIST, @3, $3)); }
| postfix DOT INTEGER                { $$ = parser_member(parser, @$, $1, $3, @3); }
| postfix DOT FLOAT                  { $$ = parser_member(parser, @$, $1, $3, @3); }
;

primary:
  name
| NAME LPAREN arguments RPAREN       { $$ = NAMED(CALL, @$, $1, @1, LIST(LIST, @3, $3)); }
| INTEGER                            { $$ = with_flags(LEAF(NUMBER, @1, $1), AST_INTEGER); }
| FLOAT                              { $$ = LEAF(NUMBER, @1, $1); }
| STRING                             { $$ = LEAF(STRING, @1, $1); }
| TRUE                               { $$ = parser_node(parser, AST_TRUE, @1, NULL, 0); }
| FALSE                              { $$ = parser_node(parser, AST_FALSE, @1, NULL, 0); }
| LPAREN expression RPAREN           { $$ = with_flags($2, AST_PARENTHESES); }
| LPAREN elements RPAREN             { $$ = LIST(TUPLE, @$, $2); }
;

elements:
  expression COMMA expression        { $$ = parser_append(parser, parser_list(parser, $1), $3); }
| elements COMMA expression          { $$ = parser_append(parser, $1, $3); }
;

arguments:
  %empty                             { $$ = parser_list(parser, NULL); }
| argument_list
;

argument_list:
  lead argument                      { $$ = parser_argument(parser, parser_list(parser, NULL), $1, $2); }
| argument_list separator argument   { $$ = parser_argument(parser, $1, $2, $3); }
| argument_list ARROW argument       { $$ = parser_argument(parser, $1, GROUP_ARROW, $3); }
;

argument:
  expression                         { $$ = NODE(ARGUMENT, @$, $1); }
| NAME ASSIGN expression             { $$ = NAMED(ARGUMENT, @$, $1, @1, $3); }
| NAME ELLIPSIS
    { $$ = with_flags(NODE(ARGUMENT, @$, LEAF(NAME, @1, $1)), AST_VARIADIC); }
;

brackets:
  bracket                            { $$ = parser_list(parser, $1); }
| brackets COMMA bracket             { $$ = parser_append(parser, $1, $3); }
;

bracket:
  expression
| NAME COLON expression
    { $$ = NODE(SLICE, @$, LEAF(NAME, @1, $1), $3, NULL, NULL); }
| NAME COLON expression DOTDOT expression
    { $$ = NODE(SLICE, @$, LEAF(NAME, @1, $1), $3, $5, NULL); }
| NAME COLON expression DOTDOT expression ARROW name
    { $$ = NODE(SLICE, @$, LEAF(NAME, @1, $1), $3, $5, $7); }
| expression ARROW rename_target     { $$ = parser_rename(parser, @$, $1, $3); }
;

rename_target:
  name                               { $$ = NODE(LIST, @$, $1); }
| LPAREN names RPAREN                { $$ = LIST(LIST, @$, $2); }
;

setting_block:
  LBRACE settings RBRACE             { $$ = parser_block(parser, @$, $2); }
| LBRACE settings error RBRACE       { $$ = parser_block(parser, @$, $2); yyerrok; }
;

settings:
  %empty                             { $$ = parser_list(parser, NULL); }
| settings setting                   { $$ = parser_append(parser, $1, $2); }
| settings error SEMICOLON           { $$ = $1; yyerrok; }
;

setting:
  phrases SEMICOLON                  { $$ = NODE(SETTING, @$, LIST(LIST, @1, $1), NULL, NULL); }
| phrases COLON phrases SEMICOLON    { $$ = NODE(SETTING, @$, LIST(LIST, @1, $1), LIST(LIST, @3, $3), NULL); }
| phrases ARROW targets SEMICOLON      { $$ = NODE(SETTING, @$, LIST(LIST, @1, $1), NULL, LIST(LIST, @3, $3)); }
| phrases COLON phrases ARROW targets SEMICOLON
    { $$ = NODE(SETTING, @$, LIST(LIST, @1, $1), LIST(LIST, @3, $3), LIST(LIST, @5, $5)); }
;

targets:
  target                             { $$ = parser_list(parser, $1); }
| targets COMMA target               { $$ = parser_append(parser, $1, $3); }
;

target:
  name
| NAME LPAREN arguments RPAREN       { $$ = NAMED(CALL, @$, $1, @1, LIST(LIST, @3, $3)); }
;

phrases:
  phrase                             { $$ = parser_list(parser, $1); }
| phrases COMMA phrase               { $$ = parser_append(parser, $1, $3); }
;

phrase:
  terms                              { $$ = NODE(PHRASE, @$, LIST(LIST, @1, $1), NULL); }
| terms ASSIGN expression            { $$ = NODE(PHRASE, @$, LIST(LIST, @1, $1), $3); }
| terms ASSIGN range                 { $$ = NODE(PHRASE, @$, LIST(LIST, @1, $1), $3); }
;

range: expression DOTDOT expression  { $$ = NAMED(RANGE, @$, spelled(parser, ".."), @2, $1, $3); };

terms:
  term                               { $$ = parser_list(parser, $1); }
| terms term                         { $$ = parser_append(parser, $1, $2); }
;

term:
  path                               { $$ = LEAF(PATH, @1, $1); }
| LABEL                              { $$ = LEAF(PATH, @1, spelled(parser, "@%s", $1.text)); }
| NAME LPAREN arguments RPAREN       { $$ = NAMED(CALL, @$, $1, @1, LIST(LIST, @3, $3)); }
| INTEGER                            { $$ = with_flags(LEAF(NUMBER, @1, $1), AST_INTEGER); }
| FLOAT                              { $$ = LEAF(NUMBER, @1, $1); }
| INTEGER DOTDOT INTEGER
    { $$ = NAMED(RANGE, @$, spelled(parser, ".."), @2, with_flags(LEAF(NUMBER, @1, $1), AST_INTEGER),
                 with_flags(LEAF(NUMBER, @3, $3), AST_INTEGER)); }
| STRING                             { $$ = LEAF(STRING, @1, $1); }
;

path:
  word
| STAR                               { $$ = spelled(parser, "*"); }
| path DOT path_part                 { $$ = spelled(parser, "%s.%s", $1.text, $3.text); }
;

path_part: word | INTEGER | FLOAT | STAR { $$ = spelled(parser, "*"); };

word:
  NAME | IMPORT | AXIS | CONST | INPUT | PARAM | STATE | FN | COMPOSITE | UPDATE | MODEL | LAYOUT | PRECISION | RECIPE
| REPEAT | AS | IF | ELSE | RETURN | OUTPUT | OVER | TO | LIKE | AND | OR | NOT | TRUE | FALSE | SCAN | CARRY
;

%%

int grammar_lex(GRAMMAR_STYPE *value, Span *span, Parser *parser) {
  return parser_token(parser, &value->token, span);
}

// Only for a full stack; syntax errors come through yyreport_syntax_error.
static void grammar_error(const Span *span, Parser *parser, const char *message) {
  (void)message;
  parser_stop(parser, *span, "the text is nested too deeply");
}

static int yyreport_syntax_error(const yypcontext_t *context, Parser *parser) {
  yysymbol_kind_t kinds[YYNTOKENS];
  const char *expected[YYNTOKENS];
  int count = yypcontext_expected_tokens(context, kinds, YYNTOKENS);
  for (int i = 0; i < count; i++) {
    expected[i] = yysymbol_name(kinds[i]);
  }
  parser_syntax_error(parser, parser->last.kind, *yypcontext_location(context), expected, count);
  return 0;
}

static Ast *binary(Parser *parser, Span span, const char *operation, Span place, Ast *left, Ast *right) {
  return NAMED(BINARY, span, ((Token){name_of(parser->lexer.names, operation), 0}), place, left, right);
}

static Ast *unary(Parser *parser, Span span, const char *operation, Span place, Ast *operand) {
  return NAMED(UNARY, span, ((Token){name_of(parser->lexer.names, operation), 0}), place, operand);
}

static Ast *with_flags(Ast *node, int flags) {
  node->flags |= flags;
  return node;
}

static Token spelled(Parser *parser, const char *format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if ((size_t)length >= sizeof text) {
    parser_stop(parser, parser->last.span, "a path has more than 255 characters");
  }
  return (Token){name_of(parser->lexer.names, text), 0};
}

static Ast *declared(Parser *parser, AstKind kind, const Ast *name, Ast *const *kids, int count) {
  return parser_named(parser, kind, name->span, (Token){name->name, 0}, name->span, kids, count);
}
