// snapshot.h: the tensors that outlive a step as they are at one moment, in memory of the host, from which they can be
// saved while training goes on.
//
// It holds what the ranks hold, piece by piece, and no more than one copy of each: taking it is nothing but copying, of
// all ranks in processes at the same time, and into memory that is pinned where the backend can. Tensors are put
// together by whoever reads them from it (StateReader).
#ifndef MDL_RUNTIME_SNAPSHOT_H
#define MDL_RUNTIME_SNAPSHOT_H

#include "runtime/states.h"

typedef struct Snapshot Snapshot;

// Takes all its memory, if the machine has so much to spare. The session must outlive it.
bool snapshot_create(Session *session, Snapshot **snapshot, Error *error);
void snapshot_destroy(Snapshot *snapshot);  // also NULL
int64_t snapshot_bytes(const Snapshot *snapshot);

// Waits for all runs, and begins to copy; nobody may read meanwhile. After false nothing is copied any longer. Runs
// that are submitted before snapshot_taken go on beside it, and wait before they change what is not copied yet.
// snapshot_taken waits for the copies, once. Both are of the thread that runs the session.
bool snapshot_take(Snapshot *snapshot, Error *error);
bool snapshot_taken(Snapshot *snapshot, Error *error);
bool snapshot_beside(const Snapshot *snapshot);  // whether runs go on beside it; else it is taken at once

// Of any thread, from snapshot_taken until the next snapshot_take.
StateReader snapshot_reader(const Snapshot *snapshot);

#endif
