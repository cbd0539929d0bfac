// call.c: arguments, and functions written in .mdl.
#include <string.h>

#include "lang/elaborate.h"
#include "lang/foreign.h"

enum { CALL_MAX_DEPTH = 64, CALL_MAX_ARGUMENTS = 1000 };

static bool add_axis(Elaborator *e, Shape *shape, Object *object, const Ast *ast) {
  for (int i = 0; i < object->axes.count; i++) {
    if (shape_has(shape, object->axes.axis[i])) {
      diag_error(e->diag, E021, ast->span, "axis '%s' is named twice", axis_name(e, object->axes.axis[i]));
      return false;
    }
    if (!shape_push(shape, object->axes.axis[i])) {
      diag_error(e->diag, E090, ast->span, "more than %d axes", SHAPE_MAX_AXES);
      return false;
    }
  }
  return true;
}

static bool word_argument(Name name) {
  return strcmp(name, "name") == 0 || strcmp(name, "tokenizer") == 0;
}

// A name that holds a number where an axis should stand is told once: then it is nothing any longer.
static void number_for_axis(Elaborator *e, const Ast *value, const Object *object, Diagnostic *error) {
  Object *variable = value->kind == AST_NAME ? frame_find(e->frame, value->name) : NULL;
  if (!variable || variable->kind != OBJECT_NUMBER || e->frame->kind != FRAME_MODEL) {
    diag_help(e->diag, error, "arguments after the axes are named: `name = value`");
    return;
  }
  diag_help(e->diag, error, "`%s = %g;` is a number; an axis is declared, `axis %s = %g;`, several of them with commas",
            value->name, object->number, value->name, object->number);
  *variable = object_poison();
}

static void collect_axis(Elaborator *e, const Ast *argument, Shape *shape, Arguments *arguments) {
  const Ast *value = argument->kids[0];
  e->axis_wanted = value->kind == AST_NAME;
  Object object = evaluate(e, value);
  e->axis_wanted = false;
  if (object.kind != OBJECT_AXIS && object.kind != OBJECT_AXES) {
    if (object.kind != OBJECT_POISON) {
      Diagnostic *error =
          diag_error(e->diag, E030, value->span, "expected an axis, found %s", object_describe(e, &object));
      number_for_axis(e, value, &object, error);
    }
    arguments->failed = true;
    return;
  }
  arguments->failed = !add_axis(e, shape, &object, value) || arguments->failed;
}

Object evaluate_named(Elaborator *e, const Ast *function, const Ast *argument) {
  const Ast *value = argument->kids[0];
  if (word_argument(argument->name) && value->kind == AST_NAME) {
    return (Object){.kind = OBJECT_WORD, .name = value->name, .span = argument->span};
  }
  return function ? evaluate_argument(e, value, wants_function(e, formal_named(function, argument->name)))
                  : evaluate(e, value);
}

void collect_arguments(Elaborator *e, const Ast *ast, const Ast *function, const Function *has, Arguments *out) {
  const Ast *list = ast->kids[0];
  const int count = list->count, extra = has ? has->count : 0;
  *out = (Arguments){.span = ast->span};
  if (count > CALL_MAX_ARGUMENTS) {
    diag_error(e->diag, E090, ast->span, "a call has at most %d arguments", CALL_MAX_ARGUMENTS);
    out->failed = true;
    return;
  }
  out->positional = ARENA_ARRAY(e->arena, Object, count + 1);
  out->named = ARENA_ARRAY(e->arena, Object, count + extra + 1);
  out->positional_ast = ARENA_ARRAY(e->arena, const Ast *, count + 1);
  out->named_ast = ARENA_ARRAY(e->arena, const Ast *, count + extra + 1);
  out->names = ARENA_ARRAY(e->arena, Name, count + extra + 1);
  AstGroup group = GROUP_PLAIN;
  for (int i = 0; i < count; i++) {
    const Ast *argument = list->kids[i];
    if (argument->group != GROUP_PLAIN) {
      group = argument->group;
      out->has_over |= group == GROUP_OVER;
      out->has_to |= group == GROUP_TO;
    }
    if (argument->name) {
      out->names[out->named_count] = argument->name;
      out->named_ast[out->named_count] = argument;
      out->named[out->named_count++] = evaluate_named(e, function, argument);
    } else if (group == GROUP_OVER) {
      out->over_span = argument->span;
      collect_axis(e, argument, &out->over, out);
    } else if (group == GROUP_TO) {
      out->to_span = argument->span;
      collect_axis(e, argument, &out->to, out);
    } else if (group == GROUP_ARROW) {
      diag_error(e->diag, E030, argument->span, "'->' is for concat, slices and renames");
      out->failed = true;
    } else {
      out->positional_ast[out->positional_count] = argument->kids[0];
      const Ast *formal = function ? formal_placed(function, has, out->positional_count) : NULL;
      Object value = function ? evaluate_argument(e, argument->kids[0], wants_function(e, formal))
                              : evaluate(e, argument->kids[0]);
      value.span = value.kind == OBJECT_FUNCTION ? value.span : argument->kids[0]->span;
      out->positional[out->positional_count++] = value;
    }
  }
  for (int i = 0; i < out->positional_count; i++) {
    out->failed |= out->positional[i].kind == OBJECT_POISON;
  }
}

