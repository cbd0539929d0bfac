// offload.h: values that wait for the backward in pinned memory of the host, copied beside the work of the device.
//
// Copies are put on a stream of their own, which takes each up where the device's stream is when it begins, and which
// the device's stream waits for where the copy must have ended. All of it can be captured; before a capture ends, and
// before anything else needs the streams joined, offload_join.
#ifndef MDL_RUNTIME_CUDA_OFFLOAD_H
#define MDL_RUNTIME_CUDA_OFFLOAD_H

#include "runtime/cuda/timing.h"

typedef struct Offloads Offloads;

// For the copies of a plan, in its arena of the class ARENA_OFFLOAD. *offloads is NULL if there are none. Both ends of
// a copy are given as the plan says, at `device` on the GPU and `host` bytes into the arena.
bool offload_open(const Cuda *cuda, const Plan *plan, Arena *arena, Offloads **offloads, Error *error);
void offload_close(Offloads *offloads);  // NULL: nothing

// OFFLOAD, OFFLOADED, FETCH and FETCHED. timing: traces copies on their stream and waits on the device's; or NULL.
bool offload_launch(Offloads *offloads, const Instruction *instruction, CudaAddress device, int64_t host,
                    CudaStream stream, Timing *timing, Error *error);

// The stream waits for all copies that have begun. NULL: nothing.
bool offload_join(Offloads *offloads, CudaStream stream, Error *error);

char *offload_memory(const Offloads *offloads);  // the arena; NULL: there is none

#endif
