// op.h: what is known of operations without looking at a graph: the columns of ops.def.
#ifndef MDL_COMPILER_IR_OP_H
#define MDL_COMPILER_IR_OP_H

#include <stdbool.h>

typedef enum {
#define OP(NAME, text, least, most, infer, gradient, cost, split, padding, samples, attributes, properties) OP_##NAME,
#include "compiler/ir/ops.def"
#undef OP
  OP_COUNT
} Op;

const char *op_name(Op op);
bool op_of(const char *text, Op *op);

// op_leaf(op), op_alias(op), ...: the properties of properties.def, which says what each means.
#define PROPERTY(NAME, name, says) bool op_##name(Op op);
#include "compiler/ir/properties.def"
#undef PROPERTY

// What follows from several of them.
bool op_free(Op op);     // constants and positions: made again wherever they are used
bool op_given(Op op);    // leaves that are no such: inputs and tensors
bool op_draws(Op op);    // random numbers
bool op_cheap(Op op);    // may be computed again rather than kept
bool op_copies(Op op);   // each number of its result is one of an operand, in some format, or a constant
bool op_fusable(Op op);  // runs in kernels with others
bool op_list(Op op);     // its region is a list of nodes that are done one by one: no kernel

typedef enum { COMBINE_BY_SUM, COMBINE_BY_LARGEST, COMBINE_BY_SMALLEST } OpCombine;
OpCombine op_combine(Op op);  // how what parts give becomes what the whole does

// Linear in this operand alone, the others being what they are?
bool op_linear_in(Op op, int operand);

// The attributes of Node that an operation uses. What it does not use is unset: as NODE_INIT has it.
typedef enum {
  ATTRIBUTE_TEXT = 1,
  ATTRIBUTE_AXES = 2,
  ATTRIBUTE_AXIS = 4,
  ATTRIBUTE_AXIS2 = 8,
  ATTRIBUTE_INTEGER = 16,
  ATTRIBUTE_NUMBER = 32,
  ATTRIBUTE_REGION = 64,
  ATTRIBUTE_BITS = 7,
  ATTRIBUTE_FIGURES = ATTRIBUTE_INTEGER | ATTRIBUTE_NUMBER
} Attribute;

int op_needed(Op op);    // Attributes that are set in every such node; a figure is what the node is, and may be 0
int op_used(Op op);      // and those that may be set
bool op_offset(Op op);   // the integer is a place along an axis
bool op_each(Op op);     // one of the axes for each operand: an axis may come twice
bool op_message(Op op);  // to or from another stage of a pipeline: these stay in their order
bool op_region(Op op);   // has a region

#endif
