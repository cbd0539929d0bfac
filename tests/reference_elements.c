// reference_elements.c: one element of the result of each op that has a formula for it.
#include <math.h>
#include <string.h>

#include "kernels/cpu/random.h"
#include "tests/reference_points.h"

// --- elementwise ops ---

static double wrap(int64_t number) {  // 32-bit arithmetic
  return (double)(int32_t)(uint32_t)(uint64_t)number;
}

static double int_binary(Op op, int64_t a, int64_t b) {
  switch (op) {
    case OP_ADD:
      return wrap(a + b);
    case OP_SUB:
      return wrap(a - b);
    case OP_MUL:
      return wrap(a * b);
    case OP_DIV:
      return b == 0 ? 0 : wrap((a - ((a % b) + b) % b) / b);
    case OP_MOD:
      return b == 0 ? 0 : wrap(((a % b) + b) % b);
    case OP_MAX:
      return wrap(a > b ? a : b);
    case OP_MIN:
      return wrap(a < b ? a : b);
    case OP_LESS:
      return a < b;
    case OP_LESS_EQUAL:
      return a <= b;
    case OP_EQUAL:
      return a == b;
    case OP_AND:
      return a && b;
    case OP_OR:
      return a || b;
    default:
      return NAN;
  }
}

static double real_binary(Op op, double a, double b) {
  switch (op) {
    case OP_ADD:
      return a + b;
    case OP_SUB:
      return a - b;
    case OP_MUL:
      return a * b;
    case OP_DIV:
      return a / b;
    case OP_MAX:
      return a > b ? a : b;
    case OP_MIN:
      return a < b ? a : b;
    case OP_POW:
      return pow(a, b);
    case OP_LESS:
      return a < b;
    case OP_LESS_EQUAL:
      return a <= b;
    case OP_EQUAL:
      return a == b;
    default:
      return NAN;
  }
}

static double unary(Op op, double a) {
  switch (op) {
    case OP_NEG:
      return -a;
    case OP_ABS:
      return fabs(a);
    case OP_SIGN:
      return (a > 0) - (a < 0);
    case OP_FLOOR:
    case OP_TO_INT:
      return floor(a);
    case OP_POWER_OF_TWO:
      return a - a != 0 || (a >= 0 && a <= 0) ? a : copysign(exp2(ceil(log2(fabs(a)))), a);
    case OP_EXP:
      return exp(a);
    case OP_LOG:
      return log(a);
    case OP_SQRT:
      return sqrt(a);
    case OP_RSQRT:
      return 1 / sqrt(a);
    case OP_RECIPROCAL:
      return 1 / a;
    case OP_SIN:
      return sin(a);
    case OP_COS:
      return cos(a);
    case OP_TANH:
      return tanh(a);
    case OP_SIGMOID:
      return 1 / (1 + exp(-a));
    case OP_ERF:
      return erf(a);
    case OP_IS_FINITE:
      return isfinite(a) != 0;
    case OP_NOT:
      return a == 0;
    default:  // the value itself: to_real, as_index, stop, broadcast, copy, cast (of which no rounding is expected)
      return a;
  }
}

// The nearest number of a format of 8 bits, of two equally near ones the one with an even mantissa; the largest there
// is.
static double quantised(const char *format, double x) {
  const bool e4m3 = strcmp(format, "e4m3") == 0;
  const double largest = e4m3 ? 448 : 57344;
  int exponent;
  frexp(x, &exponent);
  const int least = e4m3 ? -6 : -14, power = exponent - 1 < least ? least : exponent - 1;
  const double step = ldexp(1, power - (e4m3 ? 3 : 2)), rounded = nearbyint(x / step) * step;
  return isnan(x) ? x : fabs(x) >= largest ? copysign(largest, x) : rounded;
}

static bool knows_unary(Op op) {
  return (op >= OP_NEG && op <= OP_IS_FINITE) || op == OP_NOT || op == OP_TO_REAL || op == OP_TO_INT ||
         op == OP_AS_INDEX || op == OP_CAST || op == OP_BROADCAST || op == OP_STOP || op == OP_COPY;
}

