// fp8_test.c: products in 8 bits: which they are, that layouts compute what one rank does, and that losses follow bf16.
//
// Some of the layouts; all of them, and the losses of 200 steps, with TESTS_LONG=1.
#include "compiler/pass/compilation.h"
#include "compiler/report/explain.h"
#include "tests/effort.h"
#include "tests/layouts_outcome.h"

typedef struct {
  const char *file, *recipe, *set[6];
} Model;

static const Model gpt2 = {
    MDL_SOURCE_DIR "/models/gpt2.mdl", "tiny", {"embed=64", "layers=2", "heads=2", "batch=8", "seq=32", "places=32"}};
static const Model llama = {
    MDL_SOURCE_DIR "/models/llama.mdl", "small", {"embed=64", "layers=2", "kv_heads=2", "hd=16", "batch=8", "seq=32"}};

static const Model llama_blocks = {
    MDL_SOURCE_DIR "/models/llama.mdl", "small", {"embed=128", "layers=2", "kv_heads=2", "hd=64", "batch=8", "seq=32"}};

static LayoutRun *compile(const Model *model, const char *precision, PassWatch *watch) {
  CompileOptions options = {.recipe = model->recipe, .precision = precision, .watch = watch, .set_count = 6};
  options.set = (const char **)(uintptr_t)model->set;
  LayoutRun *run = layout_compile(model->file, &options, stdout);
  if (!run) {
    layout_fail("%s does not compile in %s", model->file, precision);
  }
  return run;
}

// --- which products ---

typedef struct {
  int forward, backward, others;  // e4m3 by e4m3; e5m2 and e4m3; the base
  int fast;                       // of the first
} Counts;

static Counts count_products(const Plan *plan) {
  Counts counts = {0};
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Gemm *gemm = &plan->segments[s].instructions[i].as.gemm;
      if (plan->segments[s].instructions[i].kind == INSTRUCTION_GEMM) {
        const bool forward = gemm->type == TYPE_E4M3 && gemm->type_b == TYPE_E4M3;
        (*(forward ? &counts.forward : gemm_scaled(gemm) ? &counts.backward : &counts.others))++;
        counts.fast += gemm->fast;
      }
    }
  }
  return counts;
}

// fast: products of the forward, also where it is computed again.
static void check_counts(const char *policy, const char *more, int forward, int backward, int fast) {
  FileError error;
  size_t length;
  Arena *arena = arena_create();
  char *text = file_read(MDL_SOURCE_DIR "/examples/layouts.mdl", &length, &error);
  assert_non_null(text);
  LayoutRun *run = layout_compile_text(arena_format(arena, "%s\nprecision mine { %s }\n", text, policy),
                                       &(CompileOptions){.precision = "mine", .layout = more});
  const Counts counts = count_products(run->set->plans[0]);
  assert_int_equal(counts.forward, forward);
  assert_int_equal(counts.backward, backward);
  assert_int_equal(counts.fast, fast);
  assert_true(counts.others > 0);  // the head, evaluation, generation
  free(text);
  arena_destroy(run->arena);
  arena_destroy(arena);
}

// Four products in each of eight layers, of which two stand for several weights, and twice as many for their gradients.
static void test_products(void **state) {
  (void)state;
  check_counts("base bf16; dot in layers: forward e4m3, backward e5m2, scaling current;", NULL, 32, 64, 32);
  check_counts("base f32; dot in layers: forward e4m3, backward e4m3;", NULL, 96, 0, 32);
  check_counts("base bf16; dot in layers: forward e4m3, backward bf16, scaling current;", NULL, 32, 0, 32);
  check_counts("base bf16; dot in layers: forward e4m3, backward e5m2; dot in layers.0: forward bf16, backward bf16;",
               NULL, 28, 56, 28);
  check_counts("base bf16; dot in ffn: forward e4m3, backward e5m2;", NULL, 16, 32, 16);
  check_counts("base bf16; dot in layers: forward e4m3, backward e5m2;", "recomputed", 56, 64, 56);  // forwards again
}

// --- layouts ---

