// evaluate.c: batches of validation windows in order.
#include "runtime/evaluate.h"

#include <math.h>

#include "runtime/clock.h"
#include "runtime/interrupt.h"

typedef struct {
  Session *session;
  Feed *feed;
  ShownList *shown;  // with sums
  double sum;        // of losses
  int64_t batches;
} Evaluating;

// Adds the loss and the outputs of one batch, of `count` windows from `first` on: `weight` times, or where the model
// has a mask as often as it counts targets, of which there may be none, and so no loss.
static bool batch_add(Evaluating *e, int64_t first, int64_t count, double weight, Error *error) {
  double loss;
  if (!feed_validation(e->feed, e->session, first, count, error) ||
      !session_run(e->session, PROGRAM_EVALUATE, 1, error) ||
      !session_scalar(e->session, PROGRAM_EVALUATE, "loss", &loss, error)) {
    return false;
  }
  weight = feed_masks(e->feed) ? (double)feed_counted(e->feed) : weight;
  e->batches++;
  if (weight == 0) {
    return true;
  }
  if (!shown_read(e->shown, e->session, PROGRAM_EVALUATE, error)) {
    return false;
  }
  e->sum += loss * weight;
  for (int i = 0; i < e->shown->count; i++) {
    e->shown->at[i].sum += e->shown->at[i].value * weight;
  }
  return true;
}

// Windows that do not fill a batch are repeated in it, the first of them once more than the others where that does not
// come out even. Then the sum of all is `rows` times the mean less that of those first ones, by the times that each is
// repeated; theirs is found in the same way, as in Euclid's algorithm.
static bool windows_add(Evaluating *e, int64_t first, int64_t count, Error *error) {
  const int64_t rows = feed_rows(e->feed);
  double share = 1;
  while (count > 0) {
    const int64_t times = rows / count;
    if (!batch_add(e, first, count, share * (double)rows / (double)times, error)) {
      return false;
    }
    share /= -(double)times;
    count = feed_masks(e->feed) ? 0 : rows % count;
  }
  return true;
}

bool evaluate_run(Session *session, Feed *feed, const Data *data, int64_t limit, ShownList *shown, Evaluation *result,
                  Error *error) {
  ShownList none = {0};
  shown = shown ? shown : &none;
  Evaluating evaluating = {.session = session, .feed = feed, .shown = shown};
  // A limit is of windows, so that it is the same however many of them a batch has.
  const int64_t all = data_facts(data).validation_windows, rows = feed_rows(feed);
  const int64_t windows = limit > 0 && limit <= all / rows ? limit * rows : all;
  double start = clock_seconds(), weight = 0;
  *result = (Evaluation){.loss = NAN, .unit = session->plan->run.loss_unit};
  for (int i = 0; i < shown->count; i++) {
    shown->at[i].sum = 0;
  }
  for (int64_t at = 0; at < windows && !interrupt_requested(); at += rows) {
    const int64_t used = windows - at < rows ? windows - at : rows;
    if (!windows_add(&evaluating, at, used, error)) {
      return false;
    }
    const int64_t counted = feed_masks(feed) ? feed_counted(feed) : used;
    weight += (double)counted;
    result->windows += used;
    result->tokens += feed_masks(feed) ? counted : used * feed_sequence(feed);
  }
  result->batches = evaluating.batches;
  result->loss = weight > 0 ? evaluating.sum / weight : NAN;
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
