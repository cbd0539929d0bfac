// plan_run.h: compiles a text and runs programs of its plan on the CPU backend, with tensors as doubles. Include once.
//
// A tensor is named axes and dense values in their order; reading and writing follow the plan's places and strides.
// Everything lives in the arena; a failure fails the test.
#ifndef MDL_TESTS_PLAN_RUN_H
#define MDL_TESTS_PLAN_RUN_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "compiler/compile.h"
#include "runtime/device.h"
#include "runtime/element.h"

typedef struct {
  int axis_count;
  const char *const *axis;
  const int64_t *size;
  int64_t count;
  double *data;
} Dense;

typedef struct {
  Arena *arena;
  Plan *plan;
  Device *device;
} PlanRunner;

static inline int64_t elements_of(const int64_t *size, int count) {
  int64_t elements = 1;
  for (int i = 0; i < count; i++) {
    elements *= size[i];
  }
  return elements;
}

static inline Dense dense_make(Arena *arena, const char *const *axis, const int64_t *size, int axis_count) {
  Dense dense = {axis_count, axis, size, elements_of(size, axis_count), NULL};
  dense.data = ARENA_ARRAY(arena, double, dense.count + 1);
  return dense;
}

// Which element of memory with these strides is number `at` of the dense order.
static inline int64_t strided(const int64_t *size, const int64_t *stride, int count, int64_t at) {
  int64_t to = 0;
  for (int i = count - 1; i >= 0; i--) {
    to += at % size[i] * stride[i];
    at /= size[i];
  }
  return to;
}

static inline void must(bool good, const char *what, const Error *error) {
  if (!good) {
    fail_msg("%s: %s", what, error->text);
  }
}

static inline Plan *compile_or_fail(Arena *arena, const CompileOptions *options) {
  Plan *plan = NULL;
  Diag *diag = diag_create(arena);
  if (!compile_plan(arena, diag, options, &plan)) {
    diag_print(diag, stderr, false);
    fail_msg("%s does not compile", options->file);
  }
  return plan;
}

static inline PlanRunner runner_open(const CompileOptions *options) {
  PlanRunner runner = {.arena = arena_create()};
  Error error = {0};
  runner.plan = compile_or_fail(runner.arena, options);
  must(backend_cpu.open(runner.plan, &(DeviceOptions){.threads = 2}, &runner.device, &error), "open", &error);
  return runner;
}

static inline void runner_close(PlanRunner *runner) {
  backend_cpu.close(runner->device);
  arena_destroy(runner->arena);
}

static inline void runner_run(PlanRunner *runner, ProgramKind kind) {
  Error error = {0};
  must(backend_cpu.run(runner->device, kind, &error), program_kind_name(kind), &error);
}

static inline const PlanState *state_find(const PlanRunner *runner, const char *name) {
  int at = plan_find_state(runner->plan, name);
  if (at < 0) {
    fail_msg("the plan has no state '%s'", name);
  }
  return &runner->plan->states[at];
}

// Reads or writes all elements of a state, in its written order.
static inline void state_move(PlanRunner *runner, const PlanState *state, double *data, bool write) {
  Error error = {0};
  int64_t count = elements_of(state->size, state->axis_count), bytes = element_type_bytes(state->type), last = 0;
  for (int i = 0; i < state->axis_count; i++) {
    last += (state->size[i] - 1) * state->stride[i];
  }
  int64_t extent = (last + 1) * bytes;
  char *memory = malloc((size_t)extent);
  assert_non_null(memory);
  must(backend_cpu.read(runner->device, ARENA_PERSISTENT, state->offset, memory, extent, &error), state->name, &error);
  for (int64_t i = 0; i < count; i++) {
    char *at = memory + strided(state->size, state->stride, state->axis_count, i) * bytes;
    if (write) {
      element_put(state->type, at, data[i]);
    } else {
      data[i] = element_get(state->type, at);
    }
  }
  if (write) {
    must(backend_cpu.write(runner->device, ARENA_PERSISTENT, state->offset, memory, extent, &error), state->name,
         &error);
  }
  free(memory);
}

