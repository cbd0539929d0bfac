// recompute.c: what the backward computes again instead of keeping it since the forward.
//
// Needs a differentiated step. First what the layout asks for. A selected function or round of a repeat is computed
// again from the values that enter it, for its own backward: what leaves it is kept, since the gradients of others
// begin with it. A selected variable, call that has a name, or label is gone after the forward: whoever reads it in the
// backward reads a copy, computed from what it was computed from. Then what costs nothing: elementwise values
// that forward kernels need not store, whose inputs are in memory anyway, are computed again inside the backward
// kernels that read them. Copies are marked and never merged back.
#include <string.h>

#include "compiler/ir/compared.h"
#include "compiler/pipeline/stages.h"
#include "compiler/shard/shard.h"
#include "compiler/spec/selector.h"

enum { CHEAP_MAX_INPUTS = 3, CHEAP_MAX_DEPTH = 24, SMALL = 16, ANY_ROUND = -2 };

typedef struct {  // values that are computed again together
  bool result;    // also for those who read them from outside
} RecomputeUnit;

typedef struct {
  Compilation *c;
  Graph *graph;
  NodeList out;
  ValueId *copy;     // by value: its copy in the backward, or -1; one of these two:
  ValueId *made[2];  // for other operations, and for copies that the layout asks for, or both would share what is kept
  int *unit;         // by value: which one it belongs to, or -1
  int unit_limit;    // values that existed when units were found
  ARRAY(RecomputeUnit) units;
  Map scopes;         // scope to its unit
  Map paths;          // path of calls and variables to their unit
  ValueId *asked;     // by value: its copy as a part of its unit, or -1
  bool *emitted;      // by node: it stands in its place
  int node_limit;     // nodes that existed before; 0: places are not decided yet
  bool *stored;       // by value: in memory after the forward in any case
  bool *compared;     // by value: it must have the same bits for all its readers (compared.h)
  int limit;          // values that existed before
  uint8_t *near;      // by value: 1 + the smallest depth from which the inputs of this reader were counted; 0: not yet
  ValueList counted;  // which these are
  bool *small;        // by value: much smaller than the space of the kernel that makes it, such as rows' statistics
  RegionId region;
  bool apart;            // copies are made because the layout says so
  const Stages *stages;  // of a pipeline: what another stage has made is not made again; else NULL
  int stage;             // of the operation that reads the copies
} Recompute;

static int add_unit(Recompute *r, bool result) {
  array_push(r->c->arena, &r->units, (RecomputeUnit){result});
  return r->units.count - 1;
}

// What has one path is one unit: `g = silu(a) * b` with all that is called there.
static int unit_of_path(Recompute *r, Name path) {
  int64_t known = map_get_or(&r->paths, map_key(path), -1);
  if (known < 0) {
    known = add_unit(r, true);
    map_put(&r->paths, map_key(path), known);
  }
  return (int)known;
}

static int unit_of_scope(Recompute *r, ScopeId scope);

// The outermost selected scope is the unit: `recompute layers, attention` is about layers.
static int find_unit_of_scope(Recompute *r, ScopeId scope) {
  const Graph *graph = r->graph;
  ScopeId found = -1;
  bool call = false;
  for (int i = 0; i < r->c->spec->recompute.count; i++) {
    Name selector = r->c->spec->recompute.at[i].name;
    ScopeId unit = selector_unit(graph, selector, scope);
    bool means_call = unit >= 0 && selector_means_call(graph, selector, unit);
    if (unit >= 0 && (found < 0 || unit < found)) {  // those outside have the smaller numbers
      found = unit;
      call = means_call;
    } else if (unit >= 0 && unit == found) {
      call = call || means_call;
    }
  }
  return found < 0        ? -1
         : call           ? unit_of_path(r, graph->scopes.at[found].path)
         : found == scope ? add_unit(r, false)
                          : unit_of_scope(r, found);
}

static int unit_of_scope(Recompute *r, ScopeId scope) {
  int64_t known;
  if (scope < 0) {
    return -1;
  }
  if (!map_get(&r->scopes, (uint64_t)scope, &known)) {
    known = find_unit_of_scope(r, scope);
    map_put(&r->scopes, (uint64_t)scope, known);
  }
  return (int)known;
}

