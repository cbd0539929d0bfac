// shard_owned.c: values that are right on the rank which owns the matrix that a position has chosen.
//
// Where ranks share the matrices of a chosen product, the result of a position is made by the rank that has its matrix,
// and is 0 on the others: a partial sum. What is computed from it element by element, and along other axes than those
// of the positions, is right on that same rank, and means nothing elsewhere. It stays so (PARTIAL_OWNED) until
// something else reads it, which makes it 0 on the ranks that do not own the position, and so a partial sum. What has
// no axes but those of the positions is as small as the index, and is not kept apart any longer.
//
// Where a capacity limits the index, nobody owns a position that is left out: what is made of its choice is 0, and what
// stands beside that, such as a residual, is added when all ranks have it.
#include "compiler/shard/shard.h"

// What ranks have given each other of a value is that value, and so is what each of them has made again.
static ValueId root_of(const Shard *s, ValueId value) {
  while (true) {
    const Node *node = graph_producer(s->graph, value);
    const bool given = node && (op_collective(node->op) || node->op == OP_SHARD);
    const ValueId from = given ? node->operands[0] : (ValueId)map_get_or(&s->again, (uint64_t)value, -1);
    if (from < 0) {
      return value;
    }
    value = from;
  }
}

static bool is_integer(const Shard *s, ValueId value, int64_t number) {
  const Node *node = graph_producer(s->graph, root_of(s, value));
  return node && node->op == OP_INTEGER && node->integer == number;
}

// Is the condition that an index is inside of the axis, or what is left of that where more is known?
static bool says_inside(const Shard *s, ValueId condition, ValueId index, AxisId axis) {
  const Node *node = graph_producer(s->graph, root_of(s, condition));
  if (!node || node->operand_count != 2) {
    return false;
  }
  const ValueId a = node->operands[0], b = node->operands[1];
  switch (node->op) {
    case OP_AND:
      return says_inside(s, a, index, axis) && says_inside(s, b, index, axis);
    case OP_LESS_EQUAL:
      return is_integer(s, a, 0) && root_of(s, b) == index;
    case OP_LESS:
      return root_of(s, a) == index && is_integer(s, b, s->graph->axes.at[axis].size);
    default:
      return false;
  }
}

// Where an index is outside, a product has the first place instead (choose.c): who owns that has the position, and what
// the index itself looks up is nothing there, as everywhere.
static ValueId before_clamp(const Shard *s, ValueId index, AxisId axis) {
  const Node *node = graph_producer(s->graph, index);
  const ValueId before = node && node->op == OP_WHERE ? root_of(s, node->operands[1]) : -1;
  const bool clamps =
      before >= 0 && is_integer(s, node->operands[2], 0) && says_inside(s, node->operands[0], before, axis);
  return clamps ? before : index;
}

static int owner_number(Shard *s, ValueId index, AxisId axis) {
  const ValueId root = root_of(s, index);
  for (int i = 0; i < s->owners.count; i++) {
    const ValueId owner = s->owners.at[i].index;
    if ((owner == root || before_clamp(s, owner, axis) == root) && s->owners.at[i].axis == axis) {
      return i + 1;
    }
  }
  return 0;
}

// Lookups that stand before the index of their owner, which is clamped behind them: what they make is not owned, since
// nothing could yet end that.
static void note_early(Shard *s, RegionId region, bool *seen) {
  const NodeList *nodes = &s->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(s->graph, nodes->at[i]);
    const int owner = op_indexes(node->op) ? owner_number(s, node->operands[node->operand_count - 1], node->axis) : 0;
    s->early[nodes->at[i]] = owner && !seen[s->owners.at[owner - 1].index];
    if (node->region >= 0) {
      note_early(s, node->region, seen);
    }
    for (int j = 0; j < node->result_count; j++) {
      seen[node->first_result + j] = true;
    }
  }
}

// --- where what is owned ends ---

enum { ENDS_ANYWHERE = -1, ENDS_NOWHERE = -2 };  // nobody has read it so far, or somebody else does

