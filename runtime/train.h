// train.h: runs the train program of a plan step by step, with everything that a run keeps in its directory.
#ifndef MDL_RUNTIME_TRAIN_H
#define MDL_RUNTIME_TRAIN_H

#include <stdio.h>

#include "compiler/plan/options.h"
#include "runtime/io.h"
#include "runtime/metrics.h"
#include "runtime/session.h"
#include "runtime/step_outputs.h"

typedef struct Trainer Trainer;  // a run that is under way

typedef struct {
  const char *out;   // run directory; NULL: runs/<model>-<n>
  const char *data;  // NULL: what the plan says
  bool resume;
  bool restart;                      // in the directory of a run, from step 1, whatever is there, which is set aside
  const struct SourceOptions *from;  // weights to begin with (convert/source.h); NULL: fresh ones
  bool save_trained;                 // checkpoints leave out frozen parameters, which stay where `from` is
  const char *trunk;                 // where these are of a run that is gone on with; NULL: where its checkpoint says
  int64_t steps, save_every, eval_every, log_every;  // negative: what the plan says; 0: at the end, and lines at step 1
  int64_t keep;                                      // checkpoints; 0: all
  int64_t keep_every;                                // checkpoints of steps that are a multiple of it too; 0: no others
  bool keep_best;              // the one of the lowest validation loss too, which is saved when it is found
  bool sync_save;              // training waits for each checkpoint to be written
  int64_t patience;            // evaluations that are no better, then training ends; 0: never
  bool blame;                  // bad steps are looked at (blame.h)
  const CompileOptions *text;  // what the plan was compiled from, for that; NULL: nobody knows
  const Diag *diag;            // what was said of that text, for log.txt; NULL: nothing
  int64_t check;               // one step of so many is run twice (check.h); 0: none
  int threads;
  double deadline_seconds;  // for which a rank waits for another; 0: for ever
  int64_t profile;          // steps to be traced; 0: none
  double compile_seconds;   // for the report
  FILE *screen;             // progress; NULL: none
  FILE *lines;              // the lines of metrics.jsonl as well; NULL: nowhere
  Io *io;                   // NULL, or the file operations of a test
  bool watched;             // somebody looks at the state behind each step: no other is begun before
  // Of train_run: called behind each step; false from it ends the run, which is saved then. NULL: nobody is.
  bool (*step)(void *context, Trainer *trainer);
  void *context;
} TrainOptions;

typedef struct {
  char path[IO_PATH_MAX];  // of the run directory
  int64_t step;
  double loss, val_loss;
  bool interrupted;
} TrainResult;

// On failure `error` has the exit status of cli.md: 4 when training diverged. An interrupted run is no failure.
bool train_run(const PlanSet *set, const Backend *backend, const TrainOptions *options, TrainResult *result,
               Error *error);

// The same in parts. The set, the backend and the texts of the options must outlive the trainer. No signal is handled.
bool train_open(const PlanSet *set, const Backend *backend, const TrainOptions *options, Trainer **trainer,
                Error *error);
// One more step, with its evaluation and its checkpoint where they are due. *more: false where none was left.
bool train_step(Trainer *trainer, bool *more, Error *error);
bool train_save(Trainer *trainer, Error *error);  // a checkpoint of the newest step, where there is none yet
// Behind the last step: what is said and saved at the end; once. Before the last step, the newest is saved.
bool train_end(Trainer *trainer, TrainResult *result, Error *error);
void train_note(Trainer *trainer, const Error *error);  // writes to the log why a step or the end failed
void train_leave(Trainer *trainer);  // lets go of the run directory; the session stays. Nothing is trained any longer
void train_close(Trainer *trainer);  // also NULL

typedef struct {  // belongs to the trainer; `line` holds what the newest step said
  Session *session;
  const StepOutputs *outputs;
  const MetricsLine *line;
  const char *run;
  int64_t steps;  // of the whole run
} TrainView;
// The run stays where it is, wherever the working directory goes.
bool train_settle(Trainer *trainer, Error *error);

TrainView train_view(Trainer *trainer);

#endif
