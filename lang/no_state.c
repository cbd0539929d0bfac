// no_state.c: names of an update that look like its state and are none: `m = 0; m = 0.9 * m + g;` begins with 0 in each
// step (E017).
#include <string.h>

#include "lang/settings_rules.h"
#include "lang/unread.h"

static bool reads(const Ast *ast, Name name) {
  bool found = ast && ast->kind == AST_NAME && ast->name == name;
  for (int i = 0; ast && i < ast->count && !found; i++) {
    found = reads(ast->kids[i], name);
  }
  return found;
}

static bool assigns(const Ast *statement, Name name) {
  for (int i = 0; statement->kind == AST_ASSIGN && i < statement->kids[0]->count; i++) {
    if (statement->kids[0]->kids[i]->name == name) {
      return true;
    }
  }
  return false;
}

static bool assigns_inside(const Ast *ast, Name name) {
  bool found = ast && assigns(ast, name);
  for (int i = 0; ast && i < ast->count && !found; i++) {
    found = assigns_inside(ast->kids[i], name);
  }
  return found;
}

// Of `name = NUMBER;`, the name.
static Name begins(const Ast *statement) {
  double number;
  const bool plain = statement->kind == AST_ASSIGN && statement->kids[0]->count == 1;
  return plain && setting_constant(statement->kids[1], &number) ? statement->kids[0]->kids[0]->name : NULL;
}

// `name = name + ...` or `name = name * ...`.
static bool adds(const Ast *statement, Name name) {
  const Ast *value = statement->kids[1];
  return value->kind == AST_BINARY && (value->name[0] == '+' || value->name[0] == '*') &&
         value->kids[0]->kind == AST_NAME && value->kids[0]->name == name;
}

// Is it put together term by term, or factor by factor, from this statement on?
static bool is_collected(const Ast *block, int first, Name name) {
  int times = 0;
  for (int i = first; i < block->count; i++) {
    times += assigns(block->kids[i], name) && adds(block->kids[i], name);
  }
  return times > 1;
}

static bool is_state(const Ast *block, Name name) {
  for (int i = 0; i < block->count; i++) {
    if (block->kids[i]->kind == AST_STATE && block->kids[i]->name == name) {
      return true;
    }
  }
  return false;
}

void no_state_check(Unit *unit, const Ast *update) {
  const Ast *block = update->kids[update->count - 1];
  for (int i = 0; i < block->count; i++) {
    const Name name = begins(block->kids[i]);
    int next = i + 1;
    while (name && next < block->count && !assigns_inside(block->kids[next], name)) {
      next++;
    }
    if (!name || next == block->count || block->kids[next]->kind != AST_ASSIGN || is_state(block, name) ||
        !reads(block->kids[next]->kids[1], name) || is_collected(block, next, name)) {
      continue;
    }
    Diagnostic *said = diag_warning(unit->diag, E017, block->kids[next]->span,
                                    "'%s' is no state: it begins anew in each step, and nothing keeps this", name);
    diag_related(unit->diag, said, block->kids[i]->span, "with this");
    diag_help(unit->diag, said,
              "write `state %s like p = 0;` in place of it; `allow E017;` in the recipe if that is meant", name);
  }
}
