// stage_messages.c: what has to travel between stages, and how.
//
// A value made on another stage is received in the forward if it comes from an earlier stage's forward, else in the
// backward. What is made outside of microbatches is received there, where it is made in the order of the whole graph.
#include "compiler/pipeline/stage.h"

static bool misplaced(Cut *cut, const Node *node, int from, int to) {
  diag_error(cut->c->diag, E099, node->span,
             "the compiler has placed '%s' on stage %d, and what it needs of the same direction on stage %d",
             op_name(node->op), to, from);
  return false;
}

// Has the stage a copy of this persistent tensor?
static bool is_held(const Cut *cut, ValueId value, int stage) {
  const Node *leaf = graph_producer(cut->graph, value);
  const Persistent *tensor = leaf && op_stored(leaf->op) ? graph_persistent(cut->graph, leaf->text) : NULL;
  return tensor && stage_in(cut->stages->holders[tensor - cut->graph->persistent.at], stage);
}

// What a value from outside of microbatches is on this stage.
ValueId stage_top_here(const Cut *cut, ValueId value) {
  for (int m = value < cut->limit ? cut->first[value] : -1; m >= 0; m = cut->messages.at[m].next) {
    if (cut->messages.at[m].to == cut->stage && cut->messages.at[m].here >= 0) {
      return cut->messages.at[m].here;
    }
  }
  return value < cut->limit && cut->moved[value] >= 0 ? cut->moved[value] : value;
}

// --- messages ---

Message *stage_message(const Cut *cut, ValueId value, int to) {
  for (int i = cut->first[value]; i >= 0; i = cut->messages.at[i].next) {
    if (cut->messages.at[i].to == to) {
      return &cut->messages.at[i];
    }
  }
  return NULL;
}

static Message *add_message(Cut *cut, ValueId value, int to, Part part) {
  Message *known = stage_message(cut, value, to);
  if (known) {
    return known;
  }
  Message message = {value, to, part, cut->channels++, false, -1, cut->first[value]};
  array_push(cut->c->arena, &cut->messages, message);
  cut->first[value] = cut->messages.count - 1;
  return &cut->messages.at[cut->messages.count - 1];
}

static void note_origin(Cut *cut, ValueId value, Node *node) {
  node->why = "the next stage";
  node->rule = cut->c->spec->pipeline.span;
  (void)value;
}

ValueId stage_receive(Cut *cut, Message *message, int from) {
  Graph *graph = cut->graph;
  const Value value = *graph_value(graph, message->value);
  Name name = name_format(graph->names, "from stage %d", from);
  graph->span = value.span;
  NodeInit init = {NODE_INIT, .text = name, .type = value.type, .bound = value.bound, .shape = value.shape};
  init.axes = value.shape;
  init.integer = message->channel;
  init.number = from;
  ValueId made = graph_add0(graph, OP_RECEIVE, init);
  Value *here = graph_value(graph, made);
  here->name = value.name;
  here->label = value.label;
  here->role = value.role;
  here->sharding = value.sharding;
  shard_hold_alike(cut->c, made, message->value);
  note_origin(cut, made, graph_producer(graph, made));
  message->here = made;
  return made;
}

void stage_send(Cut *cut, const Message *message, ValueId value) {
  Graph *graph = cut->graph;
  int to = lies_on(cut, message->to);
  graph->span = graph_value(graph, value)->span;
  Name name = name_format(graph->names, "to stage %d", to);
  NodeInit init = {NODE_INIT, .text = name, .integer = message->channel, .number = to};
  init.axes = graph_shape(graph, message->value);
  int before = graph->nodes.count;
  graph_add1(graph, OP_SEND, init, value);
  note_origin(cut, value, graph_node(graph, before));
}

// --- the body of a microbatch: what goes where ---

