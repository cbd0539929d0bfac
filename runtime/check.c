// check.c: keeps what ranks hold, runs a step again, and finds who has computed other bits.
#include "runtime/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/crew.h"

enum { PIECE = 1 << 20 };  // bytes that are read at once

typedef struct {     // what a rank has computed
  uint64_t *state;   // by state of its plan: of its bytes, and of those up to the next
  uint64_t *output;  // by output of the training step: of single numbers; 0: others
  RanksGivenList given;
} Computed;

typedef struct {
  const Plan *plan;
  char *kept;  // ARENA_PERSISTENT before the step
  Computed of[2];
} RankCheck;

struct Check {
  const PlanSet *set;
  int64_t ranks;
  RankCheck *rank;
  RanksGivenList *lists;  // by rank, of the run that is noted
  char *piece;
};

bool check_open(const PlanSet *set, const Backend *backend, Check **check, Error *error) {
  if (!set->plans[0]->run.strict && backend->apart) {
    *check = NULL;
    return error_set(error, 2,
                     "--check compares bits, and on GPUs two runs of this plan may differ in some: write `reproducible "
                     "= strict;` in the layout");
  }
  Check *made = calloc(1, sizeof *made);
  *check = made;
  if (!made) {
    return error_set(error, 3, "no memory");
  }
  made->set = set;
  made->ranks = plan_ranks(set->plans[0]);
  made->rank = calloc((size_t)made->ranks, sizeof *made->rank);
  made->lists = calloc((size_t)made->ranks, sizeof *made->lists);
  made->piece = malloc(PIECE);
  bool done = made->rank && made->lists && made->piece;
  for (int64_t r = 0; r < made->ranks && done; r++) {
    RankCheck *rank = &made->rank[r];
    rank->plan = plan_of_rank(set, r);
    rank->kept = malloc((size_t)rank->plan->arena_bytes[ARENA_PERSISTENT] + 1);
    done = rank->kept != NULL;
    for (int i = 0; i < 2 && done; i++) {
      Computed *of = &rank->of[i];
      of->state = calloc((size_t)rank->plan->state_count + 1, sizeof *of->state);
      of->output = calloc((size_t)rank->plan->programs[PROGRAM_TRAIN].output_count + 1, sizeof *of->output);
      done = of->state && of->output;
    }
  }
  return done || error_set(error, 3, "no memory to keep what the ranks hold while --check repeats a step");
}

void check_close(Check *check) {
  if (!check) {
    return;
  }
  for (int64_t r = 0; check->rank && r < check->ranks; r++) {
    free(check->rank[r].kept);
    for (int i = 0; i < 2; i++) {
      free(check->rank[r].of[i].state);
      free(check->rank[r].of[i].output);
      free(check->rank[r].of[i].given.at);
    }
  }
  for (int64_t r = 0; check->lists && r < check->ranks; r++) {
    free(check->lists[r].at);
  }
  free(check->rank);
  free(check->lists);
  free(check->piece);
  free(check);
}

// Notes what ranks give from now on; false for `on`: no longer.
static void note(Check *check, const Session *session, bool on) {
  for (int64_t r = 0; on && r < check->ranks; r++) {
    check->lists[r].count = 0;
    check->lists[r].failed = false;
  }
  if (session->crew) {
    ranks_note(crew_ranks(session->crew), on ? check->lists : NULL);
  }
}

bool check_keep(Check *check, Session *session, Error *error) {
  for (int64_t r = 0; r < check->ranks; r++) {
    const int64_t bytes = check->rank[r].plan->arena_bytes[ARENA_PERSISTENT];
    for (int64_t at = 0; at < bytes; at += PIECE) {
      const int64_t now = bytes - at < PIECE ? bytes - at : PIECE;
      if (!session->backend->read(session_device(session, r), ARENA_PERSISTENT, at, check->rank[r].kept + at, now,
                                  error)) {
        return false;
      }
    }
  }
  note(check, session, true);
  return true;
}

static bool take_back(Check *check, Session *session, Error *error) {
  for (int64_t r = 0; r < check->ranks; r++) {
    const int64_t bytes = check->rank[r].plan->arena_bytes[ARENA_PERSISTENT];
    for (int64_t at = 0; at < bytes; at += PIECE) {
      const int64_t now = bytes - at < PIECE ? bytes - at : PIECE;
      if (!session->backend->write(session_device(session, r), ARENA_PERSISTENT, at, check->rank[r].kept + at, now,
                                   error)) {
        return false;
      }
    }
  }
  return true;
}

// Where the state that lies next begins.
static int64_t end_of(const Plan *plan, const PlanState *state) {
  int64_t end = plan->arena_bytes[ARENA_PERSISTENT];
  for (int i = 0; i < plan->state_count; i++) {
    const int64_t other = plan->states[i].offset;
    end = other > state->offset && other < end ? other : end;
  }
  return end;
}

