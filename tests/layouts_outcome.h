// layouts_outcome.h: all that a program computes in a few steps under a layout, and whether two such outcomes agree.
#ifndef MDL_TESTS_LAYOUTS_OUTCOME_H
#define MDL_TESTS_LAYOUTS_OUTCOME_H

#include "tests/layouts_run.h"

#include "base/file.h"
#include "kernels/cpu/convert.h"
#include "runtime/element.h"

enum { OUTCOME_STEPS = 2 };

typedef struct {
  const char *name;
  int64_t count;
  double *data;
} Tensor;

typedef struct {  // what a program gives
  ARRAY(Tensor) at;
  double worst;  // largest error of a comparison with it, relative
} Outcome;

// A program with one more layout of these settings, and outputs of all gradients.
static inline LayoutRun *layout_compile_more(const char *folder, const char *program, const char *settings,
                                             const char *precision) {
  FileError error;
  size_t length = 0;
  Arena *arena = arena_create();
  char *text = file_read(arena_format(arena, "%s/%s", folder, program), &length, &error);
  assert_non_null(text);
  LayoutRun *run = layout_compile_text(arena_format(arena, "%s\nlayout mine { %s }\n", text, settings),
                                       &(CompileOptions){.layout = "mine", .precision = precision, .gradients = true});
  free(text);
  arena_destroy(arena);
  return run;
}

static inline void outcome_keep(Arena *arena, Outcome *outcome, const char *name, const double *data, int64_t count) {
  Tensor tensor = {arena_format(arena, "%s", name), count, ARENA_ARRAY(arena, double, count + 1)};
  memcpy(tensor.data, data, sizeof(double) * (size_t)count);
  array_push(arena, &outcome->at, tensor);
}

static inline void outcome_program(LayoutRun *run, const char *what, ProgramKind kind, int64_t step) {
  Error error = {0};
  if (!session_run(&run->session, kind, step, &error)) {
    layout_fail("%s: %s: %s", what, program_kind_name(kind), error.text);
  }
}

// A copy is what its parameter is, rounded.
static inline void check_copy(LayoutRun *run, Arena *arena, const PlanState *state) {
  const char *master = strchr(state->name, '.') + 1;
  int64_t count, same;
  const double *copy = layout_state(run, arena, state->name, &count);
  const double *from = layout_state(run, arena, master, &same);
  for (int64_t i = 0; i < count; i++) {
    if (copy[i] != (double)f32_of_bf16(bf16_of_f32((float)from[i])) && !isnan(from[i])) {
      layout_fail("%s: %s[%lld] is %.9g, its copy %.9g", layout_when, master, (long long)i, from[i], copy[i]);
    }
  }
}

static inline void keep_states(LayoutRun *run, Arena *arena, Outcome *outcome, const char *when) {
  layout_when = when;
  for (int p = 0; p < run->set->count; p++) {
    for (int i = 0; i < run->set->plans[p]->state_count; i++) {
      const PlanState *state = &run->set->plans[p]->states[i];
      if (state->role == STATE_COPY) {
        check_copy(run, arena, state);
      }
      if (!state->owner || state->role == STATE_COPY) {
        continue;
      }
      int64_t count;
      double *data = layout_state(run, arena, state->name, &count);
      outcome_keep(arena, outcome, arena_format(arena, "%s %s", when, state->name), data, count);
    }
  }
}

// The axes of an output in the order of their names: its order in memory is the compiler's.
static inline void order_axes(const PlanOutput *output, int *order) {
  for (int i = 0; i < output->axis_count; i++) {
    int at = i;
    for (; at > 0 && strcmp(output->axis[i], output->axis[order[at - 1]]) < 0; at--) {
      order[at] = order[at - 1];
    }
    order[at] = i;
  }
}

static inline double *output_data(LayoutRun *run, Arena *arena, int64_t rank, const PlanOutput *output,
                                  int64_t *elements) {
  Error error = {0};
  int64_t count = whole_count(output->axis_count, output->size);
  double *data = ARENA_ARRAY(arena, double, count + 1);
  int order[PLAN_MAX_AXES];
  order_axes(output, order);
  for (int64_t j = 0; j < count; j++) {
    int64_t at = j, local = 0;
    for (int a = output->axis_count - 1; a >= 0; a--) {
      local += at % output->size[order[a]] * output->stride[order[a]];
      at /= output->size[order[a]];
    }
    char number[8];
    int64_t offset = output->place.offset + local * element_type_bytes(output->type);
    if (!backend_cpu.read(session_device(&run->session, rank), output->place.arena, offset, number,
                          element_type_bytes(output->type), &error)) {
      layout_fail("%s: %s", output->name, error.text);
    }
    data[j] = element_get(output->type, number);
  }
  *elements = count;
  return data;
}

