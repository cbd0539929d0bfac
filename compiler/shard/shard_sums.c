// shard_sums.c: sums of several values, of which some are partial: those that are partial over the same ranks are added
// first, so that as few collectives as can be are made of them.
#include "compiler/shard/shard.h"

// The outermost repeat around, as one iteration of it.
static ScopeId iteration_of(const Graph *graph, ScopeId scope) {
  ScopeId iteration = -1;
  for (; scope >= 0; scope = graph->scopes.at[scope].parent) {
    iteration = graph->scopes.at[scope].index >= 0 ? scope : iteration;
  }
  return iteration;
}

void shard_find_deferred(Shard *s, const NodeList *nodes) {
  Graph *graph = s->graph;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    for (int j = 0; node->op == OP_ADD && j < 2; j++) {
      ValueId value = node->operands[j];
      const Node *maker = graph_producer(graph, value);
      s->deferred[value] = maker && maker->op == OP_ADD && s->uses[value] == 1 && !graph_value(graph, value)->label &&
                           maker->backward == node->backward && same_shape(graph, value, node->first_result) &&
                           iteration_of(graph, maker->scope) == iteration_of(graph, node->scope);
    }
  }
}

static void sum_parts(Shard *s, ValueId value, ValueList *parts, NodeList *sums) {
  if (value < s->limit && s->deferred[value]) {
    const Node *node = graph_producer(s->graph, value);
    NodeId id = graph_value(s->graph, value)->node;
    sum_parts(s, node->operands[0], parts, sums);
    sum_parts(s, node->operands[1], parts, sums);
    array_push(s->graph->arena, sums, id);
  } else {
    array_push(s->graph->arena, parts, shard_stored(s, newest(s, value)));
  }
}

// a + b as a new node, partial over `passing`.
static ValueId add_two(Shard *s, ValueId a, ValueId b, uint32_t passing) {
  ValueId sum = graph_op2(s->graph, OP_ADD, a, b);
  NodeId id = graph_value(s->graph, sum)->node;
  graph_rewind(s->graph);
  shard_with(s, id, passing);
  return sum;
}

void shard_sum(Shard *s, NodeId id) {
  Graph *graph = s->graph;
  ValueList parts = {0}, groups = {0};
  NodeList sums = {0};
  uint32_t masks[32];
  sum_parts(s, graph_node(graph, id)->operands[0], &parts, &sums);
  sum_parts(s, graph_node(graph, id)->operands[1], &parts, &sums);
  uint32_t any = 0;
  for (int i = 0; i < parts.count; i++) {
    any |= shard_partial_sum(s, parts.at[i]);
  }
  if (!any || parts.count == 2) {  // as it stands
    for (int i = 0; i < sums.count; i++) {
      const Node *sum = graph_node(graph, sums.at[i]);
      for (int j = 0; j < sum->operand_count; j++) {
        ValueId operand = shard_stored(s, newest(s, sum->operands[j]));
        shard_set_operand(s, sums.at[i], j, operand);
        sum = graph_node(graph, sums.at[i]);
      }
      shard_with(s, sums.at[i], 0);
    }
    shard_with(s, id, 0);
    return;
  }
  for (int i = 0; i < parts.count; i++) {
    uint32_t mask = shard_partial_sum(s, parts.at[i]);
    int at = 0;
    while (at < groups.count && masks[at] != mask) {
      at++;
    }
    if (at == groups.count) {
      masks[at % 32] = mask;
      array_push(graph->arena, &groups, parts.at[i]);
    } else {
      bool last = groups.count == 1 && i + 1 == parts.count;
      if (last) {
        shard_set_operand(s, id, 0, groups.at[0]);
        shard_set_operand(s, id, 1, parts.at[i]);
        shard_with(s, id, mask);
        return;
      }
      groups.at[at] = add_two(s, groups.at[at], parts.at[i], mask);
    }
  }
  for (int i = 1; i + 1 < groups.count; i++) {
    groups.at[0] = add_two(s, groups.at[0], groups.at[i], 0);
  }
  shard_set_operand(s, id, 0, groups.at[0]);
  shard_set_operand(s, id, 1, groups.at[groups.count - 1]);
  shard_with(s, id, 0);
}
