// train_evaluate.c: evaluations of training: after which steps, what becomes of them, and one that a signal cut short.
#include <math.h>

#include "runtime/clock.h"
#include "runtime/interrupt.h"
#include "runtime/patience.h"
#include "runtime/trainer.h"

int64_t trainer_batches(const Trainer *t) {
  return validation_limit(t->plan, t->plan->run.eval_batches);
}

static bool evaluate(Trainer *t, Error *error) {
  Evaluation all;
  Validation *of = &t->validation;
  session_trace(&t->session, false);  // the next step says whether it is traced
  if (!validation_run(of, &t->session, trainer_batches(t), &t->line.validated, &all, error)) {
    t->unread = error->status == 1;
    return false;
  }
  t->cut = interrupt_requested();
  if (!t->cut) {
    t->line.validated_with = t->validated_with;
    t->line.val_loss = isfinite(all.loss) || all.tokens == 0 ? all.loss : INFINITY;
    progress_validation(&t->log, of, t->line.step, &all, &t->line.validated);
    for (int i = 0; i < t->line.sets.count; i++) {
      t->line.sets.at[i].value = of->result[i].loss;
    }
  }
  return true;
}

bool trainer_evaluate(Trainer *t, Error *error) {
  if (!step_outputs_keep(&t->outputs, &t->session, error)) {
    return false;
  }
  const bool done = evaluate(t, error);
  step_outputs_restore(&t->outputs, &t->session);
  return done;
}

bool trainer_evaluates(const Trainer *t, int64_t step) {
  return t->validation.count > 0 && (step == t->steps || (t->eval_every > 0 && step % t->eval_every == 0));
}

bool trainer_evaluations(const Trainer *t, bool evaluable, Error *error) {
  const bool patient = t->options->patience > 0;
  EvaluationsAhead ahead = {
      .evaluable = evaluable, .held_out = t->plan->run.validation_fraction > 0, .data = t->validation.count > 0};
  if (!patient && !t->options->keep_best) {
    return true;
  }
  return validation_answers(&t->validation, trainer_batches(t), &ahead.answers, error) &&
         (!patient || patience_possible(&ahead, "--patience", error)) &&
         (!t->options->keep_best || patience_possible(&ahead, "--keep-best", error)) &&
         (!patient || t->eval_every > 0 ||
          error_set(error, 2, "--patience counts evaluations, and there is one at the end alone; give --eval-every N"));
}

void trainer_patience(Trainer *t) {
  t->stops = t->options->patience > 0 &&
             patience_of(&t->metrics, t->validated_from, t->validated_with).since >= t->options->patience;
}

// The loss that metrics have of the step, and the validation loss, with the number of its windows; NaN where there is
// none.
static double step_loss(const Metrics *metrics, int64_t step, double *val_loss, uint64_t *windows) {
  double loss = NAN;
  *val_loss = NAN;
  *windows = 0;
  for (int64_t i = metrics->count - 1; i >= 0 && (int64_t)metrics->points[i].step == step; i--) {
    loss = isfinite(metrics->points[i].loss) ? metrics->points[i].loss : loss;
    if (!isnan(metrics->points[i].val_loss)) {
      *val_loss = metrics->points[i].val_loss;
      *windows = metrics->points[i].validated_with;
    }
  }
  return loss;
}

// The checkpoint of the step does not say how good it is: its manifest is told, and what it holds stays as it is, since
// that is the state of another plan perhaps.
static bool tell_checkpoint(Trainer *t, Error *error) {
  const CheckpointLoss loss = {t->line.val_loss, t->validated_with, t->validated_from};
  char path[IO_PATH_MAX];
  bool told = false;
  if (!trainer_follow(t, error) ||
      !io_path(path, error, "%s/step-%08lld", t->run.checkpoints, (long long)t->line.step) ||
      !checkpoint_amend(t->options->io, path, &loss, &told, error)) {
    log_line(&t->log,
             LOG_RED
             "warning   the validation loss of step %lld is not in its checkpoint: %s; training goes on" LOG_PLAIN,
             (long long)t->line.step, error->text);
    return error->status == 1;
  }
  t->best = told && loss.val_loss < t->best ? loss.val_loss : t->best;
  return true;
}

bool trainer_make_up(Trainer *t, Error *error) {
  MetricsLine *line = &t->line;
  double val_loss;
  uint64_t windows;
  const double loss = step_loss(&t->metrics, line->step, &val_loss, &windows);
  const bool other = windows != 0 && windows != t->validated_with;
  if (t->saved != line->step || line->step == 0 || !trainer_evaluates(t, line->step)) {
    return true;
  }
  if (!isnan(val_loss) && (other || t->validated_from == line->step)) {  // it is of other windows than those to come
    return true;
  }
  if (!isnan(val_loss)) {  // a run that was killed behind that line may not have saved it
    line->val_loss = val_loss;
    const bool done = tell_checkpoint(t, error);
    line->val_loss = NAN;
    return done;
  }
  if (!evaluate(t, error)) {
    return false;
  }
  if (isnan(line->val_loss)) {
    return true;
  }
  line->loss = loss;
  line->grad_norm = line->lr = line->tokens_per_s = line->step_ms = line->tflops = line->mfu = NAN;
  const int64_t taken = session_memory(&t->session).taken;
  line->memory_bytes = taken >= 0 ? taken : clock_memory();
  line->skipped = t->skipped;
  line->made_up = true;
  const bool recorded = trainer_record(t, true, error);
  line->made_up = false;
  if (!recorded) {
    return false;
  }
  trainer_patience(t);
  return tell_checkpoint(t, error);
}
