// stages_place.c: where every operation is done, and who owns every persistent tensor. See stages.h.
#include <string.h>

#include "compiler/pipeline/stages_place.h"

#include "compiler/plan/numbers.h"

// --- what depends on what ---

static void list_nodes(Placing *p) {
  const NodeList *top = &p->graph->regions.at[0].nodes;
  p->updates = INT32_MAX;
  for (int i = 0; i < top->count; i++) {
    const Node *node = graph_node(p->graph, top->at[i]);
    const Region *body = node->op == OP_MICROBATCH ? &p->graph->regions.at[node->region] : NULL;
    for (int j = 0; body && j < body->nodes.count; j++) {
      p->in_body[body->nodes.at[j]] = p->listed[body->nodes.at[j]] = true;
      array_push(p->arena, &p->order, body->nodes.at[j]);
    }
    for (int j = 0; body && j < body->results.count; j++) {
      p->result[body->results.at[j]] = true;
    }
    for (int j = 0; body && j < body->nodes.count; j++) {
      const Node *inner = graph_node(p->graph, body->nodes.at[j]);
      for (int k = 0; k < inner->operand_count; k++) {
        p->result[inner->operands[k]] = false;
      }
    }
    p->listed[top->at[i]] = true;
    array_push(p->arena, &p->order, top->at[i]);
    p->updates = body ? p->order.count : p->updates;
  }
}

static void find_tensors(Placing *p) {
  Map names = map_create(p->arena);
  for (int i = 0; i < p->graph->persistent.count; i++) {
    map_put(&names, map_key(p->graph->persistent.at[i].name), i);
  }
  for (int i = 0; i < p->order.count; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    if (op_stored(node->op)) {
      p->tensor[node->first_result] = (int)map_get_or(&names, map_key(node->text), -1);
    }
  }
}

// A pack lies where its parameters are updated, even one of gradients that depend on nothing: elsewhere nothing says
// how its members lie in it.
static int pack_stage(const Placing *p, const Node *node) {
  for (int i = 0; i < p->graph->packs.count; i++) {
    if (p->graph->packs.at[i].axis == node->axis) {
      return p->graph->packs.at[i].stage;
    }
  }
  return STAGE_ANY;
}

// Does the operation itself give another result in every microbatch?
static bool varies(const Graph *graph, const Node *node) {
  if (node->op == OP_INPUT) {
    return !input_is_number(node->text);
  }
  Shape shape = node->result_count ? graph_shape(graph, node->first_result) : (Shape){0};
  bool cut = false;
  for (int i = 0; i < shape.count; i++) {
    const Axis *axis = &graph->axes.at[shape.axis[i]];
    cut |= axis->global != axis->size;
  }
  return cut && op_placed(node->op);
}

static void classify(Placing *p, int index) {
  const Node *node = graph_node(p->graph, p->order.at[index]);
  bool pack = node->op == OP_PACK && pack_stage(p, node) >= 0;
  bool bound = op_stored(node->op) || pack || placing_bound(p, node),
       steady = index < p->updates && !varies(p->graph, node);
  bool layered = !node->backward && !placing_carries(node) && placing_natural(p, node->scope) >= 0;
  for (int i = 0; i < node->operand_count; i++) {
    steady &= p->steady[node->operands[i]];
    layered |= p->layered[node->operands[i]];
  }
  const Region *body = node->op == OP_MICROBATCH ? &p->graph->regions.at[node->region] : NULL;
  for (int i = 0; i < node->result_count; i++) {
    ValueId value = node->first_result + i;
    p->bound[value] = body ? p->bound[body->results.at[i]] : bound;
    p->steady[value] = !body && steady;
    p->layered[value] = !body && bound && !steady && layered;
  }
}

// --- the backward ---

