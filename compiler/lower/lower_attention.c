// lower_attention.c: attention and its gradient as instructions, on keys that are here or that go round a ring.
#include <string.h>

#include "compiler/ir/attention.h"
#include "compiler/lower/lower.h"

static int64_t extent(const Lower *l, AxisId axis) {
  return axis < 0 ? 1 : l->graph->axes.at[axis].size;
}

typedef struct {
  AxisId batch, head, group, depth, value_depth;
} AttentionAxes;

static AttentionAxes attention_axes(const Node *node) {
  AttentionAxes axes = {-1, -1, -1, -1, -1};
  int at = 0;
  axes.batch = node->integer & ATTENTION_HAS_BATCH ? node->axes.axis[at++] : -1;
  axes.head = node->integer & ATTENTION_HAS_HEADS ? node->axes.axis[at++] : -1;
  axes.group = node->integer & ATTENTION_HAS_GROUP ? node->axes.axis[at++] : -1;
  axes.depth = node->axes.axis[at++];
  axes.value_depth = node->integer & ATTENTION_HAS_VALUE_DEPTH ? node->axes.axis[at] : axes.depth;
  return axes;
}

// The kernels want rows of the depth, without gaps.
static bool has_rows(Lower *l, ValueId value, AxisId depth) {
  return stride_of(l, value, depth) == 1 || extent(l, depth) == 1;
}

// A value without gaps in this buffer, with the depth last.
static Storage rows_in(const Lower *l, int buffer, ValueId value, AxisId depth) {
  Shape shape = graph_shape(l->graph, value), order = shape;
  Storage rows = {.buffer = buffer};
  int64_t stride = 1;
  shape_remove(&order, depth);
  shape_push(&order, depth);
  for (int i = order.count - 1; i >= 0; i--) {
    rows.stride[shape_find(&shape, order.axis[i])] = stride;
    stride *= extent(l, order.axis[i]);
  }
  return rows;
}

static Storage rows_of(Lower *l, ValueId value, AxisId depth) {
  int64_t bytes = graph_elements(l->graph, graph_shape(l->graph, value)) * type_bytes(l, value);
  return rows_in(l, new_buffer(l, ARENA_TRANSIENT, bytes), value, depth);
}

static Place attention_place(Lower *l, ValueId value, const Storage *storage, const AxisId *dims, int count,
                             int64_t *strides) {
  Shape shape = graph_shape(l->graph, value);
  for (int i = 0; i < count; i++) {
    int at = dims[i] < 0 || extent(l, dims[i]) == 1 ? -1 : shape_find(&shape, dims[i]);
    strides[i] = at < 0 ? 0 : storage->stride[at];
  }
  return place_of(l, storage);
}

// A value without rows is copied.
static Place attention_operand(Lower *l, ValueId value, const AxisId *dims, int count, AxisId depth, int64_t *strides) {
  if (!has_rows(l, value, depth)) {
    Storage to = rows_of(l, value, depth), from = *storage_of(l, value);
    lower_copy(l, graph_shape(l->graph, value), graph_value(l->graph, value)->type, &from, &to, WRITE_STORE);
    const Node *maker = graph_producer(l->graph, value);
    if (maker && (maker->op == OP_PARAM || maker->op == OP_STATE)) {  // stays where it is stored
      return attention_place(l, value, &to, dims, count, strides);
    }
    l->storage[value] = to;
  }
  return attention_place(l, value, storage_of(l, value), dims, count, strides);
}

typedef struct {
  ValueId value;
  Storage made;  // where the kernel writes it
} AttentionResult;

// A result that is wanted without rows is made beside its place; keep_result copies it there.
static Place attention_result(Lower *l, AttentionResult *result, const AxisId *dims, int count, AxisId depth,
                              int64_t *strides) {
  ValueId value = result->value;
  result->made = has_rows(l, value, depth) ? *storage_of(l, value) : rows_of(l, value, depth);
  return attention_place(l, value, &result->made, dims, count, strides);
}

static void keep_result(Lower *l, const AttentionResult *result) {
  Storage to = *storage_of(l, result->value);
  if (result->made.buffer != to.buffer) {
    const Value *value = graph_value(l->graph, result->value);
    lower_copy(l, value->shape, value->type, &result->made, &to, WRITE_STORE);
  }
}

