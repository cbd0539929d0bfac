// mutants_test.c: the comparison of layouts with one rank notices when anything that ranks exchange is wrong.
//
// For a few programs and layouts of all kinds: each collective and each message of the plans is left out, made twice or
// scaled, one at a time, in a process of its own that then runs what layouts_test runs. Of all mutants 95% must fail.
//
// A collective that is left out keeps what its own rank has: to = from, its own block of from, or its own part for all.
// Of messages, one in each program and layout is sent twice. Doing a maximum, a gather or an exchange twice changes
// nothing, so these are not among the mutants. Those that live are listed. Besides being left
// out, a collective is made wrong in one other way, in turn; MUTANTS=all makes and lists all.
#include <stdio.h>
#include <sys/wait.h>

#include "base/file.h"
#include "tests/layouts_outcome.h"

static const double tolerance = 1e-9, enough = 0.95;
enum { SECONDS = 60, DEADLINE = 1, UNCHANGED_DEADLINE = 30 };

typedef enum { MUTANT_NONE, MUTANT_LEAVE_OUT, MUTANT_TWICE, MUTANT_TIMES, MUTANT_DIVIDED, MUTANT_COUNT } MutantKind;
static const char *const mutant_words[] = {"unchanged", "left out", "twice", "times its ranks", "divided by its ranks"};

typedef struct {
  const char *file, *layout;
} Subject;

static const Subject subjects[] = {
    {"llama.mdl", "tp2"},     {"llama.mdl", "d3"},    {"llama.mdl", "ulysses2"},  {"llama.mdl", "cp2z"},
    {"llama.mdl", "z3tp"},    {"llama.mdl", "z1pp"},  {"llama.mdl", "pp2dp2cp2"}, {"llama.mdl", "two"},
    {"llama.mdl", "ring2z"},  {"llama.mdl", "ring4"}, {"llama.mdl", "ringpp"},    {"gpt2.mdl", "vocab2pp2"},
    {"groups.mdl", "state4"}, {"experts.mdl", "ep"},
};

typedef struct {
  const char *what;
  LayoutRun *run;
  Outcome expected;
  Arena *arena;
  int made, caught, doubled;
} Trial;

typedef struct {  // what is wrong, and where
  MutantKind kind;
  int plan, segment, at;
} Mutant;

static int made_in_all, caught_in_all;

static Instruction *instruction_at(const Trial *trial, const Mutant *mutant) {
  return &trial->run->set->plans[mutant->plan]->segments[mutant->segment].instructions[mutant->at];
}

// --- changing a plan ---

// Makes room for `count` instructions behind one, and returns the first of them.
static Instruction *room_behind(const Trial *trial, const Mutant *mutant, int count) {
  PlanSegment *segment = &trial->run->set->plans[mutant->plan]->segments[mutant->segment];
  Instruction *all = ARENA_ARRAY(trial->arena, Instruction, segment->count + count);
  memcpy(all, segment->instructions, sizeof *all * (size_t)(mutant->at + 1));
  memcpy(all + mutant->at + 1 + count, segment->instructions + mutant->at + 1,
         sizeof *all * (size_t)(segment->count - mutant->at - 1));
  segment->instructions = all;
  segment->count += count;
  return all + mutant->at + 1;
}

// A copy on each rank: a collective of a group of one.
static Instruction copy_of(const Instruction *instruction, int64_t count) {
  Instruction copy = *instruction;
  copy.as.collective.kind = COLLECTIVE_ALL_REDUCE;
  copy.as.collective.mesh = 0;
  copy.as.collective.ranks = 1;
  copy.as.collective.count = count;
  return copy;
}

// Bytes that depend on the rank: `term`, and its number in the group of these mesh axes times `bytes`.
static int term_with(const Trial *trial, Plan *plan, int term, uint32_t mesh, int64_t bytes) {
  PlanTerm *terms = ARENA_ARRAY(trial->arena, PlanTerm, plan->term_count + 1);
  memcpy(terms, plan->terms, sizeof *terms * (size_t)plan->term_count);
  terms[plan->term_count] = terms[term];
  for (int i = plan->mesh_count - 1; i >= 0; i--) {
    if (mesh >> i & 1) {
      terms[plan->term_count].stride[i] += bytes;
      bytes *= plan->mesh[i].size;
    }
  }
  plan->terms = terms;
  return plan->term_count++;
}

