// chunk.c: logits and what is made of them in parts of their rows, so that one part at a time is alive.
//
// Needs storage order. Looks for a product with a large result (the logits) along whose columns something is taken by
// index (the loss). All that reads values of that size, and all that lies between such readers, moves into one node
// that runs once for each part of the rows: the product, the loss with its gradient, and the two products that read the
// gradient. Where anything among them is not independent by rows, the logits stay whole.
#include <string.h>

#include "compiler/fuse/chunk.h"

// A part has few bytes of logits, but enough rows for products to keep their speed: the gradient of the weights is read
// and written once more for each part, 8 bytes for 6 * CHUNK_ROWS operations. From CHUNK_FEW parts on twice the bytes
// will do: on an H200 four parts of GPT-2's logits cost 0.8% of its speed, and eight 1.3%, for a thirtieth of its
// memory.
enum { CHUNK_BYTES = 1 << 30, CHUNK_ROWS = 8192, CHUNK_FEW = 4, CHUNK_MOST_PARTS = 512 };

typedef struct {
  Compilation *c;
  Graph *graph;
  NodeList nodes;  // of the region at hand
  NodeList takes;  // those of them that look something up
  int *place;      // by node: where in `nodes` it, or what it is inside of, stands; -1: elsewhere
  int node_limit;  // of these tables
  // Of one cut:
  NodeId head;
  AxisId axis, part;
  Shape columns;
  int64_t parts;
  bool *member, *after, *before;  // by place: in the cut, behind some of it, ahead of some of it
} Chunker;

typedef void OperandVisitor(void *context, ValueId *operand);

// What a node reads, the nodes and results of its region among it.
static void visit_operands(Graph *graph, NodeId id, OperandVisitor *visit, void *context) {
  Node *node = graph_node(graph, id);
  for (int i = 0; i < node->operand_count; i++) {
    visit(context, &node->operands[i]);
  }
  if (node->region >= 0) {
    Region *region = &graph->regions.at[node->region];
    for (int i = 0; i < region->nodes.count; i++) {
      visit_operands(graph, region->nodes.at[i], visit, context);
    }
    for (int i = 0; i < region->results.count; i++) {
      visit(context, &region->results.at[i]);
    }
  }
}

static int place_of_maker(const Chunker *k, ValueId value) {
  NodeId maker = graph_value(k->graph, value)->node;
  return maker < 0 || maker >= k->node_limit ? -1 : k->place[maker];
}

static bool made_inside(const Chunker *k, ValueId value) {
  int at = place_of_maker(k, value);
  return at >= 0 && k->member[at];
}

static bool is_cut(const Chunker *k, ValueId value) {
  Shape shape = graph_shape(k->graph, value);
  return shape_has(&shape, k->axis);
}

static bool is_large(const Chunker *k, ValueId value) {
  Shape shape = graph_shape(k->graph, value);
  return is_cut(k, value) && shape_contains(&shape, &k->columns);
}

// --- what belongs to a cut ---

typedef struct {
  Chunker *k;
  int at;
  bool changed;
} Walk;

static void mark_reader(void *context, ValueId *operand) {
  Walk *walk = context;
  Chunker *k = walk->k;
  if (!k->member[walk->at] && made_inside(k, *operand) && is_large(k, *operand)) {
    k->member[walk->at] = walk->changed = true;
  }
}

static void mark_after(void *context, ValueId *operand) {
  Walk *walk = context;
  int from = place_of_maker(walk->k, *operand);
  walk->k->after[walk->at] |= from >= 0 && from != walk->at && (walk->k->member[from] || walk->k->after[from]);
}

static void mark_before(void *context, ValueId *operand) {
  Walk *walk = context;
  int from = place_of_maker(walk->k, *operand);
  if (from >= 0 && from != walk->at) {
    walk->k->before[from] |= walk->k->member[walk->at] || walk->k->before[walk->at];
  }
}