// The kernel reads statistics, by batch, head, group and query, and slopes, by head and group, densely. A part of them
// is copied.
static Place dense_operand(Lower *l, const Node *node, ValueId value) {
  Shape shape = graph_shape(l->graph, value), order = shape_common(node->axes, &shape);
  if (shape_has(&shape, node->axis)) {
    shape_push(&order, node->axis);
  }
  Storage from = *storage_of(l, value), to = dense_storage(l, order, type_bytes(l, value)), dense = to;
  bool same = true;
  for (int i = 0; i < shape.count; i++) {
    dense.stride[i] = to.stride[shape_find(&order, shape.axis[i])];
    same = same && (from.stride[i] == dense.stride[i] || extent(l, shape.axis[i]) == 1);
  }
  if (same) {
    return place_of(l, &from);
  }
  lower_copy(l, shape, graph_value(l->graph, value)->type, &from, &dense, WRITE_STORE);
  return place_of(l, &dense);
}

// Where a rank's queries, or keys, stand among all of them; returns in how many parts they lie.
static int positions_of(Lower *l, AxisId axis, int64_t first[2], int term[2]) {
  const Axis *part = &l->graph->axes.at[axis];
  int64_t rank[PLAN_MAX_MESH] = {0}, minor = part->size;
  for (int m = PLAN_MAX_MESH - 1; m >= 0; m--) {
    if (part->mesh >> m & 1) {
      rank[m] = minor;
      minor *= l->c->spec->mesh[m].size;
    }
  }
  if (!part->zigzag) {
    term[0] = term_of(l, rank);
    return 1;
  }
  int major = __builtin_ctz(part->mesh);
  int64_t half = part->size / 2;
  memset(rank, 0, sizeof rank);
  rank[major] = half;
  term[0] = term_of(l, rank);
  rank[major] = -half;
  first[1] = (2 * l->c->spec->mesh[major].size - 1) * half;
  term[1] = term_of(l, rank);
  return 2;
}

typedef struct {  // the gradient of one captured tensor, and what makes it
  Place place, *score_place;
  int64_t stride[SCORE_DIMS];
  int score;  // Attention.score_gradient
  CapturedBy by;
} Captured;

typedef struct {  // one attention, or its gradient
  const Node *node;
  bool grad;
  AttentionAxes axes;
  AxisId q[4], k[3];  // batch, query, head, group; batch, key, head
  Attention a;
  AttentionResult result[3];  // o; or dq, dk, dv
  Captured *captured;         // gradients of what is captured
  int captured_count;
} Lowering;

// Places become offsets of their own in each instruction.
static Place *own_places(Lower *l, int score, const Place *places) {
  const size_t count = score ? (size_t)l->kernels->all.at[score - 1]->port_count : 0;
  return count ? arena_copy(l->keep, places, sizeof *places * count) : NULL;
}

static void emit_captured(Lower *l, const Lowering *at, const Captured *captured, double flops, double bytes) {
  Instruction *instruction = new_instruction(l, INSTRUCTION_ATTENTION_CAPTURED);
  Attention *a = &instruction->as.attention;
  *a = at->a;
  a->by = captured->by;
  a->more_keys = false;
  a->dq = a->dk = a->dv = (Place){0};
  a->d_captured = captured->place;
  memcpy(a->stride_captured, captured->stride, sizeof captured->stride);
  a->score_place = own_places(l, a->score, a->score_place);
  a->score_gradient = captured->score;
  a->score_gradient_place = own_places(l, captured->score, captured->score_place);
  instruction->flops = flops;
  instruction->bytes = bytes;
}

static void emit_attention(Lower *l, Lowering *at) {
  Attention *a = &at->a;
  a->score_place = own_places(l, a->score, a->score_place);
  a->score_gradient_place = own_places(l, a->score_gradient, a->score_gradient_place);
  Instruction *instruction = new_instruction(l, at->grad ? INSTRUCTION_ATTENTION_GRAD : INSTRUCTION_ATTENTION);
  double pairs = (double)a->batch * (double)a->heads * (double)a->groups * (double)a->queries * (double)a->keys *
                 (a->window && a->window < a->keys ? (double)a->window / (double)a->keys
                  : a->causal                      ? 0.5
                                                   : 1);
  double depth = (double)a->depth, value_depth = (double)a->value_depth;
  instruction->flops = at->grad ? 2 * pairs * (3 * depth + 2 * value_depth) : 2 * pairs * (depth + value_depth);
  double rows =
      (double)(a->batch * a->heads) * ((double)(a->groups * a->queries) + (double)a->keys) * (depth + value_depth);
  instruction->bytes = rows * (double)element_type_bytes(a->type) * (at->grad ? 2 : 1);
  instruction->as.attention = *a;
  for (int i = 0; i < at->captured_count; i++) {
    emit_captured(l, at, &at->captured[i], 2 * pairs * (depth + value_depth), instruction->bytes / 2);
  }
}

