// states_apart_test.c: whether states share memory, against every byte of every rank marked one by one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/plan/check.h"

enum { BYTES = 4096, STATES = 4, RANKS = 3, CASES = 40000 };

static uint32_t random_state = 1;

static int below(int count) {
  random_state = random_state * 1664525u + 1013904223u;
  return (int)((random_state >> 8) % (uint32_t)count);
}

// Up to three axes in any order, rows with gaps between them in which others may lie.
static void state_draw(PlanState *state, bool pieces) {
  static const ElementType types[] = {TYPE_F32, TYPE_F32, TYPE_F32, TYPE_BF16};
  *state = (PlanState){.name = "state", .type = types[below(4)], .axis_count = below(4)};
  int64_t stride = 1 + below(8) / 7;
  for (int i = 0, first = below(3); i < state->axis_count; i++) {
    const int a = (first + i) % state->axis_count;
    state->size[a] = 1 + below(4);
    state->stride[a] = stride;
    stride = stride * state->size[a] + (below(3) == 0 ? below(12) : 0);
    stride = below(3) == 0 ? (stride + 7) / 8 * 8 : stride;
  }
  const int64_t bytes = element_type_bytes(state->type);
  state->offset = below(60) * bytes;
  if (pieces && below(3) > 0) {
    state->offset = 4 * below(2) * 32;
    state->flat_piece = 20 + 10 * below(2);
    state->flat_first = below(40);
    state->flat_count = 1;
  }
}

// Marks what a rank holds; false: something of it was marked.
static bool state_mark(const PlanState *state, int rank, uint8_t *marks) {
  const int64_t bytes = element_type_bytes(state->type);
  int64_t at[PLAN_MAX_AXES] = {0};
  for (;;) {
    int64_t element = 0, place;
    for (int a = 0; a < state->axis_count; a++) {
      element += at[a] * state->stride[a];
    }
    place = state->offset + element * bytes;
    if (state->flat_piece) {
      element += state->flat_first;
      place = element / state->flat_piece == rank ? state->offset + element % state->flat_piece * bytes : -1;
    }
    for (int64_t b = 0; place >= 0 && b < bytes; b++) {
      assert_true(place + b < BYTES);
      if (marks[place + b]++) {
        return false;
      }
    }
    int a = state->axis_count - 1;
    for (; a >= 0 && ++at[a] == state->size[a]; a--) {
      at[a] = 0;
    }
    if (a < 0) {
      return true;
    }
  }
}

static bool apart_by_marks(const Plan *plan) {
  for (int rank = 0; rank < RANKS * 8; rank++) {
    uint8_t marks[BYTES] = {0};
    for (int i = 0; i < plan->state_count; i++) {
      if (!state_mark(&plan->states[i], rank, marks)) {
        return false;
      }
    }
  }
  return true;
}

// Of whole tensors every answer is right. Two arenas that are cut into pieces are apart where their memory is: that no
// element of one lies in what another leaves free is not looked at, so there the answer may be no where it could be
// yes.
static void test_against_marks(void **state) {
  (void)state;
  int apart = 0, met = 0, careful = 0;
  for (int c = 0; c < CASES; c++) {
    Arena *arena = arena_create();
    Plan plan = {.state_count = 2 + below(STATES - 1), .mesh_count = 1, .mesh = {{"dp", RANKS * 8}}};
    plan.states = ARENA_ARRAY(arena, PlanState, STATES);
    for (int i = 0; i < plan.state_count; i++) {
      state_draw(&plan.states[i], c % 2);
    }
    PlanCheck v = {.arena = arena, .plan = &plan, .slots = 1, .lanes = 1};
    const bool marks = apart_by_marks(&plan), checked = check_states_apart(&v);
    if (checked && !marks) {
      fail_msg("case %d: states that share memory pass", c);
    }
    if (marks && !checked && c % 2 == 0) {
      fail_msg("case %d: %s", c, v.why);
    }
    careful += marks && !checked;
    apart += checked;
    met += !marks;
    arena_destroy(arena);
  }
  assert_true(apart > CASES / 20 && met > CASES / 20);
  assert_true(careful < apart / 4);
}

static void test_two_in_one_place(void **state) {
  (void)state;
  Arena *arena = arena_create();
  PlanState odd = {.name = "odd", .type = TYPE_F32, .axis_count = 2, .size = {4, 4}, .stride = {3, 1}};
  Plan plan = {.state_count = 1, .states = &odd};
  PlanCheck v = {.arena = arena, .plan = &plan, .slots = 1, .lanes = 1};
  assert_false(check_states_apart(&v));
  assert_non_null(strstr(v.why, "two elements in one place"));
  odd.stride[0] = 4;
  v.why = NULL;
  assert_true(check_states_apart(&v));
  arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_against_marks),
      cmocka_unit_test(test_two_in_one_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
