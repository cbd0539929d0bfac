// lower_scores.c: what the body of an attention makes of a dot product, as a kernel; and its derivative.
//
// The body is text for the whole matrix of scores. Its elementwise part, between the product of q and k and the
// softmax, becomes a kernel over [batch, head, group, key, query] whose matrices have no memory (ScorePort): backends
// run it on the tile of scores that they have at hand. Positions are ports, since only a backend knows which keys it
// has.
#include "compiler/grad/backward.h"
#include "compiler/ir/attention.h"
#include "compiler/lower/kernel_builder.h"
#include "compiler/rewrite/visible.h"

typedef struct {
  Lower *l;
  const Node *node;
  const AxisId *dims;  // of the space, -1 where there is none
  ValueId dot, made, gradient;
  ValueId wanted;  // what the gradient is of: the product, or something captured
  Builder b;
  NodeList nodes;  // from the product to the scores
} Score;

// --- the part of the body ---

static const Node *first_of(const Graph *graph, const Region *region, Op op) {
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(graph, region->nodes.at[i]);
    if (node->op == op) {
      return node;
    }
  }
  return NULL;
}

static bool same_whole(const Graph *graph, AxisId a, AxisId b) {
  return axis_whole(graph, a) == axis_whole(graph, b);
}

// Nodes that `value` is made by, each behind its operands, but for those that are in a register already.
static void collect(Score *s, ValueId value, Map *known, NodeList *nodes) {
  Graph *graph = s->l->graph;
  const Node *node = graph_producer(graph, value);
  if (!node || value == s->dot || map_get_or(known, (uint64_t)value, 0)) {
    return;
  }
  map_put(known, (uint64_t)value, 1);
  for (int i = 0; i < node->operand_count && scores_position(graph, node) < 0; i++) {
    collect(s, graph_producer(graph, value)->operands[i], known, nodes);
  }
  array_push(s->l->c->arena, nodes, graph_value(graph, value)->node);
}

// --- the kernel ---

static int load(Score *s, int port, bool integer) {
  KernelInstruction load = builder_blank(s->b.kernel.port[port].kind == PORT_STRIDES ? KERNEL_IOTA : KERNEL_LOAD,
                                         integer, builder_level(&s->b, s->b.kernel.port[port].stride));
  load.port = (int16_t)port;
  return builder_code(&s->b, load);
}

static void start(Score *s) {
  static const PortKind kinds[] = {PORT_INPUT, PORT_INPUT, PORT_STRIDES, PORT_STRIDES, PORT_OUTPUT};
  Builder *b = &s->b;
  builder_start(b, s->l);
  b->node = s->node;
  b->kernel.dim_count = SCORE_DIMS;
  b->kernel.inner_count = 1;
  for (int i = 0; i < SCORE_DIMS; i++) {
    b->space.axis[b->space.count++] = s->dims[i];
    b->kernel.size[i] = s->dims[i] < 0 ? 1 : s->l->graph->axes.at[s->dims[i]].size;
  }
  for (int p = 0; p < SCORE_CAPTURED; p++) {
    int64_t stride = 1;
    builder_port(b, kinds[p], kinds[p] == PORT_STRIDES ? TYPE_INT : s->l->graph->real);
    for (int i = SCORE_DIMS - 1; i >= 0; i--) {
      b->kernel.port[p].stride[i] = kinds[p] != PORT_STRIDES ? stride : 0;
      stride *= b->kernel.size[i];
    }
  }
  b->kernel.port[SCORE_QUERY].stride[SCORE_DIM_QUERY] = 1;
  b->kernel.port[SCORE_KEY].stride[SCORE_DIM_KEY] = 1;
}

static int port_of(const Score *s, ValueId value) {
  const Region *region = &s->l->graph->regions.at[s->node->region];
  for (int i = 0; i < attention_forward_operands(s->node); i++) {
    if (region->parameters.at[i] == value) {
      return i;
    }
  }
  return -1;
}

// What is not computed: the product, the gradient, and what is captured.
static void load_operand(Score *s, ValueId value) {
  if (map_get_or(&s->b.registers, (uint64_t)value, -1) >= 0) {
    return;
  }
  const int operand = port_of(s, value);
  int port = value == s->dot ? SCORE_DOT : value == s->gradient ? SCORE_GRADIENT : -1;
  if (port < 0 && operand < 3) {
    return;  // a register comes with its node
  }
  bool integer = false;
  if (port < 0) {
    const ValueId outside = s->node->operands[operand];
    const ElementType type = graph_value(s->l->graph, outside)->type;
    const Storage *storage = storage_of(s->l, outside);
    Shape shape = graph_shape(s->l->graph, outside);
    integer = !element_type_floating(type);
    port = builder_port(&s->b, PORT_INPUT, type);
    s->b.places[port] = place_of(s->l, storage);
    builder_strides(&s->b, port, &shape, storage->stride);
  }
  map_put(&s->b.registers, (uint64_t)value, load(s, port, integer));
}

