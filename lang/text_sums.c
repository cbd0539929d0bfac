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

enum {
  POSITIONS = 1,
  TOKENS = 2,
  OTHERS = 4,  // of any input, parameter, state or random number, or of what a region is given
  WAVES = 8    // sines of something
};

typedef struct {
  Graph *graph;
  const Node *tokens;
  const bool *nodes;  // of the graph: those that are looked at
  Shape places;       // axes of the tokens, and those that they are called by elsewhere, as `key` in x[seq -> key]
  unsigned *made;     // of each node: what it is made of
  ValueId *given;     // of each value: what a composite is given as this parameter of its region, or -1
} Text;

static unsigned made_of(const Text *text, ValueId value) {
  const NodeId node = graph_value(text->graph, value)->node;
  return node >= 0 ? text->made[node] : OTHERS;
}

static unsigned made_at(const Text *text, const Node *node) {
  const bool moves = node->op == OP_INPUT || node->op == OP_PARAM || node->op == OP_STATE || op_random(node->op);
  unsigned made = (node->op == OP_POSITION ? POSITIONS : 0U) | (node == text->tokens ? TOKENS : 0U) |
                  (moves ? OTHERS : 0U) | (node->op == OP_SIN || node->op == OP_COS ? WAVES : 0U);
  for (int i = 0; i < node->operand_count; i++) {
    made |= made_of(text, node->operands[i]);
  }
  const NodeList *inside = node->region >= 0 ? &text->graph->regions.at[node->region].nodes : NULL;
  for (int i = 0; inside && i < inside->count; i++) {
    made |= text->made[inside->at[i]];
  }
  return made;
}

static void find_made(Text *text) {
  Graph *graph = text->graph;
  text->made = ARENA_ARRAY(graph->arena, unsigned, graph->nodes.count + 1);
  text->given = ARENA_ARRAY(graph->arena, ValueId, graph->values.count + 1);
  for (int i = 0; i < graph->values.count; i++) {
    text->given[i] = -1;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < graph->nodes.count; i++) {
      const unsigned made = made_at(text, graph_node(graph, i));
      changed |= made != text->made[i];
      text->made[i] = made;
    }
  }
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    for (int j = 0; node->op == OP_COMPOSITE && j < node->operand_count; j++) {
      text->given[graph->regions.at[node->region].parameters.at[j]] = node->operands[j];
    }
  }
}

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

// Of these axes, positions of the text that are not among `but`.
static int count_along(const Text *text, const Shape *axes, const Shape *but) {
  int count = 0;
  for (int i = 0; i < axes->count; i++) {
    const AxisId axis = axes->axis[i];
    count += shape_has(&text->places, axis) && !is_batch(text->graph, axis) && !shape_has(but, axis);
  }
  return count;
}

// A condition on positions, numbers of positions alone that are cut off or differ from pair to pair, or the data's
// mask: it may have left out those that are not to be seen.
static bool is_mask(const Text *text, const Node *node) {
  const unsigned made = made_at(text, node);
  if ((made & POSITIONS) == 0) {
    return node->op == OP_INPUT && strcmp(node->text, "mask") == 0;
  }
  if (op_compares(node->op)) {
    return true;
  }
  const Shape shape = graph_shape(text->graph, node->first_result), none = {0};
  const bool cut = node->op == OP_MAX || node->op == OP_MIN;
  return (made & OTHERS) == 0 && (cut || ((made & WAVES) == 0 && count_along(text, &shape, &none) > 1));
}

static bool sums(const Node *node) {
  return op_reduction(node->op) || node->op == OP_DOT;
}

// What was hidden from an earlier sum over positions, as from that of attention, is no mask of what is made of it; nor
// do sines of positions hide any.
static bool ends_masks(const Text *text, const Node *node) {
  const unsigned made = made_at(text, node);
  return (made & OTHERS) != 0 ? sums(node) && is_along(text, &node->axes) : (made & WAVES) != 0;
}

