// device.h: the table of functions that a backend is.
//
// A Device holds the arenas of one rank and runs programs of one plan. Calls are made from one thread at a time.
// Functions that can fail return false and fill `error` with what was asked, what was found and what to do.
//
// Runs. The host may submit a run before the one before it is done: `run` returns when the next inputs can be written,
// which a backend with `ahead` > 0 allows while up to so many runs are under way. Inputs and outputs (ARENA_HOST) are
// kept apart for each of those: `write` is to the inputs of the next run, `read` from the outputs of the run that the
// last `wait` was for. A read of any other arena, and a read after no wait, waits for all runs.
#ifndef MDL_RUNTIME_DEVICE_H
#define MDL_RUNTIME_DEVICE_H

#include <stdatomic.h>

#include "base/buffer.h"
#include "compiler/plan/plan.h"

enum { ERROR_MAX = 1024 };
typedef struct {
  int status;  // exit status of cli.md: 1 input, 2 usage, 3 out of memory, 4 diverged, 5 rank lost
  char text[ERROR_MAX];
} Error;

bool error_set(Error *error, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));  // false

// Of a plan that could not be read or written: `why` begins with "no memory" where that is all.
bool error_set_plan(Error *error, const char *why);

typedef struct Ranks Ranks;  // what the ranks of one process share: ranks.h
typedef struct Peers Peers;  // what a rank in a process of its own knows of the others: peers.h

typedef struct {
  int threads;         // 0: all cores
  Ranks *ranks;        // NULL: the only rank of this process
  Peers *peers;        // NULL: no ranks in other processes
  int64_t rank;        // which of the mesh; 0 without ranks
  int gpu;             // which of the machine's, for backends that have several
  const char *record;  // what Backend.record gave for the run that is gone on with; NULL: none. Outlives the device
  uint64_t order;      // CPU: instructions run in an order drawn with this seed (cpu/order.h); 0: as listed
} DeviceOptions;

typedef struct {             // what a device is, in words and figures
  char name[96];             // "cpu", "NVIDIA H200"
  char attention[256];       // where there are several ways: how attention is done, and why; else ""
  double peak_flops;         // of the plan's dot products, a second; NAN: not known
  double peak_bytes;         // of memory read and written, a second; NAN: not known
  int64_t memory_bytes;      // that this process has taken of the device; -1: the memory of the process is meant
  double gap_seconds;        // without work between two runs that were submitted in time, about; NAN: not known
  int64_t joined_bytes;      // of those, what the communicators of several ranks took
  int64_t joined_predicted;  // what was predicted for them
  int64_t beside_bytes;      // predicted beside the plan: the driver's own, work space of libraries, communicators
} DeviceFacts;

typedef struct Device Device;

typedef struct {  // bytes of the persistent memory, and where in memory of the host they are copied to
  int64_t offset, bytes, to;
} CopyPiece;

typedef struct {  // one instruction of a run that was traced
  const Instruction *instruction;
  const char *form;   // how it was done, in words; NULL: there is one way
  int lane;           // the queue that it waited its turn in (compiler/plan/waits.h)
  double begin, end;  // seconds since some moment, the same for all spans of a device
} TraceSpan;

typedef struct {
  const char *name;
  bool apart;  // each rank of a plan of several wants a process of its own (processes.h), which its device is opened in
  // Allocates the arenas (zeroed) and all workspaces: nothing is allocated after this. The plan must outlive it.
  bool (*open)(const Plan *plan, const DeviceOptions *options, Device **device, Error *error);
  void (*close)(Device *device);
  // Copies between host memory and an arena of the device.
  bool (*write)(Device *device, ArenaClass arena, int64_t offset, const void *data, int64_t bytes, Error *error);
  bool (*read)(Device *device, ArenaClass arena, int64_t offset, void *data, int64_t bytes, Error *error);
  int ahead;  // runs that may be under way while inputs of the next are written
  // Submits all calls of a program.
  bool (*run)(Device *device, ProgramKind program, Error *error);
  // Waits until all runs but the newest `behind` of them are done. Errors of those runs come out here.
  bool (*wait)(Device *device, int behind, Error *error);
  void (*facts)(const Device *device, DeviceFacts *facts);
  // Whether runs from now on are timed instruction by instruction, which may make them slower.
  void (*trace)(Device *device, bool on);
  // All instructions timed so far; the answer is good until the next run.
  const TraceSpan *(*traced)(Device *device, int64_t *count);
  // What was chosen by measuring, as lines of text of which the first says for what machine: a device that is opened
  // with it chooses the same. NULL: nothing is.
  void (*record)(Device *device, Buffer *out);
  // Whether memory of this process is pinned, so that reads into it are fast; what is pinned is unpinned before the
  // device is closed. NULL: that is of no use.
  bool (*pin)(Device *device, void *memory, int64_t bytes, Error *error);
  void (*unpin)(Device *device, void *memory);
  // Begins to copy pieces of the persistent memory into `memory`, which is pinned: as all runs leave them that were
  // submitted, beside those that are submitted from now on, which wait before they change anything there. `copied`
  // waits for the end of all that was begun. NULL, both: `read` is as good.
  bool (*copy)(Device *device, const CopyPiece *pieces, int count, char *memory, Error *error);
  bool (*copied)(Device *device, Error *error);
  // Where a byte of an arena lies in the memory of this process. NULL: not there.
  void *(*host)(Device *device, ArenaClass arena, int64_t offset);
} Backend;

extern const Backend backend_cpu, backend_cuda;

// Backend.copy and copied, or the same by `read`: then no run may be under way, and it is done when it has begun.
bool device_copy(const Backend *backend, Device *device, const CopyPiece *pieces, int count, char *memory,
                 Error *error);
bool device_copied(const Backend *backend, Device *device, Error *error);

const Backend *backend_find(const char *name);  // "cpu" or "cuda"; NULL: no such backend
// The same; or with "auto" or NULL a GPU if there is one that can be used for plans of so many ranks, else the CPU.
// NULL: `error` says why not.
const Backend *backend_choose(const char *name, int64_t ranks, Error *error);
// The same for plans of whatever number of ranks, one after the other, each of which has processes of its own where the
// backend wants that. *devices: how many ranks can be run; 0: any number, as threads.
const Backend *backend_choose_all(const char *name, int *devices, Error *error);

#endif
