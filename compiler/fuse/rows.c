// rows.c: products with chosen matrices as products of rows: positions sorted by what they choose.
//
// Needs shapes of one rank; comes before fuse. What a chosen product makes stays in rows, sorted, and so does what is
// computed from it for each position alone, up to sums over choices, which take the rows of a position together, and to
// whatever else reads it. What products read is brought into rows, or computed there where that is the same. Nothing
// else changes: elementwise work commutes with sorting. There is one order for an index, forward and backward: values
// in rows go from segment to segment in place of those that they stand for.
//
// Rows of padding hold zeros where products read them. A position without a row, since it chose what another rank has,
// or came after too many, gives 0; what is not 0 there, such as a sum with what stands outside, is computed outside
// again for who reads it there.
#include "compiler/fuse/rows.h"

#include <string.h>

// Choices of a position that one lookup adds up; operands of a sum of products.
enum { MOST_SUMMED = 64, MOST_OPERANDS = 17 };

// --- reading ---

static int order_of(const Rows *r, ValueId value) {
  return value < r->limit ? r->order[r->inside[value]] - 1 : -1;
}

static void read_outside(Rows *r, NodeId id) {
  for (int i = 0; i < graph_node(r->graph, id)->operand_count; i++) {
    const ValueId value = rows_outside(r, graph_node(r->graph, id)->operands[i]);
    graph_node(r->graph, id)->operands[i] = value;
  }
}

static void keep(Rows *r, NodeId id) {
  array_push(r->graph->arena, &r->graph->regions.at[r->graph->region].nodes, id);
}

static void make_in_rows(Rows *r, ValueId value, ValueId rows, int order) {
  r->order[value] = order + 1;
  r->in_rows[value] = rows;
}

// --- products ---

static int order_for(const Rows *r, const Node *node) {
  return rows_order_of(r, node->operands[node->operand_count - 1], node->axis);
}

// Is what the forward had in rows sorted into them once more?
static bool is_again(const Rows *r, const Node *node, ValueId value, int order) {
  const uint64_t key[] = {(uint64_t)(value < r->limit ? r->inside[value] : value), (uint64_t)order};
  int64_t known;
  return (node->recomputed && node->apart) || (node->backward && map_get_bytes(&r->taken[1], key, sizeof key, &known));
}

// A factor of a product: in rows, with zeros in their padding.
static ValueId factor(Rows *r, NodeId id, int operand, int order) {
  const Node *node = graph_node(r->graph, id);
  const ValueId value = node->operands[operand], index = node->operands[node->operand_count - 1];
  const bool again = is_again(r, node, value, order);
  const ValueId rows = rows_spread(r, rows_of(r, value, order, index, again), order);
  return rows_masked(r, rows, order, index);
}

static void chosen_dot(Rows *r, NodeId id) {
  const int order = order_for(r, graph_node(r->graph, id));
  const ValueId a = factor(r, id, 0, order);
  const Node *node = graph_node(r->graph, id);
  const ValueId w = rows_outside(r, node->operands[1]), index = rows_outside(r, graph_node(r->graph, id)->operands[2]);
  const ValueId operands[] = {a, w, rows_chosen(r, order, index)};
  node = graph_node(r->graph, id);
  const ValueId made = rows_again(r, node, operands, order);
  const bool zero = rows_content(r, a, order) == PADDING_ZERO;
  rows_set_content(r, made, zero ? PADDING_ZERO : PADDING_ANY);
  make_in_rows(r, graph_node(r->graph, id)->first_result, made, order);
}

static void chosen_sum(Rows *r, NodeId id) {
  const int order = order_for(r, graph_node(r->graph, id));
  const ValueId a = factor(r, id, 0, order), b = factor(r, id, 1, order);
  const ValueId index = rows_outside(r, graph_node(r->graph, id)->operands[2]);
  const ValueId chosen = rows_chosen(r, order, index);
  Node *node = graph_node(r->graph, id);
  node->operands[0] = a;
  node->operands[1] = b;
  node->operands[2] = chosen;
  keep(r, id);
}

