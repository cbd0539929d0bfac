// decode_test.c: programs that keep keys and values score what the program that reads the whole text scores.
//
// Texts of tests/decode and the models that are shipped, in fp64 to 1e-12, token by token, wherever the prompt ends and
// its blocks begin; under layouts of several ranks; in narrower formats to their rounding. Texts that say `refused:`
// are refused with these words. As a control, a wrong position is noticed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mix.h"
#include "compiler/compile.h"
#include "runtime/element.h"
#include "runtime/generate.h"
#include "runtime/session.h"
#include "tests/effort.h"

enum { LONGEST = 80, VOCABULARY = 256 };

typedef struct {
  Arena *arena;
  PlanSet *set;
  Session session;
  int length;  // of the window
  int32_t tokens[LONGEST + PLAN_BLOCK];
} Run;

static void must(bool good, const char *what, const Error *error) {
  if (!good) {
    fail_msg("%s: %s", what, error->text);
  }
}

static PlanSet *compiled(Arena *arena, const CompileOptions *options) {
  PlanSet *set;
  Diag *diag = diag_create(arena);
  if (!compile_plans(arena, diag, options, &set)) {
    diag_print(diag, stderr, false);
    fail_msg("%s does not compile under %s", options->file, options->layout ? options->layout : "no layout");
  }
  return set;
}

static void run_open(Run *run, const CompileOptions *options) {
  Error error = {0};
  *run = (Run){.arena = arena_create()};
  run->set = compiled(run->arena, options);
  const char *missing = run->set->plans[0]->programs[PROGRAM_PREFILL].missing;
  missing = missing ? missing : run->set->plans[0]->programs[PROGRAM_DECODE].missing;
  if (missing) {
    fail_msg("%s keeps nothing: %s", options->file, missing);
  }
  must(session_open_ranks(&run->session, run->set, &backend_cpu, &(SessionOptions){.threads = 2}, &error), "open",
       &error);
  must(session_run(&run->session, PROGRAM_INITIALISE, 1, &error), "initialise", &error);
  const PlanInput *tokens = session_input(run->set->plans[0], PROGRAM_PREFILL, "tokens");
  const PlanInput *whole = session_input(run->set->plans[0], PROGRAM_GENERATE, "tokens");
  run->length = (int)(whole->size[0] * whole->size[1]);
  assert_true(run->length <= LONGEST && tokens->bound <= VOCABULARY);
  for (int i = 0; i < run->length; i++) {
    run->tokens[i] = (int32_t)(mix_word(7, (uint64_t)i) % (uint64_t)tokens->bound);
  }
}

static void run_close(Run *run) {
  session_close(&run->session);
  arena_destroy(run->arena);
}

// On all ranks, if there is such an input.
static void give(Run *run, ProgramKind kind, const char *name, const int32_t *values) {
  Error error = {0};
  for (int64_t rank = 0; rank < run->session.ranks; rank++) {
    const PlanInput *input = session_input(session_plan(&run->session, rank), kind, name);
    if (input) {
      must(backend_cpu.write(session_device(&run->session, rank), input->place.arena, input->place.offset, values,
                             plan_input_bytes(input), &error),
           name, &error);
    }
  }
}

// What follows token `first + count - 1`; its scores, of which there are so many.
static int scores(Run *run, ProgramKind kind, int first, int count, double *out) {
  Error error = {0};
  int64_t rank;
  const int32_t position = first, last = count - 1;
  give(run, kind, "tokens", run->tokens + first);
  give(run, kind, "position", &position);
  give(run, kind, "last", &last);
  must(session_run(&run->session, kind, 1, &error), program_kind_name(kind), &error);
  const PlanOutput *logits = session_find_output(&run->session, kind, "logits", &rank);
  const int axis = logits->axis_count - 1, size = (int)logits->size[axis];
  const int64_t bytes = element_type_bytes(logits->type);
  char raw[VOCABULARY * 8];
  assert_true(size <= VOCABULARY && logits->stride[axis] == 1);
  for (int a = 0; a < axis; a++) {
    assert_int_equal(logits->size[a], 1);  // the host gets no other position
  }
  must(backend_cpu.read(session_device(&run->session, rank), logits->place.arena, logits->place.offset, raw,
                        size * bytes, &error),
       "read", &error);
  for (int i = 0; i < size; i++) {
    out[i] = element_get(logits->type, raw + i * bytes);
  }
  return size;
}

