// train_save.c: what training writes down: checkpoints, while it goes on or waits, lines of metrics, the picture; and
// disks that are full.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "runtime/chart.h"
#include "runtime/clock.h"
#include "runtime/trainer.h"

enum { UNSAVED_MAX = 3 };  // saves that fail in a row

// While a thread saves, it has the paths of the run.
bool trainer_follow(Trainer *t, Error *error) {
  bool moved = false;
  const bool done = t->saver.under_way || run_follow(&t->run, &moved, error);
  if (moved) {
    log_line(&t->log, LOG_YELLOW "note      the directory of the run was moved: it goes on in %s" LOG_PLAIN,
             t->run.path);
  }
  return done;
}

bool trainer_chart(Trainer *t, Error *error) {
  const PlanRun *run = &t->plan->run;
  char path[IO_PATH_MAX], title[256], subtitle[256], count[32];
  snprintf(title, sizeof title, "%s", run->model ? run->model : "model");
  snprintf(subtitle, sizeof subtitle, "recipe %s, %s parameters", run->recipe ? run->recipe : "?",
           units_count(count, session_parameters(t->set)));
  const ChartText text = {title, subtitle, run->loss_unit};
  return trainer_follow(t, error) && run_file(&t->run, "loss.svg", path, error) &&
         chart_write(path, &text, &t->metrics, error);
}

static bool is_frozen(const PlanSet *set, const char *name) {
  for (int s = 0; s < set->count; s++) {
    const int at = plan_find_state(set->plans[s], name);
    if (at >= 0) {
      return set->plans[s]->states[at].frozen;
    }
  }
  return false;
}

// A checkpoint of numbers that are not finite is of no use, and nothing will make them finite again.
static bool saved_judge(Trainer *t, const CheckpointFacts *facts, Error *error) {
  char from[96] = "no checkpoint before it is good";
  if (checkpoint_is_good(facts)) {
    t->good = facts->step;
    return true;
  }
  if (t->good >= 0) {
    snprintf(from, sizeof from, "the newest good checkpoint, of step %lld, is kept", (long long)t->good);
  }
  if (facts->not_finite[0] && is_frozen(t->set, facts->not_finite)) {
    return error_set(
        error, 4,
        "'%s' holds numbers that are not finite, and no step changes it, since it is frozen: training began "
        "with them; give --from other weights",
        facts->not_finite);
  }
  if (facts->not_finite[0] && t->good < 0) {
    return error_set(error, 4,
                     "training diverged: '%s' holds numbers that are not finite after step %lld; the checkpoint is "
                     "marked so, and there is no good one to go on from: --restart with %sa lower learning rate begins "
                     "anew",
                     facts->not_finite, (long long)facts->step,
                     t->options->from ? "other weights, if these were not finite before, or " : "");
  }
  if (facts->not_finite[0]) {
    return error_set(error, 4,
                     "training diverged: '%s' holds numbers that are not finite after step %lld; the checkpoint is "
                     "marked so, and %s; --resume goes on from there; try a lower learning rate",
                     facts->not_finite, (long long)facts->step, from);
  }
  log_line(&t->log, LOG_YELLOW "note      it was saved after %lld bad steps in a row and is marked so; %s" LOG_PLAIN,
           (long long)facts->bad_steps, from);
  return true;
}

// Tried again later, unless nothing can come of it: ranks that are gone, or the third in a row.
static bool save_failed(Trainer *t, int64_t step, bool last, Error *error) {
  t->unsaved++;
  if (last || t->unsaved >= UNSAVED_MAX || error->status == 5) {
    char why[ERROR_MAX];
    snprintf(why, sizeof why, "%s", error->text);
    if (t->unsaved > 1) {
      error_set(error, error->status, "%d saves failed in a row, up to step %lld: %.800s", t->unsaved, (long long)step,
                why);
    }
    return false;
  }
  log_line(&t->log,
           LOG_RED "warning   step %lld was not saved: %s; training goes on, and the next save is tried" LOG_PLAIN,
           (long long)step, error->text);
  return true;
}

// `done`: lines of metrics and events, or the picture, were written. What cannot be is said once, until it is again.
static bool written(Trainer *t, bool *unwritten, bool done, Error *error) {
  const char *what = unwritten == &t->undrawn ? "the picture" : "metrics";
  if (!done && error->status == 1) {
    if (!*unwritten) {
      log_line(&t->log, LOG_RED "warning   %s of step %lld %s not written: %s; training goes on" LOG_PLAIN, what,
               (long long)t->line.step, unwritten == &t->undrawn ? "was" : "were", error->text);
    }
    *unwritten = true;
    return true;
  }
  if (done && *unwritten) {
    log_line(&t->log, "          %s %s written again from step %lld on", what, unwritten == &t->undrawn ? "is" : "are",
             (long long)t->line.step);
    *unwritten = false;
  }
  return done;
}