static inline Dense runner_state(PlanRunner *runner, const char *name) {
  const PlanState *state = state_find(runner, name);
  Dense dense = dense_make(runner->arena, state->axis, state->size, state->axis_count);
  state_move(runner, state, dense.data, false);
  return dense;
}

static inline void runner_set_state(PlanRunner *runner, const char *name, double *data) {
  state_move(runner, state_find(runner, name), data, true);
}

// `data`: the blocks of all microbatches one after the other, each dense in the order of the input's axes.
static inline void runner_set_input(PlanRunner *runner, ProgramKind kind, const char *name, const double *data) {
  const PlanProgram *program = &runner->plan->programs[kind];
  Error error = {0};
  for (int i = 0; i < program->input_count; i++) {
    const PlanInput *input = &program->inputs[i];
    if (strcmp(input->name, name) != 0) {
      continue;
    }
    int64_t count = elements_of(input->size, input->axis_count), bytes = element_type_bytes(input->type);
    int slots = input->place.slot_stride ? program->slots : 1;
    char *memory = malloc((size_t)(count * bytes));
    assert_non_null(memory);
    for (int slot = 0; slot < slots; slot++) {
      for (int64_t j = 0; j < count; j++) {
        element_put(input->type, memory + j * bytes, data[slot * count + j]);
      }
      int64_t offset = input->place.offset + slot * input->place.slot_stride;
      must(backend_cpu.write(runner->device, input->place.arena, offset, memory, count * bytes, &error), name, &error);
    }
    free(memory);
    return;
  }
  fail_msg("the program has no input '%s'", name);
}

static inline const PlanOutput *output_find(const PlanRunner *runner, ProgramKind kind, const char *name) {
  const PlanProgram *program = &runner->plan->programs[kind];
  for (int i = 0; i < program->output_count; i++) {
    if (strcmp(program->outputs[i].name, name) == 0) {
      return &program->outputs[i];
    }
  }
  return NULL;
}

static inline Dense runner_output(PlanRunner *runner, ProgramKind kind, const char *name) {
  const PlanOutput *output = output_find(runner, kind, name);
  if (!output) {
    fail_msg("the program has no output '%s'", name);
  }
  Error error = {0};
  Dense dense = dense_make(runner->arena, output->axis, output->size, output->axis_count);
  int64_t bytes = element_type_bytes(output->type);
  char memory[8];
  for (int64_t i = 0; i < dense.count; i++) {
    int64_t at = output->place.offset + strided(output->size, output->stride, output->axis_count, i) * bytes;
    must(backend_cpu.read(runner->device, output->place.arena, at, memory, bytes, &error), name, &error);
    dense.data[i] = element_get(output->type, memory);
  }
  return dense;
}

// The same tensor with its axes in the order of these names.
static inline Dense dense_ordered(Arena *arena, const Dense *from, const char *const *axis) {
  Dense to = {.axis_count = from->axis_count, .axis = axis, .count = from->count};
  int64_t *size = ARENA_ARRAY(arena, int64_t, from->axis_count + 1), stride[PLAN_MAX_AXES] = {0};
  for (int i = 0; i < from->axis_count; i++) {
    int64_t step = 1;
    int at = from->axis_count - 1;
    for (; at >= 0 && strcmp(from->axis[at], axis[i]) != 0; at--) {
      step *= from->size[at];
    }
    if (at < 0) {
      fail_msg("a tensor has no axis '%s'", axis[i]);
    }
    size[i] = from->size[at];
    stride[i] = step;
  }
  to.size = size;
  to.data = ARENA_ARRAY(arena, double, to.count + 1);
  for (int64_t i = 0; i < to.count; i++) {
    to.data[i] = from->data[strided(size, stride, to.axis_count, i)];
  }
  return to;
}

#endif
