// sharding_table_test.c: the collectives that come out of a layout, and nothing more.
//
// A Llama of two and of three layers is compiled under each layout; what the third layer adds is what a layer costs,
// what remains of two is outside of the layers. The numbers are those derived by hand for the known ways to divide a
// transformer: Megatron-LM, sequence and context parallelism, Ulysses, ZeRO.
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include "compiler/compile.h"
#include "compiler/explain_traffic.h"
#include "compiler/schedule.h"

enum { REDUCE = COLLECTIVE_ALL_REDUCE, GATHER = COLLECTIVE_ALL_GATHER };
enum { SCATTER = COLLECTIVE_REDUCE_SCATTER, EXCHANGE = COLLECTIVE_ALL_TO_ALL, ROTATE = COLLECTIVE_ROTATE };

static const char model[] =
    "import std.nn;\n"
    "model m {\n"
    "  axis batch, seq;\n"
    "  axis vocab = 32, layers = 2, embed = 16, kv_heads = 4, group = 2, hd = 4, ffn = 32;\n"
    "  axis key like seq;\n"
    "  input tokens, targets: index(vocab)[batch, seq];\n"
    "  x = embedding(tokens over vocab to embed, name = table) @resid;\n"
    "  repeat layers {\n"
    "    h = rms_norm(x over embed, name = attn_norm);\n"
    "    q = rope(linear(h over embed to kv_heads, group, hd) over hd, seq);\n"
    "    k = rope(linear(h over embed to kv_heads, hd) over hd, seq);\n"
    "    v = linear(h over embed to kv_heads, hd);\n"
    "    o = attention(q, k[seq -> key], v[seq -> key] over hd, seq, key, causal = true);\n"
    "    x = x + linear(o over kv_heads, group, hd to embed, name = out) @resid;\n"
    "    h = rms_norm(x over embed, name = mlp_norm);\n"
    "    x = x + swiglu(h over embed to ffn, name = mlp) @resid;\n"
    "  }\n"
    "  logits = linear(rms_norm(x over embed, name = final_norm) over embed to vocab, name = head);\n"
    "  loss = mean(cross_entropy(logits, targets over vocab));\n"
    "}\n"
    "recipe r {\n"
    "  model m();\n"
    "  data text(\"none.txt\", tokenizer = bytes);\n"
    "  batch = 8; seq = 16; steps = 20;\n"
    "  optimizer adamw(lr = 0.01);\n"
    "}\n"
    "precision thrifty { base bf16; gradient bf16; }\n";

typedef struct {  // a program and what its ranks send in a training step
  Arena *arena;
  PlanSet *set;
  CompileView view;
  TrafficList traffic;
} Program;

static void write_model(const char *path, const char *layout) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fprintf(file, "%slayout l { %s }\n", model, layout);
  fclose(file);
}

static Program *program_open_as(const char *layout, int layers, const char *setting, const CompileOptions *as) {
  char path[] = "/tmp/sharding-table-XXXXXX", text[32];
  int made = mkstemp(path);
  assert_true(made >= 0);
  close(made);
  write_model(path, layout);
  Arena *arena = arena_create();
  Program *program = ARENA_NEW(arena, Program);
  Diag *diag = diag_create(arena);
  snprintf(text, sizeof text, "layers=%d", layers);
  const char *set[] = {text, setting};
  CompileOptions options = *as;
  options.file = path;
  options.layout = "l";
  options.set = set;
  options.set_count = setting ? 2 : 1;
  options.view = &program->view;
  program->arena = arena;
  bool good = compile_plans(arena, diag, &options, &program->set);
  unlink(path);
  if (!good) {
    diag_print(diag, stderr, false);
    fail_msg("this does not compile: %s", layout);
  }
  program->traffic = traffic_collect(arena, program->set, &program->view);
  return program;
}

static Program *program_open(const char *layout, int layers, const char *setting) {
  return program_open_as(layout, layers, setting, &(CompileOptions){0});
}

static void program_close(Program *program) {
  arena_destroy(program->arena);
}

// --- counting ---

typedef struct {
  int layer, rest;  // what one layer does, and what is outside of the layers
} Count;

typedef struct {
  const char *layout, *setting;
  Program *two, *three;
} Trial;

static Trial trial_open(const char *layout, const char *setting) {
  return (Trial){layout, setting, program_open(layout, 2, setting), program_open(layout, 3, setting)};
}

// Each layer is a bucket of its own.
static Trial trial_open_buckets(const char *layout) {
  const CompileOptions small = {.bucket_bytes = 1024};
  return (Trial){layout, NULL, program_open_as(layout, 2, NULL, &small), program_open_as(layout, 3, NULL, &small)};
}

static void trial_close(Trial *trial) {
  program_close(trial->two);
  program_close(trial->three);
}

// Of the size of values, or of a number for each token; scalars are left out.
typedef enum { OF_VALUES, OF_TOKENS, OF_PACKS } What;

