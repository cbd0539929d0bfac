// histories.c: the largest numbers of the last steps as state: first values, and what a step leaves in them.
//
// A step records the largest number of all its microbatches, when it is done. With a pipeline that is recorded where it
// is found: nothing is sent for it but whether the step counts.
#include <string.h>

#include "compiler/precision/quantise.h"

#include "compiler/plan/numbers.h"

ValueId history_add(Graph *graph, const History *history) {
  const Shape shape = shape_of(graph_axis(graph, name_of(graph->names, "history"), history->length));
  Persistent made = {.name = history->name,
                     .role = ROLE_OPTIMIZER_STATE,
                     .shape = shape,
                     .in_count = -1,
                     .type = graph->real,
                     .group = -1,
                     .scope = graph->scope,
                     .like = history->like,
                     .span = history->span};
  const Role role = graph->role;
  graph->role = ROLE_OPTIMIZER_STATE;
  made.value = graph_add0(graph, OP_STATE, (NodeInit){NODE_INIT, .text = made.name, .type = made.type, .shape = shape});
  graph->role = role;
  array_push(graph->arena, &graph->persistent, made);
  return made.value;
}

static ValueId input_step(Graph *graph) {
  const NodeList *nodes = &graph->regions.at[0].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (node->op == OP_INPUT && strcmp(node->text, INPUT_STEP) == 0) {
      return node->first_result;
    }
  }
  return graph_add0(graph, OP_INPUT,
                    (NodeInit){NODE_INIT, .text = name_of(graph->names, INPUT_STEP), .type = TYPE_INT});
}

// Is this step not skipped?
static ValueId step_counts(Graph *graph) {
  const NodeList *nodes = &graph->regions.at[0].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (node->op == OP_OUTPUT && strcmp(node->text, "skipped") == 0) {
      return graph_op2(graph, OP_LESS, node->operands[0], graph_real(graph, 0.5));
    }
  }
  return -1;
}

// --- of all microbatches ---

// The number of the microbatch, in its region: its place along an axis of which each microbatch has one position, and
// all ranks the same one.
static ValueId slot_number(Graph *graph) {
  const AxisId one = graph_axis(graph, name_of(graph->names, "microbatch.now"), 1);
  graph->axes.at[one].global = graph->slots;
  const ValueId place = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = one});
  const NodeInit all = {NODE_INIT, .axes = shape_of(one)};
  return graph_op1(graph, OP_TO_INT, graph_add1(graph, OP_REDUCE_MIN, all, graph_op1(graph, OP_TO_REAL, place)));
}

// One more node of the microbatches, with more results, in the place of the one there is.
static void replace_microbatch(Graph *graph, int at) {
  const NodeId old = graph->regions.at[0].nodes.at[at];
  graph_follow(graph, graph_node(graph, old));
  const NodeInit init = {NODE_INIT, .region = graph_node(graph, old)->region, .integer = graph->slots};
  const int count = graph_node(graph, old)->result_count;
  const ValueId first = graph_add(graph, OP_MICROBATCH, init, NULL, 0);
  const NodeId made = graph_value(graph, first)->node;
  NodeList *nodes = &graph->regions.at[0].nodes;
  nodes->at[at] = made;
  nodes->count--;
  ValueId *replace = ARENA_ARRAY(graph->arena, ValueId, graph->values.count + 1);
  memset(replace, -1, sizeof *replace * (size_t)graph->values.count);
  for (int i = 0; i < count; i++) {
    const ValueId was = graph_node(graph, old)->first_result + i;
    *graph_value(graph, first + i) = *graph_value(graph, was);
    graph_value(graph, first + i)->node = made;
    replace[was] = first + i;
  }
  graph_replace_values(graph, replace);
}

static bool is_of_step(const QuantiserUpdate *update) {
  return update->steady || update->stored.count > 0;
}

