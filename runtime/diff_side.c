// diff_side.c: outputs and states of one side of a comparison, whole, whatever parts of them the ranks have.
#include "runtime/diff_side.h"

#include <string.h>

#include "runtime/element.h"

static int64_t elements_of(int axis_count, const int64_t *size) {
  int64_t count = 1;
  for (int i = 0; i < axis_count; i++) {
    count *= size[i];
  }
  return count;
}

// Sorts axes by name: the order in memory is the compiler's.
static void order_axes(const PlanOutput *output, int *order) {
  for (int i = 0; i < output->axis_count; i++) {
    int at = i;
    for (; at > 0 && strcmp(output->axis[i], output->axis[order[at - 1]]) < 0; at--) {
      order[at] = order[at - 1];
    }
    order[at] = i;
  }
}

// The elements of `tensor` as one rank has them.
static bool rank_read(Arena *arena, const Session *session, int64_t rank, const PlanOutput *output, const int *order,
                      const DiffTensor *tensor, double *data, Error *error) {
  const int64_t bytes = element_type_bytes(output->type);
  char *memory = arena_alloc(arena, (size_t)plan_output_bytes(output));
  if (!session->backend->read(session_device(session, rank), output->place.arena, output->place.offset, memory,
                              plan_output_bytes(output), error)) {
    return false;
  }
  for (int64_t i = 0; i < tensor->count; i++) {
    int64_t at = i, local = 0;
    for (int a = tensor->axis_count - 1; a >= 0; a--) {
      local += at % tensor->size[a] * output->stride[order[a]];
      at /= tensor->size[a];
    }
    data[i] = element_get(output->type, memory + local * bytes);
  }
  return true;
}

void side_set_digits(const Side *side, DiffTensor *tensor) {
  const ElementType coarsest = side->trial.set->plans[0]->coarsest;
  if (element_type_floating(tensor->type) && element_type_bytes(coarsest) < element_type_bytes(tensor->type)) {
    tensor->type = coarsest;
  }
}

static bool same_axes(const PlanOutput *output, const int *order, const DiffTensor *tensor) {
  bool same = output->axis_count == tensor->axis_count;
  for (int i = 0; i < tensor->axis_count && same; i++) {
    same = strcmp(output->axis[order[i]], tensor->axis[i]) == 0 && output->size[order[i]] == tensor->size[i];
  }
  return same;
}

bool side_output(Arena *arena, Side *side, ProgramKind program, const char *name, DiffTensor *tensor, bool *found,
                 int64_t *odd, Error *error) {
  const Session *session = &side->trial.session;
  int64_t first;
  int order[PLAN_MAX_AXES];
  const PlanOutput *output = session_find_output(session, program, name, &first);
  *found = output != NULL;
  *odd = -1;
  if (!output) {
    return true;
  }
  order_axes(output, order);
  *tensor = (DiffTensor){.name = name, .type = output->type, .axis_count = output->axis_count};
  for (int i = 0; i < output->axis_count; i++) {
    tensor->axis[i] = output->axis[order[i]];
    tensor->size[i] = output->size[order[i]];
  }
  tensor->count = elements_of(tensor->axis_count, tensor->size);
  tensor->data = ARENA_ARRAY(arena, double, tensor->count + 1);
  double *other = ARENA_ARRAY(arena, double, tensor->count + 1);
  for (int64_t rank = first; rank < session->ranks; rank++) {
    const PlanOutput *here = session_output(session_plan(session, rank), program, name);
    double *to = rank == first ? tensor->data : other;
    if (!here) {
      continue;
    }
    order_axes(here, order);
    const bool alike = same_axes(here, order, tensor);
    if (alike && !rank_read(arena, session, rank, here, order, tensor, to, error)) {
      return false;
    }
    const bool same = alike && memcmp(to, tensor->data, sizeof *to * (size_t)tensor->count) == 0;
    *odd = same || *odd >= 0 ? *odd : rank;
  }
  return true;
}

