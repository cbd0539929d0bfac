// fuse.c: one GEMM for dots that share an operand, one kernel for each group of elementwise operations.
//
// Needs a step whose recomputation is settled; from here on elementwise operations and reductions stand in groups,
// and nodes are in the order in which they run: what a group needs runs just before it, a group just before the first
// operation that needs it. A group that makes little of much, such as the gradient of a bias, runs where it stands:
// what it reads would stay in memory until something needs the little.
#include <string.h>

#include "compiler/fuse/fuse.h"

void fuse_tables(Fuser *f) {
  size_t values = (size_t)(f->graph->values.count * 2 + 64), nodes = (size_t)(f->graph->nodes.count * 2 + 64);
  f->replace = arena_alloc(f->c->arena, sizeof(ValueId) * values);
  memset(f->replace, -1, sizeof(ValueId) * values);
  f->gone = arena_alloc(f->c->arena, sizeof(bool) * nodes);
}

typedef struct {
  Fuser *f;
  Grouping grouping;
  const GroupInfo *info;
  ValueList *members;   // by group: node ids, in order
  bool *emitted;        // by node
  bool *group_emitted;  // by group
  NodeId *reader;       // lists of the nodes that read a value
  int *next_reader, *first_reader;
  NodeList *assigns;  // by group: those of what it makes, in order
  NodeId *before;     // by node that receives: the message from or to another stage ahead of it, or -1
  int depth;          // how many nodes there were when groups were made
} Emitter;

static void emit(Emitter *o, NodeId id);

static void emit_operands(Emitter *o, const Node *node, int group) {
  for (int i = 0; i < node->operand_count; i++) {
    NodeId maker = graph_value(o->f->graph, node->operands[i])->node;
    if (maker >= 0 && !(group >= 0 && o->grouping.group[maker] == group)) {
      emit(o, maker);
    }
  }
}

static ValueId map_operand(Map *map, ValueId value) {
  return (ValueId)map_get_or(map, (uint64_t)value, value);
}

// Constants and positions are made inside each kernel that uses them.
static void copy_free_operands(Emitter *o, const Node *node, Map *map) {
  Graph *graph = o->f->graph;
  for (int i = 0; i < node->operand_count; i++) {
    const Node *maker = graph_producer(graph, node->operands[i]);
    int64_t known;
    if (maker && op_free(maker->op) && !map_get(map, (uint64_t)node->operands[i], &known)) {
      ValueId value = node->operands[i];
      NodeId copy = graph_clone(graph, graph_value(graph, value)->node, NULL);
      map_put(map, (uint64_t)value, graph_node(graph, copy)->first_result);
    }
  }
}

// The attributes of a group node: axes is its space; integer has a bit for each of them that is an inner one, and
// bit 32 if a reduction over the inner ones is used inside.
static NodeInit group_attributes(const GroupInfo *info, RegionId region) {
  NodeInit init = {NODE_INIT, .region = region, .axes = info->space};
  for (int i = 0; i < info->space.count && info->inner_known; i++) {
    init.integer |= (int64_t)shape_has(&info->inner, info->space.axis[i]) << i;
  }
  init.integer |= (int64_t)info->row_reductions << 32;
  return init;
}

static void emit_group(Emitter *o, int group) {
  Fuser *f = o->f;
  Graph *graph = f->graph;
  if (o->group_emitted[group]) {
    return;
  }
  o->group_emitted[group] = true;
  const ValueList members = o->members[group];
  for (int i = 0; i < members.count; i++) {
    emit_operands(o, graph_node(graph, members.at[i]), group);
  }
  RegionId inner = graph_region(graph);
  graph->region = inner;
  Map map = map_create(f->c->arena);
  for (int i = 0; i < members.count; i++) {
    copy_free_operands(o, graph_node(graph, members.at[i]), &map);
    Node *node = graph_node(graph, members.at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      node->operands[j] = map_operand(&map, node->operands[j]);
    }
    array_push(graph->arena, &graph->regions.at[inner].nodes, members.at[i]);
  }
  ValueList results = {0};
  for (int i = 0; i < members.count; i++) {
    ValueId value = graph_node(graph, members.at[i])->first_result;
    if (f->uses[value]) {
      array_push(graph->arena, &results, value);
    }
  }
  graph->regions.at[inner].results = results;
  const Node last = *graph_node(graph, members.at[members.count - 1]);
  graph->region = f->region;
  graph->span = last.span;
  graph->scope = last.scope;
  graph->backward = last.backward;
  ValueId first = graph_add(graph, OP_GROUP, group_attributes(&o->info[group], inner), NULL, 0);
  for (int i = 0; i < results.count; i++) {
    f->replace[results.at[i]] = first + i;
    graph_value(graph, first + i)->span = graph_value(graph, results.at[i])->span;
  }
}

