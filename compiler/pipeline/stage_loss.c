// stage_loss.c: large logits of the last stage are not kept from its forward to its backward.
//
// The forward of the last stage is followed by its backward: what makes logits, and all that depends on them, may as
// well stand in the backward, which then keeps the operand of the product in place of its result. There chunk can take
// them in parts. Products of gradients of logits stay there too, whatever the schedule does with gradients of weights.
#include "compiler/pass/compilation.h"
#include "compiler/pipeline/stages.h"

typedef struct {
  const Compilation *c;
  const Stages *stages;
  const NodeList *nodes;
  bool *in_body;  // by node
  bool *moved;    // by node
} Loss;

static bool at_last(const Loss *loss, NodeId id) {
  return id < loss->stages->node_count && loss->stages->node[id] == loss->stages->stages * loss->stages->chunks - 1;
}

static bool made_in_body(const Loss *loss, ValueId value) {
  NodeId maker = graph_value(loss->c->graph, value)->node;
  return maker >= 0 && loss->in_body[maker];
}

static bool is_large(const Loss *loss, ValueId value) {
  const Value *logits = graph_value(loss->c->graph, value);
  return graph_elements(loss->c->graph, logits->shape) * element_type_bytes(logits->type) > chunk_bytes(loss->c);
}

static bool reads_moved(const Loss *loss, const Node *node, AxisId columns) {
  const Graph *graph = loss->c->graph;
  for (int i = 0; i < node->operand_count; i++) {
    ValueId value = node->operands[i];
    Shape shape = graph_shape(graph, value);
    if (made_in_body(loss, value) && loss->moved[graph_value(graph, value)->node] &&
        (!node->backward || shape_has(&shape, columns))) {
      return true;
    }
  }
  return false;
}

// Something is taken along `columns` by index. In the order of the body: products that make such columns out of the
// stream, what depends on them in the forward, and what reads such columns in the backward.
static void move_columns(Loss *loss, AxisId columns) {
  const Graph *graph = loss->c->graph;
  for (int i = 0; i < loss->nodes->count; i++) {
    NodeId id = loss->nodes->at[i];
    const Node *node = graph_node(graph, id);
    if (!at_last(loss, id) || loss->moved[id]) {
      continue;
    }
    Shape made = node->result_count ? graph_shape(graph, node->first_result) : (Shape){0};
    bool head =
        node->op == OP_DOT && !node->backward && shape_has(&made, columns) && is_large(loss, node->first_result);
    loss->moved[id] = head || reads_moved(loss, node, columns);
  }
}

bool *stage_loss(const Compilation *c, const Stages *stages, const NodeList *nodes) {
  Loss loss = {.c = c, .stages = stages, .nodes = nodes};
  loss.in_body = ARENA_ARRAY(c->arena, bool, c->graph->nodes.count + 1);
  loss.moved = ARENA_ARRAY(c->arena, bool, c->graph->nodes.count + 1);
  for (int i = 0; i < nodes->count; i++) {
    loss.in_body[nodes->at[i]] = true;
  }
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(c->graph, nodes->at[i]);
    if (node->op == OP_TAKE && !node->backward && at_last(&loss, nodes->at[i]) &&
        made_in_body(&loss, node->operands[0])) {
      move_columns(&loss, node->axis);
    }
  }
  return loss.moved;
}
