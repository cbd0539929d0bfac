// nccl.c: a stand-in for NCCL, of processes that share memory, on the streams of the stand-in for the driver.
//
// As with NCCL, a call occupies its stream until all ranks have come to it, and a send until it is received.
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernels/cpu/convert.h"
#include "runtime/cuda/nccl.h"
#include "tests/fake/fake.h"

#define NCCL_FUNCTION(name, symbol, result, parameters) result symbol parameters;
NCCL_FUNCTIONS(NCCL_FUNCTION)
#undef NCCL_FUNCTION

enum { RANKS = 8, PART_BYTES = 1 << 20, GROUP_MAX = 32, FAILED = 3 };
enum { HALF = 6, FLOAT = 7, DOUBLE = 8, BRAIN = 9 };  // ncclDataType_t

typedef struct {  // in shared memory
  _Atomic int64_t joined, left;
  _Atomic int64_t arrived[RANKS];
  _Atomic int64_t full[RANKS][RANKS];  // 1: a message of this rank for that one
  char part[RANKS][PART_BYTES];
  char message[RANKS][RANKS][PART_BYTES];
} Meeting;

struct ncclComm {
  Meeting *meeting;
  int ranks, rank;
  int64_t calls;
};

typedef struct {
  struct ncclComm *communicator;
  bool sends;
  int peer;
  char *memory;
  size_t bytes;
} Message;

typedef struct {
  int count;
  Message message[GROUP_MAX];
} Messages;

typedef enum { REDUCE, SCATTER, GATHER } Kind;

typedef struct {
  struct ncclComm *communicator;
  Kind kind;
  const char *from;
  char *to;
  size_t count;
  int type, reduce;
} Call;

static _Thread_local int group_depth;
static _Thread_local Messages group;
static _Thread_local CudaStream group_stream;

