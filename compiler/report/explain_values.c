// explain_values.c: how labelled values and inputs are cut, and pictures of which ranks hold what.
#include <string.h>

#include "base/integer.h"
#include "base/units.h"
#include "compiler/report/explain_part.h"

enum { MOST_PICTURES = 4, MOST_BLOCKS = 8, SHOWN_BLOCKS = 3, MOST_RANKS = 4 };

typedef struct {
  const char *name, *type;
  int axis_count;
  const char *axis[PLAN_MAX_AXES];
  int64_t size[PLAN_MAX_AXES];
  PlanCut cut[PLAN_MAX_AXES];
  uint32_t partial;  // mesh axes
  const char *text;  // of the axes
  int count;         // of values that are alike
  double whole, rank;
} Held;

typedef ARRAY(Held) HeldList;

static void finish(Arena *arena, const Plan *plan, Held *held, int64_t element_bytes) {
  held->text = "";
  held->whole = held->rank = (double)element_bytes;
  for (int i = 0; i < held->axis_count; i++) {
    PlanCut *cut = &held->cut[i];
    int64_t parts = plan_parts(plan, cut->mesh, cut->count);
    cut->local = blocks_of(held->size[i], parts);
    held->whole *= (double)held->size[i];
    held->rank *= (double)cut->local;
    held->text = arena_format(arena, "%s%s%s %lld", held->text, i ? ", " : "", held->axis[i], (long long)held->size[i]);
    for (int j = 0; j < cut->count; j++) {
      const PlanMesh *mesh = &plan->mesh[cut->mesh[j]];
      held->text = arena_format(arena, "%s/%s%lld", held->text, mesh->name, (long long)mesh->size);
    }
    held->text = cut->zigzag ? arena_format(arena, "%s zigzag", held->text) : held->text;
  }
  held->text = arena_format(arena, "[%s]", held->text);
}

static int axis_at(const Held *held, const char *axis) {
  for (int i = 0; i < held->axis_count; i++) {
    if (strcmp(held->axis[i], axis) == 0) {
      return i;
    }
  }
  return -1;
}

// The axes in the order in which the first value of the name has them: that of memory says nothing here.
static void order_alike(const HeldList *list, Held *held) {
  const Held given = *held;
  for (int i = 0; i < list->count; i++) {
    const Held *like = &list->at[i];
    bool fits = strcmp(like->name, held->name) == 0 && like->axis_count == held->axis_count;
    for (int a = 0; fits && a < held->axis_count; a++) {
      fits = axis_at(&given, like->axis[a]) >= 0;
    }
    for (int a = 0; fits && a < held->axis_count; a++) {
      int from = axis_at(&given, like->axis[a]);
      held->axis[a] = given.axis[from];
      held->size[a] = given.size[from];
      held->cut[a] = given.cut[from];
    }
    if (fits) {
      return;
    }
  }
}

static void add(Arena *arena, HeldList *list, const Held *held) {
  for (int i = 0; i < list->count; i++) {
    Held *at = &list->at[i];
    if (strcmp(at->name, held->name) == 0 && strcmp(at->text, held->text) == 0 && at->partial == held->partial &&
        strcmp(at->type, held->type) == 0) {
      at->count++;
      return;
    }
  }
  array_push(arena, list, *held);
}

static HeldList labelled(const Explain *explain) {
  HeldList list = {0};
  for (int i = 0; i < explain->view->values.count; i++) {
    const ViewValue *value = &explain->view->values.at[i];
    Held held = {.name = arena_format(explain->arena, "@%s", value->label), .count = 1, .partial = value->partial};
    held.type = element_type_name(value->type);
    held.axis_count = value->axis_count;
    memcpy(held.axis, value->axis, sizeof held.axis);
    memcpy(held.size, value->size, sizeof held.size);
    memcpy(held.cut, value->cut, sizeof held.cut);
    order_alike(&list, &held);
    finish(explain->arena, explain_first(explain), &held, element_type_bytes(value->type));
    add(explain->arena, &list, &held);
  }
  return list;
}

