// rows_order.c: sorting positions into rows, and the way there and back.
#include <math.h>

#include "base/integer.h"
#include "compiler/fuse/rows.h"

// Rows of a block: those that a matrix unit multiplies at once, but no more than a fraction of what each place gets
// where all get the same, since the last block of each place is half empty.
enum { LARGEST_BLOCK = 128, SMALLEST_BLOCK = 8, BLOCKS_OF_SHARE = 4 };

enum { SAME_DEPTH = 8, GATHER_DEPTH = 8 };

static int64_t extent(const Rows *r, AxisId axis) {
  return r->graph->axes.at[axis].size;
}

// --- regions ---

ValueId rows_note(Rows *r, ValueId made) {
  map_put(&r->region_of, (uint64_t)made, r->graph->region);
  return made;
}

ValueId rows_here(Rows *r, ValueId made) {
  const RegionId region = (RegionId)map_get_or(&r->region_of, (uint64_t)made, r->graph->region);
  for (RegionId at = r->graph->region; at >= 0; at = r->around[at]) {
    if (at == region) {
      return made;
    }
  }
  for (int i = 0; i < r->exports.count; i++) {
    if (r->exports.at[i].inside == made) {
      return r->exports.at[i].outside;
    }
  }
  Value value = *graph_value(r->graph, made);
  value.node = -1;
  const ValueId outside = graph_new_value(r->graph, value);
  array_push(r->c->arena, &r->exports, ((RowExport){region, made, outside}));
  return outside;
}

// --- orders ---

static ValueId inside_of(const Rows *r, ValueId value) {
  return value < r->limit ? r->inside[value] : value;
}

static bool same_attributes(const Node *a, const Node *b) {
  return a->op == b->op && a->axis == b->axis && a->axis2 == b->axis2 && a->integer == b->integer &&
         a->text == b->text && a->operand_count == b->operand_count && shape_same_set(&a->axes, &b->axes);
}

// Are two indices one, but for what each rank makes of them by itself: where its part begins, or what it gathers?
static bool is_same(const Rows *r, ValueId a, ValueId b, int depth) {
  a = inside_of(r, a);
  b = inside_of(r, b);
  const Node *x = graph_producer(r->graph, a), *y = graph_producer(r->graph, b);
  bool same = a != b && depth > 0 && x && y && same_attributes(x, y) && x->region < 0 && !op_given(x->op) &&
              (op_collective(x->op) || !op_reduction(x->op)) && x->recomputed == y->recomputed;
  for (int i = 0; same && i < x->operand_count; i++) {
    same = is_same(r, x->operands[i], y->operands[i], depth - 1);
  }
  return a == b || same;
}

int rows_order_of(const Rows *r, ValueId index, AxisId axis) {
  for (int i = 0; i < r->orders.count; i++) {
    if (r->orders.at[i].axis == axis && is_same(r, r->orders.at[i].index, index, SAME_DEPTH)) {
      return i;
    }
  }
  return -1;
}

// The axis of the positions that ranks gather: it comes first in memory, and so it does in the numbers of positions.
static AxisId gathered_axis(const Graph *graph, ValueId value, const Shape *positions) {
  for (int i = 0; i < GATHER_DEPTH; i++) {
    const Node *node = graph_producer(graph, value);
    if (!node || node->operand_count == 0) {
      return -1;
    }
    if (node->op == OP_ALL_GATHER && shape_has(positions, node->axis2)) {
      return node->axis2;
    }
    value = node->operands[0];
  }
  return -1;
}

static int64_t power_of_two(int64_t most) {
  int64_t power = 1;
  while (2 * power <= most) {
    power *= 2;
  }
  return power;
}

static AxisId axis_of(Rows *r, const char *name, int64_t size) {
  return graph_axis(r->graph, name_of(r->c->names, name), size);
}

int64_t rows_limit(const Rows *r, const Node *limit) {
  const double own = (double)graph_elements(r->graph, limit->axes);
  const double most = fmin(own, ceil(limit->number * own / (double)extent(r, limit->axis)));
  return (int64_t)fmin(most, INT32_MAX);  // more positions than that are refused
}