// --- lookups by the same index ---

// Of what each place has for all positions that choose it, such as a bias: one row for each block.
static bool take_in_rows(Rows *r, NodeId id) {
  const Node *node = graph_node(r->graph, id);
  const int order = node->op == OP_TAKE ? rows_order_of(r, node->operands[1], node->axis) : -1;
  const Shape table = order < 0 ? (Shape){0} : graph_shape(r->graph, node->operands[0]);
  if (order < 0 || !rows_wide(r, graph_shape(r->graph, node->first_result), order) ||
      shape_common(table, &r->orders.at[order].positions).count > 0) {
    return false;
  }
  const ValueId operands[] = {node->operands[0], rows_chosen(r, order, node->operands[1])};
  const ValueId made = rows_again(r, graph_node(r->graph, id), operands, order);
  rows_set_content(r, made, PADDING_ANY);
  make_in_rows(r, graph_node(r->graph, id)->first_result, made, order);
  return true;
}

// The transpose: sums of the rows of each block first.
static bool put_from_rows(Rows *r, NodeId id) {
  Graph *graph = r->graph;
  const Node *node = graph_node(graph, id);
  const int order = node->op == OP_PUT ? order_of(r, node->operands[0]) : -1;
  if (order < 0 || rows_order_of(r, node->operands[1], node->axis) != order ||
      shape_common(node->axes, &r->orders.at[order].positions).count > 0) {
    return false;
  }
  const ValueId index = node->operands[1];
  const ValueId rows = rows_spread(r, rows_here(r, r->in_rows[r->inside[node->operands[0]]]), order);
  const ValueId masked = rows_masked(r, rows, order, index);
  const ValueId sum = graph_sum(graph, masked, shape_of(r->orders.at[order].row));
  const ValueId chosen = rows_chosen(r, order, index);
  Node *now = graph_node(graph, id);
  graph_value(graph, sum)->type = graph_value(graph, now->first_result)->type;
  now->operands[0] = sum;
  now->operands[1] = chosen;
  keep(r, id);
  return true;
}

// --- what ranks own ---

static void inside(Rows *r, NodeId id) {
  Graph *graph = r->graph;
  const Node node = *graph_node(graph, id);
  const int order = order_of(r, node.operands[0]);
  if (order >= 0 && rows_order_of(r, node.operands[1], node.axis) == order) {  // others have no rows
    make_in_rows(r, node.first_result, r->in_rows[r->inside[node.operands[0]]], order);
    return;
  }
  const ValueId value = rows_outside(r, node.operands[0]), index = rows_outside(r, node.operands[1]);
  const ValueId none = graph_integer(graph, 0), size = graph_integer(graph, graph->axes.at[node.axis].size);
  const ValueId mine =
      graph_op2(graph, OP_AND, graph_op2(graph, OP_LESS_EQUAL, none, index), graph_op2(graph, OP_LESS, index, size));
  const ElementType real = graph->real;
  graph->real = graph_value(graph, value)->type;
  const ValueId made = graph_op3(graph, OP_WHERE, mine, value, graph_real(graph, 0));
  graph->real = real;
  Node *now = graph_node(graph, id);  // becomes that
  const Node *where = graph_producer(graph, made);
  graph_rewind(graph);
  now->op = where->op;
  now->axis = -1;
  now->integer = 0;
  now->operands = where->operands;
  now->operand_count = where->operand_count;
  keep(r, id);
}

// What is 0 where a capacity leaves out the choice is the value itself in rows: others have none.
static bool kept_in_rows(Rows *r, NodeId id) {
  const Node *node = graph_node(r->graph, id);
  const int order = node->op == OP_WHERE ? order_of(r, node->operands[1]) : -1;
  if (order < 0 || !rows_keeps_chosen(r, node, order)) {
    return false;
  }
  make_in_rows(r, node->first_result, r->in_rows[r->inside[node->operands[1]]], order);
  return true;
}