// Axis parameters of a group: `fixed` are single ones, of which `behind` stand behind the list, if there is one.
typedef struct {
  int fixed, behind;
  bool variadic;
} AxisFormals;

static AxisFormals axis_formals(const Ast *formals, AstGroup group) {
  AxisFormals found = {0};
  for (int i = 0; i < formals->count; i++) {
    const Ast *formal = formals->kids[i];
    if (formal->group == group && formal->flags & AST_VARIADIC) {
      found.variadic = true;
    } else if (formal->group == group) {
      found.fixed++;
      found.behind += found.variadic;
    }
  }
  return found;
}

// How a function is called: its parameters that have no default.
static const char *call_example(Elaborator *e, const Ast *function) {
  const Ast *formals = function->kids[0];
  const char *text = arena_format(e->arena, "%s(", function->name);
  AstGroup group = GROUP_PLAIN;
  for (int i = 0; i < formals->count; i++) {
    const Ast *formal = formals->kids[i];
    if (formal->kids[0]) {
      continue;
    }
    const char *before = formal->group == group ? (i ? ", " : "") : formal->group == GROUP_OVER ? " over " : " to ";
    group = formal->group;
    text = arena_format(e->arena, "%s%s%s%s", text, before, formal->name, formal->flags & AST_VARIADIC ? ", ..." : "");
  }
  return arena_format(e->arena, "%s)", text);
}

// Axes among the values of a call without `over`, as in `linear(x, vocab)`.
static bool axes_behind_over(Elaborator *e, const Ast *function, const Arguments *arguments) {
  const AxisFormals over = axis_formals(function->kids[0], GROUP_OVER);
  for (int i = 0; !arguments->has_over && (over.fixed || over.variadic) && i < arguments->positional_count; i++) {
    const Object *given = &arguments->positional[i];
    if (given->kind == OBJECT_AXIS || given->kind == OBJECT_AXES) {
      Diagnostic *error = diag_error(e->diag, E030, arguments->positional_ast[i]->span,
                                     "'%s' takes axes behind `over`, not among its values", function->name);
      diag_help(e->diag, error, "write `%s`", call_example(e, function));
      diag_related(e->diag, error, function->name_span, "declared here");
      return false;
    }
  }
  return true;
}

// An argument by name of what is declared as an axis, since it stands behind `over` and has no default.
static const Ast *axis_by_name(const Ast *formals, AstGroup group, const Arguments *arguments) {
  for (int i = 0; i < arguments->named_count; i++) {
    for (int j = 0; j < formals->count; j++) {
      if (formals->kids[j]->group == group && formals->kids[j]->name == arguments->names[i]) {
        return formals->kids[j];
      }
    }
  }
  return NULL;
}

