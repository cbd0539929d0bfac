// samples.c: the rule of every op for samples: how the kind of its result (samples.h) follows from those of its
// operands.
//
// A rule says what the op does with samples. After it, `settle` compares with the axes of the result: what has an axis
// of the batch and does not depend on samples is repeated for each of them, and what has two belongs to no one sample.
#include "compiler/ir/samples.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const Samples same = {SAMPLES_SAME, -1, -1, NULL}, sum = {SAMPLES_SUM, -1, -1, NULL};

static Samples each(AxisId axis) {
  return (Samples){SAMPLES_EACH, axis, -1, NULL};
}

static NodeId id_of(const SamplesTable *t, const Node *node) {
  return (NodeId)(node - t->graph->nodes.at);
}

static Samples late(const SamplesTable *t, const Node *node) {
  return (Samples){SAMPLES_LATE, -1, id_of(t, node), NULL};
}

__attribute__((format(printf, 3, 4))) static Samples mixed(const SamplesTable *t, const Node *node, const char *format,
                                                           ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return (Samples){SAMPLES_MIXED, -1, id_of(t, node), arena_format(t->arena, "%s", text)};
}

static Samples operand(const SamplesTable *t, const Node *node, int at) {
  return samples_of(t, node->operands[at]);
}

static const char *axis_text(const SamplesTable *t, AxisId axis) {
  return t->graph->axes.at[axis].name;
}

static const char *value_text(const SamplesTable *t, ValueId value) {
  const Node *maker = graph_producer(t->graph, value);
  Name name = graph_value(t->graph, value)->name;
  return name    ? arena_format(t->arena, "'%s'", name)
         : maker ? arena_format(t->arena, "what '%s' makes", op_name(maker->op))
                 : "a value";
}

// Does a microbatch have a part of this axis, and not all?
static bool is_cut(const SamplesTable *t, AxisId axis) {
  return axis >= 0 && t->cut[axis];
}

// Do the parts that the microbatches have make up the axis? An axis of size batch + 1 is cut in another way.
static bool is_even(const SamplesTable *t, AxisId axis) {
  const Axis *at = &t->graph->axes.at[axis];
  return at->size * t->slots == at->global;
}

static bool is_real(const SamplesTable *t, const Node *node) {
  return element_type_floating(graph_value(t->graph, node->first_result)->type);
}

static Samples meet(const SamplesTable *t, const Node *node, int a, int b) {
  const Samples first = operand(t, node, a), second = operand(t, node, b);
  const char *name = value_text(t, node->operands[a]), *other = value_text(t, node->operands[b]);
  if (first.kind == SAMPLES_EACH && second.kind == SAMPLES_EACH) {
    return mixed(t, node, "every sample of %s, along '%s', meets every sample of %s, along '%s'", name,
                 axis_text(t, first.axis), other, axis_text(t, second.axis));
  }
  const bool swap = second.kind == SAMPLES_EACH;
  return mixed(t, node, "each sample of %s meets %s, which is computed from all samples", swap ? other : name,
               swap ? name : other);
}

// Of operands that are not just added: the same, or of the same sample, or known when the microbatches are done.
static Samples joined(SamplesTable *t, const Node *node) {
  int sample = -1, total = -1;
  for (int i = 0; i < node->operand_count; i++) {
    const Samples of = operand(t, node, i);
    if (of.kind == SAMPLES_MIXED) {
      return of;
    }
    if (of.kind == SAMPLES_EACH) {
      if (sample >= 0 && operand(t, node, sample).axis != of.axis) {
        return meet(t, node, sample, i);
      }
      sample = sample < 0 ? i : sample;
    }
    if (of.kind == SAMPLES_LATE ||
        (of.kind == SAMPLES_SUM && (total < 0 || operand(t, node, total).kind != SAMPLES_LATE))) {
      total = i;
    }
  }
  if (sample >= 0 && total >= 0) {
    return meet(t, node, sample, total);
  }
  if (total >= 0) {
    const Samples of = operand(t, node, total);
    return of.kind == SAMPLES_LATE ? of : late(t, node);
  }
  return sample >= 0 ? operand(t, node, sample) : same;
}

static bool all_are(const SamplesTable *t, const Node *node, int from, SamplesKind a, SamplesKind b) {
  for (int i = from; i < node->operand_count; i++) {
    const SamplesKind kind = operand(t, node, i).kind;
    if (kind != a && kind != b) {
      return false;
    }
  }
  return true;
}

// --- the rules, named in ops.def ---

typedef Samples SamplesRule(SamplesTable *t, const Node *node);

