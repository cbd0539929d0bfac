// quantise_block.c: products in 8 bits whose operands have one scale for each block.
//
// A block is 128 elements along what the product sums over, and of a parameter 128 along its other axes, too. Where
// several axes follow each other the block takes the last ones whole, as far as they go, and a part of the one before:
// that axis is split into its blocks and what is inside of one, and the scales have the axes that are left:
//   amax = the largest |x| over the inside of a block
//   scale = the least power of two that is not smaller than amax / the largest number of the format
// So numbers lose nothing by the scale but what is too small for the format; a parameter has the same numbers in both
// of its orders, while another value is rounded for each product that sums over other axes.
//
// The product has the split axes, and its result is merged again. Whether axes make blocks depends on their sizes in
// the whole graph, never on the layout.
#include <float.h>

#include "compiler/precision/quantise.h"

typedef struct {  // how the axes of one side of an operand make blocks
  AxisId cut;     // the axis in which a block begins
  Shape halves;   // its blocks, and what is inside of one
  Shape order;    // all axes, with the halves in place of the one that is cut
  Shape inside;   // the last of these
} Blocks;

// Which of the axes a block begins in, counted from the first, and how many elements along it are inside; -1: the axes
// make no blocks.
static int block_begins(const Graph *graph, const Shape *axes, int64_t *inside) {
  *inside = SCALE_BLOCK;
  for (int i = axes->count - 1; i >= 0; i--) {
    const int64_t size = graph->axes.at[axes->axis[i]].size;
    if (size % *inside == 0) {
      return i;
    }
    if (*inside % size != 0) {
      return -1;
    }
    *inside /= size;
  }
  return -1;
}

static bool make_blocks(const Graph *graph, Shape axes) {
  int64_t inside;
  return block_begins(graph, &axes, &inside) >= 0;
}

static Blocks blocks_along(Graph *graph, Shape axes) {
  int64_t inside;
  const int at = block_begins(graph, &axes, &inside);
  const Axis cut = graph->axes.at[axes.axis[at]];
  const AxisId outer = graph_axis(graph, name_format(graph->names, "%s.blocks", cut.name), cut.size / inside);
  graph->axes.at[outer].written = cut.written;  // rules of the layout speak of both
  graph->axes.at[outer].blocks_of = axes.axis[at];
  Blocks blocks = {.cut = axes.axis[at]};
  shape_push(&blocks.halves, outer);
  shape_push(&blocks.halves, graph_axis(graph, name_format(graph->names, "%s.block", cut.name), inside));
  shape_push(&blocks.inside, blocks.halves.axis[1]);
  for (int i = 0; i < axes.count; i++) {
    if (i == at) {
      blocks.order = shape_union(blocks.order, &blocks.halves);
    } else {
      shape_push(&blocks.order, axes.axis[i]);
      if (i > at) {
        shape_push(&blocks.inside, axes.axis[i]);
      }
    }
  }
  return blocks;
}

// The operand in whose order the axes are that are summed over: the parameter, or what is of the forward.
static int leading_operand(const Graph *graph, const Node *dot) {
  const bool parameter = comes_from_parameter(graph, dot->operands[0]) || comes_from_parameter(graph, dot->operands[1]);
  return parameter ? comes_from_parameter(graph, dot->operands[1]) : quantiser_is_gradient(graph, dot->operands[0]);
}

static Shape summed_axes(const Graph *graph, const Node *dot) {
  return shape_common(graph_shape(graph, dot->operands[leading_operand(graph, dot)]), &dot->axes);
}

const char *quantiser_no_blocks(const Graph *graph, const Node *dot) {
  const Shape a = graph_shape(graph, dot->operands[0]), b = graph_shape(graph, dot->operands[1]);
  const Shape common = shape_common(a, &b);
  int parameters = 0;
  if (common.count > dot->axes.count) {
    return "it is one product for each place along an axis";
  }
  for (int i = 0; i < 2; i++) {
    const bool parameter = comes_from_parameter(graph, dot->operands[i]);
    parameters += parameter;
    if (parameter && !make_blocks(graph, shape_minus(i ? b : a, &dot->axes))) {
      return "its parameter makes no blocks of 128 by 128";
    }
  }
  return parameters > 1                                 ? "both operands are parameters"
         : !make_blocks(graph, summed_axes(graph, dot)) ? "what it sums over makes no blocks of 128"
                                                        : NULL;
}