static bool check_axis_count(Elaborator *e, const Ast *function, const Arguments *arguments, AstGroup group, int given,
                             Span span) {
  const Ast *formals = function->kids[0], *named = axis_by_name(formals, group, arguments);
  const AxisFormals wanted = axis_formals(formals, group);
  if (given == wanted.fixed || (wanted.variadic && given >= wanted.fixed)) {
    return true;
  }
  Diagnostic *error = diag_error(e->diag, E030, span, "'%s' takes %s%d ax%s after `%s`, found %d", function->name,
                                 wanted.variadic ? "at least " : "", wanted.fixed, wanted.fixed == 1 ? "is" : "es",
                                 group == GROUP_OVER ? "over" : "to", given);
  if (named) {
    diag_help(
        e->diag, error,
        "'%s' is given by name, and is an axis: what stands behind `%s` and has no default is one; declare it ahead "
        "of `over`, `%s(x, %s over ...)`, or give it a default",
        named->name, group == GROUP_OVER ? "over" : "to", function->name, named->name);
  } else if (given == 0) {
    diag_help(e->diag, error, "write `%s`", call_example(e, function));
  }
  diag_related(e->diag, error, named ? named->span : function->name_span, "declared here");
  return false;
}

static bool bind_named(Elaborator *e, const Ast *function, const Arguments *arguments, Frame *frame) {
  const Ast *formals = function->kids[0];
  bool good = true;
  for (int i = 0; i < arguments->named_count; i++) {
    Name name = arguments->names[i];
    if (strcmp(name, "name") == 0 || strcmp(name, "share") == 0) {
      continue;
    }
    int found = -1;
    const char *candidates[64];
    int candidate_count = 0;
    for (int j = 0; j < formals->count; j++) {
      if (formals->kids[j]->name == name) {
        found = j;
      }
      if (candidate_count < 64) {
        candidates[candidate_count++] = formals->kids[j]->name;
      }
    }
    if (found < 0) {
      Diagnostic *error = diag_error(e->diag, E030, arguments->named_ast[i]->name_span, "'%s' has no parameter '%s'",
                                     function->name, name);
      const char *closest = text_closest(name, candidates, candidate_count), *foreign = foreign_parameter(name);
      for (int j = 0; foreign && j < candidate_count; j++) {
        closest = strcmp(candidates[j], foreign) == 0 ? foreign : closest;
      }
      const char *schedule = function->kind == AST_UPDATE ? foreign_of_schedule(name) : NULL;
      if (schedule) {
        diag_help(e->diag, error,
                  "it belongs to a schedule: `lr = cosine(peak = 3e-4, warmup = 100, steps = steps)`, `--set "
                  "optimizer.lr.%s=...`",
                  schedule);
      } else if (closest) {
        diag_help(e->diag, error, "did you mean `%s`?", closest);
      }
      diag_related(e->diag, error, function->name_span, "declared here");
      good = false;
    } else if (frame_find(frame, name)) {
      Diagnostic *error = diag_error(e->diag, E030, arguments->named_ast[i]->span, "'%s' is given twice", name);
      for (int j = 0; j < i; j++) {
        if (arguments->names[j] == name) {
          diag_related(e->diag, error, arguments->named_ast[j]->span, "the first");
        }
      }
      good = false;
    } else {
      good = function_fits(e, function, formals->kids[found], &arguments->named[i], arguments->named_ast[i]->span) &&
             good && arguments->named[i].kind != OBJECT_POISON;
      frame_set(e, frame, name, arguments->named[i]);
    }
  }
  return good;
}

static bool bind_defaults(Elaborator *e, const Ast *function, Frame *frame, Span span) {
  const Ast *formals = function->kids[0];
  bool good = true;
  for (int i = 0; i < formals->count; i++) {
    const Ast *formal = formals->kids[i];
    if (frame_find(frame, formal->name)) {
      continue;
    }
    if (formal->kids[0]) {
      frame_set(e, frame, formal->name, evaluate_argument(e, formal->kids[0], false));
    } else {
      Diagnostic *error =
          diag_error(e->diag, E030, span, "'%s' needs a value for its parameter '%s'", function->name, formal->name);
      diag_related(e->diag, error, formal->span, "declared here");
      good = false;
    }
  }
  return good;
}

bool bind_rest(Elaborator *e, const Ast *function, const Arguments *arguments, int taken, Frame *frame, Span span) {
  if (taken < arguments->positional_count) {
    const int unwritten = frame->kind == FRAME_UPDATE ? 2 : 0;  // the parameter and its gradient
    Diagnostic *error = diag_error(e->diag, E030, arguments->positional_ast[taken]->span,
                                   "'%s' takes %d value%s, found %d", function->name, taken - unwritten,
                                   taken - unwritten == 1 ? "" : "s", arguments->positional_count - unwritten);
    diag_related(e->diag, error, function->name_span, "declared here");
    return false;
  }
  bool good = bind_named(e, function, arguments, frame);
  good = good && arguments_hold(e, function, arguments);
  return bind_defaults(e, function, frame, span) && good;
}

