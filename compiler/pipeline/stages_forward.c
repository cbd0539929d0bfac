// stages_forward.c: where every operation of the forward is done. See stages.h.
#include "compiler/pipeline/stages_place.h"

// Of every value the one node of the forward that reads it, in whatever form, or -1 if there is not one alone.
static void find_readers_alone(Placing *p) {
  enum { NOTHING_YET = -2 };
  for (int i = 0; i < p->graph->values.count; i++) {
    p->reader[i] = NOTHING_YET;
  }
  for (int i = 0; i < p->order.count && i < p->updates; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    const Region *body = node->op == OP_MICROBATCH ? &p->graph->regions.at[node->region] : NULL;
    for (int j = 0; body && j < body->results.count; j++) {
      p->reader[placing_carried(p, body->results.at[j])] = -1;
    }
    for (int j = 0; j < node->operand_count && !node->backward && !placing_carries(node); j++) {
      NodeId *reader = &p->reader[placing_carried(p, node->operands[j])];
      *reader = *reader == NOTHING_YET ? p->order.at[i] : -1;
    }
  }
}

// Is it part of a longer sum that has terms that wait for their readers? In which order a sum is added up may change
// when it is sharded; so such terms are where the whole sum is, whatever they are added to first.
static bool is_partial_sum(const Placing *p, const Node *node) {
  bool waits = false;
  for (int i = 0; i < node->operand_count; i++) {
    waits |= p->at[placing_carried(p, node->operands[i])] == PLACING_PENDING;
  }
  const NodeId id = node->op == OP_ADD && waits ? p->reader[node->first_result] : -1;
  const Node *reader = id >= 0 ? graph_node(p->graph, id) : NULL;
  return reader && reader->op == OP_ADD && placing_natural(p, reader->scope) < 0;
}

static int latest_operand(const Placing *p, const Node *node) {
  int stage = STAGE_ANY;
  for (int i = 0; i < node->operand_count; i++) {
    ValueId operand = placing_carried(p, node->operands[i]);
    int at = p->at[operand] == PLACING_PENDING ? p->latest[operand] : p->at[operand];
    stage = at > stage ? at : stage;
  }
  return stage;
}

// Where the parameters that it reads were placed before the graph was sharded: their gradients are packed there.
static int home_of_operands(const Placing *p, const Node *node) {
  int home = STAGE_ANY;
  for (int i = 0; i < node->operand_count; i++) {
    const int tensor = p->steady[node->operands[i]] ? placing_tensor(p, node->operands[i]) : -1;
    const int at = tensor >= 0 ? p->graph->persistent.at[tensor].home - 1 : STAGE_ANY;
    home = at > home ? at : home;
  }
  return home;
}

// Of what hangs on iterations and stands in none of them.
static int stage_behind_layers(const Placing *p, const Node *node) {
  const int stage = latest_operand(p, node), home = home_of_operands(p, node);
  return home > stage ? home : stage;
}

// Is it another form of a value that is made in the microbatches?
static bool is_view(const Placing *p, const Node *node) {
  return node->operand_count == 1 && op_same(node->op) && !p->steady[node->operands[0]] && p->bound[node->operands[0]];
}

// What waits for its readers and has none.
static int unread_stage(const Placing *p, const Node *node) {
  int stage = placing_carries(node) ? p->at[placing_carried(p, node->operands[0])] : STAGE_ANY;
  return stage >= 0 ? stage : 0;
}

// Does a node read nothing that iterations have of their own? In an iteration it stands because one of a later repeat
// that is equal was merged with it (simplify.c); it may be done as early as any reader.
static bool is_free(const Placing *p, const Node *node, const bool *free) {
  bool own = op_leaf(node->op);  // what is stored, above all
  for (int i = 0; i < node->operand_count && !own; i++) {
    const ValueId value = placing_carried(p, node->operands[i]);
    const Node *maker = graph_producer(p->graph, value);
    const int tensor = p->steady[value] ? placing_tensor(p, value) : -1;
    const ScopeId scope = tensor >= 0 ? p->graph->persistent.at[tensor].scope : maker ? maker->scope : -1;
    const int of = scope >= 0 ? stages_iteration(p->graph, p->spec, scope) : -1;
    own = p->bound[value] && (of >= 0 || p->layered[value]) && !free[value];
  }
  return !own;
}

