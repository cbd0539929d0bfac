// mutants_test.c: the comparison of layouts with one rank notices when anything is wrong that the compiler made.
//
// For programs and layouts of all kinds: what mutants.def lists is made wrong in graphs and plans, one place at a time,
// in a process of its own that then runs what layouts_test runs. Of all mutants 97% must fail, and 90% of each kind.
// What the compiler's own verifiers refuse needs no comparison and does not count. Those that live are listed. What can
// change no result says why, and must live.
//
// A sample of each kind is made; MUTANTS=all makes all. MUTANTS_SEED draws another sample, MUTANTS_EACH says of how
// many of each kind; MUTANTS_KIND=MASK, MUTANTS_FILE=rules.mdl and LAYOUT=seq_pad make those alone, MUTANTS_SAY=1 lists
// all.
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/effort.h"
#include "tests/layouts_outcome.h"
#include "tests/mutants.h"

static const double tolerance = 1e-9, enough = 0.97, enough_of_kind = 0.9;
enum { SECONDS = 60, DEADLINE = 20, DEADLINE_OF_MESSAGES = 1, EACH = 32, FEW = 8 };

typedef enum { LIVES, DIFFERS, REFUSED, UNCHANGED, CRASHED } Fate;

typedef struct {
  const char *file, *layout, *set;
  bool plain;  // without outputs of the gradients, whose readers are then the updates alone
} Subject;

