// decode.c: a program that generates computes a block of new positions alone, and keeps what later ones read.
//
// Needs the graph of the program `generate`, attention recognised. Along the axis of the tokens, whatever it is renamed
// to, every value becomes the same value for the positions of a block (the axis `decode.now`); the first of them comes
// from the input `position`. That is right for all that computes a position from that position alone.
// Two things may read those before it: causal attention, whose keys and values are kept in caches, tensors with the
// axis `decode.past` which lie behind the parameters and are no part of a checkpoint, and windows, whose operands are
// kept in the same way. What else mixes positions is refused.
//
// Tensors that no token changes, such as learned positions, are read at the positions of the block.
//
// A step keeps of a cache what lies before the block, writes the block, and makes all behind it zeros: so nothing has
// to be made ready before the first one, and a cache may be gone on with from any position that it has.
//
// Of logits the host wants one position, the input `last`. Without caches (Compilation.block is 0) that is all that
// changes.
#include "compiler/rewrite/decode.h"

#include <string.h>

bool decode_is_place(const Decode *d, AxisId axis) {
  return axis >= 0 && axis < d->axes && d->place[axis];
}

static int places_of(const Decode *d, const Shape *shape) {
  int count = 0;
  for (int i = 0; i < shape->count; i++) {
    count += decode_is_place(d, shape->axis[i]);
  }
  return count;
}

bool decode_has_place(const Decode *d, const Shape *shape) {
  return places_of(d, shape) > 0;
}

// --- what is known of the graph ---

static void find_places(Decode *d, const NodeList *nodes) {
  d->place[d->seq] = true;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(d->graph, nodes->at[i]);
    if (node->op == OP_RENAME && d->place[node->axis] && d->told[node->operands[0]]) {
      d->place[node->axis2] = true;
    }
  }
}

static void find_told(Decode *d, const NodeList *nodes) {
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(d->graph, nodes->at[i]);
    bool told = node->op == OP_INPUT && strcmp(node->text, "tokens") == 0;
    for (int j = 0; j < node->operand_count; j++) {
      told |= d->told[node->operands[j]];
    }
    for (int j = 0; j < node->result_count; j++) {
      d->told[node->first_result + j] = told;
    }
  }
}

// The axis of the tokens that is not that of the batch; -1: the program has no such input.
static AxisId find_seq(const Graph *graph, const NodeList *nodes) {
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (node->op == OP_INPUT && strcmp(node->text, "tokens") == 0) {
      Shape shape = graph_shape(graph, node->first_result);
      AxisId seq = -1;
      for (int a = 0; a < shape.count; a++) {
        seq = strcmp(graph->axes.at[shape.axis[a]].name, "batch") == 0 ? seq : shape.axis[a];
      }
      return shape.count == 2 ? seq : -1;
    }
  }
  return -1;
}

// --- one operation ---

static AxisId moved(const Decode *d, AxisId axis, AxisId key) {
  return axis >= 0 && axis == key ? d->past : decode_is_place(d, axis) ? d->now : axis;
}

Shape decode_shape(const Decode *d, Shape shape, AxisId key) {
  for (int i = 0; i < shape.count; i++) {
    shape.axis[i] = moved(d, shape.axis[i], key);
  }
  return shape;
}

ValueId decode_clone(Decode *d, NodeId id, const ValueId *operands, AxisId key) {
  Graph *graph = d->graph;
  graph_follow(graph, graph_node(graph, id));
  Node *made = graph_node(graph, graph_clone(graph, id, operands));
  made->axes = decode_shape(d, made->axes, key);
  const bool index = made->op == OP_AS_INDEX && made->axis != key;  // into a place, as it was
  made->axis = index ? made->axis : moved(d, made->axis, key);
  made->axis2 = moved(d, made->axis2, key);
  for (int i = 0; i < made->result_count; i++) {
    Value *value = graph_value(graph, made->first_result + i);
    value->shape = decode_shape(d, value->shape, key);
    value->bound = key >= 0 && value->bound == key ? d->past : value->bound;
  }
  return made->first_result;
}