static bool hash_bytes(Check *check, Session *session, int64_t rank, ArenaClass arena, int64_t begin, int64_t end,
                       uint64_t *hash, Error *error) {
  *hash = 0;
  for (int64_t at = begin; at < end; at += PIECE) {
    const int64_t now = end - at < PIECE ? end - at : PIECE;
    if (!session->backend->read(session_device(session, rank), arena, at, check->piece, now, error)) {
      return false;
    }
    *hash = XXH3_64bits_withSeed(check->piece, (size_t)now, *hash);
  }
  return true;
}

// `which`: of the step as it was trained (0), or repeated (1).
static bool look(Check *check, Session *session, int which, Error *error) {
  for (int64_t r = 0; r < check->ranks; r++) {
    RankCheck *rank = &check->rank[r];
    const PlanProgram *train = &rank->plan->programs[PROGRAM_TRAIN];
    Computed *of = &rank->of[which];
    const RanksGivenList swapped = of->given;
    of->given = check->lists[r];
    check->lists[r] = swapped;
    for (int i = 0; i < rank->plan->state_count; i++) {
      const PlanState *state = &rank->plan->states[i];
      if (!hash_bytes(check, session, r, ARENA_PERSISTENT, state->offset, end_of(rank->plan, state), &of->state[i],
                      error)) {
        return false;
      }
    }
    for (int i = 0; i < train->output_count; i++) {
      const PlanOutput *output = &train->outputs[i];
      const int64_t begin = output->place.offset, end = begin + element_type_bytes(output->type);
      if (output->axis_count == 0 &&
          !hash_bytes(check, session, r, output->place.arena, begin, end, &of->output[i], error)) {
        return false;
      }
    }
  }
  return true;
}

// --- what differs ---

typedef struct {
  int64_t at;  // -1: nothing differs
  const char *kind, *name;
} Difference;

// The first that a rank gave otherwise; past the end of a shorter list, or where memory was missing, nothing is known.
static Difference given_differs(const RankCheck *rank) {
  const RanksGivenList *a = &rank->of[0].given, *b = &rank->of[1].given;
  for (int64_t i = 0; i < a->count && i < b->count; i++) {
    if (a->at[i].hash != b->at[i].hash) {
      const char *name = a->at[i].instruction->name;
      return (Difference){b->at[i].order, "what it gives to", name ? name : "a collective"};
    }
  }
  return (Difference){.at = -1};
}

static Difference result_differs(const RankCheck *rank) {
  const PlanProgram *train = &rank->plan->programs[PROGRAM_TRAIN];
  for (int i = 0; i < rank->plan->state_count; i++) {
    if (rank->of[0].state[i] != rank->of[1].state[i]) {
      return (Difference){i, "its", rank->plan->states[i].name};
    }
  }
  for (int i = 0; i < train->output_count; i++) {
    if (rank->of[0].output[i] != rank->of[1].output[i]) {
      return (Difference){rank->plan->state_count + i, "its output", train->outputs[i].name};
    }
  }
  return (Difference){.at = -1};
}

// The ranks whose first difference comes first; the others have it from them.
static bool compare(const Check *check, int64_t step, Error *error) {
  bool given = false;
  int64_t first = -1, least = INT64_MAX, alike = 0, differ = 0;
  Difference what = {.at = -1};
  for (int64_t r = 0; r < check->ranks; r++) {
    given |= given_differs(&check->rank[r]).at >= 0;
    differ += given_differs(&check->rank[r]).at >= 0 || result_differs(&check->rank[r]).at >= 0;
  }
  for (int64_t r = 0; r < check->ranks; r++) {
    const Difference found = given ? given_differs(&check->rank[r]) : result_differs(&check->rank[r]);
    alike += found.at >= 0 && found.at == least;
    if (found.at >= 0 && found.at < least) {
      first = r;
      alike = 0;
      least = found.at;
      what = found;
    }
  }
  if (first < 0) {
    return true;
  }
  char others[96] = "";
  if (alike > 0) {
    snprintf(others, sizeof others, ", and so do %" PRId64 " others", alike);
  }
  return error_set(error, 6,
                   "step %lld was run twice on the same data and gave other bits: on rank %lld of %lld %s '%.200s' "
                   "differs first%s; %lld rank%s in the end; nothing of this step is saved: look at the memory and the "
                   "device of that rank, then go on with --resume",
                   (long long)step, (long long)first, (long long)check->ranks, what.kind, what.name, others,
                   (long long)differ, differ == 1 ? " differs" : "s differ");
}

bool check_repeat(Check *check, Session *session, Feed *feed, int64_t step, int64_t batch, Error *error) {
  note(check, session, false);
  if (!look(check, session, 0, error) || !take_back(check, session, error) ||
      !feed_train(feed, session, batch, error)) {
    return false;
  }
  note(check, session, true);
  const bool run = session_submit(session, PROGRAM_TRAIN, step, error) && session_wait(session, 0, error);
  note(check, session, false);
  return run && look(check, session, 1, error) && compare(check, step, error);
}
