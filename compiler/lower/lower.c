// lower.c: every operation as an instruction, in order.
#include "compiler/lower/lower.h"

#include <string.h>

static int64_t extent(const Lower *l, AxisId axis) {
  return axis < 0 ? 1 : l->graph->axes.at[axis].size;
}

// layers.3.attn.q: the path of calls and the variable.
static const char *instruction_name(Lower *l, const Node *node) {
  const char *path = l->graph->scopes.at[node->scope].path;
  const char *name = NULL;
  for (int i = 0; i < node->result_count && !name; i++) {
    name = graph_value(l->graph, node->first_result + i)->name;
  }
  if (!name && (op_collective(node->op) || node->op == OP_SHARD)) {
    name = graph_value(l->graph, node->operands[0])->name;  // the text is the mesh axes
    name = name ? name : op_name(node->op);
  }
  name = name ? name : node->text ? node->text : op_name(node->op);
  bool full = strchr(name, '.') != NULL;  // gradients and parameters carry their path
  return path[0] && !full ? name_format(l->c->names, "%s.%s", path, name) : name;
}

Instruction *new_instruction(Lower *l, InstructionKind kind) {
  Instruction instruction = {.kind = kind, .span = l->node->span, .name = instruction_name(l, l->node)};
  array_push(l->c->arena, l->into, instruction);
  return &l->into->at[l->into->count - 1];
}

// --- indexed moves ---

static void take_dims(Lower *l, Take *take, Shape dims, ValueId x, ValueId index, ValueId out) {
  for (int i = 0; i < dims.count; i++) {
    int64_t size = extent(l, dims.axis[i]);
    if (size == 1) {
      continue;
    }
    int n = take->dim_count++;
    take->size[n] = size;
    take->stride_x[n] = stride_of(l, x, dims.axis[i]);
    take->stride_index[n] = stride_of(l, index, dims.axis[i]);
    take->stride_out[n] = stride_of(l, out, dims.axis[i]);
  }
}

// Of places, how many are there: of positions that are sorted by what they choose, those that choose what this rank
// has, about; of others all.
static double share_there(const Lower *l, ValueId index) {
  const ValueId place = graph_inside_segment(l->graph, index);
  const Node *order = graph_producer(l->graph, place);
  const bool sorted = order && order->op == OP_ORDER && place == order->first_result;
  return sorted ? (double)extent(l, order->axis) / (double)extent(l, axis_whole(l->graph, order->axis)) : 1;
}

static void lower_take(Lower *l, const Node *node, bool put) {
  ValueId x = put ? node->first_result : node->operands[0], out = put ? node->operands[0] : node->first_result;
  ValueId index = node->operands[1];
  Take take = {.type = graph_value(l->graph, x)->type,
               .type_out = graph_value(l->graph, out)->type,
               .extent = extent(l, node->axis)};
  Shape shape = graph_shape(l->graph, x);
  take.stride_axis = storage_of(l, x)->stride[shape_find(&shape, node->axis)];
  take_dims(l, &take, graph_shape(l->graph, out), x, index, out);
  if (node->op == OP_TAKE_SUM) {
    const int kept = take.dim_count;
    take_dims(l, &take, node->axes, x, index, out);
    take.summed = take.dim_count - kept;
  }
  const ValueId chosen = node->op == OP_TAKE && node->operand_count > 2 ? node->operands[2] : -1;
  double share = 1;
  if (chosen >= 0 && graph_shape(l->graph, out).axis[0] == graph_shape(l->graph, chosen).axis[0] &&
      graph_elements(l->graph, graph_shape(l->graph, chosen)) > 1) {
    poison_blocks(l, node);
    take.parts = take.size[0];
    take.chosen = place_of(l, storage_of(l, chosen));
    share = rows_share(l, chosen);
  }
  take.x_elements = graph_elements(l->graph, shape);
  take.x = place_of(l, storage_of(l, x));
  take.index = place_of(l, storage_of(l, index));
  take.out = place_of(l, storage_of(l, out));
  take.write = put && l->accumulate[x] ? WRITE_ADD_AFTER_FIRST : WRITE_STORE;
  Instruction *instruction = new_instruction(l, put ? INSTRUCTION_PUT : INSTRUCTION_TAKE);
  instruction->as.take = take;
  const double moved = share * (double)graph_elements(l->graph, graph_shape(l->graph, out));
  const double whole =
      put && take.write == WRITE_STORE ? (double)take.x_elements : moved;  // zeros, where nothing is put
  const double added =
      share_there(l, index) * (node->op == OP_TAKE_SUM ? (double)graph_elements(l->graph, node->axes) : 1);
  instruction->bytes =
      moved * (double)element_type_bytes(take.type_out) + added * whole * (double)element_type_bytes(take.type);
}

