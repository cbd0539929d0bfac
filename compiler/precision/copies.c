// copies.c: copies of parameters in the format in which they are multiplied, kept beside them from step to step.
//
// Needs precision, and shapes of one rank. Where a cast of a parameter is read, its copy is read instead: a persistent
// tensor of its own that is cut and stored as the parameter is. Whoever assigns a parameter in the training step
// assigns the copy as well, from the same value: the optimizer's kernel writes both. All others that write parameters
// (first values, checkpoints) are followed by the program `refresh`, which casts every parameter into its copy.
//
// The training step says which parameters have copies; other programs read those. Parameters that one kernel updates
// have copies together, so that these lie in one arena as the parameters do. Of several training steps, under other
// scales or precisions, each writes the copies of all, whether it reads them or not.
#include <string.h>

#include "compiler/shard/shard.h"

typedef struct {
  ValueId from, to;
} Replacement;

typedef struct {
  Compilation *c;
  Graph *graph;
  Name format;
  Map copy_of;    // name of a parameter to the leaf of its copy
  Map pack_of;    // of a parameter to the node that packs it
  Map arena_of;   // that node to the pack of the copies
  NodeList made;  // leaves and packs of copies
  ARRAY(Replacement) replacements;
} Copies;

static bool packs_parameters(const Graph *graph, const Node *node) {
  for (int i = 0; node->op == OP_PACK && i < node->operand_count; i++) {
    const Node *leaf = graph_producer(graph, node->operands[i]);
    if (!leaf || leaf->op != OP_PARAM) {
      return false;
    }
  }
  return node->op == OP_PACK;
}

static void find_packs(Copies *p) {
  const NodeList *top = &p->graph->regions.at[0].nodes;
  for (int i = 0; i < top->count; i++) {
    const Node *node = graph_node(p->graph, top->at[i]);
    for (int j = 0; packs_parameters(p->graph, node) && j < node->operand_count; j++) {
      map_put(&p->pack_of, map_key(graph_producer(p->graph, node->operands[j])->text), top->at[i]);
    }
  }
}

// --- leaves and packs ---

// Moves only: the copy of what they make is made of the copy.
static bool moves(Op op) {
  return op_view(op) && op_moves(op) && op != OP_PART;
}

static bool may_copy(const Copies *p, const Node *leaf) {
  return p->c->program == PROGRAM_TRAIN || map_get_or(p->c->copied, map_key(leaf->text), 0);
}

static bool has_copy(const Copies *p, ValueId value) {
  const Node *node = graph_producer(p->graph, value);
  while (node && moves(node->op)) {
    node = graph_producer(p->graph, node->operands[0]);
  }
  if (!node || (node->op != OP_PARAM && !packs_parameters(p->graph, node))) {
    return false;
  }
  bool all = node->op == OP_PACK || may_copy(p, node);
  for (int i = 0; node->op == OP_PACK && i < node->operand_count; i++) {
    all = all && may_copy(p, graph_producer(p->graph, node->operands[i]));
  }
  return all;
}

// What is added now stands before all else.
static NodeList open_front(Copies *p, RegionId *region) {
  const NodeList outer = p->graph->regions.at[0].nodes;
  *region = p->graph->region;
  p->graph->region = 0;
  p->graph->regions.at[0].nodes = p->made;
  return outer;
}

static void close_front(Copies *p, NodeList outer, RegionId region) {
  p->made = p->graph->regions.at[0].nodes;
  p->graph->regions.at[0].nodes = outer;
  p->graph->region = region;
}

