// homes.c: where values are wanted: parts of a concatenation, gradients in their pack, matrices side by side, new
// values over old ones.
#include <string.h>

#include "compiler/ir/dots.h"
#include "compiler/lower/lower.h"

// For a value that is made in parts, the part.
static ValueId inside_chunks(const Lower *l, ValueId value) {
  const Node *node = graph_producer(l->graph, value);
  return node && node->op == OP_CHUNKS
             ? l->graph->regions.at[node->region].results.at[graph_value(l->graph, value)->result]
             : value;
}

// What makes a value: for one that is made in parts, what makes a part of it.
static const Node *maker_of(const Lower *l, ValueId value) {
  return graph_producer(l->graph, inside_chunks(l, value));
}

static bool has_home(const Lower *l, ValueId value) {
  return l->home[value].kind != HOME_OWN;
}

// Can the operation that makes the value write it with any strides?
static bool placeable(const Lower *l, ValueId value) {
  const Node *node = maker_of(l, value);
  if (!node || has_home(l, value)) {
    return false;
  }
  return node->op == OP_COMPOSITE ? value == node->first_result || node->integer % 256 == 0 : op_strided(node->op);
}

static bool placeable_dense(const Lower *l, ValueId value) {
  const Node *node = graph_producer(l->graph, value);
  return node && !has_home(l, value) && (placeable(l, value) || node->op == OP_PUT || node->op == OP_MICROBATCH);
}

// Can it add to what the microbatches before have written? Then nobody else may read it: it is no longer the value.
static bool accumulable(const Lower *l, ValueId value, const int *uses) {
  const Node *node = maker_of(l, value);
  if (!node || has_home(l, value) || uses[value] > 1 || uses[inside_chunks(l, value)] > 1) {
    return false;
  }
  return op_accumulates(node->op);
}

// Where a renamed value lives is decided by what is renamed.
static ValueId before_renames(Lower *l, ValueId value, Shape *rows, Shape *columns) {
  value = graph_inside_segment(l->graph, value);
  const Node *node = graph_producer(l->graph, value);
  while (node && node->op == OP_RENAME && !has_home(l, value)) {
    shape_replace(rows, node->axis2, node->axis);
    shape_replace(columns, node->axis2, node->axis);
    value = graph_inside_segment(l->graph, node->operands[0]);
    node = graph_producer(l->graph, value);
  }
  return value;
}

static void put_together(Lower *l, const ValueId *given, int count, Shape common_rows, const Shape *own_columns,
                         bool stacked) {
  ValueId *members = ARENA_ARRAY(l->c->arena, ValueId, count);
  Shape *rows = ARENA_ARRAY(l->c->arena, Shape, count), *columns = ARENA_ARRAY(l->c->arena, Shape, count);
  for (int i = 0; i < count; i++) {
    rows[i] = common_rows;
    columns[i] = own_columns[i];
    members[i] = before_renames(l, given[i], &rows[i], &columns[i]);
  }
  bool same = count > 0 && l->home[members[0]].kind == HOME_BUNDLE;
  for (int i = 0; i < count && same; i++) {
    const Home *home = &l->home[members[i]];
    same = home->kind == HOME_BUNDLE && home->bundle == l->home[members[0]].bundle && home->index == i;
  }
  for (int i = 0; i < count && !same; i++) {
    if (!placeable(l, members[i])) {
      return;
    }
    for (int j = 0; j < i; j++) {
      if (members[j] == members[i]) {
        return;
      }
    }
  }
  if (same) {
    return;
  }
  Bundle bundle = {.stacked = stacked, .rows = rows, .count = count, .buffer = -1};
  bundle.members = members;
  bundle.columns = columns;
  for (int i = 0; i < count; i++) {
    l->home[members[i]] = (Home){.kind = HOME_BUNDLE, .index = i, .bundle = l->bundles.count, .parent = -1};
  }
  array_push(l->c->arena, &l->bundles, bundle);
}

// Biases that something makes: side by side, as one.
static void bundle_biases(Lower *l, const Node *node, const Shape *columns) {
  const int count = dots_count(node);
  ValueId *biases = ARENA_ARRAY(l->c->arena, ValueId, count);
  for (int i = 0; i < count; i++) {
    biases[i] = dots_bias(node, i);
  }
  put_together(l, biases, count, (Shape){0}, columns, false);
}

