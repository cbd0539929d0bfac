// builtins.c: the functions that the language itself has. One table at the end lists them.
#include <string.h>

#include "base/mix.h"
#include "lang/elaborate.h"

#define BUILTIN(name) static Object name(Elaborator *e, const Ast *ast, Arguments *arguments)

static bool expect_values(Elaborator *e, const Ast *ast, const Arguments *arguments, int least, int most) {
  if (arguments->positional_count >= least && arguments->positional_count <= most) {
    return true;
  }
  if (least == most) {
    Diagnostic *error = diag_error(e->diag, E030, ast->span, "'%s' takes %d value%s, found %d", ast->name, least,
                                   least == 1 ? "" : "s", arguments->positional_count);
    const bool chosen = strcmp(ast->name, "max") == 0 || strcmp(ast->name, "min") == 0;
    const bool reduced = strcmp(ast->name, "sum") == 0 || strcmp(ast->name, "mean") == 0;
    if (chosen && arguments->positional_count > most) {
      diag_help(e->diag, error, "of more than two write `%s(%s(a, b), c)`; axes stand behind `over`", ast->name,
                ast->name);
    } else if (reduced && arguments->positional_count > most) {
      diag_help(e->diag, error, "axes stand behind `over`: `%s(x over a)`", ast->name);
    }
  } else {
    diag_error(e->diag, E030, ast->span, "'%s' takes %d to %d values, found %d", ast->name, least, most,
               arguments->positional_count);
  }
  return false;
}

static bool expect_over(Elaborator *e, const Ast *ast, const Arguments *arguments, const char *example) {
  if (arguments->over.count > 0) {
    return true;
  }
  Diagnostic *error = diag_error(e->diag, E030, ast->span, "'%s' does not say over which axes", ast->name);
  diag_help(e->diag, error, "write `%s`", example);
  return false;
}

bool no_named(Elaborator *e, const Ast *ast, const Arguments *arguments) {
  static const char *const axes[] = {"dim", "dims", "axes", "keepdim", "keepdims"};
  for (int i = 0; i < arguments->named_count; i++) {
    if (strcmp(arguments->names[i], "name") != 0) {
      Diagnostic *error = diag_error(e->diag, E030, arguments->named_ast[i]->name_span, "'%s' has no parameter '%s'",
                                     ast->name, arguments->names[i]);
      for (size_t j = 0; j < sizeof axes / sizeof *axes; j++) {
        if (strcmp(arguments->names[i], axes[j]) == 0) {
          diag_help(e->diag, error,
                    "axes stand behind `over`, by name: `%s(x over embed)`, and the result is without them", ast->name);
        }
      }
      return false;
    }
  }
  return true;
}

static Op builtin_op(Name name) {
  Op op = OP_ADD;
  op_of(name, &op);
  return op;
}

// exp(x), log(x), ...: the builtin has the name of its op.
BUILTIN(builtin_unary) {
  if (!expect_values(e, ast, arguments, 1, 1)) {
    return object_poison();
  }
  return unary_object(e, builtin_op(ast->name), arguments->positional[0], ast->span);
}

BUILTIN(builtin_square) {
  if (!expect_values(e, ast, arguments, 1, 1)) {
    return object_poison();
  }
  return binary_object(e, name_of(e->names, "*"), arguments->positional[0], arguments->positional[0], ast->span);
}

BUILTIN(builtin_stop) {
  if (!expect_values(e, ast, arguments, 1, 1)) {
    return object_poison();
  }
  Object x = arguments->positional[0];
  return x.kind == OBJECT_VALUE ? object_value(graph_op1(e->graph, OP_STOP, x.value), ast->span) : x;
}

BUILTIN(builtin_where) {
  if (!expect_values(e, ast, arguments, 3, 3)) {
    return object_poison();
  }
  return where_object(e, arguments->positional[0], arguments->positional[1], arguments->positional[2], ast->span);
}

static Object reduce(Elaborator *e, const Ast *ast, Arguments *arguments, Op op, bool mean) {
  ValueId x;
  if (!expect_values(e, ast, arguments, 1, 1) || !object_tensor(e, arguments->positional[0], true, ast->span, &x) ||
      !check_axes(e, x, &arguments->over, arguments->over_span, "the reduced value")) {
    return object_poison();
  }
  Shape over = arguments->has_over ? arguments->over : graph_shape(e->graph, x);
  if (over.count == 0) {
    return object_value(x, ast->span);
  }
  ValueId reduced = graph_add1(e->graph, op, (NodeInit){NODE_INIT, .axes = over}, x);
  if (mean) {
    double count = 1;
    Shape batch = {0};  // for state that is of one microbatch: see samples.c
    for (int i = 0; i < over.count; i++) {
      const Axis *axis = &e->graph->axes.at[over.axis[i]];
      count *= (double)axis->global;
      if (axis->global != axis->size) {
        shape_push(&batch, over.axis[i]);
      }
    }
    const ValueId share = graph_add0(e->graph, OP_CONST, (NodeInit){NODE_INIT, .axes = batch, .number = 1 / count});
    reduced = graph_op2(e->graph, OP_MUL, reduced, share);
  }
  return object_value(reduced, ast->span);
}

