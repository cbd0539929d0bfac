// mapping.c: looking up the rules of a layout.
#include "compiler/shard/mapping.h"

#include <string.h>

Mapping *mapping_create(Arena *arena, const Graph *graph, const Spec *spec) {
  Mapping *mapping = ARENA_NEW(arena, Mapping);
  *mapping = (Mapping){.spec = spec, .graph = graph, .arena = arena, .count = spec->mesh_count, .rows = -1};
  mapping->matches = map_create(arena);
  mapping->took_off = ARENA_ARRAY(arena, bool, spec->rules.count + 1);
  for (int i = 0; i < spec->mesh_count; i++) {
    bool pipeline = spec->pipeline.axis && spec->pipeline.mesh == i;
    mapping->active |= spec->mesh[i].size > 1 && !pipeline ? 1u << i : 0;
  }
  return mapping;
}

static bool selects_scope(Mapping *mapping, int index, ScopeId scope) {
  int64_t known;
  if (map_get_bytes(&mapping->matches, MAP_KEY((uint64_t)scope, (uint64_t)index), &known)) {
    return known != 0;
  }
  bool found = selector_matches_scope(mapping->graph, mapping->spec->rules.at[index].scope.name, scope);
  map_put_bytes(&mapping->matches, MAP_KEY((uint64_t)scope, (uint64_t)index), found);
  return found;
}

// How specific the rule is where it holds, or -1.
static int specificity(Mapping *mapping, int index, SelectorPlace place) {
  Name selector = mapping->spec->rules.at[index].scope.name;
  bool holds = !selector || selector_matches_itself(mapping->graph, selector, place) ||
               selects_scope(mapping, index, place.scope);
  return holds ? selector_rank(selector) : -1;
}

bool mapping_applies(Mapping *mapping, int rule, SelectorPlace place) {
  return specificity(mapping, rule, place) >= 0;
}

static AxisId axis_named(const Mapping *mapping, const Shape *shape, Name name) {
  for (int i = 0; i < shape->count; i++) {
    if (mapping->graph->axes.at[shape->axis[i]].written == name) {
      return shape->axis[i];
    }
  }
  return -1;
}

static bool is_of_rows(const Mapping *mapping, AxisId axis) {
  return axis != mapping->rows && axis < mapping->rows_limit && mapping->of_rows[axis];
}

AxisId mapping_of_rows(const Mapping *mapping, const Shape *shape) {
  AxisId instead = -1;
  for (int i = 0; i < shape->count && mapping->rows >= 0 && !shape_has(shape, mapping->rows); i++) {
    instead = is_of_rows(mapping, shape->axis[i]) ? shape->axis[i] : instead;
  }
  return instead;
}

// Is the rule one for samples, of which this axis is made?
static bool for_rows(const Mapping *mapping, const LayoutRule *rule, AxisId axis) {
  return is_of_rows(mapping, axis) && rule->axis == mapping->graph->axes.at[mapping->rows].written;
}

// Does a rule `-> none` for the same axis, or of what is kept for any, hold before this one? One for samples does so
// before that for an axis made of them where it weighs more.
static bool taken_off(Mapping *mapping, SelectorPlace place, int rule, AxisId axis, int here, int mesh) {
  const Spec *spec = mapping->spec;
  const LayoutRule *at = &spec->rules.at[rule];
  for (int j = 0; j < spec->rules.count; j++) {
    const LayoutRule *none = &spec->rules.at[j];
    const bool same = !none->axis || none->axis == at->axis;
    if (none->kind != at->kind || none->mesh != 0 ||
        (!same && (none->kind != RULE_COMPUTE || !for_rows(mapping, none, axis)))) {
      continue;
    }
    const int other = specificity(mapping, j, place);
    if (other > here || (same && other == here && j < rule)) {
      mapping->took_off[j] = mapping->took_off[j] || mapping->active >> mesh & 1;
      return true;
    }
  }
  return false;
}

static AxisId look_up(Mapping *mapping, SelectorPlace place, const Shape *shape, int mesh, RuleKind kind, int least,
                      const LayoutRule **rule) {
  const Spec *spec = mapping->spec;
  AxisId found = -1;
  int best = -1;
  for (int i = 0; i < spec->rules.count; i++) {
    const LayoutRule *at = &spec->rules.at[i];
    if (at->kind != kind || !at->axis || !(at->mesh >> mesh & 1)) {
      continue;
    }
    AxisId axis = axis_named(mapping, shape, at->axis);
    int here = axis < 0 ? -1 : specificity(mapping, i, place);
    if (here < least || here <= best) {
      continue;
    }
    if (!taken_off(mapping, place, i, axis, here, mesh)) {
      found = axis;
      best = here;
      if (rule) {
        *rule = at;
      }
    }
  }
  return found;
}

AxisId mapping_axis(Mapping *mapping, SelectorPlace place, const Shape *shape, int mesh, const LayoutRule **rule) {
  return look_up(mapping, place, shape, mesh, RULE_COMPUTE, 0, rule);
}

