// shard.c: divides the work of every operation among the ranks, and adds the collectives that this takes.
//
// Needs a whole step with element types. For each mesh axis an operation gets at most one loop axis, along which the
// ranks share it: a contracted or indexed axis that a rule maps there, if its operands hold it so; else the axis that
// a rule gives the result; else what its first cut operand holds, unless a rule `-> none` takes it off there.
// Operations of the backward take the loop axes of their forward operation. Shapes stay those of the whole tensors;
// Held says which part of it a rank has.
#include <string.h>

#include "compiler/ir/attention.h"
#include "compiler/shard/shard.h"

enum { GATHER_LIMIT = 1 << 28 };  // bytes that a value may have on every rank without a rule that asks for it

// --- one node ---

// What asks for the collectives that come next.
void shard_say_why(Shard *s, const Node *node) {
  Name result = node->result_count ? graph_value(s->graph, node->first_result)->name : node->text;
  s->why = name_format(s->graph->names, "%s%s%s", op_name(node->op), result ? " " : "", result ? result : "");
  s->wish = (Cause){{0}};
}

void shard_keep_node(Shard *s, NodeId id) {
  array_push(s->graph->arena, &s->graph->regions.at[s->graph->region].nodes, id);
}

void shard_set_operand(Shard *s, NodeId id, int operand, ValueId value) {
  graph_node(s->graph, id)->operands[operand] = value;
}

void shard_remember_newest(Shard *s, ValueId old, ValueId now) {
  shard_held(s, now);
  shard_held(s, old);
  if (old != now) {
    s->newest.at[old] = now;
  }
}

// An operand as wanted. A partial sum is resolved once: what else reads the value goes on from there.
void shard_want_operand(Shard *s, NodeId id, int operand, const Held *want) {
  ValueId value = graph_node(s->graph, id)->operands[operand];
  const Held now = held_of(s, value);
  uint32_t partial = held_partial(&now) & ~held_partial(want);
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {  // what is owned is for whoever reads it so
    partial &= now.owner[m] ? ~(1u << m) : ~0u;
  }
  ValueId made = shard_reshard(s, value, want);
  if (partial && made != value) {
    shard_remember_newest(s, value, made);
  }
  shard_set_operand(s, id, operand, made);
}

// Would an operation that no rule speaks of, and that cannot be shared among the ranks, have every rank hold all of a
// large value?
static void check_gather(Shard *s, NodeId id, ValueId value, const Held *want, const Loops *loops) {
  Graph *graph = s->graph;
  const Node *node = graph_node(graph, id);
  Held now = held_of(s, value);
  for (int m = 0; m < s->mapping->count; m++) {
    AxisId axis = now.axis[m];
    bool asked = axis < 0 || want->axis[m] >= 0 || loops->axis[m] >= 0 || node->backward ||
                 op_split(graph, node, axis) || mapping_takes_off(s->mapping, selector_place(graph, node), axis, m);
    double bytes = (double)graph_elements(graph, graph_shape(graph, value)) *
                   (double)element_type_bytes(graph_value(graph, value)->type);
    for (int k = 0; k < s->mapping->count; k++) {
      bytes /= want->axis[k] >= 0 ? (double)mapping_size(s->mapping, k) : 1;
    }
    if (asked || bytes <= GATHER_LIMIT) {
      continue;
    }
    Diagnostic *error =
        diag_error(graph->diag, E044, node->span, "every rank would have to hold all %.0f MiB of '%s' along '%s' here",
                   bytes / (1 << 20), graph_value(graph, value)->name ? graph_value(graph, value)->name : "a value",
                   graph->axes.at[axis].name);
    diag_label(graph->diag, error, "'%s' needs all of the axis, and no rule asks for it to be gathered",
               op_name(node->op));
    const LayoutRule *rule = shard_cause(s, value)->rule[m];
    if (rule) {
      diag_related(graph->diag, error, rule->span, "this rule cuts the axis over the mesh");
    }
    diag_help(graph->diag, error, "map another axis in this function, or take this one off: `%s -> none;`",
              graph->axes.at[axis].name);
  }
}

