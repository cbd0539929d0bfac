// largest.h: what takes the memory of a step, and what would make it less.
#ifndef MDL_COMPILER_LOWER_LARGEST_H
#define MDL_COMPILER_LOWER_LARGEST_H

#include "base/buffer.h"
#include "compiler/plan/plan.h"

// "layers.*.up.y 36 GiB in 24 (gpt2.mdl:33)" and so on: the values of a program, the largest first.
void largest_print(const Plan *plan, ProgramKind kind, const char *between, Buffer *out);

// The same for what a microbatch offloads.
void largest_offloaded(Arena *arena, const Plan *plan, const char *between, Buffer *out);
void largest_list(const Plan *plan, const PlanValue *values, int count, const char *between, Buffer *out);

// The program that has the largest transient arena.
ProgramKind largest_program(const Plan *plan);

#endif
