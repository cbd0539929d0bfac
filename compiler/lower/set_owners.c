// set_owners.c: does every stage that has a tensor get what its owner writes?
//
// Memory is followed back, from where a program leaves a tensor to what made it: through kernels that only move or
// round elements, and through messages. What comes out, on the owner and on every other stage that has the tensor, is a
// list of parts of results of instructions, or of tensors as they were before: these must be the same.
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "compiler/lower/lower.h"
#include "compiler/plan/check.h"

enum { MOST_STEPS = 64 };  // of one walk back

typedef struct {          // bytes that an instruction writes
  int instruction, port;  // port: of a kernel, else -1
  ArenaClass arena;
  int64_t low, high, bytes;  // bytes of an element
} Written;

typedef struct {  // elements [low, high) of a result, or of a tensor as it was before the program
  int stage, instruction, code;
  const char *before;
  int64_t low, high;
} Origin;

typedef ARRAY(Origin) OriginList;

typedef struct {  // of a stage: the segment that its program ends with
  const Plan *plan;
  const PlanSegment *segment;
  ARRAY(Written) written;
  const PlanState **states;  // by name
} Last;

typedef struct {
  Arena *arena;
  const PlanSet *set;
  ProgramKind program;
  Last *last;  // by stage
  const char *why;
} Owners;

// --- what instructions write ---

static void list_written(Owners *o, Last *last) {
  PlanCheck check = {.arena = o->arena, .plan = last->plan, .slots = 1, .lanes = 1};
  for (int i = 0; i < last->segment->count; i++) {
    Operands operands;
    instruction_touches(last->plan, &last->segment->instructions[i], &operands);
    for (int j = 0; j < operands.count; j++) {
      const Operand *operand = &operands.at[j];
      if (operand->access & WRITES && check_operand(&check, operand)) {
        array_push(
            o->arena, &last->written,
            ((Written){i, operand->port, operand->place->arena, check.range[0], check.range[1], operand->bytes}));
      }
    }
  }
}

// --- back to what made it ---

static void trace(Owners *o, int stage, int before, ArenaClass arena, int64_t low, int64_t high, int steps,
                  OriginList *list);

// As it was before the segment.
static void trace_before(Owners *o, int stage, ArenaClass arena, int64_t low, int64_t high, OriginList *list) {
  const Plan *plan = o->set->plans[stage];
  const PlanState *nearest = NULL;  // of those that begin before it
  for (int i = 0; arena == ARENA_PERSISTENT && i < plan->state_count; i++) {
    const PlanState *state = &plan->states[i];
    nearest = state->offset <= low && (!nearest || state->offset > nearest->offset) ? state : nearest;
  }
  Origin origin = {stage, -1, (int)arena, NULL, low, high};
  if (nearest) {
    const int64_t bytes = element_type_bytes(nearest->type);
    origin = (Origin){-1, -1, -1, nearest->name, (low - nearest->offset) / bytes, (high - nearest->offset) / bytes};
  }
  array_push(o->arena, list, origin);
}

static void trace_message(Owners *o, int stage, int instruction, int64_t from, int64_t to, int steps,
                          OriginList *list) {
  const Transfer *received = &o->last[stage].segment->instructions[instruction].as.transfer;
  const PlanSegment *sender = o->last[received->peer].segment;
  int64_t bytes = element_type_bytes(received->type);
  for (int i = 0; i < sender->count; i++) {
    const Transfer *sent = &sender->instructions[i].as.transfer;
    if (sender->instructions[i].kind == INSTRUCTION_SEND && sent->channel == received->channel) {
      int64_t low = sent->place.offset + from * bytes;
      trace(o, received->peer, i, sent->place.arena, low, low + (to - from) * bytes, steps, list);
      return;
    }
  }
  array_push(o->arena, list, ((Origin){stage, instruction, -1, NULL, from, to}));
}

// Elements [from, to) of what a kernel writes to a port; the port has `all` of them.
static void trace_kernel(Owners *o, int stage, const Written *at, int64_t from, int64_t to, int steps,
                         OriginList *list) {
  const Last *last = &o->last[stage];
  const KernelCall *call = &last->segment->instructions[at->instruction].as.kernel;
  const Kernel *kernel = last->plan->kernels[call->kernel];
  int store = 0;
  while (store < kernel->code_count &&
         !(op_is_output(kernel->code[store].op) && kernel->code[store].port == at->port)) {
    store++;
  }
  const KernelInstruction *code = store < kernel->code_count ? &kernel->code[store] : NULL;
  bool stores = code && code->op == KERNEL_STORE && !kernel->port[at->port].accumulate;
  const KernelInstruction *maker = stores ? &kernel->code[code->a] : NULL;
  if (!maker || maker->op != KERNEL_LOAD) {
    array_push(o->arena, list, ((Origin){stage, at->instruction, stores ? code->a : store, NULL, from, to}));
    return;
  }
  const KernelPort *port = &kernel->port[maker->port];
  PlanCheck check = {.arena = o->arena, .plan = last->plan, .slots = 1, .lanes = 1};
  check_strided(&check, call->place[maker->port], port->type, kernel->dim_count, kernel->size, port->stride);
  int64_t bytes = element_type_bytes(port->type), low = check.range[0], high = check.range[1];
  bool alike = memcmp(port->stride, kernel->port[at->port].stride, sizeof port->stride) == 0;
  if (alike) {  // else they are moved about: all of them
    high = low + to * bytes;
    low += from * bytes;
  }
  trace(o, stage, at->instruction, call->place[maker->port].arena, low, high, steps, list);
}

