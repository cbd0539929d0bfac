// group.c: which elementwise operations and reductions become one kernel.
//
// One walk over the nodes in order. Every node has a level; crossing from one group to another, or through an
// operation that is not fused, raises it, and all members of a group have the same. So two groups can never need
// each other, whatever joins them. A group may move up to the level of another, to become one with it, while all
// that uses its values so far stands higher still. A group has one space of axes: members are elementwise over all of
// it, reduce it, or (once a reduction over `inner` is used inside) work on what is left of each row.
#include "compiler/pass/compilation.h"

// WAITS: how many copies one behind the other are looked through.
enum { GROUP_MAX_NODES = 56, GROUP_MAX_EXTERNAL = 32, GROUP_MAX_NUMBERS = 64, WAITS = 12 };

typedef struct {
  Graph *graph;
  int *parent;       // union-find over group ids
  int *lowest_user;  // by group: the least level of what uses its values from outside
  int *last_reader;  // by value: the last group that read it from outside, or -1
  int *group;        // by node id, -1
  int *level;        // by value id
  bool *known;       // by value id: made by a node of the list
  GroupInfo *info;
  bool *waiting;  // by node id
  bool *alone;    // by node id: of the squares of a gradient
  int messages;   // the level that later messages to and from other stages have at least
  int count, capacity;
} Grouper;

static int root(Grouper *g, int id) {
  while (g->parent[id] != id) {
    g->parent[id] = g->parent[g->parent[id]];
    id = g->parent[id];
  }
  return id;
}

static int group_of_value(Grouper *g, ValueId value) {
  NodeId node = graph_value(g->graph, value)->node;
  return node < 0 || !g->known[value] || g->group[node] < 0 ? -1 : root(g, g->group[node]);
}

static bool free_value(const Grouper *g, ValueId value) {
  const Node *node = graph_producer(g->graph, value);
  return node && op_free(node->op);
}

static Shape node_space(const Graph *graph, const Node *node) {
  return graph_shape(graph, op_reduction(node->op) ? node->operands[0] : node->first_result);
}

static int operand_level(Grouper *g, ValueId value) {
  if (!g->known[value] || free_value(g, value)) {
    return 0;
  }
  int group = group_of_value(g, value);
  return group >= 0 ? g->info[group].level : g->level[value];
}

// The result of a reduction inside this group, used by another member: the reduction must be along the rows.
static bool rows_fit(Grouper *g, int group, const Node *node, bool *fixes) {
  GroupInfo *info = &g->info[group];
  for (int i = 0; i < node->operand_count; i++) {
    const Node *maker = graph_producer(g->graph, node->operands[i]);
    if (!maker || !op_reduction(maker->op) || group_of_value(g, node->operands[i]) != group) {
      continue;
    }
    Shape from = graph_shape(g->graph, maker->operands[0]);
    if (!shape_same_set(&from, &info->space)) {
      return false;  // a reduction of rows' results: its own result is known only after the whole kernel
    }
    if (info->inner_known && !shape_same_set(&info->inner, &maker->axes)) {
      return false;
    }
    if (maker->axes.count == info->space.count) {
      return false;  // a sum over everything is known only after the kernel
    }
    *fixes = true;
    info->inner = maker->axes;
    info->inner_known = true;
  }
  return true;
}

// Which axes a reduction over part of the space makes the inner ones: those it reduces, when they are stored last,
// else those it keeps.
static Shape decide_inner(const Graph *graph, const Node *node) {
  Shape from = graph_shape(graph, node->operands[0]);
  return shape_has(&node->axes, from.axis[from.count - 1]) ? node->axes : shape_minus(from, &node->axes);
}

static bool reduction_fits(const Grouper *g, const GroupInfo *info, const Node *node) {
  Shape from = graph_shape(g->graph, node->operands[0]);
  Shape outer = shape_minus(info->space, &info->inner);
  if (!shape_same_set(&from, &info->space)) {
    return info->row_reductions && shape_same_set(&from, &outer) && node->axes.count == from.count &&
           node->op == OP_SUM;
  }
  if (node->axes.count == from.count || !info->inner_known) {
    return true;
  }
  Shape kept = shape_minus(from, &node->axes);
  return shape_same_set(&info->inner, &node->axes) || shape_same_set(&info->inner, &kept);
}

static bool space_fits(const Grouper *g, const GroupInfo *info, const Node *node) {
  if (op_reduction(node->op)) {
    return reduction_fits(g, info, node);
  }
  Shape space = node_space(g->graph, node);
  if (shape_same_set(&space, &info->space)) {
    return true;
  }
  Shape outer = shape_minus(info->space, &info->inner);
  return info->inner_known && space.count && shape_same_set(&space, &outer);
}

