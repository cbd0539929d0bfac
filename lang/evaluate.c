// evaluate.c: expressions to objects; axes, sizes and types.
#include <math.h>
#include <string.h>

#include "lang/elaborate.h"

enum { ELABORATE_MAX_DEPTH = 256 };

static Object from_declaration(Elaborator *e, const Ast *ast);

// A name ending in ' is a fresh axis like the one without.
static bool fresh_axis(Elaborator *e, Name name, Span span, Object *out) {
  size_t length = strlen(name);
  if (length < 2 || name[length - 1] != '\'') {
    return false;
  }
  Ast base = {.kind = AST_NAME, .span = span, .name = name_of_bytes(e->names, name, length - 1)};
  AxisId axis;
  if (!evaluate_axis(e, &base, &axis)) {
    *out = object_poison();
    return true;
  }
  Axis like = e->graph->axes.at[axis];
  AxisId made = graph_axis(e->graph, name_format(e->names, "%s'", like.written), like.size);
  e->graph->axes.at[made].global = like.global;
  *out = object_axis(made, span);
  return true;
}

static Object find_name(Elaborator *e, Name name, Span span) {
  const Object *variable = variable_find(e, name);
  if (variable && variable->kind == OBJECT_FUNCTION) {
    Diagnostic *error = diag_error(e->diag, E013, span, "'%s' is %s, not a value", name, object_describe(e, variable));
    diag_help(e->diag, error, "call it, `%s(...)`, or give it to a function",
              diag_in_library(e->diag, span) ? variable->function->declaration->ast->name : name);
    return object_poison();
  }
  if (variable) {
    return *variable;
  }
  Object out;
  if (fresh_axis(e, name, span, &out)) {
    return out;
  }
  const Declaration *declaration = unit_find(e->unit, SPACE_CODE, name);
  if (declaration && (declaration->ast->kind == AST_CONST || declaration->ast->kind == AST_AXIS)) {
    return from_declaration(e, declaration->ast);
  }
  if (strcmp(name, "inf") == 0) {
    return object_number(INFINITY, false, span);
  }
  if (strcmp(name, "pi") == 0) {
    return object_number(3.14159265358979323846, false, span);
  }
  if (strcmp(name, "training") == 0) {
    return object_bool(e->training, span);
  }
  if (strcmp(name, "step") == 0) {
    return object_value(step_value(e), span);
  }
  if (declaration) {
    Diagnostic *error = diag_error(e->diag, E013, span, "'%s' is %s, not a value", name, declared_as(declaration->ast));
    if (declaration->ast->kind == AST_FUNCTION) {
      diag_help(e->diag, error, "call it: `%s(...)`", name);
    }
    return object_poison();
  }
  Frame *maker = e->frame->kind == FRAME_INITIALISER ? e->frame->caller : NULL;
  if (maker && frame_find(maker, name)) {
    Diagnostic *error = diag_error(e->diag, E033, span, "parameters begin before there is a value of '%s'", name);
    diag_help(e->diag, error, "an initial value is made of numbers, sizes and random numbers");
    return object_poison();
  }
  unknown_name(e, name, span, e->axis_wanted ? "axis" : "value");
  return object_poison();
}

static Object look_up(Elaborator *e, Name name, Span span) {
  const Object object = find_name(e, name, span);
  saw_name(e, span, &object);
  return object;
}

static Object axis_from_declaration(Elaborator *e, const Ast *ast) {
  int64_t size = 0;
  if (ast->kids[1]) {
    AxisId like;
    if (!evaluate_axis(e, ast->kids[1], &like)) {
      return object_poison();
    }
    size = axis_size(e, like);
  } else if (!ast->kids[0]) {
    Diagnostic *error = diag_error(e->diag, E023, ast->name_span, "axis '%s' outside a model has no size", ast->name);
    diag_help(e->diag, error, "give it one: `axis %s = 64;`", ast->name);
    return object_poison();
  } else if (!evaluate_size(e, ast->kids[0], &size)) {
    return object_poison();
  }
  return object_axis(graph_axis(e->graph, ast->name, size), ast->name_span);
}