static void add_inputs(const Explain *explain, HeldList *list) {
  for (int s = 0; s < explain->set->count; s++) {
    const PlanProgram *train = &explain->set->plans[s]->programs[PROGRAM_TRAIN];
    for (int i = 0; i < train->input_count; i++) {
      const PlanInput *input = &train->inputs[i];
      Held held = {.name = input->name, .type = element_type_name(input->type), .axis_count = input->axis_count};
      if (input->axis_count == 0) {
        continue;
      }
      memcpy(held.axis, input->axis, sizeof held.axis);
      memcpy(held.size, input->size, sizeof held.size);
      memcpy(held.cut, input->cut, sizeof held.cut);
      finish(explain->arena, explain_first(explain), &held, element_type_bytes(input->type));
      held.count = 1;
      bool known = false;
      for (int j = 0; j < list->count; j++) {
        known = known || strcmp(list->at[j].name, held.name) == 0;
      }
      if (!known) {
        array_push(explain->arena, list, held);
      }
    }
  }
}

// --- pictures ---

// Blocks of an axis such that every rank holds whole ones.
static int64_t block_of(const Held *held, int axis) {
  const PlanCut *cut = &held->cut[axis];
  return cut->zigzag && cut->local > 1 ? cut->local / 2 : cut->local;
}

static bool holds(const Plan *plan, const Held *held, int axis, const int *coordinate, int64_t position) {
  const PlanCut *cut = &held->cut[axis];
  int64_t block = block_of(held, axis);
  for (int64_t local = 0; local < cut->local; local += block) {
    if (plan_position(plan, cut, coordinate, local) == position) {
      return true;
    }
  }
  return false;
}

// The ranks of a cell: all of them if they are few, else what they have in common.
static const char *rank_list(Arena *arena, const int64_t *ranks, int count) {
  int64_t step = count > 1 ? ranks[1] - ranks[0] : 1;
  bool even = count > 2;
  for (int i = 1; i < count; i++) {
    even = even && ranks[i] - ranks[i - 1] == step;
  }
  if (even && step == 1) {
    return arena_format(arena, "%lld..%lld", (long long)ranks[0], (long long)ranks[count - 1]);
  }
  if (even && count > MOST_RANKS) {
    return arena_format(arena, "%lld, %lld .. %lld", (long long)ranks[0], (long long)ranks[1],
                        (long long)ranks[count - 1]);
  }
  const char *text = "";
  for (int i = 0; i < count && i < MOST_RANKS; i++) {
    text = arena_format(arena, "%s%s%lld", text, i ? " " : "", (long long)ranks[i]);
  }
  return count > MOST_RANKS ? arena_format(arena, "%s .. (%d)", text, count) : text;
}

static const char *cell(const Explain *explain, const Held *held, const int axis[2], const int64_t block[2]) {
  const Plan *plan = explain_first(explain);
  int64_t all = plan_ranks(plan), *ranks = ARENA_ARRAY(explain->arena, int64_t, all + 1);
  int count = 0, coordinate[PLAN_MAX_MESH] = {0};
  for (int64_t rank = 0; rank < all; rank++) {
    plan_coordinates(plan, rank, coordinate);
    bool here = plan->pipeline < 0 || coordinate[plan->pipeline] == 0;
    for (int i = 0; i < 2 && here; i++) {
      here = axis[i] < 0 || holds(plan, held, axis[i], coordinate, block[i] * block_of(held, axis[i]));
    }
    if (here) {
      ranks[count++] = rank;
    }
  }
  return rank_list(explain->arena, ranks, count);
}

static const char *block_name(Arena *arena, const Held *held, int axis, int64_t block) {
  int64_t size = block_of(held, axis);
  return arena_format(arena, size > 1 ? "%s %lld..%lld" : "%s %lld", held->axis[axis], (long long)(block * size),
                      (long long)((block + 1) * size - 1));
}

// Which of `count` blocks are shown; -1 stands for those left out.
static int choose(int64_t count, int64_t *shown) {
  if (count <= MOST_BLOCKS) {
    for (int i = 0; i < (int)count; i++) {
      shown[i] = i;
    }
    return (int)count;
  }
  for (int i = 0; i < SHOWN_BLOCKS; i++) {
    shown[i] = i;
  }
  shown[SHOWN_BLOCKS] = -1;
  shown[SHOWN_BLOCKS + 1] = count - 1;
  return SHOWN_BLOCKS + 2;
}

