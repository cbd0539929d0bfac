// storage.c: in which buffer each value lies, where, and with which strides.
//
// decide_homes walks the consumers and puts values where they are wanted (parts of a concatenation, gradients in
// their pack, matrices side by side, new values over old ones); storage_of then follows homes and renames.
#include <string.h>

#include "compiler/lower.h"

int64_t type_bytes(const Lower *l, ValueId value) {
  return element_type_bytes(graph_value(l->graph, value)->type);
}

int new_buffer(Lower *l, ArenaClass arena, int64_t bytes) {
  MemoryBuffer buffer = {.arena = arena, .bytes = bytes, .offset = -1, .first = INT32_MAX, .last = -1};
  array_push(l->c->arena, &l->buffers, buffer);
  return l->buffers.count - 1;
}

Place place_of(const Storage *storage) {
  return (Place){.arena = ARENA_CLASS_COUNT, .offset = storage->offset, .slot_stride = storage->buffer};
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

// --- homes ---

static bool has_home(const Lower *l, ValueId value) {
  return l->home[value].kind != HOME_OWN;
}

// Can the operation that makes the value write it with any strides?
static bool placeable(const Lower *l, ValueId value) {
  const Node *node = graph_producer(l->graph, value);
  if (!node || has_home(l, value)) {
    return false;
  }
  switch (node->op) {
    case OP_GROUP:
    case OP_DOT:
    case OP_DOTS:
    case OP_DOT_SUM:
    case OP_CONCAT:
    case OP_PAD:
    case OP_TAKE:
    case OP_WINDOW:
    case OP_FOLD:
      return true;
    case OP_COMPOSITE:
      return value == node->first_result || node->integer % 256 == 0;
    default:
      return false;
  }
}

static bool placeable_dense(const Lower *l, ValueId value) {
  const Node *node = graph_producer(l->graph, value);
  return node && !has_home(l, value) && (placeable(l, value) || node->op == OP_PUT || node->op == OP_MICROBATCH);
}

// Can it add to what the microbatches before have written? Then nobody else may read it: it is no longer the value.
static bool accumulable(const Lower *l, ValueId value, const int *uses) {
  const Node *node = graph_producer(l->graph, value);
  if (!node || has_home(l, value) || uses[value] > 1) {
    return false;
  }
  return node->op == OP_GROUP || node->op == OP_DOT || node->op == OP_DOTS || node->op == OP_DOT_SUM ||
         node->op == OP_PUT;
}

// Where a renamed value lives is decided by what is renamed.
static ValueId before_renames(Lower *l, ValueId value, Shape *rows, Shape *columns) {
  const Node *node = graph_producer(l->graph, value);
  while (node && node->op == OP_RENAME && !has_home(l, value)) {
    shape_replace(rows, node->axis2, node->axis);
    shape_replace(columns, node->axis2, node->axis);
    value = node->operands[0];
    node = graph_producer(l->graph, value);
  }
  return value;
}

static void put_side_by_side(Lower *l, const ValueId *given, int count, Shape common_rows, Shape *columns) {
  ValueId *members = ARENA_ARRAY(l->c->arena, ValueId, count);
  Shape *rows = ARENA_ARRAY(l->c->arena, Shape, count);
  for (int i = 0; i < count; i++) {
    rows[i] = common_rows;
    members[i] = before_renames(l, given[i], &rows[i], &columns[i]);
  }
  bool same = count > 0 && l->home[members[0]].kind == HOME_BUNDLE;
  for (int i = 0; i < count && same; i++) {
    const Home *home = &l->home[members[i]];
    same = home->kind == HOME_BUNDLE && home->bundle == l->home[members[0]].bundle && home->index == i;
  }
  for (int i = 0; i < count && !same; i++) {
    if (!placeable(l, members[i])) {
      return;
    }
    for (int j = 0; j < i; j++) {
      if (members[j] == members[i]) {
        return;
      }
    }
  }
  if (same) {
    return;
  }
  Bundle bundle = {.rows = rows, .count = count, .buffer = -1};
  bundle.members = members;
  bundle.columns = columns;
  for (int i = 0; i < count; i++) {
    l->home[members[i]] = (Home){.kind = HOME_BUNDLE, .index = i, .bundle = l->bundles.count, .parent = -1};
  }
  array_push(l->c->arena, &l->bundles, bundle);
}

static void bundle_dots(Lower *l, const Node *node) {
  int count = node->operand_count - 1;
  Shape *columns = ARENA_ARRAY(l->c->arena, Shape, count), rows = graph_shape(l->graph, node->operands[0]);
  bool parameters =
      graph_producer(l->graph, node->operands[1]) && graph_producer(l->graph, node->operands[1])->op == OP_PARAM;
  for (int i = 0; i < count; i++) {
    columns[i] = shape_minus(graph_shape(l->graph, node->operands[i + 1]), &node->axes);
  }
  if (parameters) {  // results side by side
    ValueId *results = ARENA_ARRAY(l->c->arena, ValueId, count);
    for (int i = 0; i < count; i++) {
      results[i] = node->first_result + i;
    }
    put_side_by_side(l, results, count, shape_minus(rows, &node->axes), columns);
  } else {  // weight gradients: the operands side by side
    put_side_by_side(l, node->operands + 1, count, shape_common(rows, &node->axes), columns);
  }
}

static void bundle_dot_sum(Lower *l, const Node *node) {
  int count = node->operand_count / 2;
  ValueId *members = ARENA_ARRAY(l->c->arena, ValueId, count);
  Shape *columns = ARENA_ARRAY(l->c->arena, Shape, count), rows = {0};
  for (int i = 0; i < count; i++) {
    Shape weight = graph_shape(l->graph, node->operands[2 * i + 1]),
          given = graph_shape(l->graph, node->operands[2 * i]);
    members[i] = node->operands[2 * i];
    columns[i] = shape_common(weight, &given);
    rows = i ? rows : shape_minus(given, &columns[i]);
  }
  put_side_by_side(l, members, count, rows, columns);
}

static void decide_node(Lower *l, const Node *node) {
  Graph *graph = l->graph;
  switch (node->op) {
    case OP_CONCAT:
      for (int i = 0; i < node->operand_count; i++) {
        if (placeable(l, node->operands[i])) {
          l->home[node->operands[i]] = (Home){.kind = HOME_CONCAT, .parent = node->first_result, .index = i};
        }
      }
      break;
    case OP_PACK:
      for (int i = 0; i < node->operand_count; i++) {
        if (placeable_dense(l, node->operands[i])) {
          l->home[node->operands[i]] = (Home){.kind = HOME_PACK, .parent = node->first_result, .index = i};
        }
      }
      break;
    case OP_ASSIGN: {
      Shape target = graph_shape(graph, node->operands[0]), value = graph_shape(graph, node->operands[1]);
      const Node *maker = graph_producer(graph, node->operands[1]);
      if (maker && maker->op == OP_GROUP && placeable(l, node->operands[1]) && shape_same_set(&target, &value)) {
        l->home[node->operands[1]] = (Home){.kind = HOME_ASSIGN, .parent = node->operands[0]};
      }
      break;
    }
    case OP_OUTPUT:
      if (placeable_dense(l, node->operands[0])) {
        l->home[node->operands[0]] = (Home){.kind = HOME_HOST};
      }
      break;
    case OP_DOTS:
      bundle_dots(l, node);
      break;
    case OP_DOT_SUM:
      bundle_dot_sum(l, node);
      break;
    default:
      break;
  }
}

// How often each value is read by the nodes of a region, those of their kernels, and the region's results.
static void count_uses(const Lower *l, RegionId id, int *uses) {
  const Region *region = &l->graph->regions.at[id];
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(l->graph, region->nodes.at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      uses[node->operands[j]]++;
    }
    if (node->op == OP_GROUP) {
      count_uses(l, node->region, uses);
    }
  }
  for (int i = 0; i < region->results.count; i++) {
    uses[region->results.at[i]]++;
  }
}

