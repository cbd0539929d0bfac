// product.h: how a contraction of two strided values becomes matrix products: for lowering, and for the cost of orders.
//
// The axes of a product are batch (in both operands and the result), rows (first operand and result), columns (second
// and result) and inner (contracted). Each kind must have one stride in each matrix; row and column axes that do not
// are moved to the batch, so that there is one product for each of their elements.
#ifndef MDL_COMPILER_IR_PRODUCT_H
#define MDL_COMPILER_IR_PRODUCT_H

#include "compiler/ir/graph.h"

typedef struct {
  Shape shape;
  int64_t stride[SHAPE_MAX_AXES];  // in elements, for each axis of the shape
} Strided;

typedef struct {
  Shape batch, rows, columns, inner;
  bool swapped;  // the result is stored columns first: rows are those of the second operand
} ProductAxes;

Strided strided_dense(const Graph *graph, Shape order);

// 0 if it lacks the axis, or has one element along it.
int64_t strided_along(const Graph *graph, const Strided *matrix, AxisId axis);

// The one stride of axes, major first, or -1; 0 if they have one element in all.
int64_t strided_collapse(const Graph *graph, const Strided *matrix, const Shape *axes);

// The axes, those with the largest stride first.
void strided_sort(const Graph *graph, const Strided *matrix, Shape *axes);

// Has it one stride for its rows, one for its columns, and are the elements of one of them neighbours?
bool strided_usable(const Graph *graph, const Strided *matrix, const Shape *rows, const Shape *columns);

// Can matrix units take it as an operand that is summed over `inner`? Of 8 bits only if these come last.
bool strided_multipliable(const Graph *graph, const Strided *matrix, const Shape *outer, const Shape *inner,
                          ElementType type);

// Of c = a . b. If axes->swapped, b is the first operand.
void product_axes(const Graph *graph, const Strided *a, const Strided *b, const Strided *c, const Shape *contracted,
                  ProductAxes *axes);

// Can the product write the result where it lies?
bool product_writable(const Graph *graph, const Strided *c, const ProductAxes *axes);

#endif
