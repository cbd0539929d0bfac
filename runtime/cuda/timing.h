// timing.h: how long each instruction of a run takes, by events on the stream before and after it.
//
// The stream is held back while instructions are put on it, so that short kernels do not wait for the host.
#ifndef MDL_RUNTIME_CUDA_TIMING_H
#define MDL_RUNTIME_CUDA_TIMING_H

#include "runtime/cuda/driver.h"
#include "runtime/trace.h"

typedef struct Timing Timing;

bool timing_create(const Cuda *cuda, Timing **timing, Error *error);
void timing_destroy(Timing *timing);  // NULL: nothing

// Around every instruction of a run, which is at most so many launches on `stream`; `held` is the device's stream, the
// one that is held back. `stream` is that or one that waits for it. lane: of the span.
bool timing_begin(Timing *timing, int launches, CudaStream held, CudaStream stream, Error *error);
bool timing_end(Timing *timing, const Instruction *instruction, const char *form, int lane, CudaStream stream,
                Error *error);
void timing_release(Timing *timing);  // at the end of a run: nothing is held back any more

// All spans so far; waits for those that are under way. NULL: none, or memory ran out.
const TraceSpan *timing_spans(Timing *timing, int64_t *count);

#endif