// Is this an elementwise operation or a sum of what the backward has at hand, such as the gradient of a scale or a
// bias?
static bool sums_what_is_at_hand(const Cut *cut, NodeId id) {
  const Node *node = graph_node(cut->graph, id);
  bool fuses = node->backward && (node->op == OP_SUM || op_elementwise(node->op)), any = false;
  for (int j = 0; j < node->operand_count && fuses; j++) {
    const NodeId maker = graph_value(cut->graph, node->operands[j])->node;
    const bool within = maker >= 0 && maker < cut->stages->node_count && cut->in_body[maker];
    if (within && graph_node(cut->graph, maker)->backward) {
      any = fuses = cut->part[maker] == PART_BACKWARD;
    }
  }
  return fuses && any;
}

// Backward operations that only gradients of parameters wait for, but for those that would read again all that the
// backward has just made.
static void find_weights(Cut *cut, const NodeList *nodes, const bool *loss) {
  bool *waited = ARENA_ARRAY(cut->c->arena, bool, cut->limit + 1);
  for (int i = nodes->count - 1; i >= 0; i--) {
    const Node *node = graph_node(cut->graph, nodes->at[i]);
    bool needed = !node->backward || loss[nodes->at[i]];
    for (int j = 0; j < node->result_count; j++) {
      needed |= waited[node->first_result + j];
    }
    cut->part[nodes->at[i]] = needed ? cut->part[nodes->at[i]] : PART_WEIGHTS;
    int here = cut->stages->node[nodes->at[i]];
    for (int j = 0; j < node->operand_count; j++) {
      int at = stage_at(cut, node->operands[j]);
      waited[node->operands[j]] |= needed || (at >= 0 && here >= 0 && at != here);
    }
  }
  for (int i = 0; i < nodes->count; i++) {
    const NodeId id = nodes->at[i];
    if (cut->part[id] == PART_WEIGHTS && sums_what_is_at_hand(cut, id)) {
      cut->part[id] = PART_BACKWARD;
    }
  }
}

// The virtual stage at which a value arrives: of those on the reader's stage the first on the way to the reader, so
// that no message waits for a later chunk. What a backward reads of a later stage's forward travels as its gradients
// do.
int stage_landing(const Cut *cut, int from, int to) {
  int stages = cut->stages->stages, step = to > from ? 1 : -1;
  int at = from + step;
  while (at != to && at % stages != to % stages) {
    at += step;
  }
  return at;
}

static void note_jump(Cut *cut, NodeId maker, int from, int to, Part part) {
  const ScheduleJump jump = {from, to, (ActionKind)cut->part[maker], (ActionKind)part};
  bool known = jump.sends == jump.receives && jump.sends != ACTION_WEIGHTS &&
               to - from == (jump.sends == ACTION_FORWARD ? 1 : -1);
  for (int i = 0; i < cut->c->jumps.count && !known; i++) {
    const ScheduleJump *other = &cut->c->jumps.at[i];
    known = other->from == from && other->to == to && other->sends == jump.sends && other->receives == jump.receives;
  }
  if (!known) {
    array_push(cut->c->arena, &cut->c->jumps, jump);
  }
}

static bool link(Cut *cut, NodeId id, ValueId value) {
  const Node *node = graph_node(cut->graph, id);
  NodeId maker = graph_value(cut->graph, value)->node;
  int from = stage_at(cut, value), to = cut->stages->node[id];
  if (from < 0 || to < 0 || maker < 0 || !cut->in_body[maker]) {
    return true;
  }
  bool forward = !graph_node(cut->graph, maker)->backward;
  if (from == to) {
    cut->leaves[value] |= cut->part[maker] != cut->part[id];
    return true;
  }
  if (forward ? !node->backward && from > to : from < to) {
    return misplaced(cut, node, from, to);
  }
  if (lies_on(cut, from) == lies_on(cut, to)) {
    cut->leaves[value] = true;
    return true;
  }
  Part part = forward && from < to ? PART_FORWARD : PART_BACKWARD;
  int at = stage_landing(cut, from, to);
  note_jump(cut, maker, from, at, part);
  Message *message = add_message(cut, value, at, part);
  message->leaves |= cut->part[id] != (uint8_t)part || at != to;
  return true;
}

