// recompute.c: what the backward computes again instead of keeping it since the forward.
//
// Needs a differentiated step. First what the layout asks for (`recompute attention`): every value made under a
// selected scope is computed again from the values that enter the scope. Then what costs nothing: elementwise values
// that forward kernels need not store, whose inputs are in memory anyway, are computed again inside the backward
// kernels that read them. Copies are marked and never merged back.
#include <string.h>

#include "compiler/passes/shard.h"
#include "compiler/stages.h"

enum { CHEAP_MAX_INPUTS = 3, CHEAP_MAX_DEPTH = 24, SMALL = 16 };

typedef struct {
  Compilation *c;
  Graph *graph;
  NodeList out;
  ValueId *copy;      // by value: its copy in the backward, or -1
  ScopeId *instance;  // by value: the selected scope it is made under, or -1
  bool *stored;       // by value: in memory after the forward in any case
  int limit;          // values that existed before
  bool *small;        // by value: much smaller than the space of the kernel that makes it, such as rows' statistics
  RegionId region;
  bool asked;            // copies are made because the layout says so
  const Stages *stages;  // of a pipeline: what another stage has made is not made again; else NULL
  int stage;             // of the operation that reads the copies
} Recompute;

static ScopeId selected_instance(const Recompute *r, ScopeId scope, Map *memo) {
  int64_t known;
  if (scope < 0) {
    return -1;
  }
  if (map_get(memo, (uint64_t)scope, &known)) {
    return (ScopeId)known;
  }
  const Scope *at = &r->graph->scopes.at[scope];
  ScopeId found = selected_instance(r, at->parent, memo);  // the outermost match is the unit of recomputation
  for (int i = 0; found < 0 && i < r->c->spec->recompute.count; i++) {
    Name selector = r->c->spec->recompute.at[i]->name;
    bool word = at->function == selector;
    if (word || (at->path[0] && strcmp(at->path, selector) == 0)) {
      found = scope;
    }
  }
  map_put(memo, (uint64_t)scope, found);
  return found;
}

static bool labelled(const Recompute *r, const Value *value) {
  for (int i = 0; value->label && i < r->c->spec->recompute.count; i++) {
    Name selector = r->c->spec->recompute.at[i]->name;
    if (selector[0] == '@' && strcmp(selector + 1, value->label) == 0) {
      return true;
    }
  }
  return false;
}

static ValueId copy_node(Recompute *r, ValueId value, const ValueId *operands) {
  Graph *graph = r->graph;
  const Value *made = graph_value(graph, value);
  NodeId id = graph_clone(graph, made->node, operands);
  if (graph_node(graph, id)->region >= 0) {
    Map map = map_create(r->c->arena);
    RegionId inner = graph_clone_region(graph, graph_node(graph, id)->region, &map);
    graph_node(graph, id)->region = inner;
  }
  graph->regions.at[r->region].nodes.count--;  // graph_clone put it there; it goes where it is first needed
  Node *node = graph_node(graph, id), *from = graph_node(graph, graph_value(graph, value)->node);
  node->recomputed = true;
  node->apart = r->asked;
  node->backward = true;
  array_push(r->c->arena, &r->out, id);
  for (int i = 0; i < node->result_count; i++) {
    r->copy[from->first_result + i] = node->first_result + i;
    shard_hold_alike(r->c, node->first_result + i, from->first_result + i);
  }
  return r->copy[value];
}

// --- by request ---

static ValueId copy_in_scope(Recompute *r, ValueId value, ScopeId instance) {
  if (value >= r->limit || r->instance[value] != instance || graph_value(r->graph, value)->node < 0) {
    return value;
  }
  if (r->copy[value] >= 0) {
    return r->copy[value];
  }
  const Node node = *graph_producer(r->graph, value);
  ValueId *operands = ARENA_ARRAY(r->c->arena, ValueId, node.operand_count + 1);
  for (int i = 0; i < node.operand_count; i++) {
    operands[i] = copy_in_scope(r, node.operands[i], instance);
  }
  return copy_node(r, value, operands);
}

