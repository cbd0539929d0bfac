// choose.c: dot(x, w[who]) as chosen_dot(x, w, who): a product with the matrix that an index chooses.
//
// A matrix for each index is large: [tokens, choice, embed, ffn] for a mixture of experts. It is not made. Where every
// position would choose all matrices, or as many, products with all of them are no more work, and need no sorting:
// dot(x, w)[who], of which the chosen ones are taken. An index outside gives 0 in all of these.
//
// Weights of the choices stand behind the last product, sum(dot(h, w[who] over ffn) * gate over choice). In front of it
// they are a part of the kernel that makes h, and their gradient is a sum in the kernel that makes that of h.
#include "compiler/rewrite/choose.h"

#include <string.h>

#include "compiler/ir/range.h"
#include "compiler/pass/compilation.h"

typedef struct {
  ValueId x, matrices, index;
  AxisId axis;
  Shape over, columns;
} Choice;

static Shape shape_without(Shape shape, AxisId axis) {
  shape_remove(&shape, axis);
  return shape;
}

// The axes of a product with all matrices.
static Shape with_all(const Graph *graph, const Choice *c) {
  const Shape x = graph_shape(graph, c->x), matrices = graph_shape(graph, c->matrices);
  return shape_minus(shape_union(x, &matrices), &c->over);
}

// Has the index nothing to do with the matrices, and x nothing with their places?
static bool fits(const Graph *graph, const Choice *c) {
  const Shape matrices = graph_shape(graph, c->matrices), index = graph_shape(graph, c->index);
  const Shape x = graph_shape(graph, c->x);
  return !shape_has(&x, c->axis) && shape_common(index, &matrices).count == 0 && shape_common(index, &x).count > 0 &&
         x.count + matrices.count <= SHAPE_MAX_AXES;
}

// Are products with all matrices no more than those with the chosen ones? With one column of each they are one product
// of matrices, which the chosen ones are not: then they need only be less than the matrices that would be taken.
static bool all_are_better(const Graph *graph, const Choice *c) {
  const Shape index = graph_shape(graph, c->index), all = with_all(graph, c);
  Shape positions = shape_union(index, &all);
  positions = shape_without(shape_minus(positions, &c->columns), c->axis);
  const Shape taken = shape_union(shape_without(graph_shape(graph, c->matrices), c->axis), &index);
  const int64_t products = graph_elements(graph, all), columns = graph_elements(graph, c->columns);
  return products <= graph_elements(graph, positions) * columns ||
         (columns == 1 && products < graph_elements(graph, taken));
}

// A product of rows and a matrix: with a vector for each position nothing is gained, and an axis of x that is one of
// the matrices too, and stays, would have each of its places multiplied apart.
static bool is_plain(const Graph *graph, const Choice *c) {
  const Shape x = graph_shape(graph, c->x);
  return graph_elements(graph, c->columns) > 1 && shape_common(c->columns, &x).count == 0;
}

static ValueId chosen(Graph *graph, const Choice *c, ValueId index) {
  const NodeInit init = {NODE_INIT, .axis = c->axis, .axes = c->over};
  return graph_add(graph, OP_CHOSEN_DOT, init, (ValueId[]){c->x, c->matrices, index}, 3);
}

static ValueId chosen_where_inside(Graph *graph, const Choice *c) {
  if (range_inside(graph, c->index, c->axis)) {
    return chosen(graph, c, c->index);
  }
  // What works on the products of one matrix after the other sees no others: so all positions have one.
  const ValueId size = graph_integer(graph, graph->axes.at[c->axis].size), none = graph_integer(graph, 0);
  const ValueId inside = graph_op2(graph, OP_AND, graph_op2(graph, OP_LESS_EQUAL, none, c->index),
                                   graph_op2(graph, OP_LESS, c->index, size));
  const ValueId first = graph_op3(graph, OP_WHERE, inside, c->index, none);
  return graph_op3(graph, OP_WHERE, inside, chosen(graph, c, first), graph_real(graph, 0));
}