static void grow(Chunker *k) {
  Walk walk = {k, 0, true};
  int count = k->nodes.count;
  while (walk.changed) {
    walk.changed = false;
    for (walk.at = 0; walk.at < count; walk.at++) {
      visit_operands(k->graph, k->nodes.at[walk.at], mark_reader, &walk);
    }
    memset(k->after, 0, sizeof *k->after * (size_t)count);
    memset(k->before, 0, sizeof *k->before * (size_t)count);
    for (walk.at = 0; walk.at < count; walk.at++) {
      visit_operands(k->graph, k->nodes.at[walk.at], mark_after, &walk);
    }
    for (walk.at = count - 1; walk.at >= 0; walk.at--) {
      visit_operands(k->graph, k->nodes.at[walk.at], mark_before, &walk);
    }
    for (int i = 0; i < count; i++) {
      if (!k->member[i] && k->after[i] && k->before[i]) {
        k->member[i] = walk.changed = true;
      }
    }
  }
}

// --- is it independent by rows? ---

typedef struct {
  const Chunker *k;
  int at;  // who reads; -1: the region's end
  bool good;
} Reading;

// Inside, of what is made inside only rows may be read; outside, nothing large.
static void check_reading(void *context, ValueId *operand) {
  Reading *reading = context;
  const Chunker *k = reading->k;
  const Node *maker = graph_producer(k->graph, *operand);
  bool inside = reading->at >= 0 && k->member[reading->at];
  if (inside && place_of_maker(k, *operand) == reading->at) {
    return;
  }
  if (made_inside(k, *operand)) {
    reading->good &= inside ? is_cut(k, *operand) : !is_large(k, *operand) && !op_alias(maker->op);
  } else if (inside) {
    reading->good &= graph_value(k->graph, *operand)->bound != k->axis;
  }
}

// Between the first and the last of a cut, what it does not need moves behind it: not what has an effect on others.
static bool can_move(const Node *node) {
  const bool effect = op_effect(node->op) && node->op != OP_OUTPUT;
  return !effect && node->op != OP_RECEIVE && !op_body(node->op);
}

static bool cut_is_good(const Chunker *k, const ValueList *results, int first, int last) {
  Reading reading = {k, -1, true};
  for (int i = 0; i < results->count; i++) {
    ValueId value = results->at[i];
    check_reading(&reading, &value);
  }
  for (int i = 0; i < k->nodes.count && reading.good; i++) {
    const Node *node = graph_node(k->graph, k->nodes.at[i]);
    reading.at = i;
    visit_operands(k->graph, k->nodes.at[i], check_reading, &reading);
    reading.good &= !k->member[i] || chunk_by_rows(k->graph, k->axis, node);
    reading.good &= k->member[i] || i < first || i > last || can_move(node);
  }
  return reading.good;
}

// --- the node that runs for each part ---

typedef struct {
  Chunker *k;
  Map inside;          // what is cut outside, to the part of it inside
  ValueList operands;  // outside
  ValueList parameters;
  bool *read;         // by value: made inside, read outside
  ValueId *replaced;  // by value: by what the node gives; -1: as it is
  int value_limit;
} Body;

static void cut_value(const Chunker *k, Value *value) {
  Arena *arena = k->graph->arena;
  shape_replace(&value->shape, k->axis, k->part);
  for (int i = 0; value->sharding && i < value->sharding->entry_count; i++) {
    if (value->sharding->entries[i].axis == k->axis) {
      Sharding *sharding = arena_copy(arena, value->sharding, sizeof *sharding);
      size_t bytes = sizeof *sharding->entries * (size_t)sharding->entry_count;
      sharding->entries = arena_copy(arena, sharding->entries, bytes);
      sharding->entries[i].axis = k->part;
      value->sharding = sharding;
    }
  }
}

static void cut_node(const Chunker *k, NodeId id) {
  Graph *graph = k->graph;
  Node *node = graph_node(graph, id);
  shape_replace(&node->axes, k->axis, k->part);
  for (int i = 0; i < node->result_count; i++) {
    cut_value(k, graph_value(graph, node->first_result + i));
  }
  for (int i = 0; node->region >= 0 && i < graph->regions.at[node->region].nodes.count; i++) {
    cut_node(k, graph->regions.at[node->region].nodes.at[i]);
  }
}

