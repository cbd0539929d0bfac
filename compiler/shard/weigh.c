// weigh.c: how an evaluation weighs what its batches have of each output.
//
// A mean over samples comes out right in batches of any size, since windows that fill a batch twice can be taken away
// again (runtime/evaluate.c). What samples have together, as their largest, cannot: it counts by batches. A mean over
// the targets that a mask counts counts by these.
#include "compiler/shard/weigh.h"

#include <string.h>

#include "compiler/ir/padding.h"
#include "compiler/plan/numbers.h"

enum {  // of a value: what it is computed from
  OF_DATA = 1,
  OF_COUNTS = 2,   // an input that says which targets count
  OF_PARTS = 4,    // one that shares these out over the batch
  OF_RATIO = 8,    // a quotient by what all samples have of such an input
  OF_MISFIT = 16,  // something behind which no mean over microbatches is the value of the batch
  OF_PLACES = 32,  // something that knows where in the batch a sample stands
  OF_GROUPS = 64   // groups of samples, whose positions are no multiple of the batch
};

enum { FIXED = WEIGHINGS, WAYS };  // what is the same whatever the data is counts in any way

typedef struct {  // the terms of a value, by how they are weighed; -1: there are none
  ValueId sum[WAYS];
} Terms;

typedef struct {
  Compilation *c;
  Graph *graph;
  const SamplesTable *table;
  uint8_t *of;  // by value: OF_
  Map terms;    // value to its place in `known`, which some are read from often
  ARRAY(Terms) known;
} Weigh;

// --- what values are computed from ---

static unsigned fed_of(const Node *node) {
  static const struct {
    const char *name;
    unsigned of;
  } fed[] = {
#define FED(name, meaning, token, counts, parts) {#name, ((counts) ? OF_COUNTS : 0) | ((parts) ? OF_PARTS : 0)},
#include "compiler/plan/fed.def"
#undef FED
  };
  unsigned of = input_is_number(node->text) ? 0 : OF_DATA;
  for (size_t k = 0; k < sizeof fed / sizeof *fed; k++) {
    of |= strcmp(node->text, fed[k].name) == 0 ? fed[k].of : 0;
  }
  return of;
}

// Is something of all samples?
static bool is_total(const Weigh *w, ValueId value) {
  const SamplesKind kind = samples_of(w->table, value).kind;
  return kind == SAMPLES_SUM || kind == SAMPLES_LATE || graph_shape(w->graph, value).count == 0;
}

static bool divides_by(const Node *node, int operand) {
  return op_padding_diverges(node->op) && operand == node->operand_count - 1;
}

// What a result has besides what its operands have. Moves and sums of groups do not care where samples stand.
static unsigned own_of(const Weigh *w, NodeId id, ValueId result) {
  const Node *node = graph_node(w->graph, id);
  const Samples samples = samples_of(w->table, result);
  const bool each = samples.kind == SAMPLES_EACH && samples.axis >= 0 && w->table->rows >= 0;
  const Axis *axes = w->graph->axes.at;
  const bool groups = each && axes[samples.axis].size % axes[w->table->rows].size != 0;
  const bool late = samples.kind == SAMPLES_LATE || samples.kind == SAMPLES_MIXED;
  return (node->op == OP_INPUT ? fed_of(node) : 0) | (samples.node == id && late ? OF_MISFIT : 0) |
         ((each && op_draws(node->op)) || (groups && !samples_alike(node)) ? OF_PLACES : 0) | (groups ? OF_GROUPS : 0);
}

static void find_all(Weigh *w) {
  const NodeList *nodes = &w->graph->regions.at[0].nodes;
  w->of = ARENA_ARRAY(w->c->arena, uint8_t, w->graph->values.count + 1);
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(w->graph, nodes->at[i]);
    unsigned of = 0;
    for (int j = 0; j < node->operand_count; j++) {
      const unsigned one = w->of[node->operands[j]];
      const bool ratio = one & OF_COUNTS && divides_by(node, j) && is_total(w, node->operands[j]);
      of |= one | (ratio ? OF_RATIO : 0);
    }
    for (int j = 0; j < node->result_count; j++) {
      w->of[node->first_result + j] = (uint8_t)(of | own_of(w, nodes->at[i], node->first_result + j));
    }
  }
}

