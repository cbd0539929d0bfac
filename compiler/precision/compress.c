// compress.c: what collectives carry of activations and their gradients, in 8 bits where the layout says so.
//
// Needs shapes of one rank and element types. A value of 16 bits is sent as codes in e4m3 and one scale for each block,
// a power of two, which is sent in bf16 and loses nothing there:
//   all_gather      codes and scales of the part are gathered, and multiplied where they have come
//   reduce_scatter  codes and scales of each rank's part are exchanged; who owns it adds them in f32, in the order of
//   the
//                   ranks, and rounds the sum once
//   all_reduce      the same over an axis chosen here; the sum in f32 becomes codes again, which are gathered
// So every rank makes what all of them have of the same codes, its own among them. Gradients of parameters, f32 and
// values of 8 bits stay as they are, and so does what only outputs read.
#include <string.h>

#include "compiler/pass/compilation.h"
#include "compiler/precision/quantise.h"
#include "compiler/shard/shard.h"

enum { LEAST_BLOCK = 16 };  // elements: of less a scale takes too much of what codes save

typedef struct {
  Shape inside;  // the axes that one block has whole
  AxisId cut;    // an axis of which a block has a part, or -1
  Shape halves;  // its blocks, and what is inside of one
} WireBlocks;

typedef struct {  // a value as it is sent
  ValueId codes, scales;
} Wire;

typedef struct {
  Compilation *c;
  Graph *graph;
  Node node;  // the collective that is made anew
  int64_t ranks;
  int calls;
  bool *read;    // by value: by something else than outputs
  bool *places;  // by axis of whole tensors: along which the inputs lie, and all other names of those
  Map gathered;  // value, region and axis to the node that makes the codes that are gathered, in forward and backward
  ValueId *replace;  // by value, of those that there were
  int known;
  ARRAY(Wire) wires;
} Compress;

// --- which ---

static int64_t length_of(const Graph *graph, AxisId axis) {
  return graph->axes.at[axis].size;
}

static bool is_padded(const Compress *p, AxisId axis) {
  const Axis *at = &p->graph->axes.at[axis];
  return at->whole >= 0 && at->size * mapping_ranks(p->c->shard->mapping, at->mesh) != length_of(p->graph, at->whole);
}

// A gradient that the optimizer reads has the axes of its parameter, or is a part of several of them.
static bool of_parameter(const Graph *graph, const Node *node) {
  const Value *value = graph_value(graph, node->operands[0]);
  Shape shape = value->shape;
  for (int i = 0; i < shape.count; i++) {
    shape.axis[i] = axis_whole(graph, shape.axis[i]);
    for (int j = 0; j < graph->packs.count; j++) {
      if (graph->packs.at[j].axis == shape.axis[i]) {
        return true;
      }
    }
  }
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *persistent = &graph->persistent.at[i];
    if (persistent->role == ROLE_PARAMETER && shape_same_set(&persistent->shape, &shape)) {
      return true;
    }
  }
  return value->role == ROLE_PARAMETER || value->role == ROLE_UPDATE || comes_from_parameter(graph, node->operands[0]);
}

// A batch or a sequence, not what a number at one place of them is made of.
static bool is_place(const Compress *p, AxisId axis) {
  const AxisId whole = axis_whole(p->graph, axis);
  return whole < p->c->shard->forms.count && p->places[shard_form(p->c->shard, whole)->same];
}

static void find_read(Compress *p) {
  const Graph *graph = p->graph;
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    for (int j = 0; j < node->operand_count; j++) {
      p->read[node->operands[j]] |= node->op != OP_OUTPUT;
    }
  }
  for (int i = 1; i < graph->regions.count; i++) {
    const ValueList *results = &graph->regions.at[i].results;
    for (int j = 0; j < results->count; j++) {
      p->read[results->at[j]] = true;
    }
  }
}

static void find_places(Compress *p) {
  const Graph *graph = p->graph;
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i);
    const Shape shape = node->op == OP_INPUT ? graph_shape(graph, node->first_result) : (Shape){0};
    for (int j = 0; j < shape.count; j++) {
      p->places[shard_form(p->c->shard, axis_whole(graph, shape.axis[j]))->same] = true;
    }
  }
}

// The largest part of the axis that goes into a block, in which there is room for so many elements.
static int64_t part_that_fits(int64_t size, int64_t room) {
  int64_t part = size < room ? size : room;
  while (size % part != 0) {
    part--;
  }
  return part;
}

