// parts_test.c: collectives have arithmetic beside them: products in parts, products that wait, rings.
//
// Where instructions stand is seen from the waits of plans (plan/waits.h), which follow from the bytes alone. What
// products in parts compute is compared to the bit with what they compute in one, in fp64, since OpenBLAS has a kernel
// of its own for small products in fp32; that layouts give what one rank gives, in parts and in drawn orders, says
// layouts_test.
#include "tests/layouts_outcome.h"

#include <cmocka.h>

#include "compiler/plan/waits.h"
#include "tests/effort.h"

static const char *const sizes[] = {"batch=2", "seq=512", "embed=128", "ffn=512", "vocab=256", "hd=32", "layers=2"};

enum { SIZES = sizeof sizes / sizeof *sizes };

typedef struct {
  LayoutRun *run;
  const PlanSegment *train;
  PlanWaitList *waits;
} Trial;

static Trial trial_of(const char *layout, int64_t part_rows) {
  const CompileOptions options = {
      .layout = layout, .precision = "fp64", .set = sizes, .set_count = SIZES, .part_rows = part_rows};
  Trial trial = {.run = layout_compile(MDL_SOURCE_DIR "/tests/layouts/llama.mdl", &options, stderr)};
  assert_non_null(trial.run);
  const Plan *plan = trial.run->set->plans[0];
  const int segment = plan->programs[PROGRAM_TRAIN].calls[0].segment;
  trial.train = &plan->segments[segment];
  trial.waits = plan_waits(trial.run->arena, plan)->of[segment];
  return trial;
}

static bool is_over(const Instruction *instruction, CollectiveKind kind) {
  return instruction->kind == INSTRUCTION_COLLECTIVE && instruction->as.collective.kind == kind;
}

static bool waits_for(const Trial *trial, int at, int other) {
  bool waits = false;
  for (int i = 0; i < trial->waits[at].count; i++) {
    waits |= trial->waits[at].at[i].which == WAIT_THIS_CALL && trial->waits[at].at[i].instruction == other;
  }
  return waits;
}

static bool is_product(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_GEMM || instruction_attends(instruction);
}

// Whether a product runs between what a collective waits for and what waits for it.
static bool has_product(const Trial *trial, int at) {
  int ready = -1, until = at + 1;
  bool has = false;
  for (int i = 0; i < trial->waits[at].count; i++) {
    const PlanWait *wait = &trial->waits[at].at[i];
    ready = wait->which == WAIT_THIS_CALL && wait->instruction > ready ? wait->instruction : ready;
  }
  while (until < trial->train->count && !waits_for(trial, until, at)) {
    until++;
  }
  for (int i = ready + 1; i < until; i++) {
    has |= is_product(&trial->train->instructions[i]);
  }
  return has;
}

static int count_alone(const Trial *trial, int *all) {
  int alone = 0;
  *all = 0;
  for (int i = 0; i < trial->train->count; i++) {
    const Instruction *at = &trial->train->instructions[i];
    if (at->kind == INSTRUCTION_COLLECTIVE && at->as.collective.count >= 128) {
      *all += 1;
      alone += !has_product(trial, i);
    }
  }
  return alone;
}

// Parts of a scattered sum follow the parts of its product, each beside the next; parts of a product follow those of
// the gather that it reads, each waiting for its own.
static void test_parts_stand_beside(void **state) {
  (void)state;
  const Trial trial = trial_of("tp2sp", 256);
  int scattered = 0, gathered = 0;
  for (int i = 0; i + 2 < trial.train->count; i++) {
    const Instruction *at = &trial.train->instructions[i];
    if (at[0].parts && is_over(&at[1], COLLECTIVE_REDUCE_SCATTER) && at[2].parts) {
      assert_true(at[1].aside && waits_for(&trial, i + 1, i) && !waits_for(&trial, i + 2, i + 1));
      assert_true(at[0].as.gemm.c.offset < at[2].as.gemm.c.offset);
      scattered++;
    }
    if (is_over(&at[0], COLLECTIVE_ALL_GATHER) && is_over(&at[1], COLLECTIVE_ALL_GATHER) &&
        at[0].number == at[1].number) {
      int first = i + 1;
      while (!waits_for(&trial, first, i)) {
        first++;
      }
      assert_true(trial.train->instructions[first].parts && waits_for(&trial, first + 1, i + 1));
      gathered++;
    }
  }
  print_message("%d scattered, %d gathered\n", scattered, gathered);
  assert_true(scattered >= 8 && gathered >= 8);
  arena_destroy(trial.run->arena);
}

