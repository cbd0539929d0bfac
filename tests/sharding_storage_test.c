// sharding_storage_test.c: what ranks send and hold that store parameters, gradients and optimizer state in pieces, and
// what the stages of a pipeline send and wait for.
//
// The numbers are those derived by hand for data parallelism, ZeRO and the schedules of pipelines.
#include "tests/sharding_counts.h"

static void no_values(const Trial *trial) {
  for (int phase = 0; phase < PHASE_COUNT; phase++) {
    expect_nothing_but(trial, (TrafficPhase)phase, -1, -1);
  }
}

static double parameter_bytes(const Program *program) {
  return program->set->plans[0]->run.parameters * 4;
}

// What the packs send, in parameters' bytes times (n - 1) / n.
static double times_parameters(const Program *program, int ranks) {
  double bytes = 0;
  for (int i = 0; i < program->traffic.count; i++) {
    const Traffic *traffic = &program->traffic.at[i];
    bytes += traffic->pack ? traffic->wire * traffic->calls : 0;
  }
  return bytes / parameter_bytes(program) * ranks / (ranks - 1);
}

static void expect_times(const char *layout, double times) {
  Program *program = program_open(layout, 2, NULL);
  double found = times_parameters(program, 2);
  if (fabs(found - times) > 0.01 * times) {  // packs are padded
    fail_msg("%s: %.3f times the parameters, not %.0f", layout, found, times);
  }
  program_close(program);
}

static void test_data(void **state) {
  (void)state;
  Trial trial = trial_open("mesh dp = 2; batch -> dp;", NULL);
  no_values(&trial);
  expect_packs(&trial, PHASE_GRADIENTS, REDUCE, 0, 1);
  trial_close(&trial);
  expect_times("mesh dp = 2; batch -> dp;", 2);
}

// Parameters are gathered before they are used, and gradients scattered once they are made: each layer by itself, the
// table, and what stands behind the layers.
static void test_zero_1_and_2(void **state) {
  (void)state;
  static const char *const layouts[] = {"mesh dp = 2; batch -> dp; state -> dp;",
                                        "mesh dp = 2; batch -> dp; state -> dp; microbatches = 4;",
                                        "mesh dp = 2; batch -> dp; state -> dp; recompute layers;"};
  for (int i = 0; i < 3; i++) {
    Trial trial = trial_open_buckets(layouts[i]);
    no_values(&trial);
    expect_packs(&trial, PHASE_FORWARD, GATHER, 1, 2);
    expect_packs(&trial, PHASE_BACKWARD, GATHER, 0, 0);
    expect_packs(&trial, PHASE_GRADIENTS, SCATTER, 1, 2);
    expect_packs(&trial, PHASE_UPDATE, GATHER, 0, 0);
    trial_close(&trial);
  }
  expect_times("mesh dp = 2; batch -> dp; state -> dp;", 2);
  expect_times("mesh dp = 2; batch -> dp; state -> dp; microbatches = 2;", 2);
  expect_times("mesh dp = 2; batch -> dp; grad, state -> dp;", 2);
  expect_times("mesh dp = 2; batch -> dp; grad, state -> dp; microbatches = 2;", 3);
}

// The bytes of the parameters that a step gathers, and the bytes of their gradients that it scatters, in f32 once each.
static void expect_bytes(const char *layout, const CompileOptions *as, double gathered, double scattered) {
  Program *program = program_open_as(layout, 2, NULL, as);
  double of[COLLECTIVE_KIND_COUNT] = {0};
  for (int i = 0; i < program->traffic.count; i++) {
    const Traffic *traffic = &program->traffic.at[i];
    of[traffic->instruction->as.collective.kind] += traffic->pack ? traffic->payload * traffic->calls : 0;
  }
  const double all = parameter_bytes(program), found[] = {of[GATHER] / all, of[SCATTER] / all};
  if (fabs(found[0] - gathered) > 0.02 || fabs(found[1] - scattered) > 0.02) {  // norms, and padding
    fail_msg("%s in %s: %.3f gathered and %.3f scattered, not %g and %g", layout, as->precision, found[0], found[1],
             gathered, scattered);
  }
  program_close(program);
}

