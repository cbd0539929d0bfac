// api_train.c: training and the values of a run, as mdl.h has them, on top of train.h.
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/api_internal.h"
#include "runtime/convert/source.h"
#include "runtime/hub.h"
#include "runtime/states.h"
#include "runtime/train.h"

struct MdlTrainer {
  Trainer *trainer;
  TrainView view;
  Arena *arena;        // of the texts of the options, and of `outputs`; NULL under mdl_train
  SourceOptions from;  // weights to begin with
  States states;
  int output_count;
  const char **outputs;            // their names, each once
  bool stepped;                    // outputs are those of a step
  bool ended;                      // nothing is trained any longer
  const MdlTrainOptions *options;  // of mdl_train, which calls
  bool failed;                     // that could not be done: why
  Error error;
};

static const char *arena_text(Arena *arena, const char *text) {
  return text ? arena_copy(arena, text, strlen(text) + 1) : NULL;
}

static bool not_there(const char *what, const char *path, const char *option, Error *error) {
  char hint[HUB_HINT_MAX];
  const char *why = strerror(errno);
  return error_set(error, 1, "no %s to begin with: %s: %s%s", what, path, why, hub_hint(path, option, "", NULL, hint));
}

static const MdlTrainOptions defaults = {MDL_TRAIN_DEFAULTS};

// `from` is filled in and must outlive what is made of the options.
static bool train_options(const MdlPlan *plan, const MdlTrainOptions *options, SourceOptions *from, TrainOptions *train,
                          Error *error) {
  if (!api_given("plan", plan, error)) {
    return false;
  }
  if (options->steps == 0) {
    return error_set(error, 2, "`steps` is 0: a run of no steps leaves nothing; not given, it is that of the recipe");
  }
  if (options->from && options->resume) {
    return error_set(error, 2, "a run is begun with weights from %s, or gone on with, not both", options->from);
  }
  if (options->save_trained && !options->from) {
    return error_set(error, 2, "checkpoints that hold what is trained alone need weights that training begins with");
  }
  if (options->trunk && !options->resume) {
    return error_set(error, 2, "`trunk` says where frozen parameters are of a run that is gone on with: give `resume`");
  }
  if (options->from && access(options->from, F_OK) != 0) {  // before a run is made
    return not_there("weights", options->from, "--from ", error);
  }
  if (options->adapters && access(options->adapters, F_OK) != 0) {
    return not_there("adapters", options->adapters, "--adapters ", error);
  }
  if (!options->from && (options->mapping || options->partial || options->adapters)) {
    return error_set(
        error, 2, "adapters, a mapping and `partial` are for weights to begin with, and there are none: give `from`");
  }
  if (!api_count("threads", options->threads, INT_MAX, error) || !api_count("keep", options->keep, INT_MAX, error) ||
      !api_count("keep_every", options->keep_every, INT64_MAX, error) ||
      !api_count("patience", options->patience, INT64_MAX, error) ||
      !api_count("check", options->check, INT64_MAX, error) ||
      !api_count("profile", options->profile, PLAN_MOST_STEPS, error) ||
      !api_seconds(options->deadline_seconds, error)) {
    return false;
  }
  *from = (SourceOptions){
      .path = options->from, .adapters = options->adapters, .mapping = options->mapping, .partial = options->partial};
  *train = (TrainOptions){.out = options->out,
                          .data = options->data,
                          .resume = options->resume,
                          .restart = options->restart,
                          .keep_every = options->keep_every,
                          .keep_best = options->keep_best,
                          .sync_save = options->sync_save,
                          .blame = options->blame,
                          .text = plan->text,
                          .diag = plan->diag,
                          .check = options->check,
                          .patience = options->patience,
                          .from = options->from ? from : NULL,
                          .save_trained = options->save_trained,
                          .trunk = options->trunk,
                          .steps = options->steps,
                          .save_every = options->save_every,
                          .eval_every = options->eval_every,
                          .log_every = options->log_every,
                          .keep = options->keep,
                          .threads = (int)options->threads,
                          .deadline_seconds = options->deadline_seconds,
                          .profile = options->profile,
                          .compile_seconds = plan->compile_seconds,
                          .screen = options->screen,
                          .lines = options->lines};
  return true;
}

static void result_fill(MdlTrainResult *result, const TrainResult *trained) {
  if (result) {
    snprintf(result->run, sizeof result->run, "%s", trained->path);
    result->step = trained->step;
    result->loss = trained->loss;
    result->val_loss = trained->val_loss;
  }
}