static void emit(Score *s, const NodeList *nodes) {
  const Graph *graph = s->l->graph;
  for (int i = 0; i < nodes->count && !s->b.failed; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    const AxisId axis = scores_position(graph, node);
    int reg;
    if (node->op == OP_SUM) {
      load_operand(s, node->operands[0]);
      reg = (int)map_get_or(&s->b.registers, (uint64_t)node->operands[0], -1);
    } else if (axis >= 0) {
      reg = load(s, same_whole(graph, axis, s->node->axis) ? SCORE_QUERY : SCORE_KEY, true);
    } else {
      for (int j = 0; j < node->operand_count; j++) {
        load_operand(s, node->operands[j]);
      }
      reg = builder_operation(&s->b, node);
    }
    map_put(&s->b.registers, (uint64_t)node->first_result, reg);
  }
}

static int finish(Score *s, ValueId made, Place **places) {
  Builder *b = &s->b;
  load_operand(s, made);
  const int reg = (int)map_get_or(&b->registers, (uint64_t)made, 0);
  KernelInstruction store = builder_blank(
      KERNEL_STORE, false, builder_level(b, b->kernel.port[SCORE_MADE].stride) | builder_register_level(b, reg));
  store.a = (int16_t)reg;
  store.port = SCORE_MADE;
  builder_code(b, store);
  const int ports = b->kernel.port_count, kernel = builder_keep(b);
  *places = arena_copy(s->l->keep, b->places, sizeof **places * (size_t)ports);
  return kernel + 1;
}

static int lower_score(Score *s, ValueId made, Place **places) {
  Map known = map_create(s->l->c->arena);
  NodeList nodes = {0};
  collect(s, made, &known, &nodes);
  start(s);
  emit(s, &nodes);
  return finish(s, made, places);
}

// The gradient of what is wanted, given that of the scores; no value of the graph but of a region beside it. Sums over
// what a captured tensor lacks come last: they are left to who has the tiles.
static ValueId differentiate(Score *s) {
  Graph *graph = s->l->graph;
  const GraphPlace place = graph_place(graph);
  Map known = map_create(s->l->c->arena);
  NodeList nodes = {0};
  collect(s, s->made, &known, &nodes);
  Value seed = *graph_value(graph, s->made);
  seed.node = -1;
  graph->region = graph_region(graph);
  s->gradient = graph_new_value(graph, seed);
  Backward *backward = backward_create(graph, nodes.at, nodes.count, &s->wanted, 1);
  backward_add(backward, s->made, s->gradient);
  backward_run(backward);
  ValueId gradient = backward_gradient(backward, s->wanted);
  gradient = gradient < 0 ? graph_real(graph, 0) : gradient;
  graph_return(graph, place);
  return gradient;
}

// Blocks of keys that no query sees are left out by causal and window.
static void hide_blocks(const Score *s, Attention *a) {
  const PositionsOf at = {s->l->graph, s->node->axis, s->node->axis2, false, NULL};
  const Interval seen = scores_visible(&at, s->made);
  a->causal = seen.least <= seen.most && seen.most <= 0;
  a->window = seen.least <= seen.most && seen.least > INT32_MIN ? 1 - seen.least : 0;
  a->window = a->window > 0 ? a->window : 0;
}

static Score score_of(Lower *l, const Node *node, const AxisId *dims) {
  const Region *region = &l->graph->regions.at[node->region];
  const Node *dot = first_of(l->graph, region, OP_DOT), *max = first_of(l->graph, region, OP_REDUCE_MAX);
  return (Score){.l = l,
                 .node = node,
                 .dims = dims,
                 .dot = dot->first_result,
                 .made = max->operands[0],
                 .gradient = -1,
                 .wanted = dot->first_result};
}

void lower_scores(Lower *l, const Node *node, const AxisId *dims, Attention *a) {
  Score s = score_of(l, node, dims);
  hide_blocks(&s, a);
  a->score = lower_score(&s, s.made, &a->score_place);
  if (attention_is_gradient(node)) {
    const ValueId gradient = differentiate(&s);
    a->score_gradient = lower_score(&s, gradient, &a->score_gradient_place);
  }
}

int lower_captured_score(Lower *l, const Node *node, const AxisId *dims, int captured, Place **places) {
  Score s = score_of(l, node, dims);
  s.wanted = l->graph->regions.at[node->region].parameters.at[3 + captured];
  return lower_score(&s, differentiate(&s), places);
}
