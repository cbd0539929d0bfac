// reference_points.h: coordinates along named axes, and the elements at them, for the files of the reference.
#ifndef MDL_TESTS_REFERENCE_POINTS_H
#define MDL_TESTS_REFERENCE_POINTS_H

#include "tests/reference.h"

static inline int64_t size_of(const Reference *r, AxisId axis) {
  return r->graph->axes.at[axis].size;
}

static inline void point_start(Point point, const Shape *shape) {
  for (int i = 0; i < shape->count; i++) {
    point.at[shape->axis[i]] = 0;
  }
}

// The next coordinate in row-major order; false after the last.
static inline bool point_next(const Reference *r, Point point, const Shape *shape) {
  for (int i = shape->count - 1; i >= 0; i--) {
    if (++point.at[shape->axis[i]] < size_of(r, shape->axis[i])) {
      return true;
    }
    point.at[shape->axis[i]] = 0;
  }
  return false;
}

#define FOR_POINTS(r, point, shape) \
  for (bool more_ = (point_start((point), (shape)), true); more_; more_ = point_next((r), (point), (shape)))

static inline double *element(const Reference *r, const Tensor *tensor, Point point) {
  int64_t at = 0;
  for (int i = 0; i < tensor->shape.count; i++) {
    at = at * size_of(r, tensor->shape.axis[i]) + point.at[tensor->shape.axis[i]];
  }
  return &tensor->data[at];
}

static inline double read(const Reference *r, const Node *node, int operand, Point point) {
  return *element(r, &r->values[node->operands[operand]], point);
}

// --- reference_elements.c ---

// Whether every element of the op's result is what reference_element says.
bool reference_knows(Op op);
// The element at `point`. Coordinates of axes that the op sums over are changed; reference->scratch too.
double reference_element(const Reference *reference, const Node *node, Point point);
// The sum over `over` of the products of two operands, times their scales where they have 8 bits.
long double reference_product(const Reference *reference, const Node *node, int a, int b, const Shape *over,
                              Point point);

#endif
