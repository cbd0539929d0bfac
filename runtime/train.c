// train.c: the loop, and what happens around a step: metrics, evaluation, checkpoints, interruption, divergence.
#include "runtime/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/units.h"
#include "runtime/chart.h"
#include "runtime/checkpoint.h"
#include "runtime/clock.h"
#include "runtime/evaluate.h"
#include "runtime/events.h"
#include "runtime/generate.h"
#include "runtime/interrupt.h"
#include "runtime/progress.h"
#include "runtime/run.h"
#include "runtime/trace.h"

enum { BAD_STEPS_MAX = 10, PROFILE_AFTER = 2, PROFILE_ROWS = 24 };
static const double LIVE_SECONDS = 0.1;  // between two updates of the live line

enum { RESOLVED_MOST = 1 << 24 };  // bytes of a text
enum { LOADS_MAX = 1024 };         // layers of experts

typedef struct {
  const PlanSet *set;
  const Plan *plan;  // of the first stage
  const TrainOptions *options;
  int64_t steps, save_every, eval_every, log_every;
  Session session;
  Data *data;
  Feed *train_feed;
  Validation validation;
  Run run;
  char *tuning;  // what the devices of the resumed run had chosen, or NULL
  char *before;  // the text, with all that was decided, of the run that is resumed, or NULL
  Log log;
  Metrics metrics;
  Events events;
  ProgressFacts facts;
  MetricsLine line;                                 // of the newest step that is done
  int64_t batch;                                    // that this step was trained on
  int64_t submitted;                                // step; those after line.step are under way
  double done_at;                                   // when that step was done, or the first of a stretch was begun
  int64_t saved;                                    // step of the newest checkpoint; -1: none
  int64_t skipped;                                  // steps whose update was not made
  int bad_steps;                                    // in a row
  double interval_seconds, total_seconds, live_at;  // of steps alone
  int64_t interval_steps;
  int64_t trace_from, traced;  // the first step that is traced, and how many were
  DeviceFacts device;
} Trainer;

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
  if (feed_shape(t->set, PROGRAM_TRAIN, &rows, &sequence)) {
    data.sequence = sequence;
  }
  if (!data_open(&data, &t->data, error) || !feed_create(t->set, PROGRAM_TRAIN, t->data, &t->train_feed, error)) {
    return false;
  }
  if (t->plan->programs[PROGRAM_EVALUATE].call_count > 0 && !validation_open(&t->validation, t->set, t->data, error)) {
    return false;
  }
  if (t->options->resume && !run_read_tuning(t->options->out, model_name(t), &t->tuning, error)) {
    return false;
  }
  const SessionOptions session = {
      .threads = t->options->threads, .deadline_seconds = t->options->deadline_seconds, .record = t->tuning};
  return session_open_ranks(&t->session, t->set, backend, &session, error);
}

static uint64_t program_hash(const Plan *plan) {
  return plan->resolved ? XXH3_64bits(plan->resolved, strlen(plan->resolved)) : 0;
}

// What the recipe of a resolved text chooses, and its length.
static const char *chosen_precision(const char *resolved, int *length) {
  static const char entry[] = "\n  precision ";
  const char *found = resolved ? strstr(resolved, entry) : NULL;
  *length = found ? (int)strcspn(found + strlen(entry), ";") : 0;
  return found ? found + strlen(entry) : "";
}

static void resume_warn_precision(Trainer *t) {
  int was, is;
  const char *before = chosen_precision(t->before, &was), *now = chosen_precision(t->plan->resolved, &is);
  if (was > 0 && is > 0 && (was != is || strncmp(before, now, (size_t)was) != 0)) {
    log_line(
        &t->log,
        LOG_YELLOW
        "note      the precision was `%.*s`, from here on it is `%.*s`; `mdl train %s --resume` keeps what the run "
        "has" LOG_PLAIN,
        was, before, is, now, t->run.path);
  }
}

