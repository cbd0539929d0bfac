// lower_chunks.c: the body of `chunks` once for each part of the rows, on the same memory.
//
// Parts of what is cut lie in the whole, at the rows of the part. What is made inside and read inside alone has one
// buffer for all parts. Kernels are the same for all parts; only their places differ.
#include "compiler/lower/lower.h"

typedef struct {
  const Node *node;
  int64_t part;
} Chunk;

// Where the part of a value begins whose axes are those of `whole`.
static Storage part_of(Lower *l, ValueId whole, AxisId axis, int64_t position) {
  Storage storage = *storage_of(l, whole);
  Shape shape = graph_shape(l->graph, whole);
  storage.offset += position * storage.stride[shape_find(&shape, axis)] * type_bytes(l, whole);
  return storage;
}

// The place of `outside` (or of a part of it) for what stands for it in the body, where a part has an axis of its own.
static Storage seen_inside(Lower *l, ValueId inside, ValueId outside, Storage from, const Node *node) {
  Shape shape = graph_shape(l->graph, inside), whole = graph_shape(l->graph, outside);
  Storage out = from;
  for (int i = 0; i < shape.count; i++) {
    AxisId axis = shape.axis[i] == node->axis2 ? node->axis : shape.axis[i];
    out.stride[i] = from.stride[shape_find(&whole, axis)];
  }
  return out;
}

static void place_result(Lower *l, const Chunk *chunk, int i) {
  const Node *node = chunk->node;
  ValueId inside = l->graph->regions.at[node->region].results.at[i], outside = node->first_result + i;
  Shape shape = graph_shape(l->graph, outside);
  bool cut = shape_has(&shape, node->axis), each = shape_has(&shape, node->axes.axis[0]);
  Storage from = cut    ? part_of(l, outside, node->axis, chunk->part * l->graph->axes.at[node->axis2].size)
                 : each ? part_of(l, outside, node->axes.axis[0], chunk->part)
                        : *storage_of(l, outside);
  l->storage[inside] = seen_inside(l, inside, outside, from, node);
  l->accumulate[inside] = l->accumulate[outside];
  l->add[inside] = !cut && !each && chunk->part > 0;
}

// Results begin with the first part, ahead of what lives for a part alone: then that leaves no hole between them.
static void begin_results(Lower *l, const Node *node) {
  for (int i = 0; i < node->result_count; i++) {
    int made = storage_of(l, node->first_result + i)->buffer;
    MemoryBuffer *buffer = &l->buffers.at[made];
    buffer->first = l->into->count < buffer->first ? l->into->count : buffer->first;
  }
}

void lower_chunks(Lower *l, const Node *node) {
  const Region *body = &l->graph->regions.at[node->region];
  const NodeList nodes = body->nodes;
  Chunk chunk = {node, 0};
  begin_results(l, node);
  for (; chunk.part < l->graph->axes.at[node->axes.axis[0]].size; chunk.part++) {
    for (int i = 0; i < body->parameters.count; i++) {
      Storage from = part_of(l, node->operands[i], node->axis, chunk.part * l->graph->axes.at[node->axis2].size);
      l->storage[body->parameters.at[i]] = seen_inside(l, body->parameters.at[i], node->operands[i], from, node);
    }
    for (int i = 0; i < nodes.count; i++) {  // renames of parts are of other memory for each
      const Node *inner = graph_node(l->graph, nodes.at[i]);
      if (op_alias(inner->op)) {
        l->storage[inner->first_result].buffer = -1;
      }
    }
    for (int i = 0; i < body->results.count; i++) {
      place_result(l, &chunk, i);
    }
    lower_list(l, &nodes);
  }
}
