// schedule.h: which stage of a pipeline does what when: pure functions of a few numbers, no graph.
//
// Virtual stage k = chunk * stages + stage holds the k-th part of the layers, as in Megatron-LM's interleaving. A
// microbatch goes FORWARD through the virtual stages in ascending order, BACKWARD in descending order. Zero-bubble
// cuts the backward in two: BACKWARD is of the inputs, WEIGHTS of the weights, which nobody waits for.
//
// In every schedule FORWARD, BACKWARD and WEIGHTS of one chunk come in ascending order of microbatches: gradients are
// summed in one order whatever the schedule, and channels between stages keep their order.
#ifndef MDL_COMPILER_PASS_SCHEDULE_H
#define MDL_COMPILER_PASS_SCHEDULE_H

#include "base/arena.h"
#include "compiler/spec/spec.h"

typedef enum { ACTION_FORWARD, ACTION_BACKWARD, ACTION_WEIGHTS, ACTION_KIND_COUNT } ActionKind;

typedef struct {
  ActionKind kind;
  int chunk, microbatch;
} Action;

typedef struct {  // of one stage, in order
  int count;
  Action *at;
} ActionList;

typedef struct {
  ScheduleKind kind;
  int stages, chunks, microbatches;
  bool weights;        // there are WEIGHTS actions
  ActionList *action;  // [stages]
} Schedule;

// Seconds of one microbatch for each virtual stage, stages * chunks of them. NULL: 1. Without WEIGHTS actions,
// BACKWARD takes both backward and weights.
typedef struct {
  const double *forward, *backward, *weights;
  double latency;  // of a message between stages
} ScheduleCosts;

typedef struct {
  double start, end;
} ActionTime;

typedef struct {
  ActionTime **action;  // [stage][as in Schedule]
  double makespan;
  double *busy;   // [stage] seconds
  double *idle;   // [stage] share of the makespan
  double bubble;  // idle share of all stages together
  double ideal;   // seconds if no stage ever waited: the mean of busy
} ScheduleTimes;

const char *schedule_name(ScheduleKind kind);  // in words: one forward, one backward

// Why there is no such schedule, or NULL. chunks is 1 but for interleaved, whose microbatches are a multiple of stages.
const char *schedule_impossible(ScheduleKind kind, int stages, int chunks, int microbatches);

// gpipe: all forwards, then all backwards (Huang et al. 2019).
// one_f_one_b: stages - 1 - stage forwards to warm up, then one of each (PipeDream-flush, Narayanan et al. 2021).
// interleaved: the same over several chunks, in Megatron-LM's order.
// zero_bubble: ZB-H1 (Qi et al. 2023): 1F1B with WEIGHTS where a stage would wait, and before a FORWARD that would hold
// more than `stages` microbatches: on no stage more than the first one of 1F1B. `costs`, which may be NULL, say where a
// stage would wait; the other schedules do not look at them.
// The schedule must be possible.
Schedule *schedule_make(Arena *arena, ScheduleKind kind, int stages, int chunks, int microbatches,
                        const ScheduleCosts *costs);

// What is wrong with a schedule, or NULL: every action once, in ascending order of microbatches for each chunk, and all
// stages come to their end when each action waits for what it needs. Scratch memory and the text are in the arena.
const char *schedule_check(Arena *arena, const Schedule *schedule);

// The most microbatches whose saved values a chunk of a stage holds at once, from the FORWARD to the end of the last
// action that needs them, such that microbatch % lanes is free when a FORWARD begins.
int schedule_lanes(const Schedule *schedule, int stage, int chunk);

// Whether microbatch % lanes is always free there. schedule_lanes is the least for which it is.
bool schedule_lanes_fit(const Schedule *schedule, int stage, int chunk, int lanes);

// A message between virtual stages, from the end of one action to the beginning of another of the same microbatch.
// Those of a FORWARD to the next one's FORWARD, and of a BACKWARD to the BACKWARD before it, are in every schedule: no
// jumps.
typedef struct {
  int from, to;  // virtual stages
  ActionKind sends, receives;
} ScheduleJump;

// By virtual stage, schedule_lanes or more: so many that every jump finds the buffer of its lane free before what waits
// for it could wait for ever. Jumps must go from what is earlier in a microbatch to what is later.
int *schedule_lanes_all(Arena *arena, const Schedule *schedule, const ScheduleJump *jumps, int count);

// When everything happens if each action begins as soon as its stage and what it needs are there. The schedule must
// pass schedule_check.
ScheduleTimes schedule_simulate(Arena *arena, const Schedule *schedule, const ScheduleCosts *costs);

double schedule_cost(const Schedule *schedule, const ScheduleCosts *costs, int stage, const Action *action);

// Cuts `count` iterations, of cost[i] each, into `parts` runs of at least one: sizes[parts]. `before` is added to the
// first and `after` to the last; the largest sum is least, then the sums are as even as can be, then larger runs come
// later, since earlier stages hold more microbatches. False: count < parts.
bool split_layers(Arena *arena, const double *cost, int count, int parts, double before, double after, int *sizes);

#endif
