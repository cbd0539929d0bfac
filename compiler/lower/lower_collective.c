// lower_collective.c: collectives and messages on dense blocks, and the copies where values lie otherwise.
//
// A collective moves one block for each rank of its group. Where the axis that it cuts or joins comes first in memory
// (arrange sees to it), the value is its blocks one after the other, and nothing is copied.
#include <string.h>

#include "compiler/lower/lower.h"

static int64_t extent(const Lower *l, AxisId axis) {
  return l->graph->axes.at[axis].size;
}

// The axes of a shape with this one first; -1: as they are.
static Shape with_first(Shape shape, AxisId first) {
  if (first < 0) {
    return shape;
  }
  Shape order = shape_of(first);
  return shape_union(order, &shape);
}

static void strides_in_order(Lower *l, const Shape *shape, const Shape *order, int64_t *stride) {
  int64_t at = 1;
  for (int i = order->count - 1; i >= 0; i--) {
    stride[shape_find(shape, order->axis[i])] = at;
    at *= extent(l, order->axis[i]);
  }
}

static bool lies_so(Lower *l, const Storage *storage, const Shape *shape, const Shape *order) {
  int64_t stride[SHAPE_MAX_AXES];
  strides_in_order(l, shape, order, stride);
  for (int i = 0; i < shape->count; i++) {
    if (extent(l, shape->axis[i]) > 1 && stride[i] != storage->stride[i]) {
      return false;
    }
  }
  return true;
}

// Memory for `elements`, with strides for the shape stored in this order.
static Storage block_storage(Lower *l, ValueId like, const Shape *shape, const Shape *order, int64_t blocks) {
  Storage storage = {
      .buffer = new_buffer(l, ARENA_TRANSIENT, blocks * graph_elements(l->graph, *shape) * type_bytes(l, like))};
  strides_in_order(l, shape, order, storage.stride);
  return storage;
}

// --- between a value and the blocks of its ranks ---

typedef struct {
  ValueId like;  // for the type
  Shape shape;   // of the value, with the whole axis
  AxisId axis;   // whole
  AxisId part;   // what each block has of it
  int64_t ranks;
  bool into_blocks;
} Regroup;

static void copy_run(Lower *l, const Regroup *r, const Storage *value, const Storage *blocks, int64_t rank,
                     int64_t begin, int64_t from, int64_t count) {
  Shape shape = r->shape;
  AxisId run = graph_axis(l->graph, name_of(l->c->names, "run"), count);
  int at = shape_find(&shape, r->axis);
  Storage a = *value, b = *blocks;
  int64_t bytes = type_bytes(l, r->like), block = 1;
  for (int i = 0; i < shape.count; i++) {
    block *= extent(l, shape.axis[i] == r->axis ? r->part : shape.axis[i]);
  }
  a.offset += begin * value->stride[at] * bytes;
  b.offset += (rank * block + from * blocks->stride[at]) * bytes;
  shape.axis[at] = run;
  lower_copy(l, shape, graph_value(l->graph, r->like)->type, r->into_blocks ? &a : &b, r->into_blocks ? &b : &a,
             WRITE_STORE);
}

// Zigzag: of rank c the blocks c and 2n - 1 - c, cut again by the minor mesh axes.
static void copy_zigzag(Lower *l, const Regroup *r, const Storage *value, const Storage *blocks) {
  const Axis *part = &l->graph->axes.at[r->part];
  int major = __builtin_ctz(part->mesh);
  int64_t size = l->c->spec->mesh[major].size, minors = r->ranks / size, length = part->size,
          half = minors * length / 2;
  for (int64_t rank = 0; rank < r->ranks; rank++) {
    int64_t c = rank / minors, first = rank % minors * length, at = 0;
    while (at < length) {
      int64_t here = first + at, rest = here < half ? half - here : 2 * half - here;
      int64_t count = rest < length - at ? rest : length - at;
      int64_t begin = here < half ? c * half + here : (2 * size - 1 - c) * half + here - half;
      copy_run(l, r, value, blocks, rank, begin, at, count);
      at += count;
    }
  }
}

