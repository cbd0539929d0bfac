// scan.c: recurrences: the body of a scan once, over all positions, with what is carried as it was one position before.
//
// Values in the body keep the scanned axis, so that text means one position of them; that no operation of the body
// looks along the axis is checked at its end. What the body reads before it assigns a carried name is that of the
// position before: a parameter of the region, of which the same result of the region is what comes out.
#include "lang/elaborate.h"

typedef struct {
  Name name;
  Span span;
  ValueId before, initial;
  Shape shape;  // with the axis
} Carried;

struct Scan {
  AxisId axis;
  Frame *frame;  // that it stands in
  RegionId region, outer;
  ARRAY(Carried) carried;
};

static bool may_stand_in(const Ast *statement) {
  return statement->kind == AST_ASSIGN || statement->kind == AST_CARRY || statement->kind == AST_IF ||
         statement->kind == AST_REPEAT || statement->kind == AST_CONST;
}

static bool check_statements(Elaborator *e, const Ast *block);

static bool check_statement(Elaborator *e, const Ast *statement) {
  bool right = may_stand_in(statement);
  if (!right) {
    Diagnostic *error = diag_error(e->diag, E035, statement->span, "no %s in a scan", ast_kind_name(statement->kind));
    diag_help(e->diag, error, "a scan assigns and carries values: write it before the scan or behind it");
  }
  for (int i = 0; i < statement->count && (statement->kind == AST_IF || statement->kind == AST_REPEAT); i++) {
    const Ast *part = statement->kids[i];
    right = (!part || part->kind != AST_BLOCK || check_statements(e, part)) && right;
    right = (!part || part->kind != AST_IF || check_statement(e, part)) && right;
  }
  return right;
}

static bool check_statements(Elaborator *e, const Ast *block) {
  bool right = true;
  for (int i = 0; i < block->count; i++) {
    right = check_statement(e, block->kids[i]) && right;
  }
  return right;
}

// The value before the first position, which stands outside.
static bool first_value(Elaborator *e, const Ast *ast, const Shape *shape, ValueId *initial) {
  const RegionId region = e->graph->region;
  e->graph->region = e->scan->outer;
  const bool made = object_tensor(e, evaluate(e, ast->kids[1]), true, ast->kids[1]->span, initial);
  e->graph->region = region;
  const Shape has = made ? graph_shape(e->graph, *initial) : (Shape){0};
  if (made && !shape_contains(shape, &has)) {
    diag_error(e->diag, E022, ast->kids[1]->span, "the carried '%s' has axes %s, its first value has %s", ast->name,
               axes_text(e, shape), axes_text(e, &has));
    return false;
  }
  return made;
}

void run_carry(Elaborator *e, const Ast *ast) {
  Carried carried = {.name = ast->name, .span = ast->name_span};
  Scan *scan = e->scan;
  Object object = object_poison();
  if (!scan || e->frame != scan->frame) {
    diag_error(e->diag, E035, ast->span, "'carry' is for the body of a scan");
    return;
  }
  if (!evaluate_axes(e, ast->kids[0], &carried.shape, NULL, NULL)) {
    frame_set(e, e->frame, ast->name, object);
    return;
  }
  if (shape_has(&carried.shape, scan->axis)) {
    Diagnostic *error =
        diag_error(e->diag, E021, ast->span, "the carried value has the scanned axis '%s'", axis_name(e, scan->axis));
    diag_help(e->diag, error, "it is what one position hands to the next: leave '%s' out", axis_name(e, scan->axis));
  } else if (axes_fit(e, carried.shape.count + 1, ast->span) && first_value(e, ast, &carried.shape, &carried.initial)) {
    shape_push(&carried.shape, scan->axis);
    Value before = {.type = e->graph->real,
                    .bound = -1,
                    .role = ROLE_ACTIVATION,
                    .shape = carried.shape,
                    .name = ast->name,
                    .span = ast->name_span,
                    .node = -1};
    carried.before = graph_new_value(e->graph, before);
    array_push(e->arena, &scan->carried, carried);
    object = object_value(carried.before, ast->name_span);
  }
  frame_set(e, e->frame, ast->name, object);
}

