// again.c: what a kernel computes again rather than read.
//
// A kernel stores what another one reads. Where the other can make it of what lies in memory anyway, or of little more,
// with fewer bytes moved in all, it gets copies of the operations: products are made where they are summed, and masks
// where they are looked through. Copies are marked as recomputed, so that they wait for the kernel that reads them.
#include <string.h>

#include "compiler/fuse/fuse.h"
#include "compiler/ir/compared.h"

// MOST_CHAIN: operations that are copied together. LITTLE: so many times smaller than what is not stored for it.
enum { MOST_CHAIN = 12, MOST_INPUTS = 12, MOST_READERS = 8, LITTLE = 4, MOST_NODES = 44, MOST_EXTERNAL = 24 };

// What is computed again moves at most so much of what is not moved for it.
static const double LEAST_GAIN = 0.8;

typedef struct {
  Fuser *f;
  Graph *graph;
  Grouping grouping;
  GroupInfo *info;
  int *first_reader, *next_reader;  // lists of the nodes that read a value
  NodeId *reader;
  bool *result;      // by value: a result of the region
  bool *again;       // by value: no kernel stores it any more
  bool *pinned;      // by value: what a copy reads, which must be stored
  bool *compared;    // by value: it must have the same bits for all its readers (compared.h)
  NodeList *before;  // by node: copies that stand before it
  ValueId *copy;     // by value, of the chain at hand
  int limit;         // values that existed before
} Again;

typedef struct {
  int group;
  ValueId value;
  bool gone;                                // its own kernel needs it no more
  bool backward;                            // all readers are of the backward
  int readers[MOST_READERS], reader_count;  // other groups
  NodeId nodes[MOST_CHAIN];
  int node_count;
  ValueId inputs[MOST_INPUTS];
  int input_count;
  double cost;  // bytes more
} Chain;

static double bytes_of(const Again *a, ValueId value) {
  const Value *at = graph_value(a->graph, value);
  return (double)graph_elements(a->graph, at->shape) * (double)element_type_bytes(at->type);
}

static int group_of(const Again *a, ValueId value) {
  const NodeId node = graph_value(a->graph, value)->node;
  return node < 0 ? -1 : a->grouping.group[node];
}

static bool is_free(const Again *a, ValueId value) {
  const Node *node = graph_producer(a->graph, value);
  return node && op_free(node->op);
}

// Does something outside of its kernel read it from memory, whatever is done here?
static bool is_stored(const Again *a, ValueId value) {
  bool stored = a->result[value] || a->pinned[value];
  for (int at = a->first_reader[value]; at >= 0 && !a->again[value]; at = a->next_reader[at]) {
    stored = stored || a->grouping.group[a->reader[at]] != group_of(a, value);
  }
  return stored;
}

static bool is_read_by(const Again *a, ValueId value, int group) {
  bool read = false;
  for (int at = a->first_reader[value]; at >= 0; at = a->next_reader[at]) {
    read = read || a->grouping.group[a->reader[at]] == group;
  }
  return read;
}

// Reads of the kernel that makes the value, by that alone: they end with it.
static bool is_read_for(const Again *a, ValueId input, const Chain *chain) {
  bool alone = true;
  for (int at = a->first_reader[input]; at >= 0; at = a->next_reader[at]) {
    const NodeId node = a->reader[at];
    alone =
        alone && (a->grouping.group[node] != chain->group || graph_node(a->graph, node)->first_result == chain->value);
  }
  return alone;
}

static bool has_input(const Chain *chain, ValueId value) {
  bool has = false;
  for (int i = 0; i < chain->input_count; i++) {
    has = has || chain->inputs[i] == value;
  }
  return has;
}

static bool add_input(const Again *a, Chain *chain, ValueId value) {
  if (has_input(chain, value)) {
    return true;
  }
  if (chain->input_count == MOST_INPUTS) {
    return false;
  }
  const bool inside = group_of(a, value) == chain->group;
  const double bytes = bytes_of(a, value);
  chain->inputs[chain->input_count++] = value;
  for (int i = 0; i < chain->reader_count; i++) {
    chain->cost += is_read_by(a, value, chain->readers[i]) ? 0 : bytes;
  }
  chain->cost += inside && !is_stored(a, value) ? bytes : 0;
  chain->cost -= !inside && chain->gone && is_read_for(a, value, chain) ? bytes : 0;
  return true;
}

