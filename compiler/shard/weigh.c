// weigh.c: how an evaluation weighs what its batches have of each output.
//
// A mean over samples comes out right in batches of any size, since windows that fill a batch twice can be taken away
// again (runtime/evaluate.c). What samples have together, as their largest, cannot: it counts by batches. A mean over
// the targets that a mask counts counts by these.
#include "compiler/shard/weigh.h"

#include <string.h>

#include "compiler/plan/numbers.h"

typedef struct {
  Compilation *c;
  Graph *graph;
  const SamplesTable *table;
} Weigh;

bool *weigh_cone(Compilation *c, ValueId value) {
  const Graph *graph = c->graph;
  const NodeList *nodes = &graph->regions.at[0].nodes;
  bool *cone = ARENA_ARRAY(c->arena, bool, graph->nodes.count + 1);
  if (graph_value(graph, value)->node >= 0) {
    cone[graph_value(graph, value)->node] = true;
  }
  for (int i = nodes->count - 1; i >= 0; i--) {
    const Node *node = graph_node(graph, nodes->at[i]);
    for (int j = 0; cone[nodes->at[i]] && j < node->operand_count; j++) {
      if (graph_producer(graph, node->operands[j])) {
        cone[graph_value(graph, node->operands[j])->node] = true;
      }
    }
  }
  return cone;
}

NodeId weigh_misfit(Compilation *c, const SamplesTable *table, ValueId value) {
  const NodeList *nodes = &c->graph->regions.at[0].nodes;
  const bool *cone = weigh_cone(c, value);
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(c->graph, nodes->at[i]);
    for (int j = 0; cone[nodes->at[i]] && j < node->result_count; j++) {
      const Samples of = samples_of(table, node->first_result + j);
      if (of.node == nodes->at[i] && (of.kind == SAMPLES_LATE || of.kind == SAMPLES_MIXED)) {
        return nodes->at[i];
      }
    }
  }
  return -1;
}

// --- which way ---

typedef struct {  // how targets that do not count come into a value
  bool counts;    // an input that says which do reaches it
  bool parts;     // and one that shares these out over the batch
  bool ratio;     // it is divided by what all samples have of such an input, or something of this kind
} Counting;

static bool is_fed(const Node *node, bool parts) {
  static const struct {
    const char *name;
    bool counts, parts;
  } fed[] = {
#define FED(name, meaning, token, counts, parts) {#name, counts, parts},
#include "compiler/plan/fed.def"
#undef FED
  };
  bool is = false;
  for (size_t k = 0; node->op == OP_INPUT && k < sizeof fed / sizeof *fed; k++) {
    is |= strcmp(node->text, fed[k].name) == 0 && (parts ? fed[k].parts : fed[k].counts);
  }
  return is;
}

// Is something of all samples?
static bool is_total(const Weigh *w, ValueId value) {
  const SamplesKind kind = samples_of(w->table, value).kind;
  return kind == SAMPLES_SUM || kind == SAMPLES_LATE || graph_shape(w->graph, value).count == 0;
}

static Counting find_counts(Weigh *w, ValueId value) {
  const NodeList *nodes = &w->graph->regions.at[0].nodes;
  const bool *cone = weigh_cone(w->c, value);
  bool *reached = ARENA_ARRAY(w->c->arena, bool, w->graph->values.count + 1);
  Counting found = {0};
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(w->graph, nodes->at[i]);
    if (!cone[nodes->at[i]]) {
      continue;
    }
    bool counts = is_fed(node, false);
    found.parts |= is_fed(node, true);
    for (int j = 0; j < node->operand_count; j++) {
      const bool of = reached[node->operands[j]];
      counts |= of;
      found.ratio |= of && !op_linear_in(node->op, j) && is_total(w, node->operands[j]);
    }
    for (int j = 0; j < node->result_count; j++) {
      reached[node->first_result + j] = counts;
    }
    found.counts |= counts;
  }
  return found;
}

// Does it matter to a value where in a batch a sample stands? So it does to one that has an element of each, to random
// numbers, and to what is computed of groups of samples, whose positions are no multiple of the batch, and not by moves
// and sums alone.
static bool knows_places(Weigh *w, ValueId value) {
  const AxisId rows = w->table->rows;
  const NodeList *nodes = &w->graph->regions.at[0].nodes;
  const bool *cone = weigh_cone(w->c, value);
  bool found = samples_of(w->table, value).kind == SAMPLES_EACH;
  for (int i = 0; i < nodes->count && rows >= 0 && !found; i++) {
    const Node *node = graph_node(w->graph, nodes->at[i]);
    for (int j = 0; cone[nodes->at[i]] && j < node->result_count; j++) {
      const Samples of = samples_of(w->table, node->first_result + j);
      const bool each = of.kind == SAMPLES_EACH && of.axis >= 0;
      const bool groups = each && w->graph->axes.at[of.axis].size % w->graph->axes.at[rows].size != 0;
      found |= each && op_draws(node->op);
      found |= groups && (!samples_alike(node) || graph_shape(w->graph, value).count > 0);
    }
  }
  return found;
}

