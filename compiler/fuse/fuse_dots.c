// fuse_dots.c: one GEMM for dots that share an operand, and one for a sum of dots.
#include <stdlib.h>
#include <string.h>

#include "compiler/fuse/fuse.h"
#include "compiler/ir/dots.h"

// The parameter that a value is, or is rounded from, or is the part of in a pack that is gathered, and may
// be rounded as a whole; -1: it is none.
static ValueId parameter_of(const Graph *graph, ValueId value) {
  value = graph_inside_segment(graph, value);
  const Node *rounded = graph_quantise(graph, value), *node = graph_producer(graph, value);
  if (rounded) {
    return parameter_of(graph, rounded->operands[0]);
  }
  ValueId from = node && node->op == OP_PART ? graph_inside_segment(graph, node->operands[0]) : -1;
  const Node *pack = from >= 0 ? graph_producer(graph, from) : NULL;
  while (pack && (pack->op == OP_ALL_GATHER || pack->op == OP_QUANTISE)) {
    from = graph_inside_segment(graph, pack->operands[0]);
    pack = graph_producer(graph, from);
  }
  value = pack && pack->op == OP_PACK ? pack->operands[node->integer] : value;
  node = graph_producer(graph, value);
  return node && node->op == OP_PARAM ? value : -1;
}

static bool is_parameter(const Graph *graph, ValueId value) {
  return parameter_of(graph, value) >= 0;
}

// --- slices ---

// Is this operand a part of the last axis of a value of the backward, and no matrix of the product, since the axis
// before that is summed over with it, or stays with it?
static bool is_sliced(const Graph *graph, const Node *dot, ValueId operand) {
  const Node *slice = graph_producer(graph, operand);
  if (dot->op != OP_DOT || !slice || slice->op != OP_SLICE || !slice->backward || slice->axis2 < 0) {
    return false;
  }
  const Shape shape = graph_shape(graph, operand);
  const int last = shape.count - 1;
  return last > 0 && shape.axis[last] == slice->axis2 && graph->axes.at[shape.axis[last - 1]].size > 1 &&
         shape_has(&dot->axes, shape.axis[last]) == shape_has(&dot->axes, shape.axis[last - 1]);
}

// What several products read so, as the gradient of queries without that of their positions, is copied once for all of
// them. Each by itself would copy it, or multiply row by row of the axis before the last.
void fuse_slices(Fuser *f) {
  Graph *graph = f->graph;
  const int count = graph->values.count;
  int *readers = ARENA_ARRAY(f->c->arena, int, count + 1);
  ValueId *copies = ARENA_ARRAY(f->c->arena, ValueId, count + 1);
  NodeList out = {0};
  const GraphPlace before = graph_place(graph);
  for (int i = 0; i < f->nodes.count; i++) {
    const Node *node = graph_node(graph, f->nodes.at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      readers[node->operands[j]] += is_sliced(graph, node, node->operands[j]);
    }
  }
  for (int i = 0; i < f->nodes.count; i++) {
    const NodeId id = f->nodes.at[i];
    for (int j = 0; j < graph_node(graph, id)->operand_count; j++) {
      const ValueId operand = graph_node(graph, id)->operands[j];
      if (readers[operand] < 2 || !is_sliced(graph, graph_node(graph, id), operand)) {
        continue;
      }
      if (copies[operand] == 0) {
        graph_follow(graph, graph_producer(graph, operand));
        const Shape shape = graph_shape(graph, operand);
        copies[operand] = graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = shape}, operand);
        array_push(graph->arena, &out, graph_value(graph, copies[operand])->node);
      }
      graph_node(graph, id)->operands[j] = copies[operand];
    }
    array_push(graph->arena, &out, id);
  }
  graph_return(graph, before);
  f->nodes = out;
}

// --- who reads what ---

static void count_uses(Fuser *f) {
  Graph *graph = f->graph;
  f->uses = ARENA_ARRAY(f->c->arena, int, graph->values.count + 1);
  f->rank = ARENA_ARRAY(f->c->arena, int, graph->values.count + 1);
  f->collected = ARENA_ARRAY(f->c->arena, int, graph->values.count + 1);
  f->position = ARENA_ARRAY(f->c->arena, int, graph->nodes.count + 1);
  for (int i = 0; i < graph->persistent.count; i++) {
    if (graph->persistent.at[i].value >= 0) {
      f->rank[graph->persistent.at[i].value] = i;
    }
  }
  for (int i = 0; i < f->nodes.count; i++) {
    const Node *node = graph_node(graph, f->nodes.at[i]);
    f->position[f->nodes.at[i]] = i;
    for (int j = 0; j < node->operand_count; j++) {
      f->uses[node->operands[j]]++;
      f->collected[node->operands[j]] += node->op == OP_PACK || node->op == OP_OUTPUT;
      if (node->op == OP_PACK) {
        f->rank[node->operands[j]] = j;
      }
    }
  }
  const ValueList *results = &graph->regions.at[f->region].results;
  for (int i = 0; i < results->count; i++) {
    f->uses[results->at[i]]++;
    f->collected[results->at[i]]++;
    f->rank[results->at[i]] = i;
  }
}

