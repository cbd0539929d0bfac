// order.c: see order.h.
#include "runtime/cpu/order.h"

#include "base/array.h"
#include "base/map.h"
#include "base/mix.h"

enum { RUN_MOST = 32 };  // of instructions of one queue, one after the other

typedef struct {
  const Plan *plan;
  PlanInstances all;
  int queues;
  int *head, *last;  // by queue: the next of it, and the one before that, or -1
  bool *done;        // by instance; of a SEND: its message is received
  int *order, count;
} Stage;

typedef struct {
  int stage, instance;
} Posted;

typedef struct {
  int received;
  ARRAY(Posted) posted;
} Channel;

typedef struct {
  Arena *arena;
  Stage *stage;
  Map channel_of;  // its number: index of channels
  ARRAY(Channel) channels;
} Draw;

static const Instruction *instruction_of(const Stage *stage, ProgramKind program, int instance) {
  const PlanInstance *at = &stage->all.at[instance];
  return &stage->plan->segments[stage->plan->programs[program].calls[at->call].segment].instructions[at->instruction];
}

static Channel *channel_of(Draw *draw, const Instruction *instruction) {
  const uint64_t number = (uint64_t)instruction->as.transfer.channel;
  int64_t at = map_get_or(&draw->channel_of, number, -1);
  if (at < 0) {
    at = draw->channels.count;
    map_put(&draw->channel_of, number, at);
    array_push(draw->arena, &draw->channels, (Channel){0});
  }
  return &draw->channels.at[at];
}

// The next instance of a queue from there on, or `count`.
static int next_of(const PlanInstances *all, int queue, int from) {
  while (from < all->count && all->at[from].queue != queue) {
    from++;
  }
  return from;
}

static Stage stage_open(Arena *arena, const Plan *plan, const PlanWaits *waits, ProgramKind program) {
  Stage stage = {.plan = plan, .queues = waits->queue_count};
  stage.all = plan_instances(arena, plan, waits, program);
  stage.head = ARENA_ARRAY(arena, int, stage.queues);
  stage.last = ARENA_ARRAY(arena, int, stage.queues);
  stage.done = ARENA_ARRAY(arena, bool, stage.all.count + 1);
  stage.order = ARENA_ARRAY(arena, int, stage.all.count + 1);
  for (int q = 0; q < stage.queues; q++) {
    stage.head[q] = next_of(&stage.all, q, 0);
    stage.last[q] = -1;
  }
  return stage;
}

// Runs the next of a queue, if it has one that waits for nothing.
static bool step(Draw *draw, int number, ProgramKind program, int queue) {
  Stage *stage = &draw->stage[number];
  const int at = stage->head[queue], last = stage->last[queue];
  bool ready = at < stage->all.count && (last < 0 || stage->done[last]);
  for (int w = 0; ready && w < stage->all.at[at].wait_count; w++) {
    ready = stage->done[stage->all.at[at].wait[w]];
  }
  if (!ready) {
    return false;
  }
  const Instruction *instruction = instruction_of(stage, program, at);
  if (instruction->kind == INSTRUCTION_SEND) {
    array_push(draw->arena, &channel_of(draw, instruction)->posted, ((Posted){number, at}));
  } else if (instruction->kind == INSTRUCTION_RECEIVE) {
    Channel *channel = channel_of(draw, instruction);
    if (channel->received == channel->posted.count) {
      return false;
    }
    const Posted *sent = &channel->posted.at[channel->received++];
    draw->stage[sent->stage].done[sent->instance] = true;
  }
  stage->done[at] = instruction->kind != INSTRUCTION_SEND;
  stage->order[stage->count++] = at;
  stage->last[queue] = at;
  stage->head[queue] = next_of(&stage->all, queue, at + 1);
  return true;
}

static int *program_draw(Arena *arena, const PlanSet *set, PlanWaits *const *waits, int stage, ProgramKind program,
                         uint64_t seed) {
  Draw draw = {.arena = arena, .stage = ARENA_ARRAY(arena, Stage, set->count), .channel_of = map_create(arena)};
  int *stage_of, *queue_of, ways = 0, left = 0;  // all queues of all stages
  for (int s = 0; s < set->count; s++) {
    draw.stage[s] = stage_open(arena, set->plans[s], waits[s], program);
    ways += draw.stage[s].queues;
    left += draw.stage[s].all.count;
  }
  stage_of = ARENA_ARRAY(arena, int, ways);
  queue_of = ARENA_ARRAY(arena, int, ways);
  for (int s = 0, way = 0; s < set->count; s++) {
    for (int q = 0; q < draw.stage[s].queues; q++, way++) {
      stage_of[way] = s;
      queue_of[way] = q;
    }
  }
  for (uint64_t drawn = 1; left > 0; drawn++) {
    const uint64_t number = mix_word(seed, drawn);
    int way = (int)(number % (uint64_t)ways), tried = 0;
    while (tried < ways && !step(&draw, stage_of[way], program, queue_of[way])) {
      way = (way + 1) % ways;
      tried++;
    }
    if (tried == ways) {
      return NULL;
    }
    left--;
    for (uint64_t run = (number >> 32) % RUN_MOST; run > 0 && step(&draw, stage_of[way], program, queue_of[way]);
         run--) {
      left--;
    }
  }
  return draw.stage[stage].order;
}

static PlanWaits **waits_of(Arena *arena, const PlanSet *set) {
  PlanWaits **waits = ARENA_ARRAY(arena, PlanWaits *, set->count);
  for (int s = 0; s < set->count; s++) {
    waits[s] = plan_waits(arena, set->plans[s]);
  }
  return waits;
}

int *order_draw(Arena *arena, const PlanSet *set, int stage, ProgramKind program, uint64_t seed) {
  return program_draw(arena, set, waits_of(arena, set), stage, program, seed);
}

void orders_draw(Arena *arena, const PlanSet *set, int stage, uint64_t seed, int *order[PROGRAM_COUNT]) {
  PlanWaits *const *waits = waits_of(arena, set);
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    order[p] = program_draw(arena, set, waits, stage, (ProgramKind)p, seed);
  }
}
