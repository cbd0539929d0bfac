// halo.c: windows of a few positions along an axis that is cut over ranks: what they need of neighbours alone travels.
//
// Needs shapes of one rank. A short convolution reads each position and the few before it, its gradient the few behind.
// These are one copy with zeros around it, read from several places; shard has it made of all positions, gathered:
//   whole = all_gather(x);  padded = pad(whole, so many before);  x_t = shard(slice(padded from t))
// Of those a rank reads its own, the last of the rank before it and the first of the one behind it:
//   ends = all_gather(the last of x);  before = those of rank - 1, or 0;  near = concat(before, x, behind)
//   x_t = slice(near from t)
// So nothing is sent but the ends, and nothing is kept of what belongs to others but these.
#include <string.h>

#include "compiler/pass/compilation.h"

enum { MOST_RANKS = 32 };  // each is an operand of a kernel

typedef struct {
  Compilation *c;
  Graph *graph;
  int *uses;         // by value: nodes and results of regions that read it
  int *good;         // by value: those of them that the rewriting takes away
  ValueId *near;     // by value of a pad that is replaced: what stands in its place; -1: none
  ValueId *replace;  // by value, of those that there were
  Map ranks;         // by region, mesh axis and coordinate: whether this rank has it
} Halo;

static const Node *made_by(const Halo *h, ValueId value, Op op) {
  const Node *node = graph_producer(h->graph, value);
  return node && node->op == op ? node : NULL;
}

// --- what is a window ---

static int64_t size_of(const Halo *h, AxisId axis) {
  return h->graph->axes.at[axis].size;
}

// How many positions a pad has in front, and how many behind.
static void reach_of(const Halo *h, const Node *pad, int64_t *before, int64_t *behind) {
  *before = pad->integer;
  *behind = size_of(h, pad->axis2) - size_of(h, pad->axis) - pad->integer;
}

// One mesh axis cuts the gathered axis into equal blocks, one behind the other, none shorter than what a window reads.
static bool is_cut_evenly(const Halo *h, const Node *gather, const Node *pad) {
  const Axis *part = &h->graph->axes.at[gather->axis];
  const uint32_t mesh = (uint32_t)gather->integer;
  const int64_t ranks = h->c->spec->mesh[mesh ? __builtin_ctz(mesh) : 0].size;
  int64_t before, behind;
  reach_of(h, pad, &before, &behind);
  return mesh && !(mesh & (mesh - 1)) && ranks <= MOST_RANKS && part->mesh == mesh && !part->zigzag &&
         gather->axis2 == pad->axis && part->size * ranks == size_of(h, gather->axis2) && before <= part->size &&
         behind <= part->size && behind >= 0;
}

// The pad that a slice reads, if it is one of a gathered value; and the slice that a shard reads.
static const Node *pad_of(const Halo *h, const Node *slice) {
  const Node *pad = slice->op == OP_SLICE ? made_by(h, slice->operands[0], OP_PAD) : NULL;
  const Node *gather = pad && pad->axis >= 0 ? made_by(h, pad->operands[0], OP_ALL_GATHER) : NULL;
  return gather && is_cut_evenly(h, gather, pad) && slice->axis == pad->axis2 && slice->axis2 >= 0 &&
                 size_of(h, slice->axis2) == size_of(h, pad->axis)
             ? pad
             : NULL;
}

static const Node *slice_of(const Halo *h, const Node *shard) {
  const Node *slice = shard->op == OP_SHARD ? made_by(h, shard->operands[0], OP_SLICE) : NULL;
  const Node *pad = slice ? pad_of(h, slice) : NULL;
  const Node *gather = pad ? graph_producer(h->graph, pad->operands[0]) : NULL;
  const Axis *part = gather ? &h->graph->axes.at[shard->axis2] : NULL;  // a pad may go to an axis of another form
  return gather && shard->integer == gather->integer && shard->axis == slice->axis2 && !part->zigzag &&
                 part->size == size_of(h, gather->axis)
             ? slice
             : NULL;
}

// Is a value read by nothing but what goes?
static bool goes(const Halo *h, ValueId value) {
  return h->uses[value] > 0 && h->good[value] == h->uses[value];
}

typedef bool Find(Halo *h, const Node *node);

// Counts, of the operand of a node that goes, this reader.
static bool count_good(Halo *h, const Node *node, bool goes_too) {
  if (goes_too) {
    h->good[node->operands[0]]++;
  }
  return goes_too;
}

static bool find_slice(Halo *h, const Node *node) {
  return count_good(h, node, slice_of(h, node) != NULL);
}