// --- the end of the body ---

static bool looks_along(const Node *node, AxisId axis) {
  if (node->op == OP_POSITION || node->op == OP_BROADCAST || op_random(node->op) || op_leaf(node->op)) {
    return false;
  }
  return shape_has(&node->axes, axis) || node->axis == axis || node->axis2 == axis;
}

static bool check_nodes(Elaborator *e, RegionId region, AxisId axis) {
  const NodeList *nodes = &e->graph->regions.at[region].nodes;
  for (int i = 0; i < nodes->count; i++) {
    const Node *node = graph_node(e->graph, nodes->at[i]);
    if (looks_along(node, axis)) {
      Diagnostic *error = diag_error(e->diag, E021, span_of_user(e, node->span),
                                     "a scan sees one position of '%s' at a time", axis_name(e, axis));
      diag_label(e->diag, error, "this takes several of them");
      diag_help(e->diag, error, "compute it before the scan, or behind it");
      return false;
    }
    if (node->region >= 0 && !check_nodes(e, node->region, axis)) {
      return false;
    }
  }
  return true;
}

// What comes out of the body for a carried value, with all of its axes; -1: something was reported.
static ValueId carried_on(Elaborator *e, const Carried *carried) {
  const Object *object = frame_find(e->frame, carried->name);
  ValueId value;
  if (object->kind == OBJECT_VALUE && object->value == carried->before) {
    Diagnostic *error = diag_error(e->diag, E036, carried->span, "the scan never assigns '%s'", carried->name);
    diag_help(e->diag, error, "say what the next position gets: `%s = ...;`", carried->name);
    return -1;
  }
  if (!object_tensor(e, *object, true, object->span, &value)) {
    return -1;
  }
  const Shape has = graph_shape(e->graph, value);
  if (!shape_contains(&carried->shape, &has)) {
    Shape without = carried->shape;
    shape_remove(&without, e->scan->axis);
    Shape one = has;
    shape_remove(&one, e->scan->axis);
    diag_error(e->diag, E022, object->span, "the carried '%s' has axes %s, its next value has %s", carried->name,
               axes_text(e, &without), axes_text(e, &one));
    return -1;
  }
  if (!shape_same_set(&carried->shape, &has)) {
    value = graph_add1(e->graph, OP_BROADCAST, (NodeInit){NODE_INIT, .axes = carried->shape}, value);
    graph_value(e->graph, value)->name = carried->name;
  }
  return value;
}

// Names that the body has assigned stand for results of the node from here on.
static void take_out(Object *object, const Map *results, ValueId first) {
  const int64_t at = object->kind == OBJECT_VALUE ? map_get_or(results, (uint64_t)object->value, -1) : -1;
  object->value = at >= 0 ? first + (ValueId)at : object->value;
  for (int i = 0; object->kind == OBJECT_TUPLE && i < object->count; i++) {
    take_out(&object->items[i], results, first);
  }
}

static void add_result(Elaborator *e, Region *region, Map *results, ValueId value) {
  if (map_get_or(results, (uint64_t)value, -1) < 0) {
    map_put(results, (uint64_t)value, region->results.count);
    array_push(e->graph->arena, &region->results, value);
  }
}

static void add_results_of(Elaborator *e, const Object *object, const Map *inside, Region *region, Map *results) {
  if (object->kind == OBJECT_VALUE && map_get_or(inside, (uint64_t)object->value, -1) >= 0) {
    add_result(e, region, results, object->value);
  }
  for (int i = 0; object->kind == OBJECT_TUPLE && i < object->count; i++) {
    add_results_of(e, &object->items[i], inside, region, results);
  }
}