// An axis or a constant that stands outside of models and functions: it sees only others like it.
static Object from_declaration(Elaborator *e, const Ast *ast) {
  for (int i = 0; i < e->resolving.count; i++) {
    if (e->resolving.at[i] == ast) {
      diag_error(e->diag, E014, ast->name_span, "the value of '%s' depends on itself", ast->name);
      return object_poison();
    }
  }
  array_push(e->arena, &e->resolving, ast);
  frame_push(e, FRAME_SETTINGS, NULL, name_of(e->names, ""));
  e->axis_wanted = false;  // what it is made of are sizes
  Object object = ast->kind == AST_CONST ? evaluate(e, ast->kids[0]) : axis_from_declaration(e, ast);
  frame_pop(e);
  e->resolving.count--;
  return object;
}

static Object look_up_axis(Elaborator *e, const Ast *ast) {
  e->axis_wanted = true;
  const Object object = look_up(e, ast->name, ast->span);
  e->axis_wanted = false;
  return object;
}

bool evaluate_axis(Elaborator *e, const Ast *ast, AxisId *axis) {
  Object object = look_up_axis(e, ast);
  if (object.kind == OBJECT_AXIS) {
    *axis = object.axes.axis[0];
    return true;
  }
  if (object.kind != OBJECT_POISON) {
    diag_error(e->diag, E013, ast->span, "'%s' is %s, not an axis", ast->name, object_describe(e, &object));
  }
  return false;
}

static bool push_axis(Elaborator *e, Shape *shape, AxisId axis, Span span) {
  if (shape_push(shape, axis)) {
    return true;
  }
  if (shape_has(shape, axis)) {
    diag_error(e->diag, E021, span, "axis '%s' occurs twice", axis_name(e, axis));
  } else {
    diag_error(e->diag, E090, span, "more than %d axes", SHAPE_MAX_AXES);
  }
  return false;
}

bool evaluate_axes(Elaborator *e, const Ast *axes, Shape *shape, int *stack_count, int *in_count) {
  *shape = (Shape){0};
  int stack = 0, in = -1;
  bool good = true;
  for (int i = 0; i < axes->count; i++) {
    const Ast *item = axes->kids[i];
    if (item->kind == AST_BAR) {
      stack = shape->count;
      continue;
    }
    if (item->kind == AST_SEMICOLON) {
      in = shape->count - stack;
      continue;
    }
    Object object = look_up_axis(e, item);
    if (object.kind != OBJECT_AXIS && object.kind != OBJECT_AXES) {
      if (object.kind != OBJECT_POISON) {
        diag_error(e->diag, E013, item->span, "'%s' is %s, not an axis", item->name, object_describe(e, &object));
      }
      good = false;
      continue;
    }
    for (int j = 0; j < object.axes.count; j++) {
      good = push_axis(e, shape, object.axes.axis[j], item->span) && good;
    }
  }
  if (stack_count) {
    *stack_count = stack;
    *in_count = in;
  }
  return good;
}

bool evaluate_number(Elaborator *e, const Ast *ast, double *number, bool *integer) {
  Object object = evaluate(e, ast);
  if (object_size(&object, e, number, integer)) {
    return true;
  }
  if (object.kind != OBJECT_POISON) {
    diag_error(e->diag, E033, ast->span, "expected a number known at compile time, found %s",
               object_describe(e, &object));
  }
  return false;
}

// The first axis in an expression, or -1.
static AxisId axis_in(Elaborator *e, const Ast *ast) {
  const Object *object = ast->kind == AST_NAME ? variable_find(e, ast->name) : NULL;
  AxisId found = object && object->kind == OBJECT_AXIS ? object->axes.axis[0] : -1;
  for (int i = 0; i < ast->count && found < 0; i++) {
    found = ast->kids[i] ? axis_in(e, ast->kids[i]) : -1;
  }
  return found;
}

// `size(hd) / 2` where hd is odd.
static void divided_help(Elaborator *e, Diagnostic *error, const Ast *ast) {
  if (ast->kind != AST_BINARY || strcmp(ast->name, "/") != 0 || ast->kids[1]->kind != AST_NUMBER) {
    return;
  }
  const AxisId axis = axis_in(e, ast->kids[0]);
  const char *by =
      ast->kids[1]->number == 2 ? "even" : arena_format(e->arena, "a multiple of %g", ast->kids[1]->number);
  if (axis >= 0) {
    diag_help(e->diag, error, "'%s' has size %lld, and must be %s", axis_name(e, axis), (long long)axis_count(e, axis),
              by);
  }
}

