// simplify.c: folds constants, merges equal operations, removes dead ones. Order of nodes is kept.
//
// Products with chosen matrices: choose.c. Needs nothing; keeps everything. `stop` disappears once gradients exist.
// Copies that the recompute pass made are never merged.
#include "compiler/rewrite/simplify.h"

#include <math.h>
#include <string.h>

#include "compiler/pass/compilation.h"
#include "compiler/rewrite/choose.h"
#include "compiler/rewrite/taps.h"

typedef ARRAY(uint64_t) NodeContent;

typedef struct {
  Graph *graph;
  ValueId *replace;
  int capacity;
  Map seen;             // the content of a node to the first like it
  NodeContent content;  // of the node at hand
  bool differentiated;
  bool chooses;  // products with chosen matrices are made: ahead of the gradients, which their rule knows
  bool apart;    // windows were taken apart, the pieces of which may be equal
  int kernels;   // around the region at hand
} Simplifier;

static ValueId follow(const Simplifier *s, ValueId value) {
  while (value < s->capacity && s->replace[value] >= 0) {
    value = s->replace[value];
  }
  return value;
}

static const Node *producer(const Simplifier *s, ValueId value, Op op) {
  const Node *node = graph_producer(s->graph, value);
  return node && node->op == op ? node : NULL;
}

static bool constant_of(const Simplifier *s, ValueId value, double *number) {
  const Node *node = producer(s, value, OP_CONST);
  if (node) {
    *number = node->number;
  }
  return node != NULL;
}

static bool fold_pair(Op op, double a, double b, double *out) {
  switch (op) {
    case OP_ADD:
      *out = a + b;
      return true;
    case OP_SUB:
      *out = a - b;
      return true;
    case OP_MUL:
      *out = a * b;
      return true;
    case OP_DIV:
      *out = a / b;
      return b != 0;
    case OP_MAX:
      *out = a > b ? a : b;
      return true;
    case OP_MIN:
      *out = a < b ? a : b;
      return true;
    default:
      return false;
  }
}

static void become_constant(Node *node, double number) {
  node->op = OP_CONST;
  node->operand_count = 0;
  node->number = number;
}

static bool same_shape(const Simplifier *s, ValueId a, ValueId b) {
  Shape x = graph_shape(s->graph, a), y = graph_shape(s->graph, b);
  return shape_same_set(&x, &y);
}

static bool is_neutral(Op op, int side, double number) {
  switch (op) {
    case OP_ADD:
      return number == 0;
    case OP_SUB:
      return number == 0 && side == 1;
    case OP_MUL:
      return number == 1;
    case OP_DIV:
      return number == 1 && side == 1;
    default:
      return false;
  }
}

// x + 0, x - 0, x * 1, x / 1: the other operand, where that has all the axes of the result.
static ValueId identity(Simplifier *s, const Node *node) {
  double number;
  for (int side = 0; side < 2; side++) {
    if (!constant_of(s, node->operands[side], &number) ||
        !same_shape(s, node->operands[1 - side], node->first_result)) {
      continue;
    }
    if (is_neutral(node->op, side, number)) {
      return node->operands[1 - side];
    }
  }
  return -1;
}

// (x * c1) * c2 becomes x * (c1 * c2).
static void gather_factors(Simplifier *s, Node *node) {
  double outer, inner;
  for (int side = 0; side < 2 && node->op == OP_MUL; side++) {
    const Node *product = producer(s, node->operands[1 - side], OP_MUL);
    if (!product || !constant_of(s, node->operands[side], &outer)) {
      continue;
    }
    for (int at = 0; at < 2; at++) {
      if (constant_of(s, product->operands[at], &inner)) {
        const Shape batch = graph_producer(s->graph, product->operands[at])->axes;
        NodeInit init = {NODE_INIT, .number = outer * inner};
        init.axes = shape_union(graph_producer(s->graph, node->operands[side])->axes, &batch);
        ValueId x = product->operands[1 - at];
        int id = (int)(node - s->graph->nodes.at);
        ValueId constant = graph_add0(s->graph, OP_CONST, init);
        node = graph_node(s->graph, id);
        node->operands[0] = x;
        node->operands[1] = constant;
        return;
      }
    }
  }
}

