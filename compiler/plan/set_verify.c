// set_verify.c: do the plans of all stages fit together? See plan_verify.h.
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "compiler/plan/check.h"
#include "compiler/plan/verify.h"
#include "compiler/plan/waits.h"

// Of a SEND, where its messages are in its channel, from 1: the newest, and those of each lane and slot. 0: none yet.
typedef struct {
  int newest;
  int *by_lane, *by_slot;
} Posted;

typedef struct {  // of one segment: messages, and what waits for them
  int count;
  int *at;         // which instructions
  Posted *posted;  // [instruction]
} Steps;

typedef struct {
  const Instruction *instruction;  // the first that used it
  int from, to;                    // stages
  ARRAY(int) slots;                // of the messages posted so far
  int received;
} Channel;

typedef struct {  // where a stage is
  int call, step;
  const Instruction *awaited;  // the message that it waits for
} Cursor;

typedef struct {
  Arena *arena;
  const PlanSet *set;
  ProgramKind program;
  PlanWaits **waits;  // [stage]
  Steps **steps;      // [stage][segment]
  Map channel_of;     // its number: index of channels
  ARRAY(Channel) channels;
  const char *why;
} SetVerify;

static bool fail(SetVerify *v, const char *why) {
  v->why = v->why ? v->why : why;
  return false;
}

#define FAIL(v, ...) fail((v), arena_format((v)->arena, __VA_ARGS__))

static const char *word(const char *text) {
  return text ? text : "?";
}

// --- what must be alike ---

static bool meshes_agree(SetVerify *v, int stage) {
  const Plan *first = v->set->plans[0], *plan = v->set->plans[stage];
  bool same = plan->mesh_count == first->mesh_count && plan->pipeline == first->pipeline;
  for (int i = 0; same && i < plan->mesh_count; i++) {
    same = plan->mesh[i].size == first->mesh[i].size && strcmp(plan->mesh[i].name, first->mesh[i].name) == 0;
  }
  if (!same) {
    return FAIL(v, "stage %d has another mesh than stage 0", stage);
  }
  if (plan->stage != stage || plan->stages != v->set->count) {
    return FAIL(v, "plan %d of %d is of stage %d of %d", stage, v->set->count, plan->stage, plan->stages);
  }
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    const PlanProgram *a = &first->programs[p], *b = &plan->programs[p];
    if ((a->call_count > 0) != (b->call_count > 0) || (a->call_count > 0 && a->slots != b->slots)) {
      return FAIL(v, "stages 0 and %d do not run the same program '%s'", stage, program_kind_name((ProgramKind)p));
    }
  }
  bool phases = plan->phase_count == first->phase_count;
  for (int i = 0; phases && i < plan->phase_count; i++) {
    phases = plan->phases[i].first == first->phases[i].first && plan->phases[i].policy == first->phases[i].policy;
  }
  if (!phases) {
    return FAIL(v, "stages 0 and %d change their precision at other steps", stage);
  }
  return (plan->real == first->real && plan->coarsest == first->coarsest) ||
         FAIL(v, "stages 0 and %d compute in different types", stage);
}

typedef struct {  // a tensor that has a name outside the plan
  const char *name;
  int stage, role, axis_count;
  ElementType type;
  int64_t bound;
  const int64_t *size;
  bool owner;
} Tensor;

static int by_name(const void *a, const void *b) {
  const Tensor *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : x->stage - y->stage;
}

