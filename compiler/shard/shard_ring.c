// shard_ring.c: attention whose blocks of keys go round a ring of ranks instead of being gathered.
//
// A ring is not a way to hold values: the keys stay cut as they are, and the operation meets them one block at a time.
// It takes a rule for the axis of the keys with the form `ring`, over a mesh axis along which the ranks share queries.
#include <string.h>

#include "compiler/ir/attention.h"
#include "compiler/shard/shard.h"

// The rule that sends the keys of an attention round mesh axis `mesh`, or NULL.
static const LayoutRule *ring_rule(Shard *s, const Node *node, int mesh) {
  const LayoutRule *rule = NULL;
  Shape keys = shape_of(node->axis2);
  SelectorPlace place = selector_place(s->graph, node);
  bool found = s->mapping->active >> mesh & 1 && mapping_axis(s->mapping, place, &keys, mesh, &rule) >= 0;
  return found && rule->ring ? rule : NULL;
}

// Blocks that go round are of keys and values alone: is something captured that has an element for each key?
static bool captures_keys(const Shard *s, const Node *node) {
  bool any = false;
  for (int i = 3; i < attention_forward_operands(node); i++) {
    Shape shape = graph_shape(s->graph, node->operands[i]);
    any = any || shape_has(&shape, node->axis2);
  }
  return any;
}

void shard_ring(Shard *s, NodeId id, Loops *loops) {
  Node *node = graph_node(s->graph, id);
  if (!is_attention(node)) {
    return;
  }
  const Loops *source = node->backward && node->source >= 0 ? shard_loops_of(s, node->source) : NULL;
  loops->ring = source ? source->ring : 0;
  if (source && source->ring) {
    node->rule = graph_node(s->graph, node->source)->rule;
  }
  for (int m = 0; !source && m < s->mapping->count; m++) {
    const LayoutRule *rule = ring_rule(s, node, m);
    if (rule && !captures_keys(s, node) && loops->axis[m] == node->axis &&
        shard_divides(s, node->axis2, loops->ring | 1u << m)) {
      loops->ring |= 1u << m;
      node->rule = rule->span;
    }
  }
  node->integer |= (int64_t)loops->ring * ATTENTION_RING;
}

// --- rules that cannot be followed ---

static Name name_of_axis(const Shard *s, AxisId axis) {
  return s->graph->axes.at[axis].written;
}

// The function whose call an attention is, as layouts name it before a colon: "attention: ", or "" for one that is
// written out. The scope that recognise adds has the path of the one around it.
static const char *scope_of_rule(const Shard *s, const Node *node) {
  const Graph *graph = s->graph;
  const Scope *scope = &graph->scopes.at[node->scope];
  if (scope->parent >= 0 && scope->path == graph->scopes.at[scope->parent].path) {
    scope = &graph->scopes.at[scope->parent];
  }
  return scope->parent < 0 ? "" : name_format(graph->names, "%s: ", scope->function);
}

// The rules that a layout could have for the keys of the model's attentions.
static const char *legal_rules(const Shard *s, const NodeList *nodes, Name mesh) {
  const char *text = "";
  for (int i = 0; i < nodes->count; i++) {
    AxisId keys = graph_node(s->graph, nodes->at[i])->axis2;
    bool known = false;
    for (int j = 0; j < i; j++) {
      known = known || graph_node(s->graph, nodes->at[j])->axis2 == keys;
    }
    if (!known) {
      text = name_format(s->graph->names, "%s%s`%s%s -> %s(ring);`", text, *text ? " or " : "",
                         scope_of_rule(s, graph_node(s->graph, nodes->at[i])), name_of_axis(s, keys), mesh);
    }
  }
  return text;
}

static void no_attention(Shard *s, const LayoutRule *rule, const NodeList *nodes, Name mesh) {
  Diag *diag = s->graph->diag;
  if (nodes->count == 0 && s->c->not_fused) {
    Diagnostic *error =
        diag_error(diag, E042, rule->span, "only attention that is one kernel passes its keys around a ring");
    diag_related(diag, error, s->c->not_fused_at, "%s", s->c->not_fused);
    diag_help(diag, error, "other operations gather: leave `(ring)` out");
    return;
  }
  if (nodes->count == 0) {
    Diagnostic *error =
        diag_error(diag, E042, rule->span, "only attention passes its keys around a ring, and there is none here");
    diag_help(diag, error,
              "call `attention` of std.nn, or write softmax(scale * dot(q, k)) times v as it does; other operations "
              "gather: leave `(ring)` out");
    return;
  }
  bool keys = false;
  for (int i = 0; i < nodes->count; i++) {
    keys = keys || s->graph->axes.at[graph_node(s->graph, nodes->at[i])->axis2].written == rule->axis;
  }
  Diagnostic *error =
      !keys ? diag_error(diag, E042, rule->span, "'%s' is not the axis of the keys of any attention", rule->axis)
      : rule->scope.name
          ? diag_error(diag, E042, rule->span, "no attention with keys along '%s' is in '%s'", rule->axis,
                       rule->scope.name)
          : diag_error(diag, E042, rule->span, "no attention passes keys along '%s' by this rule: others hold there",
                       rule->axis);
  diag_related(diag, error, graph_node(s->graph, nodes->at[0])->span, "an attention");
  diag_help(diag, error, "write %s", legal_rules(s, nodes, mesh));
}