static void decide_microbatch(Lower *l, const Node *node) {
  const Region *body = &l->graph->regions.at[node->region];
  int *uses = ARENA_ARRAY(l->c->arena, int, l->capacity);
  count_uses(l, node->region, uses);
  for (int i = 0; i < body->results.count; i++) {
    ValueId value = body->results.at[i];
    if (accumulable(l, value, uses)) {
      l->home[value] = (Home){.kind = HOME_RESULT, .parent = node->first_result + i};
      l->accumulate[value] = true;
    }
  }
  for (int i = 0; i < body->nodes.count; i++) {
    decide_node(l, graph_node(l->graph, body->nodes.at[i]));
  }
}

void decide_homes(Lower *l) {
  Graph *graph = l->graph;
  const NodeList *top = &graph->regions.at[0].nodes;
  // Packs and assignments first: gradients must lie with their parameters, whoever else wants them.
  for (int i = 0; i < top->count; i++) {
    const Node *node = graph_node(graph, top->at[i]);
    if (node->op == OP_PACK || node->op == OP_ASSIGN) {
      decide_node(l, node);
    }
  }
  for (int i = 0; i < top->count; i++) {
    const Node *node = graph_node(graph, top->at[i]);
    if (node->op == OP_MICROBATCH) {
      decide_microbatch(l, node);
    } else if (node->op != OP_PACK && node->op != OP_ASSIGN) {
      decide_node(l, node);
    }
  }
}