// A label makes each of its values a unit, whatever else is selected around it.
static int unit_of_value(Recompute *r, const Node *node, ValueId id) {
  const Graph *graph = r->graph;
  const Value *value = graph_value(graph, id);
  const SelectorPlace place = {.scope = node->scope, .value = value->name, .label = value->label};
  int unit = unit_of_scope(r, node->scope);
  for (int i = 0; i < r->c->spec->recompute.count; i++) {
    Name selector = r->c->spec->recompute.at[i].name;
    if (selector_is_label(selector) && selector_matches_itself(graph, selector, place)) {
      return add_unit(r, true);
    }
  }
  for (int i = 0; unit < 0 && i < r->c->spec->recompute.count; i++) {
    if (selector_matches_itself(graph, r->c->spec->recompute.at[i].name, place)) {
      unit = value->name ? unit_of_path(r, selector_path(graph, place)) : add_unit(r, true);
    }
  }
  const int from = node->op == OP_CAST ? r->unit[node->operands[0]] : -1;
  return unit < 0 && from >= 0 && r->units.at[from].result ? from : unit;  // in another format it is still the same
}

static ValueId copy_node(Recompute *r, ValueId value, const ValueId *operands) {
  Graph *graph = r->graph;
  const Value *made = graph_value(graph, value);
  NodeId id = graph_clone(graph, made->node, operands);
  if (graph_node(graph, id)->region >= 0) {
    Map map = map_create(r->c->arena);
    RegionId inner = graph_clone_region(graph, graph_node(graph, id)->region, &map);
    graph_node(graph, id)->region = inner;
  }
  graph_rewind(graph);  // graph_clone put it there; it goes where it is first needed
  Node *node = graph_node(graph, id), *from = graph_node(graph, graph_value(graph, value)->node);
  node->recomputed = true;
  node->apart = r->apart;
  node->backward = true;
  array_push(r->c->arena, &r->out, id);
  for (int i = 0; i < node->result_count; i++) {
    (r->apart ? r->asked : r->copy)[from->first_result + i] = node->first_result + i;
    shard_hold_alike(r->c, node->first_result + i, from->first_result + i);
  }
  return (r->apart ? r->asked : r->copy)[value];
}

// --- by request ---

// The round of a repeat in which a value is made, or -1.
static ScopeId round_of(const Graph *graph, ScopeId scope) {
  while (scope >= 0 && graph->scopes.at[scope].index < 0) {
    scope = graph->scopes.at[scope].parent;
  }
  return scope;
}

// Is the value not kept for anybody?
static bool is_gone(const Recompute *r, ValueId value) {
  return value < r->unit_limit && r->unit[value] >= 0 && r->units.at[r->unit[value]].result;
}

// And not for this operand of a copy of the same round either? What comes from another round is kept for copies, or the
// backward would begin with a copy of all rounds.
static bool is_gone_in(const Recompute *r, ValueId value, ScopeId round) {
  return is_gone(r, value) &&
         (round == ANY_ROUND || round_of(r->graph, graph_producer(r->graph, value)->scope) == round);
}

static bool is_copied(const Recompute *r, ValueId operand, int unit, ScopeId round) {
  return operand < r->unit_limit && r->unit[operand] >= 0 &&
         (r->unit[operand] == unit || is_gone_in(r, operand, round));
}

static void emit(Recompute *r, NodeId id);

// A copy that there is may have been meant for a later place.
static ValueId copy_unit(Recompute *r, ValueId value) {
  if (r->asked[value] >= 0) {
    emit(r, graph_value(r->graph, r->asked[value])->node);
    return r->asked[value];
  }
  const Node node = *graph_producer(r->graph, value);
  const ScopeId round = round_of(r->graph, node.scope);
  ValueId *operands = ARENA_ARRAY(r->c->arena, ValueId, node.operand_count + 1);
  for (int i = 0; i < node.operand_count; i++) {
    const bool copied = is_copied(r, node.operands[i], r->unit[value], round);
    operands[i] = copied ? copy_unit(r, node.operands[i]) : node.operands[i];
  }
  const bool before = r->apart;
  r->apart = true;
  const ValueId copy = copy_node(r, value, operands);
  r->apart = before;
  return copy;
}

// Kernels of the backward compute cheap values by themselves, if they can, instead of reading a copy.
static bool is_left_to_kernels(const Recompute *r, const Node *reader, ValueId operand) {
  return op_fusable(reader->op) && is_gone(r, operand) && op_cheap(graph_producer(r->graph, operand)->op);
}