// What the positions of the block have of a tensor that no token changes.
static ValueId take_block(Decode *d, ValueId value, AxisId axis) {
  Graph *graph = d->graph;
  const ValueId index = graph_add1(graph, OP_AS_INDEX, (NodeInit){NODE_INIT, .axis = axis}, d->positions);
  return graph_add2(graph, OP_TAKE, (NodeInit){NODE_INIT, .axis = axis}, value, index);
}

const char decode_crossed[] = "has positions along two axes at once";

// Do the operands or the results of a node have two places?
static bool crosses(const Decode *d, const Node *node) {
  bool any = false;
  for (int i = 0; i < node->result_count + node->operand_count; i++) {
    const bool result = i < node->result_count;
    Shape shape = graph_shape(d->graph, result ? node->first_result + i : node->operands[i - node->result_count]);
    any |= places_of(d, &shape) > 1;
  }
  return any;
}

const char *decode_moves(const Decode *d, const Node *node) {
  static const char moves[] = "moves what belongs to one position to another";
  const bool along = decode_has_place(d, &node->axes);
  const bool between = along || decode_is_place(d, node->axis) || decode_is_place(d, node->axis2);
  if (op_elementwise(node->op)) {
    return NULL;
  }
  if (op_reduction(node->op) || node->op == OP_DOT) {
    return along ? "makes one number of all positions" : NULL;
  }
  if (node->op == OP_TAKE) {
    return decode_is_place(d, node->axis) ? moves : NULL;
  }
  if (node->op == OP_RENAME) {
    return decode_is_place(d, node->axis) == decode_is_place(d, node->axis2) ? NULL : moves;
  }
  return between || !(op_moves(node->op) || node->op == OP_WINDOW || node->op == OP_FOLD) ? moves : NULL;
}

typedef struct {
  const char *why;
  Span where;
} Refusal;

static ValueId refused(const Decode *d, const Node *node, const char *does, Refusal *why) {
  const Name name = node->result_count ? graph_value(d->graph, node->first_result)->name : NULL;
  const char *in = name ? arena_format(d->c->arena, "in '%s' ", name) : "";
  *why = (Refusal){
      arena_format(d->c->arena, "%s'%s' %s", in, node->op == OP_COMPOSITE ? node->text : op_name(node->op), does),
      node->span};
  return DECODE_NONE;
}

static ValueId same_elsewhere(Decode *d, NodeId id) {
  const Node *node = graph_node(d->graph, id);
  ValueId *operands = ARENA_ARRAY(d->c->arena, ValueId, node->operand_count + 1);
  for (int i = 0; i < node->operand_count; i++) {
    operands[i] = d->block[node->operands[i]];
  }
  return node->op == OP_RENAME && decode_is_place(d, node->axis) ? operands[0] : decode_clone(d, id, operands, -1);
}

static ValueId tokens_of_block(Decode *d, NodeId id) {
  const Node *node = graph_node(d->graph, id);
  const Value *was = graph_value(d->graph, node->first_result);
  graph_follow(d->graph, node);
  return graph_add0(d->graph, OP_INPUT,
                    (NodeInit){NODE_INIT, .text = node->text, .type = was->type, .bound = was->bound,
                               .shape = decode_shape(d, was->shape, -1)});
}

// What no token changes: computed as it was, and read at the positions of the block, if nothing is simpler.
static ValueId untold(Decode *d, NodeId id) {
  const Node *node = graph_node(d->graph, id);
  const ValueId value = node->first_result;
  Shape shape = graph_shape(d->graph, value);
  graph_follow(d->graph, node);
  d->graph->role = ROLE_ACTIVATION;
  if (node->op == OP_POSITION && decode_is_place(d, node->axis)) {
    return graph_add1(d->graph, OP_AS_INDEX, (NodeInit){NODE_INIT, .axis = node->axis}, d->positions);
  }
  for (int i = 0; i < shape.count; i++) {
    if (decode_is_place(d, shape.axis[i])) {
      return take_block(d, value, shape.axis[i]);
    }
  }
  return value;
}

static Refusal refusal_of(const Decode *d, ValueId value) {
  return (Refusal){d->why[value], d->where[value]};
}

