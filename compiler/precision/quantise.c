// quantise.c: products in 8 bits, and what they read; quantise_choose.c: which ones.
//
// A rule of the policy selects products by the place of the forward's product: its gradients go with it. Of a product
// with a parameter the forward multiplies both operands in the format `forward`; its gradients multiply what comes
// back, in the format `backward`, by the other operand as the forward has it. Both must have 8 bits, and m, n and k of
// the whole product must be multiples of 16, as matrix units of GPUs take no others; so whether a product is one of 8
// bits does not depend on the layout. Only the training step multiplies so.
//
// What is multiplied is x * (1 / scale), rounded; the scale is one number in f32 for each value:
//   amax = the largest |x|;  scale = amax / the largest number of the format
// so amax itself is the largest number, and nothing is cut off. With a history amax is the largest of the last steps,
// or that of this value while there is none; the history, a ring by the number of the step, gets that of this value
// when the step is done, unless it is skipped or that is not finite. An amax that is not finite makes a scale that is
// not finite, and so a product that is not: the step is skipped as in other formats. Values are quantised once, for all
// products that read them in one format: x for the forward and for the gradient of the weight, a gradient for both.
//
// With blocks there are many scales: quantise_block.c.
//
// Parameters that multiply one value over the same axes, in one layer and by the same rule (query, key and value; gate
// and up), have one scale, by the largest amax of them; so have the gradients that come back of these products. So they
// can be one product in 8 bits, as they are in other formats: of rows that are scaled alike.
#include "compiler/precision/quantise.h"

#include "compiler/precision/codes.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "compiler/spec/selector.h"

enum { SIZE_STEP = 16 };

// The parameter that a value is, rounded, multiplied by its scales and moved at most; or NULL.
Name quantiser_parameter(const Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  int64_t member = -1;
  while (node && (op_same(node->op) || codes_multiplied(graph, node))) {
    member = node->op == OP_PART ? node->integer : member;
    node = graph_producer(graph, node->operands[0]);
  }
  node = node && node->op == OP_PACK && member >= 0 ? graph_producer(graph, node->operands[member]) : node;
  return node && node->op == OP_PARAM ? node->text : NULL;
}

bool comes_from_parameter(const Graph *graph, ValueId value) {
  return quantiser_parameter(graph, value) != NULL;
}

// --- which have scales in common ---

// The innermost round of a repeat that a scope is in; -1: none.
static ScopeId round_of(const Graph *graph, ScopeId scope) {
  while (scope >= 0 && graph->scopes.at[scope].index < 0) {
    scope = graph->scopes.at[scope].parent;
  }
  return scope;
}

// The operand of a product of the forward that is a parameter, if only one is; else -1.
static int parameter_operand(const Graph *graph, const Node *dot) {
  const bool a = comes_from_parameter(graph, dot->operands[0]), b = comes_from_parameter(graph, dot->operands[1]);
  return a == b ? -1 : b;
}

// What products of a group have in common, as numbers.
typedef struct {
  uint64_t value, round, backward, history, margin, inner[SHAPE_MAX_AXES];
} GroupKey;

static GroupKey group_key(const Graph *graph, const Node *dot, int parameter, const ProductFormats *formats) {
  GroupKey key = {.value = (uint64_t)dot->operands[1 - parameter],
                  .round = (uint64_t)(round_of(graph, dot->scope) + 1),
                  .backward = (uint64_t)formats->rule->backward << 8 | (uint64_t)formats->rule->forward,
                  .history = (uint64_t)formats->rule->history,
                  .margin = (uint64_t)formats->rule->margin};
  const Shape value = graph_shape(graph, dot->operands[1 - parameter]), inner = shape_common(value, &dot->axes);
  for (int i = 0; i < inner.count; i++) {
    key.inner[i] = (uint64_t)(inner.axis[i] + 1);
  }
  return key;
}

static void add_once(Graph *graph, ValueList *list, ValueId value) {
  for (int i = 0; i < list->count; i++) {
    if (list->at[i] == value) {
      return;
    }
  }
  array_push(graph->arena, list, value);
}