// Parameters that are gathered once a step are kept, whatever is computed again.
static bool gathers_once(const Recompute *r, const Node *node) {
  const Pack *pack = node->op == OP_ALL_GATHER ? shard_pack_along(r->c->shard, node->axis) : NULL;
  return pack && ((int64_t)pack->kept & node->integer);
}

static void find_units(Recompute *r) {
  const Graph *graph = r->graph;
  const NodeList *nodes = &graph->regions.at[r->region].nodes;
  r->unit_limit = graph->values.count;
  r->unit = ARENA_ARRAY(r->c->arena, int, r->unit_limit + 1);
  r->asked = ARENA_ARRAY(r->c->arena, ValueId, r->unit_limit + 1);
  memset(r->unit, -1, sizeof *r->unit * (size_t)r->unit_limit);
  memset(r->asked, -1, sizeof *r->asked * (size_t)r->unit_limit);
  r->scopes = map_create(r->c->arena);
  r->paths = map_create(r->c->arena);
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    const bool kept = node->backward || op_leaf(node->op) || gathers_once(r, node);
    for (int j = 0; j < node->result_count && !kept && !r->compared[node->first_result + j]; j++) {
      r->unit[node->first_result + j] = unit_of_value(r, node, node->first_result + j);
    }
  }
}

// What stands behind the first assignment reads what is kept, such as the largest numbers that histories of scales
// take: by then a parameter of which it would be computed again has other values.
static void keep_for_updates(Recompute *r) {
  const Graph *graph = r->graph;
  const NodeList *nodes = &graph->regions.at[r->region].nodes;
  bool assigned = false;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    for (int j = 0; assigned && j < node->operand_count; j++) {
      r->unit[node->operands[j]] = -1;
    }
    assigned = assigned || node->op == OP_ASSIGN;
  }
}

static void by_request(Recompute *r) {
  Graph *graph = r->graph;
  find_units(r);
  keep_for_updates(r);
  NodeList old = graph->regions.at[r->region].nodes;
  for (int i = 0; i < old.count; i++) {
    NodeId id = old.at[i];
    bool backward = graph_node(graph, id)->backward;
    int own = backward ? unit_of_scope(r, graph_node(graph, id)->scope) : -1;
    for (int j = 0; backward && j < graph_node(graph, id)->operand_count; j++) {
      ValueId operand = graph_node(graph, id)->operands[j];
      int unit = operand < r->unit_limit ? r->unit[operand] : -1;
      if (unit >= 0 && (unit == own || is_gone(r, operand)) && !is_left_to_kernels(r, graph_node(graph, id), operand)) {
        ValueId copy = copy_unit(r, operand);
        graph_node(graph, id)->operands[j] = copy;
      }
    }
    array_push(r->c->arena, &r->out, id);
  }
  graph->regions.at[r->region].nodes = r->out;
  r->out = (NodeList){0};
}

// --- what costs nothing ---

static int stage_of(const Recompute *r, NodeId node) {
  return r->stages && node < r->stages->node_count ? r->stages->node[node] : STAGE_ANY;
}

// Is the value in memory, or so small that keeping it costs nothing? What is gone is at hand as its copy, unless it is
// cheap to make.
static bool at_hand(const Recompute *r, ValueId value, ScopeId round) {
  const Node *node = graph_producer(r->graph, value);
  int stage = node ? stage_of(r, graph_value(r->graph, value)->node) : STAGE_ANY;
  if (stage != STAGE_ANY && stage != r->stage) {
    return true;
  }
  const bool kept =
      value < r->limit && !is_gone_in(r, value, round) && (r->stored[value] || r->small[value] || r->compared[value]);
  return value >= r->limit || !node || kept || !op_cheap(node->op);
}

static bool count_inputs(Recompute *r, ValueId value, ScopeId reader, ValueList *inputs, int depth) {
  if (at_hand(r, value, reader)) {
    const Node *node = graph_producer(r->graph, value);
    if (node && op_free(node->op)) {
      return true;
    }
    for (int i = 0; i < inputs->count; i++) {
      if (inputs->at[i] == value) {
        return true;
      }
    }
    if (value >= r->limit || !(r->small[value] || (node && op_leaf(node->op)))) {
      array_push(r->c->arena, inputs, value);
    }
    return inputs->count <= CHEAP_MAX_INPUTS;
  }
  if (r->near[value] && r->near[value] <= depth + 1) {
    return true;  // they are among the inputs already
  }
  const Node *node = graph_producer(r->graph, value);
  const ScopeId round = round_of(r->graph, node->scope);
  for (int i = 0; i < node->operand_count; i++) {
    if (depth == 0 || !count_inputs(r, node->operands[i], round, inputs, depth - 1)) {
      return false;
    }
  }
  r->near[value] = (uint8_t)(depth + 1);
  array_push(r->c->arena, &r->counted, value);
  return true;
}