// Where a tensor that it reads is stored; else where the largest operand is, of equals the latest.
static int with_operands(const Placing *p, const Node *node) {
  int stage = STAGE_ANY;
  int64_t most = -1;
  for (int i = 0; i < node->operand_count; i++) {
    const Node *maker = graph_producer(p->graph, node->operands[i]);
    bool stored = maker && (op_stored(maker->op) || (maker->op == OP_PACK && p->tensor[maker->operands[0]] >= 0));
    if (stored && p->at[node->operands[i]] >= 0) {
      return p->at[node->operands[i]];
    }
  }
  for (int i = 0; i < node->operand_count; i++) {
    int at = p->at[node->operands[i]];
    int64_t size = placing_elements(p, node->operands[i]);
    if (at >= 0 && (size > most || (size == most && at > stage))) {
      stage = at;
      most = size;
    }
  }
  return stage;
}

static bool is_gradient(const Placing *p, ValueId value) {
  NodeId maker = graph_value(p->graph, value)->node;
  const Node *node = maker >= 0 ? graph_node(p->graph, maker) : NULL;
  return node && p->in_body[maker] && node->backward && p->at[value] >= 0;
}

// Is it no gradient, but computed again, or a value of the forward in another form, as gathered again?
static bool is_again(const Placing *p, const Node *node) {
  if (node->recomputed || placing_carries(node)) {
    return true;
  }
  while (node && node->backward && node->operand_count == 1 && (placing_carries(node) || op_same(node->op))) {
    node = graph_producer(p->graph, node->operands[0]);
  }
  return node && (!node->backward || node->recomputed);
}

// Where it belongs: where the operation is that it is a gradient of.
static int natural_of_gradient(const Placing *p, const Node *node) {
  const int natural = node->source >= 0 ? p->stages->node[node->source] : STAGE_ANY;
  const Node *source = node->source >= 0 ? graph_node(p->graph, node->source) : NULL;
  const bool nowhere = source && source->result_count && (p->steady[source->first_result] || !p->listed[node->source]);
  return natural >= 0 || nowhere ? natural : placing_natural(p, node->scope);
}

// Where what reads a gradient belongs: of two equal ones, which are one, it is the later that has to be there in time.
static void find_wanted(Placing *p) {
  memset(p->wanted, -1, sizeof *p->wanted * (size_t)(p->graph->values.count + 1));
  for (int i = 0; i < p->order.count && i < p->updates; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    const bool reads = node->backward && p->in_body[p->order.at[i]] && node->op != OP_PACK && placing_placed(p, node);
    const int natural = reads && !is_again(p, node) ? natural_of_gradient(p, node) : STAGE_ANY;
    for (int j = 0; natural >= 0 && j < node->operand_count; j++) {
      int *wanted = &p->wanted[placing_carried(p, node->operands[j])];
      *wanted = natural > *wanted ? natural : *wanted;
    }
  }
}

// A gradient flows from later stages to earlier ones, so it is made no later than those that it is made of.
static int stage_of_gradient(const Placing *p, const Node *node) {
  int first = STAGE_ANY, last = STAGE_ANY;
  for (int i = 0; i < node->operand_count; i++) {
    ValueId gradient = placing_carried(p, node->operands[i]);
    if (is_gradient(p, gradient)) {
      int at = p->at[gradient];
      first = first < 0 || at < first ? at : first;
      last = at > last ? at : last;
    }
  }
  if (node->op == OP_PACK) {
    return pack_stage(p, node);
  }
  if (node->op == OP_ADD && first >= 0 && first == last) {
    return first;  // contributions are added up where they are made: one message instead of several
  }
  int natural = natural_of_gradient(p, node);
  natural =
      node->result_count == 1 && p->wanted[node->first_result] > natural ? p->wanted[node->first_result] : natural;
  const int stage = natural >= 0 && (first < 0 || natural < first) ? natural : first,
            pack = p->packed[node->first_result];
  return pack > stage && (first < 0 || first >= pack) ? pack : stage;  // where its pack is, if it can be made there
}

