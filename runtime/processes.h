// processes.h: the ranks of a plan, each in a process of its own, and this process that starts them, tells them what to
// do and watches them.
//
// Each is this program started anew, which is handed its plan and all else that it needs as bytes (rank_task.h);
// nothing is inherited but a socket and the shared memory of peers.h. It opens the device of its rank, on the GPU of
// the rank's number, and does with it what it is told over the socket; data goes through the shared memory. They end
// when this process ends, however it does. To be created by a thread that lives for as long as they are used.
//
// The first failure is the cause, as in ranks.h: a process that has ended, a run that failed, or no rank having moved
// for the deadline while one of them was asked for something. Then all processes are killed, and every call from then
// on fails with that text and status 5.
#ifndef MDL_RUNTIME_PROCESSES_H
#define MDL_RUNTIME_PROCESSES_H

#include <sys/types.h>

#include "runtime/ranks.h"

typedef struct Processes Processes;

// threads: of all ranks together, 0 for all cores. Of the faults of ranks.h, die and hang happen before the run in
// which the rank would come to its at-th collective or transfer; a run without any counts as one.
// The backend is found again by its name.
bool processes_create(const PlanSet *set, const Backend *backend, int threads, const RanksOptions *options,
                      Processes **processes, Error *error);
void processes_destroy(Processes *processes);  // NULL: nothing

// The backend whose devices stand for those of the ranks. Its `open` is not to be called, nor `close`.
const Backend *processes_backend(const Processes *processes);
Device *processes_device(const Processes *processes, int64_t rank);
pid_t processes_pid(const Processes *processes, int64_t rank);

// So much memory for each rank, which its process shares with this one, until the processes end; pinned where the
// backend can. Once. memory[rank]: NULL where no bytes are asked for.
bool processes_hold(Processes *processes, const int64_t *bytes, char **memory, Error *error);
// Has a rank begin to copy pieces of its persistent memory into it, as Backend.copy does: all ranks at once.
// processes_copying waits until all have begun, processes_copied until all are done.
bool processes_copy(Processes *processes, int64_t rank, const CopyPiece *pieces, int count, Error *error);
bool processes_copying(Processes *processes, Error *error);
bool processes_copy_beside(const Processes *processes);  // whether runs go on beside copies; else they are done at once
bool processes_copied(Processes *processes, Error *error);

// On all ranks at once; see Backend.
bool processes_run(Processes *processes, ProgramKind program, Error *error);
bool processes_wait(Processes *processes, int behind, Error *error);

#endif
