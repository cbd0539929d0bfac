// passes_test.c: what a program means does not change from pass to pass, nor in the plan that the CPU runs.
//
// For each file in tests/programs, under each of its layouts, in fp64: the graph after every pass is printed, read back
// (which must print the same) and evaluated by tests/reference.c; the plan runs on the CPU. Outputs, gradients and the
// new state of all of them must agree. A new case is a new file.
#include <dirent.h>
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "compiler/graph_text.h"
#include "compiler/verify.h"
#include "tests/plan_run.h"
#include "tests/reference.h"

static const double tolerance = 1e-12;

static const char *const pass_names[] = {
#define PASS(name, function, programs, what) #name,
#include "compiler/passes.def"
#undef PASS
};
static const char *const pass_programs[] = {
#define PASS(name, function, programs, what) #programs,
#include "compiler/passes.def"
#undef PASS
};
enum { PASS_COUNT = sizeof pass_names / sizeof *pass_names };

typedef struct {  // a tensor that a program gives back
  const char *name;
  bool state;
  Dense dense;
} Result;

typedef ARRAY(Result) ResultList;

typedef struct {
  const char *file, *layout;  // layout NULL: none
  ProgramKind kind;
  PlanRunner runner;
  ARRAY(Result) given;  // inputs (all microbatches) and states before the run
  ResultList expected;  // of the plan
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
    array_push(trial->runner.arena, &trial->given, ((Result){state->name, true, dense}));
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
    array_push(trial->runner.arena, &trial->given, ((Result){input->name, false, dense}));
  }
}

// --- what the plan gives ---

static void run_plan(Trial *trial) {
  Plan *plan = trial->runner.plan;
  const PlanProgram *program = &plan->programs[trial->kind];
  runner_run(&trial->runner, trial->kind);
  for (int i = 0; i < program->output_count; i++) {
    const char *name = program->outputs[i].name;
    Result result = {name, false, runner_output(&trial->runner, trial->kind, name)};
    array_push(trial->runner.arena, &trial->expected, result);
  }
  for (int i = 0; i < plan->state_count; i++) {
    Result result = {plan->states[i].name, true, runner_state(&trial->runner, plan->states[i].name)};
    array_push(trial->runner.arena, &trial->expected, result);
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
    }
  }
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

static double largest(const Dense *dense) {
  double most = 0;
  for (int64_t i = 0; i < dense->count; i++) {
    most = fabs(dense->data[i]) > most ? fabs(dense->data[i]) : most;
  }
  return most;
}

static bool is_gradient(const Result *result) {
  return strncmp(result->name, "gradient.", 9) == 0;
}

// Errors are measured against the largest element; of gradients, that are 0 but for rounding, against all of them.
static double allowed_error(const Trial *trial, const Result *expected) {
  double scale = largest(&expected->dense);
  for (int i = 0; is_gradient(expected) && i < trial->expected.count; i++) {
    if (is_gradient(&trial->expected.at[i])) {
      double other = 1e-2 * largest(&trial->expected.at[i].dense);
      scale = other > scale ? other : scale;
    }
  }
  return tolerance * scale + 1e-300;
}

// How far off the graph's tensor is, in shares of what is allowed; *at is the worst element. 0 where it is not computed
// yet in this pass, or is a state that does not change.
static double share_of_error(const Trial *trial, const Reference *reference, const Result *expected, double *found,
                             int64_t *at) {
  const Dense *dense = &expected->dense;
  const Tensor *tensor =
      expected->state ? reference_assigned(reference, expected->name) : reference_output(reference, expected->name);
  double *data = ARENA_ARRAY(reference->arena, double, dense->count + 1), worst = 0;
  if (!tensor) {
    return 0;
  }
  reference_copy(reference, tensor, shape_by_names(reference->graph, tensor->shape, dense, expected->name), data);
  for (int64_t i = 0; i < dense->count; i++) {
    double error = fabs(data[i] - dense->data[i]);
    if (error > worst || isnan(error)) {
      worst = isnan(error) ? INFINITY : error;
      *at = i;
      *found = data[i];
    }
  }
  return worst / allowed_error(trial, expected);
}

static double compare_result(const Trial *trial, const Reference *reference, const Result *expected, const char *pass) {
  double found = 0;
  int64_t at = 0;
  double share = share_of_error(trial, reference, expected, &found, &at);
  if (share > 1) {
    fail_msg("%s, layout %s, %s, after %s: %s[%lld] is %.17g, in the plan %.17g: %.1e times the allowed error",
             trial->file, trial->layout ? trial->layout : "none", program_kind_name(trial->kind), pass, expected->name,
             (long long)at, found, expected->dense.data[at], share);
  }
  return share;
}