// What limits the index, before ranks give each other anything of it; NULL: nothing does.
static const Node *limit_behind(const Rows *r, ValueId index) {
  const Node *node = graph_producer(r->graph, inside_of(r, index));
  for (int i = 0; i < GATHER_DEPTH && node && node->op != OP_LIMIT && node->operand_count > 0; i++) {
    const ValueId from = node->operands[node->op == OP_WHERE ? 1 : 0];
    node = graph_producer(r->graph, inside_of(r, from));
  }
  return node && node->op == OP_LIMIT ? node : NULL;
}

// Positions that choose one place at most, where a capacity limits those of each rank that gives its own; else 0.
static int64_t limit_of(const Rows *r, ValueId index) {
  const Node *node = limit_behind(r, index);
  const double count = (double)graph_elements(r->graph, graph_shape(r->graph, index));
  if (!node) {
    return 0;
  }
  const double own = (double)graph_elements(r->graph, node->axes);
  return (int64_t)(count / own) * rows_limit(r, node);
}

bool rows_keeps_chosen(const Rows *r, const Node *node, int order) {
  const Node *test = node->op == OP_WHERE ? graph_producer(r->graph, inside_of(r, node->operands[0])) : NULL;
  while (test && op_collective(test->op)) {
    test = graph_producer(r->graph, inside_of(r, test->operands[0]));
  }
  const Node *limit = test && test->op == OP_LESS_EQUAL ? limit_behind(r, test->operands[1]) : NULL;
  const Node *least = limit ? graph_producer(r->graph, inside_of(r, test->operands[0])) : NULL;
  return least && least->op == OP_INTEGER && least->integer == 0 &&
         limit == limit_behind(r, r->orders.at[order].index) &&
         rows_content(r, node->operands[2], order) == PADDING_ZERO;
}

// Rows that hold whatever comes: each place that is chosen wastes less than a block.
static void size_rows(Rows *r, RowOrder *order) {
  const int64_t count = graph_elements(r->graph, order->positions), places = extent(r, order->axis);
  const int64_t share = count / extent(r, axis_whole(r->graph, order->axis)) / BLOCKS_OF_SHARE;
  int64_t block = power_of_two(share > SMALLEST_BLOCK ? share : SMALLEST_BLOCK);
  block = block < LARGEST_BLOCK ? block : LARGEST_BLOCK;
  const int64_t begun = places < count ? places : count;
  int64_t rows = (count + begun * (block - 1)) / block * block;
  const int64_t most = limit_of(r, order->index);
  if (most > 0 && places * round_up(most, block) < rows) {
    rows = places * round_up(most, block);
  }
  order->rows = axis_of(r, "rows", rows);
  order->blocks = axis_of(r, "rows.blocks", rows / block);
  order->row = axis_of(r, "rows.block", block);
}

int rows_add_order(Rows *r, const Node *node) {
  const ValueId index = node->operands[node->operand_count - 1];
  RowOrder order = {.index = inside_of(r, index), .axis = node->axis, .place = -1, .from = -1, .chosen = -1};
  const Shape all = graph_shape(r->graph, index), of = graph_shape(r->graph, node->operands[0]);
  const AxisId first = gathered_axis(r->graph, node->operands[0], &all);
  const Shape leads = first >= 0 ? shape_of(first) : (Shape){0};
  const Shape common = shape_common(of, &all);
  order.positions = shape_union(leads, &common);
  order.positions = shape_union(order.positions, &all);
  size_rows(r, &order);
  array_push(r->c->arena, &r->orders, order);
  return r->orders.count - 1;
}

static NodeInit order_node(const RowOrder *order) {
  NodeInit init = {NODE_INIT, .axis = order->axis, .axis2 = order->rows, .axes = order->positions};
  shape_push(&init.axes, order->blocks);
  shape_push(&init.axes, order->row);
  return init;
}

static ValueId position(Graph *graph, AxisId axis) {
  return graph_add0(graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = axis});
}