// What differs from the run that is resumed but does not prevent it.
static void resume_warn(Trainer *t, const CheckpointFacts *facts) {
  DataFacts data = data_facts(t->data);
  resume_warn_precision(t);
  if (facts->program_hash != program_hash(t->plan)) {
    log_line(&t->log,
             LOG_YELLOW "note      the text is not the one this run began with; it goes on with the new one" LOG_PLAIN);
  }
  if (facts->seed != t->plan->run.seed) {
    log_line(&t->log,
             LOG_YELLOW "note      the seed is not the one this run began with: the order of data changes" LOG_PLAIN);
  }
  if (facts->data_bytes != data.bytes) {
    log_line(&t->log,
             LOG_YELLOW
             "note      %s had %lld bytes when this run was saved, now %lld: the order of data changes" LOG_PLAIN,
             data.path, (long long)facts->data_bytes, (long long)data.bytes);
  }
}

// Parameters and all other state: from the newest checkpoint or fresh.
static bool trainer_state(Trainer *t, CheckpointFacts *facts, Error *error) {
  *facts = (CheckpointFacts){0};
  if (t->options->resume && t->run.checkpoint[0]) {
    if (!checkpoint_load(&t->session, t->run.checkpoint, true, facts, error)) {
      return false;
    }
    t->saved = facts->step;
    return true;
  }
  return session_run(&t->session, PROGRAM_INITIALISE, 0, error);
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
  if (t->options->resume && run_file(&t->run, "resolved.mdl", path, &unread)) {
    io_read_file(path, RESOLVED_MOST, &t->before, &size, &unread);
  }
}

static bool loads_open(Trainer *t, Error *error) {
  const char *names[LOADS_MAX];
  const int count = session_loads(&t->session, names, LOADS_MAX);
  t->line.loads = count > 0 ? calloc((size_t)count, sizeof *t->line.loads) : NULL;
  t->line.load_count = t->line.loads ? count : 0;
  for (int i = 0; i < t->line.load_count; i++) {
    t->line.loads[i] = (MetricsShown){names[i], NAN};
  }
  return count == t->line.load_count || error_set(error, 3, "no memory for the loads of %d layers", count);
}

static bool trainer_begin(Trainer *t, Error *error) {
  char path[IO_PATH_MAX];
  CheckpointFacts facts;
  const TrainOptions *options = t->options;
  if (!(options->resume ? run_resume : run_create)(&t->run, options->out, model_name(t), error) ||
      !trainer_state(t, &facts, error) || !run_file(&t->run, "log.txt", path, error) ||
      !log_open(&t->log, path, error)) {
    return false;
  }
  read_before(t);
  const bool mix = t->plan->run.data_kind && strcmp(t->plan->run.data_kind, "mix") == 0;
  const DataFacts read = data_facts(t->data);
  const char *data = mix && !(options->data && !read.described) ? read.described : read.path;
  if (!run_write_plan(&t->run, t->set, data, error) || !trainer_tuning(t, error) ||
      !run_file(&t->run, "metrics.jsonl", path, error) || !metrics_open(&t->metrics, path, facts.step, error) ||
      !events_open(&t->events, t->run.path, options->resume ? facts.step + 1 : 0, error)) {
    return false;
  }
  t->line.step = facts.step;
  t->batch = facts.batch;
  t->trace_from = facts.step + 1 + (t->steps - facts.step > options->profile + PROFILE_AFTER ? PROFILE_AFTER : 0);
  t->line.loss = t->line.val_loss = NAN;
  t->line.tokens = facts.tokens;
  const char *names[METRICS_SHOWN];
  t->line.shown_count = session_shown(&t->session, names, METRICS_SHOWN);
  for (int i = 0; i < t->line.shown_count; i++) {
    t->line.shown[i] = (MetricsShown){names[i], NAN};
  }
  if (!loads_open(t, error)) {
    return false;
  }
  t->skipped = facts.skipped;
  t->session.backend->facts(t->session.device, &t->device);
  t->facts = (ProgressFacts){.plan = t->plan,
                             .set = t->set,
                             .data = t->data,
                             .masks = feed_masks(t->train_feed),
                             .run = t->run.path,
                             .device = t->device.name,
                             .attention = t->device.attention,
                             .memory = session_memory(&t->session),
                             .first = facts.step,
                             .steps = t->steps,
                             .compile_seconds = options->compile_seconds};
  progress_header(&t->log, &t->facts);
  if (facts.step > 0) {
    resume_warn(t, &facts);
  } else if (options->resume) {
    log_line(&t->log, "          there is no checkpoint yet: training begins with step 1");
  }
  return true;
}

