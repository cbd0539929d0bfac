// shard_rules.c: rules of a layout that cut nothing of the training step are errors that say why.
//
// A rule must be about something that is there, whatever the sizes of the mesh: an axis, in the places that it is
// limited to. And where a mesh axis that it names has several ranks, something must be cut because of it.
#include <string.h>

#include "compiler/ir/attention.h"
#include "compiler/shard/shard.h"

typedef struct {
  Shard *s;
  const LayoutRule *rule;
  int index;                   // of the rule
  bool place, axis;            // there is something in its scope; and that has its axis
  const LayoutRule *overrule;  // stands before it, or NULL
  AxisId instead;              // along which an operation is shared where no rule stands before it, or -1
  const LayoutRule *other;     // the rule behind that, or NULL
  AxisId whole;                // kept: an axis of this name that cannot be divided, or -1
  uint32_t behind;             // kept: mesh axes that cut it already, and stand behind those of the rule
  Shape seen;                  // axes of what is in its scope
  int seen_more;               // and how many there is no room for
} Search;

// --- what is there ---

static Shape axes_of_node(const Graph *graph, const Node *node) {
  Shape all = {0};
  for (int i = 0; i < node->operand_count; i++) {
    Shape shape = graph_shape(graph, node->operands[i]);
    all = shape_union(all, &shape);
  }
  for (int i = 0; i < node->result_count; i++) {
    Shape shape = graph_shape(graph, node->first_result + i);
    all = shape_union(all, &shape);
  }
  return all;
}

static bool has_axis(const Graph *graph, const Shape *shape, Name written) {
  for (int i = 0; i < shape->count; i++) {
    if (graph->axes.at[shape->axis[i]].written == written) {
      return true;
    }
  }
  return false;
}

// Was it made of another one by a pass, as `seq.from` is of `seq`? No rule can name it.
static bool is_made(const Graph *graph, Name written) {
  const char *dot = strrchr(written, '.');
  const Name of = dot ? name_of_bytes(graph->names, written, (size_t)(dot - written)) : NULL;
  for (int i = 0; of && i < graph->axes.count; i++) {
    if (graph->axes.at[i].written == of) {
      return true;
    }
  }
  return false;
}

static void see(Search *search, const Shape *shape) {
  const Graph *graph = search->s->graph;
  for (int i = 0; i < shape->count; i++) {
    const Name written = graph->axes.at[shape->axis[i]].written;
    if (shard_pack_along(search->s, shape->axis[i]) || has_axis(graph, &search->seen, written) ||
        is_made(graph, written)) {
      continue;
    }
    if (search->seen.count < SHAPE_MAX_AXES) {
      shape_push(&search->seen, shape->axis[i]);
    } else {
      search->seen_more++;
    }
  }
}

// What is cut there instead over the mesh axes of the rule?
static void compare(Search *search, SelectorPlace place, const Shape *shape, const Loops *loops) {
  Mapping *mapping = search->s->mapping;
  for (int m = 0; m < mapping->count; m++) {
    const LayoutRule *rule = NULL;
    if (!(search->rule->mesh & mapping->active & 1u << m)) {
      continue;
    }
    mapping_axis(mapping, place, shape, m, &rule);
    if (rule != search->rule) {
      search->overrule = search->overrule ? search->overrule : rule;
    } else if (loops && loops->axis[m] >= 0 && search->instead < 0) {
      search->instead = loops->axis[m];
      search->other = loops->cause.rule[m];
    }
  }
}

static bool look_at(Search *search, SelectorPlace place, const Shape *shape) {
  if (!mapping_applies(search->s->mapping, search->index, place)) {
    return false;
  }
  search->place = true;
  see(search, shape);
  const Mapping *mapping = search->s->mapping;
  const bool rows = mapping->rows >= 0 && search->rule->axis == search->s->graph->axes.at[mapping->rows].written;
  bool has = !search->rule->axis || has_axis(search->s->graph, shape, search->rule->axis) ||
             (rows && search->rule->kind == RULE_COMPUTE && mapping_of_rows(mapping, shape) >= 0);
  search->axis = search->axis || has;
  return has;
}

static void look_in(Search *search, RegionId region) {
  const Graph *graph = search->s->graph;
  const NodeList *nodes = &graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (node->region >= 0) {
      look_in(search, node->region);
    }
    if (node->backward || node->op == OP_MICROBATCH) {
      continue;
    }
    const Persistent *stored = op_stored(node->op) ? graph_persistent(graph, node->text) : NULL;
    SelectorPlace place = stored ? mapping_place(search->s->mapping, stored) : selector_place(search->s->graph, node);
    Shape shape = axes_of_node(graph, node);
    if (look_at(search, place, &shape)) {
      compare(search, place, &shape, nodes->at[i] < search->s->loops.count ? &search->s->loops.at[nodes->at[i]] : NULL);
    }
  }
}

