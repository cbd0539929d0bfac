// ranks.c: meetings, messages and the end of all waits. One mutex guards it all; each rank sleeps on a condition.
#include "runtime/ranks.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/ranks_internal.h"

enum { SPIN = 2000, SLICES = 8, MESH_SETS = 1 << PLAN_MAX_MESH };

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// --- creation ---

static Group **groups_of(Ranks *ranks, uint32_t mesh) {
  const Plan *plan = ranks->first;
  Group **groups = ARENA_ARRAY(ranks->arena, Group *, ranks->count);
  int64_t size = 1;
  for (int i = 0; i < plan->mesh_count; i++) {
    size *= mesh >> i & 1 ? plan->mesh[i].size : 1;
  }
  for (int64_t r = 0; r < ranks->count; r++) {
    int coordinate[PLAN_MAX_MESH];
    memcpy(coordinate, ranks->rank[r].coordinate, sizeof coordinate);
    for (int i = 0; i < plan->mesh_count; i++) {
      coordinate[i] = mesh >> i & 1 ? 0 : coordinate[i];
    }
    const int64_t first = plan_rank(plan, coordinate);
    if (first == r) {
      groups[r] = ARENA_NEW(ranks->arena, Group);
      groups[r]->rank = ARENA_ARRAY(ranks->arena, int64_t, size);
      groups[r]->post = ARENA_ARRAY(ranks->arena, Post, size);
      groups[r]->here = ARENA_ARRAY(ranks->arena, bool, size);
    }
    groups[r] = groups[first];
    groups[r]->rank[groups[r]->count++] = r;
  }
  return groups;
}

static bool is_transfer(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_SEND || instruction->kind == INSTRUCTION_RECEIVE;
}

static int64_t peer_of(const Ranks *ranks, int64_t rank, int peer) {
  int coordinate[PLAN_MAX_MESH];
  memcpy(coordinate, ranks->rank[rank].coordinate, sizeof coordinate);
  coordinate[ranks->first->pipeline] = peer;
  return plan_rank(ranks->first, coordinate);
}

static Mailbox *box_find(const Ranks *ranks, int64_t from, int64_t to, int channel) {
  for (int i = 0; i < ranks->box_count[from]; i++) {
    Mailbox *box = &ranks->box[from][i];
    if (box->channel == channel && box->to == to) {
      return box;
    }
  }
  return NULL;
}

Mailbox *ranks_box(const Ranks *ranks, int64_t rank, const Instruction *instruction) {
  const Transfer *transfer = &instruction->as.transfer;
  const int64_t peer = peer_of(ranks, rank, transfer->peer);
  return instruction->kind == INSTRUCTION_RECEIVE ? box_find(ranks, peer, rank, transfer->channel)
                                                  : box_find(ranks, rank, peer, transfer->channel);
}

// Of each channel that a rank sends on, a box with room for all messages of a program.
static void boxes_make(Ranks *ranks, int64_t rank) {
  const Plan *plan = ranks->rank[rank].plan;
  int most = 0;
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      most += is_transfer(&plan->segments[s].instructions[i]);
    }
  }
  ranks->box[rank] = ARENA_ARRAY(ranks->arena, Mailbox, most + 1);
  for (int s = 0; s < plan->segment_count; s++) {
    int64_t calls = 0;
    for (int p = 0; p < PROGRAM_COUNT; p++) {
      for (int c = 0; c < plan->programs[p].call_count; c++) {
        calls += plan->programs[p].calls[c].segment == s;
      }
    }
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Instruction *instruction = &plan->segments[s].instructions[i];
      if (instruction->kind != INSTRUCTION_SEND) {
        continue;
      }
      Mailbox *box = ranks_box(ranks, rank, instruction);
      if (!box) {
        box = &ranks->box[rank][ranks->box_count[rank]++];
        *box = (Mailbox){.channel = instruction->as.transfer.channel,
                         .from = rank,
                         .to = peer_of(ranks, rank, instruction->as.transfer.peer)};
      }
      box->capacity += calls;
    }
  }
  for (int i = 0; i < ranks->box_count[rank]; i++) {
    ranks->box[rank][i].message = ARENA_ARRAY(ranks->arena, Message, ranks->box[rank][i].capacity + 1);
  }
}