// The largest difference to what is expected, as a part of the largest score.
static double apart(const double *expected, const double *found, int count) {
  double most = 0, difference = 0;
  for (int i = 0; i < count; i++) {
    most = fmax(most, fabs(expected[i]));
    difference = fmax(difference, fabs(found[i] - expected[i]));
    difference = isnan(found[i]) ? INFINITY : difference;
  }
  return difference / most;
}

typedef double Scores[LONGEST + 1][VOCABULARY];  // of what follows so many tokens

static int score_whole(Run *run, Scores all) {
  int count = 0;
  for (int length = 1; length <= run->length; length++) {
    count = scores(run, PROGRAM_GENERATE, 0, length, all[length]);
  }
  return count;
}

// A prompt in blocks, then token by token: the largest difference.
static double score_kept(Run *run, int prompt, Scores expected, int count) {
  double found[VOCABULARY], most = 0;
  for (int known = 0; known < run->length;) {
    const int left = prompt - known, here = left > PLAN_BLOCK ? PLAN_BLOCK : left > 1 ? left : 1;
    scores(run, left > 1 ? PROGRAM_PREFILL : PROGRAM_DECODE, known, here, found);
    known += here;
    most = fmax(most, apart(expected[known], found, count));
  }
  return most;
}

static Scores whole_scores;

static void compare(const CompileOptions *options, const char *layout, double tolerance) {
  static const int prompts[] = {1, 2, 5, 37, 63, 64, 65, 79};
  CompileOptions other = *options;
  Run whole, kept;
  run_open(&whole, options);
  const int count = score_whole(&whole, whole_scores);
  other.layout = layout;
  run_open(&kept, layout ? &other : options);
  for (size_t i = 0; i < sizeof prompts / sizeof *prompts && prompts[i] < whole.length;
       i++) {  // what the one before has left is of no matter
    const double most = score_kept(&kept, prompts[i], whole_scores, count);
    if (!(most <= tolerance)) {
      fail_msg("%s under %s: after a prompt of %d tokens scores differ by %g", options->file, layout, prompts[i], most);
    }
  }
  run_close(&kept);
  run_close(&whole);
}

static const char *const small[] = {"seq=80", "batch=2", "embed=24", "layers=2"};

static CompileOptions options_of(const char *file, const char *recipe, const char *precision) {
  return (CompileOptions){.file = file,
                          .recipe = recipe,
                          .precision = precision,
                          .decode = true,
                          .set = recipe ? small : NULL,
                          .set_count = recipe ? sizeof small / sizeof *small : 0};
}

static void test_models(void **state) {
  (void)state;
  static const char *const models[][2] = {{"gpt2", "tiny"},    {"llama", "small"}, {"bloom", "tiny"},
                                          {"mixtral", "tiny"}, {"olmoe", "tiny"},  {"deepseek", "tiny"}};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    char file[1024];
    snprintf(file, sizeof file, "%s/models/%s.mdl", MDL_SOURCE_DIR, models[i][0]);
    CompileOptions options = options_of(file, models[i][1], "fp64");
    compare(&options, NULL, 1e-12);
  }
}

// What the first line of a text says it is refused for; or NULL.
static const char *refused(const char *path, char *line, int size) {
  FILE *file = fopen(path, "r");
  assert_true(file && fgets(line, size, file));
  fclose(file);
  char *at = strstr(line, "refused: ");
  line[strcspn(line, "\n")] = 0;
  return at ? at + strlen("refused: ") : NULL;
}

static void refuse(const char *path, const char *why) {
  Arena *arena = arena_create();
  CompileOptions options = options_of(path, NULL, "fp64");
  const Plan *plan = compiled(arena, &options)->plans[0];
  const char *missing = plan->programs[PROGRAM_PREFILL].missing;
  assert_true(plan->programs[PROGRAM_GENERATE].call_count > 0);
  assert_int_equal(plan->programs[PROGRAM_DECODE].call_count + plan->programs[PROGRAM_PREFILL].call_count, 0);
  if (!missing || !strstr(missing, why)) {
    fail_msg("%s is not refused since it %s: %s", path, why, missing ? missing : "it is not refused");
  }
  arena_destroy(arena);
}

