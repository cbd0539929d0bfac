// products.h: which rule of a precision says in which formats a product is multiplied.
#ifndef MDL_COMPILER_SPEC_PRODUCTS_H
#define MDL_COMPILER_SPEC_PRODUCTS_H

#include "compiler/ir/graph.h"
#include "compiler/spec/spec.h"

// The most specific of the rules that select a product by where it is made in the forward; NULL: none does.
const ProductRule *product_rule(const Graph *graph, const ProductRules *rules, const Node *dot);

// Does the policy have this product, or that of the forward of which it is a gradient, in f32 under a narrower base?
bool product_is_wide(const Graph *graph, const Spec *spec, const Node *dot);
bool product_is_wide_under(const Graph *graph, const Spec *spec, const ProductRules *rules, const Node *dot);

// The operand of the forward's product of which this one of the backward is the gradient, by its axes; -1: neither has
// them.
ValueId product_gradient_of(const Graph *graph, const Node *dot);

#endif
