// waits.h: what runs together, and what waits for what.
//
// What a plan computes is what its lists compute, run one instruction after the other. Each instruction has a queue:
// that of arithmetic, or, beside it, that of a communicator whose collectives stand aside, of what is sent on a
// channel, of all messages received, of copies to the host, or of copies from it. A queue keeps its order. Between
// queues an instruction waits for those before it that touch the same bytes, where one of the two writes; nothing else
// is ordered. So waits are not part of a plan, where one could be wrong: they follow from the bytes, here, for the
// backends, for the verifier and for reports alike. Waits go back in the lists, so no plan can wait for itself, and
// ranks that run one list can wait for each other only as they would one instruction after the other.
//
// A SEND has ended when its message is received, which is for other stages to say: so what is sent on one channel never
// waits for what is sent on another. A RECEIVE waits for all arithmetic and all RECEIVEs before it. It could begin as
// soon as its memory is free, but while it waits for its message it takes room on a GPU: so one does at a time, and
// none before its turn.
#ifndef MDL_COMPILER_PLAN_WAITS_H
#define MDL_COMPILER_PLAN_WAITS_H

#include "compiler/plan/plan.h"

// Which earlier run of another instruction is waited for: in the same call, or in the last call of its segment before
// this one, whatever it was, or that has the same lane, or the same slot. WAIT_ARITHMETIC: all arithmetic before it.
typedef enum { WAIT_THIS_CALL, WAIT_LAST_CALL, WAIT_SAME_LANE, WAIT_SAME_SLOT, WAIT_ARITHMETIC } WaitWhich;

typedef struct {
  int segment, instruction;  // for which; of WAIT_ARITHMETIC: -1
  WaitWhich which;
} PlanWait;

typedef struct {
  int count;
  PlanWait *at;
  bool awaited;  // others wait for this one
} PlanWaitList;

typedef struct {
  int queue_count;
  const Instruction **first;  // of each queue; of 0, that of arithmetic: NULL
  int **queue;                // [segment][instruction]
  PlanWaitList **of;          // [segment][instruction]
} PlanWaits;

// Of a plan that has been verified, on all ranks of its stage alike.
PlanWaits *plan_waits(Arena *arena, const Plan *plan);

// "arithmetic", "collectives over dp x tp", "messages sent to stage 1, channel 3", "copies to the host".
enum { QUEUE_NAME_MAX = 128 };
void plan_queue_name(const Plan *plan, const PlanWaits *waits, int queue, char name[QUEUE_NAME_MAX]);

typedef struct {  // one run of an instruction, in one run of a program
  int call, instruction, queue;
  int wait_count;
  int *wait;  // which earlier ones it waits for, as places in the list
} PlanInstance;

typedef struct {
  int count;
  PlanInstance *at;  // in the order of the calls and their lists
} PlanInstances;

// waits NULL: none, and one queue.
PlanInstances plan_instances(Arena *arena, const Plan *plan, const PlanWaits *waits, ProgramKind program);

#endif