static bool instruction_fits(Ranks *ranks, const Plan *plan, const Instruction *instruction, Error *error) {
  if (instruction->kind == INSTRUCTION_COLLECTIVE) {
    const Collective *collective = &instruction->as.collective;
    const uint32_t mesh = collective->mesh;
    if (mesh >= MESH_SETS || mesh >> plan->mesh_count != 0) {
      return error_set(error, 1, "%s: a collective over mesh axes that are not there", instruction->name);
    }
    if (!ranks->group_of[mesh]) {
      ranks->group_of[mesh] = groups_of(ranks, mesh);
    }
    const int size = ranks->group_of[mesh][0]->count;
    return size == collective->ranks || error_set(error, 1, "%s: a collective of %d ranks in groups of %d",
                                                  instruction->name, collective->ranks, size);
  }
  if (is_transfer(instruction)) {
    const int peer = instruction->as.transfer.peer;
    return (plan->pipeline >= 0 && peer >= 0 && peer < plan->mesh[plan->pipeline].size) ||
           error_set(error, 1, "%s: a message to stage %d, which is not there", instruction->name, peer);
  }
  return true;
}

static bool ranks_build(Ranks *ranks, Error *error) {
  pthread_condattr_t attributes;
  ranks->rank = ARENA_ARRAY(ranks->arena, Rank, ranks->count);
  ranks->group_of = ARENA_ARRAY(ranks->arena, Group **, MESH_SETS);
  ranks->box_count = ARENA_ARRAY(ranks->arena, int, ranks->count);
  ranks->box = ARENA_ARRAY(ranks->arena, Mailbox *, ranks->count);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  for (int64_t r = 0; r < ranks->count; r++) {
    Rank *rank = &ranks->rank[r];
    rank->plan = plan_of_rank(ranks->set, r);
    plan_coordinates(ranks->first, r, rank->coordinate);
    pthread_cond_init(&rank->wake, &attributes);
  }
  pthread_condattr_destroy(&attributes);
  for (int p = 0; p < ranks->set->count; p++) {
    const Plan *plan = ranks->set->plans[p];
    for (int s = 0; s < plan->segment_count; s++) {
      for (int i = 0; i < plan->segments[s].count; i++) {
        if (!instruction_fits(ranks, plan, &plan->segments[s].instructions[i], error)) {
          return false;
        }
      }
    }
  }
  for (int64_t r = 0; r < ranks->count; r++) {
    boxes_make(ranks, r);
  }
  return true;
}

static bool ranks_build_safely(Ranks *ranks, Error *error) {
  jmp_buf escape;
  if (setjmp(escape)) {
    return error_set(error, 3, "no memory for %lld ranks", (long long)ranks->count);
  }
  arena_set_escape(ranks->arena, &escape);
  const bool built = ranks_build(ranks, error);
  arena_set_escape(ranks->arena, NULL);
  return built;
}

bool ranks_create(const PlanSet *set, const RanksOptions *options, Ranks **ranks, Error *error) {
  const int64_t count = plan_ranks(set->plans[0]);
  *ranks = NULL;
  if (count > RANKS_MAX) {
    return error_set(error, 1, "the plan is for %lld ranks; one process runs at most %d", (long long)count, RANKS_MAX);
  }
  Ranks *made = calloc(1, sizeof *made);
  if (!made || !(made->arena = arena_create())) {
    free(made);
    return error_set(error, 3, "no memory for %lld ranks", (long long)count);
  }
  made->set = set;
  made->first = set->plans[0];
  made->options = *options;
  made->count = count;
  made->spins = sysconf(_SC_NPROCESSORS_ONLN) >= count;
  pthread_mutex_init(&made->mutex, NULL);
  if (!ranks_build_safely(made, error)) {
    ranks_destroy(made);
    return false;
  }
  *ranks = made;
  return true;
}

