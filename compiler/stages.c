// stages.c: assigning operations and parameters to the stages of a pipeline.
#include "compiler/stages.h"

#include <string.h>

#include "compiler/schedule.h"

typedef struct {
  Arena *arena;
  Graph *graph;
  const Spec *spec;
  Stages *stages;
  bool *layered;  // by value: depends on an iteration
  bool *bound;    // by value: depends on a parameter or a state
  bool *only;     // by value: and on nothing else, such as a parameter put together from pieces
  int *at;        // by value: the virtual stage it is made on, or STAGE_ANY
  bool settled;   // parameters have their stages
} Assign;

static int iteration_of(const Assign *a, ScopeId scope) {
  for (; scope >= 0; scope = a->graph->scopes.at[scope].parent) {
    const Scope *at = &a->graph->scopes.at[scope];
    if (at->index >= 0 && at->function == a->spec->pipeline.axis) {
      return (int)at->index;
    }
  }
  return -1;
}

static int stage_of_iteration(const Stages *stages, int iteration) {
  int parts = stages->stages * stages->chunks, stage = 0;
  while (stage + 1 < parts && iteration >= stages->first[stage + 1]) {
    stage++;
  }
  return stage;
}

int stages_of_scope(const Stages *stages, const Spec *spec, ScopeId scope) {
  Assign a = {.graph = (Graph *)stages->graph, .spec = spec};
  int iteration = iteration_of(&a, scope);
  return iteration < 0 ? -1 : stage_of_iteration(stages, iteration);
}

