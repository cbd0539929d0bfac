// explain_parameters.c: every parameter with its cut, and where ranks keep it, its gradient and its state.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "compiler/report/explain_part.h"

typedef ARRAY(int64_t) Numbers;

typedef struct {
  const char *name;
  const char *shape;
  const char *stored[3];  // parameter, gradient, state: mesh axes, or ""
  const char *alike;      // rows are one where these are equal
  ElementType type;
  double whole, rank, state;  // bytes of one
  Numbers stages;
} Row;

typedef ARRAY(Row) Rows;

static double local_bytes(const Plan *plan, const PlanState *state) {
  double bytes = (double)element_type_bytes(state->type);
  for (int i = 0; i < state->axis_count; i++) {
    bytes *= (double)(state->cut[i].count ? state->cut[i].local : state->size[i]);
  }
  return bytes / (double)plan_parts(plan, state->flat_mesh, state->flat_count);
}

static double whole_bytes(const PlanState *state) {
  double bytes = (double)element_type_bytes(state->type);
  for (int i = 0; i < state->axis_count; i++) {
    bytes *= (double)state->size[i];
  }
  return bytes;
}

static const char *cut_text(Arena *arena, const Plan *plan, const PlanCut *cut) {
  const char *text = "";
  for (int i = 0; i < cut->count; i++) {
    const PlanMesh *mesh = &plan->mesh[cut->mesh[i]];
    text = arena_format(arena, "%s/%s%lld", text, mesh->name, (long long)mesh->size);
  }
  return cut->zigzag ? arena_format(arena, "%s zigzag", text) : text;
}

static const char *shape_text(Arena *arena, const Plan *plan, const PlanState *state) {
  const char *text = "";
  for (int i = 0; i < state->axis_count; i++) {
    text = arena_format(arena, "%s%s%s %lld%s", text, i ? ", " : "", state->axis[i], (long long)state->size[i],
                        cut_text(arena, plan, &state->cut[i]));
  }
  return arena_format(arena, "[%s]", text);
}

// The axes that are cut, and how: "embed/dp2".
static const char *cut_axes(Arena *arena, const Plan *plan, const PlanState *state) {
  const char *text = "";
  for (int i = 0; i < state->axis_count; i++) {
    if (state->cut[i].count) {
      const char *cut = cut_text(arena, plan, &state->cut[i]);
      text = arena_format(arena, "%s%s%s%s", text, *text ? " " : "", state->axis[i], cut);
    }
  }
  return text;
}

static uint32_t flat_bits(const PlanState *state) {
  uint32_t bits = 0;
  for (int i = 0; i < state->flat_count; i++) {
    bits |= 1u << state->flat_mesh[i];
  }
  return bits;
}

// Adds up the optimizer state of a parameter, and says where it and the gradient are stored.
static void add_state(const Explain *explain, int stage, const PlanState *parameter, Row *row) {
  const Plan *plan = explain->set->plans[stage];
  const ViewStage *view = &explain->view->stages.at[stage];
  row->stored[1] = row->stored[2] = "";
  for (int i = 0; i < view->tensors.count; i++) {
    const ViewTensor *tensor = &view->tensors.at[i];
    if (strcmp(tensor->name, parameter->name) == 0) {
      row->stored[1] = explain_mesh(explain->arena, plan, tensor->gradient);
    }
    int at = tensor->like && strcmp(tensor->like, parameter->name) == 0 ? plan_find_state(plan, tensor->name) : -1;
    if (at >= 0 && plan->states[at].role != STATE_COPY) {
      const PlanState *state = &plan->states[at];
      row->state += local_bytes(plan, state);
      const char *shape = shape_text(explain->arena, plan, state);
      bool same = strcmp(shape, row->shape) == 0 || state->axis_count != parameter->axis_count;
      const char *flat = explain_mesh(explain->arena, plan, flat_bits(state));
      row->stored[2] = state->flat_count ? flat : same ? "" : cut_axes(explain->arena, plan, state);
    }
  }
}

static Row row_of(const Explain *explain, int stage, const PlanState *state) {
  Arena *arena = explain->arena;
  const Plan *plan = explain->set->plans[stage];
  Row row = {.name = state->name, .type = state->type, .shape = shape_text(arena, plan, state)};
  row.whole = whole_bytes(state);
  row.rank = local_bytes(plan, state);
  row.stored[0] = explain_mesh(arena, plan, flat_bits(state));
  add_state(explain, stage, state, &row);
  int64_t at = stage;
  array_push(arena, &row.stages, at);
  row.alike = arena_format(arena, "%d %s %s %s %s %.0f", (int)row.type, row.shape, row.stored[0], row.stored[1],
                           row.stored[2], row.state);
  return row;
}

