// infer.c: the axis and type rule of every op: what its results are, or what is wrong with its operands.
//
// A rule fills type, bound and shape of the results (span, role and names are the caller's). The result of an
// elementwise op takes its order of axes from the operand with the most axes.
#include <string.h>

#include "compiler/ir/dots.h"
#include "compiler/ir/infer_rules.h"

typedef const char *InferRule(Graph *graph, const Node *node, Value *results);

static bool is_integer(const Value *value) {
  return value->type == TYPE_INT || value->type == TYPE_INDEX || value->type == TYPE_BOOL;
}

static const char *unite(const Graph *graph, const Node *node, Shape *shape) {
  int widest = 0;
  for (int i = 1; i < node->operand_count; i++) {
    if (operand(graph, node, i)->shape.count > operand(graph, node, widest)->shape.count) {
      widest = i;
    }
  }
  Shape all = operand(graph, node, widest)->shape;
  for (int i = 0; i < node->operand_count; i++) {
    const Shape *other = &operand(graph, node, i)->shape;
    for (int j = 0; j < other->count; j++) {
      if (!shape_has(&all, other->axis[j]) && !shape_push(&all, other->axis[j])) {
        return "the result has too many axes";
      }
    }
  }
  *shape = all;
  return NULL;
}

static const char *infer_leaf(Graph *graph, const Node *node, Value *results) {
  (void)graph, (void)results;
  return node->text ? NULL : "it has no name";
}

static const char *infer_const(Graph *graph, const Node *node, Value *results) {
  (void)node;
  results->type = graph->real;
  return NULL;
}

static const char *infer_integer(Graph *graph, const Node *node, Value *results) {
  (void)graph;
  results->type = TYPE_INT;
  return node->integer >= INT32_MIN && node->integer <= INT32_MAX ? NULL : "the integer does not fit 32 bits";
}

static const char *infer_position(Graph *graph, const Node *node, Value *results) {
  results->type = TYPE_INDEX;
  results->bound = node->axis;
  results->shape = shape_of(node->axis);
  return axis_size(graph, node->axis) <= INT32_MAX ? NULL : "the axis is longer than 2^31";
}

static const char *infer_random(Graph *graph, const Node *node, Value *results) {
  results->type = graph->real;
  results->shape = node->axes;
  return operand(graph, node, 0)->type == TYPE_INT && operand(graph, node, 0)->shape.count == 0
             ? NULL
             : "the counter is not an int scalar";
}

static bool is_chosen(ElementType type) {
  return element_type_floating(type) && type != TYPE_REAL;
}

// Operands of two formats give the narrower one, unless the wider has all axes of the result.
static bool mix(const Value *a, const Value *b, const Shape *shape, ElementType *type) {
  if (a->type != b->type && (!is_chosen(a->type) || !is_chosen(b->type))) {
    return false;
  }
  const Value *wide = element_type_bytes(a->type) > element_type_bytes(b->type) ? a : b, *narrow = wide == a ? b : a;
  *type = shape_contains(&wide->shape, shape) ? wide->type : narrow->type;
  return true;
}

static ElementType summed(ElementType type) {
  return is_chosen(type) && element_type_bytes(type) < element_type_bytes(TYPE_F32) ? TYPE_F32 : type;
}

static const char *infer_arithmetic(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0), *b = operand(graph, node, 1);
  const char *wrong = unite(graph, node, &results->shape);
  results->type = TYPE_INT;
  if (is_integer(a) != is_integer(b) || (!is_integer(a) && !mix(a, b, &results->shape, &results->type))) {
    return "operands have different types";
  }
  return wrong;
}

static const char *infer_int_arithmetic(Graph *graph, const Node *node, Value *results) {
  results->type = TYPE_INT;
  if (!is_integer(operand(graph, node, 0)) || !is_integer(operand(graph, node, 1))) {
    return "operands are not integers";
  }
  return unite(graph, node, &results->shape);
}

