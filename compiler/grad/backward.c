// backward.c: collecting gradient contributions in a reverse walk.
#include "compiler/grad/backward.h"

#include <assert.h>
#include <string.h>

struct Backward {
  Graph *graph;
  const NodeId *nodes;
  int count;
  ValueId first, limit;      // the values that the nodes know have ids from `first` to below `limit`
  bool *wants;               // by id - first
  ValueList *contributions;  // by id - first
};

// The smallest id of a value that the nodes, or `wanted`, have: a body of many has values of its own.
static ValueId first_of(const Graph *graph, const NodeId *nodes, int count, const ValueId *wanted, int wanted_count) {
  ValueId first = graph->values.count;
  for (int i = 0; i < wanted_count; i++) {
    first = wanted[i] < first ? wanted[i] : first;
  }
  for (int i = 0; i < count; i++) {
    const Node *node = graph_node(graph, nodes[i]);
    first = node->result_count > 0 && node->first_result < first ? node->first_result : first;
    for (int j = 0; j < node->operand_count; j++) {
      first = node->operands[j] < first ? node->operands[j] : first;
    }
  }
  return first;
}

// Whether the value was there when the walk began.
static bool is_known(const Backward *backward, ValueId value) {
  return value >= backward->first && value < backward->limit;
}

static ValueList *contributions_of(const Backward *backward, ValueId value) {
  return &backward->contributions[value - backward->first];
}

Backward *backward_create(Graph *graph, const NodeId *nodes, int count, const ValueId *wanted, int wanted_count) {
  Backward *backward = ARENA_NEW(graph->arena, Backward);
  backward->graph = graph;
  backward->nodes = arena_copy(graph->arena, nodes, sizeof *nodes * (size_t)count);
  backward->count = count;
  backward->limit = graph->values.count;
  backward->first = first_of(graph, nodes, count, wanted, wanted_count);
  const int known = backward->limit - backward->first;
  backward->wants = ARENA_ARRAY(graph->arena, bool, known + 1);
  backward->contributions = ARENA_ARRAY(graph->arena, ValueList, known + 1);
  bool *wants = backward->wants;
  for (int i = 0; i < wanted_count; i++) {
    wants[wanted[i] - backward->first] = true;
  }
  for (int i = 0; i < count; i++) {
    const Node *node = graph_node(graph, nodes[i]);
    if (node->op == OP_STOP) {
      continue;
    }
    bool any = false;
    for (int j = 0; j < node->operand_count; j++) {
      any |= wants[node->operands[j] - backward->first];
    }
    for (int j = 0; any && j < node->result_count; j++) {
      ElementType type = graph_value(graph, node->first_result + j)->type;
      wants[node->first_result + j - backward->first] = element_type_floating(type);
    }
  }
  return backward;
}

bool backward_wants(const Backward *backward, ValueId value) {
  return is_known(backward, value) && backward->wants[value - backward->first];
}

// The sum over what comes before the last axis that stays, in the kernel that has the rows; then, of the little that is
// left, over what comes behind it: the gradient of a number for each head.
static ValueId summed(Graph *graph, ValueId gradient, Shape over) {
  enum { LITTLE = 64 };
  const Shape all = graph_shape(graph, gradient), kept = shape_minus(all, &over);
  Shape behind = {0};
  for (int i = all.count - 1; i >= 0 && shape_has(&over, all.axis[i]); i--) {
    shape_push(&behind, all.axis[i]);
  }
  const Shape before = shape_minus(over, &behind), left = shape_union(kept, &behind);
  const bool apart = kept.count > 0 && before.count > 0 && behind.count > 0 &&
                     graph_elements(graph, left) * LITTLE <= graph_elements(graph, all);
  return apart ? graph_sum(graph, graph_sum(graph, gradient, before), behind) : graph_sum(graph, gradient, over);
}

void backward_add(Backward *backward, ValueId value, ValueId gradient) {
  Graph *graph = backward->graph;
  if (gradient < 0 || !backward_wants(backward, value)) {
    return;
  }
  Shape shape = graph_shape(graph, value), now = graph_shape(graph, gradient);
  gradient = summed(graph, gradient, shape_minus(now, &shape));
  now = graph_shape(graph, gradient);
  if (now.count < shape.count) {
    gradient = graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = shape}, gradient);
  }
  array_push(graph->arena, contributions_of(backward, value), gradient);
}

// Pads of one axis that tile it exactly, in any order, are a concatenation of what they pad. Returns -1 if not.
static ValueId join_pads(Backward *backward, const ValueList *list) {
  Graph *graph = backward->graph;
  enum { MOST = 16 };
  ValueId parts[MOST];
  Shape axes = {0};
  int64_t at = 0;
  if (list->count < 2 || list->count > MOST) {
    return -1;
  }
  AxisId axis = -1;
  for (int done = 0; done < list->count; done++) {
    int found = -1;
    for (int i = 0; i < list->count && found < 0; i++) {
      const Node *pad = graph_producer(graph, list->at[i]);
      if (pad && pad->op == OP_PAD && pad->axis >= 0 && pad->integer == at && (axis < 0 || axis == pad->axis2)) {
        found = i;
      }
    }
    if (found < 0) {
      return -1;
    }
    const Node *pad = graph_producer(graph, list->at[found]);
    axis = pad->axis2;
    parts[done] = pad->operands[0];
    axes.axis[axes.count++] = pad->axis;
    at += graph->axes.at[pad->axis].size;
  }
  return at == graph->axes.at[axis].size
             ? graph_add(graph, OP_CONCAT, (NodeInit){NODE_INIT, .axes = axes, .axis2 = axis}, parts, list->count)
             : -1;
}

ValueId backward_gradient(Backward *backward, ValueId value) {
  if (!is_known(backward, value) || contributions_of(backward, value)->count == 0) {
    return -1;
  }
  ValueList *list = contributions_of(backward, value);
  if (list->count > 1) {
    ValueId sum = join_pads(backward, list);
    if (sum < 0) {
      sum = list->at[0];
      for (int i = 1; i < list->count; i++) {
        sum = graph_op2(backward->graph, OP_ADD, sum, list->at[i]);
      }
    }
    list->at[0] = sum;
    list->count = 1;
  }
  return list->at[0];
}

ValueList backward_parts(Backward *backward, ValueId value) {
  ValueList parts = {0};
  if (!is_known(backward, value) || contributions_of(backward, value)->count == 0) {
    return parts;
  }
  const ValueList *list = contributions_of(backward, value);
  ValueId joined = join_pads(backward, list);
  if (joined >= 0) {
    array_push(backward->graph->arena, &parts, joined);
    return parts;
  }
  for (int i = 0; i < list->count; i++) {
    array_push(backward->graph->arena, &parts, list->at[i]);
  }
  return parts;
}

void backward_run(Backward *backward) {
  Graph *graph = backward->graph;
  Span span = graph->span;
  ScopeId scope = graph->scope;
  NodeId source = graph->source;
  for (int i = backward->count - 1; i >= 0; i--) {
    NodeId id = backward->nodes[i];
    const Node *node = graph_node(graph, id);
    bool any = false;
    for (int j = 0; j < node->result_count; j++) {
      const ValueId result = node->first_result + j;
      any |= backward_wants(backward, result) && contributions_of(backward, result)->count > 0;
    }
    if (any) {
      graph->span = node->span;
      graph->scope = node->scope;
      graph->source = id;
      gradient_rules[node->op](backward, graph, id);
    }
  }
  graph->span = span;
  graph->scope = scope;
  graph->source = source;
}