static void lower_window(Lower *l, const Node *node, bool fold) {
  ValueId x = fold ? node->first_result : node->operands[0], out = fold ? node->operands[0] : node->first_result;
  Shape shape = graph_shape(l->graph, x), wide = graph_shape(l->graph, out);
  Window window = {.type = graph_value(l->graph, x)->type, .dim_count = shape.count, .taps = extent(l, node->axis2)};
  for (int i = 0; i < shape.count; i++) {
    window.size[i] = extent(l, shape.axis[i]);
    window.stride_x[i] = storage_of(l, x)->stride[i];
    window.stride_out[i] = storage_of(l, out)->stride[shape_find(&wide, shape.axis[i])];
    window.windowed = shape.axis[i] == node->axis ? i : window.windowed;
  }
  window.stride_tap = storage_of(l, out)->stride[shape_find(&wide, node->axis2)];
  window.x = place_of(l, storage_of(l, x));
  window.out = place_of(l, storage_of(l, out));
  Instruction *instruction = new_instruction(l, fold ? INSTRUCTION_FOLD : INSTRUCTION_WINDOW);
  instruction->as.window = window;
  instruction->bytes = 2.0 * (double)graph_elements(l->graph, wide) * (double)element_type_bytes(window.type);
}

// --- padding and joining ---

static bool at_home(const Lower *l, ValueId value, HomeKind kind, ValueId parent, int index) {
  const Home *home = &l->home[value];
  return home->kind == kind && home->parent == parent && home->index == index;
}

// Zeros at so many positions of the padded axis.
static void fill_positions(Lower *l, const Node *node, int64_t first, int64_t count) {
  Shape shape = graph_shape(l->graph, node->first_result);
  const ElementType type = graph_value(l->graph, node->first_result)->type;
  Storage to = *storage_of(l, node->first_result);
  to.offset += first * to.stride[shape_find(&shape, node->axis2)] * element_type_bytes(type);
  if (count > 0) {
    shape_replace(&shape, node->axis2, graph_axis(l->graph, name_of(l->c->names, "padding"), count));
    lower_fill(l, shape, type, &to, 0);
  }
}

// Small ones are zero all over first: fewer launches.
static void lower_pad(Lower *l, const Node *node) {
  enum { SMALL_BYTES = 1 << 20 };
  const Shape whole = graph_shape(l->graph, node->first_result), shape = graph_shape(l->graph, node->operands[0]);
  const ElementType type = graph_value(l->graph, node->first_result)->type;
  const bool home = at_home(l, node->operands[0], HOME_PAD, node->first_result, 0);
  const int64_t size = extent(l, node->axis2), inside = node->axis < 0 ? 1 : extent(l, node->axis);
  if (!home && graph_elements(l->graph, whole) * element_type_bytes(type) < SMALL_BYTES) {
    lower_fill(l, whole, type, storage_of(l, node->first_result), 0);
  } else {
    fill_positions(l, node, 0, node->integer);
    fill_positions(l, node, node->integer + inside, size - node->integer - inside);
  }
  if (!home) {
    const Storage part = pad_slot(l, node), from = *storage_of(l, node->operands[0]);
    lower_copy(l, shape, type, &from, &part, WRITE_STORE);
  }
}

static void lower_concat(Lower *l, const Node *node) {
  Shape whole = graph_shape(l->graph, node->first_result);
  ElementType type = graph_value(l->graph, node->first_result)->type;
  int64_t before = 0;
  for (int i = 0; i < node->operand_count; i++) {
    ValueId part = node->operands[i];
    if (!at_home(l, part, HOME_CONCAT, node->first_result, i)) {
      Storage to = *storage_of(l, node->first_result), slot = to, from = *storage_of(l, part);
      Shape shape = graph_shape(l->graph, part);
      for (int j = 0; j < shape.count; j++) {
        AxisId axis = shape.axis[j] == node->axes.axis[i] ? node->axis2 : shape.axis[j];
        slot.stride[j] = to.stride[shape_find(&whole, axis)];
      }
      slot.offset += before * to.stride[shape_find(&whole, node->axis2)] * element_type_bytes(type);
      lower_copy(l, shape, type, &from, &slot, WRITE_STORE);
    }
    before += extent(l, node->axes.axis[i]);
  }
}

