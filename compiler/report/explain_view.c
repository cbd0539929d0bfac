// explain_view.c: what is worth knowing of a stage's graph, and of its memory once that has been assigned.
#include <string.h>

#include "base/integer.h"
#include "compiler/ir/attention.h"
#include "compiler/ir/dots.h"
#include "compiler/lower/largest.h"
#include "compiler/report/explain.h"

// --- collectives ---

static bool of_pack(const Graph *graph, const Node *node) {
  Shape shape = graph_shape(graph, node->operands[0]);
  bool pack = false;
  for (int i = 0; shape.count == 1 && i < graph->packs.count; i++) {
    pack = pack || graph->packs.at[i].axis == axis_whole(graph, shape.axis[0]);
  }
  return pack;
}

static TrafficPhase phase_of(SegmentKind kind, const Graph *graph, const Node *node) {
  Role role = graph_value(graph, node->first_result)->role;
  bool sums = node->op == OP_REDUCE_SCATTER || node->op == OP_ALL_REDUCE;
  bool gradient = node->source >= 0 || node->recomputed || role == ROLE_GRADIENT;
  bool update = kind == SEGMENT_APPLY || (node->backward && !gradient);
  if (of_pack(graph, node) && sums) {
    return PHASE_GRADIENTS;
  }
  if (kind == SEGMENT_FORWARD || kind == SEGMENT_BACKWARD || kind == SEGMENT_WEIGHTS) {
    return kind == SEGMENT_FORWARD ? PHASE_FORWARD : PHASE_BACKWARD;
  }
  return !node->backward && !node->recomputed && kind != SEGMENT_APPLY ? PHASE_FORWARD
         : update                                                      ? PHASE_UPDATE
                                                                       : PHASE_BACKWARD;
}

static void keep_collectives(const Lower *l, const NodeList *nodes, int at, ViewSegment *segment) {
  const Graph *graph = l->graph;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    for (int64_t j = 0; node->op == OP_CHUNKS && j < graph->axes.at[node->axes.axis[0]].size; j++) {
      keep_collectives(l, &graph->regions.at[node->region].nodes, at, segment);
    }
    int count = op_collective(node->op) ? 1 : is_attention(node) ? attention_rotations(l, node) : 0;
    for (int j = 0; j < count; j++) {
      const char *path = node->scope > 0 ? graph->scopes.at[node->scope].path : NULL;
      ViewCollective kept = {phase_of(l->segments.at[at]->kind, graph, node), of_pack(graph, node), path ? path : ""};
      array_push(l->keep, &segment->collectives, kept);
    }
  }
}

// In the order of lowering: what comes before the microbatches, their segments, then the rest of the program.
static void keep_segments(const Lower *l, ViewStage *stage) {
  const Graph *graph = l->graph;
  int count = 0, last = stage->segment_count - 1;
  const NodeList *top = &graph->regions.at[0].nodes;
  for (int i = 0; i < top->count; i++) {
    const Node *microbatch = graph_node(graph, top->at[i]);
    if (microbatch->op == OP_SEGMENT && count < last) {
      keep_collectives(l, &graph->regions.at[microbatch->region].nodes, count, &stage->segments[count]);
      count++;
    }
    if (microbatch->op != OP_MICROBATCH) {
      continue;
    }
    const NodeList *body = &graph->regions.at[microbatch->region].nodes;
    bool cut = body->count > 0 && graph_node(graph, body->at[0])->op == OP_SEGMENT;
    for (int j = 0; j < (cut ? body->count : 1) && count < last; j++, count++) {
      RegionId region = cut ? graph_node(graph, body->at[j])->region : microbatch->region;
      keep_collectives(l, &graph->regions.at[region].nodes, count, &stage->segments[count]);
    }
  }
  keep_collectives(l, top, last, &stage->segments[last]);
}

// --- values and tensors ---

static int mesh_index(const Spec *spec, const char *name) {
  for (int m = 0; m < spec->mesh_count; m++) {
    if (strcmp(spec->mesh[m].name, name) == 0) {
      return m;
    }
  }
  return 0;
}

