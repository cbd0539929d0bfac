// waits.c: see waits.h.
#include "compiler/plan/waits.h"

#include <stdio.h>

#include "compiler/plan/check.h"

typedef struct {  // bytes that an operand touches, counted from the place, and whether it writes them
  Place place;
  int64_t first, bytes;
  int64_t low, high;  // in its arena: of all calls and ranks
  bool writes;
} Touched;

typedef struct {
  int count;
  Touched *at;
} TouchedList;

typedef struct {  // what a segment has on a queue, in its order
  int count;
  int *at;
} OnQueue;

typedef struct {
  Arena *arena;
  const Plan *plan;
  PlanWaits *waits;
  OnQueue **on;           // [segment][queue]
  TouchedList **touched;  // [segment][instruction]
  int *slots, *lanes;     // by segment: how many its calls have
  ARRAY(PlanWait) found;  // of the instruction at hand
} Finder;

static TouchedList touched_by(const Finder *f, int segment, const Instruction *instruction) {
  PlanCheck check = {.arena = f->arena,
                     .plan = f->plan,
                     .slots = f->slots[segment],
                     .lanes = f->lanes[segment],
                     .instruction = instruction};
  Operands operands;
  TouchedList list = {0};
  instruction_touches(f->plan, instruction, &operands);
  list.at = ARENA_ARRAY(f->arena, Touched, operands.count + 1);
  for (int i = 0; i < operands.count; i++) {
    const Operand *operand = &operands.at[i];
    const int64_t elements = operand->extent.last - operand->extent.first + 1;
    const bool known = operand->memory && check_operand(&check, operand);  // false for plans that nobody verified
    if (operand->memory) {
      list.at[list.count++] = (Touched){*operand->place,
                                        operand->extent.first * operand->bytes,
                                        elements * operand->bytes,
                                        known ? check.range[0] : INT64_MIN,
                                        known ? check.range[1] : INT64_MAX,
                                        operand->access & WRITES};
    }
  }
  return list;
}

// --- queues ---

static bool has_queue(const Instruction *instruction) {
  return instruction->aside || instruction->kind == INSTRUCTION_SEND || instruction->kind == INSTRUCTION_RECEIVE ||
         instruction->kind == INSTRUCTION_OFFLOAD || instruction->kind == INSTRUCTION_FETCH;
}

static bool share_queue(const Instruction *a, const Instruction *b) {
  const bool collects = a->kind == INSTRUCTION_COLLECTIVE, sends = a->kind == INSTRUCTION_SEND;
  return a->kind == b->kind && (!collects || a->as.collective.mesh == b->as.collective.mesh) &&
         (!sends || a->as.transfer.channel == b->as.transfer.channel);
}

static void find_queues(Finder *f) {
  PlanWaits *waits = f->waits;
  ARRAY(const Instruction *) first = {0};
  array_push(f->arena, &first, NULL);
  for (int s = 0; s < f->plan->segment_count; s++) {
    const PlanSegment *segment = &f->plan->segments[s];
    waits->queue[s] = ARENA_ARRAY(f->arena, int, segment->count + 1);
    waits->of[s] = ARENA_ARRAY(f->arena, PlanWaitList, segment->count + 1);
    for (int i = 0; i < segment->count; i++) {
      const Instruction *instruction = &segment->instructions[i];
      int queue = has_queue(instruction) ? 1 : 0;
      while (queue > 0 && queue < first.count && !share_queue(first.at[queue], instruction)) {
        queue++;
      }
      if (queue == first.count) {
        array_push(f->arena, &first, instruction);
      }
      waits->queue[s][i] = queue;
    }
  }
  waits->queue_count = first.count;
  waits->first = first.at;
}

static void list_queues(Finder *f, int s) {
  const PlanSegment *segment = &f->plan->segments[s];
  const int *queue = f->waits->queue[s];
  int *room = ARENA_ARRAY(f->arena, int, segment->count + 1);
  f->on[s] = ARENA_ARRAY(f->arena, OnQueue, f->waits->queue_count);
  for (int i = 0; i < segment->count; i++) {
    f->on[s][queue[i]].count++;
  }
  for (int q = 0; q < f->waits->queue_count; q++) {
    f->on[s][q].at = room;
    room += f->on[s][q].count;
    f->on[s][q].count = 0;
  }
  for (int i = 0; i < segment->count; i++) {
    OnQueue *on = &f->on[s][queue[i]];
    on->at[on->count++] = i;
  }
}

