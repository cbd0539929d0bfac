// scores.h: what a model makes of the dot product of a query and a key before softmax, as text.
//
// Any elementwise operations may stand between the dot product and the softmax: scales, caps, biases, masks, however
// they are spelled. What depends on the query and the key at once is computed for each pair when its score is wanted;
// all else is captured: tensors whose axes are some of those of the scores.
#ifndef MDL_COMPILER_REWRITE_SCORES_H
#define MDL_COMPILER_REWRITE_SCORES_H

#include "compiler/pass/compilation.h"

typedef struct {
  ValueId made, dot;
  AxisId query, key;
  NodeList nodes;      // from the dot product to what is made of it, in an order in which they can run
  ValueList captured;  // what they read besides: first what wants a gradient
  int learned;         // how many of those do
  const char *why;     // scores_collect has failed
} Scores;

// The one dot product of queries with keys that `made` is computed from, and the axis of the queries: the longest
// that meets the key in a mask or a distance, else one along which positions are taken (-1 if there is none). False if
// there is no such product, or several.
bool scores_find(Graph *graph, ValueId made, AxisId key, Scores *scores);

// Whether there are several such products, which is found out soon where that is so.
bool scores_several(const Graph *graph, ValueId made, AxisId key);

// Whether what is made, though no softmax, weighs values as one would: keys and values are computed from inputs, unlike
// the layers of an MLP, and their axis is one of the text, unlike the chunk of a scan.
bool scores_weigh(const Graph *graph, const Scores *scores, ValueId values);

// The longest of these axes, the first of equal ones; -1: there are none.
AxisId scores_longest(const Graph *graph, const Shape *axes);

// Fills nodes and captured, given all else. False, and `why` says it, if something is captured that a kernel cannot
// have: it has other axes than the scores, or it wants a gradient as large as they are; if there is too much
// of it; or if gradients do not go through to the product.
bool scores_collect(Graph *graph, Scores *scores);

// Whether scores may be finite and beyond LARGE_SCORE: numbers stand in them that hide keys as -1e9 does, or real
// tensors of any size. The statistic of a query, max + log(sum) in one number, then does not tell how many are summed.
#define LARGE_SCORE 1e4
bool scores_large(const Graph *graph, const Scores *scores);

// The nodes again in the present region, on this dot product and these captured values.
ValueId scores_build(Graph *graph, const Scores *scores, ValueId dot, const ValueId *captured);

// Whether training may change the value: then its gradient is wanted.
bool scores_learned(const Graph *graph, ValueId value);

#endif
