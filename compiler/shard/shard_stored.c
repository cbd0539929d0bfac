// shard_stored.c: parameters and gradients that ranks store in pieces of arenas (ZeRO).
//
// A parameter that is stored so is gathered, with all others of its pack, where it is used: once in the forward and
// once in the backward; or once a step, before the microbatches, and kept until its last use. Gradients that are stored
// so are packed and scattered in every microbatch, not after the last.
#include <string.h>

#include "compiler/shard/shard.h"

// --- parameters ---

static const Pack *stored_pack(const Shard *s, Name parameter, int *member) {
  for (int i = 0; i < s->graph->packs.count; i++) {
    const Pack *pack = &s->graph->packs.at[i];
    for (int j = 0; j < pack->count && pack->param; j++) {
      if (pack->members[j] == parameter) {
        *member = j;
        return pack;
      }
    }
  }
  return NULL;
}

static NodeId packs_parameters(const Graph *graph, const NodeList *nodes, AxisId axis) {
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (node->op == OP_PACK && node->axis == axis && graph_producer(graph, node->operands[0])->op == OP_PARAM) {
      return nodes->at[i];
    }
  }
  return -1;
}

// Programs that only use parameters know the packs of the training step by their members' names.
static void take_packs(Shard *s) {
  Graph *graph = s->graph;
  for (int i = 0; i < s->c->pack_count && graph->packs.count < s->c->pack_count; i++) {
    Pack pack = s->c->packs[i];
    int64_t elements = 0;
    for (int j = 0; j < pack.count; j++) {
      const Persistent *member = graph_persistent(graph, pack.members[j]);
      elements += member ? graph_elements(graph, member->shape) : 0;
    }
    pack.axis = graph_axis(graph, name_format(graph->names, "pack.%d", i), elements > 0 ? elements : 1);
    array_push(s->c->arena, &graph->packs, pack);
  }
}

static ValueId leaf_of(Graph *graph, Persistent *persistent) {
  NodeInit init = {NODE_INIT, .text = persistent->name, .type = persistent->type, .shape = persistent->shape};
  graph->span = persistent->span;
  graph->role = ROLE_PARAMETER;
  ValueId leaf = graph_add0(graph, OP_PARAM, init);
  persistent->value = leaf;
  return leaf;
}

static bool listed(const Graph *graph, const NodeList *nodes, ValueId leaf) {
  for (int i = 0; leaf >= 0 && i < nodes->count; i++) {
    if (nodes->at[i] == graph_value(graph, leaf)->node) {
      return true;
    }
  }
  return false;
}

// The packs of such parameters come first, behind the parameters themselves.
void shard_stored_parameters(Shard *s) {
  Graph *graph = s->graph;
  if (s->c->program == PROGRAM_INITIALISE) {
    return;
  }
  take_packs(s);
  s->stored = ARENA_ARRAY(s->c->arena, ValueId, graph->packs.count + 1);
  Role role = graph->role;
  for (int i = 0; i < graph->packs.count; i++) {
    const Pack *pack = &graph->packs.at[i];
    NodeList old = graph->regions.at[0].nodes, leaves = {0}, rest = {0};
    if (!pack->param) {
      continue;
    }
    graph->regions.at[0].nodes = (NodeList){0};
    ValueId *members = ARENA_ARRAY(s->c->arena, ValueId, pack->count);
    for (int j = 0; j < pack->count; j++) {
      Persistent *member = graph_persistent(graph, pack->members[j]);
      members[j] = listed(graph, &old, member->value) ? member->value : leaf_of(graph, member);
    }
    leaves = graph->regions.at[0].nodes;  // those that nothing else asked for
    NodeId known = packs_parameters(graph, &old, pack->axis);
    for (int j = 0; j < old.count; j++) {
      const Node *node = graph_node(graph, old.at[j]);
      if (old.at[j] != known) {
        array_push(
            s->c->arena,
            node->op == OP_PARAM || (node->op == OP_PACK && graph_producer(graph, node->operands[0])->op == OP_PARAM)
                ? &leaves
                : &rest,
            old.at[j]);
      }
    }
    graph->regions.at[0].nodes = leaves;
    if (known >= 0) {
      array_push(s->c->arena, &graph->regions.at[0].nodes, known);
      s->stored[i] = graph_node(graph, known)->first_result;
    } else {
      graph->role = ROLE_UPDATE;
      s->stored[i] = graph_add(graph, OP_PACK, (NodeInit){NODE_INIT, .axis = pack->axis}, members, pack->count);
    }
    for (int j = 0; j < rest.count; j++) {
      array_push(s->c->arena, &graph->regions.at[0].nodes, rest.at[j]);
    }
  }
  graph->role = role;
}

