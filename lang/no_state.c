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

// Of `name = NUMBER;`, the name.
static Name begins(const Ast *statement) {
  double number;
  const bool plain = statement->kind == AST_ASSIGN && statement->kids[0]->count == 1;
  return plain && setting_constant(statement->kids[1], &number) ? statement->kids[0]->kids[0]->name : NULL;
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
    while (name && next < block->count && !assigns(block->kids[next], name)) {
      next++;
    }
    if (!name || next == block->count || is_state(block, name) || !reads(block->kids[next]->kids[1], name)) {
      continue;
    }
    Diagnostic *said = diag_warning(unit->diag, E017, block->kids[next]->span,
                                    "'%s' is no state: it begins anew in each step, and nothing keeps this", name);
    diag_related(unit->diag, said, block->kids[i]->span, "with this");
    diag_help(unit->diag, said,
              "write `state %s like p = 0;` in place of it; `allow E017;` in the recipe if that is meant", name);
  }
}