// Whether what makes the value again reads few values that are not at hand.
static bool few_inputs(Recompute *r, ValueId value, ScopeId round) {
  ValueList inputs = {0};
  r->counted.count = 0;
  bool few = count_inputs(r, value, round, &inputs, CHEAP_MAX_DEPTH);
  for (int i = 0; i < r->counted.count; i++) {
    r->near[r->counted.at[i]] = 0;
  }
  return few;
}

static ValueId copy_chain(Recompute *r, ValueId value, ScopeId reader) {
  if (at_hand(r, value, reader)) {
    return is_gone_in(r, value, reader) ? copy_unit(r, value) : value;
  }
  if (r->copy[value] >= 0) {
    return r->copy[value];
  }
  const Node node = *graph_producer(r->graph, value);
  const ScopeId round = round_of(r->graph, node.scope);
  ValueId *operands = ARENA_ARRAY(r->c->arena, ValueId, node.operand_count + 1);
  for (int i = 0; i < node.operand_count; i++) {
    operands[i] = copy_chain(r, node.operands[i], round);
  }
  return copy_node(r, value, operands);
}

// The cheap values between a value and what is at hand.
static void list_between(const Recompute *r, ValueId value, ScopeId round, ValueList *between) {
  enum { MOST = 32 };
  const Node *node = graph_producer(r->graph, value);
  for (int i = 0; i < node->operand_count; i++) {
    const ValueId operand = node->operands[i];
    bool known = at_hand(r, operand, round) || is_gone(r, operand) || between->count == MOST;
    for (int j = 0; j < between->count; j++) {
      known = known || between->at[j] == operand;
    }
    if (!known) {
      array_push(r->c->arena, between, operand);
      list_between(r, operand, round, between);
    }
  }
}

// If a value has too many inputs: the first on the way to it of which alone it can be made again, to be kept in its
// stead; what else is made of that needs nothing more. -1: there is none.
static ValueId waist_of(Recompute *r, ValueId value, ScopeId round) {
  ValueList between = {0};
  ValueId waist = -1;
  const Shape shape = graph_shape(r->graph, value);
  list_between(r, value, round, &between);
  for (int i = 0; i < between.count; i++) {
    const ValueId candidate = between.at[i];
    const Shape other = graph_shape(r->graph, candidate);
    if (!shape_same_set(&shape, &other) || (waist >= 0 && candidate > waist) ||
        element_type_bytes(graph_value(r->graph, candidate)->type) >
            element_type_bytes(graph_value(r->graph, value)->type)) {
      continue;
    }
    ValueList inputs = {0};
    r->stored[candidate] = true;
    r->counted.count = 0;
    const bool few = count_inputs(r, value, round, &inputs, CHEAP_MAX_DEPTH);
    for (int j = 0; j < r->counted.count; j++) {
      r->near[r->counted.at[j]] = 0;
    }
    r->stored[candidate] = false;
    waist = few && inputs.count == 1 && inputs.at[0] == candidate ? candidate : waist;
  }
  return waist;
}

// What a kernel of the backward reads in place of a value of the forward.
static ValueId renew(Recompute *r, ValueId value, ScopeId round) {
  if (at_hand(r, value, round) || few_inputs(r, value, round)) {
    return copy_chain(r, value, round);
  }
  const ValueId waist = waist_of(r, value, round);
  if (waist >= 0) {
    r->stored[waist] = true;
    return copy_chain(r, value, round);
  }
  r->stored[value] = true;
  return is_gone_in(r, value, round) ? copy_unit(r, value) : value;
}

