// trainer.h: what training keeps while it runs; shared by train.c, train_save.c and train_resume.c only.
#ifndef MDL_RUNTIME_TRAINER_H
#define MDL_RUNTIME_TRAINER_H

#include "runtime/checkpoint.h"
#include "runtime/data/fingerprint.h"
#include "runtime/events.h"
#include "runtime/feed.h"
#include "runtime/frozen.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/progress.h"
#include "runtime/run.h"
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
  Run run;
  char *tuning;     // what the devices of the resumed run had chosen, or NULL
  Arena *arena;     // of `frozen`
  Frozen *frozen;   // parameters that checkpoints leave out, or NULL
  Buffer left_out;  // of the weights that training begins with
  char *before;     // the text, with all that was decided, of the run that is resumed, or NULL
  Log log;
  Metrics metrics;
  Events events;
  ProgressFacts facts;
  MetricsLine line;                                 // of the newest step that is done
  int64_t batch;                                    // that this step was trained on
  int64_t submitted;                                // step; those after line.step are under way
  double done_at;                                   // when that step was done, or the first of a stretch was begun
  int64_t saved;                                    // step of the newest checkpoint; -1: none
  int64_t good;                                     // of the newest that is good; -1: none
  int unsaved;                                      // saves that failed in a row
  bool unwritten;                                   // the last line of metrics could not be written
  double best;                                      // the lowest validation loss of a checkpoint
  DataPrint print;                                  // of the data
  int64_t skipped;                                  // steps whose update was not made
  int bad_steps;                                    // in a row
  bool stops;                                       // the validation loss gets no better
  double interval_seconds, total_seconds, live_at;  // of steps alone
  int64_t interval_steps;
  int64_t trace_from, traced;  // the first step that is traced, and how many were
  DeviceFacts device;
};

// --- train_save.c ---

bool trainer_chart(Trainer *t, Error *error);
// Saves this step. A save that fails is tried again at the next chance, with a warning: true; the third in a row, and
// one after which there is no other chance (`last`), is an error.
bool trainer_save(Trainer *t, bool last, Error *error);
// A line of metrics, events and the picture. What cannot be written is said once, and training goes on.
bool trainer_record(Trainer *t, bool line, Error *error);

// --- train_resume.c ---

// Of the newest checkpoint that can be gone on with, or fresh. What was passed over is in `notes`.
bool trainer_state(Trainer *t, CheckpointFacts *facts, Buffer *notes, Error *error);
// Says what was passed over, and what differs from the run that is resumed but does not prevent it.
void resume_say(Trainer *t, const CheckpointFacts *facts, const Buffer *notes);
uint64_t trainer_program_hash(const Plan *plan);

#endif
