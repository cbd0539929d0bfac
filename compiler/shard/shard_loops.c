// shard_loops.c: along which axis the ranks of each mesh axis share the work of an operation.
#include <string.h>

#include "compiler/ir/attention.h"
#include "compiler/ir/samples.h"
#include "compiler/shard/shard.h"

// --- loop axes ---

Loops *shard_loops_of(Shard *s, NodeId id) {
  while (s->loops.count <= id) {
    array_push(s->graph->arena, &s->loops, no_loops(false));
  }
  return &s->loops.at[id];
}

static bool in_space(const Graph *graph, const Node *node, AxisId axis) {
  for (int i = 0; i < node->operand_count; i++) {
    Shape shape = graph_shape(graph, node->operands[i]);
    if (shape_has(&shape, axis)) {
      return true;
    }
  }
  for (int i = 0; i < node->result_count; i++) {
    Shape shape = graph_shape(graph, node->first_result + i);
    if (shape_has(&shape, axis)) {
      return true;
    }
  }
  return false;
}

// An axis that is split into blocks, or that numbers the blocks, in place of the other one where a node has that.
static AxisId in_blocks(const Graph *graph, const Node *node, AxisId axis) {
  const AxisId whole = graph->axes.at[axis].blocks_of;
  if (in_space(graph, node, axis) || (whole >= 0 && in_space(graph, node, whole))) {
    return in_space(graph, node, axis) ? axis : whole;
  }
  for (AxisId other = 0; other < graph->axes.count; other++) {
    const AxisId of = graph->axes.at[other].blocks_of;
    if (of >= 0 && (of == axis || of == whole) && in_space(graph, node, other)) {
      return other;
    }
  }
  return axis;
}

// The mesh axes before this one that cut the axis.
static uint32_t cut_before(const Loops *loops, AxisId axis, int mesh) {
  uint32_t others = 0;
  for (int m = 0; m < mesh; m++) {
    others |= loops->axis[m] == axis ? 1u << m : 0;
  }
  return others;
}

// --- blocks that have one scale ---

static bool has_blocks(const Graph *graph, const Node *node) {
  return node->op == OP_SCALED_DOT && graph_shape(graph, node->operands[2]).count > 0;
}

// Is the axis, of a product, one of which each block of an operand has all?
static bool inside_blocks(const Graph *graph, const Node *node, AxisId axis) {
  bool inside = false;
  for (int i = 0; i < 2 && has_blocks(graph, node); i++) {
    const Shape of = graph_shape(graph, node->operands[i]), scales = graph_shape(graph, node->operands[2 + i]);
    inside |= shape_has(&of, axis) && !shape_has(&scales, axis);
  }
  return inside;
}

// A rule would have ranks share a product in pieces of blocks: rather than multiply all of it on every rank.
static void check_blocks(Shard *s, const Node *node, const Loops *loops, AxisId axis, int mesh) {
  const LayoutRule *rule = loops->cause.rule[mesh];
  const bool inside = inside_blocks(s->graph, node, axis);
  const bool cut =
      s->graph->axes.at[axis].blocks_of >= 0 && !shard_divides(s, axis, cut_before(loops, axis, mesh) | 1u << mesh);
  if (rule && has_blocks(s->graph, node) && (inside || cut)) {
    shard_report_blocks(s, axis, inside ? 1 : s->graph->axes.at[axis].size, mesh, rule, node->span);
  }
}

static bool may_loop(Shard *s, const Node *node, const Loops *loops, AxisId axis, int mesh) {
  if (axis < 0 || !in_space(s->graph, node, axis) || !op_split(s->graph, node, axis)) {
    return false;
  }
  uint32_t others = cut_before(loops, axis, mesh);
  bool zigzag = shard_form(s, axis)->zigzag != 0;
  // Where its part begins is what the result depends on, and for a zigzag that is no one place.
  const bool indexes = op_indexes(node->op) && node->axis == axis;
  // Queries that are cut in a zigzag and then once more begin where no sum over the coordinates says.
  bool again = zigzag && others && is_attention(node) && axis == node->axis;
  return shard_divides(s, axis, others | 1u << mesh) && !(zigzag && (op_placed(node->op) || indexes)) && !again &&
         !inside_blocks(s->graph, node, axis);
}

