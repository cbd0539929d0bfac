// blame.c: compiles a step with all values as outputs, runs it again, and looks for the first that is not finite.
#include "runtime/blame.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lang/unit.h"
#include "runtime/diff_side.h"

struct Blame {
  BlameOptions options;
  const PlanSet *set;  // that is trained
  Side side;           // with outputs of all values
  States trained;
  Arena *arena;  // of the list of values
  bool open;     // devices are
};

typedef struct {  // a number of a tensor that is not finite
  int64_t at, count;
  double value;
} Odd;

// --- compiling ---

static bool compile_text(Blame *blame, const CompileOptions *text, Error *error) {
  CompileOptions compile = *text;
  blame->side.values = (CompiledValues){.arena = blame->arena, .every = true};
  compile.gradients = true;
  compile.values = &blame->side.values;
  return trial_compile(&blame->side.trial, &compile, error);
}

static bool is_trained(const Blame *blame) {
  const char *is = blame->side.trial.set->plans[0]->resolved, *was = blame->set->plans[0]->resolved;
  return is && was && strcmp(is, was) == 0;
}

static bool compile_resolved(Blame *blame, Error *error) {
  const char *resolved = blame->set->plans[0]->resolved;
  if (!resolved || !*resolved) {
    return error_set(error, 1, "--blame compiles the text again, and the plan holds none; give the .mdl file");
  }
  static const char name[] = "the plan's text/resolved.mdl";  // of no file
  const OpenText open = {name, resolved, strlen(resolved)};
  const CompileOptions options = {.file = name, .open = &open, .open_count = 1};
  return compile_text(blame, &options, error);
}

bool blame_open(const PlanSet *set, const BlameOptions *options, Blame **blame, Error *error) {
  Blame *made = calloc(1, sizeof *made);
  *blame = made;
  if (!made || !(made->arena = arena_create())) {
    return error_set(error, 3, "no memory");
  }
  made->options = *options;
  made->set = set;
  Error changed = {0};
  const bool text = options->text && compile_text(made, options->text, &changed) && is_trained(made);
  if (!text) {
    trial_close(&made->side.trial);
    if (!compile_resolved(made, error)) {
      Error why = *error;
      return error_set(error, why.status, "--blame: %.900s", why.text);
    }
  }
  return states_open(set, &made->trained, error) && states_open(made->side.trial.set, &made->side.states, error);
}

void blame_close(Blame *blame) {
  if (blame) {
    side_close(&blame->side);
    states_close(&blame->trained);
    arena_destroy(blame->arena);
    free(blame);
  }
}

static bool blame_devices(Blame *blame, Error *error) {
  Trial *trial = &blame->side.trial;
  const SessionOptions session = {
      .threads = blame->options.threads, .deadline_seconds = blame->options.deadline_seconds, .several = true};
  if (blame->open) {
    return true;
  }
  // Initialised first: what the trained plan has no state for keeps its first numbers.
  blame->open = feed_create(trial->set, PROGRAM_TRAIN, blame->options.data, &trial->feed, error) &&
                session_open_ranks(&trial->session, trial->set, blame->options.backend, &session, error) &&
                session_run(&trial->session, PROGRAM_INITIALISE, 0, error);
  if (!blame->open) {
    session_close(&trial->session);
    feed_destroy(trial->feed);
    trial->feed = NULL;
  }
  return blame->open;
}

// --- what is said ---

static Odd look(const DiffTensor *tensor, bool infinite) {
  Odd odd = {.at = -1};
  for (int64_t i = 0; i < tensor->count; i++) {
    const double value = tensor->data[i];
    if (isnan(value) || (isinf(value) && !infinite)) {
      odd.value = odd.count == 0 ? value : odd.value;
      odd.at = odd.count == 0 ? i : odd.at;
      odd.count++;
    }
  }
  return odd;
}

// "is nan at [batch 0, seq 3], as are 5 of 128 elements"
static void say_where(const DiffTensor *tensor, const Odd *odd, Buffer *out) {
  int64_t index[PLAN_MAX_AXES], at = odd->at;
  for (int i = tensor->axis_count - 1; i >= 0; i--) {
    index[i] = at % tensor->size[i];
    at /= tensor->size[i];
  }
  buffer_format(out, "is %s", isnan(odd->value) ? "nan" : odd->value > 0 ? "inf" : "-inf");
  for (int i = 0; i < tensor->axis_count; i++) {
    buffer_format(out, "%s%s %lld%s", i ? ", " : " at [", tensor->axis[i], (long long)index[i],
                  i + 1 == tensor->axis_count ? "]" : "");
  }
  if (tensor->count > 1) {
    buffer_format(out, "; %lld of its %lld elements are not finite", (long long)odd->count, (long long)tensor->count);
  }
}