BUILTIN(builtin_sum) {
  return reduce(e, ast, arguments, OP_SUM, false);
}

BUILTIN(builtin_mean) {
  return reduce(e, ast, arguments, OP_SUM, true);
}

static Object extreme(Elaborator *e, const Ast *ast, Arguments *arguments, Op reduction) {
  if (arguments->has_over || arguments->positional_count == 1) {
    return reduce(e, ast, arguments, reduction, false);
  }
  if (!expect_values(e, ast, arguments, 2, 2)) {
    return object_poison();
  }
  return binary_object(e, ast->name, arguments->positional[0], arguments->positional[1], ast->span);
}

BUILTIN(builtin_max) {
  return extreme(e, ast, arguments, OP_REDUCE_MAX);
}

BUILTIN(builtin_min) {
  return extreme(e, ast, arguments, OP_REDUCE_MIN);
}

BUILTIN(builtin_dot) {
  ValueId a, b;
  if (!expect_values(e, ast, arguments, 2, 2) || !expect_over(e, ast, arguments, "dot(a, b over axis)") ||
      !object_tensor(e, arguments->positional[0], true, ast->span, &a) ||
      !object_tensor(e, arguments->positional[1], true, ast->span, &b) ||
      !check_axes(e, a, &arguments->over, arguments->over_span, "the first operand of dot") ||
      !check_axes(e, b, &arguments->over, arguments->over_span, "the second operand of dot")) {
    return object_poison();
  }
  Shape x = graph_shape(e->graph, a), y = graph_shape(e->graph, b);
  if (!axes_fit(e, x.count + shape_minus(y, &x).count - arguments->over.count, ast->span)) {
    return object_poison();
  }
  return object_value(graph_add2(e->graph, OP_DOT, (NodeInit){NODE_INIT, .axes = arguments->over}, a, b), ast->span);
}

BUILTIN(builtin_outer) {
  ValueId a, b;
  if (!expect_values(e, ast, arguments, 2, 2) || !object_tensor(e, arguments->positional[0], true, ast->span, &a) ||
      !object_tensor(e, arguments->positional[1], true, ast->span, &b)) {
    return object_poison();
  }
  Shape x = graph_shape(e->graph, a), y = graph_shape(e->graph, b);
  if (!axes_fit(e, x.count + shape_minus(y, &x).count, ast->span)) {
    return object_poison();
  }
  return object_value(graph_op2(e->graph, OP_MUL, a, b), ast->span);
}

static bool one_axis(Elaborator *e, const Ast *ast, const Arguments *arguments, AxisId *axis) {
  if (arguments->positional_count == 1 && arguments->positional[0].kind == OBJECT_AXIS) {
    *axis = arguments->positional[0].axes.axis[0];
    return true;
  }
  diag_error(e->diag, E030, ast->span, "'%s' takes one axis", ast->name);
  return false;
}

BUILTIN(builtin_pos) {
  AxisId axis;
  if (!one_axis(e, ast, arguments, &axis) || !positions_fit(e, axis, ast->span)) {
    return object_poison();
  }
  return object_value(graph_add0(e->graph, OP_POSITION, (NodeInit){NODE_INIT, .axis = axis}), ast->span);
}

BUILTIN(builtin_size) {
  double size = 1;
  for (int i = 0; i < arguments->positional_count; i++) {
    const Object *object = &arguments->positional[i];
    if (object->kind != OBJECT_AXIS && object->kind != OBJECT_AXES) {
      diag_error(e->diag, E030, ast->span, "'size' takes axes, found %s", object_describe(e, object));
      return object_poison();
    }
    for (int j = 0; j < object->axes.count; j++) {
      size *= (double)axis_count(e, object->axes.axis[j]);
    }
  }
  return expect_values(e, ast, arguments, 1, SHAPE_MAX_AXES) ? object_number(size, true, ast->span) : object_poison();
}