// Adds what makes the value, of the same kernel, down to what is in memory or little. False: that is too much.
static bool add_node(const Again *a, Chain *chain, ValueId value) {
  const Node *node = graph_producer(a->graph, value);
  const NodeId id = graph_value(a->graph, value)->node;
  for (int i = 0; i < chain->node_count; i++) {
    if (chain->nodes[i] == id) {
      return true;
    }
  }
  const Shape all = graph_shape(a->graph, chain->value), shape = graph_shape(a->graph, value);
  if (!op_elementwise(node->op) || (node->apart && !chain->backward) || !shape_same_set(&all, &shape) ||
      chain->node_count == MOST_CHAIN) {
    return false;
  }
  for (int i = 0; i < node->operand_count; i++) {
    const ValueId operand = node->operands[i];
    if (operand >= a->limit) {
      return false;  // a copy of its own already
    }
    const bool inside = group_of(a, operand) == chain->group;
    const bool little = bytes_of(a, operand) * LITTLE <= bytes_of(a, chain->value);
    if (is_free(a, operand)) {
      continue;
    }
    if (!(inside && !is_stored(a, operand) && !little && !a->compared[operand] ? add_node(a, chain, operand)
                                                                               : add_input(a, chain, operand))) {
      return false;
    }
  }
  if (chain->node_count == MOST_CHAIN) {
    return false;
  }
  chain->nodes[chain->node_count++] = id;  // behind what it needs
  return true;
}

// The other kernels that read it, if kernels alone do, of the same space and with room.
static bool find_readers(const Again *a, Chain *chain) {
  const Shape all = graph_shape(a->graph, chain->value);
  for (int at = a->first_reader[chain->value]; at >= 0; at = a->next_reader[at]) {
    const int group = a->grouping.group[a->reader[at]];
    bool known = group == chain->group;
    for (int i = 0; i < chain->reader_count; i++) {
      known = known || chain->readers[i] == group;
    }
    const GroupInfo *info = group < 0 ? NULL : &a->info[group];
    // What is rounded to 8 bits is what a scale was found for: the value as it is stored.
    if (!info || info->alone || chain->reader_count == MOST_READERS ||
        graph_node(a->graph, a->reader[at])->op == OP_QUANTISE) {
      return false;
    }
    if (!known && (!shape_same_set(&info->space, &all) || info->nodes > MOST_NODES || info->external > MOST_EXTERNAL)) {
      return false;
    }
    if (!known) {
      chain->readers[chain->reader_count++] = group;
      chain->backward = chain->backward && info->backward;
    }
  }
  return chain->reader_count > 0;
}

static bool worth_it(const Again *a, Chain *chain, ValueId value) {
  const Node *node = graph_producer(a->graph, value);
  *chain = (Chain){.group = group_of(a, value), .value = value};
  chain->backward = true;
  chain->gone = chain->group >= 0 && !is_read_by(a, value, chain->group);
  if (chain->group < 0 || !op_elementwise(node->op) || a->info[chain->group].alone || a->result[value] ||
      a->compared[value] || a->pinned[value] || graph_value(a->graph, value)->role == ROLE_UPDATE ||
      !find_readers(a, chain) || !add_node(a, chain, value)) {
    return false;
  }
  return chain->cost < LEAST_GAIN * (1 + chain->reader_count) * bytes_of(a, value);
}

// --- what is made of positions ---

// A comparison of positions and numbers, such as a triangle: nothing in memory is needed for it.
static bool is_of_positions(const Again *a, const Node *node) {
  bool of = op_elementwise(node->op) && !op_free(node->op) && node->operand_count == 2 && node->result_count == 1;
  for (int i = 0; i < node->operand_count && of; i++) {
    of = is_free(a, node->operands[i]);
  }
  return of && graph_shape(a->graph, node->first_result).count > 0;
}

