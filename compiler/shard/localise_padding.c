// localise_padding.c: padding that must hold something is made to hold it, by the rules of padding.h.
#include <math.h>
#include <string.h>

#include "compiler/ir/padding.h"
#include "compiler/shard/localise.h"

const Pack *localise_pack(const Graph *graph, AxisId axis) {
  for (int i = 0; i < graph->packs.count; i++) {
    if (graph->packs.at[i].axis == axis) {
      return &graph->packs.at[i];
    }
  }
  return NULL;
}

bool localise_padded(const Localise *l, AxisId local) {
  const Axis *at = &l->graph->axes.at[local];
  return at->whole >= 0 && !localise_pack(l->graph, at->whole) &&
         at->size * mapping_ranks(l->shard->mapping, at->mesh) != l->graph->axes.at[at->whole].size;
}

// Pieces of a pack are of one size: do some end behind its members?
static bool pack_padded(Localise *l, AxisId local) {
  const Axis *at = &l->graph->axes.at[local];
  const Pack *pack = at->whole >= 0 ? localise_pack(l->graph, at->whole) : NULL;
  return pack && at->size * mapping_ranks(l->shard->mapping, at->mesh & ~pack->cut) != localise_members(l, pack);
}

// A pack holds the padding of its members.
static bool has_padded_member(const Localise *l, AxisId axis) {
  const Pack *pack = localise_pack(l->graph, axis_whole(l->graph, axis));
  for (int i = 0; pack && i < pack->count; i++) {
    const Persistent *member = graph_persistent(l->graph, pack->members[i]);
    Held held = held_whole();
    mapping_parameter(l->shard->mapping, member, held.axis);
    for (int a = 0; a < member->shape.count; a++) {
      AxisId at = member->shape.axis[a];
      uint32_t cut = held_cut(&held, at);
      if (shard_part_size(l->shard, at, cut) * mapping_ranks(l->shard->mapping, cut) != l->graph->axes.at[at].size) {
        return true;
      }
    }
  }
  return false;
}

// --- what padding holds ---

static PaddingContent content_of(Localise *l, ValueId value, AxisId axis);

static bool along_pack(const Localise *l, AxisId axis) {
  return localise_pack(l->graph, axis_whole(l->graph, axis)) != NULL;
}

// What an operand without the axis holds. In an update it is a number that all elements meet alike. Elsewhere it may be
// of those that only padding meets: what a `where` keeps from all that is real may be infinite there.
static PaddingContent content_without(const Localise *l, ValueId value, AxisId axis) {
  const Node *maker = graph_producer(l->graph, value);
  if (maker && maker->op == OP_CONST) {
    bool zero = !(maker->number < 0) && !(maker->number > 0) && !isnan(maker->number);
    return zero ? PADDING_ZERO : isfinite(maker->number) ? PADDING_FINITE : PADDING_ANY;
  }
  return along_pack(l, axis) ? PADDING_FINITE : PADDING_ANY;
}

static void contents_of(Localise *l, const Node *node, AxisId axis, PaddingContent *contents) {
  for (int i = 0; i < node->operand_count; i++) {
    Shape shape = graph_shape(l->graph, node->operands[i]);
    contents[i] =
        shape_has(&shape, axis) ? content_of(l, node->operands[i], axis) : content_without(l, node->operands[i], axis);
  }
}

static PaddingContent content_of_node(Localise *l, const Node *node, int result, AxisId axis) {
  if (op_body(node->op)) {
    return content_of(l, l->graph->regions.at[node->region].results.at[result], axis);
  }
  const Pack *pack =
      op_collective(node->op) || node->op == OP_SHARD ? localise_pack(l->graph, axis_whole(l->graph, axis)) : NULL;
  if (pack) {  // pieces of packs hold what the pack does
    return content_of(l, node->operands[0], graph_shape(l->graph, node->operands[0]).axis[0]);
  }
  PaddingContent *contents = ARENA_ARRAY(l->c->arena, PaddingContent, node->operand_count + 1);
  AxisId before = node->op == OP_RENAME && axis == node->axis2 ? node->axis : axis;
  contents_of(l, node, before, contents);
  const PaddingRule *rule = op_padding(node->op);
  for (int i = 0; i < node->operand_count; i++) {  // what it must be it is made to be
    Shape shape = graph_shape(l->graph, node->operands[i]);
    bool zero = shape_has(&shape, before) && rule->need(l->graph, node, i, before, contents) == PADDING_NEEDS_ZERO;
    contents[i] = zero ? PADDING_ZERO : contents[i];
  }
  return rule->content(l->graph, node, axis, contents);
}