static const char *infer_real_arithmetic(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0), *b = operand(graph, node, 1);
  const char *wrong = unite(graph, node, &results->shape);
  return is_integer(a) || is_integer(b) || !mix(a, b, &results->shape, &results->type) ? "operands are not real"
                                                                                       : wrong;
}

static const char *infer_real_unary(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0);
  results->shape = a->shape;
  results->type = is_integer(a) && (node->op == OP_NEG || node->op == OP_ABS) ? TYPE_INT : a->type;
  return is_integer(a) ? "the operand is not real" : NULL;
}

static const char *infer_test(Graph *graph, const Node *node, Value *results) {
  results->type = TYPE_BOOL;
  results->shape = operand(graph, node, 0)->shape;
  return is_integer(operand(graph, node, 0)) ? "the operand is not real" : NULL;
}

static const char *infer_comparison(Graph *graph, const Node *node, Value *results) {
  const char *wrong = infer_arithmetic(graph, node, results);
  results->type = TYPE_BOOL;
  return wrong;
}

static const char *infer_logic(Graph *graph, const Node *node, Value *results) {
  results->type = TYPE_BOOL;
  for (int i = 0; i < node->operand_count; i++) {
    if (operand(graph, node, i)->type != TYPE_BOOL) {
      return "the operand is not bool";
    }
  }
  return unite(graph, node, &results->shape);
}

static const char *infer_where(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 1), *b = operand(graph, node, 2);
  if (operand(graph, node, 0)->type != TYPE_BOOL) {
    return "the condition is not bool";
  }
  const char *wrong = unite(graph, node, &results->shape);
  results->type = a->type == b->type ? a->type : TYPE_INT;
  if (is_integer(a) != is_integer(b) || (!is_integer(a) && !mix(a, b, &results->shape, &results->type))) {
    return "the two choices have different types";
  }
  results->bound = a->type == TYPE_INDEX && b->type == TYPE_INDEX && a->bound == b->bound ? a->bound : -1;
  if (results->type == TYPE_INDEX && results->bound < 0) {
    results->type = TYPE_INT;
  }
  return wrong;
}

static const char *infer_to_real(Graph *graph, const Node *node, Value *results) {
  results->type = graph->real;
  results->shape = operand(graph, node, 0)->shape;
  return is_integer(operand(graph, node, 0)) ? NULL : "the operand is not an integer";
}

static const char *infer_to_int(Graph *graph, const Node *node, Value *results) {
  results->type = TYPE_INT;
  results->shape = operand(graph, node, 0)->shape;
  return is_integer(operand(graph, node, 0)) ? "the operand is not real" : NULL;
}

static const char *infer_as_index(Graph *graph, const Node *node, Value *results) {
  results->type = TYPE_INDEX;
  results->bound = node->axis;
  results->shape = operand(graph, node, 0)->shape;
  return is_integer(operand(graph, node, 0)) ? NULL : "the operand is not an integer";
}

static const char *infer_cast(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0);
  results->shape = a->shape;
  if (!node->text || !element_type_of(node->text, &results->type) || !is_chosen(results->type)) {
    return "it does not say to which format";
  }
  return is_chosen(a->type) ? NULL : "the operand has no floating-point format";
}

static bool is_quarter(ElementType type) {
  return type == TYPE_E4M3 || type == TYPE_E5M2;
}

// Of all elements of a value, or of each place along some of its axes.
static bool is_scale(const Value *scale, const Value *of) {
  return scale->type == TYPE_F32 && shape_contains(&of->shape, &scale->shape);
}

static const char *infer_quantise(Graph *graph, const Node *node, Value *results) {
  const Shape shape = operand(graph, node, 0)->shape;
  results->shape = shape_last(shape, &node->axes);
  if (!shape_contains(&shape, &node->axes)) {
    return "an axis that shall come last is missing";
  }
  if (!node->text || !element_type_of(node->text, &results->type) || !is_quarter(results->type)) {
    return "it does not say to which format of 8 bits";
  }
  return is_chosen(operand(graph, node, 0)->type) && is_scale(operand(graph, node, 1), operand(graph, node, 0))
             ? NULL
             : "the operands are not numbers of a format and their scales in f32";
}

