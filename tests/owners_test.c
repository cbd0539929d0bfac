// owners_test.c: plans in which a stage keeps an old or a wrong copy of a tensor are no plans.
//
// Of a few programs and layouts with tensors of several stages: the plans pass. Then, one at a time, what writes a copy
// is left out, or what is sent is read from beside where it is: each of these must be noticed.
#include "compiler/plan/verify.h"
#include "tests/layouts_run.h"

typedef struct {
  const char *file, *layout, *precision;
} Subject;

static const Subject subjects[] = {
    {"pipeline_shared.mdl", "f4", "fp32"},
    {"pipeline_shared.mdl", "d3", "bf16"},
    {"pipeline_shared.mdl", "d3ai", "fp32"},
    {"stage_states.mdl", "f3", "fp64"},
    {"stage_states.mdl", "i2", "bf16"},
    {"flows.mdl", "f4", "fp32"},
    {"towers.mdl", "t2", "fp32"},
    {"gpt2.mdl", "vocab2pp2", "bf16"},
};

typedef struct {
  LayoutRun *run;
  PlanSegment *segment;  // with which the training step of a stage ends
  const Plan *plan;
  int left_out, mistaken;
} Trial;

// Is this memory that of a tensor which another stage owns?
static bool is_copy(const Plan *plan, const Place *place) {
  const PlanState *nearest = NULL;
  for (int i = 0; place->arena == ARENA_PERSISTENT && i < plan->state_count; i++) {
    const PlanState *state = &plan->states[i];
    nearest = state->offset <= place->offset && (!nearest || state->offset > nearest->offset) ? state : nearest;
  }
  return nearest && !nearest->owner;
}

// The output of an instruction that is such a tensor, or NULL.
static const Place *copy_written(const Plan *plan, const Instruction *instruction) {
  if (instruction->kind == INSTRUCTION_RECEIVE) {
    const Place *place = &instruction->as.transfer.place;
    return is_copy(plan, place) ? place : NULL;
  }
  const Kernel *kernel = instruction->kind == INSTRUCTION_KERNEL ? plan->kernels[instruction->as.kernel.kernel] : NULL;
  for (int i = 0; kernel && i < kernel->port_count; i++) {
    const Place *place = &instruction->as.kernel.place[i];
    if (kernel->port[i].kind == PORT_OUTPUT && is_copy(plan, place)) {
      return place;
    }
  }
  return NULL;
}

static Place *port_at(const Plan *plan, Instruction *instruction, PortKind kind, const Place *place) {
  const Kernel *kernel = instruction->kind == INSTRUCTION_KERNEL ? plan->kernels[instruction->as.kernel.kernel] : NULL;
  for (int i = 0; kernel && i < kernel->port_count; i++) {
    Place *at = &instruction->as.kernel.place[i];
    bool same = !place || (at->arena == place->arena && at->offset == place->offset);
    if (kernel->port[i].kind == kind && same) {
      return at;
    }
  }
  return NULL;
}

// Does what a message brings become a copy, before its memory is used again?
static bool arrives(const Trial *t, int at) {
  const Place *place = &t->segment->instructions[at].as.transfer.place;
  if (copy_written(t->plan, &t->segment->instructions[at])) {
    return true;
  }
  for (int i = at + 1; i < t->segment->count; i++) {
    Instruction *next = &t->segment->instructions[i];
    if (port_at(t->plan, next, PORT_INPUT, place)) {
      return copy_written(t->plan, next);
    }
    if (next->kind == INSTRUCTION_RECEIVE || port_at(t->plan, next, PORT_OUTPUT, place)) {
      return false;
    }
  }
  return false;
}

static void must_fail(const Trial *t, const char *what, int at) {
  const char *why = plan_set_verify(t->run->arena, t->run->set);
  if (!why || (!strstr(why, "than its owner") && !strstr(why, "not made of what its owner"))) {
    layout_fail("stage %d, instruction %d %s: %s", t->plan->stage, at, what, why ? why : "nothing is said");
  }
}

static void leave_out(Trial *t, int at) {
  Instruction *all = t->segment->instructions, gone = all[at];
  const size_t behind = sizeof *all * (size_t)(t->segment->count - at - 1);
  memmove(all + at, all + at + 1, behind);
  t->segment->count--;
  must_fail(t, "is left out", at);
  memmove(all + at + 1, all + at, behind);
  all[at] = gone;
  t->segment->count++;
  t->left_out++;
}

static PlanSegment *last_segment(const Plan *plan) {
  const PlanProgram *train = &plan->programs[PROGRAM_TRAIN];
  return &plan->segments[train->calls[train->call_count - 1].segment];
}

// What is sent is read from beside where it is.
static void mistake(Trial *t, int at) {
  const Transfer *received = &t->segment->instructions[at].as.transfer;
  const Plan *plan = t->run->set->plans[received->peer];
  PlanSegment *segment = last_segment(plan);
  Place *source = NULL;
  for (int i = 0; i < segment->count; i++) {
    Instruction *send = &segment->instructions[i];
    bool sends = send->kind == INSTRUCTION_SEND && send->as.transfer.channel == received->channel;
    for (int j = i - 1; sends && j >= 0 && !source; j--) {
      if (port_at(plan, &segment->instructions[j], PORT_OUTPUT, &send->as.transfer.place)) {
        source = port_at(plan, &segment->instructions[j], PORT_INPUT, NULL);
      }
    }
  }
  int64_t bytes = received->count * element_type_bytes(received->type);
  if (source && source->arena == ARENA_PERSISTENT) {
    int64_t shift = source->offset >= bytes ? -bytes : bytes;
    source->offset += shift;
    must_fail(t, "brings another tensor", at);
    source->offset -= shift;
    t->mistaken++;
  }
}

static void test_subject(void **state) {
  const Subject *subject = *state;
  char file[512];
  snprintf(file, sizeof file, "%s/tests/layouts/%s", MDL_SOURCE_DIR, subject->file);
  CompileOptions options = {.layout = subject->layout, .precision = subject->precision};
  Trial t = {.run = layout_compile(file, &options, stdout)};
  assert_non_null(t.run);
  assert_null(plan_set_verify(t.run->arena, t.run->set));
  for (int s = 0; s < t.run->set->count; s++) {
    t.plan = t.run->set->plans[s];
    t.segment = last_segment(t.plan);
    for (int i = 0; i < t.segment->count; i++) {
      if (copy_written(t.plan, &t.segment->instructions[i]) && t.segment->instructions[i].kind == INSTRUCTION_KERNEL) {
        leave_out(&t, i);
      } else if (t.segment->instructions[i].kind == INSTRUCTION_RECEIVE && arrives(&t, i)) {
        mistake(&t, i);
      }
    }
  }
  printf("%s, layout %s in %s: %d left out, %d mistaken\n", subject->file, subject->layout, subject->precision,
         t.left_out, t.mistaken);
  assert_true(t.left_out > 0 && t.mistaken > 0);
  arena_destroy(t.run->arena);
}

int main(void) {
  enum { COUNT = sizeof subjects / sizeof *subjects };
  struct CMUnitTest tests[COUNT];
  for (int i = 0; i < COUNT; i++) {
    tests[i] = (struct CMUnitTest){subjects[i].layout, test_subject, NULL, NULL, (void *)(uintptr_t)&subjects[i]};
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