static const char *const policies[] = {"fp8_current", "fp8_hybrid", "fp8_block"};
enum { POLICIES = sizeof policies / sizeof *policies, BLOCKS = POLICIES - 1 };  // before it: one scale for each value

static double loss_of(LayoutRun *run, int64_t rank) {
  const PlanProgram *program = &session_plan(&run->session, rank)->programs[PROGRAM_TRAIN];
  for (int i = 0; i < program->output_count; i++) {
    if (strcmp(program->outputs[i].name, "loss") == 0) {
      int64_t count;
      return output_data(run, run->arena, rank, &program->outputs[i], &count)[0];
    }
  }
  return NAN;
}

enum { FEW = 3 };

// Whose products make blocks.
static const char *const block_sizes[] = {"embed=128", "kv_heads=2", "hd=128", "layers=4", "ffn=512", "seq=512"};

static CompileOptions layout_options(const char *layout, const char *precision, PassWatch *watch) {
  CompileOptions options = {.layout = layout, .precision = precision, .watch = watch};
  if (strcmp(precision, "fp8_block") == 0) {
    options.set = (const char **)(uintptr_t)block_sizes;
    options.set_count = sizeof block_sizes / sizeof *block_sizes;
  }
  return options;
}

static void few_steps(const char *layout, const char *precision, PassWatch *watch, double *loss) {
  CompileOptions options = layout_options(layout, precision, watch);
  LayoutRun *run = layout_compile(MDL_SOURCE_DIR "/examples/layouts.mdl", &options, stdout);
  assert_non_null(run);
  Error error = {0};
  if (!layout_open(run, 30, &error)) {
    layout_fail("%s", error.text);
  }
  outcome_program(run, layout, PROGRAM_INITIALISE, 0);
  for (int step = 1; step <= FEW; step++) {
    layout_draw_inputs(run, PROGRAM_TRAIN, 1);
    outcome_program(run, layout, PROGRAM_TRAIN, step);
    loss[step - 1] = NAN;
    for (int64_t rank = 0; rank < run->session.ranks && isnan(loss[step - 1]); rank++) {
      loss[step - 1] = loss_of(run, rank);
    }
  }
  layout_close(run);
}

static double farthest(const double *a, const double *b, int count) {
  double most = 0;
  for (int i = 0; i < count; i++) {
    const double apart = fabs(a[i] - b[i]) / fabs(a[i]);
    most = apart <= most ? most : apart;  // NaN is far
  }
  return most;
}

// The largest number of one value or of several.
static bool is_amax(const Graph *graph, const Node *node) {
  return node->op == OP_REDUCE_MAX ? graph_producer(graph, node->operands[0])->op == OP_ABS
                                   : node->op == OP_MAX && is_amax(graph, graph_producer(graph, node->operands[0]));
}

// Leaves out what makes a largest number that of all ranks: all of them, or those of 8 bits that it is for.
static void own_amax(void *context, Compilation *c, const char *pass) {
  (void)context;
  Graph *graph = c->graph;
  if (strcmp(pass, "shard") != 0 || c->program != PROGRAM_TRAIN) {
    return;
  }
  ValueId *replace = ARENA_ARRAY(c->arena, ValueId, graph->values.count + 1);
  memset(replace, -1, sizeof *replace * (size_t)graph->values.count);
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = graph_node(graph, i), *from = NULL;
    from = node->op == OP_ALL_REDUCE && node->number > 0 ? graph_producer(graph, node->operands[0]) : NULL;
    if (from && is_amax(graph, from)) {
      replace[node->first_result] = node->operands[0];
    }
  }
  graph_replace_values(graph, replace);
}

// Gives each product scales of its own, which are the same numbers times `times`: so none can be put together.
static void scales_apart(Compilation *c, double times) {
  Graph *graph = c->graph;
  const GraphPlace before = graph_place(graph);
  const NodeList old = graph_rewrite(graph, 0);
  for (int i = 0; i < old.count; i++) {
    Node *node = graph_node(graph, old.at[i]);
    graph->region = 0;
    for (int j = 2; j < 4 && node->op == OP_SCALED_DOT; j++) {
      graph_follow(graph, node);
      const ValueId scale = graph_op2(graph, OP_MUL, node->operands[j], graph_real(graph, times));
      node = graph_node(graph, old.at[i]);
      node->operands[j] = scale;
    }
    array_push(graph->arena, &graph->regions.at[0].nodes, old.at[i]);
  }
  graph_return(graph, before);
}

