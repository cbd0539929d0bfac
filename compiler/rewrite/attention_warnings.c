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
  const PositionsOf at = {graph, query, key, false};
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

void warn_ahead(const Compilation *c, const Node *attention, AxisId query, AxisId key) {
  const Graph *graph = c->graph;
  const bool told = is_place_of(graph, query, "tokens") && is_place_of(graph, query, "targets");
  if (c->program == PROGRAM_TRAIN && told && is_renamed(graph, query, key) && told_each(c, attention, query)) {
    Diagnostic *said = diag_warning(c->diag, E049, asked_for(graph, attention),
                                    "positions see the tokens behind them, which `targets` has them predict");
    diag_help(
        c->diag, said,
        "write `causal = true`, or a mask with -inf where `pos(key) > pos(seq)`; `allow E049;` in the recipe if that "
        "is meant");
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
