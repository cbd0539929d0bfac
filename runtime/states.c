// states.c: from the parts that ranks hold to whole tensors and back.
#include "runtime/states.h"

#include <stdlib.h>
#include <string.h>

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
                     .part = calloc((size_t)count + 1, sizeof *states->part)};
  if (!states->at || !states->part) {
    states_close(states);
    return error_set(error, 3, "no memory for the names of %d tensors", count);
  }
  for (int s = 0; s < set->count; s++) {
    for (int i = 0; i < set->plans[s]->state_count; i++) {
      if (set->plans[s]->states[i].role != STATE_COPY) {
        states->part[states->part_count++] = (StatePart){set->plans[s], &set->plans[s]->states[i]};
      }
    }
  }
  count = states->part_count;
  qsort(states->part, (size_t)count, sizeof *states->part, part_order);
  for (int i = 0; i < count; i++) {
    const PlanState *state = states->part[i].state;
    if (states->count == 0 || strcmp(states->at[states->count - 1].state->name, state->name) != 0) {
      states->at[states->count++] = (LogicalState){.state = state, .first = i};
    }
    states->at[states->count - 1].count++;
  }
  return true;
}

void states_close(States *states) {
  free(states->at);
  free(states->part);
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

// --- the part of a rank ---

typedef struct {  // of the first axis; `dense` begins with them
  char *dense;
  int64_t first, count;
} Rows;

static Rows all_rows(const PlanState *state, const void *dense) {
  return (Rows){(char *)(uintptr_t)dense, 0, state_rows(state)};
}

typedef struct {
  const Plan *plan;
  const PlanState *state;
  int coordinate[PLAN_MAX_MESH];
  int axis_count;                                       // 1 of a single number
  int64_t local[PLAN_MAX_AXES], stride[PLAN_MAX_AXES];  // positions of each axis, in memory
  int64_t dense_stride[PLAN_MAX_AXES];                  // of the whole tensor
  // Of the elements of the part in memory, by their strides, this rank has [low, high), the first at `offset` bytes.
  int64_t low, high, offset;
  int64_t *position[PLAN_MAX_AXES];  // in the whole tensor, of each local one; -1: padding, or not among the rows
  bool cut;                          // of the last axis: its positions are not just counted up
  char *span;                        // the memory of [low, high)
  bool owned;                        // it is to be freed
  Rows rows;
  int64_t from, until;  // of the first axis: positions in memory that are looked at
} Part;

// Is the part the whole tensor, in written order and without gaps?
static bool part_is_dense(const Part *part) {
  int64_t elements = 1;
  for (int i = 0; i < part->axis_count; i++) {
    if ((i < part->state->axis_count && part->state->cut[i].count > 0) ||
        (part->local[i] > 1 && part->stride[i] != part->dense_stride[i])) {
      return false;
    }
    elements *= part->local[i];
  }
  return part->low == 0 && part->high == elements;
}

// Where the part is; nothing is allocated.
static void part_place(Part *part, const StatePart *of, const int *coordinate, const Rows *rows) {
  const PlanState *state = of->state;
  *part = (Part){.plan = of->plan,
                 .state = state,
                 .axis_count = state->axis_count > 0 ? state->axis_count : 1,
                 .local = {1},
                 .stride = {1},
                 .dense_stride = {1},
                 .offset = state->offset,
                 .rows = *rows};
  memcpy(part->coordinate, coordinate, sizeof part->coordinate);
  int64_t stride = 1, reach = 0;
  for (int i = state->axis_count - 1; i >= 0; i--) {
    part->local[i] = state->cut[i].count ? state->cut[i].local : state->size[i];
    part->stride[i] = state->stride[i];
    part->dense_stride[i] = stride;
    stride *= state->size[i];
    reach += (part->local[i] - 1) * state->stride[i];
  }
  part->high = reach + 1;
  if (state->flat_piece > 0) {
    const int64_t piece = plan_part(of->plan, state->flat_mesh, state->flat_count, coordinate) * state->flat_piece;
    const int64_t low = piece - state->flat_first, high = low + state->flat_piece;
    part->low = low > 0 ? low : 0;
    part->high = high < part->high ? high : part->high;
    part->offset += (part->low - low) * element_type_bytes(state->type);
  }
}

static int64_t part_bytes(const Part *part) {
  return (part->high - part->low) * element_type_bytes(part->state->type);
}

// gather: rows of which nothing is wanted are not looked at.
static bool positions_find(Part *part, bool gather) {
  const PlanState *state = part->state;
  int64_t all = 0;
  for (int i = 0; i < part->axis_count; i++) {
    all += part->local[i];
  }
  int64_t *position = malloc((size_t)(all + 1) * sizeof *position);
  part->position[0] = position;
  for (int i = 0; position && i < part->axis_count; i++) {
    part->position[i] = position;
    const bool cut = i < state->axis_count && state->cut[i].count > 0;
    const int64_t first = i == 0 ? part->rows.first : 0, count = i == 0 ? part->rows.count : state->size[i];
    for (int64_t k = 0; k < part->local[i]; k++) {
      const int64_t at = cut ? plan_position(part->plan, &state->cut[i], part->coordinate, k) : k;
      position[k] = at >= first && at < first + count ? at - first : -1;
    }
    part->cut = cut;
    position += part->local[i];
  }
  part->until = part->local[0];
  while (gather && position && part->from < part->until && part->position[0][part->from] < 0) {
    part->from++;
  }
  while (gather && position && part->from < part->until && part->position[0][part->until - 1] < 0) {
    part->until--;
  }
  return position != NULL;
}

// `span`: where the memory of the part lies; NULL: memory for it is taken.
static bool part_open(Part *part, const char *span, bool gather, Error *error) {
  if (part->low >= part->high) {
    return true;
  }
  part->owned = span == NULL;
  part->span = span ? (char *)(uintptr_t)span : malloc((size_t)part_bytes(part));
  if (!part->span || !positions_find(part, gather)) {
    return error_set(error, 3, "no memory for a part of '%s', %lld elements", part->state->name,
                     (long long)(part->high - part->low));
  }
  return true;
}

static void part_close(Part *part) {
  free(part->position[0]);
  if (part->owned) {
    free(part->span);
  }
}

// From the memory of the part into the whole tensor, or back. to NULL: padding, which is 0 in memory.
static void copy(char *memory, char *whole, int64_t bytes, bool gather) {
  if (!whole) {
    if (!gather) {
      memset(memory, 0, (size_t)bytes);
    }
  } else if (gather) {
    memcpy(whole, memory, (size_t)bytes);
  } else {
    memcpy(memory, whole, (size_t)bytes);
  }
}

// One row along the last axis: `at` its first element in memory, `to` that of the whole tensor; -1: padding.
static void row_copy(const Part *part, int64_t at, int64_t to, bool gather) {
  const int last = part->axis_count - 1;
  const int64_t *position = part->position[last];
  const int64_t size = element_type_bytes(part->state->type), step = part->stride[last];
  const int64_t begin = last == 0 ? part->from : 0, count = last == 0 ? part->until : part->local[last];
  for (int64_t i = begin; i < count;) {
    const bool inside = to >= 0 && position[i] >= 0;
    int64_t end = step == 1 && !part->cut ? count : i + 1;  // one element, or a run of them
    while (step == 1 && end < count && (to >= 0 && position[end] >= 0) == inside &&
           (!inside || position[end] == position[end - 1] + 1)) {
      end++;
    }
    int64_t low = at + i * step, high = at + (end - 1) * step + 1;
    const int64_t shift = low < part->low ? part->low - low : 0;
    low += shift;
    high = high < part->high ? high : part->high;
    if (low < high) {
      copy(part->span + (low - part->low) * size, inside ? part->rows.dense + (to + position[i] + shift) * size : NULL,
           (high - low) * size, gather);
    }
    i = end;
  }
}

// A tile of an axis that lies together in memory, of which it has positions [i, i_end), by [j, j_end) of the last axis:
// all of it is there.
#define TILE_COPY(name, Element)                                                                              \
  static void name(const Part *part, int inner, const int64_t tile[4], int64_t at, int64_t to, bool gather) { \
    const int last = part->axis_count - 1;                                                                    \
    for (int64_t i = tile[0]; i < tile[1]; i++) {                                                             \
      const int64_t row = part->position[inner][i];                                                           \
      char *memory = part->span + (at - part->low + i * part->stride[inner]) * (int64_t)sizeof(Element);      \
      char *whole = part->rows.dense + (to + row * part->dense_stride[inner]) * (int64_t)sizeof(Element);     \
      for (int64_t j = tile[2]; j < tile[3]; j++) {                                                           \
        char *here = memory + j * part->stride[last] * (int64_t)sizeof(Element);                              \
        char *there = whole + part->position[last][j] * (int64_t)sizeof(Element);                             \
        memcpy(gather ? there : here, gather ? here : there, sizeof(Element));                                \
      }                                                                                                       \
    }                                                                                                         \
  }
TILE_COPY(tile_copy_1, uint8_t)
TILE_COPY(tile_copy_2, uint16_t)
TILE_COPY(tile_copy_4, uint32_t)
TILE_COPY(tile_copy_8, uint64_t)

// Of a tile, the first and the last element in memory.
static int64_t tile_first(const Part *part, int inner, const int64_t tile[4], int64_t at) {
  return at + tile[0] * part->stride[inner] + tile[2] * part->stride[part->axis_count - 1];
}

static int64_t tile_last(const Part *part, int inner, const int64_t tile[4], int64_t at) {
  return at + (tile[1] - 1) * part->stride[inner] + (tile[3] - 1) * part->stride[part->axis_count - 1];
}

static bool tile_whole(const Part *part, int inner, const int64_t tile[4], int64_t at, int64_t to) {
  const int last = part->axis_count - 1;
  bool whole =
      to >= 0 && tile_first(part, inner, tile, at) >= part->low && tile_last(part, inner, tile, at) < part->high;
  for (int64_t i = tile[0]; whole && i < tile[1]; i++) {
    whole = part->position[inner][i] >= 0;
  }
  for (int64_t j = tile[2]; whole && j < tile[3]; j++) {
    whole = part->position[last][j] >= 0;
  }
  return whole;
}

// One element after the other, where some are padding, or on another rank.
static void tile_edge(const Part *part, int inner, const int64_t tile[4], int64_t at, int64_t to, bool gather) {
  const int last = part->axis_count - 1;
  const int64_t size = element_type_bytes(part->state->type);
  for (int64_t i = tile[0]; i < tile[1]; i++) {
    const int64_t row = part->position[inner][i];
    for (int64_t j = tile[2]; j < tile[3]; j++) {
      const int64_t here = at + i * part->stride[inner] + j * part->stride[last], column = part->position[last][j];
      if (here >= part->low && here < part->high) {
        copy(part->span + (here - part->low) * size,
             to < 0 || row < 0 || column < 0
                 ? NULL
                 : part->rows.dense + (to + row * part->dense_stride[inner] + column) * size,
             size, gather);
      }
    }
  }
}

static void tile_copy(const Part *part, int inner, const int64_t tile[4], int64_t at, int64_t to, bool gather) {
  if (tile_last(part, inner, tile, at) < part->low || tile_first(part, inner, tile, at) >= part->high) {
    return;
  }
  if (!tile_whole(part, inner, tile, at, to)) {
    tile_edge(part, inner, tile, at, to, gather);
    return;
  }
  switch (element_type_bytes(part->state->type)) {
    case 1:
      tile_copy_1(part, inner, tile, at, to, gather);
      break;
    case 2:
      tile_copy_2(part, inner, tile, at, to, gather);
      break;
    case 4:
      tile_copy_4(part, inner, tile, at, to, gather);
      break;
    default:
      tile_copy_8(part, inner, tile, at, to, gather);
  }
}

// A plane of the axis that lies together in memory and the last one, in tiles that stay in the fastest memory.
static void plane_copy(const Part *part, int inner, int64_t at, int64_t to, bool gather) {
  enum { TILE = 32 };
  const int64_t begin = inner == 0 ? part->from : 0, end = inner == 0 ? part->until : part->local[inner];
  const int64_t columns = part->local[part->axis_count - 1];
  for (int64_t i = begin; i < end; i += TILE) {
    for (int64_t j = 0; j < columns; j += TILE) {
      const int64_t tile[4] = {i, i + TILE < end ? i + TILE : end, j, j + TILE < columns ? j + TILE : columns};
      tile_copy(part, inner, tile, at, to, gather);
    }
  }
}

// The axis whose neighbours lie nearest in memory.
static int part_inner(const Part *part) {
  int inner = part->axis_count - 1;
  for (int i = inner - 1; i >= 0; i--) {
    if (part->local[i] > 1 && (part->local[inner] == 1 || part->stride[i] < part->stride[inner])) {
      inner = i;
    }
  }
  return inner;
}

static void part_copy(const Part *part, bool gather) {
  const int last = part->axis_count - 1, inner = part_inner(part);
  int64_t at[PLAN_MAX_AXES] = {part->from}, rounds = 1;
  for (int i = 0; i < last; i++) {
    rounds *= i == inner ? 1 : i == 0 ? part->until - part->from : part->local[i];
  }
  at[0] = inner == 0 ? 0 : at[0];
  for (int64_t round = 0; round < rounds; round++) {
    int64_t memory = 0, to = 0;
    for (int i = 0; i < last; i++) {
      const int64_t position = i == inner ? 0 : part->position[i][at[i]];
      memory += at[i] * part->stride[i];
      to = to < 0 || position < 0 ? -1 : to + position * part->dense_stride[i];
    }
    if (gather && to < 0) {  // nothing of it is wanted
    } else if (inner == last) {
      row_copy(part, memory, to, gather);
    } else {
      plane_copy(part, inner, memory, to, gather);
    }
    for (int i = last - 1; i >= 0; i--) {
      if (i != inner && ++at[i] < (i == 0 ? part->until : part->local[i])) {
        break;
      }
      at[i] = i == 0 && inner != 0 ? part->from : 0;
    }
  }
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

bool state_gather_rows(const StateReader *reader, const States *states, const LogicalState *state, int64_t first,
                       int64_t count, void *dense, Error *error) {
  const StatePart *of = &states->part[state->first];
  const Rows rows = {dense, first, count};
  for (int64_t rank = 0; rank < plan_ranks(reader->set->plans[0]); rank++) {
    if (gathers_from(reader->set, of, rank) && !rank_gather(reader, rank, of, &rows, error)) {
      return false;
    }
  }
  return true;
}

bool state_gather_with(const StateReader *reader, const States *states, const LogicalState *state, void *dense,
                       Error *error) {
  return state_gather_rows(reader, states, state, 0, state_rows(state->state), dense, error);
}

bool state_gather(Session *session, const States *states, const LogicalState *state, void *dense, Error *error) {
  const StateReader reader = state_reader(session);
  return state_gather_with(&reader, states, state, dense, error);
}

bool state_span(const PlanSet *set, const States *states, const LogicalState *state, int64_t rank, int64_t *offset,
                int64_t *bytes) {
  const StatePart *of = &states->part[state->first];
  int coordinate[PLAN_MAX_MESH] = {0};
  Part part;
  if (!gathers_from(set, of, rank)) {
    return false;
  }
  plan_coordinates(of->plan, rank, coordinate);
  part_place(&part, of, coordinate, &(Rows){0});
  *offset = part.offset;
  *bytes = part_bytes(&part);
  return part.low < part.high;
}

bool state_scatter(Session *session, const States *states, const LogicalState *state, const void *dense, Error *error) {
  for (int i = 0; i < state->count; i++) {
    const StatePart *of = &states->part[state->first + i];
    for (int64_t rank = 0; rank < session->ranks; rank++) {
      if (session_plan(session, rank) == of->plan && !rank_scatter(session, rank, of, dense, error)) {
        return false;
      }
    }
  }
  return true;
}

bool state_differs(Session *session, const States *states, const LogicalState *state, const void *dense, int64_t *odd,
                   Error *error) {
  const size_t bytes = (size_t)state_bytes(state->state);
  const StateReader reader = state_reader(session);
  char *held = malloc(bytes + 1);
  const Rows rows = all_rows(state->state, held);
  *odd = -1;
  if (!held) {
    return error_set(error, 3, "no memory for '%s'", state->state->name);
  }
  bool done = true;
  for (int i = 0; i < state->count && *odd < 0; i++) {
    const StatePart *of = &states->part[state->first + i];
    for (int64_t rank = 0; rank < session->ranks && done && *odd < 0; rank++) {
      if (session_plan(session, rank) == of->plan) {
        memcpy(held, dense, bytes);  // what another rank holds is as it should be
        done = rank_gather(&reader, rank, of, &rows, error);
        *odd = done && memcmp(held, dense, bytes) != 0 ? rank : -1;
      }
    }
  }
  free(held);
  return done;
}