// Made by a pass that comes later.
static Samples samples_later(SamplesTable *t, const Node *node) {
  return mixed(t, node, "nothing is known of '%s'", op_name(node->op));
}

static Samples samples_constant(SamplesTable *t, const Node *node) {
  (void)t, (void)node;
  return same;
}

static Samples samples_stored(SamplesTable *t, const Node *node) {
  const Shape shape = graph_shape(t->graph, node->first_result);
  for (int i = 0; i < shape.count; i++) {
    if (is_cut(t, shape.axis[i])) {
      return mixed(t, node, "'%s' is kept for the positions of the whole batch along '%s'", node->text,
                   axis_text(t, shape.axis[i]));
    }
  }
  return same;
}

static Samples samples_position(SamplesTable *t, const Node *node) {
  return is_cut(t, node->axis) && !t->numbered
             ? mixed(t, node, "an evaluation has one microbatch, and positions along '%s' are those of the whole batch",
                     axis_text(t, node->axis))
             : same;
}

static Samples samples_elements(SamplesTable *t, const Node *node) {
  return joined(t, node);
}

// One operand: the result of a sum is the sum of the results.
static Samples samples_linear(SamplesTable *t, const Node *node) {
  return operand(t, node, 0).kind == SAMPLES_SUM && is_real(t, node) ? sum : joined(t, node);
}

static Samples samples_add(SamplesTable *t, const Node *node) {
  const bool sums =
      all_are(t, node, 0, SAMPLES_SUM, SAMPLES_SUM) || (!t->inside && all_are(t, node, 0, SAMPLES_SUM, SAMPLES_SAME) &&
                                                        !all_are(t, node, 0, SAMPLES_SAME, SAMPLES_SAME));
  return sums && is_real(t, node) ? sum : joined(t, node);
}

// A sum times what is the same everywhere.
static bool scales(const SamplesTable *t, const Node *node, int total, int factor) {
  return operand(t, node, total).kind == SAMPLES_SUM && operand(t, node, factor).kind == SAMPLES_SAME &&
         is_real(t, node);
}

static Samples samples_multiply(SamplesTable *t, const Node *node) {
  return scales(t, node, 0, 1) || scales(t, node, 1, 0) ? sum : joined(t, node);
}

static Samples samples_divide(SamplesTable *t, const Node *node) {
  return scales(t, node, 0, 1) ? sum : joined(t, node);
}

static Samples samples_where(SamplesTable *t, const Node *node) {
  const bool chooses = operand(t, node, 0).kind == SAMPLES_SAME && all_are(t, node, 1, SAMPLES_SUM, SAMPLES_SAME) &&
                       !all_are(t, node, 1, SAMPLES_SAME, SAMPLES_SAME);
  const bool alone = !t->inside || all_are(t, node, 1, SAMPLES_SUM, SAMPLES_SUM);
  return chooses && alone && is_real(t, node) ? sum : joined(t, node);
}

static Samples samples_sum(SamplesTable *t, const Node *node) {
  const Samples of = operand(t, node, 0);
  return of.kind == SAMPLES_EACH && shape_has(&node->axes, of.axis) ? sum : samples_linear(t, node);
}

static Samples samples_extreme(SamplesTable *t, const Node *node) {
  const Samples of = operand(t, node, 0);
  if (of.kind == SAMPLES_EACH && shape_has(&node->axes, of.axis)) {
    return mixed(t, node, "'%s' compares all samples of %s, along '%s'", op_name(node->op),
                 value_text(t, node->operands[0]), axis_text(t, of.axis));
  }
  return joined(t, node);
}

static Samples samples_dot(SamplesTable *t, const Node *node) {
  const Samples of = joined(t, node);
  if (of.kind == SAMPLES_EACH && shape_has(&node->axes, of.axis)) {
    return sum;
  }
  return samples_multiply(t, node);
}

static Samples along(const SamplesTable *t, const Node *node, AxisId axis) {
  return mixed(t, node, "'%s' reaches along '%s', of which a microbatch has a part", op_name(node->op),
               axis_text(t, axis));
}

// A product, of which `summed` says whether it is summed over an axis of samples.
static Samples chosen(SamplesTable *t, const Node *node, bool (*summed)(const SamplesTable *, const Node *, AxisId)) {
  if (is_cut(t, node->axis)) {
    return along(t, node, node->axis);
  }
  const Samples of = joined(t, node);
  const bool index = operand(t, node, 2).kind == SAMPLES_SAME;
  return of.kind == SAMPLES_EACH && summed(t, node, of.axis) ? sum : index ? samples_multiply(t, node) : of;
}

