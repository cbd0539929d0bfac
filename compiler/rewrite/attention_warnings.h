// attention_warnings.h: what is probably not meant of an attention of the training step.
#ifndef MDL_COMPILER_REWRITE_ATTENTION_WARNINGS_H
#define MDL_COMPILER_REWRITE_ATTENTION_WARNINGS_H

#include "compiler/pass/compilation.h"

// Where a node is asked for: the call of a function of another file, such as one of the library, or the node itself.
Span asked_for(const Graph *graph, const Node *outer);

// An attention that stays spelled out keeps its scores, `matrix` (E046). Small ones cost nothing.
void warn_unfused(Compilation *c, const Node *attention, ValueId matrix, const char *why);

// Nothing but zeros comes out where positions hide every key from every query, as a window of 0 keys does (E048).
// `scores`: what is made of them; -1: they are as they are.
void warn_hidden(const Compilation *c, const Node *attention, AxisId query, AxisId key, ValueId scores);

// Of an attention, or a sum of values by weights, of which a query sees the key behind it: its queries are positions of
// the text that is predicted, and so are its keys, so each position reads what it is to predict (E049).
typedef struct {
  AxisId query, key;
  ValueId made, dot;  // its scores, and the product that they are made of; -1: there is none, or it is the scores
  ValueId keys;       // what that is computed from along the key: the keys, or the scores
  ValueId values;
} Weighed;

void warn_ahead(const Compilation *c, const Node *attention, const Weighed *of);

// The same of a product over keys that is no attention: the scores of a softmax, or of exponentials that somebody
// divides later, and the values. `weights`, unless -1: made of the softmax. `masked`: only where something may hide
// keys; of other sums over all places the lint of losses warns.
void warn_weighed(const Compilation *c, const Node *dot, Weighed of, ValueId weights, bool masked);

// Of a product over keys: what it weighs them with is a softmax over the queries, so that the weights of a position
// hang on those behind it, whatever is masked (E049).
void warn_queries(const Compilation *c, const Node *dot);

// turned.c: of all products of queries and keys, computed from the same inputs, of which only one side is turned by its
// positions (E055).
void warn_turned(const Compilation *c);

#endif
