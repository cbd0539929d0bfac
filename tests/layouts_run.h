// layouts_run.h: compiles a text under a layout and runs it on virtual ranks, tensors as doubles by their logical
// names.
//
// Setting a tensor gives every rank its part; getting one puts the parts together and checks that ranks which hold the
// same elements agree to the bit. A failure fails the test, or ends the process if it is a child of the test.
#ifndef MDL_TESTS_LAYOUTS_RUN_H
#define MDL_TESTS_LAYOUTS_RUN_H

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/mix.h"
#include "compiler/compile.h"
#include "runtime/element.h"
#include "runtime/session.h"

typedef struct {
  Arena *arena;
  PlanSet *set;
  Session session;
} LayoutRun;

static bool layout_child;                        // this process was forked for one layout
static const char *layout_when = "";             // what it is doing
static void (*layout_failed)(const char *text);  // told of a failure instead of the output; does not return

__attribute__((format(printf, 1, 2), noreturn)) static inline void layout_fail(const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (layout_failed) {
    layout_failed(text);
  }
  printf("%s\n", text);
  fflush(NULL);
  if (layout_child) {
    _exit(1);
  }
  fail_msg("%s", text);
  abort();
}

// NULL when the text does not compile under this layout; what is wrong goes to `said`, unless that is NULL.
static inline LayoutRun *layout_compile(const char *file, const CompileOptions *given, FILE *said) {
  Arena *arena = arena_create();
  LayoutRun *run = ARENA_NEW(arena, LayoutRun);
  CompileOptions options = *given;
  options.file = file;
  options.bucket_bytes = options.bucket_bytes ? options.bucket_bytes : 1024;  // small models have several buckets too
  options.part_rows = options.part_rows ? options.part_rows : 2;              // and products in parts
  Diag *diag = diag_create(arena);
  run->arena = arena;
  if (compile_plans(arena, diag, &options, &run->set)) {
    return run;
  }
  if (said) {
    diag_print(diag, said, false);
  }
  arena_destroy(arena);
  return NULL;
}

// Half of all layouts run in an order that is drawn among those that their plans allow.
static inline uint64_t layout_order(const PlanSet *set) {
  uint64_t mixed = 0;
  for (const char *c = set->plans[0]->run.layout; c && *c; c++) {
    mixed = mix_word(mixed, (unsigned char)*c);
  }
  return mixed % 2 ? mixed : 0;
}

// A text that is in no file.
static inline LayoutRun *layout_compile_text(const char *text, const CompileOptions *given) {
  static char path[32];  // the plan speaks of it for as long as it is run
  snprintf(path, sizeof path, "/tmp/layouts_XXXXXX");
  FILE *to = fdopen(mkstemp(path), "w");
  assert_non_null(to);
  fputs(text, to);
  fclose(to);
  LayoutRun *run = layout_compile(path, given, stdout);
  unlink(path);
  if (!run) {
    layout_fail("this does not compile:\n%s", text);
  }
  return run;
}

static inline bool layout_open_on(LayoutRun *run, const Backend *backend, double deadline, Error *error) {
  SessionOptions options = {.threads = 1, .deadline_seconds = deadline, .order = layout_order(run->set)};
  return session_open_ranks(&run->session, run->set, backend, &options, error);
}

static inline bool layout_open(LayoutRun *run, double deadline, Error *error) {
  return layout_open_on(run, &backend_cpu, deadline, error);
}

static inline void layout_close(LayoutRun *run) {
  session_close(&run->session);
  arena_destroy(run->arena);
}

// A number in [0, 1) that depends on the tensor and the place in it alone.
static inline double drawn(const char *name, int64_t at, uint64_t seed) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + (uint64_t)at;
  for (const char *c = name; *c; c++) {
    x = (x ^ (unsigned char)*c) * 0x100000001b3u;
  }
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdu;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53u;
  x ^= x >> 33;
  return (double)(x >> 11) / 9007199254740992.0;
}

