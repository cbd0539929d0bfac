// microbatches.c: the region that runs once for each microbatch, and what comes after the last of them.
//
// Needs samples. Everything that depends on data moves into the region. The model's state is updated behind it, once:
// what is computed from sums over samples for it stands there, with copies of what does not depend on samples.
#include <string.h>

#include "compiler/ir/samples.h"
#include "compiler/pass/compilation.h"

typedef struct {
  Compilation *c;
  Graph *graph;
  bool *needed;   // by node: a result of the microbatches depends on it
  bool *in_body;  // by node
  NodeList body, outside, after, effects;
  ValueId *moved;  // by value: what stands for it outside, or -1
  int limit;       // of values before
} Wrap;

static void need(Wrap *w, const NodeList *nodes, const ValueList *results) {
  for (int i = 0; i < results->count; i++) {
    const NodeId maker = graph_value(w->graph, results->at[i])->node;
    if (maker >= 0) {
      w->needed[maker] = true;
    }
  }
  for (int i = nodes->count - 1; i >= 0; i--) {
    const Node *node = graph_node(w->graph, nodes->at[i]);
    for (int j = 0; w->needed[nodes->at[i]] && j < node->operand_count; j++) {
      const NodeId maker = graph_value(w->graph, node->operands[j])->node;
      if (maker >= 0) {
        w->needed[maker] = true;
      }
    }
  }
}

static SamplesKind kind_of(const Wrap *w, const Node *node) {
  return node->result_count ? samples_of(w->c->samples, node->first_result).kind : SAMPLES_SAME;
}

// What mixes samples is made inside, where the samples are, and so is all that it reads, even sums that could wait: of
// one microbatch they are those of the batch. Only of what state waits for: nothing else that is left mixes samples.
static void need_mixed(Wrap *w, const NodeList *nodes) {
  bool *live = ARENA_ARRAY(w->c->arena, bool, w->graph->nodes.count + 1);
  for (int i = nodes->count - 1; i >= 0; i--) {
    const NodeId id = nodes->at[i];
    const Node *node = graph_node(w->graph, id);
    live[id] |= w->needed[id] || (op_effect(node->op) && node->op != OP_OUTPUT);
    w->needed[id] |= live[id] && kind_of(w, node) == SAMPLES_MIXED;
    for (int j = 0; live[id] && j < node->operand_count; j++) {
      const NodeId maker = graph_value(w->graph, node->operands[j])->node;
      if (maker >= 0) {
        live[maker] = true;
        w->needed[maker] |= w->needed[id];
      }
    }
  }
}

static bool stays_outside(const Wrap *w, const Node *node) {
  return op_stored(node->op) || (node->op == OP_INPUT && kind_of(w, node) == SAMPLES_SAME);
}

static void deal(Wrap *w, const NodeList *nodes) {
  for (int i = 0; i < nodes->count; i++) {
    const NodeId id = nodes->at[i];
    const Node *node = graph_node(w->graph, id);
    const bool late = kind_of(w, node) == SAMPLES_LATE && !w->needed[id];
    NodeList *to = op_effect(node->op)      ? &w->effects
                   : stays_outside(w, node) ? &w->outside
                   : late                   ? &w->after
                                            : &w->body;
    w->in_body[id] = to == &w->body;
    array_push(w->c->arena, to, id);
  }
}

static bool is_inside(const Wrap *w, ValueId value) {
  const NodeId maker = value < w->limit ? graph_value(w->graph, value)->node : -1;
  return maker >= 0 && w->in_body[maker];
}

// What is made inside from samples, and read by what comes after, is a result.
static void leave(Wrap *w, const NodeList *nodes, ValueList *results) {
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(w->graph, nodes->at[i]);
    for (int j = 0; j < node->operand_count && node->op != OP_OUTPUT; j++) {
      const ValueId value = node->operands[j];
      if (is_inside(w, value) && samples_of(w->c->samples, value).kind != SAMPLES_SAME && w->moved[value] != value) {
        w->moved[value] = value;  // until there is a node
        array_push(w->c->arena, results, value);
      }
    }
  }
}

