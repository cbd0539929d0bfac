// differentiate_values.c: outputs for the named values of the forward, for whoever compares two programs.
#include <math.h>
#include <string.h>

#include "compiler/grad/backward.h"
#include "compiler/ir/samples.h"
#include "compiler/pass/compilation.h"
#include "compiler/plan/numbers.h"

typedef struct {
  Compilation *c;
  bool *returned;  // by value: used outside of the function that makes it
  Map seen;        // path to how often it came
} Paths;

typedef struct {
  Compilation *c;
  ValueId loss;  // is an output already
  int *depth;    // by value: operations on the longest way to it
  bool *varies;  // by value: depends on data
  bool *masked;  // by value: made from an infinity that the text writes
  Map listed;    // path to its place in the list
  Map left_out;  // paths
} Collect;

typedef struct {  // of a value
  NodeId last;    // that reads it; -1: none
  int count;
} Readers;

// --- what values are called ---

static bool is_inside(const Graph *graph, ScopeId scope, ScopeId outer) {
  while (scope >= 0 && scope != outer) {
    scope = graph->scopes.at[scope].parent;
  }
  return scope == outer;
}

static void mark_returned(Paths *paths, RegionId region) {
  const Graph *graph = paths->c->graph;
  const NodeList *nodes = &graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    for (int j = 0; j < node->operand_count; j++) {
      const Node *maker = graph_producer(graph, node->operands[j]);
      if (maker && maker->scope >= 0 && !is_inside(graph, node->scope, maker->scope)) {
        paths->returned[node->operands[j]] = true;
      }
    }
    if (node->region >= 0) {
      mark_returned(paths, node->region);
    }
  }
}

// layers.0.h, or layers.0.norm for what a function returns; the second value of that name is layers.0.h.2
static Name path_of(Paths *paths, const Node *node, Name name) {
  const Graph *graph = paths->c->graph;
  Name path = node->scope >= 0 ? graph->scopes.at[node->scope].path : NULL;
  path = !name           ? name_format(graph->names, "value.%s", path)
         : path && *path ? name_format(graph->names, "value.%s.%s", path, name)
                         : name_format(graph->names, "value.%s", name);
  const int64_t times = map_get_or(&paths->seen, map_key(path), 0) + 1;
  map_put(&paths->seen, map_key(path), times);
  return times == 1 ? path : name_format(graph->names, "%s.%lld", path, (long long)times);
}

static void name_region(Paths *paths, RegionId region) {
  const Graph *graph = paths->c->graph;
  const NodeList *nodes = &graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    if (node->region >= 0) {
      name_region(paths, node->region);
    }
    for (int j = 0; j < node->result_count; j++) {
      Value *value = graph_value(graph, node->first_result + j);
      const Name name = value->name ? value->name : value->label;
      const bool result = paths->returned[node->first_result + j] && *graph->scopes.at[node->scope].path;
      if ((name || result) && value->type == TYPE_REAL && !op_leaf(node->op)) {
        value->path = path_of(paths, node, name);
      }
    }
  }
}

// Numbers are given in the order of the text, before values are merged or dropped: those of others stay.
void forward_paths(Compilation *c) {
  Paths paths = {.c = c, .seen = map_create(c->arena)};
  paths.returned = ARENA_ARRAY(c->arena, bool, c->graph->values.count + 1);
  mark_returned(&paths, 0);
  name_region(&paths, 0);
}

// --- what they depend on ---

static bool is_data(const Node *node) {
  return node->op == OP_INPUT && !input_is_number(node->text);
}

// A value that was made smaller and repeated has its path twice, and so has one that is 0 where a capacity leaves out
// what it was made of: the last is the one of the text.
static void list_value(Collect *collect, ForwardValues *values, ForwardValue made) {
  const int64_t at = map_get_or(&collect->listed, map_key(made.name), -1);
  if (at >= 0) {
    made.before = values->at[at].value;
    values->at[at] = made;
    return;
  }
  map_put(&collect->listed, map_key(made.name), values->count);
  array_push(collect->c->arena, values, made);
}