// Where queries are cut in a zigzag, and another mesh axis cuts them ahead of it, they are not shared over it: that
// other cut with its own.
static uint32_t cut_ahead(Shard *s, const Node *node, const Loops *loops, int mesh) {
  uint32_t ahead = 0;
  for (int m = 0; m < mesh && shard_form(s, node->axis)->zigzag >> mesh & 1; m++) {
    ahead |= loops->axis[m] == node->axis ? 1u << m : 0;
  }
  return ahead ? ahead | 1u << mesh : 0;
}

static void not_shared(Shard *s, const LayoutRule *rule, const Node *node, const Loops *loops, int mesh) {
  Graph *graph = s->graph;
  Diag *diag = graph->diag;
  Name name = s->mapping->spec->mesh[mesh].name, queries = name_of_axis(s, node->axis);
  AxisId loop = loops->axis[mesh];
  if (captures_keys(s, node)) {
    Diagnostic *error =
        diag_error(diag, E042, rule->span, "keys cannot go round '%s' without what the scores read along '%s'", name,
                   name_of_axis(s, node->axis2));
    diag_related(diag, error, node->span, "the attention, whose scores are computed from a tensor along its keys");
    diag_help(diag, error, "leave `(ring)` out: then the keys are gathered");
    return;
  }
  if (loop == node->axis) {
    const Axis *keys = &graph->axes.at[node->axis2];
    Diagnostic *error =
        diag_error(diag, E043, rule->span, "keys along '%s' of size %lld cannot be split over %s = %lld", keys->name,
                   (long long)keys->size, name, (long long)mapping_size(s->mapping, mesh));
    diag_related(diag, error, node->span, "the attention, whose queries are along '%s'", queries);
    diag_help(diag, error, "write `%s(ring, pad)`, or leave `(ring)` out: then the keys are gathered", name);
    return;
  }
  const uint32_t again = loop < 0 ? cut_ahead(s, node, loops, mesh) : 0;
  if (again) {
    shard_report_zigzag(s, node->axis, again, node->span, "the attention, whose queries would be cut so");
    return;
  }
  Diagnostic *error =
      loop < 0
          ? diag_error(diag, E042, rule->span, "keys cannot go round '%s', which does not cut the queries", name)
          : diag_error(diag, E042, rule->span, "keys cannot go round '%s', whose ranks share '%s' in this attention",
                       name, name_of_axis(s, loop));
  diag_related(diag, error, node->span, "the attention, whose queries are along '%s'", queries);
  if (loops->cause.rule[mesh]) {
    diag_related(diag, error, loops->cause.rule[mesh]->span, "the rule behind it");
  }
  if (loop < 0 && shard_form(s, node->axis)->zigzag) {
    diag_help(diag, error, "one mesh axis cuts queries in a zigzag, and their keys go round this one alone");
  } else if (loop < 0) {
    diag_help(diag, error, "cut them: `%s -> %s;`, or `%s -> %s(zigzag);` for causal attention", queries, name, queries,
              name);
  } else {
    diag_help(diag, error, "take one of the two rules off, or declare a mesh axis for each");
  }
}

void shard_check_rings(Shard *s, const NodeList *nodes) {
  const Spec *spec = s->mapping->spec;
  for (int i = 0; i < spec->rules.count && s->c->program == PROGRAM_TRAIN; i++) {
    const LayoutRule *rule = &spec->rules.at[i];
    for (int m = 0; rule->ring && m < s->mapping->count; m++) {
      bool used = !(rule->mesh & s->mapping->active & 1u << m), wrong = false;
      for (int j = 0; j < nodes->count && !wrong; j++) {
        const Node *node = graph_node(s->graph, nodes->at[j]);
        const Loops *loops = shard_loops_of(s, nodes->at[j]);
        if (ring_rule(s, node, m) == rule) {
          used = true;
          wrong = !(loops->ring >> m & 1);
          if (wrong) {
            not_shared(s, rule, node, loops, m);
          }
        }
      }
      if (!used) {
        no_attention(s, rule, nodes, spec->mesh[m].name);
      }
    }
  }
}