// Tensors of one name are alike. Those that are owned are once on a stage, and one of several copies is the owner's.
static bool tensors_agree(SetVerify *v, Tensor *tensors, int count, bool owned) {
  qsort(tensors, (size_t)count, sizeof *tensors, by_name);
  for (int i = 0, first = 0, owners = 0; i < count; i++) {
    const Tensor *a = &tensors[first], *b = &tensors[i];
    if (i > first && strcmp(a->name, b->name) != 0) {
      first = i;
      a = b;
    }
    owners = b->owner + (i > first ? owners : 0);
    if (owned && i > first && tensors[i - 1].stage == b->stage) {
      return FAIL(v, "'%s' is twice in stage %d", b->name, b->stage);
    }
    if (a->type != b->type || a->role != b->role || a->bound != b->bound || a->axis_count != b->axis_count ||
        memcmp(a->size, b->size, sizeof *a->size * (size_t)a->axis_count) != 0) {
      return FAIL(v, "'%s' is not the same in stages %d and %d", b->name, a->stage, b->stage);
    }
    bool last = i + 1 == count || strcmp(tensors[i + 1].name, b->name) != 0;
    if (owned && last && (owners > 1 || (owners == 0 && i > first))) {
      return FAIL(v, "'%s' is held by %d stages and owned by %d", b->name, i + 1 - first, owners);
    }
  }
  return true;
}

static bool states_agree(SetVerify *v) {
  int count = 0, most = 0;
  for (int s = 0; s < v->set->count; s++) {
    most += v->set->plans[s]->state_count;
  }
  Tensor *tensors = ARENA_ARRAY(v->arena, Tensor, most + 1);
  for (int s = 0; s < v->set->count; s++) {
    const Plan *plan = v->set->plans[s];
    for (int i = 0; i < plan->state_count; i++) {
      const PlanState *state = &plan->states[i];
      tensors[count++] = (Tensor){.name = state->name,
                                  .stage = s,
                                  .role = (int)state->role,
                                  .axis_count = state->axis_count,
                                  .type = state->type,
                                  .size = state->size,
                                  .owner = state->owner};
    }
  }
  return tensors_agree(v, tensors, count, true);
}

static bool inputs_agree(SetVerify *v, ProgramKind kind) {
  int inputs = 0, outputs = 0, most = 0;
  for (int s = 0; s < v->set->count; s++) {
    const PlanProgram *program = &v->set->plans[s]->programs[kind];
    most += program->input_count + program->output_count;
  }
  Tensor *input = ARENA_ARRAY(v->arena, Tensor, most + 1), *output = ARENA_ARRAY(v->arena, Tensor, most + 1);
  for (int s = 0; s < v->set->count; s++) {
    const PlanProgram *program = &v->set->plans[s]->programs[kind];
    for (int i = 0; i < program->input_count; i++) {
      const PlanInput *at = &program->inputs[i];
      input[inputs++] = (Tensor){at->name, s, 0, at->axis_count, at->type, at->bound, at->size, false};
    }
    for (int i = 0; i < program->output_count; i++) {
      const PlanOutput *at = &program->outputs[i];
      output[outputs++] = (Tensor){at->name, s, 0, at->axis_count, at->type, 0, at->size, false};
    }
  }
  return tensors_agree(v, input, inputs, false) && tensors_agree(v, output, outputs, false);
}

// --- messages ---

static bool is_message(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_SEND || instruction->kind == INSTRUCTION_RECEIVE;
}

static const Instruction *instruction_at(const SetVerify *v, int stage, int segment, int instruction) {
  return &v->set->plans[stage]->segments[segment].instructions[instruction];
}

static bool waits_for_message(const SetVerify *v, int stage, const PlanWait *wait) {
  return wait->which != WAIT_ARITHMETIC &&
         instruction_at(v, stage, wait->segment, wait->instruction)->kind == INSTRUCTION_SEND;
}

static Steps steps_of(const SetVerify *v, int stage, int s) {
  const PlanSegment *segment = &v->set->plans[stage]->segments[s];
  Steps steps = {.at = ARENA_ARRAY(v->arena, int, segment->count + 1),
                 .posted = ARENA_ARRAY(v->arena, Posted, segment->count + 1)};
  for (int i = 0; i < segment->count; i++) {
    const PlanWaitList *list = &v->waits[stage]->of[s][i];
    bool step = is_message(&segment->instructions[i]);
    for (int w = 0; w < list->count; w++) {
      step |= waits_for_message(v, stage, &list->at[w]);
    }
    if (step) {
      steps.at[steps.count++] = i;
    }
  }
  return steps;
}