static void leave_out_collective(const Trial *trial, const Mutant *mutant) {
  Plan *plan = trial->run->set->plans[mutant->plan];
  Instruction *instruction = instruction_at(trial, mutant), whole = *instruction;
  Collective *collective = &instruction->as.collective;
  int64_t bytes = collective->count * element_type_bytes(collective->type);
  switch (collective->kind) {
    case COLLECTIVE_ALL_REDUCE:
    case COLLECTIVE_ROTATE:
      *instruction = copy_of(&whole, collective->count);
      break;
    case COLLECTIVE_ALL_TO_ALL:
      *instruction = copy_of(&whole, collective->count * collective->ranks);
      break;
    case COLLECTIVE_REDUCE_SCATTER:
      *instruction = copy_of(&whole, collective->count);
      collective->from.term = term_with(trial, plan, collective->from.term, whole.as.collective.mesh, bytes);
      break;
    default: {
      int more = collective->ranks - 1;
      *instruction = copy_of(&whole, collective->count);
      Instruction *rest = room_behind(trial, mutant, more);
      for (int i = 0; i < more; i++) {
        rest[i] = copy_of(&whole, whole.as.collective.count);
        rest[i].as.collective.to.offset += (i + 1) * bytes;
      }
    }
  }
}

// The whole channel: its messages are neither sent nor received.
static void leave_out_channel(const Trial *trial, int channel) {
  for (int p = 0; p < trial->run->set->count; p++) {
    const Plan *plan = trial->run->set->plans[p];
    for (int s = 0; s < plan->segment_count; s++) {
      for (int i = 0; i < plan->segments[s].count; i++) {
        Instruction *instruction = &plan->segments[s].instructions[i];
        bool transfer = instruction->kind == INSTRUCTION_SEND || instruction->kind == INSTRUCTION_RECEIVE ||
                        instruction->kind == INSTRUCTION_SENT;
        if (transfer && instruction->as.transfer.channel == channel) {
          Place place = {.arena = ARENA_TRANSIENT};
          *instruction = (Instruction){.kind = INSTRUCTION_COLLECTIVE, .name = instruction->name};
          instruction->as.collective = (Collective){.type = TYPE_F64, .ranks = 1, .from = place, .to = place};
        }
      }
    }
  }
}

// result = result * factor, by a kernel of its own.
static void scale(const Trial *trial, const Mutant *mutant, double factor) {
  Plan *plan = trial->run->set->plans[mutant->plan];
  const Collective *collective = &instruction_at(trial, mutant)->as.collective;
  Kernel *kernel = ARENA_NEW(trial->arena, Kernel);
  kernel->dim_count = kernel->inner_count = 1;
  kernel->size[0] = collective->count;
  kernel->real = collective->type;
  kernel->port_count = 2;
  kernel->code_count = 4;
  kernel->port = ARENA_ARRAY(trial->arena, KernelPort, 2);
  kernel->port[0] = (KernelPort){.kind = PORT_INPUT, .type = collective->type, .stride = {1}};
  kernel->port[1] = (KernelPort){.kind = PORT_OUTPUT, .type = collective->type, .stride = {1}};
  kernel->code = ARENA_ARRAY(trial->arena, KernelInstruction, 4);
  kernel->code[0] = (KernelInstruction){.op = KERNEL_LOAD, .level = LEVEL_COLUMN, .a = -1, .b = -1, .c = -1, .port = 0};
  kernel->code[1] = (KernelInstruction){.op = KERNEL_CONST, .a = -1, .b = -1, .c = -1, .port = -1, .number = factor};
  kernel->code[2] = (KernelInstruction){.op = KERNEL_MUL, .level = LEVEL_COLUMN, .a = 0, .b = 1, .c = -1, .port = -1};
  kernel->code[3] = (KernelInstruction){.op = KERNEL_STORE, .level = LEVEL_COLUMN, .a = 2, .b = -1, .c = -1, .port = 1};
  Kernel **kernels = ARENA_ARRAY(trial->arena, Kernel *, plan->kernel_count + 1);
  memcpy(kernels, plan->kernels, sizeof *kernels * (size_t)plan->kernel_count);
  kernels[plan->kernel_count] = kernel;
  plan->kernels = kernels;
  Place *places = ARENA_ARRAY(trial->arena, Place, 2);
  places[0] = places[1] = collective->to;
  Instruction scaled = *instruction_at(trial, mutant);
  scaled.kind = INSTRUCTION_KERNEL;
  scaled.as.kernel = (KernelCall){.kernel = plan->kernel_count++, .place = places};
  *room_behind(trial, mutant, 1) = scaled;
}