static bool trainer_chart(Trainer *t, Error *error) {
  const PlanRun *run = &t->plan->run;
  char path[IO_PATH_MAX], title[256], subtitle[256], count[32];
  snprintf(title, sizeof title, "%s", run->model ? run->model : "model");
  snprintf(subtitle, sizeof subtitle, "recipe %s, %s parameters", run->recipe ? run->recipe : "?",
           units_count(count, run->parameters));
  return run_file(&t->run, "loss.svg", path, error) && chart_write(path, title, subtitle, &t->metrics, error);
}

static bool trainer_save(Trainer *t, Error *error) {
  if (t->saved == t->line.step) {
    return true;
  }
  CheckpointFacts facts = {.step = t->line.step,
                           .batch = t->batch,
                           .tokens = t->line.tokens,
                           .skipped = t->skipped,
                           .data_bytes = data_facts(t->data).bytes,
                           .metrics_bytes = t->metrics.bytes,
                           .seed = t->plan->run.seed,
                           .program_hash = program_hash(t->plan),
                           .state_hash = t->plan->state_hash};
  double start = clock_seconds();
  if (!metrics_sync(&t->metrics, error) ||
      !checkpoint_save(t->options->io, &t->session, t->run.checkpoints, &facts, (int)t->options->keep, error) ||
      !trainer_chart(t, error)) {
    return false;
  }
  t->saved = t->line.step;
  char time[32];
  log_line(&t->log, LOG_BLUE "saved" LOG_PLAIN " %s/step-%08lld  " LOG_FAINT "(%s)" LOG_PLAIN, t->run.checkpoints,
           (long long)t->line.step, units_duration(time, clock_seconds() - start));
  return true;
}

static bool trainer_evaluate(Trainer *t, Error *error) {
  Evaluation all;
  Validation *of = &t->validation;
  // A batch of an evaluation is one microbatch: the same windows under every layout.
  const int64_t batches = t->plan->run.eval_batches * t->plan->programs[PROGRAM_TRAIN].slots;
  session_trace(&t->session, false);  // the next step says whether it is traced
  if (!validation_run(of, &t->session, batches, &all, error)) {
    return false;
  }
  if (!interrupt_requested()) {
    t->line.val_loss = all.loss;
    progress_validation(&t->log, of, t->line.step, &all);
    for (int i = 0; i < of->count; i++) {
      t->line.val_losses[i] = (MetricsShown){of->name[i], of->result[i].loss};
    }
    t->line.val_count = of->count == 1 && !*of->name[0] ? 0 : of->count;
  }
  return true;
}

static bool trainer_events(Trainer *t, Error *error) {
  const struct {
    const char *tag;
    double value;
  } scalars[] = {{"loss", t->line.loss},
                 {"grad_norm", t->line.grad_norm},
                 {"lr", t->line.lr},
                 {"tokens_per_s", t->line.tokens_per_s},
                 {"val_loss", t->line.val_loss}};
  for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
    if (isfinite(scalars[i].value) &&
        !events_scalar(&t->events, t->line.step, scalars[i].tag, scalars[i].value, error)) {
      return false;
    }
  }
  for (int i = 0; i < t->line.shown_count; i++) {
    const MetricsShown *shown = &t->line.shown[i];
    if (isfinite(shown->value) && !events_scalar(&t->events, t->line.step, shown->name, shown->value, error)) {
      return false;
    }
  }
  for (int i = 0; i < t->line.val_count; i++) {
    char tag[128];
    const MetricsShown *set = &t->line.val_losses[i];
    snprintf(tag, sizeof tag, "val_loss.%.100s", set->name);
    if (isfinite(set->value) && !events_scalar(&t->events, t->line.step, tag, set->value, error)) {
      return false;
    }
  }
  for (int i = 0; i < t->line.load_count; i++) {
    const MetricsShown *load = &t->line.loads[i];
    if (isfinite(load->value) && !events_scalar(&t->events, t->line.step, load->name, load->value, error)) {
      return false;
    }
  }
  return true;
}