// As the text calls it, before ranks made it theirs.
static Name name_of_index(const Rows *r, ValueId index) {
  const Value *value = graph_value(r->graph, index);
  for (int i = 0; i < GATHER_DEPTH && !value->name; i++) {
    const Node *node = value->node >= 0 ? graph_node(r->graph, value->node) : NULL;
    if (!node || node->operand_count == 0) {
      return NULL;
    }
    value = graph_value(r->graph, inside_of(r, node->operands[node->op == OP_WHERE ? 1 : 0]));
  }
  return value->name;
}

static void make_order(Rows *r, int number, ValueId index) {
  RowOrder *order = &r->orders.at[number];
  const Role role = r->graph->role;
  const NodeInit init = order_node(order);
  r->graph->role = ROLE_ACTIVATION;
  order->place = rows_note(r, graph_add1(r->graph, OP_ORDER, init, index));
  const Name name = name_of_index(r, order->index);
  graph_value(r->graph, order->place)->name = name;
  order->from = rows_note(r, order->place + 1);
  order->chosen = rows_note(r, order->place + 2);
  r->graph->role = role;
}

ValueId rows_place(Rows *r, int order, ValueId index) {
  if (r->orders.at[order].place < 0) {
    make_order(r, order, index);
  }
  return rows_here(r, r->orders.at[order].place);
}

ValueId rows_from(Rows *r, int order, ValueId index) {
  rows_place(r, order, index);
  return rows_here(r, r->orders.at[order].from);
}

ValueId rows_chosen(Rows *r, int order, ValueId index) {
  rows_place(r, order, index);
  return rows_here(r, r->orders.at[order].chosen);
}

// --- shapes ---

Shape rows_shape(const Rows *r, int number, Shape shape) {
  const RowOrder *order = &r->orders.at[number];
  const Shape rows = {2, {order->blocks, order->row}}, rest = shape_minus(shape, &order->positions);
  return shape_union(rows, &rest);
}

bool rows_wide(const Rows *r, Shape shape, int order) {
  const Shape *positions = &r->orders.at[order].positions;
  return shape_contains(&shape, positions) && shape.count > positions->count;
}

bool rows_by_positions(const Rows *r, const Node *node, int order) {
  const Shape *positions = &r->orders.at[order].positions;
  const bool apart = !shape_has(positions, node->axis) && !shape_has(positions, node->axis2) &&
                     shape_common(node->axes, positions).count == 0;
  // Ranks that share the places have other rows.
  const uint32_t shared = r->graph->axes.at[r->orders.at[order].axis].mesh;
  const bool moves = op_moves(node->op) && node->op != OP_PACK && node->op != OP_PART;
  const bool gives = op_collective(node->op) && ((uint32_t)node->integer & shared) == 0;
  return node->result_count == 1 && (node->op == OP_BROADCAST || (op_elementwise(node->op) && !op_indexes(node->op)) ||
                                     (apart && (op_reduction(node->op) || moves || gives)));
}

// --- padding ---

PaddingContent rows_content(const Rows *r, ValueId rows, int order) {
  const Node *node = graph_producer(r->graph, rows);
  if (node && node->op == OP_CONST) {
    const bool zero = !(node->number < 0) && !(node->number > 0) && !isnan(node->number);
    return zero ? PADDING_ZERO : isfinite(node->number) ? PADDING_FINITE : PADDING_ANY;
  }
  (void)order;
  for (int i = 0; i < r->exports.count; i++) {
    rows = r->exports.at[i].outside == rows ? r->exports.at[i].inside : rows;
  }
  return (PaddingContent)map_get_or(&r->contents, (uint64_t)rows, PADDING_ANY);
}

void rows_set_content(Rows *r, ValueId rows, PaddingContent content) {
  map_put(&r->contents, (uint64_t)rows, content);
}

static PaddingContent content_of(const Rows *r, const Node *node, int order) {
  PaddingContent *contents = ARENA_ARRAY(r->c->arena, PaddingContent, node->operand_count + 1);
  for (int i = 0; i < node->operand_count; i++) {
    contents[i] = rows_content(r, node->operands[i], order);
    contents[i] = op_padding_diverges(node->op) && contents[i] == PADDING_FINITE ? PADDING_ANY : contents[i];
  }
  return op_padding(node->op)->content(r->graph, node, r->orders.at[order].row, contents);
}

