// maxima.c: the largest numbers that ranks find of several values, in one collective.
//
// Needs shapes of one rank. Products in 8 bits make a number for each value that is rounded, and histories record those
// of all ranks: hundreds of collectives of four bytes. Those of one mesh stand together as soon as the first of them
// is wanted: whichever numbers are there by then are packed, reduced at once, and read as parts of the pack.
#include <string.h>

#include "compiler/pass/compilation.h"

// --- joined ---

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

// --- out of the microbatches ---

// The number that all ranks have found in a microbatch and a value of region 0 records, the largest of all
// microbatches.
typedef struct {
  NodeId kept;      // where(microbatch, all_reduce, 0)
  NodeId found;     // the all_reduce
  NodeId recorded;  // the reduce_max
} Recorded;

// Is it true at one position of its axis alone, which is another one in each microbatch?
static bool is_one_place(const Graph *graph, ValueId value, int64_t microbatches) {
  const Shape shape = graph_shape(graph, value);
  const Node *equal = graph_producer(graph, value);
  const Node *place = equal && equal->op == OP_EQUAL ? graph_producer(graph, equal->operands[0]) : NULL;
  return place && place->op == OP_POSITION && shape.count == 1 && graph->axes.at[shape.axis[0]].size == microbatches &&
         graph_shape(graph, equal->operands[1]).count == 0;
}

static bool find_recorded(const Graph *graph, NodeId id, const int *uses, Recorded *found) {
  const Node *most = graph_node(graph, id);
  const Node *all = most->op == OP_REDUCE_MAX ? graph_producer(graph, most->operands[0]) : NULL;
  if (!all || all->op != OP_MICROBATCH || uses[most->operands[0]] != 1) {
    return false;
  }
  const int result = graph_value(graph, most->operands[0])->result;
  const ValueId kept = graph_inside_segment(graph, graph->regions.at[all->region].results.at[result]);
  const Node *where = graph_producer(graph, kept);
  const Node *one = where && where->op == OP_WHERE ? graph_producer(graph, where->operands[1]) : NULL;
  const Node *none = one ? graph_producer(graph, where->operands[2]) : NULL;
  if (!one || !is_maximum(graph, one) || uses[one->first_result] != 1 || uses[kept] != 1 || !none ||
      none->op != OP_CONST || none->number != 0 || !is_one_place(graph, where->operands[0], all->integer)) {
    return false;
  }
  *found = (Recorded){graph_value(graph, kept)->node, graph_value(graph, where->operands[1])->node, id};
  return true;
}

// By value: one more than the first place among the nodes of the step that reads it; 0: none does.
static void find_readers(const Graph *graph, RegionId region, int place, int *reader) {
  const Region *at = &graph->regions.at[region];
  for (int i = 0; i < at->nodes.count; i++) {
    const Node *node = graph_node(graph, at->nodes.at[i]);
    const int here = place < 0 ? i + 1 : place;
    for (int k = 0; k < node->operand_count; k++) {
      int *first = &reader[node->operands[k]];
      *first = *first ? *first : here;
    }
    if (node->region >= 0) {
      find_readers(graph, node->region, here, reader);
    }
  }
  for (int i = 0; i < at->results.count && place >= 0; i++) {
    int *first = &reader[at->results.at[i]];
    *first = *first ? *first : place;
  }
}

// What all ranks say of a recorded number, which stands in the place of it.
static ValueId say_to_all(Graph *graph, const Recorded *recorded) {
  const Node one = *graph_node(graph, recorded->found);
  const ValueId most = graph_node(graph, recorded->recorded)->first_result;
  graph_follow(graph, graph_node(graph, recorded->recorded));
  const NodeInit same = {NODE_INIT, .text = one.text, .integer = one.integer, .number = one.number};
  const ValueId made = graph_add1(graph, OP_ALL_REDUCE, same, most);
  graph_producer(graph, made)->why = one.why;
  graph_producer(graph, made)->rule = one.rule;
  graph_value(graph, made)->name = graph_value(graph, one.first_result)->name;
  graph_node(graph, recorded->kept)->operands[1] = one.operands[0];
  return made;
}

// Together, behind the last of them; but in front of what reads one of them before that, as what sends it to the stage
// that has the history.
static void leave_microbatches(Compilation *c) {
  Graph *graph = c->graph;
  ARRAY(Recorded) all = {0};
  const NodeList old = graph->regions.at[0].nodes;
  int last = -1;
  int *uses = ARENA_ARRAY(c->arena, int, graph->values.count + 1);
  graph_count_uses(graph, 0, uses);
  for (int i = 0; i < old.count; i++) {
    Recorded found;
    if (find_recorded(graph, old.at[i], uses, &found)) {
      array_push(c->arena, &all, found);
      last = i;
    }
  }
  if (all.count == 0) {
    return;
  }
  ValueId *replace = ARENA_ARRAY(c->arena, ValueId, graph->values.count + all.count + 1);
  memset(replace, -1, sizeof *replace * (size_t)(graph->values.count + all.count));
  int *reader = ARENA_ARRAY(c->arena, int, graph->values.count + 1);
  find_readers(graph, 0, -1, reader);
  bool *early = ARENA_ARRAY(c->arena, bool, old.count + 1);  // by place: does something there read one of them?
  int *place = ARENA_ARRAY(c->arena, int, all.count);        // by number: in front of what it is said
  for (int j = 0; j < all.count; j++) {
    const int first = reader[graph_node(graph, all.at[j].recorded)->first_result];
    place[j] = first > 0 && first - 1 <= last ? first - 1 : last + 1;
    early[place[j]] = true;
  }
  const GraphPlace before = graph_place(graph);
  ValueId *made = ARENA_ARRAY(c->arena, ValueId, all.count);
  graph_rewrite(graph, 0);
  graph->region = 0;
  for (int i = 0; i <= old.count; i++) {
    for (int j = 0; early[i] && j < all.count; j++) {
      if (place[j] == i) {
        made[j] = say_to_all(graph, &all.at[j]);
        replace[graph_node(graph, all.at[j].recorded)->first_result] = made[j];
      }
    }
    if (i < old.count) {
      array_push(graph->arena, &graph->regions.at[0].nodes, old.at[i]);
    }
  }
  graph_replace_values(graph, replace);
  for (int j = 0; j < all.count; j++) {
    graph_producer(graph, made[j])->operands[0] = graph_node(graph, all.at[j].recorded)->first_result;
  }
  graph_return(graph, before);
  graph_remove_dead(graph);
}

bool pass_maxima(Compilation *c) {
  Graph *graph = c->graph;
  leave_microbatches(c);
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