static void apart(void *context, Compilation *c, const char *pass) {
  if (strcmp(pass, "epilogue") == 0 && c->program == PROGRAM_TRAIN) {
    scales_apart(c, *(const double *)context);
  }
}

static void test_layouts(void **state) {
  (void)state;
  // What is cut in rows alone is summed as it is, until gradients that were summed otherwise have gone through an
  // update, or two where 8 bits are made from bf16: then some numbers are rounded to the other side. Else results of
  // bf16 are rounded otherwise at once.
  static const struct {
    const char *layout;
    double tolerance;
  } cases[] = {{"dp4", 1e-6},    {"z1", 1e-6},       {"z3", 1e-6},   {"tp2", 3e-3},    {"tp2_sp", 3e-3},
               {"padded", 3e-3}, {"cp2", 3e-3},      {"ring", 3e-3}, {"pp4", 3e-3},    {"pp4_recompute", 3e-3},
               {"both", 3e-3},   {"two_axes", 3e-3}, {"mqa", 3e-3},  {"ulysses", 3e-3}};
  double wanted[FEW], got[FEW];
  for (int p = 0; p < POLICIES; p++) {
    if (effort_samples_out((size_t)p, POLICIES)) {
      continue;
    }
    few_steps(NULL, policies[p], NULL, wanted);
    assert_true(wanted[FEW - 1] < wanted[0]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      if ((p == 1 && strncmp(cases[i].layout, "pp", 2) == 0) || effort_leaves_out(i + (size_t)p)) {
        continue;
      }
      few_steps(cases[i].layout, policies[p], NULL, got);
      if (!(farthest(wanted, got, FEW - 1 - p) <= cases[i].tolerance && farthest(wanted, got, FEW) <= 3e-3)) {
        fail_msg("%s, %s: losses are up to %g apart", policies[p], cases[i].layout, farthest(wanted, got, FEW));
      }
    }
    double factor = 16;
    PassWatch watch = p < BLOCKS ? (PassWatch){own_amax, NULL} : (PassWatch){apart, &factor};
    few_steps("tp2_sp", policies[p], &watch, got);
    assert_true(farthest(wanted, got, FEW) > 3e-3);
  }
}

// --- twins ---

// Matrix units take operands of 8 bits only with what is summed as neighbours.
static void test_neighbours(void **state) {
  (void)state;
  static const char *const layouts[] = {NULL,  "z1",  "z3",   "tp2",     "tp2_sp",     "mqa",       "two_axes",
                                        "cp2", "pp4", "ring", "ulysses", "recomputed", "offloaded", "pp4_recompute"};
  enum { LAYOUTS = sizeof layouts / sizeof *layouts };
  for (int i = 0; i < 2 * LAYOUTS; i++) {
    if (effort_leaves_out((size_t)i)) {
      continue;
    }
    const bool blocks = i >= LAYOUTS;
    const CompileOptions options = layout_options(layouts[i % LAYOUTS], policies[blocks ? BLOCKS : 0], NULL);
    LayoutRun *run = layout_compile(MDL_SOURCE_DIR "/examples/layouts.mdl", &options, stdout);
    assert_non_null(run);
    int scaled = 0;
    for (int s = 0; s < run->set->count; s++) {
      const Plan *plan = run->set->plans[s];
      for (int j = 0; j < plan->segment_count; j++) {
        for (int k = 0; k < plan->segments[j].count; k++) {
          const Instruction *instruction = &plan->segments[j].instructions[k];
          const bool is = instruction->kind == INSTRUCTION_GEMM && gemm_scaled(&instruction->as.gemm);
          scaled += is;
          assert_true(!is || (instruction->as.gemm.block > 0) == blocks);
          assert_false(is && (instruction->as.gemm.transpose_a || !instruction->as.gemm.transpose_b));
        }
      }
    }
    assert_true(scaled >= (blocks ? 84 : 96));
    arena_destroy(run->arena);
  }
}