bool whole_help(Elaborator *e, Diagnostic *error, const Ast *ast, double number) {
  const bool whole = number == floor(number) && number >= 1 && number <= 9e15;
  if (whole && ast->kind == AST_NUMBER) {
    diag_help(e->diag, error, "a whole number has neither a point nor an exponent: write `%.0f`", number);
  } else if (whole) {
    diag_help(
        e->diag, error,
        "it is computed from a number with a point or an exponent, which is a real one; `1000` is whole, `1e3` and "
        "`1000.0` are not; `floor(...)` of it is whole");
  }
  return whole;
}

bool evaluate_size(Elaborator *e, const Ast *ast, int64_t *size) {
  double number;
  bool integer;
  if (!evaluate_number(e, ast, &number, &integer)) {
    return false;
  }
  if (!integer || number < 1 || number > 9e15) {
    Diagnostic *error =
        diag_error(e->diag, E034, ast->span, "a size must be a whole number from 1 to 9e15, found %g", number);
    if (!integer && !whole_help(e, error, ast, number)) {
      divided_help(e, error, ast);
    }
    return false;
  }
  *size = (int64_t)number;
  return true;
}

bool positions_fit(Elaborator *e, AxisId axis, Span span) {
  if (axis_size(e, axis) > INT32_MAX) {
    diag_error(e->diag, E090, span, "positions are numbers of 32 bits, and '%s' is longer than that",
               axis_name(e, axis));
    return false;
  }
  return true;
}

bool evaluate_type(Elaborator *e, const Ast *type, ElementType *out, AxisId *bound) {
  *bound = -1;
  if (strcmp(type->name, "index") == 0) {
    *out = TYPE_INDEX;
    return type->kids[0] && evaluate_axis(e, type->kids[0], bound) && positions_fit(e, *bound, type->kids[0]->span);
  }
  *out = strcmp(type->name, "int") == 0 ? TYPE_INT : strcmp(type->name, "bool") == 0 ? TYPE_BOOL : TYPE_REAL;
  if (*out == TYPE_REAL && strcmp(type->name, "real") != 0) {
    Diagnostic *error = diag_error(e->diag, E010, type->span, "there is no type '%s'", type->name);
    diag_help(e->diag, error, "types are real, index(axis), int and bool");
    return false;
  }
  return true;
}

static Object evaluate_take(Elaborator *e, Object x, Object index, Span span) {
  if (index.kind != OBJECT_VALUE || graph_value(e->graph, index.value)->type != TYPE_INDEX) {
    if (index.kind != OBJECT_POISON) {
      Diagnostic *error = diag_error(e->diag, E031, span, "the index is %s", object_describe(e, &index));
      diag_label(e->diag, error, "expected a value of type index(axis)");
      diag_help(e->diag, error, "convert it: `i as index(axis)`; for a position known at compile time: `x[axis: 3]`");
    }
    return object_poison();
  }
  AxisId bound = graph_value(e->graph, index.value)->bound;
  Shape shape = graph_shape(e->graph, x.value), by = graph_shape(e->graph, index.value);
  if (!shape_has(&shape, bound)) {
    Diagnostic *error = diag_error(e->diag, E031, span, "an index of axis '%s' cannot index a value with axes %s",
                                   axis_name(e, bound), axes_text(e, &shape));
    diag_label(e->diag, error, "this is %s", object_describe(e, &index));
    return object_poison();
  }
  if (shape_has(&by, bound)) {
    Diagnostic *error =
        diag_error(e->diag, E021, span, "the index has the axis '%s' that it indexes", axis_name(e, bound));
    diag_help(e->diag, error, "rename it in the index first: `i[%s -> ...]`", axis_name(e, bound));
    return object_poison();
  }
  if (!axes_fit(e, shape.count - 1 + shape_minus(by, &shape).count, span)) {
    return object_poison();
  }
  NodeInit init = {NODE_INIT, .axis = bound};
  return object_value(graph_add2(e->graph, OP_TAKE, init, x.value, index.value), span);
}