static bool is_contracted(const SamplesTable *t, const Node *node, AxisId axis) {
  (void)t;
  return shape_has(&node->axes, axis);
}

static bool is_left_out(const SamplesTable *t, const Node *node, AxisId axis) {
  const Shape result = graph_shape(t->graph, node->first_result);
  return !shape_has(&result, axis);
}

static Samples samples_chosen_dot(SamplesTable *t, const Node *node) {
  return chosen(t, node, is_contracted);
}

static Samples samples_chosen_sum(SamplesTable *t, const Node *node) {
  return chosen(t, node, is_left_out);
}

// What is left out is of each microbatch by itself.
static Samples samples_limit(SamplesTable *t, const Node *node) {
  return joined(t, node);
}

static Samples samples_take(SamplesTable *t, const Node *node) {
  if (is_cut(t, node->axis)) {
    return along(t, node, node->axis);
  }
  return scales(t, node, 0, 1) ? sum : joined(t, node);
}

// Sums over the axes of the index that the result lacks.
static Samples samples_put(SamplesTable *t, const Node *node) {
  if (is_cut(t, node->axis)) {
    return along(t, node, node->axis);
  }
  const Samples of = joined(t, node);
  if (of.kind == SAMPLES_EACH && !shape_has(&node->axes, of.axis)) {
    return is_real(t, node) ? sum : mixed(t, node, "whole numbers of all samples are added");
  }
  return scales(t, node, 0, 1) ? sum : of;
}

// The samples of axis `from` are now along `to`.
static Samples moved(SamplesTable *t, const Node *node, AxisId from, AxisId to) {
  if (t->slots == 1) {
    t->cut[to] = true;
  }
  return is_cut(t, to) && is_even(t, to)
             ? each(to)
             : mixed(t, node, "the samples along '%s' do not lie one after the other along '%s'", axis_text(t, from),
                     axis_text(t, to));
}

static Samples samples_rename(SamplesTable *t, const Node *node) {
  const Samples of = operand(t, node, 0);
  return of.kind == SAMPLES_EACH && of.axis == node->axis ? moved(t, node, node->axis, node->axis2)
                                                          : samples_linear(t, node);
}

// The first of these axes that is longer than 1: along it samples stay one after the other.
static AxisId major(const SamplesTable *t, const Shape *axes) {
  for (int i = 0; i < axes->count - 1; i++) {
    if (t->graph->axes.at[axes->axis[i]].global > 1) {
      return axes->axis[i];
    }
  }
  return axes->axis[axes->count - 1];
}

static Samples samples_split(SamplesTable *t, const Node *node) {
  const Samples of = operand(t, node, 0);
  return of.kind == SAMPLES_EACH && of.axis == node->axis ? moved(t, node, node->axis, major(t, &node->axes))
                                                          : samples_linear(t, node);
}

static Samples samples_merge(SamplesTable *t, const Node *node) {
  const Samples of = operand(t, node, 0);
  if (of.kind != SAMPLES_EACH || !shape_has(&node->axes, of.axis)) {
    return samples_linear(t, node);
  }
  if (major(t, &node->axes) != of.axis) {
    return mixed(t, node, "the samples along '%s' do not come first in '%s'", axis_text(t, of.axis),
                 axis_text(t, node->axis2));
  }
  return moved(t, node, of.axis, node->axis2);
}

// Picks, shifts or pads positions of axis.
static Samples samples_around(SamplesTable *t, const Node *node) {
  const Samples of = operand(t, node, 0);
  if (of.kind != SAMPLES_MIXED && (is_cut(t, node->axis) || is_cut(t, node->axis2))) {
    return along(t, node, is_cut(t, node->axis) ? node->axis : node->axis2);
  }
  return samples_linear(t, node);
}

static Samples samples_concat(SamplesTable *t, const Node *node) {
  for (int i = 0; i < node->operand_count; i++) {
    if (is_cut(t, node->axes.axis[i]) && operand(t, node, i).kind != SAMPLES_MIXED) {
      return along(t, node, node->axes.axis[i]);
    }
  }
  return is_cut(t, node->axis2) ? along(t, node, node->axis2) : samples_add(t, node);
}

static void infer_nodes(SamplesTable *t, const NodeList *nodes, const Samples *given);

// As its body says.
static Samples samples_region(SamplesTable *t, const Node *node) {
  const Region *region = &t->graph->regions.at[node->region];
  const bool inside = t->inside;
  t->inside = true;
  for (int i = 0; i < region->parameters.count; i++) {
    t->values[region->parameters.at[i]] = operand(t, node, i);
  }
  infer_nodes(t, &region->nodes, NULL);
  t->inside = inside;
  return same;  // each result has its own kind: see infer_nodes
}