static void find_groups(Quantiser *q, Map *by_key, RegionId region) {
  Graph *graph = q->c->graph;
  const NodeList nodes = graph->regions.at[region].nodes;
  for (int i = 0; i < nodes.count; i++) {
    const NodeId id = nodes.at[i];
    const Node *node = graph_node(graph, id);
    if (node->op == OP_MICROBATCH) {
      find_groups(q, by_key, node->region);
    }
    const ProductFormats formats = node->op == OP_DOT ? quantiser_formats(q, node) : (ProductFormats){0};
    const int parameter = formats.scaled && !node->backward ? parameter_operand(graph, node) : -1;
    if (parameter >= 0) {
      const GroupKey key = group_key(graph, node, parameter, &formats);
      int64_t group;
      if (!map_get_bytes(by_key, &key, sizeof key, &group)) {
        group = q->groups.count;
        array_push(graph->arena, &q->groups, ((ProductGroup){.first = id}));
        map_put_bytes(by_key, &key, sizeof key, group);
      }
      map_put(&q->group_of, (uint64_t)id, group);
      add_once(graph, &q->groups.at[group].parameters, node->operands[parameter]);
    }
    const int64_t group = formats.scaled && node->backward ? map_get_or(&q->group_of, (uint64_t)node->source, -1) : -1;
    if (group >= 0) {
      const ValueId gradient = node->operands[quantiser_is_gradient(graph, node->operands[1])];
      add_once(graph, &q->groups.at[group].gradients, gradient);
      map_put(&q->source_of, (uint64_t)gradient, node->source);
    }
  }
}

Quantiser quantiser_start(Compilation *c, ValueId (*base)(void *of, ValueId parameter), void *of) {
  Quantiser q = {.c = c,
                 .base = base,
                 .of = of,
                 .merged = -1,
                 .made = map_create(c->arena),
                 .group_of = map_create(c->arena),
                 .source_of = map_create(c->arena),
                 .lists = map_create(c->arena)};
  Map by_key = map_create(c->arena);
  find_groups(&q, &by_key, 0);
  quantiser_find_packs(&q);
  return q;
}

static const ProductGroup *group_of(const Quantiser *q, const Node *dot, NodeId id) {
  const int64_t group = map_get_or(&q->group_of, (uint64_t)(dot->backward ? dot->source : id), -1);
  return group >= 0 ? &q->groups.at[group] : NULL;
}

static bool contains(const ValueList *list, ValueId value) {
  for (int i = 0; i < list->count; i++) {
    if (list->at[i] == value) {
      return true;
    }
  }
  return false;
}

ValueList quantiser_together(const Quantiser *q, NodeId id, int operand) {
  const Node *dot = graph_node(q->c->graph, id);
  const ProductGroup *group = group_of(q, dot, id);
  if (group && contains(&group->parameters, dot->operands[operand])) {
    return group->parameters;
  }
  if (group && dot->backward && contains(&group->gradients, dot->operands[operand])) {
    return group->gradients;
  }
  return (ValueList){.at = &dot->operands[operand], .count = 1};
}

// --- what they read ---

GraphPlace quantiser_go_in_front(Graph *graph) {
  const GraphPlace before = graph_place(graph);
  graph->region = 0;
  graph->backward = false;
  graph->role = ROLE_PARAMETER;
  return before;
}

// Whether ranks gather the parameter wherever it is read: nothing of it is there in front of the microbatches.
static bool is_gathered(const Graph *graph, Name parameter) {
  for (int i = 0; i < graph->packs.count; i++) {
    const Pack *pack = &graph->packs.at[i];
    for (int j = 0; pack->param & ~pack->kept && j < pack->count; j++) {
      if (pack->members[j] == parameter) {
        return true;
      }
    }
  }
  return false;
}

bool quantiser_is_steady(const Quantiser *q, ValueId value) {
  const Graph *graph = q->c->graph;
  const Node *node = graph_producer(graph, value);
  while (node && op_view(node->op) && op_moves(node->op) && node->op != OP_PART) {
    node = graph_producer(graph, node->operands[0]);
  }
  return graph->slots > 1 && node && node->op == OP_PARAM && !is_gathered(graph, node->text);
}

static bool are_steady(const Quantiser *q, const ValueList *values) {
  bool all = true;
  for (int i = 0; i < values->count; i++) {
    all = all && quantiser_is_steady(q, values->at[i]) && !quantiser_is_stored(q, values->at[i]);
  }
  return all;
}

ValueId quantiser_in_front(Quantiser *q, ValueId value) {
  Graph *graph = q->c->graph;
  const Node node = *graph_producer(graph, value);
  if (node.op == OP_PARAM) {
    return value;
  }
  const GraphPlace before = quantiser_go_in_front(graph);
  const MadeKey key = quantiser_key(q, MADE_MOVED, value, TYPE_REAL, 0);
  int64_t known;
  if (!map_get_bytes(&q->made, &key, sizeof key, &known)) {
    const ValueId from = quantiser_in_front(q, node.operands[0]);
    known = graph_node(graph, graph_clone(graph, graph_value(graph, value)->node, &from))->first_result;
    graph_producer(graph, (ValueId)known)->backward = false;
    map_put_bytes(&q->made, &key, sizeof key, known);
  }
  graph_return(graph, before);
  return (ValueId)known;
}

