// processes_child.c: the process of one rank: opens its device and does what it is told.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // madvise
#endif
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/host_memory.h"
#include "runtime/processes_internal.h"
#include "runtime/stream.h"

enum { WORD_BITS = 28 };

typedef struct {
  Peers peers;
  RankTask task;
  const Backend *backend;
  Device *device;
  Shared *shared;
  int memory;  // the file that it is mapped of
  char *held;  // of that file too
  int64_t held_bytes;
  Error late;  // of writes, which are not answered
  bool failed_late;
  int64_t operations;  // collectives and transfers of all runs
} Child;

// --- what ranks see of each other ---

int64_t peers_rank(const Peers *peers) {
  return peers->rank;
}

int64_t peers_count(const Peers *peers) {
  return peers->count;
}

void *peers_note(const Peers *peers, int64_t rank) {
  return peers->shared[rank].note;
}

PeersWords *peers_words(const Peers *peers) {
  return &peers->shared[peers->rank].words;
}

uint32_t peers_word(ProgramKind program, int64_t number) {
  return (uint32_t)program << WORD_BITS | (uint32_t)number;
}

int64_t program_shared_count(const Plan *plan, ProgramKind program) {
  int64_t count = 0;
  for (int c = 0; c < plan->programs[program].call_count; c++) {
    const PlanSegment *segment = &plan->segments[plan->programs[program].calls[c].segment];
    for (int i = 0; i < segment->count; i++) {
      count += instruction_is_shared(&segment->instructions[i]);
    }
  }
  return count;
}

// --- messages ---

// The process that started this one has ended, or the socket would work: there is nothing left to do.
static void message_send(int socket, const Answer *answer) {
  if (!stream_send(socket, answer, sizeof *answer, -1)) {
    _exit(1);
  }
}

static void message_receive(int socket, Ask *ask) {
  if (!stream_receive(socket, ask, sizeof *ask)) {
    _exit(1);
  }
}

bool peers_meet(Peers *peers, Error *error) {
  Ask ask;
  message_send(peers->socket, &(Answer){.meets = true});
  message_receive(peers->socket, &ask);
  return ask.kind == ASK_GO_ON || error_set(error, 1, "a rank was told to go on with something else");
}

// --- what it is told ---

static void fault(Child *child, ProgramKind program) {
  const RanksFault *what = &child->task.fault;
  const int64_t count = program_shared_count(child->task.plan, program), before = child->operations;
  child->operations += count > 0 ? count : 1;
  if (what->rank != child->peers.rank || what->at <= before || what->at > child->operations) {
    return;
  }
  if (what->kind == RANKS_DIE) {
    kill(getpid(), SIGKILL);
  }
  while (what->kind == RANKS_HANG) {
    pause();
  }
}

static bool child_open(Child *child, Error *error) {
  const RankTask *task = &child->task;
  const DeviceOptions options = {.threads = task->threads,
                                 .peers = task->ranks > 1 ? &child->peers : NULL,
                                 .rank = task->rank,
                                 .gpu = (int)task->rank,
                                 .record = task->record};
  child->backend = backend_find(task->backend);
  return child->backend ? child->backend->open(task->plan, &options, &child->device, error)
                        : error_set(error, 1, "there is no device '%s' in this build", task->backend);
}

static void instruction_find(const Plan *plan, const Instruction *instruction, TracedSpan *span) {
  const uintptr_t at = (uintptr_t)instruction;
  for (int s = 0; s < plan->segment_count; s++) {
    const PlanSegment *segment = &plan->segments[s];
    const uintptr_t begin = (uintptr_t)segment->instructions;
    if (at >= begin && at < begin + sizeof *segment->instructions * (size_t)segment->count) {
      span->segment = s;
      span->index = (int)((at - begin) / sizeof *segment->instructions);
      return;
    }
  }
}

static void child_traced(Child *child, int64_t first, Answer *answer) {
  TracedSpan *to = (TracedSpan *)(void *)child->shared->window;
  const TraceSpan *spans = child->backend->traced(child->device, &answer->count);
  for (int64_t i = 0; i < (int64_t)(WINDOW_BYTES / sizeof *to) && first + i < answer->count; i++) {
    const TraceSpan *span = &spans[first + i];
    to[i] = (TracedSpan){.lane = span->lane, .begin = span->begin, .end = span->end, .formed = span->form};
    instruction_find(child->task.plan, span->instruction, &to[i]);
    snprintf(to[i].form, sizeof to[i].form, "%s", to[i].formed ? span->form : "");
  }
}

static void child_record(Child *child, int64_t from, Answer *answer) {
  Buffer text = {0};
  if (child->backend->record) {
    child->backend->record(child->device, &text);
  }
  answer->count = text.failed ? 0 : (int64_t)text.length;
  const int64_t left = answer->count - from;
  if (left > 0) {
    memcpy(child->shared->window, text.text + from, (size_t)(left < WINDOW_BYTES ? left : WINDOW_BYTES));
  }
  buffer_free(&text);
}

static void child_write(Child *child, const Ask *ask) {
  Error error;
  if (!child->backend->write(child->device, ask->arena, ask->offset, child->shared->window + ask->window, ask->bytes,
                             &error) &&
      !child->failed_late) {
    child->late = error;
    child->failed_late = true;
  }
}

