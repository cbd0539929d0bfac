// state_part.c: positions of a part in the whole tensor, and copying by rows or, where axes are turned, by tiles.
#include "runtime/state_part.h"

#include <stdlib.h>
#include <string.h>

Rows all_rows(const PlanState *state, const void *dense) {
  return (Rows){(char *)(uintptr_t)dense, 0, state_rows(state)};
}

bool part_is_dense(const Part *part) {
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

void part_place(Part *part, const StatePart *of, const int *coordinate, const Rows *rows) {
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

int64_t part_bytes(const Part *part) {
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

bool part_open(Part *part, const char *span, bool gather, Error *error) {
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

void part_close(Part *part) {
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

void part_copy(const Part *part, bool gather) {
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