// Parameters lie together anyway, but those of 8 bits, which are made anew. Matrix units want what they sum over last
// in values of 8 bits: so the second operands of several products follow each other, each with the columns first.
static void bundle_dots(Lower *l, const Node *node) {
  const int count = dots_count(node);
  const bool scaled = op_dots_scaled(node->op), parameters = dots_of_parameters(l->graph, node);
  const Shape shared = graph_shape(l->graph, dots_first(node, 0));
  const Shape inner = shape_common(shared, &node->axes), rows = shape_minus(shared, &node->axes);
  Shape *columns = ARENA_ARRAY(l->c->arena, Shape, count);
  ValueId *seconds = ARENA_ARRAY(l->c->arena, ValueId, count), *results = ARENA_ARRAY(l->c->arena, ValueId, count);
  bool apart = false;  // each is exchanged as soon as it is made
  for (int i = 0; i < count; i++) {
    seconds[i] = dots_second(node, i);
    results[i] = node->first_result + i;
    columns[i] = shape_minus(graph_shape(l->graph, seconds[i]), &node->axes);
    apart |= l->exchanged[results[i]];
  }
  if (op_dots_biased(node->op)) {
    bundle_biases(l, node, columns);
  }
  if (scaled || !parameters) {  // rounded weights; of the gradients of weights what comes back
    put_together(l, seconds, count, inner, columns, scaled);
  }
  if (parameters && !apart) {
    put_together(l, results, count, rows, columns, false);
  }
}

static void bundle_dot_sum(Lower *l, const Node *node) {
  const int count = dots_count(node);
  ValueId *firsts = ARENA_ARRAY(l->c->arena, ValueId, count), *seconds = ARENA_ARRAY(l->c->arena, ValueId, count);
  Shape *inner = ARENA_ARRAY(l->c->arena, Shape, count);
  for (int i = 0; i < count; i++) {
    firsts[i] = dots_first(node, i);
    seconds[i] = dots_second(node, i);
    inner[i] = dots_inner(l->graph, node, i);
  }
  const Shape rows = shape_minus(graph_shape(l->graph, firsts[0]), &inner[0]);
  const Shape columns = shape_minus(graph_shape(l->graph, seconds[0]), &inner[0]);
  put_together(l, firsts, count, rows, inner, false);
  if (op_dots_scaled(node->op)) {
    put_together(l, seconds, count, columns, inner, false);
  }
}

// --- new values over old ones ---

// Notes for the tensor or the pack behind a value, which may be a view of one, that node `at` reads it.
static void note_tensors(const Lower *l, ValueId value, int at, int *last) {
  const Node *node = graph_producer(l->graph, value);
  if (!node) {
    return;
  }
  if (op_stored(node->op) || node->op == OP_PACK) {
    last[value] = at > last[value] ? at : last[value];
    return;
  }
  for (int i = 0; op_view(node->op) && i < node->operand_count; i++) {
    note_tensors(l, node->operands[i], at, last);
  }
}

// What reads a pack reads all of its members. A pack of packs comes behind them.
static void note_members(const Lower *l, const NodeList *nodes, int *last) {
  for (int i = nodes->count - 1; i >= 0; i--) {
    const Node *node = graph_node(l->graph, nodes->at[i]);
    if (node->region >= 0) {
      note_members(l, &l->graph->regions.at[node->region].nodes, last);
    }
    for (int j = 0; node->op == OP_PACK && j < node->operand_count; j++) {
      note_tensors(l, node->operands[j], last[node->first_result], last);
    }
  }
}

static void note_readers(const Lower *l, const Node *node, int at, int *last) {
  for (int i = node->op == OP_ASSIGN ? 1 : 0; i < node->operand_count; i++) {
    note_tensors(l, node->operands[i], at, last);
  }
  for (int i = 0; node->region >= 0 && i < l->graph->regions.at[node->region].nodes.count; i++) {
    note_readers(l, graph_node(l->graph, l->graph->regions.at[node->region].nodes.at[i]), at, last);
  }
}

