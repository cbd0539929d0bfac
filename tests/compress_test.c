// compress_test.c: collectives of tensor parallelism in 8 bits: what they compute, to the bit, what they send, that
// ranks agree, and that losses follow those of the same layout without.
//
// The losses of 200 steps are compared with TESTS_LONG=1.
#include "compiler/pass/compilation.h"
#include "compiler/report/explain.h"
#include "tests/effort.h"
#include "tests/layouts_outcome.h"

enum { DEADLINE = 60 };

// --- what they compute ---

enum { BATCH = 4, SEQ = 4, TOKENS = BATCH * SEQ, VOCAB = 16, FFN = 8, EMBED = 256, BLOCK = 128, RANKS = 2 };

// y is partial, y z's operand; with v = 1, z is what is gathered of y. Numbers of the loss are exact in bf16.
static const char *const text =
    "model m {\n"
    "  axis batch, seq = 4, vocab = 16, ffn = 8, embed = 256, out = 256;\n"
    "  input tokens, targets: index(vocab)[batch, seq];\n"
    "  param e: [vocab, ffn] ~ normal(0.02);\n"
    "  param w: [ffn, embed] ~ normal(0.02);\n"
    "  param v: [embed, out] ~ normal(0.02);\n"
    "  param c: [out] ~ normal(0.02);\n"
    "  x = e[tokens];\n"
    "  y = dot(x, w over ffn) @resid;\n"
    "  z = dot(y, v over embed);\n"
    "  loss = mean(z * c);\n"
    "}\n"
    "recipe r { model m(); batch = 4; steps = 2; optimizer sgd(lr = 0.01); }\n"
    "layout mine { mesh tp = 2; ffn, out -> tp; %s }\n";

typedef struct {
  double e[VOCAB * FFN], w[FFN * EMBED], v[EMBED * EMBED], c[EMBED];
  int tokens[TOKENS];
} Numbers;

static double some(const char *name, int at, int range) {
  return floor(drawn(name, at, 3) * (2 * range + 1)) - range;
}

// Numbers of one half of a block are so small beside the others that their last bits are lost.
static int scale_at(int column) {
  return -(column % 7) - 12 * (column / (BLOCK / 2) % 2);
}

static void draw_numbers(Numbers *n) {
  for (int i = 0; i < VOCAB * FFN; i++) {
    n->e[i] = some("e", i, 100) / 64;
  }
  for (int i = 0; i < FFN * EMBED; i++) {
    n->w[i] = ldexp(some("w", i, 100), scale_at(i % EMBED));
  }
  for (int i = 0; i < EMBED * EMBED; i++) {
    n->v[i] = i / EMBED == i % EMBED;
  }
  for (int i = 0; i < EMBED; i++) {
    n->c[i] = ldexp(some("c", i, 100), scale_at(i));
  }
  const PlanInput tokens = {.name = "tokens", .type = TYPE_INDEX, .bound = VOCAB};
  for (int i = 0; i < TOKENS; i++) {
    n->tokens[i] = (int)input_number(&tokens, i, 1);
  }
}

static float rounded(float x) {
  return f32_of_bf16(bf16_of_f32(x));
}

// Rows of EMBED numbers as they are after they were sent, `block` of them with one scale.
static void send(float *row, int rows, int block) {
  for (int at = 0; at < rows * EMBED; at += block) {
    float most = 0;
    for (int i = 0; i < block; i++) {
      most = fmaxf(most, fabsf(row[at + i]));
    }
    int exponent;
    const float share = most * (float)(1.0 / 448), mantissa = frexpf(share, &exponent);
    const float scale = fmaxf(ldexpf(1, mantissa > 0.5F ? exponent : exponent - 1), 0x1p-126F);
    for (int i = 0; i < block; i++) {
      row[at + i] = scale * f32_of_e4m3(e4m3_of_f32(row[at + i] / scale));
    }
  }
}

// What all ranks have of a sum: each sends what it has, and they are added in f32.
static void sum_of(const float *const *part, int block, float *sum) {
  memset(sum, 0, sizeof *sum * TOKENS * EMBED);
  for (int r = 0; r < RANKS; r++) {
    float copy[TOKENS * EMBED];
    memcpy(copy, part[r], sizeof copy);
    send(copy, TOKENS, block);
    for (int i = 0; i < TOKENS * EMBED; i++) {
      sum[i] = r ? sum[i] + copy[i] : copy[i];
    }
  }
}