// Single numbers take no room: a group of them may read more.
static bool has_room(const GroupInfo *info, int nodes, int external) {
  return nodes <= GROUP_MAX_NODES && external <= (info->space.count ? GROUP_MAX_EXTERNAL : GROUP_MAX_NUMBERS);
}

static bool can_join(Grouper *g, int group, const Node *node) {
  GroupInfo *info = &g->info[group], before = *info;
  if (info->alone) {
    return false;
  }
  if (node->apart && !info->backward) {  // it would be kept, not computed again
    return false;
  }
  if (!has_room(info, info->nodes + 1, info->external + node->operand_count)) {
    return false;
  }
  for (int i = 0; i < node->operand_count; i++) {
    int other = group_of_value(g, node->operands[i]);
    if (other != group && operand_level(g, node->operands[i]) >= info->level) {
      return false;
    }
  }
  bool fixes = false;
  if (rows_fit(g, group, node, &fixes)) {
    info->row_reductions |= fixes;
    if (space_fits(g, info, node)) {
      return true;
    }
  }
  *info = before;
  return false;
}

static bool can_merge(Grouper *g, int a, int b) {
  const GroupInfo *x = &g->info[a], *y = &g->info[b];
  int low = x->level < y->level ? a : b, high = low == a ? b : a;
  bool level = x->level == y->level || g->lowest_user[low] > g->info[high].level;
  return a != b && level && !x->alone && !y->alone && shape_same_set(&x->space, &y->space) &&
         (!x->inner_known || !y->inner_known || shape_same_set(&x->inner, &y->inner)) &&
         has_room(x, x->nodes + y->nodes, x->external + y->external);
}

// Moves a group up so that the node's other operands are below it, if nothing that uses the group is in the way.
static bool can_join_higher(Grouper *g, int group, const Node *node) {
  GroupInfo *info = &g->info[group];
  int before = info->level, needed = before;
  for (int i = 0; i < node->operand_count; i++) {
    int level = group_of_value(g, node->operands[i]) == group ? 0 : operand_level(g, node->operands[i]) + 1;
    needed = level > needed ? level : needed;
  }
  if (needed > before && (info->backward != node->backward || g->lowest_user[group] <= needed)) {
    return false;
  }
  info->level = needed;
  if (can_join(g, group, node)) {
    return true;
  }
  info->level = before;
  return false;
}

static int merge(Grouper *g, int a, int b) {
  GroupInfo *x = &g->info[a], *y = &g->info[b];
  x->level = x->level > y->level ? x->level : y->level;
  g->lowest_user[a] = g->lowest_user[a] < g->lowest_user[b] ? g->lowest_user[a] : g->lowest_user[b];
  x->nodes += y->nodes;
  x->external += y->external;
  x->row_reductions |= y->row_reductions;
  if (!x->inner_known) {
    x->inner = y->inner;
    x->inner_known = y->inner_known;
  }
  g->parent[b] = a;
  return a;
}

static void note_use(Grouper *g, ValueId value, int level) {
  int from = group_of_value(g, value);
  if (from >= 0 && level < g->lowest_user[from]) {
    g->lowest_user[from] = level;
  }
}

static void join(Grouper *g, int group, NodeId id) {
  const Node *node = graph_node(g->graph, id);
  GroupInfo *info = &g->info[group];
  g->group[id] = group;
  info->nodes++;
  for (int i = 0; i < node->operand_count; i++) {
    if (group_of_value(g, node->operands[i]) != group && !free_value(g, node->operands[i])) {
      info->external++;
      note_use(g, node->operands[i], info->level);
      g->last_reader[node->operands[i]] = group;
    }
  }
  Shape from = node->operand_count ? graph_shape(g->graph, node->operands[0]) : (Shape){0};
  if (op_reduction(node->op) && !info->inner_known && node->axes.count < from.count &&
      shape_same_set(&from, &info->space)) {
    info->inner = decide_inner(g->graph, node);
    info->inner_known = true;
  }
}

static int new_group(Grouper *g, const Node *node) {
  int id = g->count++;
  int level = 0;
  for (int i = 0; i < node->operand_count; i++) {
    int from = operand_level(g, node->operands[i]);
    level = from > level ? from : level;
  }
  g->parent[id] = id;
  g->lowest_user[id] = INT32_MAX;
  g->info[id] = (GroupInfo){.space = node_space(g->graph, node), .level = level + 1, .backward = node->backward};
  return id;
}

static void place(Grouper *g, NodeId id);

// The highest level of what the copies that wait for this node read.
static int level_of_waiting(Grouper *g, const Node *node, int depth) {
  int level = 0;
  for (int i = 0; i < node->operand_count; i++) {
    const ValueId value = node->operands[i];
    const NodeId maker = graph_value(g->graph, value)->node;
    const bool waits = maker >= 0 && g->waiting[maker];
    const int at = !waits      ? operand_level(g, value)
                   : depth > 0 ? level_of_waiting(g, graph_node(g->graph, maker), depth - 1)
                               : INT32_MAX;
    level = at > level ? at : level;
  }
  return level;
}

