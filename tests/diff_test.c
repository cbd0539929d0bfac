// diff_test.c: `mdl diff` names a difference when the plans of one side are made wrong, whatever in them.
//
// For layouts of all kinds: every third (with TESTS_SHORT=1 every fifteenth) collective of the second side is left out,
// one at a time, in the plans that are trained, in those with outputs of values, or in both; and programs that do not
// train are made wrong. With nothing made wrong there is no difference.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/file.h"
#include "runtime/diff.h"
#include "tests/effort.h"

typedef enum { WRONG_BOTH, WRONG_TRAINED, WRONG_WITH_VALUES } Where;

typedef struct {
  Where where;
  ProgramKind program;
  InstructionKind kind;
  int at;         // of those that could be made wrong in what is compiled
  int seen[2];    // so many are there, in the plans that are trained and with values
  char what[96];  // that was made wrong
  int64_t least;  // elements of a collective
} Spoil;

typedef struct {
  bool differ;
  char *said;
} Told;

static char file[] = "/tmp/diff_test_XXXXXX";

static void write_text(void) {
  static const char layouts[] =
      "\nlayout dp2 { mesh dp = 2; batch -> dp; }\n"
      "layout tp2 { mesh tp = 2; heads, ffn, vocab -> tp; }\n"
      "layout z2 { mesh dp = 2; batch -> dp; param, grad, state -> dp; microbatches = 2; }\n"
      "layout pp2 { mesh pp = 2, dp = 2; layers -> pp; batch -> dp; microbatches = 2; }\n";
  FileError error;
  size_t length = 0;
  char *text = file_read(MDL_SOURCE_DIR "/tests/cli/small.mdl", &length, &error);
  assert_non_null(text);
  const int handle = mkstemp(file);
  assert_true(handle >= 0);
  FILE *to = fdopen(handle, "w");
  assert_non_null(to);
  fputs(text, to);
  fputs(layouts, to);
  fclose(to);
  free(text);
}

// --- making plans wrong ---

static bool is_of(const PlanProgram *program, int segment) {
  for (int i = 0; i < program->call_count; i++) {
    if (program->calls[i].segment == segment) {
      return true;
    }
  }
  return false;
}

// A kernel with a constant, or a collective of more than one rank; not of indices, which must stay within their axis.
static KernelInstruction *constant_of(const Plan *plan, const Instruction *instruction) {
  const Kernel *kernel = instruction->kind == INSTRUCTION_KERNEL ? plan->kernels[instruction->as.kernel.kernel] : NULL;
  for (int i = 0; kernel && i < kernel->code_count; i++) {
    if (kernel->code[i].op == KERNEL_CONST) {
      return &kernel->code[i];
    }
  }
  return NULL;
}

static bool can_be_wrong(const Plan *plan, const Instruction *instruction, const Spoil *wrong) {
  const Collective *collective = &instruction->as.collective;
  return instruction->kind == wrong->kind &&
         (wrong->kind != INSTRUCTION_COLLECTIVE
              ? constant_of(plan, instruction) != NULL
              : collective->ranks > 1 && collective->count >= wrong->least && element_type_floating(collective->type));
}

// The constant is another, or each rank keeps its own.
static void make_wrong(const Plan *plan, Instruction *instruction) {
  if (instruction->kind == INSTRUCTION_KERNEL) {
    constant_of(plan, instruction)->number *= 1.25;
    return;
  }
  instruction->as.collective.kind = COLLECTIVE_ALL_REDUCE;  // of a group of one: a copy
  instruction->as.collective.mesh = 0;
  instruction->as.collective.ranks = 1;
}

static void spoil(void *context, int side, bool values, PlanSet *set) {
  Spoil *wrong = context;
  const bool meant = side == 1 && wrong->where != (values ? WRONG_TRAINED : WRONG_WITH_VALUES);
  for (int p = 0; p < set->count && meant; p++) {
    const Plan *plan = set->plans[p];
    for (int s = 0; s < plan->segment_count; s++) {
      for (int i = 0; i < plan->segments[s].count && is_of(&plan->programs[wrong->program], s); i++) {
        Instruction *instruction = &plan->segments[s].instructions[i];
        if (can_be_wrong(plan, instruction, wrong) && wrong->seen[values]++ == wrong->at) {
          snprintf(wrong->what, sizeof wrong->what, "%s", instruction->name ? instruction->name : "?");
          make_wrong(plan, instruction);
        }
      }
    }
  }
}

