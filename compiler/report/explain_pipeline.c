// explain_pipeline.c: the schedule of a pipeline, its bubble by the formula and with the costs of its stages.
#include <string.h>

#include "base/units.h"
#include "compiler/pass/schedule.h"
#include "compiler/report/explain_part.h"
#include "compiler/report/memory_chart.h"
#include "compiler/report/schedule_chart.h"

typedef struct {
  Schedule *schedule;
  ScheduleTimes times;
  double *cost[ACTION_KIND_COUNT];  // FLOP of one microbatch, by virtual stage
  double *saved;                    // bytes of one microbatch, by virtual stage
} Timing;

static const Pipeline *pipeline_of(const Explain *explain) {
  return explain_first(explain)->pipeline >= 0 && explain->set->count > 1 ? &explain->view->spec->pipeline : NULL;
}

static double flops_of(const Plan *plan, SegmentKind kind, int chunk) {
  const PlanProgram *train = &plan->programs[PROGRAM_TRAIN];
  double flops = 0;
  int last = -1;  // calls of a segment that was met are not counted again
  for (int c = 0; c < train->call_count && last < 0; c++) {
    const PlanSegment *segment = &plan->segments[train->calls[c].segment];
    if (segment->kind == kind && segment->chunk == chunk) {
      last = train->calls[c].segment;
      for (int i = 0; i < segment->count; i++) {
        flops += segment->instructions[i].flops;
      }
    }
  }
  return flops;
}

static Timing timing_of(const Explain *explain) {
  static const SegmentKind kinds[] = {SEGMENT_FORWARD, SEGMENT_BACKWARD, SEGMENT_WEIGHTS};
  const Pipeline *pipeline = pipeline_of(explain);
  int stages = explain->set->count, chunks = pipeline->chunks;
  Timing timing = {.saved = ARENA_ARRAY(explain->arena, double, stages *chunks)};
  for (int k = 0; k < ACTION_KIND_COUNT; k++) {
    timing.cost[k] = ARENA_ARRAY(explain->arena, double, stages *chunks);
    for (int v = 0; v < stages * chunks; v++) {
      timing.cost[k][v] = flops_of(explain->set->plans[v % stages], kinds[k], v / stages);
    }
  }
  for (int v = 0; v < stages * chunks; v++) {
    const ViewStage *stage = &explain->view->stages.at[v % stages];
    const int chunk = v / stages;
    timing.saved[v] = (double)stage->saved[chunk];
  }
  int slots = explain->view->spec->microbatches;
  timing.schedule = schedule_make(explain->arena, pipeline->schedule, stages, chunks, slots, NULL);
  ScheduleCosts costs = {timing.cost[ACTION_FORWARD], timing.cost[ACTION_BACKWARD], timing.cost[ACTION_WEIGHTS], 0};
  timing.times = schedule_simulate(explain->arena, timing.schedule, &costs);
  return timing;
}

static void explain_stages(const Explain *explain, const Timing *timing, Buffer *out) {
  const Pipeline *pipeline = pipeline_of(explain);
  int stages = explain->set->count;
  char forward[UNITS_MAX], backward[UNITS_MAX], bytes[UNITS_MAX];
  Table table = table_make(explain->arena, "rrlrrrrr");
  const char *const header[] = {"stage",    "chunk",   pipeline->axis, "forward",
                                "backward", "weights", "saved",        "in flight"};
  for (int i = 0; i < 8; i++) {
    table_cell(&table, header[i]);
  }
  for (int v = 0, first = 0; v < stages * pipeline->chunks; v++) {
    int iterations = v < pipeline->part_count ? pipeline->parts[v] : 0;
    table_format(&table, "%d", v % stages);
    table_cell(&table, pipeline->chunks > 1 ? arena_format(explain->arena, "%d", v / stages) : "");
    table_format(&table, iterations > 1 ? "%d..%d" : iterations ? "%d" : "-", first, first + iterations - 1);
    table_format(&table, "%s FLOP", units_count(forward, timing->cost[ACTION_FORWARD][v]));
    table_format(&table, "%s FLOP", units_count(backward, timing->cost[ACTION_BACKWARD][v]));
    bool weights = timing->schedule->weights;
    table_cell(
        &table,
        weights ? arena_format(explain->arena, "%s FLOP", units_count(backward, timing->cost[ACTION_WEIGHTS][v])) : "");
    table_format(&table, "%s", units_bytes(bytes, timing->saved[v]));
    table_format(&table, "x %d", explain->view->stages.at[v % stages].lanes[v / stages]);
    first += iterations;
  }
  table_print(&table, 1, out);
}