bool trainer_write_plan(Trainer *t, Error *error) {
  const bool taken = t->beside && run_take_next(&t->run, error);
  if (!taken && t->plan_due.text && !run_write_plan(&t->run, &t->plan_due, error)) {
    return false;
  }
  if (t->beside && !taken) {
    run_clear_next(&t->run);
  }
  t->beside = false;
  t->plan_due = (RunPlan){0};
  return true;
}

// Plan and text of a run that goes on with others are its own once a step of theirs is saved. Parameters are worth
// more: where these cannot be written, it is said once, and tried again behind the next save.
static bool follow_plan(Trainer *t, int64_t step, Error *error) {
  const bool due = t->plan_due.text && trainer_made(t, step);
  Error unfound = {0};
  if (!due || !trainer_follow(t, &unfound)) {  // who draws the picture says that it is gone
    return true;
  }
  if (trainer_write_plan(t, error)) {
    if (t->plan_unwritten) {
      log_line(&t->log, "          plan and text of the run are written");
    }
    t->plan_unwritten = false;
    return true;
  }
  if (error->status != 1) {
    return false;
  }
  if (!t->plan_unwritten) {
    log_line(&t->log,
             LOG_RED "warning   plan and text of the run are still those before: %s; training goes on" LOG_PLAIN,
             error->text);
  }
  t->plan_unwritten = true;
  return true;
}

// A save has ended well, after so many seconds of which training waited so many.
static bool save_done(Trainer *t, const CheckpointFacts *facts, double seconds, double waited, Error *error) {
  char time[32], apart[64] = "";
  t->saved = facts->step;
  t->unsaved = 0;
  t->line.save_ms += seconds * 1e3;
  t->line.save_wait_ms += waited * 1e3;
  if (!facts->not_finite[0] && facts->val_loss < t->best) {
    t->best = facts->val_loss;
  }
  if (waited < seconds) {
    snprintf(apart, sizeof apart, "; training waited %.1f ms", waited * 1e3);
  }
  if (!follow_plan(t, facts->step, error)) {
    return false;
  }
  log_line(&t->log, LOG_BLUE "saved" LOG_PLAIN " %s/step-%08lld  " LOG_FAINT "(%s%s)" LOG_PLAIN, t->run.checkpoints,
           (long long)facts->step, units_duration(time, seconds), apart);
  if (facts->stays[0] && !t->unremoved) {
    log_line(&t->log, LOG_RED "warning   an older checkpoint stays, and takes space: %s" LOG_PLAIN, facts->stays);
  }
  t->unremoved = facts->stays[0];
  return written(t, &t->undrawn, trainer_chart(t, error), error) && saved_judge(t, facts, error);
}

bool trainer_settle(Trainer *t, bool wait, Error *error) {
  Saver *saver = &t->saver;
  const double start = clock_seconds();
  const bool settled = saver_settled(saver, wait);
  saver->waited += clock_seconds() - start;
  if (!settled) {
    return true;
  }
  if (saver->saved) {
    return save_done(t, &saver->facts, saver->seconds, saver->waited, error);
  }
  *error = saver->error;
  return save_failed(t, saver->facts.step, false, error);
}

bool trainer_reserve(Trainer *t, Error *error) {
  const bool between = t->save_every > 0 && t->line.step - t->line.step % t->save_every + t->save_every < t->steps;
  if (t->options->sync_save || !(between || t->options->keep_best)) {
    return true;
  }
  if (!snapshot_create(&t->session, &t->snapshot, error)) {
    if (error->status == 5) {
      return false;
    }
    log_line(&t->log,
             LOG_YELLOW "note      training will wait while it saves: a copy of what is saved has %s" LOG_PLAIN,
             error->text);
  }
  return true;
}

// Begins to write what is to be saved. False: it is to be saved now, unless *error has status 5.
static bool save_begin(Trainer *t, const CheckpointFacts *facts, const CheckpointKeep *keep, double start,
                       Error *error) {
  if (!t->snapshot ||
      !saver_start(&t->saver, t->options->io, &t->session, t->snapshot, t->run.checkpoints, facts, keep, error)) {
    return false;
  }
  t->saver.waited = clock_seconds() - start;
  return true;
}

