// check_states.c: do the states of a plan lie apart? Those of a pack lie between each other, row by row, and those that
// are pieces of one arena share its elements.
#include <stdlib.h>
#include <string.h>

#include "compiler/plan/check.h"

enum { MOST_STEPS = 1 << 12, MOST_BETWEEN = 1 << 10 };  // of a comparison; of states that one lies between

typedef struct {  // elements of `bytes` bytes each, at steps of several strides
  const PlanState *state;
  int64_t low, high;  // bytes: [low, high) holds all of it
  int count;          // of strides, falling
  int64_t stride[PLAN_MAX_AXES], size[PLAN_MAX_AXES], bytes;

} Box;

static int by_low(const void *a, const void *b) {
  const Box *x = a, *y = b;
  return x->low != y->low ? (x->low > y->low ? 1 : -1) : (x->high > y->high) - (x->high < y->high);
}

static int64_t local_size(const PlanState *state, int axis) {
  return state->cut[axis].count > 0 ? state->cut[axis].local : state->size[axis];
}

static Box box_of(const PlanState *state) {
  Box box = {.state = state, .bytes = element_type_bytes(state->type)};
  int64_t last = 0;
  for (int a = 0; a < state->axis_count; a++) {
    const int64_t size = local_size(state, a);
    if (size == 1) {  // whatever its stride
      continue;
    }
    const int64_t stride = state->stride[a] * box.bytes;
    int at = box.count++;
    for (; at > 0 && box.stride[at - 1] < stride; at--) {
      box.stride[at] = box.stride[at - 1];
      box.size[at] = box.size[at - 1];
    }
    box.stride[at] = stride;
    box.size[at] = size;
    last += (size - 1) * stride;
  }
  box.low = state->flat_piece ? state->flat_first * box.bytes : state->offset;
  box.high = box.low + last + box.bytes;
  return box;
}

// The bytes that the dims from `dim` on reach over.
static int64_t reach(const Box *box, int dim) {
  int64_t bytes = box->bytes;
  for (int i = dim; i < box->count; i++) {
    bytes += (box->size[i] - 1) * box->stride[i];
  }
  return bytes;
}

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

// Do the dims of `a` from i on and those of `b` from j on, `apart` bytes behind those of `a`, share a byte? Row by row:
// the longer of the strides that come next decides which rows of the one can meet rows of the other. Where that takes
// too many steps, they are taken to share one.
static bool boxes_meet(const Box *a, int i, const Box *b, int j, int64_t apart, int *steps) {
  if (apart >= reach(a, i) || -apart >= reach(b, j)) {
    return false;
  }
  if ((i == a->count && j == b->count) || ++*steps > MOST_STEPS) {
    return true;
  }
  const int64_t of_a = i < a->count ? a->stride[i] : 0, of_b = j < b->count ? b->stride[j] : 0;
  const int64_t stride = of_a > of_b ? of_a : of_b;
  const bool in_a = of_a == stride, in_b = of_b == stride;
  const int64_t rows_a = in_a ? a->size[i] : 1, rows_b = in_b ? b->size[j] : 1;
  const int64_t row_a = reach(a, i + in_a), row_b = reach(b, j + in_b);
  // Row k + r of `a` against row r of `b`, which is apart - k * stride behind it.
  int64_t low = floor_div(apart - row_a, stride) + 1, high = floor_div(apart + row_b - 1, stride);
  low = low > -(rows_b - 1) ? low : -(rows_b - 1);
  high = high < rows_a - 1 ? high : rows_a - 1;
  for (int64_t k = low; k <= high; k++) {
    if (boxes_meet(a, i + in_a, b, j + in_b, apart - k * stride, steps)) {
      return true;
    }
  }
  return false;
}

// Each row of a box ends before the next one begins, whichever strides its rows have.
static bool has_rows(const Box *box) {
  for (int i = 0; i < box->count; i++) {
    if (box->stride[i] < reach(box, i + 1)) {
      return false;
    }
  }
  return true;
}