static void take_parameter(void *context, ValueId *operand) {
  Body *body = context;
  Graph *graph = body->k->graph;
  if (made_inside(body->k, *operand) || !is_cut(body->k, *operand)) {
    return;
  }
  int64_t known = map_get_or(&body->inside, (uint64_t)*operand, -1);
  if (known < 0) {
    Value value = *graph_value(graph, *operand);
    value.node = -1;
    value.result = 0;
    cut_value(body->k, &value);
    known = graph_new_value(graph, value);
    map_put(&body->inside, (uint64_t)*operand, known);
    array_push(graph->arena, &body->operands, *operand);
    array_push(graph->arena, &body->parameters, (ValueId)known);
  }
  *operand = (ValueId)known;
}

static void mark_read(void *context, ValueId *operand) {
  Body *body = context;
  body->read[*operand] |= made_inside(body->k, *operand);
}

static void replace_read(void *context, ValueId *operand) {
  const Body *body = context;
  if (*operand < body->value_limit && body->replaced[*operand] >= 0) {
    *operand = body->replaced[*operand];
  }
}

static void describe(Graph *graph, ValueId made, const Value *like) {
  Value *value = graph_value(graph, made);
  value->type = like->type;
  value->role = like->role;
  value->name = like->name;
  value->label = like->label;
  value->span = like->span;
  value->sharding = like->sharding;
}

// The sum of a kernel's sums over the parts.
static ValueId sum_parts(Graph *graph, ValueId parts, AxisId over, const Value *like) {
  RegionId outer = graph->region, inner = graph_region(graph);
  graph->region = inner;
  ValueId sum = graph_add1(graph, OP_SUM, (NodeInit){NODE_INIT, .axes = shape_of(over)}, parts);
  describe(graph, sum, like);
  array_push(graph->arena, &graph->regions.at[inner].results, sum);
  graph->region = outer;
  NodeInit init = {NODE_INIT, .region = inner, .axes = graph_shape(graph, parts)};
  for (int i = 1; i < init.axes.count; i++) {
    init.integer |= (int64_t)1 << i;
  }
  ValueId made = graph_add0(graph, OP_GROUP, init);
  describe(graph, made, like);
  return made;
}

static void set_origin(Graph *graph, NodeId id) {
  const Node *node = graph_node(graph, id);
  graph->span = node->span;
  graph->scope = node->scope;
  graph->backward = node->backward;
  graph->source = node->source;
}

static AxisId new_part(Chunker *k) {
  Graph *graph = k->graph;
  const Axis whole = graph->axes.at[k->axis];
  AxisId part = graph_axis(graph, name_format(graph->names, "%s.part", whole.name), whole.size / k->parts);
  Axis *made = &graph->axes.at[part];
  made->global = whole.global;
  made->whole = axis_whole(graph, k->axis);
  made->mesh = whole.mesh;
  made->zigzag = whole.zigzag;
  return part;
}

// The members, in a region of their own; what is read of them outside is its results.
static RegionId make_body(Body *body) {
  Chunker *k = body->k;
  Graph *graph = k->graph;
  RegionId id = graph_region(graph);
  for (int i = 0; i < k->nodes.count; i++) {
    if (!k->member[i]) {
      continue;
    }
    NodeId member = k->nodes.at[i];
    visit_operands(graph, member, take_parameter, body);
    array_push(graph->arena, &graph->regions.at[id].nodes, member);
    for (int j = 0; j < graph_node(graph, member)->result_count; j++) {
      ValueId value = graph_node(graph, member)->first_result + j;
      if (body->read[value]) {
        array_push(graph->arena, &graph->regions.at[id].results, value);
      }
    }
  }
  graph->regions.at[id].parameters = body->parameters;
  return id;
}

