// stages_test.c: stages that are cut out of one graph are those that are compiled each from the text.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <string.h>

#include "compiler/compile.h"
#include "compiler/pass/compilation.h"
#include "compiler/plan/artefact.h"

#define EXAMPLES MDL_SOURCE_DIR "/examples/layouts.mdl"
#define LAYOUTS MDL_SOURCE_DIR "/tests/layouts/"

static int watched;

static void count(void *context, Compilation *c, const char *pass) {
  (void)context;
  (void)c;
  watched += strcmp(pass, "elaborate") == 0;
}

// With a watch all passes run for each stage.
static const PlanSet *compile(Arena *arena, CompileOptions options, bool shared) {
  static PassWatch watch = {count, NULL};
  PlanSet *set;
  options.watch = shared ? NULL : &watch;
  watched = 0;
  if (!compile_plans(arena, diag_create(arena), &options, &set)) {
    fail_msg("%s under %s does not compile", options.file, options.layout);
  }
  assert_true(shared || watched >= set->count);
  return set;
}

static Buffer bytes_of(const Plan *plan) {
  Buffer out = {0};
  Arena *arena = arena_create();
  assert_true(artefact_write_stage(arena, plan, &out));
  arena_destroy(arena);
  return out;
}

static bool alike(const Plan *a, const Plan *b) {
  Buffer x = bytes_of(a), y = bytes_of(b);
  const bool equal = x.length == y.length && memcmp(x.text, y.text, x.length) == 0;
  buffer_free(&x);
  buffer_free(&y);
  return equal;
}

static void one_graph_gives_the_stages(void **state) {
  (void)state;
  static const CompileOptions cases[] = {
      {.file = EXAMPLES, .layout = "gpipe", .precision = "bf16"},
      {.file = EXAMPLES, .layout = "interleaved"},
      {.file = EXAMPLES, .layout = "zero_bubble", .precision = "fp8_hybrid"},
      {.file = EXAMPLES, .layout = "pp4_both", .precision = "bf16"},
      {.file = EXAMPLES, .layout = "d3"},
      {.file = LAYOUTS "gpt2.mdl", .layout = "vocab2pp2"},
      {.file = LAYOUTS "gpt2.mdl", .layout = "z1pp2"},
      {.file = LAYOUTS "gpt2.mdl", .layout = "uneven3"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Arena *arena = arena_create();
    const PlanSet *shared = compile(arena, cases[i], true), *apart = compile(arena, cases[i], false);
    assert_int_equal(shared->count, apart->count);
    assert_true(shared->count > 1);
    for (int s = 0; s < shared->count; s++) {
      if (!alike(shared->plans[s], apart->plans[s])) {
        fail_msg("%s under %s: stage %d is another one", cases[i].file, cases[i].layout, s);
      }
    }
    assert_false(alike(shared->plans[0], shared->plans[1]));  // control
    arena_destroy(arena);
  }
}

// Wherever memory ends, in what is made once or in a stage, it is an error with words.
static void too_little_memory_is_said(void **state) {
  (void)state;
  size_t megabytes = 1;
  for (bool good = false; !good; megabytes++) {
    Arena *arena = arena_create();
    Diag *diag = diag_create(arena);
    PlanSet *set;
    const CompileOptions options = {.file = EXAMPLES, .layout = "pp4", .memory = megabytes << 20};
    good = compile_plans(arena, diag, &options, &set);
    assert_int_equal(diag->errors, good ? 0 : 1);
    assert_true(good || strcmp(diag->all.at[0].message, "compiling takes too much memory") == 0);
    arena_destroy(arena);
  }
  assert_in_range(megabytes, 4, 200);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_graph_gives_the_stages),
                                     cmocka_unit_test(too_little_memory_is_said)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
