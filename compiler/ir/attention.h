// attention.h: attributes and operands of the composite "attention", and of "attention.grad"; see recognise.c.
#ifndef MDL_COMPILER_IR_ATTENTION_H
#define MDL_COMPILER_IR_ATTENTION_H

#include "compiler/ir/graph.h"

enum {
  ATTENTION_HAS_BATCH = 1 << 8,
  ATTENTION_HAS_HEADS = 1 << 9,
  ATTENTION_HAS_GROUP = 1 << 10,
  ATTENTION_HAS_VALUE_DEPTH = 1 << 11,
  ATTENTION_CAUSAL = 1 << 12,
  ATTENTION_BIASED = 1 << 13,  // what is captured is slopes
  ATTENTION_SCORED = 1 << 14,  // the body says what is made of the dot product, of positions and of what is captured
  ATTENTION_SEEDED = 1 << 15,  // of the gradient: the statistics have one too, behind that of o
  ATTENTION_LARGE = 1 << 30,  // scores may be finite and large: a third result is what statistics have lost in rounding
  ATTENTION_RING = 1 << 16,   // times the mesh axes, as bits, around which blocks of keys go; set by shard
};

// Times the number of captured values, which are operands behind q, k and v.
#define ATTENTION_CAPTURED ((int64_t)1 << 40)

// The mesh axes around which the keys go, as bits; 0: they are all here.
static inline uint32_t attention_ring(const Node *node) {
  return (uint32_t)(node->integer / ATTENTION_RING) & ((1u << GRAPH_MAX_MESH) - 1);
}

bool is_attention(const Node *node);  // or its gradient; split.c

// q, k, v, and what is captured. The gradient has the results behind them, then the gradient of o, and if seeded that
// of the statistics.
static inline int attention_forward_operands(const Node *node) {
  return 3 + (int)(node->integer / ATTENTION_CAPTURED);
}

// o, the statistics and what they have lost.
static inline int attention_results(const Node *node) {
  return node->integer & ATTENTION_LARGE ? 3 : 2;
}

static inline bool attention_is_gradient(const Node *node) {
  return node->operand_count > attention_forward_operands(node);
}

#endif
