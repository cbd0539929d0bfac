// differentiate.c: from the loss to a whole training step: gradients, microbatches, updates.
//
// Needs a simplified forward graph; from here on `stop` has no meaning. With more than one microbatch everything
// that depends on data moves into a microbatch region, whose results (loss and gradients) are summed.
#include <string.h>

#include "compiler/backward.h"
#include "compiler/compilation.h"
#include "compiler/stages.h"

static NodeId loss_output(const Graph *graph) {
  const NodeList *nodes = &graph->regions.at[0].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (node->op == OP_OUTPUT && strcmp(node->text, "loss") == 0) {
      return nodes->at[i];
    }
  }
  return -1;
}

// --- is the loss a sum over microbatches? ---

typedef enum { SAME, VARIES, PARTIAL } BatchState;  // the same in all microbatches; different; summed over the batch

typedef struct {
  Compilation *c;
  Graph *graph;
  BatchState *state;  // by value
} BatchCheck;

// Is the axis the batch, or made from it, so that a microbatch has only a part of it?
static bool is_cut(const Graph *graph, AxisId axis) {
  return axis >= 0 && graph->axes.at[axis].global != graph->axes.at[axis].size;
}

static bool any_cut(const Graph *graph, const Shape *shape) {
  for (int i = 0; i < shape->count; i++) {
    if (is_cut(graph, shape->axis[i])) {
      return true;
    }
  }
  return false;
}

// Does the operation mix, pick or number positions of a cut axis, which needs the whole batch at once?
static bool needs_whole_batch(const Graph *graph, const Node *node) {
  switch (node->op) {
    case OP_REDUCE_MAX:
    case OP_REDUCE_MIN:
      return any_cut(graph, &node->axes);
    case OP_POSITION:
    case OP_SLICE:
    case OP_PAD:
    case OP_WINDOW:
    case OP_FOLD:
    case OP_TAKE:
    case OP_PUT:
      return is_cut(graph, node->axis);
    case OP_CONCAT:
      return is_cut(graph, node->axis2);
    case OP_SPLIT:
      return is_cut(graph, node->axis) && !is_cut(graph, node->axes.axis[0]);
    default:
      return false;
  }
}

static bool linear_in_partials(const Node *node, const BatchState *states) {
  switch (node->op) {
    case OP_ADD:
    case OP_SUB:
    case OP_NEG:
    case OP_BROADCAST:
    case OP_SUM:
    case OP_STOP:
    case OP_OUTPUT:
    case OP_RENAME:
    case OP_SPLIT:
    case OP_MERGE:
    case OP_SLICE:
      return true;
    case OP_MUL:
      return states[0] != PARTIAL || states[1] == SAME ? states[1] != PARTIAL || states[0] == SAME : false;
    case OP_DIV:
      return states[1] == SAME;
    default:
      return false;
  }
}

static void report_nonlinear(BatchCheck *check, const Node *node) {
  Diagnostic *error =
      diag_error(check->c->diag, E037, node->span,
                 "with %d microbatches, a sum over the batch may only be added and scaled before it is the loss",
                 check->graph->slots);
  diag_label(check->c->diag, error, "'%s' is computed from a sum over the batch", op_name(node->op));
  diag_help(check->c->diag, error, "use microbatches = 1, or average after this operation");
}

static void report_whole(BatchCheck *check, const Node *node) {
  Diagnostic *error = diag_error(check->c->diag, E037, node->span,
                                 "with %d microbatches no operation sees the whole batch, as '%s' would have to",
                                 check->graph->slots, op_name(node->op));
  diag_help(check->c->diag, error, "use microbatches = 1");
}

// A value that is the same in all microbatches and added to a partial sum would count once for each: divide it.
static void share_constant(BatchCheck *check, NodeId id, const BatchState *states) {
  Graph *graph = check->graph;
  for (int i = 0; i < 2; i++) {
    if (states[i] == SAME && states[1 - i] == PARTIAL) {
      ValueId share =
          graph_op2(graph, OP_MUL, graph_node(graph, id)->operands[i], graph_real(graph, 1.0 / graph->slots));
      graph_node(graph, id)->operands[i] = share;
    }
  }
}

static BatchState state_of(const BatchCheck *check, ValueId value) {
  return check->state[value];
}