// Everything else that reads what an assignment overwrites runs before the kernel that writes the new value.
static void emit_readers(Emitter *o, ValueId value, int writer) {
  const Graph *graph = o->f->graph;
  for (int at = o->first_reader[value]; at >= 0; at = o->next_reader[at]) {
    NodeId id = o->reader[at];
    const Node *node = graph_node(graph, id);
    if (op_view(node->op) || (node->op == OP_PACK && o->grouping.group[id] < 0)) {
      emit_readers(o, node->first_result, writer);
    } else if (node->op != OP_ASSIGN && (writer < 0 || o->grouping.group[id] != writer)) {
      emit(o, id);
    }
  }
}

static void emit_readers_of_target(Emitter *o, const Node *assign, int writer) {
  const ValueId value = assign->operands[0];
  const Node *target = graph_producer(o->f->graph, value);
  emit_readers(o, value, writer);
  for (int i = 0; target->op == OP_PACK && i < target->operand_count; i++) {
    emit_readers(o, target->operands[i], writer);
    target = graph_producer(o->f->graph, value);
  }
}

// A kernel may write the new values of several assignments.
static void emit_before_assign(Emitter *o, NodeId id) {
  const Graph *graph = o->f->graph;
  NodeId maker = graph_value(graph, graph_node(graph, id)->operands[1])->node;
  int writer = maker >= 0 ? o->grouping.group[maker] : -1;
  emit_readers_of_target(o, graph_node(graph, id), writer);
  for (int i = 0; writer >= 0 && i < o->assigns[writer].count; i++) {
    if (o->assigns[writer].at[i] != id) {
      emit_readers_of_target(o, graph_node(graph, o->assigns[writer].at[i]), writer);
    }
  }
}

static void list_assigns(Emitter *o) {
  const Graph *graph = o->f->graph;
  o->assigns = ARENA_ARRAY(o->f->c->arena, NodeList, o->grouping.count + 1);
  for (int i = 0; i < o->f->nodes.count; i++) {
    const NodeId id = o->f->nodes.at[i];
    const Node *node = graph_node(graph, id);
    const NodeId maker = node->op == OP_ASSIGN ? graph_value(graph, node->operands[1])->node : -1;
    if (maker >= 0 && o->grouping.group[maker] >= 0) {
      array_push(o->f->c->arena, &o->assigns[o->grouping.group[maker]], id);
    }
  }
}

static void list_readers(Emitter *o) {
  Fuser *f = o->f;
  int total = 0, at = 0;
  for (int i = 0; i < f->nodes.count; i++) {
    total += graph_node(f->graph, f->nodes.at[i])->operand_count;
  }
  o->reader = ARENA_ARRAY(f->c->arena, NodeId, total + 1);
  o->next_reader = ARENA_ARRAY(f->c->arena, int, total + 1);
  o->first_reader = ARENA_ARRAY(f->c->arena, int, f->graph->values.count + 1);
  memset(o->first_reader, -1, sizeof(int) * (size_t)f->graph->values.count);
  for (int i = 0; i < f->nodes.count; i++) {
    const Node *node = graph_node(f->graph, f->nodes.at[i]);
    for (int j = 0; j < node->operand_count; j++, at++) {
      o->reader[at] = f->nodes.at[i];
      o->next_reader[at] = o->first_reader[node->operands[j]];
      o->first_reader[node->operands[j]] = at;
    }
  }
}

