// schedule_lanes.c: how many microbatches a chunk holds at once. See schedule.h.
#include "compiler/pass/schedule.h"

static bool releases(const Schedule *schedule, const Action *action, int chunk) {
  return action->chunk == chunk && action->kind == (schedule->weights ? ACTION_WEIGHTS : ACTION_BACKWARD);
}

// In order of their microbatches both, so what is held is a range [released, forward).
bool schedule_lanes_fit(const Schedule *schedule, int stage, int chunk, int lanes) {
  const ActionList *list = &schedule->action[stage];
  int released = 0;
  for (int i = 0; i < list->count; i++) {
    const Action *action = &list->at[i];
    if (action->chunk == chunk && action->kind == ACTION_FORWARD && action->microbatch - released >= lanes) {
      return false;
    }
    released += releases(schedule, action, chunk);
  }
  return lanes > 0;
}

int schedule_lanes(const Schedule *schedule, int stage, int chunk) {
  const ActionList *list = &schedule->action[stage];
  int held = 0, most = 1;
  for (int i = 0; i < list->count; i++) {
    held += list->at[i].chunk == chunk && list->at[i].kind == ACTION_FORWARD;
    held -= releases(schedule, &list->at[i], chunk);
    most = held > most ? held : most;
  }
  return most;
}

// --- messages that skip virtual stages ---

typedef struct {
  const Schedule *schedule;
  const ScheduleJump *jumps;
  int jump_count;
  int *lanes;   // by virtual stage
  bool *done;   // [kind][virtual stage][microbatch]
  int *cursor;  // by stage
} Flow;

static bool *done_at(const Flow *f, ActionKind kind, int at, int microbatch) {
  int count = f->schedule->stages * f->schedule->chunks;
  return &f->done[((int)kind * count + at) * f->schedule->microbatches + microbatch];
}

// Whether what it reads has been made: of its neighbours, of itself, and over jumps.
static bool arrived(const Flow *f, const Action *action, int at) {
  int last = f->schedule->stages * f->schedule->chunks - 1, m = action->microbatch;
  bool good = true;
  switch (action->kind) {
    case ACTION_FORWARD:
      good = at == 0 || *done_at(f, ACTION_FORWARD, at - 1, m);
      break;
    case ACTION_BACKWARD:
      good = *done_at(f, ACTION_FORWARD, at, m) && (at == last || *done_at(f, ACTION_BACKWARD, at + 1, m));
      break;
    default:
      good = *done_at(f, ACTION_BACKWARD, at, m);
  }
  for (int i = 0; i < f->jump_count && good; i++) {
    const ScheduleJump *jump = &f->jumps[i];
    good = jump->to != at || jump->receives != action->kind || *done_at(f, jump->sends, jump->from, m);
  }
  return good;
}

// Whether what it sends over jumps has a buffer: the message of `lanes` microbatches before has been received.
static bool has_room(const Flow *f, const Action *action, int at) {
  int before = action->microbatch - f->lanes[at];
  bool good = true;
  for (int i = 0; i < f->jump_count && good && before >= 0; i++) {
    const ScheduleJump *jump = &f->jumps[i];
    good = jump->from != at || jump->sends != action->kind || *done_at(f, jump->receives, jump->to, before);
  }
  return good;
}

static const Action *next_action(const Flow *f, int stage) {
  const ActionList *list = &f->schedule->action[stage];
  return f->cursor[stage] < list->count ? &list->at[f->cursor[stage]] : NULL;
}

// Runs all stages as far as they come.
static void flow(Flow *f) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < f->schedule->stages; s++) {
      const Action *action = next_action(f, s);
      int at = action ? action->chunk * f->schedule->stages + s : 0;
      if (action && arrived(f, action, at) && has_room(f, action, at)) {
        *done_at(f, action->kind, at, action->microbatch) = true;
        f->cursor[s]++;
        moved = true;
      }
    }
  }
}

int *schedule_lanes_all(Arena *arena, const Schedule *schedule, const ScheduleJump *jumps, int count) {
  int stages = schedule->stages, at = stages * schedule->chunks;
  Flow f = {.schedule = schedule, .jumps = jumps, .jump_count = count, .lanes = ARENA_ARRAY(arena, int, at)};
  for (int i = 0; i < at; i++) {
    f.lanes[i] = schedule_lanes(schedule, i % stages, i / stages);
  }
  f.done = ARENA_ARRAY(arena, bool, ACTION_KIND_COUNT *at * schedule->microbatches);
  f.cursor = ARENA_ARRAY(arena, int, stages);
  for (bool wider = count > 0; wider;) {  // what is done stays possible with more buffers
    wider = false;
    flow(&f);
    for (int s = 0; s < stages && !wider; s++) {
      const Action *action = next_action(&f, s);
      int stage = action ? action->chunk * stages + s : 0;
      wider = action && arrived(&f, action, stage) && !has_room(&f, action, stage);
      f.lanes[stage] += wider;
    }
  }
  return f.lanes;
}
