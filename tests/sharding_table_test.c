// sharding_table_test.c: the collectives that come out of a layout that divides the work of a layer, and nothing more.
//
// The numbers are those derived by hand for the known ways to divide a transformer: Megatron-LM, sequence and context
// parallelism, Ulysses, rings. Those of what is stored in pieces and of pipelines: sharding_storage_test.c.
#include "tests/sharding_counts.h"

static void test_tensor(void **state) {
  (void)state;
  Trial trial = trial_open("mesh tp = 2; kv_heads, ffn, vocab -> tp;", NULL);
  expect(&trial, PHASE_FORWARD, REDUCE, 2, 1);  // the embedding
  expect_nothing_but(&trial, PHASE_FORWARD, REDUCE, REDUCE);
  expect(&trial, PHASE_BACKWARD, REDUCE, 2, 1);  // the head's dx
  expect_nothing_but(&trial, PHASE_BACKWARD, REDUCE, REDUCE);
  expect_cross_entropy(&trial);
  assert_int_equal(summed_over(trial.two, true), 0);
  assert_int_equal(summed_over(trial.two, false), 0);
  trial_close(&trial);
}

static void test_sequence(void **state) {
  (void)state;
  Trial trial = trial_open("mesh tp = 2; kv_heads, ffn, vocab -> tp; @resid: seq -> tp;", NULL);
  expect(&trial, PHASE_FORWARD, GATHER, 2, 1);   // the head's input
  expect(&trial, PHASE_FORWARD, SCATTER, 2, 1);  // the embedding
  expect_nothing_but(&trial, PHASE_FORWARD, GATHER, SCATTER);
  expect(&trial, PHASE_BACKWARD, GATHER, 2 + 2,
         1 + 1);                                  // of dx, and of the inputs again; of the embedding and the head
  expect(&trial, PHASE_BACKWARD, SCATTER, 2, 1);  // the head's dx
  expect_nothing_but(&trial, PHASE_BACKWARD, GATHER, SCATTER);
  expect_cross_entropy(&trial);
  assert_int_equal(summed_over(trial.two, true), 1);  // the norms' gradients are partial
  assert_int_equal(summed_over(trial.two, false), 0);
  trial_close(&trial);
}

// An all-reduce is a reduce-scatter and an all-gather: the same bytes, but for gathering inputs again.
static void test_sequence_bytes(void **state) {
  (void)state;
  Program *without = program_open("mesh tp = 2; kv_heads, ffn, vocab -> tp;", 2, NULL);
  Program *with = program_open("mesh tp = 2; kv_heads, ffn, vocab -> tp; @resid: seq -> tp;", 2, NULL);
  double value = 8 * 16 * 16 * 4, share = 0.5;
  assert_true(fabs(wire_of(with, PHASE_FORWARD) - wire_of(without, PHASE_FORWARD)) < 1);
  double again = (2 * 2 + 1) * share * value;
  assert_true(fabs(wire_of(with, PHASE_BACKWARD) - again - wire_of(without, PHASE_BACKWARD)) < 1);
  program_close(without);
  program_close(with);
}

static void test_context(void **state) {
  (void)state;
  Trial trial = trial_open("mesh cp = 2; seq -> cp;", NULL);
  expect(&trial, PHASE_FORWARD, GATHER, 2, 0);
  expect_nothing_but(&trial, PHASE_FORWARD, GATHER, GATHER);
  expect(&trial, PHASE_BACKWARD, SCATTER, 2, 0);
  expect_nothing_but(&trial, PHASE_BACKWARD, SCATTER, SCATTER);
  expect_packs(&trial, PHASE_GRADIENTS, REDUCE, 0, 1);  // all of them at once
  trial_close(&trial);
}

// What has come with a cut batch is gathered where a rule takes the cut off, and so are the gradients there; what the
// rule does not reach is cut again, for nothing.
static void test_taken_off(void **state) {
  (void)state;
  Trial trial = trial_open("mesh dp = 2; batch -> dp; layers.*.mlp: batch -> none;", NULL);
  expect(&trial, PHASE_FORWARD, GATHER, 1, 0);
  expect_nothing_but(&trial, PHASE_FORWARD, GATHER, GATHER);
  expect(&trial, PHASE_BACKWARD, GATHER, 2, 0);  // of dx, and of the input again
  expect_nothing_but(&trial, PHASE_BACKWARD, GATHER, GATHER);
  trial_close(&trial);
  Trial label = trial_open("mesh dp = 2; batch -> dp; @resid: batch -> none;", NULL);
  expect(&label, PHASE_FORWARD, GATHER, 2, 0);  // of the embedding its index is gathered
  expect_nothing_but(&label, PHASE_FORWARD, GATHER, GATHER);
  trial_close(&label);
}

