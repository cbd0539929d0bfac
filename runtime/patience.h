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

Patience patience_of(const Metrics *metrics);

// Can a run be stopped so? `evaluable`: its plan has a program for that; `evaluates`: it has validation data; `every`:
// steps between evaluations, 0: only at the end.
bool patience_possible(bool evaluable, bool evaluates, bool answers, int64_t every, Error *error);

void patience_say(Log *log, const Patience *patience, int64_t step);  // that the run ends with this step

#endif