// A value from outside of the microbatches arrives before they begin; `leaves`: it is read in them, or behind.
static void plan_outer(Cut *cut, ValueId value, int to, bool leaves) {
  int from = lies_on(cut, stage_at(cut, value));
  cut->leaves[value] |= leaves;
  if (from >= 0 && from != to && !is_held(cut, value, to)) {
    add_message(cut, value, to, PART_FORWARD);
  }
}

Instance *stage_instance(const Cut *cut, ValueId value, int at) {
  for (int i = value < cut->limit ? cut->steady[value] : -1; i >= 0; i = cut->instances.at[i].next) {
    if (cut->instances.at[i].at == at) {
      return &cut->instances.at[i];
    }
  }
  return NULL;
}

static void add_instance(Cut *cut, ValueId value, int at, Part part) {
  Instance *known = stage_instance(cut, value, at);
  if (known) {
    known->leaves |= known->part != part;
    known->part = part < known->part ? part : known->part;
    return;
  }
  array_push(cut->c->arena, &cut->instances, ((Instance){value, at, part, false, -1, cut->steady[value]}));
  cut->steady[value] = cut->instances.count - 1;
}

// What an operation in the body reads on one virtual stage, but for what is made of data.
static void plan_steady(Cut *cut, const Node *node, int at, Part part) {
  for (int i = 0; i < node->operand_count; i++) {
    ValueId value = node->operands[i];
    NodeId maker = graph_value(cut->graph, value)->node;
    if (maker >= 0 && !cut->in_body[maker]) {
      plan_outer(cut, value, lies_on(cut, at), true);
    } else if (maker >= 0 && cut->stages->needed[value] && cut->stages->node[maker] < 0) {
      add_instance(cut, value, at, part);
    }
  }
}

static void plan_instances(Cut *cut, const NodeList *nodes) {
  for (int i = nodes->count - 1; i >= 0; i--) {
    NodeId id = nodes->at[i];
    const Node *node = graph_node(cut->graph, id);
    int at = cut->stages->node[id];
    if (at >= 0) {
      plan_steady(cut, node, at, (Part)cut->part[id]);
      continue;
    }
    for (int j = 0; j < node->result_count; j++) {
      for (int k = cut->steady[node->first_result + j]; k >= 0; k = cut->instances.at[k].next) {
        plan_steady(cut, node, cut->instances.at[k].at, cut->instances.at[k].part);
      }
    }
  }
}

bool stage_plan_body(Cut *cut, const Region *body) {
  const NodeList *nodes = &body->nodes;
  const bool *loss = stage_loss(cut->c, cut->stages, nodes);
  for (int i = 0; i < nodes->count; i++) {
    bool backward = graph_node(cut->graph, nodes->at[i])->backward || loss[nodes->at[i]];
    cut->in_body[nodes->at[i]] = true;
    cut->part[nodes->at[i]] = backward ? PART_BACKWARD : PART_FORWARD;
  }
  if (cut->c->spec->pipeline.schedule == SCHEDULE_ZERO_BUBBLE) {
    find_weights(cut, nodes, loss);
  }
  bool good = true;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(cut->graph, nodes->at[i]);
    for (int j = 0; j < node->operand_count && good; j++) {
      good = link(cut, nodes->at[i], node->operands[j]);
      node = graph_node(cut->graph, nodes->at[i]);
    }
  }
  plan_instances(cut, nodes);
  for (int i = 0; i < body->results.count; i++) {
    cut->leaves[body->results.at[i]] = true;
  }
  return good;
}

// --- outside of microbatches ---

void stage_plan_top(Cut *cut, const NodeList *nodes) {
  bool behind = false;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(cut->graph, nodes->at[i]);
    behind |= node->op == OP_MICROBATCH;
    int at = lies_on(cut, cut->stages->node[nodes->at[i]]);
    const uint64_t *needed = at < 0 && node->result_count ? cut->stages->needed[node->first_result] : NULL;
    for (int j = 0; j < node->operand_count; j++) {
      if (at >= 0) {
        plan_outer(cut, node->operands[j], at, behind);
      }
      for (int to = 0; needed && to < cut->stages->stages; to++) {
        if (stage_in(needed, to)) {
          plan_outer(cut, node->operands[j], to, behind);
        }
      }
    }
  }
}
