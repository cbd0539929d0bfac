// validation.c: one feed for each source, evaluated one after the other.
#include "runtime/validation.h"

#include <math.h>

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

bool validation_run(Validation *validation, Session *session, int64_t limit, Evaluation *all, Error *error) {
  double sum = 0;
  *all = (Evaluation){.loss = NAN};
  for (int i = 0; i < validation->count && !interrupt_requested(); i++) {
    Evaluation *one = &validation->result[i];
    if (!evaluate_run(session, validation->feed[i], validation->data[i], limit, one, error)) {
      return false;
    }
    sum += one->loss;
    all->batches += one->batches;
    all->windows += one->windows;
    all->tokens += one->tokens;
    all->seconds += one->seconds;
  }
  all->loss = validation->count > 0 ? sum / validation->count : NAN;
  return true;
}
