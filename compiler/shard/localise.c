// localise.c: from the shapes of whole tensors to those of one rank's parts.
//
// Needs shard. An axis that a value holds a part of becomes an axis of its own, `seq@cp`, as long as the part; from
// here on every pass works on what one rank has. Positions, and indices into a cut axis, are shifted by where the part
// begins, which depends on the rank's coordinates.
#include "compiler/shard/localise.h"

#include <string.h>

#include "compiler/ir/attention.h"

int64_t localise_members(Localise *l, const Pack *pack) {
  int64_t elements = 0;
  if (map_get(&l->members, (uint64_t)pack->axis, &elements)) {
    return elements;
  }
  for (int i = 0; i < pack->count; i++) {
    const Persistent *member = graph_persistent(l->graph, pack->members[i]);
    Held held = held_whole();
    int64_t here = 1;
    mapping_parameter(l->shard->mapping, member, held.axis);
    for (int a = 0; a < member->shape.count; a++) {
      here *= shard_part_size(l->shard, member->shape.axis[a], held_cut(&held, member->shape.axis[a]));
    }
    elements += here;
  }
  map_put(&l->members, (uint64_t)pack->axis, elements);
  return elements;
}

// Elements of a pack on one rank, before it is cut into pieces; a multiple of their number.
static int64_t pack_elements(Localise *l, const Pack *pack) {
  const int64_t pieces = mapping_ranks(l->shard->mapping, pack->param | pack->grad | pack->state);
  return (localise_members(l, pack) + pieces - 1) / pieces * pieces;
}

static AxisId local_axis(Localise *l, AxisId axis, uint32_t mesh) {
  Graph *graph = l->graph;
  uint64_t key = (uint64_t)axis << GRAPH_MAX_MESH | mesh;
  int64_t known;
  if (map_get(&l->locals, key, &known)) {
    return (AxisId)known;
  }
  const Axis whole = graph->axes.at[axis];
  const Pack *pack = localise_pack(graph, axis);
  int64_t size = shard_part_size(l->shard, axis, mesh);
  if (pack) {
    size = pack_elements(l, pack) / mapping_ranks(l->shard->mapping, mesh & ~pack->cut);
  }
  Name name = name_format(graph->names, "%s@%s", whole.name, mapping_names(l->shard->mapping, mesh));
  AxisId made = mesh || (pack && size != whole.size) ? graph_axis(graph, name, size) : axis;
  if (made != axis) {
    Axis *local = &graph->axes.at[made];
    local->global = whole.global;
    local->whole = axis;
    local->mesh = mesh;
    local->zigzag = (shard_form(l->shard, axis)->zigzag & mesh) != 0;
  }
  map_put(&l->locals, key, made);
  return made;
}

// What the axis is on one rank, in this value.
static AxisId in_value(Localise *l, ValueId value, AxisId axis) {
  uint32_t cut = held_cut(shard_held(l->shard, value), axis);
  if (value < l->values && l->ring[value] && l->keys[value] == axis) {
    cut |= l->ring[value];
  }
  return local_axis(l, axis, cut);
}

// The same for an attribute of a node: as in the first operand or result that has it.
static AxisId in_node(Localise *l, const Node *node, const Shape *operands, const Shape *results, AxisId axis) {
  if (axis < 0) {
    return axis;
  }
  for (int i = 0; i < node->operand_count; i++) {
    if (shape_has(&operands[i], axis)) {
      return in_value(l, node->operands[i], axis);
    }
  }
  for (int i = 0; i < node->result_count; i++) {
    if (shape_has(&results[i], axis)) {
      return in_value(l, node->first_result + i, axis);
    }
  }
  return axis;
}

static Shape local_shape(Localise *l, ValueId value, const Shape *shape) {
  Shape local = *shape;
  for (int i = 0; i < shape->count; i++) {
    local.axis[i] = in_value(l, value, shape->axis[i]);
  }
  return local;
}

// --- where a part begins ---

// The sum over mesh axes of coordinate times stride, as an int; -1: zero.
ValueId localise_place(Localise *l, uint32_t mesh, int64_t stride) {
  Graph *graph = l->graph;
  ValueId sum = -1;
  for (int m = GRAPH_MAX_MESH - 1; m >= 0; m--) {
    if (!(mesh >> m & 1)) {
      continue;
    }
    NodeInit init = {NODE_INIT, .text = l->shard->mapping->spec->mesh[m].name, .integer = m};
    ValueId begin = graph_op2(graph, OP_MUL, graph_add0(graph, OP_COORDINATE, init), graph_integer(graph, stride));
    sum = sum < 0 ? begin : graph_op2(graph, OP_ADD, sum, begin);
    stride *= mapping_size(l->shard->mapping, m);
  }
  return sum;
}

