// range.h: between which numbers all elements of a value are, as far as its text says.
#ifndef MDL_COMPILER_IR_RANGE_H
#define MDL_COMPILER_IR_RANGE_H

#include "compiler/ir/graph.h"

typedef struct {
  double least, most;
} Range;

// Too wide where it cannot be told, never too narrow; of a real value that may be NaN everything.
Range range_of(const Graph *graph, ValueId value);

// Is an index never outside of the axis?
bool range_inside(const Graph *graph, ValueId index, AxisId axis);

#endif