// Only packs, outputs and the region's results use it: a gradient of a parameter, which nothing here waits for.
static bool only_collected(const Fuser *f, ValueId value) {
  return f->collected[value] == f->uses[value];
}

// --- dots that share an operand ---

typedef struct {
  NodeId node;
  ValueId shared, other, bias;        // bias: -1 without one
  ValueId shared_scale, other_scale;  // of values of 8 bits, else -1
  int rank;
} SharedDot;

// shared: which operand.
static SharedDot shared_dot(const Graph *graph, NodeId id, int shared) {
  const Node *node = graph_node(graph, id);
  const ValueId scale[] = {dots_first_scale(node), dots_second_scale(node)};
  return (SharedDot){.node = id,
                     .shared = node->operands[shared],
                     .other = node->operands[1 - shared],
                     .bias = dots_bias(node, 0),
                     .shared_scale = scale[shared],
                     .other_scale = scale[1 - shared]};
}

// Can they be members of one product? What has 8 bits has one format and one scale in all of them.
static bool go_together(const Graph *graph, const SharedDot *a, const SharedDot *b) {
  return graph_node(graph, a->node)->op == graph_node(graph, b->node)->op && a->shared_scale == b->shared_scale &&
         a->other_scale == b->other_scale &&
         graph_value(graph, a->shared)->type == graph_value(graph, b->shared)->type &&
         graph_value(graph, a->other)->type == graph_value(graph, b->other)->type;
}

// Plain matrix products only: what the two operands share is contracted, and something else is left on both sides.
static bool plain(const Graph *graph, const Node *node, int shared) {
  Shape a = graph_shape(graph, node->operands[shared]), b = graph_shape(graph, node->operands[1 - shared]);
  Shape common = shape_common(a, &b);
  return shape_same_set(&common, &node->axes) && a.count > common.count && b.count > common.count;
}

// Of the forward, or of what the backward computes again of it.
static bool of_forward(const Node *node) {
  return !node->backward || node->recomputed;
}

static int by_rank(const void *a, const void *b) {
  const SharedDot *x = a, *y = b;
  return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank) : x->node - y->node;
}

static void merge_shared(Fuser *f, SharedDot *dots, int count) {
  Graph *graph = f->graph;
  qsort(dots, (size_t)count, sizeof *dots, by_rank);
  ValueId *operands = ARENA_ARRAY(f->c->arena, ValueId, 2 * count + 3);
  operands[0] = dots[0].shared;
  // In the list it stands where the first stood if its operands are parameters, else where the last one stood.
  bool early = is_parameter(graph, dots[0].other);
  int at = f->position[dots[0].node];
  for (int i = 0; i < count; i++) {
    int other = f->position[dots[i].node];
    operands[i + 1] = dots[i].other;
    operands[count + i + 1] = dots[i].bias;
    at = (other < at) == early ? other : at;
  }
  const Node model = *graph_node(graph, dots[0].node);
  graph->span = model.span;
  graph->scope = model.scope;
  graph->backward = model.backward;
  const bool biased = dots[0].bias >= 0, scaled = op_dots_scaled(model.op);
  const int most = (biased ? 2 : 1) * count + 1;
  operands[most] = dots[0].shared_scale;
  operands[most + 1] = dots[0].other_scale;
  ValueId first = graph_add(graph, op_dots_of(biased ? DOTS_BIASED : DOTS_SEVERAL, scaled),
                            (NodeInit){NODE_INIT, .axes = model.axes}, operands, most + (scaled ? 2 : 0));
  NodeId made = graph_value(graph, first)->node;
  graph_node(graph, made)->recomputed = model.recomputed;
  graph_node(graph, made)->apart = model.apart;
  for (int i = 0; i < count; i++) {
    const Node *was = graph_node(graph, dots[i].node);
    Value *value = graph_value(graph, first + i), *old = graph_value(graph, was->first_result);
    value->type = old->type;
    value->name = old->name;
    value->label = old->label;
    value->role = old->role;
    value->span = old->span;
    f->replace[was->first_result] = first + i;
    f->gone[dots[i].node] = true;
  }
  f->nodes.at[at] = made;
}