ValueId rows_masked(Rows *r, ValueId rows, int order, ValueId index) {
  int64_t known;
  if (rows_content(r, rows, order) == PADDING_ZERO) {
    return rows;
  }
  const uint64_t key[] = {(uint64_t)rows, (uint64_t)r->graph->region};
  if (map_get_bytes(&r->masked, key, sizeof key, &known)) {
    return (ValueId)known;
  }
  Graph *graph = r->graph;
  const ValueId none = graph_integer(graph, 0), from = rows_from(r, order, index);
  const ElementType real = graph->real;
  graph->real = graph_value(graph, rows)->type;
  const ValueId zero = graph_real(graph, 0);
  const ValueId made = graph_op3(graph, OP_WHERE, graph_op2(graph, OP_LESS_EQUAL, none, from), rows, zero);
  graph->real = real;
  graph_value(graph, made)->name = graph_value(graph, rows)->name;
  graph_value(graph, made)->role = graph_value(graph, rows)->role;
  rows_note(r, made);
  rows_set_content(r, made, PADDING_ZERO);
  map_put_bytes(&r->masked, key, sizeof key, made);
  return made;
}

// --- there ---

static int64_t sizes(const Rows *r, const Shape *axes, int from, int to) {
  int64_t count = 1;
  for (int i = from; i < to; i++) {
    count *= extent(r, axes->axis[i]);
  }
  return count < INT32_MAX ? count : INT32_MAX;  // more positions than that are refused
}

// Of the position in each row, its place in what has some axes of the positions alone, in the same order. A row without
// a position has none there either.
static ValueId place_among(Rows *r, int number, ValueId index, const Shape *axes) {
  Graph *graph = r->graph;
  const Shape positions = r->orders.at[number].positions;
  const ValueId from = rows_from(r, number, index);
  uint64_t key[] = {(uint64_t)number, 0, (uint64_t)graph->region};
  int64_t known = -1;
  for (int i = 0; i < axes->count; i++) {
    key[1] |= 1u << shape_find(&positions, axes->axis[i]);
  }
  if (axes->count == positions.count || map_get_bytes(&r->indices, key, sizeof key, &known)) {
    return axes->count == positions.count ? from : (ValueId)known;
  }
  ValueId place = -1;
  bool first = false;  // the first axes, and no others: what is before the first position stays there
  for (int i = 0, end = 0; i < positions.count; i = end) {
    for (end = i; end < positions.count && shape_has(axes, positions.axis[end]); end++) {
    }
    if (end == i) {
      end++;
      continue;
    }
    const ValueId size = graph_integer(graph, sizes(r, &positions, i, end));
    const ValueId after = graph_integer(graph, sizes(r, &positions, end, positions.count));
    ValueId here = graph_op2(graph, OP_DIV, from, after);
    here = i == 0 ? here : graph_op2(graph, OP_MOD, here, size);
    first = i == 0;
    place = place < 0 ? here : graph_op2(graph, OP_ADD, graph_op2(graph, OP_MUL, place, size), here);
  }
  if (!first) {
    const ValueId there = graph_op2(graph, OP_LESS_EQUAL, graph_integer(graph, 0), from);
    place = graph_op3(graph, OP_WHERE, there, place, graph_integer(graph, -1));
  }
  map_put_bytes(&r->indices, key, sizeof key, place);
  return place;
}

// The axes of the positions that a value has, as one.
static ValueId positions_merged(Rows *r, ValueId value, const Shape *axes, AxisId *merged) {
  *merged = axes->axis[0];
  if (axes->count == 1) {
    return value;
  }
  *merged = axis_of(r, "positions", graph_elements(r->graph, *axes));
  return graph_add1(r->graph, OP_MERGE, (NodeInit){NODE_INIT, .axes = *axes, .axis2 = *merged}, value);
}

static void like(Rows *r, ValueId made, ValueId value) {
  Value *to = graph_value(r->graph, made), *from = graph_value(r->graph, value);
  to->type = from->type;
  to->bound = from->bound;
  to->role = from->role;
  to->name = from->name;
  to->span = from->span;
}