static void mutate(const Trial *trial, const Mutant *mutant) {
  Instruction *instruction = instruction_at(trial, mutant);
  bool collective = instruction->kind == INSTRUCTION_COLLECTIVE;
  if (mutant->kind == MUTANT_LEAVE_OUT && collective) {
    leave_out_collective(trial, mutant);
  } else if (mutant->kind == MUTANT_LEAVE_OUT) {
    leave_out_channel(trial, instruction->as.transfer.channel);
  } else if (mutant->kind == MUTANT_TWICE && collective) {  // what came out goes in once more
    Instruction again = *instruction, back = copy_of(instruction, instruction->as.collective.count);
    back.as.collective.from = again.as.collective.to;
    back.as.collective.to = again.as.collective.from;
    Instruction *behind = room_behind(trial, mutant, 2);
    behind[0] = back;
    behind[1] = again;
  } else if (mutant->kind == MUTANT_TWICE) {
    Instruction again = *instruction;
    *room_behind(trial, mutant, 1) = again;
  } else if (mutant->kind != MUTANT_NONE) {
    double ranks = instruction->as.collective.ranks;
    scale(trial, mutant, mutant->kind == MUTANT_TIMES ? ranks : 1 / ranks);
  }
}

static bool is_rotation(const Instruction *instruction) {
  return instruction->kind == INSTRUCTION_COLLECTIVE && instruction->as.collective.kind == COLLECTIVE_ROTATE;
}

// Whether this makes a mutant that computes something else.
static bool applies(const Instruction *instruction, MutantKind kind) {
  if (instruction->kind == INSTRUCTION_SEND) {
    return kind == MUTANT_LEAVE_OUT || kind == MUTANT_TWICE;
  }
  if (instruction->kind != INSTRUCTION_COLLECTIVE || instruction->as.collective.ranks == 1) {
    return false;
  }
  const Collective *collective = &instruction->as.collective;
  bool sum = collective->reduce == REDUCE_SUM && collective->type == TYPE_F64;
  bool reduces = collective->kind == COLLECTIVE_ALL_REDUCE || collective->kind == COLLECTIVE_REDUCE_SCATTER;
  return kind == MUTANT_LEAVE_OUT || (kind == MUTANT_TWICE && is_rotation(instruction)) ||
         (kind == MUTANT_TWICE && sum && collective->kind == COLLECTIVE_ALL_REDUCE) ||
         (kind > MUTANT_TWICE && sum && reduces);
}

// --- running it ---

static void say(const Trial *trial, const Mutant *mutant, const char *said) {
  const Instruction *instruction = instruction_at(trial, mutant);
  bool collective = instruction->kind == INSTRUCTION_COLLECTIVE;
  const Plan *plan = trial->run->set->plans[mutant->plan];
  printf("  %s: %s, segment %s, instruction %d: %s '%s' (%s)%s: %s\n", said, trial->what,
         plan->segments[mutant->segment].name, mutant->at,
         collective ? collective_kind_name(instruction->as.collective.kind) : instruction_kind_name(instruction->kind),
         instruction->name ? instruction->name : "?", instruction->why ? instruction->why : "",
         collective && instruction->as.collective.reduce != REDUCE_SUM ? " of max or min" : "",
         mutant_words[mutant->kind]);
}

static int child(Trial *trial, const Mutant *mutant) {
  const char *want = getenv("MUTANTS");
  char said[512];
  Outcome found = {0};
  if (!want || strcmp(want, "all") != 0) {
    if (!freopen("/dev/null", "w", stdout)) {
      return 3;
    }
  }
  mutate(trial, mutant);
  double deadline = mutant->kind == MUTANT_NONE ? UNCHANGED_DEADLINE : DEADLINE;
  outcome_run(trial->run, trial->what, deadline, trial->arena, &found);
  bool same = outcome_same(&trial->expected, &found, tolerance, false, said, sizeof said);
  if (!same) {
    printf("  %s\n", said);
  }
  return same ? 0 : 1;
}