// The channel of a message, with its ends checked; NULL: they are others than before.
static Channel *channel_of(SetVerify *v, int stage, const Instruction *instruction) {
  const Transfer *transfer = &instruction->as.transfer;
  bool receives = instruction->kind == INSTRUCTION_RECEIVE;
  int from = receives ? transfer->peer : stage, to = receives ? stage : transfer->peer;
  int64_t at = map_get_or(&v->channel_of, (uint64_t)transfer->channel, -1);
  if (at < 0) {
    at = v->channels.count;
    map_put(&v->channel_of, (uint64_t)transfer->channel, at);
    array_push(v->arena, &v->channels, (Channel){.from = from, .to = to});
  }
  Channel *channel = &v->channels.at[at];
  if (channel->from != from || channel->to != to) {
    FAIL(v, "'%s' uses channel %d from stage %d to %d, which is one from stage %d to %d", word(instruction->name),
         transfer->channel, from, to, channel->from, channel->to);
    return NULL;
  }
  const Transfer *known = channel->instruction ? &channel->instruction->as.transfer : transfer;
  if (known->type != transfer->type || known->count != transfer->count) {
    FAIL(v, "'%s' sends %lld elements of %s and receives %lld of %s", word(instruction->name), (long long)known->count,
         element_type_name(known->type), (long long)transfer->count, element_type_name(transfer->type));
    return NULL;
  }
  channel->instruction = channel->instruction ? channel->instruction : instruction;
  return channel;
}

static void post(const SetVerify *v, Posted *posted, const PlanCall *call, int slots, int number) {
  if (!posted->by_lane) {
    posted->by_lane = ARENA_ARRAY(v->arena, int, slots);
    posted->by_slot = ARENA_ARRAY(v->arena, int, slots);
  }
  posted->newest = posted->by_lane[call->lane] = posted->by_slot[call->slot] = number;
}

// The message that an instruction waits for and that nobody has received yet; NULL: none.
static const Instruction *not_received(SetVerify *v, int stage, const PlanCall *call, int instruction) {
  const PlanWaitList *list = &v->waits[stage]->of[call->segment][instruction];
  for (int w = 0; w < list->count; w++) {
    const PlanWait *wait = &list->at[w];
    if (!waits_for_message(v, stage, wait)) {
      continue;
    }
    const Instruction *sends = instruction_at(v, stage, wait->segment, wait->instruction);
    const Posted *posted = &v->steps[stage][wait->segment].posted[wait->instruction];
    const int number = wait->which == WAIT_SAME_LANE   ? (posted->by_lane ? posted->by_lane[call->lane] : 0)
                       : wait->which == WAIT_SAME_SLOT ? (posted->by_slot ? posted->by_slot[call->slot] : 0)
                                                       : posted->newest;
    if (number > 0 && number > channel_of(v, stage, sends)->received) {
      return sends;
    }
  }
  return NULL;
}

// One step of one stage. False: it has to wait, for *awaited, or something is wrong.
static bool step_run(SetVerify *v, int stage, const PlanCall *call, int at, const Instruction **awaited) {
  const Instruction *instruction = instruction_at(v, stage, call->segment, at);
  Channel *channel = is_message(instruction) ? channel_of(v, stage, instruction) : NULL;
  if (is_message(instruction) && !channel) {
    return false;
  }
  *awaited = not_received(v, stage, call, at);
  if (*awaited || !channel) {
    return !*awaited;
  }
  if (instruction->kind == INSTRUCTION_SEND) {
    array_push(v->arena, &channel->slots, call->slot);
    post(v, &v->steps[stage][call->segment].posted[at], call, v->set->plans[stage]->programs[v->program].slots,
         channel->slots.count);
    return true;
  }
  if (channel->received == channel->slots.count) {
    *awaited = instruction;
    return false;
  }
  int slot = channel->slots.at[channel->received++];
  return slot == call->slot ||
         FAIL(v, "'%s' is sent by microbatch %d and received by %d", word(instruction->name), slot, call->slot);
}