static void mark_stored(Recompute *r) {
  Graph *graph = r->graph;
  const NodeList *nodes = &graph->regions.at[r->region].nodes;
  NodeList forward = {0};
  for (int i = 0; i < nodes->count; i++) {
    if (!graph_node(graph, nodes->at[i])->backward) {
      array_push(r->c->arena, &forward, nodes->at[i]);
    }
  }
  GroupInfo *info;
  Grouping grouping = group_make(graph, forward.at, forward.count, &info);
  for (int i = 0; i < forward.count; i++) {
    const Node *node = graph_node(graph, forward.at[i]);
    if (grouping.group[forward.at[i]] >= 0) {
      int64_t space = graph_elements(graph, info[grouping.group[forward.at[i]]].space);
      r->small[node->first_result] = graph_elements(graph, graph_shape(graph, node->first_result)) * SMALL <= space;
    }
  }
  bool assigned = false;  // as for keep_for_updates
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    bool fused = op_fusable(node->op);
    for (int j = 0; j < node->operand_count; j++) {
      NodeId maker = graph_value(graph, node->operands[j])->node;
      bool same = !node->backward && fused && maker >= 0 && grouping.group[maker] >= 0 &&
                  grouping.group[maker] == grouping.group[nodes->at[i]];
      if (node->operands[j] < r->limit && !same && (assigned || !(node->backward && fused))) {
        r->stored[node->operands[j]] = true;
      }
    }
    assigned = assigned || (r->unit && node->op == OP_ASSIGN);
  }
}

// Puts an operation in its place behind what it needs: first copies that stand later, then values of its own.
static void emit(Recompute *r, NodeId id) {
  Graph *graph = r->graph;
  if (id >= r->node_limit || r->emitted[id]) {
    return;
  }
  r->emitted[id] = true;
  const bool reader = graph_node(graph, id)->backward && op_fusable(graph_node(graph, id)->op);
  const int stage = r->stage;
  ValueId *const copy = r->copy;
  r->stage = stage_of(r, id);
  const bool apart = graph_node(graph, id)->apart;
  const ScopeId round = apart ? round_of(graph, graph_node(graph, id)->scope) : ANY_ROUND;
  r->copy = r->made[apart];
  for (int j = 0; j < graph_node(graph, id)->operand_count; j++) {
    const ValueId operand = graph_node(graph, id)->operands[j];
    const Node *maker = graph_producer(graph, operand);
    if (maker && maker->apart) {
      emit(r, graph_value(graph, operand)->node);
    } else if (reader && operand < r->limit && maker && !maker->backward) {
      const ValueId renewed = renew(r, operand, round);
      graph_node(graph, id)->operands[j] = renewed;
    }
  }
  r->stage = stage;
  r->copy = copy;
  array_push(r->c->arena, &r->out, id);
}

static void what_costs_nothing(Recompute *r) {
  Graph *graph = r->graph;
  mark_stored(r);
  r->node_limit = graph->nodes.count;
  r->emitted = ARENA_ARRAY(r->c->arena, bool, r->node_limit + 1);
  NodeList old = graph->regions.at[r->region].nodes;
  for (int i = 0; i < old.count; i++) {
    emit(r, old.at[i]);
  }
  graph->regions.at[r->region].nodes = r->out;
  r->out = (NodeList){0};
}

static void start(Recompute *r) {
  r->limit = r->graph->values.count;
  for (int i = 0; i < 2; i++) {
    r->made[i] = ARENA_ARRAY(r->c->arena, ValueId, r->limit + 1);
    memset(r->made[i], -1, sizeof *r->made[i] * (size_t)r->limit);
  }
  r->stored = ARENA_ARRAY(r->c->arena, bool, r->limit + 1);
  r->small = ARENA_ARRAY(r->c->arena, bool, r->limit + 1);
  r->compared = graph_compared(r->graph);
  r->near = ARENA_ARRAY(r->c->arena, uint8_t, r->limit + 1);
}

bool pass_recompute(Compilation *c) {
  Graph *graph = c->graph;
  Recompute r = {.c = c, .graph = graph};
  const NodeList *top = &graph->regions.at[0].nodes;
  for (int i = 0; i < top->count; i++) {
    if (graph_node(graph, top->at[i])->op == OP_MICROBATCH) {
      r.region = graph_node(graph, top->at[i])->region;
    }
  }
  graph->region = r.region;
  if (c->spec->recompute.count) {
    r.compared = graph_compared(graph);
    by_request(&r);
  }
  start(&r);
  r.stages = c->tenancy ? stages_find(c->arena, graph, c->spec, NULL) : NULL;
  what_costs_nothing(&r);
  graph->region = 0;
  graph_remove_dead(graph);
  return true;
}