static const char *infer_broadcast(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0);
  results->type = a->type;
  results->bound = a->bound;
  results->shape = node->axes;
  return shape_contains(&node->axes, &a->shape) ? NULL : "the result lacks an axis of the operand";
}

static const char *infer_same(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0);
  results->type = a->type;
  results->bound = a->bound;
  results->shape = a->shape;
  if (node->op == OP_COPY) {
    results->shape = node->axes;
    return shape_same_set(&node->axes, &a->shape) ? NULL : "the order has other axes";
  }
  return NULL;
}

static const char *infer_reduction(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0);
  results->type = summed(a->type);
  results->shape = shape_minus(a->shape, &node->axes);
  if (is_integer(a)) {
    return "the operand is not real";
  }
  return shape_contains(&a->shape, &node->axes) ? NULL : "a reduced axis is missing";
}

// Two operands of one product.
static const char *multiplied(const Value *a, const Value *b, bool scaled) {
  if (!scaled) {
    return is_integer(a) || a->type != b->type ? "operands are not real" : NULL;
  }
  const bool quarters = is_quarter(a->type) && is_quarter(b->type) && (a->type != TYPE_E5M2 || b->type != TYPE_E5M2);
  return quarters ? NULL : "operands are not of 8 bits, or both in e5m2";
}

static const char *contracted(const Value *a, const Value *b, const Shape *over, Value *result) {
  if (!shape_contains(&a->shape, over) || !shape_contains(&b->shape, over)) {
    return "a contracted axis is missing";
  }
  Shape left = shape_minus(a->shape, over), right = shape_minus(b->shape, over);
  Shape all = left;
  for (int i = 0; i < right.count; i++) {
    if (!shape_has(&all, right.axis[i]) && !shape_push(&all, right.axis[i])) {
      return "the result has too many axes";
    }
  }
  result->shape = all;
  return NULL;
}

static const char *bias_wrong(const Graph *graph, const Node *node, int member) {
  const Value *bias = graph_value(graph, dots_bias(node, member));
  const Shape matrix = graph_shape(graph, dots_second(node, member)), columns = shape_minus(matrix, &node->axes);
  const bool alike = element_type_floating(bias->type) && shape_same_set(&bias->shape, &columns);
  return alike ? NULL : "a bias does not have the axes of its columns";
}

// One for each block: of 128 elements along what is summed over, and of one or 128 along the rest.
static bool block_scales(const Graph *graph, const Value *scale, const Value *of, const Shape *over) {
  const Shape inside = shape_minus(of->shape, &scale->shape), along = shape_common(inside, over);
  const int64_t rest = graph_elements(graph, shape_minus(inside, over));
  return graph_elements(graph, along) == SCALE_BLOCK && (rest == 1 || rest == SCALE_BLOCK);
}

static const char *scales_wrong(const Graph *graph, const Node *node) {
  const Value *scale[] = {graph_value(graph, dots_first_scale(node)), graph_value(graph, dots_second_scale(node))};
  const bool many = scale[0]->shape.count > 0;
  bool blocks = true;
  for (int i = 0; i < 2 * dots_count(node); i++) {
    const Value *of = graph_value(graph, i % 2 ? dots_second(node, i / 2) : dots_first(node, i / 2));
    if (!is_scale(scale[i % 2], of)) {
      return "a scale is not in f32, or has axes that its operand lacks";
    }
    blocks &= block_scales(graph, scale[i % 2], of, &node->axes);
  }
  return many != (scale[1]->shape.count > 0) ? "one operand has one scale, the other has many"
         : many && node->op != OP_SCALED_DOT ? "operands with many scales are of one product alone"
         : many && !blocks                   ? "a scale does not stand for a block of 128 elements"
                                             : NULL;
}