void ranks_destroy(Ranks *ranks) {
  if (!ranks) {
    return;
  }
  for (int64_t r = 0; ranks->rank && r < ranks->count; r++) {
    if (ranks->rank[r].plan) {
      pthread_cond_destroy(&ranks->rank[r].wake);
    }
  }
  pthread_mutex_destroy(&ranks->mutex);
  arena_destroy(ranks->arena);
  free(ranks);
}

int64_t ranks_count(const Ranks *ranks) {
  return ranks->count;
}

uint64_t ranks_order(const Ranks *ranks) {
  return ranks->options.order;
}

const PlanSet *ranks_plans(const Ranks *ranks) {
  return ranks->set;
}

int64_t ranks_bytes(const Ranks *ranks) {
  int64_t total = 0;
  for (int64_t r = 0; r < ranks->count; r++) {
    for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
      if (__builtin_add_overflow(total, ranks->rank[r].plan->arena_bytes[i], &total)) {
        return INT64_MAX;
      }
    }
  }
  return total;
}

// Digits alone, at most `most`, up to `end`.
static bool digits_read(const char *text, char end, uint64_t most, uint64_t *value) {
  const size_t length = strspn(text, "0123456789");
  errno = 0;
  *value = strtoull(text, NULL, 10);
  return length > 0 && text[length] == end && errno == 0 && *value <= most;
}

bool ranks_fault_parse(const char *text, RanksFault *fault) {
  static const char *const names[] = {"", "die", "hang", "skip", "flip"};
  for (int kind = RANKS_DIE; kind <= RANKS_FLIP; kind++) {
    const size_t length = strlen(names[kind]);
    uint64_t rank, at;
    if (strncmp(text, names[kind], length) == 0 && text[length] == ':' &&
        digits_read(text + length + 1, ':', INT64_MAX, &rank) &&
        digits_read(strchr(text + length + 1, ':') + 1, '\0', INT64_MAX, &at) && at > 0) {
      *fault = (RanksFault){(RanksFaultKind)kind, (int64_t)rank, (int64_t)at};
      return true;
    }
  }
  return false;
}

bool ranks_order_parse(const char *text, uint64_t *order) {
  return digits_read(text, '\0', UINT64_MAX, order);
}

// --- failure ---

void ranks_poison(Ranks *ranks, const char *format, ...) {
  if (ranks->failed) {
    return;
  }
  va_list args;
  va_start(args, format);
  vsnprintf(ranks->cause.text, sizeof ranks->cause.text, format, args);
  va_end(args);
  ranks->cause.status = 5;
  ranks->failed = true;
  for (int64_t r = 0; r < ranks->count; r++) {
    pthread_cond_broadcast(&ranks->rank[r].wake);
  }
}

bool ranks_failed(Ranks *ranks, Error *cause) {
  pthread_mutex_lock(&ranks->mutex);
  const bool failed = ranks->failed;
  if (failed) {
    *cause = ranks->cause;
  }
  pthread_mutex_unlock(&ranks->mutex);
  return failed;
}

void ranks_fail(Ranks *ranks, int64_t rank, const Error *why) {
  pthread_mutex_lock(&ranks->mutex);
  report_error(ranks, rank, why);
  pthread_mutex_unlock(&ranks->mutex);
}

void ranks_lost(Ranks *ranks, int64_t rank, const char *how) {
  pthread_mutex_lock(&ranks->mutex);
  report_lost(ranks, rank, how);
  pthread_mutex_unlock(&ranks->mutex);
}

// Unlocks; true unless something has failed.
static bool leave(Ranks *ranks, Error *error) {
  const bool failed = ranks->failed;
  if (failed) {
    *error = ranks->cause;
  }
  pthread_mutex_unlock(&ranks->mutex);
  return !failed;
}