// Waits for it. From a copy, if there is memory for one: several threads read that.
static bool save_now(Trainer *t, CheckpointFacts *facts, const CheckpointKeep *keep, Error *error) {
  Session *session = &t->session;
  if (!t->snapshot || !snapshot_take(t->snapshot, error) || !snapshot_taken(t->snapshot, error)) {
    return error->status != 5 && checkpoint_save(t->options->io, session, t->run.checkpoints, facts, keep, error);
  }
  Buffer tuning = {0};
  const StateReader reader = snapshot_reader(t->snapshot);
  session_record(session, &tuning);
  const bool done = checkpoint_save_from(t->options->io, &reader, &tuning, t->run.checkpoints, facts, keep, error);
  buffer_free(&tuning);
  return done;
}

// What a step is trained on counts once one is made; so does its text.
static void facts_of_data(const Trainer *t, CheckpointFacts *facts) {
  const bool made = trainer_made(t, t->line.step);
  facts->program_hash = made || t->began < 0 ? trainer_program_hash(t->resolved) : t->began_program;
  facts->text_hash = made || t->began < 0 ? t->text : t->began_text;
  facts->data_bytes = made ? data_facts(t->data).bytes : t->began_bytes;
  facts->data_hash = made ? t->print.data : t->began_with.data;
  facts->tokenizer_hash = made ? t->print.tokenizer : t->began_with.tokenizer;
  facts->seed = made || t->began < 0 ? t->plan->run.seed : t->began_seed;
  facts->trained = t->trained;
  if (made) {
    const TrainedOn on = {.data = t->print.data,
                          .share = trained_part(&t->print, t->plan->run.validation_fraction),
                          .tokens = t->print.tokens};
    trained_add(&facts->trained, &on);
  }
}

bool trainer_save(Trainer *t, bool last, Error *error) {
  if (!trainer_settle(t, true, error)) {
    return false;
  }
  const double start = clock_seconds();
  if (t->saved == t->line.step) {
    return true;
  }
  CheckpointFacts facts = {.step = t->line.step,
                           .batch = t->batch,
                           .tokens = t->line.tokens,
                           .skipped = t->skipped,
                           .bad_steps = t->bad_steps,
                           .metrics_bytes = t->metrics.bytes,
                           .state_hash = t->plan->state_hash,
                           .validation_hash = t->print.validation,
                           .validated_with = t->validated_with,
                           .validated_from = t->validated_from,
                           .val_loss = t->line.val_loss,
                           .kept = t->options->keep_every > 0 && t->line.step % t->options->keep_every == 0,
                           .keeps_best = t->keeps_best,
                           .frozen = t->frozen};
  const CheckpointKeep keep = {.newest = (int)t->options->keep,
                               .every = t->options->keep_every,
                               .best = t->keeps_best,
                               .validated_with = t->validated_with,
                               .validated_from = t->validated_from};
  facts_of_data(t, &facts);
  error->status = 0;
  if (!trainer_follow(t, error)) {
    return save_failed(t, facts.step, last, error);
  }
  // Parameters are worth more than lines about them.
  if (!metrics_sync(&t->metrics, error) && !written(t, &t->unwritten, false, error)) {
    return save_failed(t, facts.step, last, error);
  }
  error->status = 0;
  // With another text that follows the save at once, ahead of evaluations; one that is killed in between has it beside.
  const bool follows = t->plan_due.text && !(t->before && strcmp(t->before, t->plan_due.text) == 0);
  if (follows && !t->beside && trainer_made(t, facts.step)) {
    Error unwritten = {0};
    t->beside = run_write_next(&t->run, &t->plan_due, &unwritten);  // else it is written behind the save, or said
  }
  if (!last && !follows && save_begin(t, &facts, &keep, start, error)) {
    return true;
  }
  if (error->status == 5 || !save_now(t, &facts, &keep, error)) {
    return save_failed(t, facts.step, last, error);
  }
  const double seconds = clock_seconds() - start;
  return save_done(t, &facts, seconds, seconds, error);
}

void trainer_rescue(Trainer *t) {
  Error failed = {0};
  if (t->unread && t->submitted == t->line.step && t->line.step > 0 && !trainer_save(t, true, &failed)) {
    log_line(&t->log, LOG_RED "warning   %s" LOG_PLAIN, failed.text);
  }
}

bool trainer_record(Trainer *t, bool line, Error *error) {
  if (line) {
    const bool done = metrics_write(&t->metrics, &t->line, error) && events_line(&t->events, &t->line, error);
    if (done) {
      t->line.save_ms = t->line.save_wait_ms = 0;
    }
    if (!written(t, &t->unwritten, done, error)) {
      return false;
    }
  }
  return !isfinite(t->line.val_loss) || written(t, &t->undrawn, trainer_chart(t, error), error);
}
