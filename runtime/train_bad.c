// train_bad.c: steps that are bad are looked at, and steps are run twice, where the options ask for it.
#include <math.h>

#include "runtime/trainer.h"

bool trainer_watch(Trainer *t, const Backend *backend, Error *error) {
  const TrainOptions *options = t->options;
  const BlameOptions blame = {.text = options->text,
                              .backend = backend,
                              .data = t->data,
                              .threads = options->threads,
                              .deadline_seconds = options->deadline_seconds};
  // Behind a bad step the state must still be what it was before.
  t->given.watched |= options->blame;
  return (!options->blame || blame_open(t->set, &blame, &t->blame, error)) &&
         (options->check <= 0 || check_open(t->set, backend, &t->check, error));
}

bool trainer_checks(const Trainer *t, int64_t step) {
  return t->check && step % t->options->check == 0;
}

bool trainer_repeat(Trainer *t, Error *error) {
  const int64_t step = t->line.step, batch = plan_batch_after(&t->plan->run, t->batch, 1);
  return !trainer_checks(t, step) || check_repeat(t->check, &t->session, t->train_feed, step, batch, error);
}

bool trainer_spikes(const Trainer *t, bool skipped) {
  int64_t rank;
  return skipped && isfinite(t->line.loss) && isfinite(t->line.grad_norm) &&
         session_find_output(&t->session, PROGRAM_TRAIN, "grad_norm", &rank);
}

static void blame(Trainer *t) {
  Error error = {0};
  Buffer found = {0};
  const int64_t step = t->line.step, batch = t->batch;
  if (blame_step(t->blame, &t->session, step, batch, &found, &error)) {
    log_line(&t->log, LOG_YELLOW "blame" LOG_PLAIN "     step %lld, batch %lld: %s", (long long)step, (long long)batch,
             found.text);
  } else {
    log_line(&t->log, LOG_YELLOW "blame" LOG_PLAIN "     step %lld could not be run again: %s; training goes on",
             (long long)step, error.text);
  }
  buffer_free(&found);
}

void trainer_bad(Trainer *t, bool skipped) {
  if (trainer_spikes(t, skipped)) {
    log_line(&t->log, LOG_YELLOW "spike" LOG_PLAIN "     step %lld, batch %lld: the loss is %.4f; the step is skipped",
             (long long)t->line.step, (long long)t->batch, t->line.loss);
  } else if (t->blame && (t->bad_steps == 1 || t->line.step == t->facts.first + 1)) {
    blame(t);
  }
}