// Where gradients are packed within microbatches.
static void find_packed(Placing *p) {
  for (int i = 0; i < p->graph->values.count; i++) {
    p->packed[i] = STAGE_ANY;
  }
  for (int i = 0; i < p->order.count && i < p->updates; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    for (int j = 0; node->op == OP_PACK && node->backward && j < node->operand_count; j++) {
      p->packed[placing_carried(p, node->operands[j])] = pack_stage(p, node);
    }
  }
}

// What nothing reads, such as a value of the forward that is given out; it may be cast from one that is computed again.
static int unread_backward(const Placing *p, const Node *node) {
  const ValueId value = placing_carries(node) ? placing_carried(p, node->operands[0]) : -1;
  if (value >= 0 && p->at[value] >= 0) {  // as several collectives in a row: where the first is given its operand
    return p->at[value];
  }
  const Node *maker = value >= 0 && p->at[value] == PLACING_PENDING ? graph_producer(p->graph, value) : NULL;
  const int natural = maker ? placing_natural(p, maker->scope) : STAGE_ANY;
  return natural >= 0 ? natural : with_operands(p, node);
}

// What is computed again, or cast again, for the backward is made where it is needed first.
static void place_backward(Placing *p) {
  int *latest = ARENA_ARRAY(p->arena, int, p->graph->values.count + 1);
  find_packed(p);
  find_wanted(p);
  for (int i = 0; i < p->order.count && i < p->updates; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    if (node->backward && p->in_body[p->order.at[i]] && placing_placed(p, node)) {
      int stage = is_again(p, node) ? STAGE_ANY : stage_of_gradient(p, node);
      placing_put(p, p->order.at[i], stage >= 0 ? stage : PLACING_PENDING);
    }
  }
  memset(latest, -1, sizeof *latest * (size_t)(p->graph->values.count + 1));
  for (int i = p->order.count - 1; i >= 0; i--) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    int *stage = &p->stages->node[p->order.at[i]];
    if (*stage == PLACING_PENDING) {
      int last = STAGE_ANY;
      for (int j = 0; j < node->result_count; j++) {
        int used = latest[node->first_result + j];
        last = used > last ? used : last;
      }
      last = last < 0 ? unread_backward(p, node) : last;
      placing_put(p, p->order.at[i], last >= 0 ? last : 0);
    }
    for (int j = 0; *stage >= 0 && p->in_body[p->order.at[i]] && j < node->operand_count; j++) {
      int *late = &latest[node->operands[j]];
      *late = *stage > *late ? *stage : *late;
    }
  }
}

// Is a gradient made before the stage where it is packed? No message goes that way.
static bool packs_flow(const Placing *p) {
  for (int i = 0; i < p->order.count && i < p->updates; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    const int stage = p->stages->node[p->order.at[i]];
    for (int j = 0; node->op == OP_PACK && node->backward && p->in_body[p->order.at[i]] && j < node->operand_count;
         j++) {
      const int at = p->at[node->operands[j]];
      if (at >= 0 && stage >= 0 && at < stage) {
        return false;
      }
    }
  }
  return true;
}

static void begin_again(Placing *p) {
  memset(p->at, -1, sizeof *p->at * (size_t)(p->graph->values.count + 1));
  memset(p->latest, -1, sizeof *p->latest * (size_t)(p->graph->values.count + 1));
  memset(p->stages->node, -1, sizeof *p->stages->node * (size_t)(p->graph->nodes.count + 1));
}

// --- persistent tensors ---

int placing_tensor(const Placing *p, ValueId value) {
  const Node *node = graph_producer(p->graph, value);
  int member = 0;
  while (node) {
    if (op_stored(node->op)) {
      return p->tensor[node->first_result];
    }
    if ((!op_same(node->op) || node->op == OP_SLICE) && node->op != OP_PACK) {
      return -1;
    }
    const ValueId from = node->operands[node->op == OP_PACK ? member : 0];
    member = node->op == OP_PART ? (int)node->integer : member;
    node = graph_producer(p->graph, from);
  }
  return -1;
}

