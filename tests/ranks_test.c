// ranks_test.c: collectives and messages between the ranks of one process, and what happens when a rank does not come.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/cpu/order.h"
#include "runtime/crew.h"
#include "runtime/element.h"
#include "tests/ranks_support.h"

static const ElementType types[] = {TYPE_F64, TYPE_F32, TYPE_F16, TYPE_BF16, TYPE_E4M3, TYPE_E5M2, TYPE_INT, TYPE_BOOL};
enum { TYPE_COUNT = sizeof types / sizeof *types };

// --- collectives against what they mean ---

static double number(int64_t rank, int64_t at) {
  return (double)((rank * 37 + at * 11 + rank * at % 5) % 101 - 50) / 8;
}

// Whole numbers up to 6 for the narrowest types, so that sums of many ranks stay finite.
static double number_of(ElementType type, int64_t rank, int64_t at) {
  const double x = number(rank, at);
  return type == TYPE_INT || type == TYPE_BOOL ? floor(x * 100) : x;
}

static double combine(const Collective *c, double a, double b) {
  if (c->reduce != REDUCE_SUM) {
    return (c->reduce == REDUCE_MAX) == (b > a) ? b : a;
  }
  return c->type == TYPE_F64                           ? a + b
         : c->type == TYPE_INT || c->type == TYPE_BOOL ? a + b
                                                       : (double)((float)a + (float)b);
}

// Element `at` of what is at `from` of a rank, as it is stored.
static double stored(const Collective *c, int64_t rank, int64_t at) {
  char bytes[8];
  element_put(c->type, bytes, number_of(c->type, rank, at));
  return element_get(c->type, bytes);
}

// What element `at` of the result of member `index` must be.
static double meant(const Collective *c, const int64_t *member, int index, int64_t at) {
  const int64_t block = at / c->count, inside = at % c->count;
  if (c->kind == COLLECTIVE_ALL_GATHER) {
    return stored(c, member[block], inside);
  }
  if (c->kind == COLLECTIVE_ALL_TO_ALL) {
    return stored(c, member[block], index * c->count + inside);
  }
  if (c->kind == COLLECTIVE_ROTATE) {
    return stored(c, member[index > 0 ? index - 1 : c->ranks - 1], at);
  }
  const int64_t from = c->kind == COLLECTIVE_REDUCE_SCATTER ? index * c->count + at : at;
  double total = stored(c, member[0], from);
  for (int r = 1; r < c->ranks; r++) {
    total = combine(c, total, stored(c, member[r], from));
  }
  return total;
}

static int64_t from_count(const Collective *c) {
  return c->kind == COLLECTIVE_REDUCE_SCATTER || c->kind == COLLECTIVE_ALL_TO_ALL ? c->ranks * c->count : c->count;
}

static int64_t to_count(const Collective *c) {
  return c->kind == COLLECTIVE_ALL_GATHER || c->kind == COLLECTIVE_ALL_TO_ALL ? c->ranks * c->count : c->count;
}

static void fill_from(const World *world, Session *session, const Collective *c) {
  const int64_t size = element_type_bytes(c->type), count = from_count(c);
  char *memory = malloc((size_t)(count * size));
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    for (int64_t i = 0; i < count; i++) {
      element_put(c->type, memory + i * size, number_of(c->type, rank, i));
    }
    world_write(world, session, rank, c->from, memory, count * size);
  }
  free(memory);
}

static void check_to(const World *world, Session *session, const Collective *c) {
  const int64_t size = element_type_bytes(c->type), count = to_count(c);
  char *memory = malloc((size_t)(count * size)), wanted[8];
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    int64_t member[64];
    int index = 0;
    const int members = world_members(world, c->mesh, rank, member, &index);
    assert_int_equal(members, c->ranks);
    world_read(world, session, rank, c->to, memory, count * size);
    for (int64_t i = 0; i < count; i++) {
      element_put(c->type, wanted, meant(c, member, index, i));
      if (memcmp(wanted, memory + i * size, (size_t)size) != 0) {
        fail_msg("%s %s, reduce %d, of %d ranks, rank %lld, element %lld of %lld: %g instead of %g",
                 collective_kind_name(c->kind), element_type_name(c->type), (int)c->reduce, c->ranks, (long long)rank,
                 (long long)i, (long long)count, element_get(c->type, memory + i * size), element_get(c->type, wanted));
      }
    }
  }
  free(memory);
}