static ValueId taken(Rows *r, ValueId value, int number, ValueId index) {
  Graph *graph = r->graph;
  const Shape shape = graph_shape(graph, value);
  const Shape axes = shape_common(r->orders.at[number].positions, &shape);
  const ValueId place = place_among(r, number, index, &axes);
  const bool truth = graph_value(graph, value)->type == TYPE_BOOL;
  AxisId merged;
  ValueId from = value;
  if (truth) {  // lookups are of numbers
    from = graph_op3(graph, OP_WHERE, value, graph_integer(graph, 1), graph_integer(graph, 0));
  }
  from = positions_merged(r, from, &axes, &merged);
  ValueId made = graph_add2(graph, OP_TAKE, (NodeInit){NODE_INIT, .axis = merged}, from, place);
  if (truth) {
    return graph_op2(graph, OP_EQUAL, made, graph_integer(graph, 1));
  }
  like(r, made, value);
  rows_set_content(r, made, PADDING_ZERO);
  return made;
}

// What is only repeated for more positions is rounded before: rows of it are smaller then.
static ValueId rounded_first(Rows *r, const Node *node, int number) {
  const Node *repeated = node->op == OP_CAST ? graph_producer(r->graph, node->operands[0]) : NULL;
  const ValueId source = repeated && repeated->op == OP_BROADCAST ? repeated->operands[0] : -1;
  const Shape had = source >= 0 ? graph_shape(r->graph, source) : (Shape){0};
  const Shape more = source >= 0 ? shape_minus(repeated->axes, &had) : (Shape){0};
  if (source < 0 || !shape_contains(&r->orders.at[number].positions, &more)) {
    return -1;
  }
  const ValueId value = node->first_result;
  const NodeInit init = {NODE_INIT, .text = node->text};
  const ValueId made = graph_add1(r->graph, OP_CAST, init, source);
  graph_value(r->graph, made)->role = graph_value(r->graph, value)->role;
  graph_value(r->graph, made)->name = graph_value(r->graph, value)->name;
  return made;
}

// What is computed for each position alone, and read in rows, is computed there.
static ValueId computed(Rows *r, ValueId value, int number, ValueId index, bool again) {
  const Node *node = graph_producer(r->graph, value);
  const bool here = value < r->limit && node && r->home[graph_value(r->graph, value)->node] == r->graph->region;
  if (!here || !rows_by_positions(r, node, number) || op_collective(node->op) ||
      !(node->op == OP_BROADCAST || rows_wide(r, graph_shape(r->graph, value), number))) {
    return -1;
  }
  const ValueId rounded = rounded_first(r, node, number);
  if (rounded >= 0) {
    return rows_of(r, rounded, number, index, again);
  }
  node = graph_producer(r->graph, value);
  ValueId *operands = ARENA_ARRAY(r->c->arena, ValueId, node->operand_count + 1);
  for (int i = 0; i < node->operand_count; i++) {
    operands[i] = rows_of(r, node->operands[i], number, index, again);
    node = graph_producer(r->graph, value);
  }
  const Shape shape = graph_shape(r->graph, operands[0]), all = rows_shape(r, number, node->axes);
  return node->op == OP_BROADCAST && shape_same_set(&shape, &all) ? operands[0] : rows_again(r, node, operands, number);
}

ValueId rows_of(Rows *r, ValueId value, int number, ValueId index, bool again) {
  Graph *graph = r->graph;
  const ValueId inside = inside_of(r, value);
  if (inside < r->limit && r->order[inside] == number + 1) {
    return rows_here(r, r->in_rows[inside]);
  }
  const Shape shape = graph_shape(graph, value);
  int64_t known;
  const uint64_t key[] = {(uint64_t)inside, (uint64_t)number};
  value = rows_outside(r, value);
  if (shape_common(shape, &r->orders.at[number].positions).count == 0) {
    return value;
  }
  if (map_get_bytes(&r->taken[again], key, sizeof key, &known)) {
    return rows_here(r, (ValueId)known);
  }
  ValueId made = computed(r, value, number, index, again);
  made = made < 0 ? taken(r, value, number, index) : made;
  map_put_bytes(&r->taken[again], key, sizeof key, rows_note(r, made));
  return made;
}

