// verify.c: the rules of verify.h, in one walk over the regions in program order.
#include "compiler/ir/verify.h"

#include "compiler/ir/graph_text.h"

enum { VERIFY_MAX_DEPTH = 256 };

typedef struct {
  int32_t level;  // 1 + composites around the definition while the value is visible, else 0
  ValueId root;   // the leaf or pack whose memory the value is; itself for a value of its own
  bool defined;   // anywhere so far
  bool assigned;  // leaves
} ValueState;

typedef struct {
  const Graph *graph;
  const Diag *diag;
  ValueState *values;
  bool *node_seen, *region_seen;
  Map leaves;         // text of a param or state → the value that stands for it
  NodeId node;        // of the broken rule, -1: none
  const char *wrong;  // the broken rule
  int assigned;       // how many tensors
} Verifier;

static bool verify_fail(Verifier *verifier, NodeId node, const char *rule) {
  verifier->node = node;
  verifier->wrong = rule;
  return false;
}

static bool span_valid(const Diag *diag, Span span) {
  return span.file == -1 || (span.file >= 0 && span.file < diag->sources.count && span.begin <= span.end &&
                             span.end <= diag->sources.at[span.file].length);
}

static const char *sharding_wrong(const Value *value) {
  const Sharding *sharding = value->sharding;
  for (int i = 0; sharding && i < sharding->entry_count + sharding->partial_count; i++) {
    bool entry = i < sharding->entry_count;
    Name mesh_axis = entry ? sharding->entries[i].mesh_axis : sharding->partial[i - sharding->entry_count];
    if (entry && !shape_has(&value->shape, sharding->entries[i].axis)) {
      return "a value is sharded along an axis that it does not have";
    }
    for (int j = 0; j < i; j++) {
      if (mesh_axis ==
          (j < sharding->entry_count ? sharding->entries[j].mesh_axis : sharding->partial[j - sharding->entry_count])) {
        return "a sharding uses a mesh axis twice";
      }
    }
  }
  return NULL;
}

// A value becomes visible: a result of a node or (node -1) a region parameter.
static bool verify_definition(Verifier *verifier, ValueId id, NodeId at, int level) {
  ValueState *state = &verifier->values[id];
  const Value *value = graph_value(verifier->graph, id);
  if (state->defined) {
    return verify_fail(verifier, at, "a value is defined twice");
  }
  if (!span_valid(verifier->diag, value->span)) {
    return verify_fail(verifier, at, "the span of a value is in no source");
  }
  const char *wrong = sharding_wrong(value);
  if (wrong) {
    return verify_fail(verifier, at, wrong);
  }
  *state = (ValueState){.level = level, .root = id, .defined = true};
  return true;
}

static bool is_storage(const Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  return node && op_stored(node->op);
}

static bool is_assigned(const Verifier *verifier, ValueId value) {
  if (verifier->assigned == 0) {
    return false;
  }
  ValueId root = verifier->values[value].root;
  const Node *node = graph_producer(verifier->graph, root);
  if (!node || node->op != OP_PACK) {
    return verifier->values[root].assigned;
  }
  for (int i = 0; i < node->operand_count; i++) {
    if (verifier->values[verifier->values[node->operands[i]].root].assigned) {
      return true;
    }
  }
  return false;
}

static bool verify_operands(Verifier *verifier, NodeId id, int level) {
  const Node *node = graph_node(verifier->graph, id);
  for (int i = 0; i < node->operand_count; i++) {
    ValueId value = node->operands[i];
    if (value < 0 || value >= verifier->graph->values.count) {
      return verify_fail(verifier, id, "an operand does not exist");
    }
    if (verifier->values[value].level == 0) {
      return verify_fail(verifier, id, "an operand is not defined before its use, or not in a region around it");
    }
    if (verifier->values[value].level != level) {
      return verify_fail(verifier, id, "a composite uses a value from outside that is not its parameter");
    }
    if (!(node->op == OP_ASSIGN && i == 0) && is_assigned(verifier, value)) {
      return verify_fail(verifier, id, "a tensor is read after its assign");
    }
  }
  return true;
}

static bool assign_leaf(Verifier *verifier, NodeId id, ValueId value) {
  const Graph *graph = verifier->graph;
  if (!is_storage(graph, value)) {
    return verify_fail(verifier, id, "the target of an assign is not a param, a state or a pack of them");
  }
  verifier->assigned++;
  ValueState *state = &verifier->values[verifier->values[value].root];
  if (state->assigned) {
    return verify_fail(verifier, id, "a tensor is assigned twice");
  }
  state->assigned = true;
  return true;
}

