// saver.h: a checkpoint that a thread of its own writes while training goes on: one at a time, with the file operations
// and in the order of checkpoint_save.
#ifndef MDL_RUNTIME_SAVER_H
#define MDL_RUNTIME_SAVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/checkpoint.h"
#include "runtime/snapshot.h"

typedef struct {
  // Of the thread from saver_start until saver_settled says true; then it is how the save ended.
  CheckpointFacts facts;
  Error error;
  bool saved;      // else `error` says why not
  double seconds;  // that it took, the copying included

  // Of whoever starts it.
  bool under_way;
  double waited;  // seconds that training stood still for it

  // Of saver.c.
  Io *io;
  Snapshot *snapshot;
  bool copying;   // nothing is written yet
  bool threaded;  // the thread was started
  StateReader reader;
  Buffer tuning;
  const char *directory;
  CheckpointKeep keep;
  double begin;
  pthread_t thread;
  atomic_bool done;
} Saver;

// Begins to copy what is to be saved, and to write it: at once, or where runs go on beside the copies (snapshot_beside)
// with the first call of saver_settled. `directory` and the snapshot must outlive it. False with status 5: ranks are
// lost; else nothing was begun, and the state is as it was.
bool saver_start(Saver *saver, Io *io, Session *session, Snapshot *snapshot, const char *directory,
                 const CheckpointFacts *facts, const CheckpointKeep *keep, Error *error);

// Has the save that was under way ended? Once true, no save is under way any longer. `wait`: until it has. It waits for
// copies, which a run that was submitted behind saver_start has waited for too.
bool saver_settled(Saver *saver, bool wait);

#endif