// Binds arguments to formals in `frame`, which is the current frame (defaults see earlier parameters).
bool bind_formals(Elaborator *e, const Ast *function, Arguments *arguments, Frame *frame, Span span) {
  const Ast *formals = function->kids[0];
  if (formals->count > CALL_MAX_ARGUMENTS) {
    diag_error(e->diag, E090, function->name_span, "a function has at most %d parameters", CALL_MAX_ARGUMENTS);
    return false;
  }
  if (!axes_behind_over(e, function, arguments) ||
      !check_axis_count(e, function, arguments, GROUP_OVER, arguments->over.count,
                        arguments->has_over ? arguments->over_span : span) ||
      !check_axis_count(e, function, arguments, GROUP_TO, arguments->to.count,
                        arguments->has_to ? arguments->to_span : span)) {
    return false;
  }
  warn_order(e, function, arguments, span);
  int positional = 0, over = 0, to = 0;
  for (int i = 0; i < formals->count; i++) {
    const Ast *formal = formals->kids[i];
    if (formal->group == GROUP_PLAIN) {
      if (positional < arguments->positional_count && !came_with_function(arguments, formal->name)) {
        const Object *given = &arguments->positional[positional];
        if (!function_fits(e, function, formal, given, given->span)) {
          return false;
        }
        positional++;
        frame_set(e, frame, formal->name, *given);
      }
      continue;
    }
    const Shape *axes = formal->group == GROUP_OVER ? &arguments->over : &arguments->to;
    int *at = formal->group == GROUP_OVER ? &over : &to;
    Object object = {.kind = OBJECT_AXES, .span = span};
    if (formal->flags & AST_VARIADIC) {  // has what the single ones around it leave
      const int end = axes->count - axis_formals(formals, formal->group).behind;
      while (*at < end) {
        object.axes.axis[object.axes.count++] = axes->axis[(*at)++];
      }
    } else {
      object = object_axis(axes->axis[(*at)++], span);
    }
    frame_set(e, frame, formal->name, object);
  }
  const bool good = bind_rest(e, function, arguments, positional, frame, span);
  for (int i = 0; e->unit->watch && i < formals->count; i++) {
    const Object *bound = frame_find(frame, formals->kids[i]->name);
    if (bound) {
      saw_name(e, formals->kids[i]->name_span, bound);
    }
  }
  return good;
}

// Words of letters, digits and _, with a point between each two.
static bool is_path(const char *text) {
  bool inside = false;
  for (; *text; text++) {
    const char lower = (char)(*text | 0x20);
    if (*text == '.' ? !inside : (lower < 'a' || lower > 'z') && (*text < '0' || *text > '9') && *text != '_') {
      return false;
    }
    inside = *text != '.';
  }
  return inside;
}

static Name call_part(Elaborator *e, const Arguments *arguments) {
  for (int i = 0; i < arguments->named_count; i++) {
    const Object *given = &arguments->named[i];
    if (strcmp(arguments->names[i], "name") != 0 || given->kind == OBJECT_POISON) {
      continue;
    }
    if (given->kind == OBJECT_WORD || (given->kind == OBJECT_STRING && is_path(given->name))) {
      return given->name;
    }
    Diagnostic *error = diag_error(e->diag, E030, arguments->named_ast[i]->span,
                                   "`name` is a word, the part of the path of what is made "
                                   "inside, found %s",
                                   object_describe(e, given));
    diag_help(e->diag, error, "write `name = first`: letters, digits and _");
  }
  return e->frame->variable;
}

static bool asks_to_share(Elaborator *e, const Arguments *arguments) {
  for (int i = 0; i < arguments->named_count; i++) {
    const Object *given = &arguments->named[i];
    if (strcmp(arguments->names[i], "share") != 0) {
      continue;
    }
    if (given->kind == OBJECT_BOOL) {
      return given->number != 0;
    }
    if (given->kind != OBJECT_POISON) {
      diag_error(e->diag, E030, arguments->named_ast[i]->span, "`share` is true or false, found %s",
                 object_describe(e, given));
    }
  }
  return false;
}

