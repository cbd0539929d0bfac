// lint.c: what a model computes and trains for nothing: parameters without a gradient, outputs that never change.
#include "lang/lint.h"

#include <stdlib.h>
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

static Walk walk_begin(Graph *graph, ValueId value) {
  Walk walk = {.graph = graph,
               .values = ARENA_ARRAY(graph->arena, bool, graph->values.count + 1),
               .nodes = ARENA_ARRAY(graph->arena, bool, graph->nodes.count + 1)};
  walk_value(&walk, value);
  return walk;
}

// Everything that a value is computed from; or but for what is behind a `stop`, that gradients flow to. All that stands
// in a region counts where one of its results is read.
static Walk walk_from(Graph *graph, ValueId value, bool through_stops) {
  Walk walk = walk_begin(graph, value);
  while (walk.open.count > 0) {
    const Node *node = graph_node(graph, walk.open.at[--walk.open.count]);
    for (int i = 0; i < node->operand_count && (through_stops || node->op != OP_STOP); i++) {
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
  const Walk walk = walk_from(graph, value, true);
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    const bool moves = node->op == OP_INPUT || node->op == OP_PARAM || node->op == OP_STATE || op_random(node->op);
    if (walk.nodes[i] && moves) {
      return false;
    }
  }
  return true;
}

bool lint_finds(Graph *graph, ValueId value, bool (*found)(Graph *graph, const Node *node),
                bool (*passed)(const Node *node)) {
  Walk walk = walk_begin(graph, value);
  while (walk.open.count > 0) {
    const NodeId at = walk.open.at[--walk.open.count];
    if (found(graph, graph_node(graph, at))) {
      return true;
    }
    const Node *node = graph_node(graph, at);
    for (int i = 0; passed(node) && i < node->operand_count; i++) {
      walk_value(&walk, node->operands[i]);
    }
  }
  return false;
}

const bool *lint_nodes_of(Graph *graph, ValueId value) {
  return walk_from(graph, value, true).nodes;
}

// --- parameters ---

static int by_place(const void *a, const void *b) {
  const Span *x = a, *y = b;
  return x->file != y->file ? x->file - y->file : (x->begin > y->begin) - (x->begin < y->begin);
}

// Statements of which it was said that nothing reads what they make, by their places; with each goes the furthest end
// of all up to it in the file, as statements may hold others.
typedef struct {
  int count;
  Span *at;
} Unread;

static Unread unread_of(Elaborator *e) {
  Unread unread = {e->unit->unread.count, ARENA_ARRAY(e->arena, Span, e->unit->unread.count + 1)};
  for (int i = 0; i < unread.count; i++) {
    unread.at[i] = e->unit->unread.at[i];
  }
  qsort(unread.at, (size_t)unread.count, sizeof *unread.at, by_place);
  for (int i = 1; i < unread.count; i++) {
    Span *span = &unread.at[i], *before = span - 1;
    span->end = before->file == span->file && before->end > span->end ? before->end : span->end;
  }
  return unread;
}

static bool in_unread(const Unread *unread, Span span) {
  int low = 0, high = unread->count;  // the last that does not begin behind it is before `low`
  while (low < high) {
    const int middle = low + (high - low) / 2;
    const bool before = by_place(&unread->at[middle], &span) <= 0;
    low = before ? middle + 1 : low;
    high = before ? high : middle;
  }
  return low > 0 && unread->at[low - 1].file == span.file && unread->at[low - 1].end >= span.end;
}

// Is it made for a value of which it was said that nothing reads it?
static bool made_for_unread(const Elaborator *e, const Unread *unread, const Persistent *parameter) {
  bool inside = in_unread(unread, parameter->span);
  for (ScopeId scope = parameter->scope; scope >= 0 && !inside; scope = e->graph->scopes.at[scope].parent) {
    inside = in_unread(unread, e->graph->scopes.at[scope].call);
  }
  return inside;
}

static bool part_is_silent(const char *path) {
  return path[0] == '_' || strstr(path, "._") != NULL;
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

typedef struct {  // parameters that one statement makes
  int first, idle, trained;
  bool stopped;  // the first is behind a `stop`
} Made;

// Where no gradient goes on to a parameter: the first `stop`, in the order of the text, that something reads and that
// depends on it by other nodes. NULL: none was found.
static const Node *stop_behind(Graph *graph, ValueId parameter, const bool *read) {
  bool *depends = ARENA_ARRAY(graph->arena, bool, graph->values.count + 1);
  depends[parameter] = true;
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    bool any = false;
    for (int k = 0; k < node->operand_count; k++) {
      any |= depends[node->operands[k]];
    }
    if (any && node->op == OP_STOP && read[i]) {
      return node;
    }
    for (int k = 0; any && node->op != OP_STOP && k < node->result_count; k++) {
      depends[node->first_result + k] = true;
    }
  }
  return NULL;
}

// The function whose call a node is of, as the text has it: `top` reads positions behind a stop of its own.
static const char *called_at(const Elaborator *e, Span span) {
  if (span.file < 0) {
    return "";
  }
  const char *text = e->diag->sources.at[span.file].text + span.begin;
  const size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
  return text[length] == '(' ? arena_format(e->arena, "%.*s", (int)length, text) : "";
}

// ": it ends at ...", and `place`, where that is known.
static const char *ends_at(const Elaborator *e, ValueId parameter, const bool *read, Span *place) {
  const Node *stop = stop_behind(e->graph, parameter, read);
  const char *name = stop ? called_at(e, stop->span) : "";
  *place = *name ? stop->span : SPAN_NONE;
  return *name && strcmp(name, "stop") != 0
             ? arena_format(e->arena, "it ends at `%s`, whose positions have no gradient", name)
             : "it ends at a `stop`";
}

static void warn_idle(Elaborator *e, const Made *made, const bool *read) {
  const Persistent *parameter = &e->graph->persistent.at[made->first];
  Span place = SPAN_NONE;
  const int trained = made->trained, others = made->idle - 1;
  const char *more = others > 0 ? arena_format(e->arena, " and %d more that are made here", others) : "";
  Diagnostic *said =
      diag_warning(e->diag, E038, parameter->span,
                   made->stopped ? "no gradient of the loss reaches '%s'%s: %s" : "the loss does not depend on '%s'%s",
                   parameter->name, more, made->stopped ? ends_at(e, parameter->value, read, &place) : "");
  if (place.file >= 0) {
    diag_related(e->diag, said, place, "it ends here");
  }
  if (trained > 0) {
    diag_label(e->diag, said, "it does on %d other%s", trained, trained > 1 ? "s" : "");
  }
  diag_help(e->diag, said, "read what is made of it, freeze it in the recipe, `freeze %s;`, or begin its name with `_`",
            others > 0 ? in_all_rounds(e->arena, parameter->name) : parameter->name);
}

static bool is_idle(Elaborator *e, const Walk *walk, const Unread *unread, const Persistent *parameter) {
  return !walk->values[parameter->value] && !part_is_silent(parameter->name) && !optimizer_freezes(e, parameter) &&
         !made_for_unread(e, unread, parameter);
}

static void check_parameters(Elaborator *e, ValueId loss) {
  const Graph *graph = e->graph;
  const Walk walk = walk_from(e->graph, loss, false), reached = walk_from(e->graph, loss, true);
  const Unread unread = unread_of(e);
  Made *made = ARENA_ARRAY(e->arena, Made, graph->persistent.count + 1);
  Map by_span = map_create(e->arena);
  int count = 0;
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *parameter = &graph->persistent.at[i];
    if (parameter->role != ROLE_PARAMETER) {
      continue;
    }
    const uint64_t file = (uint64_t)parameter->span.file;
    int64_t at = map_get_bytes_or(&by_span, MAP_KEY(file, parameter->span.begin, parameter->span.end), -1);
    if (at < 0) {
      at = count++;
      map_put_bytes(&by_span, MAP_KEY(file, parameter->span.begin, parameter->span.end), at);
    }
    const bool idle = is_idle(e, &walk, &unread, parameter);
    made[at].first = idle && made[at].idle == 0 ? i : made[at].first;
    made[at].stopped = made[at].idle == 0 ? reached.values[parameter->value] : made[at].stopped;
    made[at].idle += idle;
    made[at].trained += !idle;
  }
  for (int i = 0; i < count; i++) {
    if (made[i].idle > 0) {
      warn_idle(e, &made[i], reached.nodes);
    }
  }
}

void lint_model(Elaborator *e, ValueId loss) {
  unread_check(e->unit);
  lint_hidden(e);
  check_parameters(e, loss);
  lint_loss(e, loss);
}