// Each kernel of a larger space that looks through it makes it anew, over all of its space, instead of reading it.
static void make_for_reader(Again *a, NodeId id, NodeId reader) {
  Graph *graph = a->graph;
  const Node node = *graph_node(graph, id), user = *graph_node(graph, reader);
  const Shape all = graph_shape(graph, user.first_result);
  graph_follow(graph, &user);
  const ValueId spread = graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = all}, node.operands[0]);
  graph_rewind(graph);
  const ValueId made = graph_op2(graph, node.op, spread, node.operands[1]);
  graph_rewind(graph);
  const ValueId values[] = {spread, made};
  for (int i = 0; i < 2; i++) {
    const NodeId copy = graph_value(graph, values[i])->node;
    graph_node(graph, copy)->recomputed = true;
    graph_node(graph, copy)->backward = user.backward;
    array_push(graph->arena, &a->before[reader], copy);
  }
  Node *changed = graph_node(graph, reader);
  for (int j = 0; j < changed->operand_count; j++) {
    changed->operands[j] = changed->operands[j] == node.first_result ? made : changed->operands[j];
  }
}

static bool spread_positions(Again *a) {
  const NodeList *nodes = &a->f->nodes;
  bool any = false;
  for (int i = 0; i < nodes->count; i++) {
    const ValueId value = graph_node(a->graph, nodes->at[i])->first_result;
    if (!is_of_positions(a, graph_node(a->graph, nodes->at[i]))) {
      continue;
    }
    const Shape shape = graph_shape(a->graph, value);
    for (int at = a->first_reader[value]; at >= 0; at = a->next_reader[at]) {
      const Node *reader = graph_node(a->graph, a->reader[at]);
      const Shape all = graph_shape(a->graph, reader->first_result);
      if (op_elementwise(reader->op) && a->grouping.group[a->reader[at]] >= 0 && all.count > shape.count &&
          shape_contains(&all, &shape)) {
        make_for_reader(a, nodes->at[i], a->reader[at]);
        any = true;
      }
    }
  }
  return any;
}

static NodeId first_of(const Again *a, ValueId value, int group) {
  for (int i = 0; i < a->f->nodes.count; i++) {
    const NodeId id = a->f->nodes.at[i];
    const Node *node = graph_node(a->graph, id);
    for (int j = 0; j < node->operand_count && a->grouping.group[id] == group; j++) {
      if (node->operands[j] == value) {
        return id;
      }
    }
  }
  return -1;
}

// Copies of the chain for one kernel.
static void copy_for(Again *a, const Chain *chain, int group) {
  Graph *graph = a->graph;
  const NodeId place = first_of(a, chain->value, group);
  for (int i = 0; i < chain->node_count; i++) {
    const Node *node = graph_node(graph, chain->nodes[i]);
    ValueId *operands = ARENA_ARRAY(graph->arena, ValueId, node->operand_count + 1);
    for (int j = 0; j < node->operand_count; j++) {
      const ValueId copy = a->copy[node->operands[j]];
      operands[j] = copy >= 0 ? copy : node->operands[j];
    }
    const ValueId value = node->first_result;
    const bool backward = node->backward;
    const NodeId made = graph_clone(graph, chain->nodes[i], operands);
    graph_rewind(graph);
    graph_node(graph, made)->recomputed = true;
    graph_node(graph, made)->backward = backward;
    a->copy[value] = graph_node(graph, made)->first_result;
    array_push(graph->arena, &a->before[place], made);
  }
  for (int at = a->first_reader[chain->value]; at >= 0; at = a->next_reader[at]) {
    Node *node = graph_node(graph, a->reader[at]);
    for (int j = 0; j < node->operand_count && a->grouping.group[a->reader[at]] == group; j++) {
      node->operands[j] = node->operands[j] == chain->value ? a->copy[chain->value] : node->operands[j];
    }
  }
  for (int i = 0; i < chain->node_count; i++) {
    a->copy[graph_node(graph, chain->nodes[i])->first_result] = -1;
  }
}

static void list_readers(Again *a) {
  const Graph *graph = a->graph;
  const NodeList *nodes = &a->f->nodes;
  int total = 0, at = 0;
  for (int i = 0; i < nodes->count; i++) {
    total += graph_node(graph, nodes->at[i])->operand_count;
  }
  a->reader = ARENA_ARRAY(graph->arena, NodeId, total + 1);
  a->next_reader = ARENA_ARRAY(graph->arena, int, total + 1);
  a->first_reader = ARENA_ARRAY(graph->arena, int, graph->values.count + 1);
  memset(a->first_reader, -1, sizeof *a->first_reader * (size_t)graph->values.count);
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    for (int j = 0; j < node->operand_count; j++, at++) {
      a->reader[at] = nodes->at[i];
      a->next_reader[at] = a->first_reader[node->operands[j]];
      a->first_reader[node->operands[j]] = at;
    }
  }
}