static void check_node(BatchCheck *check, NodeId id, NodeList *out) {
  Graph *graph = check->graph;
  Node *node = graph_node(graph, id);
  BatchState states[3] = {SAME, SAME, SAME}, result = SAME;
  for (int i = 0; i < node->operand_count; i++) {
    BatchState state = state_of(check, node->operands[i]);
    if (i < 3) {
      states[i] = state;
    }
    result = state > result ? state : result;
  }
  if (result == PARTIAL && !linear_in_partials(node, states)) {
    report_nonlinear(check, node);
  }
  if (needs_whole_batch(graph, node)) {
    report_whole(check, node);
  }
  bool sums = (node->op == OP_SUM && result == VARIES) || node->op == OP_DOT;
  if (sums && any_cut(graph, &node->axes)) {
    result = PARTIAL;
  }
  Shape shape = node->result_count ? graph_shape(graph, node->first_result) : (Shape){0};
  if (result == SAME && any_cut(graph, &shape)) {
    result = VARIES;
  }
  if (node->op == OP_ADD || node->op == OP_SUB) {
    share_constant(check, id, states);
    node = graph_node(graph, id);
  }
  for (int i = 0; i < node->result_count; i++) {
    check->state[node->first_result + i] = result;
  }
  NodeList *made = &graph->regions.at[0].nodes;
  for (int i = 0; i < made->count; i++) {
    array_push(graph->arena, out, made->at[i]);
  }
  made->count = 0;
  array_push(graph->arena, out, id);
}

static bool check_microbatches(Compilation *c) {
  Graph *graph = c->graph;
  BatchCheck check = {.c = c, .graph = graph};
  int errors = c->diag->reports;
  check.state = ARENA_ARRAY(c->arena, BatchState, graph->values.count * 2 + 64);
  NodeList old = graph->regions.at[0].nodes, out = {0};
  graph->regions.at[0].nodes = (NodeList){0};
  for (int i = 0; i < old.count; i++) {
    check_node(&check, old.at[i], &out);
  }
  graph->regions.at[0].nodes = out;
  return c->diag->reports == errors;
}

// --- the microbatch region ---

static bool stays_outside(const Node *node) {
  return node->op == OP_PARAM || node->op == OP_STATE || node->op == OP_ASSIGN || node->op == OP_OUTPUT ||
         (node->op == OP_INPUT && strcmp(node->text, "step") == 0);
}

// What each use of a parameter adds to its gradient, in the order in which the backward comes to them. Uses are summed
// after the microbatches, so that the sum does not depend on which stages of a pipeline make them.
typedef ARRAY(ValueList) GradientParts;

enum { FEW_PARTS = 4 };

// Moves the nodes into a region; the loss, all parts of gradients and `values` become its results, and then the node's.
static ValueId wrap_microbatches(Compilation *c, GradientParts *parts, ForwardValues *values, ValueId loss) {
  Graph *graph = c->graph;
  RegionId body = graph_region(graph);
  NodeList old = graph->regions.at[0].nodes, outside = {0}, effects = {0};
  for (int i = 0; i < old.count; i++) {
    const Node *node = graph_node(graph, old.at[i]);
    NodeList *to = !stays_outside(node) ? &graph->regions.at[body].nodes : op_effect(node->op) ? &effects : &outside;
    array_push(c->arena, to, old.at[i]);
  }
  graph->regions.at[0].nodes = outside;
  array_push(c->arena, &graph->regions.at[body].results, loss);
  for (int i = 0; i < parts->count; i++) {
    for (int j = 0; j < parts->at[i].count; j++) {
      array_push(c->arena, &graph->regions.at[body].results, parts->at[i].at[j]);
    }
  }
  for (int i = 0; i < values->count; i++) {
    array_push(c->arena, &graph->regions.at[body].results, values->at[i].value);
  }
  NodeInit init = {NODE_INIT, .region = body, .integer = graph->slots};
  ValueId first = graph_add(graph, OP_MICROBATCH, init, NULL, 0);
  int at = 1;
  for (int i = 0; i < parts->count; i++) {
    for (int j = 0; j < parts->at[i].count; j++) {
      parts->at[i].at[j] = first + at++;
    }
  }
  for (int i = 0; i < values->count; i++) {
    values->at[i].value = first + at++;
  }
  for (int i = 0; i < effects.count; i++) {
    array_push(c->arena, &graph->regions.at[0].nodes, effects.at[i]);
  }
  return first;
}