// The last ranks' parts go past the end of the axis: what is there stays in the blocks, or becomes 0.
static void copy_padded(Lower *l, const Regroup *r, const Storage *value, const Storage *blocks) {
  int64_t whole = extent(l, r->axis), part = extent(l, r->part);
  if (r->into_blocks) {
    int64_t elements = r->ranks * part;
    for (int i = 0; i < r->shape.count; i++) {
      elements *= r->shape.axis[i] == r->axis ? 1 : extent(l, r->shape.axis[i]);
    }
    Storage all = *blocks;
    all.stride[0] = 1;
    Shape flat = shape_of(graph_axis(l->graph, name_of(l->c->names, "blocks"), elements));
    lower_fill(l, flat, graph_value(l->graph, r->like)->type, &all, 0);
  }
  for (int64_t rank = 0; rank < r->ranks; rank++) {
    int64_t left = whole - rank * part;
    if (left > 0) {
      copy_run(l, r, value, blocks, rank, rank * part, 0, left < part ? left : part);
    }
  }
}

// `blocks` has strides for the shape in which the axis is a part.
static void regroup(Lower *l, const Regroup *r, const Storage *value, const Storage *blocks) {
  const Graph *graph = l->graph;
  if (graph->axes.at[r->part].zigzag && !graph->axes.at[r->axis].zigzag) {
    copy_zigzag(l, r, value, blocks);
    return;
  }
  if (extent(l, r->part) * r->ranks != extent(l, r->axis)) {
    copy_padded(l, r, value, blocks);
    return;
  }
  Shape shape = r->shape;
  int at = shape_find(&shape, r->axis);
  int64_t block = 1;
  for (int i = 0; i < shape.count; i++) {
    block *= extent(l, shape.axis[i] == r->axis ? r->part : shape.axis[i]);
  }
  Storage a = *value, b = *blocks;
  AxisId ranks = graph_axis(l->graph, name_of(l->c->names, "ranks"), r->ranks);
  shape.axis[at] = r->part;
  shape.axis[shape.count] = ranks;
  a.stride[shape.count] = value->stride[at] * extent(l, r->part);
  b.stride[shape.count] = block;
  shape.count++;
  lower_copy(l, shape, graph_value(l->graph, r->like)->type, r->into_blocks ? &a : &b, r->into_blocks ? &b : &a,
             WRITE_STORE);
}

// --- the collectives ---

typedef struct {
  const Node *node;
  ValueId from, to;
  Shape from_shape, to_shape;
  int64_t ranks;
} Move;

// The operand, dense with `first` outermost: where it lies, or a copy.
static Storage dense_operand(Lower *l, ValueId value, AxisId first) {
  Shape shape = graph_shape(l->graph, value), order = with_first(shape, first);
  Storage storage = *storage_of(l, value);
  if (lies_so(l, &storage, &shape, &order)) {
    return storage;
  }
  Storage dense = block_storage(l, value, &shape, &order, 1);
  lower_copy(l, shape, graph_value(l->graph, value)->type, &storage, &dense, WRITE_STORE);
  return dense;
}

static void emit_collective(Lower *l, const Move *move, CollectiveKind kind, const Storage *from, const Storage *to,
                            int64_t count) {
  ElementType type = graph_value(l->graph, move->from)->type;
  Collective collective = {.kind = kind,
                           .reduce = (ReduceKind)move->node->number,
                           .type = type,
                           .mesh = (uint32_t)move->node->integer,
                           .ranks = (int)move->ranks,
                           .count = count,
                           .from = place_of(l, from),
                           .to = place_of(l, to)};
  Instruction *instruction = new_instruction(l, INSTRUCTION_COLLECTIVE);
  instruction->why = move->node->why;
  instruction->rule = move->node->rule;
  instruction->bytes =
      (double)count * (double)element_type_bytes(type) * (kind == COLLECTIVE_ALL_REDUCE ? 2 : (double)move->ranks);
  instruction->as.collective = collective;
}

