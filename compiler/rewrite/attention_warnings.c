// attention_warnings.c: what is probably not meant of an attention; only the training step is looked at, since other
// programs have other batches.
#include "compiler/rewrite/attention_warnings.h"

#include <string.h>

#include "base/units.h"
#include "compiler/rewrite/visible.h"

Span asked_for(const Graph *graph, const Node *outer) {
  for (ScopeId scope = outer->scope; scope >= 0; scope = graph->scopes.at[scope].parent) {
    const Span call = graph->scopes.at[scope].call;
    if (call.file >= 0 && call.file != outer->span.file) {
      return call;
    }
  }
  return outer->span;
}

void warn_unfused(Compilation *c, const Node *attention, ValueId matrix, const char *why) {
  enum { SMALL = 16 << 20 };
  const Graph *graph = c->graph;
  Shape shape = graph_shape(graph, matrix);
  double bytes = (double)element_type_bytes(TYPE_F32);  // no policy has been applied yet
  for (int i = 0; i < shape.count; i++) {
    bytes *= (double)graph->axes.at[shape.axis[i]].size;
  }
  const Span call = asked_for(graph, attention);
  if (!c->not_fused && call.file != attention->span.file) {  // it is that of the library
    c->not_fused = why;
    c->not_fused_at = call;
  }
  char size[UNITS_MAX];
  if (bytes >= SMALL && c->program == PROGRAM_TRAIN) {
    Diagnostic *said =
        diag_warning(c->diag, E046, asked_for(graph, attention), "this attention is not one kernel: %s", why);
    diag_label(c->diag, said, "all its scores, a matrix of %s in f32, lie in memory", units_bytes(size, bytes));
  }
}

void warn_hidden(const Compilation *c, const Node *attention, AxisId query, AxisId key, ValueId scores) {
  const Graph *graph = c->graph;
  const PositionsOf at = {graph, query, key, true, NULL};
  const Interval seen = scores >= 0 ? scores_visible(&at, scores) : (Interval){0, 0};
  const int64_t queries = graph->axes.at[query].size, keys = graph->axes.at[key].size;
  if (c->program == PROGRAM_TRAIN && (seen.least > seen.most || seen.most <= -queries || seen.least >= keys)) {
    diag_warning(c->diag, E048, asked_for(graph, attention), "no query of this attention sees any key");
  }
}

// Is this an axis of the positions of an input?
static bool is_place_of(const Graph *graph, AxisId axis, const char *input) {
  const NodeList *nodes = &graph->regions.at[0].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (node->op == OP_INPUT && strcmp(node->text, input) == 0) {
      const Shape shape = graph_shape(graph, node->first_result);
      return shape_has(&shape, axis) && strcmp(graph->axes.at[axis].name, "batch") != 0;
    }
  }
  return false;
}

static bool is_renamed(const Graph *graph, AxisId from, AxisId to) {
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    if (node->op == OP_RENAME && node->axis == from && node->axis2 == to) {
      return true;
    }
  }
  return from == to;
}

static bool computed_from(const Compilation *c, ValueId value, const Node *wanted) {
  const Graph *graph = c->graph;
  bool *seen = ARENA_ARRAY(c->arena, bool, graph->values.count + 1);
  ValueList open = {0};
  array_push(c->arena, &open, value);
  while (open.count > 0) {
    const Node *node = graph_producer(graph, open.at[--open.count]);
    if (node == wanted) {
      return true;
    }
    for (int i = 0; node && i < node->operand_count; i++) {
      if (!seen[node->operands[i]]) {
        seen[node->operands[i]] = true;
        array_push(c->arena, &open, node->operands[i]);
      }
    }
  }
  return false;
}

// Is each position of `query` told by `targets` what it was to make of this attention? A loss of one value for a whole
// text, or of other places, may see all of it.
static bool told_each(const Compilation *c, const Node *attention, AxisId query) {
  const Graph *graph = c->graph;
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    const Node *index = node->op == OP_TAKE ? graph_producer(graph, node->operands[1]) : NULL;
    while (index && (index->op == OP_RENAME || index->op == OP_AS_INDEX || index->op == OP_STOP)) {
      index = graph_producer(graph, index->operands[0]);
    }
    if (!index || index->op != OP_INPUT || strcmp(index->text, "targets") != 0) {
      continue;
    }
    const Shape shape = graph_shape(graph, node->operands[0]);
    if (shape_has(&shape, query) && computed_from(c, node->operands[0], attention)) {
      return true;
    }
  }
  return false;
}

typedef struct {
  const Compilation *c;
  bool shifted;  // shifts are followed
  Map seen;
} Along;

// Is it a part along places, or a tap of a window of them?
static bool is_shift(const Graph *graph, const Node *node, AxisId axis) {
  const Node *before = node->op == OP_SLICE ? graph_producer(graph, node->operands[0]) : NULL;
  return (before && (node->axis == axis || (before->op == OP_WINDOW && before->axis2 == node->axis))) ||
         (node->op == OP_PAD && node->axis2 == axis);
}

