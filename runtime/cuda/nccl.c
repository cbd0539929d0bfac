// nccl.c: opens NCCL; collectives of plans as its calls.
#include "runtime/cuda/nccl.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"

enum { CONFIG_VERSION = 21800, UNDEFINED = INT_MIN };
static const unsigned config_magic = 0xcafebeef;

enum { WINDOWS_SINCE = 22800, WINDOW_SYMMETRIC = 1 };  // 22800: tried since that version
enum { STATUS_REMOTE = 6 };                            // ncclResult_t: a process that is gone, or a connection

// Of ncclDataType_t; -1: not to be had. Types that are only moved go as bytes where they have no number of their own.
static int type_of(ElementType type) {
  switch (type) {
    case TYPE_F64:
      return 8;
    case TYPE_F32:
      return 7;
    case TYPE_BF16:
      return 9;
    case TYPE_F16:
      return 6;
    case TYPE_E4M3:
    case TYPE_E5M2:
      return 1;
    case TYPE_INT:
    case TYPE_INDEX:
    case TYPE_BOOL:
      return 2;
    default:
      return -1;
  }
}

static int reduce_of(ReduceKind reduce) {  // ncclRedOp_t
  return reduce == REDUCE_MAX ? 2 : reduce == REDUCE_MIN ? 3 : 0;
}

static void *pointer_of(CudaAddress address) {
  void *pointer = NULL;
  memcpy(&pointer, &address, sizeof pointer);
  return pointer;
}

bool nccl_open(Nccl *nccl, Error *error) {
  static const char *const names[] = {"libnccl.so.2", NULL};
  static const LibrarySymbol symbols[] = {
#define NCCL_FUNCTION(name, symbol, result, parameters) {#symbol, offsetof(Nccl, name), false},
      NCCL_FUNCTIONS(NCCL_FUNCTION)
#undef NCCL_FUNCTION
#define NCCL_FUNCTION(name, symbol, result, parameters) {#symbol, offsetof(Nccl, name), true},
          NCCL_NEWER_FUNCTIONS(NCCL_FUNCTION)
#undef NCCL_FUNCTION
  };
  char message[512];
  void *handle = NULL;
  *nccl = (Nccl){0};
  if (setenv("NCCL_NVLS_ENABLE", "0", 1) != 0) {
    return error_set(error, 3, "out of memory");
  }
  if (!library_open(names, symbols, (int)(sizeof symbols / sizeof *symbols), nccl, &handle, message, sizeof message)) {
    return error_set(error, 1, "no usable NCCL: %s (NCCL %d.%d or newer is needed)", message, NCCL_LEAST / 10000,
                     NCCL_LEAST / 100 % 100);
  }
  if (!nccl_check(nccl, nccl->get_version(&nccl->version), "asking for the version", NULL, error)) {
    return false;
  }
  if (nccl->version < NCCL_LEAST) {  // 2.8 and older count in thousands, which is less too
    return error_set(error, 1, "NCCL's version number is %d; %d.%d or newer (%d) is needed", nccl->version,
                     NCCL_LEAST / 10000, NCCL_LEAST / 100 % 100, NCCL_LEAST);
  }
  return true;
}

bool nccl_check(const Nccl *nccl, NcclStatus status, const char *what, NcclCommunicator communicator, Error *error) {
  if (status == 0) {
    return true;
  }
  const char *text = nccl->error_text(status), *last = nccl->last_error(communicator);
  return error_set(error, status == STATUS_REMOTE ? 5 : 1, "NCCL: %s failed: %s%s%s", what,
                   text ? text : "unknown error", last && *last ? ": " : "", last ? last : "");
}

bool nccl_id(const Nccl *nccl, NcclId *id, Error *error) {
  return nccl_check(nccl, nccl->unique_id(id), "making an identity for a group of ranks", NULL, error);
}

bool nccl_join(const Nccl *nccl, const NcclId *id, int ranks, int rank, int blocks, NcclCommunicator *communicator,
               Error *error) {
  NcclConfig config = {.size = sizeof config,
                       .magic = config_magic,
                       .version = CONFIG_VERSION,
                       .blocking = 1,
                       .cluster = UNDEFINED,
                       .least_blocks = UNDEFINED,
                       .most_blocks = blocks > 0 ? blocks : UNDEFINED,
                       .share = UNDEFINED};
  return nccl_check(nccl, nccl->join(communicator, ranks, *id, rank, &config), "joining the other ranks", NULL, error);
}

bool nccl_leave(const Nccl *nccl, NcclCommunicator communicator, Error *error) {
  return nccl_check(nccl, nccl->leave(communicator), "leaving the other ranks", NULL, error);
}

void nccl_abort(const Nccl *nccl, NcclCommunicator communicator) {
  nccl->abort(communicator);
}

bool nccl_sound(const Nccl *nccl, NcclCommunicator communicator, Error *error) {
  NcclStatus status = 0;
  return nccl_check(nccl, nccl->async_error(communicator, &status), "asking how the ranks are", communicator, error) &&
         nccl_check(nccl, status, "talking to the other ranks", communicator, error);
}

bool nccl_group_start(const Nccl *nccl, Error *error) {
  return nccl_check(nccl, nccl->group_start(), "beginning a group of calls", NULL, error);
}

bool nccl_group_end(const Nccl *nccl, Error *error) {
  return nccl_check(nccl, nccl->group_end(), "submitting a group of calls", NULL, error);
}

