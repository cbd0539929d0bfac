// lower_matrix.c: values as matrices on strided memory, for products.
#include "compiler/lower/lower_matrix.h"

#include <string.h>

int64_t matrix_at_least(int64_t stride, int64_t least) {
  return stride > least ? stride : least;
}

Strided matrix_view(const Matrix *matrix) {
  Strided out = {.shape = matrix->shape};
  memcpy(out.stride, matrix->storage.stride, sizeof out.stride);
  return out;
}

int64_t matrix_stride(const Lower *l, const Matrix *matrix, AxisId axis) {
  const Strided view = matrix_view(matrix);
  return strided_along(l->graph, &view, axis);
}

int64_t matrix_collapse(const Lower *l, const Matrix *matrix, const Shape *axes) {
  const Strided view = matrix_view(matrix);
  return strided_collapse(l->graph, &view, axes);
}

Matrix matrix_of(Lower *l, ValueId value) {
  return (Matrix){.value = value, .storage = *storage_of(l, value), .shape = graph_shape(l->graph, value), .scale = -1};
}

void matrix_sort(const Lower *l, const Matrix *matrix, Shape *axes) {
  const Strided view = matrix_view(matrix);
  strided_sort(l->graph, &view, axes);
}

void matrix_copy(Lower *l, Matrix *matrix, Shape outer, const Shape *rows, const Shape *last) {
  Shape order = shape_union(shape_union(outer, rows), last);
  order = shape_common(order, &matrix->shape);
  Storage dense = dense_storage(l, order, type_bytes(l, matrix->value)), to = dense;
  for (int i = 0; i < matrix->shape.count; i++) {
    to.stride[i] = dense.stride[shape_find(&order, matrix->shape.axis[i])];
  }
  lower_copy(l, matrix->shape, graph_value(l->graph, matrix->value)->type, &matrix->storage, &to, WRITE_STORE);
  matrix->storage = to;
}

// Which of a matrix's two strides is the leading dimension, and is it stored transposed?
void matrix_leading(int64_t row, int64_t column, int64_t rows, int64_t columns, bool *transposed, int64_t *ld) {
  *transposed = !(column == 1 || columns == 1) || (row == 1 && column != 1 && rows > 1);
  *ld = *transposed ? matrix_at_least(column, rows) : matrix_at_least(row, columns);
}

bool matrix_tf32(const Lower *l, const Matrix *matrix) {
  return l->c->spec->formats.tf32 && graph_value(l->graph, matrix->value)->type == TYPE_F32;
}

WriteMode matrix_write_mode(const Lower *l, ValueId value) {
  return l->add[value] ? WRITE_ADD : l->accumulate[value] ? WRITE_ADD_AFTER_FIRST : WRITE_STORE;
}
