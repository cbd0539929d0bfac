// scaled.c: rounds weights to codes with a scale for each row, and multiplies them out again.
#include "runtime/scaled.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "runtime/element.h"

const PlanState *scaled_scales(const Plan *plan, const PlanState *state) {
  static const char before[] = "scale.";
  const size_t head = sizeof before - 1;
  for (int i = 0; state->role == STATE_PARAMETER && state->type == TYPE_E4M3 && i < plan->state_count; i++) {
    const PlanState *other = &plan->states[i];
    if (other->role == STATE_COPY && strncmp(other->name, before, head) == 0 &&
        strcmp(other->name + head, state->name) == 0) {
      return other;
    }
  }
  return NULL;
}

// --- rows ---

typedef struct {  // goes through the elements of a tensor, rows along its last axis, and the scales that belong to them
  const PlanState *state;
  int64_t stride[PLAN_MAX_AXES];  // of scales, by axis of the tensor: 0 where one scale is for all
  int64_t at[PLAN_MAX_AXES];
  int64_t rows, row, scale;  // the scale of the row's first element
  int64_t count, step;       // elements of a row, and scales from one to the next
} Walk;

static Walk walk_begin(const PlanState *state, const PlanState *scales) {
  Walk walk = {.state = state, .rows = 1, .count = 1};
  const int last = state->axis_count - 1;
  int64_t stride = 1;
  for (int s = scales->axis_count - 1; s >= 0; s--) {
    for (int i = 0; i < state->axis_count; i++) {
      walk.stride[i] = strcmp(state->axis[i], scales->axis[s]) == 0 ? stride : walk.stride[i];
    }
    stride *= scales->size[s];
  }
  for (int i = 0; i < last; i++) {
    walk.rows *= state->size[i];
  }
  walk.count = last >= 0 ? state->size[last] : 1;
  walk.step = last >= 0 ? walk.stride[last] : 0;
  return walk;
}

static void walk_next(Walk *walk) {
  walk->row++;
  for (int i = walk->state->axis_count - 2; i >= 0; i--) {
    walk->scale += walk->stride[i];
    if (++walk->at[i] < walk->state->size[i]) {
      return;
    }
    walk->scale -= walk->at[i] * walk->stride[i];
    walk->at[i] = 0;
  }
}

static int64_t scale_count(const PlanState *scales) {
  int64_t count = 1;
  for (int i = 0; i < scales->axis_count; i++) {
    count *= scales->size[i];
  }
  return count;
}

// The least power of two that is not smaller than amax / 448, which is 0.875 * 2^9.
static float scale_of(float amax) {
  int exponent;
  const float part = frexpf(amax, &exponent);
  const float scale = amax > 0 ? ldexpf(1, exponent - (part <= 0.875f ? 9 : 8)) : 0;
  return scale < FLT_MIN ? FLT_MIN : scale;
}

void scaled_round_to_odd(ElementType type, const void *numbers, int64_t count, uint16_t *dense) {
  const char *at = numbers;
  for (int64_t i = 0; i < count; i++) {
    const double exact = element_get(type, at + i * element_type_bytes(type)), near = (double)f32_of_bf16(dense[i]);
    if (near != exact && isfinite(exact)) {
      const bool beyond = fabs(near) > fabs(exact);  // the one below has the bits of a number that is one less
      dense[i] = (uint16_t)((beyond ? dense[i] - 1 : dense[i]) | 1);
    }
  }
}

void scaled_encode(const PlanState *state, const PlanState *scales, const uint16_t *dense, uint8_t *codes,
                   float *scale) {
  const int64_t count = scale_count(scales);
  memset(scale, 0, sizeof *scale * (size_t)count);
  for (Walk walk = walk_begin(state, scales); walk.row < walk.rows; walk_next(&walk)) {
    const uint16_t *row = dense + walk.row * walk.count;
    float *most = scale + walk.scale;
    for (int64_t i = 0; i < walk.count; i++) {
      const float size = fabsf(f32_of_bf16(row[i]));
      most[i * walk.step] = isfinite(size) && size > most[i * walk.step] ? size : most[i * walk.step];
    }
  }
  for (int64_t i = 0; i < count; i++) {
    scale[i] = scale_of(scale[i]);
  }
  for (Walk walk = walk_begin(state, scales); walk.row < walk.rows; walk_next(&walk)) {
    const uint16_t *row = dense + walk.row * walk.count;
    for (int64_t i = 0; i < walk.count; i++) {
      const float x = f32_of_bf16(row[i]);
      codes[walk.row * walk.count + i] = e4m3_of_f32(isfinite(x) ? x / scale[walk.scale + i * walk.step] : NAN);
    }
  }
}

void scaled_decode(const PlanState *state, const PlanState *scales, const uint8_t *codes, const float *scale,
                   uint16_t *dense) {
  for (Walk walk = walk_begin(state, scales); walk.row < walk.rows; walk_next(&walk)) {
    for (int64_t i = 0; i < walk.count; i++) {
      const int64_t at = walk.row * walk.count + i;
      dense[at] = bf16_of_f32(f32_of_e4m3(codes[at]) * scale[walk.scale + i * walk.step]);
    }
  }
}
