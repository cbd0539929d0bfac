// pass_manager_test.c: every pass has what it needs in every program, none runs without it, and each can be printed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka.h wants the four above first.
#include <cmocka.h>
#include <string.h>

#include "compiler/pass_manager.h"

enum { EACH = 1, TRAIN = 2, REFRESH = 4, ALL = EACH | REFRESH };
enum {
  NOTHING = 0,
#define FACT(NAME, what) NAME = 1 << FACT_NUMBER_##NAME,
#include "compiler/facts.def"
#undef FACT
};

static const struct {
  const char *name;
  int programs;
  uint32_t needs, gives;
} passes[] = {
#define PASS(name, function, programs, needs, gives, what) {#name, programs, needs, gives},
#define LOWERING(name, function, programs, needs, gives, what) {#name, programs, needs, gives},
#include "compiler/passes.def"
#undef PASS
#undef LOWERING
};
enum { PASS_COUNT = sizeof passes / sizeof *passes };

static const struct {
  const char *name, *what;
} facts[] = {
#define FACT(NAME, what) {#NAME, what},
#include "compiler/facts.def"
#undef FACT
};

static uint32_t facts_after(int programs, uint32_t known) {
  for (int i = 0; i < PASS_COUNT; i++) {
    if (passes[i].programs & programs) {
      if (passes[i].needs & ~known) {
        fail_msg("%s needs what no pass before it gives", passes[i].name);
      }
      known |= passes[i].gives;
    }
  }
  return known;
}

static void every_program_gives_what_it_needs(void **state) {
  (void)state;
  uint32_t needed = 0;
  const uint32_t step = facts_after(EACH | TRAIN, 0);
  facts_after(EACH, step & STATES);
  facts_after(REFRESH, step);
  for (int i = 0; i < PASS_COUNT; i++) {
    needed |= passes[i].needs;
  }
  for (int i = 0; i < FACT_COUNT; i++) {
    if (!(step >> i & 1)) {
      fail_msg("no pass gives %s", facts[i].name);
    }
    if (!(needed >> i & 1) && facts[i].what != facts[FACT_NUMBER_INSTRUCTIONS].what) {
      fail_msg("no pass needs %s", facts[i].name);
    }
  }
}

// The pass that gives a fact first.
static const char *giver(uint32_t fact) {
  for (int i = 0; i < PASS_COUNT; i++) {
    if (passes[i].gives & fact) {
      return passes[i].name;
    }
  }
  return "";
}

static void no_pass_runs_without_what_it_needs(void **state) {
  (void)state;
  int refused = 0;
  for (int i = 0; i < PASS_COUNT; i++) {
    for (int f = 0; f < FACT_COUNT; f++) {
      const uint32_t fact = 1u << f;
      if (!(passes[i].needs & fact)) {
        continue;
      }
      Arena *arena = arena_create();
      char text[512];
      Compilation c = {.arena = arena, .diag = diag_create(arena), .facts = ~fact};
      Lower l = {.c = &c};
      assert_false(passes_run_one(&c, &l, passes[i].name));
      snprintf(text, sizeof text, "the pass '%s' needs what '%s' gives, which has not run: %s", passes[i].name,
               giver(fact), facts[f].what);
      assert_int_equal(c.diag->errors, 1);
      assert_int_equal(c.diag->all.at[0].code, E099);
      assert_string_equal(c.diag->all.at[0].message, text);
      arena_destroy(arena);
      refused++;
    }
  }
  assert_true(refused > PASS_COUNT);
}

static size_t printed(const char *after, ProgramKind program, const char *layout) {
  Arena *arena = arena_create();
  Diag *diag = diag_create(arena);
  Buffer out = {0};
  CompileOptions options = {.file = MDL_SOURCE_DIR "/tests/layouts/llama.mdl",
                            .layout = layout,
                            .precision = "bf16",
                            .program = program,
                            .after = after};
  if (!compile_print(arena, diag, &options, &out)) {
    fail_msg("%s: %s", after, diag->all.count ? diag->all.at[0].message : "fails");
  }
  const size_t length = out.length;
  buffer_free(&out);
  arena_destroy(arena);
  return length;
}

static void each_pass_can_be_printed(void **state) {
  (void)state;
  const char *names[PASS_NAMES_MAX];
  const int count = passes_names(names);
  assert_int_equal(count, PASS_COUNT);
  for (int i = 0; i < count; i++) {
    const int programs = passes[i].programs;
    assert_true(!(programs & (EACH | TRAIN)) || printed(names[i], PROGRAM_TRAIN, "pp2") > 0);
    assert_true(!(programs & EACH) || printed(names[i], PROGRAM_EVALUATE, "tp2") > 0);
    assert_true(!(programs & REFRESH) || printed(names[i], PROGRAM_REFRESH, "dp2") > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_program_gives_what_it_needs),
      cmocka_unit_test(no_pass_runs_without_what_it_needs),
      cmocka_unit_test(each_pass_can_be_printed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
