// ahead.h: every kernel of a set of plans compiled before there is a GPU, and put into the plans.
#ifndef MDL_KERNELS_CUDA_AHEAD_H
#define MDL_KERNELS_CUDA_AHEAD_H

#include "compiler/plan/plan.h"

enum { CUDA_AHEAD_TARGETS = 8 };

// The targets of a list like "sm_90a,compute_80", each once, in the arena; "cpu" stands for none. Returns how many, or
// -1 with `why`, for words that are no target.
int cuda_targets_read(Arena *arena, const char *list, const char *targets[CUDA_AHEAD_TARGETS], const char **why);

typedef struct {
  const char *cache;  // as in compile.h
  // NULL: nobody watches. Called from the caller's thread.
  void (*progress)(void *context, const char *target, int done, int count);
  void *context;
} CudaAhead;

// Generates the kernels of all plans for each target, compiles each text once, side by side on all cores, and sets
// targets of all plans, whose memory is the arena's. False, with `why` in the arena, if there is no compiler, if an
// instruction has no kernel, or if memory is out; the plans are then as they were.
bool cuda_ahead(Arena *arena, PlanSet *set, const char *const *targets, int count, const CudaAhead *options,
                const char **why);

#endif