// The first value made of data, or in the forward, that this one, made behind the microbatches, depends on.
static int stage_behind(const Placing *p, ValueId value, int depth) {
  const Node *node = graph_producer(p->graph, value);
  if (p->at[value] >= 0 || !node || depth == 0) {
    return p->at[value];
  }
  int stage = STAGE_ANY;
  for (int i = 0; stage < 0 && i < node->operand_count; i++) {
    stage = stage_behind(p, node->operands[i], depth - 1);
  }
  return stage;
}

// The earliest stage that reads what is made of a tensor alone: where its gradient is made.
static int *earliest_uses(Placing *p) {
  int *use = ARENA_ARRAY(p->arena, int, p->graph->values.count + 1);
  for (int i = 0; i < p->graph->values.count; i++) {
    use[i] = INT32_MAX;
  }
  for (int i = (p->updates < p->order.count ? p->updates : p->order.count) - 1; i >= 0; i--) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    int stage = p->stages->node[p->order.at[i]];
    int own = stage >= 0 ? stage : INT32_MAX;
    for (int j = 0; stage < 0 && j < node->result_count; j++) {
      own = use[node->first_result + j] < own ? use[node->first_result + j] : own;
    }
    for (int j = 0; j < node->operand_count; j++) {
      use[node->operands[j]] = own < use[node->operands[j]] ? own : use[node->operands[j]];
    }
  }
  return use;
}

static void find_readers(Placing *p, int *first, uint64_t **readers) {
  for (int i = 0; i < p->order.count && i < p->updates; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    int stage = p->stages->node[p->order.at[i]];
    for (int j = 0; stage >= 0 && node->op != OP_PACK && j < node->operand_count; j++) {
      int tensor = placing_tensor(p, node->operands[j]);
      if (tensor >= 0) {
        first[tensor] = first[tensor] < 0 ? placing_stage(p, stage) : first[tensor];
        stage_add(readers[tensor], placing_stage(p, stage));
      }
    }
  }
}

static int decide_owner(const Placing *p, const Persistent *tensor, int first, const int *use) {
  for (int i = p->order.count - 1; tensor->role == ROLE_STATE && i >= 0; i--) {  // where its next value is made
    const Node *node = graph_node(p->graph, p->order.at[i]);
    if (node->op == OP_ASSIGN && node->operands[0] == tensor->value) {
      int stage = stage_behind(p, node->operands[1], 64);
      if (stage >= 0) {
        return placing_stage(p, stage);
      }
    }
  }
  int natural = placing_natural(p, tensor->scope);
  return first >= 0                                             ? first
         : tensor->value >= 0 && use[tensor->value] < INT32_MAX ? placing_stage(p, use[tensor->value])
         : natural >= 0                                         ? placing_stage(p, natural)
                                                                : 0;
}

static void place_results(Placing *p) {
  for (int i = 0; i < p->order.count; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    const Region *body = node->op == OP_MICROBATCH ? &p->graph->regions.at[node->region] : NULL;
    for (int j = 0; body && j < node->result_count; j++) {
      p->at[node->first_result + j] = p->at[body->results.at[j]];
    }
  }
}

static bool in_pieces(const Graph *graph, Name tensor) {
  for (int i = 0; i < graph->packs.count; i++) {
    const Pack *pack = &graph->packs.at[i];
    for (int j = 0; pack->param && j < pack->count; j++) {
      if (pack->members[j] == tensor) {
        return true;
      }
    }
  }
  return false;
}