typedef struct {
  int found, twice, joined;  // values that kernels make; stored twice; rounded by the kernel that makes them
} Twins;

static Twins twins_of(const Model *model, const char *precision) {
  static const char *const made[] = {".h", ".g", ".down.dy", ".out.dy", ".up.dy"};
  Twins twins = {0};
  CompileView view = {0};
  CompileOptions options = {.recipe = model->recipe, .precision = precision, .view = &view, .set_count = 6};
  options.set = (const char **)(uintptr_t)model->set;
  LayoutRun *run = layout_compile(model->file, &options, stdout);
  assert_non_null(run);
  for (int i = 0; i < view.quantised.count; i++) {
    const ViewQuantised *value = &view.quantised.at[i];
    for (size_t j = 0; j < sizeof made / sizeof *made; j++) {
      const size_t length = strlen(value->name), end = strlen(made[j]);
      if (length > end && strcmp(value->name + length - end, made[j]) == 0) {
        twins.found += value->count;
        twins.twice += value->orders == 2 ? value->count : 0;
        twins.joined += value->why ? 0 : value->count;
      }
    }
  }
  arena_destroy(run->arena);
  return twins;
}

// Norms, activations and sums of gradients store both twins themselves, as scales do not wait for what they make.
static void test_twins(void **state) {
  (void)state;
  const Twins waits = twins_of(&llama, "fp8_current"), known = twins_of(&llama, "fp8_hybrid");
  assert_int_equal(known.found, 14);  // in each of two layers: two norms, the activation, and four gradients
  assert_int_equal(known.twice, known.found);
  assert_int_equal(known.joined, known.found);
  assert_int_equal(waits.found, known.found);
  assert_int_equal(waits.twice, known.found);
  assert_int_equal(waits.joined, 0);
}

// --- several weights at once ---

// What is one product computes what several do that have the same scales: the forward to the bit; the gradient of what
// they share is added up before it is rounded.
static void test_joined(void **state) {
  (void)state;
  for (int p = 0; p < BLOCKS; p++) {
    double joined[FEW], same[FEW], other[FEW], once = 1, more = 1.1;
    few_steps(NULL, policies[p], NULL, joined);
    few_steps(NULL, policies[p], &(PassWatch){apart, &once}, same);
    few_steps(NULL, policies[p], &(PassWatch){apart, &more}, other);
    assert_true(joined[0] >= same[0] && joined[0] <= same[0]);
    assert_true(farthest(joined, same, FEW) <= 1e-3);
    assert_true(farthest(joined, other, FEW) > 1e-3);
  }
  CompileOptions options = {.precision = policies[0], .watch = &(PassWatch){apart, &(double){1}}};
  LayoutRun *run = layout_compile(MDL_SOURCE_DIR "/examples/layouts.mdl", &options, stdout);
  assert_non_null(run);
  const Counts counts = count_products(run->set->plans[0]);
  assert_int_equal(counts.forward, 56);
  assert_int_equal(counts.backward, 112);
  arena_destroy(run->arena);
}

// --- histories ---

enum { HISTORY = 4, HISTORY_STEPS = 7 };

static LayoutRun *with_history(const char *layout, const char *microbatches) {
  FileError error;
  size_t length;
  Arena *arena = arena_create();
  char *text = file_read(MDL_SOURCE_DIR "/examples/layouts.mdl", &length, &error);
  assert_non_null(text);
  const char *policy = "base bf16; dot in layers: forward e4m3, backward e5m2, scaling delayed(history = 4);";
  LayoutRun *run = layout_compile_text(
      arena_format(arena, "%s\nprecision mine { %s }\n", text, policy),
      &(CompileOptions){
          .precision = "mine", .layout = layout, .set = &microbatches, .set_count = microbatches != NULL});
  free(text);
  arena_destroy(arena);
  Error failure = {0};
  if (!layout_open(run, 30, &failure)) {
    layout_fail("%s", failure.text);
  }
  outcome_program(run, "history", PROGRAM_INITIALISE, 0);
  return run;
}

