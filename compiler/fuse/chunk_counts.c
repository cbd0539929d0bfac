// chunk_counts.c: sums of inputs alone out of a kernel that does more.
//
// The count of a masked_mean often stands in the kernel that sums the losses, since both read the mask; but gradients
// of logits need it, and would have to wait for the losses of all rows. In a kernel of its own it comes before all of
// them.
#include <string.h>

#include "compiler/fuse/chunk.h"

typedef struct {
  Graph *graph;
  Map inside;  // nodes of the kernel
  Map copies;  // value to its copy in the new kernel
} Counts;

static bool is_inside(const Counts *counts, ValueId value) {
  NodeId maker = graph_value(counts->graph, value)->node;
  return maker >= 0 && map_get_or(&counts->inside, (uint64_t)maker, 0) != 0;
}

// Elementwise from inputs and parameters.
static bool of_leaves(const Counts *counts, ValueId value) {
  const Node *node = graph_producer(counts->graph, value);
  if (!is_inside(counts, value)) {
    return node && op_leaf(node->op);
  }
  bool good = op_free(node->op) || op_elementwise(node->op);
  for (int i = 0; i < node->operand_count && good; i++) {
    good = of_leaves(counts, node->operands[i]);
  }
  return good;
}

static ValueId copy(Counts *counts, ValueId value) {
  int64_t known = map_get_or(&counts->copies, (uint64_t)value, -1);
  if (known >= 0 || !is_inside(counts, value)) {
    return known >= 0 ? (ValueId)known : value;
  }
  NodeId id = graph_value(counts->graph, value)->node;
  ValueId operands[3];
  int count = graph_node(counts->graph, id)->operand_count;
  for (int i = 0; i < count; i++) {
    operands[i] = copy(counts, graph_node(counts->graph, id)->operands[i]);
  }
  ValueId made = graph_node(counts->graph, graph_clone(counts->graph, id, operands))->first_result;
  map_put(&counts->copies, (uint64_t)value, made);
  return made;
}

static ValueId new_kernel(Graph *graph, const Node *model, RegionId region, Shape space, int64_t integer) {
  graph->span = model->span;
  graph->scope = model->scope;
  graph->backward = model->backward;
  graph->source = model->source;
  return graph_add0(graph, OP_GROUP, (NodeInit){NODE_INIT, .region = region, .axes = space, .integer = integer});
}

// The sum in a kernel of its own; returns what stands for it.
static ValueId count_apart(Counts *counts, const Node *group, ValueId sum) {
  Graph *graph = counts->graph;
  RegionId outer = graph->region, inner = graph_region(graph);
  Shape space = graph_shape(graph, graph_producer(graph, sum)->operands[0]);
  graph->region = inner;
  ValueId made = copy(counts, sum);
  array_push(graph->arena, &graph->regions.at[inner].results, made);
  graph->region = outer;
  return new_kernel(graph, group, inner, space, 0);
}

static bool is_count(const Counts *counts, ValueId value) {
  const Node *node = graph_producer(counts->graph, value);
  return is_inside(counts, value) && node->op == OP_SUM && graph_shape(counts->graph, value).count == 0 &&
         of_leaves(counts, node->operands[0]);
}

// The nodes of a region with what was made in place of one of them.
static NodeList in_place(Graph *graph, NodeList nodes, NodeId id, const NodeList *made) {
  NodeList order = {0};
  for (int i = 0; i < nodes.count; i++) {
    for (int j = 0; nodes.at[i] == id && j < made->count; j++) {
      array_push(graph->arena, &order, made->at[j]);
    }
    if (nodes.at[i] != id) {
      array_push(graph->arena, &order, nodes.at[i]);
    }
  }
  return order;
}

// The kernel again, without what has gone out of it.
static ValueId rest_of_kernel(Counts *counts, const Node *group, const ValueList *kept, const Map *gone) {
  Graph *graph = counts->graph;
  const NodeList nodes = graph->regions.at[group->region].nodes;
  NodeList left = {0};
  for (int i = 0; i < nodes.count; i++) {
    if (map_get_or(gone, (uint64_t)graph_node(graph, nodes.at[i])->first_result, -1) < 0) {
      array_push(graph->arena, &left, nodes.at[i]);
    }
  }
  graph->regions.at[group->region].nodes = left;
  graph->regions.at[group->region].results = *kept;
  return new_kernel(graph, group, group->region, group->axes, group->integer);
}

bool chunk_counts(Compilation *c, RegionId region, NodeId id) {
  Graph *graph = c->graph;
  Counts counts = {graph, map_create(c->arena), map_create(c->arena)};
  const Node group = *graph_node(graph, id);
  const NodeList nodes = graph->regions.at[group.region].nodes, before = graph_rewrite(graph, region);
  const ValueList results = graph->regions.at[group.region].results;
  ValueList kept = {0};
  Map gone = map_create(c->arena);  // value in the kernel to what stands for it
  for (int i = 0; i < nodes.count; i++) {
    map_put(&counts.inside, (uint64_t)nodes.at[i], 1);
  }
  for (int i = 0; i < results.count; i++) {
    if (is_count(&counts, results.at[i])) {
      map_put(&gone, (uint64_t)results.at[i], count_apart(&counts, &group, results.at[i]));
    } else {
      array_push(graph->arena, &kept, results.at[i]);
    }
  }
  if (kept.count == 0 || kept.count == results.count) {
    graph->regions.at[region].nodes = before;
    return false;
  }
  ValueId next = rest_of_kernel(&counts, &group, &kept, &gone);
  ValueId *replace = ARENA_ARRAY(c->arena, ValueId, graph->values.count + 1);
  memset(replace, -1, sizeof *replace * (size_t)(graph->values.count + 1));
  for (int i = 0; i < results.count; i++) {
    int64_t apart = map_get_or(&gone, (uint64_t)results.at[i], -1);
    replace[group.first_result + i] = apart >= 0 ? (ValueId)apart : next++;
  }
  const NodeList made = graph->regions.at[region].nodes;
  graph->regions.at[region].nodes = in_place(graph, before, id, &made);
  graph_replace_values(graph, replace);
  return true;
}
