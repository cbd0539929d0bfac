// ranks_support.h: plans of collectives and messages made by hand, one for each stage of a pipeline, for tests.
#ifndef MDL_TESTS_RANKS_SUPPORT_H
#define MDL_TESTS_RANKS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session.h"

enum { WORLD_STAGES = 8, WORLD_INSTRUCTIONS = 2048, WORLD_LINES = 64 };

// The train program of each stage is one segment. Instruction i of a stage is at line i + 1 of toy.mdl.
typedef struct {
  Arena *arena;
  PlanSet set;
  Plan *plan[WORLD_STAGES];
} World;

static inline World world_make(const int64_t *mesh, int mesh_count, int pipeline) {
  static const char *const names[] = {"a", "b", "c", "d"};
  World world = {.arena = arena_create()};
  const int stages = pipeline >= 0 ? (int)mesh[pipeline] : 1;
  char *text = arena_alloc(world.arena, WORLD_LINES + 1);
  memset(text, '\n', WORLD_LINES);
  Source *source = ARENA_NEW(world.arena, Source);
  *source = (Source){"toy.mdl", text, WORLD_LINES, false};
  for (int s = 0; s < stages; s++) {
    Plan *plan = world.plan[s] = ARENA_NEW(world.arena, Plan);
    plan->mesh_count = mesh_count;
    for (int i = 0; i < mesh_count; i++) {
      plan->mesh[i] = (PlanMesh){names[i], mesh[i]};
    }
    plan->real = plan->coarsest = TYPE_F32;
    plan->pipeline = pipeline;
    plan->stage = s;
    plan->stages = stages;
    plan->term_count = 1;
    plan->terms = ARENA_ARRAY(world.arena, PlanTerm, 16);
    plan->source_count = 1;
    plan->sources = source;
    plan->segment_count = 1;
    plan->segments = ARENA_NEW(world.arena, PlanSegment);
    plan->segments[0].name = "all";
    plan->segments[0].instructions = ARENA_ARRAY(world.arena, Instruction, WORLD_INSTRUCTIONS);
    plan->programs[PROGRAM_TRAIN].calls = ARENA_ARRAY(world.arena, PlanCall, 16);
    plan->programs[PROGRAM_TRAIN].calls[0].first = true;
    plan->programs[PROGRAM_TRAIN].call_count = 1;
    plan->programs[PROGRAM_TRAIN].slots = 1;
  }
  world.set.count = stages;
  world.set.plans = arena_copy(world.arena, world.plan, sizeof world.plan);
  return world;
}

static inline void world_destroy(World *world) {
  arena_destroy(world->arena);
}

static inline Place world_place(World *world, int stage, int64_t bytes) {
  int64_t *used = &world->plan[stage]->arena_bytes[ARENA_TRANSIENT];
  const Place place = {.arena = ARENA_TRANSIENT, .offset = *used};
  *used += (bytes + 63) / 64 * 64;
  return place;
}

static inline Instruction *world_add(World *world, int stage, InstructionKind kind, const char *name) {
  PlanSegment *segment = &world->plan[stage]->segments[0];
  assert_true(segment->count < WORLD_INSTRUCTIONS);
  Instruction *instruction = &segment->instructions[segment->count];
  const uint32_t line = (uint32_t)(segment->count++ % WORLD_LINES);
  *instruction = (Instruction){.kind = kind, .name = name, .span = {0, line, line + 1}, .rule = SPAN_NONE};
  return instruction;
}

static inline Instruction *world_collective(World *world, int stage, CollectiveKind kind, ReduceKind reduce,
                                            ElementType type, uint32_t mesh, int64_t count) {
  int64_t ranks = 1;
  for (int i = 0; i < world->plan[0]->mesh_count; i++) {
    ranks *= mesh >> i & 1 ? world->plan[0]->mesh[i].size : 1;
  }
  const int64_t bytes = count * element_type_bytes(type);
  Instruction *instruction = world_add(world, stage, INSTRUCTION_COLLECTIVE, "x");
  instruction->as.collective =
      (Collective){.kind = kind, .reduce = reduce, .type = type, .mesh = mesh, .ranks = (int)ranks, .count = count};
  instruction->as.collective.from = world_place(world, stage, bytes * ranks);
  instruction->as.collective.to = world_place(world, stage, bytes * ranks);
  return instruction;
}

static inline Instruction *world_transfer(World *world, int stage, InstructionKind kind, int channel, int peer,
                                          int64_t count, Place place) {
  Instruction *instruction = world_add(world, stage, kind, "m");
  instruction->as.transfer =
      (Transfer){.type = TYPE_INT, .channel = channel, .peer = peer, .count = count, .place = place};
  return instruction;
}

static inline Session world_open(const World *world, double deadline, const RanksFault *fault) {
  Session session;
  Error error = {0};
  SessionOptions options = {.threads = 1, .deadline_seconds = deadline};
  if (fault) {
    options.fault = *fault;
  }
  if (!session_open_ranks(&session, &world->set, &backend_cpu, &options, &error)) {
    fail_msg("open: %s", error.text);
  }
  return session;
}

// Runs the program, which must fail with this text, or with NULL succeed.
static inline void world_run(Session *session, const char *text) {
  Error error = {0};
  const bool done = session_run(session, PROGRAM_TRAIN, 1, &error);
  if (!text) {
    if (!done) {
      fail_msg("run: %s", error.text);
    }
    return;
  }
  assert_false(done);
  assert_string_equal(error.text, text);
  assert_int_equal(error.status, 5);
}

static inline void world_write(const World *world, Session *session, int64_t rank, Place place, const void *data,
                               int64_t bytes) {
  Error error = {0};
  (void)world;
  if (!session->backend->write(session_device(session, rank), place.arena, place.offset, data, bytes, &error)) {
    fail_msg("write: %s", error.text);
  }
}

static inline void world_read(const World *world, Session *session, int64_t rank, Place place, void *data,
                              int64_t bytes) {
  Error error = {0};
  (void)world;
  if (!session->backend->read(session_device(session, rank), place.arena, place.offset, data, bytes, &error)) {
    fail_msg("read: %s", error.text);
  }
}

// The ranks of the group of `rank`, by trying all.
static inline int world_members(const World *world, uint32_t mesh, int64_t rank, int64_t *member, int *index) {
  const Plan *plan = world->plan[0];
  int mine[PLAN_MAX_MESH], count = 0;
  plan_coordinates(plan, rank, mine);
  for (int64_t r = 0; r < plan_ranks(plan); r++) {
    int other[PLAN_MAX_MESH];
    bool same = true;
    plan_coordinates(plan, r, other);
    for (int i = 0; i < plan->mesh_count; i++) {
      same &= mesh >> i & 1 || mine[i] == other[i];
    }
    if (same) {
      *index = r == rank ? count : *index;
      member[count++] = r;
    }
  }
  return count;
}

#endif
