// passes_test.c: what a program means does not change from pass to pass, nor in the plan that the CPU runs.
//
// For each file in tests/programs, under each of its layouts, in fp64: the graph after every pass is printed, read back
// (which must print the same) and evaluated by tests/reference.c; the plan runs on the CPU. Outputs, gradients and the
// new state of all of them must agree. A new case is a new file. Some of the files with TESTS_SHORT=1.
#include <dirent.h>
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "compiler/ir/graph_text.h"
#include "compiler/ir/verify.h"
#include "compiler/pass/compilation.h"
#include "tests/effort.h"
#include "tests/plan_run.h"
#include "tests/reference.h"

// What the tests of single files set for a while.
static const char *precision = "fp64";
static double tolerance = 1e-12;
static const char *first_pass = "elaborate";  // from which on graphs are compared

static const char *const pass_names[] = {
#define PASS(name, function, ...) #name,
#define LOWERING(...)
#include "compiler/pass/passes.def"
#undef PASS
#undef LOWERING
};
static const char *const pass_programs[] = {
#define PASS(name, function, programs, ...) #programs,
#define LOWERING(...)
#include "compiler/pass/passes.def"
#undef PASS
#undef LOWERING
};
enum { PASS_COUNT = sizeof pass_names / sizeof *pass_names };

typedef struct {  // a tensor that a program takes or gives back
  const char *name;
  bool state;
  Dense dense;       // of the plan
  double *meaning;   // of the first graph that computes it, in the order of `dense`; NULL: none so far
  const char *pass;  // after which that was
} Result;

typedef ARRAY(Result) ResultList;

typedef struct {
  const char *file, *layout;  // layout NULL: none
  int64_t chunk_bytes;        // see CompileOptions
  ProgramKind kind;
  PlanRunner runner;
  ARRAY(Result) given;  // inputs (all microbatches) and states before the run
  ResultList results;   // what the program gives
  uint64_t seed;
} Trial;

static double random_unit(Trial *trial) {
  trial->seed = trial->seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(trial->seed >> 11) / 9007199254740992.0;
}

// --- what goes in ---

static void give_states(Trial *trial) {
  Plan *plan = trial->runner.plan;
  for (int i = 0; i < plan->state_count; i++) {
    const PlanState *state = &plan->states[i];
    Dense dense = dense_make(trial->runner.arena, state->axis, state->size, state->axis_count);
    for (int64_t j = 0; j < dense.count; j++) {
      double u = random_unit(trial);
      dense.data[j] = state->role == STATE_PARAMETER ? 1.6 * u - 0.8
                      : state->role == STATE_MODEL   ? u
                                                     : 0.001 + 0.01 * u;
    }
    state_move(&trial->runner, state, dense.data, true);
    array_push(trial->runner.arena, &trial->given, ((Result){.name = state->name, .state = true, .dense = dense}));
  }
}

static double input_value(Trial *trial, const PlanInput *input) {
  double u = random_unit(trial);
  switch (input->type) {
    case TYPE_INDEX:
      return floor(u * (double)input->bound);
    case TYPE_BOOL:
      return u < 0.6;
    case TYPE_INT:
      return strcmp(input->name, "step") == 0 ? 3 : floor(u * 3);
    default:
      return 4 * u - 2;
  }
}

static void give_inputs(Trial *trial) {
  const PlanProgram *program = &trial->runner.plan->programs[trial->kind];
  for (int i = 0; i < program->input_count; i++) {
    const PlanInput *input = &program->inputs[i];
    Dense dense = {input->axis_count, input->axis, input->size, elements_of(input->size, input->axis_count), NULL};
    int64_t total = dense.count * (input->place.slot_stride ? program->slots : 1);
    dense.data = ARENA_ARRAY(trial->runner.arena, double, total + 1);
    for (int64_t j = 0; j < total; j++) {
      dense.data[j] = input_value(trial, input);
    }
    runner_set_input(&trial->runner, trial->kind, input->name, dense.data);
    array_push(trial->runner.arena, &trial->given, ((Result){.name = input->name, .dense = dense}));
  }
}