static void round_all(float *numbers) {
  for (int i = 0; i < TOKENS * EMBED; i++) {
    numbers[i] = rounded(numbers[i]);
  }
}

typedef struct {
  float y[TOKENS * EMBED], z[TOKENS * EMBED], dw[FFN * EMBED];
} Wanted;

static float part_a[TOKENS * EMBED], part_b[TOKENS * EMBED];
static const float *const parts[RANKS] = {part_a, part_b};

// sequence: y is held cut along seq, and scattered; else it is added up on all ranks.
static void reference(const Numbers *n, bool sequence, int block, Wanted *wanted) {
  float dy[TOKENS * EMBED];
  for (int t = 0; t < TOKENS; t++) {
    for (int i = 0; i < EMBED; i++) {
      float sum[RANKS] = {0};
      for (int f = 0; f < FFN; f++) {
        sum[f / (FFN / RANKS)] += (float)(n->e[n->tokens[t] * FFN + f] * n->w[f * EMBED + i]);
      }
      part_a[t * EMBED + i] = rounded(sum[0]);
      part_b[t * EMBED + i] = rounded(sum[1]);
    }
  }
  sum_of(parts, block, wanted->y);
  if (!sequence) {
    send(wanted->y, TOKENS, block);
  }
  round_all(wanted->y);
  memcpy(wanted->z, wanted->y, sizeof wanted->z);
  if (sequence) {
    send(wanted->z, TOKENS, block);
    round_all(wanted->z);
  }
  for (int i = 0; i < TOKENS * EMBED; i++) {
    const float own = (float)n->c[i % EMBED] / (TOKENS * EMBED);
    part_a[i] = i % EMBED < EMBED / 2 ? own : 0;
    part_b[i] = own - part_a[i];
  }
  sum_of(parts, block, dy);
  if (sequence) {
    round_all(dy);
  }
  send(dy, TOKENS, block);
  round_all(dy);
  memset(wanted->dw, 0, sizeof wanted->dw);
  for (int i = 0; i < TOKENS * FFN * EMBED; i++) {
    const int t = i / EMBED / FFN, f = i / EMBED % FFN;
    wanted->dw[f * EMBED + i % EMBED] += (float)n->e[n->tokens[t] * FFN + f] * dy[t * EMBED + i % EMBED];
  }
}

static LayoutRun *with_settings(const char *settings) {
  Arena *arena = arena_create();
  CompiledValues values = {.arena = arena};
  LayoutRun *run = layout_compile_text(
      arena_format(arena, text, settings),
      &(CompileOptions){.layout = "mine", .precision = "bf16", .gradients = true, .values = &values});
  arena_destroy(arena);
  return run;
}

// The largest difference, relative to the number. Outputs have their axes in the order of their names: of a
// sequence, or a row of a matrix, the axis behind it comes first.
static double apart(const Outcome *outcome, const char *name, const float *wanted, int count) {
  const Tensor *tensor = outcome_find(outcome, name);
  const int rows = count == FFN * EMBED ? FFN : SEQ;
  assert_non_null(tensor);
  assert_int_equal(tensor->count, count);
  double most = 0;
  for (int i = 0; i < count; i++) {
    const int at = i / (rows * EMBED) * rows * EMBED + i % EMBED * rows + i / EMBED % rows;
    const double wants = (double)wanted[i], size = fmax(fabs(wants), 1e-30);
    most = fmax(most, fabs(tensor->data[at] - wants) / size);
  }
  return most;
}

static void check_numbers(const char *settings, bool sequence) {
  static Numbers n;
  static Wanted wanted, other;
  Error error = {0};
  draw_numbers(&n);
  LayoutRun *run = with_settings(settings);
  if (!layout_open(run, DEADLINE, &error)) {
    layout_fail("%s", error.text);
  }
  outcome_program(run, settings, PROGRAM_INITIALISE, 0);
  layout_set_state(run, "e", n.e);
  layout_set_state(run, "w", n.w);
  layout_set_state(run, "v", n.v);
  layout_set_state(run, "c", n.c);
  assert_true(session_refresh(&run->session, &error));
  layout_draw_inputs(run, PROGRAM_TRAIN, 1);
  outcome_program(run, settings, PROGRAM_TRAIN, 1);
  Outcome outcome = {0};
  keep_outputs(run, run->arena, &outcome, PROGRAM_TRAIN, "step");
  reference(&n, sequence, BLOCK, &wanted);
  assert_true(apart(&outcome, "step value.y", wanted.y, TOKENS * EMBED) <= 0);
  assert_true(apart(&outcome, "step value.z", wanted.z, TOKENS * EMBED) <= 0);
  assert_true(apart(&outcome, "step gradient.w", wanted.dw, FFN * EMBED) <= 1e-6);
  reference(&n, sequence, BLOCK / 2, &other);  // scales of other blocks
  assert_true(apart(&outcome, "step value.y", other.y, TOKENS * EMBED) > 0.1);
  assert_true(apart(&outcome, "step value.z", other.z, TOKENS * EMBED) > 0.1);
  assert_true(apart(&outcome, "step gradient.w", other.dw, FFN * EMBED) > 0.1);
  layout_close(run);
}

