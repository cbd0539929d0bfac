// lower_gemm.c: contractions as matrix products on strided memory.
//
// product.h says which axes are rows, columns, inner and batch. An operand whose inner axes have no common stride is
// copied. A bias that lies along the columns is added by the product; another is copied to every row first, and the
// product is added to that.
#include <string.h>

#include "compiler/ir/dots.h"
#include "compiler/ir/product.h"
#include "compiler/lower/lower_matrix.h"

static int64_t extent(const Lower *l, AxisId axis) {
  return l->graph->axes.at[axis].size;
}

static Matrix scaled_matrix(Lower *l, ValueId value, ValueId scale) {
  Matrix matrix = matrix_of(l, value);
  matrix.scale = scale;
  return matrix;
}

static bool has_blocks(const Lower *l, const Matrix *matrix) {
  return matrix->scale >= 0 && graph_shape(l->graph, matrix->scale).count > 0;
}

// Matrix units take operands of 8 bits only if what they sum over comes last.
static bool usable(const Lower *l, const Matrix *matrix, const Shape *outer, const Shape *inner) {
  const Strided view = matrix_view(matrix);
  const ElementType type = graph_value(l->graph, matrix->value)->type;
  return strided_multipliable(l->graph, &view, outer, inner, type);
}

static bool batch_dims(const Lower *l, const ProductAxes *axes, const Matrix *a, const Matrix *b, const Matrix *c,
                       Gemm *gemm) {
  gemm->batch_count = 0;
  for (int i = 0; i < axes->batch.count; i++) {
    AxisId axis = axes->batch.axis[i];
    int64_t size = extent(l, axis), sa = matrix_stride(l, a, axis), sb = matrix_stride(l, b, axis),
            sc = matrix_stride(l, c, axis);
    int n = gemm->batch_count;
    if (size == 1) {
      continue;
    }
    if (n && gemm->stride_a[n - 1] == sa * size && gemm->stride_b[n - 1] == sb * size &&
        gemm->stride_c[n - 1] == sc * size) {
      gemm->batch[n - 1] *= size;
      gemm->stride_a[n - 1] = sa;
      gemm->stride_b[n - 1] = sb;
      gemm->stride_c[n - 1] = sc;
      continue;
    }
    if (n == GEMM_MAX_BATCH) {
      return false;
    }
    gemm->batch[n] = size;
    gemm->stride_a[n] = sa;
    gemm->stride_b[n] = sb;
    gemm->stride_c[n] = sc;
    gemm->batch_count++;
  }
  return true;
}

// Products of the forward in 8 bits, which are rounded to few bits soon, may be summed fast; gradients are not.
static bool sums_fast(const Lower *l, const Matrix *a, const Matrix *b) {
  const ElementType type_a = graph_value(l->graph, a->value)->type, type_b = graph_value(l->graph, b->value)->type;
  return type_a == TYPE_E4M3 && type_b == TYPE_E4M3 && (!l->node->backward || l->node->recomputed) && !has_blocks(l, a);
}

static bool ends_with(const Lower *l, const Shape *axes, const Shape *last) {
  bool behind = true;
  for (int i = axes->count - 1; i >= 0; i--) {
    const bool is = shape_has(last, axes->axis[i]);
    if (extent(l, axes->axis[i]) > 1 && is && !behind) {
      return false;
    }
    behind &= is || extent(l, axes->axis[i]) == 1;
  }
  return true;
}

