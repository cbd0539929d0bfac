// progress.h: what a person sees of a training run.
#ifndef MDL_RUNTIME_PROGRESS_H
#define MDL_RUNTIME_PROGRESS_H

#include "runtime/data/data.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/session.h"
#include "runtime/validation.h"

typedef struct {
  const Plan *plan;  // of the first stage
  const PlanSet *set;
  const Data *data;
  const char *run, *device, *attention;  // attention: how it is done, or ""
  SessionMemory memory;                  // when all devices were open
  int64_t first, steps;                  // steps before the first of this process, and the last step
  bool processes;                        // each rank is one of its own
  bool masks;                            // the model has an input `mask`
  double compile_seconds;
  bool uphill;  // the learning rate of the last step was below 0
} ProgressFacts;

void progress_header(Log *log, const ProgressFacts *facts);

// One step: the live line on a terminal (`live`), else a line of the interval.
void progress_step(Log *log, const ProgressFacts *facts, const MetricsLine *line, bool live);
// Where batches are passed over between this one and that of the step before.
void progress_still(Log *log, int64_t step, bool counts);  // all gradients of it are 0; `counts`: one of its targets
void progress_skip(Log *log, int64_t step, int64_t before, int64_t batch);
// Where a step is the first under another precision.
void progress_precision(Log *log, const ProgressFacts *facts, int64_t step);
// Where a step is the first whose learning rate is below 0.
void progress_rate(Log *log, ProgressFacts *facts, int64_t step, double rate);
// Of each source that is validated with, and of all of them where there are several. `shown`: outputs, of all.
void progress_validation(Log *log, const Validation *validation, int64_t step, const Evaluation *all,
                         const ShownList *shown);
// beside: bytes of devices that are known beforehand and not the plan's.
void progress_end(Log *log, const ProgressFacts *facts, const MetricsLine *line, double seconds, int64_t beside);

// Predicted bytes of an arena on all ranks together, or with ARENA_CLASS_COUNT of all but ARENA_OFFLOAD.
int64_t progress_predicted(const PlanSet *set, int arena);

#endif