// The axis that a value with this shape is cut along over a mesh axis, as an operand or result of the node; or -1.
static AxisId cut_in(const Node *node, const Loops *loops, const Shape *shape, int mesh) {
  AxisId axis = loops->axis[mesh];
  if (axis >= 0 && shape_has(shape, axis)) {
    return axis;
  }
  return loops->ring >> mesh & 1 && shape_has(shape, node->axis2) ? node->axis2 : -1;
}

// By mesh axis: over which operands stay partial, and so the result; and where it is owned, by whom.
typedef struct {
  uint32_t mesh;
  int owner[GRAPH_MAX_MESH];
} Passing;

// The owner of which an operand may be over this mesh axis: what ranks share by an index is read where that says.
static int wanted_owner(Shard *s, const Node *node, const Loops *loops, const Passing *passing, int mesh) {
  return op_indexes(node->op) && loops->axis[mesh] == node->axis ? shard_owner_of(s, node) : passing->owner[mesh];
}

static Held wanted_of(Shard *s, const Node *node, ValueId operand, const Loops *loops, const Passing *passing) {
  Held want = held_whole(), now = held_of(s, operand);
  Shape shape = graph_shape(s->graph, operand);
  int lacks = 0;  // whose parts over an outer mesh axis the operand has not
  for (int m = 0; m < s->mapping->count; m++) {
    const int owner = wanted_owner(s, node, loops, passing, m);
    want.axis[m] = cut_in(node, loops, &shape, m);
    if (owner) {
      const bool same = now.owner[m] == owner && owner != lacks;
      want.partial[m] = same ? now.partial[m] : 0;
      want.owner[m] = same ? owner : 0;
      lacks = same ? lacks : owner;
    } else if (passing->mesh >> m & 1) {
      want.partial[m] = now.partial[m] == PARTIAL_OWNED ? 1 + REDUCE_SUM : now.partial[m];
    }
  }
  shard_end_owners(&now, &want);
  return want;
}

ValueId shard_as_labelled(Shard *s, ValueId value, Name label, ScopeId scope) {
  const Held now = held_of(s, value);
  Held want = now;
  Shape shape = graph_shape(s->graph, value);
  const SelectorPlace place = {.scope = scope, .label = label};
  uint32_t asked = 0;
  s->wish = (Cause){{0}};
  for (int m = 0; m < s->mapping->count; m++) {
    const LayoutRule *rule = NULL;
    AxisId axis = s->mapping->active >> m & 1 ? mapping_label_axis(s->mapping, place, &shape, m, &rule) : -1;
    if (rule) {
      want.axis[m] = axis;
      want.partial[m] = 0;
      want.owner[m] = 0;
      s->wish.rule[m] = rule;
      asked |= 1u << m;
    } else if (want.axis[m] >= 0 && mapping_label_takes_off(s->mapping, place, want.axis[m], m)) {
      want.axis[m] = -1;
    }
  }
  shard_end_owners(&now, &want);
  shard_give_way(s, &want, asked);
  s->why = name_format(s->graph->names, "the rule for @%s", label);
  return shard_reshard(s, value, &want);
}

// A value with a rule for its label is held as the rule says, whoever reads it. Tensors and inputs are so where they
// are read: they stand outside of the microbatches, where nothing may be done to them.
static void enforce_label(Shard *s, NodeId id) {
  const Node *node = graph_node(s->graph, id);
  for (int i = 0; i < node->result_count && !shard_outside(node); i++) {
    ValueId value = node->first_result + i;
    Name label = graph_value(s->graph, value)->label;
    if (!label || node->backward) {
      continue;
    }
    ValueId made = shard_as_labelled(s, value, label, node->scope);
    if (made != value) {
      graph_value(s->graph, made)->label = label;
      graph_value(s->graph, value)->label = NULL;
      shard_remember_newest(s, value, made);
    }
    node = graph_node(s->graph, id);
  }
}

