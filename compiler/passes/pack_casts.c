// pack_casts.c: casts of parameters that one kernel updates become one cast of all of them.
//
// The optimizer's packs hold parameters one after the other; a cast of the pack, of which each parameter's part is
// taken, is one kernel, and weights that lay side by side do so again: their products can be one. Not in the segments
// of a pipeline, each of which reads the weights of a few layers.
#include <string.h>

#include "compiler/passes/shard.h"

typedef struct {
  Compilation *c;
  Graph *graph;
  NodeId *pack;  // by value: the node that packs this parameter, or -1
  int *member;   // by value: and where
  ValueId *replace;
  int limit;  // values that existed before
} Packer;

static bool packs_parameters(const Graph *graph, const Node *node) {
  for (int i = 0; node->op == OP_PACK && i < node->operand_count; i++) {
    const Node *leaf = graph_producer(graph, node->operands[i]);
    if (!leaf || leaf->op != OP_PARAM) {
      return false;
    }
  }
  return node->op == OP_PACK;
}

static bool find_packs(Packer *p) {
  const NodeList *top = &p->graph->regions.at[0].nodes;
  bool any = false;
  for (int i = 0; i < top->count; i++) {
    const Node *node = graph_node(p->graph, top->at[i]);
    for (int j = 0; packs_parameters(p->graph, node) && j < node->operand_count; j++) {
      p->pack[node->operands[j]] = top->at[i];
      p->member[node->operands[j]] = j;
      any = true;
    }
  }
  return any;
}

// Parameters and their packs come first: casts that stand before the updates can read them.
static void packs_first(Packer *p) {
  Graph *graph = p->graph;
  NodeList leaves = {0}, packs = {0}, rest = {0};
  const NodeList old = graph->regions.at[0].nodes;
  for (int i = 0; i < old.count; i++) {
    const Node *node = graph_node(graph, old.at[i]);
    NodeList *to = node->op == OP_PARAM ? &leaves : packs_parameters(graph, node) ? &packs : &rest;
    array_push(graph->arena, to, old.at[i]);
  }
  const NodeList *const others[] = {&packs, &rest};
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < others[k]->count; i++) {
      array_push(graph->arena, &leaves, others[k]->at[i]);
    }
  }
  graph->regions.at[0].nodes = leaves;
}

static void take_part(Packer *p, NodeId id, Map *casts) {
  Graph *graph = p->graph;
  const Node node = *graph_node(graph, id);
  const NodeId pack = p->pack[node.operands[0]];
  const ValueId packed = graph_node(graph, pack)->first_result;
  const uint64_t key = map_hash((uint64_t)packed, map_key(node.text));
  int64_t known = map_get_or(casts, key, -1);
  graph->span = node.span;
  graph->scope = node.scope;
  graph->backward = node.backward;
  graph->role = ROLE_PARAMETER;
  if (known < 0) {
    known = graph_add1(graph, OP_CAST, (NodeInit){NODE_INIT, .text = node.text}, packed);
    shard_hold_alike(p->c, (ValueId)known, packed);
    map_put(casts, key, known);
  }
  NodeInit init = {NODE_INIT, .axes = graph_shape(graph, node.first_result), .axis = graph_node(graph, pack)->axis,
                   .integer = p->member[node.operands[0]]};
  ValueId part = graph_add1(graph, OP_PART, init, (ValueId)known);
  graph_value(graph, part)->name = graph_value(graph, node.first_result)->name;
  shard_hold_alike(p->c, part, node.first_result);
  p->replace[node.first_result] = part;
}

static void pack_region(Packer *p, RegionId region) {
  Graph *graph = p->graph;
  const NodeList old = graph->regions.at[region].nodes;
  Map casts = map_create(p->c->arena);
  for (int i = 0; i < old.count; i++) {
    if (graph_node(graph, old.at[i])->op == OP_SEGMENT) {
      return;
    }
  }
  graph->regions.at[region].nodes = (NodeList){0};
  for (int i = 0; i < old.count; i++) {
    graph->region = region;
    const Node *node = graph_node(graph, old.at[i]);
    ValueId operand = node->op == OP_CAST ? node->operands[0] : -1;
    if (operand >= 0 && operand < p->limit && p->pack[operand] >= 0) {
      take_part(p, old.at[i], &casts);
      continue;
    }
    array_push(graph->arena, &graph->regions.at[region].nodes, old.at[i]);
    if (node->op == OP_MICROBATCH) {
      pack_region(p, node->region);
    }
  }
}

void pack_casts(Compilation *c) {
  Graph *graph = c->graph;
  const Graph before = *graph;
  Packer p = {.c = c, .graph = graph, .limit = graph->values.count};
  const size_t room = (size_t)graph->values.count * 2 + 64;
  p.pack = arena_alloc(c->arena, sizeof *p.pack * room);
  p.replace = arena_alloc(c->arena, sizeof *p.replace * room);
  p.member = ARENA_ARRAY(c->arena, int, (int)room);
  memset(p.pack, -1, sizeof *p.pack * room);
  memset(p.replace, -1, sizeof *p.replace * room);
  if (c->spec->formats.dot == c->spec->real || !find_packs(&p)) {
    return;
  }
  packs_first(&p);
  pack_region(&p, 0);
  graph_replace_values(graph, p.replace);
  graph->region = before.region;
  graph->span = before.span;
  graph->scope = before.scope;
  graph->role = before.role;
  graph->backward = before.backward;
}
