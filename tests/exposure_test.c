// exposure_test.c: how much communication nothing hides: of spans by hand, and of steps that are reckoned.
#include <math.h>

#include "compiler/plan/exposure.h"
#include "tests/layouts_run.h"

static bool near(double a, double b) {
  return fabs(a - b) <= 1e-9 * fmax(fabs(a), 1e-9);
}

// Two communicators and a message beside and between arithmetic; copies count as neither.
static void test_spans(void **state) {
  (void)state;
  Arena *arena = arena_create();
  const Plan plan = {.pipeline = 2};
  const Instruction computes = {.kind = INSTRUCTION_KERNEL}, copies = {.kind = INSTRUCTION_OFFLOAD};
  const Instruction sums = {
      .kind = INSTRUCTION_COLLECTIVE,
      .as.collective = {.kind = COLLECTIVE_ALL_REDUCE, .type = TYPE_F32, .mesh = 1, .ranks = 4, .count = 100}};
  const Instruction gathers = {
      .kind = INSTRUCTION_COLLECTIVE,
      .as.collective = {.kind = COLLECTIVE_ALL_GATHER, .type = TYPE_BF16, .mesh = 2, .ranks = 3, .count = 100}};
  const Instruction sends = {.kind = INSTRUCTION_SEND, .as.transfer = {.type = TYPE_F32, .count = 10}};
  const PlanSpan spans[] = {{&computes, 0, 4}, {&sums, 1, 6},   {&gathers, 5, 7}, {&copies, 0, 20},
                            {&computes, 8, 9}, {&sends, 8, 10}, {&sums, 12, 13}};
  Exposure of;
  exposure_find(arena, &plan, spans, 7, &of);
  assert_int_equal(of.count, 3);
  const ExposedMesh right[] = {{1, 2 * (2 * 0.75 * 400), 6, 3}, {2, 400, 2, 2}, {4, 40, 2, 1}};
  for (int m = 0; m < 3; m++) {
    assert_int_equal(of.mesh[m].mesh, right[m].mesh);
    assert_true(near(of.mesh[m].bytes, right[m].bytes));
    assert_true(near(of.mesh[m].seconds, right[m].seconds));
    assert_true(near(of.mesh[m].exposed, right[m].exposed));
  }
  assert_true(near(of.seconds, 9) && near(of.exposed, 5) && near(of.step, 13));
  exposure_find(arena, &plan, spans, 0, &of);
  assert_true(of.count == 0 && of.exposed == 0);
  arena_destroy(arena);
}

static double total_of(const PlanSpans *spans, bool shared) {
  double total = 0;
  for (int64_t i = 0; i < spans->count; i++) {
    total += instruction_is_shared(spans->at[i].instruction) == shared ? spans->at[i].end - spans->at[i].begin : 0;
  }
  return total;
}

static LayoutRun *compile_layout(const char *layout, bool overlap, Exposure *of, PlanSpans **spans) {
  static const char text[] =
      "import std.nn; model m { axis batch, seq = 64, embed = 64, vocab = 64, layers = 4;\n"
      "  input tokens: index(vocab)[batch, seq]; param t: [vocab, embed] ~ normal(0.5); x = t[tokens];\n"
      "  repeat layers { x = x + linear(tanh(x) over embed to embed')[embed' -> embed]; } loss = mean(x * x); }\n"
      "recipe r { model m(); batch = 8; optimizer sgd(lr = 0.1); }\n"
      "layout test { %s %s }\n";
  static const PlanRates slow = {
      .flops_16 = 1e9, .flops_tf32 = 1e9, .flops_32 = 1e9, .attention_16 = 1e9, .bytes = 1e9, .sent = 1e6};
  char whole[2048];
  snprintf(whole, sizeof whole, text, layout, overlap ? "" : "overlap = false;");
  const CompileOptions options = {.layout = "test", .bucket_bytes = 64};
  LayoutRun *run = layout_compile_text(whole, &options);
  *spans = plan_simulate(run->arena, run->set, &slow);
  exposure_find(run->arena, run->set->plans[0], (*spans)->at, (*spans)->count, of);
  return run;
}