// A parameter that is stored in parts along one of its axes, as the operations ask for it.
static ValueId put_together(Shard *s, ValueId value, const Node *leaf) {
  const Persistent *persistent = graph_persistent(s->graph, leaf->text);
  Held want = held_whole();
  if (!persistent) {
    return value;
  }
  mapping_parameter(s->mapping, persistent, want.axis);
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    bool cut = m < s->mapping->count && want.axis[m] >= 0 && shard_held(s, value)->axis[m] == want.axis[m];
    want.axis[m] = cut ? want.axis[m] : -1;
  }
  s->why = name_format(s->graph->names, "%s", leaf->text);
  return shard_reshard(s, value, &want);
}

// This rank's piece of the arena in the format in which it is wanted, so that it travels so.
static ValueId piece_as(Shard *s, ValueId arena, Name format) {
  Graph *graph = s->graph;
  const uint64_t key[] = {(uint64_t)arena, map_key(format), (uint64_t)graph->region, graph->backward};
  int64_t known;
  if (!format || map_get_bytes(&s->pieces, key, sizeof key, &known)) {
    return format ? (ValueId)known : arena;
  }
  Role role = graph->role;
  graph->role = ROLE_PARAMETER;
  ValueId made = graph_add1(graph, OP_CAST, (NodeInit){NODE_INIT, .text = format}, arena);
  graph->role = role;
  Held held = held_of(s, arena);
  Cause cause = *shard_cause(s, arena);
  *shard_held(s, made) = held;
  *shard_cause(s, made) = cause;
  map_put_bytes(&s->pieces, key, sizeof key, made);
  return made;
}

bool shard_casts_stored(const Shard *s, const Node *node) {
  const Node *leaf = node->op == OP_CAST ? graph_producer(s->graph, node->operands[0]) : NULL;
  int member;
  return leaf && leaf->op == OP_PARAM && s->stored && stored_pack(s, leaf->text, &member);
}

bool shard_in_arena(const Shard *s, ValueId value) {
  const Node *leaf = graph_producer(s->graph, value);
  int member;
  return leaf && leaf->op == OP_PARAM && s->stored && stored_pack(s, leaf->text, &member);
}

// What is gathered once a step, of the arena in the format in which it is wanted: in front of all microbatches.
static ValueId gather_once(Shard *s, const Pack *pack, Name format, Name why) {
  Graph *graph = s->graph;
  const RegionId region = graph->region;
  const bool backward = graph->backward;
  graph->region = 0;
  graph->backward = false;
  s->why = why;
  ValueId arena = piece_as(s, s->stored[pack - graph->packs.at], format);
  Held want = held_whole();
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    want.axis[m] = (pack->cut | (pack->param & ~pack->kept)) >> m & 1 ? pack->axis : -1;
  }
  ValueId made = shard_reshard(s, arena, &want);
  graph->region = region;
  graph->backward = backward;
  return made;
}

static ValueId put_in_place(Shard *s, ValueId value) {
  Graph *graph = s->graph;
  const Node *leaf = graph_producer(graph, value);
  Name format = NULL;
  if (leaf && shard_casts_stored(s, leaf)) {
    format = leaf->text;
    value = leaf->operands[0];
    leaf = graph_producer(graph, value);
  }
  int member = 0;
  const Pack *pack = leaf && leaf->op == OP_PARAM && s->stored ? stored_pack(s, leaf->text, &member) : NULL;
  if (!pack) {
    return leaf && leaf->op == OP_PARAM ? put_together(s, value, leaf) : value;
  }
  const Name why = leaf->text;
  ValueId arena =
      pack->kept ? gather_once(s, pack, format, why) : piece_as(s, s->stored[pack - graph->packs.at], format);
  Held want = held_whole();
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    want.axis[m] = pack->cut >> m & 1 ? pack->axis : -1;
  }
  s->why = why;
  ValueId whole = shard_reshard(s, arena, &want);
  // A view of its own for the backward, which may be another segment.
  const uint64_t key[] = {(uint64_t)value, (uint64_t)whole, (uint64_t)graph->region, graph->backward};
  int64_t known;
  if (map_get_bytes(&s->parts, key, sizeof key, &known)) {
    return (ValueId)known;
  }
  Role role = graph->role;
  graph->role = ROLE_PARAMETER;
  NodeInit init = {NODE_INIT, .axes = graph_shape(graph, value), .axis = pack->axis, .integer = member};
  ValueId part = graph_add1(graph, OP_PART, init, whole);
  graph->role = role;
  graph_value(graph, part)->name = graph_value(graph, value)->name;
  Held held = *shard_held(s, value);
  *shard_held(s, part) = held;
  map_put_bytes(&s->parts, key, sizeof key, part);
  return part;
}

