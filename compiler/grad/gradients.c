// gradients.c: the gradient rule of every op, as new nodes. Named in ops.def.
//
// In the comments g is the gradient of the result y, and da that of operand a.
#include <assert.h>
#include <math.h>

#include "compiler/grad/backward.h"
#include "compiler/ir/attention.h"

#define RULE(name) static void name(Backward *backward, Graph *graph, NodeId id)

static ValueId operand(const Graph *graph, NodeId id, int i) {
  return graph_node(graph, id)->operands[i];
}

static ValueId result(const Graph *graph, NodeId id) {
  return graph_node(graph, id)->first_result;
}

static ValueId incoming(Backward *backward, const Graph *graph, NodeId id) {
  return backward_gradient(backward, result(graph, id));
}

static ValueId mul(Graph *graph, ValueId a, ValueId b) {
  return graph_op2(graph, OP_MUL, a, b);
}

static ValueId scale(Graph *graph, ValueId a, double factor) {
  return mul(graph, a, graph_real(graph, factor));
}

// The gradient of an op that only moves its operand: g moved back by another one.
static void move_back(Backward *backward, Graph *graph, NodeId id, Op op, NodeInit init) {
  backward_add(backward, operand(graph, id, 0), graph_add1(graph, op, init, incoming(backward, graph, id)));
}

static ValueId zero(Graph *graph) {
  return graph_real(graph, 0);
}

RULE(gradient_none) {
  (void)backward, (void)graph, (void)id;
}

RULE(gradient_add) {
  ValueId g = incoming(backward, graph, id);
  backward_add(backward, operand(graph, id, 0), g);
  backward_add(backward, operand(graph, id, 1), g);
}

RULE(gradient_sub) {
  ValueId g = incoming(backward, graph, id);
  backward_add(backward, operand(graph, id, 0), g);
  if (backward_wants(backward, operand(graph, id, 1))) {
    backward_add(backward, operand(graph, id, 1), graph_op1(graph, OP_NEG, g));
  }
}

RULE(gradient_mul) {
  ValueId g = incoming(backward, graph, id), a = operand(graph, id, 0), b = operand(graph, id, 1);
  if (backward_wants(backward, a)) {
    backward_add(backward, a, mul(graph, g, b));
  }
  if (backward_wants(backward, b)) {
    backward_add(backward, b, mul(graph, g, a));
  }
}

RULE(gradient_div) {  // da = g / b, db = -y * g / b
  ValueId g = incoming(backward, graph, id), a = operand(graph, id, 0), b = operand(graph, id, 1);
  ValueId over = graph_op2(graph, OP_DIV, g, b);
  backward_add(backward, a, over);
  if (backward_wants(backward, b)) {
    backward_add(backward, b, graph_op1(graph, OP_NEG, mul(graph, over, result(graph, id))));
  }
}

static void gradient_choice(Backward *backward, Graph *graph, NodeId id, bool larger) {
  ValueId g = incoming(backward, graph, id), a = operand(graph, id, 0), b = operand(graph, id, 1);
  ValueId second = larger ? graph_op2(graph, OP_LESS, a, b) : graph_op2(graph, OP_LESS, b, a);
  if (backward_wants(backward, a)) {
    backward_add(backward, a, graph_op3(graph, OP_WHERE, second, zero(graph), g));
  }
  if (backward_wants(backward, b)) {
    backward_add(backward, b, graph_op3(graph, OP_WHERE, second, g, zero(graph)));
  }
}

RULE(gradient_max) {
  gradient_choice(backward, graph, id, true);
}

RULE(gradient_min) {
  gradient_choice(backward, graph, id, false);
}

RULE(gradient_pow) {  // da = g * b * a^(b-1), db = g * y * log a
  ValueId g = incoming(backward, graph, id), a = operand(graph, id, 0), b = operand(graph, id, 1);
  if (backward_wants(backward, a)) {
    ValueId less = graph_op2(graph, OP_SUB, b, graph_real(graph, 1));
    backward_add(backward, a, mul(graph, g, mul(graph, b, graph_op2(graph, OP_POW, a, less))));
  }
  if (backward_wants(backward, b)) {
    backward_add(backward, b, mul(graph, g, mul(graph, result(graph, id), graph_op1(graph, OP_LOG, a))));
  }
}