static void add_all(World *world, uint32_t mesh, int64_t count, bool every) {
  for (int t = 0; t < TYPE_COUNT; t++) {
    for (int kind = 0; kind < COLLECTIVE_KIND_COUNT; kind++) {
      const bool reduces = kind == COLLECTIVE_ALL_REDUCE || kind == COLLECTIVE_REDUCE_SCATTER;
      for (int reduce = 0; reduce < (reduces ? REDUCE_COUNT : 1); reduce++) {
        if (every || (types[t] == TYPE_F32 && reduce == 0)) {
          world_collective(world, 0, (CollectiveKind)kind, (ReduceKind)reduce, types[t], mesh, count);
        }
      }
    }
  }
}

static void check_mesh(const int64_t *mesh, int mesh_count) {
  World world = world_make(mesh, mesh_count, -1);
  for (uint32_t set = 1; set < 1u << mesh_count; set++) {
    add_all(&world, set, 1, true);
    add_all(&world, set, 13, true);
    add_all(&world, set, 1500, false);
    if (plan_ranks(world.plan[0]) <= 8) {
      add_all(&world, set, 6007, false);
    }
  }
  Session session = world_open(&world, 60, NULL);
  const PlanSegment *segment = &world.plan[0]->segments[0];
  const int rounds = session.ranks <= 8 ? 2 : 1;
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < segment->count; i++) {
      fill_from(&world, &session, &segment->instructions[i].as.collective);
    }
    world_run(&session, NULL);
    for (int i = 0; i < segment->count; i++) {
      check_to(&world, &session, &segment->instructions[i].as.collective);
    }
  }
  session_close(&session);
  world_destroy(&world);
}

static void test_collectives(void **state) {
  (void)state;
  check_mesh((const int64_t[]){2}, 1);
  check_mesh((const int64_t[]){3}, 1);
  check_mesh((const int64_t[]){2, 2, 2}, 3);
}

static void test_collectives_of_many(void **state) {
  (void)state;
  check_mesh((const int64_t[]){4, 1, 2}, 3);
  check_mesh((const int64_t[]){32}, 1);
  check_mesh((const int64_t[]){8, 4}, 2);
}

// --- messages, lanes, terms, pieces ---

// Copies by a collective of one rank: there is no simpler instruction.
static void add_copy(World *world, int stage, Place from, Place to, int64_t count) {
  Instruction *copy = world_add(world, stage, INSTRUCTION_COLLECTIVE, "copy");
  copy->as.collective =
      (Collective){.kind = COLLECTIVE_ALL_REDUCE, .type = TYPE_INT, .ranks = 1, .count = count, .from = from, .to = to};
}

static void test_messages_in_lanes(void **state) {
  (void)state;
  enum { SLOTS = 7, LANES = 3, COUNT = 1000, STAGES = 3 };
  World world = world_make((const int64_t[]){STAGES, 2}, 2, 0);
  Place slots[STAGES];
  for (int s = 0; s < STAGES; s++) {
    slots[s] = world_place(&world, s, SLOTS * COUNT * 4);
    slots[s].slot_stride = COUNT * 4;
    Place lanes = world_place(&world, s, LANES * COUNT * 4);
    lanes.lane_stride = COUNT * 4;
    if (s > 0) {
      world_transfer(&world, s, INSTRUCTION_RECEIVE, s, s - 1, COUNT, slots[s]);
    }
    if (s + 1 < STAGES) {
      add_copy(&world, s, slots[s], lanes, COUNT);
      world_transfer(&world, s, INSTRUCTION_SEND, s + 1, s + 1, COUNT, lanes);
    }
    PlanProgram *program = &world.plan[s]->programs[PROGRAM_TRAIN];
    program->call_count = program->slots = SLOTS;
    for (int c = 0; c < SLOTS; c++) {
      program->calls[c] = (PlanCall){.slot = c, .lane = c % LANES};
    }
  }
  Session session = world_open(&world, 60, NULL);
  int32_t *data = malloc(SLOTS * COUNT * 4), *back = malloc(SLOTS * COUNT * 4);
  for (int round = 0; round < 3; round++) {
    for (int64_t rank = 0; rank < 2; rank++) {
      for (int i = 0; i < SLOTS * COUNT; i++) {
        data[i] = (int32_t)(rank * 1000003 + i * 7 + round);
      }
      world_write(&world, &session, rank, slots[0], data, SLOTS * COUNT * 4);
    }
    world_run(&session, NULL);
    for (int64_t rank = 4; rank < 6; rank++) {
      world_read(&world, &session, rank, slots[STAGES - 1], back, SLOTS * COUNT * 4);
      for (int i = 0; i < SLOTS * COUNT; i++) {
        assert_int_equal(back[i], (int32_t)((rank - 4) * 1000003 + i * 7 + round));
      }
    }
  }
  free(data);
  free(back);
  session_close(&session);
  world_destroy(&world);
}

