// ranks_internal.h: what ranks.c keeps and ranks_report.c puts into words.
#ifndef MDL_RUNTIME_RANKS_INTERNAL_H
#define MDL_RUNTIME_RANKS_INTERNAL_H

#include <pthread.h>

#include "runtime/ranks.h"

typedef struct {
  const Instruction *instruction;
  int64_t call, run;
  const void *from;
  void *to;
} Post;

typedef struct {  // ranks whose coordinates differ along some mesh axes alone
  int count, arrived;
  int64_t *rank;
  Post *post;
  bool *here;              // arrived for the meeting that is coming about
  _Atomic uint64_t phase;  // meetings that have come about
} Group;

typedef struct {
  const Instruction *instruction;
  const void *memory;
} Message;

typedef struct {  // messages of one channel from one rank to one other
  int channel;
  int64_t from, to;  // ranks
  int64_t capacity, posted, taken;
  Message *message;  // [number % capacity]
} Mailbox;

typedef enum { WAIT_NONE, WAIT_GROUP, WAIT_RECEIVE, WAIT_SENT } WaitKind;

typedef struct {
  WaitKind kind;
  Group *group;
  uint64_t phase;  // over when the group has another
  Mailbox *box;
  int64_t number;  // RECEIVE: over when so many are posted; SENT: taken
} Wait;

typedef struct {
  const Plan *plan;
  int coordinate[PLAN_MAX_MESH];
  pthread_cond_t wake;
  Wait wait;
  const Instruction *at;  // the collective or transfer that it is in, or was in last
  bool inside;            // it is
  int64_t operations;     // collectives and transfers it came to
  int64_t run;            // programs it has begun
  bool running;
  ProgramKind program;
} Rank;

struct Ranks {
  Arena *arena;
  const PlanSet *set;
  const Plan *first;
  RanksOptions options;
  int64_t count;
  bool spins;  // there is a core for each rank
  Rank *rank;
  Group ***group_of;  // [set of mesh axes][rank]; NULL for sets that no collective has
  int *box_count;     // [rank], of the messages it sends
  Mailbox **box;      // [rank]
  pthread_mutex_t mutex;
  RanksGivenList *given;  // by rank; NULL: nobody asks for it
  _Atomic bool failed;
  Error cause;
};

// All of them with the mutex held. Each makes the cause, unless there is one.
void report_deadline(Ranks *ranks, int64_t rank);  // this one has waited for too long
void report_divergence(Ranks *ranks, int64_t a, const Instruction *at_a, int64_t b, const Instruction *at_b);
void report_ended(Ranks *ranks, int64_t rank, int64_t waiting);  // it has ended what `waiting` still runs
void report_lost(Ranks *ranks, int64_t rank, const char *how);
// Of ranks in processes of their own: these have not answered what they were asked; this one's wait should be over.
void report_silent(Ranks *ranks, const int64_t *silent, int count, double seconds, const char *asked);
void report_stuck(Ranks *ranks, int64_t rank);
void report_error(Ranks *ranks, int64_t rank, const Error *why);

void ranks_poison(Ranks *ranks, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The box of the messages of a SEND or RECEIVE of this rank; NULL: the rank they come from never sends them.
Mailbox *ranks_box(const Ranks *ranks, int64_t rank, const Instruction *instruction);

// This rank gives `count` elements: they are noted where somebody asks, and a bit is turned where the fault says so.
// Without the mutex.
void ranks_give(Ranks *ranks, int64_t rank, const Instruction *instruction, const void *memory, ElementType type,
                int64_t count);

// Whether this rank is one that a wait is for.
bool wait_is_for(const Ranks *ranks, const Wait *wait, int64_t rank);
bool wait_is_over(const Wait *wait);

#endif