// --- sums over choices ---

static bool sum_in_rows(Rows *r, NodeId id) {
  Graph *graph = r->graph;
  const Node node = *graph_node(graph, id);
  const int order = node.op == OP_SUM ? order_of(r, node.operands[0]) : -1;
  if (order < 0 || !rows_zero_without(r, node.operands[0])) {
    return false;
  }
  const Shape choices = shape_common(node.axes, &r->orders.at[order].positions);
  const Shape rest = shape_minus(node.axes, &choices);
  if (choices.count == 0 || graph_elements(graph, choices) > MOST_SUMMED) {
    return false;
  }
  ValueId rows = rows_spread(r, rows_here(r, r->in_rows[r->inside[node.operands[0]]]), order);
  rows = graph_sum(graph, rows, rest);
  const ValueId made = rows_back(r, rows, order, r->orders.at[order].index, choices);
  Value *to = graph_value(graph, made);
  const Value *from = graph_value(graph, node.first_result);
  to->type = from->type;
  to->name = from->name;
  to->label = from->label;
  map_put(&r->sums, (uint64_t)node.first_result, made);
  r->replace[node.first_result] = made;
  return true;
}

// The lookup that stands for a sum over choices of a product's rows, where nothing else reads either; NULL: it is none.
static const Node *summed_product(const Rows *r, ValueId value) {
  const ValueId made = (ValueId)map_get_or(&r->sums, (uint64_t)value, -1);
  const Node *sum = made >= 0 ? graph_producer(r->graph, value) : NULL;
  const bool alone = sum && r->uses[value] == 1 && (sum->op == OP_ADD || r->uses[sum->operands[0]] == 1);
  const Node *take = alone ? graph_producer(r->graph, made) : NULL;
  const Node *merge = take ? graph_producer(r->graph, take->operands[0]) : NULL;
  const Node *dot = merge ? graph_producer(r->graph, merge->operands[0]) : NULL;
  return dot && (dot->op == OP_CHOSEN_DOT || dot->op == OP_CHOSEN_DOTS) ? take : NULL;
}

// The axes of a product that its first factor gives, which are its rows as those of the blocks are.
static Shape rows_given(const Graph *graph, const Node *dot, Shape result) {
  const Shape a = graph_shape(graph, dot->operands[0]);
  return shape_common(result, &a);
}

// Two lookups as one, of a sum of products: -1 if they are not of the same rows and columns.
static ValueId sum_products(Rows *r, const Node *a, const Node *b) {
  Graph *graph = r->graph;
  const Node *merge[] = {graph_producer(graph, a->operands[0]), graph_producer(graph, b->operands[0])};
  const ValueId product[] = {merge[0]->operands[0], merge[1]->operands[0]};
  const Node *dots[] = {graph_producer(graph, product[0]), graph_producer(graph, product[1])};
  const int last[] = {dots[0]->operand_count - 1, dots[1]->operand_count - 1};
  const Shape shapes[] = {graph_shape(graph, product[0]), graph_shape(graph, product[1])};
  const Shape given[] = {rows_given(graph, dots[0], shapes[0]), rows_given(graph, dots[1], shapes[1])};
  if (a->op != b->op || a->operands[1] != b->operands[1] || !shape_same_set(&a->axes, &b->axes) ||
      dots[0]->operands[last[0]] != dots[1]->operands[last[1]] || dots[0]->axis != dots[1]->axis ||
      !shape_same_set(&shapes[0], &shapes[1]) || !shape_same_set(&given[0], &given[1]) ||
      last[0] + last[1] >= MOST_OPERANDS) {
    return -1;
  }
  ValueId operands[MOST_OPERANDS];
  int count = 0;
  for (int i = 0; i < 2; i++) {
    for (int j = 0; j < last[i]; j++) {
      operands[count++] = dots[i]->operands[j];
    }
  }
  operands[count++] = dots[0]->operands[last[0]];
  const NodeInit over = {NODE_INIT, .axis = dots[0]->axis, .axes = shapes[0]};
  const NodeInit rows = {NODE_INIT, .axes = merge[0]->axes, .axis2 = merge[0]->axis2};
  const NodeInit along = {NODE_INIT, .axis = a->axis, .axes = a->axes};
  const Op op = a->op;
  const ValueId place = a->operands[1];
  const ElementType type = graph_value(graph, product[0])->type, wide = graph_value(graph, a->first_result)->type;
  const ValueId made = graph_add(graph, OP_CHOSEN_DOTS, over, operands, count);
  graph_value(graph, made)->type = type;
  const ValueId taken = graph_add2(graph, op, along, graph_add1(graph, OP_MERGE, rows, rows_note(r, made)), place);
  graph_value(graph, taken)->type = wide;
  return taken;
}