// All products of matrices.
static const char *infer_dots(Graph *graph, const Node *node, Value *results) {
  const bool sum = op_dots_sum(node->op), scaled = op_dots_scaled(node->op);
  const char *wrong = dots_even(node) ? NULL : "operands do not come in pairs";
  for (int i = 0; i < dots_count(node) && !wrong; i++) {
    const Value *a = graph_value(graph, dots_first(node, i)), *b = graph_value(graph, dots_second(node, i));
    Value *result = &results[sum ? 0 : i];
    result->type = scaled ? TYPE_F32 : a->type;
    result->shape = node->axes;
    wrong = multiplied(a, b, scaled);
    wrong = wrong || sum ? wrong : contracted(a, b, &node->axes, result);
    wrong = wrong || !op_dots_biased(node->op) ? wrong : bias_wrong(graph, node, i);
  }
  return wrong || !scaled ? wrong : scales_wrong(graph, node);
}

// The matrices have one axis more, along which the index chooses; everything else is shared with positions alone.
static const char *choice_wrong(const Graph *graph, const Node *node, const Shape *matrices, const Value *index) {
  const Shape a = operand(graph, node, 0)->shape;
  const Shape common = shape_common(index->shape, matrices);
  return !is_integer(index)                 ? "the index is not an integer"
         : !shape_has(matrices, node->axis) ? "the indexed axis is missing"
         : shape_has(&a, node->axis) || shape_has(&index->shape, node->axis)
             ? "the positions have the indexed axis themselves"
         : common.count > 0 ? "the index has an axis of the matrices"
                            : multiplied(operand(graph, node, 0), operand(graph, node, 1), false);
}

static const char *infer_chosen_dot(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0), *w = operand(graph, node, 1), *index = operand(graph, node, 2);
  const char *wrong = choice_wrong(graph, node, &w->shape, index);
  Shape columns = shape_minus(w->shape, &node->axes);
  shape_remove(&columns, node->axis);
  const Shape shared = shape_common(columns, &a->shape), rows = shape_minus(a->shape, &node->axes);
  if (wrong || !shape_contains(&a->shape, &node->axes) || !shape_contains(&w->shape, &node->axes)) {
    return wrong ? wrong : "a contracted axis is missing";
  }
  const Shape positions = shape_union(index->shape, &rows);
  results->type = a->type;
  results->shape = shape_union(positions, &columns);
  return shared.count > 0                                   ? "an axis is neither contracted nor of one factor alone"
         : positions.count + columns.count > SHAPE_MAX_AXES ? "the result has too many axes"
                                                            : NULL;
}

static const char *infer_chosen_sum(Graph *graph, const Node *node, Value *results) {
  const Value *a = operand(graph, node, 0), *b = operand(graph, node, 1), *index = operand(graph, node, 2);
  const char *wrong = choice_wrong(graph, node, &node->axes, index);
  for (int i = 0; i < node->axes.count && !wrong; i++) {
    const AxisId axis = node->axes.axis[i];
    const bool one = shape_has(&a->shape, axis) != shape_has(&b->shape, axis);
    wrong = axis == node->axis || one ? NULL : "an axis of the result is not one of one factor alone";
  }
  wrong = !wrong && shape_has(&b->shape, node->axis) ? "the positions have the indexed axis themselves" : wrong;
  results->type = a->type;
  results->shape = node->axes;
  return wrong;
}

static const char *infer_limit(Graph *graph, const Node *node, Value *results) {
  const Value *index = operand(graph, node, 0);
  results->type = TYPE_INT;
  results->shape = index->shape;
  return !is_integer(index)                            ? "the operand is not an integer"
         : !shape_same_set(&node->axes, &index->shape) ? "the positions are not those of the index"
                                                       : NULL;
}

static const char *infer_inside(Graph *graph, const Node *node, Value *results) {
  const Value *x = operand(graph, node, 0), *index = operand(graph, node, 1);
  results->type = x->type;
  results->shape = x->shape;
  return is_integer(x) || !is_integer(index)         ? "the operands are not a real value and an index"
         : !shape_contains(&x->shape, &index->shape) ? "the value lacks an axis of the index"
                                                     : NULL;
}

