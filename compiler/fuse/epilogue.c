// epilogue.c: which biases matrix products add by themselves.
//
// Needs shapes of one rank; comes before copies, which keep the cast biases from step to step, and before fuse. A bias
// is a parameter with the axes that the result of a dot has from its weight, and nothing else reads that result.
// Whoever reads the sum in a kernel adds the bias there for nothing; where something else reads it (attention, another
// dot, a collective), the sum would be a kernel of its own, and the product adds the bias instead: to its unrounded
// sums, the bias itself being rounded to the format of the result.
//
// Dots that share an operand will be one product: they add their biases all together or not at all.
#include <string.h>

#include "compiler/ir/dots.h"
#include "compiler/pass/compilation.h"
#include "compiler/shard/shard.h"

// Facts about the targets: the formats of results to which products add a bias at no cost of memory traffic. cuBLASLt
// documents f16, bf16 and f32; for f64 the CUDA backend may have to write the bias first, which moves as much as a
// kernel of its own would. Of operands of 8 bits, f16 and bf16: to a result in f32 cuBLASLt adds none in f32.
static const ElementType biased_formats[] = {TYPE_F16, TYPE_BF16, TYPE_F32, TYPE_F64};
static const ElementType biased_formats_scaled[] = {TYPE_F16, TYPE_BF16};

typedef struct {
  NodeId dot, first_add;
  ValueId shared, weight, bias;
  ValueId shared_scale, weight_scale;  // of values of 8 bits, else -1
  bool biased, wanted;  // its bias may be added by the product; something that is no kernel reads the sum
  int next;             // of those with this shared operand, or -1
} Candidate;

typedef struct {
  Compilation *c;
  Graph *graph;
  ARRAY(Candidate) candidates;  // dots of the region
  Map by_shared;                // a shared operand to the last of them
  int value_count;              // of the graph at first; tables by value hold so many
  NodeId *reader;               // lists of the nodes that read a value, of all regions
  int *next_reader, *first_reader;
  bool *result;      // by value: a result of a region
  int *order;        // by node: where it stands in its region
  RegionId *home;    // by node: its region
  ValueId *replace;  // by value
} Epilogues;

static bool format_known(const Node *dot, ElementType type) {
  const bool scaled = op_dots_scaled(dot->op);
  const ElementType *formats = scaled ? biased_formats_scaled : biased_formats;
  const size_t bytes = scaled ? sizeof biased_formats_scaled : sizeof biased_formats;
  for (size_t i = 0; i < bytes / sizeof *formats; i++) {
    if (formats[i] == type) {
      return true;
    }
  }
  return false;
}

// A parameter, or this rank's part of one, or one that ranks have gathered; rounded or not.
static bool is_parameter(const Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  while (node && op_same(node->op)) {
    node = graph_producer(graph, node->operands[0]);
  }
  if (node && node->op == OP_PACK) {
    node = graph_producer(graph, node->operands[0]);
  }
  return node && node->op == OP_PARAM;
}

// --- who reads what ---

static int count_operands(const Graph *graph, RegionId region) {
  const NodeList *nodes = &graph->regions.at[region].nodes;
  int count = 0;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    count += node->operand_count + (node->region >= 0 ? count_operands(graph, node->region) : 0);
  }
  return count;
}

static int list_readers(Epilogues *e, RegionId region, int at) {
  const Region *inside = &e->graph->regions.at[region];
  for (int i = 0; i < inside->nodes.count; i++) {
    const NodeId id = inside->nodes.at[i];
    const Node *node = graph_node(e->graph, id);
    e->order[id] = i;
    e->home[id] = region;
    for (int j = 0; j < node->operand_count; j++, at++) {
      e->reader[at] = id;
      e->next_reader[at] = e->first_reader[node->operands[j]];
      e->first_reader[node->operands[j]] = at;
    }
    at = node->region >= 0 ? list_readers(e, node->region, at) : at;
  }
  for (int i = 0; i < inside->results.count; i++) {
    e->result[inside->results.at[i]] = true;
  }
  return at;
}