// A tensor becomes a parameter of a region, and so do those that are given with a function.
static void isolate(Elaborator *e, Object *object, ValueList *outer, RegionId region) {
  if (object->kind == OBJECT_FUNCTION && object->function->values && elaborate_step(e, object->span)) {
    Function *inside = arena_copy(e->arena, object->function, sizeof *inside);
    inside->given = arena_copy(e->arena, inside->given, sizeof *inside->given * (size_t)inside->count);
    for (int i = 0; i < inside->count; i++) {
      isolate(e, &inside->given[i], outer, region);
    }
    object->function = inside;
  }
  if (object->kind == OBJECT_VALUE) {
    Value value = *graph_value(e->graph, object->value);
    value.node = -1;
    array_push(e->arena, outer, object->value);
    object->value = graph_new_value(e->graph, value);
    array_push(e->arena, &e->graph->regions.at[region].parameters, object->value);
  }
}

// The number of the step, which random numbers are drawn by, is asked for inside: it comes in as a parameter too.
static void pass_in_step(Elaborator *e, ValueList *outer, RegionId region) {
  Graph *graph = e->graph;
  ValueId inside = -1;
  const NodeList nodes = graph->regions.at[region].nodes;
  for (int i = 0; i < nodes.count; i++) {
    for (int j = 0; j < graph_node(graph, nodes.at[i])->operand_count; j++) {
      const ValueId operand = graph_node(graph, nodes.at[i])->operands[j];
      const Node *maker = graph_producer(graph, operand);
      if (!maker || maker->op != OP_INPUT) {
        continue;
      }
      if (inside < 0) {
        Value value = *graph_value(graph, operand);
        value.node = -1;
        inside = graph_new_value(graph, value);
        array_push(e->arena, outer, operand);
        array_push(e->arena, &graph->regions.at[region].parameters, inside);
      }
      graph_node(graph, nodes.at[i])->operands[j] = inside;
    }
  }
}

// One that is given no tensors is computed where it is called, as a function is.
static Object call_composite(Elaborator *e, const Ast *function, Span span) {
  Graph *graph = e->graph;
  RegionId outer_region = graph->region, region = graph_region(graph);
  ValueList operands = {0};
  for (int i = 0; i < e->frame->objects.count; i++) {  // nothing else flows in
    isolate(e, &e->frame->objects.at[i], &operands, region);
  }
  const bool given = operands.count > 0;
  graph->regions.count -= !given;
  graph->region = given ? region : outer_region;
  run_block(e, function->kids[1]);
  graph->region = outer_region;
  Object result = e->frame->result;
  if (result.kind != OBJECT_VALUE) {
    if (result.kind != OBJECT_POISON) {
      Diagnostic *error =
          diag_error(e->diag, E036, span, "the composite '%s' does not return one tensor", function->name);
      diag_help(e->diag, error, "return one, or leave `composite` out: a function may return anything");
    }
    return object_poison();
  }
  if (!given) {
    return result;
  }
  array_push(e->arena, &graph->regions.at[region].results, result.value);
  pass_in_step(e, &operands, region);
  graph->span = span;
  NodeInit init = {NODE_INIT, .text = function->name, .region = region};
  return object_value(graph_add(graph, OP_COMPOSITE, init, operands.at, operands.count), span);
}

