// mutants_parts.c: masks of padding, where parts begin, and zigzags, wrong in one place after localise.
#include <math.h>
#include <string.h>

#include "compiler/ir/attention.h"
#include "tests/mutants_graph.h"

// Is it computed from the rank's coordinates?
static bool of_coordinates(const Graph *graph, ValueId value) {
  const Node *node = graph_producer(graph, value);
  bool any = node && node->op == OP_COORDINATE;
  for (int i = 0; node && (node->op == OP_ADD || node->op == OP_MUL) && i < 2; i++) {
    any = any || of_coordinates(graph, node->operands[i]);
  }
  return any;
}

// The axis of which a node masks the padding, as localise makes masks; or -1.
static AxisId masked_axis(const Graph *graph, const Node *node) {
  const Node *inside = node && node->op == OP_WHERE ? mutant_made_by(graph, node->operands[0], OP_LESS) : NULL;
  const Node *position = inside ? mutant_made_by(graph, inside->operands[0], OP_ADD) : NULL;
  const Node *local = position ? mutant_made_by(graph, position->operands[0], OP_POSITION) : NULL;
  const Node *size = inside ? mutant_made_by(graph, inside->operands[1], OP_INTEGER) : NULL;
  AxisId whole = local && size ? graph->axes.at[local->axis].whole : -1;
  bool is = whole >= 0 && of_coordinates(graph, position->operands[1]) && graph->axes.at[whole].size == size->integer;
  return is ? local->axis : -1;
}

static double filling_of(const Graph *graph, const Node *mask) {
  const Node *number = mutant_made_by(graph, mask->operands[2], OP_CONST);
  return number ? number->number : NAN;
}

// CompileOptions.poison puts NaN there.
static bool is_poison(const Graph *graph, const Node *mask) {
  return isnan(filling_of(graph, mask));
}

// --- how far garbage in padding comes ---

typedef struct {
  const Walk *w;
  const Graph *graph;
  bool finite;    // it is no NaN
  bool escapes;   // into what is real
  AxisId *along;  // by value: the axis in whose padding it is; -1: nowhere
} Garbage;

enum { STOPPED = -1, ESCAPED = -2 };

static bool is_padded(const Garbage *g, AxisId axis) {
  const Axis *at = &g->graph->axes.at[axis];
  int64_t parts = 1;
  for (int m = 0; m < g->w->c->spec->mesh_count; m++) {
    parts *= at->mesh >> m & 1 ? g->w->c->spec->mesh[m].size : 1;
  }
  return at->whole >= 0 && at->size * parts != g->graph->axes.at[at->whole].size;
}

// Is the value zero where the axis is padding? Stored parameters are: layouts_run.h looks.
static bool zero_along(const Graph *graph, ValueId value, AxisId axis) {
  const Node *node = graph_producer(graph, value);
  Shape shape = graph_shape(graph, value);
  if (!node || !shape_has(&shape, axis)) {
    return false;
  }
  AxisId masked = masked_axis(graph, node);
  if (masked >= 0) {
    return masked == axis ? filling_of(graph, node) == 0 : zero_along(graph, node->operands[1], axis);
  }
  switch (node->op) {
    case OP_PARAM:
    case OP_PART:
      return true;
    case OP_DOT:
    case OP_SCALED_DOT:
    case OP_MUL:
      return zero_along(graph, node->operands[0], axis) || zero_along(graph, node->operands[1], axis);
    case OP_ADD:
    case OP_SUB:
      return zero_along(graph, node->operands[0], axis) && zero_along(graph, node->operands[1], axis);
    case OP_NEG:
    case OP_SUM:
    case OP_ALL_REDUCE:
      return zero_along(graph, node->operands[0], axis);
    case OP_RENAME:
      return zero_along(graph, node->operands[0], axis == node->axis2 ? node->axis : axis);
    case OP_COMPOSITE:  // of queries whose outputs have no gradient, and of keys past the end of a ring
      return node->backward && (axis == node->axis ? zero_along(graph, node->operands[node->operand_count - 1], axis)
                                                   : axis == node->axis2 && attention_ring(node));
    default:
      return false;
  }
}

static AxisId regrouped(const Garbage *g, AxisId axis, AxisId from, AxisId to) {
  return axis != from ? axis : is_padded(g, to) ? to : STOPPED;
}