static Epilogues epilogues_start(Compilation *c) {
  Graph *graph = c->graph;
  const int operands = count_operands(graph, 0) + 1, nodes = graph->nodes.count + 1, values = graph->values.count + 1;
  Epilogues e = {.c = c, .graph = graph, .value_count = graph->values.count};
  e.reader = ARENA_ARRAY(c->arena, NodeId, operands);
  e.next_reader = ARENA_ARRAY(c->arena, int, operands);
  e.first_reader = ARENA_ARRAY(c->arena, int, values);
  e.result = ARENA_ARRAY(c->arena, bool, values);
  e.order = ARENA_ARRAY(c->arena, int, nodes);
  e.home = ARENA_ARRAY(c->arena, RegionId, nodes);
  e.replace = ARENA_ARRAY(c->arena, ValueId, values * 2 + 64);
  memset(e.first_reader, -1, sizeof *e.first_reader * (size_t)values);
  memset(e.home, -1, sizeof *e.home * (size_t)nodes);
  memset(e.replace, -1, sizeof *e.replace * (size_t)(values * 2 + 64));
  list_readers(&e, 0, 0);
  return e;
}

// Must it lie in memory, whatever kernels there are?
static bool read_outside_kernels(const Epilogues *e, ValueId value) {
  bool found = e->result[value];
  for (int at = e->first_reader[value]; at >= 0 && !found; at = e->next_reader[at]) {
    const Node *node = graph_node(e->graph, e->reader[at]);
    found = op_view(node->op) ? read_outside_kernels(e, node->first_result) : !op_fusable(node->op);
  }
  return found;
}

// --- dots and their biases ---

// The bias that all readers of a dot's result add to it, where they stand beside it: -1 if there is none.
static ValueId added_bias(const Epilogues *e, NodeId dot, NodeId *first_add) {
  const Graph *graph = e->graph;
  const ValueId result = graph_node(graph, dot)->first_result;
  const Value *value = graph_value(graph, result);
  ValueId bias = -1;
  for (int at = e->first_reader[result]; at >= 0; at = e->next_reader[at]) {
    const NodeId id = e->reader[at];
    const Node *add = graph_node(graph, id);
    if (add->op != OP_ADD || e->home[id] != e->home[dot] || add->operands[0] == add->operands[1]) {
      return -1;
    }
    const ValueId other = add->operands[add->operands[0] == result];
    const Value *sum = graph_value(graph, add->first_result);
    if ((bias >= 0 && bias != other) || sum->type != value->type || !shape_same_set(&sum->shape, &value->shape)) {
      return -1;
    }
    *first_add = bias < 0 || e->order[id] < e->order[*first_add] ? id : *first_add;
    bias = other;
  }
  return e->result[result] ? -1 : bias;
}

// The axes that only one operand gives the result; nothing if the dot is one of a batch.
static Shape own_axes(const Graph *graph, const Node *dot, int operand) {
  Shape a = graph_shape(graph, dot->operands[operand]), b = graph_shape(graph, dot->operands[1 - operand]);
  Shape common = shape_common(a, &b);
  return shape_same_set(&common, &dot->axes) ? shape_minus(a, &dot->axes) : (Shape){0};
}

static bool any_add_wanted(const Epilogues *e, ValueId result) {
  bool wanted = false;
  for (int at = e->first_reader[result]; at >= 0 && !wanted; at = e->next_reader[at]) {
    wanted = read_outside_kernels(e, graph_node(e->graph, e->reader[at])->first_result);
  }
  return wanted;
}

static void consider(Epilogues *e, NodeId id) {
  const Graph *graph = e->graph;
  const Node *dot = graph_node(graph, id);
  int weight = is_parameter(graph, dot->operands[0]) ? 0 : 1;
  Candidate candidate = {.dot = id, .first_add = -1};
  candidate.bias = added_bias(e, id, &candidate.first_add);
  Shape columns = own_axes(graph, dot, weight), rows = own_axes(graph, dot, 1 - weight);
  candidate.weight = dot->operands[weight];
  candidate.shared = dot->operands[1 - weight];
  candidate.shared_scale = weight ? dots_first_scale(dot) : dots_second_scale(dot);
  candidate.weight_scale = weight ? dots_second_scale(dot) : dots_first_scale(dot);
  if (candidate.bias >= 0) {
    const Value *bias = graph_value(graph, candidate.bias);
    candidate.biased = columns.count > 0 && rows.count > 0 && shape_same_set(&bias->shape, &columns) &&
                       element_type_floating(bias->type) && is_parameter(graph, candidate.bias) &&
                       format_known(dot, graph_value(graph, dot->first_result)->type);
    candidate.wanted = candidate.biased && any_add_wanted(e, dot->first_result);
  }
  candidate.next = (int)map_get_or(&e->by_shared, (uint64_t)candidate.shared, -1);
  map_put(&e->by_shared, (uint64_t)candidate.shared, e->candidates.count);
  array_push(e->c->arena, &e->candidates, candidate);
}

