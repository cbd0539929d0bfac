// stage.c: of the whole step, what one stage of the pipeline does, and the messages between the stages.
//
// Needs what stages has planned. In a training step the microbatch's body becomes segments: the forward and the
// backward of each chunk (and, for zero-bubble, the gradients of its weights apart), which the schedule calls in its
// order. A value made on another stage is received in the forward if it comes from an earlier stage's forward, else in
// the backward. Outside of microbatches, and in other programs, messages stand where the value is made in the order of
// the whole graph, which is the same for all stages, so that nobody waits in a circle.
#include "compiler/pipeline/stage.h"

#include <string.h>

void stage_set_operand(Cut *cut, NodeId id, int operand, ValueId value) {
  Node *node = graph_node(cut->graph, id);
  if (node->operands[operand] == value) {
    return;
  }
  const int last = cut->changed.count - 1;
  if (last < 0 || cut->changed.at[last].node != node) {  // operands of a node are set one after the other
    array_push(cut->c->arena, &cut->changed, ((Changed){node, node->operands}));
    node->operands = arena_copy(cut->c->arena, node->operands, sizeof *node->operands * (size_t)node->operand_count);
  }
  node->operands[operand] = value;
}

static int top_stage(const Cut *cut, NodeId id) {
  return lies_on(cut, cut->stages->node[id]);
}

static void top_messages(Cut *cut, ValueId value) {
  int from = lies_on(cut, stage_at(cut, value));
  for (int m = cut->first[value]; m >= 0; m = cut->messages.at[m].next) {
    Message *message = &cut->messages.at[m];
    if (from == cut->stage) {
      stage_send(cut, message, stage_top_here(cut, value));
    } else if (message->to == cut->stage) {
      stage_receive(cut, message, from);
    }
  }
}