// Speeds over the steps since the last line of metrics.
static void trainer_speed(Trainer *t) {
  double seconds = t->interval_steps > 0 ? t->interval_seconds / (double)t->interval_steps : 0;
  double tokens = (double)(feed_rows(t->train_feed) * feed_sequence(t->train_feed));
  t->line.step_ms = seconds * 1e3;
  t->line.tokens_per_s = seconds > 0 ? tokens / seconds : NAN;
  double flops = 0;
  for (int64_t rank = 0; rank < t->session.ranks; rank++) {
    flops += session_plan(&t->session, rank)->programs[PROGRAM_TRAIN].flops;
  }
  t->line.tflops = seconds > 0 ? flops / seconds / 1e12 : NAN;
  DeviceFacts device;
  const int64_t taken = session_memory(&t->session).taken;
  t->session.backend->facts(t->session.device, &device);
  t->line.mfu = t->line.tflops * 1e12 / (device.peak_flops * (double)t->session.ranks);
  t->line.memory_bytes = taken >= 0 ? taken : clock_memory();
  t->line.skipped = t->skipped;
}

// After this step the trainer looks at the state: no step may be begun before it has.
static bool step_evaluates(const Trainer *t, int64_t step) {
  return t->validation.count > 0 && (step == t->steps || (t->eval_every > 0 && step % t->eval_every == 0));
}

static bool step_saves(const Trainer *t, int64_t step) {
  return step == t->steps || (t->save_every > 0 && step % t->save_every == 0);
}

// Of steps that have a line alone: each is read from the device by itself.
static bool loads_read(Trainer *t, Error *error) {
  for (int i = 0; i < t->line.load_count; i++) {
    if (!session_scalar(&t->session, PROGRAM_TRAIN, t->line.loads[i].name, &t->line.loads[i].value, error)) {
      return false;
    }
  }
  return true;
}

static bool trainer_report(Trainer *t, Error *error) {
  int64_t step = t->line.step;
  bool last = step == t->steps;
  bool evaluates = step_evaluates(t, step);
  bool logs = step == 1 || last || step % t->log_every == 0;
  t->line.val_loss = NAN;
  t->line.val_count = 0;
  if ((logs || evaluates) && !loads_read(t, error)) {
    return false;
  }
  double now = clock_seconds();
  if (logs || evaluates || now - t->live_at > LIVE_SECONDS) {
    trainer_speed(t);
  }
  if (logs) {
    progress_step(&t->log, &t->facts, &t->line, false);
  }
  if (t->log.terminal && (logs || now - t->live_at > LIVE_SECONDS)) {
    progress_step(&t->log, &t->facts, &t->line, true);
    t->live_at = now;
  }
  if (evaluates && !trainer_evaluate(t, error)) {
    return false;
  }
  if (logs || isfinite(t->line.val_loss)) {
    if (!metrics_write(&t->metrics, &t->line, error) || !trainer_events(t, error)) {
      return false;
    }
    t->interval_seconds = 0;
    t->interval_steps = 0;
  }
  return !isfinite(t->line.val_loss) || trainer_chart(t, error);
}

static bool trainer_diverged(const Trainer *t, bool skipped, Error *error) {
  if (t->bad_steps < BAD_STEPS_MAX) {
    return false;
  }
  char from[64] = "there is no checkpoint";
  if (t->saved > 0) {
    snprintf(from, sizeof from, "the newest checkpoint is of step %lld", (long long)t->saved);
  }
  error_set(error, 4, "training diverged: %s in %d steps in a row, up to step %lld; %s; try a lower learning rate",
            skipped ? "the gradient was not finite and the update was skipped" : "the loss was not a finite number",
            BAD_STEPS_MAX, (long long)t->line.step, from);
  return true;
}

