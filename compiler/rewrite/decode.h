// decode.h: what decode.c and decode_attention.c share.
#ifndef MDL_COMPILER_REWRITE_DECODE_H
#define MDL_COMPILER_REWRITE_DECODE_H

#include "compiler/pass/compilation.h"

enum { DECODE_NONE = -1 };  // no value: what it says cannot be computed from a block alone

typedef struct {
  Compilation *c;
  Graph *graph;
  AxisId seq;           // of the positions of the tokens
  AxisId now, past;     // those of the block, and all that the caches have room for
  int axes;             // of the graph as it was
  bool *place;          // by axis: seq, or what it is renamed to
  bool *told;           // by value: it is computed from the tokens
  ValueId *block;       // by value: the same for the positions of the block; DECODE_NONE
  const char **why;     // by value of which there is no such thing: what hinders it
  Span *where;          // likewise
  ValueId first;        // position of the first token of the block
  ValueId positions;    // of all of them: int[now]
  Map caches;           // by what is kept of the block: all that is known so far
  ValueList old, kept;  // a cache before, and behind
} Decode;

bool decode_is_place(const Decode *d, AxisId axis);
bool decode_has_place(const Decode *d, const Shape *shape);
// `key`, which may be none (-1), becomes the past, all other places the block.
Shape decode_shape(const Decode *d, Shape shape, AxisId key);
// The node with other operands, along those axes.
ValueId decode_clone(Decode *d, NodeId id, const ValueId *operands, AxisId key);
// Can what a node makes of one position be computed from what its operands have there? NULL, or what it does instead.
const char *decode_moves(const Decode *d, const Node *node);

// All that is known so far of what the block has, out of a cache: [past] in place of [now]. `last` is the axis that
// lies without gaps, or -1.
ValueId decode_remember(Decode *d, ValueId block, AxisId last);

extern const char decode_crossed[];  // of a value with two places

// decode_attention.c: the attention for the queries of the block, with keys and values out of caches. DECODE_NONE if
// that is not what it computes: then either *why, of itself, or the operand that hinders it is said.
ValueId decode_attention(Decode *d, NodeId id, const char **why, ValueId *operand);

#endif