// What of its operands is as small as an index, or is a factor of a chosen product, is gathered once and kept.
static bool keeps_gathered(Shard *s, const Node *node, int operand, const Passing *passing) {
  int owner = 0;
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    owner = passing->owner[m] ? passing->owner[m] : owner;
  }
  const Shape shape = graph_shape(s->graph, node->operands[operand]);
  const Shape positions = owner ? graph_shape(s->graph, s->owners.at[owner - 1].index) : (Shape){0};
  return node->op == OP_COMPOSITE || op_chosen(node->op) || (owner && shape_contains(&positions, &shape));
}

static void hold_results(Shard *s, NodeId id, const Loops *loops, const Passing *passing) {
  const Node *node = graph_node(s->graph, id);
  const int chosen = shard_owner_of(s, node);
  for (int i = 0; i < node->result_count; i++) {
    Held *held = shard_held(s, node->first_result + i);
    const Shape shape = graph_shape(s->graph, node->first_result + i);
    *held = held_whole();
    *shard_cause(s, node->first_result + i) = loops->cause;
    for (int m = 0; m < s->mapping->count; m++) {
      held->axis[m] = cut_in(node, loops, &shape, m);
      const bool summed = loops->axis[m] >= 0 && held->axis[m] < 0;
      const bool owned = summed && loops->axis[m] == node->axis && chosen;
      held->owner[m] = owned ? chosen : passing->owner[m];
      held->partial[m] = passing->owner[m]                  ? PARTIAL_OWNED
                         : passing->mesh >> m & 1 || summed ? shard_partial_kind(node)
                                                            : 0;
    }
  }
}

// `partial`: the mesh axes over which the operands stay partial in any case.
void shard_with(Shard *s, NodeId id, uint32_t partial) {
  Graph *graph = s->graph;
  const Node *node = graph_node(graph, id);
  Loops loops = no_loops(true);
  Passing passing = {.mesh = partial};
  for (int m = 0; m < s->mapping->count; m++) {
    if (!(s->mapping->active >> m & 1)) {
      continue;
    }
    passing.owner[m] = shard_owner_passes(s, node, passing.owner, m);
    if (passing.owner[m] || passing.mesh >> m & 1 || shard_passes(s, node, m)) {
      passing.mesh |= 1u << m;
      for (int i = 0; i < node->operand_count && !loops.cause.rule[m]; i++) {
        loops.cause.rule[m] = shard_cause(s, node->operands[i])->rule[m];
      }
    } else {
      loops.axis[m] = shard_choose_loop(s, node, &loops, m);
    }
  }
  shard_ring(s, id, &loops);
  if (node->op == OP_LIMIT) {
    shard_check_limit(s, node, &loops);
  }
  shard_say_why(s, node);
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    s->wish.rule[m] = loops.axis[m] >= 0 ? loops.cause.rule[m] : NULL;
  }
  for (int i = 0; i < node->operand_count; i++) {
    Held want = wanted_of(s, node, node->operands[i], &loops, &passing);
    check_gather(s, id, node->operands[i], &want, &loops);
    s->saved = keeps_gathered(s, node, i, &passing);  // what the forward gathered is kept for the gradient
    shard_want_operand(s, id, i, &want);
    node = graph_node(graph, id);
  }
  s->saved = false;
  shard_keep_node(s, id);
  *shard_loops_of(s, id) = loops;
  hold_results(s, id, &loops, &passing);
}

// --- renames ---

// Is a part of the whole axis what a part of its major axis is made of? In a zigzag both parts are two runs.
static bool same_pieces(Shard *s, AxisId whole, AxisId major, int64_t parts) {
  const uint32_t zigzag = shard_form(s, whole)->zigzag;
  return zigzag == shard_form(s, major)->zigzag && shard_even(s, whole) && shard_even(s, major) &&
         s->graph->axes.at[major].size % (zigzag ? 2 * parts : parts) == 0;
}

