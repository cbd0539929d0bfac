// layout_set.c: --set mesh.AXIS=SIZE and --set microbatches=N, which change the layout instead of the recipe.
#include <string.h>

#include "lang/layout_rules.h"
#include "lang/settings_rules.h"

static const char mesh_prefix[] = "mesh.";
enum { PREFIX = sizeof mesh_prefix - 1 };

bool layout_sets(const char *path) {
  return strncmp(path, mesh_prefix, PREFIX) == 0 || strcmp(path, "microbatches") == 0;
}

// The phrase of a `mesh` setting that gives this axis its size, or NULL.
static Ast *mesh_phrase(const Ast *layout, const char *axis) {
  for (int i = 0; i < layout->count; i++) {
    const Ast *setting = layout->kids[i], *list = setting->kids[0];
    if (setting->kids[1] || setting->kids[2] || !name_is(phrase_word(list->kids[0]), "mesh")) {
      continue;
    }
    for (int j = 0; j < list->count; j++) {
      const Ast *terms = list->kids[j]->kids[0];
      const int at = j == 0 ? 1 : 0;
      if (terms->count == at + 1 && terms->kids[at]->kind == AST_PATH && name_is(terms->kids[at]->name, axis)) {
        return list->kids[j];
      }
    }
  }
  return NULL;
}

// The phrase `microbatches = n`, wherever in a setting it stands.
static Ast *microbatches_phrase(const Ast *layout) {
  for (int i = 0; i < layout->count; i++) {
    const Ast *setting = layout->kids[i], *list = setting->kids[0];
    for (int j = 0; !setting->kids[1] && !setting->kids[2] && j < list->count; j++) {
      if (name_is(phrase_word(list->kids[j]), "microbatches") && list->kids[j]->kids[1]) {
        return list->kids[j];
      }
    }
  }
  return NULL;
}

static const char *mesh_list(Arena *arena, const Ast *layout) {
  const char *text = "";
  for (int i = 0; i < layout->count; i++) {
    const Ast *list = layout->kids[i]->kids[0];
    if (layout->kids[i]->kids[2] || !name_is(phrase_word(list->kids[0]), "mesh")) {
      continue;
    }
    for (int j = 0; j < list->count; j++) {
      const Ast *terms = list->kids[j]->kids[0];
      const Name name = terms->count ? terms->kids[terms->count - 1]->name : NULL;
      text = name ? arena_format(arena, "%s%s%s", text, *text ? ", " : "", name) : text;
    }
  }
  return text;
}

static void apply(Unit *unit, Ast *layout, const Ast *setting) {
  const Ast *given = setting->kids[0]->kids[0];
  Name path = phrase_word(given);
  const bool mesh = !name_is(path, "microbatches");
  Ast *phrase = mesh ? mesh_phrase(layout, path + PREFIX) : microbatches_phrase(layout);
  if (phrase) {
    phrase->kids[1] = given->kids[1];
  } else if (!mesh) {
    settings_append(unit->arena, layout, ast_copy(unit->arena, setting));
  } else {
    Diagnostic *error = diag_error(unit->diag, E010, given->kids[0]->span, "the layout '%s' has no mesh axis '%s'",
                                   layout->name, path + PREFIX);
    const char *axes = mesh_list(unit->arena, layout);
    diag_help(unit->diag, error, *axes ? "its mesh has %s" : "it has no mesh%s", axes);
  }
}

const Ast *layout_with_sets(Unit *unit, const Spec *spec, const Ast *layout) {
  if (spec->text->layout_sets.count == 0) {
    return layout;
  }
  Ast *changed = ast_copy(unit->arena, layout);
  for (int i = 0; i < spec->text->layout_sets.count; i++) {
    apply(unit, changed, spec->text->layout_sets.at[i]);
  }
  for (int i = 0; i < unit->all.count; i++) {  // the unit has the changed one from now on
    unit->all.at[i].ast = unit->all.at[i].ast == layout ? changed : unit->all.at[i].ast;
  }
  return changed;
}