static bool has_operands(const Decode *d, const Node *node, Refusal *why) {
  for (int i = 0; i < node->operand_count; i++) {
    if (d->block[node->operands[i]] < 0) {
      *why = refusal_of(d, node->operands[i]);
      return false;
    }
  }
  return true;
}

// A look back: at places of the past, of which those before the first are zeros.
static ValueId look_back(Decode *d, NodeId id) {
  Graph *graph = d->graph;
  const Node node = *graph_node(graph, id);
  graph_follow(graph, &node);
  const ValueId past = decode_remember(d, d->block[node.operands[0]], -1);
  const ValueId tap = graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = node.axis2});
  const ValueId most = graph_integer(graph, graph->axes.at[node.axis2].size - 1);
  const ValueId place = graph_op2(graph, OP_ADD, graph_op2(graph, OP_SUB, d->positions, most), tap);
  const ValueId index = graph_add1(graph, OP_AS_INDEX, (NodeInit){NODE_INIT, .axis = d->past}, place);
  return graph_add2(graph, OP_TAKE, (NodeInit){NODE_INIT, .axis = d->past}, past, index);
}

static ValueId attention(Decode *d, NodeId id, Refusal *why) {
  const char *does = NULL;
  ValueId operand = -1;
  const ValueId made = decode_attention(d, id, &does, &operand);
  if (made < 0 && operand >= 0) {
    *why = refusal_of(d, operand);
  } else if (made < 0) {
    refused(d, graph_node(d->graph, id), does, why);
  }
  return made;
}

static ValueId compute(Decode *d, NodeId id, Refusal *why) {
  const Node *node = graph_node(d->graph, id);
  const bool told = d->told[node->first_result];
  Shape shape = graph_shape(d->graph, node->first_result);
  const char *moves = decode_moves(d, node);
  if (node->op == OP_COMPOSITE && told) {
    return attention(d, id, why);
  }
  if (places_of(d, &shape) > 1 || (told && crosses(d, node))) {
    return refused(d, node, decode_crossed, why);
  }
  if (!told && (op_leaf(node->op) || moves || crosses(d, node) || !decode_has_place(d, &shape))) {
    return untold(d, id);
  }
  if (node->op == OP_INPUT) {
    return tokens_of_block(d, id);
  }
  if (node->op == OP_WINDOW && decode_is_place(d, node->axis)) {
    return has_operands(d, node, why) ? look_back(d, id) : DECODE_NONE;
  }
  // A table that is no token's, looked up in at the positions that the block has.
  const bool table = node->op == OP_TAKE && moves && !d->told[node->operands[0]];
  if (moves && !table) {
    return refused(d, node, moves, why);
  }
  if (table && d->block[node->operands[1]] >= 0) {
    graph_follow(d->graph, node);
    return graph_add2(d->graph, OP_TAKE, (NodeInit){NODE_INIT, .axis = node->axis}, node->operands[0],
                      d->block[node->operands[1]]);
  }
  return has_operands(d, node, why) ? same_elsewhere(d, id) : DECODE_NONE;
}

// --- all of them ---

static bool refuse(Decode *d, Span span, const char *why) {
  diag_error(d->c->diag, E070, span, "nothing can be kept from token to token: %s", why);
  return false;
}

// The host wants the logits of one position, not of all.
static ValueId one_position(Graph *graph, const Node *output, ValueId value, AxisId axis) {
  Shape shape = graph_shape(graph, value);
  if (strcmp(output->text, "logits") != 0 || !shape_has(&shape, axis) || graph->axes.at[axis].size == 1) {
    return value;
  }
  graph->role = ROLE_INPUT;
  const ValueId last =
      graph_add0(graph, OP_INPUT, (NodeInit){NODE_INIT, .text = name_of(graph->names, "last"), .type = TYPE_INT});
  graph->role = ROLE_ACTIVATION;
  const ValueId index = graph_add1(graph, OP_AS_INDEX, (NodeInit){NODE_INIT, .axis = axis}, last);
  return graph_add2(graph, OP_TAKE, (NodeInit){NODE_INIT, .axis = axis}, value, index);
}