void placing_forward(Placing *p) {
  int *earliest = ARENA_ARRAY(p->arena, int, p->graph->values.count + 1);
  bool *free = ARENA_ARRAY(p->arena, bool, p->graph->values.count + 1);
  find_readers_alone(p);
  for (int i = 0; i < p->order.count && i < p->updates; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    if (!placing_placed(p, node) || node->backward || node->op == OP_PACK) {
      continue;
    }
    int natural = placing_natural(p, node->scope);
    bool layered = p->layered[node->first_result] && !placing_carries(node),
         partial = layered && is_partial_sum(p, node);
    for (int j = 0; j < node->result_count; j++) {
      free[node->first_result + j] = is_free(p, node, free);
    }
    p->latest[node->first_result] = partial ? latest_operand(p, node) : STAGE_ANY;
    placing_put(p, p->order.at[i],
                placing_carries(node) ? PLACING_PENDING
                : natural >= 0        ? natural
                : layered && !partial ? stage_behind_layers(p, node)
                                      : PLACING_PENDING);
  }
  for (int i = 0; i < p->graph->values.count; i++) {
    earliest[i] = INT32_MAX;
  }
  for (int i = p->order.count - 1; i >= 0; i--) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    int *stage = &p->stages->node[p->order.at[i]];
    int first = INT32_MAX;
    for (int j = 0; j < node->result_count; j++) {
      int used = earliest[node->first_result + j];
      first = used < first ? used : first;
    }
    if (*stage == PLACING_PENDING && first == INT32_MAX && is_view(p, node)) {
      continue;
    }
    if (*stage == PLACING_PENDING) {
      placing_put(p, p->order.at[i], first < INT32_MAX ? first : unread_stage(p, node));
    } else if (first < *stage && free[node->first_result]) {
      placing_put(p, p->order.at[i], first);
    }
    for (int j = 0; *stage >= 0 && j < node->operand_count; j++) {
      int *early = &earliest[node->operands[j]];
      *early = *stage < *early ? *stage : *early;
    }
  }
  for (int i = 0; i < p->order.count && i < p->updates; i++) {  // what the backward alone reads is where it is made of
    const Node *node = graph_node(p->graph, p->order.at[i]);
    if (p->stages->node[p->order.at[i]] == PLACING_PENDING) {
      const int at = p->at[node->operands[0]];
      placing_put(p, p->order.at[i], at >= 0 ? at : 0);
    }
  }
}

void placing_forward_homes(Placing *p) {
  for (int i = 0; i < p->order.count && i < p->updates; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    const int stage = p->stages->node[p->order.at[i]];
    if (stage < 0 || node->backward || placing_natural(p, node->scope) >= 0) {
      continue;
    }
    int least = home_of_operands(p, node);
    for (int j = 0; j < node->operand_count; j++) {
      least = p->at[node->operands[j]] > least ? p->at[node->operands[j]] : least;
    }
    if (least > stage) {
      placing_put(p, p->order.at[i], least);
    }
  }
}

bool placing_flows(const Placing *p) {
  for (int i = 0; i < p->order.count && i < p->updates; i++) {
    const Node *node = graph_node(p->graph, p->order.at[i]);
    for (int j = 0; j < node->operand_count && placing_placed(p, node) && p->in_body[p->order.at[i]]; j++) {
      if (node->backward || p->at[node->operands[j]] <= p->at[node->first_result]) {
        continue;
      }
      Diag *diag = p->graph->diag;
      Diagnostic *error = diag_error(diag, E043, node->span, "the pipeline would have to run backwards here");
      diag_label(diag, error, "this is needed on an earlier stage than the one that makes it");
      Name name = graph_value(p->graph, node->operands[j])->name;
      diag_help(diag, error, "'%s' depends on a later iteration of '%s'; do not cut that axis into stages",
                name ? name : "it", p->spec->pipeline.axis);
      return false;
    }
  }
  return true;
}
