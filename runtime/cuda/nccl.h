// nccl.h: NVIDIA's NCCL, opened at run time: communicators of one GPU a process, and collectives on streams.
//
// Calls put work on a stream, which may be under capture; they return when it is submitted. A call inside a group is
// submitted when the group ends. All ranks of a communicator make the same calls in the same order.
#ifndef MDL_RUNTIME_CUDA_NCCL_H
#define MDL_RUNTIME_CUDA_NCCL_H

#include "runtime/cuda/driver.h"

enum { NCCL_LEAST = 21900, NCCL_ID_BYTES = 128 };  // 21900: version 2.19.0

typedef int NcclStatus;  // ncclResult_t; 0: success
typedef struct ncclComm *NcclCommunicator;
typedef struct {  // ncclUniqueId: made by one rank, given to the others
  char bytes[NCCL_ID_BYTES];
} NcclId;

typedef struct {  // ncclConfig_t as of 2.18, which later versions accept
  size_t size;
  unsigned magic, version;
  int blocking, cluster, least_blocks, most_blocks;
  const char *network;
  int share;
} NcclConfig;

typedef struct ncclWindow_vidmem *NcclWindow;

// X(name in the table, name in the library, result, parameters)
#define NCCL_FUNCTIONS(X)                                                                                   \
  X(get_version, ncclGetVersion, NcclStatus, (int *version))                                                \
  X(error_text, ncclGetErrorString, const char *, (NcclStatus status))                                      \
  X(last_error, ncclGetLastError, const char *, (NcclCommunicator communicator))                            \
  X(unique_id, ncclGetUniqueId, NcclStatus, (NcclId * id))                                                  \
  X(join, ncclCommInitRankConfig, NcclStatus,                                                               \
    (NcclCommunicator * communicator, int ranks, NcclId id, int rank, NcclConfig *config))                  \
  X(leave, ncclCommDestroy, NcclStatus, (NcclCommunicator communicator))                                    \
  X(abort, ncclCommAbort, NcclStatus, (NcclCommunicator communicator))                                      \
  X(async_error, ncclCommGetAsyncError, NcclStatus, (NcclCommunicator communicator, NcclStatus * status))   \
  X(group_start, ncclGroupStart, NcclStatus, (void))                                                        \
  X(group_end, ncclGroupEnd, NcclStatus, (void))                                                            \
  X(all_reduce, ncclAllReduce, NcclStatus,                                                                  \
    (const void *from, void *to, size_t count, int type, int reduce, NcclCommunicator communicator,         \
     CudaStream stream))                                                                                    \
  X(reduce_scatter, ncclReduceScatter, NcclStatus,                                                          \
    (const void *from, void *to, size_t count, int type, int reduce, NcclCommunicator communicator,         \
     CudaStream stream))                                                                                    \
  X(all_gather, ncclAllGather, NcclStatus,                                                                  \
    (const void *from, void *to, size_t count, int type, NcclCommunicator communicator, CudaStream stream)) \
  X(send, ncclSend, NcclStatus,                                                                             \
    (const void *from, size_t count, int type, int peer, NcclCommunicator communicator, CudaStream stream)) \
  X(receive, ncclRecv, NcclStatus,                                                                          \
    (void *to, size_t count, int type, int peer, NcclCommunicator communicator, CudaStream stream))         \
  X(memory_allocate, ncclMemAlloc, NcclStatus, (void **memory, size_t bytes))                               \
  X(memory_free, ncclMemFree, NcclStatus, (void *memory))

// Since 2.27; NULL in older ones.
#define NCCL_NEWER_FUNCTIONS(X)                                                                 \
  X(window_open, ncclCommWindowRegister, NcclStatus,                                            \
    (NcclCommunicator communicator, void *memory, size_t bytes, NcclWindow *window, int flags)) \
  X(window_close, ncclCommWindowDeregister, NcclStatus, (NcclCommunicator communicator, NcclWindow window))

