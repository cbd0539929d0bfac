// graph_copy.c: see graph_copy.h.
#include "compiler/ir/graph_copy.h"

#include <string.h>

enum { ROOM = 256 };  // for what is added to a table before it grows

// A table for `count` entries, with some room behind them.
static void *new_table(Arena *arena, size_t size, int count, int *capacity) {
  *capacity = count + count / 8 + ROOM;
  return arena_alloc(arena, size * (size_t)*capacity);
}

static void *copy_table(Arena *arena, const void *at, size_t size, int count, int *capacity) {
  void *copy = new_table(arena, size, count, capacity);
  if (count > 0) {
    memcpy(copy, at, size * (size_t)count);
  }
  return copy;
}

#define NEW_TABLE(arena, table, wanted) \
  ((table).at = new_table((arena), sizeof *(table).at, (wanted), &(table).capacity), (table).count = (wanted))
#define COPY_TABLE(arena, table) \
  ((table).at = copy_table((arena), (table).at, sizeof *(table).at, (table).count, &(table).capacity))

static void forget_names(Graph *graph) {
  graph->persistent_names = (Map){0};
  graph->persistent_known = 0;
}

Graph *graph_view(const Graph *graph, Arena *arena) {
  Graph *view = arena_copy(arena, graph, sizeof *view);
  view->arena = arena;
  COPY_TABLE(arena, view->persistent);
  if (graph->persistent_known < graph->persistent.count) {
    forget_names(view);
  }
  return view;
}

// --- what is there ---

typedef struct {
  const Graph *graph;
  Graph *made;
  ValueId *value;  // new ids
  NodeId *node;
  bool *region;
} Extract;

static void keep_node(Extract *x, NodeId id) {
  const Node *node = graph_node(x->graph, id);
  x->node[id] = 0;
  for (int i = 0; i < node->result_count; i++) {
    x->value[node->first_result + i] = 0;
  }
}

static void keep_region(Extract *x, RegionId id) {
  const Region *region = &x->graph->regions.at[id];
  x->region[id] = true;
  for (int i = 0; i < region->parameters.count; i++) {
    x->value[region->parameters.at[i]] = 0;
  }
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(x->graph, region->nodes.at[i]);
    keep_node(x, region->nodes.at[i]);
    if (node->region >= 0) {
      keep_region(x, node->region);
    }
  }
}

// The leaf of a tensor of this stage, though this program may not read it.
static NodeId leaf_of(const Graph *graph, const Persistent *tensor) {
  return tensor->value >= 0 ? graph_value(graph, tensor->value)->node : -1;
}

