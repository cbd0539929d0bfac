// schedule.c: orders of forwards and backwards, their check and their times.
#include "compiler/pass/schedule.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {"gpipe", "one_f_one_b", "interleaved", "zero_bubble"};

const char *schedule_name(ScheduleKind kind) {
  return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

const char *schedule_impossible(ScheduleKind kind, int stages, int chunks, int microbatches) {
  if ((unsigned)kind >= sizeof names / sizeof *names || stages < 1 || chunks < 1 || microbatches < 1) {
    return "a schedule has at least one stage, one chunk and one microbatch";
  }
  if (kind != SCHEDULE_INTERLEAVED && chunks > 1) {
    return "only the interleaved schedule has several chunks on a stage";
  }
  if (kind == SCHEDULE_INTERLEAVED && microbatches % stages != 0) {
    return "the interleaved schedule needs a multiple of the stages as the number of microbatches";
  }
  return NULL;
}

// --- orders ---

static void push(ActionList *list, ActionKind kind, int chunk, int microbatch) {
  list->at[list->count++] = (Action){kind, chunk, microbatch};
}

// The k-th forward or backward of a stage, in groups of `stages` microbatches for each chunk in turn.
static Action interleaved_action(const Schedule *schedule, ActionKind kind, int k) {
  int stages = schedule->stages, chunks = schedule->chunks, group = stages * chunks;
  int chunk = k % group / stages;
  return (Action){kind, kind == ACTION_FORWARD ? chunk : chunks - 1 - chunk, k / group * stages + k % stages};
}

// Forwards to warm up, then one of each, then the backwards that are left.
static void order_one_of_each(const Schedule *schedule, ActionList *list, int warmup) {
  int total = schedule->microbatches * schedule->chunks;
  for (int forward = 0, backward = 0; backward < total;) {
    if (forward < total && forward <= warmup + backward) {
      list->at[list->count++] = interleaved_action(schedule, ACTION_FORWARD, forward++);
    } else {
      list->at[list->count++] = interleaved_action(schedule, ACTION_BACKWARD, backward++);
    }
  }
}

static int warmup_of(const Schedule *schedule, int stage) {
  int left = schedule->stages - 1 - stage, total = schedule->microbatches * schedule->chunks;
  int warmup = schedule->kind == SCHEDULE_GPIPE ? total
               : schedule->chunks > 1           ? 2 * left + (schedule->chunks - 1) * schedule->stages
                                                : left;
  return warmup < total ? warmup : total;
}

typedef struct {
  int next;      // of the order without WEIGHTS
  int held;      // microbatches between their FORWARD and their WEIGHTS
  int backward;  // BACKWARDs done
  int weights;   // WEIGHTS done
  double now;
} Worker;

// The WEIGHTS of a stage that is free: where it would wait for long enough, or must make room.
static bool weights_next(const Schedule *schedule, const Worker *worker, const Action *next, double ready,
                         double seconds) {
  if (worker->weights == worker->backward) {
    return false;
  }
  bool full = next && next->kind == ACTION_FORWARD && worker->held == schedule->stages;
  return !next || full || worker->now + seconds <= ready * (1 + 1e-9);
}

// When what an action needs from another stage has arrived; NaN: not known yet. done[kind][virtual stage][microbatch].
static double action_ready(const Schedule *schedule, const double *done, double latency, int stage,
                           const Action *action) {
  int stages = schedule->stages, last = stages * schedule->chunks - 1, m = schedule->microbatches;
  int at = action->chunk * stages + stage, from = at;
  ActionKind kind = action->kind;
  if (action->kind == ACTION_FORWARD) {
    from = at - 1;
  } else if (action->kind == ACTION_BACKWARD) {
    from = at == last ? at : at + 1;
    kind = at == last ? ACTION_FORWARD : ACTION_BACKWARD;
  } else {
    kind = ACTION_BACKWARD;
  }
  if (from < 0) {
    return 0;
  }
  double end = done[((int)kind * (last + 1) + from) * m + action->microbatch];
  return end + (from % stages == stage ? 0 : latency);
}

static double *times_new(Arena *arena, const Schedule *schedule) {
  int count = ACTION_KIND_COUNT * schedule->stages * schedule->chunks * schedule->microbatches;
  double *done = ARENA_ARRAY(arena, double, count);
  for (int i = 0; i < count; i++) {
    done[i] = NAN;
  }
  return done;
}

static double *time_of(const Schedule *schedule, double *done, int stage, const Action *action) {
  int at = action->chunk * schedule->stages + stage, count = schedule->stages * schedule->chunks;
  return &done[((int)action->kind * count + at) * schedule->microbatches + action->microbatch];
}

// Runs one stage of 1F1B as far as is known, with WEIGHTS put where they fit.
static bool fill_stage(Schedule *schedule, const ActionList *order, Worker *worker, double *done,
                       const ScheduleCosts *costs, int stage) {
  ActionList *list = &schedule->action[stage];
  bool moved = false;
  for (;; moved = true) {
    const Action *next = worker->next < order->count ? &order->at[worker->next] : NULL;
    double ready = next ? action_ready(schedule, done, costs ? costs->latency : 0, stage, next) : 0;
    Action weights = {ACTION_WEIGHTS, 0, worker->weights};
    double seconds = schedule_cost(schedule, costs, stage, &weights);
    if (isnan(ready) || list->count == 3 * schedule->microbatches) {
      return moved;
    }
    Action action = weights;
    if (weights_next(schedule, worker, next, ready, seconds)) {
      worker->weights++;
      worker->held--;
      worker->now += seconds;
    } else {
      action = *next;
      worker->next++;
      worker->held += action.kind == ACTION_FORWARD;
      worker->backward += action.kind == ACTION_BACKWARD;
      worker->now = fmax(worker->now, ready) + schedule_cost(schedule, costs, stage, &action);
    }
    push(list, action.kind, 0, action.microbatch);
    *time_of(schedule, done, stage, &action) = worker->now;
  }
}

static void fill_bubbles(Arena *arena, Schedule *schedule, const ScheduleCosts *costs) {
  int stages = schedule->stages;
  ActionList *order = ARENA_ARRAY(arena, ActionList, stages);
  Worker *worker = ARENA_ARRAY(arena, Worker, stages);
  double *done = times_new(arena, schedule);
  for (int s = 0; s < stages; s++) {
    order[s] = schedule->action[s];
    schedule->action[s] = (ActionList){.at = ARENA_ARRAY(arena, Action, 3 * schedule->microbatches)};
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < stages; s++) {
      moved |= fill_stage(schedule, &order[s], &worker[s], done, costs, s);
    }
  }
}

