// product.c: how a contraction of two strided values becomes matrix products.
#include "compiler/ir/product.h"

static int64_t extent(const Graph *graph, AxisId axis) {
  return graph->axes.at[axis].size;
}

Strided strided_dense(const Graph *graph, Shape order) {
  Strided dense = {.shape = order};
  int64_t at = 1;
  for (int i = order.count - 1; i >= 0; i--) {
    dense.stride[i] = at;
    at *= extent(graph, order.axis[i]);
  }
  return dense;
}

int64_t strided_along(const Graph *graph, const Strided *matrix, AxisId axis) {
  int at = shape_find(&matrix->shape, axis);
  return at < 0 || extent(graph, axis) == 1 ? 0 : matrix->stride[at];
}

int64_t strided_collapse(const Graph *graph, const Strided *matrix, const Shape *axes) {
  int64_t stride = 0, next = 0;
  for (int i = axes->count - 1; i >= 0; i--) {
    int64_t size = extent(graph, axes->axis[i]);
    if (size == 1) {
      continue;
    }
    int64_t here = strided_along(graph, matrix, axes->axis[i]);
    if (stride == 0) {
      stride = here;
    } else if (here != next) {
      return -1;
    }
    next = here * size;
  }
  return stride;
}

void strided_sort(const Graph *graph, const Strided *matrix, Shape *axes) {
  for (int i = 1; i < axes->count; i++) {
    for (int j = i;
         j > 0 && strided_along(graph, matrix, axes->axis[j]) > strided_along(graph, matrix, axes->axis[j - 1]); j--) {
      AxisId swap = axes->axis[j];
      axes->axis[j] = axes->axis[j - 1];
      axes->axis[j - 1] = swap;
    }
  }
}

bool strided_usable(const Graph *graph, const Strided *matrix, const Shape *rows, const Shape *columns) {
  int64_t r = strided_collapse(graph, matrix, rows), c = strided_collapse(graph, matrix, columns);
  return r >= 0 && c >= 0 && (r == 1 || c == 1 || r == 0 || c == 0);
}

bool strided_multipliable(const Graph *graph, const Strided *matrix, const Shape *outer, const Shape *inner,
                          ElementType type) {
  const bool last = element_type_bytes(type) > 1 || strided_collapse(graph, matrix, inner) <= 1;
  return last && strided_usable(graph, matrix, outer, inner);
}

// Moves leading axes to the batch until the rest has one stride in both matrices.
static void peel(const Graph *graph, const Strided *operand, const Strided *result, Shape *axes, Shape *batch) {
  while (axes->count > 1 && (strided_collapse(graph, operand, axes) < 0 || strided_collapse(graph, result, axes) < 0)) {
    shape_push(batch, axes->axis[0]);
    shape_remove(axes, axes->axis[0]);
  }
}

void product_axes(const Graph *graph, const Strided *a, const Strided *b, const Strided *c, const Shape *contracted,
                  ProductAxes *axes) {
  Shape common = shape_common(a->shape, &b->shape);
  *axes = (ProductAxes){.inner = *contracted};
  axes->batch = shape_minus(shape_common(c->shape, &common), contracted);
  axes->rows = shape_minus(shape_common(c->shape, &a->shape), &axes->batch);
  axes->columns = shape_minus(shape_common(c->shape, &b->shape), &axes->batch);
  strided_sort(graph, c, &axes->rows);
  strided_sort(graph, c, &axes->columns);
  if (axes->rows.count && (axes->columns.count == 0 || strided_collapse(graph, c, &axes->columns) != 1) &&
      strided_along(graph, c, axes->rows.axis[axes->rows.count - 1]) == 1) {
    const Strided *swap = a;
    a = b;
    b = swap;
    Shape rows = axes->rows;
    axes->rows = axes->columns;
    axes->columns = rows;
    axes->swapped = true;
  }
  peel(graph, a, c, &axes->rows, &axes->batch);
  peel(graph, b, c, &axes->columns, &axes->batch);
  strided_sort(graph, a, &axes->inner);
}

bool product_writable(const Graph *graph, const Strided *c, const ProductAxes *axes) {
  return strided_usable(graph, c, &axes->rows, &axes->columns) && strided_collapse(graph, c, &axes->columns) <= 1;
}
