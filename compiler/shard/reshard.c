// reshard.c: from one way of holding a value to another, by the fewest collectives.
//
// Partial sums first, scattered where they are wanted cut; then exchanges between two axes; then gathers; slices, which
// cost nothing, last. An axis that several mesh axes cut is cut by the lowest first: what is gathered or cut must be
// the minor end.
#include <string.h>

#include "compiler/shard/shard.h"

Held *shard_held(Shard *s, ValueId value) {
  while (s->held.count <= value) {
    array_push(s->graph->arena, &s->held, held_whole());
    array_push(s->graph->arena, &s->cause, ((Cause){{0}}));
  }
  while (s->newest.count <= value) {
    ValueId itself = s->newest.count;
    array_push(s->graph->arena, &s->newest, itself);
  }
  return &s->held.at[value];
}

Cause *shard_cause(Shard *s, ValueId value) {
  shard_held(s, value);
  return &s->cause.at[value];
}

void shard_hold_alike(Compilation *c, ValueId made, ValueId like) {
  if (c->shard) {
    Held held = *shard_held(c->shard, like);
    *shard_held(c->shard, made) = held;
  }
}

uint32_t held_cut(const Held *held, AxisId axis) {
  uint32_t cut = 0;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    cut |= held->axis[m] == axis && axis >= 0 ? 1u << m : 0;
  }
  return cut;
}

uint32_t held_partial(const Held *held) {
  uint32_t partial = 0;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    partial |= held->partial[m] ? 1u << m : 0;
  }
  return partial;
}

static uint32_t below(int mesh) {
  return (1u << mesh) - 1;
}

// The mesh axes that cut an axis first both now and in the end: they can stay.
static uint32_t kept_cut(uint32_t now, uint32_t want) {
  uint32_t kept = 0;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    uint32_t bit = 1u << m;
    if ((now & bit) != (want & bit)) {
      break;
    }
    kept |= now & bit;
  }
  return kept;
}

const Pack *shard_pack_along(const Shard *s, AxisId axis) {
  for (int i = 0; i < s->graph->packs.count; i++) {
    if (s->graph->packs.at[i].axis == axis) {
      return &s->graph->packs.at[i];
    }
  }
  return NULL;
}

// The cuts of an axis that have an order: a pack is cut into pieces apart from how its members are cut.
static uint32_t in_order(const Shard *s, AxisId axis, uint32_t cut) {
  const Pack *pack = shard_pack_along(s, axis);
  return pack ? cut & ~pack->cut : cut;
}

// Would cutting `axis` by `mesh` next be in order, on the way to what is wanted?
static bool next_cut(const Shard *s, const Held *now, const Held *want, AxisId axis, int mesh) {
  return in_order(s, axis, held_cut(now, axis)) == in_order(s, axis, held_cut(want, axis) & below(mesh));
}

static ValueId add(Shard *s, Op op, NodeInit init, ValueId value, uint32_t mesh, const Held *result) {
  Graph *graph = s->graph;
  init.text = mesh ? mapping_names(s->mapping, mesh) : NULL;  // a rename is of none
  init.integer = mesh;
  Role role = graph->role;
  const Value from = *graph_value(graph, value);
  graph->role = from.role;
  ValueId made = graph_add1(graph, op, init, value);
  graph->role = role;
  Node *node = graph_producer(graph, made);
  node->why = s->why;
  node->rule = SPAN_NONE;
  graph_value(graph, made)->name = from.name;
  *shard_held(s, made) = *result;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    const LayoutRule *had = shard_cause(s, value)->rule[m], *asks = s->wish.rule[m];
    shard_cause(s, made)->rule[m] = mesh >> m & 1 && asks ? asks : had;
    if (mesh >> m & 1 && (asks || had)) {
      node->rule = asks ? asks->span : had->span;
    }
  }
  return made;
}

// The partial mesh axes that can be scattered along one axis now, lowest first.
static bool scatter(Shard *s, ValueId *value, const Held *want) {
  Held now = *shard_held(s, *value), next = now;
  uint32_t mesh = 0;
  AxisId axis = -1;
  int kind = 0;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    bool wanted = now.partial[m] && want->axis[m] >= 0 && next_cut(s, &next, want, want->axis[m], m);
    if (wanted && (axis < 0 || (axis == want->axis[m] && kind == now.partial[m]))) {
      axis = want->axis[m];
      kind = now.partial[m];
      mesh |= 1u << m;
      next.axis[m] = axis;
      next.partial[m] = 0;
      next.owner[m] = 0;
    }
  }
  if (mesh) {
    NodeInit init = {NODE_INIT, .axis = axis, .axis2 = axis, .number = kind - 1};
    *value = add(s, OP_REDUCE_SCATTER, init, *value, mesh, &next);
  }
  return mesh != 0;
}