static ValueId sum_parts(Graph *graph, const ValueList *parts) {
  ValueId sum = parts->count ? parts->at[0] : -1;
  for (int i = 1; i < parts->count; i++) {
    sum = graph_op2(graph, OP_ADD, sum, parts->at[i]);
  }
  return sum;
}

static void name_gradients(Compilation *c, const ValueId *gradient) {
  Graph *graph = c->graph;
  for (int i = 0; i < graph->persistent.count; i++) {
    if (gradient[i] < 0) {
      continue;
    }
    Value *value = graph_value(graph, gradient[i]);
    if (!value->name) {
      value->name = name_format(c->names, "%s.gradient", graph->persistent.at[i].name);
    }
    if (c->gradients) {
      Name name = name_format(c->names, "gradient.%s", graph->persistent.at[i].name);
      graph_add1(graph, OP_OUTPUT, (NodeInit){NODE_INIT, .text = name}, gradient[i]);
    }
  }
}

void graph_assign_last(Graph *graph) {
  NodeList old = graph->regions.at[0].nodes, kept = {0}, last = {0};
  for (int i = 0; i < old.count; i++) {
    const Node *node = graph_node(graph, old.at[i]);
    const Node *target = node->op == OP_ASSIGN ? graph_producer(graph, node->operands[0]) : NULL;
    NodeList *to = target && target->op == OP_STATE && graph_value(graph, target->first_result)->role == ROLE_STATE
                       ? &last
                       : &kept;
    array_push(graph->arena, to, old.at[i]);
  }
  for (int i = 0; i < last.count; i++) {
    array_push(graph->arena, &kept, last.at[i]);
  }
  graph->regions.at[0].nodes = kept;
}

bool pass_differentiate(Compilation *c) {
  Graph *graph = c->graph;
  if ((c->tenancy && !stages_exist(graph, c->spec)) || (graph->slots > 1 && !check_microbatches(c))) {
    return false;
  }
  NodeId output = loss_output(graph);
  ValueId loss = graph_node(graph, output)->operands[0];
  ForwardValues values = {0};
  if (c->values) {
    forward_values(c, loss, &values);
  }
  assign_optimizer_groups(c->elaborator);
  ValueList wanted = {0};
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *parameter = &graph->persistent.at[i];
    if (parameter->role == ROLE_PARAMETER && parameter->group >= 0) {
      array_push(c->arena, &wanted, parameter->value);
    }
  }
  graph->region = 0;
  graph->role = ROLE_GRADIENT;
  graph->backward = true;
  graph->span = graph_node(graph, output)->span;
  NodeList nodes = graph->regions.at[0].nodes;
  Backward *backward = backward_create(graph, nodes.at, nodes.count, wanted.at, wanted.count);
  backward_add(backward, loss, graph_real(graph, 1));
  backward_run(backward);
  ValueId *gradient = ARENA_ARRAY(c->arena, ValueId, graph->persistent.count + 1);
  int parameters = graph->persistent.count;
  GradientParts parts = {0};
  bool wraps = graph->slots > 1 || c->tenancy;
  for (int i = 0; i < parameters; i++) {
    const Persistent *parameter = &graph->persistent.at[i];
    bool trained = parameter->role == ROLE_PARAMETER && parameter->group >= 0;
    ValueList list = trained ? backward_parts(backward, parameter->value) : (ValueList){0};
    if (!wraps || (list.count > FEW_PARTS && !c->tenancy)) {
      ValueId sum = trained ? backward_gradient(backward, parameter->value) : -1;
      list = (ValueList){0};
      if (sum >= 0) {
        array_push(c->arena, &list, sum);
      }
    }
    array_push(c->arena, &parts, list);
  }
  if (wraps) {
    loss = wrap_microbatches(c, &parts, &values, loss);
    graph_node(graph, output)->operands[0] = loss;
  }
  for (int i = 0; i < parameters; i++) {
    gradient[i] = sum_parts(graph, &parts.at[i]);
  }
  name_gradients(c, gradient);
  if (c->values) {
    forward_values_output(c, &values, graph_node(graph, output)->span);
  }
  c->differentiated = true;
  bool good = elaborate_updates(c->elaborator, gradient, loss);
  graph_assign_last(graph);
  graph->backward = false;
  graph->role = ROLE_ACTIVATION;
  return good;
}