// With a pipeline the backward quantises parameters again: see casts in precision.c.
static bool again(const Quantiser *q, ValueId value) {
  return q->c->tenancy && q->c->graph->backward && comes_from_parameter(q->c->graph, value);
}

MadeKey quantiser_key(const Quantiser *q, Made what, ValueId value, ElementType type, uint64_t scaling) {
  return (MadeKey){.part = {(uint64_t)value, (uint64_t)what << 8 | (uint64_t)type, (uint64_t)q->c->graph->region,
                            again(q, value), scaling}};
}

static uint64_t scaling_of(const ProductRule *rule) {
  return rule ? (uint64_t)rule->history << 8 | (uint64_t)rule->margin : 0;
}

static uint64_t number_of(Quantiser *q, const ValueList *values) {
  const size_t bytes = sizeof *values->at * (size_t)values->count;
  int64_t number;
  if (!map_get_bytes(&q->lists, values->at, bytes, &number)) {
    number = q->list_count++;
    map_put_bytes(&q->lists, values->at, bytes, number);
  }
  return (uint64_t)number;
}

NodeId quantiser_follow(const Quantiser *q, ValueId value) {
  const NodeId before = q->c->graph->source;
  q->c->graph->source = (NodeId)map_get_or(&q->source_of, (uint64_t)value, before);
  return before;
}

ValueId quantiser_rounded(const Quantiser *q, ValueId value) {
  return comes_from_parameter(q->c->graph, value) ? q->base(q->of, value) : value;
}

static ValueId amax_of(Quantiser *q, ValueId value) {
  Graph *graph = q->c->graph;
  if (quantiser_is_stored(q, value)) {
    return quantiser_stored_amax(q, value, false);
  }
  const MadeKey key = quantiser_key(q, MADE_AMAX, value, TYPE_REAL, 0);
  int64_t known;
  if (map_get_bytes(&q->made, &key, sizeof key, &known)) {
    return (ValueId)known;
  }
  const NodeId before = quantiser_follow(q, value);
  const Node made = *graph_producer(graph, value);
  ValueId amax = -1;
  if (made.op == OP_CONCAT) {  // whoever makes the parts knows them
    amax = amax_of(q, made.operands[0]);
    for (int i = 1; i < made.operand_count; i++) {
      amax = graph_op2(graph, OP_MAX, amax, amax_of(q, made.operands[i]));
    }
  } else {
    const ValueId size = graph_op1(graph, OP_ABS, quantiser_rounded(q, value));
    amax = graph_add1(graph, OP_REDUCE_MAX, (NodeInit){NODE_INIT, .axes = graph_shape(graph, value)}, size);
  }
  graph->source = before;
  map_put_bytes(&q->made, &key, sizeof key, amax);
  return amax;
}

static ValueId largest_amax(Quantiser *q, const ValueList *values) {
  ValueId amax = amax_of(q, values->at[0]);
  for (int i = 1; i < values->count; i++) {
    amax = graph_op2(q->c->graph, OP_MAX, amax, amax_of(q, values->at[i]));
  }
  return amax;
}

// --- histories ---

// fp8.layers.3.q.x.amax: x and w of y = x w, and dy. What several products have in common is called after the first.
static Name history_name(const Quantiser *q, ValueId value, Name weight) {
  Names *names = q->c->graph->names;
  const char *what = comes_from_parameter(q->c->graph, value)    ? "w"
                     : quantiser_is_gradient(q->c->graph, value) ? "dy"
                                                                 : "x";
  const char *last = strrchr(weight, '.');
  const int length = last && last[1] == 'w' && !last[2] ? (int)(last - weight) : (int)strlen(weight);
  Name name = name_format(names, "fp8.%.*s.%s.amax", length, weight, what);
  for (int i = 2; graph_persistent(q->c->graph, name); i++) {
    name = name_format(names, "fp8.%.*s.%s.%d.amax", length, weight, what, i);
  }
  return name;
}

// For whoever gives them their first values; several training steps of one plan have the same.
static void keep_history(const Compilation *c, const History *history) {
  for (int i = 0; i < c->histories->count; i++) {
    if (c->histories->at[i].name == history->name) {
      return;
    }
  }
  array_push(c->diag->arena, c->histories, *history);
}

