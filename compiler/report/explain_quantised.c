// explain_quantised.c: which values the training step has in 8 bits, which of them twice, and which kernels do nothing
// but round them.
#include <string.h>

#include "base/units.h"
#include "compiler/ir/attention.h"
#include "compiler/ir/dots.h"
#include "compiler/report/explain_part.h"

// --- while there is a graph ---

typedef struct {
  CompileView *view;
  const Lower *l;
  Map by_operand;  // what is rounded, to which format: index of its ViewQuantised in `all`
  ARRAY(ViewQuantised) all;
} Search;

// h, w and dy of the place where it is rounded; numbers of rounds do not count.
static const char *label_of(const Search *s, const Node *quantise) {
  const Graph *graph = s->l->graph;
  const Value *value = graph_value(graph, quantise->first_result);
  const char *path =
      quantise->scope >= 0 && graph->scopes.at[quantise->scope].path ? graph->scopes.at[quantise->scope].path : "";
  const char *what = value->role == ROLE_GRADIENT ? "dy" : value->name ? value->name : "x";
  return value->role == ROLE_PARAMETER && value->name
             ? view_alike(s->l->keep, value->name)
             : view_alike(s->l->keep, arena_format(s->l->keep, "%s%s%s", path, *path ? "." : "", what));
}

static bool is_member(const Graph *graph, const Region *region, ValueId value) {
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(graph, region->nodes.at[i]);
    if (value >= node->first_result && value < node->first_result + node->result_count) {
      return !op_free(node->op);
    }
  }
  return false;
}

// Why no kernel that makes the value rounds it as well; NULL: one does.
static const char *why_apart(const Graph *graph, const Region *region, const Node *quantise) {
  const Node *maker = graph_producer(graph, quantise->operands[0]);
  while (maker && op_alias(maker->op)) {
    maker = graph_producer(graph, maker->operands[0]);
  }
  if (is_member(graph, region, quantise->operands[0])) {
    return NULL;
  }
  return !maker || op_leaf(maker->op) || maker->op == OP_PART ? "it is read from where it is stored"
         : maker->op == OP_GROUP                              ? "its scale waits for its largest number"
         : is_attention(maker)                                ? "attention makes it"
         : op_dots(maker->op)                                 ? "a product makes it"
         : op_collective(maker->op)                           ? "ranks send it"
                                                              : "what makes it only moves parts";
}

static void note_quantised(Search *s, const Region *region, const Node *quantise, bool first) {
  const Graph *graph = s->l->graph;
  const uint64_t key[] = {(uint64_t)quantise->operands[0], (uint64_t)graph_value(graph, quantise->first_result)->type};
  int64_t at = map_get_bytes_or(&s->by_operand, key, sizeof key, -1);
  if (at < 0) {
    at = s->all.count;
    array_push(s->l->keep, &s->all,
               ((ViewQuantised){.name = label_of(s, quantise),
                                .type = graph_value(graph, quantise->first_result)->type,
                                .count = 1,
                                .why = why_apart(graph, region, quantise)}));
    map_put_bytes(&s->by_operand, key, sizeof key, at);
  }
  ViewQuantised *quantised = &s->all.at[at];
  quantised->orders++;
  quantised->bytes += (double)graph_elements(graph, graph_shape(graph, quantise->first_result));
  quantised->passes += first && quantised->why;
}

static void search_region(Search *s, RegionId id) {
  const Graph *graph = s->l->graph;
  const Region *region = &graph->regions.at[id];
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(graph, region->nodes.at[i]);
    const Region *inner = node->region >= 0 ? &graph->regions.at[node->region] : NULL;
    bool first = true;
    for (int j = 0; node->op == OP_GROUP && j < node->result_count; j++) {
      const Node *quantise = graph_quantise(graph, node->first_result + j);
      if (quantise && !quantise->why) {
        note_quantised(s, inner, quantise, first);
        first = false;
      }
    }
    if (op_list(node->op)) {
      search_region(s, node->region);
    }
  }
}

static bool alike(const ViewQuantised *a, const ViewQuantised *b) {
  return strcmp(a->name, b->name) == 0 && a->type == b->type && a->orders == b->orders && a->why == b->why;
}

void view_keep_quantised(CompileView *view, const Lower *l) {
  Search s = {.view = view, .l = l, .by_operand = map_create(l->keep)};
  search_region(&s, 0);
  for (int i = 0; i < s.all.count; i++) {
    int at = 0;
    while (at < view->quantised.count && !alike(&view->quantised.at[at], &s.all.at[i])) {
      at++;
    }
    if (at == view->quantised.count) {
      array_push(l->keep, &view->quantised, s.all.at[i]);
      continue;
    }
    view->quantised.at[at].count++;
    view->quantised.at[at].passes += s.all.at[i].passes;
    view->quantised.at[at].bytes += s.all.at[i].bytes;
  }
}

// --- as text ---

void explain_quantised(const Explain *explain, Buffer *out) {
  if (explain->view->quantised.count == 0) {
    return;
  }
  Table table = table_make(explain->arena, "lrllrrl");
  const char *const header[] = {"value", "values", "format", "stored", "bytes", "kernels", "that only round, because"};
  for (int i = 0; i < 7; i++) {
    table_cell(&table, header[i]);
  }
  int twice = 0, passes = 0;
  double bytes = 0;
  for (int i = 0; i < explain->view->quantised.count; i++) {
    const ViewQuantised *value = &explain->view->quantised.at[i];
    table_cell(&table, value->name);
    table_format(&table, "%d", value->count);
    table_cell(&table, element_type_name(value->type));
    table_cell(&table, value->orders == 1 ? "once" : value->orders == 2 ? "twice" : "more often");
    table_bytes(&table, value->bytes);
    table_format(&table, "%d", value->passes);
    table_cell(&table, value->why ? value->why : "");
    twice += value->orders > 1 ? value->count : 0;
    bytes += value->orders > 1 ? value->bytes : 0;
    passes += value->passes;
  }
  buffer_format(out, "\nvalues of 8 bits, in one microbatch of a rank%s\n",
                explain->view->stages.count > 1 ? ", of all stages" : "");
  table_print(&table, 1, out);
  char text[UNITS_MAX];
  buffer_format(out,
                "%d are stored twice, in two orders, since products that sum over different axes read them: %s; "
                "%d kernels do nothing but round\n",
                twice, twice ? units_bytes(text, bytes) : "0 B", passes);
}