static bool verify_assign(Verifier *verifier, NodeId id) {
  ValueId target = graph_node(verifier->graph, id)->operands[0];
  const Node *node = graph_producer(verifier->graph, target);
  if (!node || node->op != OP_PACK) {
    return assign_leaf(verifier, id, target);
  }
  for (int i = 0; i < node->operand_count; i++) {
    if (!assign_leaf(verifier, id, node->operands[i])) {
      return false;
    }
  }
  return true;
}

// Whose memory a node's result is: all leaves of one name are one tensor, and an alias is its operand.
static void verify_root(Verifier *verifier, NodeId id) {
  const Node *node = graph_node(verifier->graph, id);
  ValueState *state = &verifier->values[node->first_result];
  if (op_stored(node->op)) {
    state->root = (ValueId)map_get_or(&verifier->leaves, map_key(node->text), node->first_result);
    map_put(&verifier->leaves, map_key(node->text), state->root);
  } else if (op_alias(node->op)) {
    state->root = verifier->values[node->operands[0]].root;
  }
}

static bool verify_region(Verifier *verifier, RegionId id, NodeId owner, int level, int depth, bool effects);

static bool verify_node(Verifier *verifier, NodeId id, int level, int depth, bool effects) {
  const Graph *graph = verifier->graph;
  if (id < 0 || id >= graph->nodes.count) {
    return verify_fail(verifier, -1, "a region lists a node that does not exist");
  }
  if (verifier->node_seen[id]) {
    return verify_fail(verifier, id, "a node stands in the regions twice");
  }
  verifier->node_seen[id] = true;
  const Node *node = graph_node(graph, id);
  if (!span_valid(verifier->diag, node->span) || node->scope < -1 || node->scope >= graph->scopes.count) {
    return verify_fail(verifier, id, "the span or the scope of a node does not exist");
  }
  if (!verify_operands(verifier, id, level)) {
    return false;
  }
  const char *wrong = graph_verify_node(graph, id);
  if (wrong) {
    return verify_fail(verifier, id, wrong);
  }
  if (op_effect(node->op) && !effects) {
    return verify_fail(verifier, id, "an effect stands outside the top region and the microbatches");
  }
  if (node->op == OP_ASSIGN && !verify_assign(verifier, id)) {
    return false;
  }
  if (node->region >= 0 && !verify_region(verifier, node->region, id, level + (node->op == OP_COMPOSITE), depth + 1,
                                          effects && op_body(node->op))) {
    return false;
  }
  for (int i = 0; i < node->result_count; i++) {
    if (!verify_definition(verifier, node->first_result + i, id, level)) {
      return false;
    }
  }
  if (node->result_count > 0) {
    verify_root(verifier, id);
  }
  return true;
}

// At the end of a region nothing that it defined is visible any more.
static void hide_region(Verifier *verifier, const Region *region) {
  for (int i = 0; i < region->parameters.count; i++) {
    verifier->values[region->parameters.at[i]].level = 0;
  }
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(verifier->graph, region->nodes.at[i]);
    for (int j = 0; j < node->result_count; j++) {
      verifier->values[node->first_result + j].level = 0;
    }
  }
}

static bool verify_parameters(Verifier *verifier, const Region *region, NodeId owner, int level) {
  const Graph *graph = verifier->graph;
  for (int i = 0; i < region->parameters.count; i++) {
    ValueId value = region->parameters.at[i];
    if (value < 0 || value >= graph->values.count || graph_value(graph, value)->node != -1) {
      return verify_fail(verifier, owner, "a region parameter does not exist or is the result of a node");
    }
    const char *wrong = graph_verify_value(graph, graph_value(graph, value));
    if (wrong) {
      return verify_fail(verifier, owner, wrong);
    }
    if (!verify_definition(verifier, value, owner, level)) {
      return false;
    }
  }
  return true;
}

static bool verify_region(Verifier *verifier, RegionId id, NodeId owner, int level, int depth, bool effects) {
  const Graph *graph = verifier->graph;
  const Region *region = &graph->regions.at[id];
  if (verifier->region_seen[id] || depth > VERIFY_MAX_DEPTH) {
    return verify_fail(verifier, owner, "a region is used twice, or regions nest too deeply");
  }
  verifier->region_seen[id] = true;
  if (!verify_parameters(verifier, region, owner, level)) {
    return false;
  }
  for (int i = 0; i < region->nodes.count; i++) {
    if (!verify_node(verifier, region->nodes.at[i], level, depth, effects)) {
      return false;
    }
  }
  for (int i = 0; i < region->results.count; i++) {
    ValueId value = region->results.at[i];
    if (value < 0 || value >= graph->values.count || verifier->values[value].level != level) {
      return verify_fail(verifier, owner, "a region returns a value that is not defined in it");
    }
  }
  hide_region(verifier, region);
  return true;
}

