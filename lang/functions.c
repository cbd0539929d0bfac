// functions.c: functions as arguments: by name, or with some of their own arguments given by name.
#include <string.h>

#include "lang/elaborate.h"

const Object *function_variable(Elaborator *e, Name name) {
  const Object *variable = variable_find(e, name);
  return variable && variable->kind == OBJECT_FUNCTION ? variable : NULL;
}

static const Declaration *function_declared(const Elaborator *e, Name name) {
  const Declaration *declaration = unit_find(e->unit, SPACE_CODE, name);
  return declaration && declaration->ast->kind == AST_FUNCTION ? declaration : NULL;
}

bool wants_function(const Elaborator *e, const Ast *formal) {
  return formal && formal->kids[0] && formal->kids[0]->kind == AST_NAME && function_declared(e, formal->kids[0]->name);
}

const Ast *formal_named(const Ast *function, Name name) {
  const Ast *formals = function->kids[0];
  for (int i = 0; i < formals->count; i++) {
    if (formals->kids[i]->name == name) {
      return formals->kids[i];
    }
  }
  return NULL;
}

static bool has_given(const Function *function, Name name) {
  for (int i = 0; i < function->count; i++) {
    if (function->names[i] == name) {
      return true;
    }
  }
  return false;
}

const Ast *formal_placed(const Ast *function, const Function *has, int place) {
  const Ast *formals = function->kids[0];
  for (int i = 0; i < formals->count; i++) {
    const Ast *formal = formals->kids[i];
    if (formal->group == GROUP_PLAIN && !(has && has_given(has, formal->name)) && place-- == 0) {
      return formal;
    }
  }
  return NULL;
}

// The function of this name, as an argument. False: there is none.
static bool named(Elaborator *e, Name name, Span span, Object *out) {
  const Object *variable = function_variable(e, name);
  const Declaration *declaration = variable_find(e, name) ? NULL : function_declared(e, name);
  if (variable) {
    *out = *variable;
    out->span = diag_in_library(e->diag, span) ? variable->span : span;
  } else if (declaration) {
    Function *function = ARENA_NEW(e->arena, Function);
    function->declaration = declaration;
    *out = (Object){.kind = OBJECT_FUNCTION, .function = function, .span = span};
  }
  return variable || declaration;
}

static const Ast *unnamed(const Ast *list) {
  for (int i = 0; i < list->count; i++) {
    if (!list->kids[i]->name) {
      return list->kids[i];
    }
  }
  return NULL;
}

// Whether a call of these arguments leaves a parameter without a value.
static bool leaves_some(const Function *function, const Ast *list) {
  const Ast *formals = function->declaration->ast->kids[0];
  for (int i = 0; i < formals->count; i++) {
    const Ast *formal = formals->kids[i];
    bool given = formal->kids[0] || has_given(function, formal->name);
    for (int j = 0; j < list->count && !given; j++) {
      given = list->kids[j]->name == formal->name;
    }
    if (!given) {
      return list->count > 0;
    }
  }
  return false;
}

// `alibi(slopes = s)`: the function with what is given, which stands in front of what it has already. False: it is a
// call, which leaves nothing out where no function is asked for.
static bool with_arguments(Elaborator *e, const Ast *call, bool function, Object *out) {
  const Ast *list = call->kids[0], *without = unnamed(list);
  if (!named(e, call->name, call->span, out) || (!function && (without || !leaves_some(out->function, list)))) {
    return false;
  }
  if (without) {
    Diagnostic *error = diag_error(e->diag, E030, without->span, "what is given with a function has a name");
    diag_help(e->diag, error, "write `%s(name = value)`", call->name);
    *out = object_poison();
    return true;
  }
  const Function *base = out->function;
  Function *made = ARENA_NEW(e->arena, Function);
  *made = (Function){.declaration = base->declaration, .values = base->values, .count = list->count + base->count};
  made->names = ARENA_ARRAY(e->arena, Name, made->count);
  made->given = ARENA_ARRAY(e->arena, Object, made->count);
  made->asts = ARENA_ARRAY(e->arena, const Ast *, made->count);
  bool failed = false;
  for (int i = 0; i < made->count; i++) {
    const int from = i - list->count;
    made->names[i] = from < 0 ? list->kids[i]->name : base->names[from];
    made->asts[i] = from < 0 ? list->kids[i] : base->asts[from];
    made->given[i] = from < 0 ? evaluate_named(e, base->declaration->ast, list->kids[i]) : base->given[from];
    const Object *given = &made->given[i];
    made->values |= given->kind == OBJECT_VALUE || (given->kind == OBJECT_FUNCTION && given->function->values);
    failed |= given->kind == OBJECT_POISON;
  }
  out->function = made;
  *out = failed ? object_poison() : *out;
  return true;
}

Object evaluate_argument(Elaborator *e, const Ast *value, bool function) {
  Object out;
  if (value->kind == AST_CALL ? with_arguments(e, value, function, &out)
                              : value->kind == AST_NAME && named(e, value->name, value->span, &out)) {
    return elaborate_step(e, value->span) ? out : object_poison();
  }
  if (value->kind != AST_NAME || !function || variable_find(e, value->name)) {
    return evaluate(e, value);
  }
  if (builtin_find(value->name)) {
    Diagnostic *error =
        diag_error(e->diag, E013, value->span,
                   "'%s' is built into the language: arguments are functions written in text", value->name);
    diag_help(e->diag, error, "write one that calls it: `fn f(x) { return %s(x); }`", value->name);
  } else {
    unknown_name(e, value->name, value->span, "function");
  }
  return object_poison();
}