static void hold(Placing *p) {
  Graph *graph = p->graph;
  int count = graph->persistent.count;
  int *first = ARENA_ARRAY(p->arena, int, count + 1), *use = earliest_uses(p);
  Map names = map_create(p->arena);
  memset(first, -1, sizeof *first * (size_t)(count + 1));
  for (int i = 0; i < count; i++) {
    p->stages->holders[i] = ARENA_ARRAY(p->arena, uint64_t, p->stages->words);
    map_put(&names, map_key(graph->persistent.at[i].name), i);
  }
  find_readers(p, first, p->stages->holders);
  place_results(p);
  for (int i = 0; i < count; i++) {
    Persistent *tensor = &graph->persistent.at[i];
    int64_t like = tensor->like ? map_get_or(&names, map_key(tensor->like), -1) : -1;
    int64_t tenant = p->known ? map_get_or(&p->known->index, map_key(tensor->name), -1) : -1;
    int *owner = &p->stages->owner[i];
    uint64_t *holders = p->stages->holders[i];
    *owner = tenant >= 0        ? p->known->at.at[tenant].owner
             : tensor->home > 0 ? tensor->home - 1
             : like >= 0        ? p->stages->owner[like]
                                : decide_owner(p, tensor, first[i], use);
    tensor->home = 1 + *owner;
    for (int w = 0; w < p->stages->words && (p->known || like >= 0 || in_pieces(graph, tensor->name)); w++) {
      holders[w] = tenant >= 0 ? p->known->at.at[tenant].holders[w] : 0;
    }
    stage_add(holders, *owner);
  }
  for (int i = 0; i < p->order.count; i++) {
    const Node *node = graph_node(graph, p->order.at[i]);
    if (op_stored(node->op) && p->tensor[node->first_result] >= 0) {
      placing_put(p, p->order.at[i], p->stages->owner[p->tensor[node->first_result]]);
    }
  }
}

// --- what stands outside of microbatches ---

static int stage_of_update(const Placing *p, const Node *node) {
  int stage = node->op == OP_PACK ? pack_stage(p, node) : STAGE_ANY;
  int same = node->operand_count ? p->at[node->operands[0]] : STAGE_ANY;
  for (int i = 1; i < node->operand_count; i++) {
    same = p->at[node->operands[i]] == same ? same : STAGE_ANY;
  }
  stage = stage >= 0 ? stage : same >= 0 ? same : with_operands(p, node);
  for (int i = 0; stage < 0 && i < node->operand_count; i++) {  // of what is gathered of a pack, where the pack is
    const ValueId operand = node->operands[i];
    stage = p->bound[operand] && p->steady[operand] ? placing_once_on(p, operand, NULL) : stage;
  }
  return stage;
}

// A pack lies where its parameters are updated, even one of gradients that depend on nothing: elsewhere nothing says
// how its members lie in it.
static void place_packs(Placing *p) {
  for (int i = 0; i < p->order.count; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    if (!p->in_body[p->order.at[i]] && node->op == OP_PACK && (placing_bound(p, node) || pack_stage(p, node) >= 0)) {
      placing_put(p, p->order.at[i], stage_of_update(p, node));
    }
  }
}

static void place_updates(Placing *p) {
  for (int i = 0; i < p->order.count; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    bool outside = !p->in_body[p->order.at[i]] && !op_leaf(node->op) && node->op != OP_MICROBATCH;
    if (outside && placing_bound(p, node) && node->op != OP_PACK && (i >= p->updates || op_effect(node->op))) {
      placing_put(p, p->order.at[i], stage_of_update(p, node));
    }
  }
}

// The first stage where something goes on with a value, of the nodes in order from one to another.
static int stage_of_reader(const Placing *p, ValueId value, int from, int to, bool packs) {
  for (int i = from; i < to; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    const bool counts = node->op == OP_PACK || !(packs || placing_carries(node));
    const int placed = p->stages->node[p->order.at[i]];
    const int stage = !counts ? STAGE_ANY : placed < 0 && node->op == OP_PACK ? pack_stage(p, node) : placed;
    for (int j = 0; stage >= 0 && j < node->operand_count; j++) {
      if (placing_carried(p, node->operands[j]) == value) {
        return stage;
      }
    }
  }
  return STAGE_ANY;
}