static ViewValue value_of(const Graph *graph, const Spec *spec, const Value *value) {
  ViewValue kept = {.label = value->label, .type = value->type, .axis_count = value->shape.count};
  const Sharding *sharding = value->sharding;
  for (int i = 0; i < value->shape.count; i++) {
    AxisId axis = axis_whole(graph, value->shape.axis[i]);
    kept.axis[i] = graph->axes.at[axis].name;
    kept.size[i] = graph->axes.at[axis].size;
    for (int j = 0; sharding && j < sharding->entry_count; j++) {
      const ShardEntry *entry = &sharding->entries[j];
      PlanCut *cut = &kept.cut[i];
      if (axis_whole(graph, entry->axis) == axis && cut->count < PLAN_MAX_MESH) {
        cut->zigzag = entry->zigzag || cut->zigzag;
        cut->mesh[cut->count++] = mesh_index(spec, entry->mesh_axis);
      }
    }
  }
  for (int j = 0; sharding && j < sharding->partial_count; j++) {
    kept.partial |= 1u << mesh_index(spec, sharding->partial[j]);
  }
  return kept;
}

// Later passes copy labels to what stands for a value.
static bool stands_for(const Node *node) {
  return op_list(node->op) || node->op == OP_GROUP || op_dots_joined(node->op) || node->op == OP_RECEIVE;
}

// The table of values has those of all stages, also where their nodes are gone.
static void keep_values(const Lower *l, CompileView *view) {
  for (int v = 0; v < l->graph->values.count; v++) {
    const Value *value = graph_value(l->graph, v);
    const Node *node = graph_producer(l->graph, v);
    bool made = value->label && node && value->type != TYPE_REAL;
    if (made && !node->backward && !node->recomputed && !stands_for(node)) {
      array_push(l->keep, &view->values, value_of(l->graph, l->c->spec, value));
    }
  }
}

static void keep_tensors(const Lower *l, ViewStage *stage) {
  const Graph *graph = l->graph;
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *persistent = &graph->persistent.at[i];
    ViewTensor tensor = {.name = persistent->name, .like = persistent->like};
    for (int p = 0; p < graph->packs.count; p++) {
      const Pack *pack = &graph->packs.at[p];
      for (int j = 0; j < pack->count; j++) {
        tensor.gradient |= pack->members[j] == persistent->name ? pack->grad : 0;
        tensor.kept |= pack->members[j] == persistent->name ? pack->kept : 0;
      }
    }
    if (!persistent->elsewhere) {
      array_push(l->keep, &stage->tensors, tensor);
    }
  }
}

// --- memory ---

static int64_t copies_of(const MemoryBuffer *buffer, const Lower *l) {
  return buffer->slot_stride && buffer->segment < 0 ? l->graph->slots : 1;
}

// What is added up over the microbatches is theirs.
static bool *gradient_buffers(const Lower *l) {
  const Graph *graph = l->graph;
  bool *gradient = ARENA_ARRAY(l->c->arena, bool, l->buffers.count + 1);
  const NodeList *top = &graph->regions.at[0].nodes;
  for (int i = 0; i < top->count; i++) {
    const Node *node = graph_node(graph, top->at[i]);
    for (int j = 0; node->op == OP_MICROBATCH && j < node->result_count; j++) {
      ValueId value = node->first_result + j;
      if (value < l->capacity && l->storage[value].buffer >= 0 && graph_shape(graph, value).count > 0) {
        gradient[l->storage[value].buffer] = true;
      }
    }
  }
  return gradient;
}

static void keep_memory(const Lower *l, ViewStage *stage) {
  const bool *gradient = gradient_buffers(l);
  int64_t lasting = 0;
  for (int i = 0; i < l->buffers.count; i++) {
    const MemoryBuffer *buffer = &l->buffers.at[i];
    if (buffer->arena != ARENA_TRANSIENT || buffer->segment == -2 || (buffer->segment >= 0 && !buffer->message)) {
      continue;
    }
    int64_t bytes = round_up(buffer->bytes, PLAN_ALIGN), copies = copies_of(buffer, l);
    bool flying = !buffer->shared && buffer->chunk >= 0;
    if (flying) {
      copies = stage->lanes[buffer->chunk];
      stage->saved[buffer->chunk] += bytes;
      stage->flying += bytes * copies;
    } else {
      *(gradient[i] ? &stage->gradients : &stage->shared) += bytes * copies;
    }
    lasting += bytes * copies;
  }
  for (int i = 0; i < l->buffers.count; i++) {
    const MemoryBuffer *buffer = &l->buffers.at[i];
    if (buffer->arena == ARENA_TRANSIENT && buffer->segment >= 0 && !buffer->message && buffer->bytes > 0) {
      int64_t top = buffer->offset + buffer->bytes - lasting;
      ViewSegment *segment = &stage->segments[buffer->segment];
      segment->peak = top > segment->peak ? top : segment->peak;
      segment->alive[buffer->first] += (double)buffer->bytes;
      segment->alive[buffer->last + 1] -= (double)buffer->bytes;
    }
  }
  for (int s = 0; s < stage->segment_count; s++) {  // from changes to sums
    for (int i = 1; i <= stage->segments[s].instructions; i++) {
      stage->segments[s].alive[i] += stage->segments[s].alive[i - 1];
    }
  }
}

