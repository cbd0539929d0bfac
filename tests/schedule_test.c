// schedule_test.c: orders of pipelines: all of them are sound, hold what they may and take the published time.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "compiler/report/schedule_chart.h"

enum { STAGES = 8, CHUNKS = 4, MICROBATCHES = 32 };

typedef void Visit(Arena *arena, const Schedule *schedule);

// Calls back with every schedule that is possible.
static void visit_all(Visit *visit) {
  for (int kind = SCHEDULE_GPIPE; kind <= SCHEDULE_ZERO_BUBBLE; kind++) {
    for (int p = 1; p <= STAGES; p++) {
      for (int v = 1; v <= CHUNKS; v++) {
        for (int m = 1; m <= MICROBATCHES; m++) {
          if (!schedule_impossible((ScheduleKind)kind, p, v, m)) {
            Arena *arena = arena_create();
            visit(arena, schedule_make(arena, (ScheduleKind)kind, p, v, m, NULL));
            arena_destroy(arena);
          }
        }
      }
    }
  }
}

static int schedules;

static void check_sound(Arena *arena, const Schedule *schedule) {
  const char *why = schedule_check(arena, schedule);
  if (why) {
    fail_msg("%s, %d stages, %d chunks, %d microbatches: %s", schedule_name(schedule->kind), schedule->stages,
             schedule->chunks, schedule->microbatches, why);
  }
  schedules++;
}

static void test_sound(void **state) {
  (void)state;
  visit_all(check_sound);
  // gpipe, 1F1B and zero bubble: 8 * 32 each; interleaved: 4 times the multiples.
  assert_int_equal(schedules, 3 * 8 * 32 + 4 * (32 + 16 + 10 + 8 + 6 + 5 + 4 + 4));
  assert_non_null(schedule_impossible(SCHEDULE_INTERLEAVED, 4, 2, 6));
  assert_non_null(schedule_impossible(SCHEDULE_ONE_F_ONE_B, 4, 2, 8));
  assert_non_null(schedule_impossible(SCHEDULE_GPIPE, 0, 1, 8));
}

// Microbatches held at once, counted another way: by the lane that each would take.
static bool lanes_collide(const Schedule *schedule, int stage, int chunk, int lanes) {
  bool taken[MICROBATCHES] = {false}, collide = false;
  for (int i = 0; i < schedule->action[stage].count; i++) {
    const Action *action = &schedule->action[stage].at[i];
    if (action->chunk == chunk && action->kind == ACTION_FORWARD) {
      collide |= taken[action->microbatch % lanes];
      taken[action->microbatch % lanes] = true;
    } else if (action->chunk == chunk && action->kind == (schedule->weights ? ACTION_WEIGHTS : ACTION_BACKWARD)) {
      taken[action->microbatch % lanes] = false;
    }
  }
  return collide;
}

// Of all chunks together.
static int most_held(const Schedule *schedule, int stage) {
  int held = 0, most = 0;
  for (int i = 0; i < schedule->action[stage].count; i++) {
    held += schedule->action[stage].at[i].kind == ACTION_FORWARD ? 1 : -1;
    most = held > most ? held : most;
  }
  return most;
}

static int least(int a, int b) {
  return a < b ? a : b;
}

static void check_lanes(Arena *arena, const Schedule *schedule) {
  (void)arena;
  int p = schedule->stages, v = schedule->chunks, m = schedule->microbatches;
  for (int s = 0; s < p; s++) {
    int all = 0;
    for (int c = 0; c < v; c++) {
      int lanes = schedule_lanes(schedule, s, c);
      all += lanes;
      assert_true(schedule_lanes_fit(schedule, s, c, lanes));
      assert_false(lanes_collide(schedule, s, c, lanes));
      assert_false(schedule_lanes_fit(schedule, s, c, lanes - 1));
      assert_true(lanes == 1 || lanes_collide(schedule, s, c, lanes - 1));
    }
    if (schedule->kind == SCHEDULE_GPIPE) {
      assert_int_equal(all, m);
    } else if (schedule->kind == SCHEDULE_ONE_F_ONE_B) {
      assert_int_equal(all, least(p - s, m));
    } else if (schedule->kind == SCHEDULE_ZERO_BUBBLE) {
      assert_true(all <= least(p, m) && all >= least(p - s, m));
    } else {
      int warmup = v > 1 ? 2 * (p - s - 1) + (v - 1) * p : p - s - 1;
      assert_int_equal(most_held(schedule, s), least(warmup + 1, v * m));
      assert_true(all >= least(warmup + 1, v * m));
    }
  }
}