BUILTIN(builtin_window) {
  ValueId x;
  if (!expect_values(e, ast, arguments, 1, 1) || arguments->over.count != 1 || arguments->to.count != 1 ||
      !object_tensor(e, arguments->positional[0], true, ast->span, &x)) {
    if (arguments->over.count != 1 || arguments->to.count != 1) {
      Diagnostic *error =
          diag_error(e->diag, E030, ast->span, "'window' takes one axis after `over` and one after `to`");
      diag_help(e->diag, error, "write `window(x over seq to tap)`");
    }
    return object_poison();
  }
  Shape shape = graph_shape(e->graph, x);
  if (!check_axes(e, x, &arguments->over, arguments->over_span, "the windowed value")) {
    return object_poison();
  }
  if (shape_has(&shape, arguments->to.axis[0])) {
    diag_error(e->diag, E021, arguments->to_span, "axis '%s' would occur twice", axis_name(e, arguments->to.axis[0]));
    return object_poison();
  }
  if (!axes_fit(e, shape.count + 1, ast->span)) {
    return object_poison();
  }
  NodeInit init = {NODE_INIT, .axis = arguments->over.axis[0], .axis2 = arguments->to.axis[0]};
  return object_value(graph_add1(e->graph, OP_WINDOW, init, x), ast->span);
}

// concat(u over half, v over rest -> hd): pairs of a value and its axis, then the joined axis.
BUILTIN(builtin_concat) {
  (void)arguments;
  const Ast *list = ast->kids[0];
  ValueList parts = {0};
  Shape axes = {0};
  AxisId joined = -1;
  bool good = list->count >= 3 && list->kids[list->count - 1]->group == GROUP_ARROW && list->count % 2 == 1;
  for (int i = 0; good && i + 1 < list->count; i += 2) {
    good = list->kids[i]->group == GROUP_PLAIN && list->kids[i + 1]->group == GROUP_OVER &&
           list->kids[i + 1]->kids[0]->kind == AST_NAME && axes.count < SHAPE_MAX_AXES;
    ValueId part;
    if (!good) {
      break;
    }
    if (!object_tensor(e, evaluate(e, list->kids[i]->kids[0]), false, list->kids[i]->span, &part) ||
        !evaluate_axis(e, list->kids[i + 1]->kids[0], &axes.axis[axes.count])) {
      return object_poison();
    }
    Shape wanted = shape_of(axes.axis[axes.count++]);
    if (!check_axes(e, part, &wanted, list->kids[i + 1]->span, "the joined value")) {
      return object_poison();
    }
    array_push(e->arena, &parts, part);
  }
  if (!good || list->kids[list->count - 1]->kids[0]->kind != AST_NAME) {
    Diagnostic *error =
        diag_error(e->diag, E030, ast->span, "'concat' takes values, each with its axis, and the joined axis");
    diag_help(e->diag, error, "write `concat(u over half, v over rest -> hd)`");
    return object_poison();
  }
  if (!evaluate_axis(e, list->kids[list->count - 1]->kids[0], &joined)) {
    return object_poison();
  }
  int64_t size = 0;
  bool cut = cut_in_microbatches(e, joined);
  Shape first = graph_shape(e->graph, parts.at[0]);
  shape_remove(&first, axes.axis[0]);
  for (int i = 0; i < parts.count; i++) {
    Shape rest = graph_shape(e->graph, parts.at[i]);
    shape_remove(&rest, axes.axis[i]);
    size += axis_count(e, axes.axis[i]);
    cut = cut || cut_in_microbatches(e, axes.axis[i]);
    if (!shape_same_set(&rest, &first) || shape_has(&rest, joined)) {
      diag_error(e->diag, E022, list->kids[2 * i]->span, "the joined values have other axes %s and %s",
                 axes_text(e, &first), axes_text(e, &rest));
      return object_poison();
    }
  }
  if (size != axis_count(e, joined)) {
    diag_error(e->diag, E024, ast->span, "the parts have %lld positions together, axis '%s' has %lld", (long long)size,
               axis_name(e, joined), (long long)axis_count(e, joined));
    return object_poison();
  }
  if (cut) {
    return needs_whole_batch(e, joined, ast->span);
  }
  e->graph->span = ast->span;
  NodeInit init = {NODE_INIT, .axes = axes, .axis2 = joined};
  return object_value(graph_add(e->graph, OP_CONCAT, init, parts.at, parts.count), ast->span);
}