static void lower_pack(Lower *l, const Node *node) {
  const Node *first = graph_producer(l->graph, node->operands[0]);
  if (first && op_stored(first->op)) {
    return;
  }
  int64_t elements = 0, all = graph_elements(l->graph, graph_shape(l->graph, node->first_result));
  ElementType type = graph_value(l->graph, node->first_result)->type;
  for (int i = 0; i < node->operand_count; i++) {
    ValueId part = node->operands[i];
    Shape shape = graph_shape(l->graph, part);
    elements += graph_elements(l->graph, shape);
    if (!at_home(l, part, HOME_PACK, node->first_result, i)) {
      Storage to = pack_slot(l, node, i), from = *storage_of(l, part);
      lower_copy(l, shape, type, &from, &to, WRITE_STORE);
    }
  }
  if (elements < all) {  // so that it can be cut into equal pieces
    Storage tail = *storage_of(l, node->first_result);
    tail.offset += elements * element_type_bytes(type);
    tail.stride[0] = 1;
    lower_fill(l, shape_of(graph_axis(l->graph, name_of(l->c->names, "padding"), all - elements)), type, &tail, 0);
  }
}

// --- effects ---

// Copies a value into a storage that may have axes which the value lacks (it is repeated along them).
static void copy_into(Lower *l, ValueId value, Shape shape, const Storage *to) {
  Storage from = *storage_of(l, value), spread = from;
  Shape has = graph_shape(l->graph, value);
  for (int i = 0; i < shape.count; i++) {
    int at = shape_find(&has, shape.axis[i]);
    spread.stride[i] = at < 0 ? 0 : from.stride[at];
  }
  lower_copy(l, shape, graph_value(l->graph, value)->type, &spread, to, WRITE_STORE);
}

// Of a tensor that is stored in pieces this rank keeps its own.
static void assign_piece(Lower *l, ValueId target, ValueId value, const StatePlace *place) {
  Shape shape = graph_shape(l->graph, target);
  Storage whole = dense_storage(l, shape, type_bytes(l, target));
  copy_into(l, value, shape, &whole);
  Piece piece = {.type = graph_value(l->graph, target)->type,
                 .first = place->flat_first,
                 .count = graph_elements(l->graph, shape),
                 .piece = place->flat_piece,
                 .from = place_of(l, &whole)};
  for (int m = 0; m < PLAN_MAX_MESH; m++) {
    if (place->flat_mesh >> m & 1) {
      piece.mesh[piece.mesh_count++] = m;
    }
  }
  Storage to = {.buffer = new_buffer(l, ARENA_PERSISTENT, place->flat_piece * type_bytes(l, target))};
  l->buffers.at[to.buffer].offset = place->offset;
  l->buffers.at[to.buffer].whole = true;
  piece.to = place_of(l, &to);
  Instruction *instruction = new_instruction(l, INSTRUCTION_PIECE);
  instruction->bytes = 2.0 * (double)place->flat_piece * (double)element_type_bytes(piece.type);
  instruction->as.piece = piece;
}

static void lower_assign(Lower *l, const Node *node) {
  ValueId target = node->operands[0], value = node->operands[1];
  const Node *leaf = graph_producer(l->graph, target);
  const StatePlace *place = leaf->op == OP_PACK ? NULL : state_place(l, leaf->text);
  if (place && place->flat_piece) {
    assign_piece(l, target, value, place);
  } else if (!at_home(l, value, HOME_ASSIGN, target, 0)) {
    Storage to = *storage_of(l, target);
    copy_into(l, value, graph_shape(l->graph, target), &to);
  }
}

static bool is_output(const Lower *l, int buffer) {
  for (int i = 0; i < l->outputs.count; i++) {
    if (l->outputs.at[i].place.slot_stride == buffer) {
      return true;
    }
  }
  return false;
}

// What was made where the host reads it may have been moved since, for whoever reads it in another order. Each output
// has memory of its own, in the order of its axes: so the training steps of a plan have them in the same places.
static void lower_output(Lower *l, const Node *node) {
  ValueId value = node->operands[0];
  const Shape stored = graph_shape(l->graph, value), shape = stored.count > 1 ? node->axes : stored;
  Storage storage = *storage_of(l, value);
  if (l->home[value].kind != HOME_HOST || l->buffers.at[storage.buffer].arena != ARENA_HOST ||
      is_output(l, storage.buffer)) {
    storage = dense_storage(l, shape, type_bytes(l, value));
    l->buffers.at[storage.buffer].arena = ARENA_HOST;
    l->buffers.at[storage.buffer].whole = true;
    copy_into(l, value, shape, &storage);
  }
  PlanOutput output = {.name = node->text,
                       .type = graph_value(l->graph, value)->type,
                       .weighing = (PlanWeighing)node->integer,
                       .axis_count = shape.count,
                       .place = place_of(l, &storage)};
  for (int i = 0; i < shape.count; i++) {
    output.axis[i] = l->graph->axes.at[shape.axis[i]].name;
    output.size[i] = extent(l, shape.axis[i]);
    output.stride[i] = storage.stride[i];
  }
  array_push(l->c->arena, &l->outputs, output);
}