static Shape contracted_axes(const Node *node) {
  if (op_reduction(node->op) || op_dots(node->op)) {
    return node->axes;
  }
  const Shape indexed = shape_of(node->axis);
  return node->op == OP_TAKE ? indexed : node->op == OP_CHOSEN_DOT ? shape_union(node->axes, &indexed) : (Shape){0};
}

// Do all operands that have the axis hold their parts of it?
static bool held_so(Shard *s, const Node *node, AxisId axis, int mesh) {
  for (int i = 0; i < node->operand_count; i++) {
    Shape shape = graph_shape(s->graph, node->operands[i]);
    if (shape_has(&shape, axis) && held_of(s, node->operands[i]).axis[mesh] != axis) {
      return false;
    }
  }
  return true;
}

// Is the axis, made of samples, one along which the node looks something up in less than it makes of it? Ranks gather
// that rather than add up what each has found.
static bool looks_up_less(Shard *s, const Node *node, AxisId axis) {
  return op_indexes(node->op) && node->result_count == 1 && node->axis == axis && axis < s->rows_limit &&
         s->of_rows[axis] &&
         graph_elements(s->graph, graph_shape(s->graph, node->operands[0])) <=
             graph_elements(s->graph, result_shape(s->graph, node));
}

static AxisId by_operands(Shard *s, const Node *node, Loops *loops, int mesh) {
  for (int i = 0; i < node->operand_count; i++) {
    AxisId axis = held_of(s, node->operands[i]).axis[mesh];
    if (axis >= 0 &&
        (looks_up_less(s, node, axis) || mapping_takes_off(s->mapping, selector_place(s->graph, node), axis, mesh))) {
      continue;
    }
    if (may_loop(s, node, loops, axis, mesh)) {
      loops->cause.rule[mesh] = shard_cause(s, node->operands[i])->rule[mesh];
      return axis;
    }
  }
  return -1;
}

// What numbers the elements of a pack numbers those of the pieces of its parameters that ranks store.
static AxisId by_pack(Shard *s, const Node *node, int mesh) {
  const Pack *pack = node->op == OP_POSITION ? shard_pack_along(s, node->axis) : NULL;
  return pack && pack->param >> mesh & 1 ? node->axis : -1;
}

// Of what an axis is made of by a rename, a merge or a split. `major`: only that which keeps parts of samples together.
static bool made_of_rows(const Shard *s, const Node *node, bool major) {
  const bool *of = major ? s->of_rows : s->has_rows;
  bool made = node->op != OP_MERGE && of[node->axis];
  for (int i = 0; node->op == OP_MERGE && i < (major ? 1 : node->axes.count); i++) {
    made = made || of[node->axes.axis[i]];
  }
  return made;
}

static void note_rows(Shard *s, RegionId region) {
  const NodeList *nodes = &s->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(s->graph, nodes->at[i]);
    const bool splits = node->op == OP_SPLIT;
    if (splits || node->op == OP_RENAME || node->op == OP_MERGE) {
      const bool major = made_of_rows(s, node, true), some = made_of_rows(s, node, false);
      s->of_rows[splits ? node->axes.axis[0] : node->axis2] |= major;
      for (int j = 0; j < (splits ? node->axes.count : 1); j++) {
        s->has_rows[splits ? node->axes.axis[j] : node->axis2] |= some;
      }
    }
    if (node->region >= 0) {
      note_rows(s, node->region);
    }
  }
}

void shard_rows_find(Shard *s) {
  s->rows = samples_rows(s->graph);
  s->rows_limit = s->graph->axes.count;
  s->of_rows = ARENA_ARRAY(s->graph->arena, bool, s->rows_limit + 1);
  s->has_rows = ARENA_ARRAY(s->graph->arena, bool, s->rows_limit + 1);
  if (s->rows >= 0) {
    s->of_rows[s->rows] = s->has_rows[s->rows] = true;
    note_rows(s, 0);
    s->mapping->rows = s->rows;
    s->mapping->of_rows = s->of_rows;
    s->mapping->rows_limit = s->rows_limit;
  }
}