static void draw(const Explain *explain, const Held *held, Buffer *out) {
  int axis[2] = {-1, -1}, found = 0;  // rows, columns: the last and the first cut axis but for inner ones
  for (int i = 0; i < held->axis_count; i++) {
    if (held->cut[i].count && found < 2) {
      axis[1 - found++] = i;
    }
  }
  if (axis[0] < 0) {
    axis[0] = axis[1];
    axis[1] = -1;
  }
  int64_t rows[MOST_BLOCKS] = {0}, columns[MOST_BLOCKS] = {0};
  int row_count = choose(blocks_of(held->size[axis[0]], block_of(held, axis[0])), rows);
  int column_count = axis[1] < 0 ? 1 : choose(blocks_of(held->size[axis[1]], block_of(held, axis[1])), columns);
  char columns_text[TABLE_MAX_COLUMNS] = "r";
  for (int c = 1; c <= column_count && c + 1 < TABLE_MAX_COLUMNS; c++) {
    columns_text[c] = 'l';
  }
  Table table = table_make(explain->arena, columns_text);
  table_cell(&table, "");
  for (int c = 0; c < column_count; c++) {
    table_cell(&table, axis[1] < 0      ? "ranks"
                       : columns[c] < 0 ? ".."
                                        : block_name(explain->arena, held, axis[1], columns[c]));
  }
  for (int r = 0; r < row_count; r++) {
    table_cell(&table, rows[r] < 0 ? ".." : block_name(explain->arena, held, axis[0], rows[r]));
    for (int c = 0; c < column_count; c++) {
      int64_t block[2] = {rows[r], columns[c]};
      table_cell(&table, rows[r] < 0 || columns[c] < 0 ? ".." : cell(explain, held, axis, block));
    }
  }
  table_print(&table, 0, out);
}

static bool is_cut(const Held *held) {
  for (int i = 0; i < held->axis_count; i++) {
    if (held->cut[i].count) {
      return true;
    }
  }
  return false;
}

// Drawn alike: the same axes in the same blocks.
static const char *drawing(Arena *arena, const Held *held) {
  const char *text = "";
  for (int i = 0; i < held->axis_count; i++) {
    if (held->cut[i].count) {
      text = arena_format(arena, "%s %s %lld", text, held->axis[i], (long long)held->cut[i].zigzag);
      for (int j = 0; j < held->cut[i].count; j++) {
        text = arena_format(arena, "%s %d", text, held->cut[i].mesh[j]);
      }
    }
  }
  return text;
}

void explain_values(const Explain *explain, Buffer *out) {
  HeldList list = labelled(explain);
  const Plan *plan = explain_first(explain);
  add_inputs(explain, &list);
  Table table = table_make(explain->arena, "lrllrrl");
  const char *const header[] = {"value", "", "type", "axes, /cut over the mesh", "bytes each", "a rank", ""};
  for (int i = 0; i < 7; i++) {
    table_cell(&table, header[i]);
  }
  for (int i = 0; i < list.count; i++) {
    const Held *held = &list.at[i];
    table_cell(&table, held->name);
    table_cell(&table, held->count > 1 ? arena_format(explain->arena, "x %d", held->count) : "");
    table_cell(&table, held->type);
    table_cell(&table, held->text);
    table_bytes(&table, held->whole);
    table_bytes(&table, held->rank);
    const char *partial = explain_mesh(explain->arena, plan, held->partial);
    table_cell(&table, *partial ? arena_format(explain->arena, "partial over %s", partial) : "");
  }
  buffer_format(out, "\nlabelled values and inputs%s\n",
                plan->programs[PROGRAM_TRAIN].slots > 1 ? " of one microbatch" : "");
  table_print(&table, 1, out);
  const char *drawn[MOST_PICTURES];
  int pictures = 0;
  for (int i = 0; i < list.count && pictures < MOST_PICTURES; i++) {
    const char *text = drawing(explain->arena, &list.at[i]);
    bool known = !is_cut(&list.at[i]);
    for (int j = 0; j < pictures; j++) {
      known = known || strcmp(drawn[j], text) == 0;
    }
    if (!known) {
      drawn[pictures++] = text;
      buffer_format(out, "\nwho holds what of %s%s\n", list.at[i].name, plan->pipeline >= 0 ? " on stage 0" : "");
      draw(explain, &list.at[i], out);
    }
  }
}