// For whom a reader leaves nothing to send but sums over positions: the owner by whose index it chooses.
static int reader_ends(Shard *s, const Node *node) {
  const int owner = op_indexes(node->op) ? owner_number(s, node->operands[node->operand_count - 1], node->axis) : 0;
  bool along = false;
  for (int i = 0; i < s->owners.count; i++) {
    const Shape positions = graph_shape(s->graph, s->owners.at[i].index);
    along |= shape_common(node->axes, &positions).count > 0 || shape_has(&positions, node->axis) ||
             shape_has(&positions, node->axis2);
  }
  if (owner > 0) {
    return owner;
  }
  if (op_reduction(node->op) && along) {
    return ENDS_ANYWHERE;
  }
  const bool passes = node->result_count == 1 &&
                      (op_elementwise(node->op) || (!along && (op_reduction(node->op) || op_moves(node->op))));
  return passes ? s->ends[node->first_result] : ENDS_NOWHERE;
}

// For each value the owner for whom all that is made of it ends in products that this owner's index chooses, and in
// sums over positions.
static void find_ends(Shard *s, RegionId region) {
  const Region *of = &s->graph->regions.at[region];
  for (int i = 0; i < of->nodes.count; i++) {
    const Node *node = graph_node(s->graph, of->nodes.at[i]);
    for (int j = 0; j < node->result_count; j++) {
      s->ends[node->first_result + j] = ENDS_ANYWHERE;
    }
  }
  for (int i = 0; i < of->results.count; i++) {
    s->ends[of->results.at[i]] = ENDS_NOWHERE;
  }
  for (int i = of->nodes.count - 1; i >= 0; i--) {
    const Node *node = graph_node(s->graph, of->nodes.at[i]);
    const int ends = node->region >= 0 ? ENDS_NOWHERE : reader_ends(s, node);
    for (int j = 0; j < node->operand_count; j++) {
      int *now = &s->ends[node->operands[j]];
      *now = *now == ENDS_ANYWHERE ? ends : ends == ENDS_ANYWHERE || ends == *now ? *now : ENDS_NOWHERE;
    }
    if (node->region >= 0) {
      find_ends(s, node->region);
    }
  }
}

// --- owners ---

static void add_owner(Shard *s, ValueId index, AxisId axis) {
  const Node *node = graph_producer(s->graph, index);
  const bool limited = node && node->op == OP_LIMIT;
  if (limited) {
    choices_add(&s->choices, index);
  }
  const int choice = limited ? s->choices.limited.count : 0;
  array_push(s->graph->arena, &s->owners, ((ShardOwner){.index = index, .axis = axis, .choice = choice}));
}

// Of what is done: a node that was rewritten still stands among all nodes, and its index would own what nobody has.
static void find_owners(Shard *s, RegionId region) {
  const NodeList *nodes = &s->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(s->graph, nodes->at[i]);
    if (op_chosen(node->op) && owner_number(s, node->operands[2], node->axis) == 0) {
      add_owner(s, root_of(s, node->operands[2]), node->axis);
    }
    if (node->region >= 0) {
      find_owners(s, node->region);
    }
  }
}

void shard_owners_find(Shard *s) {
  Graph *graph = s->graph;
  s->choices = choices_create(s->c->arena, graph);
  find_owners(s, 0);
  choices_walk(&s->choices, 0);
  s->ends_limit = graph->values.count;
  s->ends = ARENA_ARRAY(graph->arena, int, graph->values.count + 1);
  find_ends(s, 0);
  s->early_limit = graph->nodes.count;
  s->early = ARENA_ARRAY(graph->arena, bool, graph->nodes.count + 1);
  note_early(s, 0, ARENA_ARRAY(graph->arena, bool, graph->values.count + 1));
}

int shard_owner_of(Shard *s, const Node *node) {
  const NodeId id = (NodeId)(node - s->graph->nodes.at);
  const bool early = id < s->early_limit && s->early[id];
  return op_indexes(node->op) && !early ? owner_number(s, node->operands[node->operand_count - 1], node->axis) : 0;
}