// The scales of the blocks of an operand, as matrix units take them: of each place outside one after the other, those
// of the next block in the next row; of square blocks, those along the sum one after the other, rows beginning at whole
// vectors. Where they do not lie so they are copied.
static Place block_scales(Lower *l, const Matrix *of, const Shape *outer, const Shape *inner, bool *square,
                          int64_t *apart) {
  enum { VECTOR = 4, VECTOR_BYTES = 16 };
  Matrix scales = matrix_of(l, of->scale);
  const Shape along = shape_common(*inner, &scales.shape), rest = shape_common(*outer, &scales.shape);
  const Shape inside = shape_minus(*inner, &along), inside_outer = shape_minus(*outer, &rest);
  if (!ends_with(l, inner, &inside) || !ends_with(l, outer, &inside_outer)) {
    diag_error(l->c->diag, E099, l->node->span, "the compiler has stored the blocks of a product in pieces");
  }
  *square = inside_outer.count > 0;
  const Shape rows = *square ? rest : along, columns = *square ? along : rest;
  *apart = (graph_elements(l->graph, columns) + VECTOR - 1) / VECTOR * VECTOR;
  const bool dense = graph_elements(l->graph, columns) == 1 || matrix_collapse(l, &scales, &columns) == 1;
  const bool even = graph_elements(l->graph, rows) == 1 || matrix_collapse(l, &scales, &rows) == *apart;
  if (!dense || !even || scales.storage.offset % VECTOR_BYTES != 0) {
    Storage to = {.buffer = new_buffer(l, ARENA_TRANSIENT,
                                       graph_elements(l->graph, rows) * *apart * element_type_bytes(TYPE_F32))};
    const Strided by_rows = strided_dense(l->graph, rows), by_columns = strided_dense(l->graph, columns);
    for (int i = 0; i < scales.shape.count; i++) {
      const AxisId axis = scales.shape.axis[i];
      to.stride[i] = shape_has(&rows, axis) ? strided_along(l->graph, &by_rows, axis) * *apart
                                            : strided_along(l->graph, &by_columns, axis);
    }
    lower_copy(l, scales.shape, TYPE_F32, &scales.storage, &to, WRITE_STORE);
    scales.storage = to;
  }
  return place_of(l, &scales.storage);
}

static void place_scales(Lower *l, const ProductAxes *axes, const Matrix *a, const Matrix *b, Gemm *gemm) {
  if (has_blocks(l, a)) {
    gemm->block = SCALE_BLOCK;
    gemm->scale_a = block_scales(l, a, &axes->rows, &axes->inner, &gemm->square_a, &gemm->ld_scale_a);
    gemm->scale_b = block_scales(l, b, &axes->columns, &axes->inner, &gemm->square_b, &gemm->ld_scale_b);
  } else if (a->scale >= 0) {
    gemm->scale_a = place_of(l, storage_of(l, a->scale));
    gemm->scale_b = place_of(l, storage_of(l, b->scale));
  }
}

// bias: along the columns, or NULL.
static void finish_gemm(Lower *l, const ProductAxes *axes, const Matrix *a, const Matrix *b, const Matrix *c,
                        const Matrix *bias, WriteMode write) {
  Gemm gemm = {.type = graph_value(l->graph, a->value)->type,
               .type_b = graph_value(l->graph, b->value)->type,
               .type_c = graph_value(l->graph, c->value)->type,
               .tf32 = matrix_tf32(l, a),
               .fast = sums_fast(l, a, b),
               .write = write};
  gemm.m = graph_elements(l->graph, axes->rows);
  gemm.n = graph_elements(l->graph, axes->columns);
  gemm.k = graph_elements(l->graph, axes->inner);
  if (!batch_dims(l, axes, a, b, c, &gemm)) {
    diag_error(l->c->diag, E090, l->node->span, "this dot has more than %d separate batch axes", GEMM_MAX_BATCH);
    return;
  }
  matrix_leading(matrix_collapse(l, a, &axes->rows), matrix_collapse(l, a, &axes->inner), gemm.m, gemm.k,
                 &gemm.transpose_a, &gemm.lda);
  matrix_leading(matrix_collapse(l, b, &axes->inner), matrix_collapse(l, b, &axes->columns), gemm.k, gemm.n,
                 &gemm.transpose_b, &gemm.ldb);
  gemm.ldc = matrix_at_least(matrix_collapse(l, c, &axes->rows), gemm.n);
  gemm.a = place_of(l, &a->storage);
  gemm.b = place_of(l, &b->storage);
  gemm.c = place_of(l, &c->storage);
  place_scales(l, axes, a, b, &gemm);
  gemm.epilogue = bias ? EPILOGUE_BIAS : EPILOGUE_NONE;
  gemm.bias = bias ? place_of(l, &bias->storage) : (Place){0};
  Instruction *instruction = new_instruction(l, INSTRUCTION_GEMM);
  double count = 1;
  for (int i = 0; i < gemm.batch_count; i++) {
    count *= (double)gemm.batch[i];
  }
  double m = (double)gemm.m, n = (double)gemm.n, k = (double)gemm.k;
  instruction->flops = 2 * count * m * n * k;
  instruction->bytes = count * ((m * k + k * n) * (double)element_type_bytes(gemm.type) +
                                (m * n + (bias ? n : 0)) * (double)element_type_bytes(gemm.type_c));
  instruction->as.gemm = gemm;
}

