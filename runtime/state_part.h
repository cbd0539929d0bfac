// state_part.h: the part of a tensor that a rank holds, and copying between it and the whole tensor.
#ifndef MDL_RUNTIME_STATE_PART_H
#define MDL_RUNTIME_STATE_PART_H

#include "runtime/states.h"

typedef struct {  // of the first axis; `dense` begins with them
  char *dense;
  int64_t first, count;
} Rows;

Rows all_rows(const PlanState *state, const void *dense);

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

// Where the part is; nothing is allocated.
void part_place(Part *part, const StatePart *of, const int *coordinate, const Rows *rows);
bool part_is_dense(const Part *part);  // it is the whole tensor, in written order and without gaps
int64_t part_bytes(const Part *part);  // of its memory
// `span`: where the memory of the part lies; NULL: memory for it is taken. gather: as part_copy is called.
bool part_open(Part *part, const char *span, bool gather, Error *error);
void part_close(Part *part);
// From the memory of the part into rows of the whole tensor, or back; what pads is 0 in memory.
void part_copy(const Part *part, bool gather);

#endif
