// padding.c: the padding rule of every op: what its operands must hold in their padding, and what its results hold.
#include "compiler/ir/padding.h"

#include "compiler/ir/attention.h"

// --- what operands must hold ---

static PaddingNeed need_nothing(const Graph *graph, const Node *node, int operand, AxisId axis,
                                const PaddingContent *contents) {
  (void)graph, (void)node, (void)operand, (void)axis, (void)contents;
  return PADDING_FREE;
}

static PaddingNeed need_never(const Graph *graph, const Node *node, int operand, AxisId axis,
                              const PaddingContent *contents) {
  (void)graph, (void)node, (void)operand, (void)axis, (void)contents;
  return PADDING_NEVER;
}

static PaddingNeed need_zero(const Graph *graph, const Node *node, int operand, AxisId axis,
                             const PaddingContent *contents) {
  (void)graph, (void)node, (void)operand, (void)axis, (void)contents;
  return PADDING_NEEDS_ZERO;
}

// Tensors in an arena are what they are; gradients are summed up with it.
static PaddingNeed need_packed(const Graph *graph, const Node *node, int operand, AxisId axis,
                               const PaddingContent *contents) {
  (void)axis, (void)contents;
  const Node *maker = graph_producer(graph, node->operands[operand]);
  return maker && op_stored(maker->op) ? PADDING_FREE : PADDING_NEEDS_ZERO;
}

static PaddingNeed need_assigned(const Graph *graph, const Node *node, int operand, AxisId axis,
                                 const PaddingContent *contents) {
  (void)graph, (void)node, (void)axis, (void)contents;
  return operand == 1 ? PADDING_NEEDS_ZERO : PADDING_FREE;
}

static PaddingNeed need_reduced(const Graph *graph, const Node *node, int operand, AxisId axis,
                                const PaddingContent *contents) {
  (void)graph, (void)operand, (void)contents;
  if (!shape_has(&node->axes, axis)) {
    return PADDING_FREE;
  }
  return node->op == OP_SUM          ? PADDING_NEEDS_ZERO
         : node->op == OP_REDUCE_MAX ? PADDING_NEEDS_LOWEST
                                     : PADDING_NEEDS_HIGHEST;
}

// What is summed over is zero in both factors: zero times infinity is none. Along other axes anything would do, but
// there products of gradients are to have zeros, and to mask a factor costs less than to mask what is packed.
static PaddingNeed need_contracted(const Graph *graph, const Node *node, int operand, AxisId axis,
                                   const PaddingContent *contents) {
  (void)graph, (void)node, (void)axis;
  return contents[operand] == PADDING_ZERO ? PADDING_FREE : PADDING_NEEDS_ZERO;
}

// The same of products with chosen matrices. Of those that are padding none is chosen.
static PaddingNeed need_chosen(const Graph *graph, const Node *node, int operand, AxisId axis,
                               const PaddingContent *contents) {
  return operand < 2 && axis != node->axis ? need_contracted(graph, node, operand, axis, contents) : PADDING_FREE;
}

// What is added up by index: axes of the operand that the result lacks are summed over.
static PaddingNeed need_put(const Graph *graph, const Node *node, int operand, AxisId axis,
                            const PaddingContent *contents) {
  (void)contents;
  Shape result = graph_shape(graph, node->first_result);
  return operand == 0 && !shape_has(&result, axis) ? PADDING_NEEDS_ZERO : PADDING_FREE;
}

// Axes that are cut up, joined, picked from or looked along; others pass.
static PaddingNeed need_moved(const Graph *graph, const Node *node, int operand, AxisId axis,
                              const PaddingContent *contents) {
  (void)graph, (void)operand, (void)contents;
  bool own = axis == node->axis || axis == node->axis2 || shape_has(&node->axes, axis);
  return own ? PADDING_NEVER : PADDING_FREE;
}

// The gradient sums over queries, and over the group that shares keys: over what a result lacks. Keys are whole, or go
// round a ring, where the kernel knows their end. Scores may divide by what they capture: with a 0 there they would not
// be finite, and the gradient of o that is 0 would not help.
static PaddingNeed need_composite(const Graph *graph, const Node *node, int operand, AxisId axis,
                                  const PaddingContent *contents) {
  (void)contents;
  if (!is_attention(node)) {
    return PADDING_NEVER;
  }
  const bool captured = operand >= 3 && operand < attention_forward_operands(node);
  bool summed = false;
  for (int i = 0; i < node->result_count && attention_is_gradient(node) && axis != node->axis2; i++) {
    Shape result = graph_shape(graph, node->first_result + i);
    summed = summed || !shape_has(&result, axis);
  }
  return !summed ? PADDING_FREE : captured ? PADDING_NEEDS_ONE : PADDING_NEEDS_ZERO;
}