// Makes every row of c the bias.
static void spread(Lower *l, const Matrix *bias, const Matrix *c) {
  Storage from = bias->storage;
  for (int i = 0; i < c->shape.count; i++) {
    from.stride[i] = matrix_stride(l, bias, c->shape.axis[i]);
  }
  lower_copy(l, c->shape, graph_value(l->graph, c->value)->type, &from, &c->storage, WRITE_STORE);
}

// The product that adds the bias, or the product added to the bias.
static void finish_biased(Lower *l, const ProductAxes *axes, const Matrix *a, const Matrix *b, const Matrix *c,
                          const Matrix *bias) {
  Gemm trial = {0};
  const bool along = shape_contains(&bias->shape, &axes->columns) &&
                     (matrix_collapse(l, bias, &axes->columns) == 1 || graph_elements(l->graph, axes->columns) == 1);
  if (along && batch_dims(l, axes, a, b, c, &trial) && trial.batch_count == 0) {
    finish_gemm(l, axes, a, b, c, bias, WRITE_STORE);
    return;
  }
  spread(l, bias, c);
  finish_gemm(l, axes, a, b, c, NULL, WRITE_ADD);
}

// The axes of a product whose operands have scales for blocks: no batch, and in the order in which blocks are stored.
static void block_axes(const Lower *l, const Matrix *a, const Matrix *b, const Matrix *c, const Shape *contracted,
                       ProductAxes *axes) {
  const Shape columns = shape_minus(b->shape, contracted);
  const bool swapped = matrix_collapse(l, c, &columns) > 1;
  const Matrix *first = swapped ? b : a, *second = swapped ? a : b;
  *axes = (ProductAxes){.rows = shape_minus(first->shape, contracted),
                        .columns = shape_minus(second->shape, contracted),
                        .inner = *contracted,
                        .swapped = swapped};
  matrix_sort(l, first, &axes->rows);
  matrix_sort(l, second, &axes->columns);
}

// c (+)= a . b, with the axes of c; the result is written through `c`, whose columns must be contiguous. bias: is added
// to what is stored, or NULL.
static void gemm(Lower *l, Matrix a, Matrix b, Matrix c, const Matrix *bias, const Shape *contracted, WriteMode write) {
  ProductAxes axes;
  const Strided from_a = matrix_view(&a), from_b = matrix_view(&b), to_c = matrix_view(&c);
  if (has_blocks(l, &a)) {
    block_axes(l, &a, &b, &c, contracted, &axes);
  } else {
    product_axes(l->graph, &from_a, &from_b, &to_c, contracted, &axes);
  }
  if (axes.swapped) {  // compute its transpose
    Matrix swap = a;
    a = b;
    b = swap;
  }
  if (!usable(l, &a, &axes.rows, &axes.inner)) {
    matrix_copy(l, &a, axes.batch, &axes.rows, &axes.inner);
  }
  if (!usable(l, &b, &axes.columns, &axes.inner)) {
    matrix_copy(l, &b, axes.batch, &axes.columns, &axes.inner);
  }
  bool writable = product_writable(l->graph, &to_c, &axes);
  Gemm trial = {0};
  if (writable && batch_dims(l, &axes, &a, &b, &c, &trial)) {
    if (bias) {
      finish_biased(l, &axes, &a, &b, &c, bias);
    } else {
      finish_gemm(l, &axes, &a, &b, &c, NULL, write);
    }
    return;
  }
  // Through a dense result [batch, rows, columns], then copied where it belongs.
  Shape order = shape_union(shape_union(axes.batch, &axes.rows), &axes.columns);
  Matrix dense = {.value = c.value, .storage = dense_storage(l, order, type_bytes(l, c.value)), .shape = order};
  if (axes.batch.count > 0) {
    matrix_copy(l, &a, axes.batch, &axes.rows, &axes.inner);
    matrix_copy(l, &b, axes.batch, &axes.columns, &axes.inner);
  }
  if (bias) {
    finish_biased(l, &axes, &a, &b, &dense, bias);
  } else {
    finish_gemm(l, &axes, &a, &b, &dense, NULL, WRITE_STORE);
  }
  Storage to = dense.storage;
  for (int i = 0; i < order.count; i++) {
    to.stride[i] = c.storage.stride[shape_find(&c.shape, order.axis[i])];
  }
  to.buffer = c.storage.buffer;
  to.offset = c.storage.offset;
  memcpy(to.rank, c.storage.rank, sizeof to.rank);
  lower_copy(l, order, graph_value(l->graph, c.value)->type, &dense.storage, &to, write);
}

