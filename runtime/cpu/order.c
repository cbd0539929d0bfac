// order.c: see order.h.
#include "runtime/cpu/order.h"

#include "base/mix.h"

enum { RUN_MOST = 32 };  // of instructions of one queue, one after the other

static bool is_ready(const PlanInstance *instance, const bool *done) {
  bool ready = true;
  for (int i = 0; i < instance->wait_count; i++) {
    ready &= done[instance->wait[i]];
  }
  return ready;
}

// The next instance of a queue from there on, or `count`.
static int next_of(const PlanInstances *all, int queue, int from) {
  while (from < all->count && all->at[from].queue != queue) {
    from++;
  }
  return from;
}

PlanInstances order_draw(Arena *arena, const Plan *plan, ProgramKind program, uint64_t seed) {
  const PlanWaits *waits = plan_waits(arena, plan);
  const PlanInstances all = plan_instances(arena, plan, waits, program);
  PlanInstances drawn = {.at = ARENA_ARRAY(arena, PlanInstance, all.count + 1)};
  bool *done = ARENA_ARRAY(arena, bool, all.count + 1);
  int head[PLAN_MAX_QUEUES];
  for (int q = 0; q < waits->queue_count; q++) {
    head[q] = next_of(&all, q, 0);
  }
  for (uint64_t draw = 1; drawn.count < all.count; draw++) {
    const uint64_t number = mix_word(seed, draw);
    const int queue = (int)(number % (uint64_t)waits->queue_count);
    for (uint64_t run = 1 + (number >> 32) % RUN_MOST; run > 0 && head[queue] < all.count; run--) {
      if (!is_ready(&all.at[head[queue]], done)) {
        break;
      }
      done[head[queue]] = true;
      drawn.at[drawn.count++] = all.at[head[queue]];
      head[queue] = next_of(&all, queue, head[queue] + 1);
    }
  }
  return drawn;
}
