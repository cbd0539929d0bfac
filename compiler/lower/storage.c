// storage.c: in which buffer each value lies, where, and with which strides.
//
// decide_homes walks the consumers and puts values where they are wanted (parts of a concatenation, gradients in
// their pack, matrices side by side, new values over old ones); storage_of then follows homes and renames. It adds
// buffers, but no instructions: views that have no strides are copies, made where they stand (lower_view.c).
#include <string.h>

#include "compiler/lower/lower.h"

#include "base/integer.h"
#include "compiler/plan/numbers.h"

int64_t type_bytes(const Lower *l, ValueId value) {
  return element_type_bytes(graph_value(l->graph, value)->type);
}

int new_buffer(Lower *l, ArenaClass arena, int64_t bytes) {
  MemoryBuffer buffer = {.arena = arena, .bytes = bytes, .offset = -1, .first = INT32_MAX, .last = -1};
  buffer.segment = buffer.chunk = -2;
  array_push(l->c->arena, &l->buffers, buffer);
  return l->buffers.count - 1;
}

int term_of(Lower *l, const int64_t rank[PLAN_MAX_MESH]) {
  TermTable *terms = l->terms;
  PlanTerm term;
  memcpy(term.stride, rank, sizeof term.stride);
  for (int i = 0; i < terms->count; i++) {
    if (memcmp(&terms->at[i], &term, sizeof term) == 0) {
      return i;
    }
  }
  array_push(l->keep, terms, term);
  return terms->count - 1;
}

Place place_of(Lower *l, const Storage *storage) {
  return (Place){.arena = ARENA_CLASS_COUNT,
                 .offset = storage->offset,
                 .slot_stride = storage->buffer,
                 .term = term_of(l, storage->rank)};
}

static int64_t axis_extent(const Lower *l, AxisId axis) {
  return l->graph->axes.at[axis].size;
}

static void dense_strides(const Lower *l, Shape shape, int64_t *stride) {
  int64_t at = 1;
  for (int i = shape.count - 1; i >= 0; i--) {
    stride[i] = at;
    at *= axis_extent(l, shape.axis[i]);
  }
}

Storage dense_storage(Lower *l, Shape shape, int64_t element_bytes) {
  Storage storage = {.buffer = new_buffer(l, ARENA_TRANSIENT, graph_elements(l->graph, shape) * element_bytes)};
  dense_strides(l, shape, storage.stride);
  return storage;
}

// Long rows of a length that is no multiple of a vector's (a vocabulary of 50257) are slow for matrix units: each
// begins on a whole memory line instead. The buffer ends with the last row's last element: nothing writes behind it,
// and copies of whole buffers (lower_offload.c) read every byte.
static Storage aligned_storage(Lower *l, Shape shape, int64_t element_bytes) {
  enum { LONG = 256, VECTOR_BYTES = 16, LINE_BYTES = 128 };
  const int64_t row = shape.count > 1 ? axis_extent(l, shape.axis[shape.count - 1]) : 0;
  if (row < LONG || row * element_bytes % VECTOR_BYTES == 0) {
    return dense_storage(l, shape, element_bytes);
  }
  const int64_t line = LINE_BYTES / element_bytes, apart = round_up(row, line);
  const int64_t rows = graph_elements(l->graph, shape) / row;
  Storage storage = {.buffer = new_buffer(l, ARENA_TRANSIENT, ((rows - 1) * apart + row) * element_bytes)};
  int64_t at = apart;
  storage.stride[shape.count - 1] = 1;
  for (int i = shape.count - 2; i >= 0; i--) {
    storage.stride[i] = at;
    at *= axis_extent(l, shape.axis[i]);
  }
  return storage;
}

// Whole cache lines first, so that matrices begin on one; what has an odd size goes to the end. No gaps.
void pack_offsets(const int64_t *elements, int count, int64_t *offsets) {
  int64_t at = 0;
  for (int odd = 0; odd < 2; odd++) {
    for (int i = 0; i < count; i++) {
      if ((elements[i] % 16 != 0) == (odd == 1)) {
        offsets[i] = at;
        at += elements[i];
      }
    }
  }
}

const StatePlace *state_place(const Lower *l, Name name) {
  int64_t at = map_get_or(&l->states->by_name, map_key(name), -1);
  return at >= 0 ? &l->states->places.at[at] : NULL;
}

// --- storages ---