// Do microbatches make what the whole batch has? Not of what serves state that is of one microbatch.
static bool is_of_batch(const Compilation *c, ValueId value) {
  const SamplesKind kind = c->graph->slots > 1 ? samples_of(c->samples, value).kind : SAMPLES_SUM;
  return kind != SAMPLES_MIXED && kind != SAMPLES_SAME;
}

// An operation as the text calls it: a composite by its function.
static const char *called(const Node *node) {
  return node->region >= 0 && node->text ? node->text : op_name(node->op);
}

// value.layers.0.mlp.log.1234: the number is the value's, which no name of a text can be.
static Name unnamed_path(const Graph *graph, const Node *node, ValueId value) {
  const Name path = node->scope >= 0 ? graph->scopes.at[node->scope].path : NULL;
  return name_format(graph->names, "value.%s%s%s.%d", path ? path : "", path && *path ? "." : "", op_name(node->op),
                     (int)value);
}

// Does what is made from an infinity hold infinities itself? Not where many numbers become one, nor in functions of it.
static bool keeps_infinite(Op op) {
  return !op_reduction(op) && (op_copies(op) || op_picks(op) || op_moves(op) || op_linear(op) || op == OP_ADD ||
                               op == OP_SUB || op == OP_MUL);
}

static void collect_node(Collect *collect, const Node *node, ForwardValues *values) {
  const Graph *graph = collect->c->graph;
  int depth = 0;
  bool varies = is_data(node), masked = node->op == OP_CONST && isinf(node->number);
  for (int i = 0; i < node->operand_count; i++) {
    const int below = collect->depth[node->operands[i]];
    depth = below > depth ? below : depth;
    varies |= collect->varies[node->operands[i]];
    masked |= collect->masked[node->operands[i]] && keeps_infinite(node->op);
  }
  for (int i = 0; i < node->result_count; i++) {
    const ValueId id = node->first_result + i;
    const Value *value = graph_value(graph, id);
    collect->depth[id] = depth + 1;
    collect->varies[id] = varies;
    collect->masked[id] = masked;
    const bool unnamed = !value->path && collect->c->values->every && value->type == TYPE_REAL;
    if ((!value->path && !unnamed) || !varies || id == collect->loss || op_leaf(node->op)) {
      continue;
    }
    const ForwardValue made = {.value = id,
                               .before = id,
                               .name = unnamed ? unnamed_path(graph, node, id) : value->path,
                               .span = unnamed ? node->span : value->span,
                               .depth = depth + 1,
                               .op = called(node),
                               .scope = node->scope,
                               .unnamed = unnamed,
                               .infinite = masked};
    if (is_of_batch(collect->c, id)) {
      list_value(collect, values, made);
    } else if (map_get_or(&collect->left_out, map_key(made.name), -1) < 0) {
      map_put(&collect->left_out, map_key(made.name), values->left_out.count);
      array_push(collect->c->arena, &values->left_out, made);
    }
  }
}

void forward_values(Compilation *c, ValueId loss, ForwardValues *values) {
  const Graph *graph = c->graph;
  const NodeList *nodes = &graph->regions.at[0].nodes;
  Collect collect = {.c = c, .loss = loss, .listed = map_create(c->arena), .left_out = map_create(c->arena)};
  collect.depth = ARENA_ARRAY(c->arena, int, graph->values.count + 1);
  collect.masked = ARENA_ARRAY(c->arena, bool, graph->values.count + 1);
  collect.varies = ARENA_ARRAY(c->arena, bool, graph->values.count + 1);
  for (int i = 0; i < nodes->count; i++) {
    collect_node(&collect, graph_node(graph, nodes->at[i]), values);
  }
  int count = 0;
  for (int i = 0; i < values->left_out.count; i++) {  // a copy of one microbatch has the path of what is given
    const ForwardValue *made = &values->left_out.at[i];
    if (map_get_or(&collect.listed, map_key(made->name), -1) < 0) {
      values->left_out.at[count++] = *made;
    }
  }
  values->left_out.count = count;
  values->loss_depth = collect.depth[loss];
}