static bool is_stored_by(const Persistent *tensor, RuleKind kind) {
  return (tensor->role == ROLE_PARAMETER && tensor->group >= 0) || (kind == RULE_PARAM && tensor->role == ROLE_STATE);
}

static void look_at_stored(Search *search, const Persistent *tensor) {
  Mapping *mapping = search->s->mapping;
  Held held = held_whole();
  if (!look_at(search, mapping_place(mapping, tensor), &tensor->shape)) {
    return;
  }
  mapping_parameter(mapping, tensor, held.axis);
  for (int m = 0; m < mapping->count && search->rule->axis; m++) {
    const LayoutRule *rule = NULL;
    AxisId axis = mapping_stored_by(mapping, tensor, search->rule->kind, m, &rule);
    bool meant = axis >= 0 && rule == search->rule && held.axis[m] < 0;
    if (meant && held_cut(&held, axis) >> m) {
      search->behind |= held_cut(&held, axis) >> m << m;
    } else if (meant && !shard_divides(search->s, axis, held_cut(&held, axis) | 1u << m)) {
      search->whole = axis;
    }
  }
}

static Search search_of(Shard *s, int index) {
  const LayoutRule *rule = &s->mapping->spec->rules.at[index];
  Search search = {.s = s, .rule = rule, .index = index, .instead = -1, .whole = -1};
  if (rule->kind == RULE_COMPUTE) {
    look_in(&search, 0);
    return search;
  }
  for (int i = 0; i < s->graph->persistent.count; i++) {
    const Persistent *tensor = &s->graph->persistent.at[i];
    if (is_stored_by(tensor, rule->kind)) {
      look_at_stored(&search, tensor);
    }
  }
  return search;
}

// --- what was cut ---

static void mark(const Shard *s, bool *used, const LayoutRule *rule) {
  if (rule) {
    used[rule - s->mapping->spec->rules.at] = true;
  }
}

static void mark_stored(Shard *s, bool *used, const Persistent *tensor) {
  for (int kind = RULE_PARAM; kind <= RULE_STATE; kind++) {
    const LayoutRule *rule = NULL;
    Held held = held_whole();
    if (!is_stored_by(tensor, (RuleKind)kind)) {
      continue;
    }
    if (tensor->role == ROLE_PARAMETER && mapping_flat(s->mapping, tensor, (RuleKind)kind, &rule)) {
      mark(s, used, rule);
    }
    mapping_parameter(s->mapping, tensor, held.axis);
    for (int m = 0; m < s->mapping->count; m++) {
      AxisId axis = mapping_stored_by(s->mapping, tensor, (RuleKind)kind, m, &rule);
      if (axis >= 0 && held.axis[m] < 0 && held_cut(&held, axis) >> m == 0 &&
          shard_divides(s, axis, held_cut(&held, axis) | 1u << m)) {
        held.axis[m] = axis;
        mark(s, used, rule);
      }
    }
  }
}

static void mark_labels(Shard *s, bool *used) {
  for (ValueId v = 0; v < s->held.count; v++) {
    const Value *value = graph_value(s->graph, v);
    const Node *node = graph_producer(s->graph, v);
    if (!value->label || !node) {
      continue;
    }
    SelectorPlace place = {.scope = node->scope, .label = value->label};
    for (int m = 0; m < s->mapping->count; m++) {
      const LayoutRule *rule = NULL;
      AxisId axis = mapping_label_axis(s->mapping, place, &value->shape, m, &rule);
      if (axis >= 0 && shard_held(s, v)->axis[m] == axis) {
        mark(s, used, rule);
      }
    }
  }
}

static const bool *used_rules(Shard *s) {
  const Spec *spec = s->mapping->spec;
  bool *used = ARENA_ARRAY(s->c->arena, bool, spec->rules.count + 1);
  for (int i = 0; i < s->loops.count; i++) {
    for (int m = 0; m < s->mapping->count; m++) {
      mark(s, used, s->loops.at[i].axis[m] >= 0 ? s->loops.at[i].cause.rule[m] : NULL);
    }
  }
  mark_labels(s, used);
  for (int i = 0; i < s->graph->persistent.count; i++) {
    mark_stored(s, used, &s->graph->persistent.at[i]);
  }
  return used;
}

// --- errors ---

static const char *const kinds[] = {"", "param", "grad", "state", "save"};

