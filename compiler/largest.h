// largest.h: what takes the memory of a step, and what would make it less.
#ifndef MDL_COMPILER_LARGEST_H
#define MDL_COMPILER_LARGEST_H

#include "base/buffer.h"
#include "compiler/plan.h"

// "layers.*.up.y 36 GiB in 24 (gpt2.mdl:33)" and so on: the values of a program, the largest first.
void largest_print(const Plan *plan, ProgramKind kind, const char *between, Buffer *out);

// The same for what a microbatch offloads.
void largest_offloaded(Arena *arena, const Plan *plan, const char *between, Buffer *out);

// The program that has the largest transient arena.
ProgramKind largest_program(const Plan *plan);

// An estimate for plans of one rank: the least number of microbatches with which the values of a training step take no
// more than so many bytes, and what they need then. 0: none.
int64_t largest_microbatches(const Plan *plan, int64_t bytes, int64_t *needs);

#endif