RULE(gradient_neg) {
  backward_add(backward, operand(graph, id, 0), graph_op1(graph, OP_NEG, incoming(backward, graph, id)));
}

RULE(gradient_abs) {
  ValueId a = operand(graph, id, 0);
  backward_add(backward, a, mul(graph, incoming(backward, graph, id), graph_op1(graph, OP_SIGN, a)));
}

RULE(gradient_exp) {
  backward_add(backward, operand(graph, id, 0), mul(graph, incoming(backward, graph, id), result(graph, id)));
}

RULE(gradient_log) {
  ValueId a = operand(graph, id, 0);
  backward_add(backward, a, graph_op2(graph, OP_DIV, incoming(backward, graph, id), a));
}

RULE(gradient_sqrt) {  // g / (2 y)
  ValueId half = scale(graph, incoming(backward, graph, id), 0.5);
  backward_add(backward, operand(graph, id, 0), graph_op2(graph, OP_DIV, half, result(graph, id)));
}

RULE(gradient_rsqrt) {  // -g y^3 / 2
  ValueId y = result(graph, id), cube = mul(graph, mul(graph, y, y), y);
  backward_add(backward, operand(graph, id, 0), mul(graph, incoming(backward, graph, id), scale(graph, cube, -0.5)));
}

RULE(gradient_reciprocal) {  // -g y^2
  ValueId y = result(graph, id);
  ValueId square = graph_op1(graph, OP_NEG, mul(graph, y, y));
  backward_add(backward, operand(graph, id, 0), mul(graph, incoming(backward, graph, id), square));
}

RULE(gradient_sin) {
  ValueId a = operand(graph, id, 0);
  backward_add(backward, a, mul(graph, incoming(backward, graph, id), graph_op1(graph, OP_COS, a)));
}

RULE(gradient_cos) {
  ValueId a = operand(graph, id, 0);
  ValueId slope = graph_op1(graph, OP_NEG, graph_op1(graph, OP_SIN, a));
  backward_add(backward, a, mul(graph, incoming(backward, graph, id), slope));
}

RULE(gradient_tanh) {  // g (1 - y^2)
  ValueId y = result(graph, id);
  ValueId slope = graph_op2(graph, OP_SUB, graph_real(graph, 1), mul(graph, y, y));
  backward_add(backward, operand(graph, id, 0), mul(graph, incoming(backward, graph, id), slope));
}

RULE(gradient_sigmoid) {  // g y (1 - y)
  ValueId y = result(graph, id);
  ValueId slope = mul(graph, y, graph_op2(graph, OP_SUB, graph_real(graph, 1), y));
  backward_add(backward, operand(graph, id, 0), mul(graph, incoming(backward, graph, id), slope));
}

RULE(gradient_erf) {  // g 2/sqrt(pi) exp(-a^2)
  ValueId a = operand(graph, id, 0);
  ValueId bell = graph_op1(graph, OP_EXP, graph_op1(graph, OP_NEG, mul(graph, a, a)));
  backward_add(backward, a,
               mul(graph, incoming(backward, graph, id), scale(graph, bell, 2 / sqrt(3.14159265358979323846))));
}

RULE(gradient_where) {
  ValueId g = incoming(backward, graph, id), condition = operand(graph, id, 0);
  for (int i = 1; i <= 2; i++) {
    ValueId choice = operand(graph, id, i);
    if (backward_wants(backward, choice)) {
      ValueId other = zero(graph);
      backward_add(backward, choice, graph_op3(graph, OP_WHERE, condition, i == 1 ? g : other, i == 1 ? other : g));
    }
  }
}

RULE(gradient_broadcast) {
  backward_add(backward, operand(graph, id, 0), incoming(backward, graph, id));
}