// The axes that a node names, of what it is in rows.
static Shape axes_in_rows(const Rows *r, const Node *node, int number) {
  const Shape *positions = &r->orders.at[number].positions;
  if (node->op == OP_BROADCAST || shape_contains(&node->axes, positions)) {
    return rows_shape(r, number, node->axes);
  }
  if (shape_common(node->axes, positions).count == 0) {
    return node->axes;
  }
  return shape_minus(node->axes, positions);  // what comes last in memory, such as one axis of the positions
}

ValueId rows_again(Rows *r, const Node *node, const ValueId *operands, int number) {
  Graph *graph = r->graph;
  const GraphPlace place = graph_place(graph);
  const ValueId old = node->first_result;
  const bool recomputed = node->recomputed, apart = node->apart;
  const Name why = node->why;
  const Span rule = node->rule;
  NodeInit init = {NODE_INIT,
                   .axes = axes_in_rows(r, node, number),
                   .axis = node->axis,
                   .axis2 = node->axis2,
                   .integer = node->integer,
                   .number = node->number,
                   .text = node->text};
  graph_follow(graph, node);
  const Op op = node->op;
  const int count = node->operand_count;
  const ElementType real = graph->real;
  graph->real = element_type_floating(graph_value(graph, old)->type) ? graph_value(graph, old)->type : real;
  const ValueId made = graph_add(graph, op, init, operands, count);
  graph->real = real;
  graph_return(graph, place);
  Node *now = graph_producer(graph, made);
  now->recomputed = recomputed;
  now->apart = apart;
  now->why = why;
  now->rule = rule;
  like(r, made, old);
  graph_value(graph, made)->label = graph_value(graph, old)->label;
  graph_value(graph, made)->path = graph_value(graph, old)->path;
  rows_set_content(r, made, content_of(r, graph_producer(graph, made), number));
  return rows_note(r, made);
}

// --- and back ---

ValueId rows_spread(Rows *r, ValueId rows, int number) {
  const Shape shape = graph_shape(r->graph, rows), all = rows_shape(r, number, shape);
  if (shape_same_set(&shape, &all)) {
    return rows;
  }
  const ValueId made = graph_add1(r->graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = all}, rows);
  like(r, made, rows);
  rows_set_content(r, made, rows_content(r, rows, number));
  return rows_note(r, made);
}

ValueId rows_back(Rows *r, ValueId rows, int number, ValueId index, Shape summed) {
  Graph *graph = r->graph;
  const RowOrder order = r->orders.at[number];
  const Shape both = {2, {order.blocks, order.row}};
  const ValueId place = rows_place(r, number, index), all = rows_spread(r, rows, number);
  const ValueId merged = graph_add1(graph, OP_MERGE, (NodeInit){NODE_INIT, .axes = both, .axis2 = order.rows}, all);
  const NodeInit init = {NODE_INIT, .axis = order.rows, .axes = summed};
  return graph_add2(graph, summed.count ? OP_TAKE_SUM : OP_TAKE, init, merged, place);
}

// What the node of a value in rows gives where all that is in rows is 0, by the rules of padding.
static PaddingContent without_row(Rows *r, const Node *node, int order) {
  PaddingContent *contents = ARENA_ARRAY(r->c->arena, PaddingContent, node->operand_count + 1);
  for (int i = 0; i < node->operand_count; i++) {
    const ValueId operand = inside_of(r, node->operands[i]);
    const bool in_rows = operand < r->limit && r->order[operand] == order + 1;
    const bool zero = in_rows && rows_zero_without(r, operand);
    contents[i] = zero ? PADDING_ZERO : in_rows ? PADDING_FINITE : rows_content(r, operand, order);
    contents[i] = contents[i] == PADDING_ANY ? PADDING_FINITE : contents[i];  // a number of a position
    contents[i] = op_padding_diverges(node->op) && contents[i] == PADDING_FINITE ? PADDING_ANY : contents[i];
  }
  return op_padding(node->op)->content(r->graph, node, r->orders.at[order].positions.axis[0], contents);
}

