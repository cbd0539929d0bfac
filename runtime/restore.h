// restore.h: a run opened to use its newest checkpoint: generate and evaluate.
#ifndef MDL_RUNTIME_RESTORE_H
#define MDL_RUNTIME_RESTORE_H

#include "runtime/checkpoint.h"
#include "runtime/session.h"

typedef struct {
  Arena *arena;  // of the plan
  PlanSet *set;
  Plan *plan;  // of the first stage
  Session session;
  CheckpointFacts facts;
  char checkpoint[IO_PATH_MAX];
  const char *whole;  // to generate: why every token is made from the whole text again; NULL: keys and values are kept
} Restored;

typedef struct {
  int threads;
  ProgramKind program;  // that is wanted
  bool trust;           // machine code for GPUs in the plan may be run
  const char *trunk;    // where frozen parameters are that the checkpoint leaves out; NULL: where it says
} RestoreOptions;

// A run of several ranks is opened as one rank, its text compiled again; to generate, one of a single rank too.
// `path`: a run directory, or a checkpoint directory in one. Loads parameters and state of the model only.
bool restore_open(Restored *restored, const char *path, const Backend *backend, const RestoreOptions *options,
                  Error *error);
void restore_close(Restored *restored);  // also of one that was only zeroed

#endif