// Where garbage in the padding of an operand is in the results.
static AxisId through(const Garbage *g, const Node *node, int operand, AxisId axis) {
  const Graph *graph = g->graph;
  AxisId masked = masked_axis(graph, node);
  if (masked == axis && operand == 1) {
    return is_poison(graph, node) ? axis : STOPPED;
  }
  if (op_elementwise(node->op)) {
    bool product = g->finite && node->op == OP_MUL;
    return product && zero_along(graph, node->operands[1 - operand], axis) ? STOPPED : axis;
  }
  switch (node->op) {
    case OP_STOP:
    case OP_BROADCAST:
    case OP_ALL_REDUCE:
      return axis;
    case OP_RENAME:
      return axis == node->axis ? node->axis2 : axis;
    case OP_SUM:
    case OP_REDUCE_MAX:
    case OP_REDUCE_MIN:
      return shape_has(&node->axes, axis) ? ESCAPED : axis;
    case OP_DOT:
      return !shape_has(&node->axes, axis)                                       ? axis
             : g->finite && zero_along(graph, node->operands[1 - operand], axis) ? STOPPED
                                                                                 : ESCAPED;
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
    case OP_SHARD:
      return regrouped(g, axis, node->axis, node->axis2);
    case OP_ALL_TO_ALL:
      return axis == node->axis2 ? ESCAPED : regrouped(g, axis, node->axis, node->axes.axis[0]);
    case OP_TAKE:
    case OP_PUT:
      return axis == node->axis ? ESCAPED : axis;
    case OP_COMPOSITE:  // the kernel knows where keys end that go round
      return node->backward ? ESCAPED : axis == node->axis ? axis : attention_ring(node) ? STOPPED : ESCAPED;
    default:
      return ESCAPED;
  }
}

static void add_garbage(Garbage *g, ValueId value, AxisId axis) {
  Shape shape = graph_shape(g->graph, value);
  g->escapes |= !shape_has(&shape, axis) || (g->along[value] >= 0 && g->along[value] != axis);
  g->along[value] = axis;
}

static void spread(Garbage *g, RegionId region) {
  const NodeList *nodes = &g->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(g->graph, nodes->at[i]);
    if (node->op == OP_MICROBATCH || node->op == OP_SEGMENT) {
      spread(g, node->region);
      for (int r = 0; r < node->result_count; r++) {
        AxisId axis = g->along[g->graph->regions.at[node->region].results.at[r]];
        if (axis >= 0) {
          add_garbage(g, node->first_result + r, axis);
        }
      }
      continue;
    }
    for (int j = 0; j < node->operand_count; j++) {
      AxisId axis = g->along[node->operands[j]];
      AxisId after = axis < 0 ? STOPPED : through(g, node, j, axis);
      g->escapes |= after == ESCAPED;
      for (int r = 0; r < node->result_count && after >= 0; r++) {
        add_garbage(g, node->first_result + r, after);
      }
    }
  }
}

// Why it does not matter what the value holds where the axis is padding; NULL: it does.
static const char *harmless(const Walk *w, ValueId value, AxisId axis, bool finite) {
  Garbage g = {.w = w, .graph = w->graph, .finite = finite};
  g.along = ARENA_ARRAY(w->graph->arena, AxisId, w->graph->values.count + 1);
  memset(g.along, -1, sizeof *g.along * (size_t)w->graph->values.count);
  g.along[value] = axis;
  spread(&g, 0);
  return g.escapes ? NULL : finite ? "what comes of it stays padding or meets zeros" : "what comes of it stays padding";
}

// --- masks ---

void visit_mask(Walk *w) {
  const Node *node = graph_node(w->graph, w->id);
  AxisId axis = masked_axis(w->graph, node);
  if (axis < 0 || is_poison(w->graph, node)) {
    return;
  }
  if (mutant_here(w, harmless(w, node->first_result, axis, false), "not masked")) {
    mutant_replace(w->graph, node->first_result, node->operands[1]);
  }
}

void visit_neutral(Walk *w) {
  const Node *node = graph_node(w->graph, w->id);
  AxisId axis = masked_axis(w->graph, node);
  if (axis < 0 || is_poison(w->graph, node)) {
    return;
  }
  double was = filling_of(w->graph, node), other = isinf(was) ? -was : 1;
  if (mutant_here(w, harmless(w, node->first_result, axis, !isinf(was)), "%g for %g", other, was)) {
    Room room = mutant_room(w->graph, w->region, w->at, w->id);
    ValueId made = mutant_constant(w->graph, graph_node(w->graph, w->id)->operands[2], other);
    mutant_close_room(w->graph, &room);
    mutant_set_operand(w, 2, made);
  }
}