// Finds, for each shared operand and contraction, the dots to merge. None of them may need another one: what is
// multiplied by parameters needs none of their products, and gradients that are only collected are needed by nothing.
static void find_shared(Fuser *f) {
  Graph *graph = f->graph;
  enum { MOST = 16 };
  Map first_of = map_create(f->c->arena);
  int total = f->nodes.count;
  int *next = ARENA_ARRAY(f->c->arena, int, total * 2 + 2);
  bool *first = ARENA_ARRAY(f->c->arena, bool, total * 2 + 2);  // of those that share an operand
  for (int i = total - 1; i >= 0; i--) {
    const Node *node = graph_node(graph, f->nodes.at[i]);
    if (!op_dots(node->op) || op_dots_sum(node->op) || dots_count(node) > 1) {
      continue;
    }
    for (int s = 0; s < (op_dots_biased(node->op) ? 1 : 2); s++) {
      ValueId other = node->operands[1 - s];
      bool forward = is_parameter(graph, other) && !is_parameter(graph, node->operands[s]) && of_forward(node);
      bool gradient =
          !of_forward(node) && !is_parameter(graph, other) && !is_parameter(graph, node->operands[s]) && s == 1;
      if ((forward || gradient) && plain(graph, node, s)) {
        const ValueId scale = shared_dot(graph, f->nodes.at[i], s).other_scale;
        const uint64_t part = (uint64_t)node->backward << 1 | (uint64_t)node->recomputed;
        const uint64_t key = (uint64_t)(scale + 1) << 33 | (uint64_t)node->operands[s] << 2 | part;
        const int later = (int)map_get_or(&first_of, key, -1);
        next[i * 2 + s] = later;
        first[i * 2 + s] = true;
        if (later >= 0) {
          first[later] = false;
        }
        map_put(&first_of, key, i * 2 + s);
      }
    }
  }
  for (int head = 0; head < total * 2; head++) {
    SharedDot dots[MOST];
    int count = 0;
    for (int at = first[head] ? head : -1; at >= 0 && count < MOST; at = next[at]) {
      NodeId id = f->nodes.at[at / 2];
      const Node *node = graph_node(graph, id);
      const Node *one = count ? graph_node(graph, dots[0].node) : node;
      SharedDot dot = shared_dot(graph, id, at % 2);
      bool same = (!count || go_together(graph, &dots[0], &dot)) && shape_same_set(&node->axes, &one->axes) &&
                  graph_value(graph, node->first_result)->type == graph_value(graph, one->first_result)->type;
      if (f->gone[id] || !same || !(of_forward(node) || only_collected(f, node->first_result))) {
        continue;
      }
      dot.rank = f->rank[of_forward(node) ? parameter_of(graph, dot.other) : node->first_result];
      dots[count++] = dot;
    }
    if (count > 1) {
      merge_shared(f, dots, count);
    }
  }
}

// --- sums of dots ---

static bool collect_sum(const Fuser *f, ValueId value, bool outermost, SharedDot *dots, NodeId *adds, int *count,
                        int *add_count, int most) {
  const Node *node = graph_producer(f->graph, value);
  if (!node || f->gone[graph_value(f->graph, value)->node] || (!outermost && f->uses[value] != 1)) {
    return false;
  }
  NodeId id = graph_value(f->graph, value)->node;
  if (node->op == OP_ADD && *add_count < most) {
    adds[(*add_count)++] = id;
    return collect_sum(f, node->operands[0], false, dots, adds, count, add_count, most) &&
           collect_sum(f, node->operands[1], false, dots, adds, count, add_count, most);
  }
  if ((node->op != OP_DOT && node->op != OP_SCALED_DOT) || *count >= most) {
    return false;
  }
  for (int s = 0; s < 2; s++) {
    if (is_parameter(f->graph, node->operands[1 - s]) && plain(f->graph, node, s)) {
      SharedDot *dot = &dots[(*count)++];
      *dot = shared_dot(f->graph, id, s);
      dot->rank = f->rank[parameter_of(f->graph, dot->other)];
      return true;
    }
  }
  return false;
}

// A product rounds to no narrower format than that of its operands, of which there are those of f32 in a policy of
// bf16.
static bool gives(const Graph *graph, const SharedDot *dot, ValueId sum) {
  const ElementType of = graph_value(graph, dot->shared)->type, type = graph_value(graph, sum)->type;
  return element_type_bytes(of) <= element_type_bytes(type);
}