// One after the other, everything is exposed and a step takes the sum of all; side by side it takes no more than that,
// no less than either, and less is exposed.
static void test_queues(void **state) {
  (void)state;
  Exposure of[2];
  PlanSpans *spans[2];
  LayoutRun *run[2];
  for (int on = 0; on < 2; on++) {
    run[on] = compile_layout("mesh dp = 2; batch -> dp;", on, &of[on], &spans[on]);
  }
  const double arithmetic = total_of(spans[1], false), sent = total_of(spans[1], true);
  assert_true(near(of[0].exposed, of[0].seconds));
  assert_true(near(of[0].step, total_of(spans[0], false) + total_of(spans[0], true)));
  assert_true(near(of[0].mesh[0].bytes, of[1].mesh[0].bytes) && of[1].count == 1);
  assert_true(of[1].step < arithmetic + sent && of[1].step >= fmax(arithmetic, sent));
  assert_true(of[1].exposed < 0.9 * of[0].exposed);
  assert_true(near(of[1].step, arithmetic + of[1].exposed));  // nobody waits for anything else
  arena_destroy(run[0]->arena);
  arena_destroy(run[1]->arena);
}

// Stages wait for each other as schedule_simulate has it, where messages take no time.
static void test_pipeline(void **state) {
  (void)state;
  static const char *const layouts[] = {
      "mesh pp = 2; layers -> pp; microbatches = 4; schedule gpipe;",
      "mesh pp = 4; layers -> pp; microbatches = 8;",
  };
  static const PlanRates rates = {
      .flops_16 = 1e9, .flops_tf32 = 1e9, .flops_32 = 1e9, .attention_16 = 1e9, .bytes = 1e30, .sent = 1e30};
  for (int l = 0; l < 2; l++) {
    Exposure of;
    PlanSpans *spans;
    LayoutRun *run = compile_layout(layouts[l], true, &of, &spans);
    const int stages = run->set->count;
    spans = plan_simulate(run->arena, run->set, &rates);
    double busiest = 0, step = 0;
    for (int s = 0; s < stages; s++) {
      const PlanProgram *train = &run->set->plans[s]->programs[PROGRAM_TRAIN];
      int64_t expected = 0;
      for (int c = 0; c < train->call_count; c++) {
        expected += run->set->plans[s]->segments[train->calls[c].segment].count;
      }
      assert_int_equal(spans[s].count, expected);  // no message is missing
      exposure_find(run->arena, run->set->plans[s], spans[s].at, spans[s].count, &of);
      busiest = fmax(busiest, total_of(&spans[s], false));
      step = fmax(step, spans[s].at[spans[s].count - 1].end);
    }
    const double microbatches = l ? 8 : 4, bubble = (stages - 1) / microbatches;
    print_message("%s: %.3f of the busiest stage, formula %.3f\n", layouts[l], step / busiest, 1 + bubble);
    assert_true(step / busiest > 1 + 0.7 * bubble && step / busiest < 1 + 1.1 * bubble);
    arena_destroy(run->arena);
  }
}

// What fills the gaps of a pipeline is products of gradients of weights: those of scales and biases are summed where
// the backward has made what they sum.
static void test_weights(void **state) {
  (void)state;
  static const char text[] =
      "import std.nn; model m { axis batch, seq = 8, embed = 16, vocab = 32, layers = 4;\n"
      "  input tokens, targets: index(vocab)[batch, seq]; param t: [vocab, embed] ~ normal(0.5); x = t[tokens];\n"
      "  repeat layers { x = x + linear(tanh(layer_norm(x over embed)) over embed to embed', bias = true)"
      "[embed' -> embed]; }\n"
      "  loss = mean(cross_entropy(linear(x over embed to vocab), targets over vocab)); }\n"
      "recipe r { model m(); batch = 8; optimizer sgd(lr = 0.1); }\n"
      "layout test { mesh pp = 2; layers -> pp; schedule zero_bubble, microbatches = 4; }\n";
  LayoutRun *run = layout_compile_text(text, &(CompileOptions){.layout = "test"});
  for (int s = 0; s < 2; s++) {
    const Plan *plan = run->set->plans[s];
    int count[INSTRUCTION_KIND_COUNT] = {0};
    for (int i = 0; i < plan->segment_count; i++) {
      for (int j = 0; j < plan->segments[i].count && strcmp(plan->segments[i].name, "weights") == 0; j++) {
        count[plan->segments[i].instructions[j].kind]++;
      }
    }
    print_message("stage %d: %d products, %d kernels\n", s, count[INSTRUCTION_GEMM], count[INSTRUCTION_KERNEL]);
    assert_true(count[INSTRUCTION_GEMM] >= 2);
    assert_true(s == 0 || count[INSTRUCTION_KERNEL] == 0);  // the first stage has all of its backward there
  }
  arena_destroy(run->arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_spans),
      cmocka_unit_test(test_queues),
      cmocka_unit_test(test_pipeline),
      cmocka_unit_test(test_weights),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