static MdlStep step_of(const TrainView *view) {
  const MetricsLine *line = view->line;
  return (MdlStep){.step = line->step,
                   .steps = view->steps,
                   .tokens = line->tokens,
                   .skipped = line->skipped,
                   .loss = line->loss,
                   .grad_norm = line->grad_norm,
                   .lr = line->lr,
                   .val_loss = line->val_loss,
                   .seconds_per_step = line->step_ms * 1e-3};
}

// --- names ---

static bool outputs_have(const MdlTrainer *trainer, const char *name) {
  for (int i = 0; i < trainer->output_count; i++) {
    if (strcmp(trainer->outputs[i], name) == 0) {
      return true;
    }
  }
  return false;
}

// Of all stages, each once.
static bool names_open(MdlTrainer *trainer, Trainer *inner, Error *error) {
  trainer->trainer = inner;
  trainer->view = train_view(inner);
  const PlanSet *set = trainer->view.session->set;
  size_t most = 1;
  for (int s = 0; s < set->count; s++) {
    most += (size_t)set->plans[s]->programs[PROGRAM_TRAIN].output_count;
  }
  trainer->outputs = calloc(most, sizeof *trainer->outputs);
  if (!trainer->outputs) {
    return error_set(error, 3, "no memory for the names of outputs");
  }
  for (int s = 0; s < set->count; s++) {
    const PlanProgram *program = &set->plans[s]->programs[PROGRAM_TRAIN];
    for (int i = 0; i < program->output_count; i++) {
      if (!outputs_have(trainer, program->outputs[i].name)) {
        trainer->outputs[trainer->output_count++] = program->outputs[i].name;
      }
    }
  }
  return states_open(set, &trainer->states, error);
}

static void names_close(MdlTrainer *trainer) {
  states_close(&trainer->states);
  free(trainer->outputs);
}

// --- training ---

// Called behind a step of mdl_train.
static bool step_behind(void *context, Trainer *inner) {
  MdlTrainer *trainer = context;
  if (!trainer->trainer && !names_open(trainer, inner, &trainer->error)) {
    trainer->failed = true;
    return false;
  }
  const MdlStep step = step_of(&trainer->view);
  trainer->stepped = true;
  NUMERIC_OUTSIDE;
  return trainer->options->step(trainer->options->context, trainer, &step);
}

MdlStatus mdl_train(const MdlPlan *plan, const MdlTrainOptions *options, MdlTrainResult *result, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  TrainResult trained = {0};
  options = options ? options : &defaults;
  MdlTrainer trainer = {.options = options};
  TrainOptions train;
  if (!train_options(plan, options, &trainer.from, &train, &error)) {
    return api_result(false, &error, to);
  }
  if (options->step) {
    train.watched = true;
    train.step = step_behind;
    train.context = &trainer;
  }
  const Backend *backend = backend_choose(options->device, plan_ranks(plan->set->plans[0]), &error);
  bool done = backend && train_run(plan->set, backend, &train, &trained, &error);
  names_close(&trainer);
  if (done && trainer.failed) {
    error = trainer.error;
    done = false;
  }
  if (done) {
    result_fill(result, &trained);
  }
  const MdlStatus status = api_result(done, &error, to);
  return done && trained.interrupted ? MDL_INTERRUPTED : status;
}

static bool trainer_open(MdlTrainer *made, const MdlPlan *plan, const MdlTrainOptions *options, Error *error) {
  TrainOptions train;
  if (!train_options(plan, options, &made->from, &train, error)) {
    return false;
  }
  const Backend *backend = backend_choose(options->device, plan_ranks(plan->set->plans[0]), error);
  Trainer *inner = NULL;
  made->arena = arena_create();
  if (!made->arena) {
    return error_set(error, 3, "no memory");
  }
  train.out = arena_text(made->arena, options->out);
  train.data = arena_text(made->arena, options->data);
  train.trunk = arena_text(made->arena, options->trunk);
  made->from.path = arena_text(made->arena, options->from);
  made->from.adapters = arena_text(made->arena, options->adapters);
  made->from.mapping = arena_text(made->arena, options->mapping);
  train.watched = true;
  return backend && train_open(plan->set, backend, &train, &inner, error) && names_open(made, inner, error) &&
         train_settle(inner, error);
}

MdlStatus mdl_trainer_open(const MdlPlan *plan, const MdlTrainOptions *options, MdlTrainer **trainer, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  if (!api_given("trainer", trainer, &error)) {
    return api_result(false, &error, to);
  }
  MdlTrainer *made = calloc(1, sizeof *made);
  const bool done =
      made ? trainer_open(made, plan, options ? options : &defaults, &error) : error_set(&error, 3, "no memory");
  if (!done) {
    mdl_trainer_close(made);
  }
  *trainer = done ? made : NULL;
  return api_result(done, &error, to);
}

