// verify.h: is a graph what graph.h says it is? Linear in the graph; runs after every pass, in release builds too.
//
// Rules:
//   - axes have different names and sizes of at least 1; shapes, types, roles, spans and scopes are valid
//   - a node stands in one region once, a region belongs to one node, and regions do not nest in a circle
//   - a value is defined once, before its uses, in the region of the use or one around it; a composite sees only its
//     parameters, which have the types and axes of its operands
//   - results point back at their node; their number, types and axes are those of the op's rule. The order of axes is
//     free, and floating-point formats count as one type here
//   - assign and output stand in the top region or in a microbatch
//   - an assign's target is a param, a state or a pack of them; none is assigned twice, nor read after its assign
//   - a persistent tensor's value is the leaf of that name
#ifndef MDL_COMPILER_IR_VERIFY_H
#define MDL_COMPILER_IR_VERIFY_H

#include "compiler/ir/graph.h"

#define GRAPH_MOST_ELEMENTS (INT64_C(1) << 56)  // of a value

// On the first broken rule adds an E099 that names the pass, the node and the rule, and returns false.
bool graph_verify(const Graph *graph, Diag *diag, const char *after_pass);

// The rules of one node by itself: operands and attributes, number, types and axes of its results. Its operands must be
// sound values. Returns NULL or the rule that is broken; never reads outside the tables of the graph.
const char *graph_verify_node(const Graph *graph, NodeId node);

// A value by itself: its type, role, bound and shape exist.
const char *graph_verify_value(const Graph *graph, const Value *value);

// What is wrong with a shape of more: a mistake of the text, not of the compiler.
extern const char verify_too_large[];

// Is this a possible shape of this graph: axes that exist, none twice, not more than GRAPH_MOST_ELEMENTS elements?
const char *graph_verify_shape(const Graph *graph, const Shape *shape);

// Equal, or both floating-point: formats are the precision pass's business.
bool graph_type_matches(ElementType a, ElementType b);

#endif
