// call_lint.c: what functions of the library are given and cannot mean: numbers out of range, 1 for `true`, axes in
// another order than that of their names.
#include <math.h>
#include <string.h>

#include "lang/elaborate.h"

typedef enum {
  FROM,   // the number is at least `least`, and smaller than `most`
  ABOVE,  // larger than `least`
  UP_TO   // at least `least`, and at most `most`
} Ends;

typedef struct {
  const char *function, *parameter;
  double least, most;
  Ends ends;
  int items;  // of a tuple; 0: one number
  const char *help;
} Limit;

#define SHARE "it is a share: `0.1` is one in ten"
#define STEPS "it counts steps: a tenth of the run is `0.1 * steps`"
#define CLIP "it is the largest norm that a gradient keeps; 0 or nothing: any"
#define EPS "it keeps what is divided by from being 0: `1e-5`"
#define DEVIATION "it is the deviation of normal numbers: `0.02`"
#define ALPHA "what an adapter adds is multiplied by alpha / rank"
#define BETAS "write `betas = (0.9, 0.95)`"

static const Limit limits[] = {
    {"dropout", "rate", 0, 1, FROM, 0, SHARE},
    {"adamw", "betas", 0, 1, FROM, 2, BETAS},
    {"adamw", "eps", 0, INFINITY, ABOVE, 0, "it keeps what is divided by from being 0: `1e-8`"},
    {"adamw", "decay", 0, INFINITY, FROM, 0, NULL},
    {"sgd", "momentum", 0, 1, FROM, 0, SHARE},
    {"sgd", "decay", 0, INFINITY, FROM, 0, NULL},
    {"lion", "betas", 0, 1, FROM, 2, BETAS},
    {"lion", "decay", 0, INFINITY, FROM, 0, NULL},
    {"attention", "scale", 0, INFINITY, ABOVE, 0, "scores are multiplied by it: `scale = 1 / sqrt(hd)`"},
    {"attention", "cap", 0, INFINITY, ABOVE, 0, "without it scores are not capped"},
    {"adamw", "clip", 0, INFINITY, FROM, 0, CLIP},
    {"sgd", "clip", 0, INFINITY, FROM, 0, CLIP},
    {"lion", "clip", 0, INFINITY, FROM, 0, CLIP},
    {"rope", "theta", 0, INFINITY, ABOVE, 0, "positions turn by powers of it: `theta = 10000`"},
    {"layer_norm", "eps", 0, INFINITY, FROM, 0, EPS},
    {"rms_norm", "eps", 0, INFINITY, FROM, 0, EPS},
    {"batch_norm", "momentum", 0, 1, UP_TO, 0,
     "it is the share of the new in the running statistics: `0.1` is one in ten"},
    {"batch_norm", "eps", 0, INFINITY, FROM, 0, EPS},
    {"linear", "rank", 0, INFINITY, FROM, 0, "it is the rank of an adapter; 0: there is none"},
    {"linear", "alpha", 0, INFINITY, ABOVE, 0, ALPHA},
    {"lora", "alpha", 0, INFINITY, ABOVE, 0, ALPHA},
    {"lora_three", "alpha", 0, INFINITY, ABOVE, 0, ALPHA},
    {"slowed", "factor", 0, INFINITY, ABOVE, 0, "rotary positions turn so many times slower"},
    {"slowed", "places", 0, INFINITY, ABOVE, 0, "it is the length of text that was learned first"},
    {"linear", "std", 0, INFINITY, FROM, 0, DEVIATION},
    {"embedding", "std", 0, INFINITY, FROM, 0, DEVIATION},
    {"normal", "std", 0, INFINITY, FROM, 0, DEVIATION},
};

static bool is_computed(const Ast *written) {
  const Ast *value = written && written->kind == AST_ARGUMENT ? written->kids[0] : written;
  return value && value->kind == AST_BINARY;
}

static bool is_schedule(const Ast *function) {
  static const char *const schedules[] = {"constant", "cosine", "linear_decay", "wsd", "inverse_sqrt"};
  bool schedule = false;
  for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
    schedule |= strcmp(function->name, schedules[i]) == 0;
  }
  return schedule;
}

// `true` would be 1: of what recipes and layers count or measure, nobody means that.
static bool takes_number(const Ast *function, const Ast *formal) {
  const Ast *otherwise = formal->kids[0];
  const bool named = otherwise && otherwise->kind == AST_NAME && strcmp(otherwise->name, "inf") != 0;
  return otherwise ? otherwise->kind != AST_TRUE && otherwise->kind != AST_FALSE && !named
                   : function->kind == AST_UPDATE || is_schedule(function);
}