// Gives these axes of a value strides: the last of them is `stride` elements apart.
static void lay_out(const Lower *l, Storage *storage, const Shape *shape, const Shape *axes, int64_t stride) {
  for (int i = axes->count - 1; i >= 0; i--) {
    storage->stride[shape_find(shape, axes->axis[i])] = stride;
    stride *= axis_extent(l, axes->axis[i]);
  }
}

static Storage resolve_bundle(Lower *l, ValueId value, const Home *home) {
  Bundle *bundle = &l->bundles.at[home->bundle];
  int64_t width = 0, before = 0, bytes = type_bytes(l, value);
  for (int i = 0; i < bundle->count; i++) {
    int64_t columns = graph_elements(l->graph, bundle->columns[i]);
    before += i < home->index ? columns : 0;
    width += columns;
  }
  if (bundle->buffer < 0) {
    int made = new_buffer(l, ARENA_TRANSIENT, graph_elements(l->graph, bundle->rows[0]) * width * bytes);
    bundle->buffer = made;
  }
  const Shape shape = graph_shape(l->graph, value);
  const Shape rows = bundle->rows[home->index], columns = bundle->columns[home->index];
  const int64_t height = graph_elements(l->graph, rows);
  Storage storage = {.buffer = bundle->buffer, .offset = before * (bundle->stacked ? height : 1) * bytes};
  lay_out(l, &storage, &shape, &rows, bundle->stacked ? 1 : width);
  lay_out(l, &storage, &shape, &columns, bundle->stacked ? height : 1);
  return storage;
}

static Storage resolve_concat(Lower *l, ValueId value, const Home *home) {
  const Node *node = graph_producer(l->graph, home->parent);
  Storage storage = *storage_of(l, home->parent), out = storage;
  Shape whole = graph_shape(l->graph, home->parent), shape = graph_shape(l->graph, value);
  int64_t before = 0;
  for (int i = 0; i < home->index; i++) {
    before += axis_extent(l, node->axes.axis[i]);
  }
  for (int i = 0; i < shape.count; i++) {
    AxisId axis = shape.axis[i] == node->axes.axis[home->index] ? node->axis2 : shape.axis[i];
    out.stride[i] = storage.stride[shape_find(&whole, axis)];
  }
  out.offset += before * storage.stride[shape_find(&whole, node->axis2)] * type_bytes(l, value);
  return out;
}

// Where the operand of a pad lies in the result.
Storage pad_slot(Lower *l, const Node *pad) {
  const Shape whole = graph_shape(l->graph, pad->first_result), shape = graph_shape(l->graph, pad->operands[0]);
  const Storage storage = *storage_of(l, pad->first_result);
  Storage out = storage;
  for (int i = 0; i < shape.count; i++) {
    out.stride[i] = storage.stride[shape_find(&whole, shape.axis[i] == pad->axis ? pad->axis2 : shape.axis[i])];
  }
  out.offset += pad->integer * storage.stride[shape_find(&whole, pad->axis2)] * type_bytes(l, pad->first_result);
  return out;
}

// The graph has all its packs from the beginning.
static const NodeList *packs_of(Lower *l) {
  const NodeList *top = &l->graph->regions.at[0].nodes;
  for (int i = 0; !l->pack_places.arena && i < top->count; i++) {
    if (graph_node(l->graph, top->at[i])->op == OP_PACK) {
      array_push(l->c->arena, &l->packs, top->at[i]);
    }
  }
  l->pack_places = l->pack_places.arena ? l->pack_places : map_create(l->c->arena);
  return &l->packs;
}

// The parameters that give a pack its order: elements of packs along the same axis correspond.
static const Node *packed_parameters(Lower *l, const Node *pack) {
  const NodeList *packs = packs_of(l);
  for (int i = 0; i < packs->count; i++) {
    const Node *node = graph_node(l->graph, packs->at[i]);
    if (axis_whole(l->graph, node->axis) == axis_whole(l->graph, pack->axis) &&
        graph_producer(l->graph, node->operands[0])->op == OP_PARAM) {
      return node;
    }
  }
  return pack;
}