// Without rows each sample is a batch of its own. A value that has an element of each sample knows their places, and so
// does one that is of groups and has axes.
static PlanWeighing weighing_of(const Weigh *w, ValueId value) {
  const unsigned of = w->of[value];
  const bool axes = graph_shape(w->graph, value).count > 0;
  const bool together = w->table->rows < 0 || of & (OF_MISFIT | OF_PLACES) || (axes && of & OF_GROUPS) ||
                        samples_of(w->table, value).kind == SAMPLES_EACH;
  return of & OF_PARTS || (of & OF_COUNTS && of & OF_RATIO) ? WEIGH_COUNTED
         : together                                         ? WEIGH_BATCHES
         : of & OF_COUNTS                                   ? WEIGH_ANSWERS
                                                            : WEIGH_SAMPLES;
}

// --- terms ---

static Terms terms_of(Weigh *w, ValueId value);

static bool is_fixed(const Weigh *w, ValueId value) {  // the same whatever the data is
  return !(w->of[value] & OF_DATA);
}

static Terms terms_alone(const Weigh *w, ValueId value) {
  Terms terms = {.sum = {-1, -1, -1, -1, -1}};
  terms.sum[is_fixed(w, value) ? FIXED : (int)weighing_of(w, value)] = value;
  return terms;
}

// Of operand `at` of a node that is linear in it.
static Terms terms_behind(Weigh *w, const Node *node, int at) {
  Terms terms = terms_of(w, node->operands[at]);
  graph_follow(w->graph, node);  // so that it stands in the same stage of a pipeline
  for (int k = 0; k < WAYS; k++) {
    const ValueId term = terms.sum[k];
    if (term >= 0) {
      terms.sum[k] = node->operand_count == 1 ? graph_op1(w->graph, node->op, term)
                     : at == 0                ? graph_op2(w->graph, node->op, term, node->operands[1])
                                              : graph_op2(w->graph, node->op, node->operands[0], term);
    }
  }
  return terms;
}

static Terms terms_of_both(Weigh *w, const Node *node) {
  const int first = node->op == OP_WHERE;
  Terms a = terms_of(w, node->operands[first]), b = terms_of(w, node->operands[first + 1]);
  graph_follow(w->graph, node);
  for (int k = 0; k < WAYS; k++) {
    ValueId left = a.sum[k], right = b.sum[k];
    if (left < 0 && right < 0) {
      continue;
    }
    if (node->op == OP_WHERE) {
      left = left < 0 ? graph_real(w->graph, 0) : left;
      right = right < 0 ? graph_real(w->graph, 0) : right;
      a.sum[k] = graph_op3(w->graph, OP_WHERE, node->operands[0], left, right);
    } else {
      a.sum[k] = right < 0            ? left
                 : left >= 0          ? graph_op2(w->graph, node->op, left, right)
                 : node->op == OP_SUB ? graph_op1(w->graph, OP_NEG, right)
                                      : right;
    }
  }
  return a;
}

// All that is not fixed has the axes of the result: nothing of it is repeated along others.
static bool same_axes(const Weigh *w, const Node *node, int from) {
  const Shape result = graph_shape(w->graph, node->first_result);
  bool same = true;
  for (int i = from; i < node->operand_count; i++) {
    const Shape shape = graph_shape(w->graph, node->operands[i]);
    same = same && (shape_same_set(&shape, &result) || is_fixed(w, node->operands[i]));
  }
  return same;
}

static Terms terms_made(Weigh *w, ValueId value) {
  const Node *maker = graph_producer(w->graph, value);
  if (!maker || maker->result_count != 1 || is_fixed(w, value) || samples_of(w->table, value).kind == SAMPLES_EACH) {
    return terms_alone(w, value);
  }
  const Node node = *maker;
  const bool scales = node.op == OP_MUL || node.op == OP_DIV;
  if ((node.op == OP_ADD || node.op == OP_SUB) && same_axes(w, &node, 0)) {
    return terms_of_both(w, &node);
  }
  if (node.op == OP_WHERE && is_fixed(w, node.operands[0]) && same_axes(w, &node, 1)) {
    return terms_of_both(w, &node);
  }
  if (node.op == OP_NEG || (scales && is_fixed(w, node.operands[1]))) {
    return terms_behind(w, &node, 0);
  }
  return node.op == OP_MUL && is_fixed(w, node.operands[0]) ? terms_behind(w, &node, 1) : terms_alone(w, value);
}