// What products and embeddings read is gathered in 16 bits, once a step however many microbatches there are; gradients
// are scattered in the format that the policy gives them. A parameter of its own that is read in f32 is gathered so.
static void test_zero_in_16_bits(void **state) {
  (void)state;
  static const char *const layouts[] = {
      "mesh dp = 2; batch -> dp; state -> dp;", "mesh dp = 2; batch -> dp; state -> dp; microbatches = 2;",
      "mesh dp = 2; batch -> dp; grad, state -> dp;", "mesh dp = 2, tp = 2; batch -> dp; state -> dp, tp;",
      "mesh a = 2, b = 2; batch -> a, b; param -> a; grad, state -> a, b;"};
  for (int i = 0; i < 4; i++) {
    expect_bytes(layouts[i], &(CompileOptions){.precision = "fp32"}, 1, 1);
    expect_bytes(layouts[i], &(CompileOptions){.precision = "bf16"}, 0.5, 1);
    expect_bytes(layouts[i], &(CompileOptions){.precision = "thrifty"}, 0.5, 0.5);
  }
  // Half of each parameter once, kept for both gathers of the rest.
  expect_bytes(layouts[4], &(CompileOptions){.precision = "bf16"}, 0.25 + 2 * 0.5, 1);
}

// Of a parameter: 4 bytes of the master, 8 of the optimizer's state and 2 of the copy, each on one rank alone; before
// the backward 2 of what was gathered, which is a value of the step as activations are.
static void test_zero_memory(void **state) {
  (void)state;
  const CompileOptions bf16 = {.precision = "bf16"};
  for (int ranks = 2; ranks <= 8; ranks *= 2) {
    char z1[64], dp[64];
    snprintf(z1, sizeof z1, "mesh dp = %d; batch -> dp; state -> dp;", ranks);
    snprintf(dp, sizeof dp, "mesh dp = %d; batch -> dp;", ranks);
    Program *cut = program_open_as(z1, 2, "embed=128", &bf16), *whole = program_open_as(dp, 2, "embed=128", &bf16);
    const Plan *plan = cut->set->plans[0], *other = whole->set->plans[0];
    const double all = plan->run.parameters;
    assert_true(fabs((double)plan->arena_bytes[ARENA_PERSISTENT] - 14 * all / ranks) < 0.05 * 14 * all / ranks);
    assert_true(fabs((double)other->arena_bytes[ARENA_PERSISTENT] - 14 * all) < 0.05 * 14 * all);
    assert_true(plan->arena_bytes[ARENA_TRANSIENT] < other->arena_bytes[ARENA_TRANSIENT] + 2 * (int64_t)all);
    program_close(cut);
    program_close(whole);
  }
}

static int64_t transient_of(const char *layout, int layers, const CompileOptions *as) {
  Program *program = program_open_as(layout, layers, "embed=128", as);
  const int64_t bytes = program->set->plans[0]->arena_bytes[ARENA_TRANSIENT];
  program_close(program);
  return bytes;
}

static int64_t parameters_of(int layers) {
  Program *program = program_open_as("mesh dp = 2; batch -> dp;", layers, "embed=128", &(CompileOptions){0});
  const int64_t count = (int64_t)program->set->plans[0]->run.parameters;
  program_close(program);
  return count;
}

// With stored gradients a rank keeps its piece of those of a layer, and all of them only until they are scattered: what
// a layer more takes is that piece, and, computed again, the layer's input of 8 / ranks samples.
static void test_zero_gradients(void **state) {
  (void)state;
  enum { FEW = 6, MANY = 12, RANKS = 4, BATCH = 8, SEQ = 16, EMBED = 128 };
  static const char *const layouts[] = {
      "mesh dp = 4; batch -> dp; grad, state -> dp; recompute layers;",
      "mesh dp = 4; batch -> dp; param, grad, state -> dp; recompute layers;",
  };
  const int64_t one = 4 * (parameters_of(MANY) - parameters_of(FEW)) / (MANY - FEW);
  const int64_t input = (int64_t)BATCH / RANKS * SEQ * EMBED * 2;
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    const CompileOptions small = {.bucket_bytes = 1024, .precision = "bf16"};
    const int64_t more =
        (transient_of(layouts[i], MANY, &small) - transient_of(layouts[i], FEW, &small)) / (MANY - FEW);
    const int64_t gathered = i == 0 ? one / 2 : 0;  // parameters are kept until the backward has read them
    const int64_t needs = one / RANKS + input + gathered;
    if (more > needs + needs / 10) {
      fail_msg("%s: a layer more takes %lld bytes, of %lld of gradients", layouts[i], (long long)more, (long long)one);
    }
  }
}

