// plan_play.h: everything that a plan can be made to do on the CPU: all programs on all ranks, as threads, with inputs
// drawn at random; saving and loading; what `inspect` says.
#ifndef MDL_TESTS_FUZZ_PLAN_PLAY_H
#define MDL_TESTS_FUZZ_PLAN_PLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "compiler/plan/operands.h"

typedef enum { PLAY_DONE, PLAY_REFUSED, PLAY_LARGE } Played;

// Opens once what each device would open and close again.
void play_prepare(void);

// What the instructions of all programs compute, about; and the bytes of all arenas of all ranks.
double play_work(const PlanSet *set);
double play_bytes(const PlanSet *set);

// REFUSED: a device said what it cannot do. LARGE: more memory than a try may take.
Played play_plan(const PlanSet *set, uint64_t seed, const char *directory);

#endif