// What a value is outside: a result, or a copy of what does not depend on samples.
static ValueId outside_of(Wrap *w, ValueId value) {
  if (!is_inside(w, value) || w->moved[value] >= 0) {
    return value < w->limit && w->moved[value] >= 0 ? w->moved[value] : value;
  }
  Graph *graph = w->graph;
  const NodeId id = graph_value(graph, value)->node;
  const int count = graph_node(graph, id)->operand_count;
  ValueId *operands = ARENA_ARRAY(w->c->arena, ValueId, count + 1);
  for (int i = 0; i < count; i++) {
    operands[i] = outside_of(w, graph_node(graph, id)->operands[i]);
  }
  const NodeId copy = graph_clone(graph, id, operands);
  if (graph_node(graph, copy)->region >= 0) {
    Map map = map_create(w->c->arena);
    const RegionId region = graph_clone_region(graph, graph_node(graph, copy)->region, &map);
    graph_node(graph, copy)->region = region;
  }
  const Node *node = graph_node(graph, id);
  for (int i = 0; i < node->result_count; i++) {
    w->moved[node->first_result + i] = graph_node(graph, copy)->first_result + i;
    graph_value(graph, w->moved[node->first_result + i])->role = ROLE_UPDATE;
  }
  return w->moved[value];
}

static void place_after(Wrap *w, const NodeList *nodes) {
  Graph *graph = w->graph;
  for (int i = 0; i < nodes->count; i++) {
    const NodeId id = nodes->at[i];
    for (int j = 0; j < graph_node(graph, id)->operand_count; j++) {
      if (graph_node(graph, id)->op != OP_OUTPUT) {
        const ValueId value = outside_of(w, graph_node(graph, id)->operands[j]);
        graph_node(graph, id)->operands[j] = value;
      }
    }
    const Node *node = graph_node(graph, id);
    for (int j = 0; j < node->result_count; j++) {
      graph_value(graph, node->first_result + j)->role = ROLE_UPDATE;
    }
    array_push(graph->arena, &graph->regions.at[0].nodes, id);
  }
}

void wrap_microbatches(Compilation *c, ValueList *results) {
  Graph *graph = c->graph;
  Wrap w = {.c = c, .graph = graph, .limit = graph->values.count};
  const NodeList nodes = graph->regions.at[0].nodes;
  w.needed = ARENA_ARRAY(c->arena, bool, graph->nodes.count + 1);
  w.in_body = ARENA_ARRAY(c->arena, bool, graph->nodes.count + 1);
  w.moved = ARENA_ARRAY(c->arena, ValueId, w.limit + 1);
  memset(w.moved, -1, sizeof *w.moved * (size_t)(w.limit + 1));
  need(&w, &nodes, results);
  need_mixed(&w, &nodes);
  deal(&w, &nodes);
  const int count = results->count;
  leave(&w, &w.after, results);
  leave(&w, &w.effects, results);
  need(&w, &nodes, results);
  const RegionId body = graph_region(graph);
  for (int i = 0; i < w.body.count; i++) {  // what only state waits for stands behind, and may have been all there is
    if (w.needed[w.body.at[i]]) {
      array_push(c->arena, &graph->regions.at[body].nodes, w.body.at[i]);
    }
  }
  for (int i = 0; i < results->count; i++) {
    array_push(c->arena, &graph->regions.at[body].results, results->at[i]);
  }
  graph->regions.at[0].nodes = w.outside;
  const ValueId first =
      graph_add(graph, OP_MICROBATCH, (NodeInit){NODE_INIT, .region = body, .integer = graph->slots}, NULL, 0);
  for (int i = 0; i < results->count; i++) {
    if (i >= count) {
      w.moved[results->at[i]] = first + i;
    }
    results->at[i] = first + i;
  }
  const GraphPlace place = graph_place(graph);
  place_after(&w, &w.after);
  place_after(&w, &w.effects);
  graph_return(graph, place);
}