// One stride through all members: member i + 1 begins where the columns of member i end.
static bool follow_each_other(Lower *l, const Matrix *members, const Shape *columns, const Shape *rows, int count) {
  for (int i = 0; i < count; i++) {
    int64_t stride = matrix_collapse(l, &members[i], &columns[i]);
    if (stride <= 0 || matrix_collapse(l, &members[i], rows) != matrix_collapse(l, &members[0], rows) ||
        matrix_collapse(l, &members[i], rows) < 0 || stride != matrix_collapse(l, &members[0], &columns[0])) {
      return false;
    }
    int64_t bytes = type_bytes(l, members[i].value);
    if (i && (members[i].storage.buffer != members[i - 1].storage.buffer ||
              members[i].storage.offset !=
                  members[i - 1].storage.offset + graph_elements(l->graph, columns[i - 1]) * stride * bytes)) {
      bool persistent = l->buffers.at[members[i].storage.buffer].arena == ARENA_PERSISTENT &&
                        l->buffers.at[members[i - 1].storage.buffer].arena == ARENA_PERSISTENT;
      int64_t gap = l->buffers.at[members[i].storage.buffer].offset + members[i].storage.offset -
                    l->buffers.at[members[i - 1].storage.buffer].offset - members[i - 1].storage.offset;
      if (!persistent || gap != graph_elements(l->graph, columns[i - 1]) * stride * bytes) {
        return false;
      }
    }
  }
  return true;
}

// The members as one matrix: its first columns axis stands for all columns, with a size of its own.
static Matrix joined(Lower *l, const Matrix *first, AxisId axis, const Shape *rows, int64_t column_stride) {
  Matrix matrix = {.value = first->value, .storage = first->storage, .scale = first->scale};
  for (int i = 0; i < rows->count; i++) {
    matrix.storage.stride[matrix.shape.count] = matrix_stride(l, first, rows->axis[i]);
    shape_push(&matrix.shape, rows->axis[i]);
  }
  matrix.storage.stride[matrix.shape.count] = column_stride;
  shape_push(&matrix.shape, axis);
  return matrix;
}

static AxisId joined_axis(Lower *l, const Shape *columns, int count) {
  int64_t size = 0;
  for (int i = 0; i < count; i++) {
    size += graph_elements(l->graph, columns[i]);
  }
  return graph_axis(l->graph, name_of(l->c->names, "joined"), size);
}

// The biases as one, which has the joined axis: where they lie, if one begins where the other ends, or in a copy.
static Matrix joined_bias(Lower *l, Matrix *biases, const Shape *columns, AxisId axis, int count) {
  const Shape none = {0};
  if (follow_each_other(l, biases, columns, &none, count) && matrix_collapse(l, &biases[0], &columns[0]) == 1) {
    return joined(l, &biases[0], axis, &none, 1);
  }
  const int64_t bytes = type_bytes(l, biases[0].value);
  Matrix all = {.value = biases[0].value, .storage = dense_storage(l, shape_of(axis), bytes), .shape = shape_of(axis)};
  Storage to = all.storage;
  for (int i = 0; i < count; i++) {
    int64_t stride = 1;
    for (int j = columns[i].count - 1; j >= 0; j--) {
      to.stride[shape_find(&biases[i].shape, columns[i].axis[j])] = stride;
      stride *= extent(l, columns[i].axis[j]);
    }
    lower_copy(l, biases[i].shape, graph_value(l->graph, biases[i].value)->type, &biases[i].storage, &to, WRITE_STORE);
    to.offset += stride * bytes;
  }
  return all;
}

