// train_begin.c: a run is opened, with what it reads and writes, and closed.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lang/placed.h"
#include "runtime/safetensors.h"
#include "runtime/train.h"
#include "runtime/trainer.h"

enum { PROFILE_AFTER = 2, RESOLVED_MOST = 1 << 24 };  // steps; bytes of a text

static int64_t choose(int64_t option, int64_t plan) {
  return option >= 0 ? option : plan;
}

static const char *model_name(const Trainer *t) {
  return t->plan->run.model ? t->plan->run.model : "model";
}

static bool trainer_open(Trainer *t, const Backend *backend, Error *error) {
  const PlanRun *run = &t->plan->run;
  if (t->plan->programs[PROGRAM_TRAIN].call_count == 0 || t->plan->programs[PROGRAM_INITIALISE].call_count == 0) {
    return error_set(error, 1, "the plan has no %s program; compile the text with a recipe that has an optimizer",
                     program_kind_name(PROGRAM_TRAIN));
  }
  bool losses = false;
  for (int s = 0; s < t->set->count; s++) {
    losses |= session_output(t->set->plans[s], PROGRAM_TRAIN, "loss") != NULL;
  }
  if (!losses) {
    return error_set(error, 1, "the train program has no output 'loss'");
  }
  DataOptions data = {.kind = run->data_kind,
                      .path = run->data_path,
                      .file = t->options->data,
                      .base = run->data_base,
                      .tokenizer = run->tokenizer,
                      .validation_fraction = run->validation_fraction,
                      .sequence = run->sequence,
                      .seed = run->seed};
  int64_t rows, sequence;
  if (!feed_shape(t->set, PROGRAM_TRAIN, &rows, &sequence)) {
    return feed_misses(error);
  }
  data.sequence = sequence;
  if (!data_open(&data, &t->data, error) || !data_fingerprint(t->data, &t->print, error) ||
      !feed_create(t->set, PROGRAM_TRAIN, t->data, &t->train_feed, error)) {
    return false;
  }
  const bool evaluable = t->plan->programs[PROGRAM_EVALUATE].call_count > 0;
  if (evaluable && !validation_open(&t->validation, t->set, t->data, error)) {
    return false;
  }
  if (t->validation.count > 0 &&
      (!trained_windows(t->data, &t->print, run->validation_fraction, trainer_batches(t),
                        feed_rows(t->validation.feed[0]), sequence, &t->validated_with, error) ||
       !trained_losses(t->set, &t->validated_with, error))) {
    return false;
  }
  if (!trainer_evaluations(t, evaluable, error)) {
    return false;
  }
  if ((t->options->resume || t->options->restart) &&
      !run_read_tuning(t->options->out, model_name(t), &t->tuning, error)) {
    return false;
  }
  const SessionOptions session = {
      .threads = t->options->threads, .deadline_seconds = t->options->deadline_seconds, .record = t->tuning};
  return session_open_ranks(&t->session, t->set, backend, &session, error);
}

// Keeps what the devices have chosen with the run. Another machine chooses anew.
static bool trainer_tuning(Trainer *t, Error *error) {
  Buffer text = {0};
  session_record(&t->session, &text);
  bool done = !text.failed || error_set(error, 3, "no memory for the tuning record");
  if (done && text.length > 0) {
    const size_t machine = strcspn(text.text, "\n");
    if (t->tuning && strncmp(t->tuning, text.text, machine + 1) != 0) {
      log_line(&t->log,
               LOG_YELLOW
               "note      the run began with %.*s; it goes on with %.*s, where products are timed anew: not the "
               "same to the bit" LOG_PLAIN,
               (int)strcspn(t->tuning, "\n"), t->tuning, (int)machine, text.text);
    }
    done = run_write_tuning(&t->run, text.text, error);
  }
  buffer_free(&text);
  return done;
}

// What the run was, for those who compare: nothing if it cannot be read.
static void read_before(Trainer *t) {
  char path[IO_PATH_MAX];
  size_t size;
  Error unread = {0};
  if ((t->options->resume || t->options->restart) && run_file(&t->run, "resolved.mdl", path, &unread)) {
    io_read_file(path, RESOLVED_MOST, &t->before, &size, &unread);
  }
}