Schedule *schedule_make(Arena *arena, ScheduleKind kind, int stages, int chunks, int microbatches,
                        const ScheduleCosts *costs) {
  Schedule *schedule = ARENA_NEW(arena, Schedule);
  *schedule = (Schedule){.kind = kind, .stages = stages, .chunks = chunks, .microbatches = microbatches};
  schedule->weights = kind == SCHEDULE_ZERO_BUBBLE;
  schedule->action = ARENA_ARRAY(arena, ActionList, stages);
  for (int s = 0; s < stages; s++) {
    schedule->action[s].at = ARENA_ARRAY(arena, Action, 2 * chunks * microbatches);
    order_one_of_each(schedule, &schedule->action[s], warmup_of(schedule, s));
  }
  if (schedule->weights) {
    fill_bubbles(arena, schedule, costs);
  }
  return schedule;
}

// --- check ---

static const char *action_text(Arena *arena, int stage, const Action *action) {
  static const char *const kinds[] = {"forward", "backward", "weights"};
  return arena_format(arena, "%s of microbatch %d, chunk %d on stage %d", kinds[action->kind], action->microbatch,
                      action->chunk, stage);
}

// One stage by itself: all its actions, each chunk and kind in ascending order.
static const char *check_stage(Arena *arena, const Schedule *schedule, int stage) {
  const ActionList *list = &schedule->action[stage];
  int kinds = schedule->weights ? 3 : 2, chunks = schedule->chunks, m = schedule->microbatches;
  int *next = ARENA_ARRAY(arena, int, ACTION_KIND_COUNT *chunks);
  if (list->count != kinds * chunks * m) {
    return arena_format(arena, "stage %d has %d actions instead of %d", stage, list->count, kinds * chunks * m);
  }
  for (int i = 0; i < list->count; i++) {
    const Action *action = &list->at[i];
    if ((int)action->kind < 0 || (int)action->kind >= kinds || action->chunk < 0 || action->chunk >= chunks) {
      return arena_format(arena, "action %d of stage %d is none", i, stage);
    }
    if (action->microbatch != next[(int)action->kind * chunks + action->chunk]++) {
      return arena_format(arena, "%s is out of order", action_text(arena, stage, action));
    }
  }
  return NULL;
}

