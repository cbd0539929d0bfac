// train.c: the loop, and what happens around a step: metrics, evaluation, checkpoints, interruption, divergence.
#include "runtime/train.h"

#include <math.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/generate.h"
#include "runtime/interrupt.h"
#include "runtime/patience.h"
#include "runtime/trace.h"
#include "runtime/trainer.h"

enum { BAD_STEPS_MAX = 10, PROFILE_ROWS = 24 };
static const double LIVE_SECONDS = 0.1;  // between two updates of the live line

enum { RESOLVED_MOST = 1 << 24 };  // bytes of a text

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

static bool step_saves(const Trainer *t, int64_t step) {
  return step == t->steps || (t->save_every > 0 && step % t->save_every == 0);
}

// Is there a step to begin?
static bool trainer_wants(const Trainer *t) {
  return t->submitted < t->steps && !t->stops && !interrupt_requested();
}

static bool trainer_report(Trainer *t, Error *error) {
  int64_t step = t->line.step;
  bool last = step == t->steps;
  bool evaluates = trainer_evaluates(t, step);
  bool logs = step == 1 || last || (t->log_every > 0 && step % t->log_every == 0);
  t->line.val_loss = NAN;
  // Of steps that have a line alone: each is read from the device by itself.
  if ((logs || evaluates) && !shown_read(&t->line.measures, &t->session, PROGRAM_TRAIN, error)) {
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
  const bool line = logs || !isnan(t->line.val_loss);
  if (!trainer_record(t, line, error)) {
    return false;
  }
  t->interval_seconds = line ? 0 : t->interval_seconds;
  t->interval_steps = line ? 0 : t->interval_steps;
  if (!isnan(t->line.val_loss)) {
    trainer_patience(t);
  }
  return true;
}

// False, and why. `where`: in which steps.
static bool say_diverged(Trainer *t, bool skipped, const char *where, Error *error) {
  char from[64] = "there is no checkpoint";
  if (t->saved > 0) {
    snprintf(from, sizeof from, "the newest checkpoint is of step %lld", (long long)t->saved);
  }
  if (t->good >= 0 && t->good < t->saved) {
    snprintf(from, sizeof from, "the newest good checkpoint is of step %lld", (long long)t->good);
  }
  return error_set(
      error, 4, "training diverged: %s %s, up to step %lld; %s; %s",
      trainer_spikes(t, skipped)               ? "the loss was a spike and the update was skipped"
      : skipped && isfinite(t->line.grad_norm) ? "the loss was not a finite number and the update was skipped"
      : skipped                                ? "the gradient was not finite and the update was skipped"
                                               : "the loss was not a finite number",
      where, (long long)t->line.step, from,
      t->lived || t->blame ? "try a lower learning rate" : "--blame says which value is the first that is not finite");
}

static bool trainer_diverged(Trainer *t, bool skipped, Error *error) {
  if (t->bad_steps < BAD_STEPS_MAX) {
    return false;
  }
  char where[64];
  snprintf(where, sizeof where, "in %d steps in a row", t->bad_steps);
  return !trainer_settle(t, true, error) || !say_diverged(t, skipped, where, error);
}

// A run that ends has diverged too where no step of it was good, in fewer than it takes else. It is saved by then.
static bool trainer_lives(Trainer *t, Error *error) {
  const int64_t here = t->line.step - t->facts.first;
  char where[64];
  if (t->line.step < t->steps || t->lived) {
    return true;
  }
  snprintf(where, sizeof where, here == 1 ? "in the only step" : "in all %lld steps", (long long)here);
  return say_diverged(t, t->skipped > 0, where, error);
}

static bool step_traces(const Trainer *t, int64_t step) {
  return step >= t->trace_from && step < t->trace_from + t->options->profile;
}

// May the next step be submitted while the newest is under way? One that is timed instruction by instruction takes long
// to submit, and is alone.
static bool trainer_runs_ahead(const Trainer *t) {
  const int64_t newest = t->submitted;
  return !t->options->watched && !trainer_evaluates(t, newest) && !step_saves(t, newest) && !step_traces(t, newest) &&
         !step_traces(t, newest + 1) && !trainer_checks(t, newest) && !trainer_checks(t, newest + 1);
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
    if (trainer_checks(t, step) && !check_keep(t->check, session, error)) {
      return false;
    }
    if (!feed_train(t->train_feed, session, batch, error)) {
      t->unread = error->status == 1;
      return t->unread && t->submitted > t->line.step;  // steps that are under way end first; then it is read again
    }
    if (!session_submit(session, PROGRAM_TRAIN, step, error)) {
      return false;
    }
    step_outputs_drop(&t->outputs);
    t->unread = false;
    if (t->total_seconds == 0 && t->submitted == t->line.step) {
      t->first_counts = feed_counted(t->train_feed) > 0;
    }
    t->submitted = step;
  } while (t->submitted < t->steps && t->submitted - t->line.step <= session_ahead(session) && trainer_runs_ahead(t) &&
           !interrupt_requested());
  return true;
}

