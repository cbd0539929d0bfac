// stage_once.c: what is the same in all microbatches, and would have to be sent, is made and sent before they begin.
#include <string.h>

#include "compiler/pass/compilation.h"
#include "compiler/pipeline/stages.h"
#include "compiler/shard/shard.h"

typedef struct {
  Compilation *c;
  Graph *graph;
  bool *in_body;    // by node
  ValueId *before;  // by value: what stands for it before the microbatches, or -1
  int limit;
} Once;

static ValueId clone(Once *once, ValueId value, const ValueId *operands) {
  Graph *graph = once->graph;
  const Value at = *graph_value(graph, value);
  NodeId copy = graph_clone(graph, at.node, operands);
  if (graph_node(graph, copy)->region >= 0) {
    Map map = map_create(once->c->arena);
    RegionId region = graph_clone_region(graph, graph_node(graph, copy)->region, &map);
    graph_node(graph, copy)->region = region;
  }
  const Node *from = graph_node(graph, at.node), *made = graph_node(graph, copy);
  for (int i = 0; i < made->result_count; i++) {
    shard_hold_alike(once->c, made->first_result + i, from->first_result + i);
  }
  return made->first_result + at.result;
}

static ValueId made_before(Once *once, ValueId value) {
  NodeId maker = value < once->limit ? graph_value(once->graph, value)->node : -1;
  if (maker < 0 || !once->in_body[maker]) {
    return value;
  }
  if (once->before[value] < 0) {
    const Node node = *graph_node(once->graph, maker);
    ValueId *operands = ARENA_ARRAY(once->c->arena, ValueId, node.operand_count + 1);
    for (int i = 0; i < node.operand_count; i++) {
      operands[i] = made_before(once, node.operands[i]);
    }
    ValueId made = clone(once, value, operands);
    for (int i = 0; i < node.result_count; i++) {
      once->before[node.first_result + i] = made - graph_value(once->graph, value)->result + i;
    }
  }
  return once->before[value];
}

// What is steady is made wherever it is read; what the microbatches return of it is made on one stage.
static bool part_results(Once *once, const Stages *stages, RegionId body) {
  Graph *graph = once->graph;
  bool any = false;
  graph->region = body;
  for (int i = 0; i < graph->regions.at[body].results.count; i++) {
    ValueId value = graph->regions.at[body].results.at[i];
    if (value < once->limit && stages->needed[value] && once->in_body[graph_value(graph, value)->node]) {
      const Node node = *graph_producer(graph, value);
      ValueId made = clone(
          once, value, arena_copy(once->c->arena, node.operands, sizeof *node.operands * (size_t)node.operand_count));
      graph->regions.at[body].results.at[i] = made;
      any = true;
    }
  }
  return any;
}

static bool take_out(Once *once, const Stages *stages, RegionId body) {
  Graph *graph = once->graph;
  bool any = false;
  graph->region = 0;
  const NodeList nodes = graph->regions.at[body].nodes;
  for (int i = 0; i < nodes.count; i++) {
    const Node node = *graph_node(graph, nodes.at[i]);
    for (int j = 0; nodes.at[i] < stages->node_count && stages->once[nodes.at[i]] && j < node.result_count; j++) {
      made_before(once, node.first_result + j);
      any = true;
    }
  }
  for (int i = 0; any && i < nodes.count; i++) {
    Node *node = graph_node(graph, nodes.at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      ValueId value = node->operands[j];
      NodeId maker = value < once->limit ? graph_value(graph, value)->node : -1;
      if (maker >= 0 && maker < stages->node_count && stages->once[maker]) {
        node->operands[j] = once->before[value];
      }
    }
  }
  return any;
}

bool stage_once(Compilation *c, const Stages *stages) {
  Graph *graph = c->graph;
  const GraphPlace before = graph_place(graph);
  Once once = {.c = c, .graph = graph, .limit = graph->values.count};
  once.in_body = ARENA_ARRAY(c->arena, bool, graph->nodes.count + 1);
  once.before = ARENA_ARRAY(c->arena, ValueId, once.limit + 1);
  memset(once.before, -1, sizeof *once.before * (size_t)(once.limit + 1));
  const NodeList old = graph_rewrite(graph, 0);
  bool any = false;
  for (int i = 0; i < old.count; i++) {
    const Node *node = graph_node(graph, old.at[i]);
    if (node->op == OP_MICROBATCH) {
      RegionId body = node->region;
      for (int j = 0; j < graph->regions.at[body].nodes.count; j++) {
        once.in_body[graph->regions.at[body].nodes.at[j]] = true;
      }
      any |= part_results(&once, stages, body);
      any |= take_out(&once, stages, body);
    }
    array_push(graph->arena, &graph->regions.at[0].nodes, old.at[i]);
  }
  graph_return(graph, before);
  if (any) {
    graph_remove_dead(graph);
  }
  return any;
}
