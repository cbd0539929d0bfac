// comms.h: what the device of one rank does together with those of other ranks, each in a process of its own, through
// NCCL: collectives and messages.
//
// There is a communicator for each set of mesh axes that a collective of the plan is over, and one of two ranks for
// each channel: what is on one communicator must keep one order on all its ranks, and stages send in another order than
// they receive. So a send that nobody has received yet holds up nothing but later sends of its channel.
//
// Around each of them, and at the beginning of a program, the stream writes the words of peers.h.
#ifndef MDL_RUNTIME_CUDA_COMMS_H
#define MDL_RUNTIME_CUDA_COMMS_H

#include "runtime/cuda/driver.h"
#include "runtime/peers.h"

typedef struct Comms Comms;

typedef enum {  // how much of it is done, and marked by words
  COMMS_NONE,
  COMMS_COLLECTIVES,  // each waited for
  COMMS_ALL,
} CommsPart;

// Opens NCCL; before there are other threads. The arena must outlive it.
bool comms_create(const Cuda *cuda, const Plan *plan, Peers *peers, Arena *arena, Comms **comms, Error *error);
// Meets the other ranks, which all come here too, and connects all channels. `stream` is idle.
bool comms_join(Comms *comms, CudaStream stream, Error *error);
// What all its communicators take of the GPU's memory, about (nccl_memory.h).
int64_t comms_predicted(const Comms *comms);
void comms_destroy(Comms *comms);  // leaves them: all work is done, and no graph holds any of it. NULL: nothing

// Zeroed by nobody: an arena that operands of collectives lie in, once for each arena class at most, after comms_join.
// The other ranks of a group map it, where their GPUs can: all of them allocate as much, in the same order.
bool comms_allocate(Comms *comms, int64_t bytes, CudaAddress *address, Error *error);
void comms_free(Comms *comms);  // all of it

void comms_set_part(Comms *comms, CommsPart part);
bool comms_transfers(const Comms *comms);  // whether the plan has messages

// Before the instructions of a program on so many queues.
bool comms_begin(Comms *comms, ProgramKind program, int queues, CudaStream stream, Error *error);

// A collective or transfer, on the stream of a queue. to: the place of a transfer.
bool comms_launch(Comms *comms, const Instruction *instruction, CudaAddress from, CudaAddress to, int queue,
                  CudaStream stream, Error *error);

#endif
