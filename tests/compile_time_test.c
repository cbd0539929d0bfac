// compile_time_test.c: what compiling takes grows with the layers as they do, and hardly with the stages of a pipeline.
//
// Processor time of a process that compiles and nothing else, the least of several: what else the machine does adds
// little to it. The limits leave room for caches, and are far below the square.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/compile.h"
#include "tests/effort.h"

enum { TRIES = 2, TIMES = 4 };  // TIMES: so many layers more

typedef struct {
  const char *recipe, *layout;
  int layers, stages;  // stages 0: no pipeline
} Subject;

static void compile(Subject subject) {
  char layers[32], stages[32];
  snprintf(layers, sizeof layers, "layers=%d", subject.layers);
  snprintf(stages, sizeof stages, "mesh.pp=%d", subject.stages);
  const char *set[] = {layers, stages};
  CompileOptions options = {.file = MDL_SOURCE_DIR "/models/llama.mdl", .recipe = subject.recipe};
  options.layout = subject.layout;
  options.set = set;
  options.set_count = subject.stages ? 2 : 1;
  Arena *arena = arena_create();
  PlanSet *plans;
  const bool good = compile_plans(arena, diag_create(arena), &options, &plans);
  _exit(good && plans->count == (subject.stages ? subject.stages : 1) ? 0 : 1);
}

// Processor seconds of the least of several times.
static double seconds(Subject subject) {
  double least = 0;
  for (int i = 0; i < TRIES; i++) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
      compile(subject);
    }
    int status = 1;
    struct rusage used;
    assert_int_equal(wait4(child, &status, 0, &used), child);
    assert_int_equal(status, 0);
    const double taken = (double)used.ru_utime.tv_sec + 1e-6 * (double)used.ru_utime.tv_usec;
    least = i == 0 || taken < least ? taken : least;
  }
  return least;
}

static void grows(Subject small, Subject large, double limit) {
  const double before = seconds(small), after = seconds(large);
  printf("%s: %d layers on %d stages %.3f s, %d on %d %.3f s: %.1f times\n", small.recipe, small.layers, small.stages,
         before, large.layers, large.stages, after, after / before);
  if (after > limit * before) {
    fail_msg("%.3f s become %.3f s, more than %.1f times", before, after, limit);
  }
}

static void layers_cost_what_they_are(void **state) {
  (void)state;
  const int most = effort_short() ? 320 : 640;
  grows((Subject){"llama_1b", NULL, most / TIMES, 0}, (Subject){"llama_1b", NULL, most, 0}, TIMES * 1.6);
}

static void stages_cost_little(void **state) {
  (void)state;
  grows((Subject){"llm_jp_172b", "ranks1024", 32, 4}, (Subject){"llm_jp_172b", "ranks1024", 32, 32}, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(layers_cost_what_they_are), cmocka_unit_test(stages_cost_little)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
