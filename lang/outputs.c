// outputs.c: outputs of a model: which of them a training step has, and what is said of those that nobody is shown.
#include <string.h>

#include "lang/elaborate.h"
#include "lang/lint.h"

// Has the step one of its own that is called so?
static bool is_own(Name name) {
  static const char *const own[] = {STEP_OUTPUTS};
  bool found = false;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    found |= strcmp(name, own[i]) == 0;
  }
  return found;
}

// A number, or a few along one axis, which is not that of samples.
static bool is_small(const Elaborator *e, ValueId value) {
  const Shape shape = graph_shape(e->graph, value);
  const Axis *axis = shape.count > 0 ? &e->graph->axes.at[shape.axis[0]] : NULL;
  return shape.count == 0 || (shape.count == 1 && axis->size <= SHOWN_NUMBERS && strcmp(axis->name, "batch") != 0);
}

static void warn_output(Elaborator *e, const Ast *ast, ValueId value) {
  const Shape shape = graph_shape(e->graph, value);
  Diagnostic *said = NULL;
  if (ast->name[0] == '_') {
    return;
  }
  if (lint_constant(e->graph, value)) {
    said = diag_warning(e->diag, E039, ast->span, "the output '%s' is the same in every step", ast->name);
    diag_label(e->diag, said, "it depends on no input, parameter or state");
    diag_help(e->diag, said, "remove it, or begin its name with `_`");
    return;
  }
  if (is_own(ast->name) && strcmp(ast->name, "loss") != 0) {
    said = diag_warning(e->diag, E056, ast->span, "the output '%s' is shown nowhere", ast->name);
    diag_label(e->diag, said, "each step says something of its own by this name");
    diag_help(e->diag, said, "give it another name, or one that begins with `_`");
  } else if (!is_small(e, value)) {
    said = diag_warning(e->diag, E056, ast->span, "the output '%s' of %lld numbers is shown nowhere", ast->name,
                        (long long)graph_elements(e->graph, shape));
    diag_label(e->diag, said, "it has axes %s", axes_text(e, &shape));
    diag_help(e->diag, said,
              "shown are single numbers, and up to %d along one axis other than 'batch': take a mean, as in "
              "`output y = mean(x over %s);`, or begin its name with `_`",
              SHOWN_NUMBERS, axis_name(e, shape.axis[shape.count - 1]));
  }
}

// Of several that are called the same the first is one, as of one in a repeat (`same`: of one statement).
static void warn_again(Elaborator *e, const Ast *ast, bool same) {
  if (ast->name[0] == '_') {
    return;
  }
  Diagnostic *said =
      diag_warning(e->diag, E056, ast->span, "'%s' is an output already, and only the first is shown", ast->name);
  diag_help(
      e->diag, said, "%s",
      same ? "of the rounds of a repeat make one output behind it: `all = pos(layers) as real * 0;` before it, `all "
             "= where(pos(layers) == l, value, all);` in it, `output all;` behind it"
           : "give it another name");
}

void run_output(Elaborator *e, const Ast *ast) {
  if (e->frame->kind != FRAME_MODEL) {
    diag_error(e->diag, E035, ast->span, "outputs are declared by the model, not inside functions");
    return;
  }
  if (!ports_left(e, ast)) {
    return;
  }
  Object object;
  if (ast->kids[0]) {
    e->frame->variable = ast->name;
    object = evaluate(e, ast->kids[0]);
    e->frame->variable = NULL;
    object.span = ast->name_span;
    frame_set(e, e->frame, ast->name, object);
  } else {
    Object *found = frame_find(e->frame, ast->name);
    if (!found) {
      unknown_name(e, ast->name, ast->name_span, "value");
      return;
    }
    object = *found;
  }
  ValueId value;
  if (!object_tensor(e, object, true, ast->span, &value) || e->program == PROGRAM_INITIALISE) {
    return;
  }
  const bool trains = e->program == PROGRAM_TRAIN;
  const int64_t place = (int64_t)ast->span.begin, first = map_get_or(&e->outputs, map_key(ast->name), -1);
  if (first < 0) {
    map_put(&e->outputs, map_key(ast->name), place);
  }
  if (trains && first >= 0) {
    warn_again(e, ast, first == place);
  } else if (trains) {
    warn_output(e, ast, value);
  }
  const bool floating = element_type_floating(graph_value(e->graph, value)->type);
  if (first < 0 && (!trains || (!is_own(ast->name) && floating && is_small(e, value)))) {
    graph_add1(e->graph, OP_OUTPUT, (NodeInit){NODE_INIT, .text = ast->name}, value);
  }
}