// Does nothing behind the node that makes the new value read the old one? By value of a tensor: its last reader.
static bool is_last_reader(const Lower *l, ValueId target, ValueId value, const int *last, const int *place) {
  const Node *leaf = graph_producer(l->graph, target);
  const int made = place[graph_value(l->graph, value)->node];
  bool good = last[target] <= made;
  for (int i = 0; leaf->op == OP_PACK && i < leaf->operand_count; i++) {
    good = good && last[leaf->operands[i]] <= made;
  }
  return good;
}

static void decide_assign(Lower *l, const Node *node, const int *last, const int *position) {
  Graph *graph = l->graph;
  Shape target = graph_shape(graph, node->operands[0]), value = graph_shape(graph, node->operands[1]);
  const Node *maker = graph_producer(graph, node->operands[1]);
  const Node *leaf = graph_producer(graph, node->operands[0]);
  const StatePlace *place = leaf->op == OP_PACK ? NULL : state_place(l, leaf->text);
  bool whole = !place || !place->flat_piece;
  bool gathered = maker && maker->op == OP_ALL_GATHER && leaf->op == OP_PACK && !has_home(l, node->operands[1]);
  bool made = maker && maker->op == OP_GROUP && placeable(l, node->operands[1]);
  if ((made || gathered) && whole && shape_same_set(&target, &value) &&
      is_last_reader(l, node->operands[0], node->operands[1], last, position)) {
    l->home[node->operands[1]] = (Home){.kind = HOME_ASSIGN, .parent = node->operands[0]};
  }
}

// Does a value lie as the host reads it?
static bool output_in_order(const Lower *l, const Node *node) {
  const Shape shape = graph_shape(l->graph, node->operands[0]);
  return shape.count < 2 || memcmp(shape.axis, node->axes.axis, sizeof *shape.axis * (size_t)shape.count) == 0;
}

static void decide_node(Lower *l, const Node *node) {
  switch (node->op) {
    case OP_CONCAT:
      for (int i = 0; i < node->operand_count; i++) {
        if (placeable(l, node->operands[i])) {
          l->home[node->operands[i]] = (Home){.kind = HOME_CONCAT, .parent = node->first_result, .index = i};
        }
      }
      break;
    case OP_PAD:  // what a kernel makes; a product that is read elsewhere too would lie in pieces
      if (node->axis >= 0 && placeable(l, node->operands[0]) && maker_of(l, node->operands[0])->op == OP_GROUP) {
        l->home[node->operands[0]] = (Home){.kind = HOME_PAD, .parent = node->first_result};
      }
      break;
    case OP_PACK:
      for (int i = 0; i < node->operand_count; i++) {
        if (placeable_dense(l, node->operands[i])) {
          l->home[node->operands[i]] = (Home){.kind = HOME_PACK, .parent = node->first_result, .index = i};
        }
      }
      break;
    case OP_OUTPUT:
      if (placeable_dense(l, node->operands[0]) && output_in_order(l, node)) {
        l->home[node->operands[0]] = (Home){.kind = HOME_HOST};
      }
      break;
    default:
      if (op_dots_sum(node->op)) {
        bundle_dot_sum(l, node);
      } else if (op_dots_joined(node->op)) {
        bundle_dots(l, node);
      }
      break;
  }
}

// An assignment stands behind all that reads the old value; what makes the new one may stand before some of it.
static void decide_assigns(Lower *l, const NodeList *top) {
  int *last = ARENA_ARRAY(l->c->arena, int, l->capacity + 1);
  int *position = ARENA_ARRAY(l->c->arena, int, l->graph->nodes.count + 1);
  for (int i = 0; i < top->count; i++) {
    position[top->at[i]] = i;
    note_readers(l, graph_node(l->graph, top->at[i]), i, last);
  }
  note_members(l, top, last);
  for (int i = 0; i < top->count; i++) {
    const Node *node = graph_node(l->graph, top->at[i]);
    if (node->op == OP_PACK) {
      decide_node(l, node);
    } else if (node->op == OP_ASSIGN) {
      decide_assign(l, node, last, position);
    }
  }
}