// --- what results hold ---

static PaddingContent gives_anything(const Graph *graph, const Node *node, AxisId axis,
                                     const PaddingContent *contents) {
  (void)graph, (void)node, (void)axis, (void)contents;
  return PADDING_ANY;
}

static PaddingContent gives_zero(const Graph *graph, const Node *node, AxisId axis, const PaddingContent *contents) {
  (void)graph, (void)node, (void)axis, (void)contents;
  return PADDING_ZERO;
}

static PaddingContent gives_finite(const Graph *graph, const Node *node, AxisId axis, const PaddingContent *contents) {
  (void)graph, (void)node, (void)axis, (void)contents;
  return PADDING_FINITE;
}

// State that begins with something else than zeros has that in its padding.
static PaddingContent gives_state(const Graph *graph, const Node *node, AxisId axis, const PaddingContent *contents) {
  (void)axis, (void)contents;
  const Persistent *state = graph_persistent(graph, node->text);
  return state && (double)state->initial == 0.0 ? PADDING_ZERO : PADDING_FINITE;
}

static PaddingContent most(const Node *node, const PaddingContent *contents) {
  PaddingContent content = PADDING_ZERO;
  for (int i = 0; i < node->operand_count; i++) {
    content = contents[i] > content ? contents[i] : content;
  }
  return content;
}

// f(0, 0, ...) = 0
static PaddingContent gives_same(const Graph *graph, const Node *node, AxisId axis, const PaddingContent *contents) {
  (void)graph, (void)axis;
  return most(node, contents);
}

// The larger or smaller of two: of zeros and of a number on the other side of them, zeros.
static PaddingContent gives_picked(const Graph *graph, const Node *node, AxisId axis, const PaddingContent *contents) {
  for (int i = 0; i < 2; i++) {
    const Node *maker = graph_producer(graph, node->operands[1 - i]);
    const bool number = contents[i] == PADDING_ZERO && maker && maker->op == OP_CONST;
    if (number && (op_combine(node->op) == COMBINE_BY_LARGEST ? maker->number <= 0 : maker->number >= 0)) {
      return PADDING_ZERO;
    }
  }
  return gives_same(graph, node, axis, contents);
}

// By its second operand only scaled.
static PaddingContent gives_first(const Graph *graph, const Node *node, AxisId axis, const PaddingContent *contents) {
  (void)graph, (void)axis, (void)node;
  return contents[0];
}

// f(0, 0, ...) is finite
static PaddingContent gives_number(const Graph *graph, const Node *node, AxisId axis, const PaddingContent *contents) {
  PaddingContent content = gives_same(graph, node, axis, contents);
  return content == PADDING_ZERO ? PADDING_FINITE : content;
}

// f(0) is finite, but not f of any number: of exp(x - max) the largest is that of real elements.
static PaddingContent gives_power(const Graph *graph, const Node *node, AxisId axis, const PaddingContent *contents) {
  return most(node, contents) == PADDING_ZERO ? gives_number(graph, node, axis, contents) : PADDING_ANY;
}

// f(0) is not finite
static PaddingContent gives_pole(const Graph *graph, const Node *node, AxisId axis, const PaddingContent *contents) {
  (void)graph, (void)axis;
  return most(node, contents) == PADDING_FINITE ? PADDING_FINITE : PADDING_ANY;
}

static PaddingContent gives_product(const Graph *graph, const Node *node, AxisId axis, const PaddingContent *contents) {
  (void)graph, (void)axis, (void)node;
  if (contents[0] == PADDING_ANY || contents[1] == PADDING_ANY) {
    return PADDING_ANY;
  }
  return contents[0] == PADDING_ZERO || contents[1] == PADDING_ZERO ? PADDING_ZERO : PADDING_FINITE;
}

static PaddingContent gives_quotient(const Graph *graph, const Node *node, AxisId axis,
                                     const PaddingContent *contents) {
  (void)graph, (void)axis, (void)node;
  return contents[1] == PADDING_FINITE ? contents[0] : PADDING_ANY;
}

// Where a factor has zeros; what is infinite in the other would be in what is real, too.
static PaddingContent gives_contracted(const Graph *graph, const Node *node, AxisId axis,
                                       const PaddingContent *contents) {
  for (int i = 0; i < node->operand_count; i++) {
    Shape shape = graph_shape(graph, node->operands[i]);
    if (shape_has(&shape, axis) && contents[i] != PADDING_ZERO) {
      return PADDING_ANY;
    }
  }
  return PADDING_ZERO;
}