// For a reduction of copies that wait: a group that reads what one of them reads, and where it may stand; -1: none.
static int group_of_waiting(Grouper *g, const Node *reduction, const Node *node, int level, int depth) {
  const Shape space = node_space(g->graph, reduction);
  int found = -1;
  for (int i = 0; i < node->operand_count && found < 0; i++) {
    const ValueId value = node->operands[i];
    const NodeId maker = graph_value(g->graph, value)->node;
    if (maker >= 0 && g->waiting[maker]) {
      found = depth > 0 ? group_of_waiting(g, reduction, graph_node(g->graph, maker), level, depth - 1) : -1;
      continue;
    }
    const int reader = node == reduction || g->last_reader[value] < 0 ? -1 : root(g, g->last_reader[value]);
    if (reader >= 0 && g->info[reader].backward == reduction->backward && level < g->info[reader].level &&
        shape_same_set(&space, &g->info[reader].space) && can_join_higher(g, reader, reduction)) {
      found = reader;
    }
  }
  return found;
}

// Copies of forward values wait until something uses them, and go where that is: on their own they would hang onto a
// forward kernel, and their results would have to be kept. What a copy needs is placed before it.
static void place_waiting(Grouper *g, const Node *user, int group) {
  for (int i = 0; i < user->operand_count; i++) {
    NodeId id = graph_value(g->graph, user->operands[i])->node;
    if (id < 0 || !g->waiting[id]) {
      continue;
    }
    const Node *node = graph_node(g->graph, id);
    g->waiting[id] = false;
    place_waiting(g, node, group);
    if (group >= 0 && can_join_higher(g, root(g, group), node)) {
      join(g, root(g, group), id);
      g->known[node->first_result] = true;
    } else {
      place(g, id);
    }
  }
}

// A product by itself and the sum of it are one kernel and nothing else is, whatever else reads the gradient: so they
// have the same bits under every layout (lower_squares.c).
static void place_alone(Grouper *g, NodeId id) {
  const Node *node = graph_node(g->graph, id);
  const bool sum = node->op == OP_SUM;
  const int group = sum ? group_of_value(g, node->operands[0]) : new_group(g, node);
  join(g, group, id);
  g->info[group].alone = true;
  g->known[node->first_result] = true;
}

// Of the update, and over all axes; of a product that nothing else reads.
static void find_alone(Grouper *g, const NodeId *nodes, int count) {
  const Graph *graph = g->graph;
  int *readers = ARENA_ARRAY(graph->arena, int, graph->values.count + 1);
  g->alone = ARENA_ARRAY(graph->arena, bool, graph->nodes.count + 1);
  for (int i = 0; i < count; i++) {
    const Node *node = graph_node(graph, nodes[i]);
    for (int j = 0; j < node->operand_count; j++) {
      readers[node->operands[j]] += node->op == OP_MUL && j == 1 && node->operands[0] == node->operands[1] ? 0 : 1;
    }
  }
  for (int i = 0; i < count; i++) {
    const Node *node = graph_node(graph, nodes[i]);
    const ValueId product = node->op == OP_SUM ? node->operands[0] : -1;
    const Node *maker = product >= 0 ? graph_producer(graph, product) : NULL;
    if (maker && maker->op == OP_MUL && maker->operands[0] == maker->operands[1] && readers[product] == 1 &&
        graph_value(graph, node->first_result)->role == ROLE_UPDATE &&
        node->axes.count == graph_shape(graph, product).count) {
      g->alone[nodes[i]] = g->alone[graph_value(graph, product)->node] = true;
    }
  }
}