static void test_texts(void **state) {
  (void)state;
  int kept = 0, others = 0;
  DIR *directory = opendir(MDL_SOURCE_DIR "/tests/decode");
  assert_non_null(directory);
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char path[1024], line[1024];
    snprintf(path, sizeof path, "%s/tests/decode/%s", MDL_SOURCE_DIR, entry->d_name);
    if (!strstr(entry->d_name, ".mdl")) {
      continue;
    }
    const char *why = refused(path, line, sizeof line);
    if (why) {
      refuse(path, why);
      others++;
    } else {
      CompileOptions options = options_of(path, NULL, "fp64");
      compare(&options, NULL, 1e-12);
      kept++;
    }
  }
  closedir(directory);
  assert_true(kept >= 5 && others >= 4);
}

// Whatever else there is in tests/layouts from which text can be generated.
static void test_other_texts(void **state) {
  (void)state;
  int kept = 0;
  size_t number = 0;
  DIR *directory = opendir(MDL_SOURCE_DIR "/tests/layouts");
  assert_non_null(directory);
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/layouts/%s", MDL_SOURCE_DIR, entry->d_name);
    if (!strstr(entry->d_name, ".mdl") || (effort_short() && effort_leaves_out(number++))) {
      continue;
    }
    CompileOptions options = options_of(path, NULL, "fp64");
    options.layout = "single";
    Arena *arena = arena_create();
    const PlanSet *set = compiled(arena, &options);
    const bool keeps = set->plans[0]->programs[PROGRAM_DECODE].call_count > 0 && generate_possible(set);
    arena_destroy(arena);
    if (keeps) {
      compare(&options, NULL, 1e-12);
      kept++;
    }
  }
  closedir(directory);
  assert_true(kept >= (effort_short() ? 1 : 10));
}

static void test_formats(void **state) {
  (void)state;
  CompileOptions single = options_of(MDL_SOURCE_DIR "/tests/decode/window.mdl", NULL, "fp32");
  compare(&single, NULL, 1e-5);
  CompileOptions half = options_of(MDL_SOURCE_DIR "/tests/decode/window.mdl", NULL, "bf16");
  compare(&half, NULL, 0.05);
  CompileOptions mixed = options_of(MDL_SOURCE_DIR "/tests/decode/seen.mdl", NULL, "bf16_fp32_residual");
  compare(&mixed, NULL, 0.05);
}

static void test_layouts(void **state) {
  (void)state;
  static const char *const layouts[] = {"tp2", "cp2", "dp2"};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    CompileOptions options = options_of(MDL_SOURCE_DIR "/tests/decode/tied.mdl", NULL, "fp64");
    compare(&options, layouts[i], 1e-12);
  }
}

// A token somewhere else, or with the keys of another one before it, has other scores.
static void test_wrong_positions_are_noticed(void **state) {
  (void)state;
  double found[VOCABULARY];
  Run run;
  CompileOptions options = options_of(MDL_SOURCE_DIR "/tests/decode/tied.mdl", NULL, "fp64");
  run_open(&run, &options);
  const int count = score_whole(&run, whole_scores);
  assert_true(score_kept(&run, 40, whole_scores, count) <= 1e-12);
  scores(&run, PROGRAM_DECODE, 40, 1, found);
  assert_true(apart(whole_scores[41], found, count) <= 1e-12);  // gone back to
  run.tokens[42] = run.tokens[41];
  scores(&run, PROGRAM_DECODE, 42, 1, found);  // 41 was never given: its keys are zeros
  assert_true(apart(whole_scores[42], found, count) > 1e-6);
  run.tokens[40]++;
  scores(&run, PROGRAM_DECODE, 40, 1, found);
  scores(&run, PROGRAM_DECODE, 41, 1, found);
  assert_true(apart(whole_scores[42], found, count) > 1e-6);
  run_close(&run);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_models),      cmocka_unit_test(test_texts),
      cmocka_unit_test(test_other_texts), cmocka_unit_test(test_formats),
      cmocka_unit_test(test_layouts),     cmocka_unit_test(test_wrong_positions_are_noticed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
