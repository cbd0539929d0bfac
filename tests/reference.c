// reference.c: evaluates graphs node by node: leaves, effects, regions, and the ops that write a result as a whole.
#include "tests/reference.h"

#include <math.h>
#include <string.h>

#include "tests/reference_points.h"

int64_t tensor_elements(const Graph *graph, const Tensor *tensor) {
  return graph_elements(graph, tensor->shape);
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

// --- leaves ---

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

// --- products into several results, and sums into places ---

static void run_dots(Reference *r, const Node *node) {
  Point point = r->point;
  const bool biased = node->op == OP_BIASED_DOTS || node->op == OP_SCALED_BIASED_DOTS;
  for (int i = 0; i < node->result_count; i++) {
    Tensor *to = define(r, node->first_result + i);
    FOR_POINTS(r, point, &to->shape) {
      const double bias = biased ? read(r, node, 1 + node->result_count + i, point) : 0;
      const double product = (double)reference_product(r, node, 0, i + 1, &node->axes, point);
      *element(r, to, point) = product + bias;
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

// Place by place, and of each the positions in their order.
static void run_order(Reference *r, const Node *node) {
  const AxisId blocks = node->axes.axis[node->axes.count - 2], row = node->axes.axis[node->axes.count - 1];
  const int64_t block = size_of(r, row), rows = size_of(r, node->axis2);
  Tensor *place = define(r, node->first_result), *from = define(r, node->first_result + 1);
  Tensor *chosen = define(r, node->first_result + 2);
  Shape positions = node->axes;
  positions.count -= 2;
  Point point = r->point;
  FOR_POINTS(r, point, &positions) {
    *element(r, place, point) = -1;
  }
  for (int64_t i = 0; i < rows; i++) {
    point.at[blocks] = i / block;
    point.at[row] = i % block;
    *element(r, from, point) = *element(r, chosen, point) = -1;
  }
  int64_t next = 0;
  for (int64_t choice = 0; choice < size_of(r, node->axis); choice++) {
    int64_t position = 0;
    next = (next + block - 1) / block * block;
    FOR_POINTS(r, point, &positions) {
      const bool is = (int64_t)read(r, node, 0, point) == choice;
      if (is && next < rows) {
        *element(r, place, point) = (double)next;
        point.at[blocks] = next / block;
        point.at[row] = next % block;
        *element(r, from, point) = (double)position;
        *element(r, chosen, point) = (double)choice;
      }
      next += is;
      position++;
    }
  }
}

// The first positions of each choice keep it.
static void run_limit(Reference *r, const Node *node) {
  const int64_t places = size_of(r, node->axis), count = graph_elements(r->graph, node->axes);
  const int64_t most = (int64_t)ceil(node->number * (double)count / (double)places);
  int64_t *chosen = ARENA_ARRAY(r->arena, int64_t, places + 1);
  Tensor *to = define(r, node->first_result);
  Point point = r->point;
  memset(chosen, 0, sizeof *chosen * (size_t)places);
  FOR_POINTS(r, point, &node->axes) {
    const int64_t choice = (int64_t)read(r, node, 0, point);
    const bool keeps = choice >= 0 && choice < places && chosen[choice]++ < most;
    *element(r, to, point) = keeps ? (double)choice : -1;
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

// What is carried before position `to`, of what came out at the one before.
static void hand_on(Reference *r, const Node *node, int64_t to) {
  const Region *region = &r->graph->regions.at[node->region];
  for (int i = 0; i < region->parameters.count; i++) {
    const Tensor *from = to ? &r->values[region->results.at[i]] : &r->values[node->operands[i]];
    Tensor *before = define(r, region->parameters.at[i]);
    Point point = r->point;
    FOR_POINTS(r, point, &before->shape) {
      if (point.at[node->axis] == to) {
        double *at = element(r, before, point);
        point.at[node->axis] = to - 1;
        *at = *element(r, from, point);
        point.at[node->axis] = to;
      }
    }
  }
}

// The whole body again for each position, of which that position is right.
static void run_scan(Reference *r, const Node *node) {
  const Region *region = &r->graph->regions.at[node->region];
  for (int64_t t = 0; t < size_of(r, node->axis) && !r->wrong; t++) {
    hand_on(r, node, t);
    run_region(r, node->region);
  }
  for (int i = 0; i < node->result_count; i++) {
    r->values[node->first_result + i] = r->values[region->results.at[i]];
  }
}

static void run_elements(Reference *r, const Node *node) {
  Tensor *to = define(r, node->first_result);
  Point point = r->point;
  FOR_POINTS(r, point, &to->shape) {
    *element(r, to, point) = reference_element(r, node, point);
  }
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
    case OP_ORDER:
      run_order(r, node);
      return;
    case OP_LIMIT:
      run_limit(r, node);
      return;
    case OP_PART:
      run_part(r, node);
      break;
    case OP_PACK:
      run_pack(r, node);
      return;
    case OP_DOTS:
    case OP_SCALED_DOTS:
    case OP_BIASED_DOTS:
    case OP_SCALED_BIASED_DOTS:
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
    case OP_SCAN:
      run_scan(r, node);
      return;
    case OP_COMPOSITE:
    case OP_MICROBATCH:
    case OP_SEGMENT:
    case OP_GROUP:
      run_nested(r, node);
      return;
    default:
      if (reference_knows(node->op)) {
        run_elements(r, node);
      } else {
        fail(r, "the reference does not know the op", op_name(node->op));
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
