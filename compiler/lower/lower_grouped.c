// lower_grouped.c: positions sorted into rows, products of rows with the matrices that their blocks have chosen, and
// lookups that add up rows.
//
// An operand whose rows or columns have no common stride is copied, and a result is made dense and copied where it
// belongs.
#include "compiler/lower/lower_matrix.h"

#include <math.h>
#include <string.h>

static int64_t extent(const Lower *l, AxisId axis) {
  return l->graph->axes.at[axis].size;
}

static bool is_dense(const Lower *l, const Matrix *matrix, const Shape *axes) {
  return graph_elements(l->graph, *axes) == 1 || matrix_collapse(l, matrix, axes) == 1;
}

// Rows of one stride, and columns without gaps. Rows apart from each other by less than their length are not.
static bool has_rows(const Lower *l, const Matrix *matrix, const Shape *rows, const Shape *columns) {
  const int64_t stride = matrix_collapse(l, matrix, rows);
  return is_dense(l, matrix, columns) &&
         (graph_elements(l->graph, *rows) == 1 || stride >= graph_elements(l->graph, *columns));
}

static int64_t leads(const Lower *l, const Matrix *matrix, const Shape *rows, const Shape *columns) {
  return matrix_at_least(matrix_collapse(l, matrix, rows), graph_elements(l->graph, *columns));
}

// From one matrix to the next, which may begin inside of the first; of one alone what would do.
static int64_t between(const Lower *l, const Matrix *matrices, AxisId axis, int64_t alone) {
  return extent(l, axis) > 1 ? matrix_stride(l, matrices, axis) : alone;
}

// The axes of the rows: those of the blocks, and what the other operand has for each row of one.
static Shape rows_of(const Lower *l, const Node *node, const Matrix *a, int member) {
  const Shape blocks = graph_shape(l->graph, node->operands[node->operand_count - 1]);
  const Shape w = graph_shape(l->graph, node->operands[2 * member + 1]), of = shape_minus(a->shape, &w);
  return shape_union(blocks, &of);
}

double rows_share(const Lower *l, ValueId chosen) {
  const Node *order = graph_producer(l->graph, graph_inside_segment(l->graph, chosen));
  Shape positions = order->axes;
  positions.count -= 2;
  const double share = (double)extent(l, order->axis) / (double)extent(l, axis_whole(l->graph, order->axis));
  const double even = (double)graph_elements(l->graph, positions) * share;
  const double rows = (double)extent(l, order->axis2);
  return even < rows ? even / rows : 1;
}

void poison_blocks(Lower *l, const Node *node) {
  for (int i = 0; i < node->result_count && l->c->poison; i++) {
    const ValueId result = node->first_result + i;
    const ElementType type = graph_value(l->graph, result)->type;
    const double number = element_type_floating(type) ? (double)NAN : type == TYPE_BOOL ? 0 : INT32_MAX / 2;
    if (l->home[result].kind == HOME_OWN && !l->accumulate[result]) {
      lower_fill(l, graph_shape(l->graph, result), type, storage_of(l, result), number);
    }
  }
}

static Instruction *new_grouped(Lower *l, const Node *node, InstructionKind kind, const Grouped *grouped) {
  Instruction *instruction = new_instruction(l, kind);
  const double bytes = (double)element_type_bytes(grouped->type), out = (double)element_type_bytes(grouped->type_c);
  const double rows = (double)grouped->rows * rows_share(l, node->operands[node->operand_count - 1]),
               m = (double)grouped->m, n = (double)grouped->n, k = (double)grouped->k;
  const double matrices = (double)grouped->extent;
  instruction->as.grouped = *grouped;
  instruction->flops = 2 * rows * m * n * k;
  instruction->bytes = kind == INSTRUCTION_GROUPED_SUM ? rows * (m + n) * bytes + matrices * m * n * out
                                                       : rows * (k * bytes + n * out) + matrices * k * n * bytes;
  return instruction;
}

