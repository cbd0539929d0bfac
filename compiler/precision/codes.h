// codes.h: parameters that no update changes, in 8 bits, as a part of the precision pass.
#ifndef MDL_COMPILER_PRECISION_CODES_H
#define MDL_COMPILER_PRECISION_CODES_H

#include "compiler/pass/compilation.h"

typedef struct {
  Compilation *c;
  Map scale_of;  // name of a parameter in 8 bits to the leaf of its scales
  Map made;      // parameter, region and direction to its numbers in the format of products
} Codes;

// Decides in the training step which parameters are frozen, and which of these are stored in 8 bits: those that
// nothing but products of matrices reads. All programs give these a type, and scales, which stand in front of all else.
Codes codes_start(Compilation *c);

bool codes_holds_frozen(int64_t found);  // what Compilation.frozen has of a parameter: is it frozen?
bool codes_is_frozen(const Compilation *c, const Persistent *parameter);

// Is the value a parameter in 8 bits, or what it says? Does the node make the second of the first?
bool codes_stored(const Graph *graph, ValueId value);
bool codes_multiplied(const Graph *graph, const Node *node);

// Operands of a node that are in 8 bits are multiplied by their scales, in front of the node, where it stands. An
// assignment to one becomes two: of the codes, and of their scales. False: the node is that assignment, and is gone.
bool codes_read(Codes *f, NodeId id);

#endif