// Has it more axes than the positions?
static bool is_wide(const Shard *s, ValueId value, int owner) {
  const Shape shape = graph_shape(s->graph, value), positions = graph_shape(s->graph, s->owners.at[owner - 1].index);
  return shape_contains(&shape, &positions) && shape.count > positions.count;
}

bool shard_owner_apart(const Shard *s, const Node *node, int owner) {
  const Shape positions = graph_shape(s->graph, s->owners.at[owner - 1].index);
  return !shape_has(&positions, node->axis) && !shape_has(&positions, node->axis2) &&
         shape_common(node->axes, &positions).count == 0;
}

// Is the result made of the choices that the owner's index makes, and of nothing that stands beside them?
static bool is_known_of(const Shard *s, ValueId value, int choice) {
  return value < s->limit && choices_of(&s->choices, value).choice == choice;
}

// What was made here, a sum of other terms for one (shard_sums.c), is where all that it is made of is.
static bool is_of_choice(Shard *s, ValueId value, int owner) {
  const int choice = s->owners.at[owner - 1].choice;
  if (choice == 0 || value < s->limit) {
    return choice == 0 || is_known_of(s, value, choice);
  }
  const Node *node = graph_producer(s->graph, value);
  bool all = true;
  for (int i = 0; i < node->operand_count && all; i++) {
    const Held held = held_of(s, node->operands[i]);
    all = is_known_of(s, node->operands[i], choice);
    for (int m = 0; m < GRAPH_MAX_MESH; m++) {
      all |= held.owner[m] == owner;
    }
  }
  return all;
}

// Does it do for each position what it does, whatever the others are?
static bool is_by_positions(const Shard *s, const Node *node, int owner) {
  return op_elementwise(node->op) ? node->result_count == 1
                                  : (op_reduction(node->op) || op_moves(node->op)) && node->op != OP_PACK &&
                                        shard_owner_apart(s, node, owner);
}

// Is it a sum with what all ranks have of each position, and read on by others, as a residual is? A partial sum would
// make all of that one.
static bool adds_beside(Shard *s, const Node *node, int owner, int mesh) {
  const Shape positions = graph_shape(s->graph, s->owners.at[owner - 1].index);
  const int ends = node->first_result < s->ends_limit ? s->ends[node->first_result] : ENDS_NOWHERE;
  const bool sum = (node->op == OP_ADD || node->op == OP_SUB) && ends != owner && ends != ENDS_ANYWHERE;
  bool beside = false;
  for (int i = 0; i < node->operand_count && sum; i++) {
    const Shape shape = graph_shape(s->graph, node->operands[i]);
    const Held held = held_of(s, node->operands[i]);
    beside |= shape_contains(&shape, &positions) && held.owner[mesh] == 0 && held.partial[mesh] == 0;
  }
  return beside;
}

// Has its axis parts over this mesh axis and those ahead of it over which the owner passes? Operands may be owned over
// some of them each, and over no more than its axis divides by.
static bool owner_divides(Shard *s, const int *passing, int owner, int mesh) {
  uint32_t cut = 1u << mesh;
  for (int m = 0; m < mesh; m++) {
    cut |= passing[m] == owner ? 1u << m : 0;
  }
  return shard_divides(s, s->owners.at[owner - 1].axis, cut);
}

int shard_owner_passes(Shard *s, const Node *node, const int *passing, int mesh) {
  int owner = 0;
  for (int i = 0; i < node->operand_count && owner == 0; i++) {
    owner = held_of(s, node->operands[i]).owner[mesh];
  }
  const bool passes = owner && is_by_positions(s, node, owner) && is_wide(s, node->first_result, owner) &&
                      is_of_choice(s, node->first_result, owner) && !adds_beside(s, node, owner, mesh);
  return passes && owner_divides(s, passing, owner, mesh) ? owner : 0;
}

