// learning_rate.c: what is probably not meant of a learning rate, looked at over all steps of the run (E053).
//
// A rate is a number of a graph that depends on the step alone: it is computed here for the steps that matter. Of a
// schedule it matters where it ends: the first step from which on it stays the same, or the last of a warmup that takes
// all steps there are.
#include <math.h>
#include <string.h>

#include "lang/updates.h"

enum { SAMPLES = 16384, MOST_DEPTH = 200, MOST_NODES = 4096 };
#define FAR 1e12  // a step that no run reaches

typedef struct {
  const Elaborator *e;
  ValueId value;
  int left;      // nodes that may still be looked at, for one step
  bool unknown;  // it depends on more than the step
} Rate;

static double value_at(Rate *rate, ValueId value, double step, int depth);

// Whole numbers are of 32 bits.
static double wrapped(double number) {
  const double kinds = 4294967296.0;
  return number - kinds * floor((number + kinds / 2) / kinds);
}

static double node_at(Rate *rate, const Node *node, double step, int depth) {
  const Graph *graph = rate->e->graph;
  double of[3] = {0};
  for (int i = 0; i < node->operand_count && i < 3; i++) {
    of[i] = value_at(rate, node->operands[i], step, depth);
  }
  switch (node->op) {
    case OP_CONST:
      return node->number;
    case OP_INTEGER:
      return (double)node->integer;
    case OP_INPUT:
      rate->unknown |= strcmp(node->text, "step") != 0;
      return step;
    case OP_TO_REAL:
    case OP_STOP:
      return of[0];
    case OP_NOT:
      return of[0] == 0;
    case OP_WHERE:
      return of[0] != 0 ? of[1] : of[2];
    case OP_DIV:
    case OP_MOD:
      if (!element_type_floating(graph_value(graph, node->first_result)->type)) {
        const double quotient = of[1] != 0 ? floor(of[0] / of[1]) : 0;
        return node->op == OP_DIV ? quotient : of[1] != 0 ? of[0] - of[1] * quotient : 0;
      }
      return number_of_pair(node->op, of[0], of[1], &rate->unknown);
    case OP_TO_INT:
      return floor(of[0]);
    default:
      if (node->operand_count == 2) {
        const double number = number_of_pair(node->op, of[0], of[1], &rate->unknown);
        return graph_value(graph, node->first_result)->type == TYPE_INT && step <= INT32_MAX ? wrapped(number) : number;
      }
      rate->unknown |= node->operand_count != 1;
      return number_of_unary(node->op, of[0], &rate->unknown);
  }
}

static double value_at(Rate *rate, ValueId value, double step, int depth) {
  const Node *node = graph_producer(rate->e->graph, value);
  if (rate->unknown || !node || depth > MOST_DEPTH || rate->left-- <= 0) {
    rate->unknown = true;
    return 0;
  }
  return node_at(rate, node, step, depth + 1);
}

static double rate_at(Rate *rate, double step) {
  rate->left = 4096;
  return value_at(rate, rate->value, step, 0);
}

typedef struct {
  double least, most, least_step;
  bool rises;  // it never falls
  bool finite;
} Course;

static double sample_step(double steps, int i) {
  return steps <= SAMPLES ? 1 + i : 1 + floor((steps - 1) * i / (SAMPLES - 1));
}

static Course course_of(Rate *rate, double steps) {
  Course course = {INFINITY, -INFINITY, 1, true, true};
  const int count = steps < SAMPLES ? (int)steps : SAMPLES;
  double before = -INFINITY;
  for (int i = 0; i < count; i++) {
    const double step = sample_step(steps, i), now = rate_at(rate, step);
    course.finite &= isfinite(now) != 0;
    course.rises &= now >= before;
    before = now;
    if (now < course.least) {
      course.least = now;
      course.least_step = step;
    }
    course.most = now > course.most ? now : course.most;
  }
  return course;
}

