// differentiate.c: from the loss to a whole training step: gradients, microbatches, updates.
//
// Needs a simplified forward graph; from here on `stop` has no meaning. With more than one microbatch everything
// that depends on data moves into a microbatch region, whose results (loss and gradients) are summed (microbatches.c).
#include <string.h>

#include "compiler/grad/backward.h"
#include "compiler/grad/packs.h"
#include "compiler/ir/samples.h"
#include "compiler/pass/compilation.h"
#include "compiler/pipeline/stages.h"
#include "lang/elaborate.h"

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

// What each use of a parameter adds to its gradient, in the order in which the backward comes to them. Uses are summed
// after the microbatches, so that stages of a pipeline send their parts once; many are added up in each of them, since
// each would have to be kept, and so are those of gradients of which ranks keep pieces, since each would have to be
// kept whole.
typedef ARRAY(ValueList) GradientParts;

enum { FEW_PARTS = 4 };

// Is the value computed after the microbatches?
static bool comes_after(const Compilation *c, ValueId value) {
  return c->graph->slots > 1 && samples_of(c->samples, value).kind == SAMPLES_LATE;
}

// The outputs of the text, without those that no sum over microbatches gives.
static NodeList text_outputs(Compilation *c) {
  Graph *graph = c->graph;
  const NodeList old = graph->regions.at[0].nodes;
  NodeList kept = {0}, outputs = {0};
  for (int i = 0; i < old.count; i++) {
    const Node *node = graph_node(graph, old.at[i]);
    const bool shown = node->op == OP_OUTPUT && strcmp(node->text, "loss") != 0;
    const SamplesKind kind = shown && graph->slots > 1 ? samples_of(c->samples, node->operands[0]).kind : SAMPLES_SUM;
    if (kind == SAMPLES_MIXED || kind == SAMPLES_EACH) {
      continue;
    }
    array_push(c->arena, &kept, old.at[i]);
    if (shown) {
      array_push(c->arena, &outputs, old.at[i]);
    }
  }
  graph->regions.at[0].nodes = kept;
  return outputs;
}

// The loss, all parts of gradients, `values` and `outputs` are summed over the microbatches.
static ValueId sum_over_microbatches(Compilation *c, GradientParts *parts, ForwardValues *values,
                                     const NodeList *outputs, ValueId loss) {
  ValueList results = {0};
  array_push(c->arena, &results, loss);
  for (int i = 0; i < parts->count; i++) {
    for (int j = 0; j < parts->at[i].count; j++) {
      array_push(c->arena, &results, parts->at[i].at[j]);
    }
  }
  for (int i = 0; i < values->count; i++) {
    if (!comes_after(c, values->at[i].value)) {
      array_push(c->arena, &results, values->at[i].value);
    }
  }
  for (int i = 0; i < outputs->count; i++) {
    const ValueId value = graph_node(c->graph, outputs->at[i])->operands[0];
    if (!comes_after(c, value)) {
      array_push(c->arena, &results, value);
    }
  }
  wrap_microbatches(c, &results);
  int at = 1;
  for (int i = 0; i < parts->count; i++) {
    for (int j = 0; j < parts->at[i].count; j++) {
      parts->at[i].at[j] = results.at[at++];
    }
  }
  for (int i = 0; i < values->count; i++) {
    if (!comes_after(c, values->at[i].value)) {
      values->at[i].value = results.at[at++];
    }
  }
  for (int i = 0; i < outputs->count; i++) {
    if (!comes_after(c, graph_node(c->graph, outputs->at[i])->operands[0])) {
      graph_node(c->graph, outputs->at[i])->operands[0] = results.at[at++];
    }
  }
  return results.at[0];
}