static void test_terms_and_pieces(void **state) {
  (void)state;
  World world = world_make((const int64_t[]){2, 3}, 2, -1);
  Plan *plan = world.plan[0];
  plan->terms[1] = (PlanTerm){{16, 32}};
  plan->term_count = 2;
  Place from = world_place(&world, 0, 4 * 4 * 8), to = world_place(&world, 0, 16), all = world_place(&world, 0, 80);
  Place part = world_place(&world, 0, 64);
  from.term = 1;
  add_copy(&world, 0, from, to, 4);
  // 20 elements from 5 of an arena of 6 pieces of 5, the mesh axis of size 3 being the major
  world_add(&world, 0, INSTRUCTION_PIECE, "p")->as.piece = (Piece){
      .type = TYPE_INT, .first = 7, .count = 20, .piece = 5, .mesh_count = 2, .mesh = {1, 0}, .from = all, .to = part};
  Session session = world_open(&world, 60, NULL);
  int32_t data[32], back[5];
  for (int i = 0; i < 32; i++) {
    data[i] = 100 + i;
  }
  for (int64_t rank = 0; rank < 6; rank++) {
    world_write(&world, &session, rank, from, data, sizeof data);
    world_write(&world, &session, rank, all, data, 80);
    world_write(&world, &session, rank, part, (int32_t[5]){-1, -1, -1, -1, -1}, sizeof back);
  }
  world_run(&session, NULL);
  for (int rank = 0; rank < 6; rank++) {
    const int a = rank / 3, b = rank % 3, piece = b * 2 + a;
    world_read(&world, &session, rank, to, back, 16);
    assert_int_equal(back[0], 100 + 4 * a + 8 * b);
    world_read(&world, &session, rank, part, back, sizeof back);
    for (int i = 0; i < 5; i++) {
      const int element = piece * 5 + i;
      assert_int_equal(back[i], element >= 7 && element < 27 ? 100 + element - 7 : -1);
    }
  }
  session_close(&session);
  world_destroy(&world);
}

// --- ranks that do not come ---

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static World two_collectives(const int64_t *mesh, int mesh_count) {
  World world = world_make(mesh, mesh_count, -1);
  const uint32_t all = (1u << mesh_count) - 1;
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, all, 16)->name = "layers.0.x";
  world_collective(&world, 0, COLLECTIVE_ALL_GATHER, REDUCE_SUM, TYPE_BF16, all, 8)->name = "layers.0.y";
  return world;
}

// Runs with a fault: it must end with this text, soon, and end again with it when it is run again.
static void must_fail(World world, double deadline, RanksFault fault, const char *text) {
  Session session = world_open(&world, deadline, &fault);
  const double before = seconds();
  world_run(&session, text);
  world_run(&session, text);
  assert_true(seconds() - before < deadline + 5);
  session_close(&session);
  world_destroy(&world);
}

