// lint.c: what a model computes and trains for nothing: parameters without a gradient, outputs that never change.
#include "lang/lint.h"

#include <string.h>

#include "compiler/ir/op.h"
#include "lang/unread.h"

typedef struct {
  Graph *graph;
  bool *values;  // that are read
  bool *nodes;   // that were looked at
  ARRAY(NodeId) open;
} Walk;

static void walk_value(Walk *walk, ValueId value) {
  walk->values[value] = true;
  const NodeId node = graph_value(walk->graph, value)->node;
  if (node >= 0 && !walk->nodes[node]) {
    walk->nodes[node] = true;
    array_push(walk->graph->arena, &walk->open, node);
  }
}

// Everything that a value is computed from. All that stands in a region counts where one of its results is read.
static Walk walk_from(Graph *graph, ValueId value) {
  Walk walk = {.graph = graph,
               .values = ARENA_ARRAY(graph->arena, bool, graph->values.count + 1),
               .nodes = ARENA_ARRAY(graph->arena, bool, graph->nodes.count + 1)};
  walk_value(&walk, value);
  while (walk.open.count > 0) {
    const Node *node = graph_node(graph, walk.open.at[--walk.open.count]);
    for (int i = 0; i < node->operand_count; i++) {
      walk_value(&walk, node->operands[i]);
    }
    const NodeList *inside = node->region >= 0 ? &graph->regions.at[node->region].nodes : NULL;
    for (int i = 0; inside && i < inside->count; i++) {
      const NodeId at = inside->at[i];
      if (!walk.nodes[at]) {
        walk.nodes[at] = true;
        array_push(graph->arena, &walk.open, at);
      }
    }
  }
  return walk;
}

bool lint_constant(Graph *graph, ValueId value) {
  const Walk walk = walk_from(graph, value);
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    const bool moves = node->op == OP_INPUT || node->op == OP_PARAM || node->op == OP_STATE || op_random(node->op);
    if (walk.nodes[i] && moves) {
      return false;
    }
  }
  return true;
}

// --- parameters ---

static bool span_in(Span span, Span whole) {
  return span.file == whole.file && span.begin >= whole.begin && span.end <= whole.end;
}

// Is it made for a value of which it was said that nothing reads it?
static bool made_for_unread(const Elaborator *e, const Persistent *parameter) {
  for (int i = 0; i < e->unit->unread.count; i++) {
    const Span statement = e->unit->unread.at[i];
    bool inside = span_in(parameter->span, statement);
    for (ScopeId scope = parameter->scope; scope >= 0 && !inside; scope = e->graph->scopes.at[scope].parent) {
      inside = span_in(e->graph->scopes.at[scope].call, statement);
    }
    if (inside) {
      return true;
    }
  }
  return false;
}

static bool part_is_silent(const char *path) {
  return path[0] == '_' || strstr(path, "._") != NULL;
}

static bool same_place(const Persistent *a, const Persistent *b) {
  return a->span.file == b->span.file && a->span.begin == b->span.begin && a->span.end == b->span.end;
}

// `layers.*.q.w` for `layers.0.q.w`.
static const char *in_all_rounds(Arena *arena, const char *path) {
  char *text = arena_copy(arena, path, strlen(path) + 1), *to = text;
  for (const char *part = text; *part;) {
    const size_t length = strcspn(part, "."), digits = strspn(part, "0123456789");
    const bool last = part[length] == '\0';
    if (digits == length && length > 0) {
      *to++ = '*';
    } else {
      memmove(to, part, length);
      to += length;
    }
    part += length + !last;
    if (!last) {
      *to++ = '.';
    }
  }
  *to = '\0';
  return text;
}

static void warn_idle(Elaborator *e, const bool *idle, int first) {
  const Graph *graph = e->graph;
  const Persistent *parameter = &graph->persistent.at[first];
  int others = 0, trained = 0;
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *other = &graph->persistent.at[i];
    if (i != first && other->role == ROLE_PARAMETER && same_place(parameter, other)) {
      others += idle[i];
      trained += !idle[i];
    }
  }
  const char *more = others > 0 ? arena_format(e->arena, " and %d more that are made here", others) : "";
  Diagnostic *said =
      diag_warning(e->diag, E038, parameter->span, "the loss does not depend on '%s'%s", parameter->name, more);
  if (trained > 0) {
    diag_label(e->diag, said, "it does on %d other%s", trained, trained > 1 ? "s" : "");
  }
  diag_help(e->diag, said, "read what is made of it, freeze it in the recipe, `freeze %s;`, or begin its name with `_`",
            others > 0 ? in_all_rounds(e->arena, parameter->name) : parameter->name);
}

static void check_parameters(Elaborator *e, ValueId loss) {
  const Graph *graph = e->graph;
  const Walk walk = walk_from(e->graph, loss);
  bool *idle = ARENA_ARRAY(e->arena, bool, graph->persistent.count + 1);
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *parameter = &graph->persistent.at[i];
    idle[i] = parameter->role == ROLE_PARAMETER && !walk.values[parameter->value] && !part_is_silent(parameter->name) &&
              !optimizer_freezes(e, parameter) && !made_for_unread(e, parameter);
  }
  Map said = map_create(e->arena);
  for (int i = 0; i < graph->persistent.count; i++) {
    const Span span = graph->persistent.at[i].span;
    const uint64_t file = (uint64_t)span.file;
    if (idle[i] && map_get_bytes_or(&said, MAP_KEY(file, span.begin, span.end), 0) == 0) {
      map_put_bytes(&said, MAP_KEY(file, span.begin, span.end), 1);
      warn_idle(e, idle, i);
    }
  }
}

void lint_model(Elaborator *e, ValueId loss) {
  unread_check(e->unit);
  check_parameters(e, loss);
}