static bool find_pad(Halo *h, const Node *node) {
  return count_good(h, node, node->op == OP_SLICE && pad_of(h, node) && goes(h, node->first_result));
}

static bool find_gather(Halo *h, const Node *node) {
  return count_good(h, node,
                    node->op == OP_PAD && made_by(h, node->operands[0], OP_ALL_GATHER) && goes(h, node->first_result));
}

static bool find_all(Halo *h, RegionId region, Find *find) {
  const NodeList *nodes = &h->graph->regions.at[region].nodes;
  bool any = false;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(h->graph, nodes->at[i]);
    any |= find(h, node);
    any |= op_body(node->op) && find_all(h, node->region, find);
  }
  return any;
}

static bool is_window(const Halo *h, const Node *pad) {
  return pad->op == OP_PAD && goes(h, pad->first_result) && made_by(h, pad->operands[0], OP_ALL_GATHER) &&
         goes(h, pad->operands[0]);
}

// --- what stands in its place ---

// Is this the rank with that coordinate? Once for all windows of a region.
static ValueId is_rank(Halo *h, const Node *gather, int64_t coordinate) {
  Graph *graph = h->graph;
  const int mesh = __builtin_ctz((uint32_t)gather->integer);
  const uint64_t key[] = {(uint64_t)graph->region, (uint64_t)mesh, (uint64_t)coordinate};
  int64_t known;
  if (!map_get_bytes(&h->ranks, key, sizeof key, &known)) {
    const NodeInit init = {NODE_INIT, .text = gather->text, .integer = mesh};
    const ValueId here = graph_add0(graph, OP_COORDINATE, init);
    known = graph_op2(graph, OP_EQUAL, here, graph_integer(graph, coordinate));
    map_put_bytes(&h->ranks, key, sizeof key, known);
  }
  return (ValueId)known;
}

// What the rank at this distance has given, of those of all along `sources`; 0 where there is none. One kernel chooses.
static ValueId of_rank(Halo *h, const Node *gather, ValueId all, AxisId sources, int distance) {
  Graph *graph = h->graph;
  const ElementType real = graph->real;
  const int64_t ranks = size_of(h, sources);
  graph->real = graph_value(graph, all)->type;
  ValueId chosen = graph_real(graph, 0);
  graph->real = real;
  for (int64_t to = 0; to < ranks; to++) {
    const int64_t from = to + distance;
    if (from >= 0 && from < ranks) {
      const NodeInit one = {NODE_INIT, .axis = sources, .integer = from};
      const ValueId given = graph_add1(graph, OP_SLICE, one, all);
      chosen = graph_op3(graph, OP_WHERE, is_rank(h, gather, to), given, chosen);
    }
  }
  return chosen;
}

// `count` positions of x from `first` on, of the rank at this distance; 0 where there is none.
static ValueId of_neighbour(Halo *h, const Node *gather, ValueId x, int64_t first, int64_t count, int distance,
                            AxisId *axis) {
  Graph *graph = h->graph;
  const int mesh = __builtin_ctz((uint32_t)gather->integer);
  const int64_t ranks = h->c->spec->mesh[mesh].size;
  const AxisId sources = graph_axis(graph, name_format(graph->names, "neighbours@%s", gather->text), ranks);
  const AxisId source = graph_axis(graph, name_format(graph->names, "neighbour@%s", gather->text), 1);
  graph->axes.at[source].whole = sources;
  graph->axes.at[source].mesh = (uint32_t)gather->integer;
  const AxisId end = graph_axis(graph, name_format(graph->names, "%s.end", graph->axes.at[gather->axis].name), count);
  *axis = graph_axis(graph, name_format(graph->names, "%s.near", graph->axes.at[gather->axis].name), count);
  const NodeInit cut = {NODE_INIT, .axis = gather->axis, .axis2 = end, .integer = first};
  ValueId value = graph_add1(graph, OP_SLICE, cut, x);
  const NodeInit own = {NODE_INIT, .axis = end, .axes = {2, {source, *axis}}};
  value = graph_add1(graph, OP_SPLIT, own, value);
  const NodeInit all = {NODE_INIT, .text = gather->text, .integer = gather->integer, .axis = source, .axis2 = sources};
  value = graph_add1(graph, OP_ALL_GATHER, all, value);
  graph_producer(graph, value)->why = gather->why;
  graph_producer(graph, value)->rule = gather->rule;
  graph_value(graph, value)->name = graph_value(graph, x)->name;
  return of_rank(h, gather, value, sources, distance);
}

