// diff_texts.c: compiles two texts or layouts, runs the same step in both and compares everything that can be read.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/diff.h"
#include "runtime/element.h"
#include "runtime/states.h"

typedef struct {
  Trial trial;
  States states;
  CompiledValues values;
} Side;

typedef struct {
  Diff *diff;
  Side side[2];
  Arena *arena;    // of the whole comparison
  Arena *scratch;  // of one value
  double loss_depth, largest_gradient;
  double **before;  // by state of the first side: its elements before the step
  Error *error;
} Compare;

typedef enum { GO_ON, STOP, FAILED } Next;

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

// --- reading ---

static int64_t elements_of(int axis_count, const int64_t *size) {
  int64_t count = 1;
  for (int i = 0; i < axis_count; i++) {
    count *= size[i];
  }
  return count;
}

// Sorts axes by name: the order in memory is the compiler's.
static void order_axes(const PlanOutput *output, int *order) {
  for (int i = 0; i < output->axis_count; i++) {
    int at = i;
    for (; at > 0 && strcmp(output->axis[i], output->axis[order[at - 1]]) < 0; at--) {
      order[at] = order[at - 1];
    }
    order[at] = i;
  }
}

// The elements of `tensor` as one rank has them.
static bool rank_read(Arena *arena, const Session *session, int64_t rank, const PlanOutput *output, const int *order,
                      const DiffTensor *tensor, double *data, Error *error) {
  const int64_t bytes = element_type_bytes(output->type);
  int64_t reach = 1;
  for (int i = 0; i < output->axis_count; i++) {
    reach += (output->size[i] - 1) * output->stride[i];
  }
  char *memory = arena_alloc(arena, (size_t)(reach * bytes));
  if (!session->backend->read(session_device(session, rank), output->place.arena, output->place.offset, memory,
                              reach * bytes, error)) {
    return false;
  }
  for (int64_t i = 0; i < tensor->count; i++) {
    int64_t at = i, local = 0;
    for (int a = tensor->axis_count - 1; a >= 0; a--) {
      local += at % tensor->size[a] * output->stride[order[a]];
      at /= tensor->size[a];
    }
    data[i] = element_get(output->type, memory + local * bytes);
  }
  return true;
}

// *found is false if no rank has it; *odd is a rank that has something else than the first that has it, or -1.
// What is computed by way of a coarser format is no better than that.
static void set_digits(const Side *side, DiffTensor *tensor) {
  const ElementType coarsest = side->trial.set->plans[0]->coarsest;
  if (element_type_floating(tensor->type) && element_type_bytes(coarsest) < element_type_bytes(tensor->type)) {
    tensor->type = coarsest;
  }
}

static bool output_read(Arena *arena, Side *side, const char *name, DiffTensor *tensor, bool *found, int64_t *odd,
                        Error *error) {
  const Session *session = &side->trial.session;
  int64_t first;
  int order[PLAN_MAX_AXES];
  const PlanOutput *output = session_find_output(session, PROGRAM_TRAIN, name, &first);
  *found = output != NULL;
  *odd = -1;
  if (!output) {
    return true;
  }
  order_axes(output, order);
  *tensor = (DiffTensor){.name = name, .type = output->type, .axis_count = output->axis_count};
  for (int i = 0; i < output->axis_count; i++) {
    tensor->axis[i] = output->axis[order[i]];
    tensor->size[i] = output->size[order[i]];
  }
  tensor->count = elements_of(tensor->axis_count, tensor->size);
  tensor->data = ARENA_ARRAY(arena, double, tensor->count + 1);
  double *other = ARENA_ARRAY(arena, double, tensor->count + 1);
  for (int64_t rank = first; rank < session->ranks; rank++) {
    const PlanOutput *here = session_output(session_plan(session, rank), PROGRAM_TRAIN, name);
    double *to = rank == first ? tensor->data : other;
    if (here && session_plan(session, rank) == session_plan(session, first)) {
      if (!rank_read(arena, session, rank, here, order, tensor, to, error)) {
        return false;
      }
      const bool same = to == tensor->data || memcmp(to, tensor->data, sizeof *to * (size_t)tensor->count) == 0;
      *odd = same || *odd >= 0 ? *odd : rank;
    }
  }
  return true;
}