// "'state' of 'embed' in 'attention'": what the rule is about.
static const char *subject(const Shard *s, const LayoutRule *rule) {
  Arena *arena = s->graph->diag->arena;
  const char *stored = kinds[rule->kind];
  const char *what = !*stored      ? arena_format(arena, "'%s'", rule->axis)
                     : !rule->axis ? arena_format(arena, "'%s'", stored)
                                   : arena_format(arena, "'%s' along '%s'", stored, rule->axis);
  return rule->scope.name ? arena_format(arena, "%s in '%s'", what, rule->scope.name) : what;
}

static const char *seen_text(const Search *search) {
  Arena *arena = search->s->graph->diag->arena;
  const char *text = "";
  for (int i = 0; i < search->seen.count; i++) {
    text = arena_format(arena, "%s%s%s", text, i ? ", " : "", search->s->graph->axes.at[search->seen.axis[i]].written);
  }
  return search->seen_more ? arena_format(arena, "%s and others", text) : text;
}

static void report_missing(const Search *search) {
  const LayoutRule *rule = search->rule;
  Diag *diag = search->s->graph->diag;
  const char *things = rule->kind == RULE_COMPUTE ? "value" : "trained parameter";
  if (!search->place) {
    Diagnostic *error =
        rule->scope.name
            ? diag_error(diag, E045, rule->left, "'%s' selects no %s of the training step", rule->scope.name, things)
            : diag_error(diag, E045, rule->left, "the training step has no %s to cut", things);
    diag_help(diag, error, "remove the rule, or this part of it");
    return;
  }
  Diagnostic *error =
      rule->scope.name
          ? diag_error(diag, E045, rule->left, "no %s in '%s' has the axis '%s'", things, rule->scope.name, rule->axis)
          : diag_error(diag, E045, rule->left, "no %s of the training step has the axis '%s'", things, rule->axis);
  if (!search->seen.count) {
    diag_help(diag, error, "what is there has no axes: remove the rule, or name another place");
    return;
  }
  diag_help(diag, error, rule->scope.name ? "the axes there are %s" : "its axes are %s", seen_text(search));
}

// An axis of this name of which a microbatch has a part, or -1.
static AxisId in_microbatches(const Graph *graph, Name name) {
  for (int i = 0; i < graph->axes.count; i++) {
    const Axis *axis = &graph->axes.at[i];
    if (axis->whole < 0 && axis->global > axis->size && axis->written == name) {
      return i;
    }
  }
  return -1;
}

static void report_unused(const Search *search) {
  const LayoutRule *rule = search->rule;
  const Graph *graph = search->s->graph;
  Diag *diag = graph->diag;
  Name mesh = mapping_names(search->s->mapping, rule->mesh & search->s->mapping->active);
  Diagnostic *error =
      diag_error(diag, E045, rule->left, "the rule for %s cuts nothing over '%s'", subject(search->s, rule), mesh);
  if (search->whole >= 0) {
    diag_help(diag, error, "'%s' of size %lld cannot be divided so: take another axis, or `%s -> %s;`", rule->axis,
              (long long)graph->axes.at[search->whole].size, kinds[rule->kind], mesh);
  } else if (search->behind) {
    diag_help(diag, error, "'%s' is cut over '%s', which stands behind '%s' in the mesh: turn them round", rule->axis,
              mapping_names(search->s->mapping, search->behind), mesh);
  } else if (rule->kind != RULE_COMPUTE) {
    diag_help(diag, error, "what it is about is cut over '%s' by other rules: remove it", mesh);
  } else if (search->instead >= 0) {
    if (search->other) {
      diag_related(diag, error, search->other->left, "this rule is followed instead");
    }
    diag_help(diag, error, "operations with '%s' are shared along '%s' there: remove the rule", rule->axis,
              graph->axes.at[search->instead].written);
  } else if (search->overrule) {
    diag_related(diag, error, search->overrule->left, "this rule holds wherever it would");
    diag_help(diag, error, "remove it, or limit it to a place of its own: `@label: ...` or `function: ...`");
  } else if (in_microbatches(graph, rule->axis) >= 0) {
    const Axis *axis = &graph->axes.at[in_microbatches(graph, rule->axis)];
    diag_help(
        diag, error,
        "a microbatch has %lld of the %lld positions of '%s', which these ranks cannot share: take fewer microbatches",
        (long long)axis->size, (long long)axis->global, rule->axis);
  } else {
    diag_help(diag, error, "no operation there can be shared along '%s': remove the rule", rule->axis);
  }
}

// Has no mesh axis a size of 1, at which rules over it cut nothing that others could take off?
static bool all_cut(const Mapping *mapping) {
  for (int m = 0; m < mapping->count; m++) {
    if (mapping->spec->mesh[m].size == 1) {
      return false;
    }
  }
  return mapping->count > 0;
}