static void place(Grouper *g, NodeId id) {
  const Node *node = graph_node(g->graph, id);
  Shape space = node_space(g->graph, node);
  int group = -1;
  // First let groups of equal standing that this node needs become one.
  for (int i = 0; i < node->operand_count; i++) {
    int a = group_of_value(g, node->operands[i]);
    for (int j = i + 1; j < node->operand_count && a >= 0; j++) {
      int b = group_of_value(g, node->operands[j]);
      if (b >= 0 && can_merge(g, root(g, a), b)) {
        a = merge(g, root(g, a), b);
      }
    }
  }
  // What uses a sum of a row goes where the row is, or the row would have to be read again.
  for (int i = node->operand_count - 1; i >= 0 && group < 0; i--) {
    const Node *maker = graph_producer(g->graph, node->operands[i]);
    int candidate = maker && op_reduction(maker->op) ? group_of_value(g, node->operands[i]) : -1;
    if (candidate >= 0 && g->info[candidate].space.count > space.count && space.count > 0 &&
        can_join_higher(g, candidate, node)) {
      group = candidate;
    }
  }
  for (int i = node->operand_count - 1; i >= 0 && group < 0; i--) {
    int candidate = group_of_value(g, node->operands[i]);
    if (candidate >= 0 && (g->info[candidate].space.count == 0) == (space.count == 0) &&
        can_join_higher(g, candidate, node)) {
      group = candidate;
    }
  }
  // Nothing it needs is in a fitting group: one that reads the same values will do. That random numbers are drawn for
  // the same step brings nothing together.
  for (int i = 0; i < node->operand_count && group < 0 && !op_random(node->op); i++) {
    int reader = g->last_reader[node->operands[i]];
    reader = reader >= 0 ? root(g, reader) : -1;
    // The backward must not hang its copies of forward values onto the forward's kernels: they would be kept.
    bool large = reader >= 0 && g->info[reader].backward == node->backward &&
                 shape_same_set(&space, &g->info[reader].space) && space.count > 0;
    if (large && can_join_higher(g, reader, node)) {
      group = reader;
    }
  }
  if (group < 0 && op_reduction(node->op)) {
    group = group_of_waiting(g, node, node, level_of_waiting(g, node, WAITS), WAITS);
  }
  group = group >= 0 ? group : new_group(g, node);
  place_waiting(g, node, group);
  group = root(g, group);
  join(g, can_join_higher(g, group, node) ? group : new_group(g, node), id);
  g->known[node->first_result] = true;
}

static void pass_through(Grouper *g, NodeId id) {
  const Node *node = graph_node(g->graph, id);
  int level = 0;
  for (int i = 0; i < node->operand_count; i++) {
    int from = operand_level(g, node->operands[i]);
    level = from > level ? from : level;
  }
  level += op_alias(node->op) || op_leaf(node->op) || node->op == OP_PACK ? 0 : 1;
  if (op_message(node->op)) {  // what comes may depend on what was sent before
    level = level > g->messages ? level : g->messages;
    g->messages = level + (node->op == OP_SEND);
  }
  for (int i = 0; i < node->operand_count; i++) {
    note_use(g, node->operands[i], level);
  }
  for (int i = 0; i < node->result_count; i++) {
    g->level[node->first_result + i] = level;
  }
}

Grouping group_make(Graph *graph, const NodeId *nodes, int count, GroupInfo **info) {
  Grouper g = {.graph = graph, .capacity = count + 1};
  g.parent = ARENA_ARRAY(graph->arena, int, count + 1);
  g.info = ARENA_ARRAY(graph->arena, GroupInfo, count + 1);
  g.lowest_user = ARENA_ARRAY(graph->arena, int, count + 1);
  g.last_reader = ARENA_ARRAY(graph->arena, int, graph->values.count + 1);
  for (int i = 0; i < graph->values.count; i++) {
    g.last_reader[i] = -1;
  }
  g.group = ARENA_ARRAY(graph->arena, int, graph->nodes.count + 1);
  g.level = ARENA_ARRAY(graph->arena, int, graph->values.count + 1);
  g.known = ARENA_ARRAY(graph->arena, bool, graph->values.count + 1);
  g.waiting = ARENA_ARRAY(graph->arena, bool, graph->nodes.count + 1);
  for (int i = 0; i < graph->nodes.count; i++) {
    g.group[i] = -1;
  }
  find_alone(&g, nodes, count);
  for (int i = 0; i < count; i++) {
    const Node *node = graph_node(graph, nodes[i]);
    bool floating_or_int = node->result_count == 1;
    if (g.alone[nodes[i]]) {
      place_waiting(&g, node, -1);
      place_alone(&g, nodes[i]);
      continue;
    }
    if (op_fusable(node->op) && floating_or_int && node->recomputed) {
      g.waiting[nodes[i]] = true;
      continue;
    }
    if (op_fusable(node->op) && floating_or_int) {
      place(&g, nodes[i]);
    } else {
      place_waiting(&g, node, -1);
      pass_through(&g, nodes[i]);
    }
    for (int j = 0; j < node->result_count; j++) {
      g.known[node->first_result + j] = true;
    }
  }
  for (int i = 0; i < count; i++) {
    if (g.waiting[nodes[i]]) {
      g.waiting[nodes[i]] = false;
      place_waiting(&g, graph_node(graph, nodes[i]), -1);
      place(&g, nodes[i]);
    }
  }
  for (int i = 0; i < count; i++) {
    if (g.group[nodes[i]] >= 0) {
      g.group[nodes[i]] = root(&g, g.group[nodes[i]]);
    }
  }
  *info = g.info;
  return (Grouping){g.group, g.count};
}