// Whether the comparison fails.
static bool caught(Trial *trial, const Mutant *mutant) {
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    layout_child = true;
    alarm(SECONDS);
    int status = child(trial, mutant);
    fflush(NULL);
    _exit(status);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void try_instruction(Trial *trial, int plan, int segment, int at) {
  const char *want = getenv("MUTANTS");
  for (MutantKind kind = MUTANT_LEAVE_OUT; kind < MUTANT_COUNT; kind++) {
    Mutant mutant = {kind, plan, segment, at};
    if (!applies(instruction_at(trial, &mutant), kind)) {
      continue;
    }
    bool all = want && strcmp(want, "all") == 0, message = instruction_at(trial, &mutant)->kind == INSTRUCTION_SEND;
    bool turn = kind == (MutantKind)(MUTANT_TWICE + at % 3) || is_rotation(instruction_at(trial, &mutant));
    if (!all && !message && kind != MUTANT_LEAVE_OUT && !turn) {
      continue;
    }
    if (kind == MUTANT_TWICE && message && trial->doubled++ > 0) {
      continue;  // one is enough: the ranks wait for each other until the deadline
    }
    bool dead = caught(trial, &mutant);
    trial->made++;
    trial->caught += dead;
    if (!dead || all) {
      say(trial, &mutant, dead ? "caught" : "LIVES");
    }
  }
}

static LayoutRun *compile(const char *file, const char *layout) {
  static const char *const sizes[] = {"layers=2"};  // enough to see them all
  CompileOptions options = {.layout = layout, .precision = "fp64", .gradients = true};
  options.set = sizes;
  options.set_count = strstr(file, "experts") ? 0 : 1;
  LayoutRun *run = layout_compile(file, &options, stdout);
  if (!run) {
    fail_msg("%s, layout %s does not compile", file, layout);
  }
  return run;
}

static void test_subject(void **state) {
  const Subject *subject = *state;
  Trial trial = {.arena = arena_create()};
  const char *file = arena_format(trial.arena, "%s/tests/layouts/%s", MDL_SOURCE_DIR, subject->file);
  trial.what = arena_format(trial.arena, "%s, layout %s", subject->file, subject->layout);
  Outcome alone = {0};
  char said[512];
  outcome_run(compile(file, "single"), file, 30, trial.arena, &alone);
  outcome_run(compile(file, subject->layout), file, 30, trial.arena, &trial.expected);
  trial.run = compile(file, subject->layout);
  if (!outcome_same(&alone, &trial.expected, tolerance, true, said, sizeof said) ||
      caught(&trial, &(Mutant){.kind = MUTANT_NONE})) {
    fail_msg("%s is wrong without any change: %s", trial.what, said);
  }
  for (int p = 0; p < trial.run->set->count; p++) {
    for (int s = 0; s < trial.run->set->plans[p]->segment_count; s++) {
      for (int i = 0; i < trial.run->set->plans[p]->segments[s].count; i++) {
        try_instruction(&trial, p, s, i);
      }
    }
  }
  printf("%s: %d of %d mutants caught\n", trial.what, trial.caught, trial.made);
  made_in_all += trial.made;
  caught_in_all += trial.caught;
  arena_destroy(trial.run->arena);
  arena_destroy(trial.arena);
}

static void test_enough(void **state) {
  (void)state;
  printf("%d of %d mutants caught: %.1f%%\n", caught_in_all, made_in_all,
         100.0 * caught_in_all / (made_in_all ? made_in_all : 1));
  assert_true(made_in_all > 0 && caught_in_all >= enough * made_in_all);
}

int main(void) {
  enum { SUBJECTS = sizeof subjects / sizeof *subjects };
  static struct CMUnitTest tests[SUBJECTS + 1];
  static char names[SUBJECTS][64];
  for (int i = 0; i < SUBJECTS; i++) {
    snprintf(names[i], sizeof names[i], "%s %s", subjects[i].file, subjects[i].layout);
    tests[i] = (struct CMUnitTest){names[i], test_subject, NULL, NULL, (void *)(uintptr_t)&subjects[i]};
  }
  tests[SUBJECTS] = (struct CMUnitTest){"enough", test_enough, NULL, NULL, NULL};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