// A number made of integers and the rank's coordinates, where node `changed` has other operands.
typedef struct {
  const Walk *w;
  const Node *changed;
  int64_t stride;  // in place of its own
  int mesh;
  const int *coordinate;
} Reckoning;

static int64_t reckon(const Reckoning *r, ValueId value) {
  const Node *node = graph_producer(r->w->graph, value);
  if (node == r->changed) {
    return r->coordinate[r->mesh] * r->stride;
  }
  int64_t a = node->operand_count ? reckon(r, node->operands[0]) : 0;
  int64_t b = node->operand_count ? reckon(r, node->operands[1]) : 0;
  return node->op == OP_INTEGER      ? node->integer
         : node->op == OP_COORDINATE ? r->coordinate[node->integer]
         : node->op == OP_MUL        ? a * b
                                     : a + b;
}

// Why a mask is the same if this product of its positions has another stride or coordinate; NULL: it is not.
static const char *masks_alike(const Walk *w, const Node *mask, const Node *product, int64_t stride, int mesh) {
  const Graph *graph = w->graph;
  const Node *add = mutant_made_by(graph, mutant_made_by(graph, mask->operands[0], OP_LESS)->operands[0], OP_ADD);
  AxisId axis = masked_axis(graph, mask);
  const Axis *local = &graph->axes.at[axis];
  int coordinate[GRAPH_MAX_MESH] = {0}, m = 0;
  while (m < w->c->spec->mesh_count) {
    Reckoning changed = {w, product, stride, mesh, coordinate}, before = {w, NULL, 0, 0, coordinate};
    int64_t was = reckon(&before, add->operands[1]), is = reckon(&changed, add->operands[1]);
    for (int64_t i = 0; i < local->size; i++) {
      int64_t size = graph->axes.at[local->whole].size;
      if ((was + i < size) != (is + i < size)) {
        return NULL;
      }
    }
    for (m = 0; m < w->c->spec->mesh_count && ++coordinate[m] == w->c->spec->mesh[m].size; m++) {
      coordinate[m] = 0;
    }
  }
  return "the mask is the same on all ranks";
}

// The mask that is all that a node's result is computed for, or NULL.
static const Node *mask_of(const Walk *w, const Node *node) {
  NodeId reader = node->result_count == 1 ? mutant_reader(w, node->first_result) : -1;
  while (reader >= 0 && graph_node(w->graph, reader)->op != OP_WHERE) {
    const Node *next = graph_node(w->graph, reader);
    bool counts = next->op == OP_ADD || next->op == OP_MUL || next->op == OP_LESS;
    reader = counts ? mutant_reader(w, next->first_result) : -1;
  }
  const Node *mask = reader >= 0 ? graph_node(w->graph, reader) : NULL;
  return mask && masked_axis(w->graph, mask) >= 0 ? mask : NULL;
}

// --- where parts begin ---

void visit_begin(Walk *w) {
  Graph *graph = w->graph;
  const Node *node = graph_node(graph, w->id);
  const Node *coordinate = node->op == OP_MUL ? mutant_made_by(graph, node->operands[0], OP_COORDINATE) : NULL;
  const Node *stride = coordinate ? mutant_made_by(graph, node->operands[1], OP_INTEGER) : NULL;
  const Node *mask = stride ? mask_of(w, node) : NULL;
  if (!stride || (mask && is_poison(graph, mask))) {
    return;
  }
  int own = (int)coordinate->integer;
  const char *equivalent = mask ? masks_alike(w, mask, node, stride->integer + 1, own) : NULL;
  if (mutant_here(w, equivalent, "stride %lld for %lld", (long long)stride->integer + 1, (long long)stride->integer)) {
    mutant_set_integer(w, 1, stride->integer + 1);
    return;
  }
  for (int m = 0; m < w->c->spec->mesh_count; m++) {
    bool other = m != own && w->c->spec->mesh[m].size > 1 &&
                 (w->c->spec->pipeline.axis == NULL || m != w->c->spec->pipeline.mesh);
    equivalent = other && mask ? masks_alike(w, mask, node, stride->integer, m) : NULL;
    if (other && mutant_here(w, equivalent, "coordinate %s for %s", w->c->spec->mesh[m].name, coordinate->text)) {
      Room room = mutant_room(graph, w->region, w->at, w->id);
      ValueId made =
          graph_add0(graph, OP_COORDINATE, (NodeInit){NODE_INIT, .text = w->c->spec->mesh[m].name, .integer = m});
      mutant_close_room(graph, &room);
      mutant_set_operand(w, 0, made);
      return;
    }
  }
}