// The largest number of the steps that the history knows. Where it knows nothing: in a cold step that of this value, in
// another one that makes the scale 1, so that it need not wait for the value.
static ValueId delayed(Quantiser *q, NodeId dot, const ValueList *values, ValueId amax, double largest,
                       const ProductRule *rule) {
  Graph *graph = q->c->graph;
  const Node *node = graph_node(graph, dot);
  const ProductGroup *group = values->count > 1 ? group_of(q, node, dot) : NULL;
  const Node *forward = group            ? graph_node(graph, group->first)
                        : node->backward ? graph_node(graph, node->source)
                                         : node;
  const Name first = quantiser_parameter(graph, forward->operands[0]);
  const Name weight = first ? first : quantiser_parameter(graph, forward->operands[1]);
  const History history = {history_name(q, values->at[0], weight), weight, rule->history, graph->span};
  keep_history(q->c, &history);
  const RegionId inner = graph->region;
  graph->region = 0;  // in front of the microbatches
  const ValueId state = history_add(graph, &history);
  graph->region = inner;
  const ValueId known =
      graph_add1(graph, OP_REDUCE_MAX, (NodeInit){NODE_INIT, .axes = graph_shape(graph, state)}, state);
  const ValueId any = graph_op2(graph, OP_LESS, graph_real(graph, 0), known);
  const ValueList none = {0};
  array_push(graph->arena, &q->updates,
             ((QuantiserUpdate){state, amax, quantiser_is_stored(q, values->at[0]) ? *values : none, inner == 0}));
  return graph_op3(graph, OP_WHERE, any, known, q->c->cold ? amax : graph_real(graph, largest));
}

// amax over the largest number of the format; of zeros alone, and of what is next to nothing, a number that divides.
static ValueId make_scale(Quantiser *q, NodeId dot, const ValueList *values, ElementType type,
                          const ProductRule *rule) {
  Graph *graph = q->c->graph;
  MadeKey key = quantiser_key(q, MADE_SCALE, values->at[0], type, scaling_of(rule));
  key.part[0] = number_of(q, values);
  key.part[3] &= rule->history == 0;  // a value has one history
  int64_t known;
  if (map_get_bytes(&q->made, &key, sizeof key, &known)) {
    return (ValueId)known;
  }
  const bool known_later = rule->history && !q->c->cold && quantiser_is_stored(q, values->at[0]);
  ValueId amax = known_later ? -1 : largest_amax(q, values);
  const double largest = (type == TYPE_E4M3 ? 448 : 57344) * exp2(-rule->margin);
  amax = rule->history ? delayed(q, dot, values, amax, largest, rule) : amax;
  const ValueId least = graph_real(graph, (double)FLT_MIN);
  const ValueId scale = graph_op2(graph, OP_MUL, amax, graph_real(graph, 1 / largest));
  const ValueId small = graph_op2(graph, OP_LESS, scale, least);
  const ValueId made = graph_op3(graph, OP_WHERE, small, least, scale);
  map_put_bytes(&q->made, &key, sizeof key, made);
  return made;
}

ValueId quantiser_scale_of(Quantiser *q, NodeId dot, const ValueList *values, ElementType type,
                           const ProductRule *rule) {
  Graph *graph = q->c->graph;
  const GraphPlace before = graph_place(graph);
  if (quantiser_is_stored(q, values->at[0])) {  // then all are, and the scale is known in front of the microbatches
    quantiser_go_in_front(graph);
  }
  const ValueId made = make_scale(q, dot, values, type, rule);
  graph_return(graph, before);
  return made;
}

// Of the gradient of a value: the members of a group are summed over axes of their own.
static bool sums_own_axes(const Graph *graph, const Node *dot) {
  return dot->backward &&
         (comes_from_parameter(graph, dot->operands[0]) || comes_from_parameter(graph, dot->operands[1]));
}

// The axes over which the product of a member of a group sums, in the order in which the member has them: they come
// last in memory. `dot` is the product of one of them, its operand `own`.
static Shape last_axes(const Graph *graph, const Node *dot, ValueId own, ValueId member) {
  const Shape shape = graph_shape(graph, member), rows = shape_minus(graph_shape(graph, own), &dot->axes);
  return sums_own_axes(graph, dot) ? shape_minus(shape, &rows) : shape_common(shape, &dot->axes);
}

static ValueId quantised(Quantiser *q, ValueId value, ValueId scale, ElementType type, Shape last);

// What is joined is rounded part by part, by whoever makes the parts.
static ValueId join_quantised(Quantiser *q, const Node *concat, ValueId scale, ElementType type, Shape last) {
  ValueId *parts = ARENA_ARRAY(q->c->arena, ValueId, concat->operand_count);
  for (int i = 0; i < concat->operand_count; i++) {
    Shape here = last;
    if (shape_has(&last, concat->axis2)) {
      shape_replace(&here, concat->axis2, concat->axes.axis[i]);
    }
    parts[i] = quantised(q, concat->operands[i], scale, type, here);
  }
  const NodeInit init = {NODE_INIT, .axes = concat->axes, .axis2 = concat->axis2};
  return graph_add(q->c->graph, OP_CONCAT, init, parts, concat->operand_count);
}