static void finish_at(Lower *l, const Move *move, const Storage *made) {
  Storage to = *storage_of(l, move->to);
  if (made->buffer != to.buffer || made->offset != to.offset) {
    lower_copy(l, move->to_shape, graph_value(l->graph, move->to)->type, made, &to, WRITE_STORE);
  }
}

// Where a result with `first` outermost may be made: its own place, or one beside it.
static Storage dense_result(Lower *l, const Move *move, AxisId first) {
  Shape order = with_first(move->to_shape, first);
  Storage to = *storage_of(l, move->to);
  return lies_so(l, &to, &move->to_shape, &order) ? to : block_storage(l, move->to, &move->to_shape, &order, 1);
}

static void lower_all_reduce(Lower *l, const Move *move) {
  Shape order = move->to_shape;
  Storage from = *storage_of(l, move->from), to = dense_result(l, move, -1), source = from;
  if (!lies_so(l, &from, &move->from_shape, &order)) {
    source = block_storage(l, move->from, &move->from_shape, &order, 1);
    lower_copy(l, move->from_shape, graph_value(l->graph, move->from)->type, &from, &source, WRITE_STORE);
  }
  emit_collective(l, move, COLLECTIVE_ALL_REDUCE, &source, &to, graph_elements(l->graph, move->to_shape));
  finish_at(l, move, &to);
}

// Are the blocks of the ranks one after the other not what the value is?
static bool apart(const Lower *l, const Move *move, AxisId whole, AxisId part) {
  return zigzag_between(l->graph, whole, part) || extent(l, part) * move->ranks != extent(l, whole);
}

static void lower_all_gather(Lower *l, const Move *move) {
  AxisId part = move->node->axis, whole = move->node->axis2;
  Storage from = dense_operand(l, move->from, part), to;
  int64_t count = graph_elements(l->graph, move->from_shape);
  if (apart(l, move, whole, part)) {
    Shape order = with_first(move->from_shape, part);
    Storage blocks = block_storage(l, move->from, &move->from_shape, &order, move->ranks), strides = blocks;
    emit_collective(l, move, COLLECTIVE_ALL_GATHER, &from, &blocks, count);
    for (int i = 0; i < move->to_shape.count; i++) {  // the same strides for the axes in the order of the result
      AxisId axis = move->to_shape.axis[i] == whole ? part : move->to_shape.axis[i];
      strides.stride[i] = blocks.stride[shape_find(&move->from_shape, axis)];
    }
    Regroup r = {move->from, move->to_shape, whole, part, move->ranks, false};
    to = *storage_of(l, move->to);
    regroup(l, &r, &to, &strides);
    return;
  }
  Shape order = with_first(move->from_shape, part);  // the result in the order of its blocks
  order.axis[0] = whole;
  Storage own = *storage_of(l, move->to);
  to = lies_so(l, &own, &move->to_shape, &order) ? own : block_storage(l, move->to, &move->to_shape, &order, 1);
  emit_collective(l, move, COLLECTIVE_ALL_GATHER, &from, &to, count);
  finish_at(l, move, &to);
}

static void lower_reduce_scatter(Lower *l, const Move *move) {
  AxisId whole = move->node->axis, part = move->node->axis2;
  Shape order = with_first(move->to_shape, part), blocks_order = order;
  blocks_order.axis[0] = whole;
  Storage own = *storage_of(l, move->from), from = own;
  if (apart(l, move, whole, part)) {
    from = block_storage(l, move->to, &move->to_shape, &order, move->ranks);
    Storage strides = from;
    for (int i = 0; i < move->from_shape.count; i++) {
      AxisId axis = move->from_shape.axis[i] == whole ? part : move->from_shape.axis[i];
      strides.stride[i] = from.stride[shape_find(&move->to_shape, axis)];
    }
    Regroup r = {move->from, move->from_shape, whole, part, move->ranks, true};
    regroup(l, &r, &own, &strides);
  } else if (!lies_so(l, &own, &move->from_shape, &blocks_order)) {
    from = block_storage(l, move->from, &move->from_shape, &blocks_order, 1);
    lower_copy(l, move->from_shape, graph_value(l->graph, move->from)->type, &own, &from, WRITE_STORE);
  }
  Storage to = dense_result(l, move, part);
  emit_collective(l, move, COLLECTIVE_REDUCE_SCATTER, &from, &to, graph_elements(l->graph, move->to_shape));
  finish_at(l, move, &to);
}

