// step_outputs.c: a copy of what a training step has put out, from the first rank that has it.
#include "runtime/step_outputs.h"

#include <stdlib.h>
#include <string.h>

struct StepOutput {
  const PlanOutput *output;
  int64_t rank;
  char *copy;
};

// Of all stages, each once.
static bool outputs_find(StepOutputs *outputs, const Session *session, Error *error) {
  for (int s = 0; s < session->set->count; s++) {
    const PlanProgram *program = &session->set->plans[s]->programs[PROGRAM_TRAIN];
    for (int i = 0; i < program->output_count; i++) {
      struct StepOutput one = {0};
      one.output = session_find_output(session, PROGRAM_TRAIN, program->outputs[i].name, &one.rank);
      if (one.output != &program->outputs[i]) {  // another stage has it as well
        continue;
      }
      const int64_t bytes = plan_output_bytes(one.output);
      one.copy = malloc((size_t)bytes + 1);
      if (!one.copy) {
        return error_set(error, 3, "no memory to keep the output '%s' of a step, %lld bytes", one.output->name,
                         (long long)bytes);
      }
      outputs->at[outputs->count++] = one;
    }
  }
  return true;
}

bool step_outputs_open(StepOutputs *outputs, const Session *session, Error *error) {
  size_t most = 1;
  for (int s = 0; s < session->set->count; s++) {
    most += (size_t)session->set->plans[s]->programs[PROGRAM_TRAIN].output_count;
  }
  *outputs = (StepOutputs){.at = calloc(most, sizeof *outputs->at)};
  return outputs->at ? outputs_find(outputs, session, error)
                     : error_set(error, 3, "no memory for the outputs of a step");
}

void step_outputs_close(StepOutputs *outputs) {
  for (int i = 0; i < outputs->count; i++) {
    free(outputs->at[i].copy);
  }
  free(outputs->at);
  *outputs = (StepOutputs){0};
}

static bool output_read(Session *session, const PlanOutput *output, int64_t rank, void *to, Error *error) {
  return session->backend->read(session_device(session, rank), output->place.arena, output->place.offset, to,
                                plan_output_bytes(output), error);
}

bool step_outputs_keep(StepOutputs *outputs, Session *session, Error *error) {
  for (int i = 0; i < outputs->count; i++) {
    if (!output_read(session, outputs->at[i].output, outputs->at[i].rank, outputs->at[i].copy, error)) {
      return false;
    }
  }
  outputs->keeps = true;
  return true;
}

void step_outputs_restore(const StepOutputs *outputs, const Session *session) {
  for (int i = 0; session->backend->host && i < outputs->count; i++) {
    const struct StepOutput *one = &outputs->at[i];
    const Place *place = &one->output->place;
    memcpy(session->backend->host(session_device(session, one->rank), place->arena, place->offset), one->copy,
           (size_t)plan_output_bytes(one->output));
  }
}

void step_outputs_drop(StepOutputs *outputs) {
  outputs->keeps = false;
}

bool step_outputs_read(const StepOutputs *outputs, Session *session, const char *name, void *to, Error *error) {
  int64_t rank;
  const PlanOutput *output = session_find_output(session, PROGRAM_TRAIN, name, &rank);
  for (int i = 0; outputs->keeps && i < outputs->count; i++) {
    if (outputs->at[i].output == output) {
      memcpy(to, outputs->at[i].copy, (size_t)plan_output_bytes(output));
      return true;
    }
  }
  return output_read(session, output, rank, to, error);
}