void explain_pipeline(const Explain *explain, Buffer *out) {
  const Pipeline *pipeline = pipeline_of(explain);
  if (!pipeline) {
    return;
  }
  Timing timing = timing_of(explain);
  const Schedule *schedule = timing.schedule;
  buffer_format(out, "\npipeline over %s: %s, %d stages",
                explain_first(explain)->mesh[explain_first(explain)->pipeline].name, schedule_name(schedule->kind),
                schedule->stages);
  if (schedule->chunks > 1) {
    buffer_format(out, " of %d chunks", schedule->chunks);
  }
  buffer_format(out, ", %d microbatches; times as arithmetic says, of one microbatch\n", schedule->microbatches);
  explain_stages(explain, &timing, out);
  double known = (double)(schedule->stages - 1) / schedule->chunks / schedule->microbatches;
  double ideal = 0;
  for (int s = 0; s < schedule->stages; s++) {
    ideal = timing.times.busy[s] > ideal ? timing.times.busy[s] : ideal;
  }
  buffer_format(out, "  bubble, of the time spent working: (p - 1) / (v m) = %d / (%d x %d) = %.2f%%",
                schedule->stages - 1, schedule->chunks, schedule->microbatches, 100 * known);
  if (schedule->weights) {
    buffer_text(out, " if the backward were not cut in two");
  }
  buffer_format(out, ";\n  simulated %.2f%%: %.2f%% waits for the busiest stage, %.2f%% for uneven ones\n",
                100 * (timing.times.makespan / timing.times.ideal - 1),
                100 * (timing.times.makespan - ideal) / timing.times.ideal, 100 * (ideal / timing.times.ideal - 1));
}

// Times as numbers between 1 and 1000, in the unit that is returned.
static const char *scale_times(const Explain *explain, Timing *timing) {
  static const char *const units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"};
  int unit = 0, count = timing->schedule->stages * timing->schedule->chunks;
  double scale = 1;
  while (timing->times.makespan * scale >= 2000 && unit < 6) {
    scale /= 1000;
    unit++;
  }
  for (int k = 0; k < ACTION_KIND_COUNT; k++) {
    for (int v = 0; v < count; v++) {
      timing->cost[k][v] *= scale;
    }
  }
  ScheduleCosts costs = {timing->cost[ACTION_FORWARD], timing->cost[ACTION_BACKWARD], timing->cost[ACTION_WEIGHTS], 0};
  timing->times = schedule_simulate(explain->arena, timing->schedule, &costs);
  return units[unit];
}

// The calls of a training step without a pipeline.
static void draw_memory(const Explain *explain, Buffer *out) {
  Arena *arena = explain->arena;
  const Plan *plan = explain_first(explain);
  const PlanProgram *train = &plan->programs[PROGRAM_TRAIN];
  const ViewStage *stage = &explain->view->stages.at[0];
  MemoryCall *calls = ARENA_ARRAY(arena, MemoryCall, train->call_count + 1);
  int count = 0;
  for (int c = 0; c < train->call_count; c++) {
    const int at = train->calls[c].segment - stage->first_segment;
    if (at >= 0 && at < stage->segment_count) {
      const ViewSegment *segment = &stage->segments[at];
      bool several = train->slots > 1 && at + 1 < stage->segment_count;
      const char *name = several ? arena_format(arena, "%s %d", segment->name, train->calls[c].slot) : segment->name;
      calls[count++] = (MemoryCall){name, segment->instructions, segment->alive};
    }
  }
  MemoryChart chart = {
      .title = arena_format(arena, "%s: memory of a rank in a training step", plan->run.model),
      .subtitle = arena_format(arena, "layout %s, recipe %s, %lld rank%s", plan->run.layout ? plan->run.layout : "-",
                               plan->run.recipe ? plan->run.recipe : "-", (long long)plan_ranks(plan),
                               plan_ranks(plan) > 1 ? "s" : ""),
      .lasting = (double)(stage->gradients + stage->flying + stage->shared),
      .call_count = count,
      .calls = calls};
  memory_chart(&chart, out);
}

void explain_svg(const Explain *explain, Buffer *out) {
  const Pipeline *pipeline = pipeline_of(explain);
  if (!pipeline) {
    draw_memory(explain, out);
    return;
  }
  Timing timing = timing_of(explain);
  const char *unit = scale_times(explain, &timing);
  const PlanRun *run = &explain_first(explain)->run;
  const char *title =
      arena_format(explain->arena, "%s: %s, %d stages, %d microbatches", run->model, schedule_name(pipeline->schedule),
                   timing.schedule->stages, timing.schedule->microbatches);
  ScheduleChart chart = {.title = title,
                         .subtitle = arena_format(explain->arena, "layout %s, recipe %s; times as arithmetic says",
                                                  run->layout ? run->layout : "-", run->recipe ? run->recipe : "-"),
                         .unit = unit,
                         .activation = timing.saved};
  schedule_chart(timing.schedule, &timing.times, &chart, out);
}
