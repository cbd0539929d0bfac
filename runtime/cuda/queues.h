// queues.h: the queues of a plan (compiler/plan/waits.h) as streams, and what waits for what as events.
//
// Everything can be captured. All queues begin where the device's stream is at queues_begin, and it waits for them at
// queues_join; between the two, instructions are put on their streams in the order of the lists.
#ifndef MDL_RUNTIME_CUDA_QUEUES_H
#define MDL_RUNTIME_CUDA_QUEUES_H

#include "compiler/plan/waits.h"
#include "runtime/cuda/driver.h"

typedef struct Queues Queues;

// `main` is the queue of arithmetic. *out NULL: there is no other.
bool queues_open(const Cuda *cuda, const Plan *plan, Arena *arena, CudaStream main, Queues **out, Error *error);
void queues_close(Queues *queues);  // NULL: nothing

int queues_count(const Queues *queues);           // that of arithmetic among them
bool queues_begin(Queues *queues, Error *error);  // of a run, or of a part of it that is captured by itself
bool queues_join(Queues *queues, Error *error);   // the end of it

// Around the launches of an instruction: its queue and stream, once that waits for all it must wait for.
bool queues_enter(Queues *queues, const PlanCall *call, int instruction, int *queue, CudaStream *stream, Error *error);
bool queues_leave(Queues *queues, const PlanCall *call, int instruction, Error *error);

#endif