static bool step_traces(const Trainer *t, int64_t step) {
  return step >= t->trace_from && step < t->trace_from + t->options->profile;
}

// May the next step be submitted while the newest is under way? One that is timed instruction by instruction takes long
// to submit, and is alone.
static bool trainer_runs_ahead(const Trainer *t) {
  const int64_t newest = t->submitted;
  return !step_evaluates(t, newest) && !step_saves(t, newest) && !step_traces(t, newest) && !step_traces(t, newest + 1);
}

// Submits steps as far ahead as the device allows; at least one.
static bool trainer_submit(Trainer *t, Error *error) {
  Session *session = &t->session;
  if (t->submitted == t->line.step) {
    t->done_at = clock_seconds();
  }
  do {
    const int64_t step = t->submitted + 1;
    const bool traces = step_traces(t, step);
    session_trace(session, traces);
    t->traced += traces;
    const int64_t batch = plan_batch_after(&t->plan->run, t->batch, step - t->line.step);
    if (!feed_train(t->train_feed, session, batch, error) || !session_submit(session, PROGRAM_TRAIN, step, error)) {
      return false;
    }
    t->submitted = step;
  } while (t->submitted < t->steps && t->submitted - t->line.step <= session_ahead(session) && trainer_runs_ahead(t) &&
           !interrupt_requested());
  return true;
}

// The oldest step that is under way: waits for it and reads what it says.
static bool trainer_collect(Trainer *t, Error *error) {
  double skipped;
  Session *session = &t->session;
  const int64_t step = t->line.step + 1;
  if (!session_wait(session, (int)(t->submitted - step), error) ||
      !session_scalar(session, PROGRAM_TRAIN, "loss", &t->line.loss, error) ||
      !session_scalar(session, PROGRAM_TRAIN, "grad_norm", &t->line.grad_norm, error) ||
      !session_scalar(session, PROGRAM_TRAIN, "lr", &t->line.lr, error) ||
      !session_scalar(session, PROGRAM_TRAIN, "skipped", &skipped, error)) {
    return false;
  }
  for (int i = 0; i < t->line.shown_count; i++) {
    if (!session_scalar(session, PROGRAM_TRAIN, t->line.shown[i].name, &t->line.shown[i].value, error)) {
      return false;
    }
  }
  const double now = clock_seconds(), seconds = now - t->done_at;
  const bool skips = skipped > 0;
  t->done_at = now;
  t->line.step = step;
  const PlanPhase *phase = plan_phase(t->plan, step);
  t->line.precision = phase ? phase->precision : NULL;
  progress_precision(&t->log, &t->facts, step);
  const int64_t batch = plan_batch_after(&t->plan->run, t->batch, 1);
  progress_skip(&t->log, step, t->batch, batch);
  t->batch = batch;
  t->line.tokens += feed_rows(t->train_feed) * feed_sequence(t->train_feed);
  t->skipped += skips;
  t->bad_steps = skips || !isfinite(t->line.loss) ? t->bad_steps + 1 : 0;
  t->interval_seconds += seconds;
  t->interval_steps++;
  t->total_seconds += seconds;
  return trainer_report(t, error) && !trainer_diverged(t, skips, error);
}

static bool trainer_loop(Trainer *t, Error *error) {
  t->submitted = t->line.step;
  while (t->line.step < t->submitted || (t->line.step < t->steps && !interrupt_requested())) {
    const bool more =
        t->submitted < t->steps && !interrupt_requested() && (t->submitted == t->line.step || trainer_runs_ahead(t));
    if ((more && !trainer_submit(t, error)) || !trainer_collect(t, error)) {
      return false;
    }
    if (step_saves(t, t->line.step) && !trainer_save(t, error)) {
      return false;
    }
  }
  return true;
}