// An operand that is only repeated along axes which the other operands have anyway.
static void drop_broadcasts(Simplifier *s, Node *node) {
  if (!op_elementwise(node->op) || node->operand_count < 2) {
    return;
  }
  Shape result = graph_shape(s->graph, node->first_result);
  for (int i = 0; i < node->operand_count; i++) {
    const Node *broadcast = producer(s, node->operands[i], OP_BROADCAST);
    if (!broadcast) {
      continue;
    }
    Shape all = graph_shape(s->graph, broadcast->operands[0]);
    for (int j = 0; j < node->operand_count; j++) {
      Shape other = graph_shape(s->graph, node->operands[j]);
      all = j == i ? all : shape_union(all, &other);
    }
    if (shape_same_set(&all, &result)) {
      node->operands[i] = broadcast->operands[0];
    }
  }
}

static bool fold_unary_constant(Op op, double a, double *out) {
  switch (op) {
    case OP_NEG:
      *out = -a;
      return true;
    case OP_SQRT:
      *out = sqrt(a);
      return a >= 0;
    case OP_RECIPROCAL:
      *out = 1 / a;
      return a != 0;
    case OP_LOG:
      *out = log(a);
      return a > 0;
    case OP_EXP:
      *out = exp(a);
      return true;
    case OP_ABS:
      *out = fabs(a);
      return true;
    default:
      return false;
  }
}

bool simplify_number(Op op, const double *operands, int count, double *out) {
  return count == 1 ? fold_unary_constant(op, operands[0], out)
                    : count == 2 && fold_pair(op, operands[0], operands[1], out);
}

// An operation on values that are only repeated: do it once, then repeat the result.
static ValueId repeat_later(Simplifier *s, NodeId id) {
  Graph *graph = s->graph;
  Node *node = graph_node(graph, id);
  ValueId sources[3];
  Shape all = {0};
  bool any = false;
  if (!op_elementwise(node->op) || node->op == OP_BROADCAST || node->operand_count > 3) {
    return -1;
  }
  for (int i = 0; i < node->operand_count; i++) {
    const Node *broadcast = producer(s, node->operands[i], OP_BROADCAST);
    sources[i] = broadcast ? broadcast->operands[0] : node->operands[i];
    Shape shape = graph_shape(graph, sources[i]);
    all = shape_union(all, &shape);
    any |= broadcast != NULL;
  }
  Shape result = graph_shape(graph, node->first_result);
  if (!any || all.count >= result.count) {
    return -1;
  }
  NodeId small = graph_clone(graph, id, sources);
  Value *value = graph_value(graph, graph_node(graph, small)->first_result);
  Shape order = shape_common(result, &all);
  value->shape = order;
  double a, b, out;
  Node *made = graph_node(graph, small);
  bool folds = (made->operand_count == 1 && constant_of(s, sources[0], &a) && fold_unary_constant(made->op, a, &out)) ||
               (made->operand_count == 2 && constant_of(s, sources[0], &a) && constant_of(s, sources[1], &b) &&
                fold_pair(made->op, a, b, &out));
  if (folds && element_type_floating(value->type)) {
    become_constant(made, out);
  }
  ValueId first = made->first_result;
  return graph_add1(graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = result}, first);
}

