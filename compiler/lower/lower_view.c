// lower_view.c: views of values that may have no strides: merges of axes that are apart in memory, and parts that
// reach past the end of an axis. Of these a copy is made where the view stands, and its operand is there from here on,
// for whoever reads it later. Of all other views storage.c knows where they lie.
#include "compiler/lower/lower.h"

static int64_t extent(const Lower *l, AxisId axis) {
  return l->graph->axes.at[axis].size;
}

bool view_may_copy(Op op) {
  return op == OP_MERGE || op == OP_SHARD;
}

bool zigzag_between(const Graph *graph, AxisId whole, AxisId part) {
  return graph->axes.at[part].zigzag && !graph->axes.at[whole].zigzag;
}

// Merged axes must follow each other in memory, but for those of size 1, which lie anywhere.
static bool mergeable_in_place(Lower *l, const Node *node) {
  const Storage *source = storage_of(l, node->operands[0]);
  const Shape from = graph_shape(l->graph, node->operands[0]);
  int64_t reach = -1;  // of the axes behind, in elements
  for (int i = node->axes.count - 1; i >= 0; i--) {
    const int64_t size = extent(l, node->axes.axis[i]), stride = source->stride[shape_find(&from, node->axes.axis[i])];
    if (size > 1 && reach >= 0 && stride != reach) {
      return false;
    }
    reach = size > 1 ? stride * size : reach;
  }
  return true;
}

// A merge of axes that are apart in memory is a copy.
static void copy_merged(Lower *l, const Node *node) {
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
}

static bool shard_is_padded(const Lower *l, const Node *node) {
  int mesh = __builtin_ctzll((uint64_t)node->integer);
  return extent(l, node->axis2) * l->c->spec->mesh[mesh].size != extent(l, node->axis);
}

// So that every rank's part is there: the operand with zeros behind the end of the axis.
static void copy_padded(Lower *l, const Node *node) {
  int mesh = __builtin_ctzll((uint64_t)node->integer);
  int64_t size = extent(l, node->axis2) * l->c->spec->mesh[mesh].size, bytes = type_bytes(l, node->operands[0]);
  Shape shape = graph_shape(l->graph, node->operands[0]), wide = shape;
  ElementType type = graph_value(l->graph, node->operands[0])->type;
  shape_replace(&wide, node->axis, graph_axis(l->graph, name_of(l->c->names, "padded"), size));
  Storage to = dense_storage(l, wide, bytes), from = *storage_of(l, node->operands[0]);
  lower_fill(l, wide, type, &to, 0);
  lower_copy(l, shape, type, &from, &to, WRITE_STORE);
  l->storage[node->operands[0]] = to;  // of equal content from here on
}

void lower_view(Lower *l, const Node *node) {
  const ValueId operand = node->operands[0];
  const Node *maker = graph_producer(l->graph, operand);
  if (l->storage[node->first_result].buffer >= 0) {  // a result of chunks is where they want it
    return;
  }
  const Storage before = *storage_of(l, operand);
  if (node->op == OP_SHARD && shard_is_padded(l, node)) {
    copy_padded(l, node);
  }
  if (node->op == OP_MERGE && !mergeable_in_place(l, node)) {
    copy_merged(l, node);
  }
  storage_of(l, node->first_result);
  if (maker && op_stored(maker->op)) {  // stays where it is stored
    l->storage[operand] = before;
  }
}