static PaddingContent content_of(Localise *l, ValueId value, AxisId axis) {
  int64_t known;
  if (map_get_bytes(&l->contents, MAP_KEY((uint64_t)value, (uint64_t)axis), &known)) {
    return (PaddingContent)known;
  }
  const Value *at = graph_value(l->graph, value);
  PaddingContent content =
      at->node < 0 ? PADDING_ANY : content_of_node(l, graph_node(l->graph, at->node), at->result, axis);
  content = content == PADDING_FINITE && !along_pack(l, axis) ? PADDING_ANY : content;
  map_put_bytes(&l->contents, MAP_KEY((uint64_t)value, (uint64_t)axis), content);
  return content;
}

// --- masks ---

// Which elements of a rank's piece of a pack are of its members? The last pieces may have some or none. Counted within
// a piece: those of all ranks together may be more than an int counts.
static ValueId of_members(Localise *l, ValueId inside, AxisId local, const Pack *pack) {
  Graph *graph = l->graph;
  const Axis at = graph->axes.at[local];
  const int64_t members = localise_members(l, pack), full = members / at.size;
  const ValueId place = localise_place(l, at.mesh & ~pack->cut, 1), rest = graph_integer(graph, members % at.size);
  if (place < 0) {
    return graph_op2(graph, OP_LESS, inside, graph_integer(graph, members));
  }
  const ValueId last = graph_op2(graph, OP_EQUAL, place, graph_integer(graph, full));
  const ValueId some = graph_op3(graph, OP_WHERE, last, rest, graph_integer(graph, 0));
  const ValueId before = graph_op2(graph, OP_LESS, place, graph_integer(graph, full));
  return graph_op2(graph, OP_LESS, inside, graph_op3(graph, OP_WHERE, before, graph_integer(graph, at.size), some));
}

// The value with `filling` where the axis is padding.
static ValueId fill_padding(Localise *l, ValueId value, AxisId local, double filling) {
  Graph *graph = l->graph;
  const AxisId whole = graph->axes.at[local].whole;
  const Pack *pack = localise_pack(graph, whole);
  // An axis of samples is padded behind those of each microbatch.
  ValueId inside = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = local, .integer = 1});
  ValueId real = pack ? of_members(l, inside, local, pack)
                      : graph_op2(graph, OP_LESS, graph_op2(graph, OP_ADD, inside, localise_offset(l, local)),
                                  graph_integer(graph, graph->axes.at[whole].size));
  ElementType type = graph->real;
  graph->real = graph_value(graph, value)->type;
  ValueId made = graph_op3(graph, OP_WHERE, real, value, graph_real(graph, filling));
  graph->real = type;
  Value *filled = graph_value(graph, made), *from = graph_value(graph, value);
  filled->role = from->role;
  filled->name = from->name;
  return made;
}

static ValueId masked(Localise *l, ValueId value, AxisId local, double neutral) {
  uint64_t key[4] = {(uint64_t)value, (uint64_t)local, 0, (uint64_t)l->graph->region};
  memcpy(&key[2], &neutral, sizeof neutral);
  int64_t known;
  if (map_get_bytes(&l->masked, key, sizeof key, &known)) {
    return (ValueId)known;
  }
  ValueId made = fill_padding(l, value, local, neutral);
  map_put_bytes(&l->masked, key, sizeof key, made);
  bool zero = neutral == 0.0;
  map_put_bytes(&l->contents, MAP_KEY((uint64_t)made, (uint64_t)local), zero ? PADDING_ZERO : PADDING_ANY);
  return made;
}

