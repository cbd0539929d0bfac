// rows.h: what the files of the pass `rows` share.
//
// A RowOrder sorts the positions of an index by what they choose. A value that has the axes of those positions can be
// kept in rows instead: it has the axes `blocks` and `row` in their place. Rows of padding, which have no position, may
// hold anything, as padding.h says of each value.
#ifndef MDL_COMPILER_FUSE_ROWS_H
#define MDL_COMPILER_FUSE_ROWS_H

#include "compiler/ir/padding.h"
#include "compiler/pass/compilation.h"

typedef struct {
  ValueId index;    // as it was first found
  AxisId axis;      // that it indexes
  Shape positions;  // the axes of the index, in the order in which positions are numbered
  AxisId rows, blocks, row;
  ValueId place, from, chosen;  // results of the node; -1: it is not made yet
} RowOrder;

typedef struct {  // a value made in one segment that another one reads
  RegionId region;
  ValueId inside, outside;  // outside: a stand-in until all segments are known
} RowExport;

typedef struct {
  Compilation *c;
  Graph *graph;
  ARRAY(RowOrder) orders;
  int limit;  // values and nodes of the graph before
  int node_limit;
  ValueId *inside;   // by value of a segment's results: what stands for it in the segment; itself
  RegionId *home;    // by node: its region; -1: in a kernel
  int *uses;         // by value: how often nodes and regions read it
  int *order;        // by value: 1 + the order in whose rows it is made; 0: it is made where it was
  ValueId *in_rows;  // by value: then what it is there
  bool *leaves;      // by value: a result of a region that is no segment
  Map region_of;     // of values that the pass makes
  Map taken[2];      // value and order to its rows; 1: for what is computed again
  Map tokens;        // value and region to what it is outside of rows
  Map indices;       // order, axes and direction to places in what has these axes
  Map masked;        // a value in rows to the same with zeros in the padding
  Map contents;      // a value in rows to what its padding holds
  Map sums;          // by value of the graph before: the sum over choices that stands for it
  Map zeros;         // by value of the graph before: rows_zero_without
  ValueId *replace;  // by value of the graph before: what stands for it outside of rows, or -1
  ARRAY(RowExport) exports;
  bool *segment;     // by region: is it that of a segment?
  RegionId *around;  // by region: the one that it stands in; -1: none
} Rows;

// The order of the positions of an index, made anew where there is none; -1: this is no index that chooses.
int rows_order_of(const Rows *r, ValueId index, AxisId axis);
int rows_add_order(Rows *r, const Node *node);
int64_t rows_limit(const Rows *r, const Node *limit);  // positions of each place that it leaves
// Is it a value in rows of this order where a capacity does not leave out the choice, and else 0?
bool rows_keeps_chosen(const Rows *r, const Node *node, int order);
ValueId rows_limited(Rows *r, const Node *limit);  // what it says, by sorting

// A value that the pass has made, as it is read in the region at hand.
ValueId rows_here(Rows *r, ValueId made);
ValueId rows_note(Rows *r, ValueId made);  // notes where it was made

// The results of the order's node, which is added where it is first asked for.
ValueId rows_place(Rows *r, int order, ValueId index);
ValueId rows_from(Rows *r, int order, ValueId index);
ValueId rows_chosen(Rows *r, int order, ValueId index);

PaddingContent rows_content(const Rows *r, ValueId rows, int order);  // of a value in rows, or of any other operand
void rows_set_content(Rows *r, ValueId rows, PaddingContent content);
ValueId rows_masked(Rows *r, ValueId rows, int order, ValueId index);  // zeros in the padding

// The shape in rows of a value with these axes.
Shape rows_shape(const Rows *r, int order, Shape shape);
ValueId rows_spread(Rows *r, ValueId rows, int order);  // with the axes of the rows, if it has not both
ValueId rows_of(Rows *r, ValueId value, int order, ValueId index, bool again);  // of a value that is not made in rows
ValueId rows_outside(Rows *r, ValueId value);                                   // as it is where it is not in rows
bool rows_zero_without(Rows *r, ValueId value);  // is it 0 where a position has no row, as it would be outside of rows?
ValueId rows_back(Rows *r, ValueId rows, int order, ValueId index, Shape summed);  // to positions, summed over some

// A node like this one, of values in rows.
ValueId rows_again(Rows *r, const Node *node, const ValueId *operands, int order);

// Does the node do for each position what it does, whatever the others are?
bool rows_by_positions(const Rows *r, const Node *node, int order);
bool rows_wide(const Rows *r, Shape shape, int order);  // has it all axes of the positions, and more?

#endif