static const Subject subjects[] = {
    {"llama.mdl", "tp2", "layers=2", false},
    {"llama.mdl", "d3", "layers=2", false},
    {"llama.mdl", "ulysses2", "layers=2", false},
    {"llama.mdl", "cp2z", "layers=2", false},
    {"llama.mdl", "z3tp", "layers=2", false},
    {"llama.mdl", "z1pp", "layers=2", false},
    {"llama.mdl", "pp2dp2cp2", "layers=2", false},
    {"llama.mdl", "two", "layers=2", false},
    {"llama.mdl", "ring2z", "layers=2", false},
    {"llama.mdl", "ring4", "layers=2", false},
    {"llama.mdl", "ringpp", "layers=2", false},
    {"llama.mdl", "zz", "layers=2", false},
    {"llama.mdl", "one4", "layers=2", false},
    {"gpt2.mdl", "vocab2pp2", "layers=2", false},
    {"gpt2.mdl", "places2", "layers=2", false},
    {"gpt2.mdl", "hsdp", "layers=2", false},
    {"gpt2.mdl", "state_all", "layers=2", false},
    {"gpt2.mdl", "nest_other", "layers=2", false},
    {"groups.mdl", "state4", "layers=2", false},
    {"groups.mdl", "mixed", NULL, false},
    {"experts.mdl", "ep", NULL, false},
    {"rules.mdl", "vocab_pad", NULL, false},
    {"rules.mdl", "all_pad", NULL, false},
    {"rules.mdl", "seq_pad", NULL, false},
    {"rules.mdl", "pad_pp", NULL, false},
    {"rules.mdl", "pad_z3", NULL, false},
    {"rules.mdl", "batch_turned", NULL, false},
    {"rules.mdl", "ulysses_z", NULL, false},
    {"rules.mdl", "pp2i_uneven", NULL, false},
    {"pads.mdl", "both", NULL, false},
    {"pads.mdl", "later", NULL, false},
    {"pads.mdl", "minor", NULL, false},
    {"alibi.mdl", "ringz", NULL, false},
    {"alibi.mdl", "ringpad3", NULL, false},
    {"alibi.mdl", "zb", NULL, false},
    {"attention.mdl", "ringpad3", NULL, false},
    {"cross.mdl", "slots", NULL, false},
    {"moves.mdl", "zig4", "layers=2", false},
    {"moves.mdl", "all8", "layers=2", false},
    {"mask.mdl", "both", "layers=2", false},
    {"memory.mdl", "embed8", NULL, false},
    {"biases.mdl", "stored4tp", NULL, false},
    {"biases.mdl", "columns4", NULL, true},
    {"biases.mdl", "columns4", "layers=4", true},
    {"gpt2.mdl", "hsdp", NULL, true},
    {"gpt2.mdl", "state_all", NULL, true},
    {"rules.mdl", "pp_last", NULL, true},
    {"merged.mdl", "rows2", NULL, true},
    {"tied.mdl", "pp2", NULL, false},
    {"tied.mdl", "pp4", NULL, false},
    {"tied.mdl", "pp2i", NULL, false},
    {"tied.mdl", "pp2z3", NULL, false},
    {"tied.mdl", "pp2z1", NULL, true},
    {"tied.mdl", "tp2", NULL, false},
    {"low.mdl", "words2", NULL, false},
    {"low.mdl", "keys4", NULL, false},
    {"low.mdl", "nested", NULL, false},
    {"experts.mdl", "ep_dp", NULL, false},
    {"experts.mdl", "ep_padded", NULL, false},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

typedef struct {  // a mutant of a subject
  Mutant mutant;
  int subject;
  double drawn;
  int turn;  // in its subject and kind, in the order drawn
  bool chosen;
} Candidate;

typedef struct {
  int found, chosen, refused, equivalent, wrong, caught;  // wrong: said to be equivalent, and are not
} Count;

static Arena *arena;
static ARRAY(Candidate) candidates;
static Count counts[MUTANT_COUNT];
static int *compiled;  // shared with children: the mutant's graph became a plan

static const char *const kind_names[] = {
#define MUTANT(NAME, what) #NAME,
#include "tests/mutants.def"
#undef MUTANT
};

static const char *const kind_words[] = {
#define MUTANT(NAME, what) what,
#include "tests/mutants.def"
#undef MUTANT
};

static bool flag(const char *name) {
  const char *value = getenv(name);
  return value && *value && strcmp(value, "0") != 0;
}

static bool asked_for(const char *variable, const char *name) {
  const char *value = getenv(variable);
  return !value || !*value || strcmp(value, name) == 0;
}

static int64_t number_of(const char *name, int64_t otherwise) {
  const char *value = getenv(name);
  return value && *value ? atoll(value) : otherwise;
}

static LayoutRun *compile(const Subject *subject, const char *layout, const PassWatch *watch, FILE *said) {
  const char *file = arena_format(arena, "%s/tests/layouts/%s", MDL_SOURCE_DIR, subject->file);
  CompileOptions options = {.layout = layout, .precision = "fp64", .gradients = !subject->plain, .poison = true};
  options.watch = (PassWatch *)watch;
  options.set = &subject->set;
  options.set_count = subject->set ? 1 : 0;
  return layout_compile(file, &options, said);
}

static LayoutRun *compile_unchanged(const Subject *subject, const char *layout, const PassWatch *watch) {
  LayoutRun *run = compile(subject, layout, watch, stdout);
  if (!run) {
    fail_msg("%s, layout %s does not compile", subject->file, layout);
  }
  return run;
}

// --- which mutants ---

// A program that a model cannot have under a layout is left out of its plans.
static bool is_there(const LayoutRun *run, const Mutant *mutant) {
  return !mutant->graph || run->set->plans[0]->programs[mutant->program].call_count > 0;
}

static void find_mutants(int number) {
  const Subject *subject = &subjects[number];
  MutantList found = {0};
  GraphMutation mutation = {.arena = arena, .found = &found};
  PassWatch watch = {graph_mutate, &mutation};
  if (!asked_for("MUTANTS_FILE", subject->file) || !asked_for("LAYOUT", subject->layout)) {
    return;
  }
  LayoutRun *run = compile_unchanged(subject, subject->layout, &watch);
  plan_mutants(arena, run->set, &found);
  for (int i = 0; i < found.count; i++) {
    const Mutant *mutant = &found.at[i];
    const char *key = arena_format(arena, "%s %s %d %s", subject->file, subject->layout, mutant->kind, mutant->what);
    Candidate candidate = {.mutant = *mutant, .subject = number};
    candidate.drawn = drawn(key, i, (uint64_t)number_of("MUTANTS_SEED", 1));
    if (asked_for("MUTANTS_KIND", kind_names[mutant->kind]) && is_there(run, mutant)) {
      array_push(arena, &candidates, candidate);
      counts[mutant->kind].found++;
    }
  }
  arena_destroy(run->arena);
}

static int by_number(double a, double b) {
  return (a > b) - (a < b);
}

static int by_draw(const void *a, const void *b) {
  const Candidate *x = a, *y = b;
  int kind = by_number(x->mutant.kind, y->mutant.kind), subject = by_number(x->subject, y->subject);
  return kind ? kind : subject ? subject : by_number(x->drawn, y->drawn);
}

static int by_turn(const void *a, const void *b) {
  const Candidate *x = a, *y = b;
  int kind = by_number(x->mutant.kind, y->mutant.kind), turn = by_number(x->turn, y->turn);
  return kind ? kind : turn ? turn : by_number(x->drawn, y->drawn);
}

static int by_subject(const void *a, const void *b) {
  return by_number(((const Candidate *)a)->subject, ((const Candidate *)b)->subject);
}

// So many of each kind, in turn from all subjects that have some.
static void choose(void) {
  int64_t each = flag("MUTANTS") ? candidates.count
                                 : number_of("MUTANTS_EACH", effort_long()    ? 4 * EACH
                                                             : effort_short() ? EACH / 4
                                                                              : EACH);
  size_t count = (size_t)candidates.count;
  if (!count) {
    fail_msg("there are no mutants");
  }
  qsort(candidates.at, count, sizeof *candidates.at, by_draw);
  for (int i = 1; i < candidates.count; i++) {
    Candidate *at = &candidates.at[i], *before = at - 1;
    bool same = at->subject == before->subject && at->mutant.kind == before->mutant.kind;
    at->turn = same ? before->turn + 1 : 0;
  }
  qsort(candidates.at, count, sizeof *candidates.at, by_turn);
  for (int i = 0; i < candidates.count; i++) {
    Count *of_kind = &counts[candidates.at[i].mutant.kind];
    candidates.at[i].chosen = of_kind->chosen < each;
    of_kind->chosen += candidates.at[i].chosen;
  }
  qsort(candidates.at, count, sizeof *candidates.at, by_subject);
}

static void test_list(void **state) {
  (void)state;
  arena = arena_create();
  compiled = mmap(NULL, sizeof *compiled, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(compiled != MAP_FAILED);
  for (int i = 0; i < SUBJECTS; i++) {
    find_mutants(i);
  }
  choose();
}

// --- one of them ---

typedef struct {
  const Subject *subject;
  const char *what;
  LayoutRun *run;
  Outcome expected;
} Trial;

static Fate child(Trial *trial, const Mutant *mutant) {
  char said[512];
  Outcome found = {0};
  LayoutRun *run = trial->run;
  if (mutant && mutant->graph) {
    GraphMutation mutation = {.wanted = mutant};
    PassWatch watch = {graph_mutate, &mutation};
    run = compile(trial->subject, trial->subject->layout, &watch, stdout);
    if (!mutation.done) {
      return UNCHANGED;
    }
    if (!run) {
      return REFUSED;
    }
  } else if (mutant) {
    plan_mutate(arena, run->set, mutant);
  }
  *compiled = 1;
  bool message = mutant && (mutant->kind == MUTANT_LEFT_OUT || mutant->kind == MUTANT_TWICE);
  outcome_run(run, trial->what, message ? DEADLINE_OF_MESSAGES : DEADLINE, arena, &found);
  bool same = outcome_same(&trial->expected, &found, tolerance, false, said, sizeof said);
  if (!same) {
    printf("    %s\n", said);
  }
  return same ? LIVES : DIFFERS;
}

static Fate fate_of(Trial *trial, const Mutant *mutant) {
  *compiled = 0;
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    layout_child = true;
    alarm(SECONDS);
    if (!flag("MUTANTS_SAY") && !freopen("/dev/null", "w", stdout)) {
      _exit(CRASHED);
    }
    int fate = (int)child(trial, mutant);
    fflush(NULL);
    _exit(fate);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? (Fate)WEXITSTATUS(status) : *compiled ? CRASHED : REFUSED;
}

static void try_mutant(Trial *trial, const Mutant *mutant) {
  static const char *const words[] = {"LIVES", "caught", "refused", "NOT MADE", "caught by a crash"};
  Count *count = &counts[mutant->kind];
  Fate fate = fate_of(trial, mutant);
  bool caught = fate == DIFFERS || fate == CRASHED;
  count->refused += fate == REFUSED && !mutant->equivalent;
  count->equivalent += mutant->equivalent != NULL;
  count->wrong += mutant->equivalent && caught;
  count->caught += caught && !mutant->equivalent;
  if (fate == LIVES || fate == UNCHANGED || (mutant->equivalent && caught) || flag("MUTANTS_SAY")) {
    printf("  %s: %s %s, %s%s%s\n", words[fate], kind_names[mutant->kind], trial->what, mutant->what,
           mutant->equivalent ? "; equivalent, as " : "", mutant->equivalent ? mutant->equivalent : "");
  }
  assert_int_not_equal(fate, UNCHANGED);
}

static void test_subject(void **state) {
  const Subject *subject = *state;
  int number = (int)(subject - subjects), first = 0, chosen = 0;
  Trial trial = {.subject = subject};
  for (int i = 0; i < candidates.count; i++) {
    chosen += candidates.at[i].subject == number && candidates.at[i].chosen;
    first += candidates.at[i].subject < number;
  }
  if (!chosen) {
    return;
  }
  trial.what = arena_format(arena, "%s, layout %s", subject->file, subject->layout);
  Outcome alone = {0};
  char said[512] = "the same plan gives something else";
  outcome_run(compile_unchanged(subject, "single", NULL), subject->file, DEADLINE, arena, &alone);
  outcome_run(compile_unchanged(subject, subject->layout, NULL), trial.what, DEADLINE, arena, &trial.expected);
  trial.run = compile_unchanged(subject, subject->layout, NULL);
  if (!outcome_same(&alone, &trial.expected, tolerance, true, said, sizeof said) || fate_of(&trial, NULL) != LIVES) {
    fail_msg("%s is wrong without any change: %s", trial.what, said);
  }
  for (int i = first; i < candidates.count && candidates.at[i].subject == number; i++) {
    if (candidates.at[i].chosen) {
      try_mutant(&trial, &candidates.at[i].mutant);
    }
  }
  arena_destroy(trial.run->arena);
}

// --- what came out ---

static int counted(const Count *count) {
  return count->chosen - count->refused - count->equivalent;
}

static void say(const char *name, const Count *count) {
  int of = counted(count);
  printf("%-14s %7d %6d %8d %11d %7d %7d %6.1f%%", name, count->found, count->chosen, count->refused, count->equivalent,
         count->caught, of - count->caught, of ? 100.0 * count->caught / of : 100.0);
}

static void test_enough(void **state) {
  (void)state;
  Count all = {0};
  bool good = true;
  if (effort_short()) {
    skip();  // few of each were made, for what sanitizers see
  }
  printf("%-14s %7s %6s %8s %11s %7s %7s\n", "kind", "places", "made", "refused", "equivalent", "caught", "missed");
  for (int kind = 0; kind < MUTANT_COUNT; kind++) {
    const Count *count = &counts[kind];
    bool wanted = asked_for("MUTANTS_KIND", kind_names[kind]) && !flag("MUTANTS_FILE") && !flag("LAYOUT");
    bool few = wanted && count->chosen - count->equivalent < FEW;
    bool missed = count->caught < enough_of_kind * counted(count) || count->wrong;
    say(kind_names[kind], count);
    printf("  %s%s%s\n", kind_words[kind], few ? "; TOO FEW" : "", missed ? "; NOT ENOUGH" : "");
    good = good && !few && !missed;
    all.found += count->found;
    all.chosen += count->chosen;
    all.refused += count->refused;
    all.equivalent += count->equivalent;
    all.caught += count->caught;
  }
  say("all", &all);
  printf("\n");
  assert_true(good && all.caught >= enough * counted(&all));
}

int main(void) {
  static struct CMUnitTest tests[SUBJECTS + 2];
  static char names[SUBJECTS][64];
  tests[0] = (struct CMUnitTest){"list", test_list, NULL, NULL, NULL};
  for (int i = 0; i < SUBJECTS; i++) {
    snprintf(names[i], sizeof names[i], "%s %s", subjects[i].file, subjects[i].layout);
    tests[i + 1] = (struct CMUnitTest){names[i], test_subject, NULL, NULL, (void *)(uintptr_t)&subjects[i]};
  }
  tests[SUBJECTS + 1] = (struct CMUnitTest){"enough", test_enough, NULL, NULL, NULL};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