static void say_value(Blame *blame, const CompiledValue *value, Buffer *out) {
  static const char of_value[] = "gradient.value.", of_parameter[] = "gradient.";
  Trial *trial = &blame->side.trial;
  const char *line = trial_line(trial->arena, trial->diag, value->span), *name = value->name;
  const bool backward = strncmp(name, of_parameter, strlen(of_parameter)) == 0;
  const size_t skipped = strncmp(name, of_value, strlen(of_value)) == 0 ? strlen(of_value)
                         : backward                                     ? strlen(of_parameter)
                         : strncmp(name, "value.", 6) == 0              ? 6
                                                                        : 0;
  buffer_format(out, "%s", backward ? "the gradient of " : "");
  if (value->unnamed) {
    buffer_format(out, "a value that has no name%s%s", *value->where ? ", in " : "", value->where);
  } else {
    buffer_format(out, "%s", name + skipped);
  }
  if (value->op && value->uses > 0) {
    buffer_format(out, ", made by the backward of %s at %s%s", value->op, line,
                  value->uses > 1 ? " or of what else reads it" : "");
  } else if (value->op) {
    buffer_format(out, ", made by %s at %s", value->op, line);
  } else {
    buffer_format(out, " at %s", line);
  }
}

// --- looking ---

// Copies state to the plan that is looked at. *found: a parameter or state of the optimizer is not finite already.
static bool copy_states(Blame *blame, Session *trained, bool *found, Buffer *out, Error *error) {
  const States *states = &blame->trained;
  Arena *scratch = NULL;
  bool done = true;
  for (int i = 0; i < states->count && done; i++) {
    const LogicalState *from = &states->at[i];
    const LogicalState *to = states_find(&blame->side.states, from->state->name);
    const int64_t bytes = state_bytes(from->state);
    if (!to || state_bytes(to->state) != bytes || to->state->type != from->state->type) {
      continue;
    }
    arena_destroy(scratch);
    scratch = arena_create();
    if (!scratch) {
      return error_set(error, 3, "no memory");
    }
    char *dense = arena_alloc(scratch, (size_t)bytes + 8);
    done = state_gather(trained, states, from, dense, error) &&
           state_scatter(&blame->side.trial.session, &blame->side.states, to, dense, error);
    if (done && !*found && (from->state->role == STATE_PARAMETER || from->state->role == STATE_OPTIMIZER)) {
      DiffTensor tensor;
      int64_t rank;
      if (!side_state(scratch, &blame->side, to, &tensor, &rank, error)) {
        done = false;
        break;
      }
      const Odd odd = look(&tensor, false);
      if (odd.count > 0) {
        *found = true;
        buffer_format(out, "%s was not finite before the step: it ", from->state->name);
        say_where(&tensor, &odd, out);
      }
    }
  }
  arena_destroy(scratch);
  return done && session_refresh(&blame->side.trial.session, error);
}

static bool look_at_values(Blame *blame, bool *found, Buffer *out, Error *error) {
  const CompiledValues *values = &blame->side.values;
  int finite = 0;
  for (int i = 0; i < values->count && !*found; i++) {
    const CompiledValue *value = &values->at[i];
    DiffTensor tensor;
    bool there;
    int64_t rank;
    Arena *scratch = arena_create();
    if (!scratch) {
      return error_set(error, 3, "no memory");
    }
    const bool read = side_output(scratch, &blame->side, PROGRAM_TRAIN, value->name, &tensor, &there, &rank, error);
    const Odd odd = read && there ? look(&tensor, value->infinite) : (Odd){.at = -1};
    if (odd.count > 0) {
      *found = true;
      buffer_text(out, "the first value that is not finite is ");
      say_value(blame, value, out);
      buffer_text(out, ": it ");
      say_where(&tensor, &odd, out);
      buffer_format(out, "; %d values before it are finite", finite);
    }
    finite += read && there && odd.count == 0;
    arena_destroy(scratch);
    if (!read) {
      return false;
    }
  }
  return true;
}

bool blame_step(Blame *blame, Session *trained, int64_t step, int64_t batch, Buffer *out, Error *error) {
  Session *session = &blame->side.trial.session;
  bool found = false;
  if (!blame_devices(blame, error) || !copy_states(blame, trained, &found, out, error)) {
    return false;
  }
  if (!found && (!feed_train(blame->side.trial.feed, session, batch, error) ||
                 !session_run(session, PROGRAM_TRAIN, step, error) || !look_at_values(blame, &found, out, error))) {
    return false;
  }
  if (!found) {
    buffer_format(out,
                  "all %d values of a second pass are finite: what the first pass had is of its own order of sums, or "
                  "of a device that computes wrong (--check N)",
                  blame->side.values.count);
  }
  return !out->failed || error_set(error, 3, "no memory");
}
