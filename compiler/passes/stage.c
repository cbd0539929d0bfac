// stage.c: of the whole step, what one stage of the pipeline does, and the messages between the stages.
//
// Needs shard. In a training step the microbatch's body becomes segments: the forward and the backward of each chunk
// (and, for zero-bubble, the gradients of its weights apart), which the schedule calls in its order. A value made on
// another stage is received in the forward if it comes from an earlier stage's forward, else in the backward. Outside
// of microbatches, and in other programs, messages stand where the value is made in the order of the whole graph, which
// is the same for all stages, so that nobody waits in a circle.
#include "compiler/stages.h"

#include <string.h>

#include "compiler/passes/shard.h"

typedef enum { PART_FORWARD, PART_BACKWARD, PART_WEIGHTS, PART_COUNT } Part;

typedef struct {
  ValueId value;
  int to;        // virtual stage; outside of microbatches the stage
  Part part;     // of the receiving chunk
  int channel;   // the same on all stages
  bool leaves;   // another part of the receiving chunk reads it too
  ValueId here;  // what it is on the receiving stage
  int next;      // of the same value, or -1
} Message;

typedef struct {
  Compilation *c;
  Graph *graph;
  const Stages *stages;
  int stage;       // this one
  int limit;       // values of the graph before
  uint8_t *part;   // by node
  bool *leaves;    // by value: read outside of the segment that makes it
  bool *in_body;   // by node
  ValueId *moved;  // by value: what stands for it outside of its segment, or -1
  int *first;      // by value: its first message, or -1
  ARRAY(Message) messages;
  Map clones;  // value and segment to the copy there
  int channels;
} Cut;

static int stage_at(const Cut *cut, ValueId value) {  // virtual
  const Value *at = graph_value(cut->graph, value);
  if (at->node < 0 || at->node >= cut->stages->node_count) {
    return STAGE_ANY;
  }
  const Node *node = graph_node(cut->graph, at->node);
  if (node->op == OP_MICROBATCH) {
    return stage_at(cut, cut->graph->regions.at[node->region].results.at[at->result]);
  }
  return cut->stages->node[at->node];
}

static int lies_on(const Cut *cut, int virtual_stage) {
  return virtual_stage < 0 ? STAGE_ANY : virtual_stage % cut->stages->stages;
}

static bool circle(Cut *cut, const Node *node, ValueId value) {
  Diagnostic *error = diag_error(cut->c->diag, E043, node->span, "the pipeline would have to run backwards here");
  diag_label(cut->c->diag, error, "this is needed on an earlier stage than the one that makes it");
  Name name = graph_value(cut->graph, value)->name;
  diag_help(cut->c->diag, error, "'%s' depends on a later iteration of '%s'; do not cut that axis into stages",
            name ? name : "it", cut->c->spec->pipeline.axis);
  return false;
}

// --- messages ---

static Message *message_to(Cut *cut, ValueId value, int to) {
  for (int i = cut->first[value]; i >= 0; i = cut->messages.at[i].next) {
    if (cut->messages.at[i].to == to) {
      return &cut->messages.at[i];
    }
  }
  return NULL;
}