// What is chosen in the padding does not matter where the other factor has zeros; nothing is added up for padding.
static PaddingContent gives_chosen(const Graph *graph, const Node *node, AxisId axis, const PaddingContent *contents) {
  const Node factors = {.operands = node->operands, .operand_count = 2};
  const Shape a = graph_shape(graph, node->operands[0]), b = graph_shape(graph, node->operands[1]);
  return axis == node->axis                           ? PADDING_ZERO
         : shape_has(&a, axis) || shape_has(&b, axis) ? gives_contracted(graph, &factors, axis, contents)
                                                      : PADDING_ANY;
}

// where(condition, a, b): what the condition holds does not matter.
static PaddingContent gives_choice(const Graph *graph, const Node *node, AxisId axis, const PaddingContent *contents) {
  (void)graph, (void)axis, (void)node;
  return contents[1] > contents[2] ? contents[1] : contents[2];
}

// An index in the padding of its axes takes anything.
static PaddingContent gives_taken(const Graph *graph, const Node *node, AxisId axis, const PaddingContent *contents) {
  Shape table = graph_shape(graph, node->operands[0]);
  return shape_has(&table, axis) ? contents[0] : PADDING_ANY;
}

// Zeros where nothing was added; along the operand's axes what the operand holds.
static PaddingContent gives_put(const Graph *graph, const Node *node, AxisId axis, const PaddingContent *contents) {
  Shape added = graph_shape(graph, node->operands[0]);
  return shape_has(&added, axis) ? contents[0] : PADDING_ZERO;
}

// Along the axis that is cut or joined every rank makes padding anew; other axes pass.
static PaddingContent gives_regrouped(const Graph *graph, const Node *node, AxisId axis,
                                      const PaddingContent *contents) {
  Shape had = graph_shape(graph, node->operands[0]);
  return shape_has(&had, axis) ? contents[0] : PADDING_ANY;
}

// As the leaves that it packs, or the gradients, which have zeros.
static PaddingContent gives_packed(const Graph *graph, const Node *node, AxisId axis, const PaddingContent *contents) {
  const Node *first = graph_producer(graph, node->operands[0]);
  return first && first->op == OP_STATE ? gives_state(graph, first, axis, contents) : PADDING_ZERO;
}

// --- the rules ---

#define RULE(NAME, NEED, CONTENT) static const PaddingRule NAME = {NEED, CONTENT}
RULE(padding_parameter, need_nothing, gives_zero);  // assigned with zeros there, and first values too
RULE(padding_state, need_nothing, gives_state);
RULE(padding_fresh, need_nothing, gives_anything);  // made anew by every rank, or come from another
RULE(padding_number, need_nothing, gives_finite);   // no axes
RULE(padding_keeps, need_nothing, gives_same);      // elementwise, f(0) = 0
RULE(padding_picked, need_nothing, gives_picked);   // the larger, the smaller of two
RULE(padding_finite, need_nothing, gives_number);   // elementwise, f(0) finite
RULE(padding_power, need_nothing, gives_power);     // elementwise, f(0) finite, but f of a number perhaps not
RULE(padding_pole, need_nothing, gives_pole);       // elementwise, f(0) not finite
RULE(padding_product, need_nothing, gives_product);
RULE(padding_quotient, need_nothing, gives_quotient);
RULE(padding_first, need_nothing, gives_first);
RULE(padding_choice, need_nothing, gives_choice);
RULE(padding_reduce, need_reduced, gives_same);
RULE(padding_dot, need_contracted, gives_contracted);
RULE(padding_chosen, need_chosen, gives_chosen);
RULE(padding_take, need_nothing, gives_taken);
RULE(padding_put, need_put, gives_put);
RULE(padding_move, need_moved, gives_same);
RULE(padding_pack, need_packed, gives_packed);
RULE(padding_collective, need_nothing, gives_regrouped);
RULE(padding_part, need_nothing, gives_zero);
RULE(padding_assign, need_assigned, gives_anything);
RULE(padding_output, need_never, gives_anything);
RULE(padding_receive, need_nothing, gives_zero);
RULE(padding_send, need_zero, gives_anything);  // new values of tensors, too, which have zeros on every stage
RULE(padding_composite, need_composite, gives_anything);
RULE(padding_region, need_nothing, gives_anything);  // asked for inside
RULE(padding_late, need_never, gives_anything);      // made by later passes

static const PaddingRule *const rules[] = {
#define OP(NAME, text, least, most, infer, gradient, cost, split, padding, samples, attributes, properties) &padding,
#include "compiler/ir/ops.def"
#undef OP
};

const PaddingRule *op_padding(Op op) {
  return rules[op];
}

bool op_padding_diverges(Op op) {
  PaddingContentRule *const content = rules[op]->content;
  return content == gives_pole || content == gives_quotient || content == gives_anything;
}