static void step_of(LayoutRun *run, int step) {
  layout_draw_inputs(run, PROGRAM_TRAIN, (uint64_t)step);
  outcome_program(run, "history", PROGRAM_TRAIN, step);
}

static double largest_of(LayoutRun *run, const char *name) {
  int64_t count;
  const double *data = layout_state(run, run->arena, name, &count);
  double most = 0;
  for (int64_t i = 0; i < count; i++) {
    most = fabs(data[i]) > most ? fabs(data[i]) : most;
  }
  return most;
}

// Of weights it is known what the largest number is: the history has those of the last four steps, each in its place,
// of all weights that multiply one value; a step that is skipped changes nothing; first values are zeros; ranks have
// the same.
static void check_history(const char *layout, const char *microbatches) {
  static const char name[] = "fp8.layers.5.ffn.gate.w.amax", first[] = "layers.5.ffn.gate.w",
                    weight[] = "layers.5.ffn.up.w", x[] = "fp8.layers.5.ffn.down.x.amax";
  LayoutRun *run = with_history(layout, microbatches);
  double wanted[HISTORY] = {0};
  int64_t count;
  Error error = {0};
  assert_true(largest_of(run, name) <= 0);
  for (int step = 1; step <= HISTORY_STEPS; step++) {
    const char *larger = step % 2 ? first : weight;
    int64_t elements;
    double *data = layout_state(run, run->arena, larger, &elements);
    int exponent;
    const double more = frexp(1.5 * fmax(largest_of(run, first), largest_of(run, weight)), &exponent);
    data[step] = ldexp(ceil(more * 256) / 256, exponent);  // which the copy in bf16 has too
    layout_set_state(run, larger, data);
    assert_true(session_refresh(&run->session, &error));
    wanted[step % HISTORY] = largest_of(run, larger);
    step_of(run, step);
    const double *found = layout_state(run, run->arena, name, &count);
    assert_int_equal(count, HISTORY);
    for (int i = 0; i < HISTORY; i++) {
      assert_true(found[i] >= wanted[i] && found[i] <= wanted[i]);
    }
  }
  const double *before = layout_state(run, run->arena, x, &count);
  int64_t elements;
  double *data = layout_state(run, run->arena, weight, &elements);
  data[3] = (double)NAN;
  layout_set_state(run, weight, data);
  assert_true(session_refresh(&run->session, &error));
  step_of(run, HISTORY_STEPS + 1);
  const double *after = layout_state(run, run->arena, x, &count), *found = layout_state(run, run->arena, name, &count);
  for (int i = 0; i < HISTORY; i++) {
    assert_true(before[i] > 0 && after[i] >= before[i] && after[i] <= before[i]);
    assert_true(found[i] >= wanted[i] && found[i] <= wanted[i]);
  }
  outcome_program(run, "history", PROGRAM_INITIALISE, 0);
  assert_true(largest_of(run, name) <= 0 && largest_of(run, x) <= 0);
  layout_close(run);
}

static void test_histories(void **state) {
  (void)state;
  static const char *const layouts[] = {NULL, "z1", "z3", "tp2_sp", "two_axes", "cp2"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    if (!effort_leaves_out(i + 1)) {
      check_history(layouts[i], NULL);
    }
    if (!effort_leaves_out(i + 2)) {
      check_history(layouts[i], "microbatches=2");
    }
  }
  static const char *const stages[] = {"gpipe", "pp4", "interleaved", "zero_bubble", "uneven", "pp4_both", "d3"};
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
    if (!effort_leaves_out(i)) {
      check_history(stages[i], NULL);
    }
  }
  // Of what differs between microbatches the largest counts.
  double most[2];
  for (int i = 0; i < 2; i++) {
    LayoutRun *run = with_history(NULL, i ? "microbatches=4" : NULL);
    step_of(run, 1);
    most[i] = largest_of(run, "fp8.layers.0.q.x.amax");
    layout_close(run);
  }
  assert_true(most[0] > 0 && most[1] >= most[0] && most[1] <= most[0]);
}