// Is the rate of a step the last one, but for what a length that is no whole number leaves of it by rounding?
static bool has_ended(Rate *rate, double step, double last) {
  return fabs(rate_at(rate, step) - last) <= 1e-13 * fabs(last) + 1e-18;
}

// The first step from which on the rate is what it is for ever; 0: it never is.
static double first_of_last(Rate *rate) {
  const double last = rate_at(rate, FAR);
  double before = 0, end = FAR / 4;
  if (!isfinite(last) || rate_at(rate, FAR / 2) != last || rate_at(rate, FAR / 4) != last ||
      rate_at(rate, FAR / 4 + 1) != last) {
    return 0;
  }
  while (end - before > 1) {
    const double middle = floor((before + end) / 2);
    const bool ended = has_ended(rate, middle, last) && has_ended(rate, middle + 1, last);
    before = ended ? before : middle;
    end = ended ? middle : end;
  }
  return end;
}

// The last step that the schedule is for; 0: there is none, or the rate jumps to its end, as one of pieces does. *peak:
// of the run, and of what is before the end.
static double end_of(Rate *rate, double *peak) {
  const double last = rate_at(rate, FAR), end = first_of_last(rate);
  if (end == 0) {
    return 0;
  }
  *peak = fmax(*peak, course_of(rate, end).most);
  const double away = fabs(*peak - last), before = end - 1, next = rate_at(rate, before);
  const double nearly = fabs(rate_at(rate, floor(0.999 * end)) - last);
  const bool far = before >= 2 && fabs(next - last) > 0.2 * away;
  const bool jumps = far && rate_at(rate, before - 1) == next;
  const bool fades = end > 2000 && nearly < 1e-9 * away;
  const bool rose = far && next > last && rate_at(rate, before - 1) < next;  // a warmup takes all steps there are
  return jumps || fades ? 0 : rose ? before : end;
}

// Does the rate fall by the same factor in each step? What it would come down to some day is a bound, and no end.
static bool is_power(Rate *rate, double steps) {
  const double last = rate_at(rate, steps), half = rate_at(rate, floor(steps / 2));
  const double by = last / rate_at(rate, steps - 1), by_half = half / rate_at(rate, floor(steps / 2) - 1);
  return steps > 4 && by < 1 && fabs(by - by_half) < 1e-9;
}

static bool reads_steps(const Ast *ast) {
  bool found = ast && ast->kind == AST_NAME && strcmp(ast->name, "steps") == 0;
  for (int i = 0; ast && i < ast->count && !found; i++) {
    found = reads_steps(ast->kids[i]);
  }
  return found;
}

// Does the text say where the schedule ends by `steps`, the length of the run, as `steps = 0.5 * steps` does? Then it
// is meant to end there.
static bool ends_as_written(const Ast *written) {
  const Ast *value = written && written->kind == AST_ARGUMENT ? written->kids[0] : written;
  if (!value || value->kind != AST_CALL) {
    return reads_steps(value);
  }
  const Ast *arguments = value->kids[0], *length = value;
  for (int i = 0; i < arguments->count; i++) {
    const Name name = arguments->kids[i]->kind == AST_ARGUMENT ? arguments->kids[i]->name : NULL;
    length = name && strcmp(name, "steps") == 0 ? arguments->kids[i] : length;
  }
  return reads_steps(length);
}

#define ALLOW "; `allow E053;` in the recipe if that is meant"