// The value with the axes split that blocks begin in.
static ValueId split_blocks(Quantiser *q, ValueId value, const Blocks *const *sides, int count) {
  Graph *graph = q->c->graph;
  const Shape shape = graph_shape(graph, value);
  for (int i = 0; i < shape.count; i++) {
    for (int j = 0; j < count; j++) {
      if (shape.axis[i] != sides[j]->cut) {
        continue;
      }
      const MadeKey key = quantiser_key(q, MADE_SPLIT, value, TYPE_REAL, (uint64_t)sides[j]->halves.axis[1]);
      int64_t known;
      if (!map_get_bytes(&q->made, &key, sizeof key, &known)) {
        const NodeInit init = {NODE_INIT, .axis = sides[j]->cut, .axes = sides[j]->halves};
        known = graph_add1(graph, OP_SPLIT, init, value);
        graph_value(graph, (ValueId)known)->name = graph_value(graph, value)->name;
        map_put_bytes(&q->made, &key, sizeof key, known);
      }
      value = (ValueId)known;
    }
  }
  return value;
}

static MadeKey key_of(const Quantiser *q, Made what, ValueId value, ElementType type, const Shape *axes) {
  MadeKey key = quantiser_key(q, what, value, type, SCALE_BLOCK);
  for (int i = 0; i < axes->count; i++) {
    key.last[i] = (uint64_t)axes->axis[i] + 1;
  }
  return key;
}

ValueId block_scale(Graph *graph, ValueId value, Shape inside, ElementType type) {
  const ValueId size = graph_op1(graph, OP_ABS, value), least = graph_real(graph, (double)FLT_MIN);
  const ValueId amax = graph_add1(graph, OP_REDUCE_MAX, (NodeInit){NODE_INIT, .axes = inside}, size);
  const ValueId share = graph_op2(graph, OP_MUL, amax, graph_real(graph, type == TYPE_E4M3 ? 1.0 / 448 : 1.0 / 57344));
  const ValueId scale = graph_op1(graph, OP_POWER_OF_TWO, share);
  return graph_op3(graph, OP_WHERE, graph_op2(graph, OP_LESS, scale, least), least, scale);
}

static ValueId block_scales(Quantiser *q, ValueId value, Shape inside, ElementType type) {
  Graph *graph = q->c->graph;
  const MadeKey key = key_of(q, MADE_SCALE, value, type, &inside);
  int64_t known;
  if (map_get_bytes(&q->made, &key, sizeof key, &known)) {
    return (ValueId)known;
  }
  const ValueId made = block_scale(graph, value, inside, type);
  map_put_bytes(&q->made, &key, sizeof key, made);
  return made;
}

// The value in 8 bits, with the axes of `sum` last; others: of a parameter, its other axes, else NULL.
static ValueId quantised(Quantiser *q, ValueId value, const Blocks *sum, const Blocks *others, ElementType type,
                         ValueId *scale) {
  Graph *graph = q->c->graph;
  const Blocks *const sides[] = {sum, others};
  const GraphPlace before = graph_place(graph);
  if (quantiser_is_steady(q, value)) {
    value = quantiser_in_front(q, value);
    quantiser_go_in_front(graph);
  }
  quantiser_follow(q, value);
  graph->role = graph_value(graph, value)->role;
  const ValueId split = split_blocks(q, quantiser_rounded(q, value), sides, others ? 2 : 1);
  const Shape inside = others ? shape_union(sum->inside, &others->inside) : sum->inside;
  *scale = block_scales(q, split, shape_common(graph_shape(graph, split), &inside), type);
  const MadeKey key = key_of(q, MADE_QUANTISED, split, type, &sum->order);
  int64_t known;
  if (!map_get_bytes(&q->made, &key, sizeof key, &known)) {
    const NodeInit init = {NODE_INIT, .text = name_of(graph->names, element_type_name(type)), .axes = sum->order};
    known = graph_add2(graph, OP_QUANTISE, init, split, *scale);
    graph_value(graph, (ValueId)known)->name = graph_value(graph, value)->name;
    map_put_bytes(&q->made, &key, sizeof key, known);
  }
  graph_return(graph, before);
  return (ValueId)known;
}