static void run_in_parts(Chunker *k, RegionId region) {
  Graph *graph = k->graph;
  Body body = {.k = k, .inside = map_create(k->c->arena), .value_limit = graph->values.count};
  body.read = ARENA_ARRAY(k->c->arena, bool, body.value_limit + 1);
  body.replaced = ARENA_ARRAY(k->c->arena, ValueId, body.value_limit + 1);
  memset(body.replaced, -1, sizeof *body.replaced * (size_t)(body.value_limit + 1));
  k->part = new_part(k);
  AxisId each = graph_axis(graph, name_of(graph->names, "chunk"), k->parts);
  for (int i = 0; i < k->nodes.count; i++) {
    if (!k->member[i]) {
      visit_operands(graph, k->nodes.at[i], mark_read, &body);
    }
  }
  ValueList ends = graph->regions.at[region].results;
  for (int i = 0; i < ends.count; i++) {
    mark_read(&body, &ends.at[i]);
  }
  RegionId inner = make_body(&body);
  const ValueList results = graph->regions.at[inner].results;
  Value *like = ARENA_ARRAY(k->c->arena, Value, results.count + 1);
  for (int i = 0; i < results.count; i++) {
    like[i] = *graph_value(graph, results.at[i]);
  }
  for (int i = 0; i < graph->regions.at[inner].nodes.count; i++) {
    cut_node(k, graph->regions.at[inner].nodes.at[i]);
  }
  set_origin(graph, k->head);
  NodeInit init = {NODE_INIT, .region = inner, .axes = shape_of(each), .axis = k->axis};
  init.axis2 = k->part;
  ValueId first = graph_add(graph, OP_CHUNKS, init, body.operands.at, body.operands.count);
  for (int i = 0; i < results.count; i++) {
    ValueId made = first + i;
    Shape shape = graph_shape(graph, made);
    describe(graph, made, &like[i]);
    body.replaced[results.at[i]] = shape_has(&shape, each) ? sum_parts(graph, made, each, &like[i]) : made;
  }
  for (int i = 0; i < k->nodes.count; i++) {
    if (!k->member[i]) {
      visit_operands(graph, k->nodes.at[i], replace_read, &body);
    }
  }
  for (int i = 0; i < ends.count; i++) {
    replace_read(&body, &ends.at[i]);
  }
}

// The region again: between the first and the last of the cut, first what the cut does not precede, then the cut.
static void reorder(Chunker *k, RegionId region, int first, int last, const NodeList *made) {
  Graph *graph = k->graph;
  NodeList order = {0};
  for (int i = 0; i < last + 1; i++) {
    if (!k->member[i] && (i < first || !k->after[i])) {
      array_push(graph->arena, &order, k->nodes.at[i]);
    }
  }
  for (int i = 0; i < made->count; i++) {
    array_push(graph->arena, &order, made->at[i]);
  }
  for (int i = first; i < k->nodes.count; i++) {
    if (!k->member[i] && (i > last || k->after[i])) {
      array_push(graph->arena, &order, k->nodes.at[i]);
    }
  }
  graph->regions.at[region].nodes = order;
}

// --- which ---

// The operand without the columns of a product of two matrices: its rows come first in memory, and may be cut.
static bool find_rows(Chunker *k, const Node *dot) {
  const Graph *graph = k->graph;
  Shape result = graph_shape(graph, dot->first_result);
  for (int s = 0; s < 2; s++) {
    Shape rows = graph_shape(graph, dot->operands[s]), other = graph_shape(graph, dot->operands[1 - s]);
    int lead = 0;
    while (lead < rows.count && graph->axes.at[rows.axis[lead]].size == 1) {
      lead++;
    }
    k->columns = shape_minus(result, &rows);
    bool mine = lead < rows.count && shape_has(&result, rows.axis[lead]) && !shape_has(&other, rows.axis[lead]);
    for (int i = 0; mine && k->columns.count > 0 && i < k->takes.count; i++) {
      const Node *node = graph_node(graph, k->takes.at[i]);
      if (shape_has(&k->columns, node->axis)) {
        k->axis = rows.axis[lead];
        return true;
      }
    }
  }
  return false;
}

int64_t chunk_bytes(const Compilation *c) {
  return c->chunk_bytes ? c->chunk_bytes : CHUNK_BYTES;
}

static bool small_enough(const Chunker *k, int64_t bytes, int64_t parts) {
  const int64_t most = chunk_bytes(k->c);
  return bytes / parts <= (k->c->chunk_bytes || parts < CHUNK_FEW ? most : 2 * most);
}

// As few parts as have few enough bytes; if there are none, as many as have rows enough.
static int64_t parts_of(const Chunker *k, int64_t bytes, int64_t rows) {
  int64_t least = k->c->chunk_bytes ? 1 : CHUNK_ROWS, best = 1;
  int64_t size = k->graph->axes.at[k->axis].size;
  for (int64_t n = 1; n <= size && n <= CHUNK_MOST_PARTS && rows / n >= least && !small_enough(k, bytes, best); n++) {
    best = size % n == 0 ? n : best;
  }
  return best;
}