typedef struct {
#define NCCL_FUNCTION(name, symbol, result, parameters) result(*name) parameters;
  NCCL_FUNCTIONS(NCCL_FUNCTION)
  NCCL_NEWER_FUNCTIONS(NCCL_FUNCTION)
#undef NCCL_FUNCTION
  int version;  // of the library: 22809 is 2.28.9
} Nccl;

// Opens the library, which stays open until the process ends. Sets NCCL_NVLS_ENABLE=0 in the environment of the
// process, before the library reads it: multicast over NVLink stays off. To be called before there are other threads.
// On failure `error` says what is missing, or which version was found and which is needed.
bool nccl_open(Nccl *nccl, Error *error);

// False, with `error` saying what was tried and the library's words, unless status is success. Status 5, a rank that
// was lost, where the library says so. communicator: that of the call, or NULL.
bool nccl_check(const Nccl *nccl, NcclStatus status, const char *what, NcclCommunicator communicator, Error *error);

bool nccl_id(const Nccl *nccl, NcclId *id, Error *error);

// Waits for all `ranks`. The GPU is that of the thread's current context. blocks: most thread blocks that a collective
// may take, or 0 for as many as the library likes.
bool nccl_join(const Nccl *nccl, const NcclId *id, int ranks, int rank, int blocks, NcclCommunicator *communicator,
               Error *error);
bool nccl_leave(const Nccl *nccl, NcclCommunicator communicator, Error *error);  // once all its work is done
void nccl_abort(const Nccl *nccl, NcclCommunicator communicator);  // gives up what is under way; the others get errors

// False with the reason if the communicator has failed since it was made: a peer is gone, or a connection. Does not
// wait.
bool nccl_sound(const Nccl *nccl, NcclCommunicator communicator, Error *error);

bool nccl_group_start(const Nccl *nccl, Error *error);
bool nccl_group_end(const Nccl *nccl, Error *error);

// As a Collective of plan.h says: `count` is of elements that each rank gives or gets, all-to-all: for each other.
typedef struct {
  CollectiveKind kind;
  ReduceKind reduce;
  ElementType type;
  int ranks;  // of the communicator
  int rank;   // this one of them: a rotation wants to know
  int64_t count;
  CudaAddress from, to;
} NcclCollective;

bool nccl_collective(const Nccl *nccl, NcclCommunicator communicator, const NcclCollective *collective,
                     CudaStream stream, Error *error);
bool nccl_send(const Nccl *nccl, NcclCommunicator communicator, int peer, ElementType type, int64_t count,
               CudaAddress from, CudaStream stream, Error *error);
bool nccl_receive(const Nccl *nccl, NcclCommunicator communicator, int peer, ElementType type, int64_t count,
                  CudaAddress to, CudaStream stream, Error *error);

// Memory of the current GPU that peers can map, zeroed by nobody; to be given back with nccl_memory_free.
bool nccl_memory_allocate(const Nccl *nccl, int64_t bytes, CudaAddress *address, Error *error);
void nccl_memory_free(const Nccl *nccl, CudaAddress address);

// Lets the ranks of a communicator read and write each other's memory in collectives whose operands lie in such windows
// at equal places on all of them: reductions then go with fewer copies. All ranks come here with as many bytes, of
// nccl_memory_allocate. Without windows (an older library, GPUs that cannot map each other's memory) *window is NULL,
// and collectives go as they do elsewhere.
bool nccl_window_open(const Nccl *nccl, NcclCommunicator communicator, CudaAddress address, int64_t bytes,
                      NcclWindow *window, Error *error);
// Whether collectives whose operands lie in windows need no connections: what moves, and sums of real numbers.
bool nccl_window_serves(const Nccl *nccl, const Collective *collective);
void nccl_window_close(const Nccl *nccl, NcclCommunicator communicator, NcclWindow window);  // NULL: nothing

#endif