static void report_idle(const Search *search) {
  const LayoutRule *rule = search->rule;
  Diag *diag = search->s->graph->diag;
  Diagnostic *error = diag_error(diag, E045, rule->left, "the rule for %s takes nothing off", subject(search->s, rule));
  diag_help(diag, error, "nothing there would be cut without it: remove it");
}

static bool is_within(const Graph *graph, ScopeId scope, ScopeId outer) {
  while (scope >= 0 && scope != outer) {
    scope = graph->scopes.at[scope].parent;
  }
  return scope >= 0;
}

// The attention that a call which the rule is limited to has become a part of; NULL: none.
static const Node *attention_around(const Shard *s, const LayoutRule *rule, RegionId region) {
  const Graph *graph = s->graph;
  const NodeList *nodes = &graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    for (ScopeId scope = 0; scope < graph->scopes.count && is_attention(node) && !node->backward; scope++) {
      if (is_within(graph, scope, node->scope) && selector_matches_scope(graph, rule->scope.name, scope)) {
        return node;
      }
    }
    const Node *found = node->op == OP_MICROBATCH ? attention_around(s, rule, node->region) : NULL;
    if (found) {
      return found;
    }
  }
  return NULL;
}

// What an attention makes of its scores is no operation of its own any more, though the text has one there.
static bool report_in_attention(Shard *s, int index) {
  const LayoutRule *rule = &s->mapping->spec->rules.at[index];
  const Node *node = rule->kind == RULE_COMPUTE ? attention_around(s, rule, 0) : NULL;
  const Search search = node ? search_of(s, index) : (Search){0};
  if (!node || search.place) {
    return false;
  }
  Diag *diag = s->graph->diag;
  Diagnostic *error = diag_error(diag, E015, rule->scope.span, "'%s' selects nothing for this rule", rule->scope.name);
  diag_related(diag, error, node->span, "the attention that it is a part of, which ranks share as one operation");
  const Name function = node->scope >= 0 ? s->graph->scopes.at[node->scope].function : NULL;
  diag_help(diag, error, function ? "say it of all of that: `%s: ...`" : "say it of all of that", function);
  return true;
}

// A step that shows all values has others than the one that is trained, which is checked by itself.
void shard_check_rules(Shard *s) {
  const Spec *spec = s->mapping->spec;
  if (s->c->program != PROGRAM_TRAIN || spec->idle_rules || s->c->values) {
    return;
  }
  const bool *used = s->mapping->active ? used_rules(s) : NULL;
  for (int i = 0; i < spec->rules.count; i++) {
    const LayoutRule *rule = &spec->rules.at[i];
    bool cuts = (rule->mesh & s->mapping->active) != 0;
    if (rule->scope.name && !(cuts && used[i]) &&
        (report_in_attention(s, i) || !selector_check(s->graph, rule->scope, SELECTS_ANY, "for this rule"))) {
      continue;
    }
    if (rule->again || rule->ring || rule->kind == RULE_SAVE || (cuts && used[i])) {
      continue;
    }
    Search search = search_of(s, i);
    if (!search.axis) {
      report_missing(&search);
    } else if (cuts) {
      report_unused(&search);
    } else if (rule->scope.name && !rule->mesh && !s->mapping->took_off[i] && all_cut(s->mapping)) {
      report_idle(&search);
    }
  }
}

void shard_check_size(Shard *s, const LayoutRule *rule, AxisId axis, uint32_t cut, int mesh) {
  if (s->c->program != PROGRAM_TRAIN || !rule || rule->sized || rule->kind != RULE_COMPUTE ||
      shard_divides(s, axis, cut)) {
    return;
  }
  Diag *diag = s->graph->diag;
  const Axis *at = &s->graph->axes.at[axis];
  int64_t most = at->size / mapping_ranks(s->mapping, cut & ~(1u << mesh)), shown = 0;
  Diagnostic *error =
      diag_error(diag, E043, rule->left, "axis '%s' of size %lld cannot be split over %s = %lld", at->written,
                 (long long)at->size, s->mapping->spec->mesh[mesh].name, (long long)mapping_size(s->mapping, mesh));
  const char *sizes = "";
  for (int64_t size = 1; size <= most && shown < 16; size++) {
    if (most % size == 0) {
      sizes = arena_format(diag->arena, "%s%s%lld", sizes, shown++ ? ", " : "", (long long)size);
    }
  }
  diag_help(diag, error, "sizes of %s that divide it: %s", s->mapping->spec->mesh[mesh].name, sizes);
}
