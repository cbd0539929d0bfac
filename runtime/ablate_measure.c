// ablate_measure.c: what plans say about a combination before it runs, and what its losses say afterwards.
#include <math.h>
#include <string.h>

#include "compiler/pass/schedule.h"
#include "compiler/plan/exposure.h"
#include "runtime/ablate.h"
#include "runtime/session.h"

static double segment_wire(const PlanSegment *segment) {
  double bytes = 0;
  for (int i = 0; i < segment->count; i++) {
    bytes += instruction_sends(&segment->instructions[i]);
  }
  return bytes;
}

static double segment_flops(const PlanSegment *segment) {
  double flops = 0;
  for (int i = 0; i < segment->count; i++) {
    flops += segment->instructions[i].flops;
  }
  return flops;
}

static bool action_of(const PlanSegment *segment, ActionKind *kind) {
  *kind = segment->kind == SEGMENT_FORWARD    ? ACTION_FORWARD
          : segment->kind == SEGMENT_BACKWARD ? ACTION_BACKWARD
                                              : ACTION_WEIGHTS;
  return segment->kind == SEGMENT_FORWARD || segment->kind == SEGMENT_BACKWARD || segment->kind == SEGMENT_WEIGHTS;
}

// The schedule as the plans have it: the calls of their segments.
static Schedule *schedule_read(Arena *arena, const PlanSet *set, double **cost) {
  Schedule *schedule = ARENA_NEW(arena, Schedule);
  *schedule = (Schedule){.kind = SCHEDULE_ONE_F_ONE_B, .stages = set->count, .chunks = 1};
  schedule->action = ARENA_ARRAY(arena, ActionList, set->count);
  for (int stage = 0; stage < set->count; stage++) {
    const Plan *plan = set->plans[stage];
    for (int i = 0; i < plan->segment_count; i++) {
      const PlanSegment *segment = &plan->segments[i];
      schedule->chunks = segment->chunk >= schedule->chunks ? segment->chunk + 1 : schedule->chunks;
    }
  }
  schedule->kind = schedule->chunks > 1 ? SCHEDULE_INTERLEAVED : schedule->kind;
  for (int kind = 0; kind < ACTION_KIND_COUNT; kind++) {
    cost[kind] = ARENA_ARRAY(arena, double, set->count * schedule->chunks);
  }
  for (int stage = 0; stage < set->count; stage++) {
    const Plan *plan = set->plans[stage];
    const PlanProgram *train = &plan->programs[PROGRAM_TRAIN];
    ActionList *list = &schedule->action[stage];
    list->at = ARENA_ARRAY(arena, Action, train->call_count + 1);
    schedule->microbatches = train->slots;
    for (int i = 0; i < train->call_count; i++) {
      const PlanSegment *segment = &plan->segments[train->calls[i].segment];
      ActionKind kind;
      if (action_of(segment, &kind)) {
        list->at[list->count++] = (Action){kind, segment->chunk, train->calls[i].slot};
        cost[kind][segment->chunk * set->count + stage] = segment_flops(segment);
        schedule->weights |= kind == ACTION_WEIGHTS;
      }
    }
  }
  return schedule;
}

static double predicted_bubble(Arena *arena, const PlanSet *set) {
  double *cost[ACTION_KIND_COUNT];
  if (set->count < 2) {
    return NAN;
  }
  const Schedule *schedule = schedule_read(arena, set, cost);
  if (schedule_check(arena, schedule)) {
    return NAN;
  }
  const ScheduleCosts costs = {cost[ACTION_FORWARD], cost[ACTION_BACKWARD], cost[ACTION_WEIGHTS], 0};
  return schedule_simulate(arena, schedule, &costs).bubble;
}

void ablate_measure(Arena *arena, const PlanSet *set, AblateRow *row) {
  row->ranks = plan_ranks(set->plans[0]);
  row->real = set->plans[0]->real;
  row->unit = set->plans[0]->run.loss_unit;
  row->coarsest = set->plans[0]->coarsest;
  row->stages = set->count;
  row->microbatches = set->plans[0]->programs[PROGRAM_TRAIN].slots;
  row->bubble = predicted_bubble(arena, set);
  row->parameters = session_parameters(set);
  for (int64_t rank = 0; rank < row->ranks; rank++) {
    row->flops += plan_of_rank(set, rank)->programs[PROGRAM_TRAIN].flops;
  }
  for (int stage = 0; stage < set->count; stage++) {
    const Plan *plan = set->plans[stage];
    const PlanProgram *train = &plan->programs[PROGRAM_TRAIN];
    double wire = 0, memory = 0;
    for (int i = 0; i < train->call_count; i++) {
      wire += segment_wire(&plan->segments[train->calls[i].segment]);
    }
    for (int i = 0; i < ARENA_CLASS_COUNT; i++) {
      memory += i == ARENA_OFFLOAD ? 0 : (double)plan->arena_bytes[i];
    }
    for (int i = 0; i < train->output_count; i++) {
      row->bounded |= strncmp(train->outputs[i].name, "dropped.", 8) == 0;
    }
    row->wire = fmax(row->wire, wire);
    row->memory = fmax(row->memory, memory);
  }
}