// What lines of metrics show beside numbers that every run has.
static bool trainer_shown(Trainer *t, Error *error) {
  const bool named = t->validation.count > 1 || (t->validation.count == 1 && *t->validation.name[0]);
  return shown_open(&t->line.shown, &t->session, PROGRAM_TRAIN, "", error) &&
         shown_open_measures(&t->line.measures, &t->session, error) &&
         (t->validation.count == 0 || shown_open(&t->line.validated, &t->session, PROGRAM_EVALUATE, "val_", error)) &&
         shown_open_names(&t->line.sets, t->validation.name, named ? t->validation.count : 0, "val_loss.", error);
}

// Names that a .safetensors file keeps for itself.
static bool states_hold(const Trainer *t, Error *error) {
  for (int s = 0; s < t->set->count; s++) {
    const Plan *plan = t->set->plans[s];
    for (int i = 0; i < plan->state_count; i++) {
      if (!safetensors_name_holds(plan->states[i].name)) {
        return error_set(error, 1, "no checkpoint can hold a parameter or state of the name '%.80s'; rename it",
                         plan->states[i].name);
      }
    }
  }
  return true;
}

// What the compiler said of the text, on the screen, goes to the file as well.
static void log_diagnostics(Trainer *t) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = t->options->diag ? open_memstream(&text, &size) : NULL;
  if (out) {
    diag_print(t->options->diag, out, false);
    const bool done = fclose(out) == 0;
    for (char *at = text; done && at && *at;) {
      char *end = at + strcspn(at, "\n");
      const bool more = *end != '\0';
      *end = '\0';
      log_note(&t->log, at);
      at = end + more;
    }
    free(text);
  }
}

// Of a run that goes on the plan and the text stay those of its checkpoint until a step is saved.
static bool begin_plan(Trainer *t, Error *error) {
  t->text = run_text_hash(t->plan_due.text);
  const bool stays = t->began >= 0 && run_has_plan(&t->run);
  return stays ? run_replaces_plan(&t->run, error) : trainer_write_plan(t, error);
}

static bool make_plan(Trainer *t, const char *weights, Error *error) {
  const bool mix = t->plan->run.data_kind && strcmp(t->plan->run.data_kind, "mix") == 0;
  const DataFacts read = data_facts(t->data);
  const char *data = mix && !(t->options->data && !read.described) ? read.described : read.path;
  const RunFiles files = {data, t->options->data, weights};
  return run_plan(t->arena, &t->run, t->set, &files, &t->plan_due, error);
}

// A run that is ended while it reads the weights that it begins with says which they are.
static bool name_weights(Trainer *t, Error *error) {
  const struct SourceOptions *from = t->options->from;
  return !from || (make_plan(t, run_weights(t->arena, from, t->options->save_trained, 0), error) &&
                   run_write_plan(&t->run, &t->plan_due, error));
}