static bool takes_columns(const Chunker *k) {
  for (int i = 0; i < k->nodes.count; i++) {
    const Node *node = graph_node(k->graph, k->nodes.at[i]);
    if (k->member[i] && node->op == OP_TAKE && shape_has(&k->columns, node->axis)) {
      return true;
    }
  }
  return false;
}

static void set_place(Chunker *k, RegionId region, int at) {
  const NodeList *nodes = &k->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(k->graph, nodes->at[i]);
    k->place[nodes->at[i]] = at < 0 ? i : at;
    if (node->region >= 0) {
      set_place(k, node->region, at < 0 ? i : at);
    }
  }
}

static void start(Chunker *k, RegionId region) {
  Arena *arena = k->c->arena;
  k->nodes = k->graph->regions.at[region].nodes;
  k->node_limit = k->graph->nodes.count;
  k->place = ARENA_ARRAY(arena, int, k->node_limit + 1);
  memset(k->place, -1, sizeof *k->place * (size_t)(k->node_limit + 1));
  set_place(k, region, -1);
  k->member = ARENA_ARRAY(arena, bool, k->nodes.count + 1);
  k->after = ARENA_ARRAY(arena, bool, k->nodes.count + 1);
  k->before = ARENA_ARRAY(arena, bool, k->nodes.count + 1);
  k->takes = (NodeList){0};
  for (int i = 0; i < k->nodes.count; i++) {
    if (graph_node(k->graph, k->nodes.at[i])->op == OP_TAKE) {
      array_push(arena, &k->takes, k->nodes.at[i]);
    }
  }
}

static bool counts_apart(Chunker *k, RegionId region) {
  bool any = false;
  for (int i = 0; i < k->nodes.count; i++) {
    bool kernel = k->member[i] && graph_node(k->graph, k->nodes.at[i])->op == OP_GROUP;
    any |= kernel && chunk_counts(k->c, region, k->nodes.at[i]);
  }
  return any;
}

// Finds all that must go with the logits; *last is the place of the last of them.
static bool find_members(Chunker *k, RegionId region, int at, int *last) {
  memset(k->member, 0, sizeof *k->member * (size_t)k->nodes.count);
  k->member[at] = true;
  grow(k);
  for (int i = *last = at; i < k->nodes.count; i++) {
    *last = k->member[i] ? i : *last;
  }
  return takes_columns(k) && cut_is_good(k, &k->graph->regions.at[region].results, at, *last);
}

static bool try_head(Chunker *k, RegionId region, int at) {
  Graph *graph = k->graph;
  const Node *dot = graph_node(graph, k->nodes.at[at]);
  if (dot->op != OP_DOT || !find_rows(k, dot)) {
    return false;
  }
  k->head = k->nodes.at[at];
  int64_t elements = graph_elements(graph, graph_shape(graph, dot->first_result));
  int64_t bytes = elements * element_type_bytes(graph_value(graph, dot->first_result)->type);
  k->parts = parts_of(k, bytes, elements / graph_elements(graph, k->columns));
  if (k->parts == 1) {
    return false;
  }
  int last;
  bool good = find_members(k, region, at, &last);
  if (!good && takes_columns(k) && counts_apart(k, region)) {
    start(k, region);  // the logits stand where they stood: what is new comes after them
    good = find_members(k, region, at, &last);
  }
  if (good) {
    graph_rewrite(graph, region);  // what is made is put between by hand
    run_in_parts(k, region);
    NodeList made = graph->regions.at[region].nodes;
    reorder(k, region, at, last, &made);
  }
  return good;
}

static void chunk_region(Chunker *k, RegionId region) {
  start(k, region);
  for (int i = 0; i < k->nodes.count; i++) {
    if (try_head(k, region, i)) {
      start(k, region);
    }
  }
  const NodeList nodes = k->nodes;
  for (int i = 0; i < nodes.count; i++) {
    const Node node = *graph_node(k->graph, nodes.at[i]);
    if (op_body(node.op)) {
      chunk_region(k, node.region);
    }
  }
}

bool pass_chunk(Compilation *c) {
  Chunker k = {.c = c, .graph = c->graph};
  chunk_region(&k, 0);
  c->graph->region = 0;
  c->graph->backward = false;
  c->graph->source = -1;
  return true;
}
