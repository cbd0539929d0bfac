// mapping.h: what the rules of a layout say about a value: which of its axes is cut over which mesh axis, how it is
// stored.
//
// For each mesh axis the most specific rule wins: one for a label before one for a path, before one for a function,
// before one for everything; of equals the first in the text. `-> none` takes an axis off all mesh axes.
#ifndef MDL_COMPILER_SHARD_MAPPING_H
#define MDL_COMPILER_SHARD_MAPPING_H

#include "compiler/ir/graph.h"
#include "compiler/spec/selector.h"
#include "compiler/spec/spec.h"

typedef struct {
  const Spec *spec;
  const Graph *graph;
  Arena *arena;
  int count;            // of mesh axes
  uint32_t active;      // those that cut something: of more than one rank, and not the pipeline's
  Map matches;          // scope and rule to whether the scope is meant
  bool *took_off;       // by rule: a `-> none` that has kept something from being cut
  AxisId rows;          // that of samples, or -1
  const bool *of_rows;  // by axis, of so many: it is made of that, which comes first in it (shard_rows_find)
  int rows_limit;
} Mapping;

Mapping *mapping_create(Arena *arena, const Graph *graph, const Spec *spec);

// What rules are looked up for.
SelectorPlace mapping_place(const Mapping *mapping, const Persistent *persistent);

// The axis of the shape that stands in the place of that of samples, or -1. What rules say of samples they say of it,
// unless one of its own does that weighs as much.
AxisId mapping_of_rows(const Mapping *mapping, const Shape *shape);

bool mapping_applies(Mapping *mapping, int rule, SelectorPlace place);  // is the place in the rule's scope?

// The axis of `shape` that is cut over mesh axis `mesh`, or -1. `rule`, unless NULL, receives the rule.
AxisId mapping_axis(Mapping *mapping, SelectorPlace place, const Shape *shape, int mesh, const LayoutRule **rule);

// Does a rule `-> none` with a scope take off what an operand brings there: its cut along `axis` over mesh axis `mesh`?
bool mapping_takes_off(Mapping *mapping, SelectorPlace place, AxisId axis, int mesh);
bool mapping_keeps_whole(Mapping *mapping, SelectorPlace place, AxisId axis, int mesh);      // or one without a scope
bool mapping_label_takes_off(Mapping *mapping, SelectorPlace place, AxisId axis, int mesh);  // only one for the label

// Only by a rule for the value's label.
AxisId mapping_label_axis(Mapping *mapping, SelectorPlace place, const Shape *shape, int mesh, const LayoutRule **rule);

// The mesh axes over which a persistent tensor's values of this kind (RULE_PARAM, RULE_GRAD, RULE_STATE) are cut into
// equal pieces of an arena. `rule`, unless NULL, receives the rule that says so.
uint32_t mapping_flat(Mapping *mapping, const Persistent *persistent, RuleKind kind, const LayoutRule **rule);

// The mesh axes that cut a parameter as the operations use it, as bits, and the axis for each (or -1).
uint32_t mapping_parameter(Mapping *mapping, const Persistent *persistent, AxisId axis[GRAPH_MAX_MESH]);

// The axis along which a tensor is stored in parts over mesh axis `mesh` by a rule such as `state: embed -> dp`, or -1.
AxisId mapping_stored(Mapping *mapping, const Persistent *persistent, RuleKind kind, int mesh);
AxisId mapping_stored_by(Mapping *mapping, const Persistent *persistent, RuleKind kind, int mesh,
                         const LayoutRule **rule);  // which receives the rule

// Is a parameter's state (or gradient, or the parameter) stored along one of its axes, by a rule such as
// `state: embed -> dp`?
bool mapping_stored_by_axis(Mapping *mapping, const Persistent *persistent);

int64_t mapping_size(const Mapping *mapping, int mesh);
int64_t mapping_ranks(const Mapping *mapping, uint32_t mesh);  // of a group over these mesh axes
Name mapping_names(const Mapping *mapping, uint32_t mesh);     // "dp, cp"

#endif