// --- losses ---

enum { STEPS = 200, TAIL = 100 };

// Rows of text, other ones in every step.
static void feed_text(LayoutRun *run, const char *text, size_t length, int step) {
  const PlanProgram *program = &run->set->plans[0]->programs[PROGRAM_TRAIN];
  for (int i = 0; i < program->input_count; i++) {
    const PlanInput *input = &program->inputs[i];
    const int shift = strcmp(input->name, "targets") == 0;
    if (!shift && strcmp(input->name, "tokens") != 0) {
      continue;
    }
    Error error = {0};
    const int64_t batch = input->size[0], seq = input->size[1];
    for (int64_t at = 0; at < batch * seq; at++) {
      const size_t row = (size_t)(step * batch + at / seq) * 7919 % (length - (size_t)seq - 1);
      const int32_t code = (unsigned char)text[row + (size_t)(at % seq) + (size_t)shift];
      assert_true(run->session.backend->write(session_device(&run->session, 0), input->place.arena,
                                              input->place.offset + at * (int64_t)sizeof code, &code, sizeof code,
                                              &error));
    }
  }
}

// --- biases ---

// So that no product adds a bias: what reads a product reads one times it.
static void no_biases(void *context, Compilation *c, const char *pass) {
  (void)context;
  Graph *graph = c->graph;
  if (strcmp(pass, "localise") != 0 || c->program != PROGRAM_TRAIN) {
    return;
  }
  const GraphPlace before = graph_place(graph);
  const NodeList old = graph_rewrite(graph, 0);
  const int values = graph->values.count + old.count * 2;
  ValueId *replace = ARENA_ARRAY(c->arena, ValueId, values + 1);
  memset(replace, -1, sizeof *replace * (size_t)values);
  for (int i = 0; i < old.count; i++) {
    const ValueId result = graph_node(graph, old.at[i])->first_result;
    graph->region = 0;
    array_push(graph->arena, &graph->regions.at[0].nodes, old.at[i]);
    if (graph_node(graph, old.at[i])->op == OP_SCALED_DOT) {
      graph_follow(graph, graph_node(graph, old.at[i]));
      replace[result] = graph_op2(graph, OP_MUL, result, graph_real(graph, 1));
    }
  }
  graph_replace_values(graph, replace);
  for (int i = 0; i < values; i++) {
    if (replace[i] >= 0) {
      graph_node(graph, graph_value(graph, replace[i])->node)->operands[0] = i;
    }
  }
  graph_return(graph, before);
}

static int count_biased(const Plan *plan) {
  int count = 0;
  for (int s = 0; s < plan->segment_count; s++) {
    for (int i = 0; i < plan->segments[s].count; i++) {
      const Instruction *at = &plan->segments[s].instructions[i];
      count += at->kind == INSTRUCTION_GEMM && gemm_scaled(&at->as.gemm) && at->as.gemm.epilogue == EPILOGUE_BIAS;
    }
  }
  return count;
}

// The loss of the first step, where the biases of queries, keys and values are `size` large.
static double biased_loss(PassWatch *watch, double size, int biased) {
  static const char *const names[] = {"layers.0.q.b", "layers.0.k.b", "layers.0.v.b"};
  FileError file_error;
  Error error = {0};
  size_t length;
  char *text = file_read(MDL_SOURCE_DIR "/LICENSE", &length, &file_error);
  LayoutRun *run = compile(&gpt2, "fp8_current", watch);
  assert_int_equal(count_biased(run->set->plans[0]), biased);
  assert_true(text && layout_open(run, 30, &error));
  outcome_program(run, gpt2.file, PROGRAM_INITIALISE, 0);
  for (int i = 0; i < 3; i++) {
    int64_t count;
    double *data = layout_state(run, run->arena, names[i], &count);
    for (int64_t j = 0; j < count; j++) {
      data[j] = size * sin((double)(j * (i + 2)));
    }
    layout_set_state(run, names[i], data);
  }
  assert_true(session_refresh(&run->session, &error));
  feed_text(run, text, length, 1);
  outcome_program(run, gpt2.file, PROGRAM_TRAIN, 1);
  const double loss = loss_of(run, 0);
  layout_close(run);
  free(text);
  return loss;
}