// --- what the plan gives ---

static void run_plan(Trial *trial) {
  Plan *plan = trial->runner.plan;
  const PlanProgram *program = &plan->programs[trial->kind];
  runner_run(&trial->runner, trial->kind);
  for (int i = 0; i < program->output_count; i++) {
    const char *name = program->outputs[i].name;
    Result result = {.name = name, .dense = runner_output(&trial->runner, trial->kind, name)};
    array_push(trial->runner.arena, &trial->results, result);
  }
  for (int i = 0; i < plan->state_count; i++) {
    Result result = {.name = plan->states[i].name, .state = true};
    result.dense = runner_state(&trial->runner, result.name);
    array_push(trial->runner.arena, &trial->results, result);
  }
}

// --- what a graph gives ---

// The axes of `shape` in the order of these names.
static Shape shape_by_names(const Graph *graph, Shape shape, const Dense *dense, const char *what) {
  Shape ordered = {0};
  for (int i = 0; i < dense->axis_count; i++) {
    for (int j = 0; j < shape.count; j++) {
      if (strcmp(graph->axes.at[shape.axis[j]].name, dense->axis[i]) == 0) {
        shape_push(&ordered, shape.axis[j]);
      }
    }
  }
  if (ordered.count != shape.count || ordered.count != dense->axis_count) {
    fail_msg("'%s' has other axes in the plan than in the graph", what);
  }
  return ordered;
}

static void give_leaf(const Trial *trial, Reference *reference, const Node *leaf) {
  for (int i = 0; i < trial->given.count; i++) {
    const Result *given = &trial->given.at[i];
    if (strcmp(given->name, leaf->text) == 0 && given->state == (leaf->op != OP_INPUT)) {
      Shape shape = shape_by_names(reference->graph, graph_shape(reference->graph, leaf->first_result), &given->dense,
                                   leaf->text);
      reference_give(reference, leaf->text, shape, given->dense.data);
      return;
    }
  }
  Shape shape = graph_shape(reference->graph, leaf->first_result);  // the plan does not read it: anything will do
  double *zeros = ARENA_ARRAY(reference->arena, double, graph_elements(reference->graph, shape) + 1);
  reference_give(reference, leaf->text, shape, zeros);
}

static Reference *evaluate_graph(const Trial *trial, Arena *arena, const Graph *graph, const char *pass) {
  Reference *reference = reference_create(arena, graph);
  for (int i = 0; i < graph->nodes.count; i++) {
    const Node *node = &graph->nodes.at[i];
    if (node->op == OP_INPUT || node->op == OP_PARAM || node->op == OP_STATE) {
      give_leaf(trial, reference, node);
    }
  }
  if (!reference_run(reference)) {
    fail_msg("%s after %s: %s", trial->file, pass, reference->wrong);
  }
  return reference;
}

static double largest(const double *data, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; i++) {
    most = fabs(data[i]) > most ? fabs(data[i]) : most;
  }
  return most;
}

static bool is_gradient(const Result *result) {
  return strncmp(result->name, "gradient.", 9) == 0;
}

// Errors are measured against the largest element; of gradients, that are 0 but for rounding, against all of them.
static double allowed_error(const Trial *trial, const Result *result) {
  double scale = largest(result->meaning, result->dense.count);
  for (int i = 0; is_gradient(result) && i < trial->results.count; i++) {
    const Result *other = &trial->results.at[i];
    if (is_gradient(other) && other->meaning) {
      double all = 1e-2 * largest(other->meaning, other->dense.count);
      scale = all > scale ? all : scale;
    }
  }
  return tolerance * scale + 1e-300;
}

// Where numbers are rounded to 8 bits, one that lies between two of those goes either way by the order of sums before:
// then not the worst is looked at, but all errors beside all numbers.
static bool rounded;

static double norm(const double *a, const double *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    const double x = a[i] - (b ? b[i] : 0);
    sum += x * x;
  }
  return sqrt(sum);
}

