// copies.h: what outlives a step, copied out on a stream of its own while the next steps run.
//
// A copy begins behind the runs that were submitted. Runs that come later go on beside it; in each, the first
// instruction of a queue that writes persistent memory waits for it: in a graph by a node that looks at the newest copy
// whenever the graph is launched.
#ifndef MDL_RUNTIME_CUDA_COPIES_H
#define MDL_RUNTIME_CUDA_COPIES_H

#include "runtime/cuda/driver.h"
#include "runtime/peers.h"

typedef struct {
  const Cuda *cuda;
  CudaStream stream;
  CudaEvent behind, done;     // the runs before a copy; the newest copy
  bool any;                   // something was ever copied
  bool held[PEERS_MAX_WAYS];  // by queue: it has waited, in this program or this part of a graph
} Copies;

bool copies_open(const Cuda *cuda, Copies *copies, Error *error);
void copies_close(Copies *copies);  // also of one that was only zeroed

// `from`: the persistent memory. Behind what is on `main`.
bool copies_begin(Copies *copies, CudaStream main, CudaAddress from, const CopyPiece *pieces, int count, char *memory,
                  Error *error);
bool copies_wait(Copies *copies, Error *error);  // for the end of all that was begun

void copies_run(Copies *copies);  // a program, or a part of a graph, begins
// Before an instruction on `stream`, of `queue`, that writes persistent memory. captures: into a graph.
bool copies_hold(Copies *copies, int queue, CudaStream stream, bool captures, Error *error);

#endif