// Blocks along the last axes that are no places: those that a block has room for, and a part of the one before. False:
// there are none of a good size.
static bool find_blocks(const Compress *p, Shape shape, AxisId apart, WireBlocks *blocks) {
  int64_t room = SCALE_BLOCK, elements = 1;
  Shape last = {0};
  *blocks = (WireBlocks){.cut = -1};
  for (int i = shape.count - 1; i >= 0 && room > 1; i--) {
    const AxisId axis = shape.axis[i];
    if (axis == apart || is_place(p, axis) || is_padded(p, axis)) {
      break;
    }
    int64_t part = part_that_fits(length_of(p->graph, axis), room);
    if (part < length_of(p->graph, axis) && part * elements < LEAST_BLOCK) {
      part = elements == 1 ? length_of(p->graph, axis) : 1;  // a scale for each row
    }
    if (part < length_of(p->graph, axis)) {
      blocks->cut = part > 1 ? axis : -1;
      room = part;
      elements *= part;
      break;
    }
    shape_push(&last, axis);
    room /= part;
    elements *= part;
  }
  blocks->inside = shape_common(shape, &last);
  if (blocks->cut >= 0) {
    Graph *graph = p->graph;
    const Axis cut = graph->axes.at[blocks->cut];
    shape_push(&blocks->halves, graph_axis(graph, name_format(graph->names, "%s.blocks", cut.name), cut.size / room));
    shape_push(&blocks->halves, graph_axis(graph, name_format(graph->names, "%s.block", cut.name), room));
    blocks->inside = shape_union(shape_of(blocks->halves.axis[1]), &blocks->inside);
  }
  return elements >= LEAST_BLOCK;
}

static bool applies(const Compress *p, const CompressRule *rule) {
  return (uint32_t)p->node.integer >> rule->mesh & 1 &&
         (!rule->place.name || selector_matches(p->graph, rule->place.name, selector_place(p->graph, &p->node)));
}

// Do rules select the collective over all of its mesh axes?
static bool selected(const Compress *p) {
  const Spec *spec = p->c->spec;
  uint32_t left = (uint32_t)p->node.integer;
  for (int i = 0; i < spec->compress.count; i++) {
    left &= ~(applies(p, &spec->compress.at[i]) ? 1u << spec->compress.at[i].mesh : 0);
  }
  return !left;
}

static void note_use(Compress *p, const char *why) {
  const Spec *spec = p->c->spec;
  for (int i = 0; i < spec->compress.count; i++) {
    CompressUse *use = &p->c->compresses[i];
    if (applies(p, &spec->compress.at[i])) {
      use->any |= !why;
      use->why = use->why ? use->why : why;
    }
  }
}

// --- sending ---

static ValueId cast_to(Compress *p, ElementType type, ValueId value) {
  const NodeInit init = {NODE_INIT, .text = name_of(p->graph->names, element_type_name(type))};
  return graph_value(p->graph, value)->type == type ? value : graph_add1(p->graph, OP_CAST, init, value);
}

static ValueId split(Graph *graph, ValueId value, AxisId axis, Shape halves) {
  return graph_add1(graph, OP_SPLIT, (NodeInit){NODE_INIT, .axis = axis, .axes = halves}, value);
}

static ValueId split_blocks(Compress *p, ValueId value, const WireBlocks *blocks) {
  return blocks->cut >= 0 ? split(p->graph, value, blocks->cut, blocks->halves) : value;
}

// Codes and scales of a value whose axes are split into blocks.
static Wire quantised(Compress *p, ValueId value, const WireBlocks *blocks) {
  Graph *graph = p->graph;
  const ValueId scale = block_scale(graph, value, blocks->inside, TYPE_E4M3);
  const NodeInit init = {NODE_INIT, .text = name_of(graph->names, "e4m3"), .axes = blocks->inside};
  const ValueId codes = graph_add2(graph, OP_QUANTISE, init, value, scale);
  graph_producer(graph, codes)->why = p->node.why;
  return (Wire){codes, cast_to(p, TYPE_BF16, scale)};
}

// The numbers that were sent, in f32.
static ValueId received(Compress *p, Wire wire) {
  return graph_op2(p->graph, OP_MUL, cast_to(p, TYPE_F32, wire.codes), wire.scales);
}

static ValueId move(Compress *p, Op op, NodeInit init, ValueId value) {
  init.text = p->node.text;
  init.integer = p->node.integer;
  const ValueId made = graph_add1(p->graph, op, init, value);
  Node *node = graph_producer(p->graph, made);
  node->why = p->node.why;
  node->rule = p->node.rule;
  node->recomputed = p->node.recomputed;
  return made;
}

static ValueId gathered(Compress *p, Wire part, AxisId from, AxisId to) {
  const NodeInit init = {NODE_INIT, .axis = from, .axis2 = to};
  part.codes = move(p, OP_ALL_GATHER, init, part.codes);
  part.scales = move(p, OP_ALL_GATHER, init, part.scales);
  return received(p, part);
}

