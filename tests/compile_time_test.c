// compile_time_test.c: what compiling takes grows with the layers as they do, and hardly with the stages of a pipeline.
//
// Pages of memory that a process touches that compiles and nothing else, which other programs do not change: tables of
// the whole graph for each layer show there. And its processor time, the least of several: that of a large graph grows
// by what other programs leave of the caches, so its limit is wide, and far below the square.
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

typedef struct {
  double seconds;  // of processors, the least of several times
  long pages;
} Taken;

static Taken measure(Subject subject) {
  Taken least = {0};
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
    least.seconds = i == 0 || taken < least.seconds ? taken : least.seconds;
    least.pages = i == 0 || used.ru_minflt < least.pages ? used.ru_minflt : least.pages;
  }
  return least;
}

static void grows(Subject small, Subject large, double time_limit, double memory_limit) {
  const Taken before = measure(small), after = measure(large);
  const double time = after.seconds / before.seconds, memory = (double)after.pages / (double)before.pages;
  printf("%s: %d layers on %d stages %.3f s, %ld pages, %d on %d %.3f s, %ld: %.1f and %.2f times\n", small.recipe,
         small.layers, small.stages, before.seconds, before.pages, large.layers, large.stages, after.seconds,
         after.pages, time, memory);
  if (time > time_limit || memory > memory_limit) {
    fail_msg("more than %.1f times the time, or %.2f times the pages", time_limit, memory_limit);
  }
}

static void layers_cost_what_they_are(void **state) {
  (void)state;
  const int most = effort_short() ? 320 : 640;
  grows((Subject){"llama_1b", NULL, most / TIMES, 0}, (Subject){"llama_1b", NULL, most, 0}, TIMES * 2.5, TIMES * 1.05);
}

static void stages_cost_little(void **state) {
  (void)state;
  grows((Subject){"llm_jp_172b", "ranks1024", 32, 4}, (Subject){"llm_jp_172b", "ranks1024", 32, 32}, 3, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(layers_cost_what_they_are), cmocka_unit_test(stages_cost_little)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
