// stages.c: the stages of a pipeline: how the iterations of a repeat are cut into them.
#include "compiler/pipeline/stages.h"

#include <string.h>

#include "compiler/pass/schedule.h"

typedef struct {
  Arena *arena;
  Graph *graph;
  const Spec *spec;
  Stages *stages;
} Cut;

int stages_iteration(const Graph *graph, const Spec *spec, ScopeId scope) {
  for (; scope >= 0; scope = graph->scopes.at[scope].parent) {
    const Scope *at = &graph->scopes.at[scope];
    if (at->index >= 0 && at->function == spec->pipeline.axis) {
      return (int)at->index;
    }
  }
  return -1;
}

int stages_of_iteration(const Stages *stages, int iteration) {
  int parts = stages->stages * stages->chunks, stage = 0;
  while (stage + 1 < parts && iteration >= stages->first[stage + 1]) {
    stage++;
  }
  return stage;
}

int stages_of_value(const Stages *stages, ValueId value) {
  const Value *at = graph_value(stages->graph, value);
  if (at->node < 0 || at->node >= stages->node_count) {
    return STAGE_ANY;
  }
  const Node *node = graph_node(stages->graph, at->node);
  if (node->op == OP_MICROBATCH) {
    return stages_of_value(stages, stages->graph->regions.at[node->region].results.at[at->result]);
  }
  return stages->node[at->node];
}

bool stages_exist(const Graph *graph, const Spec *spec) {
  const NodeList *nodes = &graph->regions.at[0].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (stages_iteration(graph, spec, node->scope) >= 0 && !op_leaf(node->op)) {
      return true;
    }
  }
  Diagnostic *error =
      diag_error(graph->diag, E043, spec->pipeline.span,
                 "the iterations of '%s' compute nothing, so no stage has anything to do", spec->pipeline.axis);
  diag_help(graph->diag, error, "leave the rule out, or let the loss depend on what `repeat %s` computes",
            spec->pipeline.axis);
  return false;
}

// --- how many iterations each virtual stage has ---

static void add_cost(const Cut *a, const NodeList *nodes, double *cost, double *before, double *after, bool *begun) {
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(a->graph, nodes->at[i]);
    if (op_body(node->op)) {
      add_cost(a, &a->graph->regions.at[node->region].nodes, cost, before, after, begun);
      continue;
    }
    if (node->backward) {
      continue;  // twice the forward, everywhere
    }
    int iteration = stages_iteration(a->graph, a->spec, node->scope);
    double flops = op_cost(a->graph, nodes->at[i]).flops;
    *begun |= iteration >= 0;
    *(iteration >= 0 ? &cost[iteration] : *begun ? after : before) += flops;
  }
}

static bool cut(Cut *a) {
  const Pipeline *pipeline = &a->spec->pipeline;
  int parts = a->stages->stages * a->stages->chunks;
  for (int i = 0; i < a->graph->scopes.count; i++) {
    const Scope *scope = &a->graph->scopes.at[i];
    if (scope->function == pipeline->axis && scope->index >= a->stages->iterations) {
      a->stages->iterations = (int)scope->index + 1;
    }
  }
  int iterations = a->stages->iterations;
  int *sizes = ARENA_ARRAY(a->arena, int, parts + 1), *first = ARENA_ARRAY(a->arena, int, parts + 2);
  double *cost = ARENA_ARRAY(a->arena, double, iterations + 1), before = 0, after = 0;
  bool begun = false;
  add_cost(a, &a->graph->regions.at[0].nodes, cost, &before, &after, &begun);
  if (pipeline->part_count == parts) {
    memcpy(sizes, pipeline->parts, sizeof *sizes * (size_t)parts);
  } else if (!split_layers(a->arena, cost, iterations, parts, before, after, sizes)) {
    diag_error(a->graph->diag, E043, pipeline->span, "%d iterations of '%s' cannot be cut into %d parts", iterations,
               pipeline->axis, parts);
    return false;
  }
  for (int i = 0; i < parts; i++) {
    first[i + 1] = first[i] + sizes[i];
  }
  Pipeline *decided = (Pipeline *)pipeline;  // once: the other programs are cut alike
  decided->parts = arena_copy(a->graph->diag->arena, sizes, sizeof *sizes * (size_t)parts);
  decided->part_count = parts;
  a->stages->first = first;
  return true;
}

Stages *stages_find(Arena *arena, Graph *graph, const Spec *spec, const Tenancy *known) {
  const Pipeline *pipeline = &spec->pipeline;
  if (!pipeline->axis || spec->mesh[pipeline->mesh].size < 2) {
    return NULL;
  }
  Stages *stages = ARENA_NEW(arena, Stages);
  *stages = (Stages){.graph = graph, .stages = (int)spec->mesh[pipeline->mesh].size, .chunks = pipeline->chunks};
  Cut a = {arena, graph, spec, stages};
  if (!cut(&a)) {
    return NULL;
  }
  return stages_place(arena, graph, spec, known, stages) ? stages : NULL;
}