// The list with the copies in it, and without what nothing needs any more.
static void renew_list(Again *a) {
  Graph *graph = a->graph;
  const NodeList old = a->f->nodes;
  NodeList all = {0}, live = {0};
  for (int i = 0; i < old.count; i++) {
    const NodeList *before = &a->before[old.at[i]];
    for (int j = 0; j < before->count; j++) {
      array_push(graph->arena, &all, before->at[j]);
    }
    array_push(graph->arena, &all, old.at[i]);
  }
  int *uses = ARENA_ARRAY(graph->arena, int, graph->values.count + 1);
  bool *keep = ARENA_ARRAY(graph->arena, bool, all.count + 1);
  for (int i = all.count - 1; i >= 0; i--) {
    const Node *node = graph_node(graph, all.at[i]);
    const ValueId value = node->first_result;
    keep[i] = !op_elementwise(node->op) || uses[value] > 0 || (value < a->limit && a->result[value]);
    for (int j = 0; j < node->operand_count && keep[i]; j++) {
      uses[node->operands[j]]++;
    }
  }
  for (int i = 0; i < all.count; i++) {
    if (keep[i]) {
      array_push(graph->arena, &live, all.at[i]);
    }
  }
  a->f->nodes = live;
}

static void mark_inside(Again *a, RegionId region) {
  const Region *inside = &a->graph->regions.at[region];
  for (int i = 0; i < inside->nodes.count; i++) {
    const Node *node = graph_node(a->graph, inside->nodes.at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      a->result[node->operands[j]] = true;
    }
    if (node->region >= 0) {
      mark_inside(a, node->region);
    }
  }
  for (int i = 0; i < inside->results.count; i++) {
    a->result[inside->results.at[i]] = true;
  }
}

static Again start(Fuser *f) {
  Graph *graph = f->graph;
  const int values = graph->values.count;
  Again a = {.f = f, .graph = graph, .limit = values};
  a.grouping = group_make(graph, f->nodes.at, f->nodes.count, &a.info);
  a.result = ARENA_ARRAY(graph->arena, bool, values + 1);
  a.again = ARENA_ARRAY(graph->arena, bool, values + 1);
  a.pinned = ARENA_ARRAY(graph->arena, bool, values + 1);
  a.compared = graph_compared(graph);
  a.copy = ARENA_ARRAY(graph->arena, ValueId, values + 1);
  memset(a.copy, -1, sizeof *a.copy * (size_t)values);
  a.before = ARENA_ARRAY(graph->arena, NodeList, graph->nodes.count + 1);
  const ValueList *results = &graph->regions.at[f->region].results;
  for (int i = 0; i < results->count; i++) {
    a.result[results->at[i]] = true;
  }
  for (int i = 0; i < f->nodes.count; i++) {
    const Node *node = graph_node(graph, f->nodes.at[i]);
    if (node->region >= 0) {
      mark_inside(&a, node->region);
    }
  }
  list_readers(&a);
  return a;
}

static bool copy_chains(Again *a) {
  bool any = false;
  for (int i = 0; i < a->f->nodes.count; i++) {
    const Node *node = graph_node(a->graph, a->f->nodes.at[i]);
    Chain chain;
    if (node->result_count != 1 || !worth_it(a, &chain, node->first_result)) {
      continue;
    }
    a->again[chain.value] = true;
    for (int j = 0; j < chain.input_count; j++) {
      a->pinned[chain.inputs[j]] = true;
    }
    for (int j = 0; j < chain.reader_count; j++) {
      copy_for(a, &chain, chain.readers[j]);
    }
    any = true;
  }
  return any;
}

void fuse_again(Fuser *f) {
  Again positions = start(f);
  if (spread_positions(&positions)) {
    renew_list(&positions);
  }
  Again chains = start(f);
  if (copy_chains(&chains)) {
    renew_list(&chains);
  }
}