bool nccl_send(const Nccl *nccl, NcclCommunicator communicator, int peer, ElementType type, int64_t count,
               CudaAddress from, CudaStream stream, Error *error) {
  return nccl_check(nccl, nccl->send(pointer_of(from), (size_t)count, type_of(type), peer, communicator, stream),
                    "a send", communicator, error);
}

bool nccl_receive(const Nccl *nccl, NcclCommunicator communicator, int peer, ElementType type, int64_t count,
                  CudaAddress to, CudaStream stream, Error *error) {
  return nccl_check(nccl, nccl->receive(pointer_of(to), (size_t)count, type_of(type), peer, communicator, stream),
                    "a receive", communicator, error);
}

static bool all_to_all(const Nccl *nccl, NcclCommunicator communicator, const NcclCollective *c, CudaStream stream,
                       Error *error) {
  const CudaAddress bytes = (CudaAddress)(c->count * element_type_bytes(c->type));
  if (!nccl_group_start(nccl, error)) {
    return false;
  }
  bool done = true;
  for (int i = 0; i < c->ranks && done; i++) {
    const CudaAddress at = bytes * (CudaAddress)i;
    done = nccl_send(nccl, communicator, i, c->type, c->count, c->from + at, stream, error) &&
           nccl_receive(nccl, communicator, i, c->type, c->count, c->to + at, stream, error);
  }
  Error ending;  // the first error is the one to tell
  return nccl_group_end(nccl, done ? error : &ending) && done;
}

static bool rotate(const Nccl *nccl, NcclCommunicator communicator, const NcclCollective *c, CudaStream stream,
                   Error *error) {
  const int next = (c->rank + 1) % c->ranks, before = (c->rank + c->ranks - 1) % c->ranks;
  if (!nccl_group_start(nccl, error)) {
    return false;
  }
  const bool done = nccl_send(nccl, communicator, next, c->type, c->count, c->from, stream, error) &&
                    nccl_receive(nccl, communicator, before, c->type, c->count, c->to, stream, error);
  Error ending;  // the first error is the one to tell
  return nccl_group_end(nccl, done ? error : &ending) && done;
}

bool nccl_collective(const Nccl *nccl, NcclCommunicator communicator, const NcclCollective *c, CudaStream stream,
                     Error *error) {
  const void *from = pointer_of(c->from);
  void *to = pointer_of(c->to);
  const size_t count = (size_t)c->count;
  const int type = type_of(c->type), reduce = reduce_of(c->reduce);
  const bool reduces = c->kind == COLLECTIVE_ALL_REDUCE || c->kind == COLLECTIVE_REDUCE_SCATTER;
  if (type < 0 || (reduces && (c->type == TYPE_E4M3 || c->type == TYPE_E5M2))) {
    return error_set(error, 1, "NCCL: no %s for %s", collective_kind_name(c->kind), element_type_name(c->type));
  }
  switch (c->kind) {
    case COLLECTIVE_ALL_REDUCE:
      return nccl_check(nccl, nccl->all_reduce(from, to, count, type, reduce, communicator, stream), "an all-reduce",
                        communicator, error);
    case COLLECTIVE_REDUCE_SCATTER:
      return nccl_check(nccl, nccl->reduce_scatter(from, to, count, type, reduce, communicator, stream),
                        "a reduce-scatter", communicator, error);
    case COLLECTIVE_ALL_GATHER:
      return nccl_check(nccl, nccl->all_gather(from, to, count, type, communicator, stream), "an all-gather",
                        communicator, error);
    case COLLECTIVE_ROTATE:
      return rotate(nccl, communicator, c, stream, error);
    default:
      return all_to_all(nccl, communicator, c, stream, error);
  }
}

bool nccl_memory_allocate(const Nccl *nccl, int64_t bytes, CudaAddress *address, Error *error) {
  void *memory = NULL;
  if (!nccl_check(nccl, nccl->memory_allocate(&memory, (size_t)bytes), "allocating memory", NULL, error)) {
    return false;
  }
  *address = 0;
  memcpy(address, &memory, sizeof memory);
  return true;
}

void nccl_memory_free(const Nccl *nccl, CudaAddress address) {
  nccl->memory_free(pointer_of(address));
}

static bool has_windows(const Nccl *nccl) {
  return nccl->version >= WINDOWS_SINCE && nccl->window_open && nccl->window_close;
}

bool nccl_window_serves(const Nccl *nccl, const Collective *collective) {
  const bool sums = collective->kind == COLLECTIVE_ALL_REDUCE || collective->kind == COLLECTIVE_REDUCE_SCATTER;
  return has_windows(nccl) && (collective->kind == COLLECTIVE_ALL_GATHER ||
                               (sums && collective->reduce == REDUCE_SUM && element_type_floating(collective->type)));
}

bool nccl_window_open(const Nccl *nccl, NcclCommunicator communicator, CudaAddress address, int64_t bytes,
                      NcclWindow *window, Error *error) {
  *window = NULL;
  return !has_windows(nccl) ||
         nccl_check(nccl, nccl->window_open(communicator, pointer_of(address), (size_t)bytes, window, WINDOW_SYMMETRIC),
                    "sharing memory with the other ranks", communicator, error);
}

void nccl_window_close(const Nccl *nccl, NcclCommunicator communicator, NcclWindow window) {
  if (window) {
    nccl->window_close(communicator, window);
  }
}
