// explain.c: a program under a layout in words; each section has a file of its own.
#include "compiler/report/explain.h"

#include <string.h>

#include "base/units.h"
#include "compiler/plan/waits.h"
#include "compiler/report/explain_part.h"

const char *explain_numbers(Arena *arena, const int64_t *numbers, int count) {
  const char *text = "";
  for (int i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count && numbers[end] == numbers[end - 1] + 1; end++) {
    }
    bool range = end > i + 1;
    text = arena_format(arena, range ? "%s%s%lld%s%lld" : "%s%s%lld", text, i ? ", " : "", (long long)numbers[i],
                        end == i + 2 ? ", " : "..", (long long)numbers[end - 1]);
  }
  return text;
}

const char *explain_mesh(Arena *arena, const Plan *plan, uint32_t mesh) {
  const char *text = "";
  for (int m = 0; m < plan->mesh_count; m++) {
    if (mesh >> m & 1) {
      text = arena_format(arena, "%s%s%s", text, *text ? ", " : "", plan->mesh[m].name);
    }
  }
  return text;
}

const char *explain_line(const Explain *explain, Span span) {
  int line, column;
  if (span.file < 0) {
    return "";
  }
  diag_position(explain->diag, span, &line, &column);
  return arena_format(explain->arena, "%s:%d", explain->diag->sources.at[span.file].path, line);
}

// Which training program runs which steps.
static void explain_phases(const Plan *plan, Buffer *out) {
  for (int i = 0; i < plan->phase_count; i++) {
    const PlanPhase *phase = &plan->phases[i];
    buffer_format(out, "%s%s from step %lld on (%s)", i ? ", " : "precision ", phase->precision,
                  (long long)phase->first, program_kind_name(plan_train_program(phase->policy, false)));
  }
  if (plan->phase_count > 0) {
    buffer_format(out, "; below, the training step is that of the first: `--precision %s` shows another\n",
                  plan->phases[1].precision);
  }
}

static void explain_header(const Explain *explain, Buffer *out) {
  const Plan *plan = explain_first(explain);
  const PlanRun *run = &plan->run;
  const char *words[] = {run->model, run->recipe, run->layout, run->precision, run->optimizer};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    words[i] = words[i] ? words[i] : "-";
  }
  buffer_format(out, "model %s, recipe %s, layout %s, precision %s, optimizer %s\n", words[0], words[1], words[2],
                words[3], words[4]);
  buffer_format(out, "batch %lld x %lld tokens, %lld steps\n", (long long)run->batch, (long long)run->sequence,
                (long long)run->steps);
  explain_phases(plan, out);
  if (run->skip_count > 0) {
    plan_skip_text(run, out);
    buffer_text(out, "\n");
  }
  if (plan->mesh_count == 0) {
    buffer_text(out, "mesh: one rank\n");
    return;
  }
  buffer_text(out, "mesh");
  for (int m = 0; m < plan->mesh_count; m++) {
    buffer_format(out, "%s %s %lld", m ? " x" : "", plan->mesh[m].name, (long long)plan->mesh[m].size);
  }
  buffer_format(out, ": %lld ranks", (long long)plan_ranks(plan));
  if (plan->mesh_count > 1) {
    buffer_format(out, "; rank = (%s), the last fastest", explain_mesh(explain->arena, plan, ~0u));
  }
  buffer_text(out, "\n");
}

// Arithmetic of all ranks together, and of the busiest one.
static void explain_programs(const Explain *explain, Buffer *out) {
  const Plan *plan = explain_first(explain);
  char number[UNITS_MAX], most_number[UNITS_MAX];
  Table table = table_make(explain->arena, "lrrrr");
  const char *const header[] = {"program", "all ranks", "busiest rank", "instructions", "microbatches"};
  for (int i = 0; i < 5; i++) {
    table_cell(&table, header[i]);
  }
  for (int p = 0; p < PROGRAM_COUNT; p++) {
    double flops = 0, most = 0;
    int64_t instructions = 0;
    for (int s = 0; s < explain->set->count; s++) {
      const Plan *stage = explain->set->plans[s];
      flops += stage->programs[p].flops;
      most = stage->programs[p].flops > most ? stage->programs[p].flops : most;
      instructions += plan_instructions(stage, (ProgramKind)p);
    }
    flops *= (double)plan_ranks(plan) / explain->set->count;
    if (plan->programs[p].call_count > 0) {
      table_cell(&table, program_kind_name((ProgramKind)p));
      table_format(&table, "%s FLOP", units_count(number, flops));
      table_format(&table, "%s FLOP", units_count(most_number, most));
      table_format(&table, "%lld", (long long)instructions);
      table_format(&table, "%d", plan->programs[p].slots);
    }
  }
  buffer_text(out, "\narithmetic of matrix products and attention\n");
  table_print(&table, 1, out);
}

// The queues of all stages, those of channels as one.
static void explain_queues(const Explain *explain, Buffer *out) {
  ARRAY(const char *) names = {0};
  for (int s = 0; s < explain->set->count; s++) {
    const Plan *plan = explain->set->plans[s];
    const PlanWaits *waits = plan_waits(explain->arena, plan);
    for (int q = 1; q < waits->queue_count; q++) {
      char name[QUEUE_NAME_MAX] = "messages sent on each channel";
      bool known = false;
      if (waits->first[q]->kind != INSTRUCTION_SEND) {
        plan_queue_name(plan, waits, q, name);
      }
      for (int i = 0; i < names.count; i++) {
        known |= strcmp(names.at[i], name) == 0;
      }
      if (!known) {
        array_push(explain->arena, &names, arena_format(explain->arena, "%s", name));
      }
    }
  }
  for (int i = 0; i < names.count; i++) {
    buffer_format(out, "%s%s", i ? ", " : "beside arithmetic: ", names.at[i]);
  }
  buffer_text(out, names.count > 0 ? "\n" : "");
}

void explain_print(const Explain *explain, Buffer *out) {
  explain_header(explain, out);
  explain_programs(explain, out);
  explain_queues(explain, out);
  explain_parameters(explain, out);
  explain_products(explain, out);
  explain_experts(explain, out);
  explain_quantised(explain, out);
  TrafficList traffic = traffic_collect(explain->arena, explain->set, explain->view);
  if (plan_ranks(explain_first(explain)) > 1) {
    explain_values(explain, out);
    explain_collectives(explain, &traffic, out);
    explain_totals(explain, &traffic, out);
    explain_compressed(explain, out);
    explain_overlap(explain, out);
    explain_splits(explain, out);
  }
  explain_pipeline(explain, out);
  explain_memory(explain, out);
}