static Terms terms_of(Weigh *w, ValueId value) {
  int64_t at;
  if (!map_get(&w->terms, (uint64_t)value, &at)) {
    const Terms made = terms_made(w, value);
    at = w->known.count;
    array_push(w->c->arena, &w->known, made);
    map_put(&w->terms, (uint64_t)value, at);
  }
  return w->known.at[at];
}

static void weigh_output(Weigh *w, NodeId id) {
  const Node node = *graph_node(w->graph, id);
  int ways = 0;
  PlanWeighing last = WEIGH_SAMPLES;
  Terms terms = terms_of(w, node.operands[0]);
  graph_follow(w->graph, &node);
  for (int k = 0; k < WEIGHINGS; k++) {
    ways += terms.sum[k] >= 0;
    last = terms.sum[k] >= 0 ? (PlanWeighing)k : last;
  }
  graph_node(w->graph, id)->integer = last;
  if (ways > 1 && terms.sum[FIXED] >= 0) {
    terms.sum[last] = graph_op2(w->graph, OP_ADD, terms.sum[last], terms.sum[FIXED]);
  }
  for (int k = 0; ways > 1 && k < WEIGHINGS; k++) {
    if (terms.sum[k] >= 0) {
      const Name name = name_format(w->graph->names, PLAN_TERMS, node.text, plan_weighing_name((PlanWeighing)k));
      graph_add1(w->graph, OP_OUTPUT, (NodeInit){NODE_INIT, .text = name, .integer = k}, terms.sum[k]);
    }
  }
}

// Puts nodes that were added to the list behind its first `count` right behind what they read: stages of a pipeline
// send in the order of the list.
static void put_early(Weigh *w, int count) {
  NodeList *nodes = &w->graph->regions.at[0].nodes;
  const int all = nodes->count;
  int *place = ARENA_ARRAY(w->c->arena, int, w->graph->nodes.count + 1), *next = ARENA_ARRAY(w->c->arena, int, all + 1),
      *first = ARENA_ARRAY(w->c->arena, int, count + 1);
  for (int i = 0; i < count; i++) {
    place[nodes->at[i]] = i;
    first[i] = -1;
  }
  for (int i = count; i < all; i++) {
    const Node *node = graph_node(w->graph, nodes->at[i]);
    int last = 0;
    for (int j = 0; j < node->operand_count; j++) {
      const NodeId maker = graph_value(w->graph, node->operands[j])->node;
      last = maker >= 0 && place[maker] > last ? place[maker] : last;
    }
    place[nodes->at[i]] = last;
    int *end = &first[last];
    while (*end >= 0) {
      end = &next[*end];
    }
    *end = i;
    next[i] = -1;
  }
  NodeId *order = ARENA_ARRAY(w->c->arena, NodeId, all + 1);
  int made = 0;
  for (int i = 0; i < count; i++) {
    order[made++] = nodes->at[i];
    for (int k = first[i]; k >= 0; k = next[k]) {
      order[made++] = nodes->at[k];
    }
  }
  memcpy(nodes->at, order, sizeof *order * (size_t)all);
}

void weigh_outputs(Compilation *c, const SamplesTable *table) {
  Weigh w = {.c = c, .graph = c->graph, .table = table, .terms = map_create(c->arena)};
  const int count = c->graph->regions.at[0].nodes.count;
  find_all(&w);
  for (int i = 0; i < count; i++) {
    const NodeId id = c->graph->regions.at[0].nodes.at[i];
    if (graph_node(c->graph, id)->op == OP_OUTPUT) {
      weigh_output(&w, id);
    }
  }
  put_early(&w, count);
  graph_remove_dead(c->graph);  // terms of what is weighed in one way, which stages would send
}
