// explain.c: tables of a plan's memory, programs and parameters.
#include "compiler/explain.h"

#include <string.h>

#include "base/units.h"

static int64_t elements_of(const PlanState *state) {
  int64_t count = 1;
  for (int i = 0; i < state->axis_count; i++) {
    count *= state->size[i];
  }
  return count;
}

static void explain_memory(const Plan *plan, Buffer *out) {
  static const struct {
    const char *name, *meaning;
  } arenas[ARENA_CLASS_COUNT] = {
      {"persistent", "parameters, optimizer and model state"},
      {"transient", "values of one step"},
      {"communication", "buffers of collectives"},
      {"host", "inputs and outputs of a step"},
  };
  char number[UNITS_MAX];
  int64_t total = 0;
  buffer_text(out, "\nmemory of one rank\n");
  for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
    total += plan->arena_bytes[i];
    if (plan->arena_bytes[i] > 0) {
      buffer_format(out, "  %-14s %12s  %s\n", arenas[i].name, units_bytes(number, (double)plan->arena_bytes[i]),
                    arenas[i].meaning);
    }
  }
  buffer_format(out, "  %-14s %12s\n", "total", units_bytes(number, (double)total));
}

static void explain_programs(const Plan *plan, Buffer *out) {
  char number[UNITS_MAX];
  buffer_text(out, "\nprogram        arithmetic  instructions  microbatches\n");
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    const PlanProgram *program = &plan->programs[p];
    int64_t instructions = plan_instructions(plan, (ProgramKind)p);
    if (program->call_count > 0) {
      buffer_format(out, "  %-12s %7s FLOP  %12lld  %12d\n", program_kind_name((ProgramKind)p),
                    units_count(number, program->flops), (long long)instructions, program->slots);
    }
  }
}

static void explain_parameters(const Plan *plan, Buffer *out) {
  char number[UNITS_MAX];
  int width = 9;
  int64_t count = 0;
  for (int i = 0; i < plan->state_count; i++) {
    if (plan->states[i].role == STATE_PARAMETER) {
      int length = (int)strlen(plan->states[i].name);
      width = length > width ? length : width;
      count += elements_of(&plan->states[i]);
    }
  }
  buffer_format(out, "\n%s parameters (%lld)\n", units_count(number, (double)count), (long long)count);
  for (int i = 0; i < plan->state_count; i++) {
    const PlanState *state = &plan->states[i];
    if (state->role == STATE_PARAMETER) {
      double bytes = (double)(elements_of(state) * element_type_bytes(state->type));
      buffer_format(out, "  %-*s  %-5s %12s  [", width, state->name, element_type_name(state->type),
                    units_bytes(number, bytes));
      for (int a = 0; a < state->axis_count; a++) {
        buffer_format(out, "%s%s %lld", a ? ", " : "", state->axis[a], (long long)state->size[a]);
      }
      buffer_text(out, "]\n");
    }
  }
}

void explain_plan(const Plan *plan, Buffer *out) {
  const PlanRun *run = &plan->run;
  const char *words[] = {run->model, run->recipe, run->layout, run->precision, run->optimizer};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    words[i] = words[i] ? words[i] : "-";
  }
  buffer_format(out, "model %s, recipe %s, layout %s, precision %s, optimizer %s\n", words[0], words[1], words[2],
                words[3], words[4]);
  buffer_format(out, "batch %lld x %lld tokens, %lld steps\n", (long long)run->batch, (long long)run->sequence,
                (long long)run->steps);
  explain_memory(plan, out);
  explain_programs(plan, out);
  explain_parameters(plan, out);
}
