// shard_pack.c: arenas of parameters, gradients and state: how ranks hold them, and the one sum of all gradients.
#include <string.h>

#include "compiler/shard/shard.h"

uint32_t shard_partial_sum(Shard *s, ValueId value) {
  uint32_t mesh = 0;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    mesh |= held_of(s, value).partial[m] == 1 + REDUCE_SUM && uses_of(s, value) == 1 ? 1u << m : 0;
  }
  return mesh;
}

static Held pack_held(const Pack *pack, uint32_t flat) {
  Held held = held_whole();
  for (int m = 0; pack && m < GRAPH_MAX_MESH; m++) {
    held.axis[m] = (pack->cut | flat) >> m & 1 ? pack->axis : -1;
  }
  return held;
}

// The rule that has the arena cut into pieces.
static Cause pack_cause(Shard *s, const Pack *pack, RuleKind kind) {
  Cause cause = {{0}};
  const LayoutRule *rule = NULL;
  const Persistent *member = pack ? graph_persistent(s->graph, pack->members[0]) : NULL;
  uint32_t flat = member ? mapping_flat(s->mapping, member, kind, &rule) : 0;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    cause.rule[m] = flat >> m & 1 ? rule : NULL;
  }
  if (kind == RULE_PARAM && pack && pack->kept) {
    const Cause state = pack_cause(s, pack, RULE_STATE);
    for (int m = 0; m < GRAPH_MAX_MESH; m++) {
      cause.rule[m] = pack->kept >> m & 1 ? state.rule[m] : cause.rule[m];
    }
  }
  return cause;
}

// A gradient that every rank has all of, as one that the ranks have parts of: rank 0's counts.
static ValueId as_partial(Shard *s, ValueId value, int mesh) {
  Graph *graph = s->graph;
  NodeInit init = {NODE_INIT, .text = s->mapping->spec->mesh[mesh].name, .integer = mesh};
  ValueId first = graph_op2(graph, OP_EQUAL, graph_add0(graph, OP_COORDINATE, init), graph_integer(graph, 0));
  ElementType type = graph->real;
  graph->real = graph_value(graph, value)->type;
  ValueId made = graph_op3(graph, OP_WHERE, first, value, graph_real(graph, 0));
  graph->real = type;
  Held held = held_of(s, value);
  held.partial[mesh] = 1 + REDUCE_SUM;
  *shard_held(s, made) = held;
  graph_value(graph, made)->name = graph_value(graph, value)->name;
  return made;
}

// The mesh axes over which most of what is packed is partial: the rest becomes so, and one sum does for all. Not those
// that cut the members: there each is scattered into its parts.
static uint32_t mostly_partial(Shard *s, const Node *node, const Pack *pack) {
  uint32_t mesh = 0;
  for (int m = 0; m < s->mapping->count; m++) {
    int64_t partial = 0, all = 0;
    for (int i = 0; i < node->operand_count; i++) {
      int64_t elements = graph_elements(s->graph, graph_shape(s->graph, node->operands[i]));
      all += elements;
      partial += shard_partial_sum(s, node->operands[i]) >> m & 1 ? elements : 0;
    }
    mesh |= partial > 0 && 2 * partial >= all && !(pack && pack->cut >> m & 1) ? 1u << m : 0;
  }
  for (int i = 0; i < node->operand_count; i++) {  // not what is cut there, or read by others too
    Held held = held_of(s, node->operands[i]);
    for (int m = 0; m < s->mapping->count; m++) {
      bool resolved = held.partial[m] && !(shard_partial_sum(s, node->operands[i]) >> m & 1);
      mesh &= held.axis[m] >= 0 || resolved ? ~(1u << m) : ~0u;
    }
  }
  return mesh;
}

// Gradients lie as their parameters do; the sum over ranks is made for all of them at once, into the stored pieces.
void shard_pack(Shard *s, NodeId id) {
  Graph *graph = s->graph;
  const Node *node = graph_node(graph, id);
  const Pack *pack = shard_pack_along(s, node->axis);
  const Node *first = graph_producer(graph, node->operands[0]);
  ValueId result = node->first_result;
  shard_say_why(s, node);
  if (first && op_stored(first->op)) {
    shard_keep_node(s, id);
    *shard_held(s, result) = pack_held(pack, !pack ? 0 : first->op == OP_PARAM ? pack->param : pack->state);
    *shard_cause(s, result) = pack_cause(s, pack, first->op == OP_PARAM ? RULE_PARAM : RULE_STATE);
    return;
  }
  uint32_t partial = mostly_partial(s, node, pack);
  for (int i = 0; i < node->operand_count; i++) {
    for (int m = 0; m < s->mapping->count; m++) {
      bool missing = partial >> m & 1 && !held_of(s, graph_node(graph, id)->operands[i]).partial[m];
      shard_set_operand(
          s, id, i,
          missing ? as_partial(s, graph_node(graph, id)->operands[i], m) : graph_node(graph, id)->operands[i]);
    }
  }
  node = graph_node(graph, id);
  for (int i = 0; i < node->operand_count; i++) {
    Held want = held_whole();
    const Persistent *parameter = pack ? graph_persistent(graph, pack->members[i]) : NULL;
    if (parameter) {
      mapping_parameter(s->mapping, parameter, want.axis);
    }
    for (int m = 0; m < GRAPH_MAX_MESH; m++) {
      want.axis[m] = partial >> m & 1 || m >= s->mapping->count ? -1 : want.axis[m];
      want.partial[m] = partial >> m & 1 ? 1 + REDUCE_SUM : 0;
    }
    shard_want_operand(s, id, i, &want);
    node = graph_node(graph, id);
  }
  shard_keep_node(s, id);
  Held held = pack_held(pack, 0), want = pack_held(pack, pack ? pack->state | pack->grad : 0);
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    held.partial[m] = partial >> m & 1 ? 1 + REDUCE_SUM : 0;
  }
  *shard_held(s, result) = held;
  *shard_cause(s, result) = *shard_cause(s, node->operands[0]);
  s->why = "the gradients, into how they are stored";
  s->wish = pack_cause(s, pack, pack && pack->grad ? RULE_GRAD : RULE_STATE);
  shard_remember_newest(s, result, shard_reshard(s, result, &want));
}

// A member of a pack is cut as its parameter is; of the pack all pieces are needed.
void shard_part(Shard *s, NodeId id) {
  Graph *graph = s->graph;
  const Node *node = graph_node(graph, id);
  const Pack *pack = shard_pack_along(s, node->axis);
  Held want = pack_held(pack, 0), held = held_whole();
  const Persistent *member = pack ? graph_persistent(graph, pack->members[node->integer]) : NULL;
  shard_say_why(s, node);
  s->why = member ? member->name : s->why;
  shard_want_operand(s, id, 0, &want);
  if (member) {
    mapping_parameter(s->mapping, member, held.axis);
  }
  for (int m = s->mapping->count; m < GRAPH_MAX_MESH; m++) {
    held.axis[m] = -1;
  }
  shard_keep_node(s, id);
  *shard_held(s, graph_node(graph, id)->first_result) = held;
}
