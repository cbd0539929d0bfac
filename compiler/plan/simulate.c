// simulate.c: a training step as its plans and nominal rates have it; see exposure.h.
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "compiler/plan/exposure.h"
#include "compiler/plan/waits.h"

typedef struct {  // of one stage
  const Plan *plan;
  PlanInstances all;
  int next;
  double *end;        // of each instance
  double *queue;      // when it is free
  int64_t *messages;  // met so far, by channel
  PlanSpans spans;
} Rank;

typedef struct {
  Arena *arena;
  const PlanRates *rates;
  Rank *rank;
  int count;
  Map by_message;
  ARRAY(double) arrivals;
} Simulation;

// --- messages ---

typedef struct {
  int from, to, channel;
  int64_t number;
} MessageKey;

static MessageKey message_of(const Rank *rank, const Instruction *instruction) {
  const Transfer *transfer = &instruction->as.transfer;
  const bool receives = instruction->kind == INSTRUCTION_RECEIVE;
  MessageKey key;
  memset(&key, 0, sizeof key);
  key.from = receives ? transfer->peer : rank->plan->stage;
  key.to = receives ? rank->plan->stage : transfer->peer;
  key.channel = transfer->channel;
  key.number = rank->messages[transfer->channel];
  return key;
}

// When a message arrives, or -1: it has not been sent yet.
static double arrival_of(const Simulation *s, const Rank *rank, const Instruction *instruction) {
  const MessageKey key = message_of(rank, instruction);
  const int64_t at = map_get_bytes_or(&s->by_message, &key, sizeof key, -1);
  return at < 0 ? -1 : s->arrivals.at[at];
}

static double send(Simulation *s, Rank *rank, const Instruction *instruction, double begin) {
  const MessageKey key = message_of(rank, instruction);
  const double arrival = begin + rates_seconds(s->rates, instruction);
  map_put_bytes(&s->by_message, &key, sizeof key, s->arrivals.count);
  array_push(s->arena, &s->arrivals, arrival);
  rank->messages[instruction->as.transfer.channel]++;
  return arrival;
}

// --- one instance ---

// When an instruction that begins then is over.
static double run(Simulation *s, Rank *rank, const Instruction *instruction, double begin) {
  switch (instruction->kind) {
    case INSTRUCTION_SEND:
      return send(s, rank, instruction, begin);
    case INSTRUCTION_RECEIVE: {
      const double arrival = arrival_of(s, rank, instruction);
      rank->messages[instruction->as.transfer.channel]++;
      return arrival > begin ? arrival : begin;
    }
    default:
      return begin + rates_seconds(s->rates, instruction);
  }
}

static const Instruction *instruction_of(const Rank *rank, const PlanInstance *instance) {
  const PlanCall *call = &rank->plan->programs[PROGRAM_TRAIN].calls[instance->call];
  return &rank->plan->segments[call->segment].instructions[instance->instruction];
}

// Goes on until a message is missing; whether it came on at all.
static bool go_on(Simulation *s, Rank *rank) {
  const int before = rank->next;
  for (; rank->next < rank->all.count; rank->next++) {
    const PlanInstance *instance = &rank->all.at[rank->next];
    const Instruction *instruction = instruction_of(rank, instance);
    double begin = rank->queue[instance->queue];
    if (instruction->kind == INSTRUCTION_RECEIVE && arrival_of(s, rank, instruction) < 0) {
      break;
    }
    for (int w = 0; w < instance->wait_count; w++) {
      const double awaited = rank->end[instance->wait[w]];
      begin = awaited > begin ? awaited : begin;
    }
    const double end = run(s, rank, instruction, begin);
    rank->queue[instance->queue] = rank->end[rank->next] = end;
    rank->spans.at[rank->spans.count++] = (PlanSpan){instruction, begin, end};
  }
  return rank->next > before;
}

static void rank_open(Simulation *s, Rank *rank, const Plan *plan) {
  const PlanWaits *waits = plan_waits(s->arena, plan);
  int channels = 0;
  for (int i = 0; i < plan->segment_count; i++) {
    for (int j = 0; j < plan->segments[i].count; j++) {
      const Instruction *at = &plan->segments[i].instructions[j];
      const bool transfer = instruction_is_shared(at) && at->kind != INSTRUCTION_COLLECTIVE;
      channels = transfer && at->as.transfer.channel >= channels ? at->as.transfer.channel + 1 : channels;
    }
  }
  rank->plan = plan;
  rank->all = plan_instances(s->arena, plan, waits, PROGRAM_TRAIN);
  rank->queue = ARENA_ARRAY(s->arena, double, waits->queue_count);
  rank->end = ARENA_ARRAY(s->arena, double, rank->all.count + 1);
  rank->messages = ARENA_ARRAY(s->arena, int64_t, channels + 1);
  rank->spans.at = ARENA_ARRAY(s->arena, PlanSpan, rank->all.count + 1);
}

PlanSpans *plan_simulate(Arena *arena, const PlanSet *set, const PlanRates *rates) {
  Simulation s = {.arena = arena, .rates = rates, .count = set->count, .by_message = map_create(arena)};
  PlanSpans *spans = ARENA_ARRAY(arena, PlanSpans, set->count + 1);
  s.rank = ARENA_ARRAY(arena, Rank, set->count + 1);
  for (int i = 0; i < set->count; i++) {
    rank_open(&s, &s.rank[i], set->plans[i]);
  }
  for (bool moves = true; moves;) {
    moves = false;
    for (int i = 0; i < set->count; i++) {
      moves |= go_on(&s, &s.rank[i]);
    }
  }
  for (int i = 0; i < set->count; i++) {
    spans[i] = s.rank[i].spans;
  }
  return spans;
}
