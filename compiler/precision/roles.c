// roles.c: what values are for, where their own nodes do not say it: gradients of parameters, streams, choices.
#include "compiler/precision/roles.h"

#include <string.h>

#include "compiler/ir/compared.h"

// --- gradients of parameters ---

static bool passes_sums(Op op) {
  return op == OP_ADD || op == OP_NEG || op_moves(op);
}

// Updates, and what collects and shows gradients, read them; before those stand only sums and moves.
static void find_gradients(Roles *r, RegionId region) {
  const Graph *graph = r->graph;
  const NodeList *nodes = &graph->regions.at[region].nodes;
  for (int i = nodes->count - 1; i >= 0; i--) {
    const Node *node = graph_node(graph, nodes->at[i]);
    bool reads = node->op == OP_OUTPUT || node->op == OP_PACK;
    bool passes = false;
    for (int j = 0; j < node->result_count; j++) {
      reads |= graph_value(graph, node->first_result + j)->role == ROLE_UPDATE;
      passes |= r->summed[node->first_result + j] && passes_sums(node->op);
    }
    for (int j = 0; (reads || passes) && j < node->operand_count; j++) {
      ValueId operand = node->operands[j];
      r->summed[operand] |= graph_value(graph, operand)->role == ROLE_GRADIENT;
    }
    if (node->op == OP_MICROBATCH) {
      const ValueList *results = &graph->regions.at[node->region].results;
      for (int j = 0; j < node->result_count; j++) {
        bool gradient = graph_value(graph, results->at[j])->role == ROLE_GRADIENT;
        r->summed[results->at[j]] |= r->summed[node->first_result + j] && gradient;
      }
      find_gradients(r, node->region);
    }
  }
}

// --- choices ---

// Axes that an index into matrices has, and what is multiplied with them lacks: forward, since the backward has a
// gradient for each choice.
static void find_choices(Roles *r) {
  for (int i = 0; i < r->graph->nodes.count; i++) {
    const Node *node = graph_node(r->graph, i);
    if (node->op == OP_CHOSEN_DOT && !node->backward) {
      const ValueId index = node->operands[2];
      const Shape of = graph_shape(r->graph, node->operands[0]);
      const Shape more = shape_minus(graph_shape(r->graph, index), &of);
      r->choices[index] = shape_union(r->choices[index], &more);
    }
  }
}

// The axes of the choices of a product with chosen matrices, whatever it was multiplied with or added to for each.
static Shape choices_of(const Roles *r, ValueId value, int depth) {
  const Node *node = graph_producer(r->graph, value);
  Shape found = {0};
  if (node && node->op == OP_CHOSEN_DOT && node->operands[2] < r->count) {
    return r->choices[node->operands[2]];
  }
  const bool along = node && depth > 0 && (node->op == OP_MUL || node->op == OP_ADD || node->op == OP_NEG);
  for (int i = 0; along && i < node->operand_count && found.count == 0; i++) {
    found = choices_of(r, node->operands[i], depth - 1);
  }
  return found;
}

bool roles_sum_choices(const Roles *r, const Node *node) {
  enum { DEPTH = 4 };
  const Shape choices = node->op == OP_SUM ? choices_of(r, node->operands[0], DEPTH) : (Shape){0};
  return node->op == OP_SUM && node->axes.count > 0 && shape_contains(&choices, &node->axes);
}

// --- residual streams ---

// The operand of a sum, or of the sums it is made of, that has this name and the axes of the sum; -1: none.
static ValueId stream_operand(const Graph *graph, const Node *node, Name name, const Shape *shape) {
  for (int i = 0; i < node->operand_count; i++) {
    Shape of = graph_shape(graph, node->operands[i]);
    if (!shape_same_set(&of, shape)) {
      return -1;
    }
  }
  for (int i = 0; i < node->operand_count; i++) {
    ValueId value = node->operands[i];
    const Node *maker = graph_producer(graph, value);
    if (graph_value(graph, value)->name == name) {
      return value;
    }
    ValueId found = maker && maker->op == OP_ADD && !graph_value(graph, value)->name
                        ? stream_operand(graph, maker, name, shape)
                        : -1;
    if (found >= 0) {
      return found;
    }
  }
  return -1;
}

static void find_streams(Roles *r, RegionId region) {
  const Graph *graph = r->graph;
  const NodeList *nodes = &graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (node->op == OP_MICROBATCH) {
      find_streams(r, node->region);
    }
    if (node->backward || node->result_count != 1 || node->op == OP_MICROBATCH) {
      continue;
    }
    const Value *result = graph_value(graph, node->first_result);
    Shape shape = result->shape;
    ValueId before =
        node->op == OP_ADD && result->name && shape.count ? stream_operand(graph, node, result->name, &shape) : -1;
    r->stream[node->first_result] |= before >= 0 || (result->label && strcmp(result->label, "resid") == 0);
    if (before >= 0) {
      r->stream[before] = true;
    }
  }
}

bool roles_only_move(const Node *node) {
  return op_alias(node->op) || op_moves(node->op) || node->op == OP_WINDOW;
}

// What is only moved into a stream, as the product in `y = dot(a, b over i)[j -> k] @resid`, is of the stream itself:
// rounded to a narrower format on the way, it would not be what the label asks for. Nodes are visited behind all that
// reads their results.
static void find_moved(Roles *r, RegionId region, bool *moved, bool *read) {
  const Graph *graph = r->graph;
  const Region *all = &graph->regions.at[region];
  for (int i = 0; i < all->results.count; i++) {
    read[all->results.at[i]] = true;
  }
  for (int i = all->nodes.count - 1; i >= 0; i--) {
    const Node *node = graph_node(graph, all->nodes.at[i]);
    if (node->op == OP_MICROBATCH) {
      find_moved(r, node->region, moved, read);
    }
    if (node->backward) {
      continue;
    }
    for (int j = 0; j < node->result_count; j++) {
      r->stream[node->first_result + j] |= moved[node->first_result + j] && !read[node->first_result + j];
    }
    const bool moves = roles_only_move(node) && r->stream[node->first_result];
    for (int j = 0; j < node->operand_count; j++) {
      (moves ? moved : read)[node->operands[j]] = true;
    }
  }
}

Roles roles_find(Arena *arena, Graph *graph) {
  const int count = graph->values.count;
  Roles r = {.graph = graph,
             .count = count,
             .summed = ARENA_ARRAY(arena, bool, count + 1),
             .stream = ARENA_ARRAY(arena, bool, count + 1),
             .compared = graph_compared(graph),
             .choices = ARENA_ARRAY(arena, Shape, count + 1)};
  find_gradients(&r, 0);
  find_choices(&r);
  find_streams(&r, 0);
  find_moved(&r, 0, ARENA_ARRAY(arena, bool, count + 1), ARENA_ARRAY(arena, bool, count + 1));
  return r;
}