// False: nothing is said.
static bool warn_end(Rate *rate, const Ast *written, double steps, const Course *course) {
  Diag *diag = rate->e->diag;
  const Span span = written->span;
  const bool meant = ends_as_written(written);
  double peak = course->most;
  const double last = rate_at(rate, steps), later = rate_at(rate, FAR), end = end_of(rate, &peak), way = peak - later;
  const bool rises = steps > 1 && course->rises && last > rate_at(rate, steps - 1);
  if (meant && (end == 0 || !rises)) {  // a test of rates rises to the end of the run, and would go on
    return false;
  }
  if (rises) {
    double at = steps;  // how far it would come
    peak = last;
    for (double step = steps; step < 1e6 * steps; step = ceil(step * 1.02)) {
      const double now = rate_at(rate, step);
      at = now > peak ? step : at;
      peak = now > peak ? now : peak;
    }
    Diagnostic *said = diag_warning(diag, E053, span, "the learning rate still rises in the last step, %.0f", steps);
    if (peak > 1.001 * last) {
      diag_label(diag, said, "it is %.3g there, and comes to %.3g at about step %.0f", last, peak, at);
    }
    diag_help(diag, said,
              "give a `warmup` that is shorter than `steps`, which comes before it: `cosine(peak = 3e-4, "
              "steps = steps, warmup = 100)`" ALLOW);
  } else if (end > 0 && way > 0 && end < 0.75 * steps && last == later) {
    Diagnostic *said = diag_warning(diag, E053, span,
                                    "the schedule ends at step %.0f of %.0f: behind it the learning rate stays at %.3g",
                                    end, steps, later);
    diag_help(diag, said, "`steps = steps` in a schedule is the length of the run" ALLOW);
  } else if (end > 1.25 * steps && last - later > 0.2 * way && !is_power(rate, steps)) {
    Diagnostic *said =
        diag_warning(diag, E053, span, "the run ends at step %.0f, and the schedule at step %.0f", steps, end);
    diag_label(diag, said, "the learning rate is %.3g in the last step, and would come down to %.3g", last, later);
    diag_help(diag, said, "`steps = steps` in a schedule is the length of the run" ALLOW);
  } else {
    return false;
  }
  return true;
}

// The number that a call gives by this name, or in this place (-1: by its name alone); 0: it gives none, or no plain
// number.
static double given_as(const Ast *written, const char *name, int place) {
  const Ast *value = written->kind == AST_ARGUMENT ? written->kids[0] : written;
  const Ast *arguments = value && value->kind == AST_CALL ? value->kids[0] : NULL, *given = NULL;
  for (int i = 0; arguments && i < arguments->count; i++) {
    const Ast *one = arguments->kids[i];
    const bool named = one->kind == AST_ARGUMENT && one->name;
    if (named ? strcmp(one->name, name) == 0 : i == place) {
      given = one->kind == AST_ARGUMENT ? one->kids[0] : one;
    }
  }
  return given && given->kind == AST_NUMBER ? given->number : 0;
}

// Does it call this schedule of the library?
static bool calls(const Rate *rate, const Ast *written, const char *name) {
  const Ast *value = written->kind == AST_ARGUMENT ? written->kids[0] : written;
  const bool named = value && value->kind == AST_CALL && value->name && strcmp(value->name, name) == 0;
  const Declaration *called = named ? unit_find(rate->e->unit, SPACE_CODE, value->name) : NULL;
  return called && called->library;
}

// A schedule of the library that comes down to what is above it. False: nothing is said.
static bool warn_floor(const Rate *rate, const Ast *written) {
  Diag *diag = rate->e->diag;
  const bool wsd = calls(rate, written, "wsd"),
             known = wsd || calls(rate, written, "cosine") || calls(rate, written, "linear_decay");
  const double peak = given_as(written, "peak", 0), lowest = given_as(written, "floor", wsd ? 4 : 3);
  if (!known || peak <= 0 || lowest <= peak) {
    return false;
  }
  Diagnostic *said = diag_warning(diag, E053, written->span,
                                  "the `floor` of the learning rate, %.3g, is above its `peak`, %.3g", lowest, peak);
  diag_help(diag, said, "it comes down to its floor: give a smaller one, such as `floor = %.3g`" ALLOW, 0.1 * peak);
  return true;
}