static double elementwise(const Reference *r, const Node *node, Point point) {
  double a = read(r, node, 0, point);
  if (node->operand_count == 1) {
    return unary(node->op, a);
  }
  double b = read(r, node, 1, point);
  if (node->op == OP_QUANTISE) {
    return quantised(node->text, a * (double)(float)(1 / b));
  }
  if (node->op == OP_WHERE) {
    return a != 0 ? b : read(r, node, 2, point);
  }
  bool real = element_type_floating(graph_value(r->graph, node->operands[0])->type);
  return real ? real_binary(node->op, a, b) : int_binary(node->op, (int64_t)a, (int64_t)b);
}

// --- constants and random numbers ---

// A coordinate in the whole batch, of which a microbatch is a part.
static int64_t whole_coordinate(const Reference *r, AxisId id, Point point) {
  const Axis *axis = &r->graph->axes.at[id];
  return point.at[id] + (axis->global > axis->size ? r->slot * axis->size : 0);
}

static double random_element(const Reference *r, const Node *node, Point point) {
  uint64_t index = 0;
  for (int i = 0; i < node->axes.count; i++) {
    const AxisId axis = node->axes.axis[i];
    index = index * (uint64_t)r->graph->axes.at[axis].global + (uint64_t)whole_coordinate(r, axis, point);
  }
  uint32_t step = (uint32_t)(int32_t)r->values[node->operands[0]].data[0];
  uint32_t words[4] = {(uint32_t)(index / 4), (uint32_t)(index / 4 >> 32), step, 0};
  philox(words, (uint64_t)node->integer);
  if (node->op == OP_UNIFORM) {
    return (words[index % 4] >> 8) / 16777216.0;
  }
  const uint32_t *pair = &words[index % 4 < 2 ? 0 : 2];
  double radius = sqrt(-2 * log((pair[0] + 1.0) / 4294967296.0)),
         angle = 2 * 3.14159265358979323846 * pair[1] / 4294967296.0;
  return radius * (index % 2 ? sin(angle) : cos(angle));
}

static double source_element(const Reference *r, const Node *node, Point point) {
  switch (node->op) {
    case OP_CONST:
      return node->number;
    case OP_INTEGER:
      return (double)node->integer;
    case OP_POSITION:
      return (double)whole_coordinate(r, node->axis, point);
    default:
      return random_element(r, node, point);
  }
}

// --- ops that move things: what they read at a coordinate of the result ---

static int64_t flatten(const Reference *r, const Shape *axes, Point point) {
  int64_t at = 0;
  for (int i = 0; i < axes->count; i++) {
    at = at * size_of(r, axes->axis[i]) + point.at[axes->axis[i]];
  }
  return at;
}

static void unflatten(const Reference *r, const Shape *axes, int64_t at, Point point) {
  for (int i = axes->count - 1; i >= 0; i--) {
    point.at[axes->axis[i]] = at % size_of(r, axes->axis[i]);
    at /= size_of(r, axes->axis[i]);
  }
}

static double concat_element(const Reference *r, const Node *node, Point point) {
  int64_t at = point.at[node->axis2];
  for (int i = 0; i < node->operand_count; i++) {
    int64_t size = size_of(r, node->axes.axis[i]);
    if (at < size) {
      point.at[node->axes.axis[i]] = at;
      return read(r, node, i, point);
    }
    at -= size;
  }
  return NAN;
}

static double fold_element(const Reference *r, const Node *node, Point point) {
  int64_t at = point.at[node->axis], taps = size_of(r, node->axis2);
  long double sum = 0;
  for (int64_t tap = 0; tap < taps; tap++) {
    int64_t from = at - tap + taps - 1;
    if (from >= 0 && from < size_of(r, node->axis)) {
      point.at[node->axis] = from;
      point.at[node->axis2] = tap;
      sum += read(r, node, 0, point);
    }
  }
  return (double)sum;
}

// May change coordinates of `point`, which is a copy.
static double moved_element(const Reference *r, const Node *node, Point point) {
  int64_t at;
  switch (node->op) {
    case OP_RENAME:
      point.at[node->axis] = point.at[node->axis2];
      break;
    case OP_SPLIT:
      point.at[node->axis] = flatten(r, &node->axes, point);
      break;
    case OP_MERGE:
      unflatten(r, &node->axes, point.at[node->axis2], point);
      break;
    case OP_SLICE:
      point.at[node->axis] = node->integer + (node->axis2 < 0 ? 0 : point.at[node->axis2]);
      break;
    case OP_PAD:
      at = point.at[node->axis2] - node->integer;
      if (at < 0 || at >= (node->axis < 0 ? 1 : size_of(r, node->axis))) {
        return 0;
      }
      if (node->axis >= 0) {
        point.at[node->axis] = at;
      }
      break;
    case OP_WINDOW:
      at = point.at[node->axis] + point.at[node->axis2] - (size_of(r, node->axis2) - 1);
      if (at < 0) {
        return 0;
      }
      point.at[node->axis] = at;
      break;
    case OP_TAKE:
      at = (int64_t)read(r, node, 1, point);
      if (at < 0 || at >= size_of(r, node->axis)) {
        return 0;
      }
      point.at[node->axis] = at;
      break;
    case OP_CONCAT:
      return concat_element(r, node, point);
    default:
      return fold_element(r, node, point);
  }
  return read(r, node, 0, point);
}