// Microbatches add up their results: each adds its amax in a place of its own, and the largest of these is the step's.
static void leave_microbatches(Quantiser *q) {
  Graph *graph = q->c->graph;
  const NodeList *nodes = &graph->regions.at[0].nodes;
  int at = 0;
  while (at < nodes->count && graph_node(graph, nodes->at[at])->op != OP_MICROBATCH) {
    at++;
  }
  if (at == nodes->count) {
    return;
  }
  const RegionId body = graph_node(graph, nodes->at[at])->region;
  const int before = graph_node(graph, nodes->at[at])->result_count;
  const AxisId slots = graph_axis(graph, name_of(graph->names, "microbatch"), graph->slots);
  graph->region = body;
  graph->backward = true;
  graph->role = ROLE_ACTIVATION;
  const ValueId slot = slot_number(graph);
  const ValueId place = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = slots});
  const ValueId here = graph_op2(graph, OP_EQUAL, place, slot);
  for (int i = 0; i < q->updates.count; i++) {  // where the amax is: with a pipeline that is on one stage
    if (is_of_step(&q->updates.at[i])) {
      continue;
    }
    graph_follow(graph, graph_producer(graph, q->updates.at[i].amax));
    const ValueId one = graph_op3(graph, OP_WHERE, here, q->updates.at[i].amax, graph_real(graph, 0));
    array_push(graph->arena, &graph->regions.at[body].results, one);
  }
  graph->region = 0;
  replace_microbatch(graph, at);
  graph->role = ROLE_UPDATE;
  graph->backward = true;
  graph->source = -1;
  const NodeId made = graph->regions.at[0].nodes.at[at];
  ValueId all = graph_node(graph, made)->first_result + before;
  for (int i = 0; i < q->updates.count; i++) {
    if (is_of_step(&q->updates.at[i])) {
      continue;
    }
    q->updates.at[i].amax = graph_add1(graph, OP_REDUCE_MAX, (NodeInit){NODE_INIT, .axes = shape_of(slots)}, all++);
  }
}

// Of parameters that ranks store in pieces, as they are before the step changes them.
static void find_stored(Quantiser *q) {
  Graph *graph = q->c->graph;
  const NodeList old = graph_rewrite(graph, 0);
  int at = 0;
  graph->region = 0;
  for (; at < old.count && graph_node(graph, old.at[at])->op != OP_ASSIGN; at++) {
    array_push(graph->arena, &graph->regions.at[0].nodes, old.at[at]);
  }
  for (int i = 0; i < q->updates.count; i++) {
    QuantiserUpdate *update = &q->updates.at[i];
    for (int j = 0; j < update->stored.count; j++) {
      const ValueId amax = quantiser_stored_amax(q, update->stored.at[j], true);
      update->amax = j == 0 ? amax : graph_op2(graph, OP_MAX, update->amax, amax);
    }
  }
  for (; at < old.count; at++) {
    array_push(graph->arena, &graph->regions.at[0].nodes, old.at[at]);
  }
}

// What reads the history is done where that is, with a pipeline too. What a history has is finite.
static void assign_history(Quantiser *q, const QuantiserUpdate *update, ValueId step, ValueId counts) {
  Graph *graph = q->c->graph;
  const AxisId axis = graph_shape(graph, update->history).axis[0];
  const ValueId length = graph_integer(graph, graph->axes.at[axis].size);
  const ValueId place = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = axis});
  const ValueId here = graph_op2(graph, OP_EQUAL, place, graph_op2(graph, OP_MOD, step, length));
  const ValueId placed = graph_op3(graph, OP_WHERE, here, update->amax, update->history);
  const ValueId counted = graph_op3(graph, OP_WHERE, counts, placed, update->history);
  const ValueId finite = graph_op1(graph, OP_IS_FINITE, counted);
  const ValueId now = graph_op3(graph, OP_WHERE, finite, counted, update->history);
  graph_op2(graph, OP_ASSIGN, update->history, now);
}

void quantiser_finish(Quantiser *q) {
  Graph *graph = q->c->graph;
  graph->region = 0;
  graph->role = ROLE_UPDATE;
  graph->source = -1;
  if (q->c->program == PROGRAM_INITIALISE) {
    for (int i = 0; i < q->c->histories->count; i++) {
      graph_op2(graph, OP_ASSIGN, history_add(graph, &q->c->histories->at[i]), graph_real(graph, 0));
    }
  }
  if (q->updates.count == 0) {
    return;
  }
  leave_microbatches(q);
  graph->backward = true;
  graph->scope = 0;  // of no function: not of that whose parameters were updated last
  find_stored(q);
  const ValueId step = input_step(graph), counts = step_counts(graph);
  for (int i = 0; i < q->updates.count; i++) {
    assign_history(q, &q->updates.at[i], step, counts);
  }
}
