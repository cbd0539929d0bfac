// bench_inputs.h: random inputs for benchmarks: what an element is depends on where it lies in the whole batch.
//
// So ranks that hold the same rows hold the same tokens, and others have some of their own, under every layout.
#ifndef MDL_TESTS_BENCH_INPUTS_H
#define MDL_TESTS_BENCH_INPUTS_H

#include <stdlib.h>
#include <string.h>

#include "base/mix.h"
#include "runtime/element.h"
#include "runtime/session.h"

// One rank's part of a slot: an index below the bound of the input, else 0 or 1. Padding is zeros.
static inline void inputs_fill(const Plan *plan, const PlanInput *input, const int *coordinate, int slot, uint64_t draw,
                               char *values, int64_t count) {
  const uint64_t bound = input->bound ? (uint64_t)input->bound : 2;
  int64_t local[PLAN_MAX_AXES] = {0};
  for (int64_t at = 0; at < count; at++) {
    int64_t whole = slot, rest = at;  // rows come first, and those of a slot follow those of the one before
    bool inside = true;
    for (int a = input->axis_count - 1; a >= 0; a--) {
      const int64_t size = input->cut[a].count ? input->cut[a].local : input->size[a];
      local[a] = rest % size;
      rest /= size;
    }
    for (int a = 0; a < input->axis_count; a++) {
      const int64_t position = plan_position(plan, &input->cut[a], coordinate, local[a]);
      inside &= position < input->size[a];
      whole = whole * input->size[a] + position;
    }
    const uint64_t random = mix_word(draw, (uint64_t)whole);
    element_put(input->type, values + at * element_type_bytes(input->type),
                inside ? (double)((random >> 32) * bound >> 32) : 0);
  }
}

static inline bool input_write(Session *session, int64_t rank, const PlanInput *input, int which, int64_t step,
                               Error *error) {
  const Plan *plan = session_plan(session, rank);
  int coordinate[PLAN_MAX_MESH] = {0};
  int64_t count = 1;
  plan_coordinates(plan, rank, coordinate);
  for (int a = 0; a < input->axis_count; a++) {
    count *= input->cut[a].count ? input->cut[a].local : input->size[a];
  }
  const int64_t bytes = count * element_type_bytes(input->type);
  char *values = malloc((size_t)bytes);
  const int slots = input->place.slot_stride ? plan->programs[PROGRAM_TRAIN].slots : 1;
  bool good = values || error_set(error, 3, "no memory for the input '%s'", input->name);
  for (int slot = 0; good && slot < slots; slot++) {
    inputs_fill(plan, input, coordinate, slot, mix_word((uint64_t)step, (uint64_t)which), values, count);
    good = session->backend->write(session_device(session, rank), input->place.arena,
                                   input->place.offset + slot * input->place.slot_stride, values, bytes, error);
  }
  free(values);
  return good;
}

// What an input is called decides what is drawn, since stages have different ones.
static inline int input_number(const char *name) {
  int number = 0;
  for (; *name; name++) {
    number = number * 31 % 65521 + (unsigned char)*name;
  }
  return number;
}

// All inputs of the train program of all ranks, but the number of the step.
static inline bool inputs_write(Session *session, int64_t step, Error *error) {
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    const PlanProgram *program = &session_plan(session, rank)->programs[PROGRAM_TRAIN];
    for (int i = 0; i < program->input_count; i++) {
      const PlanInput *input = &program->inputs[i];
      if (strcmp(input->name, "step") != 0 &&
          !input_write(session, rank, input, input_number(input->name), step, error)) {
        return false;
      }
    }
  }
  return true;
}

#endif