// An update of many parameters at once must leave zeros in the padding of each.
static void check_packed(Localise *l, const Node *node) {
  Graph *graph = l->graph;
  const Node *target = node->op == OP_ASSIGN ? graph_producer(graph, node->operands[0]) : NULL;
  if (!target || target->op != OP_PACK || !has_padded_member(l, target->axis)) {
    return;
  }
  const Node *first = graph_producer(graph, target->operands[0]);
  bool zeros = content_of(l, node->operands[0], target->axis) == PADDING_ZERO;
  Shape shape = graph_shape(graph, node->operands[1]);
  if (!zeros || (shape.count == 1 && content_of(l, node->operands[1], shape.axis[0]) == PADDING_ZERO)) {
    return;
  }
  Diagnostic *error =
      diag_error(graph->diag, E042, node->span,
                 "the update of '%s' puts something else than zeros where an axis is padded", first->text);
  diag_label(graph->diag, error, "of a parameter, gradient and state of zeros it must make zeros");
  diag_help(graph->diag, error, "do without `(pad)` for the axes of this parameter, or change the update");
}

// So must a sum over them meet zeros there. Said once: one total is a sum over each pack.
static void report_summed(Localise *l, const Node *node, AxisId local) {
  if (l->told) {
    return;
  }
  l->told = true;
  const Pack *pack = localise_pack(l->graph, axis_whole(l->graph, local));
  Diagnostic *error =
      diag_error(l->graph->diag, E042, node->span,
                 "the update sums up something else than zeros where an axis of '%s' is padded", pack->members[0]);
  diag_label(l->graph->diag, error, "of a parameter and a gradient of zeros it must sum up zeros");
  diag_help(l->graph->diag, error, "do without `(pad)` for the axes of this parameter, or change the update");
}

// What is assigned may be repeated along an axis, but not into its padding.
static void mask_repeated(Localise *l, NodeId id) {
  const Node *node = graph_node(l->graph, id);
  const Node *target = node->op == OP_ASSIGN ? graph_producer(l->graph, node->operands[0]) : NULL;
  const Shape to = target && target->op != OP_PACK ? graph_shape(l->graph, node->operands[0]) : (Shape){0};
  for (int a = 0; a < to.count; a++) {
    const ValueId value = graph_node(l->graph, id)->operands[1];
    const Shape shape = graph_shape(l->graph, value);
    const Node *maker = graph_producer(l->graph, value);
    const bool zero = maker && maker->op == OP_CONST && !(maker->number < 0) && !(maker->number > 0);
    if (!zero && !shape_has(&shape, to.axis[a]) && localise_padded(l, to.axis[a])) {
      const ValueId made = masked(l, value, to.axis[a], 0);
      graph_node(l->graph, id)->operands[1] = made;
    }
  }
}

static double neutral_of(PaddingNeed need) {
  return need == PADDING_NEEDS_ZERO     ? 0
         : need == PADDING_NEEDS_ONE    ? 1
         : need == PADDING_NEEDS_LOWEST ? -INFINITY
                                        : INFINITY;
}

static void mask_operand(Localise *l, NodeId id, int operand, AxisId axis, PaddingContent *contents) {
  Graph *graph = l->graph;
  const Node *node = graph_node(graph, id);
  const bool packed = along_pack(l, axis), behind = packed && pack_padded(l, axis);
  if (packed ? !behind && !op_reduction(node->op) : !localise_padded(l, axis)) {
    return;
  }
  contents_of(l, node, axis, contents);
  const PaddingNeed need = op_padding(node->op)->need(graph, node, operand, axis, contents);
  if (need == PADDING_NEVER && !packed) {
    diag_error(graph->diag, E099, node->span, "'%s' meets padding along '%s'", op_name(node->op),
               graph->axes.at[axis].name);
  }
  const bool holds = need == PADDING_FREE || (need == PADDING_NEVER && packed) ||
                     (need == PADDING_NEEDS_ZERO && contents[operand] == PADDING_ZERO);
  if (holds || !element_type_floating(graph_value(graph, node->operands[operand])->type)) {
    return;
  }
  if (packed && op_reduction(node->op) && has_padded_member(l, axis)) {
    report_summed(l, node, axis);
  } else if (!packed || behind) {
    const ValueId made = masked(l, node->operands[operand], axis, neutral_of(need));
    graph_node(graph, id)->operands[operand] = made;
  }
}

