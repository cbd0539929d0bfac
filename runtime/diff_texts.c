// diff_texts.c: compiles two texts or layouts, runs the same steps in both and compares everything that can be read.
//
// Outputs of all values change what is compiled, and may hide what is wrong without them. So each side is compiled
// twice: with them, which finds the first value that differs, and as it is trained.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/diff_side.h"

enum { RUN_STEPS = 3 };

typedef struct {
  Diff *diff;
  Side side[2];     // with outputs of all values
  Side trained[2];  // without
  Side *pair;       // of these two, the ones that are compared now
  Arena *arena;     // of the whole comparison
  Arena *scratch;   // of one value
  double loss_depth, largest_gradient;
  double **before;             // by state of the first side: its elements before the step
  double loss[2][RUN_STEPS];   // of runs of their own
  bool names;                  // what cannot be compared is noted
  const char *other_programs;  // that were compared, in words
  Error *error;
} Compare;

typedef enum { GO_ON, STOP, FAILED } Next;

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

static void scratch_clear(Compare *compare) {
  arena_destroy(compare->scratch);
  compare->scratch = arena_create();
}

static void note(Compare *compare, DiffNames *names, const char *name) {
  if (compare->names) {
    diff_name(names, arena_format(compare->arena, "%s", begins(name, "value.") ? name + 6 : name));
  }
}

// How many microbatches a step has.
static int slots_of(const Side *side) {
  return side->trial.set->plans[0]->programs[PROGRAM_TRAIN].slots;
}

static const int no_parts[2] = {1, 1};  // of what is no value of a microbatch

// --- outputs ---

static Next compare_output(Compare *compare, ProgramKind program, const char *name, Span span, double depth) {
  DiffTensor tensor[2];
  bool found[2];
  int64_t odd[2];
  scratch_clear(compare);
  for (int side = 0; side < 2; side++) {
    if (!side_output(compare->scratch, &compare->pair[side], program, name, &tensor[side], &found[side], &odd[side],
                     compare->error)) {
      return FAILED;
    }
  }
  const bool value = begins(name, "value."), gradient = begins(name, "gradient.");
  const int slots[2] = {slots_of(&compare->pair[0]), slots_of(&compare->pair[1])};
  if (!found[0] || !found[1]) {
    Diff *diff = compare->diff;
    note(compare, found[0] ? &diff->alone[0] : found[1] ? &diff->alone[1] : &diff->neither, name);
    return GO_ON;
  }
  if (!diff_make_alike(compare->scratch, &tensor[0], &tensor[1], value ? slots : no_parts)) {
    note(compare, &compare->diff->unlike, name);
    return GO_ON;
  }
  const char *what = value      ? arena_format(compare->arena, "value %s", name + 6)
                     : gradient ? arena_format(compare->arena, "gradient of %s", name + 9)
                                : arena_format(compare->arena, "output %s", name);
  for (int side = 0; side < 2; side++) {
    side_set_digits(&compare->pair[side], &tensor[side]);
  }
  const DiffFacts facts = {.what = what,
                           .line = trial_line(compare->arena, compare->side[0].trial.diag, span),
                           .growth = diff_growth(depth),
                           .scale = gradient ? compare->largest_gradient / 100 : 0};
  for (int side = 0; side < 2; side++) {
    if (odd[side] >= 0) {
      diff_odd(compare->diff, what, side, odd[side]);
      return compare->diff->options->all ? GO_ON : STOP;
    }
  }
  return diff_tensors(compare->diff, &tensor[0], &tensor[1], &facts) ? GO_ON : STOP;
}

