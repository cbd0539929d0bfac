// layout_split.c: the sizes of axes as far as the text gives them, and which mesh sizes divide them.
#include <math.h>
#include <string.h>

#include "lang/layout_rules.h"
#include "lang/settings_rules.h"

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
  for (int i = l->spec->text->sizes.count - 1; i >= 0; i--) {
    if (l->spec->text->sizes.at[i].name == name) {
      return l->spec->text->sizes.at[i].value;
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
  if (axis && strchr(name, '.')) {  // names inside are those of a function
    return axis->kids[0] && setting_constant(axis->kids[0], number);
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

// The product of the mesh axes that split an axis, with `instead` as the size of mesh axis `mesh` (-1: of none).
static int64_t pieces(const Layout *l, const Split *split, int mesh, int64_t instead) {
  int64_t product = split->pipeline ? l->pipeline.chunks : 1;
  for (int i = 0; i < split->right->count; i++) {
    const Target *target = &split->right->at[i];
    int64_t size = target->mesh == mesh ? instead : l->mesh[target->mesh].size;
    int64_t here = target->zigzag && size > 1 ? 2 * size : size;
    product = product > LAYOUT_MAX_RANKS ? product : product * here;
  }
  return product;
}

static bool is_batch(const Split *split) {
  return name_is(layout_word(split->left), "batch");
}

static bool splits(const Layout *l, const Split *split, int mesh, int64_t instead) {
  int64_t product = pieces(l, split, mesh, instead) * (is_batch(split) ? l->microbatches : 1);
  // Rows are dealt to microbatches one after the other: there is no padding between them.
  bool uneven = split->pipeline || (split->padded && !(is_batch(split) && l->microbatches > 1));
  return split->size == 0 || (uneven ? split->size >= product : split->size % product == 0);
}

bool layout_batch_divides(const Layout *l, int64_t microbatches) {
  int64_t size = layout_size(l, name_of(l->unit->names, "batch"));
  if (size % microbatches != 0) {
    return false;
  }
  for (int i = 0; i < l->splits.count; i++) {
    const Split *split = &l->splits.at[i];
    if (is_batch(split) && split->size % (pieces(l, split, -1, 0) * microbatches) != 0) {
      return false;
    }
  }
  return true;
}

static bool splits_over(const Split *split, int mesh) {
  for (int i = 0; i < split->right->count; i++) {
    if (split->right->at[i].mesh == mesh) {
      return true;
    }
  }
  return false;
}

static bool legal(const Layout *l, int mesh, int64_t size) {
  for (int i = 0; i < l->splits.count; i++) {
    if (splits_over(&l->splits.at[i], mesh) && !splits(l, &l->splits.at[i], mesh, size)) {
      return false;
    }
  }
  return true;
}

// "1, 2, 4" or "1 to 40"; of many the first, and those next to the size that was asked for.
static const char *legal_sizes(const Layout *l, int mesh) {
  Arena *arena = l->unit->arena;
  int64_t most = LAYOUT_MAX_RANKS, asked = l->mesh[mesh].size, below = 0, above = 0, count = 0, last = 0;
  for (int i = 0; i < l->splits.count; i++) {
    const Split *split = &l->splits.at[i];
    most = split->size && split->size < most && splits_over(split, mesh) ? split->size : most;
  }
  const char *text = "";
  for (int64_t size = 1; size <= most; size++) {
    if (!legal(l, mesh, size)) {
      continue;
    }
    below = size < asked ? size : below;
    above = size > asked && !above ? size : above;
    last = size;
    if (++count <= LAYOUT_SHOWN_SIZES) {
      text = arena_format(arena, "%s%s%lld", text, count > 1 ? ", " : "", (long long)size);
    }
  }
  if (count > 2 && count == last) {
    return arena_format(arena, "1 to %lld", (long long)last);
  }
  if (count <= LAYOUT_SHOWN_SIZES) {
    return text;
  }
  return above ? arena_format(arena, "%s, ..., next to %lld: %lld and %lld", text, (long long)asked, (long long)below,
                              (long long)above)
               : arena_format(arena, "%s, ..., %lld", text, (long long)below);
}

// "1, 2, 4": numbers of microbatches that the batch and its cuts allow; "" if there are none.
static const char *legal_microbatches(const Layout *l, const Split *split) {
  const char *text = "";
  int count = 0;
  for (int64_t n = 1; n <= split->size && n <= LAYOUT_MAX_RANKS; n++) {
    if (layout_batch_divides(l, n)) {
      if (++count > LAYOUT_SHOWN_SIZES) {
        return arena_format(l->unit->arena, "%s, ...", text);
      }
      text = arena_format(l->unit->arena, "%s%s%lld", text, count > 1 ? ", " : "", (long long)n);
    }
  }
  return text;
}

// Another number of microbatches, or another batch.
static const char *help_batch(const Layout *l, const Split *split, const char *help) {
  Arena *arena = l->unit->arena;
  const int64_t product = pieces(l, split, -1, 0) * l->microbatches, below = split->size / product * product;
  const char *microbatches = l->microbatches > 1 ? legal_microbatches(l, split) : "";
  if (*microbatches) {
    help = arena_format(arena, "%s%smicrobatches: %s", help, *help ? "; of " : "legal numbers of ", microbatches);
  }
  help = arena_format(arena, "%s%sbatch: ", help, *help ? "; of " : "legal sizes of ");
  if (below) {
    help = arena_format(arena, "%s%lld, ", help, (long long)below);
  }
  return arena_format(arena, "%s%lld and other multiples of %lld", help, (long long)(below + product),
                      (long long)product);
}

// `keys -> m(pad);`, where its last pieces may be filled up; "" where they may not. Of a batch another size does
// better.
static const char *pad_instead(const Layout *l, const Split *split, int mesh) {
  bool zigzag = false, ring = false;
  for (int i = 0; i < split->right->count; i++) {
    const Target *target = &split->right->at[i];
    zigzag |= target->zigzag;
    ring |= target->mesh == mesh && target->ring;
  }
  if (split->padded || split->pipeline || zigzag || is_batch(split) || split->size < pieces(l, split, -1, 0)) {
    return "";
  }
  return arena_format(l->unit->arena, "`%s%s%s -> %s(%spad);`", split->scope ? split->scope : "",
                      split->scope ? ": " : "", layout_word(split->left), l->mesh[mesh].name, ring ? "ring, " : "");
}

// What would do instead: other sizes of the mesh axis, a padded axis, another batch.
static void help_split(Layout *l, Diagnostic *error, const Split *split, int mesh) {
  Arena *arena = l->unit->arena;
  const char *sizes = legal_sizes(l, mesh), *help = "";
  if (*sizes) {
    help = arena_format(arena, "legal sizes of %s for this model: %s", l->mesh[mesh].name, sizes);
  }
  const char *pad = pad_instead(l, split, mesh);
  if (*pad) {
    help = arena_format(arena, "%s%spad it: %s", help, *help ? "; or " : "", pad);
  }
  if (is_batch(split)) {
    help = help_batch(l, split, help);
  }
  if (*help) {
    diag_help(l->unit->diag, error, "%s", help);
  }
}

static void check_split(Layout *l, const Split *split) {
  if (splits(l, split, -1, 0)) {
    return;
  }
  Diag *diag = l->unit->diag;
  const char *over = "";
  int worst = split->right->at[0].mesh;
  for (int i = 0; i < split->right->count; i++) {
    const Target *target = &split->right->at[i];
    const MeshAxis *axis = &l->mesh[target->mesh];
    over = arena_format(l->unit->arena, "%s%s%s = %lld%s", over, *over ? ", " : "", axis->name, (long long)axis->size,
                        target->zigzag ? " in zigzag" : "");
    worst = axis->size > 1 ? target->mesh : worst;
  }
  Name name = layout_word(split->left);
  const char *more = split->pipeline && l->pipeline.chunks > 1
                         ? arena_format(l->unit->arena, " with %d chunks", l->pipeline.chunks)
                     : is_batch(split) && l->microbatches > 1
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
  help_split(l, error, split, worst);
}

// ---- Several rules for one axis

static bool claimed(const Layout *l, Name scope, Name axis, int mesh) {
  for (int i = 0; i < l->splits.count; i++) {
    const Split *other = &l->splits.at[i];
    if (other->scope == scope && layout_word(other->left) != axis && splits_over(other, mesh)) {
      return true;
    }
  }
  return false;
}

// Where a rule is limited to a place, the rules for everywhere hold beside it, but on mesh axes that the place gives
// to something else; and so do those before it for the same place.
static void add_others(Layout *l, int index, Targets *all) {
  const Split *split = &l->splits.at[index];
  for (int i = 0; i < l->splits.count; i++) {
    const Split *other = &l->splits.at[i];
    bool holds = split->scope && !other->scope ? true : other->scope == split->scope && i < index;
    if (!holds || layout_word(other->left) != layout_word(split->left)) {
      continue;
    }
    for (int j = 0; j < other->right->count; j++) {
      const Target *target = &other->right->at[j];
      bool known = splits_over(split, target->mesh) ||
                   (split->scope && claimed(l, split->scope, layout_word(split->left), target->mesh));
      for (int k = 0; k < all->count; k++) {
        known = known || all->at[k].mesh == target->mesh;
      }
      if (!known) {
        all->at[all->count++] = *target;
      }
    }
  }
}

void layout_check_splits(Layout *l) {
  Split *merged = ARENA_ARRAY(l->unit->arena, Split, l->splits.count + 1);
  for (int i = 0; i < l->splits.count; i++) {
    Targets *all = ARENA_NEW(l->unit->arena, Targets);
    *all = (Targets){0};
    merged[i] = l->splits.at[i];
    if (merged[i].right->count && !merged[i].pipeline) {
      add_others(l, i, all);
    }
    for (int j = 0; j < merged[i].right->count; j++) {
      all->at[all->count++] = merged[i].right->at[j];
    }
    for (int j = 0; j < all->count; j++) {
      merged[i].padded = merged[i].padded || all->at[j].padded;
    }
    merged[i].right = all;
  }
  l->splits.at = merged;
  for (int i = 0; i < l->splits.count; i++) {
    check_split(l, &l->splits.at[i]);
  }
}