// --- products ---

const char *view_alike(Arena *arena, const char *name) {
  char *text = arena_copy(arena, name, strlen(name) + 1), *to = text;
  for (const char *at = name; *at;) {
    const size_t digits = strspn(at, "0123456789");
    const bool whole = digits && (at == name || at[-1] == '.') && (at[digits] == '.' || !at[digits]);
    *to++ = whole ? '*' : *at;
    at += whole ? digits : 1;
  }
  *to = '\0';
  return text;
}

static bool products_alike(const ViewProduct *a, const ViewProduct *b) {
  return strcmp(a->weight, b->weight) == 0 && a->backward == b->backward && a->of_weight == b->of_weight &&
         a->type[0] == b->type[0] && a->type[1] == b->type[1] && a->why == b->why;
}

// Every stage chooses those of the whole step; one of them is asked.
static void keep_products(const Lower *l, CompileView *view) {
  for (int i = 0; i < l->c->products.count; i++) {
    const ChosenProduct *from = &l->c->products.at[i];
    const ViewProduct product = {view_alike(l->keep, from->weight), from->backward, from->of_weight,
                                 {from->type[0], from->type[1]},    from->why,      1};
    int at = 0;
    while (at < view->products.count && !products_alike(&view->products.at[at], &product)) {
      at++;
    }
    if (at < view->products.count) {
      view->products.at[at].count++;
    } else {
      array_push(l->keep, &view->products, product);
    }
  }
}

static void keep_compressed(const Lower *l, ViewStage *stage) {
  for (int i = 0; i < l->c->compressed.count; i++) {
    const Compressed *from = &l->c->compressed.at[i];
    int at = 0;
    for (; at < stage->compressed.count; at++) {
      const ViewCompressed *kept = &stage->compressed.at[at];
      if (kept->op == from->op && kept->mesh == from->mesh && kept->backward == from->backward &&
          strcmp(kept->why ? kept->why : "", from->why ? from->why : "") == 0) {
        break;
      }
    }
    if (at == stage->compressed.count) {
      const char *why = from->why ? arena_format(l->keep, "%s", from->why) : NULL;
      array_push(l->keep, &stage->compressed,
                 ((ViewCompressed){.op = from->op, .mesh = from->mesh, .backward = from->backward, .why = why}));
    }
    ViewCompressed *kept = &stage->compressed.at[at];
    kept->count += from->calls;
    kept->before += from->calls * from->before;
    kept->after += from->calls * from->after;
  }
}

void view_keep(CompileView *view, const Lower *l, int first) {
  Arena *arena = l->keep;
  if (view->stages.count == 0) {
    keep_products(l, view);
  }
  ViewStage stage = {.chunks = l->lanes ? l->c->spec->pipeline.chunks : 1};
  stage.saved = ARENA_ARRAY(arena, int64_t, stage.chunks);
  stage.lanes = ARENA_ARRAY(arena, int, stage.chunks);
  for (int i = 0; i < stage.chunks; i++) {
    stage.lanes[i] = l->lanes ? l->lanes[i] : 1;
  }
  stage.first_segment = first;
  stage.segment_count = l->segments.count;
  stage.segments = ARENA_ARRAY(arena, ViewSegment, stage.segment_count + 1);
  for (int i = 0; i < stage.segment_count; i++) {
    ViewSegment *segment = &stage.segments[i];
    segment->name = l->segments.at[i]->name;
    segment->instructions = l->segments.at[i]->list.count;
    segment->alive = ARENA_ARRAY(arena, double, segment->instructions + 2);
  }
  keep_segments(l, &stage);
  keep_tensors(l, &stage);
  keep_compressed(l, &stage);
  keep_memory(l, &stage);
  if (view->stages.count == 0) {
    keep_values(l, view);
  }
  view_keep_quantised(view, l);
  for (int why = 0; why < OFFLOAD_MOVED; why++) {
    stage.stays[why].count = largest_stays(l, (OffloadFate)why, &stage.stays[why].values);
  }
  array_push(arena, &view->stages, stage);
}