// Takes the actions of a stage for as long as what they need is done.
static bool advance(const Schedule *schedule, int stage, int *cursor, double *done) {
  const ActionList *list = &schedule->action[stage];
  bool moved = false;
  for (; *cursor < list->count; ++*cursor, moved = true) {
    const Action *action = &list->at[*cursor];
    Action forward = {ACTION_FORWARD, action->chunk, action->microbatch};
    bool before = action->kind == ACTION_FORWARD || !isnan(*time_of(schedule, done, stage, &forward));
    if (!before || isnan(action_ready(schedule, done, 0, stage, action))) {
      break;
    }
    *time_of(schedule, done, stage, action) = 0;
  }
  return moved;
}

const char *schedule_check(Arena *arena, const Schedule *schedule) {
  const char *why = schedule_impossible(schedule->kind, schedule->stages, schedule->chunks, schedule->microbatches);
  for (int s = 0; !why && s < schedule->stages; s++) {
    why = check_stage(arena, schedule, s);
  }
  if (why) {
    return why;
  }
  double *done = times_new(arena, schedule);
  int *cursor = ARENA_ARRAY(arena, int, schedule->stages);
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < schedule->stages; s++) {
      moved |= advance(schedule, s, &cursor[s], done);
    }
  }
  for (int s = 0; s < schedule->stages; s++) {
    if (cursor[s] < schedule->action[s].count) {
      return arena_format(arena, "%s waits for ever", action_text(arena, s, &schedule->action[s].at[cursor[s]]));
    }
  }
  return NULL;
}

// --- times ---

double schedule_cost(const Schedule *schedule, const ScheduleCosts *costs, int stage, const Action *action) {
  int at = action->chunk * schedule->stages + stage;
  double forward = costs && costs->forward ? costs->forward[at] : 1;
  double backward = costs && costs->backward ? costs->backward[at] : 1;
  double weights = costs && costs->weights ? costs->weights[at] : 1;
  return action->kind == ACTION_FORWARD   ? forward
         : action->kind == ACTION_WEIGHTS ? weights
                                          : backward + (schedule->weights ? 0 : weights);
}

static bool simulate_stage(const Schedule *schedule, const ScheduleCosts *costs, ScheduleTimes *times, int stage,
                           int *cursor, double *done) {
  const ActionList *list = &schedule->action[stage];
  ActionTime *at = times->action[stage];
  bool moved = false;
  for (; *cursor < list->count; ++*cursor, moved = true) {
    const Action *action = &list->at[*cursor];
    double ready = action_ready(schedule, done, costs ? costs->latency : 0, stage, action);
    if (isnan(ready)) {
      break;
    }
    double now = *cursor > 0 ? at[*cursor - 1].end : 0, seconds = schedule_cost(schedule, costs, stage, action);
    at[*cursor] = (ActionTime){fmax(now, ready), fmax(now, ready) + seconds};
    *time_of(schedule, done, stage, action) = at[*cursor].end;
    times->busy[stage] += seconds;
    times->makespan = fmax(times->makespan, at[*cursor].end);
  }
  return moved;
}