// --- programs ---

static void lower_node(Lower *l, const Node *node);

// A result of the microbatches that could not be accumulated where it is made: add it by a copy.
static void accumulate_result(Lower *l, const Node *node, int i) {
  ValueId inside = graph_inside_segment(l->graph, l->graph->regions.at[node->region].results.at[i]),
          outside = node->first_result + i;
  if (l->home[inside].kind == HOME_RESULT && l->home[inside].parent == outside) {
    return;
  }
  Shape shape = graph_shape(l->graph, inside), other = graph_shape(l->graph, outside);
  Storage from = *storage_of(l, inside), to = *storage_of(l, outside), ordered = to;
  for (int j = 0; j < shape.count; j++) {
    ordered.stride[j] = to.stride[shape_find(&other, shape.axis[j])];
  }
  lower_copy(l, shape, graph_value(l->graph, inside)->type, &from, &ordered, WRITE_ADD_AFTER_FIRST);
}

static LowerSegment *open_segment(Lower *l, const char *name, SegmentKind kind, int chunk) {
  LowerSegment *segment = ARENA_NEW(l->c->arena, LowerSegment);
  *segment = (LowerSegment){.name = name, .kind = kind, .chunk = chunk};
  l->into = &segment->list;
  return segment;
}

static void close_segment(Lower *l, LowerSegment *segment) {
  array_push(l->c->arena, &l->segments, segment);
}

void lower_list(Lower *l, const NodeList *nodes) {
  for (int i = 0; i < nodes->count; i++) {
    l->node = graph_node(l->graph, nodes->at[i]);
    lower_node(l, l->node);
  }
}

// The same for forward and backward in one segment.
static void lower_whole(Lower *l, LowerSegment *segment, const NodeList *nodes) {
  for (int i = 0; i < nodes->count; i++) {
    l->node = graph_node(l->graph, nodes->at[i]);
    lower_node(l, l->node);
    while (segment->origins.count < segment->list.count) {
      array_push(l->c->arena, &segment->origins, ((LowerOrigin){graph_is_backward(l->graph, l->node), l->node->scope}));
    }
  }
}

// Adds up the results that this segment makes.
static void accumulate_segment(Lower *l, const Node *microbatch, NodeId segment) {
  const Region *body = &l->graph->regions.at[microbatch->region];
  l->node = microbatch;
  for (int i = 0; i < body->results.count; i++) {
    if (segment < 0 || graph_value(l->graph, body->results.at[i])->node == segment) {
      accumulate_result(l, microbatch, i);
    }
  }
}

static void lower_microbatch(Lower *l, const Node *node) {
  static const struct {
    const char *name;
    SegmentKind kind;
  } parts[] = {{"forward", SEGMENT_FORWARD}, {"backward", SEGMENT_BACKWARD}, {"weights", SEGMENT_WEIGHTS}};
  enum { PARTS = sizeof parts / sizeof *parts };
  InstructionList *outer = l->into;
  const NodeList nodes = l->graph->regions.at[node->region].nodes;
  bool cut = nodes.count > 0 && graph_node(l->graph, nodes.at[0])->op == OP_SEGMENT;
  for (int i = 0; cut && i < nodes.count; i++) {
    const Node *part = graph_node(l->graph, nodes.at[i]);
    int kind = (int)(part->integer % PARTS);
    LowerSegment *segment = open_segment(l, parts[kind].name, parts[kind].kind, (int)(part->integer / PARTS));
    const NodeList inner = l->graph->regions.at[part->region].nodes;
    lower_list(l, &inner);
    accumulate_segment(l, node, nodes.at[i]);
    close_segment(l, segment);
  }
  if (!cut) {
    LowerSegment *segment = open_segment(l, "microbatch", SEGMENT_ALL, 0);
    lower_whole(l, segment, &nodes);
    accumulate_segment(l, node, -1);
    close_segment(l, segment);
  }
  l->into = outer;
}