// The axis of the result that is cut where the operand is cut along `axis`, or -1: it cannot stay so.
static AxisId renamed(Shard *s, const Node *node, AxisId axis, uint32_t cut) {
  int64_t parts = mapping_ranks(s->mapping, cut);
  switch (node->op) {
    case OP_RENAME:
      return axis != node->axis ? axis : shard_same_parts(s, axis, node->axis2) ? node->axis2 : -1;
    case OP_SPLIT:
      return axis != node->axis ? axis : same_pieces(s, axis, node->axes.axis[0], parts) ? node->axes.axis[0] : -1;
    case OP_MERGE:
      if (axis == node->axes.axis[0]) {
        return same_pieces(s, node->axis2, axis, parts) ? node->axis2 : -1;
      }
      return shape_has(&node->axes, axis) ? -1 : axis;
    case OP_SLICE:
      return axis == node->axis ? -1 : axis;
    default:
      return axis;
  }
}

static void shard_alias(Shard *s, NodeId id) {
  Graph *graph = s->graph;
  const Node *node = graph_node(graph, id);
  Held now = held_of(s, node->operands[0]), want = now, held = held_whole();
  bool alone = uses_of(s, node->operands[0]) == 1;
  const Loops *source = node->source >= 0 ? shard_loops_of(s, node->source) : NULL;
  uint32_t asked = 0;
  Shape shape = graph_shape(graph, node->operands[0]);
  for (int m = 0; m < s->mapping->count; m++) {
    AxisId loop = source && source->known ? source->axis[m] : -1;
    if (loop >= 0 && shape_has(&shape, loop) && op_split(graph, node, loop)) {
      want.axis[m] = loop;  // a gradient that is cut up or joined goes where its forward was
      want.partial[m] = 0;
      want.owner[m] = 0;
      asked |= 1u << m;
      continue;
    }
    uint32_t cut = held_cut(&now, now.axis[m]);
    if (now.axis[m] >= 0 && renamed(s, node, now.axis[m], cut) < 0) {
      want.axis[m] = -1;
    }
    const bool owned = now.owner[m] && shard_owner_apart(s, node, now.owner[m]);
    const uint8_t sum = now.partial[m] == PARTIAL_OWNED ? 1 + REDUCE_SUM : now.partial[m];
    want.partial[m] = owned ? now.partial[m] : alone ? sum : 0;
    want.owner[m] = owned ? now.owner[m] : 0;
  }
  shard_end_owners(&now, &want);
  shard_give_way(s, &want, asked);
  shard_say_why(s, node);
  Loops none = no_loops(true);
  check_gather(s, id, node->operands[0], &want, &none);
  shard_want_operand(s, id, 0, &want);
  node = graph_node(graph, id);
  for (int m = 0; m < s->mapping->count; m++) {
    held.axis[m] = want.axis[m] < 0 ? -1 : renamed(s, node, want.axis[m], held_cut(&want, want.axis[m]));
    held.partial[m] = want.partial[m];
    held.owner[m] = want.owner[m];
  }
  shard_keep_node(s, id);
  *shard_held(s, node->first_result) = held;  // its loops stay unknown: its gradient is a rename again
  *shard_cause(s, node->first_result) = *shard_cause(s, node->operands[0]);
}

// --- effects ---

static void shard_effect(Shard *s, NodeId id) {
  const Node *node = graph_node(s->graph, id);
  Held want = node->op == OP_ASSIGN ? held_of(s, node->operands[0]) : held_whole();
  Shape shape = graph_shape(s->graph, node->operands[node->op == OP_ASSIGN ? 1 : 0]);
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {  // what is assigned may be repeated along an axis
    want.axis[m] = want.axis[m] >= 0 && shape_has(&shape, want.axis[m]) ? want.axis[m] : -1;
  }
  shard_say_why(s, node);
  shard_want_operand(s, id, node->op == OP_ASSIGN ? 1 : 0, &want);
  shard_keep_node(s, id);
}