static bool trainer_begin_with(Trainer *t, CheckpointFacts *facts, Buffer *notes, Error *error) {
  char path[IO_PATH_MAX];
  const TrainOptions *options = t->options;
  t->arena = arena_create();
  if (!t->arena) {
    return error_set(error, 3, "no memory");
  }
  const char *resolved = t->plan->resolved;
  t->resolved = resolved ? resolved_placed(t->arena, resolved, t->plan->run.data_base) : NULL;
  const bool fresh = !options->resume && !options->restart;
  if (!(fresh ? run_create : run_resume)(&t->run, options->out, model_name(t), error)) {
    return false;
  }
  read_before(t);
  if (!states_hold(t, error) || (fresh && !name_weights(t, error)) || !trainer_state(t, facts, notes, error) ||
      (options->restart && !run_set_aside(&t->run, error)) || !run_file(&t->run, "log.txt", path, error) ||
      !log_open(&t->log, path, error)) {
    if (fresh) {
      run_abandon(&t->run);
    }
    return false;
  }
  log_diagnostics(t);
  const char *weights = options->from ? run_weights(t->arena, options->from, options->save_trained, t->weights_print)
                        : options->restart ? NULL
                                           : run_weights_before(t->arena, t->before);
  // The plan comes after the metrics: it flushes the directory, so that a checkpoint never has lines that are lost.
  if (!run_file(&t->run, "metrics.jsonl", path, error) || !metrics_open(&t->metrics, path, facts->step, error) ||
      !make_plan(t, weights, error) || !begin_plan(t, error) || !trainer_tuning(t, error) ||
      !events_open(&t->events, t->run.path, options->resume && !options->restart ? facts->step + 1 : 0, error)) {
    return false;
  }
  t->metrics.echo = options->lines;
  t->line.step = facts->step;
  t->batch = facts->batch;
  t->trace_from = facts->step + 1 + (t->steps - facts->step > options->profile + PROFILE_AFTER ? PROFILE_AFTER : 0);
  t->line.loss = t->line.val_loss = NAN;
  t->line.tokens = facts->tokens;
  if (!trainer_shown(t, error)) {
    return false;
  }
  t->skipped = facts->skipped;
  t->bad_steps = (int)(facts->bad_steps < INT_MAX ? facts->bad_steps : INT_MAX - 1);
  t->lived = facts->step > facts->bad_steps;
  t->session.backend->facts(t->session.device, &t->device);
  t->facts = (ProgressFacts){.plan = t->plan,
                             .set = t->set,
                             .data = t->data,
                             .masks = feed_masks(t->train_feed),
                             .run = t->run.path,
                             .device = t->device.name,
                             .processes = t->session.processes != NULL,
                             .attention = t->device.attention,
                             .memory = session_memory(&t->session),
                             .first = facts->step,
                             .steps = t->steps,
                             .compile_seconds = options->compile_seconds};
  progress_header(&t->log, &t->facts);
  resume_say(t, facts, notes);
  return trainer_doubts(t, error);
}

static bool trainer_begin(Trainer *t, Error *error) {
  CheckpointFacts facts = {0};
  Buffer notes = {0};
  const bool done = trainer_begin_with(t, &facts, &notes, error);
  buffer_free(&notes);
  return done;
}

void train_leave(Trainer *t) {
  Error failed = {0};
  if (!trainer_settle(t, true, &failed)) {
    log_note(&t->log, failed.text);
  }
  events_close(&t->events);
  metrics_close(&t->metrics);
  log_close(&t->log);
  run_close(&t->run);
}

void train_close(Trainer *t) {
  if (!t) {
    return;
  }
  train_leave(t);
  shown_close(&t->line.shown);
  shown_close(&t->line.measures);
  shown_close(&t->line.validated);
  shown_close(&t->line.sets);
  snapshot_destroy(t->snapshot);
  session_close(&t->session);
  step_outputs_close(&t->outputs);
  feed_destroy(t->train_feed);
  blame_close(t->blame);
  check_close(t->check);
  validation_close(&t->validation);
  data_close(t->data);
  free(t->tuning);
  free(t->before);
  buffer_free(&t->left_out);
  arena_destroy(t->arena);
  free(t);
}

bool train_open(const PlanSet *set, const Backend *backend, const TrainOptions *options, Trainer **trainer,
                Error *error) {
  *trainer = NULL;
  if (options->resume && options->restart) {
    return error_set(error, 2, "--resume goes on with a run, and --restart begins it anew; leave one of them out");
  }
  Trainer *t = calloc(1, sizeof *t);
  if (!t) {
    return error_set(error, 3, "no memory");
  }
  const PlanRun *run = &set->plans[0]->run;
  *t = (Trainer){.set = set,
                 .plan = set->plans[0],
                 .given = *options,
                 .options = &t->given,
                 .steps = choose(options->steps, run->steps),
                 .save_every = choose(options->save_every, run->save_every),
                 .eval_every = choose(options->eval_every, run->eval_every),
                 .log_every = choose(options->log_every, run->log_every),
                 .saved = -1,
                 .good = -1,
                 .began = -1,
                 .best = INFINITY};
  t->run.lock = t->metrics.fd = t->events.fd = -1;
  log_start(&t->log, options->screen);
  if (!trainer_open(t, backend, error) || !trainer_watch(t, backend, error) || !trainer_begin(t, error)) {
    train_close(t);
    return false;
  }
  t->submitted = t->line.step;
  const bool looked_at = t->options->watched && t->validation.count > 0;
  if ((looked_at && !step_outputs_open(&t->outputs, &t->session, error)) || !trainer_reserve(t, error)) {
    train_close(t);
    return false;
  }
  trainer_patience(t);
  *trainer = t;
  return true;
}