// As text sees them: of the whole batch.
static int64_t positions_of(const Elaborator *e, const Shape *axes) {
  int64_t count = 1;
  for (int i = 0; i < axes->count; i++) {
    count *= axis_count(e, axes->axis[i]);
  }
  return count;
}

// The first of these axes that microbatches cut, or -1.
static AxisId cut_axis(const Elaborator *e, const Shape *axes) {
  for (int i = 0; i < axes->count; i++) {
    if (cut_in_microbatches(e, axes->axis[i])) {
      return axes->axis[i];
    }
  }
  return -1;
}

static Object evaluate_slice(Elaborator *e, Object x, const Ast *slice) {
  AxisId axis, to_axis = -1;
  double from = 0, to = 0;
  bool integer;
  if (!evaluate_axis(e, slice->kids[0], &axis) || !evaluate_number(e, slice->kids[1], &from, &integer)) {
    return object_poison();
  }
  Shape wanted = shape_of(axis);
  if (!check_axes(e, x.value, &wanted, slice->kids[0]->span, "the sliced value")) {
    return object_poison();
  }
  to = from + 1;
  if (slice->kids[2] && !evaluate_number(e, slice->kids[2], &to, &integer)) {
    return object_poison();
  }
  int64_t size = axis_count(e, axis);
  if (from != floor(from) || to != floor(to) || from < 0 || to > (double)size || to <= from) {
    diag_error(e->diag, E025, slice->span, "positions %g to %g are not inside axis '%s' of size %lld", from, to,
               axis_name(e, axis), (long long)size);
    return object_poison();
  }
  if (cut_in_microbatches(e, axis)) {
    return needs_whole_batch(e, axis, slice->span);
  }
  if (slice->kids[3]) {
    if (!evaluate_axis(e, slice->kids[3], &to_axis)) {
      return object_poison();
    }
  } else if (slice->kids[2]) {
    Diagnostic *error = diag_error(e->diag, E025, slice->span, "a slice is another axis and needs a name");
    diag_help(e->diag, error, "write `x[%s: %g .. %g -> name]` with an axis of size %g", axis_name(e, axis), from, to,
              to - from);
    return object_poison();
  }
  if (to_axis >= 0 && axis_count(e, to_axis) != (int64_t)(to - from)) {
    diag_error(e->diag, E024, slice->kids[3]->span, "axis '%s' has size %lld, the slice has %lld positions",
               axis_name(e, to_axis), (long long)axis_count(e, to_axis), (long long)(to - from));
    return object_poison();
  }
  if (to_axis >= 0 && cut_in_microbatches(e, to_axis)) {
    return needs_whole_batch(e, to_axis, slice->span);
  }
  Shape shape = graph_shape(e->graph, x.value);
  if (to_axis >= 0 && to_axis != axis && shape_has(&shape, to_axis)) {
    diag_error(e->diag, E021, slice->span, "axis '%s' would occur twice", axis_name(e, to_axis));
    return object_poison();
  }
  NodeInit init = {NODE_INIT, .axis = axis, .axis2 = to_axis, .integer = (int64_t)from};
  return object_value(graph_add1(e->graph, OP_SLICE, init, x.value), slice->span);
}

// Names of axes, and of lists of them in the place of all that they have.
static bool name_list(Elaborator *e, const Ast *list, Shape *shape) {
  if (!evaluate_axes(e, list, shape, NULL, NULL)) {
    return false;
  }
  if (shape->count == 0) {
    diag_error(e->diag, E030, list->span,
               "this list of axes is empty: there is nothing to merge, to split or to rename");
  }
  return shape->count > 0;
}

