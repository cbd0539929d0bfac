// limit_ends.h: where values end that are made of choices which a capacity leaves out, for limit_choices.c and
// limit_poles.c.
#ifndef MDL_COMPILER_REWRITE_LIMIT_ENDS_H
#define MDL_COMPILER_REWRITE_LIMIT_ENDS_H

#include "compiler/ir/choices.h"
#include "compiler/rewrite/limit.h"

typedef struct {
  Compilation *c;
  Graph *graph;
  const LimitedIndices *indices;
  Choices choices;
  Map kept;      // choice to the condition that it is not left out
  Map masked;    // value to what is 0 where its choice is left out
  Map by_index;  // value and choice to whether it is of the index alone
  Map remade;    // value and choice to the same by the limited index
  Map poles;     // value and choice to whether it has poles
  Map ones;      // value to what is 1 where its choice, or all that it is made of, is left out
  Map empty;     // value of no choice to whether it is 0 where all choices that it is made of are left out
  Map numbers;   // value of no choice to the bits of what it is where all choices are left out; NaN: not known
  Map alive;     // value of no choice to the condition without which it is 0; -1: there is none
  Map any_of;    // condition of any of many positions to that of each
  Map without;   // result that had a pole there to what is 0 instead
  ARRAY(ValueList) given;  // by choice: what its products so far are given, and is to be noted
  Map feeds;               // value and choice: those of which that is made
} Ends;

// limit_choices.c: the condition that the choice (1 + its number) is not left out, and the value where it is not, else
// this number.
ValueId limit_kept(Ends *e, int choice);
ValueId limit_where_kept(Ends *e, int choice, ValueId value, int64_t otherwise);

// --- limit_poles.c ---

// Is its value or its slope perhaps infinite where this operand is 0?
bool limit_is_pole(const Node *node, int operand);
// What may have a pole at 0, as a quotient or a root does, is given ones: else a gradient of what stands beside the
// choice, here or before, would be 0 times what is no number. The result is 0 there: of a choice it is masked where it
// is read as more, and else here; the condition is returned then, or -1.
int64_t limit_leave_poles(Ends *e, NodeId id, const MadeOf *operands, int choice);
// A result that had a pole is 0 for who reads it, where what it is made of is left out.
void limit_zero_without(Ends *e, NodeId id, ValueId condition);

#endif