static bool child_hold(Child *child, const Ask *ask, Error *error) {
  Error unpinned;
  void *mapped = mmap(NULL, (size_t)ask->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, child->memory, (off_t)ask->offset);
  if (mapped == MAP_FAILED) {
    return error_set(error, 3, "no memory that ranks share: %s", strerror(errno));
  }
  madvise(mapped, (size_t)ask->bytes, MADV_HUGEPAGE);  // where there are such
  if (!host_memory_populate(mapped, ask->bytes, error)) {
    munmap(mapped, (size_t)ask->bytes);
    return false;
  }
  if (child->backend->pin) {  // else copying is slower
    child->backend->pin(child->device, mapped, ask->bytes, &unpinned);
  }
  child->held = mapped;
  child->held_bytes = ask->bytes;
  return true;
}

static bool child_copy(Child *child, int count, Error *error) {
  const CopyPiece *pieces = (const CopyPiece *)(const void *)child->shared->window;
  for (int i = 0; i < count; i++) {
    const CopyPiece *piece = &pieces[i];
    if (piece->to < 0 || piece->bytes < 0 || piece->bytes > child->held_bytes - piece->to) {
      return error_set(error, 1, "a piece is copied to where there is no memory for it");
    }
  }
  return device_copy(child->backend, child->device, pieces, count, child->held, error);
}

// False: it is not to be answered.
static bool child_do(Child *child, const Ask *ask, Answer *answer) {
  Error *error = &answer->error;
  const Backend *backend = child->backend;
  switch (ask->kind) {
    case ASK_WRITE:
      child_write(child, ask);
      return false;
    case ASK_READ:
      answer->good = backend->read(child->device, ask->arena, ask->offset, child->shared->window, ask->bytes, error);
      return true;
    case ASK_RUN:
      fault(child, (ProgramKind)ask->number);
      answer->good = backend->run(child->device, (ProgramKind)ask->number, error);
      return true;
    case ASK_WAIT:
      answer->good = backend->wait(child->device, ask->number, error);
      return true;
    case ASK_HOLD:
      answer->good = child_hold(child, ask, error);
      return true;
    case ASK_COPY:
      answer->good = child_copy(child, ask->number, error);
      return true;
    case ASK_COPIED:
      answer->good = device_copied(backend, child->device, error);
      return true;
    case ASK_FACTS:
      backend->facts(child->device, (DeviceFacts *)(void *)child->shared->window);
      return true;
    case ASK_TRACE:
      backend->trace(child->device, ask->number != 0);
      return false;
    case ASK_TRACED:
      child_traced(child, ask->offset, answer);
      return true;
    case ASK_RECORD:
      child_record(child, ask->offset, answer);
      return true;
    case ASK_CLOSE:
      backend->close(child->device);
      _exit(0);
    default:
      return ask->kind == ASK_SETTLE;
  }
}

// Whoever hands it its task sends all of it before it listens.
_Noreturn static void refuse(int socket, const Error *error) {
  char ignored[4096];
  message_send(socket, &(Answer){.error = *error});
  while (stream_receive(socket, ignored, sizeof ignored)) {
  }
  _exit(1);
}

static bool memory_map(Peers *peers, int memory, Error *error) {
  const size_t bytes = (size_t)peers->count * sizeof *peers->shared;
  struct stat file;
  if (fstat(memory, &file) != 0 || file.st_size < (off_t)bytes) {
    return error_set(error, 1, "the memory that ranks share is not for %lld of them", (long long)peers->count);
  }
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  peers->shared = mapped == MAP_FAILED ? NULL : mapped;
  return peers->shared || error_set(error, 3, "no memory that ranks share: %s", strerror(errno));
}

// Builds all that it needs from the bytes of its task.
static void child_begin(Child *child, int64_t rank, int socket, int memory) {
  char name[16], what[64];
  Error error = {0};
  snprintf(name, sizeof name, "mdl rank %lld", (long long)rank);
  snprintf(what, sizeof what, "the task of rank %lld", (long long)rank);
  prctl(PR_SET_NAME, name);
  Arena *arena = arena_create();
  RankTask *task = &child->task;
  bool done = arena || error_set(&error, 3, "no memory");
  done = done && rank_task_receive(socket, arena, what, task, &error);
  done = done && (rank_task_set_environment(task) || error_set(&error, 3, "no memory"));
  child->peers = (Peers){.rank = task->rank, .count = task->ranks, .socket = socket};
  if (!done || !memory_map(&child->peers, memory, &error) || !child_open(child, &error)) {
    refuse(socket, &error);
  }
  child->shared = &child->peers.shared[task->rank];
  child->memory = memory;
}

void child_main(int64_t rank, int socket, int memory) {
  Child child = {0};
  child_begin(&child, rank, socket, memory);
  message_send(socket, &(Answer){.good = true});
  for (;;) {
    Ask ask;
    Answer answer = {.good = true};
    message_receive(socket, &ask);
    if (!child_do(&child, &ask, &answer)) {
      continue;
    }
    if (child.failed_late && answer.good) {
      answer.good = false;
      answer.error = child.late;
    }
    child.failed_late = false;
    message_send(socket, &answer);
  }
}