RULE(gradient_reduce_sum) {
  backward_add(backward, operand(graph, id, 0), incoming(backward, graph, id));
}

RULE(gradient_reduce_extreme) {  // shared by the elements that are the extreme, as JAX and PyTorch's amax do
  ValueId a = operand(graph, id, 0), g = incoming(backward, graph, id);
  ValueId at = graph_op2(graph, OP_EQUAL, a, result(graph, id));
  ValueId one = graph_op3(graph, OP_WHERE, at, graph_real(graph, 1), zero(graph));
  ValueId ties = graph_add1(graph, OP_SUM, (NodeInit){NODE_INIT, .axes = graph_node(graph, id)->axes}, one);
  backward_add(backward, a, graph_op3(graph, OP_WHERE, at, graph_op2(graph, OP_DIV, g, ties), zero(graph)));
}

// In the order of the axes of its side, so that what meets both finds them alike. Parameters have an order of their
// own.
static ValueId dot_side(Graph *graph, ValueId g, ValueId other, ValueId side) {
  Shape shape = graph_shape(graph, side), common = graph_shape(graph, other);
  Shape of_g = graph_shape(graph, g);
  common = shape_common(common, &of_g);
  const ValueId made = graph_add2(graph, OP_DOT, (NodeInit){NODE_INIT, .axes = shape_minus(common, &shape)}, g, other);
  const Node *maker = graph_producer(graph, side);
  const Shape has = graph_shape(graph, made), order = shape_common(shape, &has);
  graph_value(graph, made)->shape = maker && op_stored(maker->op) ? has : shape_union(order, &has);
  return made;
}

RULE(gradient_dot) {  // da = dot(g, b over what a lacks), db likewise
  ValueId g = incoming(backward, graph, id), a = operand(graph, id, 0), b = operand(graph, id, 1);
  if (backward_wants(backward, a)) {
    backward_add(backward, a, dot_side(graph, g, b, a));
  }
  if (backward_wants(backward, b)) {
    backward_add(backward, b, dot_side(graph, g, a, b));
  }
}

// What a factor lacks is summed over by backward_add.
RULE(gradient_chosen_dot) {  // da = chosen_dot(g, w, who over what only w has), dw = chosen_sum(a, g, who)
  const ValueId g = incoming(backward, graph, id), a = operand(graph, id, 0), w = operand(graph, id, 1);
  const ValueId who = operand(graph, id, 2);
  const AxisId axis = graph_node(graph, id)->axis;
  const Shape over = graph_node(graph, id)->axes, matrices = graph_shape(graph, w);
  if (backward_wants(backward, a)) {
    NodeInit init = {NODE_INIT, .axis = axis, .axes = shape_minus(matrices, &over)};
    shape_remove(&init.axes, axis);
    backward_add(backward, a, graph_add(graph, OP_CHOSEN_DOT, init, (ValueId[]){g, w, who}, 3));
  }
  if (backward_wants(backward, w)) {
    const NodeInit init = {NODE_INIT, .axis = axis, .axes = matrices};
    backward_add(backward, w, graph_add(graph, OP_CHOSEN_SUM, init, (ValueId[]){a, g, who}, 3));
  }
}

RULE(gradient_chosen_sum) {  // da = chosen_dot(b, g, who over the result's axes that b has), db likewise
  const ValueId g = incoming(backward, graph, id), who = operand(graph, id, 2);
  const AxisId axis = graph_node(graph, id)->axis;
  const Shape result = graph_node(graph, id)->axes;
  for (int i = 0; i < 2; i++) {
    const ValueId side = operand(graph, id, i), other = operand(graph, id, 1 - i);
    const Shape shape = graph_shape(graph, other);
    if (backward_wants(backward, side)) {
      const NodeInit init = {NODE_INIT, .axis = axis, .axes = shape_common(result, &shape)};
      backward_add(backward, side, graph_add(graph, OP_CHOSEN_DOT, init, (ValueId[]){other, g, who}, 3));
    }
  }
}