void help_function(Elaborator *e, Diagnostic *error, const Object *object) {
  const Function *function = object->kind == OBJECT_FUNCTION ? object->function : NULL;
  const Ast *formals = function ? function->declaration->ast->kids[0] : NULL;
  const char *lacks = "";
  for (int i = 0; formals && i < formals->count; i++) {
    const Ast *formal = formals->kids[i];
    bool given = formal->kids[0] != NULL;  // it has a default
    for (int j = 0; j < function->count; j++) {
      given = given || function->names[j] == formal->name;
    }
    lacks = given ? lacks : arena_format(e->arena, "%s%s`%s`", lacks, *lacks ? ", " : "", formal->name);
  }
  if (*lacks) {
    diag_help(e->diag, error, "a call of '%s' still needs %s", function->declaration->ast->name, lacks);
  }
}

bool function_fits(Elaborator *e, const Ast *callee, const Ast *formal, const Object *object, Span span) {
  if (!wants_function(e, formal) || object->kind == OBJECT_FUNCTION || object->kind == OBJECT_POISON) {
    return true;
  }
  Diagnostic *error = diag_error(e->diag, E013, span, "'%s' of '%s' is a function, found %s", formal->name,
                                 callee->name, object_describe(e, object));
  diag_help(e->diag, error, "write `%s = f`, or with some of its arguments `%s = f(name = value)`", formal->name,
            formal->name);
  diag_related(e->diag, error, formal->span, "declared here");
  return false;
}

bool add_given(Elaborator *e, const Object *object, Arguments *arguments) {
  const Function *function = object->function;
  if (e->frame->kind == FRAME_INITIALISER && function->values) {
    Diagnostic *error = diag_error(e->diag, E033, arguments->span,
                                   "parameters begin before there are the values that are given with '%s'",
                                   function->declaration->ast->name);
    diag_help(e->diag, error, "an initial value is made of numbers, sizes and random numbers");
    return false;
  }
  arguments->given = function->count;
  for (int i = 0; i < function->count; i++) {
    arguments->names[arguments->named_count] = function->names[i];
    arguments->named_ast[arguments->named_count] = function->asts[i];
    arguments->named[arguments->named_count++] = function->given[i];
  }
  return true;
}

bool came_with_function(const Arguments *arguments, Name name) {
  for (int i = arguments->named_count - arguments->given; i < arguments->named_count; i++) {
    if (arguments->names[i] == name) {
      return true;
    }
  }
  return false;
}

void blame_argument(Elaborator *e, int first, const Ast *call, const Object *object) {
  const char *name = object->function->declaration->ast->name;
  for (int i = first; i < e->diag->all.count; i++) {
    Diagnostic *one = &e->diag->all.at[i];
    const bool here =
        one->span.file == call->span.file && one->span.begin >= call->span.begin && one->span.end <= call->span.end;
    if (here && !one->help) {
      diag_help(e->diag, one, "'%s' is called as `%s` in '%s'", name, format_ast(e->arena, call),
                e->frame->function ? e->frame->function->name : e->spec->text->model->ast->name);
    }
  }
  if (diag_in_library(e->diag, call->span) && e->frame->function) {
    blame_caller(e, first, e->frame->function->name, object->span);
  }
}

static bool names_any(const Ast *ast, const Ast *formals) {
  bool found = false;
  for (int i = 0; ast && i < formals->count && !found; i++) {
    found = ast->name == formals->kids[i]->name;
  }
  for (int i = 0; ast && i < ast->count && !found; i++) {
    found = names_any(ast->kids[i], formals);
  }
  return found;
}

// `mask = all_keys` where a function declares its parameters, and what it is then, `return true;`: until another one
// is given, it changes nothing.
static bool neutral_default(const Elaborator *e, const Object *object) {
  const Ast *caller = e->frame->function, *ast = object->function->declaration->ast;
  const Span at = object->span, declared = caller ? caller->kids[0]->span : SPAN_NONE;
  const bool inside = at.file == declared.file && at.begin >= declared.begin && at.end <= declared.end;
  return caller && inside && !names_any(ast->kids[ast->count - 1], ast->kids[0]);
}

void warn_same(Elaborator *e, const Object *object, const Arguments *arguments, const Object *result) {
  const Declaration *declaration = object->function->declaration;
  const Shape none = {0}, made = result->kind == OBJECT_VALUE ? graph_shape(e->graph, result->value) : none;
  const bool known = result->kind == OBJECT_VALUE || result->kind == OBJECT_NUMBER || result->kind == OBJECT_BOOL;
  if (declaration->library || !known || arguments->positional_count > 0 || arguments->over.count == 0 ||
      shape_common(made, &arguments->over).count > 0 || neutral_default(e, object)) {
    return;
  }
  Diagnostic *said = diag_warning(e->diag, E047, object->span, "what '%s' makes is the same everywhere along %s",
                                  declaration->ast->name, axes_text(e, &arguments->over));
  diag_help(e->diag, said, "an axis alone, `%s`, is its size: positions are `pos(%s)`",
            axis_name(e, arguments->over.axis[0]), axis_name(e, arguments->over.axis[0]));
  diag_related(e->diag, said, declaration->ast->span, "declared here");
}