static inline const Tensor *outcome_find(const Outcome *outcome, const char *name) {
  for (int i = 0; i < outcome->at.count; i++) {
    if (strcmp(outcome->at.at[i].name, name) == 0) {
      return &outcome->at.at[i];
    }
  }
  return NULL;
}

// Outputs of all ranks that have them: the same on each, to the bit.
static inline void keep_outputs(LayoutRun *run, Arena *arena, Outcome *outcome, ProgramKind kind, const char *when) {
  for (int64_t rank = 0; rank < run->session.ranks; rank++) {
    const PlanProgram *program = &session_plan(&run->session, rank)->programs[kind];
    for (int i = 0; i < program->output_count; i++) {
      const PlanOutput *output = &program->outputs[i];
      int64_t count;
      double *data = output_data(run, arena, rank, output, &count);
      const char *name = arena_format(arena, "%s %s", when, output->name);
      const Tensor *before = outcome_find(outcome, name);
      if (!before) {
        outcome_keep(arena, outcome, name, data, count);
      } else if (before->count != count || memcmp(before->data, data, sizeof(double) * (size_t)count) != 0) {
        layout_fail("ranks disagree on '%s'", name);
      }
    }
  }
}

static double outcome_jitter;  // relative: of all parameters, to see what hangs on rounding

static inline void draw_states(LayoutRun *run, Arena *arena) {
  for (int p = 0; p < run->set->count; p++) {
    for (int i = 0; i < run->set->plans[p]->state_count; i++) {
      const PlanState *state = &run->set->plans[p]->states[i];
      if (state->role == STATE_COPY) {
        continue;
      }
      int64_t count = whole_count(state->axis_count, state->size);
      double *data = ARENA_ARRAY(arena, double, count + 1);
      for (int64_t j = 0; j < count; j++) {
        double u = drawn(state->name, j, 1);
        data[j] = state->role == STATE_PARAMETER ? 1.6 * u - 0.8 : state->role == STATE_MODEL ? u : 0.001 + 0.01 * u;
        data[j] *= 1 + outcome_jitter * (drawn(state->name, j, 2) - 0.5);
      }
      layout_set_state(run, state->name, data);
    }
  }
  Error error = {0};
  if (!session_refresh(&run->session, &error)) {
    layout_fail("%s", error.text);
  }
}

// The outputs of the programs that do not train. They take one microbatch: names tell how many there are.
static inline void outcome_evaluate(LayoutRun *run, const char *what, Arena *arena, Outcome *outcome) {
  int slots = run->set->plans[0]->programs[PROGRAM_TRAIN].slots;
  draw_states(run, arena);
  for (ProgramKind kind = PROGRAM_EVALUATE; kind <= PROGRAM_GENERATE; kind++) {
    if (session_has(&run->session, kind)) {
      layout_draw_inputs(run, kind, 7);
      outcome_program(run, what, kind, 1);
      keep_outputs(run, arena, outcome, kind, arena_format(arena, "of 1/%d, %s", slots, program_kind_name(kind)));
    }
  }
}

// The parameter that comes first by name.
static inline const char *first_parameter(const LayoutRun *run) {
  const char *first = NULL;
  for (int p = 0; p < run->set->count; p++) {
    for (int i = 0; i < run->set->plans[p]->state_count; i++) {
      const PlanState *state = &run->set->plans[p]->states[i];
      bool before = state->role == STATE_PARAMETER && (!first || strcmp(state->name, first) < 0);
      first = before ? state->name : first;
    }
  }
  return first;
}

// A step whose gradients are not finite changes no tensor on any rank. Other numbers may differ: what comes of a number
// that is not finite depends on the order of operations.
static inline void outcome_skip(LayoutRun *run, const char *what, Arena *arena, Outcome *outcome) {
  Error error = {0};
  Outcome all = {0};
  int64_t count;
  const char *name = first_parameter(run);
  double *data = layout_state(run, arena, name, &count);
  for (int64_t i = 0; i < count; i++) {
    data[i] = (double)NAN;
  }
  layout_set_state(run, name, data);
  if (!session_refresh(&run->session, &error)) {
    layout_fail("%s: %s", what, error.text);
  }
  layout_draw_inputs(run, PROGRAM_TRAIN, OUTCOME_STEPS + 1);
  outcome_program(run, what, PROGRAM_TRAIN, OUTCOME_STEPS + 1);
  keep_states(run, arena, &all, "skipped");
  keep_outputs(run, arena, &all, PROGRAM_TRAIN, "output");
  bool skipped = false;  // what is no number may also go nowhere, and then the step is one like others
  for (int i = 0; i < all.at.count; i++) {
    skipped = skipped || (strcmp(all.at.at[i].name, "output skipped") == 0 && all.at.at[i].data[0] > 0);
  }
  for (int i = 0; i < all.at.count; i++) {
    const Tensor *tensor = &all.at.at[i];
    const PlanState *state = NULL;
    for (int64_t rank = 0; rank < run->session.ranks && !state; rank++) {
      state = state_on(run, rank, strchr(tensor->name, ' ') + 1);
    }
    if ((skipped && state && state->role != STATE_MODEL) || strcmp(tensor->name, "output skipped") == 0) {
      outcome_keep(arena, outcome, tensor->name, tensor->data, tensor->count);
    }
  }
}