static ValueId copy_of_leaf(Copies *p, ValueId master) {
  Graph *graph = p->graph;
  const Node leaf = *graph_producer(graph, master);
  int64_t known;
  if (map_get(&p->copy_of, map_key(leaf.text), &known)) {
    return (ValueId)known;
  }
  RegionId region;
  NodeList outer = open_front(p, &region);
  Persistent made = *graph_persistent(graph, leaf.text);
  made.like = made.name;
  made.name = name_format(graph->names, "%s.%s", p->format, leaf.text);
  made.role = ROLE_COPY;
  made.type = p->c->spec->formats.dot;
  made.group = -1;
  graph->span = leaf.span;
  graph->scope = leaf.scope;
  graph->backward = false;
  graph->role = ROLE_PARAMETER;
  NodeInit init = {NODE_INIT, .text = made.name, .type = made.type, .shape = graph_shape(graph, master)};
  made.value = graph_add0(graph, OP_PARAM, init);
  graph_value(graph, made.value)->name = graph_value(graph, master)->name;
  graph_value(graph, made.value)->sharding = graph_value(graph, master)->sharding;
  graph_value(graph, made.value)->stage = graph_value(graph, master)->stage;
  array_push(graph->arena, &graph->persistent, made);
  shard_hold_alike(p->c, made.value, master);
  map_put(&p->copy_of, map_key(leaf.text), made.value);
  map_put(p->c->copied, map_key(leaf.text), 1);
  close_front(p, outer, region);
  return made.value;
}

static void keep_pair(Copies *p, ValueId master, ValueId copy) {
  array_push(p->c->arena, &p->c->copies, ((CopiedValue){master, copy}));
}

static ValueId copy_of_pack(Copies *p, NodeId pack) {
  Graph *graph = p->graph;
  const Node node = *graph_node(graph, pack);
  int64_t known;
  if (map_get(&p->arena_of, (uint64_t)pack, &known)) {
    return (ValueId)known;
  }
  ValueId *members = ARENA_ARRAY(p->c->arena, ValueId, node.operand_count);
  for (int i = 0; i < node.operand_count; i++) {
    members[i] = copy_of_leaf(p, node.operands[i]);
  }
  RegionId region;
  NodeList outer = open_front(p, &region);
  graph->span = node.span;
  graph->scope = node.scope;
  ValueId made = graph_add(graph, OP_PACK, (NodeInit){NODE_INIT, .axis = node.axis}, members, node.operand_count);
  map_put(&p->arena_of, (uint64_t)pack, made);
  shard_hold_alike(p->c, made, node.first_result);
  keep_pair(p, node.first_result, made);
  close_front(p, outer, region);
  return made;
}

// Of what has_copy; moves are made again in graph->region.
static ValueId copy_of(Copies *p, ValueId master) {
  Graph *graph = p->graph;
  const Node node = *graph_producer(graph, master);
  if (node.op == OP_PACK) {
    return copy_of_pack(p, graph_value(graph, master)->node);
  }
  if (moves(node.op)) {
    ValueId from = copy_of(p, node.operands[0]);
    ValueId made = graph_node(graph, graph_clone(graph, graph_value(graph, master)->node, &from))->first_result;
    graph_value(graph, made)->type = graph_value(graph, from)->type;
    shard_hold_alike(p->c, made, master);
    return made;
  }
  NodeId pack = (NodeId)map_get_or(&p->pack_of, map_key(node.text), -1);
  if (pack >= 0 && p->c->program == PROGRAM_TRAIN) {
    copy_of_pack(p, pack);
    return copy_of_leaf(p, master);
  }
  bool known = map_get_or(&p->copy_of, map_key(node.text), -1) >= 0;
  ValueId made = copy_of_leaf(p, master);
  if (!known) {
    keep_pair(p, master, made);
  }
  return made;
}

// --- casts and assignments ---

static void replace_casts(Copies *p, RegionId region) {
  Graph *graph = p->graph;
  const NodeList old = graph_rewrite(graph, region);
  for (int i = 0; i < old.count; i++) {
    const Node node = *graph_node(graph, old.at[i]);
    graph->region = region;
    if (node.op == OP_CAST && node.text == p->format && has_copy(p, node.operands[0])) {
      ValueId copy = copy_of(p, node.operands[0]);
      array_push(p->c->arena, &p->replacements, ((Replacement){node.first_result, copy}));
      continue;
    }
    array_push(graph->arena, &graph->regions.at[region].nodes, old.at[i]);
    if (op_body(node.op)) {
      replace_casts(p, node.region);
    }
  }
}

// What other training steps of the plan have copies of, this one has too.
static void copy_as_others(Copies *p) {
  Graph *graph = p->graph;
  const NodeList top = graph->regions.at[0].nodes;
  for (int i = 0; p->c->program == PROGRAM_TRAIN && i < top.count; i++) {
    const Node node = *graph_node(graph, top.at[i]);
    if (node.op == OP_PARAM && map_get_or(p->c->copied, map_key(node.text), 0)) {
      copy_of(p, node.first_result);
    }
  }
}

