// layout_split.c: the sizes of axes as far as the text gives them, and which mesh sizes divide them.
#include <math.h>
#include <string.h>

#include "lang/layout_rules.h"
#include "lang/settings_rules.h"

MeshAxis *layout_mesh(Layout *l, Name name) {
  for (int i = 0; i < l->mesh_count; i++) {
    if (l->mesh[i].name == name) {
      return &l->mesh[i];
    }
  }
  return NULL;
}

Name layout_word(const Ast *phrase) {
  const Ast *terms = phrase->kids[0];
  return terms->count == 1 && terms->kids[0]->kind == AST_PATH && !phrase->kids[1] ? terms->kids[0]->name : NULL;
}

Name layout_axis(const Layout *l, Name name) {
  size_t length = strlen(name);
  while (length > 1 && name[length - 1] == '\'') {
    length--;
  }
  return name_of_bytes(l->unit->names, name, length);
}

// ---- Sizes known from the text

static const Ast *size_given(const Layout *l, Name name) {
  for (int i = l->spec->sizes.count - 1; i >= 0; i--) {
    if (l->spec->sizes.at[i].name == name) {
      return l->spec->sizes.at[i].value;
    }
  }
  return NULL;
}

static bool known_number(const Layout *l, const Ast *ast, int depth, double *number);

static bool known_name(const Layout *l, Name name, int depth, double *number) {
  const Ast *given = size_given(l, name), *axis = reach_axis(l->reach, name);
  if (given) {
    return known_number(l, given, depth + 1, number);
  }
  if (axis && axis->kids[1]) {
    return known_name(l, axis->kids[1]->name, depth + 1, number);
  }
  if (axis) {
    return axis->kids[0] && known_number(l, axis->kids[0], depth + 1, number);
  }
  const Declaration *constant = unit_find(l->unit, SPACE_CODE, name);
  return constant && constant->ast->kind == AST_CONST && known_number(l, constant->ast->kids[0], depth + 1, number);
}

static bool known_number(const Layout *l, const Ast *ast, int depth, double *number) {
  double a, b;
  if (depth > 32) {
    return false;
  }
  if (ast->kind == AST_NAME) {
    return known_name(l, ast->name, depth, number);
  }
  if (ast->kind == AST_CALL && name_is(ast->name, "size") && ast->kids[0]->count == 1) {
    return known_number(l, ast->kids[0]->kids[0]->kids[0], depth + 1, number);
  }
  if (ast->kind != AST_BINARY || !strchr("+-*/", ast->name[0])) {
    return setting_constant(ast, number);
  }
  if (!known_number(l, ast->kids[0], depth + 1, &a) || !known_number(l, ast->kids[1], depth + 1, &b)) {
    return false;
  }
  *number = ast->name[0] == '+' ? a + b : ast->name[0] == '-' ? a - b : ast->name[0] == '*' ? a * b : a / b;
  return true;
}

int64_t layout_size(const Layout *l, Name name) {
  double size = 0;
  bool known = known_name(l, name, 0, &size) && size == floor(size) && size >= 1 && size < 9e15;
  return known ? (int64_t)size : 0;
}

// Where the size of an axis is written: the recipe or the declaration.
static Span size_span(const Layout *l, Name name) {
  const Ast *given = size_given(l, name), *axis = reach_axis(l->reach, name);
  return given ? given->span : axis ? axis->span : SPAN_NONE;
}

// ---- Sizes that can be split

static bool splits_evenly(const Layout *l, const Split *split, Name instead, int64_t size) {
  int64_t product = split->unit ? split->unit : l->chunks;
  for (int i = 0; i < split->right->count; i++) {
    Name name = split->right->kids[i]->name;
    const MeshAxis *axis = layout_mesh((Layout *)l, name);
    product *= name == instead ? size : axis ? axis->size : 1;
  }
  Name left = layout_word(split->left);
  int64_t whole = split->size;
  if (name_is(left, "batch") && whole % l->microbatches == 0) {
    whole /= l->microbatches;
  }
  return whole == 0 || whole % product == 0;
}

static bool has_name(const Ast *list, Name name) {
  for (int i = 0; i < list->count; i++) {
    if (list->kids[i]->name == name) {
      return true;
    }
  }
  return false;
}

static const char *legal_sizes(const Layout *l, Name mesh_axis) {
  int64_t most = LAYOUT_MAX_RANKS;
  for (int i = 0; i < l->splits.count; i++) {
    const Split *split = &l->splits.at[i];
    if (split->size && split->size < most && has_name(split->right, mesh_axis)) {
      most = split->size;
    }
  }
  const char *text = "";
  int shown = 0;
  for (int64_t size = 1; size <= most; size++) {
    bool good = true;
    for (int i = 0; good && i < l->splits.count; i++) {
      good = !has_name(l->splits.at[i].right, mesh_axis) || splits_evenly(l, &l->splits.at[i], mesh_axis, size);
    }
    if (good && ++shown > LAYOUT_SHOWN_SIZES) {
      return arena_format(l->unit->arena, "%s, ...", text);
    }
    text = good ? arena_format(l->unit->arena, "%s%s%lld", text, shown > 1 ? ", " : "", (long long)size) : text;
  }
  return text;
}

void layout_check_split(Layout *l, const Split *split) {
  if (splits_evenly(l, split, NULL, 0)) {
    return;
  }
  Diag *diag = l->unit->diag;
  const char *over = "";
  Name worst = NULL;
  for (int i = 0; i < split->right->count; i++) {
    const MeshAxis *axis = layout_mesh(l, split->right->kids[i]->name);
    over =
        axis ? arena_format(l->unit->arena, "%s%s%s = %lld", over, *over ? ", " : "", axis->name, (long long)axis->size)
             : over;
    worst = axis && axis->size > 1 ? axis->name : worst;
  }
  Name name = layout_word(split->left);
  const char *more = split->unit == 0 && l->chunks > 1
                         ? arena_format(l->unit->arena, " with %lld chunks", (long long)l->chunks)
                     : name_is(name, "batch") && l->microbatches > 1
                         ? arena_format(l->unit->arena, " with %lld microbatches", (long long)l->microbatches)
                         : "";
  Diagnostic *error = diag_error(diag, E043, split->left->span, "axis '%s' of size %lld cannot be split over %s%s",
                                 name, (long long)split->size, over, more);
  Span from = size_span(l, layout_axis(l, name));
  int line, column;
  diag_position(diag, from, &line, &column);
  if (from.file >= 0) {
    diag_label(diag, error, "size %lld (%s:%d)", (long long)split->size, diag->sources.at[from.file].path, line);
  }
  const char *sizes = worst ? legal_sizes(l, worst) : "";
  if (*sizes) {
    diag_help(diag, error, "legal sizes of %s for this model: %s", worst, sizes);
  }
}
