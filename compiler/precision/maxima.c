// maxima.c: the largest numbers that ranks find of several values, in one collective.
//
// Needs shapes of one rank. Products in 8 bits make a number for each value that is rounded, and histories record those
// of all ranks: hundreds of collectives of four bytes. Those of one mesh stand together as soon as the first of them
// is wanted: whichever numbers are there by then are packed, reduced at once, and read as parts of the pack.
#include <string.h>

#include "compiler/pass/compilation.h"

typedef struct {
  NodeId first;  // in front of which the pack stands
  NodeList members;
} Maxima;

typedef struct {
  Graph *graph;
  Arena *arena;
  int *place;  // by node: where it stands among those of the step
  ARRAY(Maxima) groups;
  ValueId *replace;  // by value, of those that there were
} Joiner;

static bool is_maximum(const Graph *graph, const Node *node) {
  return node->op == OP_ALL_REDUCE && node->number == 1 && graph_shape(graph, node->first_result).count == 0;
}

static bool joins(const Joiner *j, const Maxima *group, const Node *node) {
  const Node *first = graph_node(j->graph, group->first), *maker = graph_producer(j->graph, node->operands[0]);
  return maker && first->integer == node->integer &&
         graph_value(j->graph, first->first_result)->type == graph_value(j->graph, node->first_result)->type &&
         j->place[graph_value(j->graph, node->operands[0])->node] < j->place[group->first];
}

static void find_groups(Joiner *j, const NodeList *nodes) {
  for (int i = 0; i < nodes->count; i++) {
    const NodeId id = nodes->at[i];
    const Node *node = graph_node(j->graph, id);
    int at = 0;
    if (!is_maximum(j->graph, node)) {
      continue;
    }
    while (at < j->groups.count && !joins(j, &j->groups.at[at], node)) {
      at++;
    }
    if (at == j->groups.count) {
      array_push(j->arena, &j->groups, ((Maxima){.first = id}));
    }
    array_push(j->arena, &j->groups.at[at].members, id);
  }
}

static void join(Joiner *j, const Maxima *group, int number) {
  Graph *graph = j->graph;
  const Node first = *graph_node(graph, group->first);
  const int count = group->members.count;
  ValueId *operands = ARENA_ARRAY(j->arena, ValueId, count);
  for (int i = 0; i < count; i++) {
    operands[i] = graph_node(graph, group->members.at[i])->operands[0];
  }
  graph_follow(graph, &first);
  // An axis of its own: packs along one axis have the same members.
  const AxisId axis = graph_axis(graph, name_format(graph->names, "maxima.%d", number), count);
  const ValueId pack = graph_add(graph, OP_PACK, (NodeInit){NODE_INIT, .axis = axis}, operands, count);
  const NodeInit same = {NODE_INIT, .text = first.text, .integer = first.integer, .number = first.number};
  const ValueId all = graph_add1(graph, OP_ALL_REDUCE, same, pack);
  graph_producer(graph, all)->why = name_of(graph->names, "largest numbers of the step");
  graph_value(graph, pack)->name = graph_value(graph, all)->name = name_of(graph->names, "amax");
  for (int i = 0; i < count; i++) {
    const ValueId was = graph_node(graph, group->members.at[i])->first_result;
    const ValueId part = graph_add1(graph, OP_PART, (NodeInit){NODE_INIT, .axis = axis, .integer = i}, all);
    graph_value(graph, part)->name = graph_value(graph, was)->name;
    j->replace[was] = part;
  }
}

bool pass_maxima(Compilation *c) {
  Graph *graph = c->graph;
  Joiner j = {.graph = graph, .arena = c->arena, .place = ARENA_ARRAY(c->arena, int, graph->nodes.count + 1)};
  const NodeList *top = &graph->regions.at[0].nodes;
  for (int i = 0; i < top->count; i++) {
    j.place[top->at[i]] = i;
  }
  find_groups(&j, top);
  bool *joined = ARENA_ARRAY(c->arena, bool, graph->nodes.count + 1);
  int *begins = ARENA_ARRAY(c->arena, int, graph->nodes.count + 1);  // by node: 1 + the group that it is the first of
  int count = graph->values.count;
  for (int g = 0; g < j.groups.count; g++) {
    const Maxima *group = &j.groups.at[g];
    begins[group->first] = group->members.count > 1 ? g + 1 : 0;
    for (int i = 0; i < group->members.count; i++) {
      joined[group->members.at[i]] = group->members.count > 1;
    }
    count += 2 + group->members.count;
  }
  j.replace = ARENA_ARRAY(c->arena, ValueId, count + 1);
  memset(j.replace, -1, sizeof *j.replace * (size_t)count);
  const GraphPlace before = graph_place(graph);
  const NodeList old = graph_rewrite(graph, 0);
  graph->region = 0;
  for (int i = 0; i < old.count; i++) {
    const NodeId id = old.at[i];
    if (begins[id] > 0) {
      join(&j, &j.groups.at[begins[id] - 1], begins[id]);
    }
    if (!joined[id]) {
      array_push(graph->arena, &graph->regions.at[0].nodes, id);
    }
  }
  graph_replace_values(graph, j.replace);
  graph_return(graph, before);
  return true;
}