static bool verify_tables(Verifier *verifier) {
  const Graph *graph = verifier->graph;
  Map names = map_create(graph->arena);
  for (int i = 0; i < graph->axes.count; i++) {
    const Axis *axis = &graph->axes.at[i];
    if (!axis->name || map_get_or(&names, map_key(axis->name), -1) >= 0) {
      return verify_fail(verifier, -1, "an axis has no name or that of another axis");
    }
    if (axis->size < 1 || axis->global < 1 || axis->size > GRAPH_MOST_ELEMENTS) {
      return verify_fail(verifier, -1, "an axis has an impossible size");
    }
    map_put(&names, map_key(axis->name), i);
  }
  for (int i = 0; i < graph->scopes.count; i++) {
    if (graph->scopes.at[i].parent < -1 || graph->scopes.at[i].parent >= i) {
      return verify_fail(verifier, -1, "the parent of a scope does not come before it");
    }
  }
  return true;
}

static bool is_tensor_role(Role role) {
  return role == ROLE_PARAMETER || role == ROLE_STATE || role == ROLE_OPTIMIZER_STATE || role == ROLE_COPY ||
         role == ROLE_CACHE;
}

static bool verify_persistent(Verifier *verifier) {
  const Graph *graph = verifier->graph;
  Map names = map_create(graph->arena);
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *tensor = &graph->persistent.at[i];
    if (!tensor->name || map_get_or(&names, map_key(tensor->name), -1) >= 0) {
      return verify_fail(verifier, -1, "a persistent tensor has no name or that of another one");
    }
    map_put(&names, map_key(tensor->name), i);
    const char *wrong = graph_verify_shape(graph, &tensor->shape);
    if (wrong) {
      return verify_fail(verifier, -1, wrong);
    }
    int in_count = tensor->in_count < 0 ? 0 : tensor->in_count;
    if (tensor->stack_count < 0 || tensor->stack_count + in_count > tensor->shape.count ||
        !is_tensor_role(tensor->role) || (unsigned)tensor->type >= ELEMENT_TYPE_COUNT || tensor->scope < -1 ||
        tensor->scope >= graph->scopes.count || !span_valid(verifier->diag, tensor->span)) {
      return verify_fail(verifier, -1, "a persistent tensor has an impossible role, type, shape, scope or span");
    }
    if (tensor->value < 0) {
      continue;
    }
    if (tensor->value >= graph->values.count || !is_storage(graph, tensor->value) ||
        graph_producer(graph, tensor->value)->text != tensor->name) {
      return verify_fail(verifier, -1, "the value of a persistent tensor is not the leaf of its name");
    }
    const Value *leaf = graph_value(graph, tensor->value);
    const Shape local = persistent_shape(tensor);
    if (!shape_same_set(&leaf->shape, &local) || !graph_type_matches(leaf->type, tensor->type)) {
      return verify_fail(verifier, leaf->node, "a leaf has another type or other axes than its persistent tensor");
    }
  }
  return true;
}

// The node as text with ids for numbers, in the arena.
static const char *node_text(Arena *arena, const Graph *graph, NodeId node) {
  Buffer text = {0};
  graph_print_node(graph, node, &text);
  const char *copy = text.failed || !text.text ? "" : arena_format(arena, "%s", text.text);
  buffer_free(&text);
  return copy;
}

static bool verify_report(const Verifier *verifier, Diag *diag, const char *after_pass) {
  const Graph *graph = verifier->graph;
  Span span = SPAN_NONE;
  const char *text = "the graph as a whole";
  if (verifier->node >= 0) {
    span = graph_node(graph, verifier->node)->span;
    text = node_text(diag->arena, graph, verifier->node);
  }
  if (verifier->wrong == verify_too_large) {
    diag_error(diag, E090, span_valid(diag, span) ? span : SPAN_NONE, "%s", verifier->wrong);
    return false;
  }
  diag_error(diag, E099, span_valid(diag, span) ? span : SPAN_NONE, "the graph is wrong after pass '%s': %s, in: %s",
             after_pass, verifier->wrong, text);
  return false;
}

bool graph_verify(const Graph *graph, Diag *diag, const char *after_pass) {
  Verifier verifier = {.graph = graph, .diag = diag, .node = -1, .leaves = map_create(graph->arena)};
  verifier.values = ARENA_BORROW(graph->arena, ValueState, graph->values.count + 1);
  verifier.node_seen = ARENA_BORROW(graph->arena, bool, graph->nodes.count + 1);
  verifier.region_seen = ARENA_BORROW(graph->arena, bool, graph->regions.count + 1);
  const bool good =
      verify_tables(&verifier) && verify_region(&verifier, 0, -1, 1, 0, true) && verify_persistent(&verifier);
  arena_return(verifier.region_seen);
  arena_return(verifier.node_seen);
  arena_return(verifier.values);
  return good || verify_report(&verifier, diag, after_pass);
}