static Readers *find_readers(const Compilation *c) {
  const Graph *graph = c->graph;
  const NodeList *nodes = &graph->regions.at[0].nodes;
  Readers *readers = ARENA_ARRAY(c->arena, Readers, graph->values.count + 1);
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(graph, nodes->at[i]);
    for (int j = 0; j < node->operand_count && !node->backward && node->op != OP_OUTPUT; j++) {
      Readers *of = &readers[node->operands[j]];
      of->count += of->count == 0 || of->last != nodes->at[i];
      of->last = nodes->at[i];
    }
  }
  return readers;
}

// The last value of the forward has its gradient first.
void forward_gradients(Compilation *c, Backward *backward, ForwardValues *values) {
  Graph *graph = c->graph;
  const Readers *readers = find_readers(c);
  for (int i = values->count - 1; i >= 0; i--) {
    ForwardValue of = values->at[i];
    of.value = readers[of.value].count > 0 ? of.value : of.before;
    const bool late = graph->slots > 1 && samples_of(c->samples, of.value).kind == SAMPLES_LATE;
    const ValueId gradient = late || readers[of.value].count == 0 ? -1 : backward_gradient(backward, of.value);
    const Node *maker = gradient >= 0 ? graph_producer(graph, gradient) : NULL;
    if (!maker || op_leaf(maker->op)) {
      continue;
    }
    const Node *reader = graph_node(graph, readers[of.value].last);
    const ForwardValue made = {.value = gradient,
                               .name = name_format(graph->names, "gradient.%s", of.name),
                               .span = reader->span,
                               .depth = 2 * values->loss_depth,
                               .op = called(reader),
                               .scope = of.scope,
                               .uses = readers[of.value].count,
                               .unnamed = of.unnamed};
    array_push(c->arena, values, made);
  }
}

static void list_add(CompiledValues *list, Name name, Span span, int depth) {
  const CompiledValue value = {.name = name, .span = span, .depth = depth};
  array_push(list->arena, list, value);
}

static void list_made(const Graph *graph, CompiledValues *list, const ForwardValue *made) {
  list_add(list, made->name, made->span, made->depth);
  CompiledValue *value = &list->at[list->count - 1];
  const Name path = made->scope >= 0 ? graph->scopes.at[made->scope].path : NULL;
  value->op = made->op;
  value->where = path ? path : "";
  value->uses = made->uses;
  value->unnamed = made->unnamed;
  value->infinite = made->infinite;
}

void forward_values_output(Compilation *c, const ForwardValues *values, Span loss) {
  Graph *graph = c->graph;
  for (int i = 0; i < values->count; i++) {
    graph_add1(graph, OP_OUTPUT, (NodeInit){NODE_INIT, .text = values->at[i].name}, values->at[i].value);
  }
  for (int i = 0; i < values->count && c->stage == 0; i++) {
    if (values->at[i].uses == 0) {
      list_made(graph, c->values, &values->at[i]);
    }
  }
  for (int i = 0; i < values->left_out.count && c->stage == 0; i++) {
    list_made(graph, c->values, &values->left_out.at[i]);
  }
  if (c->stage == 0) {
    list_add(c->values, name_of(graph->names, "loss"), loss, values->loss_depth);
  }
  for (int i = 0; i < values->count && c->stage == 0; i++) {
    if (values->at[i].uses > 0) {
      list_made(graph, c->values, &values->at[i]);
    }
  }
  for (int i = graph->persistent.count - 1; i >= 0 && c->stage == 0; i--) {  // the backward's order, about
    const Persistent *parameter = &graph->persistent.at[i];
    if (parameter->role == ROLE_PARAMETER && parameter->group >= 0) {
      list_add(c->values, name_format(graph->names, "gradient.%s", parameter->name), parameter->span,
               2 * values->loss_depth);
    }
  }
}