// The products of queries, keys and values add their biases, in each of two layers.
static void test_biases(void **state) {
  (void)state;
  const double added = biased_loss(NULL, 2, 2), apart = biased_loss(&(PassWatch){no_biases, NULL}, 2, 0);
  assert_true(fabs(added / apart - 1) <= 1e-4);
  assert_true(fabs(biased_loss(NULL, 0, 2) / apart - 1) > 2e-3);
}

// --- runs ---

static void train(const Model *model, const char *precision, PassWatch *watch, double *loss) {
  FileError file_error;
  Error error = {0};
  size_t length;
  char *text = file_read(MDL_SOURCE_DIR "/LICENSE", &length, &file_error);
  LayoutRun *run = compile(model, precision, watch);
  assert_true(text && layout_open(run, 30, &error));
  outcome_program(run, model->file, PROGRAM_INITIALISE, 0);
  for (int step = 1; step <= STEPS; step++) {
    feed_text(run, text, length, step);
    outcome_program(run, model->file, PROGRAM_TRAIN, step);
    loss[step - 1] = loss_of(run, 0);
  }
  layout_close(run);
  free(text);
}

static double mean_gap(const double *base, const double *loss) {
  double sum = 0;
  for (int i = STEPS - TAIL; i < STEPS; i++) {
    sum += loss[i] / base[i] - 1;
  }
  return sum / TAIL;
}

// The largest numbers as they might have been long ago: what has grown since is cut off.
static void stale_amax(void *context, Compilation *c, const char *pass) {
  (void)context;
  Graph *graph = c->graph;
  for (int i = 0; i < graph->nodes.count && strcmp(pass, "precision") == 0; i++) {
    Node *node = graph_node(graph, i);
    const double old = node->number;
    const bool reciprocal = node->op == OP_CONST && (fabs(old * 448 - 1) < 1e-9 || fabs(old * 57344 - 1) < 1e-9);
    node->number = reciprocal ? old / 64 : old;
  }
}

// Policies `first` to `last`.
static void check_losses(const Model *model, int first, int last) {
  double base[STEPS], loss[STEPS];
  train(model, "bf16", NULL, base);
  assert_true(base[0] - base[STEPS - 1] >= 2);
  for (int p = first; p <= last; p++) {
    train(model, policies[p], NULL, loss);
    print_message("%s, %s against bf16: %+.4f%%, loss %.3f to %.3f\n", model->file, policies[p],
                  100 * mean_gap(base, loss), loss[0], loss[STEPS - 1]);
    // Single runs of this size differ by some tenths of a percent, in 8 bits or not, and so by the processor, whose
    // library has its own order of sums (blocks: 0.20 or 0.28%); with histories by more. tests/fp8_error/curves.sh
    // shows less, over several first values.
    assert_true(mean_gap(base, loss) <= (p == 1 ? 0.01 : 0.005));
  }
  PassWatch watch = {stale_amax, NULL};
  train(model, policies[first], &watch, loss);
  print_message("with a stale amax %+.4f%%\n", 100 * mean_gap(base, loss));
  assert_false(mean_gap(base, loss) <= 0.05);
}

static void test_losses(void **state) {
  (void)state;
  if (!effort_long()) {
    skip();
  }
  check_losses(&gpt2, 0, BLOCKS - 1);
  check_losses(&llama, 0, BLOCKS - 1);
  check_losses(&llama_blocks, BLOCKS, BLOCKS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products), cmocka_unit_test(test_layouts), cmocka_unit_test(test_neighbours),
      cmocka_unit_test(test_twins),    cmocka_unit_test(test_joined),  cmocka_unit_test(test_histories),
      cmocka_unit_test(test_biases),   cmocka_unit_test(test_losses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
