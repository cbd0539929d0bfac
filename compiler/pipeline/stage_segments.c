// stage_segments.c: the body of a microbatch as the segments of one stage.
#include "compiler/pipeline/stage.h"

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
  if (node.region >= 0) {
    Map map = map_create(cut->c->arena);
    RegionId region = graph_clone_region(graph, node.region, &map);
    graph_node(graph, copy)->region = region;
  }
  for (int i = 0; i < node.result_count; i++) {
    ValueId made = graph_node(graph, copy)->first_result + i;
    shard_hold_alike(cut->c, made, node.first_result + i);
    map_put_bytes(&cut->clones, MAP_KEY((uint64_t)(node.first_result + i), (uint64_t)segment->number), made);
  }
  return (ValueId)map_get_bytes_or(&cut->clones, MAP_KEY((uint64_t)value, (uint64_t)segment->number), -1);
}

void stage_leave(Cut *cut, Segment *segment, ValueId value, ValueId made, ValueId *outside) {
  array_push(cut->c->arena, &segment->leaving, ((Leaving){value, made, outside}));
}

static ValueId steady_here(Cut *cut, Segment *segment, ValueId value, Instance *instance) {
  if (instance->part != segment->part) {
    return instance->here;
  }
  ValueId made = clone_here(cut, segment, value);
  if (instance->leaves) {
    stage_leave(cut, segment, value, made, &instance->here);
    instance->leaves = false;
  }
  return made;
}

static ValueId here(Cut *cut, Segment *segment, ValueId value) {
  NodeId maker = value < cut->limit ? graph_value(cut->graph, value)->node : -1;
  if (maker < 0 || maker >= cut->stages->node_count || !cut->in_body[maker]) {
    return stage_top_here(cut, value);
  }
  int from = cut->stages->node[maker];
  if (from < 0) {
    Instance *instance = stage_instance(cut, value, segment->at);
    return instance ? steady_here(cut, segment, value, instance) : clone_here(cut, segment, value);
  }
  if (from == segment->at && cut->part[maker] == (uint8_t)segment->part) {
    return value;
  }
  if (lies_on(cut, from) == cut->stage) {
    return cut->moved[value];
  }
  const Message *message = stage_message(cut, value, stage_landing(cut, from, segment->at));
  return message->here;
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
      stage_set_operand(cut, id, i, here(cut, segment, node->operands[i]));
      node = graph_node(graph, id);
    }
    array_push(graph->arena, &graph->regions.at[graph->region].nodes, id);
  }
  for (int i = 0; i < graph_node(graph, id)->result_count; i++) {
    ValueId value = graph_node(graph, id)->first_result + i;
    for (int m = cut->first[value]; m >= 0; m = cut->messages.at[m].next) {
      Message *message = &cut->messages.at[m];
      if (own) {
        stage_send(cut, message, value);
      } else if (message->to == segment->at && message->part == segment->part) {
        ValueId made = stage_receive(cut, message, lies_on(cut, at));
        if (message->leaves) {
          stage_leave(cut, segment, value, made, &message->here);
        }
      }
    }
    if (own && cut->leaves[value]) {
      stage_leave(cut, segment, value, value, &cut->moved[value]);
    }
  }
}

// What the microbatch returns comes first, in its order: matrices side by side are those of parameters side by side.
static void order_leaving(Cut *cut, const Region *body, Segment *segment) {
  Segment ordered = *segment;
  ordered.leaving.at = NULL;
  ordered.leaving.count = ordered.leaving.capacity = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (int r = 0; r < (pass ? 1 : body->results.count); r++) {
      for (int i = 0; i < segment->leaving.count; i++) {
        Leaving *at = &segment->leaving.at[i];
        bool result = at->outside == &cut->moved[at->value] && at->value == body->results.at[pass ? 0 : r];
        if (at->made >= 0 && (pass || result)) {
          array_push(cut->c->arena, &ordered.leaving, *at);
          at->made = -1;
        }
      }
    }
  }
  *segment = ordered;
}

// The node of a segment whose region is made, where graph_add appends now.
void stage_close_segment(Cut *cut, const Segment *segment, RegionId region, int64_t number) {
  Graph *graph = cut->graph;
  for (int i = 0; i < segment->leaving.count; i++) {
    array_push(graph->arena, &graph->regions.at[region].results, segment->leaving.at[i].made);
  }
  if (graph->regions.at[region].nodes.count == 0) {
    return;
  }
  ValueId first = graph_add0(graph, OP_SEGMENT, (NodeInit){NODE_INIT, .region = region, .integer = number});
  for (int i = 0; i < segment->leaving.count; i++) {
    *segment->leaving.at[i].outside = first + i;
    shard_hold_alike(cut->c, first + i, segment->leaving.at[i].value);
  }
}

static void make_segment(Cut *cut, const Region *body, RegionId outer, Segment *segment, const ValueList *anywhere) {
  Graph *graph = cut->graph;
  RegionId region = graph_region(graph);
  graph->region = region;
  for (int i = 0; i < body->nodes.count; i++) {
    segment_node(cut, segment, body->nodes.at[i]);
  }
  for (int i = 0; i < anywhere->count; i++) {  // results that no stage in particular makes
    ValueId value = anywhere->at[i];
    stage_leave(cut, segment, value, clone_here(cut, segment, value), &cut->moved[value]);
  }
  order_leaving(cut, body, segment);
  graph->region = outer;
  graph->backward = segment->part != PART_FORWARD;
  graph->span = SPAN_NONE;
  stage_close_segment(cut, segment, region,
                      (int64_t)(segment->at / cut->stages->stages) * PART_COUNT + (int64_t)segment->part);
}

// The body again, as the segments of this stage in the order of one microbatch.
void stage_cut_body(Cut *cut, NodeId id) {
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
    Segment segment = {chunk * cut->stages->stages + cut->stage, (Part)part, step, {0}};
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
