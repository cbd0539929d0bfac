// validation.c: one feed for each source, evaluated one after the other.
#include "runtime/validation.h"

#include <math.h>
#include <stdlib.h>

#include "base/units.h"
#include "runtime/data/chat.h"
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

int64_t validation_limit(const Plan *plan, int64_t batches) {
  const int64_t slots = plan->programs[PROGRAM_TRAIN].slots;
  return batches <= INT64_MAX / slots ? batches * slots : 0;
}

bool validation_run(Validation *validation, Session *session, int64_t limit, ShownList *shown, Evaluation *all,
                    Error *error) {
  double sum = 0;
  int counted = 0;
  const int outputs = shown ? shown->count : 0;
  double *means = calloc(2 * (size_t)outputs + 1, sizeof *means), *sets = means + outputs;
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
    one->loss = units_plain(one->loss);
    for (int k = 0; k < outputs; k++) {
      means[k] += evaluate_has(&shown->at[k]) ? shown->at[k].value : 0;
      sets[k] += evaluate_has(&shown->at[k]);
    }
    sum += one->tokens > 0 ? one->loss : 0;
    counted += one->tokens > 0;
    all->unit = one->unit;
    all->batches += one->batches;
    all->windows += one->windows;
    all->tokens += one->tokens;
    all->bytes = all->bytes < 0 || one->bytes < 0 ? -1 : all->bytes + one->bytes;
    all->seconds += one->seconds;
  }
  for (int k = 0; k < outputs; k++) {
    shown->at[k].value = sets[k] > 0 ? units_plain(means[k] / sets[k]) : NAN;
  }
  free(means);
  all->loss = counted > 0 ? units_plain(sum / counted) : NAN;
  return true;
}

// Is one of the targets of a window counted?
static bool window_answers(const Data *data, int64_t window, int64_t sequence, int32_t *tokens, uint8_t *flags,
                           bool *any, Error *error) {
  const Data *part = data_validation_part(data, &window);
  if (!data_validation_window(part, window, tokens, error) ||
      !data_validation_flags(part, window, tokens, flags, error)) {
    return false;
  }
  for (int64_t i = 1; i <= sequence; i++) {
    *any |= flags[i] & TOKEN_ANSWER;
  }
  return true;
}

bool validation_answers(const Validation *validation, int64_t limit, bool *any, Error *error) {
  bool done = true;
  *any = false;
  for (int i = 0; i < validation->count && done && !*any; i++) {
    const Data *data = validation->data[i];
    const int64_t windows = data_facts(data).validation_windows, rows = feed_rows(validation->feed[i]);
    const int64_t most = limit > 0 && limit <= windows / rows ? limit * rows : windows;
    const int64_t sequence = feed_sequence(validation->feed[i]);
    const size_t count = (size_t)sequence + 1;
    if (!feed_answers(validation->feed[i])) {
      *any = true;
      break;
    }
    int32_t *tokens = calloc(count, sizeof *tokens);
    uint8_t *flags = calloc(count, sizeof *flags);
    done = (tokens && flags) || error_set(error, 3, "no memory for a window of %zu tokens", count);
    for (int64_t w = 0; done && !*any && w < most; w++) {
      done = window_answers(data, w, sequence, tokens, flags, any, error);
    }
    free(tokens);
    free(flags);
  }
  return done;
}