// The index as the value has its positions.
static ValueId index_like(Shard *s, const ShardOwner *owner, const Held *held) {
  Held want = held_whole();
  const Shape positions = graph_shape(s->graph, owner->index);
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    want.axis[m] = held->axis[m] >= 0 && shape_has(&positions, held->axis[m]) ? held->axis[m] : -1;
  }
  const bool saved = s->saved;
  s->saved = true;
  const ValueId index = shard_reshard(s, newest(s, owner->index), &want);
  s->saved = saved;
  return index;
}

bool shard_disowns_number(Shard *s, ValueId value, const Held *want) {
  const Held now = held_of(s, value);
  bool ends = false;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    ends |= now.partial[m] == PARTIAL_OWNED && want->partial[m] != PARTIAL_OWNED;
  }
  return ends && !element_type_floating(graph_value(s->graph, value)->type);
}

ValueId shard_disown_number(Shard *s, ValueId value, const Held *want) {
  Graph *graph = s->graph;
  const Value from = *graph_value(graph, value);
  const Held held = held_of(s, value);
  const Cause cause = *shard_cause(s, value);
  const bool truth = from.type == TYPE_BOOL;
  const Role role = graph->role;
  graph->role = from.role;
  const ValueId number = truth ? graph_op3(graph, OP_WHERE, value, graph_real(graph, 1), graph_real(graph, 0))
                               : graph_op1(graph, OP_TO_REAL, value);
  *shard_held(s, number) = held;
  *shard_cause(s, number) = cause;
  const ValueId whole = shard_reshard(s, number, want);
  ValueId made = truth ? graph_op2(graph, OP_LESS, graph_real(graph, 0.5), whole) : graph_op1(graph, OP_TO_INT, whole);
  if (from.type == TYPE_INDEX) {
    *shard_held(s, made) = held_of(s, whole);
    made = graph_add1(graph, OP_AS_INDEX, (NodeInit){NODE_INIT, .axis = from.bound}, made);
  }
  graph->role = role;
  graph_value(graph, made)->name = from.name;
  *shard_held(s, made) = held_of(s, whole);
  *shard_cause(s, made) = cause;
  return made;
}

void shard_end_owners(const Held *now, Held *want) {
  int ended = 0;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    const int owner = now->partial[m] ? now->owner[m] : 0;
    if (owner && owner == ended && want->owner[m] == owner) {
      want->partial[m] = 0;
      want->owner[m] = 0;
    }
    ended = owner && want->owner[m] != owner ? owner : ended;
  }
}

bool shard_disown(Shard *s, ValueId *value, const Held *want) {
  Graph *graph = s->graph;
  const Held now = held_of(s, *value);
  int owner = 0;
  uint32_t mesh = 0, all = 0;  // of the owner: over which it ends, and over which it owns
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    const bool ends = now.partial[m] == PARTIAL_OWNED && want->partial[m] != PARTIAL_OWNED;
    if (ends && (owner == 0 || owner == now.owner[m])) {
      owner = now.owner[m];
      mesh |= 1u << m;
    }
  }
  if (mesh == 0) {
    return false;
  }
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    all |= now.partial[m] == PARTIAL_OWNED && now.owner[m] == owner ? 1u << m : 0;
  }
  const ShardOwner of = s->owners.at[owner - 1];
  const NodeInit init = {NODE_INIT, .axis = of.axis, .integer = all};
  const Role role = graph->role;
  const Value from = *graph_value(graph, *value);
  const Cause cause = *shard_cause(s, *value);
  const ValueId index = index_like(s, &of, &now);
  graph->role = from.role;
  const ValueId made = graph_add2(graph, OP_INSIDE, init, *value, index);
  graph->role = role;
  graph_value(graph, made)->name = from.name;
  Held held = now;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {  // parts of a part that are added up are no part that one rank owns
    const bool inner = all >> m & 1 && (mesh & ((1u << m) - 1)) != 0;
    held.partial[m] = inner || mesh >> m & 1 ? 1 + REDUCE_SUM : held.partial[m];
  }
  *shard_held(s, made) = held;
  *shard_cause(s, made) = cause;
  *value = made;
  return true;
}