static void emit(Emitter *o, NodeId id) {
  Graph *graph = o->f->graph;
  const Node *node = graph_node(graph, id);
  if (o->emitted[id] || id >= o->depth) {
    return;
  }
  o->emitted[id] = true;
  if (o->grouping.group[id] >= 0) {
    emit_group(o, o->grouping.group[id]);
    return;
  }
  if (node->op == OP_ASSIGN) {
    emit_before_assign(o, id);
    node = graph_node(graph, id);
  }
  if (op_message(node->op) && o->before[id] >= 0) {  // what comes may depend on what was sent before
    emit(o, o->before[id]);
    node = graph_node(graph, id);
  }
  emit_operands(o, node, -1);
  node = graph_node(graph, id);
  if (!op_free(node->op)) {
    array_push(graph->arena, &graph->regions.at[o->f->region].nodes, id);
  }
}

// For each value made in a group: is it used outside?
static void count_outer_uses(Emitter *o) {
  Fuser *f = o->f;
  Graph *graph = f->graph;
  f->uses = ARENA_ARRAY(f->c->arena, int, graph->values.count + 1);
  for (int i = 0; i < f->nodes.count; i++) {
    const Node *node = graph_node(graph, f->nodes.at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      NodeId maker = graph_value(graph, node->operands[j])->node;
      bool same =
          maker >= 0 && o->grouping.group[maker] >= 0 && o->grouping.group[maker] == o->grouping.group[f->nodes.at[i]];
      f->uses[node->operands[j]] += !same;
    }
  }
  const ValueList *results = &graph->regions.at[f->region].results;
  for (int i = 0; i < results->count; i++) {
    f->uses[results->at[i]]++;
  }
}

// A constant that is an operand of something that is not fused (a dot, a put) must be in memory: it gets a group.
static void materialise_free(Fuser *f) {
  Graph *graph = f->graph;
  NodeList out = {0};
  for (int i = 0; i < f->nodes.count; i++) {
    NodeId id = f->nodes.at[i];
    for (int j = 0; !op_fusable(graph_node(graph, id)->op) && j < graph_node(graph, id)->operand_count; j++) {
      ValueId operand = graph_node(graph, id)->operands[j];
      const Node *maker = graph_producer(graph, operand);
      if (maker && op_free(maker->op)) {
        Shape shape = graph_shape(graph, operand);
        ValueId copy = graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = shape}, operand);
        graph_node(graph, id)->operands[j] = copy;
        array_push(graph->arena, &out, graph_value(graph, copy)->node);
      }
    }
    array_push(graph->arena, &out, id);
  }
  ValueList *results = &graph->regions.at[f->region].results;
  for (int i = 0; i < results->count; i++) {
    const Node *maker = graph_producer(graph, results->at[i]);
    if (maker && op_free(maker->op)) {
      Shape shape = graph_shape(graph, results->at[i]);
      results->at[i] = graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = shape}, results->at[i]);
      array_push(graph->arena, &out, graph_value(graph, results->at[i])->node);
    }
  }
  f->nodes = out;
}

// A value in one place of a new axis, with zeros in the others: chosen by position, for kernels to make with what it is
// added to. Filters of few taps have a gradient for each.
static ValueId placed(Fuser *f, const Node *pad, NodeList *out) {
  Graph *graph = f->graph;
  const ElementType real = graph->real;
  graph_follow(graph, pad);
  const ValueId at = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = pad->axis2});
  const ValueId place = graph_integer(graph, pad->integer), here = graph_op2(graph, OP_EQUAL, at, place);
  graph->real = graph_value(graph, pad->first_result)->type;
  const ValueId zero = graph_real(graph, 0), made = graph_op3(graph, OP_WHERE, here, pad->operands[0], zero);
  graph->real = real;
  graph_value(graph, made)->name = graph_value(graph, pad->first_result)->name;
  graph_value(graph, made)->sharding = graph_value(graph, pad->first_result)->sharding;
  const ValueId all[] = {at, place, here, zero, made};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    array_push(graph->arena, out, graph_value(graph, all[i])->node);
  }
  return made;
}