static Message *add_message(Cut *cut, ValueId value, int to, Part part) {
  Message *known = message_to(cut, value, to);
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

static ValueId receive(Cut *cut, Message *message, int from) {
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

static void send(Cut *cut, const Message *message, ValueId value) {
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

// Backward operations that only gradients of parameters wait for.
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
}

// The virtual stage at which a value arrives: of those on the reader's stage the first that comes after its maker, so
// that no message waits for a later chunk.
static int landing(const Cut *cut, int from, int to, bool forward) {
  int stages = cut->stages->stages, step = forward ? 1 : -1;
  if (forward ? to < from : to > from) {
    return to;
  }
  int at = from + step;
  while (at != to && at % stages != to % stages) {
    at += step;
  }
  return at;
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
    return circle(cut, node, value);
  }
  if (lies_on(cut, from) == lies_on(cut, to)) {
    cut->leaves[value] = true;
    return true;
  }
  Part part = forward && from < to ? PART_FORWARD : PART_BACKWARD;
  int at = landing(cut, from, to, forward);
  Message *message = add_message(cut, value, at, part);
  message->leaves |= cut->part[id] != (uint8_t)part || at != to;
  return true;
}

static bool plan_body(Cut *cut, const Region *body) {
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
  for (int i = 0; i < body->results.count; i++) {
    cut->leaves[body->results.at[i]] = true;
  }
  return good;
}

// --- the segments of this stage ---

typedef struct {
  int at;  // virtual stage
  Part part;
  int number;
  ValueList leaving;  // values before; made here as:
  ValueList made;
} Segment;

static ValueId here(Cut *cut, Segment *segment, ValueId value);

// A copy of what depends on inputs and constants alone.
static ValueId clone_here(Cut *cut, Segment *segment, ValueId value) {
  Graph *graph = cut->graph;
  int64_t known;
  if (map_get_bytes(&cut->clones, MAP_KEY((uint64_t)value, (uint64_t)segment->number), &known)) {
    return (ValueId)known;
  }
  NodeId id = graph_value(graph, value)->node;
  Node node = *graph_node(graph, id);
  ValueId *operands = ARENA_ARRAY(cut->c->arena, ValueId, node.operand_count + 1);
  for (int i = 0; i < node.operand_count; i++) {
    operands[i] = here(cut, segment, node.operands[i]);
  }
  NodeId copy = graph_clone(graph, id, operands);
  for (int i = 0; i < node.result_count; i++) {
    ValueId made = graph_node(graph, copy)->first_result + i;
    shard_hold_alike(cut->c, made, node.first_result + i);
    map_put_bytes(&cut->clones, MAP_KEY((uint64_t)(node.first_result + i), (uint64_t)segment->number), made);
  }
  return (ValueId)map_get_bytes_or(&cut->clones, MAP_KEY((uint64_t)value, (uint64_t)segment->number), -1);
}

static ValueId here(Cut *cut, Segment *segment, ValueId value) {
  NodeId maker = value < cut->limit ? graph_value(cut->graph, value)->node : -1;
  if (maker < 0 || maker >= cut->stages->node_count || !cut->in_body[maker]) {
    return value;
  }
  int from = cut->stages->node[maker];
  if (from < 0) {
    return clone_here(cut, segment, value);
  }
  if (from == segment->at && cut->part[maker] == (uint8_t)segment->part) {
    return value;
  }
  if (lies_on(cut, from) == cut->stage) {
    return cut->moved[value];
  }
  bool forward = !graph_node(cut->graph, maker)->backward;
  const Message *message = message_to(cut, value, landing(cut, from, segment->at, forward));
  return message->here;
}

static void leave(Cut *cut, Segment *segment, ValueId value, ValueId made) {
  array_push(cut->c->arena, &segment->leaving, value);
  array_push(cut->c->arena, &segment->made, made);
}

static void segment_node(Cut *cut, Segment *segment, NodeId id) {
  Graph *graph = cut->graph;
  const Node *node = graph_node(graph, id);
  int at = cut->stages->node[id];
  bool own = at == segment->at && cut->part[id] == (uint8_t)segment->part;
  graph->scope = node->scope;
  graph->backward = segment->part != PART_FORWARD;
  if (own) {
    for (int i = 0; i < node->operand_count; i++) {
      ValueId operand = here(cut, segment, node->operands[i]);
      graph_node(graph, id)->operands[i] = operand;
      node = graph_node(graph, id);
    }
    array_push(graph->arena, &graph->regions.at[graph->region].nodes, id);
  }
  for (int i = 0; i < graph_node(graph, id)->result_count; i++) {
    ValueId value = graph_node(graph, id)->first_result + i;
    for (int m = cut->first[value]; m >= 0; m = cut->messages.at[m].next) {
      Message *message = &cut->messages.at[m];
      if (own) {
        send(cut, message, value);
      } else if (message->to == segment->at && message->part == segment->part) {
        ValueId made = receive(cut, message, lies_on(cut, at));
        if (message->leaves) {
          leave(cut, segment, -1 - m, made);
        }
      }
    }
    if (own && cut->leaves[value]) {
      leave(cut, segment, value, value);
    }
  }
}

// What the microbatch returns comes first, in its order: matrices side by side are those of parameters side by side.
static void order_leaving(Cut *cut, const Region *body, Segment *segment) {
  ValueList leaving = {0}, made = {0};
  for (int pass = 0; pass < 2; pass++) {
    for (int r = 0; r < (pass ? 1 : body->results.count); r++) {
      for (int i = 0; i < segment->leaving.count; i++) {
        bool taken = segment->made.at[i] < 0;
        if (!taken && (pass || segment->leaving.at[i] == body->results.at[r])) {
          array_push(cut->c->arena, &leaving, segment->leaving.at[i]);
          array_push(cut->c->arena, &made, segment->made.at[i]);
          segment->made.at[i] = -1;
        }
      }
    }
  }
  segment->leaving = leaving;
  segment->made = made;
}

static void make_segment(Cut *cut, const Region *body, RegionId outer, Segment *segment, const ValueList *anywhere) {
  Graph *graph = cut->graph;
  RegionId region = graph_region(graph);
  graph->region = region;
  for (int i = 0; i < body->nodes.count; i++) {
    segment_node(cut, segment, body->nodes.at[i]);
  }
  for (int i = 0; i < anywhere->count; i++) {  // results that no stage in particular makes
    leave(cut, segment, anywhere->at[i], clone_here(cut, segment, anywhere->at[i]));
  }
  order_leaving(cut, body, segment);
  graph->regions.at[region].results = segment->made;
  graph->region = outer;
  graph->backward = segment->part != PART_FORWARD;
  graph->span = SPAN_NONE;
  int64_t number = (int64_t)(segment->at / cut->stages->stages) * PART_COUNT + (int64_t)segment->part;
  NodeInit init = {NODE_INIT, .region = region, .integer = number};
  if (graph->regions.at[region].nodes.count == 0) {
    return;
  }
  ValueId first = graph_add0(graph, OP_SEGMENT, init);
  for (int i = 0; i < segment->leaving.count; i++) {
    ValueId value = segment->leaving.at[i];
    if (value < 0) {
      cut->messages.at[-1 - value].here = first + i;
      shard_hold_alike(cut->c, first + i, cut->messages.at[-1 - value].value);
    } else {
      cut->moved[value] = first + i;
      shard_hold_alike(cut->c, first + i, value);
    }
  }
}

// The body again, as the segments of this stage in the order of one microbatch.
static void cut_body(Cut *cut, NodeId id) {
  Graph *graph = cut->graph;
  const Region body = graph->regions.at[graph_node(graph, id)->region];
  Node node = *graph_node(graph, id);
  RegionId top = graph->region, outer = graph_region(graph);
  bool weights = cut->c->spec->pipeline.schedule == SCHEDULE_ZERO_BUBBLE;
  ValueList anywhere = {0}, none = {0};
  for (int i = 0; i < body.results.count; i++) {
    if (stage_at(cut, body.results.at[i]) < 0) {
      array_push(cut->c->arena, &anywhere, body.results.at[i]);
    }
  }
  int chunks = cut->stages->chunks;
  for (int step = 0; step < chunks * PART_COUNT; step++) {
    int part = step < chunks ? PART_FORWARD : (step - chunks) % 2 ? PART_WEIGHTS : PART_BACKWARD;
    int chunk = step < chunks ? step : chunks - 1 - (step - chunks) / 2;
    if (part == PART_WEIGHTS && !weights) {
      continue;
    }
    Segment segment = {chunk * cut->stages->stages + cut->stage, (Part)part, step, {0}, {0}};
    make_segment(cut, &body, outer, &segment, step == 0 ? &anywhere : &none);
  }
  ValueList results = {0}, old = {0};
  for (int i = 0; i < body.results.count; i++) {
    ValueId value = body.results.at[i];
    if (cut->moved[value] >= 0) {
      array_push(cut->c->arena, &results, cut->moved[value]);
      array_push(cut->c->arena, &old, node.first_result + i);
    }
  }
  graph->regions.at[outer].results = results;
  graph->region = top;
  graph->backward = node.backward;
  graph->span = node.span;
  graph->scope = node.scope;
  ValueId first = graph_add0(graph, OP_MICROBATCH, (NodeInit){NODE_INIT, .region = outer, .integer = node.integer});
  for (int i = 0; i < old.count; i++) {
    cut->moved[old.at[i]] = first + i;
    graph_value(graph, first + i)->name = graph_value(graph, old.at[i])->name;
    shard_hold_alike(cut->c, first + i, old.at[i]);
  }
}

// --- outside of microbatches ---

static int top_stage(const Cut *cut, NodeId id) {
  return lies_on(cut, cut->stages->node[id]);
}

static void plan_top(Cut *cut, const NodeList *nodes) {
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(cut->graph, nodes->at[i]);
    int to = top_stage(cut, nodes->at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      const Node *maker = graph_producer(cut->graph, node->operands[j]);
      int from = lies_on(cut, stage_at(cut, node->operands[j]));
      if (to >= 0 && from >= 0 && from != to && maker && maker->op != OP_PARAM && maker->op != OP_STATE) {
        add_message(cut, node->operands[j], to, PART_FORWARD);
      }
    }
  }
}

