// states.c: from the parts that ranks hold to whole tensors and back.
#include "runtime/states.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/scaled.h"
#include "runtime/state_part.h"

// --- the list ---

static int digits(const char *text) {
  return (int)strspn(text, "0123456789");
}

static int name_order(const char *a, const char *b) {
  while (*a && *b) {
    const int x = digits(a), y = digits(b);
    if (x > 0 && y > 0 && x != y && *a != '0' && *b != '0') {
      return x - y;
    }
    if (*a != *b) {
      break;
    }
    a++;
    b++;
  }
  return (unsigned char)*a - (unsigned char)*b;
}

static int part_order(const void *a, const void *b) {
  const StatePart *x = a, *y = b;
  const int order = name_order(x->state->name, y->state->name);
  if (order != 0) {
    return order;
  }
  return x->state->owner != y->state->owner ? y->state->owner - x->state->owner : x->plan->stage - y->plan->stage;
}

bool states_open(const PlanSet *set, States *states, Error *error) {
  int count = 0;
  for (int s = 0; s < set->count; s++) {
    count += set->plans[s]->state_count;
  }
  *states = (States){.at = calloc((size_t)count + 1, sizeof *states->at),
                     .part = calloc((size_t)count + 1, sizeof *states->part),
                     .wide = calloc((size_t)count + 1, sizeof *states->wide)};
  if (!states->at || !states->part || !states->wide) {
    states_close(states);
    return error_set(error, 3, "no memory for the names of %d tensors", count);
  }
  for (int s = 0; s < set->count; s++) {
    for (int i = 0; i < set->plans[s]->state_count; i++) {
      const PlanState *state = &set->plans[s]->states[i];
      if (state->role != STATE_COPY) {
        states->part[states->part_count++] = (StatePart){set->plans[s], state, scaled_scales(set->plans[s], state)};
      }
    }
  }
  count = states->part_count;
  qsort(states->part, (size_t)count, sizeof *states->part, part_order);
  for (int i = 0; i < count; i++) {
    const PlanState *state = states->part[i].state;
    if (states->count == 0 || strcmp(states->at[states->count - 1].state->name, state->name) != 0) {
      PlanState *wide = states->part[i].scales ? &states->wide[states->count] : NULL;
      if (wide) {
        *wide = *state;
        wide->type = TYPE_BF16;
      }
      states->at[states->count++] = (LogicalState){.state = wide ? wide : state, .first = i};
    }
    states->at[states->count - 1].count++;
  }
  return true;
}

void states_close(States *states) {
  free(states->at);
  free(states->part);
  free(states->wide);
  *states = (States){0};
}

const LogicalState *states_find(const States *states, const char *name) {
  int low = 0, high = states->count;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    const int order = name_order(name, states->at[middle].state->name);
    if (order == 0) {
      return &states->at[middle];
    }
    *(order < 0 ? &high : &low) = order < 0 ? middle : middle + 1;
  }
  return NULL;
}

int64_t state_bytes(const PlanState *state) {
  int64_t bytes = element_type_bytes(state->type);
  for (int i = 0; i < state->axis_count; i++) {
    bytes *= state->size[i];
  }
  return bytes;
}

int64_t state_rows(const PlanState *state) {
  return state->axis_count > 0 ? state->size[0] : 1;
}

// Of the ranks that hold the same elements, the one whose coordinates are 0 where nothing is cut.
static bool is_first_copy(const Plan *plan, const PlanState *state, int64_t rank) {
  int coordinate[PLAN_MAX_MESH] = {0};
  plan_coordinates(plan, rank, coordinate);
  bool cuts[PLAN_MAX_MESH] = {false};
  for (int i = 0; i < state->axis_count; i++) {
    for (int m = 0; m < state->cut[i].count; m++) {
      cuts[state->cut[i].mesh[m]] = true;
    }
  }
  for (int m = 0; m < state->flat_count; m++) {
    cuts[state->flat_mesh[m]] = true;
  }
  for (int m = 0; m < plan->mesh_count; m++) {
    if (!cuts[m] && m != plan->pipeline && coordinate[m] != 0) {
      return false;
    }
  }
  return true;
}

static bool rank_gather(const StateReader *reader, int64_t rank, const StatePart *of, const Rows *rows, Error *error) {
  int coordinate[PLAN_MAX_MESH] = {0};
  Part part;
  plan_coordinates(of->plan, rank, coordinate);
  part_place(&part, of, coordinate, rows);
  if (part.low >= part.high) {
    return true;
  }
  const int64_t bytes = part_bytes(&part);
  const char *span = NULL;
  if (reader->at && !(span = reader->at(reader->context, rank, part.offset, bytes, error))) {
    return false;
  }
  if (part_is_dense(&part)) {
    const int64_t row = bytes / part.local[0];
    if (span) {
      memcpy(rows->dense, span + rows->first * row, (size_t)(rows->count * row));
      return true;
    }
    return reader->read(reader->context, rank, part.offset, rows->dense, bytes, error);
  }
  bool done = part_open(&part, span, true, error) &&
              (span || reader->read(reader->context, rank, part.offset, part.span, bytes, error));
  if (done) {
    part_copy(&part, true);
  }
  part_close(&part);
  return done;
}