bool side_state(Arena *arena, Side *side, const LogicalState *state, DiffTensor *tensor, int64_t *odd, Error *error) {
  const PlanState *of = state->state;
  *tensor = (DiffTensor){.name = of->name, .type = of->type, .axis_count = of->axis_count};
  memcpy(tensor->axis, of->axis, sizeof tensor->axis);
  memcpy(tensor->size, of->size, sizeof tensor->size);
  tensor->count = elements_of(of->axis_count, of->size);
  tensor->data = ARENA_ARRAY(arena, double, tensor->count + 1);
  const int64_t bytes = element_type_bytes(of->type);
  char *dense = arena_alloc(arena, (size_t)(tensor->count * bytes + 8));
  if (!state_gather(&side->trial.session, &side->states, state, dense, error) ||
      !state_differs(&side->trial.session, &side->states, state, dense, odd, error)) {
    return false;
  }
  for (int64_t i = 0; i < tensor->count; i++) {
    tensor->data[i] = element_get(of->type, dense + i * bytes);
  }
  return true;
}

bool side_set_state(Arena *scratch, Side *side, const LogicalState *state, const DiffTensor *tensor, Error *error) {
  const int64_t bytes = element_type_bytes(state->state->type);
  char *dense = arena_alloc(scratch, (size_t)(tensor->count * bytes + 8));
  for (int64_t i = 0; i < tensor->count; i++) {
    element_put(state->state->type, dense + i * bytes, tensor->data[i]);
  }
  state_round_once(&side->states, state, TYPE_F64, tensor->data, dense);
  return state_scatter(&side->trial.session, &side->states, state, dense, error);
}

// --- making two alike ---

// Sums blocks of an axis: a value of several microbatches is their sum, that of one is not.
static void fold(Arena *arena, DiffTensor *tensor, int axis, int64_t size) {
  int64_t inner = elements_of(tensor->axis_count - axis - 1, tensor->size + axis + 1), outer;
  const int64_t whole = tensor->size[axis];
  double *sum;
  outer = tensor->count / (inner * whole);
  sum = ARENA_ARRAY(arena, double, outer *size *inner + 1);
  for (int64_t o = 0; o < outer; o++) {
    for (int64_t i = 0; i < whole; i++) {
      for (int64_t k = 0; k < inner; k++) {
        sum[(o * size + i % size) * inner + k] += tensor->data[(o * whole + i) * inner + k];
      }
    }
  }
  tensor->size[axis] = size;
  tensor->count = outer * size * inner;
  tensor->data = sum;
}

bool diff_make_alike(Arena *arena, DiffTensor *a, DiffTensor *b, const int slots[2]) {
  if (a->axis_count != b->axis_count) {
    return false;
  }
  for (int i = 0; i < a->axis_count; i++) {
    const int64_t x = a->size[i], y = b->size[i];
    if (strcmp(a->axis[i], b->axis[i]) != 0 || (x != y && x * slots[0] != y * slots[1])) {
      return false;
    }
    if (x != y) {
      fold(arena, x > y ? a : b, i, x > y ? y : x);
    }
  }
  return true;
}

// --- opening ---

bool side_open(Side *side, Arena *arena, const CompileOptions *given, bool values, const DiffOptions *options,
               Error *error) {
  CompileOptions compile = *given;
  side->values.arena = arena;
  compile.gradients = values;
  compile.values = values ? &side->values : NULL;
  if (!trial_compile(&side->trial, &compile, error)) {
    return false;
  }
  if (options->spoil) {
    options->spoil(options->context, side->number, values, side->trial.set);
  }
  const TrialOptions opening = {
      .data = options->data, .threads = options->threads, .deadline_seconds = options->deadline_seconds};
  return trial_open(&side->trial, &opening, error) && states_open(side->trial.set, &side->states, error);
}

void side_close(Side *side) {
  states_close(&side->states);
  trial_close(&side->trial);
}