static bool trainer_goes_on(const MdlTrainer *trainer, Error *error) {
  return api_given("trainer", trainer, error) &&
         (!trainer->ended ||
          error_set(error, 2, "the run has ended: a step failed, or it was finished; resume it with a new trainer"));
}

MdlStatus mdl_trainer_step(MdlTrainer *trainer, MdlStep *step, bool *more, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  if (!api_given("more", more, &error)) {
    return api_result(false, &error, to);
  }
  *more = false;
  bool done = trainer_goes_on(trainer, &error);
  if (done && !train_step(trainer->trainer, more, &error)) {
    train_note(trainer->trainer, &error);
    trainer->ended = true;
    done = *more = false;
  }
  if (done && *more) {
    trainer->stepped = true;
  }
  if (step && trainer) {
    *step = step_of(&trainer->view);
  }
  return api_result(done, &error, to);
}

MdlStatus mdl_trainer_save(MdlTrainer *trainer, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  const bool done = trainer_goes_on(trainer, &error) && train_save(trainer->trainer, &error);
  return api_result(done, &error, to);
}

MdlStatus mdl_trainer_finish(MdlTrainer *trainer, MdlTrainResult *result, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  TrainResult trained;
  const bool goes_on = trainer_goes_on(trainer, &error);
  const bool done = goes_on && train_end(trainer->trainer, &trained, &error);
  if (done) {
    result_fill(result, &trained);
  } else if (goes_on) {
    train_note(trainer->trainer, &error);
  }
  if (trainer) {
    trainer->ended = true;
    train_leave(trainer->trainer);
  }
  return api_result(done, &error, to);
}

void mdl_trainer_close(MdlTrainer *trainer) {
  NUMERIC_SCOPE;
  if (trainer) {
    names_close(trainer);
    train_close(trainer->trainer);
    arena_destroy(trainer->arena);
    free(trainer);
  }
}

const char *mdl_trainer_run(const MdlTrainer *trainer) {
  return trainer ? trainer->view.run : NULL;
}

// --- values ---

static void value_type(MdlValue *value, ElementType type) {
  value->type = element_type_name(type);
  value->element_bytes = (size_t)element_type_bytes(type);
}

static void value_axes(MdlValue *value, int count, const char *const *axis, const int64_t *size,
                       const int64_t *stride) {
  _Static_assert((int)MDL_MAX_AXES >= (int)PLAN_MAX_AXES, "a value has all axes of a tensor");
  value->axis_count = count;
  for (int i = 0; i < count; i++) {
    value->axis[i] = axis[i];
    value->size[i] = size[i];
    value->stride[i] = stride[i];
  }
}

// The first rank that runs this plan.
static int64_t rank_of(const Session *session, const Plan *plan) {
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    if (session_plan(session, rank) == plan) {
      return rank;
    }
  }
  return 0;
}

static bool state_whole(const PlanState *state) {
  bool whole = state->flat_piece == 0;
  for (int i = 0; i < state->axis_count; i++) {
    whole &= state->cut[i].count == 0;
  }
  return whole;
}

static void value_of_state(const MdlTrainer *trainer, const LogicalState *logical, MdlValue *value) {
  const StatePart *part = &trainer->states.part[logical->first];
  const PlanState *state = part->state;
  Session *session = trainer->view.session;
  *value = (MdlValue){.name = state->name,
                      .kind = state->role == STATE_PARAMETER   ? MDL_VALUE_PARAMETER
                              : state->role == STATE_OPTIMIZER ? MDL_VALUE_OPTIMIZER
                                                               : MDL_VALUE_STATE};
  value_type(value, logical->state->type);
  value_axes(value, state->axis_count, state->axis, state->size, state->stride);
  if (session->backend->host && state_whole(state) && !part->scales) {
    Device *device = session_device(session, rank_of(session, part->plan));
    value->data = session->backend->host(device, ARENA_PERSISTENT, state->offset);
  }
}

static void value_of_output(const MdlTrainer *trainer, const char *name, MdlValue *value) {
  int64_t rank;
  Session *session = trainer->view.session;
  const PlanOutput *output = session_find_output(session, PROGRAM_TRAIN, name, &rank);
  *value = (MdlValue){.name = output->name, .kind = MDL_VALUE_OUTPUT};
  value_type(value, output->type);
  value_axes(value, output->axis_count, output->axis, output->size, output->stride);
  if (session->backend->host) {
    value->data = session->backend->host(session_device(session, rank), output->place.arena, output->place.offset);
  }
}

int mdl_trainer_value_count(const MdlTrainer *trainer) {
  return trainer ? trainer->states.count + trainer->output_count : 0;
}