static void close_scan(Elaborator *e, const Ast *ast) {
  Graph *graph = e->graph;
  Scan *scan = e->scan;
  Region region = graph->regions.at[scan->region];
  Map inside = map_create(e->arena), results = map_create(e->arena);
  ValueId *initial = ARENA_ARRAY(graph->arena, ValueId, scan->carried.count + 1);
  for (int i = 0; i < scan->carried.count; i++) {
    const ValueId value = carried_on(e, &scan->carried.at[i]);
    if (value < 0) {
      return;
    }
    initial[i] = scan->carried.at[i].initial;
    frame_find(e->frame, scan->carried.at[i].name)->value = value;
    array_push(graph->arena, &region.parameters, scan->carried.at[i].before);
    array_push(graph->arena, &region.results, value);
    map_put(&results, (uint64_t)value, i);
  }
  region.nodes = graph->regions.at[scan->region].nodes;
  for (int i = 0; i < region.nodes.count; i++) {
    const Node *node = graph_node(graph, region.nodes.at[i]);
    for (int r = 0; r < node->result_count; r++) {
      map_put(&inside, (uint64_t)(node->first_result + r), 0);
    }
  }
  for (int i = 0; i < region.parameters.count; i++) {
    map_put(&inside, (uint64_t)region.parameters.at[i], 0);
  }
  for (int i = 0; i < e->frame->objects.count; i++) {
    add_results_of(e, &e->frame->objects.at[i], &inside, &region, &results);
  }
  graph->regions.at[scan->region] = region;
  graph->region = scan->outer;
  graph->span = ast->span;
  const NodeInit init = {NODE_INIT, .axis = scan->axis, .region = scan->region};
  const ValueId first = graph_add(graph, OP_SCAN, init, initial, scan->carried.count);
  for (int i = 0; i < e->frame->objects.count; i++) {
    take_out(&e->frame->objects.at[i], &results, first);
  }
}

static void poison_names(Elaborator *e, const Ast *block) {  // what it assigns is unknown from here on
  for (int i = 0; i < block->count; i++) {
    const Ast *statement = block->kids[i];
    for (int j = 0; statement->kind == AST_ASSIGN && j < statement->kids[0]->count; j++) {
      frame_set(e, e->frame, statement->kids[0]->kids[j]->name, object_poison());
    }
  }
}

static bool opens(Elaborator *e, const Ast *ast, AxisId *axis) {
  if (!evaluate_axis(e, ast->kids[0], axis) || !check_statements(e, ast->kids[1])) {
    return false;
  }
  const char *outside = e->scan ? "a scan" : called_by(e, FRAME_INITIALISER) ? NULL : outside_model(e);
  if (outside) {
    diag_error(e->diag, E035, ast->span, "no scan inside %s", outside);
    return false;
  }
  if (cut_in_microbatches(e, *axis)) {
    needs_whole_batch(e, *axis, ast->span);
    return false;
  }
  return true;
}

void run_scan(Elaborator *e, const Ast *ast) {
  Graph *graph = e->graph;
  const int errors = e->diag->reports;
  AxisId axis;
  if (!opens(e, ast, &axis)) {
    poison_names(e, ast->kids[1]);
    return;
  }
  Scan scan = {.axis = axis, .frame = e->frame, .region = graph_region(graph), .outer = graph->region};
  const ScopeId scope = graph->scope;
  e->scan = &scan;
  graph->region = scan.region;
  graph->scope = graph_scope(graph, scope, name_of(e->names, "scan"), graph->scopes.at[scope].path, -1);
  run_block(e, ast->kids[1]);
  if (e->diag->reports == errors && scan.carried.count == 0) {
    Diagnostic *error = diag_error(e->diag, E036, ast->span, "the scan carries nothing");
    diag_help(e->diag, error, "begin it with `carry h: [axes] = 0;`");
  }
  if (e->diag->reports == errors && check_nodes(e, scan.region, axis)) {
    close_scan(e, ast);
  }
  if (e->diag->reports != errors) {
    poison_names(e, ast->kids[1]);
  }
  graph->region = scan.outer;
  graph->scope = scope;
  e->scan = NULL;
}