static bool find_largest_gradient(Compare *compare) {
  const CompiledValues *values = &compare->side[0].values;
  compare->largest_gradient = 0;
  for (int i = 0; i < values->count; i++) {
    DiffTensor tensor;
    bool found;
    int64_t odd;
    if (strcmp(values->at[i].name, "loss") == 0) {
      compare->loss_depth = values->at[i].depth;
    }
    if (begins(values->at[i].name, "gradient.")) {
      scratch_clear(compare);
      if (!side_output(compare->scratch, &compare->side[0], PROGRAM_TRAIN, values->at[i].name, &tensor, &found, &odd,
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

static bool has_output(const Side *side, ProgramKind program, const char *name) {
  int64_t rank;
  return session_find_output(&side->trial.session, program, name, &rank) != NULL;
}

static bool has_earlier(const PlanSet *set, int stage, ProgramKind program, const char *name) {
  for (int s = 0; s < stage; s++) {
    if (session_output(set->plans[s], program, name)) {
      return true;
    }
  }
  return false;
}

// What is in no list and not the loss of a training step: of a stage each, those of the first side and then those of
// the second alone.
static Next compare_unlisted(Compare *compare, ProgramKind program, double depth) {
  Next next = GO_ON;
  for (int side = 0; side < 2; side++) {
    const PlanSet *set = compare->pair[side].trial.set;
    for (int s = 0; s < set->count; s++) {
      const PlanProgram *of = &set->plans[s]->programs[program];
      for (int i = 0; i < of->output_count && next == GO_ON; i++) {
        const char *name = of->outputs[i].name;
        const bool earlier = (program == PROGRAM_TRAIN && strcmp(name, "loss") == 0) ||
                             (program == PROGRAM_EVALUATE && plan_is_terms(name)) ||
                             is_listed(&compare->pair[0].values, name) || is_listed(&compare->pair[1].values, name) ||
                             (side == 1 && has_output(&compare->pair[0], program, name)) ||
                             has_earlier(set, s, program, name);
        next = earlier ? GO_ON : compare_output(compare, program, name, SPAN_NONE, depth);
      }
    }
  }
  return next;
}

// What one of them alone has is noted first, since nothing behind a difference is looked at.
static void note_alone(Compare *compare) {
  for (int side = 0; side < 2; side++) {
    const CompiledValues *values = &compare->pair[side].values;
    for (int i = 0; i < values->count; i++) {
      if (!is_listed(&compare->pair[1 - side].values, values->at[i].name)) {
        note(compare, &compare->diff->alone[side], values->at[i].name);
      }
    }
  }
}

// Values, loss, gradients, in the order of the list; then what else comes out, such as the norm of the gradient.
static Next compare_outputs(Compare *compare) {
  Next next = GO_ON;
  const CompiledValues *values = &compare->pair[0].values;
  note_alone(compare);
  for (int i = 0; i < values->count && next == GO_ON; i++) {
    const CompiledValue *value = &values->at[i];
    if (is_listed(&compare->pair[1].values, value->name)) {
      next = compare_output(compare, PROGRAM_TRAIN, value->name, value->span, value->depth);
    }
  }
  return next == GO_ON ? compare_unlisted(compare, PROGRAM_TRAIN, 2 * compare->loss_depth) : next;
}

// --- states ---

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

// How much more elements of an updated state may differ, by what its gradient may; NULL: it has none. Where no data
// reach an element, its gradient is 0 in both: that is no rounding.
static double *make_slack(Compare *compare, const CompiledValue *gradient, const DiffTensor *state,
                          const double *before) {
  DiffTensor of[2];
  bool found = true;
  int64_t odd;
  if (!gradient || compare->diff->options->exact) {
    return NULL;
  }
  for (int side = 0; side < 2; side++) {
    if (!side_output(compare->scratch, &compare->side[side], PROGRAM_TRAIN, gradient->name, &of[side], &found, &odd,
                     compare->error) ||
        !found || of[side].count != state->count) {
      return NULL;
    }
    side_set_digits(&compare->side[side], &of[side]);
  }
  double *slack = ARENA_ARRAY(compare->scratch, double, state->count + 1);
  const double scale = fmax(diff_largest(&of[0]), compare->largest_gradient / 100);
  const double budget = scale * diff_budget(compare->diff, of[0].type, of[1].type, diff_growth(gradient->depth));
  for (int64_t i = 0; i < state->count; i++) {
    const int64_t at = index_in(&of[0], state, i);
    const double size = fabs(of[0].data[at]);
    slack[i] = size == 0 && of[1].data[at] == 0 ? 0
               : size <= budget                 ? INFINITY
                                                : 4 * fabs(state->data[i] - before[i]) * budget / size;
  }
  return slack;
}

static Next compare_state(Compare *compare, const LogicalState *state, const double *before) {
  const LogicalState *other = states_find(&compare->pair[1].states, state->state->name);
  const char *name = state->state->name, *what = arena_format(compare->arena, "%s %s", before ? "new" : "first", name);
  DiffTensor tensor[2];
  int64_t odd[2];
  scratch_clear(compare);
  if (!other) {
    note(compare, &compare->diff->alone[0], name);
    return GO_ON;
  }
  if (!side_state(compare->scratch, &compare->pair[0], state, &tensor[0], &odd[0], compare->error) ||
      !side_state(compare->scratch, &compare->pair[1], other, &tensor[1], &odd[1], compare->error)) {
    return FAILED;
  }
  for (int side = 0; side < 2; side++) {
    if (odd[side] >= 0) {
      diff_odd(compare->diff, what, side, odd[side]);
      return compare->diff->options->all ? GO_ON : STOP;
    }
  }
  if (!diff_make_alike(compare->scratch, &tensor[0], &tensor[1], no_parts)) {
    diff_other(compare->diff, what, "has other axes or sizes");
    return compare->diff->options->all ? GO_ON : STOP;
  }
  const CompiledValue *gradient = gradient_of(compare, name);
  const Span span = gradient ? gradient->span : SPAN_NONE;
  for (int side = 0; before && side < 2; side++) {
    side_set_digits(&compare->pair[side], &tensor[side]);
  }
  const DiffFacts facts = {.what = what,
                           .line = trial_line(compare->arena, compare->side[0].trial.diag, span),
                           .growth = diff_growth(before ? 2 * compare->loss_depth : 1),
                           .slack = before ? make_slack(compare, gradient, &tensor[0], before) : NULL};
  return diff_tensors(compare->diff, &tensor[0], &tensor[1], &facts) ? GO_ON : STOP;
}

// With `all` also behind the first that differs.
static Next compare_states(Compare *compare, bool updated, bool all) {
  Next next = GO_ON, first = GO_ON;
  const States *states = &compare->pair[0].states, *others = &compare->pair[1].states;
  for (int role = STATE_PARAMETER; role <= STATE_MODEL; role++) {
    for (int i = 0; i < states->count && next == GO_ON; i++) {
      if ((int)states->at[i].state->role == role) {
        const int before = compare->diff->beyond;
        next = compare_state(compare, &states->at[i], updated ? compare->before[i] : NULL);
        if (before > 0 && compare->diff->beyond > before) {
          diff_name(&compare->diff->more, states->at[i].state->name);
        }
        first = next == STOP ? STOP : first;
        next = all && next == STOP ? GO_ON : next;
      }
    }
  }
  for (int i = 0; i < others->count; i++) {
    if (!states_find(states, others->at[i].state->name)) {
      note(compare, &compare->diff->alone[1], others->at[i].state->name);
    }
  }
  return next == GO_ON ? first : next;
}

// --- running ---

// All begin the step with the state of the first side, so that only the step itself can differ.
static bool states_copy(Compare *compare, Side *const *to, int count) {
  const States *states = &compare->side[0].states;
  for (int i = 0; i < states->count; i++) {
    const LogicalState *from = &states->at[i];
    DiffTensor tensor;
    int64_t odd;
    scratch_clear(compare);
    if (!side_state(compare->scratch, &compare->side[0], from, &tensor, &odd, compare->error)) {
      return false;
    }
    memcpy(compare->before[i], tensor.data, sizeof(double) * (size_t)tensor.count);
    for (int j = 0; j < count; j++) {
      const LogicalState *same = states_find(&to[j]->states, from->state->name);
      if (same && state_bytes(same->state) / element_type_bytes(same->state->type) == tensor.count &&
          !side_set_state(compare->scratch, to[j], same, &tensor, compare->error)) {
        return false;
      }
    }
  }
  for (int j = 0; j < count; j++) {
    if (!session_refresh(&to[j]->trial.session, compare->error)) {
      return false;
    }
  }
  return true;
}

static Next step_both(Compare *compare, Side *pair, int64_t step) {
  double loss;
  compare->pair = pair;
  return trial_step(&pair[0].trial, step, &loss, compare->error) &&
                 trial_step(&pair[1].trial, step, &loss, compare->error)
             ? GO_ON
             : FAILED;
}

// Loss, states and the rest, after the same step without outputs of values.
static Next compare_trained(Compare *compare, int64_t step) {
  if (step_both(compare, compare->trained, step) == FAILED) {
    return FAILED;
  }
  diff_heading(compare->diff, "the plan that is trained");
  Next next = compare_output(compare, PROGRAM_TRAIN, "loss", SPAN_NONE, compare->loss_depth);
  next = next == GO_ON ? compare_states(compare, true, true) : next;
  return next == GO_ON ? compare_unlisted(compare, PROGRAM_TRAIN, 2 * compare->loss_depth) : next;
}

static Next compare_step(Compare *compare, int64_t step) {
  Side *const others[] = {&compare->side[1], &compare->trained[0], &compare->trained[1]};
  Diff *diff = compare->diff;
  if (!states_copy(compare, others, 3) || step_both(compare, compare->side, step) == FAILED ||
      !find_largest_gradient(compare)) {
    return FAILED;
  }
  const int before = diff->beyond;
  diff->when = arena_format(compare->arena, " at step %lld", (long long)step);
  diff_heading(diff, "the plan with outputs of all values");
  Next next = compare_outputs(compare);
  next = next == GO_ON ? compare_states(compare, true, false) : next;
  compare->names = false;
  const int found = diff->beyond - before;
  if (next == FAILED) {
    return FAILED;
  }
  diff->when = arena_format(compare->arena, " at step %lld of the plan that is trained%s", (long long)step,
                            found > 0 ? "" : ", not of the one with outputs of all values");
  const Next trained = compare_trained(compare, step);
  diff->not_trained = found > 0 && diff->beyond - before == found;
  diff->more.count = found > 0 ? 0 : diff->more.count;
  return next == GO_ON ? trained : next;
}

// Each side trains from its own first values.
static bool run_alone(Compare *compare) {
  for (int side = 0; side < 2; side++) {
    for (int i = 0; i < RUN_STEPS; i++) {
      if (!trial_step(&compare->trained[side].trial, i + 1, &compare->loss[side][i], compare->error)) {
        return false;
      }
    }
  }
  return true;
}

static Next compare_runs(Compare *compare) {
  Next next = GO_ON;
  Diff *diff = compare->diff;
  diff->when = arena_format(compare->arena, " in a run of %d steps", RUN_STEPS);
  diff_heading(diff, "a run of its own");
  for (int i = 0; i < RUN_STEPS && next == GO_ON; i++) {
    DiffTensor tensor[2];
    for (int side = 0; side < 2; side++) {
      const Side *of = &compare->trained[side];
      tensor[side] = (DiffTensor){
          .name = "loss", .type = of->trial.set->plans[0]->real, .count = 1, .data = &compare->loss[side][i]};
      side_set_digits(of, &tensor[side]);
    }
    const DiffFacts facts = {.what = arena_format(compare->arena, "loss of step %d", i + 1),
                             .line = "",
                             .growth = diff_growth_of_runs(i + 1)};
    next = diff_tensors(diff, &tensor[0], &tensor[1], &facts) ? GO_ON : STOP;
  }
  return next;
}

// --- programs that do not train ---

// These take one microbatch. Of sides that have other numbers of them, one that is no pipeline is compiled again with
// as many as the other has. False: there is none that can be.
static bool open_alike(Compare *compare, const CompileOptions options[2], Side again[2]) {
  for (int side = 0; side < 2; side++) {
    CompileOptions compile = options[side];
    Error error = {0};
    again[side].number = side;
    compile.microbatches = slots_of(&compare->trained[1 - side]);
    if (compare->trained[side].trial.set->plans[0]->pipeline < 0 &&
        side_open(&again[side], compare->arena, &compile, false, compare->diff->options, &error)) {
      return true;
    }
    side_close(&again[side]);
    again[side] = (Side){0};
  }
  return false;
}

static Next compare_program(Compare *compare, ProgramKind program) {
  for (int side = 0; side < 2; side++) {
    Trial *trial = &compare->pair[side].trial;
    Feed *feed = NULL;
    Error unfed = {0};
    if (!session_has(&trial->session, program) || !feed_create(trial->set, program, trial->data, &feed, &unfed)) {
      return GO_ON;
    }
    const int64_t step = compare->diff->options->step, batch = plan_batch_after(&trial->set->plans[0]->run, 0, step);
    const bool done = feed_train(feed, &trial->session, batch, compare->error) &&
                      session_run(&trial->session, program, step, compare->error);
    feed_destroy(feed);
    if (!done) {
      return FAILED;
    }
  }
  compare->diff->when = arena_format(compare->arena, " in the program %s", program_kind_name(program));
  diff_heading(compare->diff, arena_format(compare->arena, "the program %s", program_kind_name(program)));
  compare->other_programs = arena_format(compare->arena, "%s, %s", compare->other_programs, program_kind_name(program));
  return compare_unlisted(compare, program, compare->loss_depth);
}

static Next compare_others(Compare *compare, const CompileOptions options[2]) {
  Side again[2] = {{.trial = {0}}}, pair[2];
  const bool alike = slots_of(&compare->trained[0]) == slots_of(&compare->trained[1]);
  Next next = GO_ON;
  compare->other_programs = "; not evaluate and generate, which take one microbatch: those of the two differ in size";
  if (alike || open_alike(compare, options, again)) {
    for (int side = 0; side < 2; side++) {
      pair[side] = again[side].trial.arena ? again[side] : compare->trained[side];
    }
    compare->pair = pair;
    compare->other_programs = "";
    next = states_copy(compare, (Side *[]){&pair[0], &pair[1]}, 2) ? GO_ON : FAILED;
    for (ProgramKind program = PROGRAM_EVALUATE; program <= PROGRAM_GENERATE && next == GO_ON; program++) {
      next = compare_program(compare, program);
    }
  }
  side_close(&again[0]);
  side_close(&again[1]);
  return next;
}

// --- all of it ---

static Next compare_all(Compare *compare, const CompileOptions options[2]) {
  const DiffOptions *asked = compare->diff->options;
  const States *states = &compare->side[0].states;
  double loss;
  compare->before = ARENA_ARRAY(compare->arena, double *, states->count + 1);
  for (int i = 0; i < states->count; i++) {
    const PlanState *state = states->at[i].state;
    compare->before[i] = ARENA_ARRAY(compare->arena, double, state_bytes(state) / element_type_bytes(state->type) + 1);
  }
  compare->names = true;
  compare->pair = compare->side;
  Next next = compare_states(compare, false, false);
  next = next == GO_ON && !run_alone(compare) ? FAILED : next;
  for (int64_t i = 1; i < asked->step && next == GO_ON; i++) {
    next = trial_step(&compare->side[0].trial, i, &loss, compare->error) ? GO_ON : FAILED;
  }
  for (int64_t i = 0; i < asked->steps && next == GO_ON; i++) {
    next = compare_step(compare, asked->step + i);
  }
  next = next == GO_ON ? compare_runs(compare) : next;
  return next == GO_ON ? compare_others(compare, options) : next;
}

static const char *scope_of(const Compare *compare) {
  const DiffOptions *asked = compare->diff->options;
  const long long first = asked->step, last = first + asked->steps - 1;
  const char *steps = first == last ? arena_format(compare->arena, "step %lld", first)
                                    : arena_format(compare->arena, "steps %lld to %lld", first, last);
  return arena_format(
      compare->arena,
      "%s of the plan with outputs of all values and of the one that is trained, the losses of a run of %d steps%s",
      steps, RUN_STEPS, compare->other_programs);
}

static bool open_all(Compare *compare, const CompileOptions options[2]) {
  const Diff *diff = compare->diff;
  for (int side = 0; side < 2; side++) {
    compare->side[side].number = compare->trained[side].number = side;
    if (!side_open(&compare->side[side], compare->arena, &options[side], true, diff->options, compare->error) ||
        !side_open(&compare->trained[side], compare->arena, &options[side], false, diff->options, compare->error)) {
      Error why = *compare->error;
      return error_set(compare->error, why.status, "%s: %.900s", diff->label[side], why.text);
    }
  }
  return true;
}

bool diff_texts(Diff *diff, const CompileOptions options[2], Error *error) {
  Compare compare = {.diff = diff, .error = error, .arena = arena_create(), .scratch = arena_create()};
  bool done = compare.arena && compare.scratch;
  if (!done) {
    error_set(error, 3, "no memory");
  }
  done = done && open_all(&compare, options) && compare_all(&compare, options) != FAILED;
  if (done) {
    diff->scope = diff->beyond == 0 ? scope_of(&compare) : NULL;
    diff_end(diff);
  }
  for (int side = 0; side < 2; side++) {
    side_close(&compare.side[side]);
    side_close(&compare.trained[side]);
  }
  arena_destroy(compare.scratch);
  arena_destroy(compare.arena);
  return done;
}
