// parameters.c: parameters and state of a model, and the program that gives them their first values.
#include <string.h>

#include "lang/elaborate.h"

Name path_join_name(Elaborator *e, Name prefix, Name part) {
  return prefix[0] ? name_format(e->names, "%s.%s", prefix, part) : part;
}

static bool constant_number(const Ast *ast, double *number) {
  bool minus = ast && ast->kind == AST_UNARY && ast->kids[0]->kind == AST_NUMBER;
  if (minus) {
    *number = -ast->kids[0]->number;
    return true;
  }
  if (ast && ast->kind == AST_NUMBER) {
    *number = ast->number;
    return true;
  }
  return false;
}

static bool shared(Elaborator *e) {
  for (const Frame *frame = e->frame; frame; frame = frame->caller) {
    Object *share = frame_find((Frame *)frame, name_of(e->names, "share"));
    if (share && share->kind == OBJECT_BOOL && share->number != 0) {
      return true;
    }
  }
  return false;
}

static Object reuse(Elaborator *e, const Persistent *old, const Persistent *fresh, Op op) {
  bool same = shape_same_set(&old->shape, &fresh->shape);
  if (shared(e) && same) {
    return object_value(leaf(e, op, old->name, old->type, -1, old->shape, old->role), fresh->span);
  }
  Diagnostic *error = diag_error(e->diag, E012, fresh->span, "two parameters would be called '%s'", fresh->name);
  diag_related(e->diag, error, old->span, "the first");
  diag_help(e->diag, error,
            same ? "give one of the calls a name of its own: `name = ...`; or share the parameter: `share = true`"
                 : "give one of the calls a name of its own: `name = ...`");
  return object_poison();
}

Object make_persistent(Elaborator *e, Persistent persistent, const Ast *random, const Ast *constant) {
  Op op = persistent.role == ROLE_PARAMETER ? OP_PARAM : OP_STATE;
  int64_t known = map_get_or(&e->leaves, map_key(persistent.name) * 64 + 63, -1);
  if (known >= 0) {
    return reuse(e, &e->graph->persistent.at[known], &persistent, op);
  }
  persistent.scope = e->graph->scope;
  persistent.group = -1;
  int index = e->graph->persistent.count;
  constant_number(constant, &persistent.initial);
  map_put(&e->leaves, map_key(persistent.name) * 64 + 63, index);
  e->graph->span = persistent.span;
  persistent.value = leaf(e, op, persistent.name, TYPE_REAL, -1, persistent.shape, persistent.role);
  array_push(e->arena, &e->graph->persistent, persistent);
  array_push(e->arena, &e->initialisers, (Initialiser){index, random, constant, e->frame});
  Object object = object_value(persistent.value, persistent.span);
  object.state = persistent.role == ROLE_STATE;
  return object;
}

bool in_composite(const Elaborator *e) {
  for (const Frame *frame = e->frame; frame; frame = frame->caller) {
    if (frame->kind == FRAME_COMPOSITE) {
      return true;
    }
  }
  return false;
}

void run_param(Elaborator *e, const Ast *ast) {
  Persistent made = {.name = path_join_name(e, e->frame->prefix, ast->name),
                     .role = ROLE_PARAMETER,
                     .type = TYPE_REAL,
                     .span = span_of_user(e, ast->span),
                     .value = -1};
  if (in_composite(e) || e->frame->kind == FRAME_UPDATE || e->frame->scan_depth > 0) {
    Diagnostic *error = diag_error(e->diag, E035, ast->span, "no parameters here");
    diag_label(e->diag, error, "inside a composite, an update or a scan");
    diag_help(e->diag, error, "make it outside and pass it in");
    frame_set(e, e->frame, ast->name, object_poison());
    return;
  }
  Object object = object_poison();
  if (evaluate_axes(e, ast->kids[0], &made.shape, &made.stack_count, &made.in_count)) {
    object = make_persistent(e, made, ast->kids[1], ast->kids[2]);
  }
  object.span = ast->name_span;
  frame_set(e, e->frame, ast->name, object);
}

void run_state(Elaborator *e, const Ast *ast) {
  if (e->frame->kind == FRAME_UPDATE) {
    return;  // updates.c has declared it
  }
  if (in_composite(e)) {
    diag_error(e->diag, E035, ast->span, "no state inside a composite");
    return;
  }
  Persistent made = {.name = path_join_name(e, e->frame->prefix, ast->name),
                     .role = ROLE_STATE,
                     .type = TYPE_REAL,
                     .span = ast->span,
                     .value = -1,
                     .in_count = -1};
  Object object = object_poison();
  bool good = false;
  if (ast->kids[0]) {
    good = evaluate_axes(e, ast->kids[0], &made.shape, &made.stack_count, &made.in_count);
  } else if (ast->kids[1]) {
    Object like = evaluate(e, ast->kids[1]);
    good = like.kind == OBJECT_VALUE;
    made.shape = good ? graph_shape(e->graph, like.value) : made.shape;
  } else {
    good = true;
  }
  if (good) {
    object = make_persistent(e, made, ast->kids[2], ast->kids[3]);
  }
  object.span = ast->name_span;
  frame_set(e, e->frame, ast->name, object);
}

void initialise(Elaborator *e, const Initialiser *initialiser) {
  Persistent made = e->graph->persistent.at[initialiser->persistent];
  const Ast *value = initialiser->random ? initialiser->random : initialiser->constant;
  Frame *before = e->frame;
  e->frame = initialiser->frame;
  Frame *frame = frame_push(e, FRAME_INITIALISER, NULL, made.name);
  frame->made = &made;
  e->graph->scope = made.scope;
  e->graph->span = made.span;
  Object object = value ? evaluate(e, value) : object_number(0, false, made.span);
  ValueId tensor;
  if (object_tensor(e, object, true, made.span, &tensor)) {
    Shape has = graph_shape(e->graph, tensor);
    if (!shape_contains(&made.shape, &has)) {
      diag_error(e->diag, E022, value->span, "the initial value of '%s' has axes %s, the parameter has %s", made.name,
                 axes_text(e, &has), axes_text(e, &made.shape));
    } else {
      graph_op2(e->graph, OP_ASSIGN, made.value, tensor);
    }
  }
  frame_pop(e);
  e->frame = before;
}