static bool state_read(Arena *arena, Side *side, const LogicalState *state, DiffTensor *tensor, Error *error) {
  const PlanState *of = state->state;
  *tensor = (DiffTensor){.name = of->name, .type = of->type, .axis_count = of->axis_count};
  memcpy(tensor->axis, of->axis, sizeof tensor->axis);
  memcpy(tensor->size, of->size, sizeof tensor->size);
  tensor->count = elements_of(of->axis_count, of->size);
  tensor->data = ARENA_ARRAY(arena, double, tensor->count + 1);
  const int64_t bytes = element_type_bytes(of->type);
  char *dense = arena_alloc(arena, (size_t)(tensor->count * bytes + 8));
  if (!state_gather(&side->trial.session, &side->states, state, dense, error)) {
    return false;
  }
  for (int64_t i = 0; i < tensor->count; i++) {
    tensor->data[i] = element_get(of->type, dense + i * bytes);
  }
  return true;
}

// --- making them alike ---

// Sums blocks of an axis: a value of several microbatches is their sum, that of one is not.
static void fold(Arena *arena, DiffTensor *tensor, int axis, int64_t size) {
  int64_t inner = elements_of(tensor->axis_count - axis - 1, tensor->size + axis + 1), outer;
  const int64_t whole = tensor->size[axis];
  double *sum;
  outer = tensor->count / (inner * whole);
  sum = ARENA_ARRAY(arena, double, outer *size *inner + 1);
  for (int64_t o = 0; o < outer; o++) {
    for (int64_t i = 0; i < whole; i++) {
      for (int64_t k = 0; k < inner; k++) {
        sum[(o * size + i % size) * inner + k] += tensor->data[(o * whole + i) * inner + k];
      }
    }
  }
  tensor->size[axis] = size;
  tensor->count = outer * size * inner;
  tensor->data = sum;
}

static bool make_alike(Arena *arena, DiffTensor *a, DiffTensor *b, bool folds) {
  if (a->axis_count != b->axis_count) {
    return false;
  }
  for (int i = 0; i < a->axis_count; i++) {
    const int64_t x = a->size[i], y = b->size[i];
    if (strcmp(a->axis[i], b->axis[i]) != 0 || (x != y && (!folds || (x % y != 0 && y % x != 0)))) {
      return false;
    }
    if (x != y) {
      fold(arena, x > y ? a : b, i, x > y ? y : x);
    }
  }
  return true;
}

// --- comparing ---

static void scratch_clear(Compare *compare) {
  arena_destroy(compare->scratch);
  compare->scratch = arena_create();
}

static void note_missing(Compare *compare, const char *name) {
  if (compare->diff->missing++ == 0) {
    compare->diff->missing_name = arena_format(compare->arena, "%s", name);
  }
}

static Next compare_output(Compare *compare, const char *name, Span span, double depth) {
  DiffTensor tensor[2];
  bool found[2];
  int64_t odd[2];
  scratch_clear(compare);
  for (int side = 0; side < 2; side++) {
    if (!output_read(compare->scratch, &compare->side[side], name, &tensor[side], &found[side], &odd[side],
                     compare->error)) {
      return FAILED;
    }
  }
  const bool value = begins(name, "value."), gradient = begins(name, "gradient.");
  if (!found[0] || !found[1] || !make_alike(compare->scratch, &tensor[0], &tensor[1], value)) {
    note_missing(compare, name);
    return GO_ON;
  }
  const char *what = value      ? arena_format(compare->arena, "value %s", name + 6)
                     : gradient ? arena_format(compare->arena, "gradient of %s", name + 9)
                                : arena_format(compare->arena, "output %s", name);
  for (int side = 0; side < 2; side++) {
    set_digits(&compare->side[side], &tensor[side]);
  }
  const DiffFacts facts = {.what = what,
                           .line = trial_line(compare->arena, compare->side[0].trial.diag, span),
                           .growth = diff_growth(depth),
                           .scale = gradient ? compare->largest_gradient / 100 : 0};
  for (int side = 0; side < 2; side++) {
    if (odd[side] >= 0) {
      diff_other(compare->diff, what,
                 arena_format(compare->arena, "is not the same on all ranks of %s, for example on rank %lld",
                              compare->diff->label[side], (long long)odd[side]));
      return compare->diff->options->all ? GO_ON : STOP;
    }
  }
  return diff_tensors(compare->diff, &tensor[0], &tensor[1], &facts) ? GO_ON : STOP;
}

// The value of the list that is the gradient of the parameter that `state` is or belongs to; NULL: none.
static const CompiledValue *gradient_of(const Compare *compare, const char *state) {
  const CompiledValues *values = &compare->side[0].values;
  const CompiledValue *best = NULL;
  for (int i = 0; i < values->count; i++) {
    if (!begins(values->at[i].name, "gradient.")) {
      continue;
    }
    const char *parameter = values->at[i].name + 9;
    const size_t length = strlen(parameter), whole = strlen(state);
    const bool ends = whole >= length && strcmp(state + whole - length, parameter) == 0 &&
                      (whole == length || state[whole - length - 1] == '.');
    if (ends && (!best || strlen(best->name) < length + 9)) {
      best = &values->at[i];
    }
  }
  return best;
}

