// ast.h: the syntax tree of .mdl text, one uniform node type.
//
// Nodes live in the arena of the compilation. What name, number and kids mean for
// each kind is said in ast.def. Every node has the byte span of its text.
#ifndef MDL_LANG_AST_H
#define MDL_LANG_AST_H

#include "base/array.h"
#include "base/diag.h"
#include "base/names.h"

typedef enum {
#define AST(kind, name, meaning) AST_##kind,
#include "lang/ast.def"
#undef AST
  AST_KIND_COUNT
} AstKind;

typedef enum { GROUP_PLAIN, GROUP_OVER, GROUP_TO, GROUP_ARROW } AstGroup;

// The last three only remember how the text was written, for format_file.
enum {
  AST_COMPOSITE = 1,
  AST_VARIADIC = 2,
  AST_INTEGER = 4,
  AST_CONTINUED = 8,     // the second or a later name of one statement: `axis a, b;`
  AST_ONE_LINE = 16,     // a block whose braces stand on one line
  AST_PARENTHESES = 32,  // an expression that was put in parentheses
};

// No tree is higher than this, so walks over it may recurse.
enum { AST_MAX_HEIGHT = 1000 };

typedef struct Ast Ast;
struct Ast {
  AstKind kind;
  Span span;
  Span name_span;  // of the name alone, where the node has one
  Name name;
  double number;
  AstGroup group;
  int flags;
  int height;  // of the tree under it, itself included
  int count;   // of kids
  Ast **kids;
};

typedef struct {  // kept for mdlc fmt, in order of place
  Span span;      // with its slashes
  bool own_line;  // nothing but blanks stands before it on its line
} Comment;

typedef ARRAY(Comment) CommentList;

const char *ast_kind_name(AstKind kind);

// Parses one source file of `diag` into an AST_FILE. Syntax errors become diagnostics, all of the file's in
// one run; the tree then holds what could be read. `comments` may be NULL. Brackets nested deeper than 200, a tree
// higher than AST_MAX_HEIGHT or more than 2,000,000 nodes are E090, and the tree is then empty. Never NULL.
Ast *parse_file(Arena *arena, Names *names, Diag *diag, int file, CommentList *comments);

// The one true formatting of a parsed file, for a file without errors. Idempotent; keeps comments and single
// blank lines between statements. The text is in the arena.
const char *format_file(Arena *arena, const Diag *diag, const Ast *file, const CommentList *comments);

// A file, declaration or statement as formatted lines without comments, e.g. for resolved.mdl; an expression as text
// without a line end.
const char *format_ast(Arena *arena, const Ast *node);

#endif