static void test_hang(void **state) {
  (void)state;
  must_fail(two_collectives((const int64_t[]){4}, 1), 0.3, (RanksFault){RANKS_HANG, 2, 2},
            "rank 2 has not arrived after 0.3 s at the all_gather of 'layers.0.y' (toy.mdl:2), 16 bytes of bf16 among "
            "ranks 0-3; ranks 0, 1, 3 wait; rank 2 was last at the all_reduce of 'layers.0.x' (toy.mdl:1)");
  must_fail(two_collectives((const int64_t[]){2}, 1), 0.3, (RanksFault){RANKS_HANG, 0, 1},
            "rank 0 has not arrived after 0.3 s at the all_reduce of 'layers.0.x' (toy.mdl:1), 64 bytes of f32 among "
            "ranks 0, 1; rank 1 waits; rank 0 has not come to any yet");
  must_fail(two_collectives((const int64_t[]){8, 4}, 2), 1, (RanksFault){RANKS_HANG, 31, 2},
            "rank 31 has not arrived after 1 s at the all_gather of 'layers.0.y' (toy.mdl:2), 16 bytes of bf16 among "
            "ranks 0-31; ranks 0-30 wait; rank 31 was last at the all_reduce of 'layers.0.x' (toy.mdl:1)");
}

static void test_die(void **state) {
  (void)state;
  must_fail(two_collectives((const int64_t[]){4}, 1), 60, (RanksFault){RANKS_DIE, 3, 2},
            "rank 3 is lost: its thread has ended; rank 3 was last at the all_reduce of 'layers.0.x' (toy.mdl:1)");
  must_fail(two_collectives((const int64_t[]){8}, 1), 0, (RanksFault){RANKS_DIE, 0, 1},
            "rank 0 is lost: its thread has ended; rank 0 has not come to any yet");
}

static void test_skip(void **state) {
  (void)state;
  must_fail(two_collectives((const int64_t[]){2}, 1), 60, (RanksFault){RANKS_SKIP, 1, 1},
            "ranks do not agree: rank 0 is at the all_reduce of 'layers.0.x' (toy.mdl:1), 64 bytes of f32 among ranks "
            "0, 1, its number 1; rank 1 is at the all_gather of 'layers.0.y' (toy.mdl:2), 16 bytes of bf16 among ranks "
            "0, 1, its number 2");
  must_fail(two_collectives((const int64_t[]){2}, 1), 60, (RanksFault){RANKS_SKIP, 0, 2},
            "ranks do not agree: rank 0 has ended the program 'train' without the all_gather of 'layers.0.y' "
            "(toy.mdl:2), 16 bytes of bf16 among ranks 0, 1, where rank 1 waits; rank 0 was last at the all_reduce of "
            "'layers.0.x' (toy.mdl:1)");
}

// A rank that stands still in an order that is drawn: at its n-th collective there, wherever that is in the list.
static void test_hang_beside(void **state) {
  (void)state;
  int elsewhere = 0;  // drawn orders in which it is another than in the list
  for (uint64_t seed = 1; seed <= 12; seed++) {
    World world = world_make((const int64_t[]){2, 2}, 2, -1);
    Plan *plan = world.plan[0];
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
      Instruction *at = world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, i % 2 ? 1 : 2, 16);
      at->name = names[i];
      at->aside = i % 2;
    }
    const int *order = order_draw(world.arena, &world.set, 0, PROGRAM_TRAIN, seed);  // one call: places in the list
    const Instruction *third = &plan->segments[0].instructions[order[2]],
                      *second = &plan->segments[0].instructions[order[1]];
    elsewhere += order[2] != 2;
    Session session;
    Error error = {0};
    const SessionOptions options = {.threads = 1, .deadline_seconds = 0.3, .order = seed, .fault = {RANKS_HANG, 3, 3}};
    assert_true(session_open_ranks(&session, &world.set, &backend_cpu, &options, &error));
    assert_false(session_run(&session, PROGRAM_TRAIN, 1, &error));
    const bool beside = third->aside;
    const char *text = arena_format(
        world.arena,
        "rank 3 has not arrived after 0.3 s at the all_reduce of '%s' (toy.mdl:%d), 64 bytes of f32 among ranks %s; ",
        third->name, (int)third->span.begin + 1, beside ? "1, 3" : "2, 3");
    const char *last = arena_format(world.arena, "; rank 3 was last at the all_reduce of '%s' (toy.mdl:%d)",
                                    second->name, (int)second->span.begin + 1);
    if (strncmp(error.text, text, strlen(text)) != 0 || !strstr(error.text, last)) {
      fail_msg("order %d: '%s' does not begin with '%s' and end with '%s'", (int)seed, error.text, text, last);
    }
    session_close(&session);
    world_destroy(&world);
  }
  assert_true(elsewhere > 0);
}