// Does something that a node is computed from hide positions? Also inside of composites.
static bool is_masked(const Text *text, const Node *reduces) {
  Graph *graph = text->graph;
  bool *seen = ARENA_ARRAY(graph->arena, bool, graph->values.count + 1);
  ValueList open = {0};
  for (int i = 0; i < reduces->operand_count; i++) {
    array_push(graph->arena, &open, reduces->operands[i]);
  }
  while (open.count > 0) {
    const ValueId value = open.at[--open.count];
    const Node *node = graph_producer(graph, value);
    if (seen[value]) {
      continue;
    }
    seen[value] = true;
    if (node && is_mask(text, node)) {
      return true;
    }
    if (node && node->op == OP_COMPOSITE) {
      array_push(graph->arena, &open, graph->regions.at[node->region].results.at[value - node->first_result]);
    } else if (node && !ends_masks(text, node)) {
      for (int i = 0; i < node->operand_count; i++) {
        array_push(graph->arena, &open, node->operands[i]);
      }
    } else if (!node && text->given[value] >= 0) {
      array_push(graph->arena, &open, text->given[value]);
    }
  }
  return false;
}

static bool scales(const Node *node) {
  return node->op == OP_MUL || node->op == OP_DIV || node->op == OP_WHERE || node->op == OP_STOP ||
         node->op == OP_RENAME;
}

static bool uses(const Node *node, ValueId value) {
  bool found = false;
  for (int i = 0; i < node->operand_count; i++) {
    found |= node->operands[i] == value;
  }
  return found;
}

// Do all that read the shares of a softmax over this axis, or read them scaled, sum over it what they weigh?
static bool is_weight(const Text *text, ValueId shares, AxisId axis) {
  Graph *graph = text->graph;
  AxisId *axes =
      ARENA_ARRAY(graph->arena, AxisId, graph->values.count + 1);  // of what was reached: this one's name + 1
  ValueList open = {0};
  array_push(graph->arena, &open, shares);
  axes[shares] = axis + 1;
  for (int at = 0; at < open.count; at++) {
    const ValueId value = open.at[at];
    bool found = false;
    for (int i = 0; i < graph->nodes.count; i++) {
      const Node *node = graph_node(graph, i);
      if (!text->nodes[i] || !uses(node, value)) {
        continue;
      }
      found = true;
      const bool queries = value == shares && node->op == OP_DOT && is_along(text, &node->axes);
      if (queries || (sums(node) && shape_has(&node->axes, axes[value] - 1))) {
        continue;
      }
      if (!scales(node)) {
        return false;
      }
      if (axes[node->first_result] == 0) {
        const bool renames = node->op == OP_RENAME && node->axis == axes[value] - 1;
        axes[node->first_result] = renames ? node->axis2 + 1 : axes[value];
        array_push(graph->arena, &open, node->first_result);
      }
    }
    if (!found) {
      return false;
    }
  }
  return true;
}

// A softmax and the product that it weighs are attention, of which more is known
// (compiler/rewrite/attention_warnings.c), where there is a query. A softmax along the text that scales is not.
static bool is_of_attention(const Text *text, const Node *node) {
  const Graph *graph = text->graph;
  const bool softmax = node->scope >= 0 && strcmp(graph->scopes.at[node->scope].function, "softmax") == 0;
  bool found = false;
  for (int i = 0; softmax && i < graph->nodes.count; i++) {
    const Node *shares = graph_node(graph, i);
    const bool made = text->nodes[i] && shares->scope == node->scope && node->axes.count == 1;
    found |= made && graph_shares(graph, shares) && is_weight(text, shares->first_result, node->axes.axis[0]);
  }
  for (int i = 0; i < node->operand_count && node->op == OP_DOT; i++) {
    const Node *shares = graph_producer(graph, node->operands[i]);
    const Node *sum = shares ? graph_shares(graph, shares) : NULL;
    const Shape shape = graph_shape(graph, node->operands[i]);
    found |= sum && is_along(text, &sum->axes) && count_along(text, &shape, &node->axes) > 0;
  }
  return found;
}

static bool hangs_on_tokens(const Text *text, const Node *node) {
  unsigned made = 0;
  for (int i = 0; i < node->operand_count; i++) {
    made |= made_of(text, node->operands[i]);
  }
  return (made & TOKENS) != 0;
}

const Node *lint_reduces_text(Graph *graph, const Node *tokens, const bool *nodes, bool any) {
  Text text = {.graph = graph, .tokens = tokens, .nodes = nodes, .places = graph_shape(graph, tokens->first_result)};
  if (any) {
    add_renamed(&text);
  }
  find_made(&text);
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    const bool reduces = op_reduction(node->op) || (any && node->op == OP_DOT);
    if (nodes[i] && reduces && !of_whole_batch(graph, node) && is_along(&text, &node->axes) &&
        !(any && is_of_attention(&text, node)) && hangs_on_tokens(&text, node) && !is_masked(&text, node)) {
      return node;
    }
  }
  return NULL;
}