static void rest(void) {
  nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

static size_t size_of(int type) {
  return type <= 1 ? 1 : type == HALF || type == BRAIN ? 2 : type == DOUBLE ? 8 : 4;
}

static void meet(struct ncclComm *communicator) {
  Meeting *meeting = communicator->meeting;
  const int64_t call = ++meeting->arrived[communicator->rank];
  for (int r = 0; r < communicator->ranks; r++) {
    while (meeting->arrived[r] < call) {
      rest();
    }
  }
}

static double number(int type, const char *at) {
  float single;
  double wide;
  int32_t integer;
  uint16_t half;
  memcpy(&half, at, sizeof half);
  if (type == HALF || type == BRAIN) {
    return (double)(type == HALF ? f32_of_f16(half) : f32_of_bf16(half));
  }
  memcpy(&integer, at, sizeof integer);
  memcpy(&single, at, sizeof single);
  if (type == DOUBLE) {
    memcpy(&wide, at, sizeof wide);
    return wide;
  }
  return type == FLOAT ? (double)single : integer;
}

static void number_put(int type, char *at, double x) {
  const float single = (float)x;
  const int32_t integer = (int32_t)x;
  const uint16_t half = type == HALF ? f16_of_f32(single) : bf16_of_f32(single);
  const void *from = type == DOUBLE                  ? (const void *)&x
                     : type == FLOAT                 ? (const void *)&single
                     : type == HALF || type == BRAIN ? (const void *)&half
                                                     : (const void *)&integer;
  memcpy(at, from, size_of(type));
}

static void collective(void *data) {
  const Call *call = data;
  struct ncclComm *communicator = call->communicator;
  Meeting *meeting = communicator->meeting;
  const size_t size = size_of(call->type), bytes = call->count * size;
  const size_t given = call->kind == SCATTER ? bytes * (size_t)communicator->ranks : bytes;
  const size_t first = call->kind == SCATTER ? bytes * (size_t)communicator->rank : 0;
  memcpy(meeting->part[communicator->rank], call->from, given);
  meet(communicator);
  for (int r = 0; r < communicator->ranks && call->kind == GATHER; r++) {
    memcpy(call->to + bytes * (size_t)r, meeting->part[r], bytes);
  }
  for (size_t i = 0; i < call->count && call->kind != GATHER; i++) {
    double total = number(call->type, meeting->part[0] + first + i * size);
    for (int r = 1; r < communicator->ranks; r++) {
      const double x = number(call->type, meeting->part[r] + first + i * size);
      total = call->reduce == 0 ? total + x : (call->reduce == 2) == (x > total) ? x : total;
    }
    number_put(call->type, call->to + i * size, total);
  }
  meet(communicator);
}

static NcclStatus collect(const Call *call, CudaStream stream) {
  if (call->count * size_of(call->type) * (size_t)call->communicator->ranks > PART_BYTES) {
    return FAILED;
  }
  return fake_call(stream, collective, call, sizeof *call) == 0 ? 0 : FAILED;
}

static void exchange(void *data) {
  const Messages *messages = data;
  for (int pass = 0; pass < 3; pass++) {  // all are posted, then all are taken, then what was posted is waited for
    for (int i = 0; i < messages->count; i++) {
      const Message *message = &messages->message[i];
      struct ncclComm *communicator = message->communicator;
      Meeting *meeting = communicator->meeting;
      const int from = message->sends ? communicator->rank : message->peer;
      const int to = message->sends ? message->peer : communicator->rank;
      _Atomic int64_t *full = &meeting->full[from][to];
      if (message->sends && pass == 0) {
        memcpy(meeting->message[from][to], message->memory, message->bytes);
        *full = 1;
      } else if (!message->sends && pass == 1) {
        while (!*full) {
          rest();
        }
        memcpy(message->memory, meeting->message[from][to], message->bytes);
        *full = 0;
      }
      while (message->sends && pass == 2 && *full) {
        rest();
      }
    }
  }
}

static NcclStatus message_put(Message message, CudaStream stream) {
  if (message.bytes > PART_BYTES || group.count == GROUP_MAX) {
    return FAILED;
  }
  group.message[group.count++] = message;
  group_stream = stream;
  return group_depth > 0 ? 0 : (ncclGroupStart(), ncclGroupEnd());
}

NcclStatus ncclGroupStart(void) {
  group_depth++;
  return 0;
}

NcclStatus ncclGroupEnd(void) {
  if (--group_depth > 0 || group.count == 0) {
    return 0;
  }
  const CudaStatus status = fake_call(group_stream, exchange, &group, sizeof group);
  group.count = 0;
  return status == 0 ? 0 : FAILED;
}

NcclStatus ncclSend(const void *from, size_t count, int type, int peer, NcclCommunicator communicator,
                    CudaStream stream) {
  return message_put((Message){communicator, true, peer, (char *)(uintptr_t)from, count * size_of(type)}, stream);
}

NcclStatus ncclRecv(void *to, size_t count, int type, int peer, NcclCommunicator communicator, CudaStream stream) {
  return message_put((Message){communicator, false, peer, to, count * size_of(type)}, stream);
}

NcclStatus ncclAllReduce(const void *from, void *to, size_t count, int type, int reduce, NcclCommunicator communicator,
                         CudaStream stream) {
  return collect(&(Call){communicator, REDUCE, from, to, count, type, reduce}, stream);
}

NcclStatus ncclReduceScatter(const void *from, void *to, size_t count, int type, int reduce,
                             NcclCommunicator communicator, CudaStream stream) {
  return collect(&(Call){communicator, SCATTER, from, to, count, type, reduce}, stream);
}

NcclStatus ncclAllGather(const void *from, void *to, size_t count, int type, NcclCommunicator communicator,
                         CudaStream stream) {
  return collect(&(Call){communicator, GATHER, from, to, count, type, 0}, stream);
}

// --- communicators ---

NcclStatus ncclGetUniqueId(NcclId *id) {
  strcpy(id->bytes, "/dev/shm/mdl_fake_XXXXXX");
  const int file = mkstemp(id->bytes);
  const bool made = file >= 0 && ftruncate(file, sizeof(Meeting)) == 0;
  close(file);
  return made ? 0 : FAILED;
}

NcclStatus ncclCommInitRankConfig(NcclCommunicator *communicator, int ranks, NcclId id, int rank, NcclConfig *config) {
  const int file = open(id.bytes, O_RDWR);
  void *memory = mmap(NULL, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (file < 0 || memory == MAP_FAILED || ranks > RANKS || config->size != sizeof *config) {
    return FAILED;
  }
  struct ncclComm *made = calloc(1, sizeof *made);
  *made = (struct ncclComm){.meeting = memory, .ranks = ranks, .rank = rank};
  made->meeting->joined++;
  while (made->meeting->joined < ranks) {
    rest();
  }
  unlink(id.bytes);
  *communicator = made;
  return 0;
}

NcclStatus ncclCommDestroy(NcclCommunicator communicator) {
  munmap(communicator->meeting, sizeof(Meeting));
  free(communicator);
  return 0;
}

NcclStatus ncclCommAbort(NcclCommunicator communicator) {
  return ncclCommDestroy(communicator);
}

NcclStatus ncclCommGetAsyncError(NcclCommunicator communicator, NcclStatus *status) {
  (void)communicator;
  *status = 0;
  return 0;
}

NcclStatus ncclGetVersion(int *version) {
  *version = 22809;
  return 0;
}

const char *ncclGetErrorString(NcclStatus status) {
  return status == 0 ? "no error" : "an error of the stand-in";
}

const char *ncclGetLastError(NcclCommunicator communicator) {
  (void)communicator;
  return "";
}

NcclStatus ncclMemAlloc(void **memory, size_t bytes) {
  *memory = malloc(bytes);
  return *memory ? 0 : FAILED;
}

NcclStatus ncclMemFree(void *memory) {
  free(memory);
  return 0;
}

NcclStatus ncclCommWindowRegister(NcclCommunicator communicator, void *memory, size_t bytes, NcclWindow *window,
                                  int flags) {
  (void)communicator;
  *window = (NcclWindow)memory;
  return memory && bytes % 4096 == 0 && flags == 1 ? 0 : FAILED;
}

NcclStatus ncclCommWindowDeregister(NcclCommunicator communicator, NcclWindow window) {
  return communicator && window ? 0 : FAILED;
}