// Gradients of several products with what they share are one sum of products, and one lookup: also where something else
// was added to the first of them, (g + a) + b.
static bool add_products(Rows *r, NodeId id) {
  Graph *graph = r->graph;
  const Node node = *graph_node(graph, id);
  for (int i = 0; i < 2 && node.op == OP_ADD; i++) {
    const Node *last = summed_product(r, node.operands[1 - i]), *first = summed_product(r, node.operands[i]);
    const Node *inner = graph_producer(graph, node.operands[i]);
    ValueId rest = -1;
    for (int j = 0; j < 2 && last && !first && inner && inner->op == OP_ADD && r->uses[node.operands[i]] == 1; j++) {
      first = first ? first : summed_product(r, inner->operands[j]);
      rest = first && rest < 0 ? inner->operands[1 - j] : rest;
    }
    const ValueId sum = first && last ? sum_products(r, first, last) : -1;
    if (sum < 0) {
      continue;
    }
    if (rest < 0) {
      map_put(&r->sums, (uint64_t)node.first_result, sum);
      r->replace[node.first_result] = sum;
    } else {
      const ValueId other = rows_outside(r, rest);
      graph_node(graph, id)->operands[0] = other;
      graph_node(graph, id)->operands[1] = sum;
      keep(r, id);
    }
    return true;
  }
  return false;
}

// --- everything else that is done for each position alone ---

// A result as small as the index stays in rows if that asks for nothing to be sorted.
static bool all_in_rows(const Rows *r, const Node *node, int order) {
  bool all = true;
  for (int i = 0; i < node->operand_count; i++) {
    const Shape shape = graph_shape(r->graph, node->operands[i]);
    const bool apart = shape_common(shape, &r->orders.at[order].positions).count == 0;
    all = all && (apart || order_of(r, node->operands[i]) == order);
  }
  return all;
}

// The order in whose rows it is best done: that of an operand with more than one number for a position, or of all that
// have positions; -1: there is none.
static int order_to_do(const Rows *r, const Node *node) {
  int order = -1;
  bool wide = false;
  for (int i = 0; i < node->operand_count && !wide; i++) {
    const int of = order_of(r, node->operands[i]);
    wide = of >= 0 && rows_wide(r, graph_shape(r->graph, node->operands[i]), of);
    order = wide || order < 0 ? of : order;
  }
  const bool stays = order >= 0 && wide && rows_wide(r, graph_shape(r->graph, node->first_result), order);
  return order >= 0 && rows_by_positions(r, node, order) && (stays || all_in_rows(r, node, order)) ? order : -1;
}

static bool done_in_rows(Rows *r, NodeId id) {
  const Node *node = graph_node(r->graph, id);
  const int order = order_to_do(r, node);
  if (order < 0) {
    return false;
  }
  ValueId *operands = ARENA_ARRAY(r->c->arena, ValueId, node->operand_count + 1);
  for (int i = 0; i < node->operand_count; i++) {
    const bool again = is_again(r, node, node->operands[i], order);
    operands[i] = rows_of(r, node->operands[i], order, r->orders.at[order].index, again);
    node = graph_node(r->graph, id);
    operands[i] = op_elementwise(node->op) ? operands[i] : rows_spread(r, operands[i], order);
  }
  node = graph_node(r->graph, id);
  make_in_rows(r, node->first_result, rows_again(r, node, operands, order), order);
  return true;
}

