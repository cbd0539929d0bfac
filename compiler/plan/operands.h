// operands.h: what memory an instruction touches, and how: by instructions.def.
#ifndef MDL_COMPILER_PLAN_OPERANDS_H
#define MDL_COMPILER_PLAN_OPERANDS_H

#include "compiler/plan/plan.h"

typedef enum { READS = 1, WRITES = 2, UPDATES = READS | WRITES } Access;

enum { EXTENT_DIMS = 10 };

typedef struct {
  int64_t first, last;  // elements that are touched, counted from a place
  bool overflow;
  bool whole;  // all between them may be; else those that dimensions lead to, from the place on
  int dim_count;
  int64_t size[EXTENT_DIMS], stride[EXTENT_DIMS];
} Extent;

typedef struct {
  Place *place;
  const char *name;  // "a", "statistics"; of a kernel's port NULL
  int port;          // of a kernel, else -1
  bool memory;       // false: a kernel's port of which the place is the index where coordinates begin
  Access access;
  int64_t bytes;  // of an element
  Extent extent;
} Operand;

typedef struct {
  int count;
  Operand at[KERNEL_MAX_PORTS];
} Operands;

typedef struct {  // of a plan, or of one that is being made
  Kernel *const *kernels;
  ElementType real;
} OperandsOf;

static inline OperandsOf operands_of(const Plan *plan) {
  return (OperandsOf){plan->kernels, plan->real};
}

// In the order of instructions.def. Each place comes once. The instruction's kernel and its sizes must be possible.
void instruction_operands(OperandsOf of, Instruction *instruction, Operands *out);

// For readers: the places are those of the instruction all the same.
void instruction_touches(const Plan *plan, const Instruction *instruction, Operands *out);

// Adds a dimension: elements at 0, stride, ... (size - 1) * stride from those so far.
void extent_add(Extent *extent, int64_t size, int64_t stride);

#endif