// The axis of these that rules cut over the mesh axis, or -1. What rules say of samples they say of the axis that
// stands in their place, if no rule that weighs more is for another one.
static AxisId ruled(Shard *s, SelectorPlace place, Shape axes, int mesh, const LayoutRule **rule) {
  const AxisId instead = mapping_of_rows(s->mapping, &axes);
  const AxisId axis = mapping_axis(s->mapping, place, &axes, mesh, rule);  // a rule of its own is one that cuts
  if (instead < 0 || axis == instead) {
    return axis;
  }
  const LayoutRule *found = NULL;
  const Shape rows = shape_of(s->rows), all = shape_union(axes, &rows);
  if (mapping_axis(s->mapping, place, &all, mesh, &found) != s->rows ||
      mapping_keeps_whole(s->mapping, place, instead, mesh)) {
    return axis;
  }
  *rule = found;
  return instead;
}

void shard_check_limit(Shard *s, const Node *node, const Loops *loops) {
  const Shape positions = graph_shape(s->graph, node->operands[0]), rows = shape_of(s->rows);
  bool samples = false;
  for (int i = 0; i < positions.count; i++) {
    samples = samples || (positions.axis[i] < s->rows_limit && s->has_rows[positions.axis[i]]);
  }
  for (int m = 0; samples && m < s->mapping->count; m++) {
    if (!(s->mapping->active >> m & 1) || loops->axis[m] >= 0 ||
        mapping_axis(s->mapping, selector_place(s->graph, node), &rows, m, NULL) != s->rows) {
      continue;
    }
    Diagnostic *note = diag_note(s->graph->diag, E037, node->span,
                                 "the capacity counts here what all ranks of '%s' choose together, and not each for "
                                 "itself as microbatches do",
                                 mapping_names(s->mapping, 1u << m));
    diag_help(s->graph->diag, note,
              "'%s' is cut over it, and no axis of these positions is; let theirs begin with it, as in `x[(%s, seq) -> "
              "tokens]`, or cut one by a rule",
              s->graph->axes.at[s->rows].name, s->graph->axes.at[s->rows].name);
    return;
  }
}

AxisId shard_choose_loop(Shard *s, const Node *node, Loops *loops, int mesh) {
  const LayoutRule **rule = &loops->cause.rule[mesh];
  const Loops *source = node->source >= 0 ? shard_loops_of(s, node->source) : NULL;
  if (source && source->known) {
    const AxisId of = source->axis[mesh], axis = of < 0 ? of : in_blocks(s->graph, node, of);
    if (axis >= 0 && !in_space(s->graph, node, axis)) {
      return by_operands(s, node, loops, mesh);
    }
    *rule = source->cause.rule[mesh];
    if (axis < 0 || may_loop(s, node, loops, axis, mesh)) {
      return axis;
    }
    check_blocks(s, node, loops, axis, mesh);
    return -1;
  }
  SelectorPlace place = selector_place(s->graph, node);
  Shape contracted = contracted_axes(node), result = result_shape(s->graph, node);
  // A table that is looked up along an axis made of samples is gathered where it is smaller than what is made of it.
  AxisId axis = contracted.count == 1 && looks_up_less(s, node, contracted.axis[0])
                    ? mapping_axis(s->mapping, place, &contracted, mesh, rule)
                    : ruled(s, place, contracted, mesh, rule);
  if (may_loop(s, node, loops, axis, mesh) && held_so(s, node, axis, mesh)) {
    return axis;
  }
  if (axis >= 0) {
    check_blocks(s, node, loops, axis, mesh);
  }
  axis = ruled(s, place, result, mesh, rule);
  if (axis >= 0) {
    check_blocks(s, node, loops, axis, mesh);
  }
  if (axis >= 0 && *rule && s->graph->axes.at[axis].name == (*rule)->axis) {
    shard_check_size(s, *rule, axis, cut_before(loops, axis, mesh) | 1u << mesh, mesh);
  }
  if (may_loop(s, node, loops, axis, mesh)) {
    return axis;
  }
  *rule = NULL;
  axis = by_pack(s, node, mesh);
  return axis >= 0 ? axis : by_operands(s, node, loops, mesh);
}