static const PackPlace *place_of_pack(Lower *l, const Node *pack) {
  int64_t known;
  if (map_get(&l->pack_places, (uint64_t)pack->first_result, &known)) {
    return (const PackPlace *)(intptr_t)known;
  }
  const Node *parameters = packed_parameters(l, pack);
  int64_t *elements = ARENA_ARRAY(l->c->arena, int64_t, pack->operand_count);
  int64_t *first = ARENA_ARRAY(l->c->arena, int64_t, pack->operand_count);
  for (int i = 0; i < pack->operand_count; i++) {
    elements[i] = graph_elements(l->graph, graph_shape(l->graph, pack->operands[i]));
  }
  pack_offsets(elements, pack->operand_count, first);
  PackPlace *place = ARENA_NEW(l->c->arena, PackPlace);
  *place = (PackPlace){parameters, first};
  map_put(&l->pack_places, (uint64_t)pack->first_result, (int64_t)(intptr_t)place);
  return place;
}

Storage pack_slot(Lower *l, const Node *pack, int index) {
  const PackPlace *place = place_of_pack(l, pack);
  Shape order = graph_shape(l->graph, place->parameters->operands[index]);
  Shape shape = graph_shape(l->graph, pack->operands[index]);
  int64_t stride[SHAPE_MAX_AXES];
  dense_strides(l, order, stride);
  Storage storage = *storage_of(l, pack->first_result);
  storage.offset += place->first[index] * type_bytes(l, pack->operands[index]);
  for (int i = 0; i < shape.count; i++) {
    storage.stride[i] = stride[shape_find(&order, shape.axis[i])];
  }
  return storage;
}

// The strides of `from`, for the axes of a value that has the same axes in another order.
static Storage reorder(Lower *l, ValueId value, ValueId from) {
  Storage source = *storage_of(l, from), out = source;
  Shape shape = graph_shape(l->graph, value), other = graph_shape(l->graph, from);
  for (int i = 0; i < shape.count; i++) {
    out.stride[i] = source.stride[shape_find(&other, shape.axis[i])];
  }
  return out;
}

static Storage resolve_state(Lower *l, const Node *node, ValueId value) {
  Storage storage = {.buffer =
                         new_buffer(l, ARENA_PERSISTENT,
                                    graph_elements(l->graph, graph_shape(l->graph, value)) * type_bytes(l, value))};
  const StatePlace *place = state_place(l, node->text);
  l->buffers.at[storage.buffer].offset = place ? place->offset : 0;
  l->buffers.at[storage.buffer].whole = true;
  dense_strides(l, graph_shape(l->graph, value), storage.stride);
  return storage;
}

static const Axis *whole_axis(const Lower *l, AxisId axis) {
  const Axis *at = &l->graph->axes.at[axis];
  return at->whole >= 0 ? &l->graph->axes.at[at->whole] : at;
}

PlanCut cut_of(const Lower *l, AxisId axis) {
  const Axis *at = &l->graph->axes.at[axis];
  PlanCut cut = {.local = at->size, .zigzag = at->zigzag};
  for (int m = 0; m < PLAN_MAX_MESH; m++) {
    if (at->mesh >> m & 1) {
      cut.mesh[cut.count++] = m;
    }
  }
  return cut;
}

// A node that packs tensors along this axis, or along what is left of it on one rank.
static const Node *pack_along(Lower *l, AxisId axis) {
  const NodeList *packs = packs_of(l);
  for (int i = 0; i < packs->count; i++) {
    const Node *node = graph_node(l->graph, packs->at[i]);
    if (axis_whole(l->graph, node->axis) == axis_whole(l->graph, axis)) {
      return node;
    }
  }
  return NULL;
}

static Storage resolve_part(Lower *l, const Node *node) {
  const Node *pack = pack_along(l, node->axis);
  Storage storage = pack_slot(l, pack, (int)node->integer), out = storage, base = *storage_of(l, node->operands[0]);
  Storage from = *storage_of(l, pack->first_result);
  Shape had = graph_shape(l->graph, pack->operands[node->integer]), shape = graph_shape(l->graph, node->first_result);
  for (int i = 0; i < shape.count; i++) {
    out.stride[i] = storage.stride[shape_find(&had, shape.axis[i])];
  }
  out.buffer = base.buffer;
  int64_t elements = (storage.offset - from.offset) / type_bytes(l, pack->operands[node->integer]);
  out.offset = base.offset + elements * type_bytes(l, node->first_result);
  memcpy(out.rank, base.rank, sizeof out.rank);
  return out;
}

