// elaborate_pass.c: the first pass: from text to the graph of one program, with the tensors that all programs share.
#include <string.h>

#include "compiler/front.h"

// --- the model's tensors ---

static void keep_tensors(ModelTensors *tensors, const Graph *graph) {
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *tensor = &graph->persistent.at[i];
    int64_t *sizes = ARENA_ARRAY(tensors->arena, int64_t, tensor->shape.count + 1);
    for (int a = 0; a < tensor->shape.count; a++) {
      sizes[a] = graph->axes.at[tensor->shape.axis[a]].size;
    }
    map_put(&tensors->index, map_key(tensor->name), tensors->list.count);
    array_push(tensors->arena, &tensors->list, ((ModelTensor){tensor->name, sizes, tensor->span}));
  }
}

// A tensor with an axis of the batch is another where the batch has another size, and a model that repeats layers along
// one has other parameters.
static void check_tensors(const Compilation *c) {
  for (int i = 0; i < c->graph->persistent.count; i++) {
    const Persistent *tensor = &c->graph->persistent.at[i];
    const int64_t known = map_get_or(&c->tensors->index, map_key(tensor->name), -1);
    const int64_t *sizes = known >= 0 ? c->tensors->list.at[known].sizes : NULL;
    if (!sizes) {
      diag_error(c->diag, E024, tensor->span, "'%s' is a tensor of the model here, and not in training", tensor->name);
    }
    for (int a = 0; sizes && a < tensor->shape.count; a++) {
      const Axis *axis = &c->graph->axes.at[tensor->shape.axis[a]];
      if (axis->size != sizes[a]) {
        diag_error(c->diag, E024, tensor->span, "'%s' has %lld positions along '%s' here, and %lld in training",
                   tensor->name, (long long)axis->size, axis->name, (long long)sizes[a]);
      }
    }
  }
  for (int i = 0; i < c->tensors->list.count; i++) {
    const ModelTensor *tensor = &c->tensors->list.at[i];
    if (!graph_persistent(c->graph, tensor->name)) {
      diag_error(c->diag, E024, tensor->span, "'%s' is a tensor of the model in training, and not here", tensor->name);
    }
  }
}

// The model's tensors are those of training in all programs.
static bool same_tensors(const Compilation *c) {
  const int errors = c->diag->errors;
  if (c->tensors && c->program == PROGRAM_TRAIN && c->tensors->list.count == 0) {
    keep_tensors(c->tensors, c->graph);
  } else if (c->tensors && c->tensors->list.count > 0) {
    check_tensors(c);
  }
  return c->diag->errors == errors;
}

// --- outputs ---

static bool are_large(const Compilation *c, ValueId value) {
  const Shape shape = graph_shape(c->graph, value);
  double bytes = 4;
  for (int i = 0; i < shape.count; i++) {
    bytes *= (double)c->graph->axes.at[shape.axis[i]].size;
  }
  return bytes > (double)chunk_bytes(c);
}

static bool is_short(const Graph *graph, ValueId value) {
  const Shape shape = graph_shape(graph, value);
  return shape.count == 0 || (shape.count == 1 && graph_elements(graph, shape) <= SHOWN_NUMBERS);
}

// Where logits are large they are never whole in a step, so what is computed from them for an output alone is left out
// of training; and so is everywhere what is more than a few numbers, which no line of a step can show.
static void drop_outputs_of(const Compilation *c, ValueId logits) {
  Graph *graph = c->graph;
  NodeList *nodes = &graph->regions.at[0].nodes;
  const bool large = are_large(c, logits);
  bool *from = ARENA_ARRAY(c->arena, bool, graph->values.count + 1);
  int kept = 0;
  from[logits] = true;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    bool reads = false;
    for (int j = 0; j < node->operand_count; j++) {
      reads |= from[node->operands[j]];
    }
    for (int j = 0; j < node->result_count; j++) {
      from[node->first_result + j] |= reads;
    }
    nodes->at[kept] = nodes->at[i];
    const bool output = node->op == OP_OUTPUT && strcmp(node->text, "loss") != 0;
    kept += !(reads && output && (large || !is_short(graph, node->operands[0])));
  }
  nodes->count = kept;
}

bool pass_elaborate(Compilation *c) {
  c->elaborator = elaborate_model(c->arena, c->names, c->diag, c->unit, c->spec, c->program);
  c->graph = c->elaborator ? c->elaborator->graph : NULL;
  const NodeId circle = c->graph ? graph_assign_last(c->graph) : -1;
  if (circle >= 0) {
    Diagnostic *error = diag_error(c->diag, E035, graph_node(c->graph, circle)->span,
                                   "this state and what becomes it become each other in one step");
    diag_help(c->diag, error,
              "compute what one of them becomes: as they are, the first would be gone when the second reads it");
    return false;
  }
  if (c->graph && c->program == PROGRAM_TRAIN && front_has_logits(c)) {
    drop_outputs_of(c, frame_find(c->elaborator->frame, name_of(c->names, "logits"))->value);
  }
  if (c->graph && c->values) {
    forward_paths(c);
  }
  return c->graph && same_tensors(c);
}
