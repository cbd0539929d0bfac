// session.c: running programs and reading numbers.
#include "runtime/session.h"

#include <math.h>
#include <string.h>

bool session_open(Session *session, const Plan *plan, const Backend *backend, int threads, Error *error) {
  DeviceOptions options = {.threads = threads};
  *session = (Session){.plan = plan, .backend = backend};
  return backend->open(plan, &options, &session->device, error);
}

void session_close(Session *session) {
  if (session->device) {
    session->backend->close(session->device);
  }
  *session = (Session){0};
}

bool session_has(const Session *session, ProgramKind program) {
  return session->plan->programs[program].call_count > 0;
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

bool session_run(Session *session, ProgramKind program, int64_t step, Error *error) {
  const PlanInput *input = session_input(session->plan, program, "step");
  if (input) {
    int32_t number = (int32_t)step;
    int slots = input->place.slot_stride ? session->plan->programs[program].slots : 1;
    for (int slot = 0; slot < slots; slot++) {
      int64_t offset = input->place.offset + slot * input->place.slot_stride;
      if (!session->backend->write(session->device, input->place.arena, offset, &number, sizeof number, error)) {
        return false;
      }
    }
  }
  return session->backend->run(session->device, program, error);
}

bool session_scalar(Session *session, ProgramKind program, const char *name, double *value, Error *error) {
  const PlanOutput *output = session_output(session->plan, program, name);
  *value = NAN;
  if (!output) {
    return true;
  }
  char bytes[8] = {0};
  if (!session->backend->read(session->device, output->place.arena, output->place.offset, bytes,
                              element_type_bytes(output->type), error)) {
    return false;
  }
  *value = element_get(output->type, bytes);
  return true;
}

static double half_get(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  double fraction = bits & 1023;
  double value = exponent == 0    ? ldexp(fraction, -24)
                 : exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                                  : ldexp(fraction + 1024, exponent - 25);
  return bits >> 15 ? -value : value;
}

double element_get(ElementType type, const void *at) {
  double wide;
  float single;
  uint16_t half;
  uint32_t word;
  int32_t integer;
  switch (type) {
    case TYPE_F64:
      memcpy(&wide, at, sizeof wide);
      return wide;
    case TYPE_F32:
      memcpy(&single, at, sizeof single);
      return (double)single;
    case TYPE_BF16:
      memcpy(&half, at, sizeof half);
      word = (uint32_t)half << 16;
      memcpy(&single, &word, sizeof single);
      return (double)single;
    case TYPE_F16:
      memcpy(&half, at, sizeof half);
      return half_get(half);
    case TYPE_INT:
    case TYPE_INDEX:
    case TYPE_BOOL:
      memcpy(&integer, at, sizeof integer);
      return integer;
    default:
      return NAN;
  }
}

bool element_put(ElementType type, void *at, double value) {
  float single = (float)value;
  uint32_t word;
  uint16_t half;
  int32_t integer;
  switch (type) {
    case TYPE_F64:
      memcpy(at, &value, sizeof value);
      return true;
    case TYPE_F32:
      memcpy(at, &single, sizeof single);
      return true;
    case TYPE_BF16:  // the host writes small whole numbers only, which bf16 holds by cutting
      memcpy(&word, &single, sizeof word);
      half = (uint16_t)(word >> 16);
      memcpy(at, &half, sizeof half);
      return true;
    case TYPE_INT:
    case TYPE_INDEX:
    case TYPE_BOOL:
      integer = (int32_t)value;
      memcpy(at, &integer, sizeof integer);
      return true;
    default:
      return false;
  }
}