// Where element number `at` of a rank's part, dense in the order of its axes, is: in the whole tensor (-1: padding) and
// in the rank's memory (elements).
static inline int64_t part_element(const Plan *plan, const int *coordinate, int axes, const int64_t *size,
                                   const PlanCut *cut, const int64_t *stride, int64_t at, int64_t *local) {
  int64_t whole = 0, step = 1;
  bool padding = false;
  *local = 0;
  for (int i = axes - 1; i >= 0; i--) {
    int64_t index = at % cut[i].local, position = plan_position(plan, &cut[i], coordinate, index);
    at /= cut[i].local;
    *local += index * stride[i];
    padding |= position >= size[i];
    whole += position * step;
    step *= size[i];
  }
  return padding ? -1 : whole;
}

static inline int64_t part_count(int axes, const PlanCut *cut) {
  int64_t count = 1;
  for (int i = 0; i < axes; i++) {
    count *= cut[i].local;
  }
  return count;
}

static inline int64_t whole_count(int axes, const int64_t *size) {
  int64_t count = 1;
  for (int i = 0; i < axes; i++) {
    count *= size[i];
  }
  return count;
}

typedef void ElementVisit(void *context, Device *device, ArenaClass arena, int64_t offset, ElementType type,
                          int64_t whole);

// Calls back for each element of a state that a rank holds.
static inline void state_elements(LayoutRun *run, int64_t rank, const PlanState *state, ElementVisit *visit,
                                  void *context) {
  const Plan *plan = session_plan(&run->session, rank);
  int coordinate[PLAN_MAX_MESH] = {0};
  plan_coordinates(plan, rank, coordinate);
  int64_t bytes = element_type_bytes(state->type), count = part_count(state->axis_count, state->cut);
  int64_t piece = plan_part(plan, state->flat_mesh, state->flat_count, coordinate);
  for (int64_t i = 0; i < count; i++) {
    int64_t local,
        whole = part_element(plan, coordinate, state->axis_count, state->size, state->cut, state->stride, i, &local);
    if (state->flat_piece) {
      local += state->flat_first;
      if (local / state->flat_piece != piece) {
        continue;
      }
      local %= state->flat_piece;
    }
    visit(context, session_device(&run->session, rank), ARENA_PERSISTENT, state->offset + local * bytes, state->type,
          whole);
  }
}

typedef struct {
  const Backend *backend;
  const double *from;
  double *to;
  bool *known;
  const char *name;
  bool zeros;  // padding has nothing else
} Elements;

static inline void element_set(void *context, Device *device, ArenaClass arena, int64_t offset, ElementType type,
                               int64_t whole) {
  const Elements *elements = context;
  char bytes[8] = {0};
  Error error = {0};
  element_put(type, bytes, whole < 0 ? 0 : elements->from[whole]);
  if (!elements->backend->write(device, arena, offset, bytes, element_type_bytes(type), &error)) {
    layout_fail("%s: %s", elements->name, error.text);
  }
}

static inline void element_take(void *context, Device *device, ArenaClass arena, int64_t offset, ElementType type,
                                int64_t whole) {
  const Elements *elements = context;
  char bytes[8];
  Error error = {0};
  if (!elements->backend->read(device, arena, offset, bytes, element_type_bytes(type), &error)) {
    layout_fail("%s: %s", elements->name, error.text);
  }
  double value = element_get(type, bytes);
  if (whole < 0) {
    if (elements->zeros && value != 0) {
      layout_fail("%s '%s' has %.17g for padding, not 0", layout_when, elements->name, value);
    }
    return;
  }
  if (elements->known[whole] && value != elements->to[whole] && !(isnan(value) && isnan(elements->to[whole]))) {
    layout_fail("ranks disagree on %s '%s'[%lld]: %.17g and %.17g", layout_when, elements->name, (long long)whole,
                value, elements->to[whole]);
  }
  elements->known[whole] = true;
  elements->to[whole] = value;
}

static inline const PlanState *state_on(const LayoutRun *run, int64_t rank, const char *name) {
  const Plan *plan = session_plan(&run->session, rank);
  int at = plan_find_state(plan, name);
  return at < 0 ? NULL : &plan->states[at];
}