// --- partial sums that pass through ---

_Static_assert((int)COMBINE_BY_LARGEST == (int)REDUCE_MAX && (int)COMBINE_BY_SMALLEST == (int)REDUCE_MIN,
               "what parts become has one numbering");

// Of what kind a result is partial: of the largest of parts the larger one may be found before the largest of all
// ranks.
uint8_t shard_partial_kind(const Node *node) {
  return (uint8_t)(1 + (int)op_combine(node->op));
}

// How many values a sum adds up that each stand in one place of this axis alone, with nothing else beside them; 0:
// others.
static int count_placed(const Shard *s, ValueId sum, AxisId axis, bool whole) {
  const Node *node = graph_producer(s->graph, sum);
  if (node && node->op == OP_ADD && (whole || s->deferred[sum])) {
    const int b = count_placed(s, node->operands[1], axis, false);  // x = x + y: the sums before are the other one
    const int a = b ? count_placed(s, node->operands[0], axis, false) : 0;
    return a ? a + b : 0;
  }
  return node && node->op == OP_PAD && node->axis < 0 && node->axis2 == axis && s->uses[sum] == 1;
}

static void mark_placed(const Shard *s, ValueId sum) {
  const Node *node = graph_producer(s->graph, sum);
  for (int i = 0; node->op == OP_ADD && i < 2; i++) {
    mark_placed(s, node->operands[i]);
  }
  s->placed[sum] = node->op == OP_PAD;
}

void shard_find_placed(Shard *s, const NodeList *nodes) {
  const Graph *graph = s->graph;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    const Shape shape = node->op == OP_ADD ? graph_shape(graph, node->first_result) : (Shape){0};
    for (int j = 0; j < shape.count && !s->deferred[node->first_result]; j++) {
      if (count_placed(s, node->first_result, shape.axis[j], true) == graph->axes.at[shape.axis[j]].size) {
        mark_placed(s, node->first_result);
      }
    }
  }
}

// Is the result, of a partial sum in the place of this operand, a partial sum? Only of what is fused: what a product or
// a lookup makes of parts, every rank would make in vain.
static bool passes(const Node *node, int operand) {
  return (op_fusable(node->op) || node->op == OP_PAD) && op_linear_in(node->op, operand);
}

// May the partial operand stay so over this mesh axis, the result being partial instead?
bool shard_passes(Shard *s, const Node *node, int mesh) {
  Graph *graph = s->graph;
  if (op_combines(node->op)) {
    bool all = true;
    for (int i = 0; i < 2; i++) {
      bool alone = uses_of(s, node->operands[i]) == 1;
      all = all && alone && held_of(s, node->operands[i]).partial[mesh] == shard_partial_kind(node);
    }
    return all && same_shape(graph, node->operands[0], node->operands[1]);
  }
  Shape result = result_shape(graph, node);
  int partial = -1;
  for (int i = 0; i < node->operand_count; i++) {
    Held held = held_of(s, node->operands[i]);
    if (held.partial[mesh]) {
      bool alone = uses_of(s, node->operands[i]) == 1 && partial < 0;
      const bool placed = node->first_result < s->limit && s->placed[node->first_result];
      bool smaller = node->op == OP_PUT ||  // of a parameter's gradient, which is summed with all others
                     placed ||
                     graph_elements(graph, result) <= graph_elements(graph, graph_shape(graph, node->operands[i]));
      const bool sum = held.partial[mesh] == 1 + REDUCE_SUM || held.partial[mesh] == PARTIAL_OWNED;
      if (!sum || !alone || !smaller || !passes(node, i)) {
        return false;
      }
      partial = i;
    } else if (held.axis[mesh] >= 0) {
      return false;
    }
  }
  return partial >= 0;
}