// What stands before the microbatches is a segment of its own.
static void lower_prepare(Lower *l, const Node *node) {
  InstructionList *outer = l->into;
  const NodeList nodes = l->graph->regions.at[node->region].nodes;
  LowerSegment *segment = open_segment(l, "prepare", SEGMENT_PREPARE, 0);
  lower_whole(l, segment, &nodes);
  close_segment(l, segment);
  l->into = outer;
}

static void lower_node(Lower *l, const Node *node) {
  if (op_dots(node->op)) {
    (op_dots_sum(node->op) ? lower_dot_sum : lower_dots)(l, node);
    return;
  }
  if (op_collective(node->op)) {
    lower_collective(l, node);
    return;
  }
  switch (node->op) {
    case OP_GROUP:
      lower_group(l, node);
      break;
    case OP_ORDER:
      lower_order(l, node);
      break;
    case OP_CHOSEN_DOT:
    case OP_CHOSEN_DOTS:
      lower_chosen_dot(l, node);
      break;
    case OP_CHOSEN_SUM:
      lower_chosen_sum(l, node);
      break;
    case OP_TAKE:
    case OP_TAKE_SUM:
    case OP_PUT:
      lower_take(l, node, node->op == OP_PUT);
      break;
    case OP_WINDOW:
    case OP_FOLD:
      lower_window(l, node, node->op == OP_FOLD);
      break;
    case OP_PAD:
      lower_pad(l, node);
      break;
    case OP_CONCAT:
      lower_concat(l, node);
      break;
    case OP_PACK:
      lower_pack(l, node);
      break;
    case OP_ASSIGN:
      lower_assign(l, node);
      break;
    case OP_OUTPUT:
      lower_output(l, node);
      break;
    case OP_COMPOSITE:
      lower_attention(l, node);
      break;
    case OP_CHUNKS:
      lower_chunks(l, node);
      break;
    case OP_MICROBATCH:
      lower_microbatch(l, node);
      break;
    case OP_SEGMENT:
      lower_prepare(l, node);
      break;
    case OP_SHARD:
      if (zigzag_between(l->graph, node->axis, node->axis2)) {
        lower_shard(l, node);
      } else {
        lower_view(l, node);
      }
      break;
    case OP_MERGE:
      lower_view(l, node);
      break;
    case OP_SEND:
      lower_send(l, node);
      break;
    case OP_RECEIVE:
      lower_receive(l, node);
      break;
    default:
      if (!op_leaf(node->op) && !op_alias(node->op)) {
        diag_error(l->c->diag, E099, node->span, "the compiler cannot lower '%s'", op_name(node->op));
      }
  }
}

// Wherever they stand afterwards, and in however many parts, reports know them again.
static void number_collectives(Lower *l) {
  for (int s = 0; s < l->segments.count; s++) {
    const InstructionList *list = &l->segments.at[s]->list;
    for (int i = 0, number = 0; i < list->count; i++) {
      list->at[i].number = list->at[i].kind == INSTRUCTION_COLLECTIVE ? number++ : 0;
    }
  }
}

void lower_graph(Lower *l) {
  l->storage = ARENA_ARRAY(l->c->arena, Storage, l->capacity + 1);
  l->add = ARENA_ARRAY(l->c->arena, bool, l->capacity + 1);
  for (int i = 0; i < l->capacity; i++) {
    l->storage[i].buffer = -1;
  }
  const NodeList nodes = l->graph->regions.at[0].nodes;
  LowerSegment *top = open_segment(l, program_kind_name(l->c->program), SEGMENT_ALL, 0);
  lower_whole(l, top, &nodes);
  if (l->segments.count) {
    top->name = "apply";
    top->kind = SEGMENT_APPLY;
  }
  close_segment(l, top);
  number_collectives(l);
}

// Without a pipeline, and in other programs, there is nothing to decide: one microbatch after the other.
void lower_schedule(Lower *l) {
  const Pipeline *pipeline = &l->c->spec->pipeline;
  if (!l->c->tenancy || l->c->program != PROGRAM_TRAIN) {
    return;
  }
  const int stages = (int)l->c->spec->mesh[pipeline->mesh].size;
  l->schedule = schedule_make(l->keep, pipeline->schedule, stages, pipeline->chunks, l->c->spec->microbatches, NULL);
  const int *all = schedule_lanes_all(l->c->arena, l->schedule, l->c->jumps.at, l->c->jumps.count);
  int *lanes = ARENA_ARRAY(l->keep, int, pipeline->chunks);
  for (int i = 0; i < pipeline->chunks; i++) {
    lanes[i] = all[i * stages + l->c->stage];
  }
  l->lanes = lanes;
}