static void by_request(Recompute *r) {
  Graph *graph = r->graph;
  Map memo = map_create(r->c->arena);
  NodeList old = graph->regions.at[r->region].nodes;
  for (int i = 0; i < old.count; i++) {
    const Node *node = graph_node(graph, old.at[i]);
    ScopeId instance = node->backward || op_leaf(node->op) ? -1 : selected_instance(r, node->scope, &memo);
    for (int j = 0; j < node->result_count; j++) {
      ValueId value = node->first_result + j;
      bool label = !node->backward && labelled(r, graph_value(graph, value));
      r->instance[value] = label ? graph->scopes.count + value : instance;
    }
  }
  for (int i = 0; i < old.count; i++) {
    NodeId id = old.at[i];
    bool backward = graph_node(graph, id)->backward;
    ScopeId own = backward ? selected_instance(r, graph_node(graph, id)->scope, &memo) : -1;
    for (int j = 0; backward && j < graph_node(graph, id)->operand_count; j++) {
      ValueId operand = graph_node(graph, id)->operands[j];
      // What leaves the scope is kept: the gradients of others begin with it.
      bool selected = operand < r->limit && r->instance[operand] >= 0 &&
                      (r->instance[operand] == own || r->instance[operand] >= graph->scopes.count);
      if (selected) {
        ValueId copy = copy_in_scope(r, operand, r->instance[operand]);
        graph_node(graph, id)->operands[j] = copy;
      }
    }
    array_push(r->c->arena, &r->out, id);
  }
  graph->regions.at[r->region].nodes = r->out;
  r->out = (NodeList){0};
}

// --- what costs nothing ---

// Is the value in memory, or so small that keeping it costs nothing?
static int stage_of(const Recompute *r, NodeId node) {
  return r->stages && node < r->stages->node_count ? r->stages->node[node] : STAGE_ANY;
}

static bool at_hand(const Recompute *r, ValueId value) {
  const Node *node = graph_producer(r->graph, value);
  int stage = node ? stage_of(r, graph_value(r->graph, value)->node) : STAGE_ANY;
  if (stage != STAGE_ANY && stage != r->stage) {
    return true;
  }
  return value >= r->limit || !node || r->stored[value] || r->small[value] || !op_elementwise(node->op);
}

static bool count_inputs(const Recompute *r, ValueId value, ValueList *inputs, int depth) {
  if (at_hand(r, value)) {
    const Node *node = graph_producer(r->graph, value);
    if (node && op_free(node->op)) {
      return true;
    }
    for (int i = 0; i < inputs->count; i++) {
      if (inputs->at[i] == value) {
        return true;
      }
    }
    if (value >= r->limit || !(r->small[value] || (node && op_leaf(node->op)))) {
      array_push(r->c->arena, inputs, value);
    }
    return inputs->count <= CHEAP_MAX_INPUTS;
  }
  const Node *node = graph_producer(r->graph, value);
  for (int i = 0; i < node->operand_count; i++) {
    if (depth == 0 || !count_inputs(r, node->operands[i], inputs, depth - 1)) {
      return false;
    }
  }
  return true;
}

static ValueId copy_chain(Recompute *r, ValueId value) {
  if (at_hand(r, value)) {
    return value;
  }
  if (r->copy[value] >= 0) {
    return r->copy[value];
  }
  const Node node = *graph_producer(r->graph, value);
  ValueId *operands = ARENA_ARRAY(r->c->arena, ValueId, node.operand_count + 1);
  for (int i = 0; i < node.operand_count; i++) {
    operands[i] = copy_chain(r, node.operands[i]);
  }
  return copy_node(r, value, operands);
}