// A parameter out of a pack is read behind what masks the pack, as it is kept: so what another stage is sent of it, and
// keeps too, is one value.
static void mask_parted(Localise *l, NodeId id) {
  const Node *node = graph_node(l->graph, id);
  const ValueId pack = node->op == OP_PART ? node->operands[0] : -1;
  const Shape shape = pack >= 0 ? graph_shape(l->graph, pack) : (Shape){0};
  if (shape.count == 1 && along_pack(l, shape.axis[0]) && pack_padded(l, shape.axis[0]) &&
      !has_padded_member(l, shape.axis[0]) && content_of(l, pack, shape.axis[0]) != PADDING_ZERO &&
      element_type_floating(graph_value(l->graph, pack)->type)) {
    const ValueId made = masked(l, pack, shape.axis[0], 0);
    graph_node(l->graph, id)->operands[0] = made;
  }
}

// What a pack is to hold is masked in pieces, before ranks gather it: so it is one value that the pack holds and that
// other stages are sent.
static void mask_gathered(Localise *l, NodeId id) {
  const Node *node = graph_node(l->graph, id);
  if (!op_collective(node->op) || !map_get_or(&l->stored, (uint64_t)node->first_result, false)) {
    return;
  }
  const ValueId piece = node->operands[0];
  const AxisId axis = graph_shape(l->graph, piece).axis[0];
  const AxisId gathered = graph_shape(l->graph, node->first_result).axis[0];
  const bool gathers = l->graph->axes.at[axis].size < l->graph->axes.at[gathered].size;
  if (gathers && along_pack(l, axis) && pack_padded(l, axis) && !has_padded_member(l, axis) &&
      content_of(l, piece, axis) != PADDING_ZERO && element_type_floating(graph_value(l->graph, piece)->type)) {
    const ValueId made = masked(l, piece, axis, 0);
    graph_node(l->graph, id)->operands[0] = made;
  }
}

void localise_mask(Localise *l, NodeId id) {
  Graph *graph = l->graph;
  check_packed(l, graph_node(graph, id));
  mask_repeated(l, id);
  mask_gathered(l, id);
  mask_parted(l, id);
  const int count = graph_node(graph, id)->operand_count;
  PaddingContent *contents = ARENA_ARRAY(l->c->arena, PaddingContent, count + 1);
  for (int i = 0; i < count; i++) {
    const Shape shape = graph_shape(graph, graph_node(graph, id)->operands[i]);
    for (int a = 0; a < shape.count; a++) {
      mask_operand(l, id, i, shape.axis[a], contents);
    }
  }
}

ValueId localise_poisoned(const Localise *l, ValueId value) {
  return (ValueId)map_get_or(&l->poisoned, (uint64_t)value, value);
}

// What regions return was poisoned inside, and between segments there is nothing to compute with. Tensors that are kept
// stay what they are, and so does what all microbatches share: outside of them nothing is computed for them.
void localise_poison(Localise *l, NodeId id) {
  Graph *graph = l->graph;
  const Op op = graph_node(graph, id)->op;
  const bool poison = l->c->poison && !l->within && !op_body(op) && op != OP_STATE &&
                      !(graph->region == 0 && (graph->slots > 1 || l->c->tenancy));
  for (int i = 0; poison && i < graph_node(graph, id)->result_count; i++) {
    const ValueId value = graph_node(graph, id)->first_result + i;
    const Shape shape = graph_shape(graph, value);
    ValueId made = value;
    for (int a = 0; a < shape.count && element_type_floating(graph_value(graph, value)->type); a++) {
      const bool any = localise_padded(l, shape.axis[a]) && content_of(l, value, shape.axis[a]) == PADDING_ANY;
      made = any ? fill_padding(l, made, shape.axis[a], (double)NAN) : made;
    }
    if (made != value) {
      map_put(&l->poisoned, (uint64_t)value, made);
    }
  }
}
