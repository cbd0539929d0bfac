// graph_reader.h: what the parts of a reader of graphs share: what is defined where it is, and what values are made of.
//
// Functions that return false have reported why, as those of graph_token.h.
#ifndef MDL_COMPILER_IR_GRAPH_READER_H
#define MDL_COMPILER_IR_GRAPH_READER_H

#include "compiler/ir/graph_text.h"
#include "compiler/ir/graph_token.h"

enum { READ_MAX_DEPTH = 64, READ_MAX_OPERANDS = 65536, READ_MAX_SLOTS = 1 << 20 };

typedef struct {
  int32_t number;  // in the text
  ValueId value;
} Definition;

typedef struct {
  Graph *graph;
  Tokens *tokens;
  int depth;
  Map axes;                   // name → id
  Map values;                 // number in the text → id
  Map places;                 // number → where it was put in `visible`
  ARRAY(Definition) visible;  // what nodes may use now, the innermost region's last
  int floor;                  // what comes before it is outside the composite
  ARRAY(int32_t) leaves;      // for each persistent tensor the number of its value, or -1
} Reader;

bool reader_axis(Reader *reader, AxisId *axis);
bool reader_axis_into(Reader *reader, Shape *shape, bool repeats);
// [a, b, c]; `repeats`: the parts of a concat may have the same axis
bool reader_axes(Reader *reader, Shape *shape, bool repeats);
bool reader_element_type(Reader *reader, ElementType *type);
// The type and attributes of one value. *placed: it says where it comes from.
bool reader_result(Reader *reader, Value *value, bool *placed);
// From here on nodes may use the value under this number.
bool reader_define_value(Reader *reader, int32_t number, ValueId value, Span span);
bool reader_uses(Reader *reader, ValueList *values);

#endif
