// shard_leaf.c: how parameters, states and inputs are held, by the rules for their axes and for what is stored.
#include <string.h>

#include "compiler/shard/shard.h"

// --- leaves ---

// By the rules for its axes.
static Held leaf_held(Shard *s, SelectorPlace place, const Shape *shape, Cause *cause) {
  Held held = held_whole();
  for (int m = 0; m < s->mapping->count && shape->count; m++) {
    if (s->mapping->active >> m & 1) {
      AxisId axis = mapping_axis(s->mapping, place, shape, m, &cause->rule[m]);
      uint32_t cut = axis >= 0 ? held_cut(&held, axis) | 1u << m : 0;
      if (axis >= 0) {
        shard_check_size(s, cause->rule[m], axis, cut, m);
      }
      held.axis[m] = axis >= 0 && shard_divides(s, axis, cut) ? axis : -1;
    }
  }
  return held;
}

// And how it is stored: cut over more mesh axes than the operations ask for.
static Held stored_held(Shard *s, const Persistent *persistent, Held held) {
  RuleKind kind = persistent->role == ROLE_OPTIMIZER_STATE ? RULE_STATE : RULE_PARAM;
  for (int m = 0; m < s->mapping->count; m++) {
    AxisId axis = held.axis[m] < 0 ? mapping_stored(s->mapping, persistent, kind, m) : -1;
    if (axis >= 0 && held_cut(&held, axis) >> m == 0 && shard_divides(s, axis, held_cut(&held, axis) | 1u << m)) {
      held.axis[m] = axis;
    }
  }
  return held;
}

void shard_leaf(Shard *s, NodeId id) {
  Graph *graph = s->graph;
  const Node *node = graph_node(graph, id);
  Shape shape = graph_shape(graph, node->first_result);
  bool stored = op_stored(node->op);
  const Persistent *persistent = stored ? graph_persistent(graph, node->text) : NULL;
  SelectorPlace place =
      persistent ? mapping_place(s->mapping, persistent) : (SelectorPlace){.scope = node->scope, .value = node->text};
  Loops *loops = shard_loops_of(s, id);
  Held held = leaf_held(s, place, &shape, &loops->cause);
  held = persistent ? stored_held(s, persistent, held) : held;
  *shard_held(s, node->first_result) = held;
  *shard_cause(s, node->first_result) = loops->cause;
  loops->known = true;
  memcpy(loops->axis, held.axis, sizeof held.axis);
  shard_keep_node(s, id);
}

// Tensors that this program does not read are held as in the others.
void shard_hold_unread(Shard *s) {
  for (int i = 0; i < s->graph->persistent.count; i++) {
    const Persistent *persistent = &s->graph->persistent.at[i];
    Cause cause = {{0}};
    if (persistent->value >= 0) {
      Held held = leaf_held(s, mapping_place(s->mapping, persistent), &persistent->shape, &cause);
      held = stored_held(s, persistent, held);
      *shard_held(s, persistent->value) = held;
    }
  }
}

// A gradient that is stored in parts along an axis is summed into them in every microbatch.
ValueId shard_into_stored_parts(Shard *s, Name name, ValueId value) {
  static const char ending[] = ".gradient";
  size_t length = name ? strlen(name) : 0, tail = strlen(ending);
  const Persistent *parameter = length > tail && strcmp(name + length - tail, ending) == 0
                                    ? graph_persistent(s->graph, name_of_bytes(s->graph->names, name, length - tail))
                                    : NULL;
  Held want = held_whole();
  bool any = false;
  if (parameter) {
    mapping_parameter(s->mapping, parameter, want.axis);
  }
  for (int m = 0; parameter && m < s->mapping->count; m++) {
    AxisId axis = mapping_stored(s->mapping, parameter, RULE_GRAD, m);
    if (want.axis[m] < 0 && axis >= 0 && held_cut(&want, axis) >> m == 0 &&
        shard_divides(s, axis, held_cut(&want, axis) | 1u << m)) {
      want.axis[m] = axis;
      any = true;
    }
  }
  s->why = "the gradients, into how they are stored";
  s->wish = (Cause){{0}};
  return any ? shard_reshard(s, value, &want) : value;
}