ValueId localise_offset(Localise *l, AxisId local) {
  const Axis *at = &l->graph->axes.at[local];
  return localise_place(l, at->mesh, at->size);
}

// index(axis)[part of axis]: the position in the part, and where the part begins.
static void shift_position(Localise *l, NodeId id, AxisId local) {
  Graph *graph = l->graph;
  const int64_t integer = graph_node(graph, id)->integer;
  ValueId inside = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = local, .integer = integer});
  ValueId sum = graph_op2(graph, OP_ADD, inside, localise_offset(l, local));
  Node *node = graph_node(graph, id);
  node->op = OP_AS_INDEX;
  node->integer = 0;
  node->operand_count = 1;
  node->operands = arena_copy(graph->arena, &sum, sizeof sum);
}

// What is outside of the axis stays outside: it does not point into padding. Made once for all that index so.
static ValueId shifted_index(Localise *l, ValueId index, AxisId local) {
  Graph *graph = l->graph;
  const uint64_t key[] = {(uint64_t)index, (uint64_t)local, (uint64_t)graph->region};
  int64_t known;
  if (map_get_bytes(&l->shifted, key, sizeof key, &known)) {
    return (ValueId)known;
  }
  ValueId shifted = graph_op2(graph, OP_SUB, index, localise_offset(l, local));
  if (localise_padded(l, local)) {
    ValueId size = graph_integer(graph, graph->axes.at[graph->axes.at[local].whole].size);
    shifted = graph_op3(graph, OP_WHERE, graph_op2(graph, OP_LESS, index, size), shifted, graph_integer(graph, -1));
  }
  map_put_bytes(&l->shifted, key, sizeof key, shifted);
  return shifted;
}

static void shift_index(Localise *l, NodeId id, AxisId local) {
  const int last = graph_node(l->graph, id)->operand_count - 1;
  const ValueId shifted = shifted_index(l, graph_node(l->graph, id)->operands[last], local);
  graph_node(l->graph, id)->operands[last] = shifted;
}

// --- nodes ---

static void localise_region(Localise *l, RegionId region);

static void localise_node(Localise *l, NodeId id) {
  Graph *graph = l->graph;
  Node *node = graph_node(graph, id);
  Shape *operands = ARENA_ARRAY(l->c->arena, Shape, node->operand_count + 1);
  Shape *results = ARENA_ARRAY(l->c->arena, Shape, node->result_count + 1);
  for (int i = 0; i < node->operand_count; i++) {
    operands[i] = l->shard->whole[node->operands[i]];
  }
  for (int i = 0; i < node->result_count; i++) {
    results[i] = l->shard->whole[node->first_result + i];
  }
  AxisId axis = node->axis, axis2 = node->axis2;
  switch (node->op) {
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
    case OP_SHARD:
      axis = in_value(l, node->operands[0], node->axis);
      axis2 = in_value(l, node->first_result, node->axis2);
      break;
    case OP_ALL_TO_ALL: {
      AxisId gathered = in_value(l, node->first_result, node->axis), cut = in_value(l, node->first_result, node->axis2);
      axis = in_value(l, node->operands[0], node->axis);
      axis2 = in_value(l, node->operands[0], node->axis2);
      node = graph_node(graph, id);
      node->axes = (Shape){2, {gathered, cut}};
      break;
    }
    case OP_PACK:
      axis = in_value(l, node->first_result, node->axis);
      break;
    case OP_PART:
      graph_node(graph, id)->axes = local_shape(l, node->first_result, &node->axes);
      break;
    case OP_POSITION: {
      AxisId local = in_value(l, node->first_result, node->axis);
      if (local != axis) {
        shift_position(l, id, local);
      }
      array_push(graph->arena, &graph->regions.at[graph->region].nodes, id);
      return;
    }
    case OP_AS_INDEX:
    case OP_CONCAT:
      break;
    default:
      axis = in_node(l, node, operands, results, axis);
      axis2 = in_node(l, node, operands, results, axis2);
      for (int i = 0; i < graph_node(graph, id)->axes.count; i++) {
        AxisId local = in_node(l, graph_node(graph, id), operands, results, graph_node(graph, id)->axes.axis[i]);
        graph_node(graph, id)->axes.axis[i] = local;
      }
      if (node->op == OP_INSIDE) {  // of the index, whatever part of that axis the value has
        axis = local_axis(l, node->axis, (uint32_t)node->integer);
      }
      if (op_indexes(node->op) && graph->axes.at[axis].mesh) {
        shift_index(l, id, axis);
      }
  }
  node = graph_node(graph, id);
  node->axis = axis;
  node->axis2 = axis2;
  if (node->region >= 0) {
    const bool within = l->within;
    l->within = within || node->op == OP_COMPOSITE;
    localise_region(l, node->region);
    l->within = within;
  }
  for (int i = 0; i < graph_node(graph, id)->operand_count; i++) {
    graph_node(graph, id)->operands[i] = localise_poisoned(l, graph_node(graph, id)->operands[i]);
  }
  localise_mask(l, id);
  array_push(graph->arena, &graph->regions.at[graph->region].nodes, id);
  localise_poison(l, id);
}

