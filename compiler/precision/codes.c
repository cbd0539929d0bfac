// codes.c: frozen parameters as codes of 8 bits and scales.
//
// Of a weight that products read, each row along what they sum over has one scale, a power of two:
//   scale = the least power of two that is not smaller than the largest |w| of the row / 448
//   code  = w / scale in e4m3
// Scales are a persistent tensor of their own, `scale.layers.3.q.w`, with the axes that are left. They are derived as
// copies are: checkpoints hold code * scale, which 16 bits hold exactly, and from which the same numbers come back.
// Whoever reads the parameter reads code * scale, an operation as any other, that is made once in the forward and once
// again in the backward, so that nothing of it is kept.
#include "compiler/precision/codes.h"

#include "compiler/precision/quantise.h"

enum { IS_FROZEN = 1, OVER = 1 };  // in Compilation.frozen: the bit, and where the bits of the axes summed over begin

// --- which ---

static bool is_parameter(const Graph *graph, ValueId value) {
  const Node *leaf = graph_producer(graph, value);
  return leaf && leaf->op == OP_PARAM;
}

// By parameter, in bits by the place of an axis: over what products of the forward sum; 0: something else reads it, or
// they differ.
static void find_readers(const Compilation *c, RegionId region, Map *over, Map *bad) {
  const Graph *graph = c->graph;
  const NodeList *nodes = &graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (node->op == OP_MICROBATCH) {
      find_readers(c, node->region, over, bad);
    }
    for (int j = 0; !node->backward && j < node->operand_count; j++) {
      if (!is_parameter(graph, node->operands[j])) {
        continue;
      }
      const uint64_t name = map_key(graph_producer(graph, node->operands[j])->text);
      const Shape shape = graph_shape(graph, node->operands[j]);
      int64_t bits = 0;
      for (int a = 0; node->op == OP_DOT && a < shape.count; a++) {
        bits |= shape_find(&node->axes, shape.axis[a]) >= 0 ? (int64_t)1 << a : 0;
      }
      const bool whole = bits == ((int64_t)1 << shape.count) - 1;
      if (bits == 0 || whole || map_get_or(over, name, bits) != bits) {
        map_put(bad, name, 1);
      }
      map_put(over, name, bits);
    }
  }
}

static void decide(Compilation *c) {
  const Graph *graph = c->graph;
  Map over = map_create(c->arena), bad = map_create(c->arena);
  const bool small = c->spec->formats.frozen == TYPE_E4M3;
  if (small) {
    find_readers(c, 0, &over, &bad);
  }
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *tensor = &graph->persistent.at[i];
    const uint64_t name = map_key(tensor->name);
    const bool frozen = tensor->role == ROLE_PARAMETER && tensor->group < 0;
    const int64_t bits = frozen && !map_get_or(&bad, name, 0) ? map_get_or(&over, name, 0) : 0;
    map_put(c->frozen, name, (frozen ? IS_FROZEN : 0) | bits << OVER);
  }
}

bool codes_holds_frozen(int64_t found) {
  return found & IS_FROZEN;
}

bool codes_is_frozen(const Compilation *c, const Persistent *parameter) {
  return map_get_or(c->frozen, map_key(parameter->name), 0) & IS_FROZEN;
}

// Over which of its axes a parameter in 8 bits has one scale; none: it is not in 8 bits.
static Shape summed_over(const Compilation *c, const Persistent *parameter) {
  const int64_t bits = map_get_or(c->frozen, map_key(parameter->name), 0) >> OVER;
  Shape over = {0};
  for (int a = 0; parameter->role == ROLE_PARAMETER && a < parameter->shape.count; a++) {
    if (bits >> a & 1) {
      shape_push(&over, parameter->shape.axis[a]);
    }
  }
  return over;
}

// --- scales ---

static void add_scales(Codes *f, int parameter) {
  Graph *graph = f->c->graph;
  Persistent made = graph->persistent.at[parameter];
  const Shape over = summed_over(f->c, &made);
  const Node leaf = *graph_producer(graph, made.value);
  graph_follow(graph, &leaf);
  graph->role = ROLE_PARAMETER;
  graph->persistent.at[parameter].type = TYPE_E4M3;
  made.like = made.name;
  made.name = name_format(graph->names, "scale.%s", made.name);
  made.role = ROLE_COPY;
  made.type = TYPE_F32;
  made.shape = shape_minus(made.shape, &over);
  made.stack_count = 0;
  made.in_count = -1;
  made.value =
      graph_add0(graph, OP_STATE, (NodeInit){NODE_INIT, .text = made.name, .type = TYPE_F32, .shape = made.shape});
  map_put(&f->scale_of, map_key(leaf.text), made.value);
  array_push(graph->arena, &graph->persistent, made);
}