// The new value of a tensor that several stages use, from the one that updates it to the others.
static void share_new(Cut *cut, const Node *assign, int index, ValueId value, int member) {
  Graph *graph = cut->graph;
  const Persistent *persistent = &graph->persistent.at[index];
  int owner = cut->stages->owner[index];
  for (int to = 0; to < cut->stages->stages; to++) {
    if (to == owner || !stage_in(cut->stages->holders[index], to)) {
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
      stage_send(cut, &message, part);
    } else if (cut->stage == to) {
      graph_op2(graph, OP_ASSIGN, persistent->value, stage_receive(cut, &message, owner));
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
  if (op_stored(target->op)) {
    share_new(cut, &assign, index_of(cut, target), value, -1);
  }
  for (int i = 0; target->op == OP_PACK && i < target->operand_count; i++) {
    const Node *leaf = graph_producer(cut->graph, target->operands[i]);
    if (op_stored(leaf->op)) {
      share_new(cut, &assign, index_of(cut, leaf), value, i);
    }
    target = graph_producer(cut->graph, assign.operands[0]);
  }
}

// Is it done on this stage? What is steady and done wherever it is needed may lack operands elsewhere.
static bool is_kept(const Cut *cut, NodeId id) {
  const Node *node = graph_node(cut->graph, id);
  const uint64_t *needed = node->result_count ? cut->stages->needed[node->first_result] : NULL;
  int at = top_stage(cut, id);
  return op_leaf(node->op) || (at < 0 ? !needed || stage_in(needed, cut->stage) : at == cut->stage);
}

static void top_node(Cut *cut, NodeId id) {
  Graph *graph = cut->graph;
  const Node *node = graph_node(graph, id);
  graph->scope = node->scope;
  graph->backward = node->backward;
  if (node->op == OP_MICROBATCH) {
    stage_cut_body(cut, id);
  } else {
    bool kept = is_kept(cut, id);
    for (int i = 0; kept && i < node->operand_count; i++) {
      stage_set_operand(cut, id, i, stage_top_here(cut, node->operands[i]));
    }
    if (kept) {
      array_push(graph->arena, &graph->regions.at[graph->region].nodes, id);
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

static bool stays_before(const Graph *graph, const Node *node) {
  const Node *first = node->op == OP_PACK ? graph_producer(graph, node->operands[0]) : node;
  return first && op_leaf(first->op);
}

// Positions, constants and the like are made anew inside the segment that stands before the microbatches: outside of
// it, where the update reads them, they are no part of it. `inside` false: they are what they were.
static void make_own(Cut *cut, const NodeList *old, int end, bool inside) {
  Graph *graph = cut->graph;
  for (int i = 0; i < end; i++) {
    const Node node = *graph_node(graph, old->at[i]);
    if (!op_free(node.op) || cut->first[node.first_result] >= 0) {
      continue;
    }
    if (inside) {
      graph_follow(graph, &node);
      ValueId made = graph_node(graph, graph_clone(graph, old->at[i], node.operands))->first_result;
      shard_hold_alike(cut->c, made, node.first_result);
      cut->moved[node.first_result] = made;
    } else {
      cut->moved[node.first_result] = -1;
    }
  }
}

// What stands before the microbatches, and what is sent there, is a segment: `end` nodes, of which leaves stay outside.
static void make_prepare(Cut *cut, const NodeList *old, int end) {
  Graph *graph = cut->graph;
  Segment segment = {.at = cut->stage};
  RegionId region = graph_region(graph);
  for (int i = 0; i < end; i++) {
    if (stays_before(graph, graph_node(graph, old->at[i]))) {
      array_push(graph->arena, &graph->regions.at[0].nodes, old->at[i]);
    }
  }
  graph->region = region;
  make_own(cut, old, end, true);
  for (int i = 0; i < end; i++) {
    NodeId id = old->at[i];
    bool stays = stays_before(graph, graph_node(graph, id));
    if (!stays) {
      top_node(cut, id);
    }
    for (int j = 0; j < graph_node(graph, id)->result_count; j++) {
      ValueId value = graph_node(graph, id)->first_result + j;
      if (stays) {
        top_messages(cut, value);
      } else if (cut->leaves[value] && is_kept(cut, id)) {
        stage_leave(cut, &segment, value, value, &cut->moved[value]);
      }
      for (int m = cut->first[value]; m >= 0; m = cut->messages.at[m].next) {
        Message *message = &cut->messages.at[m];
        if (message->to == cut->stage && message->here >= 0) {
          stage_leave(cut, &segment, value, message->here, &message->here);
        }
      }
    }
  }
  make_own(cut, old, end, false);
  graph->region = 0;
  graph->backward = false;
  graph->span = SPAN_NONE;
  stage_close_segment(cut, &segment, region, 0);
}

static void make_top(Cut *cut, const NodeList *old) {
  Graph *graph = cut->graph;
  int before = 0;
  while (before < old->count && graph_node(graph, old->at[before])->op != OP_MICROBATCH) {
    before++;
  }
  before = before < old->count ? before : 0;
  graph_rewrite(graph, 0);
  make_prepare(cut, old, before);
  for (int i = before; i < old->count; i++) {
    top_node(cut, old->at[i]);
  }
}

// --- which stages hold which tensors ---

// Tensors of other stages leave the map of state; first values are given to those that are here.
static void drop_others(Compilation *c) {
  Graph *graph = c->graph;
  for (int i = 0; i < graph->persistent.count; i++) {
    Persistent *persistent = &graph->persistent.at[i];
    int64_t known = map_get_or(&c->tenancy->index, map_key(persistent->name), -1);
    const Tenant *tenant = known >= 0 ? &c->tenancy->at.at[known] : NULL;
    persistent->elsewhere = tenant ? !stage_in(tenant->holders, c->stage) : c->stage > 0;
    persistent->copy = (tenant ? tenant->owner : 0) != c->stage;
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

// By value: do the nodes or results of a region, or of those in it, read it?
static void note_reads(const Graph *graph, const Region *region, bool *read) {
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(graph, region->nodes.at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      read[node->operands[j]] = true;
    }
    if (node->region >= 0) {
      note_reads(graph, &graph->regions.at[node->region], read);
    }
  }
  for (int i = 0; i < region->results.count; i++) {
    read[region->results.at[i]] = true;
  }
}

// Positions, constants and the like that are read in the region are made anew there, in front.
static void leaves_of_own(Compilation *c, RegionId region) {
  Graph *graph = c->graph;
  const NodeList nodes = graph->regions.at[region].nodes;
  Map own = map_create(c->arena);
  graph->regions.at[region].nodes = (NodeList){0};
  graph->region = region;
  for (int i = 0; i < nodes.count; i++) {
    for (int j = 0; j < graph_node(graph, nodes.at[i])->operand_count; j++) {
      const ValueId value = graph_node(graph, nodes.at[i])->operands[j];
      const Node *leaf = graph_producer(graph, value);
      if (!leaf || !op_free(leaf->op)) {
        continue;
      }
      int64_t made;
      if (!map_get(&own, (uint64_t)value, &made)) {
        graph_follow(graph, leaf);
        made = graph_node(graph, graph_clone(graph, graph_value(graph, value)->node, leaf->operands))->first_result;
        shard_hold_alike(c, (ValueId)made, value);
        map_put(&own, (uint64_t)value, made);
      }
      graph_node(graph, nodes.at[i])->operands[j] = (ValueId)made;
    }
  }
  for (int i = 0; i < nodes.count; i++) {
    array_push(graph->arena, &graph->regions.at[region].nodes, nodes.at[i]);
  }
  graph->region = 0;
}

// Without a pipeline: what is made once for all microbatches, as what is gathered for them, is a segment before them.
static bool gather_before(Compilation *c) {
  Graph *graph = c->graph;
  const GraphPlace place = graph_place(graph);
  const NodeList old = graph->regions.at[0].nodes;
  NodeList outside = {0};
  int end = 0;
  while (end < old.count && graph_node(graph, old.at[end])->op != OP_MICROBATCH) {
    end++;
  }
  if (end == old.count) {
    return pass_changed_nothing(c);
  }
  const RegionId region = graph_region(graph);
  const Region rest = {.nodes = {.at = old.at + end, .count = old.count - end}};
  bool *read = ARENA_ARRAY(c->arena, bool, graph->values.count + 1);
  note_reads(graph, &rest, read);
  for (int i = 0; i < end; i++) {
    const Node *node = graph_node(graph, old.at[i]);
    if (op_leaf(node->op) || stays_before(graph, node)) {
      array_push(graph->arena, &outside, old.at[i]);
      continue;
    }
    array_push(graph->arena, &graph->regions.at[region].nodes, old.at[i]);
    for (int j = 0; j < node->result_count; j++) {
      if (read[node->first_result + j]) {
        array_push(graph->arena, &graph->regions.at[region].results, node->first_result + j);
      }
    }
  }
  if (graph->regions.at[region].nodes.count == 0) {
    return true;
  }
  leaves_of_own(c, region);
  const Region inside = graph->regions.at[region];
  graph->regions.at[0].nodes = outside;
  graph->region = 0;
  graph->backward = false;
  graph->span = SPAN_NONE;
  const ValueId first = graph_add0(graph, OP_SEGMENT, (NodeInit){NODE_INIT, .region = region});
  ValueId *replace = ARENA_ARRAY(c->arena, ValueId, graph->values.count + 1);
  memset(replace, -1, sizeof *replace * (size_t)(graph->values.count + 1));
  for (int i = 0; i < inside.results.count; i++) {
    replace[inside.results.at[i]] = first + i;
    shard_hold_alike(c, first + i, inside.results.at[i]);
  }
  for (int i = end; i < old.count; i++) {
    array_push(graph->arena, &graph->regions.at[0].nodes, old.at[i]);
  }
  graph->regions.at[region] = (Region){0};
  graph_replace_values(graph, replace);
  graph->regions.at[region] = inside;
  for (int i = 0; i < inside.nodes.count; i++) {  // in the segment they are what they were
    Node *node = graph_node(graph, inside.nodes.at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      const int at = node->operands[j] - first;
      node->operands[j] = at >= 0 && at < inside.results.count ? inside.results.at[at] : node->operands[j];
    }
  }
  graph_return(graph, place);
  return true;
}

static void make_stage(Cut *cut, const NodeList *nodes) {
  cut->stage = cut->c->stage;
  cut->clones = map_create(cut->c->arena);
  cut->moved = ARENA_ARRAY(cut->c->arena, ValueId, cut->limit + 1);
  memset(cut->moved, -1, sizeof *cut->moved * (size_t)(cut->limit + 1));
  make_top(cut, nodes);
}

// The graph of all stages is what it was, for the next one.
static void take_back(Cut *cut, Region *top, const NodeList *nodes) {
  for (int i = cut ? cut->changed.count - 1 : -1; i >= 0; i--) {
    cut->changed.at[i].node->operands = cut->changed.at[i].operands;
  }
  top->nodes = *nodes;
}

bool pass_stage(Compilation *c) {
  Graph *graph = c->graph;
  if (!c->tenancy) {
    return gather_before(c);
  }
  Region *top = &graph->regions.at[0];  // of all stages, wherever the table of this one grows to
  const NodeList nodes = top->nodes;
  if (c->cut) {
    make_stage(c->cut, &nodes);
  }
  graph->region = 0;
  graph->backward = false;
  drop_others(c);
  graph_remove_dead(graph);
  GraphMoves moves;
  c->graph = graph_extract(graph, c->arena, &moves);
  c->shard = c->shard ? shard_extract(c->shard, c->graph, &moves) : NULL;
  take_back(c->cut, top, &nodes);
  c->cut = NULL;
  return true;
}