// The n-th part of a dotted name, if it is a number; *end: what follows it.
static const char *number_part(const char *name, int n, const char **end) {
  const char *at = name;
  for (; n > 0 && at; n--) {
    at = strchr(at, '.');
    at = at ? at + 1 : NULL;
  }
  if (!at || !isdigit((unsigned char)*at)) {
    return NULL;
  }
  const char *after = at + strspn(at, "0123456789");
  *end = after;
  return *after == '.' || *after == '\0' ? at : NULL;
}

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int sort_unique(Numbers *numbers) {
  int count = 0;
  qsort(numbers->at, (size_t)numbers->count, sizeof *numbers->at, compare);
  for (int i = 0; i < numbers->count; i++) {
    if (!i || numbers->at[i] != numbers->at[count - 1]) {
      numbers->at[count++] = numbers->at[i];
    }
  }
  return numbers->count = count;
}

// Rows that differ only in the n-th part of their names, a number, become one.
static Rows collapse(Arena *arena, const Rows *rows, int n) {
  Rows made = {0};
  ARRAY(const char *) keys = {0};
  ARRAY(Numbers) numbers = {0};
  for (int i = 0; i < rows->count; i++) {
    const Row *row = &rows->at[i];
    const char *end = NULL, *part = number_part(row->name, n, &end);
    int before = part ? (int)(part - row->name) : 0, at = 0;
    const char *key = part ? arena_format(arena, "%.*s*%s %s", before, row->name, end, row->alike) : row->name;
    while (at < made.count && strcmp(keys.at[at], key) != 0) {
      at++;
    }
    if (at == made.count) {
      array_push(arena, &made, *row);
      array_push(arena, &keys, key);
      array_push(arena, &numbers, ((Numbers){0}));
    } else {
      for (int j = 0; j < row->stages.count; j++) {
        array_push(arena, &made.at[at].stages, row->stages.at[j]);
      }
    }
    int64_t number = part ? strtoll(part, NULL, 10) : 0;
    array_push(arena, &numbers.at[at], number);
  }
  for (int i = 0; i < made.count; i++) {
    const char *end = NULL, *part = number_part(made.at[i].name, n, &end), *name = made.at[i].name;
    if (part && numbers.at[i].count > 1) {
      int count = sort_unique(&numbers.at[i]);
      made.at[i].name = arena_format(arena, "%.*s%s%s", (int)(part - name), name,
                                     explain_numbers(arena, numbers.at[i].at, count), end);
    }
  }
  return made;
}

static void print_rows(const Explain *explain, Rows *rows, Buffer *out) {
  Table table = table_make(explain->arena, "lllrrrrlll");
  const char *const header[] = {"name",       "type",   "axes, /cut over the mesh", "stage",
                                "bytes each", "a rank", "a rank's state",           "param",
                                "grad",       "state"};
  for (int i = 0; i < 10; i++) {
    table_cell(&table, header[i]);
  }
  bool stages = explain->set->count > 1;
  for (int i = 0; i < rows->count; i++) {
    Row *row = &rows->at[i];
    int count = sort_unique(&row->stages);
    table_cell(&table, row->name);
    table_cell(&table, element_type_name(row->type));
    table_cell(&table, row->shape);
    table_cell(&table, stages ? explain_numbers(explain->arena, row->stages.at, count) : "");
    table_bytes(&table, row->whole);
    table_bytes(&table, row->rank);
    table_bytes(&table, row->state);
    for (int j = 0; j < 3; j++) {
      table_cell(&table, row->stored[j]);
    }
  }
  table_print(&table, 1, out);
}

void explain_parameters(const Explain *explain, Buffer *out) {
  Rows rows = {0};
  double count = 0, bytes = 0, most = 0;
  for (int s = 0; s < explain->set->count; s++) {
    const Plan *plan = explain->set->plans[s];
    double here = 0;
    for (int i = 0; i < plan->state_count; i++) {
      const PlanState *state = &plan->states[i];
      if (state->role != STATE_PARAMETER) {
        continue;
      }
      Row row = row_of(explain, s, state);
      here += row.rank;
      if (state->owner) {
        count += row.whole / (double)element_type_bytes(state->type);
        bytes += row.whole;
      } else {
        row.alike = arena_format(explain->arena, "%s copy", row.alike);
        row.name = arena_format(explain->arena, "%s (copy)", row.name);
      }
      array_push(explain->arena, &rows, row);
    }
    most = here > most ? here : most;
  }
  char number[UNITS_MAX], whole[UNITS_MAX], rank[UNITS_MAX];
  buffer_format(out, "\n%s parameters (%.0f): %s, of which a rank holds %s%s\n", units_count(number, count), count,
                units_bytes(whole, bytes), explain->set->count > 1 ? "at most " : "", units_bytes(rank, most));
  bool flat = false;
  for (int i = 0; i < rows.count; i++) {
    flat = flat || *rows.at[i].stored[0] || *rows.at[i].stored[1] || *rows.at[i].stored[2];
  }
  if (flat) {
    buffer_text(
        out,
        "param, grad, state: the mesh axes over which ranks store pieces of the parameter, its gradient, its state\n");
  }
  for (int n = 0; n < 6 && !explain->full; n++) {
    rows = collapse(explain->arena, &rows, n);
  }
  print_rows(explain, &rows, out);
}
