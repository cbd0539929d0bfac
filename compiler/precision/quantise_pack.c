// quantise_pack.c: parameters that ranks store in pieces of a pack are rounded to 8 bits there, and gathered so.
//
// Where products in 8 bits are all that reads the members of a pack, every element of it is divided by the scale of the
// member that it belongs to, and rounded; the members are parts of that:
//   scale of an element = where(pos(pack) < end of the first, scale of the first, where(pos(pack) < ...))
//   amax of a member    = the largest of where(pos(pack) within it, |element|, 0)
// All of this is elementwise along the pack, or a largest number, so that a rank does it for its piece. What is
// gathered once a step is a part in front of the microbatches; else it is one where it is read, in the forward and the
// backward. The numbers are those of a parameter that is rounded by itself.
#include <string.h>

#include "compiler/precision/quantise.h"

enum { MOST_MEMBERS = 24 };  // each costs a comparison for every element
enum { MEMBERS = 256 };      // of a pack, in a number for both

// --- which packs ---

static ValueId packed(const Graph *graph, const Pack *pack) {
  const NodeList *nodes = &graph->regions.at[0].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (node->op == OP_PACK && node->axis == pack->axis && graph_producer(graph, node->operands[0])->op == OP_PARAM) {
      return node->first_result;
    }
  }
  return -1;
}

static QuantiserPack *pack_of(const Quantiser *q, Name parameter, int *member) {
  int64_t at;
  if (!parameter || !map_get(&q->member_of, map_key(parameter), &at)) {
    return NULL;
  }
  *member = (int)(at % MEMBERS);
  return &q->packs.at[at / MEMBERS];
}

// A product in 8 bits that reads a member. Of two rules, or two values that are multiplied, there would be two scales.
static bool takes(Quantiser *q, QuantiserPack *pack, int member, NodeId id) {
  const Graph *graph = q->c->graph;
  const Node *node = graph_node(graph, id);
  const ProductFormats formats = node->op == OP_DOT ? quantiser_formats(q, node) : (ProductFormats){0};
  const NodeId forward = node->backward ? node->source : id;
  const int group = formats.scaled ? (int)map_get_or(&q->group_of, (uint64_t)forward, -1) : -1;
  if (group < 0 || formats.rule->block || (pack->group[member] >= 0 && pack->group[member] != group)) {
    return false;
  }
  pack->group[member] = group;
  pack->rule[member] = formats.rule;
  return pack->rule[0] == NULL || pack->rule[0]->forward == formats.rule->forward;
}

static void find_reads(Quantiser *q, RegionId region) {
  const Graph *graph = q->c->graph;
  const NodeList *nodes = &graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (node->op == OP_MICROBATCH) {
      find_reads(q, node->region);
    }
    for (int j = 0; j < node->operand_count && !op_alias(node->op) && node->op != OP_PACK; j++) {
      int member;
      QuantiserPack *pack = pack_of(q, quantiser_parameter(graph, node->operands[j]), &member);
      if (pack && !takes(q, pack, member, nodes->at[i])) {
        pack->good = false;
      }
    }
  }
}

// Whether the packs of all that has a scale with a member of this one are rounded whole, too.
static bool goes_along(const Quantiser *q, const QuantiserPack *pack) {
  for (int i = 0; i < pack->pack->count; i++) {
    const ValueList *together = pack->group[i] < 0 ? NULL : &q->groups.at[pack->group[i]].parameters;
    for (int j = 0; together && j < together->count; j++) {
      int member;
      const QuantiserPack *other = pack_of(q, quantiser_parameter(q->c->graph, together->at[j]), &member);
      if (!other || !other->good) {
        return false;
      }
    }
    if (!together) {
      return false;
    }
  }
  return true;
}