// What stands for a parameter, a cast of one, a state or an input, where it is used.
ValueId shard_stored(Shard *s, ValueId value) {
  const Node *leaf = graph_producer(s->graph, value);
  const Name label = graph_value(s->graph, value)->label;
  const ScopeId scope = leaf ? leaf->scope : -1;
  const bool labelled = label && leaf && shard_outside(leaf) && !s->graph->backward;
  ValueId made = put_in_place(s, value);
  return labelled ? shard_as_labelled(s, made, label, scope) : made;
}

// --- gradients ---

static NodeId find_microbatch(const Graph *graph) {
  const NodeList *top = &graph->regions.at[0].nodes;
  for (int i = 0; i < top->count; i++) {
    if (graph_node(graph, top->at[i])->op == OP_MICROBATCH) {
      return top->at[i];
    }
  }
  return -1;
}

static const Pack *gradient_pack(const Graph *graph, const Node *node, NodeId microbatch) {
  for (int i = 0; node->op == OP_PACK && i < graph->packs.count; i++) {
    if (graph->packs.at[i].axis == node->axis && graph->packs.at[i].grad) {
      for (int j = 0; j < node->operand_count; j++) {
        if (graph_value(graph, node->operands[j])->node != microbatch) {
          return NULL;
        }
      }
      return &graph->packs.at[i];
    }
  }
  return NULL;
}

static bool is_read(const Graph *graph, const NodeList *nodes, ValueId value) {
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      if (node->operands[j] == value) {
        return true;
      }
    }
  }
  return false;
}

// The microbatches give packs of gradients instead of gradients.
void shard_stored_gradients(Shard *s) {
  Graph *graph = s->graph;
  NodeId id = find_microbatch(graph);
  if (id < 0) {
    return;
  }
  Node node = *graph_node(graph, id);
  RegionId body = node.region;
  ValueId *replace = ARENA_ARRAY(s->c->arena, ValueId, graph->values.count * 2 + 64);
  bool *packed = ARENA_ARRAY(s->c->arena, bool, node.result_count + 1), any = false;
  memset(replace, -1, sizeof *replace * (size_t)(graph->values.count * 2 + 64));
  NodeList old = graph->regions.at[0].nodes, kept = {0};
  ValueList results = {0}, from = {0};
  for (int i = 0; i < old.count; i++) {
    Node pack = *graph_node(graph, old.at[i]);
    if (!gradient_pack(graph, &pack, id)) {
      array_push(s->c->arena, &kept, old.at[i]);
      continue;
    }
    any = true;
    ValueId *operands = ARENA_ARRAY(s->c->arena, ValueId, pack.operand_count);
    for (int j = 0; j < pack.operand_count; j++) {
      int at = graph_value(graph, pack.operands[j])->result;
      operands[j] = graph->regions.at[body].results.at[at];
      packed[at] = true;
    }
    graph->region = body;
    graph->span = pack.span;
    graph->scope = pack.scope;
    graph->backward = true;
    graph->role = graph_value(graph, pack.first_result)->role;
    ValueId made = graph_add(graph, OP_PACK, (NodeInit){NODE_INIT, .axis = pack.axis}, operands, pack.operand_count);
    array_push(s->c->arena, &results, made);
    array_push(s->c->arena, &from, pack.first_result);
  }
  if (!any) {
    return;
  }
  for (int i = 0; i < node.result_count; i++) {  // what is not packed, or is read otherwise too
    if (packed[i] && !is_read(graph, &kept, node.first_result + i)) {
      continue;
    }
    array_push(s->c->arena, &results, graph->regions.at[body].results.at[i]);
    array_push(s->c->arena, &from, node.first_result + i);
  }
  graph->regions.at[body].results = results;
  graph->regions.at[0].nodes = (NodeList){0};
  graph->region = 0;
  graph->span = node.span;
  graph->scope = node.scope;
  graph->backward = node.backward;
  ValueId first = graph_add0(graph, OP_MICROBATCH, (NodeInit){NODE_INIT, .region = body, .integer = node.integer});
  NodeId made = graph_value(graph, first)->node;
  for (int i = 0; i < from.count; i++) {
    replace[from.at[i]] = first + i;
    graph_value(graph, first + i)->name = graph_value(graph, from.at[i])->name;
  }
  graph->regions.at[0].nodes = kept;
  for (int i = 0; i < kept.count; i++) {
    graph->regions.at[0].nodes.at[i] = kept.at[i] == id ? made : kept.at[i];
  }
  graph_replace_values(graph, replace);
  graph->role = ROLE_ACTIVATION;
}
