// snapshot.c: which bytes of each rank are copied, where to, and where a part of a tensor is found again.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "runtime/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/units.h"
#include "runtime/host_memory.h"
#include "runtime/processes.h"

enum { GAP_BYTES = 4096 };  // between two pieces that are copied as one

typedef struct {
  int count;
  CopyPiece *piece;  // by offset, apart from each other
  int64_t bytes;     // of all
  char *memory;
  bool pinned;
} Held;  // of one rank

struct Snapshot {
  Session *session;
  Held *held;    // [rank]
  bool copying;  // begun, and not waited for
};

// --- which bytes ---

static int piece_order(const void *a, const void *b) {
  const CopyPiece *x = a, *y = b;
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// Tensors may lie within each other, or side by side: then they are one piece.
static void pieces_merge(Held *held) {
  int count = 0;
  qsort(held->piece, (size_t)held->count, sizeof *held->piece, piece_order);
  for (int i = 0; i < held->count; i++) {
    const CopyPiece *next = &held->piece[i];
    CopyPiece *last = count > 0 ? &held->piece[count - 1] : NULL;
    if (last && next->offset <= last->offset + last->bytes + GAP_BYTES) {
      const int64_t end = next->offset + next->bytes;
      last->bytes = end > last->offset + last->bytes ? end - last->offset : last->bytes;
    } else {
      held->piece[count++] = *next;
    }
  }
  held->count = count;
  for (int i = 0; i < count; i++) {
    held->piece[i].to = held->bytes;
    held->bytes += held->piece[i].bytes;
  }
}

static bool held_plan(Snapshot *snapshot, int64_t rank, const States *states, Error *error) {
  Held *held = &snapshot->held[rank];
  held->piece = calloc((size_t)states->count * STATE_SPANS + 1, sizeof *held->piece);
  if (!held->piece) {
    return error_set(error, 3, "no memory for the names of %d tensors", states->count);
  }
  for (int i = 0; i < states->count; i++) {
    StateSpan span[STATE_SPANS];
    const int count = state_spans(snapshot->session->set, states, &states->at[i], rank, span);
    for (int k = 0; k < count; k++) {
      held->piece[held->count++] = (CopyPiece){.offset = span[k].offset, .bytes = span[k].bytes};
    }
  }
  pieces_merge(held);
  return true;
}

// --- memory ---

// What the plans will yet take of the machine while they run, if they run in its memory.
static int64_t arenas_to_come(const Session *session) {
  int64_t bytes = 0;
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    DeviceFacts facts;
    session->backend->facts(session_device(session, rank), &facts);
    bytes += facts.memory_bytes < 0 ? session_plan(session, rank)->arena_bytes[ARENA_TRANSIENT] : 0;
  }
  return bytes;
}

static bool memory_check(const Snapshot *snapshot, Error *error) {
  const int64_t bytes = snapshot_bytes(snapshot), available = host_memory_available();
  char needed[UNITS_MAX], there[UNITS_MAX];
  if (bytes <= available - arenas_to_come(snapshot->session)) {
    return true;
  }
  return error_set(error, 3, "no memory: %s are needed beside training, and the machine has %s to spare",
                   units_bytes(needed, (double)bytes), units_bytes(there, (double)available));
}

static bool held_map(Snapshot *snapshot, int64_t rank, Error *error) {
  Held *held = &snapshot->held[rank];
  const Backend *backend = snapshot->session->backend;
  void *memory = mmap(NULL, (size_t)held->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return error_set(error, 3, "no memory: %s", strerror(errno));
  }
  held->memory = memory;
  madvise(memory, (size_t)held->bytes, MADV_HUGEPAGE);  // where there are such
  if (!host_memory_populate(memory, held->bytes, error)) {
    return false;
  }
  Error unpinned;
  held->pinned = backend->pin && backend->pin(session_device(snapshot->session, rank), memory, held->bytes, &unpinned);
  return true;
}

static bool memory_map(Snapshot *snapshot, Error *error) {
  Session *session = snapshot->session;
  bool done = memory_check(snapshot, error);
  if (done && session->processes) {
    int64_t *bytes = calloc((size_t)session->ranks, sizeof *bytes);
    char **memory = calloc((size_t)session->ranks, sizeof *memory);
    done = (bytes && memory) || error_set(error, 3, "no memory");
    for (int64_t rank = 0; done && rank < session->ranks; rank++) {
      bytes[rank] = snapshot->held[rank].bytes;
    }
    done = done && processes_hold(session->processes, bytes, memory, error);
    for (int64_t rank = 0; done && rank < session->ranks; rank++) {
      snapshot->held[rank].memory = memory[rank];
    }
    free(bytes);
    free(memory);
    return done;
  }
  for (int64_t rank = 0; done && rank < session->ranks; rank++) {
    done = snapshot->held[rank].bytes == 0 || held_map(snapshot, rank, error);
  }
  return done;
}