static bool knows_moved(Op op) {
  return op == OP_RENAME || op == OP_SPLIT || op == OP_MERGE || op == OP_SLICE || op == OP_PAD || op == OP_WINDOW ||
         op == OP_TAKE || op == OP_CONCAT || op == OP_FOLD;
}

// --- reductions and products ---

static double reduced_element(const Reference *r, const Node *node, Point point) {
  long double sum = 0;
  double least = INFINITY, most = -INFINITY;
  FOR_POINTS(r, point, &node->axes) {
    double x = read(r, node, 0, point);
    sum += x;
    least = x < least ? x : least;
    most = x > most ? x : most;
  }
  return node->op == OP_SUM ? (double)sum : node->op == OP_REDUCE_MAX ? most : least;
}

// How far apart the elements of an operand are along an axis: 0 where it lacks that.
static int64_t step_of(const Reference *r, const Node *node, int operand, AxisId axis) {
  const Shape *shape = &r->values[node->operands[operand]].shape;
  int64_t step = 1;
  for (int i = shape->count - 1; i >= 0; i--) {
    if (shape->axis[i] == axis) {
      return step;
    }
    step *= size_of(r, shape->axis[i]);
  }
  return 0;
}

// Along the last axis in steps, in the order of FOR_POINTS: most of the time of many tests is spent here.
static long double plain_product(const Reference *r, const Node *node, int a, int b, const Shape *over, Point point) {
  Shape outer = *over;
  const AxisId last = over->axis[--outer.count];
  const int64_t size = size_of(r, last), x_step = step_of(r, node, a, last), y_step = step_of(r, node, b, last);
  long double sum = 0;
  FOR_POINTS(r, point, &outer) {
    point.at[last] = 0;
    const double *x = element(r, &r->values[node->operands[a]], point);
    const double *y = element(r, &r->values[node->operands[b]], point);
    for (int64_t i = 0; i < size; i++) {
      sum += (long double)x[i * x_step] * y[i * y_step];
    }
  }
  return sum;
}

long double reference_product(const Reference *r, const Node *node, int a, int b, const Shape *over, Point point) {
  const int last = node->operand_count - 1;
  const bool scaled = node->op == OP_SCALED_DOT || node->op == OP_SCALED_DOTS || node->op == OP_SCALED_DOT_SUM ||
                      node->op == OP_SCALED_BIASED_DOTS;
  if (!scaled && over->count > 0) {
    return plain_product(r, node, a, b, over, point);
  }
  long double sum = 0;
  FOR_POINTS(r, point, over) {
    const double scale = scaled ? read(r, node, last - 1, point) * read(r, node, last, point) : 1;
    sum += (long double)read(r, node, a, point) * read(r, node, b, point) * scale;
  }
  return sum;
}

static double dot_sum_element(const Reference *r, const Node *node, Point point) {
  long double sum = 0;
  const int end = node->operand_count - (node->op == OP_SCALED_DOT_SUM ? 2 : 0);
  for (int i = 0; i + 1 < end; i += 2) {
    Shape a = graph_shape(r->graph, node->operands[i]), b = graph_shape(r->graph, node->operands[i + 1]);
    Shape over = shape_common(a, &b);
    over = shape_minus(over, &node->axes);
    sum += reference_product(r, node, i, i + 1, &over, point);
  }
  return (double)sum;
}

// Of the matrix that is chosen here; an index outside chooses none.
static double chosen_dot_element(const Reference *r, const Node *node, Point point) {
  const int64_t at = (int64_t)read(r, node, 2, point);
  if (at < 0 || at >= size_of(r, node->axis)) {
    return 0;
  }
  point.at[node->axis] = at;
  return (double)reference_product(r, node, 0, 1, &node->axes, point);
}