static void test_numbers(void **state) {
  (void)state;
  check_numbers("compress tp;", false);
  check_numbers("compress tp; overlap = false;", false);
  check_numbers("@resid: seq -> tp; compress tp;", true);
}

// --- layouts ---

typedef struct {
  const char *settings, *compress;
  uint32_t mesh;  // the mesh axes that it speaks of, as bits
  double sent;    // at most so much of what was sent along them, with gradients of parameters
  const char *precision;
} Case;

#define SEQUENCE "kv_heads, ffn, vocab -> tp; @resid: seq -> tp;"
static const Case cases[] = {
    {"mesh tp = 2; kv_heads, ffn -> tp;", "compress tp;", 1, 0.55, "bf16"},
    {"mesh tp = 2; kv_heads, ffn -> tp; microbatches = 2;", "compress tp in layers;", 1, 0.55, "bf16"},
    {"mesh tp = 2; " SEQUENCE, "compress tp;", 1, 0.55, "bf16"},
    {"mesh tp = 2; " SEQUENCE, "compress tp;", 1, 0.75, "fp8_current"},
    {"mesh tp = 2; " SEQUENCE " recompute layers;", "compress tp;", 1, 0.55, "bf16_fp32_residual"},
    {"mesh tp = 4; " SEQUENCE, "compress tp;", 1, 0.55, "bf16"},
    {"mesh tp = 2; kv_heads, ffn -> tp; vocab -> tp(pad);", "compress tp;", 1, 0.55, "bf16"},
    {"mesh tp = 2; " SEQUENCE, "compress tp in ffn;", 1, 0.9, "bf16"},
    {"mesh dp = 2, tp = 2; batch -> dp; state -> dp; " SEQUENCE, "compress tp;", 2, 0.55, "bf16"},
    {"mesh dp = 2, tp = 2; batch -> dp; param, grad, state -> dp; kv_heads, ffn -> tp;", "compress tp;", 2, 0.55,
     "bf16"},
    {"mesh pp = 2, tp = 2; layers -> pp; microbatches = 4; " SEQUENCE, "compress tp;", 2, 0.55, "bf16"},
    {"mesh pp = 2, dp = 2, tp = 2; layers -> pp; batch -> dp; state -> dp; " SEQUENCE
     " microbatches = 4; recompute attention;",
     "compress tp;", 4, 0.55, "bf16"},
    {"mesh a = 2, b = 2; kv_heads -> a; group -> b; ffn, vocab -> a, b;", "compress a, b;", 3, 0.55, "bf16"},
    {"mesh cp = 2; seq -> cp(zigzag);", "compress cp in attention;", 1, 0.96, "bf16"},
};

enum { FEW = 3 };

// Bytes that one rank of each stage is given by collectives within groups of these mesh axes, in a training step.
static double bytes_over(const PlanSet *set, uint32_t mesh) {
  double bytes = 0;
  for (int p = 0; p < set->count; p++) {
    const PlanProgram *program = &set->plans[p]->programs[PROGRAM_TRAIN];
    for (int i = 0; i < program->call_count; i++) {
      const PlanSegment *segment = &set->plans[p]->segments[program->calls[i].segment];
      for (int j = 0; j < segment->count; j++) {
        const Collective *at = &segment->instructions[j].as.collective;
        if (segment->instructions[j].kind == INSTRUCTION_COLLECTIVE && (at->mesh & ~mesh) == 0) {
          const double times = at->kind == COLLECTIVE_ALL_REDUCE ? 2 : at->ranks;
          bytes += times * (double)at->count * (double)element_type_bytes(at->type);
        }
      }
    }
  }
  return bytes;
}

static LayoutRun *compile_more(const char *file, const char *settings, const char *compress, CompileOptions options) {
  FileError error;
  size_t length;
  Arena *arena = arena_create();
  char *said = file_read(file, &length, &error);
  assert_non_null(said);
  options.layout = "mine";
  LayoutRun *run =
      layout_compile_text(arena_format(arena, "%s\nlayout mine { %s %s }\n", said, settings, compress), &options);
  free(said);
  arena_destroy(arena);
  return run;
}