static void test_ulysses(void **state) {
  (void)state;
  Trial trial = trial_open("mesh cp = 2; seq -> cp; attention: kv_heads -> cp;", NULL);
  expect(&trial, PHASE_FORWARD, EXCHANGE, 4, 0);
  expect_nothing_but(&trial, PHASE_FORWARD, EXCHANGE, EXCHANGE);
  expect(&trial, PHASE_BACKWARD, EXCHANGE, 4, 0);
  expect_nothing_but(&trial, PHASE_BACKWARD, EXCHANGE, EXCHANGE);
  expect_packs(&trial, PHASE_GRADIENTS, REDUCE, 0, 1);
  trial_close(&trial);
}

// Of n ranks: the keys and values pass n - 1 times forward and n - 1 times backward, and so do their gradients.
static void test_ring(void **state) {
  (void)state;
  for (int n = 2; n <= 4; n += 2) {
    char layout[128];
    snprintf(layout, sizeof layout, "mesh cp = %d; seq -> cp(zigzag); attention: key -> cp(ring);", n);
    Trial trial = trial_open(layout, NULL);
    expect(&trial, PHASE_FORWARD, ROTATE, n - 1, 0);
    expect_nothing_but(&trial, PHASE_FORWARD, ROTATE, ROTATE);
    expect(&trial, PHASE_BACKWARD, ROTATE, 2 * (n - 1), 0);
    expect_nothing_but(&trial, PHASE_BACKWARD, ROTATE, ROTATE);
    expect_packs(&trial, PHASE_GRADIENTS, REDUCE, 0, 1);
    trial_close(&trial);
  }
  Trial again = trial_open("mesh cp = 4; seq -> cp; attention: key -> cp(ring); recompute attention;", NULL);
  expect(&again, PHASE_FORWARD, ROTATE, 3, 0);
  expect(&again, PHASE_BACKWARD, ROTATE, 3 * 3, 0);
  trial_close(&again);
}

// Keys and values of S bytes in all: (n - 1) / n S forward, as much as gathering them; twice that backward, where
// gathered keys are still there and only their gradients are scattered.
static void test_ring_bytes(void **state) {
  (void)state;
  for (int n = 2; n <= 8; n *= 2) {
    char gathered[64], passed[128];
    snprintf(gathered, sizeof gathered, "mesh cp = %d; seq -> cp;", n);
    snprintf(passed, sizeof passed, "mesh cp = %d; seq -> cp; attention: key -> cp(ring);", n);
    Program *gather = program_open(gathered, 2, NULL), *ring = program_open(passed, 2, NULL);
    double keys = 2 * 8 * 16 * 4 * 4 * 4, share = (n - 1) / (double)n * 2 * keys;  // of two layers
    double scalar = wire_of(gather, PHASE_FORWARD) - share;
    assert_true(scalar >= 0 && scalar < 64);
    assert_true(fabs(wire_of(ring, PHASE_FORWARD) - scalar - share) < 1e-6);
    assert_true(fabs(wire_of(gather, PHASE_BACKWARD) - share) < 1e-6);
    assert_true(fabs(wire_of(ring, PHASE_BACKWARD) - 2 * share) < 1e-6);
    program_close(gather);
    program_close(ring);
  }
}

// Heads are cut over tp, so the blocks that pass are half as large; nothing else changes.
static void test_ring_and_tensor(void **state) {
  (void)state;
  Trial trial = trial_open(
      "mesh cp = 2, tp = 2; seq -> cp(zigzag); kv_heads, ffn, vocab -> tp; @resid: seq -> cp, tp; attention: key -> "
      "cp(ring);",
      NULL);
  expect(&trial, PHASE_FORWARD, ROTATE, 1, 0);
  expect(&trial, PHASE_FORWARD, GATHER, 2, 1);
  expect(&trial, PHASE_FORWARD, SCATTER, 2, 1);
  expect(&trial, PHASE_BACKWARD, ROTATE, 2, 0);
  expect(&trial, PHASE_BACKWARD, GATHER, 2 + 2, 1 + 1);
  expect(&trial, PHASE_BACKWARD, SCATTER, 2, 1);
  for (int i = 0; i < trial.two->traffic.count; i++) {
    const Collective *collective = &trial.two->traffic.at[i].instruction->as.collective;
    bool rotates = collective->kind == COLLECTIVE_ROTATE;
    assert_true(!rotates || (collective->mesh == 1 && collective->count == 2 * 8 * 8 * 2 * 4));
  }
  trial_close(&trial);
}