// Of boxes in one space, by `low`: each with those before it that are not yet over.
static bool boxes_apart(PlanCheck *v, Box *boxes, int count) {
  qsort(boxes, (size_t)count, sizeof *boxes, by_low);
  int *open = ARENA_ARRAY(v->arena, int, count + 1);
  int open_count = 0;
  for (int i = 0; i < count; i++) {
    int kept = 0;
    for (int k = 0; k < open_count; k++) {
      if (boxes[open[k]].high > boxes[i].low) {
        open[kept++] = open[k];
      }
    }
    open_count = kept;
    for (int k = 0; k < open_count; k++) {
      const Box *before = &boxes[open[k]];
      int steps = 0;
      if (open_count > MOST_BETWEEN || boxes_meet(before, 0, &boxes[i], 0, boxes[i].low - before->low, &steps)) {
        v->what = boxes[i].state->name;
        return check_fail(v, arena_format(v->arena, "lies where the state '%s' does", before->state->name));
      }
    }
    open[open_count++] = i;
  }
  return true;
}

// --- pieces of arenas ---

static int by_arena(const void *a, const void *b) {
  const PlanState *x = ((const Box *)a)->state, *y = ((const Box *)b)->state;
  if (x->offset != y->offset) {
    return x->offset > y->offset ? 1 : -1;
  }
  if (x->flat_piece != y->flat_piece) {
    return x->flat_piece > y->flat_piece ? 1 : -1;
  }
  if (x->flat_count != y->flat_count) {
    return x->flat_count - y->flat_count;
  }
  const int order = memcmp(x->flat_mesh, y->flat_mesh, sizeof *x->flat_mesh * (size_t)x->flat_count);
  return order ? order : (int)(((const Box *)a)->bytes - ((const Box *)b)->bytes);
}

// What states of one arena take of a rank's memory.
static Box box_of_arena(const Box *states, int count) {
  const PlanState *state = states->state;
  const int64_t piece = state->flat_piece * states->bytes;
  Box box = {.state = state, .bytes = 1};
  int64_t low = INT64_MAX, high = 0;
  for (int i = 0; i < count; i++) {
    const bool one = states[i].low / piece == (states[i].high - 1) / piece;
    const int64_t begin = one ? states[i].low % piece : 0, end = one ? begin + states[i].high - states[i].low : piece;
    low = begin < low ? begin : low;
    high = end > high ? end : high;
  }
  box.low = state->offset + low;
  box.high = state->offset + high;
  box.count = box.high - box.low > 1;
  box.stride[0] = 1;
  box.size[0] = box.high - box.low;
  return box;
}

bool check_states_apart(PlanCheck *v) {
  const Plan *plan = v->plan;
  Box *whole = ARENA_ARRAY(v->arena, Box, plan->state_count + 1);
  Box *pieces = ARENA_ARRAY(v->arena, Box, plan->state_count + 1);
  int whole_count = 0, piece_count = 0;
  for (int i = 0; i < plan->state_count; i++) {
    const bool piece = plan->states[i].flat_piece != 0;
    Box *box = piece ? &pieces[piece_count++] : &whole[whole_count++];
    *box = box_of(&plan->states[i]);
    if (!has_rows(box)) {
      v->what = plan->states[i].name;
      return check_fail(v, "has two elements in one place");
    }
  }
  qsort(pieces, (size_t)piece_count, sizeof *pieces, by_arena);
  bool good = true;
  for (int first = 0, end; good && first < piece_count; first = end) {
    for (end = first + 1; end < piece_count && by_arena(&pieces[first], &pieces[end]) == 0;) {
      end++;
    }
    whole[whole_count++] = box_of_arena(&pieces[first], end - first);
    good = boxes_apart(v, &pieces[first], end - first);
  }
  return good && boxes_apart(v, whole, whole_count);
}
