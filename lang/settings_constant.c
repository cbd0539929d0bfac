// settings_constant.c: numbers of settings: arithmetic on literals, and on constants outside of blocks.
#include <math.h>

#include "lang/settings_rules.h"

// unit: whose constants outside of blocks may be named, `names` times in all; NULL: none.
static bool constant_of(const Unit *unit, int *names, const Ast *ast, double *number) {
  double a, b;
  if (ast->kind == AST_NUMBER) {
    *number = ast->number;
    return true;
  }
  const Declaration *named = unit && ast->kind == AST_NAME ? unit_find(unit, SPACE_CODE, ast->name) : NULL;
  if (named && named->ast->kind == AST_CONST && --*names >= 0) {
    return constant_of(unit, names, named->ast->kids[0], number);
  }
  if (ast->kind == AST_UNARY && name_is(ast->name, "-") && constant_of(unit, names, ast->kids[0], &a)) {
    *number = -a;
    return true;
  }
  if (ast->kind == AST_BINARY && constant_of(unit, names, ast->kids[0], &a) &&
      constant_of(unit, names, ast->kids[1], &b)) {
    switch (ast->name[0]) {
      case '+':
        *number = a + b;
        return true;
      case '-':
        *number = a - b;
        return true;
      case '*':
        *number = a * b;
        return true;
      case '/':
        *number = a / b;
        return b != 0;
      case '^':
        *number = pow(a, b);
        return true;
      default:
        return false;
    }
  }
  return false;
}

bool setting_constant(const Ast *ast, double *number) {
  return constant_of(NULL, NULL, ast, number);
}

bool setting_number(const Unit *unit, const Ast *ast, double *number) {
  int names = 100;  // they may be nested, and name themselves
  return constant_of(unit, &names, ast, number);
}
