// session.h: plans opened on devices, one for each rank, and the host's side of running their programs.
//
// A Session owns its devices and, with several ranks, a thread or a process for each. Functions that can fail return
// false and fill `error`; after a program has failed on one of several ranks, nothing can be run any more.
#ifndef MDL_RUNTIME_SESSION_H
#define MDL_RUNTIME_SESSION_H

#include "runtime/ranks.h"

typedef struct {
  const PlanSet *set;
  const Plan *plan;  // of the first rank: what it says about the run holds for all
  const Backend *backend;
  int64_t ranks;
  Device *device;               // of the first rank
  struct Crew *crew;            // of ranks that are threads; else NULL
  struct Processes *processes;  // of ranks in processes of their own; else NULL
  void *single;
  const char *trunk;  // where frozen parameters are that a checkpoint leaves out; NULL: where it says
  bool warm;          // histories of scales are known to hold numbers: no cold training step is run any longer
  int64_t step;       // that was run last, or after which what it holds was saved
} Session;

typedef struct {
  int threads;              // of all ranks together; 0: all cores
  double deadline_seconds;  // for which a rank waits for another; 0: for ever
  uint64_t order;           // 0: what the variable MDL_ORDER says (ranks.h)
  RanksFault fault;         // none: what the variable MDL_FAULT says (ranks.h)
  const char *record;  // what session_record gave for the run that is gone on with; NULL: none. Outlives the session
  // Where the backend wants processes (Backend.apart), a single rank has one of its own too: for whoever opens several
  // sessions one after the other, which the device must not have been started in this process for.
  bool apart;
  bool several;  // other sessions have other plans: the rank of MDL_FAULT may be one that this plan lacks
} SessionOptions;

// The plan of a single rank.
bool session_open(Session *session, const Plan *plan, const Backend *backend, int threads, Error *error);
// All ranks of a set of plans. The set must outlive the session.
bool session_open_ranks(Session *session, const PlanSet *set, const Backend *backend, const SessionOptions *options,
                        Error *error);
void session_close(Session *session);  // also of a session that was only zeroed

bool session_has(const Session *session, ProgramKind program);
double session_parameters(const PlanSet *set);  // of all stages; what several of them hold counts once
double session_trained(const PlanSet *set);     // of these, the ones that are not frozen
const Plan *session_plan(const Session *session, int64_t rank);
Device *session_device(const Session *session, int64_t rank);

// Runs a program on all ranks and waits for its end; gives it the number of the step where it has the input "step".
// PROGRAM_TRAIN is the training step of the precision that the step has (PlanPhase), and a cold one while histories of
// scales know nothing. After PROGRAM_INITIALISE, copies of parameters are made (session_refresh).
bool session_run(Session *session, ProgramKind program, int64_t step, Error *error);
// The same in two parts: after session_submit the inputs of the next run can be written, and up to session_ahead runs
// can be submitted before one is waited for. session_wait: all but the newest `behind` runs are done; outputs are then
// those of the newest of the runs that are done.
bool session_submit(Session *session, ProgramKind program, int64_t step, Error *error);
// Makes the copies of parameters (STATE_COPY) from what the parameters are now: for whoever has written these, other
// than by the training step. Nothing to do where the plan has none.
bool session_refresh(Session *session, Error *error);
bool session_wait(Session *session, int behind, Error *error);
int session_ahead(const Session *session);
// Runs a program that does not train: its input "step" is the last step of training, 1 before the first, and its random
// numbers are those of the number `draw`.
bool session_score(Session *session, ProgramKind program, int64_t draw, Error *error);

const PlanInput *session_input(const Plan *plan, ProgramKind program, const char *name);    // or NULL
const PlanOutput *session_output(const Plan *plan, ProgramKind program, const char *name);  // or NULL
// How many numbers of it can be shown: 1 of a single one, all of a short vector, else none.
int64_t session_numbers(const PlanOutput *output);
// The names of what the text has a program show, the first `most` of them; returns how many.
int session_shown(const Session *session, ProgramKind program, const char **names, int most);
// The same of what the compiler measures in training: `load.` or `dropped.` and the name of a layer of experts, and
// norms of what the recipe watches.
int session_measures(const Session *session, const char **names, int most);
// In the plan of the first rank that has it. NULL, and *rank 0: none has.
const PlanOutput *session_find_output(const Session *session, ProgramKind program, const char *name, int64_t *rank);

// The one number of an output; NaN, and true, if the program has no such output.
bool session_scalar(Session *session, ProgramKind program, const char *name, double *value, Error *error);
// The same of the first `count` numbers of one with an axis.
bool session_read(Session *session, ProgramKind program, const char *name, int count, double *values, Error *error);

typedef struct {             // bytes of the devices of all ranks, as DeviceFacts says
  int64_t taken;             // -1: the memory of this process is meant
  int64_t beside;            // predicted beside the plans, communicators included
  int64_t joined;            // that communicators took
  int64_t joined_predicted;  // and what was predicted for them
} SessionMemory;

SessionMemory session_memory(const Session *session);
// What the devices of all ranks chose by measuring (Backend.record): each line once. Nothing where nothing is chosen.
void session_record(Session *session, Buffer *out);
void session_trace(Session *session, bool on);  // Backend.trace of all ranks

#endif
