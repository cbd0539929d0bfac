// skip.c: the batches that a recipe passes over: `skip = 1200 .. 1215, 3000;`
#include <math.h>

#include "lang/settings_rules.h"

static const double BATCHES_MAX = 1e12;

static bool batch_number(const Ast *ast, double *number) {
  return setting_constant(ast, number) && *number >= 1 && *number <= BATCHES_MAX && *number == floor(*number);
}

static void read_range(Unit *unit, Spec *spec, const Ast *value) {
  const bool range = value->kind == AST_RANGE;
  double first, last;
  if (!batch_number(range ? value->kids[0] : value, &first) || !batch_number(range ? value->kids[1] : value, &last)) {
    Diagnostic *error =
        diag_error(unit->diag, E051, value->span, "skip takes numbers of batches, the first of which is 1");
    diag_help(unit->diag, error, "write `skip = 1200 .. 1215, 3000;`");
    return;
  }
  if (last < first) {
    diag_error(unit->diag, E051, value->span,
               "there is no batch from %.0f to %.0f: the first number is the smaller one", first, last);
    return;
  }
  const PlanRange *before = spec->skip.count > 0 ? &spec->skip.at[spec->skip.count - 1] : NULL;
  if (before && first < (double)(before->first + before->count)) {
    Diagnostic *error =
        diag_error(unit->diag, E051, value->span, "batch %.0f is not behind batch %lld, the last of the range before",
                   first, (long long)(before->first + before->count - 1));
    diag_help(unit->diag, error, "ranges of batches rise, and no two have one in common");
    return;
  }
  const PlanRange read = {(int64_t)first, (int64_t)(last - first) + 1};
  array_push(unit->arena, &spec->skip, read);
}

// Behind the ranges that begin with the phrase at this place.
static int skip_end(const Ast *phrases, int at) {
  do {
    at++;
  } while (at < phrases->count && !phrase_word(phrases->kids[at]));
  return at;
}

void set_skip(Unit *unit, Ast *recipe, Ast *setting) {
  int kept = 0;
  for (int i = 0; i < recipe->count; i++) {
    Ast *list = recipe->kids[i]->kids[0];
    int phrases = 0;
    for (int at = 0; at < list->count;) {
      if (list->kids[at]->kids[1] && name_is(phrase_word(list->kids[at]), "skip")) {
        at = skip_end(list, at);
      } else {
        list->kids[phrases++] = list->kids[at++];
      }
    }
    list->count = phrases;
    if (phrases > 0) {
      recipe->kids[kept++] = recipe->kids[i];
    }
  }
  recipe->count = kept;
  settings_append(unit->arena, recipe, setting);
}

int read_skip(Unit *unit, Spec *spec, const Ast *phrases, int at) {
  read_range(unit, spec, phrases->kids[at]->kids[1]);
  const int end = skip_end(phrases, at);
  for (at++; at < end; at++) {
    const Ast *terms = phrases->kids[at]->kids[0];
    if (terms->count == 1) {
      read_range(unit, spec, terms->kids[0]);
    } else {
      diag_error(unit->diag, E051, phrases->kids[at]->span, "a comma stands between ranges of batches");
    }
  }
  spec->run.skip_count = spec->skip.count;
  spec->run.skip = spec->skip.at;
  return end;
}
