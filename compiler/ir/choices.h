// choices.h: which values are made of one choice, and what they hold where a capacity leaves the choice out.
//
// A choice is what an index that was limited (limit.c) says at one position. Products with the matrices of that index
// are made of it, and what it looks up; so is what is computed from these for each position alone, together with what
// has no axis of the positions, such as parameters. It ends where positions meet: in a sum over them, or a move along
// them; and where numbers of positions, or of many of them, stand beside it, such as a residual that is added.
#ifndef MDL_COMPILER_IR_CHOICES_H
#define MDL_COMPILER_IR_CHOICES_H

#include "compiler/ir/padding.h"

typedef struct {
  int choice;              // 1 + the number of the index; 0: made of no choice
  PaddingContent content;  // where it is left out
} MadeOf;

typedef struct {
  Arena *arena;
  const Graph *graph;
  ValueList limited;  // indices
  Map made;           // value to what it is made of
  Map real;           // values that are read as more than this: see choices_walk
} Choices;

Choices choices_create(Arena *arena, const Graph *graph);

// An index that is outside wherever a choice is left out.
void choices_add(Choices *choices, ValueId limited);

MadeOf choices_of(const Choices *choices, ValueId value);

// Has the value, or does the node each position of this choice (1 + its number) by itself?
bool choices_full(const Choices *choices, ValueId value, int choice);
bool choices_apart(const Choices *choices, const Node *node, int choice);

bool choices_zero(const Choices *choices, ValueId value);  // is it the constant 0, or a product with it?

// Is it surely a number above 0 where its choice is left out? Of what is made of none, everywhere.
bool choices_positive(const Choices *choices, ValueId value);

// Of the result of a node whose operands are made of this.
MadeOf choices_infer(const Choices *choices, const Node *node, const MadeOf *operands);

void choices_note(Choices *choices, const Node *node);  // infers and remembers
// Notes all nodes of a region and of those inside of it. A number that is read where its choice is left out, by what is
// made of no choice, is made of none itself if it is not 0 there.
void choices_walk(Choices *choices, RegionId region);

#endif