// One matrix for each place along the axis, as the rows of `a` are multiplied with them.
static void multiply(Lower *l, const Node *node, int member, const Matrix *c, WriteMode write) {
  Matrix a = matrix_of(l, node->operands[2 * member]), w = matrix_of(l, node->operands[2 * member + 1]);
  const ValueId chosen = node->operands[node->operand_count - 1];
  const Shape rows = rows_of(l, node, &a, member), places = shape_of(node->axis);
  Shape inner = shape_common(w.shape, &a.shape), columns = shape_minus(w.shape, &inner);
  shape_remove(&columns, node->axis);
  matrix_sort(l, c, &columns);
  matrix_sort(l, &w, &inner);
  if (!has_rows(l, &a, &rows, &inner)) {
    matrix_copy(l, &a, (Shape){0}, &rows, &inner);
  }
  const int64_t k = graph_elements(l->graph, inner), n = graph_elements(l->graph, columns);
  if (!has_rows(l, &w, &inner, &columns) && !has_rows(l, &w, &columns, &inner)) {
    matrix_copy(l, &w, places, &inner, &columns);
  }
  const bool transposed = !has_rows(l, &w, &inner, &columns);
  Grouped grouped = {.type = graph_value(l->graph, a.value)->type,
                     .type_c = graph_value(l->graph, c->value)->type,
                     .tf32 = matrix_tf32(l, &a),
                     .transpose_b = transposed,
                     .write = write,
                     .leaves = node->integer != 0 && write == WRITE_STORE,
                     .rows = graph_elements(l->graph, rows),
                     .extent = extent(l, node->axis),
                     .m = 1,
                     .n = n,
                     .k = k};
  grouped.block = grouped.rows / graph_elements(l->graph, graph_shape(l->graph, chosen));
  grouped.lda = leads(l, &a, &rows, &inner);
  grouped.ldb = transposed ? leads(l, &w, &columns, &inner) : leads(l, &w, &inner, &columns);
  grouped.ldc = leads(l, c, &rows, &columns);
  grouped.stride = between(l, &w, node->axis, transposed ? n * grouped.ldb : k * grouped.ldb);
  grouped.a = place_of(l, &a.storage);
  grouped.b = place_of(l, &w.storage);
  grouped.c = place_of(l, &c->storage);
  grouped.chosen = place_of(l, storage_of(l, chosen));
  new_grouped(l, node, INSTRUCTION_GROUPED, &grouped);
}

// The result with rows and columns that a product can write: itself, or what is copied to it afterwards.
static bool made_apart(Lower *l, Matrix *c, const Shape *outer, const Shape *rows, const Shape *columns) {
  if (has_rows(l, c, rows, columns)) {
    return false;
  }
  const Shape order = shape_union(shape_union(*outer, rows), columns);
  *c = (Matrix){
      .value = c->value, .storage = dense_storage(l, order, type_bytes(l, c->value)), .shape = order, .scale = -1};
  return true;
}

static void copy_back(Lower *l, const Matrix *made, const Matrix *c, WriteMode write) {
  Storage to = c->storage;
  for (int i = 0; i < made->shape.count; i++) {
    to.stride[i] = c->storage.stride[shape_find(&c->shape, made->shape.axis[i])];
  }
  lower_copy(l, made->shape, graph_value(l->graph, c->value)->type, &made->storage, &to, write);
}

void lower_chosen_dot(Lower *l, const Node *node) {
  const Matrix c = matrix_of(l, node->first_result), a = matrix_of(l, node->operands[0]);
  const Shape rows = rows_of(l, node, &a, 0);
  Shape columns = shape_minus(c.shape, &rows);
  Matrix made = c;
  matrix_sort(l, &c, &columns);
  const WriteMode write = matrix_write_mode(l, node->first_result);
  const bool apart = made_apart(l, &made, &(Shape){0}, &rows, &columns);
  if (node->integer) {
    poison_blocks(l, node);
  }
  for (int i = 0; i < node->operand_count / 2; i++) {
    multiply(l, node, i, &made, i ? WRITE_ADD : apart ? WRITE_STORE : write);
  }
  if (apart) {
    copy_back(l, &made, &c, write);
  }
}