static bool rank_scatter(Session *session, int64_t rank, const StatePart *of, const void *dense, Error *error) {
  int coordinate[PLAN_MAX_MESH] = {0};
  Part part;
  const Rows rows = all_rows(of->state, dense);
  Device *device = session_device(session, rank);
  plan_coordinates(of->plan, rank, coordinate);
  part_place(&part, of, coordinate, &rows);
  const int64_t bytes = part_bytes(&part);
  if (part.low >= part.high) {
    return true;
  }
  if (part_is_dense(&part)) {
    return session->backend->write(device, ARENA_PERSISTENT, part.offset, dense, bytes, error);
  }
  // What lies between the elements of this state, if anything, may belong to another one: read, change, write.
  bool done = part_open(&part, NULL, false, error) &&
              session->backend->read(device, ARENA_PERSISTENT, part.offset, part.span, bytes, error);
  if (done) {
    part_copy(&part, false);
    done = session->backend->write(device, ARENA_PERSISTENT, part.offset, part.span, bytes, error);
  }
  part_close(&part);
  return done;
}

static bool read_device(void *context, int64_t rank, int64_t offset, void *data, int64_t bytes, Error *error) {
  Session *session = context;
  return session->backend->read(session_device(session, rank), ARENA_PERSISTENT, offset, data, bytes, error);
}

StateReader state_reader(Session *session) {
  return (StateReader){.set = session->set, .read = read_device, .context = session};
}

// Is this rank one that the state is gathered from?
static bool gathers_from(const PlanSet *set, const StatePart *of, int64_t rank) {
  return plan_of_rank(set, rank) == of->plan && is_first_copy(of->plan, of->state, rank);
}

static bool part_gather(const StateReader *reader, const StatePart *of, const Rows *rows, Error *error) {
  for (int64_t rank = 0; rank < plan_ranks(reader->set->plans[0]); rank++) {
    if (gathers_from(reader->set, of, rank) && !rank_gather(reader, rank, of, rows, error)) {
      return false;
    }
  }
  return true;
}

static bool part_gather_all(const StateReader *reader, const StatePart *of, void *dense, Error *error) {
  const Rows rows = all_rows(of->state, dense);
  return part_gather(reader, of, &rows, error);
}

// --- parameters in 8 bits ---

typedef struct {  // whole tensors
  uint8_t *codes;
  float *scale;
} Scaled;

static StatePart scales_part(const StatePart *of) {
  return (StatePart){of->plan, of->scales, NULL};
}

static bool scaled_open(Scaled *scaled, const StatePart *of, Error *error) {
  *scaled = (Scaled){calloc(1, (size_t)state_bytes(of->state) + 1), calloc(1, (size_t)state_bytes(of->scales) + 1)};
  return (scaled->codes && scaled->scale) || error_set(error, 3, "no memory for '%s'", of->state->name);
}

static void scaled_close(Scaled *scaled) {
  free(scaled->codes);
  free(scaled->scale);
}

static bool scaled_gather(const StateReader *reader, const StatePart *of, void *dense, Error *error) {
  const StatePart scales = scales_part(of);
  Scaled scaled;
  const bool done = scaled_open(&scaled, of, error) && part_gather_all(reader, of, scaled.codes, error) &&
                    part_gather_all(reader, &scales, scaled.scale, error);
  if (done) {
    scaled_decode(of->state, of->scales, scaled.codes, scaled.scale, dense);
  }
  scaled_close(&scaled);
  return done;
}

bool state_divides(const States *states, const LogicalState *state) {
  return !states->part[state->first].scales;
}

bool state_gather_rows(const StateReader *reader, const States *states, const LogicalState *state, int64_t first,
                       int64_t count, void *dense, Error *error) {
  const StatePart *of = &states->part[state->first];
  const Rows rows = {dense, first, count};
  return of->scales ? scaled_gather(reader, of, dense, error) : part_gather(reader, of, &rows, error);
}

bool state_gather_with(const StateReader *reader, const States *states, const LogicalState *state, void *dense,
                       Error *error) {
  return state_gather_rows(reader, states, state, 0, state_rows(state->state), dense, error);
}

bool state_gather(Session *session, const States *states, const LogicalState *state, void *dense, Error *error) {
  const StateReader reader = state_reader(session);
  return state_gather_with(&reader, states, state, dense, error);
}