// Stages whose plans say different things: element counts, kinds, and a type.
static void test_plans_that_differ(void **state) {
  (void)state;
  World world = world_make((const int64_t[]){2}, 1, 0);
  world_collective(&world, 0, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 1, 16)->name = "norm";
  world_add(&world, 1, INSTRUCTION_PIECE, "p")->as.piece = (Piece){.type = TYPE_F32};
  world_collective(&world, 1, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, TYPE_F32, 1, 8)->name = "norm";
  must_fail(world, 60, (RanksFault){0},
            "ranks do not agree: rank 0 is at the all_reduce of 'norm' (toy.mdl:1), 64 bytes of f32 among ranks 0, 1, "
            "its number 1; rank 1 is at the all_reduce of 'norm' (toy.mdl:2), 32 bytes of f32 among ranks 0, 1, its "
            "number 1");
  world = world_make((const int64_t[]){2}, 1, 0);
  world_transfer(&world, 0, INSTRUCTION_SEND, 1, 1, 16, world_place(&world, 0, 64));
  world_transfer(&world, 1, INSTRUCTION_RECEIVE, 1, 0, 15, world_place(&world, 1, 64));
  must_fail(world, 60, (RanksFault){0},
            "ranks do not agree: rank 0 is at the send of 'm' (toy.mdl:1), 64 bytes of int, its number 1; rank 1 is at "
            "the receive of 'm' (toy.mdl:1), 60 bytes of int, its number 1");
}

// Rank 2 waits for rank 1, which waits for rank 0: it is rank 0 that is named.
static void test_who_is_to_blame(void **state) {
  (void)state;
  for (int round = 0; round < 2; round++) {
    World world = world_make((const int64_t[]){3}, 1, 0);
    for (int s = 0; s < 3; s++) {
      const Place place = world_place(&world, s, 64);
      if (s > 0) {
        world_transfer(&world, s, INSTRUCTION_RECEIVE, s, s - 1, 16, place);
      }
      if (s < 2) {
        world_transfer(&world, s, INSTRUCTION_SEND, s + 1, s + 1, 16, place);
      }
    }
    must_fail(world, 0.3, round ? (RanksFault){RANKS_HANG, 2, 1} : (RanksFault){RANKS_HANG, 0, 1},
              round ? "rank 2 has not arrived after 0.3 s at the wait for what it sent of 'm' (toy.mdl:2); rank 1 "
                      "waits; rank 2 has not come to any yet"
                    : "rank 0 has not arrived after 0.3 s at the receive of 'm' (toy.mdl:1), 64 bytes of int; rank 1 "
                      "waits; rank 0 has not come to any yet");
  }
}

static void test_waiting_in_a_ring(void **state) {
  (void)state;
  World world = world_make((const int64_t[]){2}, 1, 0);
  for (int s = 0; s < 2; s++) {
    const Place place = world_place(&world, s, 64);
    world_transfer(&world, s, INSTRUCTION_RECEIVE, s, 1 - s, 16, place);
    world_transfer(&world, s, INSTRUCTION_SEND, 1 - s, 1 - s, 16, place);
  }
  must_fail(world, 0.3, (RanksFault){0},
            "ranks wait for each other, after 0.3 s: rank 0 at the receive of 'm' (toy.mdl:1) for rank 1, rank 1 at "
            "the receive of 'm' (toy.mdl:1) for rank 0");
}

static Session *failing_session;

static bool failing_run(Device *device, ProgramKind program, Error *error) {
  return device == session_device(failing_session, 1) ? error_set(error, 1, "the disk is on fire")
                                                      : backend_cpu.run(device, program, error);
}

