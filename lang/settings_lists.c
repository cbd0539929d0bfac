// settings_lists.c: entries of a recipe that are lists of names: `allow` and `watch`.
#include "lang/selector_names.h"
#include "lang/settings_rules.h"

// `allow E016 E038`: codes without a comma. Is it so, and was it said?
static bool allow_without_comma(Unit *unit, const Ast *phrase, int begin) {
  const Ast *terms = phrase->kids[0];
  const char *codes = "";
  for (int i = begin; i < terms->count; i++) {
    if (terms->kids[i]->kind != AST_PATH) {
      return false;
    }
    codes = arena_format(unit->arena, "%s%s%s", codes, i > begin ? ", " : "", terms->kids[i]->name);
  }
  if (terms->count - begin < 2) {
    return false;
  }
  Diagnostic *error = diag_error(unit->diag, E051, phrase->span, "between the codes of `allow` a comma is missing");
  diag_help(unit->diag, error, begin ? "write `allow %s`" : "write `%s`", codes);
  return true;
}

// `allow E016, E046;`: these warnings are not shown.
void read_allow(Unit *unit, const Ast *list) {
  static const ErrorCode warnings[] = {E015, E016, E017, E018, E019, E038, E039, E040, E042, E045,
                                       E046, E047, E048, E049, E053, E054, E055, E056, E057};
  for (int i = 0; i < list->count; i++) {
    const Ast *terms = list->kids[i]->kids[0];
    const Ast *last = terms->kids[terms->count - 1];
    ErrorCode code = ERROR_CODE_COUNT;
    bool warns = false;
    const bool named = terms->count == (i == 0 ? 2 : 1) && last->kind == AST_PATH && error_code_find(last->name, &code);
    for (size_t j = 0; j < sizeof warnings / sizeof *warnings; j++) {
      warns |= named && warnings[j] == code;
    }
    if (warns) {
      unit->diag->allowed[code] = true;
      continue;
    }
    if (allow_without_comma(unit, list->kids[i], i == 0)) {
      continue;
    }
    Diagnostic *error = diag_error(unit->diag, E051, list->kids[i]->span,
                                   named ? "%s is an error, and only warnings are allowed"
                                         : "`allow` takes the codes of warnings, such as E016, not '%s'",
                                   last->name ? last->name : "");
    diag_help(unit->diag, error,
              "codes that can be allowed: E015 to E019, E038, E039, E040, E042, E045 to E049, E053 to E057");
  }
}

void read_watch(Unit *unit, Spec *spec, const Ast *list) {
  for (int i = 0; i < list->count; i++) {
    const Ast *terms = list->kids[i]->kids[0];
    const int from = i == 0 ? 1 : 0;
    const Ast *term = terms->count == from + 1 ? terms->kids[from] : NULL;
    if (term && term->kind == AST_PATH && !selector_is_label(term->name)) {
      array_push(unit->arena, &spec->watched, selector_of(term));
      continue;
    }
    Diagnostic *error =
        diag_error(unit->diag, E051, list->kids[i]->span, "`watch` takes names of parameters, or parts of them");
    diag_help(unit->diag, error, "write `watch layers.*, head;`: gradients and updates of each of them are shown");
  }
}