static bool reduce(Shard *s, ValueId *value, const Held *want) {
  Held now = *shard_held(s, *value), next = now;
  uint32_t mesh = 0;
  int kind = 0;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    bool wanted = now.partial[m] && !want->partial[m] && (want->axis[m] < 0);
    if (wanted && (kind == 0 || kind == now.partial[m])) {
      kind = now.partial[m];
      mesh |= 1u << m;
      next.partial[m] = 0;
      next.owner[m] = 0;
    }
  }
  if (mesh) {
    *value = add(s, OP_ALL_REDUCE, (NodeInit){NODE_INIT, .number = kind - 1}, *value, mesh, &next);
  }
  return mesh != 0;
}

static bool exchange(Shard *s, ValueId *value, const Held *want) {
  Held now = *shard_held(s, *value), next = now;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    AxisId from = now.axis[m], to = want->axis[m];
    bool minor = from >= 0 && held_cut(&now, from) >> (m + 1) == 0;
    if (minor && to >= 0 && from != to && next_cut(s, &now, want, to, m)) {
      next.axis[m] = to;
      NodeInit init = {NODE_INIT, .axis = from, .axis2 = to, .axes = {2, {from, to}}};
      *value = add(s, OP_ALL_TO_ALL, init, *value, 1u << m, &next);
      return true;
    }
  }
  return false;
}

// Is it made of positions and constants alone?
static bool is_known(const Graph *graph, ValueId value, int depth) {
  const Node *node = graph_producer(graph, value);
  bool known = node && depth > 0 && (op_free(node->op) || (op_elementwise(node->op) && node->result_count == 1));
  for (int i = 0; known && i < node->operand_count; i++) {
    known = is_known(graph, node->operands[i], depth - 1);
  }
  return known;
}

static ValueId known_again(Shard *s, ValueId value, const Held *want) {
  Graph *graph = s->graph;
  const NodeId id = graph_value(graph, value)->node;
  const int count = graph_node(graph, id)->operand_count;
  const Shape shape = graph_shape(graph, value);
  ValueId *operands = ARENA_ARRAY(s->c->arena, ValueId, count + 1);
  for (int i = 0; i < count; i++) {
    operands[i] = known_again(s, graph_node(graph, id)->operands[i], want);
  }
  const ValueId made = graph_node(graph, graph_clone(graph, id, operands))->first_result;
  Held held = held_whole();
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    held.axis[m] = shape_has(&shape, want->axis[m]) ? want->axis[m] : -1;
  }
  *shard_held(s, made) = held;
  map_put(&s->again, (uint64_t)made, value);
  *shard_loops_of(s, graph_value(graph, made)->node) = no_loops(true);
  return made;
}

// What every rank knows is made anew instead of being gathered.
static bool know(Shard *s, ValueId *value, const Held *want) {
  enum { DEPTH = 8 };
  const Held now = held_of(s, *value);
  bool fewer = held_partial(&now) == 0;
  for (int m = 0; m < GRAPH_MAX_MESH && fewer; m++) {
    fewer = want->axis[m] < 0 || want->axis[m] == now.axis[m];
  }
  if (fewer && is_known(s->graph, *value, DEPTH)) {
    *value = known_again(s, *value, want);
    return true;
  }
  return false;
}

static bool gather(Shard *s, ValueId *value, const Held *want) {
  Held now = *shard_held(s, *value), next = now;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    AxisId axis = now.axis[m];
    if (axis < 0) {
      continue;
    }
    uint32_t cut = in_order(s, axis, held_cut(&now, axis)), wanted = in_order(s, axis, held_cut(want, axis));
    uint32_t away = cut & ~kept_cut(cut, wanted);
    for (int k = 0; k < GRAPH_MAX_MESH && away; k++) {
      next.axis[k] = away >> k & 1 ? -1 : next.axis[k];
    }
    if (away) {
      *value = add(s, OP_ALL_GATHER, (NodeInit){NODE_INIT, .axis = axis, .axis2 = axis}, *value, away, &next);
      return true;
    }
  }
  return false;
}

static bool slice(Shard *s, ValueId *value, const Held *want) {
  Held now = *shard_held(s, *value), next = now;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    AxisId axis = want->axis[m];
    if (axis >= 0 && now.axis[m] < 0 && !now.partial[m] && next_cut(s, &now, want, axis, m)) {
      next.axis[m] = axis;
      *value = add(s, OP_SHARD, (NodeInit){NODE_INIT, .axis = axis, .axis2 = axis}, *value, 1u << m, &next);
      return true;
    }
  }
  return false;
}

// A partial sum may have an owner where none is asked for.
static bool fulfilled(const Held *now, const Held *want) {
  bool same = memcmp(now->axis, want->axis, sizeof now->axis) == 0 &&
              memcmp(now->partial, want->partial, sizeof now->partial) == 0;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    same = same && (want->partial[m] != PARTIAL_OWNED || now->owner[m] == want->owner[m]);
  }
  return same;
}

// What is asked for: of which value, how held, in which region, in which direction.
typedef struct {
  uint64_t word[3 + 2 * GRAPH_MAX_MESH];
} Wish;