// Megatron-LM's figure: 2 stages of 2 chunks, 4 microbatches.
static void test_megatron_order(void **state) {
  (void)state;
  static const char *const expected[] = {
      "F00 F01 F10 F11 F02 B10 F03 B11 F12 B00 F13 B01 B12 B13 B02 B03 ",
      "F00 F01 F10 B10 F11 B11 F02 B00 F03 B01 F12 B12 F13 B13 B02 B03 ",
  };
  Arena *arena = arena_create();
  Schedule *schedule = schedule_make(arena, SCHEDULE_INTERLEAVED, 2, 2, 4, NULL);
  for (int s = 0; s < 2; s++) {
    Buffer text = {0};
    for (int i = 0; i < schedule->action[s].count; i++) {
      const Action *action = &schedule->action[s].at[i];
      buffer_format(&text, "%c%d%d ", action->kind == ACTION_FORWARD ? 'F' : 'B', action->chunk, action->microbatch);
    }
    assert_string_equal(text.text, expected[s]);
    buffer_free(&text);
  }
  arena_destroy(arena);
}

static void test_lanes(void **state) {
  (void)state;
  visit_all(check_lanes);
}

// A chunk whose message skips stages keeps it until its reader comes to it; no others change.
static void test_jumps(void **state) {
  (void)state;
  Arena *arena = arena_create();
  Schedule *schedule = schedule_make(arena, SCHEDULE_INTERLEAVED, 2, 2, 2, NULL);
  const ScheduleJump far = {3, 0, ACTION_BACKWARD, ACTION_BACKWARD}, near = {3, 2, ACTION_BACKWARD, ACTION_BACKWARD};
  const int *none = schedule_lanes_all(arena, schedule, NULL, 0);
  const int *with_near = schedule_lanes_all(arena, schedule, &near, 1);
  const int *with_far = schedule_lanes_all(arena, schedule, &far, 1);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(none[i], schedule_lanes(schedule, i % 2, i / 2));
    assert_int_equal(with_near[i], none[i]);
    assert_int_equal(with_far[i], none[i] + (i == 3));  // stage 0 does both backwards of its chunk 1 before those of 0
  }
  // The last stage of 1F1B has one lane, and the first takes its first gradient once it has sent all it can.
  const ScheduleJump skip = {3, 0, ACTION_BACKWARD, ACTION_BACKWARD};
  Schedule *plain = schedule_make(arena, SCHEDULE_ONE_F_ONE_B, 4, 1, 8, NULL);
  const int *lanes = schedule_lanes_all(arena, plain, &skip, 1);
  assert_true(lanes[3] >= 1 && lanes[3] <= 4);
  assert_int_equal(lanes[0], schedule_lanes(plain, 0, 0));
  arena_destroy(arena);
}

// The time that is lost, as a share of the ideal time, with forward 1 and backward 2 everywhere.
static void check_bubble(Arena *arena, const Schedule *schedule) {
  int p = schedule->stages, v = schedule->chunks, m = schedule->microbatches;
  ScheduleTimes times = schedule_simulate(arena, schedule, NULL);
  double lost = times.makespan / times.ideal - 1, published = (double)(p - 1) / (v * m);
  assert_true(fabs(times.ideal - 3.0 * v * m) < 1e-9);
  if (schedule->kind == SCHEDULE_ZERO_BUBBLE) {  // (p - 1)(F + B - W) once there are enough microbatches
    if (m >= 2 * p ? fabs(lost - published / 3) > 1e-9 : (p > 1 && m > 1 && !(lost < published - 1e-9))) {
      fail_msg("zero_bubble %d stages, %d microbatches: %.3f lost, 1F1B %.3f", p, m, lost, published);
    }
  } else if (fabs(lost - published) > 1e-9) {
    fail_msg("%s %d stages, %d chunks, %d microbatches: %.4f lost, %.4f published", schedule_name(schedule->kind), p, v,
             m, lost, published);
  }
  double idle = 0;
  for (int s = 0; s < p; s++) {
    idle += times.idle[s] / p;
  }
  assert_true(fabs(idle - times.bubble) < 1e-9);
  assert_true(fabs(times.bubble - lost / (1 + lost)) < 1e-9);
}

static void test_bubbles(void **state) {
  (void)state;
  visit_all(check_bubble);
}