static inline void layout_set_state(LayoutRun *run, const char *name, const double *data) {
  for (int64_t rank = 0; rank < run->session.ranks; rank++) {
    const PlanState *state = state_on(run, rank, name);
    Elements elements = {.backend = run->session.backend, .from = data, .name = name};
    if (state) {
      state_elements(run, rank, state, element_set, &elements);
    }
  }
}

static inline double *layout_state(LayoutRun *run, Arena *arena, const char *name, int64_t *count) {
  Elements elements = {.backend = run->session.backend, .name = name};
  *count = 0;
  for (int64_t rank = 0; rank < run->session.ranks; rank++) {
    const PlanState *state = state_on(run, rank, name);
    if (state && !elements.to) {
      *count = whole_count(state->axis_count, state->size);
      elements.to = ARENA_ARRAY(arena, double, *count + 1);
      elements.known = ARENA_ARRAY(arena, bool, *count + 1);
    }
    if (state) {
      elements.zeros = state->role == STATE_PARAMETER;
      state_elements(run, rank, state, element_take, &elements);
    }
  }
  for (int64_t i = 0; i < *count; i++) {
    if (!elements.known[i]) {
      layout_fail("%s: no rank holds element %lld", name, (long long)i);
    }
  }
  return elements.to;
}

static inline double input_number(const PlanInput *input, int64_t at, uint64_t seed) {
  double u = drawn(input->name, at, seed);
  return input->type == TYPE_INDEX  ? floor(u * (double)input->bound)
         : input->type == TYPE_BOOL ? u < 0.6
         : input->type == TYPE_INT  ? floor(u * 3)
                                    : 4 * u - 2;
}

// The sizes of an input over all slots; how many elements further the same element of the next slot is. Only what has
// the axis `batch` differs between them.
static inline int64_t sizes_of_slots(const PlanInput *input, int slots, int64_t *size) {
  int64_t step = 1, further = 0;
  for (int a = input->axis_count - 1; a >= 0; a--) {
    const bool batch = strcmp(input->axis[a], "batch") == 0;
    size[a] = input->size[a] * (batch ? slots : 1);
    further = batch ? step * input->size[a] : further;
    step *= size[a];
  }
  return further;
}

static inline void layout_draw_input(LayoutRun *run, int64_t rank, const PlanInput *input, int slots, uint64_t seed) {
  Error error = {0};
  int coordinate[PLAN_MAX_MESH] = {0};
  const Plan *plan = session_plan(&run->session, rank);
  plan_coordinates(plan, rank, coordinate);
  int64_t bytes = element_type_bytes(input->type), count = part_count(input->axis_count, input->cut),
          stride[PLAN_MAX_AXES], size[PLAN_MAX_AXES], step = 1;
  const int64_t further = sizes_of_slots(input, slots, size);
  for (int a = input->axis_count - 1; a >= 0; a--) {
    stride[a] = step;
    step *= input->cut[a].local;
  }
  for (int slot = 0; slot < slots; slot++) {
    for (int64_t j = 0; j < count; j++) {
      int64_t local,
          of_slot = part_element(plan, coordinate, input->axis_count, input->size, input->cut, stride, j, &local),
          at = part_element(plan, coordinate, input->axis_count, size, input->cut, stride, j, &local);
      char number[8] = {0};
      element_put(input->type, number, of_slot < 0 ? 0 : input_number(input, slot * further + at, seed));
      int64_t offset = input->place.offset + slot * input->place.slot_stride + local * bytes;
      if (!run->session.backend->write(session_device(&run->session, rank), input->place.arena, offset, number, bytes,
                                       &error)) {
        layout_fail("%s: %s", input->name, error.text);
      }
    }
  }
}

// Every input of a program, the same numbers under every layout: row k of the batch is row k.
static inline void layout_draw_inputs(LayoutRun *run, ProgramKind kind, uint64_t seed) {
  for (int64_t rank = 0; rank < run->session.ranks; rank++) {
    const PlanProgram *program = &session_plan(&run->session, rank)->programs[kind];
    for (int i = 0; i < program->input_count; i++) {
      const PlanInput *input = &program->inputs[i];
      if (strcmp(input->name, "step") != 0) {
        layout_draw_input(run, rank, input, input->place.slot_stride ? program->slots : 1, seed);
      }
    }
  }
}

#endif