// --- waiting ---

bool wait_is_over(const Wait *wait) {
  switch (wait->kind) {
    case WAIT_GROUP:
      return wait->group->phase != wait->phase;
    case WAIT_RECEIVE:
      return wait->box->posted >= wait->number;
    case WAIT_SENT:
      return wait->box->taken >= wait->number;
    default:
      return true;
  }
}

bool wait_is_for(const Ranks *ranks, const Wait *wait, int64_t rank) {
  (void)ranks;
  if (wait_is_over(wait)) {
    return false;
  }
  for (int i = 0; wait->kind == WAIT_GROUP && i < wait->group->count; i++) {
    if (wait->group->rank[i] == rank) {
      return !wait->group->here[i];
    }
  }
  return (wait->kind == WAIT_RECEIVE && wait->box->from == rank) || (wait->kind == WAIT_SENT && wait->box->to == rank);
}

// A rank that waits for one that has ended the program waits in vain.
static void look_for_ended(Ranks *ranks, int64_t waiting) {
  const Rank *me = &ranks->rank[waiting];
  for (int64_t r = 0; r < ranks->count && !ranks->failed; r++) {
    const Rank *other = &ranks->rank[r];
    if (!other->running && other->run == me->run && wait_is_for(ranks, &me->wait, r)) {
      report_ended(ranks, r, waiting);
    }
  }
}

static void spin(Ranks *ranks, const Wait *wait) {
  pthread_mutex_unlock(&ranks->mutex);
  for (int i = 0; i < SPIN && wait->group->phase == wait->phase && !ranks->failed; i++) {
    relax();
  }
  pthread_mutex_lock(&ranks->mutex);
}