static void mark_stored(Recompute *r) {
  Graph *graph = r->graph;
  const NodeList *nodes = &graph->regions.at[r->region].nodes;
  NodeList forward = {0};
  for (int i = 0; i < nodes->count; i++) {
    if (!graph_node(graph, nodes->at[i])->backward) {
      array_push(r->c->arena, &forward, nodes->at[i]);
    }
  }
  GroupInfo *info;
  Grouping grouping = group_make(graph, forward.at, forward.count, &info);
  for (int i = 0; i < forward.count; i++) {
    const Node *node = graph_node(graph, forward.at[i]);
    if (grouping.group[forward.at[i]] >= 0) {
      int64_t space = graph_elements(graph, info[grouping.group[forward.at[i]]].space);
      r->small[node->first_result] = graph_elements(graph, graph_shape(graph, node->first_result)) * SMALL <= space;
    }
  }
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    bool fused = op_fusable(node->op);
    for (int j = 0; j < node->operand_count; j++) {
      NodeId maker = graph_value(graph, node->operands[j])->node;
      bool same = !node->backward && fused && maker >= 0 && grouping.group[maker] >= 0 &&
                  grouping.group[maker] == grouping.group[nodes->at[i]];
      if (node->operands[j] < r->limit && !same && !(node->backward && fused)) {
        r->stored[node->operands[j]] = true;
      }
    }
  }
}

static void what_costs_nothing(Recompute *r) {
  Graph *graph = r->graph;
  mark_stored(r);
  memset(r->copy, -1, sizeof *r->copy * (size_t)r->limit);
  NodeList old = graph->regions.at[r->region].nodes;
  for (int i = 0; i < old.count; i++) {
    NodeId id = old.at[i];
    bool reader = graph_node(graph, id)->backward && op_fusable(graph_node(graph, id)->op);
    r->stage = stage_of(r, id);
    for (int j = 0; reader && j < graph_node(graph, id)->operand_count; j++) {
      ValueId operand = graph_node(graph, id)->operands[j];
      const Node *maker = graph_producer(graph, operand);
      if (operand >= r->limit || !maker || maker->backward || at_hand(r, operand)) {
        continue;
      }
      ValueList inputs = {0};
      if (count_inputs(r, operand, &inputs, CHEAP_MAX_DEPTH)) {
        ValueId copy = copy_chain(r, operand);
        graph_node(graph, id)->operands[j] = copy;
      } else {
        r->stored[operand] = true;
      }
    }
    array_push(r->c->arena, &r->out, id);
  }
  graph->regions.at[r->region].nodes = r->out;
  r->out = (NodeList){0};
}

static void start(Recompute *r) {
  r->limit = r->graph->values.count;
  r->copy = ARENA_ARRAY(r->c->arena, ValueId, r->limit + 1);
  r->instance = ARENA_ARRAY(r->c->arena, ScopeId, r->limit + 1);
  r->stored = ARENA_ARRAY(r->c->arena, bool, r->limit + 1);
  r->small = ARENA_ARRAY(r->c->arena, bool, r->limit + 1);
  memset(r->copy, -1, sizeof *r->copy * (size_t)r->limit);
  memset(r->instance, -1, sizeof *r->instance * (size_t)r->limit);
}

bool pass_recompute(Compilation *c) {
  Graph *graph = c->graph;
  Recompute r = {.c = c, .graph = graph};
  const NodeList *top = &graph->regions.at[0].nodes;
  for (int i = 0; i < top->count; i++) {
    if (graph_node(graph, top->at[i])->op == OP_MICROBATCH) {
      r.region = graph_node(graph, top->at[i])->region;
    }
  }
  graph->region = r.region;
  if (c->spec->recompute.count) {
    start(&r);
    r.asked = true;
    by_request(&r);
    r.asked = false;
  }
  start(&r);
  r.stages = c->tenancy ? stages_find(c->arena, graph, c->spec, NULL) : NULL;
  what_costs_nothing(&r);
  graph->region = 0;
  graph_remove_dead(graph);
  return true;
}
