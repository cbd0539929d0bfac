// train_weights.c: the weights that a run begins with, or began with before anything of it was saved.
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "runtime/run_beginning.h"
#include "runtime/trained_of.h"
#include "runtime/trainer.h"

// --restart moves the checkpoints that there are, also one that those to come would name.
static bool frozen_stays(const Trainer *t, Error *error) {
  char found[PATH_MAX];
  const char *run = t->options->restart && t->frozen ? realpath(t->run.path, found) : NULL;
  const size_t length = run ? strlen(run) : 0;
  const bool moves = run && strncmp(t->frozen->from, run, length) == 0 && t->frozen->from[length] == '/';
  return !moves || error_set(error, 2,
                             "checkpoints that leave out frozen parameters would name %s, which --restart moves: begin "
                             "in another directory, --out, or leave --save-trained out",
                             t->frozen->from);
}

// With weights from elsewhere, where parameters that no update changes may stay.
static bool begin_with(Trainer *t, const SourceOptions *from, Error *error) {
  return t->options->save_trained ? frozen_begin(t->arena, &t->session, from, &t->frozen, &t->left_out, error)
                                  : source_start(&t->session, from, NULL, &t->left_out, error);
}

// Weights that a run saved know what that was trained on.
static bool inherit(Trainer *t, Error *error) {
  const SourceOptions *from = t->options->from;
  return trained_of_weights(from->path, &t->trained, error) &&
         (!from->adapters || trained_of_weights(from->adapters, &t->trained, error));
}

// Nothing was saved since the run began, or it is to begin anew: with the weights that it began with, if its text names
// some. Another text that is to begin anew says by itself with what.
static bool begin_again(Trainer *t, Error *error) {
  RunBeginning *before = ARENA_NEW(t->arena, RunBeginning);
  bool began = false;
  const bool other = t->options->restart && t->before && !trained_text(t->before, trainer_program_hash(t->resolved)) &&
                     !trained_text(t->before, trainer_program_hash(t->plan->resolved));
  if (other) {
    t->weights_left = run_weights_before(t->arena, t->before);
  }
  if (t->options->from || !t->before || other) {
    return true;
  }
  if (!run_beginning(t->arena, t->before, before, &began, error) ||
      (began && !run_beginning_holds(before, t->run.path, error))) {
    return false;
  }
  if (began) {
    t->weights_before = before;
    t->given.from = &before->from;
    t->given.save_trained = before->save_trained;
  }
  return true;
}

bool trainer_weights(Trainer *t, Error *error) {
  return begin_again(t, error) &&
         (!t->options->from || (begin_with(t, t->options->from, error) && frozen_stays(t, error) && inherit(t, error) &&
                                weights_print(t->options->from, &t->weights_print, error)));
}

// Without weights to begin with, what is frozen stays as it was drawn.
static void say_frozen(Trainer *t) {
  char all[32], frozen[32];
  const double count = session_parameters(t->set), trained = session_trained(t->set);
  if (trained < count / 2) {
    log_line(&t->log,
             LOG_YELLOW
             "note      %s of %s parameters are frozen as they were drawn at random: --from DIR begins with "
             "weights that were trained" LOG_PLAIN,
             units_count(frozen, count - trained), units_count(all, count));
  }
}

void trainer_say_weights(Trainer *t) {
  if (t->options->from) {
    const char *adapters = t->options->from->adapters;
    const char *again = !t->weights_before              ? ""
                        : t->weights_before->print != 0 ? ", with which the run began"
                                                        : ", with which the run began, if they are what they were then";
    log_line(&t->log, "weights   from %s%s%s%s", t->options->from->path, adapters ? ", adapters from " : "",
             adapters ? adapters : "", again);
  } else if (t->saved < 0) {
    say_frozen(t);
    if (t->weights_left) {
      log_line(&t->log, LOG_YELLOW
               "note      the run began with weights from elsewhere, and with another text it begins with random ones: "
               "--from DIR begins with weights" LOG_PLAIN);
    }
  }
  if (t->frozen) {
    log_line(&t->log, "          checkpoints hold what is trained alone; %d frozen parameters stay in %s",
             t->frozen->tensors.count, t->frozen->from);
  }
  if (t->left_out.length > 0) {
    log_line(&t->log, LOG_YELLOW "note      %s" LOG_PLAIN, t->left_out.text);
  }
}
