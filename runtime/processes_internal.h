// processes_internal.h: what the two sides of processes.h say to each other, and the memory that they share.
//
// Each side of a socket says what it has to say in structures of this header: both are the same build. What a rank is
// handed first is in bytes that know of no build (rank_task.h).
#ifndef MDL_RUNTIME_PROCESSES_INTERNAL_H
#define MDL_RUNTIME_PROCESSES_INTERNAL_H

#include <poll.h>

#include "runtime/peers.h"
#include "runtime/processes.h"
#include "runtime/rank_task.h"
#include "runtime/ranks_internal.h"

enum { WINDOW_BYTES = 4 << 20, FORM_MAX = 96 };
enum { POSTED_MAX = 32 };  // asks that are not answered, of which a socket holds more

typedef enum {
  ASK_OPEN,    // the task itself: answered when the device is open
  ASK_GO_ON,   // all ranks are where this one waits; not answered
  ASK_WRITE,   // `bytes` of the window from `window` on; not answered: an error comes with the next answer
  ASK_READ,    // answered with `bytes` at the beginning of the window
  ASK_SETTLE,  // nothing: an answer means that all before it is done
  ASK_RUN,
  ASK_WAIT,
  ASK_HOLD,    // maps `bytes` of the shared file from `offset` on
  ASK_COPY,    // begins to copy `number` CopyPieces, which the window holds, into what is held
  ASK_COPIED,  // answered when all copies are done
  ASK_FACTS,   // answered with DeviceFacts in the window
  ASK_TRACE,   // not answered
  ASK_TRACED,  // the spans from `offset` on: answered with TracedSpans in the window
  ASK_RECORD,  // the text from `offset` on: answered with at most the window of it
  ASK_CLOSE,   // not answered: the process ends
} AskKind;

typedef struct {
  AskKind kind;
  int number;  // the program of a run, how far a wait may stay behind, whether to trace
  ArenaClass arena;
  int64_t offset, bytes, window;
} Ask;

typedef struct {
  bool meets;  // not an answer: the rank waits for all others
  bool good;
  int64_t count;  // TRACED: all there are; RECORD: its length
  Error error;
} Answer;

typedef struct {
  int segment, index;  // of the instruction
  int lane;
  double begin, end;
  bool formed;
  char form[FORM_MAX];
} TracedSpan;

typedef struct {  // of one rank, shared
  PeersWords words;
  char note[PEERS_NOTE_BYTES];
  char window[WINDOW_BYTES];
} Shared;

typedef struct {
  pid_t pid;  // 0: not there, or no more
  int socket;
  bool due;      // an answer is
  bool meets;    // waits for all others
  int64_t used;  // bytes of the window that hold what was written
  int posted;    // writes since the last answer
  Answer answer;
  size_t got;  // bytes of an answer that has not come whole
  PeersWords seen;
  struct Device *device;
} Process;

// The thread that starts the processes, which end with the thread they were started by: it is there as long as they
// are, whichever thread has asked for them.
typedef struct {
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t moved;
  bool there, tried, done, ends;
  Error error;
} Keeper;

struct Processes {
  const PlanSet *set;
  Backend backend;
  Ranks *ranks;  // what is known of them in the words of ranks_report.c
  RanksOptions options;
  int threads;  // of each rank
  int64_t count;
  Process *process;
  struct pollfd *polled;
  Shared *shared;  // [count]
  int memory;      // the file that `shared`, and behind it what is held for ranks, is mapped of; -1: none
  char *held;      // of all ranks, or NULL
  int64_t held_bytes;
  bool beside;  // copies go on beside runs
  bool failed;
  Keeper keeper;
};

struct Peers {
  int64_t rank, count;
  int socket;
  Shared *shared;  // [count]
};

// processes_start.c
int processes_memory(size_t bytes);  // a file of so many bytes of memory; -1: errno says why
// `memory`: of processes_memory, with a Shared for each rank.
bool process_start(int64_t rank, int memory, pid_t *pid, int *socket, Error *error);

// processes_child.c: the whole life of the process of a rank.
_Noreturn void child_main(int64_t rank, int socket, int memory);

// processes_watch.c
bool processes_hand(Processes *processes, int64_t rank, const Buffer *task, Error *error);
bool processes_tell(Processes *processes, int64_t rank, const Ask *ask, Error *error);
// Until all ranks that an answer is due of have answered. False: one of the answers is an error, or all is over.
bool processes_await(Processes *processes, AskKind kind, Error *error);
bool processes_usable(Processes *processes, Error *error);  // false: the cause
void processes_end(Processes *processes, bool kill_them);   // waits for all, and kills those that do not end

#endif