static SamplesRule *const rules[] = {
#define OP(NAME, text, least, most, infer, gradient, cost, split, padding, samples, attributes, properties) samples,
#include "compiler/ir/ops.def"
#undef OP
};

// --- all nodes in order ---

static Samples settle(const SamplesTable *t, const Node *node, ValueId value, Samples of) {
  const Shape shape = graph_shape(t->graph, value);
  for (int i = 0; i < shape.count && of.kind != SAMPLES_MIXED; i++) {
    const AxisId axis = shape.axis[i];
    if (!is_cut(t, axis)) {
      continue;
    }
    if (!is_even(t, axis)) {
      return mixed(t, node, "the %lld positions along '%s' are not as many for each microbatch",
                   (long long)t->graph->axes.at[axis].global, axis_text(t, axis));
    }
    if (of.kind == SAMPLES_EACH && of.axis != axis) {
      return mixed(t, node, "%s has samples along '%s' and along '%s'", value_text(t, value), axis_text(t, of.axis),
                   axis_text(t, axis));
    }
    if (of.kind == SAMPLES_SUM || of.kind == SAMPLES_LATE) {
      return mixed(t, node, "what is computed from all samples is repeated for each, along '%s'", axis_text(t, axis));
    }
    of = each(axis);
  }
  if (of.kind == SAMPLES_EACH && !shape_has(&shape, of.axis)) {
    return mixed(t, node, "the samples along '%s' are no longer apart", axis_text(t, of.axis));
  }
  return of;
}

static void infer_node(SamplesTable *t, const Node *node) {
  const Samples of = rules[node->op](t, node);
  for (int i = 0; i < node->result_count; i++) {
    Samples made = of;
    if (node->op == OP_COMPOSITE) {
      made = samples_of(t, t->graph->regions.at[node->region].results.at[i]);
      made.node = made.node >= 0 ? id_of(t, node) : -1;
    }
    t->values[node->first_result + i] = settle(t, node, node->first_result + i, made);
  }
}

static void infer_nodes(SamplesTable *t, const NodeList *nodes, const Samples *given) {
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(t->graph, nodes->at[i]);
    if (given && node->op == OP_INPUT) {
      t->values[node->first_result] = settle(t, node, node->first_result, given[node->first_result]);
    } else {
      infer_node(t, node);
    }
  }
}

AxisId samples_rows(const Graph *graph) {
  AxisId rows = -1;
  for (int i = 0; i < graph->nodes.count && rows < 0; i++) {
    const Node *node = graph_node(graph, i);
    const Shape shape = node->result_count ? graph_shape(graph, node->first_result) : (Shape){0};
    const bool tokens = node->op == OP_INPUT && strcmp(node->text, "tokens") == 0;
    rows = tokens && shape.count == 2 ? shape.axis[0] : -1;
  }
  for (int i = graph->axes.count - 1; i >= 0; i--) {
    rows = graph->axes.at[i].name == name_of(graph->names, "batch") ? i : rows;
  }
  return rows;
}

SamplesTable *samples_infer(Arena *arena, const Graph *graph, int slots, bool numbered, const Samples *given) {
  SamplesTable *t = ARENA_NEW(arena, SamplesTable);
  *t = (SamplesTable){
      .arena = arena, .graph = graph, .slots = slots, .numbered = numbered, .count = graph->values.count};
  t->values = ARENA_ARRAY(arena, Samples, t->count + 1);
  t->cut = ARENA_ARRAY(arena, bool, graph->axes.count + 1);
  t->rows = samples_rows(graph);
  for (int i = 0; i < graph->axes.count; i++) {
    const Axis *axis = &graph->axes.at[i];
    t->cut[i] = slots > 1 ? axis->size != axis->global : i == t->rows || axis->name == name_of(graph->names, "batch");
  }
  infer_nodes(t, &graph->regions.at[0].nodes, given);
  return t;
}

Samples samples_of(const SamplesTable *table, ValueId value) {
  return value < table->count ? table->values[value] : same;
}

bool samples_adds(const Node *node, int at) {
  SamplesRule *const rule = rules[node->op];
  return rule == samples_add || rule == samples_concat || (rule == samples_where && at > 0);
}

bool samples_alike(const Node *node) {
  SamplesRule *const rule = rules[node->op];
  return node->operand_count == 1 && op_linear_in(node->op, 0) && rule != samples_around;
}

bool samples_known(Op op) {
  return rules[op] != samples_later;
}