// Without parts, products of weights' gradients stand beside what the backward waits for at once.
static void test_gradients_of_weights_wait(void **state) {
  (void)state;
  static const struct {
    const char *layout;
    int most;  // collectives without a product beside them, of 100
  } cases[] = {{"tp2sp", 60}, {"tp2", 70}, {"ulysses2", 70}, {"ring4", 20}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const Trial trial = trial_of(cases[i].layout, INT64_MAX);
    int all;
    const int alone = count_alone(&trial, &all);
    print_message("%s: %d of %d alone\n", cases[i].layout, alone, all);
    assert_true(alone * 100 <= cases[i].most * all);
    arena_destroy(trial.run->arena);
  }
}

// While queries are exchanged, their keys and values are made: two products between the first exchange and its use.
static void test_keys_are_made_beside_queries(void **state) {
  (void)state;
  const Trial trial = trial_of("ulysses2", INT64_MAX);
  int first = 0, products = 0;
  while (!is_over(&trial.train->instructions[first], COLLECTIVE_ALL_TO_ALL)) {
    first++;
  }
  assert_true(trial.train->instructions[first].aside);
  for (int i = first + 1; trial.train->instructions[i].kind != INSTRUCTION_ATTENTION; i++) {
    assert_false(trial.train->instructions[i].kind != INSTRUCTION_COLLECTIVE && waits_for(&trial, i, first));
    products += trial.train->instructions[i].kind == INSTRUCTION_GEMM;
  }
  assert_int_equal(products, 2);
  arena_destroy(trial.run->arena);
}

// Keys of a ring, and their gradients, have an attention of another block beside them, but for those that go first.
static void test_rings_turn_beside_attention(void **state) {
  (void)state;
  const Trial trial = trial_of("ring4", INT64_MAX);
  int rotations = 0, alone = 0;
  for (int i = 0; i < trial.train->count; i++) {
    const bool rotates = is_over(&trial.train->instructions[i], COLLECTIVE_ROTATE);
    rotations += rotates;
    alone += rotates && !has_product(&trial, i);
  }
  assert_int_equal(rotations, 2 * (3 + 6));  // of two layers, forward and backward
  assert_int_equal(alone, 0);
  arena_destroy(trial.run->arena);
}

// Products of weights' gradients that stand beside collectives may be cut by rows: both halves are there, and make what
// the whole makes.
static void test_halves_are_whole(void **state) {
  (void)state;
  const Trial halves = trial_of("tp2sp", 64), whole = trial_of("tp2sp", INT64_MAX);
  int64_t elements[2] = {0};
  double flops[2] = {0};
  int cut = 0, apart = 0, last = -1;
  for (int t = 0; t < 2; t++) {
    const Trial *trial = t ? &whole : &halves;
    for (int i = 0; i < trial->train->count; i++) {
      const Instruction *at = &trial->train->instructions[i];
      if (at->kind == INSTRUCTION_GEMM && at->as.gemm.transpose_a) {
        elements[t] += at->as.gemm.m * at->as.gemm.n;
        flops[t] += at->flops;
        cut += at->parts > 0;
        apart += at->parts && last >= 0 && i > last + 1;
        last = at->parts ? i : last;
      }
    }
  }
  print_message("%d halves, %d of them behind something else\n", cut, apart);
  assert_true(cut >= 4 && cut % 2 == 0 && apart > 0);
  assert_int_equal(elements[0], elements[1]);
  assert_true(fabs(flops[0] - flops[1]) <= 1e-9 * flops[1]);
  arena_destroy(halves.run->arena);
  arena_destroy(whole.run->arena);
}

static void test_parts_keep_the_bits(void **state) {
  (void)state;
  static const char *const layouts[] = {"tp2", "tp2sp", "tp4", "pp2sp", "tp2sp"};
  static const int64_t rows[] = {256, 256, 256, 256, 64};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    if (effort_samples_out(i, 3)) {
      continue;
    }
    Arena *arena = arena_create();
    Trial cut = trial_of(layouts[i], rows[i]), whole = trial_of(layouts[i], INT64_MAX);
    Outcome expected = {0}, found = {0};
    char said[512] = "";
    assert_true(cut.train->count > whole.train->count);
    outcome_run(whole.run, "whole products", 60, arena, &expected);
    outcome_run(cut.run, "products in parts", 60, arena, &found);
    const bool same = outcome_same(&expected, &found, 0, false, said, sizeof said);
    if (!same) {
      fail_msg("%s: %s", layouts[i], said);
    }
    arena_destroy(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parts_stand_beside),
      cmocka_unit_test(test_gradients_of_weights_wait),
      cmocka_unit_test(test_keys_are_made_beside_queries),
      cmocka_unit_test(test_rings_turn_beside_attention),
      cmocka_unit_test(test_halves_are_whole),
      cmocka_unit_test(test_parts_keep_the_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