static int64_t most_keys(const Program *program) {
  const Plan *plan = program->set->plans[0];
  int64_t most = 0;
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Instruction *at = &plan->segments[s].instructions[i];
      bool attends = instruction_attends(at);
      most = attends && at->as.attention.keys > most ? at->as.attention.keys : most;
    }
  }
  return most;
}

// Gathered keys and values of every layer are kept for the backward; of a ring each rank keeps its own, and has a few
// blocks on their way.
static void test_ring_memory(void **state) {
  (void)state;
  enum { LAYERS = 8, SEQUENCE = 2048, RANKS = 8 };
  Program *gather = program_open("mesh cp = 8; seq -> cp(zigzag);", LAYERS, "seq=2048");
  Program *ring = program_open("mesh cp = 8; seq -> cp(zigzag); attention: key -> cp(ring);", LAYERS, "seq=2048");
  assert_int_equal(most_keys(gather), SEQUENCE);
  assert_int_equal(most_keys(ring), SEQUENCE / RANKS);
  double keys = 2.0 * 8 * SEQUENCE * 16 * 4, block = keys / RANKS;
  double less =
      (double)(gather->set->plans[0]->arena_bytes[ARENA_TRANSIENT] - ring->set->plans[0]->arena_bytes[ARENA_TRANSIENT]);
  double kept = LAYERS * (keys - block), on_their_way = 4 * block;
  if (less < kept - on_their_way) {
    fail_msg("a ring needs %.0f bytes less, not %.0f", less, kept - on_their_way);
  }
  for (int i = 0; i < ring->traffic.count; i++) {
    assert_true(ring->traffic.at[i].pack || ring->traffic.at[i].payload <= block);
  }
  program_close(gather);
  program_close(ring);
}

static void test_context_and_tensor(void **state) {
  (void)state;
  Trial trial = trial_open("mesh cp = 2, tp = 2; seq -> cp; kv_heads, ffn, vocab -> tp; @resid: seq -> cp, tp;", NULL);
  expect(&trial, PHASE_FORWARD, GATHER, 2 + 2, 1);
  expect(&trial, PHASE_FORWARD, SCATTER, 2, 1);
  expect_nothing_but(&trial, PHASE_FORWARD, GATHER, SCATTER);
  expect(&trial, PHASE_BACKWARD, GATHER, 2 + 2, 1 + 1);
  expect(&trial, PHASE_BACKWARD, SCATTER, 2 + 2, 1);
  expect_nothing_but(&trial, PHASE_BACKWARD, GATHER, SCATTER);
  assert_int_equal(summed_over(trial.two, true), 3);   // norms: over cp and tp
  assert_int_equal(summed_over(trial.two, false), 1);  // the others: over cp
  trial_close(&trial);
}

static void test_one_kv_head(void **state) {
  (void)state;
  Trial trial = trial_open("mesh tp = 2; group, ffn, vocab -> tp;", "kv_heads=1");
  expect(&trial, PHASE_FORWARD, REDUCE, 2, 1);
  expect_nothing_but(&trial, PHASE_FORWARD, REDUCE, REDUCE);
  expect(&trial, PHASE_BACKWARD, REDUCE, 2 + 2, 1);  // dx twice, dk and dv
  expect_nothing_but(&trial, PHASE_BACKWARD, REDUCE, REDUCE);
  expect_cross_entropy(&trial);
  trial_close(&trial);
}

// What is computed again sends again, in the backward.
static void test_recompute(void **state) {
  (void)state;
  Trial trial = trial_open("mesh cp = 2; seq -> cp; recompute layers;", NULL);
  expect(&trial, PHASE_FORWARD, GATHER, 2, 0);
  expect(&trial, PHASE_BACKWARD, GATHER, 2, 0);
  expect(&trial, PHASE_BACKWARD, SCATTER, 2, 0);
  expect_nothing_but(&trial, PHASE_BACKWARD, GATHER, SCATTER);
  expect_nothing_but(&trial, PHASE_UPDATE, -1, -1);
  trial_close(&trial);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tensor),
      cmocka_unit_test(test_sequence),
      cmocka_unit_test(test_sequence_bytes),
      cmocka_unit_test(test_context),
      cmocka_unit_test(test_taken_off),
      cmocka_unit_test(test_ulysses),
      cmocka_unit_test(test_context_and_tensor),
      cmocka_unit_test(test_one_kv_head),
      cmocka_unit_test(test_recompute),
      cmocka_unit_test(test_ring),
      cmocka_unit_test(test_ring_bytes),
      cmocka_unit_test(test_ring_and_tensor),
      cmocka_unit_test(test_ring_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