static AxisId part_axis(Compress *p, const char *name, AxisId whole) {
  Graph *graph = p->graph;
  const AxisId part = graph_axis(graph, name_of(graph->names, name), length_of(graph, whole) / p->ranks);
  graph->axes.at[part].whole = whole;
  graph->axes.at[part].mesh = (uint32_t)p->node.integer;
  return part;
}

// What the ranks have of this rank's part along an axis, added up: an axis of one, from whom it comes, becomes one of
// all ranks while the other is cut.
static ValueId exchanged(Compress *p, ValueId value, const WireBlocks *blocks, AxisId whole, AxisId part) {
  Graph *graph = p->graph;
  const AxisId sources = graph_axis(graph, name_format(graph->names, "source@%s", p->node.text), p->ranks);
  const AxisId source = part_axis(p, arena_format(graph->arena, "one@%s", p->node.text), sources);
  const NodeInit init = {NODE_INIT, .axis = source, .axis2 = whole, .axes = {2, {sources, part}}, .number = 1};
  const AxisId first = graph_shape(graph, value).axis[0];
  Wire wire = quantised(p, split(graph, value, first, (Shape){2, {source, first}}), blocks);
  wire.codes = move(p, OP_ALL_TO_ALL, init, wire.codes);
  wire.scales = move(p, OP_ALL_TO_ALL, init, wire.scales);
  ValueId sum = -1;
  for (int64_t i = 0; i < p->ranks; i++) {
    const NodeInit one = {NODE_INIT, .axis = sources, .integer = i};
    const ValueId codes = graph_add1(graph, OP_SLICE, one, wire.codes);
    const ValueId term = received(p, (Wire){codes, graph_add1(graph, OP_SLICE, one, wire.scales)});
    sum = sum < 0 ? term : graph_op2(graph, OP_ADD, sum, term);
  }
  return sum;
}

// --- the collectives ---

// The axis that an all_reduce scatters and gathers again: the first that the ranks can share; or -1.
static AxisId shared_axis(const Compress *p, Shape shape, const WireBlocks *blocks) {
  for (int i = 0; i < shape.count; i++) {
    const AxisId axis = shape.axis[i] == blocks->cut ? blocks->halves.axis[0] : shape.axis[i];
    if (!shape_has(&blocks->inside, axis) && length_of(p->graph, axis) % p->ranks == 0) {
      return axis;
    }
  }
  return -1;
}

// Bytes that a rank sends of so many, once round a ring.
static double sent(const Compress *p, double bytes) {
  return bytes * ((double)p->ranks - 1) / (double)p->ranks;
}

// What the forward has gathered, and the backward gathers again, is rounded once: so this is what is kept.
static Wire part_of(Compress *p, ValueId value, const WireBlocks *blocks) {
  const uint64_t key[] = {(uint64_t)p->node.operands[0], (uint64_t)p->graph->region, (uint64_t)p->node.axis};
  int64_t known;
  if (map_get_bytes(&p->gathered, key, sizeof key, &known)) {
    return p->wires.at[known];
  }
  map_put_bytes(&p->gathered, key, sizeof key, p->wires.count);
  const Wire made = quantised(p, split_blocks(p, value, blocks), blocks);
  array_push(p->c->arena, &p->wires, made);
  return made;
}

static ValueId compressed(Compress *p, const WireBlocks *blocks, AxisId shared) {
  Graph *graph = p->graph;
  const Node *node = &p->node;
  ValueId value = node->operands[0];
  if (node->op == OP_ALL_GATHER) {
    value = gathered(p, part_of(p, value, blocks), node->axis, node->axis2);
  } else if (node->op == OP_REDUCE_SCATTER) {
    value = exchanged(p, split_blocks(p, value, blocks), blocks, node->axis, node->axis2);
  } else {
    const char *name = arena_format(graph->arena, "%s.share@%s", graph->axes.at[shared].name, node->text);
    const AxisId part = part_axis(p, name, shared);
    value = exchanged(p, split_blocks(p, value, blocks), blocks, shared, part);
    value = gathered(p, quantised(p, value, blocks), part, shared);
  }
  value = cast_to(p, TYPE_BF16, value);
  if (blocks->cut >= 0) {
    value = graph_add1(graph, OP_MERGE, (NodeInit){NODE_INIT, .axes = blocks->halves, .axis2 = blocks->cut}, value);
  }
  return value;
}

