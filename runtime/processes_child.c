// processes_child.c: the process of one rank: opens its device and does what it is told.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/processes_internal.h"

enum { WORD_BITS = 28 };

typedef struct {
  Peers peers;
  const Plan *plan;
  const Backend *backend;
  Device *device;
  Shared *shared;
  Error late;  // of writes, which are not answered
  bool failed_late;
  int64_t operations;  // collectives and transfers of all runs
} Child;

// --- what ranks see of each other ---

int64_t peers_rank(const Peers *peers) {
  return peers->rank;
}

int64_t peers_count(const Peers *peers) {
  return peers->processes->count;
}

const PlanSet *peers_plans(const Peers *peers) {
  return peers->processes->set;
}

void *peers_note(const Peers *peers, int64_t rank) {
  return peers->processes->shared[rank].note;
}

PeersWords *peers_words(const Peers *peers) {
  return &peers->processes->shared[peers->rank].words;
}

uint32_t peers_word(ProgramKind program, int64_t number) {
  return (uint32_t)program << WORD_BITS | (uint32_t)number;
}

bool instruction_is_shared(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_COLLECTIVE || instruction->kind == INSTRUCTION_SEND ||
         instruction->kind == INSTRUCTION_RECEIVE;
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
  ssize_t sent;
  while ((sent = send(socket, answer, sizeof *answer, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  if (sent != (ssize_t)sizeof *answer) {
    _exit(1);
  }
}

static void message_receive(int socket, Ask *ask) {
  ssize_t got;
  while ((got = recv(socket, ask, sizeof *ask, 0)) < 0 && errno == EINTR) {
  }
  if (got != (ssize_t)sizeof *ask) {
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
  const RanksFault *what = &child->peers.processes->options.fault;
  const int64_t count = program_shared_count(child->plan, program), before = child->operations;
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
  const DeviceOptions options = {.threads = child->peers.processes->threads,
                                 .peers = child->peers.processes->count > 1 ? &child->peers : NULL,
                                 .rank = child->peers.rank,
                                 .gpu = (int)child->peers.rank,
                                 .record = child->peers.processes->options.record};
  return child->backend->open(child->plan, &options, &child->device, error);
}

static void child_traced(Child *child, int64_t first, Answer *answer) {
  TracedSpan *to = (TracedSpan *)(void *)child->shared->window;
  const TraceSpan *spans = child->backend->traced(child->device, &answer->count);
  for (int64_t i = 0; i < (int64_t)(WINDOW_BYTES / sizeof *to) && first + i < answer->count; i++) {
    to[i] = (TracedSpan){.span = spans[first + i], .formed = spans[first + i].form};
    snprintf(to[i].form, sizeof to[i].form, "%s", to[i].formed ? spans[first + i].form : "");
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

// False: it is not to be answered.
static bool child_do(Child *child, const Ask *ask, Answer *answer) {
  Error *error = &answer->error;
  const Backend *backend = child->backend;
  switch (ask->kind) {
    case ASK_OPEN:
      answer->good = child_open(child, error);
      return true;
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

void child_main(Processes *processes, int64_t rank, int socket) {
  static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};  // the process that started this one decides
  char name[16];
  Child child = {.peers = {processes, rank, socket},
                 .plan = plan_of_rank(processes->set, rank),
                 .backend = processes->inner,
                 .shared = &processes->shared[rank]};
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
    signal(ignored[i], SIG_IGN);
  }
  snprintf(name, sizeof name, "mdl rank %lld", (long long)rank);
  prctl(PR_SET_NAME, name);
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
