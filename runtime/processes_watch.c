// processes_watch.c: waiting for the processes of ranks, what the words that they write say, and their end.
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/processes_internal.h"
#include "runtime/stream.h"

enum {
  SLICES = 8,
  OPEN_SECONDS = 600,
  SEND_SECONDS = 60,
  END_SECONDS = 10,
  WORD_NUMBER = (1 << 28) - 1,
  WORD_PROGRAM_BIT = 28
};
static const double TICK_SECONDS = 0.25;

// --- their end ---

static void pause_for(double seconds) {
  const struct timespec time = {.tv_nsec = (long)(seconds * 1e9)};
  nanosleep(&time, NULL);
}

static int64_t processes_left(Processes *processes) {
  int64_t left = 0;
  for (int64_t r = 0; r < processes->count; r++) {
    Process *process = &processes->process[r];
    if (process->pid > 0 && waitpid(process->pid, NULL, WNOHANG) != 0) {
      process->pid = 0;
    }
    left += process->pid > 0;
  }
  return left;
}

void processes_end(Processes *processes, bool kill_them) {
  static const double step = 0.002;
  for (double waited = 0; processes_left(processes) > 0 && waited < 2 * END_SECONDS; waited += step) {
    if (kill_them || waited >= END_SECONDS) {
      for (int64_t r = 0; r < processes->count; r++) {
        if (processes->process[r].pid > 0) {
          kill(processes->process[r].pid, SIGKILL);
        }
      }
      waited = !kill_them && waited < END_SECONDS ? END_SECONDS : waited;
    }
    pause_for(step);
  }
}

bool processes_usable(Processes *processes, Error *error) {
  return !processes->failed || !ranks_failed(processes->ranks, error);
}

// There is a cause: all end.
static bool give_up(Processes *processes, Error *error) {
  processes->failed = true;
  processes_end(processes, true);
  return !ranks_failed(processes->ranks, error);
}

// --- what is known of a rank's way ---

static const Instruction *shared_at(const Plan *plan, ProgramKind kind, int64_t number) {
  const PlanProgram *program = &plan->programs[kind];
  for (int c = 0; c < program->call_count; c++) {
    const PlanSegment *segment = &plan->segments[program->calls[c].segment];
    for (int i = 0; i < segment->count; i++) {
      if (instruction_is_shared(&segment->instructions[i]) && --number == 0) {
        return &segment->instructions[i];
      }
    }
  }
  return NULL;
}

typedef struct {          // where a rank is on one of its queues
  const Instruction *at;  // NULL: it has come to nothing there
  ProgramKind program;
  int64_t begun, ended;  // the number of the last collective or transfer that has; 0: none
} Way;

static Way way_of(const Processes *processes, int64_t rank, int queue) {
  const PeersWay *words = &processes->shared[rank].words.way[queue];
  const uint32_t ended = words->ended, begun = words->begun & WORD_NUMBER ? words->begun : ended;
  Way way = {.program = (ProgramKind)(begun >> WORD_PROGRAM_BIT), .begun = begun & WORD_NUMBER};
  way.ended = ended >> WORD_PROGRAM_BIT == (uint32_t)way.program ? ended & WORD_NUMBER : 0;
  if (way.program < PROGRAM_COUNT && way.begun > 0) {
    way.at = shared_at(processes->ranks->rank[rank].plan, way.program, way.begun);
  }
  return way;
}

// Messages of this queue that have been posted, or received, by now.
static void observe_messages(Ranks *ranks, int64_t rank, const Way *way) {
  const bool sends = way->at->kind == INSTRUCTION_SEND;
  for (int64_t i = 1; i <= way->begun; i++) {
    const Instruction *other = shared_at(ranks->rank[rank].plan, way->program, i);
    const bool same =
        other && other->kind == way->at->kind && (!sends || other->as.transfer.channel == way->at->as.transfer.channel);
    Mailbox *box = same ? ranks_box(ranks, rank, other) : NULL;
    if (box) {
      box->posted += sends;
      box->taken += !sends && (i < way->begun || i == way->ended);
    }
  }
}

// Whether a way says better than another where a rank is: the earliest in the lists that it is inside of, a message
// that nobody has received yet coming last; or, if it is inside of none, the one that has come furthest.
static bool says_better(const Way *way, const Way *than) {
  const bool inside = way->begun != way->ended, other = than->begun != than->ended;
  const bool sends = inside && way->at->kind == INSTRUCTION_SEND;
  const bool other_sends = other && than->at->kind == INSTRUCTION_SEND;
  return !than->at              ? true
         : inside != other      ? inside
         : !inside              ? way->ended > than->ended
         : sends != other_sends ? other_sends
                                : way->begun < than->begun;
}