// An update with a rate that is no number leaves nothing of the parameters. A program without a rate has none to judge.
static bool rate_holds(Trainer *t, Error *error) {
  int64_t rank;
  if (isfinite(t->line.lr) || !session_find_output(&t->session, PROGRAM_TRAIN, "lr", &rank)) {
    return true;
  }
  if (!trainer_settle(t, true, error)) {
    return false;
  }
  char from[96] = "there is no good checkpoint";
  if (t->good >= 0) {
    snprintf(from, sizeof from, "the newest good checkpoint is of step %lld", (long long)t->good);
  }
  return error_set(error, 4, "training diverged: the learning rate of step %lld is %g; nothing was saved since; %s",
                   (long long)t->line.step, t->line.lr, from);
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
      !session_scalar(session, PROGRAM_TRAIN, "skipped", &skipped, error) ||
      !shown_read(&t->line.shown, session, PROGRAM_TRAIN, error)) {
    return false;
  }
  const double now = clock_seconds(), seconds = now - t->done_at;
  const bool skips = skipped > 0;
  t->done_at = now;
  t->line.step = step;
  if (!trainer_repeat(t, error) || !rate_holds(t, error)) {
    return false;
  }
  const PlanPhase *phase = plan_phase(t->plan, step);
  t->line.precision = phase ? phase->precision : NULL;
  progress_precision(&t->log, &t->facts, step);
  progress_rate(&t->log, &t->facts, step, t->line.lr);
  const int64_t batch = plan_batch_after(&t->plan->run, t->batch, 1);
  progress_skip(&t->log, step, t->batch, batch);
  if (t->total_seconds == 0 && t->line.grad_norm == 0) {  // of the first step here
    progress_still(&t->log, step, t->first_counts);
  }
  t->batch = batch;
  t->line.tokens += feed_rows(t->train_feed) * feed_sequence(t->train_feed);
  t->skipped += skips;
  t->unchanged = skips;
  t->bad_steps = skips || !isfinite(t->line.loss) ? t->bad_steps + 1 : 0;
  t->lived |= t->bad_steps == 0 || trainer_spikes(t, skips);
  t->interval_seconds += seconds;
  t->interval_steps++;
  t->total_seconds += seconds;
  if (t->bad_steps > 0) {
    trainer_bad(t, skips);
  }
  return trainer_report(t, error) && !trainer_diverged(t, skips, error);
}

bool train_step(Trainer *t, bool *more, Error *error) {
  *more = t->line.step < t->submitted || trainer_wants(t);
  if (!*more) {
    return true;
  }
  const bool submits = trainer_wants(t) && (t->submitted == t->line.step || trainer_runs_ahead(t));
  if ((submits && !trainer_submit(t, error)) || !trainer_collect(t, error)) {
    return false;
  }
  bool best = t->options->keep_best && (t->bad_steps == 0 || t->unchanged) && t->line.val_loss < t->best;
  if (!trainer_settle(t, best, error)) {
    return false;
  }
  best = best && t->line.val_loss < t->best;  // the save that was under way may have been of a better one
  return (!(best || step_saves(t, t->line.step)) || trainer_save(t, t->line.step == t->steps, error)) &&
         trainer_lives(t, error);
}

static bool trainer_loop(Trainer *t, Error *error) {
  bool more = true;
  if (!trainer_make_up(t, error)) {
    return false;
  }
  while (more) {
    if (!train_step(t, &more, error)) {
      return false;
    }
    if (more && t->options->step && !t->options->step(t->options->context, t)) {
      break;
    }
  }
  return true;
}

// The trace and the whole table into files, the beginning of the table on the screen.
static bool trainer_profile(Trainer *t, Error *error) {
  char json[IO_PATH_MAX], table[IO_PATH_MAX];
  Buffer text = {0};
  if (!run_file(&t->run, "profile.json", json, error) || !run_file(&t->run, "profile.txt", table, error)) {
    return false;
  }
  trace_json(&t->session, &text);
  bool done = io_replace_text(t->options->io, json, &text, error);
  trace_table(&t->session, t->traced, 0, &text);
  done = done && io_replace_text(t->options->io, table, &text, error);
  buffer_free(&text);
  trace_table(&t->session, t->traced, PROFILE_ROWS, &text);
  if (done) {
    log_line(&t->log, "%s", text.failed ? "" : text.text);
    log_line(&t->log, "          the whole table: %s; the trace, for Perfetto: %s", table, json);
  }
  buffer_free(&text);
  return done;
}