Object call_function(Elaborator *e, const Ast *function, Arguments *arguments, Name part, Span span) {
  int depth = 0;
  for (const Frame *frame = e->frame; frame; frame = frame->caller) {
    depth++;
    if (frame->function == function && depth > CALL_MAX_DEPTH) {
      break;
    }
  }
  if (depth > CALL_MAX_DEPTH) {
    diag_error(e->diag, E014, span, "'%s' calls itself, or calls are nested more than %d deep", function->name,
               CALL_MAX_DEPTH);
    return object_poison();
  }
  bool composite = (function->flags & AST_COMPOSITE) != 0;
  Name prefix = part ? path_join_name(e, e->frame->prefix, part) : e->frame->prefix;
  bool share = asks_to_share(e, arguments);
  Name parameters = share ? e->frame->shared : e->frame->parameters;
  ScopeId scope = e->graph->scope;
  e->graph->scope = graph_scope(e->graph, scope, function->name, prefix, -1);
  e->graph->scopes.at[e->graph->scope].call = span;
  Frame *frame = frame_push(e, composite ? FRAME_COMPOSITE : FRAME_FUNCTION, function, prefix);
  frame->parameters = frame->shared = part ? path_join_name(e, parameters, part) : parameters;
  frame->share = share || frame->caller->share;
  frame->call = span;
  Object result = object_poison();
  if (bind_formals(e, function, arguments, frame, span)) {
    if (composite && !called_by(e, FRAME_UPDATE) && !called_by(e, FRAME_SETTINGS)) {  // a kernel is of the model
      result = call_composite(e, function, span);
    } else {
      run_block(e, function->kids[1]);
      result = frame->result;
    }
  }
  frame_pop(e);
  e->graph->scope = scope;
  return result;
}

static Object call_declared(Elaborator *e, const Ast *ast, const Declaration *declaration, Arguments *arguments) {
  const Name part = call_part(e, arguments), variable = e->frame->variable;
  int reported = e->diag->all.count;
  const ScopeId scope = e->graph->scopes.count;
  Object result = call_function(e, declaration->ast, arguments, part, ast->span);
  if (e->frame->assigned == ast && part != variable && scope < e->graph->scopes.count) {
    e->graph->scopes.at[scope].variable = path_join_name(e, e->frame->prefix, variable);
  }
  if (declaration->library) {
    blame_caller(e, reported, declaration->ast->name, ast->span);
  }
  return result;
}

// A call of a parameter that stands for a function.
static Object call_argument(Elaborator *e, const Ast *ast, const Object *object) {
  const Declaration *declaration = object->function->declaration;
  Arguments arguments;
  collect_arguments(e, ast, declaration->ast, object->function, &arguments);
  if (arguments.failed || !add_given(e, object, &arguments)) {
    return object_poison();
  }
  const int reported = e->diag->all.count;
  e->graph->span = ast->span;
  Object result = call_declared(e, ast, declaration, &arguments);
  blame_argument(e, reported, ast, object);
  warn_same(e, object, &arguments, &result);
  return result;
}

static void not_callable(Elaborator *e, const Ast *ast, const Declaration *declaration) {
  const Object *variable = variable_find(e, ast->name);
  if (declaration) {
    diag_error(e->diag, E013, ast->name_span, "'%s' is %s and cannot be called here", ast->name,
               declared_as(declaration->ast));
  } else if (variable && variable->kind != OBJECT_POISON) {
    Diagnostic *error = diag_error(e->diag, E013, ast->name_span, "'%s' is %s and cannot be called", ast->name,
                                   object_describe(e, variable));
    if (!diag_in_library(e->diag, variable->span)) {
      diag_related(e->diag, error, variable->span, "from here");
    }
  } else if (!variable) {
    unknown_name(e, ast->name, ast->name_span, "function");
  }
}

Object call(Elaborator *e, const Ast *ast) {
  const Object *given = function_variable(e, ast->name);
  const Name variable = e->frame->variable;
  Object result;
  if (given) {
    const Object function = *given;
    result = call_argument(e, ast, &function);
    e->frame->variable = variable;
    return result;
  }
  const Declaration *declaration = unit_find(e->unit, SPACE_CODE, ast->name);
  const bool declared = declaration && declaration->ast->kind == AST_FUNCTION;
  Builtin *builtin = builtin_find(ast->name);
  if (builtin_takes_text(ast->name) && !declared) {
    return builtin(e, ast, NULL);
  }
  if (!builtin && !declared) {
    not_callable(e, ast, declaration);
    return object_poison();
  }
  Arguments arguments;
  collect_arguments(e, ast, declared ? declaration->ast : NULL, NULL, &arguments);
  if (arguments.failed) {
    return object_poison();
  }
  e->graph->span = ast->span;
  result = declared                       ? call_declared(e, ast, declaration, &arguments)
           : no_named(e, ast, &arguments) ? builtin(e, ast, &arguments)
                                          : object_poison();
  e->frame->variable = variable;
  return result;
}