// --- the walk ---

static void shard_region(Shard *s, RegionId region);

// Outside of the microbatches nothing says who owns what.
static ValueId owned_by_none(Shard *s, ValueId value) {
  Held want = held_of(s, value);
  for (int m = 0; m < GRAPH_MAX_MESH; m++) {
    want.partial[m] = want.partial[m] == PARTIAL_OWNED ? 1 + REDUCE_SUM : want.partial[m];
    want.owner[m] = 0;
  }
  return shard_reshard(s, value, &want);
}

static void shard_microbatch(Shard *s, NodeId id) {
  Graph *graph = s->graph;
  RegionId outer = graph->region, inner = graph_node(graph, id)->region;
  shard_region(s, inner);
  graph->backward = true;
  for (int i = 0; i < graph_node(graph, id)->result_count; i++) {
    Name name = graph_value(graph, graph_node(graph, id)->first_result + i)->name;
    ValueId made = owned_by_none(s, newest(s, graph->regions.at[inner].results.at[i]));
    made = shard_into_stored_parts(s, name, made);
    graph->regions.at[inner].results.at[i] = made;
  }
  graph->region = outer;
  shard_keep_node(s, id);
  const Node *node = graph_node(graph, id);
  for (int i = 0; i < node->result_count; i++) {
    ValueId made = newest(s, graph->regions.at[inner].results.at[i]);
    graph->regions.at[inner].results.at[i] = made;
    *shard_held(s, node->first_result + i) = held_of(s, made);
    memset(shard_held(s, node->first_result + i)->owner, 0, sizeof((Held){0}.owner));
    *shard_cause(s, node->first_result + i) = *shard_cause(s, made);
  }
}

static void shard_node(Shard *s, NodeId id) {
  Graph *graph = s->graph;
  const Node *node = graph_node(graph, id);
  graph_follow(graph, node);
  if (shard_casts_stored(s, node)) {
    return;  // made where it is used
  }
  for (int i = 0; i < node->operand_count && node->op != OP_PACK; i++) {
    if (!(node->op == OP_ASSIGN && i == 0)) {
      s->wish = (Cause){{0}};
      bool update = node->result_count > 0 && graph_value(graph, node->first_result)->role == ROLE_UPDATE;
      ValueId operand = newest(s, node->operands[i]);
      operand = update && !shard_in_arena(s, operand) ? operand : shard_stored(s, operand);
      shard_set_operand(s, id, i, operand);
    }
    node = graph_node(graph, id);
  }
  for (int i = 0; i < node->operand_count && node->op == OP_PACK; i++) {
    shard_set_operand(s, id, i, newest(s, node->operands[i]));
  }
  if (op_given(node->op)) {
    shard_leaf(s, id);
  } else if (node->op == OP_PART) {
    shard_part(s, id);
  } else if (op_alias(node->op)) {
    shard_alias(s, id);
  } else if (node->op == OP_ADD) {
    shard_sum(s, id);
  } else if (node->op == OP_PACK) {
    shard_pack(s, id);
  } else if (op_effect(node->op)) {
    shard_effect(s, id);
  } else if (node->op == OP_MICROBATCH) {
    shard_microbatch(s, id);
  } else {
    shard_with(s, id, 0);
  }
  enforce_label(s, id);
}

static void shard_region(Shard *s, RegionId region) {
  Graph *graph = s->graph;
  const NodeList old = graph_rewrite(graph, region);
  shard_find_deferred(s, &old);
  shard_find_placed(s, &old);
  for (int i = 0; i < old.count; i++) {
    const Node *node = graph_node(graph, old.at[i]);
    if (node->result_count == 1 && s->deferred[node->first_result]) {
      continue;
    }
    shard_node(s, old.at[i]);
  }
}

