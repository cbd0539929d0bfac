// plan.c: names and look-ups of plans.
#include "compiler/plan.h"

#include <string.h>

int plan_find_state(const Plan *plan, const char *name) {
  for (int i = 0; i < plan->state_count; i++) {
    if (strcmp(plan->states[i].name, name) == 0) {
      return i;
    }
  }
  return -1;
}

int64_t plan_instructions(const Plan *plan, ProgramKind kind) {
  const PlanProgram *program = &plan->programs[kind];
  int64_t instructions = 0;
  for (int i = 0; i < program->call_count; i++) {
    instructions += plan->segments[program->calls[i].segment].count;
  }
  return instructions;
}

const char *program_kind_name(ProgramKind kind) {
  static const char *const names[] = {"initialise", "train", "evaluate", "generate"};
  return (unsigned)kind < PROGRAM_COUNT ? names[kind] : "?";
}

const char *instruction_kind_name(InstructionKind kind) {
  static const char *const names[] = {"kernel", "gemm", "take", "put", "window", "fold", "attention", "attention_grad"};
  return (unsigned)kind < INSTRUCTION_KIND_COUNT ? names[kind] : "?";
}
