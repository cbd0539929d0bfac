// blame.h: a second pass of a bad step, which names the first value that is not finite.
//
// The text is compiled once more, so that each operation of the forward and each gradient is an output. That plan runs
// the step from the parameters, state and batch of the plan that is trained, under the same layout, in memory of its
// own. It computes what that plan does but for the order of sums, since operations whose values are looked at cannot
// become one kernel.
#ifndef MDL_RUNTIME_BLAME_H
#define MDL_RUNTIME_BLAME_H

#include "base/buffer.h"
#include "compiler/plan/options.h"
#include "runtime/data/data.h"
#include "runtime/session.h"

typedef struct Blame Blame;

typedef struct {
  // What the plan was compiled from; NULL, or a text that has changed since: the text that the plan holds, whose lines
  // are those of the run's resolved.mdl. Needed while it is opened alone.
  const CompileOptions *text;
  const Backend *backend;
  const Data *data;  // outlives it
  int threads;
  double deadline_seconds;
} BlameOptions;

// Compiles. False: the error says why no step of this plan can be looked at.
bool blame_open(const PlanSet *set, const BlameOptions *options, Blame **blame, Error *error);
void blame_close(Blame *blame);  // also NULL

// `trained` holds what the step began with. What was found is added to `out`, in lines; devices are opened at the first
// call.
bool blame_step(Blame *blame, Session *trained, int64_t step, int64_t batch, Buffer *out, Error *error);

#endif