// --- the walk ---

static void walk(Rows *r, RegionId region);

static void sort_node(Rows *r, NodeId id) {
  Graph *graph = r->graph;
  graph_follow(graph, graph_node(graph, id));
  switch (graph_node(graph, id)->op) {
    case OP_CHOSEN_DOT:
      chosen_dot(r, id);
      return;
    case OP_CHOSEN_SUM:
      chosen_sum(r, id);
      return;
    case OP_INSIDE:
      inside(r, id);
      return;
    case OP_LIMIT:
      r->replace[graph_node(graph, id)->first_result] = rows_limited(r, graph_node(graph, id));
      return;
    default:
      break;
  }
  if (op_body(graph_node(graph, id)->op)) {
    const RegionId region = graph->region;
    walk(r, graph_node(graph, id)->region);
    graph->region = region;
    keep(r, id);
  } else if (!take_in_rows(r, id) && !put_from_rows(r, id) && !sum_in_rows(r, id) && !add_products(r, id) &&
             !kept_in_rows(r, id) && !done_in_rows(r, id)) {
    read_outside(r, id);
    keep(r, id);
  }
}

// Of a segment, what others read in rows leaves it so.
static void return_results(Rows *r, RegionId region) {
  const ValueList results = r->graph->regions.at[region].results;
  ValueId *made = ARENA_ARRAY(r->c->arena, ValueId, results.count + 1);
  bool *zero = ARENA_ARRAY(r->c->arena, bool, results.count + 1);
  for (int i = 0; i < results.count; i++) {
    const ValueId value = results.at[i];
    const bool own = value < r->limit && r->inside[value] == value && order_of(r, value) >= 0;
    zero[i] = !own || rows_zero_without(r, value);
    made[i] = own && (r->leaves[value] || !r->segment[region] || !zero[i]) ? rows_outside(r, value) : -1;
  }
  for (int i = 0; i < results.count; i++) {  // once none is made of another any more
    if (made[i] >= 0) {
      r->order[results.at[i]] = zero[i] ? r->order[results.at[i]] : 0;  // others read it as it is outside
      r->graph->regions.at[region].results.at[i] = made[i];
    }
  }
}

static void walk(Rows *r, RegionId region) {
  const NodeList old = graph_rewrite(r->graph, region);
  for (int i = 0; i < old.count; i++) {
    sort_node(r, old.at[i]);
  }
  return_results(r, region);
}

// --- segments ---

// Gives the results of a segment anew: those that are left, and what others read of it in rows.
static void renew_results(Rows *r, NodeId id, ValueId *replace) {
  Graph *graph = r->graph;
  const Node node = *graph_node(graph, id);
  ValueList results = {0}, outer = {0};
  const ValueList had = graph->regions.at[node.region].results;
  for (int i = 0; i < had.count; i++) {
    if (order_of(r, had.at[i]) < 0 || had.at[i] >= r->limit) {
      array_push(r->c->arena, &results, had.at[i]);
      array_push(r->c->arena, &outer, node.first_result + i);
    }
  }
  for (int i = 0; i < r->exports.count; i++) {
    if (r->exports.at[i].region == node.region) {
      array_push(r->c->arena, &results, r->exports.at[i].inside);
      array_push(r->c->arena, &outer, r->exports.at[i].outside);
    }
  }
  for (int i = 0; i < results.count; i++) {
    Value value = *graph_value(graph, outer.at[i]);
    value.node = id;
    value.result = i;
    replace[outer.at[i]] = graph_new_value(graph, value);
  }
  graph->regions.at[node.region].results = results;
  graph_node(graph, id)->first_result = graph->values.count - results.count;
  graph_node(graph, id)->result_count = results.count;
}