static const char *infer_take(Graph *graph, const Node *node, Value *results) {
  const Value *x = operand(graph, node, 0), *index = operand(graph, node, 1);
  if (!is_integer(index)) {
    return "the index is not an integer";
  }
  if (!shape_has(&x->shape, node->axis)) {
    return "the indexed axis is missing";
  }
  Shape rest = x->shape;
  shape_remove(&rest, node->axis);
  if (shape_has(&index->shape, node->axis)) {
    return "the index has the indexed axis itself";
  }
  Shape all = index->shape;
  for (int i = 0; i < rest.count; i++) {
    if (!shape_has(&all, rest.axis[i]) && !shape_push(&all, rest.axis[i])) {
      return "the result has too many axes";
    }
  }
  results->type = x->type;
  results->bound = x->bound;
  results->shape = all;
  const Value *chosen = node->op == OP_TAKE && node->operand_count > 2 ? operand(graph, node, 2) : NULL;
  const bool has = !chosen || (is_integer(chosen) && chosen->shape.count == 1 && shape_contains(&all, &chosen->shape));
  return has ? NULL : "the result lacks the blocks that are chosen";
}

static const char *infer_put(Graph *graph, const Node *node, Value *results) {
  const Value *g = operand(graph, node, 0);
  results->type = summed(g->type);
  results->shape = node->axes;
  return shape_has(&node->axes, node->axis) ? NULL : "the indexed axis is missing";
}

static const char *infer_order(Graph *graph, const Node *node, Value *results) {
  const Value *index = operand(graph, node, 0);
  Shape positions = node->axes, rows = {0}, blocks = {0};
  for (int i = 0; i < 2 && positions.count > 0; i++) {
    const Shape last = shape_of(positions.axis[--positions.count]);
    rows = shape_union(last, &rows);
    blocks = last;
  }
  results[0].type = results[1].type = results[2].type = TYPE_INDEX;
  results[0].bound = node->axis2;
  results[0].shape = index->shape;
  results[1].type = TYPE_INT;
  results[1].shape = rows;
  results[2].bound = node->axis;
  results[2].shape = blocks;
  return !is_integer(index) ? "the index is not an integer"
         : node->axes.count < 2 || !shape_same_set(&positions, &index->shape)
             ? "the positions are not those of the index"
         : graph_elements(graph, rows) != axis_size(graph, node->axis2) ? "the blocks are not all of the rows"
                                                                        : NULL;
}

static const char *infer_take_sum(Graph *graph, const Node *node, Value *results) {
  const Shape index = operand(graph, node, 1)->shape;
  const char *wrong = infer_take(graph, node, results);
  results->type = summed(operand(graph, node, 0)->type);
  results->shape = shape_minus(results->shape, &node->axes);
  return wrong || shape_contains(&index, &node->axes) ? wrong : "the index lacks an axis that is summed over";
}

static const char *infer_chosen_dots(Graph *graph, const Node *node, Value *results) {
  const Value *index = operand(graph, node, node->operand_count - 1);
  const char *wrong = node->operand_count % 2 == 1 ? NULL : "operands do not come in pairs";
  for (int i = 0; i + 1 < node->operand_count && !wrong; i += 2) {
    const Value *a = operand(graph, node, i), *w = operand(graph, node, i + 1);
    const Shape of = shape_union(a->shape, &index->shape), both = shape_common(w->shape, &a->shape);
    Shape made = shape_union(of, &w->shape);
    made = shape_minus(made, &both);
    shape_remove(&made, node->axis);
    wrong = multiplied(a, w, false);
    wrong = wrong || shape_same_set(&made, &node->axes) ? wrong : "a product has other axes than the sum";
  }
  results->type = operand(graph, node, 0)->type;
  results->shape = node->axes;
  return wrong || is_integer(index) ? wrong : "the index is not an integer";
}

