// lint.h: warnings about text that is right, and probably not what was meant.
#ifndef MDL_LANG_LINT_H
#define MDL_LANG_LINT_H

#include "lang/elaborate.h"

// Is a value made of numbers alone: of no input, parameter, state or random number?
bool lint_constant(Graph *graph, ValueId value);

// Of each node of the graph: is the value computed from it?
const bool *lint_nodes_of(Graph *graph, ValueId value);

// Is there such a node among those that a value is computed from, through the operands of what is passed?
bool lint_finds(Graph *graph, ValueId value, bool (*found)(Graph *graph, const Node *node),
                bool (*passed)(const Node *node));

// text_sums.c: a node of `nodes` that reduces elements along an axis of the positions of the text that `tokens` is, by
// more than a mask of positions leaves, or NULL. `any`: also along axes that these are renamed to, and by products.
const Node *lint_reduces_text(Graph *graph, const Node *tokens, const bool *nodes, bool any);

// Is a loss made of logarithms, as those of probabilities are, and of what tokens pick, so that it may be called nats
// per token?
bool lint_in_nats(Graph *graph, ValueId loss);

// Does it choose, cap or weigh cross entropies, as a mask by hand does? A mean over all of them is none of nats.
bool lint_reweighs(Graph *graph, const Node *node);

// Is it a cross entropy that nothing scales, chooses, caps or weighs?
bool lint_bare_entropy(Graph *graph, ValueId value);

// Is a quotient the mean of those cross entropies that count, which are summed and divided by how many they are?
// counted: the axes of what data feeds.
bool lint_mean_of_some(Graph *graph, const Node *quotient, const Shape *counted);

// Does a loss add something to the cross entropy of the targets, as a balance of experts, so that no perplexity is
// known?
bool lint_adds_terms(const Elaborator *e, ValueId loss);

// A number that the text writes.
bool lint_number(const Graph *graph, ValueId value, double *number);

// 1: -log of the probability of the targets, -1: log of it, 0: neither. As `cross_entropy` makes it, or written out,
// from a softmax or `logsumexp`.
int lint_entropy_sign(const Elaborator *e, ValueId value);

// Is it log(sum(exp(x))), or log(sum(exp(x - m))) + m? NULL is not.
bool lint_logsumexp(const Graph *graph, const Node *node);

// Says in the elaborator what the loss is in.
void lint_unit(Elaborator *e, ValueId loss);

// Behind an elaborated training step: warns of names that nothing reads (E016), and of parameters that the loss does
// not depend on (E038).
void lint_model(Elaborator *e, ValueId loss);

// loss_lint.c: warns of a loss of probabilities or of a sum (E054), of targets that are seen (E049), of inputs that the
// data of the recipe does not feed, or whose type does not hold it (E018).
void lint_loss(Elaborator *e, ValueId loss);

// hidden.c: says which functions of the user's files the library calls in place of its own (E011).
void lint_hidden(Elaborator *e);

#endif