// Where an element of `state` is in its gradient, whose axes are in another order.
static int64_t index_in(const DiffTensor *of, const DiffTensor *state, int64_t at) {
  int64_t index[PLAN_MAX_AXES] = {0}, from = 0;
  for (int a = state->axis_count - 1; a >= 0; a--) {
    for (int j = 0; j < of->axis_count; j++) {
      index[j] = strcmp(of->axis[j], state->axis[a]) == 0 ? at % state->size[a] : index[j];
    }
    at /= state->size[a];
  }
  for (int j = 0; j < of->axis_count; j++) {
    from = from * of->size[j] + index[j];
  }
  return from;
}

// How much more elements of an updated state may differ, by what its gradient may; NULL: it has none.
static double *make_slack(Compare *compare, const CompiledValue *gradient, const DiffTensor *state,
                          const double *before) {
  DiffTensor of;
  bool found;
  int64_t odd;
  if (!gradient || compare->diff->options->exact ||
      !output_read(compare->scratch, &compare->side[0], gradient->name, &of, &found, &odd, compare->error) || !found ||
      of.count != state->count) {
    return NULL;
  }
  set_digits(&compare->side[0], &of);
  double *slack = ARENA_ARRAY(compare->scratch, double, state->count + 1);
  const double scale = fmax(diff_largest(&of), compare->largest_gradient / 100);
  const double budget = scale * diff_budget(compare->diff, of.type, state->type, diff_growth(gradient->depth));
  for (int64_t i = 0; i < state->count; i++) {
    const double size = fabs(of.data[index_in(&of, state, i)]);
    slack[i] = size <= budget ? INFINITY : 4 * fabs(state->data[i] - before[i]) * budget / size;
  }
  return slack;
}

static Next compare_state(Compare *compare, const LogicalState *state, const double *before) {
  const LogicalState *other = states_find(&compare->side[1].states, state->state->name);
  const char *name = state->state->name;
  DiffTensor tensor[2];
  scratch_clear(compare);
  if (!other) {
    note_missing(compare, name);
    return GO_ON;
  }
  if (!state_read(compare->scratch, &compare->side[0], state, &tensor[0], compare->error) ||
      !state_read(compare->scratch, &compare->side[1], other, &tensor[1], compare->error)) {
    return FAILED;
  }
  if (!make_alike(compare->scratch, &tensor[0], &tensor[1], false)) {
    diff_other(compare->diff, name, "has other axes");
    return compare->diff->options->all ? GO_ON : STOP;
  }
  const CompiledValue *gradient = gradient_of(compare, name);
  const Span span = gradient ? gradient->span : SPAN_NONE;
  for (int side = 0; before && side < 2; side++) {
    set_digits(&compare->side[side], &tensor[side]);
  }
  const DiffFacts facts = {.what = arena_format(compare->arena, "%s %s", before ? "new" : "first", name),
                           .line = trial_line(compare->arena, compare->side[0].trial.diag, span),
                           .growth = diff_growth(before ? 2 * compare->loss_depth : 1),
                           .slack = before ? make_slack(compare, gradient, &tensor[0], before) : NULL};
  return diff_tensors(compare->diff, &tensor[0], &tensor[1], &facts) ? GO_ON : STOP;
}

static Next compare_states(Compare *compare, bool updated) {
  Next next = GO_ON;
  const States *states = &compare->side[0].states;
  for (int role = STATE_PARAMETER; role <= STATE_MODEL; role++) {
    for (int i = 0; i < states->count && next == GO_ON; i++) {
      if ((int)states->at[i].state->role == role) {
        next = compare_state(compare, &states->at[i], updated ? compare->before[i] : NULL);
      }
    }
  }
  return next;
}

static bool find_largest_gradient(Compare *compare) {
  const CompiledValues *values = &compare->side[0].values;
  for (int i = 0; i < values->count; i++) {
    DiffTensor tensor;
    bool found;
    int64_t odd;
    if (strcmp(values->at[i].name, "loss") == 0) {
      compare->loss_depth = values->at[i].depth;
    }
    if (begins(values->at[i].name, "gradient.")) {
      scratch_clear(compare);
      if (!output_read(compare->scratch, &compare->side[0], values->at[i].name, &tensor, &found, &odd,
                       compare->error)) {
        return false;
      }
      compare->largest_gradient = fmax(compare->largest_gradient, found ? diff_largest(&tensor) : 0);
    }
  }
  return true;
}

