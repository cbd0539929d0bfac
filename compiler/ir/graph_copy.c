// graph_copy.c: copies of whole graphs, and tables without gaps.
#include "compiler/ir/graph_copy.h"

#include <string.h>

enum { ROOM = 256 };  // for what is added to a copy before its tables grow

// A table with some room behind it.
static void *copy_table(Arena *arena, const void *at, size_t size, int count, int *capacity) {
  *capacity = count + count / 8 + ROOM;
  char *copy = arena_alloc(arena, size * (size_t)*capacity);
  if (count > 0) {
    memcpy(copy, at, size * (size_t)count);
  }
  return copy;
}

#define COPY_TABLE(arena, table) \
  ((table).at = copy_table((arena), (table).at, sizeof *(table).at, (table).count, &(table).capacity))

static void *copy_list(Arena *arena, const void *at, int count, int *capacity) {
  *capacity = count;
  return count > 0 ? arena_copy(arena, at, sizeof(int32_t) * (size_t)count) : NULL;
}

static Sharding *copy_sharding(Arena *arena, const Sharding *sharding) {
  Sharding *copy = arena_copy(arena, sharding, sizeof *copy);
  copy->entries = arena_copy(arena, sharding->entries, sizeof *copy->entries * (size_t)copy->entry_count);
  return copy;
}

static void copy_operands(Graph *graph) {
  size_t count = 0;
  for (int i = 0; i < graph->nodes.count; i++) {
    count += (size_t)graph->nodes.at[i].operand_count;
  }
  ValueId *all = arena_alloc(graph->arena, sizeof *all * (count + 1));
  for (int i = 0; i < graph->nodes.count; i++) {
    Node *node = &graph->nodes.at[i];
    for (int j = 0; j < node->operand_count; j++) {
      all[j] = node->operands[j];
    }
    node->operands = all;
    all += node->operand_count;
  }
}

Graph *graph_copy(const Graph *graph, Arena *arena) {
  Graph *copy = arena_copy(arena, graph, sizeof *copy);
  copy->arena = arena;
  copy->axis_names = map_copy(&graph->axis_names, arena);
  COPY_TABLE(arena, copy->axes);
  COPY_TABLE(arena, copy->values);
  COPY_TABLE(arena, copy->nodes);
  COPY_TABLE(arena, copy->regions);
  COPY_TABLE(arena, copy->persistent);
  COPY_TABLE(arena, copy->packs);
  copy->scopes.capacity = copy->scopes.count;  // the first that is added moves them
  copy_operands(copy);
  for (int i = 0; i < copy->values.count; i++) {
    Value *value = &copy->values.at[i];
    value->sharding = value->sharding ? copy_sharding(arena, value->sharding) : NULL;
  }
  for (int i = 0; i < copy->regions.count; i++) {
    Region *region = &copy->regions.at[i];
    region->nodes.at = copy_list(arena, region->nodes.at, region->nodes.count, &region->nodes.capacity);
    region->parameters.at =
        copy_list(arena, region->parameters.at, region->parameters.count, &region->parameters.capacity);
    region->results.at = copy_list(arena, region->results.at, region->results.count, &region->results.capacity);
  }
  return copy;
}

// --- without gaps ---

typedef struct {
  Graph *graph;
  ValueId *value;
  NodeId *node;
  bool *region;
} Compact;

static void keep_node(Compact *k, NodeId id) {
  const Node *node = graph_node(k->graph, id);
  k->node[id] = 0;
  for (int i = 0; i < node->result_count; i++) {
    k->value[node->first_result + i] = 0;
  }
}

static void keep_region(Compact *k, RegionId id) {
  const Region *region = &k->graph->regions.at[id];
  k->region[id] = true;
  for (int i = 0; i < region->parameters.count; i++) {
    k->value[region->parameters.at[i]] = 0;
  }
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(k->graph, region->nodes.at[i]);
    keep_node(k, region->nodes.at[i]);
    if (node->region >= 0) {
      keep_region(k, node->region);
    }
  }
}

static int number(int32_t *ids, int count) {
  int next = 0;
  for (int i = 0; i < count; i++) {
    ids[i] = ids[i] >= 0 ? next++ : -1;
  }
  return next;
}

static void move_values(Compact *k, int count) {
  Graph *graph = k->graph;
  for (int i = 0; i < graph->values.count; i++) {
    if (k->value[i] >= 0) {
      Value *value = &graph->values.at[k->value[i]];
      *value = graph->values.at[i];
      value->node = value->node >= 0 ? k->node[value->node] : -1;
    }
  }
  graph->values.count = count;
}

static void move_nodes(Compact *k, int count) {
  Graph *graph = k->graph;
  for (int i = 0; i < graph->nodes.count; i++) {
    if (k->node[i] < 0) {
      continue;
    }
    Node *node = &graph->nodes.at[k->node[i]];
    *node = graph->nodes.at[i];
    node->source = node->source >= 0 ? k->node[node->source] : -1;
    node->first_result = node->result_count > 0 ? k->value[node->first_result] : node->first_result;
    for (int j = 0; j < node->operand_count; j++) {
      node->operands[j] = k->value[node->operands[j]];
    }
  }
  graph->nodes.count = count;
}

static void move_list(int32_t *at, int count, const int32_t *moves) {
  for (int i = 0; i < count; i++) {
    at[i] = moves[at[i]];
  }
}

GraphMoves graph_compact(Graph *graph) {
  const int values = graph->values.count, nodes = graph->nodes.count;
  Compact k = {.graph = graph};
  k.value = ARENA_ARRAY(graph->arena, ValueId, values + 1);
  k.node = ARENA_ARRAY(graph->arena, NodeId, nodes + 1);
  k.region = ARENA_ARRAY(graph->arena, bool, graph->regions.count + 1);
  memset(k.value, -1, sizeof *k.value * (size_t)values);
  memset(k.node, -1, sizeof *k.node * (size_t)nodes);
  keep_region(&k, 0);
  for (int i = 0; i < graph->persistent.count; i++) {
    const ValueId value = graph->persistent.at[i].value;
    if (value >= 0 && graph_value(graph, value)->node >= 0) {
      keep_node(&k, graph_value(graph, value)->node);
    }
  }
  const int kept_values = number(k.value, values), kept_nodes = number(k.node, nodes);
  move_values(&k, kept_values);
  move_nodes(&k, kept_nodes);
  for (int i = 0; i < graph->regions.count; i++) {
    Region *region = &graph->regions.at[i];
    if (!k.region[i]) {
      *region = (Region){0};
      continue;
    }
    move_list(region->nodes.at, region->nodes.count, k.node);
    move_list(region->parameters.at, region->parameters.count, k.value);
    move_list(region->results.at, region->results.count, k.value);
  }
  for (int i = 0; i < graph->persistent.count; i++) {
    Persistent *tensor = &graph->persistent.at[i];
    tensor->value = tensor->value >= 0 ? k.value[tensor->value] : -1;
  }
  return (GraphMoves){values, nodes, k.value, k.node};
}