void lower_dots(Lower *l, const Node *node) {
  const int count = node->result_count;
  const bool biased = op_dots_biased(node->op);
  Matrix *bias = ARENA_ARRAY(l->c->arena, Matrix, count);
  Matrix *b = ARENA_ARRAY(l->c->arena, Matrix, count), *c = ARENA_ARRAY(l->c->arena, Matrix, count);
  Shape *columns = ARENA_ARRAY(l->c->arena, Shape, count);
  const Matrix a = scaled_matrix(l, dots_first(node, 0), dots_first_scale(node));
  Shape rows = shape_minus(a.shape, &node->axes);
  bool accumulate = l->accumulate[node->first_result], same = true;
  for (int i = 0; i < count; i++) {
    b[i] = scaled_matrix(l, dots_second(node, i), dots_second_scale(node));
    c[i] = matrix_of(l, node->first_result + i);
    bias[i] = biased ? matrix_of(l, dots_bias(node, i)) : (Matrix){0};
    columns[i] = shape_minus(b[i].shape, &node->axes);
    matrix_sort(l, &c[i], &columns[i]);
    same &= l->accumulate[node->first_result + i] == accumulate;
  }
  Shape inner = node->axes;
  matrix_sort(l, &b[0], &inner);
  matrix_sort(l, &c[0], &rows);
  if (same && count > 1 && follow_each_other(l, b, columns, &inner, count) &&
      follow_each_other(l, c, columns, &rows, count)) {
    AxisId axis = joined_axis(l, columns, count);
    Matrix all_b = joined(l, &b[0], axis, &inner, matrix_collapse(l, &b[0], &columns[0]));
    Matrix all_c = joined(l, &c[0], axis, &rows, matrix_collapse(l, &c[0], &columns[0]));
    Matrix all = biased ? joined_bias(l, bias, columns, axis, count) : (Matrix){0};
    gemm(l, a, all_b, all_c, biased ? &all : NULL, &node->axes, matrix_write_mode(l, node->first_result));
    return;
  }
  for (int i = 0; i < count; i++) {
    gemm(l, a, b[i], c[i], biased ? &bias[i] : NULL, &node->axes, matrix_write_mode(l, node->first_result + i));
  }
}

void lower_dot_sum(Lower *l, const Node *node) {
  const int count = dots_count(node);
  Matrix *a = ARENA_ARRAY(l->c->arena, Matrix, count), *b = ARENA_ARRAY(l->c->arena, Matrix, count);
  Shape *inner = ARENA_ARRAY(l->c->arena, Shape, count);
  Matrix c = matrix_of(l, node->first_result);
  for (int i = 0; i < count; i++) {
    a[i] = scaled_matrix(l, dots_first(node, i), dots_first_scale(node));
    b[i] = scaled_matrix(l, dots_second(node, i), dots_second_scale(node));
    inner[i] = dots_inner(l->graph, node, i);
    matrix_sort(l, &b[i], &inner[i]);
  }
  Shape rows = shape_minus(a[0].shape, &inner[0]), columns = shape_minus(b[0].shape, &inner[0]);
  matrix_sort(l, &c, &rows);
  matrix_sort(l, &c, &columns);
  if (follow_each_other(l, a, inner, &rows, count) && follow_each_other(l, b, inner, &columns, count)) {
    AxisId axis = joined_axis(l, inner, count);
    Matrix all_a = joined(l, &a[0], axis, &rows, matrix_collapse(l, &a[0], &inner[0]));
    Matrix all_b = joined(l, &b[0], axis, &columns, matrix_collapse(l, &b[0], &inner[0]));
    Shape over = shape_of(axis);
    gemm(l, all_a, all_b, c, NULL, &over, matrix_write_mode(l, node->first_result));
    return;
  }
  for (int i = 0; i < count; i++) {
    WriteMode mode = i ? WRITE_ADD : matrix_write_mode(l, node->first_result);
    gemm(l, a[i], b[i], c, NULL, &inner[i], mode);
  }
}
