// explain_experts.c: positions that are sorted by what they choose: how many rows there are for them, and what lies in
// these.
#include <string.h>

#include "base/units.h"
#include "compiler/report/explain_part.h"

typedef struct {
  const char *name;  // for all rounds of a repeat
  Order order;
  int64_t count;  // such orders in a step
  double bytes;   // of one of them: what products write in its rows
} Sorted;

typedef struct {
  const Explain *explain;
  ARRAY(Sorted) all;
} Sorting;

static bool is_alike(const Sorted *a, const Order *order, const char *name) {
  return strcmp(a->name, name) == 0 && a->order.count == order->count && a->order.extent == order->extent &&
         a->order.capacity == order->capacity && a->order.block == order->block;
}

static int sorted_as(Sorting *s, const Order *order, const char *name) {
  for (int i = 0; i < s->all.count; i++) {
    if (is_alike(&s->all.at[i], order, name)) {
      return i;
    }
  }
  array_push(s->explain->arena, &s->all, ((Sorted){name, *order, 0, 0}));
  return s->all.count - 1;
}

// A product belongs to the last order that wrote what its blocks have chosen.
static void add_list(Sorting *s, const Plan *plan, const int *segments, int count) {
  typedef struct {
    Place chosen;
    int sorted;
  } Made;
  ARRAY(Made) made = {0};
  for (int k = 0; k < count; k++) {
    const PlanSegment *segment = &plan->segments[segments[k]];
    for (int i = 0; i < segment->count; i++) {
      const Instruction *instruction = &segment->instructions[i];
      if (instruction->kind == INSTRUCTION_ORDER) {
        const Order *order = &instruction->as.order;
        const int at = sorted_as(s, order, view_alike(s->explain->arena, instruction->name));
        s->all.at[at].count++;
        array_push(s->explain->arena, &made, ((Made){order->chosen, at}));
      }
      for (int j = made.count - 1; instruction->kind == INSTRUCTION_GROUPED && j >= 0; j--) {
        const Grouped *grouped = &instruction->as.grouped;
        if (place_same(&made.at[j].chosen, &grouped->chosen)) {
          const bool adds = grouped->write != WRITE_STORE;
          s->all.at[made.at[j].sorted].bytes +=
              adds ? 0 : (double)grouped->rows * (double)grouped->n * (double)element_type_bytes(grouped->type_c);
          break;
        }
      }
    }
  }
}

static void add_plan(Sorting *s, const Plan *plan) {
  int *segments = ARENA_ARRAY(s->explain->arena, int, plan->segment_count + 1), count = 0;
  for (int i = 0; i < plan->segment_count; i++) {
    if (plan_calls(plan, PROGRAM_TRAIN, i) > 0) {
      segments[count++] = i;
    }
  }
  add_list(s, plan, segments, count);
}

// Where a step says how uneven they are (limit.c).
static void say_loads(const Explain *explain, Buffer *out) {
  const char *first = NULL, *last = NULL;
  for (int i = 0; i < explain->set->count; i++) {
    const PlanProgram *train = &explain->set->plans[i]->programs[PROGRAM_TRAIN];
    for (int k = 0; k < train->output_count; k++) {
      const char *name = train->outputs[k].name;
      const bool is = strncmp(name, "load.", 5) == 0;
      first = is && !first ? name : first;
      last = is ? name : last;
    }
  }
  if (first) {
    buffer_format(out, "  what the busiest place of each gets, of an even share, a step says: %s%s%s\n", first,
                  strcmp(first, last) == 0 ? "" : " to ", strcmp(first, last) == 0 ? "" : last);
  }
}

void explain_experts(const Explain *explain, Buffer *out) {
  static const char *const header[] = {"sorted by", "number",       "positions", "choose of",
                                       "rows",      "in blocks of", "products"};
  enum { COLUMNS = sizeof header / sizeof *header };
  Sorting s = {.explain = explain};
  for (int i = 0; i < explain->set->count; i++) {
    add_plan(&s, explain->set->plans[i]);
  }
  if (s.all.count == 0) {
    return;
  }
  Table table = table_make(explain->arena, "lrrrrrr");
  for (int i = 0; i < COLUMNS; i++) {
    table_cell(&table, header[i]);
  }
  for (int i = 0; i < s.all.count; i++) {
    const Sorted *at = &s.all.at[i];
    char bytes[UNITS_MAX];
    table_cell(&table, at->name);
    table_format(&table, "%lld", (long long)at->count);
    table_format(&table, "%lld", (long long)at->order.count);
    table_format(&table, "%lld", (long long)at->order.extent);
    table_format(&table, "%lld", (long long)at->order.capacity);
    table_format(&table, "%lld", (long long)at->order.block);
    table_cell(&table, at->bytes > 0
                           ? arena_format(explain->arena, "%s", units_bytes(bytes, at->bytes / (double)at->count))
                           : "only counted");
  }
  buffer_text(out,
              "\npositions of a rank sorted by what they choose, in each microbatch; products: what their rows have "
              "room for\n");
  table_print(&table, 1, out);
  say_loads(explain, out);
}