ScheduleTimes schedule_simulate(Arena *arena, const Schedule *schedule, const ScheduleCosts *costs) {
  int stages = schedule->stages;
  ScheduleTimes times = {.action = ARENA_ARRAY(arena, ActionTime *, stages),
                         .busy = ARENA_ARRAY(arena, double, stages),
                         .idle = ARENA_ARRAY(arena, double, stages)};
  int *cursor = ARENA_ARRAY(arena, int, stages);
  double *done = times_new(arena, schedule), all = 0;
  for (int s = 0; s < stages; s++) {
    times.action[s] = ARENA_ARRAY(arena, ActionTime, schedule->action[s].count);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < stages; s++) {
      moved |= simulate_stage(schedule, costs, &times, s, &cursor[s], done);
    }
  }
  for (int s = 0; s < stages; s++) {
    all += times.busy[s];
    times.idle[s] = times.makespan > 0 ? 1 - times.busy[s] / times.makespan : 0;
  }
  times.ideal = all / stages;
  times.bubble = times.makespan > 0 ? 1 - times.ideal / times.makespan : 0;
  return times;
}

// --- layers ---

// For every beginning, the best cut of what follows it into 1, 2, ... parts: `most` is the largest sum allowed, and
// what is minimised is the largest sum, or with squares the sum of squares.
typedef struct {
  const double *sum;  // of the costs before iteration i
  int count, parts;
  double before, after, most;
  bool squares;
  double *best;  // [parts + 1][count + 1]
  int *take;     // iterations of the first of those parts
} Split;

static double split_cost(const Split *split, int from, int to) {
  return split->sum[to] - split->sum[from] + (from == 0 ? split->before : 0) + (to == split->count ? split->after : 0);
}

static double split_solve(Split *split) {
  int row = split->count + 1;
  for (int i = 0; i < row; i++) {
    split->best[i] = i == split->count ? 0 : INFINITY;
  }
  for (int parts = 1; parts <= split->parts; parts++) {
    for (int from = 0; from <= split->count; from++) {
      double best = INFINITY;
      for (int to = from + 1; to <= split->count - parts + 1; to++) {
        double cost = split_cost(split, from, to), rest = split->best[(parts - 1) * row + to];
        double all = split->squares ? cost * cost + rest : fmax(cost, rest);
        if (cost <= split->most && all < best * (1 - 1e-12)) {  // the first of equal ones is the shortest
          best = all;
          split->take[parts * row + from] = to - from;
        }
      }
      split->best[parts * row + from] = best;
    }
  }
  return split->best[split->parts * row];
}

bool split_layers(Arena *arena, const double *cost, int count, int parts, double before, double after, int *sizes) {
  if (parts < 1 || count < parts) {
    return false;
  }
  double *sum = ARENA_ARRAY(arena, double, count + 1);
  for (int i = 0; i < count; i++) {
    sum[i + 1] = sum[i] + cost[i];
  }
  bool unknown = sum[count] <= 0;
  for (int i = 0; unknown && i < count; i++) {
    sum[i + 1] = i + 1;  // nothing is known of them: alike
  }
  Split split = {.sum = sum, .count = count, .parts = parts, .before = before, .after = after, .most = INFINITY};
  split.best = ARENA_ARRAY(arena, double, (parts + 1) * (count + 1));
  split.take = ARENA_ARRAY(arena, int, (parts + 1) * (count + 1));
  split.most = split_solve(&split) * (1 + 1e-9);
  split.squares = true;
  split_solve(&split);
  for (int part = 0, at = 0; part < parts; part++) {
    sizes[part] = split.take[(parts - part) * (count + 1) + at];
    at += sizes[part];
  }
  return true;
}