// What the gradient of the weight will read of x, from where x is made: so that this is what is kept, and not x.
static void quantise_for_backward(Quantiser *q, const Node *dot, int operand, const ProductRule *rule) {
  Graph *graph = q->c->graph;
  const ValueId x = dot->operands[operand];
  const Shape other = graph_shape(graph, dot->operands[1 - operand]);
  const Shape own = shape_minus(graph_shape(graph, x), &dot->axes), rows = shape_minus(own, &other);
  if (!dot->backward && quantiser_eight_bits(rule->backward) && make_blocks(graph, rows)) {
    const Blocks sum = blocks_along(graph, rows);
    ValueId scale;
    quantised(q, x, &sum, NULL, rule->forward, &scale);
  }
}

void quantiser_scale_blocks(Quantiser *q, NodeId id, const ProductFormats *formats) {
  Graph *graph = q->c->graph;
  const Node dot = *graph_node(graph, id);
  const Blocks sum = blocks_along(graph, summed_axes(graph, &dot));
  ValueId *operands = ARENA_ARRAY(graph->arena, ValueId, 4);
  for (int i = 0; i < 2; i++) {
    Blocks columns = {.cut = -1};
    if (comes_from_parameter(graph, dot.operands[i])) {
      columns = blocks_along(graph, shape_minus(graph_shape(graph, dot.operands[i]), &dot.axes));
      q->merged = columns.cut;
      q->halves = columns.halves;
    }
    operands[i] =
        quantised(q, dot.operands[i], &sum, columns.cut >= 0 ? &columns : NULL, formats->type[i], &operands[2 + i]);
    if (columns.cut >= 0 && quantiser_is_steady(q, dot.operands[i])) {  // as the gradients read it, too
      ValueId scale;
      quantised(q, dot.operands[i], &columns, &sum, formats->type[i], &scale);
    }
    if (columns.cut < 0) {
      quantise_for_backward(q, &dot, i, formats->rule);
    }
  }
  Node *node = graph_node(graph, id);
  node->op = OP_SCALED_DOT;
  node->axes = sum.order;
  node->operands = operands;
  node->operand_count = 4;
}

void quantiser_merge(Quantiser *q, NodeId dot) {
  if (q->merged < 0) {
    return;
  }
  Graph *graph = q->c->graph;
  const ValueId whole = graph_node(graph, dot)->first_result;
  const Value before = *graph_value(graph, whole);
  const int at = shape_find(&before.shape, q->merged);
  Shape split = {0};
  for (int i = 0; i < before.shape.count; i++) {
    split = i == at ? shape_union(split, &q->halves) : shape_union(split, &(Shape){1, {before.shape.axis[i]}});
  }
  graph_value(graph, whole)->shape = split;
  const NodeInit init = {NODE_INIT, .axes = q->halves, .axis2 = q->merged};
  const ValueId made = graph_add1(graph, OP_MERGE, init, whole);
  const NodeId merge = graph_value(graph, made)->node;
  graph_node(graph, merge)->operands[0] = made;
  graph_node(graph, merge)->first_result = whole;
  graph_node(graph, dot)->first_result = made;
  *graph_value(graph, made) = before;
  graph_value(graph, made)->shape = split;
  *graph_value(graph, whole) = before;
  graph_value(graph, whole)->node = merge;
  q->merged = -1;
}