static void observe(Processes *processes, int64_t rank) {
  Ranks *ranks = processes->ranks;
  Rank *known = &ranks->rank[rank];
  Way best = {0};
  for (int q = 0; q < PEERS_MAX_WAYS; q++) {
    const Way way = way_of(processes, rank, q);
    if (way.at && way.at->kind != INSTRUCTION_COLLECTIVE) {
      observe_messages(ranks, rank, &way);
    }
    best = way.at && says_better(&way, &best) ? way : best;
  }
  if (best.at) {
    known->inside = best.begun != best.ended;
    known->program = best.program;
    known->at = best.at;
  }
}

static Wait wait_of(Ranks *ranks, int64_t rank) {
  const Instruction *at = ranks->rank[rank].at;
  Wait wait = {.kind = WAIT_NONE};
  if (at->kind == INSTRUCTION_COLLECTIVE) {
    Group *group = ranks->group_of[at->as.collective.mesh][rank];
    for (int i = 0; i < group->count; i++) {
      const Rank *other = &ranks->rank[group->rank[i]];
      group->here[i] = other->inside && other->at->kind == INSTRUCTION_COLLECTIVE &&
                       other->at->as.collective.mesh == at->as.collective.mesh &&
                       (other->at == at || other->plan != ranks->rank[rank].plan);
      if (!group->here[i]) {
        wait = (Wait){.kind = WAIT_GROUP, .group = group, .phase = group->phase};
      }
    }
    return wait;
  }
  Mailbox *box = ranks_box(ranks, rank, at);
  if (box && at->kind == INSTRUCTION_RECEIVE) {
    wait = (Wait){.kind = WAIT_RECEIVE, .box = box, .number = box->taken + 1};
  } else if (box) {
    wait = (Wait){.kind = WAIT_SENT, .box = box, .number = box->posted};
  }
  return wait;
}

static void observe_all(Processes *processes) {
  Ranks *ranks = processes->ranks;
  for (int64_t r = 0; r < processes->count; r++) {
    for (int b = 0; b < ranks->box_count[r]; b++) {
      ranks->box[r][b].posted = ranks->box[r][b].taken = 0;
    }
  }
  for (int64_t r = 0; r < processes->count; r++) {
    observe(processes, r);
  }
  for (int64_t r = 0; r < processes->count; r++) {
    if (ranks->rank[r].inside) {
      ranks->rank[r].wait = wait_of(ranks, r);
    }
  }
}

// --- failures in words ---

static const char *asked_for(AskKind kind) {
  const bool reads = kind == ASK_READ || kind == ASK_COPY || kind == ASK_COPIED;
  return kind == ASK_OPEN                      ? "opening its device"
         : kind == ASK_RUN || kind == ASK_WAIT ? "its run"
         : reads                               ? "reading its memory"
                                               : "writing its memory";
}

// Nothing has moved for the deadline: because of whom?
static void find_cause(Processes *processes, AskKind kind, double seconds) {
  Ranks *ranks = processes->ranks;
  int64_t inside = -1, silent[RANKS_MAX];
  int count = 0;
  observe_all(processes);
  for (int64_t r = 0; r < processes->count; r++) {
    const Process *process = &processes->process[r];
    inside = ranks->rank[r].inside && inside < 0 ? r : inside;
    if (process->due && !process->meets && !ranks->rank[r].inside) {
      silent[count++] = r;
    }
    if (kind != ASK_OPEN && ranks->rank[r].wait.kind != WAIT_NONE && !wait_is_over(&ranks->rank[r].wait)) {
      report_deadline(ranks, r);
      return;
    }
  }
  if (inside >= 0 && count == 0) {
    report_stuck(ranks, inside);
    return;
  }
  for (int64_t r = 0; r < processes->count && count == 0; r++) {
    if (processes->process[r].due) {
      silent[count++] = r;
    }
  }
  report_silent(ranks, silent, count, seconds, asked_for(kind));
}