// --- a ring of keys ---

// Keys beside their values, or dk beside dv, as rows without gaps: what goes round.
typedef struct {
  int buffer;
  int64_t count, values;  // elements of both; the first of the values
} Block;

static Block new_block(Lower *l, const Lowering *at, ElementType type) {
  const ValueId *operands = at->node->operands;
  Block block = {.values = graph_elements(l->graph, graph_shape(l->graph, operands[1]))};
  block.count = block.values + graph_elements(l->graph, graph_shape(l->graph, operands[2]));
  block.buffer = new_buffer(l, ARENA_TRANSIENT, block.count * element_type_bytes(type));
  return block;
}

// Where a value like k (or v) lies in a block.
static Storage in_block(const Lower *l, const Lowering *at, const Block *block, ValueId value, bool values) {
  Storage rows = rows_in(l, block->buffer, value, values ? at->axes.value_depth : at->axes.depth);
  rows.offset = values ? block->values * type_bytes(l, value) : 0;
  return rows;
}

static bool lies_in_block(Lower *l, const Lowering *at, const Block *block, ValueId value, bool values) {
  Storage is = *storage_of(l, value), wanted = in_block(l, at, block, value, values);
  Shape shape = graph_shape(l->graph, value);
  bool same = is.buffer == wanted.buffer && is.offset == wanted.offset;
  for (int i = 0; i < shape.count; i++) {
    same = same && (is.stride[i] == wanted.stride[i] || extent(l, shape.axis[i]) == 1);
  }
  return same;
}

// The keys and values of this rank as a block: where they lie so, or a copy, which is then what the gradient keeps.
static Block own_block(Lower *l, const Lowering *at) {
  const ValueId *operands = at->node->operands;
  Block block = new_block(l, at, at->a.type), there = block;
  there.buffer = storage_of(l, operands[1])->buffer;
  if (lies_in_block(l, at, &there, operands[1], false) && lies_in_block(l, at, &there, operands[2], true)) {
    return there;
  }
  for (int i = 1; i < 3; i++) {
    ValueId value = operands[i];
    const Node *maker = graph_producer(l->graph, value);
    Storage from = *storage_of(l, value), to = in_block(l, at, &block, value, i == 2);
    lower_copy(l, graph_shape(l->graph, value), graph_value(l->graph, value)->type, &from, &to, WRITE_STORE);
    if (!maker || (maker->op != OP_PARAM && maker->op != OP_STATE)) {
      l->storage[value] = to;
    }
  }
  return block;
}

static void use_keys(Lower *l, Lowering *at, const Block *block) {
  for (int i = 1; i < 3; i++) {
    ValueId value = at->node->operands[i];
    Storage storage = in_block(l, at, block, value, i == 2);
    Place place = attention_place(l, value, &storage, at->k, 3, i == 2 ? at->a.stride_v : at->a.stride_k);
    *(i == 2 ? &at->a.v : &at->a.k) = place;
  }
}

static void use_gradients(Lower *l, Lowering *at, const Block *block) {
  for (int i = 1; i < 3; i++) {
    ValueId value = at->result[i].value;
    at->result[i].made = in_block(l, at, block, value, i == 2);
    Place place = attention_place(l, value, &at->result[i].made, at->k, 3, i == 2 ? at->a.stride_dv : at->a.stride_dk);
    *(i == 2 ? &at->a.dv : &at->a.dk) = place;
  }
}

// `from` goes to the next rank of the ring; that of the one before comes to `to`.
static void rotate(Lower *l, const Lowering *at, ElementType type, const Block *from, const Block *to,
                   const char *why) {
  Storage source = {.buffer = from->buffer}, target = {.buffer = to->buffer};
  lower_rotate(l, &(Rotation){.node = at->node,
                              .mesh = at->a.ring,
                              .type = type,
                              .count = from->count,
                              .from = &source,
                              .to = &target,
                              .why = why});
}

static int ring_ranks(const Lower *l, uint32_t ring) {
  int ranks = 1;
  for (int m = 0; m < l->c->spec->mesh_count; m++) {
    ranks *= ring >> m & 1 ? (int)l->c->spec->mesh[m].size : 1;
  }
  return ranks;
}

