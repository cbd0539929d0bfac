// trainer.h: what training keeps while it runs; shared by the files train*.c only.
#ifndef MDL_RUNTIME_TRAINER_H
#define MDL_RUNTIME_TRAINER_H

#include "runtime/blame.h"
#include "runtime/check.h"
#include "runtime/checkpoint.h"
#include "runtime/data/fingerprint.h"
#include "runtime/events.h"
#include "runtime/feed.h"
#include "runtime/frozen.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/progress.h"
#include "runtime/run.h"
#include "runtime/saver.h"
#include "runtime/train.h"

struct Trainer {
  const PlanSet *set;
  const Plan *plan;  // of the first stage
  const TrainOptions *options;
  TrainOptions given;  // what `options` points to
  int64_t steps, save_every, eval_every, log_every;
  Session session;
  Data *data;
  Feed *train_feed;
  Validation validation;
  StepOutputs outputs;  // of the newest step, where somebody looks at each step and there are evaluations
  Run run;
  Snapshot *snapshot;  // to save from while training goes on; NULL: it waits
  Saver saver;
  char *tuning;          // what the devices of the resumed run had chosen, or NULL
  Arena *arena;          // of `frozen` and `resolved`
  Frozen *frozen;        // parameters that checkpoints leave out, or NULL
  Buffer left_out;       // of the weights that training begins with
  const char *resolved;  // the text, with all that was decided, as it finds its data from anywhere; or NULL
  char *before;          // the text, with all that was decided, of the run that is resumed, or NULL
  RunPlan plan_due;      // not written yet, if it has a text: plan and text of a run are those of its newest checkpoint
  Log log;
  Metrics metrics;
  Events events;
  ProgressFacts facts;
  MetricsLine line;                           // of the newest step that is done
  int64_t batch;                              // that this step was trained on
  int64_t submitted;                          // step; those after line.step are under way
  double done_at;                             // when that step was done, or the first of a stretch was begun
  int64_t saved;                              // step of the newest checkpoint; -1: none
  int64_t good;                               // of the newest that is good; -1: none
  int unsaved;                                // saves that failed in a row
  bool unremoved;                             // an older checkpoint could not be removed
  bool unwritten, undrawn;                    // the last line of metrics, the picture, could not be written
  double best;                                // the lowest validation loss of a checkpoint
  bool keeps_best;                            // that one stays, as --keep-best asks, or did before
  DataPrint print;                            // of the data
  Trained trained;                            // data that the run was trained on, up to the step it goes on from
  int64_t began;                              // that step; -1: it goes on from none
  DataPrint began_with;                       // the data that it was trained on there
  int64_t began_bytes;                        // of that data
  uint64_t text, began_text;                  // run_text_hash of its text now, and of that checkpoint's
  bool beside;                                // what is due stands beside what there is
  uint64_t began_program, began_seed;         // its text, and its seed
  const struct RunBeginning *weights_before;  // the run begins again, with the weights that its text says; or NULL
  const char *weights_left;                   // what --restart with another text leaves of its beginning, or NULL
  uint64_t weights_print;                     // of the weights that it begins with (run_beginning.h)
  bool knows_itself;                          // that checkpoint: what it was trained on and validated with
  bool plan_unwritten;                        // what is due could not be written
  uint64_t validated_with;                    // the windows that evaluations read; 0: there are none
  int64_t validated_from;                     // evaluations behind this step read those
  int64_t skipped;                            // steps whose update was not made
  int bad_steps;                              // in a row
  bool unchanged;                             // the update of the newest step was left out
  bool first_counts;                          // a target of the first batch here counts
  bool lived;                                 // a step was good, or a spike that was skipped
  bool unread;                                // data of the next step or of an evaluation could not be read
  bool cut;                                   // a signal cut the last evaluation short
  bool stops;                                 // the validation loss gets no better
  double interval_seconds, total_seconds, live_at;  // of steps alone
  int64_t interval_steps;
  int64_t trace_from, traced;  // the first step that is traced, and how many were
  DeviceFacts device;
  Blame *blame;  // looks at bad steps; NULL: nobody does
  Check *check;  // repeats steps; NULL: nobody does
};