bool snapshot_create(Session *session, Snapshot **snapshot, Error *error) {
  States states;
  *snapshot = NULL;
  Snapshot *made = calloc(1, sizeof *made);
  if (!made || !(made->held = calloc((size_t)session->ranks, sizeof *made->held))) {
    free(made);
    return error_set(error, 3, "no memory");
  }
  made->session = session;
  bool done = states_open(session->set, &states, error);
  for (int64_t rank = 0; done && rank < session->ranks; rank++) {
    done = held_plan(made, rank, &states, error);
  }
  states_close(&states);
  if (!done || !memory_map(made, error)) {
    snapshot_destroy(made);
    return false;
  }
  *snapshot = made;
  return true;
}

void snapshot_destroy(Snapshot *snapshot) {
  if (!snapshot) {
    return;
  }
  Session *session = snapshot->session;
  Error ignored;
  snapshot_taken(snapshot, &ignored);  // nothing is copied into memory that is given back
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    Held *held = &snapshot->held[rank];
    if (held->pinned) {
      session->backend->unpin(session_device(session, rank), held->memory);
    }
    if (held->memory && !session->processes) {
      munmap(held->memory, (size_t)held->bytes);
    }
    free(held->piece);
  }
  free(snapshot->held);
  free(snapshot);
}

int64_t snapshot_bytes(const Snapshot *snapshot) {
  int64_t bytes = 0;
  for (int64_t rank = 0; rank < snapshot->session->ranks; rank++) {
    bytes += snapshot->held[rank].bytes;
  }
  return bytes;
}

// --- copying and reading ---

static bool copies_begin(Snapshot *snapshot, Error *error) {
  Session *session = snapshot->session;
  bool done = true;
  for (int64_t rank = 0; done && rank < session->ranks; rank++) {
    const Held *held = &snapshot->held[rank];
    done = session->processes ? processes_copy(session->processes, rank, held->piece, held->count, error)
                              : device_copy(session->backend, session_device(session, rank), held->piece, held->count,
                                            held->memory, error);
  }
  return done && (!session->processes || processes_copying(session->processes, error));
}

bool snapshot_take(Snapshot *snapshot, Error *error) {
  if (!session_wait(snapshot->session, 0, error)) {
    return false;
  }
  snapshot->copying = true;
  if (copies_begin(snapshot, error)) {
    return true;
  }
  Error ignored;
  snapshot_taken(snapshot, &ignored);  // of ranks where it has begun
  return false;
}

bool snapshot_taken(Snapshot *snapshot, Error *error) {
  Session *session = snapshot->session;
  if (!snapshot->copying) {
    return true;
  }
  snapshot->copying = false;
  bool done = !session->processes || processes_copied(session->processes, error);
  for (int64_t rank = 0; done && !session->processes && rank < session->ranks; rank++) {
    done = device_copied(session->backend, session_device(session, rank), error);
  }
  return done;
}

bool snapshot_beside(const Snapshot *snapshot) {
  return snapshot->session->processes ? processes_copy_beside(snapshot->session->processes)
                                      : snapshot->session->backend->copy != NULL;
}

static const char *held_at(void *context, int64_t rank, int64_t offset, int64_t bytes, Error *error) {
  const Snapshot *snapshot = context;
  const Held *held = &snapshot->held[rank];
  int low = 0, high = held->count;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    *(held->piece[middle].offset <= offset ? &low : &high) = middle;
  }
  const CopyPiece *piece = &held->piece[low];
  if (low >= held->count || offset < piece->offset || offset + bytes > piece->offset + piece->bytes) {
    error_set(error, 1, "bytes %lld to %lld of rank %lld are not among those that were copied", (long long)offset,
              (long long)(offset + bytes), (long long)rank);
    return NULL;
  }
  return held->memory + piece->to + (offset - piece->offset);
}

StateReader snapshot_reader(const Snapshot *snapshot) {
  return (StateReader){.set = snapshot->session->set, .at = held_at, .context = (void *)(uintptr_t)snapshot};
}