// Without rows each sample is a batch of its own.
static PlanWeighing weighing_of(Weigh *w, ValueId value) {
  const Counting of = find_counts(w, value);
  const bool together = w->table->rows < 0 || weigh_misfit(w->c, w->table, value) >= 0 || knows_places(w, value);
  return of.parts || (of.counts && of.ratio) ? WEIGH_COUNTED
         : together                          ? WEIGH_BATCHES
         : of.counts                         ? WEIGH_ANSWERS
                                             : WEIGH_SAMPLES;
}

// --- terms ---

enum { MOST_TERMS = 256 };

typedef struct {
  ValueId sum[WEIGHINGS];  // of the terms that are weighed in this way; -1: there are none
  int count;
} Terms;

// The same whatever the data is?
static bool is_fixed(Weigh *w, ValueId value) {
  const NodeList *nodes = &w->graph->regions.at[0].nodes;
  const bool *cone = weigh_cone(w->c, value);
  bool fixed = true;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(w->graph, nodes->at[i]);
    fixed &= !cone[nodes->at[i]] || node->op != OP_INPUT || input_is_number(node->text);
  }
  return fixed;
}

static void find_terms(Weigh *w, ValueId value, Terms *terms);

// Of operand `at` alone, and then of the result, which is linear in it.
static void find_behind(Weigh *w, const Node *node, int at, Terms *terms) {
  const Node of = *node;
  find_terms(w, of.operands[at], terms);
  for (int k = 0; k < WEIGHINGS; k++) {
    const ValueId term = terms->sum[k];
    if (term >= 0) {
      terms->sum[k] = of.operand_count == 1 ? graph_op1(w->graph, of.op, term)
                      : at == 0             ? graph_op2(w->graph, of.op, term, of.operands[1])
                                            : graph_op2(w->graph, of.op, of.operands[0], term);
    }
  }
}

static void find_both(Weigh *w, const Node *node, Terms *terms) {
  const Node of = *node;
  Terms second = {.sum = {-1, -1, -1, -1}};
  find_terms(w, of.operands[0], terms);
  second.count = terms->count;
  find_terms(w, of.operands[1], &second);
  terms->count = second.count;
  for (int k = 0; k < WEIGHINGS; k++) {
    const ValueId a = terms->sum[k], b = second.sum[k];
    terms->sum[k] = b < 0             ? a
                    : a >= 0          ? graph_op2(w->graph, of.op, a, b)
                    : of.op == OP_SUB ? graph_op1(w->graph, OP_NEG, b)
                                      : b;
  }
}

static void find_terms(Weigh *w, ValueId value, Terms *terms) {
  const Node *node = graph_producer(w->graph, value);
  const bool alone = !node || graph_shape(w->graph, value).count > 0 || ++terms->count > MOST_TERMS;
  if (!alone && (node->op == OP_ADD || node->op == OP_SUB)) {
    find_both(w, node, terms);
  } else if (!alone &&
             (node->op == OP_NEG || ((node->op == OP_MUL || node->op == OP_DIV) && is_fixed(w, node->operands[1])))) {
    find_behind(w, node, 0, terms);
  } else if (!alone && node->op == OP_MUL && is_fixed(w, node->operands[0])) {
    find_behind(w, node, 1, terms);
  } else {
    terms->sum[weighing_of(w, value)] = value;
  }
}

static void weigh_output(Weigh *w, NodeId id) {
  const Node node = *graph_node(w->graph, id);
  Terms terms = {.sum = {-1, -1, -1, -1}};
  int ways = 0;
  PlanWeighing last = WEIGH_SAMPLES;
  graph_follow(w->graph, &node);
  find_terms(w, node.operands[0], &terms);
  for (int k = 0; k < WEIGHINGS; k++) {
    ways += terms.sum[k] >= 0;
    last = terms.sum[k] >= 0 ? (PlanWeighing)k : last;
  }
  graph_node(w->graph, id)->integer = last;
  for (int k = 0; ways > 1 && k < WEIGHINGS; k++) {
    if (terms.sum[k] >= 0) {
      const Name name = name_format(w->graph->names, PLAN_TERMS, node.text, plan_weighing_name((PlanWeighing)k));
      graph_add1(w->graph, OP_OUTPUT, (NodeInit){NODE_INIT, .text = name, .integer = k}, terms.sum[k]);
    }
  }
}

void weigh_outputs(Compilation *c, const SamplesTable *table) {
  Weigh w = {.c = c, .graph = c->graph, .table = table};
  const int count = c->graph->regions.at[0].nodes.count;
  for (int i = 0; i < count; i++) {
    const NodeId id = c->graph->regions.at[0].nodes.at[i];
    if (graph_node(c->graph, id)->op == OP_OUTPUT) {
      weigh_output(&w, id);
    }
  }
  graph_remove_dead(c->graph);  // terms of what is weighed in one way, which stages would send
}