// The trace and the whole table into files, the beginning of the table on the screen.
static bool trainer_profile(Trainer *t, Error *error) {
  char json[IO_PATH_MAX], table[IO_PATH_MAX];
  Buffer text = {0};
  trace_json(&t->session, &text);
  bool done = run_file(&t->run, "profile.json", json, error) && run_file(&t->run, "profile.txt", table, error) &&
              io_replace_file(t->options->io, json, text.text, text.length, error);
  buffer_free(&text);
  trace_table(&t->session, t->traced, 0, &text);
  done = done && io_replace_file(t->options->io, table, text.text, text.length, error);
  buffer_free(&text);
  trace_table(&t->session, t->traced, PROFILE_ROWS, &text);
  if (done) {
    log_line(&t->log, "%s", text.text);
    log_line(&t->log, "          the whole table: %s; the trace, for Perfetto: %s", table, json);
  }
  buffer_free(&text);
  return done;
}

// A command that could come next, about this run.
static void trainer_next(Trainer *t, const char *before, const char *after) {
  Buffer path = {0};
  buffer_shell(&path, t->run.path);
  if (!path.failed) {
    log_line(&t->log, "%s%s%s", before, path.text, after);
  }
  buffer_free(&path);
}

static bool trainer_end(Trainer *t, TrainResult *result, Error *error) {
  result->interrupted = interrupt_requested() && t->line.step < t->steps;
  if (result->interrupted && t->line.step > 0) {
    log_line(&t->log, LOG_YELLOW "interrupted after step %lld: saving" LOG_PLAIN, (long long)t->line.step);
    if (!trainer_save(t, error)) {
      return false;
    }
    trainer_next(t, "          to go on: mdl train ", " --resume");
  }
  if (t->facts.first >= t->steps) {
    log_line(&t->log, "          step %lld of %lld is done already; --steps N goes further", (long long)t->facts.first,
             (long long)t->steps);
  } else {
    const SessionMemory memory = session_memory(&t->session);
    t->line.memory_bytes = memory.taken >= 0 ? memory.taken : clock_memory_peak();
    progress_end(&t->log, &t->facts, &t->line, t->total_seconds, memory.beside);
    if (generate_possible(t->session.set) && t->saved > 0 && !result->interrupted) {
      trainer_next(t, LOG_FAINT "try" LOG_PLAIN "       mdl generate ", " --prompt TEXT");
    }
  }
  if (t->traced > 0 && !trainer_profile(t, error)) {
    return false;
  }
  snprintf(result->path, sizeof result->path, "%s", t->run.path);
  result->step = t->line.step;
  result->loss = t->line.loss;
  result->val_loss = t->line.val_loss;
  return true;
}

static void trainer_close(Trainer *t) {
  events_close(&t->events);
  metrics_close(&t->metrics);
  free(t->line.loads);
  log_close(&t->log);
  run_close(&t->run);
  session_close(&t->session);
  feed_destroy(t->train_feed);
  validation_close(&t->validation);
  data_close(t->data);
  free(t->tuning);
  free(t->before);
  free(t);
}

bool train_run(const PlanSet *set, const Backend *backend, const TrainOptions *options, TrainResult *result,
               Error *error) {
  Trainer *t = calloc(1, sizeof *t);
  Interrupt interrupt;
  if (!t) {
    return error_set(error, 3, "no memory");
  }
  const PlanRun *run = &set->plans[0]->run;
  *t = (Trainer){.set = set,
                 .plan = set->plans[0],
                 .options = options,
                 .steps = choose(options->steps, run->steps),
                 .save_every = choose(options->save_every, run->save_every),
                 .eval_every = choose(options->eval_every, run->eval_every),
                 .log_every = choose(options->log_every, run->log_every),
                 .saved = -1};
  t->log_every = t->log_every > 0 ? t->log_every : 10;
  t->run.lock = t->metrics.fd = t->events.fd = -1;
  *result = (TrainResult){.loss = NAN, .val_loss = NAN};
  log_start(&t->log, options->screen);
  bool done = trainer_open(t, backend, error) && trainer_begin(t, error);
  if (done) {
    interrupt_install(&interrupt);
    done = trainer_loop(t, error) && trainer_end(t, result, error);
    if (!done) {
      log_note(&t->log, error->text);
    }
    interrupt_restore(&interrupt);
  }
  trainer_close(t);
  return done;
}
