// record.c: what names and calls of a text stand for, kept while the text is elaborated and divided among ranks.
#include "lsp/record.h"

#include <string.h>

#include "base/units.h"

enum { MOST_PARAMETERS = 12 };

// --- objects in words ---

static const char *sizes_text(Arena *arena, const Elaborator *e, const Shape *shape) {
  const char *text = "";
  for (int i = 0; i < shape->count; i++) {
    text = arena_format(arena, "%s%s%s %lld", text, i ? ", " : "", e->graph->axes.at[shape->axis[i]].written,
                        (long long)axis_count(e, shape->axis[i]));
  }
  return text;
}

static const char *names_text(Arena *arena, const Graph *graph, const Shape *shape) {
  const char *text = "";
  for (int i = 0; i < shape->count; i++) {
    text = arena_format(arena, "%s%s%s", text, i ? ", " : "", graph->axes.at[shape->axis[i]].written);
  }
  return text;
}

static double elements(const Elaborator *e, const Shape *shape) {
  double count = 1;
  for (int i = 0; i < shape->count; i++) {
    count *= (double)axis_count(e, shape->axis[i]);
  }
  return count;
}

static const char *type_text(Arena *arena, const Graph *graph, const Value *value) {
  const char *type = element_type_name(value->type);
  if (value->type == TYPE_INDEX && value->bound >= 0) {
    type = arena_format(arena, "index(%s)", graph->axes.at[value->bound].written);
  }
  return arena_format(arena, "%s[%s]", type, names_text(arena, graph, &value->shape));
}

// `q.w: [embed 192 ; heads 6, hd 32], 36864 numbers`
static const char *parameter_text(Arena *arena, const Elaborator *e, const Persistent *tensor) {
  const char *axes = "";
  for (int i = 0; i < tensor->shape.count; i++) {
    const bool bar = i > 0 && i == tensor->stack_count;
    const bool out = tensor->in_count >= 0 && i == tensor->stack_count + tensor->in_count;
    axes =
        arena_format(arena, "%s%s%s %lld", axes,
                     out   ? " ; "
                     : bar ? " | "
                     : i   ? ", "
                           : "",
                     e->graph->axes.at[tensor->shape.axis[i]].written, (long long)axis_count(e, tensor->shape.axis[i]));
  }
  return arena_format(arena, "%s: [%s], %.0f numbers", tensor->name, axes, elements(e, &tensor->shape));
}

static const char *object_title(Arena *arena, const Elaborator *e, const Object *object) {
  switch (object->kind) {
    case OBJECT_VALUE:
      return type_text(arena, e->graph, graph_value(e->graph, object->value));
    case OBJECT_NUMBER:
      return arena_format(arena, "%.15g", object->number);
    case OBJECT_BOOL:
      return object->number != 0 ? "true" : "false";
    case OBJECT_STRING:
      return arena_format(arena, "\"%s\"", object->name);
    case OBJECT_AXIS:
      return arena_format(arena, "axis, %lld positions", (long long)axis_count(e, object->axes.axis[0]));
    case OBJECT_AXES:
      return arena_format(arena, "axes [%s]", sizes_text(arena, e, &object->axes));
    case OBJECT_FUNCTION:
      return arena_format(arena, "the function %s", object->function->declaration->ast->name);
    case OBJECT_TUPLE: {
      const char *text = "";
      for (int i = 0; i < object->count; i++) {
        const char *item = object_title(arena, e, &object->items[i]);
        text = arena_format(arena, "%s%s%s", text, i ? ", " : "", item ? item : "?");
      }
      return arena_format(arena, "(%s)", text);
    }
    default:
      return NULL;
  }
}

static const char *role_text(const Value *value) {
  return value->role == ROLE_PARAMETER ? "a parameter, "
         : value->role == ROLE_STATE   ? "state of the model, "
         : value->role == ROLE_INPUT   ? "an input, "
                                       : "";
}