// Without caches: all else stays as it is.
static void output_last(Graph *graph, const NodeList *old, AxisId seq) {
  for (int i = 0; i < old->count; i++) {
    const NodeId id = old->at[i];
    const Node node = *graph_node(graph, id);
    if (node.op == OP_OUTPUT && seq >= 0) {
      graph_follow(graph, &node);
      const ValueId value = one_position(graph, &node, node.operands[0], seq);
      graph_add1(graph, OP_OUTPUT, (NodeInit){NODE_INIT, .text = node.text}, value);
    } else {
      array_push(graph->arena, &graph->regions.at[0].nodes, id);
    }
  }
}

static bool rewrite(Decode *d, const NodeList *old) {
  Graph *graph = d->graph;
  for (int i = 0; i < old->count; i++) {
    const NodeId id = old->at[i];
    const Node node = *graph_node(graph, id);
    if (node.op == OP_ASSIGN) {
      return refuse(d, node.span, "the model changes its state");
    }
    if (node.op == OP_OUTPUT) {
      const ValueId value = d->block[node.operands[0]];
      const bool logits = strcmp(node.text, "logits") == 0;
      if (value < 0 && !logits) {  // of all positions: who generates does not ask for it
        continue;
      }
      if (value < 0) {
        return refuse(d, d->where[node.operands[0]], d->why[node.operands[0]]);
      }
      graph_follow(graph, &node);
      const ValueId shown = one_position(graph, &node, value, d->now);
      graph_add1(graph, OP_OUTPUT, (NodeInit){NODE_INIT, .text = node.text}, shown);
      continue;
    }
    array_push(graph->arena, &graph->regions.at[0].nodes, id);
    Refusal why = {NULL, SPAN_NONE};
    const ValueId made = compute(d, id, &why);
    for (int j = 0; j < node.result_count; j++) {
      d->block[node.first_result + j] = made < 0 ? DECODE_NONE : made + j;
      d->why[node.first_result + j] = why.why;
      d->where[node.first_result + j] = why.where;
    }
  }
  return true;
}

static void start(Decode *d, const Node *node) {
  Graph *graph = d->graph;
  const int64_t size = graph->axes.at[d->seq].size;
  graph_follow(graph, node);
  d->now = graph_axis(graph, name_of(graph->names, "decode.now"), d->c->block < size ? d->c->block : size);
  d->past = graph_axis(graph, name_of(graph->names, "decode.past"), size);
  graph->role = ROLE_INPUT;
  d->first =
      graph_add0(graph, OP_INPUT, (NodeInit){NODE_INIT, .text = name_of(graph->names, "position"), .type = TYPE_INT});
  graph->role = ROLE_ACTIVATION;
  d->positions =
      graph_op2(graph, OP_ADD, graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = d->now}), d->first);
}

bool pass_decode(Compilation *c) {
  Graph *graph = c->graph;
  Decode d = {.c = c, .graph = graph, .axes = graph->axes.count};
  const int values = graph->values.count;
  const GraphPlace before = graph_place(graph);
  d.place = ARENA_ARRAY(c->arena, bool, d.axes + 1);
  d.told = ARENA_ARRAY(c->arena, bool, values + 1);
  d.block = ARENA_ARRAY(c->arena, ValueId, values + 1);
  d.why = ARENA_ARRAY(c->arena, const char *, values + 1);
  d.where = ARENA_ARRAY(c->arena, Span, values + 1);
  d.caches = map_create(c->arena);
  const NodeList old = graph_rewrite(graph, 0);
  d.seq = find_seq(graph, &old);
  if (c->block == 0) {
    output_last(graph, &old, d.seq);
    graph_return(graph, before);
    return true;
  }
  if (d.seq < 0) {
    return refuse(&d, SPAN_NONE, "it has no input 'tokens' with axes [batch, seq]");
  }
  find_told(&d, &old);
  find_places(&d, &old);
  start(&d, graph_node(graph, old.at[0]));
  if (!rewrite(&d, &old)) {
    return false;
  }
  for (int i = 0; i < d.old.count; i++) {
    graph_follow(graph, graph_producer(graph, d.kept.at[i]));
    graph_op2(graph, OP_ASSIGN, d.old.at[i], d.kept.at[i]);
  }
  graph_return(graph, before);
  graph_remove_dead(graph);
  return true;
}