Codes codes_start(Compilation *c) {
  Codes f = {.c = c, .scale_of = map_create(c->arena), .made = map_create(c->arena)};
  Graph *graph = c->graph;
  if (c->program == PROGRAM_TRAIN) {
    decide(c);
  }
  const int count = graph->persistent.count;
  const GraphPlace before = graph_place(graph);
  const NodeList rest = graph->regions.at[0].nodes;
  graph->region = 0;
  graph->regions.at[0].nodes = (NodeList){0};
  for (int i = 0; i < count; i++) {
    const Persistent *tensor = &graph->persistent.at[i];
    if (tensor->value >= 0 && summed_over(c, tensor).count > 0) {
      add_scales(&f, i);
    }
  }
  for (int i = 0; i < rest.count; i++) {
    array_push(graph->arena, &graph->regions.at[0].nodes, rest.at[i]);
  }
  graph_return(graph, before);
  return f;
}

// --- reading and writing ---

// Arenas are leaves as well, and no parameters.
static bool is_codes(const Graph *graph, ValueId value) {
  const Persistent *tensor =
      is_parameter(graph, value) ? graph_persistent(graph, graph_producer(graph, value)->text) : NULL;
  return tensor && tensor->type == TYPE_E4M3;
}

bool codes_multiplied(const Graph *graph, const Node *node) {
  return node->op == OP_MUL && is_codes(graph, node->operands[0]);
}

bool codes_stored(const Graph *graph, ValueId value) {
  const Node *maker = graph_producer(graph, value);
  return is_codes(graph, value) || (maker && codes_multiplied(graph, maker));
}

static ValueId numbers_of(Codes *f, ValueId parameter, ValueId scales) {
  Graph *graph = f->c->graph;
  const uint64_t key[] = {(uint64_t)parameter, (uint64_t)graph->region, graph->backward};
  int64_t known;
  if (map_get_bytes(&f->made, key, sizeof key, &known)) {
    return (ValueId)known;
  }
  const ValueId made = graph_op2(graph, OP_MUL, parameter, scales);
  const Value from = *graph_value(graph, parameter);
  Value *to = graph_value(graph, made);
  to->type = f->c->spec->formats.dot;
  to->role = from.role;
  to->name = from.name;
  map_put_bytes(&f->made, key, sizeof key, made);
  return made;
}

static void assign(Codes *f, const Node *node, ValueId scales) {
  Graph *graph = f->c->graph;
  const Shape all = graph_shape(graph, node->operands[1]), kept = graph_shape(graph, scales);
  const ValueId scale = block_scale(graph, node->operands[1], shape_minus(all, &kept), TYPE_E4M3);
  const ValueId share = graph_op2(graph, OP_DIV, node->operands[1], scale);
  const NodeInit init = {NODE_INIT, .text = name_of(graph->names, element_type_name(TYPE_E4M3))};
  graph_op2(graph, OP_ASSIGN, node->operands[0], graph_add1(graph, OP_CAST, init, share));
  graph_op2(graph, OP_ASSIGN, scales, scale);
}

bool codes_read(Codes *f, NodeId id) {
  Graph *graph = f->c->graph;
  for (int i = 0; f->scale_of.count > 0 && i < graph_node(graph, id)->operand_count; i++) {
    const Node node = *graph_node(graph, id);
    const Node *leaf = graph_producer(graph, node.operands[i]);
    const ValueId scales =
        leaf && leaf->op == OP_PARAM ? (ValueId)map_get_or(&f->scale_of, map_key(leaf->text), -1) : -1;
    if (scales >= 0 && node.op == OP_ASSIGN) {
      assign(f, &node, scales);
      return false;
    }
    if (scales >= 0) {
      const ValueId numbers = numbers_of(f, node.operands[i], scales);
      graph_node(graph, id)->operands[i] = numbers;
    }
  }
  return true;
}