// What packs parameters comes first, behind the parameters.
static void put_first(const Quantiser *q) {
  Graph *graph = q->c->graph;
  const NodeList old = graph_rewrite(graph, 0);
  NodeList *all = &graph->regions.at[0].nodes, packs = {0}, rest = {0};
  for (int i = 0; i < old.count; i++) {
    const Node *node = graph_node(graph, old.at[i]);
    bool first = false;
    for (int j = 0; j < q->packs.count; j++) {
      first |= q->packs.at[j].value == node->first_result && node->op == OP_PACK;
    }
    array_push(graph->arena, node->op == OP_PARAM ? all : first ? &packs : &rest, old.at[i]);
  }
  for (int i = 0; i < packs.count; i++) {
    array_push(graph->arena, all, packs.at[i]);
  }
  for (int i = 0; i < rest.count; i++) {
    array_push(graph->arena, all, rest.at[i]);
  }
}

void quantiser_find_packs(Quantiser *q) {
  Graph *graph = q->c->graph;
  q->member_of = map_create(graph->arena);
  q->parts = map_create(graph->arena);
  for (int i = 0; i < graph->packs.count && q->groups.count; i++) {
    const Pack *pack = &graph->packs.at[i];
    QuantiserPack made = {.pack = pack, .value = packed(graph, pack), .rounded = -1, .good = true};
    const bool countable = graph->axes.at[pack->axis].size <= INT32_MAX;  // positions in it tell members apart
    if (!pack->param || pack->cut || pack->count > MOST_MEMBERS || made.value < 0 || !countable) {
      continue;
    }
    made.group = ARENA_ARRAY(graph->arena, int, pack->count);
    made.rule = ARENA_ARRAY(graph->arena, const ProductRule *, pack->count);
    for (int j = 0; j < pack->count; j++) {
      made.group[j] = -1;
      map_put(&q->member_of, map_key(pack->members[j]), (int64_t)q->packs.count * MEMBERS + j);
    }
    array_push(graph->arena, &q->packs, made);
  }
  if (q->packs.count == 0) {
    return;
  }
  find_reads(q, 0);
  for (bool again = true; again;) {
    again = false;
    for (int i = 0; i < q->packs.count; i++) {
      QuantiserPack *pack = &q->packs.at[i];
      if (pack->good && !goes_along(q, pack)) {
        pack->good = false;
        again = true;
      }
    }
  }
  put_first(q);
}

bool quantiser_is_stored(const Quantiser *q, ValueId value) {
  int member;
  const QuantiserPack *pack = q->packs.count ? pack_of(q, quantiser_parameter(q->c->graph, value), &member) : NULL;
  return pack && pack->good;
}

// --- what is made of them ---

// By member: is an element of the pack of this one, or of one before it? A kernel that asks for it reckons it.
static ValueId *find_ends(Graph *graph, const Pack *pack) {
  ValueId *within = ARENA_ARRAY(graph->arena, ValueId, pack->count);
  const ValueId position = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = pack->axis});
  int64_t end = 0;
  for (int i = 0; i + 1 < pack->count; i++) {
    end += graph_elements(graph, graph_persistent(graph, pack->members[i])->shape);
    within[i] = graph_op2(graph, OP_LESS, position, graph_integer(graph, end));
  }
  return within;
}

// What the members are rounded from, as a value of this place.
static ValueId base_here(Quantiser *q, const QuantiserPack *pack) {
  Graph *graph = q->c->graph;
  const GraphPlace before = quantiser_go_in_front(graph);
  const ElementType type = graph_value(graph, q->base(q->of, pack->value))->type;
  graph_return(graph, before);
  const NodeInit init = {NODE_INIT, .text = name_of(graph->names, element_type_name(type))};
  return graph_value(graph, pack->value)->type == type ? pack->value : graph_add1(graph, OP_CAST, init, pack->value);
}

