// processes_internal.h: what the two sides of processes.h say to each other, and the memory that they share.
#ifndef MDL_RUNTIME_PROCESSES_INTERNAL_H
#define MDL_RUNTIME_PROCESSES_INTERNAL_H

#include <poll.h>

#include "runtime/peers.h"
#include "runtime/processes.h"
#include "runtime/ranks_internal.h"

enum { WINDOW_BYTES = 4 << 20, FORM_MAX = 96 };
enum { POSTED_MAX = 32 };  // asks that are not answered, of which a socket holds more

typedef enum {
  ASK_OPEN,
  ASK_GO_ON,   // all ranks are where this one waits; not answered
  ASK_WRITE,   // `bytes` of the window from `window` on; not answered: an error comes with the next answer
  ASK_READ,    // answered with `bytes` at the beginning of the window
  ASK_SETTLE,  // nothing: an answer means that all before it is done
  ASK_RUN,
  ASK_WAIT,
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
  TraceSpan span;  // instructions have the same addresses in all processes
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
  PeersWords seen;
  struct Device *device;
} Process;

struct Processes {
  const PlanSet *set;
  const Backend *inner;
  Backend backend;
  Ranks *ranks;  // what is known of them in the words of ranks_report.c
  RanksOptions options;
  int threads;  // of each rank
  int64_t count;
  Process *process;
  struct pollfd *polled;
  Shared *shared;  // [count]
  bool failed;
};

struct Peers {
  Processes *processes;
  int64_t rank;
  int socket;
};

// processes_child.c: the whole life of a child after the fork.
_Noreturn void child_main(Processes *processes, int64_t rank, int socket);

// processes_watch.c
bool processes_tell(Processes *processes, int64_t rank, const Ask *ask, Error *error);
// Until all ranks that an answer is due of have answered. False: one of the answers is an error, or all is over.
bool processes_await(Processes *processes, AskKind kind, Error *error);
bool processes_usable(Processes *processes, Error *error);  // false: the cause
void processes_end(Processes *processes, bool kill_them);   // waits for all, and kills those that do not end

#endif