// Each rank attends to the keys that it has while the next block may already travel.
static void lower_ring(Lower *l, Lowering *at) {
  int ranks = ring_ranks(l, at->a.ring);
  Block keys = own_block(l, at), passed[2] = {new_block(l, at, at->a.type), new_block(l, at, at->a.type)};
  for (int step = 0; step < ranks; step++) {
    const Block *next = &passed[step % 2];
    if (step + 1 < ranks) {
      rotate(l, at, at->a.type, &keys, next, "keys and values");
    }
    at->a.ring_step = step;
    use_keys(l, at, &keys);
    emit_attention(l, at);
    at->a.more = true;
    keys = *next;
  }
}

static void add_block(Lower *l, ElementType type, const Block *from, const Block *to) {
  Storage source = {.buffer = from->buffer, .stride = {1}}, target = {.buffer = to->buffer, .stride = {1}};
  Shape all = shape_of(graph_axis(l->graph, name_of(l->c->names, "block"), from->count));
  lower_copy(l, all, type, &source, &target, WRITE_ADD);
}

// The gradients of a block of keys follow it: they begin on the rank after its owner and grow on every rank that they
// pass, until they come to the owner, who adds its own part last. With overlap, what a rank adds is made apart, so that
// they travel meanwhile, as the next block of keys does.
static void lower_ring_grad(Lower *l, Lowering *at) {
  const int ranks = ring_ranks(l, at->a.ring);
  const bool apart = l->c->spec->overlap;
  const ElementType type = at->a.type, sums = graph_value(l->graph, at->result[1].value)->type;
  Block own = own_block(l, at), keys[2] = {new_block(l, at, type), new_block(l, at, type)};
  Block passed[2] = {new_block(l, at, sums), new_block(l, at, sums)}, added = new_block(l, at, sums);
  rotate(l, at, type, &own, &keys[1], "keys and values");
  for (int step = 1; step <= ranks; step++) {
    const int now = step % 2;
    if (step + 1 < ranks) {
      rotate(l, at, type, &keys[now], &keys[!now], "keys and values");
    }
    at->a.ring_step = step % ranks;
    at->a.more = step > 1;
    at->a.more_keys = step > 1 && !apart;
    use_keys(l, at, step < ranks ? &keys[now] : &own);
    use_gradients(l, at, step > 1 && apart ? &added : &passed[now]);
    emit_attention(l, at);
    if (step > 1 && apart) {
      add_block(l, sums, &added, &passed[now]);
    }
    if (step < ranks) {
      rotate(l, at, sums, &passed[now], &passed[!now], "gradients of keys and values");
    }
  }
  use_gradients(l, at, &passed[ranks % 2]);
  for (int i = 1; i < 3; i++) {  // they may stay where they are, unless somebody wants them elsewhere
    ValueId value = at->result[i].value;
    if (l->home[value].kind == HOME_OWN && l->storage[value].buffer < 0) {
      l->storage[value] = at->result[i].made;
    }
  }
}

// --- both ---

// Gradients of captured tensors are the results behind dq, dk and dv; those tensors are the operands behind v.
static void lower_captured(Lower *l, Lowering *at, const AxisId dims[SCORE_DIMS]) {
  const Node *node = at->node;
  at->captured_count = node->result_count - 3;
  at->captured = ARENA_ARRAY(l->c->arena, Captured, at->captured_count + 1);
  for (int i = 0; i < at->captured_count; i++) {
    Captured *captured = &at->captured[i];
    const ValueId made = node->first_result + 3 + i;
    const Shape shape = graph_shape(l->graph, made);
    captured->by = !shape_has(&shape, node->axis2)  ? CAPTURED_BY_QUERY
                   : !shape_has(&shape, node->axis) ? CAPTURED_BY_KEY
                                                    : CAPTURED_BY_PAIR;
    captured->place = attention_place(l, made, storage_of(l, made), dims, SCORE_DIMS, captured->stride);
    captured->score = lower_captured_score(l, node, dims, i, &captured->score_place);
  }
}

static void lower_keys_here(Lower *l, Lowering *at) {
  const Node *node = at->node;
  Attention *a = &at->a;
  a->k = attention_operand(l, node->operands[1], at->k, 3, at->axes.depth, a->stride_k);
  a->v = attention_operand(l, node->operands[2], at->k, 3, at->axes.value_depth, a->stride_v);
  if (at->grad) {
    a->dk = attention_result(l, &at->result[1], at->k, 3, at->axes.depth, a->stride_dk);
    a->dv = attention_result(l, &at->result[2], at->k, 3, at->axes.value_depth, a->stride_dv);
  }
  emit_attention(l, at);
}