// Has a value, along the axis, the text of its places? axis -1: has it any of the text?
static bool text_along(Along *a, ValueId value, AxisId axis) {
  const Graph *graph = a->c->graph;
  const Node *node = graph_producer(graph, value);
  if (!node || map_get_or(&a->seen, (uint64_t)value, -2) == axis || (!a->shifted && is_shift(graph, node, axis))) {
    return false;
  }
  map_put(&a->seen, (uint64_t)value, axis);
  if (node->op == OP_INPUT) {
    return strcmp(node->text, "tokens") == 0;
  }
  const Shape split = node->op == OP_SPLIT ? node->axes : (Shape){0};
  const bool made = (node->op == OP_MERGE && node->axis2 == axis) || shape_has(&split, axis);
  const AxisId inside = node->op == OP_RENAME && node->axis2 == axis ? node->axis : made ? -1 : axis;
  bool found = false;
  for (int i = 0; i < node->operand_count && !found; i++) {
    const Shape shape = graph_shape(graph, node->operands[i]);
    const bool has = inside < 0 || shape_has(&shape, inside);
    found = has && text_along(a, node->operands[i], inside);
    if (has && node->op == OP_TAKE && i == 1 && !found) {  // what the index picks
      found = text_along(a, node->operands[0], -1);
    }
  }
  return found;
}

static bool has_text(const Compilation *c, ValueId value, AxisId axis, bool shifted) {
  Along a = {c, shifted, map_create(c->arena)};
  return text_along(&a, value, axis);
}

// Shifted keys and values stand behind their text, how far is not told.
static bool sees_ahead(const Compilation *c, const Weighed *of) {
  const PositionsOf at = {c->graph, of->query, of->key, true, NULL};
  const bool open = of->made < 0 || scores_unmasked(&at, of->made, of->dot);
  return (open || scores_shown(&at, of->made, of->dot, 1)) &&
         (has_text(c, of->keys, of->key, open) || has_text(c, of->values, of->key, open));
}

void warn_ahead(const Compilation *c, const Node *attention, const Weighed *of) {
  const Graph *graph = c->graph;
  const bool told = is_place_of(graph, of->query, "tokens") && is_place_of(graph, of->query, "targets");
  if (c->program == PROGRAM_TRAIN && told && is_renamed(graph, of->query, of->key) &&
      told_each(c, attention, of->query) && sees_ahead(c, of)) {
    Diagnostic *said = diag_warning(c->diag, E049, asked_for(graph, attention),
                                    "positions see the tokens behind them, which `targets` has them predict");
    if (!said->help) {  // else it was said of the same place before
      diag_help(c->diag, said,
                "write `causal = true`, or a mask with -inf where `pos(key) > pos(seq)`; `allow E049;` in the recipe "
                "if that is meant");
    }
  }
}

void warn_weighed(const Compilation *c, const Node *dot, Weighed of, ValueId weights, bool masked) {
  const Graph *graph = c->graph;
  const Shape shape = graph_shape(graph, of.made), values = graph_shape(graph, of.values);
  for (int i = 0; i < shape.count; i++) {
    of.query = shape.axis[i];
    const PositionsOf at = {graph, of.query, of.key, true, NULL};
    if (of.query != of.key && shape_has(&shape, of.key) && !shape_has(&values, of.query) &&
        (weights < 0 || scores_unmasked(&at, weights, of.dot)) && !(masked && scores_unmasked(&at, of.made, of.dot))) {
      warn_ahead(c, dot, &of);
    }
  }
}

void warn_queries(const Compilation *c, const Node *dot) {
  const Graph *graph = c->graph;
  for (int i = 0; c->program == PROGRAM_TRAIN && dot->axes.count == 1 && i < 2; i++) {
    const AxisId key = dot->axes.axis[0];
    const Node *shares = graph_producer(graph, dot->operands[i]);
    const Node *sum = shares ? graph_shares(graph, shares) : NULL;
    const AxisId query = sum && sum->axes.count == 1 ? sum->axes.axis[0] : -1;
    if (query < 0 || query == key || !is_renamed(graph, query, key) || !is_place_of(graph, query, "tokens") ||
        !is_place_of(graph, query, "targets") || !told_each(c, dot, query)) {
      continue;
    }
    Diagnostic *said =
        diag_warning(c->diag, E049, asked_for(graph, shares),
                     "the shares of this softmax sum to 1 over '%s', where '%s' is summed behind it: each "
                     "position sees of those behind it what they have left",
                     graph->axes.at[query].name, graph->axes.at[key].name);
    diag_help(c->diag, said, "write `softmax(... over %s)`; `allow E049;` in the recipe if that is meant",
              graph->axes.at[key].name);
  }
}
