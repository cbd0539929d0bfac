// mutants_graph.c: graphs that are wrong in one place, right after the pass that made it.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/shard/mapping.h"
#include "compiler/shard/shard.h"
#include "tests/mutants_graph.h"

// --- places ---

__attribute__((format(printf, 3, 4))) bool mutant_here(Walk *w, const char *equivalent, const char *format, ...) {
  GraphMutation *mutation = w->mutation;
  int number = w->number++;
  if (mutation->found && (!w->everywhere || w->c->stage == 0)) {
    char said[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
    const Node *node = graph_node(w->graph, w->id);
    Name name = node->result_count ? graph_value(w->graph, node->first_result)->name : node->text;
    Mutant mutant = {.kind = w->kind, .graph = true, .stage = w->everywhere ? -1 : w->c->stage, .number = number};
    mutant.program = (int)w->c->program;
    mutant.equivalent = equivalent;
    mutant.what =
        arena_format(mutation->arena, "%s, stage %d, %s '%s'%s: %s", program_kind_name(w->c->program), mutant.stage,
                     op_name(node->op), name ? name : "?", node->backward ? " (backward)" : "", said);
    array_push(mutation->arena, mutation->found, mutant);
  }
  const Mutant *wanted = mutation->wanted;
  bool is = wanted && wanted->graph && wanted->kind == w->kind && wanted->program == (int)w->c->program &&
            (wanted->stage < 0 || wanted->stage == w->c->stage) && wanted->number == number;
  w->changed |= is;
  mutation->done |= is;
  return is;
}

const Node *mutant_made_by(const Graph *graph, ValueId value, Op op) {
  const Node *node = graph_producer(graph, value);
  return node && node->op == op ? node : NULL;
}

NodeId mutant_reader(const Walk *w, ValueId value) {
  return w->uses[value] == 1 ? w->readers[value] : -1;
}

static void count_uses(Walk *w, RegionId region) {
  const Region *all = &w->graph->regions.at[region];
  for (int i = 0; i < all->nodes.count; i++) {
    const Node *node = graph_node(w->graph, all->nodes.at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      w->uses[node->operands[j]]++;
      w->readers[node->operands[j]] = all->nodes.at[i];
    }
    if (node->region >= 0) {
      count_uses(w, node->region);
    }
  }
  for (int i = 0; i < all->results.count; i++) {
    w->uses[all->results.at[i]] += 2;  // what reads it is elsewhere
  }
}

// --- changes ---

Room mutant_room(Graph *graph, RegionId region, int at, NodeId like) {
  Room room = {.place = graph_place(graph), .region = region};
  NodeList *nodes = &graph->regions.at[region].nodes;
  for (int i = at; i < nodes->count; i++) {
    array_push(graph->arena, &room.rest, nodes->at[i]);
  }
  nodes->count = at;
  graph->region = region;
  graph_follow(graph, graph_node(graph, like));
  return room;
}

void mutant_close_room(Graph *graph, const Room *room) {
  for (int i = 0; i < room->rest.count; i++) {
    array_push(graph->arena, &graph->regions.at[room->region].nodes, room->rest.at[i]);
  }
  graph_return(graph, room->place);
}

ValueId mutant_constant(Graph *graph, ValueId like, double number) {
  ElementType type = graph->real;
  graph->real = graph_value(graph, like)->type;
  ValueId made = graph_real(graph, number);
  graph->real = type;
  return made;
}

void mutant_replace(Graph *graph, ValueId from, ValueId to) {
  ValueId *replace = ARENA_ARRAY(graph->arena, ValueId, graph->values.count);
  memset(replace, -1, sizeof *replace * (size_t)graph->values.count);
  replace[from] = to;
  graph_replace_values(graph, replace);
}

void mutant_set_operand(Walk *w, int operand, ValueId value) {
  graph_node(w->graph, w->id)->operands[operand] = value;
}

void mutant_set_integer(Walk *w, int operand, int64_t number) {
  Room room = mutant_room(w->graph, w->region, w->at, w->id);
  ValueId made = graph_integer(w->graph, number);
  mutant_close_room(w->graph, &room);
  mutant_set_operand(w, operand, made);
}

// --- collectives ---

static bool alike(const Graph *graph, ValueId a, ValueId b) {
  const Value *x = graph_value(graph, a), *y = graph_value(graph, b);
  return a != b && x->type == y->type && x->bound == y->bound && shape_same_set(&x->shape, &y->shape);
}

// The last value before this node, in its region, that could be mistaken for its operand; or -1.
static ValueId mistaken(const Walk *w, ValueId value) {
  const NodeList *nodes = &w->graph->regions.at[w->region].nodes;
  for (int i = w->at - 1; i >= 0; i--) {
    const Node *node = graph_node(w->graph, nodes->at[i]);
    for (int j = 0; j < node->result_count; j++) {
      if (alike(w->graph, node->first_result + j, value)) {
        return node->first_result + j;
      }
    }
  }
  return -1;
}

static void visit_source(Walk *w) {
  const Node *node = graph_node(w->graph, w->id);
  bool moves = node->op == OP_ALL_REDUCE || node->op == OP_ALL_GATHER || node->op == OP_REDUCE_SCATTER ||
               node->op == OP_ALL_TO_ALL || node->op == OP_SHARD;
  ValueId other = moves ? mistaken(w, node->operands[0]) : -1;
  if (other >= 0) {
    const Node *maker = graph_producer(w->graph, other);
    Name name = graph_value(w->graph, other)->name;
    if (mutant_here(w, NULL, "%s '%s' for it", op_name(maker->op), name ? name : "?")) {
      mutant_set_operand(w, 0, other);
    }
  }
}

static void visit_some_axes(Walk *w) {
  const Node *node = graph_node(w->graph, w->id);
  uint64_t mesh = (uint64_t)node->integer;
  for (int m = 0; node->op == OP_ALL_REDUCE && mesh & (mesh - 1) && m < w->c->spec->mesh_count; m++) {
    bool summed = mesh >> m & 1 && w->c->spec->mesh[m].size > 1;
    if (summed && mutant_here(w, NULL, "not over %s", w->c->spec->mesh[m].name)) {
      Node *changed = graph_node(w->graph, w->id);
      changed->integer = (int64_t)(mesh & ~(1ull << m));
      changed->text = mapping_names(w->c->shard->mapping, (uint32_t)changed->integer);
      return;
    }
  }
}

static void visit_counted_again(Walk *w) {
  const Node *node = graph_node(w->graph, w->id);
  const Node *first = node->op == OP_WHERE ? mutant_made_by(w->graph, node->operands[0], OP_EQUAL) : NULL;
  if (first && mutant_made_by(w->graph, first->operands[0], OP_COORDINATE) && mutant_here(w, NULL, "on every rank")) {
    mutant_replace(w->graph, node->first_result, node->operands[1]);
  }
}

// --- stages ---

static bool same_order(const Shape *a, const Shape *b) {
  return a->count == b->count && memcmp(a->axis, b->axis, sizeof *a->axis * (size_t)a->count) == 0;
}

// The last of the additions that a value goes into and nothing else, or -1.
static NodeId sum_of(const Walk *w, ValueId value) {
  NodeId sum = -1, reader = mutant_reader(w, value);
  while (reader >= 0 && graph_node(w->graph, reader)->op == OP_ADD) {
    sum = reader;
    reader = mutant_reader(w, graph_node(w->graph, sum)->first_result);
  }
  return sum;
}

static void visit_message(Walk *w) {
  Graph *graph = w->graph;
  const NodeList *nodes = &graph->regions.at[w->region].nodes;
  Node *node = graph_node(graph, w->id);
  for (int i = w->at + 1; node->op == OP_RECEIVE && i < nodes->count; i++) {
    Node *other = graph_node(graph, nodes->at[i]);
    bool mistaken = other->op == OP_RECEIVE && alike(graph, node->first_result, other->first_result) &&
                    same_order(&node->axes, &other->axes) && node->number == other->number;
    if (!mistaken) {
      continue;
    }
    Name name = graph_value(graph, other->first_result)->name;
    bool added = sum_of(w, node->first_result) >= 0 && sum_of(w, node->first_result) == sum_of(w, other->first_result);
    if (mutant_here(w, added ? "both are added to the same sum" : NULL, "and '%s'", name ? name : "?")) {
      int64_t channel = node->integer;
      node->integer = other->integer;
      other->integer = channel;
    }
    return;
  }
}

static void remove_at(Walk *w) {
  NodeList *nodes = &w->graph->regions.at[w->region].nodes;
  memmove(nodes->at + w->at, nodes->at + w->at + 1, sizeof *nodes->at * (size_t)(nodes->count - w->at - 1));
  nodes->count--;
}

// The message goes on both sides. Places are counted by channels, which are the same on all stages.
static void visit_old_copy(Walk *w) {
  Graph *graph = w->graph;
  const Node *node = graph_node(graph, w->id);
  const GraphMutation *mutation = w->mutation;
  if (node->op == OP_SEND && mutation->wanted && mutation->wanted->kind == MUTANT_OLD_COPY &&
      mutation->wanted->program == (int)w->c->program && mutation->wanted->part == (int)node->integer) {
    remove_at(w);
    return;
  }
  const Node *received = node->op == OP_ASSIGN ? mutant_made_by(graph, node->operands[1], OP_RECEIVE) : NULL;
  if (!received || !mutant_made_by(graph, node->operands[0], OP_PARAM)) {
    return;
  }
  int known = mutation->found ? mutation->found->count : 0;
  Name parameter = graph_producer(graph, node->operands[0])->text;
  NodeId message = (NodeId)(received - graph->nodes.at);
  if (mutant_here(w, NULL, "%s stays as it was", parameter)) {
    remove_at(w);
    NodeList *nodes = &graph->regions.at[w->region].nodes;
    for (w->at = nodes->count - 1; w->at > 0 && nodes->at[w->at] != message; w->at--) {
    }
    remove_at(w);
  }
  if (mutation->found && mutation->found->count > known) {
    mutation->found->at[known].part = (int)received->integer;
  }
}

// --- microbatches ---

static double share_of(const Graph *graph) {
  return 1.0 / graph->slots;
}

static void visit_share(Walk *w) {
  const Node *node = graph_node(w->graph, w->id);
  const Node *share = node->op == OP_MUL ? mutant_made_by(w->graph, node->operands[1], OP_CONST) : NULL;
  if (w->graph->slots > 1 && share && share->number == share_of(w->graph) &&
      mutant_here(w, NULL, "1 for %g", share->number)) {
    mutant_replace(w->graph, node->first_result, node->operands[0]);
  }
}

static void visit_mean(Walk *w) {
  Graph *graph = w->graph;
  const Node *node = graph_node(graph, w->id);
  const Node *number = node->op == OP_MUL ? mutant_made_by(graph, node->operands[1], OP_CONST) : NULL;
  const Node *sum = number ? mutant_made_by(graph, node->operands[0], OP_SUM) : NULL;
  double all = 1, here_alone = 1;
  for (int i = 0; sum && i < sum->axes.count; i++) {
    all *= (double)graph->axes.at[sum->axes.axis[i]].global;
    here_alone *= (double)graph->axes.at[sum->axes.axis[i]].size;
  }
  const char *equivalent = w->c->program == PROGRAM_INITIALISE ? "first values need no loss" : NULL;
  if (sum && all > here_alone && number->number == 1 / all &&
      mutant_here(w, equivalent, "%g for %g", here_alone, all)) {
    Room room = mutant_room(graph, w->region, w->at, w->id);
    ValueId made = mutant_constant(graph, node->operands[1], 1 / here_alone);
    mutant_close_room(graph, &room);
    mutant_set_operand(w, 1, made);
  }
}

// --- updates ---

static int place_of_node(const Graph *graph, RegionId region, NodeId id) {
  const NodeList *nodes = &graph->regions.at[region].nodes;
  int at = nodes->count - 1;
  while (at >= 0 && nodes->at[at] != id) {
    at--;
  }
  return at;
}

static void visit_gradient(Walk *w) {
  Graph *graph = w->graph;
  const Node *node = graph_node(graph, w->id);
  if (node->op != OP_OUTPUT || strncmp(node->text, "gradient.", 9) != 0 || !mutant_here(w, NULL, "1%% more")) {
    return;
  }
  ValueId gradient = node->operands[0];
  NodeId maker = graph_value(graph, gradient)->node;
  Room room = mutant_room(graph, w->region, place_of_node(graph, w->region, maker) + 1, maker);
  ValueId more = graph_op2(graph, OP_MUL, gradient, mutant_constant(graph, gradient, 1.01));
  mutant_close_room(graph, &room);
  mutant_replace(graph, gradient, more);
  graph_producer(graph, more)->operands[0] = gradient;
  mutant_set_operand(w, 0, gradient);
}

// Does a pack of a program that does not train hold parameters alone? It is read where these lie, in their order; but
// stages hold what others lack.
static const char *lies_there(const Walk *w, const Node *pack) {
  bool parameters = w->c->program != PROGRAM_TRAIN && !w->c->spec->pipeline.axis;
  for (int i = 0; i < pack->operand_count; i++) {
    const Node *member = graph_producer(w->graph, pack->operands[i]);
    parameters = parameters && member && member->op == OP_PARAM;
  }
  return parameters ? "the pack is read where its parameters lie" : NULL;
}

static void visit_member(Walk *w) {
  Graph *graph = w->graph;
  Node *node = graph_node(graph, w->id);
  for (int i = 0; node->op == OP_PACK && i < node->operand_count; i++) {
    int other = i + 1;
    while (other < node->operand_count && !alike(graph, node->operands[i], node->operands[other])) {
      other++;
    }
    if (other < node->operand_count && mutant_here(w, lies_there(w, node), "members %d and %d", i, other)) {
      ValueId member = node->operands[i];
      node->operands[i] = node->operands[other];
      node->operands[other] = member;
      return;
    }
  }
}

// --- all of them ---

static const struct {
  MutantKind kind;
  const char *pass;
  bool everywhere;  // the graph is the same on all stages, and so is the mistake
  Visit *visit;
} visits[] = {
    {MUTANT_MEAN, "elaborate", true, visit_mean},
    {MUTANT_SHARE, "differentiate", true, visit_share},
    {MUTANT_GRADIENT, "differentiate", true, visit_gradient},
    {MUTANT_OTHER_MESSAGE, "stage", false, visit_message},
    {MUTANT_OLD_COPY, "stage", false, visit_old_copy},
    {MUTANT_MASK, "localise", false, visit_mask},
    {MUTANT_NEUTRAL, "localise", false, visit_neutral},
    {MUTANT_BEGIN, "localise", false, visit_begin},
    {MUTANT_SHIFT, "localise", false, visit_shift},
    {MUTANT_ZIGZAG, "localise", false, visit_zigzag},
    {MUTANT_SOURCE, "localise", false, visit_source},
    {MUTANT_SOME_AXES, "localise", false, visit_some_axes},
    {MUTANT_COUNTED_AGAIN, "localise", false, visit_counted_again},
    {MUTANT_MEMBER, "localise", false, visit_member},
};

// Composites have their meaning inside, which nothing computes.
static void walk_region(Walk *w, RegionId region, Visit *visit) {
  for (int i = 0; i < w->graph->regions.at[region].nodes.count; i++) {
    w->region = region;
    w->at = i;
    w->id = w->graph->regions.at[region].nodes.at[i];
    RegionId inner = graph_node(w->graph, w->id)->region;
    if (inner >= 0 && graph_node(w->graph, w->id)->op != OP_COMPOSITE) {
      walk_region(w, inner, visit);
      if (w->changed) {
        return;
      }
    }
    w->region = region;
    w->at = i;
    w->id = w->graph->regions.at[region].nodes.at[i];
    visit(w);
    if (w->changed) {
      return;
    }
  }
}

void graph_mutate(void *context, Compilation *c, const char *pass) {
  GraphMutation *mutation = context;
  for (size_t i = 0; i < sizeof visits / sizeof *visits; i++) {
    bool wanted = mutation->found || (mutation->wanted && mutation->wanted->kind == visits[i].kind);
    if (!wanted || strcmp(visits[i].pass, pass) != 0) {
      continue;
    }
    Walk w = {
        .mutation = mutation, .c = c, .graph = c->graph, .kind = visits[i].kind, .everywhere = visits[i].everywhere};
    w.uses = ARENA_ARRAY(c->arena, int, c->graph->values.count + 1);
    w.readers = ARENA_ARRAY(c->arena, NodeId, c->graph->values.count + 1);
    count_uses(&w, 0);
    walk_region(&w, 0, visits[i].visit);
  }
}