// draw_normal(), draw_uniform(): in an initialiser over the parameter's axes; elsewhere of the shape of their
// argument, or `over` axes. The stream is named by place in the program, so it is the same under every layout.
BUILTIN(builtin_draw) {
  Shape axes = arguments->over;
  Name stream = e->frame->prefix;
  bool initialiser = false;
  for (const Frame *frame = e->frame; frame; frame = frame->caller) {
    if (frame->kind == FRAME_INITIALISER) {
      axes = frame->made->shape;
      stream = frame->made->name;
      initialiser = true;
      break;
    }
  }
  if (arguments->positional_count == 1 && arguments->positional[0].kind == OBJECT_VALUE) {
    axes = graph_shape(e->graph, arguments->positional[0].value);
  } else if (!initialiser && !arguments->has_over) {
    Diagnostic *error = diag_error(e->diag, E030, ast->span, "'%s' needs a value to take its axes from", ast->name);
    diag_help(e->diag, error, "write `%s(x)`", ast->name);
    return object_poison();
  }
  bool normal = strcmp(ast->name, "draw_normal") == 0;
  uint64_t key = mix_word(e->spec->run.seed, 0x6d646c);
  Name salted = name_format(e->names, "%s%s%s@%d", stream, e->frame->variable ? "." : "",
                            e->frame->variable ? e->frame->variable : "", (int)normal);
  for (const char *c = salted; *c; c++) {
    key = mix_word(key, (unsigned char)*c);
  }
  int64_t drawn = map_get_or(&e->draws, map_key(salted), 0);  // a second draw of the same name is another stream
  map_put(&e->draws, map_key(salted), drawn + 1);
  key = mix_word(key, (uint64_t)drawn);
  NodeInit init = {NODE_INIT, .axes = axes, .integer = (int64_t)key, .text = salted};
  return object_value(
      graph_add1(e->graph, normal ? OP_NORMAL : OP_UNIFORM, init, initialiser ? step_value(e) : draw_value(e)),
      ast->span);
}

// fan_in(), fan_out(): sizes before and after the `;` of the parameter being initialised.
BUILTIN(builtin_fan) {
  (void)arguments;
  for (const Frame *frame = e->frame; frame; frame = frame->caller) {
    if (frame->kind != FRAME_INITIALISER) {
      continue;
    }
    const Persistent *made = frame->made;
    if (made->in_count < 0) {
      Diagnostic *error =
          diag_error(e->diag, E034, ast->span, "the parameter '%s' does not say what goes in and out", made->name);
      diag_help(e->diag, error, "write its axes as [in ; out]");
      return object_poison();
    }
    bool in = strcmp(ast->name, "fan_in") == 0;
    double size = 1;
    for (int i = made->stack_count; i < made->shape.count; i++) {
      if ((i < made->stack_count + made->in_count) == in) {
        size *= (double)axis_size(e, made->shape.axis[i]);
      }
    }
    return object_number(size, true, ast->span);
  }
  diag_error(e->diag, E035, ast->span, "'%s' is for initialisers", ast->name);
  return object_poison();
}

BUILTIN(builtin_total) {
  (void)arguments;
  return update_total(e, ast);
}

static const struct {
  const char *name;
  Builtin *builtin;
} builtins[] = {
    {"dot", builtin_dot},          {"sum", builtin_sum},          {"mean", builtin_mean},
    {"max", builtin_max},          {"min", builtin_min},          {"exp", builtin_unary},
    {"log", builtin_unary},        {"sqrt", builtin_unary},       {"rsqrt", builtin_unary},
    {"reciprocal", builtin_unary}, {"sin", builtin_unary},        {"cos", builtin_unary},
    {"tanh", builtin_unary},       {"sigmoid", builtin_unary},    {"erf", builtin_unary},
    {"abs", builtin_unary},        {"sign", builtin_unary},       {"floor", builtin_unary},
    {"is_finite", builtin_unary},  {"square", builtin_square},    {"stop", builtin_stop},
    {"where", builtin_where},      {"outer", builtin_outer},      {"pos", builtin_pos},
    {"size", builtin_size},        {"window", builtin_window},    {"concat", builtin_concat},
    {"top", builtin_top},          {"draw_normal", builtin_draw}, {"draw_uniform", builtin_draw},
    {"fan_in", builtin_fan},       {"fan_out", builtin_fan},      {"total", builtin_total},
};

enum { BUILTIN_COUNT = sizeof builtins / sizeof *builtins };

Builtin *builtin_find(Name name) {
  for (int i = 0; i < BUILTIN_COUNT; i++) {
    if (strcmp(builtins[i].name, name) == 0) {
      return builtins[i].builtin;
    }
  }
  return NULL;
}

void builtin_names(const char *const **names, int *count) {
  static const char *const all[] = {
      "dot",     "sum",          "mean",   "max",      "min",       "exp",     "log",    "sqrt",
      "rsqrt",   "reciprocal",   "sin",    "cos",      "tanh",      "sigmoid", "erf",    "abs",
      "sign",    "floor",        "square", "stop",     "where",     "outer",   "pos",    "size",
      "window",  "top",          "concat", "inf",      "pi",        "step",    "fan_in", "draw_normal",
      "fan_out", "draw_uniform", "total",  "training", "is_finite",
  };
  *names = all;
  *count = (int)(sizeof all / sizeof *all);
}

bool builtin_value(Name name) {
  const char *const *names;
  int count;
  builtin_names(&names, &count);
  for (int i = 0; i < count; i++) {
    if (strcmp(names[i], name) == 0) {
      return !builtin_find(name);
    }
  }
  return false;
}

bool builtin_takes_text(Name name) {
  return strcmp(name, "concat") == 0 || strcmp(name, "total") == 0;
}
