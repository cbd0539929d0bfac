// layout_mesh.c: the mesh of a layout: names and sizes of axes of ranks.
#include <math.h>

#include "lang/layout_rules.h"
#include "lang/settings_rules.h"

int layout_mesh(const Layout *l, Name name) {
  for (int i = 0; i < l->mesh_count; i++) {
    if (l->mesh[i].name == name) {
      return i;
    }
  }
  return -1;
}

static void read_axis(Layout *l, const Ast *phrase, const Ast *term) {
  Diag *diag = l->unit->diag;
  double size = 0;
  if (term->kind != AST_PATH || !phrase->kids[1] || !setting_constant(phrase->kids[1], &size)) {
    Diagnostic *error = diag_error(diag, E042, phrase->span, "a mesh axis is a name and a size");
    if (!layout_helps_names(diag, error, phrase->kids[1])) {
      diag_help(diag, error, "write `mesh tp = 4;`");
    }
    size = 1;
  }
  if (term->kind != AST_PATH) {
    return;
  }
  if (size != floor(size) || size < 1 || size > LAYOUT_MAX_RANKS) {
    diag_error(diag, E042, phrase->kids[1]->span, "the size of a mesh axis is a whole number from 1 to %d",
               LAYOUT_MAX_RANKS);
    size = 1;
  }
  int old = layout_mesh(l, term->name);
  if (old >= 0) {
    Diagnostic *error = diag_error(diag, E040, term->span, "the mesh axis '%s' is declared twice", term->name);
    diag_related(diag, error, l->mesh[old].span, "the first declaration");
    return;
  }
  if (name_is(term->name, "none")) {
    Diagnostic *error = diag_error(diag, E040, term->span, "a mesh axis cannot be called 'none'");
    diag_help(diag, error, "`-> none` means: not split");
    return;
  }
  if (l->mesh_count == LAYOUT_MAX_MESH) {
    diag_error(diag, E090, term->span, "a mesh has at most %d axes", (int)LAYOUT_MAX_MESH);
    return;
  }
  l->mesh[l->mesh_count++] = (MeshAxis){term->name, (int64_t)size, term->span};
}

// The word `mesh` stands in the first phrase only.
void layout_read_mesh(Layout *l, const Ast *setting) {
  const Ast *list = setting->kids[0];
  for (int i = 0; i < list->count; i++) {
    const Ast *terms = list->kids[i]->kids[0];
    int first = i == 0 ? 1 : 0;
    if (terms->count != first + 1) {
      Diagnostic *error = diag_error(l->unit->diag, E042, list->kids[i]->span, "a mesh axis is a name and a size");
      diag_help(l->unit->diag, error, "write `mesh tp = 4;`");
      continue;
    }
    read_axis(l, list->kids[i], terms->kids[first]);
  }
}

void layout_check_mesh(Layout *l) {
  int64_t ranks = 1;
  for (int i = 0; i < l->mesh_count; i++) {
    ranks *= l->mesh[i].size;
    if (ranks > LAYOUT_MAX_RANKS) {
      Diagnostic *error =
          diag_error(l->unit->diag, E090, l->mesh[i].span, "the mesh has more than %d ranks", (int)LAYOUT_MAX_RANKS);
      diag_help(l->unit->diag, error, "the number of ranks is the product of the sizes of all mesh axes");
      return;
    }
  }
}