static Object evaluate_rename(Elaborator *e, Object x, const Ast *rename) {
  Shape from, to;
  if (!name_list(e, rename->kids[0], &from) || !name_list(e, rename->kids[1], &to) ||
      !check_axes(e, x.value, &from, rename->kids[0]->span, "the renamed value")) {
    return object_poison();
  }
  if (from.count > 1 && to.count > 1) {
    Diagnostic *error = diag_error(e->diag, E030, rename->span, "several axes are on both sides of `->`");
    diag_help(e->diag, error, "merge first and split then: `x[(a, b) -> c][c -> (d, e)]`");
    return object_poison();
  }
  Shape rest = graph_shape(e->graph, x.value);
  rest = shape_minus(rest, &from);
  for (int i = 0; i < to.count; i++) {
    if (shape_has(&rest, to.axis[i])) {
      Diagnostic *error =
          diag_error(e->diag, E021, rename->span, "axis '%s' would occur twice", axis_name(e, to.axis[i]));
      diag_label(e->diag, error, "the value has it already");
      return object_poison();
    }
  }
  if (!axes_fit(e, rest.count + to.count, rename->span)) {
    return object_poison();
  }
  if (positions_of(e, &from) != positions_of(e, &to)) {
    diag_error(e->diag, E024, rename->span, "sizes differ: %s has %lld positions, %s has %lld", axes_text(e, &from),
               (long long)positions_of(e, &from), axes_text(e, &to), (long long)positions_of(e, &to));
    return object_poison();
  }
  if (graph_elements(e->graph, from) != graph_elements(e->graph, to)) {
    AxisId cut = cut_axis(e, &from);
    return needs_whole_batch(e, cut >= 0 ? cut : cut_axis(e, &to), rename->span);
  }
  NodeInit init = {NODE_INIT, .axis = from.axis[0], .axis2 = to.axis[0]};
  Op op = OP_RENAME;
  if (from.count == 1 && to.count == 1 && from.axis[0] == to.axis[0]) {
    return x;
  }
  if (to.count > 1) {
    op = OP_SPLIT;
    init.axes = to;
    init.axis2 = -1;
  } else if (from.count > 1) {
    op = OP_MERGE;
    init.axes = from;
    init.axis = -1;
  }
  return object_value(graph_add1(e->graph, op, init, x.value), rename->span);
}

static Object evaluate_index(Elaborator *e, const Ast *ast) {
  Object x = evaluate(e, ast->kids[0]);
  const Ast *items = ast->kids[1];
  for (int i = 0; i < items->count; i++) {
    const Ast *item = items->kids[i];
    if (x.kind != OBJECT_VALUE) {
      if (x.kind != OBJECT_POISON) {
        diag_error(e->diag, E032, ast->span, "only tensors are indexed, this is %s", object_describe(e, &x));
      }
      return object_poison();
    }
    e->graph->span = item->span;
    if (item->kind == AST_SLICE) {
      x = evaluate_slice(e, x, item);
    } else if (item->kind == AST_RENAME) {
      x = evaluate_rename(e, x, item);
    } else {
      Object index = evaluate(e, item);
      e->graph->span = item->span;
      x = evaluate_take(e, x, index, item->span);
    }
  }
  return x;
}

static Object evaluate_as(Elaborator *e, const Ast *ast) {
  Object x = evaluate(e, ast->kids[0]);
  ElementType type;
  AxisId bound;
  if (x.kind == OBJECT_POISON || !evaluate_type(e, ast->kids[1], &type, &bound)) {
    return object_poison();
  }
  e->graph->span = ast->span;
  ValueId value;
  double number;
  bool integer;
  if (type == TYPE_INDEX && object_size(&x, e, &number, &integer) &&
      (!integer || number < 0 || number >= (double)axis_count(e, bound))) {
    diag_error(e->diag, E025, ast->span, "%g is not a position of axis '%s' of size %lld", number, axis_name(e, bound),
               (long long)axis_count(e, bound));
    return object_poison();
  }
  if (type == TYPE_INT && object_size(&x, e, &number, &integer)) {
    return object_number(floor(number), true, ast->span);
  }
  if (!object_tensor(e, x, type == TYPE_REAL, ast->span, &value)) {
    return object_poison();
  }
  bool floating = element_type_floating(graph_value(e->graph, value)->type);
  if (type == TYPE_REAL) {
    return object_value(value, ast->span);
  }
  if (type == TYPE_BOOL) {
    Object as_value = object_value(value, ast->span);
    return binary_object(e, name_of(e->names, "!="), as_value, object_number(0, true, ast->span), ast->span);
  }
  if (floating) {
    value = graph_op1(e->graph, OP_TO_INT, value);
  }
  const Node *position = graph_producer(e->graph, value);
  if (type == TYPE_INDEX && position && position->op == OP_POSITION &&
      axis_count(e, position->axis) > axis_count(e, bound)) {
    diag_error(e->diag, E025, ast->span,
               "the positions of axis '%s' of size %lld are not all positions of axis '%s' of size %lld",
               axis_name(e, position->axis), (long long)axis_count(e, position->axis), axis_name(e, bound),
               (long long)axis_count(e, bound));
    return object_poison();
  }
  const Node *maker = graph_producer(e->graph, value);
  if (type == TYPE_INDEX && maker && maker->op == OP_POSITION && axis_count(e, maker->axis) > axis_count(e, bound)) {
    Diagnostic *error = diag_error(e->diag, E025, ast->span, "positions of axis '%s' do not all index axis '%s'",
                                   axis_name(e, maker->axis), axis_name(e, bound));
    diag_label(e->diag, error, "%lld positions, %lld places", (long long)axis_count(e, maker->axis),
               (long long)axis_count(e, bound));
    return object_poison();
  }
  if (type == TYPE_INDEX) {
    value = graph_add1(e->graph, OP_AS_INDEX, (NodeInit){NODE_INIT, .axis = bound}, value);
  }
  return object_value(value, ast->span);
}

