// session.c: programs on all ranks, and numbers read from them.
#include "runtime/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "compiler/plan/numbers.h"
#include "runtime/crew.h"
#include "runtime/element.h"
#include "runtime/processes.h"

// The plan of a session of one rank, as a set.
typedef struct {
  PlanSet set;
  Plan *plan;
} Single;

bool session_open(Session *session, const Plan *plan, const Backend *backend, int threads, Error *error) {
  DeviceOptions options = {.threads = threads};
  *session = (Session){.plan = plan, .backend = backend, .ranks = 1};
  Single *single = calloc(1, sizeof *single);
  if (!single) {
    return error_set(error, 3, "no memory");
  }
  single->plan = (Plan *)(uintptr_t)plan;  // nothing changes a plan
  single->set = (PlanSet){1, &single->plan};
  session->single = single;
  session->set = &single->set;
  return backend->open(plan, &options, &session->device, error);
}

// What the environment asks for, where the options do not. `alone`: the rank has no thread or process of its own.
static bool environment_read(const SessionOptions *options, int64_t count, bool alone, RanksOptions *ranks,
                             Error *error) {
  const char *fault = getenv("MDL_FAULT"), *order = getenv("MDL_ORDER");
  ranks->order = options->order;
  if (order && *order && !options->order && !ranks_order_parse(order, &ranks->order)) {
    return error_set(error, 2, "MDL_ORDER is '%.80s'; it says a number that an order is drawn with: 17", order);
  }
  if (!fault || !*fault || ranks->fault.kind != RANKS_NO_FAULT) {
    return true;
  }
  if (!ranks_fault_parse(fault, &ranks->fault)) {
    return error_set(error, 2, "MDL_FAULT is '%.80s'; it says die, hang, skip or flip, a rank and a number: hang:2:17",
                     fault);
  }
  if ((ranks->fault.rank < count && !alone) || options->several) {
    return true;
  }
  return alone ? error_set(error, 2, "MDL_FAULT is '%.80s', and one rank meets no others; take a layout of several",
                           fault)
               : error_set(error, 2, "MDL_FAULT is '%.80s', and there are the ranks 0 to %lld alone", fault,
                           (long long)count - 1);
}

bool session_open_ranks(Session *session, const PlanSet *set, const Backend *backend, const SessionOptions *options,
                        Error *error) {
  RanksOptions ranks = {
      .deadline_seconds = options->deadline_seconds, .fault = options->fault, .record = options->record};
  *session = (Session){.set = set, .plan = set->plans[0], .backend = backend, .ranks = plan_ranks(set->plans[0])};
  const bool alone = session->ranks == 1 && !(options->apart && backend->apart);
  if (!environment_read(options, session->ranks, alone, &ranks, error)) {
    return false;
  }
  if (alone) {
    DeviceOptions device = {.threads = options->threads, .record = options->record, .order = ranks.order};
    return backend->open(session->plan, &device, &session->device, error);
  }
  if (backend->apart) {
    ranks.deadline_seconds = session->ranks == 1 ? 0 : ranks.deadline_seconds;  // one rank waits for nobody
    if (!processes_create(set, backend, options->threads, &ranks, &session->processes, error)) {
      return false;
    }
    session->backend = processes_backend(session->processes);
    session->device = processes_device(session->processes, 0);
    return true;
  }
  if (!crew_create(set, backend, options->threads, &ranks, &session->crew, error)) {
    return false;
  }
  session->device = crew_device(session->crew, 0);
  return true;
}

void session_close(Session *session) {
  if (session->processes) {
    processes_destroy(session->processes);
  } else if (session->crew) {
    crew_destroy(session->crew);
  } else if (session->device) {
    session->backend->close(session->device);
  }
  free(session->single);
  *session = (Session){0};
}

bool session_has(const Session *session, ProgramKind program) {
  return session->plan->programs[program].call_count > 0;
}

const Plan *session_plan(const Session *session, int64_t rank) {
  return plan_of_rank(session->set, rank);
}