bool stages_exist(const Graph *graph, const Spec *spec) {
  Assign a = {.graph = (Graph *)graph, .spec = spec};
  const NodeList *nodes = &graph->regions.at[0].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (iteration_of(&a, node->scope) >= 0 && !op_leaf(node->op)) {
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

static void add_cost(const Assign *a, const NodeList *nodes, double *cost, double *before, double *after, bool *begun) {
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(a->graph, nodes->at[i]);
    if (node->op == OP_MICROBATCH || node->op == OP_SEGMENT) {
      add_cost(a, &a->graph->regions.at[node->region].nodes, cost, before, after, begun);
      continue;
    }
    if (node->backward) {
      continue;  // twice the forward, everywhere
    }
    int iteration = iteration_of(a, node->scope);
    double flops = op_cost(a->graph, nodes->at[i]).flops;
    *begun |= iteration >= 0;
    *(iteration >= 0 ? &cost[iteration] : *begun ? after : before) += flops;
  }
}

static bool cut(Assign *a) {
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

// --- operations ---

static int64_t elements(const Assign *a, ValueId value) {
  return graph_elements(a->graph, graph_shape(a->graph, value));
}

static bool is_stored(const Assign *a, ValueId value) {
  const Node *node = graph_producer(a->graph, value);
  if (node && node->op == OP_PACK) {
    node = graph_producer(a->graph, node->operands[0]);
  }
  return node && (node->op == OP_PARAM || node->op == OP_STATE);
}

// Where a tensor that it reads is stored; else where the largest operand is, of equals the latest.
static int with_operands(const Assign *a, const Node *node) {
  int stage = STAGE_ANY;
  int64_t most = -1;
  for (int i = 0; i < node->operand_count; i++) {
    if (is_stored(a, node->operands[i]) && a->at[node->operands[i]] != STAGE_ANY) {
      return a->at[node->operands[i]];
    }
  }
  for (int i = 0; i < node->operand_count; i++) {
    int at = a->at[node->operands[i]];
    int64_t size = elements(a, node->operands[i]);
    if (at != STAGE_ANY && (size > most || (size == most && at > stage))) {
      stage = at;
      most = size;
    }
  }
  return stage;
}

// The stage that makes all operands; -2: they come from several.
static int same_stage(const Assign *a, const Node *node) {
  int stage = STAGE_ANY;
  for (int i = 0; i < node->operand_count; i++) {
    int at = a->at[node->operands[i]];
    if (stage != STAGE_ANY && at != stage) {
      return -2;
    }
    stage = at;
  }
  return stage >= 0 ? stage : -2;
}

static int forward_stage(const Assign *a, const Node *node) {
  bool layered = false, bound = false;
  for (int i = 0; i < node->operand_count; i++) {
    layered |= a->layered[node->operands[i]];
    bound |= a->bound[node->operands[i]];
  }
  int iteration = iteration_of(a, node->scope), last = a->stages->stages * a->stages->chunks - 1;
  if (!bound && node->op != OP_OUTPUT) {
    return STAGE_ANY;
  }
  return iteration >= 0 ? stage_of_iteration(a->stages, iteration) : layered ? last : 0;
}

static bool is_update(const Assign *a, const Node *node) {
  return node->result_count > 0 ? graph_value(a->graph, node->first_result)->role == ROLE_UPDATE
                                : node->op == OP_ASSIGN || node->op == OP_OUTPUT;
}

static int stage_of_node(const Assign *a, const Node *node) {
  if (op_leaf(node->op)) {
    return STAGE_ANY;
  }
  if (!node->backward && !is_update(a, node)) {
    return forward_stage(a, node);
  }
  bool bound = false;
  for (int i = 0; i < node->operand_count; i++) {
    bound |= a->bound[node->operands[i]];
  }
  if (!bound) {
    return STAGE_ANY;
  }
  for (int i = 0; node->op == OP_PACK && i < a->graph->packs.count; i++) {
    if (a->graph->packs.at[i].axis == node->axis) {
      return a->graph->packs.at[i].stage;
    }
  }
  if (is_update(a, node) || node->op == OP_PACK) {
    return with_operands(a, node);
  }
  if (node->op == OP_ADD && with_operands(a, node) == same_stage(a, node)) {
    return same_stage(a, node);  // contributions are added up where they are made: one message instead of several
  }
  int iteration = iteration_of(a, node->scope);
  if (iteration >= 0) {
    return stage_of_iteration(a->stages, iteration);
  }
  int source = node->source >= 0 ? a->stages->node[node->source] : STAGE_ANY;
  return source != STAGE_ANY ? source : with_operands(a, node);
}

static void assign_nodes(Assign *a, const NodeList *nodes) {
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(a->graph, nodes->at[i]);
    if (node->op == OP_MICROBATCH) {
      const Region *body = &a->graph->regions.at[node->region];
      assign_nodes(a, &body->nodes);
      for (int j = 0; j < node->result_count; j++) {
        a->at[node->first_result + j] = a->at[body->results.at[j]];
        a->bound[node->first_result + j] = a->bound[body->results.at[j]];
      }
      continue;
    }
    bool leaf = node->op == OP_PARAM || node->op == OP_STATE;
    int stage = leaf && a->settled ? a->at[node->first_result] : stage_of_node(a, node);
    a->stages->node[nodes->at[i]] = stage;
    bool layered = !node->backward && iteration_of(a, node->scope) >= 0,
         bound = node->op == OP_PARAM || node->op == OP_STATE;
    bool only = node->operand_count > 0;
    for (int j = 0; j < node->operand_count; j++) {
      layered |= a->layered[node->operands[j]];
      bound |= a->bound[node->operands[j]];
      only = only && a->only[node->operands[j]];
    }
    for (int j = 0; j < node->result_count; j++) {
      a->only[node->first_result + j] = only || node->op == OP_PARAM;
      a->layered[node->first_result + j] = layered && bound;
      a->bound[node->first_result + j] = bound;
      a->at[node->first_result + j] = stage;
    }
  }
}

// Copies of forward values, and parameters put together from pieces, are made where they are used. Of several places it
// is the one that needs them first: in the forward the earliest stage, in the backward the last.
static void place_copies(Assign *a, const NodeList *nodes, int *earliest, int *latest) {
  for (int i = nodes->count - 1; i >= 0; i--) {
    const Node *node = graph_node(a->graph, nodes->at[i]);
    if (node->op == OP_MICROBATCH) {
      place_copies(a, &a->graph->regions.at[node->region].nodes, earliest, latest);
      continue;
    }
    int *stage = &a->stages->node[nodes->at[i]], used = -1;
    bool put_together =
        node->result_count == 1 && a->only[node->first_result] && node->op != OP_PACK && !op_leaf(node->op);
    for (int j = 0; j < node->result_count; j++) {
      ValueId value = node->first_result + j;
      used = !node->backward && earliest[value] < INT32_MAX ? earliest[value]
             : latest[value] > used                         ? latest[value]
                                                            : used;
    }
    if ((node->recomputed || put_together) && *stage != STAGE_ANY && used >= 0) {
      *stage = used;
      for (int j = 0; j < node->result_count; j++) {
        a->at[node->first_result + j] = used;
      }
    }
    for (int j = 0; j < node->operand_count; j++) {
      int *late = &latest[node->operands[j]], *early = &earliest[node->operands[j]];
      *late = *stage > *late ? *stage : *late;
      *early = *stage >= 0 && *stage < *early && !node->backward ? *stage : *early;
    }
  }
}

// --- parameters ---

static int persistent_of(const Assign *a, ValueId value) {
  const Node *node = graph_producer(a->graph, value);
  if (!node || (node->op != OP_PARAM && node->op != OP_STATE)) {
    return -1;
  }
  const Persistent *found = graph_persistent(a->graph, node->text);
  return found ? (int)(found - a->graph->persistent.at) : -1;
}

static void hold(Assign *a, const NodeList *nodes) {
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(a->graph, nodes->at[i]);
    if (node->region >= 0 && (node->op == OP_MICROBATCH || node->op == OP_SEGMENT)) {
      hold(a, &a->graph->regions.at[node->region].nodes);
    }
    int stage = a->stages->node[nodes->at[i]];
    for (int j = 0; j < node->operand_count && stage >= 0 && !is_update(a, node) && node->op != OP_PACK; j++) {
      int index = persistent_of(a, node->operands[j]);
      if (index >= 0) {
        int on = stage % a->stages->stages;
        a->stages->owner[index] = a->stages->holders[index] ? a->stages->owner[index] : on;
        a->stages->holders[index] |= 1ull << on;
      }
    }
  }
}

