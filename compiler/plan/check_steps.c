// check_steps.c: the training programs of a plan, of which a session runs the one that the step asks for.
#include <string.h>

#include "compiler/plan/check.h"

#include "compiler/plan/numbers.h"

// But for the number of the step, which no data feeds: in whatever order.
static bool has_inputs(const PlanProgram *program, const PlanProgram *other) {
  for (int i = 0; i < program->input_count; i++) {
    const PlanInput *a = &program->inputs[i];
    bool same = input_is_number(a->name);
    for (int j = 0; !same && j < other->input_count; j++) {
      const PlanInput *b = &other->inputs[j];
      same = strcmp(a->name, b->name) == 0 && a->type == b->type && a->axis_count == b->axis_count &&
             memcmp(a->size, b->size, sizeof *a->size * (size_t)a->axis_count) == 0 &&
             places_same(&a->place, &b->place);
    }
    if (!same) {
      return false;
    }
  }
  return true;
}

static bool same_inputs(const PlanProgram *train, const PlanProgram *other) {
  return has_inputs(train, other) && has_inputs(other, train);
}

// What feeds a training step, and reads what it gives, need not know which of its programs is run.
static bool step_holds(PlanCheck *v, ProgramKind kind) {
  const PlanProgram *train = &v->plan->programs[PROGRAM_TRAIN], *other = &v->plan->programs[kind];
  v->what = program_kind_name(kind);
  bool same = other->slots == train->slots && same_inputs(train, other) && other->output_count == train->output_count;
  for (int i = 0; same && i < train->output_count; i++) {
    const PlanOutput *a = &other->outputs[i], *b = &train->outputs[i];
    same = strcmp(a->name, b->name) == 0 && a->type == b->type && a->axis_count == b->axis_count &&
           memcmp(a->size, b->size, sizeof *a->size * (size_t)a->axis_count) == 0 &&
           memcmp(a->stride, b->stride, sizeof *a->stride * (size_t)a->axis_count) == 0 &&
           places_same(&a->place, &b->place);
  }
  return same || other->call_count == 0 || check_fail(v, "has other inputs, outputs or slots than train");
}

static bool programs_hold(PlanCheck *v) {
  bool good = true;
  for (int policy = 0; good && policy < PLAN_MAX_POLICIES; policy++) {
    good = step_holds(v, plan_train_program(policy, false)) && step_holds(v, plan_train_program(policy, true));
  }
  return good;
}

// The first begins with step 1, each later one behind the one before, and all have a program.
static bool phases_hold(PlanCheck *v) {
  const Plan *plan = v->plan;
  v->what = "phases";
  if (plan->phase_count < 0 || plan->phase_count > PLAN_MAX_PHASES) {
    return check_fail(v, "are too many");
  }
  for (int i = 0; i < plan->phase_count; i++) {
    const PlanPhase *phase = &plan->phases[i];
    if (i == 0 ? phase->first != 1 || phase->policy != 0 : phase->first <= phase[-1].first) {
      return check_fail(v, "do not follow each other from step 1 on");
    }
    if (phase->policy < 0 || phase->policy >= PLAN_MAX_POLICIES ||
        plan->programs[plan_train_program(phase->policy, false)].call_count == 0) {
      return check_fail(v, "need a training program that is not there");
    }
  }
  return true;
}

bool check_steps(PlanCheck *v) {
  return programs_hold(v) && phases_hold(v);
}