static LayoutRun *compile_case(const Case *one, bool compressed) {
  return compile_more(MDL_SOURCE_DIR "/examples/layouts.mdl", one->settings, compressed ? one->compress : "",
                      (CompileOptions){.precision = one->precision});
}

static double loss_of(LayoutRun *run) {
  for (int64_t rank = run->session.ranks - 1; rank >= 0; rank--) {  // of the last stage
    const PlanProgram *program = &session_plan(&run->session, rank)->programs[PROGRAM_TRAIN];
    for (int i = 0; i < program->output_count; i++) {
      int64_t count;
      if (strcmp(program->outputs[i].name, "loss") == 0) {
        return output_data(run, run->arena, rank, &program->outputs[i], &count)[0];
      }
    }
  }
  return NAN;
}

// Losses of a few steps; ranks agree to the bit on outputs and states.
static double few_steps(const Case *one, bool compressed, double *loss) {
  Error error = {0};
  Outcome outcome = {0};
  LayoutRun *run = compile_case(one, compressed);
  const double bytes = bytes_over(run->set, one->mesh);
  if (!layout_open(run, DEADLINE, &error)) {
    layout_fail("%s", error.text);
  }
  outcome_program(run, one->settings, PROGRAM_INITIALISE, 0);
  for (int step = 1; step <= FEW; step++) {
    layout_draw_inputs(run, PROGRAM_TRAIN, (uint64_t)step);
    outcome_program(run, one->settings, PROGRAM_TRAIN, step);
    loss[step - 1] = loss_of(run);
  }
  keep_outputs(run, run->arena, &outcome, PROGRAM_TRAIN, one->settings);
  keep_states(run, run->arena, &outcome, one->settings);
  layout_close(run);
  return bytes;
}

static void test_layouts(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const Case *one = &cases[i];
    if (effort_samples_out(i, 3)) {
      continue;
    }
    double wanted[FEW], got[FEW], again[FEW], most = 0;
    const double before = few_steps(one, false, wanted), after = few_steps(one, true, got);
    if (i % 4 == 0) {
      few_steps(one, true, again);
      assert_memory_equal(got, again, sizeof got);
    }
    for (int step = 0; step < FEW; step++) {
      const double apart_by = fabs(got[step] / wanted[step] - 1);
      most = apart_by <= most ? most : apart_by;  // NaN is far
    }
    if (!(most > 0 && most <= 0.005) || !(after <= one->sent * before)) {
      fail_msg("%s %s: losses are up to %g apart, %.0f bytes became %.0f", one->settings, one->compress, most, before,
               after);
    }
  }
}

// One infinite weight, whose products are sent in 8 bits.
static void check_skipped(LayoutRun *run, Outcome *outcome) {
  static const char name[] = "layers.0.ffn.down.w";
  Error error = {0};
  int64_t count;
  double *data = layout_state(run, run->arena, name, &count);
  data[count / 2] = (double)INFINITY;
  layout_set_state(run, name, data);
  assert_true(session_refresh(&run->session, &error));
  layout_draw_inputs(run, PROGRAM_TRAIN, 1);
  outcome_program(run, "infinite", PROGRAM_TRAIN, 1);
  keep_outputs(run, run->arena, outcome, PROGRAM_TRAIN, "infinite");
  assert_true(outcome_find(outcome, "infinite skipped")->data[0] > 0);
}

// Evaluation, and what is sent along other mesh axes, is as without; what is not finite still skips a step.
static void test_elsewhere(void **state) {
  (void)state;
  const Case both = {"mesh dp = 2, tp = 2; batch -> dp; state -> dp; " SEQUENCE, "compress tp;", 1, 1, "bf16"};
  double bits[2];
  for (int i = 0; i < 2; i++) {
    Error error = {0};
    Outcome outcome = {0};
    LayoutRun *run = compile_case(&both, i);
    assert_true(bytes_over(run->set, both.mesh) > 0);
    bits[i] = bytes_over(run->set, both.mesh);
    assert_true(layout_open(run, DEADLINE, &error));
    outcome_evaluate(run, "evaluate", run->arena, &outcome);
    const Tensor *loss = outcome_find(&outcome, "of 1/1, evaluate loss");
    assert_non_null(loss);
    bits[i] += loss->data[0];
    check_skipped(run, &outcome);
    layout_close(run);
  }
  assert_memory_equal(&bits[0], &bits[1], sizeof bits[0]);
}