// First values, whatever was there before; two steps of training; one that is skipped; an evaluation, what text is
// generated from. The run is closed.
static inline void outcome_run(LayoutRun *run, const char *what, double deadline, Arena *arena, Outcome *outcome) {
  Error error = {0};
  if (!layout_open(run, deadline, &error)) {
    layout_fail("%s: %s", what, error.text);
  }
  draw_states(run, arena);
  outcome_program(run, what, PROGRAM_INITIALISE, 0);
  keep_states(run, arena, outcome, "first");
  draw_states(run, arena);
  for (int step = 1; step <= OUTCOME_STEPS; step++) {
    layout_draw_inputs(run, PROGRAM_TRAIN, (uint64_t)step);
    outcome_program(run, what, PROGRAM_TRAIN, step);
    keep_outputs(run, arena, outcome, PROGRAM_TRAIN, step == 1 ? "step 1" : "step 2");
  }
  keep_states(run, arena, outcome, "last");
  outcome_skip(run, what, arena, outcome);
  outcome_evaluate(run, what, arena, outcome);
  layout_close(run);
}

static inline double tensor_largest(const Tensor *tensor) {
  double most = 0;
  for (int64_t i = 0; i < tensor->count; i++) {
    most = fabs(tensor->data[i]) > most ? fabs(tensor->data[i]) : most;
  }
  return most;
}

// An output of a training step that no sum over microbatches gives, such as a largest number, and that a layout with
// several of them does not have therefore.
static inline bool outcome_of_one(const Outcome *found, const char *name) {
  const char *output = strncmp(name, "step ", 5) == 0 ? strchr(name + 5, ' ') : NULL;
  bool is = false;
  for (int i = 0; output && i < found->at.count && !is; i++) {
    int of = 0, at = 0;
    const bool named = sscanf(found->at.at[i].name, "of 1/%d, %*s%n", &of, &at) == 1 && at > 0;
    is = named && of > 1 && strcmp(found->at.at[i].name + at, output) == 0;
  }
  return is;
}

// Whether both are the same but for rounding: within `tolerance` of the largest element (0: exactly), first values to
// the bit. If not, `said` tells the first difference. Not finite numbers must be so in both. There may be more
// numbers of microbatches in `expected`, and with `more` in `found`.
static inline bool outcome_same(Outcome *expected, const Outcome *found, double tolerance, bool more, char *said,
                                size_t size) {
  double gradients = 0;
  for (int i = 0; i < expected->at.count; i++) {
    double most = strstr(expected->at.at[i].name, " gradient.") ? tensor_largest(&expected->at.at[i]) : 0;
    gradients = most > gradients ? most : gradients;
  }
  for (int i = 0; i < expected->at.count; i++) {
    const Tensor *a = &expected->at.at[i], *b = outcome_find(found, a->name);
    if (!b && (strncmp(a->name, "of 1/", 5) == 0 || outcome_of_one(found, a->name))) {
      continue;
    }
    if (!b || b->count != a->count) {
      snprintf(said, size, "there is no '%s', or it has another size: %lld for %lld", a->name,
               b ? (long long)b->count : -1LL, (long long)a->count);
      return false;
    }
    bool exact = strncmp(a->name, "first ", 6) == 0, gradient = strstr(a->name, " gradient.") != NULL;
    double scale = gradient ? fmax(tensor_largest(a), 1e-2 * gradients) : fmax(tensor_largest(a), 1e-3);
    for (int64_t j = 0; j < a->count; j++) {
      double error = fabs(a->data[j] - b->data[j]);
      expected->worst = error / scale > expected->worst ? error / scale : expected->worst;
      if (!(error <= (exact ? 0 : tolerance * scale)) && !(isnan(a->data[j]) && isnan(b->data[j])) &&
          a->data[j] != b->data[j]) {
        snprintf(said, size, "'%s'[%lld] is %.17g, not %.17g", a->name, (long long)j, b->data[j], a->data[j]);
        return false;
      }
    }
  }
  for (int i = 0; i < found->at.count; i++) {
    if (!outcome_find(expected, found->at.at[i].name) && (!more || strncmp(found->at.at[i].name, "of 1/", 5) != 0)) {
      snprintf(said, size, "'%s' is too much", found->at.at[i].name);
      return false;
    }
  }
  return true;
}

#endif