static bool counted(const Traffic *traffic, TrafficPhase phase, int kind, What what) {
  const Instruction *instruction = traffic->instruction;
  if (instruction->kind != INSTRUCTION_COLLECTIVE || traffic->phase != phase) {
    return false;
  }
  double elements = traffic->payload / 4;
  bool tokens = elements <= 8 * 16, scalar = elements <= 8;
  return (int)instruction->as.collective.kind == kind && !scalar && traffic->pack == (what == OF_PACKS) &&
         (what == OF_PACKS || tokens == (what == OF_TOKENS));
}

static int count_in(const Program *program, TrafficPhase phase, int kind, What what) {
  int count = 0;
  for (int i = 0; i < program->traffic.count; i++) {
    count += counted(&program->traffic.at[i], phase, kind, what) ? program->traffic.at[i].calls : 0;
  }
  return count;
}

static Count count(const Trial *trial, TrafficPhase phase, int kind, What what) {
  int two = count_in(trial->two, phase, kind, what), three = count_in(trial->three, phase, kind, what);
  return (Count){three - two, two - 2 * (three - two)};
}

static void expect(const Trial *trial, TrafficPhase phase, int kind, int layer, int rest) {
  Count found = count(trial, phase, kind, OF_VALUES);
  if (found.layer != layer || found.rest != rest) {
    fail_msg("%s: %s %s: %d in a layer and %d outside, not %d and %d", trial->layout, traffic_phase_name(phase),
             collective_kind_name((CollectiveKind)kind), found.layer, found.rest, layer, rest);
  }
}

static void expect_packs(const Trial *trial, TrafficPhase phase, int kind, int layer, int rest) {
  Count found = count(trial, phase, kind, OF_PACKS);
  if (found.layer != layer || found.rest != rest) {
    fail_msg("%s: %s of packs, %s: %d in a layer and %d outside, not %d and %d", trial->layout,
             traffic_phase_name(phase), collective_kind_name((CollectiveKind)kind), found.layer, found.rest, layer,
             rest);
  }
}

// Nothing else of the size of a value in this phase.
static void expect_nothing_but(const Trial *trial, TrafficPhase phase, int first, int second) {
  for (int kind = 0; kind < COLLECTIVE_KIND_COUNT; kind++) {
    if (kind != first && kind != second) {
      expect(trial, phase, kind, 0, 0);
    }
  }
}

// Three numbers for each token: the maximum, the sum and the logit of the target.
static void expect_cross_entropy(const Trial *trial) {
  Count found = count(trial, PHASE_FORWARD, REDUCE, OF_TOKENS);
  assert_int_equal(found.rest, 3);
  assert_int_equal(found.layer, 0);
  found = count(trial, PHASE_BACKWARD, REDUCE, OF_TOKENS);
  assert_int_equal(found.rest, 0);
  assert_int_equal(found.layer, 0);
}

// Over which mesh axes the gradients of these parameters are summed, by the name of a parameter.
static uint32_t summed_over(const Program *program, bool norms) {
  uint32_t mesh = 0;
  for (int i = 0; i < program->traffic.count; i++) {
    const Traffic *traffic = &program->traffic.at[i];
    double elements = traffic->payload / 4;
    bool small = elements <= 8 * 16;  // norms of two layers have 5 x 16 elements
    if (traffic->phase == PHASE_GRADIENTS && traffic->pack && small == norms) {
      mesh |= traffic->mesh;
    }
  }
  return mesh;
}

static double wire_of(const Program *program, TrafficPhase phase) {
  double bytes = 0;
  for (int i = 0; i < program->traffic.count; i++) {
    const Traffic *traffic = &program->traffic.at[i];
    bytes += traffic->phase == phase ? traffic->wire * traffic->calls : 0;
  }
  return bytes;
}

// --- the rows of the table ---

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
      bool attends = at->kind == INSTRUCTION_ATTENTION || at->kind == INSTRUCTION_ATTENTION_GRAD;
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

static void no_values(const Trial *trial) {
  for (int phase = 0; phase < PHASE_COUNT; phase++) {
    expect_nothing_but(trial, (TrafficPhase)phase, -1, -1);
  }
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
      cmocka_unit_test(test_tensor),
      cmocka_unit_test(test_sequence),
      cmocka_unit_test(test_sequence_bytes),
      cmocka_unit_test(test_context),
      cmocka_unit_test(test_ulysses),
      cmocka_unit_test(test_context_and_tensor),
      cmocka_unit_test(test_one_kv_head),
      cmocka_unit_test(test_recompute),
      cmocka_unit_test(test_data),
      cmocka_unit_test(test_zero_1_and_2),

      cmocka_unit_test(test_zero_in_16_bits),
      cmocka_unit_test(test_zero_memory),
      cmocka_unit_test(test_zero_3),
      cmocka_unit_test(test_pipeline),
      cmocka_unit_test(test_bubble),
      cmocka_unit_test(test_ring),
      cmocka_unit_test(test_ring_bytes),
      cmocka_unit_test(test_ring_and_tensor),
      cmocka_unit_test(test_ring_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