ValueId choose(Graph *graph, NodeId id) {
  for (int side = 0; side < 2; side++) {
    const Node *dot = graph_node(graph, id), *take = graph_producer(graph, dot->operands[side]);
    if (!take || take->op != OP_TAKE) {
      continue;
    }
    Choice c = {.x = dot->operands[1 - side],
                .matrices = take->operands[0],
                .index = take->operands[1],
                .axis = take->axis,
                .over = dot->axes};
    const Shape matrices = graph_shape(graph, c.matrices);
    c.columns = shape_without(shape_minus(matrices, &c.over), c.axis);
    if (!fits(graph, &c) || !shape_contains(&matrices, &c.over)) {
      continue;
    }
    if (all_are_better(graph, &c)) {
      const NodeInit over = {NODE_INIT, .axes = c.over}, along = {NODE_INIT, .axis = c.axis};
      return graph_add2(graph, OP_TAKE, along, graph_add2(graph, OP_DOT, over, c.x, c.matrices), c.index);
    }
    if (is_plain(graph, &c)) {
      return chosen_where_inside(graph, &c);
    }
  }
  return -1;
}

// --- weights ---

// By value: how often the region and its results read it.
static int *count_uses(const Graph *graph, const Region *region) {
  int *uses = ARENA_ARRAY(graph->arena, int, graph->values.count + 1);
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(graph, region->nodes.at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      uses[node->operands[j]]++;
    }
  }
  for (int i = 0; i < region->results.count; i++) {
    uses[region->results.at[i]]++;
  }
  return uses;
}

// A product that nothing else reads, of something that has a row for each choice, times what its columns share.
static bool weighs(const Graph *graph, const Node *mul, int side, const int *uses) {
  const Node *dot = mul->op == OP_MUL ? graph_producer(graph, mul->operands[side]) : NULL;
  if (!dot || dot->op != OP_CHOSEN_DOT || uses[mul->operands[side]] != 1) {
    return false;
  }
  const Shape a = graph_shape(graph, dot->operands[0]), matrices = graph_shape(graph, dot->operands[1]);
  const Shape who = graph_shape(graph, dot->operands[2]), weight = graph_shape(graph, mul->operands[1 - side]);
  const Shape rows = shape_minus(a, &dot->axes);
  return weight.count > 0 && shape_contains(&rows, &weight) && shape_contains(&rows, &who) &&
         shape_common(weight, &matrices).count == 0;
}

static ValueId weigh_before(Graph *graph, const Node *mul, int side) {
  const Node dot = *graph_producer(graph, mul->operands[side]);
  const NodeInit init = {NODE_INIT, .axis = dot.axis, .axes = dot.axes};
  const Value *from = graph_value(graph, mul->first_result);
  const Name name = from->name, label = from->label, path = from->path;
  const ValueId weight = mul->operands[1 - side];
  graph_follow(graph, &dot);
  const ValueId weighed = graph_op2(graph, OP_MUL, dot.operands[0], weight);
  const ValueId made = graph_add(graph, OP_CHOSEN_DOT, init, (ValueId[]){weighed, dot.operands[1], dot.operands[2]}, 3);
  Value *to = graph_value(graph, made);
  to->name = name;
  to->label = label;
  to->path = path;
  return made;
}

void choose_weights(Graph *graph) {
  const GraphPlace place = graph_place(graph);
  const int *uses = count_uses(graph, &graph->regions.at[graph->region]);
  const int limit = graph->values.count;
  ValueId *replace = ARENA_ARRAY(graph->arena, ValueId, 3 * limit + 1);
  memset(replace, -1, sizeof *replace * (size_t)(3 * limit + 1));
  const NodeList old = graph_rewrite(graph, graph->region);
  for (int i = 0; i < old.count; i++) {
    const Node node = *graph_node(graph, old.at[i]);
    const int side = weighs(graph, &node, 0, uses) ? 0 : 1;
    if (weighs(graph, &node, side, uses)) {
      replace[node.first_result] = weigh_before(graph, &node, side);
    } else {
      array_push(graph->arena, &graph->regions.at[graph->region].nodes, old.at[i]);
    }
  }
  graph_return(graph, place);
  graph_replace_values(graph, replace);
}