static void renew_segments(Rows *r, RegionId region, ValueId *replace) {
  const NodeList nodes = r->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes.count; i++) {
    const Node *node = graph_node(r->graph, nodes.at[i]);
    const bool segment = node->op == OP_SEGMENT;
    if (op_body(node->op)) {
      renew_segments(r, node->region, replace);
    }
    if (segment) {
      renew_results(r, nodes.at[i], replace);
    }
  }
}

// --- before the walk ---

static void note_region(Rows *r, RegionId region, RegionId around) {
  const Graph *graph = r->graph;
  const Region *at = &graph->regions.at[region];
  r->around[region] = around;
  for (int i = 0; i < at->nodes.count; i++) {
    const Node *node = graph_node(graph, at->nodes.at[i]);
    r->home[at->nodes.at[i]] = region;
    for (int j = 0; j < node->operand_count; j++) {
      r->uses[node->operands[j]]++;
    }
    if (op_body(node->op)) {
      r->segment[node->region] = node->op == OP_SEGMENT;
      note_region(r, node->region, region);
    }
    for (int j = 0; node->op == OP_SEGMENT && j < node->result_count; j++) {
      r->inside[node->first_result + j] = r->inside[graph->regions.at[node->region].results.at[j]];
    }
    if (op_chosen(node->op) && order_for(r, node) < 0) {
      rows_add_order(r, node);
    }
  }
  for (int i = 0; i < at->results.count; i++) {
    r->uses[at->results.at[i]]++;
    r->leaves[r->inside[at->results.at[i]]] |= !r->segment[region];
  }
}

static bool any_chosen(const Graph *graph) {
  for (int i = 0; i < graph->nodes.count; i++) {
    const Op op = graph_node(graph, i)->op;
    if (op_chosen(op) || op == OP_INSIDE || op == OP_LIMIT) {
      return true;
    }
  }
  return false;
}

bool pass_rows(Compilation *c) {
  Graph *graph = c->graph;
  if (!any_chosen(graph)) {
    return pass_changed_nothing(c);
  }
  const int values = graph->values.count, nodes = graph->nodes.count, regions = graph->regions.count;
  Rows r = {.c = c, .graph = graph, .limit = values};
  r.inside = ARENA_ARRAY(c->arena, ValueId, values + 1);
  r.home = ARENA_ARRAY(c->arena, RegionId, nodes + 1);
  r.uses = ARENA_ARRAY(c->arena, int, values + 1);
  r.order = ARENA_ARRAY(c->arena, int, values + 1);
  r.in_rows = ARENA_ARRAY(c->arena, ValueId, values + 1);
  r.leaves = ARENA_ARRAY(c->arena, bool, values + 1);
  r.segment = ARENA_ARRAY(c->arena, bool, regions + 1);
  r.around = ARENA_ARRAY(c->arena, RegionId, regions + 1);
  r.replace = ARENA_ARRAY(c->arena, ValueId, values + 1);
  memset(r.home, -1, sizeof *r.home * (size_t)nodes);
  memset(r.replace, -1, sizeof *r.replace * (size_t)values);
  for (int i = 0; i < values; i++) {
    r.inside[i] = i;
  }
  Map *const maps[] = {&r.region_of, &r.taken[0], &r.taken[1], &r.tokens, &r.indices,
                       &r.masked,    &r.contents, &r.sums,     &r.zeros};
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
    *maps[i] = map_create(c->arena);
  }
  const GraphPlace place = graph_place(graph);
  note_region(&r, 0, -1);
  walk(&r, 0);
  const int made = 2 * graph->values.count;
  ValueId *replace = ARENA_ARRAY(c->arena, ValueId, made + 1);
  memset(replace, -1, sizeof *replace * (size_t)made);
  memcpy(replace, r.replace, sizeof *replace * (size_t)values);
  renew_segments(&r, 0, replace);
  graph_return(graph, place);
  graph_replace_values(graph, replace);
  graph_remove_dead(graph);
  return true;
}