// --- storages ---

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
  Storage storage = {.buffer = bundle->buffer, .offset = before * bytes};
  Shape shape = graph_shape(l->graph, value);
  int64_t at = width;
  Shape rows = bundle->rows[home->index];
  for (int i = rows.count - 1; i >= 0; i--) {
    storage.stride[shape_find(&shape, rows.axis[i])] = at;
    at *= axis_extent(l, rows.axis[i]);
  }
  at = 1;
  for (int i = bundle->columns[home->index].count - 1; i >= 0; i--) {
    storage.stride[shape_find(&shape, bundle->columns[home->index].axis[i])] = at;
    at *= axis_extent(l, bundle->columns[home->index].axis[i]);
  }
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

static int64_t pack_offset_of(Lower *l, const Node *pack, int index) {
  int64_t *elements = ARENA_ARRAY(l->c->arena, int64_t, pack->operand_count);
  int64_t *offsets = ARENA_ARRAY(l->c->arena, int64_t, pack->operand_count);
  for (int i = 0; i < pack->operand_count; i++) {
    elements[i] = graph_elements(l->graph, graph_shape(l->graph, pack->operands[i]));
  }
  pack_offsets(elements, pack->operand_count, offsets);
  return offsets[index];
}

// The parameters that give a pack its order: elements of packs along the same axis correspond.
static const Node *packed_parameters(const Lower *l, const Node *pack) {
  const NodeList *top = &l->graph->regions.at[0].nodes;
  for (int i = 0; i < top->count; i++) {
    const Node *node = graph_node(l->graph, top->at[i]);
    if (node->op == OP_PACK && node->axis == pack->axis &&
        graph_producer(l->graph, node->operands[0])->op == OP_PARAM) {
      return node;
    }
  }
  return pack;
}

Storage pack_slot(Lower *l, const Node *pack, int index) {
  Shape order = graph_shape(l->graph, packed_parameters(l, pack)->operands[index]);
  Shape shape = graph_shape(l->graph, pack->operands[index]);
  int64_t stride[SHAPE_MAX_AXES];
  dense_strides(l, order, stride);
  Storage storage = *storage_of(l, pack->first_result);
  storage.offset += pack_offset_of(l, pack, index) * type_bytes(l, pack->operands[index]);
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
  int64_t at = map_get_or(&l->states->by_name, map_key(node->text), -1);
  l->buffers.at[storage.buffer].offset = at >= 0 ? l->states->places.at[at].offset : 0;
  l->buffers.at[storage.buffer].whole = true;
  dense_strides(l, graph_shape(l->graph, value), storage.stride);
  return storage;
}