void visit_shift(Walk *w) {
  Graph *graph = w->graph;
  const Node *node = graph_node(graph, w->id);
  const int last = node->operand_count - 1;
  const Node *shifted = op_indexes(node->op) ? mutant_made_by(graph, node->operands[last], OP_SUB) : NULL;
  if (shifted && of_coordinates(graph, shifted->operands[1]) && mutant_here(w, NULL, "an index that is not shifted")) {
    mutant_set_operand(w, last, shifted->operands[0]);
  }
  bool position = node->op == OP_ADD && mutant_made_by(graph, node->operands[0], OP_POSITION) &&
                  of_coordinates(graph, node->operands[1]);
  const Node *mask = position ? mask_of(w, node) : NULL;
  if (!position || (mask && is_poison(graph, mask))) {
    return;
  }
  const char *equivalent = mask ? harmless(w, mask->first_result, masked_axis(graph, mask), false) : NULL;
  if (mutant_here(w, equivalent, mask ? "positions from 0: nothing is masked" : "positions from 0")) {
    mutant_set_integer(w, 1, 0);
  }
}

// --- zigzags ---

// The same part as if it was cut into blocks.
static AxisId as_blocks(Graph *graph, AxisId zigzag) {
  Axis axis = graph->axes.at[zigzag];
  AxisId made = graph_axis(graph, name_format(graph->names, "%s as blocks", axis.name), axis.size);
  Name name = graph->axes.at[made].name;
  graph->axes.at[made] = axis;
  graph->axes.at[made].name = name;
  graph->axes.at[made].zigzag = false;
  return made;
}

// The operand is what it was, but its axis has another name.
static void rename_operand(Walk *w, AxisId from, AxisId to) {
  Graph *graph = w->graph;
  Room room = mutant_room(graph, w->region, w->at, w->id);
  ValueId made = graph_add1(graph, OP_RENAME, (NodeInit){NODE_INIT, .axis = from, .axis2 = to},
                            graph_node(graph, w->id)->operands[0]);
  mutant_close_room(graph, &room);
  mutant_set_operand(w, 0, made);
}

static void rename_result(Walk *w, AxisId from, AxisId to) {
  Graph *graph = w->graph;
  ValueId result = graph_node(graph, w->id)->first_result;
  shape_replace(&graph_value(graph, result)->shape, to, from);
  graph_value(graph, result)->sharding = NULL;
  Room room = mutant_room(graph, w->region, w->at + 1, w->id);
  ValueId made = graph_add1(graph, OP_RENAME, (NodeInit){NODE_INIT, .axis = from, .axis2 = to}, result);
  mutant_close_room(graph, &room);
  mutant_replace(graph, result, made);
  graph_producer(graph, made)->operands[0] = result;
}

void visit_zigzag(Walk *w) {
  Graph *graph = w->graph;
  const Node node = *graph_node(graph, w->id);
  bool exchange = node.op == OP_ALL_TO_ALL, gather = node.op == OP_ALL_GATHER || exchange;
  bool cut = node.op == OP_SHARD || node.op == OP_REDUCE_SCATTER || exchange;
  AxisId from = gather ? node.axis : -1, whole = exchange ? node.axes.axis[0] : node.axis2;
  if (from >= 0 && graph->axes.at[from].zigzag && !graph->axes.at[whole].zigzag &&
      mutant_here(w, NULL, "the operand")) {
    AxisId blocks = as_blocks(graph, from);
    rename_operand(w, from, blocks);
    graph_node(graph, w->id)->axis = blocks;
    return;
  }
  AxisId to = !cut ? -1 : exchange ? node.axes.axis[1] : node.axis2;
  whole = exchange ? node.axis2 : node.axis;
  if (to >= 0 && graph->axes.at[to].zigzag && !graph->axes.at[whole].zigzag && mutant_here(w, NULL, "the result")) {
    AxisId blocks = as_blocks(graph, to);
    if (exchange) {
      graph_node(graph, w->id)->axes.axis[1] = blocks;
    } else {
      graph_node(graph, w->id)->axis2 = blocks;
    }
    rename_result(w, blocks, to);
  }
}