static ValueId make_near(Halo *h, const Node *pad) {
  Graph *graph = h->graph;
  const Node gather = *graph_producer(graph, pad->operands[0]);
  const ValueId x = gather.operands[0];
  const int64_t size = size_of(h, gather.axis);
  int64_t before, behind;
  reach_of(h, pad, &before, &behind);
  ValueId parts[3];
  Shape axes = {0};
  if (before > 0) {
    parts[axes.count] = of_neighbour(h, &gather, x, size - before, before, -1, &axes.axis[axes.count]);
    axes.count++;
  }
  parts[axes.count] = x;
  axes.axis[axes.count++] = gather.axis;
  if (behind > 0) {
    parts[axes.count] = of_neighbour(h, &gather, x, 0, behind, 1, &axes.axis[axes.count]);
    axes.count++;
  }
  const AxisId reach = graph_axis(graph, name_format(graph->names, "%s.reach", graph->axes.at[gather.axis].name),
                                  size + before + behind);
  return graph_add(graph, OP_CONCAT, (NodeInit){NODE_INIT, .axes = axes, .axis2 = reach}, parts, axes.count);
}

// New nodes are what those were that they stand for.
static void mark_new(const Halo *h, int from, const Node *like) {
  for (int i = from; i < h->graph->nodes.count; i++) {
    graph_node(h->graph, i)->recomputed = like->recomputed;
    graph_node(h->graph, i)->apart = like->apart;
  }
}

static void rewrite(Halo *h, RegionId region) {
  Graph *graph = h->graph;
  const NodeList old = graph_rewrite(graph, region);
  for (int i = 0; i < old.count; i++) {
    const Node node = *graph_node(graph, old.at[i]);
    const Node *slice = slice_of(h, &node), *pad = slice ? pad_of(h, slice) : NULL;
    const int from = graph->nodes.count;
    graph->region = region;
    if (is_window(h, &node)) {
      graph_follow(graph, &node);
      graph->role = graph_value(graph, node.operands[0])->role;
      h->near[node.first_result] = make_near(h, &node);
      mark_new(h, from, &node);
    } else if (pad && h->near[pad->first_result] >= 0) {
      graph_follow(graph, &node);
      const ValueId near = h->near[pad->first_result];
      const Shape shape = graph_shape(graph, near);
      AxisId reach = -1;
      for (int a = 0; a < shape.count; a++) {
        const AxisId axis = shape.axis[a];
        reach = shape_has(&graph_value(graph, node.first_result)->shape, axis) ? reach : axis;
      }
      const NodeInit init = {NODE_INIT, .axis = reach, .axis2 = node.axis2, .integer = slice->integer};
      h->replace[node.first_result] = graph_add1(graph, OP_SLICE, init, near);
      graph_value(graph, h->replace[node.first_result])->name = graph_value(graph, node.first_result)->name;
      mark_new(h, from, &node);
    } else {
      array_push(graph->arena, &graph->regions.at[region].nodes, old.at[i]);
      if (op_body(node.op)) {
        rewrite(h, node.region);
      }
    }
  }
}

bool pass_halo(Compilation *c) {
  Graph *graph = c->graph;
  Halo h = {.c = c, .graph = graph, .ranks = map_create(c->arena)};
  const int count = graph->values.count;
  h.uses = ARENA_ARRAY(c->arena, int, count + 1);
  h.good = ARENA_ARRAY(c->arena, int, count + 1);
  if (c->spec->mesh_count == 0 || !find_all(&h, 0, find_slice)) {
    return pass_changed_nothing(c);
  }
  graph_count_uses(graph, 0, h.uses);
  if (!find_all(&h, 0, find_pad) || !find_all(&h, 0, find_gather)) {
    return pass_changed_nothing(c);
  }
  h.near = ARENA_ARRAY(c->arena, ValueId, count + 1);
  h.replace = ARENA_ARRAY(c->arena, ValueId, count + 1);
  memset(h.near, -1, sizeof *h.near * (size_t)(count + 1));
  memset(h.replace, -1, sizeof *h.replace * (size_t)(count + 1));
  const GraphPlace before = graph_place(graph);
  rewrite(&h, 0);
  ValueId *replace = ARENA_ARRAY(c->arena, ValueId, graph->values.count + 1);  // of the new ones too
  memset(replace, -1, sizeof *replace * (size_t)(graph->values.count + 1));
  memcpy(replace, h.replace, sizeof *replace * (size_t)count);
  graph_replace_values(graph, replace);
  graph_return(graph, before);
  graph_remove_dead(graph);
  return true;
}