// The optimizer's state is where its parameter is updated.
static void hold_states(Assign *a) {
  const Graph *graph = a->graph;
  Map names = map_create(a->arena);
  for (int i = 0; i < graph->persistent.count; i++) {
    map_put(&names, map_key(graph->persistent.at[i].name), i);
  }
  for (int i = 0; i < graph->packs.count; i++) {  // parameters in pieces are used through their pack alone
    const Pack *pack = &graph->packs.at[i];
    for (int j = 0; j < pack->count; j++) {
      int64_t member = map_get_or(&names, map_key(pack->members[j]), -1);
      if (member >= 0 && !a->stages->holders[member]) {
        a->stages->owner[member] = pack->stage;
        a->stages->holders[member] = 1ull << pack->stage;
      }
    }
  }
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *persistent = &graph->persistent.at[i];
    int64_t like = persistent->like ? map_get_or(&names, map_key(persistent->like), -1) : -1;
    if (like >= 0) {
      a->stages->owner[i] = a->stages->owner[like];
      a->stages->holders[i] = 1ull << a->stages->owner[like];
    } else if (!a->stages->holders[i]) {
      a->stages->holders[i] = 1;
    }
  }
}

Stages *stages_find(Arena *arena, Graph *graph, const Spec *spec) {
  const Pipeline *pipeline = &spec->pipeline;
  if (!pipeline->axis || spec->mesh[pipeline->mesh].size < 2) {
    return NULL;
  }
  Stages *stages = ARENA_NEW(arena, Stages);
  *stages = (Stages){.graph = graph, .stages = (int)spec->mesh[pipeline->mesh].size, .chunks = pipeline->chunks};
  Assign a = {.arena = arena, .graph = graph, .spec = spec, .stages = stages};
  if (!cut(&a)) {
    return NULL;
  }
  stages->node_count = graph->nodes.count;
  stages->node = ARENA_ARRAY(arena, int, graph->nodes.count + 1);
  memset(stages->node, -1, sizeof(int) * (size_t)(graph->nodes.count + 1));
  stages->holders = ARENA_ARRAY(arena, uint64_t, graph->persistent.count + 1);
  stages->owner = ARENA_ARRAY(arena, int, graph->persistent.count + 1);
  a.layered = ARENA_ARRAY(arena, bool, graph->values.count + 1);
  a.bound = ARENA_ARRAY(arena, bool, graph->values.count + 1);
  a.only = ARENA_ARRAY(arena, bool, graph->values.count + 1);
  a.at = ARENA_ARRAY(arena, int, graph->values.count + 1);
  memset(a.at, -1, sizeof(int) * (size_t)(graph->values.count + 1));
  for (int i = 0; i < graph->regions.at[0].nodes.count; i++) {
    const Node *node = graph_node(graph, graph->regions.at[0].nodes.at[i]);
    if (node->op == OP_PARAM || node->op == OP_STATE) {
      a.bound[node->first_result] = true;
      a.only[node->first_result] = node->op == OP_PARAM;
    }
  }
  int *latest = ARENA_ARRAY(arena, int, graph->values.count + 1);
  memset(latest, -1, sizeof(int) * (size_t)(graph->values.count + 1));
  int *earliest = ARENA_ARRAY(arena, int, graph->values.count + 1);
  for (int i = 0; i < graph->values.count; i++) {
    earliest[i] = INT32_MAX;
  }
  assign_nodes(&a, &graph->regions.at[0].nodes);
  place_copies(&a, &graph->regions.at[0].nodes, earliest, latest);
  hold(&a, &graph->regions.at[0].nodes);
  hold_states(&a);
  for (int i = 0; i < graph->persistent.count; i++) {  // now updates can be put where their parameter is
    if (graph->persistent.at[i].value >= 0) {
      a.at[graph->persistent.at[i].value] = stages->owner[i];
    }
  }
  a.settled = true;
  assign_nodes(&a, &graph->regions.at[0].nodes);
  place_copies(&a, &graph->regions.at[0].nodes, earliest, latest);
  return stages;
}
