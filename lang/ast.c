// ast.c: names of the kinds of syntax nodes.
#include "lang/ast.h"

const char *ast_kind_name(AstKind kind) {
  static const char *const names[] = {
#define AST(kind, name, meaning) name,
#include "lang/ast.def"
#undef AST
  };
  return (unsigned)kind < AST_KIND_COUNT ? names[kind] : "?";
}