bool mdl_trainer_value_at(MdlTrainer *trainer, int index, MdlValue *value) {
  NUMERIC_SCOPE;
  if (!value || index < 0 || index >= mdl_trainer_value_count(trainer)) {
    return false;
  }
  if (index < trainer->states.count) {
    value_of_state(trainer, &trainer->states.at[index], value);
  } else {
    value_of_output(trainer, trainer->outputs[index - trainer->states.count], value);
  }
  return true;
}

// A name of a value that begins with this one, or else has it in it; or that of the first.
static const char *name_near(const MdlTrainer *trainer, const char *name) {
  const States *states = &trainer->states;
  const char *inside = NULL;
  for (int i = 0; i < states->count; i++) {
    const char *other = states->at[i].state->name;
    if (strncmp(other, name, strlen(name)) == 0) {
      return other;
    }
    inside = !inside && strstr(other, name) ? other : inside;
  }
  return inside ? inside : states->count > 0 ? states->at[0].state->name : "loss";
}

static bool value_find(MdlTrainer *trainer, const char *name, MdlValue *value, Error *error) {
  const LogicalState *state = states_find(&trainer->states, name);
  if (state) {
    value_of_state(trainer, state, value);
  } else if (outputs_have(trainer, name)) {
    value_of_output(trainer, name, value);
  } else {
    return error_set(error, 2, "the run has no value '%s'; there are %d, such as '%s'", name,
                     mdl_trainer_value_count(trainer), name_near(trainer, name));
  }
  return true;
}

static bool value_given(const MdlTrainer *trainer, const char *name, Error *error) {
  return api_given("trainer", trainer, error) && api_given("name", name, error);
}

MdlStatus mdl_trainer_value(MdlTrainer *trainer, const char *name, MdlValue *value, MdlError *to) {
  NUMERIC_SCOPE;
  Error error = {0};
  const bool done = value_given(trainer, name, &error) && api_given("value", value, &error) &&
                    value_find(trainer, name, value, &error);
  return api_result(done, &error, to);
}

// Copies the elements of an output in the order of its axes.
static void dense_copy(const MdlValue *value, const char *from, char *to) {
  int64_t at[MDL_MAX_AXES] = {0}, count = 1;
  for (int i = 0; i < value->axis_count; i++) {
    count *= value->size[i];
  }
  for (int64_t e = 0; e < count; e++, to += value->element_bytes) {
    int64_t offset = 0;
    for (int i = 0; i < value->axis_count; i++) {
      offset += at[i] * value->stride[i];
    }
    memcpy(to, from + offset * (int64_t)value->element_bytes, value->element_bytes);
    for (int i = value->axis_count - 1; i >= 0 && ++at[i] == value->size[i]; i--) {
      at[i] = 0;
    }
  }
}

static bool output_read(MdlTrainer *trainer, const MdlValue *value, void *to, Error *error) {
  int64_t rank;
  Session *session = trainer->view.session;
  const int64_t bytes = plan_output_bytes(session_find_output(session, PROGRAM_TRAIN, value->name, &rank));
  char *held = malloc((size_t)bytes);
  if (!held) {
    return error_set(error, 3, "no memory for a copy of '%s', %lld bytes", value->name, (long long)bytes);
  }
  const bool done = step_outputs_read(trainer->view.outputs, session, value->name, held, error);
  if (done) {
    dense_copy(value, held, to);
  }
  free(held);
  return done;
}

static bool value_read(MdlTrainer *trainer, const char *name, void *to, size_t bytes, Error *error) {
  MdlValue value;
  if (!value_given(trainer, name, error) || !api_given("to", to, error) || !value_find(trainer, name, &value, error)) {
    return false;
  }
  size_t size = value.element_bytes;
  for (int i = 0; i < value.axis_count; i++) {
    size *= (size_t)value.size[i];
  }
  if (size != bytes) {
    return error_set(error, 2, "'%s' has %zu bytes, and there is room for %zu: give exactly what it has", name, size,
                     bytes);
  }
  if (value.kind == MDL_VALUE_OUTPUT && !trainer->stepped) {
    return error_set(error, 2, "'%s' is an output of a step, and this trainer has made none yet", name);
  }
  return value.kind == MDL_VALUE_OUTPUT
             ? output_read(trainer, &value, to, error)
             : state_gather(trainer->view.session, &trainer->states, states_find(&trainer->states, name), to, error);
}

MdlStatus mdl_trainer_read(MdlTrainer *trainer, const char *name, void *to, size_t bytes, MdlError *error) {
  NUMERIC_SCOPE;
  Error found = {0};
  return api_result(value_read(trainer, name, to, bytes, &found), &found, error);
}
