// ranks.h: what the ranks of one process share: where they meet, what they send each other, and who failed first.
//
// A rank is a thread with a Device. Ranks of a group meet at a collective: each posts where its memory is, waits until
// all have, reads the memory of the others, and waits once more before it goes on. A message is posted by its sender
// and copied by its receiver, straight out of the sender's memory.
//
// Every wait has a deadline. The first failure of any rank (an error, its thread's end, a deadline, ranks that do not
// agree) is the cause: all others stop at once with its text, status 5, and nothing can be run any more.
#ifndef MDL_RUNTIME_RANKS_H
#define MDL_RUNTIME_RANKS_H

#include "runtime/device.h"

enum { RANKS_MAX = 1024, RANKS_DEADLINE_SECONDS = 60 };

typedef enum {
  RANKS_NO_FAULT,
  RANKS_DIE,   // its thread ends without a word
  RANKS_HANG,  // it stops, and goes on only when the others have given up
  RANKS_SKIP,  // it leaves the collective out
  RANKS_FLIP,  // a bit of what it gives there is turned; where it receives, none
} RanksFaultKind;

typedef struct {  // an aid of tests: what happens to a rank when it comes to its at-th collective or transfer, from 1
  RanksFaultKind kind;
  int64_t rank, at;
} RanksFault;

typedef struct {
  double deadline_seconds;  // of every wait; 0: none
  RanksFault fault;
  const char *record;  // of devices (device.h), or NULL
  uint64_t order;  // threads: each runs its instructions in an order drawn with this seed (cpu/order.h); 0: as listed
} RanksOptions;

// The set must outlive it. All that is needed while running is allocated here.
bool ranks_create(const PlanSet *set, const RanksOptions *options, Ranks **ranks, Error *error);
void ranks_destroy(Ranks *ranks);

int64_t ranks_count(const Ranks *ranks);
uint64_t ranks_order(const Ranks *ranks);
const PlanSet *ranks_plans(const Ranks *ranks);
int64_t ranks_bytes(const Ranks *ranks);  // of the arenas of all ranks together; INT64_MAX if that is too many to say

// Reads "die:RANK:AT", "hang:", "skip:" or "flip:RANK:AT", which is what the variable MDL_FAULT of the environment
// holds.
bool ranks_fault_parse(const char *text, RanksFault *fault);
bool ranks_order_parse(const char *text, uint64_t *order);  // a number, which is what the variable MDL_ORDER holds

// --- of a rank's thread ---

// Around each run of a program. At its end all that it sent is received.
bool ranks_begin(Ranks *ranks, int64_t rank, ProgramKind program, Error *error);
bool ranks_end(Ranks *ranks, int64_t rank, Error *error);

typedef struct {  // ranks that are at one collective together
  void *group;
  int index, count;  // of this rank; of all. count 0: nothing is to be done (a fault)
} Meeting;

// Waits until all ranks of the group are at this collective, in the same call of their program.
bool ranks_meet(Ranks *ranks, int64_t rank, const Instruction *instruction, int64_t call, const void *from, void *to,
                Meeting *meeting, Error *error);
const void *ranks_from(const Meeting *meeting, int index);
void *ranks_to(const Meeting *meeting, int index);
// Waits until all of them are here again: after this, memory of others must not be touched.
bool ranks_meet_again(Ranks *ranks, int64_t rank, const Meeting *meeting, Error *error);

// ranks_send returns at once; *number is which message of its channel that was (0: none, for a fault), and ranks_sent
// waits until it is received. After ranks_receive has waited and returned memory (NULL: a fault, nothing is to be
// done), and it is copied, ranks_received gives it back.
bool ranks_send(Ranks *ranks, int64_t rank, const Instruction *instruction, const void *memory, int64_t *number,
                Error *error);
bool ranks_sent(Ranks *ranks, int64_t rank, const Instruction *instruction, int64_t number, Error *error);
bool ranks_receive(Ranks *ranks, int64_t rank, const Instruction *instruction, const void **memory, Error *error);
bool ranks_received(Ranks *ranks, int64_t rank, const Instruction *instruction, Error *error);

// --- of whoever runs a program twice, while none is run ---

typedef struct {
  const Instruction *instruction;
  uint64_t hash;  // of the bytes
  int64_t order;  // of all that ranks gave: what another rank made of it was given later
} RanksGiven;

typedef struct {  // what a rank gave to collectives and messages, in its order
  RanksGiven *at;
  int64_t count, capacity;
  bool failed;  // no memory for all of it
} RanksGivenList;

// From now on what ranks give is noted in `lists`, one for each rank; NULL: nowhere any longer.
void ranks_note(Ranks *ranks, RanksGivenList *lists);

// --- of whoever looks after the threads ---

void ranks_fail(Ranks *ranks, int64_t rank, const Error *why);  // its run returned an error
void ranks_lost(Ranks *ranks, int64_t rank, const char *how);   // "its thread has ended"
bool ranks_failed(Ranks *ranks, Error *cause);                  // false: none has; *cause is as it was

#endif