ValueId quantiser_stored_amax(Quantiser *q, ValueId value, bool here) {
  Graph *graph = q->c->graph;
  int member;
  QuantiserPack *pack = pack_of(q, quantiser_parameter(graph, value), &member);
  const MadeKey key = {
      .part = {(uint64_t)pack->value, (uint64_t)MADE_AMAX << 8 | TYPE_REAL, (uint64_t)member, 1 + (uint64_t)here}};
  int64_t known;
  if (map_get_bytes(&q->made, &key, sizeof key, &known)) {
    return (ValueId)known;
  }
  const GraphPlace before = here ? graph_place(graph) : quantiser_go_in_front(graph);
  if (!pack->within[here]) {
    pack->within[here] = find_ends(graph, pack->pack);
    pack->base[here] = here ? base_here(q, pack) : q->base(q->of, pack->value);
  }
  const ValueId *within = pack->within[here];
  ValueId size = graph_op1(graph, OP_ABS, pack->base[here]);
  const ElementType real = graph->real;
  graph->real = graph_value(graph, size)->type;
  const ValueId zero = graph_real(graph, 0);
  graph->real = real;
  if (member > 0) {
    size = graph_op3(graph, OP_WHERE, within[member - 1], zero, size);
  }
  if (member + 1 < pack->pack->count) {
    size = graph_op3(graph, OP_WHERE, within[member], size, zero);
  }
  const NodeInit all = {NODE_INIT, .axes = shape_of(pack->pack->axis)};
  const ValueId amax = graph_add1(graph, OP_REDUCE_MAX, all, size);
  graph_return(graph, before);
  map_put_bytes(&q->made, &key, sizeof key, amax);
  return amax;
}

// The whole pack, rounded.
static ValueId round_pack(Quantiser *q, QuantiserPack *pack) {
  Graph *graph = q->c->graph;
  if (pack->rounded >= 0) {
    return pack->rounded;
  }
  const GraphPlace before = quantiser_go_in_front(graph);
  const ElementType type = pack->rule[0]->forward;
  const int count = pack->pack->count;
  ValueId *scales = ARENA_ARRAY(graph->arena, ValueId, count);
  for (int i = 0; i < count; i++) {
    const ProductGroup *group = &q->groups.at[pack->group[i]];
    scales[i] = quantiser_scale_of(q, group->first, &group->parameters, type, pack->rule[i]);
  }
  const ValueId *within = find_ends(graph, pack->pack);
  ValueId scale = scales[count - 1];
  for (int i = count - 2; i >= 0; i--) {
    scale = scales[i] == scale ? scale : graph_op3(graph, OP_WHERE, within[i], scales[i], scale);
  }
  const NodeInit init = {NODE_INIT, .text = name_of(graph->names, element_type_name(type)),
                         .axes = shape_of(pack->pack->axis)};
  pack->rounded = graph_add2(graph, OP_QUANTISE, init, q->base(q->of, pack->value), scale);
  graph_return(graph, before);
  return pack->rounded;
}

ValueId quantiser_stored_rounded(Quantiser *q, ValueId value) {
  Graph *graph = q->c->graph;
  int member;
  QuantiserPack *pack = pack_of(q, quantiser_parameter(graph, value), &member);
  const bool once = pack->pack->kept == pack->pack->param;
  const Node *maker = graph_producer(graph, value);
  const bool moved = maker->op != OP_PARAM;
  const uint64_t key[] = {(uint64_t)value, once && !moved ? 0 : (uint64_t)graph->region, !once && graph->backward};
  int64_t known;
  if (map_get_bytes(&q->parts, key, sizeof key, &known)) {
    return (ValueId)known;
  }
  ValueId made;
  if (moved) {
    const ValueId from = quantiser_stored_rounded(q, maker->operands[0]);
    made = graph_node(graph, graph_clone(graph, graph_value(graph, value)->node, &from))->first_result;
    graph_value(graph, made)->type = graph_value(graph, from)->type;
  } else {
    const ValueId whole = round_pack(q, pack);
    const GraphPlace before = graph_place(graph);
    if (once) {
      quantiser_go_in_front(graph);
    }
    const NodeInit init = {NODE_INIT, .axes = graph_shape(graph, value), .axis = pack->pack->axis, .integer = member};
    graph->role = ROLE_PARAMETER;
    made = graph_add1(graph, OP_PART, init, whole);
    graph_return(graph, before);
  }
  graph_value(graph, made)->name = graph_value(graph, value)->name;
  map_put_bytes(&q->parts, key, sizeof key, made);
  return made;
}
