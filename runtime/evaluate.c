// evaluate.c: batches of validation windows in order.
#include "runtime/evaluate.h"

#include <math.h>

#include "runtime/clock.h"
#include "runtime/interrupt.h"

typedef struct {
  Session *session;
  Feed *feed;
  ShownList *shown;  // with sums
  Shown loss;
  bool exact;                      // something is weighed by samples, and so to be exact where windows are repeated
  int64_t batches, tokens, bytes;  // bytes -1: not known
} Evaluating;

typedef struct {
  double samples;  // how often it counts for a mean over samples; below 0: it is taken away again
  double batches;  // for what samples have together
  bool again;      // a batch before it had the same windows, and others
} Weights;

static void number_add(Shown *shown, const Weights *weights, double counted) {
  const double weight[] = {[WEIGH_SAMPLES] = weights->samples,
                           [WEIGH_ANSWERS] = weights->samples,
                           [WEIGH_BATCHES] = weights->batches,
                           [WEIGH_COUNTED] = counted};
  const bool had = isinf(shown->value) && weights->again;
  if (weight[shown->weighing] != 0 && !had) {  // else there may be no number
    shown->sum += shown->value * weight[shown->weighing];
    shown->weight += weight[shown->weighing];
  }
}

// Adds the loss and the outputs of one batch, of `count` windows from `first` on. A mean over what the mask counts
// counts as often as that counts targets, and once for a window.
static bool batch_add(Evaluating *e, int64_t first, int64_t count, const Weights *weights, Error *error) {
  if (!feed_validation(e->feed, e->session, first, count, weights->batches == 0, error) ||
      !session_run(e->session, PROGRAM_EVALUATE, 1, error) ||
      !session_scalar(e->session, PROGRAM_EVALUATE, "loss", &e->loss.value, error) ||
      !shown_read(e->shown, e->session, PROGRAM_EVALUATE, error)) {
    return false;
  }
  const int64_t counted = weights->batches > 0 ? feed_counted(e->feed) : 0;
  e->batches++;
  if (weights->batches > 0) {
    e->tokens += feed_answers(e->feed) ? counted : count * feed_sequence(e->feed);
    e->bytes = e->bytes < 0 || feed_bytes(e->feed) < 0 ? -1 : e->bytes + feed_bytes(e->feed);
  }
  number_add(&e->loss, weights, (double)counted);
  for (int i = 0; i < e->shown->count; i++) {
    number_add(&e->shown->at[i], weights, (double)counted);
  }
  return true;
}

// Windows that do not fill a batch are repeated in it, the first of them once more than the others where that does not
// come out even. Then a sum over all samples is `rows` times the mean less that of those first ones, by the times that
// each is repeated; theirs is found in the same way, as in Euclid's algorithm. What samples have together cannot be
// taken away again: the first of these batches stands for all of its windows. A mask leaves repeated windows out of
// that one, where means over samples need a batch more, with them.
static bool windows_add(Evaluating *e, int64_t first, int64_t count, Error *error) {
  const int64_t rows = feed_rows(e->feed);
  const bool apart = feed_masks(e->feed) && count < rows;
  Weights weights = {.batches = (double)count};
  if ((apart || !e->exact) && !batch_add(e, first, count, &weights, error)) {
    return false;
  }
  weights.batches = apart ? 0 : weights.batches;
  double share = 1;
  for (int64_t left = e->exact ? count : 0; left > 0;) {
    const int64_t times = rows / left;
    weights.samples = share * (double)rows / (double)times;
    if (!batch_add(e, first, left, &weights, error)) {
      return false;
    }
    weights.batches = 0;
    weights.again = true;
    share /= -(double)times;
    left = rows % left;
  }
  return true;
}

static void number_begin(Evaluating *e, Shown *shown) {
  shown->sum = shown->weight = 0;
  e->exact |= shown->weighing == WEIGH_SAMPLES || shown->weighing == WEIGH_ANSWERS;
}

static void number_end(Shown *shown) {
  shown->value = shown->weight > 0 ? shown->sum / shown->weight : NAN;
}

static void evaluation_begin(Evaluating *e) {
  int64_t rank;
  const PlanOutput *loss = session_find_output(e->session, PROGRAM_EVALUATE, "loss", &rank);
  e->loss.weighing = loss ? loss->weighing : WEIGH_SAMPLES;
  number_begin(e, &e->loss);
  for (int i = 0; i < e->shown->count; i++) {
    number_begin(e, &e->shown->at[i]);
  }
}

bool evaluate_run(Session *session, Feed *feed, const Data *data, int64_t limit, ShownList *shown, Evaluation *result,
                  Error *error) {
  ShownList none = {0};
  shown = shown ? shown : &none;
  Evaluating evaluating = {.session = session, .feed = feed, .shown = shown};
  // A limit is of windows, so that it is the same however many of them a batch has.
  const int64_t all = data_facts(data).validation_windows, rows = feed_rows(feed);
  const int64_t windows = limit > 0 && limit <= all / rows ? limit * rows : all;
  double start = clock_seconds();
  *result = (Evaluation){.unit = session->plan->run.loss_unit};
  evaluation_begin(&evaluating);
  for (int64_t at = 0; at < windows && !interrupt_requested(); at += rows) {
    const int64_t used = windows - at < rows ? windows - at : rows;
    if (!windows_add(&evaluating, at, used, error)) {
      return false;
    }
    result->windows += used;
  }
  result->batches = evaluating.batches;
  result->tokens = evaluating.tokens;
  result->bytes = evaluating.bytes;
  number_end(&evaluating.loss);
  result->loss = evaluating.loss.value;
  for (int i = 0; i < shown->count; i++) {
    number_end(&shown->at[i]);
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

double evaluate_bits_per_byte(const Evaluation *evaluation) {
  const bool known = evaluation->unit == LOSS_NATS && evaluation->bytes > 0;
  return known ? evaluation->loss / log(2) * (double)evaluation->tokens / (double)evaluation->bytes : NAN;
}