Device *session_device(const Session *session, int64_t rank) {
  return session->processes ? processes_device(session->processes, rank)
         : session->crew    ? crew_device(session->crew, rank)
                            : session->device;
}

const PlanInput *session_input(const Plan *plan, ProgramKind program, const char *name) {
  const PlanProgram *of = &plan->programs[program];
  for (int i = 0; i < of->input_count; i++) {
    if (strcmp(of->inputs[i].name, name) == 0) {
      return &of->inputs[i];
    }
  }
  return NULL;
}

const PlanOutput *session_output(const Plan *plan, ProgramKind program, const char *name) {
  const PlanProgram *of = &plan->programs[program];
  for (int i = 0; i < of->output_count; i++) {
    if (strcmp(of->outputs[i].name, name) == 0) {
      return &of->outputs[i];
    }
  }
  return NULL;
}

const PlanOutput *session_find_output(const Session *session, ProgramKind program, const char *name, int64_t *rank) {
  for (*rank = 0; *rank < session->ranks; (*rank)++) {
    const PlanOutput *output = session_output(session_plan(session, *rank), program, name);
    if (output) {
      return output;
    }
  }
  *rank = 0;
  return NULL;
}

int64_t session_numbers(const PlanOutput *output) {
  const bool few = output->axis_count == 1 && output->size[0] <= SHOWN_NUMBERS && strcmp(output->axis[0], "batch") != 0;
  return output->axis_count == 0 ? 1 : few ? output->size[0] : 0;
}

// Those of tests and of `mdl diff` have a path.
static bool is_shown(const PlanOutput *output) {
  static const char *const own[] = {STEP_OUTPUTS};
  bool shown = session_numbers(output) > 0 && element_type_floating(output->type) && !strchr(output->name, '.');
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    shown = shown && strcmp(output->name, own[i]) != 0;
  }
  return shown;
}

static bool is_measure(const PlanOutput *output) {
  static const char *const of[] = {"load.", "dropped.", "grad_norm.", "param_norm.", "update_norm."};
  bool said = false;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    said |= strncmp(output->name, of[i], strlen(of[i])) == 0;
  }
  return said && output->axis_count == 0 && element_type_floating(output->type);
}

static int names_of(const Session *session, ProgramKind of, bool (*wanted)(const PlanOutput *), const char **names,
                    int most) {
  int count = 0;
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    const PlanProgram *program = &session_plan(session, rank)->programs[of];
    for (int i = 0; i < program->output_count && count < most; i++) {
      bool shown = wanted(&program->outputs[i]);
      for (int k = 0; k < count && shown; k++) {
        shown = strcmp(names[k], program->outputs[i].name) != 0;
      }
      if (shown) {
        names[count++] = program->outputs[i].name;
      }
    }
  }
  return count;
}

int session_shown(const Session *session, ProgramKind program, const char **names, int most) {
  return names_of(session, program, is_shown, names, most);
}

int session_measures(const Session *session, const char **names, int most) {
  return names_of(session, PROGRAM_TRAIN, is_measure, names, most);
}

static bool number_write(Session *session, int64_t rank, ProgramKind program, const char *name, int64_t value,
                         Error *error) {
  const Plan *plan = session_plan(session, rank);
  const PlanInput *input = session_input(plan, program, name);
  int32_t number = (int32_t)value;
  int slots = !input ? 0 : input->place.slot_stride ? plan->programs[program].slots : 1;
  for (int slot = 0; slot < slots; slot++) {
    int64_t offset = input->place.offset + slot * input->place.slot_stride;
    if (!session->backend->write(session_device(session, rank), input->place.arena, offset, &number, sizeof number,
                                 error)) {
      return false;
    }
  }
  return true;
}

int session_ahead(const Session *session) {
  return session->backend->ahead;
}