static Storage resolve_input(Lower *l, const Node *node, ValueId value) {
  const Value *made = graph_value(l->graph, value);
  for (int i = 0; i < l->inputs.count; i++) {
    if (strcmp(l->inputs.at[i].name, node->text) == 0) {  // read by several segments
      Storage same = {.buffer = (int)l->inputs.at[i].place.slot_stride};
      dense_strides(l, made->shape, same.stride);
      return same;
    }
  }
  int64_t bytes = graph_elements(l->graph, made->shape) * type_bytes(l, value);
  int slots = l->c->program == PROGRAM_TRAIN ? l->graph->slots : 1;
  bool per_slot = made->shape.count > 0 && slots == 1;
  for (int i = 0; i < made->shape.count; i++) {  // else all microbatches read the same
    const Axis *whole = whole_axis(l, made->shape.axis[i]);
    per_slot |= whole->global != whole->size;
  }
  int64_t slot = per_slot ? round_up(bytes, PLAN_ALIGN) : 0;
  Storage storage = {.buffer = new_buffer(l, ARENA_HOST, per_slot ? slot * slots : bytes)};
  l->buffers.at[storage.buffer].slot_stride = slot;
  l->buffers.at[storage.buffer].whole = true;
  dense_strides(l, made->shape, storage.stride);
  PlanInput input = {.name = node->text,
                     .type = made->type,
                     .axis_count = made->shape.count,
                     .bound = made->bound >= 0 ? whole_axis(l, made->bound)->size : 0,
                     .place = place_of(l, &storage)};
  for (int i = 0; i < made->shape.count; i++) {
    const Axis *whole = whole_axis(l, made->shape.axis[i]);
    input.axis[i] = whole->name;
    input.size[i] = whole->size;
    input.cut[i] = cut_of(l, made->shape.axis[i]);
  }
  array_push(l->c->arena, &l->inputs, input);
  return storage;
}

void inputs_note(const Lower *l, Arena *arena, GivenInputs *given) {
  for (int i = 0; i < l->inputs.count; i++) {
    const PlanInput *input = &l->inputs.at[i];
    const MemoryBuffer *buffer = &l->buffers.at[input->place.slot_stride];
    bool known = input_is_number(input->name);
    for (int j = 0; j < given->count; j++) {
      known |= strcmp(given->at[j].input.name, input->name) == 0;
    }
    if (!known) {
      array_push(arena, given, ((GivenInput){*input, buffer->bytes, buffer->slot_stride}));
    }
  }
}

// Data is written for whichever training step is run: each has the inputs of all, whether it reads them or not.
void add_given_inputs(Lower *l) {
  for (int i = 0; l->given && l->c->program == PROGRAM_TRAIN && i < l->given->count; i++) {
    const GivenInput *given = &l->given->at[i];
    bool has = false;
    for (int j = 0; j < l->inputs.count; j++) {
      has |= strcmp(l->inputs.at[j].name, given->input.name) == 0;
    }
    if (!has) {
      const Storage storage = {.buffer = new_buffer(l, ARENA_HOST, given->bytes)};
      l->buffers.at[storage.buffer].slot_stride = given->slot_stride;
      l->buffers.at[storage.buffer].whole = true;
      PlanInput input = given->input;
      input.place = place_of(l, &storage);
      array_push(l->c->arena, &l->inputs, input);
    }
  }
}

static Storage resolve_pack(Lower *l, const Node *node, ValueId value) {
  const Node *first = graph_producer(l->graph, node->operands[0]);
  int64_t bytes = graph_elements(l->graph, graph_shape(l->graph, value)) * type_bytes(l, value);
  Storage storage = {.stride = {1}};
  if (first && op_stored(first->op)) {  // the state map put them together
    int64_t least = INT64_MAX;
    for (int i = 0; i < node->operand_count; i++) {
      const StatePlace *place = state_place(l, graph_producer(l->graph, node->operands[i])->text);
      int64_t offset = place ? place->offset : 0;
      least = offset < least ? offset : least;
    }
    storage.buffer = new_buffer(l, ARENA_PERSISTENT, bytes);
    l->buffers.at[storage.buffer].offset = least;
    l->buffers.at[storage.buffer].whole = true;
  } else {
    storage.buffer = new_buffer(l, ARENA_TRANSIENT, bytes);
  }
  return storage;
}

// Of merged axes, the last that has a stride: those of size 1 lie anywhere.
static AxisId last_part(const Lower *l, const Shape *axes) {
  int at = axes->count - 1;
  while (at > 0 && axis_extent(l, axes->axis[at]) == 1) {
    at--;
  }
  return axes->axis[at];
}