// The deadline is slept through in slices, so that a process that was stopped for a while (Ctrl-Z) loses one of them,
// and ranks that only need to be woken are not taken for lost.
static void sleep_until_over(Ranks *ranks, int64_t rank) {
  Rank *me = &ranks->rank[rank];
  const double seconds = ranks->options.deadline_seconds;
  const int64_t slice = (int64_t)((seconds < 1e9 ? seconds : 1e9) / SLICES * 1e9);
  for (int passed = 0; !wait_is_over(&me->wait) && !ranks->failed;) {
    if (seconds <= 0) {
      pthread_cond_wait(&me->wake, &ranks->mutex);
      continue;
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(slice / 1000000000 + (until.tv_nsec + slice % 1000000000) / 1000000000);
    until.tv_nsec = (until.tv_nsec + slice % 1000000000) % 1000000000;
    passed += pthread_cond_timedwait(&me->wake, &ranks->mutex, &until) == ETIMEDOUT;
    if (passed == SLICES && !wait_is_over(&me->wait) && !ranks->failed) {
      report_deadline(ranks, rank);
    }
  }
}

// With the mutex held, which it gives up while it sleeps.
static void wait_for(Ranks *ranks, int64_t rank, Wait wait) {
  Rank *me = &ranks->rank[rank];
  me->wait = wait;
  if (!wait_is_over(&wait) && !ranks->failed) {
    look_for_ended(ranks, rank);
    if (ranks->spins && wait.kind == WAIT_GROUP) {
      spin(ranks, &wait);
    }
    sleep_until_over(ranks, rank);
  }
  me->wait.kind = WAIT_NONE;
}

// Until the number-th message of a box is received.
static void wait_sent(Ranks *ranks, int64_t rank, Mailbox *box, int64_t number) {
  if (box->taken < number && !ranks->failed) {
    Rank *me = &ranks->rank[rank];
    me->at = box->message[(number - 1) % box->capacity].instruction;
    me->inside = true;
    wait_for(ranks, rank, (Wait){.kind = WAIT_SENT, .box = box, .number = number});
    me->inside = ranks->failed;
  }
}

// A rank comes to a collective or transfer. False, with the mutex given up: it is not to do it, for `error` or a fault.
static bool enter(Ranks *ranks, int64_t rank, const Instruction *instruction, bool *skip, Error *error) {
  const RanksFault *fault = &ranks->options.fault;
  pthread_mutex_lock(&ranks->mutex);
  Rank *me = &ranks->rank[rank];
  *skip = false;
  if (++me->operations == fault->at && fault->rank == rank && !ranks->failed) {
    if (fault->kind == RANKS_DIE) {
      pthread_mutex_unlock(&ranks->mutex);
      pthread_exit(NULL);  // crew.c sees it
    }
    while (fault->kind == RANKS_HANG && !ranks->failed) {
      pthread_cond_wait(&me->wake, &ranks->mutex);
    }
    *skip = fault->kind == RANKS_SKIP;
  }
  if (!ranks->failed && !*skip) {
    me->at = instruction;
    me->inside = true;
    return true;
  }
  leave(ranks, error);
  return false;
}

// --- programs ---

bool ranks_begin(Ranks *ranks, int64_t rank, ProgramKind program, Error *error) {
  pthread_mutex_lock(&ranks->mutex);
  Rank *me = &ranks->rank[rank];
  me->run++;
  me->running = true;
  me->program = program;
  return leave(ranks, error);
}

bool ranks_end(Ranks *ranks, int64_t rank, Error *error) {
  pthread_mutex_lock(&ranks->mutex);
  Rank *me = &ranks->rank[rank];
  for (int i = 0; i < ranks->box_count[rank]; i++) {
    wait_sent(ranks, rank, &ranks->box[rank][i], ranks->box[rank][i].posted);
  }
  me->running = false;
  for (int64_t r = 0; r < ranks->count && !ranks->failed; r++) {
    if (r != rank && ranks->rank[r].run == me->run && wait_is_for(ranks, &ranks->rank[r].wait, rank)) {
      report_ended(ranks, rank, r);
    }
  }
  return leave(ranks, error);
}

// --- meetings ---

// Of ranks with one plan, at the same instruction in the same call; of others, at one that moves the same.
static bool posts_agree(const Ranks *ranks, const Group *group, int a, int b) {
  const Post *x = &group->post[a], *y = &group->post[b];
  if (ranks->rank[group->rank[a]].plan == ranks->rank[group->rank[b]].plan) {
    return x->instruction == y->instruction && x->call == y->call && x->run == y->run;
  }
  const Collective *p = &x->instruction->as.collective, *q = &y->instruction->as.collective;
  return p->kind == q->kind && p->reduce == q->reduce && p->type == q->type && p->count == q->count;
}

static void arrive(Ranks *ranks, int64_t rank, Group *group, int index) {
  const uint64_t phase = group->phase;
  group->here[index] = true;
  if (++group->arrived < group->count) {
    wait_for(ranks, rank, (Wait){.kind = WAIT_GROUP, .group = group, .phase = phase});
    return;
  }
  group->arrived = 0;
  memset(group->here, 0, sizeof *group->here * (size_t)group->count);
  group->phase = phase + 1;
  for (int i = 0; i < group->count; i++) {
    if (i != index && ranks->rank[group->rank[i]].wait.kind == WAIT_GROUP) {
      pthread_cond_signal(&ranks->rank[group->rank[i]].wake);
    }
  }
}

bool ranks_meet(Ranks *ranks, int64_t rank, const Instruction *instruction, int64_t call, const void *from, void *to,
                Meeting *meeting, Error *error) {
  bool skip;
  const Collective *collective = &instruction->as.collective;
  *meeting = (Meeting){0};
  ranks_give(ranks, rank, instruction, from, collective->type, collective->count);
  if (!enter(ranks, rank, instruction, &skip, error)) {
    return skip;
  }
  Group *group = ranks->group_of[instruction->as.collective.mesh][rank];
  int index = 0;
  while (group->rank[index] != rank) {
    index++;
  }
  group->post[index] = (Post){instruction, call, ranks->rank[rank].run, from, to};
  for (int i = 0; i < group->count && !ranks->failed; i++) {
    if (group->here[i] && !posts_agree(ranks, group, i, index)) {
      report_divergence(ranks, group->rank[i], group->post[i].instruction, rank, instruction);
    }
  }
  if (!ranks->failed) {
    arrive(ranks, rank, group, index);
  }
  *meeting = (Meeting){group, index, group->count};
  return leave(ranks, error);
}

const void *ranks_from(const Meeting *meeting, int index) {
  const Group *group = meeting->group;
  return group->post[index].from;
}

void *ranks_to(const Meeting *meeting, int index) {
  const Group *group = meeting->group;
  return group->post[index].to;
}

bool ranks_meet_again(Ranks *ranks, int64_t rank, const Meeting *meeting, Error *error) {
  pthread_mutex_lock(&ranks->mutex);
  if (!ranks->failed) {
    arrive(ranks, rank, meeting->group, meeting->index);
    ranks->rank[rank].inside = ranks->failed;
  }
  return leave(ranks, error);
}

// --- messages ---

bool ranks_send(Ranks *ranks, int64_t rank, const Instruction *instruction, const void *memory, int64_t *number,
                Error *error) {
  bool skip;
  *number = 0;
  ranks_give(ranks, rank, instruction, memory, instruction->as.transfer.type, instruction->as.transfer.count);
  if (!enter(ranks, rank, instruction, &skip, error)) {
    return skip;
  }
  Mailbox *box = ranks_box(ranks, rank, instruction);
  if (box->posted - box->taken >= box->capacity) {
    ranks_poison(ranks, "rank %lld sends '%s' %lld times and rank %lld receives none of it", (long long)rank,
                 instruction->name, (long long)box->capacity + 1, (long long)box->to);
  } else {
    box->message[box->posted++ % box->capacity] = (Message){instruction, memory};
    *number = box->posted;
    pthread_cond_signal(&ranks->rank[box->to].wake);
  }
  ranks->rank[rank].inside = ranks->failed;
  return leave(ranks, error);
}

bool ranks_receive(Ranks *ranks, int64_t rank, const Instruction *instruction, const void **memory, Error *error) {
  bool skip;
  *memory = NULL;
  if (!enter(ranks, rank, instruction, &skip, error)) {
    return skip;
  }
  Mailbox *box = ranks_box(ranks, rank, instruction);
  if (!box) {
    ranks_poison(ranks, "rank %lld receives '%s' from rank %lld, which never sends it", (long long)rank,
                 instruction->name, (long long)peer_of(ranks, rank, instruction->as.transfer.peer));
    return leave(ranks, error);
  }
  wait_for(ranks, rank, (Wait){.kind = WAIT_RECEIVE, .box = box, .number = box->taken + 1});
  if (!ranks->failed) {
    const Message *message = &box->message[box->taken % box->capacity];
    const Transfer *sent = &message->instruction->as.transfer, *wanted = &instruction->as.transfer;
    if (sent->type != wanted->type || sent->count != wanted->count) {
      report_divergence(ranks, box->from, message->instruction, rank, instruction);
    }
    *memory = message->memory;
  }
  return leave(ranks, error);
}

bool ranks_received(Ranks *ranks, int64_t rank, const Instruction *instruction, Error *error) {
  pthread_mutex_lock(&ranks->mutex);
  Mailbox *box = ranks_box(ranks, rank, instruction);
  box->taken++;
  ranks->rank[rank].inside = false;
  pthread_cond_signal(&ranks->rank[box->from].wake);
  return leave(ranks, error);
}

bool ranks_sent(Ranks *ranks, int64_t rank, const Instruction *instruction, int64_t number, Error *error) {
  pthread_mutex_lock(&ranks->mutex);
  wait_sent(ranks, rank, ranks_box(ranks, rank, instruction), number);
  return leave(ranks, error);
}
