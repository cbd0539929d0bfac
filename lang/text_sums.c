// text_sums.c: what is computed of all positions of a text, so that each position sees those behind it.
#include <string.h>

#include "compiler/ir/op.h"
#include "lang/lint.h"

// Statistics of a batch are those of all its positions, and known to be; so is the largest of all elements, a scale.
static bool of_whole_batch(const Graph *graph, const Node *node) {
  const bool extreme = node->op == OP_REDUCE_MAX || node->op == OP_REDUCE_MIN;
  if (extreme && graph_shape(graph, node->first_result).count == 0) {
    return true;
  }
  return node->scope >= 0 && strcmp(graph->scopes.at[node->scope].function, "batch_norm") == 0;
}

// A condition on positions, numbers of positions alone that are cut off, or the data's mask: it may have left out those
// that are not to be seen.
static bool is_mask(Graph *graph, const Node *node) {
  const bool cut = node->op == OP_MAX || node->op == OP_MIN;
  const bool *nodes = op_compares(node->op) || cut ? lint_nodes_of(graph, node->first_result) : NULL;
  bool positions = false, others = false;
  for (int i = 0; nodes && i < graph->nodes.count; i++) {
    const Op op = graph_node(graph, i)->op;
    positions |= nodes[i] && op == OP_POSITION;
    others |= nodes[i] && (op == OP_INPUT || op == OP_PARAM || op == OP_STATE);
  }
  return (positions && !(cut && others)) || (node->op == OP_INPUT && strcmp(node->text, "mask") == 0);
}

// What attention has inside is no mask of its results.
static bool shows_masks(const Node *node) {
  return node->op != OP_COMPOSITE;
}

typedef struct {
  Graph *graph;
  const Node *tokens;
  Shape places;  // axes of the tokens, and those that they are called by elsewhere, as `key` in x[seq -> key]
} Text;

static bool is_batch(const Graph *graph, AxisId axis) {
  return strcmp(graph->axes.at[axis].name, "batch") == 0;
}

// Also axes that are renamed to; with some, others are renamed to from these.
static void add_renamed(Text *text) {
  for (int before = -1; before != text->places.count;) {
    before = text->places.count;
    for (int i = 0; i < text->graph->nodes.count; i++) {
      const Node *node = graph_node(text->graph, i);
      if (node->op == OP_RENAME && shape_has(&text->places, node->axis) && !is_batch(text->graph, node->axis)) {
        const Shape other = shape_of(node->axis2);
        text->places = shape_union(text->places, &other);
      }
    }
  }
}

static bool is_along(const Text *text, const Shape *axes) {
  for (int i = 0; i < axes->count; i++) {
    if (shape_has(&text->places, axes->axis[i]) && !is_batch(text->graph, axes->axis[i])) {
      return true;
    }
  }
  return false;
}

// A softmax and what it weighs are attention, of which more is known (compiler/rewrite/attention_warnings.c).
static bool is_of_attention(const Graph *graph, const Node *node) {
  bool found = node->scope >= 0 && strcmp(graph->scopes.at[node->scope].function, "softmax") == 0;
  for (int i = 0; i < node->operand_count && node->op == OP_DOT; i++) {
    const Node *shares = graph_producer(graph, node->operands[i]);
    found |= shares && graph_shares(graph, shares);
  }
  return found;
}

static bool hangs_on(const Text *text, const Node *node) {
  for (int i = 0; i < node->operand_count; i++) {
    const bool *inside = lint_nodes_of(text->graph, node->operands[i]);
    for (int j = 0; j < text->graph->nodes.count; j++) {
      if (inside[j] && graph_node(text->graph, j) == text->tokens) {
        return true;
      }
    }
  }
  return false;
}

const Node *lint_reduces_text(Graph *graph, const Node *tokens, const bool *nodes, bool any) {
  Text text = {graph, tokens, graph_shape(graph, tokens->first_result)};
  if (any) {
    add_renamed(&text);
  }
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    const bool reduces = op_reduction(node->op) || (any && node->op == OP_DOT);
    if (!nodes[i] || !reduces || of_whole_batch(graph, node) || !is_along(&text, &node->axes) ||
        (any && is_of_attention(graph, node)) || !hangs_on(&text, node)) {
      continue;
    }
    bool masked = false;
    for (int j = 0; j < node->operand_count; j++) {
      masked |= lint_finds(graph, node->operands[j], is_mask, shows_masks);
    }
    if (!masked) {
      return node;
    }
  }
  return NULL;
}