void lower_chosen_sum(Lower *l, const Node *node) {
  Matrix a = matrix_of(l, node->operands[0]), b = matrix_of(l, node->operands[1]);
  const Matrix c = matrix_of(l, node->first_result);
  const ValueId chosen = node->operands[2];
  const Shape blocks = graph_shape(l->graph, chosen), of = shape_minus(a.shape, &node->axes);  // these may lie ahead
  const Shape rows = shape_union(blocks, &of), places = shape_of(node->axis);
  Shape m = shape_common(node->axes, &a.shape), n = shape_common(node->axes, &b.shape);
  matrix_sort(l, &c, &m);
  matrix_sort(l, &c, &n);
  if (!has_rows(l, &c, &m, &n) && has_rows(l, &c, &n, &m)) {  // it is stored the other way round
    const Matrix swap = a;
    const Shape other = m;
    a = b;
    b = swap;
    m = n;
    n = other;
  }
  Matrix made = c;
  const WriteMode write = matrix_write_mode(l, node->first_result);
  const bool apart = made_apart(l, &made, &places, &m, &n);
  if (!has_rows(l, &a, &rows, &m)) {
    matrix_copy(l, &a, (Shape){0}, &rows, &m);
  }
  if (!has_rows(l, &b, &rows, &n)) {
    matrix_copy(l, &b, (Shape){0}, &rows, &n);
  }
  Grouped grouped = {.type = graph_value(l->graph, a.value)->type,
                     .type_c = graph_value(l->graph, c.value)->type,
                     .tf32 = matrix_tf32(l, &a),
                     .write = apart ? WRITE_STORE : write,
                     .rows = graph_elements(l->graph, rows),
                     .extent = extent(l, node->axis),
                     .m = graph_elements(l->graph, m),
                     .n = graph_elements(l->graph, n),
                     .k = 1};
  grouped.block = grouped.rows / graph_elements(l->graph, graph_shape(l->graph, chosen));
  grouped.lda = leads(l, &a, &rows, &m);
  grouped.ldb = leads(l, &b, &rows, &n);
  grouped.ldc = leads(l, &made, &m, &n);
  grouped.stride = between(l, &made, node->axis, grouped.m * grouped.ldc);
  grouped.a = place_of(l, &a.storage);
  grouped.b = place_of(l, &b.storage);
  grouped.c = place_of(l, &made.storage);
  grouped.chosen = place_of(l, storage_of(l, chosen));
  new_grouped(l, node, INSTRUCTION_GROUPED_SUM, &grouped);
  if (apart) {
    copy_back(l, &made, &c, write);
  }
}

// The positions one after the other, as they are numbered.
void lower_order(Lower *l, const Node *node) {
  Matrix index = matrix_of(l, node->operands[0]);
  Shape positions = node->axes;
  positions.count -= 2;
  if (!is_dense(l, &index, &positions)) {
    matrix_copy(l, &index, (Shape){0}, &positions, &(Shape){0});
  }
  const Shape from = graph_shape(l->graph, node->first_result + 1);
  Order order = {.count = graph_elements(l->graph, positions),
                 .extent = extent(l, node->axis),
                 .capacity = graph_elements(l->graph, from),
                 .block = extent(l, from.axis[1]),
                 .index = place_of(l, &index.storage)};
  const Matrix place = matrix_of(l, node->first_result);
  Matrix made = place;
  const bool apart = made_apart(l, &made, &(Shape){0}, &(Shape){0}, &positions);
  order.place = place_of(l, &made.storage);
  order.from = place_of(l, storage_of(l, node->first_result + 1));
  order.chosen = place_of(l, storage_of(l, node->first_result + 2));
  Instruction *instruction = new_instruction(l, INSTRUCTION_ORDER);
  instruction->as.order = order;
  instruction->bytes = 4.0 * (2 * (double)order.count + (double)order.capacity);
  if (apart) {
    copy_back(l, &made, &place, WRITE_STORE);
  }
}