static Wish wish(const Shard *s, ValueId value, const Held *want, bool backward) {
  Wish made = {{(uint64_t)value, (uint64_t)s->graph->region, backward}};
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    made.word[3 + 2 * m] = (uint64_t)want->axis[m];
    made.word[4 + 2 * m] = want->partial[m];
  }
  return made;
}

// Must parts of it move?
static bool moves(const Held *now, const Held *want) {
  bool any = false;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    any |= now->axis[m] >= 0 && now->axis[m] != want->axis[m];
  }
  return any;
}

// Of a value that is rounded to 8 bits in several orders one is gathered, for all that read it: that one in which the
// axis that is cut does not come last, for what is gathered comes in blocks along it.
static ValueId twin_to_move(const Shard *s, ValueId value) {
  const Graph *graph = s->graph;
  const Held *held = &s->held.at[value];
  const Node *node = graph_producer(graph, value);
  const NodeList *nodes = &graph->regions.at[graph->region].nodes;
  for (int i = nodes->count - 1; node && node->op == OP_QUANTISE && i >= 0; i--) {
    const Node *other = graph_node(graph, nodes->at[i]);
    bool alike = other->op == OP_QUANTISE && other->operands[0] == node->operands[0] &&
                 other->operands[1] == node->operands[1] && other->text == node->text;
    for (int m = 0; m < GRAPH_MAX_MESH && alike; m++) {
      alike = !shape_has(&other->axes, held->axis[m]);
    }
    if (alike) {
      return other->first_result;
    }
  }
  return value;
}

// What is gathered by two names is gathered once. Of a rename whose new axis `want` gathers, or of several in a row:
// what has the first name, and that name's axis; false of others.
static bool is_other_name(Shard *s, ValueId value, const Held *want, ValueId *under, AxisId *from) {
  const Node *node = graph_producer(s->graph, value);
  const Held now = held_of(s, value);
  if (!node || node->op != OP_RENAME || held_cut(&now, node->axis2) == 0 || held_cut(want, node->axis2) != 0 ||
      held_partial(&now) != 0) {
    return false;
  }
  const Node *first = node, *before = graph_producer(s->graph, node->operands[0]);
  while (before && before->op == OP_RENAME && before->axis2 == first->axis) {
    first = before;
    before = graph_producer(s->graph, first->operands[0]);
  }
  *under = first->operands[0];
  *from = first->axis;
  return true;
}

// The same value under the rename's other name, once all of the axis is there.
static ValueId by_name(Shard *s, ValueId whole, AxisId from, AxisId to, const Held *held) {
  const NodeInit init = {NODE_INIT, .axis = from, .axis2 = to};
  return from == to ? whole : add(s, OP_RENAME, init, whole, 0, held);
}

// A gather makes a value larger: what the forward gathered is gathered again in the backward rather than kept.
ValueId shard_reshard(Shard *s, ValueId value, const Held *want) {
  Graph *graph = s->graph;
  if (fulfilled(shard_held(s, value), want)) {
    return value;
  }
  if (moves(shard_held(s, value), want)) {
    value = twin_to_move(s, value);
  }
  int64_t known;
  const Wish here = wish(s, value, want, graph->backward), there = wish(s, value, want, !graph->backward);
  if (map_get_bytes(&s->memo, &here, sizeof here, &known)) {
    if (s->saved) {
      map_put_bytes(&s->memo, &there, sizeof there, known);
    }
    return (ValueId)known;
  }
  ValueId under;
  AxisId from = -1;
  const bool named = is_other_name(s, value, want, &under, &from);
  const AxisId to = named ? graph_producer(graph, value)->axis2 : -1;
  const Wish same = named ? wish(s, under, want, graph->backward) : here;
  if (named && map_get_bytes(&s->memo, &same, sizeof same, &known)) {
    known = by_name(s, (ValueId)known, from, to, want);
    map_put_bytes(&s->memo, &here, sizeof here, known);
    return (ValueId)known;
  }
  const bool number = shard_disowns_number(s, value, want);
  ValueId made = number ? shard_disown_number(s, value, want) : value;
  bool gathered = number;
  while (!number && !fulfilled(shard_held(s, made), want)) {
    if (know(s, &made, want) || shard_disown(s, &made, want) || scatter(s, &made, want) || reduce(s, &made, want) ||
        exchange(s, &made, want)) {
      continue;
    }
    if (gather(s, &made, want)) {
      gathered = true;
    } else if (!slice(s, &made, want)) {
      diag_error(graph->diag, E099, graph->span, "the compiler cannot reshard '%s'",
                 graph_value(graph, value)->name ? graph_value(graph, value)->name : "a value");
      *shard_held(s, made) = *want;
    }
  }
  map_put_bytes(&s->memo, &here, sizeof here, made);
  if (named) {
    map_put_bytes(&s->memo, &same, sizeof same, by_name(s, made, to, from, want));
  }
  if (!gathered || s->saved) {
    map_put_bytes(&s->memo, &there, sizeof there, made);
  }
  return made;
}