bool session_wait(Session *session, int behind, Error *error) {
  if (session->processes) {
    return processes_wait(session->processes, behind, error);
  }
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    if (!session->backend->wait(session_device(session, rank), behind, error)) {
      return false;
    }
  }
  return true;
}

bool session_run(Session *session, ProgramKind program, int64_t step, Error *error) {
  return session_submit(session, program, step, error) && session_wait(session, 0, error) &&
         (program != PROGRAM_INITIALISE || session_refresh(session, error));
}

bool session_refresh(Session *session, Error *error) {
  session->warm = false;
  return !session_has(session, PROGRAM_REFRESH) || session_run(session, PROGRAM_REFRESH, 0, error);
}

static bool history_knows(Session *session, int64_t rank, const PlanState *state, bool *know, Error *error) {
  const int64_t count = state->flat_count ? state->flat_piece : state->size[0], size = element_type_bytes(state->type);
  char bytes[4096];
  for (int64_t at = 0; at < count * size && !*know; at += (int64_t)sizeof bytes) {
    const int64_t left = count * size - at, here = left < (int64_t)sizeof bytes ? left : (int64_t)sizeof bytes;
    if (!session->backend->read(session_device(session, rank), ARENA_PERSISTENT, state->offset + at, bytes, here,
                                error)) {
      return false;
    }
    for (int64_t i = 0; i < here; i += size) {
      *know |= element_get(state->type, bytes + i) > 0;
    }
  }
  return true;
}

// Is a rank the first of its stage?
static bool begins_stage(const Plan *plan, int64_t rank) {
  int coordinate[PLAN_MAX_MESH] = {0};
  plan_coordinates(plan, rank, coordinate);
  if (plan->pipeline >= 0) {
    coordinate[plan->pipeline] = 0;
  }
  return plan_rank(plan, coordinate) == 0;
}

// Does a history of scales hold a number? Whoever has recorded one has recorded all that can be; but a stage of a
// pipeline may have none.
static bool histories_know(Session *session, bool *know, Error *error) {
  *know = false;
  for (int64_t rank = 0; rank < session->ranks && !*know; rank++) {
    const Plan *plan = session_plan(session, rank);
    for (int s = 0; begins_stage(plan, rank) && s < plan->state_count && !*know; s++) {
      if (plan_state_is_history(&plan->states[s]) && !history_knows(session, rank, &plan->states[s], know, error)) {
        return false;
      }
    }
  }
  return true;
}

// That of the step's precision. While histories know nothing, training steps are cold ones, one at a time.
static bool step_program(Session *session, int64_t step, ProgramKind *program, Error *error) {
  const PlanPhase *phase = plan_phase(session->plan, step);
  const int policy = phase ? phase->policy : 0;
  if (*program != PROGRAM_TRAIN) {
    return true;
  }
  *program = plan_train_program(policy, false);
  if (session->warm || !session_has(session, plan_train_program(policy, true))) {
    return true;
  }
  if (!session_wait(session, 0, error) || !histories_know(session, &session->warm, error)) {
    return false;
  }
  *program = plan_train_program(policy, !session->warm);
  return true;
}

static bool submit(Session *session, ProgramKind program, int64_t step, int64_t draw, Error *error) {
  if (!session_has(session, program)) {
    return error_set(error, 1, "the plan has no program '%s'", program_kind_name(program));
  }
  session->warm &= program != PROGRAM_INITIALISE;
  if (!step_program(session, step, &program, error)) {
    return false;
  }
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    if (!number_write(session, rank, program, INPUT_STEP, step, error) ||
        !number_write(session, rank, program, INPUT_DRAW, draw, error)) {
      return false;
    }
  }
  return session->processes ? processes_run(session->processes, program, error)
         : session->crew    ? crew_run(session->crew, program, error)
                            : session->backend->run(session->device, program, error);
}

bool session_submit(Session *session, ProgramKind program, int64_t step, Error *error) {
  session->step = program == PROGRAM_TRAIN ? step : session->step;
  return submit(session, program, step, step, error);
}