// How far off these numbers are, in shares of what is allowed; *at is the worst of them.
static double share_of_error(const Trial *trial, const Result *result, const double *data, int64_t *at) {
  double worst = 0;
  for (int64_t i = 0; i < result->dense.count; i++) {
    double error = fabs(data[i] - result->meaning[i]);
    if (error > worst || isnan(error)) {
      worst = isnan(error) ? INFINITY : error;
      *at = i;
    }
  }
  if (rounded && !isinf(worst)) {
    const int64_t count = result->dense.count;
    return norm(data, result->meaning, count) / (tolerance * norm(result->meaning, NULL, count) + 1e-300);
  }
  return worst / allowed_error(trial, result);
}

static void expect_meaning(const Trial *trial, const Result *result, const double *data, const char *where) {
  int64_t at = 0;
  double share = share_of_error(trial, result, data, &at);
  if (getenv("PASSES_VERBOSE")) {
    printf("%s, %s, %s, %s: %s: %.2g of the allowed error\n", trial->file, trial->layout ? trial->layout : "none",
           program_kind_name(trial->kind), where, result->name, share);
  }
  if (share > 1) {
    fail_msg("%s, layout %s, program %s: %s[%lld] is %.17g in %s, but %.17g after %s: %.1e times the allowed error",
             trial->file, trial->layout ? trial->layout : "none", program_kind_name(trial->kind), result->name,
             (long long)at, data[at], where, result->meaning[at], result->pass, share);
  }
}

// What the graph gives for this result in the order of `dense`, or NULL.
static double *graph_result(const Reference *reference, const Result *result, Arena *arena) {
  const Tensor *tensor =
      result->state ? reference_assigned(reference, result->name) : reference_output(reference, result->name);
  if (!tensor) {
    return NULL;
  }
  double *data = ARENA_ARRAY(arena, double, result->dense.count + 1);
  Shape shape = shape_by_names(reference->graph, tensor->shape, &result->dense, result->name);
  reference_copy(reference, tensor, shape, data);
  return data;
}

static void compare_graph(Trial *trial, const Reference *reference, const char *pass) {
  for (int i = 0; i < reference->outputs.count; i++) {
    if (!output_find(&trial->runner, trial->kind, reference->outputs.at[i].name)) {
      fail_msg("%s: the plan lacks the output '%s'", trial->file, reference->outputs.at[i].name);
    }
  }
  for (int i = 0; i < trial->results.count; i++) {
    Result *result = &trial->results.at[i];
    double *data = graph_result(reference, result, trial->runner.arena);
    if (data && result->meaning) {
      expect_meaning(trial, result, data, pass);
    } else if (data) {
      result->meaning = data;
      result->pass = pass;
    }
  }
}

static void compare_plan(Trial *trial) {
  for (int i = 0; i < trial->results.count; i++) {
    Result *result = &trial->results.at[i];
    for (int j = 0; j < trial->given.count && !result->meaning; j++) {
      if (result->state && strcmp(trial->given.at[j].name, result->name) == 0) {
        result->meaning = trial->given.at[j].dense.data;  // what nothing assigns stays as it is
        result->pass = "the beginning";
      }
    }
    if (!result->meaning) {
      fail_msg("%s: no graph has the output '%s' of the plan", trial->file, result->name);
    }
    expect_meaning(trial, result, result->dense.data, "the plan");
  }
}

static CompileOptions trial_options(const Trial *trial) {
  return (CompileOptions){.file = trial->file,
                          .layout = trial->layout,
                          .precision = precision,
                          .gradients = true,
                          .chunk_bytes = trial->chunk_bytes,
                          .program = trial->kind};
}

// What was printed after a pass, read back; printing that again must give the same text. `diag` knows the files.
static Graph *graph_read(const Trial *trial, Arena *arena, Diag *diag, const char *pass, const Buffer *text) {
  Buffer again = {0};
  int source = diag_add_source(diag, pass, text->text, text->length);
  Graph *graph = graph_parse(arena, names_create(arena), diag, source);
  if (!graph || !graph_verify(graph, diag, pass)) {
    diag_print(diag, stderr, false);
    fail_msg("%s: the text after %s cannot be read back", trial->file, pass);
  }
  graph_print(graph, &again);
  if (strcmp(text->text, again.text) != 0) {
    fail_msg("%s: the text after %s reads back as another graph", trial->file, pass);
  }
  buffer_free(&again);
  return graph;
}