// How often each value is read by the nodes of a region, those of their kernels, and the region's results.
static void count_uses(const Lower *l, RegionId id, int *uses) {
  const Region *region = &l->graph->regions.at[id];
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(l->graph, region->nodes.at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      uses[node->operands[j]]++;
    }
    if (node->op == OP_GROUP || op_list(node->op)) {
      count_uses(l, node->region, uses);
    }
  }
  for (int i = 0; i < region->results.count; i++) {
    uses[region->results.at[i]]++;
  }
}

static void decide_list(Lower *l, const NodeList *nodes) {
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(l->graph, nodes->at[i]);
    if (node->op == OP_SEGMENT) {
      decide_list(l, &l->graph->regions.at[node->region].nodes);
    } else {
      decide_node(l, node);
    }
  }
}

static void decide_microbatch(Lower *l, const Node *node) {
  const Region *body = &l->graph->regions.at[node->region];
  int *uses = ARENA_ARRAY(l->c->arena, int, l->capacity);
  count_uses(l, node->region, uses);
  for (int i = 0; i < body->results.count; i++) {
    ValueId result = body->results.at[i], value = graph_inside_segment(l->graph, result);
    if (uses[result] == 1 && accumulable(l, value, uses)) {
      l->home[value] = (Home){.kind = HOME_RESULT, .parent = node->first_result + i};
      l->accumulate[value] = true;
    }
  }
  decide_list(l, &body->nodes);
}

// Matrix products, kernels and what is taken from by index have any strides; what nothing else makes or reads need not
// be dense.
static void find_aligned(Lower *l, RegionId id, bool inside) {
  const Region *region = &l->graph->regions.at[id];
  for (int i = 0; i < region->nodes.count; i++) {
    const Node *node = graph_node(l->graph, region->nodes.at[i]);
    const bool free = op_dots(node->op) || node->op == OP_GROUP;
    for (int j = 0; j < node->result_count && free; j++) {
      l->aligned[node->first_result + j] = true;
    }
    for (int j = node->op == OP_TAKE ? 1 : 0; j < node->operand_count && !free && !inside; j++) {
      l->aligned[node->operands[j]] = false;
    }
    if (node->region >= 0) {
      find_aligned(l, node->region, node->op == OP_GROUP);
    }
  }
  for (int i = 0; i < region->results.count && !inside; i++) {
    l->aligned[region->results.at[i]] = false;
  }
}

// Which values go into an all-to-all, with kernels alone between: it may stand beside the products that make others.
static void find_exchanged(Lower *l, RegionId id) {
  const NodeList *nodes = &l->graph->regions.at[id].nodes;
  for (int i = nodes->count - 1; i >= 0; i--) {
    const Node *node = graph_node(l->graph, nodes->at[i]);
    bool goes = node->op == OP_ALL_TO_ALL;
    for (int j = 0; j < node->result_count && (op_alias(node->op) || node->op == OP_GROUP); j++) {
      goes |= l->exchanged[node->first_result + j];
    }
    for (int j = 0; j < node->operand_count && goes; j++) {
      l->exchanged[node->operands[j]] = true;
    }
    if (op_body(node->op)) {
      find_exchanged(l, node->region);
    }
  }
}

void decide_homes(Lower *l) {
  Graph *graph = l->graph;
  l->capacity = graph->values.count;
  l->home = ARENA_ARRAY(l->c->arena, Home, l->capacity + 1);
  l->accumulate = ARENA_ARRAY(l->c->arena, bool, l->capacity + 1);
  l->aligned = ARENA_ARRAY(l->c->arena, bool, l->capacity + 1);
  l->exchanged = ARENA_ARRAY(l->c->arena, bool, l->capacity + 1);
  find_aligned(l, 0, false);
  if (l->c->program == PROGRAM_TRAIN) {  // without overlap too: a library may sum wider products otherwise
    find_exchanged(l, 0);
  }
  const NodeList *top = &graph->regions.at[0].nodes;
  // Packs and assignments first: gradients must lie with their parameters, whoever else wants them.
  decide_assigns(l, top);
  for (int i = 0; i < top->count; i++) {
    const Node *node = graph_node(graph, top->at[i]);
    if (node->op == OP_MICROBATCH) {
      decide_microbatch(l, node);
    } else if (node->op != OP_PACK && node->op != OP_ASSIGN) {
      decide_node(l, node);
    }
  }
  decide_overwritten(l);
}
