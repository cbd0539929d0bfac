// turned.c: warns of products of queries and keys of which only one side is turned by its positions, as `rope` does it:
// what two such make of each other depends on where each stands, and not on how far apart they are.
#include <string.h>

#include "compiler/rewrite/attention_warnings.h"

typedef struct {    // what is known of a value
  bool placed;      // computed from positions
  bool learned;     // computed from parameters
  bool wave;        // sines and cosines of positions, and what is made of them alone
  NodeId turned;    // what multiplied it by such, with no product of matrices behind that; -1: nothing
  uint64_t inputs;  // those that it is computed from, but for what it is turned by, as bits; those from the 64th on
                    // share one
} Origin;

typedef struct {
  const Graph *graph;
  Origin *of;   // each value
  bool *text;   // axes of inputs, and what is made of these
  int *key_of;  // the axis that an axis is another name for; -1: none
  int inputs;
} Turns;

static Origin united(const Turns *t, const Node *node) {
  Origin made = {.turned = -1};
  for (int i = 0; i < node->operand_count; i++) {
    const Origin *operand = &t->of[node->operands[i]];
    made.placed |= operand->placed;
    made.learned |= operand->learned;
    made.wave |= operand->wave;
    made.turned = operand->turned >= 0 ? operand->turned : made.turned;
    made.inputs |= operand->inputs;
  }
  made.wave &= !made.learned;
  return made;
}

// The operand that a product turns by the other one; or -1.
static int turned_operand(const Turns *t, const Node *node) {
  for (int i = 0; node->op == OP_MUL && i < 2; i++) {
    if (t->of[node->operands[i]].learned && t->of[node->operands[1 - i]].wave) {
      return i;
    }
  }
  return -1;
}

static Origin origin_of(Turns *t, NodeId id) {
  const Node *node = graph_node(t->graph, id);
  Origin made = united(t, node);
  const int turned = turned_operand(t, node);
  if (node->op == OP_INPUT) {
    made.inputs = (uint64_t)1 << (t->inputs < 63 ? t->inputs++ : 63);
  }
  made.placed |= node->op == OP_POSITION;
  made.learned |= op_stored(node->op);
  made.wave |= (node->op == OP_SIN || node->op == OP_COS) && made.placed && !made.learned;
  if (turned >= 0) {
    made.inputs = t->of[node->operands[turned]].inputs;
    made.turned = id;
  } else if (op_dots(node->op) || op_chosen(node->op) || op_reduction(node->op) || op_region(node->op)) {
    made.turned = -1;
  }
  return made;
}

static void note_axes(Turns *t, const Node *node) {
  const Shape shape = node->op == OP_INPUT ? graph_shape(t->graph, node->first_result) : node->axes;
  for (int i = 0; node->op == OP_INPUT && i < shape.count; i++) {
    t->text[shape.axis[i]] = true;
  }
  for (int i = 0; node->op == OP_SPLIT && i < shape.count; i++) {
    t->text[shape.axis[i]] |= t->text[node->axis];
  }
  if (node->op == OP_RENAME) {
    t->text[node->axis2] |= t->text[node->axis];
    t->key_of[node->axis2] = node->axis;
  }
}

// Do the operands meet at each pair of two positions of one text? The second is that of the keys, or they are turned.
static bool meet(const Turns *t, const Node *dot, bool *keys_first) {
  const Shape a = graph_shape(t->graph, dot->operands[0]), b = graph_shape(t->graph, dot->operands[1]);
  const Shape left = shape_minus(a, &b), right = shape_minus(b, &a);
  for (int i = 0; i < left.count; i++) {
    for (int j = 0; j < right.count; j++) {
      const AxisId x = left.axis[i], y = right.axis[j];
      *keys_first = t->key_of[x] == y;
      if ((t->key_of[y] == x || *keys_first) && t->text[x] && t->text[y]) {
        return true;
      }
    }
  }
  return false;
}

static void check_product(const Compilation *c, const Turns *t, const Node *dot) {
  const Origin *a = &t->of[dot->operands[0]], *b = &t->of[dot->operands[1]];
  bool keys_first = false;
  if ((a->turned >= 0) == (b->turned >= 0) || !a->learned || !b->learned || a->inputs != b->inputs ||
      !meet(t, dot, &keys_first)) {
    return;
  }
  const bool keys = (b->turned >= 0) != keys_first;  // that are turned
  const Node *turned = graph_node(t->graph, a->turned >= 0 ? a->turned : b->turned);
  Diagnostic *said = diag_warning(c->diag, E055, asked_for(t->graph, dot),
                                  "the %s of this attention are turned by their positions, and its %s are not",
                                  keys ? "keys" : "queries", keys ? "queries" : "keys");
  diag_label(c->diag, said, "how far apart the two are it cannot tell");
  diag_help(c->diag, said, "give both to `rope`, or neither; `allow E055;` in the recipe if that is meant");
  diag_related(c->diag, said, asked_for(t->graph, turned), "turned here");
}

void warn_turned(const Compilation *c) {
  const Graph *graph = c->graph;
  const NodeList *nodes = &graph->regions.at[0].nodes;
  Turns t = {.graph = graph,
             .of = ARENA_ARRAY(c->arena, Origin, graph->values.count + 1),
             .text = ARENA_ARRAY(c->arena, bool, graph->axes.count + 1),
             .key_of = ARENA_ARRAY(c->arena, int, graph->axes.count + 1)};
  memset(t.key_of, -1, sizeof *t.key_of * (size_t)(graph->axes.count + 1));
  for (int i = 0; c->program == PROGRAM_TRAIN && i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    const Origin made = origin_of(&t, nodes->at[i]);
    for (int j = 0; j < node->result_count; j++) {
      t.of[node->first_result + j] = made;
    }
    note_axes(&t, node);
    if (node->op == OP_DOT) {
      check_product(c, &t, node);
    }
  }
}
