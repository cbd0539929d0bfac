// dots.h: the operations that are products of matrices, and which of their operands is what.
//
// An operation has one member or several, each a product of a first and a second operand. Members either have one first
// operand and a result each (dots), or are added up in one result (dot_sum). Where they are scaled, all first operands
// have 8 bits and one scale, and so have all second ones.
#ifndef MDL_COMPILER_IR_DOTS_H
#define MDL_COMPILER_IR_DOTS_H

#include "compiler/ir/graph.h"

typedef enum { DOTS_ONE, DOTS_SEVERAL, DOTS_SUM, DOTS_BIASED } DotsForm;

// One product; several of one operand; their sum; with biases: of numbers, or of numbers of 8 bits.
Op op_dots_of(DotsForm form, bool scaled);

// The number of members; of a node that is wrong, at least 1.
int dots_count(const Node *node);

// Do the operands go together in number?
bool dots_even(const Node *node);

ValueId dots_first(const Node *node, int member);
ValueId dots_second(const Node *node, int member);
ValueId dots_bias(const Node *node, int member);  // -1: it has none

// Of all first operands, and of all second ones; -1: they have none.
ValueId dots_first_scale(const Node *node);
ValueId dots_second_scale(const Node *node);

// Are the second operands parameters, or rounded from parameters? Else they are gradients.
bool dots_of_parameters(const Graph *graph, const Node *node);

// The axes over which a member sums.
Shape dots_inner(const Graph *graph, const Node *node, int member);

#endif