void plan_queue_name(const Plan *plan, const PlanWaits *waits, int queue, char name[QUEUE_NAME_MAX]) {
  const Instruction *first = waits->first[queue];
  const InstructionKind kind = first ? first->kind : INSTRUCTION_KIND_COUNT;
  int used = snprintf(name, QUEUE_NAME_MAX, "%s",
                      !first                           ? "arithmetic"
                      : kind == INSTRUCTION_COLLECTIVE ? "collectives over"
                      : kind == INSTRUCTION_OFFLOAD    ? "copies to the host"
                      : kind == INSTRUCTION_FETCH      ? "copies from the host"
                      : kind == INSTRUCTION_RECEIVE    ? "messages received"
                                                       : "messages sent");
  if (kind == INSTRUCTION_SEND) {
    snprintf(name + used, (size_t)(QUEUE_NAME_MAX - used), " to stage %d, channel %d", first->as.transfer.peer,
             first->as.transfer.channel);
  }
  for (int m = 0, count = 0; kind == INSTRUCTION_COLLECTIVE && m < plan->mesh_count && used < QUEUE_NAME_MAX; m++) {
    if (first->as.collective.mesh >> m & 1) {
      used += snprintf(name + used, (size_t)(QUEUE_NAME_MAX - used), "%s %s", count++ ? " x" : "", plan->mesh[m].name);
    }
  }
}

// --- do two operands touch the same bytes? ---

// With the same slot and lane, on one rank.
static bool meet_alike(const Finder *f, const Touched *a, const Touched *b) {
  const PlanCheck check = {.arena = f->arena, .plan = f->plan, .slots = 1, .lanes = 1};
  Place x = a->place, y = b->place;
  x.offset += a->first;
  y.offset += b->first;
  x.slot_stride = y.slot_stride = x.lane_stride = y.lane_stride = 0;
  return places_meet(&check, &x, a->bytes, &y, b->bytes);
}

// The same in whatever slots and lanes the calls of two segments have.
static bool meet_anyhow(const Finder *f, int segment, const Touched *a, int other, const Touched *b) {
  Touched x = *a, y = *b;
  x.bytes += (f->slots[segment] - 1) * a->place.slot_stride + (f->lanes[segment] - 1) * a->place.lane_stride;
  y.bytes += (f->slots[other] - 1) * b->place.slot_stride + (f->lanes[other] - 1) * b->place.lane_stride;
  return meet_alike(f, &x, &y);
}

// Both lie inside of one step of a stride, so that other steps of it are other memory.
static bool within(const Touched *a, const Touched *b, int64_t stride) {
  const int64_t x = a->place.offset + a->first, y = b->place.offset + b->first;
  const int64_t low = x < y ? x : y, high = x + a->bytes > y + b->bytes ? x + a->bytes : y + b->bytes;
  return stride > 0 && a->place.term == b->place.term && high - low <= stride;
}

static bool meet_in_calls(const Finder *f, int segment, const Touched *a, int other, const Touched *b,
                          WaitWhich *which) {
  const int64_t lane = a->place.lane_stride == b->place.lane_stride ? a->place.lane_stride : 0;
  const int64_t slot = a->place.slot_stride == b->place.slot_stride ? a->place.slot_stride : 0;
  if (within(a, b, lane) && a->place.slot_stride == 0 && b->place.slot_stride == 0) {
    *which = WAIT_SAME_LANE;
    return meet_alike(f, a, b);
  }
  if (within(a, b, slot) && a->place.lane_stride == 0 && b->place.lane_stride == 0) {
    *which = WAIT_SAME_SLOT;
    return meet_alike(f, a, b);
  }
  *which = WAIT_LAST_CALL;
  return meet_anyhow(f, segment, a, other, b);
}

// Whether one writes, and they are near each other.
static bool may_meet(const Touched *a, const Touched *b) {
  return (a->writes || b->writes) && a->low < b->high && b->low < a->high && a->place.arena == b->place.arena;
}