static bool process_ended(Processes *processes, int64_t rank, Error *error) {
  Process *process = &processes->process[rank];
  char how[128] = "its process has ended";
  int status = 0;
  pid_t waited;
  if (process->pid <= 0) {
    return give_up(processes, error);
  }
  kill(process->pid, SIGKILL);  // its socket is closed, so that it is of no use even if it still lives
  while ((waited = waitpid(process->pid, &status, 0)) < 0 && errno == EINTR) {
  }
  if (waited == process->pid && WIFSIGNALED(status)) {
    snprintf(how, sizeof how, "its process was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  } else if (waited == process->pid) {
    snprintf(how, sizeof how, "its process has ended with status %d", WEXITSTATUS(status));
  }
  process->pid = 0;
  observe_all(processes);
  ranks_lost(processes->ranks, rank, how);
  return give_up(processes, error);
}

// --- waiting ---

bool processes_tell(Processes *processes, int64_t rank, const Ask *ask, Error *error) {
  Process *process = &processes->process[rank];
  if (!processes_usable(processes, error)) {
    return false;
  }
  process->due = ask->kind != ASK_WRITE && ask->kind != ASK_TRACE && ask->kind != ASK_CLOSE && ask->kind != ASK_GO_ON;
  return stream_send(process->socket, ask, sizeof *ask, SEND_SECONDS) || process_ended(processes, rank, error);
}

bool processes_hand(Processes *processes, int64_t rank, const Buffer *task, Error *error) {
  Process *process = &processes->process[rank];
  process->due = true;
  return stream_send(process->socket, task->text, task->length, SEND_SECONDS) || process_ended(processes, rank, error);
}

// All ranks wait for each other: they go on.
static bool meet(Processes *processes, Error *error) {
  for (int64_t r = 0; r < processes->count; r++) {
    if (!processes->process[r].meets) {
      return true;
    }
  }
  for (int64_t r = 0; r < processes->count; r++) {
    processes->process[r].meets = false;
    if (!processes_tell(processes, r, &(Ask){.kind = ASK_GO_ON}, error)) {
      return false;
    }
    processes->process[r].due = true;
  }
  return true;
}

static bool answer_take(Processes *processes, int64_t rank, AskKind kind, Error *error) {
  Process *process = &processes->process[rank];
  const ssize_t got = recv(process->socket, (char *)&process->answer + process->got,
                           sizeof process->answer - process->got, MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
    return process_ended(processes, rank, error);
  }
  process->got += got > 0 ? (size_t)got : 0;
  if (process->got < sizeof process->answer) {
    return true;
  }
  process->got = 0;
  if (process->answer.meets) {
    process->meets = true;
    return meet(processes, error);
  }
  process->due = false;
  process->used = 0;
  process->posted = 0;
  if (process->answer.good || (kind != ASK_OPEN && kind != ASK_RUN && kind != ASK_WAIT)) {
    return true;
  }
  observe_all(processes);
  if (kind == ASK_OPEN) {
    ranks_poison(processes->ranks, "%s", process->answer.error.text);
    processes->ranks->cause.status = process->answer.error.status;
  } else {
    for (int64_t r = 0; r < processes->count; r++) {  // its run may have failed because of one that is lost
      siginfo_t gone = {0};
      if (waitid(P_PID, (id_t)processes->process[r].pid, &gone, WEXITED | WNOHANG | WNOWAIT) == 0 && gone.si_pid) {
        return process_ended(processes, r, error);
      }
    }
    ranks_fail(processes->ranks, rank, &process->answer.error);
  }
  return give_up(processes, error);
}

static bool has_moved(Processes *processes) {
  bool moved = false;
  for (int64_t r = 0; r < processes->count; r++) {
    for (int q = 0; q < PEERS_MAX_WAYS; q++) {
      PeersWay *seen = &processes->process[r].seen.way[q], *way = &processes->shared[r].words.way[q];
      const uint32_t begun = way->begun, ended = way->ended;
      moved |= seen->begun != begun || seen->ended != ended;
      seen->begun = begun;
      seen->ended = ended;
    }
  }
  return moved;
}

static int64_t answers_due(const Processes *processes) {
  int64_t due = 0;
  for (int64_t r = 0; r < processes->count; r++) {
    due += processes->process[r].due;
  }
  return due;
}

// What an answer said that is not the end of all.
static bool answers_good(const Processes *processes, Error *error) {
  for (int64_t r = 0; r < processes->count; r++) {
    if (!processes->process[r].answer.good) {
      *error = processes->process[r].answer.error;
      return false;
    }
  }
  return true;
}

// The deadline passes in ticks, of which a process that was stopped for a while (Ctrl-Z) loses one.
bool processes_await(Processes *processes, AskKind kind, Error *error) {
  const double asked = processes->options.deadline_seconds;
  const bool slow = kind == ASK_OPEN || kind == ASK_HOLD;  // memory of the host may be gigabytes
  const double deadline = asked > 0 && slow && asked < OPEN_SECONDS ? OPEN_SECONDS : asked;
  const double tick = deadline > 0 && deadline / SLICES < TICK_SECONDS ? deadline / SLICES : TICK_SECONDS;
  double quiet = 0;
  for (int64_t r = 0; r < processes->count; r++) {
    processes->process[r].answer.good |= !processes->process[r].due;
  }
  has_moved(processes);
  while (answers_due(processes) > 0) {
    const int ready = poll(processes->polled, (nfds_t)processes->count, (int)(tick * 1000) + 1);
    quiet = ready != 0 || has_moved(processes) ? 0 : quiet + tick;
    for (int64_t r = 0; r < processes->count; r++) {
      if (ready > 0 && processes->polled[r].revents && !answer_take(processes, r, kind, error)) {
        return false;
      }
    }
    if (deadline > 0 && quiet >= deadline) {
      find_cause(processes, kind, deadline);
      return give_up(processes, error);
    }
  }
  return answers_good(processes, error);
}