// --- losses ---

AblateLosses ablate_losses(const Ablate *ablate) {
  bool has[LOSS_UNIT_COUNT] = {false};
  for (int i = 0; i < ablate->count; i++) {
    const AblateRow *row = &ablate->rows[i];
    has[row->unit] |= row->steps > 0;
  }
  const int kinds = (has[LOSS_NATS] || has[LOSS_MORE]) + has[LOSS_SUM] + has[LOSS_PLAIN];
  return kinds > 1 ? LOSSES_BOTH : has[LOSS_SUM] ? LOSSES_SUMS : has[LOSS_PLAIN] ? LOSSES_PLAIN : LOSSES_MEANS;
}

// Do both rows compute the same, whatever the layout and the precision? With a capacity the layout says what is
// computed.
static bool same_computation(const Choices *choices, const AblateRow *a, const AblateRow *b) {
  const bool bounded = a->bounded || b->bounded;
  for (int i = 0; i < choices->count; i++) {
    const Choice *choice = &choices->at[i];
    if ((bounded || !choice_is_layout(choice)) && strcmp(choice->name, "precision") != 0 && a->pick[i] != b->pick[i]) {
      return false;
    }
  }
  return true;
}

static int find_against(const Ablate *ablate, int at, bool *judged) {
  int first = -1;
  for (int i = 0; i < at; i++) {
    if (ablate->rows[i].steps == 0) {
      continue;
    }
    first = first < 0 ? i : first;
    if (same_computation(&ablate->choices, &ablate->rows[i], &ablate->rows[at])) {
      *judged = true;
      return i;
    }
  }
  *judged = false;
  return first;
}

static double relative(double a, double b) {
  if (a == b || (isnan(a) && isnan(b))) {
    return 0;
  }
  return isfinite(a) && isfinite(b) ? fabs(a - b) / fmax(fabs(b), 1e-30) : INFINITY;
}

static bool coarse(ElementType type) {
  return type != TYPE_F64 && type != TYPE_F32;
}

static void set_tolerance(const Ablate *ablate, AblateRow *row, const AblateRow *base) {
  const double given = ablate->options->tolerance;
  row->precisions = coarse(row->coarsest) || coarse(base->coarsest) ? PRECISIONS_COARSE
                    : row->real != base->real                       ? PRECISIONS_REALS
                                                                    : PRECISIONS_SAME;
  if (given > 0) {
    row->first_tolerance = given / 10;
    row->tolerance = given;
  } else if (row->precisions == PRECISIONS_COARSE) {
    row->first_tolerance = 1e-2;
    row->tolerance = 5e-2;
  } else {
    row->first_tolerance = 1e-5;
    row->tolerance = row->precisions == PRECISIONS_SAME ? 1e-4 : 1e-3;
  }
}

// The mean of losses up to a step, over the last sixteenth of them: two runs that differ by rounding come apart in
// single steps, and stay together on average.
typedef struct {
  const double *loss;
  int64_t first, end;
  double sum;
} Running;

static double running_mean(Running *mean, int64_t end) {
  while (mean->end < end) {
    mean->sum += mean->loss[mean->end++];
  }
  while (mean->first < ablate_mean_begin(end)) {
    mean->sum -= mean->loss[mean->first++];
  }
  const int64_t count = mean->end - mean->first;
  return count == 1 ? mean->loss[mean->first] : mean->sum / (double)count;
}

static void compare_row(Ablate *ablate, AblateRow *row, bool judged) {
  const AblateRow *base = &ablate->rows[row->against];
  const int64_t steps = row->steps < base->steps ? row->steps : base->steps;
  Running mine = {.loss = row->loss}, other = {.loss = base->loss};
  bool differs = false;
  double worst = -1;
  set_tolerance(ablate, row, base);
  for (int64_t i = 0; i < steps; i++) {
    const double a = running_mean(&mine, i + 1), b = running_mean(&other, i + 1), error = relative(a, b);
    const double allowed = i == 0 ? row->first_tolerance : row->tolerance;
    differs |= !(error <= allowed);
    row->last = relative(row->loss[i], base->loss[i]);
    row->most = fmax(row->most, error);
    if (error / allowed > worst) {  // the step that is worst as it is judged
      worst = error / allowed;
      row->most_step = i + 1;
      row->most_loss = a;
      row->most_other = b;
    }
  }
  row->verdict = !judged ? VERDICT_SHOWN : differs ? VERDICT_DIFFERS : VERDICT_SAME;
}

void ablate_compare(Ablate *ablate) {
  for (int i = 0; i < ablate->count; i++) {
    AblateRow *row = &ablate->rows[i];
    bool judged = false;
    row->against = -1;
    row->verdict = VERDICT_NONE;
    row->last = row->most = 0;
    if (row->steps > 0) {
      row->against = find_against(ablate, i, &judged);
    }
    if (row->against >= 0) {
      compare_row(ablate, row, judged);
      if (row->state == ROW_FAILED && row->verdict == VERDICT_SAME) {  // as far as it went
        row->verdict = VERDICT_NONE;
      }
    }
  }
}
