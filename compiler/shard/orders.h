// orders.h: in which order values are stored, chosen by what it costs.
//
// A value is stored in its natural order (that of the axes in its shape), or with one axis first. Candidates for that
// axis are those which collectives cut or join: their blocks lie one after the other only if it comes first.
#ifndef MDL_COMPILER_SHARD_ORDERS_H
#define MDL_COMPILER_SHARD_ORDERS_H

#include "compiler/pass/compilation.h"

typedef ARRAY(NodeId) TouchList;

typedef struct {
  Compilation *c;
  Graph *graph;
  TouchList nodes;
  Shape kinds;       // of the axes that may come first
  bool *listed;      // by node
  Shape *natural;    // by value
  ValueId *stored;   // by value: whose order it has: behind renames, in bundles, behind regions; itself
  bool *fixed;       // by value: stored as it is
  int *parent;       // by value: union-find over those that products and kernels tie together
  AxisId *same;      // by axis: union-find over whole axes; a rename makes two of them one
  TouchList *touch;  // by value: the nodes whose cost depends on its order
  int *counted;      // by node: the last sum that it was counted in
  int sums;
} Orders;

// Chooses the order of every value that an operation makes, and gives it to the shapes. `arrange` calls it when the
// order of parameters is decided. Before that `stage` calls it for the whole graph, so that stages, which are arranged
// each by itself, agree on the order in which a value travels.
void orders_choose(Compilation *c);

// orders_cost.c: what a node costs in bytes moved, with all values in the orders that they have now.
double orders_cost(const Orders *o, const Node *node);

// The order in which the value lies in memory: its shape's, or that of what it is a view of.
Shape orders_of(const Orders *o, ValueId value);

// May the results of these products only lie side by side, one row after the other as their common operand's?
bool orders_bundled(const Graph *graph, const Node *node);

// Does it exchange what ranks have of each other's parts, one from each, for what they have of its own?
bool orders_scatters(const Node *node);

// The axis that comes first in what a collective moves as blocks: of its operand, and of each block of its result.
AxisId orders_first_before(const Node *node);
AxisId orders_first_after(const Node *node);

// Calls `visit` for each value that a node makes, and for each that it, or a member of its kernel, reads from outside.
typedef void OrdersVisitor(void *context, ValueId value);
void orders_visit(const Graph *graph, const Node *node, OrdersVisitor *visit, void *context);

bool orders_is_kernel(const Node *node);

#endif
