// quantise.h: products in 8 bits, as a part of the precision pass.
#ifndef MDL_COMPILER_PRECISION_QUANTISE_H
#define MDL_COMPILER_PRECISION_QUANTISE_H

#include "compiler/pass/compilation.h"

// Of a product: in which formats it is multiplied, and why in no others.
typedef struct {
  bool asked;           // a rule of the policy selects it, and asks for 8 bits
  bool scaled;          // both operands in 8 bits
  ElementType type[2];  // of the operands
  const ProductRule *rule;
  const char *why;  // asked but not scaled: what keeps it in the base; else NULL
} ProductFormats;

typedef struct {  // what a history will be given
  ValueId history, amax;
  ValueList stored;  // parameters whose largest number that is, found when the step is done; else the amax is there
  bool steady;       // the amax is that of the step, not of a microbatch
} QuantiserUpdate;

typedef struct {  // products of one value by several parameters, in the forward
  NodeId first;
  ValueList parameters, gradients;  // in the order of the products: these have one scale, and what comes back has one
} ProductGroup;

typedef enum {
  MADE_AMAX,
  MADE_SCALE,
  MADE_QUANTISED,
  MADE_SPLIT,
  MADE_MOVED
} Made;  // a scale: of the values of a list

typedef struct {  // a pack of which ranks store pieces
  const Pack *pack;
  ValueId value;             // of the parameters
  int *group;                // by member: the group of the products that read it; -1: none was found
  const ProductRule **rule;  // by member: of these
  bool good;                 // products in 8 bits are all that reads its members: it is rounded whole
  ValueId *within[2];        // by member: whether an element is of it, or of one before; see quantiser_stored_amax
  ValueId base[2];           // what is rounded, in the same places
  ValueId rounded;           // -1: not yet
} QuantiserPack;

typedef struct {  // what a value was made of, as numbers
  uint64_t part[5];
  uint64_t last[SHAPE_MAX_AXES];
} MadeKey;

typedef struct {
  Compilation *c;
  Map made;  // values, by MadeKey
  ARRAY(ProductGroup) groups;
  Map group_of;   // by node of the forward
  Map source_of;  // by gradient that comes back: the product of the forward whose result's it is
  Map lists;      // of values, numbered
  int list_count;
  ARRAY(QuantiserPack) packs;
  Map member_of;  // by parameter: its pack and its number there
  Map parts;      // of packs that are rounded
  ARRAY(QuantiserUpdate) updates;
  ValueId (*base)(void *of, ValueId parameter);  // in the base format of products
  void *of;
  AxisId merged;  // of the result of the dot that was scaled last, where that has `halves` in its place; -1: none
  Shape halves;
} Quantiser;

// Finds the products that have scales in common. Parameters are rounded to 8 bits from what `base(of, parameter)`
// gives: copies in 16 bits, where there are some, are what ranks gather and what is read.
Quantiser quantiser_start(Compilation *c, ValueId (*base)(void *of, ValueId parameter), void *of);

// Of a dot of the training step. A product of the backward goes by the product of the forward whose gradient it is.
ProductFormats quantiser_formats(const Quantiser *q, const Node *dot);

// The values that have one scale with an operand of a dot whose formats are scaled; it is one of them.
ValueList quantiser_together(const Quantiser *q, NodeId dot, int operand);

// Makes a dot whose formats are scaled a scaled_dot, in front of which its operands are quantised, in graph->region;
// the span, scope and part of new nodes are those of the graph. Operands, and what has a scale with them, have their
// types.
void quantiser_scale(Quantiser *q, NodeId dot, const ProductFormats *formats);

// Behind a scaled dot, which stands in its region: its result with the axes that it had before.
void quantiser_merge(Quantiser *q, NodeId dot);

// Notes a dot that was asked for, as it is now, for those who explain.
void quantiser_note(Quantiser *q, NodeId dot, const ProductFormats *formats);

// histories.c: the state, at the place of the graph.
ValueId history_add(Graph *graph, const History *history);
// Behind everything else: histories of the step are assigned, or have their first values.
void quantiser_finish(Quantiser *q);

Name quantiser_parameter(const Graph *graph,
                         ValueId value);  // that the value is, rounded, scaled and moved at most; or NULL
bool comes_from_parameter(const Graph *graph, ValueId value);
bool quantiser_eight_bits(ElementType type);
bool quantiser_is_gradient(const Graph *graph, ValueId value);

// quantise_block.c: with one scale for every block. Why a product that is asked for cannot be so, or NULL; and what
// quantiser_scale does.
const char *quantiser_no_blocks(const Graph *graph, const Node *dot);
void quantiser_scale_blocks(Quantiser *q, NodeId dot, const ProductFormats *formats);

// The scales of a value in 8 bits with one for each place along what is not `inside` of a block, as new nodes.
ValueId block_scale(Graph *graph, ValueId value, Shape inside, ElementType type);

// What several values have in common; `dot` is a product that reads the first.
ValueId quantiser_scale_of(Quantiser *q, NodeId dot, const ValueList *values, ElementType type,
                           const ProductRule *rule);

// quantise_pack.c: of parameters that are rounded with their pack, or what is moved of them, the largest number, in
// front of the microbatches or `here`, and what is rounded.
void quantiser_find_packs(Quantiser *q);  // once the groups are known
bool quantiser_is_stored(const Quantiser *q, ValueId value);
ValueId quantiser_stored_amax(Quantiser *q, ValueId value, bool here);
ValueId quantiser_stored_rounded(Quantiser *q, ValueId value);

// Parameters that are there in front of the microbatches, moved at most, are rounded there, once a step, whichever
// microbatches read them: is this such a value, and what is it there?
bool quantiser_is_steady(const Quantiser *q, ValueId value);
ValueId quantiser_in_front(Quantiser *q, ValueId value);

// What is added from here on stands in front of the microbatches. Returns the place before, for graph_return.
GraphPlace quantiser_go_in_front(Graph *graph);

MadeKey quantiser_key(const Quantiser *q, Made what, ValueId value, ElementType type, uint64_t scaling);

// What is rounded to 8 bits: the value, or, of a parameter, what it is in the base.
ValueId quantiser_rounded(const Quantiser *q, ValueId value);

// What is made of a gradient is cut among the ranks as the product is whose gradient it is, whichever product of a
// group it is made for. Returns what was so before.
NodeId quantiser_follow(const Quantiser *q, ValueId value);

#endif