static Diag *print_after(const Trial *trial, Arena *arena, const char *pass, const PassWatch *watch, Buffer *text) {
  Diag *diag = diag_create(arena);
  CompileOptions options = trial_options(trial);
  options.after = pass;
  options.watch = (PassWatch *)watch;
  if (!compile_print(arena, diag, &options, text)) {
    diag_print(diag, stderr, false);
    fail_msg("%s cannot be printed after %s", trial->file, pass ? pass : "all passes");
  }
  return diag;
}

static Graph *graph_after(const Trial *trial, Arena *arena, const char *pass) {
  Buffer text = {0};
  Diag *diag = print_after(trial, arena, pass, NULL, &text);
  Graph *graph = graph_read(trial, arena, diag, pass, &text);
  buffer_free(&text);
  return graph;
}

static int pass_number(const char *name) {
  int number = 0;
  while (strcmp(pass_names[number], name) != 0) {
    number++;
  }
  return number;
}

// Before differentiate, a graph is one microbatch, not the step; before samples, an evaluation's sums are of one.
static bool is_whole(const Trial *trial, int pass) {
  const char *first = trial->kind == PROGRAM_TRAIN      ? "differentiate"
                      : trial->kind == PROGRAM_EVALUATE ? "samples"
                                                        : pass_names[0];
  return pass >= pass_number(first) || trial->runner.plan->programs[PROGRAM_TRAIN].slots == 1;
}

typedef struct {  // the graphs of one program
  ProgramKind kind;
  Buffer after[PASS_COUNT];  // nothing after what does not run for this program
} Texts;

// Of several programs of one kind, which phases of a run have, the last one is asked for.
static void keep_text(void *context, Compilation *c, const char *pass) {
  Texts *texts = context;
  if (c->program == (program_policy(texts->kind) < 0 ? texts->kind : PROGRAM_TRAIN)) {
    Buffer *text = &texts->after[pass_number(pass)];
    buffer_free(text);
    graph_print(c->graph, text);
  }
}

static Diag *texts_of(const Trial *trial, Arena *arena, Texts *texts) {
  Buffer last = {0};
  const PassWatch watch = {keep_text, texts};
  texts->kind = trial->kind;
  Diag *diag = print_after(trial, arena, NULL, &watch, &last);
  buffer_free(&last);
  return diag;
}

static bool is_compared(const Trial *trial, int pass) {
  return is_whole(trial, pass) && pass >= pass_number(first_pass);
}

// What a pass has left as it was means what it meant before.
static void check_program(Trial *trial) {
  int before = -1;
  Texts texts = {0};
  Arena *whole = arena_create();
  trial->given.count = trial->results.count = 0;
  trial->seed = (uint64_t)trial->kind + 17;
  give_states(trial);
  give_inputs(trial);
  run_plan(trial);
  Diag *diag = texts_of(trial, whole, &texts);
  for (int pass = 0; pass < PASS_COUNT; pass++) {
    const Buffer *text = &texts.after[pass], *known = before < 0 ? NULL : &texts.after[before];
    if (!text->length || strcmp(pass_programs[pass], "REFRESH") == 0 ||
        (known && is_compared(trial, pass) == is_compared(trial, before) && strcmp(text->text, known->text) == 0)) {
      continue;
    }
    Arena *arena = arena_create();
    Graph *graph = graph_read(trial, arena, diag, pass_names[pass], text);
    if (is_compared(trial, pass)) {
      compare_graph(trial, evaluate_graph(trial, arena, graph, pass_names[pass]), pass_names[pass]);
    }
    arena_destroy(arena);
    before = pass;
  }
  for (int pass = 0; pass < PASS_COUNT; pass++) {
    buffer_free(&texts.after[pass]);
  }
  arena_destroy(whole);
  assert_true(before >= 0);
  compare_plan(trial);
}