// Returns the value that stands for the node's result, or -1 to keep the node.
static ValueId fold(Simplifier *s, NodeId id) {
  Node *node = graph_node(s->graph, id);
  double a, b, out;
  if (node->op == OP_STOP && s->differentiated) {
    return node->operands[0];
  }
  if (node->op == OP_BROADCAST && same_shape(s, node->operands[0], node->first_result)) {
    return node->operands[0];
  }
  if (node->op == OP_SUM && s->kernels == 0 &&
      producer(s, node->operands[0], OP_NEG)) {  // what is summed with both signs is one value
    const ValueId x = producer(s, node->operands[0], OP_NEG)->operands[0];
    return graph_op1(s->graph, OP_NEG, graph_add1(s->graph, OP_SUM, (NodeInit){NODE_INIT, .axes = node->axes}, x));
  }
  if (node->op == OP_TO_REAL && producer(s, node->operands[0], OP_INTEGER)) {
    become_constant(node, (double)producer(s, node->operands[0], OP_INTEGER)->integer);
    return -1;
  }
  if (node->op == OP_NEG && producer(s, node->operands[0], OP_NEG)) {
    return producer(s, node->operands[0], OP_NEG)->operands[0];
  }
  if (node->operand_count == 1 && constant_of(s, node->operands[0], &a) && fold_unary_constant(node->op, a, &out)) {
    become_constant(node, out);
    return -1;
  }
  ValueId later = repeat_later(s, id);
  if (later >= 0) {
    return later;
  }
  node = graph_node(s->graph, id);
  if (node->op == OP_DOT && s->chooses && s->kernels == 0) {
    const ValueId chosen = choose(s->graph, id);
    if (chosen >= 0) {
      return chosen;
    }
    node = graph_node(s->graph, id);
  }
  if ((node->op == OP_DOT || node->op == OP_FOLD) && s->differentiated && s->kernels == 0) {
    const ValueId sum = taps_apart(s->graph, id);
    s->apart |= sum >= 0;
    return sum;
  }
  drop_broadcasts(s, graph_node(s->graph, id));
  node = graph_node(s->graph, id);
  if (node->operand_count != 2 || !op_elementwise(node->op) ||
      !element_type_floating(graph_value(s->graph, node->first_result)->type)) {
    return -1;
  }
  if (constant_of(s, node->operands[0], &a) && constant_of(s, node->operands[1], &b) &&
      fold_pair(node->op, a, b, &out)) {
    become_constant(node, out);
    return -1;
  }
  ValueId same = identity(s, node);
  if (same < 0) {
    gather_factors(s, node);
  }
  return same;
}

// What an optimizer computes has formats of its own, whatever the forward computes alike.
static bool of_update(const Graph *graph, const Node *node) {
  const Value *result = graph_value(graph, node->first_result);
  return result->role == ROLE_UPDATE && element_type_floating(result->type) && node->operand_count > 0;
}

// All that the node computes from, where it stands and for whom.
static void node_content(const Graph *graph, const Node *node, RegionId region, NodeContent *content) {
  Arena *arena = graph->arena;
  bool commutes = node->op == OP_ADD || node->op == OP_MUL, swap = commutes && node->operands[0] > node->operands[1];
  uint64_t number;
  memcpy(&number, &node->number, sizeof number);
  const uint64_t head[] = {
      (uint64_t)node->op,    (uint64_t)region,           (uint64_t)node->operand_count, (uint64_t)node->axis,
      (uint64_t)node->axis2, (uint64_t)node->axes.count, (uint64_t)node->integer,       number,
      map_key(node->text),   of_update(graph, node)};
  content->count = 0;
  for (size_t i = 0; i < sizeof head / sizeof *head; i++) {
    array_push(arena, content, head[i]);
  }
  for (int i = 0; i < node->axes.count; i++) {
    array_push(arena, content, (uint64_t)node->axes.axis[i]);
  }
  for (int i = 0; i < node->operand_count; i++) {
    array_push(arena, content, (uint64_t)node->operands[swap ? 1 - i : i]);
  }
}

static bool mergeable(const Node *node) {
  return !node->recomputed && node->region < 0 && !op_effect(node->op) && !op_declared(node->op) &&
         node->result_count == 1;
}

static void keep_label(Graph *graph, ValueId kept, ValueId dropped) {
  Value *to = graph_value(graph, kept), *from = graph_value(graph, dropped);
  to->label = to->label ? to->label : from->label;
  to->name = to->name ? to->name : from->name;
  to->path = to->path ? to->path : from->path;
}

// What a microbatch gives of a tensor as it is stored is that, as often as there are microbatches.
static void give_stored(Simplifier *s, const Node *microbatch) {
  Graph *graph = s->graph;
  const Node node = *microbatch;
  for (int i = 0; i < node.result_count; i++) {
    const ValueId value = graph->regions.at[node.region].results.at[i];
    const Node *maker = graph_producer(graph, value);
    if (maker && op_stored(maker->op)) {
      const bool once = node.integer <= 1;
      s->replace[node.first_result + i] =
          once ? value : graph_op2(graph, OP_MUL, value, graph_real(graph, (double)node.integer));
    }
  }
}

