// lower_matrix.h: values as matrices on strided memory, for the files that lower products.
#ifndef MDL_COMPILER_LOWER_LOWER_MATRIX_H
#define MDL_COMPILER_LOWER_LOWER_MATRIX_H

#include "compiler/ir/product.h"
#include "compiler/lower/lower.h"

typedef struct {
  ValueId value;
  Storage storage;
  Shape shape;
  ValueId scale;  // of a value of 8 bits; -1: it has none
} Matrix;

Matrix matrix_of(Lower *l, ValueId value);
Strided matrix_view(const Matrix *matrix);
int64_t matrix_stride(const Lower *l, const Matrix *matrix, AxisId axis);
int64_t matrix_collapse(const Lower *l, const Matrix *matrix, const Shape *axes);  // see strided_collapse
void matrix_sort(const Lower *l, const Matrix *matrix, Shape *axes);               // see strided_sort

// Makes it a copy of itself that is dense: outer axes, then rows, then the last.
void matrix_copy(Lower *l, Matrix *matrix, Shape outer, const Shape *rows, const Shape *last);

// Which of a matrix's two strides is the leading dimension, and is it stored transposed?
void matrix_leading(int64_t row, int64_t column, int64_t rows, int64_t columns, bool *transposed, int64_t *ld);
int64_t matrix_at_least(int64_t stride, int64_t least);

// How a product stores its result, by what is decided of it.
WriteMode matrix_write_mode(const Lower *l, ValueId value);
// May products that read it round to TensorFloat-32? Only those of f32 may.
bool matrix_tf32(const Lower *l, const Matrix *matrix);

#endif