// A decay that is longer than what the warmup leaves of the run. In a few steps nothing comes to its peak.
static void warn_peak(Rate *rate, const Ast *written, double steps, const Course *course) {
  Diag *diag = rate->e->diag;
  const double peak = given_as(written, "peak", calls(rate, written, "wsd") ? 0 : -1);
  if (steps < 10 || course->most > 0.75 * peak || rate_at(rate, steps) == course->most) {
    return;
  }
  Diagnostic *said = diag_warning(diag, E053, written->span, "the learning rate never comes to its peak, %.3g", peak);
  diag_label(diag, said, "the most that it is in the run of %.0f steps is %.3g", steps, course->most);
  diag_help(diag, said, "warmup and decay together are to be shorter than the run" ALLOW);
}

static bool reads_step(const Graph *graph, ValueId value, int depth) {
  const Node *node = graph_producer(graph, value);
  bool found = node && node->op == OP_INPUT && strcmp(node->text, "step") == 0;
  for (int i = 0; node && depth < MOST_DEPTH && i < node->operand_count && !found; i++) {
    found = reads_step(graph, node->operands[i], depth + 1);
  }
  return found;
}

// A quotient of whole numbers with the step in it, where it is rounded down; NULL: none. Exponents, conditions and
// remainders count steps in stairs, which is meant.
static const Node *stair_in(Rate *rate, ValueId value, int depth) {
  const Graph *graph = rate->e->graph;
  const Node *node = graph_producer(graph, value), *found = NULL;
  if (!node || depth > MOST_DEPTH || rate->left-- <= 0 || op_compares(node->op) || node->op == OP_MOD) {
    return NULL;
  }
  if (node->op == OP_DIV && !element_type_floating(graph_value(graph, value)->type)) {
    return reads_step(graph, node->operands[0], 0) ? node : NULL;
  }
  for (int i = node->op == OP_WHERE; i < (node->op == OP_POW ? 1 : node->operand_count) && !found; i++) {
    found = stair_in(rate, node->operands[i], depth + 1);
  }
  return found;
}

static void warn_stair(Rate *rate) {
  rate->left = MOST_NODES;
  const Node *stair = stair_in(rate, rate->value, 0);
  if (stair && !diag_in_library(rate->e->diag, stair->span)) {
    Diagnostic *said = diag_warning(rate->e->diag, E053, stair->span,
                                    "`step` is a whole number, and so is this quotient: it is rounded down");
    diag_help(rate->e->diag, said, "write `(step as real) / ...`" ALLOW);
  }
}

void check_learning_rate(Elaborator *e, const Object *object, const Ast *written, bool some) {
  Diag *diag = e->diag;
  const Span span = written->span;
  const double steps = (double)e->spec->run.steps;
  Rate rate = {e, object->value, 0, false};
  Course course = {object->number, object->number, 1, false, isfinite(object->number) != 0};
  if (object->kind == OBJECT_VALUE) {
    course = course_of(&rate, steps);
  } else if (object->kind != OBJECT_NUMBER) {
    return;
  }
  if (rate.unknown) {
    return;
  }
  if (object->kind == OBJECT_VALUE) {
    warn_stair(&rate);
  }
  if (!course.finite) {
    Diagnostic *said = diag_warning(diag, E053, span, "the learning rate is no finite number in some step");
    diag_help(diag, said, "`step` counts from 1 to `steps`: divide by nothing that is 0 on the way");
  } else if (course.least < 0) {
    Diagnostic *said = diag_warning(diag, E053, span, "the learning rate is negative: %.3g in step %.0f", course.least,
                                    course.least_step);
    diag_help(diag, said, "a step with it makes the loss larger; write a positive one");
  } else if (course.most == 0 && !some) {
    Diagnostic *said = diag_warning(diag, E053, span, "the learning rate is 0 in every step: nothing is trained");
    diag_help(diag, said, "what is to stay as it is, is frozen: `freeze NAME;`" ALLOW);
  } else if (object->kind == OBJECT_VALUE && course.most > 0) {
    if (!warn_floor(&rate, written) && !warn_end(&rate, written, steps, &course)) {
      warn_peak(&rate, written, steps, &course);
    }
  }
}
