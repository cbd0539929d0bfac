// widen_rings.c: what a ring of attention adds up block by block is in the real type, and rounded once at its end.
//
// Under a narrow policy the keys and values travel as they are; o and dq, which every block of keys is added to, and dk
// and dv, which go round with their keys, would be rounded at every step. So the operation makes them in the real type,
// and a cast gives everybody else what the policy says. After stage: to what cuts and recomputes, the operation and its
// rounding are one.
#include <string.h>

#include "compiler/ir/attention.h"
#include "compiler/shard/shard.h"

typedef struct {
  Compilation *c;
  Graph *graph;
  ValueId *replace;  // by value: what its users take instead, or -1
} Widener;

static void widen(Widener *w, NodeId id, int result) {
  Graph *graph = w->graph;
  const Node node = *graph_node(graph, id);
  const ValueId wide = node.first_result + result;
  const Value value = *graph_value(graph, wide);
  const ElementType real = w->c->spec->real;
  if (value.type == real) {
    return;
  }
  graph_follow(graph, &node);
  graph->role = value.role;
  graph_value(graph, wide)->type = real;
  graph_value(graph, graph->regions.at[node.region].results.at[result])->type = real;
  NodeInit init = {NODE_INIT, .text = name_of(graph->names, element_type_name(value.type))};
  ValueId rounded = graph_add1(graph, OP_CAST, init, wide);
  graph_value(graph, rounded)->name = value.name;
  shard_hold_alike(w->c, rounded, wide);
  w->replace[wide] = rounded;
}

static void widen_region(Widener *w, RegionId region) {
  Graph *graph = w->graph;
  const NodeList old = graph_rewrite(graph, region);
  for (int i = 0; i < old.count; i++) {
    const Node node = *graph_node(graph, old.at[i]);
    graph->region = region;
    array_push(graph->arena, &graph->regions.at[region].nodes, old.at[i]);
    if (op_body(node.op)) {
      widen_region(w, node.region);
    }
    for (int j = 0; is_attention(&node) && attention_ring(&node) && j < node.result_count; j++) {
      widen(w, old.at[i], j);
    }
  }
}

bool pass_widen_rings(Compilation *c) {
  Graph *graph = c->graph;
  const GraphPlace before = graph_place(graph);
  const int count = graph->values.count;
  const size_t room = sizeof(ValueId) * ((size_t)count * 2 + 64);
  Widener w = {.c = c, .graph = graph, .replace = arena_alloc(c->arena, room)};
  memset(w.replace, -1, room);
  widen_region(&w, 0);
  graph_replace_values(graph, w.replace);
  for (ValueId wide = 0; wide < count; wide++) {
    if (w.replace[wide] >= 0) {  // the cast's operand is the only use that stays
      graph_producer(graph, w.replace[wide])->operands[0] = wide;
    }
  }
  graph_return(graph, before);
  return true;
}
