// reference.c: evaluates graphs op by op, one loop over named coordinates each.
#include "tests/reference.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/random.h"
#include "tests/reference_elements.h"

static int64_t size_of(const Reference *r, AxisId axis) {
  return r->graph->axes.at[axis].size;
}

int64_t tensor_elements(const Graph *graph, const Tensor *tensor) {
  return graph_elements(graph, tensor->shape);
}

static void point_start(Point point, const Shape *shape) {
  for (int i = 0; i < shape->count; i++) {
    point.at[shape->axis[i]] = 0;
  }
}

// The next coordinate in row-major order; false after the last.
static bool point_next(const Reference *r, Point point, const Shape *shape) {
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

static double *element(const Reference *r, const Tensor *tensor, Point point) {
  int64_t at = 0;
  for (int i = 0; i < tensor->shape.count; i++) {
    at = at * size_of(r, tensor->shape.axis[i]) + point.at[tensor->shape.axis[i]];
  }
  return &tensor->data[at];
}

static double read(const Reference *r, const Node *node, int operand, Point point) {
  return *element(r, &r->values[node->operands[operand]], point);
}

static Tensor *define(Reference *r, ValueId value) {
  Tensor *tensor = &r->values[value];
  if (!tensor->data) {
    tensor->shape = graph_shape(r->graph, value);
    tensor->data = ARENA_ARRAY(r->arena, double, graph_elements(r->graph, tensor->shape) + 1);
  }
  return tensor;
}

static void fail(Reference *r, const char *what, const char *name) {
  if (!r->wrong) {
    r->wrong = arena_format(r->arena, "%s '%s'", what, name ? name : "");
  }
}

// --- elementwise ops ---

static double elementwise(const Reference *r, const Node *node, Point point) {
  double a = read(r, node, 0, point);
  if (node->operand_count == 1) {
    return unary(node->op, a);
  }
  double b = read(r, node, 1, point);
  if (node->op == OP_WHERE) {
    return a != 0 ? b : read(r, node, 2, point);
  }
  bool real = element_type_floating(graph_value(r->graph, node->operands[0])->type);
  return real ? real_binary(node->op, a, b) : int_binary(node->op, (int64_t)a, (int64_t)b);
}

// --- leaves and random numbers ---

static double random_element(const Reference *r, const Node *node, Point point) {
  uint64_t index = 0;
  for (int i = 0; i < node->axes.count; i++) {  // of the whole batch, of which a microbatch is a part
    const Axis *axis = &r->graph->axes.at[node->axes.axis[i]];
    int64_t before = axis->global > axis->size ? r->slot * axis->size : 0;
    index = index * (uint64_t)axis->global + (uint64_t)(before + point.at[node->axes.axis[i]]);
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

static const NamedTensor *find(const NamedTensor *list, int count, const char *name) {
  for (int i = 0; i < count; i++) {
    if (strcmp(list[i].name, name) == 0) {
      return &list[i];
    }
  }
  return NULL;
}

static void run_leaf(Reference *r, const Node *node) {
  const NamedTensor *given = find(r->given.at, r->given.count, node->text);
  if (!given) {
    fail(r, "no data for", node->text);
    return;
  }
  Shape shape = graph_shape(r->graph, node->first_result);
  if (!shape_same_set(&shape, &given->tensor.shape)) {
    fail(r, "data with other axes for", node->text);
    return;
  }
  Tensor *to = define(r, node->first_result), from = given->tensor;
  from.data += node->op == OP_INPUT ? r->slot * graph_elements(r->graph, from.shape) : 0;
  Point point = r->point;
  FOR_POINTS(r, point, &to->shape) {
    *element(r, to, point) = *element(r, &from, point);
  }
}

static double source_element(const Reference *r, const Node *node, Point point) {
  switch (node->op) {
    case OP_CONST:
      return node->number;
    case OP_INTEGER:
      return (double)node->integer;
    case OP_POSITION:
      return (double)point.at[node->axis];
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

static long double product_sum(const Reference *r, const Node *node, int a, int b, const Shape *over, Point point) {
  long double sum = 0;
  FOR_POINTS(r, point, over) {
    sum += (long double)read(r, node, a, point) * read(r, node, b, point);
  }
  return sum;
}

static double dot_sum_element(const Reference *r, const Node *node, Point point) {
  long double sum = 0;
  for (int i = 0; i + 1 < node->operand_count; i += 2) {
    Shape a = graph_shape(r->graph, node->operands[i]), b = graph_shape(r->graph, node->operands[i + 1]);
    Shape over = shape_common(a, &b);
    over = shape_minus(over, &node->axes);
    sum += product_sum(r, node, i, i + 1, &over, point);
  }
  return (double)sum;
}

static void run_dots(Reference *r, const Node *node) {
  for (int i = 0; i < node->result_count; i++) {
    Tensor *to = define(r, node->first_result + i);
    FOR_POINTS(r, r->point, &to->shape) {
      const double bias = node->op == OP_BIASED_DOTS ? read(r, node, 1 + node->result_count + i, r->point) : 0;
      *element(r, to, r->point) = (double)product_sum(r, node, 0, i + 1, &node->axes, r->point) + bias;
    }
  }
}

static void run_put(Reference *r, const Node *node) {
  Tensor *to = define(r, node->first_result);
  memset(to->data, 0, sizeof(double) * (size_t)tensor_elements(r->graph, to));
  Shape space = graph_shape(r->graph, node->operands[0]), index = graph_shape(r->graph, node->operands[1]);
  Shape rest = to->shape;
  shape_remove(&rest, node->axis);
  space = shape_union(shape_union(space, &index), &rest);
  Point point = r->point;
  FOR_POINTS(r, point, &space) {
    int64_t at = (int64_t)read(r, node, 1, point);
    if (at >= 0 && at < size_of(r, node->axis)) {
      double g = read(r, node, 0, point);
      point.at[node->axis] = at;
      *element(r, to, point) += g;
    }
  }
}

// --- packs, effects and regions ---

// The coordinates of one part of a pack in an order that only its set of axes decides.
static Shape pack_order(Shape shape) {
  for (int i = 1; i < shape.count; i++) {
    for (int j = i; j > 0 && shape.axis[j - 1] > shape.axis[j]; j--) {
      AxisId axis = shape.axis[j];
      shape.axis[j] = shape.axis[j - 1];
      shape.axis[j - 1] = axis;
    }
  }
  return shape;
}

static void run_pack(Reference *r, const Node *node) {
  Tensor *to = define(r, node->first_result);
  Point point = r->point;
  int64_t at = 0;
  for (int i = 0; i < node->operand_count; i++) {
    Shape order = pack_order(graph_shape(r->graph, node->operands[i]));
    FOR_POINTS(r, point, &order) {
      to->data[at++] = read(r, node, i, point);
    }
  }
}

static void run_part(Reference *r, const Node *node) {
  const Node *pack = graph_producer(r->graph, node->operands[0]);
  const Tensor *from = &r->values[node->operands[0]];
  int64_t at = 0;
  for (int i = 0; i < node->integer; i++) {
    at += graph_elements(r->graph, graph_shape(r->graph, pack->operands[i]));
  }
  Tensor *to = define(r, node->first_result);
  Shape order = pack_order(to->shape);
  Point point = r->point;
  FOR_POINTS(r, point, &order) {
    *element(r, to, point) = from->data[at++];
  }
}

static void assign_leaf(Reference *r, ValueId target, const Tensor *value) {
  const Node *leaf = graph_producer(r->graph, target);
  NamedTensor made = {leaf->text, {graph_shape(r->graph, target), NULL}};
  made.tensor.data = ARENA_ARRAY(r->arena, double, tensor_elements(r->graph, &made.tensor) + 1);
  Point point = r->point;
  FOR_POINTS(r, point, &made.tensor.shape) {
    *element(r, &made.tensor, point) = *element(r, value, point);
  }
  array_push(r->arena, &r->assigned, made);
}

static void run_assign(Reference *r, const Node *node) {
  const Node *target = graph_producer(r->graph, node->operands[0]);
  const Tensor *value = &r->values[node->operands[1]];
  if (target->op != OP_PACK) {
    assign_leaf(r, node->operands[0], value);
    return;
  }
  int64_t at = 0;
  for (int i = 0; i < target->operand_count; i++) {
    Tensor part = {pack_order(graph_shape(r->graph, target->operands[i])), NULL};
    part.data = ARENA_ARRAY(r->arena, double, tensor_elements(r->graph, &part) + 1);
    for (int64_t j = 0; j < tensor_elements(r->graph, &part); j++) {
      part.data[j] = value->data[value->shape.count ? at++ : 0];
    }
    assign_leaf(r, target->operands[i], &part);
  }
}

static void run_region(Reference *r, RegionId id);

static void run_nested(Reference *r, const Node *node) {
  const Region *region = &r->graph->regions.at[node->region];
  int64_t times = node->op == OP_MICROBATCH ? node->integer : 1;
  for (int i = 0; i < region->parameters.count; i++) {
    r->values[region->parameters.at[i]] = r->values[node->operands[i]];
  }
  for (int64_t slot = 0; slot < times && !r->wrong; slot++) {
    int64_t before = r->slot;
    r->slot = node->op == OP_MICROBATCH ? slot : before;
    run_region(r, node->region);
    r->slot = before;
    for (int i = 0; i < node->result_count && !r->wrong; i++) {
      const Tensor *from = &r->values[region->results.at[i]];
      Tensor *to = define(r, node->first_result + i);
      Point point = r->point;
      FOR_POINTS(r, point, &to->shape) {
        double *sum = element(r, to, point);
        *sum = (slot ? *sum : 0) + *element(r, from, point);
      }
    }
  }
}

// What the body of `chunks` makes of one part of the rows.
static void keep_part(Reference *r, const Node *node, int result, int64_t part) {
  const Tensor *from = &r->values[r->graph->regions.at[node->region].results.at[result]];
  Tensor *to = define(r, node->first_result + result);
  AxisId each = node->axes.axis[0];
  bool stacked = shape_has(&to->shape, each), summed = !stacked && !shape_has(&to->shape, node->axis);
  Point point = r->point;
  FOR_POINTS(r, point, &from->shape) {
    point.at[each] = part;
    point.at[node->axis] = part * size_of(r, node->axis2) + point.at[node->axis2];
    double *out = element(r, to, point);
    *out = (summed && part ? *out : 0) + *element(r, from, point);
  }
}

static void run_chunks(Reference *r, const Node *node) {
  const Region *region = &r->graph->regions.at[node->region];
  for (int64_t part = 0; part < size_of(r, node->axes.axis[0]) && !r->wrong; part++) {
    for (int i = 0; i < region->parameters.count; i++) {
      const Tensor *whole = &r->values[node->operands[i]];
      Tensor *to = define(r, region->parameters.at[i]);
      Point point = r->point;
      FOR_POINTS(r, point, &to->shape) {
        point.at[node->axis] = part * size_of(r, node->axis2) + point.at[node->axis2];
        *element(r, to, point) = *element(r, whole, point);
      }
    }
    run_region(r, node->region);
    for (int i = 0; i < node->result_count && !r->wrong; i++) {
      keep_part(r, node, i, part);
    }
  }
}

static void run_elements(Reference *r, const Node *node) {
  Tensor *to = define(r, node->first_result);
  Point point = r->point, scratch = r->scratch;
  FOR_POINTS(r, point, &to->shape) {
    double x;
    if (knows_moved(node->op)) {
      memcpy(scratch.at, point.at, sizeof(int64_t) * (size_t)r->graph->axes.count);
      x = moved_element(r, node, scratch);
    } else if (node->op == OP_SUM || node->op == OP_REDUCE_MAX || node->op == OP_REDUCE_MIN) {
      x = reduced_element(r, node, point);
    } else if (node->op == OP_DOT) {
      x = (double)product_sum(r, node, 0, 1, &node->axes, point);
    } else if (node->op == OP_DOT_SUM) {
      x = dot_sum_element(r, node, point);
    } else if (op_leaf(node->op) || node->op == OP_UNIFORM || node->op == OP_NORMAL) {
      x = source_element(r, node, point);
    } else {
      x = elementwise(r, node, point);
    }
    *element(r, to, point) = x;
  }
}

static bool knows_elements(Op op) {
  return knows_unary(op) || knows_moved(op) || (op >= OP_CONST && op <= OP_POW) || (op >= OP_LESS && op <= OP_WHERE) ||
         op == OP_SUM || op == OP_REDUCE_MAX || op == OP_REDUCE_MIN || op == OP_DOT || op == OP_DOT_SUM;
}

static void run_node(Reference *r, const Node *node) {
  switch (node->op) {
    case OP_INPUT:
    case OP_PARAM:
    case OP_STATE:
      run_leaf(r, node);
      return;
    case OP_PUT:
      run_put(r, node);
      return;
    case OP_PART:
      run_part(r, node);
      break;
    case OP_PACK:
      run_pack(r, node);
      return;
    case OP_DOTS:
    case OP_BIASED_DOTS:
      run_dots(r, node);
      return;
    case OP_ASSIGN:
      run_assign(r, node);
      return;
    case OP_OUTPUT:
      array_push(r->arena, &r->outputs, ((NamedTensor){node->text, r->values[node->operands[0]]}));
      return;
    case OP_CHUNKS:
      run_chunks(r, node);
      return;
    case OP_COMPOSITE:
    case OP_MICROBATCH:
    case OP_SEGMENT:
    case OP_GROUP:
      run_nested(r, node);
      return;
    default:
      if (knows_elements(node->op)) {
        run_elements(r, node);
      } else {
        fail(r, "tests/reference.c does not know the op", op_name(node->op));
      }
  }
}

static void run_region(Reference *r, RegionId id) {
  const Region *region = &r->graph->regions.at[id];
  for (int i = 0; i < region->nodes.count && !r->wrong; i++) {
    run_node(r, graph_node(r->graph, region->nodes.at[i]));
  }
}

Reference *reference_create(Arena *arena, const Graph *graph) {
  Reference *r = ARENA_NEW(arena, Reference);
  r->arena = arena;
  r->graph = graph;
  r->values = ARENA_ARRAY(arena, Tensor, graph->values.count + 1);
  r->point.at = ARENA_ARRAY(arena, int64_t, graph->axes.count + 1);
  r->scratch.at = ARENA_ARRAY(arena, int64_t, graph->axes.count + 1);
  return r;
}

void reference_give(Reference *r, const char *name, Shape shape, const double *data) {
  NamedTensor given = {name, {shape, (double *)(uintptr_t)data}};
  for (int i = 0; i < r->given.count; i++) {
    if (strcmp(r->given.at[i].name, name) == 0) {
      r->given.at[i] = given;
      return;
    }
  }
  array_push(r->arena, &r->given, given);
}

bool reference_run(Reference *r) {
  r->outputs.count = r->assigned.count = 0;
  r->wrong = NULL;
  run_region(r, 0);
  return !r->wrong;
}

const Tensor *reference_output(const Reference *r, const char *name) {
  const NamedTensor *found = find(r->outputs.at, r->outputs.count, name);
  return found ? &found->tensor : NULL;
}

const Tensor *reference_assigned(const Reference *r, const char *name) {
  const NamedTensor *found = find(r->assigned.at, r->assigned.count, name);
  return found ? &found->tensor : NULL;
}

void reference_copy(const Reference *r, const Tensor *tensor, Shape shape, double *out) {
  Point point = r->point;
  int64_t at = 0;
  FOR_POINTS(r, point, &shape) {
    out[at++] = tensor->data ? *element(r, tensor, point) : 0;
  }
}