// The copy of what an assignment writes, or -1.
static ValueId copied_target(const Copies *p, ValueId target) {
  const Node *node = graph_producer(p->graph, target);
  return node->op == OP_PACK ? (ValueId)map_get_or(&p->arena_of, (uint64_t)graph_value(p->graph, target)->node, -1)
                             : (ValueId)map_get_or(&p->copy_of, map_key(node->text), -1);
}

static ValueId cast_to(Copies *p, ValueId value) {
  ValueId made = graph_add1(p->graph, OP_CAST, (NodeInit){NODE_INIT, .text = p->format}, value);
  shard_hold_alike(p->c, made, value);
  return made;
}

static void assign_copies(Copies *p) {
  Graph *graph = p->graph;
  const NodeList old = graph->regions.at[0].nodes;
  graph->region = 0;
  graph->regions.at[0].nodes = p->made;
  for (int i = 0; i < old.count; i++) {
    const Node node = *graph_node(graph, old.at[i]);
    array_push(graph->arena, &graph->regions.at[0].nodes, old.at[i]);
    ValueId copy = node.op == OP_ASSIGN ? copied_target(p, node.operands[0]) : -1;
    if (copy >= 0) {
      graph->span = node.span;
      graph->scope = node.scope;
      graph->backward = node.backward;
      graph->role = ROLE_UPDATE;
      graph_op2(graph, OP_ASSIGN, copy, cast_to(p, node.operands[1]));
    }
  }
}

static Copies copies_start(Compilation *c) {
  Copies p = {.c = c, .graph = c->graph};
  p.format = name_of(c->names, element_type_name(c->spec->formats.dot));
  p.copy_of = map_create(c->arena);
  p.pack_of = map_create(c->arena);
  p.arena_of = map_create(c->arena);
  return p;
}

bool copies_wanted(const Spec *spec) {
  return element_type_bytes(spec->formats.dot) < element_type_bytes(spec->real);
}

bool pass_copies(Compilation *c) {
  Graph *graph = c->graph;
  const GraphPlace before = graph_place(graph);
  if (!copies_wanted(c->spec)) {
    return pass_changed_nothing(c);
  }
  Copies p = copies_start(c);
  find_packs(&p);
  replace_casts(&p, 0);
  copy_as_others(&p);
  assign_copies(&p);
  ValueId *replace = ARENA_ARRAY(c->arena, ValueId, graph->values.count + 1);
  memset(replace, -1, sizeof *replace * (size_t)graph->values.count);
  for (int i = 0; i < p.replacements.count; i++) {
    replace[p.replacements.at[i].from] = p.replacements.at[i].to;
  }
  graph_replace_values(graph, replace);
  graph_remove_dead(graph);
  graph_return(graph, before);
  return true;
}

// --- the program `refresh` ---

// A leaf, or a pack and its leaves.
static void list_leaf(Graph *graph, ValueId value) {
  NodeList *nodes = &graph->regions.at[0].nodes;
  const Node *node = graph_producer(graph, value);
  for (int i = 0; node->op == OP_PACK && i < node->operand_count; i++) {
    array_push(graph->arena, nodes, graph_value(graph, node->operands[i])->node);
  }
  array_push(graph->arena, nodes, graph_value(graph, value)->node);
}

bool pass_refresh(Compilation *c) {
  Graph *graph = c->graph;
  Copies p = copies_start(c);
  graph->regions.at[0] = (Region){0};
  graph->region = 0;
  graph->role = ROLE_UPDATE;
  for (int i = 0; i < c->copies.count; i++) {
    list_leaf(graph, c->copies.at[i].master);
    list_leaf(graph, c->copies.at[i].copy);
  }
  for (int i = 0; i < c->copies.count; i++) {
    const Node master = *graph_producer(graph, c->copies.at[i].master);
    graph->span = master.span;
    graph->scope = master.scope;
    graph_op2(graph, OP_ASSIGN, c->copies.at[i].copy, cast_to(&p, c->copies.at[i].master));
  }
  return true;
}