// Drawn costs: times respect everything that schedule_check knows, and WEIGHTS in bubbles never cost more than 1F1B.
static void test_drawn_costs(void **state) {
  (void)state;
  uint32_t random = 1;
  double worse = 0;
  for (int round = 0; round < 300; round++) {
    Arena *arena = arena_create();
    double cost[3][STAGES];
    for (int i = 0; i < 3 * STAGES; i++) {
      random = random * 1664525u + 1013904223u;
      cost[i / STAGES][i % STAGES] = 1 + (random >> 8) % 1000 / (round % 2 ? 1000.0 : 10000.0);
    }
    int p = 1 + round % STAGES, m = 1 + round / 7 % MICROBATCHES;
    ScheduleCosts costs = {cost[0], cost[1], cost[2], round % 3 ? 0 : 0.05};
    Schedule *zero = schedule_make(arena, SCHEDULE_ZERO_BUBBLE, p, 1, m, &costs);
    Schedule *one = schedule_make(arena, SCHEDULE_ONE_F_ONE_B, p, 1, m, &costs);
    assert_null(schedule_check(arena, zero));
    check_lanes(arena, zero);
    ScheduleTimes filled = schedule_simulate(arena, zero, &costs), plain = schedule_simulate(arena, one, &costs);
    worse = fmax(worse, filled.makespan / plain.makespan);
    for (int s = 0; s < p; s++) {
      assert_true(fabs(filled.busy[s] - plain.busy[s]) < 1e-9);
      for (int i = 1; i < zero->action[s].count; i++) {
        assert_true(filled.action[s][i].start >= filled.action[s][i - 1].end);
      }
    }
    arena_destroy(arena);
  }
  assert_true(worse <= 1 + 1e-9);
}

// Everything that makes an order wrong is found.
static void test_wrong_orders(void **state) {
  (void)state;
  int swaps = 0, found = 0;
  for (int kind = SCHEDULE_GPIPE; kind <= SCHEDULE_ZERO_BUBBLE; kind++) {
    Arena *arena = arena_create();
    Schedule *schedule = schedule_make(arena, (ScheduleKind)kind, 4, kind == SCHEDULE_INTERLEAVED ? 2 : 1, 8, NULL);
    for (int s = 0; s < 4; s++) {
      ActionList *list = &schedule->action[s];
      for (int i = 0; i < list->count; i++) {
        for (int j = i + 1; j < list->count; j++) {
          Action a = list->at[i], b = list->at[j];
          list->at[i] = b;
          list->at[j] = a;
          const char *why = schedule_check(arena, schedule);
          bool must = (a.kind == b.kind && a.chunk == b.chunk) || (a.microbatch == b.microbatch && a.chunk == b.chunk);
          assert_true(!must || why);
          swaps++;
          found += why != NULL;
          list->at[i] = a;
          list->at[j] = b;
        }
      }
    }
    assert_null(schedule_check(arena, schedule));
    ActionList *list = &schedule->action[1];
    list->count--;
    assert_non_null(schedule_check(arena, schedule));
    list->count++;
    Action last = list->at[list->count - 1];
    list->at[list->count - 1] = list->at[0];
    assert_non_null(schedule_check(arena, schedule));
    list->at[list->count - 1] = last;
    list->at[0].chunk = 7;
    assert_non_null(schedule_check(arena, schedule));
    arena_destroy(arena);
  }
  assert_true(found > swaps * 9 / 10);
  // Two stages that wait for each other: the last stage wants the second microbatch before the first goes back, and the
  // first stage the first to come back before it sends the second.
  Arena *arena = arena_create();
  Schedule *schedule = schedule_make(arena, SCHEDULE_ONE_F_ONE_B, 2, 1, 2, NULL);
  const Action first[4] = {
      {ACTION_FORWARD, 0, 0}, {ACTION_BACKWARD, 0, 0}, {ACTION_FORWARD, 0, 1}, {ACTION_BACKWARD, 0, 1}};
  const Action second[4] = {
      {ACTION_FORWARD, 0, 0}, {ACTION_FORWARD, 0, 1}, {ACTION_BACKWARD, 0, 0}, {ACTION_BACKWARD, 0, 1}};
  for (int i = 0; i < 4; i++) {
    schedule->action[0].at[i] = first[i];
    schedule->action[1].at[i] = second[i];
  }
  assert_string_equal(schedule_check(arena, schedule), "backward of microbatch 0, chunk 0 on stage 0 waits for ever");
  arena_destroy(arena);
}

static double largest(const double *cost, const int *sizes, int parts, int count, double before, double after) {
  double most = 0;
  for (int part = 0, at = 0; part < parts; part++) {
    double sum = (part == 0 ? before : 0) + (part == parts - 1 ? after : 0);
    assert_true(sizes[part] >= 1);
    for (int i = 0; i < sizes[part]; i++) {
      sum += cost[at++];
    }
    most = fmax(most, sum);
    assert_true(part < parts - 1 || at == count);
  }
  return most;
}