static const Object *truth_of(const Object *object) {
  for (int i = 0; object->kind == OBJECT_TUPLE && i < object->count; i++) {
    if (object->items[i].kind == OBJECT_BOOL) {
      return &object->items[i];
    }
  }
  return object->kind == OBJECT_BOOL ? object : NULL;
}

// Steps of the warmup of a schedule, or of the decay at its end: 0, or 1 and more. A share of the run that is computed
// may come to less.
static bool is_part_of_step(const Ast *function, const Ast *formal, const Ast *written, const Object *object) {
  return is_schedule(function) && (strcmp(formal->name, "warmup") == 0 || strcmp(formal->name, "decay") == 0) &&
         object->kind == OBJECT_NUMBER &&
         (object->number < 0 || (object->number > 0 && object->number < 1 && !is_computed(written)));
}

static bool in_limits(const Limit *limit, const Object *object) {
  const double number = object->number;
  return object->kind != OBJECT_NUMBER ||
         ((limit->ends == ABOVE ? number > limit->least : number >= limit->least) &&
          (isinf(limit->most) || number < limit->most || (limit->ends == UP_TO && number == limit->most)));
}

static bool number_error(Elaborator *e, const Ast *function, const Limit *limit, Span span, const Object *object) {
  const char *most = limit->ends == UP_TO ? "at most" : "below";
  most = isinf(limit->most) ? "" : arena_format(e->arena, " and %s %g", most, limit->most);
  Diagnostic *error =
      diag_error(e->diag, E030, span, "'%s' of '%s' must be %s %g%s, found %s", limit->parameter, function->name,
                 limit->ends == ABOVE ? "above" : "at least", limit->least, most, object_describe(e, object));
  if (limit->help) {
    diag_help(e->diag, error, "%s", limit->help);
  }
  return false;
}

static bool limit_holds(Elaborator *e, const Ast *function, const Limit *limit, Span span, const Object *object) {
  if (limit->items > 0 &&
      (object->kind == OBJECT_NUMBER || (object->kind == OBJECT_TUPLE && object->count != limit->items))) {
    Diagnostic *error = diag_error(e->diag, E030, span, "'%s' of '%s' is %d numbers, found %s", limit->parameter,
                                   function->name, limit->items, object_describe(e, object));
    diag_help(e->diag, error, "%s", limit->help);
    return false;
  }
  for (int i = 0; object->kind == OBJECT_TUPLE && i < object->count; i++) {
    if (!in_limits(limit, &object->items[i])) {
      return number_error(e, function, limit, span, &object->items[i]);
    }
  }
  return in_limits(limit, object) || number_error(e, function, limit, span, object);
}

static bool argument_holds(Elaborator *e, const Ast *function, const Ast *formal, const Ast *written,
                           const Object *object) {
  const Span span = written ? written->span : object->span;
  const Ast *otherwise = formal->kids[0];
  if (otherwise && (otherwise->kind == AST_TRUE || otherwise->kind == AST_FALSE) && object->kind == OBJECT_NUMBER) {
    Diagnostic *error = diag_error(e->diag, E030, span, "'%s' of '%s' is true or false, found %s", formal->name,
                                   function->name, object_describe(e, object));
    diag_help(e->diag, error, "write `%s = %s`", formal->name, object->number != 0 ? "true" : "false");
    return false;
  }
  if (takes_number(function, formal) && truth_of(object)) {
    diag_error(e->diag, E030, span, "'%s' of '%s' takes numbers, found %s", formal->name, function->name,
               object_describe(e, truth_of(object)));
    return false;
  }
  if (is_part_of_step(function, formal, written, object)) {
    Diagnostic *error = diag_error(e->diag, E030, span, "'%s' of '%s' must be 0 or some steps, found %s", formal->name,
                                   function->name, object_describe(e, object));
    diag_help(e->diag, error, STEPS);
    return false;
  }
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    const Limit *limit = &limits[i];
    if (strcmp(limit->function, function->name) == 0 && strcmp(limit->parameter, formal->name) == 0) {
      return limit_holds(e, function, limit, span, object);
    }
  }
  return true;
}

