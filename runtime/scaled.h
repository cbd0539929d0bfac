// scaled.h: a frozen parameter as ranks hold it, in codes of 8 bits and scales, and as checkpoints do, in 16 bits.
//
// compiler/precision/codes.c says what codes and scales are. code * scale has 16 bits, and gives the same numbers
// again.
#ifndef MDL_RUNTIME_SCALED_H
#define MDL_RUNTIME_SCALED_H

#include "compiler/plan/plan.h"

// The state with the scales of a parameter in 8 bits; NULL: the state is none.
const PlanState *scaled_scales(const Plan *plan, const PlanState *state);

// Of numbers with more than 16 bits, which `dense` has rounded to the nearest: what is not exact becomes the neighbour
// whose last bit is 1 (round to odd), of which scaled_encode makes the codes and scales of the numbers themselves.
void scaled_round_to_odd(ElementType type, const void *numbers, int64_t count, uint16_t *dense);

// Whole tensors, dense in written order. What is not finite is NaN in codes, and counts for no scale.
void scaled_encode(const PlanState *state, const PlanState *scales, const uint16_t *dense, uint8_t *codes,
                   float *scale);
void scaled_decode(const PlanState *state, const PlanState *scales, const uint8_t *codes, const float *scale,
                   uint16_t *dense);

#endif