// The least largest part, by trying every cut.
static double least_largest(const double *cost, int count, int parts, double before, double after, int *sizes, int part,
                            int left) {
  if (part == parts - 1) {
    sizes[part] = left;
    return largest(cost, sizes, parts, count, before, after);
  }
  double best = INFINITY;
  for (sizes[part] = 1; sizes[part] <= left - (parts - 1 - part); sizes[part]++) {
    best = fmin(best, least_largest(cost, count, parts, before, after, sizes, part + 1, left - sizes[part]));
  }
  return best;
}

static void test_split(void **state) {
  (void)state;
  Arena *arena = arena_create();
  double cost[100];
  int sizes[100];
  for (int i = 0; i < 100; i++) {
    cost[i] = 1;
  }
  assert_false(split_layers(arena, cost, 3, 4, 0, 0, sizes));
  assert_true(split_layers(arena, cost, 10, 4, 0, 0, sizes));
  const int even[4] = {2, 2, 3, 3};
  assert_memory_equal(sizes, even, sizeof even);
  assert_true(split_layers(arena, cost, 10, 4, 0, 2, sizes));  // a head as dear as two layers
  const int head[4] = {3, 3, 3, 1};
  assert_memory_equal(sizes, head, sizeof head);
  assert_true(split_layers(arena, cost, 6, 3, 50, 0, sizes));  // nothing helps the first; the others stay even
  const int first[3] = {1, 2, 3};
  assert_memory_equal(sizes, first, sizeof first);
  const double nothing[8] = {0};
  assert_true(split_layers(arena, nothing, 8, 4, 0, 0, sizes));
  const int alike[4] = {2, 2, 2, 2};
  assert_memory_equal(sizes, alike, sizeof alike);
  uint32_t random = 7;
  for (int round = 0; round < 500; round++) {
    int count = 1 + round % 10, parts = 1 + round / 10 % count, other[16];
    for (int i = 0; i < count + 2; i++) {
      random = random * 1664525u + 1013904223u;
      cost[i] = (random >> 8) % 100;
    }
    assert_true(split_layers(arena, cost, count, parts, cost[count], cost[count + 1], sizes));
    double got = largest(cost, sizes, parts, count, cost[count], cost[count + 1]);
    double best = least_largest(cost, count, parts, cost[count], cost[count + 1], other, 0, count);
    assert_true(got <= best * (1 + 1e-6));
  }
  arena_destroy(arena);
}

static int occurrences(const char *text, const char *part) {
  int count = 0;
  for (const char *at = text; (at = strstr(at, part)); at++) {
    count++;
  }
  return count;
}

// Pictures of the smallest and the largest: whole, with no number that is none, and every box in its place.
static void test_chart(void **state) {
  (void)state;
  static const int sizes[][4] = {{SCHEDULE_GPIPE, 1, 1, 1},          {SCHEDULE_ONE_F_ONE_B, 4, 1, 8},
                                 {SCHEDULE_INTERLEAVED, 4, 4, 16},   {SCHEDULE_ZERO_BUBBLE, 8, 1, 16},
                                 {SCHEDULE_ZERO_BUBBLE, 16, 1, 128}, {SCHEDULE_ONE_F_ONE_B, 64, 1, 64}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    Arena *arena = arena_create();
    int stages = sizes[i][1], chunks = sizes[i][2], microbatches = sizes[i][3];
    Schedule *schedule = schedule_make(arena, (ScheduleKind)sizes[i][0], stages, chunks, microbatches, NULL);
    ScheduleTimes times = schedule_simulate(arena, schedule, NULL);
    ScheduleChart facts = {.title = "a < b & c", .subtitle = "drawn", .unit = "forwards"};
    Buffer out = {0};
    schedule_chart(schedule, &times, &facts, &out);
    assert_int_equal(strncmp(out.text, "<svg ", 5), 0);
    assert_string_equal(out.text + out.length - 7, "</svg>\n");
    assert_non_null(strstr(out.text, "a &lt; b &amp; c"));
    assert_null(strstr(out.text, "nan"));
    assert_null(strstr(out.text, "inf"));
    assert_int_equal(occurrences(out.text, "class=\"held\""), stages);
    int actions = stages * schedule->action[0].count;
    assert_true(occurrences(out.text, "z") >= actions);  // boxes are closed by z
    if (microbatches <= 16 && chunks == 1) {             // else boxes are too narrow
      assert_int_equal(occurrences(out.text, "class=\"number\""), actions);
    }
    assert_true(out.length < 1 << 20);
    buffer_free(&out);
    arena_destroy(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sound),        cmocka_unit_test(test_megatron_order), cmocka_unit_test(test_lanes),
      cmocka_unit_test(test_jumps),        cmocka_unit_test(test_bubbles),        cmocka_unit_test(test_drawn_costs),
      cmocka_unit_test(test_wrong_orders), cmocka_unit_test(test_split),          cmocka_unit_test(test_chart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
