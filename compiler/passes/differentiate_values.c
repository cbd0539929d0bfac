// differentiate_values.c: outputs for the named values of the forward, for whoever compares two programs.
#include <string.h>

#include "compiler/backward.h"
#include "compiler/compilation.h"
#include "compiler/samples.h"

typedef struct {
  Compilation *c;
  ValueId loss;    // is an output already
  int *depth;      // by value: operations on the longest way to it
  bool *varies;    // by value: depends on data
  bool *returned;  // by value: used outside of the function that makes it
  Map seen;        // path to how often it came
} Collect;

static bool is_data(const Node *node) {
  return node->op == OP_INPUT && strcmp(node->text, "step") != 0;
}

static bool is_inside(const Graph *graph, ScopeId scope, ScopeId outer) {
  while (scope >= 0 && scope != outer) {
    scope = graph->scopes.at[scope].parent;
  }
  return scope == outer;
}

static void mark_returned(Collect *collect, const Node *node) {
  const Graph *graph = collect->c->graph;
  for (int i = 0; i < node->operand_count; i++) {
    const Node *maker = graph_producer(graph, node->operands[i]);
    if (maker && maker->scope >= 0 && !is_inside(graph, node->scope, maker->scope)) {
      collect->returned[node->operands[i]] = true;
    }
  }
}

// layers.0.h, or layers.0.norm for what a function returns; the second value of that name is layers.0.h.2
static Name path_of(Collect *collect, const Node *node, Name name) {
  const Graph *graph = collect->c->graph;
  Name path = node->scope >= 0 ? graph->scopes.at[node->scope].path : NULL;
  path = !name           ? name_format(graph->names, "value.%s", path)
         : path && *path ? name_format(graph->names, "value.%s.%s", path, name)
                         : name_format(graph->names, "value.%s", name);
  const int64_t times = map_get_or(&collect->seen, map_key(path), 0) + 1;
  map_put(&collect->seen, map_key(path), times);
  return times == 1 ? path : name_format(graph->names, "%s.%lld", path, (long long)times);
}

// Do microbatches make what the whole batch has? Not of what serves state that is of one microbatch.
static bool is_of_batch(const Compilation *c, ValueId value) {
  const SamplesKind kind = c->graph->slots > 1 ? samples_of(c->samples, value).kind : SAMPLES_SUM;
  return kind != SAMPLES_MIXED && kind != SAMPLES_SAME;
}

static void collect_node(Collect *collect, const Node *node, ForwardValues *values) {
  const Graph *graph = collect->c->graph;
  int depth = 0;
  bool varies = is_data(node);
  for (int i = 0; i < node->operand_count; i++) {
    const int below = collect->depth[node->operands[i]];
    depth = below > depth ? below : depth;
    varies |= collect->varies[node->operands[i]];
  }
  for (int i = 0; i < node->result_count; i++) {
    const ValueId id = node->first_result + i;
    const Value *value = graph_value(graph, id);
    const Name name = value->name ? value->name : value->label;
    const bool result = collect->returned[id] && *graph->scopes.at[node->scope].path;
    collect->depth[id] = depth + 1;
    collect->varies[id] = varies;
    if ((name || result) && varies && id != collect->loss && value->type == TYPE_REAL && !op_leaf(node->op)) {
      const ForwardValue made = {id, path_of(collect, node, name), value->span, depth + 1};
      if (is_of_batch(collect->c, id)) {
        array_push(collect->c->arena, values, made);
      }
    }
  }
}

void forward_values(Compilation *c, ValueId loss, ForwardValues *values) {
  const Graph *graph = c->graph;
  const NodeList *nodes = &graph->regions.at[0].nodes;
  Collect collect = {.c = c, .loss = loss, .seen = map_create(c->arena)};
  collect.depth = ARENA_ARRAY(c->arena, int, graph->values.count + 1);
  collect.varies = ARENA_ARRAY(c->arena, bool, graph->values.count + 1);
  collect.returned = ARENA_ARRAY(c->arena, bool, graph->values.count + 1);
  for (int i = 0; i < nodes->count; i++) {
    mark_returned(&collect, graph_node(graph, nodes->at[i]));
  }
  for (int i = 0; i < nodes->count; i++) {
    collect_node(&collect, graph_node(graph, nodes->at[i]), values);
  }
  values->loss_depth = collect.depth[loss];
}

static void list_add(CompiledValues *list, Name name, Span span, int depth) {
  const CompiledValue value = {name, span, depth};
  array_push(list->arena, list, value);
}

void forward_values_output(Compilation *c, const ForwardValues *values, Span loss) {
  Graph *graph = c->graph;
  for (int i = 0; i < values->count; i++) {
    graph_add1(graph, OP_OUTPUT, (NodeInit){NODE_INIT, .text = values->at[i].name}, values->at[i].value);
  }
  for (int i = 0; i < values->count && c->stage == 0; i++) {
    list_add(c->values, values->at[i].name, values->at[i].span, values->at[i].depth);
  }
  if (c->stage == 0) {
    list_add(c->values, name_of(graph->names, "loss"), loss, values->loss_depth);
  }
  for (int i = graph->persistent.count - 1; i >= 0 && c->stage == 0; i--) {  // the backward's order, about
    const Persistent *parameter = &graph->persistent.at[i];
    if (parameter->role == ROLE_PARAMETER && parameter->group >= 0) {
      list_add(c->values, name_format(graph->names, "gradient.%s", parameter->name), parameter->span,
               2 * values->loss_depth);
    }
  }
}