static ValueId top_here(const Cut *cut, ValueId value) {
  for (int m = value < cut->limit ? cut->first[value] : -1; m >= 0; m = cut->messages.at[m].next) {
    if (cut->messages.at[m].to == cut->stage && cut->messages.at[m].here >= 0) {
      return cut->messages.at[m].here;
    }
  }
  return value < cut->limit && cut->moved[value] >= 0 ? cut->moved[value] : value;
}

static void top_messages(Cut *cut, ValueId value) {
  int from = lies_on(cut, stage_at(cut, value));
  for (int m = cut->first[value]; m >= 0; m = cut->messages.at[m].next) {
    Message *message = &cut->messages.at[m];
    if (from == cut->stage) {
      send(cut, message, top_here(cut, value));
    } else if (message->to == cut->stage) {
      receive(cut, message, from);
    }
  }
}

// The new value of a parameter that several stages use, from the one that updates it to the others.
static void share_new(Cut *cut, const Node *assign, int index, ValueId value, int member) {
  Graph *graph = cut->graph;
  const Persistent *persistent = &graph->persistent.at[index];
  int owner = cut->stages->owner[index];
  uint64_t others = cut->stages->holders[index] & ~(1ull << owner);
  for (int to = 0; to < cut->stages->stages && others; to++) {
    if (!(others >> to & 1)) {
      continue;
    }
    Message message = {persistent->value, to, PART_FORWARD, cut->channels++, false, -1, -1};
    graph->span = assign->span;
    if (cut->stage == owner) {
      ValueId part = value;
      if (member >= 0) {
        AxisId axis = graph_shape(graph, value).axis[0];
        NodeInit init = {NODE_INIT, .axes = persistent->shape, .axis = axis, .integer = member};
        part = graph_add1(graph, OP_PART, init, value);
        shard_hold_alike(cut->c, part, persistent->value);
      }
      send(cut, &message, part);
    } else if (cut->stage == to) {
      graph_op2(graph, OP_ASSIGN, persistent->value, receive(cut, &message, owner));
    }
  }
}