static bool is_listed(const CompiledValues *values, const char *name) {
  for (int i = 0; i < values->count; i++) {
    if (strcmp(values->at[i].name, name) == 0) {
      return true;
    }
  }
  return false;
}

// Values, loss, gradients, in the order of the list; then what else comes out, such as the norm of the gradient.
static Next compare_step(Compare *compare) {
  Next next = GO_ON;
  const CompiledValues *values = &compare->side[0].values;
  const PlanSet *set = compare->side[0].trial.set;
  if (!find_largest_gradient(compare)) {
    return FAILED;
  }
  for (int i = 0; i < values->count && next == GO_ON; i++) {
    next = compare_output(compare, values->at[i].name, values->at[i].span, values->at[i].depth);
  }
  for (int i = 0; i < set->plans[0]->programs[PROGRAM_TRAIN].output_count && next == GO_ON; i++) {
    const char *name = set->plans[0]->programs[PROGRAM_TRAIN].outputs[i].name;
    if (!is_listed(values, name)) {
      next = compare_output(compare, name, SPAN_NONE, 2 * compare->loss_depth);
    }
  }
  return next;
}

// --- running ---

static bool side_open(Side *side, Arena *arena, const CompileOptions *given, const DiffOptions *options, Error *error) {
  CompileOptions compile = *given;
  side->values.arena = arena;
  compile.gradients = true;
  compile.values = &side->values;
  return trial_compile(&side->trial, &compile, error) &&
         trial_open(&side->trial, options->data, options->threads, options->deadline_seconds, error) &&
         states_open(side->trial.set, &side->states, error);
}

// The second begins the step with the state of the first, so that only the step itself can differ.
static bool states_copy(Compare *compare) {
  const States *states = &compare->side[0].states;
  compare->before = ARENA_ARRAY(compare->arena, double *, states->count + 1);
  for (int i = 0; i < states->count; i++) {
    const PlanState *state = states->at[i].state;
    compare->before[i] = ARENA_ARRAY(compare->arena, double, elements_of(state->axis_count, state->size) + 1);
    const LogicalState *from = &states->at[i], *to = states_find(&compare->side[1].states, from->state->name);
    DiffTensor tensor;
    if (!to || state_bytes(to->state) / element_type_bytes(to->state->type) !=
                   state_bytes(from->state) / element_type_bytes(from->state->type)) {
      continue;
    }
    scratch_clear(compare);
    if (!state_read(compare->scratch, &compare->side[0], from, &tensor, compare->error)) {
      return false;
    }
    memcpy(compare->before[i], tensor.data, sizeof(double) * (size_t)tensor.count);
    const int64_t bytes = element_type_bytes(to->state->type);
    char *dense = arena_alloc(compare->scratch, (size_t)(tensor.count * bytes + 8));
    for (int64_t j = 0; j < tensor.count; j++) {
      element_put(to->state->type, dense + j * bytes, tensor.data[j]);
    }
    if (!state_scatter(&compare->side[1].trial.session, &compare->side[1].states, to, dense, compare->error)) {
      return false;
    }
  }
  return session_refresh(&compare->side[1].trial.session, compare->error);
}

static Next compare_all(Compare *compare) {
  const int64_t step = compare->diff->options->step;
  double loss;
  Next next = compare_states(compare, false);
  for (int64_t i = 1; i < step && next == GO_ON; i++) {
    next = trial_step(&compare->side[0].trial, i, &loss, compare->error) ? GO_ON : FAILED;
  }
  if (next == GO_ON && (!states_copy(compare) || !trial_step(&compare->side[0].trial, step, &loss, compare->error) ||
                        !trial_step(&compare->side[1].trial, step, &loss, compare->error))) {
    next = FAILED;
  }
  next = next == GO_ON ? compare_step(compare) : next;
  return next == GO_ON ? compare_states(compare, true) : next;
}

bool diff_texts(Diff *diff, const CompileOptions options[2], Error *error) {
  Compare compare = {.diff = diff, .error = error, .arena = arena_create(), .scratch = arena_create()};
  bool done = compare.arena && compare.scratch;
  if (!done) {
    error_set(error, 3, "no memory");
  }
  for (int side = 0; side < 2 && done; side++) {
    done = side_open(&compare.side[side], compare.arena, &options[side], diff->options, error);
    if (!done) {
      Error why = *error;
      error_set(error, why.status, "%s: %.900s", diff->label[side], why.text);
    }
  }
  done = done && compare_all(&compare) != FAILED;
  if (done) {
    diff_end(diff);
  }
  for (int side = 0; side < 2; side++) {
    states_close(&compare.side[side].states);
    trial_close(&compare.side[side].trial);
  }
  arena_destroy(compare.scratch);
  arena_destroy(compare.arena);
  return done;
}