static ValueId quantised(Quantiser *q, ValueId value, ValueId scale, ElementType type, Shape last) {
  Graph *graph = q->c->graph;
  if (quantiser_is_stored(q, value)) {
    return quantiser_stored_rounded(q, value);
  }
  MadeKey key = quantiser_key(q, MADE_QUANTISED, value, type, (uint64_t)scale);
  for (int i = 0; i < last.count; i++) {
    key.last[i] = (uint64_t)last.axis[i] + 1;
  }
  int64_t known;
  if (map_get_bytes(&q->made, &key, sizeof key, &known)) {
    return (ValueId)known;
  }
  const NodeInit init = {NODE_INIT, .text = name_of(graph->names, element_type_name(type)), .axes = last};
  const NodeId before = quantiser_follow(q, value);
  const Node maker = *graph_producer(graph, value);
  const ValueId made = maker.op == OP_CONCAT ? join_quantised(q, &maker, scale, type, last)
                                             : graph_add2(graph, OP_QUANTISE, init, quantiser_rounded(q, value), scale);
  graph->source = before;
  graph_value(graph, made)->name = graph_value(graph, value)->name;
  map_put_bytes(&q->made, &key, sizeof key, made);
  return made;
}

// What the gradient of the weight will read of x, from the same kernel: so that this is what is kept, and not x.
static void quantise_for_backward(Quantiser *q, const Node *dot, ValueId x, ValueId scale,
                                  const ProductFormats *formats) {
  const Graph *graph = q->c->graph;
  const Shape other = graph_shape(graph, dot->operands[dot->operands[0] == x]);
  const Shape own = shape_minus(graph_shape(graph, x), &dot->axes), rows = shape_minus(own, &other);
  if (!dot->backward && !comes_from_parameter(graph, x) && quantiser_eight_bits(formats->rule->backward) &&
      rows.count > 0) {
    quantised(q, x, scale, formats->rule->forward, rows);
  }
}

// An operand of a product in 8 bits, and its scale.
static void scale_operand(Quantiser *q, NodeId dot, int operand, const ProductFormats *formats, ValueId *rounded,
                          ValueId *scale) {
  Graph *graph = q->c->graph;
  const GraphPlace before = graph_place(graph);
  const ValueId value = graph_node(graph, dot)->operands[operand];
  const ValueList together = quantiser_together(q, dot, operand);
  const bool front = are_steady(q, &together);
  ValueId *values = ARENA_ARRAY(graph->arena, ValueId, together.count);
  for (int i = 0; i < together.count; i++) {
    values[i] = front ? quantiser_in_front(q, together.at[i]) : together.at[i];
  }
  const ValueList all = {.at = values, .count = together.count};
  if (front) {
    quantiser_go_in_front(graph);
  }
  graph->role = graph_value(graph, value)->role;
  *scale = quantiser_scale_of(q, dot, &all, formats->type[operand], formats->rule);
  for (int i = 0; i < all.count; i++) {  // in front of the first of products that may become one
    const Shape last = last_axes(graph, graph_node(graph, dot), value, all.at[i]);
    quantised(q, all.at[i], *scale, formats->type[operand], last);
    if (front) {  // as the gradients read it, too: what it is rounded from is no longer needed then
      quantised(q, all.at[i], *scale, formats->type[operand], shape_minus(graph_shape(graph, all.at[i]), &last));
    }
  }
  const Shape last = last_axes(graph, graph_node(graph, dot), value, value);
  *rounded = quantised(q, front ? quantiser_in_front(q, value) : value, *scale, formats->type[operand], last);
  quantise_for_backward(q, graph_node(graph, dot), value, *scale, formats);
  graph_return(graph, before);
}

void quantiser_scale(Quantiser *q, NodeId dot, const ProductFormats *formats) {
  if (formats->rule->block) {
    quantiser_scale_blocks(q, dot, formats);
    return;
  }
  Graph *graph = q->c->graph;
  ValueId *operands = ARENA_ARRAY(graph->arena, ValueId, 4);
  for (int i = 0; i < 2; i++) {
    scale_operand(q, dot, i, formats, &operands[i], &operands[2 + i]);
  }
  Node *node = graph_node(graph, dot);
  node->op = OP_SCALED_DOT;
  node->operands = operands;
  node->operand_count = 4;
}
