// resume.h: what is said of a run that is gone on with otherwise than it was begun.
#ifndef MDL_RUNTIME_RESUME_H
#define MDL_RUNTIME_RESUME_H

#include "runtime/checkpoint.h"
#include "runtime/progress.h"

uint64_t resume_hash(const Plan *plan);  // of the text with all that was decided; 0: there is none

// What differs from the run but does not prevent it: a line each. `before`: its resolved text, or NULL.
void resume_notes(Log *log, const ProgressFacts *now, const char *before, const CheckpointFacts *saved);

#endif