// Will fuse make them one product?
static bool merge(const Graph *graph, const Candidate *a, const Candidate *b) {
  const Node *x = graph_node(graph, a->dot), *y = graph_node(graph, b->dot);
  return a->shared == b->shared && a->weight_scale == b->weight_scale && x->backward == y->backward &&
         shape_same_set(&x->axes, &y->axes);
}

// Is it best that the product of this dot, and of those that share its operand, adds its bias?
static bool chosen(const Epilogues *e, const Candidate *candidate) {
  bool all = candidate->biased, wanted = false;
  const int last = (int)map_get_or(&e->by_shared, (uint64_t)candidate->shared, -1);
  for (int i = last; i >= 0 && all; i = e->candidates.at[i].next) {
    const Candidate *other = &e->candidates.at[i];
    if (merge(e->graph, candidate, other)) {
      all = other->biased;
      wanted |= other->wanted;
    }
  }
  return all && wanted;
}

// --- the new nodes ---

// The dot and its bias as one node, in graph->region; what was the sum is read there.
static void make(Epilogues *e, const Candidate *candidate) {
  Graph *graph = e->graph;
  const Node dot = *graph_node(graph, candidate->dot);
  const ValueId sum = graph_node(graph, candidate->first_add)->first_result;
  const Value was = *graph_value(graph, sum);
  ValueId bias = candidate->bias;
  graph->span = dot.span;
  graph->scope = dot.scope;
  graph->backward = dot.backward;
  graph->source = dot.source;
  graph->role = was.role;
  if (graph_value(graph, bias)->type != was.type) {
    NodeInit init = {NODE_INIT, .text = name_of(graph->names, element_type_name(was.type))};
    bias = graph_add1(graph, OP_CAST, init, candidate->bias);
    graph_value(graph, bias)->name = graph_value(graph, candidate->bias)->name;
    shard_hold_alike(e->c, bias, candidate->bias);
  }
  const ValueId operands[] = {candidate->shared, candidate->weight, bias, candidate->shared_scale,
                              candidate->weight_scale};
  const bool scaled = op_dots_scaled(dot.op);
  ValueId made = graph_add(graph, op_dots_of(DOTS_BIASED, scaled), (NodeInit){NODE_INIT, .axes = dot.axes}, operands,
                           scaled ? 5 : 3);
  Value *value = graph_value(graph, made);
  const NodeId node = value->node;
  *value = was;
  value->node = node;
  value->result = 0;
  graph_node(graph, node)->recomputed = dot.recomputed;
  shard_hold_alike(e->c, made, sum);
  const ValueId result = graph_node(graph, candidate->dot)->first_result;
  for (int at = e->first_reader[result]; at >= 0; at = e->next_reader[at]) {
    e->replace[graph_node(graph, e->reader[at])->first_result] = made;
  }
}

static void choose(Epilogues *e, RegionId region) {
  Graph *graph = e->graph;
  const NodeList old = graph->regions.at[region].nodes;
  e->candidates.count = 0;
  e->by_shared = map_create(e->c->arena);
  for (int i = 0; i < old.count; i++) {
    const Op op = graph_node(graph, old.at[i])->op;
    if (op == OP_DOT || op == OP_SCALED_DOT) {
      consider(e, old.at[i]);
    }
  }
  Map by_add = map_create(e->c->arena);  // the first addition of a bias to the candidate
  for (int i = 0; i < e->candidates.count; i++) {
    if (chosen(e, &e->candidates.at[i])) {
      map_put(&by_add, (uint64_t)e->candidates.at[i].first_add, i);
    }
  }
  graph_rewrite(graph, region);
  for (int i = 0; i < old.count; i++) {
    int64_t candidate;
    graph->region = region;
    if (map_get(&by_add, (uint64_t)old.at[i], &candidate)) {
      make(e, &e->candidates.at[candidate]);
    }
    array_push(graph->arena, &graph->regions.at[region].nodes, old.at[i]);
  }
}

static void choose_nested(Epilogues *e, RegionId region) {
  choose(e, region);
  const NodeList nodes = e->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes.count; i++) {
    const Node *node = graph_node(e->graph, nodes.at[i]);
    if (op_body(node->op)) {
      choose_nested(e, node->region);
    }
  }
}

bool pass_epilogue(Compilation *c) {
  Graph *graph = c->graph;
  const GraphPlace before = graph_place(graph);
  Epilogues e = epilogues_start(c);
  choose_nested(&e, 0);
  graph_replace_values(graph, e.replace);
  graph_remove_dead(graph);
  graph_return(graph, before);
  return true;
}