static const char *value_detail(Arena *arena, const Elaborator *e, const Value *value) {
  const Persistent *tensor = value->role == ROLE_PARAMETER ? graph_persistent(e->graph, value->name) : NULL;
  if (tensor) {
    return arena_format(arena, "%s%s\n", role_text(value), parameter_text(arena, e, tensor));
  }
  char count[UNITS_MAX];
  if (value->shape.count == 0) {
    return arena_format(arena, "%sa single number\n", role_text(value));
  }
  return arena_format(arena, "%s%s: %s numbers\n", role_text(value), sizes_text(arena, e, &value->shape),
                      units_count(count, elements(e, &value->shape)));
}

// The parameters that a call makes.
static const char *call_detail(Arena *arena, const Elaborator *e, int first) {
  const Graph *graph = e->graph;
  const char *text = "";
  double sum = 0;
  int shown = 0, count = 0;
  for (int i = first; i < graph->persistent.count; i++) {
    const Persistent *tensor = &graph->persistent.at[i];
    if (tensor->role != ROLE_PARAMETER) {
      continue;
    }
    count++;
    sum += elements(e, &tensor->shape);
    if (shown < MOST_PARAMETERS) {
      text = arena_format(arena, "%sparameter %s\n", text, parameter_text(arena, e, tensor));
      shown++;
    }
  }
  char all[UNITS_MAX];
  return count > 1 ? arena_format(arena, "%s%d parameters, %s numbers\n", text, count, units_count(all, sum)) : text;
}

// --- where values come from ---

// Passes move values, and make others of the same text; names and places stay with what they stand for.
static RecordOrigin *origin_of(Arena *arena, const Graph *graph, ValueId v) {
  const Value *value = graph_value(graph, v);
  const Node *node = graph_producer(graph, v);
  RecordOrigin *origin = ARENA_NEW(arena, RecordOrigin);
  const uint64_t place[] = {map_key(value->name), (uint64_t)(uint32_t)value->span.file, value->span.begin,
                            value->span.end, node ? (uint64_t)(uint32_t)node->scope : 0};
  _Static_assert(sizeof place + sizeof(uint64_t) * SHAPE_MAX_AXES == sizeof origin->words, "all of it");
  uint64_t *axes = origin->words + sizeof place / sizeof *place;
  memcpy(origin->words, place, sizeof place);
  for (int i = 0; i < value->shape.count; i++) {  // in the order of their numbers; unused ones are 0
    const uint64_t axis = (uint64_t)value->shape.axis[i] + 1;
    int at = i;
    for (; at > 0 && axes[at - 1] > axis; at--) {
      axes[at] = axes[at - 1];
    }
    axes[at] = axis;
  }
  return value->name ? origin : NULL;
}

// --- watching ---

static void saw(void *context, const Elaborator *e, Span span, const Ast *call, const Object *object, int first) {
  Record *r = context;
  if (e->program != PROGRAM_TRAIN || r->divided || span.file < 0 || (r->graph && r->graph != e->graph)) {
    return;
  }
  r->graph = e->graph;
  const uint64_t place[] = {(uint64_t)(uint32_t)span.file, span.begin, span.end, call != NULL};
  if (map_get_bytes_or(&r->index, place, sizeof place, -1) >= 0) {
    return;  // the first round of a repeat, the first call of a function
  }
  const char *title = object_title(r->arena, e, object);
  if (!title) {
    return;
  }
  RecordEntry entry = {.span = span, .call = call != NULL, .title = title, .detail = ""};
  if (object->kind == OBJECT_VALUE) {
    const Value *value = graph_value(e->graph, object->value);
    entry.origin = origin_of(r->arena, e->graph, object->value);
    entry.detail = value_detail(r->arena, e, value);
  }
  if (call) {
    entry.detail = call_detail(r->arena, e, first);
  }
  map_put_bytes(&r->index, place, sizeof place, r->all.count);
  array_push(r->arena, &r->all, entry);
}

// --- once it is divided ---

