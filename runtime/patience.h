// patience.h: whether the validation loss of a run still gets better, by what its metrics say.
//
// Nothing is kept beside metrics.jsonl: a run that is resumed counts on from the evaluations that it has had.
#ifndef MDL_RUNTIME_PATIENCE_H
#define MDL_RUNTIME_PATIENCE_H

#include "runtime/log.h"
#include "runtime/metrics.h"

typedef struct {
  double best;    // the least validation loss; NaN: there was no evaluation
  int64_t step;   // of it, the first of equal ones
  int64_t since;  // evaluations behind it
} Patience;

// Of the evaluations of these windows (trained_windows; 0: not known): of lines that do not say of which theirs is,
// those behind step `from`.
Patience patience_of(const Metrics *metrics, int64_t from, uint64_t windows);

typedef struct {
  bool evaluable;  // the plan has a program for it
  bool held_out;   // the recipe holds some of the data out
  bool data;       // there is something to validate with
  bool answers;    // of which some targets count
} EvaluationsAhead;

// Will a run have evaluations, which this option goes by? An error says why not.
bool patience_possible(const EvaluationsAhead *ahead, const char *option, Error *error);

void patience_say(Log *log, const Patience *patience, int64_t step);  // that the run ends with this step

#endif