static void simplify_region(Simplifier *s, RegionId region) {
  Graph *graph = s->graph;
  const Role role = graph->role;
  const NodeList old = graph_rewrite(graph, region);
  for (int i = 0; i < old.count; i++) {
    NodeId id = old.at[i];
    Node *node = graph_node(graph, id);
    for (int j = 0; j < node->operand_count; j++) {
      node->operands[j] = follow(s, node->operands[j]);
    }
    graph->span = node->span;
    graph->scope = node->scope;
    graph->backward = node->backward;
    graph->role = node->result_count > 0 ? graph_value(graph, node->first_result)->role : role;
    if (node->region >= 0) {
      RegionId inner = node->region;
      const int around = op_body(node->op) ? 0 : 1;
      s->kernels += around;
      simplify_region(s, inner);
      s->kernels -= around;
      graph->region = region;
    }
    if (graph_node(graph, id)->op == OP_MICROBATCH) {
      give_stored(s, graph_node(graph, id));
    }
    ValueId same = fold(s, id);
    node = graph_node(graph, id);
    if (same < 0 && mergeable(node)) {
      node_content(graph, node, region, &s->content);
      const size_t bytes = sizeof *s->content.at * (size_t)s->content.count;
      int64_t other = map_get_bytes_or(&s->seen, s->content.at, bytes, -1);
      if (other >= 0) {
        same = graph_node(graph, (NodeId)other)->first_result;
      } else {
        map_put_bytes(&s->seen, s->content.at, bytes, id);
      }
    }
    if (same >= 0) {
      keep_label(graph, same, node->first_result);
      s->replace[node->first_result] = same;
    } else {
      array_push(graph->arena, &graph->regions.at[region].nodes, id);
    }
  }
  graph->role = role;
  Region *done = &graph->regions.at[region];
  for (int i = 0; i < done->results.count; i++) {
    done->results.at[i] = follow(s, done->results.at[i]);
  }
}

void graph_replace_values(Graph *graph, const ValueId *replace) {
  for (int i = 0; i < graph->nodes.count; i++) {
    Node *node = graph_node(graph, i);
    for (int j = 0; j < node->operand_count; j++) {
      while (replace[node->operands[j]] >= 0) {
        node->operands[j] = replace[node->operands[j]];
      }
    }
  }
  for (int i = 0; i < graph->regions.count; i++) {
    ValueList *results = &graph->regions.at[i].results;
    for (int j = 0; j < results->count; j++) {
      while (replace[results->at[j]] >= 0) {
        results->at[j] = replace[results->at[j]];
      }
    }
  }
}

static void sweep(Graph *graph, RegionId region, bool *live) {
  NodeList *nodes = &graph->regions.at[region].nodes;
  bool *keep = ARENA_ARRAY(graph->arena, bool, nodes->count + 1);
  const ValueList *results = &graph->regions.at[region].results;
  for (int i = 0; i < results->count; i++) {
    live[results->at[i]] = true;
  }
  for (int i = nodes->count - 1; i >= 0; i--) {
    const Node *node = graph_node(graph, nodes->at[i]);
    keep[i] = op_effect(node->op) || op_body(node->op);
    for (int j = 0; j < node->result_count; j++) {
      keep[i] |= live[node->first_result + j];
    }
    if (!keep[i]) {
      continue;
    }
    for (int j = 0; j < node->operand_count; j++) {
      live[node->operands[j]] = true;
    }
    if (node->region >= 0) {
      sweep(graph, node->region, live);
    }
  }
  int count = 0;
  for (int i = 0; i < nodes->count; i++) {
    if (keep[i]) {
      nodes->at[count++] = nodes->at[i];
    }
  }
  nodes->count = count;
}

void graph_remove_dead(Graph *graph) {
  sweep(graph, 0, ARENA_ARRAY(graph->arena, bool, graph->values.count + 1));
}

static bool simplify_all(Compilation *c) {
  Graph *graph = c->graph;
  Simplifier s = {.graph = graph, .seen = map_create(c->arena), .differentiated = c->differentiated};
  s.chooses = !c->differentiated || c->program != PROGRAM_TRAIN;
  s.capacity = graph->values.count;
  s.replace = ARENA_ARRAY(c->arena, ValueId, s.capacity + 1);
  memset(s.replace, -1, sizeof *s.replace * (size_t)s.capacity);
  simplify_region(&s, 0);
  graph->region = 0;
  if (s.chooses) {
    choose_weights(graph);
  }
  graph_remove_dead(graph);
  return s.apart;
}

bool pass_simplify(Compilation *c) {
  if (simplify_all(c)) {
    simplify_all(c);
  }
  return true;
}