static const char *held_text(Arena *arena, const Graph *graph, const Spec *spec, const Value *value) {
  const Sharding *sharding = value->sharding;
  const char *text = "", *partial = "";
  double share = 1;
  for (int i = 0; i < value->shape.count; i++) {
    const Axis *axis = &graph->axes.at[value->shape.axis[i]];
    text = arena_format(arena, "%s%s%s %lld", text, i ? ", " : "", axis->written, (long long)axis->size);
    for (int j = 0; sharding && j < sharding->entry_count; j++) {
      const ShardEntry *entry = &sharding->entries[j];
      for (int m = 0; entry->axis == value->shape.axis[i] && m < spec->mesh_count; m++) {
        if (spec->mesh[m].name == entry->mesh_axis) {
          text = arena_format(arena, "%s/%s%lld%s", text, entry->mesh_axis, (long long)spec->mesh[m].size,
                              entry->zigzag ? " zigzag" : "");
          share *= (double)spec->mesh[m].size;
        }
      }
    }
  }
  for (int j = 0; sharding && j < sharding->partial_count; j++) {
    partial = arena_format(arena, "%s%s%s", partial, j ? ", " : "", sharding->partial[j]);
  }
  if (*partial) {
    partial = arena_format(arena, ", as partial sums over %s", partial);
  }
  char whole[UNITS_MAX], part[UNITS_MAX];
  const double bytes = (double)graph_elements(graph, value->shape) * (double)element_type_bytes(value->type);
  if (share == 1 && !*partial) {
    return arena_format(arena, "every rank%s holds all of it: %s\n", spec->pipeline.axis ? " of its stage" : "",
                        units_bytes(whole, bytes));
  }
  return arena_format(arena, "a rank holds [%s]%s: %s of %s\n", text, partial, units_bytes(part, bytes / share),
                      units_bytes(whole, bytes));
}

// A value of the forward, once its format is known.
static bool is_forward(const Graph *graph, ValueId v) {
  const Value *value = graph_value(graph, v);
  const Node *node = graph_producer(graph, v);
  return value->type != TYPE_REAL && node && !node->backward && !node->recomputed && value->role != ROLE_GRADIENT;
}

static void add_held(Record *r, const Compilation *c, RecordEntry *entry, const Value *value) {
  const char *of = c->graph->slots > 1 && value->role == ROLE_ACTIVATION ? " (of one microbatch)" : "";
  entry->detail = arena_format(r->arena, "%sstored as %s%s\n", entry->detail, element_type_name(value->type), of);
  if (c->spec->mesh_count > 0) {
    entry->detail = arena_format(r->arena, "%sunder the layout %s %s", entry->detail,
                                 c->spec->text->layout ? c->spec->text->layout->name : "of the run",
                                 held_text(r->arena, c->graph, c->spec, value));
  }
}

static void after(void *context, Compilation *c, const char *pass) {
  Record *r = context;
  if (r->divided || c->graph != r->graph || strcmp(pass, "shard") != 0) {
    return;
  }
  r->divided = true;
  const Graph *graph = c->graph;
  Map origins = map_create(r->arena);
  for (ValueId v = 0; v < graph->values.count; v++) {
    const RecordOrigin *origin = is_forward(graph, v) ? origin_of(r->arena, graph, v) : NULL;
    if (origin &&
        (graph_value(graph, v)->sharding || map_get_bytes_or(&origins, origin->words, sizeof origin->words, -1) < 0)) {
      map_put_bytes(&origins, origin->words, sizeof origin->words, v);
    }
  }
  for (int i = 0; i < r->all.count; i++) {
    RecordEntry *entry = &r->all.at[i];
    const RecordOrigin *origin = entry->call ? NULL : entry->origin;
    const int64_t v = origin ? map_get_bytes_or(&origins, origin->words, sizeof origin->words, -1) : -1;
    if (v >= 0) {
      add_held(r, c, entry, graph_value(graph, (ValueId)v));
    }
  }
  for (int i = 0; i < graph->persistent.count; i++) {
    const Persistent *tensor = &graph->persistent.at[i];
    r->tensors += tensor->role == ROLE_PARAMETER;
    r->parameters += tensor->role == ROLE_PARAMETER ? graph_elements(graph, tensor->shape) : 0;
  }
}

Record *record_create(Arena *arena) {
  Record *r = ARENA_NEW(arena, Record);
  r->arena = arena;
  r->index = map_create(arena);
  r->text = (TextWatch){saw, r};
  r->pass = (PassWatch){after, r};
  return r;
}