// uniform(0.02): the least, in place of both.
static bool uniform_ends(Elaborator *e, const Ast *function, const Arguments *arguments) {
  if (strcmp(function->name, "uniform") != 0 || arguments->positional_count != 1 || arguments->named_count > 0 ||
      arguments->positional[0].kind != OBJECT_NUMBER) {
    return true;
  }
  const double bound = fabs(arguments->positional[0].number);
  Diagnostic *error = diag_error(e->diag, E030, arguments->positional_ast[0]->span,
                                 "`uniform` takes the least and the largest number, and this is one");
  diag_help(e->diag, error, "write `uniform(-%g, %g)`; numbers from it up to 1 are `uniform(low = %g)`", bound, bound,
            arguments->positional[0].number);
  return false;
}

// normal(0, 0.02): the mean in place of the deviation. normal(0) is zeros.
static bool normal_draws(Elaborator *e, const Ast *function, const Arguments *arguments) {
  const Object *std = arguments->positional_count == 2 ? &arguments->positional[0] : NULL;
  if (!std || strcmp(function->name, "normal") != 0 || std->kind != OBJECT_NUMBER || std->number != 0 ||
      arguments->positional[1].kind != OBJECT_NUMBER || arguments->positional[1].number == 0) {
    return true;
  }
  Diagnostic *error = diag_error(e->diag, E034, arguments->positional_ast[0]->span,
                                 "all numbers that are drawn would be equal: their deviation is 0");
  diag_help(e->diag, error, "`normal` takes the deviation first and then the mean: `normal(0.02)`");
  return false;
}

bool arguments_hold(Elaborator *e, const Ast *function, const Arguments *arguments) {
  const Ast *formals = function->kids[0];
  bool good = true;
  int taken = 0;
  if (!diag_in_library(e->diag, function->name_span)) {
    return true;
  }
  for (int i = 0; i < formals->count; i++) {
    const Ast *formal = formals->kids[i];
    if (formal->group == GROUP_PLAIN && taken < arguments->positional_count) {
      const Object *object = &arguments->positional[taken];
      const Ast *written = arguments->positional_ast[taken++];
      good = argument_holds(e, function, formal, written, object) && good;
      continue;
    }
    for (int j = 0; j < arguments->named_count; j++) {
      if (arguments->names[j] == formal->name) {
        good = argument_holds(e, function, formal, arguments->named_ast[j], &arguments->named[j]) && good;
      }
    }
  }
  return normal_draws(e, function, arguments) && uniform_ends(e, function, arguments) && good;
}

// --- axes ---

enum { MOST_AXES = 8 };

typedef struct {
  int count;
  const char *wanted[MOST_AXES], *given[MOST_AXES];
} AxisOrder;

static bool is_among(const char *const *names, int count, const char *name) {
  bool found = false;
  for (int i = 0; i < count; i++) {
    found |= strcmp(names[i], name) == 0;
  }
  return found;
}

static const char *listed(Elaborator *e, const char *const *names, int count) {
  const char *text = "";
  for (int i = 0; i < count; i++) {
    text = arena_format(e->arena, "%s%s%s", text, i ? ", " : "", names[i]);
  }
  return text;
}

void warn_order(Elaborator *e, const Ast *function, const Arguments *arguments, Span span) {
  const Ast *formals = function->kids[0];
  AxisOrder order = {0};
  if (strcmp(function->name, "attention") == 0) {
    return;  // its axes are those of its queries and keys: another order is right, or an error
  }
  for (int i = 0; i < formals->count; i++) {
    const Ast *formal = formals->kids[i];
    if (formal->group == GROUP_OVER &&
        ((formal->flags & AST_VARIADIC) || order.count == MOST_AXES || order.count == arguments->over.count)) {
      return;
    }
    if (formal->group == GROUP_OVER) {
      order.given[order.count] = axis_name(e, arguments->over.axis[order.count]);
      order.wanted[order.count++] = formal->name;
    }
  }
  bool turned = false;
  for (int i = 0; i < order.count; i++) {
    turned |= strcmp(order.given[i], order.wanted[i]) != 0 && is_among(order.wanted, order.count, order.given[i]) &&
              is_among(order.given, order.count, order.wanted[i]);
  }
  if (!turned || !diag_in_library(e->diag, function->name_span) || diag_in_library(e->diag, span)) {
    return;
  }
  Diagnostic *said = diag_warning(e->diag, E019, arguments->has_over ? arguments->over_span : span,
                                  "'%s' takes its axes as `over %s`, and gets `over %s`", function->name,
                                  listed(e, order.wanted, order.count), listed(e, order.given, order.count));
  diag_help(e->diag, said,
            "they stand in its order, whatever their names; `allow E019;` in the recipe if that is meant");
}