// Where a result of the microbatches is used behind them, or is packed in them.
static int stage_of_result(const Placing *p, const Node *microbatch, ValueId value) {
  const Region *body = &p->graph->regions.at[microbatch->region];
  const ValueId inner = placing_carried(p, body->results.at[graph_value(p->graph, value)->result]);
  const int stage = stage_of_reader(p, value, p->updates, p->order.count, false);
  return stage >= 0 ? stage : stage_of_reader(p, inner, 0, p->updates, true);
}

// What the microbatches give that depends on nothing, like the gradient of a mean of a parameter, every stage could
// make. Only one goes on with it and knows how it is stored: it is an output of that one alone. So is what is said
// of inputs alone: two stages might not make it of the same bits.
static void place_outputs(Placing *p) {
  const bool trains = p->updates <= p->order.count;
  for (int i = trains ? p->updates : 0; i < p->order.count; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    if (node->op == OP_OUTPUT && p->stages->node[p->order.at[i]] < 0) {
      const ValueId value = placing_carried(p, node->operands[0]);
      const Node *maker = graph_producer(p->graph, value);
      if (!trains) {
        placing_put(p, p->order.at[i], 0);
      } else if (maker && maker->op == OP_MICROBATCH) {
        const int stage = stage_of_result(p, maker, value);
        placing_put(p, p->order.at[i], stage >= 0 ? stage : 0);
      }
    }
  }
}

bool stages_place(Arena *arena, Graph *graph, const Spec *spec, const Tenancy *known, Stages *stages) {
  Placing p = {.arena = arena, .graph = graph, .spec = spec, .known = known, .stages = stages};
  int values = graph->values.count + 1, nodes = graph->nodes.count + 1;
  stages->node_count = graph->nodes.count;
  stages->words = (stages->stages + 63) / 64;
  stages->node = ARENA_ARRAY(arena, int, nodes);
  memset(stages->node, -1, sizeof(int) * (size_t)nodes);
  stages->holders = ARENA_ARRAY(arena, uint64_t *, graph->persistent.count + 1);
  stages->owner = ARENA_ARRAY(arena, int, graph->persistent.count + 1);
  stages->needed = ARENA_ARRAY(arena, uint64_t *, values);
  stages->once = ARENA_ARRAY(arena, bool, nodes);
  p.in_body = ARENA_ARRAY(arena, bool, nodes);
  p.listed = ARENA_ARRAY(arena, bool, nodes);
  p.result = ARENA_ARRAY(arena, bool, values);
  p.bound = ARENA_ARRAY(arena, bool, values);
  p.steady = ARENA_ARRAY(arena, bool, values);
  p.layered = ARENA_ARRAY(arena, bool, values);
  p.there = ARENA_ARRAY(arena, uint64_t *, values);
  p.at = ARENA_ARRAY(arena, int, values);
  p.tensor = ARENA_ARRAY(arena, int, values);
  p.reader = ARENA_ARRAY(arena, NodeId, values);
  p.latest = ARENA_ARRAY(arena, int, values);
  p.packed = ARENA_ARRAY(arena, int, values);
  p.wanted = ARENA_ARRAY(arena, int, values);
  memset(p.at, -1, sizeof(int) * (size_t)values);
  memset(p.tensor, -1, sizeof(int) * (size_t)values);
  memset(p.latest, -1, sizeof(int) * (size_t)values);
  list_nodes(&p);
  find_tensors(&p);
  for (int i = 0; i < p.order.count; i++) {
    classify(&p, i);
  }
  placing_forward(&p);
  if (!placing_flows(&p)) {
    return false;
  }
  place_backward(&p);
  if (!packs_flow(&p)) {
    begin_again(&p);
    placing_forward(&p);
    placing_forward_homes(&p);
    if (!placing_flows(&p)) {
      return false;
    }
    place_backward(&p);
  }
  hold(&p);
  place_packs(&p);
  placing_find_there(&p);
  placing_steady_results(&p);
  place_results(&p);
  place_updates(&p);
  place_outputs(&p);
  placing_steady(&p);
  return true;
}