// Runs a stage until it waits. Returns whether it came any further.
static bool stage_run(SetVerify *v, int stage, Cursor *cursor) {
  const PlanProgram *program = &v->set->plans[stage]->programs[v->program];
  bool moved = false;
  for (; cursor->call < program->call_count; cursor->call++, cursor->step = 0) {
    const PlanCall *call = &program->calls[cursor->call];
    const Steps *steps = &v->steps[stage][call->segment];
    for (; cursor->step < steps->count; cursor->step++) {
      if (!step_run(v, stage, call, steps->at[cursor->step], &cursor->awaited)) {
        return moved;
      }
      moved = true;
    }
  }
  return moved;
}

// Says what the first stage that is not done waits for.
static bool all_done(SetVerify *v, const Cursor *cursor) {
  const char *name = program_kind_name(v->program);
  for (int s = 0; s < v->set->count; s++) {
    const PlanProgram *program = &v->set->plans[s]->programs[v->program];
    if (cursor[s].call < program->call_count) {
      const PlanCall *call = &program->calls[cursor[s].call];
      const Instruction *at = cursor[s].awaited;
      return FAIL(v, "'%s' never ends: stage %d waits for stage %d to %s '%s' (call %d, microbatch %d)", name, s,
                  at->as.transfer.peer, at->kind == INSTRUCTION_RECEIVE ? "send" : "receive", word(at->name),
                  cursor[s].call, call->slot);
    }
  }
  for (int i = 0; i < v->channels.count; i++) {
    const Channel *channel = &v->channels.at[i];
    if (channel->received < channel->slots.count) {
      return FAIL(v, "'%s' sends '%s' to stage %d, which never receives it", name, word(channel->instruction->name),
                  channel->to);
    }
  }
  return true;
}

// Every stage runs its list as it stands, and waits for messages alone. If all come to their end so, they do in every
// order that the waits allow: what an instruction waits for, and what its queue has before it, stands before it in the
// list, but for a message that is not received yet, for which nothing but its channel waits.
static bool program_runs(SetVerify *v, ProgramKind kind) {
  Cursor *cursor = ARENA_ARRAY(v->arena, Cursor, v->set->count);
  v->program = kind;
  v->channel_of = map_create(v->arena);
  v->channels.count = 0;
  for (int s = 0; s < v->set->count; s++) {
    for (int i = 0; i < v->set->plans[s]->segment_count; i++) {
      v->steps[s][i] = steps_of(v, s, i);
    }
  }
  for (bool moved = true; moved && !v->why;) {
    moved = false;
    for (int s = 0; s < v->set->count && !v->why; s++) {
      moved |= stage_run(v, s, &cursor[s]);
    }
  }
  return !v->why && all_done(v, cursor);
}

const char *plan_set_verify(Arena *arena, const PlanSet *set) {
  SetVerify v = {.arena = arena, .set = set};
  if (set->count < 1) {
    return "there is no plan in it";
  }
  for (int s = 0; s < set->count; s++) {
    const char *why = plan_verify(arena, set->plans[s]);
    if (why) {
      return set->count > 1 ? arena_format(arena, "stage %d: %s", s, why) : why;
    }
  }
  bool good = true;
  for (int s = 0; good && s < set->count; s++) {
    good = meshes_agree(&v, s);
  }
  good = good && states_agree(&v);
  v.waits = ARENA_ARRAY(arena, PlanWaits *, set->count);
  v.steps = ARENA_ARRAY(arena, Steps *, set->count);
  for (int s = 0; good && s < set->count; s++) {
    v.waits[s] = set->count > 1 ? plan_waits(arena, set->plans[s]) : NULL;
    v.steps[s] = ARENA_ARRAY(arena, Steps, set->plans[s]->segment_count + 1);
  }
  for (int p = 0; good && p < PROGRAM_COUNT; p++) {
    good = inputs_agree(&v, (ProgramKind)p) && (set->count == 1 || program_runs(&v, (ProgramKind)p));
    const char *why = good ? owners_agree(arena, set, (ProgramKind)p) : NULL;
    good = good && (!why || fail(&v, why));
  }
  return v.why;
}