// A command that could come next, about this run.
static void trainer_next(Trainer *t, const char *before, const char *after) {
  Buffer path = {0};
  buffer_shell(&path, t->run.path);
  const bool named = strncmp(t->run.path, RUN_NAMELESS, strlen(RUN_NAMELESS)) != 0;
  if (!path.failed && after && named) {
    log_line(&t->log, "%s%s%s", before, path.text, after);
  }
  buffer_free(&path);
}

// How the run goes on. Without a step it is what it was before: by its name it would go on with its text of then.
static void say_next(Trainer *t, const char *before) {
  if (t->plan_due.text && !trainer_made(t, t->line.step)) {
    log_line(&t->log, "          no step was made, and the run is what it was: the same command again goes on");
  } else {
    trainer_next(t, before, " --resume");
  }
}

bool train_end(Trainer *t, TrainResult *result, Error *error) {
  const bool stops = t->stops && t->line.step < t->steps, early = t->line.step < t->steps && !stops;
  result->interrupted = (early || t->cut) && interrupt_requested();
  if (early && t->line.step > 0) {
    log_line(&t->log, LOG_YELLOW "%s after step %lld: saving" LOG_PLAIN,
             result->interrupted ? "interrupted" : "stopped", (long long)t->line.step);
    if (!trainer_save(t, true, error)) {
      return false;
    }
    say_next(t, "          to go on: mdl train ");
  }
  if (!early && result->interrupted) {
    log_line(&t->log, LOG_YELLOW "interrupted after step %lld, before it was evaluated" LOG_PLAIN,
             (long long)t->line.step);
    say_next(t, "          to make up for that: mdl train ");
  }
  if (t->stops && t->line.step < t->steps) {
    const Patience patience = patience_of(&t->metrics, t->validated_from, t->validated_with);
    patience_say(&t->log, &patience, t->line.step);
    if (!trainer_save(t, true, error)) {
      return false;
    }
  }
  if (t->stops && t->line.step == t->facts.first) {
    log_line(&t->log, "          no step was made; --patience N with a larger N goes further");
  } else if (t->facts.first >= t->steps) {
    log_line(&t->log, "          step %lld of %lld is done already; --steps N goes further", (long long)t->facts.first,
             (long long)t->steps);
  } else {
    const SessionMemory memory = session_memory(&t->session);
    t->line.memory_bytes = memory.taken >= 0 ? memory.taken : clock_memory_peak();
    progress_end(&t->log, &t->facts, &t->line, t->total_seconds, memory.beside);
    trainer_next(t, LOG_FAINT "try" LOG_PLAIN "       mdl generate ",
                 t->saved > 0 && !early ? generate_words(t->session.set) : NULL);
  }
  if (t->traced > 0 && !trainer_profile(t, error)) {
    return false;
  }
  // A run that has no step left is given another plan all the same, as one that can be evaluated: of the same data, and
  // if the newest checkpoint knows by itself what its text said.
  const bool made = t->plan_due.text && trainer_made(t, t->line.step);  // it could not be written behind a save
  if (made && !(trainer_follow(t, error) && trainer_write_plan(t, error))) {
    const Error why = *error;
    return error_set(error, why.status, "plan and text of the run are still those before it went on: %.800s", why.text);
  }
  const bool ended = t->facts.first >= t->steps && t->print.data == t->began_with.data && t->knows_itself;
  if (ended && !result->interrupted && !(trainer_follow(t, error) && trainer_write_plan(t, error))) {
    return false;
  }
  snprintf(result->path, sizeof result->path, "%s", t->run.path);
  result->step = t->line.step;
  result->loss = t->line.loss;
  result->val_loss = t->line.val_loss;
  return true;
}

bool train_save(Trainer *t, Error *error) {
  return trainer_save(t, true, error);
}

bool train_settle(Trainer *t, Error *error) {
  return run_settle(&t->run, error);
}

TrainView train_view(Trainer *t) {
  return (TrainView){
      .session = &t->session, .outputs = &t->outputs, .line = &t->line, .run = t->run.path, .steps = t->steps};
}

void train_note(Trainer *t, const Error *error) {
  Error failed = {0};
  if (!trainer_settle(t, true, &failed)) {
    log_note(&t->log, failed.text);
  }
  log_note(&t->log, error->text);
}

bool train_run(const PlanSet *set, const Backend *backend, const TrainOptions *options, TrainResult *result,
               Error *error) {
  Trainer *t;
  *result = (TrainResult){.loss = NAN, .val_loss = NAN};
  if (!train_open(set, backend, options, &t, error)) {
    return false;
  }
  interrupt_install();
  const bool done = trainer_loop(t, error) && train_end(t, result, error);
  if (!done) {
    trainer_rescue(t);
    train_note(t, error);
  }
  interrupt_restore();
  train_close(t);
  return done;
}