int state_spans(const PlanSet *set, const States *states, const LogicalState *state, int64_t rank,
                StateSpan span[STATE_SPANS]) {
  const StatePart *of = &states->part[state->first], scales = scales_part(of);
  int count = 0;
  for (int i = 0; i < (of->scales ? 2 : 1); i++) {
    const StatePart *which = i ? &scales : of;
    int coordinate[PLAN_MAX_MESH] = {0};
    Part part;
    if (gathers_from(set, which, rank)) {
      plan_coordinates(of->plan, rank, coordinate);
      part_place(&part, which, coordinate, &(Rows){0});
      span[count] = (StateSpan){part.offset, part_bytes(&part)};
      count += part.low < part.high;
    }
  }
  return count;
}

static bool part_scatter(Session *session, const StatePart *of, const void *dense, Error *error) {
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    if (session_plan(session, rank) == of->plan && !rank_scatter(session, rank, of, dense, error)) {
      return false;
    }
  }
  return true;
}

static bool scaled_scatter(Session *session, const StatePart *of, const void *dense, Error *error) {
  const StatePart scales = scales_part(of);
  Scaled scaled;
  bool done = scaled_open(&scaled, of, error);
  if (done) {
    scaled_encode(of->state, of->scales, dense, scaled.codes, scaled.scale);
    done = part_scatter(session, of, scaled.codes, error) && part_scatter(session, &scales, scaled.scale, error);
  }
  scaled_close(&scaled);
  return done;
}

void state_round_once(const States *states, const LogicalState *state, ElementType type, const void *numbers,
                      void *dense) {
  if (states->part[state->first].scales && type != TYPE_BF16) {
    scaled_round_to_odd(type, numbers, state_bytes(state->state) / element_type_bytes(state->state->type), dense);
  }
}

bool state_scatter(Session *session, const States *states, const LogicalState *state, const void *dense, Error *error) {
  for (int i = 0; i < state->count; i++) {
    const StatePart *of = &states->part[state->first + i];
    if (!(of->scales ? scaled_scatter(session, of, dense, error) : part_scatter(session, of, dense, error))) {
      return false;
    }
  }
  return true;
}

bool state_as_held(const States *states, const LogicalState *state, void *dense, Error *error) {
  const StatePart *of = &states->part[state->first];
  Scaled scaled;
  if (!of->scales) {
    return true;
  }
  const bool done = scaled_open(&scaled, of, error);
  if (done) {
    scaled_encode(of->state, of->scales, dense, scaled.codes, scaled.scale);
    scaled_decode(of->state, of->scales, scaled.codes, scaled.scale, dense);
  }
  scaled_close(&scaled);
  return done;
}

// A rank that holds something else than `dense` says of one part.
static bool part_differs(Session *session, const StatePart *of, const void *dense, int64_t *odd, Error *error) {
  const size_t bytes = (size_t)state_bytes(of->state);
  const StateReader reader = state_reader(session);
  char *held = malloc(bytes + 1);
  const Rows rows = all_rows(of->state, held);
  bool done = held || error_set(error, 3, "no memory for '%s'", of->state->name);
  for (int64_t rank = 0; rank < session->ranks && done && *odd < 0; rank++) {
    if (session_plan(session, rank) == of->plan) {
      memcpy(held, dense, bytes);  // what another rank holds is as it should be
      done = rank_gather(&reader, rank, of, &rows, error);
      *odd = done && memcmp(held, dense, bytes) != 0 ? rank : -1;
    }
  }
  free(held);
  return done;
}

// Of all that hold a parameter in 8 bits codes and scales are to be those of the first.
static bool scaled_differs(Session *session, const StatePart *first, const StatePart *of, int64_t *odd, Error *error) {
  const StateReader reader = state_reader(session);
  const StatePart from = scales_part(first), scales = scales_part(of);
  Scaled scaled;
  const bool done = scaled_open(&scaled, first, error) && part_gather_all(&reader, first, scaled.codes, error) &&
                    part_gather_all(&reader, &from, scaled.scale, error) &&
                    part_differs(session, of, scaled.codes, odd, error) &&
                    part_differs(session, &scales, scaled.scale, odd, error);
  scaled_close(&scaled);
  return done;
}

bool state_differs(Session *session, const States *states, const LogicalState *state, const void *dense, int64_t *odd,
                   Error *error) {
  const StatePart *first = &states->part[state->first];
  bool done = true;
  *odd = -1;
  for (int i = 0; i < state->count && done && *odd < 0; i++) {
    done = first->scales ? scaled_differs(session, first, first + i, odd, error)
                         : part_differs(session, first + i, dense, odd, error);
  }
  return done;
}