// --- losses ---

enum { STEPS = 200, TAIL = 100 };

typedef struct {
  const char *file, *recipe, *layout, *set[6];
} Model;

static const Model models[] = {
    {MDL_SOURCE_DIR "/models/gpt2.mdl",
     "tiny",
     "mesh tp = 2; heads, ffn, vocab -> tp;",
     {"embed=64", "layers=2", "heads=2", "batch=8", "seq=32", "places=32"}},
    {MDL_SOURCE_DIR "/models/llama.mdl",
     "small",
     "mesh tp = 2; " SEQUENCE,
     {"embed=64", "layers=2", "kv_heads=2", "hd=16", "batch=8", "seq=32"}},
};

// Rows of text, other ones in every step.
static void feed_text(LayoutRun *run, const char *from, size_t length, int step) {
  for (int64_t rank = 0; rank < run->session.ranks; rank++) {
    const PlanProgram *program = &session_plan(&run->session, rank)->programs[PROGRAM_TRAIN];
    for (int i = 0; i < program->input_count; i++) {
      const PlanInput *input = &program->inputs[i];
      const int shift = strcmp(input->name, "targets") == 0;
      Error error = {0};
      for (int64_t at = 0; (shift || strcmp(input->name, "tokens") == 0) && at < input->size[0] * input->size[1];
           at++) {
        const int64_t row = at / input->size[1], column = at % input->size[1];
        const size_t begin = (size_t)(step * input->size[0] + row) * 7919 % (length - (size_t)input->size[1] - 1);
        const int32_t code = (unsigned char)from[begin + (size_t)column + (size_t)shift];
        assert_true(run->session.backend->write(session_device(&run->session, rank), input->place.arena,
                                                input->place.offset + at * (int64_t)sizeof code, &code, sizeof code,
                                                &error));
      }
    }
  }
}

static void train(const Model *model, const char *compress, PassWatch *watch, double *loss) {
  FileError file_error;
  Error error = {0};
  size_t length;
  char *from = file_read(MDL_SOURCE_DIR "/LICENSE", &length, &file_error);
  assert_non_null(from);
  CompileOptions options = {.recipe = model->recipe, .precision = "bf16", .watch = watch, .set_count = 6};
  options.set = (const char **)(uintptr_t)model->set;
  LayoutRun *run = compile_more(model->file, model->layout, compress, options);
  assert_true(layout_open(run, DEADLINE, &error));
  outcome_program(run, model->file, PROGRAM_INITIALISE, 0);
  for (int step = 1; step <= STEPS; step++) {
    feed_text(run, from, length, step);
    outcome_program(run, model->file, PROGRAM_TRAIN, step);
    loss[step - 1] = loss_of(run);
  }
  layout_close(run);
  free(from);
}

static double mean_gap(const double *base, const double *loss) {
  double sum = 0;
  for (int i = STEPS - TAIL; i < STEPS; i++) {
    sum += loss[i] / base[i] - 1;
  }
  return sum / TAIL;
}

// Scales that are too small cut off large numbers.
static void small_scales(void *context, Compilation *c, const char *pass) {
  (void)context;
  for (int i = 0; i < c->graph->nodes.count && strcmp(pass, "compress") == 0; i++) {
    Node *node = graph_node(c->graph, i);
    node->number /= node->op == OP_CONST && fabs(node->number * 448 - 1) < 1e-9 ? 64 : 1;
  }
}

static void test_losses(void **state) {
  (void)state;
  if (!effort_long()) {
    skip();
  }
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    double base[STEPS], loss[STEPS], wrong[STEPS];
    PassWatch watch = {small_scales, NULL};
    train(&models[i], "", NULL, base);
    train(&models[i], "compress tp;", NULL, loss);
    train(&models[i], "compress tp;", &watch, wrong);
    assert_true(base[0] - base[STEPS - 1] >= 2);
    print_message("%s: %+.4f%%, loss %.3f to %.3f; with small scales %+.4f%%\n", models[i].file,
                  100 * mean_gap(base, loss), loss[0], loss[STEPS - 1], 100 * mean_gap(base, wrong));
    assert_true(fabs(mean_gap(base, loss)) <= 0.005);
    assert_false(fabs(mean_gap(base, wrong)) <= 0.005);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_layouts),
      cmocka_unit_test(test_elsewhere),
      cmocka_unit_test(test_losses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