// Every output of the graph is in the plan, and everything agrees.
static void compare_all(Trial *trial, const Reference *reference, const char *pass) {
  double worst = 0;
  for (int i = 0; i < trial->expected.count; i++) {
    double share = compare_result(trial, reference, &trial->expected.at[i], pass);
    worst = share > worst ? share : worst;
  }
  for (int i = 0; i < reference->outputs.count; i++) {
    if (!output_find(&trial->runner, trial->kind, reference->outputs.at[i].name)) {
      fail_msg("%s: the plan lacks the output '%s'", trial->file, reference->outputs.at[i].name);
    }
  }
  if (getenv("PASSES_VERBOSE")) {
    printf("%s, %s, %s, after %s: %.2g of the allowed error\n", trial->file, trial->layout ? trial->layout : "none",
           program_kind_name(trial->kind), pass, worst);
  }
}

static CompileOptions trial_options(const Trial *trial) {
  return (CompileOptions){.file = trial->file,
                          .layout = trial->layout,
                          .precision = "fp64",
                          .target = "cpu",
                          .gradients = true,
                          .program = trial->kind};
}

// The graph after a pass, printed and read back; printing that again must give the same text.
static Graph *graph_after(const Trial *trial, Arena *arena, const char *pass) {
  Buffer text = {0}, again = {0};
  Diag *diag = diag_create(arena);
  CompileOptions options = trial_options(trial);
  options.after = pass;
  if (!compile_print(arena, diag, &options, &text)) {
    diag_print(diag, stderr, false);
    fail_msg("%s cannot be printed after %s", trial->file, pass);
  }
  int source = diag_add_source(diag, pass, text.text, text.length);
  Graph *graph = graph_parse(arena, names_create(arena), diag, source);
  if (!graph || !graph_verify(graph, diag, pass)) {
    diag_print(diag, stderr, false);
    fail_msg("%s: the text after %s cannot be read back", trial->file, pass);
  }
  graph_print(graph, &again);
  if (strcmp(text.text, again.text) != 0) {
    fail_msg("%s: the text after %s reads back as another graph", trial->file, pass);
  }
  buffer_free(&text);
  buffer_free(&again);
  return graph;
}

static void check_program(Trial *trial) {
  trial->given.count = trial->expected.count = 0;
  trial->seed = (uint64_t)trial->kind + 17;
  give_states(trial);
  give_inputs(trial);
  run_plan(trial);
  for (int pass = 0; pass < PASS_COUNT; pass++) {
    if (trial->kind == PROGRAM_TRAIN || strcmp(pass_programs[pass], "ALL") == 0) {
      Arena *arena = arena_create();
      Graph *graph = graph_after(trial, arena, pass_names[pass]);
      compare_all(trial, evaluate_graph(trial, arena, graph, pass_names[pass]), pass_names[pass]);
      arena_destroy(arena);
    }
  }
}

static void check_layout(const char *file, const char *layout) {
  Trial trial = {.file = file, .layout = layout, .kind = PROGRAM_TRAIN};
  CompileOptions options = trial_options(&trial);
  trial.runner = runner_open(&options);
  for (int kind = 0; kind < PROGRAM_COUNT; kind++) {
    trial.kind = (ProgramKind)kind;
    if (trial.runner.plan->programs[kind].call_count > 0) {
      check_program(&trial);
    }
  }
  runner_close(&trial.runner);
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
  check_layout(file, NULL);
  for (const char *at = text; (at = strstr(at, "\nlayout ")) != NULL; at++) {
    if (sscanf(at, "\nlayout %63[A-Za-z0-9_]", layout) == 1) {
      check_layout(file, layout);
    }
  }
  free(text);
}

// Controls: the comparison must see a wrong factor deep inside a graph, and one element of one gradient that is off.
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
    for (int j = 0; j < trial.expected.count; j++) {
      double found;
      int64_t at;
      differs = share_of_error(&trial, reference, &trial.expected.at[j], &found, &at) > 1 || differs;
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

int main(void) {
  static struct CMUnitTest tests[256];
  size_t count = 0;
  Arena *arena = arena_create();
  const char *directory = MDL_SOURCE_DIR "/tests/programs";
  DIR *files = opendir(directory);
  for (struct dirent *entry; files && (entry = readdir(files)) && count < 250;) {
    if (strstr(entry->d_name, ".mdl")) {
      char *path = arena_format(arena, "%s/%s", directory, entry->d_name);
      tests[count++] = (struct CMUnitTest){arena_format(arena, "%s", entry->d_name), test_program, NULL, NULL, path};
    }
  }
  if (files) {
    closedir(files);
  }
  qsort(tests, count, sizeof *tests, by_name);
  tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_differences_are_seen);
  int failures = count < 2 ? 1 : _cmocka_run_group_tests("programs", tests, count, NULL, NULL);
  arena_destroy(arena);
  return failures;
}