// `instructions`: of the training step; one that has as many is not run again.
static int64_t check_layout(const char *file, const char *layout, int64_t chunk_bytes, int64_t instructions) {
  Trial trial = {.file = file, .layout = layout, .chunk_bytes = chunk_bytes, .kind = PROGRAM_TRAIN};
  CompileOptions options = trial_options(&trial);
  trial.runner = runner_open(&options);
  int64_t has = plan_instructions(trial.runner.plan, PROGRAM_TRAIN);
  if (has == instructions) {
    runner_close(&trial.runner);
    return has;
  }
  for (int kind = 0; kind < PROGRAM_COUNT; kind++) {
    trial.kind = (ProgramKind)kind;
    if (trial.runner.plan->programs[kind].call_count > 0) {
      check_program(&trial);
    }
  }
  runner_close(&trial.runner);
  return has;
}

// Then with logits in as many parts as they have rows along their first axis.
static void check_parts(const char *file, const char *layout) {
  check_layout(file, layout, 1, check_layout(file, layout, 0, -1));
}

// --- the files ---

static char *read_text(const char *path) {
  FileError error;
  size_t length;
  char *text = file_read(path, &length, &error);
  if (!text) {
    fail_msg("%s", error.text);
  }
  return text;
}

static void test_program(void **state) {
  const char *file = *state;
  char *text = read_text(file), layout[64];
  first_pass = strstr(text, "capacity = ") ? "limit" : pass_names[0];  // what that leaves out is left out there
  check_parts(file, NULL);
  for (const char *at = text; (at = strstr(at, "\nlayout ")) != NULL; at++) {
    if (sscanf(at, "\nlayout %63[A-Za-z0-9_]", layout) == 1) {
      check_parts(file, layout);
    }
  }
  first_pass = pass_names[0];
  free(text);
}

// In 8 bits graphs mean from `precision` on what their text says, with the rounding of quantise; the plan makes its
// sums in f32. That numbers are rounded at all makes a difference.
static void test_quantised(void **state) {
  (void)state;
  static const char file[] = MDL_SOURCE_DIR "/tests/programs/quantised.mdl",
                    blocks[] = MDL_SOURCE_DIR "/tests/programs/blocks.mdl";
  static const char *const cases[][3] = {
      {file, "eight", NULL},   {file, "eight", "microbatches2"},   {file, "eight", "recomputed"},
      {file, "late", NULL},    {file, "late", "microbatches2"},    {file, "late", "recomputed"},
      {blocks, "eight", NULL}, {blocks, "eight", "microbatches2"}, {blocks, "eight", "recomputed"}};
  tolerance = 2e-3;
  rounded = true;
  first_pass = "precision";
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (!effort_short() || !effort_leaves_out(i)) {
      precision = cases[i][1];
      check_layout(cases[i][0], cases[i][2], 0, -1);
    }
  }
  precision = "eight";
  Arena *arena = arena_create();
  Trial trial = {.file = file, .kind = PROGRAM_TRAIN, .seed = 1};
  CompileOptions options = trial_options(&trial);
  trial.runner = runner_open(&options);
  give_states(&trial);
  give_inputs(&trial);
  run_plan(&trial);
  Graph *graph = graph_after(&trial, arena, "simplify_step");  // where nothing is rounded
  compare_graph(&trial, evaluate_graph(&trial, arena, graph, "simplify_step"), "simplify_step");
  double most = 0;
  for (int i = 0; i < trial.results.count; i++) {
    int64_t at;
    const Result *result = &trial.results.at[i];
    most = result->meaning ? fmax(most, share_of_error(&trial, result, result->dense.data, &at)) : most;
  }
  assert_true(most > 10);
  runner_close(&trial.runner);
  arena_destroy(arena);
  rounded = false;
  precision = "fp64";
  tolerance = 1e-12;
  first_pass = pass_names[0];
}

