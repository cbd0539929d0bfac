// train.h: runs the train program of a plan step by step, with everything that a run keeps in its directory.
#ifndef MDL_RUNTIME_TRAIN_H
#define MDL_RUNTIME_TRAIN_H

#include <stdio.h>

#include "runtime/io.h"

typedef struct {
  const char *out;   // run directory; NULL: runs/<model>-<n>
  const char *data;  // NULL: what the plan says
  bool resume;
  int64_t steps, save_every, eval_every, log_every;  // negative: what the plan says; 0: never (but at the end)
  int64_t keep;                                      // checkpoints; 0: all
  int64_t patience;                                  // evaluations that are no better, then training ends; 0: never
  int threads;
  double deadline_seconds;  // for which a rank waits for another; 0: for ever
  int64_t profile;          // steps to be traced; 0: none
  double compile_seconds;   // for the report
  FILE *screen;             // progress; NULL: none
  Io *io;                   // NULL, or the file operations of a test
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

#endif