static void count_uses(Shard *s) {
  Graph *graph = s->graph;
  s->limit = graph->values.count;
  s->uses = ARENA_ARRAY(s->c->arena, int, s->limit + 1);
  s->deferred = ARENA_ARRAY(s->c->arena, bool, s->limit + 1);
  s->placed = ARENA_ARRAY(s->c->arena, bool, s->limit + 1);
  for (int r = 0; r < graph->regions.count; r++) {
    const Region *region = &graph->regions.at[r];
    for (int i = 0; i < region->nodes.count; i++) {
      const Node *node = graph_node(graph, region->nodes.at[i]);
      for (int j = 0; j < node->operand_count; j++) {
        s->uses[node->operands[j]]++;
      }
    }
    for (int i = 0; i < region->results.count; i++) {
      s->uses[region->results.at[i]]++;
    }
  }
}

// Writes how values are held into the graph.
static void record(Shard *s) {
  Graph *graph = s->graph;
  for (int v = 0; v < graph->values.count; v++) {
    Held held = held_of(s, v);
    shard_check_forms(s, v);
    Sharding sharding = {0};
    ShardEntry entries[GRAPH_MAX_MESH];
    Name partial[GRAPH_MAX_MESH];
    for (int m = 0; m < s->mapping->count; m++) {
      Name mesh = s->mapping->spec->mesh[m].name;
      if (held.axis[m] >= 0) {
        bool zigzag = shard_form(s, held.axis[m])->zigzag >> m & 1;
        entries[sharding.entry_count++] = (ShardEntry){held.axis[m], mesh, zigzag, 0};
      }
      if (held.partial[m]) {
        partial[sharding.partial_count++] = mesh;
      }
    }
    if (sharding.entry_count + sharding.partial_count) {
      sharding.entries = arena_copy(graph->arena, entries, sizeof *entries * (size_t)sharding.entry_count);
      sharding.partial = arena_copy(graph->arena, partial, sizeof *partial * (size_t)sharding.partial_count);
      graph_value(graph, v)->sharding = arena_copy(graph->arena, &sharding, sizeof sharding);
    }
  }
}

static void collect_attention(Shard *s, RegionId region, NodeList *found) {
  const NodeList nodes = s->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes.count; i++) {
    const Node *node = graph_node(s->graph, nodes.at[i]);
    if (node->op == OP_MICROBATCH) {
      collect_attention(s, node->region, found);
    } else if (is_attention(node) && !node->backward) {
      array_push(s->graph->arena, found, nodes.at[i]);
    }
  }
}

bool pass_shard(Compilation *c) {
  Graph *graph = c->graph;
  Shard s = {.c = c, .graph = graph, .mapping = mapping_create(c->arena, graph, c->spec)};
  int errors = c->diag->reports;
  if (!s.mapping->active) {
    shard_check_rules(&s);
    pass_changed_nothing(c);
    return c->diag->reports == errors;
  }
  s.memo = map_create(c->arena);
  s.again = map_create(c->arena);
  s.pieces = map_create(c->arena);
  s.parts = map_create(c->arena);
  shard_forms_find(&s);
  if (c->diag->reports > errors) {
    return false;
  }
  NodeList rings = {0};
  collect_attention(&s, 0, &rings);
  shard_stored_parameters(&s);
  shard_stored_gradients(&s);
  count_uses(&s);
  shard_hold_unread(&s);
  shard_owners_find(&s);
  shard_rows_find(&s);
  shard_region(&s, 0);
  graph->region = 0;
  graph->backward = false;
  graph->source = -1;
  shard_check_rings(&s, &rings);
  if (c->diag->reports == errors) {
    shard_check_rules(&s);
    record(&s);
    graph_remove_dead(graph);  // what one of several forms of a value was made of, which stages would send
  }
  c->shard = arena_copy(c->arena, &s, sizeof s);
  return c->diag->reports == errors;
}