static void place_in_kernels(Fuser *f) {
  Graph *graph = f->graph;
  const GraphPlace before = graph_place(graph);
  const int count = graph->values.count;
  ValueId *instead = ARENA_ARRAY(f->c->arena, ValueId, count + 1);
  NodeList out = {0};
  for (int i = 0; i < f->nodes.count; i++) {
    const NodeId id = f->nodes.at[i];
    for (int j = 0; j < graph_node(graph, id)->operand_count; j++) {
      const ValueId operand = graph_node(graph, id)->operands[j];
      graph_node(graph, id)->operands[j] = instead[operand] > 0 ? instead[operand] : operand;
    }
    const Node node = *graph_node(graph, id);
    if (node.op == OP_PAD && node.axis < 0 && element_type_floating(graph_value(graph, node.first_result)->type)) {
      instead[node.first_result] = placed(f, &node, &out);
    } else {
      array_push(graph->arena, &out, id);
    }
  }
  ValueList *results = &graph->regions.at[f->region].results;
  for (int i = 0; i < results->count; i++) {
    results->at[i] = instead[results->at[i]] > 0 ? instead[results->at[i]] : results->at[i];
  }
  graph_return(graph, before);
  f->nodes = out;
}

// What the backward reads of a value of the forward in blocks of 8 bits is made with that value, or it would be kept
// instead. With one scale for all of it the kernel that rounds it for the forward does both.
static bool kept_in_blocks(const Graph *graph, const Node *node) {
  return node->op == OP_QUANTISE && !node->backward && !node->recomputed &&
         graph_shape(graph, node->operands[1]).count > 0 &&
         graph_value(graph, node->first_result)->role != ROLE_PARAMETER;
}

// What parameters are rounded to in front of the microbatches, where nothing waits for it, is made at once: what is
// gathered for it is needed no longer then.
static bool rounds_parameter(const Graph *graph, NodeId id) {
  const Node *node = graph_node(graph, id);
  return node->op == OP_QUANTISE && graph_value(graph, node->first_result)->role == ROLE_PARAMETER;
}

static bool multiplies(const Graph *graph, const NodeList *nodes) {
  bool any = false;
  for (int i = 0; i < nodes->count && !any; i++) {
    any = op_dots(graph_node(graph, nodes->at[i])->op);
  }
  return any;
}

static double bytes_of(const Graph *graph, ValueId value) {
  const Value *at = graph_value(graph, value);
  return (double)graph_elements(graph, at->shape) * (double)element_type_bytes(at->type);
}

// The group of a node; -1: it has none, or was made since groups are emitted.
static int group_of(const Emitter *o, NodeId id) {
  return id >= 0 && id < o->depth ? o->grouping.group[id] : -1;
}

// Is what a group leaves much smaller than the largest of the values that it reads?
static bool makes_little(const Emitter *o, int group) {
  enum { LITTLE = 16 };
  const Graph *graph = o->f->graph;
  const ValueList members = o->members[group];
  double read = 0, made = 0;
  for (int i = 0; i < members.count; i++) {
    const Node *node = graph_node(graph, members.at[i]);
    made += o->f->uses[node->first_result] ? bytes_of(graph, node->first_result) : 0;
    for (int j = 0; j < node->operand_count; j++) {
      const NodeId maker = graph_value(graph, node->operands[j])->node;
      const bool outer = maker >= 0 && group_of(o, maker) != group && !op_free(graph_node(graph, maker)->op);
      const double bytes = outer ? bytes_of(graph, node->operands[j]) : 0;
      read = bytes > read ? bytes : read;
    }
  }
  return made * LITTLE <= read;
}

static void list_messages(Emitter *o) {
  const Graph *graph = o->f->graph;
  NodeId last = -1;
  o->before = ARENA_ARRAY(o->f->c->arena, NodeId, graph->nodes.count + 1);
  for (int i = 0; i < o->f->nodes.count; i++) {
    const NodeId id = o->f->nodes.at[i];
    if (op_message(graph_node(graph, id)->op)) {
      o->before[id] = last;
      last = id;
    }
  }
}