static void stands_for(Compress *p, ValueId made, ValueId was) {
  const Value before = *graph_value(p->graph, was);
  Value *value = graph_value(p->graph, made);
  const Shape shape = value->shape;
  const NodeId node = value->node;
  *value = before;
  value->shape = shape;
  value->node = node;
  value->result = 0;
  shard_hold_alike(p->c, made, was);
  p->replace[was] = made;
}

// Why the collective cannot be compressed, or NULL.
static const char *find_form(const Compress *p, WireBlocks *blocks, AxisId *shared) {
  const Node *node = &p->node;
  const Value *value = graph_value(p->graph, node->operands[0]);
  if (value->type != TYPE_BF16) {
    return element_type_bytes(value->type) == 1 ? "it has 8 bits already" : "it is not in bf16";
  }
  if (!find_blocks(p, value->shape, node->op == OP_ALL_REDUCE ? -1 : node->axis, blocks)) {
    return "one place of it has too few numbers for a scale";
  }
  *shared = node->op == OP_ALL_REDUCE ? shared_axis(p, value->shape, blocks) : -1;
  return node->op == OP_ALL_REDUCE && *shared < 0 ? "no axis of it can be shared by the ranks" : NULL;
}

static void note(Compress *p, const WireBlocks *blocks, const char *why) {
  const Node *node = &p->node;
  const Value *value = graph_value(p->graph, node->op == OP_ALL_GATHER ? node->first_result : node->operands[0]);
  const double elements = (double)graph_elements(p->graph, value->shape) * (node->op == OP_ALL_REDUCE ? 2 : 1);
  const double before = elements * (double)element_type_bytes(value->type);
  const double after = why ? before : elements * (1 + 2 / (double)graph_elements(p->graph, blocks->inside));
  const Compressed done = {node->op, (uint32_t)node->integer, node->backward || node->recomputed,
                           p->calls, sent(p, before),         sent(p, after),
                           why};
  array_push(p->c->arena, &p->c->compressed, done);
  note_use(p, why);
}

static bool is_sent(const Graph *graph, const Node *node) {
  const bool extreme = node->number > 0;
  return op_collective(node->op) && node->op != OP_ALL_TO_ALL && !extreme &&
         graph_shape(graph, node->operands[0]).count > 0;
}

static bool compress(Compress *p, NodeId id) {
  WireBlocks blocks;
  AxisId shared = -1;
  p->node = *graph_node(p->graph, id);
  const Node *node = &p->node;
  if (!is_sent(p->graph, node) || !p->read[node->first_result] || of_parameter(p->graph, node) || !selected(p)) {
    return false;
  }
  p->ranks = mapping_ranks(p->c->shard->mapping, (uint32_t)node->integer);
  const char *why = find_form(p, &blocks, &shared);
  note(p, &blocks, why);
  if (why) {
    return false;
  }
  graph_follow(p->graph, node);
  stands_for(p, compressed(p, &blocks, shared), node->first_result);
  return true;
}

static void compress_region(Compress *p, RegionId region, int calls) {
  Graph *graph = p->graph;
  const NodeList old = graph_rewrite(graph, region);
  for (int i = 0; i < old.count; i++) {
    const Node node = *graph_node(graph, old.at[i]);
    graph->region = region;
    p->calls = calls;
    if (compress(p, old.at[i])) {
      continue;
    }
    array_push(graph->arena, &graph->regions.at[region].nodes, old.at[i]);
    if (op_body(node.op)) {
      compress_region(p, node.region, node.op == OP_MICROBATCH ? calls * (int)node.integer : calls);
    }
  }
}

bool pass_compress(Compilation *c) {
  Graph *graph = c->graph;
  if (c->spec->compress.count == 0 || !c->shard) {
    return pass_changed_nothing(c);
  }
  const GraphPlace before = graph_place(graph);
  ValueId *replace = ARENA_ARRAY(c->arena, ValueId, graph->values.count + 1);
  memset(replace, -1, sizeof *replace * (size_t)graph->values.count);
  Compress p = {.c = c, .graph = graph, .replace = replace, .known = graph->values.count};
  p.gathered = map_create(c->arena);
  p.places = ARENA_ARRAY(c->arena, bool, graph->axes.count + 1);
  p.read = ARENA_ARRAY(c->arena, bool, graph->values.count + 1);
  find_places(&p);
  find_read(&p);
  compress_region(&p, 0, 1);
  ValueId *all = ARENA_ARRAY(c->arena, ValueId, graph->values.count + 1);
  memset(all, -1, sizeof *all * (size_t)graph->values.count);
  memcpy(all, replace, sizeof *all * (size_t)p.known);
  graph_replace_values(graph, all);
  graph_return(graph, before);
  return true;
}