static double chosen_dots_element(const Reference *r, const Node *node, Point point) {
  const int64_t at = (int64_t)read(r, node, node->operand_count - 1, point);
  double sum = 0;
  for (int i = 0; i + 1 < node->operand_count && at >= 0 && at < size_of(r, node->axis); i += 2) {
    const Shape a = graph_shape(r->graph, node->operands[i]), w = graph_shape(r->graph, node->operands[i + 1]);
    Shape over = shape_common(w, &a);
    over = shape_minus(over, &node->axes);
    point.at[node->axis] = at;
    sum += (double)reference_product(r, node, i, i + 1, &over, point);
  }
  return sum;
}

static double take_sum_element(const Reference *r, const Node *node, Point point) {
  long double sum = 0;
  FOR_POINTS(r, point, &node->axes) {
    const int64_t at = (int64_t)read(r, node, 1, point);
    point.at[node->axis] = at;
    sum += at >= 0 && at < size_of(r, node->axis) ? read(r, node, 0, point) : 0;
  }
  return (double)sum;
}

static double inside_element(const Reference *r, const Node *node, Point point) {
  const double at = read(r, node, 1, point);
  return at >= 0 && at < (double)size_of(r, node->axis) ? read(r, node, 0, point) : 0;
}

// Over all positions, of which each adds to the place that it chooses.
static double chosen_sum_element(const Reference *r, const Node *node, Point point) {
  const int64_t here = point.at[node->axis];
  Shape over = graph_shape(r->graph, node->operands[2]);
  for (int i = 0; i < 2; i++) {
    const Shape shape = graph_shape(r->graph, node->operands[i]);
    over = shape_union(over, &shape);
  }
  over = shape_minus(over, &node->axes);
  long double sum = 0;
  FOR_POINTS(r, point, &over) {
    const bool chosen = (int64_t)read(r, node, 2, point) == here;
    sum += chosen ? (long double)read(r, node, 0, point) * read(r, node, 1, point) : 0;
  }
  return (double)sum;
}

bool reference_knows(Op op) {
  return knows_unary(op) || knows_moved(op) || (op >= OP_CONST && op <= OP_POW && op != OP_COORDINATE) ||
         (op >= OP_LESS && op <= OP_WHERE) || op == OP_SUM || op == OP_REDUCE_MAX || op == OP_REDUCE_MIN ||
         op == OP_DOT || op == OP_SCALED_DOT || op == OP_DOT_SUM || op == OP_SCALED_DOT_SUM || op == OP_QUANTISE ||
         op == OP_CHOSEN_DOT || op == OP_CHOSEN_SUM || op == OP_INSIDE || op == OP_TAKE_SUM || op == OP_CHOSEN_DOTS;
}

double reference_element(const Reference *r, const Node *node, Point point) {
  if (knows_moved(node->op)) {
    memcpy(r->scratch.at, point.at, sizeof(int64_t) * (size_t)r->graph->axes.count);
    return moved_element(r, node, r->scratch);
  }
  switch (node->op) {
    case OP_SUM:
    case OP_REDUCE_MAX:
    case OP_REDUCE_MIN:
      return reduced_element(r, node, point);
    case OP_DOT:
    case OP_SCALED_DOT:
      return (double)reference_product(r, node, 0, 1, &node->axes, point);
    case OP_DOT_SUM:
    case OP_SCALED_DOT_SUM:
      return dot_sum_element(r, node, point);
    case OP_CHOSEN_DOT:
      memcpy(r->scratch.at, point.at, sizeof(int64_t) * (size_t)r->graph->axes.count);
      return chosen_dot_element(r, node, r->scratch);
    case OP_CHOSEN_DOTS:
      memcpy(r->scratch.at, point.at, sizeof(int64_t) * (size_t)r->graph->axes.count);
      return chosen_dots_element(r, node, r->scratch);
    case OP_TAKE_SUM:
      memcpy(r->scratch.at, point.at, sizeof(int64_t) * (size_t)r->graph->axes.count);
      return take_sum_element(r, node, r->scratch);
    case OP_INSIDE:
      return inside_element(r, node, point);
    case OP_CHOSEN_SUM:
      return chosen_sum_element(r, node, point);
    case OP_CONST:
    case OP_INTEGER:
    case OP_POSITION:
    case OP_UNIFORM:
    case OP_NORMAL:
      return source_element(r, node, point);
    default:
      return elementwise(r, node, point);
  }
}