static void set_sizes(const Lower *l, Lowering *at) {
  Attention *a = &at->a;
  a->batch = extent(l, at->axes.batch);
  a->queries = extent(l, at->node->axis);
  a->keys = extent(l, at->node->axis2);
  a->heads = extent(l, at->axes.head);
  a->groups = extent(l, at->axes.group);
  a->depth = extent(l, at->axes.depth);
  a->value_depth = extent(l, at->axes.value_depth);
}

static void set_ring(Lower *l, Lowering *at) {
  Attention *a = &at->a;
  const Axis *keys = &l->graph->axes.at[at->node->axis2];
  a->ring = attention_ring(at->node);
  if (a->ring) {
    int64_t all = l->graph->axes.at[keys->whole].size;
    a->key_end = a->keys * ring_ranks(l, a->ring) != all ? all : 0;
    a->key_parts = positions_of(l, at->node->axis2, a->key_origin, a->key_origin_term);
  }
}

void lower_attention(Lower *l, const Node *node) {
  const bool grad = attention_is_gradient(node);
  const int forward = attention_forward_operands(node), d_o = forward + attention_results(node);
  AttentionAxes axes = attention_axes(node);
  Lowering at = {.node = node,
                 .grad = grad,
                 .axes = axes,
                 .q = {axes.batch, node->axis, axes.head, axes.group},
                 .k = {axes.batch, node->axis2, axes.head}};
  ValueId o = grad ? node->operands[forward] : node->first_result,
          statistics = grad ? node->operands[forward + 1] : node->first_result + 1;
  Attention *a = &at.a;
  *a = (Attention){.type = graph_value(l->graph, node->operands[0])->type,
                   .causal = (node->integer & ATTENTION_CAUSAL) != 0,
                   .biased = (node->integer & ATTENTION_BIASED) != 0,
                   .scale = node->number};
  a->large = (node->integer & ATTENTION_LARGE) != 0;
  a->wide = graph_value(l->graph, node->first_result)->type != a->type;
  a->parts = positions_of(l, node->axis, a->origin, a->origin_term);
  set_sizes(l, &at);
  set_ring(l, &at);
  a->q = attention_operand(l, node->operands[0], at.q, 4, axes.depth, a->stride_q);
  a->statistics = grad ? dense_operand(l, node, statistics) : place_of(l, storage_of(l, statistics));
  if (a->large && !grad) {
    a->lost = place_of(l, storage_of(l, statistics + 1));
  }
  if (a->biased) {
    a->slopes = dense_operand(l, node, node->operands[3]);
  }
  if (node->integer & ATTENTION_SCORED) {
    const AxisId dims[SCORE_DIMS] = {axes.batch, axes.head, axes.group, node->axis2, node->axis};
    lower_scores(l, node, dims, a);
    if (grad) {
      lower_captured(l, &at, dims);
    }
  }
  int results = grad ? 3 : 1;
  for (int i = 0; i < results; i++) {
    at.result[i].value = node->first_result + i;
  }
  if (grad) {
    a->o = attention_operand(l, o, at.q, 4, axes.value_depth, a->stride_o);
    if (node->integer & ATTENTION_SEEDED) {
      a->seeded = true;
      a->d_statistics = dense_operand(l, node, node->operands[d_o + 1]);
    }
    a->d_o = attention_operand(l, node->operands[d_o], at.q, 4, axes.value_depth, a->stride_do);
    a->dq = attention_result(l, &at.result[0], at.q, 4, axes.depth, a->stride_dq);
  } else {
    a->o = attention_result(l, &at.result[0], at.q, 4, axes.value_depth, a->stride_o);
  }
  if (!a->ring) {
    lower_keys_here(l, &at);
  } else if (grad) {
    lower_ring_grad(l, &at);
  } else {
    lower_ring(l, &at);
  }
  for (int i = 0; i < results; i++) {
    keep_result(l, &at.result[i]);
  }
}

int attention_rotations(const Lower *l, const Node *node) {
  const int times = attention_is_gradient(node) ? 2 : 1;
  return attention_ring(node) ? (ring_ranks(l, attention_ring(node)) - 1) * times : 0;
}