// Does the axis that is put together come first in the result, so that it is the blocks that arrive, one after the
// other?
static bool lands(Lower *l, const Move *move, const Storage *result, AxisId joined, AxisId joined_part) {
  const Shape order = with_first(move->to_shape, joined);
  return !apart(l, move, joined, joined_part) && lies_so(l, result, &move->to_shape, &order);
}

// Blocks go out cut along one axis and come back as parts of the other. They are copied once: on their way out, if the
// result can be what arrives, else on their way in. Nothing is copied where the axis that is cut comes first in the
// operand, and the other one has one element in a part and comes first in the result.
static void lower_all_to_all(Lower *l, const Move *move) {
  AxisId joined_part = move->node->axis, cut_whole = move->node->axis2;
  AxisId joined = move->node->axes.axis[0], cut = move->node->axes.axis[1];
  Shape block = move->from_shape;  // of one block: a part of both axes
  shape_replace(&block, cut_whole, cut);
  Shape order = with_first(block, cut), whole_order = order, joined_order = order;
  whole_order.axis[0] = cut_whole;
  shape_replace(&joined_order, joined_part, joined);
  joined_order = with_first(joined_order, joined);
  const Storage own = *storage_of(l, move->from), result = *storage_of(l, move->to);
  const bool packed = !apart(l, move, cut_whole, cut) && lies_so(l, &own, &move->from_shape, &whole_order);
  bool comes = extent(l, joined_part) == 1 && lies_so(l, &result, &move->to_shape, &joined_order);
  Storage from = own, to = result;
  if (!packed) {
    if (!comes && lands(l, move, &result, joined, joined_part)) {
      order = with_first(move->to_shape, joined);
      order.axis[0] = joined_part;
      comes = true;
    }
    from = block_storage(l, move->from, &block, &order, move->ranks);
    Regroup out = {move->from, move->from_shape, cut_whole, cut, move->ranks, true};
    regroup(l, &out, &own, &from);  // the axes of a block stand as in the operand
  }
  if (!comes) {
    to = block_storage(l, move->from, &block, &order, move->ranks);
  }
  emit_collective(l, move, COLLECTIVE_ALL_TO_ALL, &from, &to, graph_elements(l->graph, block));
  if (!comes) {
    Storage strides = to;
    for (int i = 0; i < move->to_shape.count; i++) {
      AxisId axis = move->to_shape.axis[i] == joined ? joined_part : move->to_shape.axis[i];
      strides.stride[i] = to.stride[shape_find(&block, axis)];
    }
    Regroup in = {move->from, move->to_shape, joined, joined_part, move->ranks, false};
    regroup(l, &in, &result, &strides);
  }
}

void lower_collective(Lower *l, const Node *node) {
  Move move = {.node = node, .from = node->operands[0], .to = node->first_result, .ranks = 1};
  move.from_shape = graph_shape(l->graph, move.from);
  move.to_shape = graph_shape(l->graph, move.to);
  for (int m = 0; m < l->c->spec->mesh_count; m++) {
    move.ranks *= (uint64_t)node->integer >> m & 1 ? l->c->spec->mesh[m].size : 1;
  }
  switch (node->op) {
    case OP_ALL_REDUCE:
      lower_all_reduce(l, &move);
      break;
    case OP_ALL_GATHER:
      lower_all_gather(l, &move);
      break;
    case OP_REDUCE_SCATTER:
      lower_reduce_scatter(l, &move);
      break;
    default:
      lower_all_to_all(l, &move);
  }
}

