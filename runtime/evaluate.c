// evaluate.c: batches of validation windows in order.
#include "runtime/evaluate.h"

#include <math.h>

#include "runtime/clock.h"
#include "runtime/interrupt.h"

// Adds the outputs of a batch to their sums.
static bool shown_add(Session *session, ShownList *shown, double weight, Error *error) {
  if (!shown_read(shown, session, PROGRAM_EVALUATE, error)) {
    return false;
  }
  for (int i = 0; i < shown->count; i++) {
    shown->at[i].sum += shown->at[i].value * weight;
  }
  return true;
}

bool evaluate_run(Session *session, Feed *feed, const Data *data, int64_t limit, ShownList *shown, Evaluation *result,
                  Error *error) {
  ShownList none = {0};
  shown = shown ? shown : &none;
  // A limit is of windows, so that it is the same however many of them a batch has.
  const int64_t all = data_facts(data).validation_windows, rows = feed_rows(feed);
  const int64_t windows = limit > 0 && limit < all / rows ? limit * rows : all;
  double start = clock_seconds(), sum = 0, weight = 0;
  *result = (Evaluation){.loss = NAN, .unit = session->plan->run.loss_unit};
  for (int i = 0; i < shown->count; i++) {
    shown->at[i].sum = 0;
  }
  for (int64_t at = 0, used; at < windows && !interrupt_requested(); at += used) {
    double loss;
    used = feed_validation_most(feed, at, windows);
    if (!feed_validation(feed, session, at, used, error) || !session_run(session, PROGRAM_EVALUATE, 1, error) ||
        !session_scalar(session, PROGRAM_EVALUATE, "loss", &loss, error)) {
      return false;
    }
    // With a mask, a batch without answers has no loss.
    const int64_t counted = feed_masks(feed) ? feed_counted(feed) : used;
    sum += counted > 0 ? loss * (double)counted : 0;
    weight += (double)counted;
    if (counted > 0 && !shown_add(session, shown, (double)counted, error)) {
      return false;
    }
    result->batches++;
    result->windows += used;
    result->tokens += feed_masks(feed) ? counted : used * feed_sequence(feed);
  }
  result->loss = weight > 0 ? sum / weight : NAN;
  for (int i = 0; i < shown->count; i++) {
    shown->at[i].value = weight > 0 ? shown->at[i].sum / weight : NAN;
  }
  result->seconds = clock_seconds() - start;
  return true;
}

const char *evaluate_unit(LossUnit unit) {
  static const char *const units[] = {[LOSS_NATS] = "nats per token",
                                      [LOSS_SUM] = "a sum over the tokens of a batch",
                                      [LOSS_PLAIN] = "without a unit",
                                      [LOSS_MORE] = "nats per token and other terms"};
  return units[unit];
}

double evaluate_bits_per_byte(double loss, const Data *data) {
  return loss / log(2) / data_facts(data).bytes_per_token;
}