RULE(gradient_take) {
  ValueId g = incoming(backward, graph, id), x = operand(graph, id, 0), index = operand(graph, id, 1);
  AxisId axis = graph_node(graph, id)->axis;
  Shape shape = graph_shape(graph, x), rest = shape, by = graph_shape(graph, index);
  enum { FEW = 16, SHORT = 1024 };
  shape_remove(&rest, axis);
  const Shape more = shape_minus(by, &rest);
  const bool few = graph_elements(graph, more) <= FEW && graph->axes.at[axis].size <= SHORT;
  // One element of each row, or few of a short one: masks, which fuse with their neighbours.
  if (shape_contains(&by, &rest) && (more.count == 0 || few)) {
    ValueId position = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = axis});
    ValueId at = graph_op2(graph, OP_EQUAL, position, index);
    backward_add(backward, x, graph_op3(graph, OP_WHERE, at, g, zero(graph)));
  } else {
    backward_add(backward, x, graph_add2(graph, OP_PUT, (NodeInit){NODE_INIT, .axis = axis, .axes = shape}, g, index));
  }
}

RULE(gradient_put) {
  ValueId g = incoming(backward, graph, id), index = operand(graph, id, 1);
  AxisId axis = graph_node(graph, id)->axis;
  backward_add(backward, operand(graph, id, 0),
               graph_add2(graph, OP_TAKE, (NodeInit){NODE_INIT, .axis = axis}, g, index));
}

RULE(gradient_rename) {
  const Node *node = graph_node(graph, id);
  move_back(backward, graph, id, OP_RENAME, (NodeInit){NODE_INIT, .axis = node->axis2, .axis2 = node->axis});
}

RULE(gradient_split) {
  const Node *node = graph_node(graph, id);
  move_back(backward, graph, id, OP_MERGE, (NodeInit){NODE_INIT, .axes = node->axes, .axis2 = node->axis});
}

RULE(gradient_merge) {
  const Node *node = graph_node(graph, id);
  move_back(backward, graph, id, OP_SPLIT, (NodeInit){NODE_INIT, .axes = node->axes, .axis = node->axis2});
}

RULE(gradient_slice) {
  const Node *node = graph_node(graph, id);
  move_back(backward, graph, id, OP_PAD,
            (NodeInit){NODE_INIT, .axis = node->axis2, .axis2 = node->axis, .integer = node->integer});
}

RULE(gradient_pad) {
  const Node *node = graph_node(graph, id);
  move_back(backward, graph, id, OP_SLICE,
            (NodeInit){NODE_INIT, .axis = node->axis2, .axis2 = node->axis, .integer = node->integer});
}

RULE(gradient_concat) {
  ValueId g = incoming(backward, graph, id);
  int64_t at = 0;
  for (int i = 0; i < graph_node(graph, id)->operand_count; i++) {
    const Node *node = graph_node(graph, id);
    AxisId part = node->axes.axis[i];
    NodeInit cut = {NODE_INIT, .axis = node->axis2, .axis2 = part, .integer = at};
    at += graph->axes.at[part].size;
    if (backward_wants(backward, operand(graph, id, i))) {
      backward_add(backward, operand(graph, id, i), graph_add1(graph, OP_SLICE, cut, g));
    }
  }
}

RULE(gradient_window) {
  const Node *node = graph_node(graph, id);
  move_back(backward, graph, id, OP_FOLD, (NodeInit){NODE_INIT, .axis = node->axis, .axis2 = node->axis2});
}

RULE(gradient_fold) {
  const Node *node = graph_node(graph, id);
  move_back(backward, graph, id, OP_WINDOW, (NodeInit){NODE_INIT, .axis = node->axis, .axis2 = node->axis2});
}