static void test_zero_3(void **state) {
  (void)state;
  Trial trial = trial_open_buckets("mesh dp = 2; batch -> dp; param, grad, state -> dp;");
  no_values(&trial);
  expect_packs(&trial, PHASE_FORWARD, GATHER, 1, 2);
  expect_packs(&trial, PHASE_BACKWARD, GATHER, 1, 1);  // not the table, whose rows' gradients are put where they were
  expect_packs(&trial, PHASE_GRADIENTS, SCATTER, 1, 2);
  expect_packs(&trial, PHASE_UPDATE, GATHER, 0, 0);
  trial_close(&trial);
  expect_times("mesh dp = 2; batch -> dp; param, grad, state -> dp;", 3);
  expect_times("mesh dp = 2; batch -> dp; param, grad, state -> dp; microbatches = 2;", 6);
}

// --- pipelines ---

static int messages(const Program *program, TrafficPhase phase) {
  int count = 0;
  for (int i = 0; i < program->traffic.count; i++) {
    const Traffic *traffic = &program->traffic.at[i];
    bool large = traffic->payload > 8 * 4;
    count += traffic->instruction->kind == INSTRUCTION_SEND && traffic->phase == phase && large ? traffic->calls : 0;
  }
  return count;
}

static void test_pipeline(void **state) {
  (void)state;
  Program *program = program_open("mesh pp = 2; layers -> pp; microbatches = 4;", 2, NULL);
  assert_int_equal(program->set->count, 2);
  assert_int_equal(messages(program, PHASE_FORWARD), 4);   // x, once for each microbatch
  assert_int_equal(messages(program, PHASE_BACKWARD), 4);  // and its gradient
  assert_int_equal(messages(program, PHASE_UPDATE), 0);
  assert_int_equal(program->view.stages.at[0].lanes[0], 2);
  assert_int_equal(program->view.stages.at[1].lanes[0], 1);
  program_close(program);
}

// (p - 1) / (v m) of the time spent working, backwards taking twice as long as forwards.
static void test_bubble(void **state) {
  (void)state;
  static const struct {
    ScheduleKind kind;
    int stages, chunks, microbatches;
  } cases[] = {{SCHEDULE_GPIPE, 4, 1, 8},
               {SCHEDULE_ONE_F_ONE_B, 4, 1, 8},
               {SCHEDULE_ONE_F_ONE_B, 16, 1, 216},
               {SCHEDULE_INTERLEAVED, 4, 2, 8}};
  Arena *arena = arena_create();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int stages = cases[i].stages, chunks = cases[i].chunks, microbatches = cases[i].microbatches;
    double *forward = ARENA_ARRAY(arena, double, stages *chunks),
           *backward = ARENA_ARRAY(arena, double, stages *chunks);
    for (int v = 0; v < stages * chunks; v++) {
      forward[v] = 1;
      backward[v] = 2;
    }
    ScheduleCosts costs = {
        .forward = forward, .backward = backward, .weights = ARENA_ARRAY(arena, double, stages *chunks)};
    Schedule *schedule = schedule_make(arena, cases[i].kind, stages, chunks, microbatches, NULL);
    ScheduleTimes times = schedule_simulate(arena, schedule, &costs);
    double known = (double)(stages - 1) / chunks / microbatches;
    assert_true(fabs(times.makespan / times.ideal - 1 - known) < 1e-9);
  }
  arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_data),        cmocka_unit_test(test_zero_1_and_2),   cmocka_unit_test(test_zero_in_16_bits),
      cmocka_unit_test(test_zero_memory), cmocka_unit_test(test_zero_gradients), cmocka_unit_test(test_zero_3),
      cmocka_unit_test(test_pipeline),    cmocka_unit_test(test_bubble),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