static bool keeps_pieces(const Compilation *c) {
  bool any = false;
  for (int i = 0; i < c->spec->rules.count; i++) {
    any |= c->spec->rules.at[i].kind == RULE_GRAD;
  }
  return any && !c->tenancy;
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

// The tensor that a value is as it is stored, or a view of; -1: it is computed.
static ValueId tensor_behind(const Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  while (node && op_view(node->op)) {
    value = node->operands[0];
    node = graph_producer(graph, value);
  }
  return node && op_stored(node->op) ? value : -1;
}

// The next of them that is assigned to what none of the others reads; -1: they go round in a circle.
static int next_unread(const Graph *graph, const NodeList *list) {
  for (int i = 0; i < list->count; i++) {
    const ValueId target = graph_node(graph, list->at[i])->operands[0];
    bool read = false;
    for (int j = 0; j < list->count; j++) {
      read |= j != i && tensor_behind(graph, graph_node(graph, list->at[j])->operands[1]) == target;
    }
    if (!read) {
      return i;
    }
  }
  return -1;
}

// Those that copy tensors stand before all others, and each before what it reads changes.
static NodeId copies_first(Graph *graph, NodeList *nodes, NodeList *copies) {
  NodeList old = *nodes, made = {0};
  NodeId circle = -1;
  int at = 0;
  for (; at < old.count && graph_node(graph, old.at[at])->op != OP_ASSIGN; at++) {
    array_push(graph->arena, &made, old.at[at]);
  }
  while (copies->count > 0) {
    const int next = next_unread(graph, copies);
    circle = next < 0 ? copies->at[0] : circle;
    const int taken = next < 0 ? 0 : next;
    array_push(graph->arena, &made, copies->at[taken]);
    memmove(copies->at + taken, copies->at + taken + 1, sizeof *copies->at * (size_t)(copies->count - taken - 1));
    copies->count--;
  }
  for (; at < old.count; at++) {
    array_push(graph->arena, &made, old.at[at]);
  }
  *nodes = made;
  return circle;
}

NodeId graph_assign_last(Graph *graph) {
  NodeList old = graph->regions.at[0].nodes, kept = {0}, last = {0}, copies = {0};
  for (int i = 0; i < old.count; i++) {
    const Node *node = graph_node(graph, old.at[i]);
    const Node *target = node->op == OP_ASSIGN ? graph_producer(graph, node->operands[0]) : NULL;
    const bool state = target && target->op == OP_STATE && graph_value(graph, target->first_result)->role == ROLE_STATE;
    const ValueId from = state ? tensor_behind(graph, node->operands[1]) : -1;
    NodeList *to = !state ? &kept : from >= 0 && from != node->operands[0] ? &copies : &last;
    array_push(graph->arena, to, old.at[i]);
  }
  const NodeId circle = copies_first(graph, &kept, &copies);
  for (int i = 0; i < last.count; i++) {
    array_push(graph->arena, &kept, last.at[i]);
  }
  graph->regions.at[0].nodes = kept;
  return circle;
}

bool pass_differentiate(Compilation *c) {
  Graph *graph = c->graph;
  if (c->tenancy && !stages_exist(graph, c->spec)) {
    return false;
  }
  NodeId output = loss_output(graph);
  ValueId loss = graph_node(graph, output)->operands[0];
  ForwardValues values = {0};
  if (c->values) {
    forward_values(c, loss, &values);
  }
  const NodeList outputs = text_outputs(c);
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
  if (c->values && c->values->every) {
    forward_gradients(c, backward, &values);
  }
  ValueId *gradient = ARENA_ARRAY(c->arena, ValueId, graph->persistent.count + 1);
  int parameters = graph->persistent.count;
  GradientParts parts = {0};
  bool wraps = graph->slots > 1 || c->tenancy, pieces = keeps_pieces(c);
  for (int i = 0; i < parameters; i++) {
    const Persistent *parameter = &graph->persistent.at[i];
    bool trained = parameter->role == ROLE_PARAMETER && parameter->group >= 0;
    ValueList list = trained ? backward_parts(backward, parameter->value) : (ValueList){0};
    if (!wraps || pieces || list.count > FEW_PARTS) {
      ValueId sum = trained ? backward_gradient(backward, parameter->value) : -1;
      list = (ValueList){0};
      if (sum >= 0) {
        array_push(c->arena, &list, sum);
      }
    }
    array_push(c->arena, &parts, list);
  }
  if (wraps) {
    loss = sum_over_microbatches(c, &parts, &values, &outputs, loss);
    graph_node(graph, output)->operands[0] = loss;
  }
  if (c->values) {  // before operations are merged or dropped: nothing else may read what is computed here for state
    forward_values_output(c, &values, graph_node(graph, output)->span);
  }
  c->differentiated = true;
  if (c->tenancy) {  // equal operations become one on one stage before packs are made for the stages of their gradients
    GraphPlace place = graph_place(graph);
    pass_simplify(c);
    graph_return(graph, place);
  }
  for (int i = 0; i < parameters; i++) {
    gradient[i] = sum_parts(graph, &parts.at[i]);
  }
  name_gradients(c, gradient);
  const UpdateRules rules = elaborate_update_rules(c->elaborator);
  UpdateUnits units = {0};
  graph->role = ROLE_UPDATE;
  graph->region = 0;
  const bool good = packs_decide(c->arena, graph, c->spec, &rules, gradient, &units) &&
                    elaborate_updates(c->elaborator, &units, gradient, loss);
  graph_assign_last(graph);
  graph->backward = false;
  graph->role = ROLE_ACTIVATION;
  return good;
}