bool rows_zero_without(Rows *r, ValueId value) {
  const ValueId inside = inside_of(r, value);
  const int order = inside < r->limit ? r->order[inside] - 1 : -1;
  int64_t known;
  if (order < 0 || r->c->spec->capacity == 0) {  // without a capacity all have rows, or are what another rank has
    return true;
  }
  if (!map_get(&r->zeros, (uint64_t)inside, &known)) {
    const Node *node = graph_producer(r->graph, inside);
    known = op_indexes(node->op) || rows_keeps_chosen(r, node, order) ||  // an index outside gives 0
            without_row(r, node, order) == PADDING_ZERO;
    map_put(&r->zeros, (uint64_t)inside, known);
  }
  return known != 0;
}

// The same once more, of operands that are not in rows.
static ValueId outside_again(Rows *r, ValueId value) {
  Graph *graph = r->graph;
  const NodeId id = graph_value(graph, value)->node;
  const int count = graph_node(graph, id)->operand_count;
  ValueId *operands = ARENA_ARRAY(r->c->arena, ValueId, count + 1);
  for (int i = 0; i < count; i++) {
    operands[i] = rows_outside(r, graph_node(graph, id)->operands[i]);
  }
  return graph_node(graph, graph_clone(graph, id, operands))->first_result;
}

ValueId rows_outside(Rows *r, ValueId value) {
  const ValueId inside = inside_of(r, value);
  const int order = inside < r->limit ? r->order[inside] - 1 : -1;
  int64_t known;
  const uint64_t key[] = {(uint64_t)inside, (uint64_t)r->graph->region};
  if (order < 0 || map_get_bytes(&r->tokens, key, sizeof key, &known)) {
    return order < 0 ? value : (ValueId)known;
  }
  const bool zero = rows_zero_without(r, inside);
  const ValueId made =
      zero ? rows_back(r, rows_here(r, r->in_rows[inside]), order, r->orders.at[order].index, (Shape){0})
           : outside_again(r, inside);
  like(r, made, inside);
  graph_value(r->graph, made)->label = graph_value(r->graph, inside)->label;
  map_put_bytes(&r->tokens, key, sizeof key, rows_note(r, made));
  return made;
}

// The first positions of each place are those whose rows come first among its rows.
ValueId rows_limited(Rows *r, const Node *limit) {
  Graph *graph = r->graph;
  const ValueId index = rows_outside(r, limit->operands[0]);
  RowOrder order = {.index = index, .axis = limit->axis, .positions = limit->axes, .place = -1};
  const int64_t most = rows_limit(r, limit);
  size_rows(r, &order);
  const NodeInit init = order_node(&order);
  const ValueId place = graph_add1(graph, OP_ORDER, init, index), chosen = place + 2;
  const Name name = name_of_index(r, index);
  graph_value(graph, place)->name = name;
  // The first block of each place: a real number of few digits, since what is compared over blocks is real.
  const ValueId here = graph_op2(graph, OP_EQUAL, chosen, position(graph, order.axis));
  const ValueId number = graph_op1(graph, OP_TO_REAL, position(graph, order.blocks));
  const ValueId blocks = graph_op3(graph, OP_WHERE, here, number, graph_real(graph, (double)extent(r, order.blocks)));
  const ValueId first = graph_add1(graph, OP_REDUCE_MIN, (NodeInit){NODE_INIT, .axes = shape_of(order.blocks)}, blocks);
  const ValueId taken = graph_add2(graph, OP_TAKE, (NodeInit){NODE_INIT, .axis = order.axis}, first, index);
  const ValueId begin =
      graph_op2(graph, OP_MUL, graph_op1(graph, OP_TO_INT, taken), graph_integer(graph, extent(r, order.row)));
  const ValueId before = graph_op2(graph, OP_SUB, place, begin), none = graph_integer(graph, 0);
  const ValueId fits = graph_op2(graph, OP_AND, graph_op2(graph, OP_LESS_EQUAL, none, place),
                                 graph_op2(graph, OP_LESS, before, graph_integer(graph, most)));
  return graph_op3(graph, OP_WHERE, fits, index, graph_integer(graph, -1));
}
