// infer_moves.c: axes and types of what moves elements without computing: names, parts and places of axes, packs,
// ranks.
#include <string.h>

#include "compiler/ir/infer_rules.h"

const char *infer_rename(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0);
  *results =
      (Value){.type = a->type, .bound = a->bound, .shape = a->shape, .role = results->role, .span = results->span};
  if (!shape_has(&a->shape, node->axis)) {
    return "the axis is missing";
  }
  if (shape_has(&a->shape, node->axis2)) {
    return "an axis would occur twice";
  }
  shape_replace(&results->shape, node->axis, node->axis2);
  return axis_size(graph, node->axis) == axis_size(graph, node->axis2) ? NULL : "the sizes differ";
}

const char *infer_split(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0);
  results->type = a->type;
  results->bound = a->bound;
  results->shape = (Shape){0};
  if (!shape_has(&a->shape, node->axis)) {
    return "the axis is missing";
  }
  for (int i = 0; i < a->shape.count; i++) {
    int parts = a->shape.axis[i] == node->axis ? node->axes.count : 1;
    for (int j = 0; j < parts; j++) {
      if (!shape_push(&results->shape,
                      parts > 1 || a->shape.axis[i] == node->axis ? node->axes.axis[j] : a->shape.axis[i])) {
        return "an axis would occur twice";
      }
    }
  }
  return graph_elements(graph, node->axes) == axis_size(graph, node->axis) ? NULL : "the sizes differ";
}

const char *infer_merge(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0);
  results->type = a->type;
  results->bound = a->bound;
  results->shape = (Shape){0};
  if (!shape_contains(&a->shape, &node->axes)) {
    return "an axis is missing";
  }
  for (int i = 0; i < a->shape.count; i++) {
    AxisId axis = a->shape.axis[i];
    if (axis == node->axes.axis[0]) {
      if (!shape_push(&results->shape, node->axis2)) {
        return "an axis would occur twice";
      }
    } else if (!shape_has(&node->axes, axis) && !shape_push(&results->shape, axis)) {
      return "an axis would occur twice";
    }
  }
  return graph_elements(graph, node->axes) == axis_size(graph, node->axis2) ? NULL : "the sizes differ";
}

const char *infer_slice(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0);
  results->type = a->type;
  results->bound = a->bound;
  results->shape = a->shape;
  if (!shape_has(&a->shape, node->axis)) {
    return "the axis is missing";
  }
  int64_t size = node->axis2 < 0 ? 1 : axis_size(graph, node->axis2);
  if (node->integer < 0 || node->integer + size > axis_size(graph, node->axis)) {
    return "the slice leaves its axis";
  }
  if (node->axis2 < 0) {
    shape_remove(&results->shape, node->axis);
  } else {
    if (node->axis2 != node->axis && shape_has(&a->shape, node->axis2)) {
      return "an axis would occur twice";
    }
    shape_replace(&results->shape, node->axis, node->axis2);
  }
  return NULL;
}

const char *infer_pad(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0);
  results->type = a->type;
  results->shape = a->shape;
  int64_t size = node->axis < 0 ? 1 : axis_size(graph, node->axis);
  if (node->integer < 0 || node->integer + size > axis_size(graph, node->axis2)) {
    return "the operand does not fit the padded axis";
  }
  if (node->axis < 0) {
    return shape_push(&results->shape, node->axis2) ? NULL : "an axis would occur twice";
  }
  if (!shape_has(&a->shape, node->axis)) {
    return "the axis is missing";
  }
  shape_replace(&results->shape, node->axis, node->axis2);
  return NULL;
}

const char *infer_concat(Graph *graph, const Node *node, Value *results) {
  const Value *first = operand(graph, node, 0);
  results->type = first->type;
  results->shape = first->shape;
  if (node->axes.count != node->operand_count) {
    return "there is not one axis for each operand";
  }
  int64_t size = 0;
  for (int i = 0; i < node->operand_count; i++) {
    const Value *part = operand(graph, node, i);
    Shape like = first->shape;
    shape_replace(&like, node->axes.axis[0], node->axes.axis[i]);
    if (part->type != first->type || !shape_same_set(&part->shape, &like)) {
      return "the parts differ in more than the joined axis";
    }
    size += axis_size(graph, node->axes.axis[i]);
  }
  shape_replace(&results->shape, node->axes.axis[0], node->axis2);
  return size == axis_size(graph, node->axis2) ? NULL : "the sizes do not add up";
}

const char *infer_window(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0);
  (void)graph;
  results->type = a->type;
  results->shape = a->shape;
  if (!shape_has(&a->shape, node->axis)) {
    return "the axis is missing";
  }
  return shape_push(&results->shape, node->axis2) ? NULL : "an axis would occur twice";
}

const char *infer_fold(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0);
  results->type = a->type;
  results->shape = a->shape;
  if (!shape_has(&a->shape, node->axis) || !shape_has(&a->shape, node->axis2)) {
    return "an axis is missing";
  }
  shape_remove(&results->shape, node->axis2);
  return NULL;
}

const char *infer_pack(Graph *graph, const Node *node, Value *results) {
  int64_t size = 0;
  results->type = operand(graph, node, 0)->type;
  for (int i = 0; i < node->operand_count; i++) {
    const Value *part = operand(graph, node, i);
    if (part->type != results->type) {
      return "the parts have different types";
    }
    size += graph_elements(graph, part->shape);
  }
  results->shape = shape_of(node->axis);
  bool local = graph->axes.at[node->axis].whole >= 0;  // then it may be one piece, or have padding at its end
  return local || axis_size(graph, node->axis) == size ? NULL : "the size of the packed axis is not that of its parts";
}

const char *infer_part(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0);
  results->type = a->type;
  results->shape = node->axes;
  return a->shape.count == 1 ? NULL : "the operand is no pack";
}

const char *infer_regroup(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0);
  (void)graph;
  results->type = a->type;
  results->bound = a->bound;
  results->shape = a->shape;
  if (!shape_has(&a->shape, node->axis)) {
    return "the axis is missing";
  }
  shape_replace(&results->shape, node->axis, node->axis2);
  return NULL;
}

const char *infer_exchange(Graph *graph, const Node *node, Value *results) {
  const char *wrong = infer_regroup(graph, node, results);
  results->shape = operand(graph, node, 0)->shape;
  if (wrong || node->axes.count != 2 || !shape_has(&results->shape, node->axis2)) {
    return wrong ? wrong : "an axis is missing";
  }
  shape_replace(&results->shape, node->axis, node->axes.axis[0]);
  shape_replace(&results->shape, node->axis2, node->axes.axis[1]);
  return NULL;
}