static void trace(Owners *o, int stage, int before, ArenaClass arena, int64_t low, int64_t high, int steps,
                  OriginList *list) {
  const Last *last = &o->last[stage];
  for (int i = last->written.count - 1; i >= 0 && low < high; i--) {
    const Written *at = &last->written.at[i];
    if (at->instruction >= before || at->arena != arena || at->high <= low || at->low >= high || steps == 0) {
      continue;
    }
    int64_t begin = at->low > low ? at->low : low, end = at->high < high ? at->high : high;
    int64_t from = (begin - at->low) / at->bytes, to = (end - at->low) / at->bytes;
    if (low < begin) {
      trace(o, stage, at->instruction, arena, low, begin, steps - 1, list);
    }
    InstructionKind kind = last->segment->instructions[at->instruction].kind;
    if (kind == INSTRUCTION_KERNEL) {
      trace_kernel(o, stage, at, from, to, steps - 1, list);
    } else if (kind == INSTRUCTION_RECEIVE) {
      trace_message(o, stage, at->instruction, from, to, steps - 1, list);
    } else {
      array_push(o->arena, list, ((Origin){stage, at->instruction, -1, NULL, from, to}));
    }
    if (end < high) {
      trace(o, stage, at->instruction, arena, end, high, steps - 1, list);
    }
    return;
  }
  if (low < high) {
    trace_before(o, stage, arena, low, high, list);
  }
}

// --- tensors of several stages ---

static bool same_origins(const OriginList *a, const OriginList *b) {
  bool same = a->count == b->count;
  for (int i = 0; same && i < a->count; i++) {
    const Origin *x = &a->at[i], *y = &b->at[i];
    same = x->low == y->low && x->high == y->high &&
           (x->before || y->before ? x->before && y->before && strcmp(x->before, y->before) == 0
                                   : x->stage == y->stage && x->instruction == y->instruction && x->code == y->code);
  }
  return same;
}

static OriginList origins_of(Owners *o, int stage, const PlanState *state) {
  OriginList list = {0};
  int64_t count = 1;
  for (int i = 0; i < state->axis_count; i++) {
    count *= state->cut[i].count > 0 ? state->cut[i].local : state->size[i];
  }
  count = state->flat_piece ? state->flat_piece : count;
  trace(o, stage, o->last[stage].segment->count, ARENA_PERSISTENT, state->offset,
        state->offset + count * element_type_bytes(state->type), MOST_STEPS, &list);
  return list;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const PlanState *const *)a)->name, (*(const PlanState *const *)b)->name);
}

static const PlanState *state_named(const Last *last, const char *name) {
  const PlanState wanted = {.name = name}, *key = &wanted;
  const PlanState **found = bsearch(&key, last->states, (size_t)last->plan->state_count, sizeof key, by_name);
  return found ? *found : NULL;
}

static bool tensor_agrees(Owners *o, int owner, const PlanState *state) {
  OriginList newest = {0};
  for (int s = 0; s < o->set->count; s++) {
    const PlanState *copy = s == owner ? NULL : state_named(&o->last[s], state->name);
    if (!copy) {
      continue;
    }
    newest = newest.count ? newest : origins_of(o, owner, state);
    OriginList here = origins_of(o, s, copy);
    if (!same_origins(&newest, &here)) {
      o->why = arena_format(o->arena, "'%s' leaves another '%s' on stage %d than its owner, stage %d, writes",
                            program_kind_name(o->program), state->name, s, owner);
      return false;
    }
  }
  return true;
}

// Tensors in pieces of one arena have one place.
static bool as_before(const Last *last, const OriginList *list, const PlanState *state) {
  const PlanState *before = list->count == 1 && list->at[0].before ? state_named(last, list->at[0].before) : NULL;
  return before && before->offset == state->offset;
}

// A copy in another format is made of what its parameter is on the same stage.
static bool copy_agrees(Owners *o, int stage, const PlanState *copy) {
  const char *dot = strchr(copy->name, '.');
  const PlanState *master = dot ? state_named(&o->last[stage], dot + 1) : NULL;
  OriginList here = origins_of(o, stage, copy), newest = {0};
  if (master) {
    newest = origins_of(o, stage, master);
  }
  if (same_origins(&newest, &here) ||
      (master && as_before(&o->last[stage], &newest, master) && as_before(&o->last[stage], &here, copy))) {
    return true;
  }
  o->why = arena_format(o->arena, "'%s' leaves a '%s' on stage %d that is not made of what its owner writes",
                        program_kind_name(o->program), copy->name, stage);
  return false;
}

const char *owners_agree(Arena *arena, const PlanSet *set, ProgramKind program) {
  Owners o = {.arena = arena, .set = set, .program = program};
  if (program == PROGRAM_INITIALISE || set->plans[0]->programs[program].call_count == 0) {
    return NULL;  // first values are those of the same numbers everywhere
  }
  o.last = ARENA_ARRAY(arena, Last, set->count);
  for (int s = 0; s < set->count; s++) {
    const Plan *plan = set->plans[s];
    const PlanProgram *run = &plan->programs[program];
    o.last[s].plan = plan;
    o.last[s].segment = &plan->segments[run->calls[run->call_count - 1].segment];
    list_written(&o, &o.last[s]);
    o.last[s].states = ARENA_ARRAY(arena, const PlanState *, plan->state_count + 1);
    for (int i = 0; i < plan->state_count; i++) {
      o.last[s].states[i] = &plan->states[i];
    }
    qsort(o.last[s].states, (size_t)plan->state_count, sizeof *o.last[s].states, by_name);
  }
  for (int s = 0; s < set->count; s++) {
    for (int i = 0; i < set->plans[s]->state_count; i++) {
      const PlanState *state = &set->plans[s]->states[i];
      if (state->role == STATE_COPY ? !copy_agrees(&o, s, state) : state->owner && !tensor_agrees(&o, s, state)) {
        return o.why;
      }
    }
  }
  return NULL;
}