// Bit i: they meet in the way WaitWhich i. 0: they do not, or neither writes.
static unsigned conflict(const Finder *f, int segment, int i, int other, int j, bool this_call) {
  const TouchedList *a = &f->touched[segment][i], *b = &f->touched[other][j];
  unsigned ways = 0;
  for (int x = 0; x < a->count; x++) {
    for (int y = 0; y < b->count; y++) {
      WaitWhich which = WAIT_THIS_CALL;
      if (!may_meet(&a->at[x], &b->at[y])) {
        continue;
      }
      if (this_call ? meet_alike(f, &a->at[x], &b->at[y])
                    : meet_in_calls(f, segment, &a->at[x], other, &b->at[y], &which)) {
        ways |= 1u << which;
      }
    }
  }
  return ways;
}

// --- waits ---

// How many instructions of a queue are before this one.
static int count_before(const OnQueue *on, int end) {
  int low = 0, high = on->count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (on->at[middle] < end) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Adds the waits of an instruction for what another segment (or an earlier call of its own, or this one before
// instruction `end`) has on a queue: of each way the last one, since a queue keeps its order.
static unsigned add_waits(Finder *f, int segment, int i, int other, int end, int queue, bool this_call) {
  const OnQueue *on = &f->on[other][queue];
  unsigned ways = 0;
  for (int k = count_before(on, end) - 1; k >= 0 && !(ways & (1u << WAIT_THIS_CALL | 1u << WAIT_LAST_CALL)); k--) {
    const int j = on->at[k];
    const unsigned more = conflict(f, segment, i, other, j, this_call) & ~ways;
    for (int which = 0; more >> which; which++) {
      if (more >> which & 1) {
        array_push(f->arena, &f->found, ((PlanWait){other, j, (WaitWhich)which}));
        f->waits->of[other][j].awaited = true;
      }
    }
    ways |= more;
  }
  return ways;
}

static void find_waits(Finder *f, const bool *mine, int segment, int i) {
  const int own = f->waits->queue[segment][i];
  const bool receives = f->plan->segments[segment].instructions[i].kind == INSTRUCTION_RECEIVE;
  f->found.count = 0;
  if (receives) {
    array_push(f->arena, &f->found, ((PlanWait){-1, -1, WAIT_ARITHMETIC}));
  }
  for (int queue = receives ? 1 : 0; queue < f->waits->queue_count; queue++) {
    if (queue == own || add_waits(f, segment, i, segment, i, queue, true)) {
      continue;  // what its queue did in earlier calls is before that
    }
    for (int other = 0; other < f->plan->segment_count; other++) {
      if (mine[other]) {
        add_waits(f, segment, i, other, f->plan->segments[other].count, queue, false);
      }
    }
  }
  PlanWaitList *list = &f->waits->of[segment][i];
  list->count = f->found.count;
  list->at = arena_copy(f->arena, f->found.at, sizeof *list->at * (size_t)list->count);
}

// The segments that a program calls.
static void find_program(Finder *f, const PlanProgram *program) {
  bool *mine = ARENA_ARRAY(f->arena, bool, f->plan->segment_count + 1), aside = false;
  for (int c = 0; c < program->call_count; c++) {
    const PlanCall *call = &program->calls[c];
    const int s = call->segment;
    mine[s] = true;
    f->slots[s] = call->slot >= f->slots[s] ? call->slot + 1 : f->slots[s];
    f->lanes[s] = call->lane >= f->lanes[s] ? call->lane + 1 : f->lanes[s];
  }
  for (int s = 0; s < f->plan->segment_count; s++) {
    for (int i = 0; mine[s] && i < f->plan->segments[s].count; i++) {
      aside |= f->waits->queue[s][i] > 0;
    }
  }
  for (int s = 0; aside && s < f->plan->segment_count; s++) {
    const PlanSegment *segment = &f->plan->segments[s];
    f->touched[s] = mine[s] ? ARENA_ARRAY(f->arena, TouchedList, segment->count + 1) : NULL;
    if (mine[s]) {
      list_queues(f, s);
    }
    for (int i = 0; mine[s] && i < segment->count; i++) {
      f->touched[s][i] = touched_by(f, s, &segment->instructions[i]);
    }
  }
  for (int s = 0; aside && s < f->plan->segment_count; s++) {
    for (int i = 0; mine[s] && i < f->plan->segments[s].count; i++) {
      find_waits(f, mine, s, i);
    }
  }
}

PlanWaits *plan_waits(Arena *arena, const Plan *plan) {
  PlanWaits *waits = ARENA_NEW(arena, PlanWaits);
  Finder f = {.arena = arena, .plan = plan, .waits = waits};
  waits->queue = ARENA_ARRAY(arena, int *, plan->segment_count + 1);
  waits->of = ARENA_ARRAY(arena, PlanWaitList *, plan->segment_count + 1);
  f.on = ARENA_ARRAY(arena, OnQueue *, plan->segment_count + 1);
  f.touched = ARENA_ARRAY(arena, TouchedList *, plan->segment_count + 1);
  f.slots = ARENA_ARRAY(arena, int, plan->segment_count + 1);
  f.lanes = ARENA_ARRAY(arena, int, plan->segment_count + 1);
  find_queues(&f);
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    find_program(&f, &plan->programs[p]);
  }
  return waits;
}

// --- single runs ---

// The last run of what is waited for, or -1: there was none yet. last[segment][instruction], of those with a lane or a
// slot by that.
typedef struct {
  int newest;
  int *by_lane, *by_slot;
} LastRuns;

static int resolve(LastRuns *const *all, int arithmetic, const PlanWait *wait, const PlanCall *call) {
  if (wait->which == WAIT_ARITHMETIC) {
    return arithmetic;
  }
  const LastRuns *last = &all[wait->segment][wait->instruction];
  return wait->which == WAIT_SAME_LANE   ? last->by_lane[call->lane]
         : wait->which == WAIT_SAME_SLOT ? last->by_slot[call->slot]
                                         : last->newest;
}

static int *none(Arena *arena, int count) {
  int *all = ARENA_ARRAY(arena, int, count + 1);
  for (int i = 0; i < count; i++) {
    all[i] = -1;
  }
  return all;
}

static void resolve_all(Arena *arena, LastRuns *const *last, int arithmetic, const PlanWaitList *list,
                        const PlanCall *call, PlanInstance *instance) {
  instance->wait = ARENA_ARRAY(arena, int, list->count + 1);
  for (int w = 0; w < list->count; w++) {
    const int target = resolve(last, arithmetic, &list->at[w], call);
    if (target >= 0) {
      instance->wait[instance->wait_count++] = target;
    }
  }
}

PlanInstances plan_instances(Arena *arena, const Plan *plan, const PlanWaits *waits, ProgramKind kind) {
  const PlanProgram *program = &plan->programs[kind];
  PlanInstances all = {0};
  LastRuns **last = ARENA_ARRAY(arena, LastRuns *, plan->segment_count + 1);
  for (int c = 0; c < program->call_count; c++) {
    all.count += plan->segments[program->calls[c].segment].count;
  }
  all.at = ARENA_ARRAY(arena, PlanInstance, all.count + 1);
  for (int s = 0; s < plan->segment_count; s++) {
    last[s] = ARENA_ARRAY(arena, LastRuns, plan->segments[s].count + 1);
    for (int i = 0; i < plan->segments[s].count; i++) {
      const bool awaited = waits && waits->of[s][i].awaited;
      last[s][i] =
          (LastRuns){-1, awaited ? none(arena, program->slots) : NULL, awaited ? none(arena, program->slots) : NULL};
    }
  }
  int at = 0, arithmetic = -1;
  for (int c = 0; c < program->call_count; c++) {
    const PlanCall *call = &program->calls[c];
    for (int i = 0; i < plan->segments[call->segment].count; i++, at++) {
      LastRuns *runs = &last[call->segment][i];
      all.at[at] = (PlanInstance){c, i, waits ? waits->queue[call->segment][i] : 0, 0, NULL};
      if (waits && waits->of[call->segment][i].count > 0) {
        resolve_all(arena, last, arithmetic, &waits->of[call->segment][i], call, &all.at[at]);
      }
      arithmetic = all.at[at].queue == 0 ? at : arithmetic;
      runs->newest = at;
      if (runs->by_lane) {
        runs->by_lane[call->lane] = runs->by_slot[call->slot] = at;
      }
    }
  }
  return all;
}