// --- train_save.c ---

bool trainer_chart(Trainer *t, Error *error);
// Memory for a copy of what is saved, where there will be saves before the end. Without it, which is said, training
// waits for each. False: ranks are lost.
bool trainer_reserve(Trainer *t, Error *error);
// What became of a save that was under way, if it has ended: says it, and is an error as trainer_save is. `wait`: until
// it has.
bool trainer_settle(Trainer *t, bool wait, Error *error);
// Saves this step: waits for a save that is under way, and then only begins it, unless it is the `last` or there is no
// memory for a copy. A save that fails is tried again at the next chance, with a warning: true; the third in a row, and
// one after which there is no other chance (`last`), is an error.
bool trainer_save(Trainer *t, bool last, Error *error);
// Was a step trained here, of those up to this one?
static inline bool trainer_made(const Trainer *t, int64_t step) {
  return step > (t->began > 0 ? t->began : 0);
}
// Before something is written by the name of the run's directory: it may have been moved.
bool trainer_follow(Trainer *t, Error *error);
// Plan and text of the run, if they are due.
bool trainer_write_plan(Trainer *t, Error *error);
// Where the data cannot be read any longer, what was trained so far is whole, and is saved.
void trainer_rescue(Trainer *t);
// A line of metrics, events and the picture. What cannot be written is said once, and training goes on.
bool trainer_record(Trainer *t, bool line, Error *error);

// --- train_evaluate.c ---

// How many batches an evaluation has at most. Each is one microbatch: the same windows under every layout.
int64_t trainer_batches(const Trainer *t);
// Behind a step: its outputs stay what they are.
bool trainer_evaluate(Trainer *t, Error *error);
// After this step the trainer looks at the state: no step may be begun before it has.
bool trainer_evaluates(const Trainer *t, int64_t step);
// Has the run the evaluations that --patience and --keep-best go by? `evaluable`: its plan has a program for them.
bool trainer_evaluations(const Trainer *t, bool evaluable, Error *error);
// Has the validation loss got no better for so many evaluations that the run ends here?
void trainer_patience(Trainer *t);
// The evaluation of the step that a run goes on from, if a signal cut it short: else fewer would count for --patience
// and --keep-best than of a run that was not stopped. It is a line of metrics of its own.
bool trainer_make_up(Trainer *t, Error *error);

// --- train_bad.c ---

// Opens what --blame and --check need.
bool trainer_watch(Trainer *t, const Backend *backend, Error *error);
bool trainer_checks(const Trainer *t, int64_t step);  // is this step run twice?
// The newest step, if it is one of these: fails with status 6 where bits differ.
bool trainer_repeat(Trainer *t, Error *error);
// Was the newest step skipped, though all of it is finite, for its loss?
bool trainer_spikes(const Trainer *t, bool skipped);
// The newest step was bad: says so of a spike, and else which value was the first, of the first bad step in a row.
void trainer_bad(Trainer *t, bool skipped);

// --- train_weights.c ---

// Of a run that was initialised and goes on from no checkpoint: the weights that it begins with, or began with.
bool trainer_weights(Trainer *t, Error *error);
void trainer_say_weights(Trainer *t);

// --- train_resume.c ---

// Of the newest checkpoint that can be gone on with, or fresh. What was passed over is in `notes`.
bool trainer_state(Trainer *t, CheckpointFacts *facts, Buffer *notes, Error *error);
// Says what was passed over, and what differs from the run that is resumed but does not prevent it.
// Says what is doubtful about the data.
bool trainer_doubts(Trainer *t, Error *error);
void resume_say(Trainer *t, const CheckpointFacts *facts, const Buffer *notes);
uint64_t trainer_program_hash(const char *resolved);

#endif