static Storage resolve_input(Lower *l, const Node *node, ValueId value) {
  const Value *made = graph_value(l->graph, value);
  int64_t bytes = graph_elements(l->graph, made->shape) * type_bytes(l, value);
  bool per_slot = made->shape.count > 0;
  int slots = l->c->program == PROGRAM_TRAIN ? l->graph->slots : 1;
  int64_t slot = per_slot ? (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN : 0;
  Storage storage = {.buffer = new_buffer(l, ARENA_HOST, per_slot ? slot * slots : bytes)};
  l->buffers.at[storage.buffer].slot_stride = slot;
  l->buffers.at[storage.buffer].whole = true;
  dense_strides(l, made->shape, storage.stride);
  PlanInput input = {.name = node->text,
                     .type = made->type,
                     .axis_count = made->shape.count,
                     .bound = made->bound >= 0 ? axis_extent(l, made->bound) : 0,
                     .place = place_of(&storage)};
  for (int i = 0; i < made->shape.count; i++) {
    input.axis[i] = l->graph->axes.at[made->shape.axis[i]].name;
    input.size[i] = axis_extent(l, made->shape.axis[i]);
  }
  array_push(l->c->arena, &l->inputs, input);
  return storage;
}

static Storage resolve_pack(Lower *l, const Node *node, ValueId value) {
  const Node *first = graph_producer(l->graph, node->operands[0]);
  int64_t bytes = graph_elements(l->graph, graph_shape(l->graph, value)) * type_bytes(l, value);
  Storage storage = {.stride = {1}};
  if (first && (first->op == OP_PARAM || first->op == OP_STATE)) {  // the state map put them together
    int64_t least = INT64_MAX;
    for (int i = 0; i < node->operand_count; i++) {
      int64_t at = map_get_or(&l->states->by_name, map_key(graph_producer(l->graph, node->operands[i])->text), -1);
      int64_t offset = at >= 0 ? l->states->places.at[at].offset : 0;
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

static Storage resolve_alias(Lower *l, const Node *node, ValueId value) {
  Storage source = *storage_of(l, node->operands[0]), out = source;
  Shape from = graph_shape(l->graph, node->operands[0]), shape = graph_shape(l->graph, value);
  for (int i = 0; i < shape.count; i++) {
    AxisId axis = shape.axis[i];
    if ((node->op == OP_RENAME || node->op == OP_SLICE) && axis == node->axis2) {
      axis = node->axis;
    }
    int at = shape_find(&from, axis);
    if (at >= 0) {
      out.stride[i] = source.stride[at];
      continue;
    }
    // split: an axis of the parts; merge: the merged axis takes the stride of its last part
    AxisId origin = node->op == OP_SPLIT ? node->axis : node->axes.axis[node->axes.count - 1];
    int64_t stride = source.stride[shape_find(&from, origin)];
    for (int j = node->axes.count - 1; node->op == OP_SPLIT && j > shape_find(&node->axes, axis); j--) {
      stride *= axis_extent(l, node->axes.axis[j]);
    }
    out.stride[i] = stride;
  }
  if (node->op == OP_SLICE) {
    out.offset += node->integer * source.stride[shape_find(&from, node->axis)] * type_bytes(l, value);
  }
  return out;
}

// Merged axes must follow each other in memory.
static bool mergeable_in_place(Lower *l, const Node *node) {
  const Storage *source = storage_of(l, node->operands[0]);
  Shape from = graph_shape(l->graph, node->operands[0]);
  for (int i = 0; i + 1 < node->axes.count; i++) {
    int64_t outer = source->stride[shape_find(&from, node->axes.axis[i])];
    int64_t inner = source->stride[shape_find(&from, node->axes.axis[i + 1])];
    if (axis_extent(l, node->axes.axis[i]) > 1 && outer != inner * axis_extent(l, node->axes.axis[i + 1])) {
      return false;
    }
  }
  return true;
}

// A merge of axes that are apart in memory is a copy.
static Storage resolve_merge_copy(Lower *l, const Node *node) {
  Shape order = graph_shape(l->graph, node->operands[0]), other = shape_minus(order, &node->axes), wanted = {0};
  for (int i = 0; i < order.count; i++) {
    if (order.axis[i] == node->axes.axis[0]) {
      for (int j = 0; j < node->axes.count; j++) {
        shape_push(&wanted, node->axes.axis[j]);
      }
    } else if (shape_has(&other, order.axis[i])) {
      shape_push(&wanted, order.axis[i]);
    }
  }
  Storage dense = dense_storage(l, wanted, type_bytes(l, node->operands[0])), to = dense;
  for (int i = 0; i < order.count; i++) {
    to.stride[i] = dense.stride[shape_find(&wanted, order.axis[i])];
  }
  Storage from = *storage_of(l, node->operands[0]);
  lower_copy(l, order, graph_value(l->graph, node->operands[0])->type, &from, &to, WRITE_STORE);
  l->storage[node->operands[0]] = to;  // of equal content from here on
  return to;
}

static Storage resolve(Lower *l, ValueId value) {
  const Node *node = graph_producer(l->graph, value);
  const Home home = l->home[value];
  Shape shape = graph_shape(l->graph, value);
  switch (home.kind) {
    case HOME_CONCAT:
      return resolve_concat(l, value, &home);
    case HOME_BUNDLE:
      return resolve_bundle(l, value, &home);
    case HOME_PACK:
      return pack_slot(l, graph_producer(l->graph, home.parent), home.index);
    case HOME_ASSIGN:
    case HOME_RESULT:
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
  if (node->op == OP_PARAM || node->op == OP_STATE) {
    return resolve_state(l, node, value);
  }
  if (node->op == OP_INPUT) {
    return resolve_input(l, node, value);
  }
  if (node->op == OP_PACK) {
    return resolve_pack(l, node, value);
  }
  if (op_alias(node->op)) {
    if (node->op == OP_MERGE && !mergeable_in_place(l, node)) {
      resolve_merge_copy(l, node);
    }
    return resolve_alias(l, node, value);
  }
  return dense_storage(l, shape, type_bytes(l, value));
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

// --- the map of persistent state ---

static void add_state(Lower *l, Name name, int64_t offset) {
  map_put(&l->states->by_name, map_key(name), l->states->places.count);
  array_push(l->c->arena, &l->states->places, (StatePlace){name, offset});
}

static int64_t aligned(int64_t bytes) {
  return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

bool state_map_build(Lower *l) {
  Graph *graph = l->graph;
  StateMap *map = l->states;
  map->by_name = map_create(l->c->arena);
  const NodeList *nodes = &graph->regions.at[0].nodes;
  int64_t bytes = element_type_bytes(l->c->spec->real);
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    const Node *first = node->op == OP_PACK ? graph_producer(graph, node->operands[0]) : NULL;
    if (!first || (first->op != OP_PARAM && first->op != OP_STATE) ||
        map_get_or(&map->by_name, map_key(first->text), -1) >= 0) {
      continue;
    }
    int64_t *elements = ARENA_ARRAY(l->c->arena, int64_t, node->operand_count);
    int64_t *offsets = ARENA_ARRAY(l->c->arena, int64_t, node->operand_count), total = 0;
    for (int j = 0; j < node->operand_count; j++) {
      elements[j] = graph_elements(graph, graph_shape(graph, node->operands[j]));
      total += elements[j];
    }
    pack_offsets(elements, node->operand_count, offsets);
    for (int j = 0; j < node->operand_count; j++) {
      add_state(l, graph_producer(graph, node->operands[j])->text, map->bytes + offsets[j] * bytes);
    }
    map->bytes = aligned(map->bytes + total * bytes);
  }
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *persistent = &graph->persistent.at[i];
    if (map_get_or(&map->by_name, map_key(persistent->name), -1) < 0) {
      add_state(l, persistent->name, map->bytes);
      map->bytes = aligned(map->bytes + graph_elements(graph, persistent->shape) * bytes);
    }
  }
  return true;
}