void lower_rotate(Lower *l, const Rotation *rotation) {
  int ranks = 1;
  for (int m = 0; m < l->c->spec->mesh_count; m++) {
    ranks *= rotation->mesh >> m & 1 ? (int)l->c->spec->mesh[m].size : 1;
  }
  Collective collective = {.kind = COLLECTIVE_ROTATE,
                           .type = rotation->type,
                           .mesh = rotation->mesh,
                           .ranks = ranks,
                           .count = rotation->count,
                           .from = place_of(l, rotation->from),
                           .to = place_of(l, rotation->to)};
  Instruction *instruction = new_instruction(l, INSTRUCTION_COLLECTIVE);
  instruction->why = rotation->why;
  instruction->rule = rotation->node->rule;
  instruction->bytes = 2 * (double)collective.count * (double)element_type_bytes(collective.type);
  instruction->as.collective = collective;
}

// A rank's two blocks of a zigzag cut are apart: they are copied. Other parts are where they are.
void lower_shard(Lower *l, const Node *node) {
  int mesh = __builtin_ctzll((uint64_t)node->integer);
  int64_t size = l->c->spec->mesh[mesh].size, half = extent(l, node->axis2) / 2,
          bytes = type_bytes(l, node->first_result);
  Shape from_shape = graph_shape(l->graph, node->operands[0]), shape = from_shape;
  Shape to_shape = graph_shape(l->graph, node->first_result);
  int at = shape_find(&from_shape, node->axis);
  Storage from = *storage_of(l, node->operands[0]), to = *storage_of(l, node->first_result), strides = to;
  for (int i = 0; i < shape.count; i++) {
    AxisId axis = shape.axis[i] == node->axis ? node->axis2 : shape.axis[i];
    strides.stride[i] = to.stride[shape_find(&to_shape, axis)];
  }
  shape.axis[at] = graph_axis(l->graph, name_of(l->c->names, "run"), half);
  for (int part = 0; part < 2; part++) {
    Storage a = from, b = strides;
    a.offset += part ? (2 * size - 1) * half * from.stride[at] * bytes : 0;
    a.rank[mesh] += (part ? -half : half) * from.stride[at] * bytes;
    b.offset += part * half * strides.stride[at] * bytes;
    lower_copy(l, shape, graph_value(l->graph, node->first_result)->type, &a, &b, WRITE_STORE);
  }
}

// --- messages between stages ---

// Both sides have the order of axes from the graph before it was cut.
Storage message_storage(Lower *l, const Node *node, ValueId value) {
  Shape shape = graph_shape(l->graph, value);
  return block_storage(l, value, &shape, &node->axes, 1);
}

static void emit_transfer(Lower *l, const Node *node, InstructionKind kind, ValueId value, const Storage *storage) {
  Transfer transfer = {.type = graph_value(l->graph, value)->type,
                       .channel = (int)node->integer,
                       .peer = (int)node->number,
                       .count = graph_elements(l->graph, graph_shape(l->graph, value)),
                       .place = place_of(l, storage)};
  Instruction *instruction = new_instruction(l, kind);
  Name name = graph_value(l->graph, value)->name;
  instruction->name = name ? name : instruction->name;
  instruction->why = node->why;
  instruction->rule = node->rule;
  instruction->bytes = (double)transfer.count * (double)element_type_bytes(transfer.type);
  instruction->as.transfer = transfer;
}

void lower_send(Lower *l, const Node *node) {
  ValueId value = node->operands[0];
  Storage from = *storage_of(l, value), buffer = message_storage(l, node, value);
  l->buffers.at[buffer.buffer].message = true;
  lower_copy(l, graph_shape(l->graph, value), graph_value(l->graph, value)->type, &from, &buffer, WRITE_STORE);
  emit_transfer(l, node, INSTRUCTION_SEND, value, &buffer);
}

void lower_receive(Lower *l, const Node *node) {
  emit_transfer(l, node, INSTRUCTION_RECEIVE, node->first_result, storage_of(l, node->first_result));
}
