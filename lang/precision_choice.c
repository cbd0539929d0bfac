// precision_choice.c: which precisions a recipe names, and until which steps it has them.
#include <math.h>

#include "lang/foreign.h"
#include "lang/settings_rules.h"

// Lists all precisions there are, those of the library last.
static void list_precisions(const Unit *unit, Diagnostic *error) {
  const char *text = "";
  for (int library = 0; library <= 1; library++) {
    for (int i = 0; i < unit->all.count; i++) {
      const Declaration *declaration = &unit->all.at[i];
      if (declaration->space == SPACE_PRECISION && declaration->library == library) {
        text = arena_format(unit->arena, "%s%s`%s`", text, *text ? ", " : "", declaration->ast->name);
      }
    }
  }
  diag_help(unit->diag, error, "there are %s", text);
}

const Ast *precision_find(Unit *unit, const Ast *term) {
  const Declaration *declaration = unit_find(unit, SPACE_PRECISION, term->name);
  if (declaration) {
    return declaration->ast;
  }
  Diagnostic *error = diag_error(unit->diag, E010, term->span, "there is no precision '%s'", term->name);
  const char *closest = unit_closest(unit, SPACE_PRECISION, term->name), *foreign = foreign_precision(term->name);
  if (foreign) {
    diag_help(unit->diag, error, "%s", foreign);
  } else if (closest) {
    diag_help(unit->diag, error, "did you mean `%s`?", closest);
  } else {
    list_precisions(unit, error);
  }
  return NULL;
}

static const double STEPS_MAX = 1e12;

// What is wrong with a phrase of `P until N, then Q`, and where; NULL: nothing.
static const char *wrong_choice(const Ast *phrase, bool first, bool last, Span *where) {
  const Ast *terms = phrase->kids[0];
  const Ast *until = terms->count > 2 ? terms->kids[2] : NULL, *step = terms->count > 3 ? terms->kids[3] : NULL;
  *where = phrase->span;
  if (!first && !name_is(phrase_word(phrase), "then")) {
    return "expected `then` and the name of a precision";
  }
  if (terms->count < 2 || terms->kids[1]->kind != AST_PATH || phrase->kids[1]) {
    return "expected the name of a precision";
  }
  if (until && !(until->kind == AST_PATH && name_is(until->name, "until"))) {
    *where = until->span;
    return "expected `until`, or the end of the entry";
  }
  if (until && !(step && step->kind == AST_NUMBER && step->number >= 1 && step->number <= STEPS_MAX &&
                 step->number == floor(step->number))) {
    *where = step ? step->span : until->span;
    return "expected the last step that has this precision, a whole number from 1 on";
  }
  if (terms->count > 4) {
    *where = terms->kids[4]->span;
    return "expected `,` in front of what comes then";
  }
  if (last && until) {
    *where = until->span;
    return "nothing is said of the steps behind this one: expected `, then` and the name of a precision";
  }
  return last || until ? NULL : "expected `until` and a step, since another precision follows";
}

bool precision_choice(Unit *unit, const Ast *phrase, bool first, bool last, const Ast **policy, double *until) {
  const Ast *terms = phrase->kids[0];
  Span where;
  const char *wrong = wrong_choice(phrase, first, last, &where);
  if (wrong) {
    Diagnostic *error = diag_error(unit->diag, E051, where, "%s", wrong);
    diag_help(unit->diag, error, "write `precision bf16;` or `precision bf16 until 500, then fp8_hybrid;`");
    return false;
  }
  *until = last ? 0 : terms->kids[3]->number;
  *policy = precision_find(unit, terms->kids[1]);
  return *policy != NULL;
}