static const char *infer_assign(Graph *graph, const Node *node, Value *results) {
  (void)results;
  const Value *target = operand(graph, node, 0), *value = operand(graph, node, 1);
  if (target->type != value->type) {
    return "target and value have different types";
  }
  return shape_contains(&target->shape, &value->shape) ? NULL : "the value has an axis that the target lacks";
}

static const char *infer_effect(Graph *graph, const Node *node, Value *results) {
  (void)graph, (void)results;
  return node->text ? NULL : "it has no name";
}

static const char *infer_region(Graph *graph, const Node *node, Value *results) {
  const Region *region = &graph->regions.at[node->region];
  for (int i = 0; i < region->results.count; i++) {
    const Value *inner = &graph->values.at[region->results.at[i]];
    results[i].type = inner->type;
    results[i].bound = inner->bound;
    results[i].shape = inner->shape;
    results[i].role = inner->role;
    results[i].name = inner->name;
    results[i].label = inner->label;
  }
  return region->parameters.count == node->operand_count ? NULL : "operands and region parameters differ in number";
}

// What chosen says of blocks, all results have.
static const char *infer_group(Graph *graph, const Node *node, Value *results) {
  const Region *region = &graph->regions.at[node->region];
  Node kernel = *node;
  kernel.operand_count = 0;
  const char *wrong = infer_region(graph, &kernel, results);
  for (int i = 0; i < region->results.count && node->operand_count > 0 && !wrong; i++) {
    const Value *chosen = operand(graph, node, 0);
    const bool has =
        is_integer(chosen) && chosen->shape.count == 1 && shape_contains(&results[i].shape, &chosen->shape);
    wrong = has ? NULL : "a result lacks the blocks that are chosen";
  }
  return wrong;
}

static const char *infer_scan(Graph *graph, const Node *node, Value *results) {
  const char *wrong = infer_region(graph, node, results);
  const Region *region = &graph->regions.at[node->region];
  for (int i = 0; i < node->operand_count && !wrong; i++) {
    Shape shape = operand(graph, node, i)->shape;
    const Shape inside = graph->values.at[region->parameters.at[i]].shape;
    const bool known = i < region->results.count && shape_same_set(&results[i].shape, &inside);
    wrong = !known                                ? "what is carried is not what comes out"
            : !shape_has(&inside, node->axis)     ? "what is carried lacks the axis"
            : shape_has(&shape, node->axis)       ? "the first value has the axis"
            : !shape_contains(&inside, &shape)    ? "the first value has another axis"
            : is_integer(operand(graph, node, i)) ? "the first value is not real"
                                                  : NULL;
  }
  return wrong;
}

static const char *infer_chunks(Graph *graph, const Node *node, Value *results) {
  const char *wrong = infer_region(graph, node, results);
  const ValueList *made = &graph->regions.at[node->region].results;
  int64_t size;
  if (wrong || node->axes.count != 1 ||
      __builtin_mul_overflow(axis_size(graph, node->axes.axis[0]), axis_size(graph, node->axis2), &size) ||
      size != axis_size(graph, node->axis)) {
    return wrong ? wrong : "the parts are not all of the axis";
  }
  for (int i = 0; i < made->count; i++) {
    const Node *maker = graph_producer(graph, made->at[i]);
    if (shape_has(&results[i].shape, node->axis2)) {
      shape_replace(&results[i].shape, node->axis2, node->axis);
    } else if (maker && maker->op == OP_GROUP) {
      results[i].shape = shape_union(node->axes, &results[i].shape);
    }
  }
  return NULL;
}

static const struct {
  int least, most;
  InferRule *infer;
} rules[] = {
#define OP(NAME, text, least, most, infer, gradient, cost, split, padding, samples, attributes, properties) \
  {least, most, infer},
#include "compiler/ir/ops.def"
#undef OP
};

const char *op_infer(Graph *graph, NodeId id, Value *results) {
  const Node *node = graph_node(graph, id);
  if (node->operand_count < rules[node->op].least ||
      (rules[node->op].most >= 0 && node->operand_count > rules[node->op].most)) {
    return "the number of operands is wrong";
  }
  return rules[node->op].infer(graph, node, results);
}
