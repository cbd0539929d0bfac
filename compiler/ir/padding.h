// padding.h: what happens to the padding of a value: the positions of its part of an axis beyond the axis' end.
//
// Where an axis is cut unevenly, the last ranks' parts go past its end. Every op says by its rule in ops.def what its
// operands must hold there, so that nothing of it comes into what is real, and what its results then hold there.
#ifndef MDL_COMPILER_IR_PADDING_H
#define MDL_COMPILER_IR_PADDING_H

#include "compiler/ir/graph.h"

typedef enum {  // what padding holds; each includes those before it
  PADDING_ZERO,
  PADDING_FINITE,  // what an element of an update could be too; known along packs alone
  PADDING_ANY,     // NaN, too
} PaddingContent;

typedef enum {            // what an op needs in the padding of an operand
  PADDING_FREE,           // anything
  PADDING_NEEDS_ZERO,     // of sums
  PADDING_NEEDS_LOWEST,   // -inf: of maxima
  PADDING_NEEDS_HIGHEST,  // +inf
  PADDING_NEEDS_ONE,      // of what may be divided by
  PADDING_NEVER,          // this axis is never cut unevenly here
} PaddingNeed;

// Of one node and one local axis of one of its operands. contents: of all operands, as they come.
typedef PaddingNeed PaddingNeedRule(const Graph *graph, const Node *node, int operand, AxisId axis,
                                    const PaddingContent *contents);
// Of a result that has the axis, once the operands hold what they must.
typedef PaddingContent PaddingContentRule(const Graph *graph, const Node *node, AxisId axis,
                                          const PaddingContent *contents);

typedef struct {
  PaddingNeedRule *need;
  PaddingContentRule *content;
} PaddingRule;

const PaddingRule *op_padding(Op op);

// May it give something that is not finite for operands that are? What is known to be finite may be 0.
bool op_padding_diverges(Op op);

#endif
