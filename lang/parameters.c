// parameters.c: parameters and state of a model, and the program that gives them their first values.
#include <math.h>
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

static const Persistent *find_tensor(const Elaborator *e, const Map *map, Name name) {
  int64_t known = map_get_or(map, map_key(name), -1);
  return known < 0 ? NULL : &e->graph->persistent.at[known];
}

// What a parameter would be called if its call did not share it among the rounds of the repeats around it.
static Name name_in_round(Elaborator *e, Name name) {
  const Frame *frame = e->frame;
  return frame->prefix == frame->parameters ? name
                                            : path_join_name(e, frame->prefix, name + strlen(frame->parameters) + 1);
}

// Parameters of one path that one call makes for a round of a repeat and another for all rounds.
static Object half_shared(Elaborator *e, const Persistent *old, const Persistent *fresh) {
  Diagnostic *error = diag_error(e->diag, E012, fresh->span,
                                 "one of two calls would share '%s' among the rounds of a repeat, the other would not",
                                 e->frame->share ? fresh->name : old->name);
  diag_related(e->diag, error, old->span, "the first");
  diag_help(e->diag, error, "write `share = true` in both, or give one of them a name of its own: `name = ...`");
  return object_poison();
}

// "[embed = 8, ffn = 32]"
static const char *sizes_text(const Elaborator *e, const Shape *shape) {
  const char *text = "";
  for (int i = 0; i < shape->count; i++) {
    text = arena_format(e->arena, "%s%s%s = %lld", text, i ? ", " : "", axis_name(e, shape->axis[i]),
                        (long long)axis_size(e, shape->axis[i]));
  }
  return arena_format(e->arena, "[%s]", text);
}

static Object reuse(Elaborator *e, const Persistent *old, const Persistent *fresh, Op op) {
  bool same = shape_same_set(&old->shape, &fresh->shape);
  if (e->frame->share && same) {
    Object object = object_value(leaf(e, op, old->name, old->type, -1, old->shape, old->role), fresh->span);
    object.state = old->role == ROLE_STATE;
    return object;
  }
  if (e->frame->share) {
    Diagnostic *error = diag_error(e->diag, E012, fresh->span, "'%s' cannot be shared: it has axes %s, and here %s",
                                   fresh->name, sizes_text(e, &old->shape), sizes_text(e, &fresh->shape));
    diag_related(e->diag, error, old->span, "the first");
    diag_help(e->diag, error, "give one of the calls a name of its own: `name = ...`");
    return object_poison();
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
  const Persistent *known = find_tensor(e, &e->tensors, persistent.name);
  Name round = name_in_round(e, persistent.name);
  const Persistent *other = find_tensor(e, round != persistent.name ? &e->tensors : &e->rounds, round);
  if (other) {
    return half_shared(e, other, &persistent);
  }
  int64_t index = known ? known - e->graph->persistent.at : e->graph->persistent.count;
  if (round != persistent.name) {
    map_put(&e->rounds, map_key(round), index);
  }
  if (known) {
    return reuse(e, known, &persistent, op);
  }
  persistent.scope = e->graph->scope;
  persistent.group = -1;
  constant_number(constant, &persistent.initial);
  map_put(&e->tensors, map_key(persistent.name), index);
  e->graph->span = persistent.span;
  persistent.value = leaf(e, op, persistent.name, TYPE_REAL, -1, persistent.shape, persistent.role);
  array_push(e->arena, &e->graph->persistent, persistent);
  array_push(e->arena, &e->initialisers, (Initialiser){(int)index, random, constant, e->frame});
  Object object = object_value(persistent.value, persistent.span);
  object.state = persistent.role == ROLE_STATE;
  return object;
}

bool called_by(const Elaborator *e, FrameKind kind) {
  const Frame *frame = e->frame;
  while (frame && frame->kind != kind) {
    frame = frame->caller;
  }
  return frame != NULL;
}

const char *outside_model(const Elaborator *e) {
  static const struct {
    FrameKind kind;
    const char *words;
  } outside[] = {{FRAME_INITIALISER, "an initialiser"},
                 {FRAME_UPDATE, "an update"},
                 {FRAME_SETTINGS, "the recipe or a constant"},
                 {FRAME_COMPOSITE, "a composite"}};
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
    if (called_by(e, outside[i].kind)) {
      return outside[i].words;
    }
  }
  return NULL;
}

void run_param(Elaborator *e, const Ast *ast) {
  Persistent made = {.name = path_join_name(e, e->frame->parameters, ast->name),
                     .role = ROLE_PARAMETER,
                     .type = TYPE_REAL,
                     .span = span_of_user(e, ast->span),
                     .value = -1};
  const char *outside = outside_model(e);
  if (outside) {
    Diagnostic *error = diag_error(e->diag, E035, ast->span, "no parameters here");
    diag_label(e->diag, error, "inside %s", outside);
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

// `combine = mean`: how the new value comes out of what each microbatch computes.
static StateCombine combine_word(Elaborator *e, const Ast *said) {
  static const char *const words[] = {[COMBINE_LAST] = "last", [COMBINE_SUM] = "sum", [COMBINE_MEAN] = "mean"};
  if (!said) {
    return COMBINE_NONE;
  }
  if (strcmp(said->name, "combine") != 0) {
    diag_error(e->diag, E030, said->name_span, "a state has no setting '%s', only 'combine'", said->name);
    return COMBINE_NONE;
  }
  for (StateCombine how = COMBINE_LAST; how <= COMBINE_MEAN; how++) {
    if (strcmp(said->kids[0]->name, words[how]) == 0) {
      return how;
    }
  }
  diag_error(e->diag, E030, said->kids[0]->span, "microbatches combine by last, sum or mean, not by '%s'",
             said->kids[0]->name);
  return COMBINE_NONE;
}

void run_state(Elaborator *e, const Ast *ast) {
  if (e->frame->kind == FRAME_UPDATE) {
    if (ast->kids[4]) {
      diag_error(e->diag, E035, ast->kids[4]->span,
                 "'combine' is for the state of a model: an update runs once a step");
    }
    check_update_state(e, ast);
    return;  // updates.c has declared it
  }
  const char *outside = outside_model(e);
  if (outside) {
    Diagnostic *error = diag_error(e->diag, E035, ast->span, "no state here");
    diag_label(e->diag, error, "inside %s", outside);
    diag_help(e->diag, error,
              "state is declared by the model, its functions, and an update itself: pass in what it is");
    frame_set(e, e->frame, ast->name, object_poison());
    return;
  }
  Persistent made = {.name = path_join_name(e, e->frame->parameters, ast->name),
                     .role = ROLE_STATE,
                     .type = TYPE_REAL,
                     .span = ast->span,
                     .value = -1,
                     .combine = combine_word(e, ast->kids[4]),
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

// `param w: [a ; b] ~ 0.02`, as if the number were a deviation. Zeros are what `~ normal(0)` gives too.
static bool draws_one_number(Elaborator *e, const Initialiser *initialiser, const Object *object, Name name) {
  if (!initialiser->random || object->kind != OBJECT_NUMBER || object->number == 0) {
    return false;
  }
  Diagnostic *error = diag_error(e->diag, E030, initialiser->random->span,
                                 "`~` draws random numbers, and this is one number: all of '%s' would be equal", name);
  diag_help(e->diag, error, "write `~ normal(%g)`, or `= %g` if they are to be equal", fabs(object->number),
            object->number);
  return true;
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
  if (!draws_one_number(e, initialiser, &object, made.name) && object_tensor(e, object, true, made.span, &tensor)) {
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