static Told tell(const char *layout, Spoil *wrong) {
  char word[64];
  snprintf(word, sizeof word, "layout=single,%s", layout);
  const char *const words[] = {file, word};
  Told told = {0};
  Error error = {0};
  size_t length = 0;
  FILE *out = open_memstream(&told.said, &length);
  const DiffOptions options = {.base = {.precision = "fp64"},
                               .words = words,
                               .word_count = 2,
                               .step = 2,
                               .steps = 1,
                               .data = MDL_SOURCE_DIR "/LICENSE",
                               .threads = 1,
                               .deadline_seconds = 60,
                               .out = out,
                               .spoil = wrong ? spoil : NULL,
                               .context = wrong};
  const bool done = diff_run(&options, &told.differ, &error);
  fclose(out);
  if (!done) {
    fail_msg("%s: %s", layout, error.text);
  }
  return told;
}

// Of what is made wrong, one in twenty may be told otherwise or not at all: where a parameter is gathered again right
// after the forward, it is still there.
static void expect(const char *layout, const Spoil *asked, int every, const char *mentioned) {
  int made = 0, missed = 0;
  every *= effort_short() ? 5 : 1;
  for (bool more = true; more; made += more) {
    Spoil wrong = *asked;
    wrong.at = made * every;
    Told told = tell(layout, &wrong);
    more = wrong.at < (wrong.seen[0] > wrong.seen[1] ? wrong.seen[0] : wrong.seen[1]);
    if (more && (!told.differ || !strstr(told.said, mentioned))) {
      printf("%s: '%s', number %d of %s, is wrong, and this is said:\n%s\n", layout, wrong.what, wrong.at,
             program_kind_name(wrong.program), told.said);
      missed++;
    }
    assert_true(more || !told.differ);
    free(told.said);
  }
  printf("  %s, %s: %d made wrong, %d missed\n", layout, program_kind_name(asked->program), made, missed);
  assert_true(made > 0 && missed * 20 <= made);
}

// --- the tests ---

static const char *const layouts[] = {"dp2", "tp2", "z2", "pp2"};
enum { LAYOUT_COUNT = sizeof layouts / sizeof *layouts };

static void test_nothing_is_wrong(void **state) {
  (void)state;
  for (int i = 0; i < LAYOUT_COUNT; i++) {
    Told told = tell(layouts[i], NULL);
    assert_false(told.differ);
    assert_non_null(strstr(told.said, "no difference beyond"));
    assert_non_null(strstr(told.said,
                           "compared: step 2 of the plan with outputs of all values and of the one that is trained, "
                           "the losses of a run of "));
    assert_non_null(strstr(told.said, "3 steps, evaluate, generate"));
    free(told.said);
  }
}

static void test_collectives(void **state) {
  (void)state;
  for (int i = 0; i < LAYOUT_COUNT; i++) {
    expect(layouts[i], &(Spoil){.where = WRONG_BOTH, .program = PROGRAM_TRAIN, .kind = INSTRUCTION_COLLECTIVE}, 3,
           " at step 2");
  }
}

static void test_trained_alone(void **state) {
  (void)state;
  expect("tp2", &(Spoil){.where = WRONG_TRAINED, .program = PROGRAM_TRAIN, .kind = INSTRUCTION_COLLECTIVE}, 2,
         " at step 2 of the plan that is trained, not of the one with outputs of all values");
}

static void test_values_alone(void **state) {
  (void)state;
  expect("tp2", &(Spoil){.where = WRONG_WITH_VALUES, .program = PROGRAM_TRAIN, .kind = INSTRUCTION_COLLECTIVE}, 4,
         "the plan that is trained, without outputs of values, gives the same loss, parameters and state");
}

// Each rank keeps its own gradient: a sum of many numbers.
static void test_ranks(void **state) {
  (void)state;
  expect("dp2", &(Spoil){.where = WRONG_TRAINED, .program = PROGRAM_TRAIN, .kind = INSTRUCTION_COLLECTIVE, .least = 2},
         1,
         "ranks of layout=dp2 do not agree at step 2 of the plan that is trained, not of the one with outputs of all "
         "values: ");
}

// The steps that are compared begin with the same state: only a run of its own has the other first values.
static void test_run(void **state) {
  (void)state;
  expect("dp2", &(Spoil){.where = WRONG_TRAINED, .program = PROGRAM_INITIALISE, .kind = INSTRUCTION_KERNEL}, 3,
         "differ in a run of 3 steps, first in\n  loss of step 1");
}

static void test_other_programs(void **state) {
  (void)state;
  expect("tp2", &(Spoil){.where = WRONG_TRAINED, .program = PROGRAM_EVALUATE, .kind = INSTRUCTION_COLLECTIVE}, 2,
         " in the program evaluate");
  expect("dp2", &(Spoil){.where = WRONG_WITH_VALUES, .program = PROGRAM_INITIALISE, .kind = INSTRUCTION_KERNEL}, 2,
         "first in\n  first ");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nothing_is_wrong), cmocka_unit_test(test_collectives), cmocka_unit_test(test_trained_alone),
      cmocka_unit_test(test_values_alone),     cmocka_unit_test(test_ranks),       cmocka_unit_test(test_run),
      cmocka_unit_test(test_other_programs)};
  write_text();
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(file);
  return failed;
}
