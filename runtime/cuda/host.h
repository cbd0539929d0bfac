// host.h: the inputs and outputs of runs, in host memory that the GPU reads and writes while the host goes on.
//
// A ring of HOST_DEPTH copies of the plan's host arena, pinned. Run n uses copy n % HOST_DEPTH: its inputs travel to
// the GPU on a stream of their own, ahead of time, and from there into the arena when the run begins; its outputs
// travel back when it ends. Inputs that are not written again keep their value from run to run, as in a single arena.
#ifndef MDL_RUNTIME_CUDA_HOST_H
#define MDL_RUNTIME_CUDA_HOST_H

#include "runtime/cuda/driver.h"

enum { HOST_DEPTH = 2, HOST_RANGES_MAX = 32, HOST_MARKS = HOST_DEPTH + 1, HOST_GAPS = 64 };

typedef struct {
  int64_t offset, bytes;
} HostRange;

typedef struct {  // of one program: what travels
  HostRange input[HOST_RANGES_MAX], output[HOST_RANGES_MAX];
  int inputs, outputs;
} HostProgram;

typedef struct {
  const Cuda *cuda;
  CudaAddress arena;  // the plan's, on the GPU
  int64_t bytes;
  HostProgram program[PROGRAM_COUNT];
  char *copy[HOST_DEPTH];          // pinned
  CudaAddress staged[HOST_DEPTH];  // on the GPU, as far as there are inputs
  CudaEvent arrived[HOST_DEPTH];   // the inputs are in `staged`
  CudaEvent taken[HOST_DEPTH];     // and from there in the arena
  CudaEvent done[HOST_DEPTH];      // the outputs are in `copy`
  CudaEvent begun[HOST_MARKS];     // the first kernel of run n % HOST_MARKS may begin, which is timed
  CudaEvent ended[HOST_MARKS];     // its last kernel has ended
  double gap[HOST_GAPS];           // seconds between the end of a run and the begin of the next, the newest ones
  int64_t gaps;                    // all that were measured
  CudaStream stream;
  int64_t submitted, shown;  // runs; the one whose outputs are read
  ProgramKind last;          // that was run
  bool fresh;                // copy[submitted % HOST_DEPTH] has the values of the run before
} Host;

bool host_open(Host *host, const Cuda *cuda, const Plan *plan, CudaAddress arena, Error *error);
void host_close(Host *host);

// The copy that the next run's inputs are written to; NULL: an error.
char *host_inputs(Host *host, Error *error);
// The copy with the outputs of the run that the last host_wait was for, or, where another was submitted since, of the
// newest one, which is waited for; NULL: an error.
const char *host_outputs(const Host *host, Error *error);

// Around the instructions of a run, on the stream they are on.
bool host_begin(Host *host, ProgramKind program, CudaStream stream, Error *error);
bool host_end(Host *host, ProgramKind program, CudaStream stream, Error *error);
// Seconds for which the GPU had no kernel between two runs, the median of the newest ones; NAN: none was measured.
double host_gap(const Host *host);
// Until all but the newest `behind` runs are done.
bool host_wait(Host *host, int behind, Error *error);

#endif