// Printing after one pass gives what was there when it had run.
static void test_printed_alone(void **state) {
  (void)state;
  Texts texts = {0};
  Trial trial = {.file = MDL_SOURCE_DIR "/tests/programs/block.mdl", .kind = PROGRAM_TRAIN};
  int printed = 0;
  Arena *arena = arena_create();
  texts_of(&trial, arena, &texts);
  for (int pass = 0; pass < PASS_COUNT; pass++) {
    if (texts.after[pass].length) {
      Buffer alone = {0};
      print_after(&trial, arena, pass_names[pass], NULL, &alone);
      assert_string_equal(alone.text, texts.after[pass].text);
      buffer_free(&alone);
      buffer_free(&texts.after[pass]);
      printed++;
    }
  }
  arena_destroy(arena);
  assert_true(printed > 15);
}

// A control: the comparison must see a constant anywhere in a graph that is off by a millionth.
static void test_differences_are_seen(void **state) {
  (void)state;
  Arena *arena = arena_create();
  Trial trial = {.file = MDL_SOURCE_DIR "/tests/programs/block.mdl", .kind = PROGRAM_TRAIN, .seed = 1};
  CompileOptions options = trial_options(&trial);
  trial.runner = runner_open(&options);
  give_states(&trial);
  give_inputs(&trial);
  run_plan(&trial);
  Graph *graph = graph_after(&trial, arena, "simplify_step");
  compare_graph(&trial, evaluate_graph(&trial, arena, graph, "simplify_step"), "simplify_step");
  int seen = 0, changed = 0;
  for (int i = 0; i < graph->nodes.count; i++) {
    Node *node = &graph->nodes.at[i];
    if (node->op != OP_CONST || node->number == 0 || !isfinite(node->number)) {
      continue;
    }
    double kept = node->number;
    node->number = kept * (1 + 1e-6);
    Reference *reference = evaluate_graph(&trial, arena, graph, "a change");
    bool differs = false;
    for (int j = 0; j < trial.results.count; j++) {
      int64_t at;
      double *data = graph_result(reference, &trial.results.at[j], arena);
      differs = (data && share_of_error(&trial, &trial.results.at[j], data, &at) > 1) || differs;
    }
    node->number = kept;
    changed++;
    seen += differs;
  }
  if (changed < 10 || seen * 10 < changed * 8) {
    fail_msg("of %d constants that were changed by a millionth, only %d made a difference", changed, seen);
  }
  runner_close(&trial.runner);
  arena_destroy(arena);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct CMUnitTest *)a)->name, ((const struct CMUnitTest *)b)->name);
}

enum { MOST_PROGRAMS = 4096 };

// The programs of a directory, or of a file.
static size_t list_programs(Arena *arena, const char *from, struct CMUnitTest *tests) {
  size_t count = 0;
  DIR *files = opendir(from);
  if (!files) {
    tests[count++] = (struct CMUnitTest){from, test_program, NULL, NULL, arena_format(arena, "%s", from)};
    return count;
  }
  for (struct dirent *entry; (entry = readdir(files));) {
    if (strstr(entry->d_name, ".mdl")) {
      assert_true(count < MOST_PROGRAMS);
      char *path = arena_format(arena, "%s/%s", from, entry->d_name);
      tests[count++] = (struct CMUnitTest){arena_format(arena, "%s", entry->d_name), test_program, NULL, NULL, path};
    }
  }
  closedir(files);
  return count;
}

// passes_test [DIRECTORY | FILE]: other programs, of one rank, than those of tests/programs, and these alone.
int main(int argc, char **argv) {
  static struct CMUnitTest tests[MOST_PROGRAMS + 3];
  Arena *arena = arena_create();
  size_t count = list_programs(arena, argc > 1 ? argv[1] : MDL_SOURCE_DIR "/tests/programs", tests);
  qsort(tests, count, sizeof *tests, by_name);
  if (effort_short()) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
      tests[kept] = tests[i];
      kept += !effort_leaves_out(i);
    }
    count = kept;
  }
  if (count > 0 && argc < 2) {
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_differences_are_seen);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_printed_alone);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_quantised);
  }
  int failures = count == 0 ? 1 : _cmocka_run_group_tests("programs", tests, count, NULL, NULL);
  arena_destroy(arena);
  return failures;
}