static int index_of(const Cut *cut, const Node *leaf) {
  const Persistent *found = graph_persistent(cut->graph, leaf->text);
  return found ? (int)(found - cut->graph->persistent.at) : 0;
}

static void after_assign(Cut *cut, NodeId id, ValueId value) {
  Node assign = *graph_node(cut->graph, id);
  const Node *target = graph_producer(cut->graph, assign.operands[0]);
  if (target->op == OP_PARAM) {
    share_new(cut, &assign, index_of(cut, target), value, -1);
  }
  for (int i = 0; target->op == OP_PACK && i < target->operand_count; i++) {
    const Node *leaf = graph_producer(cut->graph, target->operands[i]);
    if (leaf->op == OP_PARAM) {
      share_new(cut, &assign, index_of(cut, leaf), value, i);
    }
    target = graph_producer(cut->graph, assign.operands[0]);
  }
}

static void top_node(Cut *cut, NodeId id) {
  Graph *graph = cut->graph;
  const Node *node = graph_node(graph, id);
  graph->scope = node->scope;
  graph->backward = node->backward;
  if (node->op == OP_MICROBATCH) {
    cut_body(cut, id);
  } else {
    int at = top_stage(cut, id);
    bool kept = at < 0 || at == cut->stage || op_leaf(node->op);
    for (int i = 0; kept && i < node->operand_count; i++) {
      graph_node(graph, id)->operands[i] = top_here(cut, node->operands[i]);
    }
    if (kept) {
      array_push(graph->arena, &graph->regions.at[0].nodes, id);
    }
    if (node->op == OP_ASSIGN) {
      after_assign(cut, id, graph_node(graph, id)->operands[1]);
    }
  }
  node = graph_node(graph, id);
  for (int i = 0; i < node->result_count; i++) {
    top_messages(cut, node->first_result + i);
    node = graph_node(graph, id);
  }
}

