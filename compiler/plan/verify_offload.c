// verify_offload.c: copies to the memory of the host and back, and what may not be touched while they are under
// way.
#include <string.h>

#include "compiler/lower.h"
#include "compiler/plan/check.h"

static bool begins(InstructionKind kind) {
  return kind == INSTRUCTION_OFFLOAD || kind == INSTRUCTION_FETCH;
}

static bool is_copy(InstructionKind kind) {
  return begins(kind) || kind == INSTRUCTION_OFFLOADED || kind == INSTRUCTION_FETCHED;
}

static bool same_place(const Place *a, const Place *b) {
  return a->arena == b->arena && a->offset == b->offset && a->slot_stride == b->slot_stride &&
         a->lane_stride == b->lane_stride && a->term == b->term;
}

// --- what is under way ---

// Does the instruction at hand write this place?
static bool writes(const PlanCheck *v, const Place *place) {
  Operands operands;
  bool written = false;
  instruction_touches(v->plan, v->instruction, &operands);
  for (int i = 0; i < operands.count; i++) {
    written |= operands.at[i].access & WRITES && same_place(operands.at[i].place, place);
  }
  return written;
}

static bool meet(const int64_t *range, int64_t low, int64_t high) {
  return low < range[1] && range[0] < high;
}

bool flights_hold(PlanCheck *v, const Place *place, int64_t low, int64_t high) {
  if (place->arena == ARENA_OFFLOAD && !(v->instruction && is_copy(v->instruction->kind))) {
    return check_fail(v, "is not a copy, and uses the memory where values wait");
  }
  for (int i = 0; i < v->flights.count; i++) {
    const Flight *flight = &v->flights.at[i];
    const bool out = flight->begin->kind == INSTRUCTION_OFFLOAD;
    const bool host = place->arena == ARENA_OFFLOAD && meet(flight->host, low, high);
    const bool device = place->arena == flight->begin->as.offload.device.arena && meet(flight->device, low, high);
    if ((device && (!out || writes(v, place))) || (host && (out || writes(v, place)))) {
      return check_fail(v, "uses memory that a copy is under way from or to");
    }
  }
  return true;
}

bool flights_over(PlanCheck *v) {
  return v->flights.count == 0 || check_fail(v, "ends before a copy has ended");
}

// --- instructions ---

static bool offloaded_somewhere(const Plan *plan, const Offload *fetch) {
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Instruction *at = &plan->segments[s].instructions[i];
      if (at->kind == INSTRUCTION_OFFLOAD && at->as.offload.bytes == fetch->bytes &&
          same_place(&at->as.offload.host, &fetch->host)) {
        return true;
      }
    }
  }
  return false;
}

static int flight_of(const PlanCheck *v, int number) {
  for (int i = 0; i < v->flights.count; i++) {
    if (v->flights.at[i].begin->as.offload.number == number) {
      return i;
    }
  }
  return -1;
}

static bool begin_holds(PlanCheck *v, const Instruction *instruction) {
  const Offload *copy = &instruction->as.offload;
  const Extent extent = {.last = copy->bytes - 1};
  Flight flight = {.begin = instruction};
  if (flight_of(v, copy->number) >= 0) {
    return check_fail(v, "begins a copy that is under way");
  }
  if (instruction->kind == INSTRUCTION_FETCH && !offloaded_somewhere(v->plan, copy)) {
    return check_fail(v, "fetches what was never offloaded");
  }
  if (!check_place(v, copy->device, extent, 1)) {
    return false;
  }
  memcpy(flight.device, v->range, sizeof v->range);
  if (!check_place(v, copy->host, extent, 1)) {
    return false;
  }
  memcpy(flight.host, v->range, sizeof v->range);
  array_push(v->arena, &v->flights, flight);
  return true;
}

static bool end_holds(PlanCheck *v, const Instruction *instruction) {
  const Offload *copy = &instruction->as.offload;
  const int at = flight_of(v, copy->number);
  const Instruction *begin = at >= 0 ? v->flights.at[at].begin : NULL;
  const InstructionKind kind = instruction->kind == INSTRUCTION_OFFLOADED ? INSTRUCTION_OFFLOAD : INSTRUCTION_FETCH;
  if (!begin || begin->kind != kind || begin->as.offload.bytes != copy->bytes ||
      !same_place(&begin->as.offload.device, &copy->device) || !same_place(&begin->as.offload.host, &copy->host)) {
    return check_fail(v, "ends a copy that has not begun");
  }
  v->flights.at[at] = v->flights.at[--v->flights.count];
  return true;
}

bool offload_holds(PlanCheck *v, const Instruction *instruction) {
  const Offload *copy = &instruction->as.offload;
  if (copy->number < 0 || copy->number >= PLAN_MOST_OFFLOADS || copy->bytes < 1 || copy->bytes > PLAN_MOST_BYTES) {
    return check_fail(v, "is an impossible copy");
  }
  if (copy->device.arena != ARENA_TRANSIENT || copy->host.arena != ARENA_OFFLOAD) {
    return check_fail(v, "copies from or to where it may not");
  }
  return begins(instruction->kind) ? begin_holds(v, instruction) : end_holds(v, instruction);
}