static void make_groups(Fuser *f) {
  Graph *graph = f->graph;
  materialise_free(f);
  fuse_again(f);
  Emitter o = {.f = f, .depth = graph->nodes.count};
  GroupInfo *info;
  o.grouping = group_make(graph, f->nodes.at, f->nodes.count, &info);
  o.info = info;
  o.members = ARENA_ARRAY(f->c->arena, ValueList, o.grouping.count + 1);
  o.emitted = ARENA_ARRAY(f->c->arena, bool, graph->nodes.count + 1);
  o.group_emitted = ARENA_ARRAY(f->c->arena, bool, o.grouping.count + 1);
  bool *listed = ARENA_ARRAY(f->c->arena, bool, graph->nodes.count + 1);
  count_outer_uses(&o);
  list_readers(&o);
  list_assigns(&o);
  list_messages(&o);
  for (int i = 0; i < f->nodes.count; i++) {
    int group = o.grouping.group[f->nodes.at[i]];
    listed[f->nodes.at[i]] = true;
    if (group >= 0) {
      array_push(f->c->arena, &o.members[group], f->nodes.at[i]);
    }
  }
  for (int i = 0; i < graph->nodes.count; i++) {
    o.emitted[i] = !listed[i];  // made in another region
  }
  fuse_tables(f);
  const bool in_front = !multiplies(graph, &f->nodes);
  graph_rewrite(graph, f->region);
  for (int i = 0; i < f->nodes.count; i++) {
    const NodeId id = f->nodes.at[i];
    const Node *node = graph_node(graph, id);
    const int group = o.grouping.group[id];
    const bool whole = group >= 0 && o.members[group].at[o.members[group].count - 1] == id;
    if ((group < 0 && !op_free(node->op)) || kept_in_blocks(graph, node) ||
        (whole && (makes_little(&o, group) || (in_front && rounds_parameter(graph, id))))) {
      emit(&o, id);
    }
  }
  const ValueList results = graph->regions.at[f->region].results;
  for (int i = 0; i < results.count; i++) {
    NodeId maker = graph_value(graph, results.at[i])->node;
    if (maker >= 0) {
      emit(&o, maker);
    }
  }
}

// Outside of a group its values go by the names of the group's results.
static void rename_group_results(Fuser *f) {
  Graph *graph = f->graph;
  const NodeList *nodes = &graph->regions.at[f->region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    Node *node = graph_node(graph, nodes->at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      ValueId to = f->replace[node->operands[j]];
      node->operands[j] = to >= 0 ? to : node->operands[j];
    }
    if (node->op != OP_GROUP) {
      continue;
    }
    const Region *inner = &graph->regions.at[node->region];
    for (int k = 0; k < inner->nodes.count; k++) {
      Node *member = graph_node(graph, inner->nodes.at[k]);
      for (int j = 0; j < member->operand_count; j++) {
        ValueId operand = member->operands[j], to = f->replace[operand];
        bool inside = false;
        for (int m = 0; to >= 0 && m < inner->results.count && !inside; m++) {
          inside = inner->results.at[m] == operand;
        }
        member->operands[j] = to >= 0 && !inside ? to : operand;
      }
    }
  }
  ValueList *results = &graph->regions.at[f->region].results;
  for (int i = 0; i < results->count; i++) {
    ValueId to = f->replace[results->at[i]];
    results->at[i] = to >= 0 ? to : results->at[i];
  }
}

static void fuse_region(Compilation *c, RegionId region) {
  Graph *graph = c->graph;
  Fuser f = {.c = c, .graph = graph, .region = region};
  graph->region = region;
  f.nodes = graph->regions.at[region].nodes;
  place_in_kernels(&f);
  fuse_slices(&f);
  fuse_dots(&f);
  make_groups(&f);
  rename_group_results(&f);
}

// Inner regions first: what stands in them is made where they stand.
static void fuse_nested(Compilation *c, RegionId region) {
  const NodeList nodes = c->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes.count; i++) {
    const Node *node = graph_node(c->graph, nodes.at[i]);
    if (op_body(node->op)) {
      fuse_nested(c, node->region);
    }
  }
  fuse_region(c, region);
}

bool pass_fuse(Compilation *c) {
  Graph *graph = c->graph;
  fuse_nested(c, 0);
  graph->region = 0;
  graph->backward = false;
  graph_remove_dead(graph);
  return true;
}