// --- which stages hold which tensors ---

static void keep_tenancy(Compilation *c, const Stages *stages) {
  for (int i = 0; i < c->graph->persistent.count; i++) {
    Name name = c->graph->persistent.at[i].name;
    map_put(c->holders, map_key(name), (int64_t)(stages->holders[i] << 8 | (uint64_t)stages->owner[i]));
  }
}

// Tensors of other stages leave the map of state; first values are given to those that are here.
static void drop_others(Compilation *c) {
  Graph *graph = c->graph;
  for (int i = 0; i < graph->persistent.count; i++) {
    Persistent *persistent = &graph->persistent.at[i];
    int64_t known = map_get_or(c->holders, map_key(persistent->name), 1 << 8);
    persistent->elsewhere = !((uint64_t)known >> 8 >> c->stage & 1);
    persistent->copy = (known & 0xff) != c->stage;
  }
  NodeList kept = {0};
  const NodeList *nodes = &graph->regions.at[0].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    const Node *target = node->op == OP_ASSIGN ? graph_producer(graph, node->operands[0]) : NULL;
    bool away = target && target->op != OP_PACK && graph_persistent(graph, target->text)->elsewhere;
    if (!away) {
      array_push(c->arena, &kept, nodes->at[i]);
    }
  }
  graph->regions.at[0].nodes = kept;
}

bool pass_stage(Compilation *c) {
  Graph *graph = c->graph;
  if (!c->holders) {
    return true;
  }
  const Stages *stages = stages_find(c->arena, graph, c->spec);
  if (!stages) {
    return false;
  }
  if (c->program == PROGRAM_TRAIN) {
    keep_tenancy(c, stages);
  }
  if (c->program != PROGRAM_INITIALISE) {
    Cut cut = {.c = c, .graph = graph, .stages = stages, .stage = c->stage, .limit = graph->values.count};
    cut.part = ARENA_ARRAY(c->arena, uint8_t, graph->nodes.count + 1);
    cut.in_body = ARENA_ARRAY(c->arena, bool, graph->nodes.count + 1);
    cut.leaves = ARENA_ARRAY(c->arena, bool, cut.limit + 1);
    cut.moved = ARENA_ARRAY(c->arena, ValueId, cut.limit + 1);
    cut.first = ARENA_ARRAY(c->arena, int, cut.limit + 1);
    cut.clones = map_create(c->arena);
    memset(cut.moved, -1, sizeof *cut.moved * (size_t)(cut.limit + 1));
    memset(cut.first, -1, sizeof *cut.first * (size_t)(cut.limit + 1));
    NodeList old = graph->regions.at[0].nodes;
    bool good = true;
    for (int i = 0; i < old.count && good; i++) {
      const Node *node = graph_node(graph, old.at[i]);
      good = node->op != OP_MICROBATCH || plan_body(&cut, &graph->regions.at[node->region]);
    }
    if (!good) {
      return false;
    }
    plan_top(&cut, &old);
    graph->regions.at[0].nodes = (NodeList){0};
    graph->region = 0;
    for (int i = 0; i < old.count; i++) {
      top_node(&cut, old.at[i]);
    }
  }
  graph->region = 0;
  graph->backward = false;
  drop_others(c);
  graph_remove_dead(graph);
  return true;
}