static void test_errors_end_all(void **state) {
  (void)state;
  World world = two_collectives((const int64_t[]){4}, 1);
  Backend backend = backend_cpu;
  backend.run = failing_run;
  Session session;
  Error error = {0};
  assert_true(session_open_ranks(&session, &world.set, &backend, &(SessionOptions){.threads = 1}, &error));
  failing_session = &session;
  world_run(&session, "rank 1 is lost: the disk is on fire; rank 1 has not come to any yet");
  session_close(&session);
  world_destroy(&world);
}

static atomic_int late;  // ranks that have begun; -2: one has come back, and the plan is what it was; -3: it is not
static const char *late_name;

static bool late_run(Device *device, ProgramKind program, Error *error) {
  (void)device;
  (void)program;
  if (atomic_fetch_add(&late, 1) > 0) {
    return error_set(error, 1, "the disk is on fire");
  }
  nanosleep(&(struct timespec){.tv_sec = 13}, NULL);
  atomic_store(&late, strcmp(late_name, "all") == 0 ? -2 : -3);
  return true;
}

// A rank that does not come back is given up. When it does, its plan is still there, whoever has closed it.
static void test_given_up(void **state) {
  (void)state;
  static World world;  // whose memory is kept for the rank that may still use it
  world = two_collectives((const int64_t[]){2}, 1);
  static Backend backend;
  backend = backend_cpu;
  backend.run = late_run;
  Session session;
  Error error = {0};
  late_name = arena_format(world.arena, "all");
  assert_true(session_open_ranks(&session, &world.set, &backend, &(SessionOptions){.threads = 1}, &error));
  assert_false(crew_gave_up());
  assert_false(session_run(&session, PROGRAM_TRAIN, 1, &error));
  assert_int_equal(error.status, 5);
  assert_true(crew_gave_up());
  session_close(&session);
  world_destroy(&world);
  for (int i = 0; i < 2000 && atomic_load(&late) >= 0; i++) {
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
  assert_int_equal(atomic_load(&late), -2);
}

static void test_what_cannot_be_opened(void **state) {
  (void)state;
  World world = two_collectives((const int64_t[]){4}, 1);
  Session session;
  Error error = {0};
  assert_false(session_open(&session, world.plan[0], &backend_cpu, 1, &error));
  assert_string_equal(error.text, "the plan is for 4 ranks and was opened for one");
  session_close(&session);
  world.plan[0]->arena_bytes[ARENA_PERSISTENT] = (int64_t)1 << 50;
  assert_false(session_open_ranks(&session, &world.set, &backend_cpu, &(SessionOptions){.threads = 1}, &error));
  assert_int_equal(error.status, 3);
  assert_non_null(strstr(error.text, "out of memory: the CPU backend asked for 4096 TiB"));
  assert_non_null(strstr(error.text, " for the values of 4 ranks (the machine has "));
  session_close(&session);
  world_destroy(&world);
}

static void test_faults_are_read(void **state) {
  (void)state;
  RanksFault fault;
  assert_true(ranks_fault_parse("hang:2:17", &fault));
  assert_true(fault.kind == RANKS_HANG && fault.rank == 2 && fault.at == 17);
  assert_true(ranks_fault_parse("die:0:1", &fault) && fault.kind == RANKS_DIE);
  assert_true(ranks_fault_parse("skip:31:4", &fault) && fault.kind == RANKS_SKIP);
  static const char *const wrong[] = {"", "hang", "hang:2", "hang:2:0", "hang:-1:2", "hung:2:3", "hang:2:3x", ":2:3"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_false(ranks_fault_parse(wrong[i], &fault));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_collectives),
      cmocka_unit_test(test_collectives_of_many),
      cmocka_unit_test(test_messages_in_lanes),
      cmocka_unit_test(test_terms_and_pieces),
      cmocka_unit_test(test_hang),
      cmocka_unit_test(test_hang_beside),
      cmocka_unit_test(test_die),
      cmocka_unit_test(test_skip),
      cmocka_unit_test(test_plans_that_differ),
      cmocka_unit_test(test_who_is_to_blame),
      cmocka_unit_test(test_waiting_in_a_ring),
      cmocka_unit_test(test_errors_end_all),
      cmocka_unit_test(test_given_up),
      cmocka_unit_test(test_what_cannot_be_opened),
      cmocka_unit_test(test_faults_are_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