// The body of the gradient region: the forward body again, then its gradient. Parameters are those of the forward
// region, then its results, then the gradients of its results that are not saved statistics. Its results are the
// gradients of the parameters that any flows to; flows: by parameter.
static RegionId gradient_region(Graph *graph, RegionId forward, int gradients, bool *flows) {
  RegionId outer = graph->region;
  Map map = map_create(graph->arena);
  const Region source = graph->regions.at[forward];
  RegionId id = graph_clone_region(graph, forward, &map);
  graph->regions.at[id].results = (ValueList){0};
  for (int i = 0; i < source.results.count + gradients; i++) {
    Value value = *graph_value(graph, source.results.at[i < source.results.count ? i : i - source.results.count]);
    value.node = -1;
    ValueId fresh = graph_new_value(graph, value);
    array_push(graph->arena, &graph->regions.at[id].parameters, fresh);
  }
  ValueList parameters = graph->regions.at[id].parameters;
  graph->region = id;
  NodeList nodes = graph->regions.at[id].nodes;
  Backward *backward = backward_create(graph, nodes.at, nodes.count, parameters.at, source.parameters.count);
  for (int i = 0; i < gradients; i++) {
    ValueId seed = parameters.at[source.parameters.count + source.results.count + i];
    backward_add(backward, (ValueId)map_get_or(&map, (uint64_t)source.results.at[i], -1), seed);
  }
  backward_run(backward);
  for (int i = 0; i < source.parameters.count; i++) {
    bool floating = element_type_floating(graph_value(graph, parameters.at[i])->type);
    ValueId gradient = floating ? backward_gradient(backward, parameters.at[i]) : -1;
    flows[i] = gradient >= 0;
    if (flows[i]) {
      array_push(graph->arena, &graph->regions.at[id].results, gradient);
    }
  }
  graph->region = outer;
  return id;
}

// The kernel makes probabilities from statistics that have lost something in rounding, exp(lost) too large: what they
// are multiplied by is made as much smaller.
static ValueId whole_gradient(Graph *graph, const Node *node, ValueId gradient) {
  if (!(node->integer & ATTENTION_LARGE)) {
    return gradient;
  }
  const ValueId lost = graph_op1(graph, OP_NEG, node->first_result + 2);
  return graph_op2(graph, OP_MUL, gradient, graph_op1(graph, OP_EXP, lost));
}

RULE(gradient_composite) {
  const Node node = *graph_node(graph, id);
  int gradients = node.result_count - (int)(node.integer & 0xff);
  const bool seeded = gradients < node.result_count && backward_gradient(backward, node.first_result + gradients) >= 0;
  gradients += seeded;
  bool *flows = ARENA_ARRAY(graph->arena, bool, node.operand_count + 1);
  RegionId region = gradient_region(graph, node.region, gradients, flows);
  ValueList operands = {0};
  for (int i = 0; i < node.operand_count; i++) {
    array_push(graph->arena, &operands, node.operands[i]);
  }
  for (int i = 0; i < node.result_count; i++) {
    array_push(graph->arena, &operands, node.first_result + i);
  }
  for (int i = 0; i < gradients; i++) {
    ValueId g = backward_gradient(backward, node.first_result + i);
    if (g < 0) {
      Shape shape = graph_shape(graph, node.first_result + i);
      g = graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = shape}, zero(graph));
    }
    array_push(graph->arena, &operands, whole_gradient(graph, &node, g));
  }
  Name name = name_format(graph->names, "%s.grad", node.text);
  NodeInit init = {NODE_INIT,
                   .text = name,
                   .region = region,
                   .axes = node.axes,
                   .axis = node.axis,
                   .axis2 = node.axis2,
                   .number = node.number,
                   .integer = (node.integer & ~(int64_t)0xff) | (seeded ? ATTENTION_SEEDED : 0)};
  ValueId first = graph_add(graph, OP_COMPOSITE, init, operands.at, operands.count);
  for (int i = 0, at = 0; i < node.operand_count; i++) {
    if (flows[i]) {  // in the order of axes of what it belongs to: that of the body stems from its products
      graph_value(graph, first + at)->shape = graph_shape(graph, node.operands[i]);
      backward_add(backward, node.operands[i], first + at++);
    }
  }
}

GradientRule *const gradient_rules[] = {
#define OP(NAME, text, least, most, infer, gradient, cost, split, padding, samples, attributes, properties) gradient,
#include "compiler/ir/ops.def"
#undef OP
};