// Are they one matrix product, of operands side by side? All have the axes of the sum, the same of them as rows.
static bool one_product(const Graph *graph, const SharedDot *dots, int count, ValueId result) {
  const Shape sum = graph_shape(graph, result);
  Shape rows = {0};
  for (int i = 0; i < count; i++) {
    const Node *dot = graph_node(graph, dots[i].node);
    Shape shape = graph_shape(graph, dot->first_result),
          of = shape_minus(graph_shape(graph, dots[i].shared), &dot->axes);
    rows = i ? rows : of;
    if (!shape_same_set(&shape, &sum) || !shape_same_set(&rows, &of) || !go_together(graph, &dots[0], &dots[i]) ||
        !gives(graph, &dots[i], result)) {
      return false;
    }
  }
  return true;
}

static void find_sums(Fuser *f) {
  Graph *graph = f->graph;
  enum { MOST = 8 };
  for (int i = f->nodes.count - 1; i >= 0; i--) {
    NodeId id = f->nodes.at[i];
    if (graph_node(graph, id)->op != OP_ADD || f->gone[id]) {
      continue;
    }
    SharedDot dots[MOST];
    NodeId adds[MOST];
    int count = 0, add_count = 0;
    ValueId result = graph_node(graph, id)->first_result;
    if (!collect_sum(f, result, true, dots, adds, &count, &add_count, MOST) || count < 2 ||
        !one_product(graph, dots, count, result)) {
      continue;
    }
    qsort(dots, (size_t)count, sizeof *dots, by_rank);
    ValueId operands[2 * MOST + 2] = {0};
    for (int j = 0; j < count; j++) {
      operands[2 * j] = dots[j].shared;
      operands[2 * j + 1] = dots[j].other;
      f->gone[dots[j].node] = true;
    }
    for (int j = 0; j < add_count; j++) {
      f->gone[adds[j]] = true;
    }
    operands[2 * count] = dots[0].shared_scale;
    operands[2 * count + 1] = dots[0].other_scale;
    const bool scaled = dots[0].shared_scale >= 0;
    const Node model = *graph_node(graph, id);
    graph->span = model.span;
    graph->scope = model.scope;
    graph->backward = model.backward;
    Shape shape = graph_shape(graph, result);
    ValueId made = graph_add(graph, op_dots_of(DOTS_SUM, scaled), (NodeInit){NODE_INIT, .axes = shape}, operands,
                             2 * count + (scaled ? 2 : 0));
    graph_value(graph, made)->type = graph_value(graph, result)->type;
    f->nodes.at[i] = graph_value(graph, made)->node;
    f->replace[result] = made;
  }
}

// --- order ---

typedef struct {
  NodeList *out;
  bool *listed, *done;  // by node
} Sorting;

static void put_in_order(Fuser *f, Sorting *sorting, NodeId id) {
  if (id < 0 || !sorting->listed[id] || sorting->done[id]) {
    return;
  }
  sorting->done[id] = true;
  const Node *node = graph_node(f->graph, id);
  for (int i = 0; i < node->operand_count; i++) {
    put_in_order(f, sorting, graph_value(f->graph, node->operands[i])->node);
  }
  array_push(f->c->arena, sorting->out, id);
}

// A product that stands where the first of its members stood is behind what all of them need: weights of 8 bits.
static void sort_nodes(Fuser *f) {
  NodeList out = {0};
  Sorting sorting = {.out = &out};
  sorting.listed = ARENA_ARRAY(f->c->arena, bool, f->graph->nodes.count + 1);
  sorting.done = ARENA_ARRAY(f->c->arena, bool, f->graph->nodes.count + 1);
  for (int i = 0; i < f->nodes.count; i++) {
    sorting.listed[f->nodes.at[i]] = true;
  }
  for (int i = 0; i < f->nodes.count; i++) {
    put_in_order(f, &sorting, f->nodes.at[i]);
  }
  f->nodes = out;
}

void fuse_dots(Fuser *f) {
  Graph *graph = f->graph;
  fuse_tables(f);
  count_uses(f);
  graph_rewrite(graph, f->region);  // new nodes are put into f->nodes by hand
  find_sums(f);
  find_shared(f);
  int count = 0;
  for (int i = 0; i < f->nodes.count; i++) {
    if (!f->gone[f->nodes.at[i]]) {
      f->nodes.at[count++] = f->nodes.at[i];
    }
  }
  f->nodes.count = count;
  graph_replace_values(graph, f->replace);
  sort_nodes(f);
}