static Storage resolve_alias(Lower *l, const Node *node, ValueId value) {
  Storage source = *storage_of(l, node->operands[0]), out = source;
  Shape from = graph_shape(l->graph, node->operands[0]), shape = graph_shape(l->graph, value);
  for (int i = 0; i < shape.count; i++) {
    AxisId axis = shape.axis[i];
    if (node->op != OP_MERGE && axis == node->axis2) {
      axis = node->axis;
    }
    int at = shape_find(&from, axis);
    if (at >= 0) {
      out.stride[i] = source.stride[at];
      continue;
    }
    // split: an axis of the parts; merge: the merged axis takes the stride of its last part
    AxisId origin = node->op == OP_SPLIT ? node->axis : last_part(l, &node->axes);
    int64_t stride = source.stride[shape_find(&from, origin)];
    for (int j = node->axes.count - 1; node->op == OP_SPLIT && j > shape_find(&node->axes, axis); j--) {
      stride *= axis_extent(l, node->axes.axis[j]);
    }
    out.stride[i] = stride;
  }
  if (node->op == OP_SHARD) {
    const Axis *part = &l->graph->axes.at[node->axis2];
    for (int m = 0; m < PLAN_MAX_MESH; m++) {
      bool cut = (uint64_t)node->integer >> m & 1;
      out.rank[m] += cut ? part->size * source.stride[shape_find(&from, node->axis)] * type_bytes(l, value) : 0;
    }
  }
  if (node->op == OP_SLICE) {
    out.offset += node->integer * source.stride[shape_find(&from, node->axis)] * type_bytes(l, value);
  }
  return out;
}

static Storage resolve(Lower *l, ValueId value) {
  const Node *node = graph_producer(l->graph, value);
  const Home home = l->home[value];
  Shape shape = graph_shape(l->graph, value);
  switch (home.kind) {
    case HOME_CONCAT:
      return resolve_concat(l, value, &home);
    case HOME_PAD:
      return pad_slot(l, graph_producer(l->graph, home.parent));
    case HOME_BUNDLE:
      return resolve_bundle(l, value, &home);
    case HOME_PACK:
      return pack_slot(l, graph_producer(l->graph, home.parent), home.index);
    case HOME_ASSIGN:
    case HOME_RESULT:
    case HOME_OVER:
      return reorder(l, value, home.parent);
    case HOME_HOST: {
      Storage storage = dense_storage(l, shape, type_bytes(l, value));
      l->buffers.at[storage.buffer].arena = ARENA_HOST;
      l->buffers.at[storage.buffer].whole = true;
      return storage;
    }
    case HOME_OWN:
      break;
  }
  if (op_stored(node->op)) {
    return resolve_state(l, node, value);
  }
  if (node->op == OP_INPUT) {
    return resolve_input(l, node, value);
  }
  if (node->op == OP_PACK) {
    return resolve_pack(l, node, value);
  }
  if (node->op == OP_SEGMENT) {
    return reorder(l, value, graph_inside_segment(l->graph, value));
  }
  if (node->op == OP_RECEIVE) {
    return message_storage(l, node, value);
  }
  if (node->op == OP_PART) {
    return resolve_part(l, node);
  }
  if (op_alias(node->op) || (node->op == OP_SHARD && !zigzag_between(l->graph, node->axis, node->axis2))) {
    if (view_may_copy(node->op) && node != l->node) {  // only lower_view.c knows which memory it looks at
      diag_error(l->c->diag, E099, node->span, "a view by '%s' is read before it is made", op_name(node->op));
    }
    return resolve_alias(l, node, value);
  }
  return l->aligned[value] ? aligned_storage(l, shape, type_bytes(l, value))
                           : dense_storage(l, shape, type_bytes(l, value));
}

const Storage *storage_of(Lower *l, ValueId value) {
  if (l->storage[value].buffer < 0) {
    Storage storage = resolve(l, value);
    l->storage[value] = storage;
  }
  return &l->storage[value];
}

int64_t stride_of(Lower *l, ValueId value, AxisId axis) {
  Shape shape = graph_shape(l->graph, value);
  int at = shape_find(&shape, axis);
  return at < 0 || axis_extent(l, axis) == 1 ? 0 : storage_of(l, value)->stride[at];
}