static Object evaluate_tuple(Elaborator *e, const Ast *ast) {
  Object tuple = {.kind = OBJECT_TUPLE, .count = ast->count, .span = ast->span};
  tuple.items = ARENA_ARRAY(e->arena, Object, ast->count);
  for (int i = 0; i < ast->count; i++) {
    tuple.items[i] = evaluate(e, ast->kids[i]);
  }
  return tuple;
}

static Object evaluate_member(Elaborator *e, const Ast *ast) {
  Object tuple = evaluate(e, ast->kids[0]);
  if (tuple.kind == OBJECT_POISON) {
    return tuple;
  }
  if (tuple.kind != OBJECT_TUPLE || ast->number >= tuple.count) {
    diag_error(e->diag, E034, ast->span, "%s has no element %g", object_describe(e, &tuple), ast->number);
    return object_poison();
  }
  return tuple.items[(int)ast->number];
}

static Object evaluate_inner(Elaborator *e, const Ast *ast) {
  switch (ast->kind) {
    case AST_NUMBER:
      return object_number(ast->number, (ast->flags & AST_INTEGER) != 0, ast->span);
    case AST_STRING:
      return (Object){.kind = OBJECT_STRING, .name = ast->name, .span = ast->span};
    case AST_TRUE:
    case AST_FALSE:
      return object_bool(ast->kind == AST_TRUE, ast->span);
    case AST_NAME:
      return look_up(e, ast->name, ast->span);
    case AST_TUPLE:
      return evaluate_tuple(e, ast);
    case AST_UNARY:
      return unary_object(e, strcmp(ast->name, "not") == 0 ? OP_NOT : OP_NEG, evaluate(e, ast->kids[0]), ast->span);
    case AST_BINARY: {
      Object left = evaluate(e, ast->kids[0]);
      Object right = evaluate(e, ast->kids[1]);
      left.span = ast->kids[0]->span;
      right.span = ast->kids[1]->span;
      return binary_object(e, ast->name, left, right, ast->span);
    }
    case AST_CALL:
      return call(e, ast);
    case AST_INDEX:
      return evaluate_index(e, ast);
    case AST_MEMBER:
      return evaluate_member(e, ast);
    case AST_AS:
      return evaluate_as(e, ast);
    default:
      diag_error(e->diag, E035, ast->span, "expected an expression");
      return object_poison();
  }
}

Object evaluate(Elaborator *e, const Ast *ast) {
  if (!ast || !elaborate_step(e, ast->span)) {
    return object_poison();
  }
  if (e->depth > ELABORATE_MAX_DEPTH) {
    diag_error(e->diag, E014, ast->span, "calls or expressions are nested more than %d deep", ELABORATE_MAX_DEPTH);
    return object_poison();
  }
  const int persistent = e->graph->persistent.count;
  e->depth++;
  Object object = evaluate_inner(e, ast);
  e->depth--;
  if (e->unit->watch && ast->kind == AST_CALL) {
    e->unit->watch->saw(e->unit->watch->context, e, ast->span, ast, &object, persistent);
  }
  return object;
}