static void localise_region(Localise *l, RegionId region) {
  Graph *graph = l->graph;
  RegionId outer = graph->region;
  const NodeList old = graph_rewrite(graph, region);
  for (int i = 0; i < old.count; i++) {
    const Node *node = graph_node(graph, old.at[i]);
    graph->span = node->span;
    graph->scope = node->scope;
    graph->backward = node->backward;
    localise_node(l, old.at[i]);
  }
  const ValueList results = graph->regions.at[region].results;
  for (int i = 0; i < results.count; i++) {
    results.at[i] = localise_poisoned(l, results.at[i]);
  }
  graph->region = outer;
}

// Values inside a composite hold their axes as its operands and results do.
static void hold_composite(Localise *l, const Node *node) {
  const Region *region = &l->graph->regions.at[node->region];
  Held loops = held_whole();
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    for (int i = 0; i < node->operand_count && loops.axis[m] < 0; i++) {
      loops.axis[m] = shard_held(l->shard, node->operands[i])->axis[m];
    }
  }
  for (int i = 0; i < region->nodes.count + 1; i++) {
    const Node *inner = i < region->nodes.count ? graph_node(l->graph, region->nodes.at[i]) : NULL;
    int count = inner ? inner->result_count : region->parameters.count;
    for (int j = 0; j < count; j++) {
      ValueId value = inner ? inner->first_result + j : region->parameters.at[j];
      Shape shape = graph_shape(l->graph, value);
      Held held = held_whole();
      for (int m = 0; m < GRAPH_MAX_MESH; m++) {
        held.axis[m] = loops.axis[m] >= 0 && shape_has(&shape, loops.axis[m]) ? loops.axis[m] : -1;
      }
      *shard_held(l->shard, value) = held;
      l->ring[value] = attention_ring(node);
      l->keys[value] = node->axis2;
    }
  }
}

static void hold_composites(Localise *l, RegionId region) {
  const NodeList *nodes = &l->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(l->graph, nodes->at[i]);
    if (node->op == OP_COMPOSITE) {
      hold_composite(l, node);
    } else if (node->region >= 0) {
      hold_composites(l, node->region);
    }
  }
}

static void localise_values(Localise *l) {
  Graph *graph = l->graph;
  l->shard->whole = ARENA_ARRAY(l->c->arena, Shape, l->values + 1);
  for (int v = 0; v < l->values; v++) {
    l->shard->whole[v] = graph_shape(graph, v);
    Shape local = local_shape(l, v, &l->shard->whole[v]);
    Value *value = graph_value(graph, v);
    value->shape = local;
    for (int i = 0; value->sharding && i < value->sharding->entry_count; i++) {
      AxisId axis = in_value(l, v, value->sharding->entries[i].axis);
      graph_value(graph, v)->sharding->entries[i].axis = axis;
    }
  }
}

static void list_stored(Localise *l) {
  const NodeList *nodes = &l->graph->regions.at[0].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(l->graph, nodes->at[i]);
    const Node *target = node->op == OP_ASSIGN ? graph_producer(l->graph, node->operands[0]) : NULL;
    if (target && target->op == OP_PACK) {
      map_put(&l->stored, (uint64_t)node->operands[1], true);
    }
  }
}

bool pass_localise(Compilation *c) {
  Graph *graph = c->graph;
  if (!c->shard) {
    return pass_changed_nothing(c);
  }
  Localise l = {
      .c = c, .graph = graph, .shard = c->shard, .values = graph->values.count, .locals = map_create(c->arena)};
  l.contents = map_create(c->arena);
  l.masked = map_create(c->arena);
  l.members = map_create(c->arena);
  l.poisoned = map_create(c->arena);
  l.stored = map_create(c->arena);
  l.shifted = map_create(c->arena);
  l.ring = ARENA_ARRAY(c->arena, uint32_t, l.values + 1);
  l.keys = ARENA_ARRAY(c->arena, AxisId, l.values + 1);
  hold_composites(&l, 0);
  list_stored(&l);
  localise_values(&l);
  localise_region(&l, 0);
  graph->region = 0;
  graph->backward = false;
  for (int i = 0; i < graph->persistent.count; i++) {
    Persistent *persistent = &graph->persistent.at[i];
    if (persistent->value >= 0) {
      Shape local = local_shape(&l, persistent->value, &persistent->shape);
      graph->persistent.at[i].local = local;
      graph->persistent.at[i].localised = true;
    }
  }
  return true;
}
