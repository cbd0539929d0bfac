// explain_memory.c: the memory of one rank of each stage, by what it is for.
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "compiler/lower/largest.h"
#include "compiler/report/explain_part.h"

static double bytes_of(const Plan *plan, StateRole role) {
  double sum = 0;
  for (int i = 0; i < plan->state_count; i++) {
    const PlanState *state = &plan->states[i];
    double bytes = (double)element_type_bytes(state->type);
    for (int a = 0; a < state->axis_count; a++) {
      bytes *= (double)(state->cut[a].count ? state->cut[a].local : state->size[a]);
    }
    sum += state->role == role ? bytes / (double)plan_parts(plan, state->flat_mesh, state->flat_count) : 0;
  }
  return sum;
}

Need explain_need(const Explain *explain, int s) {
  const Plan *plan = explain->set->plans[s];
  const ViewStage *view = &explain->view->stages.at[s];
  Need need = {.stage = s, .peak = ""};
  need.part[NEED_PARAMETERS] = bytes_of(plan, STATE_PARAMETER);
  need.part[NEED_COPIES] = bytes_of(plan, STATE_COPY);
  need.part[NEED_STATE] =
      (double)plan->arena_bytes[ARENA_PERSISTENT] - need.part[NEED_PARAMETERS] - need.part[NEED_COPIES];
  need.part[NEED_GRADIENTS] = (double)view->gradients;
  need.part[NEED_FLYING] = (double)view->flying;
  need.part[NEED_SHARED] = (double)view->shared;
  need.part[NEED_HOST] = (double)plan->arena_bytes[ARENA_HOST];
  int64_t most = -1;
  for (int i = 0; i < view->segment_count; i++) {
    if (view->segments[i].peak > most) {
      most = view->segments[i].peak;
      need.peak = view->segments[i].name;
    }
  }
  need.part[NEED_WORKING] = (double)plan->programs[PROGRAM_TRAIN].transient_bytes - need.part[NEED_GRADIENTS] -
                            need.part[NEED_FLYING] - need.part[NEED_SHARED];
  for (int i = 0; i < NEED_OFFLOAD; i++) {
    need.total += need.part[i];
  }
  need.part[NEED_OFFLOAD] = (double)plan->arena_bytes[ARENA_OFFLOAD];
  return need;
}

static bool alike(const Need *a, const Need *b) {
  bool same = strcmp(a->peak, b->peak) == 0;
  for (size_t i = 0; i < sizeof a->part / sizeof *a->part; i++) {
    same = same && a->part[i] == b->part[i];
  }
  return same;
}

static int larger_first(const void *a, const void *b) {
  const Need *x = a, *y = b;
  return x->total != y->total ? (x->total < y->total) - (x->total > y->total)
                              : (x->stage > y->stage) - (x->stage < y->stage);
}

static void print_need(const Explain *explain, const Need *needs, int count, bool copies, Table *table) {
  int64_t *stages = ARENA_ARRAY(explain->arena, int64_t, count);
  for (int i = 0; i < count; i++) {
    stages[i] = needs[i].stage;
  }
  table_cell(table, explain->set->count > 1 ? explain_numbers(explain->arena, stages, count) : "");
  for (int i = 0; i < NEED_OFFLOAD; i++) {
    if (i != NEED_COPIES || copies) {
      table_bytes(table, needs->part[i]);
    }
    if (i == NEED_WORKING) {
      table_cell(table, explain->view->stages.at[0].segment_count > 1 ? needs->peak : "");
    }
  }
  table_bytes(table, needs->total);
  if (needs->part[NEED_OFFLOAD] > 0) {
    table_bytes(table, needs->part[NEED_OFFLOAD]);
  } else {
    table_cell(table, "");
  }
}

static void print_stays(const Explain *explain, int64_t stage, Buffer *out) {
  static const char *const why[OFFLOAD_MOVED] = {
      [OFFLOAD_NONE] = "no operation of the backward reads",
      [OFFLOAD_SMALL] = "is too small to be worth the copies",
      [OFFLOAD_SOON] = "is read again before it could have left and come back",
      [OFFLOAD_FIXED] = "lies in memory that other parts of the step use",
  };
  const ViewStage *view = &explain->view->stages.at[stage];
  for (int i = 0; i < OFFLOAD_MOVED; i++) {
    if (view->stays[i].count > 0) {
      buffer_format(out, "  selected, but stays on the device, since it %s\n    ", why[i]);
      largest_list(explain->set->plans[stage], view->stays[i].values, view->stays[i].count, "\n    ", out);
      buffer_text(out, "\n");
    }
  }
}

void explain_memory(const Explain *explain, Buffer *out) {
  int count = explain->set->count;
  const Plan *plan = explain_first(explain);
  Need *needs = ARENA_ARRAY(explain->arena, Need, count);
  double all = 0, other = 0;
  bool copies = false;
  for (int s = 0; s < count; s++) {
    needs[s] = explain_need(explain, s);
    copies |= needs[s].part[NEED_COPIES] > 0;
    all += needs[s].total * (double)plan_ranks(plan) / count;
    double step = (double)explain->set->plans[s]->programs[PROGRAM_TRAIN].transient_bytes;
    double rest = (double)explain->set->plans[s]->arena_bytes[ARENA_TRANSIENT] - step;
    other = rest > other ? rest : other;
  }
  qsort(needs, (size_t)count, sizeof *needs, larger_first);
  Table table = table_make(explain->arena, copies ? "lrrrrrrrlrrr" : "lrrrrrrlrrr");
  const char *const header[] = {"stage",  "parameters", "state", "copies", "gradients", "saved",
                                "shared", "at work",    "in",    "host",   "together",  "offloaded"};
  for (size_t i = 0; i < sizeof header / sizeof *header; i++) {
    if (i != 1 + NEED_COPIES || copies) {
      table_cell(&table, header[i]);
    }
  }
  for (int i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count && !explain->full && alike(&needs[i], &needs[end]); end++) {
    }
    print_need(explain, &needs[i], end - i, copies, &table);
  }
  char number[UNITS_MAX];
  buffer_format(out, "\nmemory of a rank in the training step%s\n", count > 1 ? ", the largest first" : "");
  table_print(&table, 1, out);
  if (plan->programs[PROGRAM_TRAIN].value_count > 0) {
    const Plan *fullest = explain->set->plans[needs[0].stage];
    buffer_format(out, "  the largest values of a step%s\n    ", count > 1 ? ", in the first of these" : "");
    largest_print(fullest, PROGRAM_TRAIN, "\n    ", out);
    buffer_text(out, "\n");
  }
  if (explain->set->plans[needs[0].stage]->arena_bytes[ARENA_OFFLOAD] > 0) {
    buffer_text(out, "  what a microbatch offloads\n    ");
    largest_offloaded(explain->arena, explain->set->plans[needs[0].stage], "\n    ", out);
    buffer_text(out, "\n");
  }
  print_stays(explain, needs[0].stage, out);
  if (plan_ranks(plan) > 1) {
    buffer_format(out, "  all %lld ranks together: %s\n", (long long)plan_ranks(plan), units_bytes(number, all));
  }
  if (other > 0) {
    buffer_format(
        out, "  %s needs %s more\n",
        plan->phase_count > 0 ? "evaluating, generating or training in another precision" : "evaluating or generating",
        units_bytes(number, other));
  }
}
