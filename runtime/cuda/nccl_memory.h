// nccl_memory.h: what communicators take of a GPU's memory, beforehand: NCCL does not say.
//
// Read off NCCL 2.28 (init.cc, channel.cc, transport/p2p.cc, graph/connect.cc, graph/paths.cc, sym_kernels.cc), for
// ranks of one host that reach each other's memory, over NVLink and without multicast. Every piece of memory is rounded
// up to 2 MiB.
//   tables       of a communicator: two, and three for each channel
//   a connection of a channel, in one direction: 2 MiB where it sends; where it receives one buffer for each protocol:
//                LL 8 x 512 x 8 x 16 bytes, LL128 120 x 640 x 8 x 8 bytes, simple 4 MiB; 10 MiB together
//   rings        one connection to the next rank and one from the one before, in each of 24 channels
//   trees        the same the other way round, for sums of little among more than two ranks
//   messages     one for each rank that is sent to, and one for each that sends, in each of 32 channels, or as many as
//                the communicator may have
//   windows      what collectives on memory that all ranks map keep beside it, instead of connections: 64 blocks of
//                2 x 512 slots of 16 bytes for each rank, and two tables
//   rest         52 MiB of each communicator that the sources do not explain
//   code         of NCCL's kernels and what comes with them, 178 MiB once for a process
// The last two are measured: 2.28.9 on two H200, with one communicator and with five
// (docs/results/2026-11-22-h200-queues.md). Channels are those of an H100 or H200 with 18 links; where ranks are joined
// by less, NCCL has fewer and takes less.
#ifndef MDL_RUNTIME_CUDA_NCCL_MEMORY_H
#define MDL_RUNTIME_CUDA_NCCL_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {     // of one communicator, on one rank
  int ranks;         // in it
  int blocks;        // most thread blocks that it may take, each a channel; 0: as many as NCCL likes
  bool rings;        // has other collectives, which go round
  bool trees;        // and sums among them
  bool windows;      // has collectives on memory that all ranks map
  int sends, hears;  // ranks that messages go to, and come from
} NcclUse;

int64_t nccl_memory_of(const NcclUse *use);
int64_t nccl_memory_code(void);

#endif