static void keep_all(Extract *x) {
  const Graph *graph = x->graph;
  x->value = ARENA_ARRAY(x->made->arena, ValueId, graph->values.count + 1);
  x->node = ARENA_ARRAY(x->made->arena, NodeId, graph->nodes.count + 1);
  x->region = ARENA_ARRAY(x->made->arena, bool, graph->regions.count + 1);
  memset(x->value, -1, sizeof *x->value * (size_t)graph->values.count);
  memset(x->node, -1, sizeof *x->node * (size_t)graph->nodes.count);
  keep_region(x, 0);
  for (int i = 0; i < graph->persistent.count; i++) {
    const NodeId leaf = leaf_of(graph, &graph->persistent.at[i]);
    if (!graph->persistent.at[i].elsewhere && leaf >= 0) {
      keep_node(x, leaf);
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

// --- as tables without gaps ---

static Sharding *copy_sharding(Arena *arena, const Sharding *sharding) {
  Sharding *copy = arena_copy(arena, sharding, sizeof *copy);
  copy->entries = arena_copy(arena, sharding->entries, sizeof *copy->entries * (size_t)copy->entry_count);
  return copy;
}

static void copy_values(Extract *x) {
  const Graph *graph = x->graph;
  Graph *made = x->made;
  NEW_TABLE(made->arena, made->values, number(x->value, graph->values.count));
  for (int i = 0; i < graph->values.count; i++) {
    if (x->value[i] >= 0) {
      Value *value = &made->values.at[x->value[i]];
      *value = graph->values.at[i];
      value->node = value->node >= 0 ? x->node[value->node] : -1;
      value->sharding = value->sharding ? copy_sharding(made->arena, value->sharding) : NULL;
    }
  }
}

static int32_t *copy_list(const Extract *x, const int32_t *at, int count, const int32_t *moves) {
  int32_t *copy = ARENA_ARRAY(x->made->arena, int32_t, count);
  for (int i = 0; i < count; i++) {
    copy[i] = moves[at[i]];
  }
  return copy;
}

static void copy_nodes(Extract *x) {
  const Graph *graph = x->graph;
  Graph *made = x->made;
  for (int i = 0; i < graph->nodes.count; i++) {
    if (x->node[i] < 0) {
      continue;
    }
    Node *node = &made->nodes.at[x->node[i]];
    *node = graph->nodes.at[i];
    node->source = node->source >= 0 ? x->node[node->source] : -1;
    node->first_result = node->result_count > 0 ? x->value[node->first_result] : 0;
    node->operands = copy_list(x, node->operands, node->operand_count, x->value);
  }
}

#define COPY_LIST(x, list, moves) \
  ((list).at = copy_list((x), (list).at, (list).count, (moves)), (list).capacity = (list).count)

static void copy_regions(Extract *x) {
  Graph *made = x->made;
  COPY_TABLE(made->arena, made->regions);
  for (int i = 0; i < made->regions.count; i++) {
    Region *region = &made->regions.at[i];
    if (!x->region[i]) {
      *region = (Region){0};
      continue;
    }
    COPY_LIST(x, region->nodes, x->node);
    COPY_LIST(x, region->parameters, x->value);
    COPY_LIST(x, region->results, x->value);
  }
}

// By axis: does a value have it?
static bool *axes_of_values(const Graph *graph) {
  bool *any = ARENA_ARRAY(graph->arena, bool, graph->axes.count + 1);
  for (int i = 0; i < graph->values.count; i++) {
    const Shape *shape = &graph->values.at[i].shape;
    for (int a = 0; a < shape->count; a++) {
      any[shape->axis[a]] = true;
    }
  }
  return any;
}

// By persistent tensor: a part of something that is packed with it is here.
static bool *packed_here(const Extract *x) {
  const Graph *graph = x->graph;
  const bool *any = axes_of_values(x->made);
  bool *here = ARENA_ARRAY(x->made->arena, bool, graph->persistent.count + 1);
  for (int i = 0; i < graph->packs.count; i++) {
    const Pack *pack = &graph->packs.at[i];
    for (int j = 0; any[pack->axis] && j < pack->count; j++) {
      here[graph_persistent(graph, pack->members[j]) - graph->persistent.at] = true;
    }
  }
  return here;
}

static void copy_tensors(Extract *x) {
  const Graph *graph = x->graph;
  Graph *made = x->made;
  const bool *packed = packed_here(x);
  NEW_TABLE(made->arena, made->persistent, graph->persistent.count);
  made->persistent.count = 0;
  for (int i = 0; i < graph->persistent.count; i++) {
    Persistent tensor = graph->persistent.at[i];
    const NodeId leaf = leaf_of(graph, &tensor);
    const bool read = leaf >= 0 && x->node[leaf] >= 0;
    if (!tensor.elsewhere || read || packed[i]) {
      tensor.value = read ? x->value[tensor.value] : -1;
      made->persistent.at[made->persistent.count++] = tensor;
    }
  }
}

Graph *graph_extract(const Graph *graph, Arena *arena, GraphMoves *moves) {
  Extract x = {.graph = graph, .made = arena_copy(arena, graph, sizeof *graph)};
  x.made->arena = arena;
  keep_all(&x);
  NEW_TABLE(arena, x.made->nodes, number(x.node, graph->nodes.count));
  copy_values(&x);
  copy_nodes(&x);
  copy_regions(&x);
  copy_tensors(&x);
  forget_names(x.made);
  x.made->axis_names = map_copy(&graph->axis_names, arena);
  COPY_TABLE(arena, x.made->axes);
  COPY_TABLE(arena, x.made->packs);
  x.made->scopes.capacity = x.made->scopes.count;  // the first that is added moves them
  *moves = (GraphMoves){graph->values.count, graph->nodes.count, x.value, x.node};
  return x.made;
}