static bool takes_off(Mapping *mapping, SelectorPlace place, AxisId axis, int mesh, int least) {
  const Spec *spec = mapping->spec;
  int none = -1, best = least - 1;
  bool own = true;  // the best so far is about the axis itself, not about the samples that it is made of
  for (int i = 0; i < spec->rules.count; i++) {
    const LayoutRule *at = &spec->rules.at[i];
    const bool same = at->axis == mapping->graph->axes.at[axis].written;
    if (at->kind != RULE_COMPUTE || (!same && !for_rows(mapping, at, axis)) ||
        (at->mesh != 0 && !(at->mesh >> mesh & 1))) {
      continue;
    }
    const int here = specificity(mapping, i, place);
    if (here > best || (here == best && same && !own)) {
      best = here;
      own = same;
      none = at->mesh == 0 ? i : -1;
    }
  }
  if (none >= 0) {
    mapping->took_off[none] = true;
  }
  return none >= 0;
}

bool mapping_takes_off(Mapping *mapping, SelectorPlace place, AxisId axis, int mesh) {
  return takes_off(mapping, place, axis, mesh, 1);
}

bool mapping_keeps_whole(Mapping *mapping, SelectorPlace place, AxisId axis, int mesh) {
  return takes_off(mapping, place, axis, mesh, 0);
}

bool mapping_label_takes_off(Mapping *mapping, SelectorPlace place, AxisId axis, int mesh) {
  return takes_off(mapping, place, axis, mesh, SELECTOR_RANK_LABEL);
}

AxisId mapping_label_axis(Mapping *mapping, SelectorPlace place, const Shape *shape, int mesh,
                          const LayoutRule **rule) {
  const AxisId instead = place.label ? mapping_of_rows(mapping, shape) : -1;
  AxisId axis = place.label ? look_up(mapping, place, shape, mesh, RULE_COMPUTE, SELECTOR_RANK_LABEL, rule) : -1;
  if (instead >= 0 && axis < 0 && !takes_off(mapping, place, instead, mesh, SELECTOR_RANK_LABEL)) {
    const Shape rows = shape_of(mapping->rows);
    axis = look_up(mapping, place, &rows, mesh, RULE_COMPUTE, SELECTOR_RANK_LABEL, rule) >= 0 ? instead : -1;
  }
  return axis;
}

// Optimizer state goes where its parameter goes.
SelectorPlace mapping_place(const Mapping *mapping, const Persistent *persistent) {
  const Persistent *like = persistent->like ? graph_persistent(mapping->graph, persistent->like) : NULL;
  const Persistent *of = like ? like : persistent;
  return (SelectorPlace){.scope = of->scope, .tensor = of->name};
}

uint32_t mapping_flat(Mapping *mapping, const Persistent *persistent, RuleKind kind, const LayoutRule **rule) {
  const Spec *spec = mapping->spec;
  SelectorPlace place = mapping_place(mapping, persistent);
  AxisId axis[GRAPH_MAX_MESH];
  uint32_t flat = 0, any = 0, cut = mapping_parameter(mapping, persistent, axis);
  int best = -1, holds = -1;
  for (int i = 0; i < spec->rules.count; i++) {
    const LayoutRule *at = &spec->rules.at[i];
    int here = at->kind == kind && !at->axis ? specificity(mapping, i, place) : -1;
    any |= here >= 0 ? at->mesh & mapping->active & ~cut : 0;
    if (here > best) {
      best = here;
      holds = i;
      flat = at->mesh;
      if (rule) {
        *rule = at;
      }
    }
  }
  if (holds >= 0 && !flat && any) {
    mapping->took_off[holds] = true;
  }
  return flat & mapping->active & ~cut;
}

uint32_t mapping_parameter(Mapping *mapping, const Persistent *persistent, AxisId axis[GRAPH_MAX_MESH]) {
  SelectorPlace place = mapping_place(mapping, persistent);
  uint32_t cut = 0;
  for (int m = 0; m < mapping->count; m++) {
    axis[m] = mapping->active >> m & 1 ? mapping_axis(mapping, place, &persistent->shape, m, NULL) : -1;
    cut |= axis[m] >= 0 ? 1u << m : 0;
  }
  return cut;
}

AxisId mapping_stored_by(Mapping *mapping, const Persistent *persistent, RuleKind kind, int mesh,
                         const LayoutRule **rule) {
  return mapping->active >> mesh & 1
             ? look_up(mapping, mapping_place(mapping, persistent), &persistent->shape, mesh, kind, 0, rule)
             : -1;
}

AxisId mapping_stored(Mapping *mapping, const Persistent *persistent, RuleKind kind, int mesh) {
  return mapping_stored_by(mapping, persistent, kind, mesh, NULL);
}

bool mapping_stored_by_axis(Mapping *mapping, const Persistent *persistent) {
  for (int m = 0; m < mapping->count; m++) {
    for (int kind = RULE_PARAM; kind <= RULE_STATE; kind++) {
      if (mapping_stored(mapping, persistent, (RuleKind)kind, m) >= 0) {
        return true;
      }
    }
  }
  return false;
}

int64_t mapping_size(const Mapping *mapping, int mesh) {
  return mapping->spec->mesh[mesh].size;
}

int64_t mapping_ranks(const Mapping *mapping, uint32_t mesh) {
  int64_t ranks = 1;
  for (int m = 0; m < mapping->count; m++) {
    ranks *= mesh >> m & 1 ? mapping->spec->mesh[m].size : 1;
  }
  return ranks;
}

Name mapping_names(const Mapping *mapping, uint32_t mesh) {
  Name names = "";
  for (int m = 0; m < mapping->count; m++) {
    if (mesh >> m & 1) {
      names = name_format(mapping->graph->names, "%s%s%s", names, names[0] ? ", " : "", mapping->spec->mesh[m].name);
    }
  }
  return names;
}