bool session_score(Session *session, ProgramKind program, int64_t draw, Error *error) {
  return submit(session, program, session->step > 0 ? session->step : 1, draw, error) &&
         session_wait(session, 0, error);
}

bool session_scalar(Session *session, ProgramKind program, const char *name, double *value, Error *error) {
  return session_read(session, program, name, 1, value, error);
}

bool session_read(Session *session, ProgramKind program, const char *name, int count, double *values, Error *error) {
  int64_t rank;
  const PlanOutput *output = session_find_output(session, program, name, &rank);
  for (int i = 0; i < count; i++) {
    values[i] = NAN;
  }
  if (!output) {
    return true;
  }
  char bytes[8 * SHOWN_NUMBERS] = {0};
  const int64_t size = element_type_bytes(output->type), stride = output->axis_count > 0 ? output->stride[0] : 1;
  const int together = stride == 1 ? SHOWN_NUMBERS : 1;  // numbers of one call
  for (int at = 0; at < count; at += together) {
    const int here = count - at < together ? count - at : together;
    if (!session->backend->read(session_device(session, rank), output->place.arena,
                                output->place.offset + at * stride * size, bytes, here * size, error)) {
      return false;
    }
    for (int i = 0; i < here; i++) {
      values[at + i] = units_plain(element_get(output->type, bytes + i * size));
    }
  }
  return true;
}

SessionMemory session_memory(const Session *session) {
  SessionMemory all = {0};
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    DeviceFacts facts;
    session->backend->facts(session_device(session, rank), &facts);
    if (facts.memory_bytes < 0) {
      return (SessionMemory){.taken = -1};
    }
    all.taken += facts.memory_bytes;
    all.beside += facts.beside_bytes;
    all.joined += facts.joined_bytes;
    all.joined_predicted += facts.joined_predicted;
  }
  return all;
}

// Adds the lines of `text` that are not there yet.
static void lines_add(Buffer *out, const char *text) {
  while (*text) {
    const size_t length = strcspn(text, "\n");
    bool there = false;
    for (const char *line = out->text ? out->text : ""; *line && !there;) {
      const size_t size = strcspn(line, "\n");
      there = size == length && memcmp(line, text, size) == 0;
      line += size + (line[size] == '\n');
    }
    if (!there) {
      buffer_bytes(out, text, length);
      buffer_text(out, "\n");
    }
    text += length + (text[length] == '\n');
  }
}

void session_record(Session *session, Buffer *out) {
  for (int64_t rank = 0; session->backend->record && rank < session->ranks; rank++) {
    Buffer text = {0};
    session->backend->record(session_device(session, rank), &text);
    lines_add(out, text.text ? text.text : "");
    out->failed |= text.failed;
    buffer_free(&text);
  }
}

void session_trace(Session *session, bool on) {
  for (int64_t rank = 0; rank < session->ranks; rank++) {
    session->backend->trace(session_device(session, rank), on);
  }
}

static bool held_before(const PlanSet *set, int stage, const char *name) {
  for (int i = 0; i < stage; i++) {
    if (plan_find_state(set->plans[i], name) >= 0) {
      return true;
    }
  }
  return false;
}

static double parameters_of(const PlanSet *set, bool trained) {
  double count = 0;
  for (int stage = 0; stage < set->count; stage++) {
    const Plan *plan = set->plans[stage];
    for (int i = 0; i < plan->state_count; i++) {
      const PlanState *state = &plan->states[i];
      double elements = 1;
      for (int axis = 0; axis < state->axis_count; axis++) {
        elements *= (double)state->size[axis];
      }
      const bool counts = state->role == STATE_PARAMETER && !(trained && state->frozen);
      count += counts && !held_before(set, stage, state->name) ? elements : 0;
    }
  }
  return count;
}

double session_parameters(const PlanSet *set) {
  return parameters_of(set, false);
}

double session_trained(const PlanSet *set) {
  return parameters_of(set, true);
}
