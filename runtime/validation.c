// validation.c: one feed for each source, evaluated one after the other.
#include "runtime/validation.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/interrupt.h"

bool validation_open(Validation *validation, const PlanSet *set, const Data *data, Error *error) {
  const int count = data_set_count(data);
  for (int i = 0; i < count; i++) {
    validation->data[i] = data_set(data, i, &validation->name[i]);
    if (!feed_create(set, PROGRAM_EVALUATE, validation->data[i], &validation->feed[i], error)) {
      return false;
    }
    validation->count++;
  }
  return true;
}

void validation_close(Validation *validation) {
  for (int i = 0; i < validation->count; i++) {
    feed_destroy(validation->feed[i]);
  }
  *validation = (Validation){0};
}

bool validation_run(Validation *validation, Session *session, int64_t limit, ShownList *shown, Evaluation *all,
                    Error *error) {
  double sum = 0;
  const int outputs = shown ? shown->count : 0;
  double *means = calloc((size_t)outputs + 1, sizeof *means);
  if (!means) {
    return error_set(error, 3, "no memory for %d outputs", outputs);
  }
  *all = (Evaluation){.loss = NAN};
  for (int i = 0; i < validation->count && !interrupt_requested(); i++) {
    Evaluation *one = &validation->result[i];
    if (!evaluate_run(session, validation->feed[i], validation->data[i], limit, shown, one, error)) {
      free(means);
      return false;
    }
    sum += one->loss;
    for (int k = 0; k < outputs; k++) {
      means[k] += shown->at[k].value / validation->count;
    }
    all->batches += one->batches;
    all->windows += one->windows;
    all->tokens += one->tokens;
    all->seconds += one->seconds;
  }
  for (int k = 0; k < outputs; k++) {
    shown->at[k].value = validation->count > 0 ? means[k] : NAN;
  }
  free(means);
  all->loss = validation->count > 0 ? sum / validation->count : NAN;
  return true;
}
